"""Many moments of exchangeable variables in one pass, with their slopes, as text: what `<i>`, `<x>`, ... stand for is said in
`quadrature`."""

from __future__ import annotations

__all__ = ["FAMILIES"]

FAMILIES = {
    "given": r'''
def given_<i>_<j>_<k>(shape, slope, bend, mu, s, window, y, w, means, rows, spreading, sloped):
    r"""Means of powers of f_<i> and f_<j> under N(mu, s^2), and what those of f^m move by; rows of f^m less f^m(mu) up to the power
    `spreading`, and of what they move by, at nodes of weights w: how many these are, less than none where they are too many."""
    highest = means.size // 6
    origin = np.empty(highest)
    tilt = np.empty(highest)
    count = nodes_about(shape, slope, mu, s, window, y, w)
    if count < 0:
        return count
    means[:] = 0.0
    at = f_<i>(mu)
    rise = f_<j>(mu)
    for m in range(1, highest):
        tilt[m] = m * raised(at, m - 1.0) * rise
        origin[m] = raised(at, m)
    for i in range(count):
        value = f_<i>(y[i])
        rising = f_<j>(y[i])
        power = 1.0
        last = 0.0
        for m in range(highest):
            part = w[i] * power
            means[m] += part
            means[highest + m] += part * rising
            means[2 * highest + m] += part * rising * rising
            means[5 * highest + m] += part * rising * y[i]
            if 0 < m <= spreading:
                rows[CAPACITY * m + i] = power - origin[m]
            if sloped > 0.0:
                slanted = m * last * rising
                means[3 * highest + m] += w[i] * slanted
                means[4 * highest + m] += w[i] * slanted * (y[i] - mu)
                if 0 < m <= spreading:
                    rows[CAPACITY * (highest + m) + i] = slanted - tilt[m]
                    rows[CAPACITY * (2 * highest + m) + i] = slanted * (y[i] - mu)
            last = power
            power *= value
    if alone(slope, bend, mu, s) and alone(shape, slope, mu, s):  # differences as integrals of slopes: the values are too close
        count = HERMITE_X.size
        for m in range(1, highest):
            means[4 * highest + m] = 0.0
        for i in range(count):
            w[i] = HERMITE_W[i]
            step = s * HERMITE_X[i]
            for m in range(1, highest):
                rows[CAPACITY * m + i] = 0.0
            if sloped > 0.0:
                value = f_<i>(mu + step)
                rising = f_<j>(mu + step)
                for m in range(1, highest):
                    rows[CAPACITY * (highest + m) + i] = 0.0
                    rows[CAPACITY * (2 * highest + m) + i] = m * raised(value, m - 1.0) * rising * step
            for h in range(5):
                z = mu + 0.5 * (1.0 + GAP_X[h]) * step
                value = f_<i>(z)
                rising = f_<j>(z)
                part = 0.5 * GAP_W[h] * step
                for m in range(1, highest):
                    rows[CAPACITY * m + i] += part * m * raised(value, m - 1.0) * rising
                if sloped > 0.0:
                    bent = f_<k>(z)
                    for m in range(1, highest):
                        curved = raised(value, m - 1.0) * bent
                        if m > 1:
                            curved += (m - 1.0) * raised(value, m - 2.0) * rising * rising
                        rows[CAPACITY * (highest + m) + i] += part * m * curved
            if sloped > 0.0:
                for m in range(1, highest):
                    means[4 * highest + m] += w[i] * rows[CAPACITY * (highest + m) + i] * step
    return count
''',
    "family": r'''
def family_<i>_<j>_<k>(shape, slope, bend, q, delta, patterns, wanted, means, spreads, rows, out, g, stride, sloped_too):
    r"""What `exchangeable_<i>_<j>` gives for each row of `patterns`, and, if `sloped_too`, its slopes by the variance and by the gap, as
    rows of `out`.

    They are three blocks of column g of `out`, rows of which are `stride` long; the other arrays are to work in. A row of `patterns` holds
    the four exponents of f_<i>, those of f_<j> = f_<i>', 5 standing for u f_<j>, and whether the last two factors are a covariance. Where
    f_<j> occurs the slopes are nan. f_<k> = f_<j>'. Means of f^m given what is common move by

        \dot E f^m = E m f^{m-1} f' (\mu \dot p/(2 p) + (u - \mu) \dot\delta/(2 \delta)).
    """
    count_of = patterns.size // 9
    highest = means.size // 6
    good = 0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q
    fill_column(out, g, stride, 3 * count_of, 0.0 if good else math.nan)
    if not good:
        return
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    root = math.sqrt(q)
    window = widest(reach_<i>(2.0, shape, 0.0, root, y, w), reach_<j>(2.0, slope, 0.0, root, y, w))
    most = 0.0
    for r in range(count_of):
        total = 1.0
        for t in range(8):
            total += patterns[9 * r + t]
        most = max(most, total)
    window = math.sqrt(window * window + 16.0 * most)
    spreading = 0  # highest power in a covariance
    for m in range(1, highest):
        for n in range(1, highest):
            if wanted[highest * m + n] > 0.0:
                spreading = max(spreading, m, n)
    past = delta > q
    others = np.zeros(means.size)  # means about -mu
    for turn in range(4):
        # beyond delta = q as `exchangeable` goes on: turns 0 and 1 for 2 F(q, q), 2 and 3 for - F(q, 2 q - delta), or for two factors
        if turn >= 2 and not past:
            break
        mirrored = past and turn >= 2
        apart = delta if not past else (q if turn < 2 else 2.0 * q - delta)
        weight = 1.0 if not past else (2.0 if turn < 2 else -1.0)
        by_q = 0.0 if not past else (1.0 if turn < 2 else 2.0)
        by_delta = 1.0 if not past else (0.0 if turn < 2 else -1.0)
        # what is common to the tokens may vanish, its slope does not: values and slopes are then those of two passes
        faint = q - apart < 2e-11 * q
        valued = 1.0 if turn % 2 == 0 else 0.0
        sloped = sloped_too if (turn % 2 == 1 or not faint) else 0.0
        if turn % 2 == 1 and not (faint and sloped_too > 0.0):
            continue
        common = q - apart if valued > 0.0 else 2e-11 * q
        apart = max(apart, 1e-300 * q)
        a = math.sqrt(max(common, 0.0))
        s = math.sqrt(apart)
        outer = 1
        outer_y[0] = 0.0
        outer_w[0] = 1.0
        if a > 1e-8 * root:
            if mirrored:
                outer = opposite_nodes(shape, slope, a, s, window, outer_y, outer_w)
            else:
                outer = nodes_of_two(shape, slope, 0.0, a, s, 0.0, a, s, window, outer_y, outer_w)
        if outer < 0:
            fill_column(out, g, stride, 3 * count_of, math.nan)
            return
        for k in range(outer):
            mu = outer_y[k]
            count = given_<i>_<j>_<k>(shape, slope, bend, -mu, s, window, y, w, others, rows, 0, sloped) if mirrored else 0
            if count >= 0:
                count = given_<i>_<j>_<k>(shape, slope, bend, mu, s, window, y, w, means, rows, spreading, sloped)
            if count < 0:
                fill_column(out, g, stride, 3 * count_of, math.nan)
                return
            if spreading > 0:
                for m in range(1, spreading + 1):
                    shift = 0.0
                    for i in range(count):
                        shift += w[i] * rows[CAPACITY * m + i]
                    for i in range(count):
                        rows[CAPACITY * m + i] -= shift
                for m in range(1, spreading + 1):
                    for n in range(1, spreading + 1):
                        both = highest * m + n
                        if wanted[both] > 0.0:
                            total = 0.0
                            drifted = 0.0
                            spun = 0.0
                            for i in range(count):
                                total += w[i] * rows[CAPACITY * m + i] * rows[CAPACITY * n + i]
                            for i in range(count if sloped > 0.0 else 0):
                                one = w[i] * rows[CAPACITY * m + i]
                                other = w[i] * rows[CAPACITY * n + i]
                                drifted += rows[CAPACITY * (highest + m) + i] * other + one * rows[CAPACITY * (highest + n) + i]
                                spun += rows[CAPACITY * (2 * highest + m) + i] * other + one * rows[CAPACITY * (2 * highest + n) + i]
                            spreads[both] = total
                            spreads[wanted.size + both] = drifted
                            spreads[2 * wanted.size + both] = spun
            drift = 0.5 * mu / common if sloped > 0.0 else 0.0
            spin = 0.5 / apart if sloped > 0.0 else 0.0
            for r in range(count_of):
                spread = patterns[9 * r + 8] > 0.0
                clear = 1.0
                for t in range(4):
                    clear = 0.0 if patterns[9 * r + 4 + t] > 0.0 else clear
                # of u about mu and v about -mu
                pair = past and several(patterns[9 * r : 9 * r + 4], patterns[9 * r + 4 : 9 * r + 8]) == 2
                product = 1.0
                drifting = 0.0
                spinning = 0.0
                first = True
                for t in range(2 if spread else 4):
                    m = int(patterns[9 * r + t])
                    n = int(patterns[9 * r + 4 + t])
                    if m + n > 0:
                        opposite = pair and not first
                        mean = others[n * highest + m] if opposite else means[n * highest + m]
                        drifting = drifting * mean + product * (-others[3 * highest + m] if opposite else means[3 * highest + m])
                        spinning = spinning * mean + product * (others[4 * highest + m] if opposite else means[4 * highest + m])
                        product *= mean
                        first = False
                if spread:
                    m = int(patterns[9 * r + 2])
                    n = int(patterns[9 * r + 3])
                    total = spreads[highest * m + n]
                    drifted = spreads[wanted.size + highest * m + n]
                    spun = spreads[2 * wanted.size + highest * m + n]
                    if pair:  # E f^m(u) (f^n(u) - f^n(v)) is what varies about mu, and half of what changes on both ways to -mu
                        one = 0.5 * (means[m] - others[m])
                        other = means[n] - others[n]
                        total += one * other
                        drifted += 0.5 * (means[3 * highest + m] + others[3 * highest + m]) * other
                        drifted += one * (means[3 * highest + n] + others[3 * highest + n])
                        spun += 0.5 * (means[4 * highest + m] - others[4 * highest + m]) * other
                        spun += one * (means[4 * highest + n] - others[4 * highest + n])
                    drifting = drifting * total + product * drifted
                    spinning = spinning * total + product * spun
                    product *= total
                part = outer_w[k] * ((1.0 if mirrored else 0.0) if pair else weight)
                out[stride * r + g] += valued * part * product
                if clear == 0.0:
                    out[stride * (count_of + r) + g] = math.nan
                    out[stride * (2 * count_of + r) + g] = math.nan
                elif sloped > 0.0:
                    out[stride * (count_of + r) + g] += part * ((1.0 - by_q) * drift * drifting + by_q * spin * spinning)
                    out[stride * (2 * count_of + r) + g] += part * by_delta * (spin * spinning - drift * drifting)
''',
}
