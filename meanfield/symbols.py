r"""The one place where symbols are made: name, assumption, LaTeX and meaning of every letter the library uses.

Same name means same parameter, whatever assumptions a user's own symbol carries: `canonical` maps every symbol of an
expression to the symbol of that name kept here. A user's own symbol that says nothing about itself is a real number: `among_reals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import sympy as sp

__all__ = [
    "TABLE",
    "Entry",
    "among_reals",
    "bindable",
    "canonical",
    "known",
    "latex_names",
    "merged",
    "parameter",
    "real",
    "reserved",
    "signed",
]


@dataclass(frozen=True)
class Entry:
    """A letter of the library: its symbol, how it prints, what it means, the least value it may take and the one it must stay below.

    `local` letters mean this only where the library itself puts them: in a user's expression s or d is the user's own.
    """

    symbol: sp.Symbol
    latex: str
    meaning: str
    lowest: float | None = None
    integer: bool = False
    below: float | None = None
    local: bool = False


def _entry(
    name: str,
    latex: str,
    meaning: str,
    *,
    lowest: float | None = None,
    below: float | None = None,
    local: bool = False,
    **assumptions: bool,
) -> Entry:
    return Entry(sp.Symbol(name, **assumptions), latex, meaning, lowest, bool(assumptions.get("integer")), below, local)


_ENTRIES: Final = (
    # what an activation is written in
    _entry("x", "x", "argument of an activation", real=True),
    _entry("y", "y", "second argument of a two-variable expectation", real=True),
    # the state
    _entry("q", "q", "variance of a component of a token", lowest=0, positive=True),
    _entry("p", "p", "covariance of a component between two tokens", real=True),
    _entry("delta", r"\delta", "q - p", lowest=0, nonnegative=True),
    _entry("q1", "q_1", "variance of the first of two inputs", lowest=0, positive=True),
    _entry("q2", "q_2", "variance of the second of two inputs", lowest=0, positive=True),
    _entry("rho", r"\rho", "correlation p/q", real=True),
    _entry("Theta", r"\Theta", "neural tangent kernel of an input", lowest=0, nonnegative=True),
    _entry("Theta_p", r"\Theta_p", "neural tangent kernel between two inputs", real=True),
    # depth and size
    _entry("L", "L", "number of repeats of the block", lowest=0, positive=True, integer=True),
    _entry("l", "l", "index of the repeat, 0 ... L-1", lowest=0, nonnegative=True, integer=True),
    _entry("n", "n", "number of tokens", lowest=1, positive=True, integer=True),
    # weights: standard deviation times sqrt(fan-in)
    _entry("sigma_w", r"\sigma_w", "weight scale of a linear map", lowest=0, positive=True),
    _entry("sigma_b", r"\sigma_b", "bias scale of a linear map", lowest=0, positive=True),
    _entry("sigma_1", r"\sigma_1", "weight scale of the first MLP matrix", lowest=0, positive=True),
    _entry("sigma_2", r"\sigma_2", "weight scale of the second MLP matrix", lowest=0, positive=True),
    _entry("sigma_Q", r"\sigma_Q", "weight scale of the query matrix", lowest=0, positive=True),
    _entry("sigma_K", r"\sigma_K", "weight scale of the key matrix", lowest=0, positive=True),
    _entry("sigma_V", r"\sigma_V", "weight scale of the value matrix", lowest=0, positive=True),
    _entry("sigma_O", r"\sigma_O", "weight scale of the output matrix", lowest=0, positive=True),
    _entry("sigma_gate", r"\sigma_g", "weight scale of the gate of a gated linear unit", lowest=0, positive=True),
    _entry("sigma_value", r"\sigma_v", "weight scale of the gated values", lowest=0, positive=True),
    _entry("sigma_out", r"\sigma_o", "weight scale of the matrix after the gate", lowest=0, positive=True),
    _entry("sigma_U", r"\sigma_U", "weight scale of the gate of a gated attention unit", lowest=0, positive=True),
    _entry("sigma_Z", r"\sigma_Z", "weight scale of the shared features of a gated attention unit", lowest=0, positive=True),
    _entry("s", "s", "shared features of a gated attention unit", local=True, lowest=1, positive=True, integer=True),
    _entry("d", "d", "width of a gated attention unit", local=True, lowest=1, positive=True, integer=True),
    _entry("e", "e", "hidden units of a gated attention unit", local=True, lowest=1, positive=True, integer=True),
    _entry("sigma_OV", r"\sigma_{OV}", "sigma_O sigma_V", lowest=0, positive=True),
    _entry("sigma_QK", r"\sigma_{QK}", "sigma_Q sigma_K", lowest=0, positive=True),
    _entry("sigma_21", r"\sigma_{21}", "sigma_2 sigma_1", lowest=0, positive=True),
    _entry("sigma_b1", r"\sigma_{b1}", "bias scale of the first MLP map", lowest=0, positive=True),
    _entry("sigma_b2", r"\sigma_{b2}", "bias scale of the second MLP map", lowest=0, positive=True),
    _entry("alpha", r"\alpha", "slope of Derf or DyT", lowest=0, positive=True),
    _entry("negative_slope", "a_-", "slope of a leaky ReLU for x < 0", real=True),
    _entry("alpha_skip", r"\alpha_{\mathrm{skip}}", "weight of the skip in DeepNorm", lowest=0, positive=True),
    _entry(
        "rate", r"\delta_{\mathrm{drop}}", "share of coordinates that dropout puts to zero", local=True, lowest=0, below=1, nonnegative=True
    ),
    # scaling rules
    _entry("N", "N", "number of transformer blocks (of the encoder)", local=True, lowest=1, positive=True, integer=True),
    _entry("M", "M", "number of decoder blocks", local=True, lowest=1, positive=True, integer=True),
    _entry("lam", r"\lambda", "gain common to the weights of a branch (V, O and the MLP in DeepNorm)", local=True, lowest=0, positive=True),
    _entry("fan_in", r"d_{\mathrm{in}}", "columns of a weight matrix", local=True, lowest=1, positive=True, integer=True),
    _entry("fan_out", r"d_{\mathrm{out}}", "rows of a weight matrix", local=True, lowest=1, positive=True, integer=True),
    _entry("d_key", "d_k", "size of a head's keys and queries", local=True, lowest=1, positive=True, integer=True),
)

TABLE: Final = {entry.symbol.name: entry for entry in _ENTRIES}

#: Names of what `propagate` takes beside the parameters of a network, and of what recursions are written in: none is a parameter.
taken: Final = frozenset({"net", "depth", "q2", "c", "gap", "record", "out", "start", "device"})
reserved: Final = taken | {"q", "p", "L", "l", "x", "y", "delta"}


def bindable(found: set[sp.Symbol], owner: object) -> set[sp.Symbol]:
    """The symbols of a network's laws that are its parameters; ValueError of one that `propagate` could not be given."""
    if own := sorted({s.name for s in found} & taken):
        raise ValueError(f"{owner}: {own[0]} cannot be a parameter, which propagate takes as an argument of its own: rename it")
    return {s for s in found if s.name not in reserved}


#: Products that the literature writes with one letter, most specific name first.
products: Final = (("sigma_OV", ("sigma_O", "sigma_V")), ("sigma_QK", ("sigma_Q", "sigma_K")), ("sigma_21", ("sigma_2", "sigma_1")))


def known(name: str) -> sp.Symbol:
    """The library's symbol of that name."""
    return TABLE[name].symbol


def parameter(name: str) -> sp.Symbol:
    """The symbol of a parameter: the library's own if it knows the name, a real one otherwise."""
    return TABLE[name].symbol if name in TABLE else sp.Symbol(name, real=True)


def canonical(expression: sp.Expr) -> sp.Expr:
    """The expression with every symbol the library knows by name replaced by its own symbol of that name."""
    shared = {s: TABLE[s.name] for s in expression.free_symbols if s.name in TABLE}
    return expression.xreplace({s: entry.symbol for s, entry in shared.items() if s != entry.symbol and not entry.local})


def real(expression: sp.Expr) -> sp.Expr:
    """The expression with every symbol real that does not say what it is: parameters are real numbers."""
    return expression.xreplace(_twins(expression))


def signed(s: sp.Symbol, sign: int) -> sp.Expr:
    """The same parameter where its values are all positive, sign = 1, or all negative, sign = -1, or all 0."""
    return sp.S.Zero if sign == 0 else sp.Symbol(s.name, **{**s._assumptions_orig, "positive" if sign > 0 else "negative": True})


def among_reals(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of expressions that takes symbols that do not say what they are as real, with its results in the symbols it was given."""

    @wraps(function)
    def answer(*args: Any) -> Any:
        twins = _twins(args)
        if not twins:
            return function(*args)
        return _put(function(*(_put(e, twins) for e in args)), {twin: s for s, twin in twins.items()})

    return answer


def _twins(e: Any) -> dict[sp.Symbol, sp.Symbol]:
    """a real symbol of the same name for each that does not say what it is"""
    if isinstance(e, tuple):
        return {s: twin for part in e for s, twin in _twins(part).items()}
    free = e.free_symbols if isinstance(e, sp.Basic) else ()
    return {s: sp.Symbol(s.name, real=True) for s in free if type(s) is sp.Symbol and s.is_real is None}


def _put(e: Any, values: dict[sp.Symbol, sp.Symbol]) -> Any:
    if isinstance(e, tuple):
        return tuple(_put(part, values) for part in e)
    return e.xreplace(values) if isinstance(e, sp.Basic) else e


def merged(symbols: Iterable[sp.Symbol]) -> dict[sp.Symbol, sp.Symbol]:
    """Replacements that leave one symbol per name: the one with the strongest assumption of sign wins."""
    chosen: dict[str, sp.Symbol] = {}
    strength = {s: (bool(s.is_positive), bool(s.is_nonnegative), bool(s.is_real), str(s.assumptions0)) for s in symbols}
    for s in sorted(strength, key=lambda s: strength[s], reverse=True):
        entry = TABLE.get(s.name)
        own = entry is not None and (not entry.local or entry.symbol in strength)
        chosen.setdefault(s.name, entry.symbol if entry is not None and own else s)
    return {s: chosen[s.name] for s in strength if s != chosen[s.name]}


def latex_names() -> dict[sp.Symbol, str]:
    """How the library's symbols print."""
    return {entry.symbol: entry.latex for entry in _ENTRIES}
