r"""DeepNorm: how residual branches must shrink with depth for the first update of the loss not to grow with it.

x' = LN(\alpha x + F(x)), all gains of F equal to \lambda. A probe d loss/d lambda of one weight matrix measures its gradient, an optimiser
turns gradients into an update, and S sublayers add their shares to the change of the loss: S (\lambda/\alpha)^k \lambda^j = 1 is one
equation for \alpha and \lambda; a closure is the other. All of it is a power law, so it is solved as a linear system in the logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sympy as sp
from sympy import Rational

from meanfield import arguments
from meanfield.scaling.rules import Rule, Step
from meanfield.symbols import known

__all__ = ["OPTIMIZERS", "Optimizer", "deep_norm", "deepnet", "optimizer_of"]

alpha, lam, N, M = (known(name) for name in ("alpha", "lam", "N", "M"))
S = sp.Symbol("S", positive=True)  # sublayers
eta = sp.Symbol("eta", positive=True)

SOURCE: Final = "Su 2022, kexue.fm/archives/8978, Multiple Optimizers; Wang et al. 2022, arXiv:2203.00555"


@dataclass(frozen=True)
class Optimizer:
    r"""An optimiser by the size of its update: |\Delta\theta| = \eta |g|^gradient |\theta|^weight.

    SGD (1, 0); Adam, whose update is a sign, (0, 0); LAMB and AdaFactor, a sign times the size of the parameter, (0, 1). They are in
    `mf.scaling.OPTIMIZERS` by name.

    Attributes
    ----------
    name : str
    gradient, weight : numbers or expressions
        The powers of the gradient and of the weights in the update.
    k, j : expressions
        The powers in the change of the loss, which is gradient times update: gradient + 1 and weight.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> mf.scaling.OPTIMIZERS["lamb"]
    Optimizer(name='lamb', gradient=0, weight=1)
    >>> own = mf.scaling.Optimizer("sign times the root of the gradient", sp.Rational(1, 2), sp.Integer(0))
    >>> own.k, mf.scaling.deep_norm(own).alpha
    (3/2, 2**(1/3)*N**(1/3))
    """

    name: str
    gradient: sp.Expr
    weight: sp.Expr

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name = {self.name!r}: expected a text")
        for power in ("gradient", "weight"):
            object.__setattr__(self, power, arguments.expression(getattr(self, power), power))

    @property
    def k(self) -> sp.Expr:
        """The power of the gradient in the change of the loss, which is gradient times update."""
        return self.gradient + 1

    @property
    def j(self) -> sp.Expr:
        """The power of the weights in it."""
        return self.weight


OPTIMIZERS: Final = {
    name: Optimizer(name, sp.Integer(gradient), sp.Integer(weight))
    for name, gradient, weight in (("sgd", 1, 0), ("adam", 0, 0), ("adamw", 0, 0), ("lamb", 0, 1), ("adafactor", 0, 1))
}


def optimizer_of(value: Any) -> Optimizer:
    """The optimiser of that name, that pair (k, j), or itself."""
    if isinstance(value, Optimizer):
        return value
    if isinstance(value, str):
        if value.lower() not in OPTIMIZERS:
            raise ValueError(f"optimizer = {value!r}: expected one of {', '.join(OPTIMIZERS)}, or a pair (k, j)")
        return OPTIMIZERS[value.lower()]
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"optimizer = {value!r}: expected one of {', '.join(OPTIMIZERS)}, or a pair (k, j)")
    k, j = (arguments.expression(v, name) for v, name in zip(value, ("k", "j"), strict=True))
    return Optimizer(f"k = {k}, j = {j}", k - 1, j)


def _logarithms(e: Any, name: str) -> sp.Expr:
    """ln e as a linear function of ln alpha and ln lam"""
    result = sp.expand(sp.expand_log(sp.log(arguments.expression(e, name)), force=True))
    a, b = result.coeff(sp.log(alpha)), result.coeff(sp.log(lam))
    if sp.expand(result - a * sp.log(alpha) - b * sp.log(lam)).free_symbols & {alpha, lam}:
        raise ValueError(f"{name} = {e}: expected a power law in alpha and lam, as 1/alpha")
    return result


def solved(*equations: sp.Eq) -> dict[sp.Symbol, sp.Expr]:
    """alpha and lam from two power laws"""
    logs = [_logarithms(e.lhs, "closure") - _logarithms(e.rhs, "closure") for e in equations]
    matrix = sp.Matrix([[log.coeff(sp.log(s)) for s in (alpha, lam)] for log in logs])
    if matrix.det() == 0:
        raise ValueError(f"{' and '.join(f'{e.lhs} = {e.rhs}' for e in equations)} do not fix alpha and lam")
    rest = sp.Matrix([-log.subs({sp.log(alpha): 0, sp.log(lam): 0}) for log in logs])
    values = matrix.LUsolve(rest)
    return {s: _exponential(v) for s, v in zip((alpha, lam), values, strict=True)}


def _exponential(log: sp.Expr) -> sp.Expr:
    """exp of a sum of logarithms as a product of powers"""
    log = sp.expand(log)
    return sp.Mul(*[term.args[0] ** sp.cancel(log.coeff(term)) for term in log.atoms(sp.log)])


def _family(constraint: sp.Eq) -> sp.Expr | None:
    """lam as a function of alpha on the constraint, None where it says nothing of lam"""
    log = _logarithms(constraint.lhs, "constraint") - _logarithms(constraint.rhs, "constraint")
    power = log.coeff(sp.log(lam))
    if power == 0:
        return None
    return _exponential((power * sp.log(lam) - log) / power)


def deep_norm(optimizer: Any = "adam", *, norm: str = "post", closure: Any = None, degree: Any = 2, sublayers: Any = 2) -> Rule:
    r"""The skip \alpha and the gain \lambda that keep the change of the loss per step independent of the number N of blocks.

    2N (\lambda/\alpha)^k \lambda^j = 1 with (k, j) = (2, 0) for SGD, (1, 0) for Adam, (1, 1) for LAMB and AdaFactor.

    Parameters
    ----------
    optimizer : "sgd", "adam", "adamw", "lamb", "adafactor", `Optimizer`, or a pair (k, j)
    norm : "post" or "pre"
        x' = LN(alpha x + F(x)), or x' = x + F(LN(x)), where alpha = 1 is the closure.
    closure : sympy equation in alpha and lam, a power law
        The second equation. Left out: lam = 1/alpha, or alpha = 1 where the update is relative to the weights (j = 1), whose learning
        pace no choice of alpha and lam changes.
    degree : number > 0 or expression
        Degree of a branch in a common gain of its matrices, `mf.scaling.degree`; 2 for the branches of a transformer: W_2 phi(W_1 x) and
        A x W_V W_O.
    sublayers : whole number >= 1 or expression
        Residual branches of a block.

    Returns
    -------
    Rule
        With the values `alpha` and `lam`, symbolic in N, and, for post-norm, `family`: the lam that the constraint asks for at any alpha.

    Raises
    ------
    TypeError, ValueError
        An argument is none of the above, or the two equations do not fix alpha and lam.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> rule = mf.scaling.deep_norm("adam", norm="post")
    >>> rule.alpha, rule.lam, rule.family
    (sqrt(2)*sqrt(N), sqrt(2)/(2*sqrt(N)), alpha/(2*N))
    >>> mf.scaling.deep_norm("lamb").lam, mf.scaling.deep_norm("sgd", norm="pre").lam
    (sqrt(2)/(2*sqrt(N)), sqrt(2)/(2*sqrt(N)))

    The other closures of the source, and an optimiser of one's own:

    >>> mf.scaling.deep_norm("sgd", closure=sp.Eq(mf.scaling.lam, 1)).alpha
    sqrt(2)*sqrt(N)
    >>> mf.scaling.deep_norm((sp.Rational(3, 2), 0)).alpha
    2**(1/3)*N**(1/3)
    """
    method = optimizer_of(optimizer)
    if norm not in ("post", "pre"):
        raise ValueError(f"norm = {norm!r}: expected 'post' or 'pre'")
    d, per_block = arguments.above_zero(degree, "degree"), arguments.whole(sublayers, "sublayers")
    if norm == "pre" and closure is not None:
        raise ValueError(f"closure = {closure}: with norm='pre' the closure is alpha = 1")
    if closure is None:
        closure = sp.Eq(alpha, 1) if norm == "pre" or method.j == 1 else sp.Eq(lam, 1 / alpha)
    if not isinstance(closure, sp.Eq):
        raise TypeError(f"closure = {closure!r}: expected an equation, as sp.Eq(mf.scaling.lam, 1/mf.scaling.alpha)")
    gradient = lam ** (d - 1) / alpha
    update = eta * gradient**method.gradient * lam**method.weight
    constraint = sp.Eq(S * sp.powdenest(gradient**method.k) * lam**method.j, 1)
    count = {S: per_block * N}
    found = {s: v.subs(count) for s, v in solved(constraint, closure).items()}
    family = _family(constraint) if norm == "post" else None
    values = {"alpha": found[alpha], "lam": found[lam]} | ({} if family is None else {"family": family.subs(count)})
    branch, slope, moved, change = sp.symbols(r"F g \Delta\theta \Delta\mathcal{L}")
    steps = (
        Step(f"size of a branch of degree {d} in its gains, beside the skip", sp.Eq(branch, lam**d / alpha)),
        Step("gradient of one weight matrix, by the derivative in its own gain", sp.Eq(slope, gradient)),
        Step(f"size of an update of the optimiser ({method.name})", sp.Eq(moved, update)),
        Step("change of the loss: gradient times update, coherent over S sublayers", sp.Eq(change, S * gradient * update)),
        Step("independent of depth", constraint),
        *(() if family is None else (Step("one-parameter family", sp.Eq(lam, family)),)),
        Step("closure", closure),
        Step("sublayers", sp.Eq(S, per_block * N)),
    )
    return Rule(
        name=f"DeepNorm, {method.name}, {norm}-norm",
        values=values,
        statement=(constraint.subs(count), closure),
        assumptions=(
            "d loss/dx and the Jacobian of the norm are O(1) (see mf.scaling.gradient_check)",
            "updates of different sublayers add coherently: an upper bound",
            f"the branch is homogeneous of degree {d} in its gains; query and key matrices are left alone",
        ),
        steps=steps,
        source=SOURCE,
    )


def deepnet(stacks: str = "encoder") -> Rule:
    r"""The constants of the DeepNet paper: skip alpha and gain beta on V, O and the MLP matrices, not on Q and K.

    A sublayer with gains v, w moves the output by \sqrt{v^2 + w^2}/\alpha times its update. SGD over the S = 2N sublayers of a stack:
    S (v^2 + w^2)/\alpha^2 = 1, closed by \sqrt{v^2 + w^2} = 1/\alpha, v = w = \beta. The decoder has 3M sublayers, and reads an encoder
    through M cross-attentions, which multiply its share by M \beta_d^2/\alpha_d. The paper rounds what comes out to 0.81 and 0.87.

    Parameters
    ----------
    stacks : "encoder", "decoder" or "encoder-decoder"

    Returns
    -------
    Rule
        `alpha` and `beta` in N; for "encoder-decoder" `encoder_alpha`, `encoder_beta` (as published), `decoder_alpha`, `decoder_beta`, and
        `encoder_alpha_exact`, `encoder_beta_exact` without the rounding, in N encoder and M decoder blocks.

    Examples
    --------
    >>> import meanfield as mf
    >>> {name: round(value, 6) for name, value in mf.scaling.deepnet("encoder")(N=100).items()}
    {'alpha': 3.760603, 'beta': 0.18803}
    >>> rule = mf.scaling.deepnet("encoder-decoder")
    >>> {name: round(value, 6) for name, value in rule(N=6, M=6).items()}  # doctest: +NORMALIZE_WHITESPACE
    {'encoder_alpha': 1.417938, 'encoder_beta': 0.496989, 'decoder_alpha': 2.059767, 'decoder_beta': 0.343295,
     'encoder_alpha_exact': 1.424663, 'encoder_beta_exact': 0.496333}
    """
    if stacks not in ("encoder", "decoder", "encoder-decoder"):
        raise ValueError(f"stacks = {stacks!r}: expected 'encoder', 'decoder' or 'encoder-decoder'")
    share = sp.Symbol("G", positive=True)
    change = S * share * _both(lam) ** 2 / alpha**2

    def stack(count: sp.Expr, factor: sp.Expr = sp.S.One) -> tuple[sp.Expr, sp.Expr]:
        found = solved(sp.Eq(change, 1), _closure(alpha, lam))
        a, b = (sp.powsimp(found[s].subs({S: count, share: factor})) for s in (alpha, lam))
        return a, b

    def asked(count: sp.Expr, a: sp.Symbol, b: sp.Symbol, factor: sp.Expr = sp.S.One) -> tuple[sp.Basic, ...]:
        return sp.Eq(change.subs({S: count, share: factor, alpha: a, lam: b}), 1), _closure(a, b)

    beta = sp.Symbol("beta", positive=True)
    general = (
        Step("change of the output by S sublayers, v = w = beta, share G", sp.Eq(sp.Symbol(r"\Delta F"), change.subs(lam, beta))),
        Step("closure", _closure(alpha, beta)),
    )
    if stacks != "encoder-decoder":
        count = 2 * N
        a, b = stack(count)
        values = {"alpha": a, "beta": b}
        steps: tuple[Step, ...] = (*general, Step("two sublayers a block, G = 1", sp.Eq(S, count)))
        statement = asked(count, alpha, beta)
    else:
        alpha_e, beta_e, alpha_d, beta_d = sp.symbols("alpha_e beta_e alpha_d beta_d", positive=True)
        a_d, b_d = stack(3 * M)
        cross = M * beta_d**2 / alpha_d
        seen = sp.powsimp(cross.subs({alpha_d: a_d, beta_d: b_d}))
        a_e, b_e = stack(2 * N, seen)
        size = (N**4 * M) ** Rational(1, 16)
        values = {
            "encoder_alpha": Rational(81, 100) * size,
            "encoder_beta": Rational(87, 100) / size,
            "decoder_alpha": a_d,
            "decoder_beta": b_d,
            "encoder_alpha_exact": a_e,
            "encoder_beta_exact": b_e,
        }
        steps = (
            *general,
            Step("decoder: three sublayers a block, G = 1", sp.Eq(S, 3 * M)),
            Step("encoder: seen through M cross-attentions of the decoder", sp.Eq(share, cross)),
            Step("constant of alpha, which the paper rounds to 0.81", sp.simplify(a_e / size)),
            Step("constant of beta, which the paper rounds to 0.87", sp.simplify(b_e * size)),
        )
        statement = (*asked(3 * M, alpha_d, beta_d), *asked(2 * N, alpha_e, beta_e, cross))
    return Rule(
        name=f"DeepNet, {stacks}",
        values=values,
        statement=statement,
        assumptions=("SGD", "beta scales the value, output and MLP matrices of a Xavier initialisation, not queries and keys"),
        steps=steps,
        source="Wang et al. 2022, arXiv:2203.00555, Theorems 4.2 and 4.3 and Figure 2",
    )


def _both(gain: sp.Expr) -> sp.Expr:
    """sqrt(v^2 + w^2) of two matrices with that gain"""
    return sp.sqrt(2) * gain


def _closure(skip: sp.Expr, gain: sp.Expr) -> sp.Basic:
    return sp.Eq(_both(gain), 1 / skip)
