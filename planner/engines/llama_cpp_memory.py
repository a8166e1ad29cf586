"""llama.cpp's memory, layer by layer: rows of keys and values, indexer keys, compressed entries and recurrent states."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.cache import CacheBytes, CachePart, LayerBytes
from planner.engines.llama_cpp_context import Asked, Context, window_cells
from planner.engines.llama_cpp_table import BlockType, Era, architectures, cache_types
from planner.layers import Compressed, Cross, Full, IndexKeys, Latent, Layer, LayerCache, State
from planner.texts import joined, tell
from planner.units import ceil_div, round_up


@dataclass(frozen=True)
class LlamaCppBytes(CacheBytes):
    """All that llama.cpp allocates at start, in bytes.

    k_bytes, v_bytes: the tensors of keys and of values, indexer and compressed pools included. state_bytes: everything
    recurrent or constant. n_ctx: cells of all streams; `tokens` is what one of the `requests` sequences has of them.
    """

    k_bytes: int = 0
    v_bytes: int = 0
    state_bytes: int = 0
    n_ctx: int = 0
    n_stream: int = 1
    n_ubatch: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything that decides a layer's bytes besides its own shape."""

    asked: Asked
    context: Context
    era: Era
    arch: str
    k_type: BlockType
    v_type: BlockType
    copies: int  # states kept for each sequence: 1 + n_rs_seq
    v_widest: int  # elements of the widest value row of any layer
    v_head: int  # width of one head's value
    pads_empty: bool  # layers without KV heads still get a row of values, as wide as the widest
    key_only: bool


@dataclass(frozen=True)
class _Piece:
    """One tensor pair or state of a layer: cells of all streams, and bytes by kind."""

    kind: str
    cells: int
    window: int | None
    k: int
    v: int
    state: int
    cache: LayerCache


def allocate(layers: tuple[Layer, ...], plan: Plan, warnings: tuple[str, ...]) -> LlamaCppBytes:
    """Bytes of each layer: row(K) x cells x streams + row(V) x cells x streams + states.

    row(n) = n / block x block bytes, the row being all KV heads of one position side by side.

    Source: src/llama-kv-cache.cpp 156-234 and 1914-1932 at 0c1e57098.
    """
    found, k_bytes, v_bytes, state_bytes = [], 0, 0, 0
    known: dict[tuple[LayerCache, ...], tuple[_Piece, ...]] = {}
    for index, layer in enumerate(layers):
        if layer.caches not in known:
            known[layer.caches] = tuple(piece for cache in layer.caches for piece in _pieces(cache, plan))
        pieces = known[layer.caches]
        if plan.pads_empty and not layer.caches and layer.shares is None:
            cells = plan.context.cells * plan.context.streams
            pieces = (_Piece("none", cells, None, 0, plan.v_type.row(plan.v_widest) * cells, 0, Full(0, 0, 0)),)
        k_bytes += sum(piece.k for piece in pieces)
        v_bytes += sum(piece.v for piece in pieces)
        state_bytes += sum(piece.state for piece in pieces)
        found.append(LayerBytes(index, layer.kind, tuple(_part(piece) for piece in pieces)))
    if plan.era.state_as_kv and not k_bytes:  # the log of that time says K for the convolutions and V for the states
        k_bytes, v_bytes, state_bytes = *_states_as_kv(layers, plan), 0
    context = plan.context
    return LlamaCppBytes(
        tuple(found), context.n_ctx_seq, context.n_seq_max, 0, warnings, rule_of(plan), k_bytes=k_bytes, v_bytes=v_bytes,
        state_bytes=state_bytes, n_ctx=context.n_ctx, n_stream=context.streams, n_ubatch=context.n_ubatch,
    )  # fmt: skip


def rule_of(plan: Plan) -> str:
    """How the cells come about, in words."""
    context, types = plan.context, (plan.k_type, plan.v_type)
    code = "rule.llama.one" if context.n_seq_max == 1 else "rule.llama.together"
    if context.streams > 1 or (plan.key_only and context.n_seq_max > 1):
        code = "rule.llama.each"
    values = {} if code == "rule.llama.one" else {"sequences": context.n_seq_max}
    blocks = [kind for kind in dict.fromkeys(types) if kind.quantized]
    stored = [tell("rule.llama.type", type=kind.name, bytes=kind.bytes, elements=kind.block) for kind in blocks]
    return joined([tell(code, cells=context.cells, **values), *stored])


def _part(piece: _Piece) -> CachePart:
    cache, size = piece.cache, piece.k + piece.v + piece.state
    if isinstance(cache, Full):
        return CachePart(piece.kind, piece.cells, piece.window, cache.k_dim, cache.v_dim, cache.kv_heads, size, size)
    return CachePart(piece.kind, piece.cells, piece.window, None, None, None, size, size)


def _pieces(cache: LayerCache, plan: Plan) -> tuple[_Piece, ...]:
    if isinstance(cache, Cross):
        return ()  # keys and values of the encoder are computed again at each step, from its output that is kept
    if isinstance(cache, State):
        convolution, recurrent = state_elements(cache)
        size = (convolution + recurrent) * 4 * plan.context.n_seq_max * plan.copies
        return (_Piece("state", 0, None, 0, 0, size, cache),)
    if isinstance(cache, IndexKeys):
        return (_index(cache, plan),) if plan.era.index else ()
    if isinstance(cache, Compressed):
        return _compressed(cache, plan)
    cells, window = _cells(cache, plan)
    streams = _streams(plan)
    k_type, v_type = plan.k_type, plan.v_type
    if window is not None and "type" in plan.era.swa:
        k_type = v_type = cache_types()[plan.era.swa["type"]]
    k, v = row_elements(cache, plan.era)
    if plan.key_only:
        v = 0
    elif v and plan.era.v_padded and not plan.asked.flash_attn:
        v = plan.v_widest  # values lie transposed without flash attention, all rows as wide as the widest layer's
    return (
        _Piece(cache.kind, cells * streams, window, k_type.row(k) * cells * streams, v_type.row(v) * cells * streams, 0, cache),
    )  # fmt: skip


def _streams(plan: Plan) -> int:
    return plan.context.n_seq_max if plan.key_only else plan.context.streams


def _cells(cache: LayerCache, plan: Plan) -> tuple[int, int | None]:
    """Cells of each stream, and the window if it is one that llama.cpp uses."""
    if cache.window is None or not plan.era.slides(plan.arch):
        return plan.context.cells, None
    context = plan.context
    if plan.key_only:  # each sequence has a window of its own, unified or not
        context = replace(context, unified=False)
    return window_cells(cache.window, context, plan.era, plan.asked), cache.window


def row_elements(cache: LayerCache, era: Era) -> tuple[int, int]:
    """Elements of one position's row of keys and of values.

    full and sliding: kv_heads x width. latent: kv_lora_rank + rope keys and no values since January 2026; the latent once
    more as values from April 2025; all heads, expanded, before.
    """
    if isinstance(cache, Full):
        return cache.kv_heads * cache.k_dim, cache.kv_heads * cache.v_dim
    if not isinstance(cache, Latent):
        return 0, 0
    if era.latent == "expanded" and cache.expanded:
        heads, key, value = cache.expanded
        return heads * key, heads * value
    return cache.kv_lora_rank + cache.qk_rope_head_dim, 0 if era.latent == "key_only" else cache.kv_lora_rank


def _index(cache: IndexKeys, plan: Plan) -> _Piece:
    """One head of indexer keys for every cell, in the type of the keys; one architecture adds a head of unused values."""
    cells = plan.context.cells * plan.context.streams
    values = plan.v_head if architectures().has("index_with_values", plan.arch) else 0
    return _Piece("indexed", cells, None, plan.k_type.row(cache.width) * cells, plan.v_type.row(values) * cells, 0, cache)


def _compressed(cache: Compressed, plan: Plan) -> tuple[_Piece, ...]:
    """DeepSeek-V4: the raw window, pad(ceil(cells / rate), 256) compressed keys, index keys beside them for rate 4, and the
    compressors' float32 state: two tensors of rows x width a sequence.

    Source: src/llama-kv-cache-dsv4.cpp 893-1331 at 0c1e57098.
    """
    sequences = plan.context.n_seq_max
    cells, window = _cells(cache, plan)
    raw = plan.k_type.row(cache.head_dim) * cells * sequences
    compressed = round_up(max(1, ceil_div(plan.context.cells, cache.rate)), 256) * sequences
    rows = architectures().facts["compress"][cache.rate]
    keys = plan.k_type.row(cache.head_dim) * compressed
    state = rows * cache.head_dim
    if cache.index_dim is not None:
        keys += plan.k_type.row(cache.index_dim) * compressed
        state = rows * 2 * (cache.head_dim + cache.index_dim)
    return (
        _Piece("sliding", cells * sequences, window, raw, 0, 0, cache),
        _Piece("compressed", compressed, None, keys, 0, 2 * state * 4 * sequences * plan.copies, cache),
    )


def state_elements(cache: State) -> tuple[int, int]:
    """Elements of the convolutions and of the recurrent states of one sequence, all float32.

    A convolution keeps kernel - 1 inputs, because the oldest is shifted out: channels x (kernel - 1). The history of
    per-layer embeddings is kept as it is.

    Source: n_embd_r and n_embd_s in src/llama-hparams.cpp 208-258 at 0c1e57098.
    """
    convolution = recurrent = 0
    for tensor in cache.states:
        if tensor.name == "convolution state":
            channels, kernel = tensor.shape
            convolution += channels * (kernel if cache.style == "per_layer_embedding" else kernel - 1)
        elif tensor.name == "shift":
            convolution += tensor.elements
        elif tensor.dtype != "int64":
            recurrent += tensor.elements
    return convolution, recurrent


def _states_as_kv(layers: tuple[Layer, ...], plan: Plan) -> tuple[int, int]:
    pairs = [state_elements(c) for layer in layers for c in layer.caches if isinstance(c, State)]
    times = 4 * plan.context.n_seq_max * plan.copies
    return sum(r for r, _ in pairs) * times, sum(s for _, s in pairs) * times
