r"""How q, 1 - c and J grow, in a word for each of many settings, from the map of a repeat where they go.

At a fixed point the slopes decide. Where q goes to infinity or to 0, ln q'/q ~ q^{-\kappa}, ln J'/J ~ q^{-\eta} and the rate of 1 - c at
c = 1 are taken far out at two variances: q grows exponentially (\kappa = 0), faster where the rate rises, be it as ln q, or as a power of
l, and J exponentially (\eta = 0), with a stretched exponent (\eta < \kappa), as a power (\eta = \kappa), beyond each power but below
those (the same with a logarithm: ln J goes as the square of ln l), or not; it is infinite where E phi'^2 is. These are the kinds of
`mf.growth`, without its constants.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from meanfield.analysis.grids import Grid, Variances
from meanfield.analysis.moved import Rate
from meanfield.analysis.ranges import MARGINAL
from meanfield.analysis.stepping import BESIDE

__all__ = ["APART", "growth_classes"]

Floats = NDArray[np.float64]
Words = NDArray[np.str_]
Bools = NDArray[np.bool_]
Signs = NDArray[np.int8]

#: of logarithms near 0
ROUNDING = 2e-15
#: how far out rates are taken, towards infinity or 0: the first two of these places at which that of q is this many roundings
PLACES, TOLD = ((1e6, 1e10), (1e3, 1e5), (1e2, 1e3)), 1e3
#: where it is looked whether a rate that falls there comes to a limit: next to a part that is linear one of height h leaves h^2/q to q and
#: h^2/(w sqrt q) to J, w its width
FARTHER = (1e20, 1e26)
#: by how much more than its bound a difference of rates has to be seen
SEEN = 30
#: where they are taken of what is beyond doubles there, as E exp(x)^2 = exp(2q) is
NEARER = (1e1, 1e2)
#: exponents, and rates in units of that of q, that are told apart
APART = 0.05
#: relative change over which d ln J/d ln q is no constant, and a rate grows, and by how much two steps of it differ that are the same
FLAT, EVEN = 1e-2, 0.15
#: settings whose value stands for those of many
SAMPLES = 64
#: 1 - c away from both ends
INSIDE = 0.3


def growth_classes(grid: Grid, found: Variances, at: Floats, gap: Floats, parts: Bools) -> tuple[dict[str, Words], Signs]:
    """Words for "q", "gap" and "apjn" of each setting, which goes to q = at and 1 - c = gap, and has no c = 1 if it `parts`; and 1 where J
    grows, -1 where it decays, 0 where it does neither or it is not told."""
    words = {name: np.full(at.size, "unresolved", dtype="<U16") for name in ("q", "gap", "apjn")}
    signs = np.zeros(at.size, dtype=np.int8)
    settles = np.flatnonzero(np.isfinite(at) & (at > 0) & ~np.isnan(found.chi.value))
    with np.errstate(all="ignore"):
        if settles.size:
            slopes = found.chi.take(settles), found.chi_parallel.take(settles)
            own, signs[settles] = _settled(grid.take(settles), *slopes, at[settles], gap[settles], parts[settles])
            for name, values in own.items():
                words[name][settles] = values
        for limit, side in ((np.inf, 1), (0.0, -1)):
            moves = np.flatnonzero(at == limit)
            if moves.size:
                own, signs[moves] = _moving(grid.take(moves), side, parts[moves])
                for name, values in own.items():
                    words[name][moves] = values
    signs[np.isin(words["apjn"], ("bounded", "infinite", "unresolved"))] = 0
    return words, signs


def _settled(grid: Grid, chi: Rate, along: Rate, at: Floats, gap: Floats, parts: Bools) -> tuple[dict[str, Words], Signs]:
    critical = (np.abs(chi.less_1) <= MARGINAL) & ~parts
    inside = _rise(grid, at, critical) > MARGINAL
    correlation = np.select([critical & inside, critical | parts | (chi.less_1 > 0)], ["power", "bounded"], "exponential")
    factor = _leading(grid, at, at * np.nan_to_num(gap), chi).log
    slowly = _comes_slowly(grid, at, np.nan_to_num(gap), (np.abs(along.less_1) <= MARGINAL) & (np.abs(factor) <= MARGINAL))
    gradient = np.select([np.isposinf(factor), np.abs(factor) > MARGINAL, slowly], ["infinite", "exponential", "power"], "bounded")
    signs = np.where(np.abs(factor) > MARGINAL, np.sign(factor), 0).astype(np.int8)  # of a power it depends on the side that q comes from
    return {"q": np.full(at.size, "bounded"), "gap": correlation, "apjn": gradient}, signs


def _comes_slowly(grid: Grid, at: Floats, gap: Floats, marginal: Bools) -> Bools:
    """Where dq'/dq = 1, whether q comes to q* as 1/l and takes the factor of J along: it does not where each q stays, or J is the same"""
    result, asked = np.zeros(at.size, dtype=bool), np.flatnonzero(marginal)
    if asked.size:
        own = grid.take(asked)
        for side in (INSIDE, -INSIDE):
            beside = at[asked] * np.exp(side)
            moved, _, chi = own.steps.identical(beside)
            moves = np.abs(moved.growth) > TOLD * ROUNDING * moved.noise
            result[asked] |= moves & (np.abs(_leading(own, beside, beside * gap[asked], chi).log) > MARGINAL)
    return result


def _moving(grid: Grid, side: int, parts: Bools) -> tuple[dict[str, Words], Signs]:
    (near, far), told = _places(grid, side)

    def exponent(a: Floats, b: Floats) -> Floats:
        """e where a rate is proportional to X^-e"""
        return np.asarray(np.log(np.abs(a / b)) / np.abs(np.log(far / near)))

    (moved, _, chi), (further, _, later) = (grid.steps.identical(v) for v in (near, far))
    pairs = (moved.growth, further.growth), (chi.log, later.log)
    changes = np.any([_falls(*pair) | _rises(*pair) for pair in pairs], axis=0)
    levels, unsteady = _level_off(grid, side, told & changes, exponent(*pairs[0]))
    told &= ~unsteady
    if levels.any():
        near, far = (np.where(levels, place**side, v) for place, v in zip(FARTHER, (near, far), strict=True))
        (moved, _, chi), (further, _, later) = (grid.steps.identical(v) for v in (near, far))
    first, last = ((m.growth, rate.log, rate) for m, rate in ((moved, chi), (further, later)))
    kappa, speed = exponent(first[0], last[0]), np.abs(last[0])
    slow = _falls(first[0], last[0])
    gone = (moved.at == 0) & (further.at == 0)
    variance = np.select([gone, ~np.isfinite(speed) | _rises(first[0], last[0]), slow], ["exponential", "faster", "power"], "exponential")
    away, there = (v[1] - v[0] for v in (first, last))  # of ln (1 - c) at c = 1
    order = exponent(away, there)
    level = np.where(slow, 1e-5 * np.abs(first[0]) + ROUNDING * moved.noise, MARGINAL)
    marginal = (np.abs(away) <= level) | (order > np.where(slow, kappa, 0) + APART)
    rises = _rise(grid, near, marginal), _rise(grid, far, marginal)
    fades = exponent(*rises)
    carried = marginal & (rises[1] > 0) & (fades < np.where(slow, kappa, 0) + APART)  # pairs inside go to c = 1, however slowly
    held = _are_held(grid, far, slow & (side > 0) & (there > 0) & (np.abs(order - 0.5) < APART) & ~parts)
    fed = [_set_apart(grid, v, parts) for v in (near, far)]  # 1 - c, by which identical inputs come apart
    keeps = parts & (exponent(*fed) < np.where(slow, kappa, 0) + APART)
    correlation = np.select(
        [
            keeps | np.isposinf(there),
            ~np.isfinite(there) | (parts & slow),
            carried & (~slow | (fades < kappa - APART)),
            carried,
            held,
            marginal | (there > 0),
            order < APART,
            order < kappa - APART,
        ],
        ["bounded", "unresolved", "power", "logarithmic", "power", "bounded", "exponential", "stretched"],
        "power",
    )
    to_one = ~keeps & (there < 0) | (marginal & (correlation != "bounded"))
    spread = np.where(to_one, 0.0, INSIDE)
    rates = [_leading(grid, v, v * spread, values[2]).log for v, values in ((near, first), (far, last))]
    eta = exponent(*rates)
    infinite = np.isfinite(moved.at) & np.isposinf(rates[0])
    relative = rates[0] / first[0], rates[1] / last[0]  # d ln J/d ln q
    drifts = ((kappa - eta) * np.abs(np.log(far / near)) > FLAT) & (eta > kappa - 4 * APART)
    squared = _goes_as_logarithm(grid, near, far, relative, spread, slow & drifts)
    gradient = np.select(
        [
            infinite,
            gone,
            ~np.isfinite(rates[1]),
            np.abs(rates[1]) < np.where(slow, np.maximum(1e-5 * speed, ROUNDING), MARGINAL),
            _rises(*rates),
            eta < APART,
            squared,
            ~slow,
            eta < kappa - APART,
            eta < kappa + APART,
        ],
        ["infinite", "exponential", "faster", "bounded", "faster", "exponential", "quasi-polynomial", "bounded", "stretched", "power"],
        "bounded",
    )
    compared = told & ~(slow & (kappa < APART))  # others are no more than that apart
    alike = ~_falls(*rates) | (eta > APART)
    words = {"q": (variance, told | gone), "gap": (correlation, compared), "apjn": (gradient, compared & alike | infinite | gone)}
    signs = np.where(gone, -1, np.nan_to_num(np.sign(rates[1]))).astype(np.int8)
    return {name: np.where(seen, own, "unresolved") for name, (own, seen) in words.items()}, signs


def _falls(a: Floats, b: Floats) -> Bools:
    """whether a rate does so from one place to the next, by less than which 1/ln q does not either"""
    return np.asarray(np.log(np.abs(a / b)) > APART)


def _rises(a: Floats, b: Floats) -> Bools:
    """whether a rate does so, be it as ln ln q"""
    return np.asarray(np.log(np.abs(b / a)) > FLAT)


def _level_off(grid: Grid, side: int, wanted: Bools, falls: Floats) -> tuple[Bools, Bools]:
    """Farther out, where wanted: whether ln q'/q does not fall there, so that what it does there is its limit; and whether it neither
    does so nor goes on as the power of q that it has fallen with"""
    levels, unsteady = np.zeros((2, wanted.size), dtype=bool)
    own = np.flatnonzero(wanted)
    if own.size:
        part = grid.take(own)
        here, there = (part.steps.identical(np.full(own.size, place**side))[0] for place in FARTHER)
        seen = np.abs(there.growth) > TOLD * ROUNDING * there.noise
        drops = _falls(here.growth, there.growth)
        power = np.log(np.abs(here.growth / there.growth)) / math.log(FARTHER[1] / FARTHER[0])
        levels[own], unsteady[own] = seen & ~drops, seen & drops & (power < falls[own] / 2)
    return levels, unsteady


def _are_held(grid: Grid, at: Floats, wanted: Bools) -> Bools:
    """Where pairs that c = 1 repels as q^-1/2, where wanted, are carried to it from afar: then q - p settles (see `growth_merging`)"""
    result, own = np.zeros(at.size, dtype=bool), np.flatnonzero(wanted)
    if own.size and not grid.step.coupled:
        new_q, new_d = grid.take(own).steps.moved(at[own], INSIDE * at[own])
        result[own] = new_d.growth - new_q.growth < -1e-3
    return result


def _goes_as_logarithm(grid: Grid, near: Floats, far: Floats, ends: tuple[Floats, Floats], spread: Floats, wanted: Bools) -> Bools:
    """Where d ln J/d ln q, known at both ends, grows in equal steps of ln q, where wanted: then ln J goes as ln^2 q"""
    result, own = np.zeros(near.size, dtype=bool), np.flatnonzero(wanted)
    if own.size:
        middle, part = np.sqrt(near * far)[own], grid.take(own)
        moved, _, chi = part.steps.identical(middle)
        between = _leading(part, middle, middle * spread[own], chi).log / moved.growth
        before, after = between - ends[0][own], ends[1][own] - between
        result[own] = (np.abs(before) > FLAT * np.abs(between)) & (np.abs(after / before - 1) < EVEN)
    return result


def _set_apart(grid: Grid, at: Floats, parts: Bools) -> Floats:
    """1 - c' of identical inputs"""
    result, own = np.zeros(at.size), np.flatnonzero(parts)
    if own.size:
        moved, gap = grid.take(own).steps.moved(at[own], BESIDE * at[own])
        result[own] = gap.at / moved.at
    return result


def _places(grid: Grid, side: int) -> tuple[Floats, NDArray[np.bool_]]:
    """two variances for each setting where ln q'/q is more than rounding, and whether there are such"""
    at, told = np.empty((2, grid.size)), np.zeros(grid.size, dtype=bool)
    for places in PLACES:
        left = np.flatnonzero(~told)
        if left.size:
            at[:, left] = np.array(places)[:, None] ** side
            moved, *_ = grid.take(left).steps.identical(at[1, left])
            told[left] = ~(np.abs(moved.growth) <= TOLD * ROUNDING * moved.noise)
            at[:, left[np.isposinf(moved.growth)]] = np.array(NEARER)[:, None] ** side
    return at, told


def _rise(grid: Grid, at: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """|ln (1 - c')/(1 - c)| inside, where wanted and no rounding; what SAMPLES of them agree in to a factor 2 is taken for all"""
    rise, asked = np.zeros(at.size), np.flatnonzero(wanted)

    def values(part: NDArray[np.int64]) -> Floats:
        new_q, new_d = grid.take(part).steps.moved(at[part], INSIDE * at[part])
        size = np.abs(new_d.growth - new_q.growth)
        return np.where(size > SEEN * (new_d.growth_error + new_q.growth_error), size, 0.0)

    if asked.size > SAMPLES:
        some = values(asked[np.linspace(0, asked.size - 1, SAMPLES).astype(int)])
        if some.max() <= 2 * some.min():
            rise[asked] = some.min()
            return rise
    if asked.size:
        rise[asked] = values(asked)
    return rise


def _leading(grid: Grid, at: Floats, d: Floats, chi: Rate) -> Rate:
    """the factor of J in a repeat: chi, or the leading eigenvalue where tokens mix or masks differ"""
    if not (grid.step.long or grid.step.recursion.couples() or grid.step.parted):  # of long laws it takes longer to tell than they do
        return chi
    value, less_1 = np.empty((2, at.size, 2, 2))
    for part in (d == 0, d != 0):
        if part.any():
            own = grid.take(part).steps.transfer(at[part], d[part])
            value[part], less_1[part] = own.value, own.less_1
    return Rate(_first_eigenvalue(value), _first_eigenvalue(less_1))


def _first_eigenvalue(m: Floats) -> Floats:
    a, b = m[:, 0, 0], m[:, 1, 1]
    product = m[:, 0, 1] * m[:, 1, 0]
    return np.where(product == 0, a, (a + b) / 2 + np.sqrt(((a - b) / 2) ** 2 + product))
