r"""Activations that no catalogue has, typed over balls; `generate` draws points for them.

Tails that cancel, saturation within 1/20, steps, dead zones, a fast wave on a slow one, a Gaussian integral of rational functions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb

from oracle.functions import ONE, ZERO, Function, Open, Smoothed, logistic_slope, piecewise, polynomial, real, tanh

F = Fraction


def _bump(m: Any, s: arb) -> Any:
    """E erf(y + 1) - erf(y - 1)"""
    n = (1 + 2 * s * s).sqrt()
    return ((m + 1) / n).erf() - ((m - 1) / n).erf()


def _bump_slope(m: Any, s: arb) -> Any:
    n = (1 + 2 * s * s).sqrt()
    return 2 / (arb.pi().sqrt() * n) * ((-(((m + 1) / n) ** 2)).exp() - (-(((m - 1) / n) ** 2)).exp())


def _gate(a: int, m: Any, s: arb) -> Any:
    """E y erf(a y)"""
    n = (1 + 2 * (a * s) ** 2).sqrt()
    return m * (a * m / n).erf() + 2 * a * s * s / (arb.pi().sqrt() * n) * (-((a * m / n) ** 2)).exp()


def _gate_slope(a: int, m: Any, s: arb) -> Any:
    """its rate by m"""
    n = (1 + 2 * (a * s) ** 2).sqrt()
    return (a * m / n).erf() + 2 * a * m / (arb.pi().sqrt() * n**3) * (-((a * m / n) ** 2)).exp()


def _dead(z: Any, _: bool) -> Any:
    return (z - real("1/2")) ** 2 / (1 + z * z)


def _dead_slope(z: Any, _: bool) -> Any:
    half = real("1/2")
    return 2 * (z - half) / (1 + z * z) - 2 * z * (z - half) ** 2 / (1 + z * z) ** 2


INVENTED: tuple[Function, ...] = (
    piecewise("ramp", ZERO, "1/2", polynomial(-10, 20), "11/20", ONE, growth=(20, 0)),
    piecewise("hard_cube", polynomial(-1), -2, polynomial(0, 0, 0, "1/8"), 2, ONE, parity=-1, growth=(2, 0)),
    piecewise("stairs", polynomial(0, "1/3"), -1, polynomial("1/2", "1/3"), 1, polynomial("3/2", "1/3")),
    Smoothed(
        name="erf_bump", value=lambda z, _: _bump(z, arb(0)), slope=lambda z, _: _bump_slope(z, arb(0)), scale=0.5,
        smooth=_bump, smooth_slope=_bump_slope, parity=1, growth=(4, 0),
    ),
    Smoothed(
        name="gate_difference", scale=0.2, growth=(4, 1), parity=1,
        value=lambda z, _: (_gate(3, z, arb(0)) - _gate(1, z, arb(0))) / 2,
        slope=lambda z, _: (_gate_slope(3, z, arb(0)) - _gate_slope(1, z, arb(0))) / 2,
        smooth=lambda m, s: (_gate(3, m, s) - _gate(1, m, s)) / 2,
        smooth_slope=lambda m, s: (_gate_slope(3, m, s) - _gate_slope(1, m, s)) / 2,
    ),
    Open(
        name="tanh_bump", value=lambda z, _: tanh(z + 1) - tanh(z - 1),
        slope=lambda z, _: 4 * (logistic_slope(2 * z + 2) - logistic_slope(2 * z - 2)), distance=1.57, parity=1, growth=(4, 0),
    ),
    Open(
        name="tanh_wave", value=lambda z, _: z.tanh() + (3 * z).sin() / 10,
        slope=lambda z, _: 4 * logistic_slope(2 * z) + 3 * (3 * z).cos() / 10,
        distance=1.57, parity=-1, growth=(3, 0),
    ),
    Open(
        name="tanh_exp_of", value=lambda z, _: tanh(z).exp(),
        slope=lambda z, _: 4 * logistic_slope(2 * z) * tanh(z).exp(), distance=1.0, growth=(4, 0),
    ),
    Open(
        name="witch", value=lambda z, _: z / (1 + z * z), slope=lambda z, _: (1 - z * z) / (1 + z * z) ** 2, distance=1.0, parity=-1,
        growth=(2, 0),
    ),
    Open(
        name="dead_ratio", kinks=(F(1, 2),), value=(lambda z, _: 0 * z, _dead), slope=(lambda z, _: 0 * z, _dead_slope),
        distance=1.1, centres=(F(0), F(1, 2)), growth=(2, 0),
    ),
)  # fmt: skip
