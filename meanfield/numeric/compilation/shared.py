"""What the functions of one piece of machine code share: its constant rows of numbers, elementary functions and those of the C library."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from meanfield.numeric.compilation.instructions import instruction, needed
from meanfield.numeric.compilation.operations import BOOL, FLOAT, INT, Array, Type, Typed, Untranslatable, llvm
from meanfield.numeric.tracing import Value

__all__ = ["Loop", "Shared"]

FIRST_LOOP = 1000  # metadata before it are llvmlite's


@dataclass(frozen=True)
class Loop:
    """The metadata of a loop, which name themselves."""

    number: int

    def get_reference(self) -> str:
        """as instructions write it"""
        return f"!{self.number}"


@dataclass
class Shared:
    """The LLVM module, the functions in it and its constant rows; `fused` where the processor multiplies and adds at once, `thorough` where
    functions are put in place and all passes go over them, as over recursions, `blocks` where loops are over points, `alone` where a single
    point goes through layers, `capable` where the processor has the `instructions`."""

    fused: bool
    thorough: bool
    blocks: bool
    alone: bool
    capable: bool
    module: ir.Module = field(default_factory=ir.Module)
    functions: dict[Any, tuple[ir.Function, Type]] = field(default_factory=dict)
    constants: dict[int, tuple[Any, ir.GlobalVariable]] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The module as LLVM reads it."""
        hint = f'!{FIRST_LOOP} = !{{!"llvm.loop.interleave.count", i32 2}}'
        named = [f"{name} = distinct !{{{name}, !{FIRST_LOOP}}}" for name in (loop.get_reference() for loop in self.loops)]
        return "\n".join([str(self.module), needed(self.module), hint, *named])

    def loop(self) -> Loop:
        """Of a loop over a range, which is two vectors at a time where it is over points: what one waits for the other fills."""
        self.loops.append(Loop(FIRST_LOOP + 1 + len(self.loops)))
        return self.loops[-1]

    def elementary(self, f: Callable[..., Value]) -> ir.Function:
        """A function of `elementary`."""
        if f not in self.functions:
            count = len(inspect.signature(f).parameters)
            made = ir.Function(self.module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * count), f.__name__ + "_")
            made.linkage = "internal"
            made.attributes.add("alwaysinline")
            builder = ir.IRBuilder(made.append_basic_block())
            given = partial(instruction, self.module) if self.capable else None
            builder.ret(f(*(Value(builder, a, self.fused, given) for a in made.args)).value)
            self.functions[f] = made, FLOAT
        return self.functions[f][0]

    def library(self, name: str, count: int) -> ir.Function:
        """A function of the C library."""
        if name not in self.module.globals:
            ir.Function(self.module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * count), name).attributes.add("nounwind")
        return self.module.globals[name]

    def memory(self, name: str) -> ir.Function:
        """malloc or free"""
        if name not in self.module.globals:
            pointer, size = ir.IntType(8).as_pointer(), ir.IntType(64)
            kind = ir.FunctionType(pointer, [size]) if name == "malloc" else ir.FunctionType(ir.VoidType(), [pointer])
            made = ir.Function(self.module, kind, name)
            made.attributes.add("nounwind")
            if name == "malloc":
                made.return_value.add_attribute("noalias")
        return self.module.globals[name]

    def constant(self, value: Any) -> Typed:
        """A number or a row of numbers that the source names."""
        if isinstance(value, bool):
            return Typed(BOOL, (llvm(BOOL)(int(value)),))
        if isinstance(value, int):
            return Typed(INT, (llvm(INT)(value),))
        if isinstance(value, float):
            return Typed(FLOAT, (llvm(FLOAT)(value),))
        if not isinstance(value, (tuple, np.ndarray)):
            raise Untranslatable(f"{value!r} is no number")
        row = np.asarray(value, dtype=np.float64)
        if id(value) not in self.constants:
            made = ir.GlobalVariable(self.module, ir.ArrayType(ir.DoubleType(), row.size), f"row_{len(self.constants)}")
            made.linkage, made.global_constant = "internal", True
            made.initializer = ir.Constant(made.value_type, [ir.DoubleType()(float(z)) for z in row])
            self.constants[id(value)] = value, made
        start = self.constants[id(value)][1].bitcast(ir.DoubleType().as_pointer())
        return Typed(Array(FLOAT, 1), (start, llvm(INT)(row.size)))
