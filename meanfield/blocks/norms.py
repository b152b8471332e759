"""Norms: what they divide by is a function of second moments, over the coordinates of a token or over a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp
from sympy import S

from meanfield.blocks.algebra import Block
from meanfield.blocks.laws import NO_WEIGHTS, Definition, Law, Signal
from meanfield.gaussian.lacks import Joined

__all__ = ["BatchNorm", "LayerNorm", "RMSNorm"]


@dataclass(frozen=True)
class LayerNorm(Block):
    r"""(x - mean(x))/std(x) over the coordinates of a token:  q' = 1,  p' = (p - m^2)/(q - m^2),  T = 1/(q - m^2).

    m is the common mean of a coordinate, 0 unless an activation phi left one (the norm: Ba et al. 2016, arXiv:1607.06450): then numbers of
    q - m^2 come from E phi(u)^2 - E phi(u) phi(v) of independent u, v, which loses no digits where the variance is small. In the limit of
    wide layers the projections in the Jacobian of the norm are a fraction 1/width and drop out. Not so behind a gated attention unit:
    there what they take from the gradient is of order 1/s, s its features, at any width, and the law leaves it out (see `mf.GAU`).

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.LayerNorm())
    >>> rec.p, rec.chi
    (p/q, 1/q)
    >>> mf.recursion(mf.Residual(mf.LayerNorm() >> mf.Linear(1, 0))).q
    q + 1
    """

    tokenwise = True

    def law(self, signal: Signal) -> Law:
        v, names = _centred(self, signal.q - signal.mean**2, signal.centred)
        if signal.q2 is None:
            output = Signal(S.One, (signal.p - signal.mean**2) / v, signal.delta / v, S.Zero, signal.gaussian, signal.mixed)
            return Law(output, sp.eye(2) / v, 1 / v, names, NO_WEIGHTS)
        v2, names2 = _centred(self, signal.q2 - signal.second_mean**2, signal.centred2)
        root = sp.sqrt(v) * sp.sqrt(v2)
        means = signal.mean * signal.second_mean
        p = (signal.p - means) / root
        lack = signal.lack - Joined(v, v2, signal.mean**2, signal.second_mean**2) - (sp.Abs(means) - means)
        output = Signal(S.One, p, lack / root, S.Zero, signal.gaussian, signal.mixed, S.One)
        return Law(output, sp.diag(1 / v, 1 / root), 1 / v, names + names2, NO_WEIGHTS)


@dataclass(frozen=True)
class RMSNorm(Block):
    r"""x / sqrt(mean(x^2)) over the coordinates of a token:  q' = 1,  p' = p/q,  T = 1/q  (Zhang & Sennrich 2019, arXiv:1910.07467).

    A mean is kept, not subtracted: relu and then the norm have chi = 1/q here and 1/(q (1 - 1/pi)) with `LayerNorm`, q before relu. The
    projections in its Jacobian drop out as they do there.

    >>> import meanfield as mf, sympy as sp
    >>> [sp.factor(mf.recursion(mf.Activate(mf.relu) >> norm >> mf.Linear(1, 0)).chi) for norm in (mf.RMSNorm(), mf.LayerNorm())]
    [1/q, pi/(q*(-1 + pi))]
    """

    tokenwise = True

    def law(self, signal: Signal) -> Law:
        q = _variance(self, signal.q)
        mean, centred = signal.mean / sp.sqrt(q), None if signal.centred is None else signal.centred / q
        if signal.q2 is None:
            output = Signal(S.One, signal.p / q, signal.delta / q, mean, signal.gaussian, signal.mixed, centred=centred)
            return Law(output, sp.eye(2) / q, 1 / q, tangent=NO_WEIGHTS)
        root = sp.sqrt(q) * sp.sqrt(signal.q2)
        mean2, centred2 = signal.second_mean / sp.sqrt(signal.q2), None if signal.centred2 is None else signal.centred2 / signal.q2
        lack = signal.lack / root
        output = Signal(S.One, signal.p / root, lack, mean, signal.gaussian, signal.mixed, S.One, mean2, centred, centred2)
        return Law(output, sp.diag(1 / q, 1 / root), 1 / q, tangent=NO_WEIGHTS)


@dataclass(frozen=True)
class BatchNorm(Block):
    r"""(x - mean(x))/std(x) of a coordinate over a large batch of inputs with equal covariances p:

        q' = 1,   p' = 0,   J' = (J - K)/(q - p),   K' = 0.

    A Gaussian coordinate is \sqrt{p} z_0 + \sqrt{q - p} z_a on input a: the batch shares z_0 and has the variance q - p. Backward, the
    norm takes from the gradient what the batch has in common, a part of size K, and what goes along the output, which is a fraction
    1/batch. Behind phi >> Linear, at its own output p = 0, the factor of J is E phi'^2 / Var phi per layer (Yang et al. 2019,
    arXiv:1902.08129): above 1 for every phi that is not linear.

    Coordinates that are not Gaussian are refused: their variances over the batch differ, and q and p do not tell them.

    >>> import meanfield as mf, sympy as sp
    >>> layer = mf.Activate(mf.relu) >> mf.Linear(sigma_b=0) >> mf.BatchNorm()
    >>> sp.factor(mf.recursion(layer).chi.subs({mf.q: 1, mf.p: 0}))
    pi/(-1 + pi)
    """

    def law(self, signal: Signal) -> Law:
        if not signal.gaussian:
            raise ValueError(
                "BatchNorm would see coordinates that are not Gaussian, each with a batch variance of its own: insert a Linear before it"
            )
        v = _variance(self, signal.delta)
        output = replace(signal, q=S.One, p=S.Zero, delta=S.One, mean=S.Zero)
        return Law(output, sp.Matrix([[1, -1], [0, 0]]) / v, 1 / v)


def _centred(norm: Block, difference: sp.Expr, value: sp.Expr | None) -> tuple[sp.Expr, tuple[Definition, ...]]:
    """a variance, as a name for its value where that is worked out without the difference it is"""
    if value is None:
        return _variance(norm, difference), ()
    v = sp.Dummy("v_tilde", positive=True)
    return v, (Definition(v, _variance(norm, value), r"\tilde v", shown=difference),)


def _variance(norm: Block, value: sp.Expr) -> sp.Expr:
    """what a norm divides by, if it is not zero whatever the parameters are"""
    if value == 0:
        raise ValueError(f"{norm} would divide by a variance that is zero, q is undefined behind it: insert a Linear with a bias before it")
    return value
