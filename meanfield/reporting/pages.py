r"""One piece of LaTeX with the names it gives: kernels, weights' products, and what is long and stands in several places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import sympy as sp
from sympy import S

from meanfield import symbols
from meanfield.blocks.laws import Law
from meanfield.catalogue.constants import Constant
from meanfield.gaussian import closed
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.gaussian.shared_parts import parts_of
from meanfield.reporting.naming import shortened
from meanfield.reporting.printer import printed
from meanfield.symbols import known

__all__ = ["Page", "softmax_lines"]

#: points of an expression that is given a name where it occurs more than once
LONG: Final = 90.0

x, y, q, p, delta, rho = (known(name) for name in ("x", "y", "q", "p", "delta", "rho"))


#: functions that averages over softmax weights are written in -> what they are
_SOFTMAX: Final = {
    r"\omega": r"\mathbb{E}\, Y &= \frac{1}{1 + (m - 1)\, e^{-v\, \omega(v, m)}}",
    r"\mu": r"\mu(v, m) &= \frac{\mathbb{E} \sum_{ab} (\partial A_a / \partial s_b)^2}{\mathbb{E}\, Y\, (1 - \mathbb{E}\, Y)}",
    r"\beta_3": r"\beta_3(v, m) &= m^3\, \mathbb{E}\, A_1 A_2 A_3",
}
_WEIGHTS: Final = (
    r"Y &= \textstyle\sum_a A_a^2, \quad A = \mathrm{softmax}(s_1, \dots, s_m), \quad s_a \sim \mathcal{N}(0, v) \text{ independent}"
)


def softmax_lines(rights: Iterable[str]) -> list[str]:
    """What the functions of softmax averages are that stand in these lines."""
    text = "\n".join(rights)
    used = [line for letter, line in _SOFTMAX.items() if f"{letter}(" in text or rf"{letter}\left(" in text or rf"{letter}{{\left(" in text]
    return [*used, _WEIGHTS] if used else []


def _numbered(name: str, k: int) -> str:
    if k == 1:
        return name
    base, _, index = name.partition("_")
    return f"{base}_{{{index.strip('{}')}{k}}}"


@dataclass
class Page:
    """One piece of LaTeX: keeps the names it has given and what they stand for."""

    lines: dict[str, str] = field(default_factory=dict)  # left side -> right side
    written_out: dict[str, str] = field(default_factory=dict)  # left side -> right side without names for its parts
    names: dict[sp.Basic, str] = field(default_factory=symbols.latex_names)
    kernels: dict[sp.Expr, str] = field(default_factory=dict)  # activation -> name of its kernel on correlations
    products: set[str] = field(default_factory=set)
    constants: set[sp.Basic] = field(default_factory=set)

    def expression(self, e: sp.Basic) -> str:
        """LaTeX, with the names of this page"""
        self.constants |= parts_of(e, Constant)
        return printed(e, self.names)

    def _left(self, name: str, value: sp.Basic) -> str:
        """the name, with a number where it already stands for something else"""
        right, k = self.expression(value), 1
        while self.written_out.get(_numbered(name, k), right) != right:
            k += 1
        self.written_out[_numbered(name, k)] = right
        return _numbered(name, k)

    def _define(self, values: Mapping[sp.Symbol, sp.Basic]) -> None:
        """lines for named values, each behind those that it is written in"""
        rest = dict(values)

        def write(symbol: sp.Symbol) -> None:
            value = rest.pop(symbol)
            for s in [s for s in rest if s in value.free_symbols]:
                if s in rest:
                    write(s)
            self.lines.setdefault(self.names[symbol], self.expression(value))

        while rest:
            write(next(iter(rest)))

    # -- one sublayer -----------------------------------------------------------------------------------------------------
    def law(self, law: Law) -> list[str]:
        view: dict[sp.Basic, sp.Expr] = {delta: q - p}
        values: dict[sp.Symbol, sp.Expr] = {}
        for d in law.definitions:
            if d.shown is not None:
                view[d.symbol] = d.shown.xreplace(view)
            else:
                values[d.symbol] = self.readable(d.value.xreplace(view))
                self.names[d.symbol] = self._left(d.latex, values[d.symbol])
        out = [self.readable(e.xreplace(view)) for e in (law.output.q, law.output.p, *law.transfer, law.chi)]
        short, parts = self._shortened([*values.values(), *out], own=list(values))
        self._define(dict(zip(values, short, strict=False)) | parts)
        new_q, new_p, jj, jk, kj, kk, chi = short[len(values) :]
        return [
            rf"q &\leftarrow {self._state_first(new_q, q)}",
            rf"p &\leftarrow {self._state_first(new_p, p)}",
            rf"J &\leftarrow {self._combination([jj, jk])}",
            rf"K &\leftarrow {self._combination([kj, kk])}",
            rf"\chi &= {self._one_first(chi)}",
        ]

    def named(self, expressions: Sequence[sp.Basic], nodes: bool = True) -> list[sp.Basic]:
        """The same with names for what is long and stands in several places, or makes a line too long; also for expectations?"""
        short, parts = self._shortened(expressions, nodes)
        self._define(parts)
        return short

    def _shortened(
        self, expressions: Sequence[sp.Basic], nodes: bool = True, own: Sequence[sp.Symbol] = ()
    ) -> tuple[list[sp.Basic], dict[sp.Symbol, sp.Expr]]:
        def letter(part: sp.Expr) -> str:
            return self._left(r"\mathcal{E}" if isinstance(part, Node) else r"\mathcal{F}", part)

        return shortened(expressions, self.expression, self.names, letter, LONG, nodes, own)

    def _state_first(self, e: sp.Expr, state: sp.Symbol) -> str:
        terms = sp.Add.make_args(e)
        own = [t for t in terms if (t / state).free_symbols.isdisjoint({q, p}) and t.has(state) and not (t / state).has(Node)]
        if len(own) != 1 or len(terms) == 1:
            return self.expression(e)
        rest = sp.Add(*[t for t in terms if t is not own[0]])
        text = self.expression(rest)
        return f"{self.expression(own[0])} {text}" if text.startswith("-") else f"{self.expression(own[0])} + {text}"

    def _one_first(self, e: sp.Expr) -> str:
        constant, rest = e.as_coeff_Add()
        if constant == 0 or rest == 0:
            return self.expression(e)
        text = self.expression(rest)
        return f"{self.expression(constant)} {text}" if text.startswith("-") else f"{self.expression(constant)} + {text}"

    def _combination(self, row: list[sp.Expr]) -> str:
        parts = []
        for value, letter in zip(row, ("J", "K"), strict=True):
            if value == 0:
                continue
            text = self._one_first(value)
            if value == 1:
                parts.append(letter)
            elif isinstance(value, sp.Add):
                parts.append(rf"\left({text}\right) {letter}")
            else:
                parts.append(f"{text} {letter}")
        return " + ".join(parts).replace("+ - ", "- ") or "0"

    # -- readable expressions ---------------------------------------------------------------------------------------------
    def readable(self, e: sp.Expr) -> sp.Expr:
        """Expectations in their shortest form, products of weight scales by their usual letter."""
        e = e.replace(lambda t: isinstance(t, Node), self._node)
        for letter, (first, second) in symbols.products:
            a, b, ab = known(first), known(second), known(letter)
            if not (e.has(a) and e.has(b)):
                continue
            shorter = sp.powdenest(e.xreplace({b: ab / a}), force=True)
            if not shorter.has(a):
                e = shorter
                self.products.add(letter)
        return e

    def _node(self, node: Node) -> sp.Expr:
        if isinstance(node, PairExpectation) and node.args[1] == node.args[3] and node.args[4:] == (S.Zero, S.Zero):
            parts = node.separated()
            if parts is not None and parts[0] == parts[1]:
                degree = homogeneous_degree(parts[0])
                if degree is not None and degree.is_number and not parts[0].is_polynomial(x) and closed.cross(*parts) is not None:
                    v, cov = node.args[1:3]
                    return v**degree * sp.Function(self._kernel(parts[0]))(sp.cancel(cov / v))
        return node.doit() if isinstance(node, (PairExpectation, Expectation)) else node

    def _kernel(self, f: sp.Expr) -> str:
        if f not in self.kernels:
            base = next((name for g, name in self.kernels.items() if g.diff(x) == f), None)
            count = sum(not name.startswith("\\dot") for name in self.kernels.values())
            self.kernels[f] = rf"\dot{base}" if base else _numbered(r"\kappa", 1 if count == 0 else count + 1)
            form = closed.cross(f, f)
            assert form is not None
            value = PairExpectation(f * f.xreplace({x: y}), q, p, q).doit().xreplace({p: rho, q: S.One})
            name = self.kernels[f]
            self.lines[rf"{name}\left(\rho\right)"] = self.expression(value)
        return self.kernels[f]

    def definitions(self) -> list[str]:
        lines = [f"{left} &= {right}" for left, right in self.lines.items()]
        for letter, (first, second) in symbols.products:
            if letter in self.products:
                names = symbols.TABLE
                lines.append(f"{names[letter].latex} &= {names[first].latex} {names[second].latex}")
        lines += [rf"{self.expression(c)} &\approx {sp.N(c, 12)}" for c in sorted(self.constants, key=sp.default_sort_key)]
        return lines + softmax_lines(self.lines.values())
