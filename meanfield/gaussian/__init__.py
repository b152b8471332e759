r"""The calculus of Gaussian expectations: it knows nothing of networks.

expectation    the nodes E[f(u)], E[f(u) g(v)] and their gap; Price's theorem as their derivative
derivation     steps and certificate of a closed form
atoms, moments, tidying, forms, closed    the engine: x^k e^{Bx - Ax^2/2} times steps and normal distribution functions, closed under
               four rules, and how results are written
expansions, series, pair_expansions    for small and large variances
identities     exact equations between expectations that do not close
quadrature, precise, balls    numbers: compiled with a bound on the error, with any number of digits, in ball arithmetic
softmax, exchangeable    averages over softmax weights and over many exchangeable variables
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meanfield.gaussian import arithmetic as arithmetic
    from meanfield.gaussian import closed as closed
    from meanfield.gaussian import closed_digits as closed_digits
    from meanfield.gaussian import coincidence as coincidence
    from meanfield.gaussian import corners as corners
    from meanfield.gaussian import derivation as derivation
    from meanfield.gaussian import domains as domains
    from meanfield.gaussian import expansions as expansions
    from meanfield.gaussian import finite_parts as finite_parts
    from meanfield.gaussian import finiteness as finiteness
    from meanfield.gaussian import forms as forms
    from meanfield.gaussian import growth as growth
    from meanfield.gaussian import guards as guards
    from meanfield.gaussian import identities as identities
    from meanfield.gaussian import local_expansions as local_expansions
    from meanfield.gaussian import logarithmic_moments as logarithmic_moments
    from meanfield.gaussian import moments as moments
    from meanfield.gaussian import node_series as node_series
    from meanfield.gaussian import one_direction as one_direction
    from meanfield.gaussian import pair_expansions as pair_expansions
    from meanfield.gaussian import periods as periods
    from meanfield.gaussian import plackett as plackett
    from meanfield.gaussian import power_moments as power_moments
    from meanfield.gaussian import powers as powers
    from meanfield.gaussian import precise as precise
    from meanfield.gaussian import projections as projections
    from meanfield.gaussian import series as series
    from meanfield.gaussian import singularities as singularities
    from meanfield.gaussian import slopes as slopes
    from meanfield.gaussian import softmax_sums as softmax_sums
    from meanfield.gaussian import underflows as underflows
    from meanfield.gaussian import wave_rules as wave_rules
    from meanfield.gaussian import waves as waves
    from meanfield.gaussian import zeros as zeros


def __getattr__(name: str) -> ModuleType:
    """A module of the calculus, loaded when something in it is first asked for: expectations that are only handed on need none of it."""
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if not f"{__name__}.{name}".startswith(str(error.name)):  # what that module needs is not here
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
