r"""Sums over all pairs of a node of u and one of v, weighed by the normal density of v given u, under many laws: one compiled loop, which
knows nothing of the functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.law_rows import NODES, REACH, Rows
from meanfield.numeric.store import compiled

__all__ = ["BARYCENTRIC", "pair_sums"]

Floats = NDArray[np.float64]

COUNT = NODES.size
#: length on which a normal density is a polynomial of degree 19, in its deviations: (0.9/2)^20/sqrt(20!) = 1e-16
CELL = 1.8
#: 1/prod (t_g - t_j) of Gauss's nodes
BARYCENTRIC = 1.0 / np.prod(NODES[:, None] - NODES + np.eye(COUNT), axis=1)

_SOURCE = f'''"""Sums of f(u) g(v) over pairs of nodes, of which v is normal given u."""

import numpy as np

from meanfield.numeric import elementary as math
from meanfield.numeric.law_rows import NODES
from meanfield.numeric.pair_sums import BARYCENTRIC

LANES = 64


def gathered(first, last, z, w, width, places, weights, sizes):
    """Nodes with weights, and with the moduli of these, for functions that are polynomials of degree 19 on cells of that width: of each
    cell that has more than twice as many nodes as Gauss has, Gauss's. Returns how many there are."""
    count = 0
    i = first
    apart = np.empty({COUNT})
    while i < last:
        low = math.floor(z[i] / width) * width
        j = i + 1
        while j < last and z[j] < low + width:
            j += 1
        if j - i <= 2 * {COUNT}:
            for k in range(i, j):
                places[count + k - i] = z[k]
                weights[count + k - i] = w[k]
                sizes[count + k - i] = abs(w[k])
            count += j - i
            i = j
            continue
        for g in range({COUNT}):
            places[count + g] = low + width * (0.5 + 0.5 * NODES[g])
            weights[count + g] = 0.0
            sizes[count + g] = 0.0
        for k in range(i, j):  # Lagrange polynomials at each node, barycentric
            t = 2.0 * (z[k] - low) / width - 1.0
            for g in range({COUNT}):
                d = t - NODES[g]
                apart[g] = d if d != 0.0 else 1e-300
            product = w[k]
            other = 1.0
            for g in range(0, {COUNT}, 2):
                product *= apart[g]
                other *= apart[g + 1]
            product *= other
            modulus = product if w[k] > 0.0 else -product
            for g in range({COUNT}):
                share = BARYCENTRIC[g] / apart[g]
                weights[count + g] += product * share
                sizes[count + g] += modulus * share
        count += {COUNT}
        i = j
    return count


def fill(starts, u, f, begins, v, g, rho, tau, out, size):
    """out[k], the sum of f g exp(-(v - rho u)^2/2 tau^2)/tau sqrt(2 pi) over the nodes of law k, and size[k], that of |f g|; v given u
    within {REACH} deviations."""
    for k in range(out.shape[0]):
        most = max(starts[k + 1] - starts[k], begins[k + 1] - begins[k])
        x, f_x, of_f = np.empty(most), np.empty(most), np.empty(most)
        y, g_y, of_g = np.empty(most), np.empty(most), np.empty(most)
        cell = {CELL} * tau[k]
        nodes = gathered(starts[k], starts[k + 1], u, f, cell / max(abs(rho[k]), 0.01), x, f_x, of_f)
        count = gathered(begins[k], begins[k + 1], v, g, cell, y, g_y, of_g)
        place = np.empty(count)
        row = np.zeros(count)
        sizes = np.zeros(count)
        scale = 0.7071067811865476 / tau[k]
        for j in range(count):
            place[j] = y[j] * scale
        for i in range(nodes):
            weight = f_x[i]
            size_ = of_f[i]
            if size_ != 0.0:
                middle = rho[k] * x[i] * scale
                first = np.searchsorted(place, middle - {REACH * 0.5**0.5})
                last = np.searchsorted(place, middle + {REACH * 0.5**0.5})
                for j in range(first, last):
                    apart = place[j] - middle
                    bell = math.exp(-apart * apart)
                    row[j] += weight * bell
                    sizes[j] += size_ * bell
        total = 0.0
        whole = 0.0
        for j in range(count):
            total += row[j] * g_y[j]
            whole += sizes[j] * of_g[j]
        out[k] = total * scale * 0.5641895835477563
        size[k] = whole * scale * 0.5641895835477563
'''


def pair_sums(first: Rows, f: Floats, second: Rows, g: Floats, rho: Floats, tau: Floats) -> tuple[Floats, Floats]:
    """Of each law, for weighed values at the nodes of either variable in deviations, correlation rho and tau^2 = 1 - rho^2: the sum, and
    that of moduli."""
    out, size = np.empty(rho.size), np.empty(rho.size)
    compiled(_SOURCE, "fill")(first.starts, first.z, f, second.starts, second.z, g, rho, tau, out, size)
    return out, size
