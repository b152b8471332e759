r"""One step of a recursion as lines of source: the stages of a repeat, the product of their transfers, what is worked out beforehand."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.gaussian.expectation import Node
from meanfield.gaussian.rewriting import holds, rewritten
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import source_name
from meanfield.numeric.unbounded import Unbounded
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["Part", "hoisted", "phases", "stage_lines"]


_STATE = ("q", "delta", "q, delta")
_PLAIN = {"math", "min", "max", "abs"}


@dataclass(frozen=True)
class Part:
    """Lines that take (q, delta) one layer on, what the entries of its transfer are called in them, and how often it is repeated."""

    lines: list[str]
    results: dict[str, str]
    times: int


def phases(stages: tuple[Stage, ...]) -> list[tuple[list[Stage], int]]:
    """the stages of one repeat, neighbours that occur once together"""
    found: list[tuple[list[Stage], int]] = []
    for stage in stages:
        if found and found[-1][1] == stage.times == 1:
            found[-1][0].append(stage)
        else:
            found.append(([stage], stage.times))
    return found


def stage_lines(
    stages: list[Stage],
    paired: bool,
    mixed: bool,
    split: bool,
    lowering: Lowering,
    given: dict[sp.Symbol, str],
    taken: set[str],
    lines: list[str],
) -> dict[str, str]:
    """adds the lines of each stage; what the entries of the transfer of all of them, and chi, are called"""
    q, p, delta = known("q"), known("p"), known("delta")
    labels = ["t00", *(["t01", "t10", "t11"] * mixed)]
    total: dict[str, str] = {}
    for k, stage in enumerate(stages):
        law = stage.law
        view: dict[sp.Expr, sp.Expr] = {p: q - delta}  # covariances are not computed: kernels see q and delta
        view |= {d.symbol: d.kernel for d in law.definitions if d.kernel is not None}
        named = {d.symbol: (d.value if d.in_step is None else d.in_step).xreplace(view) for d in law.definitions if d.kernel is None}
        entries = {label: law.transfer[int(label[1]), int(label[2])] for label in labels} | ({"chi": law.chi} if split else {})
        deltas = mixed and any(map(_has_deltas, entries["t11"].atoms(Node)))
        if deltas and holds(lowering.numeric(entries["t00"].xreplace(view)), Unbounded):
            entries |= {label: rewritten(entries[label], _has_deltas, lambda node: sp.S.One) for label in ("t01", "t11")}
        wanted = [law.output.q, *([law.output.delta] * paired), *entries.values()]
        body = lowering.body([e.xreplace(view) for e in wanted], given, named, taken)
        lines += body.lines
        values = dict(zip(entries, body.results[1 + paired :], strict=True))
        values = {label: _named(value, f"{label}_{k}", taken, lines) for label, value in values.items()}
        if paired:
            lines.append(f"q, delta = {body.results[0]}, {body.results[1]}")
            lines.append("delta = min(delta, 2.0*q) if delta < math.inf else delta")  # rounding has a bound, overflow has none
        else:
            lines.append(f"q = {body.results[0]}")
        total = _product(total, values, k, taken, lines) if k else values
    return total


def _has_deltas(e: sp.Basic) -> bool:
    """whether it is an expectation with deltas that no parameter takes away: where that of their squares has any weight J is infinite
    whatever this is, which takes long by quadrature"""
    return isinstance(e, Node) and e.integrand.has(sp.DiracDelta) and e.integrand.free_symbols <= {known("x"), known("y")}


def _named(value: str, label: str, taken: set[str], lines: list[str]) -> str:
    """the name of a value, as it is called already or from now on"""
    if value == "0.0":
        return value
    for line in reversed(lines):
        name, _, same = line.partition(" = ")
        if name in ("q", "q, delta"):  # before that the same words meant something else
            break
        if same == value:
            return name
    lines.append(f"{source_name(label, taken)} = {value}")
    return lines[-1].partition(" = ")[0]


def _product(first: dict[str, str], second: dict[str, str], k: int, taken: set[str], lines: list[str]) -> dict[str, str]:
    """the entries of the product of two transfers, and of the chi's"""
    size = 2 if "t11" in first else 1
    out = {}
    for label in first:
        if label == "chi":
            pairs = [(first["chi"], second["chi"])]
        else:
            pairs = [(first[f"t{label[1]}{j}"], second[f"t{j}{label[2]}"]) for j in range(size)]
        terms = [f"{a}*{b}" for a, b in pairs if "0.0" not in (a, b)]
        out[label] = _named(" + ".join(terms) or "0.0", f"{label}_to_{k}", taken, lines)
    return out


def hoisted(lines: list[str], fixed: set[str], taken: set[str]) -> tuple[list[str], list[str]]:
    """the lines that need nothing but parameters, with such parts of the others as lines of their own, and the others; q and delta, after a
    norm perhaps constants, are set in the step"""
    fixed, before, others = {*fixed, *_PLAIN}, [], []
    for line in lines:
        target, _, value = line.partition(" = ")
        names = _names(value)
        if names and names <= fixed and target not in _STATE:
            before.append(line)
            fixed.add(target)
        else:
            parts = _Parts(fixed, taken, before)
            rest = ast.unparse(parts.visit(ast.parse(line)))
            others.append(rest if parts.found else line)
    return before, others


class _Parts(ast.NodeTransformer):
    """Names parts of a line that need nothing but what is fixed, and more than one operation or a slow one."""

    def __init__(self, fixed: set[str], taken: set[str], before: list[str]) -> None:
        self.fixed, self.taken, self.before, self.found = fixed, taken, before, False

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.expr) or isinstance(node, ast.Tuple) or not self._worth(node):  # a pair is no number to keep
            return self.generic_visit(node)
        text, self.found = ast.unparse(node), True
        for line in self.before:
            name, _, same = line.partition(" = ")
            if same == text:
                return ast.Name(name, ast.Load())
        name = source_name("held", self.taken)
        self.before.append(f"{name} = {text}")
        self.fixed.add(name)
        return ast.Name(name, ast.Load())

    def _worth(self, node: ast.expr) -> bool:
        names = _names_in(node)
        if not names - _PLAIN or not names <= self.fixed:
            return False
        nodes = [n for n in ast.walk(node) if isinstance(n, (ast.BinOp, ast.Call)) and _names_in(n)]
        return len(nodes) > 1 or any(isinstance(n, ast.Call) or isinstance(n.op, ast.Div) for n in nodes)


def _names(text: str) -> set[str]:
    return _names_in(ast.parse(text))


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
