r"""One repeat of a network as a map: expressions of its recursion with their derivatives, and values of expressions over tables.

The state is (q, delta), delta = q - p. Expectations stay nodes, so that they are lowered like those of a run: closed forms that do not
cancel, or quadrature. On identical inputs (delta = 0, c = 1) an expectation over two variables is one over a single variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.derivatives import Moment, Name, at_variance, derivative, differentiated, identical, ordered, shortened, unnested
from meanfield.analysis.families import moments
from meanfield.blocks.algebra import Block, checked_block
from meanfield.blocks.laws import Law
from meanfield.fingerprint import text
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.local_expansions import mean_near
from meanfield.keeping import remembered
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import parameter_name
from meanfield.numeric.rounding import moment_bound, rounding_bound
from meanfield.numeric.store import execute, is_kept
from meanfield.numeric.work import Work, patient
from meanfield.recurrence import Recursion, recursion, without_numbers
from meanfield.symbols import known

__all__ = ["Program", "StepMap", "at_zero", "derivative", "is_closed", "map_of", "program", "slope_at_zero", "values_of"]

Floats = NDArray[np.float64]
q, p, delta, x = known("q"), known("p"), known("delta"), known("x")

#: of one operation; each term of a bound is that small, so that none overflows before its value does
ROUNDING = sp.Float(2.0**-53)
#: relative rounding error at which a closed form counts as cancelled
CANCELLED = 1e-12

_LOOP = '''

def table(values, out{shapes}):
    """Fill out[:, g] with the expressions at values[:, g]."""
    for g in range(out.shape[1]):
        {unpack}
        {targets} = expressions({call})
'''


@dataclass(frozen=True)
class Program:
    """The source that evaluates expressions over a table of their symbols, with a rounding bound on the first of them."""

    source: str
    order: tuple[str, ...]
    count: int
    integrands: tuple[Integrand, ...]
    work: Work

    def __call__(self, table: Floats) -> Floats:
        table = np.ascontiguousarray(table)
        out = np.empty((self.count + 1, table.shape[1]))
        if not out.size:
            return out
        shapes = [i.shapes(self.order, table) for i in self.integrands]
        small = patient(table.shape[1] * self.work.milliseconds(shapes), is_kept(self.source, "table"), self.source)
        execute(self.source, "table", (table, out, *shapes), small)
        return out


@lru_cache(maxsize=256)
def program(expressions: tuple[sp.Expr, ...], order: tuple[sp.Symbol, ...], by_quadrature: bool = False, careful: bool = False) -> Program:
    """The program of expressions in the symbols of `order`, moments of many tokens among them; an earlier process may have made it."""
    description = f"table {by_quadrature} {careful} {_written(expressions, order)}"
    return remembered(description, lambda: _program(expressions, order, by_quadrature, careful))


def _written(expressions: tuple[sp.Expr, ...], order: tuple[sp.Symbol, ...]) -> str:
    """the expressions and what their names stand for as a text, alike in every process"""
    held, names = ordered(expressions)
    found: dict[sp.Basic, str] = {symbol: f"{symbol.name} {i}" for i, symbol in enumerate((*held, *names))}
    parts = [s.name for s in order] + [str(moment.along) for moment in held]
    return without_numbers([*parts, *(text(e, found) for e in (*(symbol.value for symbol in (*held, *names)), *expressions))])


def _program(expressions: tuple[sp.Expr, ...], order: tuple[sp.Symbol, ...], by_quadrature: bool, careful: bool) -> Program:
    lowering = Lowering(by_quadrature, careful)
    taken = {"math", "np", "expressions", "table"}
    given = {s: parameter_name(s.name, taken) for s in order}
    expressions = unnested(expressions)
    lowered = [lowering.numeric(e) for e in expressions]
    named: dict[sp.Symbol, sp.Expr] = {name: lowering.numeric(name.value) for name in ordered(expressions)[1]}
    own_moments, own_names = ordered(expressions[:1])  # what the bound is of
    errors: dict[sp.Symbol, sp.Expr] = {name: sp.Dummy(f"error_{name.name}", nonnegative=True) for name in own_names}
    errors |= {
        moment: moment_bound(moment, lowering.numeric(moment.value.variance), lowering.numeric(moment.value.gap), errors)
        for moment in own_moments
    }
    named |= {errors[name]: rounding_bound(named[name], lowering.size, errors=errors) for name in own_names}
    bound = sp.Add(*[ROUNDING * t for t in sp.Add.make_args(rounding_bound(lowered[0], lowering.size, errors=errors))])
    body = lowering.body([*lowered, bound], given, named, taken)
    lines = [*body.lines, f"return {', '.join(body.results)}"]
    function = f"def expressions({', '.join([*given.values(), *lowering.shape_names])}):\n    " + "\n    ".join(lines) + "\n"
    header = '"""Generated by meanfield: one repeat of a network and its derivatives"""\n\nimport math\n\nimport numpy as np\n'
    loop = _LOOP.format(
        shapes="".join(f", {name}s" for name in lowering.shape_names),
        unpack="\n        ".join(lowering.unpacking()) or "pass",
        targets=", ".join(f"out[{i}, g]" for i in range(len(expressions) + 1)),
        call=", ".join([*(f"float(values[{i}, g])" for i in range(len(order))), *lowering.shape_names]),
    )
    source = "\n\n".join([header, lowering.helpers(), function, loop])
    return Program(source, tuple(s.name for s in order), len(expressions), tuple(lowering.integrands.values()), lowering.work)


@lru_cache(maxsize=256)
def _order(expressions: tuple[sp.Expr, ...]) -> tuple[sp.Symbol, ...]:
    held, names = ordered(expressions)
    written = (*expressions, *(name.value for name in names), *(e for m in held for e in (m.value.variance, m.value.gap)))
    plain = sorted({s for e in written for s in e.free_symbols if not isinstance(s, Name)}, key=lambda s: s.name)
    return *plain, *held


@lru_cache(maxsize=256)
def _has_expectations(expressions: tuple[sp.Expr, ...]) -> bool:
    """whether they hold expectations, which quadrature has as well"""
    return any(e.has(Node) for e in (*expressions, *(name.value for name in ordered(expressions)[1])))


def values_of(
    expressions: tuple[sp.Expr, ...], given: Mapping[str, Any], scale: Any = 0.0, by_quadrature: bool = False
) -> tuple[Floats, Floats]:
    """Values (one row each) over arrays of their symbols, by name, with a rounding bound on the first.

    Where a closed form cancels, to less than 12 digits of its value or of `scale`, it is evaluated by quadrature, as everything is if
    `by_quadrature`; where that is not enough either, as of a mean that is all tail, with the rounding of what is summed counted.
    """
    order = _order(expressions)
    arrays = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in given.values()))
    columns = dict(zip(given, (a.ravel() for a in arrays), strict=True))
    rows = {s: columns[s.name] for s in order if not isinstance(s, Moment)}
    rows |= _moments(tuple(s for s in order if isinstance(s, Moment)), columns)
    table = np.array([rows[s] for s in order]).reshape(len(order), arrays[0].size)
    out = program(expressions, order, by_quadrature)(table)
    for careful in (False, True) if not by_quadrature and _has_expectations(expressions) else ():
        poor = ~(out[-1] <= CANCELLED * np.maximum(np.abs(out[0]), scale))
        if not poor.any():
            break
        with suppress(ValueError):  # what has no quadrature, as what grows faster than every exp(c x^2): it is nan where it is infinite
            again = program(expressions, order, True, careful)(table[:, poor])
            better = ~(again[-1] >= out[-1][poor])
            out[:, poor] = np.where(better, again, out[:, poor])
    return out[:-1], out[-1]


def _moments(wanted: tuple[Moment, ...], given: Mapping[str, Floats]) -> dict[Moment, Floats]:
    """values of moments of many tokens, those of one function and law together"""
    found: dict[Moment, Floats] = {}
    laws = {m: (m.value.integrand, m.value.variance, m.value.gap) for m in wanted}
    for law in dict.fromkeys(laws.values()):
        own = [m for m in wanted if laws[m] == law]
        nodes = list(dict.fromkeys(m.value for m in own))
        rows = moments(nodes, *(values_of((e,), given)[0][0] for e in law[1:]))
        found |= {m: rows[m.along, nodes.index(m.value)] for m in own}
    return found


def is_closed(expressions: tuple[sp.Expr, ...]) -> bool:
    """Whether values of these expressions take no quadrature."""
    return not program(expressions, _order(expressions)).integrands


def at_zero(e: sp.Expr) -> sp.Expr:
    """An expression with q = 0: expectations over vanishing variances are means of the two one-sided values; names that vanish do so first,
    and what they multiply is not asked for."""
    names = {name: _name_at_zero(name) for name in e.atoms(Name)}
    e = e.xreplace({name: value for name, value in names.items() if value == 0}).xreplace(names)
    return e.subs(q, 0).replace(lambda t: isinstance(t, Expectation) and t.variance == 0, lambda t: mean_near(t.integrand, t.mean)[0])


@lru_cache(maxsize=4096)
def _name_at_zero(name: Name) -> sp.Expr:
    return at_zero(name.value)


def slope_at_zero(e: sp.Expr) -> sp.Expr:
    """The derivative by q at q = 0: expectations over vanishing variances to first order."""
    without_bound = sp.Dummy("infinite", positive=True)  # to sympy infinity times q has no derivative

    def linear(node: Expectation) -> sp.Expr:
        constant, rate = mean_near(node.integrand, node.mean)
        return constant + (rate if rate.is_finite else sp.sign(rate) * without_bound) * node.variance

    slope = at_zero(derivative(e.replace(lambda t: isinstance(t, Expectation) and t.variance.subs(q, 0) == 0, linear), q))
    return slope.xreplace({without_bound: sp.oo})


def _explicit(law: Law) -> tuple[sp.Expr, ...]:
    """q and delta of a law's output and the entries of its transfer in the plain symbols, expectations left as nodes; of long laws, those
    with moments of many tokens, in names too"""
    values: dict[sp.Expr, sp.Expr] = {p: q - delta}
    for d in law.definitions:
        value = d.value if d.kernel is None else d.kernel
        if isinstance(value, sp.Min) and d.shown is not None:  # the guard against rounding is no part of the law
            values[d.symbol] = sp.Add(*[a for a in value.args if not (a / 2).is_number and not (a / 2).is_Symbol] or [value.args[0]])
        else:
            values[d.symbol] = value
    named: dict[sp.Expr, sp.Expr] = {}

    def resolved(e: sp.Expr) -> sp.Expr:
        while e.free_symbols & values.keys():
            e = e.xreplace(values)
        return e

    def written(e: sp.Expr) -> sp.Expr:
        for s in sorted(e.free_symbols & values.keys() - named.keys(), key=sp.default_sort_key):  # many of one name: as they came
            value = written(values[s])
            named[s] = value if s == p else Name.of(s.name, value, **s.assumptions0)
        return shortened(e.xreplace(named))

    long = any(d.value.has(Exchangeable) for d in law.definitions)
    return tuple(map(written if long else resolved, (law.output.q, law.output.delta, *law.transfer)))


@dataclass(frozen=True)
class StepMap:
    """The map (q, delta) -> (q', delta') of one repeat, expectations as nodes."""

    recursion: Recursion

    def signed(self, values: Mapping[str, Any]) -> StepMap:
        """The same for parameters of the signs that these values have, where each has one."""
        signs = {name: np.unique(np.sign(v)) for name, v in values.items()}
        return _step_map(self.recursion.signed({name: int(own[0]) for name, own in signs.items() if own.size == 1}))

    @cached_property
    def stages(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """q' and delta' of each stage, in the q and delta before it."""
        return tuple((new_q, new_delta) for new_q, new_delta, *_ in self._explicit)

    @cached_property
    def _explicit(self) -> tuple[tuple[sp.Expr, ...], ...]:
        return tuple(_explicit(stage.law) for stage in self.recursion.unrolled)

    @cached_property
    def stages_transfer(self) -> tuple[tuple[sp.Expr, ...], ...]:
        """The entries of the transfer of each stage, row by row."""
        return tuple(tuple(entries) for _, _, *entries in self._explicit)

    @cached_property
    def unresolved(self) -> str:
        """Why no points of this map are looked for; empty where they are."""
        held = {m.value.integrand for m in ordered(tuple(e for stage in self.stages for e in stage))[0]}
        names = sorted({s.name for f in held for s in f.free_symbols - {x}})
        return f"the activation of a gated attention unit depends on {', '.join(names)}: write the number into it" if names else ""

    @cached_property
    def long(self) -> bool:
        """Whether its formulas are written in names."""
        return any(e.has(Name) for stage in self.stages for e in stage)

    @cached_property
    def coupled(self) -> bool:
        """Whether q' depends on the second input."""
        return any(sp.expand(differentiated(new_q, delta)) != 0 for new_q, _ in self.stages)

    @cached_property
    def parted(self) -> tuple[sp.Expr, ...]:
        """delta' of the stages that set identical inputs apart, at delta = 0: masks and statistics of a batch are not the same for both."""
        return tuple(gap for gap in (identical(new_delta) for _, new_delta in self.stages) if gap != 0)

    @cached_property
    def stages_identical(self) -> tuple[tuple[sp.Expr, sp.Expr, sp.Expr], ...]:
        """q', dq'/dq and d delta'/d delta of each stage at delta = 0."""
        return tuple((identical(a), derivative(identical(a), q), identical(differentiated(b, delta))) for a, b in self.stages)

    @cached_property
    def _identical_inputs(self) -> tuple[sp.Expr, ...]:
        """q before each stage and after the last, on identical inputs"""
        states = [q]
        for new, _, _ in self.stages_identical:
            states.append(at_variance(new, states[-1]))
        return tuple(states)

    @property
    def q_identical(self) -> sp.Expr:
        """q' on identical inputs."""
        return self._identical_inputs[-1]

    @cached_property
    def chi_parallel(self) -> sp.Expr:
        """dq'/dq on identical inputs."""
        slopes = (along for _, along, _ in self.stages_identical)
        return sp.Mul(*[at_variance(e, v) for e, v in zip(slopes, self._identical_inputs, strict=False)])

    @cached_property
    def chi_one(self) -> sp.Expr:
        """d delta'/d delta at delta = 0: the slope of the map of correlations at c = 1 times q'/q."""
        slopes = (across for _, _, across in self.stages_identical)
        return sp.Mul(*[at_variance(e, v) for e, v in zip(slopes, self._identical_inputs, strict=False)])


@lru_cache(maxsize=256)
def map_of(net: Block) -> StepMap:
    """The map of one repeat of a network.

    Raises
    ------
    ValueError
        The block depends on the depth or its index: then no repeat is like the next.
    """
    result = _step_map(recursion(checked_block(net, "net")))
    depth = sorted({s.name for pair in result.stages for e in pair for s in e.free_symbols} & {"L", "l"})
    if depth:
        raise ValueError(f"net: it depends on {', '.join(depth)}, so its repeats are different maps and have no fixed point in common")
    return result


@lru_cache(maxsize=256)
def _step_map(rec: Recursion) -> StepMap:
    return StepMap(rec)
