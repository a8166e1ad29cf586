"""Figures of the memory budget that the person knows better than the planner, from a profiled run or a start-up log."""

from __future__ import annotations

import streamlit as st

from planner.budget_terms import GIVEN
from planner.units import parse_bytes
from ui.i18n import t
from ui.link import bind

#: The terms in the order of a start-up log; the device's total is the GPU's own input.
TERMS = tuple(name for name in GIVEN if name != "device")
_MAX_GIB = 4_096.0


def key(term: str) -> str:
    """The key of a term's input, which is its name in a link."""
    return "given." + term.replace(" ", "_")


IN_LINK = tuple(key(term) for term in TERMS)


def ask() -> dict[str, str]:
    """Draw the inputs: by term what was given, as an amount that the shell takes too."""
    found = {}
    said = any(name in st.session_state.link for name in IN_LINK)
    with st.expander(t("capacity.given"), icon=":material/edit_note:", key="given_more", expanded=said):
        st.caption(t("capacity.given.note"))
        grid = st.grid(6, min_column_width=130)
        for term in TERMS:
            value = grid.number_input(
                t(f"capacity.given.{term.replace(' ', '_').replace('-', '_')}"), 0.0, _MAX_GIB, None, step=0.1, format="%.2f",
                key=key(term), bind=bind(key(term)), placeholder=t("capacity.given.none"),
                help=t(f"capacity.given.{term.replace(' ', '_').replace('-', '_')}.help"),
            )  # fmt: skip
            if value is not None:
                found[term] = f"{value:.4f}".rstrip("0").rstrip(".") + "GiB"
    return found


def sizes(given: dict[str, str]) -> dict[str, int]:
    """Bytes by term."""
    return {term: parse_bytes(amount) for term, amount in given.items()}
