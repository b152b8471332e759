r"""A deep residual network written out as a sum: with which weight its input and each of its branches stand in the stream.

Cut every branch and the *trunk* is left: skips, norms, attention near the identity, and whatever weights stand in no branch. One
repeat is x_{l+1} = A_l x_l + \sum_i b_{i,l} f_{i,l} with f of unit variance, so that

    x_l = (A_0 ... A_{l-1}) x_0 + \sum_i \sum_{j<l} b_{i,j} (A_{j+1} ... A_{l-1}) f_{i,j},

and A_l, b_{i,l} follow from the variance q_l of the stream, which the recursion of the block gives (He & Hofmann 2024, sec. 4.1, where
branches have unit variance).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.blocks.algebra import Block, Parallel, Serial, checked_block
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.elementary import Activate, Dropout, Scale
from meanfield.blocks.laws import Law, Signal
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.faces import latex
from meanfield.recurrence import explicit, recursion
from meanfield.symbols import known

__all__ = ["Unrolled", "unrolled"]

q, p, L, l = (known(name) for name in ("q", "p", "L", "l"))
#: the repeat in which a branch stands
j = sp.Symbol("j", integer=True, nonnegative=True)


@dataclass(frozen=True)
class Unrolled:
    r"""The sum that a residual network is.

    Attributes
    ----------
    q : expression in l
        Variance of the stream x_l before repeat l.
    carried : expression in l
        Weight of x_0 in x_l; for l >= 1 where a norm in the trunk brings q_0 to another value in the first repeat.
    branches : tuple of expressions in j and l
        Weight, in standard deviations, of each branch of repeat j in x_l, j < l.
    shares : tuple of expressions in l
        What each branch of repeat l adds, in standard deviations of what it is added to (of skip x); infinite where that is nothing.

    Examples
    --------
    >>> import meanfield as mf
    >>> stream = mf.unrolled(mf.Residual(mf.LayerNorm() >> mf.Linear(1, 0)))
    >>> stream.q, stream.carried, stream.branches, stream.shares
    (l + 1, 1, (1,), (1/sqrt(l + 1),))
    """

    q: sp.Expr
    carried: sp.Expr
    branches: tuple[sp.Expr, ...]
    shares: tuple[sp.Expr, ...]

    @property
    def last(self) -> sp.Expr:
        """Weight of x_0 in x_L."""
        return self.carried.subs(l, L)

    @property
    def limit(self) -> sp.Expr:
        """Weight of x_0 in x_L as the number of repeats L goes to infinity."""
        return sp.limit(self.last, L, sp.oo)

    def latex(self) -> str:
        """x_l as a sum, and its variance."""
        terms = [_term(self.carried, "x_0")]
        terms += [rf"\sum_{{j<l}} {_term(w, f'f_{{{i},j}}')}" for i, w in enumerate(self.branches, 1)]
        return "x_l = " + " + ".join(terms) + rf",\qquad q_l = {latex(self.q)}"

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"


def _term(weight: sp.Expr, letter: str) -> str:
    return letter if weight == 1 else rf"{latex(weight)}\, {letter}"


def unrolled(net: Block, q: Any = 1) -> Unrolled:
    r"""A residual network as the sum of its input and its branches.

    Parameters
    ----------
    net : Block
        One repeat, with weights that are the same in each: they may depend on L but not on l.
    q : number or expression > 0
        Variance of the input x_0.

    Raises
    ------
    TypeError
        `net` is no block.
    ValueError
        The trunk holds an activation; the weights depend on l; the variance after a repeat depends on p or is not of the form a q + b.

    Examples
    --------
    Pre-norm with unit branches, the MLP weighted by beta: the stream grows, and deep branches count for less.

    >>> import meanfield as mf, sympy as sp
    >>> beta, f = sp.Symbol("beta", positive=True), mf.LayerNorm() >> mf.Linear(1, 0)
    >>> pre = mf.unrolled(mf.Residual(f) >> mf.Residual(f, scale=beta))
    >>> pre.q, pre.shares[0]
    (l*(beta**2 + 1) + 1, 1/sqrt(l*(beta**2 + 1) + 1))

    Skipless, attention the identity as it is at initialisation: the input is forgotten, unless beta = O(1/sqrt L).

    >>> net = mf.sas(norm=mf.LayerNorm(), mlp=mf.Linear(1, 0), sigma_Q=0, scale=beta)
    >>> mf.unrolled(net, q=1 + beta**2).carried
    (beta**2 + 1)**(-l/2)
    >>> c = sp.Symbol("c", positive=True)
    >>> mf.unrolled(net, q=1 + beta**2).last.subs(beta, c / sp.sqrt(mf.L)).limit(mf.L, sp.oo)
    exp(-c**2/2)
    """
    start = arguments.expression(q, "q")
    arguments.check_variance(start, "q")
    rec = recursion(checked_block(net, "net"))
    step = rec.q
    if step.has(p):
        raise ValueError(f"the variance after {net} depends on p: put n = 1 or a Linear in the place of its attention")
    if step.has(l):
        raise ValueError(f"{net} depends on l: only weights that are the same in each repeat are unrolled")
    at = _solved(step, start)
    path = _walk(net, Signal(known("q"), p, known("q") - p))
    if path.gain.has(p):
        raise ValueError(f"the trunk of {net} depends on p: a BatchNorm belongs into a branch")
    before = {known("q"): at}
    carried = _product(path.gain, step, start, S.Zero, l)
    branches = tuple(
        _tidy(b.weight.xreplace({known("q"): at.subs(l, j)}) * _product(path.gain, step, start, j + 1, l)) for b in path.branches
    )
    shares = tuple(_share(b).xreplace(before) for b in path.branches)
    return Unrolled(at, carried, branches, shares)


def _share(branch: _Branch) -> sp.Expr:
    return sp.oo if branch.stream == 0 else _tidy(branch.weight / branch.rest / sp.sqrt(branch.stream))


def _solved(step: sp.Expr, start: sp.Expr) -> sp.Expr:
    """q_l from q_{l+1} = a q_l + b"""
    v = known("q")
    rate = sp.factor(step.diff(v))
    rest = sp.factor(step - rate * v)
    if rate.has(v):
        raise ValueError(f"the variance after a repeat is {step}, not of the form a q + b: it has no closed form over depth")
    if rate == 1:
        return start + l * rest
    fixed = sp.factor(rest / (1 - rate))
    if sp.simplify(fixed - start) == 0:
        return fixed
    if rate == 0:
        return sp.Piecewise((start, sp.Eq(l, 0)), (rest, True))
    return fixed + (start - fixed) * rate**l


def _product(gain: sp.Expr, step: sp.Expr, start: sp.Expr, first: sp.Expr, stop: sp.Expr) -> sp.Expr:
    """the gain at q_first ... q_{stop - 1}, multiplied"""
    v = known("q")
    if not gain.has(v):
        return _tidy(gain ** (stop - first))
    at = _solved(step, start)
    if not at.has(l):
        return _tidy(gain.xreplace({v: at}) ** (stop - first))
    if isinstance(at, sp.Piecewise):  # what a norm made of the first repeat stays
        later = gain.xreplace({v: step})
        return _tidy(later ** (stop - first) if first != 0 else gain.xreplace({v: start}) * later ** (stop - 1))
    k = sp.Symbol("k", integer=True, nonnegative=True)
    return sp.Product(gain.xreplace({v: at.subs(l, k)}), (k, first, stop - 1))


def _tidy(e: sp.Expr) -> sp.Expr:
    return sp.powdenest(sp.powsimp(e), force=True)


# -- the trunk ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Branch:
    """what a branch adds in the end, the trunk's gain behind it, and the variance of what it is added to"""

    weight: sp.Expr
    rest: sp.Expr
    stream: sp.Expr


@dataclass(frozen=True)
class _Path:
    """the signal after a block, the gain of its trunk and its branches"""

    output: Signal
    gain: sp.Expr
    branches: tuple[_Branch, ...] = ()

    def then(self, other: _Path) -> _Path:
        behind = tuple(_Branch(b.weight * other.gain, b.rest * other.gain, b.stream) for b in self.branches)
        return _Path(other.output, self.gain * other.gain, behind + other.branches)


def _output(law: Law) -> Signal:
    """the signal with all names put in"""
    values: dict[sp.Expr, sp.Expr] = {}
    for d in law.definitions:
        values[d.symbol] = explicit(d.value if d.shown is None else d.shown, values)
    o = law.output
    same, other = explicit(o.q, values), explicit(o.p, values)
    return replace(o, q=same, p=other, delta=same - other, mean=explicit(o.mean, values))


@singledispatch
def _walk(block: Block, signal: Signal) -> _Path:
    """A norm, or weights in the trunk: the gain of its own token."""
    law = block.law(signal)
    return _Path(_output(law), sp.sqrt(law.chi))


@_walk.register
def _(block: Activate, signal: Signal) -> _Path:
    raise ValueError(f"{block.phi!r} stands in the trunk, where no weight of the input is left: only branches may hold activations")


@_walk.register
def _(block: Dropout, signal: Signal) -> _Path:
    """what is kept is scaled so that its mean is x"""
    return _Path(_output(block.law(signal)), S.One)


@_walk.register
def _(block: Scale, signal: Signal) -> _Path:
    return _Path(_output(block.law(signal)), block.factor)


@_walk.register(TokenMixing)
@_walk.register(Attention)
def _(block: TokenMixing | Attention, signal: Signal) -> _Path:
    """E M_aa of its own token"""
    values = block.sigma_O * block.sigma_V if isinstance(block, Attention) else S.One
    return _Path(_output(block.law(signal)), values * (block.alpha + (block.beta - block.gamma) / block.n))


@_walk.register
def _(block: Serial, signal: Signal) -> _Path:
    path = _Path(signal, S.One)
    for part in block.blocks:
        path = path.then(_walk(part, path.output))
    return path


@_walk.register
def _(block: Repeat, signal: Signal) -> _Path:
    return _walk(Serial((block.block,) * block.times), signal)


@_walk.register
def _(block: Residual, signal: Signal) -> _Path:
    variance = _output(block.branch.law(replace(signal, mixed=False))).q
    added = _Branch(block.scale * sp.sqrt(variance), S.One, block.skip**2 * signal.q)
    return _Path(_output(block.law(signal)), block.skip, (added,))


@_walk.register
def _(block: Parallel, signal: Signal) -> _Path:
    laws = [b.law(replace(signal, mixed=False)) for b in block.branches]
    straight = [b for b, law in zip(block.branches, laws, strict=True) if not law.output.mixed]
    trunk = _walk(straight[0], signal) if straight else _Path(signal, S.Zero)
    kept = trunk.output.q if straight else S.Zero
    gain, added = trunk.gain, tuple(_Branch(sp.sqrt(_output(law).q), S.One, kept) for law in laws if law.output.mixed)
    return _Path(_output(block.law(signal)), gain, added)
