"""A CUDA device beside the processor: the same networks on both, seconds and differences, stored with date and device.

    python tests/benchmarks/device.py

runs every network of NETWORKS over a grid, keeping the last layer, every 16th and all, prints the table and writes `cuda_<device>.json`
and `.txt` beside itself. Times are medians in nanoseconds of wall time per layer and point, after a first call that compiles, arrays on
the host to arrays on the host; the processor has all its cores unless OMP_NUM_THREADS says otherwise. Exit status 1 where a difference
is above 1e-12.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numba import cuda

import meanfield as mf
from meanfield.numeric.cuda_kernels import simulated
from meanfield.numeric.threads import processors

SCALES = {"sigma_Q": (0.4, 0.9), "sigma_K": (0.4, 0.9), "sigma_V": (0.4, 0.9), "sigma_O": (0.4, 0.9)}
FEED = {"sigma_1": (0.4, 0.9), "sigma_2": (0.8, 1.4)}
LAYER = {"sigma_w": (1.1, 1.7), "sigma_b": (0.05, 0.3)}
#: a network, and the range of each of its parameters over the grid
NETWORKS: dict[str, tuple[Callable[[], mf.Block], dict[str, tuple[float, float]]]] = {
    "erf MLP": (lambda: mf.mlp(mf.erf), LAYER),
    "tanh MLP (tables)": (lambda: mf.mlp(mf.tanh), LAYER),
    "pre-LN transformer": (lambda: mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(197), mlp=mf.MLP(mf.relu)), SCALES | FEED),
    "Derf transformer": (
        lambda: mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(197), mlp=mf.MLP(mf.relu)),
        SCALES | FEED | {"alpha": (0.3, 1.5)},
    ),
    "pre-LN SiLU GLU (tables)": (lambda: mf.Residual(mf.LayerNorm() >> mf.GLU(mf.silu)), {}),
}
QUANTITIES = ("q", "gap", "log_apjn", "log_apjn_forward", "chi", "log_chi_product")


def difference(a: Any, b: Any) -> float:
    """the largest one between two runs, relative to a number or to 1 where that is larger in a logarithm"""
    worst = 0.0
    for name in (n for n in QUANTITIES if hasattr(a, n)):
        x, y = getattr(a, name), getattr(b, name)
        if x.shape != y.shape or not np.array_equal(np.isnan(x), np.isnan(y)):
            return float("inf")
        fine = np.isfinite(x) & np.isfinite(y)
        if not np.array_equal(x[~fine], y[~fine], equal_nan=True):
            return float("inf")
        x, y = x[fine], y[fine]
        worst = max(worst, float((np.abs(x - y) / np.maximum(np.abs(x), 1.0 if name.startswith("log") else 1e-300)).max(initial=0.0)))
    return worst if np.array_equal(a.status, b.status) else float("inf")


def compared(name: str, points: int, depth: int, rounds: int) -> list[dict[str, Any]]:
    """the rows of the table of one network"""
    make, ranges = NETWORKS[name]
    net, draw = make(), np.random.default_rng(0)
    given: dict[str, Any] = {parameter: draw.uniform(*between, points) for parameter, between in ranges.items()}
    given |= {"q": draw.uniform(0.5, 2.0, points), "c": draw.uniform(0.1, 0.9, points)}
    given |= {s.name: draw.uniform(0.4, 0.9, points) for s in mf.recursion(net).parameters if s.name not in given}
    layers = depth * sum(stage.times for stage in mf.recursion(net).stages)
    rows = []
    for record in ("last", 16, "all"):
        row: dict[str, Any] = {"network": name, "record": record, "points": points, "depth": depth, "layers": layers}
        runs = {}
        for device in ("cpu", "cuda"):
            times = []
            for _ in range(1 + rounds):
                began = time.perf_counter()
                runs[device] = mf.propagate(net, depth, record=record, device=device, **given)
                times.append(time.perf_counter() - began)
            row[f"{device} first"] = times[0]
            row[device] = statistics.median(times[1:]) * 1e9 / (points * layers)
        row["difference"] = difference(runs["cpu"], runs["cuda"])
        row["same bits"] = all(np.array_equal(getattr(runs["cpu"], n), getattr(runs["cuda"], n), equal_nan=True) for n in QUANTITIES)
        rows.append(row)
        print(line(row), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """one line of the table"""
    bits = "same bits" if row["same bits"] else f"{row['difference']:.1e}"
    return (
        f"{row['network']:<26} {row['record']!s:>5}  {row['cpu']:9.3f} {row['cuda']:9.4f}  {row['cpu'] / row['cuda']:7.1f}  "
        f"{row['cuda first']:6.2f}  {bits}"
    )


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, default in (("points", 1 << 17), ("depth", 1024), ("rounds", 3)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args(given)
    device = "simulator" if simulated() else cuda.get_current_device().name
    device = device.decode() if isinstance(device, bytes) else device
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    versions = f"numba {version('numba')}, numba-cuda {version('numba-cuda')}"
    title = (
        f"{device} beside {processors()} cores {platform.machine()}, {today}, {versions}; {args.points} points, {args.depth} repeats\n"
        f"{'network':<26} {'kept':>5}  {'cpu ns':>9} {'cuda ns':>9}  {'ratio':>7}  {'1st, s':>6}  largest difference"
    )
    print(title, flush=True)
    stem = args.out / f"cuda_{re.sub(r'[^a-z0-9]+', '_', device.lower()).strip('_')}"
    rows: list[dict[str, Any]] = []
    for name in args.networks:
        rows += compared(name, args.points, args.depth, args.rounds)
        stem.with_suffix(".json").write_text(json.dumps({"date": today, "device": device, "rows": rows}, indent=1) + "\n")
        stem.with_suffix(".txt").write_text("\n".join([title, *map(line, rows)]) + "\n")
    return 0 if all(row["difference"] <= 1e-12 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
