"""Degrees and limits of the moments of several exchangeable tokens."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.homogeneous import Part, Parts, parts_at_infinity, parts_at_zero
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.gaussian.series import NoExpansion
from meanfield.numeric.evaluation import evaluate
from meanfield.scaling.homogeneity import Inhomogeneous, of_expectation
from meanfield.scaling.limits import CANCELLED, Term, Undetermined, of_node, shrinks

__all__: list[str] = []

#: digits of leading coefficients
DIGITS = 20
#: standard deviations of the common part that count
WINDOW = 10
#: most points of the rule in the common part
MOST_POINTS = 4000


@of_expectation.register
def _(e: Exchangeable, law: list[sp.Expr]) -> sp.Expr:
    variance, gap = law
    if variance != gap:
        raise Inhomogeneous(f"variance and gap of {e} have the degrees {variance} and {gap}")
    k = homogeneous_degree(e.integrand)
    if k is None:
        raise Inhomogeneous(f"{e.integrand} is not homogeneous in x")
    return sp.Add(S.Zero, *[i * k + j * (k - 1) for i, j in e.powers]) * variance / 2


@of_node.register
def _(e: Exchangeable, law: list[Term], point: sp.Expr) -> Term:
    (c, k), (gap, other) = law
    if k != other:
        raise Undetermined(f"variance and gap of {e} have the powers {k} and {other}")
    if k == 0:
        try:
            value = float(evaluate(Exchangeable(e.integrand, e.powers, sp.Float(c), sp.Float(gap), e.spread)))
        except ArithmeticError as reason:
            raise Undetermined(f"the leading term of {e}: {reason}") from None
        if value == 0:
            raise Undetermined(f"the leading term of {e} vanishes")
        return value, S.Zero
    if gap > c:
        raise Undetermined(f"the tokens of {e} are of negative correlation")
    near = shrinks(k, point)
    try:
        moments = [[parts_at_zero(f) if near else parts_at_infinity(f) for f in factors] for factors in e.products()]
        with mp.workdps(DIGITS):
            value, power = _leading(moments, near, _Tokens(c, gap))
    except NoExpansion as reason:
        raise Undetermined(f"the leading term of {e}: {reason}") from None
    return value, power * k / 2


class _Tokens:
    """Expectations of products of distributions of u_t = sqrt(p) x + sqrt(gap) xi_t, by the trapezoidal rule in x."""

    def __init__(self, variance: float, gap: float) -> None:
        p, self.gap = mp.mpf(variance) - mp.mpf(gap), mp.mpf(gap)
        step = 1 / (2 * mp.sqrt(1 + 4 * p / self.gap))
        count = int(WINDOW / step) + 1
        if count > MOST_POINTS:
            raise Undetermined(f"tokens of correlation {float(p / variance)}")
        self.weights = [step * mp.npdf(j * step) for j in range(-count, count + 1)]
        self.means = [mp.sqrt(p) * j * step for j in range(-count, count + 1)]
        self._given: dict[tuple[sp.Expr, int, int], list[mp.mpf]] = {}

    def expected(self, parts: tuple[Part, ...]) -> mp.mpf:
        """The expectation of the product; 0 where it comes out as rounding of what is summed."""
        terms = self.weights
        for part in parts:
            terms = [a * b for a, b in zip(terms, self.given(part), strict=True)]
        total = mp.fsum(terms)
        return total if abs(total) > CANCELLED * mp.fsum(map(abs, terms)) else mp.mpf(0)

    def given(self, part: Part) -> list[mp.mpf]:
        key = (part.power, part.parity, part.order)
        if key not in self._given:
            self._given[key] = [part.given(m, self.gap) for m in self.means]
        return self._given[key]


def _leading(moments: list[list[Parts]], near: bool, tokens: _Tokens) -> tuple[float, sp.Expr]:
    """the leading term of the first moment, or of the first less the second; where that holds a logarithm, what it is small against"""
    rank = 1 if near else -1
    levels: dict[tuple[sp.Expr, int], list[tuple[int, tuple[Part, ...]]]] = {}
    unknown = []
    for sign, factors in zip((1, -1), moments, strict=False):
        if not all(factor.known for factor in factors):
            raise Undetermined("a factor has no leading power")
        first = sp.Add(*[factor.known[0].power for factor in factors])
        unknown += [rank * (first - factor.known[0].power + factor.rest) for factor in factors]
        for parts in itertools.product(*(factor.known for factor in factors)):
            level = rank * sp.Add(*[part.power for part in parts]), -sum(part.logarithms for part in parts)
            levels.setdefault(level, []).append((sign, parts))
    above = None  # the last power that nothing is left of
    for level in sorted(levels):
        if level[0] > min(unknown) or (level[0] == min(unknown) and level[1] == 0):
            break
        values = [(sign * tokens.expected(parts), parts) for sign, parts in levels[level]]
        terms = [value * mp.fprod(part.coefficient() for part in parts) for value, parts in values if value]
        total = mp.fsum(terms)
        if abs(total) > CANCELLED * mp.fsum(map(abs, terms)):
            if level[1] == 0:
                return float(total), rank * level[0]
            break
        above = level[0]
    if above is None:
        raise Undetermined("a logarithm in the leading term")
    return math.nan, rank * above
