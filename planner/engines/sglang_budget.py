"""How SGLang arrives at the memory of its pools, and what it allocates beside them.

Source: server_args.py of 0.2.15 to 0.5.15, arg_groups/memory_hook.py and mem_cache/kv_cache_configurator.py of 0.5.23.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.engines.versions import rules_at, table
from planner.errors import InputError
from planner.layers import Latent
from planner.model import Model
from planner.units import GIB, MIB

if TYPE_CHECKING:
    from planner.engines.sglang import Settings

NAME = "sglang"


def graph_defaults(settings: Settings, gpu_memory_bytes: int | None) -> tuple[int, int]:
    """chunked_prefill_size and cuda_graph_max_bs: as given, else by the card's memory in MiB and whether tp is 4 or more.

    The second is 0 before 0.5.3, where no rule reads it.

    Source: the memory steps of server_args.py, in planner/data/sglang.yaml under gpu_defaults.
    """
    steps = table(NAME)["gpu_defaults"][rules_at(NAME, settings.version)["graphs"]]
    if gpu_memory_bytes is None:
        chunk, batch = steps["unknown"]
    else:
        row = next(row for row in steps["rows"] if row[0] is None or gpu_memory_bytes / MIB < row[0])
        chunk, batch = row[1], row[2 if settings.tensor_parallel_size < 4 else 3]
    return settings.chunked_prefill_size or chunk, settings.cuda_graph_max_bs or batch or 0


def mem_fraction_static(model: Model, settings: Settings, gpu_memory_bytes: int) -> float:
    """The share of free memory that weights and pools get together: --mem-fraction-static, or the version's default.

    0.2 to 0.4.5: a step by tp. 0.4.6: by tp x pp and card. 0.4.10: round((card - reserve) / card, 3), reserve from a table by
    card. 0.5.3 on: the same with reserve MiB = 512 + 1.5 x max(chunk, 2048) + 2 x cuda_graph_max_bs + 128 x tp x pp, what
    DP attention, speculation and prefill graphs take, and at least 10,240 on a card above 60 GiB.
    Multimodal models: x 0.95 x (1 - 0.1 x (ViT layers x width^2 / (24 x 1024^2) - 1)), the bracket in 0.8 .. 1.05.

    gpu_memory_bytes: what nvidia-smi reports for the card.
    Source: planner/data/sglang.yaml, `fractions`; a Kimi-K2.5 start on eight 288 GiB cards printed 0.8260405859375.
    """
    if settings.mem_fraction_static is not None:
        return settings.mem_fraction_static
    if gpu_memory_bytes <= 0:
        raise InputError("the card's memory must be above 0", field="gpu_memory_bytes")
    facts = table(NAME)["fractions"][rules_at(NAME, settings.version)["fraction"]]
    fraction: float = _RULES[facts["rule"]](facts, model, settings, gpu_memory_bytes)
    return fraction * _vision_factor(model, settings)


def _by_ranks(facts: Mapping[str, Any], model: Model, settings: Settings, card: int) -> float:
    return _step(facts["steps"], settings.tensor_parallel_size)


def _step(steps: list[list[float]], ranks: int) -> float:
    return next(float(value) for least, value in steps if ranks >= least)


def _by_card(facts: Mapping[str, Any], model: Model, settings: Settings, card: int) -> float:
    size = card / GIB
    ranks = settings.tensor_parallel_size * settings.pipeline_parallel_size
    fraction = _step(facts["steps"], ranks) if size <= facts["table_gib"] else float(facts["above"])
    if size > facts["large_gib"]:
        return float(min(fraction + facts["flat_gib"] * (1 - fraction) / size, (size - facts["least_gib"]) / size))
    return fraction


def _reserve_table(facts: Mapping[str, Any], model: Model, settings: Settings, card: int) -> float:
    ranks = settings.tensor_parallel_size * settings.pipeline_parallel_size
    row = next((row for row in facts["steps"] if card < row[0] * GIB), None)
    reserve: float = row[1] + row[2] * ranks if row else facts["else"]
    reserve += facts["speculation"] * (settings.speculative_algorithm is not None)
    reserve += facts["dp_attention"] * settings.enable_dp_attention
    return round((card - reserve * GIB) / card, 3)


def _reserve_sum(facts: Mapping[str, Any], model: Model, settings: Settings, card: int) -> float:
    chunk, batch = graph_defaults(settings, card)
    reserve: float = facts["base"] + facts["activation"] * max(chunk, 2048) + facts["graph"] * batch
    reserve += facts["ranks"] * settings.tensor_parallel_size * settings.pipeline_parallel_size
    if settings.enable_dp_attention:
        large = facts["dp_large"] if batch > facts["dp_large_above"] else 0
        reserve += batch * settings.data_parallel_size * (facts["dp"] + large)
    if facts["prefill_graphs"] and not settings.disable_piecewise_cuda_graph:
        latent = any(isinstance(cache, Latent) for layer in model.layers_for(NAME) for cache in layer.caches)
        reserve += facts["mla_prefill_graphs"] if latent else facts["prefill_graph"] * _prefill_graphs(chunk)
    if card > facts["floor_above"] * MIB:
        reserve = max(reserve, facts["floor"])
    if settings.speculative_algorithm not in (None, "NGRAM"):
        reserve += facts["standalone" if settings.speculative_algorithm == "STANDALONE" else "eagle"]
    reserve += facts["deepep"] * (settings.moe_a2a_backend == "deepep")
    return round((card / MIB - reserve) / (card / MIB), 3)


def _prefill_graphs(chunk: int) -> int:
    sizes = table(NAME)["prefill_graph_sizes"]
    first, step = sizes["then"]
    listed = [size for low, high, by in sizes["ranges"] for size in range(low, high + 1, by)]
    return sum(size <= chunk for size in listed + list(range(first, chunk + 1, step)))


_RULES = {"by_ranks": _by_ranks, "by_card": _by_card, "reserve_table": _reserve_table, "reserve_sum": _reserve_sum}


def _vision_factor(model: Model, settings: Settings) -> float:
    tower, facts = model.config.get("vision_config"), table(NAME)["vision"]
    if not isinstance(tower, Mapping) or settings.version.startswith(("0.2", "0.3")) or settings.language_only:
        return 1.0
    layers, width = (
        next((tower[word] for word in facts[words] if isinstance(tower.get(word), int)), facts[default])
        for words, default in (("layer_words", "layers"), ("hidden_words", "hidden"))
    )
    ratio = layers * width**2 / (facts["layers"] * facts["hidden"] ** 2)
    adjusted = max(facts["least"], min(facts["most"], 1.0 - facts["scale"] * (ratio - 1.0)))
    return float(facts["factor"] * adjusted)


def kv_budget_bytes(
    model: Model,
    settings: Settings,
    free_before_bytes: int,
    free_after_bytes: int,
    gpu_memory_bytes: int | None = None,
    reserved_bytes: int = 0,
) -> int:
    """Bytes for the KV pool and the state pool together; below 0 by what is missing where nothing is left.

    budget = free after loading - free before loading x (1 - mem_fraction_static) - reserved

    free_before_bytes: free memory once the CUDA context and NCCL are up, before weights; not the card's capacity, so what
    other processes hold is not charged to the fraction. free_after_bytes: after loading, the least of all ranks.
    gpu_memory_bytes: the card, for the fraction's default (default: free_before_bytes). reserved_bytes: a multimodal
    feature cache. At 0 and below SGLang refuses to start.

    Source: mem_cache/kv_cache_configurator.py of 0.5.23; a Llama-3.1-8B start on an 80 GB card: 63.72 - 78.81 x 0.12 GiB.
    """
    fraction = mem_fraction_static(model, settings, gpu_memory_bytes or free_before_bytes)
    return math.floor(free_after_bytes - free_before_bytes * (1 - fraction) - reserved_bytes)


def max_running_requests(settings: Settings, tokens: int, context: int) -> int:
    """Requests that one replica runs at once: min(max(tokens / context x 512, 2048), top), and from 0.5.12 at most tokens / 2.

    A given --max-running-requests is shared out among the DP attention replicas. Speculative decoding sets 48 where none is.
    Source: planner/data/sglang.yaml, `running`.
    """
    rule = rules_at(NAME, settings.version)["running"]
    asked = asked_running(settings)
    found = asked if asked is not None else min(max(int(tokens / context * 512), 2048), rule["top"]) + rule["plus"]
    return min(found, tokens // 2) if rule["half"] else found


def asked_running(settings: Settings) -> int | None:
    """What was asked for each replica, None where the default applies."""
    asked = settings.max_running_requests
    if asked is None and settings.speculative_algorithm is not None:
        asked = int(table(NAME)["speculative_running"])
    if asked is None:
        return None
    return max(1, asked // (settings.data_parallel_size if settings.enable_dp_attention else 1))


def req_to_token_bytes(settings: Settings, running: int, context: int, page_size: int = 1) -> int:
    """The table from requests to slots: int32 x (requests + rows) x (context + columns), allocated outside the budget.

    columns: 4 (8 in 0.2) and the draft tokens; with pages and speculation at least two steps' worth of tokens and a page.
    Source: mem_cache/memory_pool.py, allocation_sizing.py; a 128k model with 2,049 rows took 1.0 GiB.
    """
    rules = rules_at(NAME, settings.version)
    draft = settings.speculative_num_draft_tokens or 0
    columns = rules["columns"] + draft
    if settings.speculative_algorithm is not None and page_size > 1:
        step = max((settings.speculative_num_steps or 1) * (settings.speculative_eagle_topk or 1), draft)
        columns = max(columns, 2 * step + page_size - 1)
    return int(4 * (running + rules["rows"]) * (context + columns))
