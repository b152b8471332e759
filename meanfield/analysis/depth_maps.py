r"""What a network makes of a map of its nonlinear layers: the law of a network at q = 1, read for deep kernel shaping.

The map of correlations of a network composes the map r of a nonlinear layer with weighted means, as (skip^2 x + scale^2 f(x))/(skip^2 +
scale^2) where a branch f joins a skip. It is read off the block's own law, with a layer in the place of each activation that maps p
to r(p) where it sees q = 1, and has no map where it sees another q. The same composition of y -> psi y gives slopes at c = 1, of
y -> y + k curvatures at c = 1 (where slopes are 1). Shaping bounds the largest value over subnetworks, which for maps with r(x) >= x is
that of the whole, or of a branch by itself (Martens et al. 2021, arXiv:2110.01765; Zhang et al. 2022, arXiv:2203.08120).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.analysis.curves import DIGITS
from meanfield.analysis.shaped import NoShape
from meanfield.blocks.algebra import Block, Composite, Serial, law_on
from meanfield.blocks.elementary import Activate, Linear
from meanfield.blocks.laws import NO_WEIGHTS, Law, Signal
from meanfield.blocks.stacking import Repeat

__all__ = ["LayerMap", "NetworkMap", "crossing", "increasing", "network_map"]

#: digits beyond those of an answer, and steps of a search for one
SPARE, STEPS = 10, 200
#: by how much a sum of squares of doubles may miss 1
ROUNDED = 1e-9
#: a map of one nonlinear layer
LayerMap = Callable[[Any], Any]
#: (x, r) -> the largest value over subnetworks that start from x
NetworkMap = Callable[[Any, LayerMap], Any]
#: behind a stretch of a network the covariance, and the largest correlation on the way through it
Stretch = Callable[[Any, LayerMap], tuple[Any, Any]]
#: covariance before a stretch of a network, the map of a layer of p and q
before, of_layer = sp.Symbol("p", real=True), sp.Function("r")
#: what means a layer leaves: none, one that its map does not tell, and sqrt(r(0)), of inputs that have nothing in common
CENTRED, UNTOLD, TOLD = S.Zero, sp.Symbol("m", real=True), sp.Symbol("m_0", real=True)

KEEPS = (
    "an activation is shaped for q = 1, which weights keep with sigma_w = 1 and sigma_b = 0 (or letters for them), a residual branch with "
    "skip^2 + scale^2 = 1, a sum f + g with Scale(1/sqrt(2)) behind it; or put a norm before the activation"
)


def network_map(net: Any, mean: sp.Expr = UNTOLD) -> NetworkMap:
    """The map of a network: a number of nonlinear layers, a block, or a function (x, r) itself; the mean is that of a layer."""
    if isinstance(net, Block):
        if not _layers(net):
            raise ValueError(f"net = {net}: it has no activation to shape")
        own = _with_layers(net, mean)
        maps = [_correlations(part) for part in dict.fromkeys([own, *_branches(own)])]
        return lambda x, r: max(value(x, r) for value in maps)
    if callable(net):
        given: NetworkMap = net
        return given
    depth = arguments.check_integer(net, "net", 1)

    def repeated(x: Any, r: LayerMap) -> Any:
        for _ in range(depth):
            x = r(x)
        return x

    return repeated


@dataclass(frozen=True)
class Layer(Block):
    """A layer of any shape: p -> r(p) at q = 1, which stays, and a mean."""

    was: Activate
    mean: sp.Expr
    tokenwise = True

    def __repr__(self) -> str:
        return repr(self.was)

    def law(self, signal: Signal) -> Law:
        p = of_layer(signal.p, signal.q)
        return Law(Signal(S.One, p, 1 - p, self.mean, False, signal.mixed), sp.eye(2), S.One, tangent=NO_WEIGHTS)


def _with_layers(block: Block, own: sp.Expr) -> Block:
    """a block with a layer in the place of each activation, its letters for weights and biases 1 and 0"""
    if isinstance(block, Activate):
        return Layer(block, own)
    if isinstance(block, Linear):
        return Linear(*(v if v.is_number else kept for v, kept in ((block.sigma_w, 1), (block.sigma_b, 0))))
    if not isinstance(block, Composite):
        return block
    values = {f.name: getattr(block, f.name) for f in fields(block)}  # type: ignore[arg-type]
    for name, value in values.items():
        if isinstance(value, Block):
            values[name] = _with_layers(value, own)
        elif value is block.parts:
            values[name] = tuple(_with_layers(part, own) for part in value)
    return type(block)(**values)


def _branches(block: Block) -> list[Block]:
    """branches, and those inside of them"""
    parts = block.parts if isinstance(block, Composite) else ()
    own = [] if isinstance(block, (Serial, Repeat)) else list(parts)
    return own + [branch for part in parts for branch in _branches(part)]


def _layers(block: Block) -> int:
    """how many kinds of layers there are"""
    return sum(map(_layers, block.parts)) if isinstance(block, Composite) else int(isinstance(block, Activate))


def _correlations(net: Block) -> NetworkMap:
    """the largest c behind a network, or behind one of its parts, of c before it: a norm that takes a mean away takes it from c too"""
    _, through = _read(net, Signal(S.One, before, 1 - before))
    return lambda x, r: through(x, r)[1]


def _read(block: Block, signal: Signal) -> tuple[Signal, Stretch]:
    """the signal behind a block, and what it makes of p before it"""
    if isinstance(block, Serial):
        steps = []
        for part in block.blocks:
            signal, step = _read(part, signal)
            steps.append((step, 1))
        return signal, _in_turn(steps)
    if isinstance(block, Repeat):
        steps = []
        for k in range(block.times):
            after, step = _read(block.block, signal)
            if (after.q, after.mean, after.gaussian) == (signal.q, signal.mean, signal.gaussian):
                return after, _in_turn([*steps, (step, block.times - k)])
            steps.append((step, 1))
            signal = after
        return signal, _in_turn(steps)
    return _by_law(block, signal)


def _in_turn(steps: list[tuple[Stretch, int]]) -> Stretch:
    """stretches one after another, each so many times"""

    def through(x: Any, r: LayerMap) -> tuple[Any, Any]:
        largest = -mp.inf
        for step, times in steps:
            for _ in range(times):
                x, c = step(x, r)
                largest = max(largest, c)
        return x, largest

    return through


def _by_law(block: Block, signal: Signal) -> tuple[Signal, Stretch]:
    """the same of the law of a block: weighted means, written one after another, of p and of what layers make of them"""
    law = law_on(block, signal)
    numbers: dict[sp.Symbol, sp.Expr] = {}
    steps: list[tuple[sp.Symbol, sp.Expr]] = []
    for d in law.definitions:
        value = d.value.xreplace(numbers)
        if value.is_number:
            numbers[d.symbol] = value
        else:
            steps.append((d.symbol, value))
    q = _kept(law.output.q.xreplace(numbers), block)
    p, needed = law.output.p.xreplace(numbers), []
    letters = p.free_symbols
    for symbol, value in reversed(steps):
        if symbol in letters:
            letters |= value.free_symbols
            needed.append((symbol, value))
    terms = [_mean_of_layers(value, block) for value in [*(value for _, value in reversed(needed)), p]]
    written = [(symbol, value) for (symbol, _), value in zip(reversed(needed), terms, strict=False)]
    value = sp.lambdify([before, TOLD, of_layer], terms[-1], modules="mpmath", cse=lambda found: (written, found))
    with mp.workdps(DIGITS + SPARE):
        start, end = [sp.N(size, DIGITS + SPARE)._to_mpmath(mp.mp.prec) for size in (signal.q, q)]
        if any(abs(value(start, m, lambda y: y) / end - 1) > ROUNDED for m in (mp.mpf(0), mp.mpf(0.5))):
            raise ValueError(f"{block}: c = 1 does not stay 1, and what it makes of c is no composition of the maps of layers")
    left = any(TOLD in term.free_symbols for term in terms)

    def through(x: Any, r: LayerMap) -> tuple[Any, Any]:
        covariance = value(x, mp.sqrt(r(mp.mpf(0))) if left else 0, r)
        return covariance, covariance / end

    return replace(law.output, q=q, p=before, delta=q - before), through


def _kept(q: sp.Expr, block: Block) -> sp.Expr:
    """a variance behind a block, which is to be a number: 1 where it is one but for the rounding of weights"""
    if not q.is_number:
        raise ValueError(f"{block}: q behind it is not a number where q = 1 and its activations keep q = 1; {KEEPS}")
    return S.One if abs(sp.N(q, DIGITS) - 1) < ROUNDED else q


def _mean_of_layers(value: sp.Expr, block: Block) -> sp.Expr:
    """a linear form of covariances and of layers that see q = 1, these with p alone"""
    if value.has(UNTOLD):
        raise ValueError(
            f"{block}: it takes away the mean m that an activation leaves, so that c goes to (c - m^2)/(1 - m^2), and a tailored shape "
            "has an m: put RMSNorm in its place, or a Linear before it"
        )
    for layer in value.atoms(of_layer):
        q = layer.args[1]
        if not q.is_number or abs(sp.N(q, DIGITS) - 1) > ROUNDED:
            raise ValueError(f"{block}: an activation in it sees q = {arguments.shown(q)}, where the network starts from q = 1; {KEEPS}")
    own = {layer: sp.Dummy() for layer in value.atoms(of_layer)}
    form = sp.expand(value.xreplace(own))
    weights = {s: form.coeff(s) for s in form.free_symbols - {TOLD}}
    rest = sp.expand(form - sum(w * s for s, w in weights.items()))  # -m^2/(1 - m^2) behind a norm that takes a mean away
    if any(w.free_symbols - {TOLD} for w in (rest, *weights.values())) or (rest != 0 and rest.is_number):
        raise ValueError(
            f"{block}: what it makes of correlations is no weighted mean of them and of what the layers make of them, as with sigma_b = 0"
        )
    back = {dummy: of_layer(_mean_of_layers(layer.args[0], block)) for layer, dummy in own.items()}
    return rest + sp.Add(*((w if w.is_Rational else sp.N(w, DIGITS + SPARE)) * back.get(s, s) for s, w in weights.items()))


def increasing(f: LayerMap, value: float, start: mp.mpf, name: str) -> mp.mpf:
    """The argument beyond `start` at which a function that increases from there reaches a value."""
    with mp.workdps(DIGITS + SPARE):
        step = mp.ldexp(1, -40)
        while f(start + step) < value:
            step *= 2
            if step > 1e12:
                raise NoShape(f"{name} = {value}: no map of the layers gives this network so much")
        return crossing(lambda t: f(t) - value, start, start + step)


def crossing(f: LayerMap, low: mp.mpf, high: mp.mpf) -> mp.mpf:
    """Where a monotone function changes its sign between two points, to 25 digits (the method of Anderson and Bjorck 1973)."""
    with mp.workdps(DIGITS + SPARE):
        below, above = f(low), f(high)
        for _ in range(STEPS):
            if above == 0:
                return high
            at = high - above * (high - low) / (above - below)
            value, step = f(at), abs(at - high)
            if value * above < 0:
                low, below = high, above
            else:
                left = 1 - value / above
                below *= left if left > 0 else mp.mpf(1) / 2
            high, above = at, value
            if step <= abs(at) * mp.mpf(10) ** -DIGITS:
                return at
    raise ArithmeticError(f"no sign change was enclosed between {float(low)} and {float(high)} in {STEPS} steps")
