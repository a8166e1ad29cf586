"""From a family's row and a config's words to the tuple of layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from model_configs import views
from model_configs.families import Family, table
from model_configs.schedules import layer_words, pick, window_of, word_of
from model_configs.special import FINISH, check_depth
from model_configs.states import STYLES_OF_ATTENTION, Sizes, state_of
from model_configs.words import Words, whole
from planner.errors import ConfigError, UnsupportedArchitecture, shown
from planner.layers import (
    Chunked,
    Compressed,
    Cross,
    Full,
    IndexKeys,
    Latent,
    Layer,
    LayerCache,
    ReferenceSliding,
    Sliding,
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """Head counts and widths of one layer's attention."""

    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int
    hidden: int


def _per_layer(words: Words, depth: int) -> dict[int, Any]:
    """per_layer_config by layer number; its keys are strings, padded with zeros."""
    overrides = words.get("per_layer_config")
    overrides = {} if overrides is None else overrides
    if not isinstance(overrides, Mapping) or not all(str(i).isdigit() and int(i) < depth for i in overrides):
        raise ConfigError(f"per_layer_config must map layers 0 to {depth - 1} to words", field="per_layer_config")
    return {int(i): values for i, values in overrides.items()}


def _kv_heads(spec: Any, words: Words, heads: int) -> int:
    if spec == "heads":
        return heads
    times = 1
    if isinstance(spec, Mapping):
        if "one_if" in spec:
            all_heads = bool(spec.get("all_if")) and words.flag(spec["all_if"])
            return heads if all_heads or not words.flag(spec["one_if"]) else 1
        times = spec.get("x", 1)
        if "if" in spec and not words.flag(spec["if"]):
            return _kv_heads(("num_key_value_heads",), words, heads)
        spec = spec["words"]
    value = pick(words, spec)
    return heads * times if value is None else whole(value, word_of(spec), words.model_type) * times


def by_word(family: Family, words: Words, word: str) -> Mapping[str, Any]:
    """What differs on layers of this word; a file with a per_layer_config has already spelled it out."""
    return {} if words.get("per_layer_config") else family.by_word.get(word, {})


def shape_of(family: Family, words: Words, word: str) -> Shape:
    """Head counts and widths on a layer of this word. ConfigError when the config does not determine them."""
    special = by_word(family, words, word)
    heads = whole(pick(words, special.get("heads", family.heads)), word_of(family.heads), words.model_type)
    kv_heads = _kv_heads(special.get("kv_heads", family.kv_heads), words, heads)
    if heads % kv_heads:
        raise ConfigError(
            f"{kv_heads} KV heads cannot be shared out among {heads} query heads in this {words.model_type} config",
            field=word_of(special.get("kv_heads", family.kv_heads)),
        )
    spec = special.get("head_dim", family.head_dim)
    width = None if spec == "derived" else pick(words, spec)
    hidden = pick(words, family.hidden)
    if width is None:
        hidden = whole(hidden, word_of(family.hidden), words.model_type)
        # Rounded down where it does not divide, as the model classes do.
        width = hidden * family.hidden_x // heads
    width = whole(width, word_of(spec), words.model_type)
    v_dim = pick(words, family.v_head_dim) if family.v_head_dim else None
    v_dim = width if v_dim is None else whole(v_dim, word_of(family.v_head_dim), words.model_type)
    return Shape(heads, kv_heads, width, v_dim, hidden if isinstance(hidden, int) else 0)


class Builder:
    """Builds the layers of one decoder; `cross` adds the encoder's keys and values to every layer."""

    def __init__(self, family: Family, words: Words, cross: bool = False) -> None:
        self.family, self.words = family, words
        self.cross = family.cross or cross
        self.window = window_of(family, words)
        self.vocabulary = {**table().vocabulary, **family.layers}

    def build(self) -> tuple[Layer, ...]:
        family, words = self.family, self.words
        kinds = layer_words(family, words, self._depth(), self.window)
        per_layer = _per_layer(words, len(kinds))
        if not kinds:
            raise ConfigError(f"the config names no layers under {family.lists[0]}", field=family.lists[0])
        owners = self._index_owners(len(kinds))
        layers = tuple(
            self._layer(word, words.at(per_layer[i]) if per_layer.get(i) else words, owners[i])
            for i, word in enumerate(kinds)
        )
        layers = self._share_tail(layers, kinds)
        return FINISH[family.finish](words, layers) if family.finish else layers

    def _depth(self) -> int | None:
        spec = self.family.depth
        if spec == "list":
            return None
        names, times = (spec["words"], spec["x"]) if isinstance(spec, Mapping) else (spec, 1)
        return check_depth(self.words.number(*names) * times, names[0])

    def _layer(self, word: str, words: Words, owns_index: bool) -> Layer:
        kind = self.vocabulary.get(word)
        if kind is None:
            raise UnsupportedArchitecture(
                f"{words.model_type} has layers of a kind that the planner does not know: {shown(word)} in {self._list_word()}",
                model_type=words.model_type, keys=[self._list_word(), word[:100]],
            )  # fmt: skip
        if kind == "none":
            return Layer()
        caches: list[LayerCache] = []
        for part in kind.split("+"):
            caches += self._caches(part, word, words, owns_index)
        if self.cross:
            caches.append(self._cross(words, word))
        return Layer(tuple(caches))

    def _list_word(self) -> str:
        return str(self.family.schedule.get("cycle_word") or word_of(self.family.lists, self.words))

    def _caches(self, kind: str, word: str, words: Words, owns_index: bool) -> list[LayerCache]:
        family = self.family
        if kind == "compressed":
            rate = 4 if word == "compressed_sparse_attention" else 128
            return [Compressed(words.number("head_dim"), rate, window=words.number("sliding_window"))]
        if kind == "state":
            if family.state is None:
                raise UnsupportedArchitecture(
                    f"{words.model_type} has {word!r} layers, whose state its family does not describe",
                    model_type=words.model_type, keys=[word],
                )  # fmt: skip
            hidden = self.words.number(*family.hidden)
            sized = family.state["style"] in STYLES_OF_ATTENTION
            shape = shape_of(family, words, word) if sized else Shape(0, 0, 0, 0, hidden)
            return [state_of(Sizes(words, family.state, hidden, shape.heads, shape.kv_heads, shape.k_dim))]
        if kind == "indexed":
            base = self._attention("full", word, words)
            return [base, self._index(words)] if owns_index else [base]
        return [self._attention(kind, word, words)]

    def _attention(self, kind: str, word: str, words: Words) -> LayerCache:
        family = self.family
        if family.latent and (words.get("use_mla") is None or words.flag("use_mla")):
            return self._latent(kind, word, words)
        shape = shape_of(family, words, word)
        if kind == "full":
            return Full(shape.kv_heads, shape.k_dim, shape.v_dim)
        window = words.number("attention_chunk_size") if kind == "chunked" else window_of(family, words)
        if window is None:
            raise ConfigError(
                f"the config has {word} layers but no window; it needs {word_of(family.window)}", field=word_of(family.window)
            )
        window_kind = {"sliding": Sliding, "chunked": Chunked, "reference_sliding": ReferenceSliding}[kind]
        return window_kind(shape.kv_heads, shape.k_dim, shape.v_dim, window=window)

    def _latent(self, kind: str, word: str, words: Words) -> Latent:
        special = by_word(self.family, words, word)
        rank = pick(words, special.get("kv_lora_rank"))
        rank = words.number("kv_lora_rank") if rank is None else whole(rank, word_of(special["kv_lora_rank"]), words.model_type)
        rope = words.number("qk_rope_head_dim", minimum=0)
        if special.get("rope") == "swa":
            rope = words.number("swa_head_dim", default=256) - words.number("swa_qk_nope_head_dim", default=192)
            rope = whole(rope, "swa_head_dim - swa_qk_nope_head_dim", words.model_type, 0)
        expanded = None
        if words.get("num_attention_heads") is not None and words.get("qk_nope_head_dim") is not None:
            nope = words.number("qk_nope_head_dim", minimum=0)
            expanded = (words.number("num_attention_heads"), nope + rope, words.number("v_head_dim", minimum=0, default=nope))
        return Latent(rank, rope, expanded, window=self.window if kind == "sliding" else None)

    def _index(self, words: Words) -> IndexKeys:
        spec = self.family.index or {}
        width = whole(pick(words, spec.get("width")), word_of(spec.get("width")), words.model_type)
        return IndexKeys(
            width * spec.get("x", 1) + spec.get("plus", 0), spec.get("dtype", "model"), spec.get("position_ids", 0)
        )

    def _index_owners(self, depth: int) -> list[bool]:
        """Which layers own an indexer; the others choose positions with the last one that does."""
        rule = (self.family.index or {}).get("owners")
        if rule is None:
            return [True] * depth
        word, types = "indexer_types", self.words.numbers("indexer_types")
        if types is None and self.words.get("index_topk_pattern") is not None:
            word = "index_topk_pattern"
            types = [{"F": "full", "S": "shared"}.get(letter) for letter in str(self.words.get(word))]
        if types is not None:
            if len(types) < depth or not all(kind in ("full", "shared") for kind in types):
                raise ConfigError(f"{word} must say full or shared for each of {depth} layers", field=word)
            return [kind == "full" for kind in types[:depth]]
        if rule == "every_fourth_from_one":
            return [i == 0 or (i - 1) % 4 == 0 for i in range(depth)]
        offset = self.words.number("index_skip_topk_offset", minimum=0, default=2)
        every = self.words.number("index_topk_freq", default=1)
        return [max(i - offset + 1, 0) % every == 0 for i in range(depth)]

    def _cross(self, words: Words, word: str) -> Cross:
        shape = shape_of(self.family, words, word)
        if isinstance(self.cross, Mapping):
            width = words.number(*self.cross["head_dim"])
            return Cross(words.number(*self.cross["kv_heads"]), width, width)
        return Cross(shape.kv_heads, shape.k_dim, shape.v_dim)

    def _share_tail(self, layers: tuple[Layer, ...], kinds: list[str]) -> tuple[Layer, ...]:
        """The last layers reuse the cache of the last earlier layer of their own word (Gemma 3n, Gemma 4)."""
        if self.family.shared_tail is None:
            return layers
        shared = self.words.number(self.family.shared_tail, minimum=0, default=0)
        border = len(layers) - shared
        if border < 0:
            raise ConfigError(f"{self.family.shared_tail} is {shared} for {len(layers)} layers", field=self.family.shared_tail)

        def source(i: int) -> int:
            owners = [j for j in range(border) if kinds[j] == kinds[i]]
            if not owners:
                raise ConfigError(
                    f"{self.family.shared_tail} is {shared}, which leaves no {kinds[i]} layer with a cache for layer {i} to read",
                    field=self.family.shared_tail,
                )
            return owners[-1]

        return tuple(layer if i < border else Layer(shares=source(i)) for i, layer in enumerate(layers))


def engine_views(family: Family, words: Words, layers: tuple[Layer, ...]) -> dict[str, tuple[Layer, ...]]:
    """Layers as an engine reads them where it differs, by the first of its rules that applies: `row` reads the config by
    other fields of the row; see views.py for the rest. `flag`, `given`, `absent`: only if a flag is set, or the file has or
    lacks a word.
    """
    found: dict[str, tuple[Layer, ...]] = {}
    for engine, rules in family.engines.items():
        for rule in rules if isinstance(rules, list | tuple) else (rules,):
            if not _applies(rule, words) or not views.applies(rule, layers):
                continue
            read = layers
            if "row" in rule:
                fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in rule["row"].items()}
                read = Builder(replace(family, **fields), words).build()
            found[engine] = views.adapt(read, rule, words)
            if drafts := views.draft(read, rule, words):
                found[f"{engine} mtp"] = drafts
            break
    return found


def _applies(rule: Mapping[str, Any], words: Words) -> bool:
    return (
        words.model_type in rule.get("types", [words.model_type])
        and ("flag" not in rule or words.flag(rule["flag"]))
        and ("given" not in rule or words.given.get(rule["given"]) is not None)
        and ("absent" not in rule or words.given.get(rule["absent"]) is None)
    )
