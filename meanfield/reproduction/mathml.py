"""LaTeX as MathML: the converter's elements, spaced and named as browsers expect them."""

from __future__ import annotations

from functools import cache
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

__all__ = ["mathml"]

_NAMESPACE: Final = "http://www.w3.org/1998/Math/MathML"

#: character -> (element, character, attributes), where the converter's choice is spaced or drawn wrongly
_CHARACTERS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "~": ("mo", "\N{TILDE OPERATOR}", {}),
    "\N{PLUS-MINUS SIGN}": ("mo", "\N{PLUS-MINUS SIGN}", {}),
    "\N{INFINITY}": ("mi", "\N{INFINITY}", {}),
    "\N{PARTIAL DIFFERENTIAL}": ("mi", "\N{PARTIAL DIFFERENTIAL}", {}),
    ":": ("mo", ":", {}),
    "/": ("mo", "/", {"lspace": "0", "rspace": "0"}),
}
_SIGNS: Final = {"\N{MINUS SIGN}", "+", "\N{PLUS-MINUS SIGN}"}
_PRIMES: Final = {"\N{PRIME}", "\N{DOUBLE PRIME}"}
_CLOSING: Final = set(")]}|!") | {"\N{MATHEMATICAL RIGHT ANGLE BRACKET}", "\N{DOUBLE VERTICAL LINE}"} | _PRIMES
_BAR: Final = "\N{HORIZONTAL BAR}"
#: elements that brackets around them grow with
_TALL: Final = {"mfrac", "msqrt", "mroot", "mtable", "munder", "munderover"}
#: elements that put something above or below, whose first part says what they are
_SCRIPTS: Final = {"msub", "msup", "msubsup"}


@cache
def mathml(latex: str, displayed: bool) -> str:
    """A <math> element."""
    from latex2mathml.converter import convert

    ElementTree.register_namespace("", _NAMESPACE)
    root = ElementTree.fromstring(convert(latex, display="block" if displayed else "inline"))
    for element in list(root.iter()):
        element.tag = element.tag.removeprefix(f"{{{_NAMESPACE}}}")
    _mend(root)
    root.set("xmlns", _NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _mend(parent: Element) -> None:
    for element in parent:
        _mend(element)
        _character(element)
        if element.tag == "msup":
            _prime(element)
        elif element.tag == "msub":
            _limit(element)
        elif element.tag == "mover" and element[1].text == _BAR:  # the character that is there does not grow in every font
            element.remove(element[1])
            element.tag = "mrow"
            element.set("style", "border-top: 0.06em solid; padding-top: 0.12em")
    if parent.find("mo[@fence]") is not None and not any(e.tag in _TALL for e in parent.iter()):
        for fence in parent.findall("mo[@fence]"):
            fence.set("stretchy", "false")
    if parent.tag in ("math", "mrow", "mtd", "msqrt", "mstyle"):
        _spaced(parent)


def _character(element: Element) -> None:
    text = element.text or ""
    if element.tag == "mtext":
        element.text = text.replace(r"\_", "_")
    elif element.tag in ("mi", "mo") and text in _CHARACTERS and not (text == "~" and element.tag == "mo"):  # that is an accent
        element.tag, element.text, attributes = _CHARACTERS[text]
        element.attrib.clear()
        element.attrib.update(attributes)
    elif element.tag == "mo" and text.isalpha() and len(text) > 1:  # a function by name
        element.tag = "mi"
    elif element.get("fence") == "true":
        element.attrib.update(lspace="0", rspace="0")


def _prime(script: Element) -> None:
    """f' with the prime beside f: its character is raised already"""
    letter, above = script
    parts = list(above) if above.tag == "mrow" else [above]
    primes = [p for p in parts if p.text in _PRIMES]
    if not primes:
        return
    for p in primes:
        p.tag = "mo"
        p.attrib.update(lspace="0", rspace="0")
    rest = [p for p in parts if p not in primes]
    script.clear()
    script.tag = "msup" if rest else "mrow"
    script.extend([_row([letter, *primes]), _row(rest)] if rest else [letter, *primes])


def _limit(script: Element) -> None:
    """below `lim` where a formula is displayed"""
    if script[0].text == "lim":
        script.tag, script[0].tag = "munder", "mo"
        script[0].attrib.update(movablelimits="true", lspace="0", rspace="0.17em")


def _row(parts: list[Element]) -> Element:
    row = Element("mrow")
    row.extend(parts)
    return row


def _spaced(row: Element) -> None:
    """Signs in front of a term, and the thin spaces that TeX puts around a function's name."""
    old, new = list(row), list[Element]()
    for k, element in enumerate(old):
        before = new[-1] if new else None
        if element.tag == "mo" and element.text in _SIGNS and before is not None and before.tag == "mo" and before.text not in _CLOSING:
            element.set("form", "prefix")
        if not _is_name(element):
            new.append(element)
            continue
        if before is not None and before.tag not in ("mo", "mspace"):
            new.append(Element("mspace", width="0.17em"))
        new.append(element)
        if k + 1 < len(old) and old[k + 1].tag != "mo" and not _is_bracketed(old[k + 1]):
            new.append(Element("mspace", width="0.17em"))
    for element in old:
        row.remove(element)
    row.extend(new)


def _is_name(element: Element) -> bool:
    if element.tag in _SCRIPTS and len(element):
        return _is_name(element[0])
    text = element.text or ""
    return element.tag == "mi" and len(text) > 1 and text.isascii() and text.isalpha()


def _is_bracketed(element: Element) -> bool:
    while element.tag == "mrow" and len(element):
        element = element[0]
    return element.tag == "mo" and element.text in ("(", "[")
