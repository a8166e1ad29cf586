"""The answers of the Capacity page, kept from one draw to the next by what was asked, never by who asked."""

from __future__ import annotations

import streamlit as st

from planner import hardware, sweep_map
from planner.advise import advise
from planner.advise_changes import free_split
from planner.capacity import Option, compare_gpus, fewest_gpus, plan, rank_kv_dtypes, rank_splits, requests_by_context
from planner.capacity_deploy import deployment
from planner.capacity_plan import Advice, Plan, evaluate
from planner.capacity_rules import context_limit
from planner.capacity_solve import COMMON_GPUS, settled
from planner.disaggregate import Disaggregation, disaggregate
from planner.errors import PlannerError
from planner.simulate import Simulation, simulate
from planner.sweep_map import Map
from ui import capacity_apart, capacity_upload
from ui.capacity_inputs import Asked, named
from ui.i18n import t
from ui.side_by_side import identity

_MOST = 256
#: Limits below this are drawn from a part of themselves on.
_SHORT = 8_192


def question(asked: Asked) -> str:
    """A text that is the same for the same question only; the price is no part of it, and no token ever is."""
    cards = ",".join(f"{card.id}:{card.memory_bytes}" for card in asked.node.gpus)
    settings = asked.settings.model_dump_json(exclude_unset=True)
    work = (repr(asked.workload), capacity_upload.digest(asked.workload), str(sorted(asked.given_bytes.items())))
    return "|".join((identity(asked.model), asked.gguf, asked.engine, settings, cards, str(asked.gpus), *work))


def answer(asked: Asked) -> Plan:
    """The plan without its advice, which takes longer than all else. Errors: PlannerError."""
    with st.spinner(t("capacity.planning"), show_time=False):
        return _plan(question(asked), asked)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _plan(question: str, _asked: Asked) -> Plan:
    one = _asked
    return plan(one.model, one.engine, one.settings, one.node, one.gpus, one.workload, one.given_bytes, advice=False)


def advice(asked: Asked, found: Plan) -> tuple[Advice, ...]:
    """What to change, each planned again."""
    with st.spinner(t("capacity.advising"), show_time=False):
        return _advice(question(asked), found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _advice(question: str, _found: Plan) -> tuple[Advice, ...]:
    return advise(_found)


def curve(asked: Asked, found: Plan) -> tuple[tuple[int, int | None], ...]:
    """(context, most requests) up to the model's limit, from 1,024 tokens where it is far enough."""
    return _curve(question(asked), found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _curve(question: str, _found: Plan) -> tuple[tuple[int, int | None], ...]:
    limit = context_limit(_found.deployment)
    short = sorted({limit, _found.length, *(limit >> power for power in range(1, 6) if limit >> power)})
    return requests_by_context(_found, short if limit < _SHORT else None)


def fit_map(asked: Asked, found: Plan) -> Map:
    """Every context against every number of requests. Errors: PlannerError."""
    with st.spinner(t("capacity.mapping"), show_time=False):
        return _map(question(asked), found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _map(question: str, _found: Plan) -> Map:
    return sweep_map.fit_map(_found)


def engine_line(asked: Asked, contexts: tuple[int, ...]) -> tuple[tuple[tuple[int, int | None], ...], str]:
    """(context, most requests) of one engine by its own rule, or why it refuses."""
    return _engine_line(question(asked), contexts, asked)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _engine_line(
    question: str, contexts: tuple[int, ...], _asked: Asked
) -> tuple[tuple[tuple[int, int | None], ...], str]:
    one = _asked
    try:
        found = settled(*deployment(one.model, one.engine, one.settings, one.node, one.gpus, one.workload, one.given_bytes))
        return requests_by_context(evaluate(found, solve=False), contexts), ""
    except PlannerError as problem:
        return (), problem.message


def apart(asked: Asked, prompt: int, output: int) -> Disaggregation:
    """Prefill and decode on the two pools of the question. Errors: PlannerError."""
    with st.spinner(t("capacity.planning"), show_time=False):
        return _apart(f"{question(asked)}|{asked.apart}", prompt, output, asked)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _apart(question: str, prompt: int, output: int, _asked: Asked) -> Disaggregation:
    assert _asked.apart is not None
    pools = capacity_apart.pools(_asked, _asked.apart, named)
    return disaggregate(
        _asked.model, _asked.engine, prefill=pools["prefill"], decode=pools["decode"], link=_asked.apart.link,
        prompt_tokens=prompt, output_tokens=output, requests=_asked.workload.requests,
    )  # fmt: skip


def simulation(asked: Asked, found: Plan) -> Simulation:
    """Requests of varying length over time, by the shell's own seed. Errors: EngineRefusal where the engine's pool is not one."""
    with st.spinner(t("capacity.simulating"), show_time=False):
        return _simulation(question(asked), found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _simulation(question: str, _found: Plan) -> Simulation:
    return simulate(_found)


def others(view: str, asked: Asked, found: Plan) -> tuple[Option, ...]:
    """The ways of one view, the best first. Errors: PlannerError."""
    with st.spinner(t("capacity.comparing"), show_time=False):
        return _others(question(asked), view, asked, found)


@st.cache_data(max_entries=_MOST, show_spinner=False)
def _others(question: str, view: str, _asked: Asked, _found: Plan) -> tuple[Option, ...]:
    """The person's own figures are those of one layout on one GPU, so that only the KV dtypes keep them."""
    one = _found.deployment
    free, model, name, work = free_split(one), one.model, one.engine, one.workload
    if view == "kv":
        return rank_kv_dtypes(model, name, _asked.settings, _asked.node, _asked.gpus, work, one.given)
    if view == "gpus":
        kinds = [hardware.gpu(kind) for kind in COMMON_GPUS]
        return compare_gpus(model, name, free, kinds, one.gpus, work)
    if view == "fewest":
        return (fewest_gpus(model, name, free, one.gpu, work),)
    return rank_splits(model, name, free, one.gpu, one.gpus, work)


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
