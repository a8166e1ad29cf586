"""Weighs a cache after real generation: the bytes of its tensors, layer by layer, and of the storages behind them.

bytes: elements of distinct views x element size; a tensor kept twice (keys that are also the values) counts once, and
views of one storage count no more than the storage. storage_bytes: distinct storages kept alive. Counters of one number
(`cumulative_length`, a window's width) are bookkeeping, counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

#: Names under which transformers' outputs carry a cache, from 5.17 to 5.24, those of models with their own store included.
_NAMES = ("cache", "past_key_values", "cache_params", "state", "mems", "past_buckets_states")
_DEEPEST = 6


@dataclass
class Weight:
    """What one layer holds. `tensors` are (name, shape, dtype); `storages` maps each distinct storage to its bytes."""

    kind: str
    bytes: int = 0
    bookkeeping: int = 0
    tensors: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)
    storages: dict[int, int] = field(default_factory=dict)
    small: dict[int, int] = field(default_factory=dict)

    @property
    def storage_bytes(self) -> int:
        return sum(self.storages.values())


@dataclass(frozen=True)
class Weighed:
    """A whole cache: its layers, and how many positions it says that it holds (None where it cannot say)."""

    cls: str
    layers: tuple[Weight, ...]
    positions: int | None

    @property
    def bytes(self) -> int:
        return sum(layer.bytes for layer in self.layers)

    @property
    def storages(self) -> dict[int, int]:
        """Distinct storages of all layers: a storage that two layers keep counts once."""
        return {key: size for layer in self.layers for key, size in layer.storages.items()}

    @property
    def storage_bytes(self) -> int:
        return sum(self.storages.values())

    @property
    def bookkeeping(self) -> dict[int, int]:
        """Storages of counters, on whichever device they are."""
        return {key: size for layer in self.layers for key, size in layer.small.items()}


def cache_of(outputs: Any) -> Any:
    """The cache in what `generate(return_dict_in_generate=True)` or a forward pass returned, None where there is none."""
    for name in _NAMES:
        found = outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)
        if found is not None:
            return found
    return None


def weigh(cache: Any, depth: int = 0) -> Weighed:
    """Weighs a cache of any class; `depth` is the model's number of layers, for stores that are plain lists."""
    if cache is None:
        return Weighed("none", (), 0)
    parts = [getattr(cache, name) for name in ("self_attention_cache", "cross_attention_cache") if hasattr(cache, name)]
    stores = [_layers(part, depth) for part in parts or [cache]]
    layers = tuple(
        _weight([store[index] for store in stores if index < len(store)]) for index in range(max(map(len, stores)))
    )
    return Weighed(type(cache).__name__, layers, _positions(cache))


def _layers(cache: Any, depth: int) -> list[Any]:
    """The objects that hold each layer's tensors; a store without layers is one object."""
    layers = getattr(cache, "layers", None)
    if layers is not None:
        beside = [value for name, value in vars(cache).items() if name != "layers" and isinstance(value, list)]
        found: list[Any] = list(layers)
        for store in beside:  # MiniMax keeps its linear states beside the layers of keys and values
            found += [[] for _ in range(len(store) - len(found))]
            found = [[old, store[i]] if i < len(store) and store[i] is not None else old for i, old in enumerate(found)]
        return found
    if isinstance(cache, list | tuple) and len(cache) == depth:
        return list(cache)
    return [cache]


def _weight(holders: list[Any]) -> Weight:
    found = Weight(_kind(holders))
    views: dict[int, dict[tuple[Any, ...], int]] = {}
    for name, tensor in _tensors(holders[0] if len(holders) == 1 else holders, "", _DEEPEST, set()):
        storage = tensor.untyped_storage()
        key, size = storage.data_ptr() or id(tensor), storage.nbytes()
        if tensor.dim() == 0 and not tensor.is_floating_point():
            found.bookkeeping += tensor.element_size()
            found.small[key] = size
        elif tensor.numel():
            found.tensors.append((name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")))
            view = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
            views.setdefault(key, {})[view] = tensor.numel() * tensor.element_size()
            found.storages[key] = size
    found.bytes = sum(min(sum(seen.values()), found.storages[key]) for key, seen in views.items())
    return found


def _kind(holder: Any) -> str:
    """The class that holds the tensors: the first that is no plain list."""
    while isinstance(holder, list | tuple) and holder and not isinstance(holder[0], torch.Tensor):
        holder = next((entry for entry in holder if not isinstance(entry, list | tuple)), holder[0])
    return type(holder).__name__


def _tensors(value: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors inside a value; a tensor subclass that packs others (a quantized one) gives what it packs."""
    if isinstance(value, torch.Tensor):
        if type(value) is torch.Tensor or not hasattr(value, "__tensor_flatten__"):
            yield name, value
            return
        for inner in value.__tensor_flatten__()[0]:
            yield from _tensors(getattr(value, inner), f"{name}.{inner}", depth - 1, seen)
        return
    if depth < 0 or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        entries = [(str(key), entry) for key, entry in value.items()]
    elif isinstance(value, list | tuple):
        entries = [(str(index), entry) for index, entry in enumerate(value)]
    elif hasattr(value, "__dict__") and not isinstance(value, type | torch.nn.Module) and not callable(value):
        entries = [(key, entry) for key, entry in vars(value).items() if "config" not in key]
    else:
        return
    for key, entry in entries:
        yield from _tensors(entry, f"{name}.{key}".lstrip("."), depth - 1, seen)


def _positions(cache: Any) -> int | None:
    try:
        return int(cache.get_seq_length())
    except (AttributeError, ValueError, TypeError, IndexError):
        return None
