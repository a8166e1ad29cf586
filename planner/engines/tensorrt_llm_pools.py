"""TensorRT-LLM's bytes per token and per block, and its pools for a budget.

Source: kvCacheManager.cpp, trtGptModelInflightBatching.cpp, resource_manager.py, mamba_cache_manager.py, dsa.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.cache import CachePart, LayerBytes
from planner.dtypes import StorageFormat
from planner.engines.base import Pool, PoolGroup
from planner.engines.costs import LayerCost, check_generation, divide, owned, refuse_kind, stages, state_shares
from planner.engines.versions import newer_than_known, table
from planner.errors import EngineRefusal, InputError
from planner.hardware import Gpu
from planner.layers import Cross, Full, IndexKeys, Latent, Layer, State
from planner.model import Model
from planner.texts import tell
from planner.units import ceil_div, round_up

if TYPE_CHECKING:
    from planner.engines.tensorrt_llm import Settings

NAME = "tensorrt-llm"
LABEL = "TensorRT-LLM"


@dataclass(frozen=True)
class Setup:
    """Settings made definite, and the cost of each layer on one rank; `cross` by layer: bytes of an encoder position.

    ranks: those that share a request's heads (1 under attention DP). draft_row: bytes of a token in the layers that
    speculate, on the last stage. windows: by layer, clamped to max_seq_len where that is known.
    """

    model: Model
    settings: Settings
    rules: Mapping[str, Any]
    backend: str
    kv_dtype: str
    block_size: int
    ranks: int
    costs: tuple[LayerCost, ...]
    cross: tuple[tuple[int, int, int], ...]

    @property
    def cross_length(self) -> int:
        return self.settings.max_input_len or int(table(NAME)["max_input_len"])

    @property
    def slots_per_request(self) -> int:
        """State slots of one request: with D draft tokens also the states after each of them and after the new token."""
        return 1 + (self.settings.max_draft_len + 1 if self.settings.max_draft_len else 0)

    @property
    def draft_row(self) -> int:
        """Bytes of a token in the MTP or EAGLE3 layers, which are as wide as the model's widest."""
        return self.settings.num_nextn_predict_layers * max((cost.row_bytes for cost in self.costs), default=0)

    def with_cross(self, layer: LayerBytes, positions: int, requests: int) -> LayerBytes:
        """The layer with its encoder positions' keys and values."""
        heads, width, row = self.cross[layer.index]
        if not row:
            return layer
        size = requests * positions * row
        part = CachePart("cross", positions, None, width, width, heads, size, size)
        return replace(layer, parts=(*layer.parts, part))


def resolve(model: Model, settings: Settings, rules: Mapping[str, Any], gpu: Gpu | None) -> Setup:
    """Errors: EngineRefusal for what TensorRT-LLM would not run whatever the memory, InputError for contradictory settings."""
    facts, backend = table(NAME), settings.backend or rules["backend"]
    ranks = 1 if settings.enable_attention_dp else settings.tensor_parallel_size
    if model.attention_heads:
        divide(model.attention_heads, ranks, "attention heads", LABEL)
    dtype = _kv_dtype(model, settings)
    row = facts["kv_dtypes"][dtype]
    if backend not in row["backends"] or (dtype == "nvfp4" and not rules["nvfp4"]):
        raise EngineRefusal(f"TensorRT-LLM {settings.version} has no {dtype} cache in its {backend} backend", engine=NAME)
    if gpu is not None and gpu.vendor not in ("NVIDIA", ""):
        raise EngineRefusal(f"TensorRT-LLM runs on NVIDIA cards alone, and {gpu.name} is {gpu.vendor}", engine=NAME)
    check_generation(gpu, row.get("minimum", 0), f"a {dtype} cache", LABEL)
    block = settings.tokens_per_block or rules["tokens_per_block"]
    if block & (block - 1):
        raise InputError(f"tokens_per_block is {block}; it must be a power of two", field="tokens_per_block")
    for window in settings.max_attention_window or ():
        if window < 1:
            raise InputError("max_attention_window must list numbers above 0", field="max_attention_window")
    form = StorageFormat(dtype, row["bits"], row.get("group", 0), row.get("group_bytes", 0))
    setup = Setup(model, settings, rules, backend, dtype, block, ranks, (), ())
    layers = owned(model, NAME)
    found = tuple(_cost(setup, layer, index, form) for index, layer in enumerate(layers))
    setup = replace(setup, costs=found, cross=tuple(_cross(setup, layer, form) for layer in layers))
    return _with_windows(setup)


def _kv_dtype(model: Model, settings: Settings) -> str:
    """`auto`: what the checkpoint's quantisation says of the cache, else the model's dtype."""
    if settings.kv_cache_dtype != "auto":
        return settings.kv_cache_dtype
    scheme = model.config.get("quantization_config")
    if isinstance(scheme, Mapping) and str(scheme.get("quant_method") or "modelopt").startswith("modelopt"):
        declared, named = scheme.get("kv_cache_scheme"), scheme.get("kv_cache_quant_algo")
        if named in ("FP8", "NVFP4", "INT8"):
            return str(named).lower()
        if isinstance(declared, Mapping) and declared.get("type") == "float" and declared.get("num_bits") == 8:
            return "fp8"
    return model.dtype if settings.dtype == "auto" else settings.dtype


def _cost(setup: Setup, layer: Layer, index: int, form: StorageFormat) -> LayerCost:
    found: dict[str, Any] = {}
    kinds: list[str] = []
    latent = any(isinstance(cache, Latent) for cache in layer.caches)
    for cache in layer.caches:
        if isinstance(cache, Cross):
            continue
        if isinstance(cache, IndexKeys) and latent:
            found["index_bytes"] = _index_bytes(setup, cache.width)
        elif isinstance(cache, Latent):
            elements = cache.kv_lora_rank + cache.qk_rope_head_dim
            found |= {"key_bytes": form.bytes(elements), "heads": 1, "k_dim": cache.kv_lora_rank, "v_dim": cache.qk_rope_head_dim}
        elif isinstance(cache, Full):
            heads, width = ceil_div(cache.kv_heads, setup.ranks), max(cache.k_dim, cache.v_dim)
            size = form.bytes(heads * width)
            found |= {"key_bytes": size, "value_bytes": size, "heads": heads, "k_dim": width, "v_dim": width}
        elif isinstance(cache, State):
            found |= _state(setup, cache)
        else:
            raise refuse_kind(cache, index, setup.model, LABEL)
        kinds.append(cache.kind)
    kind = "indexed" if "indexed" in kinds else "+".join(dict.fromkeys(kinds)) or ("cross" if layer.caches else "none")
    return LayerCost(index, kind, **found)


def _index_bytes(setup: Setup, width: int) -> int:
    """Bytes of a position's index key: a byte an element and a float32 scale for every 128.

    Before 1.2 they were a share of the block that was right at 64 tokens a block alone: x 64 / tokens_per_block.
    """
    if setup.rules["indexer"] == "none":
        raise EngineRefusal(f"TensorRT-LLM {setup.settings.version} does not run models with sparse attention", engine=NAME)
    facts = table(NAME)["index"]
    size = int(width + ceil_div(width, facts["group"]) * facts["scale"])
    return size if setup.rules["indexer"] == "pool" else ceil_div(size * facts["block"], setup.block_size)


def _state(setup: Setup, cache: State) -> dict[str, Any]:
    facts, model = table(NAME), setup.model
    convolution, recurrent = state_shares(cache, setup.ranks, LABEL, facts["state_styles"], repeat_groups=False)
    own = model.dtype if setup.settings.dtype == "auto" else setup.settings.dtype
    dtype = setup.settings.mamba_ssm_cache_dtype
    # The widest where nothing is said: the recurrent state of the published checkpoints is float32.
    dtype = "float32" if dtype == "auto" else dtype
    return {"conv_bytes": convolution * facts["state_dtypes"][own], "recurrent_bytes": recurrent * facts["state_dtypes"][dtype]}


def _cross(setup: Setup, layer: Layer, form: StorageFormat) -> tuple[int, int, int]:
    cache = next((cache for cache in layer.caches if isinstance(cache, Cross)), None)
    if cache is None:
        return 0, 0, 0
    heads, width = ceil_div(cache.kv_heads, setup.ranks), max(cache.k_dim, cache.v_dim)
    return heads, width, 2 * form.bytes(heads * width)


def _with_windows(setup: Setup) -> Setup:
    """The windows of --max_attention_window, repeated over the layers that keep keys and values; none reaches max_seq_len."""
    asked = setup.settings.max_attention_window
    if not asked or setup.rules["windows"] == "none":
        return setup
    limit = setup.settings.max_seq_len if (setup.settings.max_seq_len or 0) > 0 else setup.model.max_context
    found, position = [], 0
    for cost in setup.costs:
        if not cost.row_bytes:
            found.append(cost)
            continue
        window = asked[position % len(asked)]
        found.append(replace(cost, window=None if limit is not None and window >= limit else window))
        position += 1
    return replace(setup, costs=tuple(found))


def stage_layers(setup: Setup) -> tuple[range, ...]:
    """The layers of each pipeline stage; the first stages hold the remainder."""
    return stages(len(setup.costs), setup.settings.pipeline_parallel_size, "first") if setup.costs else (range(0),)


def blocks_of(setup: Setup, tokens: int) -> int:
    """Blocks of a request: ceil(tokens / tokens_per_block), a sink filled up to whole blocks."""
    sink = (setup.settings.sink_token_length or 0) % setup.block_size
    bubble = setup.block_size - sink if sink else 0
    return ceil_div(tokens + bubble, setup.block_size) if tokens else 0


def layer_rows(setup: Setup, cost: LayerCost, tokens: int) -> int:
    """Rows of a request in one layer, whole blocks. A window that moves needs a block more than it is long."""
    held = tokens + setup.settings.max_draft_len if tokens else 0
    blocks = blocks_of(setup, held)
    if cost.window is not None:
        blocks = min(blocks, blocks_of(setup, cost.window) + 1)
    return blocks * setup.block_size


@dataclass(frozen=True)
class WindowPool:
    """One pool: its window, the layers in it, bytes of a token, and blocks."""

    window: int | None
    costs: tuple[LayerCost, ...]
    row_bytes: int
    blocks: int


def _blocks(setup: Setup, budget: int, row: int) -> int:
    tokens = budget // row
    if setup.settings.max_tokens is not None:
        tokens = min(tokens, setup.settings.max_tokens)
    up = setup.rules["blocks"][setup.backend] == "up"
    return ceil_div(tokens, setup.block_size) if up else tokens // setup.block_size


def _stage_pools(setup: Setup, costs: Sequence[LayerCost], budget: int, draft: int) -> tuple[WindowPool, ...]:
    """The pools of one stage: one for all layers, or one for each window with its share of the budget."""
    windows = sorted({cost.window for cost in costs if cost.row_bytes}, key=lambda window: (window is None, window or 0))
    groups = [tuple(cost for cost in costs if cost.row_bytes and cost.window == window) for window in windows]
    rows = [sum(cost.row_bytes for cost in group) for group in groups]
    if rows:
        rows[-1] += draft
    if len(groups) < 2:
        return tuple(WindowPool(w, g, row, _blocks(setup, budget, row)) for w, g, row in zip(windows, groups, rows, strict=True))
    length = setup.settings.max_seq_len if (setup.settings.max_seq_len or 0) > 0 else setup.model.max_context
    weights = [1] * len(groups)
    if setup.rules["windows"] == "proportional":
        if length is None:
            raise InputError("pools by window need max_seq_len; the model states no limit", field="max_seq_len")
        weights = [(length if window is None else window) * row for window, row in zip(windows, rows, strict=True)]
    found = []
    for window, group, row, weight in zip(windows, groups, rows, weights, strict=True):
        share = budget * weight // sum(weights)
        # max_tokens is not applied to pools by window.
        found.append(WindowPool(window, group, row, share // row // setup.block_size))
    return tuple(found)


def pool_of(setup: Setup, budget: int) -> Pool:
    """The pools of one rank for a budget; see `tensorrt_llm.pool`."""
    self_budget, cross = _cross_share(setup, budget)
    parts = stage_layers(setup)
    slots = setup.settings.max_batch_size or int(setup.rules["max_batch_size"])
    stage_pools = []
    for number, part in enumerate(parts):
        costs = [setup.costs[i] for i in part]
        state = slots * setup.slots_per_request * sum(cost.slot_bytes for cost in costs)
        draft = setup.draft_row if number == len(parts) - 1 else 0
        pools = _stage_pools(setup, costs, max(0, self_budget - state), draft)
        if pools:
            stage_pools.append(pools)
    if not stage_pools:
        raise EngineRefusal(f"no layer of {setup.model.name} grows with the request: there is no pool to size", engine=NAME)
    # Every rank takes the least of all ranks.
    binding = min(stage_pools, key=lambda pools: pools[-1].blocks)
    return _answer(setup, binding, stage_pools, slots, cross)


def _cross_share(setup: Setup, budget: int) -> tuple[int, int]:
    """The self-attention pool's budget, and blocks of the cross pool: trunc(self blocks of its share x self / cross bytes)."""
    crossing = sum(row for _, _, row in setup.cross)
    fraction = setup.settings.cross_kv_cache_fraction
    if not crossing:
        if fraction is not None:
            raise EngineRefusal("cross_kv_cache_fraction is set, and this model has no cross attention", engine=NAME)
        return budget, 0
    if setup.backend == "pytorch":
        raise EngineRefusal(
            "TensorRT-LLM's PyTorch backend does not estimate the memory of encoder-decoder models; backend tensorrt does",
            engine=NAME,
        )
    if fraction is None:
        raise EngineRefusal("an encoder-decoder model needs cross_kv_cache_fraction, the cross pool's share", engine=NAME)
    share = int(budget * fraction)
    return budget - share, share // (crossing * setup.block_size)


def _answer(
    setup: Setup, binding: tuple[WindowPool, ...], stage_pools: list[tuple[WindowPool, ...]], slots: int, cross: int
) -> Pool:
    settings, block = setup.settings, setup.block_size
    blocks = {pool.window: min(pools[i].blocks for pools in stage_pools if i < len(pools)) for i, pool in enumerate(binding)}
    last = binding[-1]
    tokens = blocks[last.window] * block
    states = any(cost.slot_bytes for cost in setup.costs)
    sink = blocks_of(setup, 1) * block - 1 if settings.sink_token_length else 0
    solved = max(0, tokens - settings.max_draft_len - sink)
    context = settings.max_seq_len if (settings.max_seq_len or 0) > 0 else setup.model.max_context
    context = solved if context is None else min(context, solved) if settings.max_seq_len == -1 else context
    need = {pool.window: layer_rows(setup, pool.costs[0], context or 1) // block for pool in binding}
    # No more requests run at once than max_batch_size.
    concurrency = min(float(slots), *(blocks[window] / need[window] for window in need))
    if any(row for _, _, row in setup.cross):
        written = setup.model.config.get("max_source_positions")
        concurrency = min(concurrency, cross / blocks_of(setup, written if isinstance(written, int) else setup.cross_length))
    fits = bool(context) and concurrency >= 1
    details: dict[str, Any] = {
        "confidence": _confidence(setup, binding), "backend": setup.backend, "kv_cache_dtype": setup.kv_dtype,
        "tokens_per_block": block,
        "pool_bytes": sum(blocks[pool.window] * block * pool.row_bytes for pool in binding),
        "bytes_per_token": sum(pool.row_bytes for pool in binding), "max_blocks_per_sequence": need[last.window],
        "blocks_per_window": {window or context: count for window, count in blocks.items()},
        "secondary_blocks": (settings.host_cache_size or 0) // sum(pool.row_bytes for pool in binding) // block,
    }  # fmt: skip
    if states:
        details["state_slots"] = slots
        details["state_bytes"] = slots * setup.slots_per_request * sum(cost.slot_bytes for cost in setup.costs)
    if cross:
        details["cross_blocks"] = cross
    return Pool(
        fits=fits, num_blocks=blocks[last.window], bytes_per_block=last.row_bytes * block, tokens=tokens,
        max_concurrency=concurrency, max_model_len=context or 0, blocks_per_request=need[last.window],
        bytes_per_block_by_stage=tuple(pools[-1].row_bytes * block for pools in stage_pools),
        groups=_groups(setup, binding), details=details,
        warnings=_warnings(setup, context or 0, tokens, fits, slots if states else 0),
    )  # fmt: skip


def _confidence(setup: Setup, pools: tuple[WindowPool, ...]) -> str:
    """documented where a rule was read and no public log shows it: pools by window, cross pools, states, index keys."""
    unseen = len(pools) > 1 or any(row for _, _, row in setup.cross) or any(c.slot_bytes or c.index_bytes for c in setup.costs)
    return "documented" if unseen or newer_than_known(NAME, setup.settings.version) else "exact"


def _groups(setup: Setup, pools: tuple[WindowPool, ...]) -> tuple[PoolGroup, ...]:
    return tuple(
        PoolGroup(
            "full" if pool.window is None else "sliding", tuple(cost.index for cost in pool.costs), setup.block_size,
            max(cost.row_bytes for cost in pool.costs) * setup.block_size,
        )
        for pool in pools
    )  # fmt: skip


def cross_too_short(written: int, held: int) -> str:
    """The warning for an encoder that writes more positions than the PyTorch backend's cross pool holds (issue 19514)."""
    return tell("trt.cross", written=written, held=held)


def _warnings(setup: Setup, context: int, tokens: int, fits: bool, slots: int) -> tuple[str, ...]:
    settings = setup.settings
    found = [newer_than_known(NAME, settings.version)]
    if slots and settings.max_batch_size is None:
        found.append(tell("trt.states", slots=slots))
    if not fits and tokens:
        found.append(tell("trt.cut", context=context, tokens=tokens))
    elif not fits:
        found.append(tell("trt.no_block"))
    if settings.sink_token_length:
        found.append(tell("trt.sink", tokens=round_up(settings.sink_token_length, setup.block_size)))
    return tuple(text for text in found if text)
