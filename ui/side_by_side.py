"""All engines at once: what each would allocate for this workload with its default settings."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import streamlit as st

from planner.cache import CacheBytes
from planner.engines.base import allocated
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model
from ui import format as fmt
from ui import messages
from ui.answer import requests_text
from ui.engine_dtypes import settings_for
from ui.engine_fields import ARCHITECTURE, LABELS, OPTIONS, engine_of
from ui.i18n import t

SHOWN = tuple(option for option in OPTIONS if option != ARCHITECTURE)


@dataclass(frozen=True)
class Row:
    """One engine's answer: its bytes, or why there are none. requests: how many it holds at once, which may be fewer than
    were asked for. word_known: False where it has no such KV dtype."""

    option: str
    total_bytes: int | None
    requests: int
    refusal: str = ""
    word_known: bool = True


def compare(model: Model, word: str, tokens: int, requests: int, encoder_tokens: int, gpu: Gpu | None) -> list[Row]:
    """Each engine with its defaults, keys and values stored as `word` where it can."""
    rows = []
    for option in SHOWN:
        engine, values = engine_of(option), settings_for(option, word)
        own = {"front_end": "ollama"} if option == "ollama" else {}
        try:
            settings = engine.Settings(**own, **(values or {}))
            cache = allocated(model, engine, settings, tokens, requests, gpu, encoder_tokens)
            rows.append(Row(option, cache.total_bytes, cache.requests, word_known=values is not None))
        except PlannerError as problem:
            rows.append(Row(option, None, requests, messages.sentence(problem.message), values is not None))
    return rows


@st.cache_data(max_entries=512, show_spinner=False)
def _kept(
    identity: str, _model: Model, word: str, tokens: int, requests: int, encoder_tokens: int, gpu: str, _gpu: Gpu | None
) -> list[Row]:
    return compare(_model, word, tokens, requests, encoder_tokens, _gpu)


def identity(model: Model) -> str:
    """A text that is the same for the same model only: a Hub commit or a catalogue entry, else the content of the config."""
    own = f"{model.source}|{model.assumption or ''}"
    if model.source.kind == "catalogue" or (model.source.kind == "hub" and model.source.commit):
        return own
    content = repr((model.name, model.dtype, model.layers, model.engine_layers, model.config))
    return f"{own}|{hashlib.sha256(content.encode()).hexdigest()}"


def show(model: Model, plain: CacheBytes, word: str | None, gpu: Gpu | None) -> None:
    """The engines in a table, the architecture's figure being what each is compared with."""
    st.header(t("engines.title"), anchor=False)
    used = word or "auto"
    rows = _kept(
        identity(model), model, used, plain.tokens, plain.requests, plain.encoder_tokens, gpu.id + gpu.name if gpu else "", gpu
    )
    known = [row.total_bytes for row in rows if row.total_bytes is not None]
    unit, scale = fmt.unit(max([plain.total_bytes, *known]))
    own = {
        t("engines.column.engine"): t("engines.architecture"),
        t("engines.column.total", unit=unit): f"{plain.total_bytes / scale:,.2f}",
        t("engines.column.request"): fmt.size(plain.bytes_per_request),
        t("engines.column.difference"): "",
    }
    lines = [own, *(_line(row, plain, unit, scale) for row in rows)]
    st.table(lines, border="horizontal", hide_index=True, alt=t("engines.alt", model=model.name))
    text = "engines.note.auto" if used == "auto" else "engines.note"
    notes = [t(text, dtype=used), "" if word is not None else t("engines.note.no_word"), t("engines.documented")]
    st.caption(" ".join(note for note in notes if note))


def _line(row: Row, plain: CacheBytes, unit: str, scale: int) -> dict[str, str]:
    notes = [] if row.word_known else [t("engines.no_dtype")]
    if row.total_bytes is None:
        total = each = "–"
        notes = [messages.plain(row.refusal)]
    else:
        change = row.total_bytes - plain.total_bytes
        sign = "+" if change > 0 else "−"
        total, each = f"{row.total_bytes / scale:,.2f}", fmt.size(row.total_bytes // row.requests)
        if row.requests != plain.requests:
            notes.append(t("engines.requests", requests=requests_text(row.requests)))
        notes.insert(0, sign + fmt.size(abs(change)) if change else t("engines.same"))
    return {
        t("engines.column.engine"): LABELS[row.option],
        t("engines.column.total", unit=unit): total,
        t("engines.column.request"): each,
        t("engines.column.difference"): "; ".join(notes),
    }
