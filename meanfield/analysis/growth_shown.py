"""Long laws as text: names for what stands in them several times, and their definitions."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from meanfield.analysis.implicit import Implicit
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finite_parts import FinitePart

__all__ = ["complements", "named"]

#: characters up to which a part is written out wherever it stands, and from which an integral gets a name
SHORT, LONG = 14, 40


def complements(e: sp.Expr) -> sp.Expr:
    r"""The expression with arccos z for pi/2 - arcsin z where sums are shorter so.

    >>> import sympy as sp
    >>> z = sp.Symbol("z")
    >>> complements(sp.pi**2 / 4 - sp.pi * sp.asin(z) / 2), complements(1 + sp.asin(z))
    (pi*acos(z)/2, asin(z) + 1)
    """

    def shorter(total: sp.Add) -> sp.Expr:
        angles = {t: sp.pi / 2 - sp.acos(t.args[0]) for a in total.args for t in sp.Mul.make_args(a) if isinstance(t, sp.asin)}
        other = sp.expand_mul(total.xreplace(angles)) if angles else total
        return min((total, other), key=sp.count_ops)

    result: sp.Expr = e.replace(lambda t: isinstance(t, sp.Add), shorter)
    return result


def named(expressions: Sequence[sp.Expr]) -> tuple[list[sp.Expr], list[str]]:
    """The expressions with names t1, t2, ... for their common parts and I1, I2, ... for long integrals; and a definition of each name, and
    of each root of an equation.

    >>> import sympy as sp
    >>> a, b = sp.symbols("a b")
    >>> named([sp.exp(a * sp.sin(b**2) + 1) / (1 + a * sp.sin(b**2)), sp.log(1 + a * sp.sin(b**2))])
    ([exp(t1)/t1, log(t1)], ['t1 = a*sin(b**2) + 1'])
    """
    roots = sorted(set().union(*(e.atoms(Implicit) for e in expressions)), key=sp.default_sort_key)
    letters = {t: sp.Symbol(f"{t}_{k}" if k > 1 else str(t)) for k, t in enumerate(roots, 1)}
    equations = [t.equation.xreplace({t.variable: s}) for t, s in letters.items()]
    given = [complements(e.xreplace(letters)) for e in [*expressions, *equations]]
    nodes = sorted(set().union(*(e.atoms(Node, FinitePart) for e in given)), key=sp.default_sort_key)
    texts = {t: str(t) for t in nodes}
    integrals = {t: sp.Symbol(f"I{k}" if len(texts[t]) > LONG else texts[t]) for k, t in enumerate(nodes, 1)}
    parts, found = sp.cse([e.xreplace(integrals) for e in given])
    inner: dict[sp.Symbol, sp.Expr] = {}
    outer: dict[sp.Symbol, sp.Expr] = {}
    for symbol, part in parts:
        value = part.xreplace(inner)
        if len(str(value)) < SHORT:
            inner[symbol] = value
        else:
            inner[symbol] = sp.Symbol(f"t{len(outer) + 1}")
            outer[inner[symbol]] = value
    found = [e.xreplace(inner) for e in found]
    count = len(expressions)
    definitions = [f"0 = {e}, which {s} solves" for s, e in zip(letters.values(), found[count:], strict=True)]
    definitions += [f"{s} = {texts[t]}" for t, s in integrals.items() if str(s) != texts[t]]
    return found[:count], definitions + [f"{s} = {e}" for s, e in outer.items()]
