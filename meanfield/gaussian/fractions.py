"""Fractions of integer polynomials in lowest terms, without greatest common divisors.

The denominators of the engine are products of few irreducible polynomials, which are remembered: a common denominator is the union
of factors, and a numerator is reduced by dividing by each of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import sympy as sp
from sympy import ZZ
from sympy.polys.fields import FracElement, FracField
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyElement

__all__ = ["FracElement", "Fractions", "PolyElement"]

#: polynomials with more terms, or of higher degree, are left expanded: their factors are rare and hard to find
_FACTORABLE, _HIGHEST = 100, 40


def _at(polynomial: PolyElement, point: Sequence[int]) -> int:
    return sum(int(c) * math.prod(v**k for v, k in zip(point, powers, strict=True) if k) for powers, c in polynomial.terms())


class Fractions:
    """Fractions in some variables; `probe` is a point at which every irreducible factor is counted as positive."""

    def __init__(self, count: int, probe: Sequence[int]) -> None:
        self._field = FracField([sp.Dummy(str(i)) for i in range(count)], ZZ, lex)
        self.ring = self._field.ring
        self.one, self.zero, self.variables = self._field.one, self._field.zero, self._field.gens
        self._probe = probe
        self._trial = [7 + 12 * i for i in range(count)]
        self._factors: dict[PolyElement, tuple[int, list[tuple[PolyElement, int]]]] = {}

    def rational(self, value: Any) -> FracElement:
        return self._field.raw_new(self.ring(value.p), self.ring(value.q))

    def whole(self, polynomial: PolyElement) -> FracElement:
        return self._field.raw_new(polynomial, self.ring.one)

    def factored(self, polynomial: PolyElement) -> tuple[int, list[tuple[PolyElement, int]]]:
        """content and irreducible factors, each positive at the probe"""
        found = self._factors.get(polynomial)
        if found is None:
            short = len(polynomial) <= _FACTORABLE and max(polynomial.degrees()) <= _HIGHEST
            content, factors = polynomial.factor_list() if short or len(polynomial) == 1 else (1, [(polynomial, 1)])
            oriented = []
            for f, k in factors:
                if _at(f, self._probe) < 0:
                    f, content = -f, content * (-1) ** k
                oriented.append((f, k))
            found = self._factors[polynomial] = (int(content), oriented)
        return found

    def _lowest(self, num: PolyElement, den: dict[PolyElement, int], size: int) -> FracElement:
        """num / (size x the product of den), den irreducible"""
        if not num:
            return self.zero
        common = math.gcd(int(num.content()), size)
        num, size = num.quo_ground(ZZ(common)), size // common
        left = {}
        for f, k in den.items():
            while k and self._divides(f, num):
                num, k = num.exquo(f).copy(), k - 1  # sympy's division hashes a quotient before it is complete
            if k:
                left[f] = k
        whole = self.ring(size)
        for f, k in left.items():
            whole = whole * f**k
        self._factors.setdefault(whole, (size, list(left.items())))
        return self._field.raw_new(num, whole)

    def _divides(self, f: PolyElement, num: PolyElement) -> bool:
        """first at a point, which nearly always settles it"""
        at, value = _at(f, self._trial), _at(num, self._trial)
        return (at == 0 or value % at == 0) and not num.rem(f)

    def plus(self, a: FracElement, b: FracElement) -> FracElement:
        if a.denom == b.denom == 1:
            return self.whole(a.numer + b.numer)
        if a.denom == b.denom:
            size, factors = self.factored(a.denom)
            return self._lowest(a.numer + b.numer, dict(factors), size)
        (n, first), (m, second) = self.factored(a.denom), self.factored(b.denom)
        powers, others = dict(first), dict(second)
        size = n * m // math.gcd(n, m)
        union = {f: max(powers.get(f, 0), others.get(f, 0)) for f in {**powers, **others}}
        left, right = a.numer * (size // n), b.numer * (size // m)
        for f, k in union.items():
            left = left * f ** (k - powers.get(f, 0))
            right = right * f ** (k - others.get(f, 0))
        return self._lowest(left + right, union, size)

    def product(self, a: FracElement, b: FracElement) -> FracElement:
        if a.denom == 1 and b.denom == 1:
            short, long = (a.numer, b.numer) if len(a.numer) < len(b.numer) else (b.numer, a.numer)
            return self.whole(long.mul_term(short.LT) if len(short) == 1 else long * short)
        (n, first), (m, second) = self.factored(a.denom), self.factored(b.denom)
        a, b = self._lowest(a.numer, dict(second), m), self._lowest(b.numer, dict(first), n)  # across: neither is reducible in itself
        den = a.denom * b.denom
        if den not in self._factors:
            (n, first), (m, second) = self.factored(a.denom), self.factored(b.denom)
            self._factors[den] = (n * m, list((Counter(dict(first)) + Counter(dict(second))).items()))
        return self._field.raw_new(a.numer * b.numer, den)

    def reciprocal(self, a: FracElement) -> FracElement:
        size, factors = self.factored(a.numer)
        num = a.denom if size > 0 else -a.denom
        return self._lowest(num, dict(factors), abs(size))
