"""Everything that a person sets besides the model: how long, how many, on what, in which engine."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner import hardware
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.layers import Cross
from planner.model import Model
from ui import engine_input, messages
from ui.engine_fields import ARCHITECTURE
from ui.i18n import t
from ui.link import bind

DEFAULT_TOKENS = 32_768
DEFAULT_GPU = "b200"
DEFAULT_ENCODER = 1_500
KV_DTYPES = ("auto", "bfloat16", "float16", "float32", "fp8", "int8", "int4", "int2")
MAX_TOKENS, MAX_REQUESTS, MAX_ENCODER = 100_000_000, 1_000_000, 10_000_000
#: Link parameters in the order of the page; each is the key of the input that it fills.
IN_LINK = ("model", "hub", "revision", "tokens", "requests", "kv", "gpu", "encoder", "prefix")


@dataclass(frozen=True)
class Workload:
    """How long, how many, stored how, on what. `kv_cache_dtype` is None for the model's own; `gpu` None where unknown.

    The dtype is the architecture's; an engine has its own among its settings. gpu_argument: how a shell names the GPU.
    """

    tokens: int
    requests: int
    kv_cache_dtype: str | None
    gpu: Gpu | None
    gpu_argument: str = ""


def workload() -> tuple[Workload, engine_input.Choice]:
    """The inputs that everybody needs, and the engine with its settings."""
    grid = st.grid(5, min_column_width=150)
    tokens = grid.number_input(
        t("input.tokens"), 1, MAX_TOKENS, DEFAULT_TOKENS, step=1_024, key="tokens", bind=bind("tokens"),
        help=t("input.tokens.help"),
    )  # fmt: skip
    requests = grid.number_input(
        t("input.requests"), 1, MAX_REQUESTS, 1, step=1, key="requests", bind=bind("requests"), help=t("input.requests.help")
    )
    gpu_slot = grid.container()
    option = engine_input.choose_engine(grid)
    word = "auto"
    if option == ARCHITECTURE:
        word = grid.selectbox(t("input.kv"), KV_DTYPES, key="kv", bind="query-params", help=t("input.kv.help")) or "auto"
        engine_input.remember_word(word)
        choice = engine_input.Choice(option, word=word)
    else:
        version = engine_input.choose_version(option, grid)
        choice = engine_input.choose_settings(option, version)
    gpu, argument = _gpu(gpu_slot, st.container())
    return Workload(int(tokens or 1), int(requests or 1), None if word == "auto" else word, gpu, argument), choice


def _gpu(slot: DeltaGenerator, wrong: DeltaGenerator) -> tuple[Gpu | None, str]:
    """The GPU and how a shell names it; a message in `wrong` where it is not known."""
    names = [gpu.name for gpu in hardware.gpus()]
    said = dict.fromkeys(str(text) for text in (st.session_state.get("gpu"), st.query_params.get("gpu")) if text)
    name = slot.selectbox(
        t("input.gpu"), [*names, *(text for text in said if text not in names)],
        index=names.index(hardware.gpu(DEFAULT_GPU).name), key="gpu", bind="query-params", accept_new_options=True,
        on_change=_name_gpu, help=t("input.gpu.help"),
    )  # fmt: skip
    try:
        gpu = find_gpu(str(name))
    except PlannerError as problem:
        with wrong:
            messages.error(problem, t("error.gpu"))
        return None, ""
    return gpu, str(name).replace(" ", "") if gpu.id == "custom" else gpu.id


def find_gpu(text: str) -> Gpu:
    """The GPU of this display name, id, short name or amount of memory. Errors: InputError."""
    return next((gpu for gpu in hardware.gpus() if gpu.name == text), None) or hardware.gpu(text[:100])


def gpu_name(text: str) -> str:
    """The display name of a known GPU, by which the list and the link call it; any other text as it is."""
    try:
        found = find_gpu(text)
    except PlannerError:
        return text[:100]
    return text[:100] if found.id == "custom" else found.name


def _name_gpu() -> None:
    st.session_state.gpu = gpu_name(str(st.session_state.gpu))


def over_limit(model: Model, tokens: int) -> None:
    """Say that a request is longer than the model states, and offer its limit."""
    limit = model.max_context
    if limit is None or tokens <= limit:
        return
    text = t("answer.over_limit", tokens=f"{tokens:,}", limit=f"{limit:,}")
    st.warning(text, icon=":material/straighten:")
    st.button(t("input.at_limit", limit=f"{limit:,}"), key="at_limit", on_click=_use_limit, args=(limit,))


def _use_limit(limit: int) -> None:
    st.session_state.tokens = limit


def encoder_positions(model: Model | None) -> int:
    """The encoder's positions, asked for only where a layer attends to them."""
    if model is None or not any(isinstance(cache, Cross) for layer in model.layers for cache in layer.caches):
        return 0
    value = st.number_input(
        t("input.encoder"), 0, MAX_ENCODER, DEFAULT_ENCODER, step=100, key="encoder", bind=bind("encoder"),
        help=t("input.encoder.help"), width=300,
    )  # fmt: skip
    return int(value or 0)
