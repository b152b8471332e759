"""Documents: an article about a network, and the reproduction of the published results."""

from __future__ import annotations

from typing import Any

import click

import meanfield as mf
from meanfield.commands.networks import Described, NetworkCommand, described, starting
from meanfield.commands.output import JSON, print_json, print_table
from meanfield.progress import busy

__all__ = ["report", "reproduce"]


@click.command(cls=NetworkCommand)
@described
@starting
@click.option("--out", default="report.tex", show_default=True, metavar="FILE.tex", help="Where to write.")
@click.option("--pdf", is_flag=True, help="Typeset it, where pdflatex is installed.")
@JSON
def report(net: Described, depth: int | None, out: str, pdf: bool, as_json: bool, **options: str | None) -> None:
    """Write a LaTeX article about a network.

    Recursion, closed forms with their derivations, growth law (left out if it takes over a minute); with a depth a table of numbers.
    """
    from meanfield.reporting.article import typeset

    deep = depth is not None or "depth" in net.run
    run: dict[str, Any] = {"depth": net.depth(depth), **net.values(**options)} if deep else net.said(**options)
    with busy("article"):
        files = [mf.report(net.network, out, **run)]
    note = ""
    if pdf:
        made = typeset(files[0])
        files += [] if made is None else [made]
        note = "pdflatex is not installed: the article was not typeset" if made is None else ""
    if as_json:
        print_json({"network": str(net.network), "files": files, "note": note})
        return
    for file in files:
        click.echo(file)
    if note:
        click.echo(note)


@click.command()
@click.option("--out", default="results", show_default=True, metavar="FOLDER", help="Where to write.")
@JSON
def reproduce(out: str, as_json: bool) -> None:
    """Redo the published tables and figures, and the derivations.

    Those of the normalisation-free transformer, with a LaTeX page, beside the published numbers; the derivations as one PDF and one page
    of HTML. Exit code 1 if a number differs or a derivation fails: the others are written.
    """
    from meanfield.reproduction import reproduce as work
    from meanfield.reproduction.tables import largest

    done = work(out)
    if as_json:
        comparisons = [
            {"system": c.system, "norm": c.norm, "alpha": c.alpha, "quantity": c.quantity, "reference": float(c.reference),
             "computed": c.computed, "relative_deviation": c.deviation, "source": c.source}
            for c in done.comparisons
        ]  # fmt: skip
        curves = {"points": len(done.points), "largest_deviation": largest(p.deviation for p in done.points)}
        print_json(
            {"folder": done.folder, "files": [f.relative_to(done.folder).as_posix() for f in done.files], "reference_numbers": comparisons,
             "published_curves": curves, "failures": [str(f) for f in done.failures], "note": done.note}
        )  # fmt: skip
    else:
        rows = [[c.network, c.quantity, c.reference, c.rounded, f"{c.deviation:.0e}"] for c in done.comparisons]
        print_table("Reference numbers", ["network", "quantity", "reference", "computed", "deviation"], rows, left=2)
        kinds = dict.fromkeys((p.figure, p.system, p.quantity) for p in done.points)
        rows = []
        for kind in kinds:
            here = [p.deviation for p in done.points if (p.figure, p.system, p.quantity) == kind]
            rows.append([*kind, str(len(here)), f"{largest(here):.0e}"])
        print_table("Published curves", ["figure", "system", "quantity", "points", "largest difference"], rows, left=3)
        click.echo(f"{len(done.files)} files in {done.folder}")
        if done.note:
            click.echo(done.note)
        for failed in done.failures:
            click.echo(f"derivation failed: {failed}", err=True)
    if done.failures or not all(c.agrees for c in done.comparisons):
        raise click.exceptions.Exit(1)
