"""The quadrature of exchangeable variables, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["EXCHANGEABLE"]

EXCHANGEABLE = {
    "exchangeable": r'''
def exchangeable_<i>_<j>(shape, slope, q, delta, spread, code<both>):
    r"""E of a product over exchangeable u_t of f_<i>(u_t)^a_t f_<j>(u_t)^b_t u_t^c_t, their variances q and covariances q - delta.

    The exponents are the digits of `code`: \sum_t (a_t + 16 b_t + 128 c_t) 256^t. With `spread`, the covariance of the last two factors
    given the common part stands for them. For delta > q, where nothing is common, the moment is continued from delta = q, linear in
    the covariance.
    """
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return math.nan
    first = np.empty(4)
    second = np.empty(4)
    third = np.empty(4)
    for t in range(4):
        first[t] = code % 16.0
        code = (code - first[t]) / 16.0
        second[t] = code % 8.0
        code = (code - second[t]) / 8.0
        third[t] = code % 2.0
        code = (code - third[t]) / 2.0
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    one = np.empty(CAPACITY)
    other = np.empty(CAPACITY)
    means = np.empty(4)
    if third.sum() > 0.0:  # the inputs themselves have no period
        shape = aperiodic(shape)
    root = math.sqrt(q)
    window = max(reach_<i>(shape, 0.0, root, y, w<x>), reach_<j>(slope, 0.0, root, y, w<y>))
    window = math.sqrt(window * window + 16.0 * (first.sum() + second.sum() + third.sum()))  # powers reach farther
    factors = 2 if spread > 0.0 else 4
    bare = second[2] + third[2] + second[3] + third[3] == 0.0
    result = 0.0
    for turn in range(2 if delta > q else 1):
        apart = delta if delta <= q else (q if turn == 0 else 2.0 * q - delta)
        weight = 1.0 if delta <= q else (2.0 if turn == 0 else -1.0)
        a = math.sqrt(q - apart)
        s = max(math.sqrt(apart), 1e-150 * math.sqrt(q))
        outer = 1
        outer_y[0] = 0.0
        outer_w[0] = 1.0
        if a > 1e-8 * math.sqrt(q):
            outer = nodes_of_two(shape, slope, 0.0, a, s, 0.0, a, s, window, outer_y, outer_w)
        if outer < 0:
            return math.nan
        for k in range(outer):
            mu = outer_y[k]
            count = nodes_of_two(shape, slope, mu, s, 0.0, mu, s, 0.0, window, y, w)
            if count < 0:
                return math.nan
            means[:] = 0.0
            for i in range(count):
                value = f_<i>(y[i]<x>)
                derivative = f_<j>(y[i]<y>)
                for t in range(factors):
                    means[t] += w[i] * raised(value, first[t]) * raised(derivative, second[t]) * raised(y[i], third[t])
            term = weight * outer_w[k]
            for t in range(factors):
                if first[t] + second[t] + third[t] > 0.0:
                    term *= means[t]
            if spread > 0.0:
                at = f_<i>(mu<x>)
                rise = f_<j>(mu<y>)
                if bare and alone(shape, slope, mu, s):  # f^k(mu + s xi) - f^k(mu) as an integral of the slope: the values are too close
                    count = HERMITE_X.size
                    for i in range(count):
                        w[i] = HERMITE_W[i] / math.sqrt(2.0 * math.pi)
                        step = s * HERMITE_X[i]
                        one[i] = 0.0
                        other[i] = 0.0
                        for g in range(5):
                            z = mu + 0.5 * (1.0 + GAP_X[g]) * step
                            value = f_<i>(z<x>)
                            change = 0.5 * GAP_W[g] * step * f_<j>(z<y>)
                            one[i] += change * first[2] * raised(value, first[2] - 1.0)
                            other[i] += change * first[3] * raised(value, first[3] - 1.0)
                else:
                    origin = raised(at, first[2]) * raised(rise, second[2]) * raised(mu, third[2])
                    opposite = raised(at, first[3]) * raised(rise, second[3]) * raised(mu, third[3])
                    for i in range(count):
                        value = f_<i>(y[i]<x>)
                        derivative = f_<j>(y[i]<y>)
                        one[i] = raised(value, first[2]) * raised(derivative, second[2]) * raised(y[i], third[2]) - origin
                        other[i] = raised(value, first[3]) * raised(derivative, second[3]) * raised(y[i], third[3]) - opposite
                shift = 0.0
                drift = 0.0
                for i in range(count):
                    shift += w[i] * one[i]
                    drift += w[i] * other[i]
                covariance = 0.0
                for i in range(count):
                    covariance += w[i] * (one[i] - shift) * (other[i] - drift)
                term *= covariance
            result += term
    return result
''',
}
