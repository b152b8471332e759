"""Expressions of generated source as LLVM code."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np
from llvmlite import ir

from meanfield.numeric import elementary
from meanfield.numeric.compilation import routines
from meanfield.numeric.compilation.choices import foresee
from meanfield.numeric.compilation.operations import BOOL, FLOAT, INT, Array, Code, Type, Typed, Untranslatable, flat, joint, llvm
from meanfield.numeric.compilation.shared import Shared

__all__ = ["Expressions"]

#: bytes that arrays begin at multiples of: a vector register, and a line of the cache
ALIGNED = 64
#: functions of `math` that are one operation of the processor, those that count, and what C calls others
_INTRINSIC, _COUNTING = ("sqrt", "fabs", "copysign"), ("floor", "ceil")
_LIBRARY = {"gamma": "tgamma"}
#: what takes the place of functions of `math` and of primitives
_ELEMENTARY = {f.__name__: f for f in elementary.FUNCTIONS}


class Expressions(ABC):
    """The values of expressions at the end of the code of a function."""

    shared: Shared
    source: Any  # a function of Python
    function: ir.Function
    entry: ir.IRBuilder  # before all else
    builder: ir.IRBuilder
    code: Code
    variables: dict[str, tuple[Type, tuple[Any, ...]]]
    made: list[Any]  # where pointers to arrays of its own are

    @abstractmethod
    def called(self, function: FunctionType, given: list[Typed]) -> Typed:
        """What another function of the source returns."""

    def go(self, block: Any) -> None:
        """On to another block, unless the way there has ended."""
        if not self.builder.block.is_terminated:
            self.builder.branch(block)

    def refuse(self, node: ast.AST) -> NoReturn:
        """Say what is not translated."""
        raise Untranslatable(f"{self.source.__module__}.{self.source.__name__}: {ast.unparse(node)!r} is not translated")

    def value(self, node: ast.expr) -> Typed:
        """What an expression is."""
        match node:
            case ast.Constant(value=value):
                return self.shared.constant(value)
            case ast.Name(id=name):
                return self._named(name)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Tuple(elts=elements):
                found = [self.value(e) for e in elements]
                return Typed(tuple(v.type for v in found), tuple(p for v in found for p in v.parts))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(left, right)
            case ast.BinOp(left=left, op=operator, right=right):
                return self.code.binary(type(operator).__name__, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.code.negative(self.value(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Typed(BOOL, (self.builder.not_(self.truth(operand)),))
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp(op=operator, values=values):
                return self._either(isinstance(operator, ast.And), values)
            case ast.IfExp():
                return self._choice(node)
            case ast.Subscript():
                return self._element(node)
            case ast.Call():
                return self._call(node)
            case _:
                return self.refuse(node)

    def truth(self, node: ast.expr) -> Any:
        """Whether it is neither 0 nor False."""
        return self.code.truth(self.value(node)).parts[0]

    def _named(self, name: str) -> Typed:
        if name in self.variables:
            t, places = self.variables[name]
            return Typed(t, tuple(self.builder.load(place) for place in places))
        if name not in self.source.__globals__:
            raise Untranslatable(f"{self.source.__name__}: {name} has no value yet")
        return self.shared.constant(self.source.__globals__[name])

    def _attribute(self, node: ast.Attribute) -> Typed:
        owner = self._module(node.value)
        if owner is not None:
            return self.shared.constant(getattr(math if owner is elementary else owner, node.attr))
        array = self.value(node.value)
        lengths = [Typed(INT, (n,)) for n in array.parts[1:]]
        if node.attr == "shape":
            return Typed((INT,) * len(lengths), array.parts[1:])
        if node.attr != "size":
            self.refuse(node)
        total = lengths[0]
        for n in lengths[1:]:
            total = self.code.binary("Mult", total, n)
        return total

    def _module(self, node: ast.expr) -> ModuleType | None:
        found = self.source.__globals__.get(node.id) if isinstance(node, ast.Name) and node.id not in self.variables else None
        return found if isinstance(found, ModuleType) else None

    def _power(self, left: ast.expr, right: ast.expr) -> Typed:
        base = self.value(left)
        if isinstance(right, ast.Constant) and isinstance(right.value, int) and right.value > 0:
            return self.code.power(base, right.value)
        return self._library("pow", [base, self.value(right)])

    def _library(self, name: str, values: list[Typed]) -> Typed:
        f = self.shared.library(_LIBRARY.get(name, name), len(values))
        return Typed(FLOAT, (self.builder.call(f, [self.code.cast(v, FLOAT).parts[0] for v in values]),))

    def _compare(self, node: ast.Compare) -> Typed:
        values = [self.value(v) for v in (node.left, *node.comparators)]
        holds = [self.code.compare(type(how).__name__, a, b) for how, a, b in zip(node.ops, values, values[1:], strict=False)]
        result = holds[0]
        for other in holds[1:]:
            result = self.code.binary("BitAnd", result, other)
        return result

    def _either(self, both: bool, values: list[ast.expr]) -> Typed:
        """and, or: what comes later is not asked where the first decide"""
        after, out = self.function.append_basic_block(), []
        for value in values[:-1]:
            holds, following = self.truth(value), self.function.append_basic_block()
            out.append((self.builder.block, llvm(BOOL)(0 if both else 1)))
            self.builder.cbranch(holds, *((following, after) if both else (after, following)))
            self.builder.position_at_end(following)
        last = self.truth(values[-1])
        out.append((self.builder.block, last))
        self.go(after)
        self.builder.position_at_end(after)
        found = self.builder.phi(llvm(BOOL))
        for block, value in out:
            found.add_incoming(value, block)
        return Typed(BOOL, (found,))

    def _choice(self, node: ast.IfExp) -> Typed:
        then, otherwise, after = (self.function.append_basic_block() for _ in range(3))
        way = self.builder.cbranch(self.truth(node.test), then, otherwise)
        if self.shared.alone:
            foresee(way)
        found = []
        for block, expression in ((then, node.body), (otherwise, node.orelse)):
            self.builder.position_at_end(block)
            found.append((self.value(expression), self.builder.block))
        t = joint(found[0][0].type, found[1][0].type)
        ends = []
        for value, block in found:
            self.builder.position_at_end(block)
            ends.append((self.code.cast(value, t), block))
            self.go(after)
        self.builder.position_at_end(after)
        phis = [self.builder.phi(part) for part in flat(t)]
        for value, block in ends:
            for phi, part in zip(phis, value.parts, strict=True):
                phi.add_incoming(part, block)
        return Typed(t, tuple(phis))

    # -- arrays -----------------------------------------------------------------------------------------------------------
    def indices(self, node: ast.expr, array: Typed) -> list[Typed]:
        """The places along the leading axes of an array."""
        given = node.elts if isinstance(node, ast.Tuple) else [node]
        return [self._index(index, Typed(INT, (n,))) for index, n in zip(given, array.parts[1:], strict=False)]

    def _index(self, node: ast.expr, length: Typed) -> Typed:
        at = self.value(node)
        if at.type != INT:
            self.refuse(node)
        return self.code.binary("Add", at, length) if isinstance(node, ast.UnaryOp) else at  # a[-1]

    def _element(self, node: ast.Subscript) -> Typed:
        array = self.value(node.value)
        if isinstance(array.type, tuple):
            return array.members[int(ast.literal_eval(node.slice))]
        given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(given[-1], ast.Slice):
            return self._slice(given, array)
        start = self.code.place(array, self.indices(node.slice, array))
        left = array.parts[1 + len(given) :]
        if left:
            return Typed(Array(array.type.item, len(left)), (start, *left))
        return Typed(array.type.item, (self.builder.load(start),))

    def _slice(self, given: list[ast.expr], array: Typed) -> Typed:
        """a run of elements of a row"""
        cut, length = given[-1], Typed(INT, (array.parts[-1],))
        if not isinstance(cut, ast.Slice) or cut.step is not None or len(given) != array.type.rank:
            self.refuse(given[-1])
        zero = self.shared.constant(0)
        low = zero if cut.lower is None else self._index(cut.lower, length)
        high = length if cut.upper is None else self._index(cut.upper, length)
        leading = [self._index(index, Typed(INT, (n,))) for index, n in zip(given[:-1], array.parts[1:], strict=False)]
        start = self.code.place(array, [*leading, low])
        return Typed(Array(array.type.item, 1), (start, *self.code.binary("Sub", high, low).parts))

    def _array(self, item: str, length: Typed) -> Typed:
        """a new row, which ends when the function does"""
        place = self.entry.alloca(ir.IntType(8).as_pointer())
        self.entry.store(ir.Constant(ir.IntType(8).as_pointer(), None), place)
        self.made.append(place)
        self.builder.call(self.shared.memory("free"), [self.builder.load(place)])
        size = self.builder.add(self.builder.mul(length.parts[0], llvm(INT)(8)), llvm(INT)(ALIGNED))
        found = self.builder.call(self.shared.memory("malloc"), [size])
        self.builder.store(found, place)
        address = self.builder.and_(self.builder.add(self.builder.ptrtoint(found, llvm(INT)), llvm(INT)(ALIGNED - 1)), llvm(INT)(-ALIGNED))
        skipped = self.builder.sub(address, self.builder.ptrtoint(found, llvm(INT)))
        start = self.builder.bitcast(self.builder.gep(found, [skipped], inbounds=True), llvm(item).as_pointer())
        return Typed(Array(item, 1), (start, length.parts[0]))

    # -- calls ------------------------------------------------------------------------------------------------------------
    def _call(self, node: ast.Call) -> Typed:
        if isinstance(node.func, ast.Attribute):
            owner, name = self._module(node.func.value), node.func.attr
            if owner is None:
                return self.routine("sum_of", self.value(node.func.value)) if name == "sum" else self.refuse(node)
            given = [self.value(a) for a in node.args]
            return self._numpy(node, given) if owner is np else self._math(owner, name, given)
        assert isinstance(node.func, ast.Name)
        name, given = node.func.id, [self.value(a) for a in node.args]
        if name == "workspace":
            return self._array(FLOAT, given[0]) if given[0].type == INT else self.refuse(node)
        if name in _ELEMENTARY and self.source.__globals__.get("math") is elementary:
            return self._math(elementary, name, given)
        function = self.source.__globals__.get(name)
        return self._builtin(name, given, node) if function is None else self.called(function, given)

    def routine(self, name: str, *given: Typed) -> Typed:
        """What one of the functions returns that take the place of numpy's."""
        return self.called(getattr(routines, name), list(given))

    def _builtin(self, name: str, given: list[Typed], node: ast.Call) -> Typed:
        if name in ("min", "max"):
            values = given[0].members if len(given) == 1 else given
            result = values[0]
            for other in values[1:]:  # the first of equal ones, and of NaN
                result = self.code.select(self.code.compare("Lt" if name == "min" else "Gt", other, result), other, result)
            return result
        if name == "abs":
            return self.code.size(given[0])
        if name in (FLOAT, INT, BOOL):
            return self.code.cast(given[0], name)
        return self.refuse(node)

    def _math(self, owner: ModuleType, name: str, given: list[Typed]) -> Typed:
        if name in _INTRINSIC:
            return self.code.intrinsic(name, *given)
        if name in _COUNTING:
            return self.code.rounded(name, given[0])
        if name == "isnan":
            return self.code.compare("NotEq", given[0], given[0])
        own = _ELEMENTARY.get(name) if owner is elementary else None
        if own is None:
            return self._library(name, given)
        values = [self.code.cast(v, FLOAT).parts[0] for v in given]
        return Typed(FLOAT, (self.builder.call(self.shared.elementary(own), values),))

    def _numpy(self, node: ast.Call, given: list[Typed]) -> Typed:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in ("empty", "zeros", "full") and given[0].type != INT:
            self.refuse(node)  # of more than one axis
        if name == "empty":
            return self._array(FLOAT, given[0])
        if name in ("zeros", "full"):
            made = self._array(FLOAT, given[0])
            self.routine("fill", made, self.code.cast(given[1], FLOAT) if name == "full" else self.shared.constant(0.0))
            return made
        if name == "searchsorted":
            return self.routine(name, *given)
        if name == "argsort":
            made = self._array(INT, Typed(INT, (given[0].parts[1],)))
            self.routine(name, given[0], made)
            return made
        return self.refuse(node)
