"""Piecewise functions as sums of smooth pieces times steps: Max, Min, Abs, sign, Heaviside and Piecewise, nested as they like.

A function of one variable is held as its cuts in rising order and its value between them. Only the piecewise nodes themselves are
unfolded, never the whole expression: that would multiply unlike steps.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, cmp_to_key

import sympy as sp
from sympy import Heaviside, Rational, S

from meanfield.symbols import known

__all__ = [
    "Delta",
    "NotClosed",
    "almost_everywhere",
    "branch",
    "declare",
    "deltas",
    "edges",
    "gathered",
    "homogeneous_degree",
    "is_smooth",
    "pieces_of",
    "slope",
    "stepped",
    "without_deltas",
]

x, y = known("x"), known("y")

_KINKED = (sp.Max, sp.Min, sp.Abs, sp.sign, Heaviside, sp.Piecewise)

#: rising cuts, and the value left of the first, between each two, and right of the last
Pieces = tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]


class NotClosed(Exception):
    """The expression leaves the algebra of atoms; the message says where."""


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
    if x not in e.free_symbols or not e.has(*_KINKED):
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


def is_smooth(f: sp.Expr) -> bool:
    """Whether f is written without kinks, jumps and deltas."""
    return not f.has(*_KINKED, sp.DiracDelta) and not _waves(f)


def _waves(f: sp.Expr) -> dict[sp.Expr, tuple[sp.Expr, int, sp.Expr]]:
    """the triangle waves in f, asin(sin v) and its like, as (v, n, c) of n asin(sin v) + c"""
    found = {}
    for t in f.atoms(sp.asin, sp.acos):
        if isinstance(t.args[0], (sp.sin, sp.cos)) and t.has(x):
            v = t.args[0].args[0] + (sp.pi / 2 if isinstance(t.args[0], sp.cos) else 0)
            found[t] = (v, 1, S.Zero) if isinstance(t, sp.asin) else (v, -1, sp.pi / 2)
    return found


def homogeneous_degree(f: sp.Expr) -> sp.Expr | None:
    """k where f(t x) = t^k f(x) for all t > 0, read off the pieces of f; None if there is no such number."""
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return None
    degrees = {sp.cancel(x * piece.diff(x) / piece) for piece in values if piece != 0}
    if any(cut != 0 for cut in cuts) or len(degrees) != 1:
        return None
    (k,) = degrees
    return None if k.has(x) else k


def without_deltas(f: sp.Expr) -> sp.Expr:
    """f away from its deltas in x."""
    return f.replace(lambda t: isinstance(t, sp.DiracDelta) and t.has(x), lambda _: S.Zero)


@cache
def almost_everywhere(f: sp.Expr) -> sp.Expr:
    """The one piece of a function whose pieces all agree, so that its value at single points is forgotten; any other function itself."""
    if is_smooth(f) or f.has(sp.DiracDelta):
        return f
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return f
    return f if cuts else values[0]


@cache
def edges(f: sp.Expr) -> tuple[sp.Expr, ...]:
    """Expressions whose zeros are the kinks of f."""
    found: list[sp.Expr] = []
    for t in f.atoms(sp.Max, sp.Min):
        found += [a - b for a, b in itertools.combinations(t.args, 2)]
    found += [t.args[0] for t in f.atoms(sp.Abs, sp.sign, Heaviside)]
    for t in f.atoms(sp.Piecewise):
        found += [r.lhs - r.rhs for _, condition in t.args for r in sp.sympify(condition).atoms(sp.Rel)]
    found += [sp.cos(v) for v, _, _ in _waves(f).values()]
    smooth: dict[sp.Expr, None] = {}
    for edge in found:
        folded = sp.piecewise_fold(edge.rewrite(sp.Piecewise)) if edge.has(*_KINKED) else edge
        for part in [value for value, _ in folded.args] if isinstance(folded, sp.Piecewise) else [folded]:
            if part.has(x):
                smooth[part] = None
    return tuple(smooth)


def branch(f: sp.Expr, at: sp.Expr) -> sp.Expr:
    """The analytic branch of f around a point that is no kink."""

    def chosen(t: sp.Basic) -> sp.Basic:
        here = t.xreplace({x: at})
        if isinstance(t, (sp.Max, sp.Min)):
            best = [a for a in t.args if a.xreplace({x: at}) == here] or [a for a in t.args if sp.expand(a.xreplace({x: at}) - here) == 0]
            return best[0] if best else t
        if isinstance(t, sp.Abs):
            return t.args[0] if _is_positive(t.args[0].xreplace({x: at})) else -t.args[0]
        if isinstance(t, sp.Piecewise):
            return next(e for e, condition in t.args if condition in (True, sp.true) or condition.xreplace({x: at}) == sp.true)
        return here

    while f.has(*_KINKED):
        g = f.replace(lambda t: isinstance(t, _KINKED) and not any(a.has(*_KINKED) for a in t.args), chosen)
        if g == f:
            raise NotClosed(f"which branch of {f} holds at {at} depends on a parameter")
        f = g
    return without_deltas(f.xreplace({t: n * _straight(v, at) + c for t, (v, n, c) in _waves(f).items()}))


def _straight(v: sp.Expr, at: sp.Expr) -> sp.Expr:
    """asin(sin v) on the side of its kinks on which a point is"""
    turn = sp.floor(v.xreplace({x: at}) / sp.pi + S.Half)
    return (-1) ** turn * (v - turn * sp.pi)


def _is_positive(e: sp.Expr) -> bool:
    if e.is_positive is None and not e.is_number:
        raise NotClosed(f"the sign of {e} is not known: {declare(e)}")
    return bool(e > 0)


def slope(e: sp.Expr, z: sp.Symbol = x) -> sp.Expr:
    """The derivative as a distribution: sympy's drops the delta where a Piecewise jumps, and leaves one of a function as it is."""
    if z != x:
        swap = {x: z, z: x}
        return slope(e.xreplace(swap)).xreplace(swap)
    waves = {t: (sp.Function(f"wave_{i}")(x), n * sp.sign(sp.cos(v)) * v.diff(x)) for i, (t, (v, n, _)) in enumerate(_waves(e).items())}
    plain = e.xreplace({t: wave for t, (wave, _) in waves.items()}).diff(x)
    plain = plain.xreplace({wave.diff(x): rate for wave, rate in waves.values()}).xreplace({wave: t for t, (wave, _) in waves.items()})
    if plain.has(sp.Subs, sp.Derivative):
        raise ValueError(
            f"{e} has no derivative here: write a function that jumps without end, like floor, in pieces, as far as it matters"
        )
    if not is_smooth(e) and any(_flat_root(t) for t in e.atoms(sp.Pow)):
        return _slope_of_powers(e, plain)
    if e.has(sp.Piecewise) or not all(_is_linear(t.args[0], x) for t in plain.atoms(sp.DiracDelta) if t.has(x)):
        try:
            cuts, values = pieces_of(e)
        except NotClosed:
            return plain
        jumps = ((high - low) * sp.DiracDelta(x - cut) for cut, (low, high) in zip(cuts, itertools.pairwise(values), strict=True))
        plain = without_deltas(plain) + sp.Add(*jumps)
    return _weighed(plain)


def gathered(e: sp.Expr) -> sp.Expr:
    """Quotients of x and powers of one exponential over a common denominator where that is shorter: far out sums of them cancel."""
    scales = {t.args[0] / x for t in e.atoms(sp.exp)}
    if not scales or not all(k.is_Rational for k in scales):
        return e
    unit, power = sp.Rational(sp.gcd_list(sorted(scales))), sp.Dummy("power", positive=True)
    plain = e.xreplace({t: power ** (t.args[0] / x / unit) for t in e.atoms(sp.exp)})
    if not plain.is_rational_function(x, power):
        return e
    return min((e, sp.factor(plain).xreplace({power: sp.exp(unit * x)})), key=sp.count_ops)


def _flat_root(t: sp.Pow) -> bool:
    """whether the derivative of a power may be 0/0 on an interval: its exponent is open, or it is a root of a function with flat pieces"""
    return not t.exp.is_number or (not t.exp.is_Integer and t.exp < 1 and t.base.has(sp.Max, sp.Min, sp.Piecewise, Heaviside))


def _slope_of_powers(e: sp.Expr, plain: sp.Expr) -> sp.Expr:
    """piece by piece: the derivative k z^k z'/z of a power of max(x, 0) is 0/0 where that is 0"""
    try:
        cuts, values = pieces_of(e)
    except NotClosed:
        return plain
    slopes = [sp.powsimp(value.diff(x)) for value in values]
    jumps = [(high - low).subs(x, cut) * sp.DiracDelta(x - cut) for cut, (low, high) in zip(cuts, itertools.pairwise(values), strict=True)]
    return sp.Piecewise(*[(s, x < cut) for s, cut in zip(slopes, cuts, strict=False)], (slopes[-1], True)) + sp.Add(*jumps)


def _weighed(e: sp.Expr) -> sp.Expr:
    """What stands before a delta by its value there: (x - k) delta(x - k) is 0."""
    if not e.has(sp.DiracDelta):
        return e
    smooth, found = deltas(e)
    weights: dict[sp.Expr, sp.Expr] = {}
    for d in found:
        if d.order or d.factor.has(sp.DiracDelta):
            return e
        weights[d.place] = weights.get(d.place, S.Zero) + d.factor.xreplace({x: d.place})
    return smooth + sp.Add(*[sp.expand(c) * sp.DiracDelta(x - place) for place, c in weights.items()])


def _is_linear(argument: sp.Expr, z: sp.Symbol) -> bool:
    return bool(argument.is_polynomial(z)) and sp.degree(argument, z) == 1


@dataclass(frozen=True)
class Delta:
    """factor * delta^(order)(x - place), factor a function of x."""

    factor: sp.Expr
    place: sp.Expr
    order: int


def deltas(e: sp.Expr) -> tuple[sp.Expr, tuple[Delta, ...]]:
    """A sum of a function and deltas as the function, and the deltas."""
    found = []
    for term in sp.Add.make_args(sp.expand(e)):
        at = [t for t in term.atoms(sp.DiracDelta) if t.has(x)]
        if not at:
            continue
        argument, order = at[0].args[0], int(at[0].args[1]) if len(at[0].args) > 1 else 0
        if not _is_linear(argument, x) or argument.free_symbols & {y}:
            raise ValueError(f"{at[0]}: the argument of a delta must be linear in one variable")
        rate, offset = sp.Poly(argument, x).all_coeffs()
        found.append(Delta(term / at[0] / (sp.Abs(rate) * rate**order), -offset / rate, order))
    return without_deltas(e), tuple(found)


def _step(z: sp.Expr) -> sp.Expr:
    return Heaviside(z, Rational(1, 2))


def _sign(e: sp.Expr) -> int:
    if e.is_zero:
        return 0
    if e.is_positive:
        return 1
    if e.is_negative:
        return -1
    raise NotClosed(f"the sign of {e} is unknown: {declare(e)}")


def _order(a: sp.Expr, b: sp.Expr) -> int:
    return _sign(sp.expand(a - b))


def _refined(*parts: Pieces) -> tuple[tuple[sp.Expr, ...], list[tuple[sp.Expr, ...]]]:
    """the cuts of all parts together, and the values of each part between them"""
    cuts = tuple(sorted({c for own, _ in parts for c in own}, key=cmp_to_key(_order)))
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
        return (), (S(_sign(f)),)
    if f.is_Mul:
        cuts, rows = _refined(*[_sign_of_smooth(a) for a in f.args])
        return _joined(cuts, [sp.Mul(*row) for row in rows])
    if f.is_polynomial(x):
        poly = sp.Poly(f, x)
        roots = sp.roots(poly)
        plain = {s: sp.Dummy(s.name, real=True) for s in f.free_symbols if s.is_real is None}  # a symbol is real unless it says not
        real = {r: r.xreplace(plain).is_real for r in roots}
        if sum(roots.values()) != poly.degree() or None in real.values():
            raise NotClosed(f"which roots of {f} are real is not known: {declare(f)}")
        odd = {sp.expand(r) for r, k in roots.items() if real[r] and k % 2}
        cuts, _ = _refined(*[((r,), (S.Zero, S.Zero)) for r in odd])
        last = _sign(poly.LC())
        return cuts, tuple(S(last * (-1) ** (len(cuts) - i)) for i in range(len(cuts) + 1))
    slope = f.diff(x)
    roots = sp.solve(f, x) if slope.is_positive or slope.is_negative else []
    if len(roots) == 1 and roots[0].is_real:
        side = S.One if slope.is_positive else S.NegativeOne
        return (roots[0],), (-side, side)
    raise NotClosed(f"the sign of {f} changes at points that have no closed form")


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


def pieces_of(e: sp.Expr) -> Pieces:
    """The cuts of an expression in rising order, and its smooth values between them."""
    if x not in e.free_symbols or not e.has(*_KINKED):
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
