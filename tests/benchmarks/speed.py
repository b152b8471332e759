"""Generated kernels against their peers: process CPU times of one alternating run, medians and their ratios, as tables for the README.

    python tests/benchmarks/speed.py [rounds] [words of the rows to run]

Every peer is a process in an environment of its own (`peers.py`), which waits for its turn; one that cannot be set up is named. C, numpy,
plain Python, numba and JAX do the very step of the generated source, JAX once more the recursion as it is printed, in q and p; C keeps no
status, nobody but meanfield sums ln chi apart.
Environments are made on first use below $MEANFIELD_BENCHMARKS, else in the user's cache folder: 1 GB.
"""

from __future__ import annotations

import ast
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import sympy as sp
from step_in_c import FAST, GLIBC, library
from sympy.printing.pycode import pycode

import meanfield as mf
from meanfield.numeric.launch import lanes_of
from meanfield.numeric.readers import reader_of, tables_at
from meanfield.numeric.trajectory import kernel_of
from meanfield.recurrence import explicit

HERE = Path(__file__).parent
ENVIRONMENTS = {
    "jax": ("venv-jax", ("jax==0.10.2",)),
    "neural_tangents": ("venv-nt", ("jax==0.4.30", "jaxlib==0.4.30", "neural-tangents==0.6.5")),
}
ENVIRONMENTS["jax_printed"] = ENVIRONMENTS["jax"]
ENVIRONMENTS["single_entry"] = ENVIRONMENTS["neural_tangents"]
TANGENTS = ("neural_tangents", "single_entry")
THREADS = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


def parallel() -> mf.Block:
    """none of the library's networks, with an activation that is none of its own"""
    phi = mf.Activation(mf.x / 3 + mf.erf.expression)
    return mf.Residual(mf.LayerNorm() >> mf.Parallel((mf.Attention(), mf.MLP(phi))))


NETWORKS: dict[str, tuple[Callable[[], Any], int]] = {
    "pre-LN transformer": (lambda: mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)), 2),
    "Derf transformer": (lambda: mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)), 2),
    "parallel block, x/3 + erf x": (parallel, 2),
    "ReLU MLP": (lambda: mf.mlp(mf.relu), 1),
    "erf MLP": (lambda: mf.mlp(mf.erf), 1),
    "GELU MLP": (lambda: mf.mlp(mf.gelu), 1),
    "leaky ReLU residual": (lambda: mf.Residual(mf.LayerNorm() >> mf.MLP(mf.leaky_relu)), 1),
    "sin MLP": (lambda: mf.mlp(mf.Activation(sp.sin(mf.x))), 1),
    "GELU transformer": (lambda: mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.gelu)), 2),
    "cos transformer": (lambda: mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.cos)), 2),
    "x/2 erf x MLP": (lambda: mf.mlp(mf.Activation(mf.x / 2 * mf.erf.expression)), 1),
    "exp(-x^2) MLP": (lambda: mf.mlp(mf.Activation(sp.exp(-(mf.x**2)))), 1),
}


@dataclass
class Row:
    """A network at a number of points, and the peers with points and layers of their own where they are slow."""

    network: str
    count: int
    depth: int
    peers: dict[str, tuple[int, int]] = field(default_factory=dict)


def interpreter(peer: str) -> str:
    """the Python of a peer; SetupError where there is none"""
    return sys.executable if peer not in ENVIRONMENTS else _environment(peer)


@cache
def _environment(peer: str) -> str:
    name, packages = ENVIRONMENTS[peer]
    folder = Path(os.environ.get("MEANFIELD_BENCHMARKS") or platformdirs.user_cache_path("meanfield") / "benchmarks") / name
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"setting up {', '.join(packages)} in {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return str(python)


def printed(rec: mf.Recursion) -> list[str]:
    """lines of a repeat as a user has it from the formulas: q, p and the transfers of each sublayer, common parts once"""
    lines, transfer = [], sp.eye(2)
    for k, stage in enumerate(rec.unrolled):
        law, values = stage.law, stage.values
        parts = [explicit(e, values) for e in (*law.transfer, law.output.q, law.output.p)]
        shared, parts = sp.cse(parts, symbols=sp.numbered_symbols(f"s{k}_"))
        named = [(sp.Symbol(f"t{k}_{i}"), e) for i, e in enumerate(parts[:4]) if e != 0]
        lines += [f"{name} = {pycode(e)}" for name, e in (*shared, *named)]
        lines += [f"q, p = ({pycode(parts[4])}, {pycode(parts[5])})"]
        transfer *= sp.Matrix(2, 2, [sp.Symbol(f"t{k}_{i}") if e != 0 else 0 for i, e in enumerate(parts[:4])])
    row = transfer[:1] if transfer.is_diagonal() else transfer[:]  # of J alone where K does not reach it
    return [*map(_selecting, lines), f"return q, p, {', '.join(map(pycode, row))}"]


def described(rec: mf.Recursion, lanes: int) -> dict[str, Any]:
    """the step of the generated source, its inputs and what it returns"""
    kernel = kernel_of(rec, True)
    text = kernel.interpreted
    step, load = re.search(r"def step_0\((.*?)\):\n(.*?)\n    return (.*?)\n", text, re.S), re.search(r"def load\(.*?\n\n\n", text, re.S)
    assert step
    assert load
    hoisted = [line.strip() for line in load[0].split("\n") if re.match(r"    \w+ = (?!float\(values)", line)]
    body = [line.strip().removesuffix(" if delta < math.inf else delta") for line in step[2].split("\n")]  # peers keep no status
    return {
        "given": re.findall(r"    (\w+) = float\(values\[\d+, g\]\)", load[0]),
        "hoisted": hoisted,
        "selected_before": [_selecting(line) for line in hoisted],
        "body": body,
        "selected": [_selecting(line) for line in body],
        "printed": printed(rec),
        "held": step[1].split(", ")[2:-2],
        "results": step[3].split(", ")[2:],
        "source": kernel.compiled(lanes),
        "lanes": lanes,
        "layers": kernel.layers,
        "kept": kernel.kept,
        "split": kernel.split,
    }


def _selecting(line: str) -> str:
    """the line with its choices as calls, for those who work on whole arrays or vectors"""
    target, _, value = line.partition(" = ")
    tree = ast.parse(value, mode="eval").body
    values = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    return f"{target} = {', '.join(ast.unparse(_Selecting().visit(v)) for v in values)}"


class _Selecting(ast.NodeTransformer):
    def visit_IfExp(self, node: ast.IfExp) -> ast.Call:
        self.generic_visit(node)
        return ast.Call(ast.Name("where", ast.Load()), [node.test, node.body, node.orelse], [])


def drawn(names: tuple[str, ...], count: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    values = draw.uniform(0.3, 0.9, (len(names), count))
    for k, name in enumerate(names):
        values[k] = {"n": 197.0, "sigma_w": 1.3}.get(name, values[k])
    return {"values": values, "q": np.ones(count), "delta": draw.uniform(0.1, 0.9, count)}


class Peer:
    """A process that does a round when it is told to."""

    def __init__(self, name: str, folder: Path, case: dict[str, Any], points: dict[str, np.ndarray]) -> None:
        folder.mkdir()
        self.name = name
        (folder / "kernel.py").write_text(case["source"])
        if name == "c":
            alone = points["q"].size == 1
            case = case | {"library": library(case, GLIBC if alone else FAST, 1 if alone else 64, folder)}
        (folder / "case.json").write_text(json.dumps(case | {"source": "", "kernel": "kernel.py"}))
        np.savez(folder / "points.npz", allow_pickle=False, **points)
        command = [interpreter(name), str(HERE / "peers.py"), name, str(folder)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or name not in ENVIRONMENTS} | THREADS
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.size, self.end = json.loads(self._line())
        self.times: list[float] = []

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError(f"{self.name}: {self.log.read().strip()[-300:]}")
        return line

    def round(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.times.append(float(self._line()) * 1e9 / self.size)

    def stop(self) -> None:
        self.process.communicate()
        self.log.close()


def raced(peers: dict[str, tuple[dict[str, Any], dict[str, np.ndarray]]], rounds: int) -> dict[str, Any]:
    """ns per layer-point of each peer, or why there is none"""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        running: list[Peer] = []
        try:
            for name, (case, points) in peers.items():
                try:
                    running.append(Peer(name, Path(folder) / name, case, points))
                except (RuntimeError, OSError, subprocess.CalledProcessError) as reason:
                    found[name] = f"missing: {reason}"
            for _ in range(rounds):
                for peer in running:
                    peer.round()
        finally:
            for peer in running:
                peer.stop()
    alike = [p for p in running if p.name in ("meanfield", "c") or (p.size == running[0].size and p.name not in TANGENTS)]
    for peer in alike:
        assert np.allclose(peer.end, alike[0].end, rtol=1e-9, atol=1e-9), (peer.name, peer.end, alike[0].end)
    return found | {p.name: statistics.median(p.times) for p in running}


def of_network(row: Row, rounds: int) -> dict[str, Any]:
    net, layers = NETWORKS[row.network]
    rec = mf.recursion(net())
    kernel = kernel_of(rec, True)
    peers = {}
    for name in ("meanfield", "every", "sixteenth", "c", *row.peers):
        count, depth = row.peers.get(name, (row.count, row.depth))
        lanes = lanes_of(kernel, count, {"every": depth + 1, "sixteenth": depth // 16 + 1}.get(name, 1))
        case = described(rec, lanes) | {"depth": depth, "activation": row.network.split()[0].lower()}
        peers[name] = (case, drawn(kernel.parameters, count))
    return {name: t / layers if isinstance(t, float) else t for name, t in raced(peers, rounds).items()}


def of_tables(activation: str, rounds: int, peers: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """an MLP whose activation has no closed form"""
    net = mf.mlp(mf.activations[activation])
    reader = reader_of(mf.recursion(net), True)
    assert reader
    kernel = reader.kernel
    draw, count, depth = np.random.default_rng(0), 1024, 60
    points = {"values": np.array([draw.uniform(0.1, 0.3, count), draw.uniform(1.0, 1.35, count)]), "q": np.ones(count)}
    points["delta"] = draw.uniform(0.1, 0.9, count)
    mf.propagate(net, depth, 1.0, gap=points["delta"], sigma_b=points["values"][0], sigma_w=points["values"][1], record="last")
    case = {
        "source": kernel.compiled(1),
        "lanes": 1,
        "layers": 1,
        "kept": kernel.kept,
        "split": kernel.split,
        "activation": activation,
        "depth": depth,
    }
    tables = tables_at(reader.functions, kernel.parameters, points["values"][:, 0])
    own = points | {f"table_{k}": table.numbers[None] for k, table in enumerate(tables)}
    found = raced({"meanfield": (case | {"depth": 10}, own)}, rounds)
    found["every"] = raced({"meanfield": (case, own)}, rounds)["meanfield"]
    few = {}
    for name, (n, layers) in peers.items():
        few[name] = (case | {"depth": layers}, {k: v[..., :n] for k, v in points.items()})
    return found | raced(few, max(3, rounds // 5))


def processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    return f"{found[1] if found else platform.machine()}, {os.cpu_count()} cores"


SLOW = {"python": (2, 256), "numba": (1024, 64)}
GRID = {"numpy": (1024, 64), "numba": (1024, 64), "jax": (1024, 64), "jax_printed": (1024, 64)}
ROWS = [
    *(Row(name, 1024, 256, GRID | (dict.fromkeys(TANGENTS, (1024, 16)) if name in ("ReLU MLP", "erf MLP") else {})) for name in NETWORKS),
    Row("pre-LN transformer", 16384, 64, {"numpy": (16384, 32), "jax": (16384, 32), "jax_printed": (16384, 32)}),
    Row("erf MLP", 16384, 64, {"numpy": (16384, 32), "jax": (16384, 32), "jax_printed": (16384, 32)}),
    # not deeper: where the gap underflows a run ends early, and C is slow at subnormal numbers
    *(
        Row(name, 1, depth, {"numpy": (1, 400), "python": (1, 1000), "numba": (1, depth), "jax": (1, depth)})
        for name, depth in (dict.fromkeys(NETWORKS, 3500) | {"exp(-x^2) MLP": 1200, "x/2 erf x MLP": 600}).items()
    ),
]
NAMES = {
    "c": "C",
    "jax": "JAX",
    "jax_printed": "JAX, as printed",
    "neural_tangents": "neural-tangents",
    "single_entry": "its p alone",
    "hermite": "numpy, 64 nodes",
}


def main(rounds: int, words: list[str]) -> None:
    columns = ("c", "numpy", "python", "numba", "jax", "jax_printed", "neural_tangents", "single_entry")
    print(
        f"{processor()}, {datetime.date.today()}, load {os.getloadavg()[0]:.1f}; medians of {rounds} alternating rounds, process CPU time\n"
    )
    print("| network | points | ns per layer and point | every layer | every 16th | " + " | ".join(NAMES.get(c, c) for c in columns) + " |")
    print("|---" * (5 + len(columns)) + "|", flush=True)
    missing: set[str] = set()

    def shown(found: dict[str, Any], name: str) -> str:
        t = found.get(name)
        if isinstance(t, str):
            missing.add(f"{name}: {t}")
        return f"{t / found['meanfield']:.2f}×".replace(".00×", "×") if isinstance(t, float) else ""

    for row in ROWS:
        if words and not any(word in f"{row.network}, {row.count}" for word in words):
            continue
        found = of_network(row, rounds)
        own = [f"{found['meanfield']:.2f}", *(f"{found[name] - found['meanfield']:+.1f}" for name in ("every", "sixteenth"))]
        print(f"| {row.network} | {row.count} | " + " | ".join([*own, *(shown(found, c) for c in columns)]) + " |", flush=True)
    for activation, peers in {"tanh": {"hermite": (4, 2), "neural_tangents": (16, 2)}, "softplus": {"hermite": (4, 2)}}.items():
        if words and not any(word in f"{activation} tables" for word in words):
            continue
        found = of_tables(activation, rounds, peers)
        text = ", ".join(f"{NAMES[name]} {shown(found, name)}" for name in peers)
        times = f"{found['meanfield']:.0f} ns (10 layers), {found['every']:.0f} ns (60 layers)"
        print(f"\n{activation} MLP from tables, 1024 points: {times}; {text}", flush=True)
    print("".join(f"\nno {reason}" for reason in sorted(missing)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15, sys.argv[2:])
