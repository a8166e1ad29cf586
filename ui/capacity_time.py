"""How long it takes and what it costs: the roofline's ranges for the plan's requests, always estimated."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from planner.capacity_plan import Plan
from planner.latency import Latency
from planner.latency_efficiency import Range
from planner.plan_report import plan_cost
from planner.plan_times import NO_LENGTHS, SPREAD, output_rate, plan_times
from ui import capacity_why, messages, reason, words
from ui.capacity_inputs import Asked
from ui.i18n import t


def show(plan: Plan, asked: Asked) -> None:
    """Time to the first token, per output token, and tokens a second; or why there is no estimate; and what it costs."""
    st.header(t("capacity.time.title"), anchor=False)
    found = plan_times(plan)
    if isinstance(found, str):
        st.info(_missing(found), icon=":material/schedule:")
    else:
        _tiles(plan, asked, found)
        st.caption(t("capacity.time.note", bound=words.bound(found.bound)))
        for text in found.warnings:
            st.caption(messages.plain(messages.sentence(words.told(text))))
    if asked.price:
        _cost(plan, asked, asked.price, found)


def _tiles(plan: Plan, asked: Asked, found: Latency) -> None:
    grid, why = st.grid(4, min_column_width=210), capacity_why.times(plan, asked, found)
    for name, field, text in (
        ("ttft", "ttft_s", seconds(found.ttft_s)), ("ttft_all", "ttft_at_once_s", seconds(found.ttft_at_once_s)),
        ("tpot", "time_per_output_token_s", seconds(found.time_per_output_token_s)),
        ("rate", "output_tokens_per_s", span(output_rate(plan, found))),
    ):  # fmt: skip
        what = t(f"capacity.time.{name}.help", prompt=f"{found.prompt_tokens:,}", requests=f"{found.concurrency:,}")
        one = replace(why[f"times.{field}"], what=what)
        reason.tile(grid, f"time_{name}", t(f"capacity.time.{name}"), text, t("capacity.time.estimated"), one)


def _missing(why: str) -> str:
    """One sentence that says what an estimate would need."""
    if why == NO_LENGTHS:
        return t("capacity.time.full")
    if why == SPREAD:
        return t("capacity.time.spread")
    return t("capacity.time.unknown", reason=messages.plain(messages.sentence(words.told(why))))


def _cost(plan: Plan, asked: Asked, price: float, times: Latency | str) -> None:
    found = plan_cost(plan, price)
    text = t("capacity.cost", hour=f"{found.per_hour:,.2f}", gpus=f"{found.gpus:,}", price=f"{price:,.2f}")
    if found.per_million_low is not None and found.per_million_high is not None:
        text += " " + t("capacity.cost.million", low=f"{found.per_million_low:,.2f}", high=f"{found.per_million_high:,.2f}")
    if found.note:
        text += " " + messages.plain(messages.sentence(words.told(found.note)))
    st.markdown(f":material/payments: {text}")
    with st.container(horizontal=True, gap="small"):
        for place, (value, why) in enumerate(capacity_why.cost(plan, asked, found, times)):
            reason.popover(f"cost_{place}", t("reason.why", value=value), why)


def seconds(value: Range) -> str:
    """A range of times in the unit that its high end reads best in: "12 to 31 ms"."""
    if value.high < 1:
        return t("capacity.time.ms", span=span(value * 1000))
    return t("capacity.time.s", span=span(value))


def span(value: Range) -> str:
    """A range of numbers, each with two digits that count."""
    low, high = _two(value.low), _two(value.high)
    return low if low == high else t("capacity.range", low=low, high=high)


def _two(value: float) -> str:
    if value >= 100:
        return f"{round(value, 2 - len(str(int(value)))):,.0f}"
    return f"{value:,.0f}" if value >= 10 else f"{value:,.1f}" if value >= 1 else f"{value:,.2f}"
