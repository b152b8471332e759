r"""What a layer adds to (q, delta) and its transfer to 1 where there is no skip: expectations with what the first term of a Taylor series
at 0, or that of a piecewise linear function, makes of them apart, so that at criticality, where that is q, delta or 1, nothing is left
to subtract.

With r = f - f'(0) x and f(0) = 0,

    E f(u)^2 - E f(u) f(v) = f'(0)^2 \delta + 2 f'(0) \delta E r'(u) + E r(u)^2 - E r(u) r(v),

by Stein's identity E u r(v) = p E r'. With f = a x + b |x|, whose parts are even and odd, and \rho = 1 - \delta/q,

    E f(u)^2 = (a^2 + b^2) q,   E f(u)^2 - E f(u) f(v) = (a^2 + b^2) \delta + b^2 (E u^2 - E |u v| - \delta),
    E f'(u) f'(v) = a^2 + b^2 - 2 b^2 \arccos(\rho)/\pi.
"""

from __future__ import annotations

import sympy as sp

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.gaussian.smoothness import is_smooth
from meanfield.symbols import known

__all__ = ["first_terms_apart"]

x, y, q, delta = known("x"), known("y"), known("q"), known("delta")


def first_terms_apart(e: sp.Expr, named: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """A sum of -q, -delta or -1 and expectations at the variance q, perhaps with constants beside; another expression as it is. What
    multiplies q, delta or 1 gets a name: at criticality it is 0, and so before what is added to it."""
    nodes = [t for t in sp.Add.make_args(e) if t.has(Node)]
    rest = e - sp.Add(*nodes)
    if not nodes or not any(-t in sp.Add.make_args(rest) and not (rest + t).has(q, delta) for t in (q, delta, sp.S.One)):
        return e
    held: dict[sp.Expr, sp.Symbol] = {}

    def hold(t: sp.Expr) -> sp.Expr:  # integrands stay as they are, also where the sum is expanded
        return held.setdefault(t, sp.Dummy("E"))

    def is_node(t: sp.Basic) -> bool:
        return isinstance(t, Node)

    def apart(t: Node) -> sp.Expr:
        first, rest = _of_lines(t) or (_apart(t), sp.S.Zero)
        return first.replace(is_node, hold) + (hold(rest) if rest else rest)

    total = sp.expand(e.replace(is_node, apart))
    beside = [t for t in sp.Add.make_args(total) if not t.has(*held.values())]
    result = total - sp.Add(*beside)
    for factor, part in sp.collect(sp.Add(*beside), (q, delta), evaluate=False).items():
        if part.is_number:
            result += factor * part
            continue
        name = next((s for s, value in named.items() if value == part), None) or sp.Dummy("excess", real=True)
        named[name] = part
        result += factor * name
    return result.xreplace({symbol: node for node, symbol in held.items()})


def _apart(node: Node) -> sp.Expr:
    f = node.integrand
    if isinstance(node, Expectation) and node.variance == q and node.mean == 0 and is_smooth(f):
        value = f.xreplace({x: sp.S.Zero})
        first = value if value != 0 else sp.diff(f, x, 2).xreplace({x: sp.S.Zero}) / 2 * x**2
        return first.xreplace({x**2: q}) + Expectation(sp.expand(f - first), q)
    if isinstance(node, Gap) and node.args[1:] == (q, delta) and is_smooth(f):
        slope = sp.diff(f, x)
        rate = slope.xreplace({x: sp.S.Zero})
        return rate**2 * delta + 2 * rate * delta * Expectation(slope - rate, q) + Gap(f - rate * x, q, delta)
    if isinstance(node, PairExpectation) and node.args[1:] == (q, q - delta, q, sp.S.Zero, sp.S.Zero):
        parts = node.separated()
        if parts is not None and parts[0] == parts[1] and is_smooth(parts[0]):
            value = parts[0].xreplace({x: sp.S.Zero})
            rest = parts[0] - value
            both = PairExpectation(rest * rest.xreplace({x: y}), q, q - delta, q)
            return value**2 + 2 * value * Expectation(rest, q) + both
    return node


def _of_lines(node: Node) -> tuple[sp.Expr, sp.Expr] | None:
    """Of a x + b |x|, its square or its slope: what is of the order of q, delta or 1, and the rest; None of anything else."""
    f = node.integrand
    pair = isinstance(node, PairExpectation) and node.args[1:] == (q, q - delta, q, sp.S.Zero, sp.S.Zero)
    parts = node.separated() if pair else (f, f)
    if parts is None or parts[0] != parts[1] or is_smooth(parts[0]):
        return None
    degree = homogeneous_degree(parts[0])
    right, left = (parts[0].xreplace({x: sp.Integer(sign)}) for sign in (1, -1))
    even, odd = (right + left) / 2, (right - left) / 2
    if isinstance(node, Expectation) and (node.variance, node.mean) == (q, 0) and degree in (0, 2):
        return even * q ** (degree / 2), sp.S.Zero
    if isinstance(node, Gap) and node.args[1:] == (q, delta) and degree == 1:
        return (even**2 + odd**2) * delta, even**2 * sp.expand(Gap(sp.Abs(x), q, delta).doit() - delta)
    if pair and degree == 0:
        return even**2 + odd**2, -4 * odd**2 * sp.atan2(sp.sqrt(delta), sp.sqrt(2 * q - delta)) / sp.pi
    return None
