"""Scaling rules: symbolic, or at the sizes of a network."""

from __future__ import annotations

import click
import numpy as np

import meanfield as mf
from meanfield.commands.networks import Described, NetworkCommand, described, grid_of, starting
from meanfield.commands.output import JSON, LATEX, formula, print_json, print_table
from meanfield.parsing import parse_activation, parse_expression, parse_number, parse_values

__all__ = ["scaling"]


@click.group()
def scaling() -> None:
    """Rules that scale with depth and width, symbolic or at numbers."""


def _say_rule(rule: mf.scaling.Rule, sizes: dict[str, str | None], as_json: bool, as_latex: bool) -> None:
    """a rule, and its values at the sizes that are given"""
    given = {name: np.asarray(parse_values(text, name)) for name, text in sizes.items() if text is not None}
    determined = given or not all(value.free_symbols for value in rule.values.values())
    numbers = rule(**given) if determined else {}
    if as_latex:
        click.echo(rule.latex())
    elif as_json:
        values = {name: {**formula(e), "value": numbers.get(name)} for name, e in rule.values.items()}
        steps = [{"reason": step.reason, **formula(step.equation)} for step in rule.steps]
        print_json(
            {"rule": rule.name, "values": values, "at": given, "steps": steps, "assumptions": rule.assumptions, "source": rule.source}
        )
    else:
        click.echo(repr(rule))  # with the decimals of its numbers
        for name, value in numbers.items():
            if rule.values[name].free_symbols:
                click.echo(f"{name} = {np.array2string(np.asarray(value), precision=10)}")


@scaling.command()
@click.option(
    "--optimizer", default="adam", show_default=True, metavar="NAME|K,J", help="sgd, adam, lamb, …, or powers of gradient and weight."
)
@click.option("--norm", type=click.Choice(["post", "pre"]), default="post", show_default=True, help="Where the norm stands.")
@click.option("-N", "--blocks", "n", metavar="VALUES", help="Transformer blocks.")
@LATEX
@JSON
def deepnorm(optimizer: str, norm: str, n: str | None, as_latex: bool, as_json: bool) -> None:
    """DeepNorm's alpha and lam for any optimiser.

    The skip and the gain that keep the first update of the loss independent of depth.
    """
    powers = optimizer.split(",")
    method = tuple(parse_expression(text, "optimizer") for text in powers) if len(powers) > 1 else optimizer
    _say_rule(mf.scaling.deep_norm(method, norm=norm), {"N": n}, as_json, as_latex)


@scaling.command()
@click.option("--stacks", type=click.Choice(["encoder", "decoder", "encoder-decoder"]), default="encoder", show_default=True)
@click.option("-N", "--blocks", "n", metavar="VALUES", help="Blocks of the encoder, or of the one stack.")
@click.option("-M", "--decoder-blocks", "m", metavar="VALUES", help="Blocks of the decoder beside an encoder.")
@LATEX
@JSON
def deepnet(stacks: str, n: str | None, m: str | None, as_latex: bool, as_json: bool) -> None:
    """The constants of the DeepNet paper."""
    _say_rule(mf.scaling.deepnet(stacks), {"N": n, "M": m}, as_json, as_latex)


@scaling.command()
@click.option("--fan-in", type=int, help="Columns of a weight matrix.")
@click.option("--fan-out", type=int, help="Its rows.")
@click.option("--blocks", type=int, help="Residual branches.")
@click.option("--d-key", type=int, help="Size of a head's keys.")
@LATEX
@JSON
def golden(fan_in: int | None, fan_out: int | None, blocks: int | None, d_key: int | None, as_latex: bool, as_json: bool) -> None:
    """Golden rules of width, depth and keys and queries."""
    _say_rule(mf.scaling.golden_rules(fan_in, fan_out, blocks, d_key), {}, as_json, as_latex)


@scaling.command(cls=NetworkCommand)
@described
@LATEX
@JSON
def degree(net: Described, as_latex: bool, as_json: bool) -> None:
    """Degree of the output in a gain of all weights.

    Whatever values the parameters have.
    """
    found = mf.scaling.degree(net.network)
    if as_latex:
        click.echo(found.latex())
    elif as_json:
        print_json(
            {"network": str(found.block), "degree": found.value, "by_matrix": dict(found.by_matrix), "reason": found.reason,
             "at_zero": found.at_zero, "at_infinity": found.at_infinity}
        )  # fmt: skip
    else:
        click.echo(repr(found))
        if found.value is None:
            click.echo(f"local exponent from {found.at_zero} (small gain) to {found.at_infinity} (large gain)")


@scaling.command()
@click.option("--activation", default="silu(x)", show_default=True, metavar="EXPR", help="A function of x.")
@click.option("--features", "s", default="128", show_default=True, metavar="S", help="Shared features.")
@click.option("-n", "--tokens", "n", default="512", show_default=True, metavar="N", help="Tokens.")
@click.option("--width", "d", default="768", show_default=True, metavar="D", help="Width.")
@click.option("--hidden", "e", default="1536", show_default=True, metavar="E", help="Hidden units.")
@LATEX
@JSON
def gau(activation: str, s: str, n: str, d: str, e: str, as_latex: bool, as_json: bool) -> None:
    """Magnitudes of a gated attention unit.

    The published diagonal estimate beside the whole law.
    """
    sizes = {name: parse_expression(text, name) for name, text in (("s", s), ("n", n), ("d", d), ("e", e))}
    found = mf.scaling.gau(parse_activation(activation), **sizes)
    if as_latex:
        click.echo(found.latex())
    elif as_json:
        parts = {"diagonal": found.diagonal, "full": found.full}
        names = ("A_ii", "A_ij", "ratio", "rms", "cosine", "alpha", "sublayers")
        print_json({part: {name: getattr(m, name) for name in names} for part, m in parts.items()} | {"crossover": found.crossover})
    else:
        click.echo(repr(found))


@scaling.command(cls=NetworkCommand)
@described
@starting
@click.option("--parameter", required=True, metavar="NAME", help="What to solve for.")
@click.option("--observable", type=click.Choice(list(mf.scaling.OBSERVABLES)), default="log_apjn", show_default=True)
@click.option("--target", required=True, metavar="VALUES", help="What the observable is to be.")
@click.option("--bracket", default="0.01:100", show_default=True, metavar="LOW:HIGH", help="Where the parameter is looked for.")
@LATEX
@JSON
def solve(
    net: Described,
    depth: int | None,
    parameter: str,
    observable: str,
    target: str,
    bracket: str,
    as_latex: bool,
    as_json: bool,
    **options: str | None,
) -> None:
    """The parameter that meets a target.

    The value at which an observable of the output equals it.
    """
    low, colon, high = bracket.partition(":")
    if not colon:
        raise ValueError(f"bracket = {bracket!r}: expected low:high")
    ends = parse_number(low, "bracket"), parse_number(high, "bracket")
    values = grid_of({**net.without(parameter).values(**options), "target": parse_values(target, "target")})
    found = mf.scaling.parameter_where(
        net.network, parameter, observable, values.pop("target"), depth=net.depth(depth), bracket=ends, **values
    )
    if as_latex:
        click.echo(found.latex())
    elif as_json:
        names = ("parameter", "observable", "value", "achieved", "target", "low", "high", "holds", "status")
        print_json({name: getattr(found, name) for name in names})
    else:
        columns = [np.ravel(np.asarray(v)) for v in (found.value, found.achieved, found.target, found.low, found.high, found.status)]
        rows = [[*(f"{v:.10g}" for v in row[:-1]), str(row[-1])] for row in zip(*columns, strict=True)]
        print_table("", [parameter, observable, "asked", "from", "to", "status"], rows)
