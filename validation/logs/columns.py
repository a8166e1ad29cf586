"""Lines that a terminal broke at its last column, put together again.

A text was broken where several lines are exactly as long as the longest, and what follows such a line does not begin like one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

#: Widths of terminals; a message is longer than the narrowest and lines that are longer than the widest were not broken.
_NARROWEST: Final = 60
_WIDEST: Final = 400
#: So many lines must be as long as the longest, or such a part of them with blanks at the end.
_LEAST: Final = 2
_PADDED: Final = 0.8
#: A line of pieces is not put together beyond this.
_LONGEST: Final = 20_000
#: How lines begin: a bracket, a date, a level, a field, a function's name, a container's.
_BEGINS: Final = re.compile(
    r"\s{0,20}(?:[\[({>#`|]|\d{4}-\d\d-\d\d|[A-Z]{4,8}[ :]|[IWED] |(?:time|level|ts)=|[a-z]+_\w{1,40}: |[\w.-]{1,60} +\| "
    r"|\w{2,10}\.? +\d{1,2} \d\d:)"
)


def joined(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with the number of each one's first piece."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    lengths = Counter(len(line.rstrip()) for line in lines)
    width = max(lengths)
    padded = sum(len(line) == width for line in lines) > len(lines) * _PADDED
    broken = _NARROWEST <= width <= _WIDEST and (lengths[width] >= _LEAST or padded)
    at = 0
    while at < len(lines):
        number, line = at + 1, lines[at]
        while broken and len(line) < _LONGEST and at + 1 < len(lines) and _goes_on(lines[at], lines[at + 1], width):
            at += 1
            line += lines[at]
        yield number, line
        at += 1


def _goes_on(line: str, after: str, width: int) -> bool:
    """Whether a line fills all columns, the last of them perhaps with a blank, and the next does not begin like one."""
    full = len(line.rstrip()) == width or (len(line) == width and len(line.rstrip()) == width - 1)
    return full and bool(after.strip()) and not _BEGINS.match(after)
