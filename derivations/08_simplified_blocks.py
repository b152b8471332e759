# %% [markdown]
# # Branch weights of simplified transformer blocks
#
# **Statement.** Written out as a sum over its branches $f_j$ (attention) and $g_j$ (MLP) of unit variance, a pre-norm stack is
#
# $$X_{l} = X_0 + \sum_{j<l} f_j + \beta\sum_{j<l} g_j,\qquad \operatorname{Var} X_l = (1 + \beta^2)\,l + 1$$
#
# where deeper branches count for less, and a stack without skips around attention, $X_{l+1} = N(X_l) + \beta g_l(N(X_l))$, is
#
# $$X_{l} = \frac{X_0}{(1 + \beta^2)^{l/2}} + \beta\sum_{j<l}\frac{g_j}{(1 + \beta^2)^{(l - 1 - j)/2}}$$
#
# which forgets its input exponentially unless $\beta = \beta_{\text{FF}} = O(1/\sqrt L)$.
#
# **Source.** He and Hofmann (2024, arXiv:2311.01906), Eqs. (1)–(3) and sec. 4.1; the two sums are worked out in the slides of
# 24.1.22, "Simplifying Blocks".
#
# **Assumptions.** Branches of unit variance on a normalised input; attention is the identity at initialisation (Value-SkipInit or Shaped
# Attention).

# %%
import matplotlib.pyplot as plt
import meanfield as mf
import numpy as np
import sympy as sp

beta, c = sp.symbols("beta c", positive=True)
branch = mf.Linear(1, 0)  # of unit variance on a normalised input

# %% [markdown]
# ## Derivation: pre-norm

# %%
f = mf.LayerNorm() >> branch
pre = mf.unrolled(mf.Residual(f) >> mf.Residual(f, scale=beta))
assert sp.expand(pre.q - ((1 + beta**2) * mf.l + 1)) == 0
assert pre.carried == 1
pre

# %% [markdown]
# What the branches of repeat $l$ add, in standard deviations of what they are added to, falls like $1/\sqrt l$:

# %%
tuple(
    sp.Eq(sp.Symbol(name), share)
    for name, share in zip((r"{w_f}(l)", r"{w_g}(l)"), pre.shares, strict=True)
)

# %% [markdown]
# ## Derivation: without the skip

# %%
skipless = mf.sas(norm=mf.LayerNorm(), mlp=branch, sigma_Q=0, scale=beta)
stationary = mf.unrolled(skipless, q=1 + beta**2)
assert sp.simplify(stationary.carried - (1 + beta**2) ** (-mf.l / 2)) == 0
stationary

# %% [markdown]
# With $\beta = c/\sqrt L$ the weight of the input tends to a constant instead of 0:

# %%
limit = stationary.last.subs(beta, c / sp.sqrt(mf.L)).limit(mf.L, sp.oo)
assert limit == sp.exp(-(c**2) / 2)
sp.Eq(sp.Symbol(r"\lim_{L\to\infty}(1 + c^2/L)^{-L/2}"), limit)

# %% [markdown]
# Attention is the identity at the start because Shaped Attention, $A \leftarrow \alpha I + \beta A - \gamma C$ with $C$ the $A$ of the
# start, is: for any $\alpha, \beta, \gamma$ it acts on the two eigenvalues of the tokens' covariance, $q + (n-1)p$ (uniform) and
# $q - p$ (differences), as

# %%
a, b, g = sp.symbols("alpha beta gamma", positive=True)
shaped = mf.recursion(
    mf.shaped_attention(alpha=a, beta=b, gamma=g, sigma_Q=0, sigma_V=1, sigma_O=1)
)
uniform, difference = sp.factor(shaped.q + (mf.n - 1) * shaped.p), sp.factor(shaped.q - shaped.p)
assert sp.expand(uniform - (a + b - g) ** 2 * (mf.q + (mf.n - 1) * mf.p)) == 0
assert sp.expand(difference - a**2 * (mf.q - mf.p)) == 0
assert sp.simplify(shaped.transfer.subs({b: g, a: 1})) == sp.eye(2)
uniform, sp.expand(difference)

# %% [markdown]
# and $\alpha = \beta = \gamma = 1$ is the identity on signals and on gradients; $\alpha = 0$, plain attention, collapses all tokens
# in one layer.
#
# ## Certificate
#
# The sums are written out by algebra; the recursion of the blocks, run layer by layer, and branches drawn at random (each a fresh
# Gaussian vector of unit variance, overlap of the state with its input in the place of the weight) do not use them:

# %%
layers, b = 18, sp.Rational(1, 2)
by_run = mf.propagate(mf.Residual(f) >> mf.Residual(f, scale=b), layers, q=1.0, record="last").q[-1]
draw = np.random.default_rng(18)
start = np.sqrt(1 + float(b) ** 2) * draw.standard_normal(400_000)
state = start.copy()
for _ in range(layers):
    state = state / np.sqrt((state**2).mean()) + float(b) * draw.standard_normal(start.size)
kept = state @ start / (start @ start)
formulas = [e.subs({beta: b, mf.l: layers}) for e in (pre.q, stationary.carried)]
assert abs(by_run / float(formulas[0]) - 1) < 1e-12
assert abs(kept - float(formulas[1])) < 4 / np.sqrt(start.size)
{
    "": [r"$\operatorname{Var} X_{18}$, pre-norm", "weight of $X_0$, without the skip"],
    "the sum": [float(e) for e in formulas],
    "recursion; random branches": [by_run, kept],
}

# %% [markdown]
# ## Numbers and figure
#
# The paper's $\beta_{\text{FF}} = 0.1$ at $L = 18$, $\beta = 1$, and $\beta = 1/\sqrt L$: weight of the input in $X_L$.

# %%
depth = 18
betas = {"$1$": sp.S.One, r"$1/\sqrt{L}$": 1 / sp.sqrt(depth), "$0.1$": sp.Rational(1, 10)}
{r"$\beta$": list(betas)} | {
    "weight of $X_0$ in $X_{18}$": [
        float(stationary.carried.subs({beta: v, mf.l: depth})) for v in betas.values()
    ],
    "in pre-norm, of the standard deviation": [
        float((pre.carried / sp.sqrt(pre.q)).subs({beta: v, mf.l: depth})) for v in betas.values()
    ],
}

# %% tags=["hide-input"]
l, j = np.arange(depth), sp.Symbol("j", integer=True, nonnegative=True)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 2.9), layout="constrained")
for colour, (label, value) in zip(("#000000", "#D55E00", "#0072B2"), betas.items(), strict=True):
    weight = stationary.branches[0].subs({beta: value, mf.l: depth})
    left.semilogy(
        l,
        [float(weight.subs(j, k)) for k in l],
        "o-",
        markersize=3,
        color=colour,
        label=rf"$\beta = {label.strip('$')}$",
    )
    right.plot(
        l,
        [float(pre.shares[1].subs({beta: value, mf.l: int(k)})) for k in l],
        "o-",
        markersize=3,
        color=colour,
    )
left.set(xlabel="branch $j$", ylabel="weight of $g_j$ in $X_{18}$", title="without skip")
right.set(xlabel="branch $j$", ylabel="share of $g_j$ when added", title="pre-norm")
left.legend()
left

# %% [markdown]
# ## Two consequences
#
# Without a norm the stream grows by $(1 + \beta^2 g)^L$ for a branch of gain $g$ in variance, and so does its gradient; both tend to
# $\mathrm{e}^{c^2 g}$. The recursion of ReLU branches, $g = \tfrac12\sigma_{21}^2$:

# %%
L = 1000
run = mf.propagate(
    mf.Residual(mf.MLP(mf.relu, sigma_1=1, sigma_2=sp.sqrt(2)), scale=1 / sp.sqrt(mf.L)),
    L,
    q=1.0,
    c=0.2,
)
assert abs(np.log(run.q[-1]) - 1) < 1e-3
assert abs(run.log_apjn[0] - np.log(run.q[-1])) < 1e-12
{
    "$L$": [L],
    "$q_L/q_0$": [run.q[-1]],
    r"$\mathcal{J}^{L,0}$": [np.exp(run.log_apjn[0])],
    r"$\rho: 0.2 \to$": [run.c[-1]],
}

# %% [markdown]
# Training only $\Delta W$ in $W = \alpha W_{\text{init}} + \beta\,\Delta W$ is a learning rate in disguise, times

# %%
rates = {o: mf.scaling.reparametrised(o).learning_rate for o in ("sgd", "adam")}
assert list(rates.values()) == [
    sp.Symbol("beta", positive=True) ** 2,
    sp.Symbol("beta", positive=True),
]
tuple(
    sp.Eq(sp.Symbol(rf"(\eta_{{\text{{eff}}}}/\eta)_{{\text{{{o}}}}}"), rate)
    for o, rate in rates.items()
)

# %% [markdown]
# ## Where the source is imprecise
#
# - "$(1 + O(1/L))^{(l+1)/2} \le 1 + O(1/2)$": the bound is $\mathrm{e}^{1/2} = 1.6487$ for $c = 1$, above $1 + \tfrac12$.
#   At the paper's $\beta = 0.1$, $L = 18$ the factor is 1.0937.

# %%
factor = (1 + sp.Rational(1, 100)) ** 9
assert abs(float(factor) - 1.0937) < 1e-4
assert sp.exp(sp.Rational(1, 2)) > sp.Rational(3, 2)
sp.Eq(sp.Symbol(r"(1 + \beta^2)^{L/2}"), sp.Float(factor, 6))

# %% [markdown]
# - The first weight of the sum, $(1 + \beta^2)^{-(l+1)/2}$ in $X_{l+1}$, needs $\operatorname{Var} X_0 = 1 + \beta^2$. An input of unit
#   variance is off by one layer:

# %%
unit = mf.unrolled(skipless, q=1).carried
assert sp.simplify(unit / stationary.carried - sp.sqrt(1 + beta**2)) == 0
sp.Eq(sp.Symbol(r"\text{weight of } X_0 \text{ in } X_l"), unit)

# %% [markdown]
# - "$\alpha I + \beta A - \gamma C$ … is the identity" holds at zero logits, $W_Q = 0$; with random queries $A$ is not $C$.
