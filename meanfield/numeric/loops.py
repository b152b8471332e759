r"""The source of a kernel that runs a recursion over depth: the generated step inside hand-written loops, one text per network.

State (q, delta) forward, the row e_1^T T_0 ... T_{l-1} forward, the column T_l ... T_{L-1} (1, start) backward. Gradient factors are
kept as a mantissa and a power of two, so that no depth overflows. The backward pass keeps transfers for one segment of layers at a
time and recomputes the earlier ones, so that memory does not grow with depth.

Points of a grid go through all layers in blocks of LANES, the points of a block in the innermost loops, which have no branches, so
that the compiler makes vector code of them. The last block is filled up with copies of its last point: every point goes through
the same code, wherever it stands. With LANES = 1 the same text is the kernel of a single point, and runs as plain Python.
There what is kept of products waits until they are RECORDS, and their logarithms are vector code too.
"""

from __future__ import annotations

__all__ = ["LOOPS"]

LOOPS = '''
LANES = {lanes}
RECORDS = {records}
{rows}
BIG = 2.0**500
SMALL = 2.0**-500
SUBNORMAL = 2.0**-1022


def workspace(size):
    return np.empty(size)


def logarithm(mantissa, exponent):
    return math.log(mantissa) + exponent * 346.57359027997264  # 500 ln 2


def up(size):
    """What the exponent of a mantissa of that size grows by."""
    return 1.0 if size > BIG else (-1.0 if size < SMALL else 0.0)


def rescale(size):
    """What the mantissa is then multiplied by."""
    return SMALL if size > BIG else (BIG if size < SMALL else 1.0)


def load(s, i, g, values, q0, delta0, L):
    """Point g into lane i of the workspace."""
    s[Q + i] = float(q0[g])  # a Python float in the interpreter, which raises where numpy would warn
    s[DELTA + i] = float(delta0[g])
    s[ALIVE + i] = 1.0
    s[GOOD + i] = L * LAYERS
    s[LEAST + i] = 1e-300 if s[DELTA + i] > 0.0 else 0.0
    {prepare}


def begin(s, i, second):
    """A product of transfers from the left or from the right begins."""
    s[A + i] = 1.0
    s[B + i] = second
    s[E + i] = 0.0
    s[X + i] = 1.0
    s[XE + i] = 0.0
    s[LOWEST + i] = 1.0


{moves}


def multiply(s, w, at, i, fresh):
    """The row times the transfer there, and the chi of the repeat, of which this is the first layer or another; whether it is well
    scaled."""
    {row}
    {chi}
    {whole}
    return {scaled}


def chi_of(s, w, at, i):
    """Of the repeat whose last layer has its transfer there."""
    return {chi_of_repeat}


def multiply_back(s, w, at, i):
    """The transfer there times the column, and whether it is well scaled."""
    {column}
    {chi}
    return {scaled}


def settle(s, i):
    """Mantissas of a product within their range again."""
    a = s[A + i]
    lowest = s[LOWEST + i]
    {size}
    s[LOWEST + i] = a if a < lowest else lowest
    s[A + i] = a * rescale(size)
    s[B + i] *= rescale(size)
    s[E + i] += up(size)
    x = s[X + i]
    s[X + i] = x * rescale(x)
    s[XE + i] += up(x)


def attend(s, m):
    """What became of the points of a block in layer m, where one of them needs it."""
    now = float(m)
    for i in range(LANES):
        q = s[Q + i]
        delta = s[DELTA + i]
        alive = s[ALIVE + i]
        good = s[GOOD + i]
        least = s[LEAST + i]
        fine = (q > 1e-300) & (q < 1e300) & (delta < math.inf)
        s[ALIVE + i] = alive if fine else 0.0
        s[GOOD + i] = good if fine | (alive == 0.0) else now
        sunk = delta if delta < 0.0 else 0.0
        s[LEAST + i] = sunk if (delta < least) & faint(q, delta) else least  # a gap that has gone below is not looked at again
        settle(s, i)


def faint(q, delta):
    """Whether 1 - c has lost its digits, or is so small that no layer tells how small: where q is small as well, it may have them all."""
    return (delta < 1e-300) & ((delta < 1e-300 * q) | (delta < SUBNORMAL))


def lives(s):
    """Whether there is a point in the block that has not gone bad."""
    for i in range(LANES):
        if s[ALIVE + i] > 0.0:
            return True
    return False


def attend_back(s):
    """The same of products on the way back."""
    for i in range(LANES):
        settle(s, i)


def code(q, delta, started, least, mantissa, lowest, good, layers):
    """The status of a point after the last layer."""
    if good < layers:
        return 1 if (q >= 1e300) | ((delta >= 1e300) & (q >= 5e299)) else 2 if q <= 1e-300 else 3
    if not mantissa < math.inf:
        return 6
    if lowest == 0.0:
        return 7
    if faint(q, least) and started > 0.0:
        return 4
    return 5 if lowest < 0.0 else 0


def keep(s, w, r, origin, lanes, pooled, q_out, delta_out, forward):
    """State and forward product of a block as record r."""
    if RECORDS > 1:
        await_logarithm(s, w, r, origin, pooled, q_out, delta_out, forward)
        return
    q_row = q_out[r, origin : origin + lanes]
    delta_row = delta_out[r, origin : origin + lanes]
    forward_row = forward[r, origin : origin + lanes]
    for i in range(lanes):
        q_row[i] = s[Q + i]
        delta_row[i] = s[DELTA + i]
        forward_row[i] = logarithm(s[A + i] + pooled * s[B + i], s[E + i])


def await_logarithm(s, w, r, origin, pooled, q_out, delta_out, forward):
    """The same of a single point, whose product waits."""
    q_out[r, origin] = s[Q]
    delta_out[r, origin] = s[DELTA]
    w[MANTISSAS + r % RECORDS] = s[A] + pooled * s[B]
    w[EXPONENTS + r % RECORDS] = s[E]
    if r % RECORDS == RECORDS - 1 or r == forward.shape[0] - 1:
        put_forward(w, r, origin, forward)


def put_forward(w, r, origin, forward):
    """The logarithms up to record r that wait."""
    logarithms(w, r % RECORDS + 1)
    put(w, r - r % RECORDS, r + 1, origin, forward)


def keep_back(s, w, r, origin, lanes, backward, chi_sum):
    """The product from record r to the end; sums of ln chi are written if they are SPLIT from it."""
    if RECORDS > 1:
        await_logarithm_back(s, w, r, origin, backward, chi_sum)
        return
    backward_row = backward[r, origin : origin + lanes]
    sum_row = chi_sum[r, origin : origin + lanes]
    for i in range(lanes):
        backward_row[i] = logarithm(s[A + i], s[E + i])
        {chi_sum}


def await_logarithm_back(s, w, r, origin, backward, chi_sum):
    """The same of a single point."""
    w[MANTISSAS + r % RECORDS] = s[A]
    w[EXPONENTS + r % RECORDS] = s[E]
    {chi_kept}
    if r % RECORDS == 0:
        put_back(w, r, origin, backward, chi_sum)


def put_back(w, r, origin, backward, chi_sum):
    """The logarithms from record r on that wait."""
    stop = min(r + RECORDS, backward.shape[0])
    logarithms(w, stop - r)
    put(w, r, stop, origin, backward)
    {chi_logs}


def logarithms(w, size):
    """Of the products that wait."""
    for k in range(size):
        w[LOGS + k] = logarithm(w[MANTISSAS + k], w[EXPONENTS + k])


def put(w, start, stop, origin, out):
    """Them as records start to stop of a point."""
    for r in range(start, stop):
        out[r, origin] = w[LOGS + r - start]


def copy(size, target, at, source, start):
    """Rows from one workspace to the other."""
    if at >= 0 and start >= 0:
        for i in range(size):
            target[at + i] = source[start + i]


def row_of(marks, l):
    """The first record that is not before repeat l."""
    low, high = 0, marks.shape[0]
    while low < high:
        middle = (low + high) // 2
        if marks[middle] < l:
            low = middle + 1
        else:
            high = middle
    return low


def sweep(s, w, start, stop, marks, again, halt, L, origin, lanes, pooled, q_out, delta_out, forward, chi_out{shape_names}):
    """Layers start to stop of a block of points, or these again for their transfers, which leaves the product as it was."""
    copy(PRODUCT, s, SAVED, s, A)
    several = marks.shape[0] > 1
    r = row_of(marks, start // LAYERS) if several else 0
    alive = lives(s)
    moves = alive  # to the end of a repeat, whose chi is one number
    for m in range(start, stop):
        if halt[0] > 0:
            return
        if RECORDS > 1 and halt[1] >= 0:
            halt[1] += 1
        position = m % LAYERS
        moves = alive if position == 0 else moves
        l = m // LAYERS
        kept = several and not again and marks[r] == l
        if kept and position == 0:
            keep(s, w, r, origin, lanes, pooled, q_out, delta_out, forward)
        at = FIRST_KEPT + ((m - start) * KEPT if several else 0)
        calm = 0 if moves else LANES
        if moves:
            {advance}
        if calm < LANES:
            attend(s, m)
            alive = lives(s)
        if kept and position == LAYERS - 1:
            chi_row = chi_out[r, origin : origin + lanes]
            for i in range(lanes):
                chi_row[i] = chi_of(s, w, at, i)
            r += 1
    if again:
        copy(PRODUCT, s, A, s, SAVED)


def segments_of(depth, segment):
    """How many segments all layers are."""
    return (max(depth * LAYERS, 1) + segment - 1) // segment


def through(
    origin, last, depth, marks, segment, halt,
    pooled, values, q0, delta0, q_out, delta_out, backward, forward, chi_out, chi_sum, status, good, s, w, starts, scratch{shapes}
):
    """All repeats of the block of points from origin on, in workspaces that lose what they held."""
    layers = depth * LAYERS
    segments = segments_of(depth, segment)
    several = marks.shape[0] > 1
    L = float(depth)
    end = q_out.shape[0] - 1
    lanes = min(LANES, last - origin)
    {unpack}
    for i in range(LANES):
        load(s, i, min(origin + i, last - 1), values, q0, delta0, L)
        begin(s, i, 0.0)
    r = end - 1  # on the way back
    for turn in range(2 * segments if several else segments):
        again = turn >= segments  # on the way back
        k = 2 * segments - 1 - turn if again else turn
        start = k * segment
        stop = min(layers, start + segment)
        if halt[0] > 0:
            return
        if again and k < segments - 1:
            copy(STATE, s, 0, starts, k * STATE)
        if several and not again:
            copy(STATE, starts, k * STATE, s, 0)
        if not again or k < segments - 1:
            sweep(s, w, start, stop, marks, again, halt, L, origin, lanes, pooled, q_out, delta_out, forward, chi_out{shape_names})
        if again:
            for m in range(stop - 1, start - 1, -1):
                calm = 0
                for i in range(LANES):
                    calm += multiply_back(s, w, FIRST_KEPT + (m - start) * KEPT, i)
                if calm < LANES:
                    attend_back(s)
                if r >= 0 and m == marks[r] * LAYERS:
                    keep_back(s, w, r, origin, lanes, backward, chi_sum)
                    r -= 1
        elif turn == segments - 1:
            keep(s, w, end, origin, lanes, pooled, q_out, delta_out, forward)
            for i in range(lanes):
                g = origin + i
                status[g] = code(s[Q + i], s[DELTA + i], delta0[g], s[LEAST + i], s[A + i], s[LOWEST + i], s[GOOD + i], layers)
                good[g] = int(s[GOOD + i])
            if not several:
                for i in range(lanes):
                    backward[0, origin + i] = forward[0, origin + i]
                    {chi_total}
                if depth > 0:
                    for i in range(lanes):
                        chi_out[0, origin + i] = chi_of(s, w, FIRST_KEPT, i)
            else:
                for i in range(LANES):
                    begin(s, i, pooled)
                keep_back(s, w, end, origin, lanes, backward, chi_sum)
    if several:
        for i in range(lanes):
            if s[LOWEST + i] <= 0.0 and status[origin + i] == 0:
                status[origin + i] = 5 if s[LOWEST + i] < 0.0 else 7


def trajectories(
    first, last, depth, marks, segment, halt,
    pooled, values, q0, delta0, q_out, delta_out, backward, forward, chi_out, chi_sum, status, good{shapes}
):
    """The repeats in marks, of which the last is depth, of points first to last. halt[0] > 0 ends it; halt[1] counts the layers of
    a point that a bar is shown of."""
    several = marks.shape[0] > 1
    s = workspace(SIZE)
    w = workspace(FIRST_KEPT + (segment * KEPT if several else KEPT))
    starts = workspace(segments_of(depth, segment) * STATE if several else 1)
    scratch = np.full(SCRATCH, -1.0)  # what was last asked for, of no variance yet
    for origin in range(first, last, LANES):
        through(
            origin, last, depth, marks, segment, halt,
            pooled, values, q0, delta0, q_out, delta_out, backward, forward, chi_out, chi_sum, status, good, s, w, starts, scratch{shapes}
        )
'''
