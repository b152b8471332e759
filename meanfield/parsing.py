r"""Text that a person types, read by a whitelist and never evaluated as Python.

    sum      = product {("+" | "-") product}
    product  = signed {("*" | "/") signed}
    signed   = ("+" | "-") signed | power
    power    = atom ["**" signed]
    atom     = number | name | name "(" sum {"," sum} ")" | "(" sum ")"

Names are x, pi, the parameters of the library and whatever else looks like one; functions are those of `FUNCTIONS`. Beside the sympy
expression the parser keeps the value of every part that is a number, so that 9**9**9**9 is refused before anything is multiplied.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import sympy as sp

from meanfield import symbols
from meanfield.activation import Activation
from meanfield.catalogue import activations

__all__ = ["DEEPEST", "FUNCTIONS", "parse_activation", "parse_expression", "parse_number", "parse_values"]

LONGEST: Final = 10_000  #: characters
DEEPEST: Final = 100  #: levels of brackets, signs and powers
LARGEST: Final = 1e6  #: magnitude of a number or an exponent
SMALLEST: Final = 1e-300  #: magnitude of a number that is not zero
MOST_ARGUMENTS: Final = 8  #: of Max and Min
MOST_PARTS: Final = 10_000  #: letters and numbers of an expression, written out
MOST_DIGITS: Final = 1_000  #: of the exact value of a power
TRIALS: Final = 1 << 15  #: primes up to which the base of a root is factored

x = symbols.known("x")


@dataclass(frozen=True)
class _Term:
    """A part of the text: what it means, its value if it is a number, and how many letters and numbers it has, written out."""

    expression: sp.Expr
    value: float | None
    parts: int = 1


@dataclass(frozen=True)
class _Function:
    """A function a person may type: its sympy form, its value on numbers, and how many arguments it takes."""

    form: Callable[..., sp.Expr]
    value: Callable[..., float]
    most: int = 1
    copies: Callable[[], int] = lambda: 1  #: how often its argument stands in its form


def _step(t: float) -> float:
    return 0.5 if t == 0 else float(t > 0)


def _activation(name: str) -> _Function:
    """an activation of the catalogue, with its usual parameters"""

    def form(t: sp.Expr) -> sp.Expr:
        return activations[name].expression.xreplace({x: t})

    return _Function(form, lambda t: float(form(sp.Float(t)).evalf()), copies=cache(lambda: max(1, int(form(x).count(x)))))


_ONE: Final = {
    "erf": _Function(sp.erf, math.erf),
    "erfc": _Function(lambda t: 1 - sp.erf(t), math.erfc),
    "tanh": _Function(sp.tanh, math.tanh),
    "sinh": _Function(sp.sinh, math.sinh),
    "cosh": _Function(sp.cosh, math.cosh),
    "exp": _Function(lambda t: _exponential(t), math.exp),
    "log": _Function(sp.log, math.log),
    "ln": _Function(sp.log, math.log),
    "sqrt": _Function(sp.sqrt, math.sqrt),
    "sin": _Function(sp.sin, math.sin),
    "cos": _Function(sp.cos, math.cos),
    "atan": _Function(sp.atan, math.atan),
    "asinh": _Function(sp.asinh, math.asinh),
    "Abs": _Function(sp.Abs, abs),
    "abs": _Function(sp.Abs, abs),
    "sign": _Function(sp.sign, lambda t: 0.0 if t == 0 else math.copysign(1.0, t)),
    "Heaviside": _Function(sp.Heaviside, _step),
    "step": _Function(sp.Heaviside, _step),
}
_EXTREMES: Final = {
    "Max": _Function(sp.Max, max, MOST_ARGUMENTS),
    "max": _Function(sp.Max, max, MOST_ARGUMENTS),
    "Min": _Function(sp.Min, min, MOST_ARGUMENTS),
    "min": _Function(sp.Min, min, MOST_ARGUMENTS),
}

#: name -> function, all a person may call
FUNCTIONS: Final = {**{name: _activation(name) for name in activations.definite}, **_ONE, **_EXTREMES}

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<mark>\*\*|[-+*/(),]))", re.ASCII
)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*", re.ASCII)

#: what elsewhere is a constant, and here would silently be a letter
_NO_REAL_NUMBERS: Final = ("nan", "NaN", "inf", "Inf", "infinity", "oo", "zoo", "I")

#: what people write by habit, and what to write instead
_HABITS: Final = {
    "^": "write ** for a power",
    "=": "keyword arguments and equations are not read",
    ".": "attributes are not read",
    "'": "strings are not read",
    '"': "strings are not read",
    "[": "use round brackets",
    "{": "use round brackets",
    "_": "a name starts with a letter",
}


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            mark = text[position:].lstrip()[0]
            raise ValueError(f"{mark!r} is not allowed: {_HABITS.get(mark, 'expected numbers, names, + - * / ** and round brackets')}")
        found.append((str(match.lastgroup), match[str(match.lastgroup)]))
        position = match.end()
    return found


def _out_of_range(what: str) -> ValueError:
    return ValueError(f"{what} is out of range: at most {LARGEST:g}, and at least {SMALLEST:g} if not zero")


def _check(value: float) -> None:
    if not (abs(value) <= LARGEST * (1 + 1e-12) and (value == 0 or abs(value) >= SMALLEST)):
        raise _out_of_range(f"the number {value:.8g}")


def _term(expression: sp.Expr, value: float | None, parts: int) -> _Term:
    """The term, refused if it is too long or a number out of range; a number may also be what is left when letters cancel"""
    if parts > MOST_PARTS:
        raise ValueError(f"written out, the text has more than {MOST_PARTS} letters and numbers")
    if expression.has(sp.nan, sp.zoo, sp.oo, -sp.oo):
        raise ValueError("division by zero, or the logarithm of zero")
    if value is None and not expression.free_symbols:
        try:
            value = float(expression)
        except (OverflowError, TypeError):
            raise _out_of_range("a number that is left when letters cancel") from None
    if value is not None:
        _check(value)
    return _Term(expression, value, parts)


class _Parser:
    """One pass over the tokens, a method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        self.tokens = [*_tokens(text), ("end", "the end")]
        self.position = 0
        self.level = 0

    # -- tokens
    def _next(self) -> tuple[str, str]:
        self.position += 1
        return self.tokens[self.position - 1]

    def _at(self, *marks: str) -> bool:
        kind, text = self.tokens[self.position]
        return kind == "mark" and text in marks

    def _expect(self, mark: str) -> None:
        kind, text = self._next()
        if kind != "mark" or text != mark:
            raise ValueError(f"expected {mark!r} before {text!r}" if kind != "end" else f"a {mark!r} is missing at the end")

    def _deeper(self) -> None:
        self.level += 1
        if self.level > DEEPEST:
            raise ValueError(f"the text is nested beyond {DEEPEST} levels")

    # -- grammar
    def whole(self) -> _Term:
        result = self.sum()
        kind, text = self.tokens[self.position]
        if kind != "end":
            raise ValueError(f"expected an operator before {text!r}")
        return result

    def sum(self) -> _Term:
        terms = [self.product()]
        while self._at("+", "-"):
            _, mark = self._next()
            terms.append(self.product() if mark == "+" else _negative(self.product()))
        if len(terms) == 1:
            return terms[0]
        values = [t.value for t in terms]
        total = None if None in values else math.fsum(v for v in values if v is not None)
        return _term(sp.Add(*[t.expression for t in terms]), total, sum(t.parts for t in terms))

    def product(self) -> _Term:
        factors = [self.signed()]
        while self._at("*", "/"):
            _, mark = self._next()
            factors.append(self.signed() if mark == "*" else _power(self.signed(), _Term(sp.S.NegativeOne, -1.0)))
        if len(factors) == 1:
            return factors[0]
        value: float | None = 1.0
        for f in factors:
            value = None if value is None or f.value is None else value * f.value
        sizes = [math.log10(abs(f.value)) for f in factors if f.value]
        if math.fsum(map(abs, sizes)) > -math.log10(SMALLEST):
            raise _out_of_range("the product of the numbers")
        return _term(sp.Mul(*[f.expression for f in factors]), value, sum(f.parts for f in factors))

    def signed(self) -> _Term:
        if not self._at("+", "-"):
            return self.power()
        self._deeper()
        _, mark = self._next()
        inner = self.signed()
        self.level -= 1
        return inner if mark == "+" else _negative(inner)

    def power(self) -> _Term:
        base = self.atom()
        if not self._at("**"):
            return base
        self._deeper()
        self._next()
        exponent = self.signed()
        self.level -= 1
        return _power(base, exponent)

    def atom(self) -> _Term:
        kind, text = self._next()
        if kind == "number":
            value = float(text)
            if value == 0.0 and re.match(r"[0.]*[1-9]", text):
                raise _out_of_range(f"the number {_short(text)}")
            _check(value)  # before a power of ten is written out
            return _Term(sp.Rational(repr(value)), value)
        if kind == "name":
            return self.call(text) if self._at("(") else _named(text)
        if kind == "mark" and text == "(":
            self._deeper()
            inner = self.sum()
            self._expect(")")
            self.level -= 1
            return inner
        raise ValueError("the text ends too early" if kind == "end" else f"a number or name is missing before {text!r}")

    def call(self, name: str) -> _Term:
        if name not in FUNCTIONS:
            raise ValueError(
                f"{_short(name)} is not a function that is known here: {', '.join([*_ONE, *_EXTREMES])}, and activations by name"
            )
        function = FUNCTIONS[name]
        self._deeper()
        self._next()
        arguments = [self.sum()]
        while self._at(",") and len(arguments) <= function.most:
            self._next()
            arguments.append(self.sum())
        fewest = min(function.most, 2)
        if not fewest <= len(arguments) <= function.most:
            allowed = "one argument" if function.most == 1 else f"{fewest} to {function.most} arguments"
            raise ValueError(f"{name} takes {allowed}")
        self._expect(")")
        self.level -= 1
        return _applied(name, function, arguments)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _named(name: str) -> _Term:
    if name == "pi":
        return _Term(sp.pi, math.pi)
    if name in FUNCTIONS:
        raise ValueError(f"{name} is a function: write {name}(...)")
    if name in _NO_REAL_NUMBERS:
        raise ValueError(f"{name} is not a real number, and no name of a parameter")
    if not _NAME.fullmatch(name) or len(name) > 40:
        raise ValueError(f"{_short(name)} is no name of a parameter: letters and digits, at most 40, single underscores between them")
    return _Term(symbols.parameter(name), None)


def _negative(term: _Term) -> _Term:
    return _Term(-term.expression, None if term.value is None else -term.value, term.parts)


def _power(base: _Term, exponent: _Term) -> _Term:
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
            raise _out_of_range(f"a power of size 1e{size:.0f}")
        return _term(_exact_power(base.expression, exponent.expression), base.value**exponent.value, parts)
    if exponent.value is not None:
        inner = base.expression.as_base_exp()[1]
        if inner.is_number and abs(exponent.value * float(inner)) > LARGEST:
            raise ValueError(f"an exponent of {exponent.value * float(inner):.3g} is out of range: at most {LARGEST:g}")
        constant, _ = base.expression.as_independent(*base.expression.free_symbols, as_Add=False)
        if constant != 0 and abs(exponent.value * math.log10(abs(float(constant)))) > -math.log10(SMALLEST):
            raise ValueError(f"the power {exponent.value:g} of the factor {float(constant):g} is out of range")
        if constant.is_positive:
            rest = base.expression / constant
            return _term(_exact_power(constant, exponent.expression) * rest**exponent.expression, None, parts)
        _exact_power(abs(constant), exponent.expression)
    return _term(base.expression**exponent.expression, None, parts)


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


def _exponential(e: sp.Expr) -> sp.Expr:
    """exp(e), with the powers that its logarithms stand for, as sympy would write them"""
    factors = []
    for t in sp.Add.make_args(e):
        coefficient, rest = t.as_coeff_Mul()
        power = isinstance(rest, sp.log) and coefficient != 0
        factors.append(_power(_Term(rest.args[0], None), _Term(coefficient, float(coefficient))).expression if power else sp.exp(t))
    return sp.Mul(*factors)


def _applied(name: str, function: _Function, arguments: list[_Term]) -> _Term:
    values = [a.value for a in arguments if a.value is not None]
    value: float | None = None
    if len(values) == len(arguments):
        try:
            value = float(function.value(*values))
        except ValueError:
            raise ValueError(f"{name}({', '.join(f'{v:g}' for v in values)}) is not a real number") from None
        except OverflowError:
            raise _out_of_range(f"{name}({', '.join(f'{v:g}' for v in values)})") from None
        _check(value)
    return _term(function.form(*[a.expression for a in arguments]), value, function.copies() * sum(a.parts for a in arguments))


def _parsed(text: str, name: str) -> _Term:
    if not isinstance(text, str):
        raise TypeError(f"{name} = {text!r}: expected text, got {type(text).__name__}")
    if len(text) > LONGEST:
        raise ValueError(f"{name}: a text of {len(text)} characters is too long: at most {LONGEST}")
    try:
        return _Parser(text).whole()
    except ValueError as error:
        raise ValueError(f"{name} = {_short(text)}: {error}") from None


def parse_expression(text: str, name: str = "expression") -> sp.Expr:
    """A sympy expression in mf.x and parameters from text, as "erf(a*x)" or "x/(1 + exp(-x))".

    Raises
    ------
    ValueError
        The text holds anything but numbers, names, + - * / **, round brackets and the functions of `FUNCTIONS`; is longer than
        10,000 characters, or than 10,000 letters and numbers once its functions are written out, or nested beyond 100 levels; or holds
        a number or power beyond 1e6, or a power of more than 1,000 digits.

    Examples
    --------
    >>> parse_expression("erf(a*x) + x/3")
    x/3 + erf(a*x)
    >>> parse_expression("9**9**9**9")
    Traceback (most recent call last):
    ...
    ValueError: expression = '9**9**9**9': a power of size 1e9 is out of range: at most 1e+06, and at least 1e-300 if not zero
    """
    return _parsed(text, name).expression


def parse_activation(text: str, name: str = "activation") -> Activation:
    """An activation from text; its letters that the library does not know are positive, since closed forms need the sign of a slope.

    >>> parse_activation("erf(a*x)").second_moment(1)
    2*asin(2*a**2/(2*a**2 + 1))/pi
    """
    e = parse_expression(text, name)
    unknown = {s: sp.Symbol(s.name, positive=True) for s in e.free_symbols if s.name not in symbols.TABLE}
    try:
        return Activation(e.xreplace(unknown))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} = {_short(text)}: {error}") from None


def parse_number(text: str, name: str = "number") -> float:
    """A number from text, as "0.64", "1e-30" or "sqrt(2)". Raises ValueError as `parse_expression`, and where a parameter is in it.

    >>> parse_number("sqrt(2)")
    1.4142135623730951
    """
    term = _parsed(text, name)
    if term.value is None:
        letters = ", ".join(sorted(s.name for s in term.expression.free_symbols))
        raise ValueError(f"{name} = {_short(text)}: expected a number, got an expression in {letters}")
    return term.value


def parse_values(text: str, name: str = "values") -> float | np.ndarray:
    """A number, or first:last:count for that many evenly spaced ones, or a comma-separated list. Raises ValueError as `parse_number`.

    >>> parse_values("0.1:0.4:4")
    array([0.1, 0.2, 0.3, 0.4])
    """
    if isinstance(text, str) and len(text) > LONGEST:
        raise ValueError(f"{name}: a text of {len(text)} characters is too long: at most {LONGEST}")
    parts = text.split(":")
    if len(parts) == 1:
        return np.array([parse_number(t, name) for t in text.split(",")]) if "," in text else parse_number(text, name)
    if len(parts) != 3:
        raise ValueError(f"{name} = {_short(text)}: a range is written first:last:count, as 0.1:2:20")
    first, last, count = (parse_number(t, name) for t in parts)
    if count != int(count) or count < 1:
        raise ValueError(f"{name} = {_short(text)}: the count of a range must be a whole number, at least 1")
    return np.linspace(first, last, int(count))
