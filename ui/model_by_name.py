"""A model by the name that somebody typed: of the catalogue or of the Hub, never a path of the server."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from model_configs import catalogue, read
from planner.errors import PlannerError
from planner.model import Model
from ui.model_input import from_catalogue

MAX_LETTERS = 200
_ADDRESS = ("hub:", "https://huggingface.co/")


def model_of(name: str) -> tuple[Model, str]:
    """The model of a catalogue id or a Hub id, and how a shell names it. Errors: PlannerError.

    What the Hub answered, a refusal included, stays in the session, so that a page of many rows asks it once.
    """
    entry = catalogue.find(name)
    if entry is not None:
        return from_catalogue(entry.id), entry.id
    wanted = _bare(name)
    kept = st.session_state.setdefault("hub_models", {})
    if wanted not in kept:
        try:
            kept[wanted] = read(f"hub:{wanted}")
        except PlannerError as problem:
            kept[wanted] = problem
    found: Model | PlannerError = kept[wanted]
    if isinstance(found, PlannerError):
        raise found
    return found, f"hub:{wanted}"


def forget(but: Sequence[str]) -> None:
    """Let go of the Hub's answers for all other names: said again, they are asked for again."""
    kept, names = st.session_state.get("hub_models", {}), set(map(_bare, but))
    for name in [name for name in kept if name not in names]:
        del kept[name]


def _bare(name: str) -> str:
    name = name.strip()[:MAX_LETTERS]
    for prefix in _ADDRESS:
        name = name.removeprefix(prefix)
    return name
