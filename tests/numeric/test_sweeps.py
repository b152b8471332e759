"""Runs that stay lazy, are computed on a cluster, stream to a store and are taken up again after a death."""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric import chunks, sweep_store, sweeps

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

SIGMA, BIAS = np.linspace(0.8, 2.0, 24)[:, None], np.linspace(0.0, 0.3, 5)
NET = mf.mlp(mf.erf)
A = sp.Symbol("a", real=True)


def numpy_run(net=NET, depth=7, **given):
    return mf.propagate(net, depth, **{"q": 1.0, "c": 0.3, "sigma_w": SIGMA, "sigma_b": BIAS} | given)


def same_bits(sweep, run, names=None):
    assert set(sweep.outline.quantities) == set(run.outline.quantities)
    for name in names or sweep.outline.quantities:
        found, true = np.asarray(getattr(sweep, name)), np.asarray(getattr(run, name))
        assert found.dtype.kind == true.dtype.kind, name
        np.testing.assert_array_equal(found, true, err_msg=name)


@pytest.fixture
def counted(monkeypatch):
    """how many chunks are computed, and small ones"""
    calls = []
    real = chunks.Recipe.__call__

    def call(self, *blocks):
        calls.append([b.shape for b in blocks])
        return real(self, *blocks)

    monkeypatch.setattr(chunks.Recipe, "__call__", call)
    monkeypatch.setattr(sweeps, "WORK", 7 * 20)  # four of 24 settings of sigma_w, all five of sigma_b
    return calls


@pytest.fixture(scope="module")
def client():
    """two worker processes"""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("record", ["all", "last", 3])
def test_the_factors_of_repeats_are_lazy_too(record, tmp_path):
    run = numpy_run(record=record)
    for given in ({"sigma_w": da.from_array(SIGMA, chunks=(5, 1))}, {"out": tmp_path / "sweep.zarr"}):
        sweep = numpy_run(record=record, **given)
        np.testing.assert_array_equal(sweep.chi.compute(scheduler="synchronous"), run.chi)
        assert sweep.to_xarray().chi.repeat.values.tolist() == {"all": [*range(7)], "last": [6], 3: [0, 3, 6]}[record]
    assert "chi" not in run.to_dataframe()
    assert not hasattr(numpy_run(depth=0, sigma_w=da.from_array(SIGMA, chunks=(5, 1))), "chi")


# -- on a cluster -------------------------------------------------------------------------------------------------------------------------


def test_a_lazy_parameter_has_the_same_bits_from_other_processes(client):
    sweep = numpy_run(sigma_w=da.from_array(SIGMA, chunks=(5, 1)))
    assert sweep.q.chunks[0] == (5, 5, 5, 5, 4)
    assert not client.run(lambda: "meanfield" in sys.modules)[next(iter(client.scheduler_info()["workers"]))]  # nothing was computed
    same_bits(sweep, numpy_run())
    assert all(client.run(lambda: "meanfield" in sys.modules).values())


def test_tables_are_made_where_they_are_needed(client):
    net = mf.mlp(mf.tanh)
    data = numpy_run(net, sigma_w=xr.DataArray(SIGMA[:, 0], dims="sigma_w", coords={"sigma_w": SIGMA[:, 0]}).chunk(9),
                     sigma_b=xr.DataArray(BIAS, dims="b", name="bias")).to_xarray()  # fmt: skip
    assert data.gap.dims == ("sigma_w", "b", "layer")
    assert data.gap.chunks is not None
    run = numpy_run(net)
    np.testing.assert_array_equal(data.gap.compute(), run.gap)
    np.testing.assert_array_equal(data.log_apjn.isel(layer=0).compute(), run.log_apjn[..., 0])
    np.testing.assert_array_equal(data.sigma_b, BIAS)


def test_a_worker_is_killed_half_way(client, tmp_path):
    seen = str(tmp_path / "seen")

    def fatal(block, block_id):
        """numbers that kill who works them out for the second time: the first is the check of all arguments"""
        if block_id[0] == 3:
            with open(seen, "a") as file:
                file.write("x")
            if os.path.getsize(seen) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        return block

    before = set(client.run(os.getpid).values())
    sigma = da.map_blocks(fatal, da.from_array(SIGMA, chunks=(4, 1)), dtype=float, meta=np.empty((0, 0)))
    sweep = numpy_run(sigma_w=sigma, out=tmp_path / "sweep.zarr")
    assert os.path.getsize(seen) >= 3
    client.wait_for_workers(2)
    assert len(before - set(client.run(os.getpid).values())) == 1
    same_bits(sweep, numpy_run())
    data = xr.open_zarr(tmp_path / "sweep.zarr")
    np.testing.assert_array_equal(data.sigma_w, SIGMA[:, 0])


# -- in a store ---------------------------------------------------------------------------------------------------------------------------


def test_a_killed_process_is_taken_up_where_it_was(counted, tmp_path):
    """it dies with the fourth of six chunks half written"""
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from meanfield.numeric import chunks, sweeps
import test_sweeps
calls, real = [], chunks.Recipe.__call__
sweeps.WORK = 7 * 20
def call(self, *blocks):
    calls.append(None)
    return real(self, *blocks) if len(calls) < 4 else Fatal(real(self, *blocks))
class Fatal(dict):
    def items(self):
        yield from list(super().items())[:2]
        os.kill(os.getpid(), signal.SIGKILL)
chunks.Recipe.__call__ = call
test_sweeps.numpy_run(out={str(tmp_path / "sweep.zarr")!r})
"""
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    half = xr.open_zarr(tmp_path / "sweep.zarr").q.isel(layer=0).notnull().all("sigma_b").values
    np.testing.assert_array_equal(half, np.arange(24) < 16)
    sweep = numpy_run(out=tmp_path / "sweep.zarr")
    assert len(counted) == 3
    same_bits(sweep, numpy_run())
    numpy_run(sigma_w=da.from_array(SIGMA, chunks=(7, 1)), out=tmp_path / "sweep.zarr")
    assert len(counted) == 3  # the same numbers from elsewhere


def test_an_interrupt_keeps_what_was_finished(counted, tmp_path, monkeypatch):
    real = sweep_store._write

    def interrupted(*arguments):
        if len(counted) == 2:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(sweep_store, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt) as stop:
        numpy_run(out=tmp_path / "sweep.zarr")
    assert "goes on from there" in stop.value.__notes__[0]
    monkeypatch.setattr(sweep_store, "_write", real)
    same_bits(numpy_run(out=str(tmp_path / "sweep.zarr")), numpy_run(), ["q"])
    assert len(counted) == 6


@pytest.mark.parametrize("coords", [{}, {"sigma_w": SIGMA[:, 0]}])
def test_a_lazy_parameter_along_its_own_dimension_is_a_coordinate(coords, tmp_path):
    values = da.from_array(SIGMA[:, 0], chunks=5)
    weights, path = xr.DataArray(values, dims="sigma_w", coords=coords), tmp_path / "sweep.zarr"
    for out in (None, path):
        sweep = numpy_run(sigma_w=weights, sigma_b=0.1, out=out)
        data = sweep.to_xarray()
        np.testing.assert_array_equal(data.sigma_w, SIGMA[:, 0])
        assert (data.sigma_w.chunks is None) == bool(coords)
        assert data.sigma_w.attrs["units"] == "1"
        np.testing.assert_array_equal(sweep.to_dataframe().sigma_w.unique(), SIGMA[:, 0])
    np.testing.assert_array_equal(xr.open_zarr(path).indexes["sigma_w"], SIGMA[:, 0])


def test_labels_compute_nothing():
    def computed(block):
        raise AssertionError

    values = da.from_array(SIGMA[:, 0], chunks=5).map_blocks(computed, dtype=float, meta=np.empty(0))
    assert numpy_run(sigma_w=xr.DataArray(values, dims="sigma_w"), sigma_b=0.1).to_xarray().sizes["sigma_w"] == 24


@pytest.mark.parametrize("lost", [["gap/2.0.0"], ["status/5.0", "q/5.0.0"], ["log_apjn/0.0.0", "sweep/finished/3.0"]])
def test_a_chunk_whose_file_is_gone_is_computed_again(lost, counted, tmp_path):
    path = tmp_path / "sweep.zarr"
    numpy_run(out=path)
    for name in lost:
        (path / name).unlink()
    counted.clear()
    same_bits(numpy_run(out=path), numpy_run())
    assert len(counted) == len({name.split("/")[-1].split(".")[0] for name in lost})


def test_a_chunk_that_is_nan_throughout_is_there(counted, tmp_path):
    cube = {"net": mf.mlp(mf.Activation(mf.x**3)), "depth": 30, "q": 1e10, "out": tmp_path / "sweep.zarr"}
    assert np.isnan(numpy_run(**cube).gap[..., -1].compute()).all()
    counted.clear()
    numpy_run(**cube)
    assert not counted


@pytest.mark.parametrize("given", [{"sigma_w": 1.3, "sigma_b": 0.1}, {"sigma_w": 1.3, "sigma_b": 0.1, "q2": 2.0}])
def test_a_store_of_one_setting_is_taken_up(given, counted, tmp_path):
    for _ in range(2):
        sweep = numpy_run(**given, out=tmp_path / "sweep.zarr")
    same_bits(sweep, numpy_run(**given))
    assert len(counted) == 1


def test_a_chunk_of_quadrature_takes_seconds():
    """what an interrupt or a kill loses: some 2,000 layers of points at 0.5 to 1 ms, and one point where that has more"""
    net = mf.mlp(mf.Activation(sp.exp(mf.x**2 / 50) * sp.tanh(mf.x)))  # too steep for tables
    given = {"q": 1.0, "c": 0.5, "sigma_w": SIGMA, "sigma_b": np.linspace(0, 1, 90)}
    sizes = [sweeps.planned(net, depth, "token", "last", "cpu", None, given).chunks.sizes for depth in (50, 5000)]
    assert 1000 < np.prod(sizes[0]) * 50 <= 2000
    assert sizes[1] == (1, 1)


def test_a_store_is_a_labelled_dataset(tmp_path):
    numpy_run(record=3, out=tmp_path / "sweep.zarr")
    data, run = xr.open_zarr(tmp_path / "sweep.zarr"), numpy_run(record=3).to_xarray()
    xr.testing.assert_identical(data.compute(), run)
    assert data.attrs["meanfield_version"] == mf.__version__
    assert data.gap.attrs["latex"] == "1 - c_l"
    assert data.gap.encoding["chunks"] == data.gap.shape


@pytest.mark.parametrize("name", ["tokens", "masked softmax", "pair", "setting"])
def test_every_kind_of_run(name, tmp_path):
    net, given = {
        "tokens": (mf.pre_norm(norm=mf.LayerNorm(), attention=mf.CausalAttention(), mlp=mf.MLP(mf.relu)),
                   {"n": 3, "sigma_V": BIAS + 1, "sigma_O": 1.0, "sigma_1": 1.0, "sigma_2": 1.0, "p": SIGMA[:4] / 4}),
        "masked softmax": (mf.CausalAttention(sigma_Q=1.0, sigma_K=1.0), {"n": 3, "sigma_V": BIAS[:3] + 1, "sigma_O": 1.0, "p": 0.3}),
        "pair": (mf.mlp(mf.erf), {"q2": 2.0, "c": SIGMA[:4] / 4, "sigma_w": 1.0, "sigma_b": BIAS}),
        "setting": (NET, {"c": 0.5, "sigma_w": 1.2, "sigma_b": 0.1}),
    }[name]  # fmt: skip
    cut = {k: da.from_array(v, chunks=3) for k, v in given.items() if np.ndim(v)}
    for record in ("all", "last"):
        run = mf.propagate(net, 3, 1.0, record=record, **given)
        same_bits(mf.propagate(net, 3, 1.0, record=record, out=tmp_path / f"{record}.zarr", **given | cut), run)


def test_memory_does_not_grow_with_the_grid(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeps, "WORK", 7 * 5000)
    sigma = np.linspace(0.5, 2.0, 500)[:, None]
    numpy_run(record="last", out=tmp_path / "first.zarr")  # what is loaded once
    tracemalloc.start()
    numpy_run(record="last", sigma_w=sigma, sigma_b=np.linspace(0.0, 1.0, 200), out=tmp_path / "sweep.zarr")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500 * 200 * 7 * 8 / 2


# -- refusals -----------------------------------------------------------------------------------------------------------------------------


OTHER = {
    "network": ({"net": mf.mlp(mf.relu)}, "network = "),
    "depth": ({"depth": 8}, "depth = 7 there, 8 here"),
    "record": ({"record": "last"}, "other layers recorded"),
    "start": ({"start": "pooled"}, "start = token there, pooled here"),
    "number": ({"c": 0.4}, "c = 0.3 there, 0.4 here"),
    "values": ({"sigma_b": BIAS + 1e-12}, "other values of sigma_b"),
    "grid": ({"sigma_b": BIAS[:4]}, r"grid = \[24, 5\] there, \[24, 4\] here"),
    "name": ({"c": None, "p": 0.3}, "c given there only; p given here only"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "sweep.zarr"
    numpy_run(out=path)
    return path


@pytest.mark.parametrize("name", OTHER)
def test_a_store_of_another_sweep_is_refused(name, finished):
    change, message = OTHER[name]
    with pytest.raises(ValueError, match=f"holds another sweep: .*{message}"):
        numpy_run(**change, out=finished)


DAMAGE = {
    "what it is": (lambda path: (path / "sweep" / ".zattrs").write_text("{"), "what its group sweep says cannot be read"),
    "some of it": (lambda path: (path / "sweep" / ".zattrs").write_text("{}"), "its group sweep does not say arrays, chunks, depth"),
    "a quantity": (lambda path: shutil.rmtree(path / "gap"), "it has no gap"),
    "what is finished": (lambda path: shutil.rmtree(path / "sweep" / "finished"), "it has no sweep/finished"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_store_is_refused(name, finished, tmp_path):
    path = tmp_path / "copy.zarr"
    shutil.copytree(finished, path)
    damage, message = DAMAGE[name]
    damage(path)
    with pytest.raises(ValueError, match=rf"copy\.zarr' is damaged, {message}.*Pass another path, or remove it"):
        numpy_run(out=path)


def test_two_processes_begin_a_store_at_once(tmp_path, monkeypatch):
    """the one that comes second takes up what the first has made meanwhile"""
    path, create, made = tmp_path / "sweep.zarr", sweep_store._create, []

    def late(plan, path, identity):
        made.append(identity)
        if len(made) == 1:
            numpy_run(out=path)  # finds nothing, and is there first
        create(plan, path, identity)

    monkeypatch.setattr(sweep_store, "_create", late)
    sweep, whole = numpy_run(out=path), numpy_run()
    assert len(made) == 2
    np.testing.assert_array_equal(sweep.gap.compute(), whole.gap)
    assert [f.name for f in tmp_path.iterdir()] == ["sweep.zarr"]


def test_a_store_of_another_version_is_refused(finished, monkeypatch):
    monkeypatch.setattr(mf, "__version__", "9.9")
    with pytest.raises(ValueError, match=r"meanfield_version = .* there, 9\.9 here"):
        numpy_run(out=finished)


WILD = mf.Activation(sp.sin(sp.exp(mf.x)))
REFUSED = {
    "a folder of something else": ({"out": "."}, ValueError, "is no sweep"),
    "no folder": ({"out": "nowhere/sweep.zarr"}, ValueError, "there is no folder"),
    "an array out of range": ({"sigma_w": -SIGMA}, ValueError, "sigma_w = -0.8: .* at least 0"),
    "a lazy array out of range": ({"sigma_w": da.from_array(-SIGMA, chunks=5)}, ValueError, "sigma_w = -.* at least 0"),
    "lazy text": ({"sigma_w": da.from_array(np.array(["a", "b"]), chunks=1)}, TypeError, "sigma_w: expected real numbers"),
    "an unknown size": ({"sigma_w": da.from_array(SIGMA[:, 0], chunks=5)[da.from_array(SIGMA[:, 0], chunks=5) > 1]}, ValueError, "sizes"),
    "a missing parameter": ({"net": mf.MLP(mf.relu) >> mf.Linear()}, ValueError, "missing parameters: sigma_1, sigma_2"),
    "lazy, an array to write to": ({"sigma_w": da.from_array(SIGMA, chunks=5), "out": np.empty(3)}, TypeError, "out = ndarray: of dask"),
    "shapes": ({"sigma_w": da.from_array(SIGMA[:, 0], chunks=5)}, ValueError, "do not broadcast"),
    "a plain array beside a named one": ({"sigma_w": xr.DataArray(SIGMA[:, 0], dims="w")}, ValueError, "sigma_b: plain arrays beside Data"),
    "coordinates": ({"sigma_w": xr.DataArray(BIAS, {"w": BIAS}, "w"), "sigma_b": xr.DataArray(BIAS, {"w": -BIAS}, "w")}, ValueError,
                    "coordinates of sigma_w, sigma_b differ"),
    "what quadrature cannot follow": ({"net": mf.mlp(WILD)}, ValueError, "cannot be resolved by quadrature"),
    "the same, lazy": ({"net": mf.mlp(WILD), "sigma_w": da.from_array(SIGMA, chunks=5), "out": None}, ValueError, "cannot be resolved"),
    "an empty grid": ({"sigma_w": np.zeros((0, 1))}, ValueError, r"a grid of shape \(0, 5\) has no settings"),
    "no settings, lazy": ({"sigma_w": da.zeros((0, 1)), "out": None}, ValueError, "has no settings"),
    "a path of no file": ({"out": "a\0b.zarr"}, ValueError, "no folder can be made there: embedded null byte"),
    "a name that is too long": ({"out": "x" * 300}, ValueError, "no folder can be made there"),
    "a name that is taken": ({"sigma_w": 1.0, "sigma_b": xr.DataArray(BIAS, dims="layer")}, ValueError, "a dimension called 'layer'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_leaves_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        numpy_run(**{"out": "sweep.zarr"} | change)
    assert not list(tmp_path.iterdir())


def test_a_chunk_that_cannot_fit_is_refused(monkeypatch):
    monkeypatch.setattr("meanfield.memory.available_memory", lambda: 1e6)
    with pytest.raises(
        ValueError, match=r"a chunk of the sweep needs .*(1\.2e\+05|120000) settings.*: pass record='last', .*or smaller chunks$"
    ):
        numpy_run(sigma_w=da.from_array(np.ones((24000, 1)), chunks=-1))


@pytest.mark.parametrize("scale", [1 / (2 * A - 1 - mf.l), sp.sqrt(A - 1)])
def test_a_coefficient_of_a_lazy_parameter_is_looked_at_where_it_is_known(scale):
    net, good = mf.Residual(mf.MLP(mf.relu, 1, 1), scale=scale), np.array([3.0, 4.0])
    found = mf.propagate(net, 3, 1.0, a=da.from_array(good, chunks=1))
    np.testing.assert_array_equal(found.q, mf.propagate(net, 3, 1.0, a=good).q)
    with pytest.raises(ValueError, match=r"got none at .*a = 0\.5"):
        mf.propagate(net, 3, 1.0, a=da.from_array(np.array([3.0, 0.5]), chunks=1)).q.compute()


def test_a_lazy_number_out_of_range_is_named_when_it_is_known():
    with pytest.raises(ValueError, match=r"sigma_w = -0\.8"):
        numpy_run(sigma_w=da.from_array(-SIGMA, chunks=24)).q.compute(scheduler="synchronous")


def test_a_kernel_is_made_again_from_the_network_alone(tmp_path):
    """in a process that finds none, where sets and dicts have another order"""
    net = mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    given = {"alpha": 0.7, "n": 5, **{f"sigma_{k}": 0.9 for k in "QKVO12"}}
    plan = sweeps.planned(net, 3, "token", "all", "cpu", None, {"q": 1.0, "p": 0.4, **given})
    (tmp_path / "recipe").write_bytes(pickle.dumps(plan.recipe))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))()['log_apjn'].tolist())"
    there = {**os.environ, "MEANFIELD_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONHASHSEED": "7"}
    found = subprocess.run([sys.executable, "-c", code, tmp_path / "recipe"], env=there, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == mf.propagate(net, 3, 1.0, p=0.4, **given).log_apjn.tolist()


def test_another_kernel_on_a_worker_is_refused():
    recipe = chunks.Recipe(NET, 3, "token", "all", "cpu", {"q": 1.0, "sigma_w": 1.0, "sigma_b": 0.1}, (), 1, "another")
    with pytest.raises(RuntimeError, match="same versions"):
        recipe()


@pytest.mark.parametrize("missing", ["dask", "zarr", "xarray"])
def test_a_missing_library_is_one_sentence(missing, tmp_path):
    code = (
        "import sys; sys.modules[sys.argv[1]] = None; import meanfield as mf\n"
        "given = {'q': 1.0, 'c': 0.3, 'sigma_w': 1.2, 'sigma_b': [0.1, 0.2]}\n"
        "mf.propagate(mf.mlp(mf.erf), 7, **given)\n"
        "try: mf.propagate(mf.mlp(mf.erf), 7, out='sweep.zarr', **given)\n"
        "except ImportError as said: print(said)\n"
    )
    found = subprocess.run([sys.executable, "-c", code, missing], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert 'pip install "meanfield-nn[sweep]"' in found.stdout
    assert not (tmp_path / "sweep.zarr").exists()
