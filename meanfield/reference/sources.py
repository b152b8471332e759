r"""Where fluctuations of a finite network come from: averages over finitely many units that are independent of each other.

A quantity deviates from its limit by \sum_i d_i \epsilon_i, \epsilon_i the deviation of an average F_i over N units from its mean, so that

    width Var = \sum_ij d_i d_j (width/N) Cov(F_i, F_j)   over averages of the same units, 0 else.

The covariances are those of a sample of units, drawn from the law that units have at infinite width.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Sources", "Units"]


@dataclass(eq=False)
class Units:
    """Coordinates, or heads: `count` of them, independent of each other, with the averages that were taken over them."""

    count: float
    averages: list[tuple[int, Tensor]] = field(default_factory=list)
    same_as: Units | None = None

    @property
    def root(self) -> Units:
        return self if self.same_as is None else self.same_as.root

    def join(self, other: Units) -> Units:
        """Both are the same units from here on: coordinates that are added or multiplied."""
        a, b = self.root, other.root
        if a is not b:
            a.averages += b.averages
            b.same_as = a
        return a


@dataclass
class Sources:
    """All averages of a network; `size` is how many there will be, 0 to count them."""

    size: int
    count: int = 0
    units: list[Units] = field(default_factory=list)

    def zero(self, rows: int) -> Tensor:
        """A quantity that does not fluctuate."""
        return torch.zeros(rows, self.size, dtype=torch.float64)

    def of(self, count: float) -> Units:
        """Units of their own."""
        self.units.append(Units(count))
        return self.units[-1]

    def average(self, units: Units, values: Tensor) -> Tensor:
        """The derivative of averages, by all sources; `values` (sample, sets of inputs, averages) are what each unit contributes."""
        rows = values.shape[-1]
        d = self.zero(rows)
        for row in range(rows):
            if self.size:
                d[row, self.count] = 1.0
                units.root.averages.append((self.count, values[..., row] - values[..., row].mean()))
            self.count += 1
        return d

    def covariances(self, rows: Tensor, width: int) -> NDArray[np.float64]:
        """`width` times the covariance of quantities with these derivatives: (quantity, the same set of inputs and another one)."""
        total = torch.zeros(len(rows), 2, dtype=torch.float64)
        for group in self.units:
            if not group.averages or group.same_as is not None:
                continue
            d = rows[:, [i for i, _ in group.averages]]
            values = torch.stack([values for _, values in group.averages])  # (average, sample, set of inputs)
            flat, size = values.flatten(1), width / group.count
            total[:, 0] += size * (d @ (flat @ flat.T) * d).sum(-1) / flat.shape[1]
            if values.shape[-1] > 1:
                total[:, 1] += size * (d @ (values[..., 0] @ values[..., 1].T) * d).sum(-1) / values.shape[1]
        total[:, 0].clamp_(min=0.0)
        return np.asarray(total.numpy())
