r"""Expectations over several exchangeable Gaussians: E of products of powers of f(u_t) and f'(u_t), any two u_t of one covariance.

With u_t = \sqrt{p} x + \sqrt{\delta} \xi_t, p = q - \delta, the factors are independent given x, and everything is an average over x of
conditional means and covariances. Differences of such moments, where one token is replaced by another, are conditional covariances: free
of cancellation. Derivatives are of the same kind: each variable moves by

    \dot u_t = \sqrt{p} x \dot p/(2 p) + \sqrt{\delta} \xi_t \dot \delta/(2 \delta),

f by \dot f where it has a parameter, and E \prod_t h_t(u_t) by \sum_t E [h_t'(u_t) \dot u_t + \dot h_t(u_t)] \prod_{r \ne t} h_r(u_r).
"""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian.arithmetic import Number
from meanfield.gaussian.common_part import Common, Given
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.parities import is_even, is_odd
from meanfield.gaussian.precise import mean_of
from meanfield.gaussian.slopes import slope
from meanfield.symbols import known

__all__ = ["MOST", "Exchangeable", "ExchangeableSlope", "Power"]

x, y = known("x"), known("y")

#: gap beside variance below which a sum over what is common takes more points than its smooth means ask for
NEAR = 1e-4
#: exponents of f and of f'
Power = tuple[int, int]
#: most factors of a moment
MOST = 4
_NONE: Power = (0, 0)


class _Moment(Node):
    """What moments and their derivatives share: the arguments f, powers, variance, gap, spread, and the average over the common part."""

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

    @property
    def functions(self) -> tuple[sp.Expr, ...]:
        """What the moment is made of: f, and f' where it is."""
        return (self.integrand, slope(self.integrand)) if any(j for _, j in self.powers) else (self.integrand,)

    def _integrate(self, prec: int) -> mp.mpf:
        """0 by parity, or the average over the common part; next to equal tokens, where nothing cancels, of means at each of its values"""
        ratio = sp.N(self.gap / self.variance, 20)
        if ratio > 1:
            raise ArithmeticError(f"{self}: expected a gap of at most the variance, beyond which the tokens have nothing in common")
        if self._is_odd():
            return mp.mpf(0)
        if float(ratio) >= NEAR:
            common = Common(self.variance, self.gap, self.functions, sum(map(sum, self.powers)), len(self.powers))
            return common.mean(self._given, prec, self)
        return self._halved(prec, ratio)

    def _is_odd(self) -> bool:
        """whether all variables with their signs turned give the opposite"""
        of_f, of_slope = (sum(powers) for powers in zip(*self.powers, strict=True))
        return bool((is_odd(self.integrand) and of_f % 2) or (is_even(self.integrand) and of_slope % 2))

    def _halved(self, prec: int, ratio: sp.Expr) -> mp.mpf:
        """the trapezoidal rule in the common part, halved until it settles"""
        work = prec + 20 + (2 * max(0, int(-sp.log(ratio, 2))) if self.spread else 0)
        with mp.workprec(work):
            a = mp.sqrt(mp.mpf(sp.N(self.variance - self.gap, mp.mp.dps)._mpf_))
            window = mp.sqrt(2 * work * mp.log(2)) + 4
            step, total, before = mp.mpf(1) / 2, mp.mpf(0), None
            for turn in range(7):
                offset = 0 if turn == 0 else step
                points = [offset + k * step * (1 if turn == 0 else 2) for k in range(-int(window / step) - 1, int(window / step) + 2)]
                total += mp.fsum(self._given(self._means(a * t, work), a * t) * mp.npdf(t) for t in points if abs(t) <= window)
                value = total * step
                if before is not None and abs(value - before) <= abs(value) * mp.ldexp(1, -prec // 2 - 2):
                    return value
                before, step = value, step / 2
        raise ArithmeticError(f"{self} could not be certified to {mp.libmp.prec_to_dps(prec)} digits: its factors vary too fast")

    def _means(self, common: mp.mpf, prec: int) -> Given:
        centre = sp.Rational(str(mp.nstr(common, mp.mp.dps)))
        return lambda g: mean_of(g, centre, self.gap, prec)

    def _given(self, mean: Given, common: Number) -> Number:
        """what is averaged, of means given a value of the common part"""
        raise NotImplementedError

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


class Exchangeable(_Moment):
    r"""E \prod_t f(u_t)^{i_t} f'(u_t)^{j_t} for u_t of variance q and covariance q - delta: `Exchangeable(f, ((i, j), ...), q, delta)`.

    Beyond a gap of q, at a negative covariance, no part is common to the tokens: moments of two are what they are, those of more go on
    from q as they came, as 2 F(q, q) - F(q, 2 q - gap), exact to first order in the covariance.

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

    def doit(self, **hints: Any) -> sp.Expr:
        """One or two factors are an expectation over as many variables; more have no closed form."""
        if self.spread or len(self.powers) > 2:
            return self
        if len(self.powers) == 1:
            return Expectation(_monomial(self.integrand, self.powers[0]), self.variance).doit()
        return self._of_two().doit()

    def products(self) -> tuple[tuple[sp.Expr, ...], ...]:
        """The functions of x whose product over tokens is the moment; for a spread, those of the two moments it is the difference of."""
        factors = tuple(_monomial(self.integrand, power) for power in self.powers)
        if not self.spread:
            return (factors,)
        return (*factors[:-2], _monomial(self.integrand, _times(*self.powers[-2:]))), factors

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        """one slope for the variance, one for the gap and one for each parameter of f, whatever moves them"""
        f, *_, v, gap, _ = self.args
        parts = [(v.diff(s), slope(f), 1, 0), (gap.diff(s), slope(f), 0, 1), (S.One, f.diff(s), 0, 0)]
        return sp.Add(*[factor * ExchangeableSlope.of(self, *along) for factor, *along in parts if factor != 0 and along[0] != 0])

    def _of_two(self) -> sp.Expr:
        """a moment of two factors, or what is left of that of their product, as an expectation over two variables"""
        one, other = (_monomial(self.integrand, power) for power in self.powers)
        v, cov = self.variance, self.variance - self.gap
        pair = PairExpectation(one * other.xreplace({x: y}), v, cov, v)
        return Expectation(one * other, v) - pair if self.spread else pair

    def _integrate(self, prec: int) -> mp.mpf:
        """beyond gap = variance of two factors as it is, of more 2 F(q, q) - F(q, 2 q - gap)"""
        f, powers, v, gap, spread = self.args
        if sp.N(gap / v, 20) <= 1:
            return super()._integrate(prec)
        independent, mirrored = (self.func(f, powers, v, apart, spread) for apart in (v, 2 * v - gap))
        continued = self._of_two() if len(powers) == 2 else 2 * independent - mirrored
        with mp.workprec(prec + 10):
            return mp.mpf(continued.evalf(mp.libmp.prec_to_dps(prec + 10))._to_mpmath(prec + 10))  # an int of 0

    def _given(self, mean: Given, common: Number) -> Number:
        """the product of conditional means and covariance"""
        powers, f = self.powers, self.integrand
        factors = [mean(_monomial(f, power)) for power in (powers[:-2] if self.spread else powers)]
        if self.spread:
            one, two = powers[-2:]
            factors.append(mean(_monomial(f, _times(one, two))) - mean(_monomial(f, one)) * mean(_monomial(f, two)))
        return reduce(mul, factors)


def _token(printer: Any, power: Power, index: int) -> str:
    names = (r"\phi", r"\phi'")
    parts = [rf"{name}{{}}_{{{index}}}" + (f"^{{{k}}}" if k > 1 else "") for name, k in zip(names, power, strict=True) if k]
    return " ".join(parts)


def _power(i: Any, j: Any) -> Power:
    return int(i), int(j)


def _times(one: Power, two: Power) -> Power:
    return one[0] + two[0], one[1] + two[1]


def _monomial(f: sp.Expr, power: Power) -> sp.Expr:
    i, j = power
    return f**i * (slope(f) ** j if j else S.One)


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


class ExchangeableSlope(_Moment):
    r"""The derivative of a moment in its variance, in its gap, or in a parameter of f: `ExchangeableSlope.of(moment, rate, ...)`.

    f(u_t) moves by the rate times that of u_t: by f' where the variance or the gap moves by 1, by \dot f where neither does.
    """

    @classmethod
    def of(cls, moment: Exchangeable, rate: sp.Expr, variance: int, gap: int) -> sp.Expr:
        """Of f continuous, with jumps of f' counted; a spread of powers of f alone.

        Raises ValueError for another spread, or a kink that moves.
        """
        if moment.spread and any(j for _, j in moment.powers):
            raise ValueError(f"moment = {moment}: expected a spread of powers of f alone")
        if not variance and not gap and slope(rate).has(sp.DiracDelta):
            raise ValueError(f"moment = {moment}: a kink of {moment.integrand} moves with its parameter")
        return sp.Expr.__new__(cls, *moment.args, rate, sp.Integer(variance), sp.Integer(gap))

    @property
    def rate(self) -> sp.Expr:
        return self.args[5]

    @property
    def along(self) -> tuple[sp.Expr, sp.Expr]:
        """What the variance and the gap move by."""
        return self.args[6], self.args[7]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return super().free_symbols - {x, y}

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        return sp.Derivative(self, s, evaluate=False)

    def _given(self, mean: Given, common: Number) -> Number:
        """the derivative of a product of conditional means, the last two of which may be a covariance"""
        v, gap = self.variance, self.gap
        spin = self.along[1] / (2 * gap)
        drift = (self.along[0] - self.along[1]) / (2 * (v - gap)) - spin

        def both(power: Power) -> tuple[Number, Number]:
            turned = self._turned(power)
            if turned == 0:
                return mean(_monomial(self.integrand, power)), 0
            if self.along == (0, 0):
                return mean(_monomial(self.integrand, power)), mean(turned)
            moved = common * mean(drift * turned) + (mean(spin * x * turned) if spin != 0 else 0)
            return mean(_monomial(self.integrand, power)), moved

        held = [both(power) for power in (self.powers[:-2] if self.spread else self.powers)]
        if self.spread:
            (one, a), (two, b), (product, c) = (both(power) for power in (*self.powers[-2:], _times(*self.powers[-2:])))
            held.append((product - one * two, c - a * two - one * b))
        return sum(dot * reduce(mul, [m for r, (m, _) in enumerate(held) if r != t], 1) for t, (_, dot) in enumerate(held))

    def _is_odd(self) -> bool:
        """a parameter may take a parity away"""
        return self.along != (0, 0) and super()._is_odd()

    def _turned(self, power: Power) -> sp.Expr:
        """the slope of a power of f and f' by what f moves along"""
        f, rate, (i, j) = self.integrand, self.rate, power
        if self.along != (0, 0):
            return slope(_monomial(f, power))
        turned = i * _monomial(f, (i - 1, j)) * rate if i else S.Zero
        return turned + (j * _monomial(f, (i, j - 1)) * slope(rate) if j else S.Zero)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        variance, gap = self.along
        which = "q" if variance else r"\delta" if gap else r"\phi"
        text = rf"\partial_{{{which}}} {super()._latex(printer)}"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"
