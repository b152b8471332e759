r"""Generated source as LLVM code: functions of doubles, whole numbers, truth values and arrays of these, as Python means them.

What is understood is what generated text and the quadrature rules are written in: assignments, `if`, `while`, `for` over `range` or a
tuple, calls of each other, `math`, and of numpy `empty`, `zeros`, `full`, `searchsorted` and `argsort`. A function is translated for the
types it is called with; a variable that holds whole numbers and doubles is a double. Indices are not checked. Arrays that a function
makes end with it.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from types import FunctionType
from typing import Any

from llvmlite import ir

from meanfield.fingerprint import source_of
from meanfield.numeric.compilation.choices import RARE, REPEATED, foreseen
from meanfield.numeric.compilation.expressions import Expressions
from meanfield.numeric.compilation.operations import BOOL, FLOAT, INT, Code, Type, Typed, flat, joint, llvm
from meanfield.numeric.compilation.shared import Shared
from meanfield.numeric.compilation.underflow import flushing
from meanfield.numeric.uncollected import uncollected

__all__ = ["ENTRY", "translated"]

ENTRY = "entry"
_TYPES: dict[str, Type] = {"float": FLOAT, "int": INT, "bool": BOOL}


@uncollected()
def translated(function: FunctionType, types: tuple[Type, ...], shared: Shared, flushed: bool) -> str:
    """Source of the module whose one function, ENTRY, calls that one for arguments of those types, arrays as a pointer and their lengths;
    what underflows is 0 if `flushed`."""
    found, _ = _function(shared, function, types)
    entry = ir.Function(shared.module, ir.FunctionType(ir.VoidType(), found.function_type.args), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block())
    call = flushing if flushed else ir.IRBuilder.call
    call(builder, found, entry.args)
    builder.ret_void()
    if shared.alone:
        foreseen(shared.module)
    return shared.text


def _function(shared: Shared, f: FunctionType, types: tuple[Type, ...]) -> tuple[ir.Function, Type]:
    """the translation of a function for those types, and the type of what it returns"""
    if (f, types) not in shared.functions:
        wider: dict[str, Type] = {}
        while True:
            body = _Body(shared, f, types, wider)
            try:
                body.write()
            except _Wider:
                del shared.module.globals[body.function.name]
                continue
            shared.functions[f, types] = body.function, body.result
            break
    return shared.functions[f, types]


class _Wider(Exception):
    """A variable, or what a function returns, holds more than it seemed at first: the function is translated again."""


@cache
def _definitions(module: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(source_of(sys.modules[module]))
    return {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}


def _promised(f: ast.FunctionDef) -> Type:
    """what a function most likely returns: a double, or as many as it lists, if it says nothing else"""
    if isinstance(f.returns, ast.Name) and f.returns.id in _TYPES:
        return _TYPES[f.returns.id]
    for line in ast.walk(f):
        if isinstance(line, ast.Return) and line.value is not None:
            return (FLOAT,) * len(line.value.elts) if isinstance(line.value, ast.Tuple) else FLOAT
    return ()


class _Body(Expressions):
    """The code of one function for one choice of types."""

    def __init__(self, shared: Shared, source: FunctionType, types: tuple[Type, ...], wider: dict[str, Type]) -> None:
        self.shared, self.source, self.wider = shared, source, wider
        self.tree = _definitions(source.__module__)[source.__name__]
        self.types, self.result = types, wider.get("return", _promised(self.tree))
        self.returned: Type | None = wider.get("return")
        parts = flat(self.result)
        returned = parts[0] if len(parts) == 1 else ir.LiteralStructType(parts) if parts else ir.VoidType()
        kind = ir.FunctionType(returned, [part for t in types for part in flat(t)])
        self.function = ir.Function(shared.module, kind, shared.module.get_unique_name(f"{source.__name__}."))
        self.function.linkage = "internal"
        self.function.attributes.add("nounwind")
        self.entry = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.builder = ir.IRBuilder(self.function.append_basic_block("start"))
        self.exit = self.function.append_basic_block("exit")
        self.code = Code(self.builder)
        self.variables = {}
        self.made = []
        self.places = [self.entry.alloca(part) for part in parts]
        self.loops: list[tuple[Any, Any]] = []  # where continue and break go

    def write(self) -> None:
        """The code of the body."""
        start, arguments = self.builder.block, iter(self.function.args)
        for argument, t in zip(self.tree.args.args, self.types, strict=True):
            self._put(argument.arg, Typed(t, tuple(next(arguments) for _ in flat(t))))
        self._block(self.tree.body)
        self.go(self.exit)
        self.entry.branch(start)
        end = ir.IRBuilder(self.exit)
        for place in self.made:
            end.call(self.shared.memory("free"), [end.load(place)])
        values = [end.load(place) for place in self.places]
        if not values:
            end.ret_void()
        elif len(values) == 1:
            end.ret(values[0])
        else:
            whole = ir.Constant(self.function.function_type.return_type, ir.Undefined)
            for k, value in enumerate(values):
                whole = end.insert_value(whole, value, k)
            end.ret(whole)
        if self.shared.alone and self.source.__name__ in RARE:
            self.function.attributes.add("cold")
            self.function.attributes.add("noinline")
        elif self.shared.alone and self.source.__name__ in REPEATED:
            self.function.attributes.add("noinline")
        elif self.shared.thorough and not self.made and not any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(self.tree)):
            self.function.attributes.add("alwaysinline")  # a loop over points calls it, and is to become vector code

    def called(self, function: FunctionType, given: list[Typed]) -> Typed:
        found, t = _function(self.shared, function, tuple(v.type for v in given))
        result = self.builder.call(found, [p for v in given for p in v.parts])
        size = len(flat(t))
        return Typed(t, (result,) if size == 1 else tuple(self.builder.extract_value(result, k) for k in range(size)))

    # -- assignments ------------------------------------------------------------------------------------------------------
    def _put(self, name: str, value: Typed) -> None:
        if name not in self.variables:
            t = self.wider.get(name, value.type)
            self.variables[name] = t, tuple(self.entry.alloca(part, name=name) for part in flat(t))
        t, places = self.variables[name]
        if joint(t, value.type) != t:
            self.wider[name] = joint(t, value.type)
            raise _Wider
        self._store(value, t, places)

    def _store(self, value: Typed, t: Type, places: Any) -> None:
        for place, part in zip(places, self.code.cast(value, t).parts, strict=True):
            self.builder.store(part, place)

    def _set(self, target: ast.expr, value: Typed) -> None:
        if isinstance(target, ast.Name):
            self._put(target.id, value)
        elif isinstance(target, ast.Tuple):
            for part, member in zip(target.elts, value.members, strict=True):
                self._set(part, member)
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
            self.routine("fill", self.value(target), self.code.cast(value, FLOAT))
        elif isinstance(target, ast.Subscript):
            array = self.value(target.value)
            self._store(value, array.type.item, [self.code.place(array, self.indices(target.slice, array))])
        else:
            self.refuse(target)

    def _assign(self, line: ast.Assign) -> None:
        value = self.value(line.value)
        for target in line.targets:
            self._set(target, value)

    def _augassign(self, line: ast.AugAssign) -> None:
        self._set(line.target, self.code.binary(type(line.op).__name__, self.value(line.target), self.value(line.value)))

    # -- where to go ------------------------------------------------------------------------------------------------------
    def _block(self, lines: list[ast.stmt]) -> None:
        for line in lines:
            if self.builder.block.is_terminated:
                return
            write = getattr(self, f"_{type(line).__name__.lower()}", self.refuse)
            write(line)

    def _pass(self, line: ast.Pass) -> None:
        """nothing"""

    def _expr(self, line: ast.Expr) -> None:
        if not isinstance(line.value, ast.Constant):
            self.value(line.value)

    def _return(self, line: ast.Return) -> None:
        value = Typed((), ()) if line.value is None else self.value(line.value)
        self.returned = value.type if self.returned is None else joint(self.returned, value.type)
        if self.returned != self.result:
            self.wider["return"] = self.returned
            raise _Wider
        self._store(value, self.result, self.places)
        self.go(self.exit)

    def _if(self, line: ast.If) -> None:
        then, otherwise, after = (self.function.append_basic_block() for _ in range(3))
        self.builder.cbranch(self.truth(line.test), then, otherwise)
        for block, lines in ((then, line.body), (otherwise, line.orelse)):
            self.builder.position_at_end(block)
            self._block(lines)
            self.go(after)
        self.builder.position_at_end(after)

    def _while(self, line: ast.While) -> None:
        test, body, after = (self.function.append_basic_block() for _ in range(3))
        self.go(test)
        self.builder.position_at_end(test)
        self.builder.cbranch(self.truth(line.test), body, after)
        self.builder.position_at_end(body)
        self._inside(line.body, test, after)
        self.builder.position_at_end(after)

    def _inside(self, lines: list[ast.stmt], again: Any, after: Any) -> None:
        """the body of a loop"""
        self.loops.append((again, after))
        self._block(lines)
        self.loops.pop()
        self.go(again)

    def _continue(self, line: ast.Continue) -> None:
        self.go(self.loops[-1][0])

    def _break(self, line: ast.Break) -> None:
        self.go(self.loops[-1][1])

    def _for(self, line: ast.For) -> None:
        after = self.function.append_basic_block()
        if isinstance(line.iter, ast.Tuple):
            for each in line.iter.elts:
                following = self.function.append_basic_block()
                self._set(line.target, self.value(each))
                self._inside(line.body, following, after)
                self.builder.position_at_end(following)
            self.go(after)
        else:
            self._count(line, after)
        self.builder.position_at_end(after)

    def _count(self, line: ast.For, after: Any) -> None:
        """over a range"""
        if not (isinstance(line.iter, ast.Call) and isinstance(line.iter.func, ast.Name) and line.iter.func.id == "range"):
            self.refuse(line.iter)
        given = [self.code.cast(self.value(a), INT) for a in line.iter.args]
        first = given[0] if len(given) > 1 else self.shared.constant(0)
        last = given[1] if len(given) > 1 else given[0]
        step = given[2] if len(given) > 2 else self.shared.constant(1)
        down = len(given) > 2 and isinstance(line.iter.args[2], ast.UnaryOp)
        counter = self.entry.alloca(llvm(INT))
        self._store(first, INT, [counter])
        test, body, increment = (self.function.append_basic_block() for _ in range(3))
        self.go(test)
        self.builder.position_at_end(test)
        at = Typed(INT, (self.builder.load(counter),))
        self.builder.cbranch(self.code.compare("Gt" if down else "Lt", at, last).parts[0], body, after)
        self.builder.position_at_end(increment)
        self.builder.store(self.builder.add(self.builder.load(counter), step.parts[0], flags=("nsw",)), counter)
        again = self.builder.branch(test)
        if self.shared.blocks:
            again.set_metadata("llvm.loop", self.shared.loop())
        self.builder.position_at_end(body)
        self._set(line.target, at)
        self._inside(line.body, increment, after)
