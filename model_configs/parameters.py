"""Parameter counts and weight bytes of a model, from its config alone.

params = the sum over weight tensors of the product of their shape, tied embeddings once. What tensors there are is a
table (`parameters.yaml`); what each is stored in is the checkpoint's dtype and its `quantization_config`.
The language part of a known architecture is `computed` and exact; an architecture without a row is `estimated`, with
more of everything that its config leaves open, because a figure that is too low would promise memory that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from model_configs.parameters_table import CANNOT, Part, Scope, family
from model_configs.quantization import Storage, storage
from model_configs.towers import architecture, towers
from model_configs.words import Words
from planner.layers import Full, Layer
from planner.weights import Confidence, WeightItem, Weights

#: The items of a decoder in the order of the forward pass; each is a definition that names a block.
_ITEMS = {"embeddings": "embeddings", "encoder": "encoder", "layers": "layers", "lm_head": "lm_head"}
#: What formulas may ask of layer i as the family reader found it.
_OF_LAYER = {
    "cache": "kinds[i] if i < len(kinds) else 'full'",
    "cache_heads": "held[i][0]",
    "cache_width": "held[i][1]",
}
_SOURCE = "config.json and the tensors of the {model_type} class; stored as {label}"


def weights(words: Words, root: Mapping[str, Any], layers: tuple[Layer, ...]) -> Weights:
    """The weights of a model, item by item, each with its parameters, its bytes and how well they are known.

    words: the decoder's config. root: the whole config.json, which has the towers, the dtype and the quantisation.
    layers: the decoder's layers as the family reader found them, which say which layers attend and which recur.
    Never raises for a model that it does not know: that is an item marked `estimated` whose source says why.
    """
    stored = storage(root, words.given)
    known: Confidence = "computed" if stored.known else "estimated"
    source = _SOURCE.format(model_type=words.model_type, label=stored.label)
    try:
        scope = decoder_scope(words, root, layers)
        items, width = _items(scope, _ITEMS, stored, known, source), int(scope["h"])
    except CANNOT as reason:
        scope, items, width = None, *_estimate(words, root, layers, stored, reason)
    beside = (
        item(tower.name, tower.parts, stored, known if tower.known else "estimated", tower.source or source)
        for tower in towers(root, width)
    )
    extra: tuple[WeightItem, ...] = ()
    if scope is not None:
        try:
            extra = _items(scope, {"MTP layers": "mtp"}, stored, known, source)
        except CANNOT:
            extra = ()  # the config names such layers but not what they are made of; they are loaded on request only
    return Weights(items + tuple(found for found in beside if found), extra)


def decoder_scope(words: Words, root: Mapping[str, Any], layers: tuple[Layer, ...], row: str | None = None) -> Scope:
    """The names that a decoder's formulas use: its row's definitions, its words, and its layers' kinds of cache."""
    definitions = family("decoders", row or words.model_type)
    if definitions is None:
        raise KeyError(f"parameters.yaml has no row for {words.model_type}")
    local = {
        "kinds": [layer.kind for layer in layers],
        "held": [_held(layer, layers) for layer in layers],
        "tie_word_embeddings": _tied(words, root),
        "decoder_only": architecture(root).endswith("ForCausalLM") and bool(words.get("is_encoder_decoder")),
        "answers": _answers(architecture(root)),
        "classes": len(root["id2label"]) if isinstance(root.get("id2label"), Mapping) else root.get("num_labels") or 2,
    }
    return Scope(words, {**_OF_LAYER, **definitions}, local)


def _tied(words: Words, root: Mapping[str, Any]) -> Any:
    """Whether input and output embeddings are one matrix. Files say it outside or inside the decoder's part; where
    neither does, the class of the whole has a default."""
    if words.given is root:
        return words.get("tie_word_embeddings")
    inside = words.given.get("tie_word_embeddings")
    if "tie_word_embeddings" in root:
        row = family("composites", str(root.get("model_type"))) or {}
        return root["tie_word_embeddings"] or (inside and row.get("text_ties"))
    if inside is not None:
        return inside
    default = Words(str(root.get("model_type")), {}).get("tie_word_embeddings")
    return words.get("tie_word_embeddings") if default is None else default


def _answers(name: str) -> str:
    """What the file's class ends in: words, classes (reward models and rerankers) or nothing (embedding models)."""
    if name.endswith("ForSequenceClassification"):
        return "classes"
    has_head = ("LMHeadModel", "MTModel", "EncoderDecoderModel", "ChatGLMModel")
    return "nothing" if name.endswith("Model") and not name.endswith(has_head) else "words"


def _held(layer: Layer, layers: tuple[Layer, ...]) -> tuple[int | None, int | None]:
    """KV heads and key width of a layer's attention; of the layer whose cache it reads where it has none itself."""
    if not layer.caches and layer.shares is not None and layer.shares >= 0:
        layer = layers[layer.shares]
    return next(((cache.kv_heads, cache.k_dim) for cache in layer.caches if isinstance(cache, Full)), (None, None))


def item(name: str, parts: Iterable[Part], stored: Storage, known: Confidence, source: str) -> WeightItem | None:
    """The sum of some tensors, or None where there are none."""
    found = list(parts)
    params = sum(part.params for part in found)
    return WeightItem(name, params, sum(stored.bytes(part) for part in found), known, source) if params else None


def _items(
    scope: Scope, names: Mapping[str, str], stored: Storage, known: Confidence, source: str
) -> tuple[WeightItem, ...]:
    made = (
        item(name, scope.parts(scope[block], "lm_head." if name == "lm_head" else ""), stored, known, source)
        for name, block in names.items()
    )
    return tuple(found for found in made if found)


def _estimate(
    words: Words, root: Mapping[str, Any], layers: tuple[Layer, ...], stored: Storage, reason: Exception
) -> tuple[tuple[WeightItem, ...], int]:
    """A generic transformer of the config's size and its width, for an architecture that is not in the table."""
    why = f"estimate: {words.model_type} has no rule of its own ({reason}); a generic transformer of its size"
    try:
        scope = decoder_scope(words, root, layers, "unknown")
        return _items(scope, _ITEMS, stored, "estimated", why), int(scope["h"])
    except CANNOT as missing:
        why = f"the config of this model does not give its size: {missing}"
        return (WeightItem("layers", 0, 0, "estimated", why),), 0
