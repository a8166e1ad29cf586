"""The terms of a memory budget: what a device offers, and what a process takes of it beside weights and cache.

Constants are rows of `data/runtime.yaml`, each with its range, its source and the releases that it was measured on. Their
form is physical: logits of every request in float32, the widest row of the forward pass for every token of a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

import yaml

from planner.engines.versions import version_key
from planner.errors import InputError, shown
from planner.hardware import Gpu
from planner.model import Model
from planner.reasons import Formula, identifier, known, step
from planner.sharding import weights_per_rank
from planner.sharding_layers import expert_words, number, text_words, vocabulary
from planner.texts import recognised, tell
from planner.units import GIB

Confidence = Literal["exact", "documented", "measured", "estimated", "given"]
#: What a person may know better, in bytes: the device's total, weights of the fullest rank, the activation peak, what lies
#: outside PyTorch (context and communication), captured graphs, all but weights together, the cache itself, adapters, and
#: what other processes hold of the GPU.
GIVEN = ("device", "weights", "activations", "non-torch", "cuda graphs", "runtime", "kv", "lora adapters", "other processes")


@dataclass(frozen=True)
class Term:
    """One use of the device's memory in bytes, low to high, how well it is known, where it comes from, and its arithmetic."""

    name: str
    bytes: int
    low: int
    high: int
    confidence: Confidence
    source: str
    formula: Formula = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Load:
    """What decides the activation peak: tokens of a batch, requests whose logits are computed, ranks, bytes an element."""

    tokens: int
    requests: int
    ranks: int = 1
    width: int = 2


@functools.cache
def runtime() -> Mapping[str, Any]:
    """The content of data/runtime.yaml, read once."""
    text = resources.files("planner").joinpath("data/runtime.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return content


def row_at(rows: list[dict[str, Any]], version: str = "", ranks: int = 1, generation: int = 0) -> dict[str, Any]:
    """The last of some rows that holds for a release, a number of ranks and a generation of GPUs; the first if none does."""

    def holds(row: Mapping[str, Any]) -> bool:
        new = not version or "from" not in row or version_key(str(row["from"])) <= version_key(version)
        return new and ranks >= row.get("ranks", 1) and ("generations" not in row or generation in row["generations"])

    held = [row for row in rows if holds(row)]
    return held[-1] if held else rows[0]


def check_given(given: Mapping[str, int] | None) -> dict[str, int]:
    """The figures that a person gave, by name. InputError for an unknown name or anything but a number of bytes."""
    found = dict(given or {})
    for name, value in found.items():
        if name not in GIVEN:
            raise InputError(f"given: {shown(name)} is no term; it is one of {', '.join(GIVEN)}", field="given")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"given: {name} is {shown(value)}; it must be a whole number of bytes", field="given")
    return found


def given_term(name: str, given: Mapping[str, int]) -> Term | None:
    """The person's own figure as a term, without a range."""
    return own_term(name, given[name]) if name in given else None


def own_term(name: str, value: int) -> Term:
    """A figure that the person gave."""
    return Term(name, value, value, value, "given", tell("given"), known(identifier(name), "given", value))


def constant(name: str, row: Mapping[str, Any], factor: float = GIB) -> Term:
    """A constant of runtime.yaml as a term."""
    value, low, high = (int(row[key] * factor) for key in ("value", "low", "high"))
    rule = step(identifier(name), "floor({constant} x {unit})", value, constant=row["value"], unit=int(factor))
    return Term(name, value, low, high, row.get("confidence", "measured"), recognised(row["source"]), (rule,))


def device(gpu: Gpu, given: Mapping[str, int]) -> Term:
    """The memory that PyTorch reports of a device, which engines multiply by their fraction.

    `Gpu.usable_bytes`, with the range `Gpu.memory_range`.
    Source: planner/hardware.py, planner/data/gpus.yaml.
    """
    own = given_term("device", given)
    if own:
        return own
    low, high, confidence = gpu.memory_range
    value = min(max(gpu.usable_bytes, low), high)
    return Term("device", value, low, high, _of(confidence), gpu.range_source, _device_formula(gpu, value))


def _device_formula(gpu: Gpu, value: int) -> Formula:
    """PyTorch's total where it is known, else the driver's with what is usually missing of it, within the range."""
    usable, total = gpu.usable_bytes, gpu.memory_bytes
    if gpu.torch_memory_bytes:
        found = known("device", "pytorch_total", usable)
    elif usable < total:
        kept = total - usable
        found = (step("device", "{driver_total} - {usually_kept}", usable, driver_total=total, usually_kept=kept),)
    else:
        found = known("device", "amount" if gpu.id == "custom" else "driver_total", usable)
    if value != usable:
        found += (step("device", "{within_its_range}", value, within_its_range=value),)
    return found


def _of(confidence: str) -> Confidence:
    return "exact" if confidence == "exact" else "measured" if confidence == "measured" else "estimated"


def weights(model: Model, settings: Mapping[str, Any], engine: str, given: Mapping[str, int]) -> Term:
    """Weights of the fullest rank, the draft model's with them. Source: planner/sharding.py."""
    own = given_term("weights", given)
    if own:
        return own
    found = weights_per_rank(model, engine=engine, **settings)
    return Term("weights", found.bytes, found.low, found.high, found.confidence, found.source, found.formula)


def activation_parts(model: Model, load: Load) -> tuple[float, float, float]:
    """Bytes of one float32 copy of the logits, of the widest part of a layer's forward pass, and of the experts' buffers.

    logits = 4 B x requests x vocabulary; forward = width x tokens x 3 x (feed / ranks + hidden)
    experts = width x tokens x experts a token x (max(2 x feed / ranks, hidden) + feed / ranks)

    3: the gate and up projections and their product; the residual, its norm and the layer's output. With V0 a Llama-3.1-8B
    took 109,757 bytes more for each further token of a batch; this gives 110,592.
    Source: two starts of one model on an RTX 3090 at 20,000 and 29,000 tokens; vLLM 0.33.0, fused_moe workspaces.
    """
    hidden, count, active, feed = _widths(model)
    share = feed / load.ranks
    forward = load.width * load.tokens * 3 * ((0.0 if count else share) + hidden)
    experts = load.width * load.tokens * active * (max(2 * share, hidden) + share) if count else 0.0
    return 4.0 * load.requests * vocabulary(model), forward, experts


def _widths(model: Model) -> tuple[int, int, int, int]:
    """The model's width, how many experts there are and how many a token uses, and the width of the feed-forward."""
    words = text_words(model)
    hidden = model.hidden_size or number(words, ("hidden_size", "d_model", "n_embd"), 1)
    return (hidden, *expert_words(words, hidden))


def _part_steps(model: Model, load: Load, parts: tuple[float, float, float]) -> Formula:
    """The arithmetic of `activation_parts`."""
    hidden, count, active, feed = _widths(model)
    sizes = {"bytes_each": load.width, "tokens": load.tokens, "hidden": hidden, "feed": feed, "ranks": load.ranks}
    wide = "{hidden}" if count else "({feed} / {ranks} + {hidden})"
    logits, forward, experts = parts
    found = (
        step("logits", "4 x {requests} x {vocabulary}", logits, requests=load.requests, vocabulary=vocabulary(model)),
        step("forward", f"{{bytes_each}} x {{tokens}} x 3 x {wide}", forward, **sizes),
    )
    if not count:
        return found
    rule = "{bytes_each} x {tokens} x {experts_a_token} x (max(2 x {feed} / {ranks}, {hidden}) + {feed} / {ranks})"
    return (*found, step("experts", rule, experts, **sizes, experts_a_token=active))


def activations(model: Model, load: Load, rules: Mapping[str, Any]) -> Term:
    """The peak of the profiling run, in bytes.

    peak = max(copies x logits, factor x forward) + experts, or max(copies x logits, factor x forward + experts) where freed

    copies: float32 copies of the logits that the sampler makes at once: sorting for top-p takes some 9.6, a kernel 3.9.
    low, high: shares of the peak between which nine of ten public runs lie.

    Source: `activation_parts`; planner/data/runtime.yaml, fitted by scripts/fit_runtime.py.
    """
    logits, forward, experts = parts = activation_parts(model, load)
    kept = rules["experts"] == "kept"
    sampled, passed = rules["logits"] * logits, rules["forward"] * forward + (0.0 if kept else experts)
    peak = max(sampled, passed) + (experts if kept else 0.0)
    source = recognised(rules["source"])
    if sampled > passed:
        source = tell("activations.logits", requests=load.requests, source=source)
    else:
        source = tell("activations.batch", tokens=load.tokens, source=source)
    low, high = int(peak * rules["low"]), int(peak * rules["high"])
    inside, after = ("", " + {experts}") if kept else (" + {experts}", "")
    both = f"max({{copies}} x {{logits}}, {{factor}} x {{forward}}{inside * bool(experts)}){after * bool(experts)}"
    rule = step(
        "activations", f"floor({both})", int(peak), copies=rules["logits"], factor=rules["forward"], logits=logits,
        forward=forward, experts=experts,
    )  # fmt: skip
    formula = (*_part_steps(model, load, parts), rule)
    return Term("activations", int(peak), low, high, "estimated", source, formula)
