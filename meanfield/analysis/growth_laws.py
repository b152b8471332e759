r"""`mf.growth`: how q, 1 - c and the APJN of a network behave over many repeats, derived from its recursion.

Nothing is looked up: one repeat is expanded where q goes (far out, near 0, or about a fixed point), and what the expansions say decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from meanfield import arguments, faces
from meanfield.analysis.growth_cases import Case, cases
from meanfield.analysis.growth_derivation import laws
from meanfield.analysis.growth_joint import joint_laws
from meanfield.analysis.growth_modes import unknown
from meanfield.analysis.growth_place import letters
from meanfield.analysis.growth_rates import Together, Undetermined
from meanfield.analysis.growth_records import Growth, told
from meanfield.analysis.growth_settled import joint_limit
from meanfield.analysis.growth_starts import from_starts
from meanfield.analysis.maps import map_of
from meanfield.analysis.stepping import Steps
from meanfield.analysis.transition import transition_depth
from meanfield.blocks.algebra import Block, checked_block
from meanfield.blocks.letters import heeded
from meanfield.recurrence import Recursion, Stage, recursion
from meanfield.symbols import known

if TYPE_CHECKING:
    import matplotlib.axes

    from meanfield.analysis.growth_check import Check

__all__ = ["Cases", "GrowthLaw", "growth"]


@dataclass(frozen=True, repr=False)
class GrowthLaw(faces.Labelled):
    """The growth of q, of gap = 1 - c and of apjn = J^{l, 0} with the number l of repeats, for parameters that are positive where they are
    scales of weights, biases and slopes: what is 0 is bound.

    Attributes
    ----------
    block : Block
        One repeat.
    parameters : dict of expressions
        What was bound, by name; the other parameters are symbols in the laws.
    q, gap, apjn : Growth
        What each of the three does as l -> oo.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0)
    GrowthLaw(
      q: bounded (q stays where it starts),
      1 - c: power, exponent=-2, coefficient=9*pi**2/2,
      J: bounded, terms=((1, 0),))
    """

    block: Block
    parameters: dict[str, sp.Expr]
    q: Growth
    gap: Growth
    apjn: Growth

    def __repr__(self) -> str:
        branches = "; ".join(str(case.condition) for case in self._cases)
        lines, definitions = told((self.q, self.gap, self.apjn))
        lines += [f"cases: {branches}"] if branches else []
        lines += ["where " + ",\n    ".join(definitions)] if definitions else []
        return "GrowthLaw(\n  " + ",\n  ".join(lines) + ")"

    @cached_property
    def _cases(self) -> tuple[Case, ...]:
        return cases(next((g.decides for g in (self.q, self.gap, self.apjn) if g.decides is not None), None))

    @cached_property
    def cases(self) -> Cases:
        """Where the value of one parameter decides: a condition and the law under it, for each side of that value and at it.

        >>> import meanfield as mf
        >>> for condition, law in mf.growth(mf.mlp(mf.relu)).cases:
        ...     print(condition, law.q.kind, law.apjn)
        sigma_w**2 < 2 bounded J: exponential, rate=log(sigma_w**2/2), terms=((1, log(sigma_w**2/2)),)
        Eq(sigma_w**2, 2) power J: bounded, terms=((1, 0),)
        sigma_w**2 > 2 exponential J: exponential, rate=log(sigma_w**2/2), terms=((1, log(sigma_w**2/2)),)
        """

        def under(case: Case) -> GrowthLaw:
            bound = self.parameters if case.back else {**self.parameters, case.symbol.name: case.value}
            there = growth(self.block, **{**self.parameters, case.symbol.name: case.value})
            pairs = ((self.q, there.q), (self.gap, there.gap), (self.apjn, there.apjn))
            own = (here if case.back and here.kind != "undetermined" else case.restored(g).shortest for here, g in pairs)
            return GrowthLaw(self.block, bound, *own)

        return Cases((case.condition, under(case)) for case in self._cases)

    def latex(self) -> str:
        """The three laws as LaTeX."""
        return faces.latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()

    def check(self, depth: int = 10**6, q: float = 1.0, gap: float = 0.5, **parameters: Any) -> Check:
        """Run the recursion over `depth` repeats and fit: see `meanfield.analysis.growth_check.check`.

        Of cases, the one that the parameters are in.

        Raises
        ------
        TypeError, ValueError
            depth is no whole number of at least 1000, q no number from 1e-12 to 1e12, gap none above 0 and at most 2, a parameter is
            unknown or no number that its symbol may be: laws in symbols hold for positive ones, bind a 0 by `mf.growth`.
        """
        from meanfield.analysis.growth_check import check, checked

        depth, q, gap = checked(self, depth, q, gap, parameters)
        given = {s: sp.nsimplify(parameters[s.name]) for c in self._cases for s in c.condition.free_symbols if s.name in parameters}
        for condition, law in self.cases if given else ():
            if condition.xreplace(given) == sp.true:
                parameters = {name: v for name, v in parameters.items() if name not in law.parameters}
                return law.check(depth, q, gap, **parameters)
        if parameters and any(g.decides is not None for g in (self.q, self.gap, self.apjn)):  # these numbers may decide
            return growth(self.block, **self.parameters, **parameters).check(depth, q, gap)
        return check(self, depth, q, gap, **parameters)

    def transition_depth(self, q: float, gap: float = 0.5, **parameters: Any) -> float:
        r"""l_* = \int_q^{1/alpha^2} dq/(q' - q): where a stream from q outgrows the linear part of its norm phi(alpha x).

        Where q' depends on a second token, the integral is along the path of c from 1 - c = gap.

        >>> import meanfield as mf
        >>> law = mf.growth(mf.Residual(mf.Derf() >> mf.Linear()))
        >>> round(law.transition_depth(1.0, alpha=0.05, sigma_w=1, sigma_b=0), 1)
        2457.1
        """
        rec, start, apart = recursion(self.block), arguments.number(q, "q"), arguments.number(gap, "gap")
        arguments.variance_array(start, "q")
        if not 0 <= apart <= 2:
            raise ValueError(f"gap = {arguments.shown(apart)}: must be between 0 and 2")
        values = self.parameters | _bound(rec, parameters)
        missing = sorted({s.name for s in rec.parameters} - values.keys())
        if missing:
            raise ValueError(f"missing parameters: {', '.join(missing)}")
        stages = tuple(Stage(s.block, s.law.put({sym: values[sym.name] for sym in rec.parameters})) for s in rec.unrolled)
        given = {s.name: float(values[s.name]) for s in rec.parameters}
        steps = Steps(map_of(self.block).signed(given), given)
        return transition_depth(stages, steps, start, apart)

    def plot(self, ax: matplotlib.axes.Axes | None = None, depth: int = 10**5, **parameters: Any) -> matplotlib.axes.Axes:
        """ln J over l with the predicted asymptote (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self.check(depth, **parameters), ax=ax)
        return axes


class Cases(tuple[tuple[sp.Rel, GrowthLaw], ...]):
    """Conditions, each with the law under it: a tuple of pairs."""

    __slots__ = ()

    def latex(self) -> str:
        """A text: each condition with its law, one below the other."""
        return faces.latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()


@np.errstate(under="ignore")
def growth(net: Block, **parameters: Any) -> GrowthLaw:
    r"""The growth laws of a network: q, 1 - c and J after l -> oo repeats, in closed form in its symbols.

    Parameters
    ----------
    net : Block
        One repeat. Its laws may not change with depth, but for scales that vanish with L, whose joint limit is bounded.
    **parameters : number or expression
        Values for some of `mf.recursion(net).parameters`, where a sign has to be known.

    Returns
    -------
    GrowthLaw with .q, .gap and .apjn, each a Growth; where there is no answer its kind is "undetermined" and `reason` says why. Where
    that is the value of one parameter, .cases has the law on both sides of it. The laws are those from q = 1; where all parameters are
    numbers and q goes elsewhere from other starts, the reason of q says from which and where to. A gated attention unit, behind or before a
    norm, takes numbers for all its parameters (up to a minute).

    Raises
    ------
    TypeError, ValueError
        net is no block, a parameter is unknown, or the laws change with the index l.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> law = mf.growth(mf.Residual(mf.Derf() >> mf.Linear()))
    >>> law.q.kind, law.q.rate
    ('power', sigma_b**2 + sigma_w**2)
    >>> law.apjn.kind, sp.factor(law.apjn.rate)
    ('stretched', 16*alpha**2*sigma_w**4/(pi**2*(sigma_b**2 + sigma_w**2)))
    >>> law = mf.growth(mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    >>> law.gap
    1 - c: power, exponent=-2*sigma_O**2*sigma_V**2/(sigma_1**2*sigma_2**2 + 2*sigma_O**2*sigma_V**2)
    >>> law.apjn.kind, law.apjn.exponent
    ('power', 1)
    """
    rec = recursion(checked_block(net, "net"))
    values = _bound(rec, parameters)
    stages = tuple(Stage(s.block, s.law.put({sym: values[sym.name] for sym in rec.parameters if sym.name in values})) for s in rec.unrolled)
    moving = set().union(*(d for s in stages for d in (letters(s),))) & {known("L"), known("l")}
    if known("l") in moving:
        raise ValueError("the laws of this network change with the index l of the repeat: growth laws are of a step that stays the same")
    if known("L") in moving:
        return GrowthLaw(net, values, *joint_limit(stages))
    try:
        q, gap, apjn = (g.shortest for g in laws(stages))
        return GrowthLaw(net, values, from_starts(q, net, values), gap, apjn)
    except Together:
        return GrowthLaw(net, values, *_joint(net, values))


def _joint(net: Block, values: dict[str, sp.Expr]) -> tuple[Growth, Growth, Growth]:
    try:
        return joint_laws(net, values)
    except Undetermined as reason:
        return unknown(reason)


def _bound(rec: Recursion, parameters: dict[str, Any]) -> dict[str, sp.Expr]:
    names = {s.name for s in rec.parameters}
    parameters = heeded(rec.block, rec.parameters, parameters)
    unknown = sorted(parameters.keys() - names)
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(unknown)}. This network has the parameters: {', '.join(sorted(names)) or 'none'}")
    values = {name: arguments.scalar(value, name) for name, value in parameters.items()}
    for s in rec.parameters:
        arguments.check_bound(values.get(s.name, s), s)
    return values
