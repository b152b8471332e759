r"""One repeat of a network in a limit: series of q', of e' = 1 - c' and of the transfer, at a fixed e = 1 - c or as e -> 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp
from sympy import S

from meanfield.analysis.derivatives import named, ordered
from meanfield.analysis.limits import REST, Limit, NoExpansion
from meanfield.analysis.signs import GAP, vanishes
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.shared_parts import parts_of
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["Fading", "Repeat", "Terms", "expanded", "small", "stepped"]

#: of coefficients where expressions are long
DIGITS = 40

x, p, q, delta = (known(name) for name in ("x", "p", "q", "delta"))

Terms = dict[tuple[sp.Expr, int], sp.Expr]


@dataclass(frozen=True)
class Fading:
    """What stands before e^(-rate x^power) in q', e' and the transfer of J."""

    rate: sp.Expr
    power: sp.Expr
    q: Terms
    gap: Terms
    transfer: Terms


@dataclass(frozen=True)
class Repeat:
    """Series in x, coefficients by (exponent of x, power of log x): q' in all, e' and the entries of the transfer.

    fading: (a, c) of the exponentials e^(c x^a) that are left out beside powers, or by which 1 is divided, where c depends on e.
    faint: what is exponentially small as q goes to 0; missed: why something that may be is not among it.
    """

    q: Terms
    gap: Terms
    transfer: tuple[Terms, Terms, Terms, Terms]
    fading: tuple[tuple[sp.Expr, sp.Expr], ...] = ()
    faint: tuple[Fading, ...] = ()
    missed: str = ""


def expanded(stages: Sequence[Stage], variance: sp.Expr, gap: sp.Expr, order: int) -> Repeat:
    """The series of one repeat that starts with q = variance and delta = gap, expressions in x -> oo; L, if the repeat has it, is x.

    Where one of J and K does not feed the other, the transfer is that of J alone: K then has no say in it.
    """
    many = any(d.value.has(Exchangeable) for s in stages for d in s.law.definitions)
    limit = Limit({q: variance, delta: gap, known("L"): x}, order, DIGITS if many else None)
    apart = any(all(s.law.transfer[i] == 0 for s in stages) for i in (1, 2))
    transfer = sp.eye(2)
    for stage in stages:
        law = stage.law
        view = _views(stage)
        for d in law.definitions:
            if d.kernel is None:
                limit.define(d.symbol, _without_clamp(d.value, d.shown).xreplace(view))
        used = sp.diag(law.transfer[0], 0) if apart else law.transfer
        transfer = transfer * sp.Matrix(2, 2, [limit.series(t.xreplace(view)) for t in used])
        after = tuple(limit.series(e.xreplace(view)) for e in (law.output.q, law.output.delta))
        limit.values |= {q: after[0], delta: after[1]}

    def whole(terms: Terms) -> Terms:
        return _nonzero({key: limit.whole(c) for key, c in terms.items()})

    after_q, after_gap = limit.values[q], limit.values[delta]
    t00, t01, t10, t11 = (whole(limit.terms(t)) for t in transfer)
    fading = {(a, c) for a, letters in limit.fading if GAP in (c := limit.whole(letters)).free_symbols}
    series = whole(limit.terms(after_q)), whole(limit.quotient(after_gap, after_q))
    faint = tuple(
        Fading(*key, *(whole(limit.faint_terms(e, letter)) for e in (after_q, after_gap / after_q, transfer[0, 0])))
        for key, letter in limit.faint.items()
    )
    return Repeat(*series, (t00, t01, t10, t11), tuple(fading), faint, limit.missed)


def _views(stage: Stage) -> dict[sp.Expr, sp.Expr]:
    """what is computed from q and delta rather than from p"""
    return {p: q - delta, **{d.symbol: d.kernel for d in stage.law.definitions if d.kernel is not None}}


def _without_clamp(value: sp.Expr, shown: sp.Expr | None) -> sp.Expr:
    """a gap without the bound that keeps rounding from carrying it beyond 2 q"""
    if not isinstance(value, sp.Min) or shown is None:
        return value
    twice = {sp.expand(2 * (shown + s)) for s in shown.free_symbols}
    return next(a for a in value.args if a not in twice)


def stepped(stages: Sequence[Stage], variance: sp.Expr, gap: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Matrix]:
    """q', delta' and the transfer of one repeat, written out, from q = variance and delta = gap."""
    transfer = sp.eye(2)
    for stage in stages:
        law = stage.law
        values: dict[sp.Expr, sp.Expr] = {q: variance, delta: gap}
        view = _views(stage)
        for d in law.definitions:
            if d.kernel is None:
                values[d.symbol] = _without_clamp(d.value, d.shown).xreplace(view).xreplace(values)
        transfer = transfer * law.transfer.xreplace(view).xreplace(values)
        variance, gap = law.output.q.xreplace(view).xreplace(values), law.output.delta.xreplace(view).xreplace(values)
    return variance, gap, transfer


def small(e: sp.Expr, order: int = 3) -> Terms:
    """An expression in GAP as GAP -> 0: coefficients by the exponent of GAP, and the power of log(1/GAP); one with moments of many tokens,
    which is long, in digits."""
    try:
        many = bool(parts_of(e, Exchangeable))
        limit, e = Limit({GAP: 1 / x}, order, DIGITS if many else None), named(e) if many else e
        for name in ordered((e,))[1]:
            limit.define(name, name.value)
        return _nonzero({(-a, j): limit.whole(c) for (a, j), c in limit.terms(e).items()})
    except NoExpansion:
        inner = {t for t in e.atoms(PairExpectation) if GAP in t.free_symbols}
        if len(inner) != 1 or e in inner:
            raise
        return _composed(e, inner.pop(), order)


def _composed(e: sp.Expr, node: sp.Expr, order: int) -> Terms:
    """a function of node = N (1 - h) as GAP -> 0, by its series in h, where that of h begins with a logarithm"""
    start = small(node, order)[S.Zero, 0]
    rest, h = small(1 - node / start, order), sp.Dummy("h", positive=True)
    limit, least = Limit({h: 1 / x}, order), min(a for a, _ in rest)
    total: Terms = {}
    for (a, j), c in limit.terms(e.xreplace({node: start * (1 - h)})).items():
        if j:
            raise NoExpansion(e, " has logarithms of logarithms near c = 1")
        raised: Terms = {(S.Zero, 0): S.One} if a == 0 else rest if a == -1 else {(-a * least, 0): REST}
        for (b, k), d in small(limit.whole(c), order).items():
            for (g, m), f in raised.items():
                total[b + g, k + m] = REST if (d * f).has(REST) else total.get((b + g, k + m), S.Zero) + d * f
    known_to = min((a for (a, _), c in total.items() if c.has(REST)), default=S.Infinity)
    kept = {key: total[key] for key in sorted(total, key=lambda t: (t[0], -t[1])) if key[0] < known_to}
    return _nonzero(kept) | ({(known_to, 0): REST} if known_to < S.Infinity else {})


def _nonzero(terms: Terms) -> Terms:
    """without the terms whose coefficients vanish once written out"""
    return {key: c for key, c in terms.items() if not vanishes(c)}
