"""Pages in percent cells: how they are cut, run, shown and set; what a failing one does. That the derivations hold is tested where
they are built, in test_reproduction."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import reproduction
from meanfield.cli import run
from meanfield.reporting.formulas import certified
from meanfield.reproduction import Reproduction, derivations
from meanfield.reproduction.cells import Page, PageFailed, cells_of, run_page
from meanfield.reproduction.derivations import build, sources
from meanfield.reproduction.display import Code, Formula, Picture, Table, Text, shown
from meanfield.reproduction.mathml import mathml
from meanfield.reproduction.references import CurvePoint
from meanfield.reproduction.tex import body, inline, picture_names, text
from meanfield.reproduction.webpage import webpage

ROOT = Path(__file__).resolve().parent.parent

GOOD = """# %% [markdown]
# # A title with $x^2$
#
# Some *words*, 3 % of them & a `name_with_lines`.

# %%
import sympy as sp

import meanfield as mf

x = 2

# %% tags=["hide-input"]
secret = 3

# %%
assert x + secret == 5
mf.relu.second_moment(mf.q), {"$n$": [1, 2], "kind": ["a", "b"]}
"""


def page_of(source: str, name: str = "01_page") -> Page:
    return run_page(Path(f"{name}.py"), source)


# -- the pages that ship --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.stem)
def test_page_says_what_a_derivation_says(path):
    source = path.read_text()
    cells = cells_of(source)
    words = "\n".join(c.text for c in cells if c.markdown)
    for part in ("**Statement.**", "**Source.**", "**Assumptions", "ertificate", "imprecise"):
        assert part in words, part
    code = "\n".join(c.text for c in cells if not c.markdown)
    assert code.count("assert ") >= 3  # certificates and checks
    assert re.search(r"plt\.|\.plot\(", code)  # a figure
    assert re.search(r"^\{", code, re.MULTILINE)  # numbers, as a table
    assert "meanfield as mf" in code
    assert not re.search(r"from meanfield|import meanfield\.|mf\._", code)  # public names only
    printed = "\n".join(c.text for c in cells if not c.markdown and not c.hidden)
    assert max(map(len, printed.splitlines())) <= 110  # a line of a printed page


def test_pages_ship_in_the_wheel_and_are_found_there(monkeypatch, tmp_path):
    build_targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert build_targets["wheel"]["force-include"] == {"derivations": "meanfield/derivations"}
    assert "/derivations" in build_targets["sdist"]["include"]
    assert {p.parent for p in sources()} == {ROOT / "derivations"}
    installed = tmp_path / "meanfield" / "derivations"
    installed.mkdir(parents=True)
    (installed / "01_page.py").write_text(GOOD)
    monkeypatch.setattr(derivations, "__file__", str(tmp_path / "meanfield" / "reproduction" / "derivations.py"))
    assert sources() == (installed / "01_page.py",)
    (installed / "01_page.py").unlink()
    with pytest.raises(FileNotFoundError, match="neither in"):
        sources()


@pytest.mark.parametrize(
    ("latex", "there"),
    [
        (r"x \sim \mathcal{N}(0, 1/d)", (">\N{TILDE OPERATOR}</mo>", '<mo lspace="0" rspace="0">/</mo>')),
        (r"\phi'^2", ("<msup><mrow><mi>\N{GREEK PHI SYMBOL}</mi>", "<mrow><mn>2</mn></mrow></msup>")),
        (r"\operatorname{erf}{\left(x\right)}", ("<mi>erf</mi><mrow>", 'stretchy="false"')),
        (r"\sqrt{\text{fan\_in}}", ("<mtext>fan_in</mtext>",)),
        (r"b = -1", ('<mo form="prefix">\N{MINUS SIGN}</mo>',)),
        (r"f(x) + 1", ("<mo>+</mo>",)),
        (r"\lim_{n \to \infty} a", ("<munder>", "<mi>\N{INFINITY}</mi>")),
        (r"\overline{h_a h_b}", ("border-top",)),
    ],
)
def test_mathml_is_spaced_as_tex_does(latex, there):
    text = mathml(latex, True)
    assert all(part in text for part in there), text


# -- cells ----------------------------------------------------------------------------------------------------------------------------


def test_what_a_reader_sees_of_a_page():
    page = page_of(GOOD)
    assert page.title == "A title with $x^2$"
    assert [type(part) for part in page.parts] == [Text, Code, Code, Formula, Table]
    assert "secret = 3" not in "".join(p.source for p in page.parts if isinstance(p, Code))
    assert page.parts[-1].rows == (("$1$", "a"), ("$2$", "b"))
    assert page.parts[-1].numeric == (True, False)


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("x = 1\n# %%\n", 1, "expected a cell marker"),
        ("# %% [markdown]\n# # T\nx = 1\n", 3, "expected a comment"),
        ("# %%\nx = 1\n", 1, "no title"),
        ("# %% [markdown]\n# # T\n# %%\nx = (\n", 4, "never closed"),
        ("# %% [markdown]\n# # T\n\n# %%\nx = 1\n\nassert x == 2\n", 7, "AssertionError"),
        ("# %% [markdown]\n# # T\n# %%\ndef f():\n    raise ValueError('no')\n\n# %%\nf()\n", 8, "ValueError: no"),
    ],
)
def test_a_page_that_fails_says_where_and_why(source, line, reason):
    with pytest.raises(PageFailed, match=reason) as error:
        page_of(source, "07_bad")
    assert error.value.name == "07_bad"
    assert str(error.value).startswith(f"07_bad, line {line}: ")


def test_a_planted_wrong_check_fails_the_build_and_the_others_are_built(tmp_path):
    pages = []
    for name, source in (("01_good", GOOD), ("02_bad", GOOD.replace("== 5", "== 6")), ("03_good", GOOD)):
        pages.append(tmp_path / f"{name}.py")
        pages[-1].write_text(source)
    out = tmp_path / "out"
    out.mkdir()
    done = build(out, pages)
    assert [(f.name, f.line, f.reason) for f in done.failures] == [("02_bad", 17, "AssertionError")]
    assert {"01_good.tex", "03_good.tex", "derivations.html", "derivations.tex"} <= {p.name for p in out.iterdir()}
    assert not (out / "02_bad.tex").exists()
    html = (out / "derivations.html").read_text()
    assert "02_bad failed: AssertionError" in html
    assert 'id="03_good"' in html


@pytest.mark.parametrize("as_json", [True, False])
def test_exit_code_of_a_failure(monkeypatch, capsys, tmp_path, as_json):
    failed = PageFailed("02_bad", 17, "AssertionError")
    point = CurvePoint("Fig. 1", "toy", "q", "Derf", 1.0, 0, 1.0, 1.0)
    monkeypatch.setattr(reproduction, "reproduce", lambda out: Reproduction(tmp_path, (), (), (point,), "", (failed,)))
    assert run(["reproduce", *(["--json"] if as_json else [])]) == 1
    said = capsys.readouterr()
    assert "02_bad, line 17: AssertionError" in (said.out if as_json else said.err)


# -- what values look like ------------------------------------------------------------------------------------------------------------


def test_values_by_their_kind():
    def kinds(value):
        return [type(part) for part in shown(value)]

    assert kinds(None) == []
    assert list(shown(1.5e-7)) == [Formula(r"1.5 \cdot 10^{-7}")]
    assert list(shown(1e20)) == [Formula("10^{20}")]
    with mp.workdps(40):
        third = mp.mpf(1) / 3
    assert list(shown(third)) == [Formula("0." + 30 * "3")]
    assert kinds(mf.relu.second_moment(mf.q)) == [Formula]
    certificate = mf.relu.derive("mean").certificate
    assert kinds(certificate) == [Text, Text]
    assert [part.markdown for part in shown(certificate)] == [certified(claim) for claim in certificate.claims]  # as in a paper
    derivation = list(shown(mf.relu.derive("kernel")))
    assert derivation[0].markdown.startswith("Write the activation")
    assert sum(isinstance(p, Formula) for p in derivation) == len(mf.relu.derive("kernel").steps)
    assert kinds(mf.scaling.width_rule()) == [Text]
    recursion = list(shown(mf.recursion(mf.mlp(mf.relu))))
    assert [type(p) for p in recursion] == [Formula, Text, Formula]
    assert recursion[1] == Text("where")
    assert kinds(object()) == [Code]
    table = next(shown({"a": [True, np.float64(2)], "b": [sp.Rational(1, 2), "c"]}))
    assert table.rows == (("yes", r"$\frac{1}{2}$"), ("$2$", "c"))
    with pytest.raises(ValueError, match="zip"):
        list(shown({"a": [1], "b": [1, 2]}))


def test_figures_are_the_same_bytes_again():
    from matplotlib.figure import Figure

    def picture():
        with derivations._drawing():
            ax = Figure(figsize=(3, 2)).add_subplot()
            ax.plot([0, 1], [0, 1], label=r"$\chi$")
            ax.legend()
            return next(shown(ax))

    one, two = picture(), picture()
    assert isinstance(one, Picture)
    assert one == two
    assert one.width == 3


# -- setting --------------------------------------------------------------------------------------------------------------------------


def test_markdown_as_latex():
    assert inline("50 % of *it* & $a_1 < b$, `x_1^2`") == r"50 \% of \emph{it} \& $a_1 < b$, \texttt{x\_1\textasciicircum{}2}"
    assert inline('"quoted"') == "``quoted''"
    assert text("a\n\n$$x^2$$\n\n- b\n- c").split() == [
        "a", r"\[", "x^2", r"\]", r"\begin{itemize}", r"\item", "b", r"\item", "c", r"\end{itemize}",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no LaTeX here: image"):
        text("![a](b.png)")


def test_pictures_do_not_take_the_name_of_the_typeset_page():
    picture = Picture(b"", b"", 6.5)
    one, two = Page("p", "t", (picture,)), Page("p", "t", (picture, picture))
    assert picture_names(one) == ["p_figure"]
    assert picture_names(two) == ["p_figure_1", "p_figure_2"]
    assert "width=1\\linewidth]{p_figure.pdf}" in body(one)


def test_formulas_in_a_row_share_an_environment():
    page = Page("p", "t", (Text("a:"), Formula("x"), Formula("y"), Formula("\\begin{align*}\nz\n\\end{align*}")))
    assert body(page) == "a:\n\\begin{gather*}\nx \\\\\ny\n\\end{gather*}\n\\begin{align*}\nz\n\\end{align*}"


def test_webpage_escapes_what_is_typed():
    page = Page("p", "a < b", (Code("a < b & c"), Text("1 < 2"), Formula(r"q \arcsin p")))
    html = webpage([page], "t", ["1 < 2 failed"])
    assert "a &lt; b &amp; c" in html
    assert html.count("1 &lt; 2") == 2
    assert '<mspace width="0.17em" /><mi>arcsin</mi>' in html
