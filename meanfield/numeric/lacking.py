r"""Numbers of what covariances of two unequal variances lack of their bound, behind activations: see `meanfield.gaussian.lacks`.

The difference \sqrt{E f(u)^2 E f(v)^2} - E f(u) f(v) loses what it is small by. With q_1, q_2 = s e^{\pm h} it is to second order in h

    G[f](s, \lambda) + \frac{h^2}{2} (V'' - V'^2/V - \kappa''),   V = E f^2, primes along ln s, \kappa'' of E f(u) f(v) along h,

    V' = E f g,   V'' - \kappa'' = \frac12 (E g^2 + E f h) + \frac12 (E g(u) g(v) - E f(u) h(v)),   g = x f', h = x g',

and elsewhere a sum of what is not negative, A + B, with f_i(x) = f(\sqrt{q_i} x), variances 1 and \epsilon = \lambda/\sqrt{q_1 q_2}:

    B = \frac14 (G[f_1 + f_2](1, \epsilon) - G[f_1 - f_2](1, \epsilon)),
    A = \sqrt{V_1 V_2} - E f_1 f_2 = \sqrt{V_1 V_2} E (n_1 - n_2)^2/2,

n = f/\sqrt V. Where f has no kinks but at 0, n_1 - n_2 is the integral of its slope along t = \ln\sqrt q, and A a double integral of
products.

Variances hold a part h by which they differ to 2^-53 only: what is of the order of h^2 has then a relative error of 2^-53/h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.lacks import Joined, Lack
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.slopes import slope
from meanfield.numeric.duals import Varied, linearly, plain
from meanfield.numeric.gram_state import TINY
from meanfield.numeric.pointwise import number_at
from meanfield.symbols import known

__all__ = ["assembled", "lack_at", "selected"]

#: part of the bound from which on a difference has its digits
PLAIN = 2e-4
#: relative error that higher orders in h may make
ORDERS = 1e-12

#: nodes along ln q, from one variance to the other, and their weights, of sum 1
_STEPS, _SHARES = np.polynomial.legendre.leggauss(8)
_SHARES = _SHARES / 2

x, y, q, p, q1, q2, delta = (known(name) for name in ("x", "y", "q", "p", "q1", "q2", "delta"))
_first, _second, _k = (sp.Symbol(name, positive=True) for name in ("root_q1", "root_q2", "root_k"))

Bools = NDArray[np.bool_]
Values = Mapping[str, Varied]


def lack_at(e: sp.Expr, values: Values) -> Varied:
    """What a law of two unequal variances leaves at arrays of values of q1, q2, p, delta and its parameters, of one shape each."""
    found = dict(values)
    while nodes := e.atoms(Lack, Joined):
        inner = next(node for node in sorted(nodes, key=sp.default_sort_key) if not any(a.has(Lack, Joined) for a in node.args))
        letter = sp.Symbol(f"lack_{len(found)}", nonnegative=True)
        found[letter.name] = _lack(inner, found) if isinstance(inner, Lack) else _joined(*(number_at(a, found) for a in inner.args))
        e = e.xreplace({inner: letter})
    return number_at(e, found)


def _joined(a: Varied, a2: Varied, b: Varied, b2: Varied) -> Varied:
    (one, other), (first, second) = ((np.sqrt(v), np.sqrt(w)) for v, w in ((a, a2), (b, b2)))
    mixed = one * second - other * first
    return mixed * (mixed / (np.sqrt(a + b) * np.sqrt(a2 + b2) + one * other + first * second + TINY))


def selected(values: Values, where: Bools) -> dict[str, Varied]:
    """The values at some places of a shape that all broadcast with."""
    return {name: np.broadcast_to(v, where.shape)[where] for name, v in values.items()}


def assembled(shape: tuple[int, ...], parts: list[tuple[Bools, Varied]]) -> Varied:
    """An array of its parts; 0 elsewhere."""

    def placed(*found: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.zeros(shape)
        for (where, _), part in zip(parts, found, strict=True):
            out[where] = part
        return out

    return linearly(placed, *(part for _, part in parts)) if parts else np.zeros(shape)


@dataclass(frozen=True)
class _Forms:
    """E f^2 of a variance and E f(u) f(v); the gap, V' and V'' - kappa'' at one variance, in the limit of no lack and as terms; E f f,
    E f g, E g f, E g g of two variances; A, where there are kinks, and B."""

    second: sp.Expr
    kernel: sp.Expr
    gap: sp.Expr
    rise: sp.Expr
    spread: sp.Expr
    bends: tuple[sp.Expr, ...]
    products: tuple[sp.Expr, ...]
    scaled: sp.Expr
    turned: sp.Expr
    jumps: bool
    kinks: bool


@lru_cache(maxsize=256)
def _forms(f: sp.Expr) -> _Forms:
    g = x * slope(f)
    h = x * slope(g)
    other = {x: y}
    spread = Expectation(g**2, q)
    bends: tuple[sp.Expr, ...] = (spread,)
    if not h.has(sp.DiracDelta):
        pairs = (PairExpectation(a * b.xreplace(other), q, q - delta, q) for a, b in ((g, g), (-f, h)))
        bends = tuple(e / 2 for e in (spread, Expectation(f * h, q), *pairs))
    one, two = f.xreplace({x: _first * x}), f.xreplace({x: _second * x})
    scaled = Expectation((_k * one - two / _k) ** 2, sp.S.One) / 2
    turned = (Gap(one + two, sp.S.One, delta) - Gap(one - two, sp.S.One, delta)) / 4
    products = tuple(PairExpectation(a * b.xreplace(other), q1, p, q2) for a in (f, g) for b in (f, g))
    jumps, kinks = (bool(e.has(sp.DiracDelta)) for e in (g, h))
    moments = Expectation(f**2, q), products[0], Gap(f, q, delta), Expectation(f * g, q)
    return _Forms(*moments, spread, bends, products, scaled, turned, jumps, kinks)


def _lack(node: Lack, values: Values) -> Varied:
    f, *law = node.args
    shape = np.broadcast_shapes(*(v.shape for v in values.values()))
    a, b, lack = (np.broadcast_to(number_at(sp.sympify(e), values), shape) for e in law)
    letters = {s.name for s in f.free_symbols - {x}}
    given = {name: v for name, v in values.items() if name in letters}
    forms, every = _forms(f), {**given, "q1": a, "q2": b, "delta": lack}
    equal = plain(a) == plain(b)
    one = _cases(equal, every, ((equal, lambda at: number_at(forms.gap, {**at, "q": at["q1"] / 2 + at["q2"] / 2})),))
    if equal.all():
        return one
    found, bound = _plainly(forms, selected(every, ~equal))
    found = assembled(shape, [(~equal, found), (equal, one[equal])])
    with np.errstate(all="ignore"):
        size = np.sqrt(plain(a)) * np.sqrt(plain(b))
        h, part = (np.log(plain(a)) - np.log(plain(b))) / 2, plain(lack) / size
        close = np.zeros(shape, dtype=bool)
        close[~equal] = (plain(found[~equal]) < PLAIN * plain(bound)) & (not forms.jumps)
        least = close & (h**2 <= ORDERS)
        bent = close & ~least & (h**4 <= ORDERS * part)
    if not close.any():
        return found
    cases = (
        (least, lambda at: _beside(forms, at, (forms.spread,))),
        (bent, lambda at: _beside(forms, at, forms.bends)),
        (close & ~(least | bent), lambda at: _apart(forms, at)),
    )
    near = _cases(close, every, cases)
    told = close & np.isfinite(plain(near))
    return assembled(shape, [(~told, found[~told]), (told, near[told])])


def _cases(whole: Bools, values: Values, cases: Iterable[tuple[Bools, Callable[[Values], Varied]]]) -> Varied:
    """what is found in each of several cases, 0 in none"""
    return assembled(whole.shape, [(where, found(selected(values, where))) for where, found in cases if where.any()])


def _plainly(forms: _Forms, values: Values) -> tuple[Varied, Varied]:
    """the difference, and what it is taken from"""
    first, second = (number_at(forms.second, {**values, "q": values[name]}) for name in ("q1", "q2"))
    bound = np.sqrt(first) * np.sqrt(second)
    p = np.sqrt(values["q1"]) * np.sqrt(values["q2"]) - values["delta"]
    return bound - number_at(forms.kernel, {**values, "p": p}), bound


def _beside(forms: _Forms, values: Values, bends: tuple[sp.Expr, ...]) -> Varied:
    """to second order beside one variance"""
    a, b = values["q1"], values["q2"]
    h = (np.log(a) - np.log(b)) / 2
    at = {**values, "q": np.sqrt(a) * np.sqrt(b)}
    second, rise, *bent = (number_at(e, at) for e in (forms.second, forms.rise, *bends))
    return number_at(forms.gap, at) + h * h / 2 * (sum(bent) - rise * rise / second)


def _apart(forms: _Forms, values: Values) -> Varied:
    """variances that are not next to each other: A + B"""
    one, two = np.sqrt(values["q1"]), np.sqrt(values["q2"])
    first, second = (number_at(forms.second, {**values, "q": values[name]}) for name in ("q1", "q2"))
    ratio = np.sqrt(np.sqrt(second) / np.sqrt(first))
    turned = number_at(forms.turned, {**values, _first.name: one, _second.name: two, "delta": values["delta"] / (one * two)})
    if not forms.kinks:
        return turned + np.sqrt(first) * np.sqrt(second) * _along(forms, values)
    return turned + number_at(forms.scaled, {**values, _first.name: one, _second.name: two, _k.name: ratio})


def _along(forms: _Forms, at: Values) -> Varied:
    """A/sqrt(V1 V2) by the double integral"""
    middle, half = np.log(at["q1"]) / 2 + np.log(at["q2"]) / 2, (np.log(at["q1"]) - np.log(at["q2"])) / 2
    v = np.exp(middle[..., None] + half[..., None] * _STEPS)
    inner = {name: a[..., None] for name, a in at.items()}
    second, rise = (number_at(e, {**inner, "q": v}) for e in (forms.second, forms.rise))
    rate, one, two = rise / second, v[..., :, None], v[..., None, :]
    law = {name: a[..., None] for name, a in inner.items()} | {"q1": one, "q2": two, "p": np.sqrt(one) * np.sqrt(two)}
    ff, fg, gf, gg = (number_at(e, law) for e in forms.products)
    apart = gg - rate[..., :, None] * fg - rate[..., None, :] * gf + rate[..., :, None] * rate[..., None, :] * ff
    roots = np.sqrt(second)
    square = (apart / (roots[..., :, None] * roots[..., None, :]) * (_SHARES[:, None] * _SHARES)).sum((-1, -2))
    return square * half * half / 2
