# %% [markdown]
# # What erf and LayerNorm do to a signal and to its gradient
#
# **Statement.** For $u, v$ centred Gaussian of variance $q$ and covariance $p$, write $\tilde q, \tilde p$ for the moments behind
# the norm and $\hat q, \hat p$ for those of its derivative. For LayerNorm and for Derf, $\phi(x) = \operatorname{erf}(\alpha x)$,
#
# $$\text{LN:}\quad \tilde q = 1,\quad \tilde p = \frac pq,\quad \hat q = \hat p = \frac1q$$
#
# $$\text{Derf:}\quad \tilde q = \frac2\pi\arcsin\frac{2\alpha^2 q}{1 + 2\alpha^2 q},\quad
# \tilde p = \frac2\pi\arcsin\frac{2\alpha^2 p}{1 + 2\alpha^2 q},\quad
# \hat q = \frac{4\alpha^2}{\pi\sqrt{1 + 4\alpha^2 q}}$$
#
# **Source.** *Normalization-free transformers are subcritical*, Part 2 (labofdoubt.github.io), sec. 1.4: the closed forms after
# Eq. (12). The arcsine is Williams (1997).
#
# **Assumptions.** Width $d \to \infty$; a residual stream of zero mean, so that LayerNorm has nothing to centre.

# %%
import meanfield as mf
import numpy as np
import sympy as sp

alpha = sp.Symbol("alpha", positive=True)
derf = mf.derf(alpha)

# %% [markdown]
# ## Derivation: erf

# %%
kernel = derf.derive("kernel")
assert kernel.certificate.holds
kernel

# %% [markdown]
# The certificate does not use these rules: the kernel is determined by Price's identity
# $\partial_p\,\mathbb{E}\,\phi(u)\phi(v) = \mathbb{E}\,\phi'(u)\phi'(v)$ and its value at $p = 0$. At $p = q$ it is $\tilde q$, and
# Price's identity is also what gives $\hat p$ and $\hat q$:

# %%
q_hat = derf.derivative.second_moment(mf.q)
p_hat = derf.derivative.kernel(mf.q, mf.p)
assert sp.simplify(kernel.result.diff(mf.p) - p_hat) == 0
assert sp.simplify(p_hat.subs(mf.p, mf.q) - q_hat) == 0
derf.second_moment(mf.q), q_hat, p_hat

# %% [markdown]
# ## Derivation: LayerNorm
#
# The law of the block: the gradient's second moments $J$ (one token) and $K$ (two tokens) are divided by $q$. The projection
# that LayerNorm's Jacobian also holds removes two of $d$ directions, which is nothing at large width.

# %%
law = mf.recursion(mf.LayerNorm())
assert law.q == 1
assert law.p == mf.p / mf.q
assert law.transfer == sp.eye(2) / mf.q
law

# %% [markdown]
# In a residual block the same-token factor of the gradient is then

# %%
branch = {"LN": mf.LayerNorm(), "Derf": mf.Derf(alpha)}
chi = {
    name: mf.recursion(mf.Residual(norm >> mf.Linear(sigma_b=0))).chi
    for name, norm in branch.items()
}
tuple(sp.Eq(sp.Symbol(rf"\chi_{{\text{{{name}}}}}"), value) for name, value in chi.items())

# %% [markdown]
# ## What separates them
#
# $q$ grows like the number of layers $l$ in both. Then $\ln\mathcal{J} \simeq \sum_l \hat q\,\sigma_w^2$ is a sum of $1/l$ for
# LayerNorm, a logarithm, and a sum of $1/\sqrt l$ for a saturating norm:

# %%
limit = sp.limit(sp.sqrt(mf.q) * q_hat, mf.q, sp.oo)
assert limit == 2 * alpha / sp.pi
(
    sp.Eq(sp.Symbol(r"\lim_{q\to\infty}\sqrt{q}\,\hat q_{\text{Derf}}"), limit),
    mf.dyt(alpha).derivative.asymptotic("second_moment", 1),
)

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

q = np.geomspace(1e-2, 1e3, 101)
figure, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
ax.loglog(q, 1 / q, color="#000000", label="LN")
for colour, (name, phi) in (("#D55E00", ("Derf", derf)), ("#0072B2", ("DyT", mf.dyt(alpha)))):
    ax.loglog(
        q,
        mf.evaluate(phi.derivative.second_moment(mf.q), q=q, alpha=1),
        color=colour,
        label=rf"{name}, $\alpha = 1$",
    )
ax.set(xlabel="variance $q$", ylabel=r"$\hat q$")
ax.legend()
ax

# %% [markdown]
# ## Numbers
#
# At $q = 1$, $p = 0.4$:

# %%
slopes = [0.1, 0.5, 1.0, 1.1, 2.0]


def at(e):
    return [
        mf.evaluate(
            e, **{s.name: {"q": 1.0, "p": 0.4, "alpha": slopes}[s.name] for s in e.free_symbols}
        )[i]
        for i in range(5)
    ]


{
    r"$\alpha$": slopes,
    r"$\tilde q$": at(derf.second_moment(mf.q)),
    r"$\tilde p$": at(kernel.result),
    r"$\hat q$": at(q_hat),
    r"$\hat p$": at(p_hat),
}

# %% [markdown]
# And the Jacobian of LayerNorm itself, by central differences at width $d = 64$: $\|\partial\,\mathrm{LN}/\partial h\|_F^2/d$
# is $(1 - 2/d)/q$, with $q$ the sample variance of the coordinates.

# %%
d, step = 64, 1e-5
h = np.random.default_rng(0).standard_normal(d)
normed = lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
jacobian = (normed(h + step * np.eye(d)) - normed(h - step * np.eye(d))) / (2 * step)
assert abs((jacobian**2).sum() / d * h.var() - (1 - 2 / d)) < 1e-7

# %% [markdown]
# ## Where the source is imprecise
#
# - "This expression is somewhat vague for LayerNorm, so in that case we simply define": nothing need be defined. $\hat q = 1/q$
#   is the limit of $\|\partial\,\mathrm{LN}/\partial h\|_F^2/d = (1 - 2/d)/q$.
# - The LayerNorm formulas leave the centring out. Behind an activation of mean $m$ they are $\tilde p = (p - m^2)/(q - m^2)$ and
#   $\hat q = 1/(q - m^2)$; RMSNorm, which does not centre, keeps those above.
# - $\hat q$ alone gives the gradient only of tokens that do not mix: see *The recursion of q, p and the
#   gradient with attention*.

# %%
behind = mf.recursion(mf.Activate(mf.relu) >> mf.LayerNorm() >> mf.Linear(1, 0))
(
    sp.Eq(sp.Symbol(r"\tilde p_{\text{LN}\circ\text{ReLU}}"), sp.factor(behind.p.subs(mf.p, 0))),
    sp.Eq(sp.Symbol(r"\chi_{\text{LN}\circ\text{ReLU}}"), sp.simplify(behind.chi)),
)
