"""The Method page: each kind of cache with the formula in its own docstring, so that text and code cannot part."""

from __future__ import annotations

import inspect
import re

import streamlit as st

from planner import layers
from planner.dtypes import FORMATS
from ui import messages, words
from ui.i18n import DEFAULT, language, t


def _kinds() -> list[type[layers.LayerCache]]:
    found = [value for _, value in inspect.getmembers(layers, inspect.isclass) if issubclass(value, layers.LayerCache)]
    return sorted((kind for kind in found if kind is not layers.LayerCache), key=lambda kind: inspect.getsourcelines(kind)[1])


def _marked(text: str) -> str:
    """A docstring's text as Markdown: what stands between backticks is code, nothing else is more than text."""
    return "`".join(piece if i % 2 else messages.plain(piece) for i, piece in enumerate(text.split("`")))


def _paragraph(text: str) -> None:
    """A docstring's paragraph: a formula as code with its explanation under it, a source as a caption, the rest as text."""
    line = " ".join(text.split())
    if line.startswith("Source:"):
        st.markdown(f":small[{_marked(line)}]")  # a caption's grey is too pale for so many lines
    elif " = " in line and line.split(" = ")[0].isidentifier():
        formula, *rest = re.split(r"(?<!\d)[.:;] ", line, maxsplit=1)
        st.code(formula.rstrip("."), language=None, wrap_lines=True)
        if rest:
            st.markdown(_marked(messages.sentence(rest[0])))
    else:
        st.markdown(_marked(line))


st.title(t("method.title"), anchor=False)
st.markdown(t("method.lead"))
seen: set[str] = set()
for kind in _kinds():
    st.header(f"{kind.__name__}: `{kind.kind}`", anchor=kind.__name__.lower())
    if language() != DEFAULT and kind.kind not in seen:  # the docstrings are English; a kind's own class is its first
        st.markdown(f"**{words.kind(kind.kind)}**  \n{words.kind_keeps(kind.kind)}")
    seen.add(kind.kind)
    for paragraph in (inspect.getdoc(kind) or "").split("\n\n"):
        _paragraph(paragraph)
st.header(t("method.formats"), anchor="formats")
st.table(
    [
        {
            t("method.format.name"): form.name,
            t("method.format.bits"): str(form.bits),
            t("method.format.scales"): t("method.format.group", bytes=form.group_bytes, group=form.group)
            if form.group
            else t("method.format.none"),
            t("method.format.source"): messages.plain(form.source),
        }
        for form in FORMATS.values()
    ],
    border="horizontal",
    hide_index=True,
    alt=t("method.formats.alt"),
)
