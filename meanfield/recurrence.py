r"""A block read as a recursion: one frozen record of symbolic expressions that everything numeric and everything printed is read from.

The top level of a block is cut into *stages* (the sublayers of a transformer), each a law on the current (q, p). The record keeps the
stages with their named quantities; `q`, `p`, `transfer` and `chi` are the same law of one whole repeat with all names put in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import sympy as sp

from meanfield import gaussian
from meanfield.blocks.algebra import Block, Parallel, Serial, law_on
from meanfield.blocks.descriptions import found_once
from meanfield.blocks.laws import Law, Signal
from meanfield.blocks.stacking import LONGEST, Repeat, Residual
from meanfield.faces import latex
from meanfield.fingerprint import fingerprint, text
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.guards import cases_of
from meanfield.gaussian.shared_parts import parts_of, put_in
from meanfield.keeping import remembered
from meanfield.symbols import bindable, known, merged, signed

__all__ = ["Recursion", "Stage", "recursion", "without_numbers"]

q, p, delta = known("q"), known("p"), known("delta")


@dataclass(frozen=True)
class Stage:
    """One sublayer: its block and its law on the signal of the plain symbols q, p, delta, and how often it is applied in a row."""

    block: Block
    law: Law
    times: int = 1

    @property
    def values(self) -> dict[sp.Expr, sp.Expr]:
        """Every named quantity in terms of q and p alone, closed forms derived."""
        done: dict[sp.Expr, sp.Expr] = {delta: q - p}
        for d in self.law.definitions:
            done[d.symbol] = explicit(d.value if d.shown is None else d.shown, done)
        return done


def explicit(e: sp.Expr, values: dict[sp.Expr, sp.Expr]) -> sp.Expr:
    """The expression with names put in and expectations in closed form where they have one."""
    e = e.xreplace(values)
    nodes = parts_of(e, Node)
    if any(parts_of(t, Node) != {t} for t in nodes):  # one inside another
        return e.replace(lambda t: isinstance(t, Node), lambda t: t.doit())
    return put_in(e, {t: t.doit() for t in nodes})


@dataclass(frozen=True, repr=False)
class Recursion:
    r"""The mean-field recursion of one repeat of a block.

    Attributes
    ----------
    q, p : sympy expressions in q, p and the parameters
        The variance and covariance after the repeat.
    transfer : 2 x 2 Matrix
        (J, K)_in = transfer (J, K)_out; T_a(input) T_b(output of a) for a >> b.
    chi : sympy expression
        The same-token gradient factor with the gradients of different tokens taken as independent.
    parameters : tuple of symbols
        What has to be bound before numbers come out.
    name : str
        For its parameters and laws, alike in every process.

    Examples
    --------
    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.mlp(mf.relu))
    >>> rec
    Recursion(1 stage; parameters: sigma_b, sigma_w)
    >>> rec.q, rec.chi
    (q*sigma_w**2/2 + sigma_b**2, sigma_w**2/2)
    >>> rec.transfer[1, 1]
    sigma_w**2*(pi - acos(p/q))/(2*pi)
    """

    block: Block
    parameters: tuple[sp.Symbol, ...]
    name: str
    #: parameters whose values are all of one sign, beside the symbols that say so
    signs: tuple[tuple[sp.Symbol, sp.Symbol], ...] = ()

    def _repr_latex_(self) -> str:
        return self.latex()

    def __repr__(self) -> str:
        names = ", ".join(s.name for s in self.parameters)
        return f"Recursion({len(self.stages)} stage{'s' * (len(self.stages) > 1)}; parameters: {names or 'none'})"

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The sublayers one after another."""
        put = dict(self.signs)
        return tuple(replace(s, law=s.law.put(put)) for s in _stages(self.block)) if put else _stages(self.block)

    @property
    def unsigned(self) -> tuple[sp.Symbol, ...]:
        """The parameters that activations hang on whose sign is not known."""
        return _unsigned(self) if any(without_sign(s) for s in self.parameters) else ()

    def signed(self, signs: Mapping[str, int]) -> Recursion:
        """The same where the values of some parameters are all positive, 1, all negative, -1, or all 0: what hangs on that is decided."""
        put = tuple((s, signed(s, signs[s.name])) for s in self.unsigned if s.name in signs)
        return _signed(self, put) if put else self

    @property
    def unrolled(self) -> tuple[Stage, ...]:
        """The stages one by one, repeated ones as often as they occur.

        Raises
        ------
        ValueError
            They are too many for one formula.
        """
        count = sum(stage.times for stage in self.stages)
        if count > LONGEST:
            raise ValueError(f"one repeat has {count} layers, too many for one formula (at most {LONGEST}): read the laws of rec.stages")
        return tuple(stage for stage in self.stages for _ in range(stage.times))

    @cached_property
    def _composed(self) -> tuple[sp.Expr, sp.Expr, sp.Matrix, sp.Expr]:
        at_q, at_p, transfer, chi = q, p, sp.eye(2), sp.S.One
        for stage in self.unrolled:
            values, law = stage.values, stage.law
            put = {q: at_q, p: at_p}
            parts = [explicit(e, values).xreplace(put) for e in (law.output.q, law.output.p, law.chi, *law.transfer)]
            at_q, at_p = parts[0], parts[1]
            transfer, chi = _product(transfer, sp.Matrix(2, 2, parts[3:])), chi * parts[2]
        return at_q, at_p, transfer, chi

    @property
    def q(self) -> sp.Expr:
        return self._composed[0]

    @property
    def p(self) -> sp.Expr:
        return self._composed[1]

    @property
    def transfer(self) -> sp.Matrix:
        return sp.ImmutableMatrix(self._composed[2])

    @property
    def ntk(self) -> tuple[sp.Expr, sp.Expr]:
        r"""The neural tangent kernel of one input and between two after the repeat, in the symbols Theta, Theta_p (their values before).

        \Theta' = T \Theta + what the repeat's own weights add (NTK parametrisation; Jacot et al. 2018, thm. 1).

        Raises
        ------
        ValueError
            A block mixes tokens or does not say what its weights add (`Law.tangent`).

        Examples
        --------
        >>> import meanfield as mf
        >>> mf.recursion(mf.mlp(mf.relu)).ntk[0]
        Theta*sigma_w**2/2 + q*sigma_w**2/2 + sigma_b**2
        """
        at_q, at_p, theta = q, p, (known("Theta"), known("Theta_p"))
        for stage in self.unrolled:
            values, law, put = stage.values, stage.law, {q: at_q, p: at_p}
            if law.tangent is None or not law.transfer.is_diagonal():
                raise ValueError(f"{stage.block} mixes tokens or does not say what its weights add to the tangent kernel (Law.tangent)")
            parts = (law.transfer[0, 0], law.transfer[1, 1], *law.tangent, law.output.q, law.output.p)
            same, two, own, own_p, at_q, at_p = (explicit(e, values).xreplace(put) for e in parts)
            theta = (same * theta[0] + own, two * theta[1] + own_p)
        return theta

    @property
    def chi(self) -> sp.Expr:
        return self._composed[3]

    def couples(self, one_token: bool = False) -> bool:
        """Whether q or J of one token depends on a second one, with n = 1 put in if `one_token`."""
        put = {known("n"): sp.S.One} if one_token else {}
        other = {p: sp.Dummy("p", positive=True)}
        for stage in self.stages:
            values, law = stage.values, stage.law
            read = (law.output.q, law.transfer[0, 0], law.transfer[0, 1])
            q_next, same, mixing = (explicit(e, values).xreplace(put) for e in read)
            if not (
                gaussian.zeros.vanishes(mixing)
                and all(e.xreplace(other) == e or gaussian.zeros.vanishes(e - e.xreplace(other)) for e in (q_next, same))
            ):
                return True
        return False

    def latex(self) -> str:
        """The recursion as LaTeX, stage by stage, with the definitions it uses below."""
        return latex(self)


def _product(a: sp.Matrix, b: sp.Matrix) -> sp.Matrix:
    """Of two transfers: a path that is not there has no part in it, be the other half infinite."""
    paths = [[[a[i, k] * b[k, j] for k in range(2) if a[i, k] != 0 and b[k, j] != 0] for j in range(2)] for i in range(2)]
    return sp.Matrix([[sp.Add(*terms) for terms in row] for row in paths])


def _cut(block: Block) -> list[tuple[Block, int]]:
    """the stages of a block and how often each occurs in a row: each residual or parallel sublayer, with what follows it"""
    parts = block.blocks if isinstance(block, Serial) else (block,)
    groups: list[tuple[list[Block], int]] = []
    for given in parts:
        part, times = given, 1
        while isinstance(part, Repeat):
            times *= part.times
            part = part.block
        if not groups or times > 1 or groups[-1][1] > 1 or isinstance(part, (Residual, Parallel)):
            groups.append(([part], times))
        else:
            groups[-1][0].append(part)
    return [(g[0] if len(g) == 1 else Serial(tuple(g)), times) for g, times in groups]


def _expressions(law: Law) -> tuple[sp.Expr, ...]:
    named = [e for d in law.definitions for e in (d.value, d.in_step) if e is not None]
    return (law.output.q, law.output.p, law.output.delta, law.chi, *law.transfer, *named)


@lru_cache(maxsize=256)
def recursion(block: Block) -> Recursion:
    r"""The recursion of a block: what one repeat does to q, p and to the gradient's second moments.

    Parameters
    ----------
    block : Block

    Raises
    ------
    TypeError
        `block` is no block.
    ValueError
        The block ends with a mean that its next repeat would see.

    Examples
    --------
    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.mlp(mf.erf))
    >>> rec.q
    sigma_b**2 + 2*sigma_w**2*asin(2*q/(2*q + 1))/pi
    >>> rec.chi
    4*sigma_w**2/(pi*sqrt(4*q + 1))
    >>> rec.parameters
    (sigma_b, sigma_w)
    """
    if not isinstance(block, Block):
        raise TypeError(f"block = {block!r}: expected a block, as mf.mlp(mf.tanh) or mf.Residual(...)")
    if not block.closes:
        raise ValueError(f"{block} has no recursion in (q, p): it tells tokens apart; mf.propagate runs their n x n Gram matrix")
    parameters, name = found_once("recursion", block, lambda: (_parameters(_stages(block)), fingerprint(_written(_stages(block)))))
    return Recursion(block, parameters, name)


@lru_cache(maxsize=256)
def _stages(block: Block) -> tuple[Stage, ...]:
    """the sublayers of a block; ValueError where one hands the next what that cannot take"""
    mean = sp.Dummy("mean", real=True)
    stages: list[Stage] = []
    normal, carried = True, sp.S.Zero
    for part, times in _cut(block):
        while times:
            law = law_on(part, Signal(q, p, delta, carried, normal)).needed
            before, normal, carried = (normal, carried), law.output.gaussian, mean if law.output.mean != 0 else sp.S.Zero
            in_a_row = times if before == (normal, carried) else 1  # what comes out need not be what went in
            stages.append(Stage(part, law, in_a_row))
            times -= in_a_row
    following = law_on(stages[0].block, Signal(q, p, delta, carried, normal)).needed  # what the next repeat starts from
    if any(mean in _symbols(law) for law in (*(s.law for s in stages), following)):
        raise ValueError(f"{block} hands a non-zero mean to a norm of its next sublayer: end the sublayer with a Linear")
    one = merged({s for stage in stages for s in _symbols(stage.law) if not isinstance(s, sp.Dummy)})  # one symbol per name
    return tuple(replace(s, law=s.law.put(one)) for s in stages)


def _parameters(stages: tuple[Stage, ...]) -> tuple[sp.Symbol, ...]:
    found: set[sp.Symbol] = set()
    for stage in stages:
        named = {d.symbol for d in stage.law.definitions}
        found |= bindable(_symbols(stage.law) - named, stage.block)
    return tuple(sorted(found, key=lambda s: s.name))


def _written(stages: tuple[Stage, ...]) -> str:
    """parameters and laws as a text, alike in every process"""
    parts = [s.name for s in _parameters(stages)]
    found: dict[sp.Basic, str] = {}
    for stage in stages:
        law = stage.law
        named = [e for d in law.definitions for e in (d.symbol, d.value, d.kernel, d.in_step) if e is not None]
        parts += [str(stage.times), *(text(e, found) for e in (law.output.q, law.output.delta, *law.transfer, law.chi, *named))]
    return without_numbers(parts)


def without_numbers(parts: Iterable[str]) -> str:
    """Texts of expressions as one, in which dummies, numbered anew in every process, are numbered as they come."""
    counts: dict[str, str] = {}
    return re.sub(r"dummy_index=(\d+)", lambda m: counts.setdefault(m[1], f"dummy {len(counts)}"), chr(0).join(parts))


@lru_cache(maxsize=256)
def _unsigned(rec: Recursion) -> tuple[sp.Symbol, ...]:
    def found() -> tuple[str, ...]:
        return tuple(sorted({s.name for stage in rec.stages for s in without_signs(_expressions(stage.law))}))

    names = remembered(f"unsigned {rec.name}", found)
    return tuple(s for s in rec.parameters if s.name in names)


@lru_cache(maxsize=256)
def _signed(rec: Recursion, put: tuple[tuple[sp.Symbol, sp.Symbol], ...]) -> Recursion:
    values = {s: value for s, value in put if value.is_Symbol}
    signed = replace(rec, parameters=tuple(values.get(s, s) for s in rec.parameters), signs=rec.signs + put)
    if any(e.has(sp.nan, sp.zoo) for stage in signed.stages for e in _expressions(stage.law)):  # of a quotient by what is 0
        return _signed(rec, tuple(values.items())) if len(values) < len(put) else rec
    order = " ".join(s.name for s in rec.parameters)  # those that are 0 among them
    return replace(signed, name=fingerprint(f"{order} {_written(signed.stages)}"))


def without_sign(s: sp.Symbol) -> bool:
    """Whether nothing says that a parameter is positive, or negative."""
    return not s.is_positive and not s.is_negative


def without_signs(expressions: Iterable[sp.Expr]) -> set[sp.Symbol]:
    """The parameters without a sign of the functions under expectations, and of what is infinite for some of their values."""
    functions = {node.integrand for e in expressions for node in e.atoms(Node)}
    cases = {t for e in expressions for t in cases_of(e).values()}
    free = {s for e in functions for s in e.free_symbols} | {s for t in cases for _, c in t.args for s in c.free_symbols}
    return {s for s in free - {known("x"), known("y")} if isinstance(s, sp.Symbol) and without_sign(s)}


def _symbols(law: Law) -> set[sp.Basic]:
    return set().union(*(e.free_symbols for e in _expressions(law)))
