"""The catalogue: every name against a function typed here, against torch, and what its parameters may be."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import panels
from numpy.typing import NDArray
from scipy import special

import meanfield as mf
from meanfield.catalogue import Family

Array = NDArray[np.float64]

NAMES = sorted({phi.__name__ for phi in mf.activations.values()})
ALIASES = {name: repr(phi) for name, phi in mf.activations.items() if name != repr(phi)}
FAMILIES = [name for name in NAMES if inspect.signature(mf.activations[name]).parameters]


def _elu(x: Array, a: float) -> Array:
    return np.where(x > 0, x, a * np.expm1(np.minimum(x, 0)))


def _selu(x: Array) -> Array:
    """lambda and alpha from E phi = 0, E phi^2 = 1 with the scaled complementary error function: no moment of the library"""
    tail = special.erfcx(math.sqrt(0.5)) / 2  # E e^z 1(z < 0) = e^(1/2) Phi(-1), times e^(-1/2) e^(1/2)
    a = math.sqrt(1 / (2 * math.pi)) / (0.5 - tail)
    square = 0.5 + a * a * (special.erfcx(math.sqrt(2)) / 2 - 2 * tail + 0.5)
    return _elu(x, a) / math.sqrt(square)


#: name -> the function, typed from its source; those whose parameters are symbols if left out are given numbers
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "ab_relu": lambda x: np.where(x > 0, 1.2 * x, -0.3 * x),
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "bentid": lambda x: (np.hypot(x, 1) - 1) / 2 + x,
    "celu": lambda x: _elu(x, 1.0),
    "cos": np.cos,
    "derf": lambda x: special.erf(0.7 * x),
    "dyt": lambda x: np.tanh(0.7 * x),
    "elu": lambda x: _elu(x, 1.0),
    "erf": special.erf,
    "exp": np.exp,
    "gabor": lambda x: np.exp(-x * x) * np.sin(x),
    "gauss": lambda x: np.exp(-x * x),
    "gcu": lambda x: x * np.cos(x),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_tanh": lambda x: x * special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    "hard_shrink": lambda x: x * (np.abs(x) > 0.5),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hermite": lambda x: (x * x - 1) / math.sqrt(2),
    "identity": lambda x: x,
    "isru": lambda x: x / np.hypot(x, 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "lecun_tanh": lambda x: 1.7159 * np.tanh(2 * x / 3),
    "lisht": lambda x: x * np.tanh(x),
    "log_cosh": lambda x: np.logaddexp(x, -x) - math.log(2),
    "log_sigmoid": special.log_expit,
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "monomial": lambda x: x * x,
    "polynomial": lambda x: x * x,
    "prelu": lambda x: np.where(x > 0, x, x / 4),
    "probit": special.ndtr,
    "quick_gelu": lambda x: x * special.expit(1.702 * x),
    "rbf": lambda x: np.sin(math.sqrt(2) * x) + np.cos(math.sqrt(2) * x),
    "rectified_monomial": lambda x: np.maximum(x, 0) ** 2,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "rrelu": lambda x: np.where(x > 0, x, (1 / 8 + 1 / 3) / 2 * x),
    "selu": _selu,
    "serf": lambda x: x * special.erf(np.logaddexp(0, x)),
    "sigmoid": special.expit,
    "sigmoid_like": lambda x: 0.5 + special.erf(x / 2.4020563531719796) / 2,
    "sign": np.sign,
    "silu": lambda x: x * special.expit(x),
    "sin": np.sin,
    "smelu": lambda x: np.where(np.abs(x) < 1, (x + 1) ** 2 / 4, np.maximum(x, 0)),
    "snake": lambda x: x + (1 - np.cos(2 * x)) / 2,
    "soft_shrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "softplus": lambda x: np.logaddexp(0, x),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "square": np.square,
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "star_relu": lambda x: 0.8944271909999159 * np.maximum(x, 0) ** 2 - 0.4472135954999579,
    "step": lambda x: np.heaviside(x, 0.5),
    "tanh": np.tanh,
    "tanh_exp": lambda x: x * np.tanh(np.exp(x)),
    "tanh_shrink": lambda x: x - np.tanh(x),
    "threshold": lambda x: np.where(x > 0.5, x, -2.0),
}  # fmt: skip
GIVEN: dict[str, tuple[float, ...]] = {"ab_relu": (-0.3, 1.2), "derf": (0.7,), "dyt": (0.7,), "threshold": (0.5, -2)}


def member(name: str) -> mf.Activation:
    """the activation of that name, its parameters numbers"""
    phi: mf.Activation = mf.activations[name](*GIVEN[name]) if name in GIVEN else mf.activations[name]
    return phi


def numeric(phi: mf.Activation) -> Callable[[Array], Array]:
    f = sp.lambdify(mf.x, phi.expression, [{"erf": special.erf, "Heaviside": lambda t, at=0.5: np.heaviside(t, at)}, "numpy"])
    return lambda values: f(values) + 0 * values


GRID = np.concatenate([np.linspace(-9, 9, 721), [-30.0, 30.0, 1e-8, -1e-8]])


# -- what is there -------------------------------------------------------------------------------------------------------------------------


def test_every_name_has_a_function_here() -> None:
    assert set(FUNCTIONS) == set(NAMES)


def test_names_of_three_libraries() -> None:
    """theory.md 10, in lower case"""
    for name in [
        "elu",
        "hardshrink",
        "hardsigmoid",
        "hardtanh",
        "hardswish",
        "leaky_relu",
        "logsigmoid",
        "prelu",
        "relu",
        "relu6",
        "selu",
        "celu",
        "gelu",
        "gelu_tanh",
        "sigmoid",
        "silu",
        "mish",
        "softplus",
        "softshrink",
        "softsign",
        "tanh",
        "tanhshrink",
        "threshold",
        "rrelu",
        "erf",
        "sigmoid_like",
        "gabor",
        "sin",
        "cos",
        "rbf",
        "abrelu",
        "abs",
        "sign",
        "exp",
        "gauss",
        "hermite",
        "monomial",
        "rectified_monomial",
        "polynomial",
        "swish",
        "bentid",
        "atan",
        "asinh",
        "square",
        "gelu_exact",
        "identity",
        "step",
        "probit",
        "snake",
        "squareplus",
        "quick_gelu",
        "relu_squared",
        "isru",
        "log_cosh",
    ]:
        assert isinstance(mf.activations[name], mf.Activation)


def test_mapping_and_attributes_agree() -> None:
    assert len(mf.activations) == len(list(mf.activations)) == len(set(mf.activations)) == len(NAMES) + len(ALIASES)
    for name, phi in mf.activations.items():
        assert getattr(mf, name) is phi
        assert name in dir(mf)
        assert name in mf.activations
    assert not set(mf.activations) & set(mf.__all__)  # a star import leaves abs and exp alone
    for alias, name in ALIASES.items():
        assert mf.activations[alias] is mf.activations[name]
    assert ALIASES["swish"] == "silu"
    assert ALIASES["gelu_exact"] == "gelu"
    assert "tanhh" not in mf.activations
    with pytest.raises(KeyError, match=r"tanhh.*tanh_shrink"):
        mf.activations["tanhh"]


@pytest.mark.parametrize("name", NAMES)
def test_entry(name: str) -> None:
    phi = mf.activations[name]
    assert isinstance(phi, mf.Activation)
    assert repr(phi) == name
    assert phi.__doc__ != mf.Activation.__doc__
    assert isinstance(phi, Family)
    assert phi.__doc__.startswith(f"{name}{inspect.signature(phi)}")
    assert "Any" not in phi.__doc__
    assert phi() is phi
    for twin in (pickle.loads(pickle.dumps(phi)), copy.deepcopy(phi)):
        assert twin == phi
        assert hash(twin) == hash(phi)


@pytest.mark.parametrize("name", NAMES)
def test_function(name: str) -> None:
    found, truth = numeric(member(name))(GRID), FUNCTIONS[name](GRID)
    assert np.all(np.abs(found - truth) <= 1e-13 * (1 + np.abs(truth)) * (1 + np.abs(GRID)))


def test_members_of_families() -> None:
    """parameters other than the defaults, each function typed again"""
    r = sp.Rational
    members = {
        mf.leaky_relu(0.1): lambda x: np.where(x > 0, x, x / 10),
        mf.prelu(-2): lambda x: np.where(x > 0, x, -2 * x),
        mf.rrelu(0.25, 0.75): lambda x: np.where(x > 0, x, x / 2),
        mf.elu(0.5): lambda x: _elu(x, 0.5),
        mf.celu(alpha=2): lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)),
        mf.softplus(3): lambda x: np.logaddexp(0, 3 * x) / 3,
        mf.silu(beta=-0.5): lambda x: x * special.expit(-x / 2),
        mf.hard_tanh(max_val=3, min_val=-0.5): lambda x: np.clip(x, -0.5, 3),
        mf.hard_shrink(1): lambda x: x * (np.abs(x) > 1),
        mf.soft_shrink(0): lambda x: x,
        mf.squareplus(0.01): lambda x: (x + np.sqrt(x * x + 0.01)) / 2,
        mf.isru(3): lambda x: x / np.sqrt(1 + 3 * x * x),
        mf.snake(0.5): lambda x: x + 2 * np.sin(x / 2) ** 2,
        mf.smelu(2): lambda x: np.where(np.abs(x) < 2, (x + 2) ** 2 / 8, np.maximum(x, 0)),
        mf.erf(2, -0.5, 1): lambda x: 1 - 2 * special.erf(x / 2),
        mf.sin(b=2, c=1): lambda x: np.sin(2 * x + 1),
        mf.cos(-1, c=r(1, 2)): lambda x: -np.cos(x + 0.5),
        mf.exp(3, -0.1): lambda x: 3 * np.exp(-x / 10),
        mf.gauss(b=-0.25): lambda x: np.exp(-x * x / 4),
        mf.rbf(2): lambda x: np.sin(2 * x) + np.cos(2 * x),
        mf.hermite(4): lambda x: special.eval_hermitenorm(4, x) / math.sqrt(24),
        mf.monomial(5): lambda x: x**5,
        mf.rectified_monomial(3): lambda x: np.maximum(x, 0) ** 3,
        mf.polynomial([1, 0.5, 0, -2]): lambda x: 1 + x / 2 - 2 * x**3,
    }  # fmt: skip
    assert {repr(phi).partition("(")[0] for phi in members} | set(GIVEN) == set(FAMILIES) | {"ab_relu"}
    for phi, f in members.items():
        assert not callable(phi)
        truth = f(GRID)
        assert np.all(np.abs(numeric(phi)(GRID) - truth) <= 1e-13 * (1 + np.abs(truth)) * (1 + np.abs(GRID))), phi


def test_a_member_says_its_parameters() -> None:
    assert repr(mf.elu(0.5)) == "elu(alpha=1/2)"
    assert mf.elu(0.5) == mf.elu(alpha=sp.Rational(1, 2))
    assert repr(mf.polynomial((1, 0.5))) == "polynomial(coefficients=(1, 1/2))"
    assert repr(mf.silu(None)) == "silu(beta=beta)"
    assert mf.elu(1.0) is mf.elu
    assert mf.derf(mf.derf.expression.args[0] / mf.x) is mf.derf
    assert mf.elu(sp.Symbol("alpha")).expression.free_symbols == {mf.x, *mf.derf.expression.free_symbols}  # same name, same parameter


# -- moments -------------------------------------------------------------------------------------------------------------------------------

_POINTS, _LENGTHS = panels(np.linspace(-13, 13, 209))  # every kink is an edge
_DENSITY = _LENGTHS * np.exp(-(_POINTS**2) / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("name", NAMES)
def test_moments(name: str) -> None:
    phi, values = member(name), FUNCTIONS[name](_POINTS)
    for found, truth, size in (
        (phi.mean(1), np.sum(_DENSITY * values), np.sum(_DENSITY * np.abs(values))),
        (phi.second_moment(1), np.sum(_DENSITY * values**2), np.sum(_DENSITY * values**2)),
    ):
        assert abs(mf.evaluate(found) - truth) <= 2e-14 * size


CLOSED = [
    "abs",
    "ab_relu",
    "celu",
    "cos",
    "derf",
    "elu",
    "erf",
    "exp",
    "gabor",
    "gauss",
    "gcu",
    "gelu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "hermite",
    "identity",
    "leaky_relu",
    "monomial",
    "polynomial",
    "prelu",
    "probit",
    "rbf",
    "rectified_monomial",
    "relu",
    "relu6",
    "relu_squared",
    "rrelu",
    "selu",
    "sigmoid_like",
    "sign",
    "sin",
    "smelu",
    "snake",
    "soft_shrink",
    "square",
    "star_relu",
    "step",
    "threshold",
]


@pytest.mark.parametrize("name", NAMES)
def test_closed(name: str) -> None:
    """what closes closes at every parameter; nothing else is claimed to"""
    phi = mf.activations[name]
    if name in FAMILIES and name not in ("hermite", "monomial", "rectified_monomial", "polynomial", "gauss"):
        a, b, c = sp.symbols("a b d", positive=True)
        letters = (-a, b) if name == "hard_tanh" else (a, b, c)[: len(inspect.signature(phi).parameters)]
        phi = phi(*letters)
    for moment in ("mean", "second_moment", "kernel"):
        closed = phi.is_closed(moment)
        by_symmetry = closed and (moment == "mean" or (name, moment) == ("squareplus", "second_moment"))  # E f = E (f(u) + f(-u))/2
        assert closed == (name in CLOSED) or by_symmetry


@pytest.mark.parametrize("name", ["sign", "step", "threshold", "hard_shrink"])
def test_a_jump_is_in_the_derivative(name: str) -> None:
    """E phi' by Stein's lemma, E u phi(u) / q, typed: the delta of a jump counts; E phi'^2 is infinite"""
    phi = member(name)
    slope = phi.derivative
    assert slope.second_moment(mf.q) == sp.oo
    truth = np.sum(_DENSITY * _POINTS * FUNCTIONS[name](_POINTS))
    assert mf.evaluate(slope.mean(1)) == pytest.approx(truth, rel=1e-12)
    rate = phi.kernel(mf.q, mf.p).diff(mf.p) - slope.kernel(mf.q, mf.p)
    assert abs(mf.evaluate(rate, q=1.3, p=0.4)) < 1e-14


def test_closed_polynomials() -> None:
    a = sp.Symbol("a", real=True)
    b = sp.Symbol("b", negative=True)
    for phi in (mf.hermite(5), mf.monomial(5), mf.rectified_monomial(5), mf.polynomial((a, 1, 0, a)), mf.gauss(a, b)):
        assert phi.is_closed("kernel")


def test_silu_to_thirty_digits() -> None:
    value = mf.evaluate(mf.silu.second_moment(1), digits=30)
    with mp.workdps(35):
        assert abs(value - mp.mpf("0.355775519817352156230794292334")) < mp.mpf("1e-29")


def test_hermite_polynomials_are_orthonormal() -> None:
    """E He_j(u) He_k(v) / sqrt(j! k!) = p^k delta_jk at q = 1"""
    for k in range(1, 6):
        assert sp.expand(mf.hermite(k).kernel(1, mf.p)) == mf.p**k
        assert mf.E(mf.hermite(k).expression * mf.hermite(k + 1).expression, 1).doit() == 0


def test_rbf_is_named_for_its_kernel() -> None:
    gamma = sp.Symbol("gamma", positive=True)
    kernel = mf.rbf(gamma).kernel(mf.q1, mf.p, mf.q2)
    at = {mf.q1: 2.0, mf.p: 0.7, mf.q2: 0.9, gamma: 0.4}
    assert float(kernel.subs(at)) == pytest.approx(math.exp(-0.4 * (2.0 + 0.9 - 1.4)), rel=1e-14)


def test_a_phase() -> None:
    assert mf.evaluate(mf.sin(c=1).second_moment(1)) == pytest.approx((1 - math.exp(-2) * math.cos(2)) / 2, rel=1e-14)


# -- constants -----------------------------------------------------------------------------------------------------------------------------


def test_constants_of_selu() -> None:
    """Klambauer et al. 2017; 25 digits and more, and E phi = 0, E phi^2 = 1"""
    scale = mf.selu.expression.subs(mf.x, 1)
    alpha = mf.selu.expression.subs(mf.x, -1) / scale / (sp.exp(-1) - 1)
    assert abs(sp.N(alpha, 32) - sp.Float("1.6732632423543772848170429916717", 32)) < sp.Float("1e-30", 5)
    assert abs(sp.N(scale, 32) - sp.Float("1.0507009873554804934193349852946", 32)) < sp.Float("1e-30", 5)
    assert abs(mf.evaluate(mf.selu.mean(1), digits=40)) < 1e-39
    assert abs(mf.evaluate(mf.selu.second_moment(1), digits=40) - 1) < 1e-39
    # where the derivation meets functions without closed forms, no digit is lost
    value = mf.evaluate(mf.E(sp.tanh(mf.x) * mf.selu.expression, 1), digits=30)
    assert abs(value - mf.evaluate(mf.E(sp.tanh(mf.x) * _typed_selu(), 1), digits=30)) < 1e-29


def _typed_selu() -> sp.Expr:
    alpha, scale = sp.Rational("1.6732632423543772848170429916717"), sp.Rational("1.0507009873554804934193349852946")
    return sp.Piecewise((scale * mf.x, mf.x > 0), (scale * alpha * (sp.exp(mf.x) - 1), True))


def test_no_formula_prints_long_numbers() -> None:
    """a constant that is no short number has a letter"""
    for name in NAMES:
        long = re.findall(r"\d{7,}", mf.latex(mf.activations[name].expression))
        assert not long, f"{name} prints {long[0]}"


def test_constants_are_typed_nowhere() -> None:
    code = "".join(inspect.getsource(importlib.import_module("meanfield.catalogue.exponential")).split('"""')[::2])
    assert not re.search(r"\d\.\d", code)


def test_star_relu() -> None:
    """Yu et al. 2022: scale 0.8944, bias -0.4472"""
    assert mf.star_relu.mean(1) == 0
    assert sp.simplify(mf.star_relu.second_moment(1)) == 1
    assert float(mf.star_relu.expression.subs(mf.x, 0)) == pytest.approx(-0.4472, abs=5e-5)


def test_width_of_sigmoid_like() -> None:
    """the constant of neural-tangents is the least-squares fit of an error function to the sigmoid on 1000 points of [-5, 5]"""
    from scipy.optimize import brentq

    points = np.linspace(-5, 5, 1000)

    def slope(s: float) -> float:
        return float(np.sum((0.5 + special.erf(points / s) / 2 - special.expit(points)) * points * np.exp(-((points / s) ** 2))))

    (width,) = (1 / t for t in mf.sigmoid_like.expression.diff(mf.x).subs(mf.x, 0).as_independent(sp.pi)[:1])
    assert brentq(slope, 2, 3, xtol=1e-15) == pytest.approx(float(width), rel=1e-14)


# -- refusals ------------------------------------------------------------------------------------------------------------------------------

BAD = [
    ("elu", {"alpha": math.nan}), ("celu", {"alpha": 0}), ("celu", {"alpha": -0.5}), ("softplus", {"beta": 0}), ("silu", {"beta": 0}),
    ("squareplus", {"b": -1}), ("isru", {"alpha": -1}), ("snake", {"a": 0}), ("erf", {"b": 0}), ("sin", {"a": 0}), ("exp", {"b": 0}),
    ("gauss", {"b": 1}), ("rbf", {"gamma": 0}), ("hard_shrink", {"lambd": -1}), ("soft_shrink", {"lambd": -0.1}), ("smelu", {"beta": 0}),
    ("hard_tanh", {"min_val": 1, "max_val": 1}), ("hard_tanh", {"min_val": 2}), ("rrelu", {"lower": 0.5}), ("derf", {"alpha": -1}),
    ("hermite", {"degree": 0}), ("monomial", {"degree": -1}), ("rectified_monomial", {"degree": 0}), ("polynomial", {"coefficients": [3]}),
    ("polynomial", {"coefficients": [3, 0]}), ("polynomial", {"coefficients": []}), ("celu", {"alpha": sp.Symbol("a", negative=True)}),
    ("dyt", {"alpha": -0.1}), ("leaky_relu", {"negative_slope": mf.x}), ("threshold", {"value": mf.q}),
    ("threshold", {"threshold": math.nan}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters"), BAD, ids=str)
def test_out_of_range(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        mf.activations[name](**parameters)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("value", ["1", True, object(), np.array([1.0, 2.0]), 1j], ids=lambda v: type(v).__name__)
def test_no_number(name: str, value: Any) -> None:
    for parameter in inspect.signature(mf.activations[name]).parameters:
        with pytest.raises((TypeError, ValueError), match=parameter):
            mf.activations[name](**{parameter: value})


def test_fractional_degree() -> None:
    for name in ("hermite", "monomial", "rectified_monomial"):
        with pytest.raises(TypeError, match=r"degree = 2\.5: expected a whole number"):
            mf.activations[name](2.5)


def test_unknown_parameter() -> None:
    with pytest.raises(TypeError, match="gamma"):
        mf.elu(gamma=1)
    with pytest.raises(TypeError, match=r"leaky_relu has no parameter negativeslope \(did you mean negative_slope\?\): negative_slope"):
        mf.leaky_relu(negativeslope=0.1)
    with pytest.raises(TypeError, match=r"relu takes no parameters: got 1 \(1\)"):
        mf.relu(1)


def test_arguments_of_torch_that_are_no_parameters_here() -> None:
    with pytest.raises(TypeError, match=r"softplus has no parameter threshold \(it is a numerical switch of torch.* function\): beta"):
        mf.softplus(beta=2, threshold=20)
    with pytest.raises(TypeError, match=r"gelu has no parameter approximate \(its tanh form is .* gelu_tanh\): it has none"):
        mf.gelu(approximate="tanh")
    with pytest.raises(TypeError, match=r"silu has no parameter inplace \(it says where torch writes its result\): beta"):
        mf.silu(inplace=True)


# -- torch ---------------------------------------------------------------------------------------------------------------------------------

#: class of torch.nn.modules.activation -> members of the catalogue, each with the arguments of the class
TORCH: dict[str, list[tuple[str, tuple[Any, ...], dict[str, Any]]]] = {
    "CELU": [("celu", (), {}), ("celu", (0.3,), {})],
    "ELU": [("elu", (), {}), ("elu", (2.5,), {})],
    "GELU": [("gelu", (), {}), ("gelu_tanh", (), {"approximate": "tanh"})],
    "Hardshrink": [("hard_shrink", (), {}), ("hard_shrink", (1.5,), {})],
    "Hardsigmoid": [("hard_sigmoid", (), {})],
    "Hardswish": [("hard_swish", (), {})],
    "Hardtanh": [("hard_tanh", (), {}), ("hard_tanh", (-0.25, 2.0), {})],
    "LeakyReLU": [("leaky_relu", (), {}), ("leaky_relu", (0.3,), {})],
    "LogSigmoid": [("log_sigmoid", (), {})],
    "Mish": [("mish", (), {})],
    "PReLU": [("prelu", (), {})],
    "RReLU": [("rrelu", (), {}), ("rrelu", (0.25, 0.5), {})],
    "ReLU": [("relu", (), {})],
    "ReLU6": [("relu6", (), {})],
    "SELU": [("selu", (), {})],
    "SiLU": [("silu", (), {})],
    "Sigmoid": [("sigmoid", (), {})],
    "Softplus": [("softplus", (), {}), ("softplus", (2.0,), {})],
    "Softshrink": [("soft_shrink", (), {}), ("soft_shrink", (0.125,), {})],
    "Softsign": [("softsign", (), {})],
    "Tanh": [("tanh", (), {})],
    "Tanhshrink": [("tanh_shrink", (), {})],
    "Threshold": [("threshold", (0.5, -2.0), {})],
}

#: those that are no function of one number
NOT_ELEMENTWISE = {
    "GLU": "a product of two halves of the features",
    "MultiheadAttention": "attention",
    "Softmax": "normalised over the features",
    "Softmax2d": "normalised over the channels",
    "LogSoftmax": "normalised over the features",
    "Softmin": "normalised over the features",
}


@pytest.mark.torch
def test_every_activation_of_torch() -> None:
    torch = pytest.importorskip("torch")
    from torch.nn.modules import activation

    assert set(TORCH) | set(NOT_ELEMENTWISE) == set(activation.__all__)
    assert not set(TORCH) & set(NOT_ELEMENTWISE)
    points = torch.tensor(GRID[np.abs(GRID) <= 9], dtype=torch.float64)
    for kind, members in TORCH.items():
        for name, args, options in members:
            module = getattr(torch.nn, kind)(*args, **options).double().eval()
            spelled = {*inspect.signature(type(module)).parameters, *dict(module.named_parameters())}
            own = inspect.signature(mf.activations[name]).parameters if name in FAMILIES and kind != "SiLU" else {}
            assert set(own) <= spelled, f"{kind} has other parameters than {', '.join(own)}"
            phi = mf.activations[name](*args) if args else mf.activations[name]
            truth = module(points).detach().numpy()
            assert np.all(np.abs(numeric(phi)(points.numpy()) - truth) <= 1e-12), (kind, args)


@pytest.mark.parametrize(
    ("wrong", "right"), [("reluu", "relu"), ("layernrm", "LayerNorm"), ("propogate", "propagate"), ("sigmoyd", "sigmoid")]
)
def test_a_missing_name_of_the_library_is_told_the_near_ones(wrong: str, right: str) -> None:
    with pytest.raises(AttributeError, match=rf"^module 'meanfield' has no attribute '{wrong}' \(did you mean {right}"):
        getattr(mf, wrong)
    with pytest.raises(AttributeError, match=r"has no attribute 'zzzzqq'$"):
        _ = mf.zzzzqq
