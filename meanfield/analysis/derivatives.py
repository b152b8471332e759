r"""Derivatives of the formulas of a step by q and delta, and what they are on identical inputs; long formulas keep names for their parts.

A law with moments of many tokens is a few hundred formulas, each in terms of others; put into one another they would be millions of
terms. `Name` is a symbol that knows what it stands for, `Moment` one for such a moment or a slope of it: derivatives go through them by the
chain rule, and what they stand for is computed once (`meanfield.analysis.maps.values_of`).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import sympy as sp

from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.guards import is_infinite
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.slopes import slope
from meanfield.gaussian.tangents import gap_by_gap, gap_by_variance
from meanfield.symbols import known

__all__ = [
    "Moment",
    "Name",
    "at_variance",
    "derivative",
    "differentiated",
    "identical",
    "infinite",
    "named",
    "ordered",
    "shortened",
    "unnested",
]

#: operations of a sum that gets a name in a long expression
LONG = 12

q, p, delta, x = known("q"), known("p"), known("delta"), known("x")


class Name(sp.Dummy):
    """A symbol for `value`, an expression in q, delta, parameters and other names."""

    __slots__ = ("value",)
    value: sp.Expr

    @classmethod
    def of(cls, label: str, value: sp.Expr, **assumptions: bool) -> sp.Expr:
        """The symbol, or the value itself where that is short."""
        if value.is_Atom:
            return value
        symbol = cls(label, **(assumptions or {"real": True}))
        symbol.value = value
        return symbol


class Moment(Name):
    """A symbol for a moment (`along` 0), or for its slope by its variance (1) or by its gap (2)."""

    __slots__ = ("along",)
    value: Exchangeable
    along: int


@lru_cache(maxsize=4096)
def _moments(node: Exchangeable) -> tuple[Moment, ...]:
    """the symbols of a moment and of its slopes"""
    label = "_".join(["moment", *(f"{i}{j}" for i, j in node.powers), *["spread"] * node.spread])
    found = []
    for along, ending in enumerate(("", "_by_variance", "_by_gap")):
        found.append(Moment(label + ending, real=True))
        found[-1].value, found[-1].along = node, along
    return tuple(found)


def shortened(e: sp.Expr) -> sp.Expr:
    """The expression with symbols for moments of many tokens."""
    return rewritten(e, lambda t: isinstance(t, Exchangeable), lambda t: _moments(t)[0])


def named(e: sp.Expr) -> sp.Expr:
    """A long expression in names for its sums: each is short."""
    return rewritten(e, lambda t: t.is_Add and sp.count_ops(t) > LONG and bool(t.free_symbols), lambda t: Name.of("part", t))


def unnested(expressions: tuple[sp.Expr, ...]) -> tuple[sp.Expr, ...]:
    """Expressions with names for the expectations on which the laws of others hang: their cases would be multiplied out in the conditions
    of these."""
    done: dict[tuple[sp.Basic, bool], sp.Basic] = {}

    def walk(t: sp.Basic, within: bool) -> sp.Basic:
        if (t, within) not in done:
            inner = [walk(a, within or (isinstance(t, Node) and i > 0)) for i, a in enumerate(t.args)]
            whole = t if all(a is b for a, b in zip(inner, t.args, strict=True)) else t.func(*inner)
            done[t, within] = Name.of("inner", whole, real=True) if within and isinstance(whole, Node) else whole
        return done[t, within]

    return tuple(walk(e, False) for e in expressions)


def derivative(e: sp.Expr, s: sp.Symbol) -> sp.Expr:
    """e.diff(s), with a symbol of no sign in its place: sympy looks for signs of derivatives, and stumbles over expectations in them."""
    plain = sp.Dummy(s.name)
    found = e.xreplace({s: plain}).diff(plain).xreplace({plain: s})
    return sp.Add(found, *[_partial(e, name) * _rate(name, s) for name in _names(e) if _rate(name, s) != 0])


def _partial(e: sp.Expr, name: Name) -> sp.Expr:
    plain = sp.Dummy(name.name)
    return e.xreplace({name: plain}).diff(plain).xreplace({plain: name})


def _names(e: sp.Expr) -> list[Name]:
    return sorted(e.atoms(Name), key=lambda s: s.dummy_index)


@lru_cache(maxsize=8192)
def _rate(name: Name, s: sp.Symbol) -> sp.Expr:
    """what a name moves by where q or delta does"""
    if not isinstance(name, Moment):
        return Name.of(f"{name.name}_by_{s.name}", differentiated(name.value, s))
    if name.along:
        raise ValueError(f"{name.value}: its slope has no derivative")
    _, by_variance, by_gap = _moments(name.value)
    return by_variance * differentiated(name.value.variance, s) + by_gap * differentiated(name.value.gap, s)


def differentiated(e: sp.Expr, s: sp.Symbol) -> sp.Expr:
    """The derivative by q or delta, that of a gap in gaps (`meanfield.gaussian.tangents`)."""
    held: dict[sp.Expr, sp.Symbol] = {}
    plain = e.replace(lambda t: isinstance(t, Gap), lambda t: held.setdefault(t, sp.Dummy("gap", real=True)))
    slopes: dict[sp.Symbol, sp.Expr] = {}

    def by(part: sp.Expr) -> sp.Expr:
        return derivative(part, s) + sp.Add(*[part.diff(symbol) * rate for symbol, rate in slopes.items()])

    for node, symbol in held.items():  # those inside others come first
        moves = ((gap_by_variance, by(node.args[1])), (gap_by_gap, by(node.args[2])))
        slopes[symbol] = sp.Add(*[rate(*node.args) * move for rate, move in moves if move != 0])
    total, back = by(plain), {symbol: node for node, symbol in held.items()}
    while total.free_symbols & back.keys():
        total = total.xreplace(back)
    return total


def identical(e: sp.Expr) -> sp.Expr:
    """The expression at delta = 0: two equal variables are one."""
    put = e.xreplace({name: _same(name) for name in _names(e)}).subs(delta, 0).subs(p, q)
    return put.replace(lambda t: isinstance(t, PairExpectation) and t.args[1] == t.args[2] == t.args[3] and t.args[4] == t.args[5], _merged)


def _merged(node: PairExpectation) -> sp.Expr:
    return Expectation(node.integrand.xreplace({known("y"): x}), node.args[1], node.args[4])


@lru_cache(maxsize=8192)
def _same(name: Name) -> sp.Expr:
    """what a name is on identical inputs"""
    if isinstance(name, Moment):
        return _same_moment(name.value, name.along)
    return Name.of(f"{name.name}_alike", identical(name.value))


def _same_moment(node: Exchangeable, along: int) -> sp.Expr:
    r"""A moment of equal variables is a mean over one. By Price's theorem it moves with the gap by -\sum_{t<r} E g_t' g_r' ..., and a
    covariance of g and h given what is common by E g' h' ...; with the variance as that mean does."""
    factors = node.products()[-1]
    variance = identical(node.variance)
    if along == 0:
        return sp.S.Zero if node.spread else Expectation(sp.Mul(*factors), variance)
    if along == 2:
        pairs = [(len(factors) - 2, len(factors) - 1)] if node.spread else combinations(range(len(factors)), 2)
        rates = [sp.Mul(*[slope(g) if t in pair else g for t, g in enumerate(factors)]) for pair in pairs]
        return (1 if node.spread else -1) * Expectation(sp.Add(*rates), variance)
    if node.spread:
        return sp.S.Zero
    own = sp.Dummy("variance", positive=True)
    return derivative(Expectation(sp.Mul(*factors), own), own).xreplace({own: variance})


def infinite(mean: Expectation) -> str | None:
    """why the mean of a squared slope is infinite at every variance; None where it is not, or where that is not known"""
    jumps = mean.integrand.has(sp.DiracDelta)
    value = mean.conditioned() if jumps else mean.closed()
    if value is None or not is_infinite(value):
        return None
    return "the activation jumps" if jumps else "the square of the slope is not integrable"


def at_variance(e: sp.Expr, variance: sp.Expr) -> sp.Expr:
    """The expression with another variance in the place of q."""
    if variance == q:
        return e
    return e.xreplace({name: _moved(name, variance) for name in _names(e)}).subs({q: variance}, simultaneous=True)


@lru_cache(maxsize=8192)
def _moved(name: Name, variance: sp.Expr) -> sp.Expr:
    return Name.of(name.name, at_variance(name.value, variance))


@lru_cache(maxsize=1024)
def ordered(expressions: tuple[sp.Expr, ...]) -> tuple[tuple[Moment, ...], tuple[Name, ...]]:
    """The moments and the names that expressions are written in, each name after those that it is written in."""
    moments: dict[Moment, None] = {}
    names: dict[Name, None] = {}

    def need(e: sp.Expr) -> None:
        for name in _names(e):
            if isinstance(name, Moment):
                moments.setdefault(name)
            elif name not in names:
                need(name.value)
                names.setdefault(name)

    for e in expressions:
        need(e)
    return tuple(moments), tuple(names)
