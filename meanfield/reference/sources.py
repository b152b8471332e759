r"""Where fluctuations of a finite network come from: averages over the coordinates of a Gaussian signal, and how they are correlated.

An average of F(x_i) over n units, E F = 1, has the covariance with that of G(y_i), x and y standard Gaussian of correlation \rho,

    n Cov = E F G - 1 = \sum_{k >= 1} F_k G_k \rho^k   (Hermite coefficients),

and where the norm of x is fixed, and of x' of which x is a part (correlation r), the second term is F_2 G_2 (\rho^2 - r^2): x_i^2 has no
average of its own to fluctuate. A residual stream is one signal at many layers, x_m = s_m x_0 + ... with independent increments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Place", "Sources"]

Floats = NDArray[np.float64]

#: Hermite coefficients of x^2 at unit variance
SQUARE: Final = np.array([0.0, 2**0.5])


@dataclass(frozen=True)
class Place:
    """A signal at a layer: the stream it belongs to, when, the product s of skips so far, and its covariances with itself and other inputs.

    `pin` counts how often its norm was fixed; `pinned` are the covariances then, over s^2.
    """

    stream: int
    time: int
    skip: float
    p: Floats
    units: int
    pin: int = 0
    pinned: Floats | None = None


@dataclass(frozen=True)
class _Average:
    place: Place
    hermite: Floats
    #: number of the average it was made with, and covariances with those of the same number so far
    site: int
    own: tuple[Floats, ...] = ()


@dataclass
class Sources:
    """All sources of a network, times the width; `size` is how many there will be."""

    size: int
    width: int
    averages: dict[int, _Average] = field(default_factory=dict)
    alone: dict[int, tuple[float, Floats, Floats]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.averages) + len(self.alone)

    def _unit(self, index: int) -> Floats:
        unit = np.zeros(self.size)
        unit[index : index + 1] = 1.0
        return unit

    def average(self, place: Place, hermite: Floats, site: int = -1, own: tuple[Floats, ...] = ()) -> Floats:
        """The derivative, with respect to all sources, of an average at a place. `own` are covariances with the averages of the same
        site that were made before it, and with itself; the Hermite sum otherwise."""
        index = self.count
        self.averages[index] = _Average(place, hermite, site, own)
        return self._unit(index)

    def square(self, place: Place) -> Floats:
        """That of the second moment of a signal, over its expectation."""
        return self.average(place, SQUARE)

    def gradient(self, variance: float, units: int, first: Floats, second: Floats) -> Floats:
        """One of the input and its own gradient alone, independent of all others; of variance times 1 + Cov(first, second)."""
        index = self.count
        self.alone[index] = variance * self.width / units, first, second
        return self._unit(index)

    def covariances(self, rows: list[Floats], kinds: int) -> Floats:
        """Of quantities with these derivatives: (quantity, input with itself and with others)."""
        d = np.array(rows)
        total = np.zeros((len(d), kinds))
        groups = list(self._groups(kinds))
        for index, matrices in groups:
            part = d[:, index]
            total += np.einsum("ri,kij,rj->rk", part, matrices, part, optimize=True)
        for i, (variance, first, second) in self.alone.items():
            crossed = 0.0
            if first.any() and second.any():
                crossed = sum(float(first[index] @ matrices[0] @ second[index]) for index, matrices in groups)
            total[:, 0] += d[:, i] ** 2 * variance * (1 + crossed)
        return total

    def _groups(self, kinds: int) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """sources of one stream and their covariance matrices"""
        streams: dict[int, list[int]] = {}
        for i, a in self.averages.items():
            streams.setdefault(a.place.stream, []).append(i)
        for members in streams.values():
            index = np.array(sorted(members, key=lambda i: self.averages[i].place.time))
            yield index, np.array([self._matrix([self.averages[int(i)] for i in index], kind) for kind in range(kinds)])

    def _matrix(self, group: list[_Average], kind: int) -> Floats:
        places = [a.place for a in group]
        s, p, q = (np.array(v) for v in zip(*((x.skip, x.p[kind], x.p[0]) for x in places), strict=True))
        earlier = np.minimum.outer(np.arange(len(group)), np.arange(len(group)))
        spread = np.outer(s, s) / np.sqrt(np.outer(q, q))
        rho = np.clip((p / s**2)[earlier] * spread, -1.0, 1.0)
        pins = np.array([x.pin for x in places])
        pinned = np.array([0.0 if x.pinned is None else x.pinned[kind] for x in places])
        # a norm fixed in between, or the same one
        known = np.where(np.equal.outer(pins, pins), (pinned[earlier] * spread) ** 2, rho**2)
        terms = max(len(a.hermite) for a in group)
        hermite = np.array([np.pad(a.hermite, (0, terms - len(a.hermite))) for a in group])
        found = -np.outer(hermite[:, 1], hermite[:, 1]) * known
        power = np.ones_like(rho)
        for k in range(terms):
            power = power * rho
            found += np.outer(hermite[:, k], hermite[:, k]) * power
        sites = [(a.site, len(a.own), i) for i, a in enumerate(group) if a.own]
        for site, order, i in sites:
            for other, before, j in sites:
                if other == site and before <= order:
                    found[i, j] = found[j, i] = group[i].own[before - 1][kind] - hermite[i, 1] * hermite[j, 1] * known[i, j]
        units = np.array([x.units for x in places])
        return np.asarray(found * self.width / np.sqrt(np.outer(units, units)))
