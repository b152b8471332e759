"""The kernel that runs a recursion over depth, one text per network: remembered, or made by `kernels`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import sympy as sp

from meanfield.gaussian.frozen_rules import FROZEN
from meanfield.keeping import remembered
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.work import Work
from meanfield.recurrence import Recursion

__all__ = ["BLOCK", "BOUNDLESS", "DEAF", "JOINED", "LOST", "SILENT", "STATUS", "Kernel", "by_quadrature", "kernel_of"]

#: what a status code of the kernel means
STATUS = ("ok", "overflow", "underflow", "invalid", "gap underflow", "negative APJN", "infinite APJN", "zero APJN", "zero signal")
#: of what is 0 after the first repeat, which no kernel tells from an underflow
SILENT = STATUS.index("zero signal")
#: of a repeat that ends in no number
LOST = STATUS.index("invalid")
#: of a gap of no size, as that of opposite inputs is behind an even function
JOINED = STATUS.index("gap underflow")
#: of a gradient factor that is infinite
BOUNDLESS = STATUS.index("infinite APJN")
#: of what has a gradient factor of 0 times infinity, which is 0
DEAF = STATUS.index("zero APJN")
#: what a slow function costs, compiled, that takes a millisecond as plain Python, beside a layer in closed form
SLOW = 500
#: points in a block of a grid
BLOCK = 64


@dataclass(frozen=True)
class Kernel:
    """Source of the kernel of a recursion, as it stands and for the compiler, the order of its parameters, the integrands of its
    quadrature, the work these are, the layers of a repeat, how many numbers the transfer of a layer is, whether it is another than the
    layer's chi; the functions whose moments it reads from tables, each with its derivative where that is needed."""

    text: str
    fused: str
    parameters: tuple[str, ...]
    integrands: tuple[Integrand, ...]
    work: Work
    layers: int
    kept: int
    split: bool
    tabulated: tuple[tuple[sp.Expr, sp.Expr | None], ...] = ()

    @property
    def interpreted(self) -> str:
        """The source for one point as plain Python."""
        return self.text.replace("{lanes}", "1").replace("{records}", "1")

    def compiled(self, lanes: int) -> str:
        """The source for the compiler, that many points at a time; of a single one the logarithms of BLOCK records at a time, for which
        several need no room: what they keep begins where their workspace does, at a line of the cache."""
        return self.fused.replace("{lanes}", str(lanes)).replace("{records}", str(BLOCK if lanes == 1 else 0))

    @property
    def threaded(self) -> str:
        """The source for one point on each thread of a device."""
        return self.fused.replace("{lanes}", "1").replace("{records}", "1")

    @cached_property
    def weight(self) -> int:
        """What a layer costs beside one in closed form, roughly: a gap by quadrature takes 0.5 to 1 ms, panels of a pass 1 us, the softmax
        of a random query 0.1 ms a moment."""
        if "pair_in" in self.text or "mean_in" in self.text:
            return 20
        if self.panelled:
            return 200
        if self.work.calls:
            return 100_000
        return max(1000, int(SLOW * self.work.other)) if self.work else 1

    @cached_property
    def panelled(self) -> bool:
        """Whether all of its quadrature is in passes that make panels."""
        passes = self.text.count("def taken_member_")
        return {kind for kind, _ in self.work.calls} == {"member"} and passes == self.text.count("def frozen_member_")

    @cached_property
    def fewest(self) -> int:
        """So many layers any run takes as long as, roughly: panels are made of so many passes."""
        return FROZEN if "def frozen_member_" in self.text else 1

    @cached_property
    def vectorises(self) -> bool:
        """Whether blocks of points run faster than one after another."""
        return not self.work and "bivariate_normal" not in self.text


@lru_cache(maxsize=256)
def kernel_of(rec: Recursion, paired: bool) -> Kernel:
    """The kernel of a recursion, for two tokens or for one, which reads tables where they can hold all that it needs; that of an earlier
    process if there was one."""
    return remembered(f"kernel {paired} {rec.name}", lambda: _made(rec, paired))


@lru_cache(maxsize=256)
def by_quadrature(rec: Recursion, paired: bool) -> Kernel:
    """The kernel that needs no tables, which do not hold everything."""
    kernel = kernel_of(rec, paired)
    return remembered(f"kernel by quadrature {paired} {rec.name}", lambda: _summing(rec, paired)) if kernel.tabulated else kernel


def _made(rec: Recursion, paired: bool) -> Kernel:
    from meanfield.numeric.kernels import made

    return made(rec, paired)


def _summing(rec: Recursion, paired: bool) -> Kernel:
    from meanfield.numeric.kernels import summing

    return summing(rec, paired)
