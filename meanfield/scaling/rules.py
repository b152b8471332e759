"""What a scaling rule is: a statement one can read, what it assumes, how it follows, where it is from, and the values it gives."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import sympy as sp
from sympy.printing.latex import greek_letters_set

from meanfield import arguments
from meanfield.characters import escaped
from meanfield.faces import latex
from meanfield.numeric.evaluation import evaluate
from meanfield.symbols import TABLE

__all__ = ["Rule", "Step"]


@dataclass(frozen=True)
class Step:
    """One step of a derivation, part of the `steps` of a `Rule`.

    Attributes
    ----------
    reason : str
        A sentence.
    equation : sympy equation or expression
        What it leads to.

    Examples
    --------
    >>> import meanfield as mf
    >>> for step in mf.scaling.deep_norm("adam").steps[-2:]:
    ...     print(f"{step.reason}: {step.equation}")
    closure: Eq(lam, 1/alpha)
    sublayers: Eq(S, 2*N)
    """

    reason: str
    equation: sp.Basic


@dataclass(frozen=True, repr=False)
class Rule:
    r"""A scaling rule: named values, each an exact expression, with the reasons for them.

    `rule.alpha` is the value of that name; `rule(N=100)` is a dictionary of all of them as numbers, arrays where N is one.

    Attributes
    ----------
    name : str
    values : mapping of names to sympy expressions
    statement : tuple of equations
        What the rule asks for.
    assumptions : tuple of str
    steps : tuple of Step
        From the statement to the values.
    source : str

    >>> import meanfield as mf
    >>> rule = mf.scaling.deep_norm("sgd")
    >>> rule.alpha
    2**(1/4)*N**(1/4)
    >>> {name: round(value, 6) for name, value in rule(N=12).items()}
    {'alpha': 2.213364, 'lam': 0.451801}
    """

    name: str
    values: Mapping[str, sp.Expr] = field(hash=False)
    statement: tuple[sp.Basic, ...]
    assumptions: tuple[str, ...]
    steps: tuple[Step, ...]
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is made, for copies and pickles, which know no mapping that is read only."""
        return Rule, (self.name, dict(self.values), self.statement, self.assumptions, self.steps, self.source)

    def __getattr__(self, name: str) -> sp.Expr:
        values = self.__dict__.get("values", {})
        if name not in values:
            raise AttributeError(f"{name}: this rule gives {', '.join(values)}")
        return values[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.values})

    def __call__(self, **numbers: Any) -> dict[str, Any]:
        """The values that these numbers determine, by name: one number or array for each symbol, arrays broadcast.

        Raises
        ------
        ValueError
            A name that no value depends on, or numbers that determine none, with what the rule depends on; a number out of range.
        """
        needs = {name: {s.name for s in value.free_symbols} for name, value in self.values.items()}
        every = set().union(*needs.values())
        determined = {name: value for name, value in self.values.items() if needs[name] <= set(numbers)}
        if not determined or not set(numbers) <= every:
            raise ValueError(f"{', '.join(numbers) or 'nothing'} given: this rule depends on {', '.join(sorted(every)) or 'nothing'}")
        for s in set().union(*(value.free_symbols for value in determined.values())):
            arguments.number_array(numbers[s.name], s.name, s)
        return {name: evaluate(value, **{s: numbers[s] for s in needs[name]}) for name, value in determined.items()}

    def __repr__(self) -> str:
        lines = [self.name, *(f"    {name} = {_shown(value)}" for name, value in self.values.items())]
        lines += [f"    asks: {_flat(e)}" for e in self.statement]
        lines += [f"    assumes: {text}" for text in self.assumptions]
        return "\n".join([*lines, f"    source: {self.source}"])

    def _repr_latex_(self) -> str:
        return self.latex()

    def latex(self) -> str:
        """The derivation as aligned equations, each under its reason."""
        lines = [rf"& \textbf{{{escaped(self.name)}}}", *_sentence(f"({self.source})")]
        lines += [line for a in self.assumptions for line in _sentence(f"assumption: {a}")]
        lines += [rf"& \text{{asks:}} \quad {latex(e)}" for e in self.statement]
        for step in self.steps:
            lines += [*_sentence(f"{step.reason}:"), rf"& \quad {latex(step.equation)}"]
        lines += [rf"& {_letter(name)} = {latex(value)}" for name, value in self.values.items()]
        return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


@latex.register
def _(thing: Rule) -> str:
    return thing.latex()


def _shown(value: sp.Expr) -> str:
    """a value, with its decimals where it is an irrational number"""
    return f"{value} = {float(value):.6g}" if value.is_number and not value.is_Integer else str(value)


def _flat(e: sp.Basic) -> str:
    return f"{e.lhs} = {e.rhs}" if isinstance(e, sp.Eq) else str(e)


def _letter(name: str) -> str:
    if name in TABLE:
        return TABLE[name].latex
    root = name.partition("_")[0]
    return str(sp.latex(sp.Symbol(name))) if len(root) == 1 or root in greek_letters_set else rf"\text{{{escaped(name)}}}"


#: characters of text that fit on a line
LINE = 85


def _sentence(text: str) -> list[str]:
    """lines of an align*"""
    return [rf"& \text{{{escaped(line)}}}" for line in textwrap.wrap(text, LINE)]
