"""Solving for what is not given: the split, the number of GPUs, the KV dtype, the kind of GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.capacity_deploy import TENSOR, Deployment, changed, deployment
from planner.capacity_evaluate import Evaluator
from planner.capacity_plan import Plan, evaluate, holds
from planner.capacity_rules import context_limit
from planner.engines.base import EngineSettings
from planner.errors import EngineRefusal, PlannerError
from planner.hardware import Gpu, Node
from planner.model import Model
from planner.texts import tell
from planner.workload import Workload

Settings = EngineSettings | Mapping[str, Any] | None
#: Counts of GPUs that are tried: each up to a node of eight, then whole nodes.
COUNTS = (*range(1, 9), *range(16, 129, 8))
#: What a cache can be stored as, in each engine's words, by falling size.
KV_DTYPES: dict[str, tuple[dict[str, Any], ...]] = {
    "vllm": ({"kv_cache_dtype": "auto"}, {"kv_cache_dtype": "fp8"}),
    "sglang": tuple({"kv_cache_dtype": kind} for kind in ("auto", "fp8_e5m2", "fp8_e4m3")),
    "tensorrt-llm": tuple({"kv_cache_dtype": kind} for kind in ("auto", "fp8", "nvfp4")),
    "tgi": tuple({"kv_cache_dtype": kind} for kind in ("auto", "fp8_e5m2", "fp8_e4m3fn")),
    "llama.cpp": tuple({"cache_type_k": kind, "cache_type_v": kind} for kind in ("f16", "q8_0", "q5_1", "q4_0")),
    "transformers": (
        {"cache_implementation": "dynamic"}, {"cache_implementation": "quantized", "nbits": 4},
        {"cache_implementation": "quantized", "nbits": 2},
    ),
}  # fmt: skip
#: One GPU of each common kind, by memory.
COMMON_GPUS = ("t4", "l4", "a10g", "4090", "5090", "l40s", "a100-40gb", "a100-80gb", "h100-sxm", "h200", "b200", "mi300x")


@dataclass(frozen=True)
class Option:
    """One of several ways, and its plan; or why the engine refuses it. name: the split, dtype or GPU in a few words."""

    name: str
    plan: Plan | None
    refusal: str | None = None

    @property
    def fits(self) -> bool:
        return self.plan is not None and self.plan.fits


def _try(name: str, one: Deployment) -> Option:
    try:
        return Option(name, evaluate(one, solve=False))
    except EngineRefusal as error:
        return Option(name, None, error.message)


def split_name(tensor: int, pipeline: int, replicas: int) -> str:
    """"TP 4 x PP 2", with replicas where there are any."""
    parts = [f"TP {tensor}"] + [f"PP {pipeline}"] * (pipeline > 1) + [f"DP {replicas}"] * (replicas > 1)
    return " x ".join(parts)


def _rank(option: Option) -> tuple[Any, ...]:
    """Those that fit first, then by requests, headroom, fewer stages, and fewer ranks."""
    plan = option.plan
    if plan is None:
        return (2,)
    many = plan.max_requests if plan.max_requests is not None else float("inf")
    return (not plan.fits, -many, -plan.headroom_bytes, plan.pipeline_parallel_size, plan.tensor_parallel_size)


def _way(one: Deployment) -> str:
    """How a deployment shares out its GPUs, in a few words."""
    if one.engine in TENSOR:
        return split_name(one.tensor, one.pipeline, one.replicas)
    return f"{one.gpus} by layer" if one.gpus > 1 else "one GPU"


def ranked(one: Deployment) -> tuple[Option, ...]:
    """Every split of a deployment's GPUs, the best first, what the engine refuses last with its reason."""
    if one.engine not in TENSOR:
        return (_try(_way(one), one),)
    options = [_try(split_name(*split), one.with_split(*split)) for split in one.splits()]
    return tuple(sorted(options, key=_rank))


def simplest(options: Sequence[Option]) -> Option:
    """Of the options that fit the one with fewest pipeline stages, then fewest replicas; of those that don't the first."""
    fitting = [option for option in options if option.plan is not None and option.plan.fits]
    return min(fitting, key=lambda o: (o.plan.pipeline_parallel_size, o.plan.replicas) if o.plan else (), default=options[0])


def settled(one: Deployment, said: bool) -> Deployment:
    """The deployment with a split: as said; else all GPUs as tensor parallel ranks; else the legal split with fewest stages
    that starts with one request, so that the choice does not change with the requests.

    Errors: EngineRefusal with the first reason where no split is legal.
    """
    if said:
        return one
    whole = one.with_split(one.gpus, 1, 1)
    refused = _try("", whole).refusal
    if refused is None:
        return whole
    alone = None if one.workload is None else replace(one.workload, requests=1)
    best = simplest(ranked(replace(one, workload=alone))).plan
    if best is None:
        raise EngineRefusal(refused, engine=one.engine)
    split = (best.tensor_parallel_size, best.pipeline_parallel_size, best.replicas)
    return one.with_split(*split, tell("split_chosen", split=split_name(*split), gpus=one.gpus, reason=refused))


def rank_splits(
    model: Model,
    engine: str = "vllm",
    settings: Settings = None,
    gpu: str | Gpu | Node = "h100-sxm",
    gpus: int = 8,
    workload: Workload | None = None,
    given: Mapping[str, int] | None = None,
) -> tuple[Option, ...]:
    """Every split of the GPUs into tensor parallel ranks, pipeline stages and replicas, ranked; refused ones last.

    Ranked by whether it fits, then most requests, then headroom. Errors: InputError.
    """
    one, _ = deployment(model, engine, settings, gpu, gpus, workload, given)
    return ranked(replace(one, gpus=gpus) if one.engine in TENSOR else one)


def fewest_gpus(
    model: Model,
    engine: str = "vllm",
    settings: Settings = None,
    gpu: str | Gpu = "h100-sxm",
    workload: Workload | None = None,
    given: Mapping[str, int] | None = None,
    counts: Sequence[int] = COUNTS,
) -> Option:
    """The plan with the fewest GPUs that fits, by the split of each count that has fewest stages; no plan where none does.

    Errors: InputError; EngineRefusal where every count is refused.
    """
    reason = "none"
    for count in counts:
        one, _ = deployment(model, engine, settings, gpu, 1, workload, given)
        wide = replace(one, gpus=count, layer_split=count if one.engine not in TENSOR else 1)
        reason = f"{count} GPUs are not enough"
        for split in sorted(wide.splits(), key=lambda split: split[1:]):
            each = wide.with_split(*split) if one.engine in TENSOR else wide
            try:
                if holds(each):
                    return Option(f"{count} x {one.gpu.name}, {_way(each)}", evaluate(each))
            except EngineRefusal as error:
                reason = error.message
    return Option(f"up to {max(counts)} x", None, reason)


def requests_by_context(plan: Plan, contexts: Sequence[int] | None = None) -> tuple[tuple[int, int | None], ...]:
    """(context, most requests of that length at once) for the plan's deployment: the curve that its own point lies on.

    contexts: by default half octaves from 1,024 to the model's limit, and the plan's own. Each is the engine's own rule with
    that longest request, not a line through two points. Errors: EngineRefusal.
    """
    # All as long as the engine allows, with what they share and hold beside their text.
    alike = plan.workload and replace(plan.workload, prompt_tokens=None, output_tokens=0, samples=(), occupancy=None)
    one = replace(plan.deployment, workload=alike)
    work, limit = Evaluator(one), context_limit(one)
    if contexts is None:
        steps = (int(1024 * 2 ** (step / 2)) for step in range(60))
        contexts = sorted({plan.context, limit, *(step for step in steps if step < limit)})
    return tuple((context, work.max_requests(context, context)) for context in contexts)


def rank_kv_dtypes(
    model: Model,
    engine: str = "vllm",
    settings: Settings = None,
    gpu: str | Gpu | Node = "h100-sxm",
    gpus: int = 1,
    workload: Workload | None = None,
    given: Mapping[str, int] | None = None,
) -> tuple[Option, ...]:
    """The same deployment with each KV storage type that the engine has, the widest that fits first.

    Errors: InputError.
    """
    one, said = deployment(model, engine, settings, gpu, gpus, workload, given)
    found = []
    for update in KV_DTYPES[one.engine]:
        name = str(list(update.values())[-1])
        try:
            found.append(_try(name, settled(replace(one, settings=changed(one.settings, **update)), said)))
        except EngineRefusal as error:
            found.append(Option(name, None, error.message))
    return tuple(sorted(found, key=lambda option: (not option.fits, option.plan is None)))


def compare_gpus(
    model: Model,
    engine: str = "vllm",
    settings: Settings = None,
    kinds: Sequence[str | Gpu] = COMMON_GPUS,
    gpus: int = 1,
    workload: Workload | None = None,
    given: Mapping[str, int] | None = None,
) -> tuple[Option, ...]:
    """The same deployment on `gpus` of each kind, in the order given; a kind that the engine refuses says why."""
    found = []
    for kind in kinds:
        name = kind.name if isinstance(kind, Gpu) else kind
        try:
            one, said = deployment(model, engine, settings, kind, gpus, workload, given)
            found.append(_try(name, settled(one, said)))
        except PlannerError as error:
            found.append(Option(name, None, error.message))
    return tuple(found)
