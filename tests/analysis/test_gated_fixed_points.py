"""Fixed points, critical points and phases of gated attention units against runs over depth and against single steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis import derivatives, maps, skips
from meanfield.analysis.derivatives import Name, ordered
from meanfield.analysis.families import moments
from meanfield.analysis.maps import map_of, values_of
from meanfield.analysis.roots import positive_roots
from meanfield.analysis.stepping import Steps
from meanfield.gaussian.exchangeable import Exchangeable

FEW = {"s": 8, "n": 4, "d": 16, "e": 32}
MANY = {"s": 128, "n": 512, "d": 768, "e": 1536}


def test_pairs_flow_to_the_stable_point() -> None:
    net = mf.Residual(mf.GAU(mf.silu, **MANY)) >> mf.LayerNorm()
    alike, apart = mf.fixed_points(net)
    assert (alike.gap, alike.stable, apart.stable) == (0, False, True)
    depth = int(30 * apart.xi_c)
    run = mf.propagate(net, depth, q=1.0, gap=np.array([0.5, 1.5]) * apart.gap, record="last")
    assert run.q[:, -1] == pytest.approx([1, 1], rel=1e-14)
    assert run.gap[:, -1] == pytest.approx(2 * [apart.gap], rel=1e-10)
    assert apart.gap_bracket[0] < apart.gap < apart.gap_bracket[1] < apart.gap_bracket[0] * (1 + 1e-9)


def test_a_gap_grows_by_chi_next_to_one() -> None:
    net = mf.Residual(mf.GAU(mf.gelu, **FEW)) >> mf.RMSNorm()
    chi = mf.fixed_points(net)[0].chi
    assert mf.propagate(net, 1, q=1.0, gap=1e-9).gap[-1] / 1e-9 == pytest.approx(chi, rel=1e-7)


@pytest.mark.parametrize("skip", [0, 0.8])
def test_unstable_points_are_left_as_they_are(skip: float) -> None:
    """q* depends on c: each point is a fixed point of a step of a run, and what is a little beside it goes away at the rates it says"""
    unit = mf.GAU(mf.silu, **MANY)
    net = mf.Residual(unit, skip=skip) if skip else unit
    *origin, alike, apart = mf.fixed_points(net)
    assert [(f.q, f.c, f.stable) for f in origin] == ([(0, 1, True)] if skip else [(0, 1, False), (0, 0, True)])
    assert [f.chi_parallel for f in origin] == pytest.approx([skip**2] * len(origin), rel=1e-12, abs=1e-300)
    if not skip:  # what a pair next to either does in a step from a variance that is next to nothing
        near = mf.propagate(net, 1, q=1e-9, c=np.array([1 - 1e-6, 1e-6]), record="last")
        assert near.gap[0, -1] / 1e-6 == pytest.approx(origin[0].chi, rel=1e-5)
        assert near.c[1, -1] / 1e-6 == pytest.approx(origin[1].chi, rel=1e-3)
    assert not alike.stable
    assert not apart.stable
    assert alike.gap == 0 < apart.gap
    step = mf.propagate(net, 1, q=np.array([alike.q, apart.q]), gap=np.array([1e-12, apart.gap]), record="last")
    assert step.q[:, -1] == pytest.approx([alike.q, apart.q], rel=1e-11)
    assert step.gap[1, -1] == pytest.approx(apart.gap, rel=1e-12)
    h = 1e-5
    beside = mf.propagate(net, 1, q=apart.q * np.array([1 + h, 1 - h]), gap=apart.gap, record="last").q[:, -1]
    assert (beside[0] - beside[1]) / (2 * h * apart.q) == pytest.approx(apart.chi_parallel, rel=1e-8)


def test_next_to_the_lowest_correlation() -> None:
    """of four tokens, -1/3: the step has a value there, and the root next to it is found"""
    for net in (mf.Residual(mf.GAU(mf.relu, **FEW)) >> mf.RMSNorm(), mf.GAU(mf.relu, **FEW)):
        found = mf.fixed_points(net)
        assert found.status == "ok"
        apart = found[-1]
        assert apart.gap == pytest.approx(0.795919806608568, rel=1e-9)  # phi is homogeneous: c* does not depend on q*
        assert mf.propagate(net, 1, q=apart.q, gap=apart.gap).gap[-1] == pytest.approx(apart.gap, rel=1e-12)
        assert mf.propagate(net, 1, q=apart.q, gap=1.33).status == "ok"


def test_roots_next_to_where_a_function_ends() -> None:
    def f(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        value = np.where((at > 1e-3) & (at < 1.31), np.log(at / 1.3), np.nan)
        return value, np.where(np.isnan(value), np.nan, 1.0), np.full(at.size, 1e-15)

    found = positive_roots(f, 1e-6, 1.4, per_decade=2)
    assert [r.at for r in found.roots] == [pytest.approx(1.3, rel=1e-12)]
    (low, below), (above, high) = found.unresolved
    assert (low, high) == (pytest.approx(1e-6), pytest.approx(1.4))
    assert below < 1e-3 < below * 1.002
    assert above / 1.002 < 1.31 < above


def test_a_pass_gives_each_moment_and_its_slopes() -> None:
    patterns = [((5, 1), False), ((1, 1, 1, 1), True), ((1, 4, 2), True)]
    variance, gap = np.array([0.5, 1.7, 1.0, 3.0]), np.array([0.2, 1e-6, 0.99, 3.01])
    for phi in (mf.silu, mf.relu):
        nodes = [Exchangeable(phi.expression, [(i, 0) for i in powers], mf.q, mf.delta, spread=spread) for powers, spread in patterns]
        found = moments(nodes, variance, gap)
        for k, node in enumerate(nodes):
            for row, e in zip(found[:, k], (node, node.diff(mf.q), node.diff(mf.delta)), strict=True):
                (one,), _ = values_of((e,), {"q": variance, "delta": gap})
                assert row == pytest.approx(one, rel=1e-9)


def test_moments_at_gaps_below_the_rounding_of_their_variables() -> None:
    """E u^4 over u > 0, covariances gap E f f' f' ..., and slopes by Price's theorem"""
    nodes = [
        Exchangeable(mf.relu.expression, [(i, 0) for i in p], mf.q, mf.delta, spread=s) for p, s in (((2, 2), False), ((2, 1, 1), True))
    ]
    gap = np.array([1e-40, 1e-33, 1e-25])
    same, spread = moments(nodes, np.ones(3), gap).transpose(1, 0, 2)
    assert same == pytest.approx(np.outer([1.5, 3.0, -2.0], np.ones(3)), rel=1e-7)
    assert spread == pytest.approx(np.array([gap / 2, gap / 2, np.full(3, 0.5)]), rel=1e-9)
    assert values_of(tuple(nodes), {"q": np.ones(3), "delta": gap})[0] == pytest.approx(np.array([same[0], spread[0]]), rel=1e-12)


def test_formulas_keep_names() -> None:
    step = map_of(mf.Residual(mf.LayerNorm() >> mf.GAU(mf.silu, **MANY)))
    assert step.long
    held, names = ordered(step.stages[0])
    assert len(held) == 16
    place = {name: i for i, name in enumerate(names)}
    assert all(place[inner] < place[name] for name in names for inner in name.value.atoms(Name) & place.keys())
    assert not map_of(mf.mlp(mf.silu)).long


def test_the_bound_of_a_step_holds_what_its_formulas_lose() -> None:
    """ln q'/q of a unit without a norm, against a step whose moments are single calls"""
    unit = mf.GAU(mf.silu, **FEW)
    q, eps = np.array([0.3, 1.0, 4.0]), np.array([1e-3, 0.3, 0.9])
    moved, gap, _ = Steps(map_of(unit), {}).pair(q, eps * q)
    run = mf.propagate(unit, 1, q=q, gap=eps, record="last")
    assert (np.abs(moved.growth - np.log(run.q[:, -1] / q)) < moved.growth_error).all()
    assert (moved.growth_error < 1e-11).all()
    assert gap.at == pytest.approx(run.q[:, -1] * run.gap[:, -1], rel=1e-12)


def test_a_branch_without_weight_is_no_critical_point() -> None:
    found = mf.critical(mf.Residual(mf.GAU(mf.silu, **FEW, lam=None)) >> mf.RMSNorm())
    assert (found.status, dict(found)) == ("none", {})
    assert "only where lam may be twice as large all the same" in found.reason


def test_phases_agree_with_fixed_points() -> None:
    net = mf.Residual(mf.GAU(mf.silu, **MANY, lam=None, sigma_Z=None)) >> mf.RMSNorm()
    diagram = mf.phase_diagram(net, lam=[0.8, 1.25], sigma_Z=[0.7, 1.3])
    assert (diagram.phase == "chaotic").all()
    assert (diagram.growth["apjn"] == "exponential").all()
    alike, apart = mf.fixed_points(net, lam=1.25, sigma_Z=0.7)
    assert diagram.chi[1, 0] == pytest.approx(alike.chi, rel=1e-12)
    assert diagram.gap[1, 0] == pytest.approx(apart.gap, rel=1e-10)


def test_runs_end_where_the_diagram_says() -> None:
    skip = sp.Symbol("mu", positive=True)
    net = mf.Residual(mf.GAU(mf.silu, **MANY, sigma_Z=None), skip=skip) >> mf.RMSNorm()
    diagram = mf.phase_diagram(net, mu=[0.35, 0.95], sigma_Z=[1.15, 1.45, 1.7])
    for i, j in ((0, 0), (1, 2)):
        values = {"mu": float(diagram.axes["mu"][i]), "sigma_Z": float(diagram.axes["sigma_Z"][j])}
        run = mf.propagate(net, 250, q=1.7, gap=0.02, record="last", **values)
        assert (run.q[-1], diagram.q[i, j]) == (1.0, 1.0)
        assert run.gap[-1] == pytest.approx(diagram.gap[i, j], rel=1e-11)


def test_formulas_that_an_earlier_process_lowered_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """whatever numbers their names have in this one"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    rec = mf.recursion(mf.Residual(mf.GAU(mf.gelu, s=16, n=6, d=24, e=40)) >> mf.LayerNorm())

    def lowered() -> tuple[tuple[sp.Expr, ...], maps.Program]:
        skips.moved_rows.cache_clear()
        derivatives._moments.cache_clear()
        (rows,) = skips.moved_rows(maps.StepMap(rec))
        return rows, maps.program(rows, maps._order(rows))

    rows, first = lowered()
    monkeypatch.setattr(maps, "_program", lambda *_: pytest.fail("lowered once more"))
    others, second = lowered()
    assert rows != others
    assert first == second


def test_an_activation_with_a_letter_is_refused_with_it() -> None:
    slope = sp.Symbol("slope", positive=True)
    net = mf.Residual(mf.GAU(mf.Activation(mf.x * sp.tanh(slope * mf.x)), **FEW)) >> mf.RMSNorm()
    found = mf.fixed_points(net, slope=1)
    assert (found.status, len(found)) == ("unresolved", 0)
    assert "depends on slope" in found.reason
    assert mf.critical(net).status == "unresolved"
