"""Fixed points: published numbers, 30-digit solutions, all branches, certificates, what has none, and dynamics that end there."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from analysis.oracle_points import CASES, DIGITS, LEFT, variance

import meanfield as mf
from meanfield.analysis import maps, roots


def test_published_points() -> None:
    """theory.md section 6"""
    (ordered,) = mf.fixed_points(mf.mlp(mf.tanh), sigma_w=0.9, sigma_b=0.05)
    assert ordered.q == pytest.approx(0.011974982803115, rel=1e-13)
    assert ordered.chi == pytest.approx(0.791372621206, rel=1e-11)
    assert ordered.xi_c == pytest.approx(4.27375364844, rel=1e-11)
    assert ordered.xi_q == pytest.approx(3.88517767321, rel=1e-11)
    assert ordered.stable
    at_one, below = mf.fixed_points(mf.mlp(mf.tanh), sigma_w=1.3, sigma_b=0.05)
    assert at_one.q == pytest.approx(0.415697342055194, rel=1e-13)
    assert at_one.chi == pytest.approx(1.05928464726, rel=1e-11)
    assert (at_one.c, at_one.stable, below.stable) == (1.0, False, True)
    run = mf.propagate(mf.mlp(mf.tanh), 600, 1.0, c=0.9, record="last", sigma_w=1.3, sigma_b=0.05)
    assert below.c == pytest.approx(float(run.c[0]), rel=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_against_thirty_digits(name: str) -> None:
    case = CASES[name]
    w, b = (1.25, 0.3) if name == "softplus" else (1.9, 0.3)
    found = mf.fixed_points(mf.mlp(case.activation), sigma_w=w, sigma_b=b)
    with mp.workdps(DIGITS):
        W, B = mp.mpf(str(w)), mp.mpf(str(b))
        for point in found:
            q = variance(case, W, B, point.q)
            along = W**2 * case.along(q)
            assert abs(point.q - q) <= 1e-14 / abs(1 - along) * q
            assert point.bracket[0] <= q <= point.bracket[1]
            assert abs(point.chi_parallel - along) < 1e-12
            if point.gap == 0:
                assert abs(point.chi - W**2 * case.slope(q)) < 1e-12
            elif case.kernel is not None:
                p = mp.findroot(lambda p, q=q: W**2 * case.kernel(q, p) + B**2 - p, mp.mpf(point.c) * q, tol=LEFT)
                assert abs(point.gap - (1 - p / q)) < 1e-12 * point.gap
                assert point.gap_bracket[0] * (1 - 1e-13) <= 1 - p / q <= point.gap_bracket[1] * (1 + 1e-13)
                assert abs(point.chi - W**2 * mp.diff(lambda p, q=q: case.kernel(q, p), p)) < 1e-12


def test_all_branches_of_an_odd_activation_without_bias() -> None:
    found = mf.fixed_points(mf.mlp(mf.sin), sigma_w=2, sigma_b=0)
    assert [(f.q == 0, f.c) for f in found] == [(True, 1.0), (False, 1.0), (False, 0.0), (False, -1.0)]
    assert [f.stable for f in found] == [False, False, True, False]
    assert (found[0].chi, found[0].chi_parallel, found[0].status) == (1, 4, "every c")
    q = found[1].q
    assert found[2].chi == pytest.approx(4 * math.exp(-q), rel=1e-12)
    assert found[3].chi == pytest.approx(4 * math.exp(-q) * math.cosh(q), rel=1e-12)


def test_several_variances() -> None:
    """GELU near its half-stable point: one stable variance, and one beyond which q grows"""
    net = mf.mlp(mf.gelu)
    stable, unstable = (f for f in mf.fixed_points(net, sigma_w=1.45, sigma_b=0.25) if f.c == 1)
    assert stable.stable
    assert stable.chi_parallel < 1 < unstable.chi_parallel
    below, above = (mf.propagate(net, 3000, unstable.q * k, record="last", sigma_w=1.45, sigma_b=0.25) for k in (0.999, 1.001))
    assert float(below.q[0]) == pytest.approx(stable.q, rel=1e-10)
    assert float(above.q[0]) > 1e6 or above.status == "overflow"
    assert "q leaves that behind" in mf.fixed_points(net, sigma_w=1.45, sigma_b=0.25).reason


def test_correlation_within_1e_minus_12_of_one() -> None:
    """a kinked map leaves c = 1 with the 3/2 power: 1 - c* ~ (chi - 1)^2"""
    net = mf.Residual(mf.LayerNorm() >> mf.Activate(mf.relu) >> mf.Linear(), skip=sp.Rational(1, 2))
    for bias in (0.0, 0.1):
        (point,) = mf.fixed_points(net, sigma_w=1.2, sigma_b=bias)
        assert point.stable
    w, b = 1.2, 0.3
    point = mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.32521836, sigma_b=0.4291149936875345)
    assert len(point) == 2
    q, eps = point[1].q, point[1].gap
    assert 1e-9 < eps < 1e-7
    with mp.workdps(40):
        W, B = mp.mpf("1.32521836"), mp.mpf("0.4291149936875345")

        def kernel(q: mp.mpf, p: mp.mpf) -> mp.mpf:
            return W**2 * 2 / mp.pi * mp.asin(2 * p / (1 + 2 * q)) + B**2

        exact_q = mp.findroot(lambda v: kernel(v, v) - v, mp.mpf(q))
        exact = mp.findroot(lambda e: kernel(exact_q, exact_q * (1 - e)) / exact_q - (1 - e), mp.mpf(eps), tol=mp.mpf(10) ** -60)
    low, high = point[1].gap_bracket
    assert low <= exact <= high
    assert (high - low) / eps < 1e-5  # chi - 1 is 5.5e-9, known to some 1e-14
    assert w > b


def test_none_and_continuum() -> None:
    relu = mf.mlp(mf.relu)
    for w in (math.sqrt(2), sp.sqrt(2)):
        every = mf.fixed_points(relu, sigma_w=w, sigma_b=0)
        assert (len(every), every.status) == (0, "continuum")
    growing = mf.fixed_points(relu, sigma_w=math.sqrt(2), sigma_b=0.1)
    assert (len(growing), growing.status) == (0, "none")
    assert "q leaves that behind" in growing.reason
    assert mf.fixed_points(mf.mlp(mf.exp), sigma_w=1.5, sigma_b=0.1).status == "none"
    pre_norm = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(n=8, softmax_derivative=False), mlp=mf.MLP(mf.relu))
    values = dict.fromkeys(["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1", "sigma_2"], 1.0)
    assert mf.fixed_points(pre_norm, **values).status == "none"
    linear = mf.Residual(mf.LayerNorm() >> mf.Linear(sigma_b=0), skip=sp.Rational(1, 2))
    (point,) = mf.fixed_points(linear, sigma_w=1.5)
    assert (point.status, point.chi) == ("every c", pytest.approx(1.0, rel=1e-14))
    assert not point.stable


def test_even_activation() -> None:
    """c = -1 is sent to c = 1"""
    at_one, below = mf.fixed_points(mf.mlp(mf.cos), sigma_w=2, sigma_b=0.2)
    assert not at_one.stable
    assert below.c * below.q == pytest.approx(4 * math.exp(-below.q) * math.cosh(below.c * below.q) + 0.04, rel=1e-12)


def test_jumps() -> None:
    at_one, below = mf.fixed_points(mf.mlp(mf.sign), sigma_w=0.9, sigma_b=0.3)
    assert at_one.chi == math.inf
    assert not at_one.stable
    c = below.c
    assert 0.81 * 2 / math.pi * math.asin(c) + 0.09 == pytest.approx(c * below.q, rel=1e-12)


def test_residual_and_normalised_nets() -> None:
    mu, w, b = 0.6, 1.1, 0.2
    net = mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(), skip=sp.Symbol("mu"))
    point = mf.fixed_points(net, mu=mu, sigma_w=w, sigma_b=b)[0]
    A, C = 2 / math.pi * math.asin(2 / 3), 4 / (math.pi * math.sqrt(5))
    assert point.q == pytest.approx((w**2 * A + b**2) / (1 - mu**2), rel=1e-12)
    assert point.chi == pytest.approx(mu**2 + (1 - mu**2) * w**2 * C / (w**2 * A + b**2), rel=1e-12)
    assert point.chi_parallel == pytest.approx(mu**2, rel=1e-12)


def test_attention_solves_q_and_c_together() -> None:
    """a saturating norm keeps tokens apart where a linear one merges them; the run ends at the stable point at the rate of xi"""
    values = {
        "n": 16.0,
        "sigma_Q": 1.0,
        "sigma_K": 1.0,
        "sigma_V": 1.0,
        "sigma_O": 1.0,
        "sigma_1": 1.0,
        "sigma_2": math.sqrt(2),
        "alpha": 3.0,
    }
    net = mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu), skip=sp.Rational(9, 10))
    origin, apart, merged = mf.fixed_points(net, **values)
    assert (origin.q, merged.c) == (0.0, 1.0)
    assert apart.stable
    assert not merged.stable
    run = mf.propagate(net, 400, 1.0, c=0.3, **values)
    assert float(run.q[-1]) == pytest.approx(apart.q, rel=1e-12)
    assert float(run.gap[-1]) == pytest.approx(apart.gap, rel=1e-12)
    rates = np.diff(np.log(np.abs(run.gap[60:120] - apart.gap)))
    assert rates[-1] == pytest.approx(-1 / max(apart.xi_c, apart.xi_q), rel=1e-3)


@pytest.mark.parametrize("factor", [1 + 1e-11, 1 - 1e-11])
def test_a_wrong_map_moves_the_bracket(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """the certificate is about the map: with q' off by 1e-11 the bracket no longer holds the 30-digit root"""
    right = maps.Program.__call__

    def wrong(self: maps.Program, table: np.ndarray) -> np.ndarray:
        out = right(self, table)
        out[0] *= factor
        return out

    monkeypatch.setattr(maps.Program, "__call__", wrong)
    point = mf.fixed_points(mf.mlp(CASES["sin"].activation), sigma_w=1.9, sigma_b=0.3)[0]
    with mp.workdps(DIGITS):
        q = variance(CASES["sin"], mp.mpf("1.9"), mp.mpf("0.3"), point.q)
    assert not point.bracket[0] <= q <= point.bracket[1]


def test_the_search_sees_what_a_grid_misses() -> None:
    """two roots closer than any grid, one that only touches, and none that stays away by 1e-9"""

    def parabola(lift: float) -> roots.Function:
        def f(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            u = np.log(at) - 1.2345
            return u**2 + lift, 2 * u, np.full(at.size, 1e-15)

        return f

    found = roots.positive_roots(parabola(-1e-12), 1e-12, 1e12).roots
    assert [r.crossing for r in found] == [True, True]
    assert np.log(found[1].at / found[0].at) == pytest.approx(2e-6, rel=1e-3)
    (touching,) = roots.positive_roots(parabola(0.0), 1e-12, 1e12).roots
    assert not touching.crossing
    assert touching.at == pytest.approx(math.exp(1.2345), rel=1e-6)
    assert not roots.positive_roots(parabola(1e-9), 1e-12, 1e12).roots


def test_bad_input() -> None:
    net = mf.mlp(mf.tanh)
    with pytest.raises(ValueError, match=r"missing parameters: sigma_b.*sigma_b, sigma_w"):
        mf.fixed_points(net, sigma_w=1.0)
    with pytest.raises(ValueError, match="unknown parameters: sigma_x"):
        mf.fixed_points(net, sigma_w=1.0, sigma_b=0.0, sigma_x=1.0)
    with pytest.raises(ValueError, match="phase_diagram"):
        mf.fixed_points(net, sigma_w=[1.0, 2.0], sigma_b=0.0)
    with pytest.raises(ValueError, match="sigma_w = -1"):
        mf.fixed_points(net, sigma_w=-1.0, sigma_b=0.0)
    with pytest.raises(TypeError, match="expected a block"):
        mf.fixed_points(mf.tanh)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="depends on L"):
        mf.fixed_points(mf.Residual(mf.MLP(mf.relu), scale=1 / sp.sqrt(mf.L)), sigma_1=1.0, sigma_2=1.0)


def test_correlations_that_so_many_tokens_can_have() -> None:
    """post-LN with attention has a second fixed point of c below -1/(n - 1), where no n tokens are"""
    block = mf.post_norm(norm=mf.LayerNorm(), attention=mf.Attention(n=8, softmax_derivative=False), mlp=mf.MLP(mf.gelu))
    values = dict.fromkeys(["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1", "sigma_2"], 1.0)
    assert [f.c for f in mf.fixed_points(block, **values)] == [1.0]


def test_a_gated_branch() -> None:
    """q' = q^2/2 and c' = c kappa(c) of relu without a norm, whatever q is"""
    *origin, alike, apart = mf.fixed_points(mf.GLU(mf.relu, 1, 1, 1))
    assert [(f.q, f.c, f.stable) for f in origin] == [(0, 1, False), (0, 0, True)]
    assert [f.chi for f in origin] == pytest.approx([2, 1 / math.pi], rel=1e-12)
    assert (alike.q, alike.chi_parallel) == (pytest.approx(2, rel=1e-14), pytest.approx(2, rel=1e-14))
    assert (alike.chi, apart.chi) == (pytest.approx(2, rel=1e-12), pytest.approx(1 / math.pi, rel=1e-12))
    assert (apart.q, apart.c) == (pytest.approx(2, rel=1e-14), 0)


def test_the_estimate_of_a_gated_attention_unit_is_of_degree_seven() -> None:
    assert mf.fixed_points(mf.GAU(mf.relu, s=8, n=4, d=16, e=32).diagonal)[-1].chi_parallel == pytest.approx(6, rel=1e-12)


@pytest.mark.parametrize(("sigma_w", "sigma_b"), [(0.3, 0.1), (0.1, 0.01), (0.5, 0.3)])
def test_a_fixed_point_next_to_where_the_second_moment_diverges(sigma_w: float, sigma_b: float) -> None:
    """E exp(u^2/5)^2 = 1/sqrt(1 - 4 q/5): with t its value q' = q is 5 (1 - 1/t^2)/4 = sigma_w^2 t + sigma_b^2, a cubic in t"""
    found = mf.fixed_points(mf.mlp(mf.Activation(sp.exp(mf.x**2 / 5))), sigma_w=sigma_w, sigma_b=sigma_b)
    w, b = sigma_w**2, sigma_b**2
    roots = np.roots([w, b - 1.25, 0.0, 1.25])
    wanted = sorted(w * t.real + b for t in roots if t.real > 1)
    variances = sorted({f.q for f in found})
    assert variances == pytest.approx(wanted, rel=1e-13)
    assert [all(f.stable for f in found if f.q == q and f.c == 1) for q in variances] == [True, False]
    assert "variances from 1.25 to 1e+12" in found.reason


@pytest.mark.parametrize("phi", [mf.tanh, mf.gelu, mf.hard_tanh], ids=["tanh", "gelu", "hard_tanh"])
def test_pairs_keep_their_correlation_where_a_variance_vanishes_and_phi_is_straight(phi: mf.Activation) -> None:
    (origin,) = mf.fixed_points(mf.mlp(phi), sigma_w=0.5, sigma_b=0)
    assert (origin.q, origin.status, origin.stable, origin.kind, origin.xi_c) == (0, "every c", True, "stable", math.inf)
    assert origin.chi_parallel < 1 == origin.chi
    assert float(mf.propagate(mf.mlp(phi), 60, 1e-6, c=0.3, record="last", sigma_w=0.5, sigma_b=0).c[0]) == pytest.approx(0.3, abs=1e-5)


def test_what_a_kink_or_a_power_does_to_correlations_as_the_variance_vanishes() -> None:
    """dc'/dc at c = 1: 1 of relu, which merges pairs, and 4/3 of x^2, whose c' is (1 + 2 c^2)/3"""
    (relu,) = mf.fixed_points(mf.mlp(mf.relu), sigma_w=0.5, sigma_b=0)
    assert (relu.status, relu.xi_c) == ("isolated", math.inf)
    square, half = mf.fixed_points(mf.mlp(mf.Activation(mf.x**2)), sigma_w=0.5, sigma_b=0)[:2]
    assert (square.q, square.status, square.xi_c) == (0, "isolated", pytest.approx(1 / math.log(4 / 3), rel=1e-12))
    assert (half.q, half.c, half.chi) == (0, pytest.approx(0.5, rel=1e-12), pytest.approx(2 / 3, rel=1e-12))
    assert (square.stable, half.stable) == (False, True)


def test_a_multiplier_of_one_that_attracts_is_said_to_be_marginal() -> None:
    (origin,) = mf.fixed_points(mf.mlp(mf.tanh), sigma_w=1, sigma_b=0)
    assert (origin.chi, origin.chi_parallel, origin.stable, origin.kind) == (1, 1, True, "marginally stable")
    assert "marginally stable" in repr(origin)
    growing = mf.fixed_points(mf.mlp(mf.gelu), sigma_w=2, sigma_b=0)[0]
    assert (growing.chi_parallel, growing.kind) == (1, "unstable")


@pytest.mark.parametrize("power", [3, 5])
def test_an_odd_power_sends_pairs_apart_as_the_variance_vanishes(power: int) -> None:
    """tanh^n is x^n there: c' is E u^n v^n / E u^2n, a polynomial with dc'/dc = n^2/(2 n - 1) at c = 1 and -1, n!!^2/(2 n - 1)!! at 0"""
    found = mf.fixed_points(mf.mlp(mf.Activation(sp.tanh(mf.x) ** power)), sigma_w=0.9, sigma_b=0)
    assert [(f.q, f.c, f.chi_parallel) for f in found] == [(0, 1, 0), (0, 0, 0), (0, -1, 0)]
    ends, middle = sp.Rational(power**2, 2 * power - 1), sp.factorial2(power) ** 2 / sp.factorial2(2 * power - 1)
    assert [f.chi for f in found] == pytest.approx([float(v) for v in (ends, middle, ends)], rel=1e-11)
    assert [f.stable for f in found] == [False, True, False]
    assert [f.xi_c for f in found] == pytest.approx([1 / abs(math.log(f.chi)) for f in found], rel=1e-12)


def test_a_product_of_nearly_straight_branches_squares_correlations_as_the_variance_vanishes() -> None:
    """SwiGLU: c' -> c^2, which leaves 1 and 0 but sends -1 to 1"""
    origin = [f for f in mf.fixed_points(mf.SwiGLU(0.8, 1.1, 0.9)) if f.q == 0]
    assert [(f.c, f.chi, f.stable) for f in origin] == [(1, pytest.approx(2, rel=1e-9), False), (0, pytest.approx(0, abs=1e-9), True)]


def test_no_correlation_is_named_where_its_map_has_no_limit() -> None:
    """relu(x)^1.1 + relu(-x): what the power adds to q' falls like q^(1/10), and is still seen at 1e-100"""
    bent = mf.Activation(sp.Max(mf.x, 0) ** sp.Rational(11, 10) + sp.Max(-mf.x, 0))
    origin, *others = found = mf.fixed_points(mf.mlp(bent), sigma_w=0.3, sigma_b=0)
    assert (origin.q, origin.status, origin.stable) == (0, "no limit of c", True)
    assert math.isnan(origin.chi)
    assert math.isnan(origin.xi_c)
    assert not others
    assert found.reason == "the map of c has no limit as q goes to 0"


DEAD_ZONE = sp.Max(mf.x - 2, 0) - sp.Max(-mf.x - 2, 0)


@pytest.mark.parametrize(
    ("phi", "weight", "correlations"),
    [
        (DEAD_ZONE, 1.0, [1, 0, -1]),
        (sp.Max(sp.Abs(mf.x) - 20, 0), 1.0, [1, 0]),
        (sp.exp(-1 / mf.x**2), 1.0, [1, 0]),
    ],
)
def test_pairs_come_apart_at_once_as_the_variance_vanishes_where_phi_does_about_zero(phi, weight, correlations) -> None:
    """E phi(u) phi(v)/E phi(u)^2 -> 0 for |c| < 1: both |u| and |v| beyond a take exp(-a^2/(q (1 + |c|))), one of them exp(-a^2/2q)"""
    found = mf.fixed_points(mf.mlp(mf.Activation(phi)), sigma_w=weight, sigma_b=0)
    assert (found.status, [f.q for f in found], [f.c for f in found]) == ("ok", [0.0] * len(found), correlations)
    assert [f.chi for f in found] == [0.0 if c == 0 else math.inf for c in correlations]
    assert [f.stable for f in found] == [c == 0 for c in correlations]
    assert [f.chi_parallel for f in found] == [0.0] * len(found)


def test_the_map_of_c_of_a_dead_zone_comes_to_0_like_what_its_tails_share() -> None:
    """phi = sign(x) max(|x| - 2, 0): E phi'^2 q/E phi^2 = 2/q + 5/2 + ..., and c' of c = 1/2 is below exp(-2/3q)"""
    dead = mf.Activation(DEAD_ZONE)
    with mp.workdps(30):
        for at in (mp.mpf("0.02"), mp.mpf("0.005")):
            t = 2 / mp.sqrt(at)
            tail = mp.erfc(t / mp.sqrt(2)) / 2
            square = 2 * at * ((1 + t**2) * tail - t * mp.npdf(t))
            assert mf.evaluate(dead.second_moment(mf.q), q=float(at)) == pytest.approx(float(square), rel=1e-12)
            assert float(2 * tail * at / square * at / 2) == pytest.approx(1, abs=1.3 * float(at))
            shared = mf.evaluate(dead.kernel(mf.q, mf.p), q=float(at), p=float(at / 2))
            assert 0 < shared < float(square * mp.exp(-2 / (3 * at)))


def test_variances_up_to_where_the_next_one_overflows_are_resolved() -> None:
    """E exp(u/3)^2 = exp(2 q/9)"""
    found = mf.fixed_points(mf.mlp(mf.Activation(sp.exp(mf.x / 3))), sigma_w=1.5, sigma_b=0.2)
    assert found.reason == "q' > q for every variance up to 1e+12: q leaves that behind"


DROPPED = {
    "tanh": (mf.Activate(mf.tanh) >> mf.Dropout(0.15) >> mf.Linear(), 1.7, 0.2),
    "next to nothing": (mf.Activate(mf.tanh) >> mf.Dropout(1e-7) >> mf.Linear(), 1.1, 0.2),
    "relu": (mf.Activate(mf.relu) >> mf.Dropout(0.3) >> mf.Linear(), 0.9, 0.2),
    "residual": (mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Dropout(0.1) >> mf.Linear(), skip=sp.Rational(3, 5)), 1.1, 0.4),
    "batch norm": (mf.BatchNorm() >> mf.Activate(mf.tanh) >> mf.Linear(), 1.3, 0.3),
    "batch norm and skip": (mf.Residual(mf.BatchNorm() >> mf.Activate(mf.relu) >> mf.Linear(), skip=sp.Rational(1, 2)), 0.7, 0.3),
}


@pytest.mark.parametrize("name", DROPPED)
def test_where_identical_inputs_come_apart_c_1_is_no_fixed_point(name: str) -> None:
    """the one fixed point is where pairs from both sides go"""
    net, w, b = DROPPED[name]
    (point,) = mf.fixed_points(net, sigma_w=w, sigma_b=b)
    assert point.stable
    assert point.gap > 0
    run = mf.propagate(net, 600, 1.0, gap=np.array([1e-9, 0.9]), record="last", sigma_w=w, sigma_b=b)
    assert run.q[:, -1] == pytest.approx(point.q, rel=1e-12)
    assert run.gap[:, -1] == pytest.approx(point.gap, rel=1e-9)
    step = mf.propagate(net, 1, point.q, gap=point.gap * np.array([1 - 1e-5, 1 + 1e-5]), record="last", sigma_w=w, sigma_b=b)
    assert float(np.diff(step.gap[:, -1])[0]) / (2e-5 * point.gap) == pytest.approx(point.chi, rel=1e-4, abs=1e-9)


def test_a_mask_that_drops_nothing_and_weights_of_nothing_leave_c_1_a_fixed_point() -> None:
    net = mf.Activate(mf.erf) >> mf.Dropout() >> mf.Linear()
    plain = mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.6, sigma_b=0.1)
    kept = mf.fixed_points(net, rate=0, sigma_w=1.6, sigma_b=0.1)
    assert [f.status for f in kept] == [f.status for f in plain] == ["isolated"] * 2
    assert np.array([(f.q, f.gap, f.chi) for f in kept]) == pytest.approx(np.array([(f.q, f.gap, f.chi) for f in plain]), rel=1e-12)
    (still,) = mf.fixed_points(net, rate=0.2, sigma_w=0, sigma_b=0.3)
    assert (still.c, still.chi, still.stable) == (1, 0, True)


def test_pairs_of_a_net_with_dropout_and_no_bias_have_a_correlation_where_the_variance_vanishes() -> None:
    """relu: c' = (1 - rate) kappa(c) for every q"""
    net = mf.Activate(mf.relu) >> mf.Dropout(0.25) >> mf.Linear()
    (point,) = mf.fixed_points(net, sigma_w=0.9, sigma_b=0)
    run = mf.propagate(net, 300, 1.0, c=0.2, record="last", sigma_w=0.9, sigma_b=0)
    assert (point.q, point.stable, point.c) == (0, True, pytest.approx(float(run.c[-1]), rel=1e-10))


def test_tokens_of_a_net_with_dropout_settle_apart() -> None:
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(n=8), mlp=mf.MLP(mf.relu) >> mf.Dropout(0.1), skip=sp.Rational(4, 5))
    values = dict.fromkeys(["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1", "sigma_2"], 1.0)
    (point,) = mf.fixed_points(net, **values)
    run = mf.propagate(net, 300, 1.0, c=0.99, record="last", **values)
    assert (point.q, point.gap) == (pytest.approx(float(run.q[-1]), rel=1e-10), pytest.approx(float(run.gap[-1]), rel=1e-9))


@pytest.mark.parametrize(
    ("net", "values", "shown"),
    [
        (
            mf.mlp(mf.identity),
            {"sigma_w": 0.5, "sigma_b": 0.0},
            r"q^* = 0,\quad \chi = 1,\quad \chi_\parallel = 0.25,\quad \text{stable, every $c$}",
        ),
        (
            mf.mlp(mf.tanh),
            {"sigma_w": 0.0, "sigma_b": 0.0},
            r"q^* = 0,\quad \chi = 0,\quad \chi_\parallel = 0,\quad \text{stable, no correlation}",
        ),
    ],
    ids=["every c", "no correlation"],
)
def test_where_c_can_be_anything_all_faces_say_so(net: mf.Block, values: dict[str, float], shown: str) -> None:
    found = mf.fixed_points(net, **values)
    assert found.status == "c open"
    assert "q" in found.reason
    assert found.reason in repr(found)
    assert shown in found.latex()
    assert "c^*" not in found[0].latex()
    assert "NaN" not in found.latex()


def test_a_point_with_its_own_c_shows_it_and_its_kind() -> None:
    found = mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05)
    assert (found.status, found.reason) == ("ok", "")
    assert r"c^* = 0.0619728,\quad \chi = 0.93809,\quad \chi_\parallel = 0.494776,\quad \text{stable}" in found.latex()


@pytest.mark.parametrize("sigma_1", [0.8, 1, 1.5])
def test_tokens_that_an_average_makes_one_have_chi_0_where_q_vanishes(sigma_1):
    found = mf.fixed_points(mf.UniformAttention(4, 1, 1) >> mf.MLP(mf.tanh, sigma_1, 1))
    assert found.status == "ok"
    assert all(f.c == 1 and f.chi == 0 for f in found)
    assert found[0].q == 0
    assert found[0].chi_parallel == pytest.approx(sigma_1**2)


def test_opposite_inputs_of_two_sublayers_are_no_further_apart_than_rounding_has_them() -> None:
    """of an odd function: c = 1, 0 and -1 stay, the middle one is where runs end"""
    phi, sigma_w = mf.softsign, 1.574457502758206
    net = mf.Residual(mf.Activate(phi) >> mf.Linear(), skip=0.8) >> mf.mlp(phi)
    found = mf.fixed_points(net, sigma_w=sigma_w, sigma_b=0.0)
    same, none, opposite = (f for f in found if f.q > 0)
    assert (same.c, none.c, opposite.c) == (1, 0, -1)
    assert (same.stable, none.stable, opposite.stable) == (False, True, False)
    assert mf.propagate(net, 2000, same.q, c=0.9, sigma_w=sigma_w, sigma_b=0.0, record="last").c[-1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("n", [21, 41, 61])
def test_high_powers_have_a_limit_at_the_origin(n: int) -> None:
    """their moments are no doubles at two of the variances that stand for q -> 0, or at each: dc'/dc at c = 1 is n^2/(2 n - 1)"""
    found = mf.fixed_points(mf.mlp(mf.Activation(mf.x**n)), sigma_w=1.2, sigma_b=0)
    origin = [point for point in found if point.q == 0]
    assert [point.c for point in origin] == [1, 0, -1]
    assert [point.stable for point in origin] == [False, True, False]
    assert origin[0].chi == pytest.approx(n**2 / (2 * n - 1), rel=1e-12)


@pytest.mark.parametrize("phi", [mf.tanh, mf.relu], ids=str)
def test_variances_beyond_the_doubles_are_no_continuum(phi: mf.Activation) -> None:
    found = mf.fixed_points(mf.mlp(phi), sigma_w=1e155, sigma_b=0)
    assert found.status != "continuum"
    assert "could not be resolved in float64" in found.reason
