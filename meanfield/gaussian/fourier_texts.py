"""Two periodic functions by their Fourier coefficients, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["FOURIER_SERIES", "SERIES"]

#: the coefficients that count; nan where they are too many
_COEFFICIENTS = r"""    if first[PERIOD] == 0.0 or second[PERIOD] == 0.0:
        return math.nan
    apart = max(distance(q1, p, q2), 0.0)
    if not series_helps(first, second, q1, q2, apart):
        return math.nan
    omega = frequency(first)
    nu = frequency(second)
    real = np.empty(HARMONICS + 1)
    imaginary = np.empty(HARMONICS + 1)
    count = fourier_<i>(first, math.sqrt(apart / q2), real, imaginary<x>)
    if count < 0:
        return math.nan
    others_real = np.empty(HARMONICS + 1)
    others_imaginary = np.empty(HARMONICS + 1)
    others = fourier_<j>(second, math.sqrt(apart / q1), others_real, others_imaginary<y>)
    if others < 0:
        return math.nan
    rest = apart / q2
    ratio = omega / nu
    b = common_denominator(ratio)
    a = math.floor(ratio * b + 0.5) if b > 0.0 else ratio
    if b == 0.0:
        if max(count * omega * math.sqrt(q1), others * nu * math.sqrt(q2)) > 1e-13 / UNIT:
            return math.nan  # a ratio of frequencies that rounding has changed
        b = 1.0
    reach = 1.0 + WINDOW / (nu * math.sqrt(q2))
    one = mean_<i>(first, m1, q1<x>)
    other = mean_<j>(second, m2, q2<y>)
"""
_TERMS = r"""    for n in range(1, count):
        at = -n * ratio * (p / q2)
        low = math.ceil(min(max(at - reach, 1.0 - others), float(others)))
        high = math.floor(max(min(at + reach, others - 1.0), -float(others)))
        for m in range(low, high + 1):
            if m == 0:
                continue
            k = abs(m)
            left = 2.0 * math.exp(-0.5 * (nu / b) * (nu / b) * variance_of(n * a, p, m * b, q2, rest))
"""

#: what asks for them first, in the place of `<series>`, where both functions may be periodic
SERIES = {
    "two": r"""    total = fouriertwo_<i>_<j>(first, second, m1, m2, q1, p, q2<both>)
    if total == total:
        return total
""",
    "weighed": r"""    total = fouriersize_<i>_<j>(first, second, m1, m2, q1, p, q2<both>) if p != 0.0 else math.nan
    if total == total:
        return total
""",
}

FOURIER_SERIES = {
    "fourier": r'''
def fourier_<i>(shape, own, real, imaginary<x>):
    """Fill in the Fourier coefficients of f_<i> from n = 0 on that a normal of deviation `own` leaves; return how many, -1 if too many."""
    kept = harmonics_kept(shape, own)
    if kept < 0:
        return -1
    y = np.empty(4 * CAPACITY)
    w = np.empty(4 * CAPACITY)
    count = period_nodes(shape, kept, y, w)
    if count < 0:
        return -1
    omega = frequency(shape)
    square = 0.0
    cosines = np.empty(count)
    sines = np.empty(count)
    turns = np.zeros(count)
    for i in range(count):
        value = f_<i>(y[i]<x>)
        square += w[i] * value * value
        w[i] *= value
        cosines[i] = math.cos(omega * y[i])
        sines[i] = math.sin(omega * y[i])
        y[i] = 1.0
    for n in range(kept + 1):
        one = 0.0
        other = 0.0
        for i in range(count):
            one += w[i] * y[i]
            other -= w[i] * turns[i]
            turned = cosines[i] * y[i] - sines[i] * turns[i]
            turns[i] = sines[i] * y[i] + cosines[i] * turns[i]
            y[i] = turned
        real[n] = one
        imaginary[n] = other
        if settled_at(shape, real, imaginary, n + 1, math.sqrt(square)):
            return n + 1
    return kept + 1 if kept < HARMONICS else -1
''',
    "fouriertwo": r'''
def fouriertwo_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """E f_<i>(u) f_<j>(v); nan where the series is no help."""
'''
    + _COEFFICIENTS
    + "    total = one * other - (one - real[0]) * (other - others_real[0])\n"
    + _TERMS
    + r"""            angle = n * omega * m1 + m * nu * m2
            below = others_imaginary[k] if m > 0 else -others_imaginary[k]
            along = real[n] * others_real[k] - imaginary[n] * below
            across = real[n] * below + imaginary[n] * others_real[k]
            total += left * (along * math.cos(angle) - across * math.sin(angle))
    return total
""",
    "fouriersize": r'''
def fouriersize_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """What rounding may add to these, in units of 2^-53."""
'''
    + _COEFFICIENTS
    + r"""    d = measured_<i>(first, m1, q1<x>)
    e = measured_<j>(second, m2, q2<y>)
    total = abs(one) * e + abs(other) * d + UNIT * d * e
    sizes = d * e
    d = measured_<i>(first, 0.3 * first[PERIOD], 4.0 * first[PERIOD] ** 2<x>)  # at 0 the mean of an odd function has no error
    e = measured_<j>(second, 0.3 * second[PERIOD], 4.0 * second[PERIOD] ** 2<y>)
    total += abs(one - real[0]) * e + abs(other - others_real[0]) * d
    total += (sizes if min(count, others) == 1 else d * e) / 1024.0  # terms of 1e-16 that are left out
"""
    + _TERMS
    + r"""            size = math.hypot(real[n], imaginary[n])
            beside = math.hypot(others_real[k], others_imaginary[k])
            total += left * (size * e + beside * d + UNIT * d * e)
    return total
""",
}
