r"""Correlations that a repeat keeps exactly, whatever the variance: c = 0 and c = -1 where functions are odd and no bias is added.

Rounding puts ln (1 - c')/(1 - c) there on either side of zero, so that no search can tell; the formulas can. E f(u) f(v) of
independent variables is (E f)^2, and 0 for an odd f; that of opposite ones is -E f^2 then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sympy as sp
from sympy import Rational, S

from meanfield.analysis.derivatives import Name
from meanfield.analysis.maps import StepMap
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.parities import is_odd
from meanfield.gaussian.softmax import SoftmaxMean
from meanfield.gaussian.zeros import vanishes
from meanfield.symbols import known

__all__ = ["INDEPENDENT", "OPPOSITE", "exact_correlations"]

q, delta, x = known("q"), known("delta"), known("x")
#: 1 - c of independent and of opposite variables
INDEPENDENT, OPPOSITE = 1, 2


def exact_correlations(step: StepMap, values: Mapping[str, Any]) -> tuple[int, ...]:
    """Which of 1 - c = 1 and 2 a repeat leaves as they are at every variance, with these values of parameters and any of the others."""
    own = tuple((s, sp.Rational(values[s.name])) for s in step.recursion.parameters if s.name in values)
    return tuple(gap for gap in (INDEPENDENT, OPPOSITE) if _keeps(step, own, gap))


@lru_cache(maxsize=1024)
def _keeps(step: StepMap, values: tuple[tuple[sp.Symbol, sp.Rational], ...], gap: int) -> bool:
    """whether delta = gap q goes to delta' = gap q' in each stage"""
    put = dict(values)
    for new_q, new_delta in step.stages:
        if any(e.has(Name) for e in (new_q, new_delta)):  # moments of many tokens: these mix
            return False
        here = (new_delta - gap * new_q).subs(delta, gap * q).subs(put, simultaneous=True)
        here = here.replace(lambda t: isinstance(t, Node), _simpler)
        if not (vanishes(_with_letters(_somewhere(here))) and vanishes(sp.expand(sp.together(_with_letters(sp.expand(here)))))):
            return False
    return True


def _somewhere(e: sp.Expr) -> sp.Expr:
    """the expression at a place that nobody chooses, where equal variances are equal numbers: what is not 0 there need not be expanded"""
    return e.xreplace({s: Rational(613 + 97 * i, 1024 + i) for i, s in enumerate(sorted(e.free_symbols, key=str))})


def _with_letters(e: sp.Expr) -> sp.Expr:
    """the expression with letters for what is not elementary"""
    return e.xreplace({t: sp.Dummy(str(i)) for i, t in enumerate(sorted(e.atoms(Node, SoftmaxMean), key=str))})


def _simpler(node: Node) -> sp.Expr:
    """a node of independent or opposite variables as means over one, itself elsewhere"""
    if isinstance(node, Expectation):
        f, variance, mean = node.args
        return _mean(f, variance) if mean == 0 else node
    if isinstance(node, Gap):
        f, variance, gap = node.args
        product = _product(f, f, variance, variance - gap)
        return node if product is None else _mean(f**2, variance) - product
    if isinstance(node, PairExpectation) and (parts := node.separated()) is not None:
        _, variance, covariance, other, *means = node.args
        product = _product(*parts, variance, covariance) if variance == other and means == [0, 0] else None
        return node if product is None else product
    return node


def _product(f: sp.Expr, g: sp.Expr, variance: sp.Expr, covariance: sp.Expr) -> sp.Expr | None:
    """E f(u) g(v) of independent or of opposite variables, None of others"""
    if sp.expand(covariance) == 0:
        return _mean(f, variance) * _mean(g, variance)
    return _mean(f * _mirrored(g), variance) if sp.expand(covariance + variance) == 0 else None


def _mean(f: sp.Expr, variance: sp.Expr) -> sp.Expr:
    return S.Zero if is_odd(f) else sp.Add(*[Expectation(term, variance) for term in sp.Add.make_args(sp.expand(f))])


def _mirrored(f: sp.Expr) -> sp.Expr:
    """f(-x)"""
    return -f if is_odd(f) else f.xreplace({x: -x})
