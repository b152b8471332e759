r"""Lowest terms without `simplify`: every result of the engine is a sum of

    rational function  x  square roots of irreducible polynomials  x  exponential  x  opaque heads

and is kept as that, a table from (heads, exponent, roots) to the rational function. Sums, products and powers are then polynomial
arithmetic, two equal results have equal tables, and sympy expressions are made once, at the end.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import sympy as sp
from sympy import Rational, S, exp, sqrt

from meanfield.gaussian.fractions import FracElement, Fractions, PolyElement
from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.quadrant_waves import BivariateCosineCDF, BivariateSineCDF
from meanfield.gaussian.special import BivariateDensity, BivariateNormalCDF, NormalCDF, NormalDensity
from meanfield.symbols import known

__all__ = ["HEADS", "TURNED", "Algebra", "NestedRoot", "Terms", "cancels", "tidy", "upright"]

Roots = frozenset[PolyElement]
Exponent = frozenset[tuple[Roots, FracElement]]
Heads = frozenset[tuple[sp.Expr, int]]
Key = tuple[Heads, Exponent, Roots]
Terms = dict[Key, FracElement]

_NONE: Key = (frozenset(), frozenset(), frozenset())
#: heads that stay opaque
HEADS = (
    *(sp.asin, sp.erf, sp.erfi, NormalCDF, BivariateNormalCDF),
    *(CosineNormalCDF, SineNormalCDF, BivariateCosineCDF, BivariateSineCDF),
)
_WAVES = (sp.sin, sp.cos, sp.sinh, sp.cosh)
_DENSITIES = (NormalDensity, BivariateDensity)
#: heads that are written in two ways
TURNED = (NormalCDF, BivariateNormalCDF, CosineNormalCDF)


class NestedRoot(ValueError):
    """A square root of a sum of square roots: no normal form here."""


def _generators(e: sp.Expr, found: set[sp.Expr]) -> None:
    """what the normal form takes as independent variables: symbols, pi, and whatever it cannot look into"""
    if e.is_Rational or e in (S.ImaginaryUnit, S.Exp1):
        return
    opaque = e.is_number and _rooted(e)  # a sum of roots may be under a root itself
    if (e.is_Add and not opaque) or e.is_Mul or isinstance(e, exp) or (isinstance(e, (*HEADS, *_WAVES, *_DENSITIES)) and not e.is_number):
        inside = e.args
    elif e.is_Pow and (e.exp.is_Integer or ((2 * e.exp).is_Integer and not (e.base.is_Add and _rooted(e.base)))):
        inside = (e.base,)
    else:
        found.add(e)
        return
    for a in inside:
        _generators(a, found)


def _rooted(e: sp.Expr) -> bool:
    return any(t.is_Pow and t.exp.is_Rational and t.exp.q > 1 for t in sp.preorder_traversal(e))


class Algebra:
    """The normal forms over the variables of some expressions."""

    def __init__(self, *expressions: sp.Expr) -> None:
        found: set[sp.Expr] = {sp.pi}
        for e in expressions:
            _generators(e, found)
        self._variables = sorted(found, key=sp.default_sort_key)
        # radicands are sums of variances and squares, positive at p = 0 for large variances
        probe = [0 if v == known("p") else 1000003 + 17 * i for i, v in enumerate(self._variables)]
        self._fractions = Fractions(len(probe), probe)
        self._position = dict(zip(self._variables, self._fractions.variables, strict=True))
        self._read: dict[sp.Expr, Terms] = {}

    # -- arithmetic --------------------------------------------------------------------------------------------------------
    def constant(self, value: sp.Rational | int) -> Terms:
        return {_NONE: self._fractions.rational(S(value))} if value else {}

    def add(self, *summands: Terms) -> Terms:
        total: Terms = {}
        for terms in summands:
            for key, c in terms.items():
                c = self._fractions.plus(total[key], c) if key in total else c
                if c:
                    total[key] = c
                else:
                    total.pop(key, None)
        return total

    def _times(self, first: Key, second: Key) -> tuple[Key, PolyElement]:
        heads = first[0]
        if second[0]:
            count = Counter(dict(heads))
            count.update(dict(second[0]))
            heads = frozenset(count.items())
        exponent = first[1]
        if second[1]:
            total = dict(exponent)
            for r, c in second[1]:
                total[r] = self._fractions.plus(total[r], c) if r in total else c
            exponent = frozenset((r, c) for r, c in total.items() if c)
        square = self._fractions.ring.one
        for r in first[2] & second[2]:
            square = square * r
        return (heads, exponent, first[2] ^ second[2]), square

    def multiply(self, first: Terms, second: Terms) -> Terms:
        total: Terms = {}
        for k1, c1 in first.items():
            for k2, c2 in second.items():
                key, square = self._times(k1, k2)
                c = self._fractions.product(c1, c2)
                if square != 1:
                    c = self._fractions.product(c, self._fractions.whole(square))
                c = self._fractions.plus(total[key], c) if key in total else c
                if c:
                    total[key] = c
                else:
                    total.pop(key, None)
        return total

    def power(self, base: Terms, k: sp.Rational) -> Terms:
        if k.q == 2:
            return self.multiply(self.power(base, S(k.p // 2)), self._root(base))
        if k < 0:
            return self.power(self._inverse(base), -k)
        result, n = self.constant(1), int(k)
        while n:
            result = self.multiply(result, base) if n % 2 else result
            n //= 2
            base = self.multiply(base, base) if n else base
        return result

    def _inverse(self, terms: Terms) -> Terms:
        if len(terms) == 1:
            ((heads, exponent, roots), c), *_ = terms.items()
            if heads:
                raise NestedRoot("a quotient of special functions")
            for r in roots:
                c = self._fractions.product(c, self._fractions.whole(r))
            return {(heads, frozenset((r, -a) for r, a in exponent), roots): self._fractions.reciprocal(c)}
        if any(heads or exponent for heads, exponent, _ in terms):
            raise NestedRoot("a sum of exponentials or special functions in a denominator")
        root = next(r for _, _, roots in terms for r in roots)  # 1/(a + b sqrt r) = (a - b sqrt r)/(a^2 - b^2 r)
        mirror = {key: -c if root in key[2] else c for key, c in terms.items()}
        return self.multiply(mirror, self._inverse(self.multiply(terms, mirror)))

    def _root(self, terms: Terms) -> Terms:
        if not terms:
            return {}
        if len(terms) > 1:
            raise NestedRoot("a root of a sum of roots")
        ((heads, exponent, roots), c), *_ = terms.items()
        if heads or roots:
            raise NestedRoot("a root of a root")
        halved = frozenset((r, self._fractions.product(a, self._fractions.rational(S.Half))) for r, a in exponent)
        result: Terms = {(heads, halved, roots): self._fractions.reciprocal(self._fractions.whole(c.denom))}
        content, factors = self._fractions.factored(c.numer * c.denom)
        odd = next((f for f, k in factors if k % 2), None)
        for f, k in factors:
            if content < 0 and f == odd:  # negative at the probe, yet a square: its factors have other signs than there
                f, content = -f, -content
            result = self.multiply(result, {_NONE: self._fractions.whole(f ** (k // 2))})
            if k % 2:
                result = self.multiply(result, {(*_NONE[:2], frozenset([f])): self._fractions.one})
        for prime, k in sp.factorint(content).items():
            result = self.multiply(result, self.constant(S(prime) ** (k // 2)))
            if k % 2:
                result = self.multiply(result, {(*_NONE[:2], frozenset([self._fractions.ring(prime)])): self._fractions.one})
        return result

    # -- expressions to normal forms ---------------------------------------------------------------------------------------
    def read(self, e: sp.Expr) -> Terms:
        """The normal form of an expression in this algebra's variables."""
        found = self._read.get(e)
        if found is None:
            found = self._read[e] = self._parse(e)
        return found

    def _parse(self, e: sp.Expr) -> Terms:
        if e.is_Rational:
            return self.constant(e)
        if e in self._position:
            return {_NONE: self._position[e]}
        if e is S.ImaginaryUnit:
            return {(*_NONE[:2], frozenset([self._fractions.ring(-1)])): self._fractions.one}
        if e.is_Add:
            return self.add(*[self.read(a) for a in e.args])
        if e.is_Mul:
            result = self.constant(1)
            for a in e.args:
                result = self.multiply(result, self.read(a))
            return result
        if isinstance(e, exp) or e is S.Exp1:
            return self.exponential(self.read(e.args[0] if e.args else S.One))
        if e.is_Pow:
            return self.power(self.read(e.base), e.exp)
        if isinstance(e, _WAVES):
            return self.read(e.rewrite(exp))
        if isinstance(e, _DENSITIES):
            return self.read(e.definition())
        if isinstance(e, HEADS):
            head = e.func(*[self.write(self.read(a)) for a in e.args])
            return {(frozenset([(head, 1)]), *_NONE[1:]): self._fractions.one} if isinstance(head, HEADS) else self.read(head)
        raise NestedRoot(f"{e} has no normal form")

    def exponential(self, terms: Terms) -> Terms:
        if any(heads or exponent for heads, exponent, _ in terms):
            raise NestedRoot("an exponential of exponentials or special functions")
        return {(frozenset(), frozenset((roots, c) for (_, _, roots), c in terms.items()), frozenset()): self._fractions.one}

    # -- and back ------------------------------------------------------------------------------------------------------------
    def write(self, terms: Terms) -> sp.Expr:
        """The expression: collected on heads and exponentials, each coefficient factored."""
        groups: dict[tuple[Heads, Exponent], list[list[sp.Expr]]] = {}
        for (heads, exponent, roots), c in self._waves(terms).items():
            groups.setdefault((heads, exponent), []).append(self._factors(roots, c))
        return sp.Add(*[self._group(heads, exponent, parts) for (heads, exponent), parts in groups.items()])

    def _group(self, heads: Heads, exponent: Exponent, parts: list[list[sp.Expr]]) -> sp.Expr:
        """one product where there is one coefficient: a number times a sum alone would be multiplied out"""
        factors = parts[0] if len(parts) == 1 else [sp.Add(*[sp.Mul(*part) for part in parts])]
        return sp.Mul(*factors, self._head(heads), exp(self._sum(exponent)))

    def _head(self, heads: Heads) -> sp.Expr:
        return sp.Mul(*[h**k for h, k in heads])

    def _sum(self, exponent: Exponent) -> sp.Expr:
        return sp.Add(*[self._coefficient(roots, c) for roots, c in exponent])

    def _waves(self, terms: Terms) -> Terms:
        """exponentials of imaginary arguments as sines and cosines"""
        turn = self._fractions.ring(-1)
        if not any(turn in r for _, exponent, _ in terms for r, _ in exponent):
            return terms
        parts = []
        for (heads, exponent, roots), c in terms.items():
            real = frozenset((r, a) for r, a in exponent if turn not in r)
            angle = self._sum(frozenset((r - {turn}, a) for r, a in exponent if turn in r))
            sign = -1 if angle.could_extract_minus_sign() else 1
            term: Terms = {(heads, real, roots): c}
            wave: Terms = {(frozenset([(sp.cos(sign * angle), 1)]), *_NONE[1:]): self._fractions.one}
            if angle == 0:
                parts.append(term)
                continue
            wave[frozenset([(sp.sin(sign * angle), 1)]), frozenset(), frozenset([turn])] = self._fractions.whole(self._fractions.ring(sign))
            parts.append(self.multiply(term, wave))
        return self.add(*parts)

    def _expression(self, f: PolyElement) -> sp.Expr:
        return f.as_expr(*self._variables)

    def _coefficient(self, roots: Roots, c: FracElement) -> sp.Expr:
        return sp.Mul(*self._factors(roots, c))

    def _factors(self, roots: Roots, c: FracElement) -> list[sp.Expr]:
        content, above = self._fractions.factored(c.numer)
        size, below = self._fractions.factored(c.denom)
        powers = Counter(dict(above))
        powers.subtract(dict(below))
        result = [Rational(content, size)]
        for r in roots:
            root = sqrt(self._expression(r))
            if powers.get(r, 0) < 0:  # r^(1/2)/r = r^(-1/2)
                powers[r] += 1
                root = 1 / root
            result.append(root)
        return result + [self._expression(f) ** k for f, k in powers.items() if k]


@cache
def tidy(e: sp.Expr) -> sp.Expr:
    """An expression in lowest terms, collected on its heads and exponentials."""
    if e is S.Infinity or e.is_Number:
        return e
    algebra = Algebra(e)
    return algebra.write(algebra.read(e))


def cancels(e: sp.Expr) -> bool:
    """Whether nothing is left of an expression in lowest terms: none of what is left is written, as factors are long to find."""
    return bool(e == 0) if e is S.Infinity or e.is_Number else not Algebra(e).read(e)


def upright(e: sp.Expr) -> sp.Expr:
    """one head where there are two for one thing: Phi(-z) = 1 - Phi(z), and the same in each argument of Phi_2, and of a half wave"""

    def bivariate(h: sp.Expr, k: sp.Expr, r: sp.Expr) -> sp.Expr:
        if h.could_extract_minus_sign():
            return univariate(k) - bivariate(-h, k, -r)
        if k.could_extract_minus_sign():
            return univariate(h) - bivariate(h, -k, -r)
        return BivariateNormalCDF(h, k, r)

    def univariate(z: sp.Expr) -> sp.Expr:
        return 1 - NormalCDF(-z) if z.could_extract_minus_sign() else NormalCDF(z)

    def cosine(h: sp.Expr, k: sp.Expr) -> sp.Expr:
        return exp(-(k**2) / 2) - CosineNormalCDF(-h, k) if h.could_extract_minus_sign() else CosineNormalCDF(h, k)

    return e.replace(BivariateNormalCDF, bivariate).replace(NormalCDF, univariate).replace(CosineNormalCDF, cosine)
