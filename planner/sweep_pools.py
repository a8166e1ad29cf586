"""Closed forms of the engines with paged pools: vLLM, SGLang, TensorRT-LLM and TGI."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.engines import sglang, tensorrt_llm, tgi
from planner.engines.sglang_cells import costs, resolve
from planner.engines.sglang_pools import draft_row_bytes, slots_per_request, stage_layers, window_slots
from planner.engines.tensorrt_llm_pools import Setup as TrtSetup
from planner.engines.tensorrt_llm_pools import blocks_of as trt_blocks_of
from planner.engines.tensorrt_llm_pools import resolve as trt_resolve
from planner.engines.tensorrt_llm_pools import stage_layers as trt_stages
from planner.engines.versions import rules_at
from planner.engines.vllm_capacity import Load, blocks_of
from planner.engines.vllm_setup import Setup as VllmSetup
from planner.engines.vllm_specs import Spec
from planner.engines.vllm_tables import Rules
from planner.layers import Cross
from planner.model import Model
from planner.sweep_forms import ClosedForm, Integers, Terms, Unit, ceil_div, one, round_up, times


def vllm_form(setup: VllmSetup) -> ClosedForm:
    """requests x sum over groups of blocks(tokens) x bytes of the pool's blocks; groups with the same rule together."""
    capacity = setup.capacity
    terms = Terms()
    for group in capacity.groups:
        key, unit, count = _vllm_blocks(group.spec, capacity.load, capacity.rules)
        terms.each(key, unit, count * capacity.bytes_per_block)
    return terms.form("blocks of each group of layers")


def _vllm_blocks(spec: Spec, load: Load, rules: Rules) -> tuple[Any, Unit, int]:
    """`vllm_capacity.blocks_of` over arrays: a key that equal rules share, blocks, and how many times they are taken."""
    size, cap, more = spec.block_size, None, 0
    if spec.kind in ("full", "mla"):
        size *= load.dcp  # ceil(ceil(L / d) / B) = ceil(L / (d B))
    elif spec.kind in ("sliding", "sliding_mla", "chunked"):
        window = spec.window or 0
        cap = window + load.in_flight if spec.kind == "chunked" else window - 1 + load.extra + load.in_flight
        more = 0 if spec.kind == "chunked" else 1
    elif spec.kind == "cross" or rules.mamba != "length" or not load.prefix_caching:
        # The same at every length.
        return "one", one, blocks_of(spec, 1, load, rules)

    def blocks(tokens: Integers) -> Integers:
        count = ceil_div(tokens if cap is None else np.minimum(tokens, cap), size)
        return count + more if more else count

    return (size, cap, more), blocks, 1


def tgi_form(model: Model, settings: tgi.Settings) -> ClosedForm:
    """requests x whole blocks x bytes of a row over all layers."""
    setup = tgi._setup(model, settings, None)
    size, more, window = setup.block_size, settings.speculate, setup.window

    def blocks(tokens: Integers) -> Integers:
        held = tokens + more if more else tokens
        return ceil_div(held if window is None else np.minimum(held, window), size)

    terms = Terms()
    terms.each("blocks", blocks, size * sum(cost.row_bytes for cost in setup.costs))
    return terms.form("whole blocks of a request")


def tensorrt_llm_form(model: Model, settings: tensorrt_llm.Settings, encoder_tokens: int) -> ClosedForm:
    """Rows in whole blocks by window, state slots and the encoder's blocks; the fullest stage, and the draft's rows."""
    setup = trt_resolve(model, settings, rules_at("tensorrt-llm", settings.version), None)
    parts = trt_stages(setup)
    terms = Terms(len(parts))
    for stage, part in enumerate(parts):
        for cost in (setup.costs[index] for index in part):
            if cost.row_bytes:
                terms.each(("blocks", cost.window), _trt_blocks_in(setup, cost.window), setup.block_size * cost.row_bytes, stage)
            slots = cost.slot_bytes * setup.slots_per_request
            crossing = setup.cross[cost.index][2] * trt_blocks_of(setup, encoder_tokens) * setup.block_size
            if slots or crossing:
                terms.each("one", one, slots + crossing, stage)
    if setup.draft_row:
        draft = settings.max_draft_len

        def blocks(tokens: Integers) -> Integers:
            return _trt_blocks(setup, tokens + draft)

        terms.each("draft", blocks, setup.block_size * setup.draft_row, None)
    return terms.form("whole blocks by window, and state slots")


def _trt_blocks(setup: TrtSetup, tokens: Integers) -> Integers:
    sink = (setup.settings.sink_token_length or 0) % setup.block_size
    return ceil_div(tokens + (setup.block_size - sink if sink else 0), setup.block_size)


def _trt_blocks_in(setup: TrtSetup, window: int | None) -> Unit:
    most = None if window is None else trt_blocks_of(setup, window) + 1

    def blocks(tokens: Integers) -> Integers:
        found = _trt_blocks(setup, tokens + setup.settings.max_draft_len)
        return found if most is None else np.minimum(found, most)

    return blocks


def sglang_form(model: Model, settings: sglang.Settings, encoder_tokens: int) -> ClosedForm:
    """Rows in whole pages, rows of the window pool, state slots; the fullest stage, and the draft's rows."""
    setup = resolve(model, settings, rules_at("sglang", settings.version), None)
    settings, found = setup.settings, costs(setup)
    crossing = any(isinstance(cache, Cross) for layer in model.layers_for("sglang") for cache in layer.caches)
    more, dcp, page, replicas = encoder_tokens if crossing else 0, settings.dcp_size, setup.page_size, setup.replicas

    def length(tokens: Integers) -> Integers:
        return tokens + more if more else tokens

    def rows(tokens: Integers, requests: Integers) -> Integers:
        return round_up(ceil_div(length(tokens), dcp), page) * ceil_div(requests, replicas)

    window = max((cost.window for cost in found if cost.window is not None), default=0)
    each, shared = window_slots(setup, window)

    def window_rows(tokens: Integers, requests: Integers) -> Integers:
        share, full = ceil_div(requests, replicas), rows(tokens, requests)
        need = np.minimum(share * round_up(length(tokens), page), round_up(share * each + shared, page))
        return np.asarray(np.minimum(full, np.maximum(times(full, settings.swa_full_tokens_ratio), need)))

    slots = slots_per_request(setup)
    alone = all(cost.window is not None for cost in found if cost.row_bytes)
    parts = stage_layers(setup, len(found))
    terms = Terms(len(parts))
    for stage, part in enumerate(parts):
        for cost in (found[index] for index in part):
            windowed = cost.window is not None and not alone
            if cost.row_bytes:
                terms.together(windowed, window_rows if windowed else rows, cost.row_bytes, stage)
            if cost.slot_bytes:
                terms.together("slots", lambda t, r: ceil_div(r, replicas) * slots + 1, cost.slot_bytes, stage)
    draft = draft_row_bytes(setup, found) if found else 0
    if draft:
        terms.together(False, rows, draft, None)
    return terms.form("whole pages, window pool and state slots")
