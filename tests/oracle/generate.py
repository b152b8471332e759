r"""The stored values: `python -m oracle.generate` from tests/ appends to values.csv what it does not hold yet.

A row is function, moment, q1, second, q2, mean, value, size, known: `second` is the covariance p, or delta for a gap; doubles are
written so that they are read back as the same doubles, and values belong to exactly these. `size` is E |phi(u) phi(v)| (E |phi(u)|
for a mean) to about three digits. `known` is how: `certified` (a ball that encloses the value), `agreed` (two different rules in 40
digits) or `leading` (the leading term of a gap, where the next is below 1e-30 of it). An infinite moment has the value inf.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from flint import arb, ctx

from oracle import certified, functions
from oracle.certified import AGREED, Inaccurate, settled
from oracle.functions import FUNCTIONS, Exponentials, Function, Open, Terms
from oracle.invented import INVENTED

TABLE = Path(__file__).parent / "values.csv"
DRAWN = Path(__file__).parent / "invented.csv"
BY_NAME = functions.BY_NAME | {str(f): f for f in INVENTED}

VARIANCES = (1e-12, 1e-6, 1e-2, 0.3, 1.0, 7.0, 1e3, 1e6, 1e12)
SHIFTED = ((1e-6, 0.3), (0.3, 0.3), (7.0, -2.0), (1e3, -2.0))  # (q, mean)
PAIR_VARIANCES = (1e-12, 1e-3, 1.0, 50.0, 1e12)
CORRELATIONS = (-1.0, -0.9, 0.0, 0.3, 0.9, 1 - 1e-8, 1.0)
UNEQUAL = ((0.7, 0.6, 1.9, 0.0), (1e-3, 2.0, 1e4, 0.0), (1e-3, -1.0, 1e4, 0.0), (5.0, -1.0, 0.4, 0.0))  # (q1, p, q2, mean)
SHIFTED_PAIRS = ((1.0, 0.3, 1.0, 0.3), (7.0, -3.0, 7.0, -2.0))
GAP_VARIANCES = (1e-12, 1.0, 50.0, 1e12)
ENDS, FAR = (-1.0, 0.0, 1.0), (2.0, 1.0, 1e-100, 1e-300)  # of p/q and delta/q, for invented functions
RATIOS = (2.0, 1.9, 1.0, 0.7, 1e-3, 1e-8, 1e-16, 1e-30, 1e-100, 1e-300)

#: the costly ones of functions without closed smoothing
LEFT_OUT = {(50.0, 1e-3), (50.0, 1e-8), (50.0, 1e-16), (1e12, 1e-3), (1e12, 1e-16)}

#: constant around the origin: at small q their moments of pairs, or those of their slopes, are far below every double
DEAD = ("hard_shrink", "soft_shrink", "threshold", "ramp", "dead_ratio")
#: invented ones of many periods where the Gaussian is wide
WAVING = ("tanh_wave",)
#: what vanishes at one point by accident, or is e^(-4e12): function, moment, q1, second
VANISHING = {
    ("hermite(3)", "slope_kernel", 1.0, 0.0), ("star_relu", "mean", 1.0, None), ("star_relu", "kernel", 1.0, 0.0),
    ("gcu", "slope_kernel", 1.0, 0.0), ("rbf", "kernel", 1e12, -1e12), ("rbf", "slope_kernel", 1e12, -1e12),
    ("rbf", "kernel", 1e12, -9e11), ("rbf", "slope_kernel", 1e12, -9e11),
    # and what the balls do not settle
    ("relu6", "kernel", 1e12, -9e11), ("relu6", "slope_kernel", 1e12, -9e11),
    ("relu6", "kernel", 1e12, 9e11), ("relu6", "slope_kernel", 1e12, 9e11),
}  # fmt: skip
OPEN = tuple(f for f in FUNCTIONS if isinstance(f, Open))


@dataclass(frozen=True)
class Row:
    function: str
    moment: str  # mean, second, slope, kernel, slope_kernel, gap
    q1: float
    second: float | None
    q2: float | None
    mean: float
    value: str = ""
    size: str = ""
    known: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        return self.function, self.moment, self.q1, self.second, self.q2, self.mean

    def texts(self) -> list[str]:
        return ["" if v is None else v if isinstance(v, str) else repr(v) for v in (getattr(self, c.name) for c in fields(self))]


def read(path: Path = TABLE) -> list[Row]:
    def number(text: str) -> float | None:
        return float(text) if text else None

    with path.open(newline="") as lines:
        return [
            Row(name, moment, float(q1), number(second), number(q2), float(mean), value, size, known)
            for name, moment, q1, second, q2, mean, value, size, known in list(csv.reader(lines))[1:]
        ]


# -- the points ------------------------------------------------------------------------------------------------------------------------


def points(f: Function) -> Iterator[Row]:
    """what is asked of a function"""
    return (r for r in _points(f) if r.mean or (r.function, r.moment, r.q1, r.second) not in VANISHING)


def _points(f: Function) -> Iterator[Row]:
    name = str(f)
    for q, m in (*((q, 0.0) for q in VARIANCES), *SHIFTED):
        for moment in ("mean", "second", "slope"):
            yield Row(name, moment, q, None, None, m)
    dead = f.name in DEAD
    for q in PAIR_VARIANCES:
        for rho in CORRELATIONS:
            if (dead and q < 1e-2) or (isinstance(f, Open) and rho == 1 - 1e-8):
                continue
            for moment in ("kernel", "slope_kernel"):
                if not (f.has_jumps and moment == "slope_kernel" and abs(rho) == 1.0):
                    yield Row(name, moment, q, rho * q, q, 0.0)
    for q1, p, q2, m in (*(() if dead else UNEQUAL), *SHIFTED_PAIRS):
        for moment in ("kernel", "slope_kernel"):
            yield Row(name, moment, q1, p, q2, m)
    for q in GAP_VARIANCES:
        for ratio in RATIOS:
            if not (dead and q < 1e-2) and not (isinstance(f, Open) and (q, ratio) in LEFT_OUT):
                yield Row(name, "gap", q, ratio * q, q, 0.0)


def drawn(f: Function) -> Iterator[Row]:
    """what is asked of an invented one: points drawn by its name"""
    draw, name = random.Random(str(f)), str(f)
    lowest, highest = (-2, 6) if f.name in DEAD else (-12, 2) if f.name in WAVING else (-12, 12)

    def variance() -> float:
        return float(f"{10 ** draw.uniform(lowest, highest):.4g}")

    for _ in range(5):
        for moment, mean in (("mean", 0.0), ("second", 0.0), ("slope", 0.0), ("second", 0.7)):
            if not (moment == "slope" and f.has_jumps):
                yield Row(name, moment, variance(), None, None, mean)
    for _ in range(5):
        q = variance()
        yield Row(name, "kernel", q, draw.choice(ENDS) * q, q, 0.0)
        yield Row(name, "gap", q, draw.choice(FAR) * q, q, 0.0)
    for _ in range(1 if isinstance(f, Open) else 5):
        q = float(f"{10 ** draw.uniform(-2, 1):.4g}") if isinstance(f, Open) else variance()
        yield Row(name, "kernel", q, draw.uniform(-0.95, 0.95) * q, q, 0.0)
        if not isinstance(f, Open):
            yield Row(name, "kernel", q, 0.4 * math.sqrt(q), 1.0, 0.0)
            yield Row(name, "gap", q, 10 ** draw.uniform(-25, 0.3) * q, q, 0.0)


# -- their values ----------------------------------------------------------------------------------------------------------------------


@cache
def _open_kernels(q1: float, p: float, q2: float, m: float) -> dict[str, tuple[arb, arb]]:
    """every open function at one point"""
    with ctx.workdps(60):
        return {str(f): pair for f, pair in zip(OPEN, certified.agreed_kernels(OPEN, q1, arb(p), q2, m), strict=True)}


@cache
def _second(name: str, q: float, m: float, slope: bool = False) -> arb:
    return settled(lambda n: certified.second(BY_NAME[name], q, m, n, slope))


@cache
def _mean(name: str, q: float, m: float) -> arb:
    f = BY_NAME[name]
    if f.parity == -1 and m == 0:
        return arb(0)
    return settled(lambda n: certified.mean(f, q, m, n))


@cache
def _slope_mean(name: str, q: float) -> arb:
    f = BY_NAME[name]
    if f.parity == 1:
        return arb(0)
    if isinstance(f, Exponentials):
        return settled(lambda _: f.single(arb(0), arb(q), True))

    def compute(digits: int) -> arb:
        total = certified.one(f.slopes, f.kinks, f.growth, q, 0.0, digits)
        s = arb(q).sqrt()
        for k, jump in zip(f.kinks, f.jumps(), strict=True):
            total += jump * certified.density(certified.real(k) / s) / s
        return total

    return settled(compute)


def _pair(f: Function, row: Row) -> tuple[arb, str]:
    slope = row.moment == "slope_kernel"
    q1, p, q2, m = row.q1, row.second, row.q2, row.mean
    assert p is not None
    assert q2 is not None
    if q1 == q2 and m == 0.0:
        if p == q1:
            return _second(str(f), q1, 0.0, slope), "certified"
        if p == -q1:
            return settled(lambda n: certified.mirrored(f, q1, n, slope)), "certified"
        if p == 0.0:
            with ctx.workdps(60):
                return (_slope_mean(str(f), q1) if slope else _mean(str(f), q1, 0.0)) ** 2, "certified"
    if not isinstance(f, Open):
        return certified.kernel(f, q1, p, q2, m, slope), "certified"
    if f not in OPEN:
        return certified.agreed(f, arb(q1), arb(p), arb(q2), arb(m), AGREED)[slope], "agreed"
    return _open_kernels(q1, p, q2, m)[str(f)][slope], "agreed"


def _gap(f: Function, q: float, delta: float) -> tuple[arb, str]:
    if delta == 2 * q:
        if f.parity == 1:
            return arb(0), "certified"
        return settled(lambda n: certified.second(f, q, 0.0, n) - certified.mirrored(f, q, n)), "certified"
    if not isinstance(f, Exponentials) and delta / q < (2e-30 if isinstance(f, Open) else 1e-90):
        return certified.leading_gap(f, q, delta), "leading"
    if not isinstance(f, Open):
        return certified.gap(f, q, delta), "certified"
    if delta < 0.1 * q:
        return certified.gap(f, q, delta), "agreed"
    with ctx.workdps(60):
        second = _second(str(f), q, 0.0)
        if delta == q:
            return second - _mean(str(f), q, 0.0) ** 2, "certified"
        p = (1 - delta / q) * q  # a kernel of the table is at (1 - delta/q) q within rounding: Price's theorem for the rest
        p = min((r * q for r in CORRELATIONS), key=lambda c: abs(c - p))
        product, slope = _open_kernels(q, p, q, 0.0)[str(f)]
        return second - product - slope * (arb(q) - arb(delta) - arb(p)), "agreed"


def _size(f: Function, row: Row, value: arb) -> float:
    slope = row.moment == "slope_kernel"
    q1, p, q2, m = row.q1, row.second, row.q2, row.mean
    if row.moment == "mean":
        if isinstance(f, Exponentials) and q1 > 100:
            return math.sqrt(_second(str(f), q1, m))
        return math.sqrt(certified.size(f, q1, 0.0, q1, m))
    assert p is not None
    assert q2 is not None
    if f.name in ("exp", "ramp") or (slope and f.has_jumps):
        return float(value)  # nothing changes sign
    if q1 == q2 and m == 0.0 and abs(p) > q1 * (1 - 1e-6) and (p > 0 or f.parity):
        return float(_second(str(f), q1, 0.0, slope))
    if isinstance(f, Exponentials) and max(q1, q2) > 100:  # what oscillates too fast: Cauchy-Schwarz, 2.5 times the size at most
        return float(_second(str(f), q1, m, slope) * _second(str(f), q2, m, slope)) ** 0.5
    if p == -q1 == -q2:
        return certified.mirrored_size(f, q1, slope)
    return certified.size(f, q1, p, q2, m, slope)


def text(value: arb) -> str:
    """25 digits, or those that are known"""
    if value.is_zero():
        return "0"
    digits = min(25, int(value.rel_accuracy_bits() / 3.33))
    if digits < 13:
        raise Inaccurate(str(value))
    return value.str(digits, radius=False)


def computed(row: Row) -> Row:
    """the row with its value"""
    f = BY_NAME[row.function]
    known = "certified"
    if row.moment in ("slope", "slope_kernel") and f.has_jumps and row.moment == "slope":
        return Row(*row.key, "inf", "", known)
    with ctx.workdps(60):
        if row.moment == "mean":
            value = _mean(row.function, row.q1, row.mean)
        elif row.moment in ("second", "slope"):
            value = _second(row.function, row.q1, row.mean, row.moment == "slope")
        elif row.moment == "gap":
            assert row.second is not None
            value, known = _gap(f, row.q1, row.second)
        else:
            value, known = _pair(f, row)
        within = value.is_zero() or 1e-300 < abs(value) < 1e300
        wanted = row.moment in ("mean", "kernel", "slope_kernel") and within
        return Row(*row.key, text(value), f"{_size(f, row, value):.4g}" if wanted else "", known)


def quick(row: Row) -> bool:
    """whether a row takes less than about a tenth of a second"""
    f = BY_NAME[row.function]
    if row.moment in ("mean", "second", "slope"):
        return True
    return isinstance(f, Exponentials) or (not isinstance(f, (Open, Terms)) and row.moment != "gap")


def order(row: Row) -> tuple[bool, bool]:
    """what costs most comes last"""
    return isinstance(BY_NAME[row.function], Open), row.moment == "gap"


def main(out: Callable[[str], object] = sys.stderr.write) -> None:
    for path, wanted in ((TABLE, (r for f in FUNCTIONS for r in points(f))), (DRAWN, (r for f in INVENTED for r in drawn(f)))):
        held = {row.key for row in read(path)} if path.exists() else set()
        missing = sorted((r for r in wanted if r.key not in held), key=order)
        with path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if not held:
                writer.writerow([c.name for c in fields(Row)])
            for i, row in enumerate(missing):
                try:
                    writer.writerow(computed(row).texts())
                except (Inaccurate, ArithmeticError, ValueError) as trouble:
                    out(f"{row.key}: {trouble!r}\n")
                if i % 50 == 0:
                    file.flush()
                    out(f"{i}/{len(missing)} {row.key}\n")


if __name__ == "__main__":
    main()
