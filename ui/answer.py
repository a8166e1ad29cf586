"""The architecture's answer: bytes in all, per request and per token; and the share of one GPU that a cache takes."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import planner
from model_configs import catalogue
from planner import explain_reasons
from planner.cache import CacheBytes, architecture_bytes
from planner.hardware import Gpu
from planner.model import Model
from planner.reasons import Formula
from planner.units import ceil_div
from ui import charts, messages, reason, words
from ui import format as fmt
from ui.i18n import t
from ui.inputs import Workload, over_limit
from ui.reason import Reason


def requests_text(count: int) -> str:
    return t("answer.requests.one") if count == 1 else t("answer.requests.many", count=f"{count:,}")


def title(model: Model, dtype: str) -> None:
    """What the answer is about. dtype: how keys and values are stored, in words."""
    st.header(messages.plain(model.name), anchor=False)
    st.markdown(messages.plain(_subtitle(model, dtype)))
    notes = [messages.sentence(words.told(text)) for text in model.notes]
    st.caption(messages.plain(" ".join([t("answer.source", source=_source(model)), *notes])))
    if model.assumption:
        assumed = messages.plain(messages.sentence(words.told(model.assumption)))
        st.warning(assumed, icon=":material/help:", title=t("answer.assumption"))


def headline(model: Model, cache: CacheBytes, workload: Workload, shell: str) -> None:
    """The figures that were asked for, by the architecture alone. shell: the command that prints them."""
    tiles = st.grid(4, min_column_width=150)
    tokens, number = f"{cache.tokens:,}", requests_text(cache.requests)
    whole = explain_reasons.total(model, cache, workload.kv_cache_dtype)
    what = t("answer.total.help", exact=fmt.exact(cache.total_bytes), requests=number, tokens=tokens)
    size_tile(tiles, "total", t("answer.total"), cache.total_bytes, by_config(model, what, whole, shell, "kv_cache_bytes"))
    what = t("answer.request.help", exact=fmt.exact(cache.bytes_per_request), tokens=tokens)
    each = by_config(model, what, explain_reasons.per_request(cache), shell, "bytes_per_request")
    size_tile(tiles, "request", t("answer.request"), cache.bytes_per_request, each)
    what = t("answer.token.help", exact=fmt.exact(float(cache.bytes_per_token)), tokens=tokens)
    token = by_config(model, what, explain_reasons.per_token(cache), shell, "average_bytes_per_token")
    size, below = fmt.size(cache.bytes_per_token), _next_token(model, cache, workload)
    reason.tile(tiles, "token", t("answer.token"), size, below, token)
    gpu_tile(tiles, model, cache, workload.gpu, shell)
    over_limit(model, workload.tokens)


def by_config(model: Model, what: str, formula: Formula, shell: str, name: str) -> Reason:
    """The reason of a figure that follows from the model's config alone."""
    return Reason(what, formula, "exact", _source(model), shell, name, link=reason.config_address(model))


def size_tile(tiles: DeltaGenerator, key: str, label: str, count: int, why: Reason) -> None:
    """An amount of memory with its exact bytes beneath."""
    reason.tile(tiles, key, label, fmt.size(count), fmt.exact(count), why)


def _subtitle(model: Model, dtype: str) -> str:
    layers = t("answer.layers", count=len(model.layers), kinds=words.kinds(model.kinds))
    own = sorted({cache.kv_heads for layer in model.layers for cache in layer.caches if hasattr(cache, "kv_heads")})
    heads = ""
    if own and model.attention_heads:
        heads = t("answer.heads", kv=" / ".join(str(n) for n in own), query=model.attention_heads)
    limit = t("answer.limit", limit=f"{model.max_context:,}") if model.max_context else t("answer.no_limit")
    return t("answer.subtitle", layers=layers, dtype=dtype, heads=heads, limit=limit)


def _source(model: Model) -> str:
    source = model.source
    if source.kind == "hub":
        return t("answer.source.hub", revision=source.revision or "main", commit=(source.commit or "?")[:12])
    if source.kind == "catalogue":
        entry = catalogue.find(source.name)
        return t("answer.source.catalogue", origin=entry.source if entry else "", date=source.date)
    return t("answer.source.dict")


def _next_token(model: Model, cache: CacheBytes, workload: Workload) -> str:
    """What one more token of one request would add, which is not the average where windows or states are involved."""
    one, more = (
        architecture_bytes(
            model, tokens, kv_cache_dtype=workload.kv_cache_dtype, encoder_tokens=cache.encoder_tokens
        ).total_bytes
        for tokens in (cache.tokens, cache.tokens + 1)
    )
    return t("answer.token.next", size=fmt.size(more - one)) if more > one else t("answer.token.next_none")


def weights_on(model: Model, ranks: int) -> int | None:
    """Weight bytes on one of `ranks` GPUs, as an even share, rounded up; None where they are not known."""
    return None if model.weight_bytes is None else ceil_div(model.weight_bytes, ranks)


def gpu_tile(tiles: DeltaGenerator, model: Model, cache: CacheBytes, gpu: Gpu | None, shell: str, ranks: int = 1) -> None:
    if gpu is None:
        return
    label, weights = t("answer.gpu"), weights_on(model, ranks)
    rule, what = explain_reasons.gpu_share(model, cache, gpu, ranks), t("reason.what.share", gpu=messages.plain(gpu.name))
    sure = reason.worst((gpu.memory_range.confidence, *([model.weights_confidence] if model.weights else [])))
    why = Reason(what, rule, sure, words.told(gpu.range_source), shell, "gpu.share_percent")
    if weights is None:
        reason.tile(tiles, "gpu", label, fmt.size(cache.total_bytes), t("answer.gpu.unknown"), why)
        return
    needed = weights + cache.total_bytes
    free = gpu.usable_bytes - needed
    verdict = t("answer.gpu.fits", free=fmt.size(free)) if free >= 0 else t("answer.gpu.short", short=fmt.size(-free))
    usable = fmt.exact(gpu.usable_bytes)
    what = t("answer.gpu.help", gpu=messages.plain(gpu.name), used=fmt.exact(needed), usable=usable)
    share, colour = _percent(needed, gpu.usable_bytes), "green" if free >= 0 else "red"
    reason.tile(tiles, "gpu", label, share, verdict, replace(why, what=what), colour)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:,.1f} %"


def on_gpu(model: Model, cache: CacheBytes, gpu: Gpu | None, ranks: int = 1) -> None:
    """The share of one GPU that weights and cache take, and how many such requests it holds."""
    if gpu is None:
        return
    usable, weights = gpu.usable_bytes, weights_on(model, ranks)
    st.header(t("gpu.title", gpu=messages.plain(gpu.name)), anchor=False)
    if weights is None:
        share = _percent(cache.total_bytes, usable)
        st.markdown(t("gpu.no_weights", kv=fmt.size(cache.total_bytes), usable=fmt.size(usable), percent=share))
    else:
        st.markdown(_verdict(weights, cache, usable))
    alt = t(
        "gpu.alt", gpu=gpu.name, weights=fmt.size(weights or 0), kv=fmt.size(cache.total_bytes), usable=fmt.size(usable)
    )
    charts.show(charts.gpu(weights, cache.total_bytes, usable, gpu.name), "gpu_chart", alt)
    shared = t("gpu.shared", ranks=f"{ranks:,}") + " " if ranks > 1 and weights is not None else ""
    st.caption(shared + t("gpu.caveat", status=t(f"gpu.status.{gpu.status}")))
    st.page_link("ui/capacity.py", label=t("gpu.to_capacity"), icon=":material/memory:")
    if model.weights is not None:
        confidence = t(f"weights.{model.weights.confidence}")
        title = t("weights.title", size=fmt.size(model.weights.bytes), confidence=confidence)
        with st.expander(title, icon=":material/fact_check:"):
            rows = [
                {
                    t("weights.name"): item.name, t("weights.params"): fmt.cell(item.params),
                    t("weights.gib"): item.bytes / planner.GIB,
                    t("weights.confidence"): words.confidence(item.confidence), t("weights.source"): item.source,
                }
                for item in model.weights.items
            ]  # fmt: skip
            columns = {
                t("weights.params"): st.column_config.NumberColumn(format="localized"),
                t("weights.gib"): st.column_config.NumberColumn(format="%.3f"),
            }
            st.dataframe(rows, column_config=columns, hide_index=True, alt=title)


def _verdict(weights: int, cache: CacheBytes, usable: int) -> str:
    needed, room = weights + cache.total_bytes, usable - weights
    count = room // cache.bytes_per_request if cache.bytes_per_request and room > 0 else 0
    fields = {"needed": fmt.size(needed), "usable": fmt.size(usable), "percent": _percent(needed, usable)}
    if needed <= usable:
        free = fmt.size(usable - needed)
        return ":material/check_circle: " + t("gpu.fits", **fields, free=free, count=requests_text(count))
    if room <= 0:
        rest = t("gpu.short.weights")
    elif count == 0:
        rest = t("gpu.short.none", room=fmt.size(room))
    else:
        rest = t("gpu.short.some", count=requests_text(count))
    return ":material/cancel: " + t("gpu.short", **fields, short=fmt.size(needed - usable), rest=rest)
