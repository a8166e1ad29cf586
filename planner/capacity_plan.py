"""A plan: the verdict on a deployment, where its memory goes, and what it could hold, as one answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from planner.budget import Confidence, Term
from planner.budget_share import shared_notes
from planner.capacity_deploy import Deployment
from planner.capacity_evaluate import Checked, Evaluator
from planner.capacity_moments import SHARE
from planner.capacity_need import need_formula
from planner.capacity_rules import context_warnings, storage_warnings, worst_length
from planner.engines import engine
from planner.engines.base import Pool
from planner.errors import EngineRefusal
from planner.hardware import Gpu
from planner.model import Model
from planner.reasons import step
from planner.texts import tell
from planner.units import format_bytes
from planner.workload import Workload

Verdict = Literal["fits", "does_not_fit"]


@dataclass(frozen=True)
class Advice:
    """One change and what comes of it: settings, GPU, GPUs or engine to change, and the figures after planning again.

    text: the change and its cost in English. values: what fills the text in; of two changes `parts` has the code and values of
    each. headroom_bytes, max_requests, max_context: of the plan with the change.
    """

    code: str
    text: str
    values: dict[str, Any]
    change: dict[str, Any]
    verdict: Verdict
    headroom_bytes: int
    max_requests: int | None
    max_context: int
    gpus: int
    command: str


@dataclass(frozen=True)
class GpuShare:
    """What `count` GPUs hold at most each, in bytes: weights, KV cache that the requests need, all else, and what is left."""

    gpu: str
    count: int
    memory_bytes: int
    weight_bytes: int
    cache_bytes: int
    other_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Plan:
    """The answer for one deployment. All bytes are of one GPU, the fullest.

    verdict: whether the engine starts and `requests` requests of `length` positions are held at once (of a workload that
    varies, in 95% of the moments, length being that of the longest). headroom_bytes: what is
    left of the cache's budget, negative the shortfall; headroom_low, headroom_high with the budget at the ends of its range.
    terms: uses of the memory, terms[0] the device's total, with the cache that is needed (`kv cache`) and what is left of its
    budget (`free`) last. kv_bytes: the cache's budget. need_bytes: the least budget that holds.
    max_requests: at this length, all replicas together; None where memory does not limit them. max_requests_low, _high: at
    the ends of the budget's range. max_context: the longest that `requests` requests can have. pool: what the engine makes of
    the budget; None for transformers. command: what starts it, with the flags that made the figures true.
    """

    model: Model = field(repr=False)
    engine: str
    settings: Any
    gpu: Gpu
    gpus: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    replicas: int
    workload: Workload | None
    verdict: Verdict
    headroom_bytes: int
    headroom_low: int
    headroom_high: int
    context: int
    length: int
    requests: int
    kv_bytes: int
    need_bytes: int
    terms: tuple[Term, ...]
    max_requests: int | None
    max_requests_low: int | None
    max_requests_high: int | None
    max_context: int
    pool: Pool | None
    command: str
    per_gpu: tuple[GpuShare, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    deployment: Deployment = field(repr=False)
    advice: tuple[Advice, ...] = ()

    @property
    def fits(self) -> bool:
        return self.verdict == "fits"

    @property
    def certain(self) -> bool:
        """Whether the verdict is the same over the whole range of the budget."""
        return (self.headroom_low >= 0) == (self.headroom_high >= 0)


def checked(work: Evaluator) -> tuple[int, int, Checked]:
    """The longest request of the engine, that of the workload, and the demand held against the budget."""
    context = work.settled_context()
    length = worst_length(work.deployment, context)
    requests = work.deployment.workload.requests if work.deployment.workload else 1
    return context, length, work.check(length, requests, context)


def holds(deployment: Deployment) -> bool:
    """Whether the verdict is "fits", without the rest of a plan. Errors: as `evaluate`."""
    return checked(Evaluator(deployment))[-1].fits()


def evaluate(deployment: Deployment, solve: bool = True) -> Plan:
    """The plan of one deployment whose split is settled, without advice. solve False leaves the ends of the range out.

    headroom = kv_bytes - need_bytes of the fullest GPU; the verdict is its sign.

    Errors: EngineRefusal, InputError.
    """
    work = Evaluator(deployment)
    context, length, done = checked(work)
    requests = deployment.workload.requests if deployment.workload else 1
    fits, need, found = done.fits(), done.need_bytes, done.binding.budget
    largest = work.max_requests(length, context)
    low, high = (work.max_requests(length, context, end) for end in ("low", "high")) if solve else (largest, largest)
    pool, warnings = _pool(deployment, done)
    known: Any = engine(deployment.engine)
    more = {"cards": tuple(card.gpu for card in done.cards)} if deployment.engine == "llama.cpp" else {}
    command = known.launch_command(deployment.model, done.settings, **more)
    return Plan(
        model=deployment.model, engine=deployment.engine, settings=done.settings, gpu=deployment.gpu, gpus=deployment.gpus,
        tensor_parallel_size=deployment.tensor, pipeline_parallel_size=deployment.pipeline, replicas=deployment.replicas,
        workload=deployment.workload, verdict="fits" if fits else "does_not_fit", headroom_bytes=done.room(),
        headroom_low=done.room("low"), headroom_high=done.room("high"), context=context, length=done.demand.length,
        requests=requests, kv_bytes=found.kv_bytes, need_bytes=need, terms=_terms(deployment, done, need),
        max_requests=largest, max_requests_low=low, max_requests_high=high,
        max_context=work.max_context(requests) if solve else context, pool=pool, command=command,
        per_gpu=tuple(_shares(deployment, done)),
        warnings=(*found.warnings, *warnings, *_warnings(deployment, done, context)),
        notes=(*deployment.model.notes, *deployment.notes, *done.notes, *_sharing(deployment, done),
               *shared_notes(deployment.engine, found.terms)), deployment=deployment,
    )  # fmt: skip


def _pool(deployment: Deployment, checked: Checked) -> tuple[Pool | None, tuple[str, ...]]:
    """The engine's own pool for the budget, and its warnings but for those that the verdict says already."""
    budget, gpu, name = max(0, checked.binding.budget.kv_bytes), deployment.gpu, deployment.engine
    if name == "transformers":
        return None, ()
    known: Any = engine(name)
    try:
        pool: Pool = known.pool(deployment.model, checked.settings, budget_bytes=budget, gpu=gpu)
    except EngineRefusal:
        return None, ()
    said = {"sglang.too_long", "sglang.nothing_left", "trt.no_block", "tgi.no_block"}
    if "max_num_seqs" not in deployment.settings.model_fields_set:
        said.add("vllm.seats")
    return pool, tuple(text for text in pool.warnings if getattr(text, "code", "") not in said)


def _terms(deployment: Deployment, checked: Checked, need: int) -> tuple[Term, ...]:
    found = checked.binding.budget
    work = deployment.workload
    known: Confidence = "exact" if checked.demand.varying is None else "estimated"
    many = {"requests": checked.demand.requests, "engine": deployment.engine}
    if checked.demand.varying is not None:
        why = tell("kv.typical", share=SHARE, **many)
    elif work and work.shared_prefix_tokens:
        why = tell("kv.shared", length=checked.demand.length, shared=work.shared_prefix_tokens, **many)
    else:
        why = tell("kv.worst", length=checked.demand.length, **many)
    rule = need_formula(checked.binding.allocation, checked.demand)
    cache = Term("kv cache", need, need, need, known, why, rule)
    room = found.kv_bytes - need
    left = (*found.formula, step("free", "{budget} - {kv_cache}", room, budget=found.kv_bytes, kv_cache=need))
    free = Term("free", room, found.kv_low - need, found.kv_high - need, "estimated", tell("free"), left)
    return (*found.terms, cache, free)


def _shares(deployment: Deployment, checked: Checked) -> Iterator[GpuShare]:
    """One entry for GPUs that are all alike, one for each card where layers are spread over cards."""
    for card in checked.cards:
        terms = {term.name: term.bytes for term in card.budget.terms}
        total, weights = card.budget.terms[0].bytes, terms.get("weights", 0) + terms.get("draft weights", 0)
        need, left = card.allocation.need(checked.demand), card.budget.kv_bytes
        count = deployment.gpus if len(checked.cards) == 1 else 1
        yield GpuShare(card.gpu.name, count, total, weights, need, total - weights - left, left - need)


def _warnings(deployment: Deployment, checked: Checked, context: int) -> Iterator[str]:
    """What may go otherwise than the verdict says."""
    yield from storage_warnings(deployment)
    yield from context_warnings(deployment, context)
    low = checked.room("low")
    if checked.fits() and low < 0:
        yield tell("low_end", missing=format_bytes(-low))
    if any(card.allocation.withheld(checked.demand) for card in checked.cards):
        yield tell("blocks_withheld")


def _sharing(deployment: Deployment, checked: Checked) -> tuple[str, ...]:
    """A word where common tokens were asked for and the engine stores them for each request all the same."""
    if not checked.demand.shared or checked.demand.requests < 2:
        return ()
    alone = checked.binding.allocation.need(replace(checked.demand, shared=0))
    if alone > checked.need_bytes:
        return ()
    return (tell("not_shared", engine=deployment.engine),)
