r"""The recursion of a Gram matrix as LaTeX: what a network is read as where tokens are told apart and (q, p) does not close."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import sympy as sp

from meanfield.blocks.algebra import TOKENS, Block, Mixing, Parallel, Repeat, Residual, Serial, Signal
from meanfield.gaussian.expectation import Node
from meanfield.numeric.gram import explicit, joined
from meanfield.symbols import known

__all__ = ["gram_lines"]

#: a gradient before a part in terms of one behind it
Back = Callable[[str], str]

p, q1, q2 = known("p"), known("q1"), known("q2")


class Printing(Protocol):
    """A page of LaTeX that gives symbols their names."""

    names: dict[sp.Basic, str]

    def expression(self, e: sp.Basic) -> str: ...


@dataclass
class _Walk:
    """The lines of a network in order: matrices G^{(1)}, G^{(2)}, ..., and how a gradient goes back through each part."""

    page: Printing
    forward: list[str] = field(default_factory=list)
    definitions: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def part(self, block: Block, state: str) -> tuple[str, Back]:
        """The name of the matrix after a part, and the LaTeX of a gradient before it in terms of one behind it."""
        if block.tokenwise:
            return self.entries(block, state)
        if block.pattern is not None:
            return self.mixed(block.pattern, state)
        if isinstance(block, Serial):
            steps = []
            for inner in joined(block):
                state, step = self.part(inner, state)
                steps.append(step)
            return state, _chained(steps)
        if isinstance(block, Repeat):
            name, back = self.part(block.block, state)
            return self.named(rf"{name} \quad \text{{({block.times} times)}}"), back
        terms = [(block.skip, None), (block.scale, block.branch)] if isinstance(block, Residual) else [(1, b) for b in _branches(block)]
        sums: list[str] = []
        returns: list[tuple[str, Back]] = []
        for factor, branch in terms:
            name, step = (state, _itself) if branch is None else self.part(branch, state)
            weight = "" if factor**2 == 1 else self.page.expression(sp.sympify(factor) ** 2) + " "
            sums.append(weight + name)
            returns.append((weight, step))
        return self.named(" + ".join(sums)), lambda x: " + ".join(weight + step(x) for weight, step in returns)

    def named(self, right: str) -> str:
        self.count += 1
        name = f"G^{{({self.count})}}"
        self.forward.append(f"{name} &= {right}")
        return name

    def entries(self, block: Block, state: str) -> tuple[str, Back]:
        law = block.law(Signal(q1, p, (q1 + q2) / 2 - p, q2=q2))
        found = explicit(law, (law.output.p, law.transfer[1, 1]))
        after, slope = (e.replace(lambda t: isinstance(t, Node), lambda t: t.doit()) for e in found)
        self.page.names.update({q1: f"{state}_{{ii}}", p: f"{state}_{{ij}}", q2: f"{state}_{{jj}}"})
        self.count += 1
        name, factor = f"G^{{({self.count})}}", rf"\dot G^{{({self.count})}}"
        self.forward.append(f"{name}_{{ij}} &= {self.page.expression(after)}")
        self.definitions[f"{factor}_{{ij}}"] = self.page.expression(slope)
        return name, lambda x: rf"{factor} \circ {_bracketed(x)}"

    def mixed(self, mixing: Mixing, state: str) -> tuple[str, Back]:
        weight = "" if mixing.gain == 1 else self.page.expression(mixing.gain) + r"\, "
        letter = "A" if mixing.strength == 0 else "B"  # the weights themselves, or a mask
        if self.definitions.get(f"{letter}_{{ij}}", "") not in ("", self._weights(mixing)):
            letter = f"{letter}^{{({self.count + 1})}}"
        self.definitions[f"{letter}_{{ij}}"] = self._weights(mixing)
        if mixing.strength != 0:
            return self.softmax(mixing, state, weight, letter)
        name = self.named(rf"{weight}{letter} {state} {letter}^\top")
        return name, lambda x: rf"{weight}{letter}^\top {_bracketed(x)} {letter}"

    def softmax(self, mixing: Mixing, state: str, weight: str, letter: str) -> tuple[str, Back]:
        """Rows i and j of the softmax, which see tokens a and b: the formulas of `mf.MaskedAttention`"""
        s = "" if mixing.strength == 1 else self.page.expression(mixing.strength) + r"\, "
        name = self.named(rf"{weight}\sum_{{ab}} Y_{{ab}} {state}_{{ab}}, \quad Y = Y^{{ij}}")
        turned, G = (r"R^{ij}_{ab}\, " if mixing.frequencies else ""), state
        self.definitions |= {
            "w_{ia}": rf"{letter}_{{ia}} \Big/ \textstyle\sum_c {letter}_{{ic}}",
            r"Y^{ij}_{ab}": r"w_{ia} w_{jb}\, e^{(v_{ia} + v_{jb})/2 + c^{ij}_{ab}} \Big/ \textstyle\sum_{a'b'} w_{ia'} w_{jb'}\, "
            r"e^{(v_{ia'} + v_{jb'})/2 + c^{ij}_{a'b'}}",
            r"c^{ij}_{ab}": rf"\sqrt{{\omega_{{ia}} \omega_{{jb}}}}\, {s}{G}_{{ij}} \left[{turned}{G}_{{ab}} - \textstyle\sum_c "
            rf"(w_{{ic}} {turned.replace('_{ab}', '_{cb}')}{G}_{{cb}} + w_{{jc}} {turned.replace('_{ab}', '_{ac}')}{G}_{{ac}}) "
            rf"+ \sum_{{cd}} w_{{ic}} w_{{jd}} {turned.replace('_{ab}', '_{cd}')}{G}_{{cd}}\right], \quad v_{{ia}} = c^{{ii}}_{{aa}}",
            r"Z^{ij}_{ab}": rf"\sqrt{{\eta_i \eta_j}}\, {s}{turned}\left[(D_i - \alpha_i \alpha_i^\top) {G} "
            r"(D_j - \alpha_j \alpha_j^\top)\right]_{ab}, \quad D_i = \mathrm{diag}(\alpha_i), \quad "
            r"\alpha_{ia} = w_{ia} e^{v_{ia}/2} \Big/ \textstyle\sum_c w_{ic} e^{v_{ic}/2}",
            r"\omega_{ia}": r"\omega\left(\tfrac{m_i}{m_i - 1} u_{ia}, m_i\right), \quad u_{ia} = v_{ia}/\omega_{ia}, \quad "
            r"m_i = 1 \Big/ \textstyle\sum_a w_{ia}^2",
            r"\eta_i": r"\mu(v_i, m_i)\, y_i (1 - y_i) \frac{m_i^2}{m_i - 1}, \quad y_i = 1 \Big/ \left(1 + (m_i - 1) "
            r"e^{-v_i \omega(v_i, m_i)}\right), \quad v_i = \frac{m_i}{m_i - 1} \sum_a w_{ia} u_{ia}",
        }
        if mixing.frequencies:
            angles = ", ".join(self.page.expression(f) for f in mixing.frequencies[:3]) + r", \dots" * (len(mixing.frequencies) > 3)
            self.definitions[r"R^{ij}_{ab}"] = rf"\overline{{\cos \vartheta (i - a - j + b)}} \text{{ over }} \vartheta = {angles}"
        queries = rf"\left[X_{{ij}} \textstyle\sum_{{ab}} Z^{{ij}}_{{ab}} {G}_{{ab}}\right]_{{ij}}"
        return name, lambda x: rf"{weight}\left(\sum_{{ij}} X_{{ij}} (Y^{{ij}} + {G}_{{ij}} Z^{{ij}}) + {queries}\right)_{{X = {x}}}"

    def _weights(self, mixing: Mixing) -> str:
        self.page.names.update(zip(TOKENS, ("i", "j"), strict=True))
        return self.page.expression(mixing.weights)


def _itself(x: str) -> str:
    return x


def _chained(backs: list[Back]) -> Back:
    def back(x: str) -> str:
        for step in reversed(backs):
            x = step(x)
        return x

    return back


def _bracketed(x: str) -> str:
    return rf"\left[{x}\right]" if " " in x else x


def _branches(block: Block) -> tuple[Block, ...]:
    if not isinstance(block, Parallel):
        raise TypeError(f"no LaTeX for {block}: expected blocks joined by >>, + or Residual")
    return block.branches


def gram_lines(block: Block, page: Printing) -> str:
    """G and the gradient's Gamma through one repeat, as align* environments."""
    walk = _Walk(page)
    state, back = walk.part(block, "G")
    lines = [*walk.forward, rf"G &\leftarrow {state}", r"\Gamma &\leftarrow " + back(r"\Gamma")]
    text = "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
    definitions = [f"{left} &= {right}" for left, right in walk.definitions.items()]
    return f"{text}\nwhere\n\\begin{{align*}}\n" + " \\\\\n".join(definitions) + "\n\\end{align*}"
