"""The terms that vLLM measures and the planner estimates: weights, activations, graphs, what lies outside PyTorch, the pool.

A printed term agrees where it lies in the planner's range for this model, release and card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from planner.budget import Budget, budget
from planner.engines.vllm import Settings
from planner.errors import PlannerError
from planner.model import Model
from planner.units import GIB
from validation.logs.log import CheckLine, Figure, Log
from validation.logs.vllm_gpu import Card

#: The budget's terms that a printed figure is the sum of.
_TERMS: Final[Mapping[str, tuple[str, ...]]] = {
    "model_load_bytes": ("weights", "draft weights"),
    "activation_bytes": ("activations", "image encoder"),
    "non_torch_bytes": ("non-torch",),
    "cudagraph_bytes": ("cuda graphs",),
}
#: Weights of this share of ours or less are a quantised checkpoint's.
_FEWER_BITS: Final = 0.8
#: What loading leaves beside the weights. Source: public logs of 16-bit checkpoints, 0.0 to 0.1 GiB or 1.4%.
_LOADING: Final = GIB // 8
_LOADING_SHARE: Final = 0.015
#: Printed figures that the budget may take as they are, by its own name for them.
_GIVEN: Final[Mapping[str, str]] = {
    "gpu_total_bytes": "device", "weights_bytes": "weights", "activation_bytes": "activations", "non_torch_bytes": "non-torch",
}  # fmt: skip


@dataclass(frozen=True)
class Estimates:
    """The lines, and what keeps others from being compared."""

    lines: tuple[CheckLine, ...] = ()
    missing: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


def estimates(log: Log, model: Model, settings: Settings, card: Card | None) -> Estimates:
    """Each printed term beside ours with its range."""
    wanted = [name for name in (*_TERMS, "weights_bytes", "consumed_bytes") if name in log.printed]
    pool = log.printed.get("available_kv_bytes") or log.printed.get("kv_in_use_bytes")
    if not wanted and pool is None:
        return Estimates()
    if card is None:
        return Estimates(missing=("--gpu: the accelerator; weights, activations and graphs are then compared too",))
    if model.weights is None:
        return Estimates(rules=(f"the weights of {model.name} are not known, so that the budget is not compared",))
    try:
        ours = budget(model, "vllm", settings, card.gpu)
    except PlannerError as error:
        return Estimates(rules=(f"the budget cannot be worked out: {error.message}",))
    stored = _stored_otherwise(log, model, ours)
    lines = [line for name in wanted if (line := _term(name, log, ours, stored))]
    rules = [stored] if stored else []
    if pool is not None and not settings.kv_cache_memory_bytes:
        lines += _pool(log, model, settings, card, pool, stored)
    return Estimates(tuple(lines), rules=tuple(rules))


def _stored_otherwise(log: Log, model: Model, ours: Budget) -> str:
    """What to say where the log's checkpoint is stored in fewer bits than the model that it is compared with."""
    said = log.other.get("quantization")
    if said and not model.config.get("quantization_config"):
        return f"the log's weights are stored as {said}, {model.name}'s are not: weights are not compared; the cache is the same"
    load, weights = log.printed.get("model_load_bytes") or log.printed.get("weights_bytes"), ours.term("weights")
    if load is None or weights is None or load.high > _FEWER_BITS * weights.low:
        return ""
    return (
        f"the weights took {load.text} GiB, {load.value / weights.bytes:.2f} of {model.name}'s: a checkpoint in fewer bits, whose"
        " weights are not compared; the cache is the same"
    )


def _term(name: str, log: Log, ours: Budget, stored: str) -> CheckLine | None:
    figure = log.printed[name]
    names = {"weights_bytes": _TERMS["model_load_bytes"], "consumed_bytes": ("weights", "draft weights", "non-torch")}.get(name)
    parts = [term for each in names or _TERMS[name] if (term := ours.term(each)) is not None]
    if not parts or (stored and any(term.name == "weights" for term in parts)):
        return None
    if name == "activation_bytes" and "consumed_bytes" in log.printed:  # the estimate of graphs is in it
        parts += [term for term in (ours.term("cuda graphs"),) if term is not None]
    size, low, high = (sum(getattr(term, word) for term in parts) for word in ("bytes", "low", "high"))
    what = " and ".join(term.name for term in parts)
    if parts[0].name == "weights":  # what loading leaves beside the weights is in the figure
        low, high, what = low - _LOADING, high + max(_LOADING, int(high * _LOADING_SHARE)), f"{what} with what loading leaves"
    agrees = low - figure.slack - 1 <= figure.value <= high + figure.slack + 1
    rule = f"estimated {what}: {low / GIB:.2f} to {high / GIB:.2f} GiB ({parts[0].source})"
    return CheckLine(name, figure.value, size, agrees, rule, f"{figure.text} GiB", estimated=True)


def _pool(
    log: Log, model: Model, settings: Settings, card: Card, pool: Figure, stored: str
) -> Iterator[CheckLine]:
    """The pool as the planner's budget has it, with what the log prints in place of our own figures for it."""
    given = {ours: int(log.printed[name].value) for name, ours in _GIVEN.items() if name in log.printed}
    if "weights" not in given and "model_load_bytes" in log.printed:
        given["weights"] = int(log.printed["model_load_bytes"].value)
    if set(_GIVEN.values()) <= set(given) or "peak_torch_bytes" in log.printed:  # then it is an equation of vllm_memory.py
        return
    if (stored and "weights" not in given) or any(size < 0 for size in given.values()) or not _share_known(settings):
        return
    try:
        ours = budget(model, "vllm", settings, card.gpu, given=given)
    except PlannerError:
        return
    low, high = ours.kv_low, ours.kv_high
    slack = sum(log.printed[name].slack for name in _GIVEN if name in log.printed) + pool.slack
    agrees = low - slack <= pool.value <= high + slack
    taken = ", ".join(given) or "nothing"
    span = f"{low / GIB:.2f} to {high / GIB:.2f} GiB"
    rule = f"estimated from the memory of {card.gpu.name} and the share: {span} (as printed: {taken})"
    yield CheckLine("available_kv_bytes", pool.value, ours.kv_bytes, agrees, rule, f"{pool.text} GiB", estimated=True)


def _share_known(settings: Settings) -> bool:
    """A share that the log does not say could be any."""
    return settings.gpu_memory_utilization is not None
