r"""The generated source of a recursion as a CUDA kernel, one thread for each point of a grid, with the arithmetic of the processor.

The functions of the kernel for one point become device functions as they stand, `math` the same traced functions. A product is rounded
before it is added wherever the text does not say `fma`: the device's compiler would fuse what it finds, and a difference may be meant to
vanish. A minimum with NaN is what it is on the processor: the device's library would pass over NaN. What remains is IEEE arithmetic in the
same order on both sides, but for library functions that are not traced (sin, gamma, powers), reciprocals and inverse roots, which a
processor may begin with a guess, and exponentials, for which it may have a table: one with fused multiply-add has the same bits otherwise.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import sys
from collections.abc import Callable
from functools import lru_cache, reduce
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from meanfield.fingerprint import fingerprint
from meanfield.numeric import elementary, tracing
from meanfield.numeric.store import interpreted, loaded
from meanfield.numeric.tracing import Value
from meanfield.numeric.trajectory import Kernel

__all__ = ["Program", "numba_cuda", "program_of", "simulated", "source_of"]

_POINTS = '''

def points({given}, w, starts{tables}):
    """The repeats in marks of one point for each thread. halt[0] > 0 ends it."""
    g = cuda.grid(1)
    if g < q0.shape[0]:
        s = cuda.local.array(SIZE, np.float64)
        scratch = cuda.local.array(SCRATCH, np.float64)
        for k in range(SCRATCH):
            scratch[k] = -1.0
        through(g, g + 1, {given}, s, w[:, g], starts[:, g], scratch{tables})


from numba import cuda
'''

#: functions of LLVM that the device's compiler has in a library
_LIBRARY = {"llvm.fabs": "__nv_fabs", "llvm.copysign": "__nv_copysign"}


class Program:
    """A kernel for the device and the sizes of its workspaces: of a point, first and for each layer of a segment, and for each segment."""

    def __init__(self, module: ModuleType) -> None:
        self.points: Any = module.points
        self.before: int = module.FIRST_KEPT
        self.kept: int = module.KEPT
        self.state: int = module.STATE


def numba_cuda() -> Any:
    """`numba.cuda` as numba-cuda brings it, on first use."""
    return importlib.import_module("numba.cuda")


def simulated() -> bool:
    """Whether numba runs kernels in the interpreter, as NUMBA_ENABLE_CUDASIM=1 makes it."""
    return bool(numba_cuda().config.ENABLE_CUDASIM)


@lru_cache(maxsize=256)
def program_of(kernel: Kernel) -> Program:
    """The kernel for the device, compiled when it is first launched."""
    return Program(_simulation(kernel) if simulated() else _device(kernel))


def source_of(text: str) -> str:
    """Source of a kernel of one point at a time with `points`, which runs one on each thread."""
    through = next(f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef) and f.name == "through")
    names = [a.arg for a in through.args.args]
    given, tables = names[names.index("last") + 1 : names.index("s")], names[names.index("scratch") + 1 :]
    put = {"given": ", ".join(given), "tables": "".join(f", {t}" for t in tables)}
    return text + _POINTS.format(**put)


def _device(kernel: Kernel) -> ModuleType:
    """the module whose functions are the device's"""
    cuda = numba_cuda()
    module, functions = loaded(_rounded(source_of(kernel.threaded)), "device"), _functions()
    vars(module)["math"] = functions
    for name, f in [item for item in vars(module).items() if isinstance(item[1], FunctionType) and item[0] != "points"]:
        setattr(module, name, getattr(functions, name, None) or cuda.jit(device=True)(f))
    vars(module)["points"] = _global(cuda, vars(module)["points"])
    return module


def _global(cuda: ModuleType, f: FunctionType) -> Any:
    """the kernel of a function, which numba keeps beside its file unless that cannot be"""
    try:
        return cuda.jit(cache=True, lto=False)(f)
    except RuntimeError:
        return cuda.jit(lto=False)(f)


@lru_cache(maxsize=1)
def _functions() -> ModuleType:
    """`math` on the device: the elementary functions of the processor's kernels, and what `_rounded` puts in the place of operators"""
    intrinsic, inline = importlib.import_module("numba.cuda.extending").intrinsic, numba_cuda().jit(device=True, forceinline=True)
    module = ModuleType("math")
    vars(module).update({name: f for name, f in vars(math).items() if not name.startswith("_")})
    vars(module).update({f.__name__: intrinsic(_traced(f)) for f in elementary.FUNCTIONS})
    vars(module).update(product=intrinsic(_product), min=inline(_min), max=inline(_max))
    return module


def _simulation(kernel: Kernel) -> ModuleType:
    """the module as plain Python, where every number is numpy's, which knows infinity and NaN"""
    module = loaded(source_of(kernel.interpreted), "simulated")
    plain = vars(vars(interpreted(kernel.interpreted))["math"])
    vars(module)["math"] = SimpleNamespace(**{name: _wrapped(f) if callable(f) else f for name, f in plain.items()})
    vars(module)["float"] = np.float64
    vars(module)["points"] = numba_cuda().jit(vars(module)["points"])
    return module


def _wrapped(f: Any) -> Any:
    return lambda *values: np.float64(f(*values))


def _traced(function: Callable[..., Value]) -> Callable[..., Any]:
    """the function of doubles as numba's compiler asks for it"""
    from numba import types

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return function(*(Value(_Builder(builder), a, True) for a in args)).value

    def one(typing: Any, a: Any) -> Any:
        return types.float64(types.float64), code

    def two(typing: Any, a: Any, b: Any) -> Any:
        return types.float64(types.float64, types.float64), code

    def three(typing: Any, a: Any, b: Any, c: Any) -> Any:
        return types.float64(types.float64, types.float64, types.float64), code

    return (one, two, three)[len(inspect.signature(function).parameters) - 1]


class _Builder:
    """Writes code as LLVM's builder does, but in what NVVM takes, and with products that are not fused into sums."""

    def __init__(self, builder: Any) -> None:
        self.builder, self.module = builder, self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.builder, name)

    def fmul(self, a: Any, b: Any) -> Any:
        return self.builder.call(_external(self.builder, "__nv_dmul_rn", 2), [a, b])

    def fneg(self, a: Any) -> Any:
        return self.builder.fsub(a.type(-0.0), a)

    def declare_intrinsic(self, name: str, types: Any, kind: Any) -> Any:
        if name in _LIBRARY:
            return _external(self.builder, _LIBRARY[name], len(kind.args))
        return self.builder.module.declare_intrinsic(name, types, kind)


def _external(builder: Any, name: str, count: int) -> Any:
    """the function of doubles of the device's library"""
    from llvmlite import ir

    declared = builder.module.globals
    return declared.get(name) or ir.Function(builder.module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * count), name)


def _product(typing: Any, a: Any, b: Any) -> Any:
    """a b, rounded where it is a double"""
    from numba import types

    kind = types.float64 if types.float64 in (a, b) else types.int64

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, y = args
        return builder.mul(x, y) if kind == types.int64 else builder.call(_external(builder, "__nv_dmul_rn", 2), [x, y])

    return kind(kind, kind), code


def _min(a: float, b: float) -> float:
    return b if b < a else a


def _max(a: float, b: float) -> float:
    return b if b > a else a


def _rounded(text: str) -> str:
    """the source with products, minima and maxima of its functions as calls of `math`, and arrays as the own of a thread"""
    tree = ast.parse(text)
    for f in tree.body:
        if isinstance(f, ast.FunctionDef):
            f.body = [_Rounding().visit(line) for line in f.body]
    return f"{ast.unparse(ast.fix_missing_locations(tree))}  # {_makers()}\n"


@lru_cache(maxsize=1)
def _makers() -> str:
    """what makes the rest of a kernel's code, which numba keeps by the text"""
    return fingerprint("".join(map(inspect.getsource, (elementary, tracing, sys.modules[__name__]))))


class _Rounding(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _called("product", node.left, node.right) if isinstance(node.op, ast.Mult) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.func) == "np.empty":
            return ast.parse(f"cuda.local.array({ast.unparse(node.args[0])}, np.float64)", mode="eval").body
        if not isinstance(node.func, ast.Name) or node.func.id not in ("min", "max"):
            return node
        name = node.func.id
        return reduce(lambda a, b: _called(name, a, b), node.args)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mult):
            return node
        before = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.Assign([node.target], _called("product", before, node.value))


def _called(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name("math", ast.Load()), name, ast.Load()), [*arguments], [])
