"""More digits than a double has, at points where floating point loses them: of any expression, and fast of closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import permutations

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import gaussian
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.quadrant_waves import BivariateCosineCDF, BivariateSineCDF
from meanfield.gaussian.special import BivariateNormalCDF, written_out
from meanfield.symbols import known

__all__ = ["DIGITS", "digits_of", "doubles", "has_a_sign", "point", "too_small", "vanishing"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Order = tuple[sp.Symbol, ...]

x = known("x")

#: digits of a number that differs from another one by little
DIGITS = 50
#: digits of a rounded argument beyond those asked
_SPARE = 400
#: digits of a value that becomes a double
_DOUBLE = 20
#: digits beyond those, and times those that set the smallest argument beside the largest: until two in a row give the same value
_BEYOND, _TIMES, _MOST = 16, (1, 3, 9, 27), 4_000

#: bits of a sum that is told from 0
_SIGN = 10

#: the smallest double
_LEAST = 5e-324


def digits_of(e: sp.Expr, put: dict[sp.Symbol, sp.Expr], digits: int, log: bool = False) -> mp.mpf:
    """The value of an expression at exact numbers, or its logarithm, to that many digits."""
    exact = _at(e, put, digits)
    wanted = sp.log(exact) if log else exact
    if exact == 0 and not log:
        return mp.mpf(0)
    if log and exact.is_Add and exact.has(Node):
        gaussian.closed_digits.settled(exact, _SIGN)  # the logarithm of what may be 0 would be one of rounding
    # an expectation certifies itself; everything around it may cancel, but for factors
    factor, node = wanted.as_independent(Node, as_Add=False)
    alone = isinstance(node, Node) and not factor.has(sp.Add)
    number = sp.N(wanted, digits + 5) if alone else gaussian.closed_digits.settled(wanted, mp.libmp.dps_to_prec(digits + 5))
    if number is sp.oo or (number is -sp.oo and not log):
        return mp.mpf(float(number))
    if not number.is_Float and not number.is_Rational:
        raise ValueError(f"the expression has no real value at these arguments: {number}")
    with mp.workdps(digits + 5):
        value = number._to_mpmath(mp.mp.prec)
    with mp.workdps(digits):
        return +value


def _at(e: sp.Expr, put: dict[sp.Symbol, sp.Expr], digits: int) -> sp.Expr:
    try:
        exact = e.subs(put, simultaneous=True)
    except ValueError:  # sympy 1.14 fails to factor some large integers under roots
        exact = e.subs({s: sp.Float(v, 2 * digits + _SPARE) for s, v in put.items()}, simultaneous=True)
    return _without_bounds(exact).replace(lambda t: isinstance(t, Node), _at_an_end)


def point(order: Order, values: Floats) -> dict[sp.Symbol, sp.Expr]:
    """The exact values of a grid point, a covariance that is beyond its limit by rounding at the limit."""
    found: dict[sp.Symbol, sp.Expr] = {s: sp.Rational(float(v)) for s, v in zip(order, values, strict=True)}
    named = {s.name: s for s in order}
    if {"p", "q1", "q2"} <= named.keys():
        p, most = found[named["p"]], found[named["q1"]] * found[named["q2"]]
        if p**2 > most:
            found[named["p"]] = sp.sign(p) * sp.sqrt(most)
    return found


def doubles(e: sp.Expr, order: Order, table: Floats, reasons: list[ArithmeticError]) -> tuple[Floats, Floats]:
    """The double nearest to the value at each column of a table, and what it is off by beside its rounding; what is too small for one is
    the smallest one, 0 what a hundred digits do not tell from it, and nan what has no digits, whose reason joins the others."""
    fast, out = _closed(e, order) if order and table.shape[1] else None, np.empty(table.shape[1])
    below = np.zeros(table.shape[1])
    for g, column in enumerate(table.T):
        nothing = _nothing_at_limit(e, order, column)
        value = None if fast is None or nothing else fast(column)
        if value is None and (nothing or _nothing(e)):
            value = mp.mpf(0)
        if value is None:
            at = point(order, column)
            value = too_small(e, at)
        if value is None:
            try:
                value = digits_of(e, at, _DOUBLE)
            except gaussian.closed_digits.Indistinguishable as reason:
                value, below[g] = mp.mpf(0), reason.below
            except ArithmeticError as reason:
                reasons.append(reason)
                value = mp.nan
        out[g] = math.copysign(_LEAST, value) if value and abs(value) < 1e-320 else float(value)
    return out, below


@lru_cache(maxsize=64)
def _nothing(e: sp.Expr) -> bool:
    """whether no number of digits would tell an expression from 0"""
    return bool(e.is_zero is not False and gaussian.zeros.in_normal_form(e))


def _nothing_at_limit(e: sp.Expr, order: Order, column: Floats) -> bool:
    """whether two inputs are one but for their scales, and the value of the closed form is 0 wherever they are"""
    at = dict(zip((s.name for s in order), column.tolist(), strict=True))
    if not {"p", "q1", "q2"} <= at.keys() or not np.isfinite(column).all():
        return False
    if Fraction(at["p"]) ** 2 < Fraction(at["q1"]) * Fraction(at["q2"]):
        return False
    return _cancels_at_limit(e, 1 if at["p"] > 0 else -1)


@lru_cache(maxsize=64)
def _cancels_at_limit(e: sp.Expr, sign: int) -> bool:
    named = {s.name: s for s in e.free_symbols}
    return bool(e.doit().subs(named["p"], sign * sp.sqrt(named["q1"]) * sp.sqrt(named["q2"])) == 0)


@lru_cache(maxsize=64)
def _closed(e: sp.Expr, order: Order) -> Callable[[Floats], mp.mpf | None] | None:
    """a closed form as a function of doubles, None where it settles at no precision; None where there is no such form"""
    form = written_out(e.doit())
    if form.has(Node, BivariateNormalCDF, BivariateCosineCDF, BivariateSineCDF, sp.Integral, sp.hyper):
        return None
    function = sp.lambdify(order, form, "mpmath")

    def value(column: Floats) -> mp.mpf | None:
        sizes = [1.0, *np.abs(column[column != 0]).tolist()]
        span, before = _BEYOND + int(2 * (math.log10(max(sizes)) - math.log10(min(sizes)))), mp.mpf(0)
        for more in (k * span for k in _TIMES if k * span < _MOST):
            with mp.workdps(_DOUBLE + more):
                try:
                    after = function(*map(mp.mpf, column.tolist()))
                except (ArithmeticError, NameError, TypeError, ValueError):
                    return None
                if after is None:  # a form that does not hold there
                    return None
                if isinstance(after, int):  # exact, as the 0 beyond a mask
                    return mp.mpf(after)
                real, imaginary = mp.re(after), mp.im(after)
                least = mp.mpf(10) ** -_DOUBLE * abs(real)
                if real and abs(imaginary) <= least and abs(real - before) <= least:
                    return real
                before = real
        return None

    return value


def vanishing(e: sp.Expr, order: Order, table: Floats, asked: Bools) -> Bools:
    """Which of the columns asked for have the value 0 by symbols: where one is 0, or is another one, its negative or its double."""
    found = np.zeros(table.shape[1], dtype=bool)
    if not asked.any():
        return found
    rows = dict(zip(order, table, strict=True))
    cases: list[tuple[sp.Symbol, sp.Expr, Bools]] = [(s, sp.S.Zero, row == 0) for s, row in rows.items()]
    with np.errstate(over="ignore"):  # the double of no double is no other one
        cases += [(s, k * t, rows[s] == k * rows[t]) for s, t in permutations(order, 2) for k in (1, -1, 2)]
    for s, value, here in cases:
        if (here & asked & ~found).any() and _is_nothing(e, {s: value}):
            found |= here & asked
    return found


def too_small(e: sp.Expr, point: dict[sp.Symbol, sp.Rational]) -> mp.mpf | None:
    """What stands for a value that is established to be smaller than a double: the smallest one, or 0 by symmetry; None for any other."""
    exact = _at(e, point, _DOUBLE)
    if not gaussian.underflows.is_below(exact, math.log(_LEAST)):
        return None
    return (
        mp.mpf(0)
        if exact == 0 or gaussian.underflows.is_zero_by_symmetry(exact.as_coeff_Mul()[1])
        else mp.mpf(math.copysign(_LEAST, exact.as_coeff_Mul()[0]))
    )


def has_a_sign(e: sp.Expr, point: dict[sp.Symbol, sp.Rational]) -> bool:
    """Whether the value is no 0 however small it is: a multiple of a mean of what is nowhere of the other sign."""
    _, node = e.subs(point).as_coeff_Mul()
    if isinstance(node, Gap):  # E (f(u) - f(v))^2 / 2, 0 only where f is constant or v = -u
        return bool(0 < node.args[2] < 2 * node.args[1])
    if isinstance(node, Expectation):
        return _of_one_sign(node.integrand)
    if not isinstance(node, PairExpectation) or (parts := node.separated()) is None:
        return False
    (f, g), (v1, cov, v2, m1, m2) = parts, node.args[1:]
    alike = f == g and v1 == v2 and m1 == m2 and cov > 0  # the mean of a square, E f given what u and v share
    return bool(alike or (cov**2 < v1 * v2 and _of_one_sign(f) and _of_one_sign(g)))


def _of_one_sign(f: sp.Expr) -> bool:
    return _not_negative(f.as_coeff_Mul()[1])


def _is_nothing(e: sp.Expr, put: dict[sp.Symbol, sp.Expr]) -> bool:
    at = _without_bounds(e.subs(put)).replace(lambda t: isinstance(t, Node), _at_an_end)
    return bool(at == 0 or at.doit().subs(put) == 0 or e.doit().subs(put) == 0)


def _without_bounds(e: sp.Expr) -> sp.Expr:
    """With 0 for the least of 0 and what is nowhere negative, as of a gap and twice the second moment."""

    def least(t: sp.Expr) -> bool:
        return isinstance(t, sp.Min) and sp.S.Zero in t.args and all(map(_not_negative, t.args))

    return e.replace(least, lambda _: sp.S.Zero) if e.has(sp.Min) else e


def _not_negative(e: sp.Expr) -> bool:
    return all(
        isinstance(t, Gap)
        or (isinstance(t, Expectation) and _not_negative(t.integrand))
        or t.is_nonnegative
        or (t.is_Pow and t.exp.is_even)
        for t in sp.Mul.make_args(e)
    )


def _at_an_end(node: Node) -> sp.Expr:
    """a product of independent factors, the mean of a product of one input, and no gap of an even function between u and -u"""
    if isinstance(node, PairExpectation) and node.args[2] in (0, node.args[1]) and (parts := node.separated()) is not None:
        (f, g), (v1, cov, v2, m1, m2) = parts, node.args[1:]
        if cov == 0:
            return Expectation(f, v1, m1) * Expectation(g, v2, m2)
        return Expectation(f * g, v1, m1) if (v1, m1) == (v2, m2) else node
    even = isinstance(node, Gap) and node.integrand.xreplace({x: -x}) == node.integrand
    return sp.S.Zero if even and node.args[2] == 2 * node.args[1] else node
