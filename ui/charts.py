"""The page's figures as plain Plotly dicts. One colour and one pattern for each kind of cache, everywhere.

Plotly itself is never imported: Streamlit takes the dict, and building one costs microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from planner import explain
from planner.cache import CacheBytes
from planner.units import GIB
from ui import format as fmt
from ui import words
from ui.i18n import t

Figure = dict[str, Any]

#: By kind in the order of explain.KINDS; the same ten as chartCategoricalColors in .streamlit/config.toml.
COLOURS = dict(
    zip(
        explain.KINDS,
        ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#8A5FBF", "#56B4E9", "#A3A500", "#8C8C8C", "#BDBDBD"),
        strict=True,
    )
)
#: A pattern beside the colour, so that nothing is told by colour alone.
PATTERNS = dict(zip(explain.KINDS, ("", "/", "\\", "x", "+", "|", ".", "-", "/", ""), strict=True))
#: Parts of an engine's cache that are no kind of layer, drawn like the kind that is nearest.
ALIKE = {"draft": "shared", "padding": "none"}
_GREY = "#8C8C8C"
#: The width of a layer's cell; given, because Plotly would take it from the distance of the cells of one kind.
_CELL = 0.86
MARGIN = {"l": 8, "r": 8, "t": 46, "b": 8}
#: The same with room for the last tick of an axis and for a legend of two lines.
WIDE_MARGIN = {"l": 8, "r": 24, "t": 48, "b": 8}
#: Above the figure, in the room that the margin leaves; a click must not hide what the page talks about. In a font that the
#: saved picture has too, because it is as wide as its words are on the page, and a file has no web fonts.
LEGEND = {
    "orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top", "traceorder": "normal", "itemclick": False,
    "itemdoubleclick": False, "font": {"family": "Arial, sans-serif"},
}  # fmt: skip
#: Height above legend and figure in which the button that saves the picture stands, because on a phone it always shows.
_BUTTON = 26
#: What a picture is saved as. SVG is drawn again sharply at any size, PNG goes into any document.
FORMATS = ("png", "svg")
_FORMAT = "picture_format"


def show(figure: Figure, key: str, alt: str) -> None:
    """Draw a figure the way all of them are drawn: in the page's theme, with a button that saves it and a text in its place."""
    st.session_state.pictures_drawn = True
    st.plotly_chart(with_button(figure), theme="streamlit", key=key, alt=alt, config=config(key))


def config(key: str) -> dict[str, Any]:
    """Plotly's settings of a figure: no logo, and a bar with nothing but the button that saves the picture under this name."""
    form = st.session_state.get(_FORMAT) or FORMATS[0]
    saved = {"format": form, "filename": key, "scale": 2 if form == "png" else 1}
    return {
        "displaylogo": False, "scrollZoom": False, "modeBarButtons": [["toImage"]], "toImageButtonOptions": saved,
    }  # fmt: skip


def with_button(figure: Figure) -> Figure:
    """The figure, higher by the room for the button, which stands above its legend and hides nothing."""
    layout = figure["layout"]
    legend, margin = layout.get("legend"), layout["margin"]
    room = _BUTTON if legend else max(0, _BUTTON - margin["t"])
    height = layout["height"] + room
    raised = {**layout, "height": height, "margin": {**margin, "t": margin["t"] + room}}
    if legend:
        raised["legend"] = {**legend, "y": 1 - room / height}
    return {**figure, "layout": raised}


def choose_format() -> None:
    """What pictures are saved as, below a page that has some."""
    if st.session_state.pop("pictures_drawn", False):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(t("pictures.saved_as"), width="content")
            st.segmented_control(
                t("pictures.saved_as"), FORMATS, default=FORMATS[0], key=_FORMAT, format_func=str.upper, required=True,
                label_visibility="collapsed", persist_state="session",
            )  # fmt: skip


def _marker(kind: str) -> dict[str, Any]:
    kind = ALIKE.get(kind, kind)
    white = {"fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.6}
    pattern = {"shape": PATTERNS[kind], "size": 6, "solidity": 0.25, **white}
    return {"color": COLOURS[kind], "pattern": pattern, "line": {"width": 0}}


def _parts(cache: CacheBytes) -> dict[str, list[tuple[int, int, int, int]]]:
    """For each kind: (layer, place in the layer, parts of the layer, bytes). A layer that keeps nothing is one part."""
    found: dict[str, list[tuple[int, int, int, int]]] = {}
    for layer in cache.layers:
        kinds = [(part.kind, part.bytes) for part in layer.parts] or [(layer.kind, 0)]
        for place, (kind, count) in enumerate(kinds):
            found.setdefault(kind, []).append((layer.index, place, len(kinds), count))
    return found


def layers(cache: CacheBytes) -> Figure:
    """One cell a layer, coloured by kind, split where a layer keeps two; above it each layer's bytes where they differ."""
    parts = _parts(cache)
    different = len({layer.bytes for layer in cache.layers}) > 1
    unit, scale = fmt.unit(max((layer.bytes for layer in cache.layers), default=0))
    below = {layer.index: 0 for layer in cache.layers}
    data: list[Figure] = []
    for kind, cells in parts.items():
        name = words.kind(kind)
        hover = [f"{t('layers.hover', index=i, kind=name)}<br>{fmt.size(count)}" for i, _, _, count in cells]
        common = {
            "type": "bar", "x": [i for i, *_ in cells], "width": _CELL, "marker": _marker(kind), "hovertext": hover,
            "hoverinfo": "text",
        }  # fmt: skip
        strip = {"base": [place / n for _, place, n, _ in cells], "y": [1 / n for _, _, n, _ in cells]}
        data.append({**common, **strip, "name": f"{name} × {len(cells)}", "legendgroup": kind, "yaxis": "y"})
        if different:
            base = [below[i] / scale for i, *_ in cells]
            for i, _, _, count in cells:
                below[i] += count
            tall = {"base": base, "y": [count / scale for *_, count in cells], "yaxis": "y2"}
            data.append({**common, **tall, "name": name, "legendgroup": kind, "showlegend": False})
    first, last = min(below, default=0), max(below, default=0)
    layout: Figure = {
        "height": 310 if different else 150,
        "barmode": "overlay",
        "margin": MARGIN,
        "showlegend": True,
        "legend": LEGEND,
        "xaxis": {
            "title": {"text": t("layers.axis")}, "range": [first - 0.6, last + 0.6], "showgrid": False, "zeroline": False,
            "fixedrange": True, "anchor": "y", "tickmode": "array", "tickvals": _ticks(first, last), "ticks": "",
        },
        "yaxis": {"visible": False, "range": [0, 1], "fixedrange": True, "domain": [0, 0.2] if different else [0, 1]},
    }  # fmt: skip
    if different:
        title = {"text": t("layers.bytes", unit=unit)}
        layout["yaxis2"] = {
            "domain": [0.26, 1], "anchor": "x", "fixedrange": True, "rangemode": "tozero", "title": title, "automargin": True,
        }  # fmt: skip
    return {"data": data, "layout": layout}


def _ticks(first: int, last: int) -> list[int]:
    step = next(step for step in (1, 2, 4, 8, 10, 20, 40, 100, 1_000, 10_000) if (last - first) // step <= 14)
    return list(range(first, last + 1, step))


def _paper() -> str:
    """The page's own background, a little transparent, so that a label can be read where a line runs under it."""
    return "rgba(14,17,23,0.85)" if st.context.theme.type == "dark" else "rgba(255,255,255,0.85)"


def curve(
    lines: Sequence[tuple[str, str, Sequence[tuple[int, int]]]],
    here: tuple[int, int],
    limit: int | None,
    room: int | None,
    requests: str,
) -> Figure:
    """KV bytes against context length. lines: (name, style: own, engine, mha or mqa, points of (tokens, bytes)); here: the
    person's point; limit: the model's; room: bytes left beside the weights, drawn where it falls inside the picture."""
    most = max(count for _, _, points in lines for _, count in points)
    name, scale = fmt.unit(most)
    end = max(x for _, _, points in lines for x, _ in points)
    styles: dict[str, Figure] = {
        "own": {"color": COLOURS["full"], "width": 3},
        "mha": {"color": _GREY, "width": 2, "dash": "dash"},
        "mqa": {"color": _GREY, "width": 2, "dash": "dot"},
        "engine": {"color": COLOURS["indexed"], "width": 3},
    }
    data: list[Figure] = [
        {
            "type": "scatter", "mode": "lines", "name": label, "line": styles[style], "x": [x for x, _ in points],
            "y": [count / scale for _, count in points], "text": [fmt.size(count) for _, count in points],
            "hovertemplate": t("curve.hover") + "<extra>" + label + "</extra>",
        }
        for label, style, points in lines
    ]  # fmt: skip
    if room is not None and 0 < room <= most:
        label = t("curve.room", size=fmt.size(room))
        line = {"color": COLOURS["chunked"], "width": 1.5, "dash": "longdashdot"}
        data.append({
            "type": "scatter", "mode": "lines", "name": label, "line": line, "x": [0, end], "y": [room / scale] * 2,
            "hovertemplate": label + "<extra></extra>",
        })  # fmt: skip
    text = t("curve.here", tokens=f"{here[0]:,}", size=fmt.size(here[1]))
    data.append({
        "type": "scatter", "mode": "markers", "x": [here[0]], "y": [here[1] / scale], "showlegend": False, "hoverinfo": "text",
        "hovertext": text, "marker": {"size": 11, "color": COLOURS["chunked"], "line": {"width": 2, "color": "#FFFFFF"}},
    })  # fmt: skip
    notes = [_here(here, text, end, most, scale)]
    shapes: list[Figure] = []
    if limit is not None and limit <= end:
        rule = {"color": _GREY, "width": 1.5}
        shapes.append({"type": "line", "x0": limit, "x1": limit, "y0": 0, "y1": 1, "yref": "paper", "line": rule})
        mark = {"text": t("curve.limit", limit=f"{limit:,}"), "showarrow": False, "x": limit}
        side = "right" if limit > end * 0.5 else "left"
        notes.append({**mark, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": side})
    ticks = sorted({end * i // 4 for i in range(5)})
    return {
        "data": data,
        "layout": {
            "height": 380, "margin": {**MARGIN, "t": 64}, "shapes": shapes, "annotations": notes, "hovermode": "closest",
            "legend": LEGEND,
            "xaxis": {
                "title": {"text": t("curve.axis")}, "range": [0, end * 1.02], "tickmode": "array", "tickvals": ticks,
                "ticktext": [fmt.tokens(v) for v in ticks], "fixedrange": True,
            },
            "yaxis": {
                "title": {"text": t("curve.bytes", unit=name, requests=requests)}, "rangemode": "tozero", "fixedrange": True,
                "automargin": True, "tickformat": ",",
            },
        },
    }  # fmt: skip


def _here(here: tuple[int, int], text: str, end: int, most: int, scale: int) -> Figure:
    """The label of the person's point: to the left in the right half; else below a steep line and above a flat one."""
    right, steep = here[0] > end * 0.55, here[1] > most * 0.12
    return {
        "x": here[0], "y": here[1] / scale, "text": text, "showarrow": True, "arrowhead": 0, "arrowcolor": _GREY,
        "bgcolor": _paper(), "borderpad": 2,
        "ax": -24 if right else 24, "ay": 24 if steep and not right else -34, "xanchor": "right" if right else "left",
    }  # fmt: skip


def gpu(weights: int | None, kv: int, usable: int, gpu_name: str) -> Figure:
    """What one GPU's memory goes to, as one bar with the memory's end marked."""
    used = (weights or 0) + kv
    parts = [("gpu.weights", weights or 0, _GREY), ("gpu.kv", kv, COLOURS["full"])]
    if used < usable:
        parts.append(("gpu.free", usable - used, "rgba(140,140,140,0.18)"))
    data = [
        {
            "type": "bar", "orientation": "h", "y": [""], "x": [count / GIB], "name": f"{t(key)} {fmt.size(count)}",
            "marker": {"color": colour, "line": {"width": 0}},
            "hovertemplate": f"{t(key)}: {fmt.size(count)}<extra></extra>",
        }
        for key, count, colour in parts if count
    ]  # fmt: skip
    end = max(used, usable) / GIB
    label = {"text": t("gpu.capacity", gpu=gpu_name, usable=fmt.size(usable)), "showarrow": False, "x": usable / GIB}
    side = {"xanchor": "right", "xshift": -4} if usable / GIB > end * 0.4 else {"xanchor": "left", "xshift": 4}
    return {
        "data": data,
        "layout": {
            "height": 170, "barmode": "stack", "margin": {**MARGIN, "t": 64}, "bargap": 0.1,
            "legend": LEGEND,
            "annotations": [{**label, **side, "y": 1, "yref": "paper", "yanchor": "bottom"}],
            "shapes": [{"type": "line", "x0": usable / GIB, "x1": usable / GIB, "y0": 0, "y1": 1.2, "yref": "paper",
                        "line": {"color": COLOURS["chunked"], "width": 2}}],
            "xaxis": {"title": {"text": t("gpu.chart.axis")}, "range": [0, end * 1.01], "fixedrange": True, "showgrid": False},
            "yaxis": {"visible": False, "fixedrange": True},
        },
    }  # fmt: skip
