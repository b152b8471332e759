"""Numbers: generated kernels for recursions and expressions, and the runs they make.

propagation    `mf.propagate`: a network over depth, for one setting or a grid
runs, gram_runs    what comes out: in (q, p), of n tokens that are told apart, of two inputs of unequal norm
evaluation     `mf.evaluate`: an expression at numbers, arrays, or to any number of digits
lowering, printing, trajectory, store    from expressions to source that is compiled once and kept
"""
