r"""Expectations over several exchangeable Gaussians: E of products of powers of f(u_t), f'(u_t) and u_t, any two u_t of one covariance.

With u_t = \sqrt{p} x + \sqrt{q - p} \xi_t the factors are independent given x, and everything is an average over x of conditional means
and covariances. Differences of such moments, where one token is replaced by another, are conditional covariances: free of cancellation.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import slope
from meanfield.gaussian.precise import mean_of
from meanfield.symbols import known

__all__ = ["MOST", "Exchangeable", "Power"]

x, y = known("x"), known("y")

#: exponents of f, of f' and of the variable itself
Power = tuple[int, int, int]
#: most factors of a moment
MOST = 4
_NONE: Power = (0, 0, 0)


class Exchangeable(Node):
    r"""E \prod_t f(u_t)^{i_t} f'(u_t)^{j_t} u_t^{k_t} for u_t of variance q and covariance q - delta, k = 0 if left out:
    `Exchangeable(f, ((i, j), ...), q, delta)`.

    With `spread=True` the last two factors belong to one token, and their covariance given what is common to all tokens takes the place
    of their product: E[g(u_1) ... (h k)(u_m)] - E[g(u_1) ... h(u_m) k(u_{m+1})].
    """

    def __new__(cls, f: sp.Expr, powers: Any, variance: Any, gap: Any, spread: Any = False) -> sp.Expr:
        factors = [_power(*power) for power in powers]
        spread = bool(spread)
        held, last = (factors[:-2], factors[-2:]) if spread else (factors, [])
        held = sorted(power for power in held if power != _NONE)
        if spread and _NONE in last:
            return S.Zero
        if len(held) + len(last) > MOST:
            raise ValueError(f"powers = {powers}: expected at most {MOST} factors")
        variance, gap = sp.sympify(variance), sp.sympify(gap)
        if gap == 0 or variance == gap:
            return _reduced(f, held, sorted(last), variance, gap)
        if not held and not last:
            return S.One
        every = sp.Tuple(*(sp.Tuple(*power) for power in (*held, *sorted(last))))
        return sp.Expr.__new__(cls, f, every, variance, gap, sp.true if spread else sp.false)

    @property
    def powers(self) -> tuple[Power, ...]:
        return tuple(_power(*power) for power in self.args[1])

    @property
    def spread(self) -> bool:
        return bool(self.args[4])

    @property
    def variance(self) -> sp.Expr:
        return self.args[2]

    @property
    def gap(self) -> sp.Expr:
        return self.args[3]

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {x}

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        return None, {}

    def doit(self, **hints: Any) -> sp.Expr:
        """One or two factors are an expectation over as many variables; more have no closed form."""
        if self.spread or len(self.powers) > 2:
            return self
        if len(self.powers) == 1:
            return Expectation(_monomial(self.integrand, self.powers[0]), self.variance).doit()
        first, second = (_monomial(self.integrand, power) for power in self.powers)
        v, cov = self.variance, self.variance - self.gap
        return PairExpectation(first * second.xreplace({x: y}), v, cov, v).doit()

    def products(self) -> tuple[tuple[sp.Expr, ...], ...]:
        """The functions of x whose product over tokens is the moment; for a spread, those of the two moments it is the difference of."""
        factors = tuple(_monomial(self.integrand, power) for power in self.powers)
        if not self.spread:
            return (factors,)
        return (*factors[:-2], _monomial(self.integrand, _times(*self.powers[-2:]))), factors

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        if s in self.integrand.free_symbols:
            return sp.Derivative(self, s, evaluate=False)
        try:
            apart = self._in_gap()
            together = self._scaled()
        except _SecondDerivative:
            return sp.Derivative(self, s, evaluate=False)
        v, gap = self.variance, self.gap
        return (v.diff(s) * together + (v * gap.diff(s) - gap * v.diff(s)) * apart) / v

    def _scaled(self) -> sp.Expr:
        """v d/dv + gap d/dgap, all variables scaled together: E of u_t d/du_t over 2, token by token"""
        total = S.Zero
        for t, power in enumerate(self.powers):
            c, (i, j, _) = _differentiated(power)
            total += c * self._with({t: (i, j, 1)})
        return total / 2

    def _in_gap(self) -> sp.Expr:
        """d/dgap by Price's theorem: less E of d^2/du_s du_t, by pairs; the last two of a spread are one token in its first moment"""
        total, powers = S.Zero, self.powers
        for t, second in enumerate(powers):
            for r, first in enumerate(powers[:t]):
                if not self.spread or t < len(powers) - 1 or r < len(powers) - 2:
                    (a, one), (b, two) = _differentiated(first), _differentiated(second)
                    total -= a * b * self._with({r: one, t: two})
        if self.spread:
            (a, one), (b, two) = map(_differentiated, powers[-2:])
            total += a * b * Exchangeable(self.integrand, (*powers[:-2], one, two), self.variance, self.gap)
        return total

    def _with(self, changed: dict[int, Power]) -> sp.Expr:
        """the same moment, some of its powers replaced"""
        powers = [changed.get(t, power) for t, power in enumerate(self.powers)]
        return Exchangeable(self.integrand, powers, self.variance, self.gap, self.spread)

    def _integrate(self, prec: int) -> mp.mpf:
        """the trapezoidal rule in the common part, halved until it settles"""
        ratio = sp.N(self.gap / self.variance, 20)
        work = prec + 20 + (2 * max(0, int(-sp.log(ratio, 2))) if self.spread else 0)
        with mp.workprec(work):
            a = mp.sqrt(mp.mpf(sp.N(self.variance - self.gap, mp.mp.dps)._mpf_))
            window = mp.sqrt(2 * work * mp.log(2)) + 4
            step, total, before = mp.mpf(1) / 2, mp.mpf(0), None
            for turn in range(7):
                offset = 0 if turn == 0 else step
                points = [offset + k * step * (1 if turn == 0 else 2) for k in range(-int(window / step) - 1, int(window / step) + 2)]
                total += mp.fsum(self._given(a * t, work) * mp.npdf(t) for t in points if abs(t) <= window)
                value = total * step
                if before is not None and abs(value - before) <= abs(value) * mp.ldexp(1, -prec // 2 - 2):
                    return value
                before, step = value, step / 2
        raise ArithmeticError(f"{self} could not be certified to {mp.libmp.prec_to_dps(prec)} digits: its factors vary too fast")

    def _given(self, common: mp.mpf, prec: int) -> mp.mpf:
        """the product of conditional means and covariance at a value of the common part"""

        def mean(power: Power) -> mp.mpf:
            centre = sp.Rational(str(mp.nstr(common, mp.mp.dps)))
            return mean_of(_monomial(self.integrand, power), centre, self.gap, prec)

        powers = self.powers
        held = powers[:-2] if self.spread else powers
        result = mp.mpf(1)
        for power in held:
            result *= mean(power)
        if self.spread:
            one, two = powers[-2:]
            result *= mean(_times(one, two)) - mean(one) * mean(two)
        return result

    def _sympystr(self, printer: Any) -> str:
        names = ", ".join(str(power) for power in self.powers)
        return f"Exchangeable({', '.join([str(self.integrand), names, *map(printer._print, (self.variance, self.gap))])})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        tokens = [_token(printer, power, index) for index, power in enumerate(self.powers, 1)]
        inner = " ".join(tokens)
        if self.spread:
            inner = " ".join(
                [*tokens[:-2], rf"\mathrm{{Cov}}\left({tokens[-2]}, {_token(printer, self.powers[-1], len(tokens) - 1)}\mid x\right)"]
            )
        text = rf"\mathbb{{E}}_{{{printer._print(self.variance)}; {printer._print(self.variance - self.gap)}}}\left[{inner}\right]"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


def _token(printer: Any, power: Power, index: int) -> str:
    names = (r"\phi", r"\phi'", "u")
    parts = [rf"{name}{{}}_{{{index}}}" + (f"^{{{k}}}" if k > 1 else "") for name, k in zip(names, power, strict=True) if k]
    return " ".join(parts)


def _power(i: Any, j: Any, k: Any = 0) -> Power:
    return int(i), int(j), int(k)


def _times(one: Power, two: Power) -> Power:
    return one[0] + two[0], one[1] + two[1], one[2] + two[2]


def _monomial(f: sp.Expr, power: Power) -> sp.Expr:
    i, j, k = power
    return f**i * x**k * (slope(f) ** j if j else S.One)


def _differentiated(power: Power) -> tuple[int, Power]:
    """f^i by its derivative: the factor i, and f^(i-1) f'"""
    i, j, k = power
    if j or k:
        raise _SecondDerivative
    return i, (i - 1, 1, 0)


class _SecondDerivative(Exception):
    """A power of f' or of the variable would have to be differentiated."""


def _reduced(f: sp.Expr, held: list[Power], last: list[Power], variance: sp.Expr, gap: sp.Expr) -> sp.Expr:
    """equal tokens are one, uncorrelated ones are independent"""
    if gap == 0:
        if last:
            return S.Zero
        return Expectation(_monomial(f, reduce(_times, held, _NONE)), variance)

    def mean(power: Power) -> sp.Expr:
        return Expectation(_monomial(f, power), variance)

    result = sp.Mul(*[mean(power) for power in held])
    if last:
        one, two = last
        spread = mean(_times(one, two)) - mean(one) * mean(two)
        result *= Gap(_monomial(f, one), variance, variance) if one == two else spread
    return result
