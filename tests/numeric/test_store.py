"""Where generated kernels are kept: in the user's cache folder, whole or not at all, and never trusted."""

from __future__ import annotations

import math
import os
import py_compile
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from conftest import clear_caches

import meanfield as mf
from meanfield import fingerprint, keeping
from meanfield.gaussian import periods, waves
from meanfield.numeric import elementary, integrands, store, threads, trajectory, work

x = mf.x
WAVES = (x * sp.tanh(x) + sp.sin(3 * x), sp.sin(x) * sp.cos(sp.sqrt(2) * x), sp.sin(x) * sp.gamma(x**2 + 1))
RUN = """
import numpy as np, meanfield as mf
print(*mf.propagate(mf.mlp(mf.relu), 8, 1.0, c=0.5, sigma_w=np.linspace(1, 1.4, 9), sigma_b=0, record="last").q[:, 0])
"""


def printed(folder: Path, sources: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "MEANFIELD_CACHE_DIR": str(folder), "PYTHONPATH": str(sources)}
    command, pipe = [sys.executable, "-W", "error", "-c", RUN], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=sources)


def test_two_processes_and_damage(tmp_path: Path, untouched: Path) -> None:
    """two that write at once find the same; so does one that finds their files cut short"""
    both = [printed(tmp_path, untouched), printed(tmp_path, untouched)]
    first, second = (p.communicate() for p in both)
    assert [p.returncode for p in both] == [0, 0], first[1] + second[1]
    assert first[0] == second[0] != ""
    assert not list(tmp_path.rglob("*.tmp"))
    kept = [f for f in tmp_path.iterdir() if f.is_file()]
    # what the function is and its derivative, that two blocks make sense, what the laws are called, the kernel, machine code and that there
    # is some, bytecode, source
    assert sorted(f.suffix for f in kept) == [*[".bin"] * 9, ".py"]
    for f in kept:
        f.write_bytes(f.read_bytes()[: f.stat().st_size // 2] if f.suffix != ".py" else b"\xff\x00 broken")
    third = printed(tmp_path, untouched)
    out, error = third.communicate()
    assert third.returncode == 0, error
    assert out == first[0]


def test_a_file_that_is_not_the_text_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    path = store._write("x = 1\n")
    for damage in (b"", b"x = 2\n", b"\xff\xfe\x00"):
        path.write_bytes(damage)
        assert store._write("x = 1\n") == path
        assert path.read_bytes() == b"x = 1\n"


def test_what_stale_bytecode_python_would_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """of a file of the same size and date, as of a damaged one that was put right within a second"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    text = "x = 1\n"
    path = store._write(text)
    py_compile.compile(str(path))
    path.write_text("x = 2\n")
    os.utime(path, (1e9, 1e9))
    stale = py_compile.compile(str(path))
    path.write_text(text)
    os.utime(path, (1e9, 1e9))
    assert stale is not None
    assert store.loaded(text, "compiled").x == 1


def test_sources_that_are_edited_under_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """it neither reads what the new ones make nor leaves what its old ones do, and does not generate from a mixture"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    name = fingerprint.makers()
    fingerprint.makers.cache_clear()
    keeping.keep("before", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(mf, "imported", 0.0)
        assert fingerprint.makers() != name
        keeping.keep("after", b"1")
        with pytest.raises(RuntimeError, match=r"elementary\.py was edited .* start the process again"):
            fingerprint.source_of(elementary)
        assert fingerprint.source_of(store.loaded("x = 1\n", "compiled")) == "x = 1\n"
    fingerprint.makers.cache_clear()
    assert (keeping.kept("before"), keeping.kept("after")) == (b"1", None)
    assert fingerprint.makers() == name


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kernels then go to the temporary folder; where that fails too nothing is written and a name is all there is"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path / "closed"))
    right = tempfile.mkstemp

    def refuse(**where: Any) -> tuple[int, str]:
        if "closed" in str(where["dir"]) or blocked:
            raise PermissionError(13, "Permission denied")
        return right(**where)

    blocked = False
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    path = store._write(f"x = {os.getpid()}\n")
    assert tmp_path not in path.parents
    path.unlink()
    blocked = True
    path = store._write("x = 3\n")
    assert path.parent == keeping.folder()
    assert not path.exists()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEANFIELD_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    if sys.platform.startswith("linux"):
        assert keeping.folder() == Path("/somewhere/meanfield/kernels")


def test_one_kernel_for_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """compiled once for each structure: other values, starts and depths bring no new source"""
    written: list[str] = []
    right = store._write
    monkeypatch.setattr(store, "_write", lambda text: written.append(text) or right(text))
    store.interpreted.cache_clear()
    net = mf.mlp(mf.erf)
    for w, depth in ((1.1, 3), (1.7, 5), (np.pi, 8)):
        mf.propagate(net, depth, 0.3 * depth, c=0.1 * depth, sigma_w=w, sigma_b=0.1)
    assert len(set(written)) == 1


def test_kernels_are_kept_by_what_the_laws_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """no lowering in a later process, unless what was kept is damaged or the sources have changed"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    rec = mf.recursion(mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    trajectory.kernel_of.cache_clear()
    others = set(tmp_path.glob("made_*.bin"))
    first = trajectory.kernel_of(rec, True)
    monkeypatch.setattr(trajectory, "_made", lambda *arguments: pytest.fail("lowered again"))
    trajectory.kernel_of.cache_clear()
    assert trajectory.kernel_of(rec, True) == first
    (kept,) = {*tmp_path.glob("made_*.bin")} - others
    kept.write_bytes(kept.read_bytes()[:-1])
    trajectory.kernel_of.cache_clear()
    with pytest.raises(pytest.fail.Exception, match="lowered again"):
        trajectory.kernel_of(rec, True)
    trajectory.kernel_of.cache_clear()


def test_a_file_under_the_name_of_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """intact as it is, it is not what the name says, and is made anew: what was remembered, a table, bytecode, machine code"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))

    def numbers() -> list[Any]:
        clear_caches()
        rows = [mf.propagate(mf.mlp(phi), 3, 1.0, c=0.5, sigma_w=np.linspace(1, 2, 9), sigma_b=0.1) for phi in (mf.gelu, mf.tanh)]
        return [a.tolist() for run in rows for a in (run.q, run.gap, run.log_apjn)]

    right = numbers()
    kinds = [sorted(tmp_path.glob(pattern)) for pattern in ("table_*", "made_*", "kernel_*.bin")]
    for files in kinds:
        contents = [f.read_bytes() for f in files]
        assert len(files) > 1
        for f, content in zip(files, contents[1:] + contents[:1], strict=True):
            f.write_bytes(content)
            assert keeping.kept(f.stem) is None
    assert numbers() == right
    assert all(keeping.kept(f.stem) is not None for files in (kinds[0], kinds[-1]) for f in files)


@pytest.mark.parametrize("f", WAVES, ids=str)
def test_how_a_function_oscillates_is_found_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, f: sp.Expr) -> None:
    """or that it is not known"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    found = periods.wave.__wrapped__(f)
    first = integrands.waving_row.__wrapped__(f, found)
    phases = (periods.PHASES[0], sp.Dummy("z", real=True))  # as another process has them
    monkeypatch.setattr(periods, "PHASES", phases)
    monkeypatch.setattr(waves, "wave_row", lambda *what: pytest.fail("sought again"))
    other = periods.wave.__wrapped__(f)
    assert len(found.periods) == 1 or other != found
    again = integrands.waving_row.__wrapped__(f, other)
    assert (first is None) == f.has(sp.gamma)
    assert np.array_equal(first, again)


def test_whether_machine_code_is_kept_is_known_by_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """the folder may hold thousands of files: it is not searched"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "glob", lambda self, pattern: pytest.fail(f"searched for {pattern}"))
    text = "def fill(out):\n    for i in range(out.size):\n        out[i] = 2.0 * i\n"
    out = np.empty(3)
    assert not store.is_kept(text, "fill")
    store.compiled(text, "fill")(out)
    assert out.tolist() == [0.0, 2.0, 4.0]
    assert store.is_kept(text, "fill")
    store.compiled.cache_clear()
    assert store.is_kept(text, "fill")  # as a later process finds it


def test_tables_of_the_analysis_are_named_by_their_own_sources() -> None:
    """a table whose layout has changed is not read as one of the layout before"""
    made = {f.relative_to(fingerprint._PACKAGE).as_posix() for f in fingerprint._sources()}
    assert {"analysis/tables.py", "analysis/maps.py", "numeric/lowering.py", "gaussian/panels.py"} <= made


def test_a_job_that_is_longer_than_it_seemed_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """a bump of width 1/14 nine deviations out takes 400,000 values, where an activation takes some thousands; the numbers are those of
    plain Python to the end"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    bump = mf.Activation(sp.exp(-100 * (mf.x - 9) ** 2) * mf.tanh.expression).kernel(mf.q, mf.p)
    values: list[float] = []
    counted = store._Budget.counted

    def recorded(self: Any, integrand: Any) -> Any:
        return counted(self, lambda *at: values.append(0.0) or integrand(*at))

    monkeypatch.setattr(store._Budget, "counted", recorded)
    first, second = (mf.evaluate(bump, q=1.0, p=0.3) for _ in range(2))
    assert len(values) == store.MOST  # it gave up once, and knew it the second time
    monkeypatch.setattr(work, "PATIENCE", math.inf)
    monkeypatch.setattr(store, "MOST", math.inf)
    store.interpreted.cache_clear()
    assert first == second == pytest.approx(mf.evaluate(bump, q=1.0, p=0.3), rel=1e-13, abs=0)
    assert len(values) > 600_000


def test_integrands_with_parameters_and_of_waves_are_counted() -> None:
    shifted = mf.Activation(sp.tanh(mf.x + sp.Symbol("a", real=True)))
    run = mf.propagate(mf.Linear() >> mf.Activate(shifted), 2, 1.0, p=0.3, a=0.3, sigma_w=1, sigma_b=0.1)
    assert run.status == "ok"
    wave = mf.Activation(sp.sin(5 * mf.x) * mf.tanh.expression)
    one, many = mf.evaluate(wave.kernel(mf.q, mf.p), q=1.0, p=0.3), mf.evaluate(wave.kernel(mf.q, mf.p), q=[1.0, 1.5], p=0.3)
    assert one == pytest.approx(many[0], rel=1e-12)


def test_a_write_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(here: str, there: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keeping.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        keeping.put(tmp_path / "kept.bin", b"content")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_does_not_wait_for_what_hears_none() -> None:
    """LLVM, on a thread of `aside` or in a part of `share`"""
    go, halted = threading.Event(), []
    try:
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt), threads.aside(lambda: go.wait(20)):
            raise KeyboardInterrupt
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            threads.share(lambda part: go.wait(20), range(3), "parts", lambda: halted.append(True))
        assert time.monotonic() - begun < 5
        assert halted == [True]
    finally:
        go.set()


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="processes do not fork here")
def test_locks_that_others_hold_are_free_in_a_process_that_forks_off() -> None:
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with store._MAKING:
            held.set()
            go.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if not child:
        os._exit(0 if store._MAKING.acquire(timeout=5) else 1)
    go.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
