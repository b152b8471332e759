"""Results as labelled arrays, tables and files."""

from __future__ import annotations

import copy
import csv
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_check import Check, Fit

xarray = pytest.importorskip("xarray")
pytest.importorskip("pandas")

LAYER = mf.mlp(mf.erf)
START = {"depth": 4, "q": 1.0, "sigma_b": 0.1}

RESULTS = {
    "run": lambda: mf.propagate(LAYER, c=0.5, sigma_w=1.5, **START),
    "grid": lambda: mf.propagate(LAYER, c=0.5, sigma_w=np.array([[1.0], [1.5]]), **START | {"sigma_b": np.array([0.0, 0.1, 0.2])}),
    "overflow": lambda: mf.propagate(mf.mlp(mf.exp), depth=3, q=1.0, sigma_w=40.0, sigma_b=0.1),
    "pair": lambda: mf.propagate(LAYER, q2=2.0, c=0.5, sigma_w=1.5, **START),
    "tokens": lambda: mf.propagate(mf.CausalAttention(), depth=1, q=1.0, p=0.4, n=3, sigma_V=1, sigma_O=1),
    "phases": lambda: mf.phase_diagram(LAYER, sigma_w=np.linspace(0.5, 2, 4), sigma_b=np.linspace(0.1, 0.5, 5)),
    "sensitivity": lambda: mf.sensitivity(LAYER, 4, q=1.0, c=0.5, sigma_w=[1.4, 1.5], sigma_b=0.1),
    "check": lambda: Check(mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu))), {"sigma_1": 1.0},
                           (Fit("q", "rate", 1.0, 1.001, 1e-3, "agrees", 1000),), mf.propagate(LAYER, c=0.5, sigma_w=1.5, **START)),
    "fixed points": lambda: mf.fixed_points(LAYER, sigma_w=1.6, sigma_b=0.3),
    "fixed point": lambda: mf.fixed_points(LAYER, sigma_w=1.6, sigma_b=0.3)[1],
    "shape": lambda: mf.tailored_leaky_relu(12, eta=0.4),
    "no shape": lambda: mf.tailored_leaky_relu(1, eta=0.999999),
    "gradients": lambda: mf.scaling.GradientCheck(np.array([6, 12]), *np.ones((4, 2)), factor=2.0),
    "conventions": lambda: mf.scaling.convention_table(64, 2, 16, vocabulary=100),
    "gated attention": lambda: mf.scaling.GAUCurve("n", np.array([1.0, 2.0]), "RMS O", np.ones(2), np.zeros(2)),
}  # fmt: skip


@pytest.fixture(scope="module", params=RESULTS)
def result(request):
    return RESULTS[request.param]()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copies_are_the_same(result, again):
    twin = again(result)
    assert type(twin) is type(result)
    assert repr(twin) == repr(result)
    assert twin.to_xarray().identical(result.to_xarray())


def test_copies_of_fixed_points_know_how_they_were_found():
    found = RESULTS["fixed points"]()
    twin = pickle.loads(pickle.dumps(found))
    assert (twin, twin.status, twin.reason, twin.steps) == (found, found.status, found.reason, found.steps)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (1, 0, 3)])
def test_grids_without_points(shape):
    nothing, layers = np.zeros(shape), {"all": 4, "last": 1, 2: 3}
    for record, kept in layers.items():
        run = mf.propagate(LAYER, 3, 1.0, p=0.1, sigma_w=nothing, sigma_b=0.1, record=record)
        assert run.status.shape == shape
        assert {getattr(run, name).shape for name in ("q", "p", "gap", "log_apjn", "log_chi_product")} == {(*shape, kept)}
        assert list(run.to_xarray().q.sizes.values()) == [*shape, kept]
        pair = mf.propagate(LAYER, 3, 1.0, q2=2.0, p=0.1, sigma_w=nothing, sigma_b=0.1, record=record)
        assert pair.gap.shape == (*shape, kept)
        tokens = mf.propagate(mf.CausalAttention(), 3, 1.0, p=0.4, n=3, sigma_V=nothing, sigma_O=1, record=record)
        assert tokens.gram.shape == (*shape, kept, 3, 3)
    assert mf.ntk(LAYER, 3, 1.0, p=0.1, sigma_w=nothing, sigma_b=0.1).ntk_pair.shape == (*shape, 4)
    assert mf.sensitivity(LAYER, 3, 1.0, p=0.1, sigma_w=nothing, sigma_b=0.1).dq["sigma_w"].shape == shape


def test_shapes_and_points_hand_out_all_that_was_found():
    shape = mf.deep_kernel_shaping(mf.tanh, 15)
    data = shape.to_xarray()
    assert data.sizes == {"point": 1 + len(shape.others), "condition": len(shape.residuals)}
    assert data.input_shift.values.tolist() == [s.input_shift for s in (shape, *shape.others)]
    found = RESULTS["fixed points"]()
    whole, own = found.to_xarray(), found[1].to_xarray()
    assert {name: v.item() for name, v in own.data_vars.items()} == {name: v.values[1] for name, v in whole.data_vars.items()}
    assert whole.chi.values.tolist() == [f.chi for f in found]
    assert whole.chi.attrs["long_name"] == "dc'/dc at c = c*"


def test_every_quantity_says_what_it_is(result):
    data = result.to_xarray()
    assert data.attrs["meanfield_version"] == mf.__version__
    for name, values in data.data_vars.items():
        assert values.attrs["long_name"], name
        assert values.dtype.kind in "UO" or values.attrs["units"] == "1"
    if isinstance(result, (mf.Run, mf.GramRun, mf.PairRun)):
        assert data.attrs["latex"].startswith(r"\begin{align*}")


def test_a_file_gives_back_what_was_written(result, tmp_path):
    data = result.to_xarray()
    assert result.to_netcdf(tmp_path / "r.nc") == tmp_path / "r.nc"
    with xarray.open_dataset(tmp_path / "r.nc", engine="scipy") as read:
        read.load()
    assert set(read.variables) == set(data.variables)
    for name in data.variables:
        assert read[name].dims == data[name].dims
        if data[name].dtype.kind in "UO":
            assert read[name].values.tolist() == data[name].values.tolist()
        else:
            np.testing.assert_array_equal(read[name].values, data[name].values)
    assert set(read.attrs) == set(data.attrs)


def test_tables_hold_every_number(result, tmp_path):
    """but those between layers, which are none of a layer"""
    data, frame = result.to_xarray().drop_dims("repeat", errors="ignore"), result.to_dataframe()
    assert set(frame.columns) == set(data.variables) | set(data.dims)
    assert len(frame) == max(1, int(np.prod(list(data.sizes.values()))))
    assert result.to_csv(tmp_path / "r.csv") == tmp_path / "r.csv"
    with open(tmp_path / "r.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in frame.columns:
        text = [row[name] for row in rows]
        if frame[name].dtype.kind == "f":
            np.testing.assert_array_equal([float(t or "nan") for t in text], frame[name])
        else:
            assert text == [str(value) for value in frame[name]]


def test_dimensions_and_attributes_of_a_grid():
    data = RESULTS["grid"]().to_xarray()
    assert data.q.dims == ("sigma_w", "sigma_b", "layer")
    assert data.sigma_w.values.tolist() == [1.0, 1.5]
    assert data.sigma_w.attrs == {"long_name": "weight scale of a linear map", "units": "1", "latex": r"\sigma_w"}
    assert data.gap.attrs["latex"] == "1 - c_l"
    assert data.status.values.tolist() == [["ok"] * 3] * 2
    assert data.attrs["latex"] == mf.latex(LAYER)
    assert data.attrs["start"] == "token"
    overflow = RESULTS["overflow"]().to_xarray()
    assert overflow.status.item() == "overflow"
    assert bool(np.isnan(overflow.q.values[-1]))


@pytest.mark.parametrize("name", ["chi", "repeat", "layer", "status"])
def test_a_parameter_may_be_called_as_a_quantity_is(name):
    net = mf.Activate(mf.relu) >> mf.Linear(sp.Symbol(name, positive=True), 0)
    data = mf.propagate(net, 3, 1.0, c=0.5, **{name: np.array([1.0, 2.0])}).to_xarray()
    assert data.chi.dims == (f"{name}_0", "repeat")
    assert data[f"{name}_0"].values.tolist() == [1.0, 2.0]


@pytest.mark.torch
def test_a_comparison(tmp_path):
    pytest.importorskip("torch")
    seen = mf.reference.compare(LAYER, width=32, depth=1, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1, device="cpu", samples=4)
    data = seen.to_xarray()
    assert data.z.dims == ("quantity", "layer")
    assert data["quantity"].values.tolist() == ["q", "p", "log_apjn"]
    np.testing.assert_array_equal(data.theory.sel(quantity="q"), seen.theory.q)
    seen.to_netcdf(tmp_path / "c.nc")
    assert "$\\pm$" in mf.latex(seen)
    assert "<table>" in seen._repr_html_()


@pytest.mark.parametrize("missing", ["xarray", "pandas"])
def test_a_missing_library_is_one_sentence(missing):
    code = (
        f"import sys; sys.modules['{missing}'] = None\nimport meanfield as mf\n"
        "run = mf.propagate(mf.mlp(mf.relu), depth=1, q=1.0, sigma_w=1, sigma_b=0)\n"
        "try: run.to_dataframe()\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == 'labelled arrays need xarray: pip install "meanfield-nn[xarray]"\n'


@pytest.mark.torch
def test_what_is_seen_of_models_shows_itself():
    torch = pytest.importorskip("torch")
    twin = mf.reference.build(LAYER, 16, 2, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1)
    seen = mf.reference.measure(twin, samples=2, device="cpu")
    assert mf.latex(seen).count(r"$\pm$") == 9
    data = seen.to_xarray()
    assert data.q.dims == ("layer",)
    assert data.attrs["meanfield_version"] == mf.__version__
    np.testing.assert_array_equal(data.apjn_error, seen.apjn_error)
    assert all(v.attrs["latex"] and v.attrs["units"] == "1" for v in data.data_vars.values())
    assert list(seen.to_dataframe().columns[:2]) == ["layer", "q"]
    assert "<table>" in seen._repr_html_()
    layers = [torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16)]
    found = mf.reference.describe(torch.nn.Sequential(*layers))
    assert mf.latex(found) == mf.latex(found.net)
    done = mf.reference.initialise_(torch.nn.Sequential(*layers), {"linear": 2**0.5, "bias": 0.0}, seed=0)
    assert done._repr_html_().count("<tr>") == 7
    assert done.to_xarray().after.sizes == {"tensor": 6}
    assert r"\begin{tabular}{lrrr}" in mf.latex(done)


def test_a_parameter_called_as_a_quantity_of_a_diagram() -> None:
    diagram = mf.phase_diagram(mf.mlp(mf.derf(sp.Symbol("chi"))), sigma_w=[1, 2], chi=[1, 2], sigma_b=0.1)
    data = diagram.to_xarray()
    assert data.chi.dims == ("sigma_w", "chi_0")
    assert data.chi_0.to_numpy().tolist() == [1, 2]
    assert "chi_0" in diagram.to_dataframe()


def test_results_are_equal_to_themselves_alone() -> None:
    """arrays have no one truth value"""
    run = mf.propagate(mf.mlp(mf.relu), 3, 1.0, c=0.5, sigma_w=1.0, sigma_b=0.1)
    diagram = mf.phase_diagram(mf.mlp(mf.erf), sigma_w=[1, 2], sigma_b=[0.1, 0.2])
    for result in (run, diagram):
        assert result == result
        assert result != copy.deepcopy(result)
        assert len({result, result}) == 1
