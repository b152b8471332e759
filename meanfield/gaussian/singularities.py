r"""What the quadrature needs to know of an arbitrary real function: its kinks and jumps, where it varies fast, how it starts and grows.

A smooth function with a wide strip of analyticity takes the trapezoidal rule; the half-width is found by the mean-value test: on a
circle |z - c| = r the negative Fourier modes of f vanish exactly when f is analytic inside. For every function the real line is cut
into panels on which 20 nodes resolve it, judged by its Chebyshev coefficients (Battles & Trefethen 2004, SIAM J. Sci. Comput. 25).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.growth import places
from meanfield.gaussian.landmarks import features
from meanfield.gaussian.node_rules import CAPACITY, nodes, nodes_of_two
from meanfield.gaussian.oscillations import Tails, product_mean, tails
from meanfield.gaussian.pieces import branch, edges, is_smooth, slope, without_deltas
from meanfield.gaussian.power_sums import QUIET
from meanfield.gaussian.shape_rows import TERMS, WINDOW
from meanfield.gaussian.special import NormalCDF
from meanfield.gaussian.stable import side
from meanfield.symbols import known

__all__ = ["Settled", "Shape", "lost", "mended", "poles", "real_function", "regular", "settled", "shape_of", "standardised"]

x, y = known("x"), known("y")

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

_CENTRES = tuple(i / 2 for i in range(-16, 17))
_WIDEST, _NARROWEST = 8.0, 1e-6
_REACH = 1e20  # the line is cut up to here
_PANELS = 200  # at most so many panels on either side of 0
_SAMPLES = 41  # Chebyshev points of a panel
_RESOLVED = 20  # coefficients that a resolved panel may need
# a harmonic nu under a smooth step of width w and a Gaussian of deviation s is lost: exp(-nu^2 / (2/w^2 + 2/s^2)) = 1e-15
_STEP, _APART = 10.0, 15.0  # nu w, nu s
_NEARBY = 20.0
_SCANNED = 40.0  # roots of kinks are all found up to here
_FEW, _MANY = 12, 100  # roots that are all there are, and most that are split at
_NARROW = 0.05  # what a function does within so much of a point could lie between the points at which a panel looks at it
_SMALLEST = 1e-7  # relative length of the shortest panel
_RATIO, _LEAST = 4.0, 1e-24  # of panels next to a root or a logarithm, each to the one before: Gauss nodes see z^a to 3^-40; the first


@dataclass(frozen=True)
class Shape:
    """A parameter-free function as the quadrature sees it.

    smooth: the trapezoidal rule applies; d: half-width of its strip, else the length of the shortest panel; growth: |f| ~ e^{growth |x|};
    parity: 1 even, -1 odd, 0 neither; void: where f is 0, if a piece of it is; breaks, sharp, jumps: ends of panels, which of them are
    kinks (1) and singularities (2), and heights of jumps there; radius, right, left: one-sided Taylor series about 0 and where they
    converge; analytic: whether the two are one.
    """

    smooth: bool
    d: float
    growth: float
    parity: int
    void: tuple[float, float]
    breaks: tuple[float, ...]
    sharp: tuple[int, ...]
    jumps: tuple[float, ...]
    radius: float
    analytic: bool
    right: tuple[float, ...]
    left: tuple[float, ...]
    noisy: bool = False  # terms of f cancel on a panel near 0, so that it is known to few digits there

    @property
    def kinks(self) -> tuple[float, ...]:
        return tuple(b for b, sharp in zip(self.breaks, self.sharp, strict=True) if sharp)

    def row(self, detail: float = 1.0) -> Floats:
        """The numbers that `quadrature` reads; `detail` > 1 asks for more nodes."""
        head = (self.smooth, self.d, self.growth, detail, self.parity, self.radius, self.analytic)
        return np.array(
            [*head, *self.void, len(self.breaks), *self.breaks, *self.sharp, *self.jumps, *self.right, *self.left], dtype=np.float64
        )


def standardised(f: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(c, g, a) with f(x) = c g(a x), g free of parameters where they are a common scale of x; (c, g, 1) where they are not."""
    c, g = f.as_independent(x, as_Add=False)
    scales = {t.as_independent(x)[0] for t in sp.preorder_traversal(g) if isinstance(t, sp.Mul) and t.as_independent(x)[1] == x}
    scales |= {1 / t for t in g.free_symbols - {x}}
    for a in sorted(scales - {sp.S.One}, key=sp.count_ops):
        if a.is_positive is not True or not a.free_symbols:
            continue
        k, h = sp.factor_terms(g.xreplace({x: x / a})).as_independent(x, as_Add=False)
        if h.free_symbols <= {x}:
            return c * k, h, a
    return c, g, sp.S.One


def regular(f: sp.Expr) -> sp.Expr:
    """The derivative of f away from its jumps."""
    return without_deltas(slope(f))


@cache
def mended(g: sp.Expr) -> sp.Expr:
    """A function that is a quotient of zeros at some points with its Taylor series around there, as (e^x - 1)/x and sin(x - 1)/(x - 1)."""
    if g.free_symbols != {x} or not is_smooth(g):
        return g
    around = []
    for r in places(g):
        if r.is_Rational and not g.xreplace({x: r}).has(sp.S.NaN, sp.S.ComplexInfinity, sp.oo):
            continue
        radius = _radii(g, (float(r),))[0]
        if radius < 0.1:  # a pole, or a branch point
            continue
        near = sp.Rational(min(radius / 8, 0.5)).limit_denominator(64)
        series = _polynomial(_taylor(g.xreplace({x: x + r}), min(radius / 2, 0.93)))
        around.append((series.xreplace({x: x - r}), (x > r - near) & (x < r + near)))
    return sp.Piecewise(*around, (g, True)) if around else g


def _polynomial(c: tuple[float, ...]) -> sp.Expr:
    return sp.horner(sp.Poly([sp.Float(a) for a in reversed(c)], x).as_expr())


@dataclass(frozen=True)
class Settled:
    """A function that oscillates for ever, for wide Gaussians: f near 0 and the mean over a period far out, and likewise (for what the
    square of the first leaves out) 0 near 0 and the variance over a period far out; the lowest and the highest frequency of f and its
    square; and where and how it changes."""

    function: sp.Expr
    variance: sp.Expr
    frequency: float
    fastest: float
    start: sp.Expr
    width: sp.Expr

    def pair(self, f: sp.Expr, v: sp.Expr, near: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        """For inputs u = x + y and v = +-(x - y): a function that varies with x as f(u) and f(v) do, and f(u) f(v) settled in x.

        `near` is that product as a function of x and y where |x| is not large.
        """
        found = tails(f)
        assert found is not None
        left, right = found
        mirrored = v.coeff(x) < 0
        start, end, radius = self.start, self.start + 18 * self.width, sp.Abs(y)
        room = sp.Rational(2**0.5 * WINDOW * lost(self)).limit_denominator(100)  # 2 |y|, y of variance s^2/2
        product, pattern = [], []
        for sign, here, there in ((-1, left, right if mirrored else left), (1, right, left if mirrored else right)):
            beyond = product_mean(here, there, v, sign)
            inside = NormalCDF((start + 9 * self.width + radius - sign * x) / self.width)
            product += [(beyond, sign * x > end + radius), (beyond + (near - beyond) * inside, sign * x > start + radius)]
            weighted = [sp.Rational(7 + k, 11) * c for k, c in enumerate((*here.coefficients, *there.coefficients))]
            pattern.append((sp.Add(*weighted), sign * x > end + room))
        return sp.Piecewise(*pattern, (f, True)), sp.Piecewise(*product, (near, True))


def _reach_of_features(f: sp.Expr, found: tuple[Tails, Tails], slowest: float) -> float | None:
    """beyond which everything but the harmonics themselves is analytic far into the complex plane"""
    radius = max((abs(k) for k in _kinks(f)), default=0.0)
    for sign, tail in zip((-1.0, 1.0), found, strict=True):
        for part in tail.coefficients:
            value = real_function(part)
            ends = _march(value, _size(value), sign * radius, sign * _REACH)
            if abs(ends[-1]) < _REACH:
                return None
            # analytic about two half-lengths around a panel: enough for the complex shift by nu w^2
            radius = max([radius, *(abs(b) for a, b in itertools.pairwise(ends) if abs(b - a) < _STEP**2 / slowest)])
    return radius


@cache
def settled(f: sp.Expr) -> Settled | None:
    """f without its oscillations far out, where it is known how it oscillates; None of any other function."""
    found = tails(f)
    if found is None:
        return None
    slowest = min(t.slowest for t in found)
    radius = _reach_of_features(f, found, slowest)
    if radius is None:
        return None
    width = sp.Rational(_STEP / slowest).limit_denominator(10**6)
    start = sp.Rational(radius).limit_denominator(10**6) + width
    outside, blended = [], []
    for sign, tail in zip((-1, 1), found, strict=True):
        inside, end = NormalCDF((start + 9 * width - sign * x) / width), start + 18 * width
        outside += [(tail.mean, sign * x > end), (tail.mean + (f - tail.mean) * inside, sign * x > start)]
        blended += [(tail.variance, sign * x > end), (tail.variance * (1 - inside**2), sign * x > start)]
    fastest = max(t.fastest for t in found)
    return Settled(sp.Piecewise(*outside, (f, True)), sp.Piecewise(*blended, (0, True)), slowest, fastest, start, width)


def lost(calm: Settled) -> float:
    """The deviation of what two inputs do not share from which on every harmonic of one is lost given the other."""
    return _APART / calm.frequency


@cache
def poles(g: sp.Expr) -> tuple[float, ...]:
    """Where a function without parameters is infinite, not only a quotient of zeros."""
    if g.free_symbols != {x}:
        return ()
    near = {float(r): g.xreplace({x: r + sp.Rational(1, 10**12)}) for r in places(g)}
    return tuple(r for r, value in near.items() if abs(sp.N(value, 30)) > 1e8)


@cache
def shape_of(g: sp.Expr, with_poles: bool = False) -> Shape:
    """The shape of a parameter-free function, without poles or only to be read beside them; ValueError where no rule can be trusted."""
    written = tuple(sorted({*_kinks(g), *(poles(g) if with_poles else ())}))
    # at those that are no kinks g may still have a value of its own: panels end there
    narrow = _narrow(g, written)
    cuts = tuple(sorted({*written, *narrow}))
    pieces = [branch(g, m) for m in _midpoints(cuts)]
    functions = [real_function(piece) for piece in pieces]
    size = max(map(_size, functions))
    ends = (-np.inf, *cuts, np.inf)
    size = max([size, *(_size(f, c) for f, *around in zip(functions, ends, ends[1:], strict=False) for c in around if c in narrow)])
    breaks: list[float] = []
    graded: set[float] = set()
    singular: set[float] = set()
    for f, (low, high) in zip(functions, itertools.pairwise((-np.inf, *cuts, np.inf)), strict=True):
        rising, falling = _graded(f, low, high), _graded(f, high, low)
        singular |= {end for end, ends in ((low, rising), (high, falling)) if ends}
        graded |= {*rising[:-1], *falling[:-1]}
        low, high = (rising or [low])[-1], (falling or [high])[-1]
        breaks += [b for b in _panels(f, size, low, high) if b not in breaks]
    coarse = sorted({*breaks, *singular})
    breaks = sorted({*coarse, *graded})
    endless = len(written) > _FEW
    if endless:
        breaks = [b for b in breaks if written[0] <= b <= written[-1]]
    noisy = _noisy(functions, cuts, breaks, graded | singular, size)
    real = [i for i in range(len(cuts)) if pieces[i] != pieces[i + 1] or cuts[i] in singular]
    kinks, pieces = tuple(cuts[i] for i in real), [pieces[0], *(pieces[i + 1] for i in real)]
    resolved = min(-breaks[0], breaks[-1]) >= 20.0 + (0.0 if endless else max(map(abs, kinks), default=0.0))
    if not resolved and tails(g) is None:
        raise ValueError(f"E[{g}] has no closed form and cannot be resolved by quadrature: it oscillates or varies too fast")
    jumps = {k: _jump(left, right, k) for k, (left, right) in zip(kinks, itertools.pairwise(pieces), strict=True)}
    shape = Shape(
        False,
        float(np.diff(coarse).min()) / 2,
        max(_growth(g, functions[0], -1.0), _growth(g, functions[-1], 1.0)),
        _parity(pieces, kinks),
        _void(pieces, (-np.inf, *kinks, np.inf)),
        tuple(breaks),
        tuple((b in kinks) + (b in kinks and b in singular) for b in breaks),
        tuple(jumps.get(b, 0.0) for b in breaks),
        *_start(pieces, kinks),
        noisy,
    )
    return shape if written else _smooth_or(shape, g, functions[0])


def _narrow(g: sp.Expr, kinks: tuple[float, ...]) -> set[float]:
    """points around what is too narrow for a panel to see that does not end there, kinks apart"""
    if g.free_symbols != {x}:
        return set()
    points = {float(c + k * width) for c, width in features(g) if width < _NARROW for k in (-30, -8, -2, 0, 2, 8, 30)}
    return {c for c in points if all(abs(c - k) > 1e-9 * max(1.0, abs(k)) for k in kinks)}


def _smooth_or(shape: Shape, g: sp.Expr, f: Real) -> Shape:
    """the shape for the trapezoidal rule, where that agrees with the panels from narrow to wide Gaussians"""
    if shape.breaks[-1] < _REACH or -shape.breaks[0] < _REACH:
        return shape
    radii = _radii(g, _CENTRES)
    for d in (min(radii), radii[_CENTRES.index(0.0)]):
        candidate = replace(shape, smooth=True, d=d)
        if d > _NARROWEST and _agree(f, shape, candidate):
            return candidate
    return shape


def _agree(f: Real, trusted: Shape, tried: Shape) -> bool:
    y, w = np.empty(CAPACITY), np.empty(CAPACITY)

    def window(s: float) -> float:
        return WINDOW + 2.0 * trusted.growth * s

    def moments(shape: Shape, mu: float, s: float) -> tuple[float, float, float]:
        count = nodes(shape.row(), mu, s, 0.0, window(s), y, w)
        v = f(y[:count]) if count > 0 else np.array([np.nan])
        return float(w[: len(v)] @ v), float(w[: len(v)] @ v**2), float(w[: len(v)] @ abs(v))

    def mirrored(shape: Shape, s: float) -> tuple[float, float]:
        """E f(u) f(-u), which may be far below E f(u)^2, and its scale"""
        count = nodes_of_two(shape.row(), shape.row(), 0.0, s, 0.0, 0.0, -s, 0.0, window(s), y, w)
        v = f(y[:count]) * f(-y[:count]) if count > 0 else np.array([np.nan])
        return float(w[: len(v)] @ v), float(w[: len(v)] @ abs(v))

    for s in (0.1, 0.3, 1.0, 3.0, 30.0, 1e3, 1e5):
        for mu in (0.0, 0.7 * s, 4.0 * s):
            mean, square, size = moments(trusted, mu, s)
            mean_, square_, _ = moments(tried, mu, s)
            if not (abs(mean_ - mean) <= 1e-12 * size and abs(square_ - square) <= 1e-12 * square):
                return False
        product, scale = mirrored(trusted, s)
        if not abs(mirrored(tried, s)[0] - product) <= 1e-12 * scale:
            return False
    return True


# -- kinks ----------------------------------------------------------------------------------------------------------------------------


def _kinks(f: sp.Expr) -> tuple[float, ...]:
    """where f changes its branch, and where a logarithm or a root in it is singular"""
    inner = {a.args[0] for a in f.atoms(sp.log)} | {a.base for a in f.atoms(sp.Pow) if a.exp.is_number and not a.exp.is_Integer}
    return tuple(sorted(set().union(*(_roots(edge, f) for edge in edges(f)), *(_roots(a, f) for a in inner if a.has(x)))))


def _roots(edge: sp.Expr, f: sp.Expr) -> set[float]:
    """the real roots of an edge"""
    if edge.is_polynomial(x):
        return {float(sp.re(r)) for r in sp.Poly(edge, x).nroots() if abs(sp.im(r)) < 1e-12}
    from scipy.optimize import brentq

    value = real_function(edge)
    outside = np.geomspace(_SCANNED, 1e3, 200)[1:]
    grid = np.concatenate((-outside[::-1], np.linspace(-_SCANNED, _SCANNED, 16001), outside))
    signs = np.sign(value(grid))
    changes = np.flatnonzero(signs[1:] * signs[:-1] < 0)
    roots = {float(brentq(lambda t: float(value(np.array([t]))[0]), grid[i], grid[i + 1], xtol=1e-15)) for i in changes}
    roots |= {float(grid[i]) for i in np.flatnonzero(signs == 0) if signs[i - 1] * signs[(i + 1) % len(signs)] < 0}
    if len(roots) > _FEW:  # without end: f is known between the outermost ones that are not too far to be found
        roots = {r for r in roots if abs(r) < _SCANNED}
    if len(roots) > _MANY:
        raise ValueError(f"E[{f}] has no closed form and cannot be resolved by quadrature: it has a kink at each of many roots of {edge}")
    return roots


def _midpoints(kinks: tuple[float, ...]) -> Iterator[sp.Expr]:
    if not kinks:
        return iter((sp.Float(0.1234),))
    inner = [(a + b) / 2 for a, b in itertools.pairwise(kinks)]
    return iter([sp.Float(m) for m in (kinks[0] - 1.0, *inner, kinks[-1] + 1.0)])


_SIZED = np.concatenate([sign * np.concatenate((np.geomspace(1e-9, 0.1, 40), np.linspace(0.127, 8.0, 32))) for sign in (-1.0, 1.0)])


def _size(f: Real, centre: float = 0.0) -> float:
    """the largest of values near 0, on every scale, or of those next to another centre"""
    return float(np.nanmax(np.abs(f(_SIZED if centre == 0.0 else centre + _SIZED[np.abs(_SIZED) < _NARROW]))))


def _jump(left: sp.Expr, right: sp.Expr, at: float) -> float:
    """f(at+) - f(at-): 0 where that is the rounding of the place or of f"""
    step = 1e-6

    def values(z: float) -> list[sp.Expr]:
        return [sp.N(piece.xreplace({x: sp.Float(z, 30)}), 25) for piece in (left, right)]

    (low, high), (before, after) = values(at), values(at + step)
    moved = 1e-15 * max(1.0, abs(at)) / step * float(abs(before - low) + abs(after - high))
    height = float(high - low)
    return height if abs(height) > 1e-13 * float(abs(high) + abs(low)) + 4.0 * moved else 0.0


# -- panels ---------------------------------------------------------------------------------------------------------------------------


def _density(z: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


#: functions that need no more than numpy
_IN_NUMPY = {
    *("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("Abs", "sign", "Max", "Min", "Heaviside", "Piecewise", "ExprCondPair", "NormalDensity", "expm1"),
}


def _vectorised(g: sp.Expr) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """g over arrays, real or complex"""
    z = sp.Symbol("z")
    heads: dict[str, Any] = {"NormalDensity": _density, "expm1": np.expm1}
    modules: list[Any] = [heads, "numpy"]
    if not {type(f).__name__ for f in g.atoms(sp.Function)} <= _IN_NUMPY:
        from scipy import special  # as long to import as all else takes

        heads |= {"erf": special.erf, "erfc": special.erfc, "NormalCDF": special.ndtr, "log1p": special.log1p}
        modules.append("scipy")
    numeric = sp.lambdify(z, g.xreplace({x: z}), modules)
    return lambda values: numeric(values) + 0 * values


def real_function(piece: sp.Expr) -> Real:
    """an analytic piece on the real line, each side of 0 in its stable form"""
    right, left = (_vectorised(side(piece, sign)) for sign in (1, -1))

    def value(v: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(np.where(v > 0, right(v), left(v)), dtype=np.float64)

    return value


_POINTS = np.cos(np.pi * np.arange(_SAMPLES) / (_SAMPLES - 1))


def _coefficients(values: Floats) -> Floats:
    """moduli of the Chebyshev coefficients of the function with these values at the Chebyshev points"""
    with np.errstate(all="ignore"):
        return np.abs(np.fft.rfft(np.concatenate((values, values[-2:0:-1]))).real) / (len(values) - 1)


def _rounding(here: float) -> float:
    """relative size of what may be rounding: the exponential of a large number is known to fewer digits"""
    return 3e-14 * (1.0 + abs(math.log(here)) / 50.0) if here > 0.0 else 3e-14


def _resolved(f: Real, size: float, a: float, b: float) -> bool:
    """whether 20 nodes are enough on [a, b]: relative to f there, or on a short panel to rounding of what f is near 0"""
    values = f(a + (b - a) * (0.5 + 0.5 * _POINTS))
    if not np.isfinite(values).all():
        return False
    rest = _coefficients(values)[_RESOLVED:].max()
    here = max(np.abs(values).max(), 1e-40 * size)
    moved = 1e-15 * abs(a) / abs(b - a) * float(np.ptp(values))  # by the rounding of the points
    return bool(rest <= _rounding(here) * here + moved or (abs(b - a) <= 0.5 * max(1.0, abs(a)) and rest <= 2e-15 * size))


def _noisy(functions: list[Real], cuts: tuple[float, ...], breaks: list[float], graded: set[float], size: float) -> bool:
    """whether rounding shows in the Chebyshev coefficients on a panel that is not far away, nor graded towards a root or a logarithm"""
    for low, high in itertools.pairwise(breaks):
        if low >= -_NEARBY and high <= _NEARBY and not graded & {low, high}:
            values = functions[bisect.bisect(cuts, (low + high) / 2)](low + (high - low) * (0.5 + 0.5 * _POINTS))
            largest = float(np.abs(values).max())
            if largest > 1e-40 * size and _coefficients(values)[_RESOLVED:].max() > 1e-12 * largest:
                return True
    return False


def _graded(f: Real, start: float, stop: float) -> list[float]:
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


def _panels(f: Real, size: float, low: float, high: float) -> list[float]:
    """ends of panels that resolve f between two kinks, outward from a kink or from 0, as far as panels last"""
    if np.isfinite(low) and np.isfinite(high):
        return _march(f, size, low, high)
    if np.isfinite(low):
        return _march(f, size, low, _REACH)
    if np.isfinite(high):
        return _march(f, size, high, -_REACH)[::-1]
    return [*_march(f, size, 0.0, -_REACH)[:0:-1], *_march(f, size, 0.0, _REACH)]


def _march(f: Real, size: float, start: float, stop: float) -> list[float]:
    """panels from start towards stop: each up to three times the one before, shorter where that is not resolved"""
    direction = 1.0 if stop > start else -1.0
    ends, length = [start], 0.25
    while direction * (stop - ends[-1]) > 0 and len(ends) < _PANELS:
        length = min(3.0 * length, direction * (stop - ends[-1]))
        while not _resolved(f, size, ends[-1], ends[-1] + direction * length):
            length /= 2
            if length < _SMALLEST * max(1.0, abs(ends[-1])):
                return _merged(f, size, ends)
        ends.append(stop if direction * (stop - ends[-1]) <= length else ends[-1] + direction * length)
    return _merged(f, size, ends)


def _merged(f: Real, size: float, ends: list[float]) -> list[float]:
    """neighbouring panels as one where their polynomial is right on both, relative to its size on each"""
    kept = ends[:1]
    for end in ends[1:]:
        kept.append(end)
        while len(kept) > 2 and _joins(f, size, *kept[-3:]):
            del kept[-2]
    return kept


def _joins(f: Real, size: float, a: float, b: float, c: float) -> bool:
    points = a + (c - a) * (0.5 + 0.5 * _POINTS)
    values = f(points)
    if not np.isfinite(values).all():
        return False
    here = max(float(np.abs(values).max()), 1e-40 * size)
    if _coefficients(values)[_RESOLVED:].max() > _rounding(here) * here:
        return False
    fit = np.polynomial.chebyshev.Chebyshev.fit(points, values, _RESOLVED, domain=[min(a, c), max(a, c)])
    for low, high in ((a, b), (b, c)):
        inside = low + (high - low) * (0.5 + 0.5 * _POINTS)
        true = f(inside)
        if np.abs(fit(inside) - true).max() > 1e-12 * max(np.abs(true).max(), 1e-40 * size):
            return False
    return True


def _growth(g: sp.Expr, f: Real, direction: float) -> float:
    """c where |f| ~ e^{c |x|} at that end of the line, apart from powers"""
    at = np.array([20.0, 40.0, 80.0, 160.0, 320.0])
    with np.errstate(all="ignore"):
        logs = np.log(np.abs(f(direction * at)))
        slopes = np.diff(logs) / np.diff(at)
    finite = slopes[np.isfinite(slopes)]
    if (finite.size and finite[-1] < 0.06) or not (finite.size or np.isposinf(logs).any()):
        return 0.0
    if finite.size < 2 or finite[-1] > 1.5 * finite[-2]:
        raise ValueError(f"E[{g}] has no closed form and no quadrature: the function grows faster than exp(c |x|)")
    return float(finite[-1])


# -- the strip of analyticity and the start -------------------------------------------------------------------------------------------


def _radius(f: Callable[[NDArray[Any]], NDArray[Any]], centre: float) -> float:
    """The largest r below _WIDEST for which f is analytic in |z - centre| < r."""
    count = 256
    circle = np.exp(2j * np.pi * (np.arange(count) + 0.37) / count)
    both = np.concatenate((circle, circle[:: count // 8]))

    def analytic(r: float) -> bool | None:
        with np.errstate(all="ignore"):
            values = f(centre + np.where(np.arange(len(both)) < count, r, _NARROWEST / 2) * both)
            values, inner = values[:count], values[count:]
            modes = np.abs(np.fft.fft(values)) / count
            size, apart = np.abs(values).max(), abs(values.mean() - inner.mean())
        if not np.isfinite(values).all():
            return None
        # what is narrow against r, as tanh(10^5 x)^2, shows nothing on the circle but is not its mean inside
        same = not np.isfinite(inner).all() or apart <= 1e-2 * max(size, np.abs(inner).max())
        return bool(same and modes[count // 2 + count // 4 :].max() <= 1e-9 * size)

    low, high = _NARROWEST / 2, _WIDEST
    if analytic(high):
        return high
    for _ in range(30):
        middle = float(np.sqrt(low * high))
        verdict = analytic(middle)
        if verdict or (verdict is None and middle < 1):
            low = middle
        else:
            high = middle
    return low


def _radii(g: sp.Expr, centres: tuple[float, ...]) -> list[float]:
    """how far g is analytic around each centre"""
    if x not in g.free_symbols:
        return [_WIDEST for _ in centres]
    f = _vectorised(g)
    return [_radius(f, c) for c in centres]


def _parity(pieces: list[sp.Expr], kinks: tuple[float, ...]) -> int:
    if any(abs(a + b) > 1e-14 * abs(a) for a, b in zip(kinks, reversed(kinks), strict=True)):
        return 0
    mirrored = [piece.xreplace({x: -x}) for piece in reversed(pieces)]
    for parity in (1, -1):
        if all(sp.expand(a - parity * b) == 0 for a, b in zip(pieces, mirrored, strict=True)):
            return parity
    return 0


def _void(pieces: list[sp.Expr], cuts: tuple[float, ...]) -> tuple[float, float]:
    """the widest interval on which f is 0; an empty one if there is none"""
    voids = [ends for piece, ends in zip(pieces, itertools.pairwise(cuts), strict=True) if piece == 0]
    return max(voids, key=lambda ends: ends[1] - ends[0], default=(np.inf, -np.inf))


def _start(pieces: list[sp.Expr], kinks: tuple[float, ...]) -> tuple[float, bool, tuple[float, ...], tuple[float, ...]]:
    """where the Taylor series on both sides of 0 hold, whether they are one, and their coefficients"""
    below = sum(k < 0 for k in kinks)
    left, right = pieces[below], pieces[below + (0.0 in kinks)]
    nothing = (0.0,) * TERMS
    radius = min([_own_radius(piece) for piece in {left, right}] + [abs(k) for k in kinks if k != 0])
    if radius <= 1e-3:
        return 0.0, False, nothing, nothing
    try:
        forward = _taylor(right, min(radius / 2, 1.0), 2 * TERMS)
        backward = forward if left == right else _taylor(left, min(radius / 2, 1.0), 2 * TERMS)
    except (ValueError, ZeroDivisionError, TypeError):
        return 0.0, False, nothing, nothing
    radius = min([radius] + [_summed(c) / QUIET for c in (forward, backward)])
    first, second = (c[:TERMS] for c in (forward, backward))
    return radius, first == second, first, second


def _summed(c: tuple[float, ...]) -> float:
    """the deviation up to which the terms of a Taylor series that are not kept are rounding, next to its first term but the constant"""
    weights = [0.0 if a == 0.0 else math.log(abs(a)) for a in c]
    first = next((n for n, a in enumerate(c) if n > 0 and a != 0.0), len(c))
    left = [n for n in range(TERMS, len(c)) if c[n] != 0.0]
    if first >= TERMS or not left:
        return math.inf
    # E |z|^(n + first) beside E |z|^(2 first): what a term weighs in a product with the first one
    moments = {n: math.lgamma((n + first + 1) / 2) + 0.5 * (n + first) * math.log(2.0) for n in (first, *left)}
    room = -37.0 - math.log(len(left))
    return math.exp(min((room + moments[first] - moments[n] + weights[first] - weights[n]) / (n - first) for n in left))


def _own_radius(piece: sp.Expr) -> float:
    """how far a piece is analytic around 0; where float64 finds nothing, terms may cancel: again in more digits"""
    radius = _radii(piece, (0.0,))[0]
    if radius > 1e-3 or x not in piece.free_symbols:
        return radius
    f = sp.lambdify(x, piece, "mpmath")

    def precise(z: NDArray[Any]) -> NDArray[Any]:
        """scaled, so that only the ratio of values is seen"""
        with mp.workdps(45):
            try:
                values = [mp.mpmathify(f(mp.mpmathify(complex(t)))) for t in z]
            except (ValueError, ZeroDivisionError, TypeError):
                return np.full(len(z), np.nan)
            size = max(map(abs, values)) or mp.mpf(1)
            return np.array([complex(v / size) for v in values])

    return _radius(precise, 0.0)


def _taylor(piece: sp.Expr, r: float, terms: int = TERMS) -> tuple[float, ...]:
    """Taylor coefficients at 0 by Cauchy's integral on |z| = r, of which half is enough of a real function, in 45 digits and sums of
    whole numbers; what is rounding there is zero"""
    f = sp.lambdify(x, piece, "mpmath")
    count, bits = 128, 150
    with mp.workdps(45):
        roots = [mp.expjpi(mp.mpf(2 * i) / count) for i in range(count)]
        values = [mp.mpmathify(f(r * root)) for root in roots[: count // 2 + 1]]
        size = max(abs(v) for v in values)
        if not size or not mp.isfinite(size):
            return (float(size),) * terms
        unit = mp.ldexp(1, bits)
        around = [(int(mp.nint(root.real * unit)), int(mp.nint(root.imag * unit))) for root in roots]
        whole = [(int(mp.nint(mp.re(v) / size * unit)), int(mp.nint(mp.im(v) / size * unit))) for v in values]
        twice = [(a, b) if i in (0, count // 2) else (2 * a, 2 * b) for i, (a, b) in enumerate(whole)]
        out = []
        for n in range(terms):
            turned = (around[i * n % count] for i in range(len(twice)))
            c = mp.ldexp(sum(a * cos + b * sin for (a, b), (cos, sin) in zip(twice, turned, strict=True)), -2 * bits) * size / count
            out.append(0.0 if abs(c) < size * mp.mpf(10) ** -30 else float(c / mp.mpf(r) ** n))
    return tuple(out)
