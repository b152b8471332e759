"""Every activation of the catalogue against the stored values of tests/oracle: what is closed and what is not, to the same contract.

A moment is right to 1e-12 of E|phi(u) phi(v)| (E|phi(u)| for a mean); near the origin, where means and kernels at p = 0 cancel, to 1e-11
of itself; a gap always to 1e-11 of itself; what is 0 is 0.0; what is no normal double is refused, and has a logarithm.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import bound
from conftest import clear_caches
from flint import acb, arb, ctx
from oracle.certified import agreed_kernels, real
from oracle.functions import FUNCTIONS, Exponentials, Function, Open
from oracle.generate import BY_NAME, DRAWN, Row, computed, drawn, points, quick, read
from oracle.invented import INVENTED

import meanfield as mf
from meanfield.numeric.abnormal import FAINT, LARGEST

ROWS, INVENTED_ROWS = read(), read(DRAWN)
MEAN = sp.Symbol("m", real=True)

# ---------------------------------------------------------------------------------------------------------------------------------
# the library's side


def member(f: Function) -> mf.Activation:
    """the activation of that name in the catalogue, or its member with these parameters"""
    numbers = [sp.Rational(a) for a in f.arguments]
    if not numbers:
        return mf.activations[f.name]
    return mf.activations[f.name](numbers) if f.name == "polynomial" else mf.activations[f.name](*numbers)


def shape(row: Row) -> str:
    """which expression of the library a row belongs to"""
    law = "shifted" if row.mean else "unequal" if row.q2 not in (None, row.q1) else "centred"
    return f"{row.moment}, {law}"


def expression(phi: mf.Activation, shape: str) -> sp.Expr:
    moment, law = shape.split(", ")
    if moment == "gap":
        return phi.gap(mf.q, mf.delta)
    act = phi.derivative if moment.startswith("slope") else phi
    mean = MEAN if law == "shifted" else 0
    if moment == "mean":
        return act.mean(mf.q, mean=mean)
    if moment in ("second", "slope"):
        return act.second_moment(mf.q, mean=mean)
    return act.kernel(mf.q, mf.p, mean=mean) if law != "unequal" else act.kernel(mf.q1, mf.p, mf.q2)


def arguments(rows: Iterable[Row]) -> dict[str, Any]:
    rows = list(rows)
    moment, law = shape(rows[0]).split(", ")
    names = {"q1" if law == "unequal" else "q": [r.q1 for r in rows]}
    if moment in ("kernel", "slope_kernel"):
        names |= {"p": [r.second for r in rows]} | ({"q2": [r.q2 for r in rows]} if law == "unequal" else {})
    if moment == "gap":
        names["delta"] = [r.second for r in rows]
    if law == "shifted":
        names["m"] = [r.mean for r in rows]
    return {k: np.array(v) for k, v in names.items()}


# ---------------------------------------------------------------------------------------------------------------------------------
# the comparison


def value(row: Row) -> mp.mpf:
    with mp.workdps(30):
        return mp.mpf(row.value)


def is_normal(row: Row) -> bool:
    return value(row) == 0 or FAINT <= abs(value(row)) <= LARGEST


def keeps_its_digits(row: Row) -> bool:
    """gaps; and near the origin what is 0 there: means, and kernels at p = 0"""
    f = BY_NAME[row.function]
    analytic = not any(f.kinks) and not f.has_jumps  # or with its kink at 0
    small = row.q1 <= 1e-6 and not row.mean and analytic and (row.moment == "mean" or (row.moment == "kernel" and row.second == 0))
    return row.moment == "gap" or small


def tolerance(row: Row) -> mp.mpf:
    truth = abs(value(row))
    if truth == 0:
        return mp.mpf(0)
    if keeps_its_digits(row):
        return mp.mpf("1e-11") * truth
    return mp.mpf("1e-12") * max(mp.mpf(row.size or 0), truth)


def wrong(rows: list[Row], found: Iterable[float]) -> list[str]:
    """the rows that are not met, each with what was found and by how many tolerances it misses"""
    misses = []
    with mp.workdps(30):
        for row, number in zip(rows, found, strict=True):
            allowed, error = tolerance(row), abs(mp.mpf(float(number)) - value(row))
            if not error <= allowed:
                times = mp.nstr(error / allowed, 3) if allowed else "oo"
                at = f"q={row.q1!r}" + (f" second={row.second!r} q2={row.q2!r}" if row.second is not None else "") + f" mean={row.mean!r}"
                misses.append(f"{row.function} {row.moment} {at}: {float(number)!r}, not {row.value}, {times} tolerances ({row.known})")
    return misses


@cache
def table() -> dict[str, dict[str, list[Row]]]:
    grouped: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in ROWS:
        grouped[row.function][shape(row)].append(row)
    return grouped


def compare(phi: mf.Activation, rows: list[Row]) -> list[str]:
    normal = [r for r in rows if is_normal(r)]
    return wrong(normal, bound(expression(phi, shape(normal[0])), **arguments(normal))) if normal else []


# ---------------------------------------------------------------------------------------------------------------------------------
# the table against the library

#: every function
ALWAYS = ("second, centred", "kernel, centred", "gap, centred")
#: every one with closed forms; of the others, where each expression is compiled anew, every third
ALSO = (
    "mean, centred", "slope, centred", "slope_kernel, centred", "kernel, unequal", "slope_kernel, unequal",
    "mean, shifted", "second, shifted", "slope, shifted", "kernel, shifted", "slope_kernel, shifted",
)  # fmt: skip
OPEN = [str(f) for f in FUNCTIONS if isinstance(f, Open)]
CASES = [
    (str(f), s)
    for f in FUNCTIONS
    for s in (*ALWAYS, *(ALSO if not isinstance(f, Open) or OPEN.index(str(f)) % 3 == 0 else ()))
    if not (s == "slope, shifted" and f.has_jumps)
]


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_values(name: str, moment: str) -> None:
    phi, rows = member(BY_NAME[name]), table()[name][moment]
    if any(r.value == "inf" for r in rows):
        assert expression(phi, moment) is sp.oo
        return
    assert not compare(phi, rows)


ABNORMAL = [(n, s) for n, s in CASES if any(r.value != "inf" and not is_normal(r) for r in table()[n][s])]


@pytest.mark.parametrize(("name", "moment"), ABNORMAL)
def test_no_normal_double(name: str, moment: str) -> None:
    """below 2.2e-308 or above 1.8e308: refused, each of them; the logarithm of a positive one is there"""
    check_abnormal(expression(member(BY_NAME[name]), moment), table()[name][moment])


def check_abnormal(e: sp.Expr, rows: list[Row]) -> None:
    for row in (r for r in rows if not is_normal(r)):
        at = {k: v[0] for k, v in arguments([row]).items() if k in {s.name for s in e.free_symbols}}
        with pytest.raises(OverflowError, match="1 of 1 values"):
            mf.evaluate(e, **at)
        if value(row) > 0:
            with mp.workdps(30):
                truth = mp.log(value(row))
            assert abs(mf.evaluate(e, **at, log=True) - truth) <= 1e-11 * abs(truth), row


# ---------------------------------------------------------------------------------------------------------------------------------
# activations that no catalogue has

x = mf.x
INVENTIONS = {
    "ramp": sp.Max(0, sp.Min(1, 20 * (x - sp.Rational(1, 2)))),
    "hard_cube": sp.Piecewise((-1, x < -2), (x**3 / 8, x < 2), (1, True)),
    "stairs": sp.Heaviside(x - 1) + sp.Heaviside(x + 1) / 2 + x / 3,
    "erf_bump": sp.erf(x + 1) - sp.erf(x - 1),
    "gate_difference": x * (sp.erf(3 * x) - sp.erf(x)) / 2,
    "tanh_bump": sp.tanh(x + 1) - sp.tanh(x - 1),
    "tanh_wave": sp.tanh(x) + sp.sin(3 * x) / 10,
    "tanh_exp_of": sp.exp(sp.tanh(x)),
    "witch": x / (1 + x**2),
    "dead_ratio": sp.Max(0, x - sp.Rational(1, 2)) ** 2 / (1 + x**2),
}


@pytest.mark.parametrize("f", INVENTED, ids=str)
def test_invented(f: Function) -> None:
    """four of its expressions, at points drawn by its name"""
    phi, rows = mf.Activation(INVENTIONS[str(f)]), [r for r in INVENTED_ROWS if r.function == str(f)]
    assert {r.key for r in rows} == {r.key for r in drawn(f)}
    for moment in random.Random(f"{SEED} {f}").sample(sorted({shape(r) for r in rows}), 4):
        asked = [r for r in rows if shape(r) == moment]
        assert not compare(phi, asked)
        check_abnormal(expression(phi, moment), asked)


# ---------------------------------------------------------------------------------------------------------------------------------
# the table is what its generator makes


def test_the_table_is_complete() -> None:
    """each point of each function, once, and nothing else"""
    asked, held = [r.key for f in FUNCTIONS for r in points(f)], [r.key for r in ROWS]
    assert len(held) == len(set(held))
    assert set(held) == set(asked)


def test_the_catalogue_is_in_the_table() -> None:
    names = {getattr(phi, "__name__", repr(phi)) for phi in mf.activations.values()}
    assert names == {f.name for f in FUNCTIONS}


SEED = int(os.environ.get("MEANFIELD_SAMPLE_SEED", "20261121"))


def test_a_sample_is_what_the_generator_makes() -> None:
    print(f"MEANFIELD_SAMPLE_SEED={SEED}")
    sample = random.Random(SEED).sample([r for r in ROWS + INVENTED_ROWS if quick(r) and r.value != "inf"], 25)
    for row in sample:
        again = computed(replace(row, value="", size="", known=""))
        assert again.known == row.known
        with mp.workdps(30):
            assert abs(value(again) - value(row)) <= mp.mpf("1e-23") * abs(value(row)), (SEED, row, again)


def test_closed_smoothing_and_panels_agree() -> None:
    """the rule behind `agreed` on functions whose values are certified, another way: at a few points of the table"""
    both = [BY_NAME[name] for name in ("erf", "gelu", "gabor", "elu", "hard_swish", "relu6")]
    for q1, p, q2, m in ((1.0, 0.3, 1.0, 0.0), (0.7, 0.6, 1.9, 0.0), (7.0, -3.0, 7.0, -2.0)):
        panels = agreed_kernels(both, q1, arb(p), q2, m, 18)
        for f, pair in zip(both, panels, strict=True):
            for moment, ball in zip(("kernel", "slope_kernel"), pair, strict=True):
                (row,) = (r for r in ROWS if r.key == (str(f), moment, q1, p, q2, m))
                assert row.known == "certified"
                with ctx.workprec(100):
                    assert abs(ball.mid() - arb(row.value)) < arb("1e-16"), row


def conditioned(f: Exponentials, q1: float, p: float, q2: float, m: float, slope: bool) -> arb:
    """E phi(u) E[phi(v) | u], the inner mean elementary"""
    terms, piece = f._slope(f.terms()) if slope else f.terms(), (f.slopes if slope else f.values)[0]
    rate, rest = arb(p) / arb(q1), arb(q2) - arb(p) ** 2 / arb(q1)

    def integrand(z: acb, _: bool) -> acb:
        at = m + rate * (z - m)
        inner = sum((c * ((at + b * rest) if n else 1) * (b * at + b * b * rest / 2).exp() for c, n, b in terms), acb(0))
        return piece(z, False) * inner * (-((z - m) ** 2) / (2 * arb(q1))).exp() / (2 * arb.pi() * arb(q1)).sqrt()

    return acb.integral(integrand, acb(-14), acb(14)).real


@pytest.mark.parametrize("name", ["sin", "cos", "rbf", "exp", "snake(0.6)", "gcu"])
def test_sums_of_exponentials(name: str) -> None:
    """their elementary formulas beside an integral"""
    f = BY_NAME[name]
    for q1, p, q2, m in ((0.7, 0.6, 1.9, 0.0), (1.0, 0.3, 1.0, 0.3)):
        for slope in (False, True):
            with ctx.workdps(30):
                formula = f.pair(arb(m), arb(q1), arb(p), arb(q2), slope)
                assert abs(conditioned(f, q1, p, q2, m, slope) - formula) < arb("1e-20"), (q1, slope)


@pytest.mark.parametrize("f", FUNCTIONS, ids=str)
def test_typed_slopes_are_slopes(f: Function) -> None:
    """f(b) - f(a) is the integral of the typed slope between two points of a piece, and the typed parity holds"""
    with ctx.workdps(30):
        ends = [-4.75, *(float(k) for k in f.kinks), 5.25]
        for value_, slope, a, b in zip(f.values, f.slopes, ends, ends[1:], strict=False):
            a, b = a + (b - a) / 8, b - (b - a) / 8
            change = acb.integral(lambda z, flag, slope=slope: slope(z, flag), acb(a), acb(b)).real
            assert (value_(arb(b), False) - value_(arb(a), False) - change).contains(0)
            assert abs(change) < 1e6
        x = real("1.37")

        def at(t: arb) -> arb:
            return f.values[sum(real(k) < t for k in f.kinks)](t, False)

        assert bool((at(x) - at(-x)).contains(0)) == (f.parity == 1)
        assert bool((at(x) + at(-x)).contains(0)) == (f.parity == -1)


# ---------------------------------------------------------------------------------------------------------------------------------
# what is wrong fails


def test_a_wrong_value_in_the_table_fails() -> None:
    for name, moment in (("gelu", "kernel, centred"), ("relu6", "gap, centred"), ("tanh", "second, centred")):
        phi, rows = member(BY_NAME[name]), [r for r in table()[name][moment] if r.q1 == 1.0 and is_normal(r)]
        assert not compare(phi, rows)
        for i, row in enumerate(rows):
            if value(row) == 0:
                continue
            with mp.workdps(30):
                shifted = replace(row, value=mp.nstr(value(row) + 3 * tolerance(row), 25))
            assert len(compare(phi, [*rows[:i], shifted, *rows[i + 1 :]])) == 1, row


def test_a_wrong_activation_fails() -> None:
    """one coefficient of the catalogue off by 1e-9"""
    for name, right in (("silu", sp.exp(-mf.x)), ("elu", sp.exp(mf.x))):
        phi = mf.activations[name].expression
        planted = phi.subs(right, right * (1 + sp.Rational(1, 10**9)))
        assert planted != phi
        rows = [r for r in table()[name]["second, centred"] if r.q1 in (0.3, 1.0, 7.0)]
        assert not compare(mf.activations[name], rows)
        assert len(compare(mf.Activation(planted), rows)) == len(rows)


def test_a_wrong_closed_form_fails(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    """1 + 1e-10 times the kernel"""
    from meanfield.gaussian import closed

    right = closed.cross
    rows = [r for r in table()["gelu"]["kernel, centred"] if r.q1 == 1.0 and r.second == 0.9]
    assert not compare(mf.Activation(mf.gelu.expression), rows)
    monkeypatch.setattr(closed, "cross", lambda *args: right(*args) * (1 + sp.Rational(1, 10**10)))
    clear_caches()
    assert compare(mf.Activation(mf.gelu.expression), rows)
