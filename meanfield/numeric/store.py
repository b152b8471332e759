"""Generated source as files one can read: named by content, importable, cached where numba can cache beside them."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import math
import os
import sys
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from meanfield.gaussian import quadrature
from meanfield.numeric import elementary, lookup, primitives, tracing
from meanfield.numeric.fingerprint import fingerprint

__all__ = ["compiled", "execute", "folder", "interpreted", "is_kept", "keep", "kept", "ready"]

#: how everything is compiled: infinities and NaN keep their meaning
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
#: how recursions in closed form are: every operation as it stands, so that a block of points has the bits of a single one
EXACT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
#: functions that only compiled code calls need no way in from Python
INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: functions of recursions that are called where no loop over points waits for them
APART = ("sweep", "keep", "keep_back", "copy", "load", "begin", "attend", "attend_back", "code", *(f.__name__ for f in lookup.FUNCTIONS))


def folder() -> Path:
    """Where generated kernels live: $MEANFIELD_CACHE_DIR, else the user's cache folder."""
    override = os.environ.get("MEANFIELD_CACHE_DIR")
    if override:
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("meanfield", appauthor=False) / "kernels"


def _places() -> tuple[Path, Path]:
    """where kernels are kept, and where if that cannot be written to"""
    return folder(), Path(tempfile.gettempdir()) / f"meanfield-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


def _stem(text: str) -> str:
    return f"kernel_{fingerprint(text)}"


def _write(text: str) -> Path:
    """The file of that text: written once, whole or not at all, and rewritten where its content is not the text."""
    for place in _places():
        path = place / f"{_stem(text)}.py"
        try:
            if path.exists() and path.read_bytes() == text.encode():
                return path
            _put(path, text.encode())
            return path
        except OSError:
            continue
    raise OSError(f"no folder to keep generated kernels in: set MEANFIELD_CACHE_DIR to a writable one ({folder()} is not)")


def kept(name: str) -> bytes | None:
    """What was kept under that name, None where there is nothing or it is damaged."""
    for place in _places():
        try:
            content = (place / f"{name}.bin").read_bytes()
        except OSError:
            continue
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return content[32:]
    return None


def keep(name: str, content: bytes) -> None:
    """Keep that under a name, whole or not at all."""
    for place in _places():
        try:
            _put(place / f"{name}.bin", hashlib.sha256(content).digest() + content)
            return
        except OSError:
            continue


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    os.replace(temporary, path)


def _load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba's cache finds the globals of a cached function by this name
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=512)
def interpreted(text: str) -> ModuleType:
    """The generated functions as plain Python, where what overflows is infinite as in compiled code."""
    path = _write(text)
    module = _load(path, f"meanfield_{path.stem}")
    unbounded = {f.__name__: _extended(f, OverflowError, math.inf) for f in (math.exp, math.expm1, math.cosh)}
    logarithm = _extended(math.log, ValueError, math.nan)
    unbounded["log"] = lambda z: logarithm(z) if z else -math.inf
    vars(module)["math"] = SimpleNamespace(**(vars(math) | unbounded))
    vars(module)["summed"] = lookup.summed_at_once
    vars(module)["workspace"] = lambda size: [0.0] * size  # plain floats, faster one by one than an array
    return module


def _extended(f: Callable[[float], float], error: type[Exception], instead: float) -> Callable[[float], float]:
    def value(z: float) -> float:
        try:
            return f(z)
        except error:
            return instead

    return value


@lru_cache(maxsize=1)
def _functions() -> ModuleType:
    """`math` for compiled recursions: its elementary functions as vector code"""
    module = ModuleType("math")
    vars(module).update({name: f for name, f in vars(math).items() if not name.startswith("_")})
    vars(module).update({f.__name__: tracing.intrinsic_of(f) for f in elementary.FUNCTIONS})
    return module


@lru_cache(maxsize=1)
def _rules() -> dict[str, FunctionType]:
    """The node rules of quadrature compiled, once for all kernels; their machine code is cached in the same folder."""
    import numba

    path = _write(inspect.getsource(quadrature))
    module = _load(path, f"meanfield_rules_{path.stem}")
    for f in quadrature.RULES:
        setattr(module, f.__name__, numba.njit(cache=True, **INNER, **OPTIONS)(getattr(module, f.__name__)))
    return {f.__name__: getattr(module, f.__name__) for f in quadrature.RULES}


@lru_cache(maxsize=512)
def compiled(text: str, entry: str) -> FunctionType:
    """The function `entry` of the generated source, compiled; its machine code is cached beside the file."""
    import numba

    path = _write(text)
    module = _load(path, f"meanfield_compiled_{path.stem}")
    functions = {name: f for name, f in vars(module).items() if isinstance(f, FunctionType)}
    shared = {name for name, f in functions.items() if f.__module__ == quadrature.__name__}
    options, inner = OPTIONS, INNER
    if vars(module).get("math") is elementary:
        vars(module)["math"] = _functions()
        for name in functions.keys() & vars(_functions()).keys():
            setattr(module, name, getattr(_functions(), name))
            del functions[name]
        if not shared:
            options, inner = EXACT, INNER | {"forceinline": True}
    for name, f in functions.items():
        how = {"cache": True} if name == entry else INNER if name in (*primitives.NEEDS, *APART) else inner
        setattr(module, name, _rules()[name] if name in shared else numba.njit(**how, **options)(f))
    function: FunctionType = getattr(module, entry)
    return function


def is_kept(text: str, entry: str) -> bool:
    """Whether machine code of the function is on disk."""
    return any(any((place / "__pycache__").glob(f"{_stem(text)}.{entry}-*.nbi")) for place in _places())


def ready(text: str, entry: str, arguments: tuple[Any, ...]) -> FunctionType:
    """The compiled function after a first call; machine code of an earlier run that cannot be read is thrown away."""
    try:
        compiled(text, entry)(*arguments)
    except Exception:
        path = _write(text)
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.{entry}-*"):
            stale.unlink(missing_ok=True)
        compiled.cache_clear()
        compiled(text, entry)(*arguments)
    return compiled(text, entry)


def execute(text: str, entry: str, arguments: tuple[Any, ...], small: bool) -> None:
    """Call a generated function that fills its last arguments: a small job as plain Python, any other compiled."""
    if small:
        try:
            with np.errstate(all="ignore"):
                getattr(interpreted(text), entry)(*arguments)
            return
        except (ZeroDivisionError, OverflowError, ValueError):
            pass  # the interpreter raises where compiled code returns inf or nan
    ready(text, entry, arguments)
