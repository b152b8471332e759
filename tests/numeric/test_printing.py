"""Expressions as source: the same numbers, and no quotient by a constant."""

from __future__ import annotations

import ast
import math

import pytest
import sympy as sp

from meanfield.numeric.printing import KernelPrinter

x, y, z = sp.symbols("x y z", positive=True)
POINT = {x: 0.7, y: 1.3, z: 0.4}


@pytest.mark.parametrize(
    ("e", "quotients"),
    [
        (x * y / sp.pi, 0),
        (-(x + y) * z / (2 * sp.pi), 0),
        (sp.pi * sp.exp(-x), 0),
        (sp.sqrt(2) * sp.Min(x, y) - sp.E * z, 0),
        (sp.sqrt(2) / x, 1),
        (-sp.pi / (x * sp.sqrt(y)), 1),
        (2 * (x + y) / (sp.pi * (x + z) ** 2), 1),
        (sp.pi * x ** sp.sqrt(2), 0),
        (sp.Mul(sp.pi, 1 / x, 1 / (y * z), evaluate=False), 2),
        (x * y / 3, 1),  # of two whole numbers, which the compiler takes
    ],
    ids=str,
)
def test_products_with_constants(e: sp.Expr, quotients: int) -> None:
    text = KernelPrinter({s: s.name for s in (x, y, z)}).doprint(e)
    assert sum(isinstance(node, ast.Div) for node in ast.walk(ast.parse(text))) == quotients, text
    assert eval(text, {"math": math, "min": min, **{s.name: v for s, v in POINT.items()}}) == pytest.approx(float(e.subs(POINT)), rel=1e-15)


def test_constants_beyond_doubles() -> None:
    assert KernelPrinter({x: "x"}).doprint(sp.sqrt(2) * 10**400 * x) == "math.inf*x"
