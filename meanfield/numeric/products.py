"""The lines of a kernel that multiply transfers, as a network needs them: of one token or two, with the product of chi apart or not."""

from __future__ import annotations

__all__ = ["product_lines"]

#: the product of transfers from the left, its first row, and from the right
_FORWARD = """
a = s[A + i] * s[T00 + i] + s[B + i] * s[T10 + i]
b = s[A + i] * s[T01 + i] + s[B + i] * s[T11 + i]
"""
_BACK = """
a = w[at + i] * s[A + i] + w[at + (T01 - T00) + i] * s[B + i]
b = w[at + (T10 - T00) + i] * s[A + i] + w[at + (T11 - T00) + i] * s[B + i]
"""
#: where no layer mixes tokens
_ALONE = """
a = s[A + i] * s[T00 + i]
s[A + i] = a
"""
_ALONE_BACK = """
a = s[A + i] * w[at + i]
s[A + i] = a
"""
_SIZE = "size = abs(a) + abs(s[B + i])"
#: what becomes of the product then, if its mantissas are within their range
_PRODUCT = """
s[A + i] = a
s[B + i] = b
"""
_SCALED = "(a > 0.0) & (abs(a) + abs(b) >= SMALL) & (abs(a) + abs(b) <= BIG)"
_CHI = """
x = s[X + i] * s[CHI + i]
s[X + i] = x
"""
_CHI_BACK = """
x = s[X + i] * w[at + (CHI - T00) + i]
s[X + i] = x
"""


def product_lines(mixed: bool, split: bool) -> dict[str, str]:
    """What takes the places of the loops that are about products, by name."""
    return {
        "row": _FORWARD + _PRODUCT if mixed else _ALONE,
        "column": _BACK + _PRODUCT if mixed else _ALONE_BACK,
        "size": _SIZE if mixed else "size = abs(a)",
        "scaled": (_SCALED if mixed else "(a >= SMALL) & (a <= BIG)") + " & (x >= SMALL) & (x <= BIG)" * split,
        "chi": _CHI if split else "",
        "chi_back": _CHI_BACK if split else "",
        "chi_sum": "logarithm(s[X + i], s[XE + i])" if split else "total",
        "chi_total": "logarithm(s[X + i], s[XE + i])" if split else "logarithm(s[A + i], s[E + i])",
    }
