"""Laws as a person reads them: names for what stands in them several times, with their definitions."""

from __future__ import annotations

import re

import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_shown import named
from meanfield.analysis.implicit import CorrelationRoot


@pytest.fixture(scope="module")
def law() -> mf.GrowthLaw:
    return mf.growth(
        mf.pre_norm(norm=mf.Activate(mf.Activation(mf.x / sp.sqrt(1 + mf.x**2))), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    )


def test_a_long_law_is_read(law: mf.GrowthLaw) -> None:
    """less than 3000 characters, no exponential twice, every name with a definition; the coefficient itself stays whole"""
    text = repr(law)
    assert len(text) < 3000
    assert set(re.findall(r"\bt\d+\b", text)) == set(re.findall(r"^ *(?:where )?(t\d+) =", text, re.MULTILINE))
    assert "rho_star solves" in text
    assert "<long: .log_coefficient>" in text
    assert len(str(law.apjn.log_coefficient)) > 3000
    assert len(law.latex()) < 6000
    assert r"log\_coefficient" in law.latex()


def test_one_law_alone_names_its_parts(law: mf.GrowthLaw) -> None:
    text = repr(law.apjn)
    assert len(text) < 2000
    for name in set(re.findall(r"\bt\d+\b", text)):
        assert f"{name} = " in text


def test_names_stand_for_what_they_replace() -> None:
    """definitions put back give the expressions, roots included"""
    a, b, rho = sp.Symbol("a", positive=True), sp.Symbol("b", positive=True), sp.Dummy("rho", positive=True)
    root = CorrelationRoot(sp.exp(a * b + b**2) * rho - 1, rho)
    whole = [sp.log(sp.exp(a * b + b**2) + root) / (1 + sp.exp(a * b + b**2)), root * sp.exp(a * b + b**2)]
    short, definitions = named(whole)
    assert any(definition.startswith("0 = ") for definition in definitions)
    put = {"rho_star": root, "a": a, "b": b}
    for definition in (d for d in definitions if not d.startswith("0 = ")):
        name, value = definition.split(" = ")
        put[name] = sp.sympify(value, locals=put)
    for e, found in zip(whole, short, strict=True):
        assert sp.expand(sp.sympify(str(found), locals=put) - e) == 0


def test_a_short_law_is_written_out() -> None:
    text = repr(mf.growth(mf.Residual(mf.Derf() >> mf.Linear())))
    assert "where" not in text
    assert "log_coefficient=" in text
