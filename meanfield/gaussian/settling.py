"""Functions that oscillate for ever, under wide Gaussians: only their means over a period are left far out."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import sympy as sp

from meanfield.gaussian.kinks import kinks_of
from meanfield.gaussian.oscillations import Tails, product_mean, tails
from meanfield.gaussian.resolution import REACH, march, real_function
from meanfield.gaussian.shape_rows import WINDOW
from meanfield.gaussian.singularities import size_near
from meanfield.gaussian.special import NormalCDF
from meanfield.symbols import known

__all__ = ["Settled", "lost", "settled"]

x, y = known("x"), known("y")

# a harmonic nu under a smooth step of width w and a Gaussian of deviation s is lost: exp(-nu^2 / (2/w^2 + 2/s^2)) = 1e-15
_STEP, _APART = 10.0, 15.0  # nu w, nu s


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
    radius = max((abs(k) for k in kinks_of(f)), default=0.0)
    for sign, tail in zip((-1.0, 1.0), found, strict=True):
        for part in tail.coefficients:
            value = real_function(part)
            ends = march(value, size_near(value), sign * radius, sign * REACH)
            if abs(ends[-1]) < REACH:
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
