"""`mf.report`: what an article holds, and that it compiles."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import dataclass, replace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.reporting.naming import shortened
from meanfield.reporting.network_text import structure
from meanfield.reporting.patience import OutOfTime, within
from meanfield.reporting.printer import printed


@dataclass(frozen=True)
class My_Block(mf.Block):  # noqa: N801  # as some are called
    """Scales by σ² → ∞, a “gain” of 100 % – for all n ≥ 2; n⁻¹ φ′ ϕ ϵ § 3 ½ µ ħ ą þ ϛ é 𝔼 ᵦ ~ ^ łódź.

    Not in the article.
    """

    gain: sp.Expr

    def law(self, x):
        s = self.gain**2
        return mf.Law(replace(x, q=s * x.q, delta=s * x.delta), transfer=s * sp.eye(2), chi=s)


@dataclass(frozen=True)
class ΣÜBlock(My_Block):
    """Of another alphabet."""


VIT = {f"sigma_{k}": 0.64 for k in "QKVO1"} | {"sigma_2": 1.28}
ARTICLES = {
    "mlp": (mf.mlp(mf.gelu), {"depth": 20, "c": 0.5, "sigma_w": 1.4, "sigma_b": 0.4}),
    "Derf": (
        mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)),
        {"depth": 8, "p": 0.4, "n": 197, "alpha": [0.5, 1.1], **VIT, "patience": 0.5},
    ),
    "DyT": (
        mf.pre_norm(norm=mf.DyT(0.5), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.gelu), scale=1 / mf.L),
        {"patience": 0.5},
    ),
    "DeepNorm": (mf.deep_norm(attention=mf.Attention(average=mf.Quenched()), mlp=mf.SwiGLU()), {"patience": 0.5}),
    "GAU": (mf.GAU(mf.relu), {"patience": 0.5}),
    "uniform": (mf.Residual(mf.UniformAttention(4)), {"patience": 0.5}),
    "mask": (
        mf.Residual(mf.CausalAttention(n=4, sigma_Q=1, sigma_K=2, frequencies=(1,))),
        {"depth": 2, "p": 0.4, "sigma_V": 1, "sigma_O": 1},
    ),
    "GEGLU": (mf.pre_norm(norm=mf.RMSNorm(), attention=mf.UniformAttention(), mlp=mf.GEGLU()), {"patience": 0.5}),
    "Derf and GELU": (mf.Residual(mf.Derf() >> mf.MLP(mf.gelu, 0.64, 1.28)), {}),
    "piecewise": (
        mf.deep_norm(attention=mf.UniformAttention(), mlp=mf.MLP(mf.Activation(sp.Piecewise((mf.x**2, mf.x > 0), (mf.x / 5, True))))),
        {"patience": 0.5},
    ),
    "masks": (
        mf.post_norm(norm=mf.RMSNorm(), attention=mf.MaskedAttention(sp.exp(-abs(mf.i - mf.j)), sigma_Q=1), mlp=mf.MLP(mf.elu(0.3)))
        >> mf.Residual(mf.CausalAttention(sigma_Q=0.64)),
        {},
    ),
    "a user's": (
        mf.Linear(sp.Symbol("σ_1", positive=True), sp.Symbol("größe", positive=True))
        >> My_Block(sp.Symbol("a%b#c&d$e", positive=True))
        >> ΣÜBlock(sp.Symbol("größe_σ", positive=True))
        >> mf.Activate(mf.Activation(sp.tanh(sp.Symbol("λ", positive=True) * mf.x))),
        {"patience": 0.5},
    ),
    "negative": (
        mf.Residual(
            My_Block(sp.Symbol("a_b")) >> mf.TokenMixing(4, -1, 1, -sp.Rational(1, 2)) >> mf.Linear(1, 0), scale=-sp.Rational(1, 3)
        ),
        {"patience": 0.5},
    ),
    "causal": (
        mf.Residual(mf.CausalAttention()) >> mf.Residual(mf.MLP(mf.relu)),
        {"depth": 2, "p": 0.4, "n": 3, "sigma_V": 1, "sigma_O": 1, "sigma_1": 1, "sigma_2": 1},
    ),
}


@pytest.fixture(scope="module")
def articles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("articles")
    return {name: mf.report(net, folder / f"{name}.tex", **values) for name, (net, values) in ARTICLES.items()}


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("name", ARTICLES)
def test_compiles(articles, name):
    source = articles[name]
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, timeout=120, check=False)
    log = source.with_suffix(".log").read_text(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert "Overfull" not in log
    assert "undefined" not in log
    assert "Warning" not in log
    assert "Missing character" not in log


def test_sections(articles):
    text = articles["mlp"].read_text()
    titles = re.findall(r"\\section\*\{(.*?)\}", text)
    assert titles == [
        "Network", "Recursion", "Transfer and gradients", "Gaussian expectations", "Growth with depth", "Numbers",
        "Appendix: derivations", "References",
    ]  # fmt: skip
    assert r"\newcommand" not in text
    assert "Certificate holds: $\\partial C/\\partial p" in text
    assert "FAILS" not in text
    assert "20 repeats from $q_0 = 1$, $c_0 = 0.5$" in text
    assert r"q_l &\to 0.873" in text  # symbols leave the law open, the numbers do not


@pytest.mark.parametrize("name", ARTICLES)
def test_what_is_cited_is_listed(articles, name):
    body, _, listed = articles[name].read_text().partition(r"\section*{References}")
    cited = {int(n) for group in re.findall(r" \[([\d, ]+)\]", body) for n in group.split(",")}
    assert cited == {int(n) for n in re.findall(r"^\[(\d+)\] ", listed, re.MULTILINE)} == set(range(1, len(cited) + 1))


def test_a_law_that_takes_too_long_is_said_to_be_missing(articles):
    assert "was not derived within 0.5 seconds" in articles["Derf"].read_text()


def test_a_law_that_sympy_gives_up_on_is_said_to_be_missing(tmp_path, monkeypatch):
    def growth(net, **values):
        raise NotImplementedError("Don't know how to calculate the mrv of 'Gap(...)'")

    monkeypatch.setattr("meanfield.reporting.sections.growth", growth)
    text = mf.report(mf.Residual(mf.LayerNorm() >> mf.Linear()), tmp_path / "r.tex").read_text()
    assert "could not be derived" in text
    assert "mrv" not in text


def test_attention_is_described_by_its_weights(articles):
    assert "$A_{ab} = 1/4$" in articles["uniform"].read_text()
    text = articles["mask"].read_text()
    assert r"S = x^\top W_Q^\top W_K x / \sqrt{d_k}$ between tokens turned by rotary positions, $B_{ij} = \begin{cases}" in text
    assert r"w_{ia} &= B_{ia} \Big/" in text


def test_patience_beyond_every_timer():
    assert within(1e300, lambda: 1) == 1


def test_patience():
    assert within(10, lambda: 3) == 3
    with pytest.raises(OutOfTime):
        within(0.05, lambda: time.sleep(10))


def test_patience_within_patience():
    def inner():
        with pytest.raises(OutOfTime):
            within(10, lambda: time.sleep(20))
        time.sleep(20)

    with pytest.raises(OutOfTime):
        within(0.05, inner)
    assert within(10, lambda: within(5, lambda: 3)) == 3
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_limit_that_python_drops_is_raised_again(monkeypatch):
    """inside the callback of a weak reference nothing can be raised: Python tells it to a hook and goes on"""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))

    class Thing:
        pass

    def dropped(error):
        thing = Thing()
        kept = weakref.ref(thing, lambda _: error())
        del thing
        return kept

    def late():
        time.sleep(20)

    def wrong():
        raise ValueError

    def work():
        dropped(wrong)
        dropped(late)
        time.sleep(20)

    with pytest.raises(OutOfTime):
        within(0.05, work)
    assert told == [ValueError]


def test_a_growth_law_prints_without_the_cases_that_take_too_long(monkeypatch):
    monkeypatch.setattr("meanfield.reporting.growth_text.PATIENCE", 0.01)
    text = mf.latex(mf.growth(mf.pre_norm(norm=mf.RMSNorm(), attention=mf.UniformAttention(), mlp=mf.GEGLU())))
    assert "was not derived within" in text
    assert r"q_l &" in text


def test_names_for_parts_do_not_take_the_time_of_an_expression_written_out():
    e = mf.q + sp.exp(mf.p)
    for k in range(12):
        e = sp.sqrt(e + k * mf.p + 1) * sp.log(e + sp.Symbol(f"sigma_{k}", positive=True))  # 2^12 places
    names = {}
    (first, second), _ = shortened([e, e + 1], lambda t: printed(t, names), names, lambda part: f"F_{len(names)}", 90.0)
    assert len(names) > 5
    assert sp.count_ops(first) < 1000
    assert second == first + 1


def test_what_a_user_writes_is_escaped_and_signs_are_one(articles):
    text = articles["a user's"].read_text()
    assert re.sub("[öÜßéłóź]", "", text).isascii()
    assert r"My\_Block: Scales by $\sigma$$^{2}$ $\to$ $\infty$, a ``gain'' of 100 \% -- for all n $\geq$ 2; " in text
    assert r"n$^{-}$$^{1}$ $\phi$$'$ $\phi$ $\epsilon$ $\S$ 3 $\frac{1}{2}$ $\mu$ U+0127 U+0105 U+00FE U+03DB é E $_{\beta}$ " in text
    assert r"\text{$\Sigma$ÜBlock}(" in text
    assert r"\text{größe\_$\sigma$}" in text
    assert r"\text{a\%b\#c\&d\$e}" in text
    assert r"\sigma_1" in text.replace("{1}", "1")
    assert "Not in the article" not in text
    signed = articles["negative"].read_text()
    assert r"M = -\mathbf{1} + A + \frac{1}{2} C" in signed
    assert r"x - \frac{1}{3} " in signed


def test_a_run_is_described_by_its_numbers(tmp_path):
    """as `propagate` takes them; how it is run is not among them, but for the gradient at the output"""
    given = {"depth": 3, "q": 1.0, "c": 0.3, "sigma_w": 1.1, "sigma_b": 0.1}
    start = r"3 repeats from $q_0 = 1$, $c_0 = 0.3$, $\sigma_w = 1.1$, $\sigma_b = 0.1$."

    def numbers(**more):
        text = mf.report(mf.mlp(mf.relu), tmp_path / "r.tex", **{**given, **more}).read_text()
        return text.partition(r"\section*{Numbers}")[2].partition(r"\section*")[0]

    plain = numbers()
    assert start in plain
    assert "gradient at the output" not in plain
    assert numbers(p=None, q2=None, device="cpu", start="token", out=None) == plain
    assert f"{start} The gradient at the output is the same at all tokens, $K_L = J_L$." in numbers(start="pooled")
    few = numbers(record=2)
    assert start in few
    assert few != plain
    varied = numbers(c=np.array([0.1, 0.7]), q=np.array([[1.0], [2.0]]))
    header = varied.partition(r"\hline")[0]
    assert header.index("$q_0$") < header.index("$c_0$")
    row = re.compile(r"^\$(\d\.?\d*)\$ & \$(\d\.\d)\$ &", re.MULTILINE)
    assert row.findall(varied) == [("1", "0.1"), ("1", "0.7"), ("2", "0.1"), ("2", "0.7")]
    assert row.findall(numbers(c=np.array([0.1, 0.7]), q=np.array([1.0, 2.0]))) == [("1", "0.1"), ("2", "0.7")]
    whole = numbers(c=None, q=np.array([[1.0, 2.0], [4.0, 8.0]]))
    assert re.findall(r"^\$(\d)\$ &", whole, re.MULTILINE) == ["1", "2", "4", "8"]
    xr = pytest.importorskip("xarray")
    named = {"q": xr.DataArray([1.0, 2.0], dims="a"), "c": xr.DataArray([[0.1, 0.3], [0.2, 0.4]], dims=("b", "a"))}
    assert row.findall(numbers(**named)) == [("1", "0.1"), ("1", "0.2"), ("2", "0.3"), ("2", "0.4")]
    assert row.findall(numbers(record="last", c=np.array([0.1, 0.7]), q=np.array([[1.0], [2.0]]))) == row.findall(varied)


def test_a_sum_that_is_scaled_stands_in_brackets():
    gain, linear = sp.Symbol("s"), mf.Linear(1, 0)
    (line,) = structure(mf.Residual(mf.LayerNorm() >> mf.Residual(linear) >> mf.Scale(2) >> linear, skip=1 - gain, scale=gain))
    assert line == (
        r"x &\leftarrow \left(1 - s\right) x + s \mathrm{Linear}(2 \left(\mathrm{LayerNorm}(x) + "
        r"\mathrm{Linear}(\mathrm{LayerNorm}(x))\right))"
    )


def test_refusals(tmp_path):
    folder = tmp_path / "folder.tex"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"path = .*folder.tex': is a folder"):
        mf.report(ARTICLES["mlp"][0], folder)
    folder.rmdir()
    for wrong in ([1, 2], np.array([60.0])):
        with pytest.raises(ValueError, match=r"patience = .*expected a number of seconds > 0"):
            mf.report(ARTICLES["mlp"][0], tmp_path / "r.tex", patience=wrong)
    with pytest.raises(ValueError, match=r"out = 's.zarr': a report shows a run in memory"):
        mf.report(ARTICLES["mlp"][0], tmp_path / "r.tex", depth=2, sigma_w=1, sigma_b=0, out="s.zarr")
    lazy = pytest.importorskip("dask.array").ones(2)
    with pytest.raises(ValueError, match=r"sigma_w is a dask array: .* pass sigma_w.compute\(\)"):
        mf.report(ARTICLES["mlp"][0], tmp_path / "r.tex", depth=2, sigma_w=lazy, sigma_b=0)
    with pytest.raises(ValueError, match="c given without a depth"):
        mf.report(ARTICLES["mlp"][0], tmp_path / "r.tex", c=0.5)
    with pytest.raises(ValueError, match="patience = 0: expected a number of seconds > 0"):
        mf.report(ARTICLES["mlp"][0], tmp_path / "r.tex", patience=0)
    with pytest.raises(ValueError, match="missing parameters"):
        mf.report(ARTICLES["mlp"][0], tmp_path / "r.tex", depth=2)
    with pytest.raises(TypeError, match="expected a block"):
        mf.report(mf.relu, tmp_path / "r.tex")
    assert not list(tmp_path.iterdir())
