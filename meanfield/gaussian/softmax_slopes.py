"""Derivatives of averages over softmax weights in the variance and in the number of logits, as doubles."""

from __future__ import annotations

import math

from meanfield.gaussian.softmax import SERIES

__all__ = ["softmax_slope"]


def softmax_slope(v: float, n: float, which: float) -> float:
    """d omega/dn, d mu/dv, d mu/dn, d beta_3/dv or d beta_3/dn: by the heat equation dg_k/dv = (k^2 g_k - (2k+1) g_{k+1} + g_{k+2})/2."""
    if not (v < 1e4 and n >= 1.0):
        return math.nan
    if which == 0.0 and v < SERIES:
        return 2.0 * v / (n + 2.0 * v) ** 2
    v = max(v, 1e-30)
    step = 0.25
    spacing = min(0.35, 0.7 * math.sqrt(v))
    reach = int(8.5 * math.sqrt(v) / spacing) + 1
    far = 50.0 + 2.0 * math.log(n)
    tau = v + 0.5 * far if far > 2.0 * v else math.sqrt(2.0 * v * far)
    same = pair = triple = twice = mixed = 0.0
    same_v = pair_v = triple_v = twice_v = mixed_v = 0.0
    same_n = pair_n = triple_n = twice_n = mixed_n = 0.0
    going = True
    while going:
        whole = u = d0 = d1 = d2 = d3 = d4 = 0.0
        for k in range(-reach, reach + 1):
            x = k * spacing
            y = math.exp(x - tau)
            w = math.exp(-0.5 * x * x / v)
            lost = -math.expm1(-y)
            kept = w * (1.0 - lost if y < 1.0 else math.exp(-y))
            whole += w
            u += w * lost
            d0 += kept
            d1 += kept * y
            d2 += kept * y * y
            d3 += kept * y * y * y
            d4 += kept * y * y * y * y
        if d0 <= 1e-280 * whole:
            break
        log0 = math.log1p(-u / whole) if u < 0.5 * whole else math.log(d0 / whole)
        power = math.exp(n * log0)
        r1, r2, r3, r4 = d1 / d0, d2 / d0, d3 / d0, d4 / d0
        h0, h1, h2 = 0.5 * (r2 - r1), 0.5 * (r1 - 3.0 * r2 + r3), 0.5 * (4.0 * r2 - 5.0 * r3 + r4)
        a, b, c, d, e = r2 * power, r1 * r1 * power, r1 * r1 * r1 * power, r2 * r2 * power, r2 * r1 * r1 * power
        same += a
        pair += b
        triple += c
        twice += d
        mixed += e
        same_v += power * h2 + (n - 1.0) * a * h0
        pair_v += 2.0 * power * r1 * h1 + (n - 2.0) * b * h0
        triple_v += 3.0 * power * r1 * r1 * h1 + (n - 3.0) * c * h0
        twice_v += 2.0 * power * r2 * h2 + (n - 2.0) * d * h0
        mixed_v += power * r1 * (r1 * h2 + 2.0 * r2 * h1) + (n - 3.0) * e * h0
        same_n += a * log0
        pair_n += b * log0
        triple_n += c * log0
        twice_n += d * log0
        mixed_n += e * log0
        going = a > 1e-19 * same or b > 1e-19 * pair or c > 1e-19 * triple or d > 1e-19 * twice or e > 1e-19 * mixed
        tau -= step
    if which == 0.0:
        return (same_n / same - pair_n / pair) / v
    if which > 2.0:
        cube = 0.5 * step * n * n * n
        return cube * triple_v if which == 3.0 else cube * (triple_n + 3.0 * triple / n)
    sums = 2.0 * twice + (n - 2.0) * mixed
    mu = sums / (6.0 * n * same * pair * step)
    if which == 1.0:
        return mu * ((2.0 * twice_v + (n - 2.0) * mixed_v) / sums - same_v / same - pair_v / pair)
    return mu * ((2.0 * twice_n + (n - 2.0) * mixed_n + mixed) / sums - 1.0 / n - same_n / same - pair_n / pair)
