r"""The equations of criticality and their solution for parameters that enter linearly through their squares, in symbols.

On identical inputs a repeat is critical at q where dc'/dc = 1 at c = 1 (chi) and q' = q; half-stable where dq'/dq = 1 too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp
from sympy.solvers.solveset import NonlinearError

from meanfield.analysis.derivatives import Name
from meanfield.analysis.maps import StepMap
from meanfield.analysis.signs import vanishes
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.standardised import standardised
from meanfield.symbols import known

__all__ = [
    "Equations",
    "at_each_variance",
    "derived",
    "equations",
    "exact_root",
    "idle",
    "in_squares",
    "linear_solution",
    "relation",
    "shifted",
    "squared",
    "with_squares",
]

q, x = known("q"), known("x")


@dataclass(frozen=True)
class Equations:
    """Expressions that vanish at a critical point, in q and the parameters that are not bound."""

    chi: sp.Expr
    fixed: sp.Expr
    marginal: sp.Expr

    @property
    def long(self) -> bool:
        """Whether they are written in names, which hide parameters from algebra."""
        return any(e.has(Name) for e in (self.chi, self.fixed, self.marginal))


@lru_cache(maxsize=256)
def equations(step: StepMap, bound: tuple[tuple[sp.Symbol, sp.Expr], ...]) -> Equations:
    """chi - 1, q' - q and chi_parallel - 1 with parameters bound; expectations closed where that takes a parameter out of them."""
    put = dict(bound)
    expressions = (step.chi_one, step.q_identical, step.chi_parallel)
    chi, new, along = (_freed(e.subs(put, simultaneous=True)) for e in expressions)
    return Equations(chi - 1, new - q, along - 1)


def _freed(e: sp.Expr) -> sp.Expr:
    """expectations of deltas, or over a variance that depends on parameters, in closed form where there is a short one"""
    return e.replace(lambda t: isinstance(t, Node) and (bool(t.free_symbols - {q}) or t.integrand.has(sp.DiracDelta)), _closed)


def _closed(node: Node) -> sp.Expr:
    form = node.doit()
    return form if not form.has(Node) and sp.count_ops(form) <= 12 else _rescaled(node)


def _rescaled(node: Node) -> sp.Expr:
    """E c g(a (u - s)) with scale and shift of its argument in the law of u: a rule is found once for a function without parameters"""
    if not isinstance(node, Expectation) or not node.integrand.free_symbols - {x} or node.integrand.has(sp.DiracDelta):
        return node
    for own in shifted(node):
        for sign in (1, -1):
            c, g, a = standardised(own.integrand.xreplace({x: sign * x}))
            if not g.free_symbols - {x}:
                return c * Expectation(g, a**2 * own.variance, a * sign * own.mean)
    return node


def shifted(node: Expectation) -> Iterator[Expectation]:
    """The expectation as it is, then over u - s for each s where a sum in it that is linear in u, and holds a parameter, vanishes."""
    yield node
    f = node.integrand
    slopes = {t: t.diff(x) for t in f.atoms(sp.Add) if t.has(x) and t.free_symbols - {x}}
    places = {sp.expand(x - t / slope) for t, slope in slopes.items() if slope != 0 and not slope.has(x)}
    for s in sorted(places, key=sp.default_sort_key):
        moved = f.xreplace({x: x + s}).replace(lambda t: isinstance(t, sp.Add), lambda t: sp.expand_mul(t, deep=False))
        if isinstance(there := Expectation(moved, node.variance, node.mean - s), Expectation):
            yield there


def squared(s: sp.Symbol) -> sp.Symbol:
    """The symbol that stands for the square of a parameter."""
    return sp.Symbol(f"{s.name}_squared", positive=True)


def in_squares(e: sp.Expr, unknown: tuple[sp.Symbol, ...]) -> sp.Expr:
    """The expression in symbols for the squares of the unknowns."""
    return e.subs({s: sp.sqrt(squared(s)) for s in unknown}, simultaneous=True)


def linear_solution(system: tuple[sp.Expr, ...], unknown: tuple[sp.Symbol, ...]) -> dict[sp.Symbol, sp.Expr] | None:
    """The squares of the unknowns from as many equations that are linear in them, or None."""
    if any(node.free_symbols & set(unknown) for e in system for node in e.atoms(Node)):
        return None
    hidden: dict[sp.Expr, sp.Symbol] = {}

    def hide(node: sp.Basic) -> sp.Symbol:
        return hidden.setdefault(node, sp.Dummy("e", real=True))

    plain = (in_squares(e, unknown).replace(lambda t: isinstance(t, Node), hide) for e in system)
    numerators = [sp.numer(sp.together(e)) for e in plain]
    try:
        matrix, right = sp.linear_eq_to_matrix(numerators, [squared(s) for s in unknown])
    except NonlinearError:
        return None
    back = {symbol: node for node, symbol in hidden.items()}

    def shown(e: sp.Expr) -> sp.Expr:
        while e.free_symbols & back.keys():  # expectations over variances that hold expectations
            e = e.xreplace(back)
        return e

    if vanishes(shown(sp.expand(matrix.det()))):  # as of homogeneous activations
        return None
    values = matrix.LUsolve(right)
    return {s: shown(_shortest(v)) for s, v in zip(unknown, values, strict=True)}


def with_squares(e: sp.Expr, squares: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    """The expression with squares of parameters known."""
    return e.subs({s: sp.sqrt(square) for s, square in squares.items()}, simultaneous=True)


def idle(e: Equations, squares: Mapping[sp.Symbol, sp.Expr]) -> bool:
    """Whether a solution is the identity map: weights are 0, so that no activation is left."""
    off = {s: square for s, square in squares.items() if square == 0}
    return bool(off) and e.chi.has(Node) and not with_squares(e.chi, off).has(Node)


def at_each_variance(e: Equations, unknown: tuple[sp.Symbol, ...]) -> dict[sp.Symbol, sp.Expr] | None:
    """Squares of the first of the unknowns that suffice, without q in them, at which chi = 1 and q' = q for each q; None elsewhere.

    As of homogeneous activations, of which both equations are the same but for a bias. The other unknowns stay in the squares.
    """
    tried = [((e.chi,), (s,)) for s in unknown] + [((e.chi, e.fixed), unknown[:2])] * (len(unknown) > 1)
    for system, chosen in tried:
        found = linear_solution(system, chosen)
        if found is None or idle(e, found):
            continue
        squares = {s: derived(square) for s, square in found.items()}
        if (
            not any(square.has(q, Node) for square in squares.values())
            and sp.cancel(sp.together(derived(with_squares(e.fixed, squares)))) == 0
        ):
            return squares
    return None


def derived(e: sp.Expr) -> sp.Expr:
    """The expression with expectations in closed form where they have one, and what cancels between them taken out."""
    form = e.replace(lambda t: isinstance(t, Node), lambda t: t.doit())
    return form if form == e else min((form, sp.expand(form)), key=sp.count_ops)


def exact_root(e: sp.Expr, near: float) -> sp.Expr | None:
    """A root of an expression in q next to a number, where a factor of its closed form is a polynomial that vanishes there."""
    form = derived(e)
    if form.has(Node):
        return None
    form = sp.numer(sp.factor(sp.expand(form.replace(sp.acos, lambda z: sp.pi / 2 - sp.asin(z)))))
    for part in sp.Mul.make_args(sp.factor(form)):
        base = part.as_base_exp()[0]
        if base.is_polynomial(q) and base.free_symbols == {q}:
            for root in sp.roots(sp.Poly(base, q)):
                if abs(complex(root) - near) < 1e-12 * near:
                    return root
    return None


def _shortest(e: sp.Expr) -> sp.Expr:
    return min((sp.expand(e), sp.factor(e)), key=sp.count_ops)


def relation(e: Equations, unknown: tuple[sp.Symbol, ...]) -> tuple[sp.Expr, sp.Symbol, sp.Expr] | None:
    """Where q' is linear in q: q*, a parameter that chi = 1 is linear in through its square, and that square; None elsewhere.

    q* is infinite where q grows by the same amount in each repeat; then chi has to be 1 in that limit, and the square is not used.
    """
    if any(q in node.free_symbols for node in e.fixed.atoms(Node)):
        return None
    rate = sp.expand(e.fixed.diff(q))
    if rate.has(q):
        return None
    if rate == 0:
        return (sp.oo, unknown[0], sp.nan) if sp.limit(e.chi, q, sp.oo) == 0 else None
    at = -e.fixed.subs(q, 0) / rate
    on_line = sp.numer(sp.together(e.chi.subs(q, at)))
    for s in reversed(unknown):  # a bias in terms of a weight scale
        found = linear_solution((on_line,), (s,))
        if found is not None and sp.cancel(rate.subs(s, sp.sqrt(found[s]))) != 0:  # where q grows, no q is fixed
            return at, s, found[s]
    return None
