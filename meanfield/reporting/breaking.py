r"""Long formulas over several lines: where a line of an align* is wider than a page, it is broken at its sums.

LaTeX is read as a tree of fractions, roots, brackets and letters, whose width in points is estimated from the fonts of a 10 pt article.
A term that is too wide by itself is opened: a bracket at the sum inside it, a fraction N/D as 1/D (N), a root as ( )^{1/2}.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

__all__ = ["COLUMN", "WIDTH", "aligned", "fitted", "width"]

#: points of a line: A4 with margins of 2.2 cm, less what an alignment and an estimate need
WIDTH: Final = 430.0
#: the same of an article that sets no margins
COLUMN: Final = 315.0
#: what is opened no further, however deep it stands
LEAST: Final = 60.0
#: lines of one align*: LaTeX breaks pages between such, and not within them unless it is told to
_MOST: Final = 12

_TOKEN: Final = re.compile(r"\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)

#: widths in points
_MARKS: Final = {
    "+": 12.2,
    "-": 12.2,
    "=": 13.4,
    "<": 13.4,
    ">": 13.4,
    "(": 3.9,
    ")": 3.9,
    "[": 2.8,
    "]": 2.8,
    "|": 2.8,
    ",": 4.5,
    "/": 5.0,
    "'": 2.8,
    ".": 2.8,
}
_SPACES: Final = {r"\,": 1.7, r"\:": 2.2, r"\;": 2.8, r"\!": -1.7, r"\ ": 3.3, r"\quad": 10.0, r"\qquad": 20.0}
_RELATIONS: Final = {
    r"\leftarrow": 15.6,
    r"\sim": 13.4,
    r"\to": 15.6,
    r"\simeq": 13.4,
    r"\leq": 13.4,
    r"\geq": 13.4,
    r"\cdot": 7.2,
    r"\times": 12.2,
    r"\circ": 9.4,
}
_BIG: Final = {r"\sum": 14.5, r"\int": 5.6, r"\infty": 10.0, r"\ln": 9.5, r"\log": 14.5}
_FUNCTIONS: Final = {
    *(r"\ln", r"\log", r"\exp", r"\sin", r"\cos", r"\tan", r"\tanh", r"\sinh", r"\cosh", r"\arcsin", r"\arccos", r"\arctan"),
    *(r"\max", r"\min", r"\erf"),
}
_WORDS: Final = {r"\operatorname", r"\text", r"\mathrm", r"\mathbb", r"\mathcal", r"\mathbf", r"\textbf", r"\mathit"}
_ACCENTS: Final = {r"\hat", r"\tilde", r"\bar", r"\dot", r"\overline"}
#: in the numerator of a fraction within a line, and in exponents
SMALL: Final = 0.74


@dataclass
class _Node:
    """A part of a formula: its LaTeX, its width, and, where it can be opened, what stands before, in and behind it."""

    text: str
    width: float
    before: str = ""
    inside: list[_Node] = field(default_factory=list)
    behind: str = ""
    applied: bool = False  # a function, of what stands in the brackets behind it

    @property
    def is_sign(self) -> bool:
        return self.text in ("+", "-")

    @property
    def is_mark(self) -> bool:
        """Whether it is no factor."""
        return self.is_sign or self.text == ","


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [t for t in _TOKEN.findall(text) if not t.isspace() or t == r"\ "]
        self.position = 0

    def _peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _next(self) -> str:
        self.position += 1
        return self.tokens[self.position - 1]

    def sequence(self, depth: int, *ends: str) -> list[_Node]:
        nodes: list[_Node] = []
        while self._peek() and self._peek() not in ends:
            token = self._next()
            if token in ("^", "_") and nodes:
                nodes[-1] = self._scripted(nodes[-1], token, depth)
            else:
                node = self._node(token, depth)
                if nodes and nodes[-1].applied:  # what is no bracket stays whole: a part of it is another argument
                    name, inside = nodes.pop(), node.inside if _is_bracket(node) else []
                    whole, before = f"{name.text} {node.text}", f"{name.text} {node.before}"
                    node = _Node(whole, name.width + node.width, before, inside, node.behind)
                nodes.append(node)
        return nodes

    def _group(self, depth: int) -> list[_Node]:
        if self._peek() != "{":
            return [self._node(self._next(), depth)] if self._peek() else []
        self._next()
        nodes = self.sequence(depth, "}")
        if self._peek():
            self._next()
        return nodes

    def _raw(self) -> str:
        """what stands between braces, as it is"""
        if self._peek() != "{":
            return self._next()
        level, parts = 0, []
        while self._peek():
            token = self._next()
            level += (token == "{") - (token == "}")
            parts.append(token)
            if level == 0:
                break
        return "".join(parts)[1:-1]

    def _scripted(self, base: _Node, mark: str, depth: int) -> _Node:
        script = self._group(depth + 1)
        inner = _text(script)
        text = f"{mark}{inner}" if len(inner) == 1 else f"{mark}{{{inner}}}"
        return _Node(base.text + text, base.width + SMALL * _width(script), base.before, base.inside, base.behind + text, base.applied)

    def _node(self, token: str, depth: int) -> _Node:
        if token == "{":
            self.position -= 1
            inside = self._group(depth)
            return _Node(f"{{{_text(inside)}}}", _width(inside), "", inside, "")
        if token in (r"\frac", r"\tfrac", r"\dfrac"):
            top, bottom = self._group(depth + 1), self._group(depth + 1)
            scale = 1.0 if depth == 0 else SMALL
            size = scale * max(_width(top), _width(bottom)) + 2.4
            whole = rf"\frac{{{_text(top)}}}{{{_text(bottom)}}}"
            if _width(bottom) > _width(top):
                above = rf"\left({_text(top)}\right)" if any(node.is_mark for node in top) else _text(top)
                return _Node(whole, size, rf"{above} \Bigl(", bottom, r"\Bigr)^{-1}")
            if not any(node.is_sign for node in top):
                head = next((i for i, node in enumerate(top) if node.inside), 0)
                return _Node(whole, size, rf"\frac{{{_text(top[:head]) or 1}}}{{{_text(bottom)}}} ", top[head:], "")
            return _Node(whole, size, rf"\frac{{1}}{{{_text(bottom)}}} \Bigl(", top, r"\Bigr)")
        if token == r"\sqrt":
            index = ""
            if self._peek() == "[":
                self._next()
                index = _text(self.sequence(depth, "]"))
                self._next()
            inside = self._group(depth)
            root = rf"\sqrt[{index}]{{{_text(inside)}}}" if index else rf"\sqrt{{{_text(inside)}}}"
            return _Node(root, _width(inside) + 9.0, r"\Bigl(", inside, rf"\Bigr)^{{1/{index or 2}}}")
        if token == r"\left":
            opening = self._next()
            inside = self.sequence(depth, r"\right")
            self._next()
            closing = self._next() if self._peek() else "."
            text = rf"\left{opening}{_text(inside)}\right{closing}"
            return _Node(text, _width(inside) + 11.0, rf"\Bigl{opening}", inside, rf"\Bigr{closing}")
        if token in _WORDS:
            word = self._raw()
            applied = token == r"\operatorname"
            return _Node(f"{token}{{{word}}}", (6.9 if token == r"\mathbb" else 4.9) * len(word) + 3.4 * applied, applied=applied)
        if token in _ACCENTS:
            inside = self._group(depth)
            return _Node(f"{token}{{{_text(inside)}}}", _width(inside))
        if token.startswith("\\"):
            known = {**_SPACES, **_RELATIONS, **_BIG}
            size = known.get(token, 4.7 * (len(token) - 1) if token in _FUNCTIONS else 6.0)
            return _Node(token, size, applied=token in _FUNCTIONS)
        return _Node(token, _MARKS.get(token, 7.0 if token.isupper() else 5.2 * len(token)))


def _text(nodes: list[_Node]) -> str:
    return " ".join([node.text for node in nodes])


def _width(nodes: list[_Node]) -> float:
    return sum(node.width for node in nodes)


def width(formula: str) -> float:
    """Points that a displayed formula takes, about."""
    return _width(_Reader(formula).sequence(0))


def _is_bracket(node: _Node) -> bool:
    """whether it is a bracket, or a group that is one"""
    bracket = node.text.startswith(r"\left") and node.before.startswith(r"\Bigl")
    return bracket or (node.text.startswith("{") and len(node.inside) == 1 and _is_bracket(node.inside[0]))


def _terms(nodes: list[_Node]) -> list[list[_Node]]:
    """a sum cut before each + and -, and arguments behind each comma"""
    found: list[list[_Node]] = [[]]
    for node in nodes:
        if found[-1] and (found[-1][-1].text == "," or (node.is_sign and not found[-1][-1].is_sign)):
            found.append([])
        found[-1].append(node)
    return found


def _pieces(nodes: list[_Node], limit: float) -> list[tuple[str, float]]:
    """what may stand on lines of its own, none wider than the limit where that can be had"""
    found: list[tuple[str, float]] = []
    for term in _terms(nodes):
        at = max(range(len(term)), key=lambda i: (bool(term[i].inside), term[i].width))
        node = term[at]
        if _width(term) <= limit or not node.inside:
            found.append((_text(term), _width(term)))
            continue
        head, tail = term[:at], term[at + 1 :]
        start = ""
        if _width(head) > limit / 3 and not head[-1].is_mark:
            found += _pieces(head, limit)
            start = r"\times " if found[-1][0] else ""
            head = []
        room = max(limit - _width(head) - 24, limit / 2, LEAST)
        inner = _pieces(_Reader(_text(node.inside)).sequence(0), room)  # what stood in a fraction is set in full size now
        first, last = inner[0], inner[-1]
        opening = f"{start}{_text(head)}{' ' if head else ''}{node.before}"
        if len(inner) == 1:
            inner = [(f"{opening}{first[0]}{node.behind}", first[1] + _width(head) + 16)]
        else:
            inner[0] = (f"{opening}{first[0]}", first[1] + _width(head) + 8 + width(node.before))
            inner[-1] = (f"{last[0]}{node.behind}", last[1] + 8)
        found += inner
        if tail and _width(tail) > limit / 3 and not tail[0].is_mark:
            found += [(rf"\times {text}", size + 12) if i == 0 else (text, size) for i, (text, size) in enumerate(_pieces(tail, limit))]
        elif tail:
            text, size = found[-1]
            found[-1] = (f"{text} {_text(tail)}", size + _width(tail))
    return found


_LEAD: Final = re.compile(r"\s*((=|\\(leftarrow|sim|simeq|to|quad|qquad)(?![A-Za-z]))\s*)*")


def broken(line: str, limit: float = WIDTH, column: float = 0.0) -> list[str]:
    r"""A line of an align*, as "q &= a + b", on as many lines as it takes; `column` is the width of all that stands before the &.

    >>> broken("q &= a + b")
    ['q &= a + b']
    >>> broken("q &= a + b - c", limit=40)
    ['q &= a', '&\\qquad + b', '&\\qquad - c']
    """
    left, mark, right = line.partition("&")
    column = max(column, width(left))
    if not mark or column + width(right) <= limit or r"\text" in right:
        return [line]
    relation = _LEAD.match(right)
    lead = relation[0] if relation else ""
    body = _Reader(right[len(lead) :]).sequence(0)
    room = limit - column - width(lead)
    lines, here, size = [], f"{left}&{lead}", 0.0
    for text, wide in _pieces(body, min(room, limit - column - 20)):
        if size and size + wide > room:
            lines.append(here)
            here, size, room = rf"&\qquad {text}", wide, limit - column - 20
        else:
            here, size = f"{here}{' ' if size else ''}{text}", size + wide
    return [*lines, here.replace("&  ", "& ")]


def aligned(lines: list[str], limit: float = WIDTH) -> str:
    """An align* environment of these lines, the wide ones broken; several of them where that is more than a page may hold."""
    column = max((width(line.partition("&")[0]) for line in lines), default=0.0)
    parts: list[list[str]] = [[]]
    for line in lines:
        found = broken(line, limit, column)
        if parts[-1] and len(parts[-1]) + len(found) > _MOST:
            parts.append([])
        parts[-1] += found
    return "\n".join("\\begin{align*}\n" + " \\\\\n".join(part) + "\n\\end{align*}" for part in parts)


_ENVIRONMENT: Final = re.compile(r"\\begin\{align\*\}\n(.*?)\n\\end\{align\*\}", re.DOTALL)


def fitted(fragment: str) -> str:
    """The fragment with the wide lines of its align* environments broken."""
    return _ENVIRONMENT.sub(lambda match: aligned(re.split(r" \\\\\n", match[1])), fragment)
