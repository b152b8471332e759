"""Where a repeat takes a state, beside what it adds to it, and slopes beside what they differ from 1 by: neither by subtraction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Moved", "Rate", "comes_apart", "identical_through", "pair_through", "transfer_through"]

Floats = NDArray[np.float64]
#: the state before a stage -> the rows of `skips` there, and a bound on the rounding of the first
Stage = Callable[..., tuple[Sequence[Any], Any]]

#: of one operation, with a little beside
ROUNDING = 3e-16


@dataclass(frozen=True)
class Moved:
    """A positive variable before a repeat, after it, and what the repeat added; the size of the terms that this is the sum of, and a bound
    on the error that its branches brought."""

    start: Floats
    at: Floats
    added: Floats
    size: Floats
    error: Floats

    @classmethod
    def unmoved(cls, at: Floats) -> Moved:
        return cls(at, at, *np.zeros((3, at.size)))

    def through(self, branch: Floats, skip: Floats, skip_less_1: Floats, slope: Floats | float = 0.0, bound: Floats | float = 0.0) -> Moved:
        """After a stage that makes skip s + branch of s."""
        with np.errstate(all="ignore"):
            fresh = skip == 0
            added = np.where(fresh, branch - self.start, skip_less_1 * self.at + branch + self.added)
            own = np.where(skip == 1, 0.0, (1 + np.abs(skip)) * np.where(fresh, self.start, self.at))  # a skip of 1 is exact
            passed = (np.abs(skip) + np.abs(branch / self.at)) * self.size
            size = np.where(self.size > 0, passed, 0.0) + 2 * np.abs(branch) + own
            error = np.where(self.error > 0, np.abs(slope) * self.error, 0.0) + bound  # a slope may be infinite
            return Moved(self.start, skip * self.at + branch, added, size, error)

    @property
    def growth(self) -> Floats:
        """ln of the ratio of after to before"""
        with np.errstate(all="ignore"):
            return np.where(self._near, np.log1p(self.added / self.start), np.log(self.at / self.start))

    def growth_slope(self, rate: Rate) -> Floats:
        """d growth/d ln start, from the slope of what comes out"""
        with np.errstate(all="ignore"):
            apart = self.start * rate.value / self.at - 1
            return np.where(self._near, (rate.less_1 - self.added / self.start) * self.start / self.at, apart)

    @property
    def _near(self) -> NDArray[np.bool_]:
        return np.abs(self.added) < self.start / 2

    @property
    def noise(self) -> Floats:
        """what `growth` is known to, in units of a rounding"""
        return self.size / np.maximum(self.start, self.at)

    @property
    def growth_error(self) -> Floats:
        """a bound on the error of `growth`"""
        with np.errstate(all="ignore"):
            return np.where(self.at == 0, 0.0, self.error / self.at + ROUNDING * self.noise)


@dataclass(frozen=True)
class Rate:
    """A slope, or matrices of them (points, 2, 2), beside what it differs from 1 by."""

    value: Floats
    less_1: Floats

    def __mul__(self, other: Rate) -> Rate:
        with np.errstate(invalid="ignore"):  # chi is infinite where phi jumps
            both = np.where(self.less_1 == 0, 0.0, self.less_1 * other.value)
        return Rate(self.value * other.value, both + other.less_1)

    def __matmul__(self, other: Rate) -> Rate:
        with np.errstate(invalid="ignore"):
            return Rate(self.value @ other.value, self.less_1 + other.less_1 + self.less_1 @ other.less_1)

    @property
    def log(self) -> Floats:
        with np.errstate(all="ignore"):
            return np.where(np.abs(self.less_1) < 0.5, np.log1p(self.less_1), np.log(self.value))

    def take(self, part: NDArray[Any]) -> Rate:
        return Rate(self.value[part], self.less_1[part])


def comes_apart(gap: Moved, chi: Rate) -> NDArray[np.bool_]:
    """Whether a gap that is next to nothing becomes far more than chi times that: then c = 1 is no fixed point."""
    return np.asarray(gap.growth > chi.log + 1)


def identical_through(at: Floats, stages: Iterable[Stage]) -> tuple[Moved, Rate, Rate]:
    """q', dq'/dq and d delta'/d delta at delta = 0."""
    moved, along, across = Moved.unmoved(at), _one(at), _one(at)
    for stage in stages:
        (branch, slope, other, skip, skip_less_1, c, c_less_1), bound = stage(moved.at)
        moved = moved.through(branch, skip, skip_less_1, skip + slope, bound)
        along, across = along * Rate(skip + slope, skip_less_1 + slope), across * Rate(c + other, c_less_1 + other)
    return moved, along, across


def pair_through(at: Floats, d: Floats, stages: Iterable[Stage]) -> tuple[Moved, Moved, Rate]:
    """q', delta' and the Jacobian (2, 2, points), the identity where the rows hold no slopes."""
    moved, gap, jacobian = Moved.unmoved(at), Moved.unmoved(d), _one_each(at.size)
    for stage in stages:
        (branch, other, a, a_less_1, c, c_less_1, *slopes), bound = stage(moved.at, gap.at)
        if slopes:
            jacobian = _beside_identity(slopes, (a, c), (a_less_1, c_less_1)) @ jacobian
        moved = moved.through(branch, a, a_less_1, a + slopes[0] if slopes else 0.0, bound)
        gap = gap.through(other, c, c_less_1)
    return moved, gap, Rate(np.moveaxis(jacobian.value, 0, 2), np.moveaxis(jacobian.less_1, 0, 2))


def transfer_through(at: Floats, d: Floats, stages: Iterable[Stage]) -> Rate:
    """The transfer of the repeat (points, 2, 2) beside the identity."""
    product = _one_each(at.size)
    for stage in stages:
        (at, d, *entries, a, a_less_1, c, c_less_1), _ = stage(at, d)
        product = product @ _beside_identity(entries, (a, c), (a_less_1, c_less_1))
    return product


def _one(at: Floats) -> Rate:
    return Rate(np.ones(at.size), np.zeros(at.size))


def _one_each(count: int) -> Rate:
    return Rate(np.broadcast_to(np.eye(2), (count, 2, 2)), np.zeros((count, 2, 2)))


def _beside_identity(entries: Sequence[Floats], diagonal: tuple[Floats, Floats], less_1: tuple[Floats, Floats]) -> Rate:
    matrix = np.moveaxis(np.array(np.broadcast_arrays(*entries)).reshape(2, 2, -1), 2, 0)

    def beside(own: tuple[Floats, Floats]) -> Floats:
        result = matrix.copy()
        result[:, 0, 0] += own[0]
        result[:, 1, 1] += own[1]
        return result

    return Rate(beside(diagonal), beside(less_1))
