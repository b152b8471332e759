r"""A first-order bound on the rounding error of an expression as it is lowered, itself an expression that is lowered beside it.

Inputs are exact, nodes x of quadrature rounded; each operation adds half a unit in its last place and passes on the errors of its
operands through its derivative (running error analysis, Higham 2002, section 3.3). The bound is in units of 2^{-53} and tells where a
closed form cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatchmethod
from typing import Final

import sympy as sp
from sympy import Abs, S
from sympy.codegen.cfunctions import expm1
from sympy.core.function import AppliedUndef, ArgumentIndexError

from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.special import AngleMinusSine, BivariateNormalCDF, NormalCDF, NormalDensity, ScaledErfc
from meanfield.numeric.printing import Unsupported, counted, product_roundings
from meanfield.numeric.unbounded import Unbounded
from meanfield.symbols import known

__all__ = ["moment_bound", "rounding_bound"]

#: what library functions and primitives are good for, in units of 2^{-53} relative to their value, and those that are less good: erfc and
#: gamma by the manual of glibc, the others as measured
FUNCTION_ULPS = 4
_LESS_GOOD: Final = {sp.erfc: 10, sp.gamma: 20, ScaledErfc: 6, AngleMinusSine: 6}
#: quadrature is good for this many units relative to the value (means of squares, gaps) or to the second moment (kernels, means)
QUADRATURE_ULPS = 64
#: and where it is e^{-k}, k = z^2/2, for this many times k: the root of a difference of variances, a quotient and a sum make 7/2
#: roundings of z, which count twice, and the square is one
EXPONENT_ULPS = 8
#: beside which nothing else has a logarithm
LEAST = sp.Float(1e-300)


def _size(e: sp.Expr) -> sp.Expr:
    """|e|, factor by factor: of |2 f(a - b)| sympy writes the arguments in another form, which would be another call, and takes long over
    it where they are large"""
    if isinstance(e, Abs) or (e.is_Pow and e.exp.is_Rational and e.exp.q == 2):  # where it is a number a root is not negative
        return e
    if isinstance(e, sp.Mul):
        return sp.Mul(*map(_size, e.args))
    if e.is_Atom:
        return Abs(e)
    if e.is_Pow and e.exp.is_Integer:
        return e if e.exp.is_even else _size(e.base) ** e.exp
    return e if _is_nonnegative(e) else Abs(e, evaluate=False)


def _is_nonnegative(e: sp.Expr) -> bool:
    """as it is written: sympy looks for the roots of a sum"""
    if isinstance(e, (sp.Add, sp.Mul)):
        return all(map(_is_nonnegative, e.args))
    if e.is_Pow and isinstance(e.base, (sp.Add, sp.Mul)):
        return bool(e.exp.is_even) or _is_nonnegative(e.base)
    return bool(e.is_nonnegative)


def _nothing(call: sp.Expr) -> sp.Expr:
    return S.Zero


def rounding_bound(
    e: sp.Expr,
    size: Callable[[sp.Expr], sp.Expr] = _nothing,
    noise: Callable[[sp.Expr], sp.Expr] = _nothing,
    errors: Mapping[sp.Symbol, sp.Expr] = {},
) -> sp.Expr:
    """The bound in units of 2^{-53}; of a quadrature call `size` gives the scale, `noise` what its integrand's own rounding adds; `errors`
    holds the bounds of symbols that are not exact."""
    return _Bound(size, noise, errors)(e)


def moment_bound(value: sp.Expr, variance: sp.Expr, gap: sp.Expr, errors: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    """The same of a moment by quadrature, given as a symbol, beside the variance and gap of its law."""
    bound = _Bound(_nothing, _nothing, errors)
    return _size(value) * (QUADRATURE_ULPS + 2 * bound.relative(variance) + 2 * bound.relative(gap))


class Passed(sp.Function):
    """Of a bound and the bound against the value: the latter, or 0 where the value is exact. In a condition of a Piecewise sympy would
    simplify the bound, for minutes."""

    nargs = 2

    @classmethod
    def eval(cls, bound: sp.Expr, relative: sp.Expr) -> sp.Expr | None:
        if not bound.is_number:
            return None
        return S.Zero if bound == 0 else relative


def _operations(product: sp.Mul) -> int:
    c = product.args[0]  # a sign or a power of 2 costs nothing
    return len(product.args) - 1 - int(bool(c.is_Rational) and abs(c.p).bit_count() == c.q.bit_count() == 1)


def _own(e: sp.Expr) -> sp.Expr:
    """what a function adds to the errors of its arguments"""
    return _LESS_GOOD.get(e.func, FUNCTION_ULPS) * _size(e)


def _of_chosen(e: sp.Expr, measure: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """the measure of the largest or the smallest of several: what the others are does not matter, however large"""
    if not isinstance(e, (sp.Max, sp.Min)):
        return measure(e)
    first, rest = e.args[0], e.func(*e.args[1:])
    return sp.Piecewise((measure(first), first >= rest if isinstance(e, sp.Max) else first <= rest), (_of_chosen(rest, measure), True))


class _Bound:
    def __init__(
        self, size: Callable[[sp.Expr], sp.Expr], noise: Callable[[sp.Expr], sp.Expr], errors: Mapping[sp.Symbol, sp.Expr]
    ) -> None:
        self.size, self.noise, self.errors = size, noise, errors
        self.known: dict[sp.Expr, sp.Expr] = {}

    def __call__(self, e: sp.Expr) -> sp.Expr:
        if e not in self.known:
            self.known[e] = _size(sp.re(e.evalf(20))) if e.is_number and not e.is_Rational else self.of(e)
        return self.known[e]

    @singledispatchmethod
    def of(self, e: sp.Expr) -> sp.Expr:
        return self._through(e) + _own(e)

    def _through(self, e: sp.Expr) -> sp.Expr:
        """the errors of a function's arguments, each through its derivative"""
        try:
            return sp.Add(*[_size(e.fdiff(i)) * self(a) for i, a in enumerate(e.args, 1) if self(a) != 0])
        except ArgumentIndexError:
            raise Unsupported(f"{type(e).__name__} has no numeric form: {e}") from None

    @of.register
    def _(self, e: sp.Symbol) -> sp.Expr:
        return _size(e) if e == known("x") else self.errors.get(e, S.Zero)

    @of.register
    def _(self, e: AppliedUndef) -> sp.Expr:
        # moments vary on the scale of their arguments: relative errors of these pass on, times two
        size = self.size(e)
        faint = EXPONENT_ULPS * sp.Max(0, -sp.log(size + LEAST))
        return size * (QUADRATURE_ULPS + faint + 2 * sp.Add(*map(self._passed, e.args))) + self.noise(e)

    def _passed(self, e: sp.Expr) -> sp.Expr:
        """the relative bound of an argument; of what is exactly 0 nothing passes on: a covariance that is leaves two of its size with it"""
        relative = self.relative(e)
        return relative if relative.is_number else Passed(self(e), relative)

    def relative(self, e: sp.Expr) -> sp.Expr:
        """the bound against the value, which may be 0: so piece by piece, where the one holds the other as a factor"""
        if isinstance(e, sp.Piecewise):
            return sp.Piecewise(*[(self.relative(value), condition) for value, condition in e.args])
        if isinstance(e, (sp.Max, sp.Min)):
            return _of_chosen(e, self.relative)
        if isinstance(e, sp.Mul):
            return sp.Add(*map(self.relative, e.args)) + _operations(e)
        if isinstance(e, (sp.exp, sp.cosh)):  # neither cosh nor sinh is divided by the other where both overflow
            return self(e.args[0]) + FUNCTION_ULPS
        return self(e) / _size(e) if self(e) != 0 else S.Zero

    @of.register
    def _(self, e: sp.Number) -> sp.Expr:
        return S.Zero if e.is_Rational and e.q & (e.q - 1) == 0 and abs(e.p) < 2**53 else _size(e)

    @of.register
    def _(self, e: sp.NumberSymbol) -> sp.Expr:
        return _size(e)

    @of.register
    def _(self, e: sp.Add) -> sp.Expr:
        # the last sum is e, each of those before it, whatever their order, at most the sum of the sizes
        before = (len(e.args) - 2) * sp.Add(*[_size(a) for a in e.args])
        return sp.Add(*[self(a) for a in e.args]) + before + _size(e)

    @of.register
    def _(self, e: sp.Mul) -> sp.Expr:
        passed = [self(a) * sp.Mul(*[_size(b) for b in e.args if b is not a]) for a in e.args if self(a) != 0]
        return sp.Add(*passed) + _operations(e) * _size(e)

    @of.register
    def _(self, e: sp.Pow) -> sp.Expr:
        base, k = e.args
        roundings = product_roundings(k)
        if roundings is None:  # the power of a library, whose exponent is rounded too
            rounded = self(k)
            roundings = FUNCTION_ULPS + (rounded * _size(sp.log(base)) if rounded != 0 else 0)
        if k.is_negative:
            passed = _size(k) * _size(e) * self.relative(base)
        elif (1 - k).is_positive and (base.has(sp.Max, sp.Min) or self.relative(base).is_number):  # where 0 is no reason for 0/0
            passed = k * _size(e) * self.relative(base)
        else:
            passed = _size(k * base ** (k - 1)) * self(base)
        return passed + roundings * _size(e)  # a growing reciprocal overflows no earlier than itself

    @of.register
    def _(self, e: sp.exp) -> sp.Expr:
        return e * (self(e.args[0]) + FUNCTION_ULPS)

    @of.register(sp.Max)
    @of.register(sp.Min)
    def _(self, e: sp.Expr) -> sp.Expr:
        return _of_chosen(e, self)

    @of.register
    def _(self, e: Abs) -> sp.Expr:
        return self(e.args[0])

    @of.register(sp.Heaviside)
    @of.register(sp.sign)
    def _(self, e: sp.Expr) -> sp.Expr:
        return S.Zero

    @of.register
    def _(self, e: Unbounded) -> sp.Expr:
        return S.Zero

    @of.register
    def _(self, e: sp.Piecewise) -> sp.Expr:
        return sp.Piecewise(*[(self(value), condition) for value, condition in e.args])

    @of.register
    def _(self, e: expm1) -> sp.Expr:
        return (e + 1) * self(e.args[0]) + FUNCTION_ULPS * _size(e)

    @of.register
    def _(self, e: sp.atan2) -> sp.Expr:
        y, x = e.args
        return (_size(x) * self(y) + _size(y) * self(x)) / (x**2 + y**2) + FUNCTION_ULPS * _size(e)

    @of.register
    def _(self, e: sp.gamma) -> sp.Expr:
        z = _size(e.args[0])  # |digamma(z)| < 1/z + log(1 + z) for z > 0
        return _size(e) * self(z) * (1 / z + sp.log(1 + z)) + _own(e)

    @of.register(sp.factorial)
    @of.register(sp.binomial)
    def _(self, e: sp.Expr) -> sp.Expr:
        return self(counted(e))

    @of.register
    def _(self, e: AngleMinusSine) -> sp.Expr:
        t = e.args[0]
        return _size(e) * 3 * self(t) / _size(t) + _own(e)

    @of.register
    def _(self, e: ScaledErfc) -> sp.Expr:
        return _size(e) * self.relative(e.args[0]) + _own(e)  # |z f'(z)| < f(z), where f'(z) is a difference

    @of.register
    def _(self, e: NormalCDF) -> sp.Expr:
        z = e.args[0]  # erfc is of z times a rounded constant
        return self._through(e) + 2 * _size(z) * NormalDensity(z) + _LESS_GOOD[sp.erfc] * e

    @of.register
    def _(self, e: NormalDensity) -> sp.Expr:
        z = e.args[0]  # the exponential of a rounded square
        return self._through(e) + z**2 / 2 * e + _own(e)

    @of.register
    def _(self, e: BivariateNormalCDF) -> sp.Expr:
        return self._through(e) + (FUNCTION_ULPS + EXPONENT_ULPS * (1 + sp.Max(0, -sp.log(e + LEAST)))) * e

    @of.register
    def _(self, e: CosineNormalCDF | SineNormalCDF) -> sp.Expr:
        h, k = e.args  # 8 for w, and roundings of the phase h k and of the exponents
        whole = sp.exp(-(k**2) / 2) * (FUNCTION_ULPS + k**2) if isinstance(e, CosineNormalCDF) else S.Zero
        return self._through(e) + sp.exp(-(h**2) / 2) * (8 + _size(h * k) + h**2) + sp.Piecewise((whole, h > 0), (S.Zero, True))
