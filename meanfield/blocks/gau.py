r"""The gated attention unit (Hua et al. 2022, arXiv:2202.10447) at initialisation.

O = (U \odot A V) W_o,   A = relu(Z Z^T)^2/(n s),   U = phi(X W_u), V = phi(X W_v), Z = phi(X W_z).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.activation import Activation, check_activation
from meanfield.blocks.algebra import Block
from meanfield.blocks.feature_path import FeaturePath
from meanfield.blocks.laws import Law, Signal
from meanfield.blocks.overlaps import Kernel, Names, Overlaps, pair
from meanfield.gaussian.exchangeable import Exchangeable

__all__ = ["GAU", "DiagonalGAU"]


@dataclass(frozen=True)
class GAU(Block):
    r"""The gated attention unit on n tokens: s features, width d, e hidden units.

    U and V are independent of A, so with A_{ab,a'c} = E A_ab A_a'c summed over token patterns, k the kernel E phi phi of the index:

        E (A V)^2 = a_qq q_V + a_qp p_V,  E (A V)_a (A V)_a' = a_pq q_V + a_pp p_V,   q' = \sigma_O^2 q_U E (A V)^2,
        a_qq = E A_aa^2 + (n-1) E A_ab^2,          a_qp = 2(n-1) E A_aa A_ab + (n-1)(n-2) E A_ab A_ac,
        a_pq = 2 E A_aa A_ab + (n-2) E A_ab A_ac,  a_pp = a_qq + a_qp - a_pq - (what a change of one token takes away).

    The off-diagonal part is coherent: V has a mean, and n^2 terms E A_ab A_ac p_V outweigh the diagonal of Su (2022), q' =
    \sigma_O^2 (s q_Z^2/n)^2 q_U q_V, as soon as n > 1 + (q_V/p_V)^{5/2} or so. The moments of A are those of relu^2 of overlaps
    S_ab = Z_a . Z_b, Gaussian up to third cumulants (`meanfield.blocks.overlaps`), so s is finite in this law. The overlaps x_a . x_b of
    random tokens deviate from d p by (q^2 - p^2)/q \sqrt d, which adds to Var S_ab; n, s << d^2 otherwise leave d out, and e drops out.

    Backward, the gradient reaches x through U, V and both occurrences of Z; independent weights leave no cross terms but of order 1/d:

        T = T_U + T_V + T_Z,   T_U = \sigma_O^2 \sigma_U^2 diag(E phi'(u)^2 E (A V)^2, ...),
        T_V = \sigma_O^2 \sigma_V^2 diag(E phi'(v)^2, E phi'(v_a) phi'(v_b)) a diag(q_U, p_U),   T_Z: `meanfield.blocks.feature_path`.

    One A acts on all e units: it scatters by O(1/s) at any width. The law of the unit holds the means over that; in a stack with norms two
    effects of O(1/s) are not in (q, p, J, K). A norm divides by a q that scatters, E 1/q > 1/E q; and it takes from the gradient what goes
    along its input, of which A V \odot U is a part, so that what would change the size of A is lost from T_Z. Networks with phi = erf,
    n = 8, \lambda = 1.5, branches much larger than the skip, have ln J of the last block 0.09 above the law (pre-norm, by the
    first) and 0.033 below it (post-norm, by the second) at s = 64, 0.02 and 0.010 at s = 256. Where a heavy tail of relu^2 makes A
    scatter more, it is more: phi = silu, \lambda = 1.25, s = 64 post-norm, 0.36 below after two blocks. `mf.reference.compare` takes
    the first order in 1/s off, and says where q scatters too much for that to be enough: by e^{1.2} here.

    Parameters
    ----------
    phi : Activation
        Without jumps.
    s, n, d, e : whole numbers >= 1 or expressions
        Left out, the symbols of those names. W_o has fan-in e.
    sigma_U, sigma_V, sigma_Z, sigma_O : number >= 0 or expression
        Weight scales, 1 for LeCun initialisation.
    lam : number >= 0 or expression
        A gain on all four.

    Between tokens of negative correlation c, moments of two tokens are exact, those of three and four to first order in c.

    >>> import meanfield as mf
    >>> run = mf.propagate(mf.GAU(mf.silu, s=128, n=512, d=768, e=1536), 1, q=1.0, c=0.0)
    >>> round(float(run.q[-1]) ** 0.5, 4), round(float(run.c[-1]), 3)
    (0.0548, 0.098)
    """

    phi: Activation
    s: Any = None
    n: Any = None
    d: Any = None
    e: Any = None
    sigma_U: Any = 1
    sigma_V: Any = 1
    sigma_Z: Any = 1
    sigma_O: Any = 1
    lam: Any = 1

    def __post_init__(self) -> None:
        check_activation(self.phi)
        if self.phi.derivative.expression.has(sp.DiracDelta):
            raise ValueError(f"phi = {self.phi!r}: it jumps, and the gradient of a gated attention unit would be infinite")
        for f in fields(self)[1:]:
            object.__setattr__(self, f.name, arguments.scalar(getattr(self, f.name), f.name))

    @property
    def diagonal(self) -> DiagonalGAU:
        """The estimate of Su (2022): A = s q_Z^2/n times the identity."""
        return DiagonalGAU(self)

    def law(self, signal: Signal) -> Law:
        names, gains = Names(), _Gains.of(self)
        u, v, z = _kernels(names, self.phi, gains, signal)
        q, p, delta = signal.q, signal.p, signal.delta
        variance_z, gap_z = gains.z**2 * q, gains.z**2 * delta
        slope = self.phi.derivative
        tangent = names("tangent_Z", gains.z**2 * pair(slope, variance_z, gains.z**2 * p), r"\dot p_Z")
        spread = names("spread", (delta * (q + p) / q) ** 2 / self.d, r"\omega", nonnegative=True)  # of the overlaps x_a . x_b/d
        extra = names("extra", (self.s * tangent) ** 2 * spread, r"\omega_S", nonnegative=True)
        a = Overlaps.of(names, self.phi, self.s, z, variance_z, gap_z, extra)
        for index, mean in zip(("ii", "ij"), a.first, strict=True):
            names(f"A_{index}", mean / (self.n * self.s), rf"\mathbb{{E}} A_{{{index}}}")
        mixing = _Mixing.of(names, a, self.n, self.s)
        # V_a V_b deviates with x_a . x_b as S_ab does
        value_tangent = names("tangent_V", gains.v**2 * pair(slope, gains.v**2 * q, gains.v**2 * p), r"\dot p_V")
        deviation = 2 * (self.n - 1) * (a.mean_diagonal**2 + a.variance_diagonal) * a.off.values[1] * self.s * spread
        shift = names("shift", deviation * tangent * value_tangent / (self.n * self.s) ** 2, r"\omega_Y")
        y_q = names("Y_q", mixing.qq * v.q + mixing.qp * v.p + shift, "Y_q", positive=True)
        y_gap = names("Y_gap", v.gap * (mixing.qq - mixing.pq) + v.p * mixing.change + shift, r"Y_\delta")
        y_p = names("Y_p", mixing.pq * v.q + mixing.pp * v.p, "Y_p", kernel=y_q - y_gap)
        out = gains.o**2
        gap = out * (u.gap * (y_q + y_p) + y_gap * (u.q + u.p)) / 2
        output = Signal(out * u.q * y_q, out * u.p * y_p, gap, S.Zero, gaussian=True, mixed=True)
        path = FeaturePath(names, self.phi, z, u, v, variance_z, gains.z**2 * p, gap_z, self.s, self.n, self.d, extra)
        transfer = (gains.u**2 * _slopes(slope, gains.u**2, signal) * sp.diag(y_q, y_p)).as_mutable()
        transfer += gains.v**2 * _slopes(slope, gains.v**2, signal) * mixing.matrix * sp.diag(u.q, u.p)
        transfer = out * (transfer + gains.z**2 * path.transfer())
        return Law(output, transfer, transfer[0, 0], tuple(names.definitions))


@dataclass(frozen=True)
class DiagonalGAU(Block):
    r"""The gated attention unit with only the diagonal of A, and that at its mean: A = (s q_Z^2/n) 1 (Su 2022).

        q' = \sigma_O^2 (s q_Z^2/n)^2 q_U q_V,   p' = \sigma_O^2 (s q_Z^2/n)^2 p_U p_V,

    and the gradient of that, through U, V and Z.

    >>> import meanfield as mf
    >>> run = mf.propagate(mf.GAU(mf.silu, s=128, n=512, d=768, e=1536).diagonal, 1, q=1.0)
    >>> print(f"{run.q[-1] ** 0.5:.15g}")
    0.0112581801613421
    """

    unit: GAU

    def law(self, signal: Signal) -> Law:
        names, gains, phi, s, n = Names(), _Gains.of(self.unit), self.unit.phi, self.unit.s, self.unit.n
        u, v, z = _kernels(names, phi, gains, signal)
        slope, out = phi.derivative, gains.o**2
        a = names("A", s * z.q**2 / n, "A", positive=True)
        gap = out * a**2 * (u.gap * (v.q + v.p) + v.gap * (u.q + u.p)) / 2
        output = Signal(out * a**2 * u.q * v.q, out * a**2 * u.p * v.p, gap, S.Zero, gaussian=True, mixed=True)
        value = gains.u**2 * _slopes(slope, gains.u**2, signal) * sp.diag(v.q, v.p)
        value += gains.v**2 * _slopes(slope, gains.v**2, signal) * sp.diag(u.q, u.p)
        # dA_aa = 4 (S_aa/(n s)) Z_a . dZ_a
        f, variance, apart = phi.expression, gains.z**2 * signal.q, gains.z**2 * signal.delta
        same, cross = Exchangeable(f, [(2, 2)], variance, apart), Exchangeable(f, [(1, 1), (1, 1)], variance, apart)
        through_a = 16 * s * (z.q / n) ** 2 * sp.diag(u.q * v.q * same, u.p * v.p * cross)
        transfer = out * (a**2 * value + gains.z**2 * through_a)
        return Law(output, transfer, transfer[0, 0], tuple(names.definitions))


@dataclass(frozen=True)
class _Gains:
    """Standard deviation times root of fan-in of the four matrices."""

    u: sp.Expr
    v: sp.Expr
    z: sp.Expr
    o: sp.Expr

    @classmethod
    def of(cls, block: GAU) -> _Gains:
        return cls(*(block.lam * sigma for sigma in (block.sigma_U, block.sigma_V, block.sigma_Z, block.sigma_O)))


@dataclass(frozen=True)
class _Mixing:
    r"""How A carries second moments of tokens: [[a_qq, a_qp], [a_pq, a_pp]] and `change` = a_qq + a_qp - a_pq - a_pp."""

    qq: sp.Expr
    qp: sp.Expr
    pq: sp.Expr
    pp: sp.Expr
    change: sp.Expr

    @property
    def matrix(self) -> sp.Matrix:
        return sp.Matrix([[self.qq, self.qp], [self.pq, self.pp]])

    @classmethod
    def of(cls, names: Names, a: Overlaps, n: sp.Expr, s: sp.Expr) -> _Mixing:
        unit = 1 / (n * s) ** 2
        own, near, square, pair = (names(f"A_{k}", unit * m, f"A_{k}") for k, m in enumerate(a.same, 1))
        change = unit * (a.change[0] + 2 * (n - 2) * a.change[1] + (n - 2) * a.change[2] + (n - 2) * (n - 3) * a.change[3])
        change = names("a_change", change, r"a_\delta")
        qq = names("a_qq", own + (n - 1) * square, "a_{qq}")
        qp = names("a_qp", 2 * (n - 1) * near + (n - 1) * (n - 2) * pair, "a_{qp}")
        pq = names("a_pq", 2 * near + (n - 2) * pair, "a_{pq}")
        return cls(qq, qp, pq, names("a_pp", qq + qp - pq - change, "a_{pp}"), change)


def _kernels(names: Names, phi: Activation, gains: _Gains, signal: Signal) -> tuple[Kernel, Kernel, Kernel]:
    """the moments of U, V and Z; those of equal gain are one"""
    found: dict[sp.Expr, Kernel] = {}
    for gain, index in ((gains.u, "U"), (gains.v, "V"), (gains.z, "Z")):
        if gain not in found:
            g = gain**2
            found[gain] = Kernel.of(names, phi, g * signal.q, g * signal.p, g * signal.delta, index)
    return found[gains.u], found[gains.v], found[gains.z]


def _slopes(slope: Activation, gain: sp.Expr, signal: Signal) -> sp.Matrix:
    return sp.diag(slope._second(gain * signal.q), pair(slope, gain * signal.q, gain * signal.p))
