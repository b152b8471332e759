r"""The derivative of an exchangeable moment along a direction (\dot q, \dot \delta) of its variance and gap, in one quadrature.

With u_t = \sqrt{p} x + \sqrt{\delta} \xi_t, p = q - \delta, each variable moves by

    \dot u_t = \sqrt{p} x \dot p/(2 p) + \sqrt{\delta} \xi_t \dot \delta/(2 \delta),

and E \prod_t h_t(u_t) by \sum_t E h_t'(u_t) \dot u_t \prod_{r \ne t} h_r(u_r): conditional means and covariances given x, as of the moment.
"""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Node

__all__ = ["ExchangeableTangent"]


class ExchangeableTangent(Node):
    r"""\dot q d/dq + \dot \delta d/d\delta of a moment: `ExchangeableTangent.along(moment, dot_q, dot_delta)`.

    Of f continuous, with jumps of f' counted; a spread of powers of f alone.
    """

    @classmethod
    def along(cls, moment: Exchangeable, variance: sp.Expr, gap: sp.Expr) -> sp.Expr:
        if variance == gap == 0:
            return S.Zero
        if moment.spread and any(j or k for _, j, k in moment.powers):
            raise ValueError(f"moment = {moment}: expected a spread of powers of f alone")
        return cls(*moment.args, variance, gap)

    @property
    def moment(self) -> Exchangeable:
        moment: Exchangeable = sp.Expr.__new__(Exchangeable, *self.args[:5])
        return moment

    @property
    def directions(self) -> tuple[sp.Expr, sp.Expr]:
        return self.args[5], self.args[6]

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        return None, {}
