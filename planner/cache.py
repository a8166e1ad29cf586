"""Cache bytes of a model by its layers' own arithmetic, and the result type that every engine returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.dtypes import FIXED_BYTES, StorageFormat, storage_format
from planner.errors import InputError, shown
from planner.layers import Cross, Hidden, Layer, LayerCache, ReferenceSliding, Tensor
from planner.model import Model

#: The largest count of tokens, requests or encoder positions that is taken for a real question.
MAX_COUNT = 10**12


@dataclass(frozen=True)
class CachePart:
    """One cache of a layer as allocated for all requests: its kind, positions, window, and bytes."""

    kind: str
    positions: int
    window: int | None
    k_dim: int | None
    v_dim: int | None
    heads: int | None
    bytes: int
    storage_bytes: int


@dataclass(frozen=True)
class LayerBytes:
    """What one layer allocates. `bytes` counts live elements, `storage_bytes` the allocations kept alive behind them."""

    index: int
    kind: str
    parts: tuple[CachePart, ...]

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def storage_bytes(self) -> int:
        return sum(part.storage_bytes for part in self.parts)


@dataclass(frozen=True)
class CacheBytes:
    """The cache of `requests` requests of `tokens` positions each, layer by layer, in bytes.

    `rule` says what the engine stores differently from elements x bytes, where it does.
    """

    layers: tuple[LayerBytes, ...]
    tokens: int
    requests: int
    encoder_tokens: int
    warnings: tuple[str, ...] = ()
    rule: str | None = None

    @property
    def total_bytes(self) -> int:
        return sum(layer.bytes for layer in self.layers)

    @property
    def storage_bytes(self) -> int:
        return sum(layer.storage_bytes for layer in self.layers)

    @property
    def bytes_per_request(self) -> int:
        return self.total_bytes // self.requests

    @property
    def bytes_per_token(self) -> float:
        """The average over the positions held; not a rate where windows or states are involved."""
        return self.bytes_per_request / self.tokens if self.tokens else 0.0


def check_count(value: object, name: str, minimum: int = 0) -> int:
    """A whole number of at least `minimum`. InputError naming `name` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= MAX_COUNT:
        raise InputError(f"{name} is {shown(value)}; it must be a whole number from {minimum} to {MAX_COUNT:,}", field=name)
    return value


def tensor_bytes(tensor: Tensor, requests: int, kv: StorageFormat, model: StorageFormat) -> int:
    """Bytes of a cached tensor of all requests: keys and values in `kv`, other states in the model's own dtype."""
    elements = tensor.elements * (requests if tensor.batched else 1)
    if tensor.dtype != "model":
        return elements * FIXED_BYTES[tensor.dtype]
    return (kv if tensor.quantizable else model).bytes(elements)


def prompted(layers: tuple[Layer, ...], prompt_tokens: int | None) -> tuple[Layer, ...]:
    """The layers as a prompt of this length leaves them, where what is kept depends on it."""
    if not any(isinstance(cache, Hidden) for layer in layers for cache in layer.caches):
        return layers
    return tuple(
        replace(layer, caches=tuple(c.after(prompt_tokens) if isinstance(c, Hidden) else c for c in layer.caches))
        for layer in layers
    )


Positions = Callable[[LayerCache], tuple[int, int]]


def measure(
    layers: tuple[Layer, ...], positions: Positions, requests: int, tensor_size: Callable[[Tensor], int]
) -> tuple[LayerBytes, ...]:
    """Bytes of each layer, given how many positions each cache holds and keeps alive, and the size of a tensor."""
    known: dict[tuple[LayerCache, ...], tuple[CachePart, ...]] = {}
    found = []
    for index, layer in enumerate(layers):
        if layer.caches not in known:
            known[layer.caches] = tuple(_part(cache, positions, tensor_size) for cache in layer.caches)
        found.append(LayerBytes(index, layer.kind, known[layer.caches]))
    return tuple(found)


def _part(cache: LayerCache, positions: Positions, tensor_size: Callable[[Tensor], int]) -> CachePart:
    held, alive = positions(cache)
    count = sum(tensor_size(tensor) for tensor in cache.tensors(held))
    storage = count if alive == held else sum(tensor_size(tensor) for tensor in cache.tensors(alive))
    return CachePart(
        kind=cache.kind, positions=held, window=cache.window, bytes=count, storage_bytes=storage,
        k_dim=getattr(cache, "k_dim", None) or getattr(cache, "kv_lora_rank", None) or getattr(cache, "head_dim", None),
        v_dim=getattr(cache, "v_dim", getattr(cache, "qk_rope_head_dim", None)),
        heads=getattr(cache, "kv_heads", None),
    )  # fmt: skip


def held_positions(cache: LayerCache, tokens: int, encoder_tokens: int, prompt_tokens: int | None) -> int:
    """Positions that the architecture needs between two steps of generation."""
    if isinstance(cache, Cross):
        return encoder_tokens
    if isinstance(cache, ReferenceSliding) and prompt_tokens is not None:
        prompt = min(prompt_tokens, tokens)
        return prompt + min(tokens - prompt, cache.window - 1)
    return cache.positions(tokens)


def architecture_bytes(
    model: Model,
    tokens: int,
    requests: int = 1,
    *,
    kv_cache_dtype: str | None = None,
    encoder_tokens: int = 0,
    prompt_tokens: int | None = None,
) -> CacheBytes:
    """The KV cache by the architecture alone, before any engine's blocks, padding or refusals, in bytes.

    total = sum over layers of (elements x bits / 8 + scales), keys and values in `kv_cache_dtype` (default: the model's
    dtype), recurrent states and index keys in their own dtype. With the model's dtype this equals a transformers
    DynamicCache byte for byte. Errors: InputError.

    Source: layers.py for each kind's elements; dtypes.py for each format's bytes.
    """
    tokens, requests = check_count(tokens, "tokens"), check_count(requests, "requests", 1)
    encoder_tokens = check_count(encoder_tokens, "encoder_tokens")
    if prompt_tokens is not None:
        check_count(prompt_tokens, "prompt_tokens")
    own = storage_format(model.dtype)
    kv = own if kv_cache_dtype is None else storage_format(kv_cache_dtype)

    def positions(cache: LayerCache) -> tuple[int, int]:
        held = held_positions(cache, tokens, encoder_tokens, prompt_tokens)
        return held, held

    found = measure(
        prompted(model.layers, prompt_tokens), positions, requests, lambda tensor: tensor_bytes(tensor, requests, kv, own)
    )
    return CacheBytes(found, tokens, requests, encoder_tokens)
