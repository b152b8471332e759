"""A torch model as a stack of transformer blocks, each with the scales of its weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block
from meanfield.blocks.attention import Attention
from meanfield.blocks.elementary import Activate, Linear, Scale
from meanfield.blocks.fixed import CausalAttention, MaskedAttention
from meanfield.blocks.gated import Product
from meanfield.blocks.norms import RMSNorm
from meanfield.blocks.stacking import Residual
from meanfield.reference.layouts import layout_of
from meanfield.reference.readings import Reading, read_block
from meanfield.reference.recognition import Layers, NotRecognised, activation_of, norm_of

__all__ = ["block_lists", "read_stack"]

#: what layers have to have in common
KINDS = ("activation", "norms", "norms of branches", "place of the norms", "causal mask", "gate", "rotary positions")


def read_stack(model: nn.Module) -> Layers:
    """The blocks of a model. Raises NotRecognised with the name of what is not recognised."""
    prefix, blocks = _only_list(model)
    names = tuple(f"{prefix}.{name}" if prefix else name for name, _ in blocks)
    rows, counts, kinds, windows = [], [], [], set()
    for name, (_, block) in zip(names, blocks, strict=True):
        reading = read_block(block, name)  # holds a copy of the block: one at a time
        values, count = _scales(reading)
        rows.append(values)
        counts.append(count)
        windows.add(_window(block.get_submodule(reading.layout.attention)))
        phi = activation_of(reading.activation, f"{name}.{reading.layout.activation}")
        norms, branch_norms = (
            [norm_of(norm, f"{name}.{path}")[0] for norm, path in zip(*found, strict=True)]
            for found in ((reading.norms, reading.layout.norms), (reading.branch_norms, reading.layout.branch_norms))
        )
        kinds.append((phi, norms, branch_norms, reading.form, _is_causal(reading, block), "gate" in reading.matrices, reading.rotary))
        if kinds[-1] != kinds[0]:
            apart = ", ".join(what for what, a, b in zip(KINDS, kinds[0], kinds[-1], strict=True) if a != b)
            raise NotRecognised(f"{names[0]} and {name} are of different kinds, by {apart}: describe each part by itself")
    *_, causal, _, rotary = kinds[0]
    frequencies = _frequencies(model, reading.size // 2) if rotary else ()
    inside = {id(w) for _, block in blocks for w in block.parameters()}
    outside = tuple(
        name or type(model).__name__
        for name, part in model.named_modules()
        if any(id(w) not in inside for w in part.parameters(recurse=False))
    )
    caveats = []
    if causal:
        strength = max(math.prod(_of_logits(row)) ** 2 for row in rows)
        caveats.append(
            "causal mask: averages over the softmax weights of tokens that are told apart are approximate, off by about 0.5 % in the Gram "
            f"matrix at sigma_QK^2 q (q - p) = 0.5 and 1.5 % at 2; here sigma_QK^2 is {strength:.3g} at most"
        )
    if rotary and not frequencies:
        caveats.append(
            "rotary position embedding: its frequencies are not in this module, or it scales logits, which are taken as those without it"
        )
    if reading.head_norms is not None and not reading.norms:
        caveats.append("norms of queries and keys, and none in front of the values: the law is that of tokens of equal norm")
    if reading.cap is not None:
        caveats.append(f"logits capped at {reading.cap:g}, by tanh: the law is that without")
    if windows != {None}:
        caveats.append(f"sliding window: the law is that of at most {min(w for w in windows if w is not None)} tokens")
    if len(blocks) > 1 and _same_weights([block for _, block in blocks]):
        caveats.append(
            "equal weights: neighbouring blocks are copies, as torch.nn.TransformerEncoder makes them; the law is for independent ones"
        )
    return Layers(rows, counts, lambda values: _transformer(values, *kinds[0][:6], frequencies), names, outside, tuple(caveats))


def block_lists(model: nn.Module) -> Iterator[tuple[str, list[tuple[str, nn.Module]]]]:
    """Lists of blocks with a known layout, by name; a model that is one block is a list of one."""
    if layout_of(model):
        yield "", [("model", model)]
        return
    for name, part in model.named_modules():
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and len(part) and any(layout_of(child) for child in part):
            yield name, [(key, child) for key, child in part._modules.items() if child is not None]


def _only_list(model: nn.Module) -> tuple[str, list[tuple[str, nn.Module]]]:
    found = list(block_lists(model))
    if len(found) == 1:
        return found[0]
    if found:
        raise NotRecognised(f"{type(model).__name__} has several lists of blocks, {', '.join(n for n, _ in found)}: describe one of them")
    lists = [(n, part[0]) for n, part in model.named_modules() if isinstance(part, (nn.ModuleList, nn.Sequential)) and len(part)]
    name, first = lists[0] if lists else ("", model)
    read_block(first, f"{name}.0" if lists else type(model).__name__)
    raise NotRecognised(f"{type(model).__name__} has no list of blocks")


def _same_weights(blocks: Sequence[nn.Module]) -> bool:
    """whether two neighbours have the same matrices"""
    rows = [[w for w in block.parameters() if w.dim() > 1] for block in blocks]
    return any(all(torch.equal(a, b) for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(rows))


def _is_causal(reading: Reading, block: nn.Module) -> bool:
    """by what it computes, or by what the attention says of itself: transformers makes the mask outside the block"""
    attention = block.get_submodule(reading.layout.attention)
    return reading.causal or bool(getattr(attention, "is_causal", False))


def _scales(r: Reading) -> tuple[dict[str, float], dict[str, int]]:
    """every scale of a block by name, and from how many numbers it is estimated"""
    letters = {"query": "Q", "key": "K", "value": "V", "output": "O", "up": "1", "gate": "gate", "down": "2"}
    values: dict[str, float] = {}
    counts: dict[str, int] = {}
    for role, matrix in r.matrices.items():
        name = letters[role]
        values[f"sigma_{name}"], counts[f"sigma_{name}"] = matrix.sigma, matrix.weight.numel()
        if role != "key":  # a bias of the keys shifts all logits of a row
            values[f"bias_{name}"], counts[f"bias_{name}"] = matrix.sigma_b, matrix.fan_out
    if values["bias_Q"]:
        raise NotRecognised(f"{r.path}: the bias of the queries is not zero, and there is no law for logits that all rows share")
    if r.head_norms is not None:
        for norm, path, letter in zip(r.head_norms, r.layout.head_norms or (), "QK", strict=True):
            _, gain = norm_of(norm, f"{r.path}.{path}")
            del values[f"sigma_{letter}"], counts[f"sigma_{letter}"]
            values[f"gain_{letter}"], counts[f"gain_{letter}"] = _size(gain, 1.0)
        if r.form == "post-norm":
            raise NotRecognised(f"{r.path}: norms of queries and keys are known behind a norm alone")
        if not r.norms and values["bias_V"]:
            raise NotRecognised(f"{r.path}: norms of queries and keys with none in front of values of a bias have no law")
    values["sigma_Q" if r.head_norms is None else "gain_Q"] *= r.scaling * math.sqrt(r.size)
    for end, norms, paths in (("", r.norms, r.layout.norms), ("_branch", r.branch_norms, r.layout.branch_norms)):
        for i, (norm, path) in enumerate(zip(norms, paths, strict=True), 1):
            index = f"{end}_{i}"
            values[f"gain{index}"], counts[f"gain{index}"] = _size(norm_of(norm, f"{r.path}.{path}")[1], 1.0)
            values[f"shift{index}"], counts[f"shift{index}"] = _size(getattr(norm, "bias", None), 0.0)
    for i, scale in enumerate(r.layer_scales, 1):
        values[f"layer_scale_{i}"], counts[f"layer_scale_{i}"] = _size(scale, 1.0)
    return values, counts


def _size(part: torch.Tensor | None, default: float) -> tuple[float, int]:
    """root mean square, and of how many numbers"""
    return (default, 1) if part is None else (float(part.detach().double().square().mean().sqrt()), part.numel())


def _window(attention: nn.Module) -> int | None:
    """how many tokens it sees at most, by what it says of itself or its config does: the mask is made outside the block"""
    own: int | None = getattr(attention, "sliding_window", getattr(getattr(attention, "config", None), "sliding_window", None))
    return own


def _frequencies(model: nn.Module, pairs: int) -> tuple[float, ...]:
    """angles per position, of all pairs of a head, of the one rotary embedding of a model; none where it has none or several, or scales
    what it turns"""
    found = [part for part in model.modules() if isinstance(part._buffers.get("inv_freq"), torch.Tensor)]
    if len(found) != 1 or getattr(found[0], "attention_scaling", 1.0) != 1.0:
        return ()
    turned = found[0].get_buffer("inv_freq").double().tolist()
    return (*turned, *[0.0] * (pairs - len(turned)))


def _of_logits(s: Mapping[str, float]) -> tuple[float, float]:
    """sigma_Q and sigma_K; with norms of their own queries and keys have the size of the gains, whatever their matrices and input"""
    if "gain_Q" not in s:
        return s["sigma_Q"], s["sigma_K"]
    before = math.hypot(s.get("gain_1", 1.0), s.get("shift_1", 0.0))
    return s["gain_Q"] / before, s["gain_K"] / before


def _transformer(
    s: Mapping[str, float],
    phi: Activation,
    norms: Sequence[Block],
    branch_norms: Sequence[Block],
    form: str,
    causal: bool,
    gated: bool,
    frequencies: tuple[float, ...],
) -> Block:
    def scaled(norm: Block, index: str) -> Block:
        gain, shift = s[f"gain{index}"], s[f"shift{index}"]
        if shift:  # in second moments a shift that all tokens share is the bias of a linear map
            return norm >> Linear(gain, shift)
        return norm if gain == 1 else norm >> Scale(gain)

    v, o = s["sigma_V"], s["sigma_O"]
    q, k = _of_logits(s)
    if causal:
        attention: Block = CausalAttention(None, v, o, sigma_Q=q, sigma_K=k, frequencies=frequencies if q != 0 != k else ())
    else:
        attention = MaskedAttention(1, None, q, k, v, o, frequencies) if frequencies else Attention(None, q, k, v, o)
    shared = math.hypot(s["bias_V"] * s["sigma_O"], s["bias_O"])
    if shared:
        attention = attention >> Linear(1, shared)
    units: Block = Linear(s["sigma_1"], s["bias_1"])
    units = Product(Linear(s["sigma_gate"], s["bias_gate"]) >> Activate(phi), units) if gated else units >> Activate(phi)
    branches = [attention, units >> Linear(s["sigma_2"], s["bias_2"])]
    if branch_norms:
        branches = [b >> scaled(norm, f"_branch_{i}") for i, (b, norm) in enumerate(zip(branches, branch_norms, strict=True), 1)]
    branches = [b if s[f"layer_scale_{i}"] == 1 else b >> Scale(s[f"layer_scale_{i}"]) for i, b in enumerate(branches, 1)]
    if not norms and "gain_Q" in s:  # what norms of its own take from queries and keys, the norm of the branch takes from the values
        branches[0] = RMSNorm() >> branches[0]
    plain = [scaled(norm, f"_{i}") for i, norm in enumerate(norms, 1)]
    if form == "post-norm":
        return Residual(branches[0]) >> plain[0] >> Residual(branches[1]) >> plain[1]
    branches = [norm >> b for norm, b in zip(plain, branches, strict=True)] if plain else branches
    if form == "parallel":
        return Residual(branches[0] + branches[1])
    return Residual(branches[0]) >> Residual(branches[1])
