"""The block picture: two requests in blocks, what they share, and what stays empty in their last blocks."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.hardware import Gpu
from planner.model import Model
from planner.units import ceil_div
from ui import charts
from ui.i18n import t

IN_LINK = ("learn_block", "learn_paging_first", "learn_paging_second", "learn_paging_common")
_MOST = 128
_COLOURS = {"used": ("#0072B2", ""), "common": ("#009E73", "x"), "empty": ("#D9D9D9", ".")}


def blocks(lengths: tuple[int, int], common: int, block: int) -> list[tuple[str, int, int, int]]:
    """(request, number of the block, tokens used, 1 where it is shared) of two requests; whole blocks in common stand once."""
    shared = min(common, *lengths) // block
    found = [("A", number, min(block, lengths[0] - number * block), int(number < shared))
             for number in range(ceil_div(lengths[0], block))]  # fmt: skip
    return found + [
        ("B", number, min(block, lengths[1] - number * block), 0) for number in range(shared, ceil_div(lengths[1], block))
    ]


@st.fragment
def show(model: Model, gpu: Gpu) -> None:
    place = st.columns(4)
    block = int(place[0].segmented_control(
        t("learn.paging.block"), (8, 16, 32), default=16, key="learn_block", required=True, bind="query-params"
    ) or 16)  # fmt: skip
    first = int(place[1].slider(t("learn.paging.first"), 1, _MOST, 75, key="learn_paging_first", bind="query-params"))
    second = int(place[2].slider(t("learn.paging.second"), 1, _MOST, 52, key="learn_paging_second", bind="query-params"))
    common = int(place[3].slider(t("learn.paging.shared"), 0, _MOST, 36, key="learn_paging_common", bind="query-params"))
    common = min(common, first, second)
    found = blocks((first, second), common, block)
    shared = sum(row[3] for row in found)
    tokens = sum(row[2] for row in found)
    empty = len(found) * block - tokens
    alone, longest = ceil_div(first, block) + ceil_div(second, block), _MOST
    charts.show(figure(found, block), "learn_paging", t("learn.paging.alt", blocks=len(found), shared=shared, empty=empty))
    st.markdown(t(
        "learn.paging.figure", blocks=len(found), tokens=tokens, empty=empty, alone=alone, longest=longest,
        reserved=2 * ceil_div(longest, block),
    ))  # fmt: skip


def figure(found: list[tuple[str, int, int, int]], block: int) -> dict[str, Any]:
    """One bar a block, in the order of the pool: what is used, and the places that are empty."""
    names = [t("learn.paging.row", name="A+B" if shared else name, number=number) for name, number, _, shared in found]
    parts = {
        "common": [used if shared else 0 for _, _, used, shared in found],
        "used": [0 if shared else used for _, _, used, shared in found],
        "empty": [block - used for _, _, used, _ in found],
    }
    data = [
        {
            "type": "bar", "x": list(range(len(found))), "y": counts, "name": t(f"learn.paging.{name}"),
            "marker": {"color": _COLOURS[name][0], "pattern": {"shape": _COLOURS[name][1], "fillmode": "overlay",
                                                               "fgcolor": "#FFFFFF", "fgopacity": 0.6, "size": 6}},
            "hovertext": [f"{label}: {count}" for label, count in zip(names, counts, strict=True)], "hoverinfo": "text+name",
        }
        for name, counts in parts.items()
    ]  # fmt: skip
    return {
        "data": data,
        "layout": {
            "height": 260, "barmode": "stack", "bargap": 0.12, "margin": {**charts.MARGIN, "t": 48}, "legend": charts.LEGEND,
            "xaxis": {"tickmode": "array", "tickvals": list(range(len(found))), "fixedrange": True, "automargin": True,
                      "ticktext": [name.rpartition(" ")[0].split(":")[0] + name.rpartition(" ")[2] for name in names]},
            "yaxis": {"title": {"text": t("learn.paging.block")}, "fixedrange": True, "range": [0, block], "dtick": block // 4,
                      "automargin": True},
        },
    }  # fmt: skip
