"""Host memory as more room: caches that engines keep beside the GPU's, weights and adapters that stay there.

What lies in host memory is kept, not run: a request whose blocks are there is read back over the slot before it goes on, in place
of computing its prompt again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner import lora
from planner.capacity_layers import layer_sizes
from planner.capacity_plan import Plan
from planner.engines.llama_cpp_table import era_of
from planner.engines.versions import version_key
from planner.engines.vllm_setup import prepare
from planner.hardware import Gpu
from planner.latency_efficiency import Range, factor
from planner.layers import Latent
from planner.texts import joined, tell
from planner.units import GB, GIB, MIB, ceil_div, round_up

#: vLLM's host pool is cut into pages of the operating system.
_PAGE = 4096
#: Tokens of an LMCache chunk.
_LMCACHE_CHUNK = 256
#: GiB of host memory for each GPU that engine V0 takes by default.
_SWAP_SPACE = 4
#: What llama-server keeps by default, in MiB, and the day since when. Source: common/arg.cpp, --cache-ram.
_CACHE_RAM, _CACHE_RAM_SINCE = 8192, "2025-10-09"
#: HiCache's pool over the GPU's by default. Source: SGLang 0.5.23, arg_groups/hicache_hook.py.
_HICACHE_RATIO = 2.0


@dataclass(frozen=True)
class HostTier:
    """Host memory that one server takes for one purpose.

    name: the engine's own setting. bytes: of all ranks of one server. blocks, tokens, requests: what is kept there of the cache,
    in whole blocks, tokens, and requests of the plan's length; None where it is no cache. bytes_per_request: what such a
    request has there, all ranks together. transfer_s: seconds to bring one back over every GPU's own slot (of weights: what each
    step reads); None where the slot's speed is not known.
    """

    name: str
    bytes: int
    blocks: int | None
    tokens: int | None
    requests: int | None
    bytes_per_request: int
    transfer_s: Range | None
    note: str
    source: str


def host_tiers(plan: Plan) -> tuple[HostTier, ...]:
    """The host memory that a plan's settings ask for, tier by tier, of one server (a replica); empty where none is.

    vLLM: kv_offloading_size (all ranks together), swap_space of engine V0, cpu_offload_gb. SGLang: HiCache. TensorRT-LLM:
    host_cache_size. llama.cpp: --cache-ram. And adapters that wait in host memory.

    Source: vLLM 0.33.0, v1/kv_offload/cpu/spec.py; SGLang 0.5.23, mem_cache/pool_host/base.py; planner.engines.tensorrt_llm.pool;
    llama.cpp, tools/server/server-task.cpp.
    """
    rule = _RULES.get(plan.engine)
    found = rule(plan) if rule else []
    adapters = lora.host_bytes(plan.model, plan.engine, plan.settings)
    if adapters:
        note = tell("tier.adapters")
        found.append(
            HostTier("max_cpu_loras", adapters * _ranks(plan), None, None, None, 0, None, note, "planner.lora.adapter_bytes")
        )
    return tuple(found)


def host_bytes(plan: Plan) -> int:
    """Host memory of all replicas together: what the nodes need beside the operating system and the page cache."""
    return sum(tier.bytes for tier in host_tiers(plan)) * plan.replicas


def transfer(gpu: Gpu, bytes_per_gpu: float) -> Range | None:
    """Seconds to copy so many bytes between host memory and one GPU, one way; None where the slot's speed is not known.

    seconds = bytes / (one direction of the slot x share that copies reach)
    """
    if gpu.pcie_gbs is None:
        return None
    rate, share = gpu.pcie_gbs * GB / 2, factor("copy")
    return Range(bytes_per_gpu / (rate * share.high), bytes_per_gpu / (rate * share.low))


def _ranks(plan: Plan) -> int:
    return plan.tensor_parallel_size * plan.pipeline_parallel_size


def _cache(
    plan: Plan, name: str, size: int, blocks: int, request_blocks: int, block: int, note: str, source: str, copies: int = 0
) -> HostTier:
    """A tier of `blocks` blocks of `block` bytes on all ranks, of which a request of the plan's length takes `request_blocks`.

    copies: GPUs that share out a block; each reads it whole where it is one.
    """
    requests = blocks // request_blocks if request_blocks else 0
    tokens = blocks * plan.length // request_blocks if request_blocks else 0
    each = request_blocks * block
    return HostTier(name, size, blocks, tokens, requests, each, transfer(plan.gpu, each / (copies or _ranks(plan))), note, source)


def _vllm(plan: Plan) -> list[HostTier]:
    settings, found = plan.settings, []
    setup = prepare(plan.model, settings, plan.gpu)
    request, block = setup.capacity.request_blocks(max(1, plan.length)), setup.capacity.bytes_per_block
    if settings.kv_offloading_size is not None and block:
        size = int(settings.kv_offloading_size * GIB)
        if settings.kv_offloading_backend == "lmcache":
            chunk = ceil_div(_LMCACHE_CHUNK, setup.layout.block_size) * block * _ranks(plan)
            per = ceil_div(plan.length, _LMCACHE_CHUNK)
            note, source = tell("tier.lmcache"), "LMCache, chunks of 256 tokens"
            found.append(_cache(plan, "kv_offloading_size", size, size // chunk, per, chunk, note, source))
        else:
            # Ranks that hold the same latents keep one copy.
            copies = 1 if _same_on_ranks(plan) else _ranks(plan)
            aligned = round_up(block * copies, _PAGE)
            note = tell("tier.offloading")
            found.append(_cache(plan, "kv_offloading_size", size, size // aligned, request, aligned, note,
                                "vLLM 0.33.0, v1/kv_offload/cpu/spec.py", copies))  # fmt: skip
    if settings.swap_space or (settings.swap_space is None and _swaps(settings.version)):
        found.append(_swapped(plan, request, block))
    if settings.cpu_offload_gb:
        found.append(_offloaded_weights(plan))
    return found


def _same_on_ranks(plan: Plan) -> bool:
    caches = [cache for layer in plan.model.layers_for("vllm") for cache in layer.caches]
    return bool(caches) and all(isinstance(cache, Latent) for cache in caches) and plan.pipeline_parallel_size == 1


def _swaps(version: str) -> bool:
    """Whether the engine is V0, which swaps."""
    return version_key(version) < version_key("0.8.0")


def _swapped(plan: Plan, request: int, block: int) -> HostTier:
    """Engine V0's swap space, GiB a GPU; V1 computes again what it took away."""
    old = _swaps(plan.settings.version)
    each = int((_SWAP_SPACE if plan.settings.swap_space is None else plan.settings.swap_space) * GIB)
    blocks = each // block if old and block else 0
    note = tell("tier.swap" if old else "tier.no_swap")
    found = _cache(plan, "swap_space", each * _ranks(plan) * old, blocks, request, block * _ranks(plan), note,
                   "vLLM 0.7, worker/worker.py, determine_num_available_blocks")  # fmt: skip
    return found


def _offloaded_weights(plan: Plan) -> HostTier:
    size = int(plan.settings.cpu_offload_gb * GIB)
    whole = plan.model.weight_bytes
    each = min(size, ceil_div(whole, _ranks(plan))) if whole else size
    note = tell("tier.weights")
    return HostTier("cpu_offload_gb", each * _ranks(plan), None, None, None, 0, transfer(plan.gpu, each), note,
                    "vLLM 0.33.0, model_executor/offloader/uva.py")  # fmt: skip


def _sglang(plan: Plan) -> list[HostTier]:
    """HiCache: tokens = size x 10**9 / bytes a token on each rank, or ratio x the GPU's tokens; one page more is allocated."""
    settings, pool = plan.settings, plan.pool
    if not settings.enable_hierarchical_cache or pool is None or not pool.bytes_per_block:
        return []
    page, ranks = int(pool.details["page_size"]), _ranks(plan)
    row = pool.bytes_per_block / page
    ratio = settings.hicache_ratio or _HICACHE_RATIO
    tokens = int(settings.hicache_size * GB // row) if settings.hicache_size else int(pool.tokens * ratio)
    pages = tokens // page
    size = int((pages + 1) * page * row)
    if settings.hicache_ratio is None and not settings.hicache_size:
        note: str = tell("tier.hicache", policy=settings.hicache_write_policy)
    else:
        note = tell("tier.hicache_fixed", policy=settings.hicache_write_policy)
    if "swa_tokens" in pool.details or "mamba_slots" in pool.details:
        note = joined((note, tell("tier.pools")))
    name, source = "hicache_size" if settings.hicache_size else "hicache_ratio", "SGLang 0.5.23, mem_cache/pool_host/base.py"
    per, block = ceil_div(plan.length, page), int(page * row) * ranks
    return [_cache(plan, name, size * ranks, pages, per, block, note, source)]


def _tensorrt_llm(plan: Plan) -> list[HostTier]:
    size, pool = plan.settings.host_cache_size or 0, plan.pool
    if not size or pool is None:
        return []
    block = int(pool.details["bytes_per_token"]) * int(pool.details["tokens_per_block"])
    per = ceil_div(plan.length, int(pool.details["tokens_per_block"]))
    note = tell("tier.secondary")
    return [_cache(plan, "host_cache_size", size * _ranks(plan), int(pool.details["secondary_blocks"]), per,
                   block * _ranks(plan), note, "TensorRT-LLM, kvCacheManager.cpp: the secondary pool of each rank")]  # fmt: skip


def _llama_cpp(plan: Plan) -> list[HostTier]:
    """The server's prompt cache: each prompt whole, as the slot's cells hold it."""
    settings = plan.settings
    if settings.front_end != "server" or str(era_of(settings.version).date) < _CACHE_RAM_SINCE:
        return []
    limit = _CACHE_RAM if settings.cache_ram is None else settings.cache_ram
    each = sum(layer_sizes(plan.model, "llama.cpp", settings, plan.length, 1, 0))
    if not limit or not each:
        return []
    size = max(limit, 0) * MIB
    kept = size // each if limit > 0 else None
    note = tell("tier.prompts" if limit > 0 else "tier.unlimited")
    tokens = None if kept is None else kept * plan.length
    back = transfer(plan.gpu, each / max(1, len(plan.per_gpu)))
    return [HostTier("cache_ram", size, kept, tokens, kept, each, back, note, "llama.cpp, --cache-ram; 8,192 MiB by default")]


_RULES: dict[str, Callable[[Plan], list[HostTier]]] = {
    "vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt_llm, "llama.cpp": _llama_cpp,
}  # fmt: skip
