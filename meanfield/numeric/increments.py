r"""What one repeat adds to (q, delta) and to its transfer, as source that subtracts nothing from itself: q' - q of a residual is the branch
alone, however large q has become, and that of a layer at criticality what its activation is beside a line."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.numeric.integrands import Integrand
from meanfield.numeric.linear_parts import first_terms_apart
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import parameter_name
from meanfield.numeric.store import compiled, remembered
from meanfield.recurrence import Recursion, written
from meanfield.symbols import known

__all__ = ["Increments", "added_by", "holds", "increments_of"]

Floats = NDArray[np.float64]

q, p, delta = known("q"), known("p"), known("delta")

_REPEAT = '''

def added(q, delta, ratio, {given}):
    """What a repeat adds to q, delta, the ratio of the row's entries, and the logarithms of its first entry and of chi."""
    start, gap, before, log, chi_log = q, delta, ratio, 0.0, 0.0
    dq = ddelta = dratio = 0.0
    {stages}
    return dq, ddelta, dratio, log, chi_log


def added_to_each(states, values, L{shapes}, out):
    """The same for each row of states, into the rows of out."""
    {unpack}
    for i in range(states.shape[0]):
        dq, ddelta, dratio, log, chi_log = added(states[i, 0], states[i, 1], states[i, 2], {given})
        out[i, 0] = dq
        out[i, 1] = ddelta
        out[i, 2] = dratio
        out[i, 3] = log
        out[i, 4] = chi_log
'''

_STAGE = """
for _ in range({times}):
    a, b, t00, t01, t10, t11, chi = stage_{k}(start + dq, gap + ddelta, {given})
    r = before + dratio
    factor = t00 + r * t10
    dq += a
    ddelta += b
    dratio += (t01 + r * (t11 - t00) - r * r * t10) / (1.0 + factor)
    log += math.log1p(factor)
    chi_log += math.log1p(chi)
"""


@dataclass(frozen=True)
class Increments:
    """Source of `added`, whose arguments after the state are the parameters of the recursion, L, and what its quadrature reads of its
    integrands, or tables of them and scratch; and of `added_to_each`, the same for many states. The functions of the tables, each with
    its derivative where that is needed."""

    text: str
    integrands: tuple[Integrand, ...]
    tabulated: tuple[tuple[sp.Expr, sp.Expr | None], ...]


@lru_cache(maxsize=256)
def holds(rec: Recursion, letter: str) -> bool:
    """Whether what a repeat does to (q, delta) holds that letter: l, of which it is the repeat, or L, of how many."""
    return any(known(letter) in set().union(*(e.free_symbols for e in _expressions(rec, True, k)[0])) for k in range(len(rec.stages)))


def _expressions(rec: Recursion, paired: bool, k: int) -> tuple[list[sp.Expr], dict[sp.Symbol, sp.Expr]]:
    """what a stage adds to q, delta and the entries of the transfer and chi beyond the identity, and the quantities it names"""
    law = rec.stages[k].law
    view: dict[sp.Expr, sp.Expr] = {p: q - delta}
    view |= {d.symbol: d.kernel for d in law.definitions if d.kernel is not None}
    named = {d.symbol: d.value.xreplace(view) for d in law.definitions if d.kernel is None}
    T = law.transfer
    wanted = [law.output.q - q, law.output.delta - delta if paired else sp.S.Zero]
    wanted += [T[0, 0] - 1, T[0, 1], T[1, 0], T[1, 1] - 1] if paired else [T[0, 0] - 1, sp.S.Zero, sp.S.Zero, sp.S.Zero]
    return [first_terms_apart(e.xreplace(view), named) for e in (*wanted, law.chi - 1)], named


@lru_cache(maxsize=64)
def increments_of(rec: Recursion, paired: bool, from_tables: bool) -> Increments:
    """What a repeat of a recursion adds, for two tokens or for one, its moments by quadrature or from tables; that of an earlier process
    if there was one."""
    return remembered(f"increments {paired} {from_tables} {written(rec)}", lambda: _increments_of(rec, paired, from_tables))


def _increments_of(rec: Recursion, paired: bool, from_tables: bool) -> Increments:
    lowering = Lowering(from_tables=from_tables, unchecked=True)
    functions = []
    taken = {"math", "np", "added", "start", "before", "log", "chi", "factor", "ratio", "states", "values", "out"}
    given = {known("q"): "q", known("delta"): "delta", known("L"): "L"}
    given |= {s: parameter_name(s.name, taken) for s in rec.parameters}
    names = [given[s] for s in rec.parameters]
    for k in range(len(rec.stages)):
        wanted, named = _expressions(rec, paired, k)
        body = lowering.body(wanted, given, named, set(taken))
        functions.append((k, [*body.lines, f"return {', '.join(body.results)}"]))
    shapes = [*lowering.shape_names, *["scratch"] * from_tables]
    arguments = ", ".join([*names, "L", *shapes])
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
    return Increments("\n\n".join([header, lowering.helpers(), *stages]) + repeat, tuple(lowering.integrands.values()), lowering.tabulated)


def added_by(increments: Increments, values: Floats, depth: int, reading: list[Floats]) -> Callable[[Floats], Floats]:
    """What maps rows of q, delta and the ratio to what a repeat adds to these and the logarithms, with what quadrature or tables read."""
    each = compiled(increments.text, "added_to_each")
    given = (np.ascontiguousarray(values, dtype=np.float64), float(depth), *reading)

    def added(states: Floats) -> Floats:
        rows, out = np.ascontiguousarray(states.T), np.empty((states.shape[1], 5))
        each(rows, *given, out)
        return out.T

    return added
