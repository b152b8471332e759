"""Expressions with tables in the place of their expectations, whose functions then hold no parameter."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from meanfield.analysis.tables import BY_DIFFERENCE, BY_VARIANCE, Table, table_of
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.gaussian.special import NormalDensity
from meanfield.gaussian.standardised import standardised
from meanfield.numeric.unbounded import Unbounded, bounded_or_weighed, weighed
from meanfield.symbols import known

__all__ = ["along", "callables", "tabulated"]

Floats = NDArray[np.float64]
q, delta, x, y = known("q"), known("delta"), known("x"), known("y")


def tabulated(e: sp.Expr, tables: dict[str, Table]) -> sp.Expr | None:
    """The expression with tables for its expectations, which join `tables` by name; None where a parameter stays inside one."""

    def named(own: sp.Expr, *law: sp.Expr) -> sp.Expr:
        name = next((n for n, t in tables.items() if t.node == own), f"table_{len(tables)}")
        tables[name] = table_of(own)
        return sp.Function(name)(*law)

    def replaced(node: Node) -> sp.Expr:
        if isinstance(node, Expectation) and node.integrand.has(sp.DiracDelta):  # what jumps: its deltas take no quadrature
            plain = bounded_or_weighed(node.conditioned())
            return plain.replace(lambda t: isinstance(t, Node), replaced).replace(NormalDensity, lambda z: NormalDensity(z).definition())
        return sp.Add(*[c * one(term) for c, term in _without_parameters(node)])

    def one(term: sp.Expr) -> sp.Expr:
        number, node = term.as_independent(Node, as_Add=False)
        if not isinstance(node, Node):
            return term.replace(lambda t: isinstance(t, Node), one)
        args: tuple[sp.Expr, ...]
        if isinstance(node, PairExpectation):
            factor, plain, args = _pair(node)
        else:
            c, g, a = _plain(node.integrand)
            if isinstance(node, Gap):
                plain, factor, args = Gap(g, q, delta), c**2, (a**2 * node.args[1], a**2 * node.args[2])
            elif isinstance(node, Expectation) and node.mean == 0:
                plain, factor, args = Expectation(g, q), c, (a**2 * node.variance,)
            else:
                raise _Parametric
        plain, factor, args = _at_variance_1(plain, factor, args)
        coefficient, own = plain.as_independent(q, delta, as_Add=False)
        if not isinstance(own, Node):
            return number * factor * plain.xreplace(dict(zip((q, delta), args, strict=False)))
        return number * factor * coefficient * named(own, *args)

    try:
        return weighed(e.replace(lambda t: isinstance(t, Node), replaced))
    except _Parametric:
        return None


def along(e: sp.Expr, s: sp.Symbol) -> sp.Expr:
    """The derivative of an expression with tables in it; those of a table are named after it."""
    calls = {t: sp.Dummy("table", real=True) for t in e.atoms(AppliedUndef)}
    outer, back = e.xreplace(calls), {symbol: call for call, symbol in calls.items()}
    total = outer.diff(s)
    for symbol in sorted(outer.free_symbols & back.keys(), key=str):
        call = back[symbol]
        rates = zip((BY_VARIANCE, BY_DIFFERENCE), call.args, strict=False)
        inner = sp.Add(*[sp.Function(f"{call.func}{suffix}")(*call.args) * along(a, s) for suffix, a in rates])
        total += outer.diff(symbol) * inner
    return total.xreplace(back)


def _without_parameters(node: Node) -> list[tuple[sp.Expr, sp.Expr]]:
    """A node as a sum of c times nodes whose functions hold no parameter, where it is a polynomial in the parameters; itself elsewhere."""
    if isinstance(node, Gap):
        terms = _terms(node.integrand)
        total = sp.Add(*[c for c, _ in terms])
        alone = [(c * (2 * c - total), Gap(g, *node.args[1:])) for c, g in terms]
        return alone + [(c * k, Gap(f + g, *node.args[1:])) for (c, f), (k, g) in itertools.combinations(terms, 2)]
    if isinstance(node, PairExpectation):
        parts = node.separated()
        if parts is None:
            raise _Parametric
        pairs = itertools.product(*map(_terms, parts))
        return [(c * k, PairExpectation(f * g.xreplace({x: y}), *node.args[1:])) for (c, f), (k, g) in pairs]
    return [(c, Expectation(g, *node.args[1:])) for c, g in _terms(node.integrand)]


def _terms(f: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """f as a sum of c g(x), parameters in c only, where it is one; (1, f) elsewhere, or where they are a scale of x"""
    if not standardised(f)[1].free_symbols - {x}:
        return [(sp.S.One, f)]
    folded = sp.piecewise_fold(f)
    branches = folded.args if isinstance(folded, sp.Piecewise) else ((folded, sp.true),)
    found: dict[sp.Expr, list[sp.Expr]] = {}
    for i, (branch, condition) in enumerate(branches):
        for term in sp.Add.make_args(sp.expand(branch)):
            c, g = term.as_independent(x, as_Add=False)
            if condition.free_symbols - {x} or g.free_symbols - {x}:
                return [(sp.S.One, f)]
            number, c = c.as_coeff_Mul()
            found.setdefault(c, [sp.S.Zero] * len(branches))[i] += number * g
    conditions = [condition for _, condition in branches]
    return [(c, sp.Piecewise(*zip(values, conditions, strict=True))) for c, values in found.items()]


def _plain(f: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(c, g, a) with f(x) = c g(a x) and g free of parameters"""
    c, g, a = standardised(f)
    if g.free_symbols - {x} or g.has(sp.DiracDelta):
        raise _Parametric
    return c, g, a


def _pair(node: PairExpectation) -> tuple[sp.Expr, sp.Expr, tuple[sp.Expr, sp.Expr]]:
    """E f(u) g(v) of equal variances as a factor, the node of functions without parameters, and its variance and difference"""
    _, v, covariance, other, *means = node.args
    parts = node.separated()
    if parts is None or v != other or any(m != 0 for m in means):
        raise _Parametric
    (c, f, a), (k, g, b) = map(_plain, parts)
    if a != b:
        raise _Parametric
    plain = PairExpectation(f * g.xreplace({x: y}), q, q - delta, q)
    return c * k, plain, (a**2 * v, a**2 * sp.expand(v - covariance))


def _at_variance_1(node: sp.Expr, factor: sp.Expr, law: tuple[sp.Expr, ...]) -> tuple[sp.Expr, sp.Expr, tuple[sp.Expr, ...]]:
    """A gap of f with f(t x) = t^k f(x), t > 0, as v^k times that at variance 1, whose table has one variable."""
    degree = homogeneous_degree(node.integrand) if isinstance(node, Gap) else None
    return (node, factor, law) if degree is None else (node.xreplace({q: sp.S.One}), factor * law[0] ** degree, (sp.S.One, law[1] / law[0]))


def callables(tables: dict[str, Table]) -> dict[str, Callable[..., Floats]]:
    """What the names in expressions stand for."""
    own: dict[str, Callable[..., Floats]] = {**tables, Unbounded.__name__: _unbounded}
    for name, table in tables.items():
        own |= {f"{name}{BY_VARIANCE}": table.by_variance, f"{name}{BY_DIFFERENCE}": table.by_difference}
    return own


def _unbounded(weight: Floats) -> Floats:
    """w times infinity, 0 at w = 0"""
    return np.where(weight == 0, 0.0, np.where(weight == 0, 1.0, weight) * np.inf)


class _Parametric(Exception):
    """An expectation holds a parameter that varies over the grid, or is no plain mean, gap or product."""
