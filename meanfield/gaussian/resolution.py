"""Where a function of a real variable must be cut for 20 nodes to resolve every panel, judged by its Chebyshev coefficients."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.printing.numpy import NumPyPrinter, SciPyPrinter

from meanfield.gaussian.stable import side
from meanfield.symbols import known

__all__ = [
    "REACH",
    "Real",
    "graded_ends",
    "march",
    "on_both_sides",
    "panel_ends",
    "real_function",
    "resolves",
    "rounding_shows",
    "vectorised",
]

x = known("x")

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

REACH = 1e20  # the line is cut up to here
_FARTHEST = 1e153  # and up to here where f goes on as it is: a hundred times the square of that is a double
_BEYOND = np.geomspace(REACH, _FARTHEST, 400)
_PANELS = 500  # at most so many panels on either side of 0
_SAMPLES = 41  # Chebyshev points of a panel
_RESOLVED = 20  # coefficients that a resolved panel may need
_NEARBY = 20.0
_SMALLEST = 1e-7  # relative length of the shortest panel
_PARTS = 128  # of a panel on which what is left over may be rounding, which stays on some of them
_AT_ONCE = 16  # panels that are looked at together, where each may be three times the one before
_RATIO, _LEAST = 4.0, 1e-24  # of panels next to a root or a logarithm, each to the one before: Gauss nodes see z^a to 3^-40; the first


def _density(z: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


def _log1p(z: NDArray[Any]) -> NDArray[Any]:
    """numpy's of a complex number has no digits next to 0"""
    if np.isrealobj(z):
        return np.asarray(np.log1p(z))
    return np.asarray(0.5 * np.log1p(z.real * (z.real + 2.0) + z.imag**2) + 1j * np.arctan2(z.imag, 1.0 + z.real))


#: functions that need no more than numpy
_IN_NUMPY = {
    *("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("Abs", "sign", "Max", "Min", "Heaviside", "Piecewise", "ExprCondPair", "NormalDensity", "expm1", "log1p"),
}


#: what is imported of numpy already: of lambdify's "numpy" numpy.testing and its like would be a part, long to import
_NUMPY = {name: value for name, value in vars(np).items() if not name.startswith("_")}


@lru_cache(maxsize=512)
def vectorised(g: sp.Expr, variables: tuple[sp.Symbol, ...] = (x,)) -> Callable[..., NDArray[Any]]:
    """g over arrays, real or complex"""
    symbols, printer = sp.symbols(f"z:{len(variables)}", real=True), NumPyPrinter  # as x: of complex ones sympy asks for long
    heads: dict[str, Any] = {"NormalDensity": _density, "expm1": np.expm1, "log1p": _log1p}
    if not {type(f).__name__ for f in g.atoms(sp.Function)} <= _IN_NUMPY:
        from scipy import special  # as long to import as all else takes

        heads |= {"erf": special.erf, "erfc": special.erfc, "ScaledErfc": special.erfcx, "NormalCDF": special.ndtr}
        printer = SciPyPrinter
    settings = {"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True, "user_functions": {k: k for k in heads}}
    long = {n: sp.Float(n, 17) for n in g.atoms(sp.Integer) if abs(n) >= 2**63}  # whose roots numpy does not take
    put = {**dict(zip(variables, symbols, strict=True)), **long}
    numeric = sp.lambdify(symbols, g.xreplace(put), [heads, _NUMPY], printer=printer(settings), cse=True)
    return lambda first, *others: numeric(first, *others) + 0 * sum(others, first)


def real_function(piece: sp.Expr) -> Real:
    """an analytic piece on the real line, each side of 0 in its stable form"""
    return on_both_sides(*(vectorised(side(piece, sign)) for sign in (1, -1)))


def on_both_sides(right: Real, left: Real) -> Real:
    """A function of x > 0 and one of x < 0 as one."""

    def value(v: Floats) -> Floats:
        with np.errstate(all="ignore"):
            if right is left:
                return np.asarray(right(v), dtype=np.float64)
            beyond = v > 0
            if beyond.all() or not beyond.any():
                return np.asarray((right if beyond.any() else left)(v), dtype=np.float64)
            out = np.empty(v.shape)
            out[beyond], out[~beyond] = right(v[beyond]), left(v[~beyond])
            return out

    return value


_POINTS = np.cos(np.pi * np.arange(_SAMPLES) / (_SAMPLES - 1))
#: from values at these points to the polynomial that is nearest to them
_TO_FIT = np.linalg.pinv(np.polynomial.chebyshev.chebvander(_POINTS, _RESOLVED))


def _coefficients(values: Floats) -> Floats:
    """moduli of the Chebyshev coefficients of functions with these values at the Chebyshev points, along the last axis"""
    with np.errstate(all="ignore"):
        coefficients = np.fft.rfft(np.concatenate((values, values[..., -2:0:-1]), axis=-1)).real / (values.shape[-1] - 1)
    return np.asarray(np.abs(coefficients))


def _rounding(here: Floats) -> Floats:
    """relative size of what may be rounding: the exponential of a large number is known to fewer digits"""
    return 3e-14 * (1.0 + np.abs(np.log(np.where(here > 0.0, here, 1.0))) / 50.0)


def _values(f: Real, a: float, b: float) -> Floats:
    """f at the Chebyshev points of [a, b], at an end where it is 0/0 just inside of it"""
    return np.asarray(_rows(f, np.array([a]), np.array([b]))[0])


def _rows(f: Real, a: Floats, b: Floats) -> Floats:
    """the same of several intervals, a row for each"""
    points = a[:, None] + (b - a)[:, None] * (0.5 + 0.5 * _POINTS)
    values = f(points.ravel()).reshape(points.shape)
    for k in np.flatnonzero(np.isnan(values[:, [0, -1]]).any(axis=1)).tolist():
        inward = 1e-15 * max(abs(a[k]), abs(b[k])) * math.copysign(1.0, b[k] - a[k])
        values[k, [0, -1]] = f(points[k, [0, -1]] + [-inward, inward])
    return values


def resolves(f: Real, size: float, a: float, b: float) -> bool:
    """whether 20 nodes are enough on [a, b]: relative to f there, or on a short panel to rounding of what f is near 0"""
    rest, rounding = (float(one[0]) for one in _left_over(f, size, np.array([a]), np.array([b])))
    if rest <= rounding or not abs(b - a) <= 0.5 * max(1.0, abs(a)) or not rest <= 2e-15 * size:
        return rest <= rounding
    ends = np.linspace(a, b, _PARTS + 1)
    less, least = _left_over(f, size, ends[:-1], ends[1:])
    shown = np.flatnonzero(less > least)
    # nowhere: what is left over is a wave that is as small as rounding
    return bool(shown.size) and math.isfinite(less[shown[0]])


def _left_over(f: Real, size: float, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """what 20 coefficients leave of f on each [a, b], and what rounding may make of that"""
    values = _rows(f, a, b)
    finite = np.asarray(np.isfinite(values).all(axis=1))
    values = np.where(finite[:, None], values, 0.0)
    here = np.maximum(np.abs(values).max(axis=1), 1e-40 * size)
    moved = 1e-15 * np.abs(a) / np.abs(b - a) * np.ptp(values, axis=1)  # by the rounding of the points
    rounding = _rounding(here) * here + moved
    rest = _coefficients(values)[:, _RESOLVED:].max(axis=1)
    return np.where(finite, rest, math.inf), np.where(finite, rounding, 0.0)


def rounding_shows(functions: list[Real], cuts: tuple[float, ...], breaks: list[float], graded: set[float], size: float) -> bool:
    """whether rounding shows in the Chebyshev coefficients on a panel that is not far away, nor graded towards a root or a logarithm"""
    for low, high in itertools.pairwise(breaks):
        if low >= -_NEARBY and high <= _NEARBY and not graded & {low, high}:
            values = functions[bisect.bisect(cuts, (low + high) / 2)](low + (high - low) * (0.5 + 0.5 * _POINTS))
            largest, tail = float(np.abs(values).max()), _coefficients(values)[-12:]
            level = tail[6:].max()  # rounding is level, what is not resolved still falls
            if largest > 1e-40 * size and level > max(1e-12 * largest, 0.1 * tail[:6].max()):
                return True
    return False


def graded_ends(f: Real, start: float, stop: float) -> list[float]:
    """ends of panels from next to a point at which f, like a root or a logarithm, is singular on that side; none where it is not"""
    if not np.isfinite(start):
        return []
    direction = 1.0 if stop > start else -1.0
    longest = min(0.25, abs(stop - start) / 3)

    def relative(near: float, far: float, centred: bool, tolerance: float) -> bool:
        values = f(start + direction * (near + (far - near) * (0.5 + 0.5 * _POINTS)))
        if not np.isfinite(values).all():
            return False
        rounding = 1e-15 * (float(np.abs(values).max()) + abs(start) / far * float(np.ptp(values)))
        if centred:
            values = values - values[-1]
        return bool(_coefficients(values)[_RESOLVED:].max() <= tolerance * float(np.abs(values).max()) + rounding)

    if any(relative(1e-9 * h, h, True, 3e-14) for h in (longest * 2.0**-k for k in (0, 6, 12, 18))):
        return []
    while not all(relative(longest * _RATIO**-k, longest * _RATIO ** (1 - k), False, 1e-8) for k in range(1, 5)):
        longest /= 2
        if longest < _SMALLEST:
            return []
    least = max(_LEAST, 1e-13 * abs(start))  # nodes that round to the point itself would be no nodes
    count = math.ceil(math.log(longest / least) / math.log(_RATIO))
    return [start + direction * longest * _RATIO**-k for k in range(count, -1, -1)]


def panel_ends(f: Real, size: float, low: float, high: float) -> list[float]:
    """ends of panels that resolve f between two kinks, outward from a kink or from 0, as far as panels last"""
    if np.isfinite(low) and np.isfinite(high):
        return march(f, size, low, high)
    if np.isfinite(low):
        return _onward(f, size, march(f, size, low, REACH))
    if np.isfinite(high):
        return _onward(f, size, march(f, size, high, -REACH))[::-1]
    return [*_onward(f, size, march(f, size, 0.0, -REACH))[:0:-1], *_onward(f, size, march(f, size, 0.0, REACH))]


def _onward(f: Real, size: float, ends: list[float]) -> list[float]:
    """as far as squares of numbers, and f, are doubles: one more panel where f is a power of x up to x^4 from the last end on, or so small
    that all of it counts for nothing; else those that resolve f, as a logarithm or a root"""
    if abs(ends[-1]) != REACH:
        return ends
    far = math.copysign(1.0, ends[-1]) * _BEYOND
    with np.errstate(all="ignore"):
        values = np.asarray(f(far))
        count = int(np.append(np.isfinite(values), False).argmin())
        far, values = far[:count], values[:count]
        if count < 2:
            return ends
        powers = values / far ** np.arange(5.0)[:, None]
        still = (np.ptp(powers, axis=1) <= 1e-14 * np.abs(powers).max(axis=1)).any()
        nothing = (np.abs(values * far) <= 1e-19 * size).all()
    last = float(far[-1])
    return [*ends, *([last] if still or nothing else march(f, size, ends[-1], last, 2.0 * REACH)[1:])]


def march(f: Real, size: float, start: float, stop: float, length: float = 0.75) -> list[float]:
    """panels from start towards stop, the first of that length, and each up to three times the one before, shorter where that is not
    resolved"""
    ends, length, some = [start], length / 3.0, 1
    while ends[-1] != stop and len(ends) < _PANELS:
        plan = list(itertools.islice(_tripled(ends[-1], length, stop), min(some, _PANELS - len(ends))))
        last, lengths = zip(*plan, strict=True)
        rest, rounding = _left_over(f, size, np.array([ends[-1], *last[:-1]]), np.array(last))
        count = int(np.append(rest > rounding, True).argmax())  # up to the first that is not resolved
        some = min(2 * some, _AT_ONCE) if count == len(plan) else 1
        if not count:
            length = _shortened(f, size, ends[-1], *plan[0])
            if length == 0.0:
                break
            ends.append(last[0] if length == lengths[0] else ends[-1] + math.copysign(length, stop - start))
        else:
            ends += last[:count]
            length = lengths[count - 1]
    return _merged(f, size, ends)


def _tripled(end: float, length: float, stop: float) -> Iterator[tuple[float, float]]:
    """the next ends towards stop, and lengths, where each panel is three times as long as the one before"""
    while end != stop:
        length = min(3.0 * length, abs(stop - end))
        end = stop if abs(stop - end) <= length else end + math.copysign(length, stop - end)
        yield end, length


def _shortened(f: Real, size: float, start: float, end: float, length: float) -> float:
    """the length, or the half of it, its half and so on, up to which f is resolved; 0 where there is none"""
    while not resolves(f, size, start, end):
        length /= 2
        if length < _SMALLEST * max(1.0, abs(start)):
            return 0.0
        end = start + math.copysign(length, end - start)
    return length


def _merged(f: Real, size: float, ends: list[float]) -> list[float]:
    """neighbouring panels as one where their polynomial is right on both, relative to its size on each"""
    unlike = _unlike(f, size, ends)
    kept = ends[:1]
    for end in ends[1:]:
        kept.append(end)
        while len(kept) > 2 and (kept[-3], end) not in unlike and _joins(f, size, *kept[-3:]):
            del kept[-2]
    return kept


def _unlike(f: Real, size: float, ends: list[float]) -> set[tuple[float, float]]:
    """the ends of two neighbouring panels on which no one polynomial is right, looked at together: most are none"""
    spans = list(zip(ends, ends[2:], strict=False))
    if not spans:
        return set()
    values = _rows(f, *np.array(spans).T)
    return {span for span, one in zip(spans, values, strict=True) if not _is_polynomial(one, size)}


def _is_polynomial(values: Floats, size: float) -> bool:
    """whether 20 coefficients are enough for a function of those values, but for rounding"""
    if not np.isfinite(values).all():
        return False
    here = np.maximum(np.abs(values).max(), 1e-40 * size)
    return bool(_coefficients(values)[_RESOLVED:].max() <= _rounding(here) * here)


def _joins(f: Real, size: float, a: float, b: float, c: float) -> bool:
    values = _values(f, a, c)
    if not _is_polynomial(values, size):
        return False
    low, high = np.array([[a], [b]]), np.array([[b], [c]])
    inside, true = low + (high - low) * (0.5 + 0.5 * _POINTS), _rows(f, low[:, 0], high[:, 0])
    fitted = np.polynomial.chebyshev.chebval(2.0 * (inside - a) / (c - a) - 1.0, _TO_FIT @ values)
    allowed = 1e-12 * np.maximum(np.abs(true).max(axis=1), 1e-40 * size)
    return bool((np.abs(fitted - true).max(axis=1) <= allowed).all())
