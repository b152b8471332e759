r"""Functions of plain arithmetic as machine code: they run once on symbols of the compiler, and what they did is the code.

Every operation keeps its IEEE meaning and a fused multiply-add stands where the text says so, so a vector of points and a single one
have the same bits.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Value", "bits", "copysign", "double", "fma", "instruction", "sqrt", "where"]


class Value:
    """A double, a 64-bit whole number or a truth value of the code that is being written; `instruction` gives those of the processor."""

    def __init__(self, builder: Any, value: Any, fused: bool, instruction: Any = None) -> None:
        self.builder, self.value, self.fused, self.instruction = builder, value, fused, instruction

    def of(self, value: Any) -> Value:
        """another value of the same code"""
        return Value(self.builder, value, self.fused, self.instruction)

    def constant(self, other: Value | float) -> Any:
        """the other operand in the type of this one"""
        return other.value if isinstance(other, Value) else self.value.type(other)

    def _binary(self, floating: str, whole: str, a: Value | float, b: Value | float) -> Value:
        operation = whole if hasattr(self.value.type, "width") else floating
        return self.of(getattr(self.builder, operation)(self.constant(a), self.constant(b)))

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
        return self.of(self.builder.fdiv(self.value, self.constant(other)))

    def __rtruediv__(self, other: Value | float) -> Value:
        return self.of(self.builder.fdiv(self.constant(other), self.value))

    def __neg__(self) -> Value:
        return self.of(self.builder.fneg(self.value))

    def __lshift__(self, places: int) -> Value:
        return self.of(self.builder.shl(self.value, self.constant(places)))

    def __rshift__(self, places: int) -> Value:
        return self.of(self.builder.lshr(self.value, self.constant(places)))

    def __and__(self, mask: Value | int) -> Value:
        return self.of(self.builder.and_(self.value, self.constant(mask)))

    def __or__(self, mask: int) -> Value:
        return self.of(self.builder.or_(self.value, self.constant(mask)))

    def _compared(self, how: str, other: Value | float) -> Value:
        return self.of(self.builder.fcmp_ordered(how, self.value, self.constant(other)))

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
        return self.of(_called(self, "llvm.fabs", self.value))


def _called(x: Value, name: str, *values: Any) -> Any:
    from llvmlite import ir

    function = x.builder.module.declare_intrinsic(
        name, [ir.DoubleType()], ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * len(values))
    )
    return x.builder.call(function, values)


def _first(*values: Value | float) -> Value:
    return next(v for v in values if isinstance(v, Value))


def fma(a: Value | float, b: Value | float, c: Value | float) -> Value:
    """a b + c, rounded once where the processor can."""
    x = _first(a, b, c)
    if not x.fused:
        return a * b + c  # type: ignore[return-value]
    return x.of(_called(x, "llvm.fma", *(x.constant(v) for v in (a, b, c))))


def where(condition: Value, a: Value | float, b: Value | float) -> Value:
    """a where the condition holds, else b; both are computed."""
    from llvmlite import ir

    values = [v.value if isinstance(v, Value) else ir.DoubleType()(float(v)) for v in (a, b)]
    return condition.of(condition.builder.select(condition.value, *values))


def sqrt(x: Value) -> Value:
    return x.of(_called(x, "llvm.sqrt", x.value))


def instruction(name: str, x: Value, *others: Value) -> Value | None:
    """What an instruction of the processor gives, where it has that (`compilation.instructions`)."""
    if x.instruction is None:
        return None
    return x.of(x.builder.call(x.instruction(name), [x.value, *(v.value for v in others)]))


def copysign(size: Value | float, sign: Value | float) -> Value:
    x = _first(size, sign)
    return x.of(_called(x, "llvm.copysign", x.constant(size), x.constant(sign)))


def bits(x: Value) -> Value:
    """The 64 bits of a double as a whole number."""
    from llvmlite import ir

    return x.of(x.builder.bitcast(x.value, ir.IntType(64)))


def double(i: Value) -> Value:
    """The double of those 64 bits."""
    from llvmlite import ir

    return i.of(i.builder.bitcast(i.value, ir.DoubleType()))
