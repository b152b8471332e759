r"""Whether gradients really pass a post-norm stack at O(1), as the arguments for DeepNorm assert: the recursion is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments, faces
from meanfield.architectures.transformers import deep_norm
from meanfield.blocks.algebra import Block
from meanfield.blocks.attention import UniformAttention
from meanfield.blocks.elementary import MLP
from meanfield.catalogue import activations
from meanfield.faces import latex
from meanfield.numeric.propagation import propagate
from meanfield.symbols import known

__all__ = ["GradientCheck", "gradient_check"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False, eq=False)
class GradientCheck(faces.Labelled):
    r"""Gradients through stacks of N post-norm blocks with skip alpha and gain lam: what `gradient_check` returns.

    Attributes
    ----------
    N : whole numbers, shape (k,)
        Blocks of each stack.
    alpha, lam : arrays, shape (k,)
        Skip and gain at each N.
    apjn : array, shape (k,)
        J^{L,0}, at least 0.
    c : array, shape (k,)
        The correlation of two tokens at the output, at most 1.
    factor : number > 1
    holds : array of bool, shape (k,)
        Where J is within `factor` of 1, either way.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.scaling.gradient_check(1, 1, [6, 12])
         N      alpha        lam            J          c  within a factor 2 of 1
         6          1          1    0.0506567   0.973355  no
        12          1          1   0.00535765   0.999583  no
    """

    N: NDArray[np.int64]
    alpha: Floats
    lam: Floats
    apjn: Floats
    c: Floats
    factor: float

    @property
    def holds(self) -> NDArray[np.bool_]:
        return np.asarray(np.abs(np.log(self.apjn)) <= np.log(self.factor))

    def latex(self) -> str:
        """The same as a tabular."""
        rows = [" & ".join(f"{v:.6g}" for v in row) for row in zip(self.N, self.alpha, self.lam, self.apjn, self.c, strict=True)]
        lines = [r"\begin{tabular}{rrrrr}", r"$N$ & $\alpha$ & $\lambda$ & $\mathcal{J}^{L,0}$ & $c_L$ \\ \hline"]
        return "\n".join([*lines, *(f"{row} \\\\" for row in rows), r"\end{tabular}"])

    def _repr_latex_(self) -> str:
        return self.latex()

    def __repr__(self) -> str:
        lines = [f"{'N':>6} {'alpha':>10} {'lam':>10} {'J':>12} {'c':>10}  within a factor {self.factor:g} of 1"]
        for row in zip(self.N, self.alpha, self.lam, self.apjn, self.c, self.holds, strict=True):
            lines.append("{:>6} {:>10.6g} {:>10.6g} {:>12.6g} {:>10.6g}  {}".format(*row[:5], "yes" if row[5] else "no"))
        return "\n".join(lines)


@latex.register
def _(thing: GradientCheck) -> str:
    return thing.latex()


def _block(width: sp.Expr) -> Block:
    """DeepNorm with uniform attention and a ReLU MLP of that relative width, all matrices Xavier"""
    mlp = MLP(activations["relu"], sigma_1=sp.sqrt(2 / (1 + width)), sigma_2=sp.sqrt(2 * width / (1 + width)))
    return deep_norm(attention=UniformAttention(sigma_V=1, sigma_O=1), mlp=mlp)


def gradient_check(alpha: Any, lam: Any, N: Any, *, n: Any = 512, c: float = 0.3, width: Any = 4, factor: float = 2.0) -> GradientCheck:
    r"""J^{L,0} of N post-norm blocks with skip \alpha and gain \lambda on V, O and the matrices of a ReLU MLP, attention uniform.

    The recursion says what "d x'/dz = O(1)" is worth. With alpha = lam = 1 the part of the gradient that differs between tokens halves at
    each attention layer once the tokens are alike, and J falls to about 1/n; with DeepNorm's constants it stays at 1.

    Parameters
    ----------
    alpha, lam : number or expression in N
        As `deep_norm(...).alpha` and `.lam`; 1 and 1 for plain post-norm.
    N : whole number or array of them, at least 1
        Blocks.
    n : whole number
        Tokens.
    c : number
        Correlation of two tokens at the input.
    width : number > 0
        Width of the MLP in units of the model's. Weights are Xavier, of variance 2/(fan_in + fan_out), times the gain squared.
    factor : number > 1
        J between 1/factor and factor counts as O(1).

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.scaling.gradient_check(1, 1, [6, 12, 24]).apjn.round(5)
    array([0.05066, 0.00536, 0.00457])
    >>> rule = mf.scaling.deepnet("encoder")
    >>> mf.scaling.gradient_check(rule.alpha, rule.beta, [12, 1000]).holds
    array([ True,  True])
    """
    depths = arguments.number_list(N, "N")
    if not depths.size:
        raise ValueError(f"N = {N!r}: expected at least one number of blocks")
    if not arguments.number(factor, "factor") > 1:
        raise ValueError(f"factor = {factor}: must be above 1")
    exact = [arguments.expression(v, name) for v, name in ((alpha, "alpha"), (lam, "lam"))]
    for value, name in zip(exact, ("alpha", "lam"), strict=True):
        if value.free_symbols - {known("N")}:
            raise ValueError(f"{name} = {value}: expected a number or an expression in N")
    table = np.array([[float(v.subs(known("N"), int(k))) for v in exact] for k in depths])
    net = _block(arguments.above_zero(width, "width"))
    runs = [propagate(net, int(k), 1.0, c=c, record="last", n=n, alpha_skip=a, lam=b) for k, (a, b) in zip(depths, table, strict=True)]
    apjn = np.array([np.exp(run.log_apjn[0]) for run in runs])
    return GradientCheck(depths.astype(np.int64), table[:, 0], table[:, 1], apjn, np.array([run.c[0] for run in runs]), float(factor))
