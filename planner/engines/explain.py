"""Why an engine takes more or less than the architecture: the difference taken apart, in words and numbers.

Each layer's bytes go from the architecture's to the engine's in steps (replicas, ranks, repeated heads, positions, whole
blocks, dtype); what each step changes is summed over the layers, so that the reasons add up to the difference exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from planner.cache import CachePart, LayerBytes, architecture_bytes
from planner.engines.base import Engine, allocated
from planner.hardware import Gpu
from planner.model import Model
from planner.units import ceil_div, format_bytes

#: Texts by code; {layers} is a count of layers, the other words come from the layers and the settings.
TEXTS = {
    "replicas": "requests are shared out among {replicas} replicas",
    "ranks": "KV heads are split over {ranks} ranks",
    "replicated": "KV heads replicated: TP {ranks} over {heads} heads, {held} on each rank",
    "latent_replicated": "the latent is kept whole on each of {ranks} ranks, {layers} layers",
    "expanded": "latents are cached as expanded heads on {layers} layers",
    "widths": "heads are stored in another width on {layers} layers",
    "windows_full": "window layers hold all of the request's positions on {layers} layers",
    "windows_more": "window layers hold up to {positions:,} positions instead of {window:,} on {layers} layers",
    "windows_less": "window layers hold {positions:,} positions instead of {window:,} on {layers} layers",
    "blocks": "whole blocks: {positions:,} positions a request instead of {tokens:,}",
    "allocated": "{positions:,} positions are allocated for {tokens:,}",
    "dtype": "keys and values are stored as {dtype}",
    "shared": "{layers} layers that read another layer's cache have rows of their own",
    "empty": "{layers} layers without a cache have rows all the same",
    "stages": "{layers} layers are on other pipeline stages, or share their pages",
    "index": "index keys are stored in the engine's own format on {layers} layers",
    "states": "recurrent states: the engine's slots and layout on {layers} layers",
    "cross": "encoder positions as the engine counts them on {layers} layers",
    "layout": "the engine's own layout of compressed caches on {layers} layers",
    "draft": "the draft model's cache",
    "padding": "padding of the pool",
}


@dataclass(frozen=True)
class Reason:
    """One part of the difference: a stable code, signed bytes, how many layers, the words' values, and an English line."""

    code: str
    bytes: int
    layers: int
    values: dict[str, Any]

    @property
    def text(self) -> str:
        """"+7.00 GiB: window layers are kept in full on 50 layers"."""
        sign = "+" if self.bytes >= 0 else ""
        return f"{sign}{format_bytes(self.bytes)}: {TEXTS[self.code].format(layers=self.layers, **self.values)}"


@dataclass(frozen=True)
class _Step:
    code: str
    after: Fraction
    values: dict[str, Any]


def difference(
    model: Model,
    engine: Engine,
    settings: Any,
    tokens: int,
    requests: int = 1,
    encoder_tokens: int = 0,
    gpu: str | Gpu | None = None,
) -> tuple[Reason, ...]:
    """The reasons that lead from the architecture's bytes to the engine's on its fullest rank, the largest first.

    sum of reasons = engine.cache_bytes(...).total_bytes - architecture_bytes(...).total_bytes

    Errors: those of the engine's cache_bytes.
    """
    settings = engine.Settings() if settings is None else settings
    plain = architecture_bytes(model, tokens, requests, encoder_tokens=encoder_tokens).layers
    cache = allocated(model, engine, settings, tokens, requests, gpu, encoder_tokens)
    # vLLM's replicas are servers of their own: the requests asked about are those of one.
    replicas = 1 if engine.name == "vllm" else getattr(settings, "data_parallel_size", 1)
    # llama.cpp counts the cells of all sequences together; the reasons speak of one request.
    share = requests if engine.name == "llama.cpp" else 1
    theirs = {layer.index: _of_one_request(layer, share) for layer in cache.layers}
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for layer in plain:
        other = theirs.pop(layer.index, LayerBytes(layer.index, layer.kind, ()))
        for code, size, values in _layer(model, layer, other, settings, tokens, requests, replicas):
            found.setdefault(code, []).append((size, values))
    for layer in theirs.values():
        for part in layer.parts:
            found.setdefault("padding" if part.kind == "padding" else "draft", []).append((part.bytes, {}))
    reasons = [
        Reason(code, sum(size for size, _ in steps), len(steps), max(steps, key=lambda step: abs(step[0]))[1])
        for code, steps in found.items()
    ]
    return tuple(sorted((one for one in reasons if one.bytes), key=lambda one: -abs(one.bytes)))


def _of_one_request(layer: LayerBytes, share: int) -> LayerBytes:
    parts = tuple(replace(part, positions=ceil_div(part.positions, share)) for part in layer.parts)
    return replace(layer, parts=parts)


def _layer(
    model: Model, plain: LayerBytes, other: LayerBytes, settings: Any, tokens: int, requests: int, replicas: int
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """What changes a layer's bytes, part by part."""
    ours, theirs = _by_role(plain), _by_role(other)
    if plain.bytes and not other.bytes:
        yield "stages", -plain.bytes, {}
        return
    if other.bytes and not plain.parts:
        borrowed = model.layers[plain.index].shares is not None
        yield "shared" if borrowed else "empty", sum(p.bytes for p in theirs.get("kv", []) + theirs.get("index", [])), {}
        theirs = {role: parts for role, parts in theirs.items() if role not in ("kv", "index")}
    for role, code in (("index", "index"), ("state", "states"), ("cross", "cross"), ("draft", "draft")):
        change = sum(p.bytes for p in theirs.get(role, [])) - sum(p.bytes for p in ours.get(role, []))
        if change:
            yield code, change, {}
    before, after = ours.get("kv", []), theirs.get("kv", [])
    size = Fraction(sum(part.bytes for part in before))
    end = sum(part.bytes for part in after)
    if not before or not after:
        if end != size:
            yield ("stages" if before else "cross"), end - int(size), {}
        return
    if before[0].kind == "compressed":
        yield "layout", end - int(size), {}
        return
    for step in _steps(before[0], after[0], size, settings, tokens, requests, replicas):
        yield step.code, int(step.after) - int(size), step.values
        size = step.after
    yield "dtype", end - int(size), {"dtype": _dtype(settings, model)}


def _by_role(layer: LayerBytes) -> dict[str, list[CachePart]]:
    found: dict[str, list[CachePart]] = {}
    roles = {"indexed": "index", "state": "state", "cross": "cross", "draft": "draft"}
    # A layer whose only cache is the encoder's may be an ordinary layer to an engine.
    for part in layer.parts:
        found.setdefault(roles.get(part.kind, "kv"), []).append(part)
    return found


def _dtype(settings: Any, model: Model) -> str:
    asked = getattr(settings, "kv_cache_dtype", getattr(settings, "cache_type_k", "auto"))
    if asked != "auto":
        return str(asked)
    own = getattr(settings, "dtype", "auto")
    return str(own) if own != "auto" else f"the engine's default for a {model.dtype} checkpoint"


def _steps(
    before: CachePart, after: CachePart, size: Fraction, settings: Any, tokens: int, requests: int, replicas: int
) -> Iterator[_Step]:
    """Replicas, ranks, repeated heads, widths, then positions."""
    if replicas > 1:
        size = size * ceil_div(requests, replicas) / requests
        yield _Step("replicas", size, {"replicas": replicas})
    ranks = getattr(settings, "tensor_parallel_size", getattr(settings, "num_shard", 1))
    if getattr(settings, "enable_attention_dp", False):
        ranks = 1
    if getattr(settings, "enable_dp_attention", False):
        ranks //= replicas
    latent = before.kind == "latent"
    if ranks > 1:
        size = size / ranks
        yield _Step("ranks", size, {"ranks": ranks})
    ratio = _width(before, after) * ranks
    if latent and after.kind == "latent" and ranks > 1:
        size, ratio = size * ranks, ratio / ranks
        yield _Step("latent_replicated", size, {"ranks": ranks})
    elif not latent and before.heads and after.heads and after.heads * ranks != before.heads:
        repeated = Fraction(after.heads * ranks, before.heads)
        size, ratio = size * repeated, ratio / repeated
        yield _Step("replicated", size, {"ranks": ranks, "heads": before.heads, "held": after.heads})
    if ratio != 1:
        size = size * ratio
        yield _Step("expanded" if latent else "widths", size, {})
    yield from _positions(before, after, size, tokens)


def _width(before: CachePart, after: CachePart) -> Fraction:
    """Elements of a position after and before; 1 where either is not known."""
    sizes = [(part.heads or 1) * ((part.k_dim or 0) + (part.v_dim or 0)) for part in (before, after)]
    return Fraction(sizes[1], sizes[0]) if all(sizes) else Fraction(1)


def _positions(before: CachePart, after: CachePart, size: Fraction, tokens: int) -> Iterator[_Step]:
    held = before.positions
    if not held:
        return
    if before.window is not None and after.positions >= tokens > held:
        size = size * tokens / held
        held = tokens
        yield _Step("windows_full", size, {})
    if after.positions == held:
        return
    values = {"positions": after.positions, "tokens": tokens, "window": held}
    if before.window is not None and held < tokens:
        code = "windows_more" if after.positions > held else "windows_less"
    else:
        code = "blocks" if held <= after.positions < held + 1024 else "allocated"
    yield _Step(code, size * after.positions / held, values)
