"""What the first numbers of a process cost: seconds of CPU and by the clock after importing sympy and numpy, medians of processes of their
own.

    python tests/benchmarks/start.py [repeats] [name of a network ...]

"cold" has an empty cache folder, "warm" that of the process before; "one" is a trajectory of 1,000 repeats at one setting, "grid" the
first compiled kernel: 100 settings of 4 repeats. All processes have the library's bytecode.
"""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile

NETWORKS = {
    "pre-LN": "mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))",
    "Derf": "mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))",
    "DyT": "mf.pre_norm(norm=mf.DyT(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))",
    "DeepNorm": "mf.deep_norm(attention=mf.Attention(), mlp=mf.MLP(mf.relu))",
    "SwiGLU": "mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.GLU(mf.silu))",
    "DyT, SiLU": "mf.pre_norm(norm=mf.DyT(), attention=mf.Attention(), mlp=mf.MLP(mf.silu))",
    "DyT, SwiGLU": "mf.pre_norm(norm=mf.DyT(), attention=mf.Attention(), mlp=mf.GLU(mf.silu))",
    "post-LN, GELU": "mf.post_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.gelu))",
    "sandwich": "mf.sandwich_norm(norm=mf.RMSNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.gelu))",
    "parallel": "mf.parallel_block(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.gelu))",
    "LayerScale": "mf.layer_scale(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.gelu))",
    "ReZero": "mf.rezero(attention=mf.Attention(), mlp=mf.MLP(mf.relu))",
    "shaped attention": "mf.shaped_attention()",
    "value SkipInit": "mf.value_skipinit()",
    "GAU": "mf.GAU(mf.silu)",
    "GAU, ReLU": "mf.GAU(mf.relu)",
    "LN, GAU": "mf.Residual(mf.LayerNorm() >> mf.GAU(mf.silu))",
    "LN, GAU, MLP": "mf.pre_norm(norm=mf.LayerNorm(), attention=mf.GAU(mf.silu), mlp=mf.MLP(mf.relu))",
    "ReLU MLP": "mf.mlp(mf.relu)",
    "tanh MLP": "mf.mlp(mf.tanh)",
    "SiLU MLP": "mf.mlp(mf.silu)",
    "Mish MLP": "mf.mlp(mf.mish)",
    "residual SiLU": "mf.residual_mlp(mf.silu)",
    "x atan x MLP": "mf.mlp(mf.Activation(mf.x * sp.atan(mf.x)))",
    "kinked MLP": "mf.mlp(mf.Activation(sp.Max(sp.tanh(mf.x), 0)))",
}
PROCESS = """
import time
import numpy as np
import sympy as sp
start = time.process_time()
import meanfield as mf
imported = time.process_time()
net = {net}
names = [s.name for s in mf.recursion(net).parameters]
derived, clock = time.process_time(), time.perf_counter()
values = {{name: {{"n": 197.0, "s": 128.0, "d": 768.0, "e": 1536.0, "sigma_w": 1.3}}.get(name, 0.6) for name in names}}
if "{job}" == "one":
    mf.propagate(net, 1000, 1.0, p=0.5, **values)
else:
    mf.propagate(net, 4, 1.0, p=0.5, record="last", **{{name: np.full(100, v) for name, v in values.items()}})
print(imported - start, derived - imported, time.process_time() - derived, time.perf_counter() - clock)
"""

ENDS = "end to end"
SETTINGS = """
import time
import numpy as np
start = time.process_time(), time.perf_counter()
draw, count = np.random.default_rng(0), {count}
value, query, hidden, alpha, p = (draw.uniform(*ends, count) for ends in ((0.1, 0.6), (0.1, 2), (0.2, 1.5), (0.3, 2), (0.1, 0.9)))
"""
#: the last layer of a Derf transformer over a grid, as one would write it by hand
BY_HAND = (
    SETTINGS
    + """
q, log, n, a = np.ones(count), np.zeros(count), 197.0, 2 * alpha**2
for layer in range({repeats}):
    for attention in (True, False):
        below = 1 / (1 + a * q)
        q_, p_, slope = 2 / np.pi * np.arcsin(a * q * below), 2 / np.pi * np.arcsin(a * p * below), 2 / np.pi * a / np.sqrt(1 + 2 * a * q)
        if attention:
            here, there = (n - 1) * np.exp(query * q_ * (p_ - q_)), (n - 1) * np.exp(query * p_ * (p_ - q_))
            log += np.log(1 + value * slope / (1 + here))
            q, p = q + value * (q_ + p_ * here) / (1 + here), p + value * (q_ + p_ * there) / (1 + there)
        else:
            rho = np.minimum(p_ / q_, 1.0)
            log += np.log(1 + hidden * slope / 2)
            kappa = (np.sqrt(1 - rho * rho) + rho * (np.pi - np.arccos(rho))) / (2 * np.pi)
            q, p = q + hidden * q_ / 2, p + hidden * q_ * kappa
print(time.process_time() - start[0], time.perf_counter() - start[1], q.sum(), p.sum())
"""
)
BY_MEANFIELD = (
    SETTINGS.replace("start =", "import sympy\nstart =")
    + """
import meanfield as mf
net = mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
weights = dict(sigma_O=1, sigma_V=np.sqrt(value), sigma_Q=1, sigma_K=np.sqrt(query), sigma_1=1, sigma_2=np.sqrt(hidden), alpha=alpha)
run = mf.propagate(net, {repeats}, 1.0, p=p, n=197, record="last", **weights)
print(time.process_time() - start[0], time.perf_counter() - start[1], run.q.sum(), run.p.sum())
"""
)


def printed(code: str, folder: str) -> list[float]:
    """the numbers that a process prints, which keeps what it makes in a folder"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"MEANFIELD_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": os.path.join(tempfile.gettempdir(), "meanfield-bytecode")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return [float(t) for t in done.stdout.split()]


def end_to_end(repeats: int) -> None:
    """A script of numpy beside one of meanfield, after importing numpy and sympy, what it is made of kept: CPU seconds (by the clock)."""
    for count, layers in ((10**4, 10**3), (3 * 10**4, 10**3), (10**4, 10**4)):
        found: dict[str, list[list[float]]] = {"numpy": [], "meanfield": []}
        with tempfile.TemporaryDirectory() as folder:
            printed(BY_MEANFIELD.format(count=100, repeats=1), folder)
            for _ in range(repeats):
                for name, code in (("numpy", BY_HAND), ("meanfield", BY_MEANFIELD)):
                    found[name].append(printed(code.format(count=count, repeats=layers // 2), folder))
        medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in found.items()}
        for ours, theirs in zip(medians["meanfield"][2:], medians["numpy"][2:], strict=True):
            assert abs(ours / theirs - 1) < 1e-12, medians
        texts = (f"{name} {cpu:.2f} ({clock:.2f})" for name, (cpu, clock, *_) in medians.items())
        print(f"end to end, {count * layers:.0e} layer-points: {', '.join(texts)}", flush=True)


def seconds(job: str, net: str, folder: str) -> list[float]:
    """of one process: import, derivation, numbers; these by the clock"""
    return printed(PROCESS.format(net=net, job=job), folder)


def main(repeats: int, names: list[str]) -> None:
    print(
        f"{platform.processor() or platform.machine()}, {datetime.date.today()}; CPU seconds: import + derivation + numbers (by the clock)"
    )
    if not names or ENDS in names:
        end_to_end(repeats)
    for name, net in ((n, NETWORKS[n]) for n in names or NETWORKS if n != ENDS):
        for job in ("one", "grid"):
            found: dict[str, list[list[float]]] = {"cold": [], "warm": []}
            for _ in range(repeats):
                with tempfile.TemporaryDirectory() as folder:
                    for state in ("cold", "warm"):
                        found[state].append(seconds(job, net, folder))
            for state, runs in found.items():
                *parts, clock = (statistics.median(column) for column in zip(*runs, strict=True))
                print(f"{name}, {job}, {state}: {' + '.join(f'{t:.3f}' for t in parts)} ({clock:.2f})", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:])
