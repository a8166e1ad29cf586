"""A cache's bytes as arithmetic that a person can check: like layers together, the formula with its numbers filled in."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cache import CacheBytes, LayerBytes, architecture_bytes
from planner.dtypes import storage_format
from planner.layers import Compressed, Full, Latent, Layer
from planner.model import Model

#: What each kind of cache keeps, in one sentence.
KINDS = {
    "full": "keys and values of every position",
    "sliding": "keys and values of the last positions only, so it stops growing",
    "chunked": "keys and values of the current chunk only, so it stops growing",
    "latent": "one compressed vector and one rotated key for every position (MLA)",
    "indexed": "every position, plus the index keys of a sparse-attention indexer",
    "compressed": "a sliding window, plus one compressed entry for each block of positions",
    "state": "a recurrent state of fixed size, however long the request",
    "cross": "keys and values of the encoder's positions, written once",
    "shared": "nothing of its own: it reads another layer's cache",
    "none": "nothing",
}


@dataclass(frozen=True)
class Group:
    """Layers that keep exactly the same: how many, which, of which kind, and the bytes of one."""

    count: int
    layers: tuple[int, ...]
    kind: str
    formula: str
    bytes_each: int

    @property
    def bytes(self) -> int:
        return self.count * self.bytes_each

    @property
    def where(self) -> str:
        """The layers' numbers as ranges: "0-4, 6-10"."""
        runs: list[list[int]] = []
        for index in self.layers:
            if runs and index == runs[-1][1] + 1:
                runs[-1][1] = index
            else:
                runs.append([index, index])
        return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def groups(model: Model, cache: CacheBytes, element: str | None = None) -> tuple[Group, ...]:
    """The layers of `cache` grouped by what they keep, in order of first appearance.

    element: the KV storage format that the bytes were computed with, for the formula's last factor; default the model's.
    """
    found: dict[tuple[Layer, int], list[LayerBytes]] = {}
    for layer, measured in zip(model.layers, cache.layers, strict=True):
        key = (Layer(layer.caches, None if layer.shares is None else -1), measured.bytes)
        found.setdefault(key, []).append(measured)
    return tuple(
        Group(
            len(same), tuple(x.index for x in same), same[0].kind,
            _formula(layer, same[0], cache, element or model.dtype, model.dtype), size,
        )
        for (layer, size), same in found.items()
    )  # fmt: skip


def engine_groups(cache: CacheBytes) -> tuple[Group, ...]:
    """The layers of an engine's own allocation that take the same, by kind and bytes; parts that are no layer come last."""
    found: dict[tuple[str, int], list[int]] = {}
    for layer in cache.layers:
        found.setdefault((layer.kind, layer.bytes), []).append(layer.index)
    return tuple(Group(len(same), tuple(same), kind, "", size) for (kind, size), same in found.items())


def _formula(layer: Layer, measured: LayerBytes, cache: CacheBytes, element: str, model_dtype: str) -> str:
    if not layer.caches:
        return "0"
    if cache.rule is not None:
        positions = measured.parts[0].positions
        return f"{positions:,} positions x {sum(t.elements for c in layer.caches for t in c.tensors(1)):,} elements, {cache.rule}"
    batch = f"{cache.requests:,} x " if cache.requests != 1 else ""
    size = _element(element)
    terms = []
    for kept, part in zip(layer.caches, measured.parts, strict=True):
        if isinstance(kept, Full):
            heads = f"{kept.kv_heads} head{'s' if kept.kv_heads != 1 else ''}"
            terms.append(f"{batch}{heads} x {part.positions:,} positions x ({kept.k_dim} + {kept.v_dim}) x {size}")
        elif isinstance(kept, Latent):
            widths = f"({kept.kv_lora_rank} + {kept.qk_rope_head_dim})"
            terms.append(f"{batch}{part.positions:,} positions x {widths} x {size}")
        else:
            tensors = [t for t in kept.tensors(part.positions) if t.elements]
            shapes = " + ".join(
                f"{' x '.join(f'{n:,}' for n in t.shape)} x "
                f"{_element(element if t.quantizable else model_dtype) if t.dtype == 'model' else _element(t.dtype)}"
                for t in tensors
            )
            terms.append(f"{batch}({shapes})" if batch and len(tensors) > 1 else f"{batch}{shapes}" if shapes else "0")
    return " + ".join(terms)


def _element(dtype: str) -> str:
    if dtype in ("int64", "int32"):
        return "8 B" if dtype == "int64" else "4 B"
    form = storage_format(dtype)
    bytes_each = f"{form.bits // 8}" if form.bits % 8 == 0 else f"{form.bits}/8"
    return f"({bytes_each} + {form.group_bytes}/{form.group}) B" if form.group else f"{bytes_each} B"


@dataclass(frozen=True)
class Twins:
    """What the same model would take with other head counts: multi-head, grouped as it is, and multi-query attention.

    mha: every query head cached; mqa: one head. None where layers keep no heads to count (latent, compressed, states alone).
    """

    mha_bytes: int | None
    own_bytes: int
    mqa_bytes: int | None
    common_formula_bytes: int | None


def twins(
    model: Model, tokens: int, requests: int = 1, kv_cache_dtype: str | None = None, encoder_tokens: int = 0
) -> Twins:
    """The MHA and MQA twins of a model, and what the common `2 x layers x hidden x tokens x bytes` formula says.

    common = 2 x layers x hidden x tokens x requests x bytes an element. It is right for multi-head attention alone.
    """
    def total(of: Model) -> int:
        return architecture_bytes(
            of, tokens, requests, kv_cache_dtype=kv_cache_dtype, encoder_tokens=encoder_tokens
        ).total_bytes

    caches = [cache for layer in model.layers for cache in layer.caches]
    has_heads = any(isinstance(c, Full) for c in caches) and not any(isinstance(c, Latent | Compressed) for c in caches)
    common = None
    if model.hidden_size:
        elements = 2 * len(model.layers) * model.hidden_size * tokens * requests
        common = storage_format(kv_cache_dtype or model.dtype).bytes(elements)
    return Twins(
        mha_bytes=total(model.with_kv_heads(model.attention_heads)) if has_heads and model.attention_heads else None,
        own_bytes=total(model),
        mqa_bytes=total(model.with_kv_heads(1)) if has_heads else None,
        common_formula_bytes=common,
    )
