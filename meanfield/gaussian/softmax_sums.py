"""Sums over nodes of which averages over softmax weights and their derivatives are made, and these as doubles."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "SERIES",
    "WIDE",
    "softmax_average",
    "softmax_drifts",
    "softmax_exponent",
    "softmax_rate",
    "softmax_response",
    "softmax_slope",
    "softmax_sums",
    "softmax_terms",
    "softmax_triple",
    "softmax_value",
    "wide_factors",
]

#: below this v the exponent is its series, 1/(1 + 2 v/n) + O(v^2): the logarithm of a ratio near 1 has no digits left
SERIES = 1e-5
#: from this v on logits are wide against the features of y^k e^-y, y = t e^x, and sums go over these alone
WIDE = 100.0


def softmax_drifts(r1: float, r2: float, r3: float, r4: float, h: np.ndarray) -> None:
    """dg_k/dv over g_0, k = 0, 1, 2, from g_k/g_0; of any kind of number."""
    h[0], h[1], h[2] = (r2 - r1) / 2, (r1 - 3 * r2 + r3) / 2, (4 * r2 - 5 * r3 + r4) / 2


def softmax_terms(n: float, power: float, log0: float, r1: float, r2: float, h: np.ndarray, out: np.ndarray) -> None:
    """out: the five integrands at a node, their derivatives in v, and in n, from g_0^n, ln g_0, g_k/g_0 and the drifts of these; of any
    kind of number."""
    h0, h1, h2 = h[0], h[1], h[2]
    a, b, c, d, e = r2 * power, r1 * r1 * power, r1 * r1 * r1 * power, r2 * r2 * power, r2 * r1 * r1 * power
    out[0], out[1], out[2], out[3], out[4] = a, b, c, d, e
    out[5] = power * h2 + (n - 1) * a * h0
    out[6] = 2 * power * r1 * h1 + (n - 2) * b * h0
    out[7] = 3 * power * r1 * r1 * h1 + (n - 3) * c * h0
    out[8] = 2 * power * r2 * h2 + (n - 2) * d * h0
    out[9] = power * r1 * (r1 * h2 + 2 * r2 * h1) + (n - 3) * e * h0
    out[10], out[11], out[12], out[13], out[14] = a * log0, b * log0, c * log0, d * log0, e * log0


def softmax_average(which: float, v: float, n: float, sums: np.ndarray, log_ratio: float):  # type: ignore[no-untyped-def]
    """omega, mu or beta_3 from sums and the logarithm of E A_1 A_1/E A_1 A_2."""
    if which == 0:
        return log_ratio / v
    if which == 1:
        return (2 * sums[3] + (n - 2) * sums[4]) / (6 * n * sums[0] * sums[1])
    return n * n * n * sums[2] / 2


def softmax_rate(which: float, v: float, n: float, sums: np.ndarray, log_ratio: float):  # type: ignore[no-untyped-def]
    """Their derivatives."""
    if which == 0:
        return (sums[5] / sums[0] - sums[6] / sums[1] - log_ratio / v) / v
    if which == 1:
        return (sums[10] / sums[0] - sums[11] / sums[1]) / v
    if which == 4:
        return n * n * n * sums[7] / 2
    if which == 5:
        return n * n * n * (sums[12] + 3 * sums[2] / n) / 2
    both = 2 * sums[3] + (n - 2) * sums[4]
    mu = both / (6 * n * sums[0] * sums[1])
    if which == 2:
        return mu * ((2 * sums[8] + (n - 2) * sums[9]) / both - sums[5] / sums[0] - sums[6] / sums[1])
    return mu * ((2 * sums[13] + (n - 2) * sums[14] + sums[4]) / both - 1 / n - sums[10] / sums[0] - sums[11] / sums[1])


def wide_factors(v: float, tau: float, g: np.ndarray) -> None:
    r"""g_k = E y^k e^{-y} and dg_k/dv, k = 0, 1, 2, and 1 - g_0, of y = e^{x - tau} for wide logits: beside a smooth step of width 2, whose
    mean is \Phi(tau/\sqrt{v + 4}), what is integrated ends within 40 of tau. dg/dv = d^2g/dtau^2/2, and dg_0/dtau = g_1, are taken of the
    density: sums of g_k cancel."""
    scale = math.sqrt(2.0 * (v + 4.0))
    density = 0.2 / math.sqrt(2.0 * math.pi * v)
    for k in range(7):
        g[k] = 0.0
    for k in range(-205, 97):
        z = 0.2 * k
        y = math.exp(z)
        t = (tau + z) / v
        w = density * math.exp(-0.5 * (tau + z) * t)
        # of the step and of e^-y what they lack of 1 before 0, else what they are
        beside = -math.expm1(-y) - 0.5 * math.erfc(-z / math.sqrt(8.0)) if z < 0.0 else 0.5 * math.erfc(z / math.sqrt(8.0)) - math.exp(-y)
        g[6] += w * beside
        first = w * math.exp(-y) * y
        second = first * y
        g[1] += first
        g[2] += second
        g[3] -= 0.5 * t * first
        g[4] += 0.5 * (t * t - 1.0 / v) * first
        g[5] += 0.5 * (t * t - 1.0 / v) * second
    g[0] = 0.5 * math.erfc(-tau / scale) - g[6]
    g[6] = 0.5 * math.erfc(tau / scale) + g[6]


def softmax_sums(v: float, n: float, sums: np.ndarray) -> None:
    """E A1 A1, E A1 A2, 2 E A1 A2 A3, 6 E A1^2 A2^2, 6 E A1^2 A2 A3 to 1e-13, and their derivatives in v and in n; v > 0 and n >= 1."""
    wide = v > WIDE
    step = max(0.25, math.sqrt(v) / 16.0) if wide else 0.25
    spacing = min(0.35, 0.7 * math.sqrt(v))
    reach = int(8.5 * math.sqrt(v) / spacing) + 1
    far = 50.0 + 2.0 * math.log(n)
    tau = v + 0.5 * far if far > 2.0 * v else math.sqrt(2.0 * v * far)
    terms = np.empty(15)
    g = np.empty(7)
    h = np.empty(3)
    for i in range(15):
        sums[i] = 0.0
    going = True
    while going:
        whole = u = d0 = d1 = d2 = d3 = d4 = 0.0
        if wide:
            wide_factors(v, tau, g)
            whole = 1.0
            u = g[6]
            d0 = g[0]
            d1 = g[1]
            d2 = g[2]
        else:
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
        # the logarithm of g_0 from the side that has the digits
        log0 = math.log1p(-u / whole) if u < 0.5 * whole else math.log(d0 / whole)
        if wide:
            for i in range(3):
                h[i] = g[3 + i] / d0
        else:
            softmax_drifts(d1 / d0, d2 / d0, d3 / d0, d4 / d0, h)
        softmax_terms(n, math.exp(n * log0), log0, d1 / d0, d2 / d0, h, terms)
        going = False
        for i in range(15):
            sums[i] += step * terms[i]
            going = going or (i < 5 and step * terms[i] > 1e-19 * sums[i])
        tau -= step


def softmax_value(which: float, v: float, n: float) -> float:
    """omega, mu or beta_3 for softmax weights of n logits of variance v."""
    if not (v < 1e200 and n >= 1.0):
        return math.nan
    if v < SERIES:
        return 1.0 / (1.0 + (3.0 if which == 2.0 else 2.0) * v / n)
    sums = np.empty(15)
    softmax_sums(v, n, sums)
    return float(softmax_average(which, v, n, sums, math.log(sums[0] / sums[1])))


def softmax_exponent(v: float, n: float) -> float:
    """omega with E sum_b A_b^2 = 1/(1 + (n - 1) exp(-v omega)) for softmax weights of n logits of variance v."""
    return softmax_value(0.0, v, n)


def softmax_response(v: float, n: float) -> float:
    """E sum_bc (dA_b/dx_c)^2 over E Y (1 - E Y), Y = sum_b A_b^2, for softmax weights of n logits of variance v."""
    return softmax_value(1.0, v, n)


def softmax_triple(v: float, n: float) -> float:
    """n^3 E A_1 A_2 A_3 for softmax weights of n logits of variance v."""
    return softmax_value(2.0, v, n)


def softmax_slope(v: float, n: float, which: float) -> float:
    """d omega/dv, d omega/dn, d mu/dv, d mu/dn, d beta_3/dv, d beta_3/dn."""
    if not (v < 1e200 and n >= 1.0):
        return math.nan
    if which < 2.0 and v < SERIES:
        return (2.0 * v if which == 1.0 else -2.0 * n) / (n + 2.0 * v) ** 2
    sums = np.empty(15)
    softmax_sums(max(v, 1e-30), n, sums)
    return float(softmax_rate(which, v, n, sums, math.log(sums[0] / sums[1])))
