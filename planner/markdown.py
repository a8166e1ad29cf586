"""The pieces of a report in Markdown: text that is only text, tables, code that nothing ends, and what ends every report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from planner.cli_asked import shell_line
from planner.version import VERSION

_SPECIAL = re.compile(r"([\\`*\[\]<>|~])")


def plain(text: object) -> str:
    """`text` on one line, with what Markdown or HTML would read as more than text escaped."""
    line = " ".join(str(text).split())
    return _SPECIAL.sub(r"\\\1", "".join(c for c in line if c.isprintable()))


def table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> list[str]:
    """A table; the columns of `right` are aligned right, as numbers are."""
    numbers = set(right)
    marks = ["---:" if place in numbers else "---" for place in range(len(head))]
    lines = [head, marks, *([plain(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def code(text: str, language: str) -> list[str]:
    """`text` as a block of code whose fence is longer than any in it."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.splitlines(), fence]


def again(data: Mapping[str, Any]) -> list[str]:
    """How to ask the same again: in a shell, and by the page's link where the answer is a page's."""
    lines = ["", "## Ask again", ""]
    lines += code(shell_line(data["asked"]), "bash") if "asked" in data else []
    page = data.get("page")
    if page is not None:
        lines += ["", "On the page, behind its address:", "", *code(page["link"], "text")]
    if "config" in data:
        lines += ["", "The model is a config of one's own: the JSON of this answer has it, as `config`."]
    return lines


def told(title: str, texts: Iterable[str]) -> list[str]:
    """A list of sentences below its title; nothing where there is none."""
    found = list(dict.fromkeys(texts))
    return ["", f"## {title}", "", *(f"- {plain(text)}" for text in found)] if found else []


def made(data: Mapping[str, Any], date: str | None) -> list[str]:
    """What made the report, and when: `date` or today."""
    day = date or datetime.now(timezone.utc).date().isoformat()
    return ["", "---", "", f"Made by planner {plain(data.get('planner_version', VERSION))} on {day}."]
