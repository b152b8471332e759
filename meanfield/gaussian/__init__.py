r"""The calculus of Gaussian expectations: it knows nothing of networks.

expectation    the nodes E[f(u)], E[f(u) g(v)] and their gap; Price's theorem as their derivative
derivation     steps and certificate of a closed form
atoms, moments, tidying, forms, closed    the engine: x^k e^{Bx - Ax^2/2} times steps and normal distribution functions, closed under
               four rules, and how results are written
expansions, series, pair_expansions    for small and large variances
identities     exact equations between expectations that do not close
quadrature, precise, balls    numbers: compiled with a bound on the error, with any number of digits, in ball arithmetic
softmax, exchangeable    averages over softmax weights and over many exchangeable variables
"""
