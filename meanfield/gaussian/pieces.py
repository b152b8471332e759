"""Piecewise functions as sums of smooth pieces times steps: Max, Min, Abs, sign, Heaviside and Piecewise, nested as they like.

A function of one variable is held as its cuts in rising order and its value between them. Only the piecewise nodes themselves are
unfolded, never the whole expression: that would multiply unlike steps.
"""

from __future__ import annotations

import itertools
from functools import cmp_to_key

import sympy as sp
from sympy import Heaviside, Rational, S

from meanfield.symbols import known, real

__all__ = [
    "KINKED",
    "NotClosed",
    "UnknownSign",
    "declare",
    "homogeneous_degree",
    "in_pieces",
    "order_of",
    "pieces_of",
    "sign_of",
    "stepped",
    "uncovered",
    "with_its_mirror",
]

x = known("x")
_EXP = sp.Dummy("e^x", positive=True)

KINKED = (sp.Max, sp.Min, sp.Abs, sp.sign, Heaviside, sp.Piecewise)

#: rising cuts, and the value left of the first, between each two, and right of the last
Pieces = tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]


class NotClosed(Exception):
    """The expression leaves the algebra of atoms; the message says where."""


class UnknownSign(NotClosed):
    """It does so for a parameter that may have either sign."""

    def __init__(self, e: sp.Expr, reason: str) -> None:
        super().__init__(reason)
        self.e = e


def declare(e: sp.Expr) -> str:
    """What to tell sympy when the sign of an expression is not known."""
    names = sorted(s.name for s in e.free_symbols - {x} if not (s.is_nonnegative or s.is_nonpositive))
    if not names:
        return f"write the parameters so that the sign of {e} follows from the signs of its symbols"
    if len(names) > 1 and e.is_Add:
        return f"write one parameter as another plus a symbol declared with positive=True, so that {e} has a sign"
    return f"declare {', '.join(names)} with positive=True (or negative=True)"


def stepped(e: sp.Expr) -> sp.Expr:
    """The expression with each piecewise node as pieces times steps; a function of such a node is piecewise itself."""
    if x not in e.free_symbols or not e.has(*KINKED):
        return e
    if e.is_Add or e.is_Mul or (e.is_Pow and e.exp.is_Integer and e.exp > 0):
        return e.func(*[stepped(a) for a in e.args])
    cuts, values = pieces_of(e)
    if not cuts:
        return values[0]
    total = values[0] * _step(cuts[0] - x) + values[-1] * _step(x - cuts[-1])
    for value, (low, high) in zip(values[1:-1], itertools.pairwise(cuts), strict=True):
        total += value * (_step(x - low) - _step(x - high))
    return total


def homogeneous_degree(f: sp.Expr) -> sp.Expr | None:
    """k where f(t x) = t^k f(x) for all t > 0, read off the pieces of f; None if there is no such number."""
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return None
    if any(cut != 0 for cut in cuts):
        return None
    rates = [x * piece.diff(x) / piece for piece in values if piece != 0]
    if any(x in rate.free_symbols and _varies(rate) for rate in rates):  # which is known long before it is written in lowest terms
        return None
    degrees = {_in_lowest_terms(rate) for rate in rates}
    if len(degrees) != 1:
        return None
    (k,) = degrees
    return None if k.free_symbols & {x, _EXP} else k


def _in_lowest_terms(rate: sp.Expr) -> sp.Expr:
    """a rational function of x and its exponentials, which to sympy are as many generators as there are multiples of x, as one of two"""
    put = {e: _EXP ** (e.args[0] / x) for e in rate.atoms(sp.exp) if (e.args[0] / x).is_Integer}
    return sp.cancel(sp.together(rate.xreplace(put)) if put else rate)


def _varies(rate: sp.Expr) -> bool:
    """whether a function of x has other digits at two places of the same side, for some numbers that its parameters may be; of no slope
    that has no formula"""
    if rate.has(sp.Derivative):
        return False
    numbers = (Rational(2 * i + 5, 11) for i in itertools.count())
    put = {s: -n if s.is_nonpositive else n for s, n in zip(sorted(rate.free_symbols - {x}, key=str), numbers, strict=False)}
    here, there = (rate.xreplace({**put, x: at}).evalf(15) for at in (Rational(3, 7), Rational(5, 3)))
    return bool(here.is_Float and there.is_Float and abs(here - there) > Rational(1, 10**6) * (abs(here) + abs(there)))


def _step(z: sp.Expr) -> sp.Expr:
    return Heaviside(z, Rational(1, 2))


#: rising functions of a real variable, with the values that they lie between
_RISING = {
    sp.exp: (S.Zero, S.Infinity),
    sp.log: (S.NegativeInfinity, S.Infinity),
    sp.tanh: (S.NegativeOne, S.One),
    sp.erf: (S.NegativeOne, S.One),
    sp.atan: (-sp.pi / 2, sp.pi / 2),
    sp.asinh: (S.NegativeInfinity, S.Infinity),
    sp.sinh: (S.NegativeInfinity, S.Infinity),
}


def sign_of(e: sp.Expr) -> int:
    """The sign of an expression that does not depend on x.

    Raises
    ------
    UnknownSign
        It does not follow from the signs of the symbols.

    >>> a = sp.Symbol("a", positive=True)
    >>> sign_of(1 - 1 / (1 + a))
    1
    """
    form = e if e.is_zero or e.is_positive or e.is_negative else sp.factor(e)
    if form.is_zero:
        return 0
    if form.is_positive or form.is_negative:
        return 1 if form.is_positive else -1
    raise UnknownSign(e, f"the sign of {e} is unknown: {declare(e)}")


def order_of(a: sp.Expr, b: sp.Expr) -> int:
    """The sign of a - b."""
    return sign_of(sp.expand(a - b))


def _refined(*parts: Pieces) -> tuple[tuple[sp.Expr, ...], list[tuple[sp.Expr, ...]]]:
    """the cuts of all parts together, and the values of each part between them"""
    cuts = tuple(sorted({c for own, _ in parts for c in own}, key=cmp_to_key(order_of)))
    rows = []
    for i in range(len(cuts) + 1):
        below = set(cuts[:i])
        rows.append(tuple(values[sum(c in below for c in own)] for own, values in parts))
    return cuts, rows


def _joined(cuts: tuple[sp.Expr, ...], values: list[sp.Expr]) -> Pieces:
    """without the cuts where nothing changes"""
    kept = [i for i in range(len(cuts)) if values[i] != values[i + 1]]
    return tuple(cuts[i] for i in kept), (values[0], *(values[i + 1] for i in kept))


def _sign_of_smooth(f: sp.Expr) -> Pieces:
    """the sign of a function without kinks"""
    if f.is_positive or f.is_negative or x not in f.free_symbols:
        return (), (S(sign_of(f)),)
    if f.is_Mul:
        cuts, rows = _refined(*[_sign_of_smooth(a) for a in f.args])
        return _joined(cuts, [sp.Mul(*row) for row in rows])
    if f.is_polynomial(x):
        poly = sp.Poly(f, x)
        last = sign_of(poly.LC())
        roots = sp.roots(poly)
        on_the_line = {r: real(r).is_real for r in roots}
        if None in on_the_line.values() and poly.degree() == 2:
            sign_of(sp.discriminant(poly))
        if sum(roots.values()) != poly.degree() or None in on_the_line.values():
            raise NotClosed(f"which roots of {f} are real is not known: {declare(f)}")
        odd = {sp.expand(r) for r, k in roots.items() if on_the_line[r] and k % 2}
        cuts, _ = _refined(*[((r,), (S.Zero, S.Zero)) for r in odd])
        return cuts, tuple(S(last * (-1) ** (len(cuts) - i)) for i in range(len(cuts) + 1))
    inner = _unwrapped(f)
    if inner is not None:
        return _sign_of_smooth(inner)
    slope = f.diff(x)
    root = _only_root(f) if slope.is_positive or slope.is_negative else None
    if root is not None:
        side = S.One if slope.is_positive else S.NegativeOne
        return (root,), (-side, side)
    raise NotClosed(f"the sign of {f} changes at points that have no closed form")


def _only_root(f: sp.Expr) -> sp.Expr | None:
    """of a function that rises or falls throughout, where it has a closed form"""
    if f.xreplace({x: S.Zero}).is_zero:
        return S.Zero
    try:
        roots = sp.solve(f, x)
    except NotImplementedError:
        return None
    return roots[0] if len(roots) == 1 and roots[0].is_real else None


def _unwrapped(f: sp.Expr) -> sp.Expr | None:
    """A simpler function of the same sign: a rising h(g) is larger than c where g is larger than h^{-1}(c)."""
    level, rest = f.as_independent(x, as_Add=True)
    scale, term = rest.as_independent(x, as_Add=False)
    if term.func not in _RISING:
        return None
    (low, high), c = _RISING[term.func], -level / scale
    if (c - low).is_nonpositive or (high - c).is_nonpositive:
        return scale if (c - low).is_nonpositive else -scale
    if not ((c - low).is_positive and (high - c).is_positive):
        return None
    return scale * (term.args[0] - term.inverse()(c))


def _sign_of(part: Pieces) -> Pieces:
    own, values = part
    cuts, rows = _refined(part, *[_sign_of_smooth(v) for v in values])
    below = [sum(c in cuts[:i] for c in own) for i in range(len(cuts) + 1)]
    return _joined(cuts, [row[1 + j] for row, j in zip(rows, below, strict=True)])


def _chosen(first: Pieces, second: Pieces, largest: bool) -> Pieces:
    cuts, rows = _refined(first, second)
    sign = _sign_of((cuts, tuple(a - b for a, b in rows)))
    cuts, triples = _refined(first, second, sign)
    return _joined(cuts, [a if bool(s > 0) is largest else b for a, b, s in triples])


def _holds(condition: sp.Basic) -> Pieces:
    """1 where a condition holds, 0 where not"""
    if condition in (True, sp.true, False, sp.false):
        return (), (S.One if condition in (True, sp.true) else S.Zero,)
    if isinstance(condition, (sp.And, sp.Or, sp.Not)):
        cuts, rows = _refined(*[_holds(c) for c in condition.args])
        if isinstance(condition, sp.Not):
            return _joined(cuts, [1 - row[0] for row in rows])
        join = sp.Min if isinstance(condition, sp.And) else sp.Max
        return _joined(cuts, [join(*row) for row in rows])
    if isinstance(condition, (sp.Gt, sp.Ge, sp.Lt, sp.Le)):
        cuts, values = _sign_of(pieces_of(condition.gts - condition.lts))
        return _joined(cuts, [S(int(bool(v > 0))) for v in values])
    if isinstance(condition, (sp.Eq, sp.Ne)):  # between analytic pieces that differ, equality holds at single points
        cuts, values = pieces_of(condition.lhs - condition.rhs)
        return _joined(cuts, [S(int((sp.expand(v) == 0) is isinstance(condition, sp.Eq))) for v in values])
    raise NotClosed(f"the condition {condition} is no relation")


def uncovered(e: sp.Piecewise) -> sp.Expr | None:
    """A point of an interval in which no condition of a Piecewise holds; None if at most single points are left out."""
    cuts, held = _holds(sp.Or(*[condition for _, condition in e.args]))
    if 0 not in held:
        return None
    i = held.index(0)
    if not cuts:
        return S.Zero
    return cuts[0] - 1 if i == 0 else cuts[-1] + 1 if i == len(cuts) else (cuts[i - 1] + cuts[i]) / 2


def pieces_of(e: sp.Expr) -> Pieces:
    """The cuts of an expression in rising order, and its smooth values between them."""
    if x not in e.free_symbols or not e.has(*KINKED):
        return (), (e,)
    if isinstance(e, sp.Piecewise):
        parts = [(pieces_of(value), _holds(condition)) for value, condition in e.args]
        cuts, rows = _refined(*itertools.chain(*parts))
        chosen = [next((v for v, holds in zip(row[::2], row[1::2], strict=True) if holds), None) for row in rows]
        if None in chosen:
            raise NotClosed(f"{e} is not defined everywhere")
        return _joined(cuts, chosen)
    parts = [pieces_of(a) for a in (e.args[:1] if isinstance(e, Heaviside) else e.args)]
    if isinstance(e, (sp.Max, sp.Min)):
        result = parts[0]
        for part in parts[1:]:
            result = _chosen(result, part, isinstance(e, sp.Max))
        return result
    if isinstance(e, (sp.Abs, sp.sign, Heaviside)):
        cuts, rows = _refined(parts[0], _sign_of(parts[0]))
        if isinstance(e, sp.Abs):
            return _joined(cuts, [v * s for v, s in rows])
        return _joined(cuts, [s if isinstance(e, sp.sign) else (1 + s) / 2 for _, s in rows])
    cuts, rows = _refined(*parts)
    return _joined(cuts, [e.func(*row) for row in rows])


def with_its_mirror(f: sp.Expr) -> Pieces:
    """The cuts of f(x) and of f(-x), and both values between them as pairs."""
    own = pieces_of(f)
    cuts, rows = _refined(own, (tuple(-cut for cut in reversed(own[0])), tuple(value.xreplace({x: -x}) for value in reversed(own[1]))))
    return cuts, tuple(sp.Tuple(*row) for row in rows)


def in_pieces(f: sp.Expr, sign: int = 0) -> sp.Expr:
    """A function with one expression for each stretch between its cuts, of those alone where sign * x > 0 if a sign is given; f itself
    where these are no numbers.

    >>> in_pieces(Heaviside(x + 1) + Heaviside(x - 1) - 1 + x, 1)
    Piecewise((x, x < 1), (x + 1, True))
    """
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return f
    if not all(cut.is_number for cut in cuts) or f.has(sp.DiracDelta):
        return f
    ends = [*((value, x < cut) for value, cut in zip(values, cuts, strict=False)), (values[-1], sp.true)]
    outside = [i for i, cut in enumerate(cuts) if sign * cut > 0]
    if sign:
        first, last = (outside[0], len(ends)) if sign > 0 and outside else (len(cuts), len(ends)) if sign > 0 else (0, len(outside) + 1)
        ends = [*ends[first : last - 1], (ends[last - 1][0], True)]
    return sp.Piecewise(*ends)
