"""The Capacity page: does the model start on these GPUs, how many requests, how long a context, and what to change."""

from __future__ import annotations

import streamlit as st

from planner.capacity_plan import Plan
from planner.capacity_rules import context_limit
from planner.errors import EngineRefusal, PlannerError
from ui import (
    capacity_ask,
    capacity_command,
    capacity_disaggregated,
    capacity_engines,
    capacity_images,
    capacity_inputs,
    capacity_map,
    capacity_others,
    capacity_over_time,
    capacity_parts,
    capacity_tiers,
    capacity_time,
    engine_input,
    export,
    import_plan,
    link,
    messages,
)
from ui.capacity_inputs import Asked
from ui.engine_fields import LABELS
from ui.i18n import t


def answered(asked: Asked) -> Plan | None:
    """The plan; None where it is refused, which has been said then with the splits that are not."""
    try:
        return capacity_ask.answer(asked)
    except PlannerError as problem:
        with verdict:
            _refused(problem, t("capacity.refused", engine=LABELS[asked.option]))
        if not isinstance(problem, EngineRefusal):
            return None
    with messages.guarded():
        options = capacity_ask.legal_splits(asked)
        if options:
            capacity_parts.legal_splits(options, asked)
    _engines(asked, None)
    return None


def _engines(asked: Asked, plan: Plan | None) -> None:
    """Every engine's requests against context, also where the person's own refuses."""
    longest = asked.workload.longest or asked.model.max_context or 1
    limit = context_limit(plan.deployment) if plan is not None else asked.model.max_context or longest
    length, requests = (capacity_map.length_of(plan), plan.requests) if plan is not None else (longest, asked.workload.requests)
    with messages.guarded():
        capacity_engines.show(asked, plan, limit, (length, requests), capacity_ask.engine_line)


def _refused(problem: PlannerError, title: str) -> None:
    """What the engine does not take is a warning, what cannot be asked an error."""
    body = messages.told(problem)
    if isinstance(problem, EngineRefusal):
        st.warning(body, icon=":material/block:", title=title)
    else:
        st.error(body, icon=":material/error:", title=t("error.title"))


def show(plan: Plan, asked: Asked) -> None:
    """The verdict above the inputs and everything below them, each part on its own: where one fails, the others stand. What takes
    longer is drawn last, in its place."""
    with verdict, messages.guarded():
        capacity_parts.verdict(plan, asked)
    with messages.guarded():
        capacity_parts.tiles(plan, asked)
    with messages.guarded():
        capacity_parts.notes(plan)
        capacity_images.say(asked.seen)
    with messages.guarded():
        capacity_parts.memory(plan, asked)
    with messages.guarded():
        capacity_tiers.show(plan)
    apart, advice = st.container(), st.container()
    with messages.guarded():
        capacity_parts.curve(plan, asked)
    engines = st.container()
    grid, over_time = st.container(), st.container()
    with messages.guarded():
        capacity_time.show(plan, asked)
    others = st.container()
    with messages.guarded():
        capacity_command.show(plan, asked)
    with grid, messages.guarded():
        capacity_map.show(plan, asked)
    if plan.workload is not None and plan.workload.varies:
        with over_time, messages.guarded():
            capacity_over_time.show(plan, asked)
    with others, messages.guarded():
        capacity_others.show(plan, asked)
    with apart, messages.guarded():
        capacity_disaggregated.show(asked, capacity_ask.apart, capacity_inputs.named)
    with engines:
        _engines(asked, plan)
    with advice, messages.guarded():  # last, because each change is planned again
        capacity_parts.advice(plan, asked)
    with messages.guarded():
        export.plan(plan, asked)


import_plan.take("capacity")
link.remember((*capacity_inputs.IN_LINK, *capacity_inputs.SHARED, *capacity_engines.IN_LINK, *engine_input.link_keys()))
capacity_inputs.prepare()
import_plan.title(t("capacity.title"))
st.markdown(t("capacity.lead"))
import_plan.told()

verdict = st.container()  # in sight while the inputs are changed
with st.container(border=True):
    notices = st.container()
    asked = capacity_inputs.ask()
with notices:
    messages.ignored(link.ignored())

if asked is None:
    st.caption(t("capacity.waiting"))
    st.stop()

with messages.guarded():
    found = answered(asked)
    if found is not None:
        show(found, asked)
