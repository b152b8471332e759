r"""From symbolic expressions to Python source: expectations become closed forms free of cancellation or quadrature calls, common
subexpressions get names, everything is ordered by what it needs.

What comes out is text: functions of plain floats that use `math` only, readable, and the same for the interpreter and for the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from sympy.simplify.cse_main import tree_cse
from sympy.utilities.iterables import numbered_symbols

from meanfield.gaussian.expectation import Node
from meanfield.gaussian.mending import mended
from meanfield.gaussian.periods import PHASES, Wave
from meanfield.gaussian.shared_parts import parts_of
from meanfield.gaussian.stable import tamed
from meanfield.numeric.arcs import arcs
from meanfield.numeric.expectations import Expectations
from meanfield.numeric.integrands import WAVED, Integrand
from meanfield.numeric.magnitudes import chained, within_range
from meanfield.numeric.printing import KernelPrinter, source_name
from meanfield.numeric.radicals import radicals
from meanfield.numeric.rounding import rounding_bound
from meanfield.numeric.sources import argument_name, lookup_sources, member_sources, primitive_sources, quadrature_sources, rule_import
from meanfield.symbols import known

__all__ = ["Body", "Lowering"]

x, q, delta = known("x"), known("q"), known("delta")


@dataclass
class Body:
    """Assignments in order, and what the requested expressions are called."""

    lines: list[str]
    results: list[str]


class Lowering(Expectations):
    """Collects the helper functions that lowered expressions call, and prints bodies that use them."""

    def body(self, wanted: list[sp.Expr], given: dict[sp.Symbol, str], named: dict[sp.Symbol, sp.Expr], taken: set[str]) -> Body:
        """Straight-line code for `wanted`: `given` symbols have names already, `named` ones get assignments where needed."""
        named, wanted = _compared_by_name(named, wanted)
        keys = list(named)
        self.gather([*named.values(), *wanted])
        values = [within_range(self.numeric(e)) for e in (*(named[k] for k in keys), *wanted)]
        if self.stepping:
            # what is as it stands in a minimum is no less than it; what is worked out again may be rounded otherwise
            bounds = [(s, e) for s, minimum in named.items() if isinstance(minimum, sp.Min) for e in minimum.args]
            bounded = {e - s for s, e in bounds if e.is_number or e.as_coeff_Mul()[1].is_Symbol}
            values = chained(radicals([arcs(e, bounded | {2 * q - delta}) for e in values]), named)
        assignments, reduced = _shared(values)
        assignments |= dict(zip(keys, reduced[: len(keys)], strict=True))
        results = reduced[len(keys) :]
        names = dict(given)

        def held(name: str) -> list[str]:
            return ["scratch"] if self.from_tables or name.startswith("member_") else []

        leading = {name: [*(f"shape_{i.index}" for i in integrands), *held(name)] for name, integrands in self.calls.items()}
        printer = KernelPrinter(names, leading)
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
        """Source of every function the printed bodies call: primitives, and quadrature rules and integrands or tables."""
        if self.from_tables:
            return "\n\n".join([*primitive_sources(self.used), *lookup_sources(self.calls)])
        sources = [self._integrand_source(i) for i in self.integrands.values()]
        sources += [self._rounding_source(i) for i in self.rounded]
        parts = primitive_sources(self.used)
        if sources:
            parts += [rule_import(), *sources, *quadrature_sources(self.calls), *member_sources(self.members.values())]
        return "\n\n".join(part.rstrip() + "\n" for part in parts)

    def _integrand_source(self, integrand: Integrand) -> str:
        """the integrand as a function, each side of 0 in the form that is stable there"""
        if integrand.wave is not None:
            return self._wave_source(integrand, integrand.wave)
        given = {x: "x", **{s: argument_name(s) for s in integrand.parameters}}
        right, left = (self._valued(mended(integrand.expression, sign), given) for sign in (1, -1))
        signature = ", ".join(["x", *map(argument_name, integrand.parameters)])
        lines = [f"def f_{integrand.index}({signature}):", f'    """{integrand.expression}"""']
        within = [f"    {line}" for line in right]
        lines += within if left == right else ["    if x > 0.0:", *(f"    {line}" for line in within), *(f"    {line}" for line in left)]
        return "\n".join(lines) + "\n"

    def _valued(self, e: sp.Expr, given: dict[sp.Symbol, str]) -> list[str]:
        """lines that return the value of an expression: each function in it called once, but for those that a case may leave out"""
        names = dict(given)
        printer, lines = KernelPrinter(names), []
        if not e.has(sp.Piecewise):
            repeated, (e,) = tree_cse([e], numbered_symbols("t", cls=sp.Dummy, real=True))
            for name, part in repeated:
                lines.append(f"{name.name} = {printer.doprint(part)}")
                names[name] = name.name
        lines.append(f"return {printer.doprint(e)}")
        self.used |= printer.used
        return lines

    def _wave_source(self, integrand: Integrand, wave: Wave) -> str:
        """a wave as a function of its first phase, and of how far x and the second phase are from there"""
        printer = KernelPrinter(dict(zip((x, *PHASES), ("x", "y", "z"), strict=True)))
        lines = [f"def f_{integrand.index}(y, {', '.join(WAVED)}):", f'    """{integrand.expression}"""', "    x = y + c", "    z = y + d"]
        right, left = (printer.doprint(mended(integrand.expression, sign, wave.pattern)) for sign in (1, -1))
        lines += ["    if x > 0.0:", f"        return {right}", f"    return {left}"]
        self.used |= printer.used
        return "\n".join(lines) + "\n"

    def _rounding_source(self, integrand: Integrand) -> str:
        """the rounding error of the integrand in units of 2^-53, as a function"""
        given = {x: "x", **{s: argument_name(s) for s in integrand.parameters}}
        taken = {"x", "math", "np", *given.values()}
        lines = [f"def r_{integrand.index}({', '.join(given.values())}):"]
        for sign, where in ((1, "x > 0.0"), (-1, "True")):
            body = self.body([tamed(rounding_bound(mended(integrand.expression, sign)), sign)], given, {}, set(taken))
            lines += [f"    if {where}:", *(f"        {line}" for line in [*body.lines, f"return {body.results[0]}"])]
        return "\n".join(lines) + "\n"


def _compared_by_name(named: dict[sp.Symbol, sp.Expr], wanted: list[sp.Expr]) -> tuple[dict[sp.Symbol, sp.Expr], list[sp.Expr]]:
    """Names for the expectations that conditions compare: some become cases, which sympy multiplies out where a condition holds them."""
    conditions = {c for e in (*named.values(), *wanted) for t in parts_of(e, sp.Piecewise) for _, c in t.args}
    compared = {node for c in conditions for node in parts_of(c, Node)}
    names = {node: sp.Dummy("compared", real=True) for node in sorted(compared, key=sp.default_sort_key)}
    if not names:
        return named, wanted
    own = {name: node for node, name in names.items()}
    return {s: e.xreplace(names) for s, e in named.items()} | own, [e.xreplace(names) for e in wanted]


def _shared(values: list[sp.Expr]) -> tuple[dict[sp.Symbol, sp.Expr], list[sp.Expr]]:
    """what several parts of expressions share, by name, and the expressions in these names; a number stays whole: rounded once"""
    temporaries, reduced = sp.cse(values, symbols=numbered_symbols("t", cls=sp.Dummy, real=True), order="none")
    numbers: dict[sp.Symbol, sp.Expr] = {}
    found: dict[sp.Symbol, sp.Expr] = {}
    for name, part in temporaries:
        whole = part.xreplace(numbers)
        (numbers if whole.is_number else found)[name] = whole
    return found, [e.xreplace(numbers) for e in reduced]
