# %% [markdown]
# # The arc-cosine kernel
#
# **Statement.** For ReLU and $u, v$ centred Gaussian of variance $q$ and correlation $\rho$,
#
# $$\mathbb{E}\,\phi(u)\phi(v) = q\,\kappa(\rho),\qquad
# \kappa(\rho) = \frac{1}{2\pi}\left[\sqrt{1 - \rho^2} + \rho\,(\pi - \arccos\rho)\right],\qquad
# \mathbb{E}\,\phi'(u)\phi'(v) = \dot\kappa(\rho) = \frac{\pi - \arccos\rho}{2\pi}$$
#
# **Source.** Cho and Saul (2009), degree 1; it is the $\kappa$ of Eqs. (6) and (7) of *Normalization-free transformers are subcritical*,
# Part 2, where an MLP adds $\tfrac12 w\,\tilde q$ to $q$ and $w\,\tilde q\,\kappa(\tilde p/\tilde q)$ to $p$, $w = \sigma_1^2\sigma_2^2$.
#
# **Assumptions.** None beyond the Gaussian pair: this is an identity.

# %%
import meanfield as mf
import numpy as np
import sympy as sp

rho = mf.rho

# %% [markdown]
# ## Derivation and certificate
#
# The certificate below the steps does not use them: the kernel is determined by its derivative in $p$ (Price) and its value at $p = 0$.

# %%
relu = mf.relu.derive("kernel")
assert relu.certificate.holds
relu

# %% [markdown]
# With $p = \rho q$ this is $q\,\kappa(\rho)$, and Price's identity gives $\dot\kappa = \kappa'$:

# %%
kappa = sp.simplify(relu.result.subs(mf.p, rho * mf.q) / mf.q)
assert sp.simplify(kappa.diff(rho) - mf.relu.derivative.kernel(1, rho)) == 0
(
    sp.Eq(sp.Symbol(r"\kappa(\rho)"), kappa),
    sp.Eq(sp.Symbol(r"\dot\kappa(\rho)"), mf.relu.derivative.kernel(1, rho)),
)

# %% [markdown]
# The same calls give the rest of the family. For unequal variances, for a leaky slope $s$, and for the square of ReLU, which is
# Cho and Saul's degree 2:

# %%
s = sp.Symbol("s", positive=True)
leaky, squared = mf.leaky_relu(s).derive("kernel"), mf.activations["relu_squared"].derive("kernel")
assert leaky.certificate.holds
assert squared.certificate.holds
mf.relu.kernel(mf.q1, mf.p, mf.q2), leaky.result.subs(mf.q, 1), squared.result.subs(mf.q, 1)

# %% [markdown]
# ## Near correlation 1
#
# With $\rho = \cos\theta$ the deviation from linearity is of third order in $\theta$, that is $(1 - \rho)^{3/2}$: the kink.

# %%
theta = sp.Symbol("theta", positive=True)
angular = (sp.sin(theta) + (sp.pi - theta) * sp.cos(theta)) / (2 * sp.pi)
assert sp.simplify(angular.subs(theta, sp.acos(rho)) - kappa) == 0
sp.series(angular - sp.cos(theta) / 2, theta, 0, 6)

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

at = np.linspace(-1, 1, 201)
figure, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
ax.plot(
    at,
    2 * mf.evaluate(mf.relu.kernel(1, rho), rho=at),
    color="#000000",
    label=r"ReLU, $2\kappa(\rho)$",
)
ax.plot(
    at,
    2 * mf.evaluate(mf.relu.derivative.kernel(1, rho), rho=at),
    color="#D55E00",
    label=r"$2\dot\kappa(\rho)$",
)
cubic = mf.activations["relu_squared"]
ax.plot(
    at,
    mf.evaluate(cubic.kernel(1, rho) / cubic.second_moment(1), rho=at),
    color="#0072B2",
    label="ReLU squared, normalised",
)
ax.set(xlabel=r"correlation $\rho$")
ax.legend()
ax

# %% [markdown]
# ## Numbers
#
# To 30 digits:

# %%
points = [sp.Rational(k, 10) for k in (-9, -5, 0, 4, 9)]
{
    r"$\rho$": [float(r) for r in points],
    r"$\kappa(\rho)$": [mf.evaluate(kappa.subs(rho, r), digits=30) for r in points],
    r"$\dot\kappa(\rho)$": [
        mf.evaluate(mf.relu.derivative.kernel(1, r), digits=30) for r in points
    ],
}

# %% [markdown]
# ## Where the source is imprecise
#
# $\kappa$ as printed cannot be *used* near $\rho = 1$, where a deep network lives: $q - p$ is lost to cancellation. The gap
# $q_{\rm out} - p_{\rm out} = \tfrac q2 - q\,\kappa(1 - \delta/q)$ has a form of its own:

# %%
deltas = np.array([1e-4, 1e-8, 1e-12, 1e-16, 1e-30])
naive = 0.5 - mf.evaluate(mf.relu.kernel(1, mf.p), p=1 - deltas)
gap = mf.evaluate(mf.relu.gap(1, mf.delta), delta=deltas)
assert np.allclose(gap, deltas / 2 - np.sqrt(2) / (3 * np.pi) * deltas**1.5, rtol=1e-4)
assert abs(naive[3] / gap[3] - 1) > 0.1
assert naive[4] == 0
{r"$\delta$": deltas, r"$\tfrac12 - \kappa(1 - \delta)$ in double precision": naive, "the gap": gap}
