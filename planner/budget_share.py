"""What shares a GPU with an engine's weights and cache: adapters, other processes, and weights that stay in host memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from planner import budget_terms as terms
from planner import lora
from planner.budget_terms import Term
from planner.errors import EngineRefusal
from planner.hardware import Gpu
from planner.model import Model
from planner.reasons import step
from planner.sharding import weights_per_rank
from planner.texts import tell
from planner.units import GIB, format_bytes

#: The code of what each engine makes of memory that other processes hold.
OTHERS = {
    "vllm": "others.vllm", "sglang": "others.sglang", "tensorrt-llm": "others.trt", "tgi": "others.tgi",
    "llama.cpp": "others.llama", "transformers": "others.hf",
}  # fmt: skip


def shared_notes(engine: str, terms_there: Iterable[Term]) -> tuple[str, ...]:
    """What is not counted of adapters, and what the engine makes of other processes, where a budget has either."""
    names = {term.name: term.confidence for term in terms_there}
    found = list[str]()
    if names.get("lora adapters", "given") != "given":
        found.append(lora.NOT_MODELLED[engine])
    if "other processes" in names:
        found.append(tell(OTHERS[engine]))
    return tuple(found)


def adapters(
    model: Model, engine: str, settings: Any, cut: Mapping[str, Any], given: Mapping[str, int], width: int = 2, free: int = 0
) -> tuple[Term, ...]:
    """The term `lora adapters`: as the person gave it, else by the engine's own slots; none where there are no adapters.

    Errors and Source: `planner.lora.kept`.
    """
    known = terms.given_term("lora adapters", given)
    if known:
        return (known,)
    found = lora.kept(model, engine, settings, cut, width, free)
    if found is None:
        return ()
    confidence: terms.Confidence = "documented" if found.known else "estimated"
    return (Term("lora adapters", found.bytes, found.low, found.high, confidence, found.source, found.formula),)


def others(given: Mapping[str, int]) -> tuple[Term, ...]:
    """The term `other processes`, where the person says what they hold of the GPU."""
    known = terms.given_term("other processes", given)
    return (known,) if known else ()


def left_on_gpu(model: Model, settings: Any, weights: Term, cut: Mapping[str, Any], given: Mapping[str, int]) -> Term:
    """The weights that stay on each GPU with vLLM's cpu_offload_gb; as they are without.

    left = weights - min(cpu_offload_gb, decoder layers): whole parameters of the layers move until the limit is reached, so that
    no less than the limit does; embeddings and the head never move.

    Source: vLLM 0.33.0, model_executor/offloader/uva.py.
    """
    limit = int(settings.cpu_offload_gb * GIB)
    if not limit:
        return weights
    if "weights" not in given:
        fullest = weights_per_rank(model, engine="vllm", **cut).fullest
        limit = min(limit, sum(part.low for part in fullest.parts if part.name == "layers"))
    low, value, high = (max(0, size - limit) for size in (weights.low, weights.bytes, weights.high))
    rule = step("weights", "max(0, {weights} - {in_host_memory})", value, weights=weights.bytes, in_host_memory=limit)
    source = tell("weights.offloaded", source=weights.source, size=format_bytes(limit))
    return replace(weights, bytes=value, low=low, high=high, source=source, formula=(*weights.formula, rule))


def check_free(gpu: Gpu, share: float, given: Mapping[str, int], constants: Mapping[str, Any]) -> None:
    """vLLM's first check, where other processes are on the GPU: free memory >= ceil(total x gpu_memory_utilization).

    free = total - other processes - the CUDA context

    Errors: EngineRefusal with the largest share that starts.
    Source: vLLM 0.33.0, v1/worker/utils.py, request_memory.
    """
    used = given.get("other processes", 0)
    total = terms.device(gpu, given).bytes
    free = total - used - terms.constant("context", constants["context"][0]).bytes
    if used and free < total * share:
        most = int(max(0.0, free / total) * 100) / 100
        advice = f"a share of at most {most:g} starts" if most else "no share starts"
        raise EngineRefusal(
            f"vllm refuses this: {format_bytes(max(0, free))} are free at start-up, less than gpu_memory_utilization {share:g} of"
            f" {format_bytes(total)}; {advice}", engine="vllm", field="gpu_memory_utilization",
        )  # fmt: skip
