r"""Exact derivatives of q_L, c_L and ln J with respect to parameters and to the start, by forward mode.

A stage is differentiated once, symbolically: each named quantity has partial derivatives in what it is written in
(`gaussian.tangents`). Values and partial derivatives are lowered together and computed once per layer; then every direction takes its
step by the chain rule, and the row e_1^T T_0 ... T_{l-1} carries its tangent along. Gram matrices: `analysis.gram_tangents`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces
from meanfield.analysis.gram_tangents import gram_tangents, starts
from meanfield.blocks.algebra import Block, checked_block
from meanfield.gaussian.tangents import partial
from meanfield.numeric.gram_laws import sizes_of
from meanfield.numeric.gram_march import prepared_pair, prepared_tokens
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import parameter_name, source_name
from meanfield.numeric.runs import bound_parameters, initial_moments
from meanfield.numeric.store import execute, is_kept
from meanfield.numeric.work import Work, patient
from meanfield.recurrence import Recursion, Stage, recursion
from meanfield.symbols import known

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["Sensitivity", "sensitivity"]

Floats = NDArray[np.float64]
q, p, delta = (known(name) for name in ("q", "p", "delta"))
#: what may be of a point
STATUS = ("ok", "zero APJN", "infinite APJN", "out of range")


_LOOPS = '''
def tangents(depth, pooled, values, seeds, dots, q0, delta0, q_out, delta_out, log_out, dq_out, ddelta_out, dlog_out{shapes}):
    """Fill the state and ln J at every grid point, and their tangents for every row of seeds."""
    L = float(depth)
    count = seeds.shape[0]
    for g in range(q0.shape[0]):
        {unpack}
        q = float(q0[g])
        delta = float(delta0[g])
        a = 1.0
        b = 0.0
        e = 0.0
        for k in range(count):
            dots[k, 0] = seeds[k, 0, g]
            dots[k, 1] = seeds[k, 1, g]
            dots[k, 2] = 0.0
            dots[k, 3] = 0.0
        for l in range(depth):
            q, delta, a, b, e = step({call})
        total = a + pooled * b
        q_out[g] = q
        delta_out[g] = delta
        finite = total > 0.0 and total < math.inf
        log_out[g] = math.log(total) + e * 346.57359027997264 if finite else -math.inf if total == 0.0 else total
        for k in range(count):
            dq_out[k, g] = dots[k, 0]
            ddelta_out[k, g] = dots[k, 1]
            dlog_out[k, g] = (dots[k, 2] + pooled * dots[k, 3]) / total if finite else math.nan
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
    status : "ok"; "zero APJN" or "infinite APJN", where q and c have their derivatives and ln J = -oo or oo has none (weights are 0, an
        activation jumps); "out of range" where another number is not finite. A word, or an array of the shape of the grid.

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
    status: Any = "ok"

    def plot(self, ax: matplotlib.axes.Axes | None = None, quantity: str = "log_apjn") -> matplotlib.axes.Axes:
        """Derivatives of "q", "log_apjn" or "gap", a bar each (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax, quantity=quantity)
        return axes

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
        words = sorted(set(np.ravel(self.status).tolist()) - {"ok"})
        bad = f", status {words}" if words else ""
        return "\n".join([f"Sensitivity(depth {self.depth}{bad})", *rows])


def sensitivity(
    net: Block,
    depth: int,
    q: ArrayLike,
    *,
    p: ArrayLike | None = None,
    c: ArrayLike | None = None,
    gap: ArrayLike | None = None,
    q2: ArrayLike | None = None,
    with_respect_to: str | tuple[str, ...] | None = None,
    start: str = "token",
    **parameters: ArrayLike,
) -> Sensitivity:
    r"""Derivatives of q_L, c_L and ln J^{L,0} with respect to parameters and to the start of a recursion.

    Parameters
    ----------
    net, depth, q, p, c, gap, q2, start, **parameters : as in `mf.propagate`; arrays broadcast.
    with_respect_to : name or names
        Parameters of the network; of its start "q" and, if given, "q2" (c fixed), "c", "gap" and "p" (variances fixed). Left out: all
        parameters, but for a number of tokens n that is the size of a Gram matrix.

    Where tokens are told apart (a mask, fixed weights) q, c and J are the means over tokens of `GramRun`; with q2, q and J are those of
    the first input.

    Raises
    ------
    TypeError, ValueError
        As `propagate`; a name that is no parameter; a parameter of a gated attention unit that moves a kink of its activation.
    ArithmeticError
        A derivative of q or c is finite nowhere on the grid, or ln J has no value (`BatchNorm` of identical inputs).

    Examples
    --------
    >>> import meanfield as mf
    >>> s = mf.sensitivity(mf.mlp(mf.erf), 1000, q=1.0, c=0.3, sigma_w=0.8, sigma_b=0.3, with_respect_to="sigma_w")
    >>> print(f"{s.dq['sigma_w']:.9f} {s.dlog_apjn['sigma_w']:.6f}")
    0.533572232 1925.451047
    """
    checked_block(net, "net")
    depth = arguments.check_integer(depth, "depth", 0)
    if start not in ("token", "pooled"):
        raise ValueError(f"start = {start!r}: expected 'token' or 'pooled'")
    if q2 is not None or not net.closes:
        if q2 is not None:
            ready = prepared_pair(net, depth, q, q2, p, c, gap, "last", parameters)
        else:
            ready = prepared_tokens(net, depth, q, p, c, gap, start, "last", parameters)
        names = _names([name for name in ready.parameters if name not in sizes_of(net)], with_respect_to, starts(ready))
        return _shaped(ready.grid, names, depth, *gram_tangents(ready, names))
    rec = recursion(net)
    values = bound_parameters(rec.parameters, parameters)
    q0, delta0 = initial_moments(q, p, c, gap)
    if delta0 is None and rec.couples(one_token="n" in values and bool((values["n"] == 1).all())):
        raise ValueError("this network mixes tokens: give the start of two tokens by exactly one of p, c and gap (or n = 1)")
    names = _names(values, with_respect_to, ("q", *(("c", "gap", "p") * (delta0 is not None))))
    named = {"q": q0, "start of p, c or gap": np.zeros(()) if delta0 is None else delta0, **values}
    grid = arguments.broadcast(named)
    count = math.prod(grid)
    flat = [np.array(np.broadcast_to(a, grid)).reshape(count) for a in named.values()]
    kernel = _kernel(rec, delta0 is not None)
    seeds = np.zeros((len(names), 2 + len(values), count))
    for k, name in enumerate(names):
        if name in values:
            seeds[k, 2 + list(values).index(name)] = 1.0
        elif name == "q":
            seeds[k, 0], seeds[k, 1] = 1.0, flat[1] / flat[0]  # at fixed correlation
        else:
            seeds[k, 1] = -1.0 if name == "p" else -flat[0] if name == "c" else flat[0]
    table = np.array(flat[2:]).reshape(len(values), count)
    out = [np.empty(count) for _ in range(3)] + [np.empty((len(names), count)) for _ in range(3)]
    shapes = [i.shapes(list(values), table) for i in kernel.integrands]
    layers = depth * sum(stage.times for stage in rec.stages)
    small = patient(layers * count * kernel.work.milliseconds(shapes), is_kept(kernel.source, "tangents"))
    execute(
        kernel.source,
        "tangents",
        (depth, float(start == "pooled"), table, seeds, np.empty((len(names), 4)), flat[0], flat[1], *out, *shapes),
        small,
    )
    q_last, delta_last, log_last, dq, ddelta, dlog = out
    state, rate = (np.all([np.isfinite(a.reshape(-1, count)).all(0) for a in part], axis=0) for part in ((out[:2] + out[3:5]), out[2::3]))
    status = np.select([state & rate, state & np.isneginf(log_last), state & np.isposinf(log_last)], STATUS[:3], STATUS[3])
    if (status == STATUS[3]).all():
        if state.all():
            raise ArithmeticError(f"ln J is not finite: {_INFINITE}")
        raise ArithmeticError("the recursion or a derivative leaves the range of doubles at this depth: run propagate for its status")
    numbers = [q_last, log_last, dq, dlog]
    if delta0 is not None:
        with np.errstate(all="ignore"):
            numbers += [delta_last / q_last, ddelta / q_last - delta_last * dq / q_last**2]
    found = _shaped(grid, names, depth, *numbers)
    return found if (status == "ok").all() else replace(found, status=status.reshape(grid) if grid else str(status[0]))


def _names(values: Iterable[str], wanted: str | tuple[str, ...] | None, begun: Iterable[str]) -> tuple[str, ...]:
    names = tuple(values) if wanted is None else (wanted,) if isinstance(wanted, str) else tuple(wanted)
    possible = {*values, *begun}
    unknown = [name for name in names if name not in possible]
    if unknown or not names:
        raise ValueError(f"with_respect_to = {', '.join(unknown) or names}: expected some of {', '.join(sorted(possible))}")
    return names


def _shaped(grid: tuple[int, ...], names: tuple[str, ...], depth: int, *numbers: Floats) -> Sensitivity:
    """values over the points of the grid, and their derivatives by name, turn by turn"""

    def shaped(a: Floats) -> Any:
        return a.reshape(grid) if grid else float(a.reshape(()))

    def by_name(rows: Floats) -> dict[str, Any]:
        return {name: shaped(row) for name, row in zip(names, rows, strict=True)}

    q_last, log_last, dq, dlog, *gaps = numbers
    known_gap = (shaped(gaps[0]), by_name(gaps[1])) if gaps else ()
    return Sensitivity(depth, shaped(q_last), shaped(log_last), by_name(dq), by_name(dlog), *known_gap)


#: why ln J has no value where q and c have theirs
_INFINITE = (
    "J is infinite from this start, where statistics of a batch divide by the difference of inputs that are identical (c = 1), "
    "or the square of a slope has no mean"
)

#: state, row, and the power of 2^500 taken out of that
_STATE = ("q", "delta", "a", "b", "e")

_SCALED = """
size = abs(a) + abs(b)
if size > BIG or (size < SMALL and size > 0.0):
    factor = SMALL if size > BIG else BIG
    a, b = factor*a, factor*b
    e += 1.0 if size > BIG else -1.0
    for k in range(dots.shape[0]):
        dots[k, 2], dots[k, 3] = factor*dots[k, 2], factor*dots[k, 3]
""".strip()


# -- the differentiated step -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kernel:
    source: str
    integrands: tuple[Integrand, ...]
    work: Work


@lru_cache(maxsize=64)
def _kernel(rec: Recursion, paired: bool) -> _Kernel:
    lowering = Lowering()
    taken = {*_STATE, "dots", "seeds", "size", "factor", "BIG", "SMALL", "g", "k", "l", "L", "math", "np", "step"}
    state = ", ".join(_STATE)
    given = {q: "q", delta: "delta", known("l"): "l", known("L"): "L"} | {s: parameter_name(s.name, taken) for s in rec.parameters}
    seeds = {q: "dots[k, 0]", delta: "dots[k, 1]"} | {s: f"seeds[k, {2 + i}, g]" for i, s in enumerate(rec.parameters)}
    with_other = paired and any(stage.law.transfer[0, 1] != 0 for stage in rec.stages)
    lines = [line for stage in rec.stages for line in _stage(lowering, stage, given, seeds, taken, paired, with_other)]
    names = [given[s] for s in rec.parameters]
    signature = ", ".join([state, "dots", "seeds", "g", *names, "l", "L", *lowering.shape_names])
    step = f"def step({signature}):\n    " + "\n    ".join([*lines, f"return {state}"]) + "\n"
    unpack = "\n        ".join([*(f"v{i} = float(values[{i}, g])" for i in range(len(names))), *lowering.unpacking()]) or "pass"
    bound = [f"v{i}" for i in range(len(names))]
    call = ", ".join([state, "dots", "seeds", "g", *bound, "float(l)", "L", *lowering.shape_names])
    loops = _LOOPS.format(unpack=unpack, call=call, shapes="".join(f", {name}s" for name in lowering.shape_names))
    header = '"""Generated by meanfield: one repeat and its tangent"""\n\nimport math\n\nimport numpy as np\n'
    source = "\n\n".join([header, "BIG = 2.0**500\nSMALL = 2.0**-500", lowering.helpers(), step, loops])
    return _Kernel(source, tuple(lowering.integrands.values()), lowering.work)


def _jumps(e: sp.Expr) -> bool:
    """Whether an activation jumps, so that this is infinite, or 0, and has no derivatives."""
    return any(t.base.has(sp.DiracDelta) for t in e.atoms(sp.Pow))


def _stage(
    lowering: Lowering,
    stage: Stage,
    given: dict[sp.Symbol, str],
    seeds: dict[sp.Symbol, str],
    taken: set[str],
    paired: bool,
    with_other: bool,
) -> list[str]:
    """The lines of a stage: its values and partial derivatives, then for every direction the tangents, by the chain rule; of a single
    input those of q and J alone, and those of K only where it has a say in J."""
    law = stage.law
    view: dict[sp.Expr, sp.Expr] = {p: q - delta} | {d.symbol: d.kernel for d in law.definitions if d.kernel is not None}
    named = {d.symbol: d.value.xreplace(view) for d in law.definitions if d.kernel is None}
    wanted = [e.xreplace(view) for e in (law.output.q, law.output.delta, *law.transfer)]
    if not paired:
        wanted[1] = sp.S.Zero
    if not with_other:
        wanted[3:] = [sp.S.Zero] * 3
    steps = [*named.items(), *((sp.Dummy(label, real=True), e) for label, e in zip(_WANTED, wanted, strict=True))]
    moving = {*seeds, *named}
    try:
        slopes = [[(s, partial(e, s)) for s in sorted(e.free_symbols & moving, key=str) if not _jumps(e)] for _, e in steps]
    except ValueError as reason:
        raise ValueError(f"{stage.block}: {reason}") from None
    body = lowering.body([*wanted, *(slope for row in slopes for _, slope in row)], given, named, taken)
    values = [source_name(label, taken) for label in _WANTED]
    lines = [*body.lines, *(f"{name} = {value}" for name, value in zip(values, body.results, strict=False))]
    factors, dots, inner = iter(body.results[len(wanted) :]), dict(seeds), []
    for (symbol, _), row in zip(steps, slopes, strict=True):
        dots[symbol] = source_name(f"dot_{symbol.name}", taken)
        terms = []
        for s, slope in row:
            text = next(factors)
            if slope != 0:
                factor = source_name(f"slope_{symbol.name}", taken)
                lines.append(f"{factor} = {text}")
                terms.append(f"{factor}*{dots[s]}")
        inner.append(f"{dots[symbol]} = {' + '.join(terms) or '0.0'}")
    new_q, new_delta, t00, t01, t10, t11 = values
    dq, ddelta, d00, d01, d10, d11 = (dots[symbol] for symbol, _ in steps[-6:])
    onward = f"a, b = a*{t00} + b*{t10}, a*{t01} + b*{t11}" if with_other else f"a = a*{t00}"
    of_row = f"dots[k, 2]*{t00} + a*{d00}, dots[k, 3]"
    if with_other:
        columns = ((t00, t10, d00, d10), (t01, t11, d01, d11))
        of_row = ", ".join(f"dots[k, 2]*{first} + dots[k, 3]*{second} + a*{d} + b*{other}" for first, second, d, other in columns)
    inner.append(f"dots[k, 0], dots[k, 1], dots[k, 2], dots[k, 3] = {dq}, {ddelta}, {of_row}")
    lines += [
        "for k in range(dots.shape[0]):",
        *(f"    {line}" for line in inner),
        onward,
        f"q, delta = {new_q}, {new_delta}",
        "delta = min(delta, 2.0*q) if delta < math.inf else delta",
        *_SCALED.splitlines(),
    ]
    return lines if stage.times == 1 else [f"for _ in range({stage.times}):", *(f"    {line}" for line in lines)]


#: what a stage leaves: state and transfer
_WANTED = ("q_", "delta_", "t00_", "t01_", "t10_", "t11_")
