"""The commands of `meanfield`: each reads text, asks the library one question, and prints the answer as a table or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import click
import numpy as np
import sympy as sp
from rich import box
from rich.console import Console
from rich.table import Table

import meanfield as mf
from meanfield import symbols
from meanfield.gaussian.expectation import Node
from meanfield.numeric.runs import Run
from meanfield.parsing import parse_expression, parse_values

__all__ = ["group"]

NORMS: Final[dict[str, Callable[[], mf.Block]]] = {"layernorm": mf.LayerNorm, "rmsnorm": mf.RMSNorm, "derf": mf.Derf, "dyt": mf.DyT}

#: layers up to which a table over depth shows all
ROWS: Final = 33

#: characters of a line where the output is no terminal
WIDTH: Final = 160

#: exit code of `reproduce` where a derivation fails
FAILED: Final = 3

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(mf.__version__, prog_name="meanfield")
def group() -> None:
    """Signal propagation in deep networks at initialisation."""


def _print_json(value: Any) -> None:
    click.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """what json knows; what is no finite number becomes null"""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def _print_table(title: str, header: list[str], rows: list[list[str]], left: int = 0) -> None:
    """a table whose first `left` columns hold words; as wide as it needs to be where the output is no terminal"""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)


# -- reproduce ----------------------------------------------------------------------------------------------------------------------


@group.command()
@click.option("--out", default="results", show_default=True, metavar="FOLDER", help="Where to write.")
@_JSON
def reproduce(out: str, as_json: bool) -> int:
    """Tables, figures and LaTeX page of the normalisation-free transformer, beside the published numbers; and the derivations.

    The exit code is 3 if a derivation fails; the others are written.
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
        _print_json(
            {"folder": done.folder, "files": [f.relative_to(done.folder).as_posix() for f in done.files], "reference_numbers": comparisons,
             "published_curves": curves, "failures": [str(f) for f in done.failures], "note": done.note}
        )  # fmt: skip
        return FAILED if done.failures else 0
    rows = [[c.network, c.quantity, c.reference, c.rounded, f"{c.deviation:.0e}"] for c in done.comparisons]
    _print_table("Reference numbers", ["network", "quantity", "reference", "computed", "deviation"], rows, left=2)
    kinds = dict.fromkeys((p.figure, p.system, p.quantity) for p in done.points)
    rows = []
    for kind in kinds:
        here = [p.deviation for p in done.points if (p.figure, p.system, p.quantity) == kind]
        rows.append([*kind, str(len(here)), f"{largest(here):.0e}"])
    _print_table("Published curves", ["figure", "system", "quantity", "points", "largest difference"], rows, left=3)
    click.echo(f"{len(done.files)} files in {done.folder}")
    if done.note:
        click.echo(done.note)
    for failed in done.failures:
        click.echo(f"derivation failed: {failed}", err=True)
    return FAILED if done.failures else 0


# -- propagate ----------------------------------------------------------------------------------------------------------------------


@group.command()
@click.option("--norm", type=click.Choice(list(NORMS)), default="layernorm", show_default=True, help="Norm in front of each branch.")
@click.option("--activation", default="relu(x)", show_default=True, metavar="EXPR", help="Activation of the MLP, a function of x.")
@click.option("--no-attention", is_flag=True, help="Leave the attention sublayer out.")
@click.option("--no-softmax-derivative", is_flag=True, help="Leave the gradient through the softmax out.")
@click.option("--depth", type=int, required=True, help="Blocks.")
@click.option("-q", "--variance", "q", default="1", show_default=True, metavar="VALUES", help="Variance of a component of the input.")
@click.option("-p", "--covariance", "p", metavar="VALUES", help="Covariance between two tokens; or")
@click.option("-c", "--correlation", "c", metavar="VALUES", help="their correlation; or")
@click.option("--gap", metavar="VALUES", help="1 minus their correlation.")
@click.option("-n", "--tokens", "n", metavar="VALUES", help="Tokens.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUES", help="A parameter, as sigma_V=0.64 or alpha=0.1:2:20. Repeatable.")
@click.option("--start", type=click.Choice(["token", "pooled"]), default="token", show_default=True, help="Gradient at the output.")
@click.option("--record", default="all", show_default=True, metavar="all|last|K", help="Layers to keep.")
@_JSON
def propagate(
    norm: str, activation: str, no_attention: bool, no_softmax_derivative: bool, depth: int, q: str, p: str | None, c: str | None,
    gap: str | None, n: str | None, settings: tuple[str, ...], start: str, record: str, as_json: bool,
) -> None:  # fmt: skip
    """Run a transformer block over depth.

    VALUES is a number, a list 0.1,0.2, or a range first:last:count; several ranges make a grid. For ViT-L with Derf:

    \b
    meanfield propagate --norm derf --depth 128 -p 0.4 -n 197 --set sigma_Q=0.64 --set sigma_K=0.64 \\
        --set sigma_V=0.64 --set sigma_O=0.64 --set sigma_1=0.64 --set sigma_2=1.28 --set alpha=0.1:2:20
    """
    mlp = mf.MLP(mf.Activation(parse_expression(activation, "activation")))
    block, attention = NORMS[norm](), mf.Attention(softmax_derivative=not no_softmax_derivative)
    net: mf.Block = mf.Residual(block >> mlp) if no_attention else mf.pre_norm(norm=block, attention=attention, mlp=mlp)
    texts = {name: text for name, text in (("q", q), ("p", p), ("c", c), ("gap", gap), ("n", n)) if text is not None}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals:
            raise ValueError(f"--set {setting}: expected name=value, as sigma_V=0.64 or alpha=0.1:2:20")
        if not name.isidentifier() or name in ("net", "depth", "start", "record"):
            raise ValueError(f"--set {setting}: {name!r} is no name of a parameter")
        if name in texts:
            raise ValueError(f"{name} is given twice")
        texts[name] = text
    values = _grid({name: parse_values(text, name) for name, text in texts.items()})
    kept: str | int = int(record) if record.isascii() and record.isdigit() else record
    run = cast(Run, mf.propagate(net, depth, start=start, record=kept, **values))
    varied = {name: v for name, v in values.items() if np.ndim(v)}
    if as_json:
        _print_json(_run_record(run, values))
    elif varied:
        _print_ends(run, varied)
    else:
        _print_layers(run)


def _grid(values: dict[str, float | np.ndarray]) -> dict[str, Any]:
    """one dimension of a grid for each array, in the order given"""
    arrays = [name for name, v in values.items() if isinstance(v, np.ndarray)]
    shaped: dict[str, Any] = dict(values)
    for i, name in enumerate(arrays):
        shaped[name] = np.reshape(values[name], [-1 if j == i else 1 for j in range(len(arrays))])
    return shaped


def _curves(run: Run) -> dict[str, np.ndarray]:
    """what a run has of the curves over depth"""
    names = ("q", "p", "c", "gap", "log_apjn", "log_apjn_forward", "log_chi_product")
    return {name: np.asarray(getattr(run, name)) for name in names if hasattr(run, name)}


def _run_record(run: Run, values: dict[str, Any]) -> dict[str, Any]:
    status = run.status if isinstance(run.status, str) else run.status.tolist()
    return {
        "network": str(run.recursion.block), "depth": run.depth, "start": run.start, "grid": list(run.q.shape[:-1]),
        "input": {name: np.ravel(v) if np.ndim(v) else v for name, v in values.items()},
        "layers": run.layers, **_curves(run), "status": status,
    }  # fmt: skip


def _print_ends(run: Run, varied: dict[str, np.ndarray]) -> None:
    """one row for each point of the grid: the values at the end of the network"""
    grid = run.q.shape[:-1]
    columns = {name: np.broadcast_to(v, grid).ravel() for name, v in varied.items()}
    columns |= {f"{name}_L": v[..., -1].ravel() for name, v in _curves(run).items() if name in ("q", "p", "c")}
    columns |= {"ln J^{L,0}": run.log_apjn[..., 0].ravel(), "ln prod chi": run.log_chi_product[..., 0].ravel()}
    status = np.ravel(run.status)
    rows = [[*(f"{v[i]:.7g}" for v in columns.values()), str(status[i])] for i in range(len(status))]
    _print_table(f"After {run.depth} blocks", [*columns, "status"], rows)


def _print_layers(run: Run) -> None:
    """one row for each layer, evenly thinned"""
    labels = {"q": "q", "p": "p", "c": "c", "gap": "1 - c", "log_apjn": "ln J^{L,l}", "log_chi_product": "ln prod chi"}
    curves = {name: v for name, v in _curves(run).items() if name in labels}
    picked = np.unique(np.linspace(0, len(run.layers) - 1, min(ROWS, len(run.layers))).round().astype(int))
    rows = [[str(run.layers[i]), *(f"{v[i]:.7g}" for v in curves.values())] for i in picked]
    title = f"{run.depth} blocks" if run.status == "ok" else f"{run.depth} blocks: {run.status}"
    _print_table(title, ["l", *(labels[name] for name in curves)], rows)


# -- scaling ------------------------------------------------------------------------------------------------------------------------


@group.group()
def scaling() -> None:
    """Rules that scale with depth and width, symbolic or at numbers."""


_LATEX = click.option("--latex", "as_latex", is_flag=True, help="Print the derivation as LaTeX.")


def _say_rule(rule: mf.scaling.Rule, sizes: dict[str, str | None], as_json: bool, as_latex: bool) -> None:
    """a rule, and its values at the sizes that are given"""
    given = {name: np.asarray(parse_values(text, name)) for name, text in sizes.items() if text is not None}
    numbers = rule(**given) if given else {}
    if as_latex:
        click.echo(rule.latex())
    elif as_json:
        values = {name: {"expression": str(e), "latex": mf.latex(e), "value": numbers.get(name)} for name, e in rule.values.items()}
        steps = [{"reason": step.reason, "latex": mf.latex(step.equation)} for step in rule.steps]
        _print_json(
            {"rule": rule.name, "values": values, "at": given, "steps": steps, "assumptions": rule.assumptions, "source": rule.source}
        )
    else:
        click.echo(repr(rule))
        for name, value in numbers.items():
            click.echo(f"{name} = {np.array2string(np.asarray(value), precision=10)}")


@scaling.command()
@click.option(
    "--optimizer", default="adam", show_default=True, metavar="NAME|K,J", help="sgd, adam, lamb, …, or powers of gradient and weight."
)
@click.option("--norm", type=click.Choice(["post", "pre"]), default="post", show_default=True, help="Where the norm stands.")
@click.option("-N", "--blocks", "n", metavar="VALUES", help="Transformer blocks.")
@_LATEX
@_JSON
def deepnorm(optimizer: str, norm: str, n: str | None, as_latex: bool, as_json: bool) -> None:
    """Skip alpha and gain lam that keep the first update of the loss independent of depth."""
    powers = optimizer.split(",")
    method = tuple(parse_expression(text, "optimizer") for text in powers) if len(powers) > 1 else optimizer
    _say_rule(mf.scaling.deep_norm(method, norm=norm), {"N": n}, as_json, as_latex)


@scaling.command()
@click.option("--stacks", type=click.Choice(["encoder", "decoder", "encoder-decoder"]), default="encoder", show_default=True)
@click.option("-N", "--blocks", "n", metavar="VALUES", help="Blocks of the encoder, or of the one stack.")
@click.option("-M", "--decoder-blocks", "m", metavar="VALUES", help="Blocks of the decoder beside an encoder.")
@_LATEX
@_JSON
def deepnet(stacks: str, n: str | None, m: str | None, as_latex: bool, as_json: bool) -> None:
    """The constants of the DeepNet paper."""
    _say_rule(mf.scaling.deepnet(stacks), {"N": n, "M": m}, as_json, as_latex)


@scaling.command()
@click.option("--fan-in", type=int, help="Columns of a weight matrix.")
@click.option("--fan-out", type=int, help="Its rows.")
@click.option("--blocks", type=int, help="Residual branches.")
@click.option("--d-key", type=int, help="Size of a head's keys.")
@_LATEX
@_JSON
def golden(fan_in: int | None, fan_out: int | None, blocks: int | None, d_key: int | None, as_latex: bool, as_json: bool) -> None:
    """Golden rules of width, depth and keys and queries."""
    _say_rule(mf.scaling.golden_rules(fan_in, fan_out, blocks, d_key), {}, as_json, as_latex)


# -- derive -------------------------------------------------------------------------------------------------------------------------


@group.command()
@click.argument("expression")
@click.option("--latex", "as_latex", is_flag=True, help="Print LaTeX.")
@_JSON
def derive(expression: str, as_latex: bool, as_json: bool) -> None:
    """Gaussian moments of an activation in closed form, where there is one.

    EXPRESSION is a function of x, such as "erf(a*x)"; its other letters are parameters, taken to be positive.
    """
    phi = mf.Activation(_positive(parse_expression(expression)))
    letters = sorted(s.name for s in phi.expression.free_symbols - {mf.x})
    slope = phi.derivative
    answers = {
        "mean": (r"\mathbb{E}\,\phi(u)", "E phi(u)", phi.mean(mf.q)),
        "second_moment": (r"\mathbb{E}\,\phi(u)^2", "E phi(u)^2", phi.second_moment(mf.q)),
        "kernel": (r"\mathbb{E}\,\phi(u)\,\phi(v)", "E phi(u) phi(v)", phi.kernel(mf.q, mf.p)),
        "derivative_second_moment": (r"\mathbb{E}\,\phi'(u)^2", "E phi'(u)^2", slope.second_moment(mf.q)),
        "derivative_kernel": (r"\mathbb{E}\,\phi'(u)\,\phi'(v)", "E phi'(u) phi'(v)", slope.kernel(mf.q, mf.p)),
    }
    if as_json:
        moments = {name: {"expression": str(e), "latex": mf.latex(e), "closed": not e.has(Node)} for name, (_, _, e) in answers.items()}
        _print_json({"activation": str(phi.expression), "derivative": str(slope.expression), "positive": letters, **moments})
    elif as_latex:
        lines = [rf"{left} &= {mf.latex(e)}" for left, _, e in answers.values()]
        click.echo("\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}")
    else:
        domain = "".join(f"{letter} > 0; " for letter in letters)
        click.echo(f"phi(x) = {phi.expression};  {domain}u, v centred Gaussian of variance q and covariance p")
        width = max(len(left) for _, left, _ in answers.values())
        for _, left, e in answers.values():
            click.echo(f"{left:<{width}} = {e}")


def _positive(e: sp.Expr) -> sp.Expr:
    """the expression with its parameters positive: closed forms need the sign of a slope"""
    unknown = {s: sp.Symbol(s.name, positive=True) for s in e.free_symbols if s.name not in symbols.TABLE}
    return e.xreplace(unknown)
