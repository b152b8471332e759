"""What is said of one quantity over many repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import sympy as sp
from sympy import S

from meanfield import faces
from meanfield.analysis import signs
from meanfield.analysis.growth_shown import named
from meanfield.analysis.implicit import Implicit
from meanfield.analysis.rational_forms import beyond, shortest
from meanfield.analysis.shared_digits import numbered

__all__ = ["SHORT", "Growth", "told"]


@dataclass(frozen=True, repr=False)
class Growth:
    r"""What one quantity does as l -> oo. What does not apply is None.

    Attributes
    ----------
    quantity : "q", "1 - c" or "J"
    kind : "bounded", "power", "stretched", "exponential", "logarithmic", "quasi-polynomial" (J only: ln J ~ ln^2 l, beyond every
        power and below every stretched exponential), "infinite" (J only: E phi'^2 is), or "undetermined", these two with the reason.
    exponent, rate : power: q ~ (rate l)^exponent, which is rate l at exponent 1 alone and rate^2 l^2 at exponent 2, 1 - c and
        J ~ l^exponent; exponential: ln ~ rate l; stretched: ln ~ sign (rate l)^stretch, stretch = 1/2 for saturating norms; logarithmic:
        q and 1 - c ~ coefficient (ln l)^exponent, J ~ (ln l)^exponent.
    sign : -1 of a stretched law that decays, as that of 1 - c; else 1.
    log_exponent : of power and stretched laws, what q, 1 - c, J or ln J has beside its power of l: (ln l)^log_exponent, where branches
        grow like logarithms. With it a law is reached slowly: q, and ln J of a stretched law, up to a factor 1 + O(ln ln l/ln l).
    coefficient : the factor before the power of l or ln l in 1 - c, where it is known.
    log_coefficient, log_squared_coefficient : what ln J has beside the stretched term, times ln l and ln^2 l; all of it, if it is
        quasi-polynomial.
    feeding : of 1 - c as a power of ln l to which a power of ln q in what a repeat adds carries it: the exponent of that.
    settling : where c goes to a value below 1, |c - c*| ~ l^-settling; if that is slower than l^-stretch, ln J also has the terms
        l^(stretch - k settling) > 1, k = 1, 2, ..., with factors that depend on the start.
    correction : of q as a power and of stretched ln J, where powers without logarithms do not settle at once: they are reached up to a
        factor 1 + O(l^-correction), correction < 1.
    limit : bounded: where it goes, None if that depends on the start.
    terms : J as a sum of modes: (share of the mode, exponent or rate); up to constants that depend on the first repeats.
    crossover : the l at which the faster mode has made up for its small share: share l^exponent is l to the exponent of the other mode
        (share e^(rate l), that of the other). The share of the other is taken as 1: with it, 1 - share, the two terms as they stand
        cross earlier, by the factor (1 - share)^(1/(difference of the exponents)).
    reason : why something is not given.
    decides : undetermined: the expression whose sign decides, if one does.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> law = mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0)
    >>> law.gap
    1 - c: power, exponent=-2, coefficient=9*pi**2/2
    >>> law.gap.kind, law.gap.exponent, law.q.kind
    ('power', -2, 'bounded')
    """

    quantity: str
    kind: str
    exponent: sp.Expr | None = None
    log_exponent: sp.Expr | None = None
    rate: sp.Expr | None = None
    stretch: sp.Expr | None = None
    sign: int = 1
    coefficient: sp.Expr | None = None
    log_coefficient: sp.Expr | None = None
    log_squared_coefficient: sp.Expr | None = None
    feeding: int | None = None
    settling: sp.Expr | None = None
    correction: sp.Expr | None = None
    limit: sp.Expr | None = None
    terms: tuple[tuple[sp.Expr, sp.Expr], ...] = ()
    crossover: sp.Expr | None = None
    reason: str = ""
    decides: sp.Expr | None = None

    @property
    def shortest(self) -> Growth:
        """The same, its expressions written shortly; what decides stays as it was asked, what is beside and never short as it was found."""
        values = {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), sp.Expr) and f.name != "decides"}
        own = {name: _final(v) for name, v in values.items() if name not in _BESIDE or not beyond(v, LEFT)}
        return replace(self, **own, terms=tuple((_final(a), _final(b)) for a, b in self.terms))

    @property
    def asymptote(self) -> sp.Expr | None:
        """The quantity (for J its logarithm) as an expression in l, up to what the kind leaves open."""
        l = sp.Symbol("l", positive=True)
        logarithms = self.log_exponent or S.Zero
        if self.kind == "power":
            value = (self.rate * l) ** self.exponent if self.rate is not None else (self.coefficient or 1) * l**self.exponent
            of_log = self.exponent * sp.log(l) + logarithms * sp.log(sp.log(l))
            return of_log if self.quantity == "J" else value * sp.log(l) ** logarithms
        if self.kind == "exponential":
            return self.rate * l if self.quantity == "J" else sp.exp(self.rate * l)
        beside = (self.log_coefficient or 0) * sp.log(l) + (self.log_squared_coefficient or 0) * sp.log(l) ** 2
        if self.kind == "quasi-polynomial":
            return beside
        if self.kind == "stretched":
            value = self.sign * (self.rate * l) ** self.stretch * sp.log(l) ** logarithms + beside
            return value if self.quantity == "J" else sp.exp(value)
        if self.kind == "logarithmic":
            return self.exponent * sp.log(sp.log(l)) if self.quantity == "J" else self.coefficient * sp.log(l) ** self.exponent
        return S.Infinity if self.kind == "infinite" else self.limit

    @property
    def left_out(self) -> sp.Expr | None:
        """The power of l that the asymptote leaves out: of q relative to it; of ln J that by which it is reached or what the start leaves
        of c, if that grows or may."""
        l = sp.Symbol("l", positive=True)
        if self.quantity == "q":
            return None if self.correction is None else l**-self.correction
        if self.kind != "stretched":
            return None
        left = [] if self.settling is None else [self.stretch - self.settling]
        left += [] if self.correction is None or signs.sign(self.stretch - self.correction) == 0 else [self.stretch - self.correction]
        return sp.Add(*[l**e for e in dict.fromkeys(left) if signs.sign(e) != -1]) or None

    def __repr__(self) -> str:
        (line,), definitions = told([self])
        return "\n  ".join([line, *([f"where {definitions[0]}", *definitions[1:]] if definitions else [])])

    def latex(self) -> str:
        """One line; ln J for J, up to an additive constant."""
        return faces.latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()


#: what an answer shows, the second kind only where it is short
_SHOWN = (
    "exponent",
    "log_exponent",
    "rate",
    "coefficient",
    "log_coefficient",
    "log_squared_coefficient",
    "settling",
    "correction",
    "limit",
    "terms",
    "crossover",
)
_BESIDE = ("log_coefficient", "log_squared_coefficient", "settling", "correction", "crossover")

#: characters from which on a number is shown in digits, and from which on common parts of the laws get names; parts of what is short,
#: and of what never becomes so
LONG, NAMED, SHORT, LEFT = 60, 700, 120, 2000
#: digits of a number that an equation defines
DIGITS = 30


def told(laws: Sequence[Growth]) -> tuple[list[str], list[str]]:
    """A line for each law; and the definitions of names for what is long in them and stands there several times."""
    rows = [{name: _shown(g, name) for name in _SHOWN if getattr(g, name) not in (None, ())} for g in laws]
    flat = [e for row in rows for modes in row.values() for mode in modes for e in mode]
    definitions = list[str]()
    if sum(len(str(e)) for e in flat) > NAMED:
        flat, definitions = named(flat)
    rest = iter(flat)
    lines = []
    for g, row in zip(laws, rows, strict=True):
        written = {name: tuple(tuple(next(rest) for _ in mode) for mode in modes) for name, modes in row.items()}
        beside = ["sign=-1"] * (g.sign == -1) + [f"stretch={g.stretch}"] * (g.stretch not in (None, S.Half))
        shown = [f"{name}={sp.sstr(modes if name == 'terms' else modes[0][0], full_prec=False)}" for name, modes in written.items()]
        lines.append(f"{g.quantity}: {', '.join([g.kind, *beside, *shown])}" + (f" ({g.reason})" if g.reason else ""))
    return lines, definitions


def _shown(law: Growth, name: str) -> tuple[tuple[sp.Expr, ...], ...]:
    """modes of expressions, of one where there are none: as a number where it is one and long, or where to find it"""
    value = getattr(law, name)
    if isinstance(value, tuple):
        return tuple(tuple(map(_number, mode)) for mode in value)
    if name in _BESIDE and beyond(value, SHORT):
        return ((sp.Symbol(f"<long: .{name}>"),),)
    return ((_number(value),),)


def _final(e: sp.Expr) -> sp.Expr:
    """written shortly; a number that an equation defines by its digits, as the variance that q goes to"""
    if e.has(Implicit):
        return shortest(e) if e.free_symbols else numbered(e, DIGITS)
    e = shortest(e)
    if len(e.atoms(sp.gamma)) < 2 or beyond(e, SHORT):
        return e
    between = shortest(e.replace(lambda t: isinstance(t, sp.gamma) and t.args[0].is_Rational, _between_0_and_1))
    return between if sp.count_ops(between) < sp.count_ops(e) else e


def _between_0_and_1(value: sp.Expr) -> sp.Expr:
    """Gamma(f + n) = f (f + 1) ... (f + n - 1) Gamma(f)"""
    n = sp.floor(value.args[0])
    return sp.rf(value.args[0] - n, n) * sp.gamma(value.args[0] - n)


def _number(value: sp.Expr) -> sp.Expr:
    return sp.N(value, 15) if not value.free_symbols and len(str(value)) > LONG else value
