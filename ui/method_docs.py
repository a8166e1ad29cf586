"""Docstrings as parts of a page: formulas as code, what explains them as text, sources in small print with their links."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from ui import messages

#: Docstrings are filled to about this width, so that a line which ends well before it was meant to end there.
_FILLED = 117
_FORMULA = re.compile(r"[A-Za-z_][\w ()/,-]{0,40} = \S")
#: Two hyphens would be drawn as a dash.
_FLAG = re.compile(r"(?<![\w-])(--[a-z][\w-]*)")
_URL = re.compile(r"https?://[^\s,;)>\]]*[^\s,;)>\].]|arXiv \d{4}\.\d{4,5}")


@dataclass(frozen=True)
class Piece:
    """One line of a docstring's meaning, on however many lines it was written."""

    kind: Literal["formula", "text", "small"]
    text: str


def pieces(doc: str) -> list[Piece]:
    """A docstring taken apart. A formula ends where its first sentence does; `Source:` and `Errors:` are small print."""
    found = [piece for paragraph in doc.split("\n\n") for line in _lines(paragraph) for piece in _taken_apart(line)]
    return [
        Piece("text", _sentence(piece.text, after.kind == "formula")) if piece.kind == "text" else piece
        for piece, after in itertools.pairwise([*found, Piece("text", "")])
    ]


def _sentence(text: str, cut_off: bool) -> str:
    """A text as a sentence; one that goes on in the formula after it ends in a colon."""
    whole = messages.sentence(text)
    return whole[:-1] + ":" if cut_off and not text.endswith((".", ")")) else whole


def _lines(paragraph: str) -> Iterator[str]:
    """The lines that were meant as lines: one that was full goes on in the next."""
    kept = last = ""
    for line in (line.strip() for line in paragraph.splitlines() if line.strip()):
        full = len(last) + 1 + len(line.split()[0]) > _FILLED if kept else True
        if kept and not full and re.match(r"\w[\w ,()]*( = |: )|- |\* ", line):
            yield kept
            kept = ""
        kept, last = f"{kept} {line}".strip(), line
    if kept:
        yield kept


def _taken_apart(line: str) -> Iterator[Piece]:
    said, *small = re.split(r"(?<!\S)(?=(?:Sources?|Errors): )", line)
    while _FORMULA.match(said):
        formula, *rest = re.split(r"(?<!\d)[.:;] ", said, maxsplit=1)
        yield Piece("formula", formula.rstrip(" .").replace("`", ""))
        said = rest[0] if rest else ""
    if said.strip():
        yield Piece("text", said.strip())
    for text in small:
        yield Piece("small", text.strip())


def draw(doc: str) -> None:
    """A docstring on the page; formulas that follow each other share one box."""
    formulas: list[str] = []
    for piece in [*pieces(doc), Piece("text", "")]:
        if piece.kind == "formula":
            formulas.append(piece.text)
            continue
        if formulas:
            st.code("\n".join(formulas), language=None, wrap_lines=True)
            formulas = []
        if piece.kind == "small":
            st.markdown(f":small[{sourced(piece.text)}]")  # a caption's grey is too pale for so many lines
        elif piece.text:
            st.markdown(marked(piece.text))


def of(thing: Any) -> str:
    """The docstring of a function, class or module, without its indentation."""
    return inspect.getdoc(thing) or ""


def marked(text: str) -> str:
    """A docstring's text as Markdown: what stands between backticks, and a flag, is code; nothing else is more than text."""
    text = "`".join(piece if i % 2 else _FLAG.sub(r"`\1`", piece) for i, piece in enumerate(text.split("`")))
    return "`".join(piece if i % 2 else _escaped(piece) for i, piece in enumerate(text.split("`")))


def sourced(text: str) -> str:
    """The same with its web addresses, and papers on arXiv, as links."""
    found, place = "", 0
    for match in _URL.finditer(text):
        address = match[0] if match[0].startswith("http") else f"https://arxiv.org/abs/{match[0].split()[1]}"
        found += marked(text[place : match.start()]) + f"[{_escaped(match[0])}]({address})"
        place = match.end()
    return found + marked(text[place:])


def breakable(text: str) -> str:
    """The same text, whose long names of classes may go on in the next line of a narrow column."""
    return re.sub(r"\w{20,}", lambda word: re.sub(r"(?<=[a-z])(?=[A-Z])", "\u200b", word[0]), text)


def _escaped(text: str) -> str:
    """`messages.plain` of a piece of a line, which keeps the blanks at its ends."""
    left, right = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return (left and " ") + messages.plain(text) + (right and " " if text.strip() else "")
