"""The twin is the network that was described: modules, inputs, random state, and what is refused."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_functions_are_those_of_sympy():
    from meanfield.reference.expressions import tensor_function

    points = np.linspace(-3, 3, 13) + 0.01
    at = torch.tensor(points, requires_grad=True)
    for name, phi in mf.activations.items():
        if phi.expression.free_symbols != {mf.x}:
            phi = phi(*(0.3, 1.2)[: len(phi.expression.free_symbols) - 1])
        found = tensor_function(phi.expression)(at)
        expected = [float(phi.expression.subs(mf.x, float(t))) for t in points]
        assert np.allclose(found.detach().numpy(), expected, rtol=1e-13, atol=1e-15), name
        if phi.expression.has(sp.Heaviside, sp.sign):
            continue
        slope = [float(sp.N(phi.expression.diff(mf.x).subs(mf.x, float(t)))) for t in points]
        assert np.allclose(torch.autograd.grad(found.sum(), at)[0].numpy(), slope, rtol=1e-12, atol=1e-14), name


def test_pieces_do_not_leak_into_each_other():
    """exp overflows where it is not used"""
    from meanfield.reference.expressions import tensor_function

    elu = tensor_function(sp.Piecewise((mf.x, mf.x > 0), (sp.exp(mf.x) - 1, True)))
    at = torch.tensor([-1.0, 0.0, 800.0], dtype=torch.float64, requires_grad=True)
    value = elu(at)
    assert value.tolist() == pytest.approx([math.expm1(-1), 0.0, 800.0])
    assert torch.autograd.grad(value.sum(), at)[0].tolist() == pytest.approx([math.exp(-1), 1.0, 1.0])


def test_unknown_function_is_named():
    from meanfield.reference.expressions import tensor_function

    with pytest.raises(ValueError, match="besselj has no torch counterpart"):
        tensor_function(sp.besselj(0, mf.x))


def test_block_without_a_rule_is_named():
    class Strange(mf.Block):
        def law(self, signal):
            return mf.Law(signal, sp.eye(2), sp.S.One)

        def __repr__(self):
            return "Strange()"

        def __hash__(self):
            return 0

    with pytest.raises(TypeError, match=r"no torch layer is known for the block Strange\(\)"):
        mf.reference.build(mf.Residual(mf.Linear(1, 0)) >> Strange(), 8, 1)


def test_missing_and_unknown_parameters_are_both_listed():
    with pytest.raises(ValueError, match=r"missing parameters: sigma_b; unknown parameters: sigma_z.*sigma_b, sigma_w"):
        mf.reference.build(mf.mlp(mf.tanh), 8, 1, sigma_w=1, sigma_z=2)


UNUSED = {
    "queries of scale 0": (mf.sas(norm=mf.LayerNorm(), mlp=mf.MLP(mf.relu, 1, 1), n=6, sigma_Q=0), {"sigma_K": 1.0}),
    "a branch of scale 0": (mf.skip_init(mf.MLP(mf.relu)), {"sigma_1": 1.0, "sigma_2": 1.0}),
    "a slope in one": (mf.Residual(mf.Derf() >> mf.Linear(1, 0), scale=0), {"alpha": 1.0}),
    "in front of a norm": (mf.Residual(mf.Linear(None, 0) >> mf.LayerNorm()), {"sigma_w": 1.0}),
    "attention without softmax": (mf.value_skipinit(mlp=mf.MLP(mf.relu, 1, 1)), {"n": 5.0, "sigma_Q": 1.0, "sigma_K": 1.0}),
}


@pytest.mark.parametrize(("net", "unused"), UNUSED.values(), ids=list(UNUSED))
def test_scales_on_which_the_law_does_not_depend_may_be_given_or_left_out(net, unused):
    """the modules need them; the theory has no such parameter, and any value of them the same"""
    given = {s.name: 1.0 for s in mf.recursion(net).parameters}
    assert not given.keys() & unused.keys()
    start = {"q": 1.0, "c": 0.4, "n": 5 if "n" in unused else None}
    twin = mf.reference.build(net, width=32, depth=2, **start, **given)
    assert twin.settings == {**given, **unused}
    other = {name: 0.7 for name in unused if name != "n"}
    seen = mf.reference.compare(net, width=32, depth=2, samples=4, device="cpu", **start, **given, **other)
    assert seen.agrees
    assert seen.scatter.log_q.shape == (3,)
    with pytest.raises(ValueError, match="unknown parameters: sigma_9"):
        mf.reference.build(net, width=32, depth=2, sigma_9=1.0, **start, **given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10**30}, "width = 1000000000000000000000000000000: expected a whole number, at least 1 and at most 10"),
        ({"depth": 10**30}, "depth = 1000000000000000000000000000000: expected a whole number, at least 1 and at most 10"),
        ({"seed": 10**30}, "seed = 1000000000000000000000000000000: expected a whole number, at least 0 and at most 18446744073709551615"),
        ({"width": 10**9}, "the network needs .* GiB .width = 1000000000, depth = 2, "),
        ({"depth": 10**18}, "the network needs .* GiB .width = 8, depth = 1000000000000000000, "),
        ({"hidden": 1e30}, "the network needs .* GiB .width = 8, depth = 2, "),
    ],
)
def test_sizes_that_no_memory_holds_are_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        mf.reference.build(mf.MLP(mf.relu, 1, 1), **{"width": 8, "depth": 2, **options})


def test_tokens_that_the_law_does_not_count_are_those_of_the_input():
    net = mf.rezero(attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    assert mf.reference.build(net, width=32, depth=1, q=1.0, c=0.5).tokens == 16
    assert mf.reference.build(net, width=32, depth=1, n=3).tokens == 3
    with pytest.raises(ValueError, match="missing parameters: n"):
        mf.reference.build(net, width=32, depth=1)


@pytest.mark.parametrize("draw", ["gaussian", "orthogonal", "truncated_normal"])
def test_entries_have_the_standard_deviation_asked_for(draw):
    """mean square of 30,000 entries, in matrices that stand, lie and are views; a vector; the tails"""
    fill = getattr(mf.reference.draws, draw)
    torch.manual_seed(0)
    for tensor in (torch.empty(300, 100), torch.empty(100, 300), torch.empty(300, 100).T, torch.empty(30000)):
        fill(tensor, 0.7)
        assert float(tensor.square().mean().sqrt()) == pytest.approx(0.7, rel=0.02)
    assert (float(tensor.abs().max()) < 2.28 * 0.7) == (draw == "truncated_normal")
    model = torch.nn.Linear(64, 32)
    mf.reference.initialise_(model, {"linear": 1.0, "bias": 0.5}, draw=fill, seed=0)
    rows = (model.weight @ model.weight.T).detach()
    assert torch.allclose(rows, torch.eye(32), atol=1e-5) == (draw == "orthogonal")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma_w": [1.0, 2.0]}, "one setting"),
        ({"width": 0}, "width = 0"),
        ({"depth": 1.5}, "depth = 1.5"),
        ({"p": 0.3}, "without q"),
        ({"q": 1.0, "p": 2.0}, r"\|p\| must be at most q"),
        ({"q": 1.0, "p": -0.9, "n": 8}, "must be at least"),
        ({"hidden": 0.0}, "hidden = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"draw": "orthogonal"}, r"draw = 'orthogonal': expected a function"),
    ],
)
def test_refused_by_build(options, message):
    given = {"width": 8, "depth": 1, "sigma_w": 1.0, "sigma_b": 0.1, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        mf.reference.build(mf.mlp(mf.tanh), **given)


def test_refused_by_measure():
    twin = mf.reference.build(mf.mlp(mf.tanh), 8, 1, sigma_w=1, sigma_b=0)
    for options, message in [
        ({}, "no input"),
        ({"q": 1.0, "p": 0.1, "n": 9}, "width >= n"),
        ({"q": 1.0, "n": 2}, "give one of p, c and gap"),
        ({"q": 1.0, "samples": 1}, "samples = 1"),
        ({"q": 1.0, "start": "last"}, "start = 'last'"),
    ]:
        with pytest.raises(ValueError, match=message):
            mf.reference.measure(twin, **options)


def test_attention_counts_tokens_and_heads():
    values = {"sigma_Q": 1, "sigma_K": 1, "sigma_V": 1, "sigma_O": 1}
    with pytest.raises(ValueError, match="heads = 3"):
        mf.reference.build(mf.Residual(mf.Attention()), 8, 1, heads=3, n=4, **values)
    twin = mf.reference.build(mf.Residual(mf.Attention(n=4)), 8, 1, heads=2, **values)
    assert twin.tokens == 4
    with pytest.raises(ValueError, match="attention over n = 4 tokens"):
        mf.reference.measure(twin, q=1.0, p=0.1, n=3)


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_is_that_of_torch(heads):
    net = mf.Residual(mf.Attention(n=5, sigma_Q=2, sigma_K=2, sigma_V=1, sigma_O=1), skip=0)
    twin = mf.reference.build(net, 16, 1, heads=heads, seed=0)
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    part = twin[0].branch
    split = [f(x).unflatten(-1, (heads, -1)).transpose(1, 2) for f in (part.query, part.key, part.value)]
    mixed = torch.nn.functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(-2)
    assert torch.allclose(twin(x), part.output(mixed))


def test_weights_have_the_variance_described():
    net = mf.Residual(mf.MLP(mf.relu, sigma_1=1.5, sigma_2=0.5) + mf.Linear(sigma_w=2, sigma_b=3), skip=0.5, scale=2)
    twin = mf.reference.build(net, 200, 1, hidden=4, seed=0)
    (first, _, last), bias = twin[0].branch.branches[0], twin[0].branch.branches[1]
    assert first.weight.shape == (800, 200)
    assert last.weight.shape == (200, 800)
    for weight, sigma, fan_in in ((first.weight, 1.5, 200), (last.weight, 0.5, 800), (bias.weight, 2, 200), (bias.bias, 3, 1)):
        assert float(weight.detach().std()) == pytest.approx(sigma / fan_in**0.5, rel=3 / weight.numel() ** 0.5)
    assert first.bias is None
    x = torch.randn(7, 200, dtype=torch.float64)
    parts = last(torch.relu(first(x))) + bias(x)
    assert torch.allclose(twin(x), 0.5 * x + 2 * parts)


def test_norms_and_repeats():
    twin = mf.reference.build(mf.Repeat(mf.LayerNorm() >> mf.Linear(1, 0), 3) >> mf.RMSNorm() >> mf.Scale(3) >> mf.Identity(), 32, 2)
    repeats, norm = twin[0][0], twin[0][1]
    assert len(repeats) == 3
    assert not torch.equal(repeats[0][1].weight, repeats[1][1].weight)
    x = 1 + torch.randn(5, 32, dtype=torch.float64)
    assert torch.allclose(repeats[0][0](x), torch.nn.functional.layer_norm(x, (32,), eps=0))
    assert torch.allclose(norm(x), x / (x * x).mean(-1, keepdim=True).sqrt())
    assert torch.allclose((twin(x) ** 2).mean(-1), torch.full((5,), 9.0, dtype=torch.float64))


@pytest.mark.parametrize(("p", "n"), [(0.4, 6), (-0.2, 6), (-0.4, 6), (2.0, 6), (0.0, 1)])
def test_inputs_have_exactly_that_gram_matrix(p, n):
    from meanfield.reference.inputs import Start

    x = Start(2.0, 2.0 - p, n).tokens(3, 40, torch.float64, torch.device("cpu"))
    gram = x @ x.transpose(-1, -2) / 40
    assert torch.allclose(gram, p + (2.0 - p) * torch.eye(n, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize(("c", "n"), [(0.3, 16), (-1 / 15, 16), (-0.1, 11), (-0.6, 2), (-1.0, 2)])
def test_as_many_inputs_as_can_have_the_covariance(c, n):
    from meanfield.reference.inputs import start_of

    assert start_of(2.0, None, c, None, None).n == n
    assert start_of(2.0, None, None, None, None).n == 1
    twin = mf.reference.build(mf.mlp(mf.tanh), 64, 1, sigma_w=1, sigma_b=0.1, q=1.0, c=c)
    assert twin.start.n == n


def test_random_state_and_model_are_left_alone():
    twin = mf.reference.build(mf.mlp(mf.tanh), 16, 2, sigma_w=1, sigma_b=0.1, q=1.0, p=0.5)
    weights, state = copy.deepcopy(twin.state_dict()), torch.random.get_rng_state()
    first = mf.reference.measure(twin, device="cpu")
    second = mf.reference.measure(twin, q=1.0, c=0.5, n=16, device="cpu")
    mf.reference.build(mf.mlp(mf.tanh), 16, 2, sigma_w=1, sigma_b=0.1, seed=3)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(weights[k], v) for k, v in twin.state_dict().items())
    assert np.array_equal(first.apjn, second.apjn)
    assert not np.array_equal(first.apjn, mf.reference.measure(twin, seed=1, device="cpu").apjn)


def test_same_seed_same_network():
    one, two, other = (mf.reference.build(mf.Linear(1, 1), 8, 2, seed=s).state_dict() for s in (0, 0, 1))
    assert all(torch.equal(one[k], two[k]) and not torch.equal(one[k], other[k]) for k in one)
    torch.manual_seed(5)
    drawn = mf.reference.build(mf.Linear(1, 1), 8, 2).state_dict()
    torch.manual_seed(5)
    assert all(torch.equal(v, drawn[k]) for k, v in mf.reference.build(mf.Linear(1, 1), 8, 2).state_dict().items())


def test_any_series_of_torch_layers_is_measured():
    """PyTorch's default Linear has weights uniform in +-1/sqrt(fan_in): variance 1/(3 fan_in)"""
    model = torch.nn.Sequential(*(torch.nn.Linear(300, 300) for _ in range(2)))
    seen = mf.reference.measure(model, q=1.0, c=0.5, n=4, width=300, device="cpu")
    assert seen.apjn == pytest.approx([1 / 9, 1 / 3, 1], rel=0.02)
    assert mf.reference.measure(model, q=1.0, device="cpu").width == 300
    with pytest.raises(TypeError, match="width: Tanh does not say"):
        mf.reference.measure(torch.nn.Sequential(torch.nn.Tanh()), q=1.0)


def test_a_module_that_cannot_be_redrawn_is_named():
    class Gain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.gain * x

    with pytest.raises(TypeError, match=r"Gain has weights and no reset_parameters\(\)"):
        mf.reference.measure(torch.nn.Sequential(Gain()), q=1.0, width=8, fresh=True)


def test_single_input():
    twin = mf.reference.build(mf.mlp(mf.relu), 32, 2, sigma_w=2**0.5, sigma_b=0, q=2.0)
    seen = mf.reference.measure(twin, device="cpu")
    assert seen.n == 1
    assert np.isnan(seen.p).all()
    assert " K" not in repr(seen).splitlines()[1]
    compared = mf.reference.compare(mf.mlp(mf.relu), 64, 2, q=2.0, sigma_w=2**0.5, sigma_b=0, samples=6, device="cpu")
    assert compared.p is None
    assert list(compared.differences) == ["q", "ln J"]


def test_theory_without_numbers_is_refused():
    with pytest.raises(ValueError, match="no finite numbers to compare with here: underflow"):
        mf.reference.compare(mf.Linear(1e-100, 0), 8, 3, q=1.0, c=0.5, n=2)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import meanfield, sys; assert 'torch' not in sys.modules", ""),
        ("import sys; sys.modules['torch'] = None; import meanfield; meanfield.reference", 'install "meanfield-nn[torch]"'),
    ],
)
def test_torch_is_loaded_on_use_and_its_absence_said(code, expected):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(expected)
    assert expected in done.stderr


def test_what_people_read():
    net = mf.Residual(mf.Linear(sigma_w=0.5, sigma_b=0))
    seen = mf.reference.compare(net, 64, 30, q=1.0, c=0.5, samples=4, probes=1, n=4, device="cpu")
    text = repr(seen).splitlines()
    beside = "measured 1/width z"
    assert " ".join(text[1].split()) == f"layer q {beside} p {beside} ln J {beside}"
    assert any(line.split()[0] == "..." for line in text[2:-1])
    assert text[-1] == seen.verdict
    assert "agree" in seen.verdict


def test_disagreement_is_said_in_words():
    seen = mf.reference.compare(mf.mlp(mf.erf), 64, 2, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1, device="cpu")
    shift = np.array([0, 0, 1.0])
    moved = replace(seen, q=replace(seen.q, measured=seen.q.measured + 0.5 * shift, z=seen.q.z + 40 * shift))
    assert not moved.agrees
    assert moved.verdict.startswith("Theory and networks disagree")
    assert moved.second_order < 0.05, "of an ordinary network, small"
    assert "in q at layer 2" in moved.verdict


def test_devices_that_are_not_here_are_named():
    for call in (
        lambda: mf.reference.build(mf.mlp(mf.tanh), 8, 1, sigma_w=1, sigma_b=0, device="nosuch"),
        lambda: mf.reference.measure(torch.nn.Sequential(torch.nn.Linear(8, 8)), q=1.0, device="nosuch"),
        lambda: mf.reference.compare(mf.mlp(mf.tanh), 8, 1, q=1.0, sigma_w=1, sigma_b=0, device="nosuch"),
    ):
        with pytest.raises(ValueError, match=r"device = 'nosuch' is not to be had here .*: expected 'auto', 'cpu'"):
            call()


def test_a_module_that_stands_twice_counts_twice():
    """an activation that layers share, and a matrix that they share, which no law of independent ones describes"""
    layers, act = [torch.nn.Linear(48, 48) for _ in range(3)], torch.nn.Tanh()
    shared = torch.nn.Sequential(layers[0], act, layers[1], act, layers[2])
    apart = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
    one, other = (mf.reference.measure(m, q=1.0, c=0.5, n=4, samples=2, device="cpu") for m in (shared, apart))
    assert np.array_equal(one.apjn, other.apjn)
    assert mf.reference.describe(shared).net == mf.reference.describe(apart).net
    tied = torch.nn.Sequential(layers[0], act, layers[0], act, layers[0])
    assert mf.reference.describe(tied).caveats[0].startswith("equal weights")
    assert mf.reference.measure(tied, q=1.0, samples=2, device="cpu").modules == ("0", "1", "2", "3", "4")


def test_states_in_mappings_and_dataclasses():
    @dataclass
    class Out:
        h: torch.Tensor
        extra: int = 0

    class Layer(torch.nn.Module):
        def __init__(self, wrap):
            super().__init__()
            self.linear, self.wrap = torch.nn.Linear(16, 16), wrap

        def forward(self, x):
            return self.wrap(self.linear(x))

    found = []
    for wrap in (lambda h: h, lambda h: (h, None), lambda h: {"h": h}, Out):
        torch.manual_seed(0)
        found.append(mf.reference.measure([Layer(wrap), Layer(wrap)], q=1.0, samples=2, width=16, device="cpu").apjn)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    with pytest.raises(TypeError, match="returned str: expected a tensor, or a tuple, mapping or dataclass"):
        mf.reference.measure([Layer(str)], q=1.0, samples=2, width=16, device="cpu")


def test_numbers_that_are_none_are_no_measurement():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    model[1].weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"q is not finite at layer 2 of the model in torch\.float32"):
        mf.reference.measure(model, q=1.0, samples=2, device="cpu")
    with pytest.raises(ValueError, match="has no modules to measure"):
        mf.reference.measure(torch.nn.Sequential(), q=1.0, width=8)
    with torch.inference_mode(), pytest.raises(ValueError, match="inference_mode"):
        mf.reference.measure(model, q=1.0, device="cpu")
    with pytest.raises(ValueError, match="'linaer' is no part of a model; expected query"):
        mf.reference.initialise_(model, {"linaer": 1.0})
