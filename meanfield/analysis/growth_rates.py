r"""How q, 1 - c and J move over many repeats, from the series of one repeat.

Far out (q = X -> oo) or near 0 (q = 1/X) one repeat takes X to A X, or, where A = 1, moves it slowly:

    d ln X/dl = \beta X^{-\kappa} ln^j X (1 + (b_1 + b_1' ln X) X^{-s} + ...),   X ~ (\kappa^{1 - j} \beta l ln^j l)^{1/\kappa},
    d e/d ln X = H(e)/\beta,   e = 1 - c,   d ln J/dl = m X^{-\eta} ln^k X (1 + (m_1 + m_1' ln X) X^{-s} + ...),

(lower powers of the logarithm beside: see `growth_logarithms`; here j = k = 0) so that e goes to a root of H, or to 0 as a power of X
(H ~ h e) or of ln X (H ~ h e^\theta, \theta > 1), and J is a power of X (\eta = \kappa) or, with s = \kappa - \eta > 0,

    ln J = \frac{m}{\beta s} X^s + \frac{m}{\beta} \Bigl[\frac{b_1'}{\kappa - s} + m_1 - b_1\Bigr] ln X
           + \frac{m}{2 \beta} (m_1' - b_1') ln^2 X + O(1).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import sympy as sp
from sympy import S

from meanfield.analysis.implicit import TOUCHING, CorrelationRoot, Implicit, valued
from meanfield.analysis.limits import REST
from meanfield.analysis.rational_forms import cancelled
from meanfield.analysis.repeats import Fading, Repeat, Terms, small
from meanfield.analysis.shared_digits import numbered
from meanfield.analysis.signs import GAP, closed, sign, vanishes
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.shared_parts import parts_of, put_in
from meanfield.numeric.printing import Unsupported

__all__ = [
    "Approach",
    "Beyond",
    "Motion",
    "Together",
    "Undetermined",
    "at_gap",
    "attractor",
    "coefficient",
    "coupled",
    "eigenvalues",
    "gap_fixed",
    "gap_slow",
    "is_one",
    "motion",
    "slow_exponents",
    "tidied",
]

#: operations beyond which a number is written in digits
LONG = 60


class Undetermined(Exception):
    """The question has no answer here; the message says why, `decides` is the expression whose sign decides, if one does."""

    def __init__(self, message: str, decides: sp.Expr | None = None) -> None:
        super().__init__(message)
        self.reason, self.decides = message, decides


class Beyond(Undetermined):
    """More terms of the expansions are needed."""


class Together(Undetermined):
    """q and c settle at c < 1, each depending on the other."""


@dataclass(frozen=True)
class Motion:
    """What a repeat does to X: A X, or the slow drift beta X^(1 - kappa) ln^j X if A = 1; drift 0 where X stays."""

    direction: int  # 1: q = X, -1: q = 1/X
    factor: sp.Expr
    kappa: sp.Expr = S.Zero
    beta: sp.Expr = S.Zero
    logarithms: int = 0  # j
    faint: Fading | None = None  # with e^(-b X^c) before the drift

    @property
    def slow(self) -> bool:
        return bool(self.beta != 0)


def coefficient(terms: Terms, exponent: sp.Expr, logarithms: int = 0) -> sp.Expr:
    """The coefficient of one term; Undetermined where it is not known."""
    c = terms.get((sp.sympify(exponent), logarithms), S.Zero)
    if any(known_to.has(REST) and a >= exponent for (a, _), known_to in terms.items()):
        raise Undetermined("a term beyond those that the expansions give is needed")
    return c


def tidied(e: sp.Expr) -> sp.Expr:
    """Closed forms put in, and cancelled where that is cheap; a number that is not exact, or long and without closed form, as one."""
    e = closed(e)
    if not e.free_symbols and (e.has(sp.Float) or (e.has(Implicit) and sp.count_ops(e) > LONG)):
        return numbered(e, 20)
    return cancelled(e)


def motion(repeat: Repeat, direction: int) -> Motion | None:
    """How X moves; None where it does not go to infinity."""
    (first, logarithms), factor = next(iter(repeat.q.items()), ((-S.Infinity, 0), S.Zero))
    if first != direction or logarithms:
        if first > direction and direction > 0:
            it = "q" if _never_falls(repeat.q) else "where q grows it"
            raise Undetermined(f"q' grows like q^{first}: {it} leaves every number behind within a few repeats")
        if first == direction > 0:
            after = "times the logarithm of q" if logarithms == 1 else f"times ln^{logarithms} q"
            it = "ln q" if _never_falls(repeat.q) else "where q grows ln q"
            raise Undetermined(f"q' grows like q {after}: {it} grows like {logarithms} l ln l, faster than every multiple of l")
        if first < direction < 0:
            raise Undetermined("q' vanishes faster than q: where q is small it is gone within a few repeats")
        return None
    grows = 0 if is_one(factor) else sign((factor - 1) * direction)
    if grows and _is_one_where_merged(repeat, factor):
        return Motion(direction, factor)  # what merged inputs do decides
    if grows is None and factor.free_symbols == {GAP} and (own := gap_fixed(coefficient(repeat.gap, 0))).limit is not None:
        grows = sign((at_gap(factor, own.limit) - 1) * direction)  # c comes to its limit, on the way to which q has a finite share
        if grows == 0 and own.limit == 0:
            _check_sum(factor, own.theta)
    if grows is None and len(repeat.q) > 1:
        raise Undetermined(Reason("whether ", tidied(factor), " is above 1 decides whether q is bounded", bind=_names(factor)), factor - 1)
    if grows != 0:
        return Motion(direction, factor) if grows is None or grows > 0 else None
    rest = list(repeat.q.items())[1:]
    if not rest:
        return Motion(direction, S.One)
    (a, j), c = rest[0]
    if c.has(REST):
        raise Beyond("the slow drift of q is beyond the terms that the expansions give")
    ahead = sign(at_gap(c, None) * direction)
    if ahead is None:
        raise Undetermined(Reason("the sign of ", tidied(c), " decides where q goes", bind=_names(c)), c)
    return Motion(direction, S.One, direction - a, direction * c, j) if ahead > 0 else None


def _is_one_where_merged(repeat: Repeat, factor: sp.Expr) -> bool:
    """whether inputs become one exponentially, and q is then multiplied by 1"""
    if factor.free_symbols != {GAP} or not is_one(at_gap(factor, S.Zero)):
        return False
    own = gap_fixed(coefficient(repeat.gap, 0))
    return own.limit == 0 and own.theta == 1


def _check_sum(factor: sp.Expr, theta: sp.Expr) -> None:
    """refuse a factor 1 + O(e^mu) of q that adds up over repeats: with e' = e - h e^theta, theta > 1, e ~ l^(-1/(theta - 1))"""
    (mu, _), c = next(iter(small(factor - 1).items()), ((S.Infinity, 0), S.Zero))
    if theta > 1 and (c.has(REST) or mu <= theta - 1):
        raise Undetermined(f"q is multiplied by 1 + O((1 - c)^{mu}), which adds up on the way of c to 1: where q goes is not told")


def _never_falls(q: Terms) -> bool:
    """whether q' is q and what is not below 0, as of a residual stream"""
    rest = {key: c - 1 if key == (S.One, 0) else c for key, c in q.items()}
    return (S.One, 0) in q and all((c == 0 or sign(c) == 1) and not j and not c.has(REST) for (_, j), c in rest.items())


def _names(e: sp.Expr) -> tuple[str, ...]:
    return tuple(sorted(s.name for s in e.free_symbols - {GAP}))


def at_gap(e: sp.Expr, gap: sp.Expr | None) -> sp.Expr:
    """An expression in GAP at its value: in the limit where that is 0, in between (at 1/2, for its sign) where it is not known."""
    if GAP not in e.free_symbols:
        return e
    if gap is None:
        return e.xreplace({GAP: sp.S.Half})
    if gap != 0:
        if e.free_symbols == {GAP} and not gap.free_symbols and parts_of(e, Exchangeable):  # long, and never closed
            return valued(put_in(e, {GAP: sp.Rational(str(sp.N(gap, 25)))}), 20)
        return put_in(e, {GAP: gap})
    there = rewritten(e.xreplace({GAP: S.Zero}), _on_diagonal, _single)
    if not there.has(sp.oo, sp.zoo, sp.nan, sp.DiracDelta):
        return there
    (a, _), c = next(iter(small(e).items()), ((S.One, 0), S.Zero))
    if a < 0 or c.has(REST):
        raise Undetermined("the limit c -> 1 is singular")
    return c if a == 0 else S.Zero


def _on_diagonal(e: sp.Expr) -> bool:
    return isinstance(e, PairExpectation) and e.args[1] == e.args[2] == e.args[3] and e.separated() is not None


def _single(e: sp.Expr) -> sp.Expr:
    f, g = e.separated()
    return Expectation(f * g, e.args[1])


@dataclass(frozen=True)
class Approach:
    """Where e = 1 - c goes and how: limit, and near 0 de/d ln X ~ h e^theta, or e' - e ~ h e^theta + drift e/l with the repeat l.

    carried: (b, C) of e ~ C X^-b where lower orders of the expansion carry it.
    fed: (b, C, i) of e ~ C ln^-b X where a lower power ln^i X of the logarithm does.
    beside: k of the ln^k X beside the power of X, where theta is 1 and X has a logarithm.
    """

    limit: sp.Expr | None  # None: anywhere, as it starts
    theta: sp.Expr = S.One
    h: sp.Expr = S.Zero
    by_repeats: bool = False
    drift: sp.Expr = S.Zero
    carried: tuple[sp.Expr, sp.Expr] | None = None
    fed: tuple[sp.Expr, sp.Expr, int] | None = None
    beside: sp.Expr = S.Zero


def gap_slow(drift: sp.Expr) -> Approach:
    """The attractor of de/d ln X = drift(e)."""
    return attractor(drift, S.Zero)


def gap_fixed(image: sp.Expr) -> Approach:
    """The attractor of e <- image(e)."""
    return replace(attractor(image - GAP, S.One), by_repeats=True)


def attractor(drift: sp.Expr | None, neutral: sp.Expr, near: Terms | None = None) -> Approach:
    """Where e goes: anywhere if there is no drift; `near` is drift(e) + neutral e as e -> 0, if that is known without: at that slope
    e = 0 neither attracts nor repels at first order.

    Raises Together where e does not go to 0 and has no drift of its own.
    """
    if drift is not None and vanishes(drift):
        return Approach(None)
    terms = iter((small(drift + neutral * GAP) if near is None else near).items())

    def following() -> tuple[sp.Expr, sp.Expr]:
        (exponent, j), c = next(terms, ((S.One, 0), S.Zero))
        if c.has(REST):
            raise Undetermined("the behaviour near c = 1 is beyond the terms that the expansions give")
        if j and (exponent != 1 or sign(c) != 1):  # e ln(1/e) with a factor above 0 is more than what is proportional to e
            raise Undetermined("1 - c has a logarithm near c = 1")
        return exponent, sp.oo if j else c

    theta, h = following()
    if h is S.Infinity:
        side: int | None = 1
    elif theta == 1 and not (neutral == 1 and is_one(h)):
        side = sign(h - neutral)
    elif theta > 1 and neutral == 1:
        return Approach(S.Zero, S.One, S.Zero)  # 1 - c squares itself
    else:
        if theta == 1:
            theta, h = following()
        side = sign(h)
    if side is None:
        decides = tidied(h - neutral if theta == 1 else h)
        raise Undetermined(Reason("whether c = 1 attracts depends on the sign of ", decides, bind=_names(decides)), decides)
    if side < 0:
        return Approach(S.Zero, theta, h)
    if drift is None:
        raise Together("q and c settle together at c < 1")
    rho = sp.Dummy("rho", positive=True)
    equation = put_in(closed(-drift), {GAP: 1 - rho})
    if _is_no_drift(put_in(equation, {rho: S.Zero})):
        return Approach(S.One)
    if equation.free_symbols != {rho}:
        alone = sp.factor_terms(equation).as_independent(rho, as_Add=False)[1]
        equation = alone if alone.free_symbols == {rho} else equation  # a number, where parameters are but a factor
    if not any(rho in t.free_symbols for t in parts_of(equation, Node)):
        slope = closed(equation.diff(rho))
        if rho not in slope.free_symbols:
            return Approach(1 + tidied(equation.xreplace({rho: S.Zero}) / slope))
    root = CorrelationRoot(equation, rho)
    try:
        if root.is_number:
            root.evalf(2)
    except (ArithmeticError, Unsupported) as reason:
        raise Undetermined(Reason("c = 1 repels, but where 1 - c settles is not told in doubles: ", reason)) from None
    return Approach(1 - root)


def _is_no_drift(apart: sp.Expr) -> bool:
    """whether inputs that are independent stay so"""
    apart = rewritten(apart, lambda t: isinstance(t, Gap) and t.args[1] == t.args[2], Gap.written_out)
    return vanishes(apart.doit() if apart.free_symbols else valued(apart, 25))


def is_one(factor: sp.Expr) -> bool:
    """Whether a factor is 1, a number to the digits of parameters that are doubles."""
    if vanishes(factor - 1):
        return True
    return not factor.free_symbols and bool(abs(valued(factor, 25) - 1) < TOUCHING)


def coupled(repeat: Repeat) -> bool:
    """Whether J and K feed each other."""
    _, a, b, _ = repeat.transfer
    return bool(a) and bool(b)


def eigenvalues(m: sp.Matrix) -> list[tuple[sp.Expr, sp.Expr]]:
    """(eigenvalue, share of e_1 e_1^T in its projector) of a 2 x 2 matrix, those without a share left out."""
    m = m.applyfunc(closed)
    if m[0, 1] == 0 or m[1, 0] == 0:
        return [(tidied(m[0, 0]), S.One)]
    mu, roots = sp.Dummy("mu"), list[sp.Expr]()
    if vanishes(m[0, 0] + m[0, 1] - m[1, 0] - m[1, 1]):
        roots = [m[0, 0] + m[0, 1], m[1, 1] - m[0, 1]]  # a gradient that is equal at all tokens stays so
    elif all(e.is_rational_function() for e in m) and not m.has(sp.Float, sp.Function, Node):
        with suppress(sp.PolynomialError):  # of roots and pi at once there are no factors
            _, factors = sp.factor_list(sp.expand(mu**2 - m.trace() * mu + m.det()), mu)
            roots = [-f.coeff(mu, 0) / f.coeff(mu, 1) for f, k in factors for _ in range(k) if sp.degree(f, mu) == 1]
    if len(roots) != 2:
        middle, half = m.trace() / 2, sp.sqrt(((m[0, 0] - m[1, 1]) / 2) ** 2 + m[0, 1] * m[1, 0])
        roots = [middle - half, middle + half]
    first, second = (tidied(r) for r in roots)
    if vanishes(first - second):
        return [(first, S.One)]
    found = [(a, tidied((m[0, 0] - b) / (a - b))) for a, b in ((first, second), (second, first))]
    return [(a, share) for a, share in found if not vanishes(share)]


def _where_c_goes(c: sp.Expr, gap: sp.Expr | None) -> sp.Expr:
    if GAP in c.free_symbols and gap is None:
        raise Undetermined("J depends on 1 - c, which stays where it starts")
    return at_gap(c, gap)


def neutral_mode(repeat: Repeat, gap: sp.Expr | None, t: sp.Matrix) -> tuple[sp.Expr, sp.Expr, int, sp.Expr] | None:
    """(share, eta, k, m): of the eigenvalues of a transfer T = t + M X^-eta ln^k X + ... one is 1 + m X^-eta ln^k X + ..., and the other is
    smaller in the end; None where there is no such."""
    modes = eigenvalues(t)
    share = next((share for mu, share in modes if is_one(mu)), None)
    if share is None or not coupled(repeat) or any(sign(1 - mu) != 1 for mu, _ in modes if not is_one(mu)):
        return None
    entries = [{key: c for key, c in terms.items() if key != (S.Zero, 0)} for terms in repeat.transfer]
    eta, k = max((next(iter(terms)) for terms in entries if terms), default=(-S.Infinity, 0))
    values = [_where_c_goes(coefficient(terms, eta, k), gap) for terms in entries]
    left, right = sp.Matrix([[t[1, 0], 1 - t[0, 0]]]), sp.Matrix([t[0, 1], 1 - t[0, 0]])
    moved, size = (left * sp.Matrix(2, 2, values) * right)[0], (left * right)[0]
    return share, -eta, k, tidied(moved / size)


def slow_exponents(repeat: Repeat, gap: sp.Expr | None) -> tuple[sp.Expr, int, sp.Matrix]:
    """(eta, k, M): T = 1 + M X^-eta ln^k X + ...; eta = oo where T is 1 to the order of the expansions."""
    both = coupled(repeat)
    entries = [dict(t) for t in repeat.transfer]
    for i in (0, 3):
        one = entries[i].pop((S.Zero, 0), S.Zero)
        if (i == 0 or both) and not is_one(one):
            raise ValueError("the transfer does not go to 1")
    used = entries if both else entries[:1]
    top = max((next(iter(t)) for t in used if t), default=None)
    if top is None:
        return S.Infinity, 0, sp.zeros(2, 2)
    if top[0] >= 0:
        raise ValueError("the transfer does not go to 1")
    values = [_where_c_goes(coefficient(t, *top), gap) if both or i == 0 else S.Zero for i, t in enumerate(entries)]
    return -top[0], top[1], sp.Matrix(2, 2, values)
