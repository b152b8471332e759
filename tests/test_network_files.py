"""Networks described in TOML: what is read, and how everything else is refused."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.network_files import kinds, read_network

LAYER = {"norm": mf.LayerNorm(), "attention": mf.UniformAttention(4), "mlp": mf.MLP(mf.relu)}
SUBLAYERS = 'norm = "LayerNorm"\nattention = { kind = "UniformAttention", n = 4 }\nmlp = { kind = "MLP", phi = "relu(x)" }'
BRANCH = '{ kind = "MLP", phi = "relu(x)" }'

MEANT = {
    "kind": (
        '[network]\nkind = "mlp"\nphi = "erf(x)"\nsigma_w = 1.5\nsigma_b = "1/10"',
        mf.mlp(mf.erf, sp.Rational(3, 2), sp.Rational(1, 10)),
    ),
    "series": ('network = ["LayerNorm", { kind = "Linear", sigma_b = 0 }]', mf.LayerNorm() >> mf.Linear(sigma_b=0)),
    "tables in series": (
        f'[[network]]\nkind = "Residual"\nbranch = {BRANCH}\nscale = "1/sqrt(L)"\n[[network]]\nkind = "RMSNorm"',
        mf.Residual(mf.MLP(mf.relu), scale=1 / sp.sqrt(mf.L)) >> mf.RMSNorm(),
    ),
    "parallel": (f'[network]\nkind = "Parallel"\nbranches = [{BRANCH}, "Linear"]', mf.MLP(mf.relu) + mf.Linear()),
    "repeat": (
        f'[network]\nkind = "Repeat"\ntimes = 3\nblock = {{ kind = "Residual", branch = {BRANCH} }}',
        mf.Repeat(mf.Residual(mf.MLP(mf.relu)), 3),
    ),
    "averages": (
        '[network]\nkind = "Attention"\nn = 8\nsoftmax_derivative = false\naverage = "Quenched"',
        mf.Attention(8, softmax_derivative=False, average=mf.Quenched()),
    ),
    "rotary": (
        '[network]\nkind = "CausalAttention"\nsigma_Q = 1\nsigma_K = 1\nfrequencies = [1, "1/10"]',
        mf.CausalAttention(sigma_Q=1, sigma_K=1, frequencies=(1, sp.Rational(1, 10))),
    ),
    "weights": (
        '[network]\nkind = "FixedAttention"\nweights = "Heaviside(i - j + 1/2)/i"',
        mf.FixedAttention(sp.Heaviside(mf.i - mf.j + sp.S.Half) / mf.i),
    ),
    "letters": ('[network]\nkind = "Activate"\nphi = "erf(a*x)"', mf.Activate(mf.Activation(sp.erf(sp.Symbol("a", positive=True) * mf.x)))),
    **{
        name: (f'[network]\nkind = "{name}"\n{SUBLAYERS}', getattr(mf, name)(**LAYER))
        for name in ("pre_norm", "post_norm", "deep_norm", "sandwich_norm", "parallel_block", "layer_scale", "downweighted")
    },
}


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "net.toml"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("name", MEANT)
def test_meaning(name, written):
    text, net = MEANT[name]
    assert read_network(written(text)).network == net


def test_every_block_and_architecture_is_reached():
    blocks = {n for n in mf.__all__ if isinstance(getattr(mf, n), type) and issubclass(getattr(mf, n), mf.Block)} - {"Block"}
    named = {"CausalAttention", "Derf", "DyT", "GEGLU", "GLU", "MLP", "ReGLU", "ShapedAttention", "SwiGLU", "UniformAttention", "mlp"}
    named |= {"deep_norm", "downweighted", "layer_scale", "parallel_block", "post_norm", "pre_norm", "residual_mlp", "rezero"}
    named |= {"sandwich_norm", "sas", "sas_p", "shaped_attention", "skip_init", "value_skipinit"}
    assert set(kinds()) == blocks | named


def test_values_keep_their_text_and_place(written):
    text = '[network]\nkind = "mlp"\nphi = "relu(x)"\n[parameters]\nsigma_w = [1, 1.5]\nsigma_b = "0:1:3"\n[run]\ndepth = 4\nq = 1e-3'
    path = written(text)
    read = read_network(path)
    assert {k: w.text for k, w in (*read.parameters.items(), *read.run.items())} == {
        "sigma_w": "1,1.5", "sigma_b": "0:1:3", "depth": "4", "q": "0.001",
    }  # fmt: skip
    assert read.parameters["sigma_w"].where == f"{path}: parameters.sigma_w"


NESTED = "".join(["["] * 500 + ["]"] * 500)
DEEP = '{ kind = "Residual", branch = ' * 150 + '"Linear"' + " }" * 150

RELU = '{ kind = "Activate", phi = "relu(x)" }'
REFUSED = {
    "no toml": ("kind = ", "Invalid value"),
    "no network": ("[run]\ndepth = 3", r"the table \[network\] is missing"),
    "unknown table": ('network = "Linear"\n[paramters]\n', r"unknown table \[paramters\]"),
    "unknown kind": ('[network]\nkind = "Transformer"', r'network.kind = "Transformer": expected one of Activate, Attention'),
    "hostile kind": ("[network]\nkind = \"__import__('os')\"", "network.kind = .*: expected one of"),
    "a kind that is no block": ('[network]\nkind = "report"', "network.kind"),
    "unknown key": ('[network]\nkind = "Linear"\nsigma = 1', "network: unknown key sigma; Linear takes sigma_w, sigma_b"),
    "missing key": ('[network]\nkind = "Residual"', "network: branch is missing; Residual takes branch, skip, scale"),
    "no block": ("network = 3", "network = 3: expected a block"),
    "in a list": ('network = ["Linear", 3]', r"network\[1\] = 3: expected a block"),
    "no list": ('[network]\nkind = "Parallel"\nbranches = "Linear"', "network.branches = .*: expected a list of blocks"),
    "call": ('[network]\nkind = "Linear"\nsigma_w = "__import__(\\"os\\").system(1)"', "network.sigma_w = .*not allowed"),
    "attribute": ('[network]\nkind = "Activate"\nphi = "x.__class__"', "network.phi = .*attributes are not read"),
    "power": ('[network]\nkind = "Linear"\nsigma_w = "9**9**9**9"', "network.sigma_w = .*out of range"),
    "nesting": (f'[network]\nkind = "Activate"\nphi = "{"(" * 200}x{")" * 200}"', "network.phi = .*nested beyond 100 levels"),
    "length": (f'[network]\nkind = "Activate"\nphi = "{"x" * 10_001}"', "network.phi: .*at most 10000"),
    "brackets": (f"network = {NESTED}", "nested beyond 100 levels|too deep|Cannot"),
    "blocks": (f"network = {DEEP}", "nested beyond 100 levels"),
    "whole file": ("#" * 100_001, "at most 100000"),
    "number": ('[network]\nkind = "Linear"\nsigma_w = -1', "network: sigma_w = -1"),
    "table for a number": ('[network]\nkind = "Linear"\nsigma_w = { a = 1 }', "network.sigma_w = .*: expected a number or a formula"),
    "infinite": ('[network]\nkind = "Linear"\nsigma_w = inf', "network.sigma_w = Infinity: expected a number"),
    "switch": ('[network]\nkind = "Attention"\nsoftmax_derivative = 0', "network.softmax_derivative = 0: expected true or false"),
    "count": ('[network]\nkind = "Repeat"\nblock = "Linear"\ntimes = 1.5', "network.times = 1.5: expected a whole number"),
    "average": ('[network]\nkind = "Attention"\naverage = "eval"', "network.average = .*: expected one of Annealed, Quenched"),
    "constant": ('[network]\nkind = "Activate"\nphi = "3"', "network.phi = '3'"),
    "a law that is refused": (f"network = [{RELU}, {RELU}]", "network: .*Linear"),
    "inside": ('[network]\nkind = "Residual"\nbranch = { kind = "Scale", x = "y" }', "network.branch: unknown key x"),
    "inside two": ('[network]\nkind = "Residual"\nbranch = [{ kind = "MLP" }]', "network.branch.0.: phi is missing"),
    "run": ('network = "Linear"\n[run]\nwidth = 3', "run.width: unknown key; expected one of depth, q"),
    "value": ('network = "Linear"\n[parameters]\nsigma_w = true', "parameters.sigma_w = true: expected a number"),
    "name": ('network = "Linear"\n[parameters]\n"a.b" = 1', "parameters.a.b: no name of a parameter"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_file_the_table_and_the_key(name, written):
    """what is not refused at once (9**9**9**9) would never come back"""
    text, reason = REFUSED[name]
    path = written(text)
    with pytest.raises(ValueError, match=reason) as caught:
        read_network(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "net.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="UTF-8"):
        read_network(tmp_path / "net.toml")
    with pytest.raises(OSError, match="nowhere"):
        read_network(tmp_path / "nowhere.toml")
