"""What the conventions in use make of the tensors of a transformer, side by side with the golden rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import sympy as sp
from sympy import Rational, S

from meanfield import arguments, faces
from meanfield.faces import latex
from meanfield.scaling.modular import modular_transformer
from meanfield.scaling.width import depth_rule, key_query_rule, width_rule

__all__ = ["CONVENTIONS", "Convention", "ConventionTable", "Tensor", "convention_table"]

_ROLES: Final = ("hidden", "input", "output")


@dataclass(frozen=True)
class Tensor:
    """A weight matrix: its sizes, and where it stands.

    Attributes
    ----------
    name : str
    fan_in, fan_out : whole numbers >= 1 or expressions
    role : "hidden", "input" or "output"
        Whether it reads the input of the network, writes its output, or neither.
    ends_branch : bool
        Whether it is the last before a skip.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> last = mf.scaling.Tensor("W_O", sp.Integer(768), sp.Integer(768), ends_branch=True)
    >>> mf.scaling.CONVENTIONS["GPT-2"].std(last, sp.Integer(12)), mf.scaling.CONVENTIONS["He"].std(last, sp.Integer(12))
    (sqrt(6)/600, sqrt(6)/48)
    """

    name: str
    fan_in: sp.Expr
    fan_out: sp.Expr
    role: str = "hidden"
    ends_branch: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name = {self.name!r}: expected a text")
        for size in ("fan_in", "fan_out"):
            object.__setattr__(self, size, arguments.whole(getattr(self, size), size))
        if self.role not in _ROLES:
            raise ValueError(f"role = {self.role!r}: expected 'hidden', 'input' or 'output'")
        arguments.check_flag(self.ends_branch, "ends_branch")


@dataclass(frozen=True)
class Convention:
    """One way to scale a network; those in use are in `mf.scaling.CONVENTIONS` by name.

    Attributes
    ----------
    name : str
    std : function of a Tensor and the number of blocks
        Initial standard deviation of the entries.
    update : function of a Tensor and the number of blocks
        What `update_is` says.
    multiplier : function of the number of blocks
        The factor on a branch.
    logit_scale : function of d_k
        The factor on query times key.
    update_is : str
    source : str

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> mup = mf.scaling.CONVENTIONS["muP"]
    >>> readout = mf.scaling.Tensor("readout", sp.Integer(768), sp.Integer(50257), role="output")
    >>> mup.std(readout, sp.Integer(12)), mup.update(readout, sp.Integer(12)), mup.logit_scale(sp.Integer(64)), mup.update_is
    (1/768, 1/768, 1/64, 'relative learning rate, Adam')
    """

    name: str
    std: Callable[[Tensor, sp.Expr], sp.Expr]
    update: Callable[[Tensor, sp.Expr], sp.Expr]
    multiplier: Callable[[sp.Expr], sp.Expr]
    logit_scale: Callable[[sp.Expr], sp.Expr]
    update_is: str
    source: str


def _one(*_: Any) -> sp.Expr:
    return S.One


def _golden_std(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    """an embedding's columns have entries of size 1, everything else the singular values of the golden rule"""
    return S.One if t.role == "input" else width_rule(t.fan_in, t.fan_out).sigma


def _golden_update(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    """the budget of the modular norm in terms of the spectral norm; for an embedding, of the RMS of a column"""
    share = modular_transformer(int(blocks)).budgets()[t.name]
    return share if t.role == "input" else share * width_rule(t.fan_in, t.fan_out).norm


def _golden_multiplier(blocks: sp.Expr) -> sp.Expr:
    return 1 / (2 * blocks)


def _lecun_std(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    return 1 / sp.sqrt(t.fan_in)


def _xavier_std(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    return sp.sqrt(2 / (t.fan_in + t.fan_out))


def _he_std(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    return sp.sqrt(2 / t.fan_in)


def _mup_std(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    return 1 / t.fan_in if t.role == "output" else 1 / sp.sqrt(t.fan_in)


def _mup_rate(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    return S.One if t.role == "input" else 1 / t.fan_in


def _depth_mup_rate(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    return _mup_rate(t, blocks) / (sp.sqrt(blocks) if t.role == "hidden" else 1)


def _depth_mup_multiplier(blocks: sp.Expr) -> sp.Expr:
    return depth_rule(blocks, alignment=0).multiplier


def _completep_multiplier(blocks: sp.Expr) -> sp.Expr:
    return depth_rule(blocks, alignment=1).multiplier


def _gpt2_std(t: Tensor, blocks: sp.Expr) -> sp.Expr:
    return Rational(1, 50) / (sp.sqrt(2 * blocks) if t.ends_branch else 1)


def _usual(d: sp.Expr) -> sp.Expr:
    return key_query_rule(d).usual_logit_scale


def _golden_logit(d: sp.Expr) -> sp.Expr:
    return key_query_rule(d).logit_scale


RATE: Final = "relative learning rate"
NORM: Final = "norm of the update, of 1 in all"

#: every convention, one entry each
CONVENTIONS: Final = {
    c.name: c
    for c in (
        Convention("golden", _golden_std, _golden_update, _golden_multiplier, _golden_logit, NORM, "Large et al. 2024, arXiv:2405.14813"),
        Convention("LeCun", _lecun_std, _one, _one, _usual, RATE, "LeCun et al. 1998, Efficient BackProp, eq. 16"),
        Convention("Xavier", _xavier_std, _one, _one, _usual, RATE, "Glorot & Bengio 2010, eq. 12"),
        Convention("He", _he_std, _one, _one, _usual, RATE, "He et al. 2015, arXiv:1502.01852, eq. 10"),
        Convention("muP", _mup_std, _mup_rate, _one, _golden_logit, f"{RATE}, Adam", "Yang et al. 2022, arXiv:2203.03466, Table 3"),
        Convention(
            "depth-muP",
            _mup_std,
            _depth_mup_rate,
            _depth_mup_multiplier,
            _golden_logit,
            f"{RATE}, Adam",
            "Yang et al. 2023, arXiv:2310.02244",
        ),
        Convention(
            "CompleteP",
            _mup_std,
            _mup_rate,
            _completep_multiplier,
            _golden_logit,
            f"{RATE}, Adam",
            "Dey et al. 2025, arXiv:2505.01618",
        ),
        Convention("GPT-2", _gpt2_std, _one, _one, _usual, RATE, "Radford et al. 2019, section 2.3: 0.02, by 1/sqrt(2L) before a skip"),
    )
}


#: characters of an exact entry of a table, as a fraction with a root
SHORT = 24


@dataclass(frozen=True, repr=False)
class ConventionTable(faces.Labelled):
    """The tensors of a model under each convention: what `convention_table` returns. Its entries are exact.

    Attributes
    ----------
    tensors : tuple of Tensor
    conventions : tuple of Convention
    std, update : mappings, [convention][tensor]
        Initial standard deviation, and what the convention's `update_is` says.
    spectral_norm : mapping, [convention][tensor]
        Of the initial matrix, std (sqrt(fan_in) + sqrt(fan_out)).
    multiplier, logit_scale : mappings, [convention]
        Of a branch, and of query times key.

    Examples
    --------
    >>> import meanfield as mf
    >>> table = mf.scaling.convention_table(768, 12, 64, vocabulary=50257)
    >>> table.std["He"]["W_1"], table.update["golden"]["W_Q"], table.multiplier["CompleteP"], table.spectral_norm["golden"]["W_O"]
    (sqrt(6)/48, 5/7, 1/12, 1)
    """

    tensors: tuple[Tensor, ...]
    conventions: tuple[Convention, ...]
    std: Mapping[str, Mapping[str, sp.Expr]] = field(hash=False)
    spectral_norm: Mapping[str, Mapping[str, sp.Expr]] = field(hash=False)
    update: Mapping[str, Mapping[str, sp.Expr]] = field(hash=False)
    multiplier: Mapping[str, sp.Expr] = field(hash=False)
    logit_scale: Mapping[str, sp.Expr] = field(hash=False)

    def _blocks(self) -> list[tuple[str, list[tuple[str, list[sp.Expr]]]]]:
        names = [c.name for c in self.conventions]
        parts = (("initial standard deviation", self.std), ("its spectral norm", self.spectral_norm), ("update", self.update))
        tables = [(title, [(t.name, [table[c][t.name] for c in names]) for t in self.tensors]) for title, table in parts]
        rest = [("branch multiplier", [self.multiplier[c] for c in names]), ("logit scale", [self.logit_scale[c] for c in names])]
        return [*tables, ("network", rest)]

    def __repr__(self) -> str:
        lines = [" " * 18 + "".join(f"{c.name:>11}" for c in self.conventions)]
        for title, rows in self._blocks():
            lines.append(title)
            lines += [f"  {name:<16}" + "".join(f"{float(v):>11.4g}" for v in values) for name, values in rows]
        return "\n".join([*lines, *(f"{c.name}: update = {c.update_is}. {c.source}" for c in self.conventions)])

    def latex(self) -> str:
        """The table as a tabular, entries exact where that is short."""
        width = len(self.conventions)
        lines = [
            rf"\begin{{tabular}}{{@{{}}l*{{{width}}}{{@{{\;\;}}c}}@{{}}}}",
            " & ".join(["", *(c.name for c in self.conventions)]) + r" \\ \hline",
        ]
        for title, rows in self._blocks():
            lines.append(rf"\multicolumn{{{width + 1}}}{{l}}{{{title}}} \\")
            for name, values in rows:
                shown = name if "_" not in name else f"${name}$"
                lines.append(" & ".join([shown, *map(_entry, values)]) + r" \\")
        return "\n".join([*lines, r"\end{tabular}"])

    def _repr_latex_(self) -> str:
        return self.latex()


def _entry(value: sp.Expr) -> str:
    exact = sp.latex(value)
    return f"${exact}$" if len(exact) <= SHORT else f"${sp.latex(sp.N(value, 3))}$"


@latex.register
def _(thing: ConventionTable) -> str:
    return thing.latex()


def convention_table(width: Any, blocks: Any, d_key: Any, *, vocabulary: Any, expansion: Any = 4) -> ConventionTable:
    r"""Every tensor of a transformer of N blocks under every convention.

    Sizes are those of the matrices, fan_in of an embedding its vocabulary. The branch multiplier of the golden rules is the 1/2N of their
    2N branches; the others' count blocks.

    Parameters
    ----------
    width, blocks, d_key, vocabulary : whole numbers
    expansion : number > 0
        Width of the MLP over that of the model; that width is rounded to a whole number, as for 8/3.

    Examples
    --------
    >>> import meanfield as mf
    >>> table = mf.scaling.convention_table(768, 12, 64, vocabulary=50257)
    >>> table.std["GPT-2"]["W_O"], table.update["muP"]["W_1"], table.logit_scale["depth-muP"]
    (sqrt(6)/600, 1/768, 1/64)
    """
    d, n, v, dk = (
        sp.Integer(arguments.check_integer(value, name, 1))
        for value, name in ((width, "width"), (blocks, "blocks"), (vocabulary, "vocabulary"), (d_key, "d_key"))
    )
    ratio = arguments.above_zero(arguments.number(expansion, "expansion"), "expansion")
    hidden = sp.Integer(max(1, round(ratio * d)))
    tensors = (
        Tensor("embedding", v, d, role="input"),
        Tensor("W_Q", d, d),
        Tensor("W_K", d, d),
        Tensor("W_V", d, d),
        Tensor("W_O", d, d, ends_branch=True),
        Tensor("W_1", d, hidden),
        Tensor("W_2", hidden, d, ends_branch=True),
        Tensor("readout", d, v, role="output"),
    )
    conventions = tuple(CONVENTIONS.values())
    std = {c.name: {t.name: c.std(t, n) for t in tensors} for c in conventions}
    return ConventionTable(
        tensors,
        conventions,
        std,
        {c: {t.name: row[t.name] * (sp.sqrt(t.fan_in) + sp.sqrt(t.fan_out)) for t in tensors} for c, row in std.items()},
        {c.name: {t.name: c.update(t, n) for t in tensors} for c in conventions},
        {c.name: c.multiplier(n) for c in conventions},
        {c.name: c.logit_scale(dk) for c in conventions},
    )
