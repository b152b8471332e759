r"""Degrees: how the output of a block answers when its weight matrices are multiplied by a gain.

Each weight matrix gets a gain \lambda_W of its own; the law of the block then holds them all, and its output is homogeneous of degree k
if q(\lambda, ..., \lambda) = \lambda^{2k} q(1, ..., 1). Where it is not, the local exponent d ln RMS/d ln \lambda says what the power is
at each \lambda, and its limits say what it becomes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import sympy as sp
from sympy import S

from meanfield.blocks.algebra import Block, checked_block
from meanfield.blocks.laws import Signal
from meanfield.faces import latex
from meanfield.scaling.gained import OUTPUT, Gained, gained, same_token_part
from meanfield.scaling.homogeneity import Inhomogeneous, exponent_of
from meanfield.scaling.limits import Term, Undetermined, leading
from meanfield.scaling.rules import Rule, Step
from meanfield.symbols import known

__all__ = ["Degree", "degree", "degrees_in", "gained_law"]

q, p, lam = known("q"), known("p"), known("lam")

ASSUMPTIONS: Final = (
    "weights independent, of mean zero; matrices wide: the mean-field law of the block",
    "biases are left out of the gain",
)
SOURCE: Final = "read off the law of the block; the count of Su 2022, kexue.fm/archives/8990, where moments are homogeneous"


@dataclass(frozen=True, repr=False, eq=False)
class Degree:
    r"""The degree of a block's output (root mean square) in a common gain of its weight matrices: compares equal to that number.

    Attributes
    ----------
    value : sympy number, or None
        None where the output is not homogeneous; `reason` says why.
    by_matrix : mapping of the names of weight scales to numbers or None
        The degree in the gain of one matrix alone; where all are numbers they add up to `value`.
    at_zero, at_infinity : sympy numbers, infinite, or None
        The limits of the local exponent as the gain goes to 0 and to infinity, for 0 < p < q; None where no rule tells. Worked out on
        first use.
    steps : tuple of Step
    rule : Rule
        All of it with what it states, assumes and follows from.

    Examples
    --------
    >>> import meanfield as mf
    >>> found = mf.scaling.degree(mf.MLP(mf.relu))
    >>> found, found == 2, found.by_matrix["sigma_1"]
    (2 = sigma_1: 1 + sigma_2: 1, True, 1)
    >>> smooth = mf.scaling.degree(mf.MLP(mf.gelu))
    >>> smooth.value, smooth.at_zero, smooth.at_infinity
    (None, 2, 2)
    """

    block: Block
    value: sp.Expr | None
    by_matrix: Mapping[str, sp.Expr | None]
    steps: tuple[Step, ...]
    reason: str
    _system: Gained

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_matrix", MappingProxyType(dict(self.by_matrix)))

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is made, for copies and pickles, which know no mapping that is read only."""
        return Degree, (self.block, self.value, dict(self.by_matrix), self.steps, self.reason, self._system)

    @cached_property
    def at_zero(self) -> sp.Expr | None:
        return _limit(self._system, S.Zero) if self.value is None else self.value

    @cached_property
    def at_infinity(self) -> sp.Expr | None:
        return _limit(self._system, S.Infinity) if self.value is None else self.value

    def _number(self) -> sp.Expr:
        if self.value is None:
            raise ValueError(f"{self.block} is not homogeneous in its weights: {self.reason}. Ask mf.scaling.local_exponent")
        return self.value

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, Degree) else other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def _sympy_(self) -> sp.Expr:
        return self._number()

    def __repr__(self) -> str:
        parts = " + ".join(f"{name}: {'local' if k is None else k}" for name, k in self.by_matrix.items())
        if self.value is not None:
            return f"{self.value} = {parts}"
        return f"not homogeneous ({parts}): {self.reason}"

    @cached_property
    def rule(self) -> Rule:
        letters = {s: sp.Symbol(letter, positive=s.is_positive, real=s.is_real) for s, letter in self._system.letters.items()}
        sides = ((step.reason, *(side.xreplace(letters) for side in step.equation.args)) for step in self.steps)
        steps = tuple(Step(reason, sp.Eq(*both, evaluate=False)) for reason, *both in sides)
        size = sp.Function("RMS")(lam)
        if self.value is None:
            values, statement = {}, sp.Eq(sp.Symbol("k"), lam * sp.log(size).diff(lam, evaluate=False), evaluate=False)
        else:
            values, statement = {"degree": self.value}, sp.Eq(size, lam**self.value * size.subs(lam, 1), evaluate=False)
        return Rule("Degree in a common gain of the weights", values, (statement,), ASSUMPTIONS, steps, SOURCE)

    def latex(self) -> str:
        """The statement and the steps as aligned equations."""
        return self.rule.latex()

    def _repr_latex_(self) -> str:
        return self.latex()


@latex.register
def _(thing: Degree) -> str:
    return thing.latex()


def gained_law(block: Any, part: str, weights: Collection[str] | None, signal: Signal | None = None) -> Gained:
    """The law of a block, or of its same-token part, with a gain on each weight matrix."""
    if not checked_block(block, "block").closes:
        raise ValueError(f"block = {block}: it tells tokens apart and has no law in (q, p) to read a degree off")
    if part not in ("full", "diagonal"):
        raise ValueError(f"part = {part!r}: expected 'full' or 'diagonal'")
    names = None if weights is None else _names(weights)
    system = gained(block if part == "full" else same_token_part(block), names, signal)
    if not system.gains:
        wanted = "named sigma_*" if names is None else f"of the names {', '.join(names)}"
        raise ValueError(f"block = {block}: it has no weight scales {wanted}")
    return system


def _names(weights: Any) -> tuple[str, ...]:
    """the names of weight scales: a text alone would be its letters"""
    if isinstance(weights, str) or not isinstance(weights, Collection) or not all(isinstance(name, str) for name in weights):
        raise TypeError(f"weights = {weights!r}: expected names of weight scales, as ('sigma_V', 'sigma_O')")
    return tuple(weights)


def degrees_in(system: Gained, gains: Iterable[sp.Symbol]) -> tuple[dict[sp.Expr, sp.Expr], dict[sp.Expr, str]]:
    """The degree of each named quantity in a common gain of these, or why it has none."""
    found: dict[sp.Expr, sp.Expr] = dict.fromkeys(gains, S.One)
    reasons: dict[sp.Expr, str] = {}
    for symbol, formula in system.chain:
        broken = sorted(formula.free_symbols & reasons.keys(), key=str)
        if broken:
            reasons[symbol] = reasons[broken[0]]
            continue
        try:
            found[symbol] = exponent_of(formula, found)
        except Inhomogeneous as why:
            reasons[symbol] = str(why)
    return found, reasons


def _limit(system: Gained, point: sp.Expr) -> sp.Expr | None:
    values = _generic(system)
    terms: dict[sp.Expr, Term] = dict.fromkeys(system.gains, (1.0, S.One))
    try:
        for symbol, formula in system.chain:
            terms[symbol] = leading(formula.xreplace(values), terms, point)
    except Undetermined:
        return None
    c, k = terms[OUTPUT]
    return None if math.isnan(c) else k / 2


def _generic(system: Gained) -> dict[sp.Expr, sp.Expr]:
    """values at which nothing cancels by accident, 0 < p < q and all parameters positive"""
    draw = random.Random(0)
    values = {s: sp.Integer(draw.randint(5, 40)) if s.is_integer else sp.Rational(draw.randint(500, 2000), 1009) for s in system.parameters}
    return values | {q: sp.Rational(1301, 1009), p: sp.Rational(631, 1009)}


def degree(block: Block, *, part: str = "full", weights: Collection[str] | None = None) -> Degree:
    r"""The degree of a block in a common gain \lambda of its weight matrices, derived from its law: RMS(\lambda) = \lambda^k RMS(1).

    Parameters
    ----------
    block : Block
        Also one of your own: its weight scales are its fields, or the symbols of its law, that are named sigma_*; sigma_b,
        sigma_b1, ... are biases.
    part : "full" or "diagonal"
        The whole law, or that of tokens which read nobody but themselves, for blocks that have a `diagonal`: `GAU`.
    weights : names, optional
        The weight scales that the gain multiplies instead.

    Returns
    -------
    Degree

    Raises
    ------
    TypeError, ValueError
        `block` is no block, or has no such weight scales.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.scaling.degree(mf.MLP(mf.relu))
    2 = sigma_1: 1 + sigma_2: 1
    >>> mf.scaling.degree(mf.MLP(mf.relu)) == 2
    True
    >>> for step in mf.scaling.degree(mf.MLP(mf.relu)).steps:
    ...     print(f"{step.reason}: {step.equation.lhs} = {step.equation.rhs}")
    of degree 2: q_1 = lambda_1**2*q*sigma_1**2
    of degree 2: q_2 = E(Max(0, x)**2, q_1)
    output, of degree 4: q_out = lambda_2**2*q_2*sigma_2**2
    root of the output: RMS = sqrt(q_out)
    gain of sigma_1 alone: k_1 = 1
    gain of sigma_2 alone: k_2 = 1
    gains of all matrices: k = k_1 + k_2
    degree: k = 2

    Attention is linear in its values, but its weights depend on queries and keys:

    >>> mf.scaling.degree(mf.Attention(), weights=("sigma_V", "sigma_O"))
    2 = sigma_V: 1 + sigma_O: 1
    >>> attention = mf.scaling.degree(mf.Attention())
    >>> attention.value, attention.at_zero, attention.at_infinity
    (None, 2, 2)
    """
    system = gained_law(block, part, weights)
    found, reasons = degrees_in(system, system.gains)
    by_matrix: dict[str, sp.Expr | None] = {}
    for gain, name in system.gains.items():
        power = degrees_in(system, (gain,))[0].get(OUTPUT)
        by_matrix[name] = None if power is None else power / 2
    steps = []
    for symbol, formula in system.chain:
        text = f"of degree {found[symbol]}" if symbol in found else "not homogeneous"
        steps.append(Step(f"output, {text}" if symbol == OUTPUT else text, sp.Eq(symbol, formula, evaluate=False)))
    value = found[OUTPUT] / 2 if OUTPUT in found else None
    steps.append(Step("root of the output", sp.Eq(sp.Symbol("RMS"), sp.sqrt(OUTPUT))))
    if value is not None and None not in by_matrix.values():
        alone = {sp.Symbol(gain.name.replace("lambda", "k", 1)): by_matrix[name] for gain, name in system.gains.items()}
        steps += [Step(f"gain of {name} alone", sp.Eq(k, v)) for (k, v), name in zip(alone.items(), by_matrix, strict=True)]
        steps.append(Step("gains of all matrices", sp.Eq(sp.Symbol("k"), sp.Add(*alone, evaluate=False), evaluate=False)))
        steps.append(Step("degree", sp.Eq(sp.Symbol("k"), value)))
    return Degree(block, value, by_matrix, tuple(steps), reasons.get(OUTPUT, ""), system)
