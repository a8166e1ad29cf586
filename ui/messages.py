"""What the page says when something is wrong: one message a fault, and text from outside never taken as Markdown."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from planner.errors import EngineRefusal, InputError, PlannerError
from ui.i18n import t, texts
from ui.words import said

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|>~:$<&])")
_MAX_LENGTH = 600
#: Chinese characters and their punctuation come after this one.
_CHINESE = "\u2e80"
_LOG = logging.getLogger(__name__)


def plain(text: object) -> str:
    """`text` for a place that takes Markdown: on one line, of bounded length, every special character escaped."""
    line = " ".join(str(text).split())
    line = "".join(c for c in line if c.isprintable())
    if len(line) > _MAX_LENGTH:
        line = line[:_MAX_LENGTH] + "…"
    return _MARKDOWN.sub(r"\\\1", line)


def sentence(text: str) -> str:
    """A message of the planner as a sentence: a capital first, the full stop of its script last."""
    text = text.strip()
    if not text:
        return text
    first = text.split(maxsplit=1)[0]
    keep = first != first.lower() or not first.isalpha()  # a model id or a field keeps its own spelling
    text = text if keep else text[0].upper() + text[1:]
    stop = "。" if any(c > _CHINESE for c in text) else "."
    return text if text[-1] in ".!?…。！？" else text + stop


def told(problem: PlannerError) -> str:
    """What was wrong and what would be right, as text: by the error's code, with the planner's own English behind it."""
    detail = sentence(problem.message)
    return plain(said(f"error.{problem.code}", detail, detail=detail))


def hint(error: PlannerError) -> str:
    """What to do about an error: by its code, else by the code's first word, else nothing."""
    for key in (f"hint.{error.code}", f"hint.{error.code.split('.')[0]}"):
        if key in texts():
            return t(key)
    return ""


def error(problem: PlannerError, title: str | None = None) -> None:
    """One box that says what was wrong and what would be right. A refusal is a warning: the planner's own figure stands."""
    body = "  \n".join(part for part in (told(problem), hint(problem)) if part)
    if isinstance(problem, EngineRefusal):
        st.warning(body, icon=":material/block:", title=title or t("error.refused", engine=t("error.some_engine")))
    else:
        st.error(body, icon=":material/error:", title=title or t("error.title"))


def engine_error(problem: PlannerError, engine: str) -> None:
    """One box that says why an engine has no answer, and that the architecture's stands. Its refusal is no error of the page."""
    body = "  \n".join((told(problem), t("hint.engine")))
    if isinstance(problem, EngineRefusal):
        st.warning(body, icon=":material/block:", title=t("error.refused", engine=engine))
    elif isinstance(problem, InputError):
        st.error(body, icon=":material/error:", title=t("error.settings", engine=engine))
    else:
        st.error(body, icon=":material/error:", title=t("error.engine", engine=engine))


@contextmanager
def guarded() -> Iterator[None]:
    """A part of the page that may fail alone: the message stands in its place, the log says what a visitor must not see."""
    try:
        yield
    except PlannerError as problem:
        error(problem)
    except Exception:
        _LOG.exception("a part of the page could not be drawn")
        st.error(t("error.part"), icon=":material/error:")


def ignored(values: dict[str, str]) -> None:
    """Say which values of a shared link could not be used and what stands in their place."""
    if values:
        listed = ", ".join(f"{plain(name)} = {plain(value[:40])}" for name, value in values.items())
        st.warning(t("error.url", values=listed), icon=":material/link_off:")
