# %% [markdown]
# # Moments of Swish
#
# **Statement.** For $\phi(x) = x\,\sigma(x)$ with $\sigma$ the logistic function, and $\varepsilon \sim \mathcal{N}(0, 1)$,
#
# $$\mu = \mathbb{E}\,\phi(\varepsilon) = 0.2066\ldots, \qquad \nu^2 = \mathbb{E}\,\phi(\varepsilon)^2 = 0.3557\ldots$$
#
# **Source.** Su, *GAU's initial magnitudes* (kexue.fm/archives/8990), Eq. (3), where both are computed by quadrature.
#
# **Assumptions.** $X W$ is standard normal: $X_{ia} \sim \mathcal{N}(0, 1)$, $W \sim \mathcal{N}(0, 1/d)$, $d \to \infty$.

# %%
import meanfield as mf
import mpmath as mp
import numpy as np
import sympy as sp

mf.silu

# %% [markdown]
# ## Derivation
#
# Neither moment has a closed form: the engine says so by leaving an expectation.

# %%
mean, second = mf.silu.mean(mf.q), mf.silu.second_moment(mf.q)
assert not mf.silu.is_closed("mean")
assert not mf.silu.is_closed("second_moment")
mean, second

# %% [markdown]
# What *is* exact follows from the even part $\sigma(x) + \sigma(-x) = 1$ and from Stein's identity
# $\mathbb{E}[u f(u)] = q\,\mathbb{E} f'(u)$. Each identity is checked to 30 digits at random variances.

# %%
even, slope, _, stein, mean_slope = mf.silu.identities()[:5]
assert all(identity.holds for identity in (even, slope, stein, mean_slope))
even, slope, stein, mean_slope

# %% [markdown]
# The last is $\mu = q\,\mathbb{E}\,\sigma'(u)$. Expansions for small and for large variance have exact coefficients; the
# constant of the second is an integral over the tail of the logistic function.

# %%
(
    mf.silu.taylor("mean", 3),
    mf.silu.taylor("second_moment", 3),
    mf.silu.asymptotic("second_moment", 2),
)

# %% [markdown]
# ## Certificate
#
# Two ways that share no step: adaptive quadrature with a bound, and the trapezoidal rule on the real line, which converges
# geometrically for a function analytic in a strip.


# %%
def trapezoid(f):
    h = mp.mpf(1) / 16
    return mp.nsum(lambda k: f(k * h) * mp.npdf(k * h), [-320, 320]) * h


with mp.workdps(40):
    nu2 = mf.evaluate(mf.silu.second_moment(1), digits=30)
    mu = mf.evaluate(mf.silu.mean(1), digits=30)
    swish = lambda x: x / (1 + mp.exp(-x))
    assert abs(mu - trapezoid(swish)) < 1e-29
    assert abs(nu2 - trapezoid(lambda x: swish(x) ** 2)) < 1e-29

# %% [markdown]
# ## Numbers

# %%
moments = {
    r"$\mu = \mathbb{E}\,\phi$": mf.silu.mean(1),
    r"$\nu^2 = \mathbb{E}\,\phi^2$": mf.silu.second_moment(1),
    r"$\mathbb{E}\,\phi'$": mf.silu.derivative.mean(1),
    r"$\mathbb{E}\,\phi'^2$": mf.silu.derivative.second_moment(1),
    r"$\mathbb{E}\,\phi^4$": mf.E(mf.silu.expression**4, 1),
}
{
    "moment": list(moments),
    "30 digits": [mf.evaluate(value, digits=30) for value in moments.values()],
}

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

q = np.geomspace(1e-3, 1e4, 141)
ratio = mf.evaluate(mf.silu.second_moment(mf.q), q=q) / q
share = mf.evaluate(mf.silu.mean(mf.q), q=q) ** 2 / q
figure, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
ax.semilogx(q, ratio, color="#000000", label=r"$\mathbb{E}\,\phi(u)^2/q$")
ax.semilogx(q, share, color="#D55E00", label=r"$(\mathbb{E}\,\phi(u))^2/q$")
for limit in (0.25, 0.5):
    ax.axhline(limit, color="#999999", linewidth=0.8, linestyle=":")
ax.set(xlabel="variance $q$", ylim=(0, 0.55))
ax.legend(loc="center right")
ax

# %% [markdown]
# ## Where the source is imprecise
#
# - "In fact, only the second moment $\nu^2$ is used later." The mean decides the size of GAU: it makes the values of all other
#   tokens add up coherently (see *The size of a gated attention unit*).
# - "$\phi(\lambda x) \approx \lambda\phi(x)$", used for the $\lambda^7$ law, would make $\mathbb{E}\,\phi(u)^2/q$ constant. It
#   doubles between small and large $q$, from $\tfrac14$ to $\tfrac12$ (figure), and its local exponent at $q = 1$ is

# %%
slope = mf.E(mf.x * mf.silu.expression * mf.silu.derivative.expression, 1) / mf.silu.second_moment(
    1
)
exponent = mf.evaluate(2 * slope)
assert abs(exponent - 2.3451881082) < 1e-9
sp.Eq(sp.Symbol(r"\frac{\partial\ln\nu^2(\lambda)}{\partial\ln\lambda}"), sp.Float(exponent, 10))
