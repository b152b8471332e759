r"""Magnitudes of the gated attention unit: the published estimate, which keeps the diagonal of A, beside the law of the whole unit.

Su (2022, kexue.fm/archives/8990) has A = (s \nu^4/n) 1 and RMS O = s \nu^6/n. But V has a mean: the n - 1 other tokens of a row add up
coherently, and outweigh the diagonal from n* = 1 + (\nu/\mu)^5 tokens on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray
from sympy import S

from meanfield import arguments, faces
from meanfield.activation import Activation
from meanfield.blocks.algebra import Block
from meanfield.blocks.gau import GAU
from meanfield.blocks.laws import Law, Signal
from meanfield.catalogue import activations
from meanfield.faces import latex
from meanfield.gaussian.expectation import derived
from meanfield.numeric.evaluation import evaluate
from meanfield.scaling.deepnet import optimizer_of
from meanfield.scaling.exponents import local_exponent
from meanfield.scaling.rules import Rule, Step
from meanfield.symbols import known

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["GAUCurve", "GAUMagnitudes", "GAUReport", "gau"]

Floats = NDArray[np.float64]

SOURCE: Final = "Su 2022, kexue.fm/archives/8990; Hua et al. 2022, arXiv:2202.10447"


@dataclass(frozen=True)
class GAUMagnitudes:
    r"""Sizes of a gated attention unit on independent tokens of unit variance, by one estimate.

    Attributes
    ----------
    A_ii, A_ij, ratio : mean attention of a token to itself and to another, and their ratio.
    rms : root mean square of a component of the output.
    cosine : that of the outputs at two tokens.
    alpha : the skip of a DeepNorm residual whose branch of size 1 weighs as much, 1/rms.
    sublayers : mapping of "sgd" and "adam" to the number of sublayers of which that is the DeepNorm, alpha^k.

    Examples
    --------
    >>> import meanfield as mf
    >>> size = mf.scaling.gau(phi=mf.relu, s=128, n=512).diagonal
    >>> round(size.rms, 12), round(size.alpha, 9), {name: round(count, 6) for name, count in size.sublayers.items()}
    (0.03125, 32.0, {'sgd': 1024.0, 'adam': 32.0})
    """

    A_ii: float
    A_ij: float
    rms: float
    cosine: float

    @property
    def ratio(self) -> float:
        return self.A_ii / self.A_ij if self.A_ij else float("inf")

    @property
    def alpha(self) -> float:
        return 1 / self.rms

    @property
    def sublayers(self) -> dict[str, float]:
        return {name: self.alpha ** int(optimizer_of(name).k) for name in ("sgd", "adam")}


@dataclass(frozen=True, repr=False, eq=False)
class GAUCurve(faces.Labelled):
    """A quantity of a gated attention unit over n or lam: `GAUReport.over_n` and `over_lam` return it.

    Attributes
    ----------
    over : "n" or "lam"
    at : array, shape (k,)
        Its values.
    quantity : str
        What the curves are of.
    diagonal, full : arrays, shape (k,)
        The published estimate, which keeps the diagonal of A, and the whole law.

    Examples
    --------
    >>> import meanfield as mf
    >>> unit = mf.scaling.gau(phi=mf.relu, s=128, d=768, e=1536)
    >>> unit.over_n([64, 512, 4096])
             n     diagonal         full   RMS O
            64         0.25      1.19382
           512      0.03125      1.03252
          4096   0.00390625      1.01442
    """

    over: str
    at: Floats
    quantity: str
    diagonal: Floats
    full: Floats

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Both curves (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax)
        return axes

    def __repr__(self) -> str:
        rows = [f"{self.over:>10} {'diagonal':>12} {'full':>12}   {self.quantity}"]
        rows += [f"{x:>10g} {a:>12.6g} {b:>12.6g}" for x, a, b in zip(self.at, self.diagonal, self.full, strict=True)]
        return "\n".join(rows)


@dataclass(frozen=True, repr=False)
class GAUReport:
    r"""What is to be said of the size of a gated attention unit at initialisation.

    Attributes
    ----------
    block : GAU
    rule : Rule
        The published estimate and the crossover as formulas, derived step by step.
    diagonal, full : GAUMagnitudes
    crossover : float
        n* = 1 + (\nu/\mu)^5, where the coherent part of A V overtakes its diagonal (by the published A_ij); infinite where \mu = 0.
    limit : float
        RMS O as n grows: the coherent part does not decay. Without one, \mu = 0, this is 0.

    Examples
    --------
    Sizes that are left out stay symbols, and the rule is a formula in them:

    >>> import meanfield as mf
    >>> report = mf.scaling.gau(phi=mf.relu)
    >>> report.rule.rms, report.rule.ratio, round(report.crossover, 4)
    (s/(8*n), pi**2, 18.4934)
    """

    block: GAU
    rule: Rule

    @cached_property
    def diagonal(self) -> GAUMagnitudes:
        _check_bound(self.block, "n", "s")
        values = {name: evaluate(derived(self.rule.values[name])) for name in ("A_ii", "A_ij", "rms", "cosine")}
        return GAUMagnitudes(**values)

    @cached_property
    def full(self) -> GAUMagnitudes:
        _check_bound(self.block, "n", "s", "d")
        law = self.block.law(_independent())
        wanted = {"q": law.output.q, "p": law.output.p} | {
            d.symbol.name: d.symbol for d in law.definitions if d.symbol.name in ("A_ii", "A_ij")
        }
        values = _values(law, wanted, {})
        return GAUMagnitudes(values["A_ii"], values["A_ij"], values["q"] ** 0.5, values["p"] / values["q"])

    @cached_property
    def crossover(self) -> float:
        formula = self.rule.values.get("crossover")
        return float("inf") if formula is None else float(evaluate(derived(formula)))

    @cached_property
    def limit(self) -> float:
        return float(self.over_n([1e15]).full[0]) if "crossover" in self.rule.values else 0.0

    def over_n(self, n: ArrayLike) -> GAUCurve:
        """RMS O at these numbers of tokens."""
        _check_bound(self.block, "s", "d")
        at = arguments.number_list(n, "n")
        block = replace(self.block, n=None)
        rms = (np.sqrt(_output(b, {"n": at})) for b in (block.diagonal, block))
        return GAUCurve("n", at, "RMS O", *rms)

    def over_lam(self, lam: ArrayLike) -> GAUCurve:
        """The local exponent d ln RMS O/d ln lam at these gains of all four matrices."""
        _check_bound(self.block, "n", "s", "d")
        at = arguments.number_list(lam, "lam")
        return GAUCurve("lam", at, "d ln RMS/d ln lam", *(local_exponent(self.block, at, part=part) for part in ("diagonal", "full")))

    def latex(self) -> str:
        """The derivation of the published estimate and of the crossover."""
        return self.rule.latex()

    def _repr_latex_(self) -> str:
        return self.latex()

    def __repr__(self) -> str:
        b = self.block
        if _open(b, "n", "s", "d"):
            return repr(self.rule)
        rows = [f"GAU with {b.phi!r}, s = {b.s}, n = {b.n}, d = {b.d}, e = {b.e}; independent tokens of unit variance"]
        rows.append(f"{'':>24} {'diagonal':>12} {'full':>12}")
        for name in ("A_ii", "A_ij", "ratio", "rms", "cosine", "alpha"):
            rows.append(f"{name:>24} {getattr(self.diagonal, name):>12.6g} {getattr(self.full, name):>12.6g}")
        for name in ("sgd", "adam"):
            rows.append(f"{'sublayers, ' + name:>24} {self.diagonal.sublayers[name]:>12.6g} {self.full.sublayers[name]:>12.6g}")
        return "\n".join([*rows, f"coherent from n* = {self.crossover:.4g} tokens on; RMS O -> {self.limit:.4g} as n grows"])


@latex.register
def _(thing: GAUReport) -> str:
    return thing.latex()


def _open(block: GAU, *names: str) -> list[str]:
    return [name for name in names if getattr(block, name).free_symbols]


def _check_bound(block: GAU, *names: str) -> None:
    """refuse what has no value while sizes are symbols"""
    if missing := _open(block, *names):
        raise ValueError(f"{', '.join(missing)}: expected numbers; give them to mf.scaling.gau, or read its `rule`")


def _independent() -> Signal:
    return Signal(S.One, S.Zero, S.One)


def _output(block: Block, numbers: Mapping[str, Any]) -> Any:
    law = block.law(_independent())
    return _values(law, {"q": law.output.q}, numbers)["q"]


def _values(law: Law, wanted: Mapping[str, sp.Expr], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """the wanted expressions in numbers, along the named quantities of the law that they need"""
    needed: set[sp.Basic] = set().union(*(e.free_symbols for e in wanted.values()))
    chain: list[tuple[sp.Symbol, sp.Expr]] = []
    for d in reversed(law.definitions):
        if d.symbol in needed:
            chain.append((d.symbol, d.value))
            needed |= d.value.free_symbols
    names = {symbol: sp.Symbol(f"{symbol.name}_{k}", real=True) for k, (symbol, _) in enumerate(chain)}
    values = dict(numbers)

    def number(e: sp.Expr) -> Any:
        e = e.xreplace(names)
        return evaluate(e, **{s.name: values[s.name] for s in e.free_symbols})

    for symbol, formula in reversed(chain):
        values[names[symbol].name] = number(formula)
    return {name: number(e) for name, e in wanted.items()}


def gau(phi: Activation = activations["silu"], s: Any = None, n: Any = None, d: Any = None, e: Any = None) -> GAUReport:
    r"""The magnitudes of a gated attention unit at LeCun initialisation: diagonal estimate and whole law side by side.

    Parameters
    ----------
    phi : Activation
    s, n, d, e : whole numbers or expressions
        Features, tokens, width and hidden units. Left out, they stay symbols, and only `rule` and `crossover` are there.

    Returns
    -------
    GAUReport

    Raises
    ------
    TypeError, ValueError
        As `mf.GAU`.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.scaling.gau(phi=mf.silu, s=128, n=512, d=768, e=1536)
    GAU with silu, s = 128, n = 512, d = 768, e = 1536; independent tokens of unit variance
                                 diagonal         full
                        A_ii    0.0316441    0.0331921
                        A_ij  0.000455656  0.000716116
                       ratio      69.4472      46.3501
                         rms    0.0112582    0.0547958
                      cosine    0.0143994    0.0983279
                       alpha      88.8243      18.2496
              sublayers, sgd      7889.76      333.047
             sublayers, adam      88.8243      18.2496
    coherent from n* = 201.5 tokens on; RMS O -> 0.04818 as n grows
    """
    block = GAU(phi, s, n, d, e)
    return GAUReport(block, _rule(block))


def _rule(block: GAU) -> Rule:
    mu, nu, n, s = sp.Symbol("mu", real=True), sp.Symbol("nu", positive=True), known("n"), known("s")
    own, other, size = sp.symbols("A_ii A_ij O", positive=True)
    mean, second = derived(block.phi._mean(S.One)), derived(block.phi._second(S.One))
    has_mean = mean != 0
    put = {mu: mean, nu: sp.sqrt(second), n: block.n, s: block.s}
    formulas = {
        "mu": mu,
        "nu": nu,
        "A_ii": s * nu**4 / n,
        "A_ij": s * mu**4 / n,
        "rms": s * nu**6 / n,
        "cosine": mu**4 / nu**4,
    }
    if has_mean:
        formulas |= {"ratio": nu**4 / mu**4, "crossover": 1 + nu**5 / (mu**4 * sp.Abs(mu))}
    steps: tuple[Step, ...] = (
        Step("moments of the features", sp.Eq(sp.Symbol("mu"), mean, evaluate=False)),
        Step("and of their squares", sp.Eq(sp.Symbol("nu") ** 2, second, evaluate=False)),
        Step("overlap of a token with itself at its mean", sp.Eq(own, (s * nu**2) ** 2 / (n * s), evaluate=False)),
        Step("overlap of two tokens at its mean", sp.Eq(other, (s * mu**2) ** 2 / (n * s), evaluate=False)),
        Step("A as a multiple of the identity, U and V independent", sp.Eq(size**2, own**2 * nu**4, evaluate=False)),
    )
    if has_mean:
        overtaken = sp.Eq((n - 1) * other * sp.Abs(mu), own * nu)
        steps += (Step("V has a mean: the others of a row add up to as much as the diagonal where", overtaken),)
    assumptions = (
        "tokens independent, of unit variance; LeCun initialisation, biases zero",
        "overlaps at their means, their fluctuations left out",
        "only the diagonal of A (until the last step)",
    )
    statement = (sp.Eq(size, s * nu**6 / n, evaluate=False),)
    values = {name: formula.xreplace(put) for name, formula in formulas.items()}
    return Rule("Gated attention unit", values, statement, assumptions, steps, SOURCE)
