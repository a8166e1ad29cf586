"""Command lines and settings as text: flags of a program, `name=value` of a printed object, read one by one and never evaluated.

A paste cuts them anywhere, so that nothing here expects an end.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from validation.logs.lines import Line

#: A command's flags are read from at most this much text, and from so many lines that a backslash joins.
_MOST: Final = 20_000
_MOST_LINES: Final = 200
_QUOTED: Final = r"'(?:[^'\\]|\\.){0,2000}'|\"(?:[^\"\\]|\\.){0,2000}\""
_VALUE: Final = (
    rf"(?:{_QUOTED}|-?\d[\d_]{{0,18}}(?:\.\d{{1,20}})?(?:[eE]-?\d{{1,3}})?|True|False|None|true|false|null)(?=[,)}}\s\]]|$)"
)
_WORDS: Final[dict[str, Any]] = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}


@dataclass(frozen=True)
class Command:
    """A program as it was started: its flags (True for one without a value), and its other words."""

    program: str
    flags: dict[str, str | bool] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    line: int = 0


def commands(lines: Sequence[Line], program: re.Pattern[str]) -> Iterator[Command]:
    """The commands whose program matches, lines that end in a backslash put together."""
    for at, line in enumerate(lines):
        match = program.search(line.text)
        if match is None:
            continue
        text = line.text[match.start() :]
        for after in lines[at + 1 : at + 1 + _MOST_LINES]:
            if not text.rstrip().endswith("\\") or len(text) > _MOST:
                break
            text = text.rstrip()[:-1] + " " + after.text
        yield _command(match[0], text[len(match[0]) : _MOST], line.number)


def _command(program: str, text: str, number: int) -> Command:
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that the paste cut
        words = text.replace('"', " ").replace("'", " ").split()
    flags: dict[str, str | bool] = {}
    plain = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not re.fullmatch(r"--?[A-Za-z][\w.-]{0,80}(?:=.*)?", word, re.DOTALL):
            plain.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if equals:
            flags[name] = value
        elif position < len(words) and not re.match(r"--?[A-Za-z]", words[position]):
            flags[name] = words[position]
            position += 1
        else:
            flags[name] = True
    return Command(program, flags, tuple(plain), number)


def value_of(text: str, name: str) -> Any:
    """The value of `name=..` or `'name': ..` in a printed object: a text, a number, True, False or None; None where it is cut."""
    match = re.search(rf"(?<![\w.])['\"]?{re.escape(name)}['\"]?(?:=|: ?)(?P<value>{_VALUE})", text)
    return plain_value(match["value"]) if match else None


def plain_value(text: str) -> Any:
    """A printed value without its quotes, as a number where it is one."""
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    if re.fullmatch(r"-?\d{1,19}\.\d{1,20}(?:[eE]-?\d{1,3})?", text):
        return float(text)
    return text


def whole(value: Any, least: int = 1) -> int | None:
    """A flag's value as a whole number from `least`, None where it is none."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).replace("_", "").replace(",", "")
    return int(text) if re.fullmatch(r"\d{1,15}", text) and int(text) >= least else None
