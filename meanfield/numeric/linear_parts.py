r"""What a layer adds to q, and how much more than by q'/q it takes delta and its transfer on, where there is no skip: expectations with
what the first term of a Taylor series at 0, or that of a piecewise linear function, makes of them apart. So nothing is left to subtract at
criticality, where that is q, delta or 1, nor next to it, where q'/q and \delta'/\delta differ by much less than either does from 1.

With f = f_0 + a x + r, r'(0) = r(0) = 0, by Stein's identity E u r(v) = p E r',

    E f(u)^2 = f_0^2 + 2 f_0 E r(u) + a^2 q + 2 a q E r'(u) + E r(u)^2,
    E f(u)^2 - E f(u) f(v) = a^2 \delta + 2 a \delta E r'(u) + E r(u)^2 - E r(u) r(v),
    E f'(u) f'(v) = a^2 + 2 a E r'(u) + E r'(u) r'(v).

With f = a x + b |x|, whose parts are even and odd, and \rho = 1 - \delta/q,

    E f(u)^2 = (a^2 + b^2) q,   E f(u)^2 - E f(u) f(v) = (a^2 + b^2) \delta + b^2 (E u^2 - E |u v| - \delta),
    E f'(u) f'(v) = a^2 + b^2 - 2 b^2 \arccos(\rho)/\pi.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.gaussian.smoothness import is_smooth
from meanfield.symbols import known

__all__ = ["added_to_variance", "beyond_growth"]

x, y, q, p, delta = known("x"), known("y"), known("q"), known("p"), known("delta")
#: a node that is apart, and what is left of it
_Parts = tuple[sp.Expr, sp.Expr]


def added_to_variance(output: sp.Expr, gap: sp.Expr) -> tuple[sp.Expr, dict[sp.Symbol, sp.Expr]] | None:
    """The variance of a layer less q, where that is a sum of expectations at the variance q, perhaps with constants beside, and a skip
    that lets q grow no further, or none; what multiplies q or 1 in it has a name: at criticality it is 0, and so before what is added to
    it. None of another layer: where q grows for ever, an activation is not beside its first term what it comes to."""
    e = output - q
    nodes = [t for t in sp.Add.make_args(e) if t.has(Node)]
    rest = e - sp.Add(*nodes)
    skip = sp.Add(*[t for t in sp.Add.make_args(rest) if t.has(q)]) / q
    if not nodes or rest.has(delta) or not (skip.is_number and -1 <= skip < 0):
        return None
    total, held = _held(e, _functions(gap))
    beside = [t for t in sp.Add.make_args(total) if not t.has(*held)]
    result, names = total - sp.Add(*beside), dict[sp.Symbol, sp.Expr]()
    for factor, part in sp.collect(sp.Add(*beside), (q,), evaluate=False).items():
        if part.is_number:
            result += factor * part
            continue
        name = sp.Dummy("excess", real=True)
        names[name] = part
        result += factor * name
    return result.xreplace(held), names


def beyond_growth(e: sp.Expr, output: sp.Expr, gap: sp.Expr) -> sp.Expr:
    """e - q'/q of such a layer, for e = delta'/delta or an entry of its transfer."""
    total, held = _held(e - output / q, _functions(gap))
    return total.xreplace(held)


def _held(e: sp.Expr, functions: tuple[sp.Expr, ...]) -> tuple[sp.Expr, dict[sp.Symbol, sp.Expr]]:
    """e as a sum, with its nodes apart and what is left of them under names; and what these stand for"""
    names: dict[sp.Expr, sp.Symbol] = {}

    def hold(t: sp.Expr) -> sp.Expr:  # integrands stay as they are, also where the sum is expanded
        return names.setdefault(t, sp.Dummy("E"))

    def is_node(t: sp.Basic) -> bool:
        return isinstance(t, Node)

    def apart(t: Node) -> sp.Expr:
        first, rest = _of_lines(t) or (_apart(t, functions), sp.S.Zero)
        return first.replace(is_node, hold) + (hold(rest) if rest else rest)

    total = sp.expand(e.replace(is_node, apart))
    return total, {symbol: node for node, symbol in names.items()}


def _functions(gap: sp.Expr) -> tuple[sp.Expr, ...]:
    """the smooth functions that the signal goes through"""
    return tuple(t.integrand for t in sp.Add.make_args(gap) for t in t.atoms(Gap) if t.args[1:] == (q, delta) and is_smooth(t.integrand))


def _apart(node: Node, functions: tuple[sp.Expr, ...]) -> sp.Expr:
    f = node.integrand
    if isinstance(node, Expectation) and node.variance == q and node.mean == 0:
        for g in functions:
            for of, split in ((g, _square), (sp.diff(g, x), _square_of_slope)):
                if (factor := _multiple(f, of**2)) is not None:
                    return factor * split(of)
        if is_smooth(f) and (value := f.xreplace({x: sp.S.Zero})) != 0:
            return value + _mean(f - value)
    if isinstance(node, Gap) and f in functions and node.args[1:] == (q, delta):
        a, _, r = _line(f)
        slope = sp.diff(f, x) - a
        return a**2 * delta + 2 * a * delta * _mean(slope) + Gap(r, q, delta)
    if isinstance(node, PairExpectation) and node.args[1:] == (q, q - delta, q, sp.S.Zero, sp.S.Zero):
        parts = node.separated()
        if parts is not None and parts[0] == parts[1] and is_smooth(parts[0]):
            value = parts[0].xreplace({x: sp.S.Zero})
            rest = parts[0] - value
            return value**2 + 2 * value * _mean(rest) + PairExpectation(rest * rest.xreplace({x: y}), q, q - delta, q)
    return node


def _line(f: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """its slope and value at 0, and what it is beside"""
    value, slope = (e.xreplace({x: sp.S.Zero}) for e in (f, sp.diff(f, x)))
    return slope, value, f - value - slope * x


def _square(f: sp.Expr) -> sp.Expr:
    a, value, r = _line(f)
    return value**2 + 2 * value * _mean(r) + a**2 * q + 2 * a * q * _mean(sp.diff(f, x) - a) + Expectation(r**2, q)


def _square_of_slope(f: sp.Expr) -> sp.Expr:
    value = f.xreplace({x: sp.S.Zero})
    return value**2 + 2 * value * _mean(f - value) + Expectation((f - value) ** 2, q)


def _mean(f: sp.Expr) -> sp.Expr:
    """E f(u), the same number times the same node however f is written"""
    factor, scaled = _scaled(f)
    return factor * Expectation(scaled, q) if factor != 0 else sp.S.Zero


@lru_cache(maxsize=256)
def _scaled(f: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """a sum as a number times one whose first term has none; 0 as 0 times 1"""
    total = sp.expand(f)
    if total == 0:
        return sp.S.Zero, sp.S.One
    parts = [t.as_independent(*total.free_symbols, as_Add=False) for t in sp.Add.make_args(total)]
    factor = min(parts, key=lambda part: sp.default_sort_key(part[1]))[0]
    return factor, sp.expand(total / factor)


def _multiple(f: sp.Expr, g: sp.Expr) -> sp.Expr | None:
    """f/g where that is a number"""
    (a, first), (b, second) = _scaled(f), _scaled(g)
    return a / b if first == second and b != 0 else None


def _of_lines(node: Node) -> _Parts | None:
    """Of a x + b |x|, its square or its slope: what is of the order of q, delta or 1, and the rest; None of anything else."""
    f = node.integrand
    pair = isinstance(node, PairExpectation) and node.args[1:] == (q, q - delta, q, sp.S.Zero, sp.S.Zero)
    parts = node.separated() if pair else (f, f)
    if parts is None or parts[0] != parts[1] or is_smooth(parts[0]):
        return None
    degree = homogeneous_degree(parts[0])
    right, left = (parts[0].xreplace({x: sp.Integer(sign)}) for sign in (1, -1))
    even, odd = (right + left) / 2, (right - left) / 2
    if isinstance(node, Expectation) and (node.variance, node.mean) == (q, 0) and degree in (0, 2):
        return even * q ** (degree / 2), sp.S.Zero
    if isinstance(node, Gap) and node.args[1:] == (q, delta) and degree == 1:
        return (even**2 + odd**2) * delta, even**2 * sp.expand(Gap(sp.Abs(x), q, delta).doit() - delta)
    if pair and degree == 0:
        return even**2 + odd**2, -4 * odd**2 * sp.atan2(sp.sqrt(delta), sp.sqrt(2 * q - delta)) / sp.pi
    return None
