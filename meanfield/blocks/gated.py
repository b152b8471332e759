r"""Products of parallel branches: gated linear units, U \odot V with independent weights.

With h = f \odot g and branches that share no weights, the coordinates of the one are independent of those of the other as soon as
random weights made one of them: E f_a^2 g_a^2 = E f^2 E g^2, and the same for two tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from meanfield import arguments
from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, Serial, agreed_tokens, checked_block, law_on
from meanfield.blocks.elementary import Activate, Linear
from meanfield.blocks.laws import Law, Signal
from meanfield.catalogue import activations
from meanfield.gaussian.lacks import Apart

__all__ = ["GEGLU", "GLU", "Product", "ReGLU", "SwiGLU"]


@dataclass(frozen=True)
class Product(Block):
    r"""f(x) \odot g(x), coordinate by coordinate, with independent weights: second moments multiply.

        q' = q_f q_g,   p' = p_f p_g,   q' - p' = [(q_f - p_f)(q_g + p_g) + (q_g - p_g)(q_f + p_f)]/2,

    a sum of terms that are not negative. The gradient v of the product reaches f as v \odot g and g as v \odot f:

        T = T_f diag(q_g, p_g) + T_g diag(q_f, p_f),   \chi = \chi_f q_g + \chi_g q_f.

    Between the two paths stands \sum_i v_i^2 f_i g_i (\partial f_i . \partial g_i) (pairs i \ne j have v_i v_j of either sign), where the
    two gradients with respect to x meet. A row w_i of random weights is, given its product with x, a multiple x/|x|^2 of it and
    otherwise isotropic: its product with any vector independent of it is a fraction 1/width of |w_i|^2, and the cross terms
    vanish. They do not if neither branch has random weights (x \odot phi(x) is an activation of x), which is refused. The output is
    not Gaussian.

    Parameters
    ----------
    first, second : Block
        f and g; at least one must end behind random weights (Linear, Attention, MLP, an activation of these).

    Raises
    ------
    TypeError
        A branch is no block.
    ValueError
        Neither branch has random weights.

    >>> import meanfield as mf
    >>> gate = mf.Linear(1, 0) >> mf.Activate(mf.relu)
    >>> rec = mf.recursion(mf.Product(gate, mf.Linear(1, 0)) >> mf.Linear(1, 0))
    >>> rec.q, rec.chi
    (q**2/2, q)
    """

    first: Block
    second: Block

    def __post_init__(self) -> None:
        checked_block(self.first, "first")
        checked_block(self.second, "second")
        self.check()

    @property
    def tokens(self) -> sp.Expr | None:
        return agreed_tokens((self.first, self.second))

    @property
    def tokenwise(self) -> bool:  # type: ignore[override]
        return self.first.tokenwise and self.second.tokenwise

    def law(self, signal: Signal) -> Law:
        f, g = (_readable(branch, law_on(branch, replace(signal, mixed=False))) for branch in (self.first, self.second))
        a, b = f.output, g.output
        if not (a.mixed or b.mixed):
            raise ValueError(f"neither {self.first} nor {self.second} has random weights, their product is correlated: put a Linear in one")
        q, p, mean, mixed = a.q * b.q, a.p * b.p, a.mean * b.mean, signal.mixed or (a.mixed and b.mixed)
        if signal.q2 is None:
            delta = (a.delta * (b.q + b.p) + b.delta * (a.q + a.p)) / 2
            output = Signal(q, p, delta, mean, gaussian=False, mixed=mixed)
        else:
            q2, mean2 = a.second * b.second, a.second_mean * b.second_mean
            (one, first), (other, second) = ((c.lack, sp.sqrt(c.q) * sp.sqrt(c.second)) for c in (a, b))
            lack = (one * (second + b.p) + other * (first + a.p)) / 2
            output = Signal(q, p, Apart(q, q2, lack), mean, gaussian=False, mixed=mixed, q2=q2, mean2=mean2)
        transfer = f.transfer * sp.diag(b.q, b.p) + g.transfer * sp.diag(a.q, a.p)
        tangent = None
        if f.tangent is not None and g.tangent is not None:
            tangent = f.tangent[0] * b.q + g.tangent[0] * a.q, f.tangent[1] * b.p + g.tangent[1] * a.p
        return Law(output, transfer, f.chi * b.q + g.chi * a.q, f.definitions + g.definitions, tangent)


def _readable(branch: Block, law: Law) -> Law:
    """the moments of a branch stand several times in the law of a product"""
    return law if branch.affine else law.named()


def GLU(phi: Activation, sigma_gate: Any = None, sigma_value: Any = None, sigma_out: Any = None) -> Serial:
    r"""W_out (phi(W_gate x) \odot W_value x), a gated MLP without biases (Dauphin et al. 2017; Shazeer 2020, eqs. 5-6).

    q' = \sigma_out^2 \sigma_value^2 q E phi(u)^2, u of variance \sigma_gate^2 q: quadratic in q for a homogeneous phi.

    Parameters
    ----------
    phi : Activation
        The activation of the gate.
    sigma_gate, sigma_value, sigma_out : number >= 0 or expression
        Weight scales, variance sigma^2/fan_in; left out, the symbols of those names.

    >>> import meanfield as mf
    >>> mf.recursion(mf.GLU(mf.relu)).q
    q**2*sigma_gate**2*sigma_out**2*sigma_value**2/2
    """
    gate, value, out = (
        Linear(arguments.scalar(sigma, name), 0)
        for sigma, name in ((sigma_gate, "sigma_gate"), (sigma_value, "sigma_value"), (sigma_out, "sigma_out"))
    )
    return Serial((Product(gate >> Activate(phi), value), out))


def SwiGLU(sigma_gate: Any = None, sigma_value: Any = None, sigma_out: Any = None) -> Serial:
    r"""W_out (silu(W_gate x) \odot W_value x): `GLU` with silu (Shazeer 2020, arXiv:2002.05202, eq. 6), weight scales as there.

    q' = \sigma_out^2 \sigma_value^2 q E silu(u)^2, u of variance \sigma_gate^2 q; the expectation has no closed form.

    >>> import meanfield as mf
    >>> mf.recursion(mf.SwiGLU(1, 1, 1)).q
    q*E(x**2/(1 + exp(-x))**2, q)
    """
    return GLU(activations["silu"], sigma_gate, sigma_value, sigma_out)


def GEGLU(sigma_gate: Any = None, sigma_value: Any = None, sigma_out: Any = None) -> Serial:
    r"""W_out (gelu(W_gate x) \odot W_value x): `GLU` with gelu (Shazeer 2020, arXiv:2002.05202, eq. 6), weight scales as there.

    q' = \sigma_out^2 \sigma_value^2 q E gelu(u)^2, u of variance \sigma_gate^2 q, in closed form.

    >>> import meanfield as mf
    >>> mf.recursion(mf.GEGLU(1, 1, 1)).q
    q*(q**2/(pi*(q + 1)*sqrt(2*q + 1)) + q*asin(q/(q + 1))/(2*pi) + q/4)
    """
    return GLU(activations["gelu"], sigma_gate, sigma_value, sigma_out)


def ReGLU(sigma_gate: Any = None, sigma_value: Any = None, sigma_out: Any = None) -> Serial:
    r"""W_out (relu(W_gate x) \odot W_value x): `GLU` with relu (Shazeer 2020, arXiv:2002.05202, eq. 5), weight scales as there.

    q' = \sigma_out^2 \sigma_value^2 \sigma_gate^2 q^2/2, and chi is the derivative of that: the unit is homogeneous of degree 2.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.ReGLU(1, 1, 1))
    >>> rec.q, rec.chi
    (q**2/2, q)
    """
    return GLU(activations["relu"], sigma_gate, sigma_value, sigma_out)
