r"""Leading powers as a gain goes to 0 or to infinity: e ~ c \lambda^k, rule by rule.

The power k is exact. Everything but the gain has a generic value, so that the coefficient c is a number: whether leading terms of a sum
cancel, and which sign an exponent has, is then seen. Expectations are those of the leading power of their function where these do not
vanish, and the first term of their expansion where they do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce, singledispatch

import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.local_expansions import at_infinity, at_zero
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.gaussian.smoothness import branch, edges
from meanfield.symbols import known

__all__ = ["CANCELLED", "Term", "Undetermined", "leading", "leading_power", "of_node", "shrinks"]

q, p, x, y = (known(name) for name in ("q", "p", "x", "y"))

#: coefficient and power; a coefficient that is NaN says that all that is known is that the expression is small against that power
Term = tuple[float, sp.Expr]
#: part of its largest term below which a sum counts as cancelled
CANCELLED = 1e-9


class Undetermined(Exception):
    """The leading power does not follow from the rules; the message says where."""


def leading(e: sp.Expr, terms: Mapping[sp.Expr, Term], point: sp.Expr) -> Term:
    """c and k with e ~ c gain^k as the gain goes to `point`, 0 or oo, in terms of those of the symbols in e.

    k is infinite where e decays or grows exponentially. Where leading terms of a sum cancel c is NaN, e = o(gain^k): enough beside larger
    terms.
    """
    if e.free_symbols.isdisjoint(terms):
        return _number(e), S.Zero
    if e in terms:
        return terms[e]
    if isinstance(e, Node):
        if not e.args[0].free_symbols.isdisjoint(terms):
            raise Undetermined(f"the function under {e} depends on the gain itself")
        law = [leading(a, terms, point) for a in e.args[1:] if isinstance(a, sp.Expr)]
        cancelled = any(math.isnan(c) for c, _ in law)
        if isinstance(e, Expectation) and (cancelled or not e.args[0].has(sp.DiracDelta)) and _is_narrow(law[0], law[1], point):
            return _at_mean(e.args[0], *law[1], point)
        if cancelled:
            raise Undetermined(f"the leading terms of a moment of {e} cancel")
        return of_node(e, law, point)
    if isinstance(e, sp.Pow) and e.exp.free_symbols.isdisjoint(terms):
        return _power(*leading(e.base, terms, point), e.exp)
    if isinstance(e, sp.Mul):
        return reduce(_product, [leading(a, terms, point) for a in e.args])
    if isinstance(e, sp.Add):
        return _sum([leading(a, terms, point) for a in e.args], point)
    if len(e.args) == 1:
        return _of_function(e, *leading(e.args[0], terms, point), point)
    raise Undetermined(f"no rule for {e.func.__name__}")


def _number(e: sp.Expr) -> float:
    value = complex(sp.N(e, 20))
    if value.imag or not math.isfinite(value.real):
        raise Undetermined(f"{e} is no finite real number")
    return value.real


def _power(c: float, k: sp.Expr, exponent: sp.Expr) -> Term:
    if c == 0 or (c < 0 and not exponent.is_Integer) or (math.isnan(c) and not exponent.is_positive):
        raise Undetermined(f"the power {exponent} of {c}")
    return c ** float(exponent), k * exponent


def _product(a: Term, b: Term) -> Term:
    if (a[1] + b[1]) is S.NaN:
        raise Undetermined("a product of what grows and what decays exponentially")
    return a[0] * b[0], a[1] + b[1]


def _sum(terms: list[Term], point: sp.Expr) -> Term:
    terms = [t for t in terms if t[0] != 0] or terms[:1]
    k = (sp.Min if point == 0 else sp.Max)(*(k for _, k in terms))
    chosen = [c for c, other in terms if other == k and not math.isnan(c)]
    total = math.fsum(chosen)
    if not chosen or abs(total) < CANCELLED * max(map(abs, chosen)):
        return math.nan, k
    return total, k


def shrinks(k: sp.Expr, point: sp.Expr) -> bool:
    """Whether the k-th power of a gain that goes to `point` goes to 0."""
    return bool(k > 0) if point == 0 else bool(k < 0)


def _of_function(e: sp.Expr, c: float, k: sp.Expr, point: sp.Expr) -> Term:
    """of one argument: its value where the argument has a limit, its first derivative where that value is 0"""
    z = sp.Dummy("z", real=True)
    if math.isnan(c):
        value = e.func(S.Zero)
        if not (k == 0 or shrinks(k, point)) or value == 0:
            raise Undetermined(f"the leading terms of the argument of {e} cancel")
        return _number(value), S.Zero
    if k == 0:
        return _number(e.func(sp.Float(c, 20))), S.Zero
    if shrinks(k, point):
        value = e.func(S.Zero)
        if value != 0:
            return _number(value), S.Zero
        slope = e.func(z).diff(z).subs(z, 0)
        if slope == 0 or not slope.is_finite:
            raise Undetermined(f"{e.func.__name__} near 0")
        return _number(slope) * c, k
    sign = 1 if c > 0 else -1
    if isinstance(e, sp.exp):
        return 1.0, sign * (S.Infinity if point == S.Infinity else S.NegativeInfinity)
    value = sp.limit(e.func(z), z, sign * S.Infinity)
    if value.is_finite and value != 0:
        return _number(value), S.Zero
    raise Undetermined(f"{e.func.__name__} at infinity")


def leading_power(f: sp.Expr, k: sp.Expr, point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The leading power of f, on both sides of 0, where its argument has a standard deviation of power k; and its exponent."""
    if (own := homogeneous_degree(f)) is not None:
        return f, own
    near = shrinks(k, point)
    try:
        sides = [at_zero(side, 3) if near else at_infinity(side, 1) for side in (f, f.xreplace({x: -x}))]
    except NoExpansion as reason:
        raise Undetermined(f"{f}: {reason}") from None
    powers = [a for side in sides for a, c in side.items() if c != 0]
    if not powers:
        raise Undetermined(f"{f} has no leading power")
    a = min(powers) if near else max(powers)
    right, left = (side.get(a, S.Zero) for side in sides)
    if right.has(LOG) or left.has(LOG):
        raise Undetermined(f"{f} has a logarithm in its leading term")
    if a.is_Integer and left == (-1) ** a * right:
        return right * x**a, a
    if a == 0:
        return sp.Piecewise((left, x < 0), (right, True)), a
    return right * sp.Max(x, 0) ** a + left * sp.Max(-x, 0) ** a, a


@singledispatch
def of_node(e: sp.Expr, law: list[Term], point: sp.Expr) -> Term:
    """The leading term of an expectation whose law has these, by kind of node."""
    raise Undetermined(f"no rule for {type(e).__name__}")


def _is_narrow(variance: Term, mean: Term, point: sp.Expr) -> bool:
    """whether the deviation is small against the mean"""
    (c, k), (m, slope) = variance, mean
    if math.isnan(m) or m == 0:
        return False
    return shrinks(k - 2 * slope, point) or (math.isnan(c) and k == 2 * slope)


def _at_mean(f: sp.Expr, m: float, slope: sp.Expr, point: sp.Expr) -> Term:
    """the leading power of f at a mean with this leading term, where it has no kink"""
    f, a = leading_power(f, 2 * slope, point) if slope != 0 else (f, S.Zero)
    at = {x: sp.Float(m, 20)}
    kinks = [*edges(f), *(delta.args[0] for delta in f.atoms(sp.DiracDelta))]
    if any(abs(_number(kink.xreplace(at))) < CANCELLED for kink in kinks):
        raise Undetermined(f"{f} has a kink at the mean")
    value = _number(branch(f, at[x]).xreplace(at))
    return value if abs(value) > CANCELLED else math.nan, a * slope


@of_node.register
def _(e: Expectation, law: list[Term], point: sp.Expr) -> Term:
    (c, k), (m, slope) = law
    if e.args[0].has(sp.DiracDelta):
        v, mean = sp.Dummy("v", positive=True), sp.Dummy("m", real=True) if e.mean != 0 else S.Zero
        return leading(Expectation(e.args[0], v, mean).conditioned(), {v: law[0], mean: law[1]}, point)
    beside = e.mean != 0 and shrinks(2 * slope - k, point)  # a mean that is small against the deviation
    mean = sp.Float(m, 20) if e.mean != 0 and not beside else S.Zero
    if k == 0:
        value, a = _number(Expectation(e.args[0], sp.Float(c, 20), mean)), S.Zero
        if not beside:
            return value, a
    else:
        try:
            f, a = leading_power(e.args[0], k, point)
            value = _number(Expectation(f, sp.Float(c, 20), mean))
        except Undetermined:
            if e.mean != 0:
                raise
            value = 0.0
    if abs(value) > CANCELLED:
        return value, a * k / 2
    if e.mean != 0:
        raise Undetermined(f"the leading term of {e} vanishes")
    return _expanded(Expectation(e.args[0], q), (c,), k, point)


def _expanded(node: sp.Expr, law: tuple[float, ...], k: sp.Expr, point: sp.Expr) -> Term:
    """the first term of a node's expansion in its variance, which goes to 0 or to infinity"""
    constant, node = node.as_coeff_Mul()
    try:
        terms = node.taylor(4).terms if shrinks(k, point) else node.asymptotic(2).terms
    except ValueError as reason:
        raise Undetermined(f"{node}: {reason}") from None
    if not terms or terms[0][0].has(sp.log):
        raise Undetermined(f"{node} has no leading power")
    (part, power) = terms[0]
    if len(law) == 1:
        return _number(constant * part) * law[0] ** float(power), k * power
    return _number(constant * part.subs({q: sp.Float(law[0], 20), p: sp.Float(law[1], 20)}, simultaneous=True)), k * power


@of_node.register
def _(e: PairExpectation, law: list[Term], point: sp.Expr) -> Term:
    (c1, k1), (c, k), (c2, k2) = law[:3]
    parts = e.separated()
    if parts is None or any(m != 0 for m in e.args[4:]):
        raise Undetermined(f"{e} is no centred product f(x) g(y)")
    if e.args[2] == 0:
        return _product(
            *[of_node(Expectation(f, q), [term, (0.0, S.Zero)], point) for f, term in zip(parts, (law[0], law[2]), strict=True)]
        )
    if not (k1 == k2 == k):
        raise Undetermined(f"the moments of {e} have the powers {k1}, {k} and {k2}")
    moments = [sp.Float(v, 20) for v in (c1, c, c2)]
    if k == 0:
        return _number(PairExpectation(e.args[0], *moments)), S.Zero
    try:
        (f, a), (g, b) = (leading_power(part, k, point) for part in parts)
        value = _number(PairExpectation(f * g.xreplace({x: y}), *moments))
        if abs(value) > CANCELLED:
            return value, (a + b) * k / 2
    except Undetermined:
        pass
    if c1 != c2:
        raise Undetermined(f"the variances of {e} differ")
    return _expanded(PairExpectation(e.args[0], q, p, q), (c1, c), k, point)


@of_node.register
def _(e: Gap, law: list[Term], point: sp.Expr) -> Term:
    f, v, gap = e.args[0], sp.Dummy("v", positive=True), sp.Dummy("gap", positive=True)
    difference = Expectation(f**2, v) - PairExpectation(f * f.xreplace({x: y}), v, v - gap, v)
    return leading(difference, {v: law[0], gap: law[1]}, point)
