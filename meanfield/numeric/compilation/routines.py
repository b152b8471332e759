"""What of numpy translated source may call, in the language that is translated: each fills arrays that it is given."""

from __future__ import annotations

import numpy as np

__all__ = ["argsort", "fill", "searchsorted", "sum_of"]


def fill(array: np.ndarray, value: float) -> None:
    for i in range(array.size):
        array[i] = value


def sum_of(array: np.ndarray) -> float:
    total = 0.0
    for i in range(array.size):
        total += array[i]
    return total


def searchsorted(array: np.ndarray, value: float) -> int:
    """How many elements of a sorted array are smaller."""
    low = 0
    high = array.size
    while low < high:
        middle = (low + high) // 2
        if array[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def argsort(array: np.ndarray, order: np.ndarray) -> None:
    """The places of the elements, smallest first, equal ones as they stand."""
    for i in range(array.size):
        j = i
        while j > 0 and array[order[j - 1]] > array[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
