r"""Activations shaped for a network's depth: gamma (phi(alpha x + beta) + delta) with maps of q and c that stay tame through it.

Deep kernel shaping (Martens et al. 2021, arXiv:2110.01765) asks for Q(1) = 1, Q'(1) = 1, C(0) = 0, C'(1) = psi, tailored
transformations (Zhang et al. 2022, arXiv:2203.08120) for Q(1) = 1, Q'(1) = 1, C'(1) = 1, C''(1) = kappa, or a slope of leaky ReLU; psi,
kappa and the slope are such that the largest slope C_f'(1), curvature C_f''(1) or value C_f(0) over subnetworks f is what is asked for.
With u = alpha z + beta everything is a moment of phi over N(beta, alpha^2), gamma and delta follow, and two equations are left. They
have several solutions: the answer is the one with the smallest |beta|, beta > 0 of a mirrored pair, the others are in `others`. The
published program (github.com/google-deepmind/dks) keeps what its random starts find first: mostly the same, or one of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import mpmath as mp
import sympy as sp

from meanfield import arguments
from meanfield.activation import Activation, check_activation
from meanfield.analysis.depth_maps import CENTRED, TOLD, increasing, network_map
from meanfield.analysis.near_linear import DKS, TAT, alpha, beta, centre, excess, moment, number, solutions, tilted
from meanfield.analysis.rectified_shapes import by_shape, by_value, homogeneous
from meanfield.analysis.shaped import NoShape, Shaped, answered
from meanfield.catalogue import activations
from meanfield.gaussian.landmarks import features
from meanfield.symbols import known

__all__ = ["deep_kernel_shaping", "tailored", "tailored_leaky_relu"]

x = known("x")


def deep_kernel_shaping(phi: Activation, net: Any, *, zeta: float = 1.5) -> Shaped:
    r"""Deep kernel shaping: Q(1) = 1, Q'(1) = 1, C(0) = 0, and the largest slope C_f'(1) over subnetworks f equal to zeta.

    A homogeneous phi (phi(t x) = t phi(x), t > 0) has Q'(1) = 1 at no shift: its one parameter is solved for, as the slope of leaky ReLU
    (`mf.leaky_relu(None)`), which is below 0 where ReLU is not steep enough. ReLU itself has only one shape left and misses Q'(1) = 1,
    which its status says.

    Parameters
    ----------
    phi : Activation
    net : whole number, Block or function (x, r)
        The structure: a number of nonlinear layers, a block whose activations are the layers, or the largest value over subnetworks
        as a function of where they start and of the map r of a layer.
    zeta : number > 1

    Raises
    ------
    TypeError, ValueError
        An argument out of range, or a network in which an activation sees another q than 1.
        That no input scale and shift meet the conditions is a status.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.deep_kernel_shaping(mf.erf, 100)
    Shaped(15.909 (erf(0.0782941 x + 0.58348) - 0.587871))
    >>> mf.deep_kernel_shaping(mf.leaky_relu(None), 100).parameters
    {'negative_slope': 0.85188...}
    """
    _checked(phi, zeta, "zeta", 1.0)
    compose = network_map(net, CENTRED)
    if not homogeneous(phi):
        _without_parameters(phi)

    def solve() -> Shaped:
        psi = increasing(lambda t: compose(mp.mpf(1), lambda y: t * y), zeta, mp.mpf(1), "zeta")
        return by_shape(phi, psi, zeta) if homogeneous(phi) else _anywhere(phi, lambda own: _steep(own, psi, zeta))

    return answered(phi, zeta, solve)


def _anywhere(phi: Activation, solve: Callable[[Activation], Shaped]) -> Shaped:
    """The shape of phi, found about a place where something happens and in units of its width where it is not about 0 and of size 1."""
    try:
        return solve(phi)
    except NoShape:
        for place, width in (tuple(sp.nsimplify(v, rational=True) for v in feature) for feature in features(phi.expression)):
            if (place, width) == (0, 1):
                continue
            with suppress(NoShape):
                return _put_back(solve(Activation(phi.expression.xreplace({x: place + width * x}))), phi, float(place), float(width))
        raise


def _put_back(found: Shaped, phi: Activation, place: float, width: float) -> Shaped:
    """the shape of phi that is one of x -> phi(place + width x)"""
    others = tuple(_put_back(other, phi, place, width) for other in found.others)
    return replace(found, phi=phi, input_scale=width * found.input_scale, input_shift=place + width * found.input_shift, others=others)


def _steep(phi: Activation, psi: mp.mpf, zeta: float) -> Shaped:
    """Q'(1) = 1 and C'(1) = psi, where gamma and delta make Q(1) = 1 and C(0) = 0"""
    f, slope = phi.expression - centre, _finite(phi, phi.derivative, "a jump, so that C'(1) is infinite")
    mean = moment(f)
    spread = moment(f**2) - mean**2
    along = tilted(f * slope) - mean * tilted(slope)
    rise = alpha**2 * moment(slope**2)
    equations = ((along / spread - 1) / excess, (rise / spread - 1) / excess - 1)

    def shaped(a: mp.mpf, b: mp.mpf, residuals: list[float]) -> Shaped:
        values = {alpha: a, beta: b}
        gamma, delta = 1 / mp.sqrt(number(spread, values)), -number(mean, values)
        found = dict(zip(("Q'(1)", "C'(1)"), residuals, strict=True))
        return Shaped(phi, float(a), float(b), float(gamma), float(delta), float(psi), float(zeta), found)

    return _first([shaped(*found) for found in solutions(phi, equations, psi - 1, DKS)])


def tailored(phi: Activation, net: Any, *, tau: float = 0.3) -> Shaped:
    r"""The tailored transformation of a smooth phi: Q(1) = 1, Q'(1) = 1, C'(1) = 1, and the largest C_f''(1) equal to tau.

    Parameters
    ----------
    phi : Activation
        Without kinks: for leaky ReLU see `tailored_leaky_relu`.
    net : whole number, Block or function (x, r)
        The structure, as for `deep_kernel_shaping`.
    tau : number > 0

    Raises
    ------
    TypeError, ValueError
        An argument out of range, or a network in which an activation sees another q than 1.
        A kink in phi, or that no input scale and shift meet the conditions, is a status.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.tailored(mf.erf, 50)
    Shaped(16.6144 (erf(0.0717879 x + 0.545828) - 0.56079))
    >>> mf.tailored(mf.relu, 50)
    Shaped(none: relu has a kink or a jump, so that C''(1) is infinite; a leaky ReLU is tailored by its slope, see tailored_leaky_relu)
    """
    _checked(phi, tau, "tau", 0.0)
    _without_parameters(phi)
    compose = network_map(net)

    def solve() -> Shaped:
        kappa = increasing(lambda t: compose(mp.mpf(0), lambda y: y + t), tau, mp.mpf(0), "tau")
        return _anywhere(phi, lambda own: _curved(own, kappa, tau))

    return answered(phi, tau, solve)


def _curved(phi: Activation, kappa: mp.mpf, tau: float) -> Shaped:
    """Q(1) = 1 and C''(1) = kappa, where gamma and delta make Q'(1) = C'(1) = 1"""
    f, slope, way_out = phi.expression - centre, phi.derivative.expression, "a leaky ReLU is tailored by its slope, see tailored_leaky_relu"
    curve = _finite(phi, phi.derivative.derivative, f"a kink or a jump, so that C''(1) is infinite; {way_out}")
    if curve == 0:
        raise NoShape(f"{phi!r} is linear, so that C''(1) = 0 at any scale and shift")
    rise = alpha**2 * moment(slope**2)
    shift = (rise - tilted(f * slope)) / (alpha**2 * moment(curve))
    second = moment(f**2) + 2 * shift * moment(f) + shift**2
    equations = ((second / rise - 1) / excess, alpha**4 * moment(curve**2) / rise / excess - 1)

    def shaped(a: mp.mpf, b: mp.mpf, residuals: list[float]) -> Shaped:
        values = {alpha: a, beta: b}
        gamma, delta = 1 / mp.sqrt(number(rise, values)), number(shift, values)
        found = dict(zip(("Q(1)", "C''(1)"), residuals, strict=True))
        return Shaped(phi, float(a), float(b), float(gamma), float(delta), float(kappa), float(tau), found)

    return _first([shaped(*found) for found in solutions(phi, equations, kappa, TAT)])


def _finite(phi: Activation, derivative: Activation, otherwise: str) -> sp.Expr:
    """a derivative of phi whose second moment is finite, or what phi has otherwise"""
    if derivative.expression.has(sp.DiracDelta):
        raise NoShape(f"{phi!r} has {otherwise}")
    return derivative.expression


def _first(found: list[Shaped]) -> Shaped:
    return replace(found[0], others=tuple(found[1:]))


def tailored_leaky_relu(net: Any, *, eta: float = 0.9) -> Shaped:
    r"""The leaky ReLU whose network has C_f(0) at most eta over subnetworks: its slope s, and sqrt(2/(1 + s^2)) in front.

    C(c) = [2 (1 - s)^2 kappa(c) + 2 s c]/(1 + s^2) with the arc-cosine kernel kappa.

    Parameters
    ----------
    net : whole number, Block or function (x, r)
        The structure, as for `deep_kernel_shaping`.
    eta : number between 0 and 1

    Raises
    ------
    TypeError, ValueError
        An argument out of range, or a network in which an activation sees another q than 1.
        An eta beyond that of ReLU (slope 0) is a status.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.tailored_leaky_relu(50).parameters
    {'negative_slope': 0.43052...}
    """
    eta = arguments.number(eta, "eta")
    if not 0 < eta < 1:
        raise ValueError(f"eta = {eta}: expected a number between 0 and 1")
    compose = network_map(net, TOLD)
    return answered(activations["leaky_relu"](None), eta, lambda: by_value(compose, eta))


def _checked(phi: Any, value: Any, name: str, low: float) -> None:
    check_activation(phi)
    if not arguments.number(value, name) > low:
        raise ValueError(f"{name} = {value}: it must be larger than {low:g}")


def _without_parameters(phi: Activation) -> None:
    left = sorted(s.name for s in phi.expression.free_symbols - {x})
    if left:
        raise ValueError(f"phi = {phi!r}: give numbers to its parameters {', '.join(left)}")
