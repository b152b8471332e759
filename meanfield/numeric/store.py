"""Generated source as files one can read: named by content, importable, run as plain Python or as machine code that is kept beside."""

from __future__ import annotations

import importlib.util
import marshal
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib.abc import InspectLoader
from pathlib import Path
from threading import RLock, local
from types import CodeType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.fingerprint import fingerprint, makers
from meanfield.keeping import folder, keep, kept, places, put
from meanfield.numeric import plain_lookup
from meanfield.numeric.threads import aside, processors, renewed_by_forks

if TYPE_CHECKING:
    from meanfield.numeric.compilation.machine import Draft

__all__ = ["Compiled", "compiled", "execute", "interpreted", "is_kept"]

#: values of integrands after which plain Python gives up: 0.3 to 1.5 s, as long as a compiler takes; estimates are of usual shapes
MOST = 200_000
_INTEGRAND = re.compile(r"[fr]_\d+")
_MAKING = RLock()  # threads come together, each with a part of a job: the first of them compiles it, and what it needs for that


def _renew() -> None:
    global _MAKING
    _MAKING = RLock()


renewed_by_forks(_renew)


def _stem(text: str) -> str:
    return f"kernel_{fingerprint(text)}"


def _write(text: str) -> Path:
    """The file of that text: written once, whole or not at all, and rewritten where its content is not the text. Where nothing can be
    written it is the name alone, and each process makes its kernels anew."""
    for place in places():
        path = place / f"{_stem(text)}.py"
        try:
            if path.exists() and path.read_bytes() == text.encode():
                return path
            put(path, text.encode())
            return path
        except OSError:
            continue
    return folder() / f"{_stem(text)}.py"


def loaded(text: str, purpose: str) -> ModuleType:
    """The generated source as a module of its own."""
    path = _write(text)
    loader = _Generated(text, path)
    spec = importlib.util.spec_from_loader(f"meanfield_{purpose}_{path.stem}", loader, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    loader.exec_module(module)
    return module


class _Generated(InspectLoader):
    """Loads the text itself: what Python keeps beside a file is of whatever had its size and date."""

    def __init__(self, text: str, path: Path) -> None:
        self.text, self.path = text, path

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_code(self, fullname: str) -> CodeType:
        name = f"{_stem(self.text)}-{importlib.util.MAGIC_NUMBER.hex()}"
        if (found := kept(name)) is not None:
            earlier: CodeType = marshal.loads(found)
            if earlier.co_filename == str(self.path):
                return earlier
        code = compile(self.text, self.path, "exec", dont_inherit=True)
        keep(name, marshal.dumps(code))
        return code


@lru_cache(maxsize=512)
def interpreted(text: str) -> ModuleType:
    """The generated functions as plain Python, where what overflows is infinite as in compiled code."""
    module = loaded(text, "interpreted")
    unbounded = {f.__name__: _extended(f, OverflowError, math.inf) for f in (math.exp, math.expm1, math.cosh)}
    logarithm = _extended(math.log, ValueError, math.nan)
    unbounded["log"] = lambda z: logarithm(z) if z else -math.inf
    vars(module)["math"] = SimpleNamespace(**(vars(math) | unbounded))
    vars(module).update(plain_lookup.AT_ONCE)
    vars(module)["workspace"] = lambda size: [0.0] * size  # plain floats, faster one by one than an array
    budget = _Budget()
    vars(module).update({name: budget.counted(f) for name, f in vars(module).items() if _INTEGRAND.fullmatch(name)})
    vars(module)["budget"] = budget
    return module


class _Impatient(Exception):
    """A job is longer than plain Python is for."""


class _Budget(local):
    """How many values of integrands a thread may still take from a module, and the functions of it that once took too many."""

    def __init__(self) -> None:
        self.left = math.inf
        self.exceeded: set[str] = set()

    def counted(self, integrand: Callable[..., float]) -> Callable[..., float]:
        def value(*at: float) -> float:
            self.left -= 1
            if self.left < 0:
                raise _Impatient
            return integrand(*at)

        return value

    @contextmanager
    def of(self, entry: str) -> Iterator[None]:
        """MOST values and no more, for a function of the module; none for one that once took more."""
        if entry in self.exceeded:
            raise _Impatient
        self.left = MOST
        try:
            yield
        except _Impatient:
            self.exceeded.add(entry)
            raise
        finally:
            self.left = math.inf


def _extended(f: Callable[[float], float], error: type[Exception], instead: float) -> Callable[[float], float]:
    def value(z: float) -> float:
        try:
            return f(z)
        except error:
            return instead

    return value


class Compiled:
    """A function of generated source as machine code, made for the types of its arguments when these first come; kept beside the text."""

    def __init__(self, text: str, entry: str) -> None:
        self._text, self._entry = text, entry
        self._forms: dict[tuple[Any, ...], Callable[..., Callable[..., None]]] = {}

    def __call__(self, *arguments: Any) -> None:
        self.form(arguments)()

    def form(self, arguments: tuple[Any, ...], free: int = 0) -> Callable[..., None]:
        """The machine code for arguments of those types, as a function of the first of them that are `free`: the others are passed on."""
        from meanfield.numeric.compilation import machine

        types = machine.types_of(arguments)
        if types not in self._forms:
            with _MAKING:
                if types not in self._forms:
                    self._forms[types] = machine.loaded(kept(self._name(types)) or self._made(types), types)
        return self._forms[types](*arguments[free:])

    @contextmanager
    def meanwhile(self, arguments: tuple[Any, ...]) -> Iterator[None]:
        """LLVM makes the machine code for arguments of those types, where there is none, beside what is done meanwhile."""
        from meanfield.numeric.compilation import machine

        types = machine.types_of(arguments)
        if types in self._forms or kept(self._name(types)) is not None or processors() == 1:
            yield
            return
        with ExitStack() as held:
            held.enter_context(_MAKING)
            if types in self._forms:  # by another thread
                held.close()
                yield
                return
            draft = self._draft(types)
            with aside(lambda: machine.assembled(draft)) as code:
                yield
                self._forms[types] = machine.loaded(self._keep(types, code.result()), types)

    def _made(self, types: tuple[Any, ...]) -> bytes:
        from meanfield.numeric.compilation import machine

        draft = self._draft(types)
        with aside(lambda: machine.assembled(draft)) as code:
            return self._keep(types, code.result())

    def _name(self, types: tuple[Any, ...]) -> str:
        from meanfield.numeric.compilation import machine

        return f"{_mark(self._text, self._entry)}-{fingerprint(repr((types, machine.processor())))}"

    def _draft(self, types: tuple[Any, ...]) -> Draft:
        from meanfield.gaussian import quadrature
        from meanfield.numeric import elementary
        from meanfield.numeric.compilation import machine

        module = loaded(self._text, "compiled")
        rules = {rule.__name__ for rule in quadrature.RULES}
        shared = any(getattr(f, "__module__", None) in rules for f in vars(module).values())
        thorough = not shared and vars(module).get("math") is elementary  # a block of points has the bits of a single one
        return machine.drafted(getattr(module, self._entry), types, thorough)

    def _keep(self, types: tuple[Any, ...], code: bytes) -> bytes:
        keep(self._name(types), code)
        keep(_mark(self._text, self._entry), b"")
        return code


@lru_cache(maxsize=512)
def compiled(text: str, entry: str) -> Compiled:
    """The function `entry` of the generated source, compiled: it fills arrays that it is given."""
    return Compiled(text, entry)


def _mark(text: str, entry: str) -> str:
    """what is kept where there is machine code, whatever its types: no folder is searched for it"""
    return f"{_stem(text)}-{entry}-{makers()}"


def is_kept(text: str, entry: str) -> bool:
    """Whether machine code of the function is on disk."""
    return kept(_mark(text, entry)) is not None


def execute(text: str, entry: str, arguments: tuple[Any, ...], small: bool) -> None:
    """Call a generated function that fills its last arguments: a small job as plain Python, any other compiled, and one that turns out to
    be long."""
    if small:
        module = interpreted(text)
        try:
            with np.errstate(all="ignore"), module.budget.of(entry):
                getattr(module, entry)(*arguments)
            return
        except (ZeroDivisionError, OverflowError, ValueError, _Impatient):
            pass  # the interpreter raises where compiled code returns inf or nan, and gives up on what is long
    compiled(text, entry)(*arguments)
