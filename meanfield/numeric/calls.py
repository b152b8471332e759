"""The quadrature calls of lowered expressions, what each is good for, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from meanfield.gaussian.cells import Cell, from_zero
from meanfield.gaussian.exchangeable import Power
from meanfield.gaussian.periods import Wave, period, wave
from meanfield.gaussian.singularities import poles, regular, steepens
from meanfield.gaussian.smoothness import almost_everywhere, in_pieces
from meanfield.numeric import primitives
from meanfield.numeric.integrands import Integrand, waving_row
from meanfield.numeric.lookup import KEPT, SCRATCH
from meanfield.numeric.members import Members, pattern_of
from meanfield.numeric.rounding import QUADRATURE_ULPS
from meanfield.numeric.work import LOOKUPS, Work

__all__ = ["Calls", "NotTabulated", "parameters_of"]

#: kinds named after all of their integrands
_EVERY = ("two", "weighed", "broadtwo", "exchangeable", "moved", "family")
#: by how much more is lost where one of two waves is interpolated
BLENDED = 32
#: how many of the first arguments are means
_MEANS = {"mean": 1, "cross": 1, "broadmean": 1, "broadcross": 1, "two": 2, "broadtwo": 2}


class NotTabulated(Exception):
    """A moment that tables do not hold."""


@dataclass
class Calls:
    """Collects quadrature calls and the functions under them."""

    by_quadrature: bool = False  # also where there is a closed form
    careful: bool = False  # count the rounding of integrands
    widely: bool = True  # also what oscillates for ever under Gaussians that are wide against a period
    from_tables: bool = False  # moments are looked up; NotTabulated where one cannot be
    stepping: bool = False  # from layer to layer: delta is at most 2 q to the bit, and angles share their arc tangents
    unchecked: bool = False  # nobody asks how much a closed form cancels
    integrands: dict[sp.Expr, Integrand] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    calls: dict[str, tuple[Integrand, ...]] = field(default_factory=dict)
    moments: set[tuple[sp.Expr, ...]] = field(default_factory=set)  # arguments of the calls that one function serves
    members: dict[sp.Expr, Members] = field(default_factory=dict)  # by function and law, moments that are taken together
    centred: bool = True  # no quadrature call has a mean

    def size(self, call: sp.Expr) -> sp.Expr:
        """The scale on which a quadrature call is exact: its value for a gap, the second moment or its root where signs may cancel."""
        name = type(call).__name__
        kind, integrands = name.partition("_")[0], self.calls[name]
        if self.from_tables:
            if kind == "gap":
                return self.call("gapweight", integrands, *call.args)
            second = self.call("cross", integrands, *call.args[:2], sp.S.Zero, 2 * call.args[1])
            return sp.sqrt(second) if kind == "mean" else second
        if kind in ("gap", "broadgap", "exchangeable", "moved"):
            return sp.Abs(call)
        if kind in ("broadmean", "broadcross"):
            second = self.call("broadsquare", integrands, *call.args[:2])
            return sp.sqrt(second) if kind == "broadmean" else second
        if kind in ("cross", "two") and self.careful:  # next to p = -q a function of one side is far below its second moment
            if kind == "two":
                return self.call("weighed", integrands, *call.args[:5]) / QUADRATURE_ULPS
            m, v, _, _, cov = call.args[:5]
            return self.call("weighed", integrands * 2, m, m, v, cov, v) / QUADRATURE_ULPS
        if kind in ("two", "broadtwo"):
            square = kind.replace("two", "square")
            m1, m2, v1, _, v2 = call.args[:5]
            return (BLENDED if kind == "broadtwo" else 1) * sp.sqrt(
                self.call(square, integrands[:1], m1, v1) * self.call(square, integrands[1:], m2, v2)
            )
        if kind == "projected":
            if not self.careful:
                return self.call("projectedsize", integrands, *call.args[:2])
            return self.call("measuredprojected", integrands, *call.args[:2]) / QUADRATURE_ULPS
        if kind == "mean" and self.careful:  # what is narrow against the Gaussian is far below the root of its second moment
            return self.call("measured", integrands, *call.args[:2]) / QUADRATURE_ULPS
        second = self.call("square", integrands, *call.args[:2])
        return sp.sqrt(second) if kind == "mean" else second

    def noise(self, call: sp.Expr) -> sp.Expr:
        """What the rounding r of its integrands f adds to the error of a gap by quadrature, in units of 2^-53, by Cauchy's inequality.
        The sizes of means and products hold it."""
        kind, integrands = type(call).__name__.partition("_")[0], self.calls[type(call).__name__]
        if not self.careful and kind in _MEANS:
            return self._beside(kind, call)
        if not self.careful or kind != "gap":
            return sp.S.Zero

        def of(kind: str, k: int, *law: sp.Expr) -> sp.Expr:
            return self.call(kind, integrands[k : k + 1], *law)

        v, d = call.args[:2]
        about = integrands[0].about
        law = (sp.Float(about[0]) if about else sp.S.Zero, v)
        noise = of("noise", 0, *law)
        varied = noise * (2 * sp.sqrt(call) + noise * sp.Float(2.0**-53)) + of("edges", 0, *law)
        sloped = d * (2 * of("noise", 1, *law) * sp.sqrt(of("square", 1, *law)) + of("edges", 1, *law))
        near = sp.Piecewise((sp.Min(varied, sloped), of("pointed", 0, *law) > 0), (sloped, True))
        return (1 - of("quiet", 0, *law)) * sp.Piecewise((varied, d > v / 10**4), (near, True))

    def _beside(self, kind: str, call: sp.Expr) -> sp.Expr:
        """what the rounding of points beside a mean may change, where a function varies on the scale of the deviation"""
        means = call.args[: _MEANS[kind]]
        variances = (call.args[2], call.args[4]) if len(means) == 2 else call.args[1:2]
        return self.size(call) * sp.Add(*[sp.Abs(m) / sp.sqrt(v) for m, v in zip(means, variances, strict=True) if m != 0])

    def integrand(self, g: sp.Expr) -> Integrand:
        g = in_pieces(almost_everywhere(g))
        return self.integrands.setdefault(g, Integrand(g, len(self.integrands)))

    def broad(self, h: sp.Expr, derivative: bool = False) -> Integrand | None:
        """A function that oscillates for ever, or its derivative, as what it is under wide Gaussians, where that is known: tables hold
        what they can resolve without."""
        if self.from_tables:
            return None
        g = almost_everywhere(h)
        found = wave(g)
        if found is None or period(g) is not None:
            return None
        return self._waving(*((almost_everywhere(regular(g)), found.along(regular)) if derivative else (g, found)))

    def broad_two(self, *functions: sp.Expr) -> tuple[Integrand, ...] | None:
        """Two functions, one of which oscillates for ever at least, as what they are under Gaussians that leave one of them no phase; of
        two that are periodic all harmonics are summed."""
        two = [almost_everywhere(h) for h in functions]
        if all(period(g) is not None for g in two):
            return None
        waves = [wave(g) for g in two]
        periods = next((found.periods for found in waves if found is not None), None)
        if periods is None:
            return None
        found = [self._waving(g, found or Wave(g, periods[:1])) for g, found in zip(two, waves, strict=True)]
        return tuple(i for i in found if i is not None) if None not in found else None

    def _waving(self, g: sp.Expr, found: Wave) -> Integrand | None:
        if waving_row(g, found) is None:
            return None
        return self.integrands.setdefault(sp.Tuple(g, sp.oo, *found.periods), Integrand(g, len(self.integrands), wave=found))

    def written_about(self, cell: Cell) -> Integrand:
        """A function about one of its singularities, less its value there, for what is in its cell."""
        about, f = (-float(cell.place), cell.low, cell.high), from_zero(cell.function)
        return self.integrands.setdefault(sp.Tuple(f, *map(sp.Float, about)), Integrand(f, len(self.integrands), about=about))

    def slope(self, h: sp.Expr) -> Integrand:
        """The derivative, which has a pole where h has a logarithm."""
        g = almost_everywhere(regular(h))
        if not poles(g):
            return self.integrand(g)
        return self.integrands.setdefault(sp.Tuple(g), Integrand(g, len(self.integrands), with_poles=True))

    def call(self, kind: str, integrands: tuple[Integrand, ...], *args: sp.Expr) -> sp.Expr:
        centred = all(m == 0 for m in args[: _MEANS.get(kind, 0)])
        if self.from_tables and not (kind in LOOKUPS and centred and all(i.about is None for i in integrands)):
            raise NotTabulated(kind)
        name = "_".join([kind, *(str(i.index) for i in (integrands if kind in _EVERY else integrands[:1]))])
        self.calls[name] = integrands
        self.centred = self.centred and centred
        return sp.Function(name, real=True)(*args, *([] if self.from_tables else parameters_of(integrands)))

    def quadrature(self, kind: str, functions: tuple[sp.Expr, ...], *args: sp.Expr) -> sp.Expr:
        """A quadrature call for functions of x."""
        return self.call(kind, tuple(self.integrand(f) for f in functions), *args)

    def member(self, law: sp.Tuple, powers: tuple[Power, ...], spread: bool) -> sp.Expr:
        """A moment among all those that are taken of one function under one law."""
        if self.from_tables:
            raise NotTabulated("member")
        together = self.together(law)
        name = f"member_{list(self.members).index(law)}"
        self.calls[name] = together.functions
        return sp.Function(name, real=True)(*law.args[1:], sp.Integer(together.place(pattern_of(powers, spread))))

    def together(self, law: sp.Tuple) -> Members:
        """The moments that are taken of a function under a law: the function, its variance and its gap."""
        if law not in self.members:
            f = law[0]
            self.members[law] = Members((self.integrand(f), self.integrand(regular(f))), bool(law[1].is_number))
        return self.members[law]

    @property
    def scratch(self) -> int:
        """How many numbers calls keep from one to the next."""
        if self.from_tables:
            return SCRATCH + KEPT * len(self.integrands)
        return sum(together.size for together in self.members.values())

    @property
    def tabulates(self) -> bool:
        """Whether every quadrature call is one that tables answer: of a variance, or of a variance and a covariance, of what is not too
        steep for them; of what has parameters tables say whether they do, at each of their values."""
        plain = (i for i in self.integrands.values() if not i.parameters)
        return self.from_tables and bool(self.calls) and not any(steepens(i.expression, i.with_poles) for i in plain)

    @property
    def tabulated(self) -> tuple[tuple[sp.Expr, sp.Expr | None], ...]:
        """Each integrand, with its derivative where its gap is called; what they are under wide Gaussians is no other."""
        slopes = {i[0].index: i[1].expression for name, i in self.calls.items() if name.startswith("gap_")}
        return tuple((i.expression, slopes.get(i.index)) for i in self.integrands.values() if i.wave is None)

    @property
    def shape_names(self) -> list[str]:
        """What the shapes of the integrands are called in printed bodies, in order."""
        return [f"shape_{i.index}" for i in self.integrands.values()]

    def unpacking(self) -> list[str]:
        """Lines that read the shapes at grid point g from their tables."""
        return [f"{name} = {name}s[g % {name}s.shape[0]]" for name in self.shape_names]

    @property
    def rounded(self) -> list[Integrand]:
        """Those whose own rounding is asked for."""
        asked = {i.index for name, own in self.calls.items() if name.startswith(("noise", "measured", "weighed")) for i in own}
        return [i for i in self.integrands.values() if i.index in asked]

    @property
    def work(self) -> Work:
        """What a point costs as plain Python."""
        calls = [(name.partition("_")[0], tuple(i.index for i in integrands)) for name, integrands in self.calls.items()]
        calls += [(kind, ()) for kind, *_ in self.moments]
        return Work(tuple(calls), sum(primitives.COSTS.get(name, 0.0) for name in self.used))


def parameters_of(integrands: tuple[Integrand, ...]) -> list[sp.Symbol]:
    """The parameters of integrands, by name."""
    return sorted({s for i in integrands for s in i.parameters}, key=lambda s: s.name)
