"""Kernels on a CUDA device: in numba's simulator always, as PTX where NVVM is installed, on a device where there is one."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import meanfield as mf
from meanfield.numeric import cuda_kernels, cuda_runs
from meanfield.numeric.trajectory import kernel_of

pytest.importorskip("numba_cuda")

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "device.py"
ATTENTION = {"n": 9, "sigma_Q": 0.64, "sigma_K": 0.64, "sigma_V": 0.64, "sigma_O": 0.64, "sigma_1": 0.64, "sigma_2": 1.28}


#: in which what runs on the processor is not compiled, whatever it is: that takes seconds for each network
PLAIN = f"""
import sys
from dataclasses import replace
from meanfield.numeric import launch, runs, ways
done, quadrature = runs.done, ways._by_quadrature
runs.done = lambda job, memory=None: done(replace(job, alone=job.device == "cpu"), memory)
ways._by_quadrature = lambda job, out: quadrature(replace(job, alone=True), out)
launch.patient = lambda *given: True
sys.path.insert(0, {str(BENCHMARK.parent)!r})
"""


def ran(text: str, simulator: bool) -> str:
    """what a process prints in which kernels run in numba's simulator, which is chosen before numba is imported, or on a device"""
    # numpy's scalars warn where a device is silent
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", PLAIN + text]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NUMBA_ENABLE_CUDASIM": str(int(simulator))})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checked_table(folder: Path, count: int) -> None:
    (path,) = folder.glob("cuda_*.json")
    rows = json.loads(path.read_text())["rows"]
    assert [row["record"] for row in rows] == ["last", 16, "all"] * (count // 3)
    assert len(rows) == count
    assert max(row["difference"] for row in rows) <= 1e-12
    assert path.with_suffix(".txt").read_text().count("\n") == count + 2


def test_the_benchmark_in_the_simulator(tmp_path: Path) -> None:
    """closed forms, tables and token mixing, every form of record: the numbers of the processor"""
    options = ["--points", "3", "--depth", "18", "--rounds", "1", "--out", str(tmp_path)]
    ran(f"import device\nassert device.main({options!r}) == 0", simulator=True)
    checked_table(tmp_path, 15)
    assert "simulator" in (tmp_path / "cuda_simulator.txt").read_text()


ODDITIES = """
import numpy as np, pytest, sympy as sp, meanfield as mf
from meanfield.numeric import cuda_runs, device_copies, launch
from device import QUANTITIES, difference

def agree(net, depth, q, **given):
    device = mf.propagate(net, depth, q, device="cuda", **given)
    assert difference(mf.propagate(net, depth, q, **given), device) <= 1e-12, net
    return device

relu, grid = mf.mlp(mf.relu), np.geomspace(1e-2, 1e5, 5)
words = [agree(relu, 70, 1.0, c=0.5, sigma_w=grid, sigma_b=0.0, record=r).status.tolist() for r in ("all", "last", [0, 3, 64])]
assert words == [["underflow", "ok", "ok", "overflow", "overflow"]] * 3, words
assert agree(mf.mlp(mf.sign), 3, 1.0, c=[0.2, 0.3], sigma_w=1.0, sigma_b=0.1).status.tolist() == ["infinite APJN"] * 2
assert agree(mf.mlp(mf.erf), 700, 1.0, c=[0.9, 0.99], sigma_w=0.5, sigma_b=0.3, record="last").status.tolist() == ["gap underflow"] * 2
bump = mf.mlp(mf.Activation(mf.x * sp.exp(-(mf.x**2))))
assert agree(bump, 6, [1.0, 1e200], c=0.5, sigma_w=1.3, sigma_b=0.1).status.tolist() == ["ok", "invalid"]
assert agree(mf.mlp(mf.erf), 0, [1.0, 2.0], c=0.9, sigma_w=0.5, sigma_b=0.3).q.shape == (2, 1)
assert agree(relu, 5, np.ones((2, 3)), sigma_w=1.0, sigma_b=0.0, record=2)._delta is None
assert agree(relu, 5, 1.0, c=0.5, sigma_w=[0.0, 1.0], sigma_b=0.3).status.tolist() == ["zero APJN", "ok"]
agree(mf.mlp(mf.gelu), 9, 1.0, c=[0.0, 0.5, 1 - 1e-9], sigma_w=1.4, sigma_b=0.1)
assert agree(relu, 5, 1.0, c=0.5, sigma_w=1.0, sigma_b=0.0).status == "ok"

# tables for each value of a parameter
agree(mf.mlp(mf.Activation(sp.tanh(sp.Symbol("a") * mf.x) + mf.x / 5)), 3, 1.0, c=0.5, sigma_w=1.3, sigma_b=0.1, a=[0.7, 0.7, 1.5])

# a variance beyond the panels of tables, where the processor goes on by quadrature
agree(mf.mlp(mf.tanh), 2, [1.0, 1e13], c=0.5, sigma_w=1.3, sigma_b=0.1)

# the grid in several parts, brought back in pieces of a row, the layers in several segments, the gradient pooled, in given memory
cuda_runs.FILL, cuda_runs.LAUNCH, device_copies.PIECE, launch.SEGMENT = 2, 1, 1, 4
block = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(9, 0.6, 0.6, 0.6, 0.6), mlp=mf.MLP(mf.relu, 0.6))
given = dict(p=np.linspace(0.1, 0.9, 5), sigma_2=1.2, start="pooled")
run = agree(block, 11, 1.0, record=3, **given)
out = np.empty((6, run.layers.size, 5))
mf.propagate(block, 11, 1.0, record=3, device="cuda", out=out, **given)
assert np.array_equal(np.moveaxis(out[0], 0, -1), run.q)
assert np.array_equal(np.moveaxis(out[2], 0, -1), run.log_apjn)

def refused(match, net, *arguments, **given):
    with pytest.raises(ValueError, match=match):
        mf.propagate(net, *arguments, device="cuda", **given)

refused("goes layer by layer", relu, 10**7, 1.0, c=0.5, sigma_w=1.0, sigma_b=0.0, record="last")
refused("quadrature at every layer", mf.GAU(mf.silu, s=8, n=4, d=16, e=16), 3, 1.0, p=0.5)
refused("Gram matrices", relu, 3, 1.0, q2=2.0, c=0.5, sigma_w=1.0, sigma_b=0.0)
print("agreed")
"""


def test_statuses_parts_and_refusals_in_the_simulator() -> None:
    assert ran(ODDITIES, simulator=True) == "agreed\n"


def test_on_a_device(tmp_path: Path) -> None:
    from numba import cuda

    if not cuda.is_available():
        pytest.skip("no CUDA device")
    options = ["--points", "2000", "--depth", "40", "--rounds", "1", "--out", str(tmp_path)]
    subprocess.run([sys.executable, str(BENCHMARK), *options], check=True)
    checked_table(tmp_path, 15)
    assert ran(ODDITIES, simulator=False) == "agreed\n"


#: together these call every function that kernels do: with and without norms, tables and tokens
NETWORKS: dict[str, Any] = {
    "Derf": lambda: mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)),
    "GELU": lambda: mf.mlp(mf.gelu),
    "tanh": lambda: mf.mlp(mf.tanh),
    "quenched": lambda: mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(average=mf.Quenched()), mlp=mf.MLP(mf.relu)),
}


@pytest.mark.nvvm
@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_compile_to_ptx(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """for a device that is not there: every product is rounded by itself, and nothing is called"""
    from numba import cuda, float64, int64, types
    from numba.cuda import dispatcher

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    rec = mf.recursion(NETWORKS[name]())
    kernel = kernel_of(rec, True)
    program = cuda_kernels.program_of(kernel)
    column, row, whole = float64[:, ::1], float64[::1], int64[::1]
    given = [int64, whole, int64, whole, float64, column, row, row, *[column] * 6, whole, whole, column, column]
    tables = [column] * (program.points.py_func.__code__.co_argcount - len(given))
    try:
        ptx, _ = cuda.compile_ptx(program.points.py_func, types.void(*given, *tables), cc=(9, 0))
    except Exception as error:
        if "DynamicLibNotFoundError" in repr(error) or "NvvmSupportError" in repr(error):
            pytest.skip(f"NVVM or NVRTC is not installed: {type(error).__name__}")
        raise
    assert ptx.count(".visible .entry") == 1
    ptx = re.sub(r"\bmul\.f64 .*, 0d[0-9A-F]{3}0{13};", "", ptx)  # a quotient by a power of 2, which is exact however it is taken
    products = re.findall(r"\bmul\.\S*f64", ptx)
    assert products
    assert set(products) == {"mul.rn.f64"}
    assert "fma.rn.f64" in ptx
    assert not re.search(r"\bcall\b", ptx)


def test_products_minima_and_maxima_are_calls() -> None:
    text = cuda_kernels._rounded("A = 2 * 3\ndef f(x, y, s):\n    x *= y\n    s[1] *= x\n    return x * y + x * (y * 2) + max(x, y, 1)\n")
    product = "math.product(x, y) + math.product(x, math.product(y, 2))"
    body = (
        f"def f(x, y, s):\n    x = math.product(x, y)\n    s[1] = math.product(s[1], x)\n    return {product} + math.max(math.max(x, y), 1)"
    )
    assert text.startswith(f"A = 2 * 3\n\n{body}  # ")


def test_a_device_that_is_not_there(no_work: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import cuda

    given: dict[str, Any] = {"c": 0.5, "sigma_w": 1.0, "sigma_b": 0.0}
    with pytest.raises(ValueError, match=r"device = 'gpu': expected 'cpu' or 'cuda'"):
        mf.propagate(mf.mlp(mf.relu), 3, 1.0, device="gpu", **given)
    if not cuda.is_available():
        with pytest.raises(ValueError, match=r"^device = 'cuda': no CUDA device can be used on this machine \(.*\); leave device out$"):
            mf.propagate(mf.mlp(mf.relu), 3, 1.0, device="cuda", **given)
    find = importlib.util.find_spec
    monkeypatch.setattr(cuda_runs.importlib.util, "find_spec", lambda name: None if name == "numba_cuda" else find(name))
    with pytest.raises(ImportError, match=r'pip install "meanfield-nn\[cuda\]"'):
        mf.propagate(mf.mlp(mf.relu), 3, 1.0, device="cuda", **given)


def test_a_setting_that_a_device_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import cuda

    class Small:
        def get_memory_info(self) -> tuple[float, float]:
            return 2.0**20, 2.0**30

    monkeypatch.setattr(cuda, "current_context", Small)
    assert cuda_runs._points(10, 100, 0) == 2**20 // 1600
    with pytest.raises(ValueError, match=r"one setting needs 0\.00763 GiB, more than half of the 0\.000977 GiB .* pass record='last'"):
        cuda_runs._points(10, 1_000_000, 24_000)
    assert cuda_runs._points(10**12, 6, 0) == min(cuda_runs.FILL, 2**20 // 96)
    assert np.isfinite(cuda_runs.LAUNCH)


def test_a_kernel_is_made_where_it_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    text = (
        "import sys, tempfile\n"
        "tempfile._candidate_tempdir_list = lambda: [sys.argv[1]]\n"
        "from meanfield.numeric import cuda_kernels, store\n"
        "points = store.loaded('def points(a):\\n    a[0] = 1.0\\n', 'device').points\n"
        "print(cuda_kernels._global(cuda_kernels.numba_cuda(), points).py_func is points)\n"
    )
    nowhere = str(tmp_path / "file" / "below")
    there = {**os.environ, "MEANFIELD_CACHE_DIR": nowhere, "NUMBA_ENABLE_CUDASIM": "0"}
    done = subprocess.run([sys.executable, "-c", text, nowhere], capture_output=True, text=True, env=there)
    assert done.stdout == "True\n", done.stderr
