"""SGLang's "cell": what one token takes on one rank, layer by layer, and which layers have a window pool.

Source: model_executor/pool_configurator.py and configs/mamba_utils.py of 0.5.23 and their predecessors in model_runner.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.dtypes import StorageFormat
from planner.engines.costs import LayerCost, check_generation, divide, generation, owned, refuse_kind, state_shares
from planner.engines.versions import table
from planner.errors import EngineRefusal
from planner.hardware import Gpu
from planner.layers import Cross, Full, IndexKeys, Latent, Layer, ReferenceSliding, Sliding, State
from planner.model import Model
from planner.units import ceil_div

if TYPE_CHECKING:
    from planner.engines.sglang import Settings

NAME = "sglang"
LABEL = "SGLang"


@dataclass(frozen=True)
class Setup:
    """Everything that follows from model, settings and GPU: the rules of the version, dtypes, ranks and page size.

    attention_tp: ranks that share a request's attention, tp / dp under DP attention. replicas: pools of their own.
    """

    model: Model
    settings: Settings
    rules: Mapping[str, Any]
    gpu: Gpu | None
    kv_dtype: str
    page_size: int
    attention_tp: int
    replicas: int
    windows: bool

    @property
    def tables(self) -> Mapping[str, Any]:
        return table(NAME)

    @property
    def format(self) -> StorageFormat:
        row = self.tables["kv_dtypes"][self.kv_dtype]
        return StorageFormat(self.kv_dtype, row["bits"], row.get("group", 0), row.get("group_bytes", 0))


def resolve(model: Model, settings: Settings, rules: Mapping[str, Any], gpu: Gpu | None) -> Setup:
    """Settings made definite. Errors: EngineRefusal for what SGLang would not start with, whatever the memory."""
    tables, tp = table(NAME), settings.tensor_parallel_size
    if settings.enable_dp_attention and tp % settings.data_parallel_size:
        raise EngineRefusal(f"DP attention needs tp {tp} to be a multiple of dp {settings.data_parallel_size}", engine=NAME)
    attention_tp = tp // settings.data_parallel_size if settings.enable_dp_attention else tp
    if settings.dcp_size > 1 and (not rules["dcp"] or attention_tp % settings.dcp_size):
        why = f"tp {attention_tp} is not a multiple of it" if rules["dcp"] else f"{settings.version} does not have it"
        raise EngineRefusal(f"decode context parallelism of {settings.dcp_size} is not possible: {why}", engine=NAME)
    if model.attention_heads:
        divide(model.attention_heads, attention_tp, "attention heads", LABEL)
    sparse = is_sparse(model)
    dtype = _kv_dtype(model, settings, sparse, gpu)
    check_generation(gpu, tables["kv_dtypes"][dtype].get("minimum", 0), f"a {dtype} cache", LABEL)
    if sparse and dtype not in tables["sparse"]["dtypes"]:
        raise EngineRefusal(f"SGLang keeps sparse attention in bfloat16 or fp8_e4m3, not {dtype}", engine=NAME)
    windows = model.model_type in tables["window_models"][rules["windows"]] and not settings.disable_hybrid_swa_memory
    return Setup(
        model, settings, rules, gpu, dtype, _page_size(settings, sparse), attention_tp,
        settings.data_parallel_size, windows,
    )  # fmt: skip


def is_sparse(model: Model) -> bool:
    """Latent layers with index keys: DeepSeek sparse attention."""
    return any(isinstance(cache, IndexKeys) for layer in model.layers_for(NAME) for cache in layer.caches)


def _kv_dtype(model: Model, settings: Settings, sparse: bool, gpu: Gpu | None) -> str:
    """`auto`: the model's dtype (float16 for a float32 checkpoint), fp8_e4m3 where the checkpoint has an FP8 KV scheme or
    sparse attention runs on sm100 and later. Without a GPU the wider of the two is taken."""
    if settings.kv_cache_dtype != "auto":
        return settings.kv_cache_dtype
    if sparse:
        return "fp8_e4m3" if generation(gpu) >= table(NAME)["sparse"]["fp8_from"] else "bfloat16"
    scheme = model.config.get("quantization_config")
    if isinstance(scheme, Mapping) and scheme.get("quant_method") in ("modelopt", "modelopt_fp4", "modelopt_fp8", None):
        declared, named = scheme.get("kv_cache_scheme"), scheme.get("kv_cache_quant_algo")
        if isinstance(declared, Mapping) and declared.get("type") == "float" and declared.get("num_bits") == 8:
            return "fp8_e4m3"
        if isinstance(named, str) and named.upper() == "FP8":
            return "fp8_e4m3"
    own = model.dtype if settings.dtype == "auto" else settings.dtype
    return "float16" if own == "float32" and settings.dtype == "auto" else own


def _page_size(settings: Settings, sparse: bool) -> int:
    pages = table(NAME)["page_sizes"]
    allowed = pages["sparse"] if sparse else pages["backends"].get(settings.attention_backend)
    if allowed is None:
        return settings.page_size or int(pages["default"])
    return int(allowed[allowed.index(settings.page_size)] if settings.page_size in allowed else allowed[0])


def costs(setup: Setup) -> tuple[LayerCost, ...]:
    """Each layer's bytes on one rank.

    full, sliding, cross: max(1, kv_heads / tp) heads x (k_dim + v_dim) x bytes; a head is repeated where tp exceeds them.
    latent: kv_lora_rank + rope elements, the same on every rank. index keys: see `_index_bytes`. state: see
    `costs.state_shares`, convolution in bfloat16 and recurrence in --mamba-ssm-dtype. A layer that shares another's cache
    has rows of its own all the same.

    Errors: EngineRefusal for kinds without a known rule, heads that do not divide, MLA without its flag before 0.3.6.
    """
    layers = owned(setup.model, NAME)
    return tuple(_cost(setup, layer, index) for index, layer in enumerate(layers))


def _cost(setup: Setup, layer: Layer, index: int) -> LayerCost:
    found: dict[str, Any] = {}
    kinds: list[str] = []
    indexed = any(isinstance(cache, IndexKeys) for cache in layer.caches)
    for cache in layer.caches:
        if isinstance(cache, IndexKeys):
            if not any(isinstance(other, Latent) for other in layer.caches):
                raise refuse_kind(cache, index, setup.model, LABEL, "the planner knows SGLang's index keys beside MLA alone")
            found["index_bytes"] = index_bytes(cache.width) * setup.settings.dcp_size
        elif isinstance(cache, Latent):
            found.update(_latent(setup, cache))
        elif isinstance(cache, Cross) and len([c for c in layer.caches if isinstance(c, Full)]) > 1:
            raise refuse_kind(cache, index, setup.model, LABEL, "the planner has no rule for SGLang's encoder-decoder models")
        elif isinstance(cache, Full):
            found.update(_heads(setup, cache))
        elif isinstance(cache, State):
            found.update(_state(setup, cache))
        else:
            raise refuse_kind(cache, index, setup.model, LABEL)
        kinds.append(cache.kind)
    kind = "indexed" if indexed else "+".join(dict.fromkeys(kinds)) or "none"
    return LayerCost(index, kind, **found)


def _heads(setup: Setup, cache: Full) -> dict[str, Any]:
    ranks = max(1, setup.attention_tp // setup.settings.dcp_size)
    if ranks < cache.kv_heads:
        heads = divide(cache.kv_heads, ranks, "KV heads", LABEL)
    else:
        divide(ranks, cache.kv_heads, "ranks over KV heads", LABEL)
        heads = 1
    keys, values = (setup.format.bytes(heads * width) for width in (cache.k_dim, cache.v_dim))
    # A prompt that is kept for ever behind a window has no slots to give back.
    windowed = setup.windows and isinstance(cache, Sliding) and not isinstance(cache, ReferenceSliding)
    return {
        "key_bytes": keys, "value_bytes": values, "heads": heads, "k_dim": cache.k_dim, "v_dim": cache.v_dim,
        "window": cache.window if windowed else None,
    }  # fmt: skip


def _latent(setup: Setup, cache: Latent) -> dict[str, Any]:
    if setup.rules["mla"] == "flag" and not setup.settings.enable_mla:
        raise EngineRefusal(
            f"SGLang {setup.settings.version} caches expanded heads unless --enable-mla is given; set enable_mla", engine=NAME
        )
    rank, rope = cache.kv_lora_rank, cache.qk_rope_head_dim
    size = setup.format.bytes(rank + rope)
    facts = setup.tables["sparse"]
    backends = (setup.settings.dsa_prefill_backend, setup.settings.dsa_decode_backend)
    blackwell = generation(setup.gpu) >= facts["fp8_from"] and backends == (None, None)
    raw = blackwell or bool(set(backends) & set(facts["raw_backends"])) or backends == ("tilelang", "tilelang")
    if is_sparse(setup.model) and setup.kv_dtype == "fp8_e4m3" and not raw:
        size = rank + ceil_div(rank, facts["latent_group"]) * facts["latent_scale"] + rope * facts["rope_bytes"]
    return {"key_bytes": size, "heads": 1, "k_dim": rank, "v_dim": rope}


def index_bytes(width: int) -> int:
    """Bytes of one position's index key: one byte an element and a float32 scale for every 128, in any KV dtype."""
    facts = table(NAME)["sparse"]
    return int(width + ceil_div(width, facts["index_group"]) * facts["index_scale"])


def _state(setup: Setup, cache: State) -> dict[str, Any]:
    if setup.rules["states"] == "none":
        raise EngineRefusal(f"SGLang {setup.settings.version} does not run models with recurrent states", engine=NAME)
    tables = setup.tables
    convolution, recurrent = state_shares(cache, setup.attention_tp, LABEL, tables["state_styles"])
    return {
        "conv_bytes": convolution * tables["convolution_bytes"],
        "recurrent_bytes": recurrent * tables["state_dtypes"][state_dtype(setup.model, setup.settings)],
    }


def state_dtype(model: Model, settings: Settings) -> str:
    """Of recurrent states: --mamba-ssm-dtype, else the config's mamba_ssm_dtype, else float32."""
    if settings.mamba_ssm_dtype is not None:
        return settings.mamba_ssm_dtype
    text = model.config.get("text_config")
    named = (text if isinstance(text, Mapping) and "mamba_ssm_dtype" in text else model.config).get("mamba_ssm_dtype")
    return named if isinstance(named, str) and named in table(NAME)["state_dtypes"] else "float32"
