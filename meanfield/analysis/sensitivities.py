r"""Exact derivatives of q_L, c_L and ln J with respect to parameters and to the start, by forward mode.

A stage is differentiated once, symbolically: each named quantity has partial derivatives in what it is written in
(`gaussian.tangents`). Values and partial derivatives are lowered together and computed once per layer; then every direction takes its
step by the chain rule, and the row e_1^T T_0 ... T_{l-1} carries its tangent along. Gram matrices: `analysis.gram_tangents`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces
from meanfield.analysis.gram_tangents import gram_tangents, starts
from meanfield.analysis.tangent_kernels import Kernel, kernel_of
from meanfield.blocks.algebra import Block, checked_block
from meanfield.blocks.letters import heeded
from meanfield.numeric.coefficients import check_coefficients
from meanfield.numeric.gram_laws import sizes_of
from meanfield.numeric.gram_march import prepared_pair, prepared_tokens
from meanfield.numeric.patience import SECONDS, check_patience
from meanfield.numeric.propagation import parameters as parameters_of
from meanfield.numeric.runs import bound_parameters, check_tokens, initial_moments
from meanfield.numeric.signs import by_sign
from meanfield.numeric.silence import deaf, silent, undefined
from meanfield.numeric.store import execute, is_kept
from meanfield.numeric.threads import share
from meanfield.numeric.work import FASTER, patient
from meanfield.numeric.zero_parameters import zeros_of
from meanfield.recurrence import Recursion, recursion

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["Sensitivity", "sensitivity"]

Floats = NDArray[np.float64]
#: below which a variance is 0 for all that is known of it
FAINT = 1e-300
#: what may be of a point
STATUS = ("ok", "zero signal", "zero APJN", "infinite APJN", "invalid", "out of range")


@dataclass(frozen=True, repr=False, eq=False)
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
        activation jumps); "zero signal", where weights, biases and skips are 0: q_L = 0 has its derivatives, there is no c_L (nan);
        "invalid" where they are and a norm divides by a variance that is 0 for it: all is nan; "out of range" where another number is
        not finite: those of q, c and J that are have their derivatives all the same. A word, or an array of the shape of the grid.

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


@np.errstate(under="ignore")
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
        Nowhere on the grid q has derivatives and with it c or ln J, or ln J has no value (`BatchNorm` of identical inputs).

    Examples
    --------
    >>> import meanfield as mf
    >>> s = mf.sensitivity(mf.mlp(mf.erf), 1000, q=1.0, c=0.3, sigma_w=0.8, sigma_b=0.3, with_respect_to="sigma_w")
    >>> print(f"{s.dq['sigma_w']:.9f} {s.dlog_apjn['sigma_w']:.6f}")
    0.533572232 1925.451047
    """
    checked_block(net, "net")
    depth = arguments.check_integer(depth, "depth", 0)
    arguments.check_start(start)
    parameters = heeded(net, parameters_of(net, unequal=q2 is not None), parameters)
    if q2 is not None or not net.closes:
        if q2 is not None:
            ready = prepared_pair(net, depth, q, q2, p, c, gap, "last", parameters)
        else:
            ready = prepared_tokens(net, depth, q, p, c, gap, start, "last", parameters)
        ready.check_patience()
        names = _names([name for name in ready.parameters if name not in sizes_of(net)], with_respect_to, starts(ready))
        found = _shaped(ready.grid, names, depth, *gram_tangents(ready, names))
        gone = np.ravel(np.asarray(found.q) == 0)
        return _judged(found, gone, np.zeros(gone.size, dtype=bool), "")
    rec = recursion(net)
    values = bound_parameters(rec.parameters, parameters)
    check_coefficients(net, values, depth)
    q0, delta0 = initial_moments(q, p, c, gap)
    check_tokens(rec, values, delta0)
    names = _names(values, with_respect_to, ("q", *(("c", "gap", "p") * (delta0 is not None))))
    named = {"q": q0, "start of p, c or gap": np.zeros(()) if delta0 is None else delta0, **values}
    grid = arguments.broadcast(named)
    count = math.prod(grid)
    flat = [np.array(np.broadcast_to(a, grid)).reshape(count) for a in named.values()]
    seeds = np.zeros((len(names), 2 + len(values), count))
    for k, name in enumerate(names):
        if name in values:
            seeds[k, 2 + list(values).index(name)] = 1.0
        elif name == "q":
            seeds[k, 0], seeds[k, 1] = 1.0, flat[1] / flat[0]  # at fixed correlation
        else:
            seeds[k, 1] = -1.0 if name == "p" else -flat[0] if name == "c" else flat[0]
    table = np.array(flat[2:]).reshape(len(values), count)
    begin, pooled = (flat[0], flat[1]), start == "pooled"
    out = [np.empty(count) for _ in range(3)] + [np.empty((len(names), count)) for _ in range(3)]
    dumb, lost = np.zeros((2, count), dtype=bool)
    parts: dict[tuple[Recursion, frozenset[str]], NDArray[np.int64]] = {}
    for signs, columns in by_sign(rec.unsigned, rec.parameters, table):
        signed = rec.signed({name: sign for name, sign in signs.items() if sign})  # at 0 there is a derivative all the same
        for zero, among in zeros_of(signed, table[:, columns]):
            points = columns[among]
            dumb[points], lost[points] = silent(signed, zero), depth > 0 and undefined(signed, zero)
            case = signed, zero if deaf(signed, zero) else frozenset()
            parts[case] = np.append(parts.get(case, points[:0]), points)
    for (signed, zero), points in parts.items():
        kernel = kernel_of(signed, delta0 is not None, zero)
        own = (table[:, points].copy(), seeds[..., points].copy(), *(a[points] for a in begin))
        for a, part in zip(out, _run(kernel, signed, depth, pooled, *own), strict=True):
            a[..., points] = part
    lost &= np.isnan(out[2])
    q_last, delta_last, log_last, dq, ddelta, dlog = (np.where(lost, np.nan, a) for a in out)
    numbers = [q_last, log_last, dq, dlog]
    if delta0 is not None:
        with np.errstate(all="ignore"):
            numbers += [delta_last / q_last, ddelta / q_last - delta_last / q_last * (dq / q_last)]
    zeros = sorted(_needed(rec, frozenset(name for name, v in values.items() if (v == 0).any()))) if lost.all() else []
    return _judged(_shaped(grid, names, depth, *numbers), dumb, lost, " and ".join(f"{name} = 0" for name in zeros))


def _needed(rec: Recursion, zero: frozenset[str]) -> frozenset[str]:
    """those of some parameters that are 0 without which a norm would not divide by 0"""
    for name in sorted(zero):
        if undefined(rec, zero - {name}):
            zero = zero - {name}
    return zero


def _judged(found: Sensitivity, dumb: NDArray[np.bool_], lost: NDArray[np.bool_], zeros: str) -> Sensitivity:
    """With a word for each point: of nothing left, of nothing defined, since so many parameters are 0, or of what is not finite.

    Raises ArithmeticError where nothing has derivatives.
    """
    quantities: dict[str, list[Any]] = {
        "q": [found.q, *found.dq.values()],
        "1 - c": [] if found.dgap is None else [found.gap, *found.dgap.values()],
        "ln J": [found.log_apjn, *found.dlog_apjn.values()],
    }
    known = {name: np.isfinite(np.reshape(rows, (len(rows), -1))).all(0) if rows else np.True_ for name, rows in quantities.items()}
    first, gap_too, rate = known.values()
    state = first & (gap_too | dumb)  # of nothing there is no gap
    last, log_last = np.ravel(found.q), np.ravel(found.log_apjn)
    there = state & (last >= FAINT)
    cases = [there & rate, state & dumb & (found.depth > 0), there & np.isneginf(log_last), there & np.isposinf(log_last), lost]
    status = np.select(cases, STATUS[:-1], STATUS[-1])
    partly = first & (last >= FAINT) & (rate | gap_too & np.isfinite(log_last))
    if status.size and (np.isin(status, STATUS[-2:]) & ~partly).all():
        if lost.all():
            raise ArithmeticError(f"{zeros or 'net'}: {_UNDEFINED}")
        if state.all():
            raise ArithmeticError(f"ln J is not finite: {_INFINITE}")
        raise ArithmeticError(_out_of_range(found, quantities))
    if (status == "ok").all():
        return found
    grid = np.shape(found.q)
    return replace(found, status=status.reshape(grid) if grid else str(status[0]))


def _out_of_range(found: Sensitivity, quantities: Mapping[str, list[Any]]) -> str:
    """which value or derivative is finite nowhere, or leaves something of each point that is not"""
    for name, (value, *slopes) in ((name, rows) for name, rows in quantities.items() if rows):
        if not np.isfinite(value).any():
            return f"{name} is not finite at depth = {found.depth}: run propagate for its status"
        bad = [wanted for wanted, slope in zip(found.dq, slopes, strict=True) if not np.isfinite(slope).all()]
        if bad:
            return f"with_respect_to = {', '.join(bad)}: the derivative of {name} at depth = {found.depth} is not finite"
    return f"q = {np.max(found.q):g} at depth = {found.depth}: below {FAINT:g} it has no derivatives in doubles"


def _run(
    kernel: Kernel, rec: Recursion, depth: int, pooled: bool, table: Floats, seeds: Floats, q0: Floats, delta0: Floats
) -> list[Floats]:
    """q_L, delta_L and ln J of some points, and the derivatives of each"""
    count, directions = q0.size, len(seeds)
    out = [np.empty(count) for _ in range(3)] + [np.empty((directions, count)) for _ in range(3)]
    shapes = [i.shapes([s.name for s in rec.parameters], table) for i in kernel.integrands]
    layers = depth * sum(stage.times for stage in rec.stages)
    milliseconds = layers * count * kernel.work.milliseconds(shapes)
    check_patience(depth, layers, milliseconds / (1e3 * FASTER * SECONDS), "derivatives go layer by layer")
    halt = np.zeros(2, dtype=np.int64)
    given = (halt, depth, float(pooled), table, seeds, np.empty((directions, 4)), q0, delta0, *out, *shapes)
    if patient(milliseconds, is_kept(kernel.source, "tangents")):
        execute(kernel.source, "tangents", given, small=True)
    else:
        run = partial(execute, kernel.source, "tangents", small=False)
        share(run, [given], "sensitivity", lambda: halt.fill(1), lambda: halt[1] / (depth * count))
    return out


def _names(values: Iterable[str], wanted: Any, begun: Iterable[str]) -> tuple[str, ...]:
    possible = {*values, *begun}
    several = isinstance(wanted, Iterable) and not isinstance(wanted, str)
    names = tuple(values) if wanted is None else tuple(wanted) if several else (wanted,)
    if any(not isinstance(name, str) for name in names):
        raise TypeError(f"with_respect_to = {wanted!r}: expected a name or names, some of {', '.join(sorted(possible))}")
    unknown = [name for name in names if name not in possible]
    if wanted is None and not names:
        raise ValueError(
            f"this network has no free parameters: name what to differentiate by, with_respect_to = {', '.join(sorted(possible))}"
        )
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


#: why nothing has a value
_UNDEFINED = "a norm divides by a variance that is 0 there, and nothing behind it is defined"
#: why ln J has no value where q and c have theirs
_INFINITE = (
    "J is infinite from this start, where statistics of a batch divide by the difference of inputs that are identical (c = 1), "
    "or the square of a slope has no mean"
)
