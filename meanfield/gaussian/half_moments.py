r"""\int_0^\infty z^j e^{-p z - z^2/2} dz of complex p, Re p >= 0: to the precision of mpmath, and as balls of python-flint."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp

__all__ = ["half_moments", "half_moments_of_ball", "lost_of_ball"]


def half_moments(p: mp.mpc, top: int) -> list[mp.mpc]:
    """For j = 0 ... top: forward from erfc in as many more bits as that loses, and far out backward from the series in 1/p, whose least
    term is e^{-|p|^2/2} (Abramowitz and Stegun 1964, 7.1.23)."""
    order = max(0, mp.mag(p))
    if abs(p) ** 2 < 2 * (mp.mp.prec + 40 + top * max(1, order)):
        with mp.workprec(mp.mp.prec + 30 + 2 * (top + 1) * order):
            return _forward(mp.sqrt(mp.pi / 2) * mp.exp(p * p / 2) * mp.erfc(p / mp.sqrt(2)), p, top)
    found = [_far(p, top), *([_far(p, top - 1)] if top else [])]
    for j in range(top - 1, 0, -1):
        found.append((found[-2] + p * found[-1]) / j)
    return found[::-1]


def half_moments_of_ball(p: Any, top: int) -> list[Any]:
    """The same at the precision of balls, of which `lost_of_ball` are lost."""
    root = p.real * 0 + 2
    return _forward((root.pi() / 2).sqrt() * (p * p / 2).exp() * (p / root.sqrt()).erfc(), p, top)


def lost_of_ball(size: mp.mpf, top: int) -> int:
    """Bits that moments of arguments up to a size lose."""
    return 30 + 2 * (top + 2) * max(0, int(mp.mag(size)))


def _forward(first: Any, p: Any, top: int) -> list[Any]:
    found = [first]
    for j in range(top):
        found.append((j * found[j - 1] if j else 1) - p * found[j])
    return found


def _far(p: mp.mpc, j: int) -> mp.mpc:
    step, term, total, k = -1 / (2 * p * p), math.factorial(j) / p ** (j + 1), mp.mpc(0), 0
    least = mp.mag(term) - mp.mp.prec - 10
    while mp.mag(term) > least:
        total += term
        term *= step * ((2 * k + j + 1) * (2 * k + j + 2)) / (k + 1)
        k += 1
    return total
