r"""What is no formula of its own as LaTeX: a law and its signal, averages over softmax weights, certificates, optimisers, modules."""

from __future__ import annotations

import sympy as sp

from meanfield.blocks.algebra import Law, Signal
from meanfield.blocks.softmax import Annealed, Quenched
from meanfield.catalogue.families import Catalogue
from meanfield.faces import latex
from meanfield.gaussian.derivation import Certificate, Claim, DerivationStep
from meanfield.reporting.formulas import law_lines
from meanfield.reporting.tabular import escaped, table
from meanfield.scaling.deepnet import Optimizer
from meanfield.scaling.modular import Module
from meanfield.scaling.rules import Step


@latex.register
def _(signal: Signal) -> str:
    moments = {"q": signal.q, "p": signal.p, "m": signal.mean} | ({} if signal.q2 is None else {"q_2": signal.q2})
    return r",\quad ".join(f"{letter} = {latex(sp.sympify(value))}" for letter, value in moments.items())


@latex.register
def _(law: Law) -> str:
    return "\\begin{align*}\n" + " \\\\\n".join(law_lines(law)) + "\n\\end{align*}"


@latex.register
def _(average: Annealed) -> str:
    return r"\mathbb{E} \prod_k A_k \approx \frac{\mathbb{E} \prod_k e^{s_k}}{(n\, \mathbb{E}\, e^{s})^k}"


@latex.register
def _(average: Quenched) -> str:
    return r"\mathbb{E} \prod_k A_k = \mathbb{E} \frac{\prod_k e^{s_k}}{(\sum_b e^{s_b})^k}"


@latex.register
def _(certificate: Certificate) -> str:
    return "\\begin{aligned}\n" + " \\\\\n".join(latex(c) for c in certificate.claims) + "\n\\end{aligned}"


@latex.register
def _(claim: Claim) -> str:
    return rf"& \text{{{escaped(claim.statement)}: {'holds' if claim.holds else 'fails'}, {escaped(claim.how)}}}"


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
    """the activations without symbols, at their usual parameters"""
    rows = [[escaped(name), f"${latex(catalogue[name].expression)}$"] for name in catalogue.definite]
    return table(["activation", r"$\phi(x)$"], rows, "ll")
