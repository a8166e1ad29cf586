"""In which order the rows of the Compare page stand, and which of them is looked at; both are a part of its link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from ui import link_choice
from ui.i18n import t

ORDERS = ("picked", "requests", "cache", "free")
#: Keys and names in the link: the order, the person's own order as places ("2.0.1"), and the place of the row in detail.
IN_LINK = ("order", "rows", "row")
_MOST_LETTERS = 400


def choose(count: int) -> str:
    """The order that is asked for."""
    link_choice.settle("order", link_choice.one_of(*ORDERS), ORDERS[0])
    link_choice.settle("rows", _arrangement, "")
    order = st.segmented_control(
        t("compare.sort"), ORDERS, key="order", format_func=lambda name: t(f"compare.sort.{name}"), required=True,
        persist_state="session",
    )  # fmt: skip
    if arranged(count) == list(range(count)):
        st.session_state.rows = ""
    link_choice.write("order", str(order), ORDERS[0])
    link_choice.write("rows", st.session_state.rows, "")
    return str(order)


def _arrangement(text: str) -> str | None:
    """Places in an order, "2.0.1"."""
    parts = text[:_MOST_LETTERS].split(".")
    whole = all(part.isascii() and part.isdigit() for part in parts)
    return text if whole and sorted(map(int, parts)) == list(range(len(parts))) else None


def arranged(count: int) -> list[int]:
    """Places of the rows in the person's own order, which is that of picking until one is moved, and again where their
    number is another."""
    places = [int(part) for part in str(st.session_state.get("rows") or "").split(".") if part]
    return places if len(places) == count else list(range(count))


def row_in_detail(places: Sequence[int], labels: Mapping[int, str]) -> int | None:
    """The place of the row that is looked at, with the buttons that move it; None for none."""
    link_choice.settle("row", lambda text: int(text) if text.isascii() and text.isdigit() and int(text) in labels else None, None)
    if st.session_state.row not in labels:
        st.session_state.row = None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        picked: int | None = st.selectbox(
            t("compare.row"), list(places), index=None, key="row", format_func=lambda place: labels[place],
            placeholder=t("compare.row.none"), help=t("compare.row.help"), persist_state="session",
        )  # fmt: skip
        if picked is not None:
            at = list(places).index(picked)
            for step, name in ((-1, "up"), (1, "down")):
                st.button(
                    t(f"compare.row.{name}"), key=f"compare_{name}", icon=f":material/arrow_{name}ward:",
                    on_click=_move, args=(tuple(places), at, step), disabled=not 0 <= at + step < len(places),
                )  # fmt: skip
    link_choice.write("row", "" if picked is None else str(picked), "")
    return picked


def _move(places: tuple[int, ...], at: int, step: int) -> None:
    """Change places with the next row; what was sorted stands as it is from then on."""
    moved = list(places)
    moved[at], moved[at + step] = moved[at + step], moved[at]
    st.session_state.rows, st.session_state.order = ".".join(map(str, moved)), ORDERS[0]


def ticked(places: Sequence[int]) -> list[int]:
    """Where in the table the row stands that is looked at."""
    row = st.session_state.get("row")
    if row is None and "row" not in st.session_state:
        asked = st.query_params.get("row", "")
        row = int(asked) if asked.isascii() and asked.isdigit() else None
    return [list(places).index(row)] if row in places else []


def look_at(place: int | None) -> None:
    st.session_state.row = place
