r"""Every activation of the catalogue, typed again over balls of real and complex numbers: nothing here comes from the package.

A function is given by its kinks k_1 < ... < k_n and one analytic piece between each two of them, for the value and for the slope;
pieces take flint `arb` or `acb`, and the flag `analytic` of `acb.integral`. Constants are made when
a piece is called, at the precision of that moment. Four kinds differ in how much is closed:

- `Terms`: sums of c x^n exp(b x) between kinks; slopes, jumps and E phi(m + s xi) follow from the same few numbers;
- `Smoothed`: analytic, with E phi(m + s xi) typed by hand (Phi, erf, Gaussians);
- `Exponentials`: sums of c x^n exp(b x), complex b, n = 0 or 1: every moment is elementary;
- `Open`: no closed smoothing; the distance to the nearest complex singularity instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

from flint import acb, arb, ctx

Piece = Callable[[Any, bool], Any]
F = Fraction


def nothing(z: Any, _: bool) -> Any:
    """the piece that is 0, known as such: its tails are none"""
    return 0 * z


@cache
def _rational(value: Fraction | int | str, precision: int) -> arb:
    fraction = Fraction(value)
    return arb(fraction.numerator) / fraction.denominator


def real(value: Fraction | int | str) -> arb:
    """an exact rational at the precision of this moment"""
    return _rational(value, ctx.prec)


def _half(z: Any) -> bool:
    """whether (the middle of) z lies in the right half plane; what is not analytic across the border flags itself"""
    return bool((z.real if isinstance(z, acb) else z).mid() >= 0)


def sqrt(z: Any, analytic: bool) -> Any:
    return z.sqrt(analytic=True) if analytic and isinstance(z, acb) else z.sqrt()


def log(z: Any, analytic: bool) -> Any:
    return z.log(analytic=True) if analytic and isinstance(z, acb) else z.log()


def _uncut(z: Any, analytic: bool) -> Any:
    """not a number where a box meets the imaginary axis beyond i: the cut of atan"""
    if analytic and isinstance(z, acb) and z.real.contains(0) and not abs(z.imag) < 1:
        return acb("nan")
    return z


def logistic(z: Any) -> Any:
    if _half(z):
        return 1 / (1 + (-z).exp())
    e = z.exp()
    return e / (1 + e)


def softplus(z: Any, analytic: bool) -> Any:
    return z + log(1 + (-z).exp(), analytic) if _half(z) else log(1 + z.exp(), analytic)


def tanh(z: Any) -> Any:
    return z.tanh()


def density(z: Any) -> Any:
    return (-z * z / 2).exp() / (2 * arb.pi()).sqrt()


def normal(z: Any) -> Any:
    return (-z / arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True, kw_only=True)
class Function:
    name: str  # in the catalogue
    arguments: tuple[str, ...] = ()  # decimals or fractions, for the factory
    kinks: tuple[Fraction, ...] = ()
    parity: int = 0  # 1 even, -1 odd
    #: |phi|, |phi'| <= growth[0] (1 + |x|)^growth[1]
    growth: tuple[int, int] = (2, 1)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})" if self.arguments else self.name

    @property
    def values(self) -> tuple[Piece, ...]:
        raise NotImplementedError

    @property
    def slopes(self) -> tuple[Piece, ...]:
        raise NotImplementedError

    #: phi(k+) - phi(k-) at the kinks
    def jumps(self) -> tuple[arb, ...]:
        return tuple(arb(0) for _ in self.kinks)

    @property
    def has_jumps(self) -> bool:
        return False

    #: where phi varies faster than far away: (centre, distance to the nearest singularity)
    @property
    def features(self) -> tuple[tuple[Fraction, float], ...]:
        return ()

    #: E phi(m + s xi) and E phi'(m + s xi), or None
    smooth: Callable[[Any, arb], Any] | None = None
    smooth_slope: Callable[[Any, arb], Any] | None = None


# -- piecewise x^n exp(b x) ------------------------------------------------------------------------------------------------------------

Term = tuple[Fraction, int, Fraction]  # c, n, b
_ONE, _ORIGIN = F(1), (F(0),)


def _times(a: tuple[Term, ...], b: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple((c * d, n + k, f + g) for c, n, f in a for d, k, g in b)


def _rate(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    powers = tuple((c * n, n - 1, b) for c, n, b in terms if n)
    return powers + tuple((c * b, n, b) for c, n, b in terms if b)


def _value(terms: tuple[Term, ...], z: Any) -> Any:
    total = 0 * z
    for c, n, b in terms:
        piece = real(c) * z**n if n else real(c) + 0 * z
        total = total + (piece * (real(b) * z).exp() if b else piece)
    return total


def _upper(m: Any, s: arb, k: arb) -> Any:
    """P(m + s xi < k)"""
    return ((m - k) / (s * arb(2).sqrt())).erfc() / 2


def _truncated(n: int, b: Fraction, m: Any, s: arb, lo: arb | None, hi: arb | None) -> Any:
    """E y^n exp(b y) [lo < y < hi], y ~ N(m, s^2)"""
    if b:
        if n or lo is not None or hi is None:
            raise NotImplementedError("exp(b x) is needed below a kink only")
        rate = real(b)
        t = (m + rate * s * s - hi) / (s * arb(2).sqrt())
        if (t.real if isinstance(t, acb) else t) > 3:  # exponents joined, or enclosures explode
            scaled = acb(t * t).hypgeom_u(acb(0.5), acb(0.5)) / arb.pi().sqrt()  # exp(t^2) erfc(t)
            scaled = scaled if isinstance(t, acb) else scaled.real
            return (rate * hi - (hi - m) ** 2 / (2 * s * s)).exp() * scaled / 2
        return (rate * m + (rate * s) ** 2 / 2).exp() * t.erfc() / 2
    above = 0 * m if lo is None else _upper(m, s, lo)
    below = 1 + 0 * m if hi is None else _upper(m, s, hi)
    ends = [(k, sign * s * density((k - m) / s)) for k, sign in ((hi, -1), (lo, 1)) if k is not None]
    moments = [below - above]
    for j in range(1, n + 1):
        previous = (j - 1) * s * s * moments[j - 2] if j > 1 else 0
        moments.append(m * moments[j - 1] + previous + sum((k ** (j - 1) * w for k, w in ends), 0 * m))
    return moments[n]


@dataclass(frozen=True, kw_only=True)
class Terms(Function):
    pieces: tuple[tuple[Term, ...], ...]
    square: Fraction = _ONE  # of a factor in front

    def factor(self) -> arb:
        return real(self.square).sqrt()

    @cached_property
    def rates(self) -> tuple[tuple[Term, ...], ...]:
        return tuple(_rate(t) for t in self.pieces)

    @property
    def values(self) -> tuple[Piece, ...]:
        return tuple((lambda z, _, t=t: self.factor() * _value(t, z)) if t else nothing for t in self.pieces)

    @property
    def slopes(self) -> tuple[Piece, ...]:
        return tuple((lambda z, _, t=t: self.factor() * _value(t, z)) if t else nothing for t in self.rates)

    def _steps(self, pieces: tuple[tuple[Term, ...], ...]) -> tuple[Fraction, ...]:
        """exact: where a kink is not 0, the pieces beside it are polynomials"""

        def at(terms: tuple[Term, ...], k: Fraction) -> Fraction:
            assert all(b * k == 0 for _, _, b in terms)
            return sum((c * k**n for c, n, _ in terms), F(0))

        return tuple(at(pieces[i + 1], k) - at(pieces[i], k) for i, k in enumerate(self.kinks))

    def jumps(self) -> tuple[arb, ...]:
        return tuple(self.factor() * real(j) for j in self._steps(self.pieces))

    @property
    def has_jumps(self) -> bool:
        return any(self._steps(self.pieces))

    def _smooth(self, pieces: tuple[tuple[Term, ...], ...], m: Any, s: arb) -> Any:
        ends = [None, *(real(k) for k in self.kinks), None]
        total = 0 * m
        for i, terms in enumerate(pieces):
            for c, n, b in terms:
                total = total + real(c) * _truncated(n, b, m, s, ends[i], ends[i + 1])
        return total

    def __post_init__(self) -> None:
        object.__setattr__(self, "smooth", lambda m, s: self.factor() * self._smooth(self.pieces, m, s))

        def slope(m: Any, s: arb) -> Any:
            total = self._smooth(self.rates, m, s)
            for k, jump in zip(self.kinks, self._steps(self.pieces), strict=True):
                if jump:
                    total = total + real(jump) * density((real(k) - m) / s) / s
            return self.factor() * total

        object.__setattr__(self, "smooth_slope", slope)


def polynomial(*coefficients: Fraction | int | str) -> tuple[Term, ...]:
    """c_0 + c_1 x + ..."""
    return tuple((F(c), n, F(0)) for n, c in enumerate(coefficients) if F(c))


def piecewise(name: str, *parts: Any, **rest: Any) -> Terms:
    """terms, kink, terms, kink, ..., terms"""
    return Terms(name=name, kinks=tuple(F(k) for k in parts[1::2]), pieces=tuple(parts[::2]), **rest)


# -- sums of exponentials --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Exponentials(Function):
    """sum of c x^n exp(b x): c and b complex, n = 0 or 1"""

    terms: Callable[[], tuple[tuple[acb, int, acb], ...]]

    @staticmethod
    def _slope(terms: tuple[tuple[acb, int, acb], ...]) -> tuple[tuple[acb, int, acb], ...]:
        return tuple((c * b, n, b) for c, n, b in terms) + tuple((c, 0, b) for c, n, b in terms if n)

    def _piece(self, slope: bool) -> Piece:
        def piece(z: Any, _: bool) -> Any:
            terms = self._slope(self.terms()) if slope else self.terms()
            total = sum((c * z**n * (b * z).exp() for c, n, b in terms), 0 * z)
            return total.real if isinstance(z, arb) else total

        return piece

    @property
    def values(self) -> tuple[Piece, ...]:
        return (self._piece(False),)

    @property
    def slopes(self) -> tuple[Piece, ...]:
        return (self._piece(True),)

    def single(self, mean: arb, q: arb, slope: bool = False) -> arb:
        terms = self._slope(self.terms()) if slope else self.terms()
        total = acb(0)
        for c, n, b in terms:
            total += c * (b * mean + b * b * q / 2).exp() * ((mean + b * q) if n else 1)
        return total.real

    def pair(self, mean: arb, q1: arb, p: arb, q2: arb, slope: bool = False) -> arb:
        """E phi(u) phi(v): derivatives of exp(b m + c m + (b^2 q1 + 2 b c p + c^2 q2)/2) by b and c"""
        terms = self._slope(self.terms()) if slope else self.terms()
        total = acb(0)
        for c, n, b in terms:
            for d, k, e in terms:
                first, second = mean + b * q1 + e * p, mean + b * p + e * q2
                power = {(0, 0): 1, (1, 0): first, (0, 1): second, (1, 1): p + first * second}[n, k]
                total += c * d * power * ((b + e) * mean + (b * b * q1 + 2 * b * e * p + e * e * q2) / 2).exp()
        return total.real


# -- typed smoothing, and none ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Smoothed(Function):
    value: Piece
    slope: Piece
    scale: float = 1.0

    @property
    def values(self) -> tuple[Piece, ...]:
        return (self.value,)

    @property
    def slopes(self) -> tuple[Piece, ...]:
        return (self.slope,)

    @property
    def features(self) -> tuple[tuple[Fraction, float], ...]:
        return ((F(0), self.scale),)


@dataclass(frozen=True, kw_only=True)
class Open(Function):
    value: Piece | tuple[Piece, ...]
    slope: Piece | tuple[Piece, ...]
    distance: float
    centres: tuple[Fraction, ...] = _ORIGIN

    @property
    def values(self) -> tuple[Piece, ...]:
        return self.value if isinstance(self.value, tuple) else (self.value,)

    @property
    def slopes(self) -> tuple[Piece, ...]:
        return self.slope if isinstance(self.slope, tuple) else (self.slope,)

    @property
    def features(self) -> tuple[tuple[Fraction, float], ...]:
        return tuple((c, self.distance) for c in self.centres)


def _erf_like(name: str, front: Fraction, shift: Fraction, rate: Callable[[], arb], scale: float, **rest: Any) -> Smoothed:
    """shift + front erf(rate x)"""

    def at(z: Any, s: arb) -> Any:
        a = rate()
        return real(shift) + real(front) * (a * z / (1 + 2 * (a * s) ** 2).sqrt()).erf()

    def slope_at(z: Any, s: arb) -> Any:
        a = rate()
        n = (1 + 2 * (a * s) ** 2).sqrt()
        return real(front) * 2 * a / (arb.pi().sqrt() * n) * (-((a * z / n) ** 2)).exp()

    return Smoothed(
        name=name, value=lambda z, _: at(z, arb(0)), slope=lambda z, _: slope_at(z, arb(0)), scale=scale,
        smooth=at, smooth_slope=slope_at, parity=0 if shift else -1, growth=(4 if scale > 0.01 else 200, 0), **rest,
    )  # fmt: skip


def _gelu_smooth(m: Any, s: arb) -> Any:
    n = (1 + s * s).sqrt()
    return m * normal(m / n) + s * s / n * density(m / n)


def _gelu_smooth_slope(m: Any, s: arb) -> Any:
    n2 = 1 + s * s
    n = n2.sqrt()
    return normal(m / n) + m / (n * n2) * density(m / n)


def _gaussian(m: Any, s: arb) -> Any:
    """E exp(-y^2)"""
    n2 = 1 + 2 * s * s
    return (-m * m / n2).exp() / n2.sqrt()


def _gabor(m: Any, s: arb) -> Any:
    """E exp(-y^2) sin y"""
    n2 = 1 + 2 * s * s
    return _gaussian(m, s) * (-s * s / (2 * n2)).exp() * (m / n2).sin()


def _gabor_slope(m: Any, s: arb) -> Any:
    """the rate by m of the same"""
    n2 = 1 + 2 * s * s
    return _gaussian(m, s) * (-s * s / (2 * n2)).exp() * ((m / n2).cos() - 2 * m * (m / n2).sin()) / n2


def _trigonometric(amplitude: Callable[[], arb], rate: Callable[[], arb], phase: Callable[[], arb]) -> Callable[[], Any]:
    """amplitude sin(rate x + phase)"""

    def terms() -> tuple[tuple[acb, int, acb], ...]:
        c = amplitude() / acb(0, 2) * (acb(0, 1) * phase()).exp()
        b = acb(0, 1) * rate()
        return (c, 0, b), (c.conjugate(), 0, -b)

    return terms


def _gcu() -> tuple[tuple[acb, int, acb], ...]:
    """x cos x"""
    return (acb(0.5), 1, acb(0, 1)), (acb(0.5), 1, acb(0, -1))


def _tanh_exp_slope(z: Any, _: bool) -> Any:
    e = z.exp()
    return e.tanh() + 4 * z * e * logistic_slope(2 * e)


def _serf_slope(z: Any, analytic: bool) -> Any:
    w = softplus(z, analytic)
    return w.erf() + 2 / arb.pi().sqrt() * z * logistic(z) * (-w * w).exp()


def _snake(a: Fraction) -> Callable[[], Any]:
    """x + sin(a x)^2 / a"""

    def terms() -> tuple[tuple[acb, int, acb], ...]:
        b, quarter = acb(0, 2) * real(a), acb(-1) / (4 * real(a))
        return (acb(1), 1, acb(0)), (-2 * quarter, 0, acb(0)), (quarter, 0, b), (quarter, 0, -b)

    return terms


def _softplus_slope(b: Any) -> Piece:
    return lambda z, _: logistic(real(b) * z)


def logistic_slope(z: Any) -> Any:
    return logistic(z) * logistic(-z)


def _swish(name: str, beta: str, distance: float, **rest: Any) -> Open:
    return Open(
        name=name,
        value=lambda z, _: z * logistic(real(beta) * z),
        slope=lambda z, _: logistic(real(beta) * z) * (1 + real(beta) * z * logistic(-real(beta) * z)),
        distance=distance, **rest,
    )  # fmt: skip


def _soft(name: str, beta: str, distance: float, **rest: Any) -> Open:
    return Open(
        name=name, value=lambda z, a: softplus(real(beta) * z, a) / real(beta), slope=_softplus_slope(beta), distance=distance, **rest,
    )  # fmt: skip


def _tanh(name: str, alpha: str, distance: float, front: str = "1", **rest: Any) -> Open:
    """front tanh(alpha x)"""
    return Open(
        name=name, value=lambda z, _: real(front) * (real(alpha) * z).tanh(),
        slope=lambda z, _: 4 * real(front) * real(alpha) * logistic_slope(2 * real(alpha) * z),
        distance=distance, parity=-1, growth=(200, 0), **rest,
    )  # fmt: skip


def _mish_gate(z: Any) -> Any:
    """tanh(softplus(z))"""
    if _half(z):
        w = (-z).exp()
        return (1 + 2 * w) / (1 + 2 * w + 2 * w * w)
    e = z.exp()
    return (e * e + 2 * e) / (e * e + 2 * e + 2)


def _mish_slope(z: Any, _: bool) -> Any:
    if _half(z):
        w = (-z).exp()
        gate_slope = 4 * (w + w * w) * w / (1 + 2 * w + 2 * w * w) ** 2
    else:
        e = z.exp()
        gate_slope = 4 * e * (e + 1) / (e * e + 2 * e + 2) ** 2
    return _mish_gate(z) + z * gate_slope


def _gelu_tanh_inner(z: Any) -> Any:
    return (2 / arb.pi()).sqrt() * (z + real("0.044715") * z * z * z)


def _gelu_tanh_slope(z: Any, _: bool) -> Any:
    t = 2 * _gelu_tanh_inner(z)
    inner = (2 / arb.pi()).sqrt() * (1 + 3 * real("0.044715") * z * z)
    return logistic(t) + 2 * z * inner * logistic_slope(t)


def _log_cosh(z: Any, analytic: bool) -> Any:
    w = z if _half(z) else -z
    return w - arb(2).log() + log(1 + (-2 * w).exp(), analytic)


SELU_SCALE, SELU_ALPHA = "1.0507009873554804934193349852946", "1.6732632423543772848170429916717"
X, ZERO, ONE = polynomial(0, 1), (), polynomial(1)


def _elu(front: Fraction, slope: Fraction, rate: Fraction) -> Any:
    """front (exp(rate x) - 1) below 0, slope x above"""
    return ((front, 0, rate), (-front, 0, F(0))), 0, polynomial(0, slope)


_LEAK = F(11, 48)  # (1/8 + 1/3)/2


def _asinh(z: Any, analytic: bool) -> Any:
    w = z if _half(z) else -z
    root = log(w + sqrt(w * w + 1, analytic), analytic)
    return root if _half(z) else -root


def _squareplus(z: Any, analytic: bool) -> Any:
    root = sqrt(z * z + 4, analytic)
    return (z + root) / 2 if _half(z) else 2 / (root - z)


def _squareplus_slope(z: Any, analytic: bool) -> Any:
    root = sqrt(z * z + 4, analytic)
    return (1 + z / root) / 2 if _half(z) else 2 / (root * (root - z))


FUNCTIONS: tuple[Function, ...] = (
    piecewise("identity", X, parity=-1),
    piecewise("relu", ZERO, 0, X),
    piecewise("abs", polynomial(0, -1), 0, X, parity=1),
    piecewise("step", ZERO, 0, ONE),
    piecewise("sign", polynomial(-1), 0, ONE, parity=-1),
    piecewise("relu_squared", ZERO, 0, polynomial(0, 0, 1), growth=(2, 2)),
    piecewise("leaky_relu", polynomial(0, "0.01"), 0, X),
    piecewise("leaky_relu", polynomial(0, "0.2"), 0, X, arguments=("0.2",)),
    _erf_like("erf", F(1), F(0), lambda: arb(1), 0.5),
    _erf_like("derf", F(1), F(0), lambda: real("0.7"), 0.7, arguments=("0.7",)),
    _erf_like("derf", F(1), F(0), lambda: arb(100), 0.005, arguments=("100",)),
    Smoothed(
        name="gelu", value=lambda z, _: z * normal(z), slope=lambda z, _: normal(z) + z * density(z), scale=0.7,
        smooth=_gelu_smooth, smooth_slope=_gelu_smooth_slope,
    ),
    _tanh("tanh", "1", 1.57),
    _tanh("dyt", "0.7", 2.2, arguments=("0.7",)),
    _tanh("dyt", "100", 0.0157, arguments=("100",)),
    Open(name="sigmoid", value=lambda z, _: logistic(z), slope=lambda z, _: logistic_slope(z), distance=3.1, growth=(2, 0)),
    _swish("silu", "1", 3.1),
    Exponentials(name="sin", terms=_trigonometric(lambda: arb(1), lambda: arb(1), lambda: arb(0)), parity=-1),
    Exponentials(name="cos", terms=_trigonometric(lambda: arb(1), lambda: arb(1), lambda: arb.pi() / 2), parity=1),
    # the rest of the catalogue
    piecewise("relu6", ZERO, 0, X, 6, polynomial(6), growth=(7, 0)),
    piecewise("prelu", polynomial(0, "0.25"), 0, X),
    piecewise("rrelu", polynomial(0, _LEAK), 0, X),
    piecewise("elu", *_elu(F(1), F(1), F(1))),
    piecewise("elu", *_elu(F("0.3"), F(1), F(1)), arguments=("0.3",)),
    piecewise("selu", *_elu(F(SELU_SCALE) * F(SELU_ALPHA), F(SELU_SCALE), F(1))),
    piecewise("celu", *_elu(F(1), F(1), F(1))),
    piecewise("celu", *_elu(F("0.3"), F(1), 1 / F("0.3")), arguments=("0.3",), growth=(4, 1)),
    Open(
        name="gelu_tanh", value=lambda z, _: z * logistic(2 * _gelu_tanh_inner(z)), slope=_gelu_tanh_slope, distance=1.3, growth=(9, 1)
    ),
    Open(name="log_sigmoid", value=lambda z, a: -softplus(-z, a), slope=lambda z, _: logistic(-z), distance=3.1),
    piecewise("hard_sigmoid", ZERO, -3, polynomial("1/2", "1/6"), 3, ONE),
    piecewise("hard_tanh", polynomial(-1), -1, X, 1, ONE, parity=-1),
    piecewise("hard_swish", ZERO, -3, polynomial(0, "1/2", "1/6"), 3, X),
    piecewise("hard_shrink", X, "-1/2", ZERO, "1/2", X, parity=-1),
    piecewise("soft_shrink", polynomial("1/2", 1), "-1/2", ZERO, "1/2", polynomial("-1/2", 1), parity=-1),
    Open(name="tanh_shrink", value=lambda z, _: z - tanh(z), slope=lambda z, _: tanh(z) ** 2, distance=1.57, parity=-1),
    _soft("softplus", "1", 3.1),
    _soft("softplus", "3", 1.04, arguments=("3",)),
    Open(
        name="softsign", kinks=(F(0),), value=(lambda z, _: z / (1 - z), lambda z, _: z / (1 + z)),
        slope=(lambda z, _: 1 / (1 - z) ** 2, lambda z, _: 1 / (1 + z) ** 2), distance=1.0, parity=-1, growth=(2, 0),
    ),
    Open(name="mish", value=lambda z, _: z * _mish_gate(z), slope=_mish_slope, distance=2.3),
    piecewise("threshold", polynomial("-1/4"), "1/2", X, arguments=("1/2", "-1/4")),
    _erf_like("sigmoid_like", F(1, 2), F(1, 2), lambda: 1 / real("2.4020563531719796"), 1.2),
    Smoothed(
        name="gabor", value=lambda z, _: _gabor(z, arb(0)), slope=lambda z, _: _gabor_slope(z, arb(0)), scale=0.5,
        smooth=_gabor, smooth_slope=_gabor_slope, parity=-1, growth=(4, 0),
    ),
    Exponentials(name="rbf", terms=_trigonometric(lambda: arb(2).sqrt(), lambda: arb(2).sqrt(), lambda: arb.pi() / 4)),
    piecewise("ab_relu", polynomial(0, "-0.3"), 0, polynomial(0, "1.7"), arguments=("-0.3", "1.7")),
    Exponentials(name="exp", terms=lambda: ((acb(1), 0, acb(1)),)),
    Smoothed(
        name="gauss", value=lambda z, _: _gaussian(z, arb(0)), slope=lambda z, _: -2 * z * _gaussian(z, arb(0)), scale=0.5,
        smooth=_gaussian, smooth_slope=lambda m, s: -2 * m / (1 + 2 * s * s) * _gaussian(m, s), parity=1, growth=(2, 0),
    ),
    Smoothed(
        name="hermite", arguments=("3",), parity=-1, growth=(4, 3), scale=float("inf"),  # (x^3 - 3 x)/sqrt 6
        value=lambda z, _: (z * z * z - 3 * z) / arb(6).sqrt(), slope=lambda z, _: (3 * z * z - 3) / arb(6).sqrt(),
        smooth=lambda m, s: (m**3 + 3 * m * s * s - 3 * m) / arb(6).sqrt(),
        smooth_slope=lambda m, s: (3 * m * m + 3 * s * s - 3) / arb(6).sqrt(),
    ),
    piecewise("monomial", polynomial(0, 0, 0, 1), arguments=("3",), parity=-1, growth=(4, 3)),
    piecewise("rectified_monomial", ZERO, 0, polynomial(0, 0, 1), arguments=("2",), growth=(2, 2)),
    piecewise("rectified_monomial", ZERO, 0, polynomial(0, 0, 0, 1), arguments=("3",), growth=(4, 3)),
    piecewise("polynomial", polynomial("1/2", -1, 0, "1/4"), arguments=("1/2", "-1", "0", "1/4"), growth=(2, 3)),
    Open(
        name="bentid", value=lambda z, a: (sqrt(z * z + 1, a) - 1) / 2 + z, slope=lambda z, a: z / (2 * sqrt(z * z + 1, a)) + 1,
        distance=1.0,
    ),
    Open(name="atan", value=lambda z, a: _uncut(z, a).atan(), slope=lambda z, _: 1 / (1 + z * z), distance=1.0, parity=-1, growth=(2, 0)),
    Open(
        name="asinh", value=lambda z, a: _asinh(z, a), slope=lambda z, a: 1 / sqrt(1 + z * z, a), distance=1.0, parity=-1, growth=(2, 1)
    ),
    piecewise("square", polynomial(0, 0, 1), parity=1, growth=(2, 2)),
    _erf_like("probit", F(1, 2), F(1, 2), lambda: 1 / arb(2).sqrt(), 0.7),
    Exponentials(name="snake", terms=_snake(F(1)), growth=(3, 1)),
    Exponentials(name="snake", terms=_snake(F("0.6")), arguments=("0.6",), growth=(3, 1)),
    Open(
        name="squareplus", value=lambda z, a: _squareplus(z, a), slope=lambda z, a: _squareplus_slope(z, a), distance=2.0,
    ),
    _swish("quick_gelu", "1.702", 1.84),
    Open(name="log_cosh", value=_log_cosh, slope=lambda z, _: tanh(z), distance=1.57, parity=1),
    piecewise("smelu", ZERO, -1, polynomial("1/4", "1/2", "1/4"), 1, X),
    piecewise("star_relu", polynomial("-1/2"), 0, polynomial("-1/2", 0, 1), square=F(4, 5), growth=(2, 2)),
    Exponentials(name="gcu", terms=_gcu, parity=-1, growth=(2, 1)),
    Open(  # beyond 6, 1 - tanh(e^x) is below 1e-349
        name="tanh_exp", kinks=(F(6),), value=(lambda z, _: z * z.exp().tanh(), lambda z, _: z),
        slope=(_tanh_exp_slope, lambda z, _: 1 + 0 * z),
        distance=1.5, growth=(4, 1), centres=(F(0), F(3, 2), F(3), F(9, 2)),
    ),
    Open(name="serf", value=lambda z, a: z * softplus(z, a).erf(), slope=_serf_slope, distance=1.5, growth=(4, 1)),
    Open(
        name="lisht", value=lambda z, _: z * z.tanh(), slope=lambda z, _: z.tanh() + 4 * z * logistic_slope(2 * z), distance=1.57, parity=1
    ),
    _tanh("lecun_tanh", "2/3", 2.3, "1.7159"),
    _swish("silu", "3", 1.04, arguments=("3",)),
    _erf_like("erf", F(2), F("-0.3"), lambda: arb(0.5), 1.0, arguments=("2", "1/2", "-0.3")),
    Exponentials(
        name="sin", terms=_trigonometric(lambda: arb(2), lambda: real("0.6"), lambda: real("0.4")), arguments=("2", "0.6", "0.4"),
    ),
    Open(
        name="isru", value=lambda z, a: z / sqrt(1 + z * z, a), slope=lambda z, a: 1 / ((1 + z * z) * sqrt(1 + z * z, a)), distance=1.0,
        parity=-1, growth=(2, 0),
    ),
)  # fmt: skip


BY_NAME = {str(f): f for f in FUNCTIONS}
assert len(BY_NAME) == len(FUNCTIONS)
