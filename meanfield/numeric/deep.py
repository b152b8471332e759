r"""The end of a very deep recursion, and layers on the way, point by point.

The first repeats are taken one by one, the rest to the end by a fixed point or by leaps.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric import lookup
from meanfield.numeric.increments import Increments, added_by, holds, increments_of
from meanfield.numeric.leaps import LENIENT, Added, Beyond, Leap, Rough, State, leap_to
from meanfield.numeric.readers import Reader, tables_at
from meanfield.numeric.rest import Rates, precise_rates
from meanfield.numeric.store import interpreted
from meanfield.numeric.tables import ASKED, Table, growing
from meanfield.numeric.trajectory import BOUNDLESS
from meanfield.numeric.waypoints import AGREED, LN_BIG, MARGINAL, Trail, powered
from meanfield.numeric.wide_steps import wide_added
from meanfield.recurrence import Recursion

__all__ = ["Ends", "end_of"]

Floats = NDArray[np.float64]
#: what a repeat adds, and how much rougher than a double that is
Step = Callable[[], tuple[Added, float]]

#: repeats after which a fixed point is looked for and leaps are tried
TRIED = (256, 1024, 4096, 16384, 65536)
#: repeats between two looks at whether the state stands still
LOOK = 16
#: how much rougher than a double quadrature is, as a rule
CAREFUL = 30.0
#: relative change by which a slope is taken; how far from rest a state may be that stands still
NUDGE, MOVED = 1e-6, 1e-13
#: rates below which rounding of a repeat is more than 1e-14 of what these come to, and more than 1e-12
SLOW, LOST = 2e-2, 2e-4
#: the longest cycle that rounding may leave of a fixed point
CYCLE = 6
#: a gap of which nothing is left that counts, and how nearly alike repeats are whose delta does not count
FAINTEST, SAME = 2.0**-990, 2.0**-51
#: in place of a 0, which would be scaled up again and again
TINY = 2.0**-400
#: what a leap that is too long may run into
TROUBLE = (Rough, ZeroDivisionError, OverflowError, ValueError)


@dataclass(frozen=True)
class Ends:
    """A network's kernel of one point as plain Python, what a repeat adds, and the tables that each reads; the same by quadrature."""

    module: ModuleType
    increments: Increments
    tables: tuple[Table, ...]
    beside: tuple[Table, ...]
    rec: Recursion
    paired: bool

    @classmethod
    def of(cls, rec: Recursion, paired: bool, reader: Reader, values: Floats) -> Ends:
        """At values of its parameters."""
        increments, names = increments_of(rec, paired, True), reader.kernel.parameters
        tables, beside = (tables_at(functions, names, values) for functions in (reader.functions, increments.tabulated))
        return cls(interpreted(reader.kernel.interpreted), increments, tables, beside, rec, paired)

    def added(self, values: Floats, depth: int, reading: list[Floats]) -> tuple[Added, float]:
        """What a repeat adds, from tables where these hold it, and how much rougher than a double that is."""
        if self.increments.integrands and not self.increments.tabulated:
            return self.by_quadrature(values, depth, CAREFUL)
        return added_by(self.increments, values, depth, reading), 1.0

    def by_quadrature(self, values: Floats, depth: int, lenient: float) -> tuple[Added, float]:
        """The same wherever the state goes, also where no table reaches."""
        increments, names = increments_of(self.rec, self.paired, False), [s.name for s in self.rec.parameters]
        return added_by(increments, values, depth, [i.shapes(names, values[:, None])[0] for i in increments.integrands]), lenient

    @property
    def varies(self) -> bool:
        """Whether a repeat is unlike the next, so that nothing rests."""
        return holds(self.rec, "l")

    @property
    def reading(self) -> tuple[list[Floats], list[Floats]]:
        """the tables as they are, and scratch: of the kernel, and of what a repeat adds"""
        return _reading(self.tables), _reading(self.beside)

    def extended(self, reading: tuple[list[Floats], list[Floats]]) -> bool:
        """Whether tables grew that were asked for more."""
        pairs = [pair for tables, read in zip((self.tables, self.beside), reading, strict=True) for pair in zip(tables, read, strict=False)]
        found = [t.extend(numbers) for t, numbers in pairs]
        return any(found)


def _reading(tables: tuple[Table, ...]) -> list[Floats]:
    return [*(t.numbers for t in tables), np.full(lookup.SCRATCH + lookup.KEPT * len(tables), -1.0)] if tables else []


def end_of(ends: Ends, values: Floats, q: float, delta: float, pooled: float, marks: NDArray[np.int64]) -> dict[str, Any] | None:
    """What a kernel keeps of the repeats in marks, of which the last is the end, by name; None where the state neither comes to rest nor
    is smooth."""
    with growing((*ends.tables, *ends.beside)):
        return _sought(ends, values, q, delta, pooled, marks)


def _sought(ends: Ends, values: Floats, q: float, delta: float, pooled: float, marks: NDArray[np.int64]) -> dict[str, Any] | None:
    """the same, from tables that grow"""
    depth = int(marks[-1])
    while True:
        reading = ends.reading

        def from_tables(reading: tuple[list[Floats], list[Floats]] = reading) -> tuple[Added, float]:
            return ends.added(values, depth, reading[1])

        steps: list[Step] = [from_tables]
        if ends.tables and ends.increments.tabulated:
            steps.append(lambda: ends.by_quadrature(values, depth, CAREFUL))
        try:
            return _end_of(ends, values, q, delta, pooled, marks, reading, steps)
        except TROUBLE as reason:
            if not ends.extended(reading):
                beyond = not isinstance(reason, Rough) or isinstance(reason, Beyond)
                break
    if (ends.tables or ends.beside) and beyond:
        with suppress(*TROUBLE):
            return _end_of(ends, values, q, delta, pooled, marks, ends.reading, [lambda: ends.by_quadrature(values, depth, LENIENT)])
    return None


def _end_of(
    ends: Ends,
    values: Floats,
    q: float,
    delta: float,
    pooled: float,
    marks: NDArray[np.int64],
    reading: tuple[list[Floats], list[Floats]],
    steps: list[Step],
) -> dict[str, Any]:
    m, depth = ends.module, int(marks[-1])

    def begun() -> Trail:
        s = m.workspace(m.SIZE)
        m.load(s, 0, 0, values[:, None], np.array([q]), np.array([delta]), float(depth))
        m.begin(s, 0, 0.0)
        return Trail(m, marks, pooled, reading[0], s)

    trail = begun()
    s = trail.s
    trouble: Exception = Beyond(f"{depth} repeats are too few to leap over")
    may_fade = not ends.varies
    for target in (n for n in TRIED if n < depth):
        while trail.n < target and depth - trail.n > LOOK + CYCLE:
            before = (s[m.Q], s[m.DELTA])
            for period in range(1, CYCLE + 1):
                trail.on(1)
                if s[m.ALIVE] == 0.0:
                    return _dead(trail, delta, bool(ends.tables))
                if (s[m.Q], s[m.DELTA]) == before and not ends.varies:
                    if s[m.A] == math.inf:
                        return _boundless(trail, period, delta)
                    return _standing(ends, values, trail, period, delta, steps[0])
            if may_fade and (rate := _fading(trail)):
                may_fade = False
                with suppress(*TROUBLE):  # step by step it may come to rest all the same
                    return _faded(ends, values, trail, rate, delta, steps[0])
            trail.on(LOOK)
        for step in steps[: 1 if target == TRIED[0] else None]:  # what takes longer, where it has come to that
            if step is not steps[0] and isinstance(trouble, Rough) and not isinstance(trouble, Beyond):
                break  # more of the same rounding
            try:
                return _leapt(ends, values, trail, delta, *step())
            except TROUBLE as reason:
                trouble = reason
                if any((numbers[: lookup.CENTRES] == ASKED).any() for read in reading for numbers in read[:-1]):
                    raise
    if type(trouble) is not Rough or s[m.A] == math.inf:
        raise trouble
    added = wide_added(ends.rec, ends.paired, values, depth)  # what is left of it in doubles may be rounding
    for target in (n for n in TRIED if n < depth):
        trail = begun()
        trail.on(target)
        try:
            return _leapt(ends, values, trail, delta, added, 1.0)
        except TROUBLE as reason:
            trouble = reason
    raise trouble


def _logs(m: ModuleType, s: list[float]) -> tuple[float, float]:
    """of the first entry of the row, and of the product of chi"""
    log = np.empty((1, 1))
    chi_log = np.empty((1, 1)) if m.SPLIT else log
    m.keep_back(s, [], 0, 0, 1, log, chi_log)
    return float(log[0, 0]), float(chi_log[0, 0])


def _dead(trail: Trail, delta: float, from_tables: bool) -> dict[str, Any]:
    m, s = trail.module, trail.s
    status = m.code(s[m.Q], s[m.DELTA], delta, s[m.LEAST], s[m.A], s[m.LOWEST], s[m.GOOD], trail.depth * m.LAYERS)
    if status == 3 and from_tables:
        raise Beyond("a table ends")
    good = int(s[m.GOOD])
    return {**_rows(trail.dead(good)), "status": status, "good": good}


def _leaving(trail: Trail, path: list[Leap], state: State, added: Added) -> dict[str, Any]:
    """q is about to leave the range of states"""
    status = 2 if state.q < 1.0 else 1
    good = (math.floor(state.n) if path else trail.n) * trail.module.LAYERS
    return {**_rows(trail.leaving(path, added)), "status": status, "good": good}


def _rows(records: dict[str, Floats]) -> dict[str, Floats]:
    """chi is of the repeats that begin at the marks"""
    return records | {"chi": records["chi"][: max(1, records["chi"].size - 1)]}


def _found(trail: Trail, records: dict[str, Floats], state: State, chi: float, delta: float) -> dict[str, Any]:
    m, least, depth, pooled = trail.module, trail.s[trail.module.LEAST], trail.depth, trail.pooled
    log = state.log + math.log1p(pooled * state.ratio)
    layers = depth * m.LAYERS
    status = m.code(state.q, state.delta, delta, min(least, state.delta), 1.0, 1.0, layers, layers)
    alone = not records
    end = {"q": state.q, "delta": state.delta, "forward": log, "backward": log if alone else 0.0, "chi": chi}
    end["chi_sum"] = state.chi_log if alone else 0.0
    if alone:
        return {**end, "status": status, "good": layers}
    for name, rows in records.items():
        rows[-1] = end[name]
    return {**_rows(records), "status": status, "good": layers}


def _standing(ends: Ends, values: Floats, trail: Trail, period: int, delta: float, step: Step) -> dict[str, Any]:
    """The state repeats itself to the bit: it is at rest, or moves by less than rounding, or nearly so does the product of transfers."""
    if trail.s[trail.module.A] <= 0.0:
        return _at_rest(trail, period, delta)
    added, lenient = step()
    fine = ends.increments.fine
    found = _nudged(trail, added)
    if not np.isfinite(found).all():
        raise Beyond("a table ends, or has a panel that was not asked for before")
    rate = _slowest(trail, found, fine)
    if rate < LOST and not ends.tables:  # more than 1e-12 of what this comes to is rounding
        with suppress(*TROUBLE):
            return _leapt(ends, values, trail, delta, wide_added(ends.rec, ends.paired, values, trail.depth), 1.0)
    if not fine:
        _check_rest(ends, values, trail, found)
    if rate < SLOW:
        try:
            return _leapt(ends, values, trail, delta, added, lenient)
        except TROUBLE:
            if rate < LOST:
                raise
    return _at_rest(trail, period, delta)


def _fading(trail: Trail) -> float:
    """The logarithm of what each repeat from here on multiplies delta by, where it leaves q as it is and delta, whatever that is, says
    nothing else, and is gone before the end; 0 where that is not so."""
    m, n, q, delta = trail.module, trail.n, trail.s[trail.module.Q], trail.s[trail.module.DELTA]
    if not FAINTEST < delta < math.inf:
        return 0.0

    def repeat(gap: float) -> list[float]:
        t = list(trail.s)
        t[m.DELTA] = gap
        transfer, chi = trail.transfer(t, n)
        return [t[m.Q] / q, t[m.DELTA] / gap, chi, *transfer.ravel().tolist()]

    here = repeat(delta)
    if not (here[0] == 1.0 and 0.0 < here[1] < 1.0 and np.allclose(here, repeat(FAINTEST), rtol=SAME, atol=0.0)):
        return 0.0
    rate = math.log(here[1])
    return rate if math.log(delta) + rate * (trail.depth - n) < math.log(sys.float_info.min) else 0.0


def _faded(ends: Ends, values: Floats, trail: Trail, rate: float, delta: float, step: Step) -> dict[str, Any]:
    """q stands still, and delta falls as an exponential until nothing is left of it"""
    m, s, n = trail.module, list(trail.s), trail.n
    s[m.DELTA] = s[m.LEAST] = 0.0
    found = _standing(ends, values, replace(trail, s=s), 1, delta, step)
    late = trail.marks[:-1] >= n
    if late.any():
        found["delta"][:-1][late] = trail.s[m.DELTA] * np.exp(rate * (trail.marks[:-1][late] - n))
    return found


def _nudged(trail: Trail, added: Added) -> Floats:
    """what a repeat adds where the state stands, and next to it in q and in delta/q"""
    m, s = trail.module, trail.s
    y = np.array([s[m.Q], s[m.DELTA], s[m.B] / s[m.A], trail.n])
    return np.asarray(added(np.array([y, y * [1.0 + NUDGE, 1.0 + NUDGE, 1.0, 1.0], y * [1.0, 1.0 + NUDGE, 1.0, 1.0]]).T), dtype=np.float64)


def _slowest(trail: Trail, found: Floats, fine: bool) -> float:
    """What is slow where the state stands still, so that rounding of a repeat counts so many times as much: the least of the logarithms
    of the factors of the product, but for one that is 0, as far as rounding shows, and of what q and delta/q are pulled to rest by where
    they are not there. In increments that are `fine` no rounding shows, nor hides that delta/q moves by less."""
    rates = [abs(float(found[0, 0] + found[k, 0])) for k in (3, 4)]
    slow = [rate for rate in rates if rate > 0.0 and (fine or not rate < MARGINAL)]
    for k in range(1 + (fine and trail.s[trail.module.DELTA] > 0.0)):
        pull = abs(float(found[k, 1 + k] - found[k, 0])) / NUDGE
        if abs(float(found[k, 0])) > MOVED * pull:
            slow.append(pull)
    return min(slow, default=math.inf)


def _check_rest(ends: Ends, values: Floats, trail: Trail, found: Floats) -> None:
    """Refuse what rounding of a repeat makes of the product, or of delta/q, times the depth, where more digits of both show it."""
    m, s, depth = trail.module, trail.s, trail.depth
    log, apart = float(found[0, 0] + found[3, 0]), float(found[1, 0])
    pull = abs(float(found[1, 2] - found[1, 0])) / NUDGE
    if abs(log) >= LOST and (s[m.DELTA] == 0.0 or pull >= LOST):
        return
    exact, true = _to_more_digits(ends, values, depth, (s[m.Q], s[m.DELTA], s[m.B] / s[m.A]))
    taken = 0.0 if abs(log) < MARGINAL else log
    if abs(taken - true) * depth > AGREED * max(1.0, abs(true) * depth):
        raise Rough(f"the logarithm of a factor of the product is {log}, to more digits {exact.log}")
    if abs(exact.apart) * min(depth, 1.0 / pull if pull > 0.0 else math.inf) > AGREED:
        raise Rough(f"the logarithm of delta/q changes by {exact.apart}, in doubles by {apart}")


def _at_rest(trail: Trail, period: int, delta: float) -> dict[str, Any]:
    """the state repeats itself: what is left of the product is a power of one matrix"""
    m, n = trail.module, trail.n
    records = trail.repeating(period) if trail.marks.size > 1 else {}
    cycles, rest = divmod(trail.depth - n, period)
    s = list(trail.s)
    trail.sweep(s, n, n + rest)
    rows = []
    for a, b in ((1.0, 0.0), (TINY, 1.0)):
        t = list(s)
        t[m.A], t[m.B], t[m.E], t[m.X], t[m.XE] = a, b, 0.0, 1.0, 0.0
        last = trail.sweep(t, n, n + period)
        rows.append((t[m.A] * 2.0 ** (500 * t[m.E]), t[m.B] * 2.0 ** (500 * t[m.E])))
        if a == 1.0:
            chi_cycle = _logs(m, t)[1]
    if min(s[m.A], rows[0][0]) <= 0.0:
        raise Rough("no gradient comes through")
    matrix = np.array(rows)
    matrix[1] -= TINY * matrix[0]
    row, log = powered(np.array([s[m.A], s[m.B]]), matrix, cycles)
    log += s[m.E] * LN_BIG + math.log(row[0])
    chi_log = _logs(m, s)[1] + cycles * chi_cycle
    state = State(trail.depth, s[m.Q], s[m.DELTA], float(row[1] / row[0]), log, chi_log)
    return _found(trail, records, state, m.chi_of(t, last, m.FIRST_KEPT, 0), delta)


def _boundless(trail: Trail, period: int, delta: float) -> dict[str, Any]:
    """the state repeats itself, and J is infinite"""
    m, n, s = trail.module, trail.n, list(trail.s)
    records = trail.boundless(period) if trail.marks.size > 1 else {}
    trail.sweep(s, n, n + (trail.depth - n) % period)
    state = State(trail.depth, s[m.Q], s[m.DELTA], 0.0, math.inf, math.inf)
    return _found(trail, records, state, math.inf, delta) | {"status": BOUNDLESS}


def _check_product(ends: Ends, values: Floats, depth: int, added: Added, state: State, lenient: float) -> None:
    """Refuse what rounding of the last repeat makes of the product, times the depth, where its first entry stays as it is because the
    other gives back what a repeat takes, as the row (1, 0) shows: what is left of both is rounding. More digits tell."""
    rows = np.array([[state.q] * 2, [state.delta] * 2, [0.0, state.ratio], [state.n - 1] * 2])
    rise, _, _, (lost, left), _ = added(rows)
    room = AGREED * max(1.0, abs(float(state.log)))
    if abs(float(lost)) * lenient * sys.float_info.epsilon / 2 * depth <= room:
        return
    exact, true = _to_more_digits(ends, values, depth, (float(state.q), float(state.delta), float(state.ratio)))
    if not abs(float(rise[1] + left) - true) * depth <= room:
        raise Rough(f"the logarithm of a factor of the product is {float(left)}, to more digits {exact.log}")


def _to_more_digits(ends: Ends, values: Floats, depth: int, state: tuple[float, float, float]) -> tuple[Rates, float]:
    """The rates of the last repeat, and the logarithm of a factor of the product: what is marginal is so but for the rounding of the
    state."""
    try:
        exact = precise_rates(ends.rec, ends.paired, values, depth, state)
    except ArithmeticError as reason:
        raise Rough(str(reason)) from reason
    return exact, exact.log if exact.held or abs(exact.log) >= MARGINAL else 0.0


def _leapt(ends: Ends, values: Floats, trail: Trail, delta: float, added: Added, lenient: float) -> dict[str, Any]:
    m, s = trail.module, trail.s
    if s[m.A] == math.inf:
        raise Rough("J is infinite")
    if s[m.A] <= 0.0 or (s[m.LOWEST] <= 0.0):
        raise Rough("the product of transfers changes sign")
    log, chi_log = _logs(m, s)
    path: list[Leap] = []
    state = leap_to(added, State(trail.n, s[m.Q], s[m.DELTA], s[m.B] / s[m.A], log, chi_log), trail.depth, path, lenient)
    if state.n < trail.depth:
        return _leaving(trail, path, state, added)
    _check_product(ends, values, trail.depth, added, state, lenient)
    records = trail.over(path, state, added) if trail.marks.size > 1 else {}
    end = np.array([[state.q], [state.delta], [state.ratio], [trail.depth - 1]])
    before = end
    for _ in range(3):  # the state before the last repeat
        rise, apart = added(before)[:2, 0].tolist()
        before = end * np.exp([[-rise], [-rise - apart], [0.0], [0.0]])
    return _found(trail, records, state, math.exp(added(before)[[0, -1], 0].sum()), delta)
