r"""Functions of plain arithmetic as machine code inside numba's: they run once on symbols of the compiler, and what they did is the code.

Every operation keeps its IEEE meaning and a fused multiply-add stands where the text says so, so a vector of points and a single one
have the same bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["Value", "bits", "copysign", "double", "fma", "intrinsic_of", "on_processor", "sqrt", "where"]


class Value:
    """A double, a 64-bit whole number or a truth value of the code that is being written."""

    def __init__(self, builder: Any, value: Any, fused: bool) -> None:
        self.builder, self.value, self.fused = builder, value, fused

    def _of(self, value: Any) -> Value:
        return type(self)(self.builder, value, self.fused)

    def constant(self, other: Value | float) -> Any:
        """the other operand in the type of this one"""
        return other.value if isinstance(other, Value) else self.value.type(other)

    def _binary(self, floating: str, whole: str, a: Value | float, b: Value | float) -> Value:
        operation = whole if hasattr(self.value.type, "width") else floating
        return self._of(getattr(self.builder, operation)(self.constant(a), self.constant(b)))

    def __add__(self, other: Value | float) -> Value:
        return self._binary("fadd", "add", self, other)

    def __radd__(self, other: Value | float) -> Value:
        return self._binary("fadd", "add", other, self)

    def __sub__(self, other: Value | float) -> Value:
        return self._binary("fsub", "sub", self, other)

    def __rsub__(self, other: Value | float) -> Value:
        return self._binary("fsub", "sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self._binary("fmul", "mul", self, other)

    def __rmul__(self, other: Value | float) -> Value:
        return self._binary("fmul", "mul", other, self)

    def __truediv__(self, other: Value | float) -> Value:
        return self._of(self.builder.fdiv(self.value, self.constant(other)))

    def __rtruediv__(self, other: Value | float) -> Value:
        return self._of(self.builder.fdiv(self.constant(other), self.value))

    def __neg__(self) -> Value:
        return self._of(self.builder.fneg(self.value))

    def __lshift__(self, places: int) -> Value:
        return self._of(self.builder.shl(self.value, self.constant(places)))

    def __rshift__(self, places: int) -> Value:
        return self._of(self.builder.lshr(self.value, self.constant(places)))

    def __and__(self, mask: Value | int) -> Value:
        return self._of(self.builder.and_(self.value, self.constant(mask)))

    def __or__(self, mask: int) -> Value:
        return self._of(self.builder.or_(self.value, self.constant(mask)))

    def _compared(self, how: str, other: Value | float) -> Value:
        return self._of(self.builder.fcmp_ordered(how, self.value, self.constant(other)))

    def __lt__(self, other: Value | float) -> Value:
        return self._compared("<", other)

    def __gt__(self, other: Value | float) -> Value:
        return self._compared(">", other)

    def __ge__(self, other: Value | float) -> Value:
        return self._compared(">=", other)

    def __eq__(self, other: Value | float) -> Value:  # type: ignore[override]
        return self._compared("==", other)

    __hash__ = None  # type: ignore[assignment]

    def __abs__(self) -> Value:
        return self.called("llvm.fabs", self)

    def called(self, name: str, *values: Value | float) -> Value:
        """A function of the compiler's own on doubles"""
        from llvmlite import ir

        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * len(values))
        function = self.builder.module.declare_intrinsic(name, [ir.DoubleType()], kind)
        return self._of(self.builder.call(function, [self.constant(v) for v in values]))


def _first(*values: Value | float) -> Value:
    return next(v for v in values if isinstance(v, Value))


def fma(a: Value | float, b: Value | float, c: Value | float) -> Value:
    """a b + c, rounded once where the processor can."""
    x = _first(a, b, c)
    if not x.fused:
        return a * b + c  # type: ignore[return-value]
    return x.called("llvm.fma", a, b, c)


def where(condition: Value, a: Value | float, b: Value | float) -> Value:
    """a where the condition holds, else b; both are computed."""
    from llvmlite import ir

    values = [v.value if isinstance(v, Value) else ir.DoubleType()(float(v)) for v in (a, b)]
    return condition._of(condition.builder.select(condition.value, *values))


def sqrt(x: Value) -> Value:
    return x.called("llvm.sqrt", x)


def copysign(size: Value | float, sign: Value | float) -> Value:
    return _first(size, sign).called("llvm.copysign", size, sign)


def bits(x: Value) -> Value:
    """The 64 bits of a double as a whole number."""
    from llvmlite import ir

    return x._of(x.builder.bitcast(x.value, ir.IntType(64)))


def double(i: Value) -> Value:
    """The double of those 64 bits."""
    from llvmlite import ir

    return i._of(i.builder.bitcast(i.value, ir.DoubleType()))


def on_processor(context: Any, builder: Any, value: Any) -> Value:
    """What a function for this processor is traced on."""
    triple, _, features = context.codegen().magic_tuple()
    return Value(builder, value, "+fma" in features.split(",") or triple.startswith(("aarch64", "arm64")))


def intrinsic_of(function: Callable[..., Value], intrinsic: Any, traced: Callable[[Any, Any, Any], Value]) -> Any:
    """The function of doubles as one that numba writes into the code that calls it, as that `intrinsic` of a compiler."""
    from numba import types

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return function(*(traced(context, builder, a) for a in args)).value

    def one(typing: Any, a: Any) -> Any:
        return types.float64(types.float64), code

    def two(typing: Any, a: Any, b: Any) -> Any:
        return types.float64(types.float64, types.float64), code

    def three(typing: Any, a: Any, b: Any, c: Any) -> Any:
        return types.float64(types.float64, types.float64, types.float64), code

    return intrinsic((one, two, three)[len(inspect.signature(function).parameters) - 1])
