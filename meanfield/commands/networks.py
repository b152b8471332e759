"""The network of a command: a file, a perceptron, or a transformer block spelled by options; and the values that go with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import click
import numpy as np
import sympy as sp

import meanfield as mf
from meanfield.network_files import Written, read_network
from meanfield.parsing import parse_activation, parse_expression, parse_values

__all__ = ["Described", "NetworkCommand", "described", "grid_of", "read_settings", "starting", "tokens"]

NORMS: Final[dict[str, Callable[[], mf.Block]]] = {"layernorm": mf.LayerNorm, "rmsnorm": mf.RMSNorm, "derf": mf.Derf, "dyt": mf.DyT}

#: how a correlation is given, of which a run takes one
PAIR: Final = ("p", "c", "gap")


@dataclass(frozen=True)
class Described:
    """A network, and the values of its parameters and of a run as they were written."""

    network: mf.Block
    settings: Mapping[str, Written]
    run: Mapping[str, Written]

    def expressions(self, **options: str | None) -> dict[str, sp.Expr]:
        """The settings, and options that set a parameter, as formulas."""
        given = {name: Written(text, name) for name, text in options.items() if text is not None}
        for name in given.keys() & self.settings.keys():
            if self.settings[name].where == name:
                raise ValueError(f"{name} is given twice")
        written = {**self.settings, **given}
        for name, w in written.items():
            if ":" in w.text or "," in w.text:
                raise ValueError(
                    f"{w.where} = {w.text!r}: expected one number or formula here; --set {name}=... takes the place of a range"
                )
        return {name: parse_expression(w.text, w.where) for name, w in written.items()}

    def without(self, parameter: str) -> Described:
        """The same with a parameter left open that the file gives a value; one of --set stays."""
        return replace(self, settings={name: w for name, w in self.settings.items() if name != parameter or w.where == name})

    def values(self, **options: str | None) -> dict[str, float | np.ndarray]:
        """What a run needs, in numbers: the file's start, options in the place of what they say otherwise, and the settings."""
        given = {name: Written(text, name) for name, text in options.items() if text is not None}
        kept = {name: w for name, w in self.run.items() if name not in ("depth", "start", "record")}
        if given.keys() & set(PAIR):
            kept = {name: w for name, w in kept.items() if name not in PAIR}
        for name in (given.keys() | kept.keys()) & self.settings.keys() - {"n"}:
            raise ValueError(f"{self.settings[name].where}: {name} is given twice")
        return {name: parse_values(w.text, w.where) for name, w in ({"q": Written("1", "q")} | kept | given | dict(self.settings)).items()}

    def said(self, **options: str | None) -> dict[str, str]:
        """What the command line says, as it is written there: options and --set."""
        settings = {name: w.text for name, w in self.settings.items() if w.where == name}
        return settings | {name: text for name, text in options.items() if text is not None}

    def word(self, name: str, option: str | None, default: str) -> str:
        """An option, or what the file says, or the default."""
        if option is not None:
            return option
        return self.run[name].text if name in self.run else default

    def depth(self, option: int | None) -> int:
        """Repeats to run over."""
        if option is not None:
            return option
        if "depth" not in self.run:
            raise click.UsageError("Missing option '--depth' (or depth in the table [run] of a file).", click.get_current_context())
        number = parse_values(self.run["depth"].text, self.run["depth"].where)
        if not isinstance(number, float) or number != int(number):
            raise ValueError(f"{self.run['depth'].where} = {self.run['depth'].text}: expected a whole number")
        return int(number)


class NetworkCommand(click.Command):
    """A command that takes the parameters of a network by their names: --sigma_w VALUE is --set sigma_w=VALUE."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {option for parameter in self.get_params(ctx) for option in (*parameter.opts, *parameter.secondary_opts)}
        return super().parse_args(ctx, _by_name(ctx, args, known))


def _by_name(ctx: click.Context, words: list[str], known: set[str]) -> list[str]:
    """the words with `--name value` and `--name=value` as `--set name=value`, for names that are no options"""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or f"--{name}" in known or not name.isidentifier():
            found.append(word)
            continue
        value = text if equals else next(rest, "--")
        if value.startswith("--"):
            raise click.UsageError(f"{word} is no option; as a parameter of the network it takes a value: --{name} VALUE.", ctx)
        found += ["--set", f"{name}={value}"]
    return found


def described(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments that describe a network; it is called with a `Described` first."""

    @click.argument("file", required=False, metavar="[FILE.toml]")
    @click.option("--perceptron", metavar="EXPR", help="A perceptron with this activation, as tanh(x), for a transformer.")
    @click.option("--norm", type=click.Choice(list(NORMS)), help="Norm in front of each branch.  [default: layernorm]")
    @click.option("--activation", metavar="EXPR", help="Activation of the MLP, a function of x.  [default: relu(x)]")
    @click.option("--no-attention", is_flag=True, help="Leave the attention sublayer out.")
    @click.option("--no-softmax-derivative", is_flag=True, help="Leave the gradient through the softmax out.")
    @click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUES", help="A parameter, as sigma_V=0.64; or --sigma_V 0.64. Repeatable."
    )
    @functools.wraps(command)
    def wrapped(
        file: str | None, perceptron: str | None, norm: str | None, activation: str | None, no_attention: bool,
        no_softmax_derivative: bool, settings: tuple[str, ...], **rest: Any,
    ) -> None:  # fmt: skip
        words = {
            "--norm": norm,
            "--activation": activation,
            "--no-attention": no_attention,
            "--no-softmax-derivative": no_softmax_derivative,
        }
        spelled = [option for option, value in words.items() if value]
        sources = [name for name, value in (("a file", file), ("--perceptron", perceptron), *((o, o) for o in spelled[:1])) if value]
        if len(sources) > 1:
            raise ValueError(f"{sources[0]} and {sources[1]} are given: a network is described by one of them")
        own = read_settings(settings)
        if file is not None:
            read = read_network(file)
            command(Described(read.network, {**read.parameters, **own}, read.run), **rest)
        elif perceptron is not None:
            command(Described(mf.mlp(parse_activation(perceptron, "perceptron")), own, {}), **rest)
        else:
            command(Described(_transformer(norm, activation, no_attention, no_softmax_derivative), own, {}), **rest)

    return wrapped


def _transformer(norm: str | None, activation: str | None, no_attention: bool, no_softmax_derivative: bool) -> mf.Block:
    mlp, before = mf.MLP(parse_activation(activation or "relu(x)")), NORMS[norm or "layernorm"]()
    attention = None if no_attention else mf.Attention(softmax_derivative=not no_softmax_derivative)
    return mf.pre_norm(norm=before, attention=attention, mlp=mlp)


def read_settings(texts: tuple[str, ...]) -> dict[str, Written]:
    """What --set was given, by name."""
    found: dict[str, Written] = {}
    for setting in texts:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals:
            raise ValueError(f"--set {setting}: expected name=value, as sigma_V=0.64 or alpha=0.1:2:20")
        if not name.isidentifier() or name in ("net", "depth", "start", "record"):
            raise ValueError(f"--set {setting}: {name!r} is no name of a parameter")
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = Written(text, name)
    return found


def grid_of(values: dict[str, float | np.ndarray]) -> dict[str, Any]:
    """One dimension of a grid for each array, in the order given."""
    arrays = [name for name, v in values.items() if isinstance(v, np.ndarray)]
    shaped: dict[str, Any] = dict(values)
    for i, name in enumerate(arrays):
        shaped[name] = np.reshape(values[name], [-1 if j == i else 1 for j in range(len(arrays))])
    return shaped


tokens = click.option("-n", "--tokens", "n", metavar="VALUES", help="Tokens.")


def starting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where a run starts."""
    for option in (
        tokens,
        click.option("--gap", metavar="VALUES", help="1 minus their correlation."),
        click.option("-c", "--correlation", "c", metavar="VALUES", help="their correlation; or"),
        click.option("-p", "--covariance", "p", metavar="VALUES", help="Covariance between two tokens; or"),
        click.option("-q", "--variance", "q", metavar="VALUES", help="Variance of a component of the input.  [default: 1]"),
        click.option("--depth", type=int, help="Blocks."),
    ):
        command = option(command)
    return command
