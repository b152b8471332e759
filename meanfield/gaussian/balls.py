r"""Rigorous enclosures, by ball arithmetic (Johansson 2017; python-flint): of a closed form at a point, and of E f(u) by integration.

An enclosure that excludes 0 refutes an identity; one that contains 0 with a small radius bounds its error.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy as sp

from meanfield.gaussian.atoms import Atom
from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.pieces import pieces_of
from meanfield.gaussian.quadrant_waves import BivariateCosineCDF, BivariateSineCDF
from meanfield.gaussian.special import BivariateDensity, BivariateNormalCDF, NormalCDF, NormalDensity
from meanfield.symbols import known

__all__ = ["NoBall", "available", "enclosure", "enclosures", "mean_enclosure", "precision"]

x = known("x")

Values = Mapping[sp.Basic, Any]


class NoBall(ArithmeticError):
    """No enclosure: a function that balls do not know, or no finite ball."""


def available() -> bool:
    """Whether python-flint is installed."""
    return importlib.util.find_spec("flint") is not None


def precision(digits: int) -> Any:
    """A context in which balls carry that many digits."""
    return importlib.import_module("flint").ctx.workdps(digits)


def _normal(z: Any, flint: Any) -> Any:
    return (-z / flint.arb(2).sqrt()).erfc() / 2


def _half_wave(h: Any, k: Any, flint: Any) -> Any:
    return (-k * k / 2).exp() * _normal(h - k * flint.acb(0, 1), flint)


def _bivariate(h: Any, k: Any, r: Any, flint: Any) -> Any:
    """Plackett's integral from r = 0"""

    def density(t: Any, _: bool) -> Any:
        c = t.cos()
        return (-(h * h - 2 * h * k * t.sin() + k * k) / (2 * c * c)).exp()

    integral = flint.acb.integral(density, 0, r.real.asin(), eval_limit=10**6, depth_limit=10**4)
    return _normal(h, flint) * _normal(k, flint) + integral / (2 * flint.arb.pi())


def _quadrant_wave(h: Any, k: Any, a: Any, b: Any, r: Any, flint: Any) -> Any:
    """The integral over X of half waves of Y, all below the density of X, so that nothing cancels: what is cut off lies below its CDF"""
    turn, d = flint.acb(0, 1), (1 - r * r).sqrt()
    low = h.real.lower().min(0) - (2 * flint.arb(2).log() * flint.ctx.prec).sqrt()

    def integrand(z: Any, _: bool) -> Any:
        return (-z * z / 2 + turn * (a + b * r) * z).exp() * _half_wave((k - r * z) / d, b * d, flint)

    integral = flint.acb.integral(integrand, flint.acb(low), h, abs_tol=flint.arb(0), eval_limit=10**6, depth_limit=10**4)
    cut = flint.arb(0, _normal(flint.acb(low), flint).real.upper())
    return integral / (2 * flint.arb.pi()).sqrt() + flint.acb(cut, cut)


def _functions(flint: Any) -> dict[type, Callable[..., Any]]:
    half = flint.arb(1) / 2
    return {
        sp.exp: lambda z: z.exp(),
        sp.Abs: lambda z: flint.acb(abs(z)),
        sp.Max: lambda *parts: flint.acb(reduce(lambda a, b: a.max(b), [z.real for z in parts])),
        sp.Min: lambda *parts: flint.acb(reduce(lambda a, b: a.min(b), [z.real for z in parts])),
        sp.erf: lambda z: z.erf(),
        sp.erfc: lambda z: z.erfc(),
        sp.erfi: lambda z: z.erfi(),
        sp.sin: lambda z: z.sin(),
        sp.cos: lambda z: z.cos(),
        sp.sinh: lambda z: z.sinh(),
        sp.cosh: lambda z: z.cosh(),
        sp.asin: lambda z: z.asin(),
        sp.acos: lambda z: z.acos(),
        sp.log: lambda z: z.log(),
        sp.gamma: lambda z: z.gamma(),
        NormalCDF: lambda z: _normal(z, flint),
        CosineNormalCDF: lambda h, k: flint.acb(_half_wave(h, k, flint).real),
        SineNormalCDF: lambda h, k: flint.acb(_half_wave(h, k, flint).imag),
        BivariateNormalCDF: lambda h, k, r: _bivariate(h, k, r, flint),
        sp.Add: lambda *args: sum(args[1:], args[0]),
        sp.Mul: lambda *args: _product(args),
        sp.Heaviside: lambda z, _: half * (1 + z.real.sgn()),
    }


def _product(factors: tuple[Any, ...]) -> Any:
    result = factors[0]
    for f in factors[1:]:
        result = result * f
    return result


def enclosure(e: sp.Basic, values: Values) -> Any:
    """A complex ball that holds the value of an expression, its symbols set to exact rationals or to balls."""
    return enclosures((e,), values)[0]


def enclosures(several: Sequence[sp.Basic], values: Values) -> list[Any]:
    """The same of several expressions, what they share once."""
    flint = importlib.import_module("flint")
    functions = _functions(flint)
    cache: dict[sp.Basic, Any] = {}
    waves: dict[tuple[sp.Basic, ...], Any] = {}

    def of(t: sp.Basic) -> Any:
        if t not in cache:
            cache[t] = compute(t)
        return cache[t]

    def compute(t: Any) -> Any:
        if t in values:
            v = values[t]
            return of(v) if isinstance(v, sp.Basic) else v
        if t.is_Rational:
            return flint.acb(int(t.p)) / int(t.q)
        if t is sp.I:
            return flint.acb(0, 1)
        if t is sp.pi:
            return flint.acb.pi()
        if t is sp.S.Exp1:
            return flint.acb(1).exp()
        if t.is_Pow and t.exp.is_Integer:
            return of(t.base) ** int(t.exp)
        if t.is_Pow and (2 * t.exp).is_Integer:
            return of(t.base).sqrt() ** int(2 * t.exp)
        if isinstance(t, (NormalDensity, BivariateDensity)) or (t.is_NumberSymbol and hasattr(t, "definition")):
            return of(t.definition())
        if t.is_Pow:
            return of(t.base) ** of(t.exp)
        if isinstance(t, sp.hyper) and (len(t.ap), len(t.bq)) == (2, 1):
            return of(t.argument).hypgeom_2f1(*(of(a) for a in (*t.ap, *t.bq)))
        if isinstance(t, (BivariateCosineCDF, BivariateSineCDF)):
            if t.args not in waves:
                h, k, a, b, r = map(of, t.args)
                waves[t.args] = _quadrant_wave(h, k, a, b, r, flint)
            return flint.acb(waves[t.args].imag if t.part else waves[t.args].real)
        rule = functions.get(type(t)) or functions.get(t.func)
        if rule is None:
            raise NoBall(f"{t.func.__name__} has no ball arithmetic here")
        return rule(*[of(a) for a in t.args])

    return [of(e) for e in several]


def mean_enclosure(f: sp.Expr, atoms: tuple[Atom, ...], variance: sp.Rational, values: Values) -> Any:
    """A ball that holds E f(u), u ~ N(0, variance), f the sum of the atoms: integrated piece by piece, the tails bounded by the atoms."""
    flint = importlib.import_module("flint")
    q = enclosure(variance, {}).real
    weights = [(abs(enclosure(t.c, values)), t.k, abs(enclosure(t.B, values))) for t in atoms]
    aim = flint.arb(2) ** (-flint.ctx.prec)
    steepest = max((enclosure(-t.A, values).real.upper() for t in atoms if sp.re(t.A).is_negative), default=flint.arb(0))
    wide = q / (1 - steepest * q)  # the variance of a Gaussian that grows times the density
    reach = 8 * (wide.sqrt() + 1).upper()
    while True:  # beyond `reach` each |atom| x density falls at least like exp(-x^2/(4 wide))
        falls = all(reach / (2 * wide) > k / reach + b for _, k, b in weights)
        tail = sum((c * reach**k * (b * reach - reach * reach / (2 * wide)).exp() for c, k, b in weights), flint.arb(0)) * 4 * wide / reach
        if falls and tail < aim:
            break
        reach = (reach * 5 / 4).mid()
    cuts, pieces = pieces_of(f)
    ends = [-reach, *(enclosure(c, values).real for c in cuts), reach]
    total = flint.acb(0)
    for piece, low, high in zip(pieces, ends[:-1], ends[1:], strict=True):

        def integrand(z: Any, _: bool, piece: sp.Expr = piece) -> Any:
            return enclosure(piece, {**values, x: z}) * (-(z * z) / (2 * q)).exp()

        total += flint.acb.integral(integrand, flint.acb(low), flint.acb(high), eval_limit=10**6, depth_limit=10**4)
    return total.real / (2 * flint.arb.pi() * q).sqrt() + flint.arb(0, tail.upper())
