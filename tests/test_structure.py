"""The house: who imports whom, what an import loads, what names mean; and the tests themselves: a wrong formula must fail them."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import (
    ACTIVATIONS,
    MPF,
    VIT,
    certified_mean,
    derf_norm,
    exact,
    layer_norm,
    oracle_transformer,
    pair_moments,
    trace,
    worst_layer,
)
from conftest import clear_caches

import meanfield as mf
from meanfield.gaussian import quadrature

PACKAGE = Path(mf.__file__).parent

# ---------------------------------------------------------------------------------------------------------------------------------
# imports

#: the way of a datum, outermost last: a module imports only from its own line and the lines above it
LAYERS = (
    ("characters",),
    ("symbols", "exact", "progress", "faces", "extras", "fingerprint", "memory"),
    ("keeping",),
    ("arguments",),
    ("gaussian",),
    ("activation",),
    ("catalogue", "gains"),
    ("blocks",),
    ("architectures",),
    ("parsing",),
    ("network_files",),
    ("recurrence",),
    ("unrolling", "budgets"),
    ("numeric",),
    ("scaling",),
    ("analysis",),
    ("reporting",),
    ("reference", "plotting"),
    ("reproduction",),
    ("commands", "cli", "overview"),
    ("__main__",),
)
LEVEL = {name: i for i, names in enumerate(LAYERS) for name in names}
#: what nobody below may import while it is imported itself; __init__ may import those that register how things are shown
FACES = {"reporting", "reference", "plotting", "reproduction", "cli", "commands", "overview", "__main__"}

#: libraries that are always here, and the package itself as its outer parts import it
KNOWN = {"sympy", "numpy", "mpmath", "math", "scipy", "numba", "click", "meanfield", "signal", "threading", "functools", "itertools"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """dotted name below meanfield and syntax tree"""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(path.read_text())


def imports(tree: ast.Module, inside_functions: bool) -> Iterator[str]:
    """what is imported, TYPE_CHECKING left out; at module level or inside functions"""

    def walk(node: ast.AST, inside: bool) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import) and inside == inside_functions:
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and inside == inside_functions:
                assert child.level == 0, "relative import"
                yield child.module or ""
                yield from (f"{child.module}.{alias.name}" for alias in child.names)
            yield from walk(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    yield from walk(tree, False)


def own(names: Iterator[str]) -> set[str]:
    """the parts of meanfield among them"""
    return {parts[1] for parts in (name.split(".") for name in names) if parts[0] == "meanfield" and len(parts) > 1} & set(LEVEL)


def test_every_module_has_its_place() -> None:
    for name, _ in modules():
        if name:
            assert name.split(".")[0] in LEVEL, f"meanfield.{name} is in no line of the import table"


def test_imports_go_one_way() -> None:
    for name, tree in modules():
        if not name:
            continue
        here = name.split(".")[0]
        for target in own(imports(tree, inside_functions=False)):
            assert LEVEL[target] < LEVEL[here] or target == here, f"meanfield.{name} imports meanfield.{target}"


def test_nobody_imports_the_faces() -> None:
    for name, tree in modules():
        here = name.split(".")[0]
        if here in FACES:
            continue
        found = own(imports(tree, inside_functions=False)) & FACES
        # latex, plot and tables dispatch in `faces`; their rules are registered when the package is imported
        assert found <= ({"reporting", "plotting"} if not name else set()), f"meanfield.{name or '__init__'} imports {found}"


def test_modules_of_the_calculus_are_loaded_when_they_are_asked_for() -> None:
    code = """if True:
        import sys, meanfield as mf
        from meanfield import gaussian
        node = mf.E(mf.x**2 * mf.tanh.expression, mf.q)
        assert "meanfield.gaussian.slopes" not in sys.modules
        assert gaussian.slopes.slope(mf.x**2) == 2 * mf.x and node.diff(mf.q) != 0
        assert not hasattr(gaussian, "slope") and not hasattr(gaussian, "slopes.slope")
    """
    subprocess.run([sys.executable, "-c", code], check=True)
    typed = set(re.findall(r"import (\w+) as", (PACKAGE / "gaussian" / "__init__.py").read_text()))
    asked = {
        node.value.attr
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id == "gaussian"
    }
    assert typed == asked


def test_rules_that_generated_sources_import_have_names_of_their_own() -> None:
    names = [name for module in quadrature.RULES for name in module.__all__]
    assert len(names) == len(set(names))


def test_gaussian_knows_nothing_of_networks() -> None:
    for name, tree in modules():
        if name.split(".")[0] == "gaussian":
            everything = own(imports(tree, inside_functions=False)) | own(imports(tree, inside_functions=True))
            assert everything <= {"symbols", "faces", "arguments", "gaussian"}, (name, everything)


HEAVY = ("torch", "matplotlib", "numba", "llvmlite", "scipy", "rich", "click", "xarray", "pandas", "dask", "distributed", "zarr")


def test_heavy_libraries_stay_outside() -> None:
    """only the command line, the twin and the compiler, imported on use, have them at module level; torch and matplotlib have one home"""
    for name, tree in modules():
        outside = {i.split(".")[0] for i in imports(tree, inside_functions=False)}
        allowed = {"cli": {"click", "rich"}, "commands": {"click", "rich"}, "reference": {"torch", "scipy"}}.get(name.split(".")[0], set())
        allowed = {"llvmlite"} if name.startswith("numeric.compilation") else allowed
        assert not (outside & set(HEAVY)) - allowed, name
        everywhere = outside | {i.split(".")[0] for i in imports(tree, inside_functions=True)}
        if name.split(".")[0] != "reference":
            assert "torch" not in everywhere, name
        if name.split(".")[0] not in ("plotting", "reproduction", "overview"):
            assert "matplotlib" not in everywhere, name


@pytest.mark.parametrize("statement", ["import meanfield", "import meanfield as mf; mf.relu; mf.mlp(mf.tanh); mf.activations"])
def test_import_loads_little(statement: str) -> None:
    code = f"import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    loaded = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "meanfield" in loaded
    assert not set(loaded) & set(HEAVY)


#: what makes kernels, machine code, tables and derivations, and runs of other kinds
MAKERS = {
    *(f"numeric.{m}" for m in ("kernels", "lowering", "table_panels", "evaluation", "increments", "deep", "silence")),
    *(f"numeric.{m}" for m in ("compilation.machine", "cuda_runs", "gram_march", "gram_laws", "sweeps", "sweep_store")),
    *(f"gaussian.{m}" for m in ("derivation", "certificates", "quadrature", "closed", "moments", "expansions", "precise", "slopes")),
}


@pytest.mark.parametrize("network", ["mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))", "mf.mlp(mf.tanh)"])
def test_a_trajectory_with_a_warm_cache_imports_what_runs_it(network: str, tmp_path: Path) -> None:
    code = f"""if True:
        import sys, meanfield as mf
        net = {network}
        run = mf.propagate(net, 1000, 1.0, p=0.5, **dict.fromkeys([s.name for s in mf.recursion(net).parameters], 2.0))
        print(run.status, *sys.modules)
    """
    for _ in range(2):
        environment = {**os.environ, "MEANFIELD_CACHE_DIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        status, *loaded = done.stdout.split()
        assert status == "ok"
    assert not {f"meanfield.{name}" for name in MAKERS} & set(loaded)
    assert not {"numpy.ma", "difflib", "secrets", *HEAVY} & set(loaded)
    assert all(importlib.util.find_spec(f"meanfield.{name}") for name in MAKERS)


def test_no_submodule_bears_the_name_of_a_public_function() -> None:
    submodules = {m.name for m in pkgutil.iter_modules(mf.__path__)}
    public = {name for name in mf.__all__ if not inspect.ismodule(getattr(mf, name))} | set(mf.activations)
    assert not submodules & public
    assert importlib.util.find_spec("meanfield.reference") is not None  # its import needs torch


def test_public_names_exist() -> None:
    assert len(set(mf.__all__)) == len(mf.__all__)
    for name in mf.__all__:
        assert getattr(mf, name) is not None
        assert name in dir(mf)
    for name in mf.activations:
        assert getattr(mf, name) is mf.activations[name]
    assert mf.swish is mf.silu


def test_all_lists_what_there_is() -> None:
    for name, _ in modules():
        if name in ("", "cli") or name.endswith("__init__"):
            continue
        module = importlib.import_module(f"meanfield.{name}") if "reference" not in name else None
        for public in getattr(module, "__all__", []):
            assert hasattr(module, public), (name, public)


def test_names_asked_of_a_library_exist() -> None:
    """also where only a rare exception asks for them, and no test or type checker would"""
    for name, tree in modules():
        asked = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.Attribute))]
        libraries = {a.asname or a.name: a.name for node in asked if isinstance(node, ast.Import) for a in node.names}
        known = {bound: importlib.import_module(full) for bound, full in libraries.items() if full in KNOWN}
        missing = [
            f"{node.value.id}.{node.attr} in line {node.lineno}"
            for node in asked
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known
            if not hasattr(known[node.value.id], node.attr)
        ]
        assert not missing, (name, missing)


def test_no_patches_of_sympy_and_no_exec() -> None:
    """not wanted: exec, eval (but of the pages of derivations/, which are ours), global precision, caches in the package folder"""
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("exec", "eval") or name == "reproduction.cells", name
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    text = ast.unparse(target)
                    assert not text.startswith(("sp.", "sympy.")), (name, text)
                    assert text not in ("mp.mp.dps", "mp.mp.prec", "mp.dps", "mp.prec"), (name, text)
    assert not list(PACKAGE.rglob("kernel_*.py"))


def test_precision_is_left_alone() -> None:
    before = mp.mp.prec
    mf.evaluate(mf.tanh.second_moment(1), digits=50)
    mf.evaluate(mf.relu.kernel(mf.q, mf.p), q=1, p=sp.Rational(1, 2), digits=50)
    assert mp.mp.prec == before


# ---------------------------------------------------------------------------------------------------------------------------------
# the tests are tests: each plant is a wrong formula, each comparison one that the suite rests on


def layers_agree(norm: str = "layer") -> None:
    """every layer of a small transformer against the typed recursion"""
    block, oracle = {"layer": (mf.LayerNorm(), layer_norm), "derf": (mf.Derf(), derf_norm(0.9))}[norm]
    values = {**VIT, "n": 5, "sigma_Q": 1.3, "sigma_O": 1.1}
    net = mf.pre_norm(norm=block, attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    run = mf.propagate(net, 12, 1.0, p=0.3, **values, **({"alpha": 0.9} if norm == "derf" else {}))
    with mp.workdps(40):
        q, p = mp.mpf(1), mp.mpf(0.3)
        truth = trace(oracle_transformer(MPF, oracle, True, **values).states(12, q, p), q, p)
    assert worst_layer(run, truth) < 1e-12


def kernels_agree(name: str) -> None:
    """a closed kernel against the literature's formula"""
    phi = ACTIVATIONS[name]
    expression = mf.Activation(phi.activation.expression).kernel(mf.q1, mf.p, mf.q2)
    with mp.workdps(40):
        truth = phi.kernel(mp.mpf(1), mp.mpf(0.5), mp.mpf(2))
        assert abs(exact(expression, 40, q1=1, p=0.5, q2=2, **phi.values) - truth) < mp.mpf("1e-30")


def gaps_agree(name: str) -> None:
    phi = ACTIVATIONS[name]
    act = mf.Activation(phi.activation.expression)
    for q, delta in ((1.0, 0.5), (40.0, 1e-8), (3.0, 1e-20)):
        truth = pair_moments(phi.f, q, delta, phi.difference).gap
        assert abs(mf.evaluate(act.gap(mf.q, mf.delta), q=q, delta=delta) - truth) <= 1e-11 * truth


def moments_agree(name: str) -> None:
    phi = ACTIVATIONS[name]
    for q in (1.0, 1e4):
        truth = certified_mean(phi.f, 2, q, 20)
        found = mf.evaluate(mf.Activation(phi.activation.expression).second_moment(mf.q), q=q)
        assert abs(found - float(truth)) <= 1e-12 * float(truth)


Plant = Callable[[pytest.MonkeyPatch], None]


def wrong_law(block: type, change: Callable[[Any], Any]) -> Plant:
    """a block whose law is changed"""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = block.law
        patch.setattr(block, "law", lambda self, signal: change(right(self, signal)))

    return plant


def scaled(law: Any, **factors: Any) -> Any:
    from dataclasses import replace

    output = replace(law.output, **{k: v * getattr(law.output, k) for k, v in factors.items() if k in ("q", "p", "delta")})
    transfer = sp.Matrix(law.transfer)
    for key, (i, j) in {"JJ": (0, 0), "JK": (0, 1), "KJ": (1, 0), "KK": (1, 1)}.items():
        transfer[i, j] *= factors.get(key, 1)
    return replace(law, output=output, transfer=transfer, chi=law.chi * factors.get("chi", 1))


RULES = ("meanfield.gaussian.quadrature", "FUNCTIONS")


def wrong_text(where: tuple[str, str], old: str, new: str) -> Plant:
    """a line of the hand-written kernel source that is changed, found by a regular expression"""

    def plant(patch: pytest.MonkeyPatch) -> None:
        owner, attribute = importlib.import_module(where[0]), where[1]
        value = getattr(owner, attribute)
        changed: Any = {k: re.sub(old, new, v) for k, v in value.items()} if isinstance(value, dict) else re.sub(old, new, value)
        if changed == value:
            pytest.fail(f"{old!r} is no text of {where}: the plant needs another place")
        patch.setattr(owner, attribute, changed)

    return plant


def wrong_orthant(patch: pytest.MonkeyPatch) -> None:
    """the base rule: 1/4 + asin(r)/(2 pi) with 3 in the place of 2"""
    from meanfield.gaussian import special

    right = special.BivariateNormalCDF.eval

    def wrong(cls: Any, h: Any, k: Any, r: Any) -> Any:
        return sp.Rational(1, 4) + sp.asin(r) / (3 * sp.pi) if h is sp.S.Zero and k is sp.S.Zero else right(h, k, r)

    patch.setattr(special.BivariateNormalCDF, "eval", classmethod(wrong))


LAWS: dict[str, tuple[Plant, Callable[[], None]]] = {
    "attention: 2 a forward": (wrong_law(mf.Attention, lambda law: scaled(law, q=2, p=2, delta=2)), layers_agree),
    "attention: 2 a backward": (wrong_law(mf.Attention, lambda law: scaled(law, JJ=2, JK=2, KJ=2, KK=2, chi=2)), layers_agree),
    "attention: J to K lost": (wrong_law(mf.Attention, lambda law: scaled(law, KJ=0)), layers_agree),
    "attention: sign of K to J": (wrong_law(mf.Attention, lambda law: scaled(law, JK=-1)), layers_agree),
    "attention: gap off by 1e-9": (wrong_law(mf.Attention, lambda law: scaled(law, delta=1 + sp.Rational(1, 10**9))), layers_agree),
    "norm: gap doubled": (wrong_law(mf.LayerNorm, lambda law: scaled(law, delta=2)), layers_agree),
    "norm: slope off by 1e-10": (wrong_law(mf.LayerNorm, lambda law: scaled(law, JJ=1 + sp.Rational(1, 10**10))), layers_agree),
    "linear: bias of J": (wrong_law(mf.Linear, lambda law: scaled(law, KK=sp.Rational(1, 2))), layers_agree),
    "residual: chi": (wrong_law(mf.Residual, lambda law: scaled(law, chi=1 + sp.Rational(1, 10**10))), layers_agree),
    "derf": (wrong_law(mf.Activate, lambda law: scaled(law, KK=sp.Rational(9, 10))), lambda: layers_agree("derf")),
    "loops: backward transposed": (wrong_text(("meanfield.numeric.products", "_BACK"), "T10", "T01"), layers_agree),
    "loops: chi of the wrong entry": (wrong_text(("meanfield.numeric.products", "_CHI"), "CHI", "T11"), layers_agree),
    "engine: orthant rule": (wrong_orthant, lambda: kernels_agree("erf(ax)")),
    "engine: orthant rule, relu": (wrong_orthant, lambda: kernels_agree("relu")),
    "quadrature: gap": (wrong_text(RULES, r"(half_w\[e\]) \* \(2", r"\1 * 1.0000000001 * (2"), lambda: gaps_agree("tanh")),
    "quadrature: mean": (wrong_text(RULES, r"(total \+= w\[i\]) \* f_<i>", r"\1 * 1.0000000001 * f_<i>"), lambda: moments_agree("tanh")),
}  # fmt: skip


def test_the_comparisons_pass_on_the_right_formula(fresh: None) -> None:
    for norm in ("layer", "derf"):
        layers_agree(norm)
    for name in ("erf(ax)", "relu"):
        kernels_agree(name)
    moments_agree("tanh")
    gaps_agree("tanh")


@pytest.mark.parametrize("name", LAWS)
def test_a_wrong_formula_fails(name: str, fresh: None) -> None:
    plant, compare = LAWS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        clear_caches()
        with pytest.raises(AssertionError, match=r"1e-1[12]|mpf\('1"):
            compare()
    clear_caches()
    if name in ("attention: 2 a forward", "engine: orthant rule"):
        compare()  # and the plant is gone


def test_a_wrong_oracle_fails_too() -> None:
    """the typed recursion with y_p for y_q, or kappa for its derivative, disagrees with the library"""
    values = {**VIT, "n": 5, "sigma_Q": 1.3}
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu))
    run = mf.propagate(net, 12, 1.0, p=0.3, **values)
    with mp.workdps(30):
        q, p = mp.mpf(1), mp.mpf(0.3)
        wrong = trace(oracle_transformer(MPF, layer_norm, True, **values).states(12, q, p), q, p)
    assert worst_layer(run, wrong) > 1e-3
    assert np.isfinite(worst_layer(run, wrong))
