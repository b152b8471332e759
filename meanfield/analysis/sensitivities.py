r"""Exact derivatives of q_L, c_L and ln J with respect to parameters and to the start, by forward mode.

A stage is differentiated once, symbolically: each named quantity d gets a tangent \dot d, a sum of partial derivatives times the tangents
of what it is written in. Price's theorem makes the derivative of an expectation expectations again,

    dE f(u)/dq = E[u f'(u)]/(2q),   dE f(u) g(v)/dp = E f'(u) g'(v),

and for the gap G[f](q, \delta) = E f(u)^2 - E f(u) f(v), free of cancellation,

    dG/d\delta = E f'(u) f'(v),   dG/dq at fixed \delta = G[f'] + (G[f + f''] - G[f - f''])/4.

Values and tangents are lowered together and run over depth; the row e_1^T T_0 ... T_{l-1} carries its tangent along.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces
from meanfield.blocks.algebra import Block, checked_block
from meanfield.gaussian import closed
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.exchangeable_tangents import ExchangeableTangent
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import slope
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import parameter_name, source_name
from meanfield.numeric.runs import bound_parameters, initial_moments
from meanfield.numeric.store import execute, is_kept
from meanfield.numeric.work import Work, patient
from meanfield.recurrence import Recursion, Stage, recursion
from meanfield.symbols import known

__all__ = ["Sensitivity", "sensitivity"]

Floats = NDArray[np.float64]
x, y, q, p, delta = (known(name) for name in ("x", "y", "q", "p", "delta"))


_LOOPS = '''
def tangents(depth, pooled, values, seeds, q0, delta0, q_out, delta_out, log_out, dq_out, ddelta_out, dlog_out{shapes}):
    """Fill the state and ln J at every grid point, and their tangents for every column of seeds."""
    L = float(depth)
    for g in range(q0.shape[0]):
        {unpack}
        for k in range(seeds.shape[0]):
            q = float(q0[g])
            delta = float(delta0[g])
            dot_q = float(seeds[k, 0, g])
            dot_delta = float(seeds[k, 1, g])
            {seed}
            a = 1.0
            b = 0.0
            dot_a = 0.0
            dot_b = 0.0
            e = 0.0
            for l in range(depth):
                q, delta, dot_q, dot_delta, a, b, dot_a, dot_b, e = step({call})
            total = a + pooled * b
            q_out[g] = q
            delta_out[g] = delta
            log_out[g] = math.log(total) + e * 346.57359027997264 if total > 0.0 and total < math.inf else math.nan
            dq_out[k, g] = dot_q
            ddelta_out[k, g] = dot_delta
            dlog_out[k, g] = (dot_a + pooled * dot_b) / total if total > 0.0 else math.nan
'''


@dataclass(frozen=True, repr=False)
class Sensitivity(faces.Labelled):
    r"""Derivatives at the last layer; each maps a name to an array of the shape of the grid, a float for one setting.

    Attributes
    ----------
    depth : whole number
    q, log_apjn : floats or arrays
        Values of q_L and ln J^{L,0}.
    dq, dlog_apjn : mappings
        Their derivatives by name of what they are taken with respect to.
    c, gap, dc, dgap : the same of c_L and 1 - c_L, for two tokens only; None for a single input.

    Examples
    --------
    >>> import meanfield as mf
    >>> slopes = mf.sensitivity(mf.mlp(mf.relu), 10, q=1.0, sigma_w=2**0.5, sigma_b=0.0)
    >>> round(slopes.dq["sigma_w"], 6), round(slopes.dlog_apjn["sigma_w"], 6), slopes.dgap  # 2 L/sigma_w, twice
    (14.142136, 14.142136, None)
    """

    depth: int
    q: Any
    log_apjn: Any
    dq: Mapping[str, Any]
    dlog_apjn: Mapping[str, Any]
    gap: Any = None
    dgap: Mapping[str, Any] | None = None

    @property
    def c(self) -> Any:
        return None if self.gap is None else 1.0 - self.gap

    @property
    def dc(self) -> Mapping[str, Any] | None:
        return None if self.dgap is None else {name: -v for name, v in self.dgap.items()}

    def __repr__(self) -> str:
        rows = [f"  {name}: dq = {self.dq[name]}, dlog_apjn = {self.dlog_apjn[name]}" for name in self.dq]
        if self.dgap is not None:
            rows = [f"{row}, dgap = {self.dgap[name]}" for row, name in zip(rows, self.dgap, strict=True)]
        return "\n".join([f"Sensitivity(depth {self.depth})", *rows])


def sensitivity(
    net: Block,
    depth: int,
    q: ArrayLike,
    *,
    p: ArrayLike | None = None,
    c: ArrayLike | None = None,
    gap: ArrayLike | None = None,
    with_respect_to: str | tuple[str, ...] | None = None,
    start: str = "token",
    **parameters: ArrayLike,
) -> Sensitivity:
    r"""Derivatives of q_L, c_L and ln J^{L,0} with respect to parameters and to the start of a recursion.

    Parameters
    ----------
    net, depth, q, p, c, gap, start, **parameters : as in `mf.propagate`; arrays broadcast.
    with_respect_to : name or names
        Parameters of `mf.recursion(net)`; "q" for the variance at the start (c fixed), "gap" for 1 - c there. Left out: all parameters.

    Raises
    ------
    TypeError, ValueError
        As `propagate`; a name that is no parameter; an activation that jumps, whose J is infinite.

    Examples
    --------
    >>> import meanfield as mf
    >>> s = mf.sensitivity(mf.mlp(mf.erf), 1000, q=1.0, c=0.3, sigma_w=0.8, sigma_b=0.3, with_respect_to="sigma_w")
    >>> print(f"{s.dq['sigma_w']:.9f} {s.dlog_apjn['sigma_w']:.6f}")
    0.533572232 1925.451047
    """
    if not checked_block(net, "net").closes:
        raise ValueError(f"net = {net} tells tokens apart: sensitivities are of recursions in (q, p), not of Gram matrices over depth")
    rec = recursion(net)
    depth = arguments.check_integer(depth, "depth", 0)
    if start not in ("token", "pooled"):
        raise ValueError(f"start = {start!r}: expected 'token' or 'pooled'")
    values = bound_parameters(rec.parameters, parameters)
    q0, delta0 = initial_moments(q, p, c, gap)
    if delta0 is None and rec.couples(one_token="n" in values and bool((values["n"] == 1).all())):
        raise ValueError("this network mixes tokens: give the start of two tokens by exactly one of p, c and gap (or n = 1)")
    names = tuple(values) if with_respect_to is None else (with_respect_to,) if isinstance(with_respect_to, str) else tuple(with_respect_to)
    possible = {*values, "q", *(("gap",) if delta0 is not None else ())}
    unknown = [name for name in names if name not in possible]
    if unknown or not names:
        raise ValueError(f"with_respect_to = {', '.join(unknown) or names}: expected some of {', '.join(sorted(possible))}")
    named = {"q": q0, "start of p, c or gap": np.zeros(()) if delta0 is None else delta0, **values}
    grid = arguments.broadcast(named)
    count = math.prod(grid)
    flat = [np.array(np.broadcast_to(a, grid)).reshape(count) for a in named.values()]
    kernel = _kernel(rec, delta0 is not None)
    seeds = np.zeros((len(names), 2 + len(values), count))
    for k, name in enumerate(names):
        if name == "q":
            seeds[k, 0], seeds[k, 1] = 1.0, flat[1] / flat[0]  # at fixed correlation
        elif name == "gap":
            seeds[k, 1] = flat[0]
        else:
            seeds[k, 2 + list(values).index(name)] = 1.0
    table = np.array(flat[2:]).reshape(len(values), count)
    out = [np.empty(count) for _ in range(3)] + [np.empty((len(names), count)) for _ in range(3)]
    shapes = [i.shapes(list(values), table) for i in kernel.integrands]
    layers = depth * sum(stage.times for stage in rec.stages)
    small = patient(layers * count * len(names) * kernel.work.milliseconds(shapes), is_kept(kernel.source, "tangents"))
    execute(kernel.source, "tangents", (depth, float(start == "pooled"), table, seeds, flat[0], flat[1], *out, *shapes), small)
    q_last, delta_last, log_last, dq, ddelta, dlog = out
    if not all(np.isfinite(a).all() for a in out):
        raise ArithmeticError("the recursion or a derivative leaves the range of doubles at this depth: run propagate for its status")

    def shaped(a: Floats) -> Any:
        return a.reshape(grid) if grid else float(a.reshape(()))

    def by_name(rows: Floats) -> dict[str, Any]:
        return {name: shaped(row) for name, row in zip(names, rows, strict=True)}

    result = (depth, shaped(q_last), shaped(log_last), by_name(dq), by_name(dlog))
    if delta0 is None:
        return Sensitivity(*result)
    return Sensitivity(*result, shaped(delta_last / q_last), by_name(ddelta / q_last - delta_last * dq / q_last**2))


#: state, its tangent, the row, its tangent, and the power of 2^500 taken out of these
_STATE = ("q", "delta", "dot_q", "dot_delta", "a", "b", "dot_a", "dot_b", "e")

_SCALED = (
    "size = abs(a) + abs(b)",
    "if size > BIG or (size < SMALL and size > 0.0):",
    "    factor = SMALL if size > BIG else BIG",
    "    a, b, dot_a, dot_b = factor*a, factor*b, factor*dot_a, factor*dot_b",
    "    e += 1.0 if size > BIG else -1.0",
)


# -- the differentiated step -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kernel:
    source: str
    integrands: tuple[Integrand, ...]
    work: Work


@lru_cache(maxsize=64)
def _kernel(rec: Recursion, paired: bool) -> _Kernel:
    lowering = Lowering()
    taken = {*_STATE, "size", "factor", "BIG", "SMALL", "l", "L", "math", "np", "step"}
    dots: dict[sp.Expr, sp.Symbol] = {s: sp.Dummy(f"dot_{s.name}", real=True) for s in (q, delta, *rec.parameters)}
    state = ", ".join(_STATE)
    given = {q: "q", delta: "delta", known("l"): "l", known("L"): "L", dots[q]: "dot_q", dots[delta]: "dot_delta"}
    for s in rec.parameters:
        given[s] = parameter_name(s.name, taken)
        given[dots[s]] = source_name(f"dot_{given[s]}", taken)
    lines: list[str] = []
    for stage in rec.stages:
        lines += _stage(lowering, stage, given, dots, taken, paired)
    lines.append(f"return {state}")
    names = [given[s] for s in rec.parameters]
    tangents = [given[dots[s]] for s in rec.parameters]
    signature = ", ".join([state, *names, *tangents, "l", "L", *lowering.shape_names])
    step = f"def step({signature}):\n    " + "\n    ".join(lines) + "\n"
    count = len(names)
    unpack = "\n        ".join([*(f"v{i} = float(values[{i}, g])" for i in range(count)), *lowering.unpacking()]) or "pass"
    seed = "\n            ".join(f"w{i} = float(seeds[k, {2 + i}, g])" for i in range(count)) or "pass"
    bound = [f"{letter}{i}" for letter in "vw" for i in range(count)]
    call = ", ".join([state, *bound, "float(l)", "L", *lowering.shape_names])
    shapes = "".join(f", {name}s" for name in lowering.shape_names)
    loops = _LOOPS
    for hole, text in (("unpack", unpack), ("seed", seed), ("call", call), ("shapes", shapes)):
        loops = loops.replace("{" + hole + "}", text)
    header = '"""Generated by meanfield: one repeat and its tangent"""\n\nimport math\n\nimport numpy as np\n'
    source = "\n\n".join([header, "BIG = 2.0**500\nSMALL = 2.0**-500", lowering.helpers(), step, loops])
    return _Kernel(source, tuple(lowering.integrands.values()), lowering.work)


def _stage(
    lowering: Lowering, stage: Stage, given: dict[sp.Symbol, str], dots: dict[sp.Expr, sp.Symbol], taken: set[str], paired: bool
) -> list[str]:
    """the lines of a stage: new state, new row, and the tangents of both; of a single input q and J alone"""
    law = stage.law
    view: dict[sp.Expr, sp.Expr] = {p: q - delta} | {d.symbol: d.kernel for d in law.definitions if d.kernel is not None}
    own = dict(dots)
    named: dict[sp.Symbol, sp.Expr] = {}
    for d in law.definitions:
        if d.kernel is None:
            value = d.value.xreplace(view)
            named[d.symbol] = value
            tangent = sp.Dummy(f"dot_{d.symbol.name}", real=True)
            named[tangent] = _tangent(value, own)
            own[d.symbol] = tangent
    wanted = [e.xreplace(view) for e in (law.output.q, law.output.delta, *law.transfer)]
    if not paired:
        wanted = [wanted[0], sp.S.Zero, wanted[2], *[sp.S.Zero] * 3]
    wanted += [_tangent(e, own) for e in wanted]
    unknown = set().union(*(e.atoms(sp.Derivative, sp.Subs) for e in (*wanted, *named.values())))
    if unknown:
        raise ValueError(f"{stage.block}: its law holds {min(map(str, unknown))}, which has no formula: no sensitivities of this network")
    body = lowering.body(wanted, given, named, taken)
    labels = ("q_", "delta_", "t00_", "t01_", "t10_", "t11_")
    names = [source_name(label, taken) for label in (*labels, *(f"dot_{label}" for label in labels))]
    lines = [*body.lines, *(f"{name} = {value}" for name, value in zip(names, body.results, strict=True))]
    new_q, new_delta, t00, t01, t10, t11, dq, ddelta, d00, d01, d10, d11 = names
    lines += [
        f"dot_a, dot_b = dot_a*{t00} + dot_b*{t10} + a*{d00} + b*{d10}, dot_a*{t01} + dot_b*{t11} + a*{d01} + b*{d11}",
        f"a, b = a*{t00} + b*{t10}, a*{t01} + b*{t11}",
        f"q, delta, dot_q, dot_delta = {new_q}, {new_delta}, {dq}, {ddelta}",
        "delta = min(delta, 2.0*q)",
        *_SCALED,
    ]
    return lines if stage.times == 1 else [f"for _ in range({stage.times}):", *(f"    {line}" for line in lines)]


def _tangent(e: sp.Expr, dots: Mapping[sp.Expr, sp.Symbol]) -> sp.Expr:
    """the sum of partial derivatives times tangents"""
    if isinstance(e, sp.Min):  # the bound of a gap, which rounding alone can reach
        e = next(a for a in e.args if a.has(Gap) or not (a.is_Number or (a.is_Mul and a.args[0] == 2)))
    nodes = {node: sp.Dummy(str(i)) for i, node in enumerate(sorted(e.atoms(Node), key=sp.default_sort_key))}
    outer = e.xreplace(nodes)
    back = {letter: node for node, letter in nodes.items()}
    total = sp.Add(*[outer.diff(s) * dots[s] for s in outer.free_symbols & dots.keys()])
    inner = sp.Add(*[outer.diff(letter) * _node_tangent(node, dots) for node, letter in nodes.items()])
    return (total + inner).xreplace(back)


def _node_tangent(node: sp.Expr, dots: Mapping[sp.Expr, sp.Symbol]) -> sp.Expr:
    if isinstance(node, Gap):
        f, v, d = node.args
        by_q, by_delta = _gap_slopes(f, v, d)
        parameters = sp.Add(
            *[node.xreplace({v: _V, d: _D}).diff(s).xreplace({_V: v, _D: d}) * dots[s] for s in f.free_symbols & dots.keys()]
        )
        return by_q * _along(v, dots) + by_delta * _along(d, dots) + parameters
    if isinstance(node, Exchangeable) and not node.integrand.free_symbols & dots.keys():
        return ExchangeableTangent.along(node, _along(node.variance, dots), _along(node.gap, dots))
    return _along(node, dots)


_V, _D = sp.Dummy("V", positive=True), sp.Dummy("D", positive=True)


def _along(e: sp.Expr, dots: Mapping[sp.Expr, sp.Symbol]) -> sp.Expr:
    return sp.Add(*[e.diff(s) * dots[s] for s in e.free_symbols & dots.keys()])


def _gap_slopes(f: sp.Expr, v: sp.Expr, d: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """the derivatives of a gap in its variance and in its gap"""
    f1 = slope(f)
    by_delta = PairExpectation(f1 * f1.xreplace({x: y}), v, v - d, v)
    f2 = slope(f1)
    if not f2.has(sp.DiracDelta):
        return Gap(f1, v, d) + (Gap(f + f2, v, d) - Gap(f - f2, v, d)) / 4, by_delta
    form = closed.gap(f)
    if form is not None:
        return form.diff(q).subs({q: v, delta: d}, simultaneous=True), by_delta
    return Gap(f, _V, _D).diff(_V).xreplace({_V: v, _D: d}), by_delta
