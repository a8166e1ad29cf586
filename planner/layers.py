"""The kinds of cache that a layer can keep, each with its formula.

A model is a tuple of layers, and a layer holds zero, one or two caches. A cache answers two questions, both for one
request: how many positions it needs when the request has `tokens` positions, and which tensors hold that many positions.
Bytes follow from the tensors' shapes and the storage dtype; engines differ in how many positions they allocate, never in
what one position is made of.

Source for all shapes: tensors measured in transformers 5.24 caches after real generation (docs/COVERAGE.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

#: "model" is the dtype that keys and values are stored in; the others do not follow it.
TensorDtype = Literal["model", "float32", "int64", "int32"]


@dataclass(frozen=True)
class Tensor:
    """One cached tensor of one request: its name, its shape without the batch axis, and its dtype.

    `quantizable` marks keys and values, which a KV storage format applies to; states and bookkeeping keep their dtype.
    `batched` is False for the rare tensor that all requests of a batch have in common.
    """

    name: str
    shape: tuple[int, ...]
    dtype: TensorDtype = "model"
    quantizable: bool = False
    batched: bool = True

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class LayerCache:
    """What one layer keeps of one kind. `window` is None for a cache without one."""

    kind: ClassVar[str]
    window: int | None = field(default=None, kw_only=True)

    @property
    def grows(self) -> bool:
        """True if the cache takes more memory as the request gets longer, for ever."""
        return self.window is None

    def positions(self, tokens: int) -> int:
        """Positions held for a request of `tokens` positions."""
        return tokens

    def tensors(self, positions: int) -> tuple[Tensor, ...]:
        """The tensors that hold `positions` positions of one request."""
        raise NotImplementedError


@dataclass(frozen=True)
class Full(LayerCache):
    """Keys and values of every position, for each KV head: MHA, GQA and MQA.

    elements = kv_heads x positions x (k_dim + v_dim)

    kv_heads: heads that are really cached (MHA: all query heads, MQA: one). k_dim, v_dim: width of one head's key and
    value; they differ in some models (MiMo-V2-Flash 192 and 128).

    Source: `DynamicLayer`, transformers 5.24: K [B, kv_heads, L, k_dim], V [B, kv_heads, L, v_dim].
    """

    kind: ClassVar[str] = "full"
    kv_heads: int
    k_dim: int
    v_dim: int

    def tensors(self, positions: int) -> tuple[Tensor, ...]:
        return (
            Tensor("keys", (self.kv_heads, positions, self.k_dim), quantizable=True),
            Tensor("values", (self.kv_heads, positions, self.v_dim), quantizable=True),
        )


@dataclass(frozen=True)
class Sliding(Full):
    """Keys and values of the last positions only: the layer attends to `window` positions, the current one included.

    positions = min(tokens, window - 1): the current token is added while attending, so W - 1 are kept between steps.

    Source: `DynamicSlidingWindowLayer`, transformers 5.24 (measured: W = 11 holds 10 positions). Engines that reserve
    a whole window or more do so in their own file.
    """

    kind: ClassVar[str] = "sliding"
    window: int = field(kw_only=True)

    def positions(self, tokens: int) -> int:
        return min(tokens, self.window - 1)


@dataclass(frozen=True)
class Chunked(Sliding):
    """Keys and values of the current chunk: attention never crosses a chunk's border (Llama 4).

    positions = min(tokens, window - 1), with window = the chunk size.

    Source: transformers 5.24 keeps chunked layers in its sliding class with the chunk size as the window.
    """

    kind: ClassVar[str] = "chunked"


@dataclass(frozen=True)
class ReferenceSliding(Sliding):
    """The whole prompt for ever, plus the last window - 1 generated positions.

    positions = prompt + min(tokens - prompt, window - 1). Without a known prompt everything is taken to be prompt, the
    largest that it can be.

    Source: `UnlimitedOcrDynamicReferenceSlidingWindowLayer`, transformers 5.24.
    """

    @property
    def grows(self) -> bool:
        return True

    def positions(self, tokens: int) -> int:
        return tokens


@dataclass(frozen=True)
class Latent(LayerCache):
    """Multi-head latent attention: one compressed vector and one rotated key a position, whatever the head count.

    elements = positions x (kv_lora_rank + qk_rope_head_dim); with a window, positions = min(tokens, window - 1)

    `expanded` is (heads, key width, value width) of the heads that the latent is expanded to when attending; an engine
    that caches those instead takes heads x positions x (key + value).

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1; transformers 5.24 stores K [B, 1, L, kv_lora_rank] and
    V [B, 1, L, qk_rope_head_dim].
    """

    kind: ClassVar[str] = "latent"
    kv_lora_rank: int
    qk_rope_head_dim: int
    expanded: tuple[int, int, int] | None = None

    def positions(self, tokens: int) -> int:
        return tokens if self.window is None else min(tokens, self.window - 1)

    def tensors(self, positions: int) -> tuple[Tensor, ...]:
        return (
            Tensor("latent", (1, positions, self.kv_lora_rank), quantizable=True),
            Tensor("rope keys", (1, positions, self.qk_rope_head_dim), quantizable=True),
        )


@dataclass(frozen=True)
class IndexKeys(LayerCache):
    """Keys of a sparse-attention indexer, kept beside the layer's latent or full cache (DeepSeek-V3.2, GLM-5).

    elements = positions x width; `position_ids` int64 numbers a position come on top where a class keeps them.

    Source: `DynamicIndexedLayer`, transformers 5.24: indexer_keys [B, L, width].
    """

    kind: ClassVar[str] = "indexed"
    width: int
    dtype: TensorDtype = "model"
    position_ids: int = 0

    def tensors(self, positions: int) -> tuple[Tensor, ...]:
        keys = Tensor("index keys", (positions, self.width), self.dtype)
        if not self.position_ids:
            return (keys,)
        return (keys, Tensor("position ids", (self.position_ids, positions), "int64"))


@dataclass(frozen=True)
class Compressed(LayerCache):
    """A sliding window of shared keys-as-values, plus one compressed entry for every `rate` positions (DeepSeek-V4).

    window part: min(tokens, window - 1) x head_dim, keys and values being one tensor.
    compressor, for each width w: floor(tokens / rate) x w compressed entries, and buffers of the tokens mod rate
    positions not yet compressed, w for the keys and w for the gates. With an indexer (index_dim set) the buffers are
    twice as wide, the indexer keeps the same with w = index_dim, and after the first whole block rate x w overlap keys
    and rate x w float32 overlap gates stay.

    Source: `DeepseekV4HCACache` (rate 128, no indexer) and `DeepseekV4CSACache` (rate 4), transformers 5.24.
    """

    kind: ClassVar[str] = "compressed"
    head_dim: int
    rate: int
    index_dim: int | None = None
    window: int = field(kw_only=True)

    @property
    def grows(self) -> bool:
        return True

    def tensors(self, positions: int) -> tuple[Tensor, ...]:
        held, blocks, rest = min(positions, self.window - 1), positions // self.rate, positions % self.rate
        found = [Tensor("shared keys and values", (1, held, self.head_dim), quantizable=True)]
        for name, width in (("compressor", self.head_dim), ("indexer", self.index_dim)):
            if width is None:
                continue
            series = 1 if self.index_dim is None else 2
            found += [
                Tensor(f"{name} entries", (1, blocks, width), quantizable=name == "compressor"),
                Tensor(f"{name} buffered keys", (1, rest, series * width)),
                Tensor(f"{name} buffered gates", (1, rest, series * width)),
            ]
            if series == 2 and blocks:
                found.append(Tensor(f"{name} overlap keys", (1, self.rate, width)))
                found.append(Tensor(f"{name} overlap gates", (1, self.rate, width), "float32"))
        return tuple(found)


@dataclass(frozen=True)
class State(LayerCache):
    """A recurrent layer's state: fixed bytes a request, however long it gets.

    elements = the sum of the state tensors' own shapes. `style` names the recurrence (mamba1, mamba2, gated_delta_net,
    kimi_delta, lightning, short_conv, ...), which is how engines that lay states out differently recognise it.

    Source: `LinearAttentionLayer`, transformers 5.24: convolution states in the model's dtype, recurrent states in
    float32 also in a bfloat16 model.
    """

    kind: ClassVar[str] = "state"
    style: str
    states: tuple[Tensor, ...]

    @property
    def grows(self) -> bool:
        return False

    def positions(self, tokens: int) -> int:
        return 0

    def tensors(self, positions: int) -> tuple[Tensor, ...]:
        return self.states


@dataclass(frozen=True)
class Cross(Full):
    """Keys and values of the encoder's positions, written once and constant while decoding.

    elements = kv_heads x encoder positions x (k_dim + v_dim)

    Source: `EncoderDecoderCache.cross_attention_cache`, transformers 5.24.
    """

    kind: ClassVar[str] = "cross"

    @property
    def grows(self) -> bool:
        return False


@dataclass(frozen=True)
class Hidden(LayerCache):
    """Hidden states instead of keys and values (XLNet's memory, Reformer).

    elements = positions x width; `bucket_ids` numbers a position once a chunk is full, for LSH attention: of 8 bytes where the
    prompt was hashed, because it is longer than a chunk, and of 4 (`late`) where the chunk fills up while answering.

    Source: XLNet `mems` [L, B, d_model]; `ReformerDynamicCache` states [B, L, hidden], buckets [B, heads x hashes, L];
    both widths of ids measured with transformers 5.24.
    """

    kind: ClassVar[str] = "full"
    width: int
    bucket_ids: int = 0
    bucket_from: int = 0
    late: bool = False

    def after(self, prompt_tokens: int | None) -> Hidden:
        """The same cache after a prompt of this length; the wider ids where it is not known."""
        return replace(self, late=prompt_tokens is not None and prompt_tokens <= self.bucket_from)

    def tensors(self, positions: int) -> tuple[Tensor, ...]:
        states = Tensor("hidden states", (positions, self.width))
        if not self.bucket_ids or positions < self.bucket_from:
            return (states,)
        return (states, Tensor("bucket ids", (self.bucket_ids, positions), "int32" if self.late else "int64"))


@dataclass(frozen=True)
class Layer:
    """One layer of the model, in cache order. No cache at all is an empty tuple.

    `shares` is the index of the layer whose cache this one reads instead of keeping its own, -1 where the config does
    not say which.
    """

    caches: tuple[LayerCache, ...] = ()
    shares: int | None = None

    @property
    def kind(self) -> str:
        """full, sliding, chunked, latent, indexed, compressed, state, cross, shared, none, or two joined by '+'."""
        if self.shares is not None and not self.caches:
            return "shared"
        kinds = [cache.kind for cache in self.caches]
        if "indexed" in kinds:
            return "indexed"
        return "+".join(dict.fromkeys(kinds)) or "none"

    @property
    def window(self) -> int | None:
        return next((cache.window for cache in self.caches if cache.window is not None), None)

    def with_kv_heads(self, kv_heads: int) -> Layer:
        """The same layer with another number of KV heads; latent and state caches have none to change."""
        return replace(
            self,
            caches=tuple(replace(c, kv_heads=kv_heads) if isinstance(c, Full) else c for c in self.caches),
        )
