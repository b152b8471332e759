"""The LaTeX page of the reproduction: formulas, setting, values at the end, and the figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from meanfield import symbols
from meanfield.recurrence import recursion
from meanfield.reporting.article import PREAMBLE_TEXT, document, table
from meanfield.reporting.formulas import latex
from meanfield.reproduction.references import Comparison, CurvePoint
from meanfield.reproduction.systems import DEPTH, NORMS, TOY, VIT, Pair, network, toy_network
from meanfield.reproduction.tables import final_values, largest

__all__ = ["page"]

#: slopes whose end values are printed; the CSV has all
_SHOWN = (None, 0.1, 0.5, 1.0, 1.1, 1.5, 2.0)

_QUANTITIES = {
    "q_L": "$q_L$",
    "p_L": "$p_L$",
    "sum ln chi": r"$\sum \ln \chi$",
    "prod chi": r"$\prod \chi$",
    "J, value path": r"$\mathcal{J}^{L,0}_{\text{value}}$",
}


def _number(value: float) -> str:
    """a small number in LaTeX, to one digit"""
    mantissa, exponent = f"{value:.0e}".split("e")
    return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$" if value else "0"


def _slope(alpha: float | None) -> str:
    return "" if alpha is None else f"{alpha:g}"


def _setting(values: Mapping[str, float]) -> str:
    names = symbols.latex_names()
    start = {"q": "q_0", "p": "p_0"}
    return ", ".join(f"${start.get(k) or names[symbols.known(k)]} = {v:g}$" for k, v in values.items())


def _ends(transformers: Mapping[str, Pair]) -> str:
    rows = [
        (norm, _slope(alpha), f"{q:.8f}", f"{p:.8f}", f"{c:.6f}", f"{chi:.9f}", f"{value:.9f}", f"{full:.9f}")
        for norm, alpha, q, p, c, chi, value, full in final_values(transformers)
        if alpha in _SHOWN
    ]
    logs = (r"$\sum \ln \chi$", r"$\ln \mathcal{J}^{L,0}_{\text{value}}$", r"$\ln \mathcal{J}^{L,0}$")
    return table(("norm", r"$\alpha$", "$q_L$", "$p_L$", "$c_L$", *logs), rows, "llrrrrrr")


def _references(comparisons: Iterable[Comparison]) -> str:
    rows = [(c.system, c.norm, _slope(c.alpha), _QUANTITIES[c.quantity], c.reference, c.rounded, _number(c.deviation)) for c in comparisons]
    return table(("system", "norm", r"$\alpha$", "quantity", "reference", "computed", "deviation"), rows, "llllrrr")


def _published(points: Sequence[CurvePoint]) -> str:
    kinds = list(dict.fromkeys((p.figure, p.system, p.quantity) for p in points))
    rows = []
    for figure, system, quantity in kinds:
        here = [p for p in points if (p.figure, p.system, p.quantity) == (figure, system, quantity)]
        letter = "$q_l$" if quantity == "q" else r"$\sum_{k \ge l} \ln \chi_k$"
        rows.append((figure, system, letter, str(len(here)), _number(largest(p.deviation for p in here))))
    return table(("figure", "system", "quantity", "points", "largest difference"), rows, "lllrr")


def _figure(name: str, width: float, caption: str) -> str:
    picture = rf"\includegraphics[width={width}\linewidth]{{{name}.png}}\\[0.5em]"
    return "\n".join((r"\begin{center}", picture, rf"\begin{{minipage}}{{0.9\linewidth}}\small {caption}\end{{minipage}}", r"\end{center}"))


def page(
    transformers: Mapping[str, Pair],
    comparisons: Sequence[Comparison],
    points: Sequence[CurvePoint],
    captions: Mapping[str, tuple[float, str]],
) -> str:
    """The document. `captions` maps the file name of a figure, without its suffix, to its width as a share of the line and its caption."""
    parts = [r"\section*{The normalisation-free transformer at initialisation}" + "\n" + PREAMBLE_TEXT]
    for norm in NORMS:
        parts += [rf"\subsection*{{{norm}}}", latex(recursion(network(norm)))]
    parts += [r"\begin{samepage}", r"\subsection*{Toy network with Derf}", latex(recursion(toy_network("Derf"))), r"\end{samepage}"]
    parts += [
        r"\section*{Values}",
        rf"Transformer: {DEPTH} blocks, {_setting(VIT)}. Toy network: {DEPTH} layers, {_setting(TOY)}.",
        r"\subsection*{After the last block}",
        r"\begin{small}" + _ends(transformers) + r"\end{small}",
        r"$\mathcal{J}_{\text{value}}$ and $\chi$ follow the value path of attention and leave the derivative of the softmax out, "
        r"as the published product does.",
        r"\subsection*{Beside reference numbers}",
        r"\begin{small}" + _references(comparisons) + r"\end{small}",
        r"\subsection*{Beside the published curves}",
        r"Points of the theory curves of \emph{Normalization-free transformers are subcritical} and its Part 2 "
        r"(labofdoubt.github.io), read off the vector figures, where the last digit printed is about $5 \cdot 10^{-7}$.",
        r"\begin{small}" + _published(points) + r"\end{small}",
        r"\section*{Figures}",
    ]
    parts += [_figure(name, width, caption) for name, (width, caption) in captions.items()]
    if any(math.isnan(c.computed) for c in comparisons):
        raise ValueError("a reference number could not be computed: the run overflowed")
    return document(parts)
