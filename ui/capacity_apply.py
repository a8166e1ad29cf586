"""Taking an advice: the inputs that a change is written to, and which changes no input can say."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner import hardware
from planner.capacity_demand import CONTEXT_WORDS
from planner.capacity_plan import Plan
from planner.errors import PlannerError
from ui.capacity_inputs import REPLICAS, Asked
from ui.engine_fields import fields, key
from ui.inputs import MAX_REQUESTS

_RANKS = ("tensor_parallel_size", "num_shard")


def values(change: dict[str, Any], gpus: int, asked: Asked, plan: Plan) -> dict[str, Any] | None:
    """Inputs by key with the values that make the change true, on `gpus` GPUs; None where the inputs cannot say it."""
    option, found = asked.option, dict[str, Any]()
    if set(change) - {"settings", "workload", "weights", "engine", "gpus", "gpu"}:
        return None
    if "engine" in change:
        option = change["engine"]
        found["server"] = option
        if (word := CONTEXT_WORDS.get(option)) is not None:
            found[key(option, word)] = plan.context
    if "gpus" in change or "gpu" in change:
        card = change.get("gpu", plan.gpu.id)
        if (name := _card_name(card, plan)) is None:
            return None
        found.update(node=name, gpus=change.get("gpus", plan.gpus))
    if "workload" in change:
        if set(change["workload"]) != {"requests"} or not 1 <= change["workload"]["requests"] <= MAX_REQUESTS:
            return None
        found["load"] = change["workload"]["requests"]
    if "weights" in change:
        found["gguf"] = change["weights"]
    words = _settings(option, change.get("settings", {}), gpus)
    return None if words is None else {**found, **words}


def _card_name(card: str, plan: Plan) -> str | None:
    """What the GPU's input is given: a known card's display name, a custom one's amount."""
    if card == "custom":
        return f"{plan.gpu.memory_bytes / 2**30:g} GiB" if plan.gpu.id == "custom" else None
    try:
        return hardware.gpu(card).name
    except PlannerError:
        return None


def _settings(option: str, change: dict[str, Any], gpus: int) -> dict[str, Any] | None:
    """Settings by the keys of their inputs. A split is told by ranks and stages, and the GPUs that are left are replicas."""
    known, found = fields(option), dict[str, Any]()
    ranks = next((change[word] for word in _RANKS if word in change), None)
    if ranks is not None:
        replicas = gpus // (ranks * change.get("pipeline_parallel_size", 1))
        if ranks == 1 and replicas > 1 and "data_parallel_size" not in change:
            return None  # a rank of one is the input's default, which leaves the split open
    for word, value in change.items():
        field = known.get(word)
        if field is None and word == "data_parallel_size":
            found[REPLICAS] = value
            continue
        if field is None:
            return None
        if field.kind == "choice" and value not in field.choices:
            return None
        found[key(option, word)] = field.number(value) if field.kind == "number" else value
    return found


def take(new: dict[str, Any]) -> None:
    """The button's callback: every input of `new` gets its value before the page is drawn again."""
    for name, value in new.items():
        st.session_state[name] = value
