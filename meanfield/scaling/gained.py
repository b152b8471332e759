"""The law of a block with a gain on each of its weight matrices, as a chain of named quantities."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import sympy as sp

from meanfield.blocks.algebra import Block, Serial, law_on, made_of, probe
from meanfield.blocks.laws import Definition, Signal
from meanfield.gaussian.expectation import stated
from meanfield.symbols import TABLE, known

__all__ = ["OUTPUT", "Gained", "gained", "is_weight_scale", "same_token_part"]

q, p, delta = (known(name) for name in ("q", "p", "delta"))


@dataclass(frozen=True)
class Gained:
    """The output variance of a block whose weight scales carry gains: `gains` maps each gain to the name of its weight scale."""

    gains: dict[sp.Symbol, str]
    #: the named quantities on which the output depends, in order, with their formulas in those before; the output itself is last
    chain: tuple[tuple[sp.Symbol, sp.Expr], ...]
    #: how the named quantities print
    letters: dict[sp.Symbol, str]

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """What the output depends on beside the gains: q, p and the parameters."""
        own = {*self.gains, *(symbol for symbol, _ in self.chain)}
        return tuple(sorted(set().union(*(f.free_symbols for _, f in self.chain)) - own, key=lambda s: s.name))


#: the output variance
OUTPUT = sp.Symbol("q_out", positive=True)


def _formula(d: Definition) -> sp.Expr:
    return stated(d.value if d.shown is None else d.shown)


def is_weight_scale(name: str) -> bool:
    """Whether a field or symbol of that name scales a weight matrix: sigma_*, but for sigma_b, sigma_b1, ..., which scale biases."""
    return name.startswith("sigma_") and not _is_bias_scale(name)


def _is_bias_scale(name: str) -> bool:
    return re.fullmatch(r"sigma_b\d*", name) is not None


def gained(block: Block, weights: Collection[str] | None = None, signal: Signal | None = None) -> Gained:
    """Multiply each weight scale by a gain of its own: fields and symbols named sigma_*, biases left out, or those named in `weights`."""
    gains: dict[sp.Symbol, str] = {}

    def is_weight(name: str) -> bool:
        return name in weights if weights is not None else is_weight_scale(name)

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
            return _rebuilt(value, {name: multiplied(v, name) for name, v in made_of(value).items()})
        if isinstance(value, sp.Expr) and weights is None and _is_bias_scale(field):
            seen.update(value.free_symbols)
        elif isinstance(value, sp.Expr) and value != 0:
            named = [s.name for s in value.free_symbols if is_weight(s.name)]
            if named or is_weight(field):
                seen.update(value.free_symbols)
                return value * gain(named[0] if len(named) == 1 else field)
        return value

    output, definitions = _chained(multiplied(block, ""), probe() if signal is None else signal)
    # weight scales that the law of a user's own block names without keeping them in a field
    used = output.q.free_symbols.union(*(_formula(d).free_symbols for d in definitions))
    hidden = sorted((s for s in used - seen if is_weight(s.name)), key=lambda s: s.name)
    put = {s: s * gain(s.name) for s in hidden}
    put[delta] = q - p if signal is None else signal.delta
    letters = {d.symbol: d.latex for d in definitions}
    return _named_chain(gains, [(d.symbol, _formula(d).xreplace(put)) for d in definitions], output.q.xreplace(put), letters)


def _named_chain(
    gains: dict[sp.Symbol, str], definitions: list[tuple[sp.Symbol, sp.Expr]], output: sp.Expr, letters: dict[sp.Symbol, str]
) -> Gained:
    """what the output needs of the definitions, with a name of its own for each"""
    needed, kept = output.free_symbols, [(OUTPUT, output)]
    for symbol, formula in reversed(definitions):
        if symbol in needed:
            kept.append((symbol, formula))
            needed = needed | formula.free_symbols
    kept.reverse()
    unnamed = [*gains, *(symbol for symbol, _ in kept[:-1])]
    taken = {s.name for s in needed - set(unnamed)} | set(TABLE) | {OUTPUT.name}
    names: dict[sp.Expr, sp.Symbol] = {OUTPUT: OUTPUT}
    printed: dict[sp.Symbol, str] = {}
    for symbol in unnamed:
        count = 1
        while (name := f"{symbol.name}_{count}" if count > 1 else symbol.name) in taken:
            count += 1
        taken.add(name)
        names[symbol] = sp.Symbol(name, **{k: v for k, v in symbol.assumptions0.items() if k in ("positive", "nonnegative", "real") and v})
        if symbol in letters:
            printed[names[symbol]] = letters[symbol] if count == 1 else f"{letters[symbol]}^{{({count})}}"
    return Gained({names[g]: label for g, label in gains.items()}, tuple((names[s], f.xreplace(names)) for s, f in kept), printed)


def same_token_part(block: Block) -> Block:
    """The block with the `diagonal` of every part that has one, a block; refused where no part does."""
    found: list[Block] = []

    def diagonal(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(diagonal(v) for v in value)
        if not isinstance(value, Block):
            return value
        if hasattr(value, "diagonal"):
            found.append(value)
            return value.diagonal
        return _rebuilt(value, {name: diagonal(v) for name, v in made_of(value).items()})

    result: Block = diagonal(block)
    if not found:
        raise ValueError(f"part = 'diagonal': {block} has no part with a `diagonal`, the block of its same-token path")
    return result


def _rebuilt(block: Block, new: dict[str, Any]) -> Any:
    return replace(cast(Any, block), **new) if new != made_of(block) else block


def _chained(block: Block, signal: Signal) -> tuple[Signal, tuple[Definition, ...]]:
    """the output of a block and the quantities it is written in, the signal between the parts of a serial block among them"""
    if not isinstance(block, Serial):
        law = law_on(block, signal)
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
