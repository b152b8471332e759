r"""Two Gaussians of little correlation by Mehler's series, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`.

With a_n = E f(u) h_n((u - m)/s), h_n = He_n/\sqrt{n!}, and b_n those of g(v) (Mehler 1866),

    E f(u) g(v) = \sum_n a_n b_n (p/(s t))^n,

each term good relative to itself: where a_0 or b_0 is 0, as that of an odd function, nothing of size E f^2 has to cancel.
"""

from __future__ import annotations

__all__ = ["MEHLER_SERIES"]

#: f at the nodes of its law, which become deviations
_UNFOLDED = r"""    window = reach_<i>(2.0, shape, mu, s, z, w<x>)
    if shape[SMOOTH] == 0.0 and 0.0 < shape[PERIOD] < window * s:  # whose nodes are folded into one period
        return -1, math.nan
    count = nodes(shape, mu, s, 0.0, window, z, w)
    square = 0.0
    for i in range(count):
        value = f_<i>(z[i]<x>)
"""
_WEIGHTED = r"""        w[i] *= value if w[i] > 0.0 else 0.0
        square += w[i] * value
        z[i] = (z[i] - mu) / s
    return count, square
"""

#: the coefficients of both
_LAW = r"""    s = math.sqrt(q1)
    t = math.sqrt(q2)
    rho = p / s / t
    if abs(rho) > MEHLER:
        return math.nan
    x = np.empty(CAPACITY)
    y = np.empty(CAPACITY)
    f = np.empty(CAPACITY)
    g = np.empty(CAPACITY)
"""
_COUNTED = r"""    if min(count, others) < 0:
        return math.nan
    total = mean_<i>(first, m1, q1<x>) * mean_<j>(second, m2, q2<y>)
    rest = math.sqrt(one) * math.sqrt(other) * abs(rho)
    power = p
"""
_TERM = r"""    for n in range(1, MEHLER_TERMS):
        a = hermite_sum(shape_sign(first, m1), n, x, f, count) / s
        b = hermite_sum(shape_sign(second, m2), n, y, g, others) / t
        total += a * b * power
        rest *= abs(rho)
"""

MEHLER_SERIES = {
    "unfolded": r'''
def unfolded_<i>(shape, mu, s, z, w<x>):
    """Fill z with nodes under N(mu, s^2) in deviations, w with weights times f_<i>; return how many, -1 if none do, and E f_<i>^2."""
'''
    + _UNFOLDED
    + _WEIGHTED,
    "unfoldedsize": r'''
def unfoldedsize_<i>(shape, mu, s, z, w, sizes<x>):
    """The same, and sizes with what rounding may add to w, in units of 2^-53."""
'''
    + _UNFOLDED
    + r"""        lost = r_<i>(z[i]<x>)
        sizes[i] = w[i] * (64.0 * abs(value) + (lost if lost < math.inf else 0.0)) if w[i] > 0.0 else 0.0
"""
    + _WEIGHTED,
    "mehler": r'''
def mehler_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """E f_<i>(u) f_<j>(v), p not 0; nan where the series is no help."""
'''
    + _LAW
    + r"""    count, one = unfolded_<i>(first, m1, s, x, f<x>)
    others, other = unfolded_<j>(second, m2, t, y, g<y>)
"""
    + _COUNTED
    + _TERM
    + r"""        if rest <= MEHLER_REST * abs(total):
            return total
        power *= rho
    return math.nan
""",
    "mehlersize": r'''
def mehlersize_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """What rounding may add to these, in units of 2^-53."""
'''
    + _LAW
    + r"""    lost = np.empty(CAPACITY)
    missed = np.empty(CAPACITY)
    count, one = unfoldedsize_<i>(first, m1, s, x, f, lost<x>)
    others, other = unfoldedsize_<j>(second, m2, t, y, g, missed<y>)
"""
    + _COUNTED
    + r"""    d = measured_<i>(first, m1, q1<x>)
    e = measured_<j>(second, m2, q2<y>)
    sizes = abs(mean_<i>(first, m1, q1<x>)) * e + abs(mean_<j>(second, m2, q2<y>)) * d + UNIT * d * e
"""
    + _TERM
    + r"""        d = hermite_size(first, n, m1, s, x, lost, count) / s
        e = hermite_size(second, n, m2, t, y, missed, others) / t
        sizes += (abs(a) * e + abs(b) * d + UNIT * d * e) * abs(power)
        if rest <= MEHLER_REST * abs(total):
            return sizes
        power *= rho
    return math.nan
""",
}
