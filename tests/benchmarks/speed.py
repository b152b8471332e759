"""Generated kernels against the same arithmetic in C and in numpy: ratios of process CPU times, medians of one alternating run.

    python tests/benchmarks/speed.py [points] [repeats]

C is the step of the same generated source in blocks of 64 points, `gcc -O3 -march=native -ffast-math` with libmvec for grids, glibc
without vector code for a single trajectory. It keeps no status and takes one logarithm per 8 repeats. Needs gcc.
"""

from __future__ import annotations

import ctypes
import datetime
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import meanfield as mf
from meanfield.numeric import jobs, store
from meanfield.numeric.tables import table_of
from meanfield.numeric.trajectory import Kernel, kernel_of

NETWORKS = {
    "pre-LN transformer": (lambda: mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)), 2),
    "Derf transformer": (lambda: mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)), 2),
    "erf MLP": (lambda: mf.mlp(mf.erf), 1),
    "ReLU MLP": (lambda: mf.mlp(mf.relu), 1),
    "GELU MLP": (lambda: mf.mlp(mf.gelu), 1),
}
FAST = "-O3 -march=native -mprefer-vector-width=512 -ffast-math -fopenmp-simd"
GLIBC = "-O3 -march=native -fno-tree-vectorize"

SOURCE = """
#include <math.h>
static inline double angle_minus_sine(double t) {
  double s = t*t, u = s*s;
  double a = 0.16666666666666666 + s*-0.008333333333333333 + u*(0.00019841269841269817 + s*-2.7557319223982017e-06);
  double b = 2.505210838512761e-08 + s*-1.605904382195064e-10 + u*(7.647163292687179e-13 + s*-2.8114489197231916e-15);
  double c = 8.219617574391419e-18 + s*-1.9495555003914384e-20 + u*3.533158292227539e-23;
  return t*s*(a + u*u*(b + u*u*c)); }
static inline double angle_difference(double a, double ra, double b, double rb, double d) {
  double unit = 1.0/(a + ra); a *= unit; ra *= unit; b *= unit; rb *= unit; d *= unit;
  int far = b < 0;
  double opposite = far ? rb*a - b*ra : d*(a + b)*(a*a + ra*ra), shared = far ? 1.0 : rb*a + b*ra;
  return atan2(opposite, shared*(ra*rb + a*b)); }
static inline double guarded_sqrt(double x, double s) { return sqrt(fmax(x, 0.0)); }
void run(long G, long depth, const double *values, const double *q0, const double *d0, double *oq, double *od, double *oj) {
  for (long o = 0; o < G; o += BLOCK) {
    double Q[BLOCK], D[BLOCK], A[BLOCK], B[BLOCK], C[BLOCK], S[BLOCK], HELD;
    for (int i = 0; i < BLOCK; i++) { long g = o+i < G ? o+i : G-1; Q[i] = q0[g]; D[i] = d0[g]; A[i] = C[i] = 1; B[i] = S[i] = 0; LOAD }
    for (long l_ = 0; l_ < depth; l_++) {
      double l = l_, L = depth; (void)l; (void)L;
      _Pragma("omp simd") for (int i = 0; i < BLOCK; i++) { double q = Q[i], delta = D[i]; READ STEP Q[i] = q; D[i] = delta; UPDATE }
      if ((l_ & 7) == 7)
        _Pragma("omp simd") for (int i = 0; i < BLOCK; i++) { double f = 1.0/A[i]; S[i] += log(A[i]); A[i] = 1; B[i] *= f; }
    }
    for (int i = 0; i < BLOCK && o+i < G; i++) { oq[o+i] = Q[i]; od[o+i] = D[i]; oj[o+i] = S[i] + log(A[i]); }
  }
}
"""


def parts(kernel: Kernel) -> SimpleNamespace:
    """the step of the generated source, its inputs and what it returns"""
    text = kernel.interpreted
    step, load = re.search(r"def step_0\((.*?)\):\n(.*?)\n    return (.*?)\n", text, re.S), re.search(r"def load\(.*?\n\n\n", text, re.S)
    assert step
    assert load
    given = re.findall(r"    (\w+) = float\(values\[\d+, g\]\)", load[0])
    hoisted = [line.strip() for line in load[0].split("\n") if re.match(r"    \w+ = (?!float\(values)", line)]
    body = [line.strip() for line in step[2].split("\n")]
    return SimpleNamespace(given=given, hoisted=hoisted, body=body, held=step[1].split(", ")[2:-2], results=step[3].split(", ")[2:])


def statement(line: str, seen: set[str]) -> str:
    """a line of Python as one of C"""
    name, _, value = line.partition(" = ")
    value = re.sub(r"\b(min|max)\(", r"f\1(", value.replace("math.", "").replace("abs(", "fabs("))
    if name == "q, delta":
        depth = 0
        for end, character in enumerate(value):
            depth += (character == "(") - (character == ")")
            if character == "," and depth == 0:
                at = end
                break
        return f"{{ double q_ = {value[:at]}; delta = {value[at + 1 :]}; q = q_; }}"
    new = name not in seen
    seen.add(name)
    return f"{'double ' * new}{name} = {value};"


def in_c(kernel: Kernel, flags: str, block: int, folder: Path) -> Callable[..., None]:
    p, seen = parts(kernel), {"q", "delta"}
    r = p.results
    update = f"double a = A[i]*{r[0]}; A[i] = a; C[i] *= {r[-1] if len(r) in (2, 5) else r[0]};"
    if len(r) >= 4:
        update = f"double a = A[i]*{r[0]} + B[i]*{r[2]}, b = A[i]*{r[1]} + B[i]*{r[3]}; A[i] = a; B[i] = b; C[i] *= {r[4 % len(r)]};"
    load = " ".join(f"double {name} = values[{k}*G + g];" for k, name in enumerate(p.given))
    load += " ".join(statement(line, set()) for line in p.hoisted) + " ".join(f"V_{name}[i] = {name};" for name in p.held)
    source = SOURCE.replace("HELD", ", ".join(f"V_{name}[BLOCK]" for name in p.held)).replace("LOAD", load).replace("UPDATE", update)
    source = source.replace("READ", " ".join(f"double {name} = V_{name}[i];" for name in p.held))
    source = source.replace("STEP", " ".join(statement(line, seen) for line in p.body)).replace("BLOCK", str(block))
    (folder / "step.c").write_text(source)
    library = folder / f"step_{block}.so"
    subprocess.run(["gcc", str(folder / "step.c"), "-shared", "-fPIC", "-o", str(library), *flags.split(), "-lmvec", "-lm"], check=True)
    return ctypes.CDLL(str(library)).run


def angle_difference(a: Any, ra: Any, b: Any, rb: Any, d: Any) -> Any:
    far = b < 0
    opposite = np.where(far, rb * a - b * ra, d * (a + b) * (a * a + ra * ra) / np.where(far, 1.0, rb * a + b * ra))
    return np.arctan2(opposite, ra * rb + a * b)


def in_numpy(kernel: Kernel, values: np.ndarray, q: np.ndarray, delta: np.ndarray, depth: int) -> Callable[[], None]:
    """the step on whole arrays, a numpy call for each operation"""
    p = parts(kernel)
    names = {name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "tanh")} | {
        "atan": np.arctan,
        "atan2": np.arctan2,
    }
    space = {"math": SimpleNamespace(**names), "min": np.minimum, "abs": np.abs, "angle_difference": angle_difference}
    space |= {"angle_minus_sine": lambda t: t - np.sin(t), "guarded_sqrt": lambda x, scale: np.sqrt(np.maximum(x, 0.0))}
    lines = [f"def step(q, delta, {', '.join([*p.given, 'l', 'L'])}):", *p.hoisted, *p.body, f"return q, delta, {', '.join(p.results)}"]
    path = Path(tempfile.mkdtemp()) / "step.py"
    path.write_text("\n    ".join(lines) + "\n")
    module = store._load(path, "benchmark_step")
    vars(module).update(space)

    def run() -> None:
        state, row, logs = (q, delta), [1.0, 0.0], np.zeros_like(q)
        for l in range(depth):
            (*state,) = module.step(*state[:2], *values, float(l), float(depth))
            t = state[2:]
            row = [row[0] * t[0] + row[1] * t[2], row[0] * t[1] + row[1] * t[3]] if len(t) >= 4 else [row[0] * t[0], 0.0]
            if l & 7 == 7:
                logs += np.log(row[0])
                row = [1.0, row[1] / row[0]]

    return run


def medians(variants: dict[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in variants}
    for f in variants.values():
        f()
    for _ in range(rounds):
        for name, f in variants.items():
            start = time.process_time()
            f()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def compare(name: str, kernel: Kernel, layers: int, count: int, depth: int) -> None:
    """one line of the table"""
    lanes, flags = (64, FAST) if count > 1 else (1, GLIBC)
    draw = np.random.default_rng(0)
    values = draw.uniform(0.3, 0.9, (len(kernel.parameters), count))
    for k, parameter in enumerate(kernel.parameters):
        values[k] = {"n": 197.0, "sigma_w": 1.3}.get(parameter, values[k])
    q, delta, halt = np.ones(count), draw.uniform(0.1, 0.9, count), np.zeros(1, dtype=np.int64)
    every, last = jobs.Output(count, depth + 1, depth), jobs.Output(count, 1, depth)
    all_layers, last_layer = np.arange(depth + 1), np.array([depth])
    run = store.compiled(kernel.compiled(lanes), "trajectories")
    out = [np.empty(count) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        c = in_c(kernel, flags, lanes, Path(folder))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (values, q, delta, *out)]
        variants: dict[str, Callable[[], Any]] = {
            "meanfield": lambda: run(0, count, depth, last_layer, 4096, halt, 0.0, values, q, delta, *last.arrays),
            "every layer": lambda: run(0, count, depth, all_layers, 4096, halt, 0.0, values, q, delta, *every.arrays),
            "C": lambda: c(ctypes.c_long(count), ctypes.c_long(depth), *pointers),
        }
        if count > 1:
            variants["numpy"] = in_numpy(kernel, values, q, delta, depth)
        found = medians(variants)
    assert np.allclose(last.q[0], out[0], rtol=1e-10)
    assert np.allclose(last.forward[0], out[2], atol=1e-8)
    unit = 1e9 / (count * depth * layers)
    shown = ", ".join(f"{variant} {seconds * unit:.2f}" for variant, seconds in found.items())
    ratios = ", ".join(f"{found['meanfield'] / found[v]:.2f} of {v}" for v in ("C", "numpy") if v in found)
    print(f"{name}, {count} point{'s' * (count > 1)}: {shown}; {ratios}", flush=True)


def by_hermite(f: Any, slope: Any, values: np.ndarray, gap: np.ndarray, depth: int) -> Callable[[], None]:
    """a layer of an MLP by 64 x 64 Gauss-Hermite nodes in numpy, which is not exact to more than 1e-9 for tanh at q = 1"""
    x, w = np.polynomial.hermite_e.hermegauss(64)
    w = w / np.sqrt(2 * np.pi)
    bias, weight = values**2

    def run() -> None:
        q, delta, log = np.ones_like(gap), gap, np.zeros_like(gap)
        for _ in range(depth):
            s = np.sqrt(q)
            wide, narrow = np.sqrt(1 - delta / q / 2) * s, np.sqrt(delta / q / 2) * s
            u, v = wide[:, None, None] * x[None, :, None], narrow[:, None, None] * x[None, None, :]
            log += np.log(weight * (slope(s[:, None] * x) ** 2 @ w))
            delta = weight * 0.5 * np.einsum("gij,i,j->g", (f(u + v) - f(u - v)) ** 2, w, w)
            q = weight * (f(s[:, None] * x) ** 2 @ w) + bias

    return run


def compare_tables(name: str, f: Any, slope: Any, count: int, depths: tuple[int, ...]) -> None:
    """an MLP whose activation has no closed form, its moments from tables"""
    net, draw = mf.mlp(mf.activations[name]), np.random.default_rng(0)
    values, gap = np.array([draw.uniform(0.1, 0.3, count), draw.uniform(1.1, 1.7, count)]), draw.uniform(0.1, 0.9, count)
    variants: dict[str, tuple[Callable[[], Any], int]] = {"numpy, 64 nodes": (by_hermite(f, slope, values[:, :4], gap[:4], 2), 8)}
    plain, kernel = kernel_of(mf.recursion(net), True), kernel_of(mf.recursion(net), True, True)
    for depth in depths:
        mf.propagate(net, depth, 1.0, gap=gap, sigma_b=values[0], sigma_w=values[1], record="last")  # makes the tables
        rows = [table_of(*functions).numbers[None] for functions in plain.tabulated]
        last, marks, halt = jobs.Output(count, 1, depth), np.array([depth]), np.zeros(1, dtype=np.int64)
        run = store.compiled(kernel.compiled(1), "trajectories")
        arguments = (depth, marks, 4096, halt, 0.0, values, np.ones(count), gap, *last.arrays, *rows)
        variants[f"{depth} layers"] = (lambda run=run, arguments=arguments: run(0, count, *arguments), count * depth)
    found = medians({variant: f for variant, (f, _) in variants.items()})
    per = {variant: found[variant] * 1e9 / size for variant, (_, size) in variants.items()}
    numpy = per.pop("numpy, 64 nodes")
    shown = ", ".join(f"{variant} {t:.0f} (1/{numpy / t:.0f})" for variant, t in per.items())
    print(f"{name} MLP from tables, {count} points: {shown} of numpy with 64 x 64 nodes, {numpy:.0f}", flush=True)


def main(points: int, depth: int) -> None:
    print(f"{platform.processor() or platform.machine()}, {datetime.date.today()}; ns per layer and point, {depth} repeats")
    compare_tables("tanh", np.tanh, lambda z: 1 - np.tanh(z) ** 2, points, (10, 60, 256))
    compare_tables("softplus", lambda z: np.logaddexp(0, z), lambda z: 1 / (1 + np.exp(-z)), points, (10,))
    for name, (network, layers) in NETWORKS.items():
        kernel = kernel_of(mf.recursion(network()), True)
        for count in (points, 1):
            compare(name, kernel, layers, count, depth)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]) if len(sys.argv) == 3 else (1024, 256))
