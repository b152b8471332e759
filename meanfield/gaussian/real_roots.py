"""Real roots that have no closed form, as constants, and the pieces of a function between them."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian.kinks import FEW, branches, is_pole, midpoints, roots_of_edges
from meanfield.gaussian.pieces import NotClosed
from meanfield.gaussian.smoothness import edges
from meanfield.gaussian.special import written_out
from meanfield.symbols import known

__all__ = ["RealRoot", "located_pieces", "located_roots"]

x = known("x")
_NEAR = 1e-9  # roots of two edges, relatively, that are one


class RealRoot(sp.AtomicExpr):
    """The simple root of a function of x next to a number: a constant that evaluates to any number of digits."""

    is_commutative = True
    is_number = True
    is_real = True

    def __new__(cls, edge: sp.Expr, near: float) -> RealRoot:
        root: RealRoot = sp.AtomicExpr.__new__(cls)
        root.edge, root.near = edge, near
        return root

    def __getnewargs__(self) -> tuple[sp.Expr, float]:
        return self.edge, self.near

    def _hashable_content(self) -> tuple[sp.Expr, float]:
        return self.edge, self.near

    def _eval_is_positive(self) -> bool:
        return bool(self.near > 0)

    def _eval_evalf(self, prec: int) -> sp.Expr:
        with mp.workprec(prec + 10):
            value = mp.findroot(sp.lambdify(x, written_out(self.edge), "mpmath"), mp.mpf(self.near))
        return sp.Float._new(value._mpf_, prec)

    def _sympystr(self, printer: Any) -> str:
        return str(sp.N(self, 15))

    def _latex(self, printer: Any) -> str:
        return str(sp.N(self, 6))


def located_pieces(f: sp.Expr) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]:
    """The cuts of f in rising order and its pieces, as `pieces_of` has them, where the cuts are known as numbers only.

    Raises
    ------
    NotClosed
        f has parameters, its cuts are many, or one is a multiple root.
    """
    if f.free_symbols != {x}:
        raise NotClosed(f"where {f} has its kinks depends on a parameter")
    own = edges(f)
    found: dict[float, sp.Expr] = {}
    for edge, roots in roots_of_edges(f).items():
        if edge not in own:
            continue
        if len(roots) > FEW:
            raise NotClosed(f"{f} has a kink at each of many roots of {edge}")
        for t in sorted(roots):
            if all(abs(t - r) > _NEAR * max(1.0, abs(r)) for r in found):
                found[t] = _root(edge, t)
    cuts = tuple(sorted(found))
    return tuple(found[t] for t in cuts), tuple(branches(f, list(midpoints(cuts))))


def located_roots(edge: sp.Expr, f: sp.Expr) -> set[sp.Expr]:
    """Where an edge of f is 0, which has no parameters; NotClosed as above."""
    found = roots_of_edges(f).get(edge) if f.free_symbols == {x} else None
    if found is None or len(found) > FEW:
        raise NotClosed(f"where {edge} is 0 depends on a parameter, or is so at many points")
    return {_root(edge, t) for t in found}


def _root(edge: sp.Expr, near: float) -> sp.Expr:
    if is_pole(edge, near):
        edge = sp.together(1 / edge)
    if abs(near) < _NEAR and edge.xreplace({x: S.Zero}) == 0:
        return S.Zero
    if abs(sp.N(edge.diff(x).xreplace({x: sp.Float(near, 30)}))) < 1e-6:
        raise NotClosed(f"{edge} has a multiple root next to {near}")
    return RealRoot(edge, near)
