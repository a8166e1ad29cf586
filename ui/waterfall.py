"""The difference between the architecture's bytes and an engine's, one bar a reason, as a plain Plotly dict."""

from __future__ import annotations

from collections.abc import Sequence

from planner.engines.explain import Reason
from ui import format as fmt
from ui import words
from ui.charts import COLOURS, Figure
from ui.i18n import t

_BAR = 34


def figure(engine: str, plain_bytes: int, reasons: Sequence[Reason]) -> Figure:
    """Bars from the architecture's bytes over each reason's to the engine's. Signs stand beside the colours."""
    end = plain_bytes + sum(reason.bytes for reason in reasons)
    heights = [plain_bytes]
    for reason in reasons:
        heights.append(heights[-1] + reason.bytes)
    unit, scale = fmt.unit(max(heights))
    names = [t("why.bar.architecture"), *(t(f"reason.{reason.code}") for reason in reasons), engine]
    sizes = [plain_bytes, *(reason.bytes for reason in reasons), end]
    signed = ["+" if reason.bytes > 0 else "−" for reason in reasons]
    labels = [
        fmt.size(plain_bytes),
        *(sign + fmt.size(abs(reason.bytes)) for sign, reason in zip(signed, reasons, strict=True)),
        fmt.size(end),
    ]
    hover = [labels[0], *(words.reason(reason) for reason in reasons), labels[-1]]
    room = max(heights) / scale
    return {
        "data": [
            {
                "type": "waterfall", "orientation": "h", "y": list(range(len(names))), "x": [size / scale for size in sizes],
                "measure": ["absolute", *("relative" for _ in reasons), "total"], "text": labels, "textposition": "outside",
                "hovertext": hover, "hoverinfo": "text", "cliponaxis": False, "showlegend": False,
                "increasing": {"marker": {"color": COLOURS["chunked"]}},
                "decreasing": {"marker": {"color": COLOURS["latent"]}},
                "totals": {"marker": {"color": COLOURS["full"]}},
                "connector": {"line": {"color": COLOURS["cross"], "width": 1}},
            }
        ],
        "layout": {
            "height": 70 + _BAR * len(names), "margin": {"l": 8, "r": 8, "t": 8, "b": 8}, "bargap": 0.35,
            "xaxis": {
                "title": {"text": t("why.axis", unit=unit)}, "range": [0, room * 1.28 or 1], "fixedrange": True,
                "tickformat": ",",
            },
            "yaxis": {
                "autorange": "reversed", "fixedrange": True, "automargin": True, "tickmode": "array",
                "tickvals": list(range(len(names))), "ticktext": names, "showgrid": False,
            },
        },
    }  # fmt: skip
