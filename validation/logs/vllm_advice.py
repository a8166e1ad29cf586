"""What to change to get more out of the cache of a vLLM log: from a plan where one can be made, else by the pool's own rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.capacity import plan
from planner.engines.vllm import Settings
from planner.engines.vllm_setup import Setup, prepare
from planner.errors import PlannerError
from planner.model import Model
from planner.units import GIB
from validation.logs.log import Log
from validation.logs.vllm_gpu import Card
from validation.logs.vllm_infer import Fit

_NARROW = ("fp8", "int8", "int4", "nvfp4", "turboquant")
#: Shares above this leave too little for what lies outside vLLM's count.
_MOST_SHARE = 0.95


def advice(log: Log, model: Model, fit: Fit, card: Card | None) -> Iterator[str]:
    """Changes with what comes of them, those of the settings first."""
    setup = fit.setup
    if not setup.capacity.groups:
        return
    yield from _length(log, fit)
    blocks = fit.outcome.blocks if fit.outcome.blocks is not None else fit.outcome.low
    pool = blocks * setup.capacity.bytes_per_block
    if not setup.stored_format.startswith(_NARROW):
        yield from _changed(fit, model, pool, {"kv_cache_dtype": "fp8"}, "--kv-cache-dtype fp8")
    yield from _share(log, fit)
    if setup.facts.has_state and setup.prefix_caching:
        yield from _changed(fit, model, pool, {"enable_prefix_caching": False}, "--no-enable-prefix-caching")
    if any(group.spec.window for group in setup.capacity.groups) and setup.max_num_batched_tokens > 2048:
        smaller = {"max_num_batched_tokens": 2048}
        yield from _changed(fit, model, pool, smaller, "--max-num-batched-tokens 2048 (long prompts take more steps)")
    if card is not None and card.sure and model.weights is not None and log.other["refused_by"]:
        yield from _planned(log, model, setup, card)
    elif log.other["refused_by"]:
        yield "more GPUs (--tensor-parallel-size): each then holds less of the weights and, up to the KV heads, of the cache"


def _length(log: Log, fit: Fit) -> Iterator[str]:
    asked = log.printed.get("refused_max_model_len")
    if asked is None:
        return
    said = log.printed.get("estimated_max_model_len")
    longest = int(said.value) if said else fit.setup.capacity.longest(int(asked.value), fit.outcome.low)
    if 0 < longest < asked.value:
        yield f"--max-model-len {longest} or less starts with this memory"


def _changed(fit: Fit, model: Model, pool: int, change: Mapping[str, Any], flag: str) -> Iterator[str]:
    """The pool's figures under another setting, the bytes being the same."""
    before = fit.setup.capacity
    try:
        setup = prepare(model, Settings(**{**_said(fit.setup), **change}), fit.setup.platform.gpu)
    except PlannerError:
        return
    after = setup.capacity
    now, then = (c.num_blocks(pool) / max(1, c.request_blocks(fit.length)) for c in (before, after))
    if now > 0 and then > now * 1.01:
        yield f"{flag}: {then:,.2f} requests of {fit.length:,} tokens in place of {now:,.2f} in the same memory"
    elif not now and after.num_blocks(pool):
        yield f"{flag}: fewer bytes a token"


def _said(setup: Setup) -> dict[str, Any]:
    fields = setup.settings.model_fields_set
    return {name: getattr(setup.settings, name) for name in fields}


def _share(log: Log, fit: Fit) -> Iterator[str]:
    total = log.printed.get("gpu_total_bytes")
    share = fit.setup.settings.gpu_memory_utilization
    if share is None or share >= _MOST_SHARE or fit.setup.settings.kv_cache_memory_bytes:
        return
    if total is None:
        yield f"--gpu-memory-utilization above {share:g}, up to about {_MOST_SHARE}: all of the rest goes to the cache"
        return
    capacity = fit.setup.capacity
    more = int((_MOST_SHARE - share) * total.value)
    requests = capacity.num_blocks(more) / max(1, capacity.request_blocks(fit.length))
    yield (
        f"--gpu-memory-utilization {_MOST_SHARE}: {more / GIB:.2f} GiB more of each GPU, {requests:,.2f} more requests of"
        f" {fit.length:,} tokens, if nothing else is on the card"
    )


def _planned(log: Log, model: Model, setup: Setup, card: Card) -> Iterator[str]:
    """The planner's own advice for a start that was refused, with the terms that the log prints."""
    names = {"weights_bytes": "weights", "model_load_bytes": "weights", "activation_bytes": "activations"}
    given = {ours: int(log.printed[name].value) for name, ours in names.items() if name in log.printed}
    settings = setup.settings
    gpus = settings.tensor_parallel_size * settings.pipeline_parallel_size * settings.data_parallel_size
    try:
        found = plan(model, "vllm", settings, card.gpu, gpus, given=given)
    except PlannerError:
        return
    for each in found.advice:
        yield each.text
