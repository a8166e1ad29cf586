"""Memory on the Learn page: the price of a request, what head counts, windows and storage formats make of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import streamlit as st

from planner import explain
from planner.cache import architecture_bytes
from planner.hardware import Gpu
from planner.layers import Full, Layer
from planner.model import Model
from ui import charts
from ui import format as fmt
from ui.i18n import t
from ui.learn_inputs import key, number
from ui.model_input import from_catalogue

IN_LINK = tuple(map(key, ("price.tokens", "price.requests", "heads.query", "heads.kv", "heads.dim")))
_TOKENS = 32_768
#: DeepSeek-V3's latent vector and rotated key. Source: its config.json, kv_lora_rank and qk_rope_head_dim.
_LATENT = 512 + 64
#: A model whose windows show, where the chosen one has none.
_WINDOWED = "google/gemma-3-27b-it"


@st.fragment
def price(model: Model, gpu: Gpu) -> None:
    left, right = st.columns(2)
    tokens = number(left, "price.tokens", 1, 10_000_000, _TOKENS, step=1024)
    requests = number(right, "price.requests", 1, 100_000, 16)
    each = architecture_bytes(model, tokens).total_bytes
    common = explain.twins(model, tokens, 1, None, 0).common_formula_bytes
    values: dict[str, Any] = {
        "model": model.name, "each": fmt.size(each), "all": fmt.size(each * requests), "requests": requests
    }
    if common and each and model.weight_bytes:
        text = t(
            "learn.price.figure", **values, common=fmt.size(common), times=common / each, weights=fmt.size(model.weight_bytes),
            crossover=math.floor(model.weight_bytes / each) + 1,
        )  # fmt: skip
    else:
        text = t("learn.price.figure_plain", **values)
    st.info(text, icon=":material/memory:")


@st.fragment
def heads(model: Model, gpu: Gpu) -> None:
    place = st.columns(3)
    query = number(place[0], "heads.query", 1, 1024, 64)
    shared = number(place[1], "heads.kv", 1, 1024, 8)
    dim = number(place[2], "heads.dim", 1, 1024, 128, step=16)
    if shared > query:
        st.caption(t("learn.heads.too_many", query=query))
        shared = query
    counts = [("MHA", 2 * query * dim), ("GQA", 2 * shared * dim), ("MQA", 2 * dim), (t("learn.heads.mla"), _LATENT)]
    rows = [
        {
            t("learn.heads.variant"): name, t("learn.heads.numbers"): f"{count:,}", t("learn.heads.bytes"): f"{2 * count:,}",
            t("learn.heads.times"): f"1/{counts[0][1] / count:.3g}",
        }
        for name, count in counts
    ]  # fmt: skip
    st.table(rows, border="horizontal", hide_index=True, alt=t("learn.heads.alt"))


def window(model: Model, gpu: Gpu) -> None:
    shown = model if any(cache.window for layer in model.layers for cache in layer.caches) else from_catalogue(_WINDOWED)
    end = min(shown.max_context or 131_072, 131_072)
    at = [end * step // 32 for step in range(33)]
    own = [architecture_bytes(shown, tokens).total_bytes if tokens else 0 for tokens in at]
    whole = [architecture_bytes(_unwindowed(shown), tokens).total_bytes if tokens else 0 for tokens in at]
    unit, scale = fmt.unit(whole[-1])
    data = [
        {
            "type": "scatter", "mode": "lines", "name": name, "x": at, "y": [count / scale for count in sizes],
            "text": [fmt.size(count) for count in sizes], "hovertemplate": "%{x:,}: %{text}<extra></extra>",
            "line": {"color": colour, "width": 3, "dash": dash},
        }
        for name, sizes, colour, dash in (
            (f"{shown.name}: {t('learn.window.own')}", own, "#0072B2", "solid"),
            (t("learn.window.full"), whole, "#8C8C8C", "dash"),
        )
    ]  # fmt: skip
    figure = {
        "data": data,
        "layout": {
            "height": 340, "margin": charts.WIDE_MARGIN, "legend": charts.LEGEND,
            "xaxis": {"title": {"text": t("learn.window.axis")}, "tickmode": "array", "tickvals": at[::8],
                      "ticktext": [fmt.tokens(tick) for tick in at[::8]], "fixedrange": True},
            "yaxis": {"title": {"text": t("learn.window.bytes", unit=unit)}, "fixedrange": True, "automargin": True},
        },
    }  # fmt: skip
    alt = t("learn.window.alt", model=shown.name, own=fmt.size(own[-1]), tokens=end, full=fmt.size(whole[-1]))
    charts.show(figure, "learn_window", alt)


def _unwindowed(model: Model) -> Model:
    """The same layers with every window taken away."""
    def whole(cache: Any) -> Any:
        plain = cache.window is not None and hasattr(cache, "kv_heads")
        return Full(cache.kv_heads, cache.k_dim, cache.v_dim) if plain else cache

    layers = tuple(Layer(tuple(whole(cache) for cache in layer.caches), layer.shares) for layer in model.layers)
    return replace(model, layers=layers)
