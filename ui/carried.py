"""What goes with a person from page to page: the question that all pages speak of, in each page's own inputs.

Streamlit itself keeps an input that is tied to the link, and puts it back into the link, when its page is opened again; a value
that was given to such an input while another page was shown counts as kept. So what a person changes on one page is given to
the inputs of the others as soon as it is drawn there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from model_configs import catalogue
from planner import hardware
from planner.errors import PlannerError
from ui.engine_fields import ARCHITECTURE, OPTIONS
from ui.inputs import gpu_name

State = Mapping[str, Any]
#: What all pages speak of. gpu: a display name, or an amount of memory; model: the text of the model box.
ROLES = ("model", "gpu", "engine", "tokens", "requests")
#: Tokens of an answer where a length comes from a page that does not tell prompt and answer apart.
_ANSWER = 1_024
_MOST_PICKED = 12


@dataclass(frozen=True)
class Page:
    """How a page says a role. keys: its input for a role of the same form; read, write: of those of another form.

    A writer gives the inputs to set, an empty dict where the page cannot say it.
    """

    keys: dict[str, str] = field(default_factory=dict)
    read: dict[str, Callable[[State], Any]] = field(default_factory=dict)
    write: dict[str, Callable[[State, Any], dict[str, Any]]] = field(default_factory=dict)

    def said(self, state: State) -> dict[str, Any]:
        """The roles that this page's inputs say now."""
        found = {role: state[key] for role, key in self.keys.items() if state.get(key) is not None}
        found |= {role: value for role, get in self.read.items() if (value := get(state)) is not None}
        return found

    def inputs(self, state: State, role: str, value: Any) -> dict[str, Any]:
        """The inputs that say this role's value here."""
        if role in self.write:
            return self.write[role](state, value)
        return {self.keys[role]: value} if role in self.keys else {}


def _one_gpu(state: State) -> str | None:
    """The kind of GPU of a machine that has one kind."""
    text = str(state.get("node") or "")
    if not text or any(gpu.name == text for gpu in hardware.gpus()):
        return text or None
    try:
        kinds = {gpu.name for gpu in hardware.node(text[:100]).gpus}
    except PlannerError:
        return None
    return kinds.pop() if len(kinds) == 1 else None


def _length(state: State) -> int | None:
    """Prompt and answer together, where lengths do not vary and are not the engine's own limit."""
    if state.get("fill") or state.get("vary", "fixed") != "fixed" or state.get("prompt") is None:
        return None
    return max(1, int(state["prompt"]) + int(state.get("output") or 0))


def _prompt(state: State, tokens: int) -> dict[str, Any]:
    """A length as prompt and answer. Lengths that vary, and the engine's own limit, stay as they are."""
    if state.get("fill") or state.get("vary", "fixed") != "fixed":
        return {}
    answer = min(int(state.get("output", _ANSWER)), tokens - 1)
    return {"prompt": tokens - answer, "output": answer}


def _picked(key: str, known: Callable[[Any], bool]) -> Callable[[State, Any], dict[str, Any]]:
    """A list of several: what is spoken of comes first."""

    def write(state: State, value: Any) -> dict[str, Any]:
        if not known(value):
            return {}
        return {key: [value, *(one for one in state.get(key) or () if one != value)][:_MOST_PICKED]}

    return write


def _in_catalogue(value: Any) -> bool:
    return catalogue.find(str(value)) is not None


def _own(key: str) -> Callable[[State, Any], dict[str, Any]]:
    """A box that has the catalogue's models alone."""
    return lambda state, value: {key: value} if _in_catalogue(value) else {}


def _known_gpu(key: str) -> Callable[[State, Any], dict[str, Any]]:
    """A box that has the GPUs of the table alone."""

    def write(state: State, value: Any) -> dict[str, Any]:
        name = gpu_name(str(value))
        return {key: name} if any(gpu.name == name for gpu in hardware.gpus()) else {}

    return write


def _engine(key: str, *without: str) -> Callable[[State, Any], dict[str, Any]]:
    return lambda state, value: {key: value} if value in OPTIONS and value not in without else {}


PAGES: dict[str, Page] = {
    "plan": Page({role: role for role in ROLES}),
    "capacity": Page(
        {"model": "model", "requests": "load"},
        {"gpu": _one_gpu, "engine": lambda state: state.get("server"), "tokens": _length},
        {"gpu": lambda state, value: {"node": value}, "engine": _engine("server", ARCHITECTURE), "tokens": _prompt},
    ),
    "learn": Page(
        {"model": "learn_model", "gpu": "learn_gpu"}, {}, {"model": _own("learn_model"), "gpu": _known_gpu("learn_gpu")}
    ),
    "validate": Page({}, {}, {"model": _own("validate_model")}),
    "compare": Page(
        {"tokens": "length", "requests": "at_once"},
        {},
        {
            "model": _picked("models", _in_catalogue), "gpu": _picked("cards", lambda value: True),
            "engine": _picked("engines", lambda value: value != ARCHITECTURE),
        },
    ),
}  # fmt: skip


def share(path: str) -> None:
    """After a page was drawn: give what was changed on it to the inputs of the other pages. A page's own defaults change nothing
    that was said on another.
    """
    state, page = st.session_state, PAGES.get(path)
    opened, state.page = state.get("page") != path, path
    if page is None:
        return
    said = page.said(state)
    if opened and "page_said" in state:
        state.page_said = said
        return
    before, state.page_said = state.get("page_said", {}), said
    for role, value in said.items():
        if before.get(role) == value:
            continue
        for name, other in PAGES.items():
            if name != path:
                for key, new in other.inputs(state, role, value).items():
                    if key not in page.keys.values():
                        state[key] = new
