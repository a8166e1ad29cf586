"""From a config's content to a described model: layers, dtype, context limit, weights, and what transformers does with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model_configs import parameters
from model_configs.build import Builder, engine_views
from model_configs.decoder import canonical_type, check_words, decoder, section
from model_configs.families import Family, table
from model_configs.media_rules import media_of
from model_configs.schedules import pick
from model_configs.special import check_depth
from model_configs.words import Words
from planner.errors import ConfigError, UnsupportedArchitecture, shown
from planner.layers import Full, Layer
from planner.model import Media, Model, Source
from planner.texts import tell
from planner.units import ceil_div
from planner.weights import Weights

_DTYPES = {
    "float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "float64": "float64", "double": "float64",
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "half": "float16", "float": "float32",
}  # fmt: skip
_CONTEXT_WORDS = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "max_target_positions", "seq_length",
    "model_max_length", "max_context_length", "max_position_embedding",
)  # fmt: skip


def _dtype(config: Mapping[str, Any], words: Words) -> tuple[str, str | None]:
    for part in (config, words.given):
        for key in ("dtype", "torch_dtype"):
            value = part.get(key)
            if value is None or value == "auto":
                continue
            name = value.removeprefix("torch.") if isinstance(value, str) else ""
            if name in _DTYPES:
                return _DTYPES[name], None
            if name.startswith("float8"):
                return "bfloat16", tell("model.float8", dtype=name)
            raise ConfigError(f"{key} is {shown(value)}; it must be float32, float16 or bfloat16", field=key, value=value)
    return "bfloat16", tell("model.no_dtype")


def _first_word(value: Any) -> str | None:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None


def _context(words: Words) -> int | None:
    found = [words.get(key) for key in _CONTEXT_WORDS]
    whole = [value for value in found if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12]
    return whole[0] if whole else None


def describe(config: Mapping[str, Any], source: Source, assume_plain_attention: bool = False) -> Model:
    """The model that a config's content describes.

    assume_plain_attention: an unknown architecture is taken as plain full attention from the sizes that the config names;
    `Model.assumption` then says so. Errors: UnsupportedArchitecture, ConfigError.
    """
    if not all(isinstance(key, str) for key in config):
        raise ConfigError("a config's keys must be words", field="config")
    assumption = None
    cross, family = False, None
    try:
        words = decoder(config)
        family = table().by_type[words.model_type]
        composite = table().composites.get(canonical_type(config.get("model_type")) or "")
        cross = bool(composite and composite.cross)
        layers = Builder(family, words, cross).build()
        check_words(family, words)
        views = engine_views(family, words, layers)
    except UnsupportedArchitecture as error:
        if not assume_plain_attention:
            raise
        words, layers, views = _plain(config)
        assumption = tell("model.assumed", reason=error.message)
    dtype, note = _dtype(config, words)
    heads = pick(words, family.heads if family else "num_attention_heads")
    hidden = pick(words, family.hidden if family else "hidden_size")
    notes = [text for text in (note, _no_cache_note(family)) if text]
    return Model(
        name=source.name,
        model_type=str(config.get("model_type")),
        layers=layers,
        source=source,
        dtype=dtype,
        max_context=_context(words),
        hidden_size=hidden if isinstance(hidden, int) else 0,
        attention_heads=heads if isinstance(heads, int) else 0,
        architecture=_first_word(config.get("architectures")),
        weights=_weights(words, config, layers),
        engine_layers=views,
        cache_rules=_cache_rules(family, words) if family else {},
        config=config,
        assumption=assumption,
        notes=tuple(notes),
        media=_media(config),
    )


def _media(config: Mapping[str, Any]) -> Media | None:
    """None where the numbers of the towers cannot be: they decide no cache, and `media_tokens` says what is wrong with them."""
    try:
        return media_of(config)
    except ConfigError:
        return None


def _weights(words: Words, config: Mapping[str, Any], layers: tuple[Layer, ...]) -> Weights | None:
    """None where the config does not give the model's size at all: nothing is better than a zero."""
    found = parameters.weights(words, config, layers)
    return found if found.params else None


def _no_cache_note(family: Family | None) -> str | None:
    return tell("model.encoder") if family and family.encoder_only else None


def _cache_rules(family: Family, words: Words) -> dict[str, str]:
    rules = {}
    static = family.transformers.get("static")
    if static and words.model_type in static.get("types", [words.model_type]):
        rules["static_refused"] = static["why"]
    if family.transformers.get("own_cache"):
        rules["own_cache"] = tell("hf.own_cache")
    return rules


def _plain(config: Mapping[str, Any]) -> tuple[Words, tuple[Layer, ...], dict[str, tuple[Layer, ...]]]:
    """Full attention in every layer, from whatever words give depth, heads and widths; the largest reading of each."""
    parts = [part for name in table().parts if (part := section(config, name))]
    words = Words("unknown", {**config, **(parts[0] if parts else {})})
    depth = words.number("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_transformer_layers")
    heads = words.number("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")
    kv_heads = words.number("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", default=heads)
    named = [name for name in ("head_dim", "kv_channels", "d_kv", "v_head_dim") if words.get(name) is not None]
    width = max((words.number(name) for name in named), default=0)
    if named in ([], ["v_head_dim"]):
        width = max(width, ceil_div(words.number("hidden_size", "n_embd", "d_model", "dim"), heads))
    check_depth(depth, "num_hidden_layers")
    return words, (Layer((Full(kv_heads, width, width),)),) * depth, {}
