"""Machine code of translated functions: optimised for this processor, as bytes that can be kept, and called from Python."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from threading import Lock
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import binding

from meanfield.numeric.compilation.instructions import FEATURES, planted
from meanfield.numeric.compilation.operations import BOOL, FLOAT, INT, Array, Type
from meanfield.numeric.compilation.shared import Shared
from meanfield.numeric.compilation.translation import ENTRY, translated

__all__ = ["Draft", "assembled", "drafted", "flushes", "loaded", "processor", "types_of"]

_COUNT = count()
_LOCK = Lock()  # LLVM and the builders of its code are for one thread at a time
if hasattr(os, "register_at_fork"):  # and what it is in the middle of would not go on in a process that forks off
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
_C = {FLOAT: ctypes.c_double, INT: ctypes.c_int64, BOOL: ctypes.c_bool}
_ITEMS = {np.dtype(np.float64): FLOAT, np.dtype(np.int64): INT}
_START = ctypes.c_char * 0
_array = cache(Array)
#: functions of the C library that code may call
_MATH = "exp expm1 log log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc tgamma lgamma hypot fmod"
_MEMORY = "malloc free memset memcpy memmove"
#: what processors have whose clock does not slow down for vectors of 512 bits, as that of the first did
WIDE = "+avx512vbmi2"


def types_of(arguments: tuple[Any, ...]) -> tuple[Type, ...]:
    """The types of numbers and arrays; arrays must be of doubles or 64-bit whole numbers, in C order."""
    return tuple(map(_type_of, arguments))


def _type_of(a: Any) -> Type:
    if not isinstance(a, np.ndarray):
        return FLOAT if isinstance(a, float) else BOOL if isinstance(a, bool) else INT
    item = _ITEMS.get(a.dtype)
    if item is None or not a.flags.c_contiguous:
        raise TypeError(f"an array of {a.dtype}, strides {a.strides}: compiled code takes float64 and int64 in C order")
    return _array(item, a.ndim)


def _address(a: np.ndarray) -> int:
    """where an array begins, in a third of the time that numpy takes to say it if it can be written to"""
    return ctypes.addressof(_START.from_buffer(a.data)) if a.flags.writeable else a.ctypes.data


@cache
def processor() -> tuple[str, str, str]:
    """What code is made for: the kind of machine, its processor and what that can do."""
    return binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def flushes() -> bool:
    """Whether what underflows in compiled recursions is 0."""
    return processor()[0].startswith("x86_64")


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(processor()[0])


def _machine(vectors: bool) -> Any:
    """a machine whose code has its constants beside it, and vectors as long as they can be, or neither: faster for vectors, and for a point
    that waits for itself and looks its numbers up"""
    _, name, features = processor()
    places = {"codemodel": "small", "reloc": "pic"} if vectors else {}
    if vectors and WIDE in features.split(","):
        features += ",-prefer-256-bit"
    return _target().create_target_machine(name, features, opt=3, jit=True, **places)


@cache
def _linker() -> Any:
    """what puts object code into memory, all of a piece"""
    return binding.create_lljit_compiler(_machine(vectors=True), use_jit_link=True)


@cache
def _addresses() -> dict[str, int]:
    """of the functions of the C library"""
    library = ctypes.CDLL(None) if sys.platform != "win32" else ctypes.cdll.msvcrt
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in f"{_MATH} {_MEMORY}".split()}


@dataclass(frozen=True)
class Draft:
    """A function as LLVM reads it, for arguments of certain types; whether it takes vectors, all passes go over it, it is of a single
    point."""

    text: str
    vectors: bool
    thorough: bool
    alone: bool


def drafted(function: FunctionType, types: tuple[Type, ...], thorough: bool) -> Draft:
    """The draft of a function for arguments of those types: the part of the work that Python does."""
    triple, _, features = processor()
    with _LOCK:
        lanes = function.__globals__.get("LANES", 0)  # of recursions
        fused = "+fma" in features.split(",") or triple.startswith(("aarch64", "arm64"))
        alone = thorough and lanes == 1
        shared = Shared(fused, thorough, lanes > 1, alone, set(features.split(",")) >= FEATURES)
        flushed = thorough and lanes > 0 and flushes()
        return Draft(translated(function, types, shared, flushed), lanes > 1, thorough, alone)


def assembled(draft: Draft) -> bytes:
    """The object code of a draft: the part of the work that LLVM does, for which threads of Python need not wait."""
    with _LOCK:
        return _optimised(draft)  # what that takes is given back before another may begin, or fork


def _optimised(draft: Draft) -> bytes:
    machine = _machine(draft.vectors)
    optimised = binding.parse_assembly(draft.text)
    optimised.triple = processor()[0]
    optimised.data_layout = str(machine.target_data)
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.loop_unrolling = True
    tuning.slp_vectorization = not draft.alone  # pairs of numbers wait for each other
    passes = binding.create_pass_builder(machine, tuning)
    (passes.getModulePassManager() if draft.thorough else _few()).run(optimised, passes)
    planted(optimised, passes)
    code: bytes = machine.emit_object(optimised)
    return code


def _few() -> Any:
    """the passes that count most, in a tenth of the time: variables in registers, and no steps that do nothing; quadrature, which is long
    and asked for a few times, takes 7 to 13 % longer for that, closed forms of maps and grids no longer"""
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


def _linked(code: bytes) -> Any:
    library = binding.JITLibraryBuilder().add_object_img(code).export_symbol(ENTRY)
    for name, place in _addresses().items():
        library.import_symbol(name, place)
    return library.link(_linker(), f"code_{next(_COUNT)}")


def loaded(code: bytes, types: tuple[Type, ...]) -> Callable[..., Callable[..., None]]:
    """Object code as a function of Python that releases the interpreter's lock while it runs: given its last arguments, which are looked at
    but once, it is a function of those before them."""
    with _LOCK:
        linked = _linked(code)
    kinds: list[list[Any]] = [[ctypes.c_void_p, *[ctypes.c_int64] * t.rank] if isinstance(t, Array) else [_C[t]] for t in types]
    run = ctypes.CFUNCTYPE(None, *chain(*kinds))(linked[ENTRY])

    def given(*last: Any) -> Callable[..., None]:
        passed: list[Any] = []
        for a, kind in zip(last, kinds[len(kinds) - len(last) :], strict=True):
            parts = (_address(a), *a.shape) if isinstance(a, np.ndarray) else (a,)
            passed += [c(part) for c, part in zip(kind, parts, strict=True)]

        def call(*first: Any) -> None:
            run(*first, *passed)

        call.alive = linked, last  # type: ignore[attr-defined]  # as long as this is
        return call

    return given
