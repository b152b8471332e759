"""mf.growth: constants in closed form against theory.md 2, 3, 4.4, 4.5, 4.7 and 6, against integrals by mpmath, and against long runs."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.near_coincidence import small_gap
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pair_expectation import Gap, PairExpectation

x = mf.x
a, w = sp.symbols("a w", positive=True)
sigma_w, sigma_b, alpha = (sp.Symbol(s, positive=True) for s in ("sigma_w", "sigma_b", "alpha"))


def equal(found: sp.Expr, expected: Any) -> bool:
    return sp.simplify(found - expected) == 0


def toy(phi: mf.Activation, weight: Any = None, bias: Any = None) -> mf.Residual:
    return mf.Residual(mf.Activate(phi) >> mf.Linear(weight, bias))


# -- power laws --------------------------------------------------------------------------------------------------------


def test_pre_norm_mlp() -> None:
    law = mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu)))
    s1, s2 = sp.symbols("sigma_1 sigma_2", positive=True)
    assert (law.q.kind, law.q.exponent) == ("power", 1)
    assert equal(law.q.rate, s1**2 * s2**2 / 2)
    assert (law.apjn.kind, law.apjn.exponent) == ("power", 1)
    assert (law.gap.kind, law.gap.exponent, law.gap.coefficient) == ("logarithmic", -2, 9 * sp.pi**2 / 2)


@pytest.mark.parametrize("name", ["tanh", "silu", "elu"])
def test_zeta(name: str) -> None:
    """sigma_w^2 C/(sigma_w^2 A + sigma_b^2), A and C at variance 1 by quadrature in mpmath"""
    phi = mf.activations[name]
    phi = phi if isinstance(phi, mf.Activation) else phi()
    found = mf.growth(mf.Residual(mf.LayerNorm() >> mf.Activate(phi) >> mf.Linear())).apjn.exponent
    with mp.workdps(25):

        def mean(e: sp.Expr) -> mp.mpf:
            f = sp.lambdify(x, e**2, "mpmath")
            return mp.quad(lambda z: f(z) * mp.npdf(z), [-15, -4, 0, 4, 15])

        A, C = mean(phi.expression), mean(phi.expression.diff(x))
    value = found.subs({sigma_w: sp.Rational(6, 5), sigma_b: sp.Rational(1, 3)})
    assert abs(sp.N(value, 20) - 1.44 * C / (1.44 * A + mp.mpf(1) / 9)) < 1e-12


def test_biased_mlp_reaches_a_correlation_or_one() -> None:
    """c = 1 attracts where sigma_b^2 > sigma_w^2 (C - A), as a power with exponent -(1 - zeta)"""
    net = mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear())
    free = mf.growth(net)
    assert free.gap.kind == "undetermined"
    assert "sigma_b" in free.gap.reason
    ordered = mf.growth(net, sigma_w=1, sigma_b=1)
    assert ordered.gap.kind == "power"
    assert equal(ordered.gap.exponent, ordered.apjn.exponent - 1)
    chaotic = mf.growth(net, sigma_w=1, sigma_b=0.1)
    assert chaotic.gap.kind == "bounded"
    rho = 1 - sp.N(chaotic.gap.limit, 20)
    total = 2 / sp.pi * sp.asin(sp.Rational(2, 3)) + sp.Rational(1, 100)
    assert abs(sp.N(2 / sp.pi * sp.asin(2 * rho / 3) + sp.Rational(1, 100) - rho * total, 18)) < 1e-15


def test_two_power_laws_with_attention() -> None:
    law = mf.growth(mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    s1, s2, so, sv = sp.symbols("sigma_1 sigma_2 sigma_O sigma_V", positive=True)
    put = {s1 * s2: sp.sqrt(w), so * sv: sp.sqrt(a)}

    def at(e: sp.Expr) -> sp.Expr:
        return sp.simplify(e.subs({s1: put[s1 * s2], s2: 1, so: put[so * sv], sv: 1}))

    B = a + w / 2
    assert equal(at(law.q.rate), B)
    assert equal(at(law.gap.exponent), -a / B)
    assert law.apjn.exponent == 1
    (slow, fast) = law.apjn.terms
    assert equal(at(slow[1]), w / 2 / B)
    assert equal(fast[0], 1 / mf.n)
    assert equal(slow[0], 1 - 1 / mf.n)
    assert equal(sp.log(at(law.apjn.crossover)).expand(force=True), sp.log(mf.n) * B / a)


# -- stretched exponentials --------------------------------------------------------------------------------------------


def test_derf_and_dyt() -> None:
    S = sigma_w**2 + sigma_b**2
    law = mf.growth(toy(mf.derf(alpha)))
    assert (law.q.kind, law.apjn.kind) == ("power", "stretched")
    assert equal(law.apjn.rate, 16 * alpha**2 * sigma_w**4 / (sp.pi**2 * S))
    a_phi, c_phi = 2 / (sp.pi * alpha), 2 * alpha / sp.pi
    assert equal(law.apjn.log_coefficient, sigma_w**4 * a_phi * c_phi / S**2 - sigma_w**4 * c_phi**2 / (2 * S))
    law = mf.growth(toy(mf.dyt(alpha), None, 0))
    assert equal(law.apjn.rate, 32 * alpha**2 * sigma_w**2 / (9 * sp.pi))
    assert equal(law.apjn.log_coefficient, 4 / (3 * sp.pi) - 4 * alpha**2 * sigma_w**2 / (9 * sp.pi))


UNSEEN = {
    "tanh^3": sp.tanh(x) ** 3,
    "2 Phi - 1": sp.erf(x / sp.sqrt(2)),
    "x/sqrt(1+x^2)": x / sp.sqrt(1 + x**2),
    "hard tanh": sp.Max(-1, sp.Min(1, x)),
    "gaussian bump": x * sp.exp(-(x**2)) + sp.erf(x),
    "2/pi atan sinh": 2 / sp.pi * sp.atan(sp.sinh(x)),
    "tanh + erf/2": sp.tanh(x) + sp.erf(x) / 2,
    "x/(1+x^4)^(1/4)": x / (1 + x**4) ** sp.Rational(1, 4),
    "sign(x)(1-1/(1+|x|)^2)": sp.sign(x) * (1 - 1 / (1 + sp.Abs(x)) ** 2),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_any_saturating_function(name: str) -> None:
    """S - E phi^2 ~ a/sqrt q and E phi'^2 ~ c/sqrt q with a and c by numerical integration, and q ~ S l"""
    f = UNSEEN[name]
    law = mf.growth(toy(mf.Activation(f), 1, 0))
    f, S = f.replace(sp.sign, lambda _: sp.S.One).replace(sp.Abs, lambda z: z), {"tanh + erf/2": mp.mpf(9) / 4}.get(name, mp.mpf(1))
    slope = {"hard tanh": sp.Heaviside(1 - x) * sp.Heaviside(x + 1)}.get(name, f.diff(x))
    with mp.workdps(30):

        def integral(e: sp.Expr) -> mp.mpf:
            g = sp.lambdify(x, e, "mpmath")
            return 2 * mp.quad(g, [0, 1, 3, 10, 30, 100, *(10**k for k in range(3, 9))]) / mp.sqrt(2 * mp.pi)  # beyond, 1 - f^2 is rounding

        c = integral(slope**2 if name != "hard tanh" else sp.Heaviside(1 - x))
        tail = integral(sp.Rational(float(S)) - f**2) if name != "hard tanh" else mp.mpf(4) / 3 / mp.sqrt(2 * mp.pi)
    assert law.apjn.kind == "stretched"
    assert float(law.q.rate) == float(S)
    assert abs(float(law.apjn.rate) - 4 * c**2 / S) < 1e-9
    assert abs(float(law.apjn.log_coefficient) - (tail * c / S**2 - c**2 / (2 * S))) < 1e-6


def test_a_saturating_function_with_attention() -> None:
    """q ~ B l and ln J ~ sqrt(4 c^2 G^2 l/B) with rho* the root of theory.md 4.5, c^2 = 25 Gamma(1/4)^4/(1152 pi^2) by a beta integral"""
    norm = mf.Activate(mf.Activation(x / (1 + x**4) ** sp.Rational(1, 4)))
    attention = mf.Attention(n=16, sigma_Q=1, sigma_K=1, sigma_V=1, sigma_O=1, softmax_derivative=False)
    law = mf.growth(mf.pre_norm(norm=norm, attention=attention, mlp=mf.MLP(mf.relu, 1, sp.sqrt(2))))

    def parts(rho: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
        r = 2 / mp.pi * mp.asin(rho)
        y_q, y_p = (1 / (1 + 15 * mp.exp(e * (r - 1))) for e in (1, r))
        kappa = (mp.sqrt(1 - r**2) + r * (mp.pi - mp.acos(r))) / mp.pi
        return r + (1 - r) * y_p + kappa, r + (1 - r) * y_q + 1, y_q

    rho = mp.findroot(lambda t: parts(t)[0] / parts(t)[1] - t, (0.5, 0.95), solver="anderson")
    _, B, y_q = parts(rho)
    assert float(law.q.rate) == pytest.approx(float(B), rel=1e-12)
    assert float(sp.N(law.gap.limit)) == pytest.approx(float(1 - rho), rel=1e-12)
    assert float(law.apjn.rate) == pytest.approx(float(25 * mp.gamma(0.25) ** 4 / (288 * mp.pi**2) * (1 + y_q) ** 2 / B), rel=1e-12)


@pytest.mark.parametrize(("norm", "C", "s"), [(mf.Derf(), "1.83472617546114", 4 / sp.pi), (mf.DyT(), "1.685379515", sp.Integer(1))])
def test_transition_depth(norm: mf.Block, C: str, s: sp.Expr) -> None:
    """(ln(1/(alpha^2 q_0)) + C)/(s alpha^2 sigma_w^2), theory.md 4.5, up to O(alpha^2 q_0)"""
    law = mf.growth(mf.Residual(norm >> mf.Linear(1, 0)))
    start, slope = 1e-6, sp.Rational(1, 5)
    found = law.transition_depth(start, alpha=slope)
    assert abs(found * float(s) * 0.04 - (float(sp.log(25 / sp.Float(start))) + float(C))) < 1e-6
    assert law.transition_depth(30.0, alpha=slope) == 0.0
    with pytest.raises(ValueError, match="no transition"):
        mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1))).transition_depth(1.0)


@pytest.mark.parametrize(
    ("standard", "scaled"),
    [
        (x / sp.sqrt(1 + x**2), x / sp.sqrt(9 + x**2)),
        (x / (1 + sp.Abs(x)), x / (3 + sp.Abs(x))),
        (sp.Max(-1, sp.Min(1, x)), sp.Max(-3, sp.Min(3, x)) / 3),
        (sp.atan(x), sp.atan(x / 3)),
    ],
)
def test_the_transition_depth_of_a_norm_does_not_depend_on_how_its_scale_is_written(standard: sp.Expr, scaled: sp.Expr) -> None:
    """g(x/3) from 9 q is g(x) from q with a ninth of what a repeat adds"""
    one, other = (
        mf.growth(mf.residual_mlp(mf.Activation(f), sigma, 0)).transition_depth(start)
        for f, sigma, start in ((standard, sp.Rational(1, 15), 0.01), (scaled, sp.Rational(1, 5), 0.09))
    )
    assert other == pytest.approx(one, rel=1e-9)


def test_transition_depths_of_norms_with_a_scale_inside() -> None:
    """by quadrature of dq/(q' - q) up to q = 9"""
    found = [
        mf.growth(mf.residual_mlp(mf.Activation(f), sp.Rational(1, 5), 0)).transition_depth(0.01)
        for f in (x / sp.sqrt(9 + x**2), x / (3 + sp.Abs(x)))
    ]
    assert found == pytest.approx([2026.93, 3204.67], abs=0.01)


@pytest.mark.parametrize("phi", [mf.relu, mf.gelu, mf.identity, mf.Activation(sp.asinh(x))], ids=repr)
def test_no_transition_depth_of_activations_that_grow(phi: mf.Activation) -> None:
    with pytest.raises(ValueError, match="no activation that saturates"):
        mf.growth(mf.residual_mlp(phi, sp.Rational(1, 5), 0)).transition_depth(0.01)


def test_tails_like_1_over_x_bring_a_squared_logarithm() -> None:
    """softsign: 1 - E phi^2 ~ sqrt(2/pi) ln q/sqrt q, so ln J = sqrt(l/lambda) + c a' ln^2 l/2 + ..., a' = sqrt(2/pi)"""
    law = mf.growth(toy(mf.activations["softsign"], 1, 0))
    c = sp.sqrt(2 / sp.pi) / 3
    assert equal(law.apjn.rate, 4 * c**2)
    assert equal(law.apjn.log_squared_coefficient, c * sp.sqrt(2 / sp.pi) / 2)


@pytest.mark.parametrize("f", [sp.atan(x), x / (1 + sp.Abs(x))], ids=str)
def test_pairs_of_tails_like_1_over_x(f: sp.Expr) -> None:
    """E phi(u) phi(v) = (2 M^2/pi) asin rho - 2 M k sqrt(2/(pi q)) artanh rho + O(ln q/q) for phi ~ M - k/x, against quadrature"""
    node, rho = Gap(f, mf.q, mf.q * sp.Rational(2, 5)), sp.Rational(3, 5)
    parts = PairExpectation(f * f.xreplace({x: mf.y}), mf.q, mf.p, mf.q).asymptotic(2).terms
    rest = []
    for v in (10**4, 10**6):
        kernel = sp.N(Expectation(f**2, v), 15) - sp.N(node.xreplace({mf.q: sp.Integer(v)}), 15)
        series = sum(c.subs({mf.p: rho, mf.q: 1}) * v**e for c, e in parts)
        rest.append(abs(float(kernel - series)) * v / math.log(v))
    assert max(rest) < 2
    M, k = f.limit(x, sp.oo), 1
    assert equal(parts[1][0].subs({mf.p: rho, mf.q: 1}), -2 * M * k * sp.sqrt(2 / sp.pi) * sp.atanh(rho))


def test_derf_with_attention_goes_through_rho() -> None:
    """lambda = B/(4 c_phi^2 G^2): n = 16, a = 1, w = 2, s = 0 of theory.md 4.5"""
    attention = mf.Attention(16, 0, 0, 1, 1, softmax_derivative=False)
    law = mf.growth(mf.pre_norm(norm=mf.Derf(), attention=attention, mlp=mf.MLP(mf.relu, 1, sp.sqrt(2))))
    rho = 1 - sp.N(law.gap.limit, 15)
    assert abs(rho - sp.Float("0.79103065")) < 1e-8
    assert abs(sp.N(alpha**2 / law.apjn.rate, 15) - sp.Float("0.87814396")) < 1e-8
    r = 2 / sp.pi * sp.asin(rho)
    assert abs(sp.N(law.q.rate - (r + (1 - r) / 16 + 1), 15)) < 1e-10


def test_the_gradient_through_the_softmax_adds_to_g() -> None:
    """theory.md 4.5 with G = w/2 + a y + a s D (D + 1) y (1 - y)/(1 + 2 s D y), D = 1 - r: all in symbols, at numbers, and beside a run"""
    law = mf.growth(mf.pre_norm(norm=mf.Derf(alpha), attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    values = {"n": 4, "sigma_Q": 1.1, "sigma_K": 1, "sigma_V": 0.9, "sigma_O": 1, "sigma_1": 1.2, "sigma_2": 1, "alpha": 1.3}
    put = {s: sp.Rational(str(values[s.name])) for s in law.apjn.rate.free_symbols}
    a, w, s, n = 0.81, 1.44, 1.21, 4
    assert len(str(law.apjn.rate)) < 2500
    rho = float(1 - sp.N(law.gap.limit.subs(put), 15))
    D = 1 - 2 / math.pi * math.asin(rho)
    y = 1 / (1 + (n - 1) * math.exp(-s * D))
    y_p = 1 / (1 + (n - 1) * math.exp(-s * (1 - D) * D))
    kappa = (math.sqrt(1 - (1 - D) ** 2) + (1 - D) * (math.pi - math.acos(1 - D))) / (2 * math.pi)
    B = a * (1 - D + D * y) + w / 2
    assert abs(a * (1 - D + D * y_p) + w * kappa - rho * B) < 1e-12
    G = w / 2 + a * y + a * s * D * (D + 1) * y * (1 - y) / (1 + 2 * s * D * y)
    assert abs(float(sp.N(law.apjn.rate.subs(put), 15)) - 16 * 1.69 * G**2 / (math.pi**2 * B)) < 1e-11
    seen = law.check(depth=20_000, **{k: float(v) for k, v in values.items()})
    assert [f.name for f in seen.fits] == ["exponent", "rate", "limit", "rate^stretch", "log_coefficient"]
    assert seen.agrees, seen


def test_no_transition_depth_beyond_a_fixed_point() -> None:
    """q' - q is positive at both ends, and negative between the fixed points .10175 and .84254"""
    f = sp.sqrt(sp.Rational(3, 5)) * x * sp.exp(-(x**2) / 2) + sp.sqrt(sp.Rational(3, 20)) * x**2 * sp.exp(-(x**2) / 200)
    net = mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear(1, 0), skip=sp.sqrt(sp.Rational(1, 2)))
    assert [round(point.q, 5) for point in mf.fixed_points(net) if 0 < point.q < 2 and point.c == 1] == [0.10175, 0.84254]
    with pytest.raises(ValueError, match=r"q does not grow from 0\.01 to 2: not at"):
        mf.growth(net).transition_depth(0.01)


def test_transition_depth_with_attention() -> None:
    """alpha^2 q reaches 1 where a run does, up to what a repeat is beside a differential equation"""
    law = mf.growth(mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(16, 1, 1, None, 1), mlp=mf.MLP(mf.relu, 1, 1)))
    run = mf.propagate(law.block, 2000, 1.0, gap=0.6, alpha=0.08, sigma_V=0.8)
    k = int((run.q < 1 / 0.08**2).sum()) - 1
    depth = k + math.log(1 / 0.08**2 / run.q[k]) / math.log(run.q[k + 1] / run.q[k])
    assert 100 < depth < 2000
    assert law.transition_depth(1.0, gap=0.6, alpha=0.08, sigma_V=0.8) == pytest.approx(depth, abs=2)


# -- exponential and bounded -------------------------------------------------------------------------------------------


def test_critical_and_ordered_networks() -> None:
    relu = mf.growth(mf.mlp(mf.relu, sp.sqrt(2), 0))
    assert (relu.q.kind, relu.apjn.kind, relu.gap.exponent, relu.gap.coefficient) == ("bounded", "bounded", -2, 9 * sp.pi**2 / 2)
    critical = mf.growth(mf.mlp(mf.erf, sp.sqrt(sp.pi) / 2, 0))
    assert (critical.q.kind, critical.q.exponent, critical.apjn.kind, critical.apjn.exponent) == ("power", -1, "power", -1)
    tanh = mf.growth(mf.mlp(mf.tanh, 0.9, 0.05))
    assert tanh.q.kind == "bounded"
    assert abs(tanh.q.limit - sp.Float("0.011974982803115")) < 1e-14
    assert abs(sp.N(sp.exp(tanh.apjn.rate), 15) - sp.Float("0.791372621206")) < 1e-11
    assert tanh.gap.kind == "exponential"


@pytest.mark.parametrize("q", [1, sp.Rational(1, 2), 3])
def test_doubles_of_a_critical_point_are_critical(q: sp.Expr) -> None:
    """chi = 1 to 1e-16 is no exponential; q* = 1 is where the recursion starts"""
    point = mf.critical(mf.mlp(mf.erf), q=q)
    law = mf.growth(mf.mlp(mf.erf), **point)
    assert (law.q.kind, law.gap.kind, law.apjn.kind) == ("bounded", "power", "bounded")
    assert abs(law.q.limit - q) < 1e-13
    assert law.gap.exponent == -1
    # 1 - c' = 1 - c - (sigma_w^2 q E phi''^2/2)(1 - c)^2, E erf''^2 = 16 v/(pi (1 + 4 v)^(3/2))
    bend = point["sigma_w"] ** 2 * q * 16 * q / (sp.pi * (1 + 4 * q) ** sp.Rational(3, 2)) / 2
    assert abs(law.gap.coefficient - 1 / bend) < 1e-12


def test_skipless_and_post_norm_exponents() -> None:
    """theory.md 4.7 with A = sigma_w^2/2 = chi (ReLU), and 2: the uniform mode of post-norm does not decay"""
    attention, mlp = mf.Attention(8, 0, 0, 1, 1), mf.MLP(mf.relu, 2, 1)
    skip, scale = sp.sqrt(3) / 2, sp.Rational(1, 2)
    net = mf.Residual(mf.LayerNorm() >> attention, skip, scale) >> mf.Residual(mf.LayerNorm() >> mlp, skip, scale)
    law = mf.growth(net)
    q = sp.Rational(11, 7)
    assert law.q.limit == q
    q_1 = sp.Rational(3, 4) * q + sp.Rational(1, 4)
    mlp_factor = sp.Rational(3, 4) + 2 / (4 * q_1)
    rates = dict(law.apjn.terms)
    assert equal(rates[sp.Rational(7, 8)], sp.log(sp.Rational(3, 4) * mlp_factor))
    assert equal(rates[sp.Rational(1, 8)], sp.log((sp.Rational(3, 4) + 1 / (4 * q)) * mlp_factor))
    assert equal(law.gap.rate, rates[sp.Rational(7, 8)])
    symbolic = mf.growth(mf.post_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    s = sp.Symbol("sigma_O", positive=True) ** 2 * sp.Symbol("sigma_V", positive=True) ** 2
    assert (symbolic.apjn.kind, symbolic.apjn.terms[1]) == ("bounded", (1 / mf.n, 0))
    assert equal(sp.exp(symbolic.gap.rate), 1 / (1 + s))
    post = mf.growth(mf.Residual(attention) >> mf.LayerNorm() >> mf.Residual(mlp) >> mf.LayerNorm())
    assert (post.apjn.kind, dict(post.apjn.terms)[sp.Rational(7, 8)]) == ("bounded", -sp.log(2))


def test_scales_that_vanish_with_depth() -> None:
    law = mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu), scale=1 / sp.sqrt(mf.L)))
    assert {g.kind for g in (law.q, law.gap, law.apjn)} == {"bounded"}
    assert "joint limit" in law.q.reason
    for power in (sp.Rational(1, 4), 0.25):  # DeepNet's rule: a repeat moves the state by L^(-3/2)
        law = mf.growth(
            mf.deep_norm(attention=mf.Attention(), mlp=mf.MLP(mf.gelu), alpha=(2 * mf.L) ** power, lam=(8 * mf.L) ** -power), n=12
        )
        assert {g.kind for g in (law.q, law.gap, law.apjn)} == {"bounded"}
    with pytest.raises(ValueError, match="no joint limit"):  # by L^(-1/2)
        mf.growth(mf.deep_norm(attention=mf.Attention(), mlp=mf.MLP(mf.relu), alpha=(2 * mf.L) ** sp.Rational(1, 4), lam=3))
    with pytest.raises(ValueError, match="change with the index l"):
        mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu), scale=1 / sp.sqrt(mf.l + 1)))
    with pytest.raises(ValueError, match="no joint limit"):
        mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu), scale=mf.L))


@pytest.mark.parametrize(
    ("f", "apart"), [(sp.Max(x - a, 0), False), (sp.tanh(a * x), True), (sp.Min(sp.Max(x, -a), a), True), (sp.sin(a * x), True)], ids=str
)
def test_a_parameter_of_an_activation_behind_a_norm_needs_no_number(f: sp.Expr, apart: bool) -> None:
    """E f^2 > 0 and, by Poincare's inequality, E f'^2 >= Var f, whatever a is, also where both are e^-5000; odd functions part inputs"""
    law = mf.growth(mf.Residual(mf.RMSNorm() >> mf.Activate(mf.Activation(f)) >> mf.Linear(1, 0)))
    assert (law.q.kind, law.q.exponent, law.gap.kind, law.apjn.kind) == ("power", 1, "bounded", "power")
    assert (law.gap.limit == 1) is apart
    for value in (0.5, 2):
        own = mf.growth(mf.Residual(mf.RMSNorm() >> mf.Activate(mf.Activation(f.subs(a, value))) >> mf.Linear(1, 0)))
        for open_, bound in ((law.q.rate, own.q.rate), (law.gap.limit, own.gap.limit), (law.apjn.exponent, own.apjn.exponent)):
            assert float(sp.N(open_.subs(a, sp.Rational(value)))) == pytest.approx(float(sp.N(bound)), rel=1e-12)


def test_cases_are_of_a_parameter_beside_expectations_not_inside_one() -> None:
    """of the others, where what stands beside them has one sign for all its values"""
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.UniformAttention(), mlp=mf.MLP(mf.tanh))
    law = mf.growth(net)
    assert law.gap.kind == "undetermined"
    assert "bind sigma_1" in law.gap.reason
    below, at, above = law.cases
    assert [str(c.lhs) for c, _ in law.cases] == ["sigma_2**2"] * 3
    bound = {"sigma_1": 1.3, "sigma_O": 1, "sigma_V": 1, "n": 9}
    edge = float(sp.N(below[0].rhs.subs({s: bound[s.name] for s in below[0].rhs.free_symbols})) ** 0.5)
    assert (
        [mf.growth(net, sigma_2=s * edge, **bound).gap.kind for s in (0.9, 1.1)]
        == [below[1].gap.kind, above[1].gap.kind]
        == ["power", "bounded"]
    )
    assert at[1].gap.kind != "undetermined"


def test_cases_of_one_parameter() -> None:
    law = mf.growth(mf.mlp(mf.relu))
    assert {g.kind for g in (law.q, law.gap, law.apjn)} == {"undetermined"}
    assert "bind sigma_w" in law.q.reason
    conditions = [c for c, _ in law.cases]
    assert conditions == [sigma_w**2 < 2, sp.Eq(sigma_w**2, 2), sigma_w**2 > 2]
    below, at, above = (own for _, own in law.cases)
    assert equal(below.q.limit, sigma_b**2 / (1 - sigma_w**2 / 2))
    assert equal(below.apjn.rate, sp.log(sigma_w**2 / 2))
    assert (above.q.kind, above.gap.exponent) == ("exponential", -2)
    # q ~ sigma_b^2 l dilutes a difference by 1/l: e' = e - (2 sqrt 2/3 pi) e^{3/2} - e/l, half of the coefficient's root is left
    assert (at.q.rate, at.gap.exponent, at.gap.coefficient) == (sigma_b**2, -2, 9 * sp.pi**2 / 8)
    assert law.check(depth=20_000, sigma_w=sp.sqrt(2), sigma_b=0.5).agrees
    assert law.check(depth=2000, sigma_w=1.2, sigma_b=0.5).law is below
    assert mf.latex(law).count("If $") == 3
    assert mf.growth(mf.mlp(mf.tanh)).cases == ()
    branch = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1))
    assert mf.growth(mf.Repeat(branch, 3)).q.rate == 3 * mf.growth(branch).q.rate
    assert r"\propto" not in mf.latex(mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0).gap)  # its factor is known
    assert "bind $" in mf.latex(mf.growth(mf.mlp(mf.tanh))).lower()  # what is not known is said
    reason = mf.growth(mf.mlp(mf.tanh)).gap.reason
    assert "bind sigma_b, sigma_w" in reason
    assert reason.letters == ("sigma_b", "sigma_w")
    assert reason.parts[-1].has(sp.tanh)  # apart from the words
    with pytest.raises(ValueError, match=r"unknown parameters: alpha\."):
        mf.growth(mf.mlp(mf.relu), alpha=1)


# -- the kernel near its diagonal, and long runs -----------------------------------------------------------------------


@pytest.mark.parametrize("f", [sp.sign(x), sp.Max(0, x), sp.Max(0, x - 1) + sp.tanh(x), sp.erf(x)], ids=str)
def test_kernels_near_the_diagonal(f: sp.Expr) -> None:
    """what is left shrinks faster than the last term"""
    v = sp.Integer(2)
    d = [sp.Rational(1, 10**4), sp.Rational(1, 10**6)]
    rest = []
    for gap in d:
        near = small_gap(f, f, v, gap).subs(sp.Symbol("unknown", real=True), 0)
        rest.append(abs(float(sp.N(mf.Activation(f).gap(v, gap), 20) + sp.N(near, 20)) / float(sp.N(near, 20))))
    assert rest[0] < 0.03
    assert rest[1] < rest[0] / 20


@pytest.mark.parametrize(
    "net",
    [
        toy(mf.derf(alpha)),
        mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu)),
        mf.mlp(mf.relu, sp.sqrt(2), 0),
        mf.mlp(mf.erf, sp.sqrt(sp.pi) / 2, 0),
    ],
    ids=["derf", "pre-norm", "critical relu", "critical erf"],
)
def test_long_runs_agree(net: mf.Block) -> None:
    seen = mf.growth(net).check(depth=50_000)
    assert seen.fits
    assert seen.agrees, seen


def test_a_wrong_constant_disagrees() -> None:
    from dataclasses import replace

    law = mf.growth(toy(mf.derf(alpha)))
    wrong = replace(law, apjn=replace(law.apjn, rate=law.apjn.rate * sp.Rational(51, 50)))
    assert [f.verdict for f in wrong.check(depth=50_000).fits if f.name == "rate^stretch"] == ["disagrees"]


def test_faces() -> None:
    law = mf.growth(toy(mf.derf(alpha)))
    assert r"\ln \mathcal{J}^{\,l,0} &\simeq" in mf.latex(law)
    assert "stretched" in repr(law)
    assert law.apjn._repr_latex_().startswith(r"\begin{align*}")


@pytest.mark.parametrize(
    "phi",
    [
        mf.Activation(sp.erf(x + sp.Rational(3, 10))),
        mf.Activation((1 + sp.erf((x + sp.Rational(3, 10)) / sp.sqrt(2))) / 2),
    ],
    ids=["erf", "normal CDF"],
)
def test_where_a_variance_settles_that_is_written_in_bivariate_normal_functions(phi: mf.Activation) -> None:
    law = mf.growth(mf.mlp(phi), sigma_w=0.8, sigma_b=0.2)
    (point, *_) = mf.fixed_points(mf.mlp(phi), sigma_w=0.8, sigma_b=0.2)
    assert float(law.q.limit) == pytest.approx(point.q, rel=1e-12)
    assert float(law.apjn.rate) == pytest.approx(math.log(point.chi), rel=1e-9)


def test_a_number_that_takes_an_activation_through_0_does_so_exactly() -> None:
    """tanh(0.3) in doubles is not tanh(3/10), and what is left of phi(0) is no bias"""
    phi = mf.Activation(sp.tanh(x + 0.3) - sp.tanh(0.3))
    assert phi.expression == sp.tanh(x + sp.Rational(3, 10)) - sp.tanh(sp.Rational(3, 10))
    law = mf.growth(mf.mlp(phi), sigma_w=0.9, sigma_b=0)
    assert float(law.q.rate) == pytest.approx(math.log(0.81 / math.cosh(0.3) ** 4), rel=1e-12)
    critical = mf.growth(mf.mlp(mf.Activation(sp.sin(x + 0.25) - sp.sin(0.25))), sigma_w=1 / math.cos(0.25), sigma_b=0)
    assert (critical.q.kind, critical.q.exponent) == ("power", -1)
    assert float(critical.q.rate) == pytest.approx(1 - 0.75 * math.tan(0.25) ** 2, rel=1e-9)
    kept = mf.Activation(sp.tanh(x + 0.3) - 0.29)
    assert kept.expression == sp.tanh(x + sp.Rational(3, 10)) - sp.Rational(29, 100)


@pytest.mark.parametrize(
    "net",
    [
        mf.sas(norm=mf.LayerNorm(), mlp=mf.MLP(mf.relu, 1, 1), n=9, sigma_Q=0),
        mf.value_skipinit(norm=mf.LayerNorm(), mlp=mf.MLP(mf.relu, 1, 1), n=9),
        mf.downweighted(norm=mf.LayerNorm(), attention=mf.Linear(1, 0), mlp=mf.MLP(mf.relu, 1, 1)),
    ],
    ids=["sas", "value skip-init", "downweighted"],
)
def test_a_norm_that_begins_a_repeat_sets_the_variance_once(net: mf.Block) -> None:
    law = mf.growth(net)
    assert {g.kind for g in (law.q, law.gap, law.apjn)} == {"bounded"}


def test_selu_at_its_critical_point() -> None:
    """1 - c ~ (9 pi^2/2) ((1 + alpha^2)/(1 - alpha)^2)^2 l^-2, where Adds of constants with letters are zero in digits only"""
    law = mf.growth(mf.mlp(mf.selu), sigma_w=mf.critical(mf.mlp(mf.selu))["sigma_w"], sigma_b=0)
    assert (law.gap.kind, law.gap.exponent) == ("power", -2)
    assert float(law.gap.coefficient) == pytest.approx(3121.02, rel=1e-5)
