"""What every test shares: where kernels are kept, which doctests need an extra, and a guard against work before a refusal.

Kernels go where the library keeps them (MEANFIELD_CACHE_DIR, else the user's cache folder), so that a second run compiles nothing;
`--fresh-kernels` gives the run an empty folder of its own.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sympy.core.cache import clear_cache

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fresh-kernels", action="store_true", help="compile every kernel anew, in a temporary folder")


#: objects made between two collections of rubbish, and collections between two of older objects: with Python's 700, 10, 10 a file of
#: growth laws spends 1.7 of its 30 s on looking through expressions that are all in use, and a process that holds many more of them more
SELDOM = 20_000, 20, 50


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(*SELDOM)
    if config.getoption("--fresh-kernels"):
        config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="meanfield-kernels-")
        os.environ["MEANFIELD_CACHE_DIR"] = config.stash[_FOLDER].name
    if importlib.util.find_spec("torch") is None:
        # the doctests of the torch twin run where torch is, in .ci/run
        config.option.ignore = [*(config.option.ignore or []), str(ROOT / "meanfield" / "reference")]


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_FOLDER, None)
    if folder is not None:
        folder.cleanup()


_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory]()


class WorkStarted(BaseException):
    """Not an Exception: nothing that a refusal is caught by may swallow it."""


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would generate, load or compile a kernel, or start a derivation for numbers, is an error."""
    from meanfield.numeric import job, launch, programs, store, ways

    def started(*args: object, **kwargs: object) -> None:
        raise WorkStarted("a kernel was asked for before the arguments were checked")

    for module in (launch, programs):
        monkeypatch.setattr(module, "execute", started)
    for module in (job, ways):
        monkeypatch.setattr(module, "kernel_of", started)
    monkeypatch.setattr(launch, "compiled", started)
    monkeypatch.setattr(store, "_write", started)


def clear_caches() -> None:
    """Forget every derivation and every generated kernel of this process."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "meanfield":
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    clear_cache()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT is a KeyboardInterrupt, whatever the tests were started by, and none is lost: one that arrives while rubbish is collected
    is raised in the first Python code after that, where Hypothesis counts the time it took, and nothing can be raised out of there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No cached derivation, neither before nor after, and nothing of another process nor for one."""
    from meanfield import activation
    from meanfield.blocks import descriptions
    from meanfield.numeric import increments, trajectory, zero_parameters

    for module in (activation, descriptions, increments, trajectory, zero_parameters):
        monkeypatch.setattr(module, "remembered", lambda description, make: make())
    clear_caches()
    yield
    clear_caches()


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a copy of the package: a process keeps nothing while somebody edits the sources that it has imported"""
    import meanfield

    folder = tmp_path_factory.mktemp("sources")
    shutil.copytree(Path(meanfield.__file__).parent, folder / "meanfield", ignore=shutil.ignore_patterns("__pycache__"))
    return folder
