r"""An activation as a finite sum of atoms  c x^k exp(B x - A x^2/2) G(x).

G is a product of at most two gates, or of three at 0: smoothed steps \Phi(s (x - a)/w), with w = 0 the step itself, or a delta. Steps and
error functions are thus one family, trigonometric functions are exponentials with imaginary B, those of x^2 with complex A, and the sum is
closed under products (while so few gates are enough), differentiation and Gaussian expectation (`meanfield.gaussian.moments`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import sympy as sp
from sympy import DiracDelta, Heaviside, S, exp, pi, sqrt

from meanfield.gaussian.entire import has_a_pole
from meanfield.gaussian.pieces import NotClosed, order_of, sign_of, stepped
from meanfield.gaussian.special import NormalCDF
from meanfield.symbols import known

__all__ = ["Atom", "Gate", "NotClosed", "atoms_of", "derivative", "product", "products"]

x = known("x")

_OTHER = "is not made of polynomials, exponentials of quadratics, steps and error functions of x"


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

    def __str__(self) -> str:
        if self.density:
            return f"the delta at {self.a}"
        side = self.sign * (x - self.a)
        return f"the step of {side}" if self.sharp else f"the error function of {sp.expand(side / self.w / sqrt(2))}"


@dataclass(frozen=True)
class Atom:
    c: sp.Expr = S.One
    k: int = 0
    B: sp.Expr = S.Zero
    A: sp.Expr = S.Zero
    G: tuple[Gate, ...] = ()


def _line(argument: sp.Expr) -> tuple[sp.Expr, sp.Expr, int]:
    """slope > 0, threshold and sign of a linear argument"""
    if not argument.is_polynomial(x) or sp.Poly(argument, x).degree() != 1:
        raise NotClosed(f"the argument {argument} is not linear in x")
    slope, offset = sp.Poly(argument, x).all_coeffs()
    sign = sign_of(slope)
    return sign * slope, -offset / slope, sign


def _power(a: sp.Expr, k: int) -> sp.Expr:
    return a**k if k else S.One


def _merged(g: Gate, h: Gate) -> list[tuple[sp.Expr, tuple[Gate, ...]]] | None:
    """the product of two gates of one variable as a sum of single gates, or None where it is none"""
    if not (g.density or h.density or (g.sharp and h.sharp)):
        return None
    if h.density:
        g, h = h, g
    if g.density and not h.sharp:
        return [(NormalCDF(h.sign * (g.a - h.a) / h.w), (g,))]
    order = sp.expand(g.a - h.a)
    if not (order.is_nonnegative or order.is_nonpositive):
        order = S(order_of(g.a, h.a))
    if g.density:
        if order == 0:
            raise NotClosed(f"{g} times {h}")
        return [(S.One, (g,))] if not h.density and order.is_nonnegative is (h.sign > 0) else []
    high, low = (g, h) if order.is_nonnegative else (h, g)
    if high.sign == low.sign:
        return [(S.One, (high if high.sign > 0 else low,))]
    if high.sign > 0 or order == 0:
        return []
    return [(S.One, (low,)), (S.NegativeOne, (replace(high, sign=1),))]


def _gates(gates: tuple[Gate, ...], g: Gate) -> list[tuple[sp.Expr, tuple[Gate, ...]]]:
    """gates times one more, as a sum of products of gates"""
    for i, h in enumerate(gates):
        sum_of = _merged(g, h)
        if sum_of is not None:
            rest = gates[:i] + gates[i + 1 :]
            return [(c * d, more) for c, single in sum_of for d, more in (_gates(rest, single[0]) if single else [(S.One, rest)])]
    if len(gates) == 3 or (len(gates) == 2 and any(h.a != 0 for h in (*gates, g))):
        *others, last = map(str, (*gates, g))
        dimensions = "three dimensions" if len(gates) == 3 else "two dimensions, not through 0"
        raise NotClosed(f"the product of {', '.join(others)} and {last} is the probability of an orthant in more than {dimensions}")
    return [(S.One, tuple(sorted((*gates, g), key=str)))]


def product(f: Atom, g: Atom) -> list[Atom]:
    """The product of two atoms of one variable."""
    found: list[tuple[sp.Expr, tuple[Gate, ...]]] = [(S.One, f.G)]
    for gate in g.G:
        found = [(c * d, more) for c, gates in found for d, more in _gates(gates, gate)]
    return [Atom(f.c * g.c * c, f.k + g.k, f.B + g.B, f.A + g.A, gates) for c, gates in found]


def products(f: Iterable[Atom], g: Iterable[Atom]) -> tuple[Atom, ...]:
    """The product of two sums of atoms of one variable, not collected."""
    return tuple(t for a in f for b in g for t in product(a, b))


def _collected(atoms: Iterable[Atom]) -> tuple[Atom, ...]:
    total: dict[tuple[int, sp.Expr, sp.Expr, tuple[Gate, ...]], sp.Expr] = {}
    for atom in atoms:
        t = _fixed(atom)
        key = (t.k, sp.expand(t.B), sp.expand(t.A), t.G)
        total[key] = total.get(key, S.Zero) + t.c
    return tuple(Atom(c, *key) for key, c in ((key, sp.expand(c)) for key, c in total.items()) if c != 0)


def _fixed(t: Atom) -> Atom:
    """a factor of a delta is its value there"""
    if len(t.G) != 1 or not (t.G[0].density and t.G[0].sharp):
        return t
    a = t.G[0].a
    return Atom(t.c * (a**t.k if t.k else S.One) * exp(t.B * a - t.A * a**2 / 2), G=t.G)


def _raised(base: tuple[Atom, ...], n: int) -> tuple[Atom, ...]:
    """the n-th power of a sum of atoms, n > 0"""
    if len(base) == 1 and not base[0].G:
        t = base[0]
        return (Atom(t.c**n, t.k * n, t.B * n, t.A * n),)
    if n == 1:
        return base
    half = _raised(base, n // 2)
    square = _collected(products(half, half))
    return square if n % 2 == 0 else _collected(products(square, base))


def _factor(f: sp.Expr) -> tuple[Atom, ...]:
    if x not in f.free_symbols:
        return (Atom(f),)
    if f == x:
        return (Atom(k=1),)
    if isinstance(f, exp):
        if not f.args[0].is_polynomial(x) or sp.Poly(f.args[0], x).degree() > 2:
            raise NotClosed(f"the exponent of {f} is not quadratic in x")
        e = sp.Poly(f.args[0], x)
        return (Atom(exp(e.coeff_monomial(1)), 0, e.coeff_monomial(x), -2 * e.coeff_monomial(x**2)),)
    if isinstance(f, Heaviside):
        _, a, sign = _line(f.args[0])
        return (Atom(G=(Gate(a, S.Zero, sign),)),)
    if isinstance(f, DiracDelta) and len(f.args) == 1:
        slope, a, _ = _line(f.args[0])
        return (Atom(1 / slope, G=(Gate(a, S.Zero, density=True),)),)
    if isinstance(f, sp.erf):
        slope, a, sign = _line(f.args[0])
        return (Atom(S(2 * sign), G=(Gate(a, 1 / (sqrt(2) * slope)),)), Atom(S(-sign)))
    if isinstance(f, sp.erfc):
        slope, a, sign = _line(f.args[0])
        return (Atom(S(2), G=(Gate(a, 1 / (sqrt(2) * slope), -sign),)),)
    if f.is_Pow and f.exp.is_Integer and f.exp > 0:
        return _raised(_sum(f.base), int(f.exp))
    raise NotClosed(f"{f} {_OTHER}")


def _sum(e: sp.Expr) -> tuple[Atom, ...]:
    atoms: list[Atom] = []
    for term in sp.Add.make_args(sp.expand_mul(sp.expand(e, power_exp=False))):
        partial: tuple[Atom, ...] = (Atom(),)
        for f in sp.Mul.make_args(term):
            partial = products(partial, _factor(f))
        atoms += partial
    return _collected(atoms)


def atoms_of(expression: sp.Expr) -> tuple[Atom, ...]:
    """The atoms of an activation, or NotClosed with the factor that is none."""
    e = stepped(expression)
    if e.has(sp.sin, sp.cos, sp.sinh, sp.cosh):
        e = e.replace(lambda t: isinstance(t, (sp.sin, sp.cos, sp.sinh, sp.cosh)) and t.has(x), lambda t: t.rewrite(exp))
    if has_a_pole(e):  # which is seen long before its products are multiplied out
        raise NotClosed(f"{expression} {_OTHER}: it has poles in the complex plane")
    return _sum(e)


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
        for i, g in enumerate(t.G):
            if g.density:
                raise NotClosed("the derivative of a delta")
            rest = t.G[:i] + t.G[i + 1 :]
            if g.sharp:
                height = t.c * g.sign * _power(g.a, t.k) * exp(t.B * g.a - t.A * g.a**2 / 2)
                if sp.expand(height) != 0:
                    out += product(Atom(height, G=(Gate(g.a, S.Zero, density=True),)), Atom(G=rest))
            else:
                height = t.c * g.sign * exp(-(g.a**2) / (2 * g.w**2)) / (sqrt(2 * pi) * g.w)
                out.append(Atom(height, t.k, t.B + g.a / g.w**2, t.A + 1 / g.w**2, rest))
    return _collected(out)
