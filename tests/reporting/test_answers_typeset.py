"""One of each answer, what has no answer among them, as a page that TeX sets without a complaint."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

import meanfield as mf
from meanfield.reporting.article import document

MU = sp.Symbol("mu")
SLOW = mf.Activation(sp.sign(mf.x) * (1 - 1 / sp.sqrt(1 + sp.Abs(mf.x))))
SQUARED = mf.Activation(sp.root(1 + mf.x**2, 4))
BENT = mf.Activation(sp.Max(mf.x, 0) ** sp.Rational(11, 10) + sp.Max(-mf.x, 0))
BIASED = mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(), skip=MU)

ANSWERS: dict[str, Callable[[], Any]] = {
    "points": lambda: mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05),
    "a point": lambda: mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05)[1],
    "a small point": lambda: mf.fixed_points(mf.mlp(mf.tanh), sigma_w=0.99, sigma_b=1e-7),
    "every c": lambda: mf.fixed_points(mf.mlp(mf.identity), sigma_w=0.5, sigma_b=0),
    "no limit of c": lambda: mf.fixed_points(mf.mlp(BENT), sigma_w=0.3, sigma_b=0),
    "vanishing about 0": lambda: mf.fixed_points(mf.mlp(mf.softshrink), sigma_w=0.6, sigma_b=0),
    "no correlation": lambda: mf.fixed_points(mf.mlp(mf.tanh), sigma_w=0, sigma_b=0),
    "no point": lambda: mf.fixed_points(mf.mlp(mf.relu), sigma_w=1.5, sigma_b=0.1),
    "every point": lambda: mf.fixed_points(mf.mlp(mf.relu), sigma_w=2**0.5, sigma_b=0),
    "a line": lambda: mf.critical(mf.mlp(mf.gelu), q=mf.q),
    "a line in a letter": lambda: mf.critical(BIASED),
    "half-stable": lambda: mf.critical(mf.mlp(mf.gelu)),
    "edge of chaos": lambda: mf.critical(mf.mlp(mf.tanh), sigma_b=0.2),
    "not critical": lambda: mf.critical(mf.mlp(mf.relu), sigma_w=0),
    "powers": lambda: mf.growth(mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))),
    "stretched": lambda: mf.growth(mf.Residual(mf.Derf() >> mf.Linear())),
    "slowly": lambda: mf.growth(mf.Residual(mf.Activate(SLOW) >> mf.Linear(1, 0))),
    "quasi-polynomial": lambda: mf.growth(mf.Residual(mf.Activate(SQUARED) >> mf.Linear(1, 0))),
    "cases": lambda: mf.growth(mf.mlp(mf.erf), sigma_b=0),
    "no weights": lambda: mf.growth(mf.mlp(mf.tanh), sigma_w=0, sigma_b=0),
    "check": lambda: mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0).check(depth=1000),
    "check of nothing": lambda: mf.growth(mf.mlp(mf.tanh), sigma_w=0, sigma_b=0).check(depth=1000),
    "phases": lambda: mf.phase_diagram(mf.mlp(mf.erf), sigma_w=[0.5, 1.0, 2.0], sigma_b=[0.05, 0.5]),
    "phases without a line": lambda: mf.phase_diagram(mf.mlp(mf.erf), sigma_w=[0.0, 0.1], sigma_b=[0.05, 0.5]),
    "sensitivities": lambda: mf.sensitivity(mf.mlp(mf.erf), 10, q=1.0, c=0.3, sigma_w=[0.8, 1.2], sigma_b=0.3),
    "none of c": lambda: mf.sensitivity(mf.mlp(mf.tanh), 10, q=1.0, c=0.3, sigma_w=0.0, sigma_b=0.0),
    "shaped": lambda: mf.deep_kernel_shaping(mf.erf, 100),
    "tailored": lambda: mf.tailored(mf.tanh, 100),
    "a slope": lambda: mf.tailored_leaky_relu(100),
    "a growth": lambda: mf.growth(mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))).apjn,
    "no growth": lambda: mf.growth(mf.mlp(mf.erf), sigma_b=0).apjn,
    "the cases": lambda: mf.growth(mf.mlp(mf.relu)).cases,
    "a fit": lambda: mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0).check(depth=1000).fits[0],
    "several": lambda: [mf.q, mf.tailored(mf.tanh, 100), mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05)[1], mf.q**2],
    "by name": lambda: {"q": mf.q**2, "shaped": mf.tailored(mf.relu, 10), "sigma_w": 0.64},
    "no slope": lambda: mf.tailored(mf.relu, 10),
    "no shape": lambda: mf.deep_kernel_shaping(mf.identity, 100),
}


@pytest.fixture(scope="module")
def fragments() -> dict[str, str]:
    return {name: mf.latex(answer()) for name, answer in ANSWERS.items()}


def test_no_number_is_missing_without_a_word(fragments: dict[str, str]) -> None:
    for name, text in fragments.items():
        assert "NaN" not in text, name
        assert "nan" not in text, name
        assert "Dummy" not in text, name


def test_letters_in_sentences_are_set_as_formulas(fragments: dict[str, str]) -> None:
    for name, text in fragments.items():
        for sentence in re.findall(r"\\text\{((?:[^{}$]|\$[^$]*\$)*)\}", text):
            words = re.sub(r"\$[^$]*\$", " ", sentence)
            assert not re.search(r"\w'(?!s)|\b[qcJ]\b|\\_|\b(chi|mu|sigma|zeta)\b", words), (name, sentence)


def test_what_is_left_of_the_tables_says_why(fragments: dict[str, str]) -> None:
    assert "status: zero signal" in fragments["none of c"]
    assert r"\dots" not in fragments["none of c"]
    assert "not compared" in fragments["check of nothing"]
    assert "no line" in fragments["phases without a line"]


def test_what_an_answer_holds_has_latex_of_its_own() -> None:
    law = mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0)
    found = law.check(depth=1000)
    assert mf.latex(found.fits[0]) == found.fits[0].latex()
    row = mf.latex(found.fits[0]).splitlines()[-2]
    assert row in mf.latex(found).splitlines()
    assert mf.growth(mf.mlp(mf.relu)).cases.latex() == mf.growth(mf.mlp(mf.relu)).latex()


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_they_compile_without_a_complaint(fragments: dict[str, str], tmp_path: Path) -> None:
    parts = [f"\\section*{{{name}}}\n{text}" for name, text in fragments.items()]
    (tmp_path / "all.tex").write_text(document(parts))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert done.returncode == 0, log[-2000:]
    for complaint in ("Overfull", "undefined", "Warning", "Missing character"):
        assert complaint not in log
