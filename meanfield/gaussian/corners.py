r"""Waves in a quadrant, to any number of digits: E e^{i (a X + b Y)} over X < h, Y < k, standard normals of correlation r.

Above a corner at which \alpha = (h - r k)/d^2 and \beta = (k - r h)/d^2 are not negative, d^2 = 1 - r^2, in polar coordinates about it

    E e^{i (a X + b Y)} 1[X > h, Y > k] = e^{i (a h + b k)} \frac{\varphi_2(h, k; r)}{d} \int_0^{\pi/2} G(p/\sqrt{2 c})/c \, d\phi,
    p = (\alpha - i a) \cos\phi + (\beta - i b) \sin\phi,   c = (1 - r \sin 2\phi)/d^2,   G(u) = 1 - \sqrt\pi u e^{u^2} erfc(u).

G is the integral over the radius: no wave is left, Re u >= 0 and |G| is about 1 or below 1/|u|^2, so that nothing cancels at any wave
number. Where both wave numbers are large it is the series (the same integral, the exponential of squares expanded; Watson's lemma)

    \sum_{i, j, l} \frac{(-1)^{i + l} r^j (2 i + j)! (2 l + j)!}{i! j! l! 2^{i + l} d^{2 (i + j + l)} A^{2 i + j + 1} B^{2 l + j + 1}},

A = \alpha - i a, B = \beta - i b, whose rest after the terms of i + j + l < n is at most the sum of the absolute terms of n over
s^{2 n + 2}, s^2 = (1 - |r|)/2: x and y are turned by angles up to which the exponential of squares falls, \cos 2\theta = |r|, and the
waves fall at least like s |A| and s |B|.

Of the four quadrants about a point one has no negative \alpha or \beta; the others are what half waves and a whole wave leave of
it. The integrand changes near the zeros of p and c, which are known, and panels are as long as the distance to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import mpmath as mp

from meanfield.gaussian.panels import gauss_legendre

__all__ = ["half_wave", "quadrant_wave"]

#: terms up to which a series is tried
_MOST_TERMS = 40
#: half of a panel as a part of the distance to the next place at which the integrand changes, and bits that a node then adds
_SHARE, _BITS_OF_A_NODE = mp.mpf(0.5), 4


def quadrant_wave(h: mp.mpf, k: mp.mpf, a: mp.mpf, b: mp.mpf, r: mp.mpf) -> tuple[mp.mpc, mp.mpf]:
    """Its value, and a bound on the error: of quadrature, by a rule that is finer, and of rounding."""
    square = (1 - r) * (1 + r)
    beyond, over = (1 if h >= r * k else -1), (1 if k >= r * h else -1)
    corner, error = _corner(beyond * h, over * k, beyond * a, over * b, beyond * over * r)
    parts = [corner if beyond == over else -corner]
    if beyond > 0:
        parts.append(mp.exp(-a * a * square / 2) * half_wave(k, b + r * a))
    if over > 0:
        parts.append(mp.exp(-b * b * square / 2) * half_wave(h, a + r * b))
    if beyond > 0 and over > 0:
        parts.append(-mp.exp(-(a * a + 2 * r * a * b + b * b) / 2))
    return mp.fsum(parts), error + 64 * mp.eps * mp.fsum(parts, absolute=True)


def half_wave(h: mp.mpf, k: mp.mpf) -> mp.mpc:
    r"""\int_{-\infty}^h \varphi(z) e^{i k z} dz."""
    tail = mp.exp(mp.mpc(-h * h / 2, -abs(h) * k)) * _scaled(mp.mpc(abs(h), k) / mp.sqrt(2))[0] / 2
    return tail if h <= 0 else mp.exp(-k * k / 2) - mp.conj(tail)


def _corner(h: mp.mpf, k: mp.mpf, a: mp.mpf, b: mp.mpf, r: mp.mpf) -> tuple[mp.mpc, mp.mpf]:
    """the same above a corner that is not below the directions in which the density falls, and the error of quadrature"""
    square = (1 - r) * (1 + r)
    along, up = mp.mpc((h - r * k) / square, -a), mp.mpc((k - r * h) / square, -b)

    found = _series(along, up, r, square) or _quadrature(along, up, r, square)
    form = ((h - k) ** 2 + 2 * (1 - r) * h * k) / square
    density = mp.exp(-form / 2) / (2 * mp.pi * mp.sqrt(square))
    return mp.expj(a * h + b * k) * density * found[0], density * found[1]


def _series(along: mp.mpc, up: mp.mpc, r: mp.mpf, square: mp.mpf) -> tuple[mp.mpc, mp.mpf] | None:
    """the integral over the angle by inverse powers of both wave numbers, and the error; None where these do not reach the precision"""
    if along == 0 or up == 0:
        return None
    total, size, turned, last = mp.mpc(0), mp.mpf(0), (1 - abs(r)) / 2, mp.inf
    for n in range(_MOST_TERMS):
        terms = [_term(i, j, n - i - j, along, up, r) / square**n for j in range(n + 1) for i in range(n + 1 - j)]
        rest = mp.fsum(terms, absolute=True)
        bound = rest / turned ** (n + 1)
        if bound <= mp.eps * size:
            return total, bound + 64 * mp.eps * size
        if bound > last:
            return None
        total, size, last = total + mp.fsum(terms), size + rest, bound
    return None


def _term(i: int, j: int, l: int, along: mp.mpc, up: mp.mpc, r: mp.mpf) -> mp.mpc:
    number = mp.mpf((-1) ** (i + l) * math.factorial(2 * i + j) * math.factorial(2 * l + j))
    number /= math.factorial(i) * math.factorial(j) * math.factorial(l) << (i + l)
    return number * r**j / (along ** (2 * i + j + 1) * up ** (2 * l + j + 1))


def _quadrature(along: mp.mpc, up: mp.mpc, r: mp.mpf, square: mp.mpf) -> tuple[mp.mpc, mp.mpf]:
    """the integral over the angle by panels, and the error"""

    def width(angle: mp.mpf) -> mp.mpf:
        return ((1 - r) + r * (mp.cos(angle) - mp.sin(angle)) ** 2) / square

    def radial(angle: mp.mpf) -> mp.mpc:
        c = width(angle)
        return _scaled((along * mp.cos(angle) + up * mp.sin(angle)) / mp.sqrt(2 * c))[1] / c

    nodes = mp.mp.prec // _BITS_OF_A_NODE + 4
    coarse, fine, size = mp.mpc(0), mp.mpc(0), mp.mpf(0)
    for middle, half in _panels(_places(along, up, r, width)):
        for m in (nodes, nodes + nodes // 3):
            values = [(half * w, radial(middle + half * t)) for t, w in gauss_legendre(m, mp.mp.prec)]
            total = mp.fsum(w * v for w, v in values)
            if m == nodes:
                coarse += total
            else:
                fine += total
                size += mp.fsum(w * abs(v) for w, v in values)
    return fine, abs(fine - coarse) + 64 * mp.eps * size


def _places(along: mp.mpc, up: mp.mpc, r: mp.mpf, width: Callable[[mp.mpf], mp.mpf]) -> list[tuple[mp.mpc, mp.mpf]]:
    """the angles near which the integrand changes, complex ones, and over what distance at least: the zeros of p and of c"""
    found = []
    slope = mp.sqrt(along**2 + up**2)  # of p at its zero
    if abs(slope) > mp.sqrt(mp.eps) * (abs(along) + abs(up)):
        zero = mp.atan(-along / up) if up != 0 else mp.mpc(mp.pi / 2)
        zero += mp.pi * mp.ceil((-mp.pi / 4 - zero.real) / mp.pi)  # the one next to the quadrant
        blur = mp.sqrt(width(min(max(zero.real, mp.mpf(0)), mp.pi / 2)))
        found.append((zero, blur / abs(slope)))
    if r != 0:
        found.append((mp.mpc(mp.sign(r) * mp.pi / 4, mp.acosh(1 / abs(r)) / 2), mp.mpf(0)))
    return found


def _panels(places: list[tuple[mp.mpc, mp.mpf]]) -> Iterator[tuple[mp.mpf, mp.mpf]]:
    """middles and halves of the panels of a right angle"""
    waiting = [(mp.pi / 4, mp.pi / 4)]
    while waiting:
        middle, half = waiting.pop()
        away = [mp.hypot(max(abs(middle - place.real) - half, 0), place.imag) + blur for place, blur in places]
        if half <= _SHARE * min([mp.mpf(2), *away]):
            yield middle, half
        else:
            waiting += [(middle - half / 2, half / 2), (middle + half / 2, half / 2)]


def _scaled(u: mp.mpc) -> tuple[mp.mpc, mp.mpc]:
    r"""e^{u^2} erfc(u) and G(u), Re u >= 0, the second without its cancellation where u is large (Abramowitz and Stegun 1964, 7.1.23)"""
    square = abs(u) ** 2
    if square < mp.mp.prec + 40:  # the least term of the series is e^-square
        with mp.workprec(mp.mp.prec + 30 + 2 * max(0, mp.mag(u))):
            first = mp.exp(u * u) * mp.erfc(u)
            return first, 1 - mp.sqrt(mp.pi) * u * first
    step, term, rest, n = -1 / (2 * u * u), mp.mpf(1), mp.mpf(0), 1
    while mp.mag(term) > -mp.mp.prec - 10 + min(0, mp.mag(rest)):
        term *= step * (2 * n - 1)
        rest, n = rest - term, n + 1
    return (1 - rest) / (mp.sqrt(mp.pi) * u), rest
