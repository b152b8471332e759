"""Arrays some of whose values are no normal doubles, or not to be had: the others are there."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric.abnormal import FAINT

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta

TAIL = mf.Activation(sp.Heaviside(x - 1) + sp.tanh(x))  # beside tanh, whose mean is 0, the step has a mean of 1e-7000
DEAD = mf.Activation(sp.tanh(sp.Max(x - 1, 0)))

#: what an array is of, its arguments, and which of them have no normal double
ARRAYS = {
    "closed, too large": (mf.exp.second_moment(q), {"q": [1.0, 400.0]}, {1: np.inf}),
    "closed, too small": (mf.cos.kernel(q, 0), {"q": [1e-6, 1e3, 1.0]}, {1: 0.0}),
    "a mean": (DEAD.mean(q), {"q": [1e-6, 1e-4, 1.0, 1e3]}, {0: 0.0, 1: 0.0}),
    "a second moment": (DEAD.second_moment(q), {"q": [1.0, 1e-6]}, {1: 0.0}),
    "a kernel": (DEAD.kernel(q, p), {"q": [1.0, 1e-6], "p": [0.5, 1e-7]}, {1: 0.0}),
    "a gap": (DEAD.gap(q, delta), {"q": [1e-6, 1.0, 1e3], "delta": 1e-7}, {0: 0.0}),
    "too large for its density": (mf.Activation(sp.exp(x) * sp.tanh(x)).kernel(q, p), {"q": [1.0, 1e6], "p": [0.5, 3e5]}, {1: np.inf}),
}  # fmt: skip


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize("name", ARRAYS)
def test_the_others_are_there(name: str, error: bool) -> None:
    e, at, marked = ARRAYS[name]
    with pytest.warns(RuntimeWarning, match=rf"{len(marked)} of {len(at['q'])} values"):
        found = mf.evaluate(e, error=error, **at)
    values, bounds = found if error else (found, np.zeros(len(at["q"])))
    for k, v in enumerate(values):
        if k in marked:
            np.testing.assert_equal(v, marked[k])
            assert not error or bounds[k] == (FAINT if v == 0 else np.inf)
        else:
            alone = mf.evaluate(e, **{key: float(np.broadcast_to(a, values.shape)[k]) for key, a in at.items()})
            assert v == pytest.approx(alone, rel=1e-14, abs=0)


def test_alone_they_are_refused() -> None:
    for e, at, marked in ARRAYS.values():
        shape = np.shape(at["q"])
        bad = {key: np.broadcast_to(a, shape)[list(marked)] for key, a in at.items()}
        with pytest.raises(OverflowError, match=f"{len(marked)} of {len(marked)} values"):
            mf.evaluate(e, **bad)


@pytest.mark.parametrize("error", [False, True])
def test_what_underflows_beside_more_is_no_number_less(error: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mf.evaluate(TAIL.mean(q), q=[3e-5, 1e-3, 1.0], error=error)
    values, bounds = found if error else (found, np.full(3, 1e-15))
    assert (values[:2] < 1e-200).all()
    assert abs(values[2] - mf.evaluate(mf.Activation(sp.Heaviside(x - 1)).mean(1), digits=20)) <= bounds[2] < 1e-12


def test_logarithms_see_what_underflows() -> None:
    """to 1e-12 of themselves, of values far below those that cancel beside them"""
    logs = mf.evaluate(TAIL.mean(q), q=[3e-5, 1e-3, 0.02, 1.0], log=True)
    with mp.workdps(40):
        truth = [mp.log(mp.erfc(1 / mp.sqrt(2 * mp.mpf(v))) / 2) for v in (3e-5, 1e-3, 0.02, 1.0)]
    assert all(abs(log - t) <= 1e-12 * abs(t) for log, t in zip(logs, truth, strict=True))


def test_the_logarithm_of_0() -> None:
    assert mf.evaluate(mf.tanh.kernel(q, p), q=[1e-6, 1.0], p=0.0, log=True).tolist() == [-np.inf, -np.inf]
    with pytest.raises(ValueError, match="negative"):
        mf.evaluate(mf.tanh.kernel(q, p), q=1.0, p=[0.3, -0.4], log=True)


AT = sp.Max(x - 1, 0)  # beyond the threshold there is nothing but the tail of the density

#: expressions and arguments whose values lie between the smallest normal double and 1e-300
SMALLEST = {
    "a gap of close inputs, by quadrature": (mf.tanh.gap(q, delta), {"q": 1.0, "delta": 4.9e-308}),
    "a closed gap of close inputs": (mf.relu.gap(q, delta), {"q": 1.0, "delta": 4.7e-308}),
    "a gap of small inputs": (mf.Activation(sp.tanh(x) ** 2).gap(q, delta), {"q": 1e-153, "delta": 3e-154}),
    "a closed mean of a tail": (mf.Activation(AT).mean(q), {"q": 7.2e-4}),
    "a mean of a tail, by quadrature": (mf.Activation(sp.tanh(AT)).mean(q), {"q": 7.2e-4}),
    "a closed gap of a tail": (mf.Activation(sp.Heaviside(x - 1)).gap(q, delta), {"q": 7.11e-4, "delta": 2e-4}),
    "a kernel that falls fast": (mf.cos.kernel(q, p), {"q": 705.0, "p": 0.3}),
}


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_normal_doubles_are_values(name: str) -> None:
    """to 1e-11 of themselves, also where the density that they are made of is subnormal; in an array as alone"""
    e, at = SMALLEST[name]
    value, bound = mf.evaluate(e, error=True, **at)
    truth = mf.evaluate(e, digits=20, **{k: sp.Rational(v) for k, v in at.items()})
    assert FAINT <= value < 1e-300
    assert abs(value - truth) <= max(bound, 1e-323) <= 1e-11 * value
    assert mf.evaluate(e, **{k: [v, v] for k, v in at.items()}).tolist() == [value, value]


def test_a_refusal_shows_a_value_that_it_has() -> None:
    with pytest.raises(OverflowError, match=r"the first is 4\.64403e-311"):
        mf.evaluate(mf.tanh.gap(q, delta), q=1.0, delta=1e-310)
    with pytest.raises(OverflowError, match=r"the first is smaller than 2\.2e-308"):
        mf.evaluate(mf.cos.kernel(q, 0), q=1e4)


def test_the_largest_variances_are_right_or_refused_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    """twice 1e308 is no double; 1 - (2/pi) asin(1 - t) = (2/pi) sqrt(2 t) (1 + t/12 + ...)"""
    with pytest.raises(ArithmeticError):
        mf.evaluate(mf.tanh.gap(mf.q, mf.delta), q=1e308, delta=1e300)
    value = mf.evaluate(mf.erf.gap(mf.q, mf.delta), q=1e308, delta=1e300)
    assert value == pytest.approx(2 / np.pi * np.sqrt(2e-8), rel=1e-9)
    assert mf.evaluate(mf.relu.gap(mf.q, mf.delta), q=1e308, delta=1e300) == pytest.approx(0.5e300, rel=1e-4)
    assert mf.propagate(mf.mlp(mf.softsign), 1, 1e308, c=0.4, sigma_w=1, sigma_b=0).gap[-1] == pytest.approx(1 - 2 / np.pi * np.arcsin(0.4))
    assert not recwarn.list


def test_a_gap_of_minus_0_is_0() -> None:
    assert np.copysign(1.0, mf.evaluate(mf.relu.gap(mf.q, mf.delta), q=1.0, delta=-0.0)) == 1.0


@pytest.mark.parametrize(
    "ask",
    [
        lambda: mf.evaluate(mf.tanh.second_moment(mf.q), q=[1e-300, 1.0], error=True)[0],
        lambda: mf.propagate(mf.mlp(mf.softplus), 3, [1.0, 3.0], c=0.3, sigma_w=1.0, sigma_b=0.1).q,
        lambda: mf.propagate(mf.mlp(mf.silu), 30, 1.0, gap=1e-200, sigma_w=1.0, sigma_b=0.1).q,
    ],
    ids=["evaluate", "tables", "gap"],
)
def test_a_caller_for_whom_underflow_is_an_error(ask: Callable[[], object]) -> None:
    expected = ask()
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(ask(), expected)
