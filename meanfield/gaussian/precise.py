r"""Gaussian expectations to any number of correct digits: E f(u), E f(u) g(v) and E f(u)^2 - E f(u) f(v), relative to their value.

All functions are taken on standard normal variables, z -> f(m + s z), and resolved by panels. For a correlation r = 1 - eps

    u = sqrt(r) x + sqrt(eps) xi,    v = sqrt(r) x + sqrt(eps) xi'    with x, xi, xi' independent,
    E f(u) g(v) = E_x (E_xi f)(E_xi g),    E f(u) g(u) - E f(u) g(v) = E_x Cov_xi(f, g),

the first away from r = 1, the second, whose terms all have the size of the result, next to it; a negative correlation mirrors g. Where f
or g grows like exp(a x^2) all that is far out counts, and these need not hold: if S^{-1} - 2 diag(a, b) is positive definite, a and b the
growths, both are tilted, exp(-a x^2) f under the covariance that is its inverse; if it is so on the quadrants only that f and g leave, as
where they vanish on one side, the product is summed quadrant by quadrant (`quadrants`).
Every value is computed again with more nodes, other panels and longer numbers, until two in a row agree to the digits asked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian import closed
from meanfield.gaussian.arithmetic import Number, Numbers, numbers_for, precise_number
from meanfield.gaussian.at_bound import rest_of
from meanfield.gaussian.centring import without_plateau
from meanfield.gaussian.conditional_covariance import mean_covariance
from meanfield.gaussian.correlated import mean_of_pair
from meanfield.gaussian.fast_waves import Normal, are_fast, mean_of_waves, product_mean_of_waves
from meanfield.gaussian.finiteness import pair_falls
from meanfield.gaussian.flat_directions import Brink, Ridge, along_the_line
from meanfield.gaussian.growth import beyond, falls, grows, left_of, rates, untold
from meanfield.gaussian.landmarks import Landmarks
from meanfield.gaussian.lines import Line, mean_of_function, mean_of_lines
from meanfield.gaussian.panels import Unresolved
from meanfield.gaussian.parities import is_even, is_odd, odd_part
from meanfield.gaussian.quadrants import mean_over_quadrants
from meanfield.gaussian.smoothness import almost_everywhere
from meanfield.gaussian.stable import complemented
from meanfield.gaussian.zeros import is_zero
from meanfield.symbols import known

__all__ = ["Law", "certified", "gap_of_pair", "law_of", "mean_of", "nested_mean", "product_mean_of"]

x, y = known("x"), known("y")

#: 1 - |correlation| below which the covariance given x is what is summed
NEAR = 1e-3
#: powers of a correlation that is little beside the digits asked of which the first may be the one that counts
_POWERS = 8
#: share of the second moment from which on a gap next to it is a difference: of functions that are 0 far around 0
_APART = 0.5
_LN2 = math.log(2)
_MOST_BITS = 30_000
#: bits in which two means that grow like exp(a x^2) may agree: any double tells them apart
_MOST_LOST = 2_400


class Uncertain(ArithmeticError):
    """No two accuracies agree, or no rule is certain."""


def certified(run: Callable[[float], Number], numbers: Numbers, prec: int, what: object, lost_bits: int = 0) -> mp.mpf:
    """run(accuracy in nats) twice in a row alike to prec bits, each time with more nodes and longer numbers; `lost_bits` are what its terms
    are known to lose on the way."""
    nats, before, trouble, wild = prec * _LN2 + 6.0, None, "", 0
    if int(nats / _LN2) + 40 + lost_bits > _MOST_BITS:
        raise ArithmeticError(f"{what} is integrated to at most {int((_MOST_BITS - 200) * _LN2 / math.log(10))} digits: ask for fewer")
    for attempt in range(8):
        bits = -(-(int(nats / _LN2) + 40 + 30 * attempt + lost_bits) // 64) * 64
        if bits > _MOST_BITS:
            break
        step = 18.0
        with numbers.precision(bits):
            try:
                raw = run(nats)
            except Unresolved as error:
                if attempt == 1:
                    raise Uncertain(f"{what}: no rule is certain to {mp.mp.dps} digits: {error}") from None
                before, trouble = None, str(error)
            else:
                value, radius = numbers.middle(raw), numbers.error(raw)
                if before is not None and mp.isfinite(value):
                    off = abs(value - before) + radius
                    if value != 0 and off <= mp.ldexp(abs(value), -prec - 2):
                        return value
                    wild += bool(2 * off > abs(value))
                    if wild == 3:
                        break
                    lost = mp.log(off / abs(value)) + prec * _LN2 if value and mp.isfinite(off) and off else mp.mpf(60)
                    step += min(max(float(lost), 10.0), 2 * nats)
                before = value if mp.isfinite(value) else None
        nats += step
    raise Uncertain(
        f"{what} could not be certified to {round(prec * _LN2 / math.log(10))} digits: {trouble or 'two accuracies do not agree'} "
        "(the integrand oscillates, is singular on the real line, or the value cannot be told from 0)"
    )


def mean_of(f: sp.Expr, mean: sp.Expr, variance: sp.Expr, prec: int, lost_bits: int = 0) -> mp.mpf:
    """E f(u), u ~ N(mean, variance), to prec bits, of which its terms are known to lose some more."""
    f = complemented(almost_everywhere(f))
    numbers = numbers_for(f)
    if (left := left_of(f, mean, variance)) is not None:
        return certified(lambda nats: along_the_line(left, variance, nats, numbers), numbers, prec, f"E[{f}]")
    if mean == 0 and beyond(f, variance) is None and not untold(f, variance):
        f = sp.Add(*[t for t in sp.Add.make_args(f) if not is_odd(t)])  # beside which the rest may be beyond all digits
        if f == 0 or is_odd(f):
            return mp.mpf(0)
    if are_fast((f, variance)):
        return mean_of_waves(Normal(f, mean, variance), prec)
    line = Line(f, mean, variance)
    lost = lost_bits * _LN2
    within = line.lost_bits(numbers, prec)
    return certified(lambda nats: mean_of_lines((line,), nats + lost, numbers), numbers, prec, f"E[{f}]", lost_bits + within)


@dataclass(frozen=True)
class Law:
    """Variances, 1 - |correlation| and the sign of the correlation, and means."""

    v1: sp.Expr
    v2: sp.Expr
    eps: sp.Expr
    sign: int
    m1: sp.Expr
    m2: sp.Expr

    @property
    def covariance(self) -> sp.Expr:
        return self.sign * (1 - self.eps) * _root(self.v1, self.v2)


def _root(v1: sp.Expr, v2: sp.Expr) -> sp.Expr:
    return v1 if v1 == v2 else sp.sqrt(v1 * v2)


def law_of(v1: sp.Expr, cov: sp.Expr, v2: sp.Expr, m1: sp.Expr, m2: sp.Expr) -> Law:
    sign = -1 if cov.is_negative else 1
    return Law(v1, v2, 1 - sign * cov / _root(v1, v2), sign, m1, m2)


def _vanishes(first: Line, second: Line, prec: int) -> bool:
    """whether the product is 0 between all kinks: exactly so, by algebra, at points of every piece"""
    with mp.workprec(prec):
        kinks = sorted({k for line in (first, second) for k in line.marks(mp.mpf(prec)).kinks})
    ends = [-mp.mpf(prec), *kinks, mp.mpf(prec)] if kinks else []
    return bool(ends) and all(
        any(sp.sympify(_at(line, low + (high - low) * sp.Rational(k, 7))).is_zero for line in (first, second))
        for low, high in itertools.pairwise(map(_rational, ends))
        for k in (2, 3, 5)
    )


def _rational(t: mp.mpf) -> sp.Rational:
    return sp.Rational(str(mp.nstr(t, 15)))


def _at(line: Line, z: sp.Rational) -> sp.Expr:
    scale = sp.Rational(str(mp.nstr(line.sign * mp.sqrt(precise_number(line.variance)), 15)))
    return line.f.xreplace({x: line.mean + scale * z})


def product_mean_of(f: sp.Expr, g: sp.Expr, law: Law, prec: int) -> mp.mpf:
    """E f(u) g(v), to prec bits."""
    f, g = complemented(almost_everywhere(f)), complemented(almost_everywhere(g))
    numbers = numbers_for(f, g)
    if law.m1 == 0 and law.m2 == 0 and ((is_odd(f) and is_even(g)) or (is_even(f) and is_odd(g))):
        return mp.mpf(0)
    if law.eps == 0:
        one = f * g.xreplace({x: law.m2 + law.sign * sp.sqrt(law.v2 / law.v1) * (x - law.m1)})
        if left_of(one, law.m1, law.v1) is not None or are_fast((one, law.v1)):
            return mean_of(one, law.m1, law.v1, prec)
    ridge = _ridge(f, g, law)
    if ridge is not None:
        return certified(lambda nats: ridge.mean(nats, numbers), numbers, prec, f"E[{f * g.xreplace({x: y})}]")
    tilted = _tilted(f, g, law)
    if tilted is not None:
        factor, rest, parts = tilted
        with mp.workprec(prec + 20):
            return precise_number(factor) * product_mean_of(*parts, rest, prec + 20)
    if law.eps == 1:
        with mp.workprec(prec + 10):
            return mean_of(f, law.m1, law.v1, prec + 10) * mean_of(g, law.m2, law.v2, prec + 10)
    if are_fast((f, law.v1), (g, law.v2)):
        return product_mean_of_waves(Normal(f, law.m1, law.v1), Normal(g, law.m2, law.v2), law.eps, law.sign, prec)
    if not _steep(f, g, law) and _is_little(law, prec):
        return _little(f, g, law, prec)
    first, second = Line(f, law.m1, law.v1), Line(g, law.m2, law.v2, law.sign)
    if law.eps == 0 and _vanishes(first, second, prec):
        return mp.mpf(0)

    if law.eps != 0 and _steep(f, g, law):
        quadrants = partial(mean_over_quadrants, f, g, (law.v1, law.covariance, law.v2), (law.m1, law.m2))
        return certified(lambda nats: quadrants(nats, numbers), numbers, prec, f"E[{f * g.xreplace({x: y})}]")

    def run(nats: float) -> Number:
        eps = precise_number(law.eps)
        if eps >= NEAR:
            return mean_of_pair(first, second, eps, nats, numbers)
        value = mean_of_lines((first, second), nats, numbers)
        return value - mean_covariance(first, second, eps, nats, numbers) if eps > 0 else value

    lost = max(line.lost_bits(numbers, prec) for line in (first, second))
    return certified(run, numbers, prec, f"E[{f * g.xreplace({x: y})}]", _small(law.eps) + lost)


def _steep(f: sp.Expr, g: sp.Expr, law: Law) -> bool:
    """whether one of them grows so fast that its square has no mean"""
    return falls(f, 2 * law.v1) is False or falls(g, 2 * law.v2) is False


def _is_little(law: Law, prec: int) -> bool:
    """whether all but one power of the correlation are beyond the digits asked, as a rule"""
    with mp.workprec(60):
        return -int(mp.mag(precise_number(1 - law.eps))) > prec


def _little(f: sp.Expr, g: sp.Expr, law: Law, prec: int) -> mp.mpf:
    r"""\sum_n r^n/n! E[f(u) He_n] E[g(v) He_n] (Mehler 1866): what is left from n on is at most |r|^n/(1 - |r|) (E f^2 E g^2)^{1/2}"""
    with mp.workprec(prec + 20):
        parts = ((f, law.m1, law.v1), (g, law.m2, law.v2))
        most = mp.sqrt(mp.fprod(mean_of(h**2, mean, v, 60) for h, mean, v in parts))
        r, total = law.sign * precise_number(1 - law.eps), mp.mpf(0)
        for n in range(_POWERS):
            if total and 2 * abs(r) ** n * most <= mp.ldexp(abs(total), -prec - 2):
                return total
            total += r**n / mp.factorial(n) * mp.fprod(_against_hermite(h, n, mean, v, prec + 20) for h, mean, v in parts)
    raise ArithmeticError(
        f"E[{f * g.xreplace({x: y})}] cannot be told from 0 beside powers of the correlation, of which {_POWERS} are counted"
    )


def _against_hermite(h: sp.Expr, n: int, mean: sp.Expr, variance: sp.Expr, prec: int) -> mp.mpf:
    """E h(u) He_n((u - m)/s), 0 where its closed form is"""
    standard = sp.expand(h.xreplace({x: mean + sp.sqrt(variance) * x}) * sp.hermite_prob(n, x))
    form = None if standard.has(sp.DiracDelta) else closed.mean(standard)
    if form is not None and is_zero(form.xreplace({known("q"): S.One})):
        return mp.mpf(0)
    return mean_of(standard, S.Zero, S.One, prec)


def _ridge(f: sp.Expr, g: sp.Expr, law: Law) -> Ridge | None:
    """the direction in which the density falls just as fast as both grow, where the product has a mean; None where there is none"""
    if law.m1 != 0 or law.m2 != 0 or law.v1 != law.v2 or law.eps in (0, 1):
        return None
    rate = 1 / (2 * (law.v1 + sp.Abs(law.covariance)))
    first, second = ({end for end, a in rates(h) or () if (a - rate).is_zero} for h in (f, g))
    if not any(law.sign * end in second for end in first) or not pair_falls(f, g, (law.v1, law.covariance, law.v2)):
        return None
    return Ridge(rest_of(f, rate), rest_of(g, rate), law.sign, law.v1, sp.Abs(law.covariance))


def _tilted(f: sp.Expr, g: sp.Expr, law: Law) -> tuple[sp.Expr, Law, tuple[sp.Expr, sp.Expr]] | None:
    r"""E f(u) g(v) as a constant times that of e^{-a x^2} f and e^{-b x^2} g, of covariance S' = (S^{-1} - A)^{-1} and means m + S' A m,
    A = 2 diag(a, b), where one of them grows like that and the product has a mean; None elsewhere."""
    first, second = rates(f), rates(g)
    if first is None or second is None or not (grows(f) or grows(g)):
        return None
    a, b = (sp.Max(sp.S.Zero, *[rate for _, rate in found]) for found in (first, second))
    old, tilt = sp.Matrix([[law.v1, law.covariance], [law.covariance, law.v2]]), sp.diag(2 * a, 2 * b)
    left = sp.eye(2) - old * tilt
    if not (left.det().is_positive and (left[0, 0] + left[1, 1]).is_positive):
        return None
    new, means = (left.inv() * old).applyfunc(sp.expand), sp.Matrix([law.m1, law.m2])
    moved = means + new * tilt * means
    factor = sp.exp((means.T * tilt * moved)[0] / 2) / sp.sqrt(left.det())
    parts = (f * sp.exp(-a * x**2), g * sp.exp(-b * x**2))
    return factor, law_of(new[0, 0], new[0, 1], new[1, 1], moved[0], moved[1]), parts


def _small(eps: sp.Expr) -> int:
    """bits that a difference of values at a distance of sqrt(eps) loses"""
    with mp.workprec(60):
        value = precise_number(eps)
        return max(0, int(-mp.log(value, 2))) if 0 < value < NEAR else 0


def gap_of_pair(f: sp.Expr, variance: sp.Expr, delta: sp.Expr, prec: int) -> mp.mpf:
    """E f(u)^2 - E f(u) f(v) for covariance variance - delta, to prec bits of itself; next to v = -u as that of u and -v and what the odd
    part o of f adds, 2 E o(u) o(-v)."""
    if delta == 0:
        return mp.mpf(0)
    f = complemented(without_plateau(almost_everywhere(f)))
    ratio = delta / variance
    negative = bool((ratio - 1).is_positive)
    eps_exact = 2 - ratio if negative else ratio
    if negative and ((odd := odd_part(f)) == 0 or eps_exact < NEAR):
        near = gap_of_pair(f, variance, 2 * variance - delta, prec + 2)
        far = product_mean_of(odd, odd, Law(variance, variance, eps_exact, 1, sp.S.Zero, sp.S.Zero), prec + 2) if odd != 0 else mp.mpf(0)
        with mp.workprec(prec + 10):
            return near + 2 * far
    if are_fast((f, variance)):
        return _difference(f, law_of(variance, variance - delta, variance, sp.S.Zero, sp.S.Zero), prec)
    numbers = numbers_for(f)
    line = Line(f, sp.S.Zero, variance)
    other = line.mirrored() if negative else line
    brink = None if left_of(f**2, sp.S.Zero, variance) is None else Brink(rest_of(f, 1 / (4 * variance)), variance, delta)

    def run(nats: float) -> Number:
        eps = precise_number(eps_exact)
        if brink is not None:
            return brink.difference(nats, numbers)
        if eps >= NEAR or eps * line.onset(nats, numbers) ** 2 > _APART:
            # the panels of the second moment are good to e^-nats of it, of which the gap is at least about eps
            more = nats - 2 * math.log(NEAR) / 2
            return mean_of_lines((line, line), more, numbers) - mean_of_pair(line, other, eps, more, numbers)
        return mean_covariance(line, line, eps, nats, numbers)

    try:
        return certified(run, numbers, prec, f"the gap of {f}", _small(eps_exact))
    except Uncertain:  # of a function that grows far out the two means are tilted where what they are made of is not
        if not grows(f):
            raise
        return _difference(f, law_of(variance, variance - delta, variance, sp.S.Zero, sp.S.Zero), prec)


def _difference(f: sp.Expr, law: Law, prec: int) -> mp.mpf:
    """a gap as the difference of its two means, each of which is tilted by itself, to as many more bits as these have in common"""
    more = 10 + _small(law.eps)
    while more < _MOST_LOST:
        with mp.workprec(prec + more + 10):
            second = mean_of(f**2, sp.S.Zero, law.v1, prec + more)
            value = second - product_mean_of(f, f, law, prec + more)
            lost = mp.mag(second) - mp.mag(value) + 4 if value else 2 * more
        if lost <= more:
            return value
        more = lost + 10
    raise ArithmeticError(f"the gap of {f} cannot be told from 0 beside E f(u)^2, of which it is less than 2^-{_MOST_LOST}")


def nested_mean(f: sp.Expr, law: Law, prec: int) -> mp.mpf:
    """E f(u, v), f no product of functions of u and of v."""
    numbers = numbers_for(f)
    if f.has(sp.Max, sp.Min, sp.Abs, sp.sign, sp.Heaviside, sp.Piecewise):
        raise ArithmeticError(f"{f} has kinks along curves: its digits are known only for sums of products f(x) g(y)")

    def run(nats: float) -> Number:
        eps = precise_number(law.eps)
        s1, s2 = (mp.sqrt(precise_number(v)) for v in (law.v1, law.v2))
        m1, m2 = numbers.of(precise_number(law.m1)), numbers.of(precise_number(law.m2))
        a, b = numbers.of(s1), numbers.of(s2 * law.sign * (1 - eps))
        c = numbers.of(s2 * mp.sqrt(eps * (2 - eps)))
        function = numbers.function(f, (x, y))
        none = lambda bound: [Landmarks((), ((mp.mpf(0), mp.mpf(1)),))]  # noqa: E731

        def given(z: Number) -> Number:
            u, mean = m1 + a * z, m2 + b * z
            return function(u, mean) if eps == 0 else mean_of_function(lambda t: function(u, mean + c * t), none, nats, numbers)

        return mean_of_function(given, none, nats, numbers)

    return certified(run, numbers, prec, f"E[{f}]")
