r"""How averages over softmax weights are taken: the two laws that `Attention` may be given.

Logits are Gaussian with variance and covariance \sigma_QK^2 q C_bb', \sigma_QK^2 p C_bb' within a row and between two rows (C the Gram
matrix of the tokens). A shift common to a row drops out, so that a row has n independent logits of variance v = \sigma_QK^2 q D and
two rows have covariance c = \sigma_QK^2 p D, D = q - p. What attention needs are the overlaps of weights, written with exponents as

    y_q = E \sum_b A_ab^2 = 1/(1 + (n-1) e^{-w_q}),   y_p = E \sum_b A_ab A_cb = 1/(1 + (n-1) e^{-w_p}),   w_q = W(v), w_p = W(c),

and, by Price's theorem, the softmax derivative: \Psi = E \sum_{bb'} (dA_ab/dx_b')(dA_cb/dx_b') = dy/dc = y (1 - y) W'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from meanfield.blocks.laws import Definition, Signal
from meanfield.gaussian.softmax import SoftmaxExponent, SoftmaxResponse, SoftmaxTriple

__all__ = ["Annealed", "Exponents", "Quenched", "SoftmaxAverage"]


@dataclass(frozen=True)
class Exponents:
    r"""w_q, w_p, their difference without cancellation, W' at the same row and between rows (given y_q), and the names used."""

    same: sp.Expr
    cross: sp.Expr
    gap: sp.Expr
    slopes: Callable[[sp.Expr], tuple[sp.Expr, sp.Expr]]
    definitions: tuple[Definition, ...] = ()


class SoftmaxAverage(ABC):
    """A law of averages over softmax weights."""

    @abstractmethod
    def exponents(self, signal: Signal, n: sp.Expr, s: sp.Expr) -> Exponents:
        r"""The exponents for that signal, n tokens and \sigma_QK^2 = s."""


@dataclass(frozen=True)
class Annealed(SoftmaxAverage):
    r"""Every power sum of weights is a ratio of expectations (Cowsik et al. 2024, Assumption 2):  W(c) = c.

    For the derivative, W' = 1/(1 + 2 v y_q), exact to first order in v. Elementary. E \sum_b A_ab^2 is 1 % too large at v = 0.3, 16 % at 1
    and twice what it is at 2.9 for n = 16 (n = 512: 1 % at 1, 39 % at 2.9): where p or a skip carries q, as in most networks, q and p are
    good to 2 % while v is below about 3, and q is 16 % off at v = 7; of uncorrelated tokens they are not.

    >>> import meanfield as mf
    >>> mf.Attention(average=mf.Annealed()) == mf.Attention()
    True
    >>> mf.propagate(mf.Attention(16, 1, 1, 1, 1, average=mf.Annealed()), depth=1, q=1.0, p=0.4).q.round(4)
    array([1.   , 0.465])
    """

    def exponents(self, signal: Signal, n: sp.Expr, s: sp.Expr) -> Exponents:
        q, p, d = signal.q, signal.p, signal.delta

        def slopes(y_q: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
            eta = 1 / (1 + 2 * s * q * d * y_q)
            return eta, eta

        return Exponents(s * q * d, s * p * d, s * d**2, slopes)


@dataclass(frozen=True)
class Quenched(SoftmaxAverage):
    r"""Averages over Gaussian logits themselves, by one-dimensional integrals (`meanfield.gaussian.softmax`).

    Exact within a row: W(v) = v \omega, W'(v) = \mu. Between rows exact at both ends with the slope, and at c = 0 with the curvature,

        W(0) = 0,   W'(0) = \beta_2^2,   W''(0) = (1 - 2/n) (\beta_3^2 - \beta_2^4),   \beta_k = n^k E A_1 ... A_k.

    Where logits are large, a row is one token but where two are near a tie: 1 - y_p falls as \sqrt{v - c} and W' tends to 1/3 at c = v.
    That is the logarithm L(c) = -ln(1 - c/a)/2, a = v + 3/2. What W is beyond it is

        W(c) - L(c) = F(t),   t = (1 - \rho)/(1 - r_v),   \rho = \sqrt{3 (a - c)/(3 a + c)},   r_v = \rho(v),

    F the polynomial of degree 4 that has these five values; the root is that of 1 - y_p, and t is straight at c = 0 but for c^3. For
    0 <= p < q, y_p is then within 0.2 % of the two-dimensional integral for v <= 3, within 2.5 % for v <= 9 and within 4 % for any v,
    also where attention is hard (n = 2 ... 512; 6 % for n = 4096), \Psi within 4 % for v <= 60 and 9 % beyond (11 % for n = 4096), and no
    digits are lost as p -> q (tests/blocks/test_quenched.py). For p < 0, which few tokens can have, it is less exact: for n = 2 by up to
    3.3 % where p = -0.6 q, by 4 % at v = 3 and 41 % in the limit where p = -0.9 q. Beyond v = 1e200 there is no number.

    >>> import meanfield as mf
    >>> mf.propagate(mf.Attention(16, 1, 1, 1, 1, average=mf.Quenched()), depth=1, q=1.0, p=0.4).q.round(4)
    array([1.    , 0.4617])
    """

    def exponents(self, signal: Signal, n: sp.Expr, s: sp.Expr) -> Exponents:
        q, p, d = signal.q, signal.p, signal.delta
        names: list[Definition] = []

        def named(name: str, latex: str, value: sp.Expr, shown: sp.Expr | None = None, **assumptions: bool) -> sp.Dummy:
            names.append(Definition(sp.Dummy(name, **assumptions), value, latex, shown=shown))
            return names[-1].symbol

        # within a row
        v = named("v", "v", s * q * d, nonnegative=True)
        omega = named("omega", r"\omega", SoftmaxExponent(v, n), positive=True)
        mu = named("mu", r"\mu", SoftmaxResponse(v, n), positive=True)
        pair = named("beta_2", r"\beta_2", n / (n - 1 + sp.exp(v * omega)), positive=True)
        triple = named("beta_3", r"\beta_3", SoftmaxTriple(v, n), positive=True)

        # where two rows are on the way from c = 0 to v
        c, far, near = s * p * d, 2 * v + 3, 2 * s * d**2 + 3  # far = 2 a, near = 2 (a - c)
        r_v = named("r_v", "r_v", 3 / sp.sqrt(8 * v + 9), positive=True)
        rho = named("rho", r"\rho", sp.sqrt(3 * near / (3 * far + 2 * c)), positive=True)
        share = 3 * far / (3 * far + 2 * c)
        u = named("u", "u", d / q * share * (1 + r_v) / (rho + r_v), nonnegative=True)
        t = 1 - u
        speed = named("t_0", r"\dot{t}", (1 + r_v) * (8 * v + 9) / (6 * far), positive=True)  # v dt/dc at c = 0

        # F/v = a_1 t + a_2 t^2/2 + b_3 t^3 + b_4 t^4, whose slope at t = 1 is a_3
        a_1 = named("a_1", "a_1", (pair**2 - 1 / far) / speed, real=True)
        k_2, k_3 = named("k_2", "k_2", v * pair**2, positive=True), named("k_3", "k_3", v * triple, positive=True)  # 1/v^2 may be no double
        curvature = (1 - 2 / n) * (k_3 * triple - k_2 * pair**2) - (1 - 3 / far) / far
        a_2 = named("a_2", "a_2", curvature / speed**2, real=True)
        a_3 = named("a_3", "a_3", *_end_slope(v, n, mu, pair, triple, far * r_v * (1 + r_v) / 2), real=True)
        b_0 = named("b_0", "b_0", *_end_value(v, omega, far), real=True)
        rest, slope = b_0 - a_1 - a_2 / 2, a_3 - a_1 - a_2
        b_4 = named("b_4", "b_4", slope - 3 * rest, real=True)
        b_3 = named("b_3", "b_3", rest - b_4, real=True)

        # ln(x/y)/2 = asinh((x - y)/(2 sqrt(x y))); the gap is in powers of u
        cross = sp.asinh(c / (sp.sqrt(far) * sp.sqrt(near))) + v * t * (a_1 + t * (a_2 / 2 + t * (b_3 + t * b_4)))
        bend = a_2 / 2 + 3 * b_3 + 6 * b_4
        gap = sp.asinh(s * d**2 / sp.sqrt(3 * near)) + v * u * (a_3 - u * (bend - u * (b_3 + 4 * b_4 - u * b_4)))
        rise = (a_1 + t * (a_2 + t * (3 * b_3 + 4 * t * b_4))) * speed * rho * share * (far / near)
        return Exponents(v * omega, named("w_p", "w_p", cross, real=True), gap, lambda _: (mu, 1 / near + rise), tuple(names))


def _end_slope(v: sp.Expr, n: sp.Expr, mu: sp.Expr, pair: sp.Expr, triple: sp.Expr, scale: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    r"""(3 \mu - 1)/scale, in doubles and as it is read: where logits are so wide that rounding of \mu counts as much as 1/\sqrt{v}, its
    limit \beta_2 (1 - 1/n) - (1 - 2/n) \beta_3/\beta_2, which is exact but for 1/\sqrt{v} of it."""
    exact, limit = 3 * mu - 1, (1 - 1 / n) * pair - (1 - 2 / n) * triple / pair
    return sp.Piecewise((limit, v > sp.Float(1e14)), (exact, True)) / scale, exact / scale


def _end_value(v: sp.Expr, omega: sp.Expr, far: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    r"""\omega - L(v)/v, in doubles and as it is read: for small v by its series, which 0 is in."""
    exact, series = sp.asinh(v / sp.sqrt(3 * far)) / v, sp.Rational(1, 3) - v / 9 + 4 * v**2 / 81
    return omega - sp.Piecewise((series, v < sp.Float(1e-6)), (exact, True)), omega - exact
