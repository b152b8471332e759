"""The works an article may rest on, by a short key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["WORKS", "References"]

WORKS: Final = {
    "poole": r"B. Poole et al., \emph{Exponential expressivity in deep neural networks through transient chaos}, arXiv:1606.05340 (2016)",
    "schoenholz": r"S. S. Schoenholz et al., \emph{Deep information propagation}, arXiv:1611.01232 (2017)",
    "doshi": r"D. Doshi, T. He, A. Gromov, \emph{Critical initialization of wide and deep neural networks using partial Jacobians}, "
    r"arXiv:2111.12143 (2023)",
    "cowsik": r"A. Cowsik et al., \emph{Geometric dynamics of signal propagation predict trainability of transformers}, "
    r"arXiv:2403.02579 (2024)",
    "vaswani": r"A. Vaswani et al., \emph{Attention is all you need}, arXiv:1706.03762 (2017)",
    "layernorm": r"J. L. Ba, J. R. Kiros, G. E. Hinton, \emph{Layer normalization}, arXiv:1607.06450 (2016)",
    "rmsnorm": r"B. Zhang, R. Sennrich, \emph{Root mean square layer normalization}, arXiv:1910.07467 (2019)",
    "batchnorm": r"S. Ioffe, C. Szegedy, \emph{Batch normalization}, arXiv:1502.03167 (2015)",
    "derf": r"M. Chen et al., \emph{Stronger normalization-free transformers}, arXiv:2512.10938 (2025)",
    "dyt": r"J. Zhu et al., \emph{Transformers without normalization}, arXiv:2503.10622 (2025)",
    "glu": r"N. Shazeer, \emph{GLU variants improve transformer}, arXiv:2002.05202 (2020)",
    "gau": r"W. Hua et al., \emph{Transformer quality in linear time}, arXiv:2202.10447 (2022)",
    "deepnet": r"H. Wang et al., \emph{DeepNet: scaling transformers to 1,000 layers}, arXiv:2203.00555 (2022)",
    "simplified": r"B. He, T. Hofmann, \emph{Simplifying transformer blocks}, arXiv:2311.01906 (2024)",
    "price": r"R. Price, \emph{A useful theorem for nonlinear devices having Gaussian inputs}, IRE Trans. Inf. Theory 4, 69 (1958)",
    "stein": r"C. M. Stein, \emph{Estimation of the mean of a multivariate normal distribution}, Ann. Stat. 9, 1135 (1981)",
    "sheppard": r"W. F. Sheppard, \emph{On the application of the theory of error to cases of normal distribution and normal correlation}, "
    r"Phil. Trans. R. Soc. A 192, 101 (1899)",
}


class References:
    """Numbers for the works that are cited, in the order of their first citation."""

    def __init__(self) -> None:
        self._cited: list[str] = []

    def __call__(self, *keys: str) -> str:
        """The numbers in brackets, as [1, 3]."""
        self._cited += [key for key in dict.fromkeys(keys) if key not in self._cited]
        return f"[{', '.join(str(self._cited.index(key) + 1) for key in keys)}]"

    @property
    def listed(self) -> Iterable[str]:
        """The works that were cited, numbered."""
        return [f"[{i}] {WORKS[key]}." for i, key in enumerate(self._cited, 1)]
