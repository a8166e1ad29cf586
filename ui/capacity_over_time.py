"""Requests whose lengths vary: how many fit in how much of the time, and how often some are preempted. Simulated."""

from __future__ import annotations

import streamlit as st

from planner.capacity_plan import Plan
from planner.errors import EngineRefusal
from ui import capacity_ask, messages
from ui.capacity_inputs import Asked
from ui.i18n import t


def show(plan: Plan, asked: Asked) -> None:
    """The quantiles of requests at once, and the share of the time in which those that are asked for do not fit."""
    st.header(t("capacity.over_time.title"), anchor=False)
    try:
        found = capacity_ask.simulation(asked, plan)
    except EngineRefusal as problem:
        st.info(messages.told(problem), icon=":material/block:")
        return
    grid = st.grid(len(found.curve) + 1, min_column_width=150)
    waits = "waiting" if found.reserves_whole else "preempted"
    grid.metric(
        t(f"capacity.over_time.{waits}"), f"{found.preempted:.1%}", border=True, height="stretch",
        help=t(f"capacity.over_time.{waits}.help", requests=f"{found.requests:,}"),
    )  # fmt: skip
    for share, count in found.curve:
        grid.metric(
            t("capacity.over_time.share", share=f"{share:.0%}"), f"{count:,}", border=True, height="stretch",
            help=t("capacity.over_time.share.help", share=f"{share:.0%}"),
        )  # fmt: skip
    st.caption(
        t(
            "capacity.over_time.note", draws=f"{found.draws:,}", seed=found.seed, mean=f"{found.mean:,.1f}",
            tokens=f"{found.occupancy:,.0f}",
        )
    )  # fmt: skip
