r"""Numbers from symbolic expressions: compiled float64 over arrays, or any number of correct digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments
from meanfield.gaussian.expectation import Node, stated
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.powers import is_steep
from meanfield.gaussian.shape_rows import COUNT
from meanfield.gaussian.stein import by_parts
from meanfield.numeric.abnormal import FAINT, abnormal, infinite, marked, refused, stood_for
from meanfield.numeric.digits import digits_of, doubles, has_a_sign, point, vanishing
from meanfield.numeric.given import arranged, exact_values
from meanfield.numeric.infinite import at_coincidence, is_bounded, refuse_divergent, refuse_infinite
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import parameter_name
from meanfield.numeric.rounding import rounding_bound
from meanfield.numeric.store import execute, is_kept
from meanfield.numeric.threads import share
from meanfield.numeric.work import Work, patient
from meanfield.symbols import real

__all__ = ["among", "entries", "evaluate", "summand"]

Floats = NDArray[np.float64]
Reasons = list[ArithmeticError]  # why there are no digits, in the order met

#: relative error at which a closed form counts as cancelled
CANCELLED = 1e-13
#: relative error of a quadrature at which an integrand whose own terms cancel takes digits
NOISE = 1e-11
#: relative error of a quadrature at which one beside a mean takes digits
COARSE = 1e-12
#: milliseconds of plain Python that compiled code does at a time, a hundredth of that or less: Ctrl-C is heard in between
PART = 20_000.0
#: below this a mean may be made of densities that have lost digits, or are 0
SPARSE = 1e-300
#: points of a cancelled closed form up to which each is evaluated in more digits; more of them go to quadrature
FEW = 20
#: how much more detail other quadratures take, whose differences from the first bound the error: one alone may agree by chance
DETAILS = (1.3, 2.0)

#: digits that closed forms are evaluated to; quadrature ends before, and says where
MOST_DIGITS = 10**6

#: how many values make up a whole of which those that are asked for are some; None where they are for themselves
_WHOLE: ContextVar[int | None] = ContextVar("whole", default=None)

_LOOP = '''

def grid(values, out, bound{shapes}):
    """Fill out[g] with the expression at values[:, g], bound[g] with its rounding error in units of 2^-53."""
    for g in range(out.shape[0]):
        {unpack}
        out[g], bound[g] = expression({call})
'''


@contextmanager
def among(whole: int | None) -> Iterator[None]:
    """What is evaluated meanwhile is some of so many values, and has the same bits whichever it is evaluated with, and whatever was
    evaluated before. None: it is all there is."""
    before = _WHOLE.set(whole)
    try:
        yield
    finally:
        _WHOLE.reset(before)


@dataclass(frozen=True)
class Program:
    """The source of an expression over a grid, its symbols in order, the integrands of its quadrature and the work these are."""

    source: str
    order: tuple[sp.Symbol, ...]
    integrands: tuple[Integrand, ...]
    work: Work
    centred: bool  # no quadrature call has a mean

    def __call__(self, table: Floats, detail: float = 1.0) -> tuple[Floats, Floats]:
        """Values and rounding bounds for the columns of a table."""
        table = np.ascontiguousarray(table)
        out, bound = np.empty(table.shape[1]), np.empty(table.shape[1])
        shapes = [i.shapes([s.name for s in self.order], table, detail) for i in self.integrands]
        each, count, whole = self.work.milliseconds(shapes), table.shape[1], _WHOLE.get()
        if whole is None:
            small = patient(count * each, is_kept(self.source, "grid"), self.source)
        else:
            slow = [np.zeros((1, COUNT + 1))] * len(self.integrands)
            small = patient(whole * self.work.milliseconds(slow), False)

        def run(part: slice) -> None:
            own = [s if len(s) == 1 else s[part] for s in shapes]
            execute(self.source, "grid", (np.ascontiguousarray(table[:, part]), out[part], bound[part], *own), small)

        # a point at which the interpreter gives up is compiled, and of several it takes the others with it, by themselves or not
        size = (1 if whole is not None else max(1, count)) if small else max(1, int(PART / each))
        parts = [slice(first, first + size) for first in range(0, count, size)]
        if small or len(parts) == 1:
            for part in parts:
                run(part)
        else:
            share(run, parts, "evaluate", lambda: None)
        return out, np.where((out != 0) & (bound > 0), np.maximum(bound * 2.0**-53, 5e-324), bound * 2.0**-53)


@lru_cache(maxsize=512)
def _program(e: sp.Expr, order: tuple[sp.Symbol, ...], by_quadrature: bool = False, careful: bool = False, widely: bool = False) -> Program:
    lowering = Lowering(by_quadrature, careful, widely)
    taken = {"math", "np", "expression", "grid"}
    given = {s: parameter_name(s.name, taken) for s in order}
    lowered = lowering.numeric(e)
    body = lowering.body([lowered, rounding_bound(lowered, lowering.size, lowering.noise)], given, {}, taken)
    lines = [*body.lines, f"return {body.results[0]}, {body.results[1]}"]
    function = f"def expression({', '.join([*given.values(), *lowering.shape_names])}):\n    " + "\n    ".join(lines) + "\n"
    header = f'"""Generated by meanfield: {str(e)[:200]}"""\n\nimport math\n\nimport numpy as np\n'.replace("\\", "/")
    loop = _LOOP.format(
        shapes="".join(f", {name}s" for name in lowering.shape_names),
        unpack="\n        ".join(lowering.unpacking()) or "pass",
        call=", ".join([*(f"float(values[{i}, g])" for i in range(len(order))), *lowering.shape_names]),
    )
    source = "\n\n".join([header, lowering.helpers(), function, loop])
    return Program(source, order, tuple(lowering.integrands.values()), lowering.work, lowering.centred)


def evaluate(expression: sp.Expr, *, digits: int | None = None, error: bool = False, log: bool = False, **values: Any) -> Any:
    r"""The value of an expression: float64, compiled and broadcast over arrays, or an mpmath number of any precision.

    Parameters
    ----------
    expression : sympy expression
        For example an expectation, a kernel, or an entry of a recursion. Closed forms are lowered in a shape that does not cancel,
        expectations without one go to quadrature.
    digits : whole number, optional
        Return an mpmath number with that many correct digits; values must then be single numbers. They count exactly: an mpmath number
        as what it is, as does a Fraction or a Decimal, a float or a sympy Float of any precision as the decimal that it prints as.
    error : bool
        Return (value, bound): a first-order bound on rounding, carried through the lowered expression and through the integrand
        of a quadrature (whose terms may cancel), and for quadrature the difference from others in more detail.
    log : bool
        Return ln of the value, also where the value itself is no normal double.
    **values : number or array
        One for each free symbol, by name; of a moment that does not depend on its law, as E tanh(u), q, p, q1, q2 and delta may be given.

    Returns
    -------
    float for scalars, float64 array otherwise; an mpmath number with `digits`. An expectation that is infinite since its two inputs are
    one, as that of phi'(u) phi'(v) where phi jumps, is inf with the bound 0.

    Raises
    ------
    ValueError
        Missing or unused names (both lists shown), values outside the range of a parameter.
    ArithmeticError
        A value that quadrature cannot resolve in float64. At a large variance: of a function that oscillates for ever and is not slow in
        x and periodic in one or two phases, as sin(x^2) or tanh(x sin x), or has kinks that move; the gap of one with jumps, as
        x sign(sin x), for tiny delta; kernels for two unequal variances with u so near a multiple of v that either tells the phase of the
        other. The gap for tiny delta of one with roots or logarithms at places k without a closed form; of one that is finite and not 0
        there, as exp(-sqrt|x|), where sqrt(delta) is so small that f does not change by 3e-5 of itself.
    OverflowError
        A value is no normal double (0 < |v| < 2.2e-308 or |v| > 1.8e308): with what to pass instead.

    Warns
    -----
    RuntimeWarning
        Some values of an array are no normal doubles, or not to be had, and others are: inf or 0 stands for the former, nan for the
        latter, and the warning counts them. With `error` the bound is inf there, 2.2e-308 beside a 0.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.evaluate(mf.relu.kernel(mf.q, mf.p), q=2.0, p=1.0)
    0.608997...
    >>> import mpmath
    >>> print(mpmath.nstr(mf.evaluate(mf.silu.second_moment(1), digits=30), 30))
    0.355775519817352156230794292334
    >>> mf.evaluate(mf.tanh.second_moment(mf.q), q=[0.5, 1.0]).round(12)
    array([0.273676..., 0.394294...])
    """
    e = real(stated(_exact(expression) if isinstance(expression, sp.Expr) else arguments.expression(expression, "expression")))
    order = _order(e)
    for flag, name in ((error, "error"), (log, "log")):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} = {flag!r}: expected True or False")
    if digits is not None and error:
        raise ValueError("error = True and digits are given: with digits every digit is correct, ask for one of them")
    if digits is not None:
        arguments.check_integer(digits, "digits", 1)
        if digits > MOST_DIGITS:
            raise ValueError(f"digits = {digits}: expected at most {MOST_DIGITS}")
    if digits is not None:
        value = digits_of(e, exact_values(order, values), digits, log)
        if mp.isinf(value):
            refuse_divergent(e)
        return value
    arrays, grid = arranged(order, values)
    table, reasons = _table(arrays, grid), list[ArithmeticError]()
    result, bound = _floats(e, order, table, error, reasons)
    if log:
        result, bound = _logs(e, order, table, result, bound, reasons)
    nothing = np.isneginf(result) & log  # the logarithm of 0
    result, bound = marked(np.where(nothing, 0.0, result), bound, reasons)
    result = np.where(nothing, -np.inf, result)
    value = float(result[0]) if grid == () else result.reshape(grid)
    if not error:
        return value
    return value, float(bound[0]) if grid == () else bound.reshape(grid)


def summand(expression: sp.Expr, faint: float, values: dict[str, Any]) -> tuple[Floats, bool]:
    """The float64 values of what others are added to, `faint` where they underflow, and whether any does."""
    e = real(stated(expression))
    order = _order(e)
    arrays, grid = arranged(order, values)
    reasons = list[ArithmeticError]()
    result, _ = _floats(e, order, _table(arrays, grid), False, reasons)
    underflow = (result != 0) & (np.abs(result) < FAINT)
    refused(np.where(underflow, 0.0, result), reasons)
    result[underflow] = faint
    return result.reshape(grid), bool(underflow.any())


def entries(expression: sp.Expr, values: dict[str, Any]) -> Floats:
    """The float64 values, inf, 0 or nan where one is no normal double or not to be had."""
    e = real(stated(expression))
    order = _order(e)
    arrays, grid = arranged(order, values)
    return stood_for(_floats(e, order, _table(arrays, grid), False, [])[0]).reshape(grid)


@lru_cache(maxsize=512)
def _exact(expression: sp.Expr) -> sp.Expr:
    if expression in (sp.oo, -sp.oo):  # as E phi'(u)^2 is where phi jumps
        return expression
    return arguments.expression(expression, "expression")


@lru_cache(maxsize=512)
def _order(e: sp.Expr) -> tuple[sp.Symbol, ...]:
    return tuple(sorted({s.name: s for s in e.free_symbols}.values(), key=lambda s: s.name))


def _table(arrays: dict[str, Floats], grid: tuple[int, ...]) -> Floats:
    return np.array([np.broadcast_to(a, grid).ravel() for a in arrays.values()]).reshape(len(arrays), math.prod(grid))


def _floats(e: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats, error: bool, reasons: Reasons) -> tuple[Floats, Floats]:
    """values and error bounds, which are 0 where the value is infinite"""
    out, known = at_coincidence(e, order, table, reasons)
    bound = np.where(np.isinf(out), 0.0, _rounding(np.where(np.isinf(out), 0.0, out)))
    if not known.all():
        rest = ~known if known.any() else slice(None)  # no copy of all points
        out[rest], bound[rest] = _apart(e, order, table[:, rest], error, reasons)
        last = ~known & (np.abs(out) < SPARSE) & (np.abs(out) >= FAINT)
        last[last] = ~_lies_near(e, order, table[:, last])
        if last.any():
            out[last] = doubles(e, order, table[:, last], reasons)
            bound[last] = _rounding(out[last])
    return out, bound


def _lies_near(e: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats) -> NDArray[np.bool_]:
    """Where a value is small since two inputs of a gap are near each other: at independent ones it has digits to spare."""
    c, node = e.as_coeff_Mul()
    if not isinstance(node, Gap) or not table.size:
        return np.zeros(table.shape[1], dtype=bool)
    f, v, _ = node.args
    return np.asarray(_quadrature(c * Gap(f, v, v), order, table, False, [], closed=True)[0] >= SPARSE)


def _apart(e: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats, error: bool, reasons: Reasons) -> tuple[Floats, Floats]:
    """values and error bounds; a closed form that cancels at a point is evaluated there with as many digits as it takes"""
    if e.has(sp.hyper, sp.erfi) or _too_steep(e.as_coeff_Mul()[1]):
        out = doubles(e, order, table, reasons)
        return out, _rounding(out)
    program = _program(e, order)
    if program.integrands:
        return _quadrature(e, order, table, error, reasons)
    out, bound = program(table)
    refuse_infinite(e, order, table[:, np.isnan(out)])
    if np.isinf(out).any():
        refuse_divergent(e)
    # nan counts as poor, and what is infinite or 0 may be rounding or an underflow
    poor = ~(bound <= CANCELLED * np.abs(out)) | ~np.isfinite(out) | (out == 0)
    poor &= ~vanishing(e, order, table, out == 0)
    if (poor.sum() > FEW or _WHOLE.get() is not None) and isinstance(e.as_coeff_Mul()[1], Node) and not is_bounded(e):
        out[poor], bound[poor] = _quadrature(e, order, table[:, poor], error, reasons, closed=True)
        poor &= ~np.isfinite(out) | (out == 0) | ~(bound <= NOISE * np.abs(out))
    out[poor] = doubles(e, order, table[:, poor], reasons)
    bound[poor] = _rounding(out[poor])
    return out, bound


def _too_steep(node: sp.Expr) -> bool:
    """a kernel of powers that has no quadrature, and a hypergeometric form"""
    parts = node.separated() if isinstance(node, PairExpectation) else None
    return parts is not None and any(map(is_steep, parts)) and node.closed() is not None


def _quadrature(
    e: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats, error: bool, reasons: Reasons, closed: bool = False
) -> tuple[Floats, Floats]:
    """values and error bounds of what has no closed form, or a closed one that cancels"""
    program = _program(e, order, closed, careful=error)
    out, bound = program(table)
    shapes = [i.shape for i in program.integrands if not i.parameters]
    grows = any(shape.growth or shape.steepening for shape in shapes)
    exact = np.zeros(len(out), dtype=bool)
    if grows and isinstance(e.as_coeff_Mul()[1], Node):
        if any(shape.steepening for shape in shapes):
            refuse_infinite(e, order, table[:, np.isnan(out) | (out == 0)])
        exact[np.flatnonzero(np.isnan(out))[:FEW]] = True  # a growing function counts beyond where the density underflows
        out[exact] = doubles(e, order, table[:, exact], reasons)
        bound[exact] = _rounding(out[exact])
    if grows and np.isnan(out).any() and not closed:
        what = "count where the normal density is no double, the function grows so fast: pass digits="
        reasons.append(OverflowError(f"{int(np.isnan(out).sum())} of {out.size} values {what}"))
    # beside a mean that is large against the deviation, points are known to few digits
    coarse = np.zeros(len(out), dtype=bool) if program.centred else ~(bound <= COARSE * np.abs(out))
    widely = bool(np.isnan(out).any()) and _program(e, order, closed, error, widely=True).source != program.source
    noisy = any(shape.noisy for shape in shapes) or _weighed_by_its_law(e)
    uncounted = (noisy or bool(coarse.any())) and not error
    if widely or uncounted:
        program = _program(e, order, closed, careful=error or uncounted, widely=widely)
        again = np.isnan(out) | coarse | (noisy and not error)
        out[again], bound[again] = program(table[:, again])
    cancels = any(isinstance(factor, sp.Add) and factor.has(Node) for factor in sp.Mul.make_args(e))
    poor = np.zeros(len(out), dtype=bool)
    if (noisy or cancels or coarse.any()) and not closed:
        poor = np.where(coarse, ~(bound <= COARSE * np.abs(out)), ~(bound <= NOISE * np.abs(out)) & (noisy or cancels))
        if poor.any():
            out[poor], bound[poor] = _by_parts_or_digits(e, order, table[:, poor], error, reasons)
    open_ = ~poor & ~exact
    if error and open_.any():
        bound[open_] += _unsettled(program, table[:, open_], out[open_])
    bound = np.where(np.isnan(bound), np.where(out == 0, 0.0, np.inf), bound)
    unsettled = (out == 0) & (bound == 0)
    unsettled &= ~vanishing(e, order, table, unsettled)
    scales = _program(e, order, closed)(table[:, unsettled])[1] if unsettled.any() else ()
    for g, scale in zip(np.flatnonzero(unsettled), scales, strict=True):
        out[g], bound[g] = _zero_or_faint(e, point(order, table[:, g]), scale)
    return out, bound


def _by_parts_or_digits(e: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats, error: bool, reasons: Reasons) -> tuple[Floats, Floats]:
    """values and error bounds at points where terms cancel: without these terms where Stein's identity takes them away, else by digits"""
    out, bound = np.zeros(table.shape[1]), np.full(table.shape[1], np.inf)
    other = by_parts(e)
    if other != e:
        program = _program(other, order, careful=True)
        out, bound = program(table)
        if error:
            bound += _unsettled(program, table, out)
    poor = ~(bound <= NOISE * np.abs(out))
    if poor.any():
        out[poor] = doubles(e, order, table[:, poor], reasons)
        bound[poor] = _rounding(out[poor])
    return out, bound


def _unsettled(program: Program, table: Floats, out: Floats) -> Floats:
    """what quadrature in more detail makes of the values"""
    difference = np.fmax(*(np.abs(program(table, detail)[0] - out) for detail in DETAILS))
    return np.where(np.isnan(difference) & (out != 0), np.inf, np.nan_to_num(difference, nan=0.0))


@lru_cache(maxsize=512)
def _weighed_by_its_law(e: sp.Expr) -> bool:
    """whether an integrand depends on the variance it is integrated under, as a projection on a Hermite polynomial, which cancels"""
    return any(node.integrand.free_symbols & set().union(*(a.free_symbols for a in node.args[1:])) for node in e.atoms(Node))


def _rounding(v: Floats) -> Floats:
    """of a double that is the nearest one to the value"""
    return np.where(v == 0, 0.0, np.spacing(np.abs(v)))


def _zero_or_faint(e: sp.Expr, point: dict[sp.Symbol, Any], scale: float) -> tuple[float, float]:
    """the value by digits, and the error; where it is too small for a double, or there are no digits, 0 if that is right on the scale of
    what cancels, else the smallest double"""
    if has_a_sign(e, point):
        return 5e-324, 0.0
    try:
        precise = digits_of(e, point, 20)
    except ArithmeticError:
        return (0.0, scale) if scale > FAINT else (5e-324, 0.0)
    value = float(precise)
    if value or not precise:
        return value, float(_rounding(np.array(value)))
    return (0.0, FAINT) if scale > FAINT else (math.copysign(5e-324, precise), 0.0)


def _logs(
    e: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats, result: Floats, bound: Floats, reasons: Reasons
) -> tuple[Floats, Floats]:
    """logarithms, of values known to more digits where these are too small for a double or lose themselves in what cancels"""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.abs(result))
        known = bound <= CANCELLED * np.maximum(1.0, np.abs(logs)) * np.abs(result)
        bound = bound / np.abs(result)
    signs = np.sign(result)
    lost = (abnormal(result) | ~(bound < 1.0)) & ~infinite(result, bound)
    for g in np.flatnonzero((lost | ~known) & ~vanishing(e, order, table, result == 0)):
        try:
            precise = digits_of(e, point(order, table[:, g]), 20)
        except ArithmeticError as reason:
            if lost[g]:
                logs[g], signs[g] = np.nan, 1.0
                reasons.append(reason)
            continue
        signs[g], logs[g] = int(mp.sign(precise)), float(mp.log(abs(precise))) if precise else -np.inf
        bound[g] = np.spacing(abs(logs[g]))
    if (signs < 0).any():
        raise ValueError("log=True: the expression is negative at some of these arguments")
    return logs, bound
