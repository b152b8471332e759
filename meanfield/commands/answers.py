"""What a network does over many repeats: growth laws, critical points, phases."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

import meanfield as mf
from meanfield.commands.networks import Described, NetworkCommand, described, tokens
from meanfield.commands.output import JSON, LATEX, OUT, print_json, print_table, written
from meanfield.parsing import parse_expression, parse_number, parse_values
from meanfield.progress import busy

__all__ = ["critical", "growth", "phase"]


@click.command(cls=NetworkCommand)
@described
@tokens
@click.option(
    "--check",
    "depth",
    type=int,
    metavar="DEPTH",
    help="Also run it so deep and fit; exit code 1 if a constant disagrees, or none could be compared.",
)
@LATEX
@JSON
def growth(net: Described, n: str | None, depth: int | None, as_latex: bool, as_json: bool) -> None:
    """How moments and gradients grow with depth.

    Values of --set may be formulas; what is not set stays a symbol.
    """
    with busy("growth law"):
        law = mf.growth(net.network, **net.expressions(n=n))
        seen = None if depth is None else law.check(depth=depth)
        fits = () if seen is None else seen.fits
    if as_json:
        laws = {name: _record(getattr(law, name)) for name in ("q", "gap", "apjn")}
        parts = ("quantity", "name", "predicted", "fitted", "error", "verdict")
        checks: dict[str, Any] = {"check": [{part: getattr(f, part) for part in parts} for f in fits]} if seen else {}
        checks |= {"not_compared": list(seen.not_compared), "agrees": seen.agrees} if seen else {}
        print_json({"network": str(net.network), **laws, **checks})
    elif as_latex:
        click.echo(law.latex())
    else:
        for part in (law.q, law.gap, law.apjn):
            click.echo(repr(part))
        if seen is not None:
            rows = [[f.quantity, f.name, f"{f.predicted:.6g}", f"{f.fitted:.6g}", f"{f.error:.1g}", f.verdict] for f in fits]
            rows += [[quantity, "", "", "", "", "not compared"] for quantity in seen.not_compared]
            print_table(f"At depth {depth}", ["quantity", "constant", "predicted", "fitted", "error", "verdict"], rows, left=2)
    if seen is not None and not fits:
        click.echo("nothing could be compared: the law has no constant that this run tells", err=True)
    if any(f.verdict == "disagrees" for f in fits) or (seen is not None and not fits):
        raise click.exceptions.Exit(1)


def _record(law: mf.Growth) -> dict[str, Any]:
    names = (
        "kind",
        "exponent",
        "log_exponent",
        "rate",
        "stretch",
        "sign",
        "coefficient",
        "log_coefficient",
        "log_squared_coefficient",
        "settling",
        "correction",
        "limit",
        "crossover",
    )
    terms = [{"coefficient": c, "exponent": e} for c, e in law.terms]
    return {name: getattr(law, name) for name in names} | {"terms": terms, "reason": law.reason}


@click.command(cls=NetworkCommand)
@described
@tokens
@click.option(
    "-q", "--variance", "q", metavar="EXPR", help="The variance to keep: a number, or q for the critical line. Left out, it is solved for."
)
@LATEX
@JSON
def critical(net: Described, n: str | None, q: str | None, as_latex: bool, as_json: bool) -> None:
    """Parameters at which a network is critical.

    One or two are left open, the others set; without -q the variance is solved for as well.

    \b
    meanfield critical --perceptron "gelu(x)" -q 1
    meanfield critical --perceptron "tanh(x)" --sigma_b 0.2
    """
    at = None if q is None else parse_expression(q, "q")
    with busy("critical point"):
        found = mf.critical(net.network, q=at, **net.expressions(n=n))
    if as_json:
        about = {"status": found.status, "reason": found.reason, "chi": found.chi, "chi_parallel": found.chi_parallel}
        more = {"residuals": found.residuals, "bracket": found.bracket, "squares": found.squares, "exact": found.exact}
        print_json({"values": dict(found), "q": found.q, **about, **more, "others": [dict(o) for o in found.others]})
    elif as_latex:
        click.echo(found.latex())
    else:
        for point in (found, *found.others):
            click.echo(", ".join(f"{name} = {_shown(v)}" for name, v in point.items()) or "none")
        click.echo(f"{found.status}: {found.reason}")
    if found.status == "none":
        raise click.exceptions.Exit(1)


def _shown(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


@click.command(cls=NetworkCommand)
@described
@click.option("-q", "--variance", "q", default="1", show_default=True, metavar="NUMBER", help="The variance that the flow starts from.")
@OUT
@JSON
def phase(net: Described, q: str, out: str | None, as_json: bool) -> None:
    """Phases over two parameters of a network.

    Each of the two is a range first:last:count; the critical line is drawn and listed.

    \b
    meanfield phase --perceptron "tanh(x)" --sigma_w 0.5:3:100 --sigma_b 0.01:0.5:100 --out phase.png
    """
    values = {name: parse_values(w.text, w.where) for name, w in net.settings.items()}
    with busy("phases"):
        diagram = mf.phase_diagram(net.network, q=parse_number(q, "q"), **values)
    if as_json:
        names = ("phase", "q", "c", "gap", "chi", "chi_parallel", "xi_c", "xi_q")
        arrays = {name: getattr(diagram, name) for name in names}
        print_json({"axes": dict(diagram.axes), "parameters": dict(diagram.parameters), **arrays, "critical_lines": diagram.critical_lines})
    else:
        words, counts = np.unique(diagram.phase, return_counts=True)
        shares = [[str(w), f"{k / diagram.phase.size:.1%}"] for w, k in zip(words, counts, strict=True)]
        print_table("", ["phase", "share"], shares, left=1)
        for line in diagram.critical_lines:
            picked = line[np.unique(np.linspace(0, len(line) - 1, min(9, len(line))).round().astype(int))]
            shown = f", {len(picked)} of {len(line)} points" if len(picked) < len(line) else ""
            print_table(f"Critical line, chi = 1{shown}", list(diagram.axes), [[f"{v:.7g}" for v in point] for point in picked])
    if out is not None:
        written(diagram, out, as_json)
