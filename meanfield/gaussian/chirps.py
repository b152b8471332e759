r"""Real forms of expectations of what oscillates ever faster: cos(b x^2) is exp(-A x^2/2) with A = -2 i b, and its tilt a complex root.

The engine keeps a letter for each complex A, as it does for a Gaussian that grows: what it derives is analytic in A wherever the real
part of S^{-1} + A is positive definite, S the covariance. Every radicand there is det(I + S A), a factor of it, or 1 + S_11 A, and is

- linear in one letter, k_0 + k_1 A,
- quadratic in one, k_0 (1 + \lambda_+ A)(1 + \lambda_- A) with the eigenvalues of S,
- or bilinear in two, k_00 + k_10 A + k_01 B + k_11 A B, by elimination (k_01 + k_11 A) (B + (k_00 + k_10 A)/(k_01 + k_11 A)):

pivots of a matrix with a positive definite real part have positive real parts, as the blocks of its inverse have. Each factor Z = X + i Y
then has the root of the positive real part, and the root of the product, whose angle is less than \pi, is the product of these:

    \sqrt Z = c + i Y/(2 c),    c = \sqrt{|Z| + X}/\sqrt 2,

in which nothing cancels.
"""

from __future__ import annotations

import itertools

import sympy as sp
from sympy import S, sqrt

from meanfield.gaussian.pieces import NotClosed

__all__ = ["real_form"]

#: letters and the complex numbers that they stand for
Letters = dict[sp.Symbol, sp.Expr]
#: real and imaginary part
Complex = tuple[sp.Expr, sp.Expr]


def real_form(e: sp.Expr, letters: Letters) -> sp.Expr:
    """A sum of products of roots and exponentials in real terms: of two that are complex conjugates of each other twice the real part.

    Raises
    ------
    NotClosed
        A special function, or a root of another shape, holds a letter, or the sum is not real.
    """
    conjugate = _conjugates(letters)
    waiting = dict.fromkeys(sp.Add.make_args(e))
    total = []
    while waiting:
        t = next(iter(waiting))
        del waiting[t]
        mirror = t.subs({**conjugate, sp.I: -sp.I}, simultaneous=True)
        twice = mirror in waiting
        if twice:
            del waiting[mirror]
        real, imaginary = _parts(mirror if _below(t, letters) else t, letters)
        if not twice and sp.expand(imaginary) != 0:
            raise NotClosed(f"{t} stands without its complex conjugate: the function is not real")
        total.append((1 + twice) * real)
    return sp.Add(*total)


def _below(t: sp.Expr, letters: Letters) -> bool:
    """whether all of its letters are below the real line"""
    return all(sp.im(letters[a]).could_extract_minus_sign() for a in t.free_symbols & letters.keys())


def _conjugates(letters: Letters) -> Letters:
    """for each letter the one that stands for the complex conjugate, if there is one"""
    return {a: b for (a, v), (b, w) in itertools.product(letters.items(), repeat=2) if sp.expand(v - sp.conjugate(w)) == 0}


def _times(z: Complex, w: Complex) -> Complex:
    if w[1] == 0:
        return z[0] * w[0], z[1] * w[0]
    return z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0]


def _size(z: Complex) -> sp.Expr:
    """the square of the modulus"""
    return z[0] ** 2 + z[1] ** 2


def _parts(e: sp.Expr, letters: Letters) -> Complex:
    if e is sp.I:
        return S.Zero, S.One
    if e in letters:
        value: Complex = sp.expand(letters[e]).as_real_imag()
        return value
    if not e.has(sp.I, *letters):
        return e, S.Zero
    if e.is_Add:
        parts = [_parts(t, letters) for t in e.args]
        return sp.Add(*[a for a, _ in parts]), sp.Add(*[b for _, b in parts])
    if e.is_Mul:
        scale, z = S.One, (S.One, S.Zero)
        for t in e.args:
            more, w = _scaled(t, letters)
            scale, z = scale * more, _times(z, w)
        return scale * z[0], scale * z[1]
    scale, z = _scaled(e, letters)
    return scale * z[0], scale * z[1]


def _scaled(e: sp.Expr, letters: Letters) -> tuple[sp.Expr, Complex]:
    """a real factor, and the rest"""
    if isinstance(e, sp.exp):
        a, b = _parts(e.args[0], letters)
        return sp.exp(a), (sp.cos(b), sp.sin(b))
    if not (e.is_Pow and e.has(*letters)):
        return S.One, _parts(e, letters) if e.is_Add or e.is_Mul or e.is_Atom or not e.has(sp.I, *letters) else _none(e)
    if not (2 * e.exp).is_Integer:
        return _none(e)
    scale, z = S.One, (S.One, S.Zero)
    for w, half in _factors(e.base, e.exp, letters):
        more, power = _power(w, half)
        scale, z = scale * more, _times(z, power)
    return scale, z


def _none(e: sp.Expr) -> tuple[sp.Expr, Complex]:
    raise NotClosed(f"an ever faster oscillation beside a gate: the expectation holds {e.func.__name__} of a complex number")


def _factors(base: sp.Expr, k: sp.Rational, letters: Letters) -> list[tuple[Complex, sp.Rational]]:
    """a power as a product of such, each of a number with a positive real part where it is a root"""
    if k.is_Integer:
        a, b = _parts(base, letters)
        return [((sp.expand(a), sp.expand(b)), k)]
    own = sorted(base.free_symbols & letters.keys(), key=str)
    if not base.is_polynomial(*own) or len(own) > 2 or max(sp.degree(base, a) for a in own) > 3 - len(own):
        _none(base**k)
    poly = sp.Poly(base, *own)
    values = [_parts(a, letters) for a in own]
    if len(own) == 1 and poly.degree() == 2:
        return _eigenvalues(poly, values[0], k)
    if len(own) == 1:
        k1, k0 = poly.all_coeffs()
        return [(_line(k1, k0, values[0]), k)]
    c = {m: poly.coeff_monomial(own[0] ** m[0] * own[1] ** m[1]) for m in itertools.product((0, 1), repeat=2)}
    if values[0][0] == values[1][0] and values[0][1] == -values[1][1]:
        (a, b), d = values[0], c[1, 0] - c[0, 1]
        return [((sp.expand(c[0, 0] + (c[1, 0] + c[0, 1]) * a) + sp.expand((a**2 + b**2) * c[1, 1]), sp.expand(b * d)), k)]
    first, above = _line(c[1, 1], c[0, 1], values[0]), _line(c[1, 0], c[0, 0], values[0])
    a, b = _times(above, (first[0], -first[1]))
    return [(first, k), ((values[1][0] + a / _size(first), values[1][1] + b / _size(first)), k)]


def _line(k1: sp.Expr, k0: sp.Expr, value: Complex) -> Complex:
    return k0 + k1 * value[0], sp.factor_terms(value[1] * k1)


def _eigenvalues(poly: sp.Poly, value: Complex, k: sp.Rational) -> list[tuple[Complex, sp.Rational]]:
    """k_2 A^2 + k_1 A + k_0 as k_0 (1 + m A)(1 + n A), m and n real"""
    k2, k1, k0 = poly.all_coeffs()
    twice = k1 + sqrt(sp.expand(k1**2 - 4 * k0 * k2))
    found = [(_line(t, S.One, value), k) for t in (twice / (2 * k0), 2 * k2 / twice)]
    return found if k0 == 1 else [*found, ((k0, S.Zero), k)]


def _power(z: Complex, k: sp.Rational) -> tuple[sp.Expr, Complex]:
    """z^k as a real factor and the rest, X > 0 where k is half an odd number"""
    x, y = z
    if y == 0:
        return x**k, (S.One, S.Zero)
    size = _size(z)
    n = int(abs(k))  # the whole powers in it
    terms = [sp.binomial(n, i) * (-1) ** (i // 2) * x ** (n - i) * y**i for i in range(n + 1)]
    even, odd = sp.Add(*terms[::2]), sp.Add(*terms[1::2])
    if k.q == 2:
        c = sqrt(sqrt(size) + x) / sqrt(2)
        even, odd = _times((even, odd), (c, y / (2 * c)))
    return (S.One, (even, odd)) if k > 0 else (size**k, (even, -odd))
