"""What to change so that a plan fits, the smallest change first; and where it fits, what its headroom buys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from planner.advise_texts import TEXTS
from planner.capacity_demand import CONTEXT_WORDS
from planner.capacity_deploy import TENSOR, Deployment, changed, deployment
from planner.capacity_evaluate import Evaluator
from planner.capacity_plan import Advice, Plan, evaluate
from planner.capacity_solve import KV_DTYPES, Option, fewest_gpus, ranked, settled, split_name
from planner.engines import ENGINES
from planner.errors import PlannerError
from planner.hardware import gpus as known_gpus
from planner.layers import Sliding

#: The share of memory that an engine is let take in place of its default, and what the setting is called.
_SHARES = {
    "vllm": ("gpu_memory_utilization", 0.95), "sglang": ("mem_fraction_static", 0.92),
    "tensorrt-llm": ("free_gpu_memory_fraction", 0.95),
}  # fmt: skip
#: Settings that bound the activation peak, and smaller values of them.
_BATCHES = {"vllm": ("max_num_batched_tokens", (2048, 1024, 512)), "tgi": ("max_batch_prefill_tokens", (2048, 1024, 512)),
            "sglang": ("chunked_prefill_size", (4096, 2048, 1024)), "llama.cpp": ("n_ubatch", (256, 128, 64))}  # fmt: skip
_GRAPHS = {"vllm": ("max_num_seqs", (256, 128, 64, 32)), "sglang": ("cuda_graph_max_bs", (128, 64, 32, 8))}
#: GPUs that are proposed in place of one that is too small.
_OTHERS = ("l40s", "a100-80gb", "h100-sxm", "h200", "b200", "mi300x")


@dataclass(frozen=True)
class _Change:
    """A change to try: its code, the values of its text, and the deployment that comes of it."""

    code: str
    change: dict[str, Any]
    values: dict[str, Any]
    deployment: Deployment


def advise(plan: Plan) -> tuple[Advice, ...]:
    """Changes with their figures after planning again, by smallness; none that does not help.

    Where the plan does not fit: each change that makes it fit. Where it fits: more requests, a longer context, fewer GPUs.
    """
    if plan.fits:
        return tuple(_buys(plan))
    return _helpful(_changes(plan)) or _helpful(_pairs(plan))


def _helpful(changes: Iterator[_Change]) -> tuple[Advice, ...]:
    return tuple(one for change in changes if (one := _planned(change)) is not None and one.verdict == "fits")


def _planned(change: _Change) -> Advice | None:
    try:
        quick = evaluate(change.deployment, solve=False)
        return _advice(change, evaluate(change.deployment)) if quick.fits else None
    except PlannerError:
        return None


def _advice(change: _Change, after: Plan) -> Advice:
    return Advice(
        change.code, TEXTS[change.code].format(**change.values), change.change, after.verdict, after.headroom_bytes,
        after.max_requests, after.max_context, after.gpus, after.command,
    )  # fmt: skip


def _changes(plan: Plan) -> Iterator[_Change]:
    """Changes from the smallest: a flag that costs little, a shorter context, narrower storage, another layout, more GPUs."""
    one = plan.deployment
    yield from _flags(one)
    yield from _shorter(plan, one)
    yield from _fewer_requests(plan, one)
    yield from _narrower(one)
    yield from _splits(plan, one)
    yield from _engines(plan, one)
    yield from _more_gpus(plan, one)
    yield from _other_gpus(plan, one)


def _set(one: Deployment, code: str, update: dict[str, Any], **values: Any) -> _Change:
    return _Change(code, {"settings": update}, values, replace(one, settings=changed(one.settings, **update)))


def _flags(one: Deployment) -> Iterator[_Change]:
    """The first smaller batch, the first smaller graphs, and a larger share, that make it fit."""
    for code, table in (("batched_tokens", _BATCHES), ("smaller_graphs", _GRAPHS)):
        if one.engine not in table:
            continue
        word, sizes = table[one.engine]
        said = getattr(one.settings, word)
        for size in sizes:
            if said is None or size < said:
                change = _set(one, code, {word: size}, word=word, size=size)
                if _fits(change):
                    yield change
                    break
    if one.engine in _SHARES:
        word, share = _SHARES[one.engine]
        if (getattr(one.settings, word) or 0) < share and "kv" not in one.given:
            yield _set(one, "memory_share", {word: share}, word=word, share=share)


def _fits(change: _Change) -> bool:
    try:
        return evaluate(change.deployment, solve=False).fits
    except PlannerError:
        return False


def _shorter(plan: Plan, one: Deployment) -> Iterator[_Change]:
    """The longest context that fits; with a workload no shorter than its longest request."""
    longest = Evaluator(one).max_context(plan.requests)
    least = 1 if one.workload is None else one.workload.longest or 1
    length = longest if one.workload is None else max(least, min(longest, plan.context))
    if one.workload is not None and longest < least and length >= plan.context:
        return
    if not 0 < length < plan.context:
        return
    if one.engine == "llama.cpp":
        update = {"n_ctx": length * (one.settings.n_seq_max or 1)}
        yield _set(one, "shorter_context", update, word="n_ctx", length=length, before=plan.context)
    elif one.engine in CONTEXT_WORDS:
        word = CONTEXT_WORDS[one.engine]
        yield _set(one, "shorter_context", {word: length}, word=word, length=length, before=plan.context)


def _fewer_requests(plan: Plan, one: Deployment) -> Iterator[_Change]:
    if one.workload is not None and plan.max_requests and plan.max_requests < plan.requests:
        fewer = replace(one.workload, requests=plan.max_requests)
        values = {"requests": plan.max_requests, "before": plan.requests}
        yield _Change("fewer_requests", {"workload": {"requests": plan.max_requests}}, values, replace(one, workload=fewer))


def _narrower(one: Deployment) -> Iterator[_Change]:
    """The widest storage of the cache that is narrower than the one in use and makes it fit."""
    for update in KV_DTYPES[one.engine][1:]:
        if any(getattr(one.settings, word) == value for word, value in update.items()):
            continue
        try:
            change = _set(one, "kv_dtype", dict(update), dtype=list(update.values())[-1])
        except PlannerError:
            continue
        if _fits(change):
            yield change
            return


def _splits(plan: Plan, one: Deployment) -> Iterator[_Change]:
    """The best other split of the same GPUs."""
    if one.gpus < 2 or one.engine not in TENSOR or one.cards:
        return
    best = ranked(one)[0]
    if best.plan is not None and best.fits:
        three = (best.plan.tensor_parallel_size, best.plan.pipeline_parallel_size, best.plan.replicas)
        values = {"split": split_name(*three), "gpus": one.gpus}
        yield _Change("split", {"settings": _split_words(best.plan)}, values, best.plan.deployment)


def _split_words(plan: Plan) -> dict[str, Any]:
    words = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "num_shard")
    return {word: getattr(plan.deployment.settings, word) for word in words if hasattr(plan.deployment.settings, word)}


def _engines(plan: Plan, one: Deployment) -> Iterator[_Change]:
    """An engine that lets go of what is behind a window, or lays the cache out in less."""
    windows = any(isinstance(cache, Sliding) for layer in one.model.layers for cache in layer.caches)
    if not windows or one.cards:
        return
    for name in ENGINES:
        if name in (one.engine, "transformers") or name == "llama.cpp":
            continue
        update = {CONTEXT_WORDS[name]: plan.context}
        try:
            other = settled(*deployment(one.model, name, update, one.gpu, one.gpus, one.workload, one.given))
            change = _Change("engine", {"engine": name}, {"engine": name}, other)
            if evaluate(other, solve=False).need_bytes < plan.need_bytes and _fits(change):
                yield change
        except PlannerError:
            continue


def _free_split(one: Deployment) -> Any:
    """The settings without their split, to be chosen again."""
    words = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "num_shard")
    kept = {name: getattr(one.settings, name) for name in one.settings.model_fields_set if name not in words}
    return type(one.settings)(**kept)


def _more_gpus(plan: Plan, one: Deployment) -> Iterator[_Change]:
    if one.cards:
        return
    counts = [count for count in (2, 4, 8, 16, 24, 32) if count > one.gpus]
    try:
        found = fewest_gpus(one.model, one.engine, _free_split(one), one.gpu, one.workload, one.given, counts)
    except PlannerError:
        return
    if found.plan is not None:
        values = {"gpus": found.plan.gpus, "gpu": one.gpu.name, "split": _name(found), "before": one.gpus}
        change = {"gpus": found.plan.gpus, "settings": _split_words(found.plan)}
        yield _Change("more_gpus", change, values, found.plan.deployment)


def _name(found: Option) -> str:
    assert found.plan is not None
    plan = found.plan
    split = split_name(plan.tensor_parallel_size, plan.pipeline_parallel_size, plan.replicas)
    return split if plan.engine in TENSOR else "layers spread"


def _other_gpus(plan: Plan, one: Deployment) -> Iterator[_Change]:
    """The smallest common GPU with more memory that it fits on as it is."""
    if one.cards:
        return
    cards = {card.id: card for card in known_gpus() if card.id in _OTHERS}
    for card in sorted(cards.values(), key=lambda card: card.memory_bytes):
        if card.memory_bytes <= one.gpu.memory_bytes:
            continue
        change = _Change("other_gpu", {"gpu": card.id}, {"gpu": card.name, "gpus": one.gpus}, replace(one, gpu=card))
        if _fits(change):
            yield change
            return


def _pairs(plan: Plan) -> Iterator[_Change]:
    """Narrower storage together with a shorter context, where neither is enough."""
    one = plan.deployment
    for update in KV_DTYPES[one.engine][1:]:
        try:
            narrow = _set(one, "kv_dtype", dict(update), dtype=list(update.values())[-1])
            after = evaluate(narrow.deployment, solve=False)
            for shorter in _shorter(after, narrow.deployment):
                both = {**narrow.change["settings"], **shorter.change["settings"]}
                yield _Change("kv_dtype_shorter", {"settings": both}, {**narrow.values, **shorter.values}, shorter.deployment)
        except PlannerError:
            continue


def _buys(plan: Plan) -> Iterator[Advice]:
    """More requests, a longer context, and fewer GPUs."""
    one = plan.deployment
    if plan.max_requests is not None and plan.max_requests > plan.requests:
        text = TEXTS["more_requests"].format(requests=plan.max_requests, more=plan.max_requests - plan.requests)
        yield _bought(plan, "more_requests", text, {"workload": {"requests": plan.max_requests}})
    if plan.max_context > plan.context:
        word = CONTEXT_WORDS.get(one.engine, "n_ctx")
        text = TEXTS["longer_context"].format(word=word, length=plan.max_context, requests=plan.requests)
        yield _bought(plan, "longer_context", text, {"settings": {word: plan.max_context}})
    if one.gpus > 1 and not one.cards:
        counts = [count for count in (1, 2, 4, 8, 16) if count < one.gpus]
        try:
            found = fewest_gpus(one.model, one.engine, _free_split(one), one.gpu, one.workload, one.given, counts)
        except PlannerError:
            return
        if found.plan is not None:
            values = {"gpus": found.plan.gpus, "gpu": one.gpu.name, "split": _name(found), "before": one.gpus}
            change = {"gpus": found.plan.gpus, "settings": _split_words(found.plan)}
            yield _advice(_Change("fewer_gpus", change, values, found.plan.deployment), found.plan)


def _bought(plan: Plan, code: str, text: str, change: dict[str, Any]) -> Advice:
    return Advice(
        code, text, change, plan.verdict, plan.headroom_bytes, plan.max_requests, plan.max_context, plan.gpus, plan.command
    )


