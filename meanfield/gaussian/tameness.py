"""Functions that are seen not to grow like exp(a x^2), and to have means, without a look at either end of the line."""

from __future__ import annotations

import sympy as sp

from meanfield.symbols import known

__all__ = ["has_a_mean", "is_tame"]

x = known("x")

#: functions that grow or fall as exponentials at most, of what is linear
_EXPONENTIAL = (sp.exp, sp.sinh, sp.cosh, sp.tanh, sp.coth, sp.sech, sp.csch)
#: functions that keep what is tame so
_CALM = (sp.log, sp.Abs, sp.sign, sp.Max, sp.Min, sp.Heaviside, sp.atan, sp.asinh)


def is_tame(f: sp.Expr) -> bool:
    """Whether f is made of exponentials of linear functions of x, powers, roots, logarithms, steps and absolute values, so that neither it
    nor 1/f outgrows exp(C |x|); False where that cannot be seen."""
    if x not in f.free_symbols:
        return True
    if isinstance(f, _EXPONENTIAL):
        return bool(f.args[0].is_polynomial(x)) and sp.degree(f.args[0], x) < 2
    if f.is_Pow:
        return x not in f.exp.free_symbols and is_tame(f.base)
    return f == x or ((f.is_Add or f.is_Mul or isinstance(f, _CALM)) and all(map(is_tame, f.args)))


def has_a_mean(f: sp.Expr) -> bool:
    """Whether E f(u) is finite at every variance, as far as that is seen: f is tame, and divides by nothing that vanishes."""
    divided = (t.base for t in f.atoms(sp.Pow) if x in t.free_symbols and not t.exp.is_nonnegative)
    return is_tame(f) and not f.has(sp.coth, sp.csch) and all(base.is_positive for base in divided)
