r"""Signs and values of expressions in parameters: where no assumption decides a sign, it is looked at over four decades of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import Rational

from meanfield.analysis.implicit import CorrelationRoot, Implicit, VarianceRoot, valued
from meanfield.gaussian.expectation import BY_DIGITS, Expectation, Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.series import REST
from meanfield.gaussian.shared_parts import parts_of, put_in
from meanfield.gaussian.special import NormalCDF, written_out
from meanfield.gaussian.tidying import upright
from meanfield.gaussian.zeros import vanishes as coefficient_vanishes
from meanfield.symbols import real

__all__ = ["GAP", "Beside", "agree", "closed", "sign", "vanishes"]

#: 1 - c
GAP = sp.Symbol("gap", positive=True)
#: to how many digits something is zero, and what is clearly more
DIGITS, CLEAR = 20, 1e-4
#: digits in which a sum of elementary functions is looked at, more where fewer cancel: 1 - erf is e^-5000 at 100
DOUBTED = 25, 100, 400, 2500


class Beside(sp.Dummy):
    """A positive parameter s that lies on one side of a value: s^k = edge (1 + t)^side, t > 0."""

    edge: sp.Expr
    power: int
    side: int

    def at(self, point: Mapping[sp.Symbol, sp.Expr], excess: sp.Expr) -> sp.Expr:
        """A number on that side, where the others have theirs."""
        edge = valued(self.edge.xreplace(dict(point)), 25)
        return sp.Rational(str(sp.N((edge * (1 + excess) ** self.side) ** sp.Rational(1, self.power), 25)))


def vanishes(e: sp.Expr) -> bool:
    """Whether an expression is zero to 20 digits, with random numbers in the place of symbols and open expectations."""
    e = closed(e)
    letters = {t: sp.Dummy(str(i)) for i, t in enumerate(sorted(parts_of(e, (Node, FinitePart, Implicit)), key=str))}
    return coefficient_vanishes(put_in(e, letters), DIGITS)


def closed(e: sp.Expr) -> sp.Expr:
    """Expectations in closed form where they have one, of functions that kernels have: others are no shorter than what they state."""
    return rewritten(e, lambda t: isinstance(t, Node), lambda t: t if (value := t.doit()).has(*BY_DIGITS) else value)


def agree(first: sp.Expr, second: sp.Expr) -> bool:
    """Whether two expressions are equal where symbols are positive: to 20 digits, at a few points over four decades of each."""
    difference = closed(first - second)
    difference = written_out(difference)
    return all(_numeric_sign(difference.xreplace(point)) == 0 for point in islice(_points(sorted(difference.free_symbols, key=str)), 2, 5))


def sign(e: sp.Expr) -> int | None:
    """1, -1 or 0; None where it depends on values that symbols may take.

    Where no assumption decides, it is looked at over four decades of every symbol.
    """
    e = real(closed(e))
    if e.has(REST):
        return None
    if not e.free_symbols:
        return _numeric_sign(e)
    if any(t.free_symbols for t in e.atoms(VarianceRoot)):
        return None  # a fixed point is no monotonous function of parameters
    numbers = {t: sp.N(t, 25) for t in e.atoms(Node, FinitePart) if not t.free_symbols}
    letters = {t: sp.Dummy(positive=True) for t in e.atoms(Node) - numbers.keys() if isinstance(t, Expectation) and _is_square(t.integrand)}
    roots = {t: sp.Dummy(f"root{i}", positive=True) for i, t in enumerate(sorted(e.atoms(CorrelationRoot), key=str))}
    e = e.xreplace(roots).xreplace(numbers)
    brief = e.xreplace(letters)
    if sp.count_ops(brief) < 60:
        brief = sp.expand(brief)
        plain = not brief.has(sp.Float, sp.Function) and brief.is_rational_function()
        for found in (brief.doit(), sp.factor(brief)) if plain else (brief.doit(),):
            if found.is_zero:
                return 0
            if found.is_positive or found.is_negative:
                return 1 if found.is_positive else -1
    return _over_decades([written_out(_with_tails(factor)) for factor in sp.Mul.make_args(sp.factor_terms(e)) if not factor.is_positive])


def _with_tails(e: sp.Expr) -> sp.Expr:
    """Phi(z) - 1 as -Phi(-z)"""
    if not e.has(NormalCDF):
        return e
    tails = sp.expand(upright(e).replace(NormalCDF, lambda z: 1 - NormalCDF(-z)))
    return min((e, tails), key=lambda t: len(sp.Add.make_args(t)))


def _over_decades(factors: Sequence[sp.Expr]) -> int | None:
    """the sign that a product has over four decades of its symbols, where it has one"""
    edges = (s.edge.free_symbols for e in factors for s in e.free_symbols if isinstance(s, Beside))
    symbols = sorted(set().union(*(e.free_symbols for e in factors), *edges), key=lambda s: (isinstance(s, Beside), s.sort_key()))
    signs = [_sign_at(e, symbols) for e in factors]
    seen: int | None = None
    for point in _points(symbols):
        here = prod(of(point) for of in signs)
        if here == 0 or (seen is not None and here != seen):
            return None
        seen = here
    return seen


def _sign_at(e: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[[Mapping[sp.Symbol, sp.Expr]], int]:
    """the sign of an expression at values of its symbols"""
    if e.has(Node, FinitePart, Implicit) or not all(hasattr(mp, f.func.__name__) for f in e.atoms(sp.Function)):
        return lambda point: _numeric_sign(e.xreplace(dict(point)))
    terms = sp.lambdify(symbols, sp.Add.make_args(e), "mpmath", cse=True)
    known_to = DOUBTED[:1] if e.has(sp.Float) else DOUBTED

    def to_digits(point: Mapping[sp.Symbol, sp.Expr], digits: int) -> int:
        with mp.workdps(digits):
            values = terms(*(mp.mpf(point[s].p) / point[s].q for s in symbols))
            return _sign_of(mp.fsum(values), mp.fsum(values, absolute=True), digits - 5)

    return lambda point: next(filter(None, (to_digits(point, digits) for digits in known_to)), 0)


def _numeric_sign(e: sp.Expr) -> int:
    rough = valued(e, 8)  # expectations to more digits take several times as long
    if abs(rough) > CLEAR:
        return _sign_of(rough)
    return _sign_of(valued(e, 25), min(1, sum(abs(valued(t, 3)) for t in sp.Add.make_args(e))))


def _sign_of(value: Any, size: Any = 1, digits: int = DIGITS) -> int:
    """of what is 0 beside the size of the terms that it is a sum of"""
    return 0 if abs(value) <= size * mp.mpf(10) ** -digits else 1 if value > 0 else -1


def _points(symbols: Sequence[sp.Symbol]) -> Iterator[dict[sp.Symbol, sp.Expr]]:
    """values of positive symbols between 1/100 and 100, whole ones from 2, correlations between 0 and 1: all at an end, then spread out"""
    for k in range(24):
        point = {}
        for i, s in enumerate(symbols):
            t = Rational((31 * k + 17 * (i + 1) * (k + 3)) % 97, 97) if k > 1 else sp.Integer(k)  # between 0 and 1
            if s == GAP or s.name.startswith("root"):
                point[s] = (1 + 98 * t) / 100
            elif s.is_integer:
                point[s] = sp.floor(2 * 10 ** (3 * t))
            else:
                size = sp.Rational(f"{10 ** float(4 * t - 2):.6f}")
                point[s] = s.at(point, size) if isinstance(s, Beside) else size * (1 if s.is_positive or s.is_nonnegative or k % 2 else -1)
        yield point


def _is_square(f: sp.Expr) -> bool:
    return all(t.as_base_exp()[1].is_even for t in sp.Mul.make_args(f)) or bool(f.is_nonnegative)
