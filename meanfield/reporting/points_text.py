r"""Fixed points as LaTeX: a line for each, with its slopes and its kind, and a sentence for what else there is to say."""

from __future__ import annotations

import math

from meanfield.analysis.points import OPEN, FixedPoint, FixedPoints
from meanfield.faces import latex, worded
from meanfield.reporting.breaking import aligned

__all__ = ["formula"]


@latex.register
def _(point: FixedPoint) -> str:
    return aligned([f"& {formula(point)}"])


@latex.register
def _(points: FixedPoints) -> str:
    lines = [aligned([f"& {formula(point)}" for point in points])] * bool(points)
    return "\n".join([*lines, *[f"{worded(points.reason)}."] * bool(points.reason)])


def formula(point: FixedPoint) -> str:
    """A fixed point as one line, in math mode."""
    c = f"1 - {_number(point.gap)}" if 0 < point.gap <= 1e-5 else _number(point.c)
    parts = [f"q^* = {_number(point.q)}"]
    if point.status not in OPEN:
        parts.append(f"c^* = {c}")
    if point.status != "no limit of c":
        parts.append(rf"\chi = {_number(point.chi)}")
    note = "" if point.status == "isolated" else f", {point.status.removesuffix(' c')}" + " $c$" * point.status.endswith(" c")
    return r",\quad ".join([*parts, rf"\chi_\parallel = {_number(point.chi_parallel)}", rf"\text{{{point.kind}{note}}}"])


def _number(value: float) -> str:
    if not math.isfinite(value):
        return r"\infty" if value > 0 else r"\text{none}"
    digits, _, power = f"{value:.6g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits
