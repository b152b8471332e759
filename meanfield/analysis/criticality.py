r"""Critical initialisation: parameters at which a repeat neither separates nor merges neighbouring inputs, chi = 1 at c = 1, q* fixed.

Parameters that enter linearly through their squares (weight and bias scales outside of expectations) are eliminated in symbols, which
leaves at most one equation in q; any others are found by Newton's method from many starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from meanfield import arguments
from meanfield.analysis.critical_points import Critical
from meanfield.analysis.critical_problem import Problem
from meanfield.analysis.derivatives import infinite
from meanfield.analysis.elimination import equations
from meanfield.analysis.maps import StepMap, map_of
from meanfield.blocks.algebra import Block
from meanfield.blocks.letters import heeded
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.guards import is_infinite

__all__ = ["critical"]

#: parameters that may be open: two are solved for, the others stay letters
MOST = 4
#: of nets with masks or batch statistics
APART = (
    "a repeat sets identical inputs apart (Dropout, BatchNorm): c = 1 is no fixed point, and there is no ordered phase there whose edge "
    "would be critical; fixed_points has c*"
)


@np.errstate(under="ignore")
def critical(net: Block, *, q: Any = None, **parameters: Any) -> Critical:
    r"""The parameters left open at which a network is critical: chi = dc'/dc = 1 at c = 1, at a fixed point of the variance.

    With q given, two open parameters are determined by chi = 1 and q' = q: sigma_w^2 = 1/E phi'^2, sigma_b^2 = q - sigma_w^2 E phi^2
    for an MLP (Poole et al. 2016). Without q, one open parameter is found together with q*; two of them at the half-stable point,
    where chi_parallel = dq'/dq is 1 as well (Roberts, Yaida & Hanin 2022, ch. 5). Where q' does not depend on q through an activation
    (a norm comes first) or both conditions are one (a homogeneous activation beside a skip: sigma_w^2 = 2 (1 - mu^2) for ReLU), the
    answer is a line, one parameter in terms of the others. A third open parameter, as a skip, stays a letter of formulas, also at a
    half-stable point whose q* does not depend on it. Where c = 1 is no fixed point (masks of `Dropout`, statistics of a `BatchNorm`)
    no point is critical in this sense.

    Parameters
    ----------
    net : Block
        One repeat of the network.
    q : number or sympy expression, optional
        The variance that is to be fixed; an expression (as mf.q) gives the critical line in symbols.
    **parameters : number or sympy expression
        Values of the parameters that are not to be solved for.

    Returns
    -------
    Critical
        A dict of the parameters solved for, with status, residuals and `.latex()`; empty, with a reason, where there is no such point.
        Where there are several it is the one whose q* attracts, of several of these that of the least q*, and `.others` has the rest.

    Raises
    ------
    TypeError, ValueError
        Unknown parameters, too many or too few left open (both with the list), values out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.critical(mf.mlp(mf.relu), q=1)
    {'sigma_w': 1.414..., 'sigma_b': 0.0}
    >>> point = mf.critical(mf.mlp(mf.gelu))
    >>> [f"{name} = {value:.10f}" for name, value in point.items()]
    ['sigma_w = 1.4082110131', 'sigma_b = 0.4158393810', 'q = 3.5615528128']
    >>> mf.critical(mf.mlp(mf.erf), q=mf.q)["sigma_w"]
    sqrt(pi)*(4*q + 1)**(1/4)/2
    >>> import sympy as sp
    >>> mf.critical(mf.mlp(mf.Activation(sp.tanh(mf.x**2))), sigma_w=2).others
    (Critical({'sigma_b': 0.12813..., 'q': 0.07052...}, unstable: q leaves this fixed point: dq'/dq = 1.40409 > 1),)
    >>> mf.critical(mf.Residual(mf.Activate(mf.relu) >> mf.Linear(), skip=sp.Symbol("mu", positive=True)))
    Critical({'sigma_w': sqrt(2 - 2*mu**2), 'sigma_b': 0}, line: each q is fixed and critical: sigma_w and sigma_b in terms of mu)
    """
    step = map_of(net)
    names = {s.name: s for s in step.recursion.parameters}
    parameters = heeded(net, names.values(), parameters)
    unknown = sorted(parameters.keys() - names.keys())
    listed = f"This network has the parameters: {', '.join(names) or 'none'}"
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(unknown)}. {listed}")
    values = {k: arguments.scalar(v, k) for k, v in parameters.items()}
    for k, value in values.items():
        arguments.check_bound(value, names[k])
    left = tuple(s for s in step.recursion.parameters if s.name not in parameters)
    open_ = tuple(sorted(left, key=lambda s: (s.name != "sigma_w", s.name != "sigma_b", s.name)))
    if not 1 <= len(open_) <= MOST:
        opened = ", ".join(s.name for s in open_) or "none"
        raise ValueError(f"{len(open_)} parameters are open ({opened}): give values to all but one or two of them. {listed}")
    if any(s.name == "n" for s in open_):
        raise ValueError("n is open: the number of tokens is not solved for, give it a value")
    if step.unresolved:
        return Critical({}, "unresolved", step.unresolved)
    step = step.signed({k: float(value) for k, value in values.items() if value.is_number})
    bound, open_ = _in_symbols_of(step, values, open_)
    if not is_infinite(chi := equations(step, bound).chi) and chi.has(sp.oo):  # it is so for some signs: positive values are looked for
        step = step.signed({s.name: 1 for s in open_})
        bound, open_ = _in_symbols_of(step, values, open_)
    if any(gap.subs(dict(bound), simultaneous=True) != 0 for gap in step.parted):
        return Critical({}, "none", APART)
    problem = Problem(equations(step, bound), equations(step, ()), step.q_identical, dict(bound), open_)
    chi = problem.equations.chi
    why = "the activation jumps" if is_infinite(chi) else next(filter(None, map(infinite, chi.atoms(Expectation))), None)
    if why is not None:
        return Critical({}, "none", f"{why}: chi is infinite for any parameters")
    if problem.equations.chi == -1:
        return Critical({}, "none", "chi = 0 for any parameters: weights are 0, or an activation has no slope")
    if q is None:
        return problem.on_the_line() if len(open_) == 1 else problem.half_stable()
    at = arguments.expression(q, "q")
    arguments.check_variance(at, "q")
    return problem.at(at)


def _in_symbols_of(
    step: StepMap, values: dict[str, sp.Expr], open_: tuple[sp.Symbol, ...]
) -> tuple[tuple[tuple[sp.Symbol, sp.Expr], ...], tuple[sp.Symbol, ...]]:
    """what is bound, and what is open, as a map writes them"""
    own = {s.name: s for s in step.recursion.parameters}
    return tuple((own[k], v) for k, v in values.items()), tuple(own[s.name] for s in open_)
