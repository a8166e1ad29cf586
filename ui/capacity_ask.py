"""The answers of the Capacity page, kept from one draw to the next by what was asked, never by who asked."""

from __future__ import annotations

import streamlit as st

from planner.advise import advise
from planner.advise_changes import free_split
from planner.capacity import Option, plan, rank_splits, requests_by_context
from planner.capacity_plan import Advice, Plan
from planner.errors import PlannerError
from ui.capacity_inputs import Asked
from ui.i18n import t
from ui.side_by_side import identity

_MOST = 256


def question(asked: Asked) -> str:
    """A text that is the same for the same question only; the price is no part of it, and no token ever is."""
    cards = ",".join(f"{card.id}:{card.memory_bytes}" for card in asked.node.gpus)
    settings = asked.settings.model_dump_json(exclude_unset=True)
    return "|".join((identity(asked.model), asked.gguf, asked.engine, settings, cards, str(asked.gpus), repr(asked.workload)))


def answer(asked: Asked) -> Plan:
    """The plan without its advice, which takes longer than all else. Errors: PlannerError."""
    with st.spinner(t("capacity.planning"), show_time=False):
        return _plan(question(asked), asked)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _plan(question: str, _asked: Asked) -> Plan:
    return plan(_asked.model, _asked.engine, _asked.settings, _asked.node, _asked.gpus, _asked.workload, advice=False)


def advice(asked: Asked, found: Plan) -> tuple[Advice, ...]:
    """What to change, each planned again."""
    with st.spinner(t("capacity.advising"), show_time=False):
        return _advice(question(asked), found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _advice(question: str, _found: Plan) -> tuple[Advice, ...]:
    return advise(_found)


def curve(asked: Asked, found: Plan) -> tuple[tuple[int, int | None], ...]:
    """(context, most requests) from 1,024 tokens to the model's limit."""
    return _curve(question(asked), found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _curve(question: str, _found: Plan) -> tuple[tuple[int, int | None], ...]:
    return requests_by_context(_found)


def splits(asked: Asked, found: Plan) -> tuple[Option, ...]:
    """Every split of the plan's GPUs, the best first."""
    return _splits(question(asked), found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _splits(question: str, _found: Plan) -> tuple[Option, ...]:
    one = _found.deployment
    return rank_splits(one.model, one.engine, free_split(one), one.gpu, one.gpus, one.workload)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _refused_splits(question: str, _asked: Asked) -> tuple[Option, ...]:
    gpus = max(_asked.gpus, len(_asked.node.gpus))
    words = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "num_shard")
    said = {name: getattr(_asked.settings, name) for name in _asked.settings.model_fields_set if name not in words}
    return rank_splits(_asked.model, _asked.engine, said, _asked.node.gpus[0], gpus, _asked.workload)


def legal_splits(asked: Asked) -> tuple[Option, ...]:
    """Where the split that was said is refused: the splits of the same GPUs that are not."""
    if asked.node.mixed:
        return ()
    try:
        return tuple(one for one in _refused_splits(question(asked), asked) if one.plan is not None)
    except PlannerError:
        return ()
