"""Templates: what a line has in common with others that the same statement printed.

Numbers, times, addresses, hashes and paths are out; they are kept beside as the line's values, for
some of them count. Programs nobody has seen before can so be compared with themselves.
"""

from __future__ import annotations

import re

LONGEST = 200  # characters of a line that are compared

_TIME = re.compile(
    r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]|\b)|\b\d\d/\d\d/\d{2,4}\b|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?Z?"
)
_VALUE = re.compile(
    r"0[xX][0-9a-fA-F]+"
    r"|(?<![\w.])(?=[a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,}){0,4}(?!\w)"
    r"|(?<![\w/])\w{1,10}://[^\s'\"]+"
    r"|(?<![\w/.])\.{0,2}/[\w.@=+-]+(?:/[\w.@=+-]*)*"
    r"|\d+(?:[.,:]\d+)*(?:[eE][+-]?\d+)?"
)


def reduce(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the template of a line and the values that were in it."""
    text = _TIME.sub("", text[:LONGEST])
    values = tuple(_VALUE.findall(text))
    return " ".join(_VALUE.sub("#", text).split()) if values else " ".join(text.split()), values
