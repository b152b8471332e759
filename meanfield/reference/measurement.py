r"""Second moments of signals and gradients, measured on random networks of finite width."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from meanfield import arguments, faces
from meanfield.progress import track
from meanfield.reference.drawing import place, redraw, seeded
from meanfield.reference.listing import listing
from meanfield.reference.targets import in_place_of, input_of, modules_of, moved, names_of, width_of
from meanfield.reference.walking import Step, Walk, evaluating, steps_of

__all__ = ["Measurement", "measure"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False, eq=False)
class Measurement(faces.Labelled):
    r"""What `measure` saw: means over networks and their standard errors, arrays over the layers 0 ... depth.

    Attributes
    ----------
    width, n, samples, start
        Of the networks, their inputs, and the gradient at the output.
    modules : tuple of str
        What lies between two layers.
    q, p : arrays
        |h_a|^2/width and h_a . h_b/width, averaged over tokens and pairs.
    apjn, K : arrays
        |g_a|^2/width and g_a . g_b/width of the gradient g at each layer, for a gradient at the output with |g_a|^2/width = 1, independent
        between tokens (start "token") or equal at all of them ("pooled").
    q_error, p_error, apjn_error, K_error : arrays
        Standard errors. p and K are NaN for a single input.

    Examples
    --------
    >>> import meanfield as mf
    >>> twin = mf.reference.build(mf.mlp(mf.erf), width=64, depth=2, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1)
    >>> seen = mf.reference.measure(twin, samples=4, device="cpu")
    >>> seen.width, seen.n, seen.modules, seen.q.shape, round(float(seen.p[0]), 12)
    (64, 16, ('0', '1'), (3,), 0.5)
    """

    width: int
    n: int
    samples: int
    start: str
    modules: tuple[str, ...]
    q: Floats
    q_error: Floats
    p: Floats
    p_error: Floats
    apjn: Floats
    apjn_error: Floats
    K: Floats
    K_error: Floats

    @property
    def layers(self) -> NDArray[np.int64]:
        return np.arange(len(self.q))

    @property
    def c(self) -> Floats:
        """p/q."""
        return np.asarray(self.p / self.q)

    @property
    def log_apjn(self) -> Floats:
        """ln of the mean J^{L,l}."""
        return np.asarray(np.log(self.apjn))

    @property
    def log_apjn_error(self) -> Floats:
        """Its standard error, that of the mean over the mean."""
        return np.asarray(self.apjn_error / self.apjn)

    def __repr__(self) -> str:
        head = f"{self.samples} random networks of width {self.width}, n = {self.n}, gradient start {self.start!r}; mean ± standard error"
        columns = [("layer", [str(i) for i in self.layers])]
        for name, values, errors in (
            ("q", self.q, self.q_error),
            ("p", self.p, self.p_error),
            ("J", self.apjn, self.apjn_error),
            ("K", self.K, self.K_error),
        ):
            if np.isfinite(values).all():
                columns.append((name, [f"{v:.5g} ± {e:.1g}" for v, e in zip(values, errors, strict=True)]))
        return f"{head}\n{listing(columns)}"


def measure(
    model: nn.Module | Sequence[nn.Module],
    q: float | None = None,
    *,
    p: float | None = None,
    c: float | None = None,
    gap: float | None = None,
    n: int | None = None,
    width: int | None = None,
    modules: Sequence[str | nn.Module] | None = None,
    inputs: Any = None,
    fresh: bool | Callable[[nn.Module], object] | None = None,
    samples: int = 8,
    probes: int = 4,
    start: str = "token",
    seed: int = 0,
    device: str | torch.device = "auto",
) -> Measurement:
    r"""Measure q, p and the gradient moments of a network at the input and after each of its modules.

    Each of `samples` draws sees `probes` inputs, sets of n tokens with exactly the given Gram matrix. Each input is paired with one random
    gradient at the output (signs, independent per coordinate), pulled back through the network. All of one draw counts as one
    observation: the standard errors are those of a mean over draws.

    The average squared partial Jacobian norm J^{L,l} = E |dh^L/dh^l|^2 / (n width) is the mean of |g^l|^2 with start="token".

    Only the states (..., n, width) and the activations of one module are in memory at a time: backward, each module runs again.

    Parameters
    ----------
    model : torch.nn.Module or sequence of modules
        A twin; a Sequential or sequence of layers (..., n, width) -> (..., n, width) or a tuple, mapping or dataclass that starts with it;
        any other model. It is left as it is: weights, mode, hooks, random state. All but twins are measured in eval mode.
    q, p, c, gap : number
        The input, as in `mf.propagate`. Left out: the one the twin was built with, or the state that the model makes of `inputs`.
    n : whole number, optional
        Tokens; left out, as many as the twin mixes or the model makes of `inputs`, else 16, or as many as can have a negative
        covariance (1 without p, c and gap).
    width : whole number, optional
        Left out, that of the twin, or of the first Linear or LayerNorm of the first module.
    modules : names or modules, optional
        Neighbours on the main path, blocks or sublayers, whose inputs and outputs are the layers. Left out: the children of a
        Sequential, or the blocks that `describe` knows.
    inputs : tensor, tuple or mapping, optional
        What the model is called with (token ids, images): then the modules get masks and embeddings of positions from it, and the state
        before the first module is replaced. Without, the modules are called on the state alone.
    fresh : bool or function, optional
        Whether every draw has new weights, by `reset_parameters()` of every module with weights or by this function of the model. Left
        out, twins get new weights and any other model is measured with the weights it has: the errors are then those over inputs.
    samples : whole number >= 2
        Draws.
    probes : whole number >= 1
        Inputs, each with a gradient, per draw.
    start : "token" or "pooled"
        The gradient at the output: independent at each token (K_L = 0 on average), or the same at all (K_L = J_L).
    seed : whole number
        Same seed, same numbers; torch's random state is left as it was.
    device : str or torch.device
        Where to run; "auto" is CUDA where there is one.

    Raises
    ------
    ValueError, TypeError
        An input out of range, no input at all, n that does not fit the network or is above its width, modules that are no chain, a module
        that cannot be redrawn.

    Examples
    --------
    >>> import meanfield as mf
    >>> twin = mf.reference.build(mf.mlp(mf.relu), width=64, depth=2, sigma_w=2**0.5, sigma_b=0)
    >>> seen = mf.reference.measure(twin, q=1.0, c=0.5, samples=4, device="cpu")
    >>> seen.q.shape, float(seen.apjn[-1])
    ((3,), 1.0)
    """
    if not isinstance(model, nn.Module):
        model = nn.Sequential(*modules_of(model))
    arguments.check_integer(samples, "samples", 2)
    arguments.check_integer(probes, "probes", 1)
    arguments.check_start(start)
    names = names_of(model, modules)
    twin = hasattr(model, "net")
    draw = redraw if fresh is True or (fresh is None and twin) else fresh or None
    given = input_of(model, q, p, c, gap, n) if inputs is None else None
    own = q is None and p is c is gap is None  # the states that the model makes of the inputs
    where = place(device)
    if any(w.is_inference() for w in model.parameters()) or torch.is_inference_mode_enabled():
        raise ValueError("model: torch.inference_mode() leaves no gradients to measure; make the model and call measure outside of it")
    on_device = all(w.device == where for w in model.parameters())
    network = model if draw is None and on_device else copy.deepcopy(model).to(where)
    chain = [network.get_submodule(name) for name in names]
    size = None if inputs is not None else arguments.check_integer(width_of(model, chain[0]) if width is None else width, "width", 1)
    dtype = next((w.dtype for w in network.parameters()), torch.float64)
    rows = []
    shape = torch.Size()
    with seeded(seed, where), evaluating(network, twin):
        for _ in track(range(samples), "measure", samples):
            if draw is not None:
                draw(network)
            if inputs is not None:
                seen = []
                for _ in range(probes):
                    replace = None if own else lambda x: in_place_of(input_of(model, q, p, c, gap, n or x.shape[-2]), x)
                    steps, x = steps_of(network, chain, moved(inputs, where), replace)
                    seen.append(_observe(steps, x, start == "pooled"))
                    shape = x.shape
                rows.append(np.mean(seen, axis=0))
            else:
                assert given is not None
                assert size is not None
                x = given.tokens(probes, size, dtype, where)
                rows.append(_observe([Step(m) for m in chain], x, start == "pooled"))
                shape = x.shape
    observed = np.array(rows)
    for name, values in (("q", observed[:, 0]), ("J", observed[:, 2])):
        if not np.isfinite(values).all():
            layer = int(np.flatnonzero(~np.isfinite(values).all(0))[0 if name == "q" else -1])
            raise ValueError(f"{name} is not finite at layer {layer} of the model in {dtype}: its weights are not, or its states overflow")
    mean, error = observed.mean(0), observed.std(0, ddof=1) / np.sqrt(samples)
    pairs = [a for pair in zip(mean, error, strict=True) for a in pair]
    return Measurement(shape[-1], shape[-2], samples, start, names, *pairs)


def _observe(steps: Sequence[Step], x: Tensor, pooled: bool) -> Floats:
    """q, p, J, K (rows) at every layer (columns), averaged over the inputs"""

    def signs(out: Tensor) -> Tensor:
        shape = (*out.shape[:-2], 1, out.shape[-1]) if pooled else out.shape
        return (2 * torch.randint(0, 2, shape, device=out.device) - 1).to(out.dtype).expand_as(out)

    return np.array(Walk(steps).moments(x, signs, lambda h, g: (*_moments(h), *_moments(g))), dtype=np.float64).T


def _moments(h: Tensor) -> tuple[float, float]:
    """same-token and two-token second moment per component, averaged over tokens or pairs, and inputs"""
    h = h.double()
    n, width = h.shape[-2:]
    same = float((h * h).sum((-1, -2)).mean()) / (n * width)
    if n == 1:
        return same, float("nan")
    total = float((h.sum(-2) ** 2).sum(-1).mean()) / width
    return same, (total - n * same) / (n * (n - 1))
