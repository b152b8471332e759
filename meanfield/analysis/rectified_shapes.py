r"""Shaping of functions that are linear on both sides of 0: their scale is free, and what is left is the ratio of the two slopes.

Such a phi has phi(t x) = t phi(x) for t > 0, so that without a shift Q'(1) = Q(1) whatever the slopes: one condition is left for one
slope. Without an open slope only beta/alpha is left.
"""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments
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
    r"""C(0) = 0 and C'(1) = psi by the one parameter of a homogeneous phi.

    With t the slope on one side of 0 over that on the other, 1 - 1/C'(1) = (1 - t)^2/(\pi (1 + t^2)) and m = 2 t/(1 + t^2) = 1 - \pi +
    \pi/C'(1), of which t = m/(1 + \sqrt{1 - m^2}) is the root between -1 (|x|) and 1 (x).
    """
    parameters = sorted(phi.expression.free_symbols - {x}, key=lambda s: s.name)
    if len(parameters) > 1:
        raise ValueError(f"phi = {phi!r}: {', '.join(map(str, parameters))} are open and one condition is left: give all but one")
    if not parameters:
        return _by_shift(phi, psi, zeta)
    with mp.workdps(DIGITS):
        m = 1 - mp.pi + mp.pi / psi
        asked = f"zeta = {zeta} takes a slope C'(1) = {float(psi):.6g} per layer"
        if m < -1:
            raise NoShape(f"{asked}, of functions that are linear on both sides of 0 |x| has the largest, {float(mp.pi / (mp.pi - 2)):.6g}")
        t = m / (1 + mp.sqrt(1 - m**2))
        found = [_with(phi, parameters[0], value, psi, zeta) for value in _slopes_apart(phi, parameters[0], t)]
    if not found:
        raise NoShape(f"{asked} and one side of 0 {float(t):.6g} times as steep as the other, which no {parameters[0].name} makes {phi!r}")
    return replace(found[0], others=tuple(found[1:]))


def _slopes_apart(phi: Activation, s: sp.Symbol, t: mp.mpf) -> list[mp.mpf]:
    """values of s at which phi is t times as steep for x < 0 as for x > 0, by growing size, then those at which it is so the other way"""
    _, values = pieces_of(phi.expression)
    left, right = (sp.cancel(value / x) for value in (values[0], values[-1]))
    ratio, found = sp.Symbol("t", real=True), []
    for less, more in ((left, right), (right, left)):
        try:
            solved = sp.solve(sp.numer(sp.together(less - ratio * more)), s)
        except NotImplementedError:
            raise NoShape(f"{phi!r}: the {s.name} at which one side of 0 is {float(t):.6g} times as steep has no formula") from None
        numbers = [sp.N(e.subs(ratio, rational(t)), DIGITS) for e in solved]
        there = [mp.mpf(v._to_mpmath(mp.mp.prec)) for v in numbers if v.is_real]
        found += sorted((v for v in there if _may_be(s, v) and more.subs(s, rational(v)) != 0), key=abs)
    return found


def _may_be(s: sp.Symbol, value: mp.mpf) -> bool:
    """whether a symbol may have a value, by the sign it was declared with"""
    try:
        arguments.check_sign(float(value), s.name, s)
    except ValueError:
        return False
    return True


def _with(phi: Activation, s: sp.Symbol, value: mp.mpf, psi: mp.mpf, zeta: float) -> Shaped:
    """phi with that value of its parameter, shifted and scaled"""
    mean, size, slope = (e.subs(s, rational(value)) for e in (phi.mean(1), phi.second_moment(1), phi.derivative.second_moment(1)))
    mean, size, slope = (sp.N(e, DIGITS)._to_mpmath(mp.mp.prec) for e in (mean, size, slope))
    spread = size - mean**2
    own = Activation(phi.expression.subs(s, sp.Rational(float(value))), name=f"{phi!r}")
    missed = {"C'(1)": float(abs(slope / spread - psi))}
    return Shaped(own, 1.0, 0.0, float(1 / mp.sqrt(spread)), float(-mean), float(psi), zeta, missed, parameters={s.name: float(value)})


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
