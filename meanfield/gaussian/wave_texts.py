"""The quadrature of waves under wide Gaussians, as text: what `<i>` and `<j>` stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["WAVES"]

#: the arrays of a rule
_ARRAYS = "".join(f"    {name} = np.empty(BROAD)\n" for name in "ycdw")

_SUM = (
    r"""    near = near_of(row)
"""
    + _ARRAYS
    + r"""    count = broad_nodes(row, 0.0, mu, math.sqrt(q), 0.0, reach_<i>(2.0, near, mu, math.sqrt(q), y, w, 0.0, 0.0), y, c, d, w)
    if count < 0:
        return math.nan
    total = 0.0
    for i in range(count):
        total += w[i] * f_<i>(y[i], c[i], d[i])<power>
    return total
"""
)

#: what two inputs share as nodes, and what each has to itself
_SHARED = (
    r"""    s = own_part(q, delta, total)
    a = math.sqrt(abs(q - delta))
    opposite = 1.0 if delta > q and near_of(row)[PARITY] == 0.0 else 0.0
    near = np.empty(2 * near_of(row).size)
    facing(near_of(row), opposite, near)
    phases = np.empty(2 * phases_of(row).size)
    facing(phases_of(row), opposite, phases)
"""
    + _ARRAYS
    + "".join(f"    inner_{name} = np.empty(BROAD)\n" for name in "ycdw")
)
_NODES = r"""    wide = wide_against(row, s)
    if a <= 1e-8 * math.sqrt(q):
        count = 1
        y[0] = mu
        w[0] = 1.0
        c[0] = 0.0
        d[0] = 0.0
    elif wide:
        count = slow_nodes(row, mu, a, s, window, y, w)
    else:
        count = broad_nodes(row, opposite, mu, a, max(s, 1e-150 * math.sqrt(q)), window, y, c, d, w)
    if count < 0:
        return math.nan
"""
_ONE_SMOOTHED = r"""placed_<i>(near, phases, s, window, y[i], c[i], d[i], inner_y, inner_w)"""
_WIDE = r"""averaged_<i>(row, y[i], s, window, inner_y, inner_c, inner_d, inner_w)"""

WAVES = {
    "broadmean": r'''
def broadmean_<i>(row, mu, q):
    """E f_<i>(u), u ~ N(mu, q)."""
    if not 0.0 < q < math.inf:
        return f_<i>(mu, 0.0, 0.0) if q == 0.0 else math.nan
'''
    + _SUM.replace("<power>", ""),
    "broadsquare": r'''
def broadsquare_<i>(row, mu, q):
    """E f_<i>(u)^2, u ~ N(mu, q)."""
    if not 0.0 < q < math.inf:
        return f_<i>(mu, 0.0, 0.0) ** 2 if q == 0.0 else math.nan
'''
    + _SUM.replace("<power>", " ** 2"),
    "averaged": r'''
def averaged_<i>(row, mu, s, window, y, c, d, w):
    """E f_<i>(mu + s xi), s wide."""
    count = broad_nodes(row, 0.0, mu, s, 0.0, window, y, c, d, w)
    if count < 0:
        return math.nan
    total = 0.0
    for i in range(count):
        total += w[i] * f_<i>(y[i], c[i], d[i])
    return total
''',
    "scattered": r'''
def scattered_<i>(row, mu, s, window, y, c, d, w):
    """Var f_<i>(mu + s xi), s wide."""
    count = broad_nodes(row, 0.0, mu, s, 0.0, window, y, c, d, w)
    if count < 0:
        return math.nan
    reference = f_<i>(mu, 0.0, 0.0)
    mean = 0.0
    for i in range(count):
        y[i] = f_<i>(y[i], c[i], d[i]) - reference
        mean += w[i] * y[i]
    total = 0.0
    for i in range(count):
        total += w[i] * (y[i] - mean) ** 2
    return total
''',
    "placed": r'''
def placed_<i>(near, phases, s, window, at, c, d, y, w):
    """E f_<i>(u + s xi) at a node u."""
    if c == 0.0:
        return smoothed_<i>(near, at, s, window, y, w, 0.0, 0.0)
    return smoothed_<i>(phases, at, s, window, y, w, c, d)
''',
    "mirrored": r'''
def mirrored_<i>(row, near, phases, mu, s, window, at, c, d, y, w):
    """E f_<i>(2 mu - u + s xi) at a node u."""
    back = 2.0 * mu - at
    if c == 0.0:
        return smoothed_<i>(near, back, s, window, y, w, 0.0, 0.0)
    phase = turned(row, back)
    return smoothed_<i>(phases, phase, s, window, y, w, back - phase - c, back - phase - d)
''',
    "broadcross": r'''
def broadcross_<i>(row, mu, q, delta, total):
    """E f_<i>(u) f_<i>(v) for mean mu, variances q, delta = q - p and total = q + p."""
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return f_<i>(mu, 0.0, 0.0) ** 2 if q == 0.0 else math.nan
    if delta == q:
        return broadmean_<i>(row, mu, q) ** 2
'''
    + _SHARED
    + r"""    window = reach_<i>(2.0, near, mu, math.sqrt(q), y, w, 0.0, 0.0)
"""
    + _NODES
    + rf"""    product = 0.0
    for i in range(count):
        if wide:
            value = {_WIDE}
            other = value if delta <= q else {_WIDE.replace("y[i],", "2.0 * mu - y[i],", 1)}
        else:
            value = {_ONE_SMOOTHED}
            other = value if delta <= q else mirrored_<i>(row, near, phases, mu, s, window, y[i], c[i], d[i], inner_y, inner_w)
        product += w[i] * value * other
    return product
""",
    "broadgap": r'''
def broadgap_<i>(row, sloped, q, delta):
    """E f_<i>(u)^2 - E f_<i>(u) f_<i>(v) for delta <= q, f_<j> the slope: the mean of the variance given what u and v share."""
    if not (q > 0.0 and 0.0 < delta <= q):
        return 0.0 if delta == 0.0 or q == 0.0 else math.nan
    mu = 0.0
    total = 2.0 * q - delta
'''
    + _SHARED
    + r"""    slope = near_of(sloped)
    slopes = phases_of(sloped)
    root = math.sqrt(q)
    window = max(reach_<i>(2.0, near, mu, root, y, w, 0.0, 0.0), reach_<j>(2.0, slope, mu, root, y, w, 0.0, 0.0))
    if close_to(row, sloped, q, delta):
        return broadclose_<i>(row, sloped, q, delta, window)
    if not (told(near_of(row), s) and told(phases_of(row), s)):
        return math.nan
"""
    + _NODES
    + r"""    result = 0.0
    for i in range(count):
        if wide:
            result += w[i] * scattered_<i>(row, y[i], s, window, inner_y, inner_c, inner_d, inner_w)
        elif c[i] == 0.0:
            result += w[i] * variance_<i>(near, slope, y[i], s, window, inner_y, inner_w, c[i], d[i])
        else:
            result += w[i] * variance_<i>(phases, slopes, y[i], s, window, inner_y, inner_w, c[i], d[i])
    return result
""",
    "blend": r'''
def blend_<i>_<j>(first, second, m1, m2, q1, p, q2):
    """E f_<i>(u) f_<j>(v), the first averaged over what leaves it no phase given v."""
    y = np.empty(BROAD)
    c = np.empty(BROAD)
    d = np.empty(BROAD)
    w = np.empty(BROAD)
    s = math.sqrt(distance(q1, p, q2) / q2)
    root = math.sqrt(q2)
    rate = p / q2
    window = reach_<i>(2.0, near_of(first), m1, math.sqrt(q1), y, w, 0.0, 0.0)
    reach = reach_<j>(2.0, near_of(second), m2, root, y, w, 0.0, 0.0)
    if math.isnan(window) or math.isnan(reach):
        return math.nan
    ends = np.empty(SMOOTHED)
    count = smoothed_ends(first, s, abs(m1) + reach * root * abs(rate), ends)
    if count < 0:
        return math.nan
    ends = ends[:count]
    values = np.zeros((count - 1) * LEGENDRE_X.size)
    for i in range(count - 1):
        if ends[i] < m1 + reach * root * abs(rate) and ends[i + 1] > m1 - reach * root * abs(rate):
            for g in range(LEGENDRE_X.size):
                u = 0.5 * (ends[i] + ends[i + 1] + (ends[i + 1] - ends[i]) * LEGENDRE_X[g])
                values[i * LEGENDRE_X.size + g] = averaged_<i>(first, u, s, window, y, c, d, w)
    places = np.empty(count)
    for i in range(count):
        places[i] = m2 + (ends[i if rate > 0.0 else count - 1 - i] - m1) / rate
    row = np.empty(second.size + 4 * count)
    count = beside(second, places, row)
    count = broad_nodes(row[:count], 0.0, m2, root, 0.0, reach, y, c, d, w)
    if count < 0:
        return math.nan
    total = 0.0
    for i in range(count):
        total += w[i] * f_<j>(y[i], c[i], d[i]) * blended(ends, values, m1 + rate * (y[i] + c[i] - m2))
    return total
''',
    "broadtwo": r'''
def broadtwo_<i>_<j>(first, second, m1, m2, q1, p, q2):
    """E f_<i>(u) f_<j>(v) for means m1 and m2, variances q1 and q2 and covariance p, where either leaves the other one no phase."""
    if not (0.0 < q1 < math.inf and 0.0 < q2 < math.inf):
        return math.nan
    if p == 0.0:
        return broadmean_<i>(first, m1, q1) * broadmean_<j>(second, m2, q2)
    rest = distance(q1, p, q2)
    if wide_against(first, math.sqrt(max(rest, 0.0) / q2)):
        return blend_<i>_<j>(first, second, m1, m2, q1, p, q2)
    if wide_against(second, math.sqrt(max(rest, 0.0) / q1)):
        return blend_<j>_<i>(second, first, m2, m1, q2, p, q1)
    return math.nan
''',
}
