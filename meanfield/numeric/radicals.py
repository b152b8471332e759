r"""Roots of lowered expressions as few different ones: what a processor takes longest for, beside quotients.

\sqrt a \sqrt b is one root where neither is used apart from the other, powers of 1/\sqrt a are products, and so is a root that is not 0
where there are quotients by it too.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.shared_parts import parts_of, put_in
from meanfield.numeric.arcs import guarded, size_of_difference

__all__ = ["Inverse", "InverseRoot", "Lowered", "Root", "radicals"]

#: a power of two whose square keeps products of roots of normal numbers up to 1e300 normal, and from which constant on
_UNIT, _LEAST = sp.Integer(2) ** 500, sp.Rational(1, 1000)


class Root(sp.Function):
    r"""\sqrt x of a product, which sympy would take apart."""

    nargs = 1
    is_real = True


class InverseRoot(sp.Function):
    r"""1/\sqrt x."""

    nargs = 1
    is_real = True


class Inverse(sp.Function):
    r"""1/x."""

    nargs = 1
    is_real = True


class Lowered(sp.Function):
    r"""2^{-1000} a b, which does not overflow where a b does."""

    nargs = 2
    is_real = True


def radicals(values: list[sp.Expr]) -> list[sp.Expr]:
    """Expressions that mean the same."""
    return _divided_once(_powers(_inverted(_paired(values))))


def _divided_once(values: list[sp.Expr]) -> list[sp.Expr]:
    """with quotients by several powers of one sum as products with those of its inverse"""
    found: dict[sp.Expr, set[sp.Expr]] = {}
    for power in parts_of(sp.Tuple(*values), sp.Pow):
        if power.exp.is_Integer and power.exp.is_negative and power.base.is_Add:
            found.setdefault(power.base, set()).add(power)
    several = {t: Inverse(base) ** -t.exp for base, powers in found.items() if len(powers) > 1 for t in powers}
    return list(put_in(sp.Tuple(*values), several).args)


def _paired(values: list[sp.Expr]) -> list[sp.Expr]:
    """with one root of two that always come together, of sums that a number keeps from 0: their product is none that vanishes early, and
    is taken in units in which it does not overflow"""
    beside: dict[sp.Expr, set[sp.Expr]] = {}
    for factors in _terms(values):
        bases = {f.base for f in factors if _is_half(f) and _above_zero(f.base) and f.base.as_coeff_Add()[0] >= _LEAST}
        for base in bases:
            beside[base] = beside.get(base, bases) & bases
    alone = {frozenset((a, b)) for a, common in beside.items() for b in common - {a} if beside[b] == common and len(common) == 2}
    pairs = sorted((sorted(pair, key=sp.default_sort_key) for pair in alone), key=lambda pair: sp.default_sort_key(sp.Tuple(*pair)))

    def together(product: sp.Mul) -> sp.Expr:
        for a, b in pairs:
            powers = {f.base: f.exp for f in product.args if _is_half(f)}
            if a in powers and b in powers and powers[a] * powers[b] > 0:
                sign = sp.sign(powers[a])
                rest = [f for f in product.args if not (_is_half(f) and f.base in (a, b))]
                root = (_UNIT * Root(Lowered(guarded(a), guarded(b)))) ** sign
                product = sp.Mul(*rest, a ** (powers[a] - sign / 2), b ** (powers[b] - sign / 2), root)
        return product

    return [rewritten(e, lambda t: t.is_Mul, together) for e in values] if pairs else values


def _inverted(values: list[sp.Expr]) -> list[sp.Expr]:
    """with the inverse of a root of two wherever there are quotients by it beside the root"""
    below = {t for t in parts_of(sp.Tuple(*values), sp.Pow) if isinstance(t.base, Root) and t.exp == -1}
    if not below:
        return values
    elsewhere = parts_of(put_in(sp.Tuple(*values), dict.fromkeys(below, sp.S.One)), Root)
    beside = [t for t in below if t.base in elsewhere]
    inverse = {t: InverseRoot(*t.base.args) for t in beside}
    inverse |= {t.base: t.base.args[0] * inverse[t] for t in beside}
    return list(put_in(sp.Tuple(*values), inverse).args)


def _powers(values: list[sp.Expr]) -> list[sp.Expr]:
    """with quotients by nothing but different powers of a root as products with those of its inverse, and the root too where it is not 0;
    there also where a quotient by an odd power of a root is beside the root"""
    found: dict[sp.Expr, set[sp.Expr]] = {}
    halves: dict[sp.Expr, set[sp.Expr]] = {}
    for factors in _terms(values):
        below = [f for f in factors if f.is_Pow and f.exp.is_negative and not f.base.is_number]
        if len(below) == 1 and below[0].exp.is_Rational and below[0].exp.q <= 2:
            found.setdefault(below[0].base, set()).add(below[0].exp)
        for f in filter(_is_half, factors):
            halves.setdefault(f.base, set()).add(f.exp)
    away = {base for base in halves if _above_zero(base) and size_of_difference(base) is None}
    beside = {base for base in away if min(halves[base]) < 0 < max(halves[base])}
    bases = {base for base, powers in found.items() if len(powers) > 1 and any(k.q == 2 for k in powers)} | beside

    def inverse(power: sp.Pow) -> sp.Expr:
        whole = sp.ceiling(power.exp) if power.exp.is_positive else 0
        return power.base**whole * InverseRoot(guarded(power.base)) ** (2 * (whole - power.exp))

    def among(t: sp.Basic) -> bool:
        return bool(t.is_Pow and t.base in bases and (t.exp in found.get(t.base, ()) or (t.base in away and _is_half(t))))

    return [rewritten(e, among, inverse) for e in values] if bases else values


def _terms(values: list[sp.Expr]) -> Iterator[tuple[sp.Expr, ...]]:
    """the factors of every product in them, and of every power that is in none"""
    for t in parts_of(sp.Tuple(*map(sp.Tuple, values)), sp.Basic):
        if t.is_Mul:
            yield t.args
        else:
            yield from ((part,) for part in t.args if part.is_Pow)


def _is_half(e: sp.Expr) -> bool:
    return bool(e.is_Pow and e.exp.is_Rational and e.exp.q == 2)


def _above_zero(e: sp.Expr) -> bool:
    return bool(e.is_Add and e.as_coeff_Add()[0].is_positive)
