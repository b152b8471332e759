r"""Expectations over several exchangeable Gaussians: E of products of powers of f(u_t) and f'(u_t), any two u_t of one covariance.

With u_t = \sqrt{p} x + \sqrt{q - p} \xi_t the factors are independent given x, and everything is an average over x of conditional means
and covariances. Differences of such moments, where one token is replaced by another, are conditional covariances: free of cancellation.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Node, PairExpectation
from meanfield.gaussian.pieces import slope
from meanfield.gaussian.precise import mean_of
from meanfield.symbols import known

__all__ = ["MOST", "Exchangeable", "Power"]

x, y = known("x"), known("y")

#: exponents of f and of f'
Power = tuple[int, int]
#: most factors of a moment
MOST = 4


class Exchangeable(Node):
    r"""E \prod_t f(u_t)^{i_t} f'(u_t)^{j_t} for u_t of variance q and covariance q - delta: `Exchangeable(f, ((i, j), ...), q, delta)`.

    With `spread=True` the last two factors belong to one token, and their covariance given what is common to all tokens takes the place
    of their product: E[g(u_1) ... (h k)(u_m)] - E[g(u_1) ... h(u_m) k(u_{m+1})].
    """

    def __new__(cls, f: sp.Expr, powers: Any, variance: Any, gap: Any, spread: Any = False) -> sp.Expr:
        factors = [(int(i), int(j)) for i, j in powers]
        spread = bool(spread)
        held, last = (factors[:-2], factors[-2:]) if spread else (factors, [])
        held = sorted(power for power in held if power != (0, 0))
        if spread and (0, 0) in last:
            return S.Zero
        if len(held) + len(last) > MOST:
            raise ValueError(f"powers = {powers}: expected at most {MOST} factors")
        variance, gap = sp.sympify(variance), sp.sympify(gap)
        if gap == 0 or variance == gap:
            return _reduced(f, held, sorted(last), variance, gap)
        if not held and not last:
            return S.One
        every = sp.Tuple(*(sp.Tuple(i, j) for i, j in (*held, *sorted(last))))
        return sp.Expr.__new__(cls, f, every, variance, gap, sp.true if spread else sp.false)

    @property
    def powers(self) -> tuple[Power, ...]:
        return tuple((int(i), int(j)) for i, j in self.args[1])

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
            (a, b), (c, d) = powers[-2:]
            result *= mean((a + c, b + d)) - mean((a, b)) * mean((c, d))
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
    parts = [rf"{name}{{}}_{{{index}}}" + (f"^{{{k}}}" if k > 1 else "") for name, k in zip((r"\phi", r"\phi'"), power, strict=True) if k]
    return " ".join(parts)


def _monomial(f: sp.Expr, power: Power) -> sp.Expr:
    i, j = power
    return f**i * slope(f) ** j if j else f**i


def _reduced(f: sp.Expr, held: list[Power], last: list[Power], variance: sp.Expr, gap: sp.Expr) -> sp.Expr:
    """equal tokens are one, uncorrelated ones are independent"""
    if gap == 0:
        if last:
            return S.Zero
        return Expectation(_monomial(f, (sum(i for i, _ in held), sum(j for _, j in held))), variance)

    def mean(power: Power) -> sp.Expr:
        return Expectation(_monomial(f, power), variance)

    result = sp.Mul(*[mean(power) for power in held])
    if last:
        (a, b), (c, d) = last
        result *= mean((a + c, b + d)) - mean((a, b)) * mean((c, d))
    return result
