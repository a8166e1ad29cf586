"""The picture of the Compare page: a bar for each deployment, and how one is called in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.units import GIB
from ui import charts
from ui.charts import COLOURS
from ui.compare_rows import Row
from ui.i18n import t

#: The parts of a bar with their colours and patterns, as on the Capacity page.
_MEMORY = (
    ("weights", "#8C8C8C", ""), ("other", "#E69F00", "/"), ("cache", COLOURS["full"], ""), ("free", "rgba(140,140,140,0.18)", ""),
)  # fmt: skip
_ROW, _REST = 44, 130


def cards(one: Row) -> str:
    """The GPUs of a row, with their number where there are several."""
    return one.gpu if one.gpus == 1 or one.gpu.startswith(f"{one.gpus}") else f"{one.gpus} × {one.gpu}"


def whole(one: Row) -> str:
    """Everything that tells a row from others."""
    return f"{one.model} · {one.engine} · {cards(one)} · {one.kv_dtype}"


def labels(rows: Sequence[Row]) -> list[str]:
    """A name of each on two lines: the model without its owner, and below it what is not the same in all of them."""
    parts = [(one.engine, cards(one), one.kv_dtype) for one in rows]
    vary = [place for place in range(3) if len({part[place] for part in parts}) > 1]
    found = []
    for one, part in zip(rows, parts, strict=True):
        more = " · ".join(part[place] for place in vary)
        found.append(one.model.rpartition("/")[2] + (f"<br>{more}" if more else ""))
    return found


def figure(rows: Sequence[Row]) -> dict[str, Any]:
    """A stacked bar for each deployment that the engine takes, the end of its GPU's memory marked."""
    shown = [one for one in rows if one.verdict != "refused"]
    places, names = list(range(len(shown))), [whole(one) for one in shown]
    sizes = {
        "weights": [one.weight_bytes for one in shown], "other": [one.other_bytes for one in shown],
        "cache": [one.cache_bytes for one in shown], "free": [max(0, one.free_bytes) for one in shown],
    }  # fmt: skip
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "orientation": "h", "y": places, "x": [size / GIB for size in sizes[name]], "text": names,
            "name": t(f"compare.chart.{name}"), "textposition": "none",
            "marker": {"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "#FFFFFF",
                                                    "fgopacity": 0.6, "size": 6}},
            "hovertemplate": "%{text}: %{x:,.2f} GiB<extra>%{fullData.name}</extra>",
        }
        for name, colour, pattern in _MEMORY
    ]  # fmt: skip
    data.append({
        "type": "scatter", "mode": "markers", "y": places, "x": [one.memory_bytes / GIB for one in shown],
        "name": t("compare.chart.end"), "text": names,
        "marker": {"symbol": "line-ns-open", "size": 22, "color": COLOURS["chunked"], "line": {"width": 2}},
        "hovertemplate": "%{text}: %{x:,.2f} GiB<extra>%{fullData.name}</extra>",
    })  # fmt: skip
    return {
        "data": data,
        "layout": {
            "height": _REST + _ROW * len(shown), "barmode": "stack", "bargap": 0.3, "margin": {**charts.WIDE_MARGIN, "t": 72},
            "legend": {**charts.LEGEND, "xref": "container"},
            "xaxis": {"title": {"text": t("compare.chart.axis")}, "fixedrange": True, "rangemode": "tozero"},
            "yaxis": {"range": [len(shown) - 0.5, -0.5], "fixedrange": True, "automargin": True, "tickmode": "array",
                      "tickvals": places, "ticktext": labels(shown)},
        },
    }  # fmt: skip
