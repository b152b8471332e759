r"""The core idea on one page: a block is a law on second moments.

A *signal* is what a block sees of its input: q, the variance of a component of a token; p, the covariance of that component between
two tokens (or two inputs); delta = q - p, kept apart because p cannot hold it once p/q is near 1. A *block* maps a signal to a
signal and contributes a 2 x 2 *transfer* matrix acting backward on the second moments of the gradient,

    J = E |g_a|^2 / d  (same token),   K = E g_a . g_b / d  (two tokens),   (J, K)_in = T(q, p) (J, K)_out.

chi is the same-token factor T[J, J] of an elementary block, multiplied along a serial composition: the recursion that treats the
gradients of different tokens as independent. Blocks compose by three laws, each one line in one place of `algebra`
and `stacking`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy as sp
from sympy import S

from meanfield.gaussian.lacks import Apart, Joined

__all__ = ["NO_WEIGHTS", "TOKENS", "Definition", "Law", "Mixing", "Signal"]

#: the tangent of a block without weights
NO_WEIGHTS = (S.Zero, S.Zero)
#: the indices of two tokens, 1 ... n
TOKENS = (sp.Symbol("i", integer=True, positive=True), sp.Symbol("j", integer=True, positive=True))


@dataclass(frozen=True)
class Signal:
    """Second moments of a coordinate over tokens, its mean, and two facts on which laws depend.

    `gaussian`: an expectation over an activation is only allowed over Gaussian coordinates; a linear map makes them so, an activation
    ends it. `mixed`: whether random weights have made the coordinates independent of where the branch began, so that a skip may be
    added to them. `q2`, `mean2`: variance and mean of the second of two inputs where its norm is another; delta is then
    (q + q2)/2 - p. `centred`, `centred2`: q - mean^2 of either, where that has digits which the difference would lose.

    >>> import meanfield as mf
    >>> x = mf.Signal(mf.q, mf.p, mf.delta)
    >>> out = mf.Linear(2, 1).law(x).output
    >>> out.q, out.p, out.delta, out.mixed
    (4*q + 1, 4*p + 1, 4*delta, True)
    """

    q: sp.Expr
    p: sp.Expr
    delta: sp.Expr
    mean: sp.Expr = S.Zero
    gaussian: bool = True
    mixed: bool = False
    q2: sp.Expr | None = None
    mean2: sp.Expr | None = None
    centred: sp.Expr | None = None
    centred2: sp.Expr | None = None

    def put(self, values: Mapping[sp.Expr, sp.Expr]) -> Signal:
        """The same with symbols replaced throughout."""
        moments = ("q", "p", "delta", "mean", "q2", "mean2", "centred", "centred2")
        return replace(self, **{name: e.xreplace(values) for name in moments if (e := getattr(self, name)) is not None})

    @property
    def second(self) -> sp.Expr:
        """The variance of the second token or input."""
        return self.q if self.q2 is None else self.q2

    @property
    def second_mean(self) -> sp.Expr:
        """The mean of the second token or input."""
        return self.mean if self.mean2 is None else self.mean2

    @property
    def variance(self) -> sp.Expr:
        """q - mean^2."""
        return self.q - self.mean**2 if self.centred is None else self.centred

    @property
    def second_variance(self) -> sp.Expr:
        """The same of the second token or input."""
        if self.q2 is None:
            return self.variance
        return self.q2 - self.second_mean**2 if self.centred2 is None else self.centred2

    @property
    def lack(self) -> sp.Expr:
        """sqrt(q q2) - p, which delta holds where variances are equal or delta is an `Apart` of them."""
        if self.q2 is None or self.q2 == self.q:
            return self.delta
        if isinstance(self.delta, Apart) and self.delta.args[:2] == (self.q, self.q2):
            return self.delta.args[2]
        return self.delta - (sp.sqrt(self.q) - sp.sqrt(self.q2)) ** 2 / 2

    def mapped(self, gain: sp.Expr, bias: sp.Expr = S.Zero) -> Signal:
        """The signal whose moments are gain times the ones here, and bias."""
        q, p = gain * self.q + bias, gain * self.p + bias
        if self.q2 is None:  # the terms of the gain stay as they are written, multiplied out these may be rounding
            delta = sp.Add(*[a * b for a in sp.Add.make_args(gain) for b in sp.Add.make_args(self.delta)])
            return replace(self, q=q, p=p, delta=delta, centred=None)
        q2 = gain * self.q2 + bias
        lack = gain * self.lack + Joined(gain * self.q, gain * self.q2, bias, bias)
        return replace(self, q=q, p=p, delta=Apart(q, q2, lack), q2=q2, centred=None, centred2=None)

    def times(self, factor: sp.Expr) -> Signal:
        """The signal of factor * x."""
        second = None if self.mean2 is None else factor * self.mean2
        centred, centred2 = (None if e is None else factor**2 * e for e in (self.centred, self.centred2))
        return replace(self.mapped(factor**2), mean=factor * self.mean, mean2=second, centred=centred, centred2=centred2)

    def plus(self, other: Signal) -> Signal:
        """The signal of a sum of uncorrelated terms."""
        q2 = None if self.q2 is None else self.q2 + other.second
        mean2 = None if self.mean2 is other.mean2 is None else self.second_mean + other.second_mean
        gaussian, mixed = self.gaussian and other.gaussian, self.mixed and other.mixed
        q, delta = self.q + other.q, self.delta + other.delta
        if q2 is not None:
            delta = Apart(q, q2, self.lack + other.lack + Joined(self.q, self.second, other.q, other.second))
        total = Signal(q, self.p + other.p, delta, self.mean + other.mean, gaussian, mixed, q2, mean2)
        if (self.centred is None and other.centred is None) or (self.mean != 0 and other.mean != 0):
            return total
        second = None if q2 is None else self.second_variance + other.second_variance
        return replace(total, centred=self.variance + other.variance, centred2=second)


@dataclass(frozen=True)
class Definition:
    """A named quantity of a law: its symbol (unique, printed as `latex`) and what it stands for.

    `kernel` is put in its place where numbers are computed, `shown` where formulas are read, if these differ; `in_step` is how a step
    and its tangent work it out, where no one expands.
    """

    symbol: sp.Dummy
    value: sp.Expr
    latex: str
    kernel: sp.Expr | None = None
    shown: sp.Expr | None = None
    in_step: sp.Expr | None = None

    @property
    def forms(self) -> tuple[sp.Expr, ...]:
        """All that it stands for, somewhere."""
        return tuple(e for e in (self.value, self.kernel, self.shown, self.in_step) if e is not None)

    def put(self, values: Mapping[sp.Expr, sp.Expr]) -> Definition:
        """The same with symbols replaced throughout what it stands for."""
        forms = ("value", "kernel", "shown", "in_step")
        return replace(self, **{name: e.xreplace(values) for name in forms if (e := getattr(self, name)) is not None})


@dataclass(frozen=True)
class Law:
    """What a block does to a signal: the output, the transfer of (J, K), chi, and the named quantities these are written in.

    `tangent`: what its own weights add to the neural tangent kernel of a token and of two (NTK parametrisation); None if not known.

    >>> import meanfield as mf
    >>> law = mf.Linear(2, 1).law(mf.Signal(mf.q, mf.p, mf.delta))
    >>> law.transfer, law.chi, law.tangent
    (Matrix([
    [4, 0],
    [0, 4]]), 4, (4*q + 1, 4*p + 1))
    """

    output: Signal
    transfer: sp.Matrix
    chi: sp.Expr
    definitions: tuple[Definition, ...] = ()
    tangent: tuple[sp.Expr, sp.Expr] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "transfer", sp.ImmutableMatrix(self.transfer))

    def put(self, values: Mapping[sp.Expr, sp.Expr]) -> Law:
        """The same law with symbols replaced throughout."""
        if not values:
            return self
        chi, definitions = self.chi.xreplace(values), tuple(d.put(values) for d in self.definitions)
        tangent = None if self.tangent is None else (self.tangent[0].xreplace(values), self.tangent[1].xreplace(values))
        return Law(self.output.put(values), self.transfer.xreplace(values), chi, definitions, tangent)

    @property
    def needed(self) -> Law:
        """The same law without the named quantities that nothing is made of, as those of a branch of scale 0."""
        out, kept = self.output, list[Definition]()
        moments = (out.q, out.p, out.delta, out.mean, out.q2, out.mean2, self.chi, *self.transfer, *(self.tangent or ()))
        used: set[sp.Basic] = set().union(*(e.free_symbols for e in moments if e is not None))
        for d in reversed(self.definitions):
            if d.symbol in used:
                kept.append(d)
                used |= set().union(*(e.free_symbols for e in d.forms))
        return replace(self, definitions=tuple(reversed(kept)))

    def named(self) -> Law:
        r"""The same law with output and diagonal transfer named \tilde q, \tilde p, \hat q, \hat p, for what follows to be written in."""
        out, t, chi = self.output, self.transfer, self.chi
        new: list[Definition] = []

        def name(value: sp.Expr, label: str, **assumptions: bool) -> sp.Expr:
            if value.is_Number:
                return value
            letter, _, accent = label.partition("_")
            new.append(Definition(sp.Dummy(label, **assumptions), value, rf"\{accent} {letter}"))
            return new[-1].symbol

        q = name(out.q, "q_tilde", positive=True)
        q2 = None if out.q2 is None else name(out.q2, "q_tilde", positive=True)
        p, delta = out.p, out.delta
        if q2 is not None:
            p, lack = sp.Dummy("p_tilde", real=True), sp.Dummy("lack_tilde", nonnegative=True)
            new += (Definition(p, out.p, r"\tilde p"), Definition(lack, out.lack, r"\tilde\lambda"))
            delta = Apart(q, q2, lack)
        elif not (p.is_Number and delta.is_Number):
            p = sp.Dummy("p_tilde", real=True)
            delta = delta if delta.is_Number else sp.Dummy("delta_tilde", nonnegative=True)
            new.append(Definition(p, out.p, r"\tilde p", kernel=q - delta))
        if q2 is None and not delta.is_Number:
            # rounding must not carry delta past p = -q, which cannot be told from the expressions
            new.append(Definition(delta, sp.Min(out.delta, 2 * q, evaluate=False), r"\tilde\delta", shown=q - p))
        if chi == t[0, 0] and t.is_diagonal():
            chi = name(chi, "q_hat", positive=True)
            t = sp.diag(chi, chi if t[1, 1] == t[0, 0] else name(t[1, 1], "p_hat", real=True))
        return Law(replace(out, q=q, p=p, delta=delta, q2=q2), t, chi, (*self.definitions, *new), self.tangent)


@dataclass(frozen=True)
class Mixing:
    r"""x_a -> W \sum_b A_ab x_b with fixed A: Gram matrices go to gain * A G A^T, those of gradients to gain * A^T G A.

    `weights` is A_ab, an expression in `i`, `j` (token indices 1 ... n, `TOKENS`), n and parameters; `matrices` counts the random
    matrices of which W is the product. Where `strength` = \sigma_QK^2 is not 0, they are B_ab in A_ab = B_ab e^{S_ab}/\sum_c B_ac e^{S_ac}
    with random logits S, and `frequencies` are the angles per position by which queries and keys are turned.
    """

    gain: sp.Expr
    weights: sp.Expr
    n: sp.Expr
    matrices: int
    strength: sp.Expr = S.Zero
    frequencies: tuple[sp.Expr, ...] = ()
