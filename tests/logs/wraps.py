"""What stands around a pasted log: each wrapper takes a text and gives it as a container, a collector or a web page would."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable

Wrap = Callable[[str], str]


def _each(change: Callable[[str], str]) -> Wrap:
    return lambda text: "\n".join(change(line) for line in text.rstrip("\n").split("\n")) + "\n"


def _json(line: str) -> str:
    return json.dumps({"level": "INFO", "time": "2026-05-20T12:00:00Z", "message": line})


def _cells(text: str) -> str:
    """A terminal of 100 columns, which breaks in mid-word."""
    lines = []
    for line in text.rstrip("\n").split("\n"):
        lines += [line[i : i + 100] for i in range(0, len(line), 100)] or [""]
    return "\n".join(lines) + "\n"


def _bars(text: str) -> str:
    """Progress bars that end in a carriage return and are glued to the next message."""
    bar = "Loading:  50%|#####     | 1/2 [00:01<00:01,  1.00it/s]\rLoading: 100%|##########| 2/2 [00:02<00:00,  1.00it/s]\r"
    return "\n".join(bar + line if i % 7 == 3 else line for i, line in enumerate(text.split("\n")))


WRAPS: dict[str, Wrap] = {
    "plain": lambda text: text,
    "windows": lambda text: text.replace("\n", "\r\n"),
    "compose": _each(lambda line: f"engine-1         | {line}"),
    "kubernetes": _each(lambda line: f"2026-05-20T12:00:00.123456789Z stdout F {line}"),
    "docker -t": _each(lambda line: f"2026-05-20T12:00:00.123456789Z {line}"),
    "kubectl": _each(lambda line: f"[pod/engine-7d9f-abcde/engine] {line}"),
    "journald": _each(lambda line: f"oct. 30 12:00:00 server1 engine[4711]: {line}"),
    "quote": _each(lambda line: f"> > {line}"),
    "entities": _each(lambda line: "&gt; " + line.replace("<", "&lt;")),
    "fence": lambda text: f"My log:\n\n```text\n{textwrap.indent(text, '    ')}```\n\nWhy?\n",
    "colours": _each(lambda line: f"\x1b[0;36m{line}\x1b[0m"),
    "colours without escape": _each(lambda line: f"[0;36m{line}[0m"),
    "json": _each(_json),
    "bars": _bars,
    "columns": _cells,
}
