r"""Lowest terms without `simplify`: collect on opaque heads, with one symbol for each irreducible factor under a root.

The engine's raw result is a sum of (rational function of roots) x (exponential) x (head). Here every square root of a polynomial is
split into roots of irreducible factors, each a symbol r with r^2 known, so that coefficients are reduced by polynomial algebra.
"""

from __future__ import annotations

from functools import cache

import sympy as sp
from sympy import Rational, S, exp, sqrt

from meanfield.gaussian.special import HEADS
from meanfield.symbols import known

__all__ = ["paired", "tidy"]


class _Roots:
    """The square root of each irreducible factor and the positive symbol that stands for it."""

    def __init__(self) -> None:
        self.symbol_of: dict[sp.Expr, sp.Symbol] = {}

    def _symbol(self, factor: sp.Expr) -> tuple[sp.Symbol, int]:
        probe = factor.xreplace({t: S.Zero if t == known("p") else Rational(1, 1000) for t in factor.free_symbols})
        sign = 1
        if probe.is_number and probe.is_negative:
            factor, sign = sp.expand(-factor), -1
        symbol = self.symbol_of.setdefault(factor, sp.Dummy(f"r{len(self.symbol_of)}", positive=True))
        return symbol, sign

    def _split(self, base: sp.Expr) -> sp.Expr:
        result = S.One
        for part, side in zip(sp.fraction(sp.together(base)), (1, -1), strict=True):
            constant, factors = sp.factor_list(part)
            sign, root = 1, S.One
            for f, k in factors:
                if f.is_Symbol and f.is_positive:
                    root *= f ** Rational(k, 2)
                elif k % 2 == 0:
                    root *= f ** (k // 2)
                else:
                    r, s = self._symbol(f)
                    sign *= s**k
                    root *= r**k
            result *= (root * sqrt(constant * sign)) ** side
        return result

    def encode(self, e: sp.Expr) -> sp.Expr:
        def is_root(t: sp.Basic) -> bool:
            return isinstance(t, sp.Pow) and t.exp.is_Rational and t.exp.q == 2 and bool(t.base.free_symbols)

        return e.replace(is_root, lambda t: self._split(t.base) ** (2 * t.exp))

    def decode(self, e: sp.Expr) -> sp.Expr:
        return e.xreplace({r: sqrt(f) for f, r in self.symbol_of.items()})

    def _parts(self, e: sp.Expr, r: sp.Symbol, square: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        """even and odd part of a polynomial in r, with r^2 put in"""
        terms = sp.Poly(e, r).terms()
        even = sum((c * square ** (m // 2) for (m,), c in terms if m % 2 == 0), S.Zero)
        odd = sum((c * square ** (m // 2) for (m,), c in terms if m % 2 == 1), S.Zero)
        return even, odd

    def reduce(self, e: sp.Expr) -> sp.Expr:
        """Lowest terms with each root to the power 0 or 1 and none left in a sum of the denominator."""
        num, den = sp.fraction(sp.cancel(sp.together(e)))
        square = {r: f for f, r in self.symbol_of.items() if r in e.free_symbols}
        for r, f in square.items():
            even, odd = self._parts(den, r, f)
            if odd == 0:
                den = even
            elif even == 0:
                num, den = num * r, odd * f
            else:
                num, den = num * (even - odd * r), sp.expand(even**2 - odd**2 * f)
            even, odd = self._parts(num, r, f)
            num = sp.expand(even) + sp.expand(odd) * r
        roots = list(square)
        result = S.Zero
        for powers, c in sp.Poly(sp.expand(num), *roots).terms() if roots else [((), num)]:
            factor, root = sp.factor(sp.cancel(c / den)), S.One
            for r, k in zip(roots, powers, strict=True):
                if not k:
                    continue
                top, bottom = sp.fraction(factor)
                quotient, rest = sp.div(sp.expand(bottom), square[r], *sorted(square[r].free_symbols, key=str))
                if rest == 0:  # r / r^2 = 1 / r
                    factor, root = sp.factor(top / quotient), root / r
                else:
                    root *= r
            result += factor * root
        return result


@cache
def tidy(e: sp.Expr) -> sp.Expr:
    """Collect an engine result on its heads and exponentials, each coefficient in lowest terms."""
    if e is S.Infinity or e.is_Number:
        return e
    roots = _Roots()
    e = roots.encode(e)
    for _ in range(2):  # arguments of heads may hold heads' roots
        e = e.xreplace({h: h.func(*[sp.factor(roots.reduce(a)) if a.free_symbols else a for a in h.args]) for h in e.atoms(*HEADS)})
    heads = {h: sp.Dummy(f"h{i}") for i, h in enumerate(sorted(e.atoms(*HEADS), key=sp.default_sort_key))}
    head_of = {d: h for h, d in heads.items()}
    e = e.xreplace(heads)
    exponent: dict[sp.Expr, sp.Dummy] = {}
    e = e.replace(lambda t: isinstance(t, exp) and bool(t.free_symbols), lambda t: exponent.setdefault(t.args[0], sp.Dummy("e")))
    exponent_of = {d: a for a, d in exponent.items()}
    groups: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(e)):
        head, power, coefficient = S.One, S.Zero, S.One
        for f in sp.Mul.make_args(term):
            base, k = f.as_base_exp()
            if base in head_of:
                head *= f
            elif base in exponent_of:
                power += k * exponent_of[base]
            else:
                coefficient *= f
        key = (head, sp.factor(roots.reduce(power)) if power != 0 else S.Zero)
        groups[key] = groups.get(key, S.Zero) + coefficient
    result = S.Zero
    for (head, power), coefficient in groups.items():
        result += roots.reduce(coefficient) * head.xreplace(head_of) * exp(power)
    return roots.decode(result)


def paired(e: sp.Expr) -> sp.Expr:
    r"""\sqrt{a - b} \sqrt{a + b} written \sqrt{a^2 - b^2}, as the literature does."""
    p = known("p")

    def merge(t: sp.Mul) -> sp.Expr:
        powers = {b: k for b, k in (f.as_base_exp() for f in t.args) if k.is_Rational and k.q == 2 and b.has(p)}
        for base, k in powers.items():
            mirror = sp.expand(base.xreplace({p: -p}))
            partner = next((b for b in powers if b != base and sp.expand(b) == mirror), None)
            if partner is not None and powers[partner] == k:
                even = sp.expand((base + mirror) / 2)
                odd = sp.expand(base - even)
                return merge(t / (base**k * partner**k) * (sp.factor(even) ** 2 - odd**2) ** k)
        return t

    return e.replace(lambda t: isinstance(t, sp.Mul), merge)
