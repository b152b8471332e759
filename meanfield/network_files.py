r"""A network described in a TOML file: blocks by their public names, with the arguments these take in Python.

    [network]                               # one repeat
    kind = "pre_norm"                       # any block or named architecture of `meanfield`
    norm = { kind = "Derf" }                # its arguments; a kind that needs none may be written norm = "Derf"
    attention = { kind = "Attention", n = 197, softmax_derivative = false }
    mlp = { kind = "MLP", phi = "gelu(x)", sigma_1 = "sqrt(2)" }

    [parameters]                            # what the network leaves open: a number, a list, or text as 0.1:2:20
    alpha = [0.5, 1.1]

    [run]                                   # where and how far
    depth = 128
    q = 1.0
    p = 0.4

Blocks in a list follow one another, as with `>>` ([[network]] tables too); kinds Residual (branch), Parallel (branches) and Repeat
(block, times) do the rest. Formulas are text, read by the whitelist of `meanfield.parsing`; nothing in a file is executed.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import sympy as sp

import meanfield
from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, Serial
from meanfield.blocks.laws import TOKENS
from meanfield.blocks.softmax import Annealed, Quenched, SoftmaxAverage
from meanfield.parsing import DEEPEST, parse_activation, parse_expression

__all__ = ["NetworkFile", "Written", "kinds", "read_network"]

#: characters of a file
LONGEST: Final = 100_000
#: what a run is told
RUN: Final = ("depth", "q", "p", "c", "gap", "q2", "start", "record")

_AVERAGES: Final[dict[str, type[SoftmaxAverage]]] = {"Annealed": Annealed, "Quenched": Quenched}


@dataclass(frozen=True)
class Written:
    """Text for a value and what to call it in an error: where it was written."""

    text: str
    where: str


@dataclass(frozen=True)
class NetworkFile:
    """What a file describes: a network, values of parameters and of a run as they are written."""

    network: Block
    parameters: Mapping[str, Written]
    run: Mapping[str, Written]


@cache
def kinds() -> dict[str, Callable[..., Block]]:
    """What `kind` may be: the public blocks and named architectures, by name."""
    homes = {name: home for name, (home, _) in meanfield._homes().items() if home.split(".")[1] in ("blocks", "architectures")}
    found = {name: getattr(meanfield, name) for name in sorted(homes) if name in meanfield.__all__}
    return {name: thing for name, thing in found.items() if _makes_block(thing, importlib.import_module(homes[name]))}


def _makes_block(thing: Any, home: Any) -> bool:
    if isinstance(thing, type):
        return issubclass(thing, Block) and not inspect.isabstract(thing)
    made = [getattr(home, name, None) for name in str(inspect.signature(thing).return_annotation).split(" | ")]
    return all(isinstance(kind, type) and issubclass(kind, Block) for kind in made)


def read_network(path: str | Path) -> NetworkFile:
    """The network of a TOML file.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no TOML, holds an unknown table, kind or key, or a value that is refused; with the file, the table and the key.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file}: expected a text file in UTF-8") from None
    if len(text) > LONGEST:
        raise ValueError(f"{file}: a file of {len(text)} characters is too long: at most {LONGEST}")
    try:
        tables = tomllib.loads(text)
        unknown = sorted(tables.keys() - {"network", "parameters", "run"})
        if unknown or "network" not in tables:
            problem = f"unknown table [{unknown[0]}]" if unknown else "the table [network] is missing"
            raise ValueError(f"{problem}; a file has [network], [parameters] and [run]")
        network = _Reader().block(tables["network"], "network")
        return NetworkFile(network, _written(file, tables, "parameters"), _written(file, tables, "run", RUN))
    except RecursionError:
        raise ValueError(f"{file}: nested beyond {DEEPEST} levels") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from None


def _written(file: Path, tables: dict[str, Any], name: str, allowed: tuple[str, ...] = ()) -> dict[str, Written]:
    """the values of a table as text"""
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ValueError(f"{name}: expected a table [{name}]")
    found = {}
    for key, value in table.items():
        where = f"{name}.{key}"
        if allowed and key not in allowed:
            raise ValueError(f"{where}: unknown key; expected one of {', '.join(allowed)}")
        if not key.isidentifier():
            raise ValueError(f"{where}: no name of a parameter")
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(v, str) or _is_number(v) for v in values):
            raise ValueError(f"{where} = {_shown(value)}: expected a number, a list of numbers, or text as 0.1:2:20")
        found[key] = Written(",".join(v if isinstance(v, str) else repr(v) for v in values), f"{file}: {where}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


class _Reader:
    """One pass over the table of a network; `where` is the path of keys to what is read."""

    def __init__(self) -> None:
        self.level = 0

    def block(self, value: Any, where: str) -> Block:
        if self.level >= DEEPEST:
            raise ValueError(f"{where}: nested beyond {DEEPEST} levels")
        self.level += 1
        try:
            if isinstance(value, list):
                return self.made(Serial, where, blocks=self.blocks(value, where))
            table = {"kind": value} if isinstance(value, str) else value
            if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
                raise ValueError(
                    f'{where} = {_shown(value)}: expected a block, as {{ kind = "LayerNorm" }}, "LayerNorm", or a list of blocks'
                )
            return self.of_kind(table, where)
        finally:
            self.level -= 1

    def of_kind(self, table: dict[str, Any], where: str) -> Block:
        kind = table["kind"]
        if kind not in kinds():
            raise ValueError(f"{where}.kind = {_shown(kind)}: expected one of {', '.join(kinds())}")
        make = kinds()[kind]
        taken = inspect.signature(make).parameters
        unknown = [key for key in table if key not in taken and key != "kind"]
        missing = [key for key, p in taken.items() if p.default is p.empty and key not in table]
        if unknown or missing:
            problem = f"unknown key {unknown[0]}" if unknown else f"{missing[0]} is missing"
            raise ValueError(f"{where}: {problem}; {kind} takes {', '.join(taken) or 'no arguments'}")
        given = {key: self.argument(value, str(taken[key].annotation), f"{where}.{key}") for key, value in table.items() if key != "kind"}
        return self.made(make, where, **given)

    def argument(self, value: Any, annotation: str, where: str) -> Any:
        """a value as what the argument of that annotation takes"""
        read = _READERS.get(annotation.removesuffix(" | None"), _Reader.expression)
        return read(self, value, where)

    def made(self, make: Callable[..., Block], where: str, **arguments: Any) -> Block:
        try:
            return make(**arguments)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from None

    def blocks(self, value: Any, where: str) -> tuple[Block, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{where} = {_shown(value)}: expected a list of blocks")
        return tuple(self.block(v, f"{where}[{i}]") for i, v in enumerate(value))

    def expression(self, value: Any, where: str) -> sp.Expr:
        if not isinstance(value, str) and not _is_number(value):
            raise ValueError(f'{where} = {_shown(value)}: expected a number or a formula in quotes, as "1/sqrt(L)"')
        found = parse_expression(value if isinstance(value, str) else repr(value), where)
        return found.xreplace({sp.Symbol(t.name, real=True): t for t in TOKENS})

    def expressions(self, value: Any, where: str) -> tuple[sp.Expr, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{where} = {_shown(value)}: expected a list of numbers or formulas")
        return tuple(self.expression(v, f"{where}[{i}]") for i, v in enumerate(value))

    def activation(self, value: Any, where: str) -> Activation:
        if not isinstance(value, str):
            raise ValueError(f'{where} = {_shown(value)}: expected an activation in quotes, as "gelu(x)"')
        return parse_activation(value, where)

    def average(self, value: Any, where: str) -> SoftmaxAverage:
        if not isinstance(value, str) or value not in _AVERAGES:
            raise ValueError(f"{where} = {_shown(value)}: expected one of {', '.join(_AVERAGES)}")
        return _AVERAGES[value]()

    def switch(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{where} = {_shown(value)}: expected true or false")
        return value

    def count(self, value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{where} = {_shown(value)}: expected a whole number")
        return value


#: annotation of an argument -> how it is read; a number or formula where there is none
_READERS: Final[dict[str, Callable[[_Reader, Any, str], Any]]] = {
    "Block": _Reader.block,
    "tuple[Block, ...]": _Reader.blocks,
    "tuple[Any, ...]": _Reader.expressions,
    "Activation": _Reader.activation,
    "SoftmaxAverage": _Reader.average,
    "bool": _Reader.switch,
    "int": _Reader.count,
}
