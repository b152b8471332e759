"""LaTeX of everything the library hands out: one table of objects, and the kinds that have none, each with its reason."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shutil
import subprocess

import dask.array as da
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import faces
from meanfield.analysis.growth_check import Check, Fit
from meanfield.analysis.rational_forms import cancelled
from meanfield.reporting.article import document
from meanfield.reporting.breaking import WIDTH, aligned, fitted, width
from meanfield.reporting.statements import FORMULAS
from meanfield.scaling import Atom, Bond

LAYER = mf.mlp(mf.erf)
RESIDUAL = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu))
START = {"depth": 4, "q": 1.0, "sigma_w": 1.5, "sigma_b": 0.1}
VIT = {"attention": mf.UniformAttention(4), "mlp": mf.MLP(mf.relu)}


def check() -> Check:
    law = mf.growth(RESIDUAL)
    return Check(law, {"sigma_1": 1.0}, (Fit("q", "rate", 1.0, 1.001, 1e-3, "agrees", 1000),), mf.propagate(LAYER, c=0.5, **START))


#: what to make of each kind of object
OBJECTS = {
    "Activation": lambda: mf.gelu.derivative,
    "Family": lambda: mf.elu,
    "Catalogue": lambda: mf.activations,
    "Derivation": lambda: mf.relu.derive("kernel"),
    "DerivationStep": lambda: mf.relu.derive("kernel").steps[0],
    "Certificate": lambda: mf.relu.derive("kernel").certificate,
    "Claim": lambda: mf.relu.derive("kernel").certificate.claims[0],
    "Expansion": lambda: mf.tanh.taylor("second_moment", 2),
    "Identity": lambda: mf.silu.identities()[0],
    "Gain": lambda: mf.gain(mf.relu),
    "Shaped": lambda: mf.tailored_leaky_relu(50),
    "Signal": lambda: mf.Signal(mf.q, mf.p, mf.delta),
    "Law": lambda: mf.Attention(4).law(mf.Signal(mf.q, mf.p, mf.delta)),
    "Annealed": mf.Annealed,
    "Quenched": mf.Quenched,
    "Recursion": lambda: mf.recursion(RESIDUAL),
    "Unrolled": lambda: mf.unrolled(RESIDUAL),
    "Budget": lambda: mf.budget(mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))),
    "Cost": lambda: mf.budget(mf.Residual(mf.MLP(mf.relu))).block,
    "Run": lambda: mf.propagate(LAYER, c=0.5, **START),
    "GramRun": lambda: mf.propagate(mf.CausalAttention(), depth=1, q=1.0, p=0.4, n=3, sigma_V=1, sigma_O=1),
    "PairRun": lambda: mf.propagate(LAYER, q2=2.0, c=0.5, **START),
    "Sweep": lambda: mf.propagate(LAYER, c=0.5, **START | {"sigma_w": da.from_array([1.0, 1.4])}),
    "FixedPoints": lambda: mf.fixed_points(LAYER, sigma_w=1.6, sigma_b=0.3),
    "FixedPoint": lambda: mf.fixed_points(LAYER, sigma_w=1.6, sigma_b=0.3)[0],
    "Critical": lambda: mf.critical(LAYER, q=mf.q),
    "PhaseDiagram": lambda: mf.phase_diagram(LAYER, sigma_w=np.linspace(0.5, 2, 4), sigma_b=np.linspace(0.1, 0.5, 4)),
    "Growth": lambda: mf.growth(RESIDUAL).q,
    "GrowthLaw": lambda: mf.growth(RESIDUAL),
    "Cases": lambda: mf.growth(mf.mlp(mf.relu)).cases,
    "Check": check,
    "Fit": lambda: check().fits[0],
    "Sensitivity": lambda: mf.sensitivity(LAYER, 4, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1),
    "Rule": lambda: mf.scaling.deep_norm("adam"),
    "Step": lambda: mf.scaling.deep_norm("adam").steps[0],
    "Degree": lambda: mf.scaling.degree(mf.MLP(mf.relu)),
    "Optimizer": lambda: mf.scaling.OPTIMIZERS["lamb"],
    "ConventionTable": lambda: mf.scaling.convention_table(64, 2, 16, vocabulary=100),
    "GAUReport": mf.scaling.gau,
    "GAUMagnitudes": lambda: mf.scaling.GAUMagnitudes(0.1, 0.01, 0.05, 0.1),
    "GAUCurve": lambda: mf.scaling.GAUCurve("n", np.array([1.0, 2.0]), "RMS O", np.ones(2), np.ones(2)),
    "GradientCheck": lambda: mf.scaling.GradientCheck(np.array([1]), *np.ones((4, 1)), factor=2.0),
    "Answer": lambda: mf.scaling.Answer("sigma_w", "log_q", 1.0, 0.0, 0.0, 0.9, 1.1, "below", "ok"),
    "Atom": lambda: Atom("W"),
    "Bond": lambda: Bond(sp.S.One),
    "Composition": lambda: Atom("W") @ Atom("V"),
    "Scaled": lambda: 2 * Atom("W"),
    "Tuple": lambda: Atom("W") + Atom("V"),
    **{
        f"block {n}": lambda n=n: getattr(mf, n)() for n in ("Linear", "Scale", "LayerNorm", "RMSNorm", "BatchNorm", "Dropout", "Attention")
    },
    "block Serial": lambda: mf.post_norm(norm=mf.LayerNorm(), **VIT),
    "block Parallel": lambda: mf.Linear() + mf.MLP(mf.erf),
    "block Repeat": lambda: mf.Repeat(RESIDUAL, 3),
    "block of attention": lambda: mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)),
    "softmax averages": lambda: mf.Attention(16, average=mf.Quenched()),
    "block FixedAttention": lambda: mf.Residual(mf.CausalAttention()),
    "expression": lambda: mf.E(mf.x**2 * sp.tanh(mf.x), mf.q),
    "matrix": lambda: mf.recursion(LAYER).transfer,
}

#: what is not looked at by itself in a notebook: parts of others
PARTS = {
    "DerivationStep",
    "Certificate",
    "Claim",
    "Signal",
    "Law",
    "Annealed",
    "Quenched",
    "Step",
    "Optimizer",
    "Cost",
    "GAUMagnitudes",
    "Catalogue",
}

#: kinds without LaTeX of their own
REASONS = {
    "Block": "abstract",
    "Module": "abstract",
    "Convention": "functions of a tensor; a ConventionTable shows their values",
    "Tensor": "the name and sizes of a matrix, a row of a ConventionTable",
    "Labelled": "what results have in common",
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_latex(kind):
    thing = OBJECTS[kind]()
    text = mf.latex(thing)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert len(re.findall(r"\\left\b", text)) == len(re.findall(r"\\right\b", text))
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert not re.search(r"\\newcommand|\\operatorname\{(E|Angle|Pair|Gap)|nan|Dummy|\*\*|sigma_[a-z]\b(?<!\\sigma_[a-z])", text)
    assert not re.search(r"_\{(tilde|hat|common)\}", text)
    html = getattr(thing, "_repr_html_", lambda: "")()
    assert html.count("<td") == html.count("</td>")
    if isinstance(thing, faces.Labelled):
        assert "<table>" in html
    elif kind not in PARTS and not isinstance(thing, (mf.Block, mf.scaling.Module, sp.MatrixBase)):
        shown = thing._repr_latex_()
        assert shown.startswith(("$", r"\begin{")) or (kind in ("Derivation", "Cases") and r":" + "\n\\begin{align*}" in shown)
        assert repr(thing)


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_a_formula_stands_in_math_and_all_else_as_text(tmp_path):
    made = {kind: make() for kind, make in OBJECTS.items()}
    texts = {kind: f"${mf.latex(thing)}$" if isinstance(thing, FORMULAS) else mf.latex(thing) for kind, thing in made.items()}
    (tmp_path / "all.tex").write_text(document(f"{kind}\n\n{text}" for kind, text in texts.items()))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_name_stands_behind_what_it_is_written_in():
    net = mf.pre_norm(norm=mf.DyT(), attention=mf.Attention(), mlp=mf.MLP(mf.gelu))
    definitions = mf.latex(net).partition("where")[2].split("\\\\\n")
    lefts = [line.partition(" &=")[0].removeprefix("\n\\begin{align*}\n") for line in definitions]
    shared = next(k for k, left in enumerate(lefts) if left == r"\mathcal{F}")
    assert shared > max(lefts.index(name) for name in (r"\tilde q", r"\hat q", "y_q", r"\Psi_q"))
    assert r"\tilde q" in definitions[shared]


def test_every_public_kind_has_latex_or_a_reason():
    public = {name: getattr(mf, name) for name in mf.__all__} | {name: getattr(mf.scaling, name) for name in mf.scaling.__all__}
    kinds = {thing.__name__ for thing in public.values() if isinstance(thing, type) and not issubclass(thing, mf.Block)}
    blocks = {name for name, thing in public.items() if isinstance(thing, type) and issubclass(thing, mf.Block) and name != "Block"}
    known = OBJECTS.keys() | REASONS.keys()
    assert kinds <= known
    for name in blocks:
        assert faces.latex.dispatch(public[name]) is faces.latex.dispatch(mf.Block)
    shown = set()
    for folder in ("analysis", "scaling", "numeric", "gaussian", "catalogue"):
        for module in pkgutil.iter_modules(importlib.import_module(f"meanfield.{folder}").__path__):
            home = importlib.import_module(f"meanfield.{folder}.{module.name}")
            things = {name: getattr(home, name) for name in getattr(home, "__all__", ())}
            shown |= {
                name
                for name, thing in things.items()
                if isinstance(thing, type) and thing.__module__ == home.__name__ and _shows_itself(thing)
            }
    assert shown <= known


def _shows_itself(kind: type) -> bool:
    own = any(hasattr(kind, name) for name in ("latex", "_repr_latex_", "_repr_html_"))
    return own and not issubclass(kind, (mf.Block, sp.Basic))


def test_what_has_no_latex_says_what_has():
    with pytest.raises(TypeError, match="no LaTeX for object: expected an expression"):
        mf.latex(object())
    with pytest.raises(TypeError, match="no LaTeX for an array of 3 dimensions"):
        mf.latex(np.ones((2, 2, 2)))


def test_what_results_hold_prints_too():
    cases = mf.latex(mf.growth(mf.mlp(mf.relu)).cases)
    assert cases == mf.latex(mf.growth(mf.mlp(mf.relu)))
    assert cases.count(r"If $\sigma_w^{2}") == 3
    assert mf.latex(mf.silu.identities()).startswith("\\begin{align*}\n& ")
    law = mf.growth(RESIDUAL)
    for thing in (law.apjn.terms, law.parameters, law.q.exponent, mf.scaling.deep_norm("adam").values, 0.64, True, np.array([1.0, 0.5])):
        text = mf.latex(thing)
        assert text.count("{") == text.count("}")
    assert mf.latex({"sigma_w": 0.64}) == "\\begin{align*}\n\\sigma_w &= 0.64\n\\end{align*}"


# -- what a person reads of numbers and of long formulas ------------------------------------------------------------------------------


def test_decimals_read_as_they_were_typed():
    text = mf.latex(mf.pre_norm(norm=mf.Derf(0.5), attention=mf.UniformAttention(4, 0.64, 0.64), mlp=mf.MLP(mf.relu, 0.64, 1.28)))
    assert not re.search(r"\\frac\{\d{2,}\}\{\d{2,}\}", text)
    assert "0.04194304" in text  # 0.64^4/4
    assert mf.latex(sp.Rational(16, 25) * mf.q) == "0.64 q"
    assert (mf.latex(sp.Rational(1, 24)), mf.latex(sp.Rational(16, 25)), mf.latex(sp.Integer(3))) == (r"\frac{1}{24}", "0.64", "3")
    assert mf.latex(sp.Rational(2, 15) * mf.q) == r"\frac{2 q}{15}"  # of a series, not of a person


def test_a_root_of_a_square_is_none():
    n = sp.Symbol("n", positive=True)
    assert cancelled(sp.sqrt((1 / n - sp.Rational(1, 2)) ** 2 + (1 - 1 / n) / n)) == sp.Rational(1, 2)
    law = mf.growth(
        mf.pre_norm(norm=mf.LayerNorm(), attention=mf.UniformAttention(), mlp=mf.MLP(mf.gelu)), sigma_1=1, sigma_2=1, sigma_V=1, sigma_O=1
    )
    assert law.apjn.kind == "power"
    assert law.apjn.exponent.free_symbols == set()  # n cancels


def test_long_laws_have_named_parts():
    law = mf.growth(mf.pre_norm(norm=mf.Derf(), attention=mf.UniformAttention(), mlp=mf.MLP(mf.gelu)))
    text = mf.latex(law)
    whole = (law.q.rate, law.apjn.rate, law.apjn.log_coefficient, law.apjn.settling)
    assert 4 * len(text) < sum(len(mf.latex(e)) for e in whole)
    assert all(rf"it is the \texttt{{{name}}} of" in text for name in (r"log\_coefficient", "settling"))
    assert r"\mathcal{F} &=" in text
    assert all(width(line.replace("&", "").removesuffix(r" \\")) <= 1.1 * WIDTH for line in text.splitlines())


def test_every_softmax_of_a_repeat_has_its_own_letters():
    first, second = (mf.CausalAttention(n=5, sigma_Q=s, sigma_K=1) for s in (1, 2))
    lines = mf.latex(mf.Residual(first) >> mf.Residual(second)).splitlines()
    for letter in ("Y", "c", "Z"):
        own = [line for line in lines if line.startswith(f"{letter}^{{ij}}_{{ab}} &=")]
        other = [line for line in lines if line.startswith(rf"{letter}^{{(3)\,ij}}_{{ab}} &=")]
        assert len(own) == len(other) == 1
        if letter != "Y":
            assert "G^{(2)}" in other[0]
            assert "G^{(2)}" not in own[0]
    assert sum(line.startswith("B") for line in lines) == 1  # one mask


# -- long lines ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "q &= " + " + ".join(rf"a_{{{i}}} b^{{2}}" for i in range(60)),
        r"\ln J &\simeq " + " + ".join(rf"a_{{{i}}} b^{{2}}" for i in range(60)),
        r"q &= \frac{" + " - ".join(f"a_{{{i}}}" for i in range(60)) + "}{c}",
        r"q &= \frac{c}{" + " + ".join(f"a_{{{i}}}" for i in range(60)) + "}",
        r"q &= \sqrt{" + " + ".join(f"a_{{{i}}}" for i in range(60)) + "}",
        r"q &= f \left(" + " + ".join(rf"\left(a_{{{i}}} + b\right)" for i in range(40)) + r"\right)^{2} g",
        r"q &= \left("
        + " + ".join(f"a_{{{i}}}" for i in range(30))
        + r"\right) \left("
        + " + ".join(f"b_{{{i}}}" for i in range(30))
        + r"\right)",
        r"q &= f \sin{\left(" + " + ".join(f"a_{{{i}}}" for i in range(60)) + r" \right)}",
    ],
)
def test_a_line_that_is_too_wide_is_broken(line):
    lines = aligned([line]).splitlines()[1:-1]
    assert len(lines) > 1
    for part in lines:
        text = part.removesuffix(r" \\")
        assert width(text.replace("&", "").replace(r"\Bigl", "").replace(r"\Bigr", "")) <= WIDTH
        assert len(re.findall(r"\\left\b", text)) == len(re.findall(r"\\right\b", text))
        assert text.count("{") == text.count("}")
    whole = "".join(lines)
    assert re.findall(r"&=|&\\simeq\b", whole) == re.findall(r"&=|&\\simeq\b", line)
    assert len(re.findall(r"\\Bigl\b", whole)) == len(re.findall(r"\\Bigr\b", whole))
    assert re.findall(r"([ab])_\{?(\d+)", whole) == re.findall(r"([ab])_\{?(\d+)", line)


def test_functions_keep_their_arguments_where_they_are_broken():
    """no factor stands beside a comma, nor between the name of a function and its brackets"""
    first, second = (" + ".join(rf"{letter}_{{{i}}} b^{{2}}" for i in range(40)) for letter in "ac")
    inner = rf"\operatorname{{atan2}}{{\left({first}, {second} \sqrt{{d}} \right)}}"
    for line in (rf"q &= 2 {inner}", rf"q &= e \left(f + g \sin{{\left(2 {inner} \right)}}\right)"):
        whole = " ".join(re.sub(r"\\\\\n&\\qquad", "", aligned([line])).split())
        assert not re.search(r"(, ?|[-+] )\\times|\\times ,", whole)
        assert re.search(r"\\operatorname\{atan2\} \\Bigl\(a", whole)
        assert re.search(r"a_\{39\} b\^2 ,", whole)
    law = mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.gelu), skip=sp.Rational(1, 2))).latex()
    assert r"\operatorname{atan2} \Bigl(\sigma_1^2 \left(1 - \rho_*\right) , \mathcal{F}" in law
    assert not re.search(r"(, ?|[-+] )\\times|\\times ,|atan2\} \\times", law)


def test_what_is_broken_means_the_same():
    """a sum above a wider one keeps its brackets; a function of a fraction stays whole"""
    long = " + ".join(f"a_{{{i}}}" for i in range(10, 70))
    above = " ".join(aligned([rf"q &= e \frac{{b + c}}{{{long}}}"]).split())
    assert above.startswith(r"\begin{align*} q &= e \left(b + c\right) \Bigl(a_{10}")
    assert rf"\ln \frac{{{long}}}{{b}}" in aligned([rf"q &= e \ln \frac{{{long}}}{{b}} + f"])
    assert r"e \frac{b}{c} \leftarrow" in fitted("\\begin{align*}\n" + rf"q &= e \frac{{b}}{{c}} \leftarrow {long}" + "\n\\end{align*}")


def test_a_short_line_stays_as_it_is():
    fragment = "\\begin{align*}\nq &= \\frac{a}{b} \\\\\np &= c\n\\end{align*}\nwhere"
    assert fitted(fragment) == fragment


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_derivations_stay_on_the_pages_of_a_plain_article(tmp_path):
    x, a = mf.x, sp.Symbol("a", positive=True)
    found = [mf.Activation(f) for f in (x**2 * (1 + sp.erf(x)) / 2, sp.Max(-1, sp.Min(x, 2)), x + sp.sin(a * x) ** 2 / a)]
    body = "\n\n".join([phi.derive("kernel").latex() for phi in found])
    text = "\\documentclass{article}\\usepackage{amsmath,amssymb}\\begin{document}\n" + body + "\n\\end{document}"
    (tmp_path / "plain.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "plain.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0
    assert "Overfull" not in (tmp_path / "plain.log").read_text(errors="replace")


def test_a_list_with_a_derivation_in_it_keeps_its_formulas_apart():
    derivation, moment = mf.relu.derive("mean"), mf.relu.mean(mf.q)
    assert mf.latex([moment, derivation]) == f"{mf.latex([moment])}\n\n{mf.latex(derivation)}"


def test_what_is_long_and_stands_in_several_places_has_a_name():
    text = mf.latex(mf.mlp(mf.elu))
    body, _, definitions = text.partition("where")
    for uses in (r"\\mathcal\{F\}(?!_)", r"\\mathcal\{F\}_\{?2\}?"):
        assert len(re.findall(uses, body)) >= 2  # in p and in K
        assert len(re.findall(uses + " &=", definitions)) == 1


def test_a_law_in_numbers_is_legible():
    law = mf.growth(mf.Residual(mf.Derf() >> mf.MLP(mf.gelu, 0.64, 1.28)))
    text = mf.latex(law)
    assert not re.search(r"(?<![.\d])\d{8,}", text)
    assert len(text) < 1500


def test_a_series_ends_in_what_is_left_out():
    t = sp.Symbol("theta", positive=True)
    text = mf.latex(1 - t**2 / 8 + t**3 / 6 + sp.Order(t**4))
    assert text.index("theta^{2}") < text.index("theta^{3}") < text.index("O")


def test_two_inputs_are_listed_by_what_each_is_over_a_grid_too():
    run = mf.propagate(LAYER, q2=2.0, c=0.5, **START | {"sigma_w": np.array([1.0, 1.4])})
    header = mf.latex(run).splitlines()[1]
    for part in ("$q_L$", "$q_{2,L}$", "$p_L$", r"$c_L = p_L/\sqrt{q_L\, q_{2,L}}$"):
        assert part in header
    assert r"$c_l = p_l/q_l$" not in mf.latex(mf.propagate(LAYER, q2=2.0, c=0.5, **START))


def test_constants_with_letters_are_said_in_digits() -> None:
    """SELU holds two, which nothing else in a text would define"""
    law = mf.growth(mf.residual_mlp(mf.selu), sigma_w=0.7, sigma_b=0.2)
    assert r"\lambda_{01} &\approx 1.05070098736" in law.latex()
    text = mf.recursion(mf.mlp(mf.selu)).latex()
    assert r"\alpha_{01} &\approx 1.67326324235" in text
    assert text.count(r"\lambda_{01} &\approx 1.05070098736") == 1
    assert r"\approx" not in mf.recursion(mf.mlp(mf.elu)).latex()
