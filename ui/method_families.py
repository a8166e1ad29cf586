"""Families on the Method page: every row that reads a config or a GGUF file, found by the model type that it answers to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import streamlit as st

from model_configs import known
from model_configs.families import Family, table
from model_configs.gguf_words import GgufFamily
from model_configs.gguf_words import families as gguf_families
from ui import link_choice, method_family, method_parts, words
from ui.i18n import t
from validation import coverage_sweep

#: Before a GGUF architecture in a link, because many have the name of a model type.
GGUF = "gguf:"


@dataclass(frozen=True)
class Row:
    """A row of either table. names: what it answers to; others: wrappers and spellings that lead to it; engines: those that
    read it differently."""

    row: Family | GgufFamily
    file: str
    names: tuple[str, ...]
    others: tuple[str, ...]
    kinds: tuple[str, ...]
    engines: tuple[str, ...]

    @property
    def code(self) -> str:
        return self.names[0]


@cache
def all_rows() -> tuple[Row, ...]:
    """Every row of families.yaml, then every row of gguf_families.yaml."""
    found = []
    for family in table().families:
        types = [one for one in known.types() if one.family is family]
        names = {one.model_type for one in types}  # a tiny model keeps kinds that a class's defaults leave out
        tiny = [kind for row in coverage_sweep.read().rows if row.type in names for kind in row.kinds]
        kinds = dict.fromkeys([*(kind for one in types for kind in one.kinds), *tiny])
        others = tuple(one.model_type for one in types if one.model_type not in family.types)
        found.append(Row(family, "config.json", family.types, others, tuple(kinds), tuple(family.engines)))
    for gguf in {one.name: one for one in gguf_families().values()}.values():
        found.append(Row(gguf, "GGUF", tuple(f"{GGUF}{arch}" for arch in gguf.archs), (), gguf_kinds(gguf), ()))
    return tuple(found)


def gguf_kinds(row: GgufFamily) -> tuple[str, ...]:
    """Kinds of cache that a row of gguf_families.yaml can give, by its fields."""
    if row.cache == "none" or row.refused:
        return ("none",)
    base = "latent" if row.mla else "full"
    if row.finish == "deepseek4":
        return ("compressed",)
    found = [] if row.recurrent in ("all", "both") else [base]
    if row.window:
        found.append("chunked" if row.window.get("kind") == "chunked" else "sliding")
    if row.index:
        found.append("indexed")
    if row.recurrent:
        found.append(f"{base}+state" if row.recurrent == "both" else "state")
    return (*found, "shared") if row.shared else tuple(found)


@cache
def by_name() -> dict[str, Row]:
    """Rows by everything that they answer to."""
    return {name: row for row in all_rows() for name in (*row.names, *row.others)}


def show() -> None:
    st.header(t("method.families.title"), anchor=False)
    st.markdown(t("method.families.lead", rows=len(table().families), types=len(known.types()),
                  gguf=len({one.name for one in gguf_families().values()}), archs=len(gguf_families())))  # fmt: skip
    names = sorted(by_name(), key=str.casefold)
    link_choice.settle("family", lambda asked: asked if asked in by_name() else None, None)
    top = st.container(horizontal=True, vertical_alignment="bottom")
    picked = top.selectbox(
        t("method.families.which"), names, index=None, key="family", placeholder=t("method.families.which.hint"), width=420
    )
    link_choice.write("family", picked or "", "")
    if picked:
        row = by_name()[picked]
        top.button(t("method.families.all"), key="families_all", icon=":material/list:", on_click=_clear)
        method_family.show(row.row, picked.removeprefix(GGUF), row.kinds)
    else:
        _all(top)


def _clear() -> None:
    st.session_state.family = None


def _all(top: Any) -> None:
    """The whole table; a row that is clicked is opened. top: where the box that finds rows stands."""
    lines = [_line(row) for row in all_rows()]
    kept = method_parts.found(lines, "families", top)
    if not kept:
        return
    shown = [row for row, line in zip(all_rows(), lines, strict=True) if line in kept]

    def opened() -> None:
        picked = st.session_state.families_table.selection.rows
        if picked:
            st.session_state.family = shown[picked[0]].code

    st.caption(t("method.families.pick"))
    st.dataframe(
        kept, hide_index=True, height="content" if len(kept) < 12 else 560, key="families_table", on_select=opened,
        selection_mode="single-row", alt=t("method.families.title"),
    )  # fmt: skip
    method_parts.save(kept, "families")


def _line(row: Row) -> dict[str, Any]:
    return {
        t("method.families.name"): row.row.name, t("method.families.file"): row.file,
        t("method.families.types"): ", ".join(name.removeprefix(GGUF) for name in (*row.names, *row.others)),
        t("method.families.kinds"): ", ".join(words.kind(kind) for kind in row.kinds),
        t("method.families.engines"): ", ".join(row.engines), t("method.families.proof"): method_family.answer(row.row),
        t("method.families.by"): method_family.answered_by(row.row), t("method.source"): method_family.source(row.row),
    }  # fmt: skip
