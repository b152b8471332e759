"""The source of what lowered expressions call: quadrature functions with their integrands put in, primitives, node rules."""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp

from meanfield.fingerprint import source_of
from meanfield.gaussian import quadrature
from meanfield.gaussian.smoothness import steps_only
from meanfield.numeric import lookup, primitives
from meanfield.numeric.calls import parameters_of
from meanfield.numeric.integrands import WAVED, Integrand
from meanfield.numeric.members import FAMILY, Members
from meanfield.numeric.printing import source_name

__all__ = ["argument_name", "lookup_sources", "member_sources", "primitive_sources", "quadrature_sources", "rule_import"]

#: kind of quadrature function -> the kinds it calls, and for which of its integrands
_NEEDS: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = {
    "places": (),
    "reach": (("places", (0,)),),
    "mean": (("reach", (0,)),),
    "square": (("reach", (0,)),),
    "measured": (("reach", (0,)),),
    "projected": (("reach", (0,)),),
    "projectedsize": (("reach", (0,)),),
    "measuredprojected": (("reach", (0,)),),
    "noise": (("reach", (0,)),),
    "quiet": (),
    "pointed": (),
    "edges": (),
    "averaged": (),
    "scattered": (),
    "placed": (("smoothed", (0,)),),
    "mirrored": (("smoothed", (0,)),),
    "broadmean": (("reach", (0,)),),
    "broadsquare": (("reach", (0,)),),
    "broadcross": (("broadmean", (0,)), ("placed", (0,)), ("mirrored", (0,)), ("averaged", (0,))),
    "broadgap": (("reach", (1,)), ("variance", (0, 1)), ("broadclose", (0, 1)), ("scattered", (0,))),
    "blend": (("reach", (0,)), ("reach", (1,)), ("averaged", (0,))),
    "broadtwo": (("broadmean", (0,)), ("broadmean", (1,)), ("blend", (0, 1)), ("blend", (1, 0))),
    "smoothed": (("reach", (0,)),),
    "variance": (("reach", (0,)),),
    "unfolded": (("reach", (0,)),),
    "unfoldedsize": (("reach", (0,)),),
    "mehler": (("mean", (0,)), ("mean", (1,)), ("unfolded", (0,)), ("unfolded", (1,))),
    "mehlersize": (*((kind, (k,)) for kind in ("mean", "measured", "unfoldedsize") for k in (0, 1)),),
    "cross": (("reach", (0,)), ("mean", (0,)), ("smoothed", (0,)), ("mehler", (0, 0))),
    "rise": (),
    "leap": (),
    "close": (("rise", (1,)), ("leap", (1,))),
    "broadclose": (("close", (0, 1)),),
    "gap": (("reach", (0,)), ("reach", (1,)), ("variance", (0, 1)), ("close", (0, 1))),
    "fourier": (),
    "fouriertwo": (*((kind, (k,)) for kind in ("mean", "fourier") for k in (0, 1)),),
    "fouriersize": (*((kind, (k,)) for kind in ("mean", "measured", "fourier") for k in (0, 1)),),
    "two": (*((kind, (k,)) for kind in ("reach", "mean", "smoothed") for k in (0, 1)), ("mehler", (0, 1))),
    "weight": (("reach", (0,)),),
    "weighed": (("reach", (0,)), ("reach", (1,)), ("weight", (0,)), ("weight", (1,)), ("mehlersize", (0, 1))),
    "averages": (),
    "exchangeable": (("reach", (0,)), ("reach", (1,)), ("averages", (0, 1))),
    "movements": (),
    "moved": (("reach", (0,)), ("reach", (1,)), ("reach", (3,)), ("movements", (0, 1, 2, 3))),
    "given": (),
    "family": (("reach", (0,)), ("reach", (1,)), ("given", (0, 1, 2))),
    "member": (("family", FAMILY),),
}
#: the same where all of its integrands may be periodic
_SERIES_NEEDS = {"two": ("fouriertwo", (0, 1)), "weighed": ("fouriersize", (0, 1))}


def _turning(integrands: tuple[Integrand, ...]) -> bool:
    """whether all of them may be periodic, whatever their parameters are: code that is never run takes long to compile"""
    return all(i.expression.has(sp.sin, sp.cos) for i in integrands)


def _function(kind: str, integrands: tuple[Integrand, ...]) -> str:
    """the text of a quadrature function with the integrands' numbers and parameters put in"""
    first, second, third, last = (integrands[min(k, len(integrands) - 1)] for k in range(4))

    def listed(which: tuple[Integrand, ...]) -> str:
        return "".join(f", {name}" for name in (WAVED if which[0].wave else map(argument_name, parameters_of(which))))

    series = quadrature.SERIES.get(kind, "") if _turning(integrands) else ""
    text = quadrature.FUNCTIONS[kind].strip().replace("<series>", series).replace("<i>", str(first.index)).replace("<j>", str(second.index))
    if "<rule>" in text:
        points, rule = (1, "STEP") if second.wave is None and steps_only(second.expression) else (5, "GAP")
        text = text.replace("<points>", str(points)).replace("<rule>", rule)
    text = text.replace("<k>", str(third.index)).replace("<z>", listed((third,)))
    text = text.replace("<m>", str(last.index)).replace("<w>", listed((last,)))
    return text.replace("<x>", listed((first,))).replace("<y>", listed((second,))).replace("<both>", listed(integrands)) + "\n"


def argument_name(s: sp.Symbol) -> str:
    """A parameter inside a quadrature function: apart from the function's own variables"""
    return f"{source_name(s.name, set())}_"


def primitive_sources(used: set[str]) -> list[str]:
    """The source of primitives and of what they need"""
    needs = dict.fromkeys(name for primitive in sorted(used) for name in primitives.NEEDS.get(primitive, ()))
    constants = [f"{name} = {getattr(primitives, name)!r}" for name in needs if name.isupper()]
    functions = dict.fromkeys([*(name for name in needs if not name.isupper()), *sorted(used)])
    return ["\n".join(constants), *[source_of(getattr(primitives, name)) for name in functions]]


def rule_import() -> str:
    """The import of the node rules"""
    return "".join(f"from {module.__name__} import {', '.join(module.__all__)}\n" for module in quadrature.RULES)


def lookup_sources(calls: dict[str, tuple[Integrand, ...]]) -> list[str]:
    """What reads tables, and a function in place of each that sums."""
    constants = "\n".join(f"{name} = {getattr(lookup, name)!r}" for name in lookup.CONSTANTS)
    weighed = any(name.startswith("gapweight_") for name in calls)
    sources = [constants, *(source_of(f) for f in (*lookup.FUNCTIONS, *lookup.WEIGHTS * weighed))]
    for name, integrands in calls.items():
        own = float(lookup.SCRATCH + lookup.KEPT * integrands[0].index)
        sources.append(lookup.CALLS[name.partition("_")[0]].format(name=name, own=own))
    return sources


def quadrature_sources(calls: dict[str, tuple[Integrand, ...]]) -> list[str]:
    """The quadrature functions that are called, each with what it needs first."""
    wanted: dict[tuple[str, tuple[Integrand, ...]], None] = {}

    def want(kind: str, integrands: tuple[Integrand, ...]) -> None:
        series = (_SERIES_NEEDS[kind],) if kind in _SERIES_NEEDS and _turning(integrands) else ()
        for needed, which in _NEEDS[kind] + series:
            want(needed, tuple(integrands[k] for k in which))
        wanted.setdefault((kind, integrands))

    for name, integrands in calls.items():
        want(name.partition("_")[0], integrands)
    return [_function(kind, integrands) for kind, integrands in wanted if kind in quadrature.FUNCTIONS]


def member_sources(members: Iterable[Members]) -> list[str]:
    """What takes the moments of each law, from the pass over their function."""
    sources, own = [], 0
    for k, together in enumerate(members):
        sources.append(together.source(f"member_{k}", own))
        own += together.size
    return sources
