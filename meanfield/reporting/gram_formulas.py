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
        letter = "A" if self.definitions.get("A_{ij}", "") in ("", self._weights(mixing)) else f"A^{{({self.count + 1})}}"
        self.definitions[f"{letter}_{{ij}}"] = self._weights(mixing)
        name = self.named(rf"{weight}{letter} {state} {letter}^\top")
        return name, lambda x: rf"{weight}{letter}^\top {_bracketed(x)} {letter}"

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
