"""What stands around a pasted line: markdown, containers, collectors, colours, JSON and logfmt.

`unwrapped` gives each line's message with its number. A wrapper is a row of a table; the order is that in which they nest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from validation.logs.columns import joined

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
#: Colours and cursor moves: with the escape byte, in the spellings that collectors give it, and without it (then only colours).
_ANSI: Final = re.compile(
    r"(?:\x1b|\x9b|\\u001b|\\x1b|\\033|\\e|\^\[|#033|␛)\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}\x07|\[\d{1,3}(?:;\d{1,3}){0,4}m"
)
_ENTITIES: Final = {"&gt;": ">", "&lt;": "<", "&quot;": '"', "&#39;": "'", "&#x27;": "'", "&nbsp;": " ", "&amp;": "&"}
_ODD: Final = str.maketrans({"\xa0": " ", "\u202f": " ", "\u2009": " ", "\ufeff": None, "\u200b": None, "\0": None})
_PIECES: Final = re.compile(r"\r|<br ?/?>", re.IGNORECASE)
#: Prefixes that say nothing of the message, outermost first; each may stand several times (nested quotes).
_PREFIXES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\s{0,80}(?:>|▎|\|(?= )|[-+*](?= ))\s{0,80}",  # a quote, a table's cell, a list, a diff
        r"[A-Za-z0-9][\w.-]{0,80} {0,80}\| ",  # docker compose
        r"\[pod/[^\]\s]{1,200}\] ",  # kubectl --prefix
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s{1,4}",  # docker -t, Kubernetes, launchers
        r"(?:stdout|stderr) [FP] ",  # CRI
        # journald, with the month in any language
        r"[^\W\d]{2,10}\.? {1,2}\d{1,2} \d\d:\d\d:\d\d \S{1,80} [\w@.-]{1,80}(?:\[\d{1,9}\])?: ",
        r"\[rank\d{1,5}\]: ?",  # torch
        r"\[\d\d:\d\d:\d\d\] (?:stdout|stderr)/[A-Z]{4,8} {1,4}",
    )
)
#: CRI: the line goes on in the next one.
_PARTIAL: Final = re.compile(r"[^ ]{20,40} (?:stdout|stderr) P ")
_MAX_PARTIAL: Final = 100_000
_FENCE: Final = re.compile(r"\s{0,20}(?:`{3,}|~{3,})\w{0,20}\s{0,20}")
#: Where JSON logs keep the message, by preference.
_MESSAGE_KEYS: Final = ("message", "msg", "log", "event", "textPayload", "MESSAGE", "body", "line")
_PAIR: Final = re.compile(r'(?:^|\s)(?:([\w.@/-]{1,64})|"([^"]{1,64})")=("(?:[^"\\]|\\.){0,20000}"|[^\s"]{0,20000})')
_LOGFMT: Final = re.compile(r'(?:^|\s)(?:level|lvl|severity|time|ts|name|source)=\S.{0,400}?\smsg=')
_LENIENT: Final = (('\\"', '"'), ("\\n", "\n"), ("\\t", " "), ("\\\\", "\\"))
_MAX_NESTING: Final = 3

Unwrapped = tuple[int, str | None, str, Mapping[str, str]]


def unwrapped(text: str) -> Iterator[Unwrapped]:
    """Line number, rank where JSON says it, message and fields of each line that is not empty."""
    begun = ""
    for number, physical in joined(text):
        if "&" in physical:
            for entity, letter in _ENTITIES.items():
                physical = physical.replace(entity, letter)
        if _PARTIAL.match(physical) and len(begun) < _MAX_PARTIAL:
            begun += _stripped(physical.rstrip("\r"))
            continue
        whole, begun = begun + _stripped(physical) if begun else physical, ""
        for piece in _PIECES.split(whole):
            yield from _opened(piece.translate(_ODD), number, _MAX_NESTING)
    if begun:
        yield from _opened(begun.translate(_ODD), number, _MAX_NESTING)


def _opened(text: str, number: int, nesting: int) -> Iterator[Unwrapped]:
    text = _ANSI.sub("", text) if "[" in text or "\x1b" in text else text
    if not text.strip() or _FENCE.fullmatch(text):
        return
    cell = text.lstrip().startswith("| ")
    text = _stripped(text)
    if cell and text.endswith(" |"):
        text = text[:-2]
    content = text.strip()
    if nesting and content.startswith(("{", "[{")):
        yield from _json(content, number, nesting)
    elif nesting and "msg=" in content and (start := _LOGFMT.search(content)):
        pairs = _logfmt(content[start.start() :])
        before = content[: start.start()] + " " if start.start() else ""
        yield number, None, before + (pairs.get("msg") or content), pairs
    else:
        yield number, None, text, _NONE


def _stripped(text: str) -> str:
    """The line without the prefixes of `_PREFIXES`."""
    at, found = 0, True
    while found and at < 2000:
        found = False
        for prefix in _PREFIXES:
            match = prefix.match(text, at)
            if match and match.end() > at:
                at, found = match.end(), True
    return text[at:]


def _json(content: str, number: int, nesting: int) -> Iterator[Unwrapped]:
    """The messages of a JSON line; of one that is cut or is no JSON, the text with its escapes undone."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        for escape, letter in _LENIENT:
            content = content.replace(escape, letter)
        content = _ANSI.sub("", content)
        for piece in content.split("\n"):
            if piece.strip():
                yield number, None, piece, _NONE
        return
    for record in data if isinstance(data, list) else [data]:
        if isinstance(record, dict):
            fields = _flat(record)
            message = next((fields[k] for key in _MESSAGE_KEYS for k in (key, f"fields.{key}") if fields.get(k)), None)
            rank = fields.get("span.rank") or fields.get("rank")
            if message is None:
                yield number, None, content, fields
                continue
            process = fields.get("processName")
            named = f"({process} pid={fields.get('process', '0')}) " if process and process.isidentifier() else ""
            for piece in message.split("\n"):
                for _, inner, opened, deeper in _opened(piece, number, nesting - 1):
                    said = inner or (f"rank {rank}" if rank else None)
                    yield number, said, opened if "pid=" in opened[:80] else named + opened, deeper or fields


def _flat(record: dict[str, Any]) -> dict[str, str]:
    """A record's words and numbers, those one level down as `outer.inner`."""
    found: dict[str, str] = {}
    for key, value in record.items():
        inner = value.items() if isinstance(value, dict) else ()
        pairs = [(f"{key}.{name}", word) for name, word in inner] or [(key, value)]
        found.update({name: str(word) for name, word in pairs if isinstance(word, str | int | float)})
    return found


def _logfmt(content: str) -> dict[str, str]:
    """The pairs of a logfmt line; quotes taken off and escapes undone."""
    found: dict[str, str] = {}
    for plain, quoted, value in _PAIR.findall(content):
        if value.startswith('"'):
            value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        found.setdefault(plain or quoted, value)
    return found
