"""The period of a function of sines and cosines."""

from __future__ import annotations

from functools import cache

import numpy as np
import sympy as sp

from meanfield.gaussian.resolution import real_function
from meanfield.symbols import known

__all__ = ["period"]

x = known("x")

_POINTS = np.linspace(-2.9, 3.1, 31) * 1.37


@cache
def period(f: sp.Expr) -> sp.Expr | None:
    """The least T > 0 with f(x + T) = f(x), where x stands in sines and cosines alone, of arguments that are linear in x up to such
    functions; None of any other function, and of constants."""
    found = _frequencies(f) if f.free_symbols == {x} else None
    if not found:
        return None
    first, *others = sorted(found, key=sp.default_sort_key)
    ratios = [sp.nsimplify(a / first) if a.has(sp.Float) else sp.radsimp(a / first) for a in others]
    if not all(r.is_Rational for r in ratios):
        return None
    longest = 2 * sp.pi / abs(first * sp.gcd_list([sp.S.One, *ratios]))
    return _least(f, longest)


def _frequencies(e: sp.Basic) -> set[sp.Expr] | None:
    """slopes of the arguments of sines and cosines; None where x stands elsewhere"""
    if x not in e.free_symbols:
        return set()
    if e == x:
        return None
    parts, found = list(e.args), set()
    if isinstance(e, (sp.sin, sp.cos)):
        terms = sp.Add.make_args(sp.expand(e.args[0]))
        linear = [t for t in terms if x not in (t / x).free_symbols]
        parts, found = [t for t in terms if t not in linear], {sp.Add(*linear) / x} - {sp.S.Zero}
    for part in parts:
        inner = _frequencies(part)
        if inner is None:
            return None
        found |= inner
    return found


def _least(f: sp.Expr, longest: sp.Expr) -> sp.Expr:
    """a period divided as long as f repeats itself"""
    value = real_function(f)
    here = value(_POINTS)
    if np.ptp(here) == 0.0:
        return longest
    for n in (2, 3, 5, 7):
        while np.allclose(value(_POINTS + float(longest / n)), here, rtol=1e-11, atol=1e-12 * np.abs(here).max()):
            longest = longest / n
    return longest
