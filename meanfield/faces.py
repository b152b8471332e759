"""How objects show themselves: questions asked on the lower floors and answered on the upper ones.

A recursion has `.latex()` and a run has `.plot()`, but neither knows how: these functions dispatch on the kind of object, and the
rules are registered where LaTeX, figures and tables are made, which is imported on the first question.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanfield.characters import escaped

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["Labelled", "dataset", "html", "latex", "plot", "worded"]


#: where the rules are
RULES = (
    "meanfield.reporting.formulas",
    "meanfield.reporting.growth_text",
    "meanfield.reporting.points_text",
    "meanfield.reporting.statements",
    "meanfield.reporting.numbers",
    "meanfield.reporting.tables",
    "meanfield.plotting",
)

#: a letter with primes, a star, what it is a derivative by or a number that it is taken at, and an exponent
_FORMULA = re.compile(r"(?<![\w\\])(d?)(phi|chi|rho|[A-Za-z])('*+)(\*?)(?:/d([A-Za-z])|(\(\d+\)))?(?:\^(\([^()]*\)|-?\w+))?(?![\w*('])")
#: a quantity or a parameter that stands alone, with what stands below it
_LETTER = re.compile(r"(?<![\w\\.^$'`])(?:([qpcJlL]|phi|chi|rho|mu|alpha|sigma|zeta|tau|eta)(?:_(\w+))?)(?![\w*(=`'^$]|\.\w)")


def worded(sentence: str) -> str:
    r"""A sentence as LaTeX text, its short formulas as such: primes, stars, exponents, derivatives, and letters that stand alone.

    >>> worded("q' = 2 q^2, and dq'/dq = 1 at q*: 50 % of Stein's")
    "$q'$ = 2 $q^{2}$, and $dq'/dq$ = 1 at $q^{*}$: 50 \\% of Stein's"
    >>> worded("q grows, sigma_b in terms of sigma_w")
    '$q$ grows, $\\sigma_{b}$ in terms of $\\sigma_{w}$'
    >>> worded("no powers of q as q -> oo")
    'no powers of $q$ as $q$ $\\to \\infty$'
    """
    said, end = "", 0
    for found in _FORMULA.finditer(sentence):
        letter, primes, star, below, place, power = found.group(2, 3, 4, 5, 6, 7)
        if primes or star or below or place or power:
            above = ("*" if star else "") + (power or "").strip("()")
            formula = (
                found[1] + (rf"\{letter}" if len(letter) > 1 else letter) + primes + (place or "") + (f"^{{{above}}}" if above else "")
            )
            said += f"{_lettered(sentence[end : found.start()])}${formula}{f'/d{below}' if below else ''}$"
            end = found.end()
    return (said + _lettered(sentence[end:])).replace("-$>$ oo", r"$\to \infty$")


def _lettered(words: str) -> str:
    """words as LaTeX text, letters that stand alone among them as such"""
    said, end = "", 0
    for found in _LETTER.finditer(words):
        letter, below = found.groups()
        formula = (rf"\{letter}" if len(letter) > 1 else letter) + (f"_{{{below}}}" if below else "")
        said += f"{escaped(words[end : found.start()])}${formula}$"
        end = found.end()
    return said + escaped(words[end:])


def _rule(face: Any, thing: Any) -> Callable[..., Any] | None:
    """the rule for a kind of object, now that all are known"""
    for home in RULES:
        importlib.import_module(home)
    rule: Callable[..., Any] = face.dispatch(type(thing))
    return None if rule is face.dispatch(object) else rule


@singledispatch
def latex(thing: Any) -> str:
    r"""LaTeX of whatever the library hands out, and of tuples, mappings and arrays of it: a fragment that needs amsmath and amssymb only.

    Of an expression, a matrix or numbers, and of what is one equation (all of them: `meanfield.reporting.statements.FORMULAS`), it is a
    formula, which stands in math mode. Of all else, answers, networks, tables and collections among them, it is a text, which stands
    between paragraphs as it is; where there is no answer, the sentence that says why.

    Raises
    ------
    TypeError
        There is no rule for that kind of object.

    Examples
    --------
    >>> import meanfield as mf
    >>> print(mf.latex(mf.relu.second_moment(mf.q)))
    \frac{q}{2}
    >>> print(mf.latex(mf.mlp(mf.relu)))
    \begin{align*}
    q &\leftarrow \frac{\sigma_w^{2} q}{2} + \sigma_b^{2} \\
    p &\leftarrow \sigma_b^{2} + \sigma_w^{2} q \kappa{\left(\frac{p}{q} \right)} \\
    J &\leftarrow \frac{\sigma_w^{2}}{2} J \\
    K &\leftarrow \sigma_w^{2} \dot\kappa{\left(\frac{p}{q} \right)} K \\
    \chi &= \frac{\sigma_w^{2}}{2}
    \end{align*}
    where
    \begin{align*}
    \kappa\left(\rho\right) &= \frac{\rho \left(\pi - \arccos{\left(\rho \right)}\right)}{2 \pi} + \frac{\sqrt{1 - \rho^{2}}}{2 \pi} \\
    \dot\kappa\left(\rho\right) &= \frac{\pi - \arccos{\left(\rho \right)}}{2 \pi}
    \end{align*}
    """
    rule = _rule(latex, thing)
    if rule is not None:
        return str(rule(thing))
    known = (
        "an expression, a matrix or a number; an activation, a derivation, an expansion, an identity or a gain; a block, a law or a "
        "recursion; a run, a growth law, fixed or critical points, a rule or another answer; or a tuple, list, mapping or array of these"
    )
    raise TypeError(f"no LaTeX for {type(thing).__name__}: expected {known}")


@singledispatch
def plot(thing: Any, **options: Any) -> Any:
    """A figure of an object: takes and returns matplotlib axes."""
    rule = _rule(plot, thing)
    if rule is not None:
        return rule(thing, **options)
    raise TypeError(f"no figure for {type(thing).__name__}")


@singledispatch
def html(thing: Any) -> str:
    """An object as it shows itself in a notebook: its repr and a table."""
    rule = _rule(html, thing)
    if rule is not None:
        return str(rule(thing))
    raise TypeError(f"no HTML for {type(thing).__name__}")


@singledispatch
def dataset(thing: Any) -> Any:
    """An object as a labelled xarray dataset."""
    rule = _rule(dataset, thing)
    if rule is not None:
        return rule(thing)
    raise TypeError(f"no dataset for {type(thing).__name__}")


class Labelled:
    """A result that hands out its numbers with their names (extra `xarray`)."""

    __slots__ = ()

    def latex(self) -> str:
        """LaTeX of the whole: a table where there are many numbers."""
        return latex(self)

    def _repr_html_(self) -> str:
        return html(self)

    def to_xarray(self) -> xarray.Dataset:
        """A dataset: what varies is a coordinate; units, meaning, LaTeX and the library's version are attributes."""
        result: xarray.Dataset = dataset(self)
        return result

    def to_dataframe(self) -> pandas.DataFrame:
        """The same as a pandas table, a row for each combination of coordinates; without what a run has between its layers, chi."""
        data = self.to_xarray().drop_dims("repeat", errors="ignore")
        named = {name: data[name].to_numpy() for name in data.dims if name in data.coords}  # a lazy one is no index yet
        return data.assign_coords(named).to_dataframe().reset_index()

    def to_csv(self, path: str | Path) -> Path:
        """The table as a file of comma-separated values, numbers in full; returns its path."""
        self.to_dataframe().to_csv(path, index=False)
        return Path(path)

    def to_netcdf(self, path: str | Path) -> Path:
        """The dataset as a NetCDF file of version 3, which scipy writes; returns its path."""
        self.to_xarray().to_netcdf(path, engine="scipy")
        return Path(path)
