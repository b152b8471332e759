"""Sentences and letters in LaTeX: primes, stars and exponents of short formulas, parameters with primes, angles."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.faces import worded


def test_formulas_in_a_reason_are_formulas() -> None:
    assert "$q'$ grows like $q^{2}$: where" in mf.growth(mf.mlp(mf.relu_squared)).latex()
    assert "$q'$ = $q$ for every variance." in mf.fixed_points(mf.mlp(mf.relu), sigma_w=2**0.5, sigma_b=0).latex()


def test_letters_that_stand_alone_are_formulas() -> None:
    said = worded("chi = 1 is a line: sigma_b in terms of sigma_w, for any mu; bind q=mf.q, or law.q.kind")
    assert said == r"$\chi$ = 1 is a line: $\sigma_{b}$ in terms of $\sigma_{w}$, for any $\mu$; bind q=mf.q, or law.q.kind"


def test_a_derivative_at_a_number_is_one_formula() -> None:
    """of C''(1) one prime was left outside"""
    said = worded("C''(1) is infinite, Q'(1) = 0.9, C(0) = 0 and f'' of Price's, not f(x) or chi(a)")
    assert said == "$C''(1)$ is infinite, $Q'(1)$ = 0.9, $C(0)$ = 0 and $f''$ of Price's, not f(x) or chi(a)"
    assert "$C''(1)$ is infinite" in mf.tailored(mf.relu, 5).latex()


def test_a_critical_line_has_no_minus_in_front_that_its_terms_can_take() -> None:
    text = mf.critical(mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(), skip=sp.Symbol("mu"))).latex()
    assert "= -" not in text.replace("&= ", "= ")
    assert r"1 - \mu^{2}" in text


@pytest.mark.parametrize("words", ["Stein's rule and 2*x*(y + 1)", "sigma_w**2 & E phi(u)", "100 % of a_b^c"])
def test_other_words_stay_words(words: str) -> None:
    assert "$" not in worded(words)


@pytest.mark.parametrize(("name", "text"), [("sigma_w'", r"\sigma_{w}'^{2}"), ("sigma'_w", r"\sigma_{w}'^{2}"), ("beta''", r"\beta''^{2}")])
def test_primes_of_a_parameter_stand_behind_its_letter(name: str, text: str) -> None:
    assert text in mf.recursion(mf.mlp(mf.relu, sigma_w=sp.Symbol(name, positive=True))).latex()


def test_a_fixed_point_in_a_sentence_is_a_letter() -> None:
    """sympy puts numbers for the parameters of what it prints, at which there need be no fixed point"""
    text = mf.growth(mf.mlp(mf.sin)).latex()
    assert r"depends on the sign of $\frac{q_{*} \sigma_w^{2}" in text


def test_an_angle_and_its_complement_are_one() -> None:
    law = mf.growth(mf.pre_norm(norm=mf.Derf(1), attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    assert "acos(rho_star)" in repr(law)
    assert "asin" not in repr(law)
    assert r"\arccos{\left(\rho_{*} \right)}" in law.latex()


def test_what_vanishes_at_once_is_less_than_any_exponential() -> None:
    text = mf.growth(mf.mlp(mf.tanh), sigma_w=0).latex()
    assert text.count(r"= o\left(e^{- k l}\right)") == 2
