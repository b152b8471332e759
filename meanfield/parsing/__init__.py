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

import re
from typing import Final

import numpy as np
import sympy as sp

from meanfield import symbols
from meanfield.activation import Activation
from meanfield.parsing.functions import FUNCTIONS
from meanfield.parsing.grammar import DEEPEST, Parser
from meanfield.parsing.terms import Term, short

__all__ = ["DEEPEST", "FUNCTIONS", "parse_activation", "parse_expression", "parse_number", "parse_values"]

LONGEST: Final = 10_000  #: characters
#: what an activation that is refused says of its expression, which is said in the words of the text
_REFUSED: Final = re.compile(r"\Aexpression(?: = .*?)?: ", re.DOTALL)


def _parsed(text: str, name: str) -> Term:
    if not isinstance(text, str):
        raise TypeError(f"{name} = {text!r}: expected text, got {type(text).__name__}")
    if len(text) > LONGEST:
        raise ValueError(f"{name}: a text of {len(text)} characters is too long: at most {LONGEST}")
    try:
        return Parser(text).whole()
    except ValueError as error:
        raise ValueError(f"{name} = {short(text)}: {error}") from None


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
        raise ValueError(f"{name} = {short(text)}: {_REFUSED.sub('', str(error))}") from None


def parse_number(text: str, name: str = "number") -> float:
    """A number from text, as "0.64", "1e-30" or "sqrt(2)". Raises ValueError as `parse_expression`, and where a parameter is in it.

    >>> parse_number("sqrt(2)")
    1.4142135623730951
    """
    term = _parsed(text, name)
    if term.value is None:
        letters = ", ".join(sorted(s.name for s in term.expression.free_symbols))
        raise ValueError(f"{name} = {short(text)}: expected a number, got an expression in {letters}")
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
        raise ValueError(f"{name} = {short(text)}: a range is written first:last:count, as 0.1:2:20")
    first, last, count = (parse_number(t, name) for t in parts)
    if count != int(count) or count < 1:
        raise ValueError(f"{name} = {short(text)}: the count of a range must be a whole number, at least 1")
    return np.linspace(first, last, int(count))
