r"""Figures of answers: phase diagrams, growth laws and comparisons beside what they predict, gated attention."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.critical_points import Critical
from meanfield.analysis.growth_check import Check
from meanfield.analysis.phases import PhaseDiagram
from meanfield.analysis.points import FixedPoints
from meanfield.analysis.sensitivities import Sensitivity
from meanfield.analysis.shaped import Shaped
from meanfield.faces import plot
from meanfield.gaussian.resolution import real_function
from meanfield.numeric.beside import Beside
from meanfield.plotting.runs import LABELS
from meanfield.plotting.style import DISTINCT, colour_scale, given, letter, over_layers
from meanfield.reporting.quantities import MAPS, maps_where
from meanfield.scaling.gated_attention import GAUCurve

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = [
    "PHASE_LABELS",
    "plot_beside",
    "plot_check",
    "plot_critical",
    "plot_fixed_points",
    "plot_gau",
    "plot_phases",
    "plot_sensitivity",
    "plot_shaped",
]

#: what a phase diagram can show
PHASE_LABELS: Final = {name: f"${MAPS[name].latex}$" for name in ("chi", "chi_parallel", "xi_c", "xi_q", "c", "gap", "q")}

_GAU_LABELS: Final = {"RMS O": r"$\mathrm{RMS}\,O$", "d ln RMS/d ln lam": r"$d \ln \mathrm{RMS}\,O / d \ln \lambda$"}


#: layers at which networks are drawn beside theory
MEASURED: Final = 33

#: a colour for each class of growth, the same in all figures
_CLASSES: Final = dict(zip(("bounded", "exponential", "power", "logarithmic", "stretched", "faster"), DISTINCT[1:], strict=True)) | {
    "unresolved": "#999999",
    "infinite": DISTINCT[0],
    "quasi-polynomial": "#F0E442",  # the eighth colour of the same set
}


@plot.register(PhaseDiagram)
def plot_phases(diagram: PhaseDiagram, ax: matplotlib.axes.Axes | None = None, quantity: str = "chi") -> matplotlib.axes.Axes:
    r"""A quantity over the two parameters, with the critical line; where q grows without bound, or the quantity is infinite, the map is
    hatched, that of the growth of J where it decays.

    Raises
    ------
    ValueError
        An unknown quantity.
    ImportError
        matplotlib is not installed.
    """
    classes = {f"growth_{name}": words for name, words in diagram.growth.items()}
    if quantity not in PHASE_LABELS and quantity not in classes:
        raise ValueError(f"quantity = {quantity!r}: expected one of {', '.join([*PHASE_LABELS, *classes])}")
    ax = given(ax)
    (first, x), (second, y) = diagram.axes.items()
    handles = _draw_classes(ax, x, y, classes[quantity]) if quantity in classes else _draw_quantity(ax, diagram, quantity)
    for i, line in enumerate(diagram.critical_lines):
        ax.plot(*line.T, color=DISTINCT[0], linewidth=1.8, label=None if i else r"$\chi = 1$")
    if quantity == "growth_apjn":
        handles += _hatched(ax, diagram, diagram.apjn_sign < 0, "...", r"$\mathcal{J} \to 0$")
    handles += ax.get_legend_handles_labels()[0]
    if handles:
        ax.legend(handles=handles, loc="best")
    ax.set(xlabel=letter(first), ylabel=letter(second))
    return ax


def _draw_classes(ax: matplotlib.axes.Axes, x: np.ndarray, y: np.ndarray, words: np.ndarray) -> list[Any]:
    """a colour for each word; what the legend shows"""
    from matplotlib.colors import ListedColormap, to_rgb
    from matplotlib.patches import Patch

    handles = []
    for word in np.unique(words):
        red, green, blue = to_rgb(_CLASSES[str(word)])
        light = (0.45 + 0.55 * red, 0.45 + 0.55 * green, 0.45 + 0.55 * blue)
        ax.pcolormesh(x, y, np.where(words == word, 1.0, np.nan).T, cmap=ListedColormap([light]), shading="nearest", rasterized=True)
        handles.append(Patch(facecolor=light, label=str(word)))
    return handles


def _draw_quantity(ax: matplotlib.axes.Axes, diagram: PhaseDiagram, quantity: str) -> list[Any]:
    """a map in colours with its bar; what the legend shows"""
    from matplotlib.colors import CenteredNorm, Colormap, LogNorm, Normalize

    x, y = diagram.axes.values()
    away = (diagram.phase == "divergent") & (quantity not in ("c", "gap"))
    values = np.where(away, np.nan, getattr(diagram, quantity))
    seen = values[np.isfinite(values)]
    colours: str | Colormap = colour_scale(np.zeros(1)).get_cmap()
    norm = Normalize()
    if quantity == "chi" and seen.size and seen.min() < 1 < seen.max():
        colours, norm = "PuOr_r", CenteredNorm(1.0, float(max(1 - seen.min(), seen.max() - 1)))
    elif quantity in ("xi_c", "xi_q", "q") and seen.size and (seen > 0).all():
        norm = LogNorm(np.quantile(seen, 0.001), np.quantile(seen, 0.999))
    elif quantity in ("c", "gap"):
        norm = Normalize(float(np.min(seen, initial=0.0)), float(np.max(seen, initial=1.0)))
    mesh = ax.pcolormesh(x, y, values.T, cmap=colours, norm=norm, shading="nearest", rasterized=True)
    label = maps_where(diagram.phase == "apart")[quantity].latex
    if seen.size:
        bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02, label=f"${label}$")
        if isinstance(norm, CenteredNorm):
            bar.ax.set_ylim(seen.min(), seen.max())  # not what is as far from 1 on the other side
    endless = _hatched(ax, diagram, np.isposinf(values), "\\\\\\", rf"${label.partition(' =')[0]} = \infty$")
    return endless + _hatched(ax, diagram, diagram.phase == "divergent", "///", r"$q \to \infty$", "0.93")


def _hatched(ax: matplotlib.axes.Axes, diagram: PhaseDiagram, where: np.ndarray, hatch: str, label: str, fill: str = "none") -> list[Any]:
    """settings under a hatch, each the whole of its cell; what the legend shows"""
    from matplotlib.patches import Patch

    if not where.any():
        return []
    beyond = (np.pad(v, 1, "reflect", reflect_type="odd") for v in diagram.axes.values())
    edges = (np.repeat((v[1:] + v[:-1]) / 2, 2)[1:-1] for v in beyond)
    cells = np.repeat(np.repeat(where, 2, axis=0), 2, axis=1)
    ax.contourf(*edges, cells.T.astype(float), [0.5, 1.5], colors=[fill], hatches=[hatch])
    return [Patch(facecolor="white" if fill == "none" else fill, edgecolor=DISTINCT[0], hatch=hatch, linewidth=0.8, label=label)]


@plot.register(FixedPoints)
def plot_fixed_points(found: FixedPoints, ax: matplotlib.axes.Axes | None = None, quantity: str = "c") -> matplotlib.axes.Axes:
    r"""The map of q or of c beside the diagonal, fixed points on it (stable ones filled), and the steps of a pair from c = 1/2.

    The map of c is drawn at each q* > 0, that of q at each c*; where every variance is a fixed point, or none, at q = 1 and c = 1.

    Raises
    ------
    ValueError
        An unknown quantity, fixed points that were not looked for, or a map that takes everything to 0.
    ImportError
        matplotlib is not installed.
    """
    if quantity not in ("c", "q"):
        raise ValueError(f"quantity = {quantity!r}: expected one of c, q")
    if found.steps.step.unresolved:
        raise ValueError(found.reason)
    if found.steps.identical(np.ones(1))[0].at[0] == 0:
        raise ValueError("q' = 0 for every variance: there is no map to draw")
    ax = given(ax)
    inside = [f for f in found if f.q > 0]
    if quantity == "c":
        low = min([0.0, *(f.c for f in inside)])
        ends, gaps = (low, 1.0), np.concatenate([np.geomspace(1e-12, 1e-2, 40), np.linspace(0.01, 1 - low, 200)])
        name = "q^*" if inside or found.status == "continuum" else "q"
        for i, variance in enumerate(sorted({f.q for f in inside}) or [1.0]):
            new, delta, *_ = found.steps.pair(np.full(gaps.size, variance), variance * gaps)
            (line,) = ax.plot(1 - gaps, 1 - delta.at / new.at, color=DISTINCT[1 + i % 6], label=f"${name} = {variance:.4g}$", linewidth=1.4)
            if i == 0:
                ax.plot(*_steps(found, variance).T, color=line.get_color(), linewidth=0.7)
    else:
        around = [f.q for f in inside] or [1.0]
        ends = (min(around) / 30, max(around) * 30)
        at = np.geomspace(*ends, 200)
        for i, gap in enumerate(sorted({f.gap for f in inside} if found.steps.step.coupled else {0.0})):
            new = found.steps.pair(at, gap * at)[0] if gap else found.steps.identical(at)[0]
            ax.plot(at, new.at, color=DISTINCT[1 + i % 6], label=f"$c = {1 - gap:.4g}$", linewidth=1.4)
        ax.set(xscale="log", yscale="log")
    ax.plot(ends, ends, color=DISTINCT[0], linestyle=":", linewidth=1)
    stays = {getattr(f, quantity) for f in inside if f.stable}  # of one q some pairs may stay and some leave
    for stable, points in ((False, {getattr(f, quantity) for f in inside} - stays), (True, stays)):
        at = np.array(sorted(points))
        fill, label = (DISTINCT[0], "stable") if stable else ("white", "unstable")
        if at.size:
            ax.plot(at, at, "o", color=DISTINCT[0], markerfacecolor=fill, label=label, markersize=6, clip_on=False, zorder=3)
    ax.set(xlabel=f"${quantity}_l$", ylabel=f"${quantity}_{{l+1}}$")
    ax.legend(frameon=False)
    return ax


def _steps(found: FixedPoints, at: float) -> NDArray[np.float64]:
    """corners (c, c) and (c, c') of the steps that a pair takes from c = 1/2 at that variance"""
    gap, corners = 0.5, [(0.5, 0.5)]
    for _ in range(30):
        new, delta, *_ = found.steps.pair(np.array([at]), np.array([gap * at]))
        after = float(delta.at[0] / new.at[0])
        corners += [(1 - gap, 1 - after), (1 - after, 1 - after)]
        gap = max(after, 1e-300)
    return np.array(corners)


@plot.register(Critical)
def plot_critical(found: Critical, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """The critical line: two parameters for all q, with some values of q marked, or parameters over the letter that is left; where there
    is none, or none among the values drawn, an empty figure that says why.

    Raises
    ------
    ValueError
        It is no line in one letter.
    ImportError
        matplotlib is not installed.
    """
    if not found:
        return _empty(ax, found.reason)
    over, at, curves = found.curve()
    if np.isnan([*curves.values()]).all():
        return _empty(ax, f"the square of a parameter is negative for each {over} from {at[0]:g} to {at[-1]:g}")
    ax = given(ax)
    names = [name for name in curves if name in found.squares]
    if over == "q" and len(names) == 2:
        first, second = names
        x, y = curves[first], curves[second]
        ax.plot(x, y, color=DISTINCT[0], linewidth=1.8, label=r"$\chi = 1$")
        for variance in (0.1, 1.0, 10.0):
            i = int(np.argmin(np.abs(np.log(at / variance))))
            if np.isfinite(x[i] + y[i]):
                ax.plot(x[i], y[i], "o", color=DISTINCT[2], markersize=4, clip_on=False)
                ax.annotate(f"$q = {variance:g}$", (x[i], y[i]), xytext=(6, -3), textcoords="offset points", fontsize="small")
        ax.set(xlabel=letter(first), ylabel=letter(second))
    else:
        for i, name in enumerate(names):
            ax.plot(at, curves[name], color=DISTINCT[i], linewidth=1.8, label=letter(name))
        ax.set(xlabel=letter(over), ylabel=letter(names[0]) if len(names) == 1 else "", xscale="log" if over == "q" else "linear")
    if len(names) > 1:
        ax.legend(frameon=False)
    return ax


def _empty(ax: matplotlib.axes.Axes | None, reason: str) -> matplotlib.axes.Axes:
    """a figure of nothing, that says why"""
    ax = given(ax)
    ax.set_title(textwrap.fill(reason, 60), fontsize="medium")
    ax.set(xticks=[], yticks=[])
    return ax


@plot.register(Sensitivity)
def plot_sensitivity(found: Sensitivity, ax: matplotlib.axes.Axes | None = None, quantity: str = "log_apjn") -> matplotlib.axes.Axes:
    """Derivatives of one quantity at the last layer, a bar for each; over a grid from the least to the largest where there are any.

    Raises
    ------
    ValueError
        An unknown quantity, or 1 - c of a single input.
    ImportError
        matplotlib is not installed.
    """
    slopes = {"q": found.dq, "log_apjn": found.dlog_apjn} | ({} if found.dgap is None else {"gap": found.dgap})
    if quantity not in slopes:
        raise ValueError(f"quantity = {quantity!r}: expected one of {', '.join(slopes)}")
    ax = given(ax)
    names = list(slopes[quantity])
    known = [v[np.isfinite(v)] if np.isfinite(v).any() else np.zeros(1) for v in map(np.atleast_1d, slopes[quantity].values())]
    low, high = (np.array([float(end(v)) for v in known]) for end in (np.min, np.max))
    ax.use_sticky_edges = False
    if np.ndim(found.q):
        ax.barh(names, np.maximum(high - low, 1e-3 * np.ptp([low, high])), left=low, color=DISTINCT[6])
    else:
        ax.barh(names, low, color=DISTINCT[1])
    ax.axvline(0.0, color=DISTINCT[0], linewidth=0.8)
    labels = {"q": "$q_0$", "gap": "$1 - c_0$", "c": "$c_0$", "p": "$p_0$"}
    ax.set_yticks(range(len(names)), [labels.get(name) or letter(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(f"derivative of {LABELS[quantity]} at layer {found.depth}")
    return ax


@plot.register(Shaped)
def plot_shaped(shaped: Shaped, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """The shaped function and the one it was made from, over four standard deviations of its argument on either side."""
    ax = given(ax)
    at = np.linspace(-4, 4, 401)
    curves = [(shaped.phi, r"$\phi(x)$", "--")]
    if shaped.status == "none":
        ax.set_title("no shape meets the conditions", fontsize="medium")
    else:
        curves.append((shaped.activation, r"$\hat\phi(x)$", "-"))
    for phi, label, style in curves:
        ax.plot(at, real_function(phi.expression)(at), linestyle=style, color=DISTINCT[0 if style == "-" else 1], label=label)
    ax.set(xlabel="$x$")
    ax.legend(frameon=False)
    return ax


@plot.register(Check)
def plot_check(check: Check, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """ln J^{l, 0} of a run over l, and the predicted asymptote, whose free constant is set at the last layer.

    With powers of ln l the asymptote starts at l = 8; where it is ln J up to a factor that goes to 1, no constant is set.
    """
    ax = given(ax)
    run, law = check.run, check.law.apjn
    later = run.layers[run.layers > 0]
    ax.plot(later, run.log_apjn_forward[run.layers > 0], color=DISTINCT[0], label="recursion", linewidth=1.4)
    if law.asymptote is not None:
        values = {s: sp.Float(check.parameters[s.name]) for s in law.asymptote.free_symbols if s.name in check.parameters}
        with np.errstate(all="ignore"):
            value = sp.lambdify(sp.Symbol("l", positive=True), sp.N(law.asymptote.xreplace(values)), "numpy")
            predicted = value(later.astype(float)) + 0.0 * later
        ratio = law.kind == "stretched" and law.log_exponent is not None
        free = not ratio and np.isfinite(predicted[-1])  # J = 0 has no constant
        shift = run.log_apjn_forward[-1] - predicted[-1] if free else 0.0
        seen = later >= (1 if law.log_exponent is None and law.kind != "logarithmic" else 8)
        ax.plot(later[seen], (predicted + shift)[seen], color=DISTINCT[2], linestyle="--", label=f"predicted ({law.kind})", linewidth=1.4)
    ax.set_xscale("log")
    over_layers(ax)
    ax.set_ylabel(LABELS["log_apjn_forward"])
    ax.legend(frameon=False)
    return ax


@plot.register(Beside)
def plot_beside(beside: Beside, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """Theory as a line in the band of one standard deviation of a single draw, dotted with what finite width adds, measurements as points
    with their standard errors, at MEASURED layers at most; what is constant but for rounding fills no axis."""
    ax = given(ax)
    theory, band = beside.theory, beside.scatter
    at = np.unique(np.linspace(0, len(theory) - 1, MEASURED).round().astype(int))
    ax.fill_between(beside.layers, theory - band, theory + band, color=DISTINCT[6], alpha=0.4, linewidth=0, label=beside.scatter_is)
    ax.plot(beside.layers, theory, color=DISTINCT[0], linewidth=1.4, label="theory")
    ax.plot(beside.layers, theory + beside.bias, color=DISTINCT[0], linewidth=1, linestyle=":", label="theory + 1/width")
    points = beside.layers[at], beside.measured[at], beside.error[at]
    ax.errorbar(*points, color=DISTINCT[2], fmt="o", markersize=3.5, capsize=2, linewidth=1, label="measured")
    (low, high), least = ax.get_ylim(), 1e-3 * float(np.abs(theory).max())
    if high - low < least:
        ax.set_ylim((low + high - least) / 2, (low + high + least) / 2)
    ax.ticklabel_format(axis="y", useOffset=False)
    over_layers(ax)
    ax.set_ylabel(LABELS[beside.quantity])
    ax.set_title(textwrap.fill(beside.title, 70), fontsize="small")
    ax.legend(edgecolor="none")
    return ax


@plot.register(GAUCurve)
def plot_gau(curve: GAUCurve, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """The published estimate of a gated attention unit and its whole law, over tokens or gains; sizes on logarithmic axes."""
    ax = given(ax)
    for values, label, colour in ((curve.diagonal, "diagonal", DISTINCT[1]), (curve.full, "full", DISTINCT[0])):
        ax.plot(curve.at, values, label=label, color=colour)
    ax.set(xlabel=letter(curve.over), ylabel=_GAU_LABELS.get(curve.quantity, curve.quantity), xscale="log")
    if curve.over == "n":
        ax.set_yscale("log")
    ax.legend()
    return ax
