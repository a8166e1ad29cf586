"""Line shapes as tables, and the reading of them: which messages have which figures, and what their digits are worth.

A shape is a row: how the message starts, its pattern with one named group for each figure, the unit, the versions, the meaning.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from planner.units import GB, GIB, MB, MIB
from validation.logs.lines import Line
from validation.logs.log import Figure

#: Parts of patterns. A whole number has separators or none; a number of bytes in some unit has decimals or none.
N: Final = r"\d{1,3}(?:[, ]\d{3}){1,5}(?!\d)|\d{1,18}(?![\d,]\d)"
X: Final = r"-?\d{1,9}(?:\.\d{1,9})?"
_PARTS: Final = {"N": N, "X": X}
_PLACE: Final = re.compile(r"\{(?:(\w+):)?([NX])\}")
UNITS: Final[Mapping[str, int]] = {"GiB": GIB, "MiB": MIB, "GB": GB, "MB": MB, "B": 1}
_NO_UNITS: Final[Mapping[str, str]] = MappingProxyType({})
#: How far a wrapped message is followed: pieces that are joined, and lines of other processes between them.
_PIECES: Final = 3
_BETWEEN: Final = 6
_MOST: Final = 2_000
_LONGEST_START: Final = 60


@dataclass(frozen=True)
class Shape:
    """A message. starts: its first words, literally; a message that has them and does not match is cut or wrapped.

    pattern: the named groups are figures, or words for the engine's module. unit: of groups whose name ends in `_bytes`, one of
    UNITS ("GB" is 10**9; say "GiB" where an engine prints GB and means 2**30). units: of groups that differ from it. digits:
    decimals that the engine rounds to even where it drops trailing zeros ("5.0" is 5.00). versions, meaning: for people. since,
    until: the first release that prints it so and the first that no longer does, where a release can be told by it.
    """

    starts: str
    pattern: re.Pattern[str]
    meaning: str
    versions: str = "all"
    unit: str = "GiB"
    digits: int = 0
    units: Mapping[str, str] = field(default_factory=lambda: _NO_UNITS)
    since: str = ""
    until: str = ""


@dataclass(frozen=True)
class Found:
    """A shape in a line. words: the text of each group that matched."""

    shape: Shape
    line: Line
    words: Mapping[str, str]

    def figure(self, name: str) -> Figure:
        """The group `name` as a figure."""
        return figure(name, self.words[name], self.line, self.shape.units.get(name, self.shape.unit), self.shape.digits)


@dataclass(frozen=True)
class Scan:
    """All shapes found, in the order of the lines, and the lines where one starts but does not finish."""

    found: tuple[Found, ...]
    cut: tuple[tuple[Shape, Line], ...]


def shape(starts: str, pattern: str, meaning: str, versions: str = "all", **more: Any) -> Shape:
    """A row. In the pattern {N} and {X} stand for a whole number and a decimal, {name:N} and {name:X} for groups of them."""
    return Shape(starts, re.compile(_PLACE.sub(_group, pattern)), meaning, versions, **more)


def _group(place: re.Match[str]) -> str:
    return f"(?P<{place[1]}>{_PARTS[place[2]]})" if place[1] else f"(?:{_PARTS[place[2]]})"


def figure(name: str, text: str, line: Line, unit: str = "GiB", digits: int = 0) -> Figure:
    """A figure from its printed digits. Names ending in `_bytes` are in bytes, whole; others are counts or ratios."""
    plain = text.replace(",", "").replace(" ", "")
    _, point, decimals = plain.partition(".")
    scale = UNITS[unit] if name.endswith("_bytes") else 1
    if scale == 1 and not point:
        return Figure(name, int(plain), 0, text, line.number, line.rank)
    slack = 0.5 * 10.0 ** -max(len(decimals), digits) * scale
    value = round(float(plain) * scale) if name.endswith("_bytes") else float(plain)
    return Figure(name, value, slack, text, line.number, line.rank)


def scan(lines: Sequence[Line], shapes: Sequence[Shape]) -> Scan:
    """Finds the shapes, each as often as it stands in a line. Where a line has a shape's start alone, its pieces are looked for
    in the next lines without a header: a terminal or a mail wrapped it, or another process wrote in between.
    """
    by_start: dict[str, list[Shape]] = {}
    for row in shapes:
        by_start.setdefault(row.starts, []).append(row)
    starts = re.compile("|".join(map(re.escape, sorted(by_start, key=len, reverse=True))))
    found: list[Found] = []
    cut: list[tuple[Shape, Line]] = []
    for i, line in enumerate(lines):
        for start in dict.fromkeys(starts.findall(line.text)):
            rows = by_start[start]
            hits = [Found(row, line, _words(match)) for row in rows for match in row.pattern.finditer(line.text)]
            if not hits:
                hits = _wrapped(lines, i, rows)
            found += hits
            if not hits:
                cut.append((rows[0], line))
        for start in _at_seam(lines, i, starts):
            found += _wrapped(lines, i, by_start[start])
    return Scan(tuple(found), tuple(cut))


def _at_seam(lines: Sequence[Line], i: int, starts: re.Pattern[str]) -> list[str]:
    """The starts that the end of line i and the beginning of the next line make together."""
    after = lines[i + 1] if i + 1 < len(lines) else None
    if after is None or after.headed:
        return []
    head, tail = lines[i].text.rstrip()[-_LONGEST_START:], after.text.strip()[:_LONGEST_START]
    found = []
    for gap in ("", " "):
        for match in starts.finditer(head + gap + tail):
            if match.start() < len(head) and match.end() > len(head) + len(gap):
                found.append(match[0])
    return list(dict.fromkeys(found))


def _words(match: re.Match[str]) -> dict[str, str]:
    return {name: word for name, word in match.groupdict().items() if word is not None}


def _wrapped(lines: Sequence[Line], i: int, rows: Sequence[Shape]) -> list[Found]:
    """The message that begins in line i and goes on in lines without a header."""
    rest = [line.text.strip() for line in lines[i + 1 : i + 1 + _BETWEEN] if not line.headed][:_PIECES]
    head = lines[i].text.rstrip()[-_MOST:]
    for count in range(1, len(rest) + 1):
        for gaps in itertools.product(("", " "), repeat=count):
            text = head + "".join(gap + piece[:_MOST] for gap, piece in zip(gaps, rest, strict=False))
            for row in rows:
                match = row.pattern.search(text)
                if match:
                    return [Found(row, lines[i], _words(match))]
    return []
