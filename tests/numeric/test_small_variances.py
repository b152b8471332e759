"""Closed forms that cancel at small variances, written so that they do not."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian import closed
from meanfield.numeric.large_gaps import NUMBERS
from meanfield.numeric.small_variances import small_cross, small_mean
from meanfield.symbols import known

x, q, delta = mf.x, known("q"), known("delta")

#: where all that cancels are exponentials, and where a series is needed beside them
WAVES = (sp.sin(x), x * sp.sin(x), x + sp.sin(2 * x))
OTHERS = (sp.sin(x) ** 2, sp.exp(-(x**2)) * sp.sin(x), sp.exp(x) - 1)


def worst(form: sp.Expr, small: sp.Expr) -> float:
    """the largest difference of the form in doubles from what it is, against the second moment"""
    true, found = (sp.lambdify((q, delta), e, NUMBERS) for e in (form, small))
    out = mp.mpf(0)
    for v in (1e-9, 1e-3, 0.04, 0.3, 1.7, 30.0):
        for r in (0.0, 1e-9, 0.3, 0.999, 1.001, 1.6, 2.0):
            at = mp.mpf(v), mp.mpf(v * r)
            with mp.workdps(60):
                right, second = true(*at), true(at[0], mp.mpf(0))
            with mp.workprec(53):
                out = max(out, abs(found(*at) - right) / second)
    return float(out)


@pytest.mark.parametrize("f", [*WAVES, *OTHERS], ids=str)
def test_forms_that_cancel_lose_no_digits(f: sp.Expr) -> None:
    for form, small in ((closed.mean(f**2), small_mean(f**2)), (closed.stable_cross(f, f), small_cross(f, f))):
        assert worst(form, small) < 1e-13
    assert worst(closed.stable_cross(f, f), closed.stable_cross(f, f)) > 1e-13  # as it stands it does


@pytest.mark.parametrize("f", WAVES, ids=str)
def test_differences_of_exponentials_need_no_series(f: sp.Expr) -> None:
    for small in (small_mean(f**2), small_cross(f, f)):
        assert small is not None
        assert not small.has(sp.Piecewise)


def test_both_powers_may_be_the_greater_one() -> None:
    """e^{-q} sinh p, which overflows in no factor where the result does not"""
    small = small_cross(sp.sin(x), sp.sin(x))
    for c in (1.0, 0.5, -0.5, -1.0):
        for v in (1.0, 1e3, 1e6):
            value = float(sp.lambdify((q, delta), small, "numpy")(v, v * (1 - c)))
            assert value == pytest.approx(float(mp.exp(-mp.mpf(v)) * mp.sinh(mp.mpf(v) * c)), rel=1e-13, abs=1e-300)
