"""A moment whose formula has lost letters of its law, E tanh(u) = 0, is evaluated at that law all the same."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf

q, p, delta = mf.q, mf.p, mf.delta


def test_a_constant_has_the_shape_of_the_law() -> None:
    assert mf.evaluate(mf.tanh.mean(q), q=1.0) == 0.0
    assert np.array_equal(mf.evaluate(mf.step.second_moment(q), q=np.ones((2, 3))), np.full((2, 3), 0.5))
    assert np.array_equal(mf.evaluate(mf.identity.gap(q, delta), q=[1.0, 2.0], delta=0.125), [0.125, 0.125])
    assert np.array_equal(mf.evaluate(mf.identity.kernel(mf.q1, p, mf.q2), q1=1.0, p=0.5, q2=[1.0, 2.0]), [0.5, 0.5])
    assert mf.evaluate(mf.step.second_moment(q), q=1, digits=20) == 0.5


@pytest.mark.parametrize(
    ("moment", "law", "word"),
    [
        (mf.tanh.mean(q), {"q": -1.0}, "^q = -1"),
        (mf.identity.gap(q, delta), {"q": 1.0, "delta": -0.1}, "^delta = -0.1"),
        (mf.identity.gap(q, delta), {"q": 1.0, "delta": 2.1}, "^delta = 2.1"),
        (mf.identity.kernel(q, p), {"q": 1.0, "p": 1.5}, "^p = 1.5"),
    ],
    ids=["q", "negative gap", "large gap", "p"],
)
def test_lost_letters_are_held_to_their_range(moment: object, law: dict[str, float], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        mf.evaluate(moment, **law)


@pytest.mark.parametrize(
    ("moment", "given"),
    [(mf.tanh.mean(q), {"q": 1.0, "z": 1.0}), (mf.tanh.mean(q), {"q": 1.0, "q2": 1.0}), (mf.tanh.second_moment(q), {"q": 1.0, "p": 0.5})],
    ids=["unknown", "no law", "second moment"],
)
def test_what_belongs_to_no_law_of_the_moment_is_unused(moment: object, given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="unused names"):
        mf.evaluate(moment, **given)
