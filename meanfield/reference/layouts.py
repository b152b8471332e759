"""Where transformer libraries keep the parts of a block. A layout only proposes: `meanfield.reference.readings` checks by evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

__all__ = ["LAYOUTS", "Layout", "find", "layout_of", "missing"]


@dataclass(frozen=True)
class Layout:
    """Dotted paths of the parts inside a block. `query`, `key` and `value` may be one packed matrix, one behind the other or, `by_head`,
    with the three parts of each head together; `gate` and `up` one of two halves. Both `norms`, in front of the branches or behind the
    sums, may be one or none; `branch_norms` stand behind the branches, in front of the sums."""

    name: str
    norms: tuple[()] | tuple[str, str]
    attention: str
    query: str
    key: str
    value: str
    output: str
    up: str
    down: str
    activation: str
    gate: str | None = None
    layer_scales: tuple[str, str] | None = None
    by_head: bool = False
    head_norms: tuple[str, str] | None = None
    branch_norms: tuple[()] | tuple[str, str] = ()

    @property
    def required(self) -> tuple[str, ...]:
        gate = () if self.gate is None else (self.gate,)
        parts = (*self.norms, *self.branch_norms, self.query, self.key, self.value, self.output, self.up, self.down, self.activation)
        return (*parts, *gate, *(self.head_norms or ()))


_APART = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_HEADS = ("self_attn.q_norm", "self_attn.k_norm")

LAYOUTS = (
    Layout(
        "torch.nn.TransformerEncoderLayer", ("norm1", "norm2"), "self_attn", "self_attn.in_proj_weight", "self_attn.in_proj_weight",
        "self_attn.in_proj_weight", "self_attn.out_proj", "linear1", "linear2", "activation",
    ),
    Layout(
        "timm Block", ("norm1", "norm2"), "attn", "attn.qkv", "attn.qkv", "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", "mlp.act",
        layer_scales=("ls1", "ls2"),
    ),
    Layout(
        "transformers ViTLayer", ("layernorm_before", "layernorm_after"), "attention", "attention.q_proj", "attention.k_proj",
        "attention.v_proj", "attention.o_proj", "mlp.fc1", "mlp.fc2", "mlp.activation_fn",
    ),
    Layout(
        "transformers BertLayer", ("attention.output.LayerNorm", "output.LayerNorm"), "attention.self", "attention.self.query",
        "attention.self.key", "attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense",
        "intermediate.intermediate_act_fn",
    ),
    Layout(
        "transformers GPT2Block", ("ln_1", "ln_2"), "attn", "attn.c_attn", "attn.c_attn", "attn.c_attn", "attn.c_proj", "mlp.c_fc",
        "mlp.c_proj", "mlp.act",
    ),
    Layout(
        "transformers Gemma3DecoderLayer", ("input_layernorm", "pre_feedforward_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.up_proj", "mlp.down_proj", "mlp.act_fn", gate="mlp.gate_proj", head_norms=_HEADS,
        branch_norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    ),
    Layout(
        "transformers Gemma2DecoderLayer", ("input_layernorm", "pre_feedforward_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.up_proj", "mlp.down_proj", "mlp.act_fn", gate="mlp.gate_proj",
        branch_norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    ),
    Layout(
        "transformers Olmo2DecoderLayer", (), "self_attn", *_APART, "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj", "mlp.act_fn",
        gate="mlp.gate_proj", head_norms=_HEADS, branch_norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    ),
    Layout(
        "transformers Glm4DecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.gate_up_proj", "mlp.down_proj", "mlp.activation_fn", gate="mlp.gate_up_proj",
        branch_norms=("post_self_attn_layernorm", "post_mlp_layernorm"),
    ),
    Layout(
        "transformers GlmDecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.gate_up_proj", "mlp.down_proj", "mlp.activation_fn", gate="mlp.gate_up_proj",
    ),
    Layout(
        "transformers Phi3DecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", "self_attn.qkv_proj",
        "self_attn.qkv_proj", "self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj", "mlp.activation_fn",
        gate="mlp.gate_up_proj",
    ),
    Layout(
        "transformers Qwen3DecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.up_proj", "mlp.down_proj", "mlp.act_fn", gate="mlp.gate_proj",
        head_norms=_HEADS,
    ),
    Layout(
        "transformers LlamaDecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.up_proj", "mlp.down_proj", "mlp.act_fn", gate="mlp.gate_proj",
    ),
    Layout(
        "transformers CohereDecoderLayer", ("input_layernorm", "input_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.up_proj", "mlp.down_proj", "mlp.act_fn", gate="mlp.gate_proj",
    ),
    Layout(
        "transformers NemotronDecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.up_proj", "mlp.down_proj", "mlp.act_fn",
    ),
    Layout(
        "transformers FalconDecoderLayer", ("input_layernorm", "input_layernorm"), "self_attention", "self_attention.query_key_value",
        "self_attention.query_key_value", "self_attention.query_key_value", "self_attention.dense", "mlp.dense_h_to_4h",
        "mlp.dense_4h_to_h", "mlp.act", by_head=True,
    ),
    Layout(
        "transformers Starcoder2DecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", *_APART, "self_attn.o_proj",
        "mlp.c_fc", "mlp.c_proj", "mlp.act",
    ),
    Layout(
        "transformers OPTDecoderLayer", ("self_attn_layer_norm", "final_layer_norm"), "self_attn", "self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2", "activation_fn",
    ),
    Layout(
        "transformers CLIPEncoderLayer", ("layer_norm1", "layer_norm2"), "self_attn", "self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2", "mlp.activation_fn",
    ),
    Layout(
        "transformers Dinov2Layer", ("norm1", "norm2"), "attention", "attention.q_proj", "attention.k_proj", "attention.v_proj",
        "attention.o_proj", "mlp.fc1", "mlp.fc2", "mlp.activation_fn", layer_scales=("layer_scale1", "layer_scale2"),
    ),
    Layout(
        "transformers DistilBERT TransformerBlock", ("sa_layer_norm", "output_layer_norm"), "attention", "attention.q_lin",
        "attention.k_lin", "attention.v_lin", "attention.out_lin", "ffn.lin1", "ffn.lin2", "ffn.activation",
    ),
    Layout(
        "transformers GPTNeoXLayer", ("input_layernorm", "post_attention_layernorm"), "attention", "attention.query_key_value",
        "attention.query_key_value", "attention.query_key_value", "attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "mlp.act",
        by_head=True,
    ),
    Layout(
        "transformers PhiDecoderLayer", ("input_layernorm", "input_layernorm"), "self_attn", "self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj", "self_attn.dense", "mlp.fc1", "mlp.fc2", "mlp.activation_fn",
    ),
)  # fmt: skip


def find(module: nn.Module, path: str) -> Any:
    """The part at a dotted path, None if there is none."""
    part: Any = module
    for name in path.split("."):
        part = getattr(part, name, None)
        if part is None:
            return None
    return part


def layout_of(block: nn.Module) -> Layout | None:
    """The first layout whose parts the block has."""
    return next((layout for layout in LAYOUTS if not missing(layout, block)), None)


def missing(layout: Layout, block: nn.Module) -> list[str]:
    """The parts of a layout that the block does not have."""
    return [path for path in dict.fromkeys(layout.required) if find(block, path) is None]
