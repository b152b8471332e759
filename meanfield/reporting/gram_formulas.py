r"""The recursion of a Gram matrix as LaTeX: what a network is read as where tokens are told apart and (q, p) does not close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import sympy as sp

from meanfield.blocks.algebra import Block, Parallel, Serial, backward
from meanfield.blocks.laws import TOKENS, Mixing, Signal
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.gaussian.expectation import Node
from meanfield.numeric.gram_laws import explicit, joined, one_law
from meanfield.reporting.pages import softmax_lines
from meanfield.symbols import known

__all__ = ["gram_lines"]

#: a gradient before a part in terms of one behind it
Back = Callable[[str], str]

p, q1, q2 = known("p"), known("q1"), known("q2")


class Printing(Protocol):
    """A page of LaTeX that gives symbols their names."""

    names: dict[sp.Basic, str]

    def expression(self, e: sp.Basic) -> str: ...
    def named(self, expressions: Sequence[sp.Basic]) -> list[sp.Basic]: ...
    def definitions(self) -> list[str]: ...


@dataclass
class _Walk:
    """The lines of a network in order: matrices G^{(1)}, G^{(2)}, ..., and how a gradient goes back through each part."""

    page: Printing
    forward: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    definitions: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def part(self, block: Block, state: str) -> tuple[str, Back]:
        """The name of the matrix after a part, and the LaTeX of a gradient before it in terms of one behind it."""
        if one_law(block):
            return self.entries(block, state)
        if block.pattern is not None:
            return self.mixed(block.pattern, state)
        if isinstance(block, Serial):
            steps = []
            for inner in joined(block):
                state, step = self.part(inner, state)
                steps.append(step)
            return state, backward(steps)
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
        name = self.named(" + ".join(sums))
        number = self.count

        def behind(x: str) -> str:
            x = self.gradient(x, number)
            return " + ".join(weight + step(x) for weight, step in returns)

        return name, behind

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
        after, slope = self.page.named([after, slope])
        self.count += 1
        name, factor = f"G^{{({self.count})}}", rf"\dot G^{{({self.count})}}"
        self.forward.append(f"{name}_{{ij}} &= {self.page.expression(after)}")
        self.definitions[f"{factor}_{{ij}}"] = self.page.expression(slope)
        return name, lambda x: rf"{factor} \circ {_bracketed(x)}"

    def mixed(self, mixing: Mixing, state: str) -> tuple[str, Back]:
        weight = "" if mixing.gain == 1 else self.page.expression(mixing.gain) + r"\, "
        if mixing.strength != 0:
            return self.softmax(mixing, state, weight)
        letter = "A"
        if self.definitions.get("A_{ij}", "") not in ("", self._weights(mixing)):
            letter = f"A^{{({self.count + 1})}}"
        self.definitions[f"{letter}_{{ij}}"] = self._weights(mixing)
        name = self.named(rf"{weight}{letter} {state} {letter}^\top")
        return name, lambda x: rf"{weight}{letter}^\top {_bracketed(x)} {letter}"

    def softmax(self, mixing: Mixing, state: str, weight: str) -> tuple[str, Back]:
        """Rows i and j of the softmax, which see tokens a and b: the formulas of `mf.MaskedAttention`. The letters of a second softmax
        bear the number of its matrix, those of its mask only where it has another."""
        own = _Letters("" if r"Y^{ij}_{ab}" not in self.definitions else f"({self.count + 1})")
        mask = own if self.definitions.get("B_{ij}", self._weights(mixing)) != self._weights(mixing) else _Letters("")
        B, w, c, v, R = mask.of("B"), mask.of("w"), own.of("c", "ij"), own.of("v"), own.of("R", "ij")
        alpha, omega, eta, m, y, D = map(own.of, (r"\alpha", r"\omega", r"\eta", "m", "y", "D"))
        mean, u = own.of(r"\bar u"), own.of("u")
        Y, Z, mu, G = own("Y", "ij", "ab"), own("Z", "ij", "ab"), own(r"\mu", "", "i"), state
        s = "" if mixing.strength == 1 else self.page.expression(mixing.strength) + r"\, "

        def turned(at: str) -> str:
            return rf"{R(at)}\, {G}_{{{at}}}" if mixing.frequencies else f"{G}_{{{at}}}"

        def product(a: str, b: str) -> str:
            return rf"{w(f'i{a}')} {w(f'j{b}')}\, e^{{({v(f'i{a}')} + {v(f'j{b}')})/2 + {c(a + b)}}}"

        name = self.named(rf"{weight}\sum_{{ab}} {Y} {G}_{{ab}}")
        number = self.count
        a, inverse, primed = alpha("i"), r"\Big/ \textstyle\sum", ("a'", "b'")
        space, above = r"\, ", (r"\alpha", r"\top")
        rows_of = {k: f"{D(k)} - {alpha(k)} {own(*above, k)}" for k in "ij"}
        self.definitions |= {
            B("ij"): self._weights(mixing),
            w("ia"): rf"{B('ia')} {inverse}_c {B('ic')}",
            Y: rf"{product('a', 'b')} {inverse}_{{a'b'}} {product(*primed)}",
            c("ab"): rf"{s}\sqrt{{{omega('ia')} {omega('jb')}}}\, {G}_{{ij}} \Bigl[{turned('ab')} - \textstyle\sum_c "
            rf"({w('ic')} {turned('cb')} + {w('jc')} {turned('ac')}) + \sum_{{cd}} {w('ic')} {w('jd')} {turned('cd')}\Bigr]",
            v("ia"): own("c", "ii", "aa"),
            Z: rf"{s}\sqrt{{{eta('i')} {eta('j')}}}\, {R('ab') + space if mixing.frequencies else ''}"
            rf"\bigl[({rows_of['i']}) {G} ({rows_of['j']})\bigr]_{{ab}}",
            D("i"): rf"\mathrm{{diag}}({a})",
            alpha("ia"): rf"{w('ia')} e^{{{v('ia')}/2}} {inverse}_c {w('ic')} e^{{{v('ic')}/2}}",
            omega("ia"): rf"\omega(\tfrac{{{m('i')}}}{{{m('i')} - 1}} {u('ia')}, {m('i')})",
            u("ia"): rf"{v('ia')}/{omega('ia')}",
            m("i"): rf"1 {inverse}_a {{{w('ia')}}}^2",
            mean("i"): rf"\frac{{{m('i')}}}{{{m('i')} - 1}} \sum_a {w('ia')} {u('ia')}",
            mu: rf"\mu({mean('i')}, {m('i')})",
            eta("i"): rf"{mu}\, {y('i')} (1 - {y('i')}) \frac{{{{{m('i')}}}^2}}{{{m('i')} - 1}}",
            y("i"): rf"1 \Big/ \bigl(1 + ({m('i')} - 1) e^{{-{mean('i')} \omega({mean('i')}, {m('i')})}}\bigr)",
        }
        if mixing.frequencies:
            angles = ", ".join(self.page.expression(f) for f in mixing.frequencies[:3]) + r", \dots" * (len(mixing.frequencies) > 3)
            self.definitions[R("ab")] = rf"\overline{{\cos \vartheta (i - a - j + b)}} \text{{ over }} \vartheta = {angles}"

        def back(x: str) -> str:
            X = self.gradient(x, number)
            rows = rf"{own('Y', 'ij')} + {G}_{{ij}} {own('Z', 'ij')}"
            queries = rf"\bigl[{X}_{{ij}} \textstyle\sum_{{ab}} {Z} {G}_{{ab}}\bigr]_{{ij}}"
            return rf"{weight}\textstyle\sum_{{ij}} {X}_{{ij}} ({rows}) + {weight}{queries}"

        return name, back

    def gradient(self, x: str, number: int) -> str:
        """A name for a gradient that is a sum or product: the one at the matrix of that number."""
        if " " not in x:
            return x
        name = rf"\Gamma^{{({number})}}"
        if (line := f"{name} &= {x}") not in self.behind:
            self.behind.append(line)
        return name

    def _weights(self, mixing: Mixing) -> str:
        self.page.names.update(zip(TOKENS, ("i", "j"), strict=True))
        return self.page.expression(mixing.weights)


@dataclass(frozen=True)
class _Letters:
    """Letters with the mark of a matrix, as Y^{(3) ij}_{ab}."""

    mark: str

    def of(self, letter: str, above: str = "") -> Callable[[str], str]:
        """The letter at an index."""
        return lambda below: self(letter, above, below)

    def __call__(self, letter: str, above: str = "", below: str = "") -> str:
        upper = r"\,".join(part for part in (self.mark, above) if part)
        return letter + (f"^{{{upper}}}" if upper else "") + (f"_{{{below}}}" if below else "")


def _itself(x: str) -> str:
    return x


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
    gradient = back(r"\Gamma")
    lines = [*walk.forward, rf"G &\leftarrow {state}", *walk.behind, rf"\Gamma &\leftarrow {gradient}"]
    text = "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
    definitions = [*(f"{left} &= {right}" for left, right in walk.definitions.items()), *page.definitions()]
    definitions += softmax_lines(walk.definitions.values())
    return f"{text}\nwhere\n\\begin{{align*}}\n" + " \\\\\n".join(definitions) + "\n\\end{align*}"
