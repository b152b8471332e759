"""A network over depth: the theory, and the theory beside random networks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

import meanfield as mf
from meanfield.commands.networks import Described, NetworkCommand, described, grid_of, starting
from meanfield.commands.output import JSON, OUT, OUT_OR_STORE, STORE, print_json, print_table, written
from meanfield.numeric.runs import Run
from meanfield.parsing import parse_number
from meanfield.progress import busy

__all__ = ["propagate", "validate"]

#: layers up to which a table over depth shows all
ROWS: Final = 33

#: quantities over the layers of a run, and what a table calls them
CURVES: Final = {
    "q": "q",
    "q2": "q2",
    "p": "p",
    "c": "c",
    "gap": "1 - c",
    "log_apjn": "ln J^{L,l}",
    "log_apjn_forward": "ln J^{l,0}",
    "log_chi_product": "ln prod chi",
    "log_apjn_2": "ln J_2^{L,l}",
    "ntk_pair": "NTK_12",
}

AnyRun = Run | mf.GramRun | mf.PairRun


@click.command(cls=NetworkCommand)
@described
@starting
@click.option("--start", type=click.Choice(["token", "pooled"]), help="Gradient at the output.  [default: token]")
@click.option("--record", metavar="all|last|K|LIST", help="Layers to keep: every K-th, or a list 0,10,100.  [default: all]")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Processor or NVIDIA GPU; that takes the extra cuda.",
)
@OUT_OR_STORE
@JSON
def propagate(
    net: Described, depth: int | None, start: str | None, record: str | None, device: str, out: str | None, as_json: bool,
    **options: str | None,
) -> None:  # fmt: skip
    """Run a network over depth.

    VALUES is a number, a list 0.1,0.2, or a range first:last:count; several ranges make a grid. For ViT-L with Derf:

    \b
    meanfield propagate --norm derf --depth 128 -p 0.4 -n 197 --sigma_Q 0.64 --sigma_K 0.64 \\
        --sigma_V 0.64 --sigma_O 0.64 --sigma_1 0.64 --sigma_2 1.28 --alpha 0.1:2:20
    """
    repeats = net.depth(depth)
    values = grid_of(net.values(**options))
    kept = net.word("record", record, "all")
    how: dict[str, Any] = {"start": net.word("start", start, "token"), "record": _layers(kept), "device": device}
    if out is not None and Path(out).suffix == STORE:
        _print_stored(net.network, mf.propagate(net.network, repeats, out=out, **how, **values), values, as_json)
        return
    run = mf.propagate(net.network, repeats, out=None, **how, **values)
    varied = {name: v for name, v in values.items() if np.ndim(v)}
    if as_json:
        print_json(_record(net.network, run, values))
    elif varied:
        _print_ends(run, varied)
    else:
        _print_layers(run)
    if out is not None:
        written(run, out, as_json)


def _layers(text: str) -> str | int | list[int]:
    """all, last, every K-th, or a list"""
    if "," in text:
        return [_whole(parse_number(part, "record"), "record") for part in text.split(",")]
    return int(text) if text.isascii() and text.isdigit() else text


def _curves(run: AnyRun) -> dict[str, np.ndarray]:
    """what a run has of the curves over depth"""
    return {name: np.asarray(getattr(run, name)) for name in CURVES if hasattr(run, name)}


def _print_stored(net: mf.Block, sweep: mf.Sweep, values: dict[str, Any], as_json: bool) -> None:
    """where a grid is that may be larger than memory, and how many of its points went well"""
    words: Counter[str] = Counter()
    for block in sweep.status.ravel().blocks:
        words.update(block.compute().tolist())
    if as_json:
        print_json({**_about(net, sweep, values), "status": words, "store": sweep.store})
    else:
        click.echo(repr(sweep))
        click.echo(", ".join(f"{word}: {count} of {words.total()}" for word, count in words.most_common()))


def _about(net: mf.Block, run: AnyRun | mf.Sweep, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "network": str(net), "depth": run.depth, "start": getattr(run, "start", "token"), "grid": list(run.q.shape[:-1]),
        "input": {name: np.ravel(v) if np.ndim(v) else v for name, v in values.items()}, "layers": run.layers,
    }  # fmt: skip


def _record(net: mf.Block, run: AnyRun, values: dict[str, Any]) -> dict[str, Any]:
    more = {"gram": run.gram} if isinstance(run, mf.GramRun) else {}
    return {**_about(net, run, values), **_curves(run), **more, "status": run.status}


def _print_ends(run: AnyRun, varied: dict[str, np.ndarray]) -> None:
    """one row for each point of the grid: the values at the end of the network"""
    grid = run.q.shape[:-1]
    columns = {name: np.broadcast_to(v, grid).ravel() for name, v in varied.items()}
    for name, v in _curves(run).items():
        if name in ("q", "q2", "p", "c"):
            columns[f"{name}_L"] = v[..., -1].ravel()
        elif name in ("log_apjn", "log_chi_product"):
            columns[{"log_apjn": "ln J^{L,0}"}.get(name, CURVES[name])] = v[..., 0].ravel()
    status = np.ravel(run.status)
    rows = [[*(f"{v[i]:.7g}" for v in columns.values()), str(status[i])] for i in range(len(status))]
    print_table(f"After {run.depth} blocks", [*columns, "status"], rows)


def _print_layers(run: AnyRun) -> None:
    """one row for each layer, evenly thinned"""
    curves = {name: v for name, v in _curves(run).items() if name != "log_apjn_forward"}
    picked = np.unique(np.linspace(0, len(run.layers) - 1, min(ROWS, len(run.layers))).round().astype(int))
    rows = [[str(run.layers[i]), *(f"{v[i]:.7g}" for v in curves.values())] for i in picked]
    title = f"{run.depth} blocks" if run.status == "ok" else f"{run.depth} blocks: {run.status}"
    print_table(title, ["l", *(CURVES[name] for name in curves)], rows)


@click.command(cls=NetworkCommand)
@described
@starting
@click.option(
    "--width", type=int, default=256, show_default=True, help="Width of the random networks; half of it tells what finite width adds."
)
@click.option("--samples", type=int, default=8, show_default=True, help="Networks of each width.")
@click.option("--probes", type=int, default=4, show_default=True, help="Gradients drawn for each of them.")
@click.option("--heads", type=int, default=1, show_default=True, help="Heads of attention.")
@click.option("--hidden", type=float, default=1.0, show_default=True, help="Units inside an MLP, in widths.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--device", default="auto", show_default=True, help="As torch names it.")
@click.option("--start", type=click.Choice(["token", "pooled"]), help="Gradient at the output.  [default: token]")
@OUT
@JSON
def validate(
    net: Described, depth: int | None, width: int, start: str | None, out: str | None, as_json: bool, samples: int, probes: int, heads: int,
    hidden: float, seed: int, device: str, **options: str | None,
) -> None:  # fmt: skip
    """Theory beside random networks in torch.

    Needs the extra `torch`; exit code 1 if they disagree.

    \b
    meanfield validate --perceptron "erf(x)" --depth 4 -c 0.5 --sigma_w 1.5 --sigma_b 0.1
    """
    from meanfield.reference import compare

    repeats = net.depth(depth)
    values: dict[str, Any] = dict(net.values(**options))
    for name, v in values.items():
        if np.ndim(v):
            raise ValueError(f"{name}: random networks are drawn at one setting, give one number")
    if "n" in values:
        values["n"] = _whole(float(values["n"]), "n")
    with busy("random networks"):
        found = compare(
            net.network, width, repeats, samples=samples, probes=probes, start=net.word("start", start, "token"), heads=heads,
            hidden=hidden, seed=seed, device=device, **values,
        )  # fmt: skip
    if as_json:
        parts = ("theory", "measured", "error", "bias", "z")
        quantities = {name: {part: getattr(d, part) for part in parts} for name, d in found.differences.items()}
        sizes = {"width": found.wide.width, "samples": found.wide.samples, "layers": found.wide.layers, "limit": found.limit}
        print_json({"network": str(net.network), **sizes, **quantities, "agrees": found.agrees, "verdict": found.verdict})
    else:
        click.echo(repr(found))
    if out is not None:
        written(found, out, as_json)
    if not found.agrees:
        raise click.exceptions.Exit(1)


def _whole(value: float, name: str) -> int:
    if value != int(value):
        raise ValueError(f"{name} = {value!r}: expected a whole number")
    return int(value)
