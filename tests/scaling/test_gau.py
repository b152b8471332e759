"""Magnitudes of the gated attention unit: the numbers of the source and theory.md 1, and the law of the whole unit beside them."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

REPORT = mf.scaling.gau(phi=mf.silu, s=128, n=512, d=768, e=1536)


def test_published_estimate() -> None:
    diagonal = REPORT.diagonal
    assert diagonal.A_ii == pytest.approx(0.0316440551253268, rel=1e-13)
    assert diagonal.A_ij == pytest.approx(0.000455656472390703, rel=1e-13)
    assert diagonal.ratio == pytest.approx(69.4471757622562, rel=1e-13)
    assert diagonal.rms == pytest.approx(0.0112581801613421, rel=1e-13)
    assert diagonal.sublayers["adam"] == pytest.approx(89, abs=0.5)
    assert diagonal.sublayers["sgd"] == pytest.approx(7.9e3, rel=0.01)
    assert int(REPORT.crossover) == 201


def test_whole_unit() -> None:
    """Monte Carlo of theory.md 1.2: A_ii 3.34e-2, A_ij 7.2e-4, RMS 0.0557, cosine 0.099; at n = 1024 0.0519"""
    full = REPORT.full
    assert full.A_ii == pytest.approx(3.34e-2, rel=0.01)
    assert full.A_ij == pytest.approx(7.2e-4, rel=0.01)
    assert full.rms == pytest.approx(0.0557, rel=0.02)
    assert full.cosine == pytest.approx(0.099, abs=0.001)
    assert round(full.alpha) == 18
    assert REPORT.over_n([1024]).full[0] == pytest.approx(0.0519, rel=0.02)
    assert REPORT.limit == pytest.approx(REPORT.over_n([1e9]).full[0], rel=1e-6)


def test_the_report_is_the_law_of_the_block() -> None:
    run = mf.propagate(REPORT.block, 1, q=1.0, c=0.0)
    assert REPORT.full.rms**2 == pytest.approx(run.q[-1], rel=1e-12)
    assert REPORT.full.cosine == pytest.approx(run.c[-1], rel=1e-10)


def test_local_exponents() -> None:
    """exact for the diagonal; the whole law answers by 9.29 between 1/2 and 1 in Monte Carlo"""
    curve = REPORT.over_lam([0.5, 1.0])
    assert curve.diagonal == pytest.approx([7.67682369463168, 8.03556432459253], rel=1e-12)
    assert curve.full == pytest.approx([8.66, 9.71], abs=0.06)
    half = mf.propagate(mf.GAU(mf.silu, s=128, n=512, d=768, e=1536, lam=0.5), 1, q=1.0, c=0.0)
    assert half.q[-1] ** 0.5 / REPORT.full.rms == pytest.approx(1.60e-3, rel=0.02)
    h = 1e-4
    ends = [mf.propagate(mf.GAU(mf.silu, s=128, n=512, d=768, lam=1 + k * h), 1, q=1.0, c=0.0).q[-1] for k in (-1, 1)]
    assert np.log(ends[1] / ends[0]) / (2 * np.log((1 + h) / (1 - h))) == pytest.approx(curve.full[1], rel=1e-6)


@pytest.mark.parametrize(
    ("phi", "lam", "expected"),
    [
        (mf.identity, 1.0, 7.0),
        (mf.Activation(mf.x**3), 1.0, 19.0),
        (mf.tanh, 0.5, 5.196650763174),  # these two by differences of propagated moments
        (mf.Activation(mf.x * sp.atan(mf.x) - sp.Rational(1, 4)), 0.5, 10.04482127753),
    ],
)
def test_local_exponents_where_moments_of_features_are_no_positive_numbers(phi: mf.Activation, lam: float, expected: float) -> None:
    """E phi^3 E phi is 0 of an odd function and negative of x atan x - 1/4"""
    curve = mf.scaling.gau(phi, s=16, n=8, d=32, e=64).over_lam([lam])
    assert curve.full == pytest.approx([expected], rel=1e-10)


def test_degree_seven() -> None:
    seven = mf.scaling.degree(mf.GAU(mf.relu))
    assert seven == 7
    assert dict(seven.by_matrix) == {"sigma_U": 1, "sigma_V": 1, "sigma_Z": 4, "sigma_O": 1}


def test_symbols_stay() -> None:
    rule = mf.scaling.gau().rule
    assert {s.name for s in rule.rms.free_symbols} == {"s", "n"}
    assert rule(s=128, n=512)["rms"] == pytest.approx(0.0112581801613421, rel=1e-13)
    assert "nu" in rule.latex()


def test_features_without_a_mean_never_add_up() -> None:
    report = mf.scaling.gau(phi=mf.tanh, s=128, n=512, d=768, e=1536)
    assert (report.crossover, report.diagonal.ratio, report.limit) == (np.inf, np.inf, 0)
    assert "n* = inf" in repr(report)
    assert not {"ratio", "crossover"} & set(report.rule())


def test_sizes_left_out_are_named() -> None:
    report = mf.scaling.gau()
    assert repr(report) == repr(report.rule)
    for call, names in ((lambda: report.full, "n, s, d"), (lambda: report.diagonal, "n, s"), (lambda: report.limit, "s, d")):
        with pytest.raises(ValueError, match=f"^{names}: expected numbers"):
            call()


def test_a_curve_is_over_a_list() -> None:
    for curve, name in ((REPORT.over_n, "n"), (REPORT.over_lam, "lam")):
        with pytest.raises(ValueError, match=rf"^{name}: expected a number or a list of them, got an array of shape \(2, 2\)"):
            curve([[64, 512], [1024, 4096]])


def test_figure() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    ax = REPORT.over_n([64, 512]).plot()
    assert [line.get_label() for line in ax.get_lines()] == ["diagonal", "full"]
    assert ax.get_lines()[1].get_ydata()[1] == pytest.approx(REPORT.full.rms)
