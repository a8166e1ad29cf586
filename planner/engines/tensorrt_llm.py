"""TensorRT-LLM: blocks of tokens for all layers of a window, a cross pool, and state slots for the whole batch.

Rules of 0.5 to 1.4, by version in planner/data/tensorrt_llm.yaml; every printed figure of public start-up logs that states its
inputs is reproduced (tests/golden/sglang_trtllm_tgi.yaml).
"""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from planner.cache import CacheBytes, CachePart, check_count
from planner.engines.base import EngineSettings, Pool, card_of
from planner.engines.costs import check_budget, largest, layer_bytes
from planner.engines.tensorrt_llm_pools import NAME, Setup, blocks_of, cross_too_short, layer_rows, pool_of, resolve, stage_layers
from planner.engines.versions import newer_than_known, rules_at, table
from planner.hardware import Gpu
from planner.layers import Cross
from planner.model import Model
from planner.texts import tell

name = NAME
VERSIONS = {row["from"]: str(row["date"]) for row in table(NAME)["versions"]}

__all__ = ["VERSIONS", "Settings", "available_bytes", "cache_bytes", "kv_budget_bytes", "launch_command", "name", "pool"]


class Settings(EngineSettings):
    """Arguments of `LLM` and `KvCacheConfig` (`trtllm-serve` flags); None is the version's own default.

    backend: pytorch, or tensorrt for the C++ engines. kv_cache_dtype: KvCacheConfig's `dtype`. max_attention_window: windows
    repeated over the layers; without it window layers keep everything. max_seq_len: None is the model's limit, -1 the longest
    that fits. num_nextn_predict_layers: MTP or EAGLE3 layers, on the last pipeline stage. max_lora_rank, max_loras,
    max_cpu_loras, lora_target_modules: LoraConfig's, adapters being served where max_lora_rank is set; device_cache_percent:
    PeftCacheConfig's share. `tp_size`, `pp_size`, `kv_cache_free_gpu_memory_fraction` and `max_model_len` are other spellings.
    """

    version: str = "1.4.0rc4"
    backend: Literal["pytorch", "tensorrt"] | None = None
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    kv_cache_dtype: Literal["auto", "float32", "float16", "bfloat16", "fp8", "int8", "nvfp4"] = "auto"
    tensor_parallel_size: int = Field(default=1, ge=1)
    pipeline_parallel_size: int = Field(default=1, ge=1)
    enable_attention_dp: bool = False
    max_seq_len: int | None = Field(default=None, ge=-1)
    max_input_len: int | None = Field(default=None, ge=1)
    max_batch_size: int | None = Field(default=None, ge=1)
    tokens_per_block: int | None = Field(default=None, ge=1)
    free_gpu_memory_fraction: float = Field(default=0.9, gt=0, lt=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_gpu_total_bytes: int = Field(default=0, ge=0)
    max_attention_window: list[int] | None = None
    sink_token_length: int | None = Field(default=None, ge=0)
    host_cache_size: int | None = Field(default=None, ge=0)
    cross_kv_cache_fraction: float | None = Field(default=None, gt=0, lt=1)
    enable_block_reuse: bool = True
    mamba_ssm_cache_dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    max_draft_len: int = Field(default=0, ge=0)
    num_nextn_predict_layers: int = Field(default=0, ge=0)
    max_lora_rank: int | None = Field(default=None, ge=1, le=1 << 16)
    max_loras: int | None = Field(default=None, ge=1, le=4096)
    max_cpu_loras: int | None = Field(default=None, ge=1, le=1 << 20)
    lora_target_modules: list[str] | None = None
    device_cache_percent: float | None = Field(default=None, gt=0, lt=1)

    SPELLINGS: ClassVar[dict[str, str]] = {
        "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "max_model_len": "max_seq_len",
        "kv_cache_free_gpu_memory_fraction": "free_gpu_memory_fraction",
    }  # fmt: skip


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
    """Bytes of the blocks and state slots that the requests need on the fullest rank, layer by layer.

    blocks = requests x ceil((tokens + draft tokens) / tokens_per_block), a sink padded to whole blocks
    window layers under max_attention_window: ceil(min(tokens, window) / P) and one block more once the window moves
    cross layers: ceil(encoder_tokens / P) blocks of the second pool. states: one slot a request

    Each block of a layer: P x 2 x ceil(kv_heads / tp) x head_dim x bytes; MLA's one latent on every rank.
    Errors: InputError, EngineRefusal. Source: resource_manager.py, mamba_cache_manager.py, kvCacheManager.cpp.
    """
    setup = _setup(model, settings, None)
    tokens, requests = check_count(tokens, "tokens"), check_count(requests, "requests", 1)
    encoder_tokens = check_count(encoder_tokens, "encoder_tokens")
    warnings = [text for text in (newer_than_known(NAME, setup.settings.version),) if text]
    crossing = any(isinstance(cache, Cross) for layer in model.layers_for(NAME) for cache in layer.caches)
    if crossing and setup.backend == "pytorch" and encoder_tokens > setup.cross_length:
        warnings.append(cross_too_short(encoder_tokens, setup.cross_length))
    held = []
    for cost in setup.costs:
        rows = requests * layer_rows(setup, cost, tokens)
        layer = layer_bytes(cost, rows, requests * setup.slots_per_request, requests)
        held.append(setup.with_cross(layer, blocks_of(setup, encoder_tokens) * setup.block_size, requests))
    parts = stage_layers(setup)
    fullest = parts[largest(setup.costs, parts, lambda part: sum(held[cost.index].bytes for cost in part))]
    for index, cost in enumerate(setup.costs):
        if index not in fullest:
            held[index] = setup.with_cross(layer_bytes(cost, 0, 0), 0, requests)
    rule = tell("rule.trt", dtype=setup.kv_dtype, block=setup.block_size, ranks=setup.ranks)
    if setup.draft_row:
        # On the last stage in truth; counted on the fullest, which is never less.
        size = requests * blocks_of(setup, tokens + setup.settings.max_draft_len) * setup.block_size * setup.draft_row
        last = held[fullest[-1]]
        held[fullest[-1]] = replace(last, parts=(*last.parts, CachePart("draft", 0, None, None, None, None, size, size)))
    return CacheBytes(tuple(held), tokens, requests, encoder_tokens, tuple(warnings), rule)


def pool(model: Model, settings: Settings | None = None, budget_bytes: int = 0, gpu: str | Gpu | None = None) -> Pool:
    """What TensorRT-LLM makes of a budget (see `kv_budget_bytes`).

    tokens = floor((budget - state slots) / bytes per token), the least of all ranks and of max_tokens
    blocks = tokens / tokens_per_block: rounded up in the C++ engines and in PyTorch before 1.2, so that the pool may exceed
    the budget by less than one block; rounded down from 1.2

    Several windows: a pool each, of equal shares (before 1.2 by window x bytes). Encoder-decoder: the budget is shared by
    cross_kv_cache_fraction. Names are the log's: num_blocks "primary pool", tokens "max tokens in paged KV cache".
    A budget below 0 holds nothing. gpu: the card or its name; cards that cannot run the cache are refused.
    Errors: InputError, EngineRefusal. Source: kvCacheManager.cpp, resource_manager.py; planner/data/tensorrt_llm.yaml.
    """
    return pool_of(_setup(model, settings, gpu), check_budget(budget_bytes))


def available_bytes(total_bytes: int, peak_torch_bytes: int, peak_other_bytes: int, trial_cache_bytes: int) -> int:
    """What the PyTorch backend's trial run leaves: total - peak of torch - peak of all else + the trial's own cache.

    Below 0 by what is missing where nothing is left.

    Source: tensorrt_llm/_torch/pyexecutor/_util.py.
    """
    return total_bytes - peak_torch_bytes - peak_other_bytes + trial_cache_bytes


def kv_budget_bytes(settings: Settings, available_bytes: int) -> int:
    """Bytes for the cache: available x free_gpu_memory_fraction, at most max_gpu_total_bytes where that is given.

    available_bytes: in the C++ engines what cudaMemGetInfo calls free after weights, execution context, runtime and decoder
    buffers; in the PyTorch backend see `available_bytes`. The fraction is of what is left, not of the card. Below 0
    nothing is left to take a fraction of, and the budget is what is missing.

    Source: kvCacheManager.cpp, _util.py; Qwen1.5-7B on an A100 40GB: 0.9 x 21.89 GiB are 631 blocks.
    """
    if available_bytes < 0:
        return available_bytes
    budget = math.floor(available_bytes * settings.free_gpu_memory_fraction)
    return min(budget, settings.max_gpu_total_bytes) if settings.max_gpu_total_bytes else budget


def launch_command(model: Model, settings: Settings | None = None) -> str:
    """The shell command, quoted where it needs it, with a YAML of the settings that have no flag of their own."""
    settings = settings or Settings()
    flags = {"tensor_parallel_size": "--tp_size", "pipeline_parallel_size": "--pp_size", "max_seq_len": "--max_seq_len",
             "max_batch_size": "--max_batch_size", "free_gpu_memory_fraction": "--kv_cache_free_gpu_memory_fraction",
             "backend": "--backend"}  # fmt: skip
    words, cache, rest, lora = ["trtllm-serve", model.name], {}, {}, {}
    for key, value in settings.model_dump(exclude_defaults=True).items():
        if key == "version" or value in (None, -1):
            continue
        if key in flags:
            words += [flags[key], str(value)]
        elif key in ("enable_attention_dp", "max_input_len", "dtype"):
            rest[key] = value
        elif key in _LORA:
            lora[key] = value
        elif key == "device_cache_percent":
            rest["peft_cache_config"] = f"{{device_cache_percent: {value}}}"
        elif key not in ("max_draft_len", "num_nextn_predict_layers"):
            cache["dtype" if key == "kv_cache_dtype" else key] = value
    if not cache and not rest and not lora and not settings.num_nextn_predict_layers:
        return shlex.join(words)
    lines = [_line(key, value) for key, value in rest.items()]
    if settings.num_nextn_predict_layers:
        layers = f"  num_nextn_predict_layers: {settings.num_nextn_predict_layers}"
        lines += ["speculative_config:", "  decoding_type: MTP", layers]
    if lora:
        lines += ["lora_config:", *(f"  {_line(key, value)}" for key, value in lora.items())]
    if cache:
        lines += ["kv_cache_config:", *(f"  {_line(key, value)}" for key, value in cache.items())]
    body = "\n".join(lines)
    return f"cat > options.yaml <<'END'\n{body}\nEND\n{shlex.join(words)} --extra_llm_api_options options.yaml"


#: What LoraConfig calls its settings.
_LORA = ("max_lora_rank", "max_loras", "max_cpu_loras", "lora_target_modules")


def _line(key: str, value: object) -> str:
    return f"{key}: {str(value).lower() if isinstance(value, bool) else value}"


