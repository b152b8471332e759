"""The gap of two Gaussians that are close against the features of f, as text: what `<i>` and `<j>` stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["CLOSE"]

CLOSE = {
    "rise": r'''
def rise_<i>(at, h, t, w<x>):
    """The integral of f_<i> from at - h to at + h, over 2 h, by the nodes t."""
    total = 0.0
    for g in range(t.size):
        total += 0.5 * w[g] * f_<i>(at + h * t[g]<x>)
    return total
''',
    "leap": r'''
def leap_<i>(at, jump, h, z, least, t, w<x>):
    """A jump, and the integral of f_<i> from at - h (1 - z) to at + h (1 + z), which is read no nearer to the jump than `least`."""
    back = h * (1.0 - z)
    ahead = h * (1.0 + z)
    total = 0.0
    for g in range(t.size):
        far = 0.5 * (1.0 + t[g])
        after = f_<i>(at + max(far * ahead, least)<x>)
        before = f_<i>(at - max(far * back, least)<x>)
        total += 0.5 * w[g] * (ahead * after + back * before)
    return jump + total
''',
    "close": r'''
def close_<i>(shape, slope, q, delta, window, begin, width<x>):
    r"""E_h \int \rho(M) (f_<i>(M + h) - f_<i>(M - h))^2/2 dM, f_<j> the slope, up to a smooth step down from `begin` on."""
    size = breaks_of(shape).size + breaks_of(slope).size
    ends = np.empty(size)
    kinks = np.empty(size)
    heights = np.empty(size)
    size = joined(shape, slope, width, ends, kinks, heights)
    ends = ends[:size]
    y = np.empty(4 * CAPACITY)
    w = np.empty(4 * CAPACITY)
    s = math.sqrt(q - 0.5 * delta)
    window = min(window, ended(begin, width) / s)
    whole = shape[PERIOD] if shape[PERIOD] < window * s else 0.0
    first, last = turn(ends, whole) if whole > 0.0 else (0, size)
    smooth = shape[SMOOTH] > 0.0 and slope[SMOOTH] > 0.0
    half, half_w, t, t_w = ladder(shape, slope, s, delta)
    result = 0.0
    for e in range(half.size):
        h = math.sqrt(0.5 * delta) * half[e]
        if smooth:
            count = trapezoid(0.0, s, min(shape[WIDTH], slope[WIDTH]), window, shape[DETAIL], y, w)
        else:
            count = apart_nodes(ends, kinks, h, whole, s, window, shape[DETAIL], y, w)
        if count < 0:
            return math.nan
        apart = 0.0
        for i in range(count):
            apart += w[i] * fading(y[i], begin, width) * rise_<j>(y[i], h, t, t_w<y>) ** 2
        across = 0.0
        for i in range(first, last):
            if kinks[i] == 0.0 or abs(ends[i]) > window * s:
                continue
            least = SHARP * (abs(ends[i]) + min(shape[WIDTH], s))
            for g in range(t.size):
                at = ends[i] + h * t[g]
                weight = t_w[g] * bell(at, s, whole) * fading(at, begin, width)
                across += weight * leap_<j>(ends[i], heights[i], h, t[g], least, t, t_w<y>) ** 2
        result += half_w[e] * (2.0 * h * h * apart + 0.5 * h * across)
    return result
''',
    "broadclose": r'''
def broadclose_<i>(row, sloped, q, delta, window):
    """The same of a wave: far out the mean over its phases."""
    begin, width = step_of(row, sloped)
    result = close_<i>(near_of(row), near_of(sloped), q, delta, window, begin, width, 0.0, 0.0)
    whole = whole_of(row)
    size = breaks_of(phases_of(row)).size + breaks_of(phases_of(sloped)).size
    ends = np.empty(size)
    kinks = np.empty(size)
    heights = np.empty(size)
    ends = ends[: joined(phases_of(row), phases_of(sloped), whole, ends, kinks, heights)]
    first, last = phase_kinks(row, ends)
    x = np.empty(CAPACITY)
    y = np.empty(CAPACITY)
    z = np.empty(CAPACITY)
    x_w = np.empty(CAPACITY)
    y_w = np.empty(CAPACITY)
    z_w = np.empty(CAPACITY)
    s = math.sqrt(q - 0.5 * delta)
    slow = slow_apart(row, sloped, s, window, x, x_w)
    twos = second_apart(row, z, z_w)
    least = SHARP * whole
    half, half_w, t, t_w = ladder(phases_of(row), phases_of(sloped), s, delta)
    lost = 0.0
    for e in range(half.size):
        h = math.sqrt(0.5 * delta) * half[e]
        ones = phase_apart(row, ends, kinks, h, y, y_w)
        if min(slow, ones, twos) < 0:
            return math.nan
        apart = 0.0
        across = 0.0
        for i in range(slow):
            if x_w[i] == 0.0:
                continue
            for j in range(ones):
                for n in range(twos):
                    apart += x_w[i] * y_w[j] * z_w[n] * rise_<j>(y[j], h, t, t_w, x[i] - y[j], z[n] - y[j]) ** 2
            for j in range(first, last):
                for g in range(t.size if kinks[j] > 0.0 else 0):
                    c = x[i] - ends[j] - h * t[g]
                    weight = x_w[i] * t_w[g]
                    jump = 0.0
                    if heights[j] != 0.0:
                        after = f_<i>(ends[j] + least, c, 0.0)
                        before = f_<i>(ends[j] - least, c, 0.0)
                        jump = after - before - leap_<j>(ends[j], 0.0, least, 0.0, least, t, t_w, c, 0.0)
                        lost += half_w[e] * h / whole * weight * abs(jump) * max(abs(after), abs(before))
                    across += weight * leap_<j>(ends[j], jump, h, t[g], least, t, t_w, c, 0.0) ** 2
        result += half_w[e] * (2.0 * h * h * apart + 0.5 * h / whole * across)
    return result if 4.0 * UNIT * lost <= 1e-12 * result else math.nan
''',
}
