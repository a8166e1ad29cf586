"""Everything that a person sets besides the model, and what a shared link asked for in vain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from model_configs import catalogue
from planner import hardware
from planner.engines.transformers import Settings
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.layers import Cross
from planner.model import Model
from ui import messages
from ui.i18n import t

DEFAULT_TOKENS = 32_768
DEFAULT_GPU = "b200"
DEFAULT_ENCODER = 1_500
KV_DTYPES = ("auto", "bfloat16", "float16", "float32", "fp8", "int8", "int4", "int2")
#: What transformers keeps unquantized keys and values in; for the others it has its quantized cache alone.
MODEL_DTYPES = ("bfloat16", "float16", "float32")
IMPLEMENTATIONS = ("dynamic", "static", "offloaded", "offloaded_static", "quantized")
#: What each backend of the quantized cache packs an element to; fp8 leaves no choice. Source: transformers 5.24.
BITS = {"quanto": (4, 2), "hqq": (4, 8, 3, 2, 1)}
MAX_TOKENS, MAX_REQUESTS, MAX_ENCODER = 100_000_000, 1_000_000, 10_000_000
#: Link parameters in the order of the page; each is the key of the input that it fills.
IN_LINK = ("model", "tokens", "requests", "kv", "gpu", "cache", "encoder", "hub", "revision")


@dataclass(frozen=True)
class Workload:
    """How long, how many, stored how, on what. `kv_cache_dtype` is None for the model's own; `gpu` None where unknown.

    gpu_argument: how a shell names the GPU.
    """

    tokens: int
    requests: int
    kv_cache_dtype: str | None
    gpu: Gpu | None
    gpu_argument: str = ""


def remember_link() -> None:
    """Keep what the link asks for, before the first bound input drops what it cannot use."""
    if "link" in st.session_state:
        return
    st.session_state.link = {name: st.query_params[name] for name in IN_LINK if name in st.query_params}


def _bind(name: str) -> Literal["query-params"] | None:
    """How a number is tied to the link: not at all in a session whose link gave an infinity, which Streamlit 1.67 fails on."""
    try:
        return "query-params" if math.isfinite(float(st.session_state.link.get(name, 0))) else None
    except ValueError:
        return "query-params"  # no number at all: the input drops it by itself


def ignored_in_link() -> dict[str, str]:
    """The link's values that an input did not take, for as long as the input still has the default it took instead."""
    if "link_ignored" not in st.session_state:
        state = {name: st.session_state.get(name) for name in st.session_state.link}
        st.session_state.link_ignored = {
            name: (asked, state[name])
            for name, asked in st.session_state.link.items()
            if name in st.session_state and str(state[name]) != asked and not _other_name(name, asked, state[name])
        }
    return {
        name: asked
        for name, (asked, instead) in st.session_state.link_ignored.items()
        if st.session_state.get(name) == instead
    }


def _other_name(name: str, asked: str, taken: object) -> bool:
    """True where the input took what was asked under its own name for it."""
    entry = catalogue.find(asked) if name == "model" else None
    return entry is not None and entry.id == taken


def workload() -> Workload:
    """The four inputs that everybody needs."""
    grid = st.grid(4, min_column_width=150)
    tokens = grid.number_input(
        t("input.tokens"), 1, MAX_TOKENS, DEFAULT_TOKENS, step=1_024, key="tokens", bind=_bind("tokens"),
        help=t("input.tokens.help"),
    )  # fmt: skip
    requests = grid.number_input(
        t("input.requests"), 1, MAX_REQUESTS, 1, step=1, key="requests", bind=_bind("requests"), help=t("input.requests.help")
    )
    kv = grid.selectbox(t("input.kv"), KV_DTYPES, key="kv", bind="query-params", help=t("input.kv.help"))
    names = [gpu.name for gpu in hardware.gpus()]
    name = grid.selectbox(
        t("input.gpu"), names, index=names.index(hardware.gpu(DEFAULT_GPU).name), key="gpu", bind="query-params",
        accept_new_options=True, on_change=_name_gpu, help=t("input.gpu.help"),
    )  # fmt: skip
    gpu, argument = None, ""
    try:
        gpu = find_gpu(str(name))
        argument = str(name).replace(" ", "") if gpu.id == "custom" else gpu.id
    except PlannerError as problem:
        messages.error(problem, t("error.gpu"))
    return Workload(int(tokens or 1), int(requests or 1), None if kv == "auto" else kv, gpu, argument)


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
        t("input.encoder"), 0, MAX_ENCODER, DEFAULT_ENCODER, step=100, key="encoder", bind=_bind("encoder"),
        help=t("input.encoder.help"), width=300,
    )  # fmt: skip
    return int(value or 0)


def implementation(kv_cache_dtype: str | None) -> Settings:
    """How transformers is to keep the cache, with what only some implementations have shown for those alone."""
    with st.expander(t("input.more"), icon=":material/tune:", key="more"):
        grid = st.grid(3, min_column_width=200)
        name = grid.selectbox(
            t("input.cache"), IMPLEMENTATIONS, key="cache", bind="query-params", help=t("input.cache.help")
        )
        values: dict[str, Any] = {"cache_implementation": name or "dynamic"}
        if name in ("static", "offloaded_static"):
            length = grid.number_input(
                t("input.max_cache_len"), 0, MAX_TOKENS, 0, step=1_024, key="max_cache_len", help=t("input.max_cache_len.help")
            )
            values["max_cache_len"] = int(length) if length else None
        if name == "quantized":
            backend = grid.selectbox(t("input.backend"), ("quanto", "hqq", "fp8"), key="backend", help=t("input.backend.help"))
            values["backend"] = backend or "quanto"
            if bits := BITS.get(values["backend"]):
                values["nbits"] = grid.selectbox(
                    t("input.nbits"), bits, key=f"nbits:{backend}", help=t("input.nbits.help"), required=True
                )
    if kv_cache_dtype in MODEL_DTYPES:
        values["dtype"] = kv_cache_dtype
    return Settings(**values)
