"""What tables are built of: products of matrices on one thread, Chebyshev polynomials, ln(1 + z) of complex numbers."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from meanfield.gaussian.resolution import _log1p
from meanfield.numeric import matrices
from meanfield.numeric.deviations import polynomials


@pytest.mark.parametrize("shape", [(3, 4, 5), (1500, 28, 400), (28, 3000, 1), (1, 1, 900_000), (700, 300_000, 2), (0, 4, 5), (40, 0, 3)])
def test_products_by_blocks(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    rows, inner, columns = shape
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(rows, inner)), draw.normal(size=(columns, inner)).T
    seen: list[int] = []

    class Seen(np.ndarray):
        def __matmul__(self, other: np.ndarray) -> np.ndarray:
            seen.append(self.shape[0] * self.shape[1] * other.shape[1])
            return np.asarray(self) @ np.asarray(other)

    found = matrices.product(a.view(Seen), b.view(Seen))
    np.testing.assert_allclose(found, a @ b, rtol=1e-9, atol=1e-9)
    assert max(seen, default=0) <= max(matrices.LARGEST, inner)


def test_polynomials_have_their_digits_next_to_the_ends() -> None:
    near = np.array([1e-15, 1e-9, 1e-4, 0.1])
    x = np.concatenate([[-1.0, 0.0, 1.0, 0.3, -0.77], 1.0 - near, near - 1.0])
    found = polynomials(x, 192)
    with mp.workdps(40):
        exact = [[float(mp.chebyt(n, mp.mpf(z))) for n in range(192)] for z in x.tolist()]
    assert np.abs(found - exact).max() < 3e-14
    assert np.abs(found[:, :28] - np.array(exact)[:, :28]).max() < 4e-15


def test_logarithms_next_to_one() -> None:
    z = np.array([1e-12 + 2e-13j, -1e-9 + 1e-9j, 0.3 - 0.2j, -3.0 + 1e-3j, 1e100 + 1e90j])
    with mp.workdps(40):
        exact = np.array([complex(mp.log(1 + mp.mpmathify(v))) for v in z.tolist()])
    np.testing.assert_allclose(_log1p(z), exact, rtol=1e-15)
    np.testing.assert_array_equal(_log1p(z.real[:3]), np.log1p(z.real[:3]))
