"""Text Generation Inference: one paged pool with every layer at full length and expanded MLA heads, reserved a request at a time.

No public log prints the free memory that the rule starts from, so results are marked documented, not exact.
Rules of 0.9.4 to 3.3.7, by version in planner/data/tgi.yaml.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from planner.cache import CacheBytes, check_count
from planner.dtypes import StorageFormat
from planner.engines.base import EngineSettings, Pool, PoolGroup, card_of
from planner.engines.costs import LayerCost, check_budget, divide, generation, layer_bytes, owned, refuse_kind
from planner.engines.versions import newer_than_known, rules_at, table
from planner.errors import EngineRefusal
from planner.hardware import Gpu
from planner.layers import Cross, Full, Latent, Layer
from planner.model import Model
from planner.texts import tell
from planner.units import ceil_div

name = "tgi"
LABEL = "TGI"
VERSIONS = {row["from"]: str(row["date"]) for row in table(name)["versions"]}
#: How well results are known, wherever they are shown.
CONFIDENCE = "documented"


class Settings(EngineSettings):
    """`text-generation-launcher` flags; None is the version's own default.

    num_shard: GPUs. max_total_tokens: prompt and answer of one request, -1 the most that fits. attention: the backend, which
    sets the block size. speculate: n-gram or Medusa tokens. `tensor_parallel_size` and `max_model_len` are other spellings.
    """

    version: str = "3.3.7"
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    kv_cache_dtype: Literal["auto", "fp8_e4m3fn", "fp8_e5m2"] = "auto"
    num_shard: int = Field(default=1, ge=1)
    max_total_tokens: int | None = Field(default=None, ge=-1)
    max_input_tokens: int | None = Field(default=None, ge=1)
    max_batch_prefill_tokens: int | None = Field(default=None, ge=1)
    cuda_memory_fraction: float = Field(default=1.0, gt=0, le=1)
    attention: Literal["auto", "flashinfer", "flashdecoding", "flashdecoding-ipex", "paged"] = "auto"
    speculate: int = Field(default=0, ge=0)

    SPELLINGS: ClassVar[dict[str, str]] = {"tensor_parallel_size": "num_shard", "max_model_len": "max_total_tokens"}


@dataclass(frozen=True)
class _Setup:
    settings: Settings
    rules: Mapping[str, Any]
    costs: tuple[LayerCost, ...]
    attention: str
    block_size: int
    window: int | None


def _setup(model: Model, settings: Settings | None, gpu: Gpu | None) -> _Setup:
    settings = settings or Settings()
    rules, facts = rules_at(name, settings.version), table(name)
    layers = owned(model, name)
    if model.attention_heads:
        divide(model.attention_heads, settings.num_shard, "attention heads", LABEL)
    row = facts["kv_dtypes"][settings.kv_cache_dtype]
    form = StorageFormat(settings.kv_cache_dtype, row["bits"])
    costs = tuple(_cost(model, layer, index, settings, form) for index, layer in enumerate(layers))
    attention = settings.attention if settings.attention != "auto" else _attention(model, rules, costs, gpu)
    if attention not in row["attention"]:
        able = ", ".join(row["attention"])
        raise EngineRefusal(f"TGI's {attention} attention cannot read a {settings.kv_cache_dtype} cache; {able} can", engine=name)
    windows = {cost.window for cost in costs if cost.row_bytes}
    uniform = windows.pop() if len(windows) == 1 and rules["window"] == "reserved" else None
    return _Setup(settings, rules, costs, attention, facts["block_sizes"][attention], uniform)


def _attention(model: Model, rules: Mapping[str, Any], costs: tuple[LayerCost, ...], gpu: Gpu | None) -> str:
    """The backend that the launcher picks. Without a GPU, one of compute capability 8 or more is taken."""
    if rules["attention"] == "paged" or (gpu is not None and gpu.vendor not in ("NVIDIA", "")):
        return "paged"
    facts = table(name)["attention"]
    widths = {cost.k_dim for cost in costs if cost.row_bytes}
    if widths <= set(facts["widths"]) and model.model_type not in facts["not"]:
        return "flashinfer"
    return "paged" if 0 < generation(gpu) < facts["capability"] else "flashdecoding"


def _cost(model: Model, layer: Layer, index: int, settings: Settings, form: StorageFormat) -> LayerCost:
    """One layer on one shard: 2 x heads x head_size x bytes a token; MLA expanded to all its heads."""
    if not layer.caches:
        return LayerCost(index, "none")
    if len(layer.caches) > 1:
        raise refuse_kind(layer.caches[-1], index, model, LABEL, "TGI keeps one paged cache a layer and sizes no pool for others")
    cache = layer.caches[0]
    if isinstance(cache, Latent) and cache.expanded is not None:
        heads, key, value = cache.expanded
        kind, width = "full", max(key, value)
    elif isinstance(cache, Full):
        kind, heads, width = cache.kind, cache.kv_heads, max(cache.k_dim, cache.v_dim)
    else:
        raise refuse_kind(cache, index, model, LABEL, "TGI sizes no paged pool for it")
    size = form.bytes(_local_heads(heads, settings.num_shard) * width)
    return LayerCost(
        index, kind, key_bytes=size, value_bytes=size, window=cache.window, heads=_local_heads(heads, settings.num_shard),
        k_dim=width, v_dim=width,
    )  # fmt: skip


def _local_heads(heads: int, shards: int) -> int:
    """heads / shards; one head of a multi-query model on every shard. No other replication: fewer heads are refused."""
    if heads == 1:
        return 1
    if heads < shards:
        raise EngineRefusal(f"TGI does not repeat KV heads: {heads} cannot be shared out among {shards} shards", engine=name)
    return divide(heads, shards, "KV heads", LABEL)


def cache_bytes(
    model: Model,
    settings: Settings | None = None,
    tokens: int = 0,
    requests: int = 1,
    encoder_tokens: int = 0,
    prompt_tokens: int | None = None,
) -> CacheBytes:
    """Bytes of the blocks that the requests reserve on one shard, layer by layer.

    blocks = requests x ceil((tokens + speculate) / block_size), each 2 x block_size x heads x head_size x bytes a layer

    tokens: prompt and answer, which TGI reserves whole at admission. Window layers take full length; before 3.2.1 a model
    whose layers all have one window reserves no more than the window. Image states of cross-attention models are kept
    outside the pool. Errors: InputError, EngineRefusal (recurrent states, index keys, encoder-decoder models, heads).

    Source: models/flash_causal_lm.py, backends/v3/src/block_allocator.rs and queue.rs.
    """
    setup = _setup(model, settings, None)
    tokens, requests = check_count(tokens, "tokens"), check_count(requests, "requests", 1)
    encoder_tokens = check_count(encoder_tokens, "encoder_tokens")
    rows = requests * _request_blocks(setup, tokens) * setup.block_size
    warnings = [text for text in (newer_than_known(name, setup.settings.version),) if text]
    if encoder_tokens and any(isinstance(cache, Cross) for layer in model.layers for cache in layer.caches):
        warnings.append(tell("tgi.images"))
    rule = tell("rule.tgi", block=setup.block_size, shards=setup.settings.num_shard)
    layers = tuple(layer_bytes(cost, rows, 0, requests) for cost in setup.costs)
    return CacheBytes(layers, tokens, requests, encoder_tokens, tuple(warnings), rule)


def _request_blocks(setup: _Setup, tokens: int) -> int:
    held = tokens + setup.settings.speculate if tokens else 0
    return ceil_div(held if setup.window is None else min(held, setup.window), setup.block_size)


def pool(model: Model, settings: Settings | None = None, budget_bytes: int = 0, gpu: str | Gpu | None = None) -> Pool:
    """What TGI makes of a budget (see `kv_budget_bytes`).

    num_blocks = floor(budget / bytes of a block); tokens = num_blocks x block_size, the router's "max batch total tokens"
    requests at once = floor((num_blocks - 1) / blocks of one request); block 0 is kept for health checks

    max_model_len: max_total_tokens as given, else the least of the pool and the model's limit. A budget below 0 holds nothing.
    gpu: the card or its name, which decides the attention backend and so the block size. Errors: InputError, EngineRefusal.
    Source: models/flash_causal_lm.py, backends/v3/src/block_allocator.rs.
    """
    setup = _setup(model, settings, card_of(gpu))
    size = setup.block_size * sum(cost.row_bytes for cost in setup.costs)
    if not size:
        raise EngineRefusal(f"{model.name} keeps nothing that grows with the request: TGI sizes no pool", engine=name)
    blocks = check_budget(budget_bytes) // size
    usable = max(0, blocks - table(name)["reserved_blocks"])
    asked = setup.settings.max_total_tokens
    if asked is None or asked == -1:
        room = max(0, usable * setup.block_size - setup.settings.speculate)
        context = min(room, model.max_context) if model.max_context else room
    else:
        context = asked
    need = _request_blocks(setup, context)
    fits = bool(context and usable >= need)
    found = [newer_than_known(name, setup.settings.version)]
    if not blocks:
        found.append(tell("tgi.no_block"))
    elif not fits:
        found.append(tell("tgi.never", context=context, needed=need, usable=usable))
    return Pool(
        fits=fits, num_blocks=blocks, bytes_per_block=size, tokens=blocks * setup.block_size,
        max_concurrency=usable / need if need else 0.0, max_model_len=context, blocks_per_request=need,
        bytes_per_block_by_stage=(size,), groups=_groups(setup), warnings=tuple(text for text in found if text),
        details={"confidence": CONFIDENCE, "attention": setup.attention, "block_size": setup.block_size, "usable_blocks": usable},
    )  # fmt: skip


def _groups(setup: _Setup) -> tuple[PoolGroup, ...]:
    found: dict[int, list[int]] = {}
    for cost in setup.costs:
        if cost.row_bytes:
            found.setdefault(cost.row_bytes * setup.block_size, []).append(cost.index)
    return tuple(PoolGroup("full", tuple(layers), setup.block_size, size) for size, layers in found.items())


def kv_budget_bytes(settings: Settings, free_bytes: int, total_bytes: int, warmup_cache_bytes: int = 0) -> int:
    """Bytes for the pool on one shard, from the memory that is free at the warm-up prefill's peak; below 0 by what is missing.

    up to 2.4: (free - (1 - f) x total) x W + warm-up cache; from 3.0: free - (1 - f x W) x total + warm-up cache

    f: --cuda-memory-fraction. W: 1.0, 0.95, 0.93 or 0.9 by version, room for the CUDA graphs that are captured afterwards.
    What is missing is not scaled by W. warmup_cache_bytes: blocks of the largest prefill batch, which the warm-up allocated;
    where it did, TGI starts with these blocks at least. The router takes the least of all shards.

    Source: utils/import_utils.py and flash_causal_lm.py of each tag; planner/data/tgi.yaml.
    """
    rules = rules_at(name, settings.version)
    fraction, keep = settings.cuda_memory_fraction, float(rules["keep"])
    if rules["of"] == "total":
        left = free_bytes - (1 - fraction * keep) * total_bytes
    else:
        left = free_bytes - (1 - fraction) * total_bytes
        left *= keep if left > 0 else 1
    return max(0, math.floor(left)) + warmup_cache_bytes if warmup_cache_bytes else math.floor(left)


def prefill_tokens(settings: Settings) -> int | None:
    """Tokens of the warm-up's prefill batch: as given, or max_input_tokens + 50 in releases 2; None where it is estimated."""
    if settings.max_batch_prefill_tokens is not None:
        return settings.max_batch_prefill_tokens
    if settings.max_input_tokens is None or settings.version.startswith("3"):
        return None
    return settings.max_input_tokens + int(table(name)["prefill_margin"])


def fallback_total_tokens(settings: Settings) -> int:
    """The router's limit for a model without a flash implementation, which reports no capacity: no memory arithmetic.

    max(16,000, max_total_tokens, max_batch_prefill_tokens). Source: backends/v3/src/lib.rs; a flan-t5-base start printed 16000.
    """
    asked = (table(name)["fallback_tokens"], settings.max_total_tokens or 0, prefill_tokens(settings) or 0)
    return int(max(asked))


def launch_command(model: Model, settings: Settings | None = None) -> str:
    """The shell command with every setting that differs from its default, each word quoted where the shell needs it."""
    settings = settings or Settings()
    words = ["text-generation-launcher", "--model-id", model.name]
    for key, value in settings.model_dump(exclude_defaults=True).items():
        if key in ("version", "attention") or value in (None, -1):
            continue
        words += [f"--{key.replace('_', '-')}", str(value)]
    before = f"ATTENTION={shlex.quote(settings.attention)} " if settings.attention != "auto" else ""
    return before + shlex.join(words)
