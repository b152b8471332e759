r"""The gradient that reaches the input of a gated attention unit through its features Z, token pattern by token pattern.

With A_ab = relu(S_ab)^2/(n s), S_ab = Z_a . Z_b and a gradient g of Y = A V, the gradient of S_ab is B_ab g_a . V_b, B = dA/dS, and

    dL/dz_a = \sum_b B_ab (g_a . V_b + g_b . V_a) z_b.

B depends on the feature in question too: it is linear in S where it is not 0, so B(S) = B(S - y) + y B'(S - y) with y = z_a z_b that
feature's own part. In W_z phi'(h) dL/dz two features meet in the span of the tokens, where rows of W_z are not independent: s/d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp
from sympy import S

from meanfield.activation import Activation
from meanfield.blocks.overlaps import Kernel, Names, Rectified
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.slopes import slope
from meanfield.symbols import known

__all__ = ["FeaturePath"]

x, y = known("x"), known("y")

Pair = tuple[int, int]


@dataclass(frozen=True)
class FeaturePath:
    r"""What the two-token second moments of z phi'(h) dL/dz are made of: the features, the moments of U and V, and sizes.

    `z`, `u`, `v`: kernels of the three; r and t: variance and covariance of the features' pre-activations; extra: the variance that the
    overlaps of the inputs add to S_ab.
    """

    names: Names
    phi: Activation
    z: Kernel
    u: Kernel
    v: Kernel
    r: sp.Expr
    t: sp.Expr
    delta: sp.Expr
    s: sp.Expr
    n: sp.Expr
    d: sp.Expr
    extra: sp.Expr

    def transfer(self) -> sp.Matrix:
        """The transfer of (J, K) of this path for gains of 1."""
        rest = self.s - 1  # the features but the one in question
        mean = self.names("mean_rest", rest * self.z.p, "m_-")
        variance = self.names.variance("variance_rest", self.covariance((0, 1), (0, 1)), "v_-", rest * self.z.q**2)
        off = Rectified.of(self.names, mean, variance)
        rows = []
        for other in (0, 1):
            row: list[list[sp.Expr]] = [[], []]
            for first, second, count in self.patterns(other):
                size = self.names("B", self.feature(first, second, off), "B")
                for terms, weight in zip(row, self.upstream(first, second), strict=True):
                    terms.append(count * size * weight)
            rows.append([sp.Add(*terms) for terms in row])
        return sp.Matrix(rows) / (self.n**2 * self.s)

    def patterns(self, other: int) -> Iterator[tuple[Pair, Pair, sp.Expr]]:
        """Pairs (0, b), (other, c) of tokens up to names, and how many (b, c) are like it."""
        here = [0] if other == 0 else [0, 1]
        free = self.n - len(here)
        for b in here:
            yield from (((0, b), (other, c), S.One) for c in here)
            yield (0, b), (other, 2), free
        yield from (((0, 2), (other, c), free) for c in here)
        yield (0, 2), (other, 2), free
        yield (0, 2), (other, 3), free * (free - 1)

    def upstream(self, first: Pair, second: Pair) -> tuple[sp.Expr, sp.Expr]:
        """the coefficients of J and K in E (g_a . V_b + g_b . V_a)(g_a' . V_c + g_c . V_a')"""
        weights = [S.Zero, S.Zero]
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            same_gradient, same_value = first[i] == second[j], first[1 - i] == second[1 - j]
            gradient = self.u.q if same_gradient else self.u.p
            weights[0 if same_gradient else 1] += gradient * (self.v.q if same_value else self.v.p)
        return weights[0], weights[1]

    def feature(self, first: Pair, second: Pair, off: Rectified) -> sp.Expr:
        """E B_1 B_2 phi'_a phi'_a' z_b z_c of one feature and, of pairs of features, in units of 1/(n s)^2"""
        total = S.Zero
        for i in (0, 1):
            for j in (0, 1):
                total += self.slopes(first, second, off, i, j) * self.moment(first, second, i, j)
        together = self.names("meeting", self.meeting(first, second), r"\gamma")
        return total + (self.s - 1) / self.d * self.slopes(first, second, off, 0, 0) * together

    def slopes(self, first: Pair, second: Pair, off: Rectified, i: int, j: int) -> sp.Expr:
        """E f^(1+i)(S_1) f^(1+j)(S_2) of f = relu^2 for overlaps of the other features"""
        e0, e1, e2, e3 = off.values
        if first[0] != first[1] and set(first) == set(second):
            return ((4 * e0, 2 * e1), (2 * e1, 2 * e2))[i][j]
        diagonal = (2 * (self.s - 1) * self.z.q, S(2), S.Zero)
        one, two = (diagonal if pair[0] == pair[1] else (e1, e2, e3) for pair in (first, second))
        c = self.names("covariance_rest", self.covariance(first, second), "c_-")
        return sp.Add(*[c**k / sp.factorial(k) * one[i + k] * two[j + k] for k in range(3 - max(i, j))])

    def covariance(self, first: Pair, second: Pair) -> sp.Expr:
        """Cov(S_1, S_2) of the other features"""
        powers = [sum(t == token for t in (*first, *second)) for token in dict.fromkeys((*first, *second))]
        means = sp.Mul(*[self.z.q if pair[0] == pair[1] else self.z.p for pair in (first, second)])
        same = first[0] != first[1] and set(first) == set(second)
        return (self.s - 1) * (self._expected([(k, 0) for k in powers]) - means) + (self.extra if same else 0)

    def moment(self, first: Pair, second: Pair, i: int, j: int) -> sp.Expr:
        """E phi'_a phi'_a' z_b z_c (z_a z_b)^i (z_a' z_c)^j"""
        values = [first[1], second[1], *(first * i), *(second * j)]
        slopes = [first[0], second[0]]
        return self._expected([(values.count(t), slopes.count(t)) for t in dict.fromkeys((*first, *second))])

    def _expected(self, powers: list[tuple[int, int]]) -> sp.Expr:
        return Exchangeable(self.phi.expression, powers, self.r, self.delta)

    def meeting(self, first: Pair, second: Pair) -> sp.Expr:
        """w_ab . w_a'c with w_ab = E[phi''_a z_b] h_a + E[phi'_a phi'_b] h_b, the gradient of a feature's E z_a z_b, along h_a and
        h_b - h_a, which is small next to h_b between tokens next to each other"""

        def gradient(pair: Pair) -> list[tuple[sp.Expr, dict[int, int]]]:
            f, (a, b) = self.phi.expression, pair
            if a == b:  # E h_a phi'_a z_b = r E phi''_a z_b + Cov(h_a, h_b) E phi'_a phi'_b
                return [(Expectation(x * slope(f) * f, self.r) / self.r, {a: 1})]
            own, tangent = PairExpectation(x * slope(f) * f.xreplace({x: y}), self.r, self.t, self.r), self._expected([(0, 1), (0, 1)])
            return [((own + self.delta * tangent) / self.r, {a: 1}), (tangent, {a: -1, b: 1})]

        def product(h: dict[int, int], k: dict[int, int]) -> sp.Expr:
            pairs = [(m * n, a == b) for a, m in h.items() for b, n in k.items()]
            return self.r * sum(m for m, _ in pairs) - self.delta * sum(m for m, same in pairs if not same)

        return sp.Add(*[g * h * product(one, two) for g, one in gradient(first) for h, two in gradient(second)])
