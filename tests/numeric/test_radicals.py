"""Expressions with fewer roots: they mean the same, and what would lose is left alone."""

from __future__ import annotations

import sympy as sp

from meanfield.numeric.arcs import Guarded
from meanfield.numeric.radicals import InverseRoot, Lowered, Root, radicals

q, d, w = sp.symbols("q d w", positive=True)
A, B = 1 + 3 * d, 1 + 4 * q - 2 * d


def plain(e: sp.Expr) -> sp.Expr:
    e = e.replace(Guarded, lambda x, _: x).replace(Lowered, lambda a, b: a * b / sp.Integer(2) ** 1000)
    return e.replace(InverseRoot, lambda x: 1 / sp.sqrt(x)).replace(Root, sp.sqrt)


def check(*values: sp.Expr) -> list[sp.Expr]:
    out = radicals(list(values))
    for before, after in zip(values, out, strict=True):
        at = {q: sp.Rational(7, 3), d: sp.Rational(5, 4), w: sp.Rational(8, 5)}
        assert abs(sp.N((plain(after) - before).subs(at), 30)) < 1e-25
    return out


def roots(values: list[sp.Expr]) -> set[sp.Expr]:
    return {t for e in values for t in sp.preorder_traversal(e) if isinstance(t, (Root, InverseRoot)) or (t.is_Pow and t.exp.q == 2)}


def test_two_roots_that_come_together() -> None:
    root = Root(Lowered(A, Guarded(B, 1 + 4 * q)))
    assert roots(check(q + sp.sqrt(A) * sp.sqrt(B), d * A ** sp.Rational(3, 2) * sp.sqrt(B))) == {root}
    assert roots(check(w / (sp.sqrt(A) * sp.sqrt(B)), q / (sp.sqrt(A) * sp.sqrt(B)))) == {root}


def test_a_root_beside_quotients_by_it_is_a_product_with_its_inverse() -> None:
    product, unit = Lowered(A, Guarded(B, 1 + 4 * q)), sp.Integer(2) ** 500
    root = sp.sqrt(A) * sp.sqrt(B)
    assert check(w / root, q + root) == [w * InverseRoot(product) / unit, q + unit * product * InverseRoot(product)]
    assert check(w / (sp.sqrt(A) * (1 + q)), q + sp.sqrt(A)) == [w * InverseRoot(A) / (1 + q), q + A * InverseRoot(A)]
    assert check(1 / sp.sqrt(q), sp.sqrt(q)) == [1 / sp.sqrt(q), sp.sqrt(q)]  # q may be 0


def test_a_root_that_is_used_alone_stays_one() -> None:
    for alone in (sp.sqrt(A), 2 * sp.sqrt(A), sp.exp(sp.sqrt(A)), sp.sqrt(A) * sp.sqrt(1 + w)):
        values = [sp.sqrt(A) * sp.sqrt(B), alone]
        assert check(*values) == values


def test_a_product_that_could_vanish_before_its_factors_stays_two() -> None:
    value = sp.sqrt(d) * sp.sqrt(2 * q - d)
    assert check(value) == [value]
    small = sp.sqrt(A) * sp.sqrt(B + sp.Rational(1, 10**9) - 1)
    assert check(small) == [small]


def test_powers_of_an_inverse_root() -> None:
    a = 1 + 4 * q
    values = check(w / sp.sqrt(a), q / a ** sp.Rational(3, 2), sp.sqrt(a), 1 / (sp.sqrt(a) * (1 + q)))
    assert values == [w * InverseRoot(a), q * InverseRoot(a) ** 3, a * InverseRoot(a), InverseRoot(a) / (1 + q)]
    assert check(w / sp.sqrt(q), w / q, sp.sqrt(q)) == [w * InverseRoot(q), w * InverseRoot(q) ** 2, sp.sqrt(q)]  # q may be 0
    assert check(q / sp.pi, d / sp.sqrt(sp.pi)) == [q / sp.pi, d / sp.sqrt(sp.pi)]
