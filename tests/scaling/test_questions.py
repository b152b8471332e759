"""Questions answered backwards: what comes out is put in again, and what has no answer is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from cases import VIT

import meanfield as mf
from meanfield.scaling import largest_depth, parameter_for_correlation, parameter_for_gradients, parameter_for_growth, parameter_where
from meanfield.scaling.crossings import first_crossing

START = {"depth": 128, "q": 1.0, "p": 0.4}
beta = sp.Symbol("beta", positive=True)


def transformer(norm: mf.Block) -> mf.Block:
    return mf.pre_norm(norm=norm, attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu))


def test_the_slope_of_derf_for_published_gradients() -> None:
    answer = parameter_for_gradients(transformer(mf.Derf()), np.log([57.045940760, 2409.520866832]), bracket=(0.1, 3), **START, **VIT)
    np.testing.assert_allclose(answer.value, [0.5, 1.1], rtol=1e-9)
    assert answer.status.tolist() == ["ok", "ok"]
    assert answer.holds.tolist() == ["below", "below"]
    assert (answer.low <= answer.value).all()
    assert (answer.value <= answer.high).all()
    assert (answer.high - answer.low <= 1e-13 * answer.value).all()
    np.testing.assert_allclose(answer.achieved, answer.target, rtol=1e-12)


def test_growth_like_pre_layer_norm() -> None:
    nets = transformer(mf.Derf()), transformer(mf.LayerNorm())
    answer = parameter_for_growth(*nets, share=37.02808986 / 61.26706080, **START, **VIT)
    assert abs(answer.value - 0.5) < 1e-8
    gradients = parameter_for_growth(*nets, observable="log_apjn", **START, **VIT)
    assert abs(gradients.target - np.log(21.155833385)) < 1e-9
    alone = parameter_for_growth(*nets, **START, **VIT)
    assert (alone.status, alone.value, alone.high) == ("always", 100.0, 100.0)  # the end of the bracket that comes closest
    assert alone.achieved < alone.target


def test_a_grid_with_and_without_answers() -> None:
    net = mf.mlp(mf.relu)
    answer = parameter_where(net, "sigma_w", "log_q", [0.0, 3.0, 900.0, -900.0], depth=10, q=1.0, sigma_b=0, bracket=(0.1, 10))
    exact = np.sqrt(2) * np.exp(np.array([0.0, 0.15]))
    np.testing.assert_allclose(answer.value[:2], exact, rtol=1e-13)
    assert answer.status.tolist() == ["ok", "ok", "always", "never"]
    assert answer.value[2:].tolist() == [10.0, 0.1]  # what comes closest
    assert (answer.low[2:] == 0.1).all()
    for target, status in ((900.0, "always"), (-900.0, "never")):
        lone = parameter_where(net, "sigma_w", "log_q", target, depth=10, q=1.0, sigma_b=0, bracket=(0.1, 10))
        assert (lone.status, lone.value in (10.0, 0.1)) == (status, True)
    assert "2 ok" in repr(answer)


def test_the_branch_scale_that_keeps_tokens_apart() -> None:
    net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, sp.sqrt(2)), scale=beta)
    bounds = np.array([0.25, 0.3, 0.5])
    answer = parameter_for_correlation(net, bounds, depth=300, q=1.0, c=0.2)
    run = mf.propagate(net, 300, 1.0, c=0.2, beta=answer.value)
    np.testing.assert_allclose(run.c[:, -1], bounds, rtol=1e-11)
    np.testing.assert_allclose(answer.achieved, bounds, rtol=1e-12)
    assert answer.holds.tolist() == ["below"] * 3


def test_a_question_whose_answer_is_known_for_scaled_branches() -> None:
    """(1 + beta^2/L)^L = 2 for q of a residual net with a branch of gain 1 and beta/sqrt(L) before it"""
    net = mf.Residual(mf.MLP(mf.relu, 1, sp.sqrt(2)), scale=beta / sp.sqrt(mf.L))
    answer = parameter_where(net, "beta", "log_q", np.log(2), depth=50, q=1.0)
    assert abs(answer.value - np.sqrt(50 * (2 ** (1 / 50) - 1))) < 1e-12


def test_the_largest_depth() -> None:
    sigma = np.array([1.5, 1.42, 1.6])
    answer = largest_depth(mf.mlp(mf.relu), "log_apjn", 3.0, q=1.0, sigma_w=sigma, sigma_b=0)
    np.testing.assert_array_equal(answer.value, np.floor(3.0 / np.log(sigma**2 / 2)))
    bounds = np.array([3.0, 10.0])
    for several in (sigma[0], sigma[:, None]):  # bounds against one setting, and against a grid
        answer = largest_depth(mf.mlp(mf.relu), "log_apjn", bounds, q=1.0, sigma_w=several, sigma_b=0)
        np.testing.assert_array_equal(answer.value, np.floor(bounds / np.log(several**2 / 2)))
    assert largest_depth(mf.mlp(mf.relu), "log_apjn", 1.0, q=1.0, sigma_w=1, sigma_b=0, at_most=100).status == "more"
    none = largest_depth(mf.mlp(mf.relu), "c", 0.1, q=1.0, c=0.2, sigma_w=1, sigma_b=0)
    assert (none.status, none.value, round(none.achieved, 12)) == ("never", 0, 0.2)


def test_the_largest_depth_where_the_law_knows_it() -> None:
    """ln q_L = L ln(1 + b/L^2) falls with L, L ln(1 + b/sqrt(L)) grows"""
    wide = mf.Residual(mf.MLP(mf.relu, 1, sp.sqrt(2)), scale=mf.L ** sp.Rational(-1, 4))
    bounds = np.array([3.0, 10.0])
    answer = largest_depth(wide, "log_q", bounds, q=1.0)
    depths = np.arange(1, 1000)
    values = depths * np.log1p(depths**-0.5)
    np.testing.assert_array_equal(answer.value, [depths[values <= b].max() for b in bounds])
    np.testing.assert_allclose(answer.achieved, [values[values <= b].max() for b in bounds], rtol=1e-12)


def test_crossings_are_found_where_they_are() -> None:
    roots = np.array([0.3, 1.7, 9.0])
    found = first_crossing(lambda x: np.tanh(3 * (x - roots)) + (x - roots) ** 3, 0.01, 100, (3,), 33)
    np.testing.assert_allclose(found.at, roots, rtol=1e-14)
    assert ((found.low <= roots) & (roots <= found.high)).all()
    assert found.count.tolist() == [1, 1, 1]
    several = first_crossing(lambda x: np.sin(x), 0.5, 10.0, (), 65)
    assert (several.count, abs(several.at - np.pi) < 1e-14) == (3, True)
    hit = first_crossing(lambda x: x - 1.0, 0.0, 2.0, (), 3)
    assert (hit.at, hit.count) == (1.0, 1)
    broken = first_crossing(lambda x: np.where(x < 1, np.nan, x - 2), 0.1, 10.0, (), 65)
    assert abs(broken.at - 2) < 1e-14
    none = first_crossing(lambda x: x + 1, 0.1, 10.0, (), 5)
    assert (none.at, none.value, none.low, none.high, none.count) == (0.1, 1.1, 0.1, 10.0, 0)
    assert np.isnan(first_crossing(lambda x: x * np.nan, 0.1, 10.0, (), 5).at)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parameter_where(mf.mlp(mf.relu), "alpha", "log_q", 0.5, depth=3, q=1.0), "has the parameters sigma_b, sigma_w"),
        (lambda: parameter_where(mf.mlp(mf.relu), "sigma_w", "apjn", 0.5, depth=3, q=1.0), "expected one of log_apjn"),
        (lambda: parameter_where(mf.mlp(mf.relu), "sigma_w", "c", 0.5, depth=3, q=1.0), "give one of p, c or gap"),
        (lambda: parameter_where(mf.mlp(mf.relu), "sigma_w", "log_q", 0.5, depth=3, q=1.0, sigma_w=1), "do not give it a value"),
        (lambda: parameter_where(mf.mlp(mf.relu), "sigma_w", "log_q", 0.5, depth=3, q=1.0, bracket=(2, 1)), "low < high"),
        (lambda: parameter_for_correlation(mf.mlp(mf.relu), 1.0, depth=3, q=1.0), "between -1 and 1"),
        (lambda: parameter_for_growth(mf.mlp(mf.relu), mf.mlp(mf.erf), depth=3, q=1.0, gamma=1), "unknown parameters: gamma"),
        (lambda: largest_depth(mf.relu, "c", 0.5, q=1.0, c=0.2), "expected a block"),
        (lambda: largest_depth(mf.mlp(mf.relu), "log_q", 0.5, q=1.0, at_most=0), "at least 1"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
