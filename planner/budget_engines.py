"""Each engine's way from a device's memory to what its cache gets, with the engine's own budget rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from planner import budget_terms as terms
from planner.budget_media import encoder_cache
from planner.budget_share import adapters, check_free, left_on_gpu, others
from planner.budget_terms import Load, Term
from planner.budget_tower import image_encoder
from planner.engines import llama_cpp, sglang_budget, tensorrt_llm, tgi
from planner.engines.costs import generation
from planner.engines.versions import rules_at, version_key
from planner.engines.vllm_setup import kv_budget_bytes, prepare
from planner.engines.vllm_tables import rules_of
from planner.hardware import Gpu
from planner.model import Model
from planner.reasons import Formula, Number, identifier, renamed, step
from planner.sharding_layers import vocabulary
from planner.texts import recognised, tell

Kv = Callable[[Mapping[str, int]], int]
#: The arithmetic of a Kv: (sizes by term, what it makes of them).
Rule = Callable[[Mapping[str, int], int], Formula]


@dataclass(frozen=True)
class Case:
    """What a budget is made for. constants: the content of runtime.yaml, or another fit of it."""

    model: Model
    settings: Any
    gpu: Gpu
    given: Mapping[str, int]
    constants: Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """Terms beside the device's total, the cache that figures for all of them leave, and the arithmetic of that."""

    terms: tuple[Term, ...]
    kv: Kv
    rule: Rule
    warnings: tuple[str, ...] = ()
    outside: str = ""
    outside_source: str = ""


def parallel(settings: Any) -> dict[str, Any]:
    """The sizes of a deployment that every engine has under one name or another."""
    return {
        "tensor_parallel_size": getattr(settings, "tensor_parallel_size", None) or getattr(settings, "num_shard", 1),
        "pipeline_parallel_size": getattr(settings, "pipeline_parallel_size", 1),
        "data_parallel_size": getattr(settings, "data_parallel_size", 1),
        "expert_parallel": bool(getattr(settings, "enable_expert_parallel", False)),
    }


def _width(model: Model, settings: Any) -> int:
    said = getattr(settings, "dtype", "auto")
    return 4 if said in ("float", "float32") or (said == "auto" and model.dtype == "float32") else 2


def vllm_plan(case: Case) -> Plan:
    """vLLM: ceil(total x gpu_memory_utilization) - weights - outside PyTorch - activation peak - graphs (from 0.21).

    The CUDA context is there before vLLM's first measurement and comes out of the share that it leaves alone.
    Source: vLLM 0.33.0, v1/worker/gpu_worker.py; planner/engines/vllm_setup.py.
    """
    settings, given, facts = case.settings, case.given, case.constants["vllm"]
    load, cut = vllm_load(case.model, settings, case.gpu, facts), parallel(settings)
    found = [left_on_gpu(case.model, settings, terms.weights(case.model, cut, "vllm", given), cut, given)]
    draft = settings.speculative_config.model if settings.speculative_config else None
    if draft is not None and "weights" not in given:
        own = terms.weights(draft, {**cut, "pipeline_parallel_size": 1}, "vllm", given)
        found.append(replace(own, name="draft weights", formula=renamed(own.formula, "draft weights")))
    found += adapters(case.model, "vllm", settings, cut, given, _width(case.model, settings))
    counted, profiled = rules_of(settings.version).cudagraph_estimate, version_key(settings.version) >= version_key("0.8.0")
    if "runtime" in given:
        found.append(terms.own_term("runtime", given["runtime"]))
    else:
        place = {"version": settings.version, "generation": generation(case.gpu)}
        rules = terms.row_at(facts["activation"], **place)
        outside = terms.row_at(facts["non_torch"], ranks=load.ranks, **place)
        peak = terms.given_term("activations", given) or terms.activations(case.model, load, rules)
        found += [peak, terms.given_term("non-torch", given) or terms.constant("non-torch", outside)]
        if not settings.language_model_only and "activations" not in given:
            length = max(settings.max_model_len or 0, 0) or case.model.max_context or 0
            if has_tower(case.model):
                counted_tower = image_encoder(case.model, load, length, peak.bytes) if profiled else None
                found.append(counted_tower or terms.constant("image encoder", facts["image_encoder"]))
            held = encoder_cache(case.model, settings.version, load, length)
            found += [held] if held else []
        if counted:
            graphs = next(row for row in facts["cuda_graphs"] if load.requests >= row["requests"])
            found.append(terms.given_term("cuda graphs", given) or terms.constant("cuda graphs", graphs))

    found += others(given)

    def kv(sizes: Mapping[str, int]) -> int:
        taken = sum(size for name, size in sizes.items() if name not in ("device", "cuda graphs", "other processes"))
        return int(kv_budget_bytes(settings, sizes["device"], taken, sizes.get("cuda graphs", 0)))

    share = settings.gpu_memory_utilization or rules_of(settings.version).gpu_memory_utilization

    def rule(sizes: Mapping[str, int], value: int) -> Formula:
        rest, taken = _less(sizes, "other processes")
        start = "ceil({device} x {gpu_memory_utilization})"
        return (step("budget", start + rest, value, **taken, device=sizes["device"], gpu_memory_utilization=share),)

    if not settings.kv_cache_memory_bytes:
        check_free(case.gpu, share, given, case.constants)
    why = tell("outside.vllm" if counted else "outside.vllm_graphs", share=share)
    return Plan(tuple(found), kv, rule, outside="outside the share", outside_source=why)


def _less(sizes: Mapping[str, int], *without: str) -> tuple[str, dict[str, Number]]:
    """" - {weights} - {activations}": all terms but the device and some, and their numbers by symbol."""
    taken: dict[str, Number] = {identifier(name): size for name, size in sizes.items() if name not in ("device", *without)}
    return "".join(f" - {{{name}}}" for name in taken), taken


def has_tower(model: Model) -> bool:
    """Whether the profiling run also encodes an image or a clip."""
    if model.media and "image" in model.media.rules:
        return True
    return any("tower" in item.name for item in model.weights.items) if model.weights else "vision_config" in model.config


def vllm_load(model: Model, settings: Any, gpu: Gpu, facts: Mapping[str, Any]) -> Load:
    """Tokens of a batch and requests of vLLM's profiling run. Before 0.8 a batch was one prompt of full length, up to 32,768."""
    ranks, width = settings.tensor_parallel_size, _width(model, settings)
    if version_key(settings.version) >= version_key("0.8.0"):
        setup = prepare(model, settings, gpu)
        tokens = setup.max_num_batched_tokens
        return Load(tokens, min(setup.max_num_seqs, tokens), ranks, width)
    length = settings.max_model_len if (settings.max_model_len or -1) > 0 else model.max_context or 2048
    chunked = length > facts["chunked_above"]
    tokens = settings.max_num_batched_tokens or (2048 if chunked else max(2048, length))
    return Load(tokens, min(settings.max_num_seqs or 256, tokens), ranks, width)


def sglang_plan(case: Case) -> Plan:
    """SGLang: free x mem_fraction_static - weights, free being what the context and NCCL leave of the card.

    Activations and graphs live in the rest of the fraction. Source: planner/engines/sglang_budget.py.
    """
    model, settings, gpu = case.model, case.settings, case.gpu
    cut = parallel(settings)
    found = [terms.weights(model, cut, "sglang", case.given)]
    found += adapters(model, "sglang", settings, cut, case.given, _width(model, settings))
    found += [_context(case, cut["tensor_parallel_size"]), *others(case.given)]

    def kv(sizes: Mapping[str, int]) -> int:
        free = sizes["device"] - sizes["non-torch"] - sizes.get("other processes", 0)
        after = free - sizes["weights"] - sizes.get("lora adapters", 0)
        return sglang_budget.kv_budget_bytes(model, settings, free, after, gpu.memory_bytes)

    share = sglang_budget.mem_fraction_static(model, settings, gpu.memory_bytes)

    def rule(sizes: Mapping[str, int], value: int) -> Formula:
        rest, others_taken = _less({name: size for name, size in sizes.items() if name in ("non-torch", "other processes")})
        free = step("free_before", "{device}" + rest, sizes["device"] - int(sum(others_taken.values())), **others_taken,
                    device=sizes["device"])  # fmt: skip
        loaded, taken = _less(sizes, "non-torch", "other processes")
        budget = "floor({free_before}" + loaded + " - {free_before} x (1 - {mem_fraction_static}))"
        return (free, step("budget", budget, value, **taken, free_before=free.value, mem_fraction_static=share))

    why = tell("outside.sglang", share=share)
    return Plan(tuple(found), kv, rule, outside="outside the share", outside_source=why)


def _context(case: Case, ranks: int) -> Term:
    """The CUDA context, and NCCL's buffers on more than one rank."""
    row = terms.row_at(case.constants["context"], ranks=ranks)
    return terms.given_term("non-torch", case.given) or terms.constant("non-torch", row)


def _measured(case: Case, load: Load, engine: str) -> list[Term]:
    """Weights, context and activation peak for an engine that measures what a trial run leaves."""
    cut = parallel(case.settings)
    found = [terms.weights(case.model, cut, engine, case.given)]
    free = terms.device(case.gpu, case.given).bytes - found[0].bytes - case.given.get("other processes", 0)
    found += adapters(case.model, engine, case.settings, cut, case.given, _width(case.model, case.settings), max(0, free))
    found += others(case.given)
    if "runtime" in case.given:
        return [*found, terms.own_term("runtime", case.given["runtime"])]
    rules = case.constants[engine]["activation"]
    peak = terms.given_term("activations", case.given) or terms.activations(case.model, load, rules)
    return [*found, _context(case, load.ranks), peak]


def tensorrt_llm_plan(case: Case) -> Plan:
    """TensorRT-LLM: free_gpu_memory_fraction of what weights, context and a trial run leave.

    Source: planner/engines/tensorrt_llm.py, kv_budget_bytes.
    """
    settings, facts = case.settings, case.constants["tensorrt-llm"]
    requests, ranks = settings.max_batch_size or facts["requests"], settings.tensor_parallel_size
    found = _measured(case, Load(facts["tokens"], requests, ranks, _width(case.model, settings)), "tensorrt-llm")

    def kv(sizes: Mapping[str, int]) -> int:
        left = _left(sizes)
        return tensorrt_llm.kv_budget_bytes(settings, left)

    def rule(sizes: Mapping[str, int], value: int) -> Formula:
        left, most = _left_rule("left", sizes, _left(sizes)), settings.max_gpu_total_bytes
        if left[-1].value < 0:
            return _left_rule("budget", sizes, value)
        part = "floor({left} x {free_gpu_memory_fraction})"
        given = {"left": left[-1].value, "free_gpu_memory_fraction": settings.free_gpu_memory_fraction}
        capped = f"min({part}, {{max_gpu_total_bytes}})" if most else part
        return (*left, step("budget", capped, value, **given, max_gpu_total_bytes=most or 0))

    why = tell("kept.trt", share=settings.free_gpu_memory_fraction)
    return Plan(tuple(found), kv, rule, outside="kept free", outside_source=why)


def tgi_plan(case: Case) -> Plan:
    """TGI: what the warm-up prefill leaves, less its slack. Source: planner/engines/tgi.py, kv_budget_bytes."""
    settings, facts = case.settings, case.constants["tgi"]
    tokens = tgi.prefill_tokens(settings) or facts["tokens"]
    found = _measured(case, Load(tokens, facts["requests"], settings.num_shard, _width(case.model, settings)), "tgi")

    def kv(sizes: Mapping[str, int]) -> int:
        return tgi.kv_budget_bytes(settings, _left(sizes), sizes["device"])

    def rule(sizes: Mapping[str, int], value: int) -> Formula:
        left, facts = _left_rule("left", sizes, _left(sizes)), rules_at("tgi", settings.version)
        start, keep = int(left[-1].value), float(facts["keep"])
        given = {"left": start, "cuda_memory_fraction": settings.cuda_memory_fraction, "device": sizes["device"], "graphs": keep}
        if facts["of"] == "total":
            text = "floor({left} - (1 - {cuda_memory_fraction} x {graphs}) x {device})"
        else:
            beside = start - (1 - settings.cuda_memory_fraction) * sizes["device"] > 0
            text = "{left} - (1 - {cuda_memory_fraction}) x {device}"
            text = f"floor(({text}) x {{graphs}})" if beside else f"floor({text})"
        return (*left, step("budget", text, value, **given))

    return Plan(tuple(found), kv, rule, outside="kept free", outside_source=tell("kept.tgi"))


def transformers_plan(case: Case) -> Plan:
    """transformers: the total less weights, context and a prompt's forward pass; nothing is set aside.

    Source: planner/data/runtime.yaml, transformers.
    """
    facts = case.constants["transformers"]
    found = _measured(case, Load(facts["tokens"], facts["requests"], 1, _width(case.model, case.settings)), "transformers")
    return Plan(tuple(found), _left, partial(_left_rule, "budget"))


def _left(sizes: Mapping[str, int]) -> int:
    return sizes["device"] - sum(size for name, size in sizes.items() if name != "device")


def _left_rule(name: str, sizes: Mapping[str, int], value: int) -> Formula:
    """The arithmetic of `_left`."""
    rest, taken = _less(sizes)
    return (step(name, "{device}" + rest, value, **taken, device=sizes["device"]),)


def llama_cpp_plan(case: Case) -> Plan:
    """llama.cpp: the total less weights, the CUDA context and the compute buffer.

    compute = 4 B x n_ubatch x (vocabulary + hidden), or without flash attention 4 B x heads x cells x n_ubatch where more

    Source: research of public llama.cpp logs, planner/data/runtime.yaml, llama.cpp.
    """
    model, settings, given = case.model, case.settings, case.given
    facts = case.constants["llama.cpp"]
    found = [terms.weights(model, {}, "llama.cpp", given), *adapters(model, "llama.cpp", settings, {}, given), *others(given)]
    if "runtime" in given:
        return Plan((*found, terms.own_term("runtime", given["runtime"])), _left, partial(_left_rule, "budget"))
    held = llama_cpp.cache_bytes(model, settings)
    rows = vocabulary(model) + model.hidden_size * facts["hidden"]
    size = 4 * held.n_ubatch * rows
    if settings.flash_attn in ("off", False):
        size = max(size, 4 * held.n_ubatch * held.n_ctx * max(1, model.attention_heads))
    words = {"n_ubatch": held.n_ubatch, "vocabulary": vocabulary(model), "hidden": model.hidden_size * facts["hidden"]}
    rule, more = "4 x {n_ubatch} x ({vocabulary} + {hidden})", "4 x {n_ubatch} x {n_ctx} x {heads}"
    if settings.flash_attn in ("off", False):
        rule = f"max({rule}, {more})"
    shape = step("compute_buffer", rule, size, **words, n_ctx=held.n_ctx, heads=max(1, model.attention_heads))
    low, high = int(size * facts["low"]), int(size * facts["high"])
    buffer = Term("compute buffer", size, low, high, "estimated", recognised(facts["source"]), (shape,))
    left = partial(_left_rule, "budget")
    return Plan((*found, _context(case, 1), terms.given_term("activations", given) or buffer), _left, left)


PLANS: dict[str, Callable[[Case], Plan]] = {
    "vllm": vllm_plan,
    "sglang": sglang_plan,
    "tensorrt-llm": tensorrt_llm_plan,
    "tgi": tgi_plan,
    "transformers": transformers_plan,
    "llama.cpp": llama_cpp_plan,
}
