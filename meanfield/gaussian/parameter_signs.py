"""What the sign of an expression in parameters may be, and functions in each of these cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy import S

from meanfield.gaussian.pieces import UnknownSign, sign_of
from meanfield.gaussian.tidying import NestedRoot, tidy
from meanfield.symbols import known

__all__ = ["Case", "cases", "lowest", "pivotal"]

x = known("x")


@dataclass(frozen=True)
class Case:
    """A sign of an expression in parameters, by the value of one of these that gives it: a function of a positive symbol, the size."""

    statement: str
    sign: int
    parameter: sp.Symbol
    value: sp.Expr
    size: sp.Symbol | None = None
    #: what the size is, in the parameters
    back: sp.Expr = S.Zero

    def put(self, e: Any) -> Any:
        """An expression, or a tuple of such, in this case."""
        return _put(e, {self.parameter: self.value})

    def restored(self, e: Any) -> Any:
        """What was derived in this case in the parameters again: it holds where these have the sign."""
        if self.size is None or self.size not in e.free_symbols:
            return e
        return lowest(e.xreplace({self.size: self.back}), self.back.free_symbols)

    def anywhere(self, e: Any) -> Any:
        """The same with a size that is never negative: it is about parameters of this sign whatever theirs is."""
        return e if self.size is None else _put(e, {self.size: sp.Abs(self.back)})


def _put(e: Any, values: dict[sp.Symbol, sp.Expr]) -> Any:
    if isinstance(e, tuple):
        return tuple(_put(part, values) for part in e)
    return e.xreplace(values) if isinstance(e, sp.Basic) else e


def pivotal(e: sp.Expr) -> sp.Expr | None:
    """The first factor, or base of one, that has no sign; None where it cannot be given one."""
    bases = [factor.as_base_exp()[0] for factor in sp.Mul.make_args(sp.factor(e))]
    without = [b for b in bases if not (b.is_positive or b.is_negative)]
    return without[0] if without and _pivot(without[0]) is not None else None


def _pivot(e: sp.Expr) -> tuple[sp.Symbol, sp.Expr, sp.Expr] | None:
    """A symbol s, c and t with e = c (s - t), c of known sign: s without a sign, or of the sign of t."""
    signed = None
    for s in sorted(e.free_symbols - {x}, key=str):
        c = sp.expand(e.diff(s))
        if not s.is_real or s in c.free_symbols or _sign(c) in (0, None):
            continue
        t = sp.cancel(s - e / c)
        if not (s.is_positive or s.is_negative):
            return s, c, t
        if signed is None and _sign(t) == sign_of(s):
            signed = s, c, t
    return signed


def _sign(e: sp.Expr) -> int | None:
    try:
        return sign_of(e)
    except UnknownSign:
        return None


def cases(e: sp.Expr) -> tuple[Case, ...]:
    """What the sign of an expression in parameters may be: positive, negative, zero."""
    pivot = _pivot(e)
    if pivot is None:
        raise TypeError(f"{e} is in no parameter that gives it a sign")
    s, c, t = pivot
    size = sp.Symbol(str(e), positive=True)
    if not (s.is_positive or s.is_negative):
        found = [Case(f"{e} > 0", 1, s, sp.expand(t + size / c), size, e)]
        if not e.is_nonnegative:
            found.append(Case(f"{e} < 0", -1, s, sp.expand(t - size / c), size, -e))
    else:
        found = sorted(_signed(e, *pivot, size), key=lambda case: -case.sign)
    return (*found, *([] if e.is_nonzero else [Case(f"{e} = 0", 0, s, t)]))


def _signed(e: sp.Expr, s: sp.Symbol, c: sp.Expr, t: sp.Expr, size: sp.Symbol) -> tuple[Case, Case]:
    """s of a sign, which is that of t: |s| > |t| and |s| < |t|"""
    side = sign_of(s)
    sign = side * sign_of(c)
    words = {sign: f"{e} {'>' if sign > 0 else '<'} 0" for sign in (1, -1)}
    k, other = t.as_coeff_Mul()
    beyond = Case(words[sign], sign, s, t + side * size, size, side * (s - t))
    if other.is_Symbol:
        return beyond, Case(words[-sign], -sign, other, (s + side * size) / k, size, side * (t - s))
    return beyond, Case(words[-sign], -sign, s, t / (1 + size), size, t / s - 1)


def lowest(e: sp.Expr, parameters: set[sp.Basic]) -> sp.Expr:
    """An expression in lowest terms, where these do not take the root of a square of parameters for positive."""
    if any(t.exp.is_Rational and t.exp.q > 1 and t.free_symbols & parameters for t in e.atoms(sp.Pow)):
        return e
    try:
        return min(e, tidy(e), key=sp.count_ops)
    except NestedRoot:
        return e
