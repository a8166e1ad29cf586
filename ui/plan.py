"""The Plan page: inputs on top, then the answer, the maths behind it, the layers, the curve and the twins."""

from __future__ import annotations

import streamlit as st

from planner.cache import architecture_bytes
from planner.errors import PlannerError
from ui import answer, inputs, messages, model_input, picture
from ui.i18n import t

inputs.remember_link()
st.title(t("plan.title"), anchor=False)
st.markdown(t("plan.lead"))

with st.container(border=True):
    notices = st.container()
    chosen = model_input.choose()
    workload = inputs.workload()
    encoder_tokens = inputs.encoder_positions(chosen.model)
    settings = inputs.implementation(workload.kv_cache_dtype)
with notices:
    messages.ignored(inputs.ignored_in_link())

model = chosen.model
if model is None:
    st.caption(t("answer.waiting"))
    st.stop()

try:
    cache = architecture_bytes(
        model, workload.tokens, workload.requests, kv_cache_dtype=workload.kv_cache_dtype, encoder_tokens=encoder_tokens
    )
except PlannerError as problem:
    messages.error(problem)
    st.stop()

with messages.guarded():
    answer.headline(model, cache, workload)
with messages.guarded():
    answer.in_transformers(model, cache, workload, settings)
with messages.guarded():
    answer.on_gpu(model, cache, workload.gpu)
with messages.guarded():
    picture.maths(model, cache, workload.kv_cache_dtype)
with messages.guarded():
    picture.layers(model, cache)
with messages.guarded():
    picture.curve_and_twins(model, cache, workload)
with messages.guarded():
    answer.command(model, chosen.argument, workload, encoder_tokens)
