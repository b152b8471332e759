r"""Shaping of functions that are linear on both sides of 0: their scale is free, and what is left is the ratio of the two slopes.

Such a phi has phi(t x) = t phi(x) for t > 0, so that without a shift Q'(1) = Q(1) whatever the slopes: one condition is left for one
slope. Without an open slope only beta/alpha is left.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.activation import Activation
from meanfield.analysis.curves import DIGITS, precise, rational
from meanfield.analysis.depth_maps import NetworkMap, crossing
from meanfield.analysis.maps import derivative, values_of
from meanfield.analysis.near_linear import alpha, beta, moment, tilted
from meanfield.analysis.roots import positive_roots
from meanfield.analysis.shaped import NoShape, Shaped
from meanfield.catalogue import activations
from meanfield.gaussian.pieces import NotClosed, pieces_of
from meanfield.symbols import known

__all__ = ["by_shape", "by_value", "homogeneous"]

Floats = NDArray[np.float64]
x = known("x")
target = sp.Symbol("target", positive=True)


def homogeneous(phi: Activation) -> bool:
    """phi(t x) = t phi(x) for t > 0."""
    try:
        cuts, values = pieces_of(phi.expression)
    except NotClosed:
        return False
    return all(cut == 0 for cut in cuts) and all(x not in sp.cancel(value / x).free_symbols for value in values)


def by_shape(phi: Activation, psi: mp.mpf, zeta: float) -> Shaped:
    """C(0) = 0 and C'(1) = psi by the one parameter of a homogeneous phi."""
    parameters = sorted(phi.expression.free_symbols - {x}, key=lambda s: s.name)
    if len(parameters) > 1:
        raise ValueError(f"phi = {phi!r}: {', '.join(map(str, parameters))} are open and one condition is left: give all but one")
    if not parameters:
        return _by_shift(phi, psi, zeta)
    (s,) = parameters
    mean = phi.mean(1)
    spread = phi.second_moment(1) - mean**2
    rise = sp.lambdify([s], phi.derivative.second_moment(1) / spread, "mpmath")
    with mp.workdps(DIGITS):
        steepest = rise(mp.mpf(0))
        if not steepest > psi:
            raise NoShape(f"zeta = {zeta} takes a slope C'(1) = {float(psi):.6g} per layer, {s.name} = 0 has {float(steepest):.6g}")
        found = crossing(lambda t: rise(t) - psi, mp.mpf(0), mp.mpf(1))
        delta, size = (sp.N(e.subs(s, rational(found)), DIGITS)._to_mpmath(mp.mp.prec) for e in (-mean, spread))
        missed = float(abs(rise(found) - psi))
        gamma = 1 / mp.sqrt(size)
    named = {s.name: float(found)}
    own = Activation(phi.expression.subs(s, sp.Rational(float(found))), name=f"{phi!r}")
    return Shaped(own, 1.0, 0.0, float(gamma), float(delta), float(psi), zeta, {"C'(1)": missed}, parameters=named)


def _by_shift(phi: Activation, psi: mp.mpf, zeta: float) -> Shaped:
    """beta = 1 or -1, alpha from C'(1) = psi; Q'(1) is what it is"""
    f, slope = phi.expression, phi.derivative.expression
    mean = moment(f)
    spread = moment(f**2) - mean**2
    ratio = alpha**2 * moment(slope**2) / spread / target - 1
    for shift in (1, -1):
        left = ratio.subs(beta, shift)
        expressions = (left, derivative(ratio, alpha).subs(beta, shift))

        def f_of(at: Floats, expressions: tuple[sp.Expr, ...] = expressions) -> tuple[Floats, Floats, Floats]:
            (value, rate), bound = values_of(expressions, {"input_scale": at, "target": float(psi)}, by_quadrature=True)
            return value, at * rate, bound + 1e-14

        roots = positive_roots(f_of, 1e-2, 1e2, per_decade=4).roots
        if roots:
            break
    else:
        raise NoShape(f"zeta = {zeta}: no scale of {phi!r} has the slope {float(psi):.6g} per layer")
    with mp.workdps(DIGITS):
        a = mp.findroot(lambda t: precise(left, {alpha: t, target: psi}), mp.mpf(roots[0].at), tol=mp.mpf(10) ** -40)
        values = {alpha: a, beta: mp.mpf(shift)}
        gamma, delta = 1 / mp.sqrt(precise(spread, values)), -precise(mean, values)
        along = gamma**2 * precise(tilted(f * slope) - mean * tilted(slope), values)
        missed = float(abs(precise(left, {alpha: a, target: psi})))
    note = f"Q'(1) = {float(along):.6g}: a homogeneous function has one shape, which C'(1) takes"
    return Shaped(phi, float(a), float(shift), float(gamma), float(delta), float(psi), zeta, {"C'(1)": missed}, "partial", note)


def by_value(compose: NetworkMap, eta: float) -> Shaped:
    """The leaky ReLU with C_f(0) = eta."""
    phi = activations["leaky_relu"](None)
    (s,) = phi.expression.free_symbols - {x}
    p = known("p")
    c_map = sp.lambdify([s, p], phi.kernel(1, p) / phi.second_moment(1), "mpmath", cse=True)

    def reached(slope: mp.mpf) -> mp.mpf:
        return compose(mp.mpf(0), lambda c: mp.re(c_map(slope, min(c, mp.mpf(1)))))

    with mp.workdps(DIGITS):
        most = reached(mp.mpf(0))
        if most < eta:
            raise NoShape(f"eta = {eta}: ReLU itself reaches only C_f(0) = {float(most):.6g} in this network")
        found = crossing(lambda t: reached(t) - eta, mp.mpf(0), mp.mpf(1))
        gamma = mp.sqrt(2 / (1 + found**2))
        missed, local = float(abs(reached(found) - eta)), float(c_map(found, mp.mpf(0)))
    own = Activation(phi.expression.subs(s, sp.Rational(float(found))), name=f"{phi!r}")
    named = {s.name: float(found)}
    return Shaped(own, 1.0, 0.0, float(gamma), 0.0, local, eta, {"C_f(0)": missed}, parameters=named)
