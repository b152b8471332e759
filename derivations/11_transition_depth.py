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
import meanfield as mf
import numpy as np
import sympy as sp

norms = {"Derf": mf.Derf(), "DyT": mf.DyT()}
networks = {name: mf.Residual(norm >> mf.Linear(sigma_b=0)) for name, norm in norms.items()}

# %% [markdown]
# ## Derivation
#
# One layer adds $\sigma_w^2\,\mathbb{E}\,\phi(\alpha u)^2$ to $q$, a function of $y = \alpha^2 q$ alone:

# %%
q, p, alpha = mf.q, mf.p, sp.Symbol("alpha", positive=True)
(
    mf.recursion(networks["Derf"]).q - q,
    mf.erf.taylor("second_moment", 2),
    mf.tanh.taylor("second_moment", 2),
)

# %% [markdown]
# so that $g'(0)$ is $4/\pi$ for Derf and 1 for DyT, and $l_*$ counts the steps from $\alpha^2 q_0$ to 1. `transition_depth` is that
# integral, with the step of the recursion itself in the place of $g$; what it leaves over the logarithm tends to $C$:

# %%
law = mf.growth(networks["Derf"])
slopes = [0.5, 0.2, 0.1, 0.05, 0.02]
found = np.array([law.transition_depth(1.0, alpha=a, sigma_w=1.0) for a in slopes])
rest = 4 / np.pi * np.square(slopes) * found + 2 * np.log(slopes)
{
    r"$\alpha$": slopes,
    "$l_*$, Derf": list(found),
    r"$g'(0)\,\alpha^2 l_* - \ln(1/\alpha^2)$": list(rest),
}

# %% [markdown]
# ## Certificate
#
# The constant by its own integral, over the library's second moments at $\alpha = 1$, with Gauss points; the integrand is smooth:

# %%
nodes, weights = np.polynomial.legendre.leggauss(20)
at = (nodes + 1) / 2
slope = {"Derf": 4 / np.pi, "DyT": 1.0}
C = {
    name: float(weights @ (slope[name] / mf.evaluate(phi.second_moment(q), q=at) - 1 / at) / 2)
    for name, phi in (("Derf", mf.erf), ("DyT", mf.tanh))
}
assert abs(C["Derf"] - 1.83472617546114) < 1e-9
assert abs(C["DyT"] - 1.685379515) < 1e-8
assert abs(rest[-1] - C["Derf"]) < 2e-3
tuple(sp.Eq(sp.Symbol(rf"C_{{\text{{{name}}}}}"), sp.Float(value, 9)) for name, value in C.items())

# %% [markdown]
# ## Numbers: beside the run, and where the source is imprecise
#
# The first layer at which $\alpha^2 q > 1$, by running the recursion; the integral; the logarithm with its constant; and the source's
# estimate, which lets $q$ grow at its *first* rate all the way to $\alpha^2 q = 1$, although the norm bends long before:

# %%
ends = [
    int(
        mf.scaling.largest_depth(
            networks["Derf"], "log_q", -2 * np.log(a), q=1.0, alpha=a, sigma_w=1.0
        ).value
    )
    + 1
    for a in slopes
]
blog = -2 * np.log(slopes) / np.log1p(4 * np.square(slopes) / np.pi)
closed = (-2 * np.log(slopes) + C["Derf"]) * np.pi / (4 * np.square(slopes))
assert np.all(np.abs(closed[1:] / ends[1:] - 1) < 0.03)
assert np.all(blog[1:] / ends[1:] < 0.85)
{
    r"$\alpha$": slopes,
    "run": ends,
    "integral": list(found),
    "logarithm and $C$": list(closed),
    "source": list(blog),
    "source, off by": [rf"${100 * (b / e - 1):.0f}\,\%$" for b, e in zip(blog, ends, strict=True)],
}

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
for colour, a, l_star, published in zip(
    ("#000000", "#0072B2", "#D55E00"), slopes[1:4], found[1:], blog[1:], strict=False
):
    depth = int(3 * l_star)
    run = mf.propagate(networks["Derf"], depth, q=1.0, alpha=a, sigma_w=1.0)
    ax.semilogy(run.layers / l_star, a**2 * run.q, color=colour, label=rf"$\alpha = {a}$")
    ax.plot([published / l_star], [a**2 * run.q[round(published)]], "x", color=colour)
ax.axhline(1, color="#999999", linewidth=0.8, linestyle=":")
ax.axvline(1, color="#999999", linewidth=0.8, linestyle=":")
ax.set(xlabel="$l/l_*$", ylabel=r"$\alpha^2 q_l$")
ax.legend()
ax

# %% [markdown]
# (Crosses: the source's estimate.) The estimate is low by about a fifth or more at every slope, since
# $C\,\pi/(4\alpha^2\sigma_w^2)$ is missing from it; the relative error dies only like $1/\ln\alpha^{-2}$. At large
# $\alpha$ there is no transition: $l_* = 0$ if the stream starts beyond it.

# %%
assert law.transition_depth(1.0, alpha=2.0, sigma_w=1.0) == 0
