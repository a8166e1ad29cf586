"""Prefill and decode on GPUs of their own on the Capacity page: each pool's verdict, what moves between them, and which waits."""

from __future__ import annotations

import json
from collections.abc import Callable

import streamlit as st

from planner.cli_disaggregate import data_of
from planner.disaggregate import Disaggregation, Role
from ui import capacity_time, messages, words
from ui import format as fmt
from ui.capacity_apart import ROLES, Named, lengths, line
from ui.capacity_inputs import Asked
from ui.engine_fields import LABELS
from ui.i18n import t


def show(asked: Asked, answer: Callable[[Asked, int, int], Disaggregation], named: Named) -> None:
    """The answer's section; nothing where both run on the same GPUs. answer: what plans it, for (prompt, output) tokens.

    Errors: PlannerError.
    """
    if asked.apart is None:
        return
    st.header(t("capacity.apart.title"), anchor=False)
    said = lengths(asked)
    if said is None:
        st.info(t("capacity.apart.full"), icon=":material/straighten:")
        return
    found = answer(asked, *said)
    grid = st.grid(2, min_column_width=320)
    for role, one in zip(ROLES, (found.prefill, found.decode), strict=True):
        with grid.container(border=True, height="stretch"):
            _role(role, one)
    _between(found)
    notes = [t("capacity.apart.average", prompt=f"{said[0]:,}", output=f"{said[1]:,}")] if asked.workload.varies else []
    notes += [t("capacity.others.given")] if asked.given else []
    st.caption("  \n".join((t("capacity.apart.note"), *notes)))
    for text in found.notes:
        st.caption(messages.plain(messages.sentence(words.told(text))))
    with st.expander(t("capacity.apart.commands"), icon=":material/terminal:", key="apart_commands"):
        for one in (found.prefill, found.decode):
            st.code(one.command, language=None, wrap_lines=True)
        st.markdown(t("command.title"))
        st.code(line(asked, asked.apart, named), language=None, wrap_lines=True)
        st.download_button(
            t("capacity.apart.json"), lambda: json.dumps(data_of(found), indent=2), "disaggregation.json", "application/json",
            on_click="ignore", icon=":material/download:", key="apart_json",
        )  # fmt: skip


def _role(name: str, role: Role) -> None:
    """One pool: its verdict in words, its GPUs, and how fast it is."""
    plan = role.plan
    st.subheader(t(f"capacity.apart.{name}"), anchor=False)
    icon = ":material/check_circle:" if plan.fits else ":material/cancel:"
    (st.success if plan.fits else st.error)(messages.plain(words.verdict(plan)), icon=icon)
    cards = f"{plan.gpus} × {plan.gpu.name}"
    st.caption(messages.plain(" · ".join(word for word in (cards, LABELS[plan.engine], words.split(plan)) if word)))
    if role.seconds and role.requests_per_s:
        grid = st.grid(2, min_column_width=120)
        grid.metric(
            t(f"capacity.apart.{name}.time"), capacity_time.seconds(role.seconds),
            help=t(f"capacity.apart.{name}.time.help", requests=f"{role.concurrency:,}"),
        )  # fmt: skip
        grid.metric(
            t("capacity.apart.rate"), capacity_time.span(role.requests_per_s), help=t("capacity.apart.rate.help"),
        )  # fmt: skip


def _between(found: Disaggregation) -> None:
    """What moves, how long that takes, and the balance."""
    moved, grid = found.moved, st.grid(3, min_column_width=200)
    kinds = ", ".join(f"{words.kind(kind)} {fmt.size(size)}" for kind, size in moved.by_kind.items() if size)
    grid.metric(
        t("capacity.apart.moved"), fmt.size(moved.bytes), border=True, height="stretch",
        help=t("capacity.apart.moved.help", exact=fmt.exact(moved.bytes), kinds=kinds, blocks=fmt.size(moved.block_bytes),
               received=fmt.size(moved.received_bytes)),
    )  # fmt: skip
    grid.metric(
        t("capacity.apart.transfer"), capacity_time.seconds(found.transfer_s), border=True, height="stretch",
        help=t("capacity.apart.transfer.help", rate=f"{found.link_bytes_per_s / 1e9:,.4g}"),
    )  # fmt: skip
    if found.prefill_per_decode is not None:
        grid.metric(
            t("capacity.apart.balance"), capacity_time.span(found.prefill_per_decode), t(f"capacity.apart.bound.{found.bound}"),
            delta_color="off", delta_arrow="off", border=True, height="stretch", help=t("capacity.apart.balance.help"),
        )  # fmt: skip
