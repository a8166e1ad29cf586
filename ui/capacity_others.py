"""Other choices for the same question: splits, KV dtypes, kinds of GPU, the fewest GPUs; planned only when looked at."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.capacity import Option
from planner.capacity_plan import Plan
from planner.capacity_solve import KV_DTYPES
from ui import capacity_apply, capacity_ask, messages
from ui import format as fmt
from ui.capacity_inputs import Asked
from ui.i18n import t

SPLITS, KV, GPUS, FEWEST = VIEWS = ("splits", "kv", "gpus", "fewest")
#: GPUs whose splits are planned without being asked for.
_FEW = 16
_RANKS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "num_shard")


@st.fragment
def show(plan: Plan, asked: Asked) -> None:
    """One table at a time, and a button for each of its ways that the inputs can say."""
    st.header(t("capacity.others.title"), anchor=False)
    views = VIEWS if plan.gpus > 1 and not asked.node.mixed else VIEWS[1:]
    first = views[0] if plan.gpus <= _FEW else KV
    view = st.segmented_control(
        t("capacity.others.view"), views, default=first, key="compare", required=True, label_visibility="collapsed",
        format_func=lambda code: t(f"capacity.others.{code}"),
    )  # fmt: skip
    with messages.guarded():
        _view(view if view in views else first, plan, asked)


def _view(view: str, plan: Plan, asked: Asked) -> None:
    if asked.node.mixed and view != KV:
        st.info(t("capacity.others.mixed"), icon=":material/block:")
        return
    options = capacity_ask.others(view, asked, plan)
    table(options, plan, t(f"capacity.others.{view}"))
    st.caption(t(f"capacity.others.{view}.note") + (" " + t("capacity.others.given") if asked.given and view != KV else ""))
    buttons(view, options, asked, plan)


def buttons(view: str, options: tuple[Option, ...], asked: Asked, current: Plan | None) -> None:
    """One for each way that fits, where the inputs can say it and do not say it yet."""
    with st.container(horizontal=True):
        for place, one in enumerate(options):
            if one.plan is None or not one.fits or (current is not None and _same(one.plan, current)):
                continue
            new = values(view, one.plan, asked)
            if new is not None and st.button(
                t("capacity.others.apply", name=messages.plain(one.name)), key=f"other_{view}_{place}",
                on_click=capacity_apply.take, args=(new,), icon=":material/check:", help=t("capacity.apply.help"),
            ):  # fmt: skip
                st.rerun()  # the whole page, not this part alone


def values(view: str, way: Plan, asked: Asked) -> dict[str, Any] | None:
    """Inputs by key with the values that make `way` the question; None where they cannot say it."""
    change: dict[str, Any] = {}
    if view == KV:
        words = {word: None for update in KV_DTYPES[way.engine] for word in update}
        change["settings"] = {word: getattr(way.deployment.settings, word) for word in words}
    else:
        change["settings"] = {word: getattr(way.settings, word) for word in _RANKS if hasattr(way.settings, word)}
        if view != SPLITS:
            change["gpus"] = way.gpus
        if view == GPUS:
            change["gpu"] = way.gpu.id
    return capacity_apply.values(change, way.gpus, asked, way)


def _same(way: Plan, plan: Plan) -> bool:
    """Whether a way is the one in use."""
    words = {word for update in KV_DTYPES[plan.engine] for word in update}
    cache = [[getattr(one.deployment.settings, word) for word in sorted(words)] for one in (way, plan)]
    layout = [(one.gpu.id, one.gpus, one.tensor_parallel_size, one.pipeline_parallel_size, one.replicas) for one in (way, plan)]
    return cache[0] == cache[1] and layout[0] == layout[1]


def table(options: tuple[Option, ...], current: Plan | None, what: str) -> None:
    """The ways, the best first; what the engine refuses with its reason."""
    st.table(
        [_row(one, current) for one in options], border="horizontal", hide_index=True, alt=t("capacity.others.alt", what=what)
    )


def _row(option: Option, current: Plan | None) -> dict[str, str]:
    plan, name = option.plan, messages.plain(option.name)
    if plan is None:
        told, most, room = messages.plain(option.refusal or ""), "–", "–"
    else:
        if current is not None and _same(plan, current):
            name = t("capacity.others.now", name=name)
        told = t("capacity.others.fits" if plan.fits else "capacity.others.short")
        most = t("capacity.no_limit") if plan.max_requests is None else f"{plan.max_requests:,}"
        room = fmt.size(plan.headroom_bytes)
    return {
        t("capacity.others.way"): name, t("capacity.others.verdict"): told, t("capacity.most"): most,
        t("capacity.others.room"): room,
    }  # fmt: skip
