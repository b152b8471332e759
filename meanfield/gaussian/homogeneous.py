r"""What is left of f(t u) as t goes to 0 or to infinity: a sum of t^a times homogeneous distributions in u.

Each c |u|^b of f at that end gives itself. At infinity a smooth test function sees the rest by its moments (Estrada & Kanwal 1990),

    f(t u) ~ \sum_b c_b t^b |u|^b + \sum_k (-1)^k m_k/k! t^{-k-1} \delta^{(k)}(u),   m_k = f.p. \int u^k f(u) du,

and where a power b = -(k+1) meets a \delta^{(k)} of its parity, t^b log t stands before that. Even and odd parts are apart throughout, so
what vanishes by symmetry is no term.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import mpmath as mp
import sympy as sp

from meanfield.gaussian.expansions import folded
from meanfield.gaussian.finite_parts import finite_part
from meanfield.gaussian.local_expansions import at_infinity, at_zero
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.symbols import known

__all__ = ["Part", "Parts", "parts_at_infinity", "parts_at_zero"]

x = known("x")

#: how many powers of t are kept
REACH = 4
#: size below which a moment counts as 0: an integral that cancels
ROUNDING = 1e-15


@dataclass(frozen=True)
class Part:
    """`coefficient` t^power log(t)^logarithms times a distribution: |u|^power of that parity, or the `order`-th derivative of a delta."""

    power: sp.Expr
    logarithms: int
    parity: int  # 0 even, 1 odd
    order: int  # -1 for a power
    coefficient: Callable[[], mp.mpf]

    def given(self, mean: mp.mpf, variance: mp.mpf) -> mp.mpf:
        """The expectation of the distribution for u ~ N(mean, variance)."""
        z = mean / mp.sqrt(variance)
        if self.order >= 0:
            hermite = mp.hermite(self.order, z / mp.sqrt(2)) * mp.mpf(2) ** (-mp.mpf(self.order) / 2)
            return (-1) ** self.order * variance ** (-mp.mpf(self.order + 1) / 2) * hermite * mp.npdf(z)
        a = _number(self.power)
        if self.parity == 0:
            body = mp.gamma((a + 1) / 2) * mp.hyp1f1(-a / 2, mp.mpf(1) / 2, -z * z / 2)
        else:
            body = mp.sqrt(2) * z * mp.gamma(a / 2 + 1) * mp.hyp1f1((1 - a) / 2, mp.mpf(3) / 2, -z * z / 2)
        return (2 * variance) ** (a / 2) * body / mp.sqrt(mp.pi)


def _number(c: sp.Expr) -> mp.mpf:
    return mp.mpf(sp.Float(sp.N(c, mp.mp.dps), mp.mp.dps)._mpf_)


def _doubled(f: sp.Expr, parity: int) -> sp.Expr:
    """f(x) + f(-x), or x f(x) - x f(-x) for the odd part, on x > 0"""
    return folded(x**parity * f)


def _powers(found: dict[sp.Expr, sp.Expr], parity: int) -> dict[sp.Expr, sp.Expr]:
    """those of the part itself"""
    powers = {a - parity: c for a, c in found.items() if c != 0}
    if any(c.has(LOG) for c in powers.values()):
        raise NoExpansion("a logarithm stands among the powers")
    return powers


@dataclass(frozen=True)
class Parts:
    """The first parts of f(t u), the leading one first, and the power of t of what is left out."""

    known: tuple[Part, ...]
    rest: sp.Expr


@cache
def parts_at_zero(f: sp.Expr) -> Parts:
    """The parts of f(t u) as t -> 0."""
    both = [_doubled(f, parity) for parity in (0, 1)]
    for order in (REACH, 2 * REACH, 4 * REACH):
        powers = [_powers(at_zero(doubled, order), parity) for parity, doubled in enumerate(both)]
        if any(a <= -1 for found in powers for a in found):
            raise NoExpansion(f, " is not integrable at 0")
        parts = [Part(a, 0, parity, -1, partial(_number, c / 2)) for parity in (0, 1) for a, c in powers[parity].items()]
        if any(part.power < order - REACH // 2 for part in parts):
            break
    return Parts(tuple(sorted(parts, key=lambda part: part.power)), sp.Integer(order - 1))


@cache
def parts_at_infinity(f: sp.Expr) -> Parts:
    """The parts of f(t u) as t -> oo."""
    parts, rest = [], -sp.Integer(REACH)
    for parity in (0, 1):
        doubled = _doubled(f, parity)
        if doubled == 0:
            continue
        powers = _powers(at_infinity(doubled, REACH), parity)
        for k in range(parity, REACH, 2):
            power, scale = -sp.Integer(k + 1), sp.Rational((-1) ** k, sp.factorial(k))
            if power in powers:  # beside its logarithm the finite part of the power would count: no further
                parts.append(Part(power, 1, parity, k, partial(_number, powers[power] * scale)))
                rest = max(rest, power)
                break
            parts.append(Part(power, 0, parity, k, partial(_moment, doubled, k - parity, scale)))
        parts += [Part(a, 0, parity, -1, partial(_number, c / 2)) for a, c in powers.items() if a > rest]
    return Parts(tuple(sorted(parts, key=lambda part: (-part.power, -part.logarithms))), rest)


def _moment(doubled: sp.Expr, n: int, scale: sp.Expr) -> mp.mpf:
    value = _number(scale * finite_part(doubled, n))
    return value if abs(value) > ROUNDING else mp.mpf(0)
