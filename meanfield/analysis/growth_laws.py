r"""`mf.growth`: how q, 1 - c and the APJN of a network behave over many repeats, derived from its recursion.

Nothing is looked up: one repeat is expanded where q goes (far out, near 0, or about a fixed point), and what the expansions say decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sympy as sp

from meanfield import arguments, faces
from meanfield.analysis.growth_derivation import joint_limit, laws, letters
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.implicit import Implicit
from meanfield.analysis.transition import transition_depth
from meanfield.blocks.algebra import Block, checked_block
from meanfield.recurrence import Recursion, Stage, recursion
from meanfield.symbols import known

if TYPE_CHECKING:
    import matplotlib.axes

    from meanfield.analysis.growth_check import Check

__all__ = ["GrowthLaw", "growth"]


@dataclass(frozen=True, repr=False)
class GrowthLaw:
    """The growth of q, of gap = 1 - c and of apjn = J^{l, 0} with the number l of repeats."""

    block: Block
    parameters: dict[str, sp.Expr]
    q: Growth
    gap: Growth
    apjn: Growth

    def __repr__(self) -> str:
        return f"GrowthLaw(\n  {self.q!r},\n  {self.gap!r},\n  {self.apjn!r})"

    def latex(self) -> str:
        """The three laws as LaTeX."""
        return faces.latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()

    def check(self, depth: int = 10**6, q: float = 1.0, gap: float = 0.5, **parameters: Any) -> Check:
        """Run the recursion and fit: see `meanfield.analysis.growth_check.check`."""
        from meanfield.analysis.growth_check import check

        return check(self, depth, q, gap, **parameters)

    def transition_depth(self, q: float, **parameters: Any) -> float:
        r"""l_* = \int_q^{1/alpha^2} dq/(q' - q): where a stream from q outgrows the linear part of its norm phi(alpha x).

        >>> import meanfield as mf
        >>> law = mf.growth(mf.Residual(mf.Derf() >> mf.Linear()))
        >>> round(law.transition_depth(1.0, alpha=0.05, sigma_w=1, sigma_b=0), 1)
        2457.1
        """
        rec = recursion(self.block)
        values = self.parameters | _bound(rec, parameters)
        missing = sorted({s.name for s in rec.parameters} - values.keys())
        if missing:
            raise ValueError(f"missing parameters: {', '.join(missing)}")
        stages = tuple(Stage(s.block, _put(s, {sym: values[sym.name] for sym in rec.parameters})) for s in rec.stages)
        return transition_depth(stages, float(arguments.variance_array(q, "q")))

    def plot(self, ax: matplotlib.axes.Axes | None = None, depth: int = 10**5, **parameters: Any) -> matplotlib.axes.Axes:
        """ln J over l with the predicted asymptote (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self.check(depth, **parameters), ax=ax)
        return axes


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
    GrowthLaw with .q, .gap and .apjn, each a Growth; where there is no answer its kind is "undetermined" and `reason` says why.

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
    stages = tuple(Stage(s.block, _put(s, {sym: values[sym.name] for sym in rec.parameters if sym.name in values})) for s in rec.stages)
    moving = set().union(*(d for s in stages for d in (letters(s),))) & {known("L"), known("l")}
    if known("l") in moving:
        raise ValueError("the laws of this network change with the index l of the repeat: growth laws are of a step that stays the same")
    if known("L") in moving:
        return GrowthLaw(net, values, *joint_limit(stages))
    return GrowthLaw(net, values, *laws(stages))


def _bound(rec: Recursion, parameters: dict[str, Any]) -> dict[str, sp.Expr]:
    names = {s.name for s in rec.parameters}
    unknown = sorted(parameters.keys() - names)
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(unknown)}. This network has the parameters: {', '.join(sorted(names)) or 'none'}")
    return {name: arguments.scalar(value, name) for name, value in parameters.items()}


def _put(stage: Stage, values: dict[sp.Expr, sp.Expr]) -> Any:
    law = stage.law
    if not values:
        return law

    def at(e: sp.Expr | None) -> sp.Expr | None:
        return None if e is None else e.xreplace(values)

    o = law.output
    output = replace(o, q=at(o.q), p=at(o.p), delta=at(o.delta), mean=at(o.mean))
    definitions = tuple(replace(d, value=at(d.value), kernel=at(d.kernel), shown=at(d.shown)) for d in law.definitions)
    return type(law)(output, law.transfer.xreplace(values), at(law.chi), definitions)


@faces.latex.register(GrowthLaw)
def _law_latex(law: GrowthLaw) -> str:
    lines = [
        faces.latex(g).replace(r" \sim ", r" &\sim ", 1).replace(r" \to ", r" &\to ", 1).replace(r" \simeq ", r" &\simeq ", 1)
        for g in (law.q, law.gap, law.apjn)
    ]
    lines = [line if "&" in line else line.replace(r" \quad ", r" &\quad ", 1) for line in lines]
    text = "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
    roots = sorted(set().union(*(r for r in map(_roots, (law.q, law.gap, law.apjn)))), key=str)
    if roots:
        text += (
            "\nwhere\n\\begin{align*}\n"
            + " \\\\\n".join(rf"0 &= {faces.latex(r.equation.xreplace({r.variable: sp.Symbol(r.name + '_*')}))}" for r in roots)
            + "\n\\end{align*}"
        )
    return text


def _roots(law: Growth) -> set[Implicit]:
    return set() if law.asymptote is None else law.asymptote.atoms(Implicit)
