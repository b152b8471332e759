"""Questions about an activation: its Gaussian moments, in closed form and in numbers."""

from __future__ import annotations

import click
import mpmath
import numpy as np
import sympy as sp

import meanfield as mf
from meanfield import arguments
from meanfield.commands.networks import grid_of, read_settings
from meanfield.commands.output import JSON, LATEX, formula, print_json, print_table
from meanfield.gaussian.derivation import Derivation
from meanfield.gaussian.expectation import Node
from meanfield.parsing import parse_activation, parse_expression, parse_values

__all__ = ["derive", "moments"]

#: name -> LaTeX, text
TITLES = {
    "mean": (r"\mathbb{E}\,\phi(u)", "E phi(u)"),
    "second_moment": (r"\mathbb{E}\,\phi(u)^2", "E phi(u)^2"),
    "kernel": (r"\mathbb{E}\,\phi(u)\,\phi(v)", "E phi(u) phi(v)"),
    "derivative_second_moment": (r"\mathbb{E}\,\phi'(u)^2", "E phi'(u)^2"),
    "derivative_kernel": (r"\mathbb{E}\,\phi'(u)\,\phi'(v)", "E phi'(u) phi'(v)"),
}


def _answers(phi: mf.Activation) -> dict[str, sp.Expr]:
    slope = phi.derivative
    found = (phi.mean(mf.q), phi.second_moment(mf.q), phi.kernel(mf.q, mf.p), slope.second_moment(mf.q), slope.kernel(mf.q, mf.p))
    return dict(zip(TITLES, found, strict=True))


@click.command()
@click.argument("expression")
@click.option("--steps", type=click.Choice(list(TITLES)[:3]), help="The derivation of one of them, with its certificate.")
@LATEX
@JSON
def derive(expression: str, steps: str | None, as_latex: bool, as_json: bool) -> None:
    """Gaussian moments of an activation, derived.

    In closed form, where there is one.

    EXPRESSION is a function of x, such as "erf(a*x)"; its other letters are parameters, taken to be positive.
    """
    phi = parse_activation(expression, "expression")
    if steps is not None:
        _print_steps(phi.derive(steps), as_latex, as_json)
        return
    letters = sorted(s.name for s in phi.expression.free_symbols - {mf.x})
    answers = _answers(phi)
    if as_json:
        found = {name: {**formula(e), "closed": not e.has(Node)} for name, e in answers.items()}
        print_json({"activation": str(phi.expression), "derivative": str(phi.derivative.expression), "positive": letters, **found})
    elif as_latex:
        lines = [rf"{TITLES[name][0]} &= {mf.latex(e)}" for name, e in answers.items()]
        click.echo("\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}")
    else:
        domain = "".join(f"{letter} > 0; " for letter in letters)
        click.echo(f"phi(x) = {phi.expression};  {domain}u, v centred Gaussian of variance q and covariance p")
        width = max(len(left) for _, left in TITLES.values())
        for name, e in answers.items():
            click.echo(f"{TITLES[name][1]:<{width}} = {e}")


def _print_steps(d: Derivation, as_latex: bool, as_json: bool) -> None:
    if as_latex:
        click.echo(d.latex())
    elif as_json:
        steps = [{"rule": s.rule, "before": s.before, "after": s.after} for s in d.steps]
        claims = [{"statement": c.statement, "how": c.how, "holds": c.holds, "residual": c.residual} for c in d.certificate.claims]
        print_json({"quantity": d.quantity, "result": d.result, "steps": steps, "certificate": claims, "holds": d.certificate.holds})
    else:
        for s in d.steps:
            click.echo(f"{s.rule}: {s.before}\n    = {s.after}")
        click.echo(f"{d.quantity} = {d.result}")
        for c in d.certificate.claims:
            click.echo(f"certificate {'holds' if c.holds else 'FAILS'}: {c.statement} ({c.how})")
    if not d.certificate.holds:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("expression")
@click.option("-q", "--variance", "q", default="1", show_default=True, metavar="VALUES", help="Variance of u and v.")
@click.option("-p", "--covariance", "p", metavar="VALUES", help="Their covariance: for the kernels.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUES", help="A parameter of the activation, as a=0.5. Repeatable.")
@click.option("--digits", type=int, help="So many correct digits, for one setting.")
@JSON
def moments(expression: str, q: str, p: str | None, settings: tuple[str, ...], digits: int | None, as_json: bool) -> None:
    """Gaussian moments of an activation in numbers.

    VALUES is a number, a list 0.1,0.2, or a range first:last:count; several ranges make a grid.
    """
    phi = parse_activation(expression, "expression")
    texts = {"q": q} | ({} if p is None else {"p": p}) | {name: w.text for name, w in read_settings(settings).items()}
    formulas = {name: e for name, e in _answers(phi).items() if p is not None or "kernel" not in name}
    values = grid_of({name: parse_values(text, name) for name, text in texts.items()})
    _check(phi, values)
    if digits is not None:
        if arrays := [name for name, v in values.items() if np.ndim(v)]:
            raise ValueError(f"{arrays[0]}: --digits takes one number for each name")
        _print_digits(formulas, {name: parse_expression(text, name) for name, text in texts.items()}, digits, as_json)
        return
    grid = np.broadcast_shapes(*(np.shape(v) for v in values.values()))
    found = {}
    for name, e in formulas.items():
        needed = {s.name for s in e.free_symbols}
        value, bound = mf.evaluate(e, error=True, **{k: v for k, v in values.items() if k in needed})
        found[name] = (np.broadcast_to(value, grid), np.broadcast_to(bound, grid))
    if as_json:
        numbers = {name: {"value": value, "error": bound} for name, (value, bound) in found.items()}
        print_json({"activation": str(phi.expression), "at": {k: np.ravel(v) if np.ndim(v) else v for k, v in values.items()}, **numbers})
        return
    columns = {k: np.broadcast_to(v, grid).ravel() for k, v in values.items()}
    rows = []
    for i in range(int(np.prod(grid))):
        rows.append([*(f"{v[i]:.7g}" for v in columns.values()), *(f"{v.ravel()[i]:.15g}" for v, _ in found.values())])
    print_table(f"phi(x) = {phi.expression}", [*columns, *(TITLES[name][1] for name in found)], rows)


def _check(phi: mf.Activation, values: dict[str, object]) -> None:
    letters = {s.name for s in phi.expression.free_symbols - {mf.x}}
    given = values.keys() - {"q", "p"}
    if letters != given:
        raise ValueError(
            f"the activation has the parameters {', '.join(sorted(letters)) or 'none'}, and {', '.join(sorted(given)) or 'none'} are set"
        )
    for name in sorted(given):
        arguments.check_range(np.asarray(values[name]), name)
    q, p = np.asarray(values["q"]), np.asarray(values.get("p", 0.0))
    if (q <= 0).any():
        raise ValueError(f"q = {arguments.shown(q[q <= 0].flat[0])}: a variance must be positive")
    arguments.within(p, q, "p = {value}: a covariance must be at most the variance in size, |p| <= q = {limit}")


def _print_digits(formulas: dict[str, sp.Expr], numbers: dict[str, sp.Expr], digits: int, as_json: bool) -> None:
    found = {}
    for name, e in formulas.items():
        needed = {s.name for s in e.free_symbols}
        found[name] = mpmath.nstr(mf.evaluate(e, digits=digits, **{k: v for k, v in numbers.items() if k in needed}), digits)
    if as_json:
        print_json({"at": {k: str(v) for k, v in numbers.items()}, **found})
        return
    for name, value in found.items():
        click.echo(f"{TITLES[name][1]:<18} = {value}")
