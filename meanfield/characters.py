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
    "∞": r"\infty", "∂": r"\partial", "∇": r"\nabla", "∑": r"\sum", "∏": r"\prod", "∫": r"\int", "∈": r"\in",
    "∝": r"\propto", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "≃": r"\simeq", "∼": r"\sim", "≡": r"\equiv",
    "≪": r"\ll", "≫": r"\gg",
    "→": r"\to", "←": r"\leftarrow", "↔": r"\leftrightarrow", "↦": r"\mapsto", "⇒": r"\Rightarrow", "⇔": r"\Leftrightarrow",
    "⟨": r"\langle", "⟩": r"\rangle", "‖": r"\|", "∥": r"\|", "ℝ": r"\mathbb{R}", "ℕ": r"\mathbb{N}", "ℓ": r"\ell",
    "⊤": r"\top", "°": r"^\circ", "′": "'", "″": "''", "§": r"\S", "⁄": "/", "√": r"\surd",
}  # fmt: skip
_GREEK: Final = re.compile(r"GREEK (SMALL|CAPITAL) LETTER (FINAL )?(\w+)")
_NAMES: Final = frozenset(
    [
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "omicron"),
        *("pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
    ]
)
#: Greek letters that LaTeX has no command for: they look like Latin ones
_LATIN: Final = {
    "Alpha": "A", "Beta": "B", "Epsilon": "E", "Zeta": "Z", "Eta": "H", "Iota": "I", "Kappa": "K", "Mu": "M", "Nu": "N", "Omicron": "O",
    "Rho": "P", "Tau": "T", "Chi": "X", "omicron": "o",
}  # fmt: skip
#: letters that LaTeX's first fonts have, and the accents that they have on letters
_LETTERS: Final = frozenset("ßæœøłıÆŒØŁåÅ")
_ACCENTS: Final = frozenset(map(chr, (0x300, 0x301, 0x302, 0x303, 0x304, 0x306, 0x307, 0x308, 0x30A, 0x30B, 0x30C, 0x327)))


def _greek(c: str) -> str:
    """the English name of a Greek letter, as LaTeX has it, nothing of another character"""
    plain = unicodedata.normalize("NFKC", c)
    found = _GREEK.fullmatch(unicodedata.name(plain, "")) if len(plain) == 1 else None
    name = found[3].lower().replace("lamda", "lambda") if found else ""
    if found is None or name not in _NAMES:
        return ""
    return f"{'var' if found[2] else ''}{name.capitalize() if found[1] == 'CAPITAL' else name}"


def _formula(c: str) -> str:
    """a character as a formula, nothing where it is none"""
    if c in _SIGNS:
        return _SIGNS[c]
    kind, *parts = unicodedata.decomposition(c).split() or [""]
    if kind not in ("<super>", "<sub>", "<fraction>"):
        greek = _greek(c)
        return _LATIN.get(greek, rf"\{greek}") if greek else ""
    inner = [part if part.isascii() else _formula(part) for part in (chr(int(part, 16)) for part in parts)]
    if not all(inner):
        return ""
    if kind == "<fraction>":
        return rf"\frac{{{inner[0]}}}{{{inner[-1]}}}"
    return f"{'^' if kind == '<super>' else '_'}{{{' '.join(inner)}}}"


def _is_set(c: str) -> bool:
    """whether pdflatex sets a letter as it stands"""
    parts = unicodedata.normalize("NFD", c)
    return c in _LETTERS or (len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS)


def _written(c: str) -> str:
    if c in _ESCAPES:
        return _ESCAPES[c]
    if c.isascii() and (c.isprintable() or c.isspace()):
        return c
    if formula := _formula(c):
        return f"${formula}$"
    if _is_set(c):
        return c
    plain = unicodedata.normalize("NFKC", c)
    return escaped(plain) if plain != c else f"U+{ord(c):04X}"


def escaped(text: str) -> str:
    r"""A sentence as LaTeX text that pdflatex reads; a character that it has no way of writing by its number.

    >>> print(escaped("50 % of σ² → ∞"))
    50 \% of $\sigma$$^{2}$ $\to$ $\infty$
    """
    return "".join(map(_written, unicodedata.normalize("NFC", text)))


def spelled(name: str) -> str:
    """The name of a symbol with Greek letters by their English names.

    >>> spelled("σ_w"), spelled("λ2")
    ('sigma_w', 'lambda2')
    """
    return "".join(_greek(c) or c for c in name)
