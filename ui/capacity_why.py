"""Why the Capacity page's figures are what they are: its tiles, each use of memory, times and the cost."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from planner.capacity_cost import Cost
from planner.capacity_plan import Plan
from planner.capacity_reasons import plan_reasons
from planner.latency import Latency
from planner.plan_times import cost_reasons, output_rate, times_reasons
from planner.reasons import Formula
from ui import capacity_ask, capacity_command, reason, words
from ui import format as fmt
from ui.capacity_inputs import Asked
from ui.i18n import t
from ui.reason import Reason

#: Uses of memory whose figures rest on constants that were fitted to runs, or measured in them.
_FITTED = ("activations", "non-torch", "image encoder", "cuda graphs", "compute buffer")


@st.cache_data(max_entries=256, show_spinner=False)
def _formulas(question: str, _plan: Plan) -> dict[str, Formula]:
    return plan_reasons(_plan)


def tiles(plan: Plan, asked: Asked) -> dict[str, Reason]:
    """The reasons of the four figures by their names in the JSON, each but for its first sentence."""
    rules, shell = _formulas(capacity_ask.question(asked), plan), capacity_command.line(asked)
    rule = reason.engine_source(plan.engine)
    sure = reason.worst([term.confidence for term in plan.terms[:-1]])
    free = fmt.span(plan.headroom_low, plan.headroom_high) if plan.headroom_low != plan.headroom_high else ""
    found = {
        name: Reason(t("capacity.most.none"), rules.get(name, ()), sure, rule, shell, name)
        for name in ("max_requests", "max_context")
    }
    low, high = plan.max_requests_low, plan.max_requests_high
    if low is not None and high is not None and low != high:
        found["max_requests"] = replace(found["max_requests"], spread=t("capacity.range", low=f"{low:,}", high=f"{high:,}"))
    found["headroom_bytes"] = Reason("", rules["headroom_bytes"], sure, rule, shell, "headroom_bytes", free)
    found["kv_need_bytes"] = Reason("", rules["kv_need_bytes"], plan.terms[-2].confidence, rule, shell, "kv_need_bytes")
    return found


def term(plan: Plan, asked: Asked, place: int) -> Reason:
    """The reason of one use of the memory."""
    one = plan.terms[place]
    spread = fmt.span(one.low, one.high) if one.low != one.high else ""
    source = words.told(one.source) + (f"; {reason.engine_source(plan.engine)}" if one.name == "kv cache" else "")
    what = t(f"reason.term.{one.name.replace(' ', '_')}")
    fitted = one.name in _FITTED and one.confidence != "given"
    shell, name = capacity_command.line(asked), f"terms[{place}].bytes"
    return Reason(what, one.formula, one.confidence, source, shell, name, spread, fitted)


def times(plan: Plan, asked: Asked, found: Latency) -> dict[str, Reason]:
    """The reasons of the times and of the rate, by the names that they have in the JSON."""
    shell, source = capacity_command.line(asked), t("reason.source.roofline")
    return {name: Reason("", rule, "estimated", source, shell, name) for name, rule in times_reasons(plan, found).items()}


def cost(plan: Plan, asked: Asked, found: Cost, latency: Latency | str) -> list[tuple[str, Reason]]:
    """What the cost is made of, each with the name of its button."""
    rate = None if isinstance(latency, str) else output_rate(plan, latency)
    shell, rows = capacity_command.line(asked), []
    for name, rule in cost_reasons(found, rate).items():
        hour = name.endswith("per_hour")
        what, sure = t("reason.what.hour" if hour else "reason.what.million"), "given" if hour else "estimated"
        source = t("reason.source.price") if hour else t("reason.source.roofline")
        rows.append((f"{rule[-1].value:,.2f}", Reason(what, rule, sure, source, shell, name)))
    return rows
