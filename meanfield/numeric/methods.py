"""Which method answers each point: what is known where inputs coincide, a closed form, quadrature, or more digits than a double has."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import BY_DIGITS, Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.powers import is_steep, powers
from meanfield.numeric.abnormal import FAINT
from meanfield.numeric.asked import Asked, rounding_of
from meanfield.numeric.bulk import are_many, in_bulk
from meanfield.numeric.infinite import at_coincidence, refuse_divergent, refuse_infinite
from meanfield.numeric.programs import program_of
from meanfield.numeric.signs import by_sign
from meanfield.numeric.summation import by_quadrature
from meanfield.recurrence import without_signs

__all__ = ["CANCELLED", "answered"]

Floats = NDArray[np.float64]

#: relative error at which a closed form counts as cancelled, and at many points, where digits for each would take long
CANCELLED, BORNE = 1e-13, 1e-12
#: below this a mean may be made of densities that have lost digits, or are 0
SPARSE = 1e-300
#: milliseconds that a value by digits takes
DIGITS = 0.5


def answered(asked: Asked, table: Floats) -> tuple[Floats, Floats]:
    """Values and error bounds at the columns of a table; the bound is 0 where the value is infinite."""
    parts = by_sign(_unsigned(asked.expression), asked.order, table)
    if len(parts) == 1:
        return _of_one_sign(asked.signed(parts[0][0]), table)
    out, bound = np.empty(table.shape[1]), np.empty(table.shape[1])
    for signs, points in parts:
        out[points], bound[points] = _of_one_sign(asked.signed(signs), table[:, points])
    return out, bound


@lru_cache(maxsize=2048)
def _unsigned(e: sp.Expr) -> frozenset[sp.Symbol]:
    return frozenset(without_signs((e,)))


def _of_one_sign(asked: Asked, table: Floats) -> tuple[Floats, Floats]:
    """the same where the signs of parameters are known"""
    out, known = at_coincidence(asked.expression, asked.order, table, asked.reasons)
    bound = np.where(np.isinf(out), 0.0, rounding_of(np.where(np.isinf(out), 0.0, out)))
    if not known.all():
        rest = ~known if known.any() else slice(None)  # no copy of all points
        out[rest], bound[rest] = _apart(asked, table[:, rest])
        last = ~known & (np.abs(out) < SPARSE) & (np.abs(out) >= FAINT)
        last[last] = ~_lies_near(asked, table[:, last])
        if last.any():
            out[last], bound[last] = asked.by_digits(table[:, last])
    return out, bound


def _lies_near(asked: Asked, table: Floats) -> NDArray[np.bool_]:
    """Where a value is small since two inputs of a gap are near each other: at independent ones it has digits to spare."""
    c, node = asked.expression.as_coeff_Mul()
    if not isinstance(node, Gap) or not table.size:
        return np.zeros(table.shape[1], dtype=bool)
    f, v, _ = node.args
    return np.asarray(by_quadrature(Asked(c * Gap(f, v, v), asked.order), table, closed=True)[0] >= SPARSE)


def _apart(asked: Asked, table: Floats) -> tuple[Floats, Floats]:
    """values and error bounds; a closed form that cancels at a point is evaluated there with as many digits as it takes"""
    e, node = asked.expression, asked.expression.as_coeff_Mul()[1]
    written_out = not asked.order and not e.has(Node)  # a number, as (1 + 1/n)^n, that no arithmetic of sympy is to touch
    if written_out or e.has(*BY_DIGITS) or _too_steep(node):
        return asked.by_digits(table)
    unbounded = _unbounded(node, asked.order, table)
    if unbounded.any():
        refuse_infinite(Expectation(node.integrand**2, node.args[1]), asked.order, table[:, unbounded])
        out, bound = np.empty(table.shape[1]), np.empty(table.shape[1])
        out[unbounded], bound[unbounded] = asked.by_digits(table[:, unbounded])
        if not unbounded.all():
            out[~unbounded], bound[~unbounded] = _apart(asked, table[:, ~unbounded])
        return out, bound
    program = program_of(e, asked.order)
    if program.integrands:
        return in_bulk(asked, table, lambda: program.milliseconds(table), lambda rest: by_quadrature(asked, rest))
    out, bound = program(table)
    refuse_infinite(e, asked.order, table[:, np.isnan(out)])
    if np.isinf(out).any():
        refuse_divergent(e)
    # nan counts as poor, and what is infinite or 0 may be rounding or an underflow
    poor = ~(bound <= (BORNE if are_many(asked, table) else CANCELLED) * np.abs(out)) | ~np.isfinite(out) | (out == 0)
    nothing = asked.vanishing(table, out == 0)
    bound[nothing] = 0.0  # whatever the errors of its parts are
    poor &= ~nothing
    if poor.any():
        out[poor], bound[poor] = in_bulk(asked, table[:, poor], lambda: float(DIGITS * poor.sum()), asked.by_digits)
    return out, bound


def _too_steep(node: sp.Expr) -> bool:
    """a kernel of powers that has no quadrature, and a hypergeometric form"""
    parts = node.separated() if isinstance(node, PairExpectation) else None
    return parts is not None and any(map(is_steep, parts)) and node.closed() is not None


def _unbounded(node: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats) -> NDArray[np.bool_]:
    """At which columns a gap is that of a power of |x| that is unbounded at 0, whose slope no quadrature takes: its moments are forms"""
    found = powers(node.integrand) if isinstance(node, Gap) and node.integrand.has(sp.Pow) and node.closed() is None else None
    if found is None:
        return np.zeros(table.shape[1], dtype=bool)
    return np.broadcast_to(sp.lambdify(order, found.degree, "numpy")(*table) <= 0, table.shape[1:])
