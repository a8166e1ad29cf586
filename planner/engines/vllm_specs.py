"""From a model's layers to the caches that one rank registers with vLLM: kind, bytes a token, window, state."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.engines.vllm_backends import Chooser
from planner.engines.vllm_dtypes import KvFormat
from planner.engines.vllm_facts import Facts
from planner.engines.vllm_settings import Settings
from planner.engines.vllm_tables import table
from planner.errors import EngineRefusal, UnsupportedArchitecture
from planner.layers import (
    Chunked,
    Compressed,
    Cross,
    Full,
    IndexKeys,
    Latent,
    LayerCache,
    ReferenceSliding,
    Sliding,
    State,
    Tensor,
)  # fmt: skip
from planner.units import round_up

_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Spec:
    """One cache of one layer on one rank, in blocks.

    page_bytes = floor(block_size / tokens_per_state) x token_bytes, unless `padded` says more; a state's page is its own
    size whatever the block. kind: full, sliding, chunked, mla, sliding_mla, mamba, cross. window: of sliding, or the chunk.
    storage: the stored format's name, because caches of different formats do not share a group.
    """

    kind: str
    block_size: int
    token_bytes: int
    storage: str
    window: int | None = None
    heads: int = 1
    widths: tuple[int, ...] = ()
    tokens_per_state: int = 1
    padded: int | None = None
    checkpoint: bool = False

    @property
    def natural_bytes(self) -> int:
        if self.kind == "mamba":
            return self.token_bytes
        return self.block_size // self.tokens_per_state * self.token_bytes

    @property
    def page_bytes(self) -> int:
        return self.natural_bytes if self.padded is None else self.padded

    @property
    def merges(self) -> Spec:
        """What must be equal for two caches to share a group: full caches may remember different windows."""
        return replace(self, window=None) if self.kind in ("full", "mla") else self


@dataclass(frozen=True)
class Placed:
    """A spec at its layer. Draft layers count on after the model's own."""

    layer: int
    spec: Spec


def kv_heads_per_rank(kv_heads: int, tensor_parallel_size: int) -> int:
    """max(1, kv_heads // TP): once there are more ranks than KV heads, every rank keeps a copy of one.

    Source: vLLM 0.33.0, config/model.py.
    """
    return max(1, kv_heads // tensor_parallel_size)


class SpecBuilder:
    """Builds the specs of one rank under a block size that is still the backends' common one."""

    def __init__(self, facts: Facts, settings: Settings, chooser: Chooser, speculative_tokens: int) -> None:
        self.facts, self.settings, self.chooser = facts, settings, chooser
        self.tp = settings.tensor_parallel_size
        self.speculative = speculative_tokens

    def attention(self, cache: Full, block_size: int, kv: KvFormat) -> Spec:
        """Keys and values of one layer; the kind says what a request keeps of them."""
        heads = kv_heads_per_rank(cache.kv_heads, self.tp)
        kind = "full"
        if isinstance(cache, Cross):
            kind = "cross"
        elif isinstance(cache, Chunked):
            kind = "chunked"
        elif isinstance(cache, Sliding) and not isinstance(cache, ReferenceSliding):
            kind = "sliding"
        per_head = kv.head_token_bytes(cache.k_dim, cache.v_dim)
        window = cache.window if kind in ("sliding", "chunked") else None
        return Spec(kind, block_size, heads * per_head, kv.name, window, heads, (cache.k_dim, cache.v_dim))

    def latent(self, cache: Latent, block_size: int) -> Spec:
        """One compressed vector a token, the same on every tensor-parallel rank."""
        kv = self.chooser.backend(cache).kv
        width = cache.kv_lora_rank + cache.qk_rope_head_dim
        if cache.window is not None:
            raise self._unknown("latent attention with a window")
        return Spec("mla", block_size, kv.latent_token_bytes(width), kv.name, None, 1, (width,))

    def index(self, cache: IndexKeys, block_size: int) -> Spec:
        """Index keys, whatever the KV format: MiniMax-M3 in the model's dtype; DeepSeek's in one byte an element and a float32
        scale for every 128 (132 bytes for 128)."""
        if self.facts.traits.get("block") == "MINIMAX_M3_SPARSE":
            return Spec("mla", block_size, cache.width * _BYTES[self.facts.dtype], "index", None, 1, (cache.width,))
        if not self.facts.latent:
            raise self._unknown("index keys beside ordinary attention")
        return Spec("mla", block_size, cache.width + cache.width // 128 * 4, "index", None, 1, (cache.width,))

    def state(self, cache: State, block_size: int) -> Spec:
        """A recurrent state of one request on one rank; its page does not depend on the block size.

        bytes = channels / TP x (kernel - 1 + s) x conv dtype + matrix / TP x state dtype, with s speculative tokens.
        """
        row = table("models")["states"].get(cache.style)
        if row is None:
            raise self._unknown(f"{cache.style} states")
        conv_bytes, state_bytes = self._state_dtypes()
        total = 0
        shapes = []
        for tensor in cache.states:
            if tensor.name == "convolution state":
                channels = self._conv_channels(cache, tensor)
                columns = tensor.shape[-1] - 1 + (self.speculative if row["speculative"] else 0)
                total += channels * columns * conv_bytes
                shapes += [channels, columns]
            else:
                first = self._share(tensor.shape[0], f"{cache.style} heads")
                total += first * math.prod(tensor.shape[1:]) * state_bytes
                shapes += [first, *tensor.shape[1:]]
        return Spec("mamba", block_size, total, cache.style, None, 1, tuple(shapes), checkpoint=self._checkpoint(row))

    def _state_dtypes(self) -> tuple[int, int]:
        """Bytes of an element of convolutions and of recurrent matrices."""
        settings, facts = self.settings, self.facts
        conv = facts.dtype if settings.mamba_cache_dtype == "auto" else settings.mamba_cache_dtype
        if settings.mamba_ssm_cache_dtype != "auto":
            return _BYTES[conv], _BYTES[settings.mamba_ssm_cache_dtype]
        rule = facts.traits.get("state_dtype")
        found = (rule or {}).get("default", conv)
        if rule and rule.get("word"):
            found = facts.text.get(rule["word"]) or facts.model.config.get(rule["word"]) or found
        if found not in _BYTES:
            found = "float32"
        return _BYTES[conv], _BYTES[found]

    def _conv_channels(self, cache: State, tensor: Tensor) -> int:
        """Channels on one rank. Mamba 2 keeps a copy of a single group on every rank; other group counts must divide."""
        channels, tp = tensor.shape[0], self.tp
        if cache.style != "mamba2":
            return self._share(channels, f"{cache.style} channels")
        heads, head_dim, size = next(t.shape for t in cache.states if t.name == "recurrent state")
        inner = heads * head_dim
        groups = (channels - inner) // (2 * size)
        if groups % tp and groups != 1:
            raise EngineRefusal(
                f"vLLM cannot spread {groups} Mamba 2 groups over tensor_parallel_size {tp}: the groups must divide, or be 1",
                engine="vllm", tensor_parallel_size=tp,
            )  # fmt: skip
        groups = groups if groups % tp == 0 else groups + tp - groups
        return (self._share(inner, "Mamba 2 heads") * tp + 2 * groups * size) // tp

    def _share(self, count: int, what: str) -> int:
        if count % self.tp:
            raise EngineRefusal(
                f"vLLM cannot spread {count} {what} over tensor_parallel_size {self.tp}: it does not divide",
                engine="vllm", tensor_parallel_size=self.tp,
            )  # fmt: skip
        return count // self.tp

    def _checkpoint(self, row: dict[str, str]) -> bool:
        """Whether the layer writes a prefill checkpoint, which takes one more block a request."""
        platform, facts = self.chooser.platform, self.facts
        if facts.traits.get("kda_checkpoint"):
            return bool(platform.traits.get("fa4"))
        if row["checkpoint"] == "flashinfer":
            return gdn_flashinfer(self.chooser, facts)
        return row["checkpoint"] == "always"

    def _unknown(self, what: str) -> UnsupportedArchitecture:
        return UnsupportedArchitecture(
            f"the planner does not know how vLLM keeps {what} ({self.facts.model.model_type})",
            model_type=self.facts.model.model_type,
        )


def gdn_flashinfer(chooser: Chooser, facts: Facts) -> bool:
    """Whether gated delta nets prefill with FlashInfer: on Hopper always, on Blackwell with keys of 128 (and CUDA 13)."""
    rule = chooser.platform.traits.get("gdn_flashinfer", False)
    if rule is True or rule is False:
        return bool(rule)
    return bool(facts.text.get("linear_key_head_dim", 128) == rule)


def deepseek_v4(cache: LayerCache, kv_bytes: int = 584, alignment: int = 576) -> tuple[Spec, ...]:
    """The caches of one DeepSeek-V4 layer, pages rounded up to 576 bytes.

    A window of packed keys (584 bytes a token, blocks of 64); with compression rate r also one packed state for r tokens
    (blocks of 256); rate 4 adds index keys (132 bytes a state) and float32 compressor states of 4 x head_dim and 4 x
    index_dim (blocks of 4, window 8), rate 128 one of 2 x head_dim (blocks of 8, window 128).

    Source: vLLM 0.33.0, models/deepseek_v4; the truth rows list every spec.
    """

    def padded(spec: Spec) -> Spec:
        return replace(spec, padded=round_up(spec.natural_bytes, alignment))

    assert isinstance(cache, Compressed | Sliding)
    window = Spec("sliding_mla", 64, kv_bytes, "fp8_ds_mla", cache.window, 1, (512,))
    found = [window]
    if isinstance(cache, Compressed):
        found.append(Spec("mla", 256, kv_bytes, "fp8_ds_mla", None, 1, (512,), cache.rate))
        if cache.index_dim is not None:
            index = cache.index_dim
            found.append(Spec("mla", 256, index + index // 128 * 4, "index", None, 1, (index,), cache.rate))
            for width in (cache.head_dim, index):
                found.append(Spec("sliding_mla", 4, 4 * width * 4, "float32", 2 * cache.rate, 1, (4 * width,)))
        else:
            found.append(Spec("sliding_mla", 8, 2 * cache.head_dim * 4, "float32", cache.rate, 1, (2 * cache.head_dim,)))
    return tuple(padded(spec) for spec in found)
