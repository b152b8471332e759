"""What oscillates for ever: a function of sines and cosines as slow in x and periodic in phases; and the period, if it is that alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import sympy as sp

from meanfield.gaussian.pieces import KINKED, in_pieces
from meanfield.gaussian.resolution import real_function
from meanfield.symbols import known

__all__ = ["PHASES", "Wave", "period", "wave"]

x = known("x")
#: phases: a wave has one or two, incommensurable
PHASES = (known("y"), sp.Dummy("z", real=True))

_POINTS = np.linspace(-2.9, 3.1, 31) * 1.37
_MOST = 200  # harmonics of one phase: what has more is of two


@dataclass(frozen=True)
class Wave:
    """f(x) as a function of x and of phases that are all x, with a period in each phase."""

    pattern: sp.Expr
    periods: tuple[sp.Expr, ...]

    def along(self, change: Callable[[sp.Expr], sp.Expr]) -> Wave:
        """What a change of functions of x, as to the derivative, makes of it, in the same phases."""
        offsets = {s: sp.Dummy(real=True) for s in PHASES}
        moved = change(self.pattern.xreplace({s: x + a for s, a in offsets.items()}))
        return Wave(moved.xreplace({a: s - x for s, a in offsets.items()}), self.periods)


@cache
def wave(f: sp.Expr) -> Wave | None:
    """f with x as a phase where it stands linearly in sines and cosines; None where it does not, or in too many frequencies."""
    if f.free_symbols != {x}:
        return None
    f = in_pieces(f) if any(t.has(*KINKED) for t in f.atoms(sp.sin, sp.cos)) else f
    found = sorted(_frequencies(f), key=sp.default_sort_key)
    groups: list[tuple[sp.Expr, list[sp.Expr]]] = []  # the longest period, over 2 pi, and the frequencies with it
    for a in found:
        for i, (length, own) in enumerate(groups):
            ratios = [sp.nsimplify(b * length) if (b * length).has(sp.Float) else sp.radsimp(b * length) for b in (*own, a)]
            if all(r.is_Rational for r in ratios):
                longest = length * sp.ilcm(1, *(r.q for r in ratios))
                if all(abs(b * longest) <= _MOST for b in (*own, a)):
                    groups[i] = (longest, [*own, a])
                    break
        else:
            groups.append((1 / abs(a), [a]))
    if not groups or len(groups) > len(PHASES):
        return None
    phase = {a: symbol for symbol, (_, own) in zip(PHASES, groups, strict=False) for a in own}
    return Wave(_in_phases(f, phase), tuple(2 * sp.pi * length for length, _ in groups))


@cache
def period(f: sp.Expr) -> sp.Expr | None:
    """The least T > 0 with f(x + T) = f(x), where x stands in sines and cosines alone, of arguments that are linear in x up to such
    functions; None of any other function, and of constants."""
    found = wave(f)
    if found is None or len(found.periods) > 1 or x in found.pattern.free_symbols:
        return None
    return _least(f, found.periods[0])


def _split(argument: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """slope of the linear part of an argument, and the rest"""
    terms = sp.Add.make_args(sp.expand(argument))
    linear = [t for t in terms if x in t.free_symbols and x not in (t / x).free_symbols]
    return sp.Add(*linear) / x, sp.Add(*[t for t in terms if t not in linear])


def _frequencies(e: sp.Basic) -> set[sp.Expr]:
    """slopes of the arguments of sines and cosines"""
    if x not in e.free_symbols:
        return set()
    if isinstance(e, (sp.sin, sp.cos)):
        slope, rest = _split(e.args[0])
        return ({slope} - {sp.S.Zero}) | _frequencies(rest)
    return set().union(*(_frequencies(part) for part in e.args))


def _in_phases(e: sp.Basic, phase: dict[sp.Expr, sp.Symbol]) -> sp.Basic:
    if x not in e.free_symbols or e == x:
        return e
    if isinstance(e, (sp.sin, sp.cos)):
        slope, rest = _split(e.args[0])
        if slope != 0:
            return e.func(slope * phase[slope] + _in_phases(rest, phase))
    return e.func(*(_in_phases(a, phase) for a in e.args))


def _least(f: sp.Expr, longest: sp.Expr) -> sp.Expr:
    """a period divided as long as f repeats itself"""
    value = real_function(f)
    here = value(_POINTS)
    if np.ptp(here) <= 1e-10 * np.abs(here).max():  # a constant as far as is looked below: after any shift it is the same
        return longest
    for n in (2, 3, 5, 7):
        while np.allclose(value(_POINTS + float(longest / n)), here, rtol=1e-11, atol=1e-12 * np.abs(here).max()):
            longest = longest / n
    return longest
