r"""An activation: a sympy expression phi(x), and the Gaussian expectations that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from meanfield import arguments, gaussian
from meanfield.fingerprint import known_to_all, text
from meanfield.gaussian.expectation import Expectation, Node, derived
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.keeping import remembered
from meanfield.symbols import known

__all__ = ["Activation", "check_activation"]

x, y = known("x"), known("y")

_MOMENTS = ("mean", "second_moment", "kernel", "gap")


def check_activation(phi: object) -> None:
    """TypeError unless phi is an activation; a formula is none before it is made one."""
    if not isinstance(phi, Activation):
        made = phi if isinstance(phi, sp.Expr) else "expression"
        raise TypeError(f"phi = {phi!r}: expected an activation, as mf.relu or mf.Activation({made})")


@dataclass(frozen=True, repr=False, eq=False)
class Activation:
    r"""A scalar function phi, applied to each coordinate.

    All it contributes to signal propagation is its dual kernel \kappa(q, p) = E phi(u) phi(v), (u, v) centred Gaussian with variances
    q and covariance p; E phi^2 = \kappa(q, q), and E phi'(u) phi'(v) = d\kappa/dp (Price's theorem).

    Parameters
    ----------
    expression : sympy expression in `mf.x`
        Other free symbols are parameters, real numbers, and declared as non-negative or positive where the expression is real only then,
        as sqrt(a) tanh(x). Piecewise, Max, Min, Heaviside, Abs and sign are allowed.
    name : str
        How it prints; the expression itself if left out.

    Raises
    ------
    TypeError
        `expression` is no sympy expression.
    ValueError
        It does not depend on mf.x, depends on mf.y or on a symbol of the state, is not real or has no value somewhere on the real line, is
        not square-integrable under the standard normal (with the reason): exp(x**2), not written out: an unevaluated derivative, a delta,
        or holds a function of x that has no numeric form or jumps without end: besselj(0, x), floor(x).

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> alpha = sp.Symbol("alpha", positive=True)
    >>> phi = mf.Activation(sp.erf(alpha * mf.x))
    >>> phi.second_moment(mf.q)
    2*asin(2*alpha**2*q/(2*alpha**2*q + 1))/pi
    >>> phi.derivative.second_moment(mf.q)
    4*alpha**2/(pi*sqrt(4*alpha**2*q + 1))
    >>> mf.relu.kernel(mf.q, mf.p)
    p*(pi - acos(p/q))/(2*pi) + sqrt(-p**2 + q**2)/(2*pi)
    """

    expression: sp.Expr
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.expression, sp.Basic) and self.expression.has(sp.DiracDelta):
            raise ValueError(f"expression = {self.expression}: a delta is no function; mf.E takes one, and derivatives of jumps hold them")
        object.__setattr__(self, "expression", _checked(self.expression, self.name))

    def __eq__(self, other: object) -> bool:
        """The same function, whatever its name."""
        return isinstance(other, Activation) and self.expression == other.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return self.name or f"Activation({self.expression})"

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle \phi(x) = {sp.latex(self.expression)}$"

    @property
    def derivative(self) -> Activation:
        """phi' as a distribution, an activation again: where phi jumps it holds a delta, whose second moment is infinite, as that of the
        derivative of sqrt|x| is.

        Raises
        ------
        ValueError
            phi' is neither square-integrable nor a power of |x|, as that of log(1 + sqrt|x|).

        >>> import meanfield as mf
        >>> mf.gelu.derivative.second_moment(mf.q).subs(mf.q, 1).n(10)
        0.4558508656
        >>> mf.step.derivative.second_moment(mf.q)
        oo
        """
        return _derivative(self.expression)

    def mean(self, q: Any, *, mean: Any = 0) -> sp.Expr:
        """E phi(u), u ~ N(mean, q), q > 0: in closed form where it closes, an expectation node where not.

        Raises
        ------
        TypeError, ValueError
            q or mean is no number or expression, q is not positive, they depend on mf.x, or the expectation is infinite there.

        >>> import meanfield as mf
        >>> mf.relu.mean(mf.q), mf.tanh.mean(mf.q), mf.softplus.mean(1)
        (sqrt(2)*sqrt(q)/(2*sqrt(pi)), 0, E(log(exp(x) + 1), 1))
        """
        return _finite(self._mean(_variance(q, "q"), arguments.law(mean, "mean")))

    def second_moment(self, q: Any, *, mean: Any = 0) -> sp.Expr:
        """E phi(u)^2, u ~ N(mean, q), q > 0: what `kernel(q, q)` is.

        >>> import meanfield as mf
        >>> mf.sin.second_moment(mf.q)
        1/2 - exp(-2*q)/2
        """
        return _finite(self._second(_variance(q, "q"), arguments.law(mean, "mean")))

    def kernel(self, q1: Any, p: Any, q2: Any = None, *, mean: Any = 0) -> sp.Expr:
        """E phi(u) phi(v) for variances q1 and q2 (q1 if left out), covariance p, |p| <= sqrt(q1 q2), and a common mean of u and v.

        At p = q ask for kernel(q, q): put into a formula that divides by q - p, sympy makes nan of it.

        Raises
        ------
        TypeError, ValueError
            An argument is no number or expression, a variance is not positive, |p| is too large, or the expectation is infinite there.

        >>> import meanfield as mf
        >>> mf.erf.kernel(mf.q1, mf.p, mf.q2)
        2*asin(2*p/(sqrt(2*q1 + 1)*sqrt(2*q2 + 1)))/pi
        >>> mf.hard_tanh.kernel(mf.q, mf.q) == mf.hard_tanh.second_moment(mf.q)
        True
        """
        v1 = _variance(q1, "q1")
        v2 = v1 if q2 is None else _variance(q2, "q2")
        cov = arguments.covariance(p, v1, v2, q1, q1 if q2 is None else q2)
        return _finite(self._kernel(v1, cov, v2, arguments.law(mean, "mean")))

    def gap(self, q: Any, delta: Any, *, mean: Any = 0) -> sp.Expr:
        """E phi(u)^2 - E phi(u) phi(v) at p = q - delta, 0 <= delta <= 2 q, in a form that does not cancel as delta -> 0.

        About a common mean of u and v it is the gap of phi(mean + x).

        >>> import meanfield as mf
        >>> f"{mf.evaluate(mf.tanh.gap(mf.q, mf.delta), q=1.0, delta=1e-200):.12e}"
        '4.644029024483e-201'
        """
        v = _variance(q, "q")
        d = arguments.gap_of(delta, v, v, q)
        return _finite(self._gap(v, d, arguments.law(mean, "mean")))

    def is_closed(self, moment: str) -> bool:
        """Whether no unevaluated expectation is left in that moment: "mean", "second_moment", "kernel" or "gap".

        >>> import meanfield as mf
        >>> mf.elu.is_closed("kernel"), mf.silu.is_closed("kernel")
        (True, False)
        """
        if moment not in _MOMENTS:
            raise ValueError(f"moment = {moment!r}: expected one of {', '.join(_MOMENTS)}")
        second = {"kernel": "p", "gap": "delta"}
        args = [known("q")] + ([known(second[moment])] if moment in second else [])
        return not getattr(self, moment)(*args).has(Node)

    def derive(self, moment: str, *law: Any, mean: Any = 0) -> gaussian.derivation.Derivation:
        """A closed moment with its steps and certificate: "mean", "second_moment" or "kernel".

        Parameters
        ----------
        *law : symbols
            mf.q for the first two; mf.q, mf.p for the kernel, or mf.q1, mf.p, mf.q2 for unequal variances. Equal ones if left out.
        mean : number or sympy expression
            The common mean, which does not depend on the variances.

        Raises
        ------
        ValueError
            The moment or the law is none of these, or has no closed form (with the part of the expression that leaves the algebra).

        >>> import meanfield as mf
        >>> d = mf.relu.derive("kernel")
        >>> d.result
        p*(pi - acos(p/q))/(2*pi) + sqrt(-p**2 + q**2)/(2*pi)
        >>> d.certificate.holds
        True
        >>> mf.sin.derive("kernel", mf.q1, mf.p, mf.q2).result
        exp(-q1/2 - q2/2)*sinh(p)
        >>> mf.exp.derive("mean", mean=sp.Symbol("m", real=True)).result
        exp(m + q/2)
        """
        cov = self._law(moment, tuple(arguments.law(a, "law") for a in law))
        return gaussian.derivation.derivation(self.expression, moment, (cov, _fixed(mean, cov)))

    def taylor(self, moment: str, order: int = 4, mean: Any = 0) -> gaussian.expansions.Expansion:
        r"""A moment for small variances: "mean", "second_moment" or "kernel" (in mf.q, mf.p), to total degree `order`, at a fixed mean.

        E f = \sum_k f^{(2k)}(0) q^k/(2^k k!), the kernel \sum_n p^n (E phi^{(n)})^2/n! (Price 1958). A kink at 0 gives half-integer powers
        by E|z|^n, and arc-cosine kernels for the products of its powers.

        Raises
        ------
        ValueError
            The moment is unknown, the mean depends on the variances, or phi has no Taylor expansion at the mean, not even a one-sided
            one: sqrt|x|, log|x|.

        >>> import meanfield as mf
        >>> mf.tanh.taylor("second_moment", 3)
        Expansion(E(tanh(x)**2, q) = q - 2*q**2 + 17*q**3/3 + O(q**4), q -> 0)
        >>> mf.sin.taylor("mean", 1, mean=sp.Symbol("m", real=True))
        Expansion(E(sin(x), q, m) = sin(m) - q*sin(m)/2 + O(q**2), q -> 0)
        """
        return _expanded(self._quantity(moment, mean), "taylor", order)

    def asymptotic(self, moment: str, terms: int = 3, mean: Any = 0) -> gaussian.expansions.Expansion:
        r"""A moment for large variances: "mean", "second_moment" or "kernel" (at a fixed correlation), its first terms, at a fixed mean.

        phi is its tails, sums of powers and logarithms, and a rest that a wide Gaussian sees through its moments (Wong 1989, ch. III;
        finite parts where they diverge, with logarithms of q). Constants without a closed form are `FinitePart` integrals, which evaluate.

        Raises
        ------
        ValueError
            The moment is unknown, the mean depends on the variances, phi grows exponentially or oscillates, or, for the kernel, its tails
            are no polynomials.

        >>> import meanfield as mf
        >>> mf.silu.asymptotic("mean", 2)
        Expansion(E(x/(1 + exp(-x)), q) = sqrt(2)*sqrt(q)/(2*sqrt(pi)) - sqrt(2)*pi**(3/2)/(12*sqrt(q)) + O(q**(-3/2)), q -> oo)
        """
        return _expanded(self._quantity(moment, mean), "asymptotic", terms)

    def _quantity(self, moment: str, mean: Any) -> sp.Expr:
        """a moment at a fixed mean"""
        cov = self._law(moment)
        return gaussian.derivation.quantity(self.expression, moment, (cov, _fixed(mean, cov)))

    def hermite(self, n: int, q: Any) -> sp.Expr:
        r"""The n-th normalised Hermite coefficient a_n = E[phi(\sqrt q z) He_n(z)]/\sqrt{n!} = q^{n/2} E phi^{(n)}(u)/\sqrt{n!}.

        The kernel is \sum_n a_n(q_1) a_n(q_2) \rho^n (Mehler 1866). An expectation node where it does not close.

        Raises
        ------
        TypeError, ValueError
            n is no whole number of at least 0, or q is not positive.

        >>> import meanfield as mf
        >>> [mf.relu.hermite(n, mf.q) for n in range(4)]
        [sqrt(2)*sqrt(q)/(2*sqrt(pi)), sqrt(q)/2, sqrt(q)/(2*sqrt(pi)), 0]
        >>> mf.tanh.hermite(1, mf.q)
        sqrt(q)*E(1 - tanh(x)**2, q)
        """
        n, v = arguments.check_integer(n, "n", 0), _variance(q, "q")
        return gaussian.projections.projection(self.expression, n, v) / sp.sqrt(sp.factorial(n))

    def identities(self) -> tuple[gaussian.identities.Identity, ...]:
        """Exact equations between expectations of phi, open ones too: each with its rule, and checked on demand (`holds`).

        From the even part of phi, Stein's identity, the heat equation, and algebraic differential relations of phi.

        >>> import meanfield as mf
        >>> mf.sigmoid.identities()[0]
        Identity(E(1/(1 + exp(-x)), q) = 1/2, even part)
        >>> mf.sigmoid.identities()[0].holds
        True
        """
        return gaussian.identities.identities(self.expression)

    @staticmethod
    def _law(moment: str, law: tuple[sp.Expr, ...] = ()) -> gaussian.moments.Covariance:
        """the variances and covariance a moment is asked at: the library's own letters"""
        q, p, q1, q2 = (known(s) for s in ("q", "p", "q1", "q2"))
        laws = {"mean": {(q,)}, "second_moment": {(q,)}, "kernel": {(q, p), (q1, p, q2)}}.get(moment)
        if laws is None:
            raise ValueError(f"moment = {moment!r}: expected one of {', '.join(_MOMENTS[:3])}")
        if law and law not in laws:
            raise ValueError(f"law = {law}: the {moment} is derived in {' or '.join(sorted(map(str, laws)))}")
        return (q1, p, q2) if len(law) == 3 else (q, p, q)

    # folded nodes, for laws: nothing is derived until it is asked for
    def _mean(self, q: sp.Expr, m: sp.Expr = sp.S.Zero) -> sp.Expr:
        return Expectation(self.expression, q, m)

    def _second(self, q: sp.Expr, m: sp.Expr = sp.S.Zero) -> sp.Expr:
        return Expectation(self.expression**2, q, m)

    def _kernel(self, q1: sp.Expr, p: sp.Expr, q2: sp.Expr, m: sp.Expr = sp.S.Zero) -> sp.Expr:
        return PairExpectation(self.expression * self.expression.xreplace({x: y}), q1, p, q2, m)

    def _gap(self, q: sp.Expr, delta: sp.Expr, m: sp.Expr = sp.S.Zero) -> sp.Expr:
        return Gap(self.expression.xreplace({x: m + x}), q, delta)


def _finite(folded: sp.Expr) -> sp.Expr:
    """a moment in closed form where it closes; refused where it is known to be infinite"""
    result = derived(folded)
    for node in result.atoms(Node):
        where = node.infinite_beyond()
        if where is not None:
            raise ValueError(gaussian.finiteness.refusal(node, where))
    return result


def _checked(expression: Any, name: str) -> sp.Expr:
    """the function as it is kept; ValueError with the reason where it is no activation"""
    f = arguments.expression(expression, "expression")
    if isinstance(expression, sp.Basic) and expression.has(sp.Float):
        f = _through_zero(f)
    if not known_to_all(f):
        return _declared(f, name)
    return remembered(f"activation {name == 'constant'} {text(f, {})}", lambda: _declared(f, name))


def _through_zero(f: sp.Expr) -> sp.Expr:
    """f; where a number takes f(0) to 0 but for rounding, as in tanh(x + 0.3) - tanh(0.3), with what takes it there in its place"""
    constant, rest = f.as_independent(x, as_Add=True)
    if constant == 0 or not constant.is_Rational or (rest.free_symbols - {x}):
        return f
    there = rest.subs(x, 0)
    return rest - there if there.is_finite and abs(sp.N(there + constant, 25)) <= abs(constant) * 2**-50 else f


def _declared(f: sp.Expr, name: str) -> sp.Expr:
    if x not in f.free_symbols and name != "constant":
        raise ValueError(f"expression = {f}: an activation is a function of mf.x")
    foreign = f.free_symbols & {known(s) for s in ("y", "q", "p", "delta", "q1", "q2", "L", "l")}
    if foreign:
        raise ValueError(f"expression = {f}: an activation depends on mf.x and parameters, not on {sorted(map(str, foreign))}")
    vague = f.atoms(AppliedUndef, sp.Derivative, sp.Integral, sp.Sum, sp.Product, sp.Subs, sp.Limit)
    if vague:
        raise ValueError(f"expression = {f}: {min(vague, key=str)} is unevaluated or undefined; write it out, perhaps by doit()")
    complex_ = sorted(str(s) for s in f.free_symbols if s.is_real is False)
    if complex_:
        raise ValueError(f"expression = {f}: an activation is real, but {', '.join(complex_)} is declared as not real")
    if f.has(sp.I):
        raise ValueError(f"expression = {f}: an activation is real on the whole real line")
    f = gaussian.domains.declared(gaussian.domains.filled(gaussian.domains.written_in_known(f)))
    reason = gaussian.growth.divergence(f)
    if reason:
        raise ValueError(f"expression: {reason}")
    return f


@lru_cache(maxsize=256)
def _derivative(f: sp.Expr) -> Activation:
    return remembered(f"derivative {text(f, {})}", lambda: _differentiated(f)) if known_to_all(f) else _differentiated(f)


def _differentiated(f: sp.Expr) -> Activation:
    result = gaussian.slopes.slope(f)
    name = "" if x in result.free_symbols else "constant"
    try:
        result = _checked(result, name)
    except ValueError as reason:
        power = gaussian.powers.powers(result)
        if power is None or (power.degree + 1).is_nonpositive:
            raise ValueError(f"expression = {f}: its derivative is no activation: {reason}") from None
    phi = object.__new__(Activation)  # a root has a slope of infinite variance, as a step has
    object.__setattr__(phi, "expression", result)
    object.__setattr__(phi, "name", name)
    return phi


def _expanded(folded: sp.Expr, how: str, count: int) -> gaussian.expansions.Expansion:
    """the expansion of a constant times a node"""
    nodes = folded.atoms(Node)
    if not nodes:
        return gaussian.expansions.Expansion(folded, (known("q"),), sp.S.Zero, ((folded, sp.S.Zero),), sp.S.Zero)
    (node,) = nodes
    expansion: gaussian.expansions.Expansion = getattr(node, how)(count)
    return expansion.times(folded / node) if folded != node else expansion


def _fixed(mean: Any, cov: gaussian.moments.Covariance) -> sp.Expr:
    """a mean that stays as the variances change"""
    m = arguments.law(mean, "mean")
    if any(m.free_symbols & v.free_symbols for v in cov):
        raise ValueError(f"mean = {m}: derivations and expansions are made at a mean that does not depend on the variances")
    return m


def _variance(value: Any, name: str) -> sp.Expr:
    v = arguments.law(value, name)
    arguments.check_variance(v, name)
    return v
