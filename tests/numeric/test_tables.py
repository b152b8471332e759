"""Tables of moments without a closed form: against quadrature, whatever the activation; what may not change a bit; what is refused."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from cases import ACTIVATIONS, pair_moments
from from_tables import both_ways, read

import meanfield as mf
from meanfield import keeping
from meanfield.gaussian.singularities import regular
from meanfield.numeric import launch, lookup, store, table_panels, tables, trajectory, ways
from meanfield.numeric.tables import Table

#: neither in the catalogue nor in the examples: neither even nor odd
OWN = mf.Activation(sp.atan(mf.x) + sp.exp(-(mf.x**2)) / 3 + mf.x / 5)
#: kinks that are not at 0, one of them a step of the slope from one analytic function to another
KINKED = mf.Activation(sp.Max(sp.tanh(mf.x), mf.x / 3 - sp.Rational(1, 5)) + sp.Abs(mf.x - 1) / 4)


#: variances and 1 - c
SMALL = [(1e-8 * 1.3**k, 0.05 + 0.1 * k) for k in range(10)]


@pytest.mark.parametrize("name", ["silu", "tanh"])
def test_moments(name: str) -> None:
    """within 1e-12 E phi^2, the gap to 1e-11 of itself, from small variances to large ones and for both signs of the correlation"""
    draw, phi = np.random.default_rng(3), ACTIVATIONS[name]
    f = phi.activation.expression
    square, pair, slope = Table(f**2, None), Table(f, regular(f)), Table(regular(f), None)
    q = np.concatenate([4.0 ** draw.uniform(-6, 2, 12), [0.5, 2.0, 1.0]])
    gap = np.concatenate([draw.uniform(0, 1, 4), 10.0 ** draw.uniform(-20, 0, 4), 2 - 10.0 ** draw.uniform(-3, 0, 4), [1.0, 0.25, 1e-100]])
    for v, e in zip(q, gap, strict=True):
        true, slopes = pair_moments(phi.f, v, v * e, phi.difference), pair_moments(phi.df, v, v * e)
        second, steep = true.product + true.gap, slopes.product + slopes.gap
        assert abs(read(square, "mean", v, 0.0) - second) < 1e-12 * second
        assert abs(read(pair, "cross", v, v * e) - true.product) < 1e-12 * second
        assert abs(read(slope, "cross", v, v * e) - slopes.product) < 1e-12 * steep
        assert abs(read(pair, "gap", v, v * e) - true.gap) < 1e-11 * true.gap


@pytest.mark.parametrize("phi", [OWN, KINKED], ids=["smooth", "kinked"])
def test_against_many_digits(phi: mf.Activation) -> None:
    f = phi.expression
    table = Table(f, regular(f))
    for v, p in ((0.5, 0.375), (8.0, -6.0)):
        second = float(mf.evaluate(phi.second_moment(mf.q), q=v, digits=16))
        true = float(mf.evaluate(phi.kernel(mf.q, mf.p), q=v, p=p, digits=16))
        assert abs(read(table, "cross", v, v - p) - true) < 1e-12 * second


def test_tables_are_not_off_one_way() -> None:
    """what they are off by on average adds up over layers: of gaps a unit in the last place or two, where it was 20"""
    f = sp.tanh(mf.x)
    table = Table(f, regular(f))
    small = [1 - read(table, "gap", v, v * e) / (v * e * (1 - 2 * v + v * v * (21 - 6 * e + 2 * e * e) / 3)) for v, e in SMALL]
    assert abs(np.mean(small)) < 2.0**-52
    gap = mf.Activation(f).gap(mf.q, mf.delta)
    large = [1 - read(table, "gap", v, v) / float(mf.evaluate(gap, q=v, delta=v, digits=20)) for v in (0.4, 0.7, 1.1, 1.7, 2.9)]
    assert abs(np.mean(large)) < 2.0**-51


def test_kinks_of_near_inputs() -> None:
    """inputs nearer to each other, or to each other's opposite, than two kinks are, and further apart"""
    f = sp.Abs(mf.x) / 2 + sp.Max(mf.x - 1, 0)
    table, gap = Table(f, regular(f)), mf.Activation(f).gap(mf.q, mf.delta)
    for v, e in ((0.3, 1e-14), (1.0, 0.4), (700.0, 0.01), (700.0, 2 - 1e-9)):
        true = float(mf.evaluate(gap, q=v, delta=v * e))
        assert abs(read(table, "gap", v, v * e) - true) < 1e-12 * true


def test_an_even_activation_near_opposite_inputs() -> None:
    """phi(-x) = phi(x): the gap vanishes again at c = -1"""
    f = mf.x * sp.tanh(mf.x)
    table, v, rest = Table(f, regular(f)), 1.0, 2.0**-40
    assert read(table, "gap", v, 2 * v - rest) == read(table, "gap", v, rest) > 0


@pytest.mark.parametrize("v", [2.0**41, 2.0**52, 1e30])
def test_beyond_the_last_panel_a_function_is_what_it_is_far_out_and_near_0(v: float) -> None:
    """inputs as near as what is near 0 is wide, and down to opposite ones"""
    phi = mf.silu
    f = phi.expression
    pair, slope, square = Table(f, regular(f)), Table(regular(f), None), Table(f**2, None)
    for e in (1e-40, 0.01 / v, 1 / v, 300 / v, 1e-9, 1e-4, 0.3, 1.0, 1.7):
        moments = (phi.gap(mf.q, mf.delta), phi.derivative.kernel(mf.q, mf.q - mf.delta))
        true = [float(mf.evaluate(m, q=v, delta=v * e)) for m in moments]
        assert abs(read(pair, "gap", v, v * e) - true[0]) < 5e-14 * true[0]
        assert abs(read(slope, "cross", v, v * e) - true[1]) < 5e-14 * true[1]
    assert read(square, "mean", v, 0.0) == pytest.approx(float(mf.evaluate(phi.second_moment(mf.q), q=v)), rel=1e-14)


@pytest.mark.parametrize("v", [2.0**41, 1e30])
def test_beyond_the_last_panel_what_falls_like_a_third_power_is_near_0(v: float) -> None:
    """x atan(x), whose slope is a constant but for 2/(3 x^3), and whose square is a sum of powers"""
    phi = mf.Activation(mf.x * sp.atan(mf.x))
    f = phi.expression
    pair, slope, square = Table(f, regular(f)), Table(regular(f), None), Table(f**2, None)
    for e in (1e-40, 1 / v, 300 / v, 3e7 / v, 1e9 / v, 1e-4, 0.3, 1.7):
        moments = (phi.gap(mf.q, mf.delta), phi.derivative.kernel(mf.q, mf.q - mf.delta))
        true = [float(mf.evaluate(m, q=v, delta=v * e)) for m in moments]
        assert abs(read(pair, "gap", v, v * e) - true[0]) < 5e-14 * true[0]
        assert abs(read(slope, "cross", v, v * e) - true[1]) < 5e-14 * math.pi**2 / 4
    assert read(square, "mean", v, 0.0) == pytest.approx(float(mf.evaluate(phi.second_moment(mf.q), q=v)), rel=1e-14)


@pytest.mark.parametrize("f", [mf.x * sp.atan(mf.x), mf.silu.expression, mf.squareplus.expression], ids=str)
def test_one_panel_has_the_means_of_all_variances_beyond(f: sp.Expr, monkeypatch: pytest.MonkeyPatch) -> None:
    """of squares that grow, sums of many powers among them; what is made for one variance is not made again"""
    square = Table(f**2, None)
    read(square, "mean", 2.0**41, 0.0)
    monkeypatch.setattr(table_panels.Panels, "coefficients", None)
    for v in (2.0**40.5, 1e15, 1e22, 1e60, 1e290):
        true = float(mf.evaluate(mf.Activation(f).second_moment(mf.q), q=v))
        assert read(square, "mean", v, 0.0) == pytest.approx(true, rel=1e-14)


def test_what_changes_beyond_all_nodes_has_no_such_panel() -> None:
    """which the nodes do not see: at the last of them it is the other power yet"""
    square = Table(mf.x**2 * (2 + sp.tanh(mf.x**2 / sp.Integer(10) ** 46)), None)
    assert math.isnan(read(square, "mean", 1e30, 0.0))


def test_a_network_that_grows_beyond_the_panels_takes_no_quadrature(monkeypatch: pytest.MonkeyPatch) -> None:
    """until its variance is no double"""
    monkeypatch.setattr(ways, "_by_quadrature", None)
    run = mf.propagate(mf.mlp(mf.Activation(mf.x * sp.atan(mf.x))), 1000, q=1e10, p=5e9, sigma_w=1.3, sigma_b=0.0)
    assert run.status == "overflow"
    growth = run.q[200:400] / run.q[199:399]
    assert np.abs(growth / (1.3 * math.pi / 2) ** 2 - 1).max() < 1e-14


@pytest.mark.parametrize("f", [mf.squareplus.expression, mf.x**2 * sp.tanh(mf.x), 10 * mf.silu.expression.subs(mf.x, mf.x / 10 - 3)])
def test_beyond_the_last_panel_what_is_not_near_0_is_left_to_quadrature(f: sp.Expr) -> None:
    """tails that fall like a power, slopes that grow, and what is wide"""
    assert math.isnan(read(Table(f, regular(f)), "gap", 2.0**44, 2.0**40))


def test_a_network_whose_variance_leaves_the_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    net, given = mf.residual_mlp(mf.softplus), {"q": 1e11, "gap": 1e-11, "sigma_w": 1.0, "sigma_b": 0.0}
    with monkeypatch.context() as patch:
        patch.setattr(ways, "_by_quadrature", None)
        deep, grid = mf.propagate(net, 1000, **given), mf.propagate(net, 20, **(given | {"sigma_w": np.array([1.0, 0.7])}))
    monkeypatch.setattr(ways, "_from_tables", lambda job, out: np.arange(job.q0.size))
    point = mf.propagate(net, 20, **given)
    assert deep.status == "ok"
    assert point.q[-1] > 100 * lookup.HIGH
    for run in (deep, grid):
        q, gap = (np.atleast_2d(a)[0, :21] for a in (run.q, run.gap))
        assert np.abs(q / point.q - 1).max() < 1e-13
        assert np.abs(gap / point.gap - 1).max() < 1e-13
    assert np.abs(grid.log_apjn[0] - point.log_apjn).max() < 1e-13


SETTINGS = {"sigma_w": np.array([0.5, 0.9, 1.2, 1.6]), "sigma_b": np.array([0.05, 0.3, 0.1, 1.0]), "c": np.array([0.9, 0.2, -0.7, 0.0])}


@pytest.mark.parametrize("phi", [OWN, KINKED, mf.gelu_tanh], ids=["smooth", "kinked", "in a narrow strip"])
def test_a_grid_from_tables_and_points_by_quadrature(phi: mf.Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ways, "_by_quadrature", None)
        grid = mf.propagate(mf.mlp(phi), 5, 1.3, **SETTINGS)
    assert (grid.status == "ok").all()
    monkeypatch.setattr(ways, "_from_tables", lambda job, out: np.arange(job.q0.size))
    for i in range(4):
        point = mf.propagate(mf.mlp(phi), 5, 1.3, **{name: float(v[i]) for name, v in SETTINGS.items()})
        assert np.abs(grid.q[i] / point.q - 1).max() < 1e-13
        assert np.abs(grid.gap[i] / point.gap - 1).max() < 1e-12
        assert np.abs(grid.log_apjn[i] - point.log_apjn).max() < 1e-12


def test_bits_do_not_depend_on_what_else_is_in_the_tables(untouched: Path, tmp_path: Path) -> None:
    """neither on the other points of a grid, nor on the panels that others have asked for, nor on the chunks; seen by a process of its own,
    whose sources nobody edits"""
    places = [untouched, *(Path(__file__).parents[k] for k in (0, 1))]
    environment = os.environ | {"MEANFIELD_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(map(str, places))}
    call = "import test_tables; test_tables.see_the_same_bits()"
    done = subprocess.run([sys.executable, "-c", call], env=environment, cwd=untouched, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept = next(tmp_path.glob("table_*.bin"))
    kept.write_bytes(kept.read_bytes()[:-8])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
        assert keeping.kept(kept.stem) is None


def see_the_same_bits() -> None:
    first = mf.propagate(mf.mlp(OWN), 40, 1.3, **{name: v[1:3] for name, v in SETTINGS.items()})
    few = {k: len(tables.table_of(*k).numbers) for k in ways.kernel_of(first.recursion, True).tabulated}
    together = mf.propagate(mf.mlp(OWN), 40, 1.3, **SETTINGS)
    assert all(len(tables.table_of(*k).numbers) > size for k, size in few.items() if size > lookup.DIRECTORY)
    launch.CHUNK = 1
    reverse = mf.propagate(mf.mlp(OWN), 40, 1.3, **{name: v[::-1] for name, v in SETTINGS.items()})
    for name in ("q", "gap", "log_apjn", "chi"):
        assert (getattr(together, name)[1:3] == getattr(first, name)).all()
        assert (getattr(together, name)[::-1] == getattr(reverse, name)).all()
    tables.table_of.cache_clear()
    f, slope = next(k for k in few if k[1] is not None)
    assert (tables.table_of(f, slope).numbers == Table(f, slope).numbers).all()
    assert len(tables.table_of(f, slope).numbers) > lookup.DIRECTORY  # from disk


def test_a_table_that_threads_extend_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """each finds its panel, whatever the others have added since it read"""
    monkeypatch.setattr(tables, "keep", lambda name, content: None)
    monkeypatch.setattr(tables, "kept", lambda name: None)
    f = sp.tanh(mf.x)
    together, alone = Table(f, None), [Table(f, None) for _ in range(6)]
    read_before = [together.numbers.copy() for _ in alone]
    for k, numbers in enumerate(read_before):
        numbers[int(lookup.CROSS) - lookup.FIRST + k] = tables.ASKED
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(together.extend, read_before))
    for k, table in enumerate(alone):
        v = 4.0**k
        assert read(together, "cross", v, 0.3 * v) == read(table, "cross", v, 0.3 * v)


def test_what_tables_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """a panel that another method does not confirm, a variance out of range: quadrature answers"""
    f = OWN.expression + mf.x / 7
    panel = table_panels.pair_panel
    monkeypatch.setattr(table_panels, "pair_panel", lambda g, k, **given: (panel(g, k, **given)[0] * (1 + 1e-10), 0.0))
    monkeypatch.setattr(tables, "keep", lambda name, content: None)
    table = Table(f, regular(f))
    assert math.isnan(read(table, "cross", 1.0, 0.3))
    assert (table.numbers == tables.NONE).sum() == 1
    assert math.isnan(read(table, "mean", 1e40, 0.0))
    assert math.isnan(read(table, "gap", 1.0, math.nan))


def test_a_point_that_leaves_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """q beyond what tables reach is left to quadrature, to the end of the doubles"""
    asked: list[Any] = []
    original = ways._by_quadrature
    monkeypatch.setattr(ways, "_by_quadrature", lambda job, out: asked.append(job.q0.tolist()) or original(job, out))
    run = mf.propagate(mf.mlp(mf.tanh), 3, np.array([1.0, 1e20]), sigma_w=1.2, sigma_b=0.1)
    assert asked == [[1e20]]
    assert (run.status == "ok").all()
    assert run.q[1, 1] == pytest.approx(1.44 * (1 - math.sqrt(2 / math.pi) / 1e10) + 0.01, rel=1e-13)


def test_a_gap_that_is_not_tabulated_yet_is_no_bound_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a stream of single inputs has asked for means alone: a net of the same function, whose ReLU bounds the gap, asks for it first"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    for kept in (store.compiled, store.interpreted, trajectory.kernel_of, tables.table_of):
        kept.cache_clear()
    mf.propagate(mf.Residual(mf.Activate(mf.tanh) >> mf.Linear(1, 1)), 2000, 1.0)
    net = mf.Residual(mf.DyT(1) >> mf.MLP(mf.relu, 1, 1), skip=0.9)
    first, again = (mf.propagate(net, 300, 1.0, gap=0.5).gap for _ in range(2))
    assert np.array_equal(first, again)
    v, d = mf.evaluate(mf.tanh.second_moment(1)), mf.evaluate(mf.tanh.gap(1, 0.5))
    new_q, new_delta = 0.81 + v / 2, 0.81 / 2 + mf.evaluate(mf.relu.gap(mf.q, mf.delta), q=v, delta=d)
    assert first[1] == pytest.approx(new_delta / new_q, rel=1e-12)


def test_waves_that_die_out_are_tabulated() -> None:
    """to the accuracy of their quadrature, at variances of less and of more than a period"""
    phi = mf.Activation(mf.x * sp.cos(4 * mf.x) / sp.cosh(mf.x))
    rec, v, gap = mf.recursion(mf.mlp(phi)), np.array([0.8, 30.0]), np.array([1.7, 1e-4])
    assert trajectory.kernel_of(rec, True).tabulated != ()
    run = mf.propagate(mf.mlp(phi), 1, v, gap=gap, record="last", sigma_w=1.0, sigma_b=0.0)
    assert (run.status == "ok").all()
    np.testing.assert_allclose(run.q[:, 0], mf.evaluate(phi.second_moment(mf.q), q=v), rtol=1e-13)
    np.testing.assert_allclose(run.gap[:, 0] * run.q[:, 0], mf.evaluate(phi.gap(mf.q, mf.delta), q=v, delta=v * gap), rtol=5e-13)


@pytest.mark.parametrize("f", [mf.x * sp.Abs(mf.x) ** sp.Rational(1, 3), sp.Max(0, mf.x) ** sp.Rational(3, 2)], ids=str)
def test_networks_of_powers_that_are_not_whole_run_from_tables(f: sp.Expr, monkeypatch: pytest.MonkeyPatch) -> None:
    """as by quadrature; u sgn u/|u|^(2/3) in a slope were 0/0 at its kink"""
    true, found = both_ways(mf.mlp(mf.Activation(f)), 3, monkeypatch, sigma_w=0.9, sigma_b=0.3)
    for a, b in zip((found.q, found.gap, found.log_apjn), (true.q, true.gap, true.log_apjn), strict=True):
        assert np.allclose(a, b, rtol=2e-12, atol=1e-14)


def test_powers_have_one_panel_for_all_variances(monkeypatch: pytest.MonkeyPatch) -> None:
    """E f(u) f(v) of a homogeneous f is q^k times that at variance 1, to the end of the doubles: none is left to quadrature"""
    monkeypatch.setattr(ways, "_by_quadrature", None)
    k = sp.Rational(7, 4)
    phi = mf.Activation(sp.Max(0, mf.x) ** k - sp.Max(0, -mf.x) ** k / 3)
    v = np.array([1e-90, 1e-3, 1.0, 1e40, 1e120])
    run = mf.propagate(mf.mlp(phi), 1, v, c=np.array([[0.7], [-0.4], [-1.0]]), record="last", sigma_w=1.0, sigma_b=0.0)
    assert (run.status == "ok").all()
    np.testing.assert_allclose(run.c[..., 0], np.repeat(run.c[:, 2:3, 0], v.size, axis=1), rtol=1e-13)
    np.testing.assert_allclose(run.q[0, :, 0], run.q[0, 2, 0] * v ** float(k), rtol=1e-12)
    for c, found in zip((0.7, -0.4, -1.0), run.c[:, 2, 0], strict=True):
        assert found == pytest.approx(1 - mf.evaluate(phi.gap(1, sp.Rational(str(1 - c)))) / mf.evaluate(phi.second_moment(1)), rel=1e-12)


WAVES = (mf.softplus.expression + sp.cos(5 * mf.x), mf.x / 2 + sp.Abs(sp.sin(mf.x)))


@pytest.mark.parametrize("f", WAVES, ids=str)
def test_waves_beside_other_functions_run_from_tables(f: sp.Expr, monkeypatch: pytest.MonkeyPatch) -> None:
    """as by quadrature, which takes 18 ms for a layer of a point: what a wave has to a kernel falls fast far from c = 1"""
    true, found = both_ways(mf.mlp(mf.Activation(f)), 3, monkeypatch, sigma_w=0.9, sigma_b=0.3)
    for a, b in zip((found.q, found.gap, found.log_apjn), (true.q, true.gap, true.log_apjn), strict=True):
        assert np.isfinite(a).all()
        assert np.allclose(a, b, rtol=1e-13, atol=1e-14)


def test_kinks_without_end_are_tabulated_at_variances_of_many_periods() -> None:
    """between 160 and 320 panels, each end of which many pairs of kinks share"""
    f = mf.x + sp.Abs(sp.sin(mf.x))
    table, gap = Table(f, regular(f)), mf.Activation(f).gap(mf.q, mf.delta)
    for v, d in ((3.0, 1.0), (3.0, 5.0), (30.0, 1e-6)):
        true = float(mf.evaluate(gap, q=v, delta=d))
        assert abs(read(table, "gap", v, d) - true) < 1e-12 * true


@pytest.mark.parametrize("f", [mf.silu.expression**2, mf.x * sp.log(1 + mf.x**2)], ids=str)
def test_networks_whose_moments_rise_steeply_run_from_tables(f: sp.Expr, monkeypatch: pytest.MonkeyPatch) -> None:
    """as by quadrature: from one end of a panel to the other E f(u)^2 grows by 4^4, over the power of v that it is next to hardly"""
    true, found = both_ways(mf.mlp(mf.Activation(f)), 3, monkeypatch, sigma_w=0.9, sigma_b=0.3)
    for a, b in zip((found.q, found.gap, found.log_apjn), (true.q, true.gap, true.log_apjn), strict=True):
        assert np.isfinite(a).all()
        assert np.allclose(a, b, rtol=2e-12, atol=1e-14)


NEAR_ZERO = {
    "kinked": sp.Max(sp.tanh(mf.x), mf.x / 9),
    "even": sp.Abs(sp.tanh(mf.x)),
    "of two powers": sp.Heaviside(mf.x) * sp.tanh(mf.x) ** 2 - sp.tanh(mf.x) / 7,
    "smooth": sp.tanh(mf.x) + mf.x**2 * sp.exp(-mf.x) / 3,
    "flat": sp.tanh(mf.x) ** 3,
    "from one": sp.exp(-sp.Abs(mf.x)) + sp.tanh(mf.x) / 2,
}


@pytest.mark.parametrize("name", NEAR_ZERO)
def test_all_small_variances_are_in_one_panel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """against quadrature, from where the other panels end to where q is no double any more"""
    net, q = mf.mlp(mf.Activation(NEAR_ZERO[name])), np.array([8e-13, 3e-13, 1e-20, 1e-60, 1e-90])
    for c in (0.6, -0.7, 1 - 1e-9):
        with monkeypatch.context() as patch:
            patch.setattr(ways, "_by_quadrature", None)
            found = mf.propagate(net, 1, q, c=c, sigma_w=1.3, sigma_b=0.0)
        with monkeypatch.context() as patch:
            patch.setattr(ways, "_from_tables", lambda job, out: np.arange(job.q0.size))
            true = mf.propagate(net, 1, q, c=c, sigma_w=1.3, sigma_b=0.0)
        assert (found.status == true.status).all()
        np.testing.assert_allclose(found.q, true.q, rtol=2e-14)
        np.testing.assert_allclose(found.gap, true.gap, rtol=2e-14)
        np.testing.assert_allclose(found.log_apjn, true.log_apjn, atol=2e-14)


def test_a_signal_that_dies_out_is_looked_up_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    net = mf.mlp(mf.Activation(NEAR_ZERO["kinked"]))
    monkeypatch.setattr(ways, "_by_quadrature", None)
    run = mf.propagate(net, 1000, 1.0, c=0.6, sigma_w=np.array([0.5, 1.2]), sigma_b=0, record="last")
    assert run.status.tolist() == ["underflow", "ok"]
    assert run.q[1, 0] == pytest.approx(6.169936295e-139, rel=1e-9)
