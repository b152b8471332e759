r"""From symbolic expressions to Python source: expectations become closed forms free of cancellation or quadrature calls, common
subexpressions get names, everything is ordered by what it needs.

What comes out is text: functions of plain floats that use `math` only, readable, and the same for the interpreter and for numba.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import sympy as sp
from sympy import S
from sympy.utilities.iterables import numbered_symbols

from meanfield.gaussian import closed, quadrature
from meanfield.gaussian.expectation import Expectation, Gap, Node, PairExpectation
from meanfield.gaussian.forms import angles
from meanfield.gaussian.singularities import shape_of, standardised
from meanfield.gaussian.special import BivariateDensity, BivariateNormalCDF, NormalCDF, NormalDensity
from meanfield.numeric import primitives
from meanfield.numeric.printing import KernelPrinter, Unsupported, source_name
from meanfield.symbols import known

__all__ = ["Body", "Lowering"]

x, q, p, delta = known("x"), known("q"), known("p"), known("delta")

#: closed forms in these heads are for reading; their numbers come from quadrature
_READ_ONLY = (BivariateNormalCDF, BivariateDensity, NormalCDF, NormalDensity)


@dataclass
class Body:
    """Assignments in order, and what the requested expressions are called."""

    lines: list[str]
    results: list[str]


@dataclass
class Lowering:
    """Collects the helper functions that lowered expressions call, and prints bodies that use them."""

    integrands: dict[sp.Expr, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)

    # -- expectations ---------------------------------------------------------------------------------------------------
    def numeric(self, e: sp.Expr) -> sp.Expr:
        """The expression with every expectation as a safe closed form or a quadrature call, and arcsines as angles."""
        e = e.replace(lambda t: isinstance(t, Node), self._node)
        return angles(e)

    def _node(self, node: sp.Expr) -> sp.Expr:
        if isinstance(node, Expectation):
            return self._mean(node)
        if isinstance(node, Gap):
            return self._gap(node)
        return self._pair(node)

    def _mean(self, node: Expectation) -> sp.Expr:
        f = node.integrand
        form = node.closed()
        if form is not None and not form.has(*_READ_ONLY):
            return form
        c, g, a = standardised(f)
        i = self._integrand(g)
        return c * self._call(f"mean_{i}", a * node.mean, a**2 * node.variance)

    def _gap(self, node: Gap) -> sp.Expr:
        f, (v, d) = node.integrand, node.args[1:]
        form = closed.gap(f)
        if form is not None and not form.has(*_READ_ONLY):
            return form.xreplace({q: v, delta: d})
        c, g, a = standardised(f)
        i = self._integrand(g)
        self._integrand(g.diff(x))
        return c**2 * self._call(f"gap_{i}", a**2 * v, a**2 * d)

    def _pair(self, node: PairExpectation) -> sp.Expr:
        _, v1, cov, v2, m, m2 = node.args
        parts = node.separated()
        if parts is None:
            terms = sp.Add.make_args(sp.expand(node.integrand))
            if len(terms) == 1:
                raise Unsupported(f"{node} is no product f(x) g(y) and has no numeric form")
            return sp.Add(*[self.numeric(PairExpectation(t, v1, cov, v2, m, m2)) for t in terms])
        f, g = parts
        if v1 == v2 and m == m2 == 0:
            form = closed.stable_cross(f, g)
            if form is not None and not form.has(*_READ_ONLY):
                return form.xreplace({q: v1, delta: sp.expand(v1 - cov)})
        else:
            form = node.closed()
            if form is not None and not form.has(*_READ_ONLY):
                return form
        c, first, a = standardised(f)
        k, second, b = standardised(g)
        if first != second or a != b or m != m2 or (v1 != v2 and m != 0):
            raise Unsupported(f"{node} has no closed form; its quadrature needs one function of both variables and equal means")
        i = self._integrand(first)
        if v1 != v2:
            return c * k * self._call(f"unequal_{i}", a**2 * v1, a**2 * cov, a**2 * v2)
        return c * k * self._call(f"cross_{i}", a * m, a**2 * v1, a**2 * sp.expand(v1 - cov))

    def size(self, call: sp.Expr) -> sp.Expr:
        """The scale on which a quadrature call is exact: its value for a gap, the second moment or its root where signs may cancel."""
        kind, _, index = type(call).__name__.partition("_")
        if kind == "gap":
            return call
        g = next(f for f, i in self.integrands.items() if i == int(index))
        square = f"mean_{self._integrand(g**2)}"
        if kind == "unequal":
            return sp.sqrt(self._call(square, S.Zero, call.args[0]) * self._call(square, S.Zero, call.args[2]))
        second = self._call(square, *call.args[:2])
        return sp.sqrt(second) if kind == "mean" else second

    def _integrand(self, g: sp.Expr) -> int:
        return self.integrands.setdefault(g, len(self.integrands))

    def _call(self, name: str, *args: sp.Expr) -> sp.Expr:
        self.calls.add(name)
        return sp.Function(name, real=True)(*args)

    @property
    def has_quadrature(self) -> bool:
        return bool(self.integrands)

    # -- source -----------------------------------------------------------------------------------------------------------
    def body(self, wanted: list[sp.Expr], given: dict[sp.Symbol, str], named: dict[sp.Symbol, sp.Expr], taken: set[str]) -> Body:
        """Straight-line code for `wanted`: `given` symbols have names already, `named` ones get assignments where needed."""
        keys = list(named)
        values = [self.numeric(named[k]) for k in keys] + [self.numeric(e) for e in wanted]
        temporaries, reduced = sp.cse(values, symbols=numbered_symbols("t", cls=sp.Dummy, real=True), order="none")
        assignments = dict(temporaries)
        assignments |= dict(zip(keys, reduced[: len(keys)], strict=True))
        results = reduced[len(keys) :]
        names = dict(given)
        printer = KernelPrinter(names, self.calls)
        lines: list[str] = []
        printed: set[sp.Symbol] = set()

        def require(e: sp.Expr) -> None:
            for s in sorted(e.free_symbols & assignments.keys(), key=lambda s: (s.name, s.dummy_index if isinstance(s, sp.Dummy) else 0)):
                if s in printed:
                    continue
                require(assignments[s])
                printed.add(s)
                names[s] = source_name(s.name, taken)
                lines.append(f"{names[s]} = {printer.doprint(assignments[s])}")

        out = []
        for e in results:
            require(e)
            out.append(printer.doprint(e))
        self.used |= printer.used
        return Body(lines, out)

    def helpers(self) -> str:
        """Source of every function the printed bodies call: primitives, quadrature rules, integrands."""
        integrands = [self._integrand_source(g, i) for g, i in self.integrands.items()]
        parts = _primitives_source(self.used)
        if integrands:
            parts += [_rules_source(any(shape_of(g).kinks for g in self.integrands)), *integrands]
        return "\n\n".join(part.rstrip() + "\n" for part in parts)

    def _integrand_source(self, g: sp.Expr, i: int) -> str:
        """the integrand and its own copies of the quadrature functions: numba can cache no function that is handed another"""
        shape = shape_of(g)
        printer = KernelPrinter({x: "x"})
        lines = [
            f"D_{i} = {shape.d!r}",
            f"KINKS_{i} = np.array({list(shape.kinks)!r}, dtype=np.float64)",
            "",
            "",
            f"def f_{i}(x):",
            f'    """{g}"""',
            f"    return {printer.doprint(g)}",
        ]
        self.used |= printer.used
        j = self.integrands.get(g.diff(x), i)
        differentiates = any(f"gap_{k}" in self.calls and f.diff(x) == g for f, k in self.integrands.items())
        wanted = {name for name in ("mean", "cross", "gap", "unequal") if f"{name}_{i}" in self.calls}
        if wanted & {"cross", "gap"} or differentiates:
            wanted |= {"moments_at", "pair"}
        if "unequal" in wanted:
            wanted.add("moments_at")
        templates = [quadrature.KINKED if shape.kinks else quadrature.SMOOTH]
        templates += [text for name, text in quadrature.FUNCTIONS.items() if name in wanted]
        functions = [text.strip().replace("<i>", str(i)).replace("<j>", str(j)) + "\n" for text in templates]
        return "\n\n".join(["\n".join(lines) + "\n", *functions])


def _primitives_source(used: set[str]) -> list[str]:
    """the source of primitives and of what they need"""
    needs = [name for primitive in sorted(used) for name in primitives.NEEDS.get(primitive, ())]
    constants = [f"{name} = {getattr(primitives, name)!r}" for name in needs if name.isupper()]
    functions = dict.fromkeys([*(name for name in needs if not name.isupper()), *sorted(used)])
    return ["\n".join(constants), *[inspect.getsource(getattr(primitives, name)) for name in functions]]


@cache
def _rules_source(kinked: bool) -> str:
    """the node rules and their constants as text"""

    def literal(value: object) -> str:
        return f"np.array({value.tolist()!r})" if isinstance(value, np.ndarray) else repr(value)

    rules: tuple[Callable[..., Any], ...] = quadrature.SMOOTH_RULES + (quadrature.KINKED_RULES if kinked else ())
    constants = "\n".join(f"{name} = {literal(getattr(quadrature, name))}" for name in quadrature.CONSTANTS)
    return "\n\n".join([constants, *[inspect.getsource(f).rstrip() + "\n" for f in rules]])
