r"""From symbolic expressions to Python source: expectations become closed forms free of cancellation or quadrature calls, common
subexpressions get names, everything is ordered by what it needs.

What comes out is text: functions of plain floats that use `math` only, readable, and the same for the interpreter and for the compiler.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.utilities.iterables import numbered_symbols

from meanfield.gaussian import closed, quadrature
from meanfield.gaussian.exchangeable import MOST, Exchangeable
from meanfield.gaussian.expectation import FOR_READING, Expectation, Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.gaussian.forms import angles
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import almost_everywhere
from meanfield.gaussian.singularities import Settled, Shape, lost, mended, poles, regular, settled, shape_of, standardised
from meanfield.gaussian.special import AngleDifference
from meanfield.gaussian.stable import side
from meanfield.numeric import lookup, primitives
from meanfield.numeric.arcs import arcs
from meanfield.numeric.fingerprint import fingerprint, makers
from meanfield.numeric.printing import KernelPrinter, Unsupported, source_name
from meanfield.numeric.rounding import rounding_bound
from meanfield.numeric.store import keep, kept
from meanfield.numeric.work import Work
from meanfield.symbols import known

__all__ = ["Body", "Integrand", "Lowering", "shape_row"]

Floats = NDArray[np.float64]

#: against the fastest oscillation of a square, the deviation below which a gap is the integral of its slope
_CLOSE = 0.2

x, y, q, p, delta = known("x"), known("y"), known("q"), known("p"), known("delta")


@dataclass
class Body:
    """Assignments in order, and what the requested expressions are called."""

    lines: list[str]
    results: list[str]


@dataclass(frozen=True)
class Integrand:
    """A function under quadrature: its expression in x, and further parameters, whose values its shape depends on."""

    expression: sp.Expr
    index: int
    pair: sp.Expr | None = None  # of x and y: varies with x as the expression does at x + y and x - y
    with_poles: bool = False  # a slope, that is no integrand itself

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        return tuple(sorted(self.expression.free_symbols - {x}, key=lambda s: s.name))

    @property
    def shape(self) -> Shape:
        """How it looks, without parameters."""
        return shape_of(self.expression, self.with_poles)

    def shapes(self, names: Sequence[str], table: Floats, detail: float = 1.0) -> Floats:
        """The rows of numbers that describe it to the quadrature: one, or one for each column of the table of parameter values."""
        if not self.parameters:
            return shape_row(self.expression, detail, self.with_poles)[None]
        own = table[[list(names).index(s.name) for s in self.parameters]]
        values, which = np.unique(own, axis=1, return_inverse=True)
        rows = [self._at(column).row(detail) for column in values.T]
        padded = np.zeros((len(rows), max(map(len, rows))))
        for row, numbers in zip(padded, rows, strict=True):
            row[: len(numbers)] = numbers
        return padded[which.ravel()]

    def _at(self, values: Floats) -> Shape:
        put = {s: sp.Rational(float(v)) for s, v in zip(self.parameters, values, strict=True)}
        return shape_of(mended(self.expression.xreplace(put)), self.with_poles)


@lru_cache(maxsize=512)
def shape_row(expression: sp.Expr, detail: float = 1.0, with_poles: bool = False) -> Floats:
    """What the shape of an integrand without parameters is described by, found once for all processes."""
    name = f"shape_{fingerprint(f'{makers()} {detail!r} {with_poles} {sp.srepr(expression)}')}"
    if (found := kept(name)) is not None:
        return np.frombuffer(found).copy()
    row = shape_of(expression, with_poles).row(detail)
    keep(name, row.tobytes())
    return row


@dataclass
class Lowering:
    """Collects the helper functions that lowered expressions call, and prints bodies that use them."""

    by_quadrature: bool = False  # also where there is a closed form
    careful: bool = False  # count the rounding of integrands
    patient: bool = False  # also what takes minutes in plain Python: two inputs of an endless oscillation less than a period apart
    tabled: bool = False  # moments are read from tables: only where `tabulates`
    stepping: bool = False  # from layer to layer: delta is at most 2 q to the bit, and angles share their arc tangents
    integrands: dict[sp.Expr, Integrand] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    calls: dict[str, tuple[Integrand, ...]] = field(default_factory=dict)
    moments: set[tuple[sp.Expr, ...]] = field(default_factory=set)  # arguments of the calls that one function serves
    centred: bool = True  # no quadrature call has a mean

    # -- expectations ---------------------------------------------------------------------------------------------------
    def numeric(self, e: sp.Expr) -> sp.Expr:
        """The expression with every expectation as a safe closed form or a quadrature call, and arcsines as angles."""
        constants = (FinitePart, sp.polylog, sp.zeta, sp.re, sp.im)
        e = e.replace(lambda t: isinstance(t, constants) and not t.free_symbols, lambda t: t.evalf(25))
        e = e.replace(lambda t: isinstance(t, Node), self._node)
        # the tangent of half of \alpha - \beta is (\sin\alpha - \sin\beta)/(\cos\alpha + \cos\beta)
        return angles(e).replace(AngleDifference, lambda a, ra, b, rb, difference: 2 * sp.atan2(difference, ra + rb))

    def _node(self, node: sp.Expr) -> sp.Expr:
        if isinstance(node, Exchangeable):
            return self._exchangeable(node)
        if node.integrand.has(sp.DiracDelta):
            form = self._safe(node.closed)
            return self.numeric(node.conditioned()) if form is None else form
        if isinstance(node, Expectation):
            return self._mean(node)
        if isinstance(node, Gap):
            return self._gap(node)
        return self._pair(node)

    def _safe(self, find: Callable[[], sp.Expr | None]) -> sp.Expr | None:
        """a closed form whose numbers are as good as quadrature's"""
        form = None if self.by_quadrature else find()
        return None if form is None or form.has(*FOR_READING) else form

    def _mean(self, node: Expectation) -> sp.Expr:
        form = self._safe(node.closed)
        if form is not None:
            return form
        c, g, a = standardised(node.integrand)
        return c * self._mean_of(g, a * node.mean, a**2 * node.variance)

    def _mean_of(self, g: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
        integrand, calm = self._integrand(g), settled(mended(g))
        if calm is None:
            return self._call("mean", (integrand,), mean, variance)
        near = self._reaches(g, mean, variance)
        far = self._call("mean", (self._integrand(calm.function),), mean, _where(sp.Not(near), variance))
        return sp.Piecewise((self._call("mean", (integrand,), mean, _where(near, variance)), near), (far, True))

    def _reaches(self, g: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
        """whether g itself is resolved by panels as far as the Gaussian goes"""
        return self._call("reaches", (self._integrand(g),), mean, sp.sqrt(variance)) > 0

    def _gap(self, node: Gap) -> sp.Expr:
        f, (v, d) = node.integrand, node.args[1:]
        form = self._safe(lambda: closed.gap(f))
        if form is not None:
            return form.xreplace({q: v, delta: d})
        c, g, a = standardised(f)
        return c**2 * self._gap_of(g, a**2 * v, a**2 * d)

    def _gap_of(self, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
        def gap(h: sp.Expr, case: sp.Basic) -> sp.Expr:
            return self._call("gap", (self._integrand(h), self._slope(h)), _where(case, v), d)

        calm = settled(mended(g))
        if calm is None:
            return gap(g, sp.true)
        if g.xreplace({x: -x}) == g:
            d = sp.Min(d, 2 * v - d)
        near = sp.And(self._reaches(g, sp.S.Zero, v), self._reaches(regular(g), sp.S.Zero, v))
        wide = sp.Float(lost(calm) ** 2)
        apart = sp.And(sp.Not(near), sp.Min(d, 2 * v - d) >= wide)
        opposite = sp.And(sp.Not(near), d > v, 2 * v - d < wide)
        close = sp.And(sp.Not(near), d <= v, d < sp.Float(_CLOSE / calm.fastest) ** 2)
        beside = sp.And(sp.Not(near), d <= v, d < wide, sp.Not(close))
        far = gap(calm.function, apart) + self._call("mean", (self._integrand(calm.variance),), sp.S.Zero, _where(apart, v))
        return sp.Piecewise(
            (gap(g, near), near),
            (far, apart),
            (self._second_less(g, calm, v, d, opposite, mirrored=True), opposite),
            (self._second_less(g, calm, v, d, beside), beside),
            (self._slopes_near(g, v, d, close), True),
        )

    def _second_less(self, g: sp.Expr, calm: Settled, v: sp.Expr, d: sp.Expr, case: sp.Basic, mirrored: bool = False) -> sp.Expr:
        """a gap as the second moment less the product, where it is not small against them"""
        law = (sp.S.Zero, v, d, 2 * v - d)
        return self._mean_of(g**2, sp.S.Zero, _where(case, v)) - self._near(g, calm, tuple(_where(case, a) for a in law), mirrored)

    def _slopes_near(self, g: sp.Expr, v: sp.Expr, d: sp.Expr, case: sp.Basic) -> sp.Expr:
        r"""a gap as \int_0^1 2 d t E g'(u) g'(v) dt, u and v a gap of d t^2 apart"""
        slope, total = mended(regular(g)), sp.S.Zero
        calm = settled(slope)
        if calm is None:
            return sp.nan
        for node, weight in zip(quadrature.GAP_X, quadrature.GAP_W, strict=True):
            t = sp.Float(0.5 * (1 + node))
            law = (sp.S.Zero, _where(case, v), _where(case, d * t**2), _where(case, 2 * v - d * t**2))
            total += sp.Float(weight) * d * t * self._near(slope, calm, law)
        return total

    def _near(self, g: sp.Expr, calm: Settled, law: tuple[sp.Expr, ...], mirrored: bool = False) -> sp.Expr:
        """E g(u) g(v) where u and v, or u and -v, are near each other against a period"""
        if not self.patient:
            return sp.nan
        mean, _, d, total = law
        own = self._integrand(g)
        value, v = sp.Function(f"f_{own.index}", real=True), y - x if mirrored else x - y
        found = calm.pair(own.expression, v, value(x + y) * value(v))
        integrand = self.integrands.setdefault(sp.Tuple(*found), Integrand(found[0], len(self.integrands), found[1]))
        wide, narrow = (d, total) if mirrored else (total, d)
        return self._call("near", (integrand, self._integrand(calm.function)), sp.Integer(mirrored), mean, wide / 2, narrow / 2)

    def _pair(self, node: PairExpectation) -> sp.Expr:
        _, v1, cov, v2, m1, m2 = node.args
        parts = node.separated()
        if parts is None:
            terms = sp.Add.make_args(sp.expand(node.integrand))
            if len(terms) == 1:
                raise Unsupported(f"{node} is no product f(x) g(y): evaluate it with digits=")
            return sp.Add(*[self.numeric(PairExpectation(t, v1, cov, v2, m1, m2)) for t in terms])
        f, g = parts
        if v1 == v2 and m1 == m2 == 0:
            form = self._safe(lambda: closed.stable_cross(f, g))
            if form is not None:
                return form.xreplace({q: v1, delta: sp.expand(v1 - cov)})
        else:
            form = self._safe(node.closed)
            if form is not None:
                return form
        c, first, a = standardised(f)
        k, second, b = standardised(g)
        one, two = self._integrand(first), self._integrand(second)
        if one == two and a == b and v1 == v2 and m1 == m2:
            law = (a * m1, a**2 * v1, a**2 * sp.expand(v1 - cov), a**2 * sp.expand(v1 + cov))
            return c * k * self._cross_of(first, law)
        return c * k * self._two_of(first, second, (a * m1, b * m2, a**2 * v1, a * b * cov, b**2 * v2))

    def _cross_of(self, g: sp.Expr, law: tuple[sp.Expr, ...]) -> sp.Expr:
        calm = settled(mended(g))
        if calm is None:
            return self._call("cross", (self._integrand(g),), *law)
        mean, v, d, total = law
        near, wide = self._reaches(g, mean, v), sp.Min(d, total) >= lost(calm) ** 2

        def within(case: sp.Basic) -> tuple[sp.Expr, ...]:
            return (mean, *(_where(case, a) for a in law[1:]))

        apart, beside = sp.And(sp.Not(near), wide), sp.And(sp.Not(near), sp.Not(wide))
        opposite, same, equal = sp.And(beside, d > v), sp.And(beside, d > 0, d <= v), sp.And(beside, sp.Eq(d, 0))
        return sp.Piecewise(
            (self._call("cross", (self._integrand(g),), *within(near)), near),
            (self._call("cross", (self._integrand(calm.function),), *within(apart)), apart),
            (self._near(g, calm, within(opposite), mirrored=True), opposite),
            (self._near(g, calm, within(same)), same),
            (self._mean_of(g**2, mean, _where(equal, v)), True),
        )

    def _two_of(self, f: sp.Expr, g: sp.Expr, law: tuple[sp.Expr, ...]) -> sp.Expr:
        near, found = self._call("two", (self._integrand(f), self._integrand(g)), *law), [settled(mended(h)) for h in (f, g)]
        if found == [None, None]:
            return near
        m1, m2, v1, cov, v2 = law
        calm = [self._integrand(h if c is None else c.function) for h, c in zip((f, g), found, strict=True)]
        rest = sp.expand(v1 * v2 - cov**2) / 2
        lose = [rest >= v * sp.Float(lost(c) ** 2) for c, v in zip(found, (v2, v1), strict=True) if c is not None]
        reached = [self._reaches(h, m, v) for h, m, v, c in zip((f, g), (m1, m2), (v1, v2), found, strict=True) if c is not None]
        return sp.Piecewise((near, sp.And(*reached)), (self._call("two", tuple(calm), *law), sp.And(*lose)), (sp.nan, True))

    def _exchangeable(self, node: Exchangeable) -> sp.Expr:
        held, last = (node.powers[:-2], node.powers[-2:]) if node.spread else (node.powers, ())
        powers = (*held, *((0, 0, 0),) * (MOST - len(node.powers)), *last)
        integrands = (self._integrand(node.integrand), self._integrand(regular(node.integrand)))
        code = sum((i + 16 * j + 128 * k) * 256**t for t, (i, j, k) in enumerate(powers))
        arguments = (node.variance, node.gap, sp.Integer(node.spread), sp.Integer(code))
        self.moments.add((*node.args[:1], *arguments))
        return self._call("exchangeable", integrands, *arguments)

    def size(self, call: sp.Expr) -> sp.Expr:
        """The scale on which a quadrature call is exact: its value for a gap, the second moment or its root where signs may cancel."""
        name = type(call).__name__
        kind, integrands = name.partition("_")[0], self.calls[name]
        if kind in ("gap", "exchangeable"):
            return sp.Abs(call)
        if kind == "near":
            m, wide, narrow = call.args[1:]
            return self._call("square", integrands[1:], m, wide + narrow)
        if kind == "two":
            m1, m2, v1, _, v2 = call.args[:5]
            return sp.sqrt(self._call("square", integrands[:1], m1, v1) * self._call("square", integrands[1:], m2, v2))
        second = self._call("square", integrands, *call.args[:2])
        if kind == "mean" and self.careful:  # a Taylor series is good relative to its sum
            quiet = self._call("quiet", integrands, *call.args[:2])
            return quiet * sp.Abs(call) + (1 - quiet) * sp.sqrt(second)
        return sp.sqrt(second) if kind == "mean" else second

    def noise(self, call: sp.Expr) -> sp.Expr:
        """What the rounding r of its integrands f adds to the error of a quadrature call, in units of 2^-53: E |r|, or for products
        E |r(u) f(v)| and so on by Cauchy's inequality."""
        name = type(call).__name__
        if not self.careful or name.startswith("exchangeable"):
            return sp.S.Zero
        kind, integrands = name.partition("_")[0], self.calls[name]

        def of(kind: str, k: int, *law: sp.Expr) -> sp.Expr:
            return self._call(kind, integrands[k : k + 1], *law)

        if kind == "gap":
            v, d = call.args[:2]
            law, noise = (sp.S.Zero, v), of("noise", 0, sp.S.Zero, v)
            varied = noise * (2 * sp.sqrt(call) + noise * sp.Float(2.0**-53))
            sloped = 2 * d * of("noise", 1, *law) * sp.sqrt(of("square", 1, *law))
            return (1 - of("quiet", 0, *law)) * sp.Piecewise((varied, d > v / 10**4), (sloped, True))
        if kind == "near":
            m, v = call.args[1], call.args[2] + call.args[3]
            return 2 * of("noise", 1, m, v) * sp.sqrt(of("square", 1, m, v))
        if kind == "two":
            m1, m2, v1, _, v2 = call.args[:5]
            first, second = (0, m1, v1), (1, m2, v2)
        else:
            first = second = (0, *call.args[:2])
        quiet = of("quiet", *first) if first == second else of("quiet", *first) * of("quiet", *second)
        if kind == "mean":
            return (1 - quiet) * of("noise", *first)
        return (1 - quiet) * sum(of("noise", *a) * sp.sqrt(of("square", *b)) for a, b in ((first, second), (second, first)))

    def _integrand(self, g: sp.Expr) -> Integrand:
        g = mended(almost_everywhere(g))
        return self.integrands.setdefault(g, Integrand(g, len(self.integrands)))

    def _slope(self, h: sp.Expr) -> Integrand:
        """the derivative, which has a pole where h has a logarithm"""
        g = mended(almost_everywhere(regular(h)))
        if not poles(g):
            return self._integrand(g)
        return self.integrands.setdefault(sp.Tuple(g), Integrand(g, len(self.integrands), with_poles=True))

    def _call(self, kind: str, integrands: tuple[Integrand, ...], *args: sp.Expr) -> sp.Expr:
        name = "_".join([kind, *(str(i.index) for i in (integrands if kind in _TWO else integrands[:1]))])
        self.calls[name] = integrands
        self.centred = self.centred and not (kind in ("mean", "cross") and args[0] != 0)
        return sp.Function(name, real=True)(*args, *_parameters(integrands))

    def quadrature(self, kind: str, functions: tuple[sp.Expr, ...], *args: sp.Expr) -> sp.Expr:
        """A quadrature call for functions of x."""
        return self._call(kind, tuple(self._integrand(f) for f in functions), *args)

    @property
    def tabulates(self) -> bool:
        """Whether every quadrature call is one that tables answer: of a variance, or of a variance and a covariance."""
        plain = all(name.partition("_")[0] in ("mean", "cross", "gap") for name in self.calls)
        return bool(self.calls) and plain and self.centred and not any(i.parameters for i in self.integrands.values())

    @property
    def tabulated(self) -> tuple[tuple[sp.Expr, sp.Expr | None], ...]:
        """Each integrand, with its derivative where its gap is called."""
        slopes = {i[0].index: i[1].expression for name, i in self.calls.items() if name.startswith("gap_")}
        return tuple((i.expression, slopes.get(i.index)) for i in self.integrands.values())

    @property
    def shape_names(self) -> list[str]:
        """What the shapes of the integrands are called in printed bodies, in order."""
        return [f"shape_{i.index}" for i in self.integrands.values()]

    def unpacking(self) -> list[str]:
        """Lines that read the shapes at grid point g from their tables."""
        return [f"{name} = {name}s[g % {name}s.shape[0]]" for name in self.shape_names]

    @property
    def work(self) -> Work:
        """What a point costs as plain Python."""
        calls = [(name.partition("_")[0], tuple(i.index for i in integrands)) for name, integrands in self.calls.items()]
        calls += [("exchangeable", ())] * len(self.moments)
        return Work(tuple(calls), sum(primitives.COSTS.get(name, 0.0) for name in self.used))

    # -- source -----------------------------------------------------------------------------------------------------------
    def body(self, wanted: list[sp.Expr], given: dict[sp.Symbol, str], named: dict[sp.Symbol, sp.Expr], taken: set[str]) -> Body:
        """Straight-line code for `wanted`: `given` symbols have names already, `named` ones get assignments where needed."""
        keys = list(named)
        values = [self.numeric(named[k]) for k in keys] + [self.numeric(e) for e in wanted]
        if self.stepping:
            values = [arcs(e, 2 * q - delta) for e in values]
        temporaries, reduced = sp.cse(values, symbols=numbered_symbols("t", cls=sp.Dummy, real=True), order="none")
        assignments = dict(temporaries)
        assignments |= dict(zip(keys, reduced[: len(keys)], strict=True))
        results = reduced[len(keys) :]
        names = dict(given)
        scratch = ["scratch"] * self.tabled
        leading = {name: [*(f"shape_{i.index}" for i in integrands), *scratch] for name, integrands in self.calls.items()}
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
        if self.tabled:
            return "\n\n".join([*_primitives_source(self.used), *self._lookups()])
        sources = [self._integrand_source(i) for i in self.integrands.values()]
        sources += [self._pair_source(i) for i in self.integrands.values() if i.pair is not None]
        sources += [self._rounding_source(i) for i in self.integrands.values() if f"noise_{i.index}" in self.calls]
        functions = self._functions()
        parts = _primitives_source(self.used)
        if sources:
            parts += [_rules(), *sources, *functions]
        return "\n\n".join(part.rstrip() + "\n" for part in parts)

    def _integrand_source(self, integrand: Integrand) -> str:
        """the integrand as a function, each side of 0 in the form that is stable there"""
        printer = KernelPrinter({x: "x", **{s: _argument(s) for s in integrand.parameters}})
        right, left = (printer.doprint(side(integrand.expression, sign)) for sign in (1, -1))
        signature = ", ".join(["x", *map(_argument, integrand.parameters)])
        lines = [f"def f_{integrand.index}({signature}):", f'    """{integrand.expression}"""']
        lines += [f"    return {right}"] if left == right else ["    if x > 0.0:", f"        return {right}", f"    return {left}"]
        self.used |= printer.used
        return "\n".join(lines) + "\n"

    def _pair_source(self, integrand: Integrand) -> str:
        """what is integrated over two variables, in terms of the functions of one"""
        printer = KernelPrinter({x: "x", y: "y"}, {f"f_{i.index}": [] for i in self.integrands.values()})
        text = printer.doprint(integrand.pair)
        self.used |= printer.used
        return f"def h_{integrand.index}(x, y):\n    return {text}\n"

    def _rounding_source(self, integrand: Integrand) -> str:
        """the rounding error of the integrand in units of 2^-53, as a function"""
        given = {x: "x", **{s: _argument(s) for s in integrand.parameters}}
        taken = {"x", "math", "np", *given.values()}
        lines = [f"def r_{integrand.index}({', '.join(given.values())}):"]
        for sign, where in ((1, "x > 0.0"), (-1, "True")):
            body = self.body([side(rounding_bound(side(integrand.expression, sign)), sign)], given, {}, set(taken))
            lines += [f"    if {where}:", *(f"        {line}" for line in [*body.lines, f"return {body.results[0]}"])]
        return "\n".join(lines) + "\n"

    def _lookups(self) -> list[str]:
        """what reads tables, and a function in place of each that sums"""
        constants = "\n".join(f"{name} = {getattr(lookup, name)!r}" for name in lookup.CONSTANTS)
        sources = [constants, *(inspect.getsource(f) for f in lookup.FUNCTIONS)]
        for name, integrands in self.calls.items():
            own = float(lookup.SCRATCH + lookup.KEPT * integrands[0].index)
            sources.append(lookup.CALLS[name.partition("_")[0]].format(name=name, own=own))
        return sources

    def _functions(self) -> list[str]:
        """the quadrature functions that are called, each with what it needs first"""
        wanted: dict[tuple[str, tuple[Integrand, ...]], None] = {}

        def want(kind: str, integrands: tuple[Integrand, ...]) -> None:
            for needed, which in _NEEDS[kind]:
                want(needed, tuple(integrands[k] for k in which))
            wanted.setdefault((kind, integrands))

        for name, integrands in self.calls.items():
            want(name.partition("_")[0], integrands)
        return [_function(kind, integrands) for kind, integrands in wanted]


def _where(case: sp.Basic, value: sp.Expr) -> sp.Expr:
    """A value in one case of several, 0 in the others: quadrature of the variance 0 costs nothing."""
    return value if case == sp.true else sp.Piecewise((value, case), (sp.S.Zero, True))


#: kinds named after both of their integrands
_TWO = ("two", "exchangeable")
#: kind of quadrature function -> the kinds it calls, and for which of its integrands
_NEEDS: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = {
    "reach": (),
    "mean": (("reach", (0,)),),
    "square": (("reach", (0,)),),
    "noise": (("reach", (0,)),),
    "quiet": (),
    "reaches": (),
    "near": (),
    "smoothed": (("reach", (0,)),),
    "variance": (("reach", (0,)),),
    "cross": (("reach", (0,)), ("mean", (0,)), ("smoothed", (0,))),
    "rate": (("cross", (1,)), ("mean", (1,))),
    "gap": (("reach", (0,)), ("reach", (1,)), ("smoothed", (0,)), ("variance", (0, 1)), ("rate", (0, 1))),
    "two": (("reach", (0,)), ("reach", (1,)), ("mean", (0,)), ("mean", (1,)), ("smoothed", (0,)), ("smoothed", (1,))),
    "exchangeable": (("reach", (0,)), ("reach", (1,))),
}


def _function(kind: str, integrands: tuple[Integrand, ...]) -> str:
    """the text of a quadrature function with the integrands' numbers and parameters put in"""
    first, last = integrands[0], integrands[-1]

    def listed(which: tuple[Integrand, ...]) -> str:
        return "".join(f", {_argument(s)}" for s in _parameters(which))

    text = quadrature.FUNCTIONS[kind].strip().replace("<i>", str(first.index)).replace("<j>", str(last.index))
    return text.replace("<x>", listed((first,))).replace("<y>", listed((last,))).replace("<both>", listed(integrands)) + "\n"


def _parameters(integrands: tuple[Integrand, ...]) -> list[sp.Symbol]:
    return sorted({s for i in integrands for s in i.parameters}, key=lambda s: s.name)


def _argument(s: sp.Symbol) -> str:
    """a parameter inside a quadrature function: apart from the function's own variables"""
    return f"{source_name(s.name, set())}_"


def _primitives_source(used: set[str]) -> list[str]:
    """the source of primitives and of what they need"""
    needs = dict.fromkeys(name for primitive in sorted(used) for name in primitives.NEEDS.get(primitive, ()))
    constants = [f"{name} = {getattr(primitives, name)!r}" for name in needs if name.isupper()]
    functions = dict.fromkeys([*(name for name in needs if not name.isupper()), *sorted(used)])
    return ["\n".join(constants), *[inspect.getsource(getattr(primitives, name)) for name in functions]]


def _rules() -> str:
    """the import of the node rules"""
    names = [f.__name__ for f in quadrature.RULES]
    return f"from {quadrature.__name__} import {', '.join([*quadrature.CONSTANTS, *names])}\n"
