"""The Compare page: several models, engines, GPUs and KV dtypes in one table and one picture."""

from __future__ import annotations

from typing import Any

import streamlit as st

from model_configs import catalogue
from planner import hardware
from planner.units import GIB
from ui import charts, compare_rows, link, messages
from ui.charts import COLOURS
from ui.compare_rows import MOST, Row
from ui.engine_fields import ARCHITECTURE, OPTIONS
from ui.i18n import t
from ui.inputs import KV_DTYPES, MAX_REQUESTS, MAX_TOKENS
from ui.link import bind

MODELS = ("meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "openai/gpt-oss-20b")
ENGINES, GPUS = ("vllm", "llama.cpp"), ("H100 80GB SXM5",)
MOST_MODELS = 12
ORDERS = ("picked", "requests", "cache", "free")
IN_LINK = ("models", "engines", "cards", "each", "dtypes", "length", "at_once")
#: The parts of a bar with their colours and patterns, as on the Capacity page.
_MEMORY = (
    ("weights", "#8C8C8C", ""), ("other", "#E69F00", "/"), ("cache", COLOURS["full"], ""), ("free", "rgba(140,140,140,0.18)", ""),
)  # fmt: skip


def ask() -> tuple[list[tuple[str, str, str, str]], int, int, int]:
    """The combinations that are asked for, and GPUs of each, tokens and requests."""
    names = [entry.id for entry in catalogue.entries()]
    models = st.multiselect(
        t("compare.models"), names, default=MODELS, key="models", bind="query-params", max_selections=MOST_MODELS,
        help=t("compare.models.help", most=MOST_MODELS),
    )  # fmt: skip
    grid = st.grid(3, min_column_width=240)
    engines = grid.multiselect(
        t("compare.engines"), [option for option in OPTIONS if option != ARCHITECTURE], default=ENGINES, key="engines",
        bind="query-params",
    )  # fmt: skip
    cards = grid.multiselect(
        t("compare.gpus"), [gpu.name for gpu in hardware.gpus()], default=GPUS, key="cards", bind="query-params",
        accept_new_options=True, max_selections=MOST_MODELS, help=t("compare.gpus.help"),
    )  # fmt: skip
    dtypes = grid.multiselect(t("compare.dtypes"), KV_DTYPES, default="auto", key="dtypes", bind="query-params")
    tokens = grid.number_input(t("compare.tokens"), 1, MAX_TOKENS, 32_768, step=1_024, key="length", bind=bind("length"))
    requests = grid.number_input(t("compare.requests"), 1, MAX_REQUESTS, 4, key="at_once", bind=bind("at_once"))
    count = grid.number_input(t("compare.count"), 1, 64, 1, key="each", bind=bind("each"), help=t("compare.count.help"))
    asked = list(compare_rows.combinations(models, engines, cards, dtypes))
    return asked, int(count or 1), int(tokens or 1), int(requests or 1)


def planned(asked: list[tuple[str, str, str, str]], count: int, tokens: int, requests: int) -> list[Row]:
    """The rows, with a bar while they are worked out."""
    if len(asked) > MOST:
        st.warning(t("compare.too_many", count=len(asked), most=MOST), icon=":material/filter_list:")
        asked = asked[:MOST]
    bar, rows = st.empty(), []
    for done, one in enumerate(asked):
        bar.progress(done / len(asked), t("compare.planning", done=done + 1, count=len(asked)))
        rows.append(compare_rows.row(*one, count, tokens, requests))
    bar.empty()
    return rows


def table(rows: list[Row]) -> list[dict[str, Any]]:
    words = {"fits": t("compare.fits"), "does_not_fit": t("compare.short"), "refused": t("compare.refused")}
    found = []
    for one in rows:
        known = one.verdict != "refused"
        found.append({
            t("compare.column.model"): one.model, t("compare.column.engine"): one.engine,
            t("compare.column.gpu"): one.gpu if one.gpus == 1 or one.gpu.startswith(f"{one.gpus}") else f"{one.gpus} × {one.gpu}",
            t("compare.column.dtype"): one.kv_dtype, t("compare.column.verdict"): words[one.verdict],
            t("compare.column.requests"): one.max_requests if known else None,
            t("compare.column.context"): one.max_context if known else None,
            t("compare.column.cache"): one.cache_bytes / GIB if known else None,
            t("compare.column.free"): one.free_bytes / GIB if known else None,
            t("compare.column.weights"): one.weight_bytes / GIB if known else None,
            t("compare.column.why"): one.why if not known else "",
        })  # fmt: skip
    return found


def picture(rows: list[Row]) -> dict[str, Any]:
    """A stacked bar for each deployment that the engine takes, the end of its GPU's memory marked."""
    shown = [one for one in rows if one.verdict != "refused"]
    labels = [f"{one.model.split('/')[-1]} · {one.engine} · {one.gpu} · {one.kv_dtype}" for one in shown]
    sizes = {
        "weights": [one.weight_bytes for one in shown], "other": [one.other_bytes for one in shown],
        "cache": [one.cache_bytes for one in shown], "free": [max(0, one.free_bytes) for one in shown],
    }  # fmt: skip
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "orientation": "h", "y": labels, "x": [size / GIB for size in sizes[name]],
            "name": t(f"compare.chart.{name}"),
            "marker": {"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "#FFFFFF",
                                                    "fgopacity": 0.6, "size": 6}},
            "hovertemplate": "%{y}: %{x:,.2f} GiB<extra>%{fullData.name}</extra>",
        }
        for name, colour, pattern in _MEMORY
    ]  # fmt: skip
    data.append({
        "type": "scatter", "mode": "markers", "y": labels, "x": [one.memory_bytes / GIB for one in shown],
        "name": t("compare.chart.end"), "marker": {"symbol": "line-ns-open", "size": 22, "color": COLOURS["chunked"],
                                                   "line": {"width": 2}},
        "hovertemplate": "%{x:,.2f} GiB<extra>" + t("compare.chart.end") + "</extra>",
    })  # fmt: skip
    return {
        "data": data,
        "layout": {
            "height": 110 + 34 * len(shown), "barmode": "stack", "bargap": 0.25, "margin": {"l": 8, "r": 16, "t": 64, "b": 8},
            "legend": {"orientation": "h", "x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top",
                       "traceorder": "normal", "itemclick": False, "itemdoubleclick": False},
            "xaxis": {"title": {"text": t("compare.chart.axis")}, "fixedrange": True, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "fixedrange": True, "automargin": True, "type": "category"},
        },
    }  # fmt: skip


def exports(rows: list[Row], shown: list[dict[str, Any]], tokens: int, requests: int) -> None:
    with st.container(horizontal=True):
        for name, kind, text in (
            ("csv", "text/csv", compare_rows.as_csv(rows)),
            ("json", "application/json", compare_rows.as_json(rows, tokens, requests)),
            ("markdown", "text/markdown", compare_rows.as_markdown(shown)),
        ):  # fmt: skip
            ending = "md" if name == "markdown" else name
            st.download_button(
                t(f"compare.export.{name}"), text, f"comparison.{ending}", kind, on_click="ignore", icon=":material/download:"
            )


def show(rows: list[Row], tokens: int, requests: int) -> None:
    order = st.segmented_control(
        t("compare.sort"), ORDERS, default="picked", key="compare_order", format_func=lambda name: t(f"compare.sort.{name}"),
        required=True,
    )  # fmt: skip
    rows = compare_rows.ordered(rows, str(order))
    shown = table(rows)
    gib = st.column_config.NumberColumn(format="%.2f")
    count = st.column_config.NumberColumn(format="localized")
    columns = {t(f"compare.column.{name}"): gib for name in ("cache", "free", "weights")}
    columns |= {t(f"compare.column.{name}"): count for name in ("requests", "context")}
    if not any(line[t("compare.column.why")] for line in shown):
        columns[t("compare.column.why")] = None
    st.dataframe(
        shown, column_config=columns, hide_index=True, height="content", alt=t("compare.table.alt", count=len(rows))
    )
    many = t("compare.request.one") if requests == 1 else t("compare.request.many", count=requests)
    st.caption(t("compare.note", requests=many, tokens=tokens))
    exports(rows, shown, tokens, requests)
    if any(one.verdict != "refused" for one in rows):
        st.header(t("compare.chart.title"), anchor=False)
        fits = sum(one.verdict == "fits" for one in rows)
        charts.show(picture(rows), "compare_chart", t("compare.chart.alt", count=len(rows), fits=fits))


link.remember(IN_LINK)
st.title(t("compare.title"), anchor=False)
st.markdown(t("compare.lead"))
with st.container(border=True):
    notices = st.container()
    asked, each, tokens, requests = ask()
if not asked:
    st.caption(t("compare.empty"))
    st.stop()
with messages.guarded():
    show(planned(asked, each, tokens, requests), tokens, requests)
