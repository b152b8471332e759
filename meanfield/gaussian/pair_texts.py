"""The quadrature of two variables, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["PAIRS"]

#: E a(u) b(v) by what u and v share: the mean of products at u and v, which differ from these by parts of their own of deviations s and t
_PAIRED = r"""    scale = math.sqrt(q1) * math.sqrt(q2)
    rho = min(abs(p) / scale, 1.0)
    rest = max(distance(q1, p, q2), 0.0) / (scale * scale * (1.0 + rho))
    a = math.sqrt(q1 * rho)
    b = math.copysign(math.sqrt(q2 * rho), p)
    s = max(math.sqrt(q1 * rest), 1e-150 * math.sqrt(q1))
    t = max(math.sqrt(q2 * rest), 1e-150 * math.sqrt(q2))
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    window = widest(reach_<i>(2.0, first, m1, math.sqrt(q1), y, w<x>), reach_<j>(2.0, second, m2, math.sqrt(q2), y, w<y>))
    capacity = (32 if first[PERIOD] > 0.0 and second[PERIOD] > 0.0 else 4) * CAPACITY
    outer_y = np.empty(capacity)
    outer_w = np.empty(capacity)
    if window > WINDOW:
        steep = 1.0 / max(1.0 - rho, 1e-9)
        count = places_<i>(first, m1, math.sqrt(q1), steep, y, w<x>)
        beside = places_<j>(second, m2, math.sqrt(q2), steep, outer_y, outer_w<y>)
        joint = joint_window(y[:count], w, outer_y[:beside], outer_w, math.copysign(rho, p))
        window = max(window, joint + max(wider(first), wider(second)))
    along_second = abs(m1) * abs(b) > abs(m2) * a  # a narrow variable is rounded like its mean, and what moves with it
    ratio = 0.0  # of what the one moves by to what the other does
    if rho < 1e-16:
        along_second = False
        count = 1
        outer_y[0] = m1
        outer_w[0] = 1.0
    elif along_second:
        ratio = a / b
        count = nodes_of_two(second, first, m2, abs(b), t, m1, math.copysign(a, p), s, window, outer_y, outer_w)
    else:
        ratio = b / a
        count = nodes_of_two(first, second, m1, a, s, m2, b, t, window, outer_y, outer_w)
    if count < 0:
        return math.nan
    total = 0.0
    for i in range(count):
        u = m1 + (outer_y[i] - m2) * ratio if along_second else outer_y[i]
        v = outer_y[i] if along_second else m2 + (outer_y[i] - m1) * ratio
<term>"""

#: the same where both are Taylor series
_QUIET = r"""    if m1 == 0.0 and m2 == 0.0:
        analytic = first[ANALYTIC] > 0.0 and second[ANALYTIC] > 0.0
        if analytic and math.sqrt(q1) < QUIET * first[RADIUS] and math.sqrt(q2) < QUIET * second[RADIUS]:
            derivatives = np.empty(TERMS)
            others = np.empty(TERMS)
            series_derivatives(q1, right_of(first), derivatives)
            series_derivatives(q2, right_of(second), others)
            total = 0.0
            power = 1.0
            for n in range(TERMS):
                total += <each>
                power *= <by>
            return <factor>total
"""
_SMOOTHED = r"""        total += outer_w[i] * smoothed_<i>(first, u, s, window, y, w<x>) * smoothed_<j>(second, v, t, window, y, w<y>)
"""
_WEIGHED = r"""        one, lost = weight_<i>(first, u, s, window, y, w<x>)
        other, missed = weight_<j>(second, v, t, window, y, w<y>)
        total += outer_w[i] * (64.0 * one * other + one * missed + lost * other + UNIT * lost * missed)
"""

PAIRS = {
    "smoothed": r'''
def smoothed_<i>(shape, mu, s, window, y, w<x>):
    """E f_<i>(mu + s xi)."""
    mu = phase(shape, mu)
    dead = f_<i>(mu<x>) == 0.0  # two variables of opposite sign are larger than their sum
    local = reach_<i>(2.0, shape, mu, s, y, w<x>) if window > FAINT or dead else window
    count = nodes(shape, mu, s, 0.0, local_window(shape, window, local), y, w)
    if count < 0:
        return math.nan
    reference = f_<i>(mu<x>) if s < shape[WIDTH] and sharp_near(shape, mu, WINDOW * s) < 0 else 0.0
    shift = 0.0
    for i in range(count):
        shift += w[i] * (f_<i>(y[i]<x>) - reference)
    return reference + shift
''',
    "variance": r'''
def beside_<i>(origin, jump<x>):
    """How near to a kink f_<i> is taken on either side: where it jumps, and rounding of what it compares hides the side, further away."""
    least = max(1e-15 * abs(origin), 1e-300)
    step = least
    for k in range(8):
        if jump == 0.0 or abs(f_<i>(origin + step<x>) - f_<i>(origin - step<x>) - jump) <= 1e-3 * abs(jump):
            return step
        step *= 4.0
    return least

def variance_<i>(shape, slope, mu, s, window, y, w<x>):
    """Var f_<i>(mu + s xi), of differences from a point nearby: integrals of the slope f_<j> where they are short."""
    taken = 0.0
    local = reach_<i>(2.0, shape, mu, s, y, w<x>) if window > FAINT else window
    local = local if local < math.inf else local_window(shape, window, local)
    if (local <= FAINT or pointlike(mu, s)) and gentle(shape, mu, s, local) and gentle(slope, mu, s, local):
        count = HERMITE_X.size
        for i in range(count):
            step = s * HERMITE_X[i]
            w[i] = HERMITE_W[i]
            y[i] = 0.0
            for g in range(<points>):
                y[i] += 0.5 * <rule>_W[g] * step * f_<j>(mu + 0.5 * (1.0 + <rule>_X[g]) * step<y>)
    else:
        count = nodes(shape, mu, s, 0.0, local, y, w)
        if count < 0:
            return math.nan
        j = sharp_near(shape, mu, WINDOW * s)
        origin = breaks_of(shape)[j] if j >= 0 else mu
        beside = beside_<i>(origin, jumps_of(shape)[j]<x>) if j >= 0 else 0.0
        reference = f_<i>(origin - beside<x>)
        jump = f_<i>(origin + beside<x>) - reference if j >= 0 and jumps_of(shape)[j] != 0.0 else 0.0
        if j >= 0 and sharp_of(shape)[j] == 1.0:  # the limit: a function that is 0 on the other side is known to all its digits there
            before = origin - beside
            after = origin + beside
            reference += (origin - before) * f_<j>(before<y>)
            if jump != 0.0:
                jump = f_<i>(after<x>) - (after - origin) * f_<j>(after<y>) - reference
        elsewhere = max(abs(f_<i>(mu - s<x>)), abs(f_<i>(mu + s<x>)))
        finite = abs(reference) < math.inf and elsewhere >= 1e-8 * abs(reference)  # a peak would leave its rounding everywhere
        taken = reference if finite and j >= 0 and sharp_of(shape)[j] == 2.0 else 0.0
        back = min(room(shape, origin, -1.0), room(slope, origin, -1.0)) if finite else 0.0
        ahead = min(room(shape, origin, 1.0), room(slope, origin, 1.0)) if finite else 0.0
        for i in range(count):
            step = y[i] - origin
            if -back < step < ahead:
                y[i] = jump if step > 0.0 else 0.0
                for g in range(<points>):
                    y[i] += 0.5 * <rule>_W[g] * step * f_<j>(beyond(origin, 0.5 * (1.0 + <rule>_X[g]) * step)<y>)
            else:
                y[i] = f_<i>(y[i]<x>) - (reference if finite else 0.0)
    shift = 0.0
    for i in range(count):
        shift += w[i] * y[i]
    variance = 0.0
    for i in range(count):
        z = y[i] - shift
        variance += w[i] * z * z
    if taken * taken > 1e9 * variance:
        return math.nan  # next to a root of a large function neither values nor slopes tell the difference
    return variance
''',
    "cross": r'''
def cross_<i>(shape, mu, q, delta, total, p<x>):
    """E f_<i>(u) f_<i>(v) for mean mu, variances q, covariance p, delta = q - p and total = q + p."""
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return f_<i>(mu<x>) ** 2 if q == 0.0 else math.nan
    if p == 0.0:
        return mean_<i>(shape, mu, q<x>) ** 2
    if mu == 0.0 and shape[ANALYTIC] > 0.0 and math.sqrt(q) < QUIET * shape[RADIUS]:
        derivatives = np.empty(TERMS)
        series_derivatives(q, right_of(shape), derivatives)
        product = 0.0
        power = 1.0
        for n in range(TERMS):
            product += derivatives[n] ** 2 * power
            power *= p
        return product
    mu = phase(shape, mu)
    product = mehler_<i>_<i>(shape, shape, mu, mu, q, p, q<x>)
    if product == product:
        return product
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    outer_y = np.empty(4 * CAPACITY)
    outer_w = np.empty(4 * CAPACITY)
    window = reach_<i>(2.0, shape, mu, math.sqrt(q), y, w<x>)
    s = own_part(q, delta, total)
    if window > WINDOW:
        own = s / math.sqrt(q) * s / math.sqrt(q)
        count = places_<i>(shape, mu, math.sqrt(q), 1.0 / max(own, 1e-9), y, w<x>)
        window = max(window, joint_window(y[:count], w, y[:count], w, math.copysign(1.0 - own, q - delta)) + wider(shape))
    count = common_nodes(shape, mu, q, delta, s, window, outer_y, outer_w)
    if count < 0:
        return math.nan
    product = 0.0
    for i in range(count):
        value = smoothed_<i>(shape, outer_y[i], s, window, y, w<x>)
        mirrored = value if delta <= q else smoothed_<i>(shape, 2.0 * mu - outer_y[i], s, window, y, w<x>)
        product += outer_w[i] * value * mirrored
    return product
''',
    "gap": r'''
def gap_<i>(shape, slope, q, delta<x>):
    r"""E f_<i>(u)^2 - E f_<i>(u) f_<i>(v) to full relative accuracy, for delta <= q.

    The mean of the variance given what u and v share; where both are near on the scale of f, of the square of their difference.
    """
    if not (q > 0.0 and 0.0 < delta <= q and 2.0 * q < math.inf):
        return 0.0 if delta == 0.0 or q == 0.0 else math.nan
    result = 0.0
    mu = shape[MEAN]
    if shape[ANALYTIC] > 0.0 and math.sqrt(q) < QUIET * shape[RADIUS]:
        derivatives = np.empty(TERMS)
        series_derivatives(q, right_of(shape), derivatives)
        power = 1.0
        difference = 0.0  # q^n - p^n
        for n in range(1, TERMS):
            difference = q * difference + delta * power
            power *= q - delta
            result += derivatives[n] ** 2 * difference
        return result
    total = within(shape, 2.0 * q - delta)
    delta = within(shape, delta)
    q = 0.5 * (total + delta)
    root = math.sqrt(q)
    breaks = breaks_of(shape)
    if shape[SMOOTH] == 0.0 and shape[PERIOD] == 0.0 and (breaks[0] > mu - WINDOW * root or breaks[-1] < mu + WINDOW * root):
        return math.nan
    farthest = singular(shape, WIDEST * root)
    if math.sqrt(delta) < 2e-5 * farthest:  # points next to a singularity are not told apart
        return math.nan
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    window = widest(reach_<i>(2.0, shape, mu, root, y, w<x>), reach_<j>(2.0, slope, mu, root, y, w<y>))  # a constant part is no part of it
    if mu == 0.0 and delta <= 1e-4 * q and closely(shape, slope, delta, WIDEST * root):
        return close_<i>(shape, slope, q, delta, window, math.inf, 0.0<x>)
    if not told(shape, math.sqrt(delta)):
        return math.nan
    outer_y = np.empty(4 * CAPACITY)
    outer_w = np.empty(4 * CAPACITY)
    s = math.sqrt(delta)
    count = common_nodes(shape, mu, q, delta, s, window, outer_y, outer_w)
    if count < 0:
        return math.nan
    terms = np.zeros(count)
    largest = 0.0
    for stride in (APART, 1):  # at some nodes first: between two at which next to nothing is added there are no others
        for i in range(0, count, stride):
            before = i - i % APART
            least = NOTHING * largest
            if stride == 1 and (i == before or (terms[before] < least and terms[min(before + APART, count - 1)] < least)):
                continue
            if shape[FROM] < outer_y[i] < shape[TO]:
                terms[i] = outer_w[i] * variance_<i>(shape, slope, outer_y[i], s, window, y, w<x>)
                largest = max(largest, terms[i])
    for i in range(count):
        result += terms[i]
    return result
''',
    "two": r'''
def two_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """E f_<i>(u) f_<j>(v) for means m1 and m2, variances q1 and q2 and covariance p."""
    if not (0.0 < q1 < math.inf and 0.0 < q2 < math.inf):
        return math.nan
    if p == 0.0:
        return mean_<i>(first, m1, q1<x>) * mean_<j>(second, m2, q2<y>)
    if abs(p) > math.sqrt(q1) * math.sqrt(q2) * (1.0 + 1e-15):
        return math.nan
    m1 = phase(first, m1)
    m2 = phase(second, m2)
'''
    + _QUIET.replace("<each>", "derivatives[n] * others[n] * power").replace("<by>", "p").replace("<factor>", "")
    + r"""    total = mehler_<i>_<j>(first, second, m1, m2, q1, p, q2<both>)
    if total == total:
        return total
<series>"""
    + _PAIRED.replace("<term>", _SMOOTHED)
    + "    return total\n",
    "weight": r'''
def weight_<i>(shape, mu, s, window, y, w<x>):
    """E |f_<i>| and E r_<i> at mu + s xi, r_<i> the rounding error of f_<i>."""
    mu = phase(shape, mu)
    count = nodes(shape, mu, s, 0.0, max(window, reach_<i>(2.0, shape, mu, s, y, w<x>)), y, w)
    if count < 0:
        return math.nan, math.nan
    size = 0.0
    lost = 0.0
    for i in range(count):
        if w[i] > 0.0:
            here = r_<i>(y[i]<x>)
            size += w[i] * abs(f_<i>(y[i]<x>))
            lost += w[i] * here if here < math.inf else 0.0
    return size, lost
''',
    "weighed": r'''
def weighed_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """What rounding may add to E f_<i>(u) f_<j>(v), in units of 2^-53."""
    if not (0.0 < q1 < math.inf and 0.0 < q2 < math.inf):
        return 64.0 * abs(f_<i>(m1<x>) * f_<j>(m2<y>))
    if p == 0.0 and ((m1 == 0.0 and first[PARITY] < 0.0) or (m2 == 0.0 and second[PARITY] < 0.0)):
        return 0.0  # one of two means is 0
    m1 = phase(first, m1)
    m2 = phase(second, m2)
'''
    + _QUIET.replace("<each>", "abs(derivatives[n] * others[n]) * power").replace("<by>", "abs(p)").replace("<factor>", "64.0 * ")
    + r"""    total = mehlersize_<i>_<j>(first, second, m1, m2, q1, p, q2<both>) if p != 0.0 else math.nan
    if total == total:
        return total
<series>"""
    + _PAIRED.replace("<term>", _WEIGHED)
    + r"""    size = unrolled_size(first, abs(m1) + WINDOW * math.sqrt(q1))
    breaks = np.empty(size)
    jumps = np.empty(size)
    unroll(first, jumps_of(first), breaks, jumps)
    for i in range(size):  # the places of jumps are rounded: what the other variable is where one of them jumps
        z = (breaks[i] - m1) / math.sqrt(q1)
        if jumps[i] != 0.0 and abs(z) < WIDEST:
            other, missed = weight_<j>(second, m2 + math.copysign(rho, p) * math.sqrt(q2) * z, t * math.sqrt(1.0 + rho), window, y, w<y>)
            density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi * q1)
            total += abs(jumps[i] * breaks[i]) * density * (other + UNIT * missed)
    size = unrolled_size(second, abs(m2) + WINDOW * math.sqrt(q2))
    breaks = np.empty(size)
    jumps = np.empty(size)
    unroll(second, jumps_of(second), breaks, jumps)
    for i in range(size):
        z = (breaks[i] - m2) / math.sqrt(q2)
        if jumps[i] != 0.0 and abs(z) < WIDEST:
            other, missed = weight_<i>(first, m1 + math.copysign(rho, p) * math.sqrt(q1) * z, s * math.sqrt(1.0 + rho), window, y, w<x>)
            density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi * q2)
            total += abs(jumps[i] * breaks[i]) * density * (other + UNIT * missed)
    return total
""",
}
