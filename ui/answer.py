"""The answer: bytes in all, per request and per token; what transformers allocates; the share of one GPU; the command."""

from __future__ import annotations

import shlex

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import planner
from model_configs import catalogue
from planner.cache import CacheBytes, architecture_bytes
from planner.dtypes import storage_format
from planner.engines.transformers import Settings
from planner.hardware import Gpu
from planner.layers import State
from planner.model import Model
from ui import charts, messages
from ui import format as fmt
from ui.i18n import t
from ui.inputs import Workload, over_limit


def requests_text(count: int) -> str:
    return t("answer.requests.one") if count == 1 else t("answer.requests.many", count=f"{count:,}")


def headline(model: Model, cache: CacheBytes, workload: Workload) -> None:
    """The figures that were asked for, before anything else."""
    st.header(messages.plain(model.name), anchor=False)
    st.markdown(messages.plain(_subtitle(model, workload)))
    st.caption(messages.plain(" ".join([t("answer.source", source=_source(model)), *model.notes])))
    if model.assumption:
        st.warning(messages.plain(model.assumption), icon=":material/help:", title=t("answer.assumption"))
    tiles = st.grid(4, min_column_width=150)
    tokens, number = f"{cache.tokens:,}", requests_text(cache.requests)
    tiles.metric(
        t("answer.total"), fmt.size(cache.total_bytes), fmt.exact(cache.total_bytes), delta_color="off", delta_arrow="off",
        border=True, help=t("answer.total.help", exact=fmt.exact(cache.total_bytes), requests=number, tokens=tokens),
    )  # fmt: skip
    tiles.metric(
        t("answer.request"), fmt.size(cache.bytes_per_request), fmt.exact(cache.bytes_per_request), delta_color="off",
        delta_arrow="off", border=True, help=t("answer.request.help", exact=fmt.exact(cache.bytes_per_request), tokens=tokens),
    )  # fmt: skip
    tiles.metric(
        t("answer.token"), fmt.size(cache.bytes_per_token), _next_token(model, cache, workload), delta_color="off",
        delta_arrow="off", border=True,
        help=t("answer.token.help", exact=f"{cache.bytes_per_token:,.10g} bytes", tokens=tokens),
    )  # fmt: skip
    _gpu_tile(tiles, model, cache, workload.gpu)
    over_limit(model, workload.tokens)


def _subtitle(model: Model, workload: Workload) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in model.kinds.items())
    layers = t("answer.layers", count=len(model.layers), kinds=kinds)
    own = sorted({cache.kv_heads for layer in model.layers for cache in layer.caches if hasattr(cache, "kv_heads")})
    heads = ""
    if own and model.attention_heads:
        heads = t("answer.heads", kv=" / ".join(str(n) for n in own), query=model.attention_heads)
    limit = t("answer.limit", limit=f"{model.max_context:,}") if model.max_context else t("answer.no_limit")
    text = t("answer.subtitle", layers=layers, dtype=workload.kv_cache_dtype or model.dtype, heads=heads, limit=limit)
    return text


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


def _gpu_tile(tiles: DeltaGenerator, model: Model, cache: CacheBytes, gpu: Gpu | None) -> None:
    if gpu is None:
        return
    label = t("answer.gpu")
    if model.weight_bytes is None:
        unknown = t("answer.gpu.unknown")
        tiles.metric(label, fmt.size(cache.total_bytes), unknown, delta_color="off", delta_arrow="off", border=True)
        return
    needed = model.weight_bytes + cache.total_bytes
    free = gpu.usable_bytes - needed
    verdict = t("answer.gpu.fits", free=fmt.size(free)) if free >= 0 else t("answer.gpu.short", short=fmt.size(-free))
    usable = fmt.exact(gpu.usable_bytes)
    tiles.metric(
        label, _percent(needed, gpu.usable_bytes), verdict, delta_color="green" if free >= 0 else "red",
        delta_arrow="off", border=True,
        help=t("answer.gpu.help", gpu=messages.plain(gpu.name), used=fmt.exact(needed), usable=usable),
    )  # fmt: skip


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:,.1f} %"


def in_transformers(model: Model, cache: CacheBytes, workload: Workload, settings: Settings) -> None:
    """What transformers allocates with the chosen cache implementation, and why that differs."""
    found = planner.engine("transformers").cache_bytes(
        model, settings, tokens=cache.tokens, requests=cache.requests, encoder_tokens=cache.encoder_tokens
    )
    difference = found.total_bytes - cache.total_bytes
    key = "implementation.same" if not difference else "implementation.more" if difference > 0 else "implementation.less"
    text = t(key, total=fmt.size(found.total_bytes), difference=fmt.size(abs(difference)), own=fmt.size(cache.total_bytes))
    reasons = _reasons(model, found, workload, settings)
    with st.container(border=True, gap="xsmall"):
        st.caption(f":material/memory: {t('answer.implementation', name=settings.cache_implementation)}")
        st.markdown(" ".join([text, *reasons]))


def _reasons(model: Model, found: CacheBytes, workload: Workload, settings: Settings) -> list[str]:
    name, kv = settings.cache_implementation, workload.kv_cache_dtype
    dtype = model.dtype if settings.dtype == "auto" else settings.dtype
    caches = [cache for layer in model.layers_for("transformers") for cache in layer.caches]
    reasons = []
    if "own_cache" in model.cache_rules and name != "dynamic":
        reasons.append(t("implementation.own"))
        name = "dynamic"
    if name == "quantized":
        if settings.backend == "fp8":
            reasons.append(t("implementation.quantized_fp8"))
        else:
            reasons.append(t(
                "implementation.quantized", nbits=settings.nbits, group=settings.q_group_size,
                scale=storage_format(dtype).bits // 8, residual=settings.residual_length - 1,
            ))  # fmt: skip
    elif kv is not None and settings.dtype == "auto":
        reasons.append(t("implementation.dtype", kv=kv, dtype=model.dtype))
    if name in ("static", "offloaded_static"):
        length = max(found.tokens, settings.max_cache_len or 0)
        reasons.append(t("implementation.static", length=f"{length:,}"))
        if any(cache.window is not None and cache.window <= length for cache in caches):
            reasons.append(t("implementation.static_window"))
    if name.startswith("offloaded"):
        reasons.append(t("implementation.offloaded"))
    if name == "dynamic" and not reasons:
        reasons.append(t("implementation.dynamic"))
    if settings.dtype not in ("auto", model.dtype) and any(isinstance(cache, State) for cache in caches):
        reasons.append(t("implementation.states", dtype=settings.dtype))
    if found.storage_bytes != found.total_bytes:
        reasons.append(t("implementation.storage", storage=fmt.size(found.storage_bytes - found.total_bytes)))
    return reasons


def on_gpu(model: Model, cache: CacheBytes, gpu: Gpu | None) -> None:
    """The share of one GPU that weights and cache take, and how many such requests it holds."""
    if gpu is None:
        return
    usable, weights = gpu.usable_bytes, model.weight_bytes
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
    st.caption(t("gpu.caveat", status=t(f"gpu.status.{gpu.status}")))
    if model.weights is not None:
        confidence = t(f"weights.{model.weights.confidence}")
        title = t("weights.title", size=fmt.size(model.weights.bytes), confidence=confidence)
        with st.expander(title, icon=":material/fact_check:"):
            rows = [
                {
                    t("weights.name"): item.name, t("weights.params"): fmt.cell(item.params),
                    t("weights.gib"): item.bytes / planner.GIB,
                    t("weights.confidence"): item.confidence, t("weights.source"): item.source,
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


def command(model: Model, argument: str, workload: Workload, encoder_tokens: int) -> None:
    """The shell command that gives the same figures."""
    words = [f"python -m planner kv {argument}", f"--tokens {workload.tokens}", f"--requests {workload.requests}"]
    if workload.kv_cache_dtype:
        words.append(f"--kv-cache-dtype {workload.kv_cache_dtype}")
    if encoder_tokens:
        words.append(f"--encoder-tokens {encoder_tokens}")
    if model.assumption:
        words.append("--assume-plain-attention")
    if workload.gpu is not None:
        words.append(f"--gpu {shlex.quote(workload.gpu_argument)}")
    st.header(t("command.title"), anchor=False)
    st.code(" ".join(words), language="bash", wrap_lines=True)
    if argument == "config.json":
        st.caption(t("command.note"))
