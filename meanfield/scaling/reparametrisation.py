r"""Weights W = \alpha W_init + \beta \Delta W of which only \Delta W is trained: a learning rate in disguise."""

from __future__ import annotations

from typing import Any, Final

import sympy as sp

from meanfield import arguments
from meanfield.scaling.deepnet import optimizer_of
from meanfield.scaling.rules import Rule, Step

__all__ = ["reparametrised"]

SOURCE: Final = "He & Hofmann 2024, arXiv:2311.01906, sec. 4.2, after Martens et al. 2021, arXiv:2110.01765"

beta, eta, g, rest = sp.symbols("beta eta g r", positive=True)


def reparametrised(optimizer: Any = "adam", *, alpha: Any = 1, beta: Any = beta) -> Rule:
    r"""W = \alpha W_init + \beta \Delta W with \Delta W = 0 at the start: what a step on \Delta W does to W.

    Parameters
    ----------
    optimizer : "sgd", "adam", "adamw", "lamb", "adafactor", `Optimizer`, or a pair (k, j)
        By the size of its update, \eta |g|^gradient |\theta|^weight.
    alpha, beta : number or expression > 0
        He & Hofmann keep \alpha = 1 and take \beta = O(1/\sqrt L).

    Returns
    -------
    Rule
        `learning_rate`: the factor on \eta with which W itself would be trained alike; `init`: the factor on the initial weight scale.
        For optimisers whose update is relative to the size of the parameter, r = |\beta \Delta W|/|W| enters, which starts at 0.

    >>> import meanfield as mf, sympy as sp
    >>> mf.scaling.reparametrised("sgd").learning_rate, mf.scaling.reparametrised("adam").learning_rate
    (beta**2, beta)
    >>> mf.scaling.reparametrised("sgd", beta=1 / sp.sqrt(mf.L)).learning_rate
    1/L
    """
    method = optimizer_of(optimizer)
    weights = {name: arguments.coefficient(value, name) for name, value in (("alpha", alpha), ("beta", beta))}
    for name, value in weights.items():
        if value.is_positive is False:
            raise ValueError(f"{name} = {value}: expected a positive weight")
    a, b = weights.values()
    step, theta = sp.Symbol("Delta_theta", positive=True), sp.Symbol("W", positive=True)
    moved = b * eta * (b * g) ** method.gradient * (rest * theta / b) ** method.weight
    factor = sp.powsimp(sp.powdenest(moved / (eta * g**method.gradient * theta**method.weight), force=True), force=True)
    return Rule(
        name=f"reparametrised weights under {method.name}",
        values={"learning_rate": factor, "init": a},
        statement=(sp.Eq(sp.Symbol("W"), a * sp.Symbol("W_init") + b * sp.Symbol("Delta_W")),),
        assumptions=("W_init is not trained", "the step is small: gradients are those of W at its present value"),
        steps=(
            Step(r"the chain rule: the gradient of Delta W is beta times that of W", sp.Eq(sp.Symbol("g_Delta"), b * g)),
            Step(f"the step of W under {method.name} on Delta W", sp.Eq(step, moved)),
            Step("its factor to the step of the same optimiser on W", sp.Eq(sp.Symbol("eta_eff") / eta, factor)),
        ),
        source=SOURCE,
    )
