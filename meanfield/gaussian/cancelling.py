"""Lowest terms of rational functions of exponentials of unlike rates."""

from __future__ import annotations

from collections import defaultdict

import sympy as sp

__all__ = ["in_lowest_terms"]

#: the largest power of another that an exponential is taken for
_LARGEST = 1000


def in_lowest_terms(e: sp.Expr) -> sp.Expr:
    """`sympy.cancel` of one fraction, in which exp(10^8 x) stands for itself: as a power of exp(x) it is no end of digits.

    >>> x, steep = sp.Symbol("x"), 10**8
    >>> in_lowest_terms((sp.exp(steep * x) - sp.exp((steep + 2) * x)) / (1 + sp.exp(x)))
    -exp(100000001*x) + exp(100000000*x)
    """
    e = sp.together(e)
    sums = {t: sp.expand(t.args[0]).as_coefficients_dict() for t in e.atoms(sp.exp)}
    rates: dict[sp.Expr, set[sp.Rational]] = defaultdict(set)
    for terms in sums.values():
        for m, c in terms.items():
            rates[m].add(abs(c))
    steep = {m: _digits(found) for m, found in rates.items() if max(found) > _LARGEST * sp.gcd(list(found))}
    if not steep:
        return sp.cancel(e)
    named = {(m, base): sp.Dummy() for m, written in steep.items() for digits in written.values() for base in digits}

    def factor(m: sp.Expr, c: sp.Rational) -> sp.Expr:
        if m not in steep:
            return sp.exp(c * m)
        return sp.Mul(*[named[m, base] ** (sp.sign(c) * k) for base, k in steep[m][abs(c)].items()])

    inside = e.xreplace({t: sp.Mul(*[factor(m, c) for m, c in terms.items()]) for t, terms in sums.items()})
    return sp.cancel(inside).xreplace({letter: sp.exp(base * m, evaluate=False) for (m, base), letter in named.items()})


def _digits(rates: set[sp.Rational]) -> dict[sp.Rational, dict[sp.Rational, int]]:
    """each as a sum of whole multiples, of moderate size, of a few of them and of what divides them all"""
    bases, written = [sp.gcd(list(rates))], {}
    for rate in sorted(rates):
        rest, digits = rate, {}
        for base in reversed(bases):
            digits[base] = round(rest / base)
            rest -= digits[base] * base
        if max(map(abs, digits.values())) > _LARGEST:
            bases.append(rate)
            digits = {rate: 1}
        written[rate] = {base: k for base, k in digits.items() if k}
    return written
