"""What vLLM refuses whatever the memory, and why, before any cache is laid out."""

from __future__ import annotations

from planner.engines.vllm_facts import Facts, vllm_attention_heads
from planner.engines.vllm_groups import stages
from planner.engines.vllm_settings import Settings
from planner.engines.vllm_tables import table, version_key
from planner.errors import EngineRefusal
from planner.layers import Full, Latent, Sliding

#: The first version whose registry is known not to have the dropped architectures that carry no version of their own.
_REGISTRY_READ = "0.31.0"
_V4_FORMATS = ("auto", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla")


def check(facts: Facts, settings: Settings) -> None:
    """EngineRefusal with the first reason that applies."""
    _check_tensor_parallel(facts, settings)  # what vLLM looks at first, even for models that it has no class for
    _check_architecture(facts, settings)
    _check_pipeline(facts, settings)
    _check_context_parallel(facts, settings)
    _check_window(facts)
    _check_kv_dtype(facts, settings)


def _refusal(why: str, **fields: object) -> EngineRefusal:
    return EngineRefusal(f"vLLM refuses this: {why}", engine="vllm", **fields)


def _check_architecture(facts: Facts, settings: Settings) -> None:
    version = version_key(settings.version)
    for row in table("models")["dropped"]:
        if facts.model.model_type not in row["types"] and facts.text_type not in row["types"]:
            continue
        if version > version_key(row["until"]) if "until" in row else version >= version_key(_REGISTRY_READ):
            last = f"; the last version with it is {row['until']}" if "until" in row else ""
            raise _refusal(f"version {settings.version} has no class for {row['name']} models{last}", version=settings.version)


def _check_tensor_parallel(facts: Facts, settings: Settings) -> None:
    tp, heads = settings.tensor_parallel_size, vllm_attention_heads(facts)
    if heads % tp:
        raise _refusal(f"{heads} attention heads do not divide by tensor_parallel_size {tp}", tensor_parallel_size=tp)
    for kv_heads in sorted({c.kv_heads for c in facts.caches if isinstance(c, Full)}):
        if kv_heads % tp and (tp % kv_heads or facts.traits.get("kv_heads_cover")):
            why = f"{kv_heads} KV heads neither divide by tensor_parallel_size {tp} nor divide it"
            raise _refusal(why, tensor_parallel_size=tp)
    vision = facts.model.config.get("vision_config")
    if isinstance(vision, dict) and not settings.language_model_only:
        for word in facts.traits.get("vision_tp", ()):
            count = vision.get(word)
            if isinstance(count, int) and count % tp:
                raise _refusal(f"the vision tower's {word} {count} does not divide by tensor_parallel_size {tp}", field=word)


def _check_pipeline(facts: Facts, settings: Settings) -> None:
    pp = settings.pipeline_parallel_size
    if pp == 1:
        return
    if facts.traits.get("no_pp") or not facts.caches:
        raise _refusal(f"{facts.model.model_type} models cannot be cut into pipeline stages; use pipeline_parallel_size 1")
    if pp > len(facts.layers):
        raise _refusal(f"{len(facts.layers)} layers cannot be cut into {pp} pipeline stages", pipeline_parallel_size=pp)
    for stage in stages(len(facts.layers), pp):
        for i in stage:
            source = facts.layers[i].shares
            if source is not None and source >= 0 and source not in stage:
                raise _refusal(f"layer {i} shares the cache of layer {source}, which {pp} pipeline stages put on another stage")


def _check_context_parallel(facts: Facts, settings: Settings) -> None:
    dcp, tp = settings.decode_context_parallel_size, settings.tensor_parallel_size
    if dcp == 1:
        return
    if tp % dcp:
        raise _refusal(f"tensor_parallel_size {tp} does not divide by decode_context_parallel_size {dcp}")
    if any(isinstance(cache, Sliding) for cache in facts.caches):
        raise _refusal("decode context parallelism does not work with sliding windows")
    for kv_heads in sorted({c.kv_heads for c in facts.caches if isinstance(c, Full)}):
        if tp // kv_heads < dcp:
            raise _refusal(
                f"decode_context_parallel_size {dcp} needs that many copies of each KV head: tensor_parallel_size {tp} over"
                f" {kv_heads} KV heads makes {max(1, tp // kv_heads)}"
            )


def _check_window(facts: Facts) -> None:
    text = facts.text
    layers, border = text.get("num_hidden_layers"), text.get("max_window_layers")
    if not str(facts.text_type or facts.model.model_type).startswith("qwen2") or not text.get("use_sliding_window"):
        return
    if isinstance(border, int) and isinstance(layers, int) and border < layers:
        raise _refusal(f"a Qwen2 window that begins at layer {border} of {layers} (max_window_layers)")


def _check_kv_dtype(facts: Facts, settings: Settings) -> None:
    name = settings.kv_cache_dtype
    if facts.traits.get("block") == "FLASHMLA_SPARSE_DSV4" and name not in _V4_FORMATS:
        raise _refusal(f"DeepSeek-V4's caches are packed fp8; kv_cache_dtype {name} is not taken", kv_cache_dtype=name)
    if name.endswith("ds_mla") and not any(isinstance(cache, Latent) for cache in facts.caches) and facts.caches:
        raise _refusal(f"{name} is a format of latent (MLA) caches", kv_cache_dtype=name)
