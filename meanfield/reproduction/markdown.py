"""Markdown with $math$ as a stream of tokens: markdown-it-py with its plugins for dollars and amsmath environments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

__all__ = ["LIBRARIES", "parser"]

#: what a page is set with
LIBRARIES: Final = ("markdown_it", "mdit_py_plugins", "latex2mathml")


@cache
def parser(math: Callable[[str, bool], str] | None = None) -> MarkdownIt:
    """A parser; `math` renders LaTeX, given whether it is displayed, where the parser is asked for HTML."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.amsmath import amsmath_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    result = MarkdownIt("commonmark", {"html": False, "typographer": True}).enable(["table", "replacements", "smartquotes"])
    if math is None:
        return result.use(dollarmath_plugin, double_inline=True).use(amsmath_plugin)

    def dollars(content: str, options: dict[str, Any]) -> str:
        return math(content.strip(), bool(options["display_mode"]))

    result.use(dollarmath_plugin, double_inline=True, renderer=dollars)
    return result.use(amsmath_plugin, renderer=lambda content: math(content, True))
