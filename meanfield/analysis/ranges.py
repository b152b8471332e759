"""Between which numbers answers are looked for, and how near to 1 a slope is 1: the same for each of them."""

from __future__ import annotations

__all__ = ["HIGHEST", "LOWEST", "MARGINAL", "TOUCHED"]

#: between which variances and other unknowns are looked for, flows are followed and starts are told apart
LOWEST, HIGHEST = 1e-12, 1e12
#: |slope - 1| up to which it is 1, be it of a quadrature at a root of one; and at a point that is touched: it is known to half of the
#: digits of what touches it
MARGINAL, TOUCHED = 1e-9, 1e-6
