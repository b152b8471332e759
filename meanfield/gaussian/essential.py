"""Where what a function is taken of is infinite: tanh(1/x) is nowhere near 0 analytic, however flat it is on either side."""

from __future__ import annotations

from functools import cache

import mpmath as mp
import sympy as sp

from meanfield.gaussian.growth import places, sampled
from meanfield.gaussian.special import written_out
from meanfield.symbols import known

__all__ = ["essential_places", "is_essential", "jump_across"]

x = known("x")

#: distances from a place; between them what is infinite there grows by more than a logarithm does
_NEAR, _NEARER, _GROWN = sp.Rational(1, 10**12), sp.Rational(1, 10**24), 3.0
#: digits of values next to a place, and how far from it they are taken: that far from 0, or relatively
_DIGITS, _BESIDE, _ROUNDED = 40, mp.mpf(10) ** -30, mp.mpf(10) ** -15


@cache
def essential_places(f: sp.Expr) -> tuple[sp.Expr, ...]:
    """Real points at which the argument of a function, an exponent or the base of a root is infinite, nearest to 0 first; of those that
    hang on a parameter none.

    >>> import sympy as sp, meanfield as mf
    >>> essential_places(mf.x + sp.tanh(1 / (mf.x - 2)))
    (2,)
    """
    inner = {a for t in f.atoms(sp.Function) if not isinstance(t, sp.Piecewise) for a in t.args}
    inner |= {t.exp for t in f.atoms(sp.Pow)} | {t.base for t in f.atoms(sp.Pow) if not t.exp.is_Integer}
    found: dict[sp.Expr, None] = {}
    for e in sorted((e for e in inner if e.has(x)), key=sp.count_ops):  # what is infinite within another first: that is not looked at
        small = sampled(e)
        large = e.xreplace({s: v if s.is_integer else 8 * v for s, v in small.items()})
        e = e.xreplace(small)
        for r in places(e):
            if r not in found and (not small or r in places(large)) and any(_is_infinite(e, r, side) for side in (1, -1)):
                found[r] = None
    return tuple(sorted(found, key=lambda r: abs(float(r))))


def is_essential(f: sp.Expr, at: float) -> bool:
    """Whether a point, known to a double, is one of them."""
    return any(abs(float(r) - at) <= 1e-12 * max(1.0, abs(at)) for r in essential_places(f))


def _is_infinite(e: sp.Expr, r: sp.Expr, side: int) -> bool:
    near, nearer = (abs(sp.N(e.xreplace({x: r + side * d}), 30)) for d in (_NEAR, _NEARER))
    return bool(near.is_number and nearer.is_number and (nearer is sp.oo or nearer > _GROWN * near > 0))


def jump_across(left: sp.Expr, right: sp.Expr, at: float) -> float:
    """f(at+) - f(at-) of pieces that have no value at the point itself; 0 where they do not settle."""
    ends = []
    with mp.workdps(_DIGITS):
        for piece, side in ((left, -1), (right, 1)):
            value = sp.lambdify(x, written_out(piece), "mpmath")
            step = side * max(_ROUNDED * abs(at), _BESIDE)
            try:
                ends.append([mp.re(mp.mpmathify(value(at + k * step))) for k in (1, 2)])
            except (ArithmeticError, ValueError):
                return 0.0
        (low, before), (high, after) = ends
        height, moved = high - low, abs(low - before) + abs(high - after)
        return float(height) if abs(height) > 4 * moved + mp.mpf(10) ** -30 * (abs(low) + abs(high)) else 0.0
