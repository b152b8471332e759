r"""Ratios of sinh and cosh as hyperbolic tangents, and polynomials in these by what a tangent lacks of its limits.

\sinh z/\cosh z is \tanh z, which neither overflows nor cancels; 2 \tanh z - 2 \tanh^3 z is 2 \tanh z/\cosh^2 z, \tanh z - \tanh^2 z is
2 \tanh z/(1 + e^{2z}), and \cosh^2 z - \sinh^2 z is 1.
"""

from __future__ import annotations

from collections import defaultdict

import sympy as sp
from sympy import S

from meanfield.gaussian.rewriting import rewritten
from meanfield.symbols import known

__all__ = ["in_tangents", "lacking"]

x = known("x")

_HEADS = (sp.sinh, sp.cosh, sp.tanh)


def in_tangents(f: sp.Expr) -> sp.Expr:
    """f with tanh for what is divided of sinh and cosh, and without sums of these whose terms cancel far out.

    >>> x = known("x")
    >>> in_tangents(sp.sinh(x) ** 3 / sp.cosh(x) ** 2)
    sinh(x)*tanh(x)**2
    >>> in_tangents(sp.sinh(x) / sp.cosh(x) - sp.sinh(x) ** 3 / sp.cosh(x) ** 3)
    tanh(x)/cosh(x)**2
    """
    if not f.has(*_HEADS):
        return f
    factored = rewritten(f, _may_cancel, _factored)
    return rewritten(factored, lambda t: isinstance(t, sp.Mul) and t.has(sp.sinh) and t.has(sp.cosh), _divided)


def _may_cancel(t: sp.Expr) -> bool:
    """a sum of these; two terms of tangents alone are complemented where they stand"""
    return isinstance(t, sp.Add) and t.has(*_HEADS) and (len(t.args) > 2 or t.has(sp.sinh, sp.cosh))


def lacking(z: sp.Expr, sign: int) -> sp.Expr:
    """1 + sign tanh z."""
    return 2 / (1 + sp.exp(-2 * sign * z))


def _divided(e: sp.Mul) -> sp.Expr:
    """sinh and cosh of the same argument, one of them in the denominator, as powers of their quotient"""
    powers = e.as_powers_dict()
    for z in _arguments(powers):
        a, b = powers.get(sp.sinh(z), S.Zero), powers.get(sp.cosh(z), S.Zero)
        if a.is_Integer and b.is_Integer and a * b < 0:
            k = min(abs(a), abs(b)) * sp.sign(a)
            e = e * (sp.tanh(z) * sp.cosh(z) / sp.sinh(z)) ** k
    return e


def _factored(e: sp.Add) -> sp.Expr:
    """a sum of powers of sinh z, cosh z and tanh z, its terms of one degree in sinh and cosh as cosh^n z P(tanh z), by the zeros of P at
    1 and -1; itself where no P has any"""
    terms = sp.Add.make_args(sp.expand_mul(e))
    for z in sorted({z for term in terms for z in _arguments(term.as_powers_dict())}, key=sp.default_sort_key):
        degrees: dict[sp.Expr, dict[sp.Expr, sp.Expr]] = defaultdict(lambda: defaultdict(lambda: S.Zero))
        for term in terms:
            powers = term.as_powers_dict()
            a, b, c = (powers.pop(head(z), S.Zero) for head in _HEADS)
            if not all(k.is_Integer for k in (a, b, c)):
                break
            degrees[a + b][a + c] += sp.Mul(*[base**k for base, k in powers.items()])
        else:
            parts = {n: _by_zeros(polynomial, z) for n, polynomial in degrees.items()}
            if any(part is not None for part in parts.values()):
                kept = [c * sp.cosh(z) ** n * sp.tanh(z) ** k for n in parts if parts[n] is None for k, c in degrees[n].items()]
                e = sp.Add(*kept, *[sp.cosh(z) ** n * part for n, part in parts.items() if part is not None])
                return _factored(e) if isinstance(e, sp.Add) else e
    return e


def _by_zeros(polynomial: dict[sp.Expr, sp.Expr], z: sp.Expr) -> sp.Expr | None:
    """sum of c t^k, t = tanh z, as its factors 1 - t and 1 + t, that are small on either side, times what is left of it"""
    polynomial = {k: c for k, c in polynomial.items() if sp.expand(c) != 0}
    if not polynomial:
        return S.Zero
    first = next(iter(polynomial.values()))
    if any(sp.cancel(c / first).has(x) for c in polynomial.values()):  # terms of unlike size do not cancel
        return None
    low, high = int(min(polynomial)), int(max(polynomial))
    coefficients, times = [polynomial.get(sp.Integer(k), S.Zero) for k in range(low, high + 1)], {1: 0, -1: 0}
    for zero in times:
        while len(coefficients) > 1 and (rest := _quotient(coefficients, zero)) is not None:
            coefficients, times[zero] = rest, times[zero] + 1
    both = min(times.values())
    if not any(times.values()):
        return None
    ends = [lacking(z, -zero) ** (k - both) for zero, k in times.items()]
    return sp.Mul(*ends) * sp.cosh(z) ** (-2 * both) * sp.Add(*[c * sp.tanh(z) ** (low + k) for k, c in enumerate(coefficients)])


def _quotient(coefficients: list[sp.Expr], zero: int) -> list[sp.Expr] | None:
    """those of a polynomial over 1 - zero t, None where it is not 0 there"""
    sums = [S.Zero]
    for c in coefficients:
        sums.append(c + zero * sums[-1])
    return [sp.expand(c) for c in sums[1:-1]] if sp.expand(sums[-1]) == 0 else None


def _arguments(powers: dict[sp.Expr, sp.Expr]) -> list[sp.Expr]:
    """those of x among the hyperbolic functions of a product"""
    return sorted({base.args[0] for base in powers if isinstance(base, _HEADS) and base.has(x)}, key=sp.default_sort_key)
