# %% [markdown]
# # The depth at which a saturating norm saturates
#
# **Statement.** A residual stream behind $\phi(\alpha x)$ with small $\alpha$ first grows as if $\phi$ were linear, and then like
# $\sigma_w^2\,l$. With $y = \alpha^2 q$ and $g(y)$ the second moment of $\phi$, the change is at
#
# $$l_* = \frac{1}{\alpha^2\sigma_w^2}\int_{\alpha^2 q_0}^1\frac{\mathrm{d}y}{g(y)}
# = \frac{\ln(1/\alpha^2 q_0) + C}{g'(0)\,\alpha^2\sigma_w^2}\,\left(1 + O(\alpha^2)\right),\qquad
# C = \int_0^1\left[\frac{g'(0)}{g(y)} - \frac1y\right]\mathrm{d}y$$
#
# **Source.** *Normalization-free transformers are subcritical*, Part 1 (labofdoubt.github.io), which has
# $l_* \approx \ln\alpha^{-2}/\ln(1 + 4\alpha^2\sigma_w^2/\pi)$ for Derf and $q_0 = 1$.
#
# **Assumptions.** $\alpha^2\sigma_w^2 \ll 1$, so that the sum over layers is an integral; no bias.

# %%
import matplotlib.pyplot as plt
import mpmath as mp
import numpy as np
import sympy as sp

import meanfield as mf

alpha = sp.Symbol("alpha", positive=True)
norms = {"Derf": mf.Derf(), "DyT": mf.DyT()}
laws = {name: mf.growth(mf.Residual(norm >> mf.Linear(sigma_b=0))) for name, norm in norms.items()}

# %% [markdown]
# ## Derivation
#
# One layer adds $\sigma_w^2\,\mathbb{E}\,\phi(\alpha u)^2$, a function of $y = \alpha^2 q$ alone:

# %%
y = sp.Symbol("y", positive=True)
g = {"Derf": mf.erf.second_moment(y), "DyT": mf.tanh.second_moment(y)}
small = {"Derf": mf.erf.taylor("second_moment", 2), "DyT": mf.tanh.taylor("second_moment", 2)}
tuple(small.values())

# %% [markdown]
# so $g'(0) = 4/\pi$ for Derf and 1 for DyT, and $l_*$ is the number of steps from $\alpha^2 q_0$ to 1. The constant, by quadrature of the
# two exact second moments:

# %%
slope = {"Derf": 4 / sp.pi, "DyT": sp.S.One}
second = {"Derf": lambda v: mp.mpf(2) / mp.pi * mp.asin(2 * v / (1 + 2 * v)), "DyT": lambda v: mf.evaluate(g["DyT"], digits=16, y=v)}
constants = {}
for name in norms:
    integrand = lambda v, name=name: mp.mpf(float(slope[name])) / second[name](v) - 1 / v  # noqa: E731
    constants[name] = float(mp.quad(integrand, [mp.mpf("1e-6"), 0.1, 1], maxdegree=4))
tuple(sp.Eq(sp.Symbol(rf"C_{{\text{{{name}}}}}"), sp.Float(value, 5)) for name, value in constants.items())
