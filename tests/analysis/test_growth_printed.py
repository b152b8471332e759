"""Laws as a person reads them: names for what stands in them several times, with their definitions."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_records import Growth
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


def test_where_all_parameters_are_numbers_so_is_what_an_equation_defines() -> None:
    law = mf.growth(mf.mlp(mf.erf), sigma_w=sp.Rational(3, 2), sigma_b=sp.Rational(1, 10))
    apart = mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.5, sigma_b=0.1)[1]
    assert law.gap.limit.is_Float
    assert float(law.gap.limit) == pytest.approx(apart.gap, rel=1e-12)
    assert "rho_star" not in repr(law)
    assert "rho_star" in repr(mf.growth(mf.Residual(mf.Activate(mf.erf) >> mf.Linear())).gap)  # of letters it is not


def test_gammas_that_a_whole_number_lies_between_are_one() -> None:
    root = mf.Activation(mf.x / sp.cbrt(1 + mf.x**2))
    law = mf.growth(mf.Residual(mf.Activate(root) >> mf.Linear()), sigma_w=1, sigma_b=0)
    assert law.apjn.log_coefficient == -sp.Rational(1, 2)
    product, n = sp.gamma(sp.Rational(17, 6)) * sp.gamma(-sp.Rational(13, 6)), sp.Symbol("n", positive=True)
    ratio = sp.gamma(-sp.Rational(1, 6)) / sp.gamma(sp.Rational(5, 6))
    for e in (n * ratio, product / sp.gamma(sp.Rational(5, 6)), sp.gamma(n) / sp.gamma(n + 1)):
        short = Growth("J", "stretched", log_coefficient=e).shortest.log_coefficient
        assert abs(sp.N((short - e).subs(n, sp.Rational(7, 5)), 30)) < 1e-25


def test_the_least_depth_of_a_check_is_said_where_it_is_asked_for() -> None:
    law = mf.growth(mf.mlp(mf.relu), sigma_w=1, sigma_b=0)
    with pytest.raises(ValueError, match="1000"):
        law.check(depth=300)
    assert law.check.__doc__ is not None
    assert "at least 1000" in law.check.__doc__


def test_what_a_check_cannot_be_asked_with_is_named() -> None:
    law = mf.growth(mf.residual_mlp(mf.relu, norm=mf.LayerNorm()))
    for wrong, said in (
        ({"gap": 3}, "gap = 3: a run starts from 1 - c above 0, where inputs differ, and at most 2"),
        ({"gap": 0.0}, "gap = 0: a run"),
        ({"depth": 10**30}, f"depth = {10**30}: expected a whole number, at least 1000 and at most {10**18}"),
        ({"q": 1e300}, r"q = 1e\+300: a run starts from a variance of 1e-12 to 1e\+12"),
        ({"q": [1.0, 2.0]}, r"q = \[1.0, 2.0\]: expected one number"),
        ({"sigma_w": -1}, "sigma_w = -1: weight scale of a linear map; it must be at least 0"),
        ({"sigma_w": 0}, r"sigma_w = 0: this law is of positive parameters; mf.growth\(net, sigma_w=0\)"),
        ({"sigma_w": "2"}, "sigma_w = '2': expected a number"),
        ({"sigma_w": np.array([1.0, 2.0])}, r"sigma_w = array\(\[1., 2.\]\): expected a number"),
        ({"sigma_w": sp.Symbol("z")}, "sigma_w = z: expected a number"),
        ({"n": 3}, "unknown parameters: n. Free in this law: sigma_b, sigma_w"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            law.check(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gap = 3: must be between 0 and 2"):
        law.transition_depth(1.0, gap=3, sigma_w=1, sigma_b=1)
    with pytest.raises(TypeError, match=r"q = \[1.0, 2.0\]: expected one number"):
        law.transition_depth([1.0, 2.0], sigma_w=1, sigma_b=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phi", "formula"),
    [
        (sp.sign(mf.x) * sp.sqrt(sp.Abs(mf.x)), r"\frac{\operatorname{sign}^{4}{\left(u \right)}}{\left|{u}\right|}"),
        (sp.Abs(mf.x) ** sp.Rational(1, 3), r"1 - \rho"),
        (sp.Abs(sp.sin(mf.x)), r"$\sin{\left(x \right)}$ oscillates"),
    ],
    ids=str,
)
def test_reasons_hold_formulas_and_no_code(phi: sp.Expr, formula: str) -> None:
    text = mf.latex(mf.growth(mf.Residual(mf.Activate(mf.Activation(phi)) >> mf.Linear(1, 0))))
    assert formula in text
    for code in (r"\allowbreak", "Abs(", "sign(", "$ oo", r"\_rho"):
        assert code not in text
