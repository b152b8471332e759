r"""Growth laws as LaTeX: a line for q, 1 - c and ln J each, case by case, with names for what is long."""

from __future__ import annotations

import sympy as sp

from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.implicit import Implicit
from meanfield.analysis.signs import agree
from meanfield.faces import latex
from meanfield.reporting.breaking import WIDTH, aligned, width
from meanfield.reporting.pages import Page

__all__ = ["conditional"]

#: numbers from which an expression is written in decimals
LONGEST = 10**6

_LEFT = {"q": "q_l", "1 - c": "1 - c_l", "J": r"\ln \mathcal{J}^{\,l,0}"}
_RELATIONS = {"bounded": r"\to", "exponential": r"\sim", "logarithmic": r"\sim", "power": r"\sim", "stretched": r"\simeq"}


@latex.register
def _(law: Growth) -> str:
    r"""one line: ln J for J, up to an additive constant"""
    return r", \qquad ".join(_lines(law, Page(), _expressions(law))).replace("&", "")


@latex.register
def _(law: GrowthLaw) -> str:
    if law.cases:
        return "\n\n".join(conditional(condition, own) for condition, own in law.cases)
    page = Page()
    laws = (law.q, law.gap, law.apjn)
    given = [_expressions(g) for g in laws]
    roots = sorted(set().union(*(e.atoms(Implicit) for es in given for e in es)), key=str)
    roots = [r for i, r in enumerate(roots) if not any(_same(r, other) for other in roots[:i])]
    equations = [r.equation.xreplace({r.variable: sp.Symbol(f"{r.name}_*", positive=True)}) for r in roots]
    short = iter(page.named([e for es in given for e in es] + equations))
    lines = [line for g, es in zip(laws, given, strict=True) for line in _lines(g, page, [next(short) for _ in es])]
    where = [f"0 &= {page.expression(e)}" for e in short] + page.definitions()
    return aligned(lines) + (f"\nwhere\n{aligned(where)}" if where else "")


def conditional(condition: sp.Basic, law: GrowthLaw) -> str:
    """A law under a condition, which stands in a line of its own if it is long."""
    text = latex(condition)
    if width(text) < 0.6 * WIDTH:
        return f"If ${text}$:\n{latex(law)}"
    return f"If\n{aligned([f'& {text}'])}\nthen\n{latex(law)}"


def _same(first: Implicit, second: Implicit) -> bool:
    """whether two roots are of one equation, written in two ways"""
    letter = sp.Dummy("root", positive=True)
    equations = (r.equation.xreplace({r.variable: letter}) for r in (first, second))
    return type(first) is type(second) and agree(*equations)


def _expressions(law: Growth) -> list[sp.Expr]:
    """what the line of a law is written in: its asymptote, and where modes cross"""
    found = [e for e in (law.asymptote, law.crossover) if e is not None]
    return list(map(_legible, found)) if law.asymptote is not None and law.kind != "undetermined" else []


def _legible(e: sp.Expr) -> sp.Expr:
    """in decimals, where numbers are not exact or of more digits than a person reads"""
    long = any(max(abs(r.p), r.q) >= LONGEST for r in e.atoms(sp.Rational))
    return sp.expand_mul(sp.N(e, 25)) if long or e.has(sp.Float) else e


def _lines(law: Growth, page: Page, expressions: list[sp.Expr]) -> list[str]:
    if not expressions:
        return [rf"{_LEFT[law.quantity]} &\quad \text{{{law.kind if law.kind == 'undetermined' else 'bounded'}}}"]
    lefts = [f"{_LEFT[law.quantity]} &{_RELATIONS[law.kind]}", r"l_{\times} &\sim"]
    return [f"{left} {page.expression(e)}" for left, e in zip(lefts, expressions, strict=False)]
