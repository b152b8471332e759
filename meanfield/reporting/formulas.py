r"""LaTeX of every public object, in the letters of the literature: `latex(anything)` is a fragment that pastes into a paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import sympy as sp

from meanfield.activation import Activation
from meanfield.analysis.critical_points import Critical
from meanfield.analysis.shaped import Shaped
from meanfield.blocks.algebra import Block, Parallel, Serial
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.elementary import Activate, Linear
from meanfield.blocks.laws import Law
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.characters import escaped
from meanfield.faces import latex
from meanfield.gains import Gain
from meanfield.gaussian.certificates import Claim
from meanfield.gaussian.derivation import Derivation
from meanfield.gaussian.expansions import Expansion
from meanfield.gaussian.identities import Identity
from meanfield.recurrence import Recursion, recursion
from meanfield.reporting.breaking import COLUMN, WIDTH, aligned, fitted
from meanfield.reporting.gram_formulas import gram_lines
from meanfield.reporting.pages import Page
from meanfield.symbols import known
from meanfield.unrolling import Unrolled

__all__ = ["certified", "equations_of", "latex", "law_lines", "stage_title", "steps_of", "where"]

#: points of an expression that is given a name where it occurs more than once
LONG: Final = 90.0

#: what a certificate claims, as a formula
_CLAIMS: Final = {
    "dC/dp = E f'(u) f'(v)": r"$\partial C/\partial p = \mathbb{E}\, f'(u) f'(v)$",
    "C(q, 0) = (E f(u))^2": r"$C(q, 0) = (\mathbb{E}\, f(u))^2$",
    "C(q1, 0, q2) = E f(u) E f(v)": r"$C(q_1, 0, q_2) = \mathbb{E}\, f(u)\, \mathbb{E}\, f(v)$",
    "dM/dq = E[u g'(u)]/(2q)": r"$\partial M/\partial q = \mathbb{E}[u\, g'(u)]/2q$",
    "dM/dq = E[(u - m) g'(u)]/(2q)": r"$\partial M/\partial q = \mathbb{E}[(u - m)\, g'(u)]/2q$",
}

x, y, q, p, delta, rho = (known(name) for name in ("x", "y", "q", "p", "delta", "rho"))


@latex.register(sp.Basic)
@latex.register(sp.Rational)  # which is a numbers.Real as well, and these are printed as decimals
@latex.register(sp.MatrixBase)
def _(thing: sp.Basic) -> str:
    return Page().expression(thing)


@latex.register
def _(thing: Activation) -> str:
    return rf"\phi(x) = {Page().expression(thing.expression)}"


@latex.register
def _(thing: Block) -> str:
    return latex(recursion(thing)) if thing.closes else fitted(gram_lines(thing, Page()))


@latex.register
def _(thing: Recursion) -> str:
    page = Page()
    parts = []
    for stage in thing.stages:
        title = stage_title(stage.block) if stage.times == 1 else f"{stage.times} times {stage_title(stage.block)}"
        heading = [rf"& \textbf{{{escaped(title)}}}"] if len(thing.stages) > 1 or stage.times > 1 else []
        parts.append(aligned([*heading, *page.law(stage.law)]))
    return where("\n".join(parts), page)


@latex.register(Expansion)
@latex.register(Identity)
@latex.register(Gain)
@latex.register(Unrolled)
@latex.register(Critical)
@latex.register(Shaped)
def _(thing: Expansion | Identity | Gain | Critical | Shaped | Unrolled) -> str:
    return thing.latex()


@latex.register
def _(thing: Derivation) -> str:
    page = Page()
    steps = where("\n\n".join(steps_of(thing, page, COLUMN)), page, COLUMN)
    return "\n\n".join([steps, *map(certified, thing.certificate.claims)])


def certified(claim: Claim, words: Callable[[str], str] = escaped) -> str:
    """A sentence on a claim of a certificate, with formulas as $math$ and the rest as `words` writes a text: LaTeX, or Markdown."""
    statement = _CLAIMS.get(claim.statement) or words(claim.statement)
    return f"Certificate {'holds' if claim.holds else 'FAILS'}: {statement}, {words(claim.how)}."


def steps_of(thing: Derivation, page: Page, limit: float = WIDTH) -> Iterator[str]:
    """The steps and the result, each a sentence with its equation."""
    *equations, (quantity, result) = equations_of(thing, page)
    for step, (before, after) in zip(thing.steps, equations, strict=True):
        equation = aligned([f"& {before}", rf"& \quad = {after}"], limit)
        yield f"{step.reason[0].upper()}{step.reason[1:]}:\n{equation}"
    yield "Result:\n" + aligned([f"& {quantity}", rf"& \quad = {result}"], limit)


def equations_of(thing: Derivation, page: Page) -> list[tuple[str, str]]:
    """Both sides of the steps and, last, of what they show; what is long and stands in several places is named on the page."""
    sides = [side for step in thing.steps for side in (step.before, step.after)]
    short = page.named([*sides, thing.quantity, thing.result], nodes=False)
    texts = [page.expression(e) for e in short]
    return list(zip(texts[::2], texts[1::2], strict=True))


def where(text: str, page: Page, limit: float = WIDTH) -> str:
    """A fragment with what its names stand for behind it."""
    definitions = page.definitions()
    return f"{text}\nwhere\n{aligned(definitions, limit)}" if definitions else text


def law_lines(law: Law) -> list[str]:
    """The lines of a law, with the named quantities it is written in behind them."""
    page = Page()
    return [*page.law(law), *page.definitions()]


def stage_title(block: Block) -> str:
    """What a sublayer is called."""
    if isinstance(block, Residual):
        return stage_title(block.branch)
    if isinstance(block, Repeat):
        return f"{block.times} times {stage_title(block.block)}"
    if isinstance(block, Parallel):
        return " and ".join(stage_title(b) for b in block.branches)
    parts = block.blocks if isinstance(block, Serial) else (block,)
    if any(isinstance(b, (Attention, TokenMixing)) for b in parts):
        return "Attention"
    kinds = [type(b) for b in parts]
    if any(kinds[i : i + 3] == [Linear, Activate, Linear] for i in range(len(kinds))):
        return "MLP"
    return ", ".join(_part_title(b) for b in parts)


def _part_title(block: Block) -> str:
    if isinstance(block, (Parallel, Repeat, Residual)):
        return stage_title(block)
    return (block.phi.name or "activation") if isinstance(block, Activate) else type(block).__name__
