"""From a GGUF file's metadata to the tuple of layers, as llama.cpp reads it: GGUF is its format.

Widths of layer l: K row = key_length x head_count_kv[l], V row = value_length x head_count_kv[l], with the *_swa lengths on
layers that slide; the defaults are embedding_length / head_count, and head_count for head_count_kv.

Source: llama.cpp 0c1e57098, src/llama-hparams.cpp and load_hparams in src/llama-model.cpp; which words an architecture
reads is gguf_families.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model_configs.gguf_words import GgufFamily, GgufWords
from planner.errors import ConfigError
from planner.layers import Chunked, Full, IndexKeys, Latent, Layer, LayerCache, Sliding, State, Tensor


@dataclass
class Hparams:
    """What llama.cpp holds of a model: one entry a layer in the lists, appended draft layers included."""

    words: GgufWords
    depth: int
    nextn: int
    heads: list[int]
    kv_heads: list[int]
    ff: list[int]
    k_dim: int
    v_dim: int
    k_dim_swa: int
    v_dim_swa: int
    latent: bool
    window: int | None
    slides: list[bool]
    chunked: bool
    recurrent: list[bool]

    @property
    def trunk(self) -> int:
        """Layers of the model itself, without the drafts at the end."""
        return self.depth - self.nextn


def hparams(family: GgufFamily, words: GgufWords) -> Hparams:
    """The dimensions of a file. ConfigError when the metadata contradicts itself or leaves out what is needed."""
    depth = words.depth
    nextn = words.number("nextn_predict_layers", 0)
    if words.arch == "deepseek4" and words.tensors is not None:  # a file without the draft's tensors has no draft
        nextn = nextn if f"blk.{depth - nextn}.nextn.eh_proj.weight" in words.tensors else 0
    if nextn > depth:
        raise ConfigError(f"{words.key('nextn_predict_layers')} is {nextn} of {depth} layers", field="nextn_predict_layers")
    heads = words.per_layer("attention.head_count", [0] * depth)
    kv_heads = words.per_layer("attention.head_count_kv", heads)
    width = words.number("embedding_length", minimum=1) // heads[0] if heads[0] else 0
    # A model without attention heads has no widths, except for the architecture that reads the words again afterwards.
    reads = heads[0] > 0 or words.arch == "plamo2"
    k_dim = words.number("attention.key_length", width) if reads else 0
    v_dim = words.number("attention.value_length", width) if reads else 0
    if family.v_latent:
        v_dim = words.number("attention.kv_lora_rank", minimum=1)
    latent = family.mla and words.number("attention.key_length_mla", 0) > 0 and words.number("attention.value_length_mla", 0) > 0
    found = Hparams(
        words, depth, nextn, heads, kv_heads, words.per_layer("feed_forward_length", [0] * depth), k_dim, v_dim,
        words.number("attention.key_length_swa", k_dim), words.number("attention.value_length_swa", v_dim),
        latent, None, [False] * depth, False, [False] * depth,
    )  # fmt: skip
    found.recurrent = _recurrent(family.recurrent, found)
    if family.window is not None:
        _slide(family.window, found)
    return found


def _recurrent(rule: Any, h: Hparams) -> list[bool]:
    if rule is None:
        return [False] * h.depth
    if rule in ("all", "both"):
        return [True] * h.depth
    if rule == "no_kv_heads":
        # Draft layers are attention whatever their head count, except where the row's filter says otherwise.
        return [count == 0 and i < h.trunk for i, count in enumerate(h.kv_heads)]
    if rule == "no_kv_heads_no_ff":
        return [i < h.trunk and h.kv_heads[i] == 0 and h.ff[i] == 0 for i in range(h.depth)]
    every = h.words.number("full_attention_interval", rule["every"], minimum=1)
    default = [int(i < h.trunk and (i + 1) % every != 0) for i in range(h.depth)]
    return [bool(flag) for flag in h.words.per_layer("attention.recurrent_layers", default)]


def _slide(rule: Mapping[str, Any], h: Hparams) -> None:
    """Set the window and the layers that have it, as the architecture's rule and the file say."""
    words, when = h.words, rule["when"]
    given = words.get("attention.sliding_window")
    found = words.number("attention.sliding_window", 0)
    if (when == "key" and found == 0) or (when == "unless_zero" and given is not None and found == 0):
        return
    if isinstance(when, Mapping) and h.trunk != when["layers"]:
        return
    if given is None and "default" not in rule and "size" not in rule:
        raise ConfigError(f"{words.key('attention.sliding_window')} is missing; this architecture always slides",
                          field=words.key("attention.sliding_window"))  # fmt: skip
    h.window = rule.get("size", found if given is not None else rule.get("default"))
    h.chunked = rule.get("kind") == "chunked"
    h.slides = _slides(rule, h)


def _slides(rule: Mapping[str, Any], h: Hparams) -> list[bool]:
    words, which = h.words, rule.get("flags")
    if which == "all":
        return [True] * h.depth
    if which == "attention":
        return [i < h.trunk and not h.recurrent[i] for i in range(h.depth)]
    flags = words.flags("attention.sliding_window_pattern")
    if flags is not None:
        return flags
    if which == "required":
        raise ConfigError(f"{words.key('attention.sliding_window_pattern')} must flag each layer of this architecture",
                          field=words.key("attention.sliding_window_pattern"))  # fmt: skip
    every = words.number("attention.sliding_window_pattern", rule["every"])
    at = 0 if rule.get("first") else every - 1
    return [i < h.trunk and (every == 0 or i % every != at) for i in range(h.depth)]


def attention(h: Hparams, i: int) -> list[LayerCache]:
    """The keys and values of layer i; none where it has no KV heads."""
    kv_heads, slides = h.kv_heads[i], h.slides[i]
    k_dim, v_dim = (h.k_dim_swa, h.v_dim_swa) if slides else (h.k_dim, h.v_dim)
    if kv_heads * k_dim == 0:
        return []
    window = h.window if slides else None
    if h.latent:
        words, row = h.words, kv_heads * k_dim
        rank = words.number("attention.kv_lora_rank_swa" if slides else "attention.kv_lora_rank", v_dim) or v_dim
        rank = min(rank, row)
        expanded = h.heads[i], words.number("attention.key_length_mla"), words.number("attention.value_length_mla")
        return [Latent(rank, row - rank, expanded, window=window)]
    if window is None:
        return [Full(kv_heads, k_dim, v_dim)]
    return [(Chunked if h.chunked else Sliding)(kv_heads, k_dim, v_dim, window=window)]


def index_keys(family: GgufFamily, h: Hparams) -> list[IndexKeys | None]:
    """The indexer keys of each layer: one head of indexer.key_length; three where an architecture pools them (kpool)."""
    words = h.words
    width = words.number("attention.indexer.key_length", 0) if family.index else 0
    if width == 0 or (family.index_when and not words.number(family.index_when, 0)):
        return [None] * h.depth
    pooled = family.index_pooled and words.number("attention.indexer.kpool", 0) > 0
    keys = IndexKeys(width * (3 if pooled else 1))
    owners = [not h.recurrent[i] for i in range(h.depth)]
    if family.index == "types":
        full = words.per_layer("attention.indexer.types", [1] * h.trunk, h.trunk)
        owners = [owns and bool((full + [0] * h.nextn)[i]) for i, owns in enumerate(owners)]
    if family.index == "after_dense":
        dense = words.number("leading_dense_block_count", 0)
        owners = [i >= dense for i in range(h.depth)]
    elif family.nextn != "unfiltered":
        owners = [owns and i < h.trunk for i, owns in enumerate(owners)]
    return [keys if owns else None for owns in owners]


def state_of(style: str, h: Hparams) -> State:
    """The state of a recurrent layer, its convolutions with the whole kernel as transformers keeps them."""
    words = h.words
    hidden = words.number("embedding_length", minimum=1)
    if style == "rwkv":
        size = words.number("wkv.head_size", minimum=1)
        shift = words.number("token_shift_count", 2)
        return State(style, (Tensor("shift", (shift, hidden)), Tensor("recurrent state", (hidden, size), "float32")))
    if style == "short_conv":
        return State(style, (Tensor("convolution state", (hidden, words.number("shortconv.l_cache", minimum=1))),))
    if style == "minimax":
        return State(style, (Tensor("recurrent state", (h.heads[0], h.k_dim, h.k_dim), "float32"),))
    if style == "kimi_delta":
        size = words.number("kda.head_dim", minimum=1)
        kernel = words.number("ssm.conv_kernel") or 4  # llama.cpp takes 4 for a file that says 0
        conv = Tensor("convolution state", (3 * h.heads[0] * size, kernel))
        return State(style, (conv, Tensor("recurrent state", (h.heads[0], size, size), "float32")))
    inner, size = words.number("ssm.inner_size", minimum=1), words.number("ssm.state_size", minimum=1)
    groups = 0 if style == "mamba1" else words.number("ssm.group_count")
    conv = Tensor("convolution state", (inner + 2 * groups * size, words.number("ssm.conv_kernel", minimum=1)))
    if style == "mamba1":
        return State(style, (conv, Tensor("recurrent state", (inner, size), "float32")))
    heads = words.number("ssm.time_step_rank", 1)  # heads of the state, whose number does not change its size
    heads = heads if heads and inner % heads == 0 else 1
    shape = (heads, inner // heads, size) if style == "mamba2" else (heads, size, inner // heads)
    return State(style, (conv, Tensor("recurrent state", shape, "float32")))


def build(family: GgufFamily, h: Hparams) -> tuple[Layer, ...]:
    """All layers, appended drafts included."""
    if family.cache == "none":
        return (Layer(),) * h.depth
    state = state_of(family.state, h) if family.state and any(h.recurrent) else None
    index = index_keys(family, h)
    border = _border(family, h)
    layers = []
    for i in range(h.depth):
        caches: list[LayerCache] = []
        if _attends(family, h, i) and i < border:
            caches += attention(h, i)
        if caches and (keys := index[i]):
            caches.append(keys)
        if state and h.recurrent[i] and i < h.trunk:
            caches.append(state)
        layers.append(Layer(tuple(caches), None if i < border else -1))
    return tuple(layers)


def contexts(family: GgufFamily, h: Hparams, layers: tuple[Layer, ...]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """The layers in the main cache, and those in the draft (MTP) context's, by llama.cpp's own filters; none without drafts."""
    if not h.nextn:
        return layers, ()
    trunk = layers[: h.trunk]
    if family.nextn == "unfiltered":
        return layers, layers
    if family.nextn == "apart":
        return trunk, trunk
    # An indexed hybrid's draft has an indexer too; other indexed models' drafts attend to everything.
    owned = index_keys(family, h) if family.state else []
    index = next(((keys,) for keys in owned if keys), ())
    draft = [Layer()] * h.trunk + [Layer((*attention(h, i), *index)) for i in range(h.trunk, h.depth)]
    return layers if family.nextn == "counted" or family.finish == "deepseek4" else trunk, tuple(draft)


def _attends(family: GgufFamily, h: Hparams, i: int) -> bool:
    if family.recurrent == "both":
        return True
    if family.recurrent == "no_kv_heads_no_ff":
        return not h.recurrent[i] and h.ff[i] == 0
    return not h.recurrent[i]


def _border(family: GgufFamily, h: Hparams) -> int:
    """The first layer that reuses an earlier one's cache: all before it have their own."""
    if "from" in family.shared:
        return int(family.shared["from"])
    shared = h.words.number(family.shared["tail"], 0) if "tail" in family.shared else 0
    if shared > h.depth:
        raise ConfigError(f"{h.words.key(family.shared['tail'])} is {shared} of {h.depth} layers", field=family.shared["tail"])
    return h.depth - shared
