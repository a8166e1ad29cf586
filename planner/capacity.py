"""Does it start, how many requests, how long a context: `plan()` and what solves for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.advise import advise
from planner.capacity_deploy import Deployment, deployment
from planner.capacity_evaluate import Evaluator
from planner.capacity_plan import Advice, GpuShare, Plan, evaluate
from planner.capacity_rules import worst_length
from planner.capacity_solve import (
    Option,
    Settings,
    compare_gpus,
    fewest_gpus,
    rank_kv_dtypes,
    rank_splits,
    requests_by_context,
    settled,
)
from planner.hardware import Gpu, Node
from planner.model import Model
from planner.workload import Workload

__all__ = [
    "Advice", "Deployment", "GpuShare", "Option", "Plan", "compare_gpus", "fewest_gpus", "max_context", "max_requests", "plan",
    "rank_kv_dtypes", "rank_splits", "requests_by_context",
]  # fmt: skip


def plan(
    model: Model,
    engine: str = "vllm",
    settings: Settings = None,
    gpu: str | Gpu | Node = "h100-sxm",
    gpus: int = 1,
    workload: Workload | None = None,
    given: Mapping[str, int] | None = None,
    *,
    advice: bool = True,
) -> Plan:
    """Whether `model` starts on these GPUs and holds the workload, with the reasons, the limits and what to change.

    headroom = (cache's budget of the fullest GPU) - (least budget with which the engine's allocator holds the requests)

    engine: a name. settings: the engine's own; where they leave the split open, the GPUs are tensor parallel ranks, or if that
    is not legal the best split, which a note says. gpus: left at 1, as many as the settings' own split takes. workload: what
    is asked of it; None is one request of the engine's longest. given: figures of the budget that the person knows better
    (weights, activations, non-torch, cuda graphs, runtime, kv), in bytes of the fullest GPU. advice False leaves it out.

    "Does not fit" is a verdict. Errors: EngineRefusal for what the engine refuses whatever the memory; InputError.

    Source: planner.budget for the budget's terms, each engine's own pool for what it holds.
    """
    one = settled(*deployment(model, engine, settings, gpu, gpus, workload, given))
    found = evaluate(one)
    return replace(found, advice=advise(found)) if advice else found


def max_requests(
    model: Model,
    engine: str = "vllm",
    settings: Settings = None,
    gpu: str | Gpu | Node = "h100-sxm",
    gpus: int = 1,
    workload: Workload | None = None,
    given: Mapping[str, int] | None = None,
) -> int | None:
    """The most requests of the workload's length that are held at once; None where memory does not limit them.

    Errors: EngineRefusal, InputError.
    """
    one = settled(*deployment(model, engine, settings, gpu, gpus, workload, given))
    work = Evaluator(one)
    context = work.settled_context()
    return work.max_requests(worst_length(one, context), context)


def max_context(
    model: Model,
    engine: str = "vllm",
    settings: Settings = None,
    gpu: str | Gpu | Node = "h100-sxm",
    gpus: int = 1,
    requests: int = 1,
    given: Mapping[str, int] | None = None,
) -> int:
    """The longest context that `requests` requests at once can have, up to the model's limit; 0 where none fits.

    Errors: EngineRefusal, InputError.
    """
    one = settled(*deployment(model, engine, settings, gpu, gpus, Workload(requests=requests), given))
    return Evaluator(one).max_context(requests)
