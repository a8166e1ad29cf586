"""The shape of a decoder layer's weights as far as ranks care: what is divided, what every rank repeats, what experts hold.

Sizes are elements worked out from the config's words and the layer's caches. They say in which proportion a model's bytes
lie in its layers, and how much of a layer is not divided; the bytes themselves are always the model's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from planner.layers import Full, IndexKeys, Latent, Layer, State
from planner.model import Model

_FEED = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "ff_intermediate_size", "decoder_ffn_dim")
_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
_EXPERT_FEED = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size")
_SHARED_FEED = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
#: Norms of a layer at most, each as wide as the model.
_NORMS = 4


@dataclass(frozen=True)
class LayerShape:
    """Elements of one layer. dense: all but the experts. replicated: the part of dense that every rank holds whole.
    kv_elements: key and value projections of all kv_heads. absorbed: MLA up-projections that are kept a second time.
    known: False where the layer recurs, whose projections are shared out in more ways than the planner has rules for."""

    dense: int
    experts: int = 0
    expert_count: int = 0
    replicated: int = 0
    kv_heads: int = 0
    kv_elements: int = 0
    absorbed: int = 0
    rotated: int = 0
    known: bool = True

    def repeated_kv(self, ranks: int) -> Fraction:
        """Elements of key and value projections beyond an even share: whole heads where there are more ranks than heads."""
        if not self.kv_heads:
            return Fraction(0)
        return self.kv_elements * (max(Fraction(1), Fraction(self.kv_heads, ranks)) / self.kv_heads - Fraction(1, ranks))


def text_words(model: Model) -> Mapping[str, Any]:
    """The words of the decoder: the nested config that has layers, else the config itself."""
    root = model.config
    for name in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = root.get(name)
        if isinstance(inner, Mapping):
            deeper = inner.get("text_config")
            return deeper if isinstance(deeper, Mapping) else inner
    return root


def number(words: Mapping[str, Any], names: tuple[str, ...], default: int = 0) -> int:
    """The first of some words that is a number, the largest of a list of numbers."""
    for name in names:
        value = words.get(name)
        if isinstance(value, list):
            value = max((v for v in value if isinstance(v, int) and not isinstance(v, bool)), default=None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return default


def vocabulary(model: Model) -> int:
    """Rows of the head: the config's vocab_size, else what the embeddings' parameters are rows of; 0 where neither is known.

    A config may leave the size to its class (Gemma 3's do). Embeddings of more than one kind count as more rows, never fewer.
    """
    said = number(text_words(model), ("vocab_size", "padded_vocab_size")) or number(model.config, ("vocab_size",))
    if said or not model.weights or not model.hidden_size:
        return said
    held = {item.name: item.params for item in model.weights.items}
    return -(-(held.get("lm_head") or held.get("embeddings", 0)) // model.hidden_size)


def expert_words(words: Mapping[str, Any], hidden: int) -> tuple[int, int, int]:
    """How many experts there are, how many a token uses, and the width of the feed-forward: of one expert where there are any."""
    dense = number(words, _FEED, 4 * hidden)
    count = number(words, _EXPERTS)
    if not count:
        return 0, 0, dense
    active = number(words, ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k"), 1)
    return count, active, number(words, _EXPERT_FEED, dense)


def layer_shapes(model: Model, engine: str) -> tuple[LayerShape, ...]:
    """One shape a layer, as `engine` reads the model."""
    layers, words = model.layers_for(engine), text_words(model)
    return tuple(_shape(model, words, layer, index, layers) for index, layer in enumerate(layers))


def _shape(model: Model, words: Mapping[str, Any], layer: Layer, index: int, layers: tuple[Layer, ...]) -> LayerShape:
    hidden = model.hidden_size or number(words, ("hidden_size", "d_model", "n_embd"), 1)
    heads = model.attention_heads or number(words, ("num_attention_heads", "n_head"), 1)
    caches = layer.caches
    if not caches and layer.shares is not None and 0 <= layer.shares < len(layers):
        caches = layers[layer.shares].caches
    dense, replicated, kv_heads, kv_elements, absorbed, rotated, known = _NORMS * hidden, _NORMS * hidden, 0, 0, 0, 0, True
    for cache in caches:
        if isinstance(cache, Full):
            kv_heads, rotated = cache.kv_heads, max(rotated, cache.k_dim)
            kv_elements = hidden * cache.kv_heads * (cache.k_dim + cache.v_dim)
            dense += kv_elements + hidden * heads * (cache.k_dim + cache.v_dim)
        elif isinstance(cache, Latent):
            size, whole, absorbed = _latent(words, cache, hidden, heads)
            dense, replicated, rotated = dense + size, replicated + whole, cache.qk_rope_head_dim
        elif isinstance(cache, IndexKeys):
            extra = cache.width * (hidden + number(words, ("index_n_heads",), heads) * number(words, ("q_lora_rank",), hidden))
            dense, replicated = dense + extra, replicated + extra
        elif isinstance(cache, State):
            size, whole = _state(cache, hidden)
            dense, replicated, known = dense + size, replicated + whole, False
    feed, experts, count, router = _feed(words, index, hidden, layer)
    return LayerShape(
        dense + feed + router, experts, count, replicated + router, kv_heads, kv_elements, absorbed, rotated, known
    )


def _latent(words: Mapping[str, Any], cache: Latent, hidden: int, heads: int) -> tuple[int, int, int]:
    """Elements of an MLA layer, those that every rank holds (the down-projections), and those kept twice (kv_b)."""
    count, key, value = cache.expanded or (heads, cache.kv_lora_rank, cache.kv_lora_rank)
    nope = max(0, key - cache.qk_rope_head_dim)
    down = hidden * (cache.kv_lora_rank + cache.qk_rope_head_dim)
    rank = number(words, ("q_lora_rank",))
    query = rank * count * key if rank else hidden * count * key
    up = cache.kv_lora_rank * count * (nope + value)
    down += hidden * rank
    return down + query + up + count * value * hidden, down, up


def _state(cache: State, hidden: int) -> tuple[int, int]:
    """Elements of a recurrent layer's projections, and what ranks repeat of them: B and C of a Mamba 2 layer at most."""
    channels = sum(t.shape[0] for t in cache.states if t.name == "convolution state")
    matrix = next((t.shape for t in cache.states if t.name == "recurrent state"), None)
    inner = matrix[0] * matrix[-2 if cache.style.startswith("mamba") and len(matrix) > 2 else -1] if matrix else channels
    if matrix is not None and len(matrix) == 2:
        inner = matrix[0]
    whole = max(0, channels - inner) * hidden if cache.style == "mamba2" else 0
    return hidden * (max(channels, inner) + 2 * inner), whole


def _feed(words: Mapping[str, Any], index: int, hidden: int, layer: Layer) -> tuple[int, int, int, int]:
    """Elements of the feed-forward: dense ones (shared experts), experts, how many experts, and the router's."""
    dense = number(words, _FEED, 4 * hidden)
    pattern = words.get("hybrid_override_pattern")
    if isinstance(pattern, str) and index < len(pattern):
        if pattern[index] in "M*":
            return 0, 0, 0, 0
        if pattern[index] == "-":
            return 2 * hidden * dense, 0, 0, 0
    count = number(words, _EXPERTS)
    if not count or not _sparse(words, index):
        return 3 * hidden * number(words, ("intermediate_size_mlp",), dense), 0, 0, 0
    wide = number(words, _EXPERT_FEED, dense)
    shared = number(words, _SHARED_FEED) or wide * number(words, ("n_shared_experts", "num_shared_experts"))
    if words.get("model_type") == "llama4_text":
        shared = wide
    return 3 * hidden * shared, 3 * hidden * wide * count, count, count * hidden


def _sparse(words: Mapping[str, Any], index: int) -> bool:
    """Whether a layer of a model with experts has them."""
    if index < number(words, ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")):
        return False
    only = words.get("mlp_only_layers")
    if isinstance(only, list) and index in only:
        return False
    listed = words.get("moe_layers")
    if isinstance(listed, list) and listed and all(isinstance(i, int) for i in listed):
        return index in listed
    freq = words.get("moe_layer_freq")
    if isinstance(freq, list) and index < len(freq):
        return bool(freq[index])
    for name, offset in (("decoder_sparse_step", 1), ("interleave_moe_layer_step", 1)):
        step = number(words, (name,), 1)
        if step > 1:
            return (index + offset) % step == 0
    period = number(words, ("expert_layer_period",), 1)
    return period == 1 or index % period == int(words.get("expert_layer_offset") or 0)
