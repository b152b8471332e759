r"""Polynomials times waves beyond thresholds, to any number of digits: of one standard normal, and of two in a quadrant.

With X = U - h and Y = V - k, standard normals of correlation r, and complex rates s and t,

    E \sum c_{mn} X^m Y^n e^{s X + t Y} 1[X > 0, Y > 0]
        = \frac{e^{-Q/2}}{2\pi} \int_0^\omega \sum c_{mn} x^m y^n R_{m + n + 1}(A x + B y) d\psi,
    x = \sin(\omega - \psi), y = \sin\psi, R_j(p) = \int_0^\infty z^j e^{-p z - z^2/2} dz,

with A = (h - r k)/d^2 - s, B = (k - r h)/d^2 - t, d^2 = 1 - r^2, \cos\omega = -r, Q = (h^2 - 2 r h k + k^2)/d^2: polar coordinates in which
the density is round and the quadrant a wedge of angle \omega. R is the integral over the radius: no wave is left, and where A and B fall,
their real parts not negative, nothing cancels at any wave number. The integrand has no singularity and changes near the zero of its
argument only: panels are as long as the distance to it. Where both waves are fast it is the series (the same integral, the exponential of
squares expanded; Watson's lemma)

    \sum_{i, j, l} \frac{(-1)^{i + l} r^j}{i! j! l! 2^{i + l} d^{2 (i + j + l)}}
        (2 i + j + m)! A^{-2 i - j - m - 1} (2 l + j + n)! B^{-2 l - j - n - 1},

whose rest after the terms of i + j + l < N is at most the sum of the absolute terms of N with \sigma A and \sigma B for A and B,
\sigma^2 = (1 - |r|)/2: x and y are turned by angles up to which the exponential of squares falls, \cos 2\theta = |r|, and the waves fall
at least like \sigma |A| and \sigma |B|.

A quadrant into which a wave grows is a half plane without the quadrant beside it: without the one in whose direction it grows most, so that
neither is much larger than what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import mpmath as mp

from meanfield.gaussian.arithmetic import FlintNumbers, complex_balls
from meanfield.gaussian.half_moments import half_moments, half_moments_of_ball, lost_of_ball
from meanfield.gaussian.panels import gauss_legendre

__all__ = ["Bounded", "corner", "half_line", "half_plane", "half_wave", "line", "quadrant_wave"]

#: a value, and a bound on its error: of quadrature, by a rule that is finer, and of rounding
Bounded = tuple[mp.mpc, mp.mpf]
Row = Sequence[mp.mpc]
#: nodes and weights
Rule = Sequence[tuple[mp.mpf, mp.mpf]]

#: orders up to which a series is summed: a thousand terms
_MOST_TERMS = 17
#: half of a panel as a part of the distance to the next place at which the integrand changes, and bits that a node then adds
_SHARE, _BITS_OF_A_NODE = mp.mpf(0.5), 5


def half_wave(h: mp.mpf, k: mp.mpf) -> mp.mpc:
    r"""\int_{-\infty}^h \varphi(z) e^{i k z} dz."""
    return mp.expj(k * h) * half_line([mp.mpc(1)], -h, mp.mpc(0, -k))[0]


def quadrant_wave(h: mp.mpf, k: mp.mpf, a: mp.mpf, b: mp.mpf, r: mp.mpf) -> Bounded:
    """E e^{i (a X + b Y)} over X < h, Y < k, standard normals of correlation r."""
    value, error = corner([[mp.mpc(1)]], (-h, -k), (mp.mpc(0, -a), mp.mpc(0, -b)), r)
    return mp.expj(a * h + b * k) * value, error


def line(c: Row, h: mp.mpf, s: mp.mpc) -> Bounded:
    r"""E \sum c_j X^j e^{s X}, X = U - h."""
    return _sum(mp.exp(s * (s - 2 * h) / 2), c, _powers(s - h, mp.mpf(1), len(c)))


def half_line(c: Row, h: mp.mpf, s: mp.mpc) -> Bounded:
    r"""E \sum c_j X^j e^{s X} 1[X > 0], X = U - h."""
    if mp.re(h) >= mp.re(s):
        return _sum(mp.npdf(h), c, half_moments(mp.mpc(h - s), len(c) - 1))
    whole, below = line(c, h, s), half_line(_mirrored(c), -h, -s)
    return whole[0] - below[0], whole[1] + below[1]


def half_plane(c: Sequence[Row], at: tuple[mp.mpf, mp.mpf], rates: tuple[mp.mpc, mp.mpc], r: mp.mpf, whole: bool = False) -> Bounded:
    r"""E \sum c_{mn} X^m Y^n e^{s X + t Y} 1[Y > 0], X of any sign; over the whole plane if asked."""
    (h, k), (s, t), square = at, rates, (1 - r) * (1 + r)
    over = r * k - h  # the mean of X at Y = 0
    powers = _powers(over + s * square, mp.sqrt(square), len(c))
    given = [mp.mpc(0)] * (len(c) + len(c[0]) - 1)
    for m, row in enumerate(c):
        for a in range(m + 1):
            factor = math.comb(m, a) * r**a * powers[m - a]
            for n, value in enumerate(row):
                given[n + a] += factor * value
    factor = mp.exp(s * over + s * s * square / 2)
    value, error = (line if whole else half_line)(given, k, t + r * s)
    return factor * value, abs(factor) * error


def corner(c: Sequence[Row], at: tuple[mp.mpf, mp.mpf], rates: tuple[mp.mpc, mp.mpc], r: mp.mpf, spare: int = 0) -> Bounded:
    r"""E \sum c_{mn} X^m Y^n e^{s X + t Y} 1[X > 0, Y > 0], X = U - h and Y = V - k, at = (h, k), rates = (s, t);
    `spare` bits of the precision are those that exponents lose."""
    (h, k), (s, t), square = at, rates, (1 - r) * (1 + r)
    along, up = (h - r * k) / square - s, (k - r * h) / square - t
    x, y = mp.re(along), mp.re(up)
    if x < 0 and (y >= 0 or x + r * y <= y + r * x):  # without a threshold the largest is at -(x + r y), -(y + r x)
        other = [[(-1) ** m * value for value in row] for m, row in enumerate(c)]
        whole, beside = half_plane(c, at, rates, r), corner(other, (-h, k), (-s, t), -r, spare)
        return whole[0] - beside[0], whole[1] + beside[1]
    if y < 0:
        return corner(list(zip(*c, strict=True)), (k, h), (t, s), r, spare)
    density = mp.exp(-((h - k) ** 2 / (1 - r) + (h + k) ** 2 / (1 + r)) / 4) / (2 * mp.pi)
    with mp.workprec(mp.mp.prec - spare):
        value, error = _series(c, along, up, r, square) or _quadrature(c, along, up, r, mp.sqrt(square))
        return density * value, density * error


def _mirrored(c: Row) -> Row:
    return [(-1) ** j * v for j, v in enumerate(c)]


def _sum(factor: mp.mpc, c: Row, values: Row) -> Bounded:
    terms = [factor * a * b for a, b in zip(c, values, strict=True)]
    return mp.fsum(terms), 64 * mp.eps * mp.fsum(terms, absolute=True)


def _powers(mean: mp.mpc, deviation: mp.mpf, count: int) -> list[mp.mpc]:
    """E (mean + deviation Z)^j, j < count"""
    found = [mp.mpc(1), mean]
    for j in range(1, count - 1):
        found.append(mean * found[j] + j * deviation**2 * found[j - 1])
    return found[:count]


def _series(c: Sequence[Row], along: mp.mpc, up: mp.mpc, r: mp.mpf, square: mp.mpf) -> Bounded | None:
    """the integral over the angle by inverse powers of both rates, and the error; None where these do not reach the precision"""
    turned, orders, last = (1 - abs(r)) / 2, len(c) + len(c[0]) - 2, 2 * _MOST_TERMS
    least = min(abs(along), abs(up)) ** 2 * square * turned
    if least <= 2 * last or _MOST_TERMS * (mp.log(least, 2) - math.log2(last)) < mp.mp.prec:  # of (last/least)^n, about the last term
        return None
    firsts, seconds = _inverse(along, last + len(c)), _inverse(up, last + len(c[0]))
    total, size, root = mp.mpc(0), mp.mpf(0), mp.sqrt(square)
    for n in range(_MOST_TERMS):
        terms = []
        for i, j, l in _orders(n):
            factor = (-1) ** (i + l) * r**j / (math.factorial(i) * math.factorial(j) * math.factorial(l) << (i + l)) / square**n
            for m, row in enumerate(c):
                rise = factor * firsts[2 * i + j + m]
                terms += [rise * v * seconds[2 * l + j + o] for o, v in enumerate(row) if v]
        rest = mp.fsum(terms, absolute=True)
        bound = rest / turned ** (n + 1 + mp.mpf(orders) / 2)
        if bound <= mp.eps * size:
            return total / root, (bound + 64 * mp.eps * size) / root
        total, size = total + mp.fsum(terms), size + rest
    return None


def _orders(n: int) -> list[tuple[int, int, int]]:
    return [(i, j, n - i - j) for j in range(n + 1) for i in range(n + 1 - j)]


def _inverse(rate: mp.mpc, count: int) -> list[mp.mpc]:
    """n! / rate^(n + 1)"""
    found = [1 / rate]
    for n in range(1, count):
        found.append(found[-1] * n / rate)
    return found


def _quadrature(c: Sequence[Row], along: mp.mpc, up: mp.mpc, r: mp.mpf, d: mp.mpf) -> Bounded:
    """the integral over the angle by panels, and the error"""
    angle, balls = mp.atan2(d, -r), complex_balls()
    nodes = mp.mp.prec // _BITS_OF_A_NODE + 4
    coarse, fine, size = mp.mpc(0), mp.mpc(0), mp.mpf(0)
    for middle, half in _panels(angle, along * d, up + r * along):
        rules = [[(middle + half * t, half * w) for t, w in gauss_legendre(m, mp.mp.prec)] for m in (nodes, nodes + nodes // 3)]
        if balls is None:
            first, second = (_on_panel(c, along, up, angle, rule) for rule in rules)
        else:
            first, second = (_on_panel_by_balls(c, along, up, angle, rule, balls) for rule in rules)
        coarse, fine, size = coarse + first[0], fine + second[0], size + second[1]
    return fine, abs(fine - coarse) + 64 * mp.eps * size


def _on_panel(c: Sequence[Row], along: mp.mpc, up: mp.mpc, angle: mp.mpf, rule: Rule) -> Bounded:
    """the sum of the terms of a rule, and that of their sizes"""
    terms = []
    for psi, weight in rule:
        left, right = mp.sin(angle - psi), mp.sin(psi)
        moments = half_moments(along * left + up * right, len(c) + len(c[0]) - 1)
        terms.append(weight * _mixed(c, left, right, moments))
    return mp.fsum(terms), mp.fsum(terms, absolute=True)


def _on_panel_by_balls(c: Sequence[Row], along: mp.mpc, up: mp.mpc, angle: mp.mpf, rule: Rule, balls: FlintNumbers) -> Bounded:
    """the same, with what the balls lost in place of the sizes"""
    top = len(c) + len(c[0]) - 1
    with balls.precision(mp.mp.prec + lost_of_ball(abs(along) + abs(up), top)):
        whole, first, second = balls.of(angle), balls.complex(along), balls.complex(up)
        rows, total = [[balls.complex(v) for v in row] for row in c], balls.complex(mp.mpc(0))
        for psi, weight in rule:
            at = balls.of(psi)
            left, right = (whole - at).sin(), at.sin()
            total += balls.of(weight) * _mixed(rows, left, right, half_moments_of_ball(first * left + second * right, top))
        value = mp.mpc(balls.middle(total.real), balls.middle(total.imag))
        return value, abs(value) + (balls.error(total.real) + balls.error(total.imag)) / mp.eps


def _mixed(c: Sequence[Sequence[Any]], left: Any, right: Any, moments: Sequence[Any]) -> Any:
    total, rise = 0, 1
    for m, row in enumerate(c):
        power = rise
        for n, value in enumerate(row):
            total, power = total + value * power * moments[m + n + 1], power * right
        rise = rise * left
    return total


def _panels(angle: mp.mpf, cosine: mp.mpc, sine: mp.mpc) -> Iterator[tuple[mp.mpf, mp.mpf]]:
    """middles and halves of the panels of an angle on which cosine cos + sine sin is the argument"""
    slope = mp.sqrt(cosine**2 + sine**2)  # of the argument at its zeros
    if abs(slope) > mp.sqrt(mp.eps) * (abs(cosine) + abs(sine)):
        zero, blur = mp.atan(-cosine / sine) if sine != 0 else mp.mpc(mp.pi / 2), 1 / abs(slope)
        places = [(zero.real + k * mp.pi, abs(zero.imag)) for k in (-1, 0, 1, 2)]
    else:
        places, blur = [], mp.inf
    waiting = [(angle / 2, angle / 2)]
    while waiting:
        middle, half = waiting.pop()
        away = [mp.hypot(max(abs(middle - place) - half, 0), height) + blur for place, height in places]
        if half <= _SHARE * min([mp.mpf(2), *away]):
            yield middle, half
        else:
            waiting += [(middle - half / 2, half / 2), (middle + half / 2, half / 2)]
