"""What the Method page's sections are made of: choices that the link carries, tables to search and save, comments."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from ui import link_choice, messages
from ui.i18n import t
from ui.method_docs import marked, sourced
from ui.method_notes import Block, Note, flat, rows, table

#: Rows that are read at a glance; a longer table is searched.
_FEW = 12
#: Columns that a phone has room for; a wider table scrolls by itself.
_NARROW = 3


def choice(name: str, title: str, codes: Sequence[str], label: Callable[[str], str]) -> str:
    """One of `codes`, which the link carries under `name`; the first is the default."""
    link_choice.settle(name, link_choice.one_of(*codes), codes[0])
    picked = st.segmented_control(
        title, codes, key=name, format_func=label, label_visibility="collapsed", required=True
    )
    link_choice.write(name, str(picked), codes[0])
    return str(picked)


def forget(*names: str) -> None:
    """Choices of another section, which the link carries no more."""
    for name in names:
        link_choice.write(name, "", "")


def go(label: str, key: str, **choices: str) -> None:
    """A button that leads to another place of this page."""
    def turn() -> None:
        for name, value in choices.items():
            st.session_state[name] = value

    st.button(label, key=f"go_{key}", type="tertiary", icon=":material/arrow_forward:", on_click=turn)


def found(lines: list[dict[str, Any]], name: str, beside: Any = st) -> list[dict[str, Any]]:
    """The rows that have what is typed into a box above them, in any cell. beside: where the box is put."""
    asked = beside.text_input(
        t("method.find"), key=f"find_{name}", placeholder=t("method.find.hint"), icon=":material/search:", type="search",
        live="300ms", max_chars=100, width=420, label_visibility="collapsed",
    )  # fmt: skip
    wanted = (asked or "").casefold().split()
    kept = [line for line in lines if all(word in " ".join(map(str, line.values())).casefold() for word in wanted)]
    if wanted:
        text = t("method.found", count=len(kept), all=len(lines)) if kept else t("method.found.none", text=messages.plain(asked))
        st.caption(text)
    return kept


def save(lines: list[dict[str, Any]], name: str) -> None:
    """A button that saves rows as CSV, under the columns that are shown."""
    st.download_button(
        t("method.csv"), lambda: as_csv(lines), f"{name}.csv", "text/csv", key=f"csv_{name}", on_click="ignore",
        icon=":material/download:",
    )  # fmt: skip


def as_csv(lines: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: flat(value) for key, value in line.items()} for line in lines)
    return text.getvalue()


def listed(lines: list[dict[str, Any]], name: str, alt: str, **options: Any) -> None:
    """A table that scrolls, with a button that saves what is shown and, where it is long, a box that finds rows."""
    kept = found(lines, name) if len(lines) > _FEW else lines
    if kept:
        st.dataframe(kept, hide_index=True, height="content" if len(kept) <= _FEW else 430, alt=alt, **options)
        save(kept, name)


def small(lines: list[dict[str, str]], alt: str) -> None:
    """A few rows whose cells are Markdown."""
    st.table(lines, border="horizontal", hide_index=True, alt=alt)


def comment(note: Note, name: str) -> None:
    """What a table's own comment says: its text, where it was read, and what its fields mean."""
    if note.text:
        st.markdown(marked(note.text))
    source(note.source)
    if note.fields:
        with st.expander(t("method.fields"), key=f"fields_{name}"):
            meanings(note.fields)


def source(text: str) -> None:
    """Where something was read, in small print."""
    if text:
        st.markdown(f":small[{t('method.pair', name=t('method.source'), text=sourced(text))}]")


def meanings(fields: Sequence[tuple[str, str]]) -> None:
    small(
        [{t("method.field"): f"`{name}`", t("method.meaning"): marked(text)} for name, text in fields], t("method.fields")
    )


def block(one: Block, name: str) -> None:
    """One key of a table's file: its comment, and its value as a table where it is rows."""
    comment(one.note, f"{name}_{one.key}")
    found_rows = rows(one.value)
    if found_rows is None:
        value(one.value)
        return
    lines = [{key or t("method.name"): cell for key, cell in line.items()} for line in found_rows]
    if len(lines) <= _FEW and len(lines[0]) <= _NARROW:
        small([{key: sourced(cell) for key, cell in line.items()} for line in lines], one.key)
    else:
        listed(lines, f"{name}_{one.key}", one.key)


def file(name: str, *apart: str) -> None:
    """A file of tables in planner/data, read when it is opened; without the keys in `apart`, which stand elsewhere."""
    head, blocks = table("planner", f"data/{name}")
    title = marked(head.text.partition(". ")[0].rstrip(".") or name)
    part = st.expander(f"{title} (`{name}`)", key=f"table_{name}", icon=":material/table:", on_change="rerun")
    if part.open:
        with part:
            comment(head, name)
            for one in blocks:
                if one.key not in apart:
                    st.markdown(f"**`{one.key}`**")
                    block(one, name)


def value(content: Any) -> None:
    """A value that is no rows: a map as a list of names with their values, a list of words as words, else as its file has it."""
    if isinstance(content, dict) and content:
        st.markdown("\n".join(f"- {t('method.pair', name=f'`{name}`', text=words(one))}" for name, one in content.items()))
    else:
        st.markdown(words(content))


def words(content: Any) -> str:
    """A value as Markdown: words and numbers as code."""
    if isinstance(content, list) and content and all(isinstance(one, str | int | float) for one in content):
        return ", ".join(f"`{one}`" for one in content)
    text = flat(content)
    return f"`{text}`" if text and "`" not in text else messages.plain(text)


def status(word: str) -> str:
    """How a figure of a GPU is known."""
    return t(f"method.status.{word}")
