r"""Forward mode on arrays: a value and its derivatives along several directions, through the same lines of code as the value alone.

    f(x + \epsilon \dot x) = f(x) + \epsilon f'(x) \dot x,   \epsilon^2 = 0.

A `Dual` answers numpy's operators and the functions named here; anything else is refused by numpy with a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

__all__ = ["Dual", "Varied", "linearly", "plain", "times"]

Floats = NDArray[np.float64]
#: an array of doubles, or a `Dual` in its place
Varied = Any


class Dual(NDArrayOperatorsMixin):
    """`value` of any shape, and `dots` of shape (directions, *value.shape)."""

    def __init__(self, value: Floats, dots: Floats) -> None:
        self.value = np.asarray(value)
        self.dots = np.broadcast_to(dots, (len(dots), *self.value.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, key: Any) -> Dual:
        return Dual(self.value[key], self.dots[(slice(None), *(key if isinstance(key, tuple) else (key,)))])

    def sum(self, axis: Any = None) -> Varied:
        return linearly(lambda a: a.sum(axis), self)

    def reshape(self, *shape: int) -> Varied:
        return linearly(lambda a: a.reshape(*shape), self)

    def dots_in(self, dimensions: int) -> Floats:
        """The derivatives, beside arrays of so many dimensions."""
        return self.dots.reshape(len(self.dots), *[1] * (dimensions - self.value.ndim), *self.shape)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        rule = _RULES.get(ufunc)
        if rule is None or method != "__call__" or kwargs:
            return NotImplemented
        values = [plain(a) for a in inputs]
        value = ufunc(*values)
        dots = [a.dots_in(np.ndim(value)) if isinstance(a, Dual) else None for a in inputs]
        parts = [part(dot, *values, value) for part, dot in zip(rule, dots, strict=True) if dot is not None]
        return Dual(value, sum(parts[1:], parts[0]))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.clip:  # of rounding alone
            return Dual(np.clip(*map(plain, args), **kwargs), args[0].dots)
        if function not in _LINEAR:
            return NotImplemented
        if function is np.concatenate:
            return linearly(lambda *parts: np.concatenate(parts, *args[1:], **kwargs), *args[0])
        return linearly(lambda a: function(a, *args[1:], **kwargs), args[0])


def plain(a: Varied) -> Floats:
    """The value."""
    return a.value if isinstance(a, Dual) else np.asarray(a)


def times(a: Floats, b: Floats) -> Floats:
    """What moves a product: what does not move, or is not there, adds nothing, whatever it is multiplied by."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


def linearly(f: Callable[..., Floats], *arrays: Varied) -> Varied:
    """A function that is linear in all of its arguments together."""
    value = f(*map(plain, arrays))
    count = next((len(a.dots) for a in arrays if isinstance(a, Dual)), None)
    if count is None:
        return value
    dots = [f(*(a.dots[k] if isinstance(a, Dual) else np.zeros(np.shape(a)) for a in arrays)) for k in range(count)]
    return Dual(value, np.array(dots).reshape(count, *np.shape(value)))


_LINEAR = {np.broadcast_to, np.concatenate, np.diagonal, np.moveaxis, np.swapaxes, np.trace}

#: for each argument what its derivative adds to that of the result: of the derivative, the arguments and the result
_RULES: Mapping[np.ufunc, tuple[Callable[..., Any], ...]] = {
    np.add: (lambda da, a, b, c: da, lambda db, a, b, c: db),
    np.subtract: (lambda da, a, b, c: da, lambda db, a, b, c: -db),
    np.multiply: (lambda da, a, b, c: times(da, b), lambda db, a, b, c: times(a, db)),
    np.matmul: (lambda da, a, b, c: da @ b, lambda db, a, b, c: a @ db),
    np.divide: (lambda da, a, b, c: da / b, lambda db, a, b, c: -c / b * db),
    np.exp: (lambda da, a, c: da * c,),
    np.cos: (lambda da, a, c: -np.sin(a) * da,),
    np.log: (lambda da, a, c: da / a,),
    np.sqrt: (lambda da, a, c: da / (2 * c),),
    np.negative: (lambda da, a, c: -da,),
}
