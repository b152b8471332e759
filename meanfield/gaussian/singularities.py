r"""What the quadrature needs to know of an arbitrary real function: its kinks, and how far its complex singularities stay away.

The half-width of the strip of analyticity is found by the mean-value test: on a circle |z - c| = r the negative Fourier modes of f
vanish exactly when f is analytic inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import sympy as sp

from meanfield.gaussian import quadrature
from meanfield.symbols import known

__all__ = ["Shape", "shape_of", "standardised"]

x = known("x")

_CENTRES = tuple(i / 2 for i in range(-16, 17))
_WIDEST, _NARROWEST = 8.0, 1e-6


@dataclass(frozen=True)
class Shape:
    """Kinks on the real line, and the scale d on which the pieces vary."""

    kinks: tuple[float, ...]
    d: float


def standardised(f: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(c, g, a) with f(x) = c g(a x) and g free of parameters; ValueError where the parameters are not a common scale."""
    if f.free_symbols <= {x}:
        return *f.as_independent(x, as_Add=False), sp.S.One
    scales = {t.as_independent(x)[0] for t in sp.preorder_traversal(f) if isinstance(t, sp.Mul) and t.as_independent(x)[1] == x}
    for a in sorted(scales - {sp.S.One}, key=sp.count_ops):
        if a.is_positive is not True:
            continue
        c, g = sp.factor_terms(sp.powdenest(f.xreplace({x: x / a}), force=True)).as_independent(x, as_Add=False)
        if g.free_symbols <= {x}:
            return c, g, a
    names = ", ".join(sorted(s.name for s in f.free_symbols - {x}))
    raise ValueError(f"E[{f}] has no closed form and {names} does not enter as a common scale of x; bind it to a number")


def _kinks(f: sp.Expr) -> tuple[float, ...]:
    edges: list[sp.Expr] = []
    for t in f.atoms(sp.Max, sp.Min):
        edges += [a - b for i, a in enumerate(t.args) for b in t.args[i + 1 :]]
    edges += [t.args[0] for t in f.atoms(sp.Abs, sp.sign, sp.Heaviside)]
    for t in f.atoms(sp.Piecewise):
        edges += [r.lhs - r.rhs for _, condition in t.args for r in sp.sympify(condition).atoms(sp.Rel)]
    found: set[float] = set()
    for edge in edges:
        folded = sp.piecewise_fold(edge.rewrite(sp.Piecewise)) if edge.has(sp.Max, sp.Min, sp.Abs) else edge
        for branch in [value for value, _ in folded.args] if isinstance(folded, sp.Piecewise) else [folded]:
            if not branch.has(x):
                continue
            if not branch.is_polynomial(x):
                raise ValueError(f"the kinks of {f} lie at the roots of {branch}, which is not a polynomial")
            found |= {float(sp.re(r)) for r in sp.Poly(branch, x).nroots() if abs(sp.im(r)) < 1e-12}
    return tuple(sorted(found))


def _radius(f: Callable[[np.ndarray], np.ndarray], centre: float) -> float:
    """The largest r below _WIDEST for which f is analytic in |z - centre| < r."""
    count = 256
    circle = np.exp(2j * np.pi * (np.arange(count) + 0.37) / count)

    def analytic(r: float) -> bool | None:
        with np.errstate(all="ignore"):
            values = f(centre + r * circle)
        if not np.isfinite(values).all():
            return None
        modes = np.abs(np.fft.fft(values)) / count
        return bool(modes[count // 2 + count // 4 :].max() <= 1e-9 * np.abs(values).max())

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


@cache
def shape_of(g: sp.Expr) -> Shape:
    """Kinks and scale of a parameter-free function, checked: ValueError where the rule for that shape would miss something."""
    kinks = _kinks(g)
    if kinks:
        ends = (kinks[0] - 12.0, *kinks, kinks[-1] + 12.0)
        scales = [3.0]
        for low, high in itertools.pairwise(ends):
            inside = [c for c in _CENTRES if low <= c <= high]
            scales.append(min(_radii(_piece(g, sp.Float((low + high) / 2)), (low, high, *inside))))
        candidates = [Shape(kinks, min(scales))]
    else:
        radii = _radii(g, _CENTRES)
        candidates = [Shape((), min(radii))]
        if min(radii) < 0.9 * radii[_CENTRES.index(0.0)]:  # a feature away from 0: panels graded towards it
            features = tuple(c for i, c in enumerate(_CENTRES) if radii[i] == min(radii[max(0, i - 1) : i + 2]) and radii[i] < _WIDEST / 2)
            candidates = [Shape(features, min(radii))]
    for shape in candidates:
        if shape.d > _NARROWEST and _resolves(g, shape):
            return shape
    raise ValueError(
        f"E[{g}] has no closed form and cannot be trusted to quadrature: the function is singular on or next to the real axis, "
        "oscillates too fast, or varies far from x = 0"
    )


def _resolves(g: sp.Expr, shape: Shape) -> bool:
    """whether the rule agrees with a dense one over variances from 1e-2 to 1e2, and roughly, as a dense one can, up to 1e6"""
    f = _vectorised(g)
    jumps = g.has(sp.Heaviside, sp.sign)
    y, w = np.empty(quadrature.CAPACITY), np.empty(quadrature.CAPACITY)
    for s, tolerance in ((0.1, 1e-7), (1.0, 1e-7), (10.0, 1e-7), (100.0, 1e-4), (1000.0, 1e-4)):
        if shape.kinks:
            count = quadrature.kinked_rule(0.0, s, np.array(shape.kinks), shape.d, y, w)
        else:
            count = quadrature.smooth_rule(0.0, s, shape.d, y, w)
        z = np.linspace(-quadrature.WINDOW, quadrature.WINDOW, 400_000)
        density = np.exp(-0.5 * z * z) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
        with np.errstate(all="ignore"):
            dense = f(s * z)
            if s >= 100.0 and not np.isfinite(dense).all():
                continue  # the function overflows there, and says so where it is asked
            # a dense rule is only rough on narrow features of a wide Gaussian: the largest value is the scale there
            size = float(np.sum(density * np.abs(dense)) if s < 100.0 else np.max(np.abs(dense)))
            difference = abs(float(np.sum(w[:count] * f(y[:count])) - np.sum(density * dense)))
        if not difference <= (1e-3 if jumps else tolerance) * size:
            return False
    return True


def _vectorised(g: sp.Expr) -> Callable[[np.ndarray], np.ndarray]:
    """g over arrays, real or complex"""
    from scipy import special

    z = sp.Symbol("z")
    heads = {"erf": special.erf, "erfc": special.erfc, "Heaviside": lambda t, _=0.5: np.heaviside(t, 0.5)}
    numeric = sp.lambdify(z, g.xreplace({x: z}), [heads, "numpy"])
    return lambda values: numeric(values) + 0 * values


def _piece(g: sp.Expr, at: sp.Expr) -> sp.Expr:
    """the analytic branch of g around a point"""

    def branch(t: sp.Basic) -> sp.Basic:
        value = {x: at}
        if isinstance(t, (sp.Max, sp.Min)):
            choose = max if isinstance(t, sp.Max) else min
            return choose(t.args, key=lambda a: a.xreplace(value))
        if isinstance(t, sp.Abs):
            return t.args[0] if t.args[0].xreplace(value) > 0 else -t.args[0]
        if isinstance(t, sp.Piecewise):
            return next(e for e, condition in t.args if condition in (True, sp.true) or bool(condition.xreplace(value)))
        return t.xreplace(value)

    kinds = (sp.Max, sp.Min, sp.Abs, sp.sign, sp.Heaviside, sp.Piecewise)
    while g.has(*kinds):
        g = g.replace(lambda t: isinstance(t, kinds) and not any(a.has(*kinds) for a in t.args), branch)
    return g


def _radii(g: sp.Expr, centres: tuple[float, ...]) -> list[float]:
    """how far g is analytic around each centre"""
    if x not in g.free_symbols:
        return [_WIDEST for _ in centres]
    f = _vectorised(g)
    return [_radius(f, c) for c in centres]
