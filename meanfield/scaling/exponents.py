r"""The local exponent d ln RMS/d ln \lambda of a block that is not homogeneous in its weights, from exact moments."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.blocks.algebra import Block
from meanfield.blocks.laws import Signal
from meanfield.blocks.letters import heeded
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.numeric.abnormal import FAINT
from meanfield.numeric.evaluation import evaluate, summand
from meanfield.scaling.degrees import degrees_in, gained_law
from meanfield.scaling.gained import OUTPUT, Gained, is_weight_scale
from meanfield.symbols import known

__all__ = ["local_exponent"]

SMALLEST: Final = 5e-324
#: change of an exponent up to which what underflows does not count
SETTLED: Final = 1e-12


def local_exponent(
    block: Block,
    lam: Any = 1.0,
    *,
    part: str = "full",
    q: Any = 1.0,
    p: Any = 0.0,
    weights: Collection[str] | None = None,
    **parameters: Any,
) -> Any:
    r"""The local exponent d ln RMS/d ln \lambda of a block's output at a gain \lambda on all its weights, from the exact moments.

    \lambda q'(\lambda)/(2 q(\lambda)): derivatives of Gaussian moments are Gaussian moments again. It is `degree(block)` at every \lambda
    where the block is homogeneous.

    Parameters
    ----------
    block : Block
    lam : number or array > 0
    q, p : number or array
        The moments of the input: by default independent tokens of unit variance.
    part, weights
        As for `degree`.
    **parameters : number or array
        The parameters of the block. Weight scales that are left out are 1; so is what the exponent does not depend on.

    Returns
    -------
    float, or an array

    Raises
    ------
    TypeError, ValueError
        `block` is no block or has no weight scales; lam <= 0; missing or unknown parameters.

    Examples
    --------
    >>> import meanfield as mf
    >>> round(mf.scaling.local_exponent(mf.MLP(mf.silu), lam=0.01), 4), round(mf.scaling.local_exponent(mf.MLP(mf.silu)), 4)
    (2.0001, 2.1726)
    """
    start = arguments.number_array(p, "p")
    signal = None if start.any() else Signal(known("q"), S.Zero, known("q"))  # moments of independent tokens factorise
    system = gained_law(block, part, weights, signal)
    names = {s.name for s in system.parameters} - {"q", "p"}
    parameters = heeded(block, system.parameters, parameters)
    values = dict.fromkeys(filter(is_weight_scale, names), 1.0) | parameters
    # what multiplies the output by a power of its own does not move the exponent
    values |= {s.name: 1.0 for s in system.parameters if s.name in names - set(values) and OUTPUT in degrees_in(system, (s,))[0]}
    if missing := sorted(names - set(values)):
        raise ValueError(f"missing parameters: {', '.join(missing)}. This block has the parameters: {', '.join(sorted(names))}")
    if unknown := sorted(set(parameters) - names):
        raise ValueError(f"unknown parameters: {', '.join(unknown)}. This block has the parameters: {', '.join(sorted(names)) or 'none'}")
    at = arguments.number_array(lam, "lam")
    if (at <= 0).any():
        raise ValueError(f"lam = {arguments.shown(at[at <= 0].flat[0])}: a gain must be positive")
    given = {"q": arguments.variance_array(q, "q"), "p": start, **values}
    return _log_derivative(system, at, given)


def _log_derivative(system: Gained, lam: Any, given: dict[str, Any]) -> Any:
    """d ln q'/d ln lam / 2; terms that underflow are left out where they do not count, whatever their size"""
    exponent, underflow = _chained(system, lam, given, (SMALLEST, FAINT))
    if underflow:
        other, _ = _chained(system, lam, given, (FAINT, SMALLEST))
        counts = ~(np.abs(exponent - other) <= SETTLED * np.maximum(1, np.abs(exponent)))
        if counts.any():
            worst = np.broadcast_to(lam, np.shape(counts))[counts].flat[0]
            raise OverflowError(f"lam = {worst:g}: moments that the exponent depends on are no normal doubles")
    return exponent


def _chained(system: Gained, lam: Any, given: dict[str, Any], faint: tuple[float, float]) -> tuple[Any, bool]:
    """the exponent, carried along the named quantities by the chain rule, with these in place of values and rates that underflow, and
    whether any do"""
    underflow = False
    values = given | {g.name: lam for g in system.gains}
    rates: dict[sp.Symbol, Any] = dict.fromkeys(system.gains, lam)
    for symbol, formula in system.chain:
        moving = [s for s in formula.free_symbols if s in rates]
        speeds = {s: sp.Dummy(f"d_{s.name}", real=True) for s in moving}
        rate = sp.Add(*[formula.diff(s) * speeds[s] for s in moving])
        if rate.has(sp.Derivative):
            raise ValueError(f"block: {symbol} = {formula} has no rule for its derivative")
        if formula.has(Exchangeable) and (given["p"] < 0).any():
            raise ValueError(f"p = {given['p']}: the moments of several tokens are continued to p < 0, where they have no local exponent")
        known_values = values | {speeds[s].name: rates[s] for s in moving}
        needed = [(e, {s.name: known_values[s.name] for s in e.free_symbols}) for e in (formula, rate)]
        if symbol == OUTPUT:
            value, speed = (evaluate(e, **numbers) for e, numbers in needed)
            break
        found = (summand(e, tiny, numbers) for (e, numbers), tiny in zip(needed, faint, strict=True))
        (values[symbol.name], one), (rates[symbol], two) = found
        underflow |= one or two
    return speed / (2 * value), underflow
