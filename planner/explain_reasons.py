"""Why the figures of a KV answer are what they are, each with its arithmetic: in all, per request, per token, of one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from planner.cache import CacheBytes, CachePart
from planner.dtypes import FIXED_BYTES, storage_format
from planner.engines.explain import Reason
from planner.explain import engine_groups
from planner.hardware import Gpu
from planner.layers import Full, Latent, LayerCache, Tensor
from planner.model import Model
from planner.reasons import Formula, Number, Step, identifier, known, step
from planner.units import ceil_div

#: Kinds of layer whose own line is shown; the sum has them all.
_MOST_LINES = 8


def total(model: Model, cache: CacheBytes, element: str | None = None) -> Formula:
    """The architecture's bytes: a line for each kind of cache, then the sum over the layers.

    element: the storage format of keys and values; default the model's.
    """
    counts: dict[int, int] = {}
    found: dict[int, tuple[LayerCache, CachePart]] = {}
    for layer, measured in zip(model.layers, cache.layers, strict=True):
        for kept, part in zip(layer.caches, measured.parts, strict=True):
            counts[id(part)] = counts.get(id(part), 0) + 1
            found.setdefault(id(part), (kept, part))
    lines, parts = dict[str, Step](), list[tuple[str, int, int]]()
    for key, (kept, part) in found.items():
        if part.bytes:
            name = f"{part.kind}_layer"
            while name in lines:
                name += "_"
            lines[name] = replace(_layer(model, kept, part, cache.requests, element or model.dtype, part.kind), name=name)
            parts.append((name, counts[key], part.bytes))
    return (*[*lines.values()][:_MOST_LINES], _summed("kv_cache", parts, cache.total_bytes))


def _summed(name: str, parts: Iterable[tuple[str, int, int]], value: int) -> Step:
    """The sum over (kind, layers, bytes of one)."""
    rule, given = list[str](), dict[str, Number]()
    for kind, count, size in parts:
        key = kind
        while key in given:
            key += "_"
        many = key.replace("_layer", "_layers")
        given[many], given[key] = count, size
        rule.append(f"{{{many}}} x {{{key}}}")
    return Step(name, " + ".join(rule) or "0", value, given)


def _bytes_each(dtype: str) -> Fraction:
    """Bytes an element, its share of a scale with it."""
    if dtype in FIXED_BYTES:
        return Fraction(FIXED_BYTES[dtype])
    form = storage_format(dtype)
    return Fraction(form.bits, 8) + (Fraction(form.group_bytes, form.group) if form.group else 0)


def _layer(model: Model, kept: LayerCache, part: CachePart, requests: int, element: str, kind: str) -> Step:
    """What one cache of a layer takes for all requests."""
    given: dict[str, Number] = {"requests": requests, "positions": part.positions, "bytes_each": _bytes_each(element)}
    if isinstance(kept, Full):
        rule = "{requests} x {kv_heads} x {positions} x ({k_width} + {v_width}) x {bytes_each}"
        given |= {"kv_heads": kept.kv_heads, "k_width": kept.k_dim, "v_width": kept.v_dim}
        elements: Fraction | int = kept.kv_heads * part.positions * (kept.k_dim + kept.v_dim)
    elif isinstance(kept, Latent):
        rule = "{requests} x {positions} x ({latent_width} + {rotated_width}) x {bytes_each}"
        given |= {"latent_width": kept.kv_lora_rank, "rotated_width": kept.qk_rope_head_dim}
        elements = part.positions * (kept.kv_lora_rank + kept.qk_rope_head_dim)
    else:
        return _tensors(model, [t for t in kept.tensors(part.positions) if t.elements], part, requests, element, kind)
    exact = requests * elements * _bytes_each(element)
    if exact != part.bytes:
        rule, given["rounding"] = rule + " + {rounding}", part.bytes - exact
    return step(f"{kind}_layer", rule, part.bytes, **given)


def _tensors(model: Model, tensors: list[Tensor], part: CachePart, requests: int, element: str, kind: str) -> Step:
    """A cache that is a few tensors: states, index keys, compressed entries."""
    rule, given, exact = list[str](), dict[str, Number](requests=requests), Fraction(0)
    for tensor in tensors:
        dtype = (element if tensor.quantizable else model.dtype) if tensor.dtype == "model" else tensor.dtype
        name, width = identifier(tensor.name), _bytes_each(dtype)
        while name in given:
            name += "_"
        size, each = f"bytes_of_{name}", requests if tensor.batched else 1
        given[name], given[size] = tensor.elements, width
        rule.append(("{requests} x " if tensor.batched else "") + f"{{{name}}} x {{{size}}}")
        exact += each * tensor.elements * width
    text = " + ".join(rule)
    if exact != part.bytes:
        text, given["rounding"] = text + " + {rounding}", part.bytes - exact
    return step(f"{kind}_layer", text, part.bytes, **given)


def engine_total(cache: CacheBytes, plain: CacheBytes, reasons: tuple[Reason, ...]) -> Formula:
    """An engine's bytes: the sum over its layers, and the way from the architecture's."""
    groups = [(f"{identifier(group.kind)}_layer", group.count, group.bytes_each) for group in engine_groups(cache)]
    found = [_summed("kv_cache", [one for one in groups if one[2]], cache.total_bytes)]
    if reasons and plain.total_bytes + sum(one.bytes for one in reasons) == cache.total_bytes:
        given: dict[str, Number] = {"architecture": plain.total_bytes}
        for one in reasons:
            key = one.code
            while key in given:
                key += "_"
            given[key] = one.bytes
        found.append(Step("kv_cache", " + ".join(f"{{{key}}}" for key in given), cache.total_bytes, given))
    return tuple(found)


def per_request(cache: CacheBytes) -> Formula:
    given = {"kv_cache": cache.total_bytes, "requests": cache.requests}
    return (step("per_request", "floor({kv_cache} / {requests})", cache.bytes_per_request, **given),)


def per_token(cache: CacheBytes) -> Formula:
    if not cache.tokens:
        return known("per_token", "nothing", 0)
    given = {"per_request": cache.bytes_per_request, "tokens": cache.tokens}
    return (step("per_token", "{per_request} / {tokens}", cache.bytes_per_token, **given),)


def gpu_share(model: Model, cache: CacheBytes, gpu: Gpu, ranks: int = 1) -> Formula:
    """Weights as an even share of `ranks` GPUs, the cache with them, and their percentage of one GPU's memory."""
    usable = gpu.usable_bytes
    found, needed = list[Step](), cache.total_bytes
    if model.weight_bytes is not None:
        share = ceil_div(model.weight_bytes, ranks)
        if ranks > 1:
            found.append(step("weights", "ceil({all_weights} / {ranks})", share, all_weights=model.weight_bytes, ranks=ranks))
        needed += share
        found.append(step("needed", "{weights} + {kv_cache}", needed, weights=share, kv_cache=cache.total_bytes))
        found.append(step("free", "{device} - {needed}", usable - needed, device=usable, needed=needed))
    found.append(step("percent", "100 x {needed} / {device}", share_percent(needed, usable), needed=needed, device=usable))
    return tuple(found)


def share_percent(needed_bytes: int, usable_bytes: int) -> float:
    return 100 * needed_bytes / usable_bytes


def kv_reasons(
    model: Model,
    cache: CacheBytes,
    plain: CacheBytes,
    element: str | None = None,
    gpu: Gpu | None = None,
    ranks: int = 1,
    reasons: tuple[Reason, ...] = (),
) -> dict[str, Formula]:
    """Formulas by the name that each figure has in the JSON of `kv`.

    cache: the answer, `plain` itself where no engine was asked; reasons: what leads from one to the other.
    """
    own = cache is plain
    found = {
        "kv_cache_bytes": total(model, plain, element) if own else engine_total(cache, plain, reasons),
        "bytes_per_request": per_request(cache), "average_bytes_per_token": per_token(cache),
    }  # fmt: skip
    if not own:
        found["architecture_bytes"] = total(model, plain, element)
    if gpu is not None:
        found["gpu.share_percent"] = gpu_share(model, cache, gpu, ranks)
    return found
