"""One contestant of a benchmark, in a process and an environment of its own: `python peers.py NAME FOLDER`.

FOLDER holds the step of a generated kernel and that of the printed recursion as lines of Python (case.json) and the points (points.npz).
After a first run it says how many layer-points a run is, and its end of the recursion; then it does a round for every line it reads and
answers with the CPU seconds of a run.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

#: CPU seconds of a round, at least: what a process does first after it has waited is slower
ROUND = 0.03

CASE: dict[str, Any] = {}
POINTS: dict[str, np.ndarray] = {}
FUNCTIONS = ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sin", "cos", "sinh", "cosh", "copysign")

#: the functions of `meanfield.numeric.primitives` on arrays
PRIMITIVES = """
def angle_minus_sine(t):
    s = t*t
    u = s*s
    a = 0.16666666666666666 + s*-0.008333333333333333 + u*(0.00019841269841269817 + s*-2.7557319223982017e-06)
    b = 2.505210838512761e-08 + s*-1.605904382195064e-10 + u*(7.647163292687179e-13 + s*-2.8114489197231916e-15)
    c = 8.219617574391419e-18 + s*-1.9495555003914384e-20 + u*3.533158292227539e-23
    return t*s*(a + u*u*(b + u*u*c))

def guarded(x, scale):
    return maximum(x, 0.0)

def guarded_sqrt(x, scale):
    return math.sqrt(maximum(x, 0.0))

def inverse_root(x):
    return 1.0/math.sqrt(x)

def sign(x):
    return math.copysign(abs(x) > 0.0, x)

def lowered_product(a, b):
    return a*9.332636185032189e-302*b

def acute_angle(y, x):
    return math.atan2(y, x)

def flat_angle(y, x):
    return math.atan(y / x)

def root_angle(u, v):
    return math.atan2(math.sqrt(u), math.sqrt(v))

def segment(u, v):
    return angle_minus_sine(2.0*math.atan2(math.sqrt(u), math.sqrt(v)))

def tangent_segment(w, sine):
    return angle_minus_sine(2.0*math.atan(w))

def normal_cdf(z):
    return 0.5*math.erfc(-z*0.7071067811865476)

def normal_density(z):
    return 0.3989422804014327*math.exp(-0.5*z*z)
"""


def step_in(space: dict[str, Any], decorate: Callable[[Any], Any] = lambda f: f, hoisted: bool = True) -> Any:
    """the generated step on whatever numbers the namespace is for; parameters alone are worked out beforehand where that is asked for"""
    arguments = ", ".join(["q", "delta", *(CASE["held"] if hoisted else CASE["given"]), "l", "L"])
    body = CASE["selected" if "where" in space else "body"]
    lines = [*([] if hoisted else CASE["hoisted"]), *body, f"return q, delta, {', '.join(CASE['results'])}"]
    own = set(space)
    exec(PRIMITIVES, space)
    for name in space.keys() - own - {"__builtins__"}:
        space[name] = decorate(space[name])
    exec(f"def step({arguments}):\n    " + "\n    ".join(lines), space)
    return decorate(space["step"])


def printed_in(space: dict[str, Any]) -> Any:
    """the recursion as it is printed, of q and p"""
    exec(f"def printed(q, p, {', '.join(CASE['given'])}):\n    " + "\n    ".join(CASE["printed"]), space)
    return space["printed"]


def prepared(space: dict[str, Any], values: Any) -> list[Any]:
    """what the step needs beside its state: the parameters and what follows from them alone"""
    own = dict(space) | dict(zip(CASE["given"], values, strict=True))
    if "guarded" not in own:
        exec(PRIMITIVES, own)
    for line in CASE["selected_before" if "where" in own else "hoisted"]:
        exec(line, own)
    return [own[name] for name in CASE["held"]]


def turned(row: list[Any], t: Any) -> list[Any]:
    """the row of the product of transfers times the next"""
    if len(t) >= 4:
        return [row[0] * t[0] + row[1] * t[2], row[0] * t[1] + row[1] * t[3]]
    return [row[0] * t[0], row[1]]


def arrays(module: Any) -> dict[str, Any]:
    functions = {name: getattr(module, name, None) for name in FUNCTIONS} | {"pi": math.pi}
    functions |= {"atan": module.arctan, "atan2": module.arctan2, "asin": module.arcsin, "acos": module.arccos}
    own = {name: getattr(module, name) for name in ("maximum", "abs", "where")}
    return {"math": SimpleNamespace(**functions), "min": module.minimum} | own


def numpy() -> Callable[[], Any]:
    """whole arrays, a call for each operation"""
    space = arrays(np)
    if "erfc" in str(CASE["body"]):
        from scipy.special import erf, erfc

        vars(space["math"]).update(erf=erf, erfc=erfc)
    step, held = step_in(space), prepared(space, POINTS["values"])

    def run() -> np.ndarray:
        q, delta = POINTS["q"], POINTS["delta"]
        row, logs = [np.ones_like(q), np.zeros_like(q)], np.zeros_like(q)
        for l in range(CASE["depth"]):
            q, delta, *t = step(q, delta, *held, float(l), float(CASE["depth"]))
            row = turned(row, t)
            if l & 7 == 7:
                logs = logs + np.log(row[0])
                row = [np.ones_like(q), row[1] / row[0]]
        return np.array([q, delta, logs + np.log(row[0])])

    return run


def python() -> Callable[[], Any]:
    """a loop of plain floats, point after point"""
    space: dict[str, Any] = {"math": math, "maximum": max}
    step = step_in(space)

    def run() -> np.ndarray:
        out = []
        for g in range(POINTS["q"].size):
            q, delta, row, logs = float(POINTS["q"][g]), float(POINTS["delta"][g]), [1.0, 0.0], 0.0
            held = prepared(space, POINTS["values"][:, g].tolist())
            for l in range(CASE["depth"]):
                q, delta, *t = step(q, delta, *held, float(l), float(CASE["depth"]))
                row = turned(row, t)
                if l & 7 == 7:
                    logs += math.log(row[0])
                    row = [1.0, row[1] / row[0]]
            out.append((q, delta, logs + math.log(row[0])))
        return np.array(out).T

    return run


def numba() -> Callable[[], Any]:
    """the step as it stands under numba, fastmath, a point at a time"""
    from numba import njit

    jitted = njit(error_model="numpy", fastmath=True)
    space: dict[str, Any] = {"math": math, "maximum": jitted(lambda a, b: a if a > b else b)}
    space["step"] = step_in(space, jitted)
    held, mixed = np.array(prepared(arrays(np), POINTS["values"])), len(CASE["results"]) >= 4
    unpacked = ", ".join(f"held[{k}, g]" for k in range(len(CASE["held"])))
    row = "a, b = a*t[2] + b*t[4], a*t[3] + b*t[5]" if mixed else "a = a*t[2]"
    text = f"""
def run(q0, delta0, held, depth, out):
    for g in range(q0.size):
        q, delta, a, b, log = q0[g], delta0[g], 1.0, 0.0, 0.0
        for l in range(depth):
            t = step(q, delta, {unpacked}, float(l), float(depth))
            q, delta = t[0], t[1]
            {row}
            if l & 7 == 7:
                log += math.log(a)
                b /= a
                a = 1.0
        out[0, g], out[1, g], out[2, g] = q, delta, log + math.log(a)
"""
    exec(text, space)
    f, out = jitted(space["run"]), np.empty((3, POINTS["q"].size))

    def run() -> np.ndarray:
        f(POINTS["q"], POINTS["delta"], held, CASE["depth"], out)
        return out

    return run


def jax(printed: bool = False) -> Callable[[], Any]:
    """jit of a scan over layers"""
    import jax as package
    import jax.numpy as jnp

    package.config.update("jax_enable_x64", True)
    space = arrays(jnp)
    vars(space["math"]).update(erf=package.scipy.special.erf, erfc=package.scipy.special.erfc)
    step = printed_in(space) if printed else step_in(space)

    def end(q: Any, delta: Any, values: Any) -> Any:
        held = list(values) if printed else prepared(space, list(values))

        def layer(state: Any, l: Any) -> Any:
            q, other, a, b, log = state
            q, other, *t = step(q, other, *held) if printed else step(q, other, *held, l, float(CASE["depth"]))
            a, b = turned([a, b], t)
            return (q, other, jnp.ones_like(a), b / a, log + jnp.log(a)), None

        start = (q, q - delta if printed else delta, jnp.ones_like(q), jnp.zeros_like(q), jnp.zeros_like(q))
        q, other, _, _, log = package.lax.scan(layer, start, jnp.arange(float(CASE["depth"])))[0]
        return jnp.stack([q, q - other if printed else other, log])

    points = [jnp.asarray(POINTS[name]) for name in ("q", "delta", "values")]
    compiled = package.jit(end)
    return lambda: np.asarray(compiled(*points))


def jax_printed() -> Callable[[], Any]:
    return jax(printed=True)


def c() -> Callable[[], Any]:
    """the step in C, compiled beforehand"""
    run = ctypes.CDLL(str(Path(sys.argv[2]) / CASE["library"])).run
    out, inputs = np.empty((3, POINTS["q"].size)), [np.ascontiguousarray(POINTS[name]) for name in ("values", "q", "delta")]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*inputs, *out)]

    def once() -> np.ndarray:
        run(ctypes.c_long(POINTS["q"].size), ctypes.c_long(CASE["depth"]), *pointers)
        return out

    return once


def meanfield(record: str = "last") -> Callable[[], Any]:
    """the compiled kernel itself, without what `propagate` does around it"""
    import warnings

    from meanfield.numeric import job, launch, store

    warnings.simplefilter("ignore")
    count, depth = POINTS["q"].size, CASE["depth"]
    marks = {"last": np.array([depth]), "every": np.arange(depth + 1)}.get(record, np.unique([*range(0, depth, 16), depth]))
    out, halt = job.Output(count, marks.size, depth, CASE["split"]), np.zeros(1, dtype=np.int64)
    kernel = store.compiled((Path(sys.argv[2]) / CASE["kernel"]).read_text(), "trajectories")
    segment = min(depth * CASE["layers"], launch.SEGMENT // (CASE["lanes"] * CASE["kept"]))
    points = [np.ascontiguousarray(POINTS[name]) for name in ("values", "q", "delta")]
    tables = [POINTS[name] for name in sorted(POINTS) if name.startswith("table_")]

    arguments = (0, count, depth, marks, segment, halt, 0.0, *points, *out.arrays, *tables)
    run, end = kernel.form(arguments), (out.q[-1], out.delta[-1], out.forward[-1])

    def once() -> Any:
        run()
        return end

    return once


def every() -> Callable[[], Any]:
    return meanfield("every")


def sixteenth() -> Callable[[], Any]:
    return meanfield("sixteenth")


def hermite() -> Callable[[], Any]:
    """numpy with 64 x 64 Gauss-Hermite nodes, which for tanh at q = 1 is good to 1e-8"""
    functions: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
        "softplus": (lambda z: np.logaddexp(0, z), lambda z: 1 / (1 + np.exp(-z))),
    }
    f, slope = functions[CASE["activation"]]
    x, w = np.polynomial.hermite_e.hermegauss(64)
    w = w / np.sqrt(2 * np.pi)
    bias, weight = POINTS["values"] ** 2

    def run() -> np.ndarray:
        q, delta, log = POINTS["q"], POINTS["delta"], np.zeros_like(POINTS["q"])
        for _ in range(CASE["depth"]):
            s, wide, narrow = np.sqrt(q), np.sqrt(q - delta / 2), np.sqrt(delta / 2)
            u, v = wide[:, None, None] * x[None, :, None], narrow[:, None, None] * x[None, None, :]
            log += np.log(weight * (slope(s[:, None] * x) ** 2 @ w))
            delta = weight * 0.5 * np.einsum("gij,i,j->g", (f(u + v) - f(u - v)) ** 2, w, w)
            q = weight * (f(s[:, None] * x) ** 2 @ w) + bias
        return np.array([q, delta, log])

    return run


def neural_tangents() -> Callable[[], Any]:
    """jit(vmap) over weights and biases of the NNGP matrix of two inputs of an MLP: q and p, without gradients"""
    return tangents(lambda kernel, inputs: kernel(inputs, None, "nngp"))


def single_entry() -> Callable[[], Any]:
    """the same with one entry of the matrix, p, alone"""
    return tangents(lambda kernel, inputs: kernel(inputs[:1], inputs[1:], "nngp"))


def tangents(wanted: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    import jax as package
    import jax.numpy as jnp
    from neural_tangents import stax

    package.config.update("jax_enable_x64", True)
    name = CASE["activation"]
    layer = {"relu": stax.Relu, "erf": stax.Erf, "tanh": lambda: stax.ElementwiseNumerical(jnp.tanh, deg=25)}[name]
    q, delta = float(POINTS["q"][0]), float(POINTS["delta"][0])
    c = (q - delta) / q
    inputs = jnp.asarray(np.sqrt(2 * q) * np.array([[1.0, 0.0], [c, np.sqrt(1 - c * c)]]))

    def end(bias: Any, weight: Any) -> Any:
        dense = [stax.Dense(1, W_std=weight, b_std=bias) for _ in range(CASE["depth"])]
        return wanted(stax.serial(*(part for d in dense for part in (d, layer())))[2], inputs)

    run = package.jit(package.vmap(end))
    values = [jnp.asarray(v) for v in POINTS["values"]]
    return lambda: np.asarray(run(*values)).ravel()


def main(name: str, folder: str) -> None:
    CASE.update(json.loads((Path(folder) / "case.json").read_text()))
    POINTS.update(np.load(Path(folder) / "points.npz"))
    run = globals()[name]()
    end = np.asarray(run(), dtype=float)
    print(json.dumps([POINTS["q"].size * CASE["depth"], end.ravel()[:: max(1, end.size // 9)].tolist()]), flush=True)
    start = time.process_time()
    run()
    repeats = math.ceil(ROUND / max(time.process_time() - start, 1e-6))
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(repeats):
            run()
        print((time.process_time() - start) / repeats, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
