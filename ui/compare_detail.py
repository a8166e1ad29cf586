"""One row of the Compare page in detail: its verdict, where its memory goes and by which source, and what starts it."""

from __future__ import annotations

import streamlit as st

from planner.errors import EngineRefusal, PlannerError
from ui import capacity_ask, capacity_command, capacity_parts, inputs, messages
from ui.capacity_inputs import Asked
from ui.compare_chart import whole
from ui.compare_rows import Combination, Row, question
from ui.engine_fields import LABELS, key
from ui.i18n import t

#: Settings that the Capacity page draws no input for.
_NOT_ASKED = {("ollama", "front_end"), ("llama.cpp", "front_end")}


def show(one: Combination, row: Row, count: int, tokens: int, requests: int) -> None:
    """Everything about one row, as the Capacity page says it, and the way there."""
    with st.container(border=True, key="compare_detail"):
        st.header(messages.plain(whole(row)), anchor=False)
        try:
            asked = question(one, count, tokens, requests)
            plan = capacity_ask.answer(asked)
        except EngineRefusal as problem:
            st.warning(messages.told(problem), icon=":material/block:", title=t("capacity.refused", engine=LABELS[one.option]))
            return
        except PlannerError as problem:
            messages.error(problem)
            return
        capacity_parts.verdict(plan, asked)
        st.page_link(
            "ui/capacity.py", label=t("compare.open"), icon=":material/memory:", query_params=in_link(one, asked),
            help=t("compare.open.help"),
        )  # fmt: skip
        capacity_parts.notes(plan)
        capacity_parts.memory(plan, asked)
        capacity_command.show(plan, asked)


def in_link(one: Combination, asked: Asked) -> dict[str, str]:
    """The Capacity page's link for the same question."""
    settings = {
        key(one.option, name): str(value)
        for name, value in asked.settings.model_dump(exclude_unset=True).items()
        if (one.option, name) not in _NOT_ASKED
    }
    work = asked.workload
    return {
        "model": asked.argument, "server": one.option, "node": inputs.gpu_name(one.gpu), "gpus": str(asked.gpus),
        "load": str(work.requests), "prompt": str(work.prompt_tokens), "output": "0", **settings,
    }  # fmt: skip
