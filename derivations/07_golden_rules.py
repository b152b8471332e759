# %% [markdown]
# # Modula's golden rules of scaling
#
# **Statement.** Scale by what adds up when everything is aligned: singular values of weights and updates
# $\sqrt{\text{fan\_out}/\text{fan\_in}}$; a multiplier $1/L$ on each of $L$ residual branches; $q \cdot k/d_k$ for queries and keys.
#
# **Source.** *Golden rules for scaling* (docs.modula.systems), sections "Fixing width scaling", "Fixing depth scaling" and "Fixing
# key-query dot product scaling"; Large et al. (2024, arXiv:2405.14813), Definitions 3–5, for the modular norm.
#
# **Assumptions.** Training aligns inputs with the largest singular vectors, updates with inputs, and layers with each other.

# %%
import matplotlib.pyplot as plt
import meanfield as mf
import numpy as np
import sympy as sp

# %% [markdown]
# ## Width

# %%
mf.scaling.width_rule()

# %% [markdown]
# Conventional initialisation (LeCun: variance $1/\text{fan\_in}$) has gain 1 on a random input and a larger one on an aligned input; the
# golden rule has gain 1 on the aligned one:

# %%
shapes = [(10, 768), (768, 768), (3072, 768), (768, 3072)]
rules = [mf.scaling.width_rule(fan_in=i, fan_out=o)() for o, i in shapes]
draw = np.random.default_rng(0)
measured = [
    np.linalg.norm(draw.standard_normal((o, i), dtype=np.float32) / np.sqrt(i), 2)
    for o, i in shapes[:2]
]
assert all(abs(m / rule["lecun_norm"] - 1) < 0.02 for m, rule in zip(measured, rules, strict=False))
{
    r"fan-out $\times$ fan-in": [rf"${o} \times {i}$" for o, i in shapes],
    "target norm": [r["norm"] for r in rules],
    r"$\sigma$ with it": [r["sigma"] for r in rules],
    "LeCun: norm": [r["lecun_norm"] for r in rules],
    "gain, aligned": [r["lecun_aligned_gain"] for r in rules],
    "norm of a draw": [f"${m:.4f}$" for m in measured] + ["", ""],
}

# %% [markdown]
# ## Depth

# %%
mf.scaling.depth_rule()

# %% [markdown]
# Both $1/L$ and $1/\sqrt L$ keep something bounded; what the other sum does then is the recursion's answer for a residual branch of unit
# gain, against $(1 + m)^L$ for aligned branches:

# %%
depths = [4, 16, 64, 256]
branch = mf.Linear(1, 0)
growth = {}
for name, m in (("1/L", 1 / mf.L), (r"1/\sqrt{L}", 1 / sp.sqrt(mf.L))):
    net = mf.Residual(branch, scale=m)
    growth[f"random, ${name}$"] = [
        float(mf.propagate(net, L, q=1.0, record="last").q[-1]) for L in depths
    ]
    growth[f"aligned, ${name}$"] = [float((1 + m.subs(mf.L, L)) ** L) for L in depths]
assert np.allclose(growth["random, $1/L$"], [(1 + 1 / L**2) ** L for L in depths])
assert max(growth["aligned, $1/L$"]) < np.e
{"$L$": depths} | growth

# %% tags=["hide-input"]
L = np.unique(np.geomspace(1, 1000, 40).round())
figure, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
for colour, (name, m) in (("#000000", ("1/L", 1 / L)), ("#D55E00", (r"1/\sqrt{L}", L**-0.5))):
    ax.loglog(L, (1 + m) ** L, color=colour, label=rf"aligned, ${name}$")
    ax.loglog(L, (1 + m**2) ** (L / 2), color=colour, linestyle="--", label=rf"random, ${name}$")
ax.axhline(np.e, color="#999999", linewidth=0.8, linestyle=":")
ax.annotate(r"$\mathrm{e}$", (1.1, np.e * 1.06), color="#666666")
ax.set(xlabel="branches $L$", ylabel="growth of the norm", ylim=(0.8, 1e3))
ax.legend()
ax

# %% [markdown]
# ## Keys and queries

# %%
mf.scaling.key_query_rule()

# %% [markdown]
# In the law of attention $\sigma_{QK}^2$ becomes $\sigma_{QK}^2/d_k$: attention starts uniform. What a token keeps of itself,
# $\mathbb{E}\sum_b A_{ab}^2$, at $n = 64$, $d_k = 64$ and $\tilde q = 1$, uncorrelated tokens:

# %%
attention = mf.Attention(n=64, sigma_Q=1, sigma_K=1, sigma_V=1, sigma_O=1)
pair = {
    r"$q \cdot k/\sqrt{d_k}$": attention,
    r"$q \cdot k/d_k$": mf.scaling.with_key_query_rule(attention, 64),
}
kept = [mf.evaluate(mf.recursion(block).q, q=1.0, p=0.0) for block in pair.values()]
assert kept[1] < 1.05 / 64 < kept[0]
{"": [*pair, "uniform"], r"$\mathbb{E}\sum_b A_{ab}^2$": [*kept, 1 / 64]}

# %% [markdown]
# ## The modular norm
#
# Mass and sensitivity compose, and split an update of size $t$ among the tensors:

# %%
W = mf.scaling.Atom
m_1, m_2, mu_2 = sp.symbols("m_1 m_2 mu_2", positive=True)
t = sp.Symbol("t", positive=True)
two = (mu_2 * W("W_2", m_2)) @ W("W_1", m_1)
(
    sp.Eq(sp.Symbol(r"\mu"), two.sensitivity),
    *(sp.Eq(sp.Symbol(f"t_{k}"), two.budgets(t)[f"W_{k}"]) for k in (1, 2)),
)

# %% [markdown]
# ## Certificate
#
# The budgets are a worst case, so it has to be met and not exceeded. Two matrices of norm 1 (root mean square to root mean square)
# with updates of the sizes $t_1$ and $t_2$ on the input that aligns with all of them move the output by $t$ to first order, and by
# less on a random input:

# %%
wide, narrow = 96, 64
number = {m_1: 1.0, m_2: 3.0, mu_2: 0.5, t: 1.0}
t_1, t_2 = (float(two.budgets(t)[name].subs(number)) for name in ("W_1", "W_2"))
bases = [np.linalg.qr(draw.standard_normal((k, k)))[0] for k in (narrow, wide, narrow)]
size = lambda v: np.linalg.norm(v) / np.sqrt(len(v))
W_1 = np.sqrt(wide / narrow) * bases[1][:, :narrow] @ bases[0].T
W_2 = np.sqrt(narrow / wide) * bases[2] @ bases[1][:, :narrow].T
aligned = np.sqrt(narrow) * bases[0][:, 0]
moved = []
for x in (aligned, draw.standard_normal(narrow)):
    x = x / size(x)
    change = t_1 * W_2 @ W_1 @ np.outer(bases[0][:, 0], bases[0][:, 0]) @ x
    change += t_2 * W_2 @ np.outer(bases[1][:, 0], bases[1][:, 0]) @ W_1 @ x
    moved.append(float(number[mu_2] * size(change)))
assert abs(moved[0] - number[t]) < 1e-12
assert moved[1] < number[t]
{"input": ["aligned", "random"], "change of the output": moved, "budget $t$": [1.0, 1.0]}

# %%
gpt = mf.scaling.modular_transformer(12)
assert gpt.sensitivity == 1
budgets = gpt.budgets()
{
    "tensor": [name if "_" not in name else f"${name}$" for name in budgets],
    "its update, of 1 in all": list(budgets.values()),
}

# %% [markdown]
# ## Where the source is imprecise
#
# - It sets worst-case (aligned) sums against "Deep Learning 101" (random sums) as if one of them were wrong. Both are right, for a
#   trained and for an initial network: with $1/L$ the branches of the initial network add $1/L$ of variance in all, with $1/\sqrt L$ an
#   aligned sum grows like $\mathrm{e}^{\sqrt L}$ (figure). Hayou's and He and Hofmann's $1/\sqrt L$ answers the other question.
# - "$(1 + 1/L)^L < \mathrm{e}$" bounds branches of sensitivity 1. Modula's own code has $(1 - \tfrac1{2N})\,\mathrm{Id} + \tfrac1{2N}$
#   branch, whose sensitivity is exactly 1.
# - "Switching from Gaussian init to orthogonal init makes choosing the right sigma trivial", at the price of a random gain below 1
#   where the layer reduces dimension:

# %%
orthogonal = mf.scaling.width_rule().values["orthogonal_random_gain"]
sp.Eq(sp.Symbol("g"), orthogonal)
