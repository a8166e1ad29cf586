"""vLLM: a pool of blocks that layers share in groups.

The rules are those of vLLM 0.33.0, held to its own classes run over real configs; older versions follow
`data/vllm_versions.yaml`.
"""

from __future__ import annotations

import json
import shlex

from planner.cache import CacheBytes, CachePart, LayerBytes, check_count
from planner.engines.base import Pool, PoolGroup
from planner.engines.costs import check_budget
from planner.engines.vllm_capacity import blocks_of
from planner.engines.vllm_groups import Group, stages
from planner.engines.vllm_settings import Settings, SpeculativeConfig
from planner.engines.vllm_setup import Setup, kv_budget_bytes, prepare
from planner.engines.vllm_tables import table, unread
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.texts import tell

__all__ = ["VERSIONS", "Settings", "SpeculativeConfig", "cache_bytes", "kv_budget_bytes", "launch_command", "name", "pool"]

name = "vllm"
#: The first version of each row of rules and the month that it is from; the newest that was read.
VERSIONS = {**{row["since"]: row["date"] for row in table("versions")["versions"]}, "0.33.0": "2026-11"}
#: Block sizes differ between GPU generations; without a GPU those of Hopper are meant.
DEFAULT_GPU = "h100"


def pool(model: Model, settings: Settings | None = None, budget_bytes: int = 0, gpu: str | Gpu | None = None) -> Pool:
    """What vLLM makes of `budget_bytes` on each GPU.

    num_blocks = floor(budget / bytes per block), the least of all pipeline stages. A request of max_model_len takes
    R = sum over groups of its blocks; it fits if R + 1 null block <= num_blocks. max_concurrency = num_blocks / R, and
    tokens = floor(max_concurrency x max_model_len) is the "GPU KV cache size" of the log.

    Errors: EngineRefusal for what vLLM refuses whatever the memory, UnsupportedArchitecture where its layout is not known,
    InputError. "Does not fit" is `fits` False.

    Source: vLLM 0.33.0, v1/core/kv_cache_planning.py and kv_cache_utils.py.
    """
    settings = settings or Settings()
    budget = check_budget(settings.kv_cache_memory_bytes or budget_bytes)
    setup = prepare(model, settings, _gpu(gpu))
    capacity = setup.capacity
    if not capacity.groups:
        return Pool(
            fits=True, num_blocks=1, bytes_per_block=0, tokens=0, max_concurrency=0.0, max_model_len=setup.max_model_len,
            warnings=(tell("vllm.no_cache"),),
        )  # fmt: skip
    profiled = capacity.num_blocks(budget)
    blocks = settings.num_gpu_blocks_override or profiled
    length = setup.max_model_len
    if settings.max_model_len == -1:
        length = capacity.longest(length, blocks)
    return Pool(
        fits=length > 0 and capacity.admits(length, blocks),
        num_blocks=blocks,
        bytes_per_block=capacity.bytes_per_block,
        bytes_per_block_by_stage=capacity.bytes_by_stage,
        blocks_per_request=capacity.request_blocks(max(1, length)),
        tokens=capacity.tokens(blocks, max(1, length)) if length else 0,
        max_concurrency=capacity.concurrency(blocks, max(1, length)),
        max_model_len=length,
        groups=tuple(_group(each, setup) for each in capacity.groups),
        warnings=_warnings(setup, profiled, blocks, length),
        details={**_details(setup), "estimated_max_model_len": capacity.longest(max(1, length), blocks)},
    )


def cache_bytes(
    model: Model,
    settings: Settings | None = None,
    tokens: int = 0,
    requests: int = 1,
    encoder_tokens: int = 0,
    prompt_tokens: int | None = None,
    *,
    gpu: str | Gpu | None = None,
) -> CacheBytes:
    """What the blocks of `requests` requests of `tokens` positions each take on the fullest rank, layer by layer, in bytes.

    A layer's bytes = requests x blocks of its group x its page. Blocks are those that vLLM admits the request with: whole
    blocks, a window plus the tokens in flight, states as fixed blocks. The pool's blocks are as wide as its widest group; what
    narrower groups leave of them is the part `padding`, after the last layer.

    encoder_tokens: vLLM charges max_num_batched_tokens for an encoder whatever they are. prompt_tokens does not matter.
    Errors: as `pool`.

    Source: vLLM 0.33's own KV cache specs, grouping and admission, held to them row by row (docs/COVERAGE.md).
    """
    settings = settings or Settings()
    tokens, requests = check_count(tokens, "tokens"), check_count(requests, "requests", 1)
    encoder_tokens = check_count(encoder_tokens, "encoder_tokens")
    setup = prepare(model, settings, _gpu(gpu))
    return setup_bytes(setup, tokens, requests, encoder_tokens)


#: vLLM's own words for kinds that the rest of the planner calls otherwise.
_KINDS = {"mla": "latent", "mamba": "state", "sliding_mla": "sliding"}


def setup_bytes(setup: Setup, tokens: int, requests: int, encoder_tokens: int = 0) -> CacheBytes:
    """`cache_bytes` of a model that is already laid out."""
    capacity, kinds = setup.capacity, [layer.kind for layer in setup.facts.layers]
    parts: dict[int, list[CachePart]] = {}
    stage = _fullest_stage(setup)
    total = 0
    for each in capacity.groups:
        blocks = blocks_of(each.spec, tokens, capacity.load, capacity.rules) * requests if tokens else 0
        total += blocks * capacity.bytes_per_block
        for member in each.members:
            if member.layer in stage:
                spec = member.spec
                size = blocks * spec.page_bytes
                parts.setdefault(member.layer, []).append(
                    CachePart(
                        kind=_KINDS.get(spec.kind, spec.kind), positions=blocks * spec.block_size // requests, window=spec.window,
                        k_dim=spec.widths[0] if spec.widths else None, v_dim=spec.widths[1] if len(spec.widths) == 2 else None,
                        heads=spec.heads, bytes=size, storage_bytes=size,
                    )
                )  # fmt: skip
    layers = [LayerBytes(i, kinds[i] if i < len(kinds) else "draft", tuple(parts.get(i, ()))) for i in stage]
    waste = total - sum(layer.bytes for layer in layers)
    if waste:
        part = CachePart("padding", 0, None, None, None, None, waste, waste)
        layers.append(LayerBytes(stage.stop, "padding", (part,)))
    return CacheBytes(tuple(layers), tokens, requests, encoder_tokens, rule=setup.resolved.why)


def _fullest_stage(setup: Setup) -> range:
    cuts = stages(len(setup.facts.layers), setup.settings.pipeline_parallel_size, setup.draft_layers)
    sizes = setup.capacity.bytes_by_stage
    return cuts[sizes.index(max(sizes))] if sizes else cuts[0]


def _gpu(gpu: str | Gpu | None) -> Gpu:
    return find_gpu(gpu or DEFAULT_GPU) if not isinstance(gpu, Gpu) else gpu


def _group(each: Group, setup: Setup) -> PoolGroup:
    spec = each.spec
    # Without prefix caching a state is one block, however long the request.
    size = setup.max_model_len if spec.kind == "mamba" and not setup.prefix_caching else spec.block_size
    return PoolGroup(spec.kind, tuple(member.layer for member in each.members), size, spec.page_bytes)


def _details(setup: Setup) -> dict[str, object]:
    return {
        "block_size": setup.layout.block_size,
        "backends": setup.layout.backends,
        "kv_cache_dtype": setup.stored_format,
        "kv_cache_dtype_why": setup.resolved.why,
        "max_num_batched_tokens": setup.max_num_batched_tokens,
        "max_num_seqs": setup.max_num_seqs,
        "max_in_flight_tokens": setup.capacity.load.in_flight,
        "enable_prefix_caching": setup.prefix_caching,
        "async_scheduling": setup.async_scheduling,
        "draft_layers": setup.draft_layers,
    }


def _warnings(setup: Setup, profiled: int, blocks: int, length: int) -> tuple[str, ...]:
    found = list[str]()
    facts, settings, gpu = setup.facts, setup.settings, setup.platform.gpu.name
    if facts.has_state and setup.max_num_seqs > blocks:
        found.append(tell("vllm.seats", seats=setup.max_num_seqs, blocks=blocks))
    if length > facts.native_length:
        found.append(tell("vllm.too_long", length=length, limit=facts.native_length))
    if settings.num_gpu_blocks_override and settings.num_gpu_blocks_override > profiled:
        found.append(tell("vllm.override", asked=settings.num_gpu_blocks_override, blocks=profiled))
    if facts.model.model_type not in table("models")["held"]:
        found.append(tell("vllm.general", model=facts.model.model_type))
    needed = facts.traits.get("kernels_from", 0)
    if setup.platform.capability < needed:
        found.append(tell("vllm.kernels", gpu=gpu, needed=needed / 10))
    note = unread(settings.version)
    if note:
        found.append(note)
    if not setup.platform.held:
        found.append(tell("vllm.backend", gpu=gpu, rows=setup.platform.rows))
    return tuple(found)


def launch_command(model: Model, settings: Settings | None = None) -> str:
    """The `vllm serve` command line with the flags that differ from vLLM's defaults."""
    settings = settings or Settings()
    words = ["vllm", "serve", model.name]
    for field, value in settings.model_dump(exclude_defaults=True, exclude={"version", "speculative_config"}).items():
        flag = "--" + field.replace("_", "-")
        if value is None or value == ():
            continue
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            words += [flag, *map(str, value)]
        else:
            words += [flag, str(value)]
    if settings.speculative_config:
        words += ["--speculative-config", _speculative(settings.speculative_config)]
    return shlex.join(words)


def _speculative(config: SpeculativeConfig) -> str:
    values: dict[str, object] = {"method": config.method, "num_speculative_tokens": config.num_speculative_tokens}
    if config.model is not None:
        values["model"] = config.model.name
    return json.dumps(values)
