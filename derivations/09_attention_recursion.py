# %% [markdown]
# # The recursion of q, p and the gradient with attention
#
# **Statement.** In a pre-norm transformer with permutation-symmetric tokens, $q = \overline{h_a^2}$ and $p = \overline{h_a h_b}$ obey a
# closed recursion. With $e_q = \mathrm{e}^{-s\tilde q(\tilde q - \tilde p)}$, $e_p = \mathrm{e}^{-s\tilde p(\tilde q - \tilde p)}$,
# $y_\bullet = 1/(1 + (n - 1)e_\bullet)$ and $s = \sigma_{QK}^2$,
#
# $$\text{attention:}\quad \Delta q = \sigma_{OV}^2\left[\tilde p + (\tilde q - \tilde p)\,y_q\right],\qquad
# \Delta p = \sigma_{OV}^2\left[\tilde p + (\tilde q - \tilde p)\,y_p\right]$$
#
# $$\text{MLP:}\quad \Delta q = \tfrac12\sigma_{21}^2\,\tilde q,\qquad \Delta p = \sigma_{21}^2\,\tilde q\,\kappa(\tilde p/\tilde q)$$
#
# and $\mathcal{J}^{L,l}$, the mean square of the Jacobian, is given by the source as a product of
# $\chi_{\text{attention}} = 1 + \sigma_{OV}^2\,\hat q\,y_q$ and $\chi_{\text{MLP}} = 1 + \tfrac12\sigma_{21}^2\,\hat q$.
#
# **Source.** *Normalization-free transformers are subcritical*, Part 2 (labofdoubt.github.io), Eqs. (6), (7) and (12), after Cowsik et al.
# (2024, arXiv:2403.02579), Assumption 2.
#
# **Assumptions.** Width $\to\infty$; logits Gaussian, the softmax averaged as annealed; good to 1–2 % while $s\tilde q(\tilde q - \tilde p) \lesssim 3$.

# %%
import matplotlib.pyplot as plt
import meanfield as mf
import numpy as np

# %% [markdown]
# ## Derivation
#
# Each block is a law on $(q, p)$ and on the gradient's second moments $(J, K)$: $J$ at one token, $K$ between two. Composition is the
# chain rule. For Derf, with the value path alone as in the source:


# %%
def transformer(norm, softmax_derivative=True, **bound):
    attention = mf.Attention(softmax_derivative=softmax_derivative, **bound)
    return mf.pre_norm(norm=norm, attention=attention, mlp=mf.MLP(mf.relu))


recursion = mf.recursion(transformer(mf.Derf(), softmax_derivative=False))
recursion

# %% [markdown]
# The first two lines of each sublayer are Eqs. (6) and (7), the last is Eq. (12). $J$ and $K$ are new.
#
# ## Certificate
#
# Forward and backward are derived separately; the mean square of the Jacobian is the same from both ends,
# $e_1^\top T_l \cdots T_{L-1} e_1$, and without attention it telescopes to $q_L/q_l$ for LayerNorm and a homogeneous MLP:

# %%
vit = {
    "n": 197,
    "sigma_Q": 0.64,
    "sigma_K": 0.64,
    "sigma_V": 0.64,
    "sigma_O": 0.64,
    "sigma_1": 0.64,
    "sigma_2": 1.28,
}
run = mf.propagate(transformer(mf.Derf(0.5)), 128, q=1.0, p=0.4, **vit)
alone = mf.propagate(
    mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu)), 128, q=1.0, sigma_1=0.64, sigma_2=1.28
)
assert abs(run.log_apjn[0] - run.log_apjn_forward[-1]) < 1e-12
assert np.abs(alone.log_apjn - np.log(alone.q[-1] / alone.q)).max() < 1e-12

# %% [markdown]
# ## Where the source is imprecise: the gradients of different tokens are not independent
#
# The product of the $\chi$ treats them so. Attention averages over tokens, so the part of the gradient common to all tokens
# is carried on by $K$, which feeds back into $J$ with the weight $(n - 1) y_p$: a term of the order of the one that is kept. The softmax
# depends on the tokens too; its derivative, which the source leaves out, is also of order $1/n$.
#
# Random transformers, drawn here in numpy at width 256, decide: $\mathcal{J}^{L,0} = \mathbb{E}\,\|J v\|^2/(nd)$ over Gaussian
# directions $v$, the derivative $Jv$ taken exactly.


# %%
def random_apjn(draw, tangent_norm, n, s, blocks, d=256, probes=8):
    """mean square of the Jacobian of a random transformer: sigma_OV = 1, sigma_21 = sqrt 2, c_0 = 0.4"""
    normal = lambda *shape: draw.standard_normal(shape, dtype=np.float32)
    weight = lambda sigma: np.float32(sigma / np.sqrt(d)) * normal(d, d)
    h, dh = (
        np.sqrt(0.4, dtype=np.float32) * normal(d) + np.sqrt(0.6, dtype=np.float32) * normal(n, d),
        normal(probes, n, d),
    )
    size = np.square(dh).sum()
    for _ in range(blocks):
        x, dx = tangent_norm(h, dh)
        V = weight(1) @ weight(1)
        A, dA = np.float32(1 / n), None
        if s:
            Q, K = weight(np.sqrt(s)), weight(1)
            q, k = x @ Q, x @ K
            logits, dlogits = (
                q @ k.T / np.sqrt(d),
                (dx @ Q @ k.T + q @ (dx @ K).swapaxes(-1, -2)) / np.sqrt(d),
            )
            A = np.exp(logits - logits.max(-1, keepdims=True))
            A /= A.sum(-1, keepdims=True)
            dA = A * (dlogits - (A * dlogits).sum(-1, keepdims=True))
        else:
            A = np.full((n, n), A)
        h, dh = h + A @ x @ V, dh + (A @ dx + (0 if dA is None else dA @ x)) @ V
        x, dx = tangent_norm(h, dh)
        W_1, W_2 = weight(1), weight(np.sqrt(2))
        before = x @ W_1
        h, dh = h + np.maximum(before, 0) @ W_2, dh + (dx @ W_1 * (before > 0)) @ W_2
    return np.square(dh).sum() / size


def layer_norm(h, dh):
    centred, moved = h - h.mean(-1, keepdims=True), dh - dh.mean(-1, keepdims=True)
    x = centred / h.std(-1, keepdims=True)
    return x, (moved - x * (x * moved).mean(-1, keepdims=True)) / h.std(-1, keepdims=True)


def derf(h, dh):
    """numpy has no erf; a table of its integral is exact to single precision"""
    grid = np.linspace(-6, 6, 4001)
    slope = 2 / np.sqrt(np.pi) * np.exp(-np.square(grid))
    table = np.concatenate([[0], np.cumsum((slope[1:] + slope[:-1]) / 2)]) * (grid[1] - grid[0])
    x = np.interp(h, grid, table - table[-1] / 2).astype(np.float32)
    return x, (2 / np.sqrt(np.pi) * np.exp(-np.square(h))).astype(np.float32) * dh


draw = np.random.default_rng(12)
cases = [
    ("LN", mf.LayerNorm(), layer_norm, 4, 0, 16),
    ("Derf 1", mf.Derf(1), derf, 4, 0, 16),
    ("LN", mf.LayerNorm(), layer_norm, 16, 1, 8),
]
rows = []
for name, norm, tangent, n, s, blocks in cases:
    scales = {
        "n": n,
        "sigma_Q": np.sqrt(s),
        "sigma_K": 1.0 if s else 0.0,
        "sigma_V": 1.0,
        "sigma_O": 1.0,
        "sigma_1": 1.0,
        "sigma_2": np.sqrt(2),
    }
    value, full = (
        mf.propagate(transformer(norm, derivative), blocks, q=1.0, p=0.4, **scales)
        for derivative in (False, True)
    )
    samples = np.array([random_apjn(draw, tangent, n, s, blocks) for _ in range(10)])
    mean, error = samples.mean(), samples.std() / np.sqrt(len(samples) - 1)
    chi, value, full = np.exp([value.log_chi_product[0], value.log_apjn[0], full.log_apjn[0]])
    assert abs(mean / full - 1) < 4 * error / mean + 0.04
    assert chi < mean - 4 * error
    rows.append([name, n, s, blocks, chi, value, full, rf"${mean:.3g} \pm {error:.1g}$"])
dict(
    zip(
        [
            "norm",
            "$n$",
            "$s$",
            "blocks",
            r"$\prod\chi$",
            "$(J, K)$, values",
            "$(J, K)$",
            "random networks",
        ],
        zip(*rows, strict=True),
        strict=True,
    )
)

# %% [markdown]
# At the setting of ViT-L ($n = 197$, 128 blocks) the three differ by 1 %, which is why the source saw agreement:

# %%
networks = {
    "pre-LN": mf.LayerNorm(),
    r"Derf, $\alpha = 0.5$": mf.Derf(0.5),
    r"Derf, $\alpha = 1.1$": mf.Derf(1.1),
}
runs = {
    name: [mf.propagate(transformer(norm, d), 128, q=1.0, p=0.4, **vit) for d in (False, True)]
    for name, norm in networks.items()
}
assert (
    abs(np.exp(runs["pre-LN"][0].log_chi_product[0]) - 20.977067) < 1e-6
)  # the end of the published curve
{
    "": list(runs),
    "$q_L$": [pair[0].q[-1] for pair in runs.values()],
    "$p_L$": [pair[0].p[-1] for pair in runs.values()],
    r"$\prod\chi$": [np.exp(pair[0].log_chi_product[0]) for pair in runs.values()],
    "$(J, K)$, values": [np.exp(pair[0].log_apjn[0]) for pair in runs.values()],
    "$(J, K)$": [np.exp(pair[1].log_apjn[0]) for pair in runs.values()],
}

# %% tags=["hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.0), layout="constrained")
for colour, (name, pair) in zip(("#000000", "#0072B2", "#D55E00"), runs.items(), strict=True):
    left.plot(pair[1].layers, pair[1].log_apjn, color=colour, label=name)
left.set(xlabel="block $l$", ylabel=r"$\ln\mathcal{J}^{L,l}$", title="ViT-L")
left.legend()
few = {
    "n": 4,
    "sigma_Q": 0.0,
    "sigma_K": 0.0,
    "sigma_V": 1.0,
    "sigma_O": 1.0,
    "sigma_1": 1.0,
    "sigma_2": np.sqrt(2),
}
one = mf.propagate(transformer(mf.LayerNorm()), 16, q=1.0, p=0.4, **few)
right.plot(one.layers, one.log_apjn, color="#000000", label="$(J, K)$")
right.plot(one.layers, one.log_chi_product, color="#000000", linestyle="--", label=r"$\prod\chi$")
right.errorbar(
    [0],
    [np.log(float(rows[0][-1].strip("$").split()[0]))],
    fmt="o",
    color="#D55E00",
    label="random networks",
)
right.set(xlabel="block $l$", title="pre-LN, 4 tokens")
right.legend()
left

# %% [markdown]
# Further, in the source:
#
# - $l$ counts sublayers in the text and blocks in the figures.
# - "Perfect quantitative agreement": the single ViT of the figure is 1 to 14 % above its theory at $l = 0$, as one draw of finite width is.
# - "The denominator in Eq. (12) cannot suppress by more than a factor of $n$ … the MLP contribution remains the same as without
#   attention": $\hat q$ depends on $q$, which attention makes larger (see *Growth laws*).
