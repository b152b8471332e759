r"""Where a function changes on the real line: kinks to full precision, and centres and widths of what may be narrow.

Panels end at kinks. Centres and widths are hints: panels start graded towards them, so that a narrow bump is not stepped over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import mpmath as mp
import sympy as sp

from meanfield.gaussian.arithmetic import precise_number
from meanfield.gaussian.kinks import zeros_near
from meanfield.gaussian.pieces import KINKED
from meanfield.gaussian.polynomial_zeros import zeros_of
from meanfield.gaussian.smoothness import edges, is_smooth
from meanfield.symbols import known

__all__ = ["Landmarks", "features", "landmarks"]

x = known("x")

_SCAN = 2000
_MOST_BRANCHES = 64  # of an argument with kinks, that are looked at
_FAR, _STEP = mp.mpf(1000), mp.mpf("1.03")  # beyond, as where a function begins that is 0 far around 0


@dataclass(frozen=True)
class Landmarks:
    """Kinks, and (centre, width) of what happens next to a point."""

    kinks: tuple[mp.mpf, ...]
    features: tuple[tuple[mp.mpf, mp.mpf], ...]


def landmarks(f: sp.Expr, low: mp.mpf, high: mp.mpf) -> Landmarks:
    """Those of f, at the current mpmath precision; kinks of no polynomial are looked for between low and high, and coarsely beyond."""
    kinks: set[mp.mpf] = set()
    for edge in edges(f):
        if edge.is_polynomial(x):
            kinks |= set(_real_roots(edge, mp.mp.dps))
        else:
            kinks |= set(_sign_changes(edge, low, high))
    return Landmarks(tuple(sorted(kinks)), features(f))


@cache
def _roots(e: sp.Expr, dps: int) -> tuple[mp.mpc, ...]:
    """all zeros of a polynomial"""
    poly = sp.Poly(e, x)
    with mp.workdps(dps + 10):
        if poly.degree() == 1:
            a, b = poly.all_coeffs()
            return (mp.mpc(precise_number(-b / a)),)
        return tuple(mp.mpc(r._to_mpmath(mp.mp.prec)) for r in zeros_of(e, dps + 10))


def _real_roots(e: sp.Expr, dps: int) -> list[mp.mpf]:
    return [mp.re(r) for r in _roots(e, dps) if abs(mp.im(r)) <= mp.mpf(10) ** (-dps // 2) * (1 + abs(r))]


def _sign_changes(e: sp.Expr, low: mp.mpf, high: mp.mpf) -> list[mp.mpf]:
    """zeros at which e changes sign, by a scan: one that is missed makes the panels fail, not lie"""
    return [_root_between(e, a, b, mp.mp.prec) for a, b in _brackets(e, *_widened(low, high))]


def _widened(low: mp.mpf, high: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """a range by an eighth at either end at most, so that one scan serves many"""
    if low >= high:
        return low, high
    part = mp.mpf(2) ** (mp.floor(mp.log(high - low, 2)) - 3)
    return mp.floor(low / part) * part, mp.ceil(high / part) * part


@cache
def _brackets(e: sp.Expr, low: mp.mpf, high: mp.mpf) -> tuple[tuple[mp.mpf, mp.mpf], ...]:
    """neighbours among the points of a scan where e is of different signs, and twice the same one where it is 0"""
    f = _lambdified(e)
    with mp.workprec(53):
        grid = [low + (high - low) * i / _SCAN for i in range(_SCAN + 1)] + [mp.mpf(0)]
        far = max(abs(low), abs(high))
        beyond = [far * _STEP**i for i in range(1, int(mp.log(max(1, _FAR / far)) / mp.log(_STEP)) + 1)] if far else []
        points = sorted({*grid, *beyond, *(-t for t in beyond)})
        values = [f(t) for t in points]
    ends = itertools.pairwise(zip(points, values, strict=True))
    change = [(a, b) for (a, va), (b, vb) in ends if mp.im(va) == mp.im(vb) == 0 and mp.re(va) * mp.re(vb) < 0]
    return (*((t, t) for t, v in zip(points, values, strict=True) if v == 0), *change)


@cache
def _root_between(e: sp.Expr, a: mp.mpf, b: mp.mpf, prec: int) -> mp.mpf:
    if a == b:
        return a
    with mp.workprec(prec + 20):
        return mp.findroot(_lambdified(e), (a, b), solver="anderson", tol=mp.mpf(2) ** (-2 * mp.mp.prec), verify=False)


@cache
def _lambdified(e: sp.Expr) -> Callable[[mp.mpf], mp.mpf]:
    f: Callable[[mp.mpf], mp.mpf] = sp.lambdify(x, e, "mpmath")
    return f


@cache
def features(f: sp.Expr) -> tuple[tuple[mp.mpf, mp.mpf], ...]:
    """zeros of the arguments of functions and of the bases of powers, with the distance over which they matter"""
    inner: set[sp.Expr] = {t.args[0] for t in f.atoms(sp.Function) if t.args and not isinstance(t, sp.Piecewise)}
    inner |= {t.base for t in f.atoms(sp.Pow) if t.exp.is_nonnegative is not True or not t.exp.is_Integer}
    inner |= {t.exp for t in f.atoms(sp.Pow) if t.exp.has(x)}
    found: dict[mp.mpf, mp.mpf] = {}
    with mp.workdps(20):
        for e in {branch for argument in inner for branch in _branches(argument)}:
            if e.free_symbols != {x} or not is_smooth(e):
                continue
            for root in _roots(e, 15) if e.is_polynomial(x) else map(mp.mpc, zeros_near(e)):
                centre, width = mp.re(root), abs(mp.im(root))
                if width <= mp.mpf("1e-7") * (1 + abs(root)):
                    width = _width(e, centre)
                near = next((c for c in found if abs(c - centre) <= width / 8), centre)
                found[near] = min(width, found.get(near, width))
    return tuple(sorted(found.items()))


def _branches(e: sp.Expr) -> set[sp.Expr]:
    """expressions without kinks, one of which e is at each point: tanh(Max(0, x)) is as narrow as tanh(x)"""
    done: set[sp.Expr] = set()
    todo = {e}
    while todo and len(done) + len(todo) <= _MOST_BRANCHES:
        here = todo.pop()
        kinked = [t for t in here.atoms(*KINKED) if not any(a.has(*KINKED) for a in t.args)]
        if not kinked:
            done.add(here)
            continue
        node = min(kinked, key=sp.default_sort_key)
        todo |= {here.xreplace({node: value}) for value in _values(node)}
    return done


def _values(node: sp.Expr) -> Iterable[sp.Expr]:
    """what a node with kinks may be"""
    if isinstance(node, sp.Piecewise):
        return [value for value, _ in node.args]
    if isinstance(node, (sp.Max, sp.Min)):
        return tuple(node.args)
    if isinstance(node, sp.Abs):
        return node.args[0], -node.args[0]
    return (sp.S.One, sp.S.NegativeOne) if isinstance(node, sp.sign) else (sp.S.One, sp.S.Zero)


def _width(e: sp.Expr, centre: mp.mpf) -> mp.mpf:
    """the distance from a zero at which an expression is about 1, by its Taylor series, or the first terms of one that does not end"""
    widths, factor = [mp.mpf(2) ** 40], 1
    for k in range(1, (sp.degree(e, x) if e.is_polynomial(x) else 2) + 1):
        factor *= k
        slope = abs(mp.mpf(sp.N(e.diff(x, k).subs(x, sp.Float(centre)), 15)) / factor)
        if slope > mp.mpf("1e-9"):
            widths.append(slope ** (-mp.mpf(1) / k))
    return min(widths)
