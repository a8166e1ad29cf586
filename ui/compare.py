"""The Compare page: several models, engines, GPUs and KV dtypes in one table and one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from model_configs import catalogue
from planner import hardware
from planner.units import GIB
from ui import charts, compare_chart, compare_detail, compare_order, compare_rows, link, messages, model_by_name
from ui.compare_rows import MOST, Combination, Row
from ui.engine_fields import ARCHITECTURE, OPTIONS
from ui.i18n import t
from ui.inputs import KV_DTYPES, MAX_REQUESTS, MAX_TOKENS
from ui.link import bind

MODELS = ("meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "openai/gpt-oss-20b")
ENGINES, GPUS = ("vllm", "llama.cpp"), ("H100 80GB SXM5",)
MOST_MODELS = 12
#: Keys of the inputs in the order of the page, each its name in a link: several models and GPUs, then tokens and requests.
IN_LINK = ("models", "engines", "cards", "dtypes", "length", "at_once", "each", *compare_order.IN_LINK)
_TABLE = "compare_table"
_MOST_REASONS = 8
#: Rows that are all shown; more are scrolled, so that what is said of one of them stands near.
_MOST_IN_SIGHT, _HEIGHT = 18, 640
#: Streamlit 1.67 writes names on chips white on the theme's colour, which in the dark scheme has to be a light one, because
#: the same colour writes what is chosen elsewhere. No setting parts the two.
_CHIPS = "<style>[data-testid='stMultiSelect'] [data-tag] { background-color: #00689F; color: #FFFFFF }</style>"


def begin() -> None:
    """The first time that the page is opened: what came with the person from another page stands before the page's examples."""
    state = st.session_state
    if "compare_seen" not in state:
        for key, own in (("models", MODELS), ("engines", ENGINES)):
            if key in state and key not in st.query_params:
                state[key] = list(dict.fromkeys((*state[key], *own)))
    state.compare_seen = True


def ask() -> tuple[list[Combination], int, int, int]:
    """The combinations that are asked for, and GPUs of each, tokens and requests."""
    st.html(_CHIPS)
    names = [entry.id for entry in catalogue.entries()]
    models = st.multiselect(
        t("compare.models"), names, default=MODELS, key="models", bind="query-params", max_selections=MOST_MODELS,
        accept_new_options=True, help=t("compare.models.help", most=MOST_MODELS), placeholder=t("compare.pick"),
    )  # fmt: skip
    grid = st.grid(3, min_column_width=240)
    engines = grid.multiselect(
        t("compare.engines"), [option for option in OPTIONS if option != ARCHITECTURE], default=ENGINES, key="engines",
        bind="query-params", placeholder=t("compare.pick"),
    )  # fmt: skip
    cards = grid.multiselect(
        t("compare.gpus"), [gpu.name for gpu in hardware.gpus()], default=GPUS, key="cards", bind="query-params",
        accept_new_options=True, max_selections=MOST_MODELS, help=t("compare.gpus.help"), placeholder=t("compare.pick"),
    )  # fmt: skip
    dtypes = grid.multiselect(
        t("compare.dtypes"), KV_DTYPES, default="auto", key="dtypes", bind="query-params", placeholder=t("compare.pick")
    )
    tokens = grid.number_input(t("compare.tokens"), 1, MAX_TOKENS, 32_768, step=1_024, key="length", bind=bind("length"))
    requests = grid.number_input(t("compare.requests"), 1, MAX_REQUESTS, 4, key="at_once", bind=bind("at_once"))
    count = grid.number_input(t("compare.count"), 1, 64, 1, key="each", bind=bind("each"), help=t("compare.count.help"))
    model_by_name.forget(models)
    asked = compare_rows.combinations(models, engines, cards, dtypes)
    return asked, int(count or 1), int(tokens or 1), int(requests or 1)


def planned(asked: Sequence[Combination], count: int, tokens: int, requests: int) -> list[Row]:
    """The rows, with a bar while they are worked out."""
    bar, rows = st.empty(), []
    for done, one in enumerate(asked):
        bar.progress(done / len(asked), t("compare.planning", done=done + 1, count=len(asked)))
        rows.append(compare_rows.row(one, count, tokens, requests))
    bar.empty()
    return rows


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    words = {"fits": t("compare.fits"), "does_not_fit": t("compare.short"), "refused": t("compare.refused")}
    found = []
    for one in rows:
        known = one.verdict != "refused"
        found.append({
            t("compare.column.model"): one.model, t("compare.column.engine"): one.engine,
            t("compare.column.gpu"): compare_chart.cards(one), t("compare.column.dtype"): one.kv_dtype,
            t("compare.column.verdict"): words[one.verdict],
            t("compare.column.requests"): one.max_requests if known else None,
            t("compare.column.context"): one.max_context if known else None,
            t("compare.column.cache"): one.cache_bytes / GIB if known else None,
            t("compare.column.free"): one.free_bytes / GIB if known else None,
            t("compare.column.weights"): one.weight_bytes / GIB if known else None,
            t("compare.column.why"): one.why if not known else "",
        })  # fmt: skip
    return found


def exports(rows: list[Row], shown: list[dict[str, Any]], tokens: int, requests: int) -> None:
    with st.container(horizontal=True):
        for name, kind, text in (
            ("csv", "text/csv", compare_rows.as_csv(rows)),
            ("json", "application/json", compare_rows.as_json(rows, tokens, requests)),
            ("markdown", "text/markdown", compare_rows.as_markdown(shown)),
        ):  # fmt: skip
            ending = "md" if name == "markdown" else name
            st.download_button(
                t(f"compare.export.{name}"), text, f"comparison.{ending}", kind, on_click="ignore", icon=":material/download:",
                key=f"compare_export_{name}",
            )  # fmt: skip


def grid(rows: list[Row], places: list[int]) -> list[dict[str, Any]]:
    """The table, the row in detail ticked in it; returns what it shows."""
    shown = table(rows)
    gib = st.column_config.NumberColumn(format="%.2f")
    count = st.column_config.NumberColumn(format="localized")
    columns: dict[str, Any] = {t(f"compare.column.{name}"): gib for name in ("cache", "free", "weights")}
    columns |= {t(f"compare.column.{name}"): count for name in ("requests", "context")}
    if all(one.verdict == "refused" for one in rows):
        columns = dict.fromkeys(columns)
    columns[t("compare.column.why")] = None  # below the table, where a sentence has room
    ticked = {"selection": {"rows": compare_order.ticked(places)}}
    if _TABLE in st.session_state and list(st.session_state[_TABLE]["selection"]["rows"]) != ticked["selection"]["rows"]:
        st.session_state[_TABLE] = ticked
    st.dataframe(
        shown, column_config=columns, hide_index=True, height="content" if len(rows) <= _MOST_IN_SIGHT else _HEIGHT,
        alt=t("compare.table.alt", count=len(rows)), key=_TABLE, selection_mode="single-row", on_select=_tick,
        selection_default=ticked, placeholder="",
    )  # fmt: skip
    st.session_state.compare_places = places
    return shown


def refusals(rows: Sequence[Row]) -> None:
    """Why rows are refused, those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for one in rows:
        if one.verdict == "refused":
            reasons.setdefault(one.why, []).append(compare_chart.whole(one))
    listed = []
    for why, names in list(reasons.items())[:_MOST_REASONS]:
        more = " " + t("compare.refused.more", count=len(names) - 1) if len(names) > 1 else ""
        listed.append(t("compare.refused.line", name=messages.plain(names[0]), more=more, why=messages.plain(why)))
    if listed:
        st.markdown("\n".join(listed))


def _tick() -> None:
    """The table's callback: the ticked row is looked at."""
    rows, places = st.session_state[_TABLE]["selection"]["rows"], st.session_state.compare_places
    compare_order.look_at(places[rows[0]] if rows and rows[0] < len(places) else None)


def show(asked: list[Combination], rows: list[Row], count: int, tokens: int, requests: int) -> None:
    order = compare_order.choose(len(rows))
    places = compare_rows.ordered(rows, order, compare_order.arranged(len(rows)))
    lines = [rows[place] for place in places]
    shown = grid(lines, places)
    many = t("compare.request.one") if requests == 1 else t("compare.request.many", count=requests)
    st.caption(t("compare.note", requests=many, tokens=tokens))
    refusals(lines)
    exports(lines, shown, tokens, requests)
    labels = {place: compare_chart.whole(rows[place]) for place in places}
    picked = compare_order.row_in_detail(places, labels)
    if picked is not None:
        with messages.guarded():
            compare_detail.show(asked[picked], rows[picked], count, tokens, requests)
    with messages.guarded():
        if any(one.verdict != "refused" for one in lines):
            st.header(t("compare.chart.title"), anchor=False)
            fits = sum(one.verdict == "fits" for one in lines)
            charts.show(compare_chart.figure(lines), "compare_chart", t("compare.chart.alt", count=len(lines), fits=fits))


link.remember(IN_LINK)
begin()
st.title(t("compare.title"), anchor=False)
st.markdown(t("compare.lead"))
with st.container(border=True):
    notices = st.container()
    asked, each, tokens, requests = ask()
if not asked:
    with notices:
        messages.ignored(link.ignored())
    st.caption(t("compare.empty"))
    st.stop()
if len(asked) > MOST:
    st.warning(t("compare.too_many", count=len(asked), most=MOST), icon=":material/filter_list:")
    asked = asked[:MOST]
with messages.guarded():
    show(asked, planned(asked, each, tokens, requests), each, tokens, requests)
with notices:
    messages.ignored(link.ignored())
