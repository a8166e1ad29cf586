"""FLOPs and bytes of reading a prompt and of writing one token, layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from planner.cache import architecture_bytes
from planner.engines.costs import owned
from planner.latency_efficiency import Range, factor
from planner.latency_experts import Active, active, config_words
from planner.latency_pairs import Blocks, Capped, Chunks, Constant, Reads
from planner.layers import Chunked, Compressed, Cross, Full, Hidden, IndexKeys, Latent, Layer, LayerCache, ReferenceSliding, State
from planner.model import Model
from planner.units import ceil_div


@dataclass(frozen=True)
class Term:
    """Attention or recurrence of `layers` like layers: FLOPs = flops x positions read, in prefill and when decoding.

    decode_flops differs for latent attention: prefill expands the latent to heads, decoding reads it as it lies.
    """

    kind: str
    layers: int
    reads: Reads
    prefill_flops: Range
    decode_flops: Range


@dataclass(frozen=True)
class Work:
    """What a model does for its tokens; everything counted over the whole model, before it is split over GPUs.

    Source: a matrix of N parameters takes 2 N FLOPs a token; attention 2 x heads x (key width + value width) FLOPs for each
    position read (one product with the key, one with the value). Kaplan et al., arXiv 2001.08361, section 2.1.
    """

    model: Model
    active: Active
    terms: tuple[Term, ...]

    def prefill_flops(self, tokens: int) -> Range:
        """FLOPs of one prompt: 2 x active parameters x tokens + attention over the positions that each token reads.

        The output head is computed for the last token alone.
        """
        return self._sum(tokens, 1, [(term.prefill_flops, term.layers * term.reads.total(tokens)) for term in self.terms])

    def decode_flops(self, first: int, steps: int) -> Range:
        """FLOPs of `steps` tokens written one at a time, the first of them at position first + 1."""
        return self._sum(
            steps, steps, [(term.decode_flops, term.layers * term.reads.between(first, first + steps)) for term in self.terms]
        )

    def recomputed_flops(self, prompt: int, steps: int) -> Range:
        """FLOPs of `steps` tokens without a cache: a whole prefill of prompt, prompt + 1, ... tokens, one for each."""
        last = prompt + steps - 1
        passes = [
            (term.prefill_flops, term.layers * (term.reads.totals(last) - term.reads.totals(prompt - 1))) for term in self.terms
        ]
        return self._sum(recomputed_tokens(prompt, steps), steps, passes)

    def _sum(self, tokens: int, heads: int, parts: list[tuple[Range, int]]) -> Range:
        head = -2 * self.active.head * (tokens - heads)
        total = self.active.params * (2 * tokens) + Range(head, head)
        for flops, reads in parts:
            total = total + flops * reads
        return total

    def read_bytes(self, tokens: int, requests: int, kv_cache_dtype: str | None, encoder_tokens: int, ranks: int) -> Range:
        """Cache bytes that one decoding step reads on one of `ranks` GPUs, from exact bytes of the layers.

        high: all that is held at `tokens` positions. low: sparse attention reads the latents that its index chose.
        A layer's share is ceil(kv_heads / ranks) / kv_heads; a latent cache is whole on every GPU, a state is shared out.
        """
        held = architecture_bytes(self.model, tokens, requests, kv_cache_dtype=kv_cache_dtype, encoder_tokens=encoder_tokens)
        best = sparse_positions(self.model)
        sizes: list[Range] = []
        for layer, described in zip(held.layers, self.model.layers, strict=True):
            if described.shares is not None and not described.caches:  # it reads the cache of another layer once more
                source = described.shares if 0 <= described.shares < len(sizes) else len(sizes) - 1
                sizes.append(sizes[source] if sizes else Range(0, 0))
                continue
            low = high = 0.0
            for part, cache in zip(layer.parts, described.caches, strict=True):
                size = part.bytes * _share(cache, ranks)
                chosen = best is not None and isinstance(cache, Latent | Full) and _is_sparse(described)
                low += size * min(1.0, best / part.positions) if chosen and best and part.positions else size
                high += size
            sizes.append(Range(low, high))
        return Range(sum(size.low for size in sizes), sum(size.high for size in sizes))


def recomputed_tokens(prompt: int, steps: int) -> int:
    """Tokens projected without a cache: prompt + (prompt + 1) + ... = steps x prompt + steps (steps - 1) / 2."""
    return steps * prompt + steps * (steps - 1) // 2


def _share(cache: LayerCache, ranks: int) -> float:
    if isinstance(cache, Full):
        return ceil_div(cache.kv_heads, min(ranks, cache.kv_heads)) / cache.kv_heads if cache.kv_heads else 1.0
    return 1 / ranks if isinstance(cache, State) else 1.0


def sparse_positions(model: Model) -> int | None:
    """Positions that sparse attention reads at most, by the config's `index_topk`; None where attention is not sparse."""
    words = config_words(model)
    found = words.get("index_topk") or words.get("sparse_topk")
    return found if isinstance(found, int) and found > 0 else None


def _is_sparse(layer: Layer) -> bool:
    return any(isinstance(cache, IndexKeys | Latent) for cache in layer.caches)


def work(model: Model, encoder_tokens: int = 0) -> Work:
    """The work of `model`. Errors: InputError for a model without weights."""
    # A layer that reads another's cache attends all the same.
    same = Counter(layer.caches for layer in owned(model, "transformers"))
    terms = [
        Term(term.kind, count, term.reads, term.prefill_flops, term.decode_flops)
        for caches, count in same.items()
        for term in _terms(model, Layer(caches), encoder_tokens)
    ]
    return Work(model, active(model), tuple(terms))


def _terms(model: Model, layer: Layer, encoder_tokens: int) -> Iterator[Term]:
    best = sparse_positions(model) if _is_sparse(layer) else None
    for cache in layer.caches:
        if isinstance(cache, State):
            yield _state(cache)
        elif isinstance(cache, IndexKeys):
            flops = 2 * _index_heads(model) * cache.width
            yield _term(cache, Capped(), flops)
        elif isinstance(cache, Compressed):
            yield from _compressed(model, cache)
        elif isinstance(cache, Latent):
            yield _latent(model, cache, best)
        elif isinstance(cache, Cross):
            yield _term(cache, Constant(encoder_tokens), 2 * _heads(model, cache.kv_heads) * (cache.k_dim + cache.v_dim))
        elif isinstance(cache, Full):
            yield _term(cache, _reads(cache, best), 2 * _heads(model, cache.kv_heads) * (cache.k_dim + cache.v_dim))
        elif isinstance(cache, Hidden):
            yield _term(cache, Capped(), 4 * cache.width)


def _term(cache: LayerCache, reads: Reads, flops: int) -> Term:
    return Term(cache.kind, 1, reads, Range(flops, flops), Range(flops, flops))


def _heads(model: Model, kv_heads: int) -> int:
    return max(model.attention_heads, kv_heads)


def _index_heads(model: Model) -> int:
    found = config_words(model).get("index_n_heads")
    return found if isinstance(found, int) else 1


def _reads(cache: Full, best: int | None) -> Reads:
    if isinstance(cache, Chunked):
        return Chunks(cache.window)
    if isinstance(cache, ReferenceSliding) or cache.window is None:
        return Capped(best)
    return Capped(cache.window)


def _latent(model: Model, cache: Latent, best: int | None) -> Term:
    """Prefill attends with heads expanded from the latent; decoding with the latent itself, whose widths are larger.

    decode = 2 x heads x (2 x kv_lora_rank + rope width): scores over latent and rope keys, values over the latent.
    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.3 (weights of keys and values absorbed into those of queries and output).
    """
    heads = _heads(model, cache.expanded[0] if cache.expanded else 1)
    absorbed = 2 * heads * (2 * cache.kv_lora_rank + cache.qk_rope_head_dim)
    expanded = 2 * heads * (cache.expanded[1] + cache.expanded[2]) if cache.expanded else absorbed
    cap = min((each for each in (cache.window, best) if each is not None), default=None)
    return Term("latent", 1, Capped(cap), Range(min(expanded, absorbed), max(expanded, absorbed)), Range(absorbed, absorbed))


def _compressed(model: Model, cache: Compressed) -> Iterator[Term]:
    flops = 2 * _heads(model, 1) * 2 * cache.head_dim
    yield _term(cache, Capped(cache.window), flops)
    if cache.index_dim is None:
        yield _term(cache, Blocks(cache.rate), flops)
    else:
        yield _term(cache, Blocks(cache.rate, sparse_positions(model)), flops)
        yield _term(cache, Blocks(cache.rate), 2 * _index_heads(model) * cache.index_dim)


def _state(cache: State) -> Term:
    """A recurrence: state_flops for each element of its matrix, 2 for each element of its convolution, at every token."""
    convolution = sum(tensor.elements for tensor in cache.states if tensor.name == "convolution state")
    matrix = sum(tensor.elements for tensor in cache.states if tensor.dtype != "int64") - convolution
    per = factor("state_flops")
    flops = Range(2 * convolution + per.low * matrix, 2 * convolution + per.high * matrix)
    return Term("state", 1, Constant(1), flops, flops)
