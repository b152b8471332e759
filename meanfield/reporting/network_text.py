r"""A network in words and formulas: what its repeat does to a token, and what each of its parts is, with its source."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import singledispatch
from typing import Final

import sympy as sp

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, Parallel, Serial
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.elementary import Activate, Dropout, Identity, Linear, Scale
from meanfield.blocks.fixed import FixedAttention, MaskedAttention
from meanfield.blocks.gated import Product
from meanfield.blocks.gau import GAU
from meanfield.blocks.norms import BatchNorm, LayerNorm, RMSNorm
from meanfield.blocks.softmax import Quenched
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.characters import escaped
from meanfield.faces import latex
from meanfield.reporting.breaking import WIDTH, width
from meanfield.reporting.literature import References
from meanfield.symbols import known

__all__ = ["activations_of", "roles", "statements", "structure"]

#: field of a block -> what a letter means that stands there
_RESIDUAL: Final = {"skip": "weight of the skip", "scale": "gain of the branches"}
_MIXTURE: Final = {
    "alpha": "weight of a token's own value in attention",
    "beta": "weight of the softmax in attention",
    "gamma": "weight of the mean over tokens that attention takes off",
}


def _inside(block: Block) -> tuple[Block, ...]:
    """what a block is made of"""
    if isinstance(block, Serial):
        return block.blocks
    if isinstance(block, Parallel):
        return block.branches
    if isinstance(block, Residual):
        return (block.branch,)
    if isinstance(block, Repeat):
        return (block.block,)
    return (block.first, block.second) if isinstance(block, Product) else ()


def _parts(block: Block) -> Iterator[Block]:
    """everything in a network, what it is made of first"""
    for part in _inside(block):
        yield from _parts(part)
    yield block


def leaves(net: Block) -> Iterator[Block]:
    """The parts of a network that are not made of others, in order; a product follows its factors."""
    return (part for part in _parts(net) if isinstance(part, Product) or not _inside(part))


def roles(net: Block) -> dict[str, str]:
    """What letters mean by their places in a network: the weights of residuals and of mixtures of attention."""
    found: dict[str, str] = {}
    for part in _parts(net):
        places = _RESIDUAL if isinstance(part, Residual) else _MIXTURE if isinstance(part, (Attention, TokenMixing)) else {}
        letters = {getattr(part, name): meaning for name, meaning in places.items()}
        found |= {s.name: meaning for s, meaning in letters.items() if s.is_Symbol and s != known("alpha_skip")}
    return found


def activations_of(net: Block) -> dict[Activation, str]:
    r"""The activations of a network and their letters \phi, \phi_2, ..."""
    found = dict.fromkeys(b.phi for b in leaves(net) if isinstance(b, (Activate, GAU)))
    return {phi: r"\phi" if i == 1 else rf"\phi_{{{i}}}" for i, phi in enumerate(found, 1)}


def structure(net: Block) -> list[str]:
    r"""A line "x \leftarrow ..." for each sublayer; none where a line would not fit on a page."""
    letters = activations_of(net)
    parts = net.blocks if isinstance(net, Serial) else (net,)
    groups: list[list[Block]] = []
    for part in parts:
        if groups and not isinstance(part, Residual) and not isinstance(groups[-1][0], Residual):
            groups[-1].append(part)
        else:
            groups.append([part])
    lines = []
    for group in groups:
        x = "x"
        for part in group:
            x = _applied(part, x, letters)
        lines.append(rf"x &\leftarrow {x}")
    return lines if all(width(line) < WIDTH for line in lines) else []


def _applied(block: Block, x: str, letters: dict[Activation, str]) -> str:
    if isinstance(block, Serial):
        for part in block.blocks:
            x = _applied(part, x, letters)
        return x
    if isinstance(block, Residual):
        return _sum((block.skip, x), (block.scale, _applied(block.branch, x, letters)))
    if isinstance(block, Parallel):
        return r"\left[" + " + ".join(_applied(b, x, letters) for b in block.branches) + r"\right]"
    if isinstance(block, Repeat):
        return rf"\left[x \mapsto {_applied(block.block, 'x', letters)}\right]^{{{block.times}}}({x})"
    if isinstance(block, Product):
        first, second = (_bracketed(_applied(part, x, letters)) for part in (block.first, block.second))
        return rf"\left[{first} \odot {second}\right]"
    if isinstance(block, Activate):
        return f"{letters[block.phi]}({x})"
    if isinstance(block, Scale):
        return _sum((block.factor, x))
    name = type(block).__name__
    return rf"\{'mathrm' if name.isascii() else 'text'}{{{escaped(name)}}}({x})"


def _sum(*terms: tuple[sp.Expr, str]) -> str:
    """what is left of a sum of formulas with factors"""
    text = ""
    for factor, formula in terms:
        negative = not factor.is_Add and factor.could_extract_minus_sign()
        if factor != 0:
            sign = (" - " if negative else " + ") if text else "-" if negative else ""
            text += f"{sign}{_times(-factor if negative else factor)}{formula if factor == 1 else _bracketed(formula)}"
    return text or "0"


def _bracketed(formula: str) -> str:
    """a formula as a factor: a sum in brackets"""
    level = 0
    for c in formula:
        level += (c in "([{") - (c in ")]}")
        if not level and c in "+-":
            return rf"\left({formula}\right)"
    return formula


def _times(factor: sp.Expr) -> str:
    if factor == 1:
        return ""
    return rf"\left({latex(factor)}\right) " if isinstance(factor, sp.Add) else f"{latex(factor)} "


def statements(net: Block, cite: References) -> list[str]:
    """A sentence for each part of the network, without repetition."""
    letters = activations_of(net)
    found = []
    for leaf in leaves(net):
        if isinstance(leaf, Activate):
            source = {"derf": "derf", "dyt": "dyt"}.get(leaf.phi.name.partition("(")[0])
            where = f" {cite(source)}" if source else ""
            found.append(rf"${letters[leaf.phi]}(x) = {latex(leaf.phi.expression)}$, component by component{where}.")
        else:
            found.append(_statement(leaf, cite))
    return [text for text in dict.fromkeys(found) if text]


@singledispatch
def _statement(block: Block, cite: References) -> str:
    text = (inspect.getdoc(type(block)) or type(block).__name__).split("\n\n")[0]
    return escaped(f"{type(block).__name__}: {' '.join(text.split())}")


@_statement.register
def _(block: Linear, cite: References) -> str:
    weights = rf"\mathbb{{E}} W_{{ij}}^2 = {latex(block.sigma_w**2)} / d_{{\mathrm{{in}}}}"
    shift, bias = ("", "") if block.sigma_b == 0 else (" + b", rf"; bias of variance ${latex(block.sigma_b**2)}$")
    return rf"Linear: $x \mapsto W x{shift}$, independent Gaussian weights with ${weights}$, $d_{{\mathrm{{in}}}}$ the fan-in{bias}."


@_statement.register
def _(block: LayerNorm, cite: References) -> str:
    return f"LayerNorm: the components of a token are centred, and divided by their standard deviation {cite('layernorm')}."


@_statement.register
def _(block: RMSNorm, cite: References) -> str:
    return f"RMSNorm: a token is divided by the root mean square of its components {cite('rmsnorm')}."


@_statement.register
def _(block: BatchNorm, cite: References) -> str:
    return f"BatchNorm: each component is centred and scaled over a large batch {cite('batchnorm')}."


@_statement.register(Scale)
@_statement.register(Identity)
def _(block: Block, cite: References) -> str:
    return ""


@_statement.register
def _(block: Product, cite: References) -> str:
    return rf"$\odot$: the product of two branches, component by component {cite('glu')}."


@_statement.register
def _(block: Dropout, cite: References) -> str:
    return rf"Dropout: a component is put to zero with probability ${latex(block.rate)}$, and the others are scaled up to keep the mean."


def _average(block: Attention | TokenMixing) -> str:
    if isinstance(block.average, Quenched):
        return "averages are over the softmax of Gaussian logits"
    return "averages over its weights are annealed, ratios of expectations"


_SOFTMAX: Final = r"A = \mathrm{softmax}\bigl(x^\top W_Q^\top W_K x / \sqrt{d_k}\bigr)"
_PATHS: Final = {True: "gradients flow through the softmax", False: "the gradient through the softmax is left out"}


@_statement.register
def _(block: Attention, cite: References) -> str:
    mixture = "" if (block.alpha, block.beta, block.gamma) == (0, 1, 0) else f", in the combination {_mixture(block)}"
    map_of = rf"Attention: $x_a \mapsto W_O W_V \sum_b A_{{ab}} x_b$ over ${latex(block.n)}$ tokens"
    sizes = r"weights of variance $\sigma^2 / d_{\mathrm{in}}$"
    if block.sigma_Q == 0 or block.sigma_K == 0:
        return rf"{map_of}, $A_{{ab}} = 1/{latex(block.n)}${mixture}, {sizes}."
    return rf"{map_of}, ${_SOFTMAX}${mixture}, {sizes} {cite('vaswani', 'cowsik')}; {_average(block)}; {_PATHS[block.softmax_derivative]}."


@_statement.register
def _(block: TokenMixing, cite: References) -> str:
    return (
        rf"TokenMixing: $x_a \mapsto \sum_b M_{{ab}} x_b$ with {_mixture(block)}, $A$ a softmax over ${latex(block.n)}$ tokens "
        f"{cite('simplified', 'cowsik')}; {_average(block)}; {_PATHS[block.softmax_derivative]}."
    )


def _mixture(block: Attention | TokenMixing) -> str:
    mean = "" if block.gamma == 0 else rf", $C_{{ab}} = 1/{latex(block.n)}$"
    mixture = _sum((block.alpha, r"\mathbf{1}"), (block.beta, "A"), (-block.gamma, "C"))
    return f"$M = {mixture}${mean}"


def _entries(block: FixedAttention | MaskedAttention) -> str:
    """the weights in the letters i and j, without what is assumed of the tokens' indices"""
    return str(latex(block.weights.xreplace({s: sp.Symbol(s.name) for s in block.weights.free_symbols if s.name in ("i", "j")})))


@_statement.register
def _(block: FixedAttention, cite: References) -> str:
    return (
        rf"Attention with fixed weights: $x_i \mapsto W_O W_V \sum_j A_{{ij}} x_j$ over ${latex(block.n)}$ tokens, "
        rf"$A_{{ij}} = {_entries(block)}$, weights of variance $\sigma^2 / d_{{\mathrm{{in}}}}$."
    )


@_statement.register
def _(block: MaskedAttention, cite: References) -> str:
    weights = r"A_{ij} = B_{ij}\, e^{S_{ij}} / \sum_k B_{ik}\, e^{S_{ik}}"
    rotary = " between tokens turned by rotary positions" if block.frequencies else ""
    return (
        rf"Attention under a mask: $x_i \mapsto W_O W_V \sum_j A_{{ij}} x_j$ over ${latex(block.n)}$ tokens, ${weights}$, "
        rf"$S = x^\top W_Q^\top W_K x / \sqrt{{d_k}}${rotary}, $B_{{ij}} = {_entries(block)}$, weights of variance "
        rf"$\sigma^2 / d_{{\mathrm{{in}}}}$ {cite('vaswani')}; averages over its weights are annealed."
    )


@_statement.register
def _(block: GAU, cite: References) -> str:
    return (
        rf"GAU: the gated attention unit $W_O (U \odot A V)$, $A = \mathrm{{relu}}^2(Z Z^\top) / (s n)$, $U$, $V$ and $Z$ behind $\phi$, "
        rf"with $s = {latex(block.s)}$, $n = {latex(block.n)}$, $d = {latex(block.d)}$ {cite('gau')}."
    )
