"""A critical point as a problem: equations of chi = 1 and q' = q, the parameters that are open, and the ways to solve for these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.critical_points import Critical
from meanfield.analysis.curves import DIGITS, Curve, precise, rational
from meanfield.analysis.elimination import (
    Equations,
    at_each_variance,
    derived,
    exact_root,
    idle,
    linear_solution,
    relation,
    with_squares,
)
from meanfield.analysis.growth_rates import Undetermined
from meanfield.analysis.limits import REST
from meanfield.analysis.maps import at_zero, slope_at_zero, values_of
from meanfield.analysis.newton import solutions
from meanfield.analysis.ranges import MARGINAL
from meanfield.analysis.repeats import small
from meanfield.analysis.roots import Root, positive_roots
from meanfield.analysis.signs import GAP, sign
from meanfield.gaussian.series import NoExpansion
from meanfield.symbols import known

__all__ = ["Problem"]

Floats = NDArray[np.float64]
q = known("q")

#: variances among which critical points are looked for
LOWEST, HIGHEST = 1e-10, 1e10
#: and those at which it is seen whether a line is one of numbers
OUTWARD = (1.0, 10.0, 0.1, 100.0, 0.01, 1e3, 1e-3)
#: a square below this part of its terms is 0
ZERO = 1e-18
#: parameters this close to those of a degenerate point are its own
NEAR = 1e-5
#: what counts as none of a difference of chi from 1
IDLE = 1e-9
#: orders to which q' is expanded beside q = 0, one after the other where all terms cancel
ORDERS = (3, 6, 10)
#: 1/q of variances at which what is less than every power of q is looked at
FAINT = (5, 10, 20)
#: values that letters are tried at, and how nearly dq'/dq = 1 holds there where q* does not depend on them
LETTERS, SAME = (sp.Rational(1, 2), sp.Rational(4, 5)), 1e-12


@dataclass(frozen=True)
class Problem:
    """The equations at bound parameters and with all of them free, q' on identical inputs, what is bound, and what to solve for."""

    equations: Equations
    free: Equations
    new: sp.Expr
    bound: dict[sp.Symbol, sp.Expr]
    open: tuple[sp.Symbol, ...]

    # -- the three questions ------------------------------------------------------------------------------------------------
    def at(self, variance: sp.Expr) -> Critical:
        """chi = 1 and q' = q at a given q"""
        e = self.equations
        names, unknown = ("chi", "fixed"), self.open[:2]
        if e.long:
            return self._by_newton(names, variance)
        squares = linear_solution(tuple(getattr(e, name) for name in names[: len(unknown)]), unknown)
        if squares is None or idle(e, squares):
            line = self._whatever_q(variance)
            if line is not None:
                return line
            related = relation(e, self.open)
            if related is not None and related[0].is_number:  # a norm comes last
                if variance.is_number and abs(float(related[0] / variance - 1)) < SAME:
                    return self._line(*related)
                return Critical({}, "none", f"q' = {related[0]} whatever q is, not {variance}")
            if squares is not None:
                return Critical({}, "none", f"chi = 1 and q' = q at q = {variance} only where the activation has no weight")
            return self._by_newton(names, variance)
        squares = {s: square.subs(q, variance) for s, square in squares.items()}
        if variance.free_symbols or any(square.free_symbols for square in squares.values()):
            shown = _shown(squares)
            values = {name: sp.sqrt(square) for name, square in shown.items()}
            return Critical(values, "ok", "chi = 1 and q' = q", q=variance, chi=1, squares=shown)
        return self._point(squares, sp.N(variance, DIGITS)._to_mpmath(100))

    def on_the_line(self) -> Critical:
        """one open parameter, together with q"""
        e = self.equations
        if e.long:
            return self._by_newton(("chi", "fixed"), None)
        if self.letters:
            line = relation(e, self.open)
            if line is not None:
                return self._line(*line)
            every = self._whatever_q(q)
            if every is not None:
                return every
        for first, second in (("chi", "fixed"), ("fixed", "chi")):
            squares = linear_solution((getattr(e, first),), self.open)
            if squares is not None:
                return self._along(squares, (first,), second)
        return self._by_newton(("chi", "fixed"), None)

    def half_stable(self) -> Critical:
        """two open parameters, together with q, where dq'/dq = 1 too"""
        e = self.equations
        if e.long:
            return self._by_newton(("chi", "fixed", "marginal"), None)
        line = relation(e, self.open)
        if line is not None:
            return self._line(*line)
        squares = linear_solution((e.chi, e.fixed), self.open[:2])
        off = squares is not None and idle(e, squares)
        every = self._whatever_q(q) if squares is None or off or self.letters else None
        if every is not None:
            return every
        if off:
            return self._ordered([], "chi = 1 and q' = q at q > 0 only where the activation has no weight")
        if squares is None:
            return self._by_newton(("chi", "fixed", "marginal"), None)
        free = self._whatever_letters(squares) if self.letters else None
        return free or self._along(squares, ("chi", "fixed"), "marginal")

    def _whatever_letters(self, squares: dict[sp.Symbol, sp.Expr]) -> Critical | None:
        """the half-stable points in terms of what is left open, where their q are the same whatever that is, as beside a skip"""
        names = {s.name: s for e in (*self.open[2:], *self.bound.values()) for s in e.free_symbols}
        here, there = (
            {names[k]: at for k, at in zip(self.letters, (*ends, *ends, *ends), strict=False)} for ends in (LETTERS, LETTERS[::-1])
        )
        e = Equations(*(own.subs(here) for own in (self.equations.chi, self.equations.fixed, self.equations.marginal)))
        bound = {s: value.subs(here) for s, value in self.bound.items()} | {s: here[s] for s in self.open[2:]}
        found = Problem(e, self.free, self.new, bound, self.open[:2]).half_stable()
        along, points = with_squares(self.equations.marginal, squares), []
        for point in (found, *found.others):
            if point.status == "none" or point["q"] == 0:
                continue
            if abs(precise(along.subs(there), {q: mp.mpf(point["q"])})) > SAME:
                return None
            at = point.exact or sp.Float(point["q"])
            shown = {name: sp.factor_terms(square.subs(q, at)) for name, square in _shown(squares).items()}
            reason = f"q* is the same for each {' and '.join(self.letters)}: {' and '.join(shown)} in terms of that"
            values = {name: sp.sqrt(square) for name, square in shown.items()} | {"q": point["q"]}
            points.append(Critical(values, "line", reason, q=point["q"], chi=1, chi_parallel=1, squares=shown))
            points[-1].exact = point.exact
        origin = self._origin()
        points += [origin] if origin else []
        if points:
            points[0].others = tuple(points[1:])
        return points[0] if points else None

    def _whatever_q(self, variance: sp.Expr) -> Critical | None:
        """the line along which each q is fixed and critical, as of a homogeneous activation, where there is one"""
        squares = at_each_variance(self.equations, self.open)
        if squares is None:
            return None
        shown = _shown(squares)
        free = sorted(self._free(shown))
        reason = (
            f"each q is fixed and critical: {' and '.join(shown)} in terms of {', '.join(free)}" if free else "each q is fixed and critical"
        )
        values = {name: sp.sqrt(square) for name, square in shown.items()}
        return Critical(values, "line", reason, q=variance, chi=1, chi_parallel=1, squares=shown)

    @property
    def letters(self) -> tuple[str, ...]:
        """parameters that are neither solved for nor numbers"""
        return tuple(sorted({s.name for s in self.open[2:]} | {s.name for value in self.bound.values() for s in value.free_symbols}))

    def _free(self, squares: dict[str, sp.Expr]) -> set[str]:
        """the letters in squares"""
        return {s.name for square in squares.values() for s in square.free_symbols - {q}}

    # -- one equation in q ----------------------------------------------------------------------------------------------------
    def _numbers(self) -> dict[str, float]:
        """the bound parameters, for compiled expressions"""
        if self.letters:
            opened = f"{len(self.open)} parameters are open ({', '.join(s.name for s in self.open)}). " if len(self.open) > 2 else ""
            named = ", ".join(self.letters)
            raise ValueError(f"{opened}{named}: q* depends on what is open, by no formula. Give {named} as numbers, or q")
        return {s.name: float(value) for s, value in self.bound.items()}

    def _along(self, squares: dict[sp.Symbol, sp.Expr], solved: tuple[str, ...], name: str) -> Critical:
        """squares as functions of q that solve some equations, and the equation for q"""
        curve = Curve(tuple(getattr(self.free, n) for n in solved), getattr(self.free, name), self.open, self._numbers())
        found = positive_roots(curve, LOWEST, HIGHEST)
        if found.everywhere:
            return self._every(squares)
        points = [
            p for p in (self._polished(squares, getattr(self.equations, name), curve, root) for root in found.roots) if p.status != "none"
        ]
        points.sort(key=lambda p: (p.status != "ok", p.q))
        return self._ordered(points, self._without(name, found.first, found.last))

    def _without(self, name: str, first: int, last: int) -> str:
        """why there is no root"""
        if name == "marginal" and first == last:
            return f"dq'/dq {'>' if last > 0 else '<'} 1 at each point of the critical line: there is no half-stable point"
        names = " and ".join(s.name for s in self.open)
        return f"there is no {names} with chi = 1 and q' = q at any q from {LOWEST:g} to {HIGHEST:g}"

    def _polished(self, squares: dict[sp.Symbol, sp.Expr], equation: sp.Expr, curve: Curve, root: Root) -> Critical:
        """a root of the equation in q after one Newton step in more digits"""
        at = mp.mpf(root.at)
        slope = float(curve(np.array([root.at]))[1][0])
        if root.crossing and slope:
            with mp.workdps(DIGITS):
                exact = {s: rational(precise(square, {q: at})) for s, square in squares.items()}
                step = precise(with_squares(equation, exact), {q: at}) / slope
                at = at * (1 - step) if abs(step) < 1e-6 else at
        point = self._point(squares, at)
        if point.status != "none":
            point["q"] = float(at)
            point.bracket = (root.low, root.high)
            e = self.equations
            point.exact = exact_root(e.marginal - e.chi, float(at)) if equation == e.marginal else None
        return point

    def _every(self, squares: dict[sp.Symbol, sp.Expr]) -> Critical:
        tried: list[Critical] = []
        for at in map(mp.mpf, OUTWARD):
            tried.append(self._point(squares, at))
            if tried[-1].status != "none":
                break
        else:
            return tried[0]
        here, there, part = tried[-1], self._point(squares, 2 * at), len(tried) > 1
        if part or any(abs(here[name] - there[name]) > 1e-12 * abs(here[name]) for name in here):
            shown = _shown(squares)
            line = {name: sp.sqrt(square) for name, square in shown.items()}
            where = f", where the squares are not negative, as at q = {mp.nstr(at)} but not at q = 1" if part else ""
            return Critical(line, "line", f"each q is fixed and critical with these parameters{where}", q=q, chi=1, squares=shown)
        here.status, here.reason, here.q = "every q", "chi = 1 and q' = q at each variance", q
        return here

    def _origin(self) -> Critical | None:
        """the point q = 0, where phi(0) = 0 and there is no bias"""
        try:
            system = tuple(at_zero(x) for x in (self.equations.chi, self.equations.fixed))
        except NoExpansion:  # it depends on the value of an unknown
            return None
        unsolved = tuple(x for x in system if x.free_symbols & set(self.open))
        unknown = self.open[: len(unsolved)]
        if any(x.has(sp.nan, sp.oo, sp.zoo) for x in system) or any(x != 0 for x in system if not x.free_symbols):
            return None
        squares = linear_solution(unsolved, unknown) if unsolved and len(unknown) == len(unsolved) else None
        if squares is None or any(x.is_negative for x in squares.values()) or idle(self.equations, squares):
            return None
        along = sp.cancel(sp.together(slope_at_zero(with_squares(self.new.subs(self.bound, simultaneous=True), squares))))
        if not along.is_number or abs(float(along) - 1) > MARGINAL:
            return None
        shown = _shown(squares)
        exact = dict.fromkeys(("chi", "q", "chi_parallel"), 0.0)
        rest = {"q": 0.0, "chi": 1.0, "chi_parallel": 1.0, "residuals": exact, "squares": shown}
        free = sorted(self._free(shown))
        if free:
            line = {name: sp.sqrt(square) for name, square in shown.items()}
            return Critical(line | {"q": 0.0}, "line", f"q* = 0: {' and '.join(line)} in terms of {', '.join(free)}", **rest)
        values = {name: float(sp.sqrt(square)) for name, square in shown.items()}
        status, reason = self._beside_origin({s: sp.sqrt(square) for s, square in squares.items()})
        return Critical(values | {"q": 0.0}, status, reason, **rest)

    def _beside_origin(self, at: Mapping[sp.Symbol, sp.Expr]) -> tuple[str, str]:
        """status and reason of q = 0, where dq'/dq = 1: the sign of the leading term of q' - q there, beyond the linear one"""
        change = self.new.subs({**self.bound, **at}, simultaneous=True) - q
        try:
            for order in ORDERS:
                terms = small(change.xreplace({q: GAP}), order)
                leading = next((c for key, c in terms.items() if key != (sp.S.One, 0) and c != 0), None)
                if leading is not None and not leading.has(REST):
                    break
            if leading is None:
                side = 0 if sp.expand(change) == 0 else _faint_sign(change)
            else:
                side = None if leading.has(REST) else sign(leading)
        except (NoExpansion, Undetermined) as reason:
            return "unresolved", f"q* = 0, and whether q comes there is not told: {reason}"
        if side is None:
            return "unresolved", "q* = 0, and whether q comes there is not told by the leading terms of q' - q"
        return ("unstable", "q leaves this fixed point: dq'/dq = 1 and q' > q beside it") if side > 0 else ("ok", "q* = 0")

    # -- points -----------------------------------------------------------------------------------------------------------------
    def _point(self, squares: dict[sp.Symbol, sp.Expr], at: mp.mpf) -> Critical:
        """the parameters at a variance, if their squares are not negative"""
        with mp.workdps(DIGITS):
            numbers = {s: precise(square, {q: at}) for s, square in squares.items()}
            scale = max([mp.mpf(1), at, *map(abs, numbers.values())])
            numbers = {s: mp.mpf(0) if abs(value) < ZERO * scale else value for s, value in numbers.items()}
            for s, value in numbers.items():
                if value < 0:
                    return Critical({}, "none", f"{s.name}^2 = {mp.nstr(value, 6)} < 0 at q = {mp.nstr(at, 6)}")
            exact = {s: rational(value) for s, value in numbers.items()}
            residuals = {}
            for name, e in (("chi", self.equations.chi), ("q", self.equations.fixed)):
                residuals[name] = float(abs(precise(with_squares(e, exact), {q: at})))
            if residuals["q"] > 1e-15 * at:
                missed = f"chi = 1 leaves q' - q = {residuals['q']:.3g} at q = {mp.nstr(at, 6)}"
                return Critical({}, "none", missed)
            along = 1 + precise(with_squares(self.equations.marginal, exact), {q: at})
            values = {s.name: float(mp.sqrt(value)) for s, value in numbers.items()}
        stable = along <= 1 + MARGINAL
        status = "ok" if stable else "unstable"
        reason = "chi = 1 and q' = q" if stable else f"q leaves this fixed point: dq'/dq = {float(along):.6g} > 1"
        shown = _shown(squares)
        return Critical(values, status, reason, q=float(at), chi=1.0, chi_parallel=float(along), residuals=residuals, squares=shown)

    def _line(self, at: sp.Expr, s: sp.Symbol, square: sp.Expr) -> Critical:
        """chi = 1 where q' does not depend on q through an activation"""
        if at == sp.oo:
            return Critical({}, "everywhere", "q grows by the same amount in each repeat and chi -> 1 for any parameters", q=sp.oo, chi=1)
        shown = {s.name: sp.factor_terms(derived(square))}
        value = sp.sqrt(shown[s.name])
        others = sorted(self._free(shown))
        idle_ones = sorted(x.name for x in self.open if x != s and x.name not in others)
        if _negative(shown[s.name]):
            return Critical({}, "none", f"{s.name}^2 = {shown[s.name]} < 0", squares=shown)
        fixed = sp.factor_terms(derived(at).subs(s, value))
        whatever = f", for any {', '.join(idle_ones)}" if idle_ones else ""
        solved = f"{s.name} in terms of {', '.join(others)}" if others else f"{s.name} = {value}"
        reason = f"chi = 1 is a line: {solved}{whatever}"
        return Critical(
            {s.name: value, "q": fixed}, "line", reason, q=fixed, chi=1, chi_parallel=1 + self.equations.marginal, squares=shown
        )

    def _by_newton(self, system: tuple[str, ...], variance: sp.Expr | None) -> Critical:
        """parameters inside expectations: from many starts, in logarithms"""
        if variance is not None and variance.free_symbols:
            names = ", ".join(s.name for s in self.open)
            raise ValueError(f"q = {variance}: {names} cannot be solved for in symbols here, give a number")
        unknown = self.open if variance is not None else (*self.open, q)
        given = self._numbers() | ({} if variance is None else {"q": float(variance)})
        scaled = {"chi": self.free.chi, "fixed": self.free.fixed / q, "marginal": self.free.marginal}
        found = solutions(tuple(scaled[name] for name in system), unknown, given)
        points, without = [], set()
        for values, residual, determined in found:
            named = dict(zip((s.name for s in unknown), values, strict=True))
            at = named.get("q", float(variance or 0))
            if self.equations.long and (idle_ones := self._idle(system, {**given, **named})):
                without |= idle_ones
                continue
            if not LOWEST <= at <= HIGHEST:  # on the way to q = 0, where all of them hold in the limit
                continue
            along = 1 + float(values_of((self.free.marginal,), {**given, **named, "q": at}, 1.0)[0][0, 0])
            status = "line" if not determined else "ok" if along <= 1 + MARGINAL else "unstable"
            reason = {"line": "one point of a family: the equations do not determine each parameter", "ok": "chi = 1 and q' = q"}
            text = reason.get(status, f"q leaves this fixed point: dq'/dq = {along:.6g} > 1")
            points.append(Critical(named, status, text, q=at, chi=1.0, chi_parallel=along, residuals={"largest": residual}))
        points.sort(key=lambda p: (p.status == "unstable", p.q))
        wanted = {"chi": "chi = 1", "fixed": "q' = q", "marginal": "dq'/dq = 1"}
        missed = (
            f"no positive {' and '.join(s.name for s in unknown)} with {', '.join(wanted[name] for name in system)} found from any start"
        )
        if without and not points:
            held = " and ".join(wanted[name] for name in system)
            missed = f"{held} only where {', '.join(sorted(without))} may be twice as large all the same"
        return self._ordered(points, missed, variance is None and not self.equations.long)

    def _idle(self, system: tuple[str, ...], at: dict[str, float]) -> set[str]:
        """the open parameters that may be twice as large: a branch of no weight makes each network critical"""
        missed = tuple(getattr(self.free, name) for name in system)
        return {s.name for s in self.open if np.abs(values_of(missed, {**at, s.name: 2 * at[s.name]})[0]).max() < IDLE}

    def _ordered(self, points: list[Critical], missed: str, anywhere: bool = True) -> Critical:
        """the first of the points, that at q = 0 (where q may be anywhere) the last of them; or why there are none"""
        origin = self._origin() if anywhere else None
        if origin is not None:  # to the precision of Newton's method a little of its neighbourhood is a family of solutions
            points = [p for p in points if p.status != "line" or _apart(p, origin)] + [origin]
        if not points:
            return Critical({}, "none", missed)
        points[0].others = tuple(points[1:])
        return points[0]


def _faint_sign(change: sp.Expr) -> int | None:
    """the sign of q' - q next to q = 0 where it is less than every power of q there, if it is one at a few small variances"""
    signs = {sp.sign(sp.N(change.xreplace({q: sp.Rational(1, n)}), 10)) for n in FAINT}
    return next((side for side in (-1, 1) if signs == {side}), None)


def _apart(point: Critical, origin: Critical) -> bool:
    """whether a point is none of those next to q = 0, which are a line in what is left of the unknowns there perhaps"""
    at = {s: point[s.name] for value in origin.values() for s in sp.sympify(value).free_symbols}
    return any(abs(complex(point[name] - sp.sympify(value).subs(at))) > NEAR for name, value in origin.items() if name != "q")


def _negative(e: sp.Expr) -> bool:
    """whether a square that is proportional to the square of its symbols, or a number, is negative"""
    factor = sp.cancel(e / sp.Mul(*[s**2 for s in e.free_symbols]))
    return not factor.free_symbols and bool(sp.N(factor) < 0)


def _shown(squares: dict[sp.Symbol, sp.Expr]) -> dict[str, sp.Expr]:
    """with expectations in closed form where they have one"""
    return {s.name: derived(square) for s, square in squares.items()}
