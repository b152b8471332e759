r"""Cases of a growth law: where one sign decides, a parameter is put on each side of the value that decides, and all is derived again.

An expression a s^k + b with b/a < 0 changes its sign at s_0 = (-b/a)^{1/k}; the three cases are s < s_0, s = s_0 and s > s_0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import sympy as sp

from meanfield.analysis.growth_rates import tidied
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.signs import GAP, Beside, closed, sign
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.shared_parts import parts_of, put_in

__all__ = ["Case", "cases"]


@dataclass(frozen=True)
class Case:
    """Parameter and value to derive the law with, the condition it stands for, and what brings the parameter back."""

    condition: sp.Rel
    symbol: sp.Symbol
    value: sp.Expr
    back: dict[sp.Expr, sp.Expr]

    def restored(self, g: Growth) -> Growth:
        """What was derived with the value, in the parameter itself."""
        if g.kind == "undetermined":
            reason = Reason("under this condition it is not known", bind=tuple(sorted({self.symbol.name, *_names(g.decides)})))
            return replace(g, decides=None, reason=reason if self.back else g.reason)

        def own(e: sp.Expr) -> sp.Expr:
            return e.xreplace(self.back)

        changed = {f.name: own(v) for f in fields(g) if isinstance(v := getattr(g, f.name), sp.Expr)}
        return replace(g, **changed, terms=tuple((own(a), own(b)) for a, b in g.terms))


def _names(e: sp.Expr | None) -> set[str]:
    return set() if e is None else {s.name for s in e.free_symbols if not isinstance(s, sp.Dummy)}


def cases(decides: sp.Expr | None) -> tuple[Case, ...]:
    """The cases below, at and above the value of a parameter at which an expression changes its sign; none where no parameter has one."""
    if decides is None:
        return ()
    decides = closed(decides)
    letters = {t: sp.Dummy() for t in parts_of(decides, Node)}  # integrands stay as they are
    meant = {letter: t for t, letter in letters.items()}
    numerator, denominator = sp.fraction(sp.together(put_in(decides, letters)))
    if sign(put_in(denominator, meant)) is None:
        return ()
    for s in sorted(decides.free_symbols - {GAP}, key=lambda s: s.name):
        if s.is_integer or not s.is_positive or not numerator.is_polynomial(s) or any(s in t.free_symbols for t in letters):
            continue
        terms = {power: put_in(c, meant) for power, c in sp.Poly(numerator, s).as_dict().items()}
        k = max(power for (power,) in terms)
        if set(terms) != {(0,), (k,)} or sign(terms[k,]) != -(sign(terms[0,]) or 0):
            continue
        edge = tidied(-terms[0,] / terms[k,])

        def beside(side: int, s: sp.Symbol = s, k: int = k, edge: sp.Expr = edge) -> sp.Symbol:
            letter = Beside(f"{s.name} beside", positive=True)
            letter.edge, letter.power, letter.side = edge, k, side
            return letter

        below, above = beside(-1), beside(1)
        return (
            Case(sp.Lt(s**k, edge), s, below, {below: s}),
            Case(sp.Eq(s**k, edge), s, edge ** sp.Rational(1, k), {}),
            Case(sp.Gt(s**k, edge), s, above, {above: s}),
        )
    return ()
