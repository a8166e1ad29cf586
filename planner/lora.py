"""LoRA adapters: how large one is, and what an engine keeps ready for several of them on one GPU and in host memory.

An adapter of rank r adds r x (inputs + outputs) parameters to each linear layer. vLLM and SGLang lay out slots for whole batches
of adapters when they start, at the largest rank, on every layer that may have one; TensorRT-LLM keeps a cache of pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planner.errors import InputError, shown
from planner.lora_engines import NOT_MODELLED, RULES, Kept
from planner.lora_layers import FEED, linear_layers
from planner.model import Model

__all__ = ["NOT_MODELLED", "Kept", "adapter_bytes", "adapter_parameters", "host_bytes", "kept", "wanted"]


def adapter_parameters(model: Model, rank: int, modules: Iterable[str] | None = None) -> int:
    """Parameters of one adapter of `rank` on `modules` (every linear layer where None; routers and embeddings only by name).

    parameters = sum over layers of rank x (inputs + outputs), experts counted each

    Errors: InputError for a rank below 1, a module that the model does not have, layers that are not known.
    Source: Hu et al., arXiv 2106.09685; PEFT prints 41,943,040 for rank 16 on every linear layer of Llama-3.1-8B.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= 1 << 16:
        raise InputError(f"the rank of an adapter is {shown(rank)}; it is a whole number from 1", field="max_lora_rank")
    named, whole = tuple(modules) if modules is not None else None, linear_layers(model, "transformers")
    if named and whole.has_experts and set(FEED) & set(named):
        named = (*named, "experts")  # each with all three projections
    found = whole.chosen(named, packed=False)
    skipped = [name for name in ("gate", "conv1d") if name not in (named or ())]
    count = sum(one.elements(rank) for layer in found.layers for one in layer if one.name not in skipped)
    for one in (found.embedding, found.head):
        count += one.elements(rank) if named and one.name in named else 0
    return count


def adapter_bytes(model: Model, rank: int, modules: Iterable[str] | None = None, width: int = 2) -> int:
    """Bytes of one adapter, `width` bytes a parameter: the size of its file but for a header. Errors: as `adapter_parameters`."""
    return adapter_parameters(model, rank, modules) * width


def wanted(engine: str, settings: Any) -> bool:
    """Whether the settings ask for adapters."""
    if engine == "tensorrt-llm":
        return settings.max_lora_rank is not None
    return engine in RULES and bool(settings.enable_lora)


def kept(model: Model, engine: str, settings: Any, cut: Mapping[str, Any], width: int = 2, free: int = 0) -> Kept | None:
    """What one GPU keeps for adapters under these settings; None where they ask for none.

    cut: tensor_parallel_size, pipeline_parallel_size, data_parallel_size, expert_parallel. width: bytes of the model's dtype.
    free: what a cache that is a share of the free memory is a share of.

    vLLM: max_loras x width x sum of A [rank, inputs] and B [outputs, rank] of each wrapped layer; column-parallel layers divide
    B's outputs among ranks, row-parallel ones A's inputs, fully_sharded_loras the other side too; embeddings are whole on each.
    SGLang: the same for max_loras_per_batch slots, experts on every layer, the head's outputs divided.
    TensorRT-LLM: pages of a cache for max_loras adapters, or its share of the free memory.

    Errors: EngineRefusal for what the engine does not start with, InputError for what is not said or not known.
    Source: vLLM 0.33.0, lora/layers/; SGLang 0.5.23, lora/mem_pool.py; TensorRT-LLM, batch_manager/peftCacheManager.cpp.
    """
    return RULES[engine](model, settings, cut, width, free) if wanted(engine, settings) else None


def host_bytes(model: Model, engine: str, settings: Any) -> int:
    """Bytes of adapters that one process keeps in host memory; 0 where none are asked for or their number is not said.

    vLLM: max_cpu_loras (max_loras where it is not said) x an adapter of the largest rank; TensorRT-LLM: max_cpu_loras.
    """
    if not wanted(engine, settings) or engine == "sglang":
        return 0
    count = settings.max_cpu_loras or (settings.max_loras if engine == "vllm" else None)
    return (count or 0) * adapter_bytes(model, settings.max_lora_rank, settings.lora_target_modules or None)
