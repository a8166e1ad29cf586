"""The Learn page: what the KV cache is and what it costs, each statement with something to move or a figure worked out here."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from model_configs import catalogue
from planner import hardware
from planner.hardware import Gpu
from planner.model import Model
from ui import (
    learn_engines,
    learn_formats,
    learn_helpers,
    learn_measured,
    learn_memory,
    learn_paging,
    learn_steps,
    learn_time,
    link,
    messages,
)
from ui.i18n import t
from ui.model_input import from_catalogue

DEFAULT_MODEL, DEFAULT_GPU = "Qwen/Qwen2.5-72B", "h100-sxm"
Part = Callable[[Model, Gpu], None]

#: Keys of the inputs in the order of the page, each its name in a link: the first two are model and GPU.
IN_LINK = (
    "learn_model", "learn_gpu", *learn_steps.IN_LINK, *learn_time.IN_LINK, *learn_memory.IN_LINK, *learn_paging.IN_LINK,
    *learn_helpers.IN_LINK,
)  # fmt: skip
#: The sections in order, each with what stands under its text.
SECTIONS: tuple[tuple[str, Part | None], ...] = (
    ("what", learn_steps.show), ("phases", learn_time.phases), ("first", learn_time.first), ("warm", learn_time.warm),
    ("work", learn_time.work), ("price", learn_memory.price), ("heads", learn_memory.heads), ("window", learn_memory.window),
    ("quantised", learn_formats.show), ("paging", learn_paging.show), ("helpers", learn_helpers.show),
    ("double", learn_engines.double), ("engines", learn_engines.engines), ("checklist", None), ("questions", None),
)  # fmt: skip
CHECKS = ("on", "ttft", "size", "models", "store", "share", "check")
QUESTIONS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SOURCED = ("what", "phases", "heads", "window", "quantised", "paging", "helpers")
#: Sections whose text has figures of its own, so that their part writes it.
_OWN_TEXT = ("double", "engines", "helpers")


def chosen() -> tuple[Model, Gpu]:
    """The model and the GPU of the examples."""
    names, cards = [entry.id for entry in catalogue.entries()], [gpu.name for gpu in hardware.gpus()]
    with st.container(horizontal=True):
        name = st.selectbox(
            t("learn.model"), names, index=names.index(DEFAULT_MODEL), key="learn_model", bind="query-params"
        )
        card = st.selectbox(
            t("learn.gpu"), cards, index=cards.index(hardware.gpu(DEFAULT_GPU).name), key="learn_gpu", bind="query-params"
        )
    return from_catalogue(name), hardware.gpu(next(gpu.id for gpu in hardware.gpus() if gpu.name == card))


def section(name: str, part: Part | None, model: Model, gpu: Gpu) -> None:
    st.header(t(f"learn.{name}.title"), anchor=name)
    if name == "checklist":
        st.markdown("\n".join(f"1. {t(f'learn.checklist.{item}')}" for item in CHECKS))
        with st.container(horizontal=True):
            st.page_link("ui/plan.py", label=t("learn.checklist.plan"), icon=":material/calculate:")
            st.page_link("ui/capacity.py", label=t("learn.checklist.capacity"), icon=":material/memory:")
            st.page_link("ui/explain.py", label=t("learn.checklist.explain"), icon=":material/receipt_long:")
            st.page_link("ui/validate.py", label=t("learn.checklist.validate"), icon=":material/fact_check:")
    elif name == "questions":
        for item in QUESTIONS:
            with st.expander(t(f"learn.questions.{item}.q")):
                st.markdown(t(f"learn.questions.{item}.a"))
    elif name not in _OWN_TEXT:
        st.markdown(t(f"learn.{name}.text"))
    if part is not None:
        with messages.guarded():
            part(model, gpu)
    if name == "first":
        with messages.guarded():
            learn_measured.first_token()
    if name in SOURCED:
        st.caption(t("learn.source", source=t(f"learn.{name}.source")))


link.remember(IN_LINK)
st.title(t("learn.title"), anchor=False)
st.markdown(t("learn.lead"))
with st.container(border=True):
    notices = st.container()
    model, gpu = chosen()
st.markdown(" · ".join(f"[{t(f'learn.{name}.title')}](#{name})" for name, _ in SECTIONS))
for name, part in SECTIONS:
    section(name, part, model, gpu)
with notices:
    messages.ignored(link.ignored())
