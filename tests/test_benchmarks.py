"""The peers of the benchmarks do the very step of the generated kernels: they know every function a step calls, and agree with the runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meanfield as mf
from meanfield.numeric.trajectory import kernel_of

FOLDER = Path(__file__).parent / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any]:
    monkeypatch.syspath_prepend(FOLDER)
    import peers
    import speed
    import step_in_c

    return speed, peers, step_in_c


def test_peers_do_the_generated_step(modules: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """one repeat of every network of the table by arrays of numpy, and by names in C"""
    speed, peers, step_in_c = modules
    in_c = set(re.findall(r"static inline double (\w+)\(", step_in_c.SOURCE)) | {"min", "max", "abs"}
    for name, (net, _) in speed.NETWORKS.items():
        rec = mf.recursion(net())
        kernel = kernel_of(rec, True)
        case = speed.described(rec, 1)
        lines = [*case["selected"], *case["selected_before"]]
        called = {
            call.func.id
            for line in lines
            for call in ast.walk(ast.parse(line))
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        }
        assert called <= in_c, (name, called - in_c)
        points = speed.drawn(kernel.parameters, 5)
        monkeypatch.setattr(peers, "CASE", case)
        space = peers.arrays(np)
        from scipy.special import erf, erfc

        vars(space["math"]).update(erf=erf, erfc=erfc)
        step, held = peers.step_in(space), peers.prepared(space, points["values"])
        q, delta, *transfer = step(points["q"], points["delta"], *held, 0.0, 1.0)
        run = mf.propagate(net(), 1, 1.0, gap=points["delta"], **dict(zip(kernel.parameters, points["values"], strict=True)))
        assert np.allclose(q, run.q[..., -1], rtol=1e-12, atol=0), name
        assert np.allclose(delta, (run.q * run.gap)[..., -1], rtol=1e-12, atol=0), name
        q, p, *same = peers.printed_in(space)(points["q"], points["q"] - points["delta"], *points["values"])
        assert np.allclose(q - p, delta, rtol=1e-9, atol=1e-12), name
        assert all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(same, transfer, strict=True)), name
