"""What the planner says that a real generation will find: tensors, the storages behind them, allocator blocks, peaks.

Tensor bytes are those of `planner.engines.transformers`, layer by layer. The rest follows from how transformers updates
its caches: a growing layer is copied by `torch.cat` while the old one is alive, a window keeps the whole prompt's storage
until the first step after the prefill, a static layer is allocated in full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.cache import CacheBytes, CachePart, tensor_bytes
from planner.dtypes import StorageFormat, storage_format
from planner.engines import transformers
from planner.layers import Compressed, Cross, Full, Latent, LayerCache, ReferenceSliding, State
from planner.model import Model
from planner.search import most
from validation.allocator import allocated, block_bytes, largest_block_bytes, reserved
from validation.compare_parts import Predicted
from validation.predict_work import work_of

#: Token ids and counters are 64-bit integers.
_INTEGER = 8


@dataclass(frozen=True)
class Case:
    """One generation: requests, positions held at the end, how many tokens were generated, encoder positions.

    chunk: prompt tokens processed at once (None: all). attention: transformers' kernel. expandable: allocator segments.
    """

    batch: int
    tokens: int
    new: int
    encoder: int = 0
    chunk: int | None = None
    attention: str = "sdpa"
    expandable: bool = False

    @property
    def prompt(self) -> int:
        return self.tokens - self.new + 1


def predict(model: Model, settings: transformers.Settings, case: Case, whole: Model | None = None) -> Predicted:
    """The figures of one point. `whole` is the model before it was cut.

    prefill peak = storage after the prompt + working memory of its last part
    decode peak  = the most that lives while the layers take the first or the last new token + a step's working memory
    """
    cache, first = (_cache(model, settings, case, tokens) for tokens in (case.tokens, case.prompt))
    last, prompt = (_storages(model, settings, case, found) for found in (cache, first))
    book, copies = bookkeeping(model, settings, case), growth(model, settings, case)
    offloaded = settings.cache_implementation.startswith("offloaded")
    if offloaded:
        last, prompt, copies = [_on_device(last)], [_on_device(prompt)], [max(copies, default=0)]
    work = work_of(model, _width(model, settings))
    held, kept = [size for sizes in last for size in sizes], allocated(book)
    left = allocated(held) + kept
    return Predicted(
        tensor_bytes=cache.total_bytes,
        storage_bytes=cache.storage_bytes,
        storage_known=_storage_known(model, settings),
        bookkeeping_bytes=kept,
        allocated_low_bytes=0 if offloaded else left,
        allocated_high_bytes=sum(largest_block_bytes(size, case.expandable) for size in held) + kept,
        reserved_bytes=reserved([*held, *book]),
        prefill_peak_bytes=kept + sum(map(allocated, prompt)) + work.prefill(case.batch, case.prompt, case.chunk, case.attention),
        decode_peak_bytes=kept + max(_walk(prompt, last, copies), _walk(last, last, copies))
        + work.decode(case.batch, case.tokens, case.attention),
        peak_known=work.known and case.attention == "sdpa" and settings.cache_implementation in ("dynamic", "static"),
        whole_bytes=_cache(whole, settings, case, case.tokens).total_bytes if whole else cache.total_bytes,
    )


def _storage_known(model: Model, settings: transformers.Settings) -> bool:
    """Whether each storage is predicted, not only their sum: not for buffers that are slices, nor a store of its own."""
    sliced = any(isinstance(cache, Compressed | ReferenceSliding) for layer in model.layers for cache in layer.caches)
    packed = settings.cache_implementation == "quantized" and settings.backend != "fp8"
    return not sliced and not packed and "own_cache" not in model.cache_rules


def _walk(before: list[list[int]], after: list[list[int]], copies: list[int]) -> int:
    """The most that lives while one layer after the other goes from its storages before a step to those after it."""
    live = peak = sum(map(allocated, before))
    for old, new, copy in zip(before, after, copies, strict=True):
        peak = max(peak, live + copy)
        live += allocated(new) - allocated(old)
    return max(peak, live)


def _cache(model: Model, settings: transformers.Settings, case: Case, tokens: int) -> CacheBytes:
    """The cache at a moment; a static one is sized for the end from the start."""
    if settings.cache_implementation.endswith("static"):
        tokens = case.tokens
    return transformers.cache_bytes(model, settings, tokens, case.batch, case.encoder, min(case.prompt, tokens))


def _format(model: Model, settings: transformers.Settings) -> StorageFormat:
    return storage_format(model.dtype if settings.dtype == "auto" else settings.dtype)


def _width(model: Model, settings: transformers.Settings) -> int:
    return _format(model, settings).bits // 8


def _storages(model: Model, settings: transformers.Settings, case: Case, cache: CacheBytes) -> list[list[int]]:
    """Bytes of each storage behind the cache, layer by layer."""
    own, layers = _format(model, settings), []
    for layer, found in zip(model.layers_for(transformers.name), cache.layers, strict=True):
        sizes: list[int] = []
        for held, part in zip(layer.caches, found.parts, strict=True):
            if settings.cache_implementation == "quantized":
                sizes += _quantized(held, part, settings, case.batch)
            else:
                tensors = held.tensors(_alive(held, part, cache.tokens, case))
                sizes += [size for tensor in tensors if (size := tensor_bytes(tensor, case.batch, own, own))]
        layers.append(sizes)
    return layers


def _alive(held: LayerCache, part: CachePart, tokens: int, case: Case) -> int:
    """Positions whose storage is kept: what is held, unless a window's slice keeps the last part of the prompt too."""
    if part.storage_bytes == part.bytes or held.window is None:
        return part.positions
    if tokens != case.prompt:
        return min(tokens, held.window)
    return tokens if case.chunk is None else min(tokens, held.window - 1 + case.chunk)


def _quantized(held: LayerCache, part: CachePart, settings: transformers.Settings, batch: int) -> list[int]:
    """Keys and values each as packed data with its scales; how scales and a residual divide the rest is not followed."""
    elements = [tensor.elements * batch for tensor in held.tensors(part.positions)]
    if settings.backend == "fp8":
        return [size for count in elements for size in (count, 4)]
    return [part.bytes * count // sum(elements) for count in elements]


def bookkeeping(model: Model, settings: transformers.Settings, case: Case) -> list[int]:
    """The ids of prompt and new tokens, and a counter for each window of a dynamic cache or layer of a static one."""
    static = settings.cache_implementation.endswith("static")
    counters = 0
    for layer in model.layers_for(transformers.name):
        attends = [c for c in layer.caches if not isinstance(c, State) and (c.window is not None or static)]
        counters += len(attends) if "own_cache" not in model.cache_rules else 0
    return [case.batch * (case.tokens + 1) * _INTEGER, *[_INTEGER] * counters]


def growth(model: Model, settings: transformers.Settings, case: Case) -> list[int]:
    """Bytes of the copies alive while each layer takes one more token.

    full, latent: one of its tensors, since keys are replaced before values are copied. A window: both, since it is cut
    after both are copied. A static layer is written in place, a full static window rolled into a copy of both. A quantized
    layer is dequantized and joined: three copies in full precision.
    """
    own = _format(model, settings)
    static = settings.cache_implementation.endswith("static")
    quantized = settings.cache_implementation == "quantized"

    def copies(cache: LayerCache) -> int:
        if not isinstance(cache, Full | Latent) or isinstance(cache, Cross):
            return 0
        held = case.tokens if cache.window is None else min(case.tokens, cache.window)
        sizes = [block_bytes(tensor_bytes(t, case.batch, own, own)) for t in cache.tensors(held)]
        if quantized:
            return 3 * sum(sizes)
        if static:
            return sum(sizes) if cache.window is not None and case.tokens > cache.window else 0
        return sum(sizes) if cache.window is not None else max(sizes)

    return [max(map(copies, layer.caches), default=0) for layer in model.layers_for(transformers.name)]


def _on_device(layers: list[list[int]]) -> list[int]:
    """The storages of an offloaded cache that are on the device: those of the two largest layers, in use and next."""
    return [size for sizes in sorted(layers, key=sum, reverse=True)[:2] for size in sizes]


def largest(model: Model, settings: transformers.Settings, case: Case, limit_bytes: int, what: str) -> int:
    """The largest number of tokens (or requests) whose peaks fit into `limit_bytes`; 0 where not even the smallest does."""
    def holds(count: int) -> bool:
        tried = replace(case, tokens=max(count, case.new)) if what == "tokens" else replace(case, batch=count)
        found = predict(model, settings, tried)
        return max(found.prefill_peak_bytes, found.decode_peak_bytes) <= limit_bytes

    return most(holds, 10**9)
