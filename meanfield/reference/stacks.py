"""A torch model as a stack of transformer blocks, each with the scales of its weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, Residual
from meanfield.blocks.attention import Attention
from meanfield.blocks.elementary import Activate, Linear, Scale
from meanfield.blocks.fixed import CausalAttention, MaskedAttention
from meanfield.blocks.gated import Product
from meanfield.reference.layouts import Reading, layout_of, read_block
from meanfield.reference.recognition import Layers, NotRecognised, activation_of, norm_kind

__all__ = ["block_lists", "read_stack"]

#: what layers have to have in common
KINDS = ("activation", "norms", "place of the norms", "causal mask", "gate", "rotary positions")


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
        norms = [norm_kind(norm, f"{name}.{path}") for norm, path in zip(reading.norms, reading.layout.norms, strict=True)]
        kinds.append((phi, norms, reading.post, _is_causal(reading, block), "gate" in reading.matrices, reading.rotary))
        if kinds[-1] != kinds[0]:
            apart = ", ".join(what for what, a, b in zip(KINDS, kinds[0], kinds[-1], strict=True) if a != b)
            raise NotRecognised(f"{names[0]} and {name} are of different kinds, by {apart}: describe each part by itself")
    *_, causal, _, rotary = kinds[0]
    frequencies = _frequencies(model) if rotary else ()
    inside = {id(w) for _, block in blocks for w in block.parameters()}
    outside = tuple(name for name, part in model.named_modules() if any(id(w) not in inside for w in part.parameters(recurse=False)))
    caveats = []
    if causal:
        strength = max((row["sigma_Q"] * row["sigma_K"]) ** 2 for row in rows)
        caveats.append(
            "causal mask: averages over the softmax weights of tokens that are told apart are approximate, off by at most 2 % in the Gram "
            f"matrix at sigma_QK^2 q (q - p) = 0.5 and 12 % at 2; here sigma_QK^2 is {strength:.3g} at most"
        )
    if rotary and not frequencies:
        caveats.append(
            "rotary position embedding: its frequencies are not in this module, or it scales logits, which are taken as those without it"
        )
    if windows != {None}:
        caveats.append(f"sliding window: the law is that of at most {min(w for w in windows if w is not None)} tokens")
    if len(blocks) > 1 and _same_weights([block for _, block in blocks]):
        caveats.append(
            "equal weights: neighbouring blocks are copies, as torch.nn.TransformerEncoder makes them; the law is for independent ones"
        )
    return Layers(rows, counts, lambda values: _transformer(values, *kinds[0][:5], frequencies), names, outside, tuple(caveats))


def block_lists(model: nn.Module) -> Iterator[tuple[str, list[tuple[str, nn.Module]]]]:
    """Lists of blocks with a known layout, by name; a model that is one block is a list of one."""
    if layout_of(model):
        yield "", [("model", model)]
        return
    for name, part in model.named_modules():
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and len(part) and any(layout_of(child) for child in part):
            yield name, list(part.named_children())


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
            values[f"bias_{name}"], counts[f"bias_{name}"] = matrix.sigma_b, matrix.weight.shape[0]
    if values["bias_Q"]:
        raise NotRecognised(f"{r.path}: the bias of the queries is not zero, and there is no law for logits that all rows share")
    size = r.matrices["query"].weight.shape[0] // r.heads
    values["sigma_Q"] *= r.scaling * math.sqrt(size)
    for i, (norm, scale) in enumerate(zip(r.norms, r.layer_scales, strict=True), 1):
        parts = {f"gain_{i}": getattr(norm, "weight", None), f"shift_{i}": getattr(norm, "bias", None), f"layer_scale_{i}": scale}
        for name, part in parts.items():
            default = 0.0 if name.startswith("shift") else 1.0
            values[name] = default if part is None else float(part.detach().double().square().mean().sqrt())
            counts[name] = 1 if part is None else part.numel()
    return values, counts


def _window(attention: nn.Module) -> int | None:
    """how many tokens it sees at most, by what it says of itself or its config does: the mask is made outside the block"""
    own: int | None = getattr(attention, "sliding_window", getattr(getattr(attention, "config", None), "sliding_window", None))
    return own


def _frequencies(model: nn.Module) -> tuple[float, ...]:
    """angles per position of the one rotary embedding of a model, none where it has none or several, or scales what it turns"""
    found = [part for part in model.modules() if isinstance(part._buffers.get("inv_freq"), torch.Tensor)]
    if len(found) != 1 or getattr(found[0], "attention_scaling", 1.0) != 1.0:
        return ()
    return tuple(found[0].get_buffer("inv_freq").double().tolist())


def _transformer(
    s: Mapping[str, float],
    phi: Activation,
    norms: Sequence[Block],
    post: bool,
    causal: bool,
    gated: bool,
    frequencies: tuple[float, ...],
) -> Block:
    def norm(i: int) -> Block:
        gain, shift = s[f"gain_{i}"], s[f"shift_{i}"]
        if shift:  # in second moments a shift that all tokens share is the bias of a linear map
            return norms[i - 1] >> Linear(gain, shift)
        return norms[i - 1] if gain == 1 else norms[i - 1] >> Scale(gain)

    q, k, v, o = (s[name] for name in ("sigma_Q", "sigma_K", "sigma_V", "sigma_O"))
    if causal:
        attention: Block = CausalAttention(None, v, o, sigma_Q=q, sigma_K=k, frequencies=frequencies)
    else:
        attention = MaskedAttention(1, None, q, k, v, o, frequencies) if frequencies else Attention(None, q, k, v, o)
    shared = math.hypot(s["bias_V"] * s["sigma_O"], s["bias_O"])
    if shared:
        attention = attention >> Linear(1, shared)
    units: Block = Linear(s["sigma_1"], s["bias_1"])
    units = Product(Linear(s["sigma_gate"], s["bias_gate"]) >> Activate(phi), units) if gated else units >> Activate(phi)
    branches = [attention, units >> Linear(s["sigma_2"], s["bias_2"])]
    branches = [b if s[f"layer_scale_{i}"] == 1 else b >> Scale(s[f"layer_scale_{i}"]) for i, b in enumerate(branches, 1)]
    if post:
        return Residual(branches[0]) >> norm(1) >> Residual(branches[1]) >> norm(2)
    return Residual(norm(1) >> branches[0]) >> Residual(norm(2) >> branches[1])
