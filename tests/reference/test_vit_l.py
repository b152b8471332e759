"""The command that measures networks of the size of ViT-L, at a size for a CPU: what it stores is what was compared."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).resolve().parents[2] / "derivations" / "measured" / "vit_l.py"


def test_what_is_stored(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("vit_l", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert list(script.NETWORKS) == ["pre-LN", "Derf", "DyT", "DeepNorm", "GAU"]
    sizes = {"width": 64, "depth": 2, "tokens": 6, "draws": 4, "heads": 4, "features": 8}
    options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    assert script.main([*options, "--device", "cpu", "--networks", "pre-LN", "DeepNorm", "--out", str(tmp_path)]) == 0
    torch.set_num_threads(before)
    (path,) = tmp_path.glob("vit_l_cpu*.json")
    kept = json.loads(path.read_text())
    assert kept["device"].startswith("CPU")
    assert kept["date"][:2] == "20"
    assert sizes.items() <= kept["settings"].items()
    found = kept["networks"]["pre-LN"]
    net, options = script.NETWORKS["pre-LN"](6, 8)
    theory = mf.propagate(net, 2, 1.0, c=0.2, n=6, **script.SCALES)
    assert np.array_equal(found["ln J"]["theory"], theory.log_apjn)
    assert np.abs(np.array(found["q"]["measured"]) / theory.q - 1).max() < 0.2
    assert found["agrees"] == (max(np.abs(found[d]["z"]).max() for d in ("q", "p", "ln J")) <= found["limit"])
    text = path.with_suffix(".txt").read_text()
    assert text.count("Theory and networks agree") == 2
    assert kept["networks"]["DeepNorm"]["verdict"] in text
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "DeepNorm: " in capsys.readouterr().out
