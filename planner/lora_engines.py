"""The adapters that each engine keeps ready on one GPU: vLLM's and SGLang's slots, TensorRT-LLM's cache of pages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.accelerators import read
from planner.engines.versions import version_key
from planner.errors import EngineRefusal, InputError
from planner.lora_layers import FEED, Linear, LinearLayers, linear_layers
from planner.model import Model
from planner.reasons import Formula, known, step
from planner.sharding import pipeline_stages
from planner.texts import tell
from planner.units import ceil_div

#: What is not counted: the buffers of a running step, and the second set of graphs.
NOT_MODELLED = {"vllm": tell("lora.vllm"), "sglang": tell("lora.sglang"), "tensorrt-llm": tell("lora.trt")}


@dataclass(frozen=True)
class Kept:
    """Bytes that one rank keeps on its GPU for adapters, low to high. known: nothing of it is estimated."""

    bytes: int
    low: int
    high: int
    known: bool
    source: str
    formula: Formula = field(default=(), compare=False, repr=False)


@functools.cache
def _facts() -> Mapping[str, Any]:
    found: Mapping[str, Any] = read("lora.yaml")
    return found


def _modules(settings: Any) -> tuple[str, ...] | None:
    return settings.lora_target_modules or None


def _stages(layers: LinearLayers, cut: Mapping[str, Any], engine: str) -> tuple[range, ...]:
    return pipeline_stages(len(layers.layers), cut["pipeline_parallel_size"], engine)


def _vllm(model: Model, settings: Any, cut: Mapping[str, Any], width: int, free: int) -> Kept:
    facts, rules = _facts()["vllm"], _rules_of(settings.version)
    modules, rank, slots = _modules(settings), settings.max_lora_rank, settings.max_loras
    layers = linear_layers(model, "vllm").chosen(modules)
    wrapped = _embeddings(model, facts, modules)
    _check_vllm(model, settings, cut, facts, rules, layers, wrapped)
    whole = any("experts" in module for module in modules or ("experts",)) and rules["experts"]
    size = functools.partial(_vllm_elements, settings=settings, cut=cut, fused=_fused(model, facts))
    rows = rules["extra_vocabulary"]
    ends: dict[str, int] = {
        "embed_tokens": rank * (layers.embedding.inputs + rows + layers.embedding.outputs),
        "lm_head": rank * (layers.head.inputs + layers.head.outputs + rows) + rows * layers.head.inputs,
    }

    def stage(part: range, slices: bool, embeddings: bool) -> int:
        held = [one for i in part for one in layers.layers[i] if whole or not one.experts]
        first = ends["embed_tokens"] * (part.start == 0 and "embed_tokens" in wrapped)
        last = ends["lm_head"] * (part.stop == len(layers.layers) and "lm_head" in wrapped)
        return sum(size(one, slices=slices) for one in held) + (first + last) * embeddings

    parts = _stages(layers, cut, "vllm")
    top = max(stage(part, True, True) for part in parts)
    inner = model.config.get("text_config") is not None and modules is None and model.architecture not in _said(facts)
    low = max(stage(part, layers.known, not inner) for part in parts)
    unit = slots * (width if settings.lora_dtype == "auto" else 2)
    source = f"vLLM's slots: {slots:,} of rank {rank} on {_what(modules, wrapped)}; {NOT_MODELLED['vllm']}"
    given = {"slots": slots, "elements": top, "bytes_each": unit // slots}
    rule = step("lora_adapters", "{slots} x {elements} x {bytes_each}", top * unit, **given)
    return Kept(top * unit, low * unit, top * unit, layers.known and not inner, source, (rule,))


def _fused(model: Model, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The layers that have the A of another one, in this model's checkpoints."""
    found: tuple[str, ...] = ("experts",) if model.architecture in facts["fused_experts"] else ()
    found += ("k_proj", "v_proj") if model.architecture in facts["one_a"]["qkv"] else ()
    return found + (("up_proj",) if model.architecture in facts["one_a"]["gate_up"] else ())


def _vllm_elements(one: Linear, slices: bool, settings: Any, cut: Mapping[str, Any], fused: tuple[str, ...]) -> int:
    """Elements that one rank keeps for one slot of a layer."""
    ranks: int = cut["tensor_parallel_size"]
    rank: int = settings.max_lora_rank
    copies = max(1, one.experts)
    if one.experts:
        shared = ranks * cut["data_parallel_size"]
        copies, shared = (ceil_div(copies, shared), 1) if cut["expert_parallel"] else (copies, shared)
        inputs, outputs = one.local(shared)
    else:
        inputs, outputs = one.local(ranks)
    shares = one.name in fused and (one.fused or not one.experts)
    down = 0 if shares else rank * (one.slices if slices else 1)
    if settings.fully_sharded_loras:
        down, outputs = (down // ranks, outputs) if one.cut == "column" else (down, outputs)
        outputs = ceil_div(outputs, ranks) if one.cut == "row" else outputs
    return copies * (down * inputs + outputs * rank)


def _said(facts: Mapping[str, Any]) -> set[str]:
    return {*facts["embeddings"]["none"], *facts["embeddings"]["input"]}


def _embeddings(model: Model, facts: Mapping[str, Any], modules: tuple[str, ...] | None) -> tuple[str, ...]:
    """The embeddings that adapters are wrapped around: those of the model's class, and of the modules asked for."""
    said = facts["embeddings"]
    own = () if model.architecture in said["none"] else ("embed_tokens",) if model.architecture in said["input"] else (
        "embed_tokens", "lm_head")  # fmt: skip
    return own if modules is None else tuple(name for name in own if any(module.endswith(name) for module in modules))


def _what(modules: tuple[str, ...] | None, wrapped: tuple[str, ...]) -> str:
    if modules is not None:
        return ", ".join(modules)
    return "every linear layer" + (f", {' and '.join(wrapped)}" if wrapped else "")


def _rules_of(version: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for row in _facts()["vllm"]["versions"]:
        if version_key(row["from"]) <= version_key(version) or not merged:
            merged.update(row)
    return merged


def _check_vllm(
    model: Model, settings: Any, cut: Mapping[str, Any], facts: Mapping[str, Any], rules: Mapping[str, Any],
    layers: LinearLayers, wrapped: tuple[str, ...],
) -> None:  # fmt: skip
    rank, slots, ranks = settings.max_lora_rank, settings.max_loras, cut["tensor_parallel_size"]
    if model.architecture in facts["refused"]:
        raise _refused("vllm", f"LoRA is not supported for {model.architecture}", "enable_lora")
    if rank not in rules["ranks"]:
        said = ", ".join(map(str, rules["ranks"]))
        raise _refused("vllm", f"max_lora_rank {rank} is none of {said}; take the next higher one", "max_lora_rank")
    if settings.max_cpu_loras is not None and settings.max_cpu_loras < slots:
        raise _refused("vllm", f"max_cpu_loras ({settings.max_cpu_loras}) must be at least max_loras ({slots})", "max_cpu_loras")
    limit = facts["largest_vocabulary"]
    if "lm_head" in wrapped and layers.head.outputs > limit:
        raise _refused("vllm", f"with LoRA the vocabulary must be at most {limit:,}, and {model.name} has"
                       f" {layers.head.outputs:,}; name lora_target_modules without lm_head", "lora_target_modules")  # fmt: skip
    if settings.fully_sharded_loras:
        if rank % ranks:
            raise _refused("vllm", f"fully_sharded_loras divides rank {rank} among {ranks} ranks", "fully_sharded_loras")
        if cut["expert_parallel"] and any(one.experts for layer in layers.layers for one in layer):
            raise _refused("vllm", "adapters of experts take enable_expert_parallel or fully_sharded_loras, not both",
                           "fully_sharded_loras")  # fmt: skip


def _refused(engine: str, why: str, field: str) -> EngineRefusal:
    return EngineRefusal(f"{engine} refuses this: {why}", engine=engine, field=field)


def _sglang(model: Model, settings: Any, cut: Mapping[str, Any], width: int, free: int) -> Kept:
    rank, slots, modules = settings.max_lora_rank, settings.max_loras_per_batch, _modules(settings)
    if rank is None:
        raise InputError("SGLang sizes its slots by max_lora_rank, or takes it from the adapters; say it", field="max_lora_rank")
    slots = slots or _facts()["sglang"]["max_loras_per_batch"]
    whole, ranks = linear_layers(model, "sglang"), cut["tensor_parallel_size"]
    if modules and any(name.rpartition(".")[2] in (*FEED, "gate_up_proj") for name in modules):
        modules = (*modules, "experts")
    layers = whole.chosen(modules)
    experts = next(([one for one in layer if one.experts] for layer in layers.layers if any(o.experts for o in layer)), [])
    dense = next(([one for one in layer if one.name in FEED] for layer in layers.layers if any(
        o.experts for o in layer)), [])  # fmt: skip

    def stage(part: range, slices: bool) -> int:
        """With experts anywhere, SGLang keeps room for them and for shared ones on every layer."""
        total = 0
        for i in part:
            own = [one for one in layers.layers[i] if not one.experts and one.name != "gate"]
            if experts:
                own = [one for one in own if one.name not in FEED or dense] + experts
            total += sum(_column_row(one, rank, ranks, slices) for one in own)
        return total

    parts = _stages(layers, cut, "sglang")
    ends = 0
    if modules and ("all" in modules or "embed_tokens" in modules):
        ends += layers.embedding.elements(rank)
    if modules and ("all" in modules or "lm_head" in modules):
        ends += _column_row(layers.head, rank, ranks, False)
    top, low = (max(stage(part, slices) for part in parts) + ends for slices in (True, layers.known))
    source = f"SGLang's slots: {slots:,} of rank {rank} on {_what(modules, ())}; {NOT_MODELLED['sglang']}"
    size = top * slots * width
    rule = step("lora_adapters", "{slots} x {elements} x {bytes_each}", size, slots=slots, elements=top, bytes_each=width)
    return Kept(size, low * slots * width, size, layers.known and modules is not None, source, (rule,))


def _column_row(one: Linear, rank: int, ranks: int, slices: bool) -> int:
    inputs, outputs = one.local(ranks)
    return max(1, one.experts) * rank * (inputs * (one.slices if slices else 1) + outputs)


def _tensorrt_llm(model: Model, settings: Any, cut: Mapping[str, Any], width: int, free: int) -> Kept:
    """Slots of one page's width, in whole pages.

    width of a page = the smallest module's inputs + outputs on a rank; slots = max_loras x rank x layers x modules x
    ceil(the largest module / page), or device_cache_percent of the free memory; a page has as many slots as an adapter of
    rank 8 (or one module of rank 64) takes.
    """
    facts, rank, ranks = _facts()["tensorrt-llm"], settings.max_lora_rank, cut["tensor_parallel_size"]
    layers = linear_layers(model, "tensorrt-llm").chosen(_modules(settings))
    part = max(_stages(layers, cut, "tensorrt-llm"), key=len)
    modules: dict[tuple[str, str], int] = {}
    for layer in layers.layers:
        for one in (one for one in layer if one.name != "gate"):
            inputs, outputs = one.local(ranks)
            key = (one.name, one.cut + str(one.fused))
            modules[key] = max(modules.get(key, 0), max(1, one.experts) * (inputs + outputs))
    if not modules:
        return Kept(0, 0, 0, True, "no module has an adapter", known("lora_adapters", "nothing", 0))
    sizes = tuple(modules.values())
    page, largest, total = min(sizes), max(sizes), sum(sizes)
    usual, most = min(facts["optimal_adapter_size"], rank), min(facts["max_adapter_size"], rank)
    each = max(len(part) * sum(usual * ceil_div(size, page) for size in sizes), ceil_div(most * largest, page))
    if settings.max_loras is not None:
        slots = settings.max_loras * rank * len(layers.layers) * len(sizes) * ceil_div(largest, page)
        why = f"a cache for {settings.max_loras:,} adapters of rank {rank}"
    else:
        share = settings.device_cache_percent or facts["device_cache_percent"]
        slots, why = int(free * share) // (page * width), f"{share:.0%} of the free memory"
    needed = ceil_div(most * total * len(part), page)
    if slots < needed:
        raise _refused("tensorrt-llm", "its cache of adapters would not hold one of the largest; raise max_loras or"
                       " device_cache_percent", "max_loras")  # fmt: skip
    size = ceil_div(slots, each) * each * page * width
    low = size if settings.max_loras is not None else 0
    rule = step(
        "lora_adapters", "ceil({pages} / {pages_of_one}) x {pages_of_one} x {page} x {bytes_each}", size, pages=slots,
        pages_of_one=each, page=page, bytes_each=width,
    )  # fmt: skip
    source = f"TensorRT-LLM: {why}; {NOT_MODELLED['tensorrt-llm']}"
    return Kept(size, low, size, layers.known and low > 0, source, (rule,))


RULES: dict[str, Callable[[Model, Any, Mapping[str, Any], int, int], Kept]] = {
    "vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt_llm,
}  # fmt: skip
