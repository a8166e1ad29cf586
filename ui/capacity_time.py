"""How long it takes and what it costs: the roofline's ranges for the plan's requests, always estimated."""

from __future__ import annotations

import streamlit as st

from planner.capacity_plan import Plan
from planner.errors import InputError
from planner.latency import Latency, latency
from planner.latency_efficiency import Range
from planner.plan_report import plan_cost
from planner.units import ceil_div
from ui import messages, words
from ui.i18n import t


def show(plan: Plan, price: float | None) -> None:
    """Time to the first token, per output token, and tokens a second; or why there is no estimate."""
    st.header(t("capacity.time.title"), anchor=False)
    found = _estimate(plan)
    if isinstance(found, str):
        st.info(found, icon=":material/schedule:")
    else:
        grid = st.grid(4, min_column_width=210)
        tokens = found.output_tokens_per_s * plan.replicas
        for name, text in (
            ("ttft", seconds(found.ttft_s)), ("ttft_all", seconds(found.ttft_at_once_s)),
            ("tpot", seconds(found.time_per_output_token_s)), ("rate", span(tokens)),
        ):  # fmt: skip
            grid.metric(
                t(f"capacity.time.{name}"), text, t("capacity.time.estimated"), delta_color="off", delta_arrow="off",
                border=True,
                help=t(f"capacity.time.{name}.help", prompt=f"{found.prompt_tokens:,}", requests=f"{found.concurrency:,}"),
            )  # fmt: skip
        st.caption(t("capacity.time.note", bound=words.bound(found.bound)))
        for text in found.warnings:
            st.caption(messages.plain(messages.sentence(text)))
    if price:
        _cost(plan, price)


def _estimate(plan: Plan) -> Latency | str:
    """The estimate, or one sentence that says what it would need."""
    work = plan.workload
    if work is None or work.full:
        return t("capacity.time.full")
    if plan.pipeline_parallel_size > 1 or plan.deployment.layer_split > 1:
        return t("capacity.time.spread")
    dtype = str(getattr(plan.settings, "kv_cache_dtype", "auto"))
    try:
        return latency(
            plan.model, plan.gpu, prompt_tokens=max(1, round(work.mean_tokens - work.mean_output)),
            output_tokens=max(1, round(work.mean_output)), concurrency=ceil_div(plan.requests, plan.replicas),
            tensor_parallel_size=plan.tensor_parallel_size, kv_cache_dtype="fp8" if dtype.startswith("fp8") else None,
            encoder_tokens=work.encoder_tokens,
        )  # fmt: skip
    except InputError as problem:
        return t("capacity.time.unknown", reason=messages.told(problem))


def _cost(plan: Plan, price: float) -> None:
    found = plan_cost(plan, price)
    text = t("capacity.cost", hour=f"{found.per_hour:,.2f}", gpus=f"{found.gpus:,}", price=f"{price:,.2f}")
    if found.per_million_low is not None and found.per_million_high is not None:
        text += " " + t("capacity.cost.million", low=f"{found.per_million_low:,.2f}", high=f"{found.per_million_high:,.2f}")
    if found.note:
        text += " " + messages.plain(messages.sentence(found.note))
    st.markdown(f":material/payments: {text}")


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
