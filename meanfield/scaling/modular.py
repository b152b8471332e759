r"""The modular norm: how sensitive a network is to its input and how much each of its tensors may move, composed over its tree.

Every module has a mass m, its share of the update, and a sensitivity \mu, by which its output can move when its input does. A module is
well normed if a budget t for the whole is split so that the output moves by at most t; the composition laws (Large et al. 2024,
arXiv:2405.14813, Definitions 3-5) say how. An `Atom` is a tensor, a `Bond` has no weights; `@` composes, `+` sums, `*` scales, `**`
repeats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.scaling.rules import Rule, Step

__all__ = ["Atom", "Bond", "Composition", "Module", "Scaled", "Tuple", "modular_transformer"]


SOURCE: Final = "Large et al. 2024, arXiv:2405.14813, Definitions 3-5"
ASSUMPTIONS: Final = (
    "every part is well normed: an update of size t moves its output by at most t, its input's change by its sensitivity times that",
    "first order in the updates, worst case over inputs",
)


def _not_negative(value: Any, name: str) -> sp.Expr:
    result = arguments.expression(value, name)
    if result.is_number and not result.is_nonnegative:
        raise ValueError(f"{name} = {value}: must be at least 0")
    return result


def _checked_module(value: Any, name: str) -> None:
    if not isinstance(value, Module):
        raise TypeError(f"{name} = {value!r}: expected a module, as mf.scaling.Atom('W') or mf.scaling.Bond()")


class Module(ABC):
    """A part of a network: its mass, its sensitivity, and how it splits a budget among its tensors.

    The base of `Atom`, `Bond`, `Composition`, `Tuple` and `Scaled`; `second @ first` composes, `a + b` puts side by side, `factor * a`
    scales and `a**times` repeats.

    Attributes
    ----------
    mass : expression >= 0
        Its share of the change of the output, relative to the masses of other parts.
    sensitivity : expression >= 0
        By how much at most a change of its input is multiplied.

    Examples
    --------
    >>> from meanfield.scaling import Atom, Bond
    >>> net = Atom("W_2") @ Bond() @ Atom("W_1", mass=3)
    >>> net.mass, net.sensitivity, net.budgets()
    (4, 1, {'W_1': 3/4, 'W_2': 1/4})
    """

    mass: sp.Expr
    sensitivity: sp.Expr

    @abstractmethod
    def shares(self, budget: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
        """Name and update norm of each tensor, from input to output."""

    @abstractmethod
    def weighed(self, factor: sp.Expr) -> Module:
        """The same module with all masses multiplied."""

    def budgets(self, target: Any = 1) -> dict[str, sp.Expr]:
        """The norm of each tensor's update, in its own norm, with which the output moves by at most `target`.

        Tensors of one name are listed once where their budgets agree, as in repeated blocks of sensitivity 1, and numbered where not.

        >>> from meanfield.scaling import Atom
        >>> (Atom("out") @ Atom("in", mass=3)).budgets()
        {'in': 3/4, 'out': 1/4}
        >>> (2 * Atom("W"))**2
        Composition(first=Scaled(module=Atom(name='W', mass=1), factor=2), second=Scaled(module=Atom(name='W', mass=1), factor=2))
        >>> ((2 * Atom("W"))**2).budgets()
        {'W (1)': 1/8, 'W (2)': 1/4}
        """
        found: dict[str, list[sp.Expr]] = {}
        for name, share in self.shares(_not_negative(target, "target")):
            found.setdefault(name, []).append(share)
        result: dict[str, sp.Expr] = {}
        for name, shares in found.items():
            alike = len(set(shares)) == 1
            result |= {name: shares[0]} if alike else {f"{name} ({k})": share for k, share in enumerate(shares, 1)}
        return result

    def rule(self, target: Any = 1) -> Rule:
        r"""Mass, sensitivity and budgets with the laws of composition they follow from.

        >>> from meanfield.scaling import Atom
        >>> rule = (Atom("out") @ (2 * Atom("in"))).rule()
        >>> dict(rule.values)
        {'sensitivity': 2, 'mass': 2, 'in': 1/4, 'out': 1/2}
        """
        values = {"sensitivity": self.sensitivity, "mass": self.mass, **self.budgets(target)}
        bound = sp.Le(sp.Symbol("Delta"), _not_negative(target, "target"), evaluate=False)
        return Rule("Modular norm", values, (bound,), ASSUMPTIONS, _laws(), SOURCE)

    def of_mass(self, mass: Any) -> Module:
        """The same module with that total mass."""
        wanted = _not_negative(mass, "mass")
        if self.mass == 0:
            raise ValueError("a module without tensors has mass 0")
        return self.weighed(wanted / self.mass)

    def __matmul__(self, first: Module) -> Module:
        return Composition(first, self)

    def __add__(self, other: Module) -> Module:
        return Tuple((self, other))

    def __rmul__(self, factor: Any) -> Module:
        return Scaled(self, factor)

    def __pow__(self, times: int) -> Module:
        arguments.check_integer(times, "times", 1)
        if times == 1:
            return self
        return Composition(self ** (times // 2), self ** (times - times // 2))  # associative, and no deeper than log2(times)


@dataclass(frozen=True)
class Atom(Module):
    """One tensor of unit sensitivity in its own norm: a linear map by its spectral norm, an embedding by its longest column.

    Attributes
    ----------
    name : str
    mass : number or expression >= 0
        1 by default.
    sensitivity : 1

    Examples
    --------
    >>> from meanfield.scaling import Atom
    >>> Atom("W", mass=2).budgets(0.5)
    {'W': 1/2}
    """

    name: str
    mass: Any = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name = {self.name!r}: expected a text")
        object.__setattr__(self, "mass", _not_negative(self.mass, "mass"))

    sensitivity = S.One

    def shares(self, budget: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
        yield self.name, budget

    def weighed(self, factor: sp.Expr) -> Module:
        return replace(self, mass=self.mass * factor)


@dataclass(frozen=True)
class Bond(Module):
    """A map without weights: an activation, a norm, softmax attention of its three inputs; the identity by default.

    Attributes
    ----------
    sensitivity : number or expression >= 0
        1 by default.
    mass : 0

    Examples
    --------
    >>> from meanfield.scaling import Atom, Bond
    >>> Bond().budgets(), (Bond(2) @ Atom("W")).budgets()
    ({}, {'W': 1/2})
    """

    sensitivity: Any = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", _not_negative(self.sensitivity, "sensitivity"))

    mass = S.Zero

    def shares(self, budget: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
        yield from ()

    def weighed(self, factor: sp.Expr) -> Module:
        return self


@dataclass(frozen=True)
class Composition(Module):
    r"""second(first(x)), written second @ first: sensitivity \mu_2 \mu_1, mass m_1 + m_2; budgets t m_1/(m \mu_2) and t m_2/m.

    Attributes
    ----------
    first, second : Module
    mass, sensitivity : expressions

    Examples
    --------
    >>> from meanfield.scaling import Atom
    >>> net = (3 * Atom("W_2")) @ Atom("W_1")
    >>> net.sensitivity, net.budgets()
    (3, {'W_1': 1/6, 'W_2': 1/6})
    """

    first: Module
    second: Module

    def __post_init__(self) -> None:
        _checked_module(self.first, "first")
        _checked_module(self.second, "second")

    @property
    def mass(self) -> sp.Expr:
        return self.first.mass + self.second.mass

    @property
    def sensitivity(self) -> sp.Expr:
        return self.second.sensitivity * self.first.sensitivity

    def shares(self, budget: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
        if self.mass == 0:
            return
        yield from self.first.shares(budget * self.first.mass / (self.mass * self.second.sensitivity))
        yield from self.second.shares(budget * self.second.mass / self.mass)

    def weighed(self, factor: sp.Expr) -> Module:
        return Composition(self.first.weighed(factor), self.second.weighed(factor))


@dataclass(frozen=True)
class Tuple(Module):
    """Modules on the same input, their outputs side by side or added: sensitivities and masses add; budgets t m_i/m. a + b is one.

    Attributes
    ----------
    parts : tuple of Module
        At least one.
    mass, sensitivity : expressions

    Examples
    --------
    >>> from meanfield.scaling import Atom, Tuple
    >>> heads = Tuple((Atom("W_Q"), Atom("W_K"), Atom("W_V", mass=2)))
    >>> heads.sensitivity, heads.budgets()
    (3, {'W_Q': 1/4, 'W_K': 1/4, 'W_V': 1/2})
    """

    parts: tuple[Module, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, Iterable):
            raise TypeError(f"parts = {self.parts!r}: expected a tuple of modules")
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise ValueError("parts = (): expected at least one module")
        for part in self.parts:
            _checked_module(part, "one of parts")

    @property
    def mass(self) -> sp.Expr:
        return sp.Add(*[m.mass for m in self.parts])

    @property
    def sensitivity(self) -> sp.Expr:
        return sp.Add(*[m.sensitivity for m in self.parts])

    def shares(self, budget: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
        for part in self.parts:
            if part.mass != 0:
                yield from part.shares(budget * part.mass / self.mass)

    def weighed(self, factor: sp.Expr) -> Module:
        return Tuple(tuple(m.weighed(factor) for m in self.parts))


@dataclass(frozen=True)
class Scaled(Module):
    r"""factor times a module, written factor * module: sensitivity factor \mu, budgets t/factor.

    Attributes
    ----------
    module : Module
    factor : number or expression >= 0
        0 for a module of mass 0 alone.
    mass, sensitivity : expressions

    Examples
    --------
    >>> from meanfield.scaling import Atom
    >>> branch = 2 * Atom("W")
    >>> branch
    Scaled(module=Atom(name='W', mass=1), factor=2)
    >>> branch.sensitivity, branch.budgets()
    (2, {'W': 1/2})
    """

    module: Module
    factor: Any

    def __post_init__(self) -> None:
        _checked_module(self.module, "module")
        object.__setattr__(self, "factor", _not_negative(self.factor, "factor"))
        if self.factor == 0 and self.module.mass != 0:
            raise ValueError("factor = 0: no update of the tensors behind it moves the output")

    @property
    def mass(self) -> sp.Expr:
        return self.module.mass

    @property
    def sensitivity(self) -> sp.Expr:
        return self.factor * self.module.sensitivity

    def shares(self, budget: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
        yield from self.module.shares(budget / self.factor)

    def weighed(self, factor: sp.Expr) -> Module:
        return Scaled(self.module.weighed(factor), self.factor)


def _laws() -> tuple[Step, ...]:
    r"""the laws of composition, for two tensors behind factors \mu_1 and \mu_2"""
    mu, m, m_1, m_2, mu_1, mu_2, t = sp.symbols("mu m m_1 m_2 mu_1 mu_2 t", positive=True)
    one, two = Scaled(Atom("1", m_1), mu_1), Scaled(Atom("2", m_2), mu_2)
    steps: list[Step] = []
    for how, module in (("one after the other", Composition(one, two)), ("side by side", Tuple((one, two)))):
        steps += [Step(f"sensitivity, {how}", sp.Eq(mu, module.sensitivity)), Step(f"mass, {how}", sp.Eq(m, module.mass))]
        steps += [Step(f"budget of W_{k}, {how}", sp.Eq(sp.Symbol(f"t_{k}"), share)) for k, share in module.budgets(t).items()]
    return tuple(steps)


def modular_transformer(blocks: int, *, mass: Any = 5, skip: Any = None, attention: Any = None) -> Module:
    r"""A GPT as the Modula library composes it: readout @ ((1 - 1/2N) Id + 1/2N branch)^2N @ embedding.

    Attention reads a tuple of queries, keys and values, whose sensitivities add to 3: the factor 1/3 makes it well normed, and every
    block has sensitivity exactly 1.

    Parameters
    ----------
    blocks : whole number N >= 1
        Each an attention and an MLP branch.
    mass : number >= 0
        Of all blocks together, beside 1 for the embedding and 1 for the readout.
    skip : number of at least 0 and below 1, optional
        The weight of the skip, 1 - 1/2N; the branch has the rest.
    attention : number > 0, optional
        The factor on the attention's output, before W_O: 1/3.

    Examples
    --------
    >>> import meanfield as mf
    >>> net = mf.scaling.modular_transformer(12)
    >>> net.sensitivity, net.mass
    (1, 7)
    >>> net.budgets()  # doctest: +NORMALIZE_WHITESPACE
    {'embedding': 1/7, 'W_Q': 5/7, 'W_K': 5/7, 'W_V': 5/7, 'W_O': 5/21, 'W_1': 5/21, 'W_2': 5/21, 'readout': 1/7}
    """
    n = sp.Integer(arguments.check_integer(blocks, "blocks", 1))
    keep = 1 - 1 / (2 * n) if skip is None else arguments.expression(skip, "skip")
    if keep.is_number and not 0 <= keep < 1:
        raise ValueError(f"skip = {skip}: expected a number of at least 0 and below 1")
    third = sp.Rational(1, 3) if attention is None else arguments.above_zero(attention, "attention")
    heads = Scaled(Bond() @ Tuple((Atom("W_Q"), Atom("W_K"), Atom("W_V"))), third)
    branches = (Atom("W_O") @ heads, Atom("W_2") @ Bond() @ Atom("W_1"))
    first, second = (Scaled(Bond(), keep) + Scaled(branch, 1 - keep) for branch in branches)
    return Atom("readout") @ ((second @ first) ** int(n)).of_mass(mass) @ Atom("embedding")
