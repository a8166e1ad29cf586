"""Shared links: what one asked for, and what no input took."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import streamlit as st

#: Between the values of a link's parameter that has several.
_SEVERAL = ", "


def remember(names: Iterable[str]) -> None:
    """Keep what the link asks for, before the first bound input drops what it cannot use."""
    if "link" not in st.session_state:
        asked = {name: st.query_params.get_all(name) for name in names if name in st.query_params}
        st.session_state.link = {name: _SEVERAL.join(values) for name, values in asked.items()}


def bind(name: str) -> Literal["query-params"] | None:
    """How an input is tied to the link: not at all in a session whose link gave an infinity, which Streamlit 1.67 fails on."""
    try:
        return "query-params" if math.isfinite(float(st.session_state.link.get(name, 0))) else None
    except ValueError:
        return "query-params"  # no number at all: a number's input drops it by itself


def ignored() -> dict[str, str]:
    """The link's values that an input did not take, for as long as the input still has the default it took instead."""
    if "link_ignored" not in st.session_state:
        state = {name: st.session_state.get(name) for name in st.session_state.link}
        st.session_state.link_ignored = {
            name: (asked, state[name])
            for name, asked in st.session_state.link.items()
            if name in st.session_state and not _taken(name, asked, state[name])
        }
    still: dict[str, str] = {
        name: asked
        for name, (asked, instead) in st.session_state.link_ignored.items()
        if st.session_state.get(name) == instead
    }
    return {**st.session_state.get("link_lost", {}), **still}


def _taken(name: str, asked: str, taken: object) -> bool:
    """True where the input took what was asked, perhaps under its own name for it."""
    if name in ("model", "hub"):
        return True  # the box takes any text, and says by itself what is wrong with one
    if isinstance(taken, list):
        return _SEVERAL.join(map(str, taken)) == asked
    if isinstance(taken, bool):
        return asked.lower() == str(taken).lower()
    if isinstance(taken, float):
        try:
            return float(asked) == taken
        except ValueError:
            return False
    return str(taken) == asked
