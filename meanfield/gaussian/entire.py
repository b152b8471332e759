"""Poles in the complex plane, which no sum of products of polynomials, exponentials and error functions has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mpmath as mp
import sympy as sp

from meanfield.symbols import known

__all__ = ["has_a_pole"]

x = known("x")

#: digits, how near to a divisor's zero a function is looked at, how much nearer next, and by how much at least it grows on the way there
#: where it has a pole
_DIGITS, _NEAR, _NEARER, _GROWTH = 300, mp.mpf(10) ** -8, 100, 50
#: where cosh or sinh vanishes, by which hyperbolic functions divide
_QUOTIENTS = {sp.tanh: sp.I * sp.pi / 2, sp.sech: sp.I * sp.pi / 2, sp.coth: sp.S.Zero, sp.csch: sp.S.Zero}
#: what else the function may be made of, of polynomials
_ENTIRE = (sp.exp, sp.sin, sp.cos, sp.sinh, sp.cosh, sp.erf, sp.erfc)
_PLAIN = (sp.Add, sp.Mul, sp.Pow, sp.Heaviside, sp.Symbol, sp.Number, sp.NumberSymbol)
#: a number that nothing cancels with
_ANY = sp.pi / 4


def has_a_pole(f: sp.Expr) -> bool:
    """Whether f, between its steps, has a pole where something vanishes that it divides by, as far as that place is known: a zero of
    cosh(b x + a), sinh(b x + a), c + d exp(b x + a)."""
    if not all(map(_is_familiar, sp.preorder_traversal(f))):
        return False
    continued = f.replace(sp.Heaviside, lambda *at: _ANY).xreplace(_anything(f.free_symbols - {x}))
    places = list(_zeros(continued))
    if not places:
        return False
    value = sp.lambdify(x, continued, "mpmath", cse=True)
    with mp.workdps(_DIGITS):
        return any(_grows(value, mp.mpmathify(sp.N(place, _DIGITS))) for place in places)


def _anything(letters: set[sp.Symbol]) -> dict[sp.Symbol, sp.Expr]:
    """numbers that they may be, which nothing cancels with"""
    ordered = enumerate(sorted(letters, key=str), start=2)
    return {s: (-1 if s.is_negative else 1) * (k if s.is_integer else sp.sqrt(k) * _ANY) for k, s in ordered}


def _is_familiar(t: sp.Basic) -> bool:
    """whether it continues into the complex plane, to numbers that are not beyond all bounds next to a pole of what is in it"""
    if isinstance(t, _ENTIRE):
        return bool(t.args[0].is_polynomial(x))
    return isinstance(t, (*_QUOTIENTS, *_PLAIN)) or t is sp.I


def _grows(value: Callable[[mp.mpc], mp.mpc], place: mp.mpc) -> bool:
    far, near = (abs(value(place + step)) for step in (_NEAR, _NEAR / _NEARER))
    return bool(near > _GROWTH * far)


def _zeros(f: sp.Expr) -> Iterator[sp.Expr]:
    """one for each divisor"""
    for t in f.atoms(*_QUOTIENTS):
        if (line := _line(t.args[0])) is not None:
            yield (_QUOTIENTS[type(t)] - line[1]) / line[0]
    for t in f.atoms(sp.Pow):
        if t.exp.is_Integer and t.exp < 0 and t.base.is_Add:
            constant, rest = t.base.as_independent(x)
            factor, power = rest.as_independent(x, as_Add=False)
            if isinstance(power, sp.exp) and (line := _line(power.args[0])) is not None and constant != 0:
                yield (sp.log(-constant / factor) - line[1]) / line[0]


def _line(e: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """b and a where it is b x + a"""
    b = e.diff(x)
    return (b, e.subs(x, 0)) if x not in b.free_symbols and b != 0 else None
