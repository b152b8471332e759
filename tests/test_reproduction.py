"""`meanfield reproduce`: what is in the files, held against published numbers and against recursions written out again here."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
import shutil
import subprocess
import time
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest

import meanfield as mf
from meanfield.cli import run
from meanfield.reporting import article
from meanfield.reporting.article import typeset
from meanfield.reporting.files import whole, write_text
from meanfield.reproduction import figures, reproduce
from meanfield.reproduction.derivations import sources
from meanfield.reproduction.references import Comparison
from meanfield.reproduction.systems import NORMS, Pair, network

ALPHAS = [round(0.1 * k, 1) for k in range(1, 21)]
FIGURES = ("transformer_signal", "transformer_gradients", "published_curves", "toy", "few_tokens")
PAGES = tuple(path.stem for path in sources())
TABLES = (
    "transformer_pre_ln", "transformer_derf", "transformer_dyt", "transformer_final", "toy", "few_tokens", "reference_numbers",
    "published_curves",
)  # fmt: skip


@pytest.fixture(scope="session")
def answer(tmp_path_factory):
    """The answer of `meanfield reproduce --json`, run once."""
    folder = tmp_path_factory.mktemp("reproduction") / "new" / "results"
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert run(["reproduce", "--out", str(folder), "--json"]) == 0
    return json.loads(stream.getvalue())


@pytest.fixture(scope="session")
def folder(answer):
    return Path(answer["folder"])


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def column(table: list[dict[str, str]], name: str, **where: str) -> np.ndarray:
    return np.array([float(r[name]) for r in table if all(r[k] == v for k, v in where.items())])


# -- the files ----------------------------------------------------------------------------------------------------------------------


def test_files(folder, answer):
    wanted = {f"{t}.csv" for t in TABLES} | {f"{f}.{s}" for f in FIGURES for s in ("png", "svg")} | {"transformer.tex"}
    wanted |= {f"derivations/{name}{s}" for name in PAGES for s in (".tex", "_figure.pdf")}
    wanted |= {"derivations/derivations.tex", "derivations/derivations.html"}
    if shutil.which("pdflatex"):
        wanted |= {"transformer.pdf", "derivations/derivations.pdf"}
        assert answer["note"] == ""
    else:
        assert "pdflatex" in answer["note"]
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == wanted == set(answer["files"])


@pytest.mark.parametrize("name", FIGURES)
def test_figures_show_something(folder, name):
    pixels = matplotlib.image.imread(folder / f"{name}.png")
    assert min(pixels.shape[:2]) > 500
    ink = (pixels[..., :3].min(axis=2) < 0.9).mean()
    assert 0.01 < ink < 0.5
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])[:, :3]
    assert (edge > 0.95).all()  # nothing is cut off
    root = ElementTree.parse(folder / f"{name}.svg").getroot()
    assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 50


def test_figures_are_the_same_bytes_again(folder):
    weights = dict.fromkeys(("sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1", "sigma_2"), 1.0)
    one = mf.propagate(network("pre-LN"), 4, q=1.0, p=0.4, n=4, **weights)
    pairs = {("pre-LN", n, sigma): Pair(one, one) for n in (4, 16) for sigma in (0.0, 1.0)}
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        streams = [io.BytesIO(), io.BytesIO()]
        for stream in streams:
            figure = figures.drawn(lambda f: figures.few_tokens(f, pairs), 5, 4)
            with matplotlib.style.context(["default", figures.STYLE]):
                figure.savefig(stream, format=suffix, metadata=metadata)
        assert streams[0].getvalue() == streams[1].getvalue()


def test_page_shows_every_figure(folder):
    text = (folder / "transformer.tex").read_text()
    for name in FIGURES:
        assert f"{{{name}.png}}" in text
    for norm in NORMS:
        assert rf"\subsection*{{{norm}}}" in text
    assert r"\tilde q" in text
    assert r"\sigma_{OV}^{2}" in text


# -- the derivations ------------------------------------------------------------------------------------------------------------------


def test_every_derivation_holds(answer):
    assert len(PAGES) == 11
    assert answer["failures"] == []


def visible(html: str) -> str:
    """the words of a page, code and style left out"""
    words = re.sub(r"<(pre|code|style)>.*?</\1>", "", html, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", words))


def test_webpage_of_the_derivations(folder):
    html = (folder / "derivations" / "derivations.html").read_text()
    root = ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>"))
    assert [a.get("id") for a in root.iter("article")] == list(PAGES)
    formulas = list(root.iter("{http://www.w3.org/1998/Math/MathML}math"))
    assert len(formulas) > 30 * len(PAGES)
    assert len(list(root.iter("img"))) == len(PAGES)
    # nothing is left of the LaTeX and nothing is fetched
    assert "$" not in visible(html)
    assert not re.search(r"\\[a-zA-Z]+", visible(html))
    assert "False" not in visible(html)  # an equation that sympy decided
    links = [e.get(a, "#") for e in root.iter() for a in ("src", "href")]
    assert all(link.startswith(("#", "data:image/svg+xml")) for link in links)
    assert not list(root.iter("script"))


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("name", ["derivations", "09_attention_recursion"])
def test_derivations_compile(folder, tmp_path, name):
    hold_the_log(compiled(folder / "derivations" / f"{name}.tex", tmp_path))


# -- the numbers --------------------------------------------------------------------------------------------------------------------

#: typed again, so that the module's own table is under test as well
REFERENCE = {
    ("pre-LN", ""): (61.26706080, 53.57703090, 3.043429781, 21.155833385),
    ("Derf", "0.5"): (37.02808986, 28.43901395, 4.038141188, 57.045940760),
    ("Derf", "1.1"): (47.02490055, 32.99418316, 7.782396875, 2409.520866832),
}


@pytest.mark.parametrize("case", REFERENCE)
def test_final_values(folder, case):
    (row,) = [r for r in rows(folder, "transformer_final") if (r["norm"], r["alpha"]) == case]
    q, p, log_chi, apjn = REFERENCE[case]
    assert float(row["q_L"]) == pytest.approx(q, abs=6e-9)
    assert float(row["p_L"]) == pytest.approx(p, abs=6e-9)
    assert float(row["sum_log_chi"]) == pytest.approx(log_chi, abs=6e-10)
    assert math.exp(float(row["log_apjn_without_softmax_derivative"])) == pytest.approx(apjn, abs=1e-8)
    with_softmax = {"pre-LN": 21.18, "Derf0.5": 57.07, "Derf1.1": 2414.0}["".join(case)]
    assert math.exp(float(row["log_apjn"])) == pytest.approx(with_softmax, rel=3e-4)


def test_every_reference_number_is_met(folder, answer):
    table = rows(folder, "reference_numbers")
    assert len(table) == len(answer["reference_numbers"]) == 19
    for r in table:
        digits = len(r["reference"].partition(".")[2])
        assert float(r["computed"]) == pytest.approx(float(r["reference"]), abs=0.51 * 10**-digits)
        assert abs(float(r["relative_deviation"])) < 1e-6


def test_every_published_point_is_met(folder, answer):
    table = rows(folder, "published_curves")
    assert len(table) == answer["published_curves"]["points"] == 250
    for r in table:
        assert float(r["computed"]) == pytest.approx(float(r["published"]), rel=1e-6, abs=1e-6 if r["quantity"] == "q" else 1e-7)
    assert {r["alpha"] for r in table if r["figure"] == "Part 2 Fig. 1a"} == {"", *map(str, ALPHAS)}
    assert answer["published_curves"]["largest_deviation"] < 1e-6


def test_layout_of_the_layer_tables(folder):
    header = ["alpha", "l", "q", "p", "c", "gap", "log_chi_product", "log_apjn_without_softmax_derivative", "log_apjn"]
    for name, slopes in (("pre_ln", [""]), ("derf", [str(a) for a in ALPHAS]), ("dyt", [str(a) for a in ALPHAS])):
        table = rows(folder, f"transformer_{name}")
        assert list(table[0]) == header
        assert [(r["alpha"], int(r["l"])) for r in table] == [(a, l) for a in slopes for l in range(129)]
        np.testing.assert_allclose(column(table, "c") + column(table, "gap"), 1, rtol=1e-15)
        np.testing.assert_allclose(column(table, "p") / column(table, "q"), column(table, "c"), rtol=1e-14)


def kappa(c: float) -> float:
    return (math.sqrt(1 - c * c) + c * (math.pi - math.acos(c))) / (2 * math.pi)


def slope_kappa(c: float) -> float:
    return 0.25 + math.asin(c) / (2 * math.pi)


def layer_norm(q, p):
    return 1.0, p / q, 1 / q, 1 / q


def derf(alpha):
    def norm(q, p):
        a = alpha**2
        d = 1 + 2 * a * q
        same, pair = (2 / math.pi * math.asin(2 * a * r / d) for r in (q, p))
        return same, pair, 4 * a / math.pi / math.sqrt(1 + 4 * a * q), 4 * a / math.pi / math.sqrt(d * d - 4 * a * a * p * p)

    return norm


def dyt(alpha):
    """Trapezoids over a variable common to both tokens and one of their own."""
    z = np.linspace(-9, 9, 601)
    weight = np.exp(-z * z / 2)
    weight /= weight.sum()

    def norm(q, p):
        t = np.tanh(alpha * (math.sqrt(p) * z[:, None] + math.sqrt(q - p) * z))
        slope = alpha * (1 - t * t)
        return weight @ t**2 @ weight, (t @ weight) ** 2 @ weight, weight @ slope**2 @ weight, (slope @ weight) ** 2 @ weight

    return norm


def by_hand(norm, depth=128, n=197, a=0.64**4, w=(0.64 * 1.28) ** 2, s=0.64**4):
    """q, p, ln prod chi and ln J by the formulas of Part 2 and the two-component recursion, without the softmax derivative."""
    q, p = 1.0, 0.4
    state, maps = [(q, p)], []
    for _ in range(depth):
        qt, pt, qh, ph = norm(q, p)
        yq, yp = (1 / (1 + (n - 1) * math.exp(s * r * (pt - qt))) for r in (qt, pt))
        attention = np.array([[1 + a * qh * yq, a * qh * (n - 1) * yp], [a * ph * (1 - yq) / (n - 1), 1 + a * ph * (1 - yp)]])
        q, p = q + a * (pt + (qt - pt) * yq), p + a * (pt + (qt - pt) * yp)
        qt, pt, qh, ph = norm(q, p)
        mlp = np.diag([1 + w / 2 * qh, 1 + w * slope_kappa(pt / qt) * ph])
        q, p = q + w / 2 * qt, p + w * qt * kappa(pt / qt)
        state.append((q, p))
        maps.append((attention @ mlp, attention[0, 0] * mlp[0, 0]))
    log_j, log_chi, gradient = [0.0], [0.0], np.array([1.0, 0.0])
    for transfer, chi in reversed(maps):
        gradient = transfer @ gradient
        log_j.append(math.log(gradient[0]))
        log_chi.append(log_chi[-1] + math.log(chi))
    return {
        "q": np.array([v[0] for v in state]), "p": np.array([v[1] for v in state]),
        "log_chi_product": np.array(log_chi[::-1]), "log_apjn_without_softmax_derivative": np.array(log_j[::-1]),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "alpha", "norm", "accuracy"),
    [("pre_ln", "", layer_norm, 1e-11)]
    + [("derf", str(a), derf(a), 1e-11) for a in ALPHAS]
    + [("dyt", str(a), dyt(a), 1e-11) for a in (0.1, 1.1)],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_every_layer_of_the_transformer(folder, name, alpha, norm, accuracy):
    table = rows(folder, f"transformer_{name}")
    for quantity, values in by_hand(norm).items():
        np.testing.assert_allclose(column(table, quantity, alpha=alpha), values, rtol=accuracy, atol=accuracy)


def test_toy_network(folder):
    table = rows(folder, "toy")
    layers = np.arange(129)
    q = column(table, "q", norm="pre-LN")
    np.testing.assert_allclose(q, 1 + 0.46**2 * layers, rtol=1e-13)
    np.testing.assert_allclose(column(table, "log_apjn", norm="pre-LN"), np.log(q[-1] / q), atol=1e-13)
    for alpha in ALPHAS:
        v, expected, chi = 1.0, [1.0], []
        for _ in range(128):
            chi.append(math.log1p(0.46**2 * 4 * alpha**2 / math.pi / math.sqrt(1 + 4 * alpha**2 * v)))
            v += 0.46**2 * 2 / math.pi * math.asin(2 * alpha**2 * v / (1 + 2 * alpha**2 * v))
            expected.append(v)
        np.testing.assert_allclose(column(table, "q", norm="Derf", alpha=str(alpha)), expected, rtol=1e-12)
        backward = np.append(np.cumsum(chi[::-1])[::-1], 0)
        np.testing.assert_allclose(column(table, "log_apjn", norm="Derf", alpha=str(alpha)), backward, atol=1e-12)


@pytest.mark.parametrize("n", [4, 16])
@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_few_tokens(folder, n, sigma):
    table = rows(folder, "few_tokens")
    for norm, law in (("pre-LN", layer_norm), ("Derf", derf(1.0))):
        where = {"norm": norm, "n": str(n), "sigma_QK": str(sigma)}
        expected = by_hand(law, depth=16, n=n, a=1.0, w=2.0, s=sigma**2)
        for quantity, values in expected.items():
            np.testing.assert_allclose(column(table, quantity, **where), values, rtol=1e-11, atol=1e-11)
        two, value, product = (column(table, k, **where) for k in ("log_apjn", "log_apjn_without_softmax_derivative", "log_chi_product"))
        assert (value[:-1] > product[:-1] + 1e-4)[:8].all()
        assert value[0] - product[0] > 0.1  # far beyond what a random network leaves open
        if sigma == 0:
            np.testing.assert_allclose(two, value, rtol=1e-14)
        else:
            assert (two[:-1] > value[:-1]).all()


# -- writing ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("out", [3, None, b"results"])
def test_out_is_a_path(out):
    with pytest.raises(TypeError, match="out = "):
        reproduce(out)


@pytest.mark.usefixtures("no_work")
def test_out_is_checked_before_any_work(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ValueError, match="this is a file, expected a folder"):
        reproduce(file)
    with pytest.raises(ValueError, match="cannot write to this folder"):
        reproduce(file / "inside")
    assert file.read_text() == "mine"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "table.csv"
    write_text(target, "old")

    def interrupted() -> None:
        with whole(target) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    write_text(target, "new\n")
    assert target.read_bytes() == b"new\n"


@pytest.mark.parametrize(("computed", "agrees"), [(61.267060805, True), (61.26706083, False), (math.nan, False)])
def test_a_number_agrees_to_the_digits_known(computed, agrees):
    assert Comparison("transformer", "LN", None, "q", "61.26706080", computed, "theory.md").agrees is agrees


# -- LaTeX --------------------------------------------------------------------------------------------------------------------------


def compiled(source: Path, scratch: Path) -> str:
    """The log of pdflatex."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"-output-directory={scratch}", source.name]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, timeout=120, check=False)
    log = (scratch / source.with_suffix(".log").name).read_text(errors="replace")
    assert done.returncode == 0, log[-3000:]
    return log


def hold_the_log(log: str) -> None:
    assert "undefined" not in log.lower()
    assert "Missing character" not in log
    wide = [float(w) for w in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", log)]
    assert max(wide, default=0) <= 20


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_page_compiles(folder, tmp_path):
    hold_the_log(compiled(folder / "transformer.tex", tmp_path))


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_typesetting_gives_the_same_bytes_and_leaves_nothing_beside_them(tmp_path):
    path = mf.report(mf.mlp(mf.tanh), tmp_path / "report.tex")
    first = typeset(path).read_bytes()
    time.sleep(1.1)
    assert typeset(path).read_bytes() == first
    assert first.startswith(b"%PDF")
    assert {p.name for p in tmp_path.iterdir()} == {"report.tex", "report.pdf"}


def test_without_pdflatex_there_is_no_pdf(tmp_path, monkeypatch):
    monkeypatch.setattr(article.shutil, "which", lambda _: None)
    assert article.typeset(mf.report(mf.mlp(mf.tanh), tmp_path / "report.tex")) is None


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_a_page_that_does_not_compile_is_an_error_with_a_sentence(tmp_path):
    path = write_text(tmp_path / "bad.tex", r"\documentclass{article}\begin{document}\nonsense\end{document}")
    with pytest.raises(RuntimeError, match="could not typeset"):
        typeset(path)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.tex"]
