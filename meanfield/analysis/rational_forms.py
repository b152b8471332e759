"""Expressions as quotients of polynomials in their letters, functions and roots, which cancel and factor there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import sympy as sp

from meanfield.analysis.implicit import Implicit
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finite_parts import FinitePart

__all__ = ["Letters", "beyond", "cancelled", "shortest"]

#: parts up to which an expression is cancelled: beyond, it is slow
MOST = 500
#: terms of the polynomials up to which they are written out
WRITTEN_OUT = 400
#: operations that one fraction instead of several is worth
CLEARER = 4


@dataclass(frozen=True)
class Letters:
    """Letters for what is no quotient of polynomials, and for each root r of a base b its r^k = b."""

    meaning: dict[sp.Symbol, sp.Expr]
    relations: dict[sp.Symbol, tuple[int, sp.Expr]]
    put: dict[sp.Expr, sp.Expr]

    @classmethod
    def of(cls, *expressions: sp.Expr) -> Letters:
        """The letters of some expressions together."""
        meaning: dict[sp.Symbol, sp.Expr] = {}
        put: dict[sp.Expr, sp.Expr] = {}
        relations: dict[sp.Symbol, tuple[int, sp.Expr]] = {}
        atoms = set().union(*(e.atoms(Node, FinitePart, Implicit, sp.Function, sp.NumberSymbol) for e in expressions))
        for i, t in enumerate(sorted(atoms, key=str)):
            letter = sp.Dummy(f"a{i}", **{"positive": True} if t.is_positive else {"real": True})
            meaning[letter], put[t] = t, letter
        outer = [e.xreplace(put) for e in expressions]
        orders: dict[sp.Expr, int] = {}
        for power in sorted(set().union(*(e.atoms(sp.Pow) for e in outer)), key=str):
            if power.exp.is_Rational and not power.exp.is_Integer and power.base.is_nonnegative is not False:
                orders[power.base] = math.lcm(orders.get(power.base, 1), power.exp.q)
        for i, (b, k) in enumerate(orders.items()):
            root = sp.Dummy(f"r{i}", positive=True)
            meaning[root], relations[root] = sp.Pow(b, sp.Rational(1, k)), (k, b)
        return cls(meaning, relations, put)

    def lettered(self, e: sp.Expr) -> sp.Expr:
        """The expression in these letters."""
        roots = {b: (r, k) for r, (k, b) in self.relations.items()}

        def whole(t: sp.Expr) -> bool:
            return bool(t.is_Pow and t.exp.is_Rational and not t.exp.is_Integer and t.base in roots)

        return e.xreplace(self.put).replace(whole, lambda t: roots[t.base][0] ** (t.exp * roots[t.base][1]))

    def reduced(self, e: sp.Expr) -> sp.Expr:
        """r^k = b put in where r has a higher power."""
        for root, (k, b) in reversed(self.relations.items()):
            e = e.replace(
                lambda t, root=root, k=k: t.is_Pow and t.base == root and t.exp.is_Integer and abs(t.exp) >= k,
                lambda t, root=root, k=k, b=b: b ** (t.exp // k) * root ** (t.exp % k),
            )
        return e

    def spelled(self, e: sp.Expr) -> sp.Expr:
        """The expression without these letters."""
        while found := {s: self.meaning[s] for s in e.free_symbols & self.meaning.keys()}:
            e = e.xreplace(found)
        return e


@lru_cache(4096)
def cancelled(e: sp.Expr) -> sp.Expr:
    """The expression over one denominator, cancelled and factored, where that is cheap and shorter; itself where not.

    >>> import sympy as sp
    >>> n = sp.Symbol("n", positive=True)
    >>> cancelled(sp.sqrt((1 / n - sp.Rational(1, 2)) ** 2 + (1 - 1 / n) / n))
    1/2
    """
    if beyond(e, MOST):
        return e
    kept = {t: sp.Dummy("kept", real=True) for t in e.atoms(Implicit, FinitePart, Node)}  # one thing, and one spelling of it, in all laws
    e = e.xreplace(kept).replace(_is_root, _root).xreplace({letter: t for t, letter in kept.items()})
    letters = Letters.of(e)
    inner = letters.lettered(e)
    if not inner.is_rational_function():
        return e
    numerator, denominator = sp.fraction(sp.together(inner))
    if _terms(numerator) + _terms(denominator) > WRITTEN_OUT:
        return e
    once = letters.reduced(sp.expand(numerator)) / letters.reduced(sp.expand(denominator))
    found = letters.spelled(letters.reduced(sp.factor(sp.cancel(once))))
    return found if found.is_number or _length(found) <= _length(e) + CLEARER else e


def _terms(e: sp.Expr) -> float:
    """how many terms there are, about, once it is written out"""
    if isinstance(e, sp.Add):
        return sum(map(_terms, e.args))
    if isinstance(e, sp.Mul):
        return math.prod(map(_terms, e.args))
    return _terms(e.base) ** min(int(e.exp), 50) if e.is_Pow and e.exp.is_Integer and e.exp > 0 else 1.0


def beyond(e: sp.Expr, most: int) -> bool:
    """Whether an expression has more parts, what an equation defines being one, without counting all of them."""
    return next(islice(_parts(e), most, None), None) is not None


def _parts(e: sp.Basic) -> Iterator[sp.Basic]:
    yield e
    for a in () if isinstance(e, Implicit) else e.args:
        yield from _parts(a)


def _is_root(t: sp.Expr) -> bool:
    return bool(t.is_Pow and t.exp.is_Rational and not t.exp.is_Integer and isinstance(t.base, sp.Add))


@lru_cache(4096)
def _root(t: sp.Expr) -> sp.Expr:
    """a root whose base is factored, its square factors outside"""
    letters = Letters.of(t.base)
    base = letters.lettered(t.base)
    if not base.is_rational_function():
        return t
    return sp.powdenest(sp.Pow(letters.spelled(sp.factor(base)), t.exp)) if base.free_symbols else t


@lru_cache(4096)
def shortest(e: sp.Expr) -> sp.Expr:
    """The expression with each sum in it, from the inside out, expanded or over one denominator where that is shorter; no arccos.

    >>> import sympy as sp
    >>> n, a, b = sp.symbols("n a b", positive=True)
    >>> shortest(b * (a / 2 + a / (2 * n) + (a * n - a) / (2 * n)) / (a + 1))
    a*b/(a + 1)
    """
    if isinstance(e, sp.acos):
        return sp.pi / 2 - sp.asin(shortest(e.args[0]))
    if e.is_Atom or isinstance(e, (Node, FinitePart, Implicit)):
        return e
    e = e.func(*[shortest(a) for a in e.args])
    if not isinstance(e, sp.Add) and not _is_root(e):
        return e
    if beyond(e, MOST):
        return e
    flat = sp.expand(e)
    return min((e, flat, cancelled(e), _by_kind(e), _by_kind(flat)), key=_length)


def _by_kind(e: sp.Expr) -> sp.Expr:
    """a sum whose terms with the same functions and roots are brought together"""
    groups: dict[frozenset[sp.Expr], list[sp.Expr]] = {}
    for t in sp.Add.make_args(e):
        kind = frozenset(a for a in t.atoms(sp.Function, sp.Pow) if not (a.is_Pow and a.exp.is_Integer))
        groups.setdefault(kind, []).append(t)
    return sp.Add(*[cancelled(sp.Add(*g)) if len(g) > 1 else g[0] for g in groups.values()])


@lru_cache(2**14)
def _length(e: sp.Expr) -> int:
    return int(sp.count_ops(e.replace(lambda t: isinstance(t, Implicit), lambda t: t.variable)))
