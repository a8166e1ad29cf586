"""Choosing an engine, its version and its settings. What was chosen for one engine moves to the next where that has it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.engines.base import Engine, EngineSettings
from planner.errors import PlannerError
from ui import messages
from ui.engine_dtypes import settings_for, word_of
from ui.engine_fields import ARCHITECTURE, IN_SIGHT, LABELS, NEWEST, OPTIONS, Field, engine_of, fields, key, versions
from ui.i18n import t
from ui.link import bind

#: Settings that keep their meaning from engine to engine, by the word that IN_SIGHT has for them.
_MOVES = ("tp", "length")


@dataclass(frozen=True)
class Choice:
    """The engine of the page. settings: None for the architecture alone, and where they cannot be right (`problem` says why).

    word: how keys and values are stored, in the architecture's words; None where it has none for it.
    """

    option: str
    settings: EngineSettings | None = None
    word: str | None = "auto"
    problem: PlannerError | None = None

    @property
    def engine(self) -> Engine:
        return engine_of(self.option)

    @property
    def label(self) -> str:
        return LABELS[self.option]

    @property
    def tensor_ranks(self) -> int:
        """Ranks that each layer is split over."""
        return int(getattr(self.settings, IN_SIGHT.get(self.option, {}).get("tp", ""), 1))

    @property
    def ranks(self) -> int:
        """GPUs that hold one copy of the model together."""
        return self.tensor_ranks * int(getattr(self.settings, "pipeline_parallel_size", 1))


def link_keys() -> tuple[str, ...]:
    """Every name that a link may use for an engine's settings."""
    names = [key(option, name) for option in OPTIONS if option != ARCHITECTURE for name in ("version", *fields(option))]
    return ("engine", *names)


def prepare_link() -> None:
    """A link may name only a transformers setting, or a KV dtype in the architecture's words: give them to their engine."""
    link: dict[str, str] = st.session_state.link
    if "engine" in st.session_state:
        return
    asked = link.get("engine", "transformers" if "cache" in link else ARCHITECTURE)
    if asked not in OPTIONS or asked == ARCHITECTURE:
        return
    st.session_state.engine = asked
    if "kv" in link:
        _give(asked, link["kv"])
        if settings_for(asked, link["kv"]) is None:
            st.session_state.link_lost = {"kv": link["kv"]}


def choose_engine(where: DeltaGenerator) -> str:
    """The engine, by its own name."""
    chosen = where.selectbox(
        t("input.engine"), OPTIONS, key="engine", bind="query-params", on_change=_changed, help=t("input.engine.help")
    )
    return chosen or ARCHITECTURE


def _changed() -> None:
    """Carry the KV dtype and what else keeps its meaning over to the engine that was just chosen."""
    option, last = st.session_state.engine or ARCHITECTURE, st.session_state.get("engine_last", {})
    if last.get("word"):
        _give(option, last["word"])
    for role in _MOVES:
        name = IN_SIGHT.get(option, {}).get(role)
        if name and last.get(role) is not None:
            st.session_state[key(option, name)] = last[role]


def _give(option: str, word: str) -> None:
    if option == ARCHITECTURE:
        st.session_state.kv = word
        return
    for name, value in (settings_for(option, word) or {}).items():
        st.session_state[key(option, name)] = value


def choose_version(option: str, where: DeltaGenerator) -> str | None:
    """The engine's version; None for the newest where the engine's settings leave it open."""
    known = versions(option)
    dates = engine_of(option).VERSIONS
    told = ", ".join(f"{version} ({dates[version]})" if version in dates else version for version in known)
    chosen = where.selectbox(
        t("input.version"), known, key=key(option, "version"), bind="query-params", accept_new_options=True,
        help=t("input.version.help", engine=LABELS[option], versions=messages.plain(told)),
    )  # fmt: skip
    return None if chosen in (None, NEWEST) else str(chosen)[:40]


def choose_settings(option: str, version: str | None) -> Choice:
    """The engine's settings: the common ones in sight, the rest behind a click."""
    every, values = fields(option), dict[str, Any]()
    shown = IN_SIGHT[option]
    grid = st.grid(4, min_column_width=150)
    for role, name in shown.items():
        values[name] = _input(grid, option, every[name], t(f"field.{role}"))
    rest = [field for name, field in every.items() if name not in shown.values()]
    with st.expander(t("input.settings", engine=LABELS[option]), icon=":material/tune:", key=f"more_{option}"):
        st.caption(t("input.settings.help"))
        grid = st.grid(4, min_column_width=200)
        for field in rest:
            values[field.name] = _input(grid, option, field, "")
    values = {name: value for name, value in values.items() if value is not None and value != every[name].default}
    if version is not None:
        values["version"] = version
    if option == "ollama":
        values["front_end"] = "ollama"
    try:
        settings = engine_of(option).Settings(**values)
    except PlannerError as problem:
        return Choice(option, None, None, problem)
    choice = Choice(option, settings, word_of(option, settings.model_dump()))
    carried = {role: getattr(settings, shown[role]) for role in _MOVES if role in shown}
    st.session_state.engine_last = {"word": choice.word, **carried}
    return choice


def remember_word(word: str) -> None:
    """The architecture's KV dtype, for the engine that may be chosen next."""
    st.session_state.engine_last = {"word": word}


def _input(where: DeltaGenerator, option: str, field: Field, words: str) -> Any:
    """One setting's input. Its label has the engine's own name for it; None where it is left to the engine."""
    name = f"`{field.flag}`"
    label = f"{words} {name}" if words else name
    common: dict[str, Any] = {"key": key(option, field.name), "bind": bind(key(option, field.name))}
    unset = t("input.unset")
    if field.kind == "switch":
        return where.toggle(label, value=field.default, **common)
    if field.kind == "three_way":
        picked = where.segmented_control(label, ("on", "off"), help=t("input.three_way.help"), **common)
        return None if picked is None else picked == "on"
    if field.kind == "choice":
        index = field.choices.index(field.default) if field.default in field.choices else None
        return where.selectbox(label, field.choices, index=index, placeholder=unset, **common)
    if field.kind == "number":
        step = 1 if field.number is int else 0.01
        default = field.default if field.default is None else field.number(field.default)
        return where.number_input(
            label, min_value=field.low, max_value=field.high, value=default, step=step, placeholder=unset, **common
        )
    return (where.text_input(label, max_chars=60, placeholder=unset, **common) or "").strip() or None
