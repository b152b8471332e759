"""The activations by name: one declaration each, an expression and nothing else. What follows from it is derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import sympy as sp

from meanfield import arguments
from meanfield.activation import Activation
from meanfield.symbols import known

__all__ = ["activations", "derf", "dyt", "leaky_relu"]

x = known("x")


def derf(alpha: Any = None) -> Activation:
    r"""erf(\alpha x), \alpha > 0; the symbol alpha if left out (Chen et al. 2025, arXiv:2512.10938).

    >>> import meanfield as mf
    >>> mf.derf(0.5).second_moment(2)
    1/3
    """
    return Activation(sp.erf(arguments.scalar(alpha, "alpha") * x))


def dyt(alpha: Any = None) -> Activation:
    r"""tanh(\alpha x), \alpha > 0; the symbol alpha if left out (Zhu et al. 2025, arXiv:2503.10622)."""
    return Activation(sp.tanh(arguments.scalar(alpha, "alpha") * x))


def leaky_relu(slope: Any = 0.01) -> Activation:
    """x for x > 0, slope * x otherwise."""
    a = arguments.scalar(slope, "slope")
    return Activation(sp.Max(x, 0) - a * sp.Max(-x, 0), name=f"leaky_relu({a})")


def _declare(**expressions: sp.Expr) -> dict[str, Activation]:
    return {name: Activation(e, name=name) for name, e in expressions.items()}


_NAMED = _declare(
    identity=x,
    relu=sp.Max(x, 0),
    relu_squared=sp.Max(x, 0) ** 2,
    abs=sp.Abs(x),
    step=sp.Heaviside(x),
    sign=sp.sign(x),
    erf=sp.erf(x),
    gelu=x * (1 + sp.erf(x / sp.sqrt(2))) / 2,
    tanh=sp.tanh(x),
    sigmoid=(1 + sp.tanh(x / 2)) / 2,
    silu=x * (1 + sp.tanh(x / 2)) / 2,
    sin=sp.sin(x),
    cos=sp.cos(x),
)

#: name -> activation, or factory where it has parameters
activations: Mapping[str, Activation | Callable[..., Activation]] = MappingProxyType(
    {**_NAMED, "swish": _NAMED["silu"], "derf": derf, "dyt": dyt, "leaky_relu": leaky_relu}
)
