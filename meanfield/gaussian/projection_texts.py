"""The quadrature of projections on Hermite polynomials, as text: what `<i>`, `<x>`, ... stand for is said in `quadrature`."""

from __future__ import annotations

__all__ = ["PROJECTIONS"]

_NODES = r"""    if not 0.0 < q < math.inf:
        return 0.0 if q == 0.0 else math.nan
    if shape[PARITY] * (1.0 - 2.0 * (n % 2.0)) < 0.0:
        return 0.0
    s = math.sqrt(q)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    count = nodes_of_degree(shape, n, s, reach_<i>(1.0, shape, 0.0, s, y, w<x>), y, w)
    if count < 0:
        return math.nan
    total = 0.0
"""

PROJECTIONS = {
    "projected": r'''
def projected_<i>(shape, n, q<x>):
    """E f_<i>(u) h_n(u/sqrt(q)), u ~ N(0, q)."""
'''
    + _NODES
    + r"""    for i in range(count):
        total += w[i] * f_<i>(y[i]<x>) * normalised_hermite(n, y[i] / s)
    return total
""",
    "projectedsize": r'''
def projectedsize_<i>(shape, n, q<x>):
    """E |f_<i>(u) h_n(u/sqrt(q))|, u ~ N(0, q), times what the steps of the recurrence add to its rounding."""
'''
    + _NODES
    + r"""    for i in range(count):
        total += w[i] * abs(f_<i>(y[i]<x>) * normalised_hermite(n, y[i] / s))
    return total * (1.0 + 0.1 * n)
""",
    "measuredprojected": r'''
def measuredprojected_<i>(shape, n, q<x>):
    """What rounding may add to E f_<i>(u) h_n(u/sqrt(q)), u ~ N(0, q), in units of 2^-53: of f_<i>, of jumps, of the recurrence."""
'''
    + _NODES
    + r"""    for i in range(count):
        lost = r_<i>(y[i]<x>)
        total += w[i] * abs(normalised_hermite(n, y[i] / s)) * (
            (64.0 + 8.0 * n) * abs(f_<i>(y[i]<x>)) + (lost if lost < math.inf else 0.0)
        )
    return total + unsure_of_degree(shape, n, 0.0, s)
""",
}
