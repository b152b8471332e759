r"""First-order fluctuations of networks with gated attention units, (U \odot A V) W_o with A = relu(Z Z^T)^2/(n s).

One matrix A acts on all units, and has only s features, so that it fluctuates however wide the network is:

    over one head, by those of \overline{U U^T} \odot A \overline{V V^T} A^T,   over the e units, by those of U \odot A V given A.

Backward a gradient t at the units reaches U as t \odot A V, V as A^T (t \odot U) and the weights as \tau = L_W E L_V^T with W =
\overline{U U^T} \odot T, L_V L_V^T = \overline{V V^T}, E of standard normals; from there Z by dS = 2 relu(S) \odot \tau/(n s) and
dZ = (dS + dS^T) Z.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from meanfield.blocks.gau import GAU
from meanfield.reference.expressions import TensorFunction, tensor_function
from meanfield.reference.fluctuating_attention import carried, heads_of, paired, responding, transfer
from meanfield.reference.fluctuations import Back, Gaussian, Gradient, March, Signal, mean, moments, through

__all__: list[str] = []


@dataclass
class _Unit:
    """A gated attention unit on tokens of a law G whose sets have the covariance `across`, with a sample of its matrices A."""

    march: March
    phi: TensorFunction
    slope: TensorFunction
    gains: dict[str, float]
    features: int
    across: float

    def __post_init__(self) -> None:
        march, n = self.march, self.march.n
        self.count = heads_of(march, march.sets * n * (n + self.features))
        self.noise = march.normal(self.count, self.features, march.sets, n)
        self.back_noise = march.normal(self.count, march.sets, n, n)
        self.unit_noise = march.normal(march.samples, march.sets, n)

    def preactivation(self, letter: str, G: Tensor, noise: Tensor) -> Tensor:
        return self.gains[letter] * self.march.coloured(noise, G, self.across)

    def kernel(self, letter: str, G: Tensor) -> Tensor:
        """(q, p) of U or V"""
        return mean(moments(self.phi(self.preactivation(letter, G, self.unit_noise))))

    def features_of(self, G: Tensor) -> tuple[Tensor, Tensor]:
        """Z and phi' there, (head, set, feature, token)"""
        z = self.preactivation("Z", G, self.noise).transpose(1, 2)
        return self.phi(z), self.slope(z)

    def overlaps(self, Z: Tensor) -> Tensor:
        return torch.relu(Z.transpose(-1, -2) @ Z)

    def weights(self, S: Tensor) -> Tensor:
        return S**2 / (self.march.n * self.features)

    def mixed(self, G: Tensor) -> Tensor:
        """q and p of A V, for each A"""
        return carried(self.weights(self.overlaps(self.features_of(G)[0])), self.kernel("V", G))

    def pulled(self, G: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        """of gradients at the units of V, but for phi', and at the features, for each A"""
        Z, slope = self.features_of(G)
        S = self.overlaps(Z)
        tau = paired(self.back_noise, W, self.kernel("V", G))
        d = 2 * S * tau / (self.march.n * self.features)
        through_features = moments(slope * (Z @ (d + d.transpose(-1, -2)))).sum(-2)
        return carried(self.weights(S).transpose(-1, -2), W), through_features


@through.register
def _(block: GAU, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    G, across, d_G = mean(moments(s.x)), march.across(s), march.realised(s)
    march.entered.append(d_G[0] / G[0])
    gains = {letter: march.number(block.lam * getattr(block, f"sigma_{letter}")) for letter in "UVZO"}
    phi, slope = (tensor_function(march.expression(f.expression)) for f in (block.phi, block.phi.derivative))
    unit = _Unit(march, phi, slope, gains, round(march.number(block.s)), across)
    hidden = march.expression(block.e)
    own, units = march.sources.of(1.0), march.sources.of(round(float(hidden)) if hidden.is_number else march.hidden)
    A = unit.weights(unit.overlaps(unit.features_of(G)[0]))
    u, v = (unit.preactivation(letter, G, march.normal(unit.count, march.sets, march.n)) for letter in "UV")
    U, V = phi(u), phi(v)
    AV = (A @ V[..., None])[..., 0]
    q_U, each = unit.kernel("U", G), unit.mixed(G)
    out = gains["O"] ** 2

    mixed, by_G = responding(lambda G: unit.kernel("U", G) * mean(unit.mixed(G)), G)
    d = by_G @ d_G + march.sources.average(own, q_U * each) + march.sources.average(units, moments(U * AV) - q_U * each)
    common = U.mean(-1) * AV.mean(-1)
    between = float((common[:, 0] * common[:, 1]).mean()) if march.sets == 2 else 0.0
    result = march.made(out * mixed, out * between, out * d, after)
    #: phi' at the units, and how its second moments respond
    bent = {}
    for letter in "UV":
        x = unit.preactivation(letter, G, unit.unit_noise)
        seen = moments(slope(x))
        bent[letter] = gains[letter] ** 2 * mean(seen), gains[letter] ** 2 * march.response((Gaussian(x, gains[letter] ** 2 * d_G),), seen)

    def pulling(G: Tensor) -> Tensor:
        """the mean of gradients at x as a matrix that acts on T, phi' at the units held fixed"""

        def at(W: Tensor) -> Tensor:
            values, features = unit.pulled(G, W)
            return bent["V"][0] * mean(values) + gains["Z"] ** 2 * mean(features)

        return torch.diag(bent["U"][0] * mean(unit.mixed(G))) + transfer(at, march.n) * unit.kernel("U", G)

    def pull(g: Gradient) -> Gradient:
        T, d_T = mean(moments(g.x)), march.taken(g)
        values, features = unit.pulled(G, q_U * T)
        matrix, by_G = responding(pulling, G)
        d = matrix @ d_T + torch.einsum("rtg,t->rg", by_G, T) @ d_G
        d = d + bent["U"][1] * (T * mean(each))[:, None] + bent["V"][1] * mean(values)[:, None]
        t = march.coloured(march.normal(unit.count, march.sets, march.n), T)
        to_v = (A.transpose(-1, -2) @ (U * t)[..., None])[..., 0]
        of_head = bent["U"][0] * T * each + bent["V"][0] * values
        of_units = gains["U"] ** 2 * moments(slope(u) * t * AV) + gains["V"] ** 2 * moments(slope(v) * to_v)
        d = d + march.sources.average(own, of_head + gains["Z"] ** 2 * features) + march.sources.average(units, of_units - of_head)
        return march.pulled(out * matrix @ T, out * d, s)

    return result, pull
