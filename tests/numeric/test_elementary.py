"""The elementary functions of compiled recursions against 50 digits, and at the arguments that are no ordinary numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from meanfield.numeric import elementary, primitives, store
from meanfield.numeric.compilation import machine

ULPS = 4
EDGES = [0.0, -0.0, 5e-324, -1e-320, 2.2e-308, 0.5, 1.0, -1.0, 1 - 2**-53, 2**-53 - 1, 26.5, 28.0, -30.0, 708.5, 709.79, -708.5, -745.2]
EDGES += [1e16, -1e300, 1.797e308, math.inf, -math.inf, math.nan]
ANGLES = ("acute_angle", "flat_angle", "root_angle", "segment", "tangent_segment")
ONE = {
    f.__name__: f for f in elementary.FUNCTIONS if f.__name__ not in ("fma", "atan2", "inverse_root", "logarithm", "scaled_erfc", *ANGLES)
}


def compiled(f: Callable[..., Any], make: Callable[[str, str], Any] = store.compiled) -> Callable[..., Any]:
    names = ["x", "y"][: len(inspect.signature(f).parameters)]
    lines = [
        "from meanfield.numeric import elementary as math",
        f"def row({', '.join(names)}, out):",
        "    for i in range(out.size):",
        f"        out[i] = math.{f.__name__}({', '.join(f'{name}[i]' for name in names)})",
    ]
    function = make("\n".join(lines), "row")

    def value(*arrays: np.ndarray) -> np.ndarray:
        out = np.empty_like(arrays[0])
        function(*map(np.ascontiguousarray, arrays), out)
        return out

    return value


def library(f: Callable[..., float], *x: float) -> float:
    """as compiled code has it: infinite or not a number where `math` raises"""
    try:
        return f(*x)
    except OverflowError:
        return math.copysign(math.inf, x[0]) if f is not math.cosh else math.inf
    except ValueError:
        return -math.inf if x[0] in (0.0, -1.0) and f in (math.log, math.log1p) and (x[0] == 0) == (f is math.log) else math.nan


def check(
    found: np.ndarray, arguments: list[tuple[float, ...]], typical: Callable[..., float], exact: Callable[..., Any], ulps: int = ULPS
) -> None:
    for x, y in zip(arguments, found.tolist(), strict=True):
        rough = library(typical, *x)
        if not all(map(math.isfinite, (*x, rough))) or abs(rough) < 1e-300:
            assert y == rough or (math.isnan(y) and math.isnan(rough)) or abs(y - rough) <= 1e-15 * abs(rough) + 1e-323, (x, y, rough)
            continue
        truth = exact(*map(mp.mpf, x))
        assert abs(mp.mpf(y) - truth) <= ulps * float(np.spacing(abs(float(truth)))), (x, y, rough)


@pytest.mark.parametrize("name", ONE)
def test_of_one_argument(name: str) -> None:
    draw = np.random.default_rng(3)
    middle, wide = (
        draw.standard_normal(300) * 10 ** draw.uniform(-3, 1.5, 300),
        draw.choice([-1, 1], 150) * 10 ** draw.uniform(-320, 308, 150),
    )
    x = np.concatenate([middle, wide, draw.uniform(-1, 1, 150), draw.uniform(-745, 710, 150), EDGES])
    if name in ("sinh", "cosh"):  # e^x is half a unit uncertain, its square one
        x = x[~(np.abs(x) > 710)]
    exact = {"log1p": lambda x: mp.log1p(x), "erfc": mp.erfc}.get(name, getattr(mp, name))
    with mp.workdps(50):
        check(compiled(ONE[name])(x), [(v,) for v in x.tolist()], getattr(math, name), exact)


def test_inverse_roots() -> None:
    draw = np.random.default_rng(7)
    x = np.concatenate([draw.uniform(1, 4, 300), 10 ** draw.uniform(-320, 308, 300)])
    value = compiled(elementary.inverse_root)
    with mp.workdps(50):
        assert max(abs(y * mp.sqrt(mp.mpf(v)) - 1) for v, y in zip(x.tolist(), value(x).tolist(), strict=True)) < 1.5 * 2**-52
    ends = np.array([0.0, math.inf, 5e-324, -1.0, math.nan])
    assert np.array_equal(value(ends), [math.inf, 0.0, 4.49891379454319638e161, math.nan, math.nan], equal_nan=True)


def test_tails_beside_what_they_outweigh() -> None:
    draw = np.random.default_rng(8)
    x = np.concatenate([draw.uniform(0, 10, 300), 10 ** draw.uniform(-300, 2.5, 300), [0.0]])
    with mp.workdps(50):
        truth = np.array([float(mp.exp(v * v) * mp.erfc(v)) for v in map(mp.mpf, x.tolist())])
    assert compiled(elementary.scaled_erfc)(x) == pytest.approx(truth, rel=ULPS * 2**-52, abs=0)
    assert [primitives.scaled_erfc(v) for v in x.tolist()] == pytest.approx(truth.tolist(), rel=ULPS * 2**-52, abs=0)


def test_of_two_arguments() -> None:
    draw = np.random.default_rng(4)
    wide = draw.choice([-1, 1], (2, 300)) * 10 ** draw.uniform(-300, 300, (2, 300))
    y, x = np.concatenate([draw.standard_normal((2, 300)), wide, [np.repeat(EDGES, len(EDGES)), np.tile(EDGES, len(EDGES))]], axis=1)
    with mp.workdps(50):
        signed = lambda b, a: mp.atan2(b, a) if b else mp.mpf(0)  # noqa: E731
        plain = (y != 0) | (x > 0)
        check(
            compiled(elementary.atan2)(y[plain], x[plain]), list(zip(y[plain].tolist(), x[plain].tolist(), strict=True)), math.atan2, signed
        )
        size, power = np.exp2(draw.uniform(-500, 500, 300)), draw.integers(-9, 9, 300).astype(np.float64)
        pairs = list(zip(size.tolist(), power.tolist(), strict=True))
        whole = lambda m, e: mp.log(m) + 500 * e * mp.log(2)  # noqa: E731
        check(compiled(elementary.logarithm)(size, power), pairs, lambda m, e: math.log(m) + 500 * e * math.log(2), whole)
    ends = compiled(elementary.logarithm)(np.array([0.0, math.inf, -1.0, math.nan]), np.zeros(4))
    assert np.array_equal(ends, [-math.inf, math.inf, math.nan, math.nan], equal_nan=True)
    zeros = compiled(elementary.atan2)(y[~plain], x[~plain])
    assert [math.atan2(b, a) for b, a in zip(y[~plain], x[~plain], strict=True)] == pytest.approx(zeros.tolist(), rel=1e-15, nan_ok=True)


def test_angles_of_what_is_not_negative() -> None:
    draw = np.random.default_rng(6)
    y, x = np.concatenate([10 ** draw.uniform(-3, 3, (2, 300)), 10 ** draw.uniform(-150, 150, (2, 200))], axis=1)
    y[0], x[0] = 1.9865041796454768, 1.5363423850453508  # 6.6 units from the segment
    pairs, slopes = list(zip(y.tolist(), x.tolist(), strict=True)), draw.uniform(-1, 1, 300)

    def segment(u: Any, v: Any) -> Any:
        return 2 * mp.atan(mp.sqrt(u / v)) - mp.sin(2 * mp.atan(mp.sqrt(u / v)))

    with mp.workdps(400):
        check(compiled(elementary.acute_angle)(y, x), pairs, primitives.acute_angle, lambda b, a: mp.atan(b / a))
        check(compiled(elementary.root_angle)(y, x), pairs, primitives.root_angle, lambda u, v: mp.atan(mp.sqrt(u / v)))
        check(compiled(elementary.segment)(y, x), pairs, primitives.segment, segment, ulps=7)
        check(
            compiled(elementary.flat_angle)(slopes * x[:300], x[:300]),
            list(zip((slopes * x[:300]).tolist(), x[:300].tolist(), strict=True)),
            primitives.flat_angle,
            lambda b, a: mp.atan(b / a),
        )
    zero = [compiled(f)(np.array([0.0, 2.0, math.nan]), np.array([3.0, 0.0, 1.0])) for f in (elementary.root_angle, elementary.segment)]
    assert np.array_equal(zero, [[0.0, math.pi / 2, math.nan], [0.0, math.pi, math.nan]], equal_nan=True)


def test_arcs_beside_their_chords() -> None:
    """short ones to the last place, and others to the last of their angle"""
    w = 10 ** np.random.default_rng(7).uniform(-90, 150, 400)
    w[200:] = 10 ** np.random.default_rng(8).uniform(-2, 2, 200)
    with mp.workdps(400):
        angles = [2 * mp.atan(mp.mpf(t)) for t in w.tolist()]
        sines = np.array([float(mp.sin(t)) for t in angles])
        truth = [t - mp.sin(t) for t in angles]
    interpreted = [primitives.tangent_segment(t, s) for t, s in zip(w.tolist(), sines.tolist(), strict=True)]
    for values in (compiled(elementary.tangent_segment)(w, sines).tolist(), interpreted):
        for t, value, true, angle in zip(w, values, truth, angles, strict=True):
            assert abs(value - true) <= 1e-15 * (true if t < 0.4 else angle), t
    ends = compiled(elementary.tangent_segment)(np.array([0.0, math.inf, math.nan]), np.array([0.0, 0.0, 0.0]))
    assert np.array_equal(ends, [0.0, math.pi, math.nan], equal_nan=True)


def test_a_vector_has_the_bits_of_its_parts() -> None:
    x = np.random.default_rng(5).standard_normal(67)
    for f in (elementary.exp, elementary.expm1, elementary.erfc, elementary.atan, elementary.log1p, elementary.inverse_root):
        value = compiled(f)
        assert np.array_equal(value(x), np.concatenate([value(x[i : i + 1].copy()) for i in range(67)]), equal_nan=True)


@pytest.mark.skipif(not machine.processor()[0].startswith("x86_64"), reason="processors of the one kind here")
@pytest.mark.parametrize(("name", "features"), [("x86-64-v3", "+avx2,+fma"), ("x86-64", "+sse2")])
def test_on_a_processor_without_the_instructions(name: str, features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine.processor()[0]
    monkeypatch.setattr(machine, "processor", lambda: (host, name, features))
    draw = np.random.default_rng(9)
    x = np.concatenate([draw.uniform(-745, 710, 150), draw.standard_normal(150), 10 ** draw.uniform(-300, 2, 100), EDGES])
    with mp.workdps(50):
        for f, exact in ((elementary.exp, mp.exp), (elementary.expm1, mp.expm1), (elementary.erfc, mp.erfc)):
            check(compiled(f, store.Compiled)(x), [(v,) for v in x.tolist()], getattr(math, f.__name__), exact)
        positive = np.abs(x[:400])
        roots = compiled(elementary.inverse_root, store.Compiled)(positive).tolist()
        assert max(abs(y * mp.sqrt(mp.mpf(v)) - 1) for v, y in zip(positive.tolist(), roots, strict=True)) < 1.5 * 2**-52
