"""The linear layers of a model that an adapter may sit on: what goes in and out of each, and how ranks share it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from planner.errors import InputError, shown
from planner.layers import Full, IndexKeys, Latent, Layer, LayerCache, State
from planner.model import Model
from planner.sharding_layers import LayerShape, expert_words, layer_shapes, number, text_words, vocabulary
from planner.units import ceil_div

#: Projections that engines keep as one layer, so that an adapter on one of them takes room for all.
PACKED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("q_a_proj", "kv_a_proj_with_mqa"))
#: Projections of a feed-forward.
FEED = ("gate_proj", "up_proj", "down_proj")
#: What engines and checkpoints call the same layers.
_SYNONYMS = {
    **dict.fromkeys(("qkv_proj", "query_key_value", "c_attn", "Wqkv", "W_pack", "wqkv", "attn_qkv"), PACKED[0]),
    **dict.fromkeys(("gate_up_proj", "fc1", "dense_h_to_4h", "c_fc", "up_proj"), PACKED[1]),
    **dict.fromkeys(("dense", "wo", "attn_dense"), ("o_proj",)),
    **dict.fromkeys(("fc2", "dense_4h_to_h", "mlp_4h_to_h"), ("down_proj",)),
    "fused_qkv_a_proj_with_mqa": PACKED[2], "attn_q": ("q_proj",), "attn_k": ("k_proj",), "attn_v": ("v_proj",),
    "mlp_h_to_4h": ("gate_proj",), "mlp_gate": ("up_proj",), "in_proj_qkvz": ("in_proj",), "in_proj_ba": ("in_proj",),
    "word_embeddings": ("embed_tokens",), "output": ("lm_head",),
}  # fmt: skip
#: Words for every linear layer.
_ALL = ("all", "all-linear")
#: Models whose attention also projects a gate as wide as the queries.
_GATED_QUERIES = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
#: Parts of a recurrence's input at most: queries, keys, values and gate, and one each for two kinds of step.
_STATE_SLICES = 6
#: Parts that its convolution runs over, which engines wrap as linear layers too: x, B and C, or queries, keys and values.
_CONVOLVED = 3
#: The least share of the layers' parameters that the known projections hold, in models that are no toys.
_LEAST_HELD, _SMALL = 0.97, 10**8
_SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "num_shared_expert")
_SHARED_FEED = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")


@dataclass(frozen=True)
class Linear:
    """A layer y = W x with W [outputs, inputs]; an adapter of rank r adds A [r, inputs] and B [outputs, r].

    cut: what ranks divide of W: its outputs ("column"), its inputs ("row") or nothing ("whole"). heads: KV heads that the
    outputs are, of which no rank has less than one. experts: how many such layers there are beside each other, 0 where it is no
    expert. fused: its A is that of the layer before it where an engine keeps experts as one tensor. slices: parts of the outputs
    for which an engine keeps an A each.
    """

    name: str
    inputs: int
    outputs: int
    cut: Literal["column", "row", "whole"]
    heads: int = 0
    experts: int = 0
    fused: bool = False
    slices: int = 1

    def elements(self, rank: int) -> int:
        """Parameters of one adapter: experts x rank x (inputs + outputs)."""
        return max(1, self.experts) * rank * (self.inputs + self.outputs)

    def local(self, ranks: int) -> tuple[int, int]:
        """Inputs and outputs of one of `ranks` ranks."""
        if self.cut == "whole":
            return self.inputs, self.outputs
        if self.cut == "row":
            return ceil_div(self.inputs, ranks), self.outputs
        if self.heads:
            return self.inputs, self.outputs // self.heads * max(1, ceil_div(self.heads, ranks))
        return self.inputs, ceil_div(self.outputs, ranks)


@dataclass(frozen=True)
class LinearLayers:
    """The linear layers of each decoder layer, and the embeddings'. known: False where they are estimated: of recurrent layers,
    and where they do not add up to the layers' parameters."""

    layers: tuple[tuple[Linear, ...], ...]
    embedding: Linear
    head: Linear
    known: bool

    @property
    def has_experts(self) -> bool:
        return any(one.experts for layer in self.layers for one in layer)

    def chosen(self, modules: Iterable[str] | None, *, packed: bool = True) -> LinearLayers:
        """Only the layers of these modules, by any of their names; all linear ones for None, "all" and "all-linear".

        packed: with the layers that an engine keeps as one with them.

        Errors: InputError for a module that the model does not have.
        """
        names = self._names(modules, packed)
        if names is None:
            return self
        kept = tuple(tuple(one for one in layer if one.name in names) for layer in self.layers)
        return replace(self, layers=kept)

    def _names(self, modules: Iterable[str] | None, packed: bool) -> set[str] | None:
        if modules is None or any(module in _ALL for module in modules):
            return None
        own = {one.name for layer in self.layers for one in layer} | {"embed_tokens", "lm_head", "experts"}
        own |= set(FEED) if self.has_experts else set()  # what adapters call the experts' own projections
        found: set[str] = set()
        for module in modules:
            short = module.rpartition(".")[2]
            names = {short} if short in own else {name for name in _SYNONYMS.get(short, ()) if name in own}
            if not names:
                there = sorted(own if self.has_experts else own - {"experts"})
                raise InputError(
                    f"{shown(module)} is no module of this model; it has {', '.join(there)}", field="lora_target_modules"
                )
            found |= names
        for group in PACKED if packed else ():
            found |= set(group) & own if found & set(group) else set()
        return found


def linear_layers(model: Model, engine: str) -> LinearLayers:
    """Every linear layer of `model` as `engine` reads it, layer by layer, in the names of Llama's checkpoint.

    Errors: InputError for layers whose projections are not known, or hold less than the layers' parameters.
    """
    words, layers, shapes = text_words(model), model.layers_for(engine), layer_shapes(model, engine)
    hidden = model.hidden_size or number(words, ("hidden_size", "d_model", "n_embd"), 1)
    attention = [_attention(model, words, layer, layers, hidden) for layer in layers]
    gated = _gated(model, attention, shapes, hidden)
    found = tuple(
        (*parts, *_feed(words, index, hidden, shape, gated))
        for index, (parts, shape) in enumerate(zip(attention, shapes, strict=True))
    )
    rows, whole = vocabulary(model), _checked(model, found)
    return LinearLayers(
        found, Linear("embed_tokens", rows, hidden, "whole"), Linear("lm_head", hidden, rows, "column"),
        whole and all(shape.known for shape in shapes),
    )  # fmt: skip


def _checked(model: Model, found: tuple[tuple[Linear, ...], ...]) -> bool:
    """Whether the projections hold the parameters of the layers, to the hundredth that norms and biases may be; InputError where
    they hold clearly less, so that some are not known."""
    held = {item.name: item.params for item in model.weights.items}.get("layers", 0) if model.weights else 0
    ours = sum(one.inputs * one.outputs * max(1, one.experts) for layer in found for one in layer)
    if held > _SMALL and ours < _LEAST_HELD * held:
        raise InputError(
            f"some linear layers of {model.name} are not known, only those with {ours / held:.0%} of its layers' parameters; give"
            " the size of its adapters", field="given",
        )  # fmt: skip
    return held > 0 and 0.985 <= ours / held <= 1.01


def _attention(
    model: Model, words: Mapping[str, Any], layer: Layer, layers: tuple[Layer, ...], hidden: int
) -> tuple[Linear, ...]:
    caches = layer.caches
    if not caches and layer.shares is not None and 0 <= layer.shares < len(layers):
        caches = layers[layer.shares].caches
    heads = model.attention_heads or number(words, ("num_attention_heads", "n_head"), 1)
    return tuple(one for cache in caches for one in _of(cache, model, words, hidden, heads))


def _of(cache: LayerCache, model: Model, words: Mapping[str, Any], hidden: int, heads: int) -> tuple[Linear, ...]:
    if isinstance(cache, Full):
        gates = 2 if model.model_type in _GATED_QUERIES else 1
        return (
            Linear("q_proj", hidden, gates * heads * cache.k_dim, "column"),
            Linear("k_proj", hidden, cache.kv_heads * cache.k_dim, "column", cache.kv_heads),
            Linear("v_proj", hidden, cache.kv_heads * cache.v_dim, "column", cache.kv_heads),
            Linear("o_proj", heads * cache.v_dim, hidden, "row"),
        )
    if isinstance(cache, Latent):
        return _latent(cache, words, hidden, heads)
    if isinstance(cache, IndexKeys):
        count = number(words, ("index_n_heads",), heads)
        wide = number(words, ("q_lora_rank",), hidden)
        return (Linear("wq_b", wide, count * cache.width, "whole"), Linear("wk", hidden, cache.width, "whole"),
                Linear("weights_proj", hidden, count, "whole"))  # fmt: skip
    if isinstance(cache, State):
        return _state(cache, hidden)
    raise InputError(
        f"the linear layers of {model.name}'s {cache.kind} attention are not known; give the size of its adapters", field="given"
    )


def _latent(cache: Latent, words: Mapping[str, Any], hidden: int, heads: int) -> tuple[Linear, ...]:
    """MLA: queries through their own down-projection where there is one, keys and values through the latent."""
    count, key, value = cache.expanded or (heads, cache.kv_lora_rank, cache.kv_lora_rank)
    rank = number(words, ("q_lora_rank",))
    queries = (
        (Linear("q_a_proj", hidden, rank, "whole"), Linear("q_b_proj", rank, count * key, "column"))
        if rank else (Linear("q_proj", hidden, count * key, "column"),)
    )  # fmt: skip
    up = count * (max(0, key - cache.qk_rope_head_dim) + value)
    return (
        *queries, Linear("kv_a_proj_with_mqa", hidden, cache.kv_lora_rank + cache.qk_rope_head_dim, "whole"),
        Linear("kv_b_proj", cache.kv_lora_rank, up, "column"), Linear("o_proj", count * value, hidden, "row"),
    )  # fmt: skip


def _state(cache: State, hidden: int) -> tuple[Linear, ...]:
    """A recurrence's projections, at their larger reading: channels, gate and one step for each head in; the rest out."""
    channels = sum(t.shape[0] for t in cache.states if t.name == "convolution state")
    matrix = next((t.shape for t in cache.states if t.name == "recurrent state"), ())
    inner = min(channels or hidden, matrix[0] * matrix[1]) if len(matrix) > 1 else channels or hidden
    steps = 2 * matrix[0] if matrix else hidden
    into = Linear("in_proj", hidden, channels + inner + steps, "column", slices=_STATE_SLICES)
    kernel = next((t.shape[1] for t in cache.states if t.name == "convolution state"), 0)
    convolution = (Linear("conv1d", kernel, channels, "column", slices=_CONVOLVED),) if kernel else ()
    return (into, *convolution, Linear("out_proj", inner, hidden, "row"))


def _gated(model: Model, attention: list[tuple[Linear, ...]], shapes: tuple[LayerShape, ...], hidden: int) -> bool:
    """Whether a feed-forward has a gate, three matrices and not two: whichever comes nearer to the layers' parameters."""
    held = {item.name: item.params for item in model.weights.items}.get("layers") if model.weights else None
    if held is None or any(shape.expert_count for shape in shapes):
        return True
    feed = number(text_words(model), ("intermediate_size_mlp",), expert_words(text_words(model), hidden)[2])
    rest = held - sum(one.inputs * one.outputs for layer in attention for one in layer)
    matrix = hidden * feed * len(shapes)
    return abs(rest - 3 * matrix) <= abs(rest - 2 * matrix)


def _feed(words: Mapping[str, Any], index: int, hidden: int, shape: LayerShape, gated: bool) -> tuple[Linear, ...]:
    pattern = words.get("hybrid_override_pattern")
    kind = pattern[index] if isinstance(pattern, str) and index < len(pattern) else ""
    if kind and kind in "M*":
        return ()
    count, _, wide = expert_words(words, hidden)
    if not shape.expert_count:
        dense = number(words, ("intermediate_size_mlp",), expert_words({**words, **_dense(words)}, hidden)[2])
        return _mlp(hidden, dense, gated and kind != "-")
    shared = number(words, _SHARED_FEED) or wide * number(words, _SHARED_EXPERTS)
    if words.get("model_type") == "llama4_text":
        shared = wide
    beside = _mlp(hidden, shared, True) if shared else ()
    experts = tuple(replace(one, name="experts", experts=shape.expert_count, fused=one.name == "up_proj")
                    for one in _mlp(hidden, wide, True))  # fmt: skip
    return (Linear("gate", hidden, count, "whole"), *beside, *experts)


def _dense(words: Mapping[str, Any]) -> dict[str, int]:
    """The same words without experts, for the width of a dense layer."""
    return dict.fromkeys((w for w in words if "experts" in w), 0)


def _mlp(hidden: int, feed: int, gated: bool) -> tuple[Linear, ...]:
    gate = (Linear("gate_proj", hidden, feed, "column"),) if gated else ()
    return (*gate, Linear("up_proj", hidden, feed, "column"), Linear("down_proj", feed, hidden, "row"))
