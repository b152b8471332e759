r"""States of which a repeat makes more than the largest double, where sums of its formula are no numbers: \infty - \infty.

A repeat from smaller states, in the same proportion, says what it makes of the variance: q' = C q^m where the last slopes in \log q agree.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["outgrown"]

Floats = NDArray[np.float64]
#: smaller states, as powers of the variance: a repeat from the least three is no more than a double where m < 11
POWERS = np.arange(31, 0, -1) / 32.0
#: variances from which on there is room for them
LARGE = 1e10
#: how far two slopes may be apart, and the largest logarithm of a variance that is a state
AGREED, MOST = 0.02, np.log(1e300)


def outgrown(q: Floats, delta: Floats, repeat: Callable[[Floats, Floats], Floats]) -> NDArray[np.bool_]:
    """Whether a repeat makes more than a double of each state (q, delta), of which it makes no number.

    `repeat` gives the variance after one, from rows of smaller states, NaN where there is none.

    >>> import numpy as np
    >>> outgrown(np.array([1e40, 1e40]), np.array([1e39, 1e39]), lambda q, delta: q ** np.array([7.7, 0.5]))
    array([ True, False])
    """
    found = np.zeros(q.size, dtype=bool)
    large = np.flatnonzero(q >= LARGE)
    if not large.size:
        return found
    begun = np.where(q >= LARGE, q, LARGE)
    less = begun ** POWERS[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = np.log(repeat(less, delta * (less / begun)))
        for g in large.tolist():
            at = np.flatnonzero(np.isfinite(rows[:, g]))[:3]
            if at.size < 3:
                continue
            logs, values = np.log(less[at, g]), rows[at, g]
            slope, before = (values[:-1] - values[1:]) / (logs[:-1] - logs[1:])
            reached = values[0] + slope * (np.log(begun[g]) - logs[0])
            found[g] = abs(slope - before) <= AGREED * abs(slope) and reached > MOST
    return found
