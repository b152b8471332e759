"""The quadrature of exchangeable variables, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["EXCHANGEABLE"]

EXCHANGEABLE = {
    "averages": r'''
def averages_<i>_<j>(shape, slope, mu, s, window, first, second, factors, y, w, means<both>):
    """Means of the factors under N(mu, s^2), one for each that is not 1, and at how many nodes."""
    count = nodes_about(shape, slope, mu, s, window, y, w)
    means[:] = 0.0
    steep = second[:factors].sum() > 0.0
    for i in range(count if factors else 0):
        value = f_<i>(y[i]<x>)
        derivative = f_<j>(y[i]<y>) if steep else 1.0
        for t in range(factors):
            means[t] += w[i] * raised(value, first[t]) * raised(derivative, second[t])
    return count
''',
    "exchangeable": r'''
def exchangeable_<i>_<j>(shape, slope, q, delta, spread, code<both>):
    r"""E of a product over exchangeable u_t of f_<i>(u_t)^a_t f_<j>(u_t)^b_t, their variances q and covariances q - delta.

    The exponents are the digits of `code`: \sum_t (a_t + 16 b_t) 256^t. With `spread`, the covariance of the last two factors
    given the common part stands for them. Beyond delta = q moments of two are what they are, those of more go on from there as they came:
    2 F(q, q) - F(q, 2 q - delta).
    """
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return math.nan
    first = np.empty(4)
    second = np.empty(4)
    exponents(code, first, second)
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    one = np.empty(CAPACITY)
    other = np.empty(CAPACITY)
    means = np.empty(4)
    others = np.empty(4)
    root = math.sqrt(q)
    window = widest(reach_<i>(2.0, shape, 0.0, root, y, w<x>), reach_<j>(2.0, slope, 0.0, root, y, w<y>))
    window = math.sqrt(window * window + 16.0 * (first.sum() + second.sum()))  # powers reach farther
    pair = delta > q and several(first, second) == 2  # of u about mu and v about -mu
    factors = 0  # of which means are taken
    for t in range(2 if spread > 0.0 and not pair else 4):
        factors = t + 1 if first[t] + second[t] > 0.0 else factors
    bare = second[2] + second[3] == 0.0
    result = 0.0
    for turn in range(2 if delta > q else 1):
        if pair and turn == 0:
            continue
        apart = delta if delta <= q else (q if turn == 0 else 2.0 * q - delta)
        weight = 1.0 if delta <= q or pair else (2.0 if turn == 0 else -1.0)
        a = math.sqrt(q - apart)
        s = max(math.sqrt(apart), 1e-150 * math.sqrt(q))
        outer = 1
        outer_y[0] = 0.0
        outer_w[0] = 1.0
        if a > 1e-8 * math.sqrt(q):
            if pair:
                outer = opposite_nodes(shape, slope, a, s, window, outer_y, outer_w)
            else:
                outer = nodes_of_two(shape, slope, 0.0, a, s, 0.0, a, s, window, outer_y, outer_w)
        if outer < 0:
            return math.nan
        for k in range(outer):
            mu = outer_y[k]
            if pair and averages_<i>_<j>(shape, slope, -mu, s, window, first, second, factors, y, w, others<both>) < 0:
                return math.nan
            count = averages_<i>_<j>(shape, slope, mu, s, window, first, second, factors, y, w, means<both>)
            if count < 0:
                return math.nan
            term = 1.0
            met = 0
            for t in range(2 if spread > 0.0 else factors):
                if first[t] + second[t] > 0.0:
                    term *= others[t] if pair and met > 0 else means[t]
                    met += 1
            if spread > 0.0:
                at = f_<i>(mu<x>)
                rise = f_<j>(mu<y>)
                if bare and alone(shape, slope, mu, s):  # f^k(mu + s xi) - f^k(mu) as an integral of the slope: the values are too close
                    count = HERMITE_X.size
                    for i in range(count):
                        w[i] = HERMITE_W[i]
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
                    origin = raised(at, first[2]) * raised(rise, second[2])
                    opposite = raised(at, first[3]) * raised(rise, second[3])
                    for i in range(count):
                        value = f_<i>(y[i]<x>)
                        derivative = 1.0 if bare else f_<j>(y[i]<y>)
                        one[i] = raised(value, first[2]) * raised(derivative, second[2]) - origin
                        other[i] = raised(value, first[3]) * raised(derivative, second[3]) - opposite
                shift = 0.0
                drift = 0.0
                for i in range(count):
                    shift += w[i] * one[i]
                    drift += w[i] * other[i]
                covariance = 0.0
                for i in range(count):
                    covariance += w[i] * (one[i] - shift) * (other[i] - drift)
                if pair:  # what varies about mu, and half of what changes on both ways to -mu
                    covariance += 0.5 * (means[2] - others[2]) * (means[3] - others[3])
                term *= covariance
            result += weight * outer_w[k] * term
    return result
''',
    "movements": r'''
def movements_<i>_<j>_<k>_<m>(
    shape, slope, rate, bend, mu, s, window, drift, spin, steady, first, second, factors, y, w, means, moves<both>
):
    """Means of the factors under N(mu, s^2) and what they move by, and at how many nodes: mu by `drift` times itself, u - mu by `spin`
    times itself, and u by `steady` besides."""
    count = nodes_about(slope, bend, mu, s, window, y, w)
    breaks, jumps = breaks_of(slope), jumps_of(slope)
    means[:] = 0.0
    moves[:] = 0.0
    for i in range(count):
        value = f_<i>(y[i]<x>)
        rise = f_<j>(y[i]<y>)
        turn = f_<k>(y[i]<z>)
        turned = f_<m>(y[i]<w>)
        move = w[i] * (mu * drift + (y[i] - mu) * spin + steady)
        for t in range(factors):
            m, n = first[t], second[t]
            if m + n > 0.0:
                power = raised(rise, n)
                means[t] += w[i] * raised(value, m) * power
                change = m * raised(value, m - 1.0) * turn * power if m > 0.0 else 0.0
                if n > 0.0:
                    change += n * raised(value, m) * raised(rise, n - 1.0) * turned
                moves[t] += move * change
    for j in range(breaks.size):
        if jumps[j] != 0.0 and second.sum() > 0.0 and steady == 0.0:
            if slope[PERIOD] > 0.0:
                return -1
            z = (breaks[j] - mu) / s
            move = math.exp(-0.5 * z * z) / (s * math.sqrt(2.0 * math.pi)) * (mu * drift + (breaks[j] - mu) * spin)
            value = f_<i>(breaks[j]<x>)
            before = f_<j>(beyond(breaks[j], -1e-300)<y>)
            after = f_<j>(beyond(breaks[j], 1e-300)<y>)
            for t in range(factors):
                moves[t] += move * raised(value, first[t]) * (raised(after, second[t]) - raised(before, second[t]))
    return count
''',
    "moved": r'''
def moved_<i>_<j>_<k>_<m>(shape, slope, rate, bend, q, delta, dot_q, dot_delta, spread, code<both>):
    """The derivative of `exchangeable` along (dot_q, dot_delta), or, if both are 0, along a parameter. f_<j> and f_<m> are the derivatives
    of f_<i> and f_<k>; f_<i>(u) moves by f_<k>(u) times what u moves by, or, along a parameter, by f_<k>(u). Jumps of f_<j> count."""
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return math.nan
    first = np.empty(4)
    second = np.empty(4)
    exponents(code, first, second)
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    root = math.sqrt(q)
    window = widest(reach_<i>(2.0, shape, 0.0, root, y, w<x>), reach_<j>(2.0, slope, 0.0, root, y, w<y>))
    window = widest(window, reach_<m>(2.0, bend, 0.0, root, y, w<w>))
    window = math.sqrt(window * window + 16.0 * (first.sum() + second.sum() + 1.0))
    steady = 1.0 if dot_q == 0.0 and dot_delta == 0.0 else 0.0
    pair = delta > q and several(first, second) == 2  # of u about mu and v about -mu
    factors = 2 if spread > 0.0 and not pair else 4
    means = np.empty(4)
    moves = np.empty(4)
    others = np.empty(4)
    returns = np.empty(4)
    sums = np.empty(4)
    rows = np.empty(4 * CAPACITY)
    result = 0.0
    for turn in range(2 if delta > q else 1):
        if pair and turn == 0:
            continue
        # beyond delta = q as `exchangeable` goes on
        apart = delta if delta <= q else (q if turn == 0 else 2.0 * q - delta)
        widening = dot_delta if delta <= q else (dot_q if turn == 0 else 2.0 * dot_q - dot_delta)
        weight = 1.0 if delta <= q or pair else (2.0 if turn == 0 else -1.0)
        # what is common to the tokens may vanish, or what is not, its derivative does not; a covariance is as small as the latter
        apart = max(apart, (1e-300 if spread > 0.0 and not pair else 1e-11) * q)
        common = max(q - apart, 2e-11 * q)
        a = math.sqrt(common)
        s = math.sqrt(apart)
        drift = 0.5 * (dot_q - widening) / common
        spin = 0.5 * widening / apart
        if pair:
            outer = opposite_nodes(slope, bend, a, s, window, outer_y, outer_w)
        else:
            outer = nodes_of_two(slope, bend, 0.0, a, s, 0.0, a, s, window, outer_y, outer_w)
        if outer < 0:
            return math.nan
        for k in range(outer):
            mu = outer_y[k]
            count = 0
            if pair:
                count = movements_<i>_<j>_<k>_<m>(
                    shape, slope, rate, bend, -mu, s, window, drift, spin, steady, first, second, factors, y, w, others, returns<both>
                )
            if count >= 0:
                count = movements_<i>_<j>_<k>_<m>(
                    shape, slope, rate, bend, mu, s, window, drift, spin, steady, first, second, factors, y, w, means, moves<both>
                )
            if count < 0:
                return math.nan
            product = 1.0
            change = 0.0
            met = 0
            for t in range(2 if spread > 0.0 else factors):
                if first[t] + second[t] > 0.0:
                    opposite = pair and met > 0
                    mean = others[t] if opposite else means[t]
                    change = change * mean + product * (returns[t] if opposite else moves[t])
                    product *= mean
                    met += 1
            if spread > 0.0:
                covariance = 0.0
                response = 0.0
                near = alone(slope, bend, mu, s) and alone(shape, slope, mu, s)
                if near:
                    count = HERMITE_X.size
                    for i in range(count):
                        y[i] = s * HERMITE_X[i]
                        w[i] = HERMITE_W[i]
                else:
                    for i in range(count):
                        y[i] -= mu
                at = f_<i>(mu<x>)
                turn_at = f_<k>(mu<z>)
                sums[:] = 0.0
                for i in range(count):
                    step = y[i]
                    value = f_<i>(mu + step<x>)
                    turn = f_<k>(mu + step<z>)
                    for t in range(2):
                        m = first[2 + t]
                        rows[4 * i + t] = 0.0
                        rows[4 * i + 2 + t] = 0.0
                        slanted = m * raised(value, m - 1.0) * turn
                        if near:  # values and slopes at mu + step and at mu are too close: integrals of what they change by
                            for g in range(5):
                                z = mu + 0.5 * (1.0 + GAP_X[g]) * step
                                inner = f_<i>(z<x>)
                                steep = f_<j>(z<y>)
                                part = 0.5 * GAP_W[g] * step * m
                                rows[4 * i + t] += part * raised(inner, m - 1.0) * steep
                                curved = raised(inner, m - 1.0) * f_<m>(z<w>)
                                if m > 1.0:
                                    curved += (m - 1.0) * raised(inner, m - 2.0) * steep * f_<k>(z<z>)
                                rows[4 * i + 2 + t] += part * curved
                        else:
                            rows[4 * i + t] = raised(value, m) - raised(at, m)
                            rows[4 * i + 2 + t] = slanted - m * raised(at, m - 1.0) * turn_at
                        rows[4 * i + 2 + t] = rows[4 * i + 2 + t] * (mu * drift + steady) + slanted * step * spin
                    for t in range(4):
                        sums[t] += w[i] * rows[4 * i + t]
                for i in range(count):
                    one = rows[4 * i] - sums[0]
                    other = rows[4 * i + 1] - sums[1]
                    covariance += w[i] * one * other
                    response += w[i] * ((rows[4 * i + 2] - sums[2]) * other + one * (rows[4 * i + 3] - sums[3]))
                if pair:  # what varies about mu, and half of what changes on both ways to -mu
                    covariance += 0.5 * (means[2] - others[2]) * (means[3] - others[3])
                    response += 0.5 * (moves[2] - returns[2]) * (means[3] - others[3])
                    response += 0.5 * (means[2] - others[2]) * (moves[3] - returns[3])
                change = change * covariance + product * response
            result += weight * outer_w[k] * change
    return result
''',
}
