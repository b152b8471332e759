r"""What sympy's `series` and `limit` ask of an expectation: its terms as a symbol goes to 0 from above.

Where its variances go to 0 or to infinity they are those of its own `taylor` and `asymptotic`, and elsewhere those of its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp
from sympy import S

from meanfield.gaussian.expansions import Expansion
from meanfield.gaussian.smoothness import is_smooth

__all__ = ["first_term", "no_limit", "terms_below"]

#: orders of an expansion that are tried one after another, and derivatives that are looked at for one that is not 0
_TRIED, _DERIVATIVES = (1, 2, 4, 8, 16), 8
#: digits of a first term that is told from 0
_DIGITS = 20


def first_term(node: sp.Expr, s: sp.Symbol, logx: sp.Expr | None, cdir: sp.Expr) -> sp.Expr:
    """The first term of a node as s -> 0. Raises NotImplementedError where it is not known."""
    for expression, rest in _expanded(node, s):
        if _may_vanish(expression):
            raise NotImplementedError(f"{node}: {expression} seems to be 0, and is not known to be")
        if expression != 0:
            return expression.as_leading_term(s, logx=logx, cdir=cdir)
        if rest == 0:
            return S.Zero
    raise NotImplementedError(f"{node}: no first term as {s} -> 0, it is smaller than every power")


def terms_below(node: sp.Expr, s: sp.Symbol, n: sp.Expr, logx: sp.Expr | None, cdir: sp.Expr) -> sp.Expr:
    """The terms of a node up to O(s^n) as s -> 0. Raises NotImplementedError where they are not known."""
    for expression, rest in _expanded(node, s):
        if rest == 0 or rest.has(sp.exp) or rest.leadterm(s, logx=sp.Dummy("log"))[1] >= n:
            return expression.nseries(s, n=n, logx=logx, cdir=cdir) + sp.Order(s**n, s)
    raise NotImplementedError(f"{node}: so many terms as up to O({s**n}) are out of reach")


def no_limit(node: sp.Expr, s: sp.Symbol) -> NotImplementedError:
    """Why a limit as s -> oo of what holds a node is not known."""
    end = sp.Dummy(s.name, positive=True)
    try:
        first = first_term(node.subs(s, 1 / end), end, None, S.One)
    except NotImplementedError as reason:
        return reason
    return NotImplementedError(f"{node} goes like {first.subs(end, 1 / s)} as {s} -> oo, and more of it is not known to sympy's limit")


def _expanded(node: sp.Expr, s: sp.Symbol) -> Iterator[tuple[sp.Expr, sp.Expr]]:
    """more and more terms of a node as s -> 0, and the order of what is left"""
    variances, means = node.args[1:4:2], node.args[4:] or node.args[2:3]
    ends = {sp.limit(v, s, 0) for v in variances}
    if ends.isdisjoint({S.Zero, S.Infinity}):
        return _by_derivatives(node, s)
    if len(ends) > 1 or any(e.has(s) for e in (node.integrand, *means)):
        raise NotImplementedError(f"{node} as {s} -> 0: its expansions are in the variances, where nothing else goes with them")
    if len(variances) == 2 and ends == {S.Infinity}:
        correlation = sp.limit(node.args[2] / sp.sqrt(sp.Mul(*variances)), s, 0)
        if correlation in (1, -1):
            raise NotImplementedError(f"{node} as {s} -> 0: its expansion is at a fixed correlation, and this one goes to {correlation}")
    return _of_its_own(node, node.taylor if ends == {S.Zero} else node.asymptotic)


def _may_vanish(e: sp.Expr) -> bool:
    """whether what is not written as 0 is 0 to all digits that are looked at, its symbols numbers that are a law, too"""
    letters = sorted(e.free_symbols, key=str)  # p before q, of which it is a part
    point = {s: sp.Rational(2 * k + 3, 3 * k + 7) for k, s in enumerate(letters)}
    try:
        return bool(e != 0 and abs(sp.N(e.xreplace(point), _DIGITS)) < 10.0**-_DIGITS)
    except (ArithmeticError, TypeError, ValueError):
        return False


def _of_its_own(node: sp.Expr, expand: Callable[[int], Expansion]) -> Iterator[tuple[sp.Expr, sp.Expr]]:
    try:
        for order in _TRIED:
            found = expand(order)
            yield found.expression, found.remainder
    except (TypeError, ValueError) as reason:
        raise NotImplementedError(str(reason)) from reason


def _by_derivatives(node: sp.Expr, s: sp.Symbol) -> Iterator[tuple[sp.Expr, sp.Expr]]:
    """where the law stays one that varies; of so many terms no more than the next derivative vouches for"""
    if s in node.integrand.free_symbols and not is_smooth(node.integrand):
        raise NotImplementedError(f"{node} as {s} -> 0: its kinks move or open there")
    total, rate, term = S.Zero, node, node.subs(s, 0).doit()
    for k in range(_DERIVATIVES):
        if _is_infinite(term):
            raise NotImplementedError(f"{node} as {s} -> 0: its derivative of order {k} is infinite there")
        total += term * s**k / sp.factorial(k)
        rate = rate.diff(s)
        term = rate.subs(s, 0).doit()
        yield total, s**k * sp.log(s) if _is_infinite(term) else s ** (k + 1)


def _is_infinite(term: sp.Expr) -> bool:
    return bool(term.has(S.NaN, S.Infinity, S.NegativeInfinity, S.ComplexInfinity, sp.DiracDelta))
