"""Names to choose from where the model box has words: those of the catalogue, and those that the Hub finds."""

from __future__ import annotations

import streamlit as st

from model_configs import hub
from planner.errors import PlannerError
from ui import messages
from ui.i18n import t
from ui.model_text import matching


def offer(words: str) -> None:
    """Buttons for both; the Hub is asked once for the same words, and where it does not answer the catalogue's stand."""
    known = matching(words)
    if known:
        st.pills(
            t("input.search.catalogue"), known, key="catalogue_pick", on_change=_picked, args=("catalogue_pick",),
            format_func=messages.plain,
        )  # fmt: skip
    found = _found(words)
    if isinstance(found, PlannerError):
        if known:
            st.caption(t("input.search.no_hub"))
        else:
            messages.error(found, t("error.hub"))
        return
    if found:
        # Ids hold characters that Markdown reads ("_"), so each label is escaped.
        st.pills(
            t("input.hub.found"), found, key="hub_pick", on_change=_picked, args=("hub_pick",), format_func=messages.plain,
            help=t("input.hub.found.help"),
        )  # fmt: skip
    elif not known:
        st.info(t("input.search.none", words=messages.plain(words)), icon=":material/search_off:")


def _found(words: str) -> tuple[str, ...] | PlannerError:
    kept = st.session_state.get("hub_found")
    if kept and kept[0] == words:
        found: tuple[str, ...] | PlannerError = kept[1]
        return found
    with st.spinner(t("input.hub.searching")):
        try:
            found = tuple(one.id for one in hub.Hub().search(words, 8))
        except PlannerError as problem:
            found = problem
    st.session_state.hub_found = (words, found)
    return found


def _picked(key: str) -> None:
    picked = st.session_state.get(key)
    if picked:
        st.session_state.model = picked
        st.session_state.pop("hub_found", None)
