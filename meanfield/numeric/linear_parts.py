r"""What a layer adds to q, and how much more than by q'/q it takes delta and its transfer on, where there is no skip: expectations with
what the first term of a Taylor series at 0, or that of a piecewise linear function, makes of them apart. So nothing is left to subtract at
criticality, where that is q, delta or 1, nor next to it, where q'/q and \delta'/\delta differ by much less than either does from 1.

With f = f_0 + a x + b |x| + r, r'(0) = r(0) = 0, by Stein's identity E u r(v) = p E r', which holds of all that does not jump,

    E f(u)^2 = f_0^2 + 2 f_0 (b \sqrt{2q/\pi} + E r(u)) + (a^2 + b^2) q + 2 q E (a + b \operatorname{sign} u) r'(u) + E r(u)^2,
    E f'(u)^2 = a^2 + b^2 + 2 E (a + b \operatorname{sign} u) r'(u) + E r'(u)^2,

and where f has a slope at 0, b = 0,

    E f(u)^2 - E f(u) f(v) = a^2 \delta + 2 a \delta E r'(u) + E r(u)^2 - E r(u) r(v),
    E f'(u) f'(v) = a^2 + 2 a E r'(u) + E r'(u) r'(v).

With f = a x + b |x|, whose parts are even and odd, and \rho = 1 - \delta/q,

    E f(u)^2 = (a^2 + b^2) q,   E f(u)^2 - E f(u) f(v) = (a^2 + b^2) \delta + b^2 (E u^2 - E |u v| - \delta),
    E f'(u) f'(v) = a^2 + b^2 - 2 b^2 \arccos(\rho)/\pi.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import NotClosed, homogeneous_degree, pieces_of
from meanfield.gaussian.smoothness import is_smooth
from meanfield.numeric.expanding import expanded
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


def _held(e: sp.Expr, functions: tuple[_Apart, ...]) -> tuple[sp.Expr, dict[sp.Symbol, sp.Expr]]:
    """e as a sum, with its nodes apart and what is left of them under names; and what these stand for, which is written as the functions
    are: x e^x (1 - tanh^2 e^x) multiplied out is rounding where x is large"""
    names: dict[sp.Expr, sp.Symbol] = {}

    def hold(t: sp.Expr) -> sp.Expr:  # integrands stay as they are, also where the sum is expanded
        return names.setdefault(t, sp.Dummy("E"))

    def is_node(t: sp.Basic) -> bool:
        return isinstance(t, Node)

    def apart(t: Node) -> sp.Expr:
        first, rest = _of_lines(t) or (_taken_apart(t, functions), sp.S.Zero)
        return first.replace(is_node, hold) + (hold(rest) if rest else rest)

    total = expanded(e.replace(is_node, apart))
    written = _as_written(functions)
    return total, {symbol: node.xreplace(written) for node, symbol in names.items()}


@dataclass(frozen=True)
class _Pieces:
    """A function by its cuts in rising order and what it is between them, no two neighbours the same."""

    cuts: tuple[sp.Expr, ...]
    values: tuple[sp.Expr, ...]

    @classmethod
    def of(cls, f: sp.Expr) -> _Pieces | None:
        """None of a function with pieces that are not smooth, or of which it is not known on which side of 0 they are."""
        try:
            cuts, values = pieces_of(f)
        except NotClosed:
            return None
        told = all(c.is_zero or c.is_positive or c.is_negative for c in cuts)
        return cls._merged(cuts, values) if told and all(map(is_smooth, values)) else None

    @classmethod
    def _merged(cls, cuts: tuple[sp.Expr, ...], values: tuple[sp.Expr, ...]) -> _Pieces:
        kept = [k for k in range(len(cuts)) if sp.expand(values[k] - values[k + 1]) != 0]
        return cls(tuple(cuts[k] for k in kept), (values[0], *(values[k + 1] for k in kept)))

    def mapped(self, each: Callable[[sp.Expr, int], sp.Expr]) -> _Pieces:
        """What a map of a piece and its side of 0 makes of it; 0 is a cut, or the side does not matter there."""
        sides = [-1 if k < len(self.cuts) and self.cuts[k].is_nonpositive else 1 for k in range(len(self.values))]
        return self._merged(self.cuts, tuple(each(value, side) for value, side in zip(self.values, sides, strict=True)))

    def next_to_0(self, sign: int) -> sp.Expr:
        """The piece on that side of 0."""
        return self.values[sum(c.is_negative or (c.is_zero and sign > 0) for c in self.cuts)]

    def jumps(self) -> bool:
        return any(
            sp.expand(left.xreplace({x: c}) - right.xreplace({x: c})) != 0
            for c, left, right in zip(self.cuts, self.values, self.values[1:], strict=False)
        )

    @property
    def whole(self) -> sp.Expr:
        *inner, last = self.values
        return sp.Piecewise(*[(value, x < c) for c, value in zip(self.cuts, inner, strict=True)], (last, True)) if inner else last


@dataclass(frozen=True)
class _Apart:
    """A function f that does not jump, in pieces, f_0, and its slopes on either side of 0, a + b and a - b."""

    function: sp.Expr
    pieces: _Pieces
    value: sp.Expr
    right: sp.Expr
    left: sp.Expr

    @classmethod
    def of(cls, f: sp.Expr) -> _Apart | None:
        """None of a function that jumps, or has no slopes at 0."""
        pieces = _Pieces.of(f)
        if pieces is None or pieces.jumps():
            return None
        value = pieces.next_to_0(1).xreplace({x: sp.S.Zero})
        right, left = (pieces.next_to_0(sign).diff(x).xreplace({x: sp.S.Zero}) for sign in (1, -1))
        finite = not any(e.has(sp.nan, sp.zoo, sp.oo, -sp.oo) for e in (value, right, left))
        return cls(f, pieces, value, right, left) if finite else None

    @property
    def has_slope(self) -> bool:
        """Whether b is 0."""
        return bool(self.right == self.left)

    def line(self, side: int) -> sp.Expr:
        """a + b sign(x)"""
        return self.right if side > 0 else self.left

    @property
    def lines(self) -> sp.Expr:
        """a^2 + b^2"""
        return (self.right**2 + self.left**2) / 2

    @property
    def rest(self) -> _Pieces:
        """r"""
        return self.pieces.mapped(lambda f, side: f - self.value - self.line(side) * x)

    @property
    def slope_of_rest(self) -> _Pieces:
        return self.pieces.mapped(lambda f, side: f.diff(x) - self.line(side))

    @property
    def pull(self) -> sp.Expr:
        """E (a + b sign u) r'(u)"""
        if self.has_slope:
            return self.right * _mean(self.slope_of_rest.whole)
        return _mean(self.pieces.mapped(lambda f, side: self.line(side) * (f.diff(x) - self.line(side))).whole)

    @property
    def square(self) -> sp.Expr:
        """E f(u)^2"""
        beside = sp.S.Zero
        if self.value != 0:
            beside = self.value**2 + 2 * self.value * ((self.right - self.left) * sp.sqrt(q / (2 * sp.pi)) + _mean(self.rest.whole))
        return beside + self.lines * q + 2 * q * self.pull + _mean_of_square(self.rest)

    @property
    def square_of_slope(self) -> sp.Expr:
        """E f'(u)^2"""
        return self.lines + 2 * self.pull + _mean_of_square(self.slope_of_rest)

    @property
    def gap(self) -> sp.Expr:
        """E f(u)^2 - E f(u) f(v), where b is 0"""
        return self.lines * delta + 2 * delta * self.pull + Gap(self.rest.whole, q, delta)


def _functions(gap: sp.Expr) -> tuple[_Apart, ...]:
    """the functions that the signal goes through, apart"""
    functions = (t.integrand for t in sp.Add.make_args(gap) for t in t.atoms(Gap) if t.args[1:] == (q, delta))
    return tuple(apart for f in functions if (apart := _Apart.of(f)) is not None)


def _taken_apart(node: Node, functions: tuple[_Apart, ...]) -> sp.Expr:
    f = node.integrand
    if isinstance(node, Expectation) and node.variance == q and node.mean == 0 and (pieces := _Pieces.of(f)) is not None:
        for g in functions:
            if (factor := _multiple(pieces, g.pieces.mapped(lambda f, _: f**2))) is not None:
                return factor * g.square
            if (factor := _multiple(pieces, g.pieces.mapped(lambda f, _: f.diff(x) ** 2))) is not None:
                return factor * g.square_of_slope
        if is_smooth(f) and (value := f.xreplace({x: sp.S.Zero})) != 0:
            return value + _mean(f - value)
    if isinstance(node, Gap) and node.args[1:] == (q, delta):
        return next((g.gap for g in functions if g.function == f and g.has_slope), node)
    if isinstance(node, PairExpectation) and node.args[1:] == (q, q - delta, q, sp.S.Zero, sp.S.Zero):
        parts = node.separated()
        one = _Pieces.of(parts[0]) if parts is not None and parts[0] == parts[1] else None
        values = [one.next_to_0(sign).xreplace({x: sp.S.Zero}) for sign in (1, -1)] if one is not None else []
        if one is not None and values[0] == values[1]:
            rest = one.mapped(lambda f, _: f - values[0]).whole
            return values[0] ** 2 + 2 * values[0] * _mean(rest) + PairExpectation(rest * rest.xreplace({x: y}), q, q - delta, q)
    return node


def _mean(f: sp.Expr) -> sp.Expr:
    """E f(u), the same number times the same node however f is written"""
    factor, scaled = _scaled(f)
    return factor * Expectation(scaled, q) if factor != 0 else sp.S.Zero


def _mean_of_square(f: _Pieces) -> sp.Expr:
    return Expectation(f.mapped(lambda piece, _: piece**2).whole, q)


@lru_cache(maxsize=64)
def _as_written(functions: tuple[_Apart, ...]) -> dict[sp.Expr, sp.Expr]:
    """what is left of functions, scaled, and the same without what is multiplied out in that, where anything is"""
    found = {}
    for f in (part for g in functions for part in (g.rest.whole, g.slope_of_rest.whole)):
        factor, scaled = _scaled(f)
        terms = sp.Add.make_args(f)
        if factor != 0 and len(terms) != len(sp.Add.make_args(scaled)):
            found[scaled] = sp.Add(*[t / factor for t in terms])
    return found


@lru_cache(maxsize=256)
def _scaled(f: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """a sum as a number times one whose first term has none; 0 as 0 times 1"""
    total = sp.expand(f)
    if total == 0:
        return sp.S.Zero, sp.S.One
    parts = [t.as_independent(*total.free_symbols, as_Add=False) for t in sp.Add.make_args(total)]
    factor = min(parts, key=lambda part: sp.default_sort_key(part[1]))[0]
    return factor, sp.expand(total / factor)


def _multiple(f: _Pieces, g: _Pieces) -> sp.Expr | None:
    """f/g where that is a number"""
    if f.cuts != g.cuts:
        return None
    pairs = [(_scaled(one), _scaled(other)) for one, other in zip(f.values, g.values, strict=True)]
    factors = {a / b for (a, _), (b, _) in pairs if b != 0}
    same = all(first == second and (a == 0) == (b == 0) for (a, first), (b, second) in pairs)
    return factors.pop() if same and len(factors) == 1 else None


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
