r"""Golden rules: scale by what adds up when everything points the same way, not by variances at initialisation.

Training aligns inputs with the largest singular vectors of the weights, updates with inputs, and layers with each other. So singular
values, sums of residual branches and dot products are sized for aligned terms. Beside each rule stands what random, unaligned terms do,
which is the statistics at initialisation: the two differ by square roots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import sympy as sp

from meanfield import arguments
from meanfield.blocks.attention import Attention
from meanfield.scaling.rules import Rule, Step
from meanfield.symbols import known

__all__ = ["depth_rule", "golden_rules", "key_query_rule", "with_key_query_rule", "width_rule"]

SOURCE: Final = "Large et al. 2024, arXiv:2405.14813, and the Modula documentation, golden rules for scaling"


def _size(value: Any, name: str, symbol: str) -> sp.Expr:
    """a positive whole number or an expression; left out, the symbol"""
    return known(symbol) if value is None else arguments.whole(value, name)


def width_rule(fan_in: Any = None, fan_out: Any = None) -> Rule:
    r"""Singular values \sqrt{fan_out/fan_in}: vectors of entries of size 1 go to vectors of entries of size 1 when aligned.

    Values: `norm`, the spectral norm of weights and of updates; `sigma`, the standard deviation of Gaussian weights that have it, and
    their RMS gain on a random input, `random_gain` (1 on an aligned one); `orthogonal_scale` times a semi-orthogonal matrix, and its
    `orthogonal_random_gain`; and LeCun's Gaussian (variance 1/fan_in, gain 1 on a random input) for comparison, with `lecun_norm` and its
    gain on an aligned input, `lecun_aligned_gain`.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.scaling.width_rule().norm
    sqrt(fan_out)/sqrt(fan_in)
    >>> rule = mf.scaling.width_rule(fan_in=768, fan_out=10)
    >>> {name: round(value, 4) for name, value in rule().items()}  # doctest: +NORMALIZE_WHITESPACE
    {'norm': 0.1141, 'sigma': 0.0037, 'random_gain': 0.1024, 'orthogonal_scale': 0.1141, 'orthogonal_random_gain': 0.1141,
     'lecun_norm': 1.1141, 'lecun_aligned_gain': 9.7636}
    """
    i, o = _size(fan_in, "fan_in", "fan_in"), _size(fan_out, "fan_out", "fan_out")
    norm, sigma, gain = sp.Symbol("norm", positive=True), sp.Symbol("sigma", positive=True), sp.Symbol("gain", positive=True)
    aligned = norm * sp.sqrt(i) / sp.sqrt(o)
    gaussian = sigma * (sp.sqrt(i) + sp.sqrt(o))
    target = sp.solve(sp.Eq(aligned, 1), norm)[0]
    spread = sp.solve(sp.Eq(gaussian, target), sigma)[0]
    lecun = 1 / sp.sqrt(i)
    lecun_norm = gaussian.subs(sigma, lecun)
    steps = (
        Step("RMS gain of a matrix on its top singular vector, input and output of mean square 1", sp.Eq(gain, aligned)),
        Step("gain 1 when aligned", sp.Eq(norm, target)),
        Step("spectral norm of a Gaussian matrix (Bai and Yin 1993)", sp.Eq(norm, gaussian)),
        Step("standard deviation with that norm", sp.Eq(sigma, spread)),
        Step("RMS gain of Gaussian weights on a random input", sp.Eq(gain, sigma * sp.sqrt(i))),
        Step("LeCun initialisation has gain 1 on a random input, and on an aligned one", sp.Eq(gain, aligned.subs(norm, lecun_norm))),
    )
    return Rule(
        name="Golden rule of width",
        values={
            "norm": target,
            "sigma": spread,
            "random_gain": sp.cancel(spread * sp.sqrt(i)),
            "orthogonal_scale": target,
            "orthogonal_random_gain": sp.Min(1, target),
            "lecun_norm": sp.expand(lecun_norm),
            "lecun_aligned_gain": sp.expand(aligned.subs(norm, lecun_norm)),
        },
        statement=(sp.Eq(aligned, 1),),
        assumptions=("training aligns inputs with the largest singular vectors", "wide matrices: the edge of the spectrum is sharp"),
        steps=steps,
        source=SOURCE,
    )


def depth_rule(blocks: Any = None, alignment: Any = 1) -> Rule:
    r"""The multiplier of each of L residual branches: 1/L if they add coherently, 1/\sqrt L if they are random.

    Values: `multiplier` L^{-(1 + alignment)/2}; `coherent_growth` (1 + multiplier)^L, by which aligned branches of gain 1 can grow a
    vector; `random_growth` (1 + multiplier^2)^L, by which random ones grow its variance; `aligned_multiplier` and `random_multiplier` for
    the two ends. 1/L bounds the first by e and leaves 1 + 1/L of the second; 1/\sqrt L leaves e of the second and lets the first grow as
    e^{\sqrt L}: both of "1/L" and "1/\sqrt L" are right, for different sums.

    Parameters
    ----------
    blocks : whole number, expression, or left out for mf.L
    alignment : number between 0 and 1, or expression
        0 for random branches, 1 for coherent ones. The power between is an interpolation, not a theorem.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.scaling.depth_rule().multiplier, mf.scaling.depth_rule(alignment=0).multiplier
    (1/L, 1/sqrt(L))
    >>> {name: round(value, 4) for name, value in mf.scaling.depth_rule(24)().items()}  # doctest: +NORMALIZE_WHITESPACE
    {'multiplier': 0.0417, 'coherent_growth': 2.6637, 'random_growth': 1.0425, 'aligned_multiplier': 0.0417,
     'random_multiplier': 0.2041}
    """
    n, a = _size(blocks, "blocks", "L"), arguments.expression(alignment, "alignment")
    if a.is_number and not (0 <= a <= 1):
        raise ValueError(f"alignment = {alignment}: must be between 0 and 1")
    m, size = sp.Symbol("m", positive=True), sp.Symbol("size", positive=True)
    value = n ** (-(1 + a) / 2)
    steps = (
        Step("norm of a sum of terms of size m, one for each branch: aligned", sp.Eq(size, n * m)),
        Step("random", sp.Eq(size, sp.sqrt(n) * m)),
        Step(f"with alignment {a}", sp.Eq(size, n ** ((1 + a) / 2) * m)),
        Step("a sum of size 1", sp.Eq(m, value)),
    )
    return Rule(
        name="Golden rule of depth",
        values={
            "multiplier": value,
            "coherent_growth": sp.Pow(1 + value, n, evaluate=False),
            "random_growth": sp.Pow(1 + value**2, n, evaluate=False),
            "aligned_multiplier": 1 / n,
            "random_multiplier": 1 / sp.sqrt(n),
        },
        statement=(sp.Eq(n ** ((1 + a) / 2) * m, 1),),
        assumptions=("each branch has gain 1 on its input", "alignment interpolates between random and coherent sums: a heuristic"),
        steps=steps,
        source=SOURCE,
    )


def key_query_rule(d_key: Any = None) -> Rule:
    r"""The factor on q . k: 1/d_k, for keys and queries that have aligned, in the place of 1/\sqrt{d_k}, for random ones.

    Values: `logit_scale` 1/d_k; with it, for unit entries, `random_logit_variance` 1/d_k at initialisation and `aligned_logit` 1 when
    trained; `usual_logit_scale` 1/\sqrt{d_k} with `usual_random_logit_variance` 1 and `usual_aligned_logit` \sqrt{d_k}. In the law of
    attention \sigma_QK^2 becomes \sigma_QK^2/d_k, see `with_key_query_rule`: attention starts uniform.

    >>> import meanfield as mf
    >>> rule = mf.scaling.key_query_rule(64)
    >>> rule.logit_scale, rule.random_logit_variance, rule.usual_aligned_logit
    (1/64, 1/64, 8)
    """
    d = _size(d_key, "d_key", "d_key")
    scale = sp.Symbol("scale", positive=True)
    aligned, random = scale * d, scale**2 * d
    logit = sp.Symbol("logit", positive=True)
    chosen, usual = sp.solve(sp.Eq(aligned, 1), scale)[0], 1 / sp.sqrt(d)
    steps = (
        Step("dot product of d_k aligned entries of size 1", sp.Eq(logit, aligned)),
        Step("a logit of 1 when aligned", sp.Eq(scale, chosen)),
        Step("mean square of the dot product of random entries", sp.Eq(logit**2, random)),
        Step("a logit of size 1 when random", sp.Eq(scale, usual)),
    )
    return Rule(
        name="Golden rule of keys and queries",
        values={
            "logit_scale": chosen,
            "random_logit_variance": random.subs(scale, chosen),
            "aligned_logit": aligned.subs(scale, chosen),
            "usual_logit_scale": usual,
            "usual_random_logit_variance": random.subs(scale, usual),
            "usual_aligned_logit": sp.cancel(aligned.subs(scale, usual)),
        },
        statement=(sp.Eq(aligned, 1),),
        assumptions=("training aligns keys with queries", "entries of keys and queries are of size 1"),
        steps=steps,
        source=SOURCE,
    )


def with_key_query_rule(attention: Attention, d_key: Any = None) -> Attention:
    r"""The attention with logits q . k/d_k in the place of q . k/\sqrt{d_k}: \sigma_QK^2 becomes \sigma_QK^2/d_k.

    >>> import meanfield as mf
    >>> block = mf.Attention(n=64, sigma_Q=2, sigma_K=2, sigma_V=1, sigma_O=1)
    >>> for net in (block, mf.scaling.with_key_query_rule(block, 64)):  # E sum_b A_ab^2 = q' at p = 0; 1/n if uniform
    ...     print(round(mf.evaluate(mf.recursion(net).q, q=0.5, p=0.0) / 0.5, 4))
    0.4643
    0.0166
    """
    if not isinstance(attention, Attention):
        raise TypeError(f"attention = {attention!r}: expected mf.Attention(...)")
    return replace(attention, sigma_Q=attention.sigma_Q / sp.sqrt(_size(d_key, "d_key", "d_key")))


def golden_rules(fan_in: Any = None, fan_out: Any = None, blocks: Any = None, d_key: Any = None, *, alignment: Any = 1) -> Rule:
    r"""The golden rules of width, depth and keys and queries in one: see `width_rule`, `depth_rule`, `key_query_rule`.

    Parameters
    ----------
    fan_in, fan_out, blocks, d_key : whole number or expression
        Left out, the symbols fan_in, fan_out, L and d_key.
    alignment : number between 0 and 1
        Of the residual branches.

    Returns
    -------
    Rule

    Raises
    ------
    TypeError, ValueError
        A size is no whole number of at least 1, or alignment is outside [0, 1].

    Examples
    --------
    >>> import meanfield as mf
    >>> rules = mf.scaling.golden_rules(fan_in=768, fan_out=3072, blocks=24, d_key=64)
    >>> rules.norm, rules.sigma, rules.multiplier, rules.logit_scale
    (2, sqrt(3)/72, 1/24, 1/64)
    >>> round(rules()["sigma"], 6)
    0.024056
    """
    parts = (width_rule(fan_in, fan_out), depth_rule(blocks, alignment), key_query_rule(d_key))
    return Rule(
        name="Golden rules",
        values={name: value for part in parts for name, value in part.values.items()},
        statement=tuple(e for part in parts for e in part.statement),
        assumptions=tuple(a for part in parts for a in part.assumptions),
        steps=tuple(s for part in parts for s in part.steps),
        source=SOURCE,
    )
