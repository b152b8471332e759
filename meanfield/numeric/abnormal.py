"""Values that are no normal doubles or not to be had: refused where there is nothing else, else marked, with a warning that says so."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

__all__ = ["FAINT", "LARGEST", "abnormal", "infinite", "marked", "refused", "stood_for"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: the smallest normal double: below it digits are lost
FAINT = float(np.finfo(np.float64).tiny)
LARGEST = float(np.finfo(np.float64).max)
_ROUNDING = 1 + 1e-9
#: what stands for a value that is smaller is no value of it
_STANDS = 1e-319


def _large(v: Floats) -> Bools:
    return np.isinf(v)


def _faint(v: Floats) -> Bools:
    return np.asarray((v != 0) & (_ROUNDING * np.abs(v) < FAINT))


def abnormal(v: Floats) -> Bools:
    """Which values are no normal doubles: too large, too small, or none at all."""
    return np.asarray(np.isnan(v) | _large(v) | _faint(v))


def infinite(v: Floats, bound: Floats) -> Bools:
    """Which values are infinite and known to be: no double is too large for a bound of 0."""
    return np.asarray(np.isinf(v) & (bound == 0))


def _sentences(v: Floats, reasons: list[ArithmeticError]) -> list[str]:
    """what is wrong with values, what is not to be had before what is only too large or too small"""
    missing, beyond = np.isnan(v), abnormal(v) & ~np.isnan(v)
    found = []
    if missing.any():
        why = (
            str(reasons[0])
            if reasons
            else "the integrand varies too fast for such a variance, or u and v are too near each other next to a root, a logarithm or a "
            "jump. digits= may take very long there"
        )
        found.append(f"{int(missing.sum())} of {v.size} values cannot be resolved by quadrature in float64: {why}")
    if beyond.any():
        first = _shown(v[beyond][0])
        found.append(f"{int(beyond.sum())} of {v.size} values are no normal double (the first is {first}): pass log=True or digits=")
    return found


def _shown(value: float) -> str:
    """a value that is no normal double, or on which side it is"""
    if abs(value) < _STANDS:
        return f"smaller than {FAINT:.2g}"
    return f"larger than {LARGEST:.2g}" if np.isinf(value) else f"{value:g}"


def refused(v: Floats, reasons: list[ArithmeticError]) -> None:
    """Raises what is wrong with any of the values, the reason that was met on the way before all others."""
    missing = np.isnan(v).any()
    if missing and reasons:
        raise reasons[0]
    for sentence in _sentences(v, reasons):
        raise ArithmeticError(sentence) if missing else OverflowError(sentence)


def marked(v: Floats, bound: Floats, reasons: list[ArithmeticError]) -> tuple[Floats, Floats]:
    """Values and bounds with inf, 0 or nan for what is too large, too small or not to be had, and a warning that says which there are.

    Where that is so of all of them, they are refused. Those that are infinite are left as they are.
    """
    bad = abnormal(v) & ~infinite(v, bound)
    if not bad.any():
        return v, bound
    if bad.all():
        refused(v, reasons)
    told = "; ".join(_sentences(np.where(infinite(v, bound), 0.0, v), reasons))
    warnings.warn(f"inf, 0 or nan stand for values that are no numbers: {told}", RuntimeWarning, stacklevel=3)
    return stood_for(v), np.where(bad, np.where(_faint(v), FAINT, np.inf), bound)


def stood_for(v: Floats) -> Floats:
    """The same with inf for what is too large and 0 for what is too small."""
    return np.where(_large(v), np.copysign(np.inf, v), np.where(_faint(v), 0.0, v))
