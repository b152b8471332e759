"""Parts of a typed text as sympy expressions, with the value of those that are numbers: refused before they grow out of bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import sympy as sp

__all__ = ["SMALLEST", "Term", "bounded", "check_magnitude", "negative", "out_of_range", "raised", "short"]

LARGEST: Final = 1e6  #: magnitude of a number or an exponent
SMALLEST: Final = 1e-300  #: magnitude of a number that is not zero
MOST_PARTS: Final = 10_000  #: letters and numbers of an expression, written out
MOST_DIGITS: Final = 1_000  #: of the exact value of a power
TRIALS: Final = 1 << 15  #: primes up to which the base of a root is factored


@dataclass(frozen=True)
class Term:
    """A part of the text: what it means, its value if it is a number, and how many letters and numbers it has, written out."""

    expression: sp.Expr
    value: float | None
    parts: int = 1


def short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def out_of_range(what: str) -> ValueError:
    return ValueError(f"{what} is out of range: at most {LARGEST:g}, and at least {SMALLEST:g} if not zero")


def check_magnitude(value: float) -> None:
    if not (abs(value) <= LARGEST * (1 + 1e-12) and (value == 0 or abs(value) >= SMALLEST)):
        raise out_of_range(f"the number {value:.8g}")


def bounded(expression: sp.Expr, value: float | None, parts: int) -> Term:
    """The term, refused if it is too long or a number out of range; a number may also be what is left when letters cancel"""
    if parts > MOST_PARTS:
        raise ValueError(f"written out, the text has more than {MOST_PARTS} letters and numbers")
    if expression.has(sp.nan, sp.zoo, sp.oo, -sp.oo):
        raise ValueError("division by zero, or the logarithm of zero")
    if value is None and not expression.free_symbols:
        try:
            value = float(expression)
        except (OverflowError, TypeError):
            raise out_of_range("a number that is left when letters cancel") from None
    if value is not None:
        check_magnitude(value)
    return Term(expression, value, parts)


def negative(term: Term) -> Term:
    return Term(-term.expression, None if term.value is None else -term.value, term.parts)


def raised(base: Term, exponent: Term) -> Term:
    """base ** exponent, refused where it would be out of range before it is worked out"""
    parts = base.parts + exponent.parts
    if exponent.value is not None and abs(exponent.value) > LARGEST:
        raise ValueError(f"an exponent of {exponent.value:.3g} is out of range: at most {LARGEST:g}")
    if base.value is not None and exponent.value is not None:
        if base.value == 0 and exponent.value < 0:
            raise ValueError("division by zero")
        if base.value < 0 and not exponent.expression.is_Integer:
            raise ValueError(f"the power {exponent.value:g} of a negative number is not real")
        size = 0.0 if base.value == 0 else exponent.value * math.log10(abs(base.value))
        if not math.log10(SMALLEST) <= size <= math.log10(LARGEST) + 1e-12:
            raise out_of_range(f"a power of size 1e{size:.0f}")
        return bounded(_exact_power(base.expression, exponent.expression), base.value**exponent.value, parts)
    if exponent.value is not None:
        inner = base.expression.as_base_exp()[1]
        if inner.is_number and abs(exponent.value * float(inner)) > LARGEST:
            raise ValueError(f"an exponent of {exponent.value * float(inner):.3g} is out of range: at most {LARGEST:g}")
        constant, _ = base.expression.as_independent(*base.expression.free_symbols, as_Add=False)
        if constant != 0 and abs(exponent.value * math.log10(abs(float(constant)))) > -math.log10(SMALLEST):
            raise ValueError(f"the power {exponent.value:g} of the factor {float(constant):g} is out of range")
        if constant.is_positive:
            rest = base.expression / constant
            return bounded(_exact_power(constant, exponent.expression) * rest**exponent.expression, None, parts)
        _exact_power(abs(constant), exponent.expression)
    return bounded(base.expression**exponent.expression, None, parts)


def _exact_power(base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    """base ** exponent; a root prime by prime, since sympy writes out whole powers of fractions and of products"""
    if not (base.is_Rational and exponent.is_Rational):
        return base**exponent
    digits = abs(exponent) * max(len(str(abs(base.p))), len(str(base.q)))
    if base not in (0, 1, -1) and digits > MOST_DIGITS:
        raise ValueError(f"a power has more than {MOST_DIGITS} digits")
    if exponent.is_Integer:
        return base**exponent
    primes = [(b, k) for n, sign in ((base.p, 1), (base.q, -1)) for b, k in _factors(n, sign)]
    return sp.Mul(*[sp.Integer(b) ** (k * exponent) for b, k in primes])


def _factors(n: int, sign: int) -> list[tuple[int, int]]:
    """small primes and what is left, with their powers"""
    return [(b, sign * k) for b, k in sp.Integer(n).factors(limit=TRIALS).items()] if n > 1 else [(n, 1)]
