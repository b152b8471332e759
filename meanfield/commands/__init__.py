"""The commands of `meanfield`: each reads text, asks the library one question, and prints the answer as a table or as JSON.

derive, moments          an activation: its closed forms with their steps; its numbers
propagate, validate      a network over depth; beside random networks in torch
growth, critical, phase  growth laws, critical weights, phase diagrams
scaling ...              degrees, DeepNorm, golden rules
report, reproduce        an article about a network; the tables, figures and derivations of the sources

A network is spelled by options as --norm and --activation, or --perceptron, or a TOML file (`python -m pydoc meanfield.network_files`);
parameters are numbers or start:stop:count. Exit codes: 0 done, 1 a check failed or a library of the extras is missing, 2 the input was
refused, 130 interrupted.
"""

from __future__ import annotations

import click

import meanfield as mf
from meanfield.commands.activations import derive, moments
from meanfield.commands.answers import critical, growth, phase
from meanfield.commands.depth import propagate, validate
from meanfield.commands.documents import report, reproduce
from meanfield.commands.scaling import scaling

__all__ = ["group"]

_EPILOG = """
\b
Networks: a transformer block spelled by options, a perceptron, or a TOML file:
    python -m pydoc meanfield.network_files
Completion, for bash (zsh and fish likewise):
    eval "$(_MEANFIELD_COMPLETE=bash_source meanfield)"
Exit codes:
    0 done, 1 a check failed or a library is missing, 2 the input was refused, 130 interrupted
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}, epilog=_EPILOG)
@click.version_option(mf.__version__, prog_name="meanfield")
def group() -> None:
    """Signal propagation in deep networks at initialisation."""


for _command in (derive, moments, propagate, growth, critical, phase, scaling, report, reproduce, validate):
    group.add_command(_command)
