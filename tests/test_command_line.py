"""The command `meanfield`: what it prints, and how it refuses."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.cli import run

WEIGHTS = [
    word
    for name, value in (("sigma_Q", 0.64), ("sigma_K", 0.64), ("sigma_V", 0.64), ("sigma_O", 0.64), ("sigma_1", 0.64), ("sigma_2", 1.28))
    for word in ("--set", f"{name}={value}")
]
VIT = ["propagate", "--depth", "128", "-p", "0.4", "-n", "197", *WEIGHTS]


def said(capsys, *arguments: str) -> str:
    assert run(list(arguments)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys, *arguments: str) -> str:
    assert run(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


# -- derive -------------------------------------------------------------------------------------------------------------------------


def test_derive(capsys):
    text = said(capsys, "derive", "erf(a*x)")
    assert "E phi(u)^2        = 2*asin(2*a**2*q/(2*a**2*q + 1))/pi" in text
    assert "E phi(u) phi(v)   = 2*asin(2*a**2*p/(2*a**2*q + 1))/pi" in text
    assert "a > 0" in text


def test_derive_as_json(capsys):
    answer = json.loads(said(capsys, "derive", "relu(x)", "--json"))
    assert answer["activation"] == "Max(0, x)"
    assert answer["second_moment"] == {"expression": "q/2", "latex": r"\frac{q}{2}", "closed": True}
    assert answer["derivative_second_moment"]["expression"] == "1/2"
    assert set(answer) == {
        "activation", "derivative", "positive", "mean", "second_moment", "kernel", "derivative_second_moment", "derivative_kernel",
    }  # fmt: skip
    assert json.loads(said(capsys, "derive", "tanh(b*x)", "--json"))["kernel"]["closed"] is False


def test_derive_as_latex(capsys):
    text = said(capsys, "derive", "erf(alpha*x)", "--latex")
    assert text.startswith(r"\begin{align*}")
    assert r"\alpha" in text
    assert text.count(r"\\") == 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('__import__("os").system("x")', "not allowed"),
        ("x.__class__", "attributes are not read"),
        ("9**9**9**9", "out of range"),
        ("(" * 200 + "x" + ")" * 200, "nested beyond 100 levels"),
        ("x" * 10_001, "at most 10000"),
        ("5", "function of mf.x"),
        ("tanh(y)", "expression = 'tanh(y)': an activation is a function"),
        ("exp(x**2)", "expression = 'exp(x**2)': f = exp(x**2)"),
        ("q*x", "parameters"),
    ],
)
def test_derive_refuses(capsys, text, reason):
    sentence = refused(capsys, "derive", text)
    assert sentence.startswith("meanfield: ")
    assert sentence.count("\n") == 1
    assert reason in sentence
    assert sentence.count("expression =") <= 1


# -- propagate ----------------------------------------------------------------------------------------------------------------------


def test_propagate_prints_layers(capsys):
    text = said(capsys, *VIT)
    assert "61.26706" in text
    assert "53.57703" in text
    assert all(name in text for name in ("ln J^{L,l}", "ln prod chi", "1 - c"))


def test_propagate_as_json(capsys):
    answer = json.loads(said(capsys, *VIT, "--norm", "derf", "--set", "alpha=0.1:2:20", "--no-softmax-derivative", "--json"))
    assert answer["grid"] == [20]
    assert answer["layers"] == list(range(129))
    assert np.shape(answer["q"]) == (20, 129)
    assert answer["q"][4][128] == pytest.approx(37.02808986, abs=6e-9)
    assert np.exp(answer["log_apjn"][10][0]) == pytest.approx(2409.520866832, abs=1e-8)
    assert answer["status"] == ["ok"] * 20
    assert answer["input"]["alpha"] == pytest.approx(np.linspace(0.1, 2, 20))


def test_propagate_grid_of_two_ranges(capsys):
    arguments = [
        "propagate",
        "--norm",
        "derf",
        "--no-attention",
        "--depth",
        "3",
        "-c",
        "0.5",
        "--set",
        "sigma_1=1",
        "--set",
        "sigma_2=1,2,3",
    ]
    answer = json.loads(said(capsys, *arguments, "--set", "alpha=0.5:1:2", "--json"))
    assert answer["grid"] == [3, 2]
    net = mf.Residual(mf.Derf() >> mf.MLP(mf.relu))
    expected = mf.propagate(net, 3, 1.0, c=0.5, sigma_1=1.0, sigma_2=np.array([[1.0], [2.0], [3.0]]), alpha=np.array([0.5, 1.0]))
    np.testing.assert_array_equal(answer["log_apjn"], expected.log_apjn)
    table = said(capsys, *arguments, "--set", "alpha=0.5:1:2")
    assert table.count(" ok ") == 6
    assert "ln J^{L,0}" in table


def test_propagate_single_input_activation_and_record(capsys):
    arguments = [
        "propagate",
        "--norm",
        "layernorm",
        "--no-attention",
        "--activation",
        "x",
        "--depth",
        "4",
        "--set",
        "sigma_1=1",
        "--set",
        "sigma_2=sqrt(2)",
    ]
    answer = json.loads(said(capsys, *arguments, "--record", "2", "--json"))
    assert answer["layers"] == [0, 2, 4]
    assert answer["q"] == pytest.approx([1, 5, 9])
    assert "p" not in answer
    assert json.loads(said(capsys, *arguments, "--record", "last", "--json"))["layers"] == [4]


def test_what_is_no_number_is_null_in_json(capsys):
    arguments = ["propagate", "--no-attention", "--activation", "exp(x)", "--depth", "2", "--set", "sigma_1=40", "--set", "sigma_2=1"]
    answer = json.loads(said(capsys, *arguments, "--json"))
    assert answer["status"] == "overflow"
    assert answer["q"] == [1.0, None, None]
    assert "2 blocks: overflow" in said(capsys, *arguments)


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (["--set", "alpha=1"], "unknown parameters: alpha"),
        (["--norm", "derf"], "missing parameters: alpha"),
        (["--norm", "derf", "--set", "alpha=-1"], "alpha = -1"),
        (["--norm", "derf", "--set", "alpha=b"], "expected a number"),
        (["--norm", "derf", "--set", "alpha"], "expected name=value"),
        (["--norm", "derf", "--set", "alpha=1:2"], "first:last:count"),
        (["--norm", "derf", "--set", "a.b=1"], "no name of a parameter"),
        (["--norm", "derf", "--set", "net=1"], "no name of a parameter"),
        (["--set", "sigma_V=1"], "given twice"),
        (["-c", "0.4"], "exactly one of p, c and gap"),
        (["--depth", "-1"], "depth = -1"),
        (["--depth", str(10**12)], "iB"),
        (["--depth", str(10**40)], ""),
        (["-p", "2"], "|p| must be at most q"),
        (["-n", "0.5"], "n = 0.5"),
        (["-q", "0"], "must be positive"),
        (["-q", "__import__('os')"], "not allowed"),
        (["--activation", "open(x)"], "not a function"),
        (["--record", "some"], "record = 'some'"),
    ],
)
def test_propagate_refuses_in_one_sentence(capsys, extra, reason):
    sentence = refused(capsys, *VIT, *extra)
    assert sentence.startswith("meanfield: ")
    assert sentence.count("\n") == 1
    assert reason in sentence


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["propagate"],
        ["propagate", "--depth", "x"],
        ["derive"],
        ["derive", "x", "y"],
        ["derive", "x", "--nonsense"],
        ["propagate", "--jsno", "--depth", "4"],
        ["growth", "--sigma_w"],
    ],
)
def test_usage_errors(capsys, arguments):
    sentence = refused(capsys, *arguments)
    assert re.fullmatch(r"meanfield: [^\n]+; see meanfield[a-z ]* --help\n?", sentence)


def test_help_and_version(capsys):
    assert "reproduce" in said(capsys, "--help")
    assert "ViT-L" in said(capsys, "propagate", "--help")
    assert mf.__version__ in said(capsys, "--version")


# -- moments ------------------------------------------------------------------------------------------------------------------------


def test_moments(capsys):
    arguments = ["moments", "erf(a*x)", "-q", "1,2", "-p", "0.5", "--set", "a=0.5:1:2"]
    answer = json.loads(said(capsys, *arguments, "--json"))
    expected = mf.evaluate(mf.erf.kernel(mf.q, mf.p), q=1.0, p=0.5)
    assert np.shape(answer["kernel"]["value"]) == (2, 2)
    assert answer["kernel"]["value"][0][1] == pytest.approx(expected, rel=1e-14)
    assert answer["at"] == {"q": [1.0, 2.0], "p": 0.5, "a": [0.5, 1.0]}
    assert f"{expected:.15g}" in said(capsys, *arguments)
    digits = said(capsys, "moments", "tanh(x)", "-q", "1", "--digits", "30")
    assert "E phi(u)^2         = 0.394294490397841" in digits
    assert "phi(v)" not in digits


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["erf(a*x)"], "parameters a, and none are set"),
        (["x", "--set", "b=1"], "parameters none, and b are set"),
        (["relu(a*x)", "--set", "a=1,-1"], "a = -1: declared as positive, it must be above 0"),
        (["x", "-q", "0"], "must be positive"),
        (["x", "-p", "2"], "|p| <= q"),
        (["x", "--set", "b"], "expected name=value"),
        (["9**9**9**9"], "out of range"),
        (["tanh(x)", "-q", "1,2", "--digits", "20"], "q: --digits takes one number"),
    ],
)
def test_moments_refuses(capsys, arguments, reason):
    sentence = refused(capsys, "moments", *arguments)
    assert sentence.count("\n") == 1
    assert reason in sentence


def test_derivation_steps(capsys):
    answer = json.loads(said(capsys, "derive", "relu(x)", "--steps", "kernel", "--json"))
    assert answer["holds"] is True
    assert answer["steps"][0]["rule"] == "atoms"
    assert "certificate holds: dC/dp" in said(capsys, "derive", "relu(x)", "--steps", "kernel")
    told, *_, last = said(capsys, "derive", "relu(x)", "--steps", "kernel", "--latex").strip().splitlines()
    assert told.startswith("Write the activation as a sum of")
    assert last.startswith("Certificate holds: $C(q, 0)")
    assert "no closed form" in refused(capsys, "derive", "tanh(x)", "--steps", "kernel")


# -- answers ------------------------------------------------------------------------------------------------------------------------


def test_growth(capsys):
    text = said(capsys, "growth", "--no-attention", "--set", "sigma_1=sqrt(2)", "--set", "sigma_2=1")
    assert text.splitlines()[0] == "q: power, exponent=1, rate=1"
    answer = json.loads(said(capsys, "growth", "--no-attention", "--json"))
    assert answer["q"]["rate"] == {"expression": "sigma_1**2*sigma_2**2/2", "latex": r"\frac{\sigma_1^{2} \sigma_2^{2}}{2}"}
    assert answer["apjn"]["kind"] == "power"
    assert r"q_l &\sim" in said(capsys, "growth", "--no-attention", "--latex")
    assert "unknown parameters: alpha" in refused(capsys, "growth", "--no-attention", "--set", "alpha=1")


def test_critical(capsys):
    answer = json.loads(said(capsys, "critical", "--perceptron", "relu(x)", "-q", "1", "--json"))
    assert answer["values"] == {"sigma_w": pytest.approx(2**0.5), "sigma_b": 0.0}
    assert answer["status"] == "ok"
    assert "sigma_w = sqrt(pi)*(4*q + 1)**(1/4)/2" in said(capsys, "critical", "--perceptron", "erf(x)", "-q", "q")
    assert r"\sigma_w^{2}" in said(capsys, "critical", "--perceptron", "erf(x)", "-q", "q", "--latex")
    assert run(["critical", "--perceptron", "step(x)", "--set", "sigma_b=1"]) == 1  # an answer, and not one to go on with
    assert "chi is infinite" in capsys.readouterr().out
    assert "0 parameters are open" in refused(capsys, "critical", "--perceptron", "x", "--set", "sigma_w=1", "--set", "sigma_b=0")


def test_phase(capsys, tmp_path):
    arguments = ["phase", "--perceptron", "erf(x)", "--set", "sigma_w=0.5:2:6", "--set", "sigma_b=0.05:0.5:5"]
    answer = json.loads(said(capsys, *arguments, "--json", "--out", str(tmp_path / "phases.png")))
    assert np.shape(answer["phase"]) == (6, 5)
    assert set(np.ravel(answer["phase"])) == {"ordered", "chaotic"}
    assert (tmp_path / "phases.png").read_bytes().startswith(b"\x89PNG")
    text = said(capsys, *arguments, "--out", str(tmp_path / "phases.csv"))
    assert "Critical line" in text
    assert (tmp_path / "phases.csv").read_text().startswith("sigma_w,sigma_b,")
    assert "ends in .png, .svg, .pdf, .csv, .nc" in refused(capsys, *arguments, "--out", "phases.gif")
    assert "does not exist" in refused(capsys, *arguments, "--out", str(tmp_path / "nowhere" / "phases.nc"))
    assert "missing parameters: sigma_b" in refused(capsys, *arguments[:-2])


@pytest.mark.parametrize("name", ["phases.png", "phases.csv", "phases.nc", "report.tex"])
@pytest.mark.parametrize("why", ["is a folder", "does not exist", "cannot be written"])
def test_a_file_that_cannot_be_written_is_refused_before_any_work(name, why, capsys, tmp_path, monkeypatch):
    def no_work(*_, **__):
        raise AssertionError

    def denied(dir):
        raise PermissionError(errno.EACCES, "Permission denied")

    for module, work in (("commands.answers.mf", "phase_diagram"), ("reporting.article", "sections")):
        monkeypatch.setattr(f"meanfield.{module}.{work}", no_work)
    path = tmp_path / name
    if why == "is a folder":
        path.mkdir()
    elif why == "does not exist":
        path = tmp_path / "nowhere" / name
    else:
        monkeypatch.setattr("tempfile.TemporaryFile", denied)
    words = ["report"] if name == "report.tex" else ["phase", "--set", "sigma_w=0.5:2:3", "--set", "sigma_b=0.05:0.5:3"]
    assert why in refused(capsys, *words, "--perceptron", "erf(x)", "--out", str(path))


def test_a_file_that_is_there_is_kept_until_it_is_written(capsys, tmp_path):
    path = tmp_path / "phases.csv"
    path.write_text("before")
    refused(capsys, "phase", "--perceptron", "erf(x)", "--set", "sigma_w=0.5:2:3", "--out", str(path))
    assert path.read_text() == "before"
    assert [f.name for f in tmp_path.iterdir()] == ["phases.csv"]


# -- a network in a file ------------------------------------------------------------------------------------------------------------

FILE = """
[network]
kind = "residual_mlp"
phi = "erf(x)"
norm = "LayerNorm"
sigma_b = 0

[parameters]
sigma_w = 1

[run]
depth = 3
c = 0.5
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "net.toml").write_text(FILE)
    return str(tmp_path / "net.toml")


def test_a_network_in_a_file(capsys, file):
    answer = json.loads(said(capsys, "propagate", file, "--json"))
    expected = mf.propagate(mf.residual_mlp(mf.erf, sigma_b=0, norm=mf.LayerNorm()), 3, 1.0, c=0.5, sigma_w=1)
    np.testing.assert_array_equal(answer["q"], expected.q)
    answer = json.loads(said(capsys, "propagate", file, "--set", "sigma_w=2", "--depth", "2", "--gap", "0.1", "--json"))
    assert answer["input"] == {"q": 1.0, "gap": 0.1, "sigma_w": 2.0}
    assert answer["depth"] == 2
    assert "q: power, exponent=1" in said(capsys, "growth", file)
    sentence = refused(capsys, "propagate", file, "--norm", "derf")
    assert "a file and --norm are given" in sentence


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("sigma_w = 1", 'sigma_w = "x.__class__"', "parameters.sigma_w = 'x.__class__': '.' is not allowed"),
        ("c = 0.5", 'c = "9**9**9**9"', "run.c = '9**9**9**9'"),
        ("depth = 3", "depth = 3.5", "run.depth = 3.5: expected a whole number"),
        ('"erf(x)"', "\"__import__('os')\"", "network.phi"),
    ],
)
def test_errors_in_a_file_say_where(capsys, file, old, new, reason):
    with open(file) as f:
        text = f.read()
    with open(file, "w") as f:
        f.write(text.replace(old, new))
    sentence = refused(capsys, "propagate", file)
    assert sentence.startswith(f"meanfield: {file}: ")
    assert reason in sentence
    assert sentence.count("\n") == 1


def test_parameters_by_their_names(capsys):
    """--sigma_w VALUE is --set sigma_w=VALUE, read by the same whitelist"""
    arguments = ["propagate", "--perceptron", "relu(x)", "--depth", "2", "--json"]
    answer = json.loads(said(capsys, *arguments, "--sigma_w", "sqrt(2)", "--sigma_b=0"))
    assert answer["input"] == {"q": 1.0, "sigma_w": 2**0.5, "sigma_b": 0.0}
    for value, reason in (
        ('__import__("os").system("x")', "not allowed"),
        ("x.__class__", "attributes are not read"),
        ("9**9**9**9", "out of range"),
        ("(" * 200 + "1" + ")" * 200, "nested beyond 100 levels"),
        ("1" * 10_001, "at most 10000"),
    ):
        sentence = refused(capsys, *arguments, "--sigma_w", value, "--sigma_b", "0")
        assert sentence.startswith("meanfield: sigma_w")
        assert reason in sentence
    assert "unknown parameters: sigma_c" in refused(capsys, *arguments, "--sigma_c", "1")
    assert "--help" in refused(capsys, *arguments, "--sigma_w")
    assert "--help" in refused(capsys, *arguments, "--sigma-w", "1")


def test_a_range_where_one_value_is_meant(capsys, file):
    sentence = refused(capsys, "growth", file, "--set", "sigma_w=1:2:3")
    assert "expected one number or formula here" in sentence
    answer = json.loads(
        said(capsys, "scaling", "solve", file, "--parameter", "sigma_w", "--observable", "log_q", "--target", "1", "--json")
    )
    assert answer["status"] == "ok"  # the file's own value is what is looked for
    assert answer["achieved"] == pytest.approx(1, abs=1e-9)
    assert "is to be solved for" in refused(
        capsys, "scaling", "solve", file, "--parameter", "sigma_w", "--set", "sigma_w=1", "--target", "1"
    )


def test_no_such_file(capsys):
    assert "nowhere.toml" in refused(capsys, "growth", "nowhere.toml")


def test_report(capsys, file, tmp_path):
    answer = json.loads(said(capsys, "report", file, "--out", str(tmp_path / "r.tex"), "--json"))
    assert answer["files"] == [str(tmp_path / "r.tex")]
    assert r"\section*{Numbers}" in (tmp_path / "r.tex").read_text()
    assert "ends in .tex" in refused(capsys, "report", file, "--out", "r.pdf")


def test_a_report_uses_what_it_is_given_or_refuses_it(capsys, tmp_path):
    words = ["report", "--perceptron", "relu(x)", "--out", str(tmp_path / "r.tex")]
    assert "q, sigma_w given without a depth" in refused(capsys, *words, "-q", "2", "--sigma_w", "1")
    assert not (tmp_path / "r.tex").exists()
    said(capsys, *words, "-q", "2", "--sigma_w", "1", "--sigma_b", "0.5", "--depth", "3")
    assert r"\section*{Numbers}" in (tmp_path / "r.tex").read_text()


# -- theory beside networks ---------------------------------------------------------------------------------------------------------

SMALL = ["validate", "--perceptron", "erf(x)", "--depth", "1", "-c", "0.5", "--set", "sigma_b=0.1", "--width", "32"]


@pytest.mark.torch
def test_validate(capsys):
    pytest.importorskip("torch")
    answer = json.loads(said(capsys, *SMALL, "--set", "sigma_w=1.5", "--device", "cpu", "--json"))
    assert answer["agrees"] is True
    assert np.shape(answer["ln J"]["z"]) == (2,)
    assert "one number" in refused(capsys, *SMALL, "--set", "sigma_w=1,2")


@pytest.mark.torch
def test_a_check_that_fails_is_exit_code_1(capsys, monkeypatch):
    pytest.importorskip("torch")
    from meanfield.reference.comparison import Comparison

    monkeypatch.setattr(Comparison, "limit", 0.0)
    assert run([*SMALL, "--set", "sigma_w=1.5", "--device", "cpu"]) == 1
    assert "disagree" in capsys.readouterr().out


# -- reproduce ----------------------------------------------------------------------------------------------------------------------


def test_reproduce_prints_a_summary(capsys, monkeypatch, tmp_path):
    """The tables on the terminal, without the work (tests/test_reproduction.py does it)."""
    import meanfield.reproduction as module
    from meanfield.reproduction.references import Comparison, CurvePoint

    compared = Comparison("transformer", "Derf", 0.5, "q_L", "37.02808986", 37.028089859, "recursion")
    point = CurvePoint("Part 2 Fig. 2", "transformer", "log_chi_product", "pre-LN", None, 3, 2.0, 2.0000001)
    done = module.Reproduction(tmp_path, (tmp_path / "a.csv", tmp_path / "b.png"), (compared,), (point,), "no PDF")
    monkeypatch.setattr(module, "reproduce", lambda out: done)
    text = said(capsys, "reproduce", "--out", str(tmp_path))
    assert "Derf 0.5   q_L        37.02808986   37.02808986" in text
    assert "Part 2 Fig. 2" in text
    assert f"2 files in {tmp_path}" in text
    assert "no PDF" in text
    assert repr(done).startswith("Reproduction(2 files in ")
    answer = json.loads(said(capsys, "reproduce", "--json"))
    assert answer["files"] == ["a.csv", "b.png"]
    assert answer["published_curves"] == {"points": 1, "largest_deviation": pytest.approx(1e-7)}


def test_reproduce_refuses_a_file(capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "this is a file" in refused(capsys, "reproduce", "--out", str(tmp_path / "file"))


# -- the process --------------------------------------------------------------------------------------------------------------------

MAIN = "from meanfield.cli import main; main()"


def process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_scaling_rules(capsys):
    answer = json.loads(said(capsys, "scaling", "deepnorm", "--optimizer", "adam", "-N", "100", "--json"))
    assert answer["values"]["alpha"] == {"expression": "sqrt(2)*sqrt(N)", "latex": r"\sqrt{2} \sqrt{N}", "value": 200**0.5}
    assert "lam = 2**(2/3)/(2*N**(1/3))" in said(capsys, "scaling", "deepnorm", "--optimizer", "2,1", "--norm", "pre")
    text = said(capsys, "scaling", "deepnet", "--stacks", "encoder-decoder", "-N", "6,18", "-M", "6")
    assert "decoder_beta = 0.343294524" in text
    assert "encoder_alpha = [1.4179" in text
    assert "sigma = sqrt(3)/72 = 0.0240563" in said(capsys, "scaling", "golden", "--fan-in", "768", "--fan-out", "3072")
    assert said(capsys, "scaling", "golden", "--latex").startswith(r"\begin{align*}")
    sizes = ("--fan-in", "768", "--fan-out", "10", "--blocks", "24", "--d-key", "64")
    values = json.loads(said(capsys, "scaling", "golden", *sizes, "--json"))["values"]
    assert values["multiplier"] == {"expression": "1/24", "latex": r"\frac{1}{24}", "value": 1 / 24}
    assert values["coherent_growth"]["value"] == pytest.approx((25 / 24) ** 24)
    some = json.loads(said(capsys, "scaling", "golden", *sizes[:4], "--json"))["values"]
    assert (some["norm"]["value"], some["multiplier"]["value"]) == (pytest.approx((10 / 768) ** 0.5), None)
    assert "expected one of sgd" in refused(capsys, "scaling", "deepnorm", "--optimizer", "adagrad")
    for command in (("scaling", "deepnorm", "-N", "-3"), ("moments", "erf(alpha*x)", "--set", "alpha=-3")):
        sentence = refused(capsys, *command)
        assert " = -3: " in sentence
        assert "must be at least" in sentence
        assert "symbol" not in sentence


def test_the_process_ends_with_the_code():
    done = process(MAIN, "derive", "x")
    assert (done.returncode, done.stderr) == (0, "")
    assert "E phi(u)^2        = q" in done.stdout
    done = process(MAIN, "derive", "x.y")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("missing", "extra", "command"),
    [
        ("click", "cli", ["derive", "x"]),
        ("rich", "cli", ["derive", "x"]),
        ("matplotlib", "plot", ["reproduce", "--out", "results"]),
        ("torch", "torch", ["validate", "--perceptron", "x", "--depth", "1", "--set", "sigma_w=1", "--set", "sigma_b=0"]),
        ("xarray", "xarray", ["propagate", "--perceptron", "x", "--depth", "1", "--out", "x.csv"]),
        ("zarr", "sweep", ["propagate", "--perceptron", "x", "--depth", "1", "--sigma_w", "1", "--sigma_b", "0", "--out", "x.zarr"]),
    ],
)
def test_a_missing_library_is_one_sentence(missing, extra, command, tmp_path):
    command = [str(tmp_path) if word == "results" else word for word in command]
    done = process(f"import sys; sys.modules['{missing}'] = None\n{MAIN}", *command)
    assert done.returncode == 1
    assert done.stderr == f'meanfield: this command needs {missing}: pip install "meanfield-nn[{extra}]"\n'
    assert list(tmp_path.iterdir()) == []


def test_completion():
    """click's own: the line that --help shows prints a script, which asks for the words that fit"""
    environment = os.environ | {"_MEANFIELD_COMPLETE": "bash_complete", "COMP_WORDS": "meanfield pro", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", MAIN], capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.stdout == "plain,propagate\n"


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to another process on Windows")
def test_interrupt(tmp_path):
    """Ctrl-C in the middle of the work: exit code 130, one word, no half-written file."""
    folder = tmp_path / "results"
    child = subprocess.Popen(
        [sys.executable, "-c", MAIN, "reproduce", "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 60
        while not folder.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130, err
    assert out == b""
    assert err.decode().split() == ["meanfield:", "interrupted"]
    assert not any(p.name.startswith(".") for p in folder.iterdir())


LOST = """
import signal, time, weakref
from meanfield import cli
class Anything: pass
def run():
    thing = Anything()
    watched = weakref.ref(thing, lambda gone: signal.raise_signal(signal.SIGINT))
    try:
        del thing
        time.sleep(60)
    except KeyboardInterrupt:
        return 130
cli.run = run
cli.main()
"""


@pytest.mark.skipif(os.name == "nt", reason="time.sleep is not interrupted on Windows")
def test_an_interrupt_that_python_drops_comes_again():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (130, "")


# -- one style, one sentence ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["critical", "--perceptron", "erf(x)", "-q", "q", "--latex"],
        ["growth", "--perceptron", "relu(x)", "--set", "sigma_w=1", "--latex"],
        ["derive", "relu(x)", "--latex"],
        ["scaling", "deepnorm", "--latex"],
    ],
)
def test_latex_pastes_in_one_style(capsys, words):
    text = said(capsys, *words)
    assert "\\begin{align*}\n" in text
    assert "aligned}" not in text


def test_growth_takes_tokens(capsys):
    at = [f"--sigma_{k}=1" for k in ("Q", "K", "V", "O", "1", "2")]
    answer = json.loads(said(capsys, "growth", "-n", "8", *at, "--json"))
    assert answer["apjn"]["kind"] == "power"
    assert run(["growth", "-n", "8", "--set", "n=9"]) == 2
    assert "n is given twice" in capsys.readouterr().err


def test_record_takes_a_list(capsys):
    words = ["propagate", "--perceptron", "erf(x)", "--depth", "20", "--sigma_w", "1.5", "--sigma_b", "0.1", "--json"]
    assert json.loads(said(capsys, *words, "--record", "0,5,20"))["layers"] == [0, 5, 20]
    assert run([*words, "--record", "0,1.5"]) == 2
    assert "record = 1.5: expected a whole number" in capsys.readouterr().err


@pytest.mark.torch
def test_a_device_that_is_none_is_one_sentence(capsys):
    pytest.importorskip("torch")
    assert run([*SMALL, "--set", "sigma_w=1.5", "--device", "nosuch"]) == 2
    sentence = capsys.readouterr().err
    assert sentence.startswith("meanfield: device = 'nosuch' is not to be had here")
    assert sentence.count("\n") == 1


def test_an_interrupt_at_the_start_is_quiet():
    """where the first import of a command is under way"""
    code = (
        "import builtins, os, signal, sys\nreal = builtins.__import__\n"
        "def stopping(name, *rest):\n"
        "    if name == 'sympy': os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = stopping\nsys.argv = ['meanfield', 'derive', 'x']\nfrom meanfield.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


GRID = ["propagate", "--perceptron", "relu(x)", "--depth", "5", "-c", "0.5", "--sigma_w", "1:2:3", "--sigma_b", "0:1:2", "--record", "last"]


def test_a_grid_in_a_store(capsys, tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    path = str(tmp_path / "sweep.zarr")
    assert "ok: 6 of 6" in said(capsys, *GRID, "--out", path)
    answer = json.loads(said(capsys, *GRID, "--out", path, "--json"))
    assert (answer["grid"], answer["layers"], answer["status"], answer["store"]) == ([3, 2], [5], {"ok": 6}, path)
    there = xr.open_zarr(path, consolidated=False).q.values
    np.testing.assert_array_equal(there, json.loads(said(capsys, *GRID, "--json"))["q"])
    assert "depth = 5 there, 6 here" in refused(capsys, *GRID, "--depth", "6", "--out", path)
    assert "there is no folder" in refused(capsys, *GRID, "--out", str(tmp_path / "none" / "sweep.zarr"))
    (tmp_path / "file.zarr").write_text("mine")
    assert "is no sweep" in refused(capsys, *GRID, "--out", str(tmp_path / "file.zarr"))
    assert ".zarr" not in refused(capsys, "phase", "--perceptron", "erf(x)", "--out", path).replace(path, "")


def test_an_interrupted_store_says_how_to_go_on(capsys, monkeypatch):
    def stopped(*arguments, **values):
        stop = KeyboardInterrupt()
        stop.add_note("sweep.zarr keeps the chunks that were finished")
        raise stop

    monkeypatch.setattr(mf, "propagate", stopped)
    assert run([*GRID, "--out", "sweep.zarr"]) == 130
    assert capsys.readouterr().err.strip() == "meanfield: interrupted; sweep.zarr keeps the chunks that were finished"


def test_a_device_for_propagate(capsys, monkeypatch):
    seen = {}
    real = mf.propagate
    monkeypatch.setattr(mf, "propagate", lambda *a, device, **k: seen.update(device=device) or real(*a, **k))
    said(capsys, *GRID, "--device", "cuda")
    assert seen == {"device": "cuda"}
    assert "'cpu'" in refused(capsys, *GRID, "--device", "tpu")


def test_no_attention_is_what_python_calls_none(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(said(capsys, "growth", "--no-attention", "--json"))
    assert answer["network"] == str(mf.pre_norm(norm=mf.LayerNorm(), attention=None, mlp=mf.MLP(mf.Activation(sp.Max(0, mf.x)))))


def test_a_check_says_what_it_did_not_compare(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["growth", "--perceptron", "sign(x)", "--set", "sigma_w=1", "--set", "sigma_b=1", "--check", "1000"]
    assert re.search(r"J\s.*not compared", said(capsys, *arguments))
    answer = json.loads(said(capsys, *arguments, "--json"))
    assert (answer["not_compared"], answer["agrees"]) == (["J"], True)


def test_a_check_that_compares_nothing_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    flat = "x*(1-exp(-1/x**2)*log(2+1/x**2))"  # a logarithm of q beside what is exponentially small has no law here
    for more in ([], ["--json"]):
        arguments = ["growth", "--perceptron", flat, "--set", "sigma_w=1", "--set", "sigma_b=0", "--check", "1000", *more]
        assert run(arguments) == 1
        out, err = capsys.readouterr()
        assert "nothing could be compared" in err
    assert json.loads(out)["not_compared"] == ["q", "1 - c", "J"]
    law = mf.growth(mf.mlp(mf.Activation(sp.sympify(flat, {"x": mf.x}))), sigma_w=1, sigma_b=0)
    assert "nothing could be compared" in repr(law.check(depth=1000))


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "meanfield", "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: meanfield")
