r"""LaTeX of every public object, in the letters of the literature: `latex(anything)` is a fragment that pastes into a paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import sympy as sp
from sympy import S
from sympy.printing.latex import LatexPrinter

from meanfield import symbols
from meanfield.activation import Activation
from meanfield.analysis.critical_points import Critical
from meanfield.analysis.points import FixedPoint, FixedPoints
from meanfield.analysis.shaped import Shaped
from meanfield.blocks.algebra import Block, Law, Parallel, Repeat, Residual, Serial
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.elementary import Activate, Linear
from meanfield.faces import latex
from meanfield.gains import Gain
from meanfield.gaussian import closed
from meanfield.gaussian.derivation import Derivation
from meanfield.gaussian.expansions import Expansion
from meanfield.gaussian.expectation import Expectation, Node, PairExpectation
from meanfield.gaussian.identities import Identity
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.recurrence import Recursion, recursion
from meanfield.reporting.breaking import aligned, fitted, width
from meanfield.reporting.gram_formulas import gram_lines
from meanfield.reporting.tabular import escaped
from meanfield.symbols import known
from meanfield.unrolling import Unrolled

__all__ = ["latex", "law_lines", "stage_title"]

#: points of an expression that is given a name where it occurs more than once
LONG: Final = 90.0

x, y, q, p, delta, rho = (known(name) for name in ("x", "y", "q", "p", "delta", "rho"))
_J, _K = sp.symbols("J K")


@latex.register(sp.Basic)
@latex.register(sp.MatrixBase)
def _(thing: sp.Basic) -> str:
    return _Page().expression(thing)


@latex.register
def _(thing: Activation) -> str:
    return rf"\phi(x) = {_Page().expression(thing.expression)}"


@latex.register
def _(thing: Block) -> str:
    return latex(recursion(thing)) if thing.closes else fitted(gram_lines(thing, _Page()))


@latex.register
def _(thing: Recursion) -> str:
    page = _Page()
    parts = []
    for stage in thing.stages:
        title = stage_title(stage.block) if stage.times == 1 else f"{stage.times} times {stage_title(stage.block)}"
        heading = [rf"& \textbf{{{title}}}"] if len(thing.stages) > 1 or stage.times > 1 else []
        parts.append(aligned([*heading, *page.law(stage.law)]))
    text = "\n".join(parts)
    definitions = page.definitions()
    return f"{text}\nwhere\n{aligned(definitions)}" if definitions else text


@latex.register(Expansion)
@latex.register(Identity)
@latex.register(Gain)
@latex.register(Unrolled)
@latex.register(Critical)
@latex.register(FixedPoint)
@latex.register(FixedPoints)
@latex.register(Shaped)
def _(thing: Expansion | Identity | Gain | Critical | FixedPoint | FixedPoints | Shaped | Unrolled) -> str:
    return thing.latex()


@latex.register
def _(thing: Derivation) -> str:
    page = _Page()
    lines = []
    for step in thing.steps:
        lines.append(rf"& \text{{{step.reason}:}}")
        lines.append(rf"& \quad {page.expression(step.before)}")
        lines.append(rf"& \qquad = {page.expression(step.after)}")
    for claim in thing.certificate.claims:
        lines.append(rf"& \text{{certificate: {escaped(claim.statement)} ({escaped(claim.how)})}}")
    quantity, result = page.expression(thing.quantity), page.expression(thing.result)
    return aligned([*lines, f"& {quantity} = {result}"])


def law_lines(law: Law) -> list[str]:
    """The lines of a law, with the named quantities it is written in behind them."""
    page = _Page()
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
    return repr(block.phi) if isinstance(block, Activate) else type(block).__name__


def _numbered(name: str, k: int) -> str:
    if k == 1:
        return name
    base, _, index = name.partition("_")
    return f"{base}_{{{index.strip('{}')}{k}}}"


class _Printer(LatexPrinter):
    """Sums with a positive constant or term in front; the root of pi with that of a number: 1/sqrt(2 pi), sqrt(2/pi); the library's own
    functions by what they stand for."""

    def _print_AngleMinusSine(self, expr: sp.Expr, exp: str | None = None) -> str:
        text = rf"\left({self._print(expr.definition())}\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    _print_AngleDifference = _print_AngleMinusSine

    def _print_atan2(self, expr: sp.Expr, exp: str | None = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\operatorname{{atan2}}{power}{{\left({self._print(expr.args[0])}, {self._print(expr.args[1])}\right)}}"

    def _print_Mul(self, expr: sp.Mul) -> str:
        r, roots = expr.as_coeff_Mul()
        number = next((f for f in sp.Mul.make_args(roots) if f.is_Pow and f.base.is_Integer and f.exp == S.Half), None)
        if number is None or not roots.has(sp.pi**-S.Half):
            return str(super()._print_Mul(expr))
        a, rest = number.base, roots / number * sp.sqrt(sp.pi)
        if a % r.q == 0 and r.q > 1:  # r sqrt(a/pi) = r a/sqrt(a pi)
            r, text, power = r * a, rf"\sqrt{{{a} \pi}}", -1
        else:
            text, power = rf"\sqrt{{\frac{{{a}}}{{\pi}}}}", 1
        root = sp.Symbol(" root", positive=True)
        self._settings["symbol_names"][root] = text
        return str(super()._print_Mul(sp.Mul(r, root**power, rest)) if (r, rest) != (1, 1) or power < 0 else text)

    def _print_Add(self, expr: sp.Add, order: str | None = None) -> str:
        terms = self._as_ordered_terms(expr, order=order)
        terms.sort(key=lambda t: (t.could_extract_minus_sign(), not t.is_Number))
        text = ""
        for t in terms:
            negative = t.could_extract_minus_sign()
            part = self._print(-t if negative else t)
            if self._needs_add_brackets(-t if negative else t):
                part = rf"\left({part}\right)"
            text += (" - " if negative else " + ") + part if text else ("- " if negative else "") + part
        return text


_PLAIN = LatexPrinter()


def _rank(s: sp.Symbol) -> str:
    """a prefix that sorts: weights, then state (q before p), then named quantities"""
    if s.name in ("q", "p", "delta", "n"):
        return {"q": "e", "p": "f", "delta": "g", "n": "d"}[s.name]
    if not isinstance(s, sp.Dummy):
        return "a"
    letter = {"q_hat": "h", "p_hat": "h", "q_tilde": "i", "p_tilde": "j"}.get(s.name, "k")
    return f"{letter}{s.dummy_index:020d}"  # two of one name are two, in the order in which they were made


@dataclass
class _Page:
    """One piece of LaTeX: keeps the names it has given and what they stand for."""

    lines: dict[str, str] = field(default_factory=dict)  # left side -> right side
    names: dict[sp.Basic, str] = field(default_factory=symbols.latex_names)
    kernels: dict[sp.Expr, str] = field(default_factory=dict)  # activation -> name of its kernel on correlations
    products: set[str] = field(default_factory=set)

    def expression(self, e: sp.Basic) -> str:
        """LaTeX with factors in the order weights, state, named quantities, and no leading minus where it can be helped"""
        ordered = {s: sp.Symbol(_rank(s) + s.name, **s.assumptions0) for s in e.free_symbols}
        names = {ordered[s]: self.names.get(s, _PLAIN.doprint(s)) for s in ordered}
        return str(_Printer({"symbol_names": names, "inv_trig_style": "full"}).doprint(e.xreplace(ordered)))

    def _define(self, name: str, right: str) -> str:
        k = 1
        while self.lines.get(_numbered(name, k), right) != right:
            k += 1
        self.lines[_numbered(name, k)] = right
        return _numbered(name, k)

    # -- one sublayer -----------------------------------------------------------------------------------------------------
    def law(self, law: Law) -> list[str]:
        view: dict[sp.Basic, sp.Expr] = {delta: q - p}
        values: dict[sp.Symbol, sp.Expr] = {}
        for d in law.definitions:
            if d.shown is not None:
                view[d.symbol] = d.shown.xreplace(view)
            else:
                values[d.symbol] = self.readable(d.value.xreplace(view))
        out = [self.readable(e.xreplace(view)) for e in (law.output.q, law.output.p, *law.transfer, law.chi)]
        common = self._common([*values.values(), *out])
        for d in law.definitions:
            if d.symbol in values:
                self.names[d.symbol] = self._define(d.latex, self.expression(values[d.symbol].xreplace(common)))
        new_q, new_p, jj, jk, kj, kk, chi = (e.xreplace(common) for e in out)
        return [
            rf"q &\leftarrow {self._state_first(new_q, q)}",
            rf"p &\leftarrow {self._state_first(new_p, p)}",
            rf"J &\leftarrow {self._combination([jj, jk])}",
            rf"K &\leftarrow {self._combination([kj, kk])}",
            rf"\chi &= {self._one_first(chi)}",
        ]

    def _common(self, expressions: list[sp.Expr]) -> dict[sp.Expr, sp.Expr]:
        """names for what is long and stands in several places: expectations, other functions, roots"""
        counts: dict[sp.Expr, int] = {}
        for e in expressions:
            walk = sp.preorder_traversal(e)
            for part in walk:
                if isinstance(part, (Node, sp.Function)) or (part.is_Pow and not part.exp.is_Integer):
                    counts[part] = counts.get(part, 0) + 1
                if isinstance(part, Node):
                    walk.skip()
        found: dict[sp.Expr, sp.Expr] = {}
        for part, count in counts.items():
            node = isinstance(part, Node)
            text = self.expression(part) if count > 1 else ""
            if width(text) > LONG:
                symbol = sp.Dummy("common", real=True)
                self.names[symbol] = self._define(r"\mathcal{E}" if node else r"\mathcal{F}", text)
                found[part] = symbol
        return found

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
            shorter = sp.powdenest(e.xreplace({b: ab / a}), force=True)
            if e.has(a) and e.has(b) and not shorter.has(a):
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
        return lines
