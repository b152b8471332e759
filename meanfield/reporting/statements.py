r"""What is no formula of its own as LaTeX: a law and its signal, averages over softmax weights, certificates, optimisers, modules."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, Final

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield import symbols
from meanfield.activation import Activation
from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.blocks.laws import Law, Signal
from meanfield.blocks.softmax import Annealed, Quenched
from meanfield.budgets import Budget, Cost
from meanfield.catalogue.families import Catalogue
from meanfield.characters import escaped
from meanfield.faces import latex
from meanfield.gaussian.certificates import Certificate, Claim
from meanfield.gaussian.derivation import DerivationStep
from meanfield.gaussian.expansions import Expansion
from meanfield.gaussian.identities import Identity
from meanfield.numeric.sweeps import Sweep
from meanfield.reporting.breaking import aligned
from meanfield.reporting.formulas import certified, law_lines
from meanfield.reporting.growth_text import conditional
from meanfield.reporting.tabular import number, picked, table
from meanfield.scaling.deepnet import Optimizer
from meanfield.scaling.modular import Module
from meanfield.scaling.rules import Step
from meanfield.unrolling import Unrolled

#: rows and columns of a matrix that are written out
MATRIX: Final = 10
#: the most rows of a table on a page
PAGE: Final = 34

#: what is an expression or one equation, whose LaTeX is a formula for math mode; that of all else is a text
FORMULAS: Final = (
    *(sp.Basic, sp.MatrixBase, bool, numbers.Real, np.generic, np.ndarray, mp.mpf),
    *(Activation, Expansion, Identity, Unrolled, Signal, Annealed, Quenched, Budget, Cost, DerivationStep, Step, Optimizer),
)


@latex.register
def _(signal: Signal) -> str:
    moments = {"q": signal.q, "p": signal.p, "m": signal.mean} | ({} if signal.q2 is None else {"q_2": signal.q2})
    return r",\quad ".join(f"{letter} = {latex(sp.sympify(value))}" for letter, value in moments.items())


@latex.register
def _(law: Law) -> str:
    return aligned(law_lines(law))


@latex.register
def _(average: Annealed) -> str:
    return r"\mathbb{E} \prod_k A_k \approx \frac{\mathbb{E} \prod_k e^{s_k}}{(n\, \mathbb{E}\, e^{s})^k}"


@latex.register
def _(average: Quenched) -> str:
    return r"\mathbb{E} \prod_k A_k = \mathbb{E} \frac{\prod_k e^{s_k}}{(\sum_b e^{s_b})^k}"


@latex.register
def _(sweep: Sweep) -> str:
    """what is run: numbers that are not in memory are for no page"""
    return latex(sweep.net)


@latex.register(tuple)
@latex.register(list)
def _(things: tuple[Any, ...] | list[Any]) -> str:
    """one below the other: formulas in an align*, (condition, law) as a case, texts as they are"""
    if len(things) == 2 and isinstance(things[0], (sp.logic.boolalg.Boolean, sp.Rel)) and isinstance(things[1], GrowthLaw):
        return conditional(*things)
    parts: list[str] = []
    formulas: list[str] = []
    for thing in things:
        if isinstance(thing, FORMULAS):
            formulas.append(f"& {latex(thing)}")
        else:
            parts += ([aligned(formulas)] if formulas else []) + [latex(thing)]
            formulas = []
    return "\n\n".join([*parts, *([aligned(formulas)] if formulas else [])])


@latex.register(Mapping)
def _(things: Mapping[Any, Any]) -> str:
    """a line for each name of a formula, texts below theirs"""
    lefts = {name: latex(name) if isinstance(name, sp.Basic) else named(str(name)) for name in things}
    formulas = [f"{lefts[name]} &= {latex(value)}" for name, value in things.items() if isinstance(value, FORMULAS)]
    texts = [f"${lefts[name]}$:\n{latex(value)}" for name, value in things.items() if not isinstance(value, FORMULAS)]
    return "\n\n".join([*([aligned(formulas)] if formulas else []), *texts])


@latex.register(bool)
@latex.register(np.bool_)
def _(thing: Any) -> str:
    return rf"\text{{{escaped(str(thing))}}}"


@latex.register(numbers.Real)
@latex.register(np.generic)
@latex.register(mp.mpf)
def _(thing: Any) -> str:
    return number(float(thing)).strip("$")


@latex.register
def _(things: np.ndarray) -> str:
    """an array of up to two dimensions as a matrix, thinned"""
    if things.ndim == 0:
        return latex(things.item())
    if things.ndim > 2:
        raise TypeError(f"no LaTeX for an array of {things.ndim} dimensions: expected at most 2")
    rows = np.atleast_2d(things)
    chosen = [[latex(rows[i, j].item()) for j in picked(rows.shape[1], MATRIX)] for i in picked(rows.shape[0], MATRIX)]
    return "\\begin{pmatrix}" + r" \\ ".join(" & ".join(row) for row in chosen) + "\\end{pmatrix}"


def named(name: str) -> str:
    """a parameter's letter, or a word"""
    return (
        str(latex(symbols.parameter(name)))
        if name.isidentifier() and (name in symbols.TABLE or len(name) == 1)
        else rf"\text{{{escaped(name)}}}"
    )


@latex.register
def _(certificate: Certificate) -> str:
    return "\n\n".join(map(certified, certificate.claims))


@latex.register
def _(claim: Claim) -> str:
    return certified(claim)


@latex.register(Step)
@latex.register(DerivationStep)
def _(step: Step | DerivationStep) -> str:
    equation = latex(step.equation) if isinstance(step, Step) else f"{latex(step.before)} = {latex(step.after)}"
    reason = escaped(step.reason) if isinstance(step, Step) else step.reason
    return rf"\text{{{reason}:}} \quad {equation}"


@latex.register
def _(optimizer: Optimizer) -> str:
    gradient, weight = latex(optimizer.gradient), latex(optimizer.weight)
    return rf"|\Delta\theta| = \eta\, |g|^{{{gradient}}} |\theta|^{{{weight}}} \quad \text{{({escaped(optimizer.name)})}}"


@latex.register
def _(module: Module) -> str:
    return module.rule().latex()


@latex.register
def _(catalogue: Catalogue) -> str:
    """the activations without symbols, at their usual parameters, in tables between which a page can end"""
    rows = [[escaped(name), f"${latex(catalogue[name].expression)}$"] for name in catalogue.definite]
    tables = (table(["activation", r"$\phi(x)$"], rows[i : i + PAGE], "ll") for i in range(0, len(rows), PAGE))
    return "\n\n".join(tables)
