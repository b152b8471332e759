r"""What sympy's `series` and `limit` ask of an expectation: its terms as a symbol goes to 0 from above.

Where its variances go to 0 or to infinity they are those of its own `taylor` and `asymptotic`, and elsewhere those of its derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp
from sympy import S

from meanfield.gaussian.smoothness import is_smooth

__all__ = ["first_term", "no_limit", "terms_below"]

#: orders of an expansion that are tried one after another, and derivatives that are looked at for one that is not 0
_TRIED, _DERIVATIVES = (1, 2, 4, 8, 16), 8


def first_term(node: sp.Expr, s: sp.Symbol, logx: sp.Expr | None, cdir: sp.Expr) -> sp.Expr:
    """The first term of a node as s -> 0. Raises NotImplementedError where it is not known."""
    for expression, rest in _expanded(node, s):
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
    variances = node.args[1:4:2]
    ends = {sp.limit(v, s, 0) for v in variances}
    if S.Zero not in ends and S.Infinity not in ends:
        return _by_derivatives(node, s)
    if len(ends) > 1 or s in node.integrand.free_symbols or any(m.has(s) for m in node.means):
        raise NotImplementedError(f"{node} as {s} -> 0: an expansion is known where nothing but the variances goes to 0 or oo, together")
    if len(variances) == 2:
        correlation = sp.limit(node.args[2] ** 2 / sp.Mul(*variances), s, 0)
        if not (correlation.is_finite and (correlation - 1).is_zero is not True) and S.Zero not in ends:
            raise NotImplementedError(f"{node} as {s} -> 0: an expansion is known where the correlation does not go to 1 or -1")
    expand = node.taylor if S.Zero in ends else node.asymptotic
    return _of_its_own(node, expand)
