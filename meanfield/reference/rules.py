r"""Rules for `initialise_`: functions of a slot that return the standard deviation of its entries, or None to leave them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from meanfield.activation import Activation
from meanfield.gains import gain
from meanfield.numeric.evaluation import evaluate

__all__ = ["PARTS", "Rule", "Slot", "critical", "deep_norm", "gains", "golden_rules", "gpt2"]


#: what a tensor of a model may be
PARTS: Final = ("query", "key", "value", "output", "up", "gate", "down", "linear", "embedding", "bias", "other")


@dataclass(frozen=True)
class Slot:
    """A tensor of a model.

    Attributes
    ----------
    name : str
        The parameter it is, or is a part of.
    part : str
        One of PARTS: a role in a block, or what the tensor is elsewhere.
    fan_in, fan_out : whole numbers
        fan_in is 0 where the tensor is no matrix.
    block : whole number or None
        The index of its block.
    blocks : whole number
        How many blocks there are; Linears, in a model without blocks.
    ends_branch : bool
        Whether its output is added to the skip.
    """

    name: str
    part: str
    fan_in: int
    fan_out: int
    block: int | None
    blocks: int
    ends_branch: bool

    @property
    def role(self) -> str:
        """ "input" for an embedding, else "hidden": the word of `mf.scaling`."""
        return "input" if self.part == "embedding" else "hidden"


Rule = Callable[[Slot], float | None] | Mapping[str, float] | Any


def gpt2(std: float = 0.02) -> Callable[[Slot], float | None]:
    r"""std for every matrix and embedding, std/\sqrt{2L} for those that end a branch, biases 0 (Radford et al. 2019, section 2.3)."""

    def rule(slot: Slot) -> float | None:
        if slot.part == "bias":
            return 0.0
        if slot.fan_in == 0:
            return None
        return std / math.sqrt(2 * slot.blocks) if slot.ends_branch else std

    return rule


def deep_norm(beta: float | None = None) -> Callable[[Slot], float | None]:
    r"""Xavier, times beta for value, output and MLP matrices; left out, beta = (8N)^{-1/4} (Wang et al. 2022, DeepNet, Figure 2).

    The skip of the model has to be multiplied by (2N)^{1/4}; that is no parameter, and is left to the model.
    """

    def rule(slot: Slot) -> float | None:
        if slot.part == "bias":
            return 0.0
        if slot.part not in ("query", "key", "value", "output", "up", "gate", "down"):
            return None
        factor = 1.0 if slot.part in ("query", "key") else (8 * slot.blocks) ** -0.25 if beta is None else beta
        return factor * math.sqrt(2 / (slot.fan_in + slot.fan_out))

    return rule


def golden_rules() -> Callable[[Slot], float | None]:
    r"""\sqrt{fan_out/fan_in}/(\sqrt{fan_in} + \sqrt{fan_out}): a spectral norm of \sqrt{fan_out/fan_in} (Modula, golden rules).

    The entries of an embedding are of size 1.
    """

    def rule(slot: Slot) -> float | None:
        if slot.part == "bias":
            return 0.0
        if slot.part == "embedding":
            return 1.0
        if slot.fan_in == 0:
            return None
        return math.sqrt(slot.fan_out / slot.fan_in) / (math.sqrt(slot.fan_in) + math.sqrt(slot.fan_out))

    return rule


def gains(phi: Activation) -> Callable[[Slot], float | None]:
    r"""gain/\sqrt{fan_in} with the gain that keeps the second moment of phi(u) at 1, u ~ N(0, 1), for what reads phi (the down matrix of
    a block, every Linear elsewhere), 1/\sqrt{fan_in} for the other matrices of a block, biases 0 (He et al. 2015 for ReLU)."""
    kept = float(gain(phi).second_moment)

    def rule(slot: Slot) -> float | None:
        if slot.part == "bias":
            return 0.0
        if slot.fan_in == 0 or slot.part == "embedding":
            return None
        return (kept if slot.part in ("down", "linear") else 1.0) / math.sqrt(slot.fan_in)

    return rule


def critical(phi: Activation, q: float = 1.0) -> Callable[[Slot], float | None]:
    r"""The point of the edge of chaos that keeps q: \sigma_w^2 = 1/E \phi'(u)^2, \sigma_b^2 = q - \sigma_w^2 E \phi(u)^2, u ~ N(0, q)
    (Schoenholz et al. 2017), for the Linears of a perceptron.

    Raises ValueError where that \sigma_b^2 is negative: no critical point keeps this q.
    """
    weight = 1 / float(evaluate(phi.derivative.second_moment(q)))
    bias = q - weight * float(evaluate(phi.second_moment(q)))
    if bias < -1e-12 * q:
        raise ValueError(f"q = {q:g}: sigma_b^2 = {bias:.4g} would be negative, {phi!r} has no critical point with this variance")

    def rule(slot: Slot) -> float | None:
        if slot.part == "bias":
            return math.sqrt(max(bias, 0.0))
        return math.sqrt(weight / slot.fan_in) if slot.part == "linear" else None

    return rule
