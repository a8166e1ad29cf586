"""The changes that may make a plan fit, from the smallest to the largest, each as the deployment that comes of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.advise_texts import TEXTS
from planner.capacity_demand import CONTEXT_WORDS
from planner.capacity_deploy import TENSOR, Deployment, changed, deployment
from planner.capacity_evaluate import Evaluator
from planner.capacity_plan import Plan, evaluate, holds
from planner.capacity_solve import KV_DTYPES, Option, fewest_gpus, ranked, settled, split_name
from planner.capacity_weights import as_gguf
from planner.engines import ENGINES
from planner.errors import PlannerError
from planner.hardware import gpus as known_gpus
from planner.layers import Sliding
from planner.lora import wanted
from planner.workload import Workload

#: The share of memory that an engine is let take in place of its default, and what the setting is called.
_SHARES = {
    "vllm": ("gpu_memory_utilization", 0.95), "sglang": ("mem_fraction_static", 0.92),
    "tensorrt-llm": ("free_gpu_memory_fraction", 0.95),
}  # fmt: skip
#: Settings that bound the activation peak, and smaller values of them.
_BATCHES = {"vllm": ("max_num_batched_tokens", (2048, 1024, 512)), "tgi": ("max_batch_prefill_tokens", (2048, 1024, 512)),
            "sglang": ("chunked_prefill_size", (4096, 2048, 1024)), "llama.cpp": ("n_ubatch", (256, 128, 64))}  # fmt: skip
_GRAPHS = {"vllm": ("max_num_seqs", (256, 128, 64, 32)), "sglang": ("cuda_graph_max_bs", (128, 64, 32, 8))}
#: Storage of weights that is proposed, by falling size.
_GGUF = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M")
#: Numbers of GPUs that are proposed, the first six that are more than the ones there.
_COUNTS = (2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: GPUs that are proposed in place of one that is too small.
_OTHERS = ("l40s", "a100-80gb", "h100-sxm", "h200", "b200", "mi300x")


@dataclass(frozen=True)
class Change:
    """A change to try: its code, the values of its text, and the deployment that comes of it."""

    code: str
    change: dict[str, Any]
    values: dict[str, Any]
    deployment: Deployment


def changes(plan: Plan, one: Deployment) -> Iterator[Change]:
    """On the same GPUs, from the smallest: a flag that costs little, a shorter context, fewer requests, narrower storage,
    another layout, another engine."""
    yield from _flags(one)
    yield from _shorter(plan, one)
    yield from _fewer_requests(plan, one)
    yield from _narrower(one)
    yield from _stored(one)
    yield from _splits(plan, one)
    yield from _engines(plan, one)


def hardware(plan: Plan, one: Deployment) -> Iterator[Change]:
    yield from _more_gpus(one)
    yield from _other_gpus(plan, one)


def _set(one: Deployment, code: str, update: dict[str, Any], **values: Any) -> Change:
    return Change(code, {"settings": update}, values, replace(one, settings=changed(one.settings, **update)))


def _flags(one: Deployment) -> Iterator[Change]:
    """The first smaller batch, the first smaller graphs, and a larger share, that make it fit."""
    done: set[str] = set()
    for change in _each_flag(one):
        if change.code not in done and _fits(change):
            done.add(change.code)
            yield change


def _each_flag(one: Deployment) -> Iterator[Change]:
    for code, table in (("batched_tokens", _BATCHES), ("smaller_graphs", _GRAPHS)):
        word, sizes = table.get(one.engine, ("", ()))
        said = getattr(one.settings, word, None)
        for size in sizes:
            if said is None or size < said:
                yield _set(one, code, {word: size}, word=word, size=size)
    if one.engine in _SHARES:
        word, share = _SHARES[one.engine]
        if (getattr(one.settings, word) or 0) < share and "kv" not in one.given:
            yield _set(one, "memory_share", {word: share}, word=word, share=share)


def _fits(change: Change) -> bool:
    try:
        return holds(change.deployment)
    except PlannerError:
        return False


def _shorter(plan: Plan, one: Deployment) -> Iterator[Change]:
    """The longest context that fits; with a workload no shorter than its longest request."""
    longest = Evaluator(one).max_context(plan.requests)
    least = 1 if one.workload is None else one.workload.longest or 1
    length = longest if one.workload is None else max(least, min(longest, plan.context))
    if one.workload is not None and longest < least and length >= plan.context:
        return
    if not 0 < length < plan.context:
        return
    yield from _context(one, "shorter_context", length, before=plan.context)


def _context(one: Deployment, code: str, length: int, **values: Any) -> Iterator[Change]:
    """The engine's longest request as `length`; nothing for transformers, which has no such setting."""
    if one.engine == "llama.cpp":
        update = {"n_ctx": length * (one.settings.n_seq_max or 1)}
        yield _set(one, code, update, word="n_ctx", length=length, **values)
    elif one.engine in CONTEXT_WORDS:
        word = CONTEXT_WORDS[one.engine]
        yield _set(one, code, {word: length}, word=word, length=length, **values)


def longer_context(plan: Plan, one: Deployment) -> Iterator[Change]:
    """The longest context that as many requests can have, where it is longer than the one in use."""
    if plan.max_context > plan.context:
        yield from _context(one, "longer_context", plan.max_context, requests=plan.requests)


def more_requests(plan: Plan, one: Deployment) -> Iterator[Change]:
    """As many requests as are held at once, where they are more than asked for."""
    if plan.max_requests is not None and plan.max_requests > plan.requests:
        values = {"requests": plan.max_requests, "more": plan.max_requests - plan.requests}
        work = replace(one.workload or Workload(), requests=plan.max_requests)
        yield Change("more_requests", {"workload": {"requests": plan.max_requests}}, values, replace(one, workload=work))


def _fewer_requests(plan: Plan, one: Deployment) -> Iterator[Change]:
    if one.workload is not None and plan.max_requests and plan.max_requests < plan.requests:
        fewer = replace(one.workload, requests=plan.max_requests)
        values = {"requests": plan.max_requests, "before": plan.requests}
        yield Change("fewer_requests", {"workload": {"requests": plan.max_requests}}, values, replace(one, workload=fewer))


def _narrower(one: Deployment) -> Iterator[Change]:
    """The widest storage of the cache that is narrower than the one in use and makes it fit."""
    yield from itertools.islice((change for change in _each_dtype(one) if _fits(change)), 1)


def _each_dtype(one: Deployment) -> Iterator[Change]:
    for update in KV_DTYPES[one.engine][1:]:
        if not all(getattr(one.settings, word) == value for word, value in update.items()):
            try:
                yield _set(one, "kv_dtype", dict(update), dtype=list(update.values())[-1])
            except PlannerError:
                continue


def _stored(one: Deployment) -> Iterator[Change]:
    """The widest storage of the weights that makes it fit, for llama.cpp and a model that is no GGUF file yet."""
    weights = one.model.weights
    if one.engine != "llama.cpp" or weights is None or "weights" in one.given or "general.architecture" in one.model.config:
        return
    for kind in _GGUF:
        try:
            model = as_gguf(one.model, kind)
        except PlannerError:
            return
        change = Change("weights", {"weights": kind}, {"kind": kind}, replace(one, model=model))
        if model.weights is not None and model.weights.bytes < weights.bytes and _fits(change):
            yield change
            return


def _splits(plan: Plan, one: Deployment) -> Iterator[Change]:
    """The best other split of the same GPUs."""
    if one.gpus < 2 or one.engine not in TENSOR or one.cards:
        return
    best = ranked(one)[0]
    if best.plan is not None and best.fits:
        three = (best.plan.tensor_parallel_size, best.plan.pipeline_parallel_size, best.plan.replicas)
        values = {"split": split_name(*three), "gpus": one.gpus}
        yield Change("split", {"settings": split_words(best.plan)}, values, best.plan.deployment)


def split_words(plan: Plan) -> dict[str, Any]:
    words = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "num_shard")
    return {word: getattr(plan.deployment.settings, word) for word in words if hasattr(plan.deployment.settings, word)}


def _engines(plan: Plan, one: Deployment) -> Iterator[Change]:
    """An engine that lets go of what is behind a window, or lays the cache out in less."""
    windows = any(isinstance(cache, Sliding) for layer in one.model.layers for cache in layer.caches)
    if not windows or one.cards or wanted(one.engine, one.settings):  # slots of adapters are each engine's own
        return
    for name in ENGINES:
        if name in (one.engine, "transformers") or name == "llama.cpp":
            continue
        update = {CONTEXT_WORDS[name]: plan.context}
        try:
            other = settled(*deployment(one.model, name, update, one.gpu, one.gpus, one.workload, one.given))
            change = Change("engine", {"engine": name}, {"engine": name}, other)
            if evaluate(other, solve=False).need_bytes < plan.need_bytes and _fits(change):
                yield change
        except PlannerError:
            continue


def free_split(one: Deployment) -> Any:
    """The settings without their split, to be chosen again."""
    words = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "num_shard")
    kept = {name: getattr(one.settings, name) for name in one.settings.model_fields_set if name not in words}
    return type(one.settings)(**kept)


def _more_gpus(one: Deployment) -> Iterator[Change]:
    found = other_count("more_gpus", one, [count for count in _COUNTS if count > one.gpus][:6])
    if found is not None:
        yield found[0]


def other_count(code: str, one: Deployment, counts: Sequence[int]) -> tuple[Change, Plan] | None:
    """The fewest of these numbers of GPUs that hold the workload, with the split chosen again, and the plan that it makes.
    None where no number does, and where the GPUs are of several kinds."""
    if one.cards or not counts:
        return None
    try:
        found = fewest_gpus(one.model, one.engine, free_split(one), one.gpu, one.workload, one.given, counts)
    except PlannerError:
        return None
    if found.plan is None:
        return None
    values = {"gpus": found.plan.gpus, "gpu": one.gpu.name, "split": layout_name(found), "before": one.gpus}
    change = {"gpus": found.plan.gpus, "settings": split_words(found.plan)}
    return Change(code, change, values, found.plan.deployment), found.plan


def layout_name(found: Option) -> str:
    assert found.plan is not None
    plan = found.plan
    split = split_name(plan.tensor_parallel_size, plan.pipeline_parallel_size, plan.replicas)
    return split if plan.engine in TENSOR else "layers spread"


def _other_gpus(plan: Plan, one: Deployment) -> Iterator[Change]:
    """The smallest common GPU with more memory that it fits on as it is."""
    if one.cards:
        return
    cards = {card.id: card for card in known_gpus() if card.id in _OTHERS}
    for card in sorted(cards.values(), key=lambda card: card.memory_bytes):
        if card.memory_bytes <= one.gpu.memory_bytes:
            continue
        change = Change("other_gpu", {"gpu": card.id}, {"gpu": card.name, "gpus": one.gpus}, replace(one, gpu=card))
        if _fits(change):
            yield change
            return


def pairs(plan: Plan, one: Deployment) -> Iterator[Change]:
    """A flag or narrower storage together with a shorter context, or fewer requests, where no change alone is enough."""
    done: set[str] = set()
    for first in (*_each_flag(one), *_each_dtype(one)):
        if first.code in done:
            continue
        try:
            after = evaluate(first.deployment, solve=False)
            seconds = (*_shorter(after, first.deployment), *_fewer_requests(after, first.deployment))
        except PlannerError:
            continue
        for second in seconds:
            both = _both(first, second)
            if _fits(both):
                done.add(first.code)
                yield both


def _both(first: Change, second: Change) -> Change:
    merged = {
        key: {**first.change.get(key, {}), **second.change.get(key, {})} for key in dict.fromkeys((*first.change, *second.change))
    }
    texts = [TEXTS[change.code].format(**change.values) for change in (first, second)]
    parts = [{"code": change.code, "values": change.values} for change in (first, second)]
    return Change("two_changes", merged, {"first": texts[0], "second": texts[1], "parts": parts}, second.deployment)
