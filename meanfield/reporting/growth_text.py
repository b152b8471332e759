r"""Growth laws as LaTeX: a line for q, 1 - c and ln J each, case by case, with names for what is long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import sympy as sp

from meanfield import symbols
from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.analysis.growth_records import SHORT, Growth
from meanfield.analysis.growth_shown import complements
from meanfield.analysis.implicit import Implicit
from meanfield.analysis.rational_forms import beyond
from meanfield.analysis.signs import agree
from meanfield.faces import latex, worded
from meanfield.gaussian.reasons import Reason
from meanfield.reporting.breaking import WIDTH, aligned, width
from meanfield.reporting.naming import distinct, replaced
from meanfield.reporting.pages import Page
from meanfield.reporting.patience import OutOfTime, within

__all__ = ["conditional", "formula", "reasons"]

#: numbers from which an expression is written in decimals
LONGEST = 10**6

#: letters for what is too long to stand in the line of J beside the leading term, and where that is found
_BESIDE: Final = {
    "log_coefficient": (sp.Symbol("b", real=True), r"The coefficient $b$ is long: it is the \texttt{log\_coefficient} of $\mathcal{J}$."),
    "settling": (sp.Symbol("r", positive=True), r"The exponent $r$ is long: it is the \texttt{settling} of $\mathcal{J}$."),
}

#: a product in a text
_TIMES: Final = re.compile(r"(?<=[\w)])\*")

#: seconds for the law on each side of a value that decides
PATIENCE = 40.0

_UNKNOWN = "The value of one parameter decides the rest; the law on each side of it was not derived within {:g} seconds."
_LETTERS = {"q": "$q$", "1 - c": "$1 - c$", "J": r"$\mathcal{J}$"}
_LEFT = {"q": "q_l", "1 - c": "1 - c_l", "J": r"\ln \mathcal{J}^{\,l,0}"}
#: how slowly what has a power of ln l beside one of l is reached
_SLOWLY = r" \left(1 + O\left(\frac{\ln \ln l}{\ln l}\right)\right)"
#: where a factor depends on the start
_PROPORTIONAL = r"\propto"
_RELATIONS = {
    "bounded": r"\to",
    "exponential": r"\sim",
    "infinite": "=",
    "logarithmic": r"\sim",
    "power": r"\sim",
    "quasi-polynomial": r"\simeq",
    "stretched": r"\simeq",
}


@latex.register
def _(law: Growth) -> str:
    r"""ln J for J, up to an additive constant"""
    return _lines_of(law)


@latex.register
def _(law: GrowthLaw) -> str:
    try:
        cases = within(PATIENCE, lambda: law.cases)
    except OutOfTime:
        return f"{_all_of(law)}\n{_UNKNOWN.format(PATIENCE)}"
    if len({_all_of(own) for _, own in cases}) < 2:  # none, or all alike
        return _all_of(law)
    return "\n\n".join(conditional(condition, own) for condition, own in cases)


def formula(law: Growth) -> str:
    """The law of one quantity as one line, in math mode."""
    return r", \qquad ".join(_lines(law, Page(), _expressions(law))).replace("&", "")


def _all_of(law: GrowthLaw) -> str:
    return _lines_of(law.q, law.gap, law.apjn)


def _lines_of(*laws: Growth) -> str:
    """the laws, and why something is not known"""
    beside = (_BESIDE[name][1] for law in laws if law.quantity == "J" for name in _lengthy(law))
    return "\n\n".join([_equations(laws), *reasons(laws, "undetermined"), *reasons(laws, "infinite"), *beside])


def _equations(laws: Sequence[Growth]) -> str:
    page = Page()
    given = [_expressions(g) for g in laws]
    letters = _roots([e for es in given for e in es], page)
    equations = [r.equation.xreplace({r.variable: s}) for s, r in {s: r for r, s in letters.items()}.items()]
    short = iter(page.named([replaced(e, letters) for es in given for e in es] + equations))
    lines = [line for g, es in zip(laws, given, strict=True) for line in _lines(g, page, [next(short) for _ in es])]
    where = [f"0 &= {page.expression(e)}" for e in short] + page.definitions()
    return aligned(lines) + (f"\nwhere\n{aligned(where)}" if where else "")


def conditional(condition: sp.Basic, law: GrowthLaw) -> str:
    """A law under a condition, which stands in a line of its own if it is long."""
    text = latex(condition)
    if width(text) < 0.6 * WIDTH:
        return f"If ${text}$:\n{latex(law)}"
    return f"If\n{aligned([f'& {text}'])}\nthen\n{latex(law)}"


def reasons(laws: Sequence[Growth], kind: str = "") -> Iterator[str]:
    """A sentence for each reason why something is not given (of laws of that kind), with what decides as a formula."""
    found: dict[tuple[str, str], list[str]] = {}
    parts = {_LETTERS[law.quantity]: law for law in laws}
    for name, part in parts.items():
        if part.reason and kind in ("", part.kind):
            found.setdefault((part.kind, part.reason), []).append(name)
    for (kind, _), names in found.items():
        yield f"{' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))} ({kind}): {_sentence(parts[names[0]])}."


def _sentence(law: Growth) -> str:
    """the reason in words, with its expressions and the letters to bind in LaTeX; what is long stands in a line of its own"""
    reason = law.reason if isinstance(law.reason, Reason) else Reason(law.reason)
    said = ""
    for part in reason.parts:
        text = breakable(part) if isinstance(part, str) else latex(part)
        said += text if isinstance(part, str) else f"${text}$" if width(text) < 0.3 * WIDTH else f"\n{aligned([f'& {text}'])}\n"
    if not reason.letters:
        return said
    letters = ", ".join(f"${latex(symbols.parameter(name))}$" for name in reason.letters)
    return f"{said}Bind {letters}" if said.endswith("\n") else f"{said}: bind {letters}"


def breakable(sentence: str) -> str:
    """a sentence with formulas as text, which may be long"""
    return _TIMES.sub(r"*\\allowbreak{}", worded(sentence))


def _roots(expressions: list[sp.Expr], page: Page) -> dict[sp.Basic, sp.Basic]:
    """a letter for each root of an equation, the same for the same root"""
    letters: dict[sp.Basic, sp.Basic] = {}
    for root in sorted({t for e in expressions for t in distinct(e) if isinstance(t, Implicit)}, key=str):
        own = next((s for other, s in letters.items() if _same(root, other)), None)
        if own is None:
            own = sp.Dummy(root.name, positive=True)
            page.names[own] = latex(root)
        letters[root] = own
    return letters


def _same(first: Implicit, second: Implicit) -> bool:
    """whether two roots are of one equation, written in two ways"""
    letter = sp.Dummy("root", positive=True)
    equations = (r.equation.xreplace({r.variable: letter}) for r in (first, second))
    return type(first) is type(second) and agree(*equations)


def _expressions(law: Growth) -> list[sp.Expr]:
    """what the line of a law is written in: its asymptote, and what that leaves out, or where modes cross"""
    brief = _brief(law)
    leading = replace(brief, quantity="J").asymptote if law.kind == "stretched" else brief.asymptote  # of 1 - c its logarithm too
    found = [e for e in (leading, brief.left_out, law.crossover) if e is not None]
    return [_legible(complements(e)) for e in found] if law.asymptote is not None and law.kind != "undetermined" else []


def _brief(law: Growth) -> Growth:
    """with letters for what fills pages beside the leading term"""
    return replace(law, **{name: _BESIDE[name][0] for name in _lengthy(law)})


def _lengthy(law: Growth) -> list[str]:
    return [name for name in _BESIDE if (e := getattr(law, name)) is not None and beyond(e, SHORT)]


def _legible(e: sp.Expr) -> sp.Expr:
    """in decimals, where numbers are not exact or of more digits than a person reads"""
    decimal = any(isinstance(t, sp.Float) or (t.is_Rational and max(abs(t.p), t.q) >= LONGEST) for t in distinct(e))
    return sp.expand_mul(sp.N(e, 25)) if decimal else e


def _lines(law: Growth, page: Page, expressions: list[sp.Expr]) -> list[str]:
    if not expressions:
        return [rf"{_LEFT[law.quantity]} &\quad \text{{{law.kind if law.kind == 'undetermined' else 'bounded'}}}"]
    if law.rate == -sp.oo:
        left = r"\mathcal{J}^{\,l,0}" if law.quantity == "J" else _LEFT[law.quantity]
        return [rf"{left} &= o\left(e^{{- k l}}\right) \quad \text{{for each }} k"]
    free = (
        law.quantity != "J" and law.kind in ("power", "exponential") and (law.kind == "exponential" or law.rate is law.coefficient is None)
    )
    relation = _PROPORTIONAL if free else _RELATIONS[law.kind]
    first, *others = map(page.expression, expressions)
    if law.kind in ("quasi-polynomial", "stretched") and law.log_coefficient is None:
        relation = _RELATIONS["power"]  # the leading term alone
    rest = rf" + O\left({others[0]}\right)" if len(others) > (law.crossover is not None) else ""
    rest = rf" \left(1{rest}\right)" if rest and law.quantity == "q" else rest
    rest += _SLOWLY if law.log_exponent is not None and law.rate is not None else ""
    left = r"\ln \left(1 - c_l\right)" if law.kind == "stretched" and law.quantity != "J" else _LEFT[law.quantity]
    lines = [f"{left} &{relation} {first}{rest}"]
    return [*lines, rf"l_{{\times}} &\sim {others[-1]}"] if others and law.crossover is not None else lines
