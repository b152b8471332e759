"""The law of a block with a gain on each of its weight matrices, as a chain of named quantities."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import sympy as sp

from meanfield.blocks.algebra import Block, Definition, Law, Serial, Signal, probe
from meanfield.symbols import known

__all__ = ["Gained", "gained", "same_token_part"]

q, p, delta = (known(name) for name in ("q", "p", "delta"))


@dataclass(frozen=True)
class Gained:
    """The output variance of a block whose weight scales carry gains: `gains` maps each gain to the name of its weight scale."""

    gains: dict[sp.Symbol, str]
    definitions: tuple[Definition, ...]
    q: sp.Expr

    @cached_property
    def values(self) -> dict[sp.Expr, sp.Expr]:
        """Every named quantity in q, p, the parameters and the gains; expectations stay folded."""
        done: dict[sp.Expr, sp.Expr] = {delta: q - p}
        for d in self.definitions:
            done[d.symbol] = _formula(d).xreplace(done)
        return done

    @cached_property
    def output(self) -> sp.Expr:
        return self.q.xreplace(self.values)

    @cached_property
    def names(self) -> dict[sp.Expr, sp.Symbol]:
        """What the quantities and gains are called where people read them, those that bear one name numbered."""
        count: dict[str, int] = {}
        result: dict[sp.Expr, sp.Symbol] = {}
        for symbol in (*self.gains, *(d.symbol for d in self.definitions)):
            count[symbol.name] = count.get(symbol.name, 0) + 1
            result[symbol] = sp.Symbol(symbol.name + (f"_{count[symbol.name]}" if count[symbol.name] > 1 else ""), positive=True)
        return result

    @cached_property
    def chain(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """The named quantities on which the output depends, in order, with their formulas in those before."""
        needed, kept = self.q.free_symbols, []
        for d in reversed(self.definitions):
            if d.symbol in needed:
                formula = _formula(d).xreplace({delta: q - p})
                kept.append((d.symbol, formula))
                needed = needed | formula.free_symbols
        return tuple(reversed(kept))


def _formula(d: Definition) -> sp.Expr:
    return d.value if d.shown is None else d.shown


def gained(block: Block, weights: Collection[str] | None = None) -> Gained:
    """Multiply each weight scale by a gain of its own: fields and symbols named sigma_*, biases left out, or those named in `weights`."""
    gains: dict[sp.Symbol, str] = {}

    def is_weight(name: str) -> bool:
        return name in weights if weights is not None else name.startswith("sigma_") and name != "sigma_b"

    def gain(name: str) -> sp.Symbol:
        count = sum(taken.partition(" ")[0] == name for taken in gains.values())
        label = name.removeprefix("sigma_") + (f"{count + 1}" if count else "")
        symbol = sp.Dummy(f"lambda_{label}", positive=True)
        gains[symbol] = f"{name} ({count + 1})" if count else name
        return symbol

    seen: set[sp.Basic] = set()

    def multiplied(value: Any, field: str) -> Any:
        if isinstance(value, tuple):
            return tuple(multiplied(v, field) for v in value)
        if isinstance(value, Block):
            return _rebuilt(value, {name: multiplied(v, name) for name, v in _fields(value).items()})
        if isinstance(value, sp.Expr) and value != 0:
            name = value.name if isinstance(value, sp.Symbol) else field
            if is_weight(name) or is_weight(field):
                seen.update(value.free_symbols)
                return value * gain(name)
        return value

    signal, definitions = _chained(multiplied(block, ""), probe())
    # weight scales that the law of a user's own block names without keeping them in a field
    used = signal.q.free_symbols.union(*(_formula(d).free_symbols for d in definitions))
    hidden = sorted((s for s in used - seen if is_weight(s.name)), key=lambda s: s.name)
    put = {s: s * gain(s.name) for s in hidden}
    definitions = tuple(replace(d, value=_formula(d).xreplace(put), shown=None) for d in definitions)
    return Gained(gains, definitions, signal.q.xreplace(put))


@dataclass(frozen=True)
class _Diagonal(Block):
    """A block whose tokens read nobody but themselves."""

    block: Block

    def law(self, signal: Signal) -> Law:
        law: Law = cast(Any, self.block).diagonal(signal)
        return law


def same_token_part(block: Block) -> Block:
    """The block with the `diagonal` law of every part that states one, a method like `law`; refused where no part does."""
    found: list[Block] = []

    def diagonal(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(diagonal(v) for v in value)
        if not isinstance(value, Block):
            return value
        if hasattr(value, "diagonal"):
            found.append(value)
            return _Diagonal(value)
        return _rebuilt(value, {name: diagonal(v) for name, v in _fields(value).items()})

    result: Block = diagonal(block)
    if not found:
        raise ValueError(f"part = 'diagonal': {block} has no part that states the law of its same-token path")
    return result


def _fields(block: Block) -> dict[str, Any]:
    """what the block was made of, if it is a dataclass"""
    return {f.name: getattr(block, f.name) for f in getattr(type(block), "__dataclass_fields__", {}).values() if f.init}


def _rebuilt(block: Block, new: dict[str, Any]) -> Any:
    return replace(cast(Any, block), **new) if new != _fields(block) else block


def _chained(block: Block, signal: Signal) -> tuple[Signal, tuple[Definition, ...]]:
    """the output of a block and the quantities it is written in, the signal between the parts of a serial block among them"""
    if not isinstance(block, Serial):
        law = block.law(signal)
        return law.output, law.definitions
    definitions: tuple[Definition, ...] = ()
    for k, part in enumerate(block.blocks, 1):
        signal, new = _chained(part, signal)
        definitions += new
        if k < len(block.blocks):
            named = {name: _named(f"{name}_{k}", getattr(signal, name), sign) for name, sign in _SIGNS.items()}
            definitions += tuple(d for _, d in named.values() if d is not None)
            signal = replace(signal, **{name: value for name, (value, _) in named.items()})
    return signal, definitions


_SIGNS = {"q": "positive", "p": "real", "delta": "nonnegative"}


def _named(name: str, value: sp.Expr, sign: str) -> tuple[sp.Expr, Definition | None]:
    """a symbol of that name and what it stands for; a number stays as it is"""
    if value.is_Number:
        return value, None
    symbol = sp.Dummy(name, **{sign: True})
    return symbol, Definition(symbol, value, name)
