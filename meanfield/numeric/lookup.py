r"""What kernels read from tables of Gaussian moments: Chebyshev sums in \log q and \sqrt{1 - c}, panel by panel. Copied into them by
their source, so only `math` and `np` may appear here.

A panel holds the variances within a factor of 2 about 4^k. In x = 3 (v - 4^k)/(v + 4^k), -1 <= x <= 1, which is \tanh of half of
\log(v/4^k), every moment is analytic for Re v > 0, which is |x| < 3, whatever the activation: its coefficients fall by 3 + \sqrt 8 or
more from one to the next, to 5e-16 for the last of 20. What rises by a power of v over a panel would change too much to be exact at both
ends: it is tabulated over that power, with which the panel begins. The square root y of 1 - c, or of 1 + c where c < 0, is cut at 1/2,
1/4, ... as far as the panel needs it. Panels do not overlap and none depends on another, so that the sum of a point is the same whatever
has been tabulated beside. Below the first of them one holds all variances there are: of f that has series on both sides of 0, moments
over a power of \sqrt v are series in it, and x = 2 \sqrt{v/4^{-20}} - 1.

Beyond the last panel, at v = r V for its largest variance V, only what g is far out and what it has near 0 are left: with h what a g that
is constant on either side far out becomes, g - h has a density that falls as 1/\sqrt v, and \eta^2 = v (1 - c) is a distance in it,

    E g(u) g(v) = h(c) + (A + B(\eta))/\sqrt r + O(1/V r),   A = 2 E h E (g - h) at V.

h(c) is kept as a panel of its own in \sqrt{1 - c}; B is what the last panel has beside it and A, at the same \eta, or where that is large
and B ~ 1/\eta, down to the same c. So are gaps over v - p, whose slope is such a g. Means of what grows as a power k are r^{k/2} times a
smooth function of 1/\sqrt r: one panel for all variances there are.

Of f that is 0 up to a distance k of 0 all moments are tabulated over e^{-k^2/2v}, which at small v they all but are: as far down as that is
1e-28 or so, beyond which rounding counts, and where it is 0.

Of f that jumps by J_k at k, gaps at c >= 0 have two parts: that of f less its jumps, and what these bring, which over e^{-k^2/2v}, for the
least |k|, and the root of v (v - p) is smooth in y too. Under wide Gaussians that is \kappa y/\sqrt v for a slope g that is constant far
out, with \kappa = \sum J_k (g(-\infty) + g(\infty))/\sqrt{2\pi}, and beside it 1/v times a function of \eta or, where that is large, of c.

A table begins with its directory: where each panel is, 0 where it has not been asked for. A kernel that needs it asks by -1 and goes on
with NaN.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "CALLS",
    "CENTRES",
    "CONSTANTS",
    "CROSS",
    "DIRECTORY",
    "EVEN",
    "FALLS",
    "FIRST",
    "FUNCTIONS",
    "GAP",
    "HOME",
    "JUMP",
    "JUMP_FALLS",
    "KEPT",
    "MEAN",
    "PANELS",
    "SCRATCH",
    "WEIGHTS",
]

FIRST, PANELS = -21, 42  # centres 4^-20 to 4^20, before them all smaller variances
LOW, HIGH = 4.0 ** (FIRST + 1), 4.0 ** (FIRST + PANELS - 1)
DISTANT = 2.0**25  # against what is near 0, and near against HIGH
NEARBY = 2.0**20  # the same for what jumps bring
X_TERMS, Y_TERMS = 20, 24
#: where their parts of the directory begin; of two inputs, c >= 0 before c < 0; of jumps, c >= 0
MEAN, CROSS, GAP, JUMP = 0.0, 1.0 * PANELS, 3.0 * PANELS, 5.0 * PANELS
HOME = 6 * PANELS  # where, for each of these parts, what is far out begins
CENTRES = 6 * PANELS + 6  # where the centres of panels are
EVEN = 7 * PANELS + 6  # whether the activation is even
JUMP_FALLS = 7 * PANELS + 7  # k^2/2 for the jump next to 0, -1 where there is none
FALLS = 7 * PANELS + 8  # k^2/2 for where the function, its derivative between jumps, and that with them are 0 about 0
DIRECTORY = 7 * PANELS + 11
ROW = Y_TERMS + 2
SCRATCH, KEPT = X_TERMS + 2, 2 + 2 * ROW  # numbers kept of a variance, and of each integrand beside


def fill(polynomials: np.ndarray, t: float) -> None:
    """Chebyshev polynomials, in four chains that do not wait for each other"""
    t2 = 2.0 * (t * t) + -1.0
    t3 = 2.0 * (t * t2) + -t
    twice = 4.0 * (t2 * t2) + -2.0
    a, b, c, d = 1.0, t, t2, t3
    a_before, b_before, c_before, d_before = 0.5 * twice, t3, t2, t
    for j in range(0, X_TERMS, 4):
        polynomials[j] = a
        polynomials[j + 1] = b
        polynomials[j + 2] = c
        polynomials[j + 3] = d
        a, a_before = twice * a + -a_before, a
        b, b_before = twice * b + -b_before, b
        c, c_before = twice * c + -c_before, c
        d, d_before = twice * d + -d_before, d


def locate(table: np.ndarray, v: float, scratch: np.ndarray) -> None:
    """The panel that holds a variance v, counted from 1, 0 if none does, and the Chebyshev polynomials there go to scratch."""
    k = 0
    if 0.0 < v < LOW:
        k = 1
        fill(scratch[2 : X_TERMS + 2], 2.0 * math.sqrt(v / LOW) + -1.0)
    elif LOW <= v <= HIGH:
        k = int(scratch[1]) if scratch[1] > 0.0 else 1 - FIRST
        centre = table[CENTRES + k - 1]
        while v < 0.5 * centre:
            k -= 1
            centre *= 0.25
        while v >= 2.0 * centre:
            k += 1
            centre *= 4.0
        fill(scratch[2 : X_TERMS + 2], 3.0 * ((v - centre) / (v + centre)))
    scratch[0] = v
    scratch[1] = k


def entry_of(table: np.ndarray, k: int) -> int:
    """Where what entry k of the directory stands for begins, 0 if it is not there: then it is asked for"""
    at = int(table[k])
    if at == 0:
        table[k] = -1.0
    return max(at, 0)


def panel_of(table: np.ndarray, part: float, v: float, scratch: np.ndarray) -> int:
    """Where the panel of variance v begins, 0 if there is none. Places are floats, as all that a layer is handed."""
    if scratch[0] != v:
        locate(table, v, scratch)
    return entry_of(table, int(scratch[1] + part) - 1) if scratch[1] != 0.0 else 0


def home_of(table: np.ndarray, part: float) -> int:
    """Where what a part is far out begins, 0 if it is not there: the power of a mean and its panel; A and a panel of one variance; kappa"""
    return entry_of(table, int(HOME + part / PANELS + 0.5))


def dot(coefficients: np.ndarray, polynomials: np.ndarray) -> float:
    a = b = c = d = 0.0
    for j in range(0, X_TERMS, 4):
        a = coefficients[j] * polynomials[j] + a
        b = coefficients[j + 1] * polynomials[j + 1] + b
        c = coefficients[j + 2] * polynomials[j + 2] + c
        d = coefficients[j + 3] * polynomials[j + 3] + d
    return (a + b) + (c + d)


def mean_in(table: np.ndarray, v: float, scratch: np.ndarray, own: float) -> float:
    """E f(u)"""
    kept = scratch[int(own) : int(own) + 2]
    if kept[0] != v:
        at = panel_of(table, MEAN, v, scratch) if v <= HIGH else home_of(table, MEAN)
        if at == 0:
            return math.nan
        if v <= HIGH:
            kept[1] = raised(dot(table[at + 1 : at + 1 + X_TERMS], scratch[2 : X_TERMS + 2]), table[at], table[FALLS], v, scratch)
        else:
            root = math.sqrt(v / HIGH)
            scratch[0] = scratch[1] = 0.0  # no panel's
            fill(scratch[2 : X_TERMS + 2], 2.0 / root + -1.0)
            growth = 1.0 if table[at] == 0.0 else (root if table[at] == 1.0 else root * root)
            kept[1] = growth * dot(table[at + 1 : at + 1 + X_TERMS], scratch[2 : X_TERMS + 2])
        kept[0] = v
    return float(kept[1])


def raised(value: float, power: float, fall: float, v: float, scratch: np.ndarray) -> float:
    """The value times the power of v, of its root below the panels, that it is over in the panel of scratch, and times e^{-fall/v}"""
    factor = math.sqrt(v) if scratch[1] == 1.0 else v
    while power > 0.0:
        value *= factor
        power -= 1.0
    if fall > 0.0:
        value *= math.exp(-fall / v)
    return float(value)


def fall_of(table: np.ndarray, part: float) -> float:
    """What a part falls by as the variance does: what jumps bring says so itself"""
    if part < GAP:
        return float(table[FALLS])
    if part == JUMP:
        return 0.0
    return float(table[FALLS + 1] if part == GAP else table[FALLS + 2])


def summed(table: np.ndarray, at: int, polynomials: np.ndarray, row: np.ndarray) -> None:
    """The coefficients of the sum in y"""
    t = table[at : at + X_TERMS * Y_TERMS]
    for k in range(Y_TERMS):
        a = b = c = d = 0.0
        for j in range(0, X_TERMS, 4):
            a = t[j * Y_TERMS + k] * polynomials[j] + a
            b = t[(j + 1) * Y_TERMS + k] * polynomials[j + 1] + b
            c = t[(j + 2) * Y_TERMS + k] * polynomials[j + 2] + c
            d = t[(j + 3) * Y_TERMS + k] * polynomials[j + 3] + d
        row[k] = (a + b) + (c + d)


def pair_in(table: np.ndarray, part: float, v: float, near: float, scratch: np.ndarray, own: float) -> float:
    """A function of v and near = v (1 - |c|)"""
    if not v > HIGH:
        return pair_within(table, part, v, near, scratch, own)
    home = home_of(table, part)
    if not 0.0 <= near <= v or home == 0:
        return math.nan
    r, flat = v / HIGH, float(table[home])
    close = max(near / r, min(near, DISTANT))
    local = pair_within(table, part, HIGH, close, scratch, own) - far_out(table, home, math.sqrt(close / HIGH)) - flat
    if close < near:
        local *= math.sqrt(close / near)
    return far_out(table, home, math.sqrt(near / v)) + (flat + local) / math.sqrt(r)


def far_out(table: np.ndarray, home: int, y: float) -> float:
    """h(c), from y"""
    at, t = part_of(table, home + 1, Y_TERMS, y)
    return series(table[at : at + Y_TERMS], t)


def part_of(table: np.ndarray, at: int, size: int, y: float) -> tuple[int, float]:
    """Where the coefficients begin of the part of a panel that y lies in, so many in each, and -1 <= t <= 1 there: before them stands how
    many there are, cut at 1/2, 1/4, ..., and the last one goes down to 0"""
    left = float(table[at])
    at += 1
    while left > 1.0 and y <= 0.5:
        y *= 2.0
        left -= 1.0
        at += size
    return at, 4.0 * y + -3.0 if left > 1.0 else 2.0 * y + -1.0


def series(coefficients: np.ndarray, t: float) -> float:
    """A Chebyshev sum"""
    before, now, total = t, 1.0, 0.0
    for k in range(Y_TERMS):
        total = coefficients[k] * now + total
        before, now = now, (2.0 * t) * now + -before
    return float(total)


def series_in_fours(coefficients: np.ndarray, t: float) -> float:
    """The same for every layer: four polynomials, and the four before them, in chains that do not wait for each other"""
    t2 = 2.0 * (t * t) + -1.0
    t3 = 2.0 * (t * t2) + -t
    t4 = 2.0 * (t2 * t2) + -1.0
    twice = 2.0 * t4
    p0, p1, p2, p3 = 1.0, t, t2, t3
    o0, o1, o2, o3 = t4, t3, t2, t
    a = b = c = d = 0.0
    for k in range(0, Y_TERMS, 4):
        a = coefficients[k] * p0 + a
        b = coefficients[k + 1] * p1 + b
        c = coefficients[k + 2] * p2 + c
        d = coefficients[k + 3] * p3 + d
        o0, p0 = p0, twice * p0 + -o0
        o1, p1 = p1, twice * p1 + -o1
        o2, p2 = p2, twice * p2 + -o2
        o3, p3 = p3, twice * p3 + -o3
    return (a + b) + (c + d)


def pair_within(table: np.ndarray, part: float, v: float, near: float, scratch: np.ndarray, own: float) -> float:
    """The same for variances that the panels hold"""
    if not 0.0 <= near <= v:
        return math.nan
    panel = panel_of(table, part, v, scratch)
    if panel == 0:
        return math.nan
    at, t = part_of(table, panel + 1, X_TERMS * Y_TERMS, math.sqrt(near / v))
    kept = scratch[int(own) + 2 : int(own) + 2 + ROW]
    row = kept[2:]
    if kept[0] != v or kept[1] != at:
        kept[0] = v
        kept[1] = at
        summed(table, at, scratch[2 : X_TERMS + 2], row)
    return raised(series_in_fours(row, t), table[panel], fall_of(table, part), v, scratch)


def cross_in(table: np.ndarray, v: float, d: float, total: float, scratch: np.ndarray, own: float) -> float:
    """E f(u) f(v), total = v + p: where d is above v by rounding alone that may be too"""
    if d <= v:
        return pair_in(table, CROSS, v, d, scratch, own)
    return pair_in(table, CROSS + PANELS, v, v if total > v else total, scratch, own)


def jumps_scale(table: np.ndarray, v: float, d: float) -> float:
    """What that is tabulated over which jumps bring to a gap"""
    return math.exp(-float(table[JUMP_FALLS]) / v) * math.sqrt(v) * math.sqrt(d)


def jumps_in(table: np.ndarray, v: float, d: float, scratch: np.ndarray, own: float) -> float:
    """What jumps bring to a gap, for d <= v"""
    scale = jumps_scale(table, v, d)
    if not v > HIGH:
        return scale * pair_within(table, JUMP, v, d, scratch, own + ROW)
    home = home_of(table, JUMP)
    if not 0.0 <= d <= v or home == 0:
        return math.nan
    close = max(d / (v / HIGH), min(d, NEARBY))
    beside = HIGH * pair_within(table, JUMP, HIGH, close, scratch, own + ROW)
    return scale * ((beside + float(table[home]) * (math.sqrt(d) - math.sqrt(close))) / v)


def gap_in(table: np.ndarray, v: float, d: float, scratch: np.ndarray, own: float) -> float:
    """E f(u)^2 - E f(u) f(v)"""
    if table[EVEN] > 0.0 and d > v:
        d = 2.0 * v - d
    if d <= v:
        gap = d * pair_in(table, GAP, v, d, scratch, own)
        return gap if table[JUMP_FALLS] < 0.0 else gap + jumps_in(table, v, d, scratch, own)
    return d * pair_in(table, GAP + PANELS, v, 2.0 * v - d, scratch, own)


def weight(coefficients: np.ndarray) -> float:
    """What a Chebyshev sum is at most"""
    a = b = c = d = 0.0
    for j in range(0, coefficients.size, 4):
        a += abs(coefficients[j])
        b += abs(coefficients[j + 1])
        c += abs(coefficients[j + 2])
        d += abs(coefficients[j + 3])
    return (a + b) + (c + d)


def slope_weight(table: np.ndarray, part: float, v: float, near: float, scratch: np.ndarray) -> float:
    """The same of the part of a panel that holds a function of v and near = v (1 - |c|)"""
    panel = panel_of(table, part, v, scratch) if 0.0 <= near <= v else 0
    if panel == 0:
        return math.nan
    at, _ = part_of(table, panel + 1, X_TERMS * Y_TERMS, math.sqrt(near / v))
    return raised(weight(table[at : at + X_TERMS * Y_TERMS]), table[panel], fall_of(table, part), v, scratch)


def gap_weight(table: np.ndarray, v: float, d: float, scratch: np.ndarray) -> float:
    """What E f(u)^2 - E f(u) f(v) is rounded on the scale of"""
    if table[EVEN] > 0.0 and d > v:
        d = 2.0 * v - d
    if d <= v:
        size = d * slope_weight(table, GAP, v, d, scratch)
        return size if table[JUMP_FALLS] < 0.0 else size + jumps_scale(table, v, d) * slope_weight(table, JUMP, v, d, scratch)
    return d * slope_weight(table, GAP + PANELS, v, 2.0 * v - d, scratch)


#: what a generated file holds of this one
CONSTANTS = (
    "FIRST",
    "PANELS",
    "HOME",
    "CENTRES",
    "LOW",
    "HIGH",
    "DISTANT",
    "NEARBY",
    "X_TERMS",
    "Y_TERMS",
    "ROW",
    "MEAN",
    "CROSS",
    "GAP",
    "JUMP",
    "EVEN",
    "JUMP_FALLS",
    "FALLS",
)
FUNCTIONS = (
    *(fill, locate, entry_of, panel_of, home_of, dot, raised, fall_of, mean_in),
    *(part_of, summed, series, series_in_fours, far_out, pair_within, pair_in, cross_in, jumps_scale, jumps_in, gap_in),
)
WEIGHTS = (weight, slope_weight, gap_weight)

#: what takes the place of a function of `quadrature`
CALLS = {
    "mean": "def {name}(table, scratch, mu, q):\n    return mean_in(table, q, scratch, {own})\n",
    "cross": "def {name}(table, scratch, mu, q, delta, total):\n    return cross_in(table, q, delta, total, scratch, {own})\n",
    "gap": "def {name}(table, slope, scratch, q, delta):\n    return gap_in(table, q, delta, scratch, {own})\n",
    "gapweight": "def {name}(table, slope, scratch, q, delta):\n    return gap_weight(table, q, delta, scratch)\n",
}
