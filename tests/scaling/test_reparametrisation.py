"""W = alpha W_init + beta Delta W trained beside W itself."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

UPDATES = {"sgd": lambda g: g, "adam": np.sign}


@pytest.mark.parametrize("optimizer", UPDATES)
def test_training_is_that_with_another_learning_rate(optimizer: str) -> None:
    """20 steps on |X W - Y|^2: Delta W under eta moves W as W under eta_eff would be"""
    rng = np.random.default_rng(0)
    X, Y, start = rng.normal(size=(9, 5)), rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    alpha, beta, eta = 0.8, 0.3, 1e-2
    rule = mf.scaling.reparametrised(optimizer)(beta=beta)
    update = UPDATES[optimizer]

    def gradient(W: np.ndarray) -> np.ndarray:
        return X.T @ (X @ W - Y)

    plain, delta = alpha * start, np.zeros_like(start)
    for _ in range(20):
        plain = plain - eta * rule["learning_rate"] * update(gradient(plain))
        delta = delta - eta * update(beta * gradient(alpha * start + beta * delta))
    assert np.allclose(alpha * start + beta * delta, plain, rtol=1e-12)


def test_values() -> None:
    beta = sp.Symbol("beta", positive=True)
    assert mf.scaling.reparametrised("sgd").learning_rate == beta**2
    assert mf.scaling.reparametrised("adamw").learning_rate == beta
    assert mf.scaling.reparametrised("lamb").learning_rate == sp.Symbol("r", positive=True)
    assert mf.scaling.reparametrised("adam", alpha=0.5, beta=1 / sp.sqrt(mf.L)).values == {
        "learning_rate": 1 / sp.sqrt(mf.L),
        "init": sp.Rational(1, 2),
    }
    assert mf.scaling.reparametrised((3, 0)).learning_rate == beta**3
    with pytest.raises(ValueError, match=r"beta = 0: expected a positive weight"):
        mf.scaling.reparametrised("sgd", beta=0)
