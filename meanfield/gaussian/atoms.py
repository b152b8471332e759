r"""An activation as a finite sum of atoms  c x^k exp(B x - A x^2/2) G(x).

G is 1, a smoothed step \Phi(s (x - a)/w) or its density, with w = 0 meaning the step and the delta themselves. Steps and error
functions are thus one family, trigonometric functions are exponentials with complex B, and the sum is closed under products
(with one exception, refused by name), differentiation and Gaussian expectation (`meanfield.gaussian.moments`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp
from sympy import DiracDelta, Heaviside, Rational, S, exp, pi, sqrt

from meanfield.symbols import known

__all__ = ["Atom", "Gate", "NotClosed", "atoms_of", "derivative", "product", "stepped"]

x = known("x")


class NotClosed(Exception):
    """The expression leaves the algebra of atoms; the message says where."""


@dataclass(frozen=True)
class Gate:
    r"""\Phi(sign (x - a)/w), or with `density` the normal density of mean a and variance w^2."""

    a: sp.Expr
    w: sp.Expr
    sign: int = 1
    density: bool = False

    @property
    def sharp(self) -> bool:
        return bool(self.w == 0)


@dataclass(frozen=True)
class Atom:
    c: sp.Expr = S.One
    k: int = 0
    B: sp.Expr = S.Zero
    A: sp.Expr = S.Zero
    G: Gate | None = None


def stepped(expression: sp.Expr) -> sp.Expr:
    """Max, Min, Abs, sign and Piecewise written with steps, node by node: folding the whole would multiply unlike steps."""

    def walk(node: sp.Basic) -> sp.Basic:
        if isinstance(node, (sp.Max, sp.Min)):
            node = node.rewrite(sp.Piecewise)
        if isinstance(node, sp.Piecewise):
            inner = node.replace(lambda a: isinstance(a, (sp.Max, sp.Min)), lambda a: a.rewrite(sp.Piecewise))
            node = sp.piecewise_fold(inner)
            if not isinstance(node, sp.Piecewise):
                return node
            total, rest = S.Zero, S.One
            for value, condition in node.args:
                total += walk(value) * rest * _indicator(condition)
                rest *= _indicator(sp.Not(condition))
            return total
        if isinstance(node, sp.Abs):
            return node.args[0] * (_step(node.args[0]) - _step(-node.args[0]))
        if isinstance(node, sp.sign):
            return _step(node.args[0]) - _step(-node.args[0])
        if isinstance(node, Heaviside):
            return _step(node.args[0])
        return node.func(*[walk(a) for a in node.args]) if node.args else node

    return walk(expression)


def _step(z: sp.Expr) -> sp.Expr:
    """The step of z: through a minimum or maximum, through a monotone function to its one root."""
    if x not in z.free_symbols:
        return Heaviside(z, Rational(1, 2))
    offset, rest = z.as_independent(x, as_Add=True)
    factor, core = rest.as_independent(x, as_Add=False)
    if isinstance(core, (sp.Max, sp.Min)) and factor.is_real and factor.is_nonzero:
        parts = [_step(offset + factor * a) for a in core.args]
        if isinstance(core, sp.Min) is bool(factor.is_positive):  # the step of a minimum: all of them
            return sp.Mul(*parts)
        return 1 - sp.Mul(*[1 - part for part in parts])
    if not z.is_polynomial(x):
        slope = z.diff(x)
        roots = sp.solve(z, x) if slope.is_positive or slope.is_negative else []
        if len(roots) == 1 and roots[0].is_real:
            return Heaviside(x - roots[0] if slope.is_positive else roots[0] - x, Rational(1, 2))
    return Heaviside(z, Rational(1, 2))


def _indicator(condition: sp.Basic) -> sp.Expr:
    if condition in (True, sp.true):
        return S.One
    if condition in (False, sp.false):
        return S.Zero
    if isinstance(condition, sp.And):
        return sp.Mul(*[_indicator(c) for c in condition.args])
    if isinstance(condition, sp.Or):
        return 1 - sp.Mul(*[1 - _indicator(c) for c in condition.args])
    if isinstance(condition, sp.Not):
        return 1 - _indicator(condition.args[0])
    if isinstance(condition, (sp.Gt, sp.Ge)):
        return _step(condition.lhs - condition.rhs)
    if isinstance(condition, (sp.Lt, sp.Le)):
        return _step(condition.rhs - condition.lhs)
    raise NotClosed(f"the condition {condition} is not an order relation")


def _line(argument: sp.Expr) -> tuple[sp.Expr, sp.Expr, int]:
    """slope > 0, threshold and sign of a linear argument"""
    if not argument.is_polynomial(x) or sp.Poly(argument, x).degree() != 1:
        raise NotClosed(f"the argument {argument} is not linear in x")
    slope, offset = sp.Poly(argument, x).all_coeffs()
    if slope.is_positive:
        return slope, -offset / slope, 1
    if slope.is_negative:
        return -slope, -offset / slope, -1
    raise NotClosed(f"the sign of {slope} is unknown")


def _gate_product(g: Gate | None, h: Gate | None) -> list[tuple[int, Gate | None]]:
    """product of two gates of one variable, as signed gates"""
    if g is None or h is None:
        return [(1, h if g is None else g)]
    if not (g.sharp and h.sharp) or g.density or h.density:
        raise NotClosed(f"the product of {g} and {h} in one variable")
    order = sp.expand(g.a - h.a)
    if not (order.is_nonnegative or order.is_nonpositive):
        raise NotClosed(f"the order of the thresholds {g.a} and {h.a} is unknown")
    high, low = (g, h) if order.is_nonnegative else (h, g)
    if high.sign == low.sign:
        return [(1, high if high.sign > 0 else low)]
    if high.sign > 0 or order == 0:
        return []
    return [(1, low), (-1, replace(high, sign=1))]


def product(f: Atom, g: Atom) -> list[Atom]:
    """The product of two atoms of one variable."""
    return [Atom(f.c * g.c * sign, f.k + g.k, f.B + g.B, f.A + g.A, gate) for sign, gate in _gate_product(f.G, g.G)]


def _collected(atoms: list[Atom]) -> tuple[Atom, ...]:
    total: dict[tuple[int, sp.Expr, sp.Expr, Gate | None], sp.Expr] = {}
    for t in atoms:
        key = (t.k, sp.expand(t.B), sp.expand(t.A), t.G)
        total[key] = total.get(key, S.Zero) + t.c
    return tuple(Atom(c, *key) for key, c in ((key, sp.expand(c)) for key, c in total.items()) if c != 0)


def _factor(f: sp.Expr) -> list[Atom]:
    if x not in f.free_symbols:
        return [Atom(f)]
    if f == x:
        return [Atom(k=1)]
    if isinstance(f, exp):
        if not f.args[0].is_polynomial(x) or sp.Poly(f.args[0], x).degree() > 2:
            raise NotClosed(f"the exponent of {f} is not quadratic in x")
        e = sp.Poly(f.args[0], x)
        return [Atom(exp(e.coeff_monomial(1)), 0, e.coeff_monomial(x), -2 * e.coeff_monomial(x**2))]
    if isinstance(f, Heaviside):
        _, a, sign = _line(f.args[0])
        return [Atom(G=Gate(a, S.Zero, sign))]
    if isinstance(f, DiracDelta):
        slope, a, _ = _line(f.args[0])
        return [Atom(1 / slope, G=Gate(a, S.Zero, density=True))]
    if isinstance(f, sp.erf):
        slope, a, sign = _line(f.args[0])
        return [Atom(S(2 * sign), G=Gate(a, 1 / (sqrt(2) * slope))), Atom(S(-sign))]
    if isinstance(f, sp.erfc):
        slope, a, sign = _line(f.args[0])
        return [Atom(S(2), G=Gate(a, 1 / (sqrt(2) * slope), -sign))]
    if f.is_Pow and f.exp.is_Integer and f.exp > 0:
        base = atoms_of(f.base)
        power = [Atom()]
        for _ in range(int(f.exp)):
            power = list(_collected([t for u in power for v in base for t in product(u, v)]))
        return power
    raise NotClosed(f"{f} is not made of polynomials, exponentials of quadratics, steps and error functions of x")


def atoms_of(expression: sp.Expr) -> tuple[Atom, ...]:
    """The atoms of an activation, or NotClosed with the factor that is none."""
    e = stepped(expression)
    if e.has(sp.sin, sp.cos, sp.sinh, sp.cosh) and not e.has(sp.tanh):
        e = e.rewrite(exp)
    e = sp.expand_mul(sp.expand(e, power_exp=False))
    atoms: list[Atom] = []
    for term in sp.Add.make_args(e):
        partial = [Atom()]
        for f in sp.Mul.make_args(term):
            partial = [t for u in partial for v in _factor(f) for t in product(u, v)]
        atoms += partial
    return _collected(atoms)


def derivative(atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The distributional derivative: steps become deltas, smooth gates become Gaussians."""
    out: list[Atom] = []
    for t in atoms:
        if t.k:
            out.append(replace(t, c=t.c * t.k, k=t.k - 1))
        if t.B != 0:
            out.append(replace(t, c=t.c * t.B))
        if t.A != 0:
            out.append(replace(t, c=-t.c * t.A, k=t.k + 1))
        if t.G is None:
            continue
        if t.G.density:
            raise NotClosed("the derivative of a delta")
        a, w, sign = t.G.a, t.G.w, t.G.sign
        if t.G.sharp:
            height = t.c * sign * (a**t.k if t.k else S.One) * exp(t.B * a - t.A * a**2 / 2)
            if sp.expand(height) != 0:
                out.append(Atom(height, G=Gate(a, S.Zero, density=True)))
        else:
            height = t.c * sign * exp(-(a**2) / (2 * w**2)) / (sqrt(2 * pi) * w)
            out.append(Atom(height, t.k, t.B + a / w**2, t.A + 1 / w**2))
    return _collected(out)
