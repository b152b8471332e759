r"""Expressions in LaTeX as the literature writes them: order of factors and terms, roots, and decimals as they were typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import sympy as sp
from sympy import S
from sympy.printing.latex import LatexPrinter

from meanfield.analysis.implicit import Implicit
from meanfield.characters import escaped, spelled

__all__ = ["printed"]

#: digits of a number that is printed as a decimal
DIGITS: Final = 7


class _Printer(LatexPrinter):
    """Sums with a positive constant or term in front; the root of pi with that of a number: 1/sqrt(2 pi), sqrt(2/pi); the library's own
    functions by what they stand for."""

    def _print_AngleMinusSine(self, expr: sp.Expr, exp: str | None = None) -> str:
        text = rf"\left({self._print(expr.definition())}\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    _print_AngleDifference = _print_AngleMinusSine

    def _print_atan2(self, expr: sp.Expr, exp: str | None = None) -> str:
        power, (y, x) = "" if exp is None else f"^{{{exp}}}", expr.args
        if x.is_nonnegative or (x.is_Pow and x.exp == S.Half):
            return rf"\arctan{power}{{\left({self._print(y / x)} \right)}}"
        return rf"\operatorname{{atan2}}{power}{{\left({self._print(y)}, {self._print(x)}\right)}}"

    def _print_expm1(self, expr: sp.Expr, exp: str | None = None) -> str:
        text = rf"\left(e^{{{self._print(expr.args[0])}}} - 1\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _print_hyper(self, expr: sp.Expr, exp: str | None = None) -> str:
        above, below = (", ".join(map(self._print, part)) for part in (expr.ap, expr.bq))
        text = rf"{{}}_{{{len(expr.ap)}}} F_{{{len(expr.bq)}}} \left({above}; {below}; {self._print(expr.argument)}\right)"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    def _print_Float(self, expr: sp.Float) -> str:
        return decimal(float(expr))

    def _print_Mul(self, expr: sp.Mul) -> str:
        r, roots = expr.as_coeff_Mul()
        number = next((f for f in sp.Mul.make_args(roots) if f.is_Pow and f.base.is_Integer and f.exp == S.Half), None)
        if number is None or not r.is_Rational or not roots.has(sp.pi**-S.Half):
            return str(super()._print_Mul(expr))
        a, rest = number.base, roots / number * sp.sqrt(sp.pi)
        if a % r.q == 0 and r.q > 1:  # r sqrt(a/pi) = r a/sqrt(a pi)
            r, text, power = r * a, rf"\sqrt{{{a} \pi}}", -1
        else:
            text, power = rf"\sqrt{{\frac{{{a}}}{{\pi}}}}", 1
        root = sp.Symbol(" root", positive=True)
        self._settings["symbol_names"][root] = text
        return str(super()._print_Mul(sp.Mul(r, root**power, rest)) if (r, rest) != (1, 1) or power < 0 else text)

    def _print_Add(self, expr: sp.Add, order: str | None = None) -> str:
        terms = self._as_ordered_terms(expr, order=order)
        if not expr.has(sp.Order):  # a series ends in what is left out
            terms.sort(key=lambda t: (t.could_extract_minus_sign(), not t.is_Number))
        text = ""
        for t in terms:
            negative = t.could_extract_minus_sign()
            part = self._print(-t if negative else t)
            if self._needs_add_brackets(-t if negative else t):
                part = rf"\left({part}\right)"
            text += (" - " if negative else " + ") + part if text else ("- " if negative else "") + part
        return text


_PLAIN = LatexPrinter()
#: what is in no name that is a formula, as LaTeX or sympy have it
_STRANGE: Final = re.compile(r"[%&#$~]|[^\x00-\x7f]")
#: a Greek letter, with what may stand below, above and behind it
_LETTERED: Final = re.compile(r"[^\x00-\x7f]([_^\d'].*)?", re.DOTALL)


def _rank(s: sp.Symbol) -> str:
    """a prefix that sorts: weights, then state (q before p), then named quantities"""
    if s.name in ("q", "p", "delta", "n"):
        return {"q": "e", "p": "f", "delta": "g", "n": "d"}[s.name]
    if not isinstance(s, sp.Dummy):
        return "a"
    letter = {"q_hat": "h", "p_hat": "h", "q_tilde": "i", "p_tilde": "j"}.get(s.name, "k")
    return f"{letter}{s.dummy_index:020d}"  # two of one name are two, in the order in which they were made


def _letter(s: sp.Symbol) -> str:
    """sympy's LaTeX of a symbol; words upright, primes behind the letter and what stands below it, what is no formula as text"""
    name = spelled(s.name) if _LETTERED.fullmatch(s.name) else s.name
    if _STRANGE.search(name) or name.count("{") != name.count("}"):
        return rf"\text{{{escaped(s.name)}}}"
    base = name.rstrip("'").replace("'", "")
    text = str(_PLAIN.doprint(sp.Symbol(base) if base and base != s.name else s))
    return (rf"\mathrm{{{text}}}" if len(text) > 1 and text.isalpha() else text) + "'" * (len(name) - len(base) if base else 0)


def decimal(value: float) -> str:
    """A decimal of seven digits, powers of ten written out."""
    mantissa, _, exponent = f"{value:.{DIGITS}g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _is_decimal(r: sp.Basic) -> bool:
    """Whether a fraction is a number such as 0.64, which a person typed, or a product of such: 16/25, not 1/5"""
    if not (isinstance(r, sp.Rational) and r.q >= 10 and r.q % 5 == 0):
        return False
    rest = r.q
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return bool(rest == 1 or r.q % 125 == 0)


def printed(e: sp.Basic, names: Mapping[sp.Basic, str]) -> str:
    """LaTeX with factors in the order weights, state, named quantities, and no leading minus where it can be helped."""
    ordered = {s: sp.Symbol(_rank(s) + s.name, **s.assumptions0) for s in e.free_symbols}
    letters = {ordered[s]: names.get(s) or _letter(s) for s in ordered}
    for root in e.atoms(Implicit):  # sympy would put numbers for its parameters, at which it need not exist
        ordered[root] = sp.Dummy(f"k{root.name}", positive=True)
        letters[ordered[root]] = root._latex(_PLAIN)
    decimals = {r: sp.Float(r, 15) for r in e.atoms(sp.Rational) if _is_decimal(r)}
    settings = {"symbol_names": letters, "inv_trig_style": "full", "ln_notation": True}
    return str(_Printer(settings).doprint(e.xreplace(ordered | decimals)))
