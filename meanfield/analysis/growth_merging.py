r"""1 - c where J goes as a stretched exponential: two inputs merge with it, or stay a fixed distance apart.

Where identical inputs stay identical, delta = q - p, and the transfer T of J is the slope of delta' at delta = 0,

    \delta'(q, \delta) \le T(q) \delta

for every delta, as |E \phi'(u) \phi'(v)| \le E \phi'(u)^2. If J decays, delta_l <= delta_0 J^{l, 0} vanishes, and the sum of
ln(\delta'/\delta) - ln T, which vanish with delta, has a limit:  1 - c_l ~ C J^{l, 0}/q_l,  C from the start. Whatever the expansions
at a fixed c say: as delta vanishes c comes to 1 faster than these hold.

If J grows by T = 1 + m q^{-1/2} while q goes to infinity, and e' = e - h e^{3/2} at a fixed e = 1 - c, as beside a kink seen from afar,
the change of a finite delta is  q^{-1/2} G(\delta),  with  G'(0) = m > 0,  G ~ - h \delta^{3/2} as delta grows, and G'' < 0: it is
minus a mean of \phi'' on \phi'' over the Gaussian u - v, positive as this has a positive Fourier transform. So delta settles at the one
root of G, faster than q moves, and  1 - c_l \propto 1/q_l.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp
from sympy import S

from meanfield.analysis.growth_rates import Undetermined, coefficient, gap_fixed
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.limits import NoExpansion
from meanfield.analysis.repeats import Repeat, Terms, expanded
from meanfield.analysis.signs import sign, vanishes
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["merging"]

x = known("x")


def merging(stages: Sequence[Stage], repeat: Repeat, laws: tuple[Growth, Growth, Growth]) -> Growth:
    """The law of 1 - c, from those of q, 1 - c and J at a fixed c: as it is, but where J is stretched and the slope of delta."""
    q, gap, apjn = laws
    if (apjn.kind, q.kind) != ("stretched", "power") or not _carries(stages):
        return gap
    if apjn.sign == -1:
        return _merged(q, apjn)
    exponent = sp.sympify(q.exponent)
    held = gap.kind == "undetermined" and exponent.is_positive and _is_held(repeat)
    why = "q - p settles at a value above 0, which is not given"
    return Growth("1 - c", "power", exponent=-exponent, log_exponent=_opposite(q.log_exponent), reason=why) if held else gap


def _opposite(e: sp.Expr | None) -> sp.Expr | None:
    return None if e is None else -e


def _merged(q: Growth, apjn: Growth) -> Growth:
    """the law of J/q"""
    one = None if apjn.log_coefficient is None or q.log_exponent is not None else apjn.log_coefficient - q.exponent
    two = None if one is None else apjn.log_squared_coefficient
    return replace(apjn, quantity="1 - c", log_coefficient=one, log_squared_coefficient=two)


def _is_held(repeat: Repeat) -> bool:
    """whether delta is pushed away from 0 by what falls as q^-1/2, and back by a kink"""
    (first, j), m = next(((key, c) for key, c in repeat.transfer[0].items() if key != (S.Zero, 0)), ((S.Zero, 0), S.Zero))
    try:
        approach = gap_fixed(coefficient(repeat.gap, 0))
    except (Undetermined, NoExpansion):
        return False
    own = approach.limit, approach.theta, sign(approach.h)
    return (first, j, sign(m)) == (-S.Half, 0, 1) and own == (S.Zero, 3 * S.Half, -1)


def _carries(stages: Sequence[Stage]) -> bool:
    """whether the transfer of J is the slope of delta' at delta = 0, where tokens do not mix"""
    if any(s.law.transfer[0, 1] != 0 for s in stages):
        return False
    variance = sp.Dummy("q", positive=True)
    try:
        near = expanded(stages, variance, variance / x, 2)
    except NoExpansion:
        return False

    def there(terms: Terms, power: int = 0) -> sp.Expr:
        return terms.get((sp.Integer(power), 0), S.Zero)

    first = next(iter(near.gap), None)
    return first == (-S.One, 0) and vanishes(there(near.gap, -1) * there(near.q) / variance - there(near.transfer[0]))
