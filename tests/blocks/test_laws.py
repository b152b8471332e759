"""Each block's law against a formula typed here, the three laws of composition, and what is refused while a network is described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import (
    MPF,
    arc_cosine,
    certified_mean,
    derf_norm,
    erf_kernel,
    erf_slope,
    gelu_kernel,
    gelu_slope,
    layer_norm,
    oracle_transformer,
    relative,
    transformer,
)

import meanfield as mf

Numbers = dict[str, mp.mpf]
KEYS = ("q", "p", "delta", "mean", "JJ", "JK", "KJ", "KK", "chi")
POINTS = ((1.0, 0.4), (0.3, -0.1), (2.5, 2.4))


def put(expression: Any, values: dict[Any, Any]) -> mp.mpf:
    number = sp.N(sp.sympify(expression).xreplace(values).doit(), 40)
    assert number.is_Float or number.is_Rational, number
    return mp.mpf(number._to_mpmath(mp.mp.prec)) if number.is_Float else mp.mpf(number.p) / number.q


def numbers(block: mf.Block, q: float, p: float, mean: Any = 0, gaussian: bool = True, **parameters: Any) -> Numbers:
    """every entry of a law at one point, named quantities put in; those with a form for kernels are held against it"""
    law = block.law(mf.Signal(mf.q, mf.p, mf.delta, sp.sympify(mean), gaussian))
    values: dict[Any, Any] = {mf.q: sp.Rational(q), mf.p: sp.Rational(p), mf.delta: sp.Rational(q) - sp.Rational(p)}
    expressions = [law.output.q, law.output.p, law.output.delta, law.output.mean, *law.transfer, law.chi]
    free = set().union(*(sp.sympify(e).free_symbols for e in expressions), *(d.value.free_symbols for d in law.definitions))
    values |= {s: sp.Rational(str(parameters[s.name])) for s in free if s.name in parameters}
    for d in law.definitions:
        values[d.symbol] = sp.N(d.value.xreplace(values).doit(), 60)
    for d in law.definitions:
        if d.kernel is not None:
            assert abs(put(d.kernel, values) - put(d.symbol, values)) < mp.mpf(10) ** -35, d.latex
    return dict(zip(KEYS, (put(e, values) for e in expressions), strict=True))


def check(block: mf.Block, typed: Callable[[mp.mpf, mp.mpf], Numbers], **parameters: Any) -> None:
    with mp.workdps(45):
        for q, p in POINTS:
            found, truth = numbers(block, q, p, **parameters), typed(mp.mpf(q), mp.mpf(p))
            for key, value in truth.items():
                assert abs(found[key] - value) <= mp.mpf("1e-32") * max(1, abs(value)), (key, q, p, found[key], value)
            assert abs(found["delta"] - (found["q"] - found["p"])) <= mp.mpf("1e-32")


def diagonal(q: Any, p: Any, same: Any, cross: Any, mean: Any = 0) -> Numbers:
    return {"q": q, "p": p, "mean": mean, "JJ": same, "JK": mp.mpf(0), "KJ": mp.mpf(0), "KK": cross, "chi": same}


# -- elementary blocks ------------------------------------------------------------------------------------------------------------------


def test_linear() -> None:
    with mp.workdps(45):
        w, b = mp.mpf("1.3") ** 2, mp.mpf("0.2") ** 2
        check(mf.Linear(), lambda q, p: diagonal(w * q + b, w * p + b, w, w), sigma_w=1.3, sigma_b=0.2)


def test_scale_and_identity() -> None:
    with mp.workdps(45):
        g = mp.mpf("0.7") ** 2
        check(mf.Scale(), lambda q, p: diagonal(g * q, g * p, g, g), factor=0.7)
        check(mf.Identity(), lambda q, p: diagonal(q, p, mp.mpf(1), mp.mpf(1)))


def test_norms() -> None:
    for norm in (mf.LayerNorm(), mf.RMSNorm()):
        check(norm, lambda q, p: diagonal(mp.mpf(1), p / q, 1 / q, 1 / q))


def test_norms_of_a_signal_with_a_mean() -> None:
    """LayerNorm subtracts the mean, RMSNorm keeps it"""
    with mp.workdps(45):
        m = mp.mpf(1) / 4
        found = numbers(mf.LayerNorm(), 1.0, 0.4, mean=sp.Rational(1, 4), gaussian=False)
        v = 1 - m * m
        truth = diagonal(mp.mpf(1), (mp.mpf(0.4) - m * m) / v, 1 / v, 1 / v)
        assert all(abs(found[k] - truth[k]) < mp.mpf("1e-35") for k in truth)
        found = numbers(mf.RMSNorm(), 4.0, 0.4, mean=sp.Rational(1, 4), gaussian=False)
        truth = diagonal(mp.mpf(1), mp.mpf(0.4) / 4, mp.mpf(1) / 4, mp.mpf(1) / 4, mean=m / 2)
        assert all(abs(found[k] - truth[k]) < mp.mpf("1e-35") for k in truth)


def test_norm_after_relu() -> None:
    """LayerNorm sees nu^2 - mu^2, RMSNorm nu^2 (theory.md 6)"""
    with mp.workdps(45):
        for norm, variance in ((mf.LayerNorm(), lambda q: q / 2 - q / (2 * mp.pi)), (mf.RMSNorm(), lambda q: q / 2)):
            rec = mf.recursion(mf.Activate(mf.relu) >> (norm >> mf.Linear(1, 0)))
            for q, p in POINTS:
                q_, p_ = mp.mpf(q), mp.mpf(p)
                v = variance(q_)
                shift = q_ / 2 - v
                kernel, slope = arc_cosine(1, q_, p_, q_), arc_cosine(0, q_, p_, q_)
                at = {mf.q: sp.Rational(q), mf.p: sp.Rational(p)}
                assert abs(put(rec.q, at) - 1) < mp.mpf("1e-35")
                assert abs(put(rec.p, at) - (kernel - shift) / v) < mp.mpf("1e-32")
                assert abs(put(rec.chi, at) - mp.mpf(1) / 2 / v) < mp.mpf("1e-32")
                assert abs(put(rec.transfer[1, 1], at) - slope / v) < mp.mpf("1e-32")


def test_activations() -> None:

    def relu(q: mp.mpf, p: mp.mpf) -> Numbers:
        return diagonal(q / 2, arc_cosine(1, q, p, q), mp.mpf(1) / 2, arc_cosine(0, q, p, q), mp.sqrt(q / (2 * mp.pi)))

    def gelu(q: mp.mpf, p: mp.mpf) -> Numbers:
        moments = (gelu_kernel(q, q, q), gelu_kernel(q, p, q), gelu_slope(q, q, q), gelu_slope(q, p, q))
        return diagonal(*moments, q / mp.sqrt(2 * mp.pi * (1 + q)))

    check(mf.Activate(mf.relu), relu)
    check(mf.Activate(mf.gelu), gelu)
    with mp.workdps(45):
        a = mp.mpf("0.8")

        def typed(q: mp.mpf, p: mp.mpf) -> Numbers:
            return diagonal(erf_kernel(a, q, q, q), erf_kernel(a, q, p, q), erf_slope(a, q, q, q), erf_slope(a, q, p, q))

        check(mf.Derf(), typed, alpha=0.8)
        check(mf.Derf(0.8), typed)


def test_dyt() -> None:
    """the same-token entries by certified quadrature at alpha^2 q"""
    with mp.workdps(45):
        law = mf.DyT(0.5).law(mf.Signal(mf.q, mf.p, mf.delta))
        q = 3.0
        second = certified_mean((lambda m, x: m.tanh(x),) * 2, 2, 0.25 * q)
        slope = certified_mean((lambda m, x: 1 - m.tanh(x) ** 2,) * 2, 2, 0.25 * q)
        at = {mf.q: sp.Rational(q)}
        assert abs(put(law.output.q, at) - mp.mpf(second.mid().str(40, radius=False))) < mp.mpf("1e-35")
        assert abs(put(law.chi, at) - mp.mpf(slope.mid().str(40, radius=False)) / 4) < mp.mpf("1e-35")


@pytest.mark.parametrize("softmax_derivative", [False, True])
@pytest.mark.parametrize("n", [1, 2, 16])
def test_attention(n: int, softmax_derivative: bool) -> None:
    """theory.md 4.1 and 4.2 with the branch alone: what oracle_transformer adds to the skip, without a norm"""
    scales = {"sigma_Q": 0.9, "sigma_K": 0.7, "sigma_V": 1.1, "sigma_O": 0.6}

    def typed(q: mp.mpf, p: mp.mpf) -> Numbers:
        a, s, D = (mp.mpf("1.1") * mp.mpf("0.6")) ** 2, (mp.mpf("0.9") * mp.mpf("0.7")) ** 2, q - p
        yq, yp = (1 / (1 + (n - 1) * mp.exp(-s * r * D)) for r in (q, p))
        jj, jk = yq, (n - 1) * yp
        kj, kk = mp.exp(-s * q * D) * yq, 1 - yp  # (1 - y_q)/(n - 1)
        if softmax_derivative:
            eta = 1 / (1 + 2 * s * q * D * yq)
            psi_q, psi_p = yq * (1 - yq) * eta, yp * (1 - yp) * eta
            jj, jk = jj + s * D * (D + q) * psi_q, jk + s * D * (n - 1) * p * psi_p
            kj, kk = kj - s * D * q * mp.exp(-s * q * D) * yq**2 * eta, kk + s * D * (D - p) * psi_p
        entries = {"JJ": a * jj, "JK": a * jk, "KJ": a * kj, "KK": a * kk, "chi": a * jj}
        return {"q": a * (p + D * yq), "p": a * (p + D * yp), "mean": mp.mpf(0), **entries}

    check(mf.Attention(softmax_derivative=softmax_derivative), typed, n=n, **scales)
    check(mf.Attention(n, 0.9, 0.7, 1.1, 0.6, softmax_derivative), typed)


def test_attention_limits() -> None:
    """n = 1 is the linear map W_O W_V; sigma_QK = 0 is the mean over tokens; equal tokens stay equal"""
    with mp.workdps(45):
        one = numbers(mf.Attention(1, 2, 3, 1.5, 0.5), 1.7, 0.3)
        a = mp.mpf("0.5625")
        assert all(abs(one[k] - v) < mp.mpf("1e-35") for k, v in {"q": a * mp.mpf(1.7), "JJ": a, "JK": 0, "KK": 0}.items())
        n, q, p = 5, mp.mpf(2), mp.mpf(0.5)
        mean = numbers(mf.Attention(n, 0, 1, 1, 1), 2.0, 0.5)
        for k in ("q", "p"):
            assert abs(mean[k] - (p + (q - p) / n)) < mp.mpf("1e-35")
        same = numbers(mf.Attention(n, 1, 1, 1, 1), 2.0, 2.0)
        assert all(abs(same[k] - v) < mp.mpf("1e-35") for k, v in {"q": q, "p": q, "JJ": mp.mpf(1) / n, "JK": mp.mpf(n - 1) / n}.items())
        # a matrix of equal weights conserves the token-uniform gradient: J + (n-1) K <- the same for the row sums of T
        assert abs(same["JJ"] + same["JK"] - 1) < mp.mpf("1e-35")
        assert abs(same["KJ"] + same["KK"] - 1) < mp.mpf("1e-35")


def test_mlp_branch() -> None:
    with mp.workdps(45):
        w = (mp.mpf("0.64") * mp.mpf("1.28")) ** 2
        check(
            mf.MLP(mf.relu),
            lambda q, p: diagonal(w * q / 2, w * arc_cosine(1, q, p, q), w / 2, w * arc_cosine(0, q, p, q)),
            sigma_1=0.64, sigma_2=1.28,
        )  # fmt: skip


# -- composition -------------------------------------------------------------------------------------------------------------------------

A, B, C = mf.LayerNorm(), mf.Linear(1.2, 0.3), mf.MLP(mf.gelu, 0.8, 1.1)


def same_law(a: mf.Block, b: mf.Block, **parameters: Any) -> None:
    with mp.workdps(45):
        for q, p in POINTS:
            x, y = numbers(a, q, p, **parameters), numbers(b, q, p, **parameters)
            for key in KEYS:
                assert abs(x[key] - y[key]) < mp.mpf("1e-32"), key


def test_serial_is_associative() -> None:
    assert (A >> B) >> C == A >> (B >> C)
    assert hash((A >> B) >> C) == hash(A >> (B >> C))
    same_law((A >> B) >> C, mf.Serial((mf.Serial((A, B)), C)))
    same_law((A >> B) >> C, mf.Serial((A, mf.Serial((B, C)))))


PIECES = {
    "norm, norm-like, linear": (mf.LayerNorm(), mf.Derf(0.7), mf.Linear(1, 0)),
    "activation, norm, linear": (mf.Activate(mf.relu), mf.LayerNorm(), mf.Linear(1, 0)),
    "norm, activation, linear": (mf.RMSNorm(), mf.Activate(mf.gelu), mf.Linear(1, 0)),
    "activation, scale, linear": (mf.Activate(mf.relu), mf.Scale(2), mf.Linear(1, 0)),
    "activation, identity, linear": (mf.Activate(mf.erf), mf.Identity(), mf.Linear(1, 0)),
}


@pytest.mark.parametrize("name", PIECES)
def test_serial_may_be_written_from_the_left(name: str) -> None:
    """a >> b >> c reads from the left: what a part would do if it were repeated is no reason to refuse the whole"""
    a, b, c = PIECES[name]
    assert a >> b >> c == a >> (b >> c)


def test_serial_composes_and_multiplies() -> None:
    """signal maps compose, transfers multiply T_a(input) T_b(output of a), chi's multiply"""
    with mp.workdps(45):
        first, second = mf.Attention(4, 0.8, 0.9, 1.1, 0.7), mf.MLP(mf.gelu, 0.8, 1.1)
        for q, p in POINTS:
            whole, a = numbers(first >> second, q, p), numbers(first, q, p)
            law = second.law(mf.Signal(mf.q, mf.p, mf.delta))
            values: dict[Any, Any] = {mf.q: sp.Float(a["q"], 45), mf.p: sp.Float(a["p"], 45), mf.delta: sp.Float(a["delta"], 45)}
            for d in law.definitions:
                values[d.symbol] = sp.N(d.value.xreplace(values).doit(), 45)
            b = [put(e, values) for e in law.transfer]
            truth = [a["JJ"] * b[0], a["JK"] * b[3], a["KJ"] * b[0], a["KK"] * b[3]]
            for key, value in zip(("JJ", "JK", "KJ", "KK"), truth, strict=True):
                assert abs(whole[key] - value) < mp.mpf("1e-32"), key
            assert abs(whole["chi"] - a["chi"] * put(law.chi, values)) < mp.mpf("1e-32")
            assert abs(whole["q"] - put(law.output.q, values)) < mp.mpf("1e-32")


def test_residual() -> None:
    """q <- s^2 q + b^2 q_f, T <- s^2 + b^2 T_f, chi <- s^2 + b^2 chi_f"""
    with mp.workdps(45):
        branch = mf.Attention(4, 0.8, 0.9, 1.1, 0.7)
        s, b = mp.mpf("0.9") ** 2, mp.mpf("0.5") ** 2
        for q, p in POINTS:
            f, whole = numbers(branch, q, p), numbers(mf.Residual(branch, 0.9, 0.5), q, p)
            truth = {"q": s * mp.mpf(q) + b * f["q"], "p": s * mp.mpf(p) + b * f["p"], "chi": s + b * f["chi"]}
            truth |= {"JJ": s + b * f["JJ"], "KK": s + b * f["KK"], "JK": b * f["JK"], "KJ": b * f["KJ"]}
            for key, value in truth.items():
                assert abs(whole[key] - value) < mp.mpf("1e-33"), key


def test_residual_of_nothing() -> None:
    same_law(mf.Residual(B, scale=0), mf.Identity())
    same_law(mf.Residual(B, skip=0), B)
    same_law(mf.Residual(B, skip=0.5, scale=0), mf.Scale(0.5))


def test_parallel() -> None:
    """branches from the same input add; addition is associative and commutative"""
    f, g, h = mf.Linear(1.2, 0.3), mf.MLP(mf.relu, 1, 0.7), mf.Attention(3, 0.5, 0.5, 1, 1)
    with mp.workdps(45):
        for q, p in POINTS:
            parts, whole = [numbers(b, q, p) for b in (f, g, h)], numbers(f + g + h, q, p)
            for key in KEYS:
                assert abs(whole[key] - sum(part[key] for part in parts)) < mp.mpf("1e-33"), key
    same_law((f + g) + h, f + (g + h))
    same_law(f + g, g + f)
    same_law(mf.Residual(f + g), mf.Residual(g + f))


def test_parallel_block_is_one_residual_of_two_branches() -> None:
    """theory.md 4.1: add both increments from the same normed signal"""
    net = mf.Residual(mf.LayerNorm() >> (mf.Attention(8, 0.5, 0.5, 1, 1, False) + mf.MLP(mf.relu, 1, 1)))
    found = mf.propagate(net, 1, 1.5, p=0.3)
    oracle = oracle_transformer(MPF, layer_norm, n=8, sigma_Q=0.5, sigma_K=0.5, sigma_V=1, sigma_O=1, sigma_1=1, sigma_2=1)
    with mp.workdps(30):
        q, p = mp.mpf(1.5), mp.mpf(0.3)
        (qa, pa, _, ca), (qm, pm, _, cm) = oracle.attention(q, p), oracle.mlp(q, p)
        assert found.q[1] == pytest.approx(float(qa + qm - q), rel=1e-14)
        assert found.p[1] == pytest.approx(float(pa + pm - p), rel=1e-14)
        assert found.chi[0] == pytest.approx(float(ca + cm - 1), rel=1e-14)


def test_repeat() -> None:
    same_law(mf.Repeat(C, 3), C >> C >> C)


def test_named_architectures_are_spelled_with_blocks() -> None:
    norm, attention, mlp = mf.Derf(0.6), mf.Attention(5), mf.MLP(mf.relu)
    spelled = mf.Residual(norm >> attention, 0.9, 0.3) >> mf.Residual(norm >> mlp, 0.9, 0.3)
    assert mf.pre_norm(norm=norm, attention=attention, mlp=mlp, skip=0.9, scale=0.3) == spelled
    assert mf.mlp(mf.tanh, 1.2, 0.1) == mf.Activate(mf.tanh) >> mf.Linear(1.2, 0.1)


# -- refusals ----------------------------------------------------------------------------------------------------------------------------


def test_activation_after_activation_is_refused() -> None:
    tanh = mf.Activate(mf.tanh)
    for build in (
        lambda: tanh >> tanh,
        lambda: mf.Linear() >> mf.Activate(mf.relu) >> tanh,
        lambda: mf.Derf() >> mf.LayerNorm() >> mf.Derf() >> mf.Linear(),
        lambda: mf.Serial((tanh, mf.Scale(2), tanh)),
        lambda: mf.Repeat(tanh, 2),
    ):
        with pytest.raises(ValueError, match=r"not centred Gaussian.*insert a Linear before it"):
            build()


ALONE = {"tanh": mf.Activate(mf.tanh), "derf": mf.Derf(1.0), "dyt": mf.DyT(1.0), "relu": mf.Activate(mf.relu)}


@pytest.mark.parametrize("block", ALONE.values(), ids=ALONE)
def test_an_activation_alone_is_no_network(block: mf.Block) -> None:
    """one application is a law to be read; repeated, it is an activation after an activation"""
    assert (block >> mf.Linear(1, 0)).law(mf.Signal(mf.q, mf.p, mf.delta)).output.gaussian
    with pytest.raises(ValueError, match="insert a Linear"):
        mf.propagate(block, 3, 1.0, c=0.5)


def test_residual_with_an_activation_at_its_end() -> None:
    """W x and tanh(W x) are uncorrelated with x, relu(W x) is not centred; after either, no activation"""
    with pytest.raises(ValueError, match=r"non-zero mean.*end it with a Linear"):
        mf.Residual(mf.Linear() >> mf.Activate(mf.relu))
    sublayer = mf.Residual(mf.Linear() >> mf.Activate(mf.tanh))
    with pytest.raises(ValueError, match="insert a Linear before it"):
        sublayer >> mf.Residual(mf.Activate(mf.erf) >> mf.Linear())
    with pytest.raises(ValueError, match="insert a Linear before it"):
        sublayer >> mf.Residual(mf.Derf() >> mf.Linear())
    assert (sublayer >> mf.Linear() >> mf.Activate(mf.erf) >> mf.Linear()) is not None


CORRELATED = {
    "LayerNorm": mf.LayerNorm(),
    "RMSNorm": mf.RMSNorm(),
    "Identity": mf.Identity(),
    "Scale": mf.Scale(2),
    "LayerNorm, Scale": mf.LayerNorm() >> mf.Scale(2),
    "Residual": mf.Residual(mf.Linear()),
}


@pytest.mark.parametrize("name", CORRELATED)
def test_a_branch_without_weights_is_correlated_with_the_skip(name: str) -> None:
    """x + norm(x) has the variance (1 + 1/sqrt q)^2 q, not q + 1"""
    with pytest.raises(ValueError, match=r"correlated|independent|Linear"):
        mf.Residual(CORRELATED[name])
    with pytest.raises(ValueError, match=r"correlated|independent|Linear"):
        CORRELATED[name] + mf.Identity()


def test_an_activation_as_a_branch_is_correlated_with_the_skip() -> None:
    for phi in (mf.tanh, mf.relu):
        with pytest.raises(ValueError, match=r"correlated|non-zero mean"):
            mf.Residual(mf.Activate(phi))
        with pytest.raises(ValueError, match=r"correlated|non-zero mean"):
            mf.Activate(phi) + mf.Activate(phi)


def test_attention_sees_tokens_with_a_mean() -> None:
    """logits and values are random projections of the tokens: only their second moments count"""
    with mp.workdps(45):
        for q, p in POINTS:
            found, truth = (numbers(mf.Attention(4, 0.8, 0.9, 1.1, 0.7), q, p, mean=m, gaussian=False) for m in (sp.Rational(1, 4), 0))
            assert found == truth
    assert mf.Activate(mf.relu) >> mf.Attention()


def test_a_linear_map_makes_everything_gaussian() -> None:
    law = (mf.Activate(mf.relu) >> mf.Linear()).law(mf.Signal(mf.q, mf.p, mf.delta))
    assert law.output.gaussian
    assert law.output.mean == 0
    law = mf.Activate(mf.relu).law(mf.Signal(mf.q, mf.p, mf.delta))
    assert not law.output.gaussian
    assert sp.simplify(law.output.mean - sp.sqrt(mf.q / (2 * sp.pi))) == 0


# -- identity of blocks ------------------------------------------------------------------------------------------------------------------


def test_equal_blocks_are_equal() -> None:
    pairs = [
        (mf.Linear(2, 0), mf.Linear(2.0, sp.Integer(0))),
        (mf.Linear(0.1, 0), mf.Linear(np.float64(0.1), 0)),
        (mf.Linear(sp.Float("0.1"), 0), mf.Linear(sp.Rational(1, 10), 0)),
        (mf.Derf(), mf.Derf(sp.Symbol("alpha"))),
        (mf.Derf(), mf.Activate(mf.Activation(sp.erf(sp.Symbol("alpha", positive=True) * mf.x)))),
        (mf.Attention(), mf.Attention(sp.Symbol("n"))),
        (mf.MLP(mf.relu), mf.Linear(sp.Symbol("sigma_1"), 0) >> mf.Activate(mf.relu) >> mf.Linear(sp.Symbol("sigma_2", real=True), 0)),
        (transformer(), mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu))),
    ]
    for a, b in pairs:
        assert a == b
        assert hash(a) == hash(b)
        assert len({a, b}) == 1
    different = [mf.Linear(2, 0), mf.Linear(2, 1), mf.LayerNorm(), mf.RMSNorm(), mf.Identity(), mf.Derf(1), mf.DyT(1)]
    different += [mf.Attention(), mf.Attention(softmax_derivative=False)]
    assert len(set(different)) == len(different)


def test_blocks_are_frozen() -> None:
    for block in (mf.Linear(), mf.Attention(), mf.Residual(mf.Linear()), mf.LayerNorm() >> mf.Linear()):
        field = next(iter(vars(block)), "anything")
        with pytest.raises((AttributeError, TypeError)):
            setattr(block, field, 1)


def symbol_pairs() -> list[tuple[sp.Symbol, sp.Symbol]]:
    return [(sp.Symbol("g"), sp.Symbol("g", positive=True)), (sp.Symbol("g", real=True), sp.Symbol("g", nonnegative=True))]


@pytest.mark.parametrize("where", ["one branch", "two sublayers", "a net of three"])
def test_one_name_is_one_parameter(where: str) -> None:
    for a, b in symbol_pairs():
        first, second = mf.MLP(mf.relu, a, 1), mf.MLP(mf.relu, 1, b)
        two = mf.Residual(first) >> mf.Residual(second)
        third = mf.Residual(mf.Linear(sp.Symbol("g", integer=True), 0))
        net = {"one branch": mf.MLP(mf.relu, a, b), "two sublayers": two, "a net of three": two >> third}[where]
        two = mf.Residual(mf.MLP(mf.relu, 1.3, 1)) >> mf.Residual(mf.MLP(mf.relu, 1, 1.3))
        third = mf.Residual(mf.Linear(1.3, 0))
        plain = {"one branch": mf.MLP(mf.relu, 1.3, 1.3), "two sublayers": two, "a net of three": two >> third}[where]
        rec = mf.recursion(net)
        assert [s.name for s in rec.parameters] == ["g"]
        assert len({s for s in rec.q.free_symbols if s.name == "g"}) == 1
        found, truth = mf.propagate(net, 3, 1.0, c=0.3, g=1.3), mf.propagate(plain, 3, 1.0, c=0.3)
        assert relative(found.q, truth.q) < 1e-14


NAMES = ["lambda", "min", "abs", "float", "math", "angle_difference", "step", "q_tilde", "t0", "v0", "λ", "w 1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_may_have_any_name(name: str) -> None:
    """a name of Python's, of numpy's or of the generated source's is still only a name"""
    net, plain = (mf.Residual(mf.Derf(0.7) >> mf.Linear(s, 0)) for s in (sp.Symbol(name), 0.9))
    truth = mf.propagate(plain, 3, 1.0, c=0.2)
    assert relative(mf.propagate(net, 3, 1.0, c=0.2, **{name: 0.9}).q, truth.q) < 1e-14
    if name in ("min", "λ"):  # compiled too
        assert relative(mf.propagate(net, 3, 1.0, c=0.2, **{name: np.array([0.9, 1.0])}).q[0], truth.q) < 1e-14
    assert mf.evaluate(mf.recursion(net).q, q=1.0, **{name: 0.9}) == pytest.approx(truth.q[1], rel=1e-14)


def test_a_parameter_may_be_called_like_a_quadrature_function() -> None:
    name = "mean_0"
    net, plain = (mf.Residual(mf.DyT(0.7) >> mf.Linear(s, 0)) for s in (sp.Symbol(name), 0.9))
    assert relative(mf.propagate(net, 3, 1.0, c=0.2, **{name: 0.9}).q, mf.propagate(plain, 3, 1.0, c=0.2).q) < 1e-14


@pytest.mark.parametrize("name", ["net", "depth", "c", "gap", "record", "start", "q2", "out", "device"])
def test_reserved_names_are_refused(name: str) -> None:
    """a name that propagate keeps for itself cannot be a parameter"""
    symbol = sp.Symbol(name, positive=True)
    with pytest.raises(ValueError, match=f"{name} cannot be a parameter"):
        mf.propagate(mf.Linear(symbol, 0), 3, 1.0)
    if name == "q2":  # a symbol of laws, of which no activation may be
        return
    within = mf.mlp(mf.Activation(sp.tanh(symbol * mf.x) + mf.x / 5))
    for given in ({}, {"q2": 2.0}):  # of inputs of one variance, or two
        with pytest.raises(ValueError, match=f"{name} cannot be a parameter"):
            mf.propagate(within, 3, 1.0, sigma_w=1.0, sigma_b=0.0, **given)


def test_a_bound_parameter_is_none_any_more() -> None:
    with pytest.raises(ValueError, match=r"unknown parameters: sigma_w\. This network has the parameters: sigma_b"):
        mf.propagate(mf.mlp(mf.relu, sigma_w=1.0), 3, 1.0, sigma_w=1.0, sigma_b=0.0)


def test_depth_symbols_are_shared() -> None:
    net = mf.Residual(mf.Linear(1, 0), scale=1 / sp.sqrt(mf.L)) >> mf.Residual(mf.Linear(1, 0), scale=1 / sp.sqrt(sp.Symbol("L")))
    assert mf.recursion(net).parameters == ()
    assert mf.propagate(net, 10, 1.0).q[-1] == pytest.approx(1.1**20, rel=1e-13)


def test_derf_norm_of_the_oracle_is_the_block() -> None:
    """the oracle's Normed against the library's law: both sides of every trajectory test speak of the same norm"""
    with mp.workdps(45):
        typed = derf_norm(mp.mpf("0.8"))(MPF, mp.mpf(1), mp.mpf(0.4))
        found = numbers(mf.Derf(0.8), 1.0, 0.4)
        for key, value in {"q": typed.q, "p": typed.p, "JJ": typed.slope_q, "KK": typed.slope_p}.items():
            assert abs(found[key] - value) < mp.mpf("1e-32")


SETTINGS = {"sigma_V": 1, "sigma_O": 1, "sigma_1": 1, "sigma_2": 1}


@pytest.mark.parametrize(
    ("net", "more", "spare"),
    [
        (mf.sandwich_norm(norm=mf.LayerNorm(), attention=mf.UniformAttention(n=8), mlp=mf.MLP(mf.relu)), SETTINGS, "sigma_2"),
        (mf.Attention(sigma_Q=0), {"n": 3, "sigma_V": 1, "sigma_O": 1, "sigma_K": 1}, "sigma_K"),
        (mf.GAU(mf.gelu), {"s": 8, "n": 4, "d": 64, "e": 128}, "e"),
    ],
    ids=["before a norm", "without queries", "hidden units"],
)
def test_symbols_on_which_a_law_does_not_depend_may_be_given(net: mf.Block, more: dict[str, int], spare: str) -> None:
    """one dictionary of settings serves all questions"""
    needed = {name: value for name, value in more.items() if name != spare}
    given, alone = (mf.propagate(net, 2, 1.0, p=0.3, **values) for values in (more, needed))
    np.testing.assert_array_equal(given.log_apjn, alone.log_apjn)
    assert spare not in given.parameters
    assert mf.sensitivity(net, 2, 1.0, p=0.3, with_respect_to="q", **more).dq.keys() == {"q"}
    with pytest.raises(TypeError, match=rf"{spare} = \[1, 2\]: expected one number"):
        mf.propagate(net, 2, 1.0, p=0.3, **(needed | {spare: [1, 2]}))
    with pytest.raises(ValueError, match="unknown parameters: sigma_9"):
        mf.propagate(net, 2, 1.0, p=0.3, **more, sigma_9=1)


def test_other_questions_take_them_too() -> None:
    net = mf.sandwich_norm(norm=mf.LayerNorm(), attention=mf.UniformAttention(n=8), mlp=mf.MLP(mf.relu))
    assert mf.growth(net, **SETTINGS).q.kind == "power"
    assert mf.growth(net).check(depth=1000, **SETTINGS).fits
    behind = mf.Residual(mf.Linear(sp.Symbol("t"), 0), scale=0) >> mf.Activate(mf.erf) >> mf.Linear(sp.Symbol("s"), 0)
    assert mf.fixed_points(behind, s=1.2, t=1) == mf.fixed_points(behind, s=1.2)
    assert mf.critical(behind, t=1) == mf.critical(behind)
    unit = mf.GAU(mf.silu)
    sizes = {"s": 8, "n": 4, "d": 64}
    found = [mf.scaling.local_exponent(unit, lam=1.0, part="full", **sizes, **more) for more in ({}, {"e": 128})]
    assert found[0] == found[1]
