"""Figures of runs."""

from __future__ import annotations

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import sympy as sp
from matplotlib.figure import Figure

import meanfield as mf
from meanfield.plotting import LABELS, plot_run

matplotlib.use("Agg")

LAYER = mf.mlp(mf.erf)


def new_axes():
    return Figure().subplots()


@pytest.fixture(scope="module")
def single():
    return mf.propagate(LAYER, depth=20, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1)


@pytest.fixture(scope="module")
def grid():
    return mf.propagate(LAYER, depth=20, q=1.0, c=0.5, sigma_w=np.linspace(1, 2, 12), sigma_b=0.1)


@pytest.mark.parametrize("quantity", LABELS)
def test_one_curve_holds_the_data(single, quantity):
    ax = new_axes()
    assert plot_run(single, ax, quantity) is ax
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), single.layers)
    np.testing.assert_array_equal(line.get_ydata(), getattr(single, quantity))
    assert ax.get_ylabel() == LABELS[quantity]
    assert ax.get_xlabel() == "$l$ (blocks)"
    ax.figure.draw_without_rendering()  # the labels are valid mathematics


def test_run_plot_is_plot_run(single):
    ax = new_axes()
    assert single.plot(ax=ax, quantity="q") is ax
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), single.q)


def test_without_axes_a_pyplot_figure_is_made(single):
    from matplotlib import pyplot

    ax = single.plot()
    assert ax.figure.number in pyplot.get_fignums()
    pyplot.close(ax.figure)


def test_many_curves_get_a_colour_bar(grid):
    ax = new_axes()
    plot_run(grid, ax)
    assert len(ax.get_lines()) == 12
    assert ax.get_legend() is None
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == r"$\sigma_w$"
    assert bar.get_ylim() == (1.0, 2.0)
    colours = {line.get_color() for line in ax.get_lines()}
    assert len(colours) == 12
    assert all(0.2126 * r + 0.7152 * g + 0.0722 * b < 0.8 for r, g, b, _ in colours)  # seen on white


def test_few_curves_get_a_legend():
    run = mf.propagate(LAYER, depth=5, q=1.0, c=0.5, sigma_w=[1.0, 1.5], sigma_b=0.1)
    ax = new_axes()
    plot_run(run, ax, "gap")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == [r"$\sigma_w$ = 1", r"$\sigma_w$ = 1.5"]
    assert len(ax.figure.axes) == 1
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize(
    ("start", "name"), [({"q": [1.0, 2.0], "c": 0.5}, "$q_0$ = 2"), ({"q": 1.0, "gap": [0.1, 0.2]}, "$1 - c_0$ = 0.2")]
)
def test_a_start_that_varies_is_named(start, name):
    run = mf.propagate(LAYER, depth=5, sigma_w=1.5, sigma_b=0.1, **start)
    ax = new_axes()
    plot_run(run, ax)
    assert ax.get_legend().get_texts()[1].get_text() == name


def test_a_grid_of_one_point():
    run = mf.propagate(LAYER, depth=5, q=1.0, sigma_w=[1.5], sigma_b=0.1)
    ax = new_axes()
    plot_run(run, ax, "q")
    assert ax.get_legend().get_texts()[0].get_text() == r"$\sigma_w$ = 1.5"


def test_refusals(single):
    with pytest.raises(ValueError, match=r"quantity = 'apjn': expected one of q, p, c, gap, log_apjn, log_apjn_forward, log_chi_product"):
        plot_run(single, new_axes(), "apjn")
    plane = mf.propagate(LAYER, depth=3, q=1.0, sigma_w=np.ones((2, 3)), sigma_b=0.1)
    with pytest.raises(ValueError, match=r"a grid of shape \(2, 3\) has 2 dimensions"):
        plot_run(plane, new_axes())
    alone = mf.propagate(LAYER, depth=3, q=1.0, sigma_w=1.5, sigma_b=0.1)
    with pytest.raises(ValueError, match=r"a grid of shape \(0,\) has no settings"):
        mf.propagate(mf.mlp(mf.relu), 3, 1.0, sigma_w=np.ones(0), sigma_b=0).plot()
    with pytest.raises(ValueError, match="single input"):
        plot_run(alone, new_axes(), "p")
    last = mf.propagate(LAYER, depth=3, q=1.0, sigma_w=1.5, sigma_b=0.1, record="last")
    with pytest.raises(ValueError, match="kept one layer"):
        plot_run(last, new_axes())


def test_critical_lines_and_sensitivities():
    line = mf.critical(mf.mlp(mf.erf), q=mf.q)
    drawn = line.plot(new_axes()).lines[0].get_xydata()
    i = int(np.argmin(np.abs(drawn[:, 0] - 1.2)))
    at = mf.critical(mf.mlp(mf.erf), sigma_w=float(drawn[i, 0]))
    assert drawn[i, 1] == pytest.approx(at["sigma_b"], rel=1e-9)
    assert np.allclose(line.to_xarray()["sigma_b"], drawn[:, 1], rtol=1e-14)
    norm = mf.critical(mf.RMSNorm() >> mf.Activate(mf.gelu) >> mf.Linear())
    assert norm.plot(new_axes()).get_xlabel() == r"$\sigma_w$"
    with pytest.raises(ValueError, match="this is no line"):
        mf.critical(mf.mlp(mf.relu), q=1).plot(new_axes())
    nowhere = mf.critical(mf.mlp(mf.step), q=mf.q)
    empty = nowhere.plot(new_axes())
    assert (nowhere.status, len(empty.lines)) == ("none", 0)
    assert empty.get_title().replace("\n", " ") == nowhere.reason
    negative = mf.critical(mf.mlp(mf.softplus), q=mf.q).plot(new_axes())  # E phi^2 > q E phi'^2
    assert (len(negative.lines), negative.get_title().replace("\n", " ")) == (
        0,
        "the square of a parameter is negative for each q from 0.01 to 10",
    )
    slopes = mf.sensitivity(mf.mlp(mf.relu), 5, 1.0, sigma_w=1.3, sigma_b=0.2)
    assert [bar.get_width() for bar in slopes.plot(new_axes(), "q").patches] == list(slopes.dq.values())
    some = mf.sensitivity(mf.mlp(mf.erf), 5, 1.0, c=0.3, sigma_w=np.array([0.0, 1.0, 1.2]), sigma_b=0.0, with_respect_to="sigma_w")
    assert np.isnan(some.dgap["sigma_w"][0])  # of nothing
    (bar,) = some.plot(new_axes(), "gap").patches
    assert (bar.get_x(), bar.get_x() + bar.get_width()) == pytest.approx(sorted(some.dgap["sigma_w"][1:]))


def test_a_map_at_a_variance_that_does_not_stay_has_no_star():
    gone = mf.fixed_points(mf.mlp(mf.erf), sigma_w=0.5, sigma_b=0).plot(new_axes())
    each = mf.fixed_points(mf.mlp(mf.relu), sigma_w=2**0.5, sigma_b=0).plot(new_axes())
    assert [ax.get_legend().get_texts()[0].get_text() for ax in (gone, each)] == ["$q = 1$", "$q^* = 1$"]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_a_check_draws_the_run_and_what_was_predicted():
    """of a law whose parameters are symbols, with 1 in the place of each"""
    law = mf.growth(mf.mlp(mf.tanh))
    recursion, predicted = law.check().plot(new_axes()).lines
    assert recursion.get_xdata()[-1] == predicted.get_xdata()[-1] > 1000
    assert predicted.get_ydata() == pytest.approx(recursion.get_ydata(), abs=1)
    assert len(law.plot(new_axes()).lines) == 2


def test_import_does_not_load_matplotlib():
    assert python("import meanfield, meanfield.plotting, sys; print('matplotlib' in sys.modules)").strip() == "False"


def test_missing_matplotlib_says_how_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['matplotlib.figure'] = None\n"
        "import meanfield as mf\n"
        "run = mf.propagate(mf.mlp(mf.relu), depth=2, q=1.0, sigma_w=1.0, sigma_b=0)\n"
        "try: run.plot()\n"
        "except ImportError as error: print(error)"
    )
    assert python(code).strip() == 'figures need matplotlib: pip install "meanfield-nn[plot]"'


def test_the_picture_of_the_readme():
    from meanfield.overview import curves, draw

    figure = Figure()
    draw(figure)
    assert [len(ax.lines) for ax in figure.axes] == [8, 6, 6]
    assert all(ax.get_title() and ax.get_xlabel() for ax in figure.axes)
    ends = {
        (norm, attention): curves(norm, slope, attention).q[-1]
        for norm, slope in (("pre-LN", None), ("Derf", 0.5))
        for attention in (True, False)
    }
    assert ends["pre-LN", True] == pytest.approx(61.2670608)
    assert ends["Derf", True] == pytest.approx(37.02808986)
    assert ends["pre-LN", False] == pytest.approx(1 + 128 * 0.64**2 * 1.28**2 / 2)
    assert ends["Derf", False] < ends["Derf", True]


# -- phase diagrams ------------------------------------------------------------------------------------------------------------------


def test_the_hatch_covers_each_cell_of_a_growing_variance_and_no_other():
    mu, sigma = np.linspace(0, 1.4, 15), np.linspace(0, 2, 21)
    net = mf.Residual(mf.Activate(mf.relu) >> mf.Linear(), skip=sp.Symbol("mu"))
    diagram = mf.phase_diagram(net, mu=mu, sigma_w=sigma, sigma_b=0.1)
    ax = new_axes()
    diagram.plot(ax=ax)
    hatch = next(c for c in ax.collections if getattr(c, "hatches", None))
    assert hatch.get_facecolor().tolist() == [[0.93, 0.93, 0.93, 1.0]]  # where no line of the hatch comes by, it is not white either
    mesh = next(c for c in ax.collections if not hasattr(c, "hatches"))
    hatched = np.zeros((mu.size, sigma.size), bool)
    area = 0.0
    for path in hatch.get_paths():
        area += sum((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2 for x, y in (np.array(p).T for p in path.to_polygons()))
        hatched |= path.contains_points(np.stack(np.meshgrid(mu, sigma, indexing="ij"), -1).reshape(-1, 2)).reshape(hatched.shape)
    divergent = diagram.phase == "divergent"
    np.testing.assert_array_equal(hatched, divergent)
    np.testing.assert_array_equal(hatched, np.ma.getmaskarray(mesh.get_array()).reshape(divergent.T.shape).T)
    np.testing.assert_allclose(abs(area), divergent.sum() * (mu[1] - mu[0]) * (sigma[1] - sigma[0]), rtol=1e-9)


def test_where_chi_is_infinite_the_map_says_so() -> None:
    """of an activation that jumps there is no finite chi to colour"""
    diagram = mf.phase_diagram(mf.mlp(mf.hard_shrink), sigma_w=[0.6, 0.8, 1.5], sigma_b=[0.4, 0.6])
    ax = diagram.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [r"$\chi = \infty$", r"$q \to \infty$"]


@pytest.mark.parametrize(
    ("net", "axis", "label"),
    [
        (mf.mlp(mf.tanh), {"sigma_b": [0.1, 0.2]}, "(c = 1)"),
        (mf.Activate(mf.tanh) >> mf.Dropout() >> mf.Linear(), {"rate": [0.5, 0.7], "sigma_b": 0.1}, "(c = c^*)"),
        (mf.Activate(mf.tanh) >> mf.Dropout() >> mf.Linear(), {"rate": [0.0, 0.3], "sigma_b": 0.1}, r"(c = 1,\ \mathrm{apart}\!: c^*)"),
    ],
)
def test_the_colour_bar_says_at_which_correlation_the_slope_is(net, axis, label):
    diagram = mf.phase_diagram(net, sigma_w=[0.8, 1.5], **axis)
    ax = new_axes()
    diagram.plot(ax=ax)
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert bar.get_ylabel().endswith(f"{label}$")
    assert diagram.to_xarray().chi.attrs["latex"].endswith(label)
    ax.figure.draw_without_rendering()
