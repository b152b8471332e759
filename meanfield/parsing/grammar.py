"""The grammar of typed texts: tokens, and a parser with a method for each line of it."""

from __future__ import annotations

import math
import re
from typing import Final

import sympy as sp

from meanfield import symbols
from meanfield.parsing.functions import EXTREMES, FUNCTIONS, ONE, applied
from meanfield.parsing.terms import SMALLEST, Term, bounded, check_magnitude, negative, out_of_range, raised, short

__all__ = ["DEEPEST", "Parser"]

DEEPEST: Final = 100  #: levels of brackets, signs and powers

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


class Parser:
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
    def whole(self) -> Term:
        result = self.sum()
        kind, text = self.tokens[self.position]
        if kind != "end":
            raise ValueError(f"expected an operator before {text!r}")
        return result

    def sum(self) -> Term:
        terms = [self.product()]
        while self._at("+", "-"):
            _, mark = self._next()
            terms.append(self.product() if mark == "+" else negative(self.product()))
        if len(terms) == 1:
            return terms[0]
        values = [t.value for t in terms]
        total = None if None in values else math.fsum(v for v in values if v is not None)
        return bounded(sp.Add(*[t.expression for t in terms]), total, sum(t.parts for t in terms))

    def product(self) -> Term:
        factors = [self.signed()]
        while self._at("*", "/"):
            _, mark = self._next()
            factors.append(self.signed() if mark == "*" else raised(self.signed(), Term(sp.S.NegativeOne, -1.0)))
        if len(factors) == 1:
            return factors[0]
        value: float | None = 1.0
        for f in factors:
            value = None if value is None or f.value is None else value * f.value
        sizes = [math.log10(abs(f.value)) for f in factors if f.value]
        if math.fsum(map(abs, sizes)) > -math.log10(SMALLEST):
            raise out_of_range("the product of the numbers")
        return bounded(sp.Mul(*[f.expression for f in factors]), value, sum(f.parts for f in factors))

    def signed(self) -> Term:
        if not self._at("+", "-"):
            return self.power()
        self._deeper()
        _, mark = self._next()
        inner = self.signed()
        self.level -= 1
        return inner if mark == "+" else negative(inner)

    def power(self) -> Term:
        base = self.atom()
        if not self._at("**"):
            return base
        self._deeper()
        self._next()
        exponent = self.signed()
        self.level -= 1
        return raised(base, exponent)

    def atom(self) -> Term:
        kind, text = self._next()
        if kind == "number":
            value = float(text)
            if value == 0.0 and re.match(r"[0.]*[1-9]", text):
                raise out_of_range(f"the number {short(text)}")
            check_magnitude(value)  # before a power of ten is written out
            return Term(sp.Rational(repr(value)), value)
        if kind == "name":
            return self.call(text) if self._at("(") else _named(text)
        if kind == "mark" and text == "(":
            self._deeper()
            inner = self.sum()
            self._expect(")")
            self.level -= 1
            return inner
        raise ValueError("the text ends too early" if kind == "end" else f"a number or name is missing before {text!r}")

    def call(self, name: str) -> Term:
        if name not in FUNCTIONS:
            raise ValueError(f"{short(name)} is not a function that is known here: {', '.join([*ONE, *EXTREMES])}, and activations by name")
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
        return applied(name, function, arguments)


def _named(name: str) -> Term:
    if name == "pi":
        return Term(sp.pi, math.pi)
    if name in FUNCTIONS:
        raise ValueError(f"{name} is a function: write {name}(...)")
    if name in _NO_REAL_NUMBERS:
        raise ValueError(f"{name} is not a real number, and no name of a parameter")
    if not _NAME.fullmatch(name) or len(name) > 40:
        raise ValueError(f"{short(name)} is no name of a parameter: letters and digits, at most 40, single underscores between them")
    return Term(symbols.parameter(name), None)
