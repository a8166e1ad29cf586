"""Closed forms of the architecture's own bytes and of transformers' caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planner.dtypes import FIXED_BYTES, StorageFormat, storage_format
from planner.engines import transformers
from planner.layers import Compressed, Cross, Hidden, Layer, LayerCache, ReferenceSliding, State, Tensor
from planner.model import Model
from planner.sweep_forms import ClosedForm, Integers, Terms, ceil_div

Positions = Callable[[Integers], Integers]


def architecture_form(model: Model, kv_cache_dtype: str | None, encoder_tokens: int) -> ClosedForm:
    """`planner.cache.architecture_bytes`: each cache's positions, times what a position's tensors take."""
    own = storage_format(model.dtype)
    kv = own if kv_cache_dtype is None else storage_format(kv_cache_dtype)
    return _of_layers(model.layers, own, kv, lambda cache: _held(cache, encoder_tokens), "positions of each kind of cache")


def transformers_form(model: Model, settings: transformers.Settings, encoder_tokens: int) -> ClosedForm | str:
    """Dynamic and static caches; a text, why not, for a quantized one, whose rows depend on how the prompt was cut."""
    implementation = settings.cache_implementation if "own_cache" not in model.cache_rules else "dynamic"
    if implementation == "quantized":
        return "a quantized cache keeps its newest positions apart; each point is computed by the engine's own function"
    own = storage_format(model.dtype if settings.dtype == "auto" else settings.dtype)
    least = (settings.max_cache_len or 0) if implementation in ("static", "offloaded_static") else None

    def positions(cache: LayerCache) -> tuple[object, Positions]:
        if least is None or isinstance(cache, Cross):
            return _held(cache, encoder_tokens)
        cap = None if isinstance(cache, ReferenceSliding | Compressed) else cache.window
        return ("static", cap), lambda tokens: _capped(np.maximum(tokens, least), cap)

    return _of_layers(model.layers_for("transformers"), own, own, positions, f"{implementation} cache of transformers")


def _held(cache: LayerCache, encoder_tokens: int) -> tuple[object, Positions]:
    """The positions that generation holds, with a key that equal ones share."""
    if isinstance(cache, Cross):
        return ("encoder",), lambda tokens: np.full_like(tokens, encoder_tokens)
    cap = None if cache.window is None or isinstance(cache, ReferenceSliding | Compressed) else cache.window - 1
    return ("held", cap), lambda tokens: _capped(tokens, cap)


def _capped(tokens: Integers, cap: int | None) -> Integers:
    return tokens if cap is None else np.minimum(tokens, cap)


def _of_layers(
    layers: tuple[Layer, ...], own: StorageFormat, kv: StorageFormat,
    positions: Callable[[LayerCache], tuple[object, Positions]], why: str,
) -> ClosedForm:  # fmt: skip
    terms = Terms()
    for layer in layers:
        for cache in layer.caches:
            key, held = positions(cache)
            for part, count, tensor in _tensors(cache):
                name, counted = (key, part), _counted(held, count)
                _add(terms, name, counted, tensor, kv if tensor.quantizable else own)
    return terms.form(why)


Count = Callable[[Integers], Integers]


def _counted(held: Positions, count: Count) -> Positions:
    return lambda tokens: count(held(tokens))


def _tensors(cache: LayerCache) -> list[tuple[object, Count, Tensor]]:
    """Each tensor of a cache as one unit of it, and how many units given positions take."""
    if isinstance(cache, State):
        return [(1, np.ones_like, tensor) for tensor in cache.tensors(0)]
    if isinstance(cache, Compressed):
        return _compressed(cache)
    if isinstance(cache, Hidden) and cache.bucket_ids:
        start = cache.bucket_from
        one, buckets = replace(cache, bucket_from=0).tensors(1)
        return [("all", lambda p: p, one), (start, lambda p: np.where(p >= start, p, 0), buckets)]
    return [("all", lambda p: p, tensor) for tensor in cache.tensors(1)]


def _compressed(cache: Compressed) -> list[tuple[object, Count, Tensor]]:
    """The window's rows, whole blocks, positions of the block that is not whole yet, and what stays after the first block."""
    rate, window = cache.rate, cache.window
    by_name = {tensor.name: tensor for tensor in cache.tensors(2 * rate + 1 if rate > 1 else 2)}
    found: list[tuple[object, Count, Tensor]] = []
    for name, tensor in by_name.items():
        unit = replace(tensor, shape=(*tensor.shape[:-2], 1, tensor.shape[-1]))
        if name.startswith("shared"):
            found.append((("window", window), lambda p: np.minimum(p, window - 1), unit))
        elif name.endswith("entries"):
            found.append((("blocks", rate), lambda p: p // rate, unit))
        elif "buffered" in name:
            found.append((("rest", rate), lambda p: p % rate, unit))
        else:
            found.append((("first", rate), lambda p: np.minimum(p // rate, 1), tensor))
    return found


def _add(terms: Terms, key: object, units: Positions, tensor: Tensor, form: StorageFormat) -> None:
    """units x requests x elements of one tensor, stored in `form`; scales and odd bits round over all requests together."""

    elements = tensor.elements
    whole = elements * form.bits % 8 == 0 and (not form.group or elements % form.group == 0)
    if tensor.dtype != "model" or whole:
        size = elements * FIXED_BYTES[tensor.dtype] if tensor.dtype != "model" else form.bytes(elements)
        if tensor.batched:
            terms.each(key, units, size)
        else:
            terms.together(key, lambda tokens, requests: units(tokens), size)
    elif elements:

        def rounded(tokens: Integers, requests: Integers) -> Integers:
            count = (units(tokens) * requests if tensor.batched else units(tokens)) * elements
            packed = ceil_div(count * form.bits, 8)
            return packed + ceil_div(count, form.group) * form.group_bytes if form.group else packed

        terms.together((key, tensor.batched, elements, form), rounded, 1)
