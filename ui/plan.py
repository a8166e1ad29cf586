"""The Plan page: inputs on top, then the answer, the engines, the maths behind it, the layers, the curve and the twins."""

from __future__ import annotations

import streamlit as st

from planner.cache import CacheBytes, architecture_bytes
from planner.errors import PlannerError
from planner.model import Model
from ui import (
    answer,
    command,
    engine_answer,
    engine_input,
    export,
    import_plan,
    inputs,
    link,
    messages,
    model_input,
    paging,
    picture,
    presets,
    side_by_side,
)
from ui.engine_answer import Answer
from ui.i18n import t
from ui.inputs import Workload


def show(
    model: Model, plain: CacheBytes, found: Answer | None, workload: Workload, choice: engine_input.Choice, shell: str
) -> None:
    """Everything below the inputs, each part on its own: where one fails, the others stand. shell: what prints the figures."""
    cache = found.cache if found else plain
    ranks = choice.ranks if found else 1
    with messages.guarded():
        dtype = workload.kv_cache_dtype or (found and found.choice.word not in (None, "auto") and found.choice.word)
        answer.title(model, dtype or model.dtype)
    with messages.guarded():
        if found:
            engine_answer.headline(model, found, workload, shell)
        else:
            answer.headline(model, plain, workload, shell)
    if found:
        with messages.guarded():
            engine_answer.why(model, found)
        with messages.guarded():
            paging.show(model, found, workload.gpu)
    with messages.guarded():
        side_by_side.show(model, plain, choice.word, workload.gpu)
    with messages.guarded():
        answer.on_gpu(model, cache, workload.gpu, ranks)
    with messages.guarded():
        picture.maths(model, plain, workload.kv_cache_dtype, beside_engine=found is not None)
    with messages.guarded():
        picture.layers(model, cache, choice.label if found else None)
    with messages.guarded():
        line = (choice.label, engine_answer.at_lengths(model, found, workload.gpu)) if found else None
        picture.curve_and_twins(model, plain, workload, line)


import_plan.take("plan")
link.remember((*inputs.IN_LINK, *engine_input.link_keys()))
engine_input.prepare_link()
import_plan.title(t("plan.title"))
st.markdown(t("plan.lead"))
import_plan.told()

with st.container(border=True):
    notices = st.container()
    chosen = model_input.choose()
    presets.choose("plan")
    workload, choice = inputs.workload()
    encoder_tokens = inputs.encoder_positions(chosen.model)
with notices:
    messages.ignored(link.ignored())

if chosen.model is None:
    st.caption(t("answer.waiting"))
    st.stop()

try:
    plain = architecture_bytes(
        chosen.model, workload.tokens, workload.requests, kv_cache_dtype=workload.kv_cache_dtype,
        encoder_tokens=encoder_tokens,
    )  # fmt: skip
except PlannerError as problem:
    messages.error(problem)
    st.stop()

found = engine_answer.ask(chosen.model, choice, plain, workload.gpu)
if isinstance(found, PlannerError):
    engine_answer.problem(found, choice)
    found, choice = None, engine_input.Choice(choice.option, word=choice.word)
shell = command.line(chosen.model, chosen.argument, workload, encoder_tokens, choice)
show(chosen.model, plain, found, workload, choice, shell)
with messages.guarded():
    command.show(chosen.model, chosen.argument, workload, encoder_tokens, choice)
cache_bytes = (found.cache if found else plain).total_bytes
with messages.guarded():
    export.kv(shell, chosen.model, choice.option, cache_bytes)
