"""Libraries that not every installation has: what needs them, and the extra of the package that installs them."""

from __future__ import annotations

import importlib
from typing import Final

__all__ = ["PACKAGE", "absent", "install", "require"]

PACKAGE: Final = "meanfield-nn"

#: library -> extra
_EXTRAS: Final = {
    "click": "cli", "rich": "cli", "matplotlib": "plot", "markdown_it": "plot", "mdit_py_plugins": "plot", "latex2mathml": "plot",
    "torch": "torch", "xarray": "xarray", "pandas": "xarray", "dask": "sweep", "zarr": "sweep", "numba_cuda": "cuda",
}  # fmt: skip


def install(library: str) -> str | None:
    """The command that installs a library; None for one of no extra.

    >>> install("pandas")
    'pip install "meanfield-nn[xarray]"'
    """
    return f'pip install "{PACKAGE}[{_EXTRAS[library]}]"' if library in _EXTRAS else None


def absent(what: str, library: str) -> ImportError:
    """The error of a missing library: "`what` xarray: pip install ..."."""
    return ImportError(f"{what} {library}: {install(library)}", name=library)


def require(what: str, *libraries: str) -> None:
    """Raise that error where one of the libraries is missing."""
    for library in libraries:
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise absent(what, library) from error
