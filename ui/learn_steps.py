"""One step of writing, drawn as the attention matrix: what is computed again without a cache, and what is read with one."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.hardware import Gpu
from planner.model import Model
from ui import charts
from ui.i18n import t

IN_LINK = ("learn_step",)
#: What a cell of the matrix is at a step, with its colour and, because nothing is told by colour alone, its sign.
CELLS = {"new": ("#0072B2", "●"), "again": ("#D55E00", "×"), "read": ("#56B4E9", "●"), "kept": ("#D9D9D9", "·")}


def cells(step: int, cached: bool) -> dict[str, list[tuple[int, int]]]:
    """The cells (query, key) of the matrix at a step, numbered from 0, by what they are.

    The newest query is compared with all keys, key <= query. Without a cache earlier rows are computed again to get their keys
    and values; with one they are not touched, and the newest row reads what is kept but for its own key.
    """
    last = step - 1
    before = [(query, key) for query in range(last) for key in range(query + 1)]
    row = [(last, key) for key in range(step)]
    if not cached:
        return {"new": row, "again": before}
    return {"new": row[-1:], "read": row[:-1], "kept": before}


@st.fragment
def show(model: Model, gpu: Gpu) -> None:
    words = t("learn.steps.sentence").split()
    step = st.slider(t("learn.steps.step"), 1, len(words), 5, key="learn_step", bind="query-params")
    st.markdown(t("learn.steps.count", step=step, without=step, sum=step * (step + 1) // 2))
    left, right = st.columns(2)
    for place, cached, title in ((left, False, t("learn.steps.without")), (right, True, t("learn.steps.with"))):
        found = cells(step, cached)
        counts = {name: len(found.get(name, ())) for name in ("again", "read")}
        new = sum(len(found.get(name, ())) for name in ("new", "read"))
        alt = t("learn.steps.alt", title=title, step=step, new=new, **counts)
        with place:
            st.subheader(title, anchor=False)
            charts.show(figure(words, found), f"learn_steps_{cached}", alt)


def figure(words: list[str], found: dict[str, list[tuple[int, int]]]) -> dict[str, Any]:
    data = [
        {
            "type": "scatter", "mode": "markers+text", "name": f"{sign} {t(f'learn.steps.{name}')}",
            "x": [key for _, key in found[name]], "y": [query for query, _ in found[name]], "text": [sign] * len(found[name]),
            "textfont": {"color": "#FFFFFF" if name in ("new", "again") else "#333333", "size": 13},
            "marker": {"symbol": "square", "size": 30, "color": colour}, "hoverinfo": "name",
        }
        for name, (colour, sign) in CELLS.items() if name in found
    ]  # fmt: skip
    places = list(range(len(words)))
    axis = {"tickmode": "array", "tickvals": places, "ticktext": words, "range": [-0.6, len(words) - 0.4], "fixedrange": True,
            "showgrid": False, "zeroline": False}  # fmt: skip
    return {
        "data": data,
        "layout": {
            "height": 420, "margin": {**charts.MARGIN, "t": 64},
            "legend": {**charts.LEGEND, "itemsizing": "constant"},
            "xaxis": {**axis, "title": {"text": t("learn.steps.keys")}, "automargin": True},
            "yaxis": {**axis, "range": [len(words) - 0.4, -0.6], "title": {"text": t("learn.steps.queries")}, "automargin": True},
        },
    }  # fmt: skip
