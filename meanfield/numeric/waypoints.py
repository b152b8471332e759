r"""Layers on the way of a very deep recursion: its first repeats one by one, and what is known of the others beside their end."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.leaps import Added, Column, Leap, Rough, State, back_over

__all__ = ["AGREED", "LN_BIG", "MARGINAL", "Trail", "powered"]

Floats = NDArray[np.float64]
LN_BIG = 500 * math.log(2.0)
#: difference of the logs of the whole product from its two ends, relative
AGREED = 1e-11
#: what an eigenvalue differs from 1 by where rounding cannot tell: a network that is marginal is so by its structure
MARGINAL = 2.0**-50


@dataclass
class Trail:
    """A kernel of one point in plain Python after n repeats; of the marks on the way, the last of which is the end, the state, and of
    every repeat the transfer and chi. With the end alone nothing but where it is."""

    module: ModuleType
    marks: NDArray[np.int64]
    pooled: float
    reading: list[Floats]
    s: list[float]
    n: int = 0
    states: list[tuple[float, float]] = field(default_factory=list)
    forward: list[float] = field(default_factory=list)
    transfers: list[tuple[Floats, float]] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return int(self.marks[-1])

    def sweep(self, s: list[float], start: int, stop: int, several: bool = False) -> list[float]:
        """Repeats from start to stop of any state; the transfers of their layers, of the last alone where they are not wanted."""
        m = self.module
        kept = [0.0] * (m.FIRST_KEPT + ((stop - start) * m.LAYERS * m.KEPT if several else m.KEPT))
        marks = np.array([-1, self.depth] if several else [self.depth])
        nothing = (None, None, None, None)
        places = (start * m.LAYERS, stop * m.LAYERS)
        m.sweep(s, kept, *places, marks, False, [0], float(self.depth), 0, 1, self.pooled, *nothing, *self.reading)
        return kept

    def transfer(self, s: list[float], n: int) -> tuple[Floats, float]:
        """Repeat n of any state, and of that the transfer and chi."""
        return _whole(self.module, self.sweep(s, n, n + 1, several=True))

    def on(self, repeats: int) -> None:
        """So many repeats more."""
        if self.marks.size == 1:
            self.sweep(self.s, self.n, self.n + repeats)
            self.n += repeats
            return
        m, s = self.module, self.s
        for n in range(self.n, self.n + repeats):
            self.states.append((s[m.Q], s[m.DELTA]))
            self.forward.append(_log_of(s[m.A] + self.pooled * s[m.B], s[m.E]))
            self.transfers.append(self.transfer(s, n))
        self.n += repeats

    def dead(self, good: int) -> dict[str, Floats]:
        """What there is of the marks where the state has gone bad after so many layers."""
        out = _nothing(self.marks)
        for i, l in enumerate(self.marks[:-1].tolist()):
            if l < self.n and l * self.module.LAYERS <= good:
                out["q"][i], out["delta"][i] = self.states[l]
                out["forward"][i], out["chi"][i] = self.forward[l], self.transfers[l][1]
        return out

    def over(self, path: list[Leap], state: State, added: Added) -> dict[str, Floats]:
        """The marks but for the last, where the rest is leaps to that state."""
        out = _nothing(self.marks)
        column = Column(float(self.depth), self.pooled, 0.0, 0.0)
        for leap in reversed(path):
            inside = np.flatnonzero((self.marks >= leap.start) & (self.marks < min(leap.start * leap.ratio, self.depth)))
            at = self.marks[inside].astype(np.float64)
            inside, at = inside[np.isnan(out["q"][inside])], at[np.isnan(out["q"][inside])]  # two leaps meet but for rounding
            column, columns = back_over(leap, added, column, at)
            y, sums = leap.at(at)
            out["q"][inside], out["delta"][inside] = y[0], y[1]
            out["forward"][inside] = sums[0] + np.log1p(self.pooled * y[2])
            out["chi"][inside] = np.exp(added(y)[[0, -1]].sum(0))
            out["backward"][inside], out["chi_sum"][inside] = [c.log for c in columns], [c.chi_log for c in columns]
        whole = self._before(out, column)
        there = math.log1p(self.pooled * state.ratio) + state.log, state.chi_log
        if not all(abs(a - b) <= AGREED * max(1.0, abs(b)) for a, b in zip(whole, there, strict=True)):
            raise Rough(f"the whole product is {whole[0]} from its end and {there[0]} from its beginning")
        return out

    def leaving(self, path: list[Leap], added: Added) -> dict[str, Floats]:
        """What there is of the marks where q leaves the range of states at the end of the leaps."""
        out = self.dead(self.n * self.module.LAYERS)
        for leap in path:
            inside = np.flatnonzero((self.marks >= leap.start) & (self.marks < leap.start * leap.ratio))
            y, sums = leap.at(self.marks[inside].astype(np.float64))
            out["q"][inside], out["delta"][inside] = y[:2]
            out["forward"][inside] = sums[0] + np.log1p(self.pooled * y[2])
            out["chi"][inside] = np.exp(added(y)[[0, -1]].sum(0))
        return out

    def boundless(self, period: int) -> dict[str, Floats]:
        """The marks where the last repeats repeat themselves, and J is infinite."""
        out, states = self.dead(self.n * self.module.LAYERS), self.states[-period:]
        for i, l in enumerate(self.marks[:-1].tolist()):
            if l >= self.n:
                out["q"][i], out["delta"][i] = states[(l - self.n) % period]
                out["forward"][i] = out["chi"][i] = math.inf
            out["backward"][i] = out["chi_sum"][i] = math.inf
        return out

    def repeating(self, period: int) -> dict[str, Floats]:
        """The same where the last repeats repeat themselves."""
        out, n = _nothing(self.marks), self.n
        cycle, chi = [T for T, _ in self.transfers[-period:]], [math.log(chi) for _, chi in self.transfers[-period:]]
        states = self.states[-period:]
        m, s = self.module, self.s

        def power(start: int, count: int) -> tuple[Floats, list[Floats], int]:
            """of the matrix of a cycle, and what is left over"""
            turned = [cycle[(start + i) % period] for i in range(period)]
            return functools.reduce(np.matmul, turned), turned[: count % period], count // period

        def column(l: int) -> Column:
            whole, rest, cycles = power(l - n, self.depth - l)
            v = np.array([1.0, self.pooled])
            for T in reversed(rest):
                v = T @ v
            v, log = powered(v, whole.T, cycles)
            if v[0] <= 0.0:
                raise Rough("no gradient comes through")
            total = (self.depth - l) // period * sum(chi) + sum(chi[(l - n + i) % period] for i in range(len(rest)))
            return Column(l, float(v[1] / v[0]), log + math.log(v[0]), total)

        for i, l in enumerate(self.marks[:-1].tolist()):
            if l < n:
                continue
            whole, rest, cycles = power(0, l - n)
            row, log = powered(np.array([s[m.A], s[m.B]]), whole, cycles)
            for T in rest:
                row = row @ T
            out["q"][i], out["delta"][i] = states[(l - n) % period]
            out["forward"][i] = log + s[m.E] * LN_BIG + math.log(row[0] + self.pooled * row[1])
            out["chi"][i] = self.transfers[len(self.transfers) - period + (l - n) % period][1]
            there = column(l)
            out["backward"][i], out["chi_sum"][i] = there.log, there.chi_log
        self._before(out, column(n))
        return out

    def _before(self, out: dict[str, Floats], column: Column) -> tuple[float, float]:
        """back over the repeats that were done one by one; the logs of the whole product"""
        ratio, log, chi_log = column.ratio, column.log, column.chi_log
        wanted = {int(l): i for i, l in enumerate(self.marks[:-1]) if l < self.n}
        for l in range(self.n - 1, -1, -1):
            (a, b), (c, d) = self.transfers[l][0].tolist()
            factor = a + b * ratio
            if not factor > 0.0 or not self.transfers[l][1] > 0.0:
                raise Rough("the product of transfers changes sign")
            ratio, log, chi_log = (c + d * ratio) / factor, log + math.log(factor), chi_log + math.log(self.transfers[l][1])
            if l in wanted:
                i = wanted[l]
                out["q"][i], out["delta"][i] = self.states[l]
                out["forward"][i], out["chi"][i] = self.forward[l], self.transfers[l][1]
                out["backward"][i], out["chi_sum"][i] = log, chi_log
        return log, chi_log


def powered(row: Floats, matrix: Floats, k: int) -> tuple[Floats, float]:
    """row matrix^k but for a factor, and the logarithm of that"""
    (a, b), (c, d) = (matrix - np.eye(2)).tolist()
    a, d = (0.0 if abs(x) < MARGINAL else x for x in (a, d))
    matrix = np.eye(2) + np.array([[a, b], [c, d]])
    gap = 0.25 * (a - d) ** 2 + b * c
    if gap <= 1e-12 * max(a * a, d * d):
        return _squared(row, matrix, k)
    if b * c == 0.0:
        roots = [a, d]
    else:  # what an eigenvalue differs from 1 by, of which the logarithm is k times as large
        far = 0.5 * (a + d) + math.copysign(math.sqrt(gap), a + d)
        roots = [far, (a * d - b * c) / far]
    roots = [0.0 if abs(r) < MARGINAL else r for r in roots]
    parts = [row @ (matrix - np.eye(2) - other * np.eye(2)) / (one - other) for one, other in (roots, roots[::-1])]
    main = max((i for i in (0, 1) if parts[i].any()), key=lambda i: abs(1.0 + roots[i]))
    other = parts[1 - main]
    if other.any():  # else its eigenvalue may be the greater one
        other = ((1.0 + roots[1 - main]) / (1.0 + roots[main])) ** k * other
    row = (parts[main] + other) * math.copysign(1.0, 1.0 + roots[main]) ** (k % 2)
    size = float(np.abs(row).max())
    log = math.log1p(roots[main]) if roots[main] > -1.0 else math.log(-1.0 - roots[main])
    return row / size, k * log + math.log(size)


def _squared(row: Floats, matrix: Floats, k: int) -> tuple[Floats, float]:
    """the same where two eigenvalues are nearly one, or complex"""
    log, scale, power = 0.0, 0.0, matrix
    while k:
        if k & 1:
            row = row @ power
            log += scale + math.log(np.abs(row).max())
            row = row / np.abs(row).max()
        size = float(np.abs(power).max())
        power, scale = (power / size) @ (power / size), 2.0 * (scale + math.log(size))
        k >>= 1
    return row, log


def _whole(m: ModuleType, kept: list[float]) -> tuple[Floats, float]:
    """the transfer and chi of a repeat from those of its layers"""
    total, chi = np.eye(2), 1.0
    for at in range(m.FIRST_KEPT, len(kept), m.KEPT):
        mixed = m.KEPT >= 4
        T = np.array(kept[at : at + 4]).reshape(2, 2) if mixed else np.array([[kept[at], 0.0], [0.0, 0.0]])
        with np.errstate(invalid="ignore"):  # an infinite one
            total, chi = total @ T, chi * kept[at + m.CHI]
    return total, chi


def _log_of(mantissa: float, exponent: float) -> float:
    return (math.log(mantissa) if mantissa > 0.0 else math.nan) + exponent * LN_BIG


def _nothing(marks: NDArray[np.int64]) -> dict[str, Floats]:
    return {name: np.full(marks.size, math.nan) for name in ("q", "delta", "forward", "backward", "chi_sum", "chi")}
