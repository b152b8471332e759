"""Choices between numbers as branches, for the code of a single point: it goes the same way at almost every layer, so the processor goes
on with the likely number before the comparison is done, where a choice that is arithmetic would wait for it and for both numbers.

The bits are the same. A block of points has no branches, and is vector code for that.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir.instructions import PredictableInstr, SelectInstr

__all__ = ["REPEATED", "RARE", "foresee", "foreseen"]

#: functions of the loops that a point calls at few of its layers
RARE = frozenset(("put_forward", "put_back"))
#: those that a layer calls for each table it reads: in place they take LLVM twice as long, and points no less
REPEATED = frozenset(("mean_in", "pair_in", "jumps_in"))

#: how much likelier one way is than the other: LLVM makes a branch of what is foreseen in 99 of 100 cases
_WEIGHTS = (2000, 1)


def foresee(branch: Any) -> None:
    """Say of a branch that it mostly goes the first way."""
    branch.set_weights(_WEIGHTS)


def foreseen(module: ir.Module) -> None:
    """Say of all choices in a module that they are mostly the second number: most keep a function within bounds."""
    for function in module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                if isinstance(instruction, SelectInstr):
                    PredictableInstr.set_weights(instruction, _WEIGHTS[::-1])
