"""Two periodic functions by their Fourier coefficients, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["FOURIER_SERIES"]

#: the coefficients that count; nan where they are too many
_COEFFICIENTS = r"""    if first[PERIOD] == 0.0 or second[PERIOD] == 0.0:
        return math.nan
    apart = max(distance(q1, p, q2), 0.0)
    rest = apart / q2
    real = np.empty(HARMONICS + 1)
    imaginary = np.empty(HARMONICS + 1)
    others_real = np.empty(HARMONICS + 1)
    others_imaginary = np.empty(HARMONICS + 1)
    count = fourier_<i>(first, math.sqrt(rest), real, imaginary<x>)
    others = fourier_<j>(second, math.sqrt(apart / q1), others_real, others_imaginary<y>)
    if min(count, others) < 0:
        return math.nan
    omega = frequency(first)
    nu = frequency(second)
    ratio = omega / nu
    reach = 1.0 + WINDOW / (nu * math.sqrt(q2))
    total = 0.0
    for n in range(count):
        at = -n * ratio * (p / q2)
        for m in range(math.ceil(max(at - reach, 1.0 - others)), math.floor(min(at + reach, others - 1.0)) + 1):
            left = math.exp(-0.5 * nu * nu * variance_of(n * ratio, p, m, q2, rest)) * (2.0 if n > 0 else 1.0)
            k = abs(m)
"""

FOURIER_SERIES = {
    "fourier": r'''
def fourier_<i>(shape, own, real, imaginary<x>):
    """Fill in the Fourier coefficients of f_<i> from n = 0 on that a normal of deviation `own` leaves; return how many, -1 if too many."""
    kept = harmonics_kept(shape, own)
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
    + r"""            angle = n * omega * m1 + m * nu * m2
            below = others_imaginary[k] if m >= 0 else -others_imaginary[k]
            one = real[n] * others_real[k] - imaginary[n] * below
            other = real[n] * below + imaginary[n] * others_real[k]
            total += left * (one * math.cos(angle) - other * math.sin(angle))
    return total
""",
    "fouriersize": r'''
def fouriersize_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """What rounding may add to these, in units of 2^-53."""
'''
    + _COEFFICIENTS.replace(
        "    total = 0.0\n",
        r"""    total = 0.0
    d = measured_<i>(first, 0.3 * first[PERIOD], 4.0 * first[PERIOD] ** 2<x>)  # at 0 the mean of an odd function has no error
    e = measured_<j>(second, 0.3 * second[PERIOD], 4.0 * second[PERIOD] ** 2<y>)
""",
    )
    + r"""            one = math.hypot(real[n], imaginary[n])
            other = math.hypot(others_real[k], others_imaginary[k])
            total += left * (one * e + other * d + UNIT * d * e)
    return total
""",
}
