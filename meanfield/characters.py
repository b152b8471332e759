"""Words as LaTeX: what it has its own way of writing, and the Greek letters, powers and signs that people type."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["escaped", "spelled"]

_ESCAPES: Final = {
    "_": r"\_", "^": r"\textasciicircum{}", "&": r"\&", "%": r"\%", "#": r"\#", "{": r"\{", "}": r"\}", "$": r"\$",
    "~": r"\textasciitilde{}", "\\": r"\textbackslash{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
    "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "…": r"\dots{}", "\N{NO-BREAK SPACE}": "~", "•": r"\textbullet{}",
}  # fmt: skip
_SIGNS: Final = {
    "±": r"\pm", "×": r"\times", "·": r"\cdot", "⋅": r"\cdot", "−": "-", "∘": r"\circ", "⊙": r"\odot", "⊗": r"\otimes", "⊕": r"\oplus",
    "∞": r"\infty", "∂": r"\partial", "∇": r"\nabla", "∑": r"\sum", "∏": r"\prod", "∫": r"\int", "√": r"\surd", "∈": r"\in",
    "∝": r"\propto", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "≃": r"\simeq", "∼": r"\sim", "≡": r"\equiv",
    "≪": r"\ll", "≫": r"\gg",
    "→": r"\to", "←": r"\leftarrow", "↔": r"\leftrightarrow", "↦": r"\mapsto", "⇒": r"\Rightarrow", "⇔": r"\Leftrightarrow",
    "⟨": r"\langle", "⟩": r"\rangle", "‖": r"\|", "∥": r"\|", "ℝ": r"\mathbb{R}", "ℕ": r"\mathbb{N}", "ℓ": r"\ell",
    "⊤": r"\top", "°": r"^\circ",
}  # fmt: skip
_GREEK: Final = re.compile(r"GREEK (SMALL|CAPITAL) LETTER (FINAL )?(\w+)")
#: Greek letters that LaTeX has no command for: they look like Latin ones
_LATIN: Final = {
    "Alpha": "A", "Beta": "B", "Epsilon": "E", "Zeta": "Z", "Eta": "H", "Iota": "I", "Kappa": "K", "Mu": "M", "Nu": "N", "Omicron": "O",
    "Rho": "P", "Tau": "T", "Chi": "X", "omicron": "o",
}  # fmt: skip


def _greek(c: str) -> str:
    """the English name of a Greek letter, as LaTeX has it, nothing of another character"""
    found = _GREEK.fullmatch(unicodedata.name(c, ""))
    if found is None:
        return ""
    name = found[3].lower().replace("lamda", "lambda")
    return f"{'var' if found[2] else ''}{name.capitalize() if found[1] == 'CAPITAL' else name}"


def _formula(c: str) -> str:
    """a character as a formula, nothing where it is none"""
    if c in _SIGNS:
        return _SIGNS[c]
    if greek := _greek(c):
        return _LATIN.get(greek, rf"\{greek}")
    kind, *parts = unicodedata.decomposition(c).split() or [""]
    if kind in ("<super>", "<sub>"):
        return f"{'^' if kind == '<super>' else '_'}{{{''.join(chr(int(part, 16)) for part in parts)}}}"
    return ""


def _written(c: str) -> str:
    if c in _ESCAPES:
        return _ESCAPES[c]
    if c.isascii():
        return c
    if formula := _formula(c):
        return f"${formula}$"
    return c if unicodedata.name(c, "").startswith("LATIN") and ord(c) < 0x180 else f"U+{ord(c):04X}"


def escaped(text: str) -> str:
    r"""A sentence as LaTeX text that pdflatex reads; a character that its fonts lack by its number.

    >>> print(escaped("50 % of σ² → ∞"))
    50 \% of $\sigma$$^{2}$ $\to$ $\infty$
    """
    return "".join(map(_written, text))


def spelled(name: str) -> str:
    """The name of a symbol with Greek letters by their English names.

    >>> spelled("σ_w"), spelled("λ2")
    ('sigma_w', 'lambda2')
    """
    return "".join(_greek(c) or c for c in name)
