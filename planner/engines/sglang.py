"""SGLang: token pools of whole pages, a smaller pool for window layers, state slots, and what is allocated beside them.

Rules of 0.2.15 to 0.5.23, by version in planner/data/sglang.yaml; every printed figure of public start-up logs that states
its inputs is reproduced (tests/golden/sglang_trtllm_tgi.yaml).
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from planner.cache import CacheBytes, CachePart, check_count
from planner.engines.base import EngineSettings, Pool, card_of
from planner.engines.costs import check_budget, largest, layer_bytes
from planner.engines.sglang_budget import kv_budget_bytes, max_running_requests, mem_fraction_static, req_to_token_bytes
from planner.engines.sglang_cells import NAME, Setup, costs, resolve
from planner.engines.sglang_pools import draft_row_bytes, size, slots_per_request, stage_layers, window_need
from planner.engines.versions import newer_than_known, rules_at, table
from planner.hardware import Gpu
from planner.layers import Cross
from planner.model import Model
from planner.texts import tell
from planner.units import ceil_div, round_up

name = NAME
VERSIONS = {row["from"]: str(row["date"]) for row in table(NAME)["versions"]}

__all__ = [
    "VERSIONS", "Settings", "cache_bytes", "kv_budget_bytes", "launch_command", "max_running_requests", "mem_fraction_static",
    "name", "pool", "req_to_token_bytes",
]  # fmt: skip


class Settings(EngineSettings):
    """`python -m sglang.launch_server` flags; None is the version's own default.

    context_length: None is the model's limit, -1 the longest that fits. data_parallel_size: replicas; with
    enable_dp_attention they share the tensor-parallel ranks. speculative_draft_model: the draft's described `Model`, for
    DFLASH; else speculative_draft_layers layers like the target's. enable_lora: slots for max_loras_per_batch adapters of up to
    max_lora_rank on lora_target_modules. enable_hierarchical_cache: HiCache's pool in host memory, hicache_ratio times the GPU's
    or hicache_size GB on each rank. `tp_size`, `pp_size`, `dp_size` and `max_model_len` are other spellings.
    """

    version: str = "0.5.23"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    kv_cache_dtype: Literal[
        "auto", "float32", "float16", "bfloat16", "bf16", "fp8_e4m3", "fp8_e5m2", "mxfp8", "nvfp4", "fp4_mx_block16", "fp4_e2m1"
    ] = "auto"
    tensor_parallel_size: int = Field(default=1, ge=1)
    pipeline_parallel_size: int = Field(default=1, ge=1)
    data_parallel_size: int = Field(default=1, ge=1)
    dcp_size: int = Field(default=1, ge=1)
    enable_dp_attention: bool = False
    context_length: int | None = Field(default=None, ge=-1)
    mem_fraction_static: float | None = Field(default=None, gt=0, lt=1)
    max_total_tokens: int | None = Field(default=None, ge=1)
    max_running_requests: int | None = Field(default=None, ge=1)
    page_size: int | None = Field(default=None, ge=1)
    chunked_prefill_size: int | None = Field(default=None, ge=1)
    cuda_graph_max_bs: int | None = Field(default=None, ge=1)
    disable_piecewise_cuda_graph: bool = False
    attention_backend: str | None = None
    dsa_prefill_backend: str | None = None
    dsa_decode_backend: str | None = None
    moe_a2a_backend: str | None = None
    language_only: bool = False
    enable_mla: bool = False
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    swa_full_tokens_ratio: float = Field(default=0.8, gt=0, le=1)
    disable_hybrid_swa_memory: bool = False
    mamba_ssm_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    mamba_full_memory_ratio: float = Field(default=0.9, gt=0)
    max_mamba_cache_size: int | None = Field(default=None, ge=1)
    mamba_radix_cache_strategy: Literal["auto", "no_buffer", "extra_buffer"] = "auto"
    speculative_algorithm: Literal["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH"] | None = None
    speculative_num_steps: int | None = Field(default=None, ge=1)
    speculative_eagle_topk: int | None = Field(default=None, ge=1)
    speculative_num_draft_tokens: int | None = Field(default=None, ge=1)
    speculative_draft_layers: int = Field(default=1, ge=1)
    speculative_draft_model: Model | None = None
    enable_lora: bool = False
    max_loras_per_batch: int | None = Field(default=None, ge=1)
    max_lora_rank: int | None = Field(default=None, ge=1)
    lora_target_modules: tuple[str, ...] = ()
    enable_hierarchical_cache: bool = False
    hicache_ratio: float | None = Field(default=None, gt=0)
    hicache_size: int = Field(default=0, ge=0)
    hicache_write_policy: Literal["write_back", "write_through", "write_through_selective"] = "write_through"

    SPELLINGS: ClassVar[dict[str, str]] = {
        "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "dp_size": "data_parallel_size",
        "max_model_len": "context_length", "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
        "nsa_prefill_backend": "dsa_prefill_backend", "nsa_decode_backend": "dsa_decode_backend",
    }  # fmt: skip

    @field_validator("lora_target_modules", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


def _setup(model: Model, settings: Settings | None, gpu: str | Gpu | None) -> Setup:
    settings = settings or Settings()
    return resolve(model, settings, rules_at(NAME, settings.version), card_of(gpu))


def cache_bytes(
    model: Model,
    settings: Settings | None = None,
    tokens: int = 0,
    requests: int = 1,
    encoder_tokens: int = 0,
    prompt_tokens: int | None = None,
) -> CacheBytes:
    """Bytes of the pools' rows and slots that the requests need, on the fullest rank, layer by layer.

    rows = requests x ceil(tokens / page_size) x page_size, each row of a layer as in `sglang_cells.costs`
    window layers with a pool of their own: max(swa_full_tokens_ratio x rows, min(rows, requests x (window + 128 + 2 pages)
    + prefill chunks)), because that pool is a share of the full one and not the window
    states: (requests x slots a request + 1) x bytes of a slot; 1 is the padding slot

    Requests are shared out among replicas. The rows that a buffer has beyond its tokens (one page) belong to the pool, not
    to requests. Image positions of a model with cross-attention layers are rows on every layer. prompt_tokens moves nothing.
    Errors: InputError, EngineRefusal.

    Source: mem_cache/memory_pool.py, model_executor/pool_configurator.py.
    """
    setup = _setup(model, settings, None)
    settings = setup.settings
    tokens, requests = check_count(tokens, "tokens"), check_count(requests, "requests", 1)
    encoder_tokens = check_count(encoder_tokens, "encoder_tokens")
    crossing = any(isinstance(cache, Cross) for layer in model.layers_for(NAME) for cache in layer.caches)
    length = tokens + (encoder_tokens if crossing else 0)
    share = ceil_div(requests, setup.replicas)
    rows = share * round_up(ceil_div(length, settings.dcp_size), setup.page_size)
    slots = share * slots_per_request(setup) + 1
    found = costs(setup)
    window = max((cost.window for cost in found if cost.window is not None), default=0)
    window_rows = max(int(rows * settings.swa_full_tokens_ratio), window_need(setup, window, length, share))
    if all(cost.window is not None for cost in found if cost.row_bytes):
        window_rows = rows
    layers = [layer_bytes(cost, rows if cost.window is None else min(rows, window_rows), slots, share) for cost in found]
    draft = rows * draft_row_bytes(setup, found) if found else 0
    parts = stage_layers(setup, len(found))
    fullest = parts[largest(found, parts, lambda part: sum(layers[cost.index].bytes for cost in part))]
    held = [layer if layer.index in fullest else layer_bytes(found[layer.index], 0, 0) for layer in layers]
    warnings = [text for text in (newer_than_known(NAME, settings.version),) if text]
    if draft and held:
        part = CachePart("draft", ceil_div(rows, share), None, None, None, None, draft, draft)
        held[fullest[-1]] = replace(held[fullest[-1]], parts=(*held[fullest[-1]].parts, part))
        warnings.append(tell("sglang.draft", layer=fullest[-1], bytes=draft))
    rule = tell("rule.sglang", dtype=setup.kv_dtype, page=setup.page_size, ranks=_ranks(setup))
    return CacheBytes(tuple(held), tokens, requests, encoder_tokens, tuple(warnings), rule)


def _ranks(setup: Setup) -> str:
    return tell("rule.ranks", ranks=setup.attention_tp) if setup.attention_tp > 1 else tell("rule.rank")


def pool(model: Model, settings: Settings | None = None, budget_bytes: int = 0, gpu: str | Gpu | None = None) -> Pool:
    """What SGLang makes of a budget (see `kv_budget_bytes`): tokens, window tokens, state slots, requests at once.

    tokens = floor(budget / cell) in whole pages, the least of all pipeline stages; with window pools
    cell = full rows + swa_full_tokens_ratio x window rows, with states the budget is split first (`sglang_pools.size`).

    tokens is the `max_total_num_tokens` that is printed. details: k_bytes and v_bytes as printed, padding rows included;
    swa_tokens, mamba_slots and their bytes; max_running_requests; req_to_token_bytes and draft_bytes, outside the budget.
    fits: a request of context_length fits; a budget below 0 holds nothing. gpu: the card or its name, whose memory decides the
    defaults; without it those of an unknown card. Errors: InputError, EngineRefusal.

    Source: model_executor/pool_configurator.py, mem_cache/kv_cache_configurator.py; versions in planner/data/sglang.yaml.
    """
    setup = _setup(model, settings, gpu)
    return size(setup, costs(setup), check_budget(budget_bytes))


def launch_command(model: Model, settings: Settings | None = None) -> str:
    """The shell command with every setting that differs from its default, each word quoted where the shell needs it."""
    settings = settings or Settings()
    words = ["python", "-m", "sglang.launch_server", "--model-path", model.name]
    for key, value in settings.model_dump(exclude_defaults=True).items():
        if key in ("version", "speculative_draft_layers", "speculative_draft_model") or value in (None, -1, False, ()):
            continue
        flag = "--" + key.replace("_", "-")
        words += [flag] if value is True else [flag, *(map(str, value) if isinstance(value, tuple) else [str(value)])]
    if settings.speculative_draft_model is not None:
        words += ["--speculative-draft-model-path", settings.speculative_draft_model.name]
    return shlex.join(words)
