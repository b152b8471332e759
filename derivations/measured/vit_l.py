r"""Theory beside random networks of the size of ViT-L, stored with date and device: one command for a machine with a GPU.

    python derivations/measured/vit_l.py

builds every network of NETWORKS at width 1024 and 512, 128 blocks and 197 tokens, 24 draws each, compares q, p and ln J after every
block with `mf.propagate`, and writes `vit_l_<device>.json` (numbers, settings, date, device), `.txt` (tables and verdicts) and `.png` (the
figure) beside itself. Smaller sizes run on a CPU: `--width 64 --depth 3 --tokens 8 --draws 4 --features 8`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import meanfield as mf
import sympy as sp
import torch

L = mf.L
HEADS, HIDDEN = 16, 4
#: weight scales of the paper on networks without norms (theory of its Figure 1); DeepNorm has Xavier's
SCALES = {
    "sigma_Q": 0.64,
    "sigma_K": 0.64,
    "sigma_V": 0.64,
    "sigma_O": 0.64,
    "sigma_1": 0.64,
    "sigma_2": 1.28,
}


def transformer(norm: mf.Block) -> Callable[[int, int], tuple[mf.Block, dict[str, Any]]]:
    def made(tokens: int, features: int) -> tuple[mf.Block, dict[str, Any]]:
        return mf.pre_norm(norm=norm, attention=mf.Attention(), mlp=mf.MLP(mf.relu)), {
            **SCALES,
            "n": tokens,
            "hidden": HIDDEN,
        }

    return made


def deep_norm(tokens: int, features: int) -> tuple[mf.Block, dict[str, Any]]:
    quarter = sp.Rational(1, 4)
    attention, feed = mf.Attention(None, 1, 1, 1, 1), mf.MLP(mf.relu, 1, 1)
    net = mf.deep_norm(
        attention=attention, mlp=feed, alpha=(2 * L) ** quarter, lam=(8 * L) ** -quarter
    )
    return net, {"n": tokens, "hidden": HIDDEN}


def gated(tokens: int, features: int) -> tuple[mf.Block, dict[str, Any]]:
    """the width that its law corrects for is infinite: what the two widths measured add is taken off"""
    return mf.Residual(mf.LayerNorm() >> mf.GAU(mf.silu, s=features, n=tokens, d=2**40)), {
        "n": tokens,
        "hidden": 2,
    }


NETWORKS = {
    "pre-LN": transformer(mf.LayerNorm()),
    "Derf": transformer(mf.Derf(sp.Rational(1, 2))),
    "DyT": transformer(mf.DyT(sp.Rational(1, 2))),
    "DeepNorm": deep_norm,
    "GAU": gated,
}


def measured(args: argparse.Namespace) -> dict[str, tuple[mf.reference.Comparison, float]]:
    """every network asked for, with the seconds it took"""
    found = {}
    for name in args.networks:
        net, options = NETWORKS[name](args.tokens, args.features)
        heads = {} if name == "GAU" else {"heads": args.heads}
        began = time.perf_counter()
        found[name] = mf.reference.compare(
            net, args.width, args.depth, q=1.0, c=0.2, samples=args.draws, probes=args.probes, seed=args.seed, dtype=torch.float32,
            device=args.device, **heads, **options,
        ), time.perf_counter() - began  # fmt: skip
        print(f"{name}: {found[name][1]:.0f} s. {found[name][0].verdict}", flush=True)
    return found


def record(
    found: dict[str, tuple[mf.reference.Comparison, float]], args: argparse.Namespace, device: str
) -> dict[str, Any]:
    """what goes into the JSON file"""
    settings = {k: v for k, v in vars(args).items() if k not in ("out", "device")}
    networks = {}
    for name, (seen, seconds) in found.items():
        quantities = {
            quantity: {
                at: getattr(d, at).tolist() for at in ("theory", "measured", "error", "bias", "z")
            }
            for quantity, d in seen.differences.items()
        }
        networks[name] = {
            "seconds": round(seconds, 1),
            "agrees": seen.agrees,
            "limit": seen.limit,
            "verdict": seen.verdict,
            **quantities,
        }
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {
        "date": today,
        "device": device,
        "torch": torch.__version__,
        "settings": settings,
        "networks": networks,
    }


def figure(found: dict[str, tuple[mf.reference.Comparison, float]], title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, axes = pyplot.subplots(
        len(found), 2, figsize=(11, 3.4 * len(found)), squeeze=False, layout="constrained"
    )
    for (name, (seen, _)), pair in zip(found.items(), axes, strict=True):
        for ax, quantity in zip(pair, ("log_apjn", "q"), strict=True):
            seen.plot(ax, quantity)
            ax.set_title(
                f"{name}\n{ax.get_title()}" if quantity == "log_apjn" else name, fontsize=7
            )
    rows.suptitle(title)
    rows.savefig(path, dpi=110)
    pyplot.close(rows)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (
        ("width", 1024),
        ("depth", 128),
        ("tokens", 197),
        ("heads", HEADS),
        ("features", 128),
        ("draws", 24),
        ("probes", 1),
        ("seed", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args(given)
    cuda = torch.cuda.is_available() and args.device != "cpu"
    device = torch.cuda.get_device_name() if cuda else f"CPU {platform.machine()}"
    found = measured(args)
    kept = record(found, args, device)
    stem = args.out / f"vit_l_{re.sub(r'[^a-z0-9]+', '_', device.lower()).strip('_')}"
    title = f"width {args.width}, {args.depth} blocks, n = {args.tokens}, {args.draws} draws; {device}, {kept['date']}"
    stem.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
    tables = "\n\n".join(f"{name}\n{seen!r}" for name, (seen, _) in found.items())
    stem.with_suffix(".txt").write_text(f"{title}\n\n{tables}\n")
    figure(found, title, stem.with_suffix(".png"))
    return 0 if all(seen.agrees for seen, _ in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
