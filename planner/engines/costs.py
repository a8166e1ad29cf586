"""What one token and one request of each layer take on one rank, for the engines that keep paged pools.

An engine states its own cost of each layer; the sums, the split into pipeline stages and the shape of the result are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from planner.cache import CachePart, LayerBytes
from planner.errors import EngineRefusal, InputError, shown
from planner.hardware import Gpu
from planner.layers import Layer, LayerCache, State
from planner.model import Model
from planner.units import ceil_div


@dataclass(frozen=True)
class LayerCost:
    """One layer on one rank: bytes of a token's keys, values and index keys, and bytes of a state slot.

    kind: full, sliding, latent, indexed, state, cross, shared, none, or two joined by "+". window: positions that the engine
    lets go of the rest behind, None where it keeps all. heads, k_dim, v_dim: what this rank stores of a token.
    """

    index: int
    kind: str
    key_bytes: int = 0
    value_bytes: int = 0
    index_bytes: int = 0
    conv_bytes: int = 0
    recurrent_bytes: int = 0
    window: int | None = None
    heads: int | None = None
    k_dim: int | None = None
    v_dim: int | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of one token."""
        return self.key_bytes + self.value_bytes + self.index_bytes

    @property
    def slot_bytes(self) -> int:
        """Bytes of one state slot."""
        return self.conv_bytes + self.recurrent_bytes


def layer_bytes(cost: LayerCost, rows: int, slots: int, requests: int = 1) -> LayerBytes:
    """The layer with `rows` rows and `slots` state slots, all requests together; positions are those of one request."""
    parts, positions = [], ceil_div(rows, requests)
    if cost.key_bytes or cost.value_bytes:
        kind = "latent" if cost.kind == "indexed" else next(part for part in cost.kind.split("+") if part != "state")
        size = rows * (cost.key_bytes + cost.value_bytes)
        parts.append(CachePart(kind, positions, cost.window, cost.k_dim, cost.v_dim, cost.heads, size, size))
    if cost.index_bytes:
        size = rows * cost.index_bytes
        parts.append(CachePart("indexed", positions, None, None, None, None, size, size))
    if cost.slot_bytes:
        size = slots * cost.slot_bytes
        parts.append(CachePart("state", 0, None, None, None, None, size, size))
    return LayerBytes(cost.index, cost.kind, tuple(parts))


def stages(layers: int, count: int, extra: Literal["first", "last"]) -> tuple[range, ...]:
    """Which layers each pipeline stage holds: layers // count each, and one more on the first or the last `remainder`."""
    if count > layers:
        raise EngineRefusal(f"{count} pipeline stages are more than the {layers} layers there are to share out")
    share, remainder = divmod(layers, count)
    sizes = [share + (stage < remainder if extra == "first" else stage >= count - remainder) for stage in range(count)]
    starts = [sum(sizes[:stage]) for stage in range(count)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def owned(model: Model, engine: str) -> tuple[Layer, ...]:
    """The layers with sharing undone: a layer that reads another's cache has the caches of that one.

    The three engines give each attention layer rows of its own. Where the config does not say which layer is read, the
    largest neighbour before it is taken.
    """
    layers = model.layers_for(engine)
    found: list[Layer] = []
    for layer in layers:
        if layer.shares is None:
            found.append(layer)
            continue
        source = found[layer.shares] if 0 <= layer.shares < len(found) else (found[-1] if found else Layer())
        kinds = {type(cache) for cache in layer.caches}
        borrowed = tuple(cache for cache in source.caches if type(cache) not in kinds and not isinstance(cache, State))
        found.append(Layer(borrowed + layer.caches))
    return tuple(found)


def refuse(text: str, engine: str) -> EngineRefusal:
    """A refusal of the engine, whose name is written as its makers do."""
    return EngineRefusal(text, engine=engine.lower())


def divide(total: int, ranks: int, what: str, engine: str) -> int:
    """A share of `total` on each rank. EngineRefusal where it does not divide, as the engine's own weights would not."""
    if total % ranks:
        raise refuse(f"{engine} cannot split {total:,} {what} evenly over {ranks} ranks", engine)
    return total // ranks


def state_shares(
    state: State, ranks: int, engine: str, styles: Iterable[str], repeat_groups: bool = True
) -> tuple[int, int]:
    """Elements of a recurrent layer's convolution and recurrent state on one rank.

    convolution: channels / ranks x (kernel - 1); repeat_groups: Mamba 2 keeps whole groups a rank, so groups that do not
    divide are repeated: (inner + 2 x max(groups, ranks) x state) / ranks channels. recurrent: heads / ranks x the rest.
    kernel - 1: the newest input is added while computing and need not be kept.

    Errors: EngineRefusal for a recurrence that the planner has no rule of this engine for, or that does not divide.
    Source: SGLang 0.5.23 configs/mamba_utils.py; TensorRT-LLM mamba_cache_manager.py.
    """
    if state.style not in set(styles):
        known = ", ".join(sorted(styles)) or "none"
        raise refuse(f"the planner has no rule for {state.style} states in {engine}; it knows {known}", engine)
    convolution = recurrent = 0
    matrix = next((tensor.shape for tensor in state.states if tensor.name == "recurrent state"), None)
    for tensor in state.states:
        if tensor.name != "convolution state":
            heads, *rest = tensor.shape
            size = divide(heads, ranks, "heads of a recurrent state", engine)
            for extent in rest:
                size *= extent
            recurrent += size
            continue
        channels, kernel = tensor.shape
        if state.style == "mamba2" and matrix is not None and repeat_groups:
            inner = matrix[0] * matrix[1]
            groups = (channels - inner) // (2 * matrix[2])
            channels = inner + 2 * (groups if groups % ranks == 0 else max(groups, ranks)) * matrix[2]
        convolution += divide(channels, ranks, "convolution channels", engine) * (kernel - 1)
    return convolution, recurrent


def check_budget(budget_bytes: object) -> int:
    """A budget as a whole number of bytes; what is short of nothing is nothing. InputError for anything else."""
    if isinstance(budget_bytes, bool) or not isinstance(budget_bytes, int):
        raise InputError(f"budget_bytes is {shown(budget_bytes)}; it must be a whole number of bytes", field="budget_bytes")
    return max(0, budget_bytes)


def generation(gpu: Gpu | None) -> int:
    """An NVIDIA card's generation as a number (sm90: 90); 0 for others and where it is not known."""
    name = (gpu.generation or "") if gpu else ""
    return int(name[2:]) if name.startswith("sm") and name[2:].isdigit() else 0


def check_generation(gpu: Gpu | None, minimum: int, what: str, engine: str) -> None:
    """EngineRefusal where `what` needs a later NVIDIA generation than the card's. An amount of memory is no card to judge."""
    if gpu is not None and gpu.vendor and minimum > generation(gpu):
        own = f"sm{generation(gpu)}" if generation(gpu) else gpu.generation or gpu.vendor
        raise refuse(f"{what} needs NVIDIA sm{minimum} or later in {engine}, and {gpu.name} is {own}", engine)


def refuse_kind(cache: LayerCache, index: int, model: Model, engine: str, why: str = "") -> EngineRefusal:
    """The refusal for a cache that the planner has no rule of this engine for."""
    reason = why or f"the planner has no rule for how {engine} stores it"
    return refuse(f"layer {index} of {model.name} keeps a {cache.kind} cache, and {reason}", engine)


def largest(costs: Sequence[LayerCost], parts: Sequence[range], total: Callable[[Sequence[LayerCost]], int]) -> int:
    """The index of the pipeline stage that takes most."""
    sizes = [total([costs[i] for i in part]) for part in parts]
    return sizes.index(max(sizes))
