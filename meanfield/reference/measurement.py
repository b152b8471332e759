r"""Second moments of signals and gradients, measured on random networks of finite width."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from meanfield import arguments
from meanfield.progress import track
from meanfield.reference.drawing import place, redraw, seeded
from meanfield.reference.inputs import Start, default_tokens, start_of
from meanfield.reference.listing import listing

__all__ = ["Measurement", "measure"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Measurement:
    r"""What `measure` saw: means over networks and their standard errors, arrays over the layers 0 ... depth.

    Attributes
    ----------
    width, n, samples, start
        Of the networks, their inputs, and the gradient at the output.
    q, p : arrays
        |h_a|^2/width and h_a . h_b/width, averaged over tokens and pairs.
    apjn, K : arrays
        |g_a|^2/width and g_a . g_b/width of the gradient g at each layer, for a gradient at the output with |g_a|^2/width = 1, independent
        between tokens (start "token") or equal at all of them ("pooled").
    q_error, p_error, apjn_error, K_error : arrays
        Standard errors. p and K are NaN for a single input.
    """

    width: int
    n: int
    samples: int
    start: str
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
    model: nn.Sequential,
    q: float | None = None,
    *,
    p: float | None = None,
    c: float | None = None,
    gap: float | None = None,
    n: int | None = None,
    width: int | None = None,
    samples: int = 8,
    probes: int = 4,
    start: str = "token",
    seed: int = 0,
    device: str | torch.device = "auto",
) -> Measurement:
    r"""Measure q, p and the gradient moments of a random network after each of its repeats.

    Each of `samples` networks has fresh weights and sees `probes` inputs, sets of n tokens with exactly the given Gram matrix. Each input
    is paired with one random gradient at the output (signs, independent per coordinate), pulled back through the network. All of one
    network counts as one observation: the standard errors are those of a mean over networks.

    The average squared partial Jacobian norm J^{L,l} = E |dh^L/dh^l|^2 / (n width) is the mean of |g^l|^2 with start="token".

    Parameters
    ----------
    model : torch.nn.Sequential
        A twin, or any series of layers (..., n, width) -> (..., n, width) whose modules with weights have `reset_parameters()`. It is
        left as it is: the networks are copies.
    q, p, c, gap : number
        The input, as in `mf.propagate`. Left out: the one the twin was built with.
    n : whole number, optional
        Tokens; left out, as many as the twin mixes, else 16 (1 without p, c and gap).
    width : whole number, optional
        Needed where the model is no twin.
    samples : whole number >= 2
        Random networks.
    probes : whole number >= 1
        Inputs, each with a gradient, per network.
    start : "token" or "pooled"
        The gradient at the output: independent at each token (K_L = 0 on average), or the same at all (K_L = J_L).
    seed : whole number
        Same seed, same numbers; torch's random state is left as it was.
    device : str or torch.device
        Where to run; "auto" is CUDA where there is one.

    Raises
    ------
    ValueError, TypeError
        An input out of range, no input at all, n that does not fit the network or is above its width, a module that cannot be redrawn.

    Examples
    --------
    >>> import meanfield as mf
    >>> twin = mf.reference.build(mf.mlp(mf.relu), width=64, depth=2, sigma_w=2**0.5, sigma_b=0)
    >>> seen = mf.reference.measure(twin, q=1.0, c=0.5, samples=4, device="cpu")
    >>> seen.q.shape, float(seen.apjn[-1])
    ((3,), 1.0)
    """
    if not isinstance(model, nn.Sequential):
        raise TypeError(f"model: expected a twin or another torch.nn.Sequential, one child per layer, got {type(model).__name__}")
    arguments.check_integer(samples, "samples", 2)
    arguments.check_integer(probes, "probes", 1)
    if start not in ("token", "pooled"):
        raise ValueError(f"start = {start!r}: expected 'token' or 'pooled'")
    size = arguments.check_integer(getattr(model, "width", None) if width is None else width, "width", 1)
    given = _input(model, q, p, c, gap, n)
    where = place(device)
    network = copy.deepcopy(model).to(where)
    dtype = next((w.dtype for w in network.parameters()), torch.float64)
    rows = []
    with seeded(seed, where):
        for _ in track(range(samples), "measure", samples):
            redraw(network)
            rows.append(_observe(network, given.tokens(probes, size, dtype, where), start == "pooled"))
    observed = np.array(rows)
    mean, error = observed.mean(0), observed.std(0, ddof=1) / np.sqrt(samples)
    pairs = [a for pair in zip(mean, error, strict=True) for a in pair]
    return Measurement(size, given.n, samples, start, *pairs)


def _input(model: nn.Module, q: Any, p: Any, c: Any, gap: Any, n: int | None) -> Start:
    """the input asked for, or the one the model was built with"""
    built: Start | None = getattr(model, "start", None)
    mixed: int | None = getattr(model, "tokens", None)
    if q is None and p is c is gap is None:
        if built is None:
            raise ValueError("no input: give q, and p, c or gap for several tokens (the model was built without)")
        return built if n is None else start_of(built.q, None, None, None if n == 1 else built.delta / built.q, n)
    if q is None:
        raise ValueError("p, c or gap is given without q")
    return start_of(q, p, c, gap, n or mixed or default_tokens(p, c, gap))


def _observe(network: nn.Sequential, x: Tensor, pooled: bool) -> Floats:
    """q, p, J, K (rows) at every layer (columns), averaged over the inputs"""
    states = [x.requires_grad_()]
    for repeat in network:
        states.append(repeat(states[-1]))
    out = states[-1]
    shape = (*out.shape[:-2], 1, out.shape[-1]) if pooled else out.shape
    signs = (2 * torch.randint(0, 2, shape, device=out.device) - 1).to(out.dtype).expand_as(out)
    gradients = torch.autograd.grad(out, states, signs)
    with torch.no_grad():
        moments = [(*_moments(h), *_moments(g)) for h, g in zip(states, gradients, strict=True)]
        return np.array(moments, dtype=np.float64).T


def _moments(h: Tensor) -> tuple[float, float]:
    """same-token and two-token second moment per component, averaged over tokens or pairs, and inputs"""
    h = h.double()
    n, width = h.shape[-2:]
    same = float((h * h).sum((-1, -2)).mean()) / (n * width)
    if n == 1:
        return same, float("nan")
    total = float((h.sum(-2) ** 2).sum(-1).mean()) / width
    return same, (total - n * same) / (n * (n - 1))
