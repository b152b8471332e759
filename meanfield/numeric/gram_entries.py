r"""Blocks that act on each token by itself, on the entries of a Gram matrix: by covariances where these are small, by what they lack of
their bound where that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.numeric.duals import Varied, linearly, plain
from meanfield.numeric.gram_laws import EntryLaws
from meanfield.numeric.gram_state import Grams
from meanfield.numeric.lacking import assembled, lack_at, selected
from meanfield.numeric.merged import pair_at
from meanfield.numeric.pointwise import number_at

__all__ = ["entries_at"]

#: relative error that a difference of variances may make, also of what is steep, and that of a double
ORDERS, SMOOTH, EPS = 1e-15, 1e-20, 2.0**-53

Bools = NDArray[np.bool_]
Values = Mapping[str, Varied]


def entries_at(laws: EntryLaws, G: Grams, values: Values) -> tuple[Grams, Varied, Callable[[], Varied] | None]:
    """What becomes of a Gram matrix, the factors of perturbations, and what is added to the tangent kernel, if that is known."""
    n = G.shape[-1]
    i, j = np.triu_indices(n, 1)
    diagonal = G.diagonal
    inner = {name: v[..., None] for name, v in values.items()}
    own = {**inner, "q": diagonal}
    whole = np.broadcast_shapes(G.shape[:-2], *(v.shape for v in values.values()))
    first, second = diagonal[..., i], diagonal[..., j]
    pairs = _Pairs(laws, {**inner, "q1": first, "q2": second, "p": G.matrix[..., i, j], "delta": G.lack[..., i, j]}, (*whole, len(i)))

    def matrix(same: Varied, pair: Varied) -> Varied:
        def placed(same: Varied, pair: Varied) -> Varied:
            out = np.empty((*whole, n, n))
            out[..., range(n), range(n)] = same
            if n > 1:
                out[..., i, j] = out[..., j, i] = pair
            return out

        return linearly(placed, same, pair)

    def at(k: int) -> Varied:
        return matrix(number_at(laws.same[k], own), pairs.linear(k) if n > 1 else np.zeros(()))

    after = np.broadcast_to(number_at(laws.same[0], own), (*whole, n))
    roots = np.sqrt(after)
    p, lack = pairs.moved(roots[..., i] * roots[..., j]) if n > 1 else (np.zeros(()), np.zeros(()))
    tangent = (lambda: at(2)) if len(laws.same) > 2 else None
    return Grams(matrix(after, p), matrix(np.zeros(()), lack)), at(1), tangent


class _Pairs:
    """Pairs of tokens at arrays of values that broadcast with a shape: which are near, and which of these as good as one variance."""

    def __init__(self, laws: EntryLaws, values: Values, shape: tuple[int, ...]) -> None:
        self.laws, self.values, self.shape = laws, values, shape
        with np.errstate(all="ignore"):
            one, two = plain(values["q1"]), plain(values["q2"])
            bound = np.sqrt(one) * np.sqrt(two)
            part = plain(values["delta"]) / bound
            # of second order in the difference of variances; where slopes jump, beside what rounding of p makes of an angle
            slack = ORDERS + np.minimum(EPS / np.sqrt(part), EPS**0.5) if _jumps(laws.pair[1]) else SMOOTH
            alike = (one == two) | (((one - two) / (one + two)) ** 2 < slack)
            self.near = np.broadcast_to(part < 0.5, shape)
            self.alike = np.broadcast_to((part < 0.5) & alike, shape)

    def linear(self, k: int) -> Varied:
        """The factor of a perturbation, or part of the tangent kernel."""
        return self._assembled([(self.alike, self._one(k)), (~self.alike, lambda at: pair_at(self.laws.pair[k], at))])

    def moved(self, bound: Varied) -> tuple[Varied, Varied]:
        """Covariances and what they lack of their bound, each taken for itself where it is the smaller."""
        lack, p = self._lack(self.near), self._covariance(~self.near)
        with np.errstate(over="ignore", invalid="ignore"):  # next to the largest doubles
            p, lack = _split(self.near, bound - lack, p), _split(self.near, lack, bound - p)
            near = plain(lack) < plain(bound) / 2
        left, met = self.near & ~near, ~self.near & near
        if left.any():
            p = _split(left, self._covariance(left), p)
            lack = _split(left, bound - p, lack)
        if met.any():
            lack = _split(met, self._lack(met), lack)
            p = _split(met, bound - lack, p)
        return p, lack

    def _covariance(self, where: Bools) -> Varied:
        return self._assembled([(where, lambda at: pair_at(self.laws.pair[0], at))])

    def _lack(self, where: Bools) -> Varied:
        equal = where & (plain(self.values["q1"]) == plain(self.values["q2"]))
        found = self._assembled([(equal, self._one(0)), (where & ~equal, lambda at: lack_at(self.laws.lack, at))])
        return np.clip(found, 0.0, np.inf)

    def _one(self, k: int) -> Callable[[dict[str, Varied]], Varied]:
        """a law at one variance, which that of both is"""
        return lambda at: number_at(self.laws.equal[k], {**at, "q": at["q1"] / 2 + at["q2"] / 2})

    def _assembled(self, parts: list[tuple[Bools, Callable[[dict[str, Varied]], Varied]]]) -> Varied:
        found = [(where, _filled(law(selected(self.values, where)), where)) for where, law in parts if where.any()]
        return assembled(self.shape, found)


@cache
def _jumps(slopes: sp.Expr) -> bool:
    """whether the factor of a perturbation is of slopes that jump"""
    return bool(slopes.has(sp.Heaviside, sp.sign, sp.Piecewise))


def _filled(a: Varied, where: Bools) -> Varied:
    """a number for each place, also where it depends on nothing"""
    return np.broadcast_to(a, (int(where.sum()),))


def _split(where: Bools, one: Varied, other: Varied) -> Varied:
    def split(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(where, a, b)

    return linearly(split, one, other)
