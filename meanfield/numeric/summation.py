"""Values by quadrature: first in plain doubles, then with the rounding of integrands counted, without what cancels, at last by digits."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.singularities import Shape
from meanfield.gaussian.stein import by_parts
from meanfield.numeric.abnormal import FAINT
from meanfield.numeric.asked import Asked, rounding_of
from meanfield.numeric.digits import digits_of, has_a_sign, point, too_small
from meanfield.numeric.infinite import refuse_infinite
from meanfield.numeric.programs import Program, program_of

__all__ = ["by_quadrature"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: relative error of a quadrature at which an integrand whose own terms cancel takes digits
NOISE = 1e-11
#: relative error of a quadrature at which one beside a mean takes digits
COARSE = 1e-12
#: size of a mean from which down it is one of the density's tail
TAIL = 1e-20
#: how much more detail other quadratures take, whose differences from the first bound the error: one alone may agree by chance
DETAILS = (1.3, 2.0)


def by_quadrature(asked: Asked, table: Floats, closed: bool = False) -> tuple[Floats, Floats]:
    """Values and error bounds of what has no closed form, or a closed one that cancels; each as if it were asked for alone."""
    e, order = asked.expression, asked.order
    program = program_of(e, order, closed, careful=asked.bounds)
    out, bound = program(table)
    shapes = [i.shape for i in program.integrands if not i.parameters]
    exact = np.zeros(len(out), dtype=bool)
    grown = [*shapes, *_shapes_where_lost(program, table, out)]
    if any(shape.growth or shape.steepening for shape in grown):
        if any(shape.steepening for shape in grown):
            refuse_infinite(e, order, table[:, np.isnan(out) | (out == 0)])
        exact = _beyond_the_density(asked, table, out, bound, closed)
    # beside a mean that is large against the deviation, points are known to few digits
    coarse = np.zeros(len(out), dtype=bool) if program.centred else ~(bound <= COARSE * np.abs(out))
    noisy = _far_out(e, out) | (any(shape.noisy for shape in shapes) or _weighed_by_its_law(e))
    ways = _again(asked, program, table, (out, bound), coarse | noisy, closed)
    poor = np.zeros(len(out), dtype=bool) if closed else _poor(e, out, bound, coarse, noisy)
    if poor.any():
        out[poor], bound[poor] = _by_parts_or_digits(asked, table[:, poor])
    for way, here in ways if asked.bounds else ():
        summed = here & ~poor & ~exact
        if summed.any():
            bound[summed] += _unsettled(way, table[:, summed], out[summed])
    bound = np.where(np.isnan(bound), np.where(out == 0, 0.0, np.inf), bound)
    _settle_zeros(asked, table, out, bound, closed)
    return out, bound


def _shapes_where_lost(program: Program, table: Floats, out: Floats) -> list[Shape]:
    """what functions with parameters look like at each point without a value, which may be had by digits where they grow"""
    names = [s.name for s in program.order]
    lost = np.unique(table[:, np.isnan(out)], axis=1)
    return [i.shape_at(names, column) for i in program.integrands if i.parameters for column in lost.T]


def _beyond_the_density(asked: Asked, table: Floats, out: Floats, bound: Floats, closed: bool) -> Bools:
    """digits where a growing function counts beyond where the density underflows, and at which points that is"""
    exact = np.zeros(len(out), dtype=bool)
    if isinstance(asked.expression.as_coeff_Mul()[1], Node):
        exact = np.isnan(out)
        out[exact], bound[exact] = asked.by_digits(table[:, exact])
    if np.isnan(out).any() and not closed:
        what = "count where the normal density is no double, the function grows so fast: pass digits="
        asked.reasons.append(OverflowError(f"{int(np.isnan(out).sum())} of {out.size} values {what}"))
    return exact


def _again(
    asked: Asked, program: Program, table: Floats, found: tuple[Floats, Floats], rounds: Bools, closed: bool
) -> list[tuple[Program, Bools]]:
    """What else is tried at points that have no value, or where rounding may count and was not counted, their values put in place; which
    program the values of which points are by"""
    (out, bound), e, order, bounds = found, asked.expression, asked.order, asked.bounds
    lost, by = np.isnan(out), np.zeros(len(out), dtype=np.int64)
    ways = [program]
    for here, careful, widely in ((lost & ~rounds, bounds, True), (lost & rounds, True, True), (rounds & ~lost, True, False)):
        other = program_of(e, order, closed, careful=careful, widely=widely) if here.any() else program
        if other.source != program.source:
            out[here], bound[here] = other(table[:, here])
            by[here] = len(ways)
            ways.append(other)
    return [(way, by == k) for k, way in enumerate(ways)]


def _far_out(e: sp.Expr, out: Floats) -> Bools:
    """which values are means of what lies so far out that the density itself is rounded: one that rises there by 1e3 is known to 3e-13"""
    return (np.abs(out) < TAIL) & isinstance(e.as_coeff_Mul()[1], Expectation)


def _poor(e: sp.Expr, out: Floats, bound: Floats, coarse: Bools, noisy: Bools) -> Bools:
    """which values rounding has left too few digits of: where terms cancel, or beside a mean"""
    cancels = any(isinstance(factor, sp.Add) and factor.has(Node) for factor in sp.Mul.make_args(e))
    return np.where(coarse, ~(bound <= COARSE * np.abs(out)), ~(bound <= NOISE * np.abs(out)) & (noisy | cancels))


def _by_parts_or_digits(asked: Asked, table: Floats) -> tuple[Floats, Floats]:
    """values and error bounds at points where terms cancel: without these terms where Stein's identity takes them away, else by digits"""
    out, bound = np.zeros(table.shape[1]), np.full(table.shape[1], np.inf)
    other = by_parts(asked.expression)
    if other != asked.expression:
        program = program_of(other, asked.order, careful=True)
        out, bound = program(table)
        if asked.bounds:
            bound += _unsettled(program, table, out)
    poor = ~(bound <= NOISE * np.abs(out))
    if poor.any():
        out[poor], bound[poor] = asked.by_digits(table[:, poor])
    return out, bound


def _unsettled(program: Program, table: Floats, out: Floats) -> Floats:
    """what quadrature in more detail makes of the values"""
    difference = np.fmax(*(np.abs(program(table, detail)[0] - out) for detail in DETAILS))
    return np.where(np.isnan(difference) & (out != 0), np.inf, np.nan_to_num(difference, nan=0.0))


@lru_cache(maxsize=512)
def _weighed_by_its_law(e: sp.Expr) -> bool:
    """whether an integrand depends on the variance it is integrated under, as a projection on a Hermite polynomial, which cancels"""
    return any(node.weighed_by_its_law for node in e.atoms(Node))


def _settle_zeros(asked: Asked, table: Floats, out: Floats, bound: Floats, closed: bool) -> None:
    """what a 0 without an error stands for, or what is no normal double, where the value is not 0 by symbols"""
    unsettled = ((out == 0) & (bound == 0)) | ((out != 0) & (np.abs(out) < FAINT))
    unsettled &= ~asked.vanishing(table, unsettled)
    scales = program_of(asked.expression, asked.order, closed)(table[:, unsettled])[1] if unsettled.any() else ()
    for g, scale in zip(np.flatnonzero(unsettled), scales, strict=True):
        out[g], bound[g] = _zero_or_faint(asked, point(asked.order, table[:, g]), scale)


def _zero_or_faint(asked: Asked, at: dict[sp.Symbol, Any], scale: float) -> tuple[float, float]:
    """the value, and its error: the smallest double where it is established to be too small for one, else by digits; where there are none,
    0 if that is right on the scale of what cancels, else nan"""
    faint = too_small(asked.expression, at)
    if faint is not None:
        return float(faint), 0.0
    try:
        precise = digits_of(asked.expression, at, 20)
    except ArithmeticError as reason:
        if scale > FAINT and not has_a_sign(asked.expression, at):
            return 0.0, scale
        asked.reasons.append(reason)
        return math.nan, math.inf
    value = float(precise)
    if value or not precise:
        return value, float(rounding_of(np.array(value)))
    return (0.0, FAINT) if scale > FAINT else (math.copysign(5e-324, precise), 0.0)
