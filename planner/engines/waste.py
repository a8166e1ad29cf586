"""What paging costs and what it saves: bytes that no held position needs, and bytes that a shared prefix is counted once for.

Both are read off an engine's own answers: what it allocates, beside the positions that the requests really hold.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

from planner.cache import MAX_COUNT, CacheBytes, CachePart, architecture_bytes, check_count
from planner.engines import tgi, vllm
from planner.engines.base import Engine, allocated
from planner.engines.vllm_capacity import blocks_of
from planner.engines.vllm_setup import Setup, prepare
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.layers import Cross
from planner.model import Model
from planner.units import ceil_div

#: Kinds of part whose size no count of positions explains: taken as needed whole.
_FIXED = {"state", "mamba", "none", "padding", "compressed"}
_GROWING = {"full", "mla"}
#: Backends with which TGI keeps a prefix once.
_TGI_SHARING = ("flashinfer", "flashdecoding")
#: Longer than any window, so that what still grows there is kept in full.
_FAR = 1 << 24


@dataclass(frozen=True)
class Waste:
    """Where an engine's bytes go beyond what the held positions need, in whole bytes.

    block_bytes: the rest of each request's last block. reserved_bytes: positions set aside that are not held (a window's tokens
    in flight, a context allocated at start). padding_bytes: what groups narrower than the pool's block leave of it, and slots
    that serve no request. alignment_bytes: pages made as large as the largest page.
    """

    total_bytes: int
    block_bytes: int = 0
    reserved_bytes: int = 0
    padding_bytes: int = 0
    alignment_bytes: int = 0

    @property
    def lost_bytes(self) -> int:
        return self.block_bytes + self.reserved_bytes + self.padding_bytes + self.alignment_bytes

    @property
    def needed_bytes(self) -> int:
        """What the held positions and states need in the engine's own layout."""
        return self.total_bytes - self.lost_bytes


def waste(
    model: Model,
    engine: Engine,
    settings: Any,
    tokens: int,
    requests: int = 1,
    gpu: str | Gpu | None = None,
    encoder_tokens: int = 0,
) -> Waste:
    """The bytes of `requests` requests of `tokens` positions that hold nothing.

    lost of one cache = its bytes x (positions allocated - positions held) / positions allocated, rounded down
    block if it would grow once the spare positions are used, reserved if it was sized beforehand
    needed = total - block - reserved - padding - alignment = sum of held positions x bytes of one, and states

    Held: tokens, a window's W - 1, the encoder's positions. Compressed pools of other engines than vLLM count as held whole.
    gpu: as in vLLM's cache_bytes. Errors: those of the engine's cache_bytes.

    Source: the engine's own cache_bytes at `tokens` and beyond its last block; for vLLM's pages the specs that it sums.
    """
    cache = allocated(model, engine, settings, tokens, requests, gpu, encoder_tokens)
    bare = _unpadded(model, settings, tokens, requests, gpu, encoder_tokens) if engine.name == "vllm" else cache
    padding = _bytes_of(cache, "padding") + _idle_slots(model, engine, settings, tokens, requests)
    alignment = cache.total_bytes - _bytes_of(cache, "padding") - (bare.total_bytes - _bytes_of(bare, "padding"))
    far = min(tokens + _FAR, MAX_COUNT), min(encoder_tokens + _FAR, MAX_COUNT) if encoder_tokens else 0
    later = allocated(model, engine, settings, far[0], requests, gpu, far[1])
    held = _Held(model, engine, settings, tokens, encoder_tokens, far[0])
    times = requests if engine.name == "llama.cpp" else 1  # its positions are those of all sequences together
    block = reserved = 0
    for layer, grown in zip(bare.layers, later.layers, strict=False):
        for part, same in zip(layer.parts, grown.parts, strict=False):
            if part.kind in _FIXED or not part.positions:
                continue
            positions, bound = held.of(part, layer.index, same.positions // times)
            size = part.bytes * max(0, part.positions - positions * times) // part.positions
            # A cache that no longer grows was sized beforehand; transformers has no blocks, so its static cache was too.
            if bound or same.positions <= part.positions or engine.name == "transformers":
                reserved += size
            else:
                block += size
    return Waste(cache.total_bytes, block, reserved, padding, alignment)


@dataclass(frozen=True)
class _Held:
    """What one request of `tokens` positions really holds of each cache; `far` is a length beyond every window."""

    model: Model
    engine: Engine
    settings: Any
    tokens: int
    encoder_tokens: int
    far: int

    def of(self, part: CachePart, layer: int, at_far: int) -> tuple[int, bool]:
        """Positions held, and whether a window bounds them. at_far: what the cache is given at `far` tokens.

        An engine that still gives a window layer every position there keeps the layer in full.
        """
        if part.kind == "cross":
            return self.encoder_tokens, False
        crossing = self.engine.name == "sglang" and any(isinstance(c, Cross) for x in self.model.layers for c in x.caches)
        length = ceil_div(self.tokens + (self.encoder_tokens if crossing else 0), _context_ranks(self.settings))
        if part.window is None or at_far >= self.far:
            return length, False
        window = max(self._windows.get(layer, ()), default=part.window - 1)
        return min(length, window), length > window

    @functools.cached_property
    def _windows(self) -> dict[int, list[int]]:
        """Positions that the architecture keeps of each layer's windows."""
        plain = architecture_bytes(self.model, self.tokens, encoder_tokens=self.encoder_tokens)
        return {x.index: [p.positions for p in x.parts if p.window is not None] for x in plain.layers}


def _bytes_of(cache: CacheBytes, kind: str) -> int:
    return sum(part.bytes for layer in cache.layers for part in layer.parts if part.kind == kind)


def _unpadded(
    model: Model, settings: Any, tokens: int, requests: int, gpu: str | Gpu | None, encoder_tokens: int
) -> CacheBytes:
    """vLLM's cache with every page at its natural size."""
    setup = _vllm_setup(model, settings, gpu)
    groups = tuple(
        replace(group, members=tuple(replace(m, spec=replace(m.spec, padded=None)) for m in group.members))
        for group in setup.capacity.groups
    )
    bare = replace(setup, capacity=replace(setup.capacity, groups=groups))
    return vllm.setup_bytes(bare, tokens, requests, encoder_tokens)


def _vllm_setup(model: Model, settings: Any, gpu: str | Gpu | None) -> Setup:
    return prepare(model, settings or vllm.Settings(), gpu if isinstance(gpu, Gpu) else find_gpu(gpu or vllm.DEFAULT_GPU))


def _context_ranks(settings: Any) -> int:
    """Ranks that share the positions of one request."""
    return int(getattr(settings, "decode_context_parallel_size", getattr(settings, "dcp_size", 1)))


def _idle_slots(model: Model, engine: Engine, settings: Any, tokens: int, requests: int) -> int:
    """State slots that serve no request: SGLang's padding slot. What does not double when the requests do."""
    if engine.name != "sglang":
        return 0
    replicas = int(getattr(settings, "data_parallel_size", 1))
    share = ceil_div(requests, replicas) * replicas
    once, twice = (_bytes_of(engine.cache_bytes(model, settings, tokens, n * share), "state") for n in (1, 2))
    return 2 * once - twice


def shares_prefixes(model: Model, engine: Engine, settings: Any, gpu: str | Gpu | None = None) -> bool:
    """Whether the engine keeps the blocks of a common prefix once, with these settings.

    Source: vLLM enable_prefix_caching; SGLang's radix cache; TensorRT-LLM enable_block_reuse; TGI 2.3 and later where attention
    is flashinfer or flashdecoding, whose blocks are 1 and 256 tokens (launcher/src/main.rs).
    """
    if engine.name == "vllm":
        return _vllm_setup(model, settings, gpu).prefix_caching
    if engine.name == "sglang":
        return not settings.disable_radix_cache
    if engine.name == "tensorrt-llm":
        return bool(settings.enable_block_reuse)
    return engine.name == "tgi" and tgi.pool(model, settings).details["attention"] in _TGI_SHARING


def shared_prefix_saving(
    model: Model,
    engine: Engine,
    settings: Any,
    prefix_tokens: int,
    requests: int,
    gpu: str | Gpu | None = None,
) -> int:
    """Bytes saved when all requests begin with the same `prefix_tokens` tokens and whole blocks of them are kept once.

    saving = (requests - 1) x floor(prefix / B) x B x bytes of a position, over the caches that keep every position
    B = the least common multiple of those caches' blocks, because a prefix is found again at block borders only

    Window layers and states save nothing: a request that moves on has its own. 0 for an engine, or settings, without prefix
    caching. Errors: those of the engine's cache_bytes.

    Source: vLLM v1/core/kv_cache_utils.py (whole hashed blocks); SGLang mem_cache/radix_cache.py (whole pages).
    """
    prefix, requests = check_count(prefix_tokens, "prefix_tokens"), check_count(requests, "requests", 1)
    if not shares_prefixes(model, engine, settings, gpu):
        return 0
    block = shared_block(model, engine, settings, gpu)
    whole = prefix // block * block if block else 0
    if not whole:
        return 0
    if engine.name == "vllm":
        capacity = _vllm_setup(model, settings, gpu).capacity
        groups = [group for group in capacity.groups if group.spec.kind in _GROWING]
        blocks = sum(blocks_of(group.spec, whole, capacity.load, capacity.rules) for group in groups)
        return (requests - 1) * blocks * capacity.bytes_per_block
    all_of_them, one = (_growing_bytes(allocated(model, engine, settings, whole, count)) for count in (requests, 1))
    return all_of_them - one


def shared_block(model: Model, engine: Engine, settings: Any, gpu: str | Gpu | None = None) -> int:
    """Tokens of the blocks that a prefix is shared in; 0 where no cache keeps every position."""
    ranks = _context_ranks(settings)
    if engine.name == "vllm":
        sizes = {g.spec.block_size for g in _vllm_setup(model, settings, gpu).capacity.groups if g.spec.kind in _GROWING}
    else:
        cache = allocated(model, engine, settings, 1, 1)
        sizes = {part.positions for layer in cache.layers for part in layer.parts if _grows(part)}
    return math.lcm(*sizes) * ranks if sizes else 0


def _grows(part: CachePart) -> bool:
    return part.kind not in _FIXED | {"cross", "draft"} and part.window is None and part.positions > 0


def _growing_bytes(cache: CacheBytes) -> int:
    return sum(part.bytes for layer in cache.layers for part in layer.parts if _grows(part))
