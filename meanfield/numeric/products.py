"""The lines of a kernel that multiply transfers, as a network needs them: of one token or two, with the product of chi apart or not."""

from __future__ import annotations

__all__ = ["product_lines"]

#: the product of transfers from the left, its first row, and from the right
_FORWARD = """
a = s[A + i] * w[at + T00 + i] + s[B + i] * w[at + T10 + i]
b = s[A + i] * w[at + T01 + i] + s[B + i] * w[at + T11 + i]
"""
_BACK = """
a = w[at + T00 + i] * s[A + i] + w[at + T01 + i] * s[B + i]
b = w[at + T10 + i] * s[A + i] + w[at + T11 + i] * s[B + i]
"""
#: where no layer mixes tokens, either way
_ALONE = """
a = s[A + i] * w[at + T00 + i]
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
x = s[X + i] * w[at + CHI + i]
s[X + i] = x
"""
_CHI_KEPT = """
w[CHI_MANTISSAS + r % RECORDS] = s[X]
w[CHI_EXPONENTS + r % RECORDS] = s[XE]
"""
_CHI_LOGS = """
copy(2 * RECORDS, w, MANTISSAS, w, CHI_MANTISSAS)
logarithms(w, stop - r)
put(w, r, stop, origin, chi_sum)
"""


def product_lines(mixed: bool, split: bool) -> dict[str, str]:
    """What takes the places of the loops that are about products, by name."""
    return {
        "row": _FORWARD + _PRODUCT if mixed else _ALONE,
        "column": _BACK + _PRODUCT if mixed else _ALONE,
        "size": _SIZE if mixed else "size = abs(a)",
        "scaled": (_SCALED if mixed else "(a >= SMALL) & (a <= BIG)") + " & (x >= SMALL) & (x <= BIG)" * split,
        "chi": _CHI if split else "",
        "chi_kept": _CHI_KEPT if split else "",
        "chi_sum": "sum_row[i] = logarithm(s[X + i], s[XE + i])" if split else "",
        "chi_logs": _CHI_LOGS if split else "",
        "chi_total": "chi_sum[0, origin + i] = logarithm(s[X + i], s[XE + i])" if split else "",
    }
