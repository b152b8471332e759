r"""The sections of an article about a network, each a piece of LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import sympy as sp

from meanfield import symbols
from meanfield.activation import Activation
from meanfield.analysis.growth_laws import GrowthLaw, growth
from meanfield.blocks.algebra import Block
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.characters import escaped
from meanfield.faces import latex
from meanfield.gaussian.derivation import Derivation
from meanfield.gaussian.expectation import Node
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.propagation import parameters
from meanfield.numeric.runs import Run
from meanfield.recurrence import recursion
from meanfield.reporting.breaking import aligned
from meanfield.reporting.formulas import certified, stage_title, steps_of, where
from meanfield.reporting.growth_text import breakable, reasons
from meanfield.reporting.literature import References
from meanfield.reporting.network_text import activations_of, leaves, roles, statements, structure
from meanfield.reporting.numbers import STARTS
from meanfield.reporting.pages import Page
from meanfield.reporting.patience import OutOfTime, within
from meanfield.reporting.tabular import number, table

__all__ = ["PREAMBLE_TEXT", "parameter_table", "sections"]

#: what the letters of a printed recursion mean
PREAMBLE_TEXT: Final = r"""One repeat of the network acts on the variance $q$ of a component of a token and its covariance $p$ between two
tokens as below; each line uses the current $(q, p)$. The second moments of the gradient, $J$ (same token) and $K$ (two tokens), go
backward through the same sublayers, last one first. $\chi$ is the factor of $J$ if gradients of different tokens are taken as
independent."""

_GRAM_TEXT: Final = r"""Tokens are told apart, so that the recursion is of their Gram matrix $G_{ij} = h_i \cdot h_j/d$, with
$\Gamma_{ij} = g_i \cdot g_j/d$ that of the gradients, which goes backward. $\circ$ is the product entry by entry."""

_QUADRATURE: Final = (
    "Expectations that are left as they are have no closed form; they are evaluated by quadrature with a bound on the error."
)

#: moment -> left side, in the letter of the activation
_MOMENTS: Final = {
    "second_moment": r"\mathbb{{E}}\, {phi}(u)^2",
    "kernel": r"\mathbb{{E}}\, {phi}(u)\, {phi}(v)",
}


def parameter_table(net: Block) -> str:
    """The parameters of a network and what they mean: by their places in it, else by the library's letters."""
    usual = {name: entry.meaning for name, entry in symbols.TABLE.items()} | roles(net)
    return table((), [(f"${latex(s)}$", usual.get(s.name, "parameter")) for s in parameters(net)], "@{}ll")


def sections(net: Block, run: Run | GramRun | PairRun | None, start: Mapping[str, Any], seconds: float) -> Iterator[str]:
    """The article, piece by piece; the bibliography lists what the pieces before it have cited."""
    cite = References()
    yield from _definitions(net, cite)
    yield from _recursion(net, cite)
    closed = [(phi, letter) for phi, letter in activations_of(net).items()]
    derivations: list[tuple[str, Derivation]] = []
    if closed:
        yield from _closed_forms(closed, derivations, cite)
    yield from _growth(net, start, seconds, cite)
    if run is not None:
        yield from _numbers(run, start)
    if derivations:
        yield r"\section*{Appendix: derivations}"
        yield (
            r"Each step is an equation by the rule named before it. A certificate does not use these rules: a kernel $C(q, p)$ is "
            rf"determined by $\partial C/\partial p = \mathbb{{E}} f'(u) f'(v)$ {cite('price')} and its value at $p = 0$."
        )
        for title, d in derivations:
            yield from _derivation(title, d)
    yield r"\section*{References}"
    yield from cite.listed


def _definitions(net: Block, cite: References) -> Iterator[str]:
    yield r"\section*{Network}"
    lines = structure(net)
    if lines:
        yield "One repeat acts on the tokens $x$ by\n" + aligned(lines) + "\nwith"
    else:
        yield "One repeat is made of"
    yield "\\begin{itemize}\n" + "\n".join(rf"\item {text}" for text in statements(net, cite)) + "\n\\end{itemize}"
    yield (
        "Weights are independent and layers wide, so that coordinates are Gaussian with the second moments below "
        f"{cite('poole', 'schoenholz')}."
    )
    letters = parameters(net)
    if letters:
        yield parameter_table(net)
    if any(s.name == "alpha_skip" for s in letters):
        yield f"The weight of the skip is that of DeepNorm {cite('deepnet')}."


def _recursion(net: Block, cite: References) -> Iterator[str]:
    yield r"\section*{Recursion}"
    text = latex(net)
    rounded = " Decimals are rounded to seven digits." if re.search(r"\d\.\d{5,}", text) else ""
    yield f"{PREAMBLE_TEXT if net.closes else _GRAM_TEXT}{rounded}\n{text}"
    if not net.closes:
        return
    yield r"\section*{Transfer and gradients}"
    stages = recursion(net).stages
    count = sum(stage.times for stage in stages)
    product = "T_1" if count == 1 else "T_1 T_2" if count == 2 else rf"T_1 \cdots T_{{{count}}}"
    names = ", ".join(f"{stage_title(stage.block)}" + (f" ({stage.times} times)" if stage.times > 1 else "") for stage in stages)
    yield (
        rf"The lines for $J$ and $K$ are the rows of the transfer matrix $T_k$ of each sublayer ({escaped(names)}), and a repeat has "
        rf"$T = {product}$ with each factor at its own $(q, p)$. The average squared norm of the partial Jacobian from repeat $l$ "
        f"to the end $L$ {cite('doshi')} is\n"
        + aligned([r"\mathcal{J}^{\,L,l} &= e_1^\top\, T^{(l)} \cdots T^{(L-1)}\, (1, K_L)^\top"])
        + "\n"
        r"with $K_L = 0$ for a gradient that is independent at each token, and $K_L = 1$ for one that is equal at all of them."
    )


def _closed_forms(found: list[tuple[Activation, str]], derivations: list[tuple[str, Derivation]], cite: References) -> Iterator[str]:
    yield r"\section*{Gaussian expectations}"
    title = r"Of the activations, with $u$, $v$ centred Gaussian of variance $q$ and covariance $p$:"
    open_ones, page = False, Page()
    lefts: list[str] = []
    values: list[sp.Expr] = []
    for phi, letter in found:
        for f, name in ((phi, letter), (phi.derivative, rf"{letter}'")):
            for moment, left in _MOMENTS.items():
                value = (
                    f.second_moment(symbols.known("q")) if moment == "second_moment" else f.kernel(symbols.known("q"), symbols.known("p"))
                )
                open_ones |= value.has(Node)
                lefts.append(left.format(phi=name))
                values.append(value)
            if f.expression.free_symbols >= {symbols.known("x")} and f.is_closed("kernel"):
                derivations.append((rf"$\mathbb{{E}}\, {name}(u)\, {name}(v)$", f.derive("kernel")))
    lines = [f"{left} &= {page.expression(value)}" for left, value in zip(lefts, page.named(values, nodes=False), strict=True)]
    yield where(f"{title}\n{aligned(lines)}", page)
    if open_ones:
        yield _QUADRATURE
    if derivations:
        yield f"Closed forms are derived in the appendix, by Stein's identity {cite('stein')} and orthant probabilities {cite('sheppard')}."


def _law(net: Block, start: Mapping[str, Any]) -> tuple[GrowthLaw, str, str]:
    """the law in symbols; where these leave it open and there are numbers, at these; and its LaTeX, which derives its cases"""
    law, names = growth(net), {s.name for s in parameters(net)}
    numbers = {name: value for name, value in start.items() if name in names and np.ndim(value) == 0}
    if numbers and "undetermined" in (law.q.kind, law.gap.kind, law.apjn.kind):
        law = growth(net, **numbers)
        return law, f" at {', '.join(_value(*item) for item in numbers.items())}", latex(law)
    return law, "", latex(law)


def _growth(net: Block, start: Mapping[str, Any], seconds: float, cite: References) -> Iterator[str]:
    yield r"\section*{Growth with depth}"
    if not net.closes:
        yield "Growth laws are of recursions in $(q, p)$; this network has none."
        return
    try:
        law, where, text = within(seconds, lambda: _law(net, start))
    except OutOfTime:
        yield (
            rf"The growth law of this network was not derived within {seconds:g} seconds; the recursion above and runs of it hold "
            r"regardless. Values for some of its parameters make the derivation shorter."
        )
        return
    except ValueError as reason:
        yield f"There is no growth law: {breakable(str(reason))}."
        return
    except (NotImplementedError, ArithmeticError, TypeError):  # sympy's, about its own insides
        yield "A growth law of this network could not be derived; the recursion above and runs of it hold regardless."
        return
    yield f"As the number $l$ of repeats grows{where}:\n{text}"
    yield from (reason for reason in reasons((law.q, law.gap, law.apjn)) if reason not in text)
    if any(isinstance(leaf, (Attention, TokenMixing)) for leaf in leaves(net)):
        yield rf"With attention, the laws are those of the closure named above {cite('cowsik')}."


def _numbers(run: Run | GramRun | PairRun, start: Mapping[str, Any]) -> Iterator[str]:
    yield r"\section*{Numbers}"
    values = ", ".join(_value(name, value) for name, value in start.items() if np.ndim(value) == 0)
    pooled = r" The gradient at the output is the same at all tokens, $K_L = J_L$." if getattr(run, "start", "token") == "pooled" else ""
    yield (rf"{run.depth} repeats from {values}." if values else rf"{run.depth} repeats.") + pooled
    yield r"\begin{small}" + latex(run) + r"\end{small}"
    words = sorted(set(np.ravel(run.status).tolist()) - {"ok"})
    if words:
        yield f"Not all of it is in the range of doubles: {escaped(', '.join(words))}."


def _value(name: str, value: Any) -> str:
    letter = STARTS.get(name) or latex(symbols.parameter(name))
    return f"${letter} = {number(float(value)).strip('$')}$"


def _derivation(title: str, d: Derivation) -> Iterator[str]:
    yield rf"\subsection*{{{title}}}"
    page = Page()
    *steps, result = steps_of(d, page)
    yield from steps
    yield where(result, page)
    yield from map(certified, d.certificate.claims)
