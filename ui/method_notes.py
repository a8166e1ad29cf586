"""The program's tables as a page shows them: each key of a YAML file with the comment above it, which explains its fields."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from planner.accelerators import cite

_KEY = re.compile(r"([\w-][\w .-]*):")
_FIELD = re.compile(r"#   (?! )(.+?)\s{2,}(\S.*)")
_SHORT_FIELD = re.compile(r"#   (?! )([\w*]+) (\S.*)")


@dataclass(frozen=True)
class Note:
    """A comment: its text, what it says of each field, and where the figures were read."""

    text: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Block:
    """One key of a file, its comment and its value."""

    key: str
    note: Note
    value: Any


@functools.cache
def table(package: str, path: str) -> tuple[Note, tuple[Block, ...]]:
    """The comment at a file's head, and its keys in order. A lone comment above the first key is the head's."""
    text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    values = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    values = _cited(values, values.get("sources") or {})
    groups: list[list[str]] = [[]]
    found: list[tuple[str, list[str]]] = []
    first: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            groups[-1].append(line)
        elif not line.strip():
            groups.append([])
        elif key := _KEY.match(line):
            groups = [group for group in groups if group]
            if not found:
                first = groups[0] if groups else []
                groups = groups[1:]
            found.append((key[1].strip("\"'"), groups[-1] if groups else []))
            groups = [[]]
    return note(first), tuple(Block(key, note(lines), values[key]) for key, lines in found if key in values)


def _cited(value: Any, sources: Mapping[str, str]) -> Any:
    """A value with the `$words` of its file's sources written out."""
    if isinstance(value, str):
        return cite(value, sources) if sources else value
    if isinstance(value, Mapping):
        return {key: _cited(one, sources) for key, one in value.items()}
    return [_cited(one, sources) for one in value] if isinstance(value, list) else value


def note(lines: Iterable[str]) -> Note:
    """A comment's lines taken apart: paragraphs, `#   field   meaning` lines with what they go on in, and `Source:`."""
    lines = list(lines)
    listed = any(_FIELD.fullmatch(line) for line in lines)
    text: list[str] = []
    fields: list[tuple[str, str]] = []
    source: list[str] = []
    into = text
    for line in lines:
        field = _FIELD.fullmatch(line) or (_SHORT_FIELD.fullmatch(line) if listed else None)
        said = line.lstrip("#").strip()
        if re.match(r"Sources?\b[^:]*: ", said):
            into = source
        if field and into is not source:
            fields.append((field[1], re.sub(r"\s+", " ", field[2])))
        elif listed and fields and line.startswith("#     ") and into is not source:
            between = "; " if re.match(r"[\w`]+: ", said) and fields[-1][1][-1] not in ";," else " "
            fields[-1] = fields[-1][0], f"{fields[-1][1]}{between}{said}"
        elif said:
            into.append(said)
    told, *more = re.split(r"(?<!\S)Sources?: ", re.sub(r"[;,]? ?\b[Tt]he fields of a row:", "", " ".join(text)))
    read = re.sub(r"^Sources?( of every row)?: ", "", " ".join(source))
    return Note(told.strip(), tuple(fields), " ".join((*more, read)).strip())


def flat(value: Any) -> str:
    """A value in one line, as its file could have written it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        plain = _plain(value)
        return str(yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)).strip()
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def rows(value: Any) -> list[dict[str, str]] | None:
    """A list or a map of like rows, or of lists of them, as a table with all their fields; None for another value."""
    def maps(several: Iterable[Any]) -> bool:
        return all(isinstance(one, Mapping) for one in several)

    if not value or not isinstance(value, Mapping | list):
        return None
    if isinstance(value, list):
        found = [dict(one) for one in value] if maps(value) else []
    elif maps(value.values()):
        found = [{"": str(name), **one} for name, one in value.items()]
    elif all(isinstance(several, list) and maps(several) for several in value.values()):
        found = [{"": str(name), **one} for name, several in value.items() for one in several]
    else:
        found = []
    if not found:
        return None
    columns = list(dict.fromkeys(key for one in found for key in one))
    return [{str(key): flat(one.get(key)) for key in columns} for one in found]
