"""What a process finds of a network is there for the next one: of the library's own blocks, never of what a user may have changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sympy as sp
from conftest import clear_caches

import meanfield as mf
from meanfield import keeping
from meanfield.blocks import algebra


class Doubling(mf.Block):
    """A user's own: its gain may be another one tomorrow."""

    gain = 2

    def law(self, signal: mf.Signal) -> mf.Law:
        return mf.Law(signal.times(sp.sqrt(self.gain)), self.gain * sp.eye(2), sp.Integer(self.gain))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    clear_caches()
    yield tmp_path
    clear_caches()


def transformer() -> mf.Block:
    return mf.pre_norm(norm=mf.DyT(), attention=mf.Attention(), mlp=mf.MLP(mf.silu))


def test_a_network_that_was_described_before_needs_no_laws(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mf.recursion(transformer())
    clear_caches()
    with monkeypatch.context() as patch:
        patch.setattr(algebra, "_made", lambda *arguments: pytest.fail("a law was made again"))
        again = mf.recursion(transformer())
        assert (again.parameters, again.name) == (first.parameters, first.name)
        assert [s.assumptions0 for s in again.parameters] == [s.assumptions0 for s in first.parameters]
    assert [str(s.law.output.q) for s in again.stages] == [str(s.law.output.q) for s in first.stages]


def test_networks_that_differ_have_names_of_their_own(folder: Path) -> None:
    half = sp.Rational(1, 2)
    nets = [
        mf.mlp(mf.tanh),
        mf.mlp(mf.erf),
        mf.mlp(mf.Activation(sp.tanh(mf.x) * half)),
        mf.mlp(mf.tanh) >> mf.Scale(half),
        mf.mlp(mf.tanh) >> mf.Scale(sp.Symbol("half", positive=True)),
        mf.mlp(mf.tanh) >> mf.Scale(sp.Symbol("half", real=True)),
        mf.Repeat(mf.mlp(mf.tanh), 2),
        mf.Repeat(mf.mlp(mf.tanh), 3),
    ]
    found = [mf.recursion(net) for net in nets]
    assert len({rec.name for rec in found}) == len(nets)


def test_what_is_refused_is_refused_again(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="insert a Linear"):
            mf.Activate(mf.tanh) >> mf.Activate(mf.tanh)
        with pytest.raises(ValueError, match="insert a Linear"):
            mf.recursion(mf.Activate(mf.tanh))  # whose next repeat is one
        with pytest.raises(ValueError, match="is a function of"):
            mf.Activation(sp.Integer(2))
        clear_caches()


def test_the_law_of_a_block_of_ones_own_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mf.recursion(mf.Linear(1, 0) >> Doubling()).q == 2 * mf.q
    monkeypatch.setattr(Doubling, "gain", 3)
    clear_caches()
    assert mf.recursion(mf.Linear(1, 0) >> Doubling()).q == 3 * mf.q


def test_a_function_of_ones_own_is_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """its name says nothing of what it is"""
    kept: list[str] = []
    monkeypatch.setattr(keeping, "keep", lambda name, content: kept.append(name))
    own = type("tanh", (sp.tanh,), {})
    assert mf.Activation(own(mf.x)).expression == own(mf.x)
    assert not kept
    assert mf.Activation(sp.tanh(mf.x)).expression == sp.tanh(mf.x)
    assert kept


def test_dummies_are_told_apart(folder: Path) -> None:
    """their numbers are another process's others"""
    gain = sp.Dummy("gain", positive=True)
    assert mf.recursion(mf.Linear(gain, 0)).parameters == (gain,)
    assert not list(folder.glob("made_*.bin"))
