"""Host memory on the Capacity page: what an engine keeps there beside the GPUs."""

from __future__ import annotations

import streamlit as st

from planner.capacity_plan import Plan
from planner.host_tiers import HostTier, host_bytes, host_tiers
from ui import capacity_time, messages, words
from ui import format as fmt
from ui.engine_fields import flag
from ui.i18n import t


def show(plan: Plan) -> None:
    """The tiers as a table, with where their figures come from; nothing where the settings ask for none."""
    tiers = host_tiers(plan)
    if not any(tier.bytes or tier.requests is None for tier in tiers):
        return
    st.subheader(t("capacity.tiers.title", size=fmt.size(host_bytes(plan))), anchor=False)
    st.table(
        [_row(tier, plan.engine) for tier in tiers], border="horizontal", hide_index=True,
        alt=t("capacity.tiers.alt"),
    )  # fmt: skip
    st.caption(t("capacity.tiers.note", length=f"{plan.length:,}"))
    sources = [
        {
            t("capacity.tiers.setting"): f"`{flag(plan.engine, tier.name)}`",
            t("capacity.tiers.what"): messages.plain(words.told(tier.note)),
            t("capacity.tiers.source"): messages.plain(tier.source),
        }
        for tier in tiers
    ]  # fmt: skip
    with st.expander(t("capacity.tiers.source"), icon=":material/menu_book:", key="tiers_source"):
        st.table(sources, border="horizontal", hide_index=True, alt=t("capacity.tiers.source"))


def _row(tier: HostTier, engine: str) -> dict[str, str]:
    kept = "–" if tier.tokens is None or tier.requests is None else t(
        "capacity.tiers.kept", tokens=f"{tier.tokens:,}", requests=f"{tier.requests:,}")  # fmt: skip
    return {
        t("capacity.tiers.setting"): f"`{flag(engine, tier.name)}`", t("capacity.tiers.what"): t(f"capacity.tier.{tier.name}"),
        t("capacity.tiers.size"): fmt.size(tier.bytes), t("capacity.tiers.holds"): kept,
        t("capacity.tiers.back"): capacity_time.seconds(tier.transfer_s) if tier.transfer_s else "–",
    }  # fmt: skip
