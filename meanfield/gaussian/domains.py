"""Where an activation is real and has a value: for every x, and for which values of its parameters."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp
from sympy.codegen.cfunctions import expm1, log1p

from meanfield.gaussian.growth import sampled
from meanfield.gaussian.pieces import NotClosed, uncovered
from meanfield.gaussian.special import NormalCDF, NormalDensity, ScaledErfc
from meanfield.symbols import known, real

__all__ = ["declared", "filled", "unreal_at", "without_reciprocals", "written_in_known"]

x = known("x")

#: where it is looked whether a function is real: points, and beside them where it is infinite, and values of a parameter
_POINTS = tuple(sp.Rational(k, 3) for k in (-41, -4, -1, 1, 5, 37))
_BESIDE = sp.Rational(1, 10**6)
_VALUES = tuple(map(sp.Rational, ("-20", "-3", "-1/7", "1/7", "3", "20")))


#: functions of x that kernels, quadrature and digits know
_KNOWN = (
    *(sp.exp, sp.log, sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan, sp.sinh, sp.cosh, sp.tanh, sp.asinh, sp.acosh, sp.atanh),
    *(sp.erf, sp.erfc, sp.gamma, sp.Abs, sp.sign, sp.arg, sp.Max, sp.Min, sp.Heaviside, sp.Piecewise, sp.DiracDelta),
    *(NormalCDF, NormalDensity, ScaledErfc, expm1, log1p),
)
#: the same by others
_OTHERWISE = {sp.sech: sp.cosh, sp.csch: sp.sinh, sp.sec: sp.cos, sp.csc: sp.sin, sp.coth: sp.tanh, sp.cot: sp.tan}
#: functions with jumps or kinks at every whole number
_ENDLESS = (sp.floor, sp.ceiling, sp.frac, sp.Mod)


def written_in_known(f: sp.Expr) -> sp.Expr:
    """The function in those that have numbers: sinc as a quotient, 1/cosh(x) for sech(x).

    Raises
    ------
    ValueError
        It holds another function of x.
    """
    f = f.replace(sp.sinc, lambda z: sp.Piecewise((sp.sin(z) / z, sp.Ne(z, 0)), (1, True)))
    f = without_reciprocals(f)
    for t in sorted(f.atoms(sp.Function), key=str):
        if isinstance(t, _ENDLESS) and t.has(x):
            raise ValueError(
                f"expression = {f}: {t} jumps without end, which no quadrature follows: write the steps that count as a sum, as "
                f"Heaviside(x - 1) + Heaviside(x - 2), or a smooth or triangular wave in sin and cos, as acos(cos(2*pi*x))/(2*pi)"
            )
        if t.has(x) and not isinstance(t, _KNOWN):
            plain = (k for k in _KNOWN if k is not sp.DiracDelta and k.__module__.startswith("sympy.functions"))
            names = ", ".join(sorted(k.__name__ for k in plain))
            raise ValueError(f"expression = {f}: {type(t).__name__} of x has no numeric form: an activation is written in powers, {names}")
    return f


def without_reciprocals(f: sp.Expr) -> sp.Expr:
    """f with 1/cosh for sech, and so on.

    >>> without_reciprocals(x * sp.coth(x))
    x/tanh(x)
    """
    return f.replace(lambda t: type(t) in _OTHERWISE, lambda t: 1 / _OTHERWISE[type(t)](*t.args))


def filled(f: sp.Expr) -> sp.Expr:
    """The function with the last condition of each Piecewise dropped, where nothing but single points is left out.

    Raises
    ------
    ValueError
        A Piecewise has no value on an interval.
    """
    open_ended = {t for t in f.atoms(sp.Piecewise) if t.args[-1].cond != sp.true and t.has(x)}
    for t in open_ended:
        try:
            hole = uncovered(t)
        except NotClosed:
            hole = next((p for p in _POINTS if t.xreplace({x: p}).has(sp.nan)), None)
        if hole is not None:
            raise ValueError(f"expression = {f}: {t} has no value at x = {hole}: end it with (..., True)")
    return f.xreplace({t: t.func(*t.args[:-1], (t.args[-1].expr, True)) for t in open_ended})


def declared(f: sp.Expr) -> sp.Expr:
    """The function with each parameter declared non-negative, or positive, where it is real only then: sqrt(a) tanh(x).

    Raises
    ------
    ValueError
        It is not real at some point, or at values of a parameter that cannot be told by their sign.
    """
    if real(f).is_real:
        return f
    place = unreal_at(f)
    if place is not None:
        raise ValueError(f"expression = {f}: an activation is real on the whole real line, and at x = {place} this one is not")
    for s in sorted(_doubtful(real(f)), key=str):
        own = next(t for t in f.free_symbols if real(t) == s)
        tried = {v: _is_real(f, {own: v}) for v in _VALUES if _suits(s, v)}
        if all(tried.values()):
            continue
        if s.is_nonnegative or s.is_nonpositive or not all(fine for v, fine in tried.items() if v > 0):
            bad = next(v for v, fine in tried.items() if not fine)
            raise ValueError(
                f"expression = {f}: an activation is real, and at {s} = {bad} this one is not: "
                f"write it in parameters of which every value, or every positive one, is allowed"
            )
        word = "nonnegative" if _is_real(f, {own: sp.S.Zero}) else "positive"
        f = f.xreplace({own: sp.Symbol(s.name, **own._assumptions_orig, **{word: True})})
    return f


def _doubtful(f: sp.Expr) -> set[sp.Symbol]:
    """the parameters of roots, logarithms and other parts that are not known to be real"""
    parts = (t for t in f.atoms(sp.Pow, sp.Function) if not t.is_real and not (t.is_Pow and t.exp.is_Integer))
    return {s for t in parts for s in t.free_symbols} - {x}


def _suits(s: sp.Symbol, v: sp.Rational) -> bool:
    """whether a symbol may have a value, as far as it is declared"""
    return not (s.is_nonnegative and v < 0) and not (s.is_nonpositive and v > 0) and not (s.is_integer and not v.is_integer)


def _is_real(f: sp.Expr, values: Mapping[sp.Symbol, sp.Expr]) -> bool:
    """whether f is real at a few points on both sides of 0, its other parameters at small values"""
    return unreal_at(f.xreplace({**sampled(f), **values})) is None


def unreal_at(f: sp.Expr) -> sp.Rational | None:
    """The first of a few points on both sides of 0 at which f is not real, nor without a value between reals, parameters at small values;
    None if it is at all."""
    at = f.xreplace(sampled(f))

    def fits(point: sp.Rational) -> bool:
        value = at.subs(x, point)
        beside = [at.subs(x, point + side * _BESIDE) for side in (-1, 1)] if value.has(sp.nan, sp.zoo, sp.oo, -sp.oo) else [value]
        return value.has(sp.DiracDelta) or all(map(_has_real_value, beside))

    return next((p for p in sorted(_POINTS, key=abs) if not fits(p)), None)


def _has_real_value(v: sp.Expr) -> bool:
    number = sp.N(v, 15)
    return number not in (sp.nan, sp.zoo) and (sp.Abs(sp.im(number)) <= 1e-10 * sp.Abs(number)) == sp.true
