r"""Cases of a growth law: where one sign decides, a parameter is written so that the sign is plain, and all is derived again.

An expression a s^k + b with b/a < 0 changes its sign at s_0 = (-b/a)^{1/k}; the three cases are s^k = s_0^k/(1 + \epsilon), s_0^k and
s_0^k (1 + \epsilon) with \epsilon > 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import sympy as sp

from meanfield.analysis.growth_rates import tidied
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.signs import GAP, closed, sign

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
            reason = "under this condition it is not known: bind " + ", ".join(sorted({self.symbol.name, *_names(g.decides)}))
            return replace(g, decides=None, reason=reason if self.back else g.reason)

        def own(e: sp.Expr) -> sp.Expr:
            return tidied(e.xreplace(self.back)) if self.back else e

        changed = {f.name: own(v) for f in fields(g) if isinstance(v := getattr(g, f.name), sp.Expr)}
        return replace(g, **changed, terms=tuple((own(a), own(b)) for a, b in g.terms))


def _names(e: sp.Expr | None) -> set[str]:
    return set() if e is None else {s.name for s in e.free_symbols if not isinstance(s, sp.Dummy)}


def cases(decides: sp.Expr | None) -> tuple[Case, ...]:
    """The cases below, at and above the value of a parameter at which an expression changes its sign; none where no parameter has one."""
    if decides is None:
        return ()
    numerator, denominator = sp.fraction(sp.together(closed(decides)))
    if sign(denominator) is None:
        return ()
    for s in sorted(decides.free_symbols - {GAP}, key=lambda s: s.name):
        if s.is_integer or not s.is_positive or not numerator.is_polynomial(s):
            continue
        terms = sp.Poly(numerator, s).as_dict()
        k = max(power for (power,) in terms)
        if set(terms) != {(0,), (k,)} or sign(terms[k,]) != -(sign(terms[0,]) or 0):
            continue
        edge, excess = tidied(-terms[0,] / terms[k,]), sp.Dummy("excess", positive=True)
        root = sp.Rational(1, k)
        return (
            Case(sp.Lt(s**k, edge), s, (edge / (1 + excess)) ** root, {excess: edge / s**k - 1}),
            Case(sp.Eq(s**k, edge), s, edge**root, {}),
            Case(sp.Gt(s**k, edge), s, (edge * (1 + excess)) ** root, {excess: s**k / edge - 1}),
        )
    return ()
