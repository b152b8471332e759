r"""Questions the recursion answers backwards: which value of a parameter keeps gradients, correlations or variances where they should be.

Each is solved on `propagate` itself, over a whole grid of settings at once, and answers with what was achieved and the bracket in which
the value lies. The gain that an activation needs is `mf.gain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from meanfield import arguments, symbols
from meanfield.blocks.algebra import Block, checked_block
from meanfield.blocks.letters import heeded
from meanfield.faces import latex
from meanfield.numeric.propagation import parameters, propagate
from meanfield.numeric.runs import Run
from meanfield.scaling.crossings import first_crossing

__all__ = [
    "OBSERVABLES",
    "Answer",
    "observable_of",
    "parameter_for_correlation",
    "parameter_for_gradients",
    "parameter_for_growth",
    "parameter_where",
    "plain",
    "ran",
]

Floats = NDArray[np.float64]

#: what can be asked for, over the layers of a run
OBSERVABLES: Final[dict[str, Callable[[Run], Floats]]] = {
    "log_apjn": lambda run: run.log_apjn_forward,
    "log_q": lambda run: np.asarray(np.log(run.q)),
    "c": lambda run: run.c,
    "log_gap": lambda run: np.asarray(np.log(run.gap)),
}

_LETTERS: Final = {"log_apjn": r"$\ln \mathcal{J}$", "log_q": r"$\ln q$", "c": "$c$", "log_gap": r"$\ln(1 - c)$"}

#: samples of the bracket in which a change of sign is looked for
POINTS: Final = 33


@dataclass(frozen=True, repr=False, eq=False)
class Answer:
    """A parameter's value, what it achieves, and how sure that is; floats for one setting, arrays for a grid.

    Attributes
    ----------
    value : float or array
        Where no value of the parameter answers, and `status` says so, the one that comes closest of those that were tried.
    achieved, target : float or array
        The observable at the value, and what was asked for.
    low, high : float or array
        The bracket in which the observable passes the target; all that was searched where it does not.
    holds : str or array of str
        "below" where the observable is below its target for smaller values of the parameter down to the end of the bracket that was
        searched, "above" where it is for larger ones up to the next crossing.
    status : str or array of str
        "ok"; "several" crossings, of which the smallest is given; "never" or "always" below the target: no value of the parameter answers;
        "unresolved" where the recursion overflows or is undefined throughout, and numbers are NaN; for a depth also "more", where the
        bound still holds at the largest depth tried, and "never" where it does not hold at the input already.

    Examples
    --------
    >>> import meanfield as mf
    >>> answer = mf.scaling.parameter_where(mf.mlp(mf.relu), "sigma_w", "log_q", 0.0, depth=10, q=1.0, sigma_b=0.1)
    >>> round(answer.value, 6), answer.low <= answer.value <= answer.high, answer.holds, answer.status
    (1.407125, True, 'below', 'ok')
    """

    parameter: str
    observable: str
    value: Any
    achieved: Any
    target: Any
    low: Any
    high: Any
    holds: Any
    status: Any

    def latex(self) -> str:
        """A tabular: each setting's value, what it achieves and was asked for, and the bracket."""
        columns = [np.ravel(np.asarray(v)) for v in (self.value, self.achieved, self.target, self.low, self.high)]
        name = latex(symbols.parameter(self.parameter))
        rows = [" & ".join([*(f"{v:.10g}" for v in row[:-1]), str(row[-1])]) for row in zip(*columns, np.ravel(self.status), strict=True)]
        heading = rf"${name}$ & {_LETTERS[self.observable]} & asked & from & to & status \\ \hline"
        return "\\begin{tabular}{rrrrrl}\n" + " \\\\\n".join([heading, *rows]).replace("\\hline \\\\", "\\hline") + "\n\\end{tabular}"

    def _repr_latex_(self) -> str:
        return self.latex()

    def __repr__(self) -> str:
        if np.ndim(self.value):
            words, counts = np.unique(self.status, return_counts=True)
            found = ", ".join(f"{k} {word}" for word, k in zip(words, counts, strict=True))
            return f"Answer({self.parameter} for {self.observable}, {'x'.join(map(str, np.shape(self.value)))} settings: {found})"
        return (
            f"Answer({self.parameter} = {self.value:.10g}: {self.observable} = {self.achieved:.10g}, asked {self.target:.10g}; "
            f"in [{self.low:.10g}, {self.high:.10g}], {self.status})"
        )


@latex.register
def _(thing: Answer) -> str:
    return thing.latex()


def observable_of(name: str, settings: Mapping[str, Any]) -> Callable[[Run], Floats]:
    """The observable of that name, over the layers of a run with these settings."""
    if name not in OBSERVABLES:
        raise ValueError(f"observable = {name!r}: expected one of {', '.join(OBSERVABLES)}")
    if name in ("c", "log_gap") and all(settings.get(start) is None for start in ("p", "c", "gap")):
        raise ValueError(f"observable = {name!r}: it is of two inputs; give one of p, c or gap")
    return OBSERVABLES[name]


def ran(net: Block, depth: int, record: str, settings: dict[str, Any]) -> Run:
    """A run in (q, p), or a sentence."""
    run = propagate(net, depth, record=record, **settings)
    if not isinstance(run, Run):
        raise TypeError(f"net = {net}: it has no recursion in (q, p), and no question is solved on Gram matrices")
    return run


def plain(a: NDArray[Any]) -> Any:
    """A scalar for an array of one setting."""
    return a.item() if a.shape == () else a


def _bracket(bracket: Any) -> tuple[float, float]:
    ends = arguments.number_array(bracket, "bracket")
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(f"bracket = {bracket!r}: expected (low, high) with low < high")
    return float(ends[0]), float(ends[1])


def parameter_where(
    net: Block, parameter: str, observable: str, target: Any, *, depth: int, q: Any, bracket: Any = (1e-2, 1e2), **settings: Any
) -> Answer:
    r"""The value of a parameter at which an observable of the output equals a target: the question all others are made of.

    The bracket is sampled for changes of sign, geometrically where its low end is positive, and the first is closed in on.

    Parameters
    ----------
    net : Block
    parameter : str
        One of `mf.recursion(net).parameters`.
    observable : "log_apjn", "log_q", "c" or "log_gap"
        ln J^{L,0}, ln q_L, c_L or ln(1 - c_L).
    target : number or array
    depth, q, **settings
        As for `propagate`, all parameters but that one; arrays broadcast.
    bracket : (low, high)
        Where the parameter is looked for.

    Returns
    -------
    Answer

    Raises
    ------
    TypeError, ValueError
        Bad input. A setting that no value in the bracket answers is a status, alone as in a grid.

    Examples
    --------
    >>> import meanfield as mf
    >>> answer = mf.scaling.parameter_where(mf.mlp(mf.relu), "sigma_w", "log_q", 0.0, depth=10, q=1.0, sigma_b=0)
    >>> round(answer.value, 12), answer.status
    (1.414213562373, 'ok')
    """
    look = observable_of(observable, settings)
    names = {s.name for s in parameters(checked_block(net, "net"))}
    if parameter not in names:
        raise ValueError(f"parameter = {parameter!r}: this network has the parameters {', '.join(sorted(names)) or 'none'}")
    if parameter in settings:
        raise ValueError(f"{parameter} is to be solved for: do not give it a value")
    low, high = _bracket(bracket)
    wanted = arguments.number_array(target, "target")
    fixed = {"q": q, **{k: v for k, v in settings.items() if v is not None and k != "start"}}
    grid = arguments.broadcast({"target": wanted, **{k: arguments.number_array(v, k) for k, v in fixed.items()}})

    def difference(values: Floats) -> Floats:
        run = ran(net, depth, "last", {"q": q, parameter: values, **settings})
        return np.asarray(look_last(run) - wanted)

    def look_last(run: Run) -> Floats:
        return look(run)[..., -1]

    found = first_crossing(difference, low, high, grid, POINTS)
    status = np.where(found.count > 1, "several", np.where(found.count == 1, "ok", np.where(found.first_sign < 0, "always", "never")))
    status = np.where(np.isnan(found.at), "unresolved", status)
    holds = np.where(found.first_sign < 0, "below", "above")
    parts = (found.at, found.value + wanted, np.broadcast_to(wanted, grid), found.low, found.high, holds, status)
    return Answer(parameter, observable, *(plain(np.asarray(a)) for a in parts))


def parameter_for_gradients(net: Block, below: Any, *, parameter: str = "alpha", depth: int, q: Any, **settings: Any) -> Answer:
    r"""The slope \alpha of Derf or DyT (or any other parameter) at which ln J^{L,0} reaches a bound: smaller ones keep it, where `holds`
    says "below".

    Parameters and errors are those of `parameter_where`.

    Examples
    --------
    >>> import meanfield as mf
    >>> net = mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu))
    >>> vit = dict(n=197, sigma_Q=0.64, sigma_K=0.64, sigma_V=0.64, sigma_O=0.64, sigma_1=0.64, sigma_2=1.28)
    >>> answer = mf.scaling.parameter_for_gradients(net, below=5.0, depth=128, q=1.0, p=0.4, bracket=(0.1, 3), **vit)
    >>> round(answer.value, 6), answer.holds, answer.status
    (0.651307, 'below', 'ok')
    """
    return parameter_where(net, parameter, "log_apjn", below, depth=depth, q=q, **settings)


def parameter_for_correlation(net: Block, below: Any, *, parameter: str = "beta", depth: int, q: Any, **settings: Any) -> Answer:
    r"""The scale \beta of the branches (or any other parameter) at which the correlation c_L of two tokens or inputs reaches a bound.

    Solved in ln(1 - c_L), so that bounds near 1 are resolved. Parameters and errors are those of `parameter_where`.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> beta = sp.Symbol("beta", positive=True)
    >>> net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, sp.sqrt(2)), scale=beta)
    >>> answer = mf.scaling.parameter_for_correlation(net, below=0.5, depth=100, q=1.0, c=0.2)
    >>> round(answer.value, 4), round(answer.achieved, 12), answer.holds
    (0.2414, 0.5, 'below')
    """
    bound = arguments.number_array(below, "below")
    if ((bound >= 1) | (bound <= -1)).any():
        raise ValueError(f"below = {below}: a correlation must be between -1 and 1")
    found = parameter_where(net, parameter, "log_gap", np.log1p(-bound), depth=depth, q=q, **settings)
    # c is below its bound where ln(1 - c) is above its own
    opposite = {"below": "above", "above": "below", "always": "never", "never": "always"}
    turned = np.vectorize(lambda word: opposite.get(word, word), otypes=[object])
    reached, asked = (-np.expm1(np.asarray(v)) for v in (found.achieved, found.target))
    words = (plain(np.asarray(turned(v))) for v in (found.holds, found.status))
    return Answer(parameter, "c", found.value, plain(reached), plain(asked), found.low, found.high, *words)


def parameter_for_growth(
    net: Block, like: Block, *, observable: str = "log_q", share: Any = 1.0, parameter: str = "alpha", depth: int, q: Any, **settings: Any
) -> Answer:
    r"""The slope \alpha of Derf or DyT (or any other parameter) with which a network grows as another does, as pre-LN.

    Growth is that of q_L, or of J^{L,0} with observable="log_apjn". A saturating norm hands on less than LayerNorm at every \alpha, so
    its q_L only comes to a `share` of pre-LN's; gradients can be matched in full. Settings are shared: each network takes those of its
    parameters. Other parameters and errors are those of `parameter_where`.

    Examples
    --------
    >>> import meanfield as mf
    >>> parts = dict(attention=mf.Attention(n=197, sigma_Q=0.64, sigma_K=0.64), mlp=mf.MLP(mf.relu, 0.64, 1.28))
    >>> nets = [mf.pre_norm(norm=norm, **parts) for norm in (mf.Derf(), mf.LayerNorm())]
    >>> start = dict(depth=128, q=1.0, p=0.4, sigma_V=0.64, sigma_O=0.64)
    >>> round(mf.scaling.parameter_for_growth(*nets, share=0.7, **start).value, 6)
    0.711173
    >>> round(mf.scaling.parameter_for_growth(*nets, observable="log_apjn", **start).value, 6)
    0.350566
    """
    begin: dict[str, Any] = {k: settings.pop(k) for k in ("p", "c", "gap", "q2", "start") if k in settings}
    search = {k: settings.pop(k) for k in ("bracket",) if k in settings}
    laws = [parameters(checked_block(b, name)) for b, name in ((net, "net"), (like, "like"))]
    own, other = ({s.name for s in law} for law in laws)
    for b in (net, like):
        settings = heeded(b, (s for law in laws for s in law), settings)
    if unknown := sorted(set(settings) - own - other):
        raise ValueError(f"unknown parameters: {', '.join(unknown)}. The networks have the parameters: {', '.join(sorted(own | other))}")
    part = arguments.variance_array(share, "share")
    theirs = ran(like, depth, "last", {"q": q, **begin, **{k: v for k, v in settings.items() if k in other}})
    wanted = observable_of(observable, begin)(theirs)[..., -1] + np.log(part)
    mine = {k: v for k, v in settings.items() if k in own}
    return parameter_where(net, parameter, observable, wanted, depth=depth, q=q, **begin, **search, **mine)
