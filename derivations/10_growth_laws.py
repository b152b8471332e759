# %% [markdown]
# # Growth laws: powers behind LayerNorm, stretched exponentials behind saturating norms
#
# **Statement.** Over $l$ blocks of a pre-norm network the stream grows like $q_l \sim B\,l$, and the gradient like
#
# $$\text{LayerNorm:}\quad \mathcal{J} \sim l^{\,\zeta},\qquad\qquad
# \text{Derf, DyT:}\quad \ln\mathcal{J} \simeq \sqrt{l/\lambda} + b\,\ln l$$
#
# **Source.** *Normalization-free transformers are subcritical* (labofdoubt.github.io), Part 1, and Part 2, sec. 2.1, which argues that
# attention does not change the kind of growth.
#
# **Assumptions.** Width $\to\infty$; $l \to \infty$; the same weights' scales in every block.

# %%
import matplotlib.pyplot as plt
import meanfield as mf
import numpy as np
import sympy as sp

# %% [markdown]
# ## LayerNorm without attention
#
# Nothing is looked up: `mf.growth` expands one repeat where $q$ goes. For a matrix, an activation and LayerNorm in the branch,

# %%
single = mf.growth(mf.Residual(mf.LayerNorm() >> mf.Activate(mf.silu) >> mf.Linear(sigma_b=0)))
zeta = mf.evaluate(single.apjn.exponent)
assert abs(zeta - 1.06663424124191) < 1e-13
sp.Eq(sp.Symbol("zeta"), single.apjn.exponent), sp.Eq(sp.Symbol("zeta"), sp.Float(zeta, 12))

# %% [markdown]
# the ratio of $\mathbb{E}\,\phi'^2$ to $\mathbb{E}\,\phi^2$; for ReLU it is 1, $\mathcal{J}^{L,l} = q_L/q_l$.
#
# ## LayerNorm with attention
#
# $a = \sigma_{OV}^2$, $w = \sigma_{21}^2$, uniform attention over $n$ tokens:

# %%
a, w = sp.symbols("a w", positive=True)


def transformer(norm):
    attention = mf.UniformAttention(sigma_V=1, sigma_O=sp.sqrt(a))
    return mf.pre_norm(
        norm=norm, attention=attention, mlp=mf.MLP(mf.relu, sigma_1=1, sigma_2=sp.sqrt(w))
    )


layer_norm = mf.growth(transformer(mf.LayerNorm()))
layer_norm.q, layer_norm.gap, layer_norm.apjn

# %% [markdown]
# Two modes of the gradient compete: its differences between tokens grow with $\zeta_0$, what is common to all tokens with 1, but with the
# small share $1/n$:

# %%
(share_0, zeta_0), (share_1, zeta_1) = layer_norm.apjn.terms
assert sp.simplify(zeta_0 - (w / 2) / (a + w / 2)) == 0
assert zeta_1 == 1
{"mode": ["differences", "common"], "share": [share_0, share_1], "exponent": [zeta_0, zeta_1]}

# %% [markdown]
# ### Certificate
#
# Long runs of the recursion, fitted; the fits must agree with the law:

# %%
fits = layer_norm.check(depth=20_000, a=1.0, w=2.0, n=4)
assert fits.agrees
{
    "quantity": [f"${f.quantity}$, {f.name}" for f in fits.fits],
    "predicted": [f.predicted for f in fits.fits],
    "fitted": [f.fitted for f in fits.fits],
}

# %% [markdown]
# ### What the source has instead
#
# The product of the $\chi$ gives one exponent, between the two:

# %%
chi = mf.recursion(transformer(mf.LayerNorm())).chi
blog = sp.factor(sp.limit((mf.q * (chi - 1)).subs(mf.p, mf.q), mf.q, sp.oo) / layer_norm.q.rate)
assert sp.simplify(blog - (w / 2 + a / mf.n) / (a + w / 2)) == 0
setting = {
    a: sp.Rational(64, 100) ** 4,
    w: (sp.Rational(64, 100) * sp.Rational(128, 100)) ** 2,
    mf.n: 197,
}
at = {r"$\prod\chi$": blog, r"$\zeta_0$": zeta_0, r"$\zeta_1$": zeta_1}
assert zeta_0.subs(setting) == sp.Rational(2, 3)
crossover = layer_norm.apjn.crossover
(
    sp.Eq(sp.Symbol(r"\zeta_{\prod\chi}"), blog),
    {"at ViT-L": list(at), "": [float(sp.sympify(e).subs(setting)) for e in at.values()]},
)

# %% [markdown]
# The true exponent is 1 for every finite $n$, but at ViT-L it shows only beyond

# %%
(
    sp.Eq(sp.Symbol(r"l_\times"), crossover),
    sp.Eq(sp.Symbol(r"l_\times^{\text{ViT-L}}"), sp.N(crossover.subs(setting), 3)),
)

# %% [markdown]
# blocks. So attention does change the growth that is seen, from $l$ to $l^{2/3}$; and since $1 - c$ falls like a power, LayerNorm
# collapses the rank.
#
# ## Saturating norms without attention

# %%
derf = mf.growth(mf.Residual(mf.Derf() >> mf.Linear(sigma_b=0)))
dyt = mf.growth(mf.Residual(mf.DyT() >> mf.Linear(sigma_b=0)))
derf.apjn, dyt.apjn

# %% [markdown]
# That is, without bias, $\lambda = \pi^2/(16\alpha^2\sigma_w^2)$ for Derf and $9\pi/(32\alpha^2\sigma_w^2)$ for DyT: they grow alike if
# the slopes are in the ratio

# %%
ratio = sp.sqrt(sp.simplify(dyt.apjn.rate / derf.apjn.rate))
assert sp.simplify(ratio - sp.sqrt(2 * sp.pi) / 3) == 0
(
    sp.Eq(sp.Symbol(r"\alpha_{\text{Derf}}/\alpha_{\text{DyT}}"), ratio),
    sp.Eq(sp.Symbol(r"b_{\text{Derf}}"), derf.apjn.log_coefficient),
)

# %%
check = derf.check(depth=20_000, alpha=1.0, sigma_w=1.0)
assert check.agrees
{
    "quantity": [
        f"${f.quantity}$, {f.name}".replace("rate^stretch", "root of the rate").replace("_", " ")
        for f in check.fits
    ],
    "predicted": [f.predicted for f in check.fits],
    "fitted": [f.fitted for f in check.fits],
}

# %% tags=["hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.0), layout="constrained")
l = fits.run.layers[1:]
left.loglog(l, np.exp(fits.run.log_apjn_forward[1:]), color="#000000", label=r"$(J, K)$")
for exponent, style, label in (
    (0.5, ":", r"$\zeta_0 = \frac{1}{2}$"),
    (1.0, "--", r"$\zeta_1 = 1$"),
):
    left.loglog(
        l, 1.3 * l**exponent if exponent < 1 else l / 4, style, color="#D55E00", label=label
    )
left.set(
    xlabel="block $l$",
    ylabel=r"$\mathcal{J}^{\,l,0}$",
    title="pre-LN, $n = 4$, $a = 1$, $w = 2$",
    ylim=(0.5, None),
)
left.legend()
l = check.run.layers[1:]
law = mf.evaluate(derf.apjn.asymptote, l=l, alpha=1.0, sigma_w=1.0)
right.plot(np.sqrt(l), check.run.log_apjn_forward[1:], color="#000000", label="run")
right.plot(
    np.sqrt(l),
    law + check.run.log_apjn_forward[-1] - law[-1],
    "--",
    color="#D55E00",
    label="law, one constant fitted",
)
right.set(
    xlabel=r"$\sqrt{l}$", ylabel=r"$\ln\mathcal{J}^{\,l,0}$", title=r"Derf, $\alpha = \sigma_w = 1$"
)
right.legend()
left

# %% [markdown]
# ## Saturating norms with attention
#
# $\ln\mathcal{J} \simeq \sqrt{l/\lambda} + b \ln l$; the coefficient $b$ is long, `attended.apjn.log_coefficient`.

# %%
attended = mf.growth(transformer(mf.Derf()))
attended.q, attended.gap, sp.Eq(1 / sp.Symbol("lambda"), attended.apjn.rate)

# %% [markdown]
# The correlation goes to $\rho_* < 1$: behind a saturating norm tokens do *not* become alike, as they do behind LayerNorm. For
# $n \to \infty$, with $r = \tfrac2\pi\arcsin\rho_*$,

# %%
r, root = sp.Symbol("r", positive=True), 1 - attended.gap.limit
rate = attended.apjn.rate.subs(root, sp.sin(sp.pi * r / 2)).subs(
    sp.asin(sp.sin(sp.pi * r / 2)), sp.pi * r / 2
)
many = sp.simplify(1 / sp.limit(rate, mf.n, sp.oo))
without = sp.simplify(many.subs(a, 0))
assert sp.simplify(many / without - (1 + 2 * r * a / w)) == 0
(
    sp.Eq(sp.Symbol("lambda"), many),
    sp.Eq(sp.Symbol(r"\lambda/\lambda_{\text{no attention}}"), sp.expand(many / without)),
)

# %% [markdown]
# ## Where the source is imprecise
#
# - "The MLP contribution remains the same as without attention": $\lambda$ is larger by $1 + 2ra/w$, because $\hat q$ falls with the variance
#   that attention adds. The kind of growth stays, its rate does not.
# - The exponent behind LayerNorm is neither that of the MLP alone nor that of $\prod\chi$ (above).
# - "Subcritical" is meant of $\chi > 1$: gradients grow faster than any power.
