"""The quadrature of one variable, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["MEANS"]

#: the sum that E f and E f^2 share
_SUM = r"""    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    count = nodes(shape, mu, math.sqrt(q), 0.0, reach_<i>(<most>, shape, mu, math.sqrt(q), y, w<x>), y, w)
    if count < 0:
        return math.nan
    total = 0.0
    for i in range(count):
        total += w[i] * f_<i>(y[i]<x>)<power>
    return total
"""

MEANS = {
    "places": r'''
def places_<i>(shape, mu, s, steep, z, w<x>):
    """Fill z with deviations s from mu at which f_<i> is looked at, w with ln |f_<i>| there, 0 left out; return how many there are."""
    breaks = breaks_of(shape)
    count = 0
    for j in range(2 * (PROBES.size + breaks.size)):
        side = 1.0 - 2.0 * (j % 2)
        at = side * PROBES[j // 2] if j < 2 * PROBES.size else probe(breaks, j // 2 - PROBES.size, side, mu, s, steep)
        if abs(at) > PROBES[-1] or count == z.size:
            continue
        size = abs(f_<i>(mu + s * at<x>))
        if 0.0 < size < math.inf:
            z[count] = at
            w[count] = math.log(size)
            count += 1
    return count
''',
    "reach": r'''
def reach_<i>(most, shape, mu, s, y, w<x>):
    """How many deviations s around mu hold all that counts of |f_<i>| and of |f_<i>|^most; nan where the density underflows before."""
    count = places_<i>(shape, mu, s, 1.0, y, w<x>)
    once = twice = -math.inf
    for i in range(count):
        once = max(once, w[i] - 0.5 * y[i] * y[i])
        twice = max(twice, most * w[i] - 0.5 * y[i] * y[i])
    far = WINDOW
    peak = 0.0
    for i in range(count):
        z = abs(y[i])
        if w[i] - 0.5 * z * z == once or most * w[i] - 0.5 * z * z == twice:
            peak = max(peak, z)
        if z > far and (w[i] - 0.5 * z * z > once - NATS or most * w[i] - 0.5 * z * z > twice - NATS):
            far = z
    if peak > 2.0:  # the product at two independent inputs is exp(-peak^2), of which WINDOW is to leave as little
        far = max(far, math.sqrt(2.0 * peak * peak + WINDOW * WINDOW))
    if peak > 0.5 * WINDOW:  # the whole of it is out there
        far = max(far, peak + WINDOW, FAINT + 0.1)
    steps = True
    while steps and far < PROBES[-1]:
        steps = False
        z = far + 0.4
        for side in (-1.0, 1.0):
            size = abs(f_<i>(mu + side * s * z<x>))
            if 0.0 < size < math.inf:
                log = math.log(size)
                steps = steps or log - 0.5 * z * z > once - NATS or most * log - 0.5 * z * z > twice - NATS
            elif size == math.inf and shape[STEEPENING] > 0.0:
                steps = True
        far = z if steps else far
    if far > WIDEST:
        return math.nan if twice > 0.0 or shape[STEEPENING] > 0.0 else WIDEST
    return min(far + wider(shape), WIDEST)
''',
    "mean": r'''
def mean_<i>(shape, mu, q<x>):
    """E f_<i>(u), u ~ N(mu, q)."""
    if not 0.0 < q < math.inf:
        return f_<i>(mu<x>) if q == 0.0 else math.nan
    if mu == 0.0 and shape[PARITY] < 0.0:
        return 0.0
    if mu == 0.0 and math.sqrt(q) < QUIET * shape[RADIUS]:
        return series_mean(q, right_of(shape), left_of(shape))
    mu = phase(shape, mu)
'''
    + _SUM.replace("<power>", "").replace("<most>", "1.0"),
    "square": r'''
def square_<i>(shape, mu, q<x>):
    """E f_<i>(u)^2, u ~ N(mu, q)."""
    if not 0.0 < q < math.inf:
        return f_<i>(mu<x>) ** 2 if q == 0.0 else math.nan
    mu = phase(shape, mu)
'''
    + _SUM.replace("<power>", " ** 2").replace("<most>", "2.0"),
    "measured": r'''
def measured_<i>(shape, mu, q<x>):
    """What rounding may add to E f_<i>(u), u ~ N(mu, q), in units of 2^-53: a Taylor series is good relative to its terms."""
    if not 0.0 < q < math.inf:
        return 64.0 * abs(f_<i>(mu<x>)) + r_<i>(mu<x>) if q == 0.0 else math.nan
    if mu == 0.0 and shape[PARITY] < 0.0:
        return 0.0
    if mu == 0.0 and shape[ANALYTIC] > 0.0 and math.sqrt(q) < QUIET * shape[RADIUS]:
        return 64.0 * series_size(q, right_of(shape), left_of(shape))
    mu = phase(shape, mu)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    total = unsure(shape, mu, math.sqrt(q), 1.0)
    for i in range(nodes(shape, mu, math.sqrt(q), 0.0, reach_<i>(1.0, shape, mu, math.sqrt(q), y, w<x>), y, w)):
        lost = r_<i>(y[i]<x>)
        if w[i] > 0.0:
            total += w[i] * (64.0 * abs(f_<i>(y[i]<x>)) + (lost if lost < math.inf else 0.0))
    return total
''',
    "noise": r'''
def noise_<i>(shape, mu, q<x>):
    """The root of E r_<i>(u)^2, u ~ N(mu, q), r_<i> the rounding error of f_<i>, and what the places of its jumps are unsure of."""
    if not 0.0 < q < math.inf:
        return r_<i>(mu<x>) if q == 0.0 else math.nan
    mu = phase(shape, mu)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    total = 0.0
    for i in range(nodes(shape, mu, math.sqrt(q), 0.0, reach_<i>(2.0, shape, mu, math.sqrt(q), y, w<x>), y, w)):
        lost = r_<i>(y[i]<x>)
        if w[i] > 0.0 and lost < math.inf:  # else what decays faster meets an overflow
            total += w[i] * lost * lost
    return math.sqrt(total) + unsure(shape, mu, math.sqrt(q), 1.0)
''',
    "edges": r'''
def edges_<i>(shape, mu, q<x>):
    """What the places of jumps are unsure of, in E f_<i>(u)^2."""
    return unsure(shape, mu, math.sqrt(q), 2.0) if 0.0 < q < math.inf else 0.0
''',
    "quiet": r'''
def quiet_<i>(shape, mu, q<x>):
    """1 where f_<i> is summed by its Taylor series and never called, else 0."""
    return 1.0 if mu == 0.0 and shape[ANALYTIC] > 0.0 and math.sqrt(q) < QUIET * shape[RADIUS] else 0.0
''',
    "pointed": r'''
def pointed_<i>(shape, mu, q<x>):
    """1 where a singularity of f_<i> is within reach, so that its slope may have no second moment, else 0."""
    return 1.0 if singular(shape, WIDEST * math.sqrt(q)) >= 0.0 else 0.0
''',
}
