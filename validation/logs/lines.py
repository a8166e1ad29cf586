"""From a paste to the messages in it, each with the rank, process, time and source that stood before it.

What a terminal, a container, a log collector or a web page put around them is taken off in wrappers.py. A physical line becomes
one `Line` for each message in it. Nothing here knows an engine's messages; the headers that engines put before them are the
table `HEADERS`, which a new engine adds a row to. All patterns have bounded repeats, so that the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from planner.errors import InputError
from validation.logs.wrappers import unwrapped

#: A start-up log has some hundred kilobytes; more than these is a server's log of days.
MAX_CHARACTERS: Final = 50_000_000
MAX_LINES: Final = 200_000
#: A longer message is cut: the longest that engines print, their configuration, has some thousand characters.
MAX_MESSAGE: Final = 50_000

_LEVEL = "(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
#: "(EngineCore_DP0 pid=179) ", "(VllmWorker rank=1 pid=7) ", "(RayWorkerWrapper pid=9, ip=10.0.0.2) "
_TAG = r"\((?:[A-Za-z][\w.]{0,60})(?: rank=\d{1,6})? {0,2}pid=\d{1,9}(?:, ip=[^)\n]{0,60})?\) ?"
#: What engines put before a message: a row for each. Groups: tags, time, source (file:line), rank.
HEADERS: Final[Mapping[str, str]] = {
    "vllm": rf"(?P<tags>(?:{_TAG}){{0,3}}){_LEVEL} (?P<time>\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{{1,6}})? "
    r"\[?(?P<source>[^\]\s]{1,120}?:\d{1,6})\] ?",
    "vllm tag": rf"(?P<tags>(?:{_TAG}){{1,3}})",
    "sglang": r"\[(?P<time>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?P<rank>(?: [A-Z_]{2,8}\d{1,5}){0,6})\] ?",
    "tensorrt-llm": r"\[TensorRT-LLM\]\[(?:INFO|WARNING|ERROR|DEBUG|TRACE)\] ?",
    "trt-llm": r"\[(?P<time>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] \[TRT(?:-LLM)?\] (?:\[RANK (?P<rank>\d{1,5})\] )?\[[A-Z]\] ?",
}


def _alternatives() -> re.Pattern[str]:
    """All headers as one pattern; the group names of row i end in _i."""
    rows = (re.sub(r"\?P<(\w+)>", rf"?P<\1_{i}>", row) for i, row in enumerate(HEADERS.values()))
    return re.compile("|".join(f"(?:{row})" for row in rows))


_HEADER: Final = _alternatives()
_PROCESS: Final = re.compile(r"\(([A-Za-z][\w.]{0,60})(?: rank=(\d{1,6}))? {0,2}pid=(\d{1,9})")
_RANK: Final = re.compile(r"(?:^|[_ ])((?:DP|PP|PCP|TP|DCP|EP)\d{1,5})(?![A-Za-z0-9])")
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Line:
    """One message. text: without what stood before it. number: 1-based line of the paste. rank: as printed ("TP0", "DP1 TP0").

    headed: a header, a tag or fields make it a message of its own, so that it does not go on from the line before. process,
    pid: of the innermost tag. time: as printed. source: "file.py:123". fields: the pairs of a JSON or logfmt line; text is then
    its message.
    """

    text: str
    number: int
    rank: str | None = None
    headed: bool = False
    process: str | None = None
    pid: str | None = None
    time: str | None = None
    source: str | None = None
    fields: Mapping[str, str] = field(default_factory=lambda: _NO_FIELDS)


def clean(text: str) -> tuple[Line, ...]:
    """The messages of a paste, in order; empty ones are left out.

    Errors: InputError for an empty text, one that is too long, or one that is no text.
    """
    if not text.strip():
        raise InputError("the log is empty; paste what the engine printed while it started", field="log")
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"the log has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read, and a start-up log has some hundred"
            " thousand: give the part where the engine starts", field="log",
        )  # fmt: skip
    if text.count("\0") > len(text) // 100:
        raise InputError("the log is not text (it has many zero bytes); give the engine's log as plain text", field="log")
    if text.count("\n") > MAX_LINES:
        raise InputError(
            f"the log has {text.count(chr(10)):,} lines; at most {MAX_LINES:,} are read: give the part where the engine starts",
            field="log",
        )  # fmt: skip
    return tuple(_lines(text))


def _lines(text: str) -> Iterator[Line]:
    for number, rank, message, fields in unwrapped(text):
        yield from _messages(message, number, rank, fields)


def _messages(text: str, number: int, rank: str | None, fields: Mapping[str, str]) -> Iterator[Line]:
    """The messages of one line: it is cut where a header stands in its middle, as when processes write over each other."""
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers] + [len(text)]
    head = text[: ends[0]]
    if head.strip(" \t([{-|"):
        yield Line(head.rstrip()[:MAX_MESSAGE], number, rank, headed=bool(fields), fields=fields)
    for header, end in zip(headers, ends[1:], strict=True):
        message = text[header.end() : end].rstrip()[:MAX_MESSAGE]
        if message.strip():
            yield _headed(header, message, number, rank, fields)


def _headed(header: re.Match[str], message: str, number: int, rank: str | None, fields: Mapping[str, str]) -> Line:
    found = {name.rpartition("_")[0]: value for name, value in header.groupdict().items() if value}
    tags = _PROCESS.findall(found.get("tags", ""))
    process, worker, pid = tags[-1] if tags else (None, "", None)
    ranks = [name for tag, _, _ in tags for name in _RANK.findall(tag)] or _RANK.findall(found.get("rank", ""))
    if not ranks and (worker or found.get("rank", "").strip()):
        ranks = [f"rank {worker or found['rank'].strip()}"]
    said = " ".join(dict.fromkeys(ranks)) or rank
    return Line(message, number, said, True, process, pid, found.get("time"), found.get("source"), fields)
