"""Which lines of a paste belong to one start of vLLM: figures of different starts are not mixed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from validation.logs.lines import Line

#: What a start says before its figures, and what only comes once in it.
_BEGINS: Final = re.compile(r"Initializing an? (?:V[01] )?LLM engine|vLLM API server version")
_FIGURE: Final = re.compile(r"KV cache size:|blocks: \d|max seq len \(|Available KV cache memory:")
#: Processes of which a start has one of each name; workers of engine V0 and Ray share a name.
_ONE: Final = re.compile(r"APIServer|EngineCore|Worker_|CoreEngine")


def starts(lines: Sequence[Line]) -> tuple[tuple[Line, ...], ...]:
    """The lines of each start, in order. A new one begins where a process comes back under another pid, or where the engine is
    set up again after it had printed a figure. Lines without a tag belong to the start that is going on.
    """
    found: list[list[Line]] = [[]]
    names: list[dict[str, str]] = [{}]
    at, figures = 0, False
    for line in lines:
        name, pid = line.process, line.pid
        if name and pid and _ONE.match(name):
            home = next((i for i, known in enumerate(names) if known.get(name) == pid), None)
            if home is None and name in names[at]:
                home, figures = _opened(found, names), False
            at = at if home is None else home
            names[at][name] = pid
        elif not name and figures and _BEGINS.search(line.text):
            at, figures = _opened(found, names), False
        figures = figures or bool(_FIGURE.search(line.text))
        found[at].append(line)
    return tuple(tuple(start) for start in found if start)


def _opened(found: list[list[Line]], names: list[dict[str, str]]) -> int:
    found.append([])
    names.append({})
    return len(found) - 1
