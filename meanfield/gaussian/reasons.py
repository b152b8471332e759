"""Why something is not given: words and expressions, which are read as text and printed as formulas."""

from __future__ import annotations

import sympy as sp

__all__ = ["Reason"]


class Reason(str):
    """A text that knows its parts, words and expressions, and the letters to bind for an answer; of an exception, what it says.

    >>> from sympy.abc import x
    >>> Reason("the sign of ", x**2 - 1, " decides").parts
    ('the sign of ', x**2 - 1, ' decides')
    >>> Reason("unknown: ", ValueError(Reason(x, " oscillates")))
    'unknown: x oscillates'
    """

    parts: tuple[str | sp.Basic, ...]
    letters: tuple[str, ...]

    def __new__(cls, *parts: str | sp.Basic | Exception, bind: tuple[str, ...] = ()) -> Reason:
        said = [part.args[0] if isinstance(part, Exception) and part.args else part for part in parts]
        flat = [p for part in said for p in (part.parts if isinstance(part, Reason) and not part.letters else (part,))]
        text = super().__new__(cls, "".join(map(str, flat)) + (f": bind {', '.join(bind)}" if bind else ""))
        text.parts, text.letters = tuple(p if isinstance(p, sp.Basic) else str(p) for p in flat), bind
        return text
