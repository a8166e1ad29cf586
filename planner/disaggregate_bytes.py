"""What must move of one request from a prefill pool to a decode pool: the cache of its prompt, layer by layer.

Only what later tokens read moves: windows no longer than they reach, states once, latents as they lie. Bytes of a position are
the engine's own, from its cache of the same prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner.cache import CacheBytes, CachePart
from planner.capacity_deploy import changed
from planner.capacity_plan import Plan
from planner.engines import engine as find_engine
from planner.engines import sglang_cells, tensorrt_llm_pools
from planner.engines.base import allocated
from planner.engines.versions import rules_at
from planner.engines.vllm_setup import prepare
from planner.layers import Full, Latent
from planner.model import Model
from planner.units import ceil_div, round_up


@dataclass(frozen=True)
class Moved:
    """Bytes of one request. bytes: the cache of the prompt's positions, each stored once; by_kind: the same by kind of layer.
    block_bytes: in whole blocks, as engines send them. received_bytes: what all decode ranks together receive, with heads and
    latents that several of them hold."""

    bytes: int
    block_bytes: int
    received_bytes: int
    by_kind: dict[str, int]


def moved(model: Model, engine: str, decode: Plan, prompt_tokens: int) -> Moved:
    """The bytes that move for a prompt of `prompt_tokens`, as the decode pool stores them.

    bytes = sum over layers of bytes a position x positions that later tokens read + states
    positions: the prompt; of a window W its last W - 1. In blocks of B: ceil(prompt / B) x B, of a window one block more than
    ceil((W - 1) / B) at most. received: heads on each rank as it stores them, latents and states that every rank holds on each.

    Source: each engine's cache_bytes for a position; planner.layers for what a window keeps.
    """
    block = _block(decode)
    once = _whole(model, engine, decode, prompt_tokens)
    states = _states(model, engine, decode)
    content, kinds = _held(model, engine, once, states, prompt_tokens, 1)
    blocks, _ = _held(model, engine, once, states, prompt_tokens, block)
    return Moved(content, blocks, max(blocks, _received(model, engine, decode, blocks, once, prompt_tokens)), kinds)


def _block(found: Plan) -> int:
    details: dict[str, Any] = found.pool.details if found.pool else {}
    return int(details.get("block_size") or details.get("tokens_per_block") or details.get("page_size") or 1)


def _whole(model: Model, engine: str, found: Plan, tokens: int, ranks: int = 1) -> CacheBytes:
    """The engine's cache of the prompt on one of `ranks` ranks, all stages together."""
    return allocated(model, find_engine(engine), _alone(found, ranks), tokens, 1, found.gpu)


def _alone(found: Plan, ranks: int) -> Any:
    words = {name: 1 for name in ("pipeline_parallel_size", "data_parallel_size") if hasattr(found.settings, name)}
    return changed(found.settings, tensor_parallel_size=ranks, **words)


def _states(model: Model, engine: str, found: Plan) -> dict[int, int]:
    """Bytes of one request's recurrent state by layer, as the engine stores them on one rank of one."""
    settings = _alone(found, 1)
    if engine == "vllm":
        sizes: dict[int, int] = {}
        for placed in prepare(model, settings, found.gpu).layout.placed:
            if placed.spec.kind == "mamba":
                sizes[placed.layer] = sizes.get(placed.layer, 0) + placed.spec.natural_bytes
        return sizes
    rules = rules_at(engine, settings.version)
    if engine == "sglang":
        costs = sglang_cells.costs(sglang_cells.resolve(model, settings, rules, found.gpu))
    else:
        costs = tensorrt_llm_pools.resolve(model, settings, rules, found.gpu).costs
    return {cost.index: cost.slot_bytes for cost in costs if cost.slot_bytes}


def _held(
    model: Model, engine: str, held: CacheBytes, states: dict[int, int], tokens: int, block: int
) -> tuple[int, dict[str, int]]:
    """Bytes of the positions that later tokens read, in whole blocks, and by kind of layer."""
    layers, kinds, total = model.layers_for(engine), dict[str, int](), 0
    for layer in held.layers:
        if layer.index >= len(layers):
            continue
        size = sum(_read(part, tokens, block) for part in layer.parts if part.kind not in ("state", "padding", "draft"))
        size += states.get(layer.index, 0)
        kind = layers[layer.index].kind
        kinds[kind] = kinds.get(kind, 0) + size
        total += size
    return total, kinds


def _read(part: CachePart, tokens: int, block: int) -> int:
    if not part.positions:
        return part.bytes
    needed = round_up(tokens, block)
    if part.window is not None:
        reach = part.window - 1
        needed = min(needed, reach if block == 1 else round_up(reach, block) + block)
    return ceil_div(part.bytes * min(needed, part.positions), part.positions)


def _received(model: Model, engine: str, decode: Plan, blocks: int, once: CacheBytes, tokens: int) -> int:
    """What all ranks receive: whole heads where there are more ranks than heads, latents on each."""
    ranks = decode.tensor_parallel_size
    caches = [cache for layer in model.layers_for(engine) for cache in layer.caches]
    if ranks == 1 or not any(isinstance(cache, Full | Latent) for cache in caches):
        return blocks
    each = _whole(model, engine, decode, tokens, ranks)
    return ceil_div(blocks * each.total_bytes * ranks, max(1, once.total_bytes))
