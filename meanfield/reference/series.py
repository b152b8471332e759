"""A torch.nn.Sequential as layers: each ends with a Linear, and what stands between two of them acts on tokens by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import nn

from meanfield.blocks.algebra import Block, Serial
from meanfield.blocks.elementary import Activate, Linear, Scale
from meanfield.reference.readings import Matrix
from meanfield.reference.recognition import Layers, NotRecognised, activation_of, norm_of

__all__ = ["read_series"]

#: a part between two Linears: its block, or a norm with the names of its gain and shift
Part = Block | tuple[Block, str, str]


def read_series(model: nn.Sequential) -> Layers:
    """The layers of a Sequential. Raises NotRecognised with the name of a part that is not recognised."""
    layers: list[tuple[list[Part], str]] = []
    rows: list[dict[str, float]] = []
    counts: list[dict[str, int]] = []
    seen: list[int] = []
    parts: list[Part] = []
    row: dict[str, float] = {}
    count: dict[str, int] = {}
    for path, module in _flat(model):
        if isinstance(module, (nn.Dropout, nn.Identity)):
            continue
        if isinstance(module, nn.Linear):
            matrix = Matrix(module.weight, module.bias)
            seen.append(module.weight.data_ptr())
            row |= {"sigma_w": matrix.sigma, "sigma_b": matrix.sigma_b}
            count |= {"sigma_w": module.weight.numel(), "sigma_b": module.out_features}
            layers.append((parts, path))
            rows.append(row)
            counts.append(count)
            parts, row, count = [], {}, {}
        elif isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            names = (f"gain_{len(parts)}", f"shift_{len(parts)}")
            parts.append((norm_of(module, path)[0], *names))
            for name, part, default in zip(names, (module.weight, getattr(module, "bias", None)), (1.0, 0.0), strict=True):
                row[name] = default if part is None else float(part.detach().double().square().mean().sqrt())
                count[name] = 1 if part is None else part.numel()
        elif next(module.parameters(), None) is None and not list(module.children()):
            parts.append(Activate(activation_of(module, f"{path} of {type(model).__name__}")))
        else:
            raise NotRecognised(f"{path} ({type(module).__name__}) is no Linear, activation, LayerNorm, RMSNorm, Dropout or Identity")
    if not layers:
        raise NotRecognised(f"{type(model).__name__} has no Linear")
    if row:
        raise NotRecognised(f"{type(model).__name__} ends with a norm that no Linear follows: describe the part before it")
    before = _block(*layers[0], rows[0]) if len(layers) > 1 and layers[0][0] != layers[1][0] else None
    first = 0 if before is None else 1
    if any(layer[0] != layers[first][0] for layer in layers[first:]):
        raise NotRecognised(
            f"the layers {', '.join(path for _, path in layers[first:])} are of different kinds: describe each part by itself"
        )
    after = Serial(tuple(p for p in parts if isinstance(p, Block))) if parts else None
    ends = tuple(path for _, path in layers[first:])
    caveats = ("equal weights: one matrix stands in several layers; the law is for independent ones",) if len(set(seen)) < len(seen) else ()
    return Layers(rows[first:], counts[first:], lambda values: _block(*layers[first], values), ends, (), caveats, before, after)


def _block(parts: list[Part], _path: str, values: Mapping[str, float]) -> Block:
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, Block):
            blocks.append(part)
            continue
        norm, gain, shift = part
        blocks.append(norm)
        if values[shift]:
            blocks.append(Linear(values[gain], values[shift]))
        elif values[gain] != 1:
            blocks.append(Scale(values[gain]))
    last = Linear(values["sigma_w"], values["sigma_b"])
    return Serial((*blocks, last)) if blocks else last


def _flat(model: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, part in model._modules.items():  # a module that stands twice, twice
        assert part is not None
        if type(part) is nn.Sequential:
            yield from _flat(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part
