"""The types of translated source, and its operations on them as LLVM code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

__all__ = ["BOOL", "FLOAT", "INT", "Array", "Code", "Type", "Typed", "Untranslatable", "flat", "joint", "llvm"]


class Untranslatable(TypeError):
    """Source beyond what is translated."""


@dataclass(frozen=True)
class Array:
    """An array in C order; of one axis, or more."""

    item: str
    rank: int


#: a scalar, an array, or a tuple of such
Type = Any
BOOL, INT, FLOAT = "bool", "int", "float"
_SCALARS: Final = {BOOL: ir.IntType(1), INT: ir.IntType(64), FLOAT: ir.DoubleType()}


@dataclass(frozen=True)
class Typed:
    """A value: one number, the pointer and lengths of an array, or those of the members of a tuple."""

    type: Type
    parts: tuple[Any, ...]

    @property
    def members(self) -> list[Typed]:
        """What is in a tuple."""
        out, at = [], 0
        for t in self.type:
            size = len(flat(t))
            out.append(Typed(t, self.parts[at : at + size]))
            at += size
        return out


def llvm(t: str) -> Any:
    """The LLVM type of a scalar."""
    return _SCALARS[t]


def flat(t: Type) -> list[Any]:
    """The LLVM types of the parts of a value."""
    if isinstance(t, tuple):
        return [part for member in t for part in flat(member)]
    if isinstance(t, Array):
        return [llvm(t.item).as_pointer(), *[llvm(INT)] * t.rank]
    return [llvm(t)]


def joint(a: Type, b: Type) -> Type:
    """The type that holds values of both."""
    if a == b:
        return a
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(joint(*pair) for pair in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):
        return FLOAT if FLOAT in (a, b) else INT
    raise Untranslatable(f"one name for {a} and {b}")


_ARITHMETIC = {"Add": ("add", "fadd"), "Sub": ("sub", "fsub"), "Mult": ("mul", "fmul")}
_BITWISE = {"BitAnd": "and_", "BitOr": "or_"}
_ORDER = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!="}


class Code:
    """Operations as Python means them, at the end of the code of a function: each is rounded, so that what cancels there cancels here."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder

    def cast(self, value: Typed, t: Type) -> Typed:
        """The value in a type that holds it."""
        if value.type == t:
            return value
        if isinstance(t, tuple):
            parts = [self.cast(member, kind) for member, kind in zip(value.members, t, strict=True)]
            return Typed(t, tuple(p for member in parts for p in member.parts))
        if t == BOOL:
            return self.truth(value)
        (part,) = value.parts
        if t == FLOAT:
            return Typed(FLOAT, ((self.builder.uitofp if value.type == BOOL else self.builder.sitofp)(part, llvm(FLOAT)),))
        if t == INT:
            return Typed(INT, ((self.builder.zext if value.type == BOOL else self.builder.fptosi)(part, llvm(INT)),))
        raise Untranslatable(f"{value.type} as {t}")

    def truth(self, value: Typed) -> Typed:
        return value if value.type == BOOL else self.compare("NotEq", value, Typed(INT, (llvm(INT)(0),)))

    def compare(self, operator: str, a: Typed, b: Typed) -> Typed:
        t = joint(joint(a.type, b.type), INT)
        x, y = (self.cast(v, t).parts[0] for v in (a, b))
        if t == INT:
            return Typed(BOOL, (self.builder.icmp_signed(_ORDER[operator], x, y),))
        how = self.builder.fcmp_unordered if operator == "NotEq" else self.builder.fcmp_ordered  # only != holds for NaN
        return Typed(BOOL, (how(_ORDER[operator], x, y),))

    def binary(self, operator: str, a: Typed, b: Typed) -> Typed:
        if operator in _BITWISE:
            t = joint(a.type, b.type)
            return Typed(t, (getattr(self.builder, _BITWISE[operator])(*(self.cast(v, t).parts[0] for v in (a, b))),))
        t = FLOAT if operator == "Div" else joint(joint(a.type, b.type), INT)
        x, y = (self.cast(v, t).parts[0] for v in (a, b))
        if operator in _ARITHMETIC:
            whole, floating = _ARITHMETIC[operator]
            if t == INT:
                return Typed(INT, (getattr(self.builder, whole)(x, y, flags=("nsw",)),))
            return Typed(FLOAT, (getattr(self.builder, floating)(x, y),))
        if operator == "Div":
            return Typed(FLOAT, (self.builder.fdiv(x, y),))
        if operator == "Mod":
            return self._remainder(t, x, y)
        if operator == "FloorDiv" and t == INT:
            rest = self._remainder(INT, x, y).parts[0]
            return Typed(INT, (self.builder.sdiv(self.builder.sub(x, rest), y),))
        raise Untranslatable(f"{operator} of {a.type} and {b.type}")

    def _remainder(self, t: str, x: Any, y: Any) -> Typed:
        """of the sign of the divisor"""
        b, zero = self.builder, llvm(t)(0)
        rest = b.srem(x, y) if t == INT else b.frem(x, y)
        opposite = b.xor(
            self.compare("Lt", Typed(t, (rest,)), Typed(t, (zero,))).parts[0],
            self.compare("Lt", Typed(t, (y,)), Typed(t, (zero,))).parts[0],
        )
        differs = b.and_(opposite, self.compare("NotEq", Typed(t, (rest,)), Typed(t, (zero,))).parts[0])
        return Typed(t, (b.select(differs, b.add(rest, y) if t == INT else b.fadd(rest, y), rest),))

    def negative(self, value: Typed) -> Typed:
        if value.type == FLOAT:
            return Typed(FLOAT, (self.builder.fneg(value.parts[0]),))
        return Typed(INT, (self.builder.neg(self.cast(value, INT).parts[0]),))

    def power(self, base: Typed, k: int) -> Typed:
        """base^k for k >= 1"""
        if k == 1:
            return base
        half = self.power(base, k // 2)
        square = self.binary("Mult", half, half)
        return self.binary("Mult", square, base) if k % 2 else square

    def size(self, value: Typed) -> Typed:
        if value.type == FLOAT:
            return self.intrinsic("fabs", value)
        x = self.cast(value, INT)
        return self.select(self.compare("Lt", x, Typed(INT, (llvm(INT)(0),))), self.negative(x), x)

    def select(self, condition: Typed, a: Typed, b: Typed) -> Typed:
        t = joint(a.type, b.type)
        parts = zip(self.cast(a, t).parts, self.cast(b, t).parts, strict=True)
        return Typed(t, tuple(self.builder.select(condition.parts[0], x, y) for x, y in parts))

    def intrinsic(self, name: str, *values: Typed) -> Typed:
        """An LLVM function of doubles."""
        double = ir.DoubleType()
        f = self.builder.module.declare_intrinsic(f"llvm.{name}", [double], ir.FunctionType(double, [double] * len(values)))
        return Typed(FLOAT, (self.builder.call(f, [self.cast(v, FLOAT).parts[0] for v in values]),))

    def rounded(self, name: str, value: Typed) -> Typed:
        """The floor or ceiling as a whole number."""
        return self.cast(self.intrinsic(name, value), INT)

    def place(self, array: Typed, indices: list[Typed]) -> Any:
        """The address of an element, or of the first of those with these leading indices."""
        start, lengths = array.parts[0], array.parts[1:]
        at = indices[0].parts[0]
        for index, length in zip(indices[1:], lengths[1:], strict=False):
            at = self.builder.add(self.builder.mul(at, length, flags=("nsw",)), index.parts[0], flags=("nsw",))
        for length in lengths[len(indices) :]:
            at = self.builder.mul(at, length, flags=("nsw",))
        return self.builder.gep(start, [at], inbounds=True)
