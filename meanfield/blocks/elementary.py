"""Linear maps, activations and norms: the blocks that act on each token by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.activation import Activation, check_activation
from meanfield.blocks.algebra import Block, Serial
from meanfield.blocks.laws import NO_WEIGHTS, Law, Signal
from meanfield.catalogue import activations
from meanfield.gaussian.guards import is_guarded
from meanfield.gaussian.lacks import Apart, Lack

__all__ = ["MLP", "Activate", "Derf", "Dropout", "DyT", "Identity", "Linear", "Scale"]


@dataclass(frozen=True)
class Linear(Block):
    r"""W x + b, W_ij ~ N(0, sigma_w^2/fan_in), b_i ~ N(0, sigma_b^2):  q' = sigma_w^2 q + sigma_b^2,  T = sigma_w^2.

    The output is Gaussian and has no mean, whatever the input was (wide layers).

    Parameters
    ----------
    sigma_w, sigma_b : number >= 0 or expression
        Scales of weights and biases; left out, the symbols of those names.

    >>> import meanfield as mf, sympy as sp
    >>> mf.recursion(mf.Linear(sigma_w=sp.sqrt(2), sigma_b=0)).q
    2*q
    """

    sigma_w: Any = None
    sigma_b: Any = None
    affine = True
    tokenwise = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_w", arguments.scalar(self.sigma_w, "sigma_w"))
        object.__setattr__(self, "sigma_b", arguments.scalar(self.sigma_b, "sigma_b"))

    def law(self, signal: Signal) -> Law:
        gain, bias = self.sigma_w**2, self.sigma_b**2
        output = replace(signal.mapped(gain, bias), mean=S.Zero, mean2=None, gaussian=True, mixed=True)
        return Law(output, gain * sp.eye(2), gain, tangent=(output.q, output.p))


@dataclass(frozen=True)
class Scale(Block):
    r"""factor * x with a fixed number:  q' = factor^2 q,  p' = factor^2 p,  T = factor^2.

    The mean is multiplied as well, and what was Gaussian stays so. It has no random weights: no residual branch may be it alone.

    Parameters
    ----------
    factor : number or expression
        Of any sign, may depend on L and l; left out, the symbol of that name.

    >>> import meanfield as mf, sympy as sp
    >>> rec = mf.recursion(mf.Residual(mf.Linear(1, 0)) >> mf.Scale(1 / sp.sqrt(3)))
    >>> rec.q, rec.chi
    (2*q/3, 2/3)
    """

    factor: Any = None
    affine = True
    tokenwise = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", arguments.scalar(self.factor, "factor"))

    def law(self, signal: Signal) -> Law:
        gain = self.factor**2
        return Law(signal.times(self.factor), gain * sp.eye(2), gain, tangent=NO_WEIGHTS)


@dataclass(frozen=True)
class Identity(Block):
    r"""x itself:  q' = q,  p' = p,  T = 1: the norm of a network without norms, or the plain branch of a sum.

    It has no random weights: only one branch of a sum may be it, and no residual branch it alone.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.Identity() + mf.Linear(1, 0))
    >>> rec.q, rec.chi
    (2*q, 2)
    """

    affine = True
    tokenwise = True

    def law(self, signal: Signal) -> Law:
        return Law(signal, sp.eye(2), S.One, tangent=NO_WEIGHTS)


@dataclass(frozen=True)
class Activate(Block):
    r"""phi on each coordinate:  q' = E phi(u)^2,  p' = E phi(u) phi(v),  T = diag(E phi'(u)^2, E phi'(u) phi'(v)).

    (u, v) is Gaussian of variances q and covariance p (Poole et al. 2016, Schoenholz et al. 2017; the diagonal transfer is Price's
    theorem). Refused on coordinates that are not Gaussian: two activations need a Linear between them.

    Parameters
    ----------
    phi : Activation
        One of the catalogue, as `mf.relu`, or any expression: `mf.Activation(mf.x * sp.atan(mf.x))`.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.Activate(mf.erf) >> mf.Linear(1, 0))
    >>> rec.p, rec.transfer[1, 1]
    (2*asin(2*p/(2*q + 1))/pi, 4/(pi*sqrt(-4*p**2 + (2*q + 1)**2)))
    """

    phi: Activation
    tokenwise = True

    def __post_init__(self) -> None:
        check_activation(self.phi)

    def law(self, signal: Signal) -> Law:
        if not signal.gaussian or signal.mean != 0:
            raise ValueError(
                f"{self.phi!r} would act on coordinates that are not centred Gaussians (an activation or a Dropout comes before it): "
                "insert a Linear before it, or put the Dropout right behind an activation"
            )
        phi, slope = self.phi, self.phi.derivative
        q, p, q2 = signal.q, signal.p, signal.second
        same, two, mean = phi._second(q), phi._kernel(q, p, q2), _mean(phi, q)
        centred = None if mean == 0 else phi._gap(q, q)  # from an independent input
        if signal.q2 is None:
            output = Signal(same, two, phi._gap(q, signal.delta), mean, False, signal.mixed, centred=centred)
        else:
            other, mean2, centred2 = phi._second(q2), _mean(phi, q2), None if mean == 0 else phi._gap(q2, q2)
            delta = Apart(same, other, Lack(phi.expression, q, q2, signal.lack))
            output = Signal(same, two, delta, mean, False, signal.mixed, other, mean2, centred, centred2)
        chi = slope._second(q)
        return Law(output, sp.diag(chi, slope._kernel(q, p, q2)), chi, tangent=NO_WEIGHTS)


def _mean(phi: Activation, q: sp.Expr) -> sp.Expr:
    """E phi(u) without its condition: it is finite where E phi(u)^2 is"""
    return phi._mean(q).doit().replace(is_guarded, lambda t: t.args[0].expr)


def Derf(alpha: Any = None) -> Activate:
    r"""erf(alpha x) in the place of a norm (Chen et al. 2025, arXiv:2512.10938):  q' = (2/pi) arcsin(2 alpha^2 q/(1 + 2 alpha^2 q)).

    p' is the same with p in the numerator, and chi = 4 alpha^2/(pi sqrt(1 + 4 alpha^2 q)) falls off like 1/sqrt(q), that of
    LayerNorm like 1/q.

    Parameters
    ----------
    alpha : number > 0 or expression
        The slope; left out, the symbol of that name.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.Derf() >> mf.Linear(1, 0))
    >>> rec.p, rec.chi
    (2*asin(2*alpha**2*p/(2*alpha**2*q + 1))/pi, 4*alpha**2/(pi*sqrt(4*alpha**2*q + 1)))
    """
    return Activate(activations["derf"](alpha))


def DyT(alpha: Any = None) -> Activate:
    r"""tanh(alpha x) in the place of a norm (Zhu et al. 2025, arXiv:2503.10622):  q' = E tanh(alpha u)^2,  u ~ N(0, q).

    Its moments have no closed form: they stay expectations, which `mf.evaluate` and `mf.propagate` turn into numbers.

    Parameters
    ----------
    alpha : number > 0 or expression
        The slope; left out, the symbol of that name.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.DyT() >> mf.Linear(1, 0))
    >>> rec.q, rec.chi
    (E(tanh(alpha*x)**2, q), alpha**2*E((1 - tanh(alpha*x)**2)**2, q))
    """
    return Activate(activations["dyt"](alpha))


@dataclass(frozen=True)
class Dropout(Block):
    r"""x \odot mask/(1 - rate) while training: q' = q/(1 - rate), p' = p, T = diag(1/(1 - rate), 1), 0 <= rate < 1.

    Each coordinate of each token is kept with probability 1 - rate, on its own: the mask adds to the square of one token, and to no
    product of two. What is dropped in part is no longer Gaussian.

    Parameters
    ----------
    rate : number in [0, 1) or expression
        The probability that a coordinate is dropped; left out, the symbol of that name.

    >>> import meanfield as mf
    >>> mf.recursion(mf.Residual(mf.Linear(1, 0) >> mf.Dropout(0.1))).q
    19*q/9
    """

    rate: Any = None
    affine = True
    tokenwise = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", arguments.scalar(self.rate, "rate"))

    def law(self, signal: Signal) -> Law:
        gain = 1 / (1 - self.rate)
        q2 = None if signal.q2 is None else gain * signal.q2
        delta = signal.lack + self.rate * gain * sp.sqrt(signal.q) * sp.sqrt(signal.second)  # gain - 1 = rate gain
        if q2 is not None:
            delta = Apart(gain * signal.q, q2, delta)
        gaussian = signal.gaussian and gain == 1
        output = replace(signal, q=gain * signal.q, q2=q2, delta=delta, gaussian=gaussian, centred=None, centred2=None)
        return Law(output, sp.diag(gain, 1), gain, tangent=NO_WEIGHTS)


def MLP(phi: Activation, sigma_1: Any = None, sigma_2: Any = None, sigma_b1: Any = 0, sigma_b2: Any = 0) -> Serial:
    r"""W_2 phi(W_1 x + b_1) + b_2, weights of variance sigma^2/fan_in, biases of variance sigma_b^2.

    q' = sigma_2^2 E phi(u)^2 + sigma_b2^2 with u of variance sigma_1^2 q + sigma_b1^2.

    Parameters
    ----------
    phi : Activation
    sigma_1, sigma_2, sigma_b1, sigma_b2 : number >= 0 or expression
        Weight scales, the symbols of those names if left out, and bias scales, 0 if left out.

    >>> import meanfield as mf
    >>> mf.recursion(mf.MLP(mf.relu)).q
    q*sigma_1**2*sigma_2**2/2
    """
    first = Linear(arguments.scalar(sigma_1, "sigma_1"), arguments.scalar(sigma_b1, "sigma_b1"))
    last = Linear(arguments.scalar(sigma_2, "sigma_2"), arguments.scalar(sigma_b2, "sigma_b2"))
    return Serial((first, Activate(phi), last))
