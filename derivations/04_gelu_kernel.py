# %% [markdown]
# # The kernel of GELU
#
# **Statement.** For $\phi(x) = x\,\Phi(x)$, $\Phi$ the normal distribution function, and $u, v$ centred Gaussian of variance $q$
# and covariance $p$, the kernel $\mathbb{E}\,\phi(u)\phi(v)$ and its derivative in $p$ are elementary:
#
# $$\mathbb{E}\,\phi(u)\phi(v) = \frac p4 + \frac{p}{2\pi}\arcsin\frac{p}{1 + q}
# + \frac{q^2(1 + q) + p^2(1 - q)}{2\pi(1 + q)\sqrt{(1 + q)^2 - p^2}}$$
#
# **Source.** Tsuchida, Pearce, van der Heide, Roosta, Gallagher (2021) for the kernel; Hendrycks and Gimpel (2016) for
# the activation. GELU is among the "ReLU or its variants" of Su's two articles.
#
# **Assumptions.** The exact GELU, not its tanh approximation.

# %%
import meanfield as mf
import numpy as np
import sympy as sp

# %% [markdown]
# ## Derivation and certificate
#
# The certificate below the steps does not use them: the kernel is determined by its derivative in $p$ (Price) and its value at $p = 0$.

# %%
d = mf.gelu.derive("kernel")
assert d.certificate.holds
d

# %% [markdown]
# This is the statement:

# %%
q, p = mf.q, mf.p
root = sp.sqrt((1 + q) ** 2 - p**2)
stated = (
    p / 4
    + p / (2 * sp.pi) * sp.asin(p / (1 + q))
    + (q**2 * (1 + q) + p**2 * (1 - q)) / (2 * sp.pi * (1 + q) * root)
)
assert sp.cancel(sp.expand(d.result - stated)) == 0

# %% [markdown]
# From it, by $p = q$, by $\partial_p$ (Price), and from the mean:

# %%
slope = mf.gelu.derivative
mf.gelu.mean(q), mf.gelu.second_moment(q), slope.mean(q), slope.second_moment(q), slope.kernel(q, p)

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

at = np.linspace(-1, 1, 201)
figure, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
for colour, v in zip(("#0072B2", "#D55E00", "#000000"), (0.1, 1.0, 100.0), strict=True):
    curve = mf.evaluate(d.result, q=v, p=v * at) / mf.evaluate(mf.gelu.second_moment(q), q=v)
    ax.plot(at, curve, color=colour, label=f"$q = {v:g}$")
ax.plot(
    at, 2 * mf.evaluate(mf.relu.kernel(1, p), p=at), color="#999999", linestyle=":", label="ReLU"
)
ax.set(xlabel=r"correlation $\rho$ before", ylabel="normalised kernel")
ax.legend()
ax

# %% [markdown]
# Small inputs see a line with a small quadratic part, large ones see ReLU: GELU is homogeneous in neither sense, and the shape of
# the map depends on $q$.
#
# ## Numbers

# %%
variances = [0.1, 1.0, 10.0, 100.0]
moments = {
    r"$\mathbb{E}\,\phi/\sqrt q$": mf.gelu.mean(q) / sp.sqrt(q),
    r"$\mathbb{E}\,\phi^2/q$": mf.gelu.second_moment(q) / q,
    r"$\mathbb{E}\,\phi'^2$": slope.second_moment(q),
}
{r"$q$": variances} | {
    name: list(mf.evaluate(e, q=np.array(variances))) for name, e in moments.items()
}

# %% [markdown]
# ## Where the sources are imprecise
#
# - "(approximately) satisfy $\phi(\lambda x) = \lambda\phi(x)$": $\mathbb{E}\,\phi^2/q$ goes from $\tfrac14$ to $\tfrac12$ (table). At
#   $q = 1$ the local exponent of $\mathbb{E}\,\phi(\lambda z)^2$ in $\lambda$ is 2.288, not 2:

# %%
second = mf.gelu.second_moment(q)
exponent = sp.simplify((2 * q * second.diff(q) / second).subs(q, 1))
assert 2.288 < exponent < 2.289
sp.Eq(sp.Symbol(r"\frac{\partial\ln\nu^2}{\partial\ln\lambda}"), sp.N(exponent, 8))

# %% [markdown]
# - The tanh approximation that most code calls GELU has no closed kernel, and moments that differ in the fourth digit:

# %%
tanh_like = mf.activations["gelu_tanh"]
{
    "": ["GELU", "its tanh approximation"],
    r"$\mathbb{E}\,\phi^2$ at $q = 1$": [
        mf.evaluate(phi.second_moment(1), digits=30) for phi in (mf.gelu, tanh_like)
    ],
    "closed": [phi.is_closed("kernel") for phi in (mf.gelu, tanh_like)],
}

# %% [markdown]
# - Gains that are handed around were sampled. timm's NFNet multiplies GELU by 1.7015; the gain that gives the output unit variance
#   is $(\mathbb{E}\,\phi^2 - (\mathbb{E}\,\phi)^2)^{-1/2}$ at $q = 1$:

# %%
gain = mf.gain(mf.gelu).variance
assert abs(float(gain) - 1.7015) > 5e-4
sp.Eq(sp.Symbol("g"), sp.N(gain, 12))

# %% [markdown]
# - Modula divides GELU by its largest slope, 1.1289, to make it 1-Lipschitz. The slope is largest at $\sqrt2$:

# %%
x = mf.x
derivative = slope.expression
assert sp.simplify(derivative.diff(x).subs(x, sp.sqrt(2))) == 0
sp.Eq(sp.Symbol(r"\phi'(\sqrt2)"), sp.N(derivative.subs(x, sp.sqrt(2)), 8))
