"""Moments of exchangeable variables of one law that a step takes together: a single pass for all of them, kept until the law changes.

In a kernel each is a call for itself, whose arguments are the law and which of them it is; the first one makes the pass. Moments of one or
two variables of the same law come out of it as well. Where the variance is one number, 32 or 64 passes make panels in the gap, which serve
all points of a run in the place of passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.exchangeable import MOST, Exchangeable, Power
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.frozen_rules import FROZEN
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.slopes import slope
from meanfield.numeric.integrands import Integrand
from meanfield.symbols import known

__all__ = ["FAMILY", "TURNED", "Members", "few_of", "pattern_of", "wanted_of"]

x, y = known("x"), known("y")

Floats = NDArray[np.float64]

#: which of its functions the pass is over
FAMILY = (0, 1, 1)
#: highest power of a derivative in a moment of the pass; in the place of that power, what stands for u f'(u)
STEEPEST, TURNED = 2, 5

_SOURCE = '''
PATTERNS_{name} = np.array({patterns})
WANTED_{name} = np.array({wanted})


def taken_{name}(shape, slope, q, delta, out):
    """The moments of the law."""
    means = np.empty(6 * {powers})
    spreads = np.empty(3 * WANTED_{name}.size)
    rows = np.empty(3 * {powers} * CAPACITY)
    found = np.empty(3 * {count})
    {family}(shape, slope, slope, q, delta, PATTERNS_{name}, WANTED_{name}, means, spreads, rows, found, 0, 1, 0.0)
    for i in range({count}):
        out[i] = found[i]


def {name}(shape, slope, scratch, q, delta, k):
    """The moments of one law, of which k is wanted: those of the law before are at hand."""
    kept = scratch[{own} : {own} + {size}]
    if kept[0] != q or kept[1] != delta:
        {take}taken_{name}(shape, slope, q, delta, kept[2 : 2 + {count}])
        kept[0] = q
        kept[1] = delta
    return float(kept[2 + int(k)])
'''
_FROZEN = '''
def frozen_{name}(shape, slope, kept, q, delta):
    """The moments from a panel, which is made the first time; whether there is one."""
    y = math.sqrt(delta / q)
    part = 1 if y > HALF else 0
    start = 2 + {count} + part * (1 + {count} * FROZEN)
    panel = kept[start + 1 : start + 1 + {count} * FROZEN]
    out = kept[2 : 2 + {count}]
    if kept[start] < 0.0:
        for k in range(FROZEN):
            gap = q * place_of(part, k) * place_of(part, k)
            taken_{name}(shape, slope, q, gap, out)
            for i in range({count}):
                panel[FROZEN * i + k] = out[i] / (gap if PATTERNS_{name}[9 * i + 8] > 0.0 else 1.0)
        kept[start] = fitted(panel)
    if kept[start] == 0.0:
        return False
    filled(panel, part, y, out)
    for i in range({count}):
        out[i] *= delta if PATTERNS_{name}[9 * i + 8] > 0.0 else 1.0
    return True
'''
_PANELS_FIRST = """if not (delta <= q and frozen_{name}(shape, slope, kept, q, delta)):
            """


@dataclass
class Members:
    """The moments of a law: a function, its derivative, and the patterns of powers in order. Slopes, for which alone a pass needs the
    second derivative, are not taken."""

    functions: tuple[Integrand, ...]
    frozen: bool  # whether the variance is one number, whatever the layer
    patterns: list[tuple[float, ...]] = field(default_factory=list)

    @staticmethod
    def answers(node: Exchangeable) -> bool:
        """Whether the pass has the moment: of a function without parameters, not steeper than that."""
        steep = max((j for _, j in node.powers), default=0)
        return steep <= (0 if node.spread else STEEPEST) and len(node.integrand.free_symbols) <= 1

    def place(self, pattern: tuple[float, ...]) -> int:
        """Which of the moments it is."""
        if pattern not in self.patterns:
            self.patterns.append(pattern)
        return self.patterns.index(pattern)

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return 2 + len(self.patterns) + (2 * (1 + len(self.patterns) * FROZEN) if self.frozen else 0)

    def source(self, name: str, own: int) -> str:
        """The function of that name, which keeps its numbers from there on in scratch."""
        patterns = np.array(self.patterns)
        wanted = wanted_of(patterns)
        put = {
            "name": name,
            "own": own,
            "size": self.size,
            "patterns": patterns.ravel().tolist(),
            "wanted": wanted.ravel().tolist(),
            "count": len(self.patterns),
            "powers": len(wanted),
            "family": "_".join(["family", *(str(self.functions[k].index) for k in FAMILY)]),
            "take": _PANELS_FIRST.format(name=name) if self.frozen else "",
        }
        return (_SOURCE + (_FROZEN if self.frozen else "")).format(**put).lstrip("\n")


def few_of(node: Node, f: sp.Expr) -> tuple[Power, ...] | None:
    """The powers of f and f' in a moment of one or two variables, u f'(u) among them; None if it is not made of these."""
    of_one, of_two = _named(f)
    if isinstance(node, Gap):
        return ((1, 0), (1, 0)) if node.integrand == f else None
    if isinstance(node, Expectation):
        return (of_one[node.integrand],) if node.mean == 0 and node.integrand in of_one else None
    if not isinstance(node, PairExpectation) or node.args[1] != node.args[3] or node.args[4:] != (0, 0):
        return None
    parts = node.separated() or ()
    return tuple(of_two[part] for part in parts) if parts and all(part in of_two for part in parts) else None


@lru_cache(maxsize=64)
def _named(f: sp.Expr) -> tuple[dict[sp.Expr, Power], dict[sp.Expr, Power]]:
    """functions whose means come out of the pass, and those whose products do"""
    g = slope(f)
    return {f**2: (2, 0), g**2: (0, 2), x * g * f: (1, TURNED)}, {f: (1, 0), g: (0, 1), x * g: (0, TURNED)}


def pattern_of(powers: tuple[Power, ...], spread: bool) -> tuple[float, ...]:
    """Exponents of f, then of f', and whether the last two factors are a covariance."""
    held, last = (powers[:-2], powers[-2:]) if spread else (powers, ())
    powers = (*held, *((0, 0),) * (MOST - len(powers)), *last)
    return (*(float(i) for i, _ in powers), *(float(j) for _, j in powers), float(spread))


def wanted_of(patterns: Floats) -> Floats:
    """Of which powers of f the covariance is among the patterns: as many rows and columns as there are powers, from 0 on."""
    powers = int(patterns[:, :MOST].max()) + 1
    wanted = np.zeros((powers, powers))
    for row in patterns[patterns[:, -1] > 0]:
        wanted[int(row[2]), int(row[3])] = 1.0
    return wanted
