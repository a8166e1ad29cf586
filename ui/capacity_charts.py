"""The two figures of the Capacity page: one GPU's memory by term, and the requests that fit against their length."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.capacity_plan import Plan
from planner.units import GIB
from ui import format as fmt
from ui import messages, words
from ui.charts import COLOURS, PATTERNS, Figure
from ui.i18n import t

_GREY = "#8C8C8C"
_MARGIN = {"l": 8, "r": 8, "t": 36, "b": 8}
#: A colour and a pattern for each use of memory; a term that an engine alone has takes the next of the rest.
_OF_TERM = {
    "weights": ("#8C8C8C", ""), "draft weights": ("#8C8C8C", "/"), "activations": ("#E69F00", "/"),
    "compute buffer": ("#E69F00", "/"), "non-torch": ("#CC79A7", "+"), "cuda graphs": ("#56B4E9", "."),
    "kv cache": (COLOURS["full"], PATTERNS["full"]), "free": ("rgba(140,140,140,0.25)", ""),
}  # fmt: skip
_REST = (("#A3A500", "-"), ("#8A5FBF", "|"), ("#009E73", "x"), ("#D55E00", "\\"))


def parts(plan: Plan) -> list[tuple[str, int]]:
    """(term, bytes) in the order of the bar: what is not the cache's, the cache that is needed, and what is left."""
    return [(term.name, term.bytes) for term in plan.terms[1:] if term.bytes > 0]


def named(name: str, count: int) -> str:
    """A term with its size."""
    return t("capacity.term", name=words.term(name), size=fmt.size(count))


def _styles(plan: Plan) -> list[tuple[str, int, str, str]]:
    """(term, bytes, colour, pattern) in the order of the bar."""
    spare, found = list(_REST), []
    for name, count in parts(plan):
        if name.startswith("outside"):
            style = ("#BDBDBD", "\\")
        else:
            style = _OF_TERM.get(name) or (spare.pop(0) if spare else _REST[0])
        found.append((name, count, *style))
    return found


def legend(plan: Plan) -> list[str]:
    """The terms of the bar in its order, as Markdown, because Plotly's own legend is cut on a narrow screen."""
    return [
        f':small[:color[\u2002]{{background="{colour}"}} {messages.plain(named(name, count))}]'
        for name, count, colour, _ in _styles(plan)
    ]


def bar(plan: Plan) -> Figure:
    """One GPU's memory, the end of it marked; what is short sticks out beyond the mark."""
    total, data = plan.terms[0].bytes, list[Figure]()
    for name, count, colour, pattern in _styles(plan):
        label = named(name, count)
        data.append({
            "type": "bar", "orientation": "h", "y": [""], "x": [count / GIB], "name": label,
            "marker": {
                "color": colour, "line": {"width": 0},
                "pattern": {"shape": pattern, "size": 6, "solidity": 0.25, "fillmode": "overlay", "fgcolor": "#FFFFFF",
                            "fgopacity": 0.6},
            },
            "hovertemplate": f"{label}<extra></extra>",
        })  # fmt: skip
    used = sum(count for _, count in parts(plan))
    end = max(used, total) / GIB
    here = total / GIB
    side = {"xanchor": "right", "xshift": -4} if here > end * 0.4 else {"xanchor": "left", "xshift": 4}
    text = t("capacity.bar.end", gpu=plan.gpu.name, size=fmt.size(total))
    return {
        "data": data,
        "layout": {
            "height": 150, "barmode": "stack", "margin": {**_MARGIN, "t": 24}, "bargap": 0.1, "showlegend": False,
            "annotations": [{"text": text, "showarrow": False, "x": here, **side, "y": 1, "yref": "paper", "yanchor": "bottom"}],
            "shapes": [{"type": "line", "x0": here, "x1": here, "y0": 0, "y1": 1.2, "yref": "paper",
                        "line": {"color": COLOURS["chunked"], "width": 2}}],
            "xaxis": {"title": {"text": t("capacity.bar.axis")}, "range": [0, end * 1.01], "fixedrange": True, "showgrid": False},
            "yaxis": {"visible": False, "fixedrange": True},
        },
    }  # fmt: skip


def curve(points: Sequence[tuple[int, int]], here: tuple[int, int], fits: bool) -> Figure:
    """Most requests at once against the length of each, both axes logarithmic; `here` is what the person asked for."""
    data: list[Figure] = [{
        "type": "scatter", "mode": "lines+markers", "name": t("capacity.curve.line"), "x": [x for x, _ in points],
        "y": [y for _, y in points], "line": {"color": COLOURS["full"], "width": 3}, "marker": {"size": 5},
        "hovertemplate": t("capacity.curve.hover") + "<extra></extra>", "showlegend": False,
    }]  # fmt: skip
    data.append(asked_point(here, fits))
    layout = {"height": 380, "margin": _MARGIN, "hovermode": "closest", **requests_axes([here, *points])}
    return {"data": data, "layout": {**layout, "annotations": [asked_label(here, points, fits)]}}


def _asked(here: tuple[int, int]) -> str:
    return t("capacity.curve.here", requests=f"{here[1]:,}", tokens=f"{here[0]:,}")


def asked_point(here: tuple[int, int], fits: bool) -> Figure:
    """The mark of what the person asked for: a cross where it does not fit."""
    return {
        "type": "scatter", "mode": "markers", "x": [here[0]], "y": [here[1]], "showlegend": False, "hoverinfo": "text",
        "hovertext": _asked(here),
        "marker": {"size": 12, "symbol": "circle" if fits else "x", "color": COLOURS["chunked"],
                   "line": {"width": 2, "color": "#FFFFFF"}},
    }  # fmt: skip


def asked_label(here: tuple[int, int], points: Sequence[tuple[int, int]], fits: bool) -> Figure:
    """The words of that mark, on the side where there is room."""
    low, high = min(here[0], *(x for x, _ in points)), max(here[0], *(x for x, _ in points))
    left = here[0] * here[0] < low * high
    return {
        "x": _log(here[0]), "y": _log(here[1]), "text": _asked(here), "showarrow": True, "arrowhead": 0, "arrowcolor": _GREY,
        "ax": 24 if left else -24, "ay": 28 if fits else -28, "xanchor": "left" if left else "right",
    }  # fmt: skip


def requests_axes(points: Sequence[tuple[int, int]]) -> Figure:
    """Both axes of requests against their length, logarithmic, with ticks at round numbers. points: all that is drawn."""
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    ticks = [1 << power for power in range(low.bit_length() - 1, high.bit_length() + 1) if low * 0.7 <= 1 << power <= high * 1.4]
    counts = [y for _, y in points]
    many = [step * 10**power for power in range(len(str(max(counts)))) for step in (1, 2, 5)]
    many = [tick for tick in many if min(counts) * 0.5 <= tick <= max(counts) * 2]
    many = many if len(many) <= 9 else [tick for tick in many if str(tick)[0] == "1"]
    return {
        "xaxis": {
            "type": "log", "title": {"text": t("capacity.curve.axis")}, "tickmode": "array", "tickvals": ticks,
            "ticktext": [fmt.tokens(tick) for tick in ticks], "fixedrange": True,
        },
        "yaxis": {
            "type": "log", "title": {"text": t("capacity.curve.requests")}, "fixedrange": True, "automargin": True,
            "tickmode": "array", "tickvals": many, "ticktext": [f"{tick:,}" for tick in many],
        },
    }  # fmt: skip


def _log(value: int) -> float:
    """Where an annotation stands on a logarithmic axis."""
    return math.log10(max(value, 1))
