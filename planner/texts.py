"""What the planner says in sentences of its own: by a code with values, so that a page can say it in another language.

`Told` is a str, the English sentence, that remembers its code; it goes wherever a text goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planner.texts_notes import NOTES
from planner.texts_sources import SOURCES

TEXTS: dict[str, str] = {**NOTES, **SOURCES}


class Told(str):
    """A sentence with its code and what fills it in; a value may be such a sentence itself."""

    code: str
    values: Mapping[str, Any]

    def __new__(cls, text: str, code: str = "", values: Mapping[str, Any] | None = None) -> Told:
        made = super().__new__(cls, text)
        made.code, made.values = code, values or {}
        return made


def tell(code: str, /, **values: Any) -> Told:
    """The sentence of a code. KeyError for a code that there is none of."""
    return Told(TEXTS[code].format(**values), code, values)


_BY_TEXT = {text: code for code, text in SOURCES.items() if "{" not in text}


def recognised(text: str) -> str:
    """A sentence that stands in a table, with its code where it has one."""
    return Told(text, _BY_TEXT[text]) if text in _BY_TEXT else text


def joined(texts: Iterable[str]) -> str:
    """Several sentences in one, each once: "first; second"."""
    found = ""
    for text in dict.fromkeys(one for one in texts if one):
        found = tell("both", first=found, second=text) if found else text
    return found
