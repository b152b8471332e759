"""Every public function, every bad input of api.md: an exception that names the argument, before any kernel is asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from cases import VIT, transformer

import meanfield as mf

pytestmark = pytest.mark.usefixtures("no_work")

NAN, INF = math.nan, math.inf
RELU = mf.mlp(mf.relu)
START: dict[str, Any] = {"depth": 3, "q": 1.0, "c": 0.5, "sigma_w": 1.0, "sigma_b": 0.0}


def refused(call: Callable[[], Any], *words: str, kind: type[Exception] | tuple[type[Exception], ...] = (ValueError, TypeError)) -> str:
    """the message, which holds every one of the words as a word of its own"""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", message), f"{word!r} is not in {message!r}"
    return message


def label(value: Any) -> str:
    return re.sub(r" at 0x\w+", "", repr(value))[:40]


def bad(*values: Any) -> list[Any]:
    return [pytest.param(v, id=label(v)) for v in values]


NOT_NUMBERS = ("1", None, True, 1j, sp.Symbol("z"), object(), [1.0, "a"], np.array([True]), {}, sp.sqrt(-1), [[1.0], [2.0, 3.0]])
NOT_FINITE = (NAN, INF, -INF, [1.0, NAN], np.array([INF, 1.0]), sp.oo, sp.nan)

# -- propagate ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", bad(0, -1, 0.0, [1.0, -1.0], [[1.0, 0.0]], *NOT_FINITE, *NOT_NUMBERS))
def test_q(value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, "q": value}), "q")


@pytest.mark.parametrize("value", bad(1.5, -2.0, [0.1, 1.2], *NOT_FINITE, *(v for v in NOT_NUMBERS if v is not None)))
def test_p(value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, "c": None, "p": value}), "p")


def test_p_beyond_q_shows_both_values() -> None:
    message = refused(lambda: mf.propagate(RELU, **{**START, "c": None, "q": [1.0, 2.0], "p": [0.5, 2.5]}), "p", "q")
    assert "2.5" in message
    assert "2" in message


@pytest.mark.parametrize("value", bad(1.0001, -1.1, [0.0, 2.0], *NOT_FINITE, "1", True, 1j, sp.Symbol("z")))
def test_c(value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, "c": value}), "c")


@pytest.mark.parametrize("value", bad(-1e-30, 2.1, [0.0, 3.0], *NOT_FINITE, "1", True, 1j, sp.Symbol("z")))
def test_gap(value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, "c": None, "gap": value}), "gap")


@pytest.mark.parametrize("given", [("p", "c"), ("p", "gap"), ("c", "gap"), ("p", "c", "gap")])
def test_two_starts(given: tuple[str, ...]) -> None:
    values = {"c": None, **dict.fromkeys(given, 0.5)}
    refused(lambda: mf.propagate(RELU, **{**START, **values}), *given, kind=ValueError)


@pytest.mark.parametrize("value", bad(-1, 1.5, 3.0, "3", None, True, NAN, INF, [1, 2], np.float64(3.0), np.int64(-1), sp.Symbol("z")))
def test_depth(value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, "depth": value}), "depth")


@pytest.mark.parametrize("name", ["sigma_w", "sigma_b"])
@pytest.mark.parametrize("value", bad(-1, -1e-300, [1.0, -2.0], *NOT_FINITE, *NOT_NUMBERS))
def test_weight_scales(name: str, value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, name: value}), name)


@pytest.mark.parametrize("name", ["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1", "sigma_2"])
@pytest.mark.parametrize("value", bad(-0.5, NAN))
def test_transformer_scales(name: str, value: Any) -> None:
    refused(lambda: mf.propagate(transformer(), 3, 1.0, p=0.4, **{**VIT, name: value}), name, kind=ValueError)


@pytest.mark.parametrize("value", bad(-0.5, NAN, INF))
def test_alpha(value: Any) -> None:
    refused(lambda: mf.propagate(transformer("derf"), 3, 1.0, p=0.4, alpha=value, **VIT), "alpha", kind=ValueError)
    refused(lambda: mf.propagate(transformer("dyt"), 3, 1.0, p=0.4, alpha=value, **VIT), "alpha", kind=ValueError)


@pytest.mark.parametrize("value", bad(0, -1, 0.5, 1.5, [2, 2.5], *NOT_FINITE, "4", None, True))
def test_tokens(value: Any) -> None:
    refused(lambda: mf.propagate(transformer(), 3, 1.0, p=0.4, **{**VIT, "n": value}), "n")


def test_tokens_that_cannot_be_so_opposed() -> None:
    """q + (n - 1) p < 0 is no covariance matrix"""
    message = refused(lambda: mf.propagate(transformer(), 3, 1.0, p=-0.9, **{**VIT, "n": 4}), "p", "n", "q", kind=ValueError)
    assert "-0.333" in message


@pytest.mark.parametrize("value", bad("x", 1, None, True, "Token"))
def test_start(value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, "start": value}), "start", "token", "pooled")


@pytest.mark.parametrize("value", bad("x", 0, -1, -2, 1.5, 2.5, None, True, NAN, 3.0))
def test_record(value: Any) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, "record": value}), "record", "all", "last", "k", "sequence")


def test_unknown_and_missing_parameters() -> None:
    """both lists, and the known ones beside them"""
    wrong = {"sigma_q": 1.0, "typo": 2.0, "sigma_w": 1.0}
    message = refused(lambda: mf.propagate(RELU, 3, 1.0, c=0.5, **wrong), "sigma_q", "typo", "sigma_b", "sigma_w", kind=ValueError)
    assert "missing" in message
    assert "unknown" in message
    refused(lambda: mf.propagate(transformer(), 3, 1.0, p=0.4), *VIT, kind=ValueError)
    refused(lambda: mf.propagate(mf.mlp(mf.relu, 1, 0), 3, 1.0, sigma_w=1.0), "sigma_w", kind=ValueError)


def test_one_start_for_a_net_that_mixes_tokens() -> None:
    refused(lambda: mf.propagate(transformer(), 3, 1.0, **VIT), "p", "c", "gap", kind=ValueError)


UNEVEN = [{"q": [1.0, 2.0], "c": [0.1, 0.2, 0.3]}, {"q": [1.0, 2.0], "sigma_w": [1.0, 1.0, 1.0]}, {"c": [0.1] * 2, "sigma_b": [0.0] * 3}]


@pytest.mark.parametrize("changes", UNEVEN, ids=["q, c", "q, sigma_w", "c, sigma_b"])
def test_shapes_that_do_not_broadcast(changes: dict[str, Any]) -> None:
    refused(lambda: mf.propagate(RELU, **{**START, **changes}), *changes, kind=ValueError)


@pytest.mark.parametrize("depth", [10**18 + 1, 2**63 - 1, 10**19, 10**30])
def test_whole_numbers_beyond_those_of_64_bits(depth: int) -> None:
    call = {**START, "depth": depth, "record": "last"}
    refused(lambda: mf.propagate(RELU, **call), "depth", str(depth), f"at most {10**18}", kind=ValueError)


HUGE = {"deep": {"depth": 10**13}, "every second": {"depth": 10**12, "record": 2}, "grid": {"depth": 10**8, "q": np.ones(10**5)}}


@pytest.mark.parametrize("changes", HUGE.values(), ids=HUGE)
def test_an_output_that_would_not_fit(changes: dict[str, Any]) -> None:
    """with its size and what to pass instead"""
    message = refused(lambda: mf.propagate(RELU, **{**START, **changes}), "record", kind=ValueError)
    assert re.search(r"\d ?(GiB|TiB|PiB|GB|TB)|e\+\d+ GiB", message)


def test_layers_are_not_spared_where_one_is_kept() -> None:
    changes = {"q": np.ones((10**6, 1)), "sigma_w": np.ones(10**6), "record": "last"}
    message = refused(lambda: mf.propagate(RELU, **{**START, **changes}), "GiB", kind=ValueError)
    assert "record" not in message


WIDE = np.broadcast_to(1.0, (10**6, 10**6))  # a view of one number
LARGE = {
    "parameter": lambda: mf.propagate(RELU, **{**START, "sigma_w": WIDE}),
    "q": lambda: mf.propagate(RELU, **{**START, "q": WIDE}),
    "p": lambda: mf.propagate(RELU, **{**START, "c": None, "p": WIDE}),
    "q2": lambda: mf.propagate(RELU, **{**START, "q2": WIDE}),
    "moment": lambda: mf.evaluate(mf.relu.kernel(mf.q, mf.p), q=WIDE, p=0.1),
    "grid of moments": lambda: mf.evaluate(mf.relu.kernel(mf.q, mf.p), q=np.ones((10**6, 1)), p=np.zeros(10**6)),
    "plane": lambda: mf.phase_diagram(RELU, sigma_w=WIDE, sigma_b=[0.1]),
    "point": lambda: mf.fixed_points(RELU, sigma_w=WIDE, sigma_b=0.1),
}


@pytest.mark.parametrize("call", LARGE.values(), ids=LARGE)
def test_arguments_that_would_not_fit(call: Callable[[], Any]) -> None:
    message = refused(call, "GiB", "1,000,000,000,000", "pass", kind=ValueError)
    assert "a part of" in message


def test_a_value_is_shown_in_enough_digits() -> None:
    for name, value in (("gap", 2.0000001), ("c", -1.0000001)):
        refused(lambda n=name, v=value: mf.propagate(RELU, **{**START, "c": None, n: v}), f"{name} = {value}", kind=ValueError)
    refused(lambda: mf.propagate(RELU, **{**START, "q": [1, "2"]}), "q = '2'", "text", kind=TypeError)


def test_a_view_of_one_thing_that_is_no_number_is_not_copied() -> None:
    for value, word in ((True, "truth values"), (1j, "complex numbers")):
        wide = np.broadcast_to(value, WIDE.shape)
        refused(lambda v=wide: mf.propagate(RELU, **{**START, "sigma_w": v}), f"sigma_w = {value}", word, kind=TypeError)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "value"), [("gap", 2.0), ("c", [0.5, -0.9]), ("p", -1e308)])
def test_a_start_whose_inputs_are_no_double_apart(name: str, value: Any) -> None:
    start = {**START, "c": None, "q": 1e308, name: value}
    refused(lambda: mf.propagate(RELU, **start), f"q = 1e+308 with {name} = {np.min(value):g}", "largest double", kind=ValueError)


@pytest.mark.parametrize("value", bad(3, None, "mlp", mf.relu, sp.tanh(mf.x), RELU.blocks))
def test_net(value: Any) -> None:
    refused(lambda: mf.propagate(value, 3, 1.0), "net", kind=TypeError)
    refused(lambda: mf.recursion(value), "block", kind=TypeError)


# -- blocks ------------------------------------------------------------------------------------------------------------------------------

SCALARS = [
    (mf.Linear, "sigma_w"), (mf.Linear, "sigma_b"), (mf.Attention, "n"), (mf.Attention, "sigma_Q"), (mf.Attention, "sigma_K"),
    (mf.Attention, "sigma_V"), (mf.Attention, "sigma_O"), (mf.Derf, "alpha"), (mf.DyT, "alpha"), (mf.derf, "alpha"), (mf.dyt, "alpha"),
]  # fmt: skip
NOT_SCALARS = (NAN, INF, "a", True, mf.x, mf.q, mf.p, sp.I, sp.oo, sp.nan, [1, 2], np.array([1.0, 2.0]), object(), 1j)


@pytest.mark.parametrize(("block", "name"), SCALARS, ids=lambda v: v if isinstance(v, str) else v.__name__)
@pytest.mark.parametrize("value", bad(-1, *NOT_SCALARS))
def test_block_scalars(block: Any, name: str, value: Any) -> None:
    refused(lambda: block(**{name: value}), name)


@pytest.mark.parametrize("value", bad(*NOT_SCALARS))
def test_signed_scalars(value: Any) -> None:
    refused(lambda: mf.Scale(factor=value), "factor")
    refused(lambda: mf.leaky_relu(negative_slope=value), "negative_slope")
    refused(lambda: mf.Residual(mf.Linear(), skip=value), "skip")
    refused(lambda: mf.Residual(mf.Linear(), scale=value), "scale")


@pytest.mark.parametrize("value", bad(0, -1, 1.5, sp.Rational(5, 2)))
def test_whole_tokens(value: Any) -> None:
    refused(lambda: mf.Attention(n=value), "n", kind=ValueError)


@pytest.mark.parametrize("value", bad(1, 0, None, "yes"))
def test_softmax_derivative(value: Any) -> None:
    refused(lambda: mf.Attention(softmax_derivative=value), "softmax_derivative", kind=TypeError)


@pytest.mark.parametrize("value", bad(sp.tanh, "relu", None, 3, sp.tanh(mf.x), mf.LayerNorm()))
def test_phi(value: Any) -> None:
    for build in (mf.Activate, mf.MLP, mf.mlp):
        refused(lambda build=build: build(value), "phi", kind=TypeError)


@pytest.mark.parametrize("name", ["sigma_1", "sigma_2"])
@pytest.mark.parametrize("value", bad(-1, NAN, "a"))
def test_mlp_branch_scales(name: str, value: Any) -> None:
    refused(lambda: mf.MLP(mf.relu, **{name: value}), name)


@pytest.mark.parametrize("name", ["sigma_w", "sigma_b"])
@pytest.mark.parametrize("value", bad(-1, NAN, "a"))
def test_mlp_scales(name: str, value: Any) -> None:
    refused(lambda: mf.mlp(mf.relu, **{name: value}), name)


NOT_BLOCKS = (3, None, "a", mf.relu, sp.tanh(mf.x))


@pytest.mark.parametrize("value", bad(*NOT_BLOCKS))
def test_not_a_block(value: Any) -> None:
    refused(lambda: mf.Residual(value), "branch", kind=TypeError)
    refused(lambda: mf.Repeat(value, 2), "block", kind=TypeError)
    refused(lambda: mf.LayerNorm() >> value, "block", kind=TypeError)
    refused(lambda: mf.LayerNorm() + value, "block", kind=TypeError)
    refused(lambda: value >> mf.LayerNorm(), kind=TypeError)


@pytest.mark.parametrize("value", bad(*NOT_BLOCKS))
def test_not_blocks(value: Any) -> None:
    refused(lambda: mf.Serial((mf.LayerNorm(), value)), "block", kind=TypeError)
    refused(lambda: mf.Parallel((mf.Linear(), value)), "block", kind=TypeError)


@pytest.mark.parametrize(("kind", "name"), [(mf.Serial, "blocks"), (mf.Parallel, "branches")])
@pytest.mark.parametrize("value", bad(3, None, mf.Linear(), mf.relu))
def test_no_tuple_of_blocks(kind: Any, name: str, value: Any) -> None:
    refused(lambda: kind(value), name, "tuple", kind=TypeError)


def test_any_sequence_of_blocks_is_a_tuple_of_them() -> None:
    parts = mf.Activate(mf.relu), mf.Linear(1, 0)
    assert mf.Serial(list(parts)) == mf.Serial(iter(parts)) == mf.Serial(parts)


@pytest.mark.parametrize("kind", [mf.Serial, mf.Parallel])
def test_nothing_to_compose(kind: Any) -> None:
    refused(lambda: kind(()), kind=ValueError)


@pytest.mark.parametrize("value", bad(0, -1, 1.5, True, "2", NAN, None))
def test_times(value: Any) -> None:
    refused(lambda: mf.Repeat(mf.Linear(), value), "times")


PARTS = [(name, value) for name in ("norm", "attention", "mlp") for value in NOT_BLOCKS if (name, value) != ("attention", None)]


@pytest.mark.parametrize(("name", "value"), PARTS)
def test_pre_norm_parts(name: str, value: Any) -> None:
    good = {"norm": mf.LayerNorm(), "attention": mf.Attention(), "mlp": mf.MLP(mf.relu)}
    refused(lambda: mf.pre_norm(**{**good, name: value}), name, kind=TypeError)


@pytest.mark.parametrize("name", ["norm", "attention", "mlp"])
def test_pre_norm_missing(name: str) -> None:
    good = {"norm": mf.LayerNorm(), "attention": mf.Attention(), "mlp": mf.MLP(mf.relu)}
    refused(lambda: mf.pre_norm(**{k: v for k, v in good.items() if k != name}), name, kind=TypeError)


@pytest.mark.parametrize("name", ["skip", "scale"])
@pytest.mark.parametrize("value", bad(NAN, "a", mf.x, [1]))
def test_pre_norm_scales(name: str, value: Any) -> None:
    refused(lambda: mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu), **{name: value}), name)


@pytest.mark.parametrize("value", bad(NAN, "x", mf.x, [1]))
def test_gains_of_branches(value: Any) -> None:
    refused(lambda: mf.rezero(attention=None, mlp=mf.MLP(mf.relu), gain=value), "gain")
    refused(lambda: mf.skip_init(mf.MLP(mf.relu), gain=value), "gain")


@pytest.mark.parametrize("value", bad(np.eye(2), sp.eye(2), [[1.0]], "x", None))
def test_weights_are_a_function_of_the_token_indices(value: Any) -> None:
    for kind in (mf.FixedAttention, mf.MaskedAttention):
        refused(lambda kind=kind: kind(value), "weights", "mf.i", "mf.j", type(value).__name__, kind=TypeError)


@pytest.mark.parametrize("value", bad(3, None, "abc", [1, "a"], [NAN]))
def test_frequencies(value: Any) -> None:
    refused(lambda: mf.CausalAttention(sigma_Q=1, sigma_K=1, frequencies=value), "frequencies")
    refused(lambda: mf.CausalAttention(frequencies=value), "frequencies")
    refused(lambda: mf.MaskedAttention(1, frequencies=value), "frequencies")


def test_frequencies_turn_queries_and_keys() -> None:
    for logits in ({}, {"sigma_Q": 1}, {"sigma_Q": 0, "sigma_K": 1}):
        refused(lambda logits=logits: mf.CausalAttention(frequencies=(1,), **logits), "frequencies", "sigma_Q", "sigma_K", kind=ValueError)
    assert mf.CausalAttention(sigma_Q=1, sigma_K=1, frequencies=np.array([0.5])).frequencies == (sp.Rational(1, 2),)


class Lawless(mf.Block):
    """whose law is none"""

    tokenwise = True

    def law(self, signal: mf.Signal) -> mf.Law:
        return 3  # type: ignore[return-value]


def test_what_a_law_must_return() -> None:
    for use in (mf.recursion, mf.Residual, mf.scaling.degree, lambda b: b >> mf.Linear(), lambda b: mf.Product(b, mf.Linear())):
        refused(lambda use=use: use(Lawless()), "Lawless.law", "3", "mf.Law", kind=TypeError)
    refused(lambda: mf.propagate(Lawless(), **START), "Lawless.law", "mf.Law", kind=TypeError)


# -- what a network costs ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["width", "depth", "hidden", "n", "vocabulary"])
@pytest.mark.parametrize("value", bad(-1, 1.5, sp.Rational(1, 2), sp.Symbol("z", negative=True), NAN, INF, "a", True, [1], 1j))
def test_sizes_of_a_budget(name: str, value: Any) -> None:
    refused(lambda: mf.budget(RELU, **{name: value}), name)


@pytest.mark.parametrize("name", ["width", "depth", "hidden", "n"])
def test_no_size_of_a_budget_is_0(name: str) -> None:
    refused(lambda: mf.budget(RELU, **{name: 0}), name, kind=ValueError)
    assert mf.budget(RELU, vocabulary=0) == mf.budget(RELU)


@pytest.mark.parametrize("value", bad("x", 1, 0, None))
def test_tied(value: Any) -> None:
    refused(lambda: mf.budget(RELU, vocabulary=7, tied=value), "tied", kind=TypeError)


# -- articles ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", bad(3, None, b"r.tex", ["r.tex"]))
def test_path_of_an_article(value: Any) -> None:
    refused(lambda: mf.report(RELU, value), "path", kind=TypeError)


@pytest.mark.parametrize("values", [{"q": -1}, {"q": 1.0}, {"c": 0.5}, {"q": 2.0, "sigma_w": 1.0}], ids=str)
def test_values_of_a_run_without_a_depth(values: dict[str, Any], tmp_path: Path) -> None:
    refused(lambda: mf.report(RELU, tmp_path / "r.tex", **values), *values, "depth", kind=ValueError)
    assert not list(tmp_path.iterdir())


# -- activations -------------------------------------------------------------------------------------------------------------------------

X = mf.x
NOT_EXPRESSIONS = ("tanh(x)", None, sp.tanh, True, [X], sp.Matrix([X]), X < 1, object(), np.tanh)
NO_ACTIVATIONS = (
    3, 2.5, sp.Integer(2), sp.Symbol("z"), mf.q, X + mf.q, X * mf.y, X * mf.p, X + mf.l, X * sp.I, X + sp.oo, X + sp.nan, NAN,
)  # fmt: skip
NOT_WRITTEN_OUT = (sp.Function("f")(X), sp.Derivative(sp.sin(X), X), sp.Integral(sp.exp(-(X**2)), X), sp.Sum(X**mf.n, (mf.n, 0, 3)))
NOT_REAL = (
    X * sp.Symbol("b", imaginary=True),
    sp.sqrt(X**2 + sp.Symbol("b", negative=True)),
    sp.log(X),
    sp.sqrt(X),
    X ** sp.Rational(3, 2),
    sp.asin(X),
    sp.acos(X),
    sp.atanh(X),
    sp.sqrt(X - 1),
)


@pytest.mark.parametrize("value", bad(*NOT_EXPRESSIONS))
def test_not_an_expression(value: Any) -> None:
    refused(lambda: mf.Activation(value), "expression", kind=TypeError)


@pytest.mark.parametrize("value", bad(*NO_ACTIVATIONS))
def test_not_a_function_of_x(value: Any) -> None:
    refused(lambda: mf.Activation(value), "expression", kind=ValueError)


@pytest.mark.parametrize("value", bad(*NOT_WRITTEN_OUT))
def test_not_written_out(value: Any) -> None:
    with pytest.raises(ValueError, match=r"expression = .*: .* is unevaluated or undefined"):
        mf.Activation(value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (sp.besselj(0, X), "besselj of x has no numeric form: an activation is written in powers, Abs, Heaviside"),
        (sp.Heaviside(X) * sp.airyai(X), "airyai of x has no numeric form"),
        (sp.LambertW(X**2), "LambertW of x has no numeric form"),
        (sp.floor(X), "jumps without end.* write the steps that count as a sum"),
        (X - sp.ceiling(X), "jumps without end"),
        (sp.Mod(X, 1), "jumps without end"),
        (sp.frac(X), "jumps without end"),
        (sp.DiracDelta(X), "a delta is no function"),
        (X + sp.DiracDelta(X - 1, 1), "a delta is no function"),
    ],
    ids=str,
)
def test_no_function_that_has_numbers(value: sp.Expr, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"expression = .*{reason}"):
        mf.Activation(value)


def test_functions_by_other_names_have_numbers() -> None:
    """evaluated in tests of rates"""
    assert mf.Activation(sp.sech(X)) == mf.Activation(1 / sp.cosh(X))
    assert mf.Activation(X * sp.coth(X)) == mf.Activation(X / sp.tanh(X))


def test_masked_entries_are_refused() -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(TypeError, match=r"q is a masked array .* q\.compressed"):
        mf.evaluate(mf.tanh.second_moment(mf.q), q=masked)


@pytest.mark.parametrize("value", bad(*NOT_REAL))
def test_not_real_on_the_real_line(value: Any) -> None:
    refused(lambda: mf.Activation(value), "expression", kind=ValueError)


@pytest.mark.parametrize("moment", ["mean", "second_moment", "kernel", "gap"])
@pytest.mark.parametrize("value", bad(0, -1, NAN, INF, "a", None, True, sp.I, sp.oo, [1.0], 1j))
def test_variance_of_a_moment(moment: str, value: Any) -> None:
    more = (0.3,) if moment in ("kernel", "gap") else ()
    refused(lambda: getattr(mf.relu, moment)(value, *more), "q1" if moment == "kernel" else "q")


@pytest.mark.parametrize("value", bad(2.0, -2.0, NAN, INF, "a", None, True, sp.I, [0.1]))
def test_covariance_of_a_kernel(value: Any) -> None:
    refused(lambda: mf.relu.kernel(1.0, value), "p")
    refused(lambda: mf.tanh.kernel(0.5, value, 0.5), "p")


def test_symbols_that_cannot_be_a_law() -> None:
    refused(lambda: mf.relu.kernel(mf.q, 2 * mf.q), "p", kind=ValueError)
    refused(lambda: mf.relu.kernel(mf.q, 2 * mf.q, 3 * mf.q), "p", kind=ValueError)
    refused(lambda: mf.relu.mean(sp.Symbol("v", negative=True)), "q", kind=ValueError)
    assert mf.relu.kernel(mf.q, -mf.q) == 0


@pytest.mark.parametrize("value", bad(-0.1, 2.1, NAN, "a", None, True))
def test_delta_of_a_gap(value: Any) -> None:
    refused(lambda: mf.relu.gap(1.0, value), "delta")
    refused(lambda: mf.tanh.gap(1.0, value), "delta")


def test_other_arguments_of_a_moment() -> None:
    refused(lambda: mf.relu.kernel(1.0, 0.1, -1.0), "q2", kind=ValueError)
    refused(lambda: mf.relu.kernel(1.0, 0.1, "a"), "q2", kind=TypeError)
    for value in (NAN, "a", True):
        refused(lambda value=value: mf.relu.mean(1.0, mean=value), "mean")
        refused(lambda value=value: mf.relu.kernel(1.0, 0.1, mean=value), "mean")
    for value in ("foo", 3, None):
        refused(lambda value=value: mf.relu.is_closed(value), "moment")


def test_no_such_activation() -> None:
    with pytest.raises(AttributeError, match="rellu"):
        _ = mf.rellu
    with pytest.raises(KeyError):
        _ = mf.activations["rellu"]


# -- expectations and numbers ------------------------------------------------------------------------------------------------------------

KERNEL = mf.relu.kernel(mf.q, mf.p)
OPEN = mf.tanh.kernel(mf.q, mf.p)


@pytest.mark.parametrize("value", bad("a", None, sp.tanh, True, [X], NAN))
def test_expectation_of_nothing(value: Any) -> None:
    refused(lambda: mf.E(value, mf.q), "f")


@pytest.mark.parametrize("value", bad(-1, 0, NAN, INF, "a", None, True))
def test_expectation_variance(value: Any) -> None:
    refused(lambda: mf.E(X, value), "q")
    refused(lambda: mf.E(X * mf.y, value, mf.p), "q")


def test_expectation_arguments() -> None:
    refused(lambda: mf.E(X * mf.y, 1, 2), "p", kind=ValueError)
    refused(lambda: mf.E(X * mf.y, 1, sp.Rational(1, 2), -1), "q2", kind=ValueError)
    refused(lambda: mf.E(X * mf.y, mf.q), "y", kind=ValueError)
    refused(lambda: mf.E(X), "q", kind=TypeError)
    refused(lambda: mf.E(X, 1, 0, 1, 1), "q", kind=TypeError)
    refused(lambda: mf.E(X, 1, mean=NAN), "mean", kind=ValueError)


@pytest.mark.parametrize("value", bad(-1, *NOT_FINITE, *NOT_NUMBERS))
def test_evaluate_values(value: Any) -> None:
    refused(lambda: mf.evaluate(KERNEL, q=value, p=0.1), "q")
    refused(lambda: mf.evaluate(OPEN, q=value, p=0.1), "q")


@pytest.mark.parametrize("expression", [KERNEL, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize("digits", [None, 20])
def test_evaluate_covariance_beyond_the_variance(expression: sp.Expr, digits: int | None) -> None:
    refused(lambda: mf.evaluate(expression, q=1, p=2, digits=digits), "p", kind=ValueError)
    refused(lambda: mf.evaluate(expression, q=1, p=-2, digits=digits), "p", kind=ValueError)


@pytest.mark.parametrize("gap", [mf.relu.gap(mf.q, mf.delta), mf.tanh.gap(mf.q, mf.delta)], ids=["closed", "open"])
@pytest.mark.parametrize("delta", [-0.1, 3.0])
def test_evaluate_delta_out_of_range(gap: sp.Expr, delta: float) -> None:
    refused(lambda: mf.evaluate(gap, q=1.0, delta=delta), "delta", kind=ValueError)


@pytest.mark.parametrize("value", bad(-1, NAN, "a", None))
def test_evaluate_to_digits(value: Any) -> None:
    refused(lambda: mf.evaluate(KERNEL, q=value, p=0.1, digits=20), "q")


def test_evaluate_names() -> None:
    message = refused(lambda: mf.evaluate(KERNEL, q=1.0, z=2.0), "p", "z", "q", kind=ValueError)
    assert "missing" in message
    assert "unused" in message


def test_evaluate_shapes() -> None:
    refused(lambda: mf.evaluate(KERNEL, q=[1.0, 2.0, 3.0], p=[0.1, 0.2]), "q", "p", kind=ValueError)
    refused(lambda: mf.evaluate(KERNEL, q=[1.0, 2.0], p=0.1, digits=20), "q")


@pytest.mark.parametrize("value", bad(0, -1, 1.5, "a", True, NAN))
def test_evaluate_digits(value: Any) -> None:
    refused(lambda: mf.evaluate(KERNEL, q=1.0, p=0.3, digits=value), "digits")


def test_evaluate_flags() -> None:
    """no argument is accepted and ignored"""
    refused(lambda: mf.evaluate(KERNEL, q=1.0, p=0.3, error=3), "error", kind=TypeError)
    refused(lambda: mf.evaluate(KERNEL, q=1.0, p=0.3, log="yes"), "log", kind=TypeError)
    refused(lambda: mf.evaluate(KERNEL, q=1.0, p=0.3, digits=20, error=True), "error", "digits")


@pytest.mark.parametrize("value", bad("a", None, RELU, mf.relu, sp.tanh, [KERNEL]))
def test_evaluate_expression(value: Any) -> None:
    refused(lambda: mf.evaluate(value, q=1.0), "expression", kind=TypeError)


@pytest.mark.parametrize("value", bad(None, "a", object()))
def test_latex(value: Any) -> None:
    refused(lambda: mf.latex(value), "expression", "run", "growth", "rule", "fixed", kind=TypeError)


# -- the guard itself --------------------------------------------------------------------------------------------------------------------


def test_the_guard_sees_work() -> None:
    """good input asks for a kernel, and the fixture that forbids it says so: the tests above cannot pass after work has begun"""
    with pytest.raises(BaseException, match="before the arguments were checked"):
        mf.propagate(mf.mlp(mf.erf, 1.25, 0.125), 3, 1.0, c=0.5)
    with pytest.raises(BaseException, match="before the arguments were checked"):
        mf.evaluate(OPEN, q=1.0, p=0.25)


def test_bad_input_is_refused_before_any_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    """a network never seen before is refused without deriving a kernel"""
    phi = mf.Activation(sp.erf(sp.Symbol("never_seen", positive=True) * mf.x) + mf.x)

    def derived(*args: object, **kwargs: object) -> None:
        pytest.fail("a kernel was derived")

    for name in ("cross", "gap", "stable_cross"):
        monkeypatch.setattr(f"meanfield.gaussian.closed.{name}", derived)
    refused(lambda: mf.propagate(mf.mlp(phi, 1, 0), -1, 1.0), "depth")
    with pytest.raises(pytest.fail.Exception, match="a kernel was derived"):
        phi.kernel(mf.q, mf.p)


def test_a_variance_of_0_and_a_negative_one_are_told_the_same() -> None:
    for value in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"q = {value:g}: a variance must be positive"):
            mf.evaluate(mf.relu.second_moment(mf.q), q=value)
