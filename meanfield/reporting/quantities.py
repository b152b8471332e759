"""What a result holds: the meaning of each quantity and how it is written, for axes of figures and attributes of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = ["FACTORS", "MAPS", "PAIRS", "RUNS", "SLOPE_AT_POINT", "TOKENS", "Quantity", "maps_where"]


@dataclass(frozen=True)
class Quantity:
    """A sentence and LaTeX (in math mode)."""

    meaning: str
    latex: str


#: over the layers of a run
RUNS: Final = {
    "q": Quantity("variance of a component of a token", r"q_l"),
    "p": Quantity("covariance of a component between two tokens", r"p_l"),
    "c": Quantity("correlation p/q", r"c_l = p_l/q_l"),
    "gap": Quantity("1 - p/q", r"1 - c_l"),
    "log_apjn": Quantity("ln J^{L,l}, J the average squared norm of the partial Jacobian", r"\ln\,\mathcal{J}^{\,L,l}"),
    "log_apjn_forward": Quantity("ln J^{l,0}", r"\ln\,\mathcal{J}^{\,l,0}"),
    "log_chi_product": Quantity("sum of ln chi from l to L", r"\sum_{k \geq l} \ln\,\chi_k"),
}

#: between the layers of a run
FACTORS: Final = {"chi": Quantity("same-token factor of the repeat that starts there", r"\chi_l")}

#: what a run of two inputs has beside these, or in their place
PAIRS: Final = {
    "q2": Quantity("variance of the second input", r"q_{2,l}"),
    "p": Quantity("covariance of a component between the two inputs", r"p_l"),
    "c": Quantity("correlation p/sqrt(q q2)", r"c_l = p_l/\sqrt{q_l\, q_{2,l}}"),
    "gap": Quantity("1 - p/sqrt(q q2)", r"1 - c_l"),
    "log_apjn_2": Quantity("ln J^{L,l} of the second input", r"\ln\,\mathcal{J}_2^{\,L,l}"),
    "ntk": Quantity("neural tangent kernel of the first input", r"\Theta_l"),
    "ntk_2": Quantity("neural tangent kernel of the second input", r"\Theta_{2,l}"),
    "ntk_pair": Quantity("neural tangent kernel between the inputs", r"\Theta_{12,l}"),
}

#: what a run of n tokens has beside these
TOKENS: Final = {
    "gram": Quantity("h_i . h_j / d", "G_{ij}"),
    "log_apjn_tokens": Quantity("ln |g_i|^2/d", r"\ln\,|g_i|^2/d"),
    "gradient_correlation": Quantity("correlation of the gradients of two tokens", r"K^{L,l}/\mathcal{J}^{\,L,l}"),
    "ntk": Quantity("neural tangent kernel", r"\Theta_{ij}"),
}

#: a shaped activation
SHAPES: Final = {
    "input_scale": Quantity("factor of the argument", r"\alpha"),
    "input_shift": Quantity("added to the argument", r"\beta"),
    "output_scale": Quantity("factor of the value", r"\gamma"),
    "output_shift": Quantity("added to the value", r"\delta"),
    "local": Quantity("what each layer has been given", r"\zeta_1"),
    "network": Quantity("what the network then has", r"\zeta"),
}

#: over two parameters
MAPS: Final = {
    "q": Quantity("fixed point of the variance", r"q^*"),
    "c": Quantity("fixed point of the correlation", r"c^*"),
    "gap": Quantity("1 - c*", r"1 - c^*"),
    "chi": Quantity("dc'/dc at c = 1", r"\chi = \partial c'/\partial c \; (c = 1)"),
    "chi_parallel": Quantity("dq'/dq", r"\chi_\parallel = \partial q'/\partial q"),
    "xi_c": Quantity("depth scale of c", r"\xi_c"),
    "xi_q": Quantity("depth scale of q", r"\xi_q"),
}

#: chi of a fixed point of its own, where c* < 1 or c = 1 is none
SLOPE_AT_POINT: Final = Quantity("dc'/dc at c = c*", r"\chi = \partial c'/\partial c \; (c = c^*)")
_SLOPE_AT_EITHER: Final = Quantity(
    "dc'/dc at c = 1; where that is no fixed point (phase 'apart'), at c*",
    r"\chi = \partial c'/\partial c \; (c = 1,\ \mathrm{apart}\!: c^*)",
)


def maps_where(apart: np.ndarray) -> Mapping[str, Quantity]:
    """What is shown over two parameters: chi is at c* in those settings that keep identical inputs apart."""
    return MAPS if not apart.any() else MAPS | {"chi": SLOPE_AT_POINT if apart.all() else _SLOPE_AT_EITHER}
