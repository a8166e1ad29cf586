"""The map of the Capacity page: context against requests, what is left in each cell, and a click that takes the cell.

Cells are bars of height one, because Plotly tells of no clicks on a heat map. Colour, sign and hatching all say the same.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.capacity_plan import Plan
from planner.sweep_map import Cell, Map, at_length, with_longest
from planner.units import GIB
from ui import capacity_apply, capacity_ask, charts
from ui import format as fmt
from ui.capacity_inputs import Asked
from ui.charts import Figure
from ui.engine_fields import key
from ui.i18n import t

KEY = "capacity_map"
#: Blue where it fits and orange where it does not, from little to much, pale enough for dark numbers.
_FREE = ((219, 234, 246), (120, 180, 222))
_SHORT = ((251, 228, 208), (236, 166, 108))
_REFUSED = "#D9D9D9"
_INK = "#1A1A1A"
#: Height of a row, and of what is above and below them.
_ROW, _REST = 34, 96


def show(plan: Plan, asked: Asked) -> None:
    """The map with its own words, or the reason why there is none."""
    st.header(t("capacity.map.title"), anchor=False)
    found = capacity_ask.fit_map(asked, plan)
    length = length_of(plan)
    st.plotly_chart(
        charts.with_button(figure(found, (length, plan.requests))), theme="streamlit", key=KEY, alt=_told(found),
        selection_mode="points", config=charts.config(KEY), on_select=lambda: clicked(asked, plan),
    )  # fmt: skip
    notes = [t("capacity.map.note")]
    own = next((cell for row in found.rows for cell in row if (cell.context, cell.requests) == (length, plan.requests)), None)
    if plan.workload is not None and plan.workload.typical:
        notes.append(t("capacity.map.typical"))
    elif own is not None and own.free_bytes is not None and own.free_bytes - plan.headroom_bytes > max(0, plan.kv_bytes) / 500:
        less = fmt.size(own.free_bytes - plan.headroom_bytes)
        notes.append(t("capacity.map.longer", context=f"{plan.context:,}", size=less))
    if any(cell.state == "likely" for row in found.rows for cell in row):
        notes.append(t("capacity.map.likely"))
    st.caption(" ".join(notes))


def length_of(plan: Plan) -> int:
    """The column that is the person's: the length of the requests, on average where they vary."""
    return max(1, round(plan.workload.mean_tokens)) if plan.workload is not None and plan.workload.typical else plan.length


def clicked(asked: Asked, plan: Plan) -> None:
    """The chart's callback: the picked cell becomes the question. Letting go of it does nothing."""
    points = st.session_state[KEY].selection.points
    if points and (cell := points[0].get("customdata")):
        capacity_apply.take(values(int(cell[0]), int(cell[1]), asked, plan))


def values(context: int, requests: int, asked: Asked, plan: Plan) -> dict[str, Any]:
    """Inputs by key with the values that ask for this cell; none where there is no such question."""
    work = at_length(plan.workload, context, requests)
    if work is None:
        return {}
    found: dict[str, Any] = {"load": requests}
    if not work.full:
        found.update(vary="fixed", prompt=work.prompt_tokens, output=work.output_tokens, shared=work.shared_prefix_tokens)
        found["occupancy"] = None
    if context != plan.context:
        found.update({key(asked.option, word): value for word, value in with_longest(plan, context).items()})
    return found


def figure(found: Map, here: tuple[int, int]) -> Figure:
    """One bar for each cell, a frame around the one that is asked for."""
    sizes = [cell.free_bytes for row in found.rows for cell in row if cell.free_bytes is not None]
    top = max(sizes, default=0)
    top = top if top > 0 else max((-size for size in sizes), default=1)
    data = [{**_row(row, top, here), "base": place + 0.03} for place, row in enumerate(found.rows)]
    layout: Figure = {
        "height": _REST + _ROW * len(found.rows), "barmode": "overlay", "bargap": 0.04, "showlegend": False,
        "hovermode": "closest", "margin": {"l": 8, "r": 8, "t": 12, "b": 8},
        "uniformtext": {"minsize": 9, "mode": "show"},
        "xaxis": {"type": "category", "title": {"text": t("capacity.curve.axis")}, "fixedrange": True, "showgrid": False},
        "yaxis": {
            "title": {"text": t("capacity.map.requests")}, "fixedrange": True, "showgrid": False, "zeroline": False,
            "tickmode": "array", "tickvals": [place + 0.5 for place in range(len(found.rows))],
            "ticktext": [f"{count:,}" for count in found.requests], "range": [0, len(found.rows)], "automargin": True,
        },
    }  # fmt: skip
    if here[0] in found.contexts and here[1] in found.requests:
        x, y = found.contexts.index(here[0]), found.requests.index(here[1])
        box = {"type": "rect", "x0": x - 0.48, "x1": x + 0.48, "y0": y + 0.02, "y1": y + 0.98}
        layout["shapes"] = [{**box, "line": {"color": line, "width": width}} for line, width in (("#FFFFFF", 6), (_INK, 3))]
    return {"data": data, "layout": layout}


def _row(row: tuple[Cell, ...], top: int, here: tuple[int, int]) -> Figure:
    own = [(cell.context, cell.requests) == here for cell in row]
    return {
        "type": "bar", "x": [fmt.tokens(cell.context) for cell in row], "y": [0.94] * len(row), "name": f"{row[0].requests:,}",
        "text": [f"<b>{_text(cell)}</b>" if mine else _text(cell) for cell, mine in zip(row, own, strict=True)],
        "textposition": "inside", "insidetextanchor": "middle", "textangle": 0, "constraintext": "none",
        "insidetextfont": {"color": _INK, "size": 12},
        "customdata": [[cell.context, cell.requests] for cell in row],
        "hovertext": [_hover(cell) for cell in row], "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {
            "color": [_colour(cell, top) for cell in row], "line": {"width": 0},
            "pattern": {
                "shape": ["/" if cell.state == "short" else "x" if cell.state == "refused" else "" for cell in row], "size": 9,
                "solidity": 0.12, "fillmode": "overlay", "fgcolor": "#8A4B12", "fgopacity": 0.3,
            },
        },
        "selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}, "textfont": {"color": _INK}},
    }  # fmt: skip


def _text(cell: Cell) -> str:
    """GiB that are left, with few digits: 12, 1.2, -0.4, and -6k for thousands; a question mark where it is not certain."""
    if cell.free_bytes is None:
        return "–"
    size = abs(cell.free_bytes) / GIB
    text = f"{size / 1000:.0f}k" if size >= 1000 else f"{size:.0f}" if size >= 9.95 else f"{size:.1f}"
    return f"−{text}" if cell.free_bytes < 0 else text + "?" * (cell.state == "likely")


def _hover(cell: Cell) -> str:
    many = t("capacity.map.cell", requests=f"{cell.requests:,}", tokens=f"{cell.context:,}")
    if cell.free_bytes is None:
        return f"{many}<br>{_plain(cell.refusal)}"
    told = t(f"capacity.map.cell.{cell.state}", size=fmt.size(abs(cell.free_bytes)))
    return f"{many}<br>{told}"


def _plain(text: str) -> str:
    """A reason for Plotly's own markup, in lines that a hover box can hold."""
    words, lines = text.replace("<", "").replace(">", "").split(), [""]
    for word in words:
        lines = [*lines[:-1], f"{lines[-1]} {word}"] if len(lines[-1]) + len(word) < 60 else [*lines, word]
    return "<br>".join(lines).strip()


def _colour(cell: Cell, top: int) -> str:
    if cell.free_bytes is None:
        return _REFUSED
    low, high = _SHORT if cell.free_bytes < 0 else _FREE
    share = min(1.0, abs(cell.free_bytes) / top)
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    return f"rgb({red},{green},{blue})"


def _told(found: Map) -> str:
    """The map in words: of each context the most of its rows' requests that fit."""
    said = []
    for place, context in enumerate(found.contexts):
        held = [row[place].requests for row in found.rows if row[place].state in ("held", "likely")]
        said.append(t("capacity.curve.point", requests=f"{max(held, default=0):,}", tokens=f"{context:,}"))
    return t("capacity.map.alt", points="; ".join(said))
