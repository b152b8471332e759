"""Models as people build them: read, predicted, measured and initialised. Hugging Face models are built from small configs."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

WIDTH, LAYERS, TOKENS = 128, 3, 8


@pytest.fixture(autouse=True)
def _quiet():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


class TimmAttention(torch.nn.Module):
    """the parts of timm's Attention, from its documentation"""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv, self.proj = torch.nn.Linear(dim, 3 * dim), torch.nn.Linear(dim, dim)
        torch.nn.init.zeros_(self.qkv.bias)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).movedim(-3, 0).transpose(-2, -3)
        mixed = torch.softmax(self.scale * q @ k.transpose(-1, -2), -1) @ v
        return self.proj(mixed.transpose(-2, -3).flatten(-2))


class TimmMlp(torch.nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.act, self.fc2 = torch.nn.Linear(dim, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Factor(torch.nn.Module):
    def __init__(self, dim, value):
        super().__init__()
        self.gamma = torch.nn.Parameter(torch.full((dim,), value))

    def forward(self, x):
        return x * self.gamma


class TimmBlock(torch.nn.Module):
    def __init__(self, dim=WIDTH, heads=4, hidden=4 * WIDTH):
        super().__init__()
        self.norm1, self.attn, self.ls1 = torch.nn.LayerNorm(dim), TimmAttention(dim, heads), Factor(dim, 0.5)
        self.norm2, self.mlp, self.ls2 = torch.nn.LayerNorm(dim), TimmMlp(dim, hidden), torch.nn.Identity()

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


def encoder(norm_first: bool, width: int = WIDTH) -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, "gelu" if norm_first else "relu", 1e-5, True, norm_first)
    return torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def hugging(name: str, width: int = WIDTH, **options):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": width, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 2 * width}
    if name == "ViT":
        options |= {"image_size": 16, "patch_size": 4}
    elif name == "GPT2":
        sizes = {"n_embd": width, "n_layer": LAYERS, "n_head": 4, "vocab_size": 50, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    elif name == "OPT":
        sizes = {**sizes, "ffn_dim": sizes.pop("intermediate_size"), "vocab_size": 50, "word_embed_proj_dim": width}
    elif name == "DistilBert":
        sizes = {"dim": width, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 2 * width, "vocab_size": 50}
    else:
        options |= {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}
    if name in ("OPT", "DistilBert"):
        return getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes, **options))
    config = getattr(transformers, f"{name}Config")(**sizes, initializer_range=width**-0.5, **options)
    return getattr(transformers, f"{name}Model")(config)


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "encoder, pre-norm": lambda width=WIDTH: encoder(True, width),
    "encoder, post-norm": lambda width=WIDTH: encoder(False, width),
    "timm": lambda width=WIDTH: torch.nn.Sequential(*(TimmBlock(width, 4, 4 * width) for _ in range(LAYERS))),
    "ViT": lambda width=WIDTH: hugging("ViT", width),
    "BERT": lambda width=WIDTH: hugging("Bert", width),
    "GPT-2": lambda width=WIDTH: hugging("GPT2", width),
    "Llama": lambda width=WIDTH: hugging("Llama", width, num_key_value_heads=2),
    "Qwen3": lambda width=WIDTH: hugging("Qwen3", width, num_key_value_heads=2, head_dim=width // 4),
    "Gemma": lambda width=WIDTH: hugging("Gemma", width, num_key_value_heads=2, head_dim=width // 4, pad_token_id=0),
    "Starcoder2": lambda width=WIDTH: hugging("Starcoder2", width, num_key_value_heads=2),
    "OPT": lambda width=WIDTH: hugging("OPT", width, init_std=width**-0.5),
    "CLIP": lambda width=WIDTH: hugging("CLIPText", width, pad_token_id=0),
    "DINOv2": lambda width=WIDTH: hugging("Dinov2", width, image_size=16, patch_size=4, mlp_ratio=2),
    "DistilBERT": lambda width=WIDTH: hugging("DistilBert", width, initializer_range=width**-0.5),
    "GPT-NeoX": lambda width=WIDTH: hugging("GPTNeoX", width, hidden_act="relu"),
    "Gemma2": lambda width=WIDTH: hugging("Gemma2", width, num_key_value_heads=2, head_dim=width // 4, pad_token_id=0),
    "OLMo2": lambda width=WIDTH: hugging("Olmo2", width, num_key_value_heads=2),
    "Phi3": lambda width=WIDTH: hugging("Phi3", width, num_key_value_heads=2, pad_token_id=0),
    "Cohere": lambda width=WIDTH: hugging("Cohere", width, num_key_value_heads=2, pad_token_id=0),
}
#: what makes the blocks of a model call for masks and positions
INPUTS = {
    name: {"input_ids": torch.zeros(1, TOKENS, dtype=torch.long)} for name in ("GPT-2", "Llama", "Qwen3", "GPT-NeoX", "OLMo2", "Cohere")
}

NAMES = ("sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1", "sigma_2")
BIASES = {"sigma_V": "bias_V", "sigma_O": "bias_O", "sigma_1": "bias_1", "sigma_2": "bias_2", "sigma_gate": "bias_gate"}
#: where the blocks are, their matrices in the order of NAMES, their norms, other scales
ENCODER = ("layers.{}", ("self_attn.in_proj_",) * 3 + ("self_attn.out_proj.", "linear1.", "linear2."), ("norm1", "norm2"), {})
APART = ("self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj.")
PARTS = {
    "encoder, pre-norm": ENCODER,
    "encoder, post-norm": ENCODER,
    "timm": ("{}", ("attn.qkv.",) * 3 + ("attn.proj.", "mlp.fc1.", "mlp.fc2."), ("norm1", "norm2"), {"ls1.gamma": "layer_scale_1"}),
    "ViT": (
        "layers.{}",
        ("attention.q_proj.", "attention.k_proj.", "attention.v_proj.", "attention.o_proj.", "mlp.fc1.", "mlp.fc2."),
        ("layernorm_before", "layernorm_after"),
        {},
    ),
    "BERT": (
        "encoder.layer.{}",
        (
            "attention.self.query.",
            "attention.self.key.",
            "attention.self.value.",
            "attention.output.dense.",
            "intermediate.dense.",
            "output.dense.",
        ),
        ("attention.output.LayerNorm", "output.LayerNorm"),
        {},
    ),
    "GPT-2": ("h.{}", ("attn.c_attn.",) * 3 + ("attn.c_proj.", "mlp.c_fc.", "mlp.c_proj."), ("ln_1", "ln_2"), {}),
    "Llama": (
        "layers.{}",
        ("self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj.", "self_attn.o_proj.", "mlp.up_proj.", "mlp.down_proj."),
        ("input_layernorm", "post_attention_layernorm"),
        {"mlp.gate_proj.weight": "sigma_gate"},
    ),
    "OPT": ("decoder.layers.{}", (*APART, "self_attn.out_proj.", "fc1.", "fc2."), ("self_attn_layer_norm", "final_layer_norm"), {}),
    "CLIP": ("encoder.layers.{}", (*APART, "self_attn.out_proj.", "mlp.fc1.", "mlp.fc2."), ("layer_norm1", "layer_norm2"), {}),
    "DINOv2": (
        "encoder.layer.{}",
        ("attention.q_proj.", "attention.k_proj.", "attention.v_proj.", "attention.o_proj.", "mlp.fc1.", "mlp.fc2."),
        ("norm1", "norm2"),
        {"layer_scale1.lambda1": "layer_scale_1", "layer_scale2.lambda1": "layer_scale_2"},
    ),
    "DistilBERT": (
        "transformer.layer.{}",
        ("attention.q_lin.", "attention.k_lin.", "attention.v_lin.", "attention.out_lin.", "ffn.lin1.", "ffn.lin2."),
        ("sa_layer_norm", "output_layer_norm"),
        {},
    ),
    "Starcoder2": (
        "layers.{}",
        (*APART, "self_attn.o_proj.", "mlp.c_fc.", "mlp.c_proj."),
        ("input_layernorm", "post_attention_layernorm"),
        {},
    ),
    "GPT-NeoX": (
        "layers.{}",
        ("attention.query_key_value.",) * 3 + ("attention.dense.", "mlp.dense_h_to_4h.", "mlp.dense_4h_to_h."),
        ("input_layernorm", "post_attention_layernorm"),
        {},
    ),
}
PARTS["Gemma"] = PARTS["Llama"]
PARTS["Qwen3"] = (*PARTS["Llama"][:3], PARTS["Llama"][3] | {f"self_attn.{i.lower()}_norm.weight": f"gain_{i}" for i in "QK"})
BRANCH_NORMS = {f"post_{part}_layernorm.weight": f"gain_branch_{i}" for i, part in enumerate(("attention", "feedforward"), 1)}
PARTS["Gemma2"] = (*PARTS["Llama"][:2], ("input_layernorm", "pre_feedforward_layernorm"), PARTS["Llama"][3] | BRANCH_NORMS)
PARTS["OLMo2"] = (*PARTS["Llama"][:2], (), PARTS["Qwen3"][3] | BRANCH_NORMS)
PARTS["Phi3"] = (
    "layers.{}",
    ("self_attn.qkv_proj.",) * 3 + ("self_attn.o_proj.", "mlp.gate_up_proj.", "mlp.down_proj."),
    PARTS["Llama"][2],
    {"mlp.gate_up_proj.weight": "sigma_gate"},
)
UNBIASED = ("Llama", "Gemma", "Qwen3", "Gemma2", "OLMo2", "Phi3")
#: rows of a packed matrix, in quarters
QUARTERS = {"sigma_Q": (0, 2), "sigma_K": (2, 3), "sigma_V": (3, 4), "sigma_gate": (0, 2), "sigma_1": (2, 4)}


def tensors_of(model, name):
    """every scale of a description with the tensors, one per layer, that it is read from"""
    where, matrices, norms, others = PARTS[name]
    paths = {letter: f"{path}weight" for letter, path in zip(NAMES, matrices, strict=True)} | {v: k for k, v in others.items()}
    paths |= {BIASES[letter]: f"{path}bias" for letter, path in zip(NAMES, matrices, strict=True) if letter in BIASES}
    paths |= {f"{kind}_{i}": f"{norm}.{part}" for i, norm in enumerate(norms, 1) for kind, part in (("gain", "weight"), ("shift", "bias"))}
    known = dict(model.named_parameters())
    for letter, path in paths.items():
        found = [known.get(f"{where.format(i)}.{path}") for i in range(LAYERS)]
        if None in found:  # Llama has no biases
            continue
        third = "QKV".find(letter[-1]) if matrices[0] == matrices[1] and path.startswith(matrices[0]) else None
        axis = 1 if name == "GPT-2" and path.endswith("weight") else 0
        if name == "Phi3" and letter in QUARTERS:
            yield letter, [w.data[slice(*(w.shape[0] // 4 * i for i in QUARTERS[letter]))] for w in found]
        elif third is not None and name == "GPT-NeoX":  # the three of every head together
            yield letter, [w.data.view(4, 3, -1, *w.shape[1:])[:, third] for w in found]
        else:
            yield letter, [w.data if third is None else w.data.chunk(3, axis)[third] for w in found]


# -- reading --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARTS)
def test_every_scale_is_read(name):
    """one tensor at a time, in all layers: its letter follows, no other does; in one layer: the layers differ; outside: nothing does"""
    model = MODELS[name](32)
    before = mf.reference.describe(model)
    assert (before.depth, before.alike) == (LAYERS, True)
    shifted = name.startswith("Gemma")  # gains are 1 + w
    letters, blank = set(), 3.0 if shifted else 0.25
    for letter, tensors in tensors_of(model, name):
        letters.add(letter)
        kept = [t.clone() for t in tensors]
        for t in tensors:
            t.mul_(3) if t.any() else t.fill_(blank)
        after = mf.reference.describe(model)
        read = letter in before.scales  # what a norm of its own follows, has no scale
        expected = 3 * before.scales[letter] if kept[0].any() and read else np.full(LAYERS, blank + shifted)
        for other, values in before.scales.items():
            assert after.scales[other] == pytest.approx(expected if other == letter else values, rel=1e-6), (letter, other)
        assert after.depth == LAYERS
        for t, old in zip(tensors[1:], kept[1:], strict=True):
            t.copy_(old)
        if letter not in ("gain_Q", "gain_K"):  # the mean of 8 numbers
            assert mf.reference.describe(model).alike != read, letter
        tensors[0].copy_(kept[0])
    assert letters | {"bias_Q"} >= {other for other, values in before.scales.items() if name not in UNBIASED or values.any()} - {
        "layer_scale_2"
    } - (set() if name == "timm" else {"layer_scale_1"})
    inside = {id(w) for i in range(LAYERS) for w in model.get_submodule(PARTS[name][0].format(i)).parameters()}
    for w in model.parameters():
        if id(w) not in inside:
            w.data.mul_(3)
    outside = mf.reference.describe(model)
    assert {k: v.tolist() for k, v in outside.scales.items()} == {k: v.tolist() for k, v in before.scales.items()}
    assert bool(outside.outside) == (len(inside) < len(list(model.parameters())))


def test_every_scale_of_a_perceptron_is_read():
    parts = [
        p for _ in range(3) for p in (torch.nn.LayerNorm(32), torch.nn.Linear(32, 32, bias=False), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    ]
    model = torch.nn.Sequential(*parts)
    with pytest.raises(mf.reference.NotRecognised, match="the layers 3, 5, 7, 9, 11 are of different kinds"):
        mf.reference.describe(model)
    model = torch.nn.Sequential(*(p for _ in range(3) for p in (torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 32))))
    before = mf.reference.describe(model)
    for letter, kind, name in (("sigma_w", 2, "weight"), ("sigma_b", 2, "bias"), ("gain_0", 0, "weight"), ("shift_0", 0, "bias")):
        tensors = [getattr(model[3 * i + kind], name).data for i in range(3)]
        kept = [t.clone() for t in tensors]
        for t in tensors:
            t.mul_(3) if t.any() else t.fill_(0.25)
        after = mf.reference.describe(model)
        for other, values in before.scales.items():
            expected = 3 * values if values.any() else np.full(3, 0.25)
            assert after.scales[other] == pytest.approx(expected if other == letter else values, rel=1e-6), (letter, other)
        for t, old in zip(tensors, kept, strict=True):
            t.copy_(old)


def test_layers_that_differ_are_described_one_by_one():
    model = MODELS["timm"]()
    model[0].mlp.fc2.weight.data *= 3
    seen = mf.reference.describe(model)
    assert seen.net == mf.Serial(seen.blocks)
    assert [float(block.blocks[1].branch.blocks[-1].sigma_w) for block in seen.blocks] == pytest.approx(seen.scales["sigma_2"], rel=1e-12)
    assert "scales differ between layers" in repr(seen)
    found = mf.reference.measure(model, q=1.0, p=0.4, n=TOKENS, samples=4, probes=4, device="cpu")
    theory = mf.propagate(seen.net, 1, 1.0, p=0.4, n=TOKENS)
    assert found.q[-1] == pytest.approx(theory.q[-1], rel=0.1)


def test_biases_gains_and_layer_scales_are_read():
    model = MODELS["timm"]()
    for block in model:
        assert mf.reference.describe(block).scales["layer_scale_1"] == pytest.approx([0.5])
        for part, value in ((block.norm1.weight, 2.0), (block.norm2.bias, 0.3), (block.attn.proj.bias, 0.1), (block.mlp.fc2.bias, 0.7)):
            part.data.normal_().mul_(value / part.data.square().mean().sqrt())
        block.attn.qkv.bias.data[: 2 * WIDTH] = 0
        block.attn.qkv.bias.data[2 * WIDTH :] = 0.2 * torch.randn(WIDTH).sign()
    seen = mf.reference.describe(model)
    expected = {"gain_1": 2, "gain_2": 1, "shift_1": 0, "shift_2": 0.3, "bias_V": 0.2, "bias_O": 0.1, "bias_2": 0.7}
    for letter, value in expected.items():
        assert seen.scales[letter] == pytest.approx([value] * LAYERS), letter
    predicted(model, seen, 0.12)
    model[1].attn.qkv.bias.data[:WIDTH] = 0.5
    with pytest.raises(mf.reference.NotRecognised, match="1: the bias of the queries is not zero"):
        mf.reference.describe(model)


def predicted(model, seen, allowed, inputs=None) -> None:
    """q, p and ln J after every layer"""
    found = mf.reference.measure(model, q=1.0, p=0.4, n=TOKENS, samples=4, probes=4, inputs=inputs, device="cpu")
    theory = mf.propagate(seen.net, seen.depth, 1.0, p=0.4, n=TOKENS)
    assert np.abs(np.log(found.q / theory.q)).max() < allowed
    assert np.abs(found.p / found.q - theory.p / theory.q).max() < allowed
    assert np.abs(found.log_apjn - theory.log_apjn).max() < 2 * allowed


@pytest.mark.parametrize("name", ["timm", "ViT", "BERT", "encoder, post-norm"])
def test_real_models_are_predicted(name):
    """one draw at width 128: scatter of a few per cent"""
    model = MODELS[name]()
    if name.startswith("encoder"):
        assert "equal weights" in mf.reference.describe(model).caveats[0]
        for layer in model.layers:
            layer.self_attn._reset_parameters()
            layer.linear1.reset_parameters()
            layer.linear2.reset_parameters()
    seen = mf.reference.describe(model)
    assert not seen.caveats
    predicted(model, seen, 0.1)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_causal_models_are_predicted(name):
    """sigma_QK^2 = 8 under a mask, where uniform weights are 0.8 off in ln J; Llama turns queries and keys, and gates its hidden units"""
    model = MODELS[name]() if name == "Llama" else hugging("GPT2", activation_function="relu")
    gains = {"query": 1.7, "key": 1.7}
    mf.reference.initialise_(model, lambda slot: gains.get(slot.part, 1) * slot.fan_in**-0.5 if slot.fan_in > 1 else None, seed=1)
    seen = mf.reference.describe(model)
    (mask,) = seen.caveats
    assert mask.startswith("causal mask: averages")
    frequencies = seen.net.blocks[0].branch.blocks[-1].frequencies if name == "Llama" else ()
    assert [float(f) for f in frequencies] == (model.rotary_emb.inv_freq.tolist() if name == "Llama" else [])
    predicted(model, seen, 0.1, INPUTS[name])
    if name == "Llama":
        alone = mf.reference.describe(model.layers[0])
        assert alone.caveats[-1].startswith("rotary position embedding: its frequencies are not in this module")
        model.layers[1].self_attn.sliding_window = 3
        assert mf.reference.describe(model).caveats[-1] == "sliding window: the law is that of at most 3 tokens"


def test_parallel_branches_and_norms_of_heads_are_predicted():
    """GPT-NeoX turns a quarter of each head; of Qwen3 the scales of queries and keys do not matter, their gains do"""
    for name in ("GPT-NeoX", "Qwen3"):
        model = MODELS[name]()
        matrices = ("linear", "query", "key", "value", "output", "up", "gate", "down")
        mf.reference.initialise_(model, dict.fromkeys(matrices, 1.0) | {"query": 1.3, "key": 1.3, "output": 1.2}, seed=1)
        if name == "Qwen3":
            for layer in model.layers:
                layer.self_attn.q_norm.weight.data.fill_(1.6)
                layer.input_layernorm.weight.data.fill_(1.3)
        seen = mf.reference.describe(model)
        assert seen.alike
        predicted(model, seen, 0.1, INPUTS[name])
        if name == "GPT-NeoX":
            turned = seen.net.branch.branches[0].blocks[-1].frequencies
            assert [f == 0 for f in turned] == [False] * 4 + [True] * 12
            assert seen.scales["sigma_Q"] == pytest.approx([1.3] * LAYERS, rel=0.03)


def test_one_norm_for_both_branches():
    for model in (hugging("Phi", 32), MODELS["Cohere"](32), hugging("Falcon", 32)):
        seen = mf.reference.describe(model)
        assert isinstance(seen.net.branch, mf.Parallel)
        assert (seen.scales["gain_1"] == seen.scales["gain_2"]).all()
    with pytest.raises(mf.reference.NotRecognised, match=r"does not run on tokens alone: .*'alibi'"):
        mf.reference.describe(hugging("Falcon", 32, alibi=True))


@pytest.mark.parametrize("name", ["OLMo2", "Cohere"])
def test_norms_behind_branches_and_neighbours_as_pairs_are_predicted(name):
    """queries and keys of OLMo2 are normed and its values are not, but by the norm of the branch; Cohere turns neighbours as a pair"""
    model = MODELS[name]()
    matrices = ("query", "key", "value", "output", "up", "gate", "down")
    mf.reference.initialise_(model, dict.fromkeys(matrices, 1.0) | {"query": 1.3, "key": 1.3, "output": 1.2}, seed=2)
    if name == "OLMo2":
        for layer in model.layers:
            layer.self_attn.q_norm.weight.data.fill_(1.6)
            layer.post_attention_layernorm.weight.data.fill_(0.8)
    predicted(model, mf.reference.describe(model), 0.1, INPUTS[name])


def test_what_the_nearest_layout_lacks_is_named():
    with pytest.raises(mf.reference.NotRecognised, match=r"h\.0 \(BloomBlock\) .* nearest is a transformers Falcon.* has no mlp\.act"):
        mf.reference.describe(hugging("Bloom", 32, n_layer=2, n_head=4))
    transformers = pytest.importorskip("transformers")
    config = transformers.GPTBigCodeConfig(n_embd=32, n_layer=2, n_head=4, vocab_size=50, bos_token_id=0, eos_token_id=0)
    assert mf.reference.describe(transformers.GPTBigCodeModel(config)).depth == 2  # one head of keys and values, packed


def test_perceptrons():
    sizes = (40, 300, 300, 300, 10)
    layers = [part for a, b in itertools.pairwise(sizes) for part in (torch.nn.Linear(a, b), torch.nn.ELU(0.5))]
    model = torch.nn.Sequential(torch.nn.Sequential(*layers[:4]), torch.nn.Dropout(), *layers[4:])
    mf.reference.initialise_(model, {"linear": 1.2, "bias": 0.3}, seed=0)
    seen = mf.reference.describe(model)
    assert (seen.depth, seen.modules, seen.before.sigma_b == 0) == (3, ("0.2", "2", "4"), False)
    assert seen.after == mf.Serial((mf.Activate(mf.elu(0.5)),))
    assert [float(s) for s in (seen.net.blocks[1].sigma_w, seen.net.blocks[1].sigma_b)] == pytest.approx([1.2, 0.3], rel=0.05)
    block = [torch.nn.RMSNorm(64), torch.nn.Tanh(), torch.nn.Linear(64, 64, bias=False)]
    normed = mf.reference.describe(torch.nn.Sequential(*block))
    assert normed.net == mf.Serial((mf.RMSNorm(), mf.Activate(mf.tanh), normed.net.blocks[-1]))


# -- what is not recognised -----------------------------------------------------------------------------------------------------------


def test_altered_blocks_are_named():
    class Doubled(TimmBlock):
        def forward(self, x):
            return x + super().forward(x)

    class Extra(TimmBlock):
        def __init__(self):
            super().__init__()
            self.temperature = torch.nn.Parameter(torch.ones(()))

    altered = MODELS["timm"]()
    altered[1].mlp.act = torch.nn.LogSigmoid()
    for block, name in (
        (torch.nn.Sequential(TimmBlock(), Doubled()), r"1 \(Doubled\) does not compute what a timm Block does: the nearest"),
        (torch.nn.Sequential(TimmBlock(), Extra()), r"1 \(Extra\): temperature has no place in a timm Block"),
        (torch.nn.Sequential(TimmBlock(), torch.nn.LSTM(8, 8)), r"1 \(LSTM\) has no known layout"),
        (altered, "0 and 1 are of different kinds, by activation:"),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Conv1d(4, 4, 1)), r"1 \(Conv1d\) is no Linear"),
        (torch.nn.LSTM(8, 8), r"LSTM \(LSTM\) has no known layout"),
        (torch.nn.ModuleList([torch.nn.Bilinear(3, 3, 3)]), r"\.0 \(Bilinear\) has no known layout"),
    ):
        with pytest.raises(mf.reference.NotRecognised, match=name):
            mf.reference.describe(block)
    hooked = MODELS["timm"]()
    hooked[2].register_forward_hook(lambda module, args, out: 1.5 * out)
    with pytest.raises(mf.reference.NotRecognised, match=r"2 \(TimmBlock\) does not compute"):
        mf.reference.describe(hooked)

    with pytest.raises(mf.reference.NotRecognised, match=r"1 of Sequential \(Cube\) has the values of no activation"):
        mf.reference.describe(torch.nn.Sequential(torch.nn.Linear(4, 4), Cube(), torch.nn.Linear(4, 4)))
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module"):
        mf.reference.describe(mf.mlp(mf.tanh))


class Cube(torch.nn.Module):
    def forward(self, x):
        return torch.sinh(x) / 8


ACTIVATIONS = {
    "encoder, pre-norm": "activation", "encoder, post-norm": "activation", "timm": "mlp.act", "ViT": "mlp.activation_fn",
    "BERT": "intermediate.intermediate_act_fn", "GPT-2": "mlp.act", "Llama": "mlp.act_fn", "Qwen3": "mlp.act_fn", "OPT": "activation_fn",
    "GPT-NeoX": "mlp.act", "Gemma2": "mlp.act_fn", "OLMo2": "mlp.act_fn", "Phi3": "mlp.activation_fn",
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_altered_block_is_named(name):
    """another output, another parameter, an unknown activation, a norm that does not divide; a known activation is read"""
    path = PARTS[name][0].format(1)
    kind = type(MODELS[name](32).get_submodule(path)).__name__
    holder, _, last = ACTIVATIONS[name].rpartition(".")

    def scaled(block):
        block.register_forward_hook(lambda m, args, out: (1.01 * out[0], *out[1:]) if isinstance(out, tuple) else 1.01 * out)

    def bent(block):
        setattr(block.get_submodule(holder), last, Cube())

    def unnormed(block):
        norm = block.get_submodule("post_attention_layernorm" if name == "OLMo2" else PARTS[name][2][0])
        norm.forward = lambda x: x * (1 + norm.weight)

    for alter, said in (
        (scaled, rf"{path} \({kind}\) does not compute what"),
        (
            lambda block: block.register_parameter("temperature", torch.nn.Parameter(torch.ones(()))),
            rf"{path} \({kind}\): temperature has no",
        ),
        (bent, rf"{path}.*(\(Cube\) has the values of no activation|does not compute what)"),
        (unnormed, rf"{path}.*(does not compute what|is neither a layer norm nor an RMS norm)"),
    ):
        model = MODELS[name](32)
        alter(model.get_submodule(path))
        with pytest.raises(mf.reference.NotRecognised, match=said):
            mf.reference.describe(model)
    if not name.startswith("encoder"):  # whose fused kernel has relu or gelu whatever stands there
        model = MODELS[name](32)
        for i in range(LAYERS):
            setattr(model.get_submodule(PARTS[name][0].format(i)).get_submodule(holder), last, torch.nn.Tanh())
        assert repr(mf.tanh) in repr(mf.reference.describe(model).net)


def test_norms_elsewhere_are_named_and_branches_in_parallel_are_read():
    class Inside(TimmBlock):
        def forward(self, x):
            x = x + self.norm1(self.attn(x))
            return x + self.norm2(self.mlp(x))

    class Beside(TimmBlock):
        def forward(self, x):
            return x + self.ls1(self.attn(self.norm1(x))) + self.mlp(self.norm2(x))

    class Between(TimmBlock):
        def __init__(self):
            super().__init__(32, 4, 64)
            self.between = torch.nn.Softsign()

        def forward(self, x):
            return self.between(super().forward(x))

    beside = mf.reference.describe(Beside(32, 4, 64)).net
    assert isinstance(beside, mf.Residual)
    assert isinstance(beside.branch, mf.Parallel)
    for block in (Inside(32, 4, 64), Between()):
        with pytest.raises(mf.reference.NotRecognised, match=rf"model \({type(block).__name__}\) does not compute what a timm Block does"):
            mf.reference.describe(block)


# -- measuring ------------------------------------------------------------------------------------------------------------------------


def jacobian_norm(model, first, last, inputs) -> float:
    """|d last output/d first input|^2 per output, of the model as it runs, by autograd alone"""
    ends = {}

    def start(module, args, kwargs):
        ends["in"] = (args[0] if args else kwargs["hidden_states"]).detach().requires_grad_()
        return ((ends["in"], *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": ends["in"]})

    handles = [
        model.get_submodule(first).register_forward_pre_hook(start, with_kwargs=True),
        model.get_submodule(last).register_forward_hook(lambda m, a, out: ends.update(out=out[0] if isinstance(out, tuple) else out)),
    ]
    model.eval()(**inputs)
    for handle in handles:
        handle.remove()
    out = ends["out"].flatten()
    (rows,) = torch.autograd.grad(out, ends["in"], torch.eye(out.numel()), is_grads_batched=True)
    return float(rows.double().square().sum()) / out.numel()


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "BERT", "ViT"])
def test_measured_gradients_are_those_of_the_model(name):
    """blocks run again on their own: what the model caches between calls, masks and positions must be as in its own run"""
    model = MODELS[name](32)
    inputs = {"pixel_values": torch.randn(1, 3, 16, 16)} if name == "ViT" else {"input_ids": torch.arange(TOKENS)[None]}
    caches = getattr(model.config, "use_cache", None)
    seen = mf.reference.measure(model, inputs=inputs, samples=12, probes=8, device="cpu")
    exact = jacobian_norm(model, seen.modules[0], seen.modules[-1], inputs)
    assert seen.apjn_error[0] < 0.08 * exact
    assert abs(seen.apjn[0] - exact) < 4 * seen.apjn_error[0]
    assert getattr(model.config, "use_cache", None) == caches
    if name == "Llama":
        before = model(input_ids=torch.arange(3)[None])
        kept = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"  # before transformers 5.24
        inputs[kept] = before[kept]
        with pytest.raises(ValueError, match=f"inputs: the model hands its modules {kept}, which grows"):
            mf.reference.measure(model, inputs=inputs, samples=2, device="cpu")


def test_a_module_with_a_state_is_named():
    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    with pytest.raises(ValueError, match="Counting gives something else when it is called again"):
        mf.reference.measure([Counting()], q=1.0, width=8, samples=2, device="cpu")


def test_modules_may_write_on_their_input():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(inplace=True), torch.nn.Linear(64, 64))
    plain = torch.nn.Sequential(model[0], torch.nn.ReLU(), model[2])
    seen, expected = (mf.reference.measure(m, q=1.0, width=64, samples=2, device="cpu") for m in (model, plain))
    assert np.array_equal(seen.q, expected.q)
    assert np.array_equal(seen.apjn, expected.apjn)


@pytest.mark.parametrize("name", ["ViT", "GPT-2"])
def test_a_measured_model_is_left_as_it_was(name):
    model = MODELS[name]().train()
    model.get_submodule(PARTS[name][0].format(1)).eval()
    modes = [m.training for m in model.modules()]
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    for _ in range(2):
        mf.reference.measure(model, q=1.0, p=0.2, n=TOKENS, samples=2, probes=1, inputs=INPUTS.get(name), device="cpu")
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(weights[k], v) for k, v in model.state_dict().items())
    assert all(w.grad is None for w in model.parameters())
    assert torch.equal(state, torch.random.get_rng_state())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("when", ["on the inputs", "forward", "backward"])
def test_a_model_that_fails_half_way_is_left_as_it_was(when):
    """in its own run, with hooks on; when a block runs alone; when it runs again for its gradient"""

    class Failing(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == {"on the inputs": 1, "forward": 2, "backward": 3}[when]:
                raise RuntimeError("half-way")
            return torch.nn.functional.dropout(x, 0.1, self.training)

    model = MODELS["timm"](32).train()
    model[1].mlp.act = Failing()
    model[2].eval()
    inputs = torch.randn(1, TOKENS, 32)
    modes, weights, state = [m.training for m in model.modules()], copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    with pytest.raises(RuntimeError, match="half-way"):
        mf.reference.measure(model, q=1.0, p=0.2, inputs=inputs, samples=2, device="cpu", seed=3)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert [m.training for m in model.modules()] == modes
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(weights[k], v) for k, v in model.state_dict().items())
    assert all(w.grad is None and w.requires_grad for w in model.parameters())


def test_settings_of_a_model_come_back_when_it_fails():
    """what is switched off for a run: the cache of keys"""
    model = MODELS["GPT-2"](32)
    with pytest.raises(IndexError, match="index out of range"):
        mf.reference.measure(model, inputs={"input_ids": torch.full((1, 3), 10**6)}, samples=2, device="cpu")
    assert model.config.use_cache is True
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_modules_by_name_and_embeddings():
    model = MODELS["GPT-2"]()
    ids = {"input_ids": torch.arange(TOKENS)[None]}
    blocks = [f"h.{i}" for i in range(LAYERS)]
    own = mf.reference.measure(model, modules=blocks, inputs=ids, samples=2, probes=1, device="cpu")
    states = model.eval()(**ids, output_hidden_states=True).hidden_states
    assert own.modules == tuple(blocks)
    assert own.q[:LAYERS] == pytest.approx([float(h.detach().double().square().mean()) for h in states[:LAYERS]], rel=1e-5)
    some = mf.reference.measure(model, modules=blocks[1:], inputs=ids, samples=2, probes=1, device="cpu")
    assert some.q == pytest.approx(own.q[1:])
    for modules, message in ((["h.1", "h.0"], "in that order"), (["h.0", "h.2"], "number 1 is not called on"), (["g"], "g is no module")):
        with pytest.raises(ValueError, match=message):
            mf.reference.measure(model, modules=modules, inputs=ids, samples=2, device="cpu")


def test_sublayers_of_a_twin():
    """the four branches of two blocks one by one: every second state is that of a block"""
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.UniformAttention(n=4), mlp=mf.MLP(mf.relu))
    values = {"sigma_V": 1, "sigma_O": 1, "sigma_1": 1, "sigma_2": 1}
    twin = mf.reference.build(net, 32, 2, q=1.0, p=0.3, seed=0, **values)
    parts = [part for block in twin for part in block]
    each = mf.reference.measure(twin, modules=parts, samples=2, fresh=False, device="cpu")
    whole = mf.reference.measure(twin, samples=2, fresh=False, device="cpu")
    assert each.modules == ("0.0", "0.1", "1.0", "1.1")
    assert np.allclose(each.q[::2], whole.q)
    assert np.allclose(each.apjn[::2], whole.apjn)
    assert np.allclose(mf.reference.measure(parts, q=1.0, p=0.3, n=4, samples=2, width=32, device="cpu").q, each.q)


def test_memory_does_not_grow_with_what_a_module_holds():
    """graphs of one module at a time: tensors saved for backward, counted as they are saved and freed"""

    class Counted(torch.nn.Module):
        alive = most = 0

        def forward(self, x):
            def save(t):
                Counted.alive += 1
                Counted.most = max(Counted.most, Counted.alive)
                return t

            def load(t):
                Counted.alive -= 1
                return t

            with torch.autograd.graph.saved_tensors_hooks(save, load):
                return torch.tanh(torch.sin(x))

    mf.reference.measure([Counted() for _ in range(50)], q=1.0, width=16, samples=2, probes=1, device="cpu")
    assert 0 < Counted.most <= 4


def test_dropout_of_a_twin_is_the_same_backward():
    """the module runs again with the same random numbers: x is a gradient of x^2/2 through a mask"""
    net = mf.Dropout(sp.Rational(1, 2)) >> mf.Linear(1, 0)
    twin = mf.reference.build(net, 64, 3, q=1.0, seed=0)
    twin.requires_grad_(False)
    seen = mf.reference.measure(twin, samples=30, fresh=False, device="cpu")
    assert seen.apjn[0] == pytest.approx(8, rel=0.2)


# -- initialising ---------------------------------------------------------------------------------------------------------------------


def test_initialise_reports_what_it_did():
    model = MODELS["GPT-2"]()
    names = {name for name, _ in model.named_parameters()}
    state = torch.random.get_rng_state()
    done = mf.reference.initialise_(model, mf.reference.rules.gpt2(0.1), seed=1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert {c.slot.name for c in done.changes} == names
    for change in done.changes:
        slot = change.slot
        asked = {"bias": 0.0, "other": None}.get(slot.part, 0.1 / math.sqrt(2 * LAYERS) if slot.ends_branch else 0.1)
        assert change.asked == (asked if asked is None else pytest.approx(asked))
        if asked:
            assert change.after == pytest.approx(asked, rel=0.05)
        elif asked is None:
            assert change.after == change.before
    packed = [c.slot.part for c in done.changes if c.slot.name == "h.1.attn.c_attn.weight"]
    assert packed == ["query", "key", "value"]
    seen = mf.reference.describe(model)
    assert seen.scales["sigma_O"] == pytest.approx([0.1 * math.sqrt(WIDTH / (2 * LAYERS))] * LAYERS, rel=0.03)
    assert seen.scales["sigma_K"] == pytest.approx([0.1 * math.sqrt(WIDTH)] * LAYERS, rel=0.03)
    assert "h.2.mlp.c_proj.weight" in repr(done)


def test_rules():
    model = MODELS["ViT"]()
    beta = mf.scaling.deepnet("encoder")(N=LAYERS)["beta"]
    for rule, scales in (
        (mf.reference.rules.deep_norm(), {"sigma_Q": 1, "sigma_V": beta, "sigma_O": beta, "sigma_1": beta * math.sqrt(2 / 3)}),
        (mf.reference.rules.deep_norm(0.2), {"sigma_K": 1, "sigma_V": 0.2}),
        (mf.reference.rules.gains(mf.relu), {"sigma_O": 1, "sigma_1": 1, "sigma_2": math.sqrt(2)}),
        (mf.reference.rules.golden_rules(), {"sigma_V": 0.5, "sigma_1": math.sqrt(2) / (1 + math.sqrt(2))}),
        ({"value": 3.0, "down": 0.0}, {"sigma_V": 3, "sigma_2": 0}),
    ):
        mf.reference.initialise_(model, rule, seed=2)
        seen = mf.reference.describe(model)
        for letter, value in scales.items():
            assert seen.scales[letter] == pytest.approx([value] * LAYERS, rel=0.03), letter
    for rule, error, message in (
        ("xavier", TypeError, "rule = 'xavier'"),
        (lambda slot: -1.0, ValueError, r"standard deviation of -1\.0 for embeddings"),
    ):
        weights = {k: v.clone() for k, v in model.state_dict().items()}
        with pytest.raises(error, match=message):
            mf.reference.initialise_(model, rule)
        assert all(torch.equal(weights[k], v) for k, v in model.state_dict().items())


def test_critical_perceptron_keeps_its_variance():
    model = torch.nn.Sequential(*(part for _ in range(6) for part in (torch.nn.Tanh(), torch.nn.Linear(400, 400))))
    mf.reference.initialise_(model, mf.reference.rules.critical(mf.tanh, 1.0), seed=0)
    seen = mf.reference.describe(model)
    assert [float(seen.net.blocks[1].sigma_w) ** 2, float(seen.net.blocks[1].sigma_b) ** 2] == pytest.approx([2.1533, 0.15096], rel=0.02)
    run = mf.propagate(seen.net, 6, 1.0)
    assert run.q[-1] == pytest.approx(1, rel=0.05)
    with pytest.raises(ValueError, match="would be negative"):
        mf.reference.rules.critical(mf.softplus, 1.0)
