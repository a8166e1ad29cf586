"""Versions of an engine on the Method page: which rules hold from which release on, its date, and where they were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import streamlit as st

from planner.engines import ENGINES
from planner.engines import versions as tables
from ui import method_notes, method_parts
from ui.i18n import t
from ui.method_docs import marked, sourced

#: A file that has nothing but version rows.
OWN_FILE = "vllm_versions.yaml"
#: The file and the key of each engine's version rows; transformers has one version whose rules are its code.
TABLES = {
    "vllm": (OWN_FILE, "versions"), "sglang": ("sglang.yaml", "versions"),
    "tensorrt-llm": ("tensorrt_llm.yaml", "versions"), "tgi": ("tgi.yaml", "versions"), "llama.cpp": ("llama_cpp.yaml", "eras"),
}  # fmt: skip
#: Fields that say what a row is, not what it changes.
_HEAD = {"from", "since", "build", "date", "facts", "name", "source", "checked", "commits", "pypi"}


@dataclass(frozen=True)
class Change:
    """A row: the first release it holds for, the first that it does not (none for the newest), what changed, what was read."""

    first: str
    until: str
    date: str
    said: str
    fields: Mapping[str, Any]
    read: str
    source: str


@cache
def changes(engine: str) -> tuple[Change, ...]:
    """The rows of an engine's version table, each with what differs from the row before."""
    if engine not in TABLES:
        return tuple(Change(first, "", date, "", {}, "", "") for first, date in ENGINES[engine].VERSIONS.items())
    file, key = TABLES[engine]
    rows = next(block.value for block in method_notes.table("planner", f"data/{file}")[1] if block.key == key)
    firsts = [_first(row) for row in rows]
    found, before = [], {}
    for row, first, until in zip(rows, firsts, [*firsts[1:], ""], strict=True):
        fields = {name: value for name, value in row.items() if name not in _HEAD and before.get(name) != value}
        if engine == "llama.cpp":  # its rows are whole: what one lacks is no longer so
            fields |= {name: None for name in before if name not in row and name not in _HEAD}
            before = row
        else:
            before = {**before, **row}
        read = ", ".join(str(one) for name in ("checked", "commits", "pypi") for one in row.get(name, ()))
        said = str(row.get("facts") or row.get("name") or "")
        found.append(Change(first, until, str(row["date"]), said, fields, read, str(row.get("source", ""))))
    return tuple(found)


def _first(row: Mapping[str, Any]) -> str:
    return f"b{row['build']}" if "build" in row else str(row.get("since") or row["from"])


def show(engine: str) -> None:
    found = changes(engine)
    last = newest(engine)
    st.markdown(t("method.versions.lead", count=len(found), last=last) if len(found) > 1 else t("method.versions.one", last=last))
    several = any(one.source or one.read for one in found)
    lines = [
        {t("method.versions.holds"): _range(one), t("method.versions.changes"): _told(one),
         **({t("method.source"): _source(one)} if several else {})}
        for one in reversed(found)
    ]  # fmt: skip
    if engine in TABLES:
        method_parts.small(lines, t("method.versions"))
        file, key = TABLES[engine]
        note, blocks = method_notes.table("planner", f"data/{file}")
        own = next(block.note for block in blocks if block.key == key)
        method_parts.source(own.source or note.source)
        with st.expander(t("method.fields"), key=f"version_fields_{engine}"):
            method_parts.meanings(own.fields or note.fields)


def newest(engine: str) -> str:
    """The last release whose rules were read."""
    if engine in ("sglang", "tensorrt-llm", "tgi"):
        return str(tables.table(engine)["read_up_to"])
    return list(ENGINES[engine].VERSIONS)[-1]


def _range(one: Change) -> str:
    """The releases that a row holds for, and the date of the first."""
    text = t("method.versions.range" if one.until else "method.versions.on", first=one.first, until=one.until)
    return f"{text}  \n:small[{one.date}]"


def _source(one: Change) -> str:
    """Where a row was read, and which versions' code was."""
    read = t("method.pair", name=t("method.versions.read"), text=one.read) if one.read else ""
    return "  \n".join(part for part in (sourced(one.source), f":small[{read}]" if read else "") if part)


def _told(one: Change) -> str:
    fields = ", ".join(f"`{name}: {method_notes.flat(value) or '–'}`" for name, value in one.fields.items())
    return "  \n".join(part for part in (marked(one.said), fields) if part)
