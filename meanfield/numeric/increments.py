r"""What one repeat does to (q, delta) and its transfer, as source that subtracts nothing from itself: q' - q of a residual is the branch
alone, however large q has become, and that of a layer at criticality what its activation is beside a line. Everything else is told beside
q'/q, from which \delta'/\delta and the transfer may differ by much less than that does from 1."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import Node
from meanfield.keeping import remembered
from meanfield.numeric.calls import NotTabulated
from meanfield.numeric.digits import DIGITS
from meanfield.numeric.expanding import cancelled, expanded
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.linear_parts import added_to_variance, beyond_growth
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import parameter_name, source_name
from meanfield.numeric.store import compiled
from meanfield.recurrence import Recursion
from meanfield.symbols import known

__all__ = ["Increments", "added_by", "holds", "increments_of"]

Floats = NDArray[np.float64]

q, p, delta = known("q"), known("p"), known("delta")

_REPEAT = '''

def added(q, delta, ratio, {given}):
    """What repeat l adds to the logarithms of q and of delta/q, to the ratio of the row's entries, and to the logarithms of its first
    entry and of chi over q."""
    start, gap, before, apart, log, chi_log = q, delta, ratio, 0.0, 0.0, 0.0
    dq = dratio = 0.0
    {stages}
    return math.log1p(dq / start), apart, dratio, log, chi_log


def added_to_each(states, values, L{shapes}, out):
    """The same for each row of states, into the rows of out."""
    {unpack}
    for i in range(states.shape[0]):
        l = states[i, 3]
        rise, apart, dratio, log, chi_log = added(states[i, 0], states[i, 1], states[i, 2], {given})
        out[i, 0] = rise
        out[i, 1] = apart
        out[i, 2] = dratio
        out[i, 3] = log
        out[i, 4] = chi_log
'''

_STAGE = """
for _ in range({times}):
    a, b, t00, t01, t10, t11, chi = stage_{k}(start + dq, gap, {given})
    growth, r = 1.0 + a / (start + dq), before + dratio
    factor = (t00 + r * t10) / growth
    dq += a
    apart += math.log1p(b / growth) if gap > 0.0 else 0.0
    gap *= growth + b if gap > 0.0 else 0.0
    dratio += (t01 + r * (t11 - t00) - r * r * t10) / (growth * (1.0 + factor))
    log += math.log1p(factor)
    chi_log += math.log1p(chi / growth)
"""


@dataclass(frozen=True)
class Increments:
    """Source of `added`, whose arguments after the state are the parameters of the recursion, numbers made of these, L, l, and what its
    quadrature reads of its integrands, or tables of them and scratch; and of `added_to_each`, the same for many states. Those numbers in
    the parameters and L. Whether they are as small as what they add up to, whatever that is. The functions of the
    tables, each with its derivative where that is needed."""

    text: str
    parameters: tuple[sp.Symbol, ...]
    numbers: tuple[sp.Expr, ...]
    fine: bool
    integrands: tuple[Integrand, ...]
    tabulated: tuple[tuple[sp.Expr, sp.Expr | None], ...]


@lru_cache(maxsize=256)
def holds(rec: Recursion, letter: str) -> bool:
    """Whether what a repeat does to (q, delta) holds that letter: l, of which it is the repeat, or L, of how many."""
    found = (_expressions(rec, True, k) for k in range(len(rec.stages)))
    return any(known(letter) in e.free_symbols for wanted, named, _ in found for e in (*wanted, *named.values()))


def _expressions(rec: Recursion, paired: bool, k: int) -> tuple[list[sp.Expr], dict[sp.Symbol, sp.Expr], bool]:
    """what a stage adds to q, how delta and the entries of the transfer and chi differ from q'/q, the quantities it names, and whether
    nothing cancels in them"""
    law = rec.stages[k].law
    view: dict[sp.Expr, sp.Expr] = {p: q - delta}
    view |= {d.symbol: d.kernel for d in law.definitions if d.kernel is not None}
    named = {d.symbol: d.value.xreplace(view) for d in law.definitions if d.kernel is None}
    T, output, gap = law.transfer, law.output.q.xreplace(view), law.output.delta.xreplace(view)
    mixed = [T[0, 1], T[1, 0]] if paired else [sp.S.Zero, sp.S.Zero]
    entries = [e.xreplace(view) for e in (T[0, 0], *mixed, T[1, 1], law.chi)]
    split = added_to_variance(output, gap)
    fine = True
    if split is None:
        more, rate = output - q, (output - q) / q
        one, beside = [e - 1 - rate for e in (entries[0], entries[3], entries[4])], (gap - delta) / delta - rate
        fine = output.is_number
        if fine:  # behind a norm
            together = [cancelled(e) if e.is_rational_function(q, p, delta) else e for e in (*one, beside)]
            fine = all(map(_is_of_one_sign, [*together, *mixed] if paired else together[::2]))
            *one, beside = together if fine else (*one, beside)
    else:
        more, names = split
        named |= names
        one = [beyond_growth(e, output, gap) for e in (entries[0], entries[3], entries[4])]
        beside = beyond_growth(gap / delta, output, gap)
    if not paired:
        beside = one[1] = sp.S.Zero
    return [more, beside, one[0], *entries[1:3], one[1], one[2]], named, fine


def _is_of_one_sign(e: sp.Expr) -> bool:
    """whether it is a quotient of polynomials in which no term takes away from another"""
    if not e.is_rational_function(q, p, delta):
        return False
    signs = [{t.is_nonnegative for t in sp.Add.make_args(expanded(part))} for part in sp.fraction(e)]
    return all(len(found) == 1 and found != {None} for found in signs)


@lru_cache(maxsize=64)
def increments_of(rec: Recursion, paired: bool, from_tables: bool) -> Increments:
    """What a repeat of a recursion adds, for two tokens or for one, its moments by quadrature, or from tables where these hold all of
    them; that of an earlier process if there was one."""

    def made() -> Increments:
        with suppress(NotTabulated):
            return _increments_of(rec, paired, from_tables)
        return increments_of(rec, paired, False)

    return remembered(f"increments {paired} {from_tables} {rec.name}", made)


def _increments_of(rec: Recursion, paired: bool, from_tables: bool) -> Increments:
    lowering = Lowering(from_tables=from_tables, unchecked=True)
    functions = []
    taken = {"math", "np", "added", "start", "before", "apart", "log", "chi", "factor", "growth", "ratio", "states", "values", "out"}
    given = {known(name): name for name in ("q", "delta", "L", "l")}
    given |= {s: parameter_name(s.name, taken) for s in rec.parameters}
    names = [given[s] for s in rec.parameters]
    numbers: dict[str, sp.Expr] = {}
    fine = True
    for k in range(len(rec.stages)):
        wanted, named, each = _expressions(rec, paired, k)
        fine = fine and each
        for symbol, value in _numbers(named, {*rec.parameters, known("L")}).items():
            given[symbol] = source_name(symbol.name, taken)
            numbers[given[symbol]] = value
            del named[symbol]
        body = lowering.body(wanted, given, named, set(taken))
        functions.append((k, [*body.lines, f"return {', '.join(body.results)}"]))
    names += numbers
    shapes = [*lowering.shape_names, *["scratch"] * (from_tables and bool(lowering.calls))]
    arguments = ", ".join([*names, "L", "l", *shapes])
    stages = [f"def stage_{k}(q, delta, {arguments}):\n    " + "\n    ".join(lines) + "\n" for k, lines in functions]
    turns = "".join(_STAGE.format(times=s.times, k=k, given=arguments) for k, s in enumerate(rec.stages))
    repeat = _REPEAT.format(
        given=arguments,
        stages=textwrap.indent(turns, "    ").strip(),
        shapes="".join(f", {name}" for name in shapes),
        unpack="\n    ".join([f"{name} = values[{i}]" for i, name in enumerate(names)] or ["pass"]),
    )
    header = (
        '"""Generated by meanfield: what one repeat adds"""\n\nimport numpy as np\n\nfrom meanfield.numeric import elementary as math\n'
    )
    text = "\n\n".join([header, lowering.helpers(), *stages]) + repeat
    symbols = (*rec.parameters, known("L"))
    return Increments(text, symbols, tuple(numbers.values()), fine, tuple(lowering.integrands.values()), lowering.tabulated)


def _numbers(named: dict[sp.Symbol, sp.Expr], letters: set[sp.Symbol]) -> dict[sp.Symbol, sp.Expr]:
    """what an excess is a number in these letters alone, by its name"""
    plain: dict[sp.Symbol, sp.Expr] = {}
    for symbol, value in named.items():
        written = value.xreplace(plain)
        if written.free_symbols <= letters and not written.has(Node):
            plain[symbol] = written
    return {symbol: written for symbol, written in plain.items() if isinstance(symbol, sp.Dummy)}


def added_by(increments: Increments, values: Floats, depth: int, reading: list[Floats]) -> Callable[[NDArray[np.floating[Any]]], Floats]:
    """What maps rows of q, delta, the ratio and l to what a repeat adds, as `added` says it, with what quadrature or tables read."""
    each = compiled(increments.text, "added_to_each")
    numbers = _exactly(increments.numbers, increments.parameters, (*map(float, values), float(depth)))
    given = (np.array([*values, *numbers], dtype=np.float64), float(depth), *reading)

    def added(states: NDArray[np.floating[Any]]) -> Floats:
        rows, out = np.ascontiguousarray(states.T, dtype=np.float64), np.empty((states.shape[1], 5))
        each(rows, *given, out)
        return out.T

    return added


@lru_cache(maxsize=64)
def _exactly(numbers: tuple[sp.Expr, ...], letters: tuple[sp.Symbol, ...], values: tuple[float, ...]) -> tuple[float, ...]:
    """numbers made of others, rounded once: what an excess over criticality loses no other number has"""
    if not numbers:
        return ()
    with mp.workdps(DIGITS):
        return tuple(map(float, _digits(numbers, letters)(*map(mp.mpf, values))))


@lru_cache(maxsize=64)
def _digits(numbers: tuple[sp.Expr, ...], letters: tuple[sp.Symbol, ...]) -> Callable[..., tuple[mp.mpf, ...]]:
    f: Callable[..., tuple[mp.mpf, ...]] = sp.lambdify(letters, numbers, "mpmath")
    return f
