"""A tiny config of any model type that transformers ships: the class's own default, shrunk by the rules of tiny.yaml.

Only sizes shrink. The kinds of layers, their pattern and the switches between them stay as the class has them, so that a
cache of a few kilobytes is laid out like the full model's.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

#: Which mappings of transformers name the types that generate text, in the order in which they are listed.
GENERATING = {
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "encoder-decoder": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "image-text": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    "speech": modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
}
_DEPTHS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_decoder_layers", "num_blocks", "layers",
    "decoder_num_hidden_layers",
)  # fmt: skip
#: Where classes keep the kind of each layer, as a field or as a property.
_KINDS = ("layer_types", "layers_block_type", "block_types", "attention_layers", "attn_layers")
_DEEPEST = 12


def types() -> dict[str, str]:
    """Every model type whose class generates text, and the first mapping that names it."""
    found: dict[str, str] = {}
    for mapping, names in GENERATING.items():
        for model_type in names:
            found.setdefault(model_type, mapping)
    return dict(sorted(found.items()))


def cannot(model_type: str) -> str | None:
    """Why a type cannot generate from token ids alone, where that is known."""
    return next((row["why"] for row in _rules()["cannot"] if model_type in row["types"]), None)


def tiny(model_type: str) -> Any:
    """The class's default config made small: as few layers as still have every kind, small widths.

    Errors: whatever the class raises for sizes that do not go together.
    """
    full = CONFIG_MAPPING[model_type]()
    wanted = _wanted(full)
    for depth in range(2, _DEEPEST + 1):
        config = _shrunk(full, depth, wanted)
        if _kinds(config) >= _kinds(full):
            break
    return config


def _wanted(config: Any) -> dict[str, Any]:
    """What tiny.yaml says of a type and of the types of its parts."""
    parts = {name: _wanted(part) for name, part in vars(config).items() if isinstance(part, PreTrainedConfig)}
    own = _rules()["types"].get(config.model_type, {})
    for name, value in own.items():
        parts[name] = {**parts[name], **value} if name in parts and isinstance(value, dict) else value
    return {name: value for name, value in parts.items() if value != {}}


@functools.cache
def _rules() -> dict[str, Any]:
    rules = yaml.safe_load(Path(__file__).with_name("tiny.yaml").read_text("utf-8"))
    return {**rules, "sizes": {word: row["value"] for row in rules["sizes"] for word in row["words"]}}


def _kinds(config: Any) -> set[str]:
    """The words that name the kinds of a decoder's layers."""
    text = config.get_text_config(decoder=True)
    return {word for name in _KINDS for word in getattr(text, name, None) or () if isinstance(word, str)}


def _shrunk(full: Any, depth: int, wanted: Mapping[str, Any]) -> Any:
    """The same class with small sizes and `depth` layers.

    Only the fields that the class declares are given to it: what it derives, such as a list of one entry a layer, it derives
    again.
    """
    sizes, made = _rules()["sizes"], {}
    own, aliases = vars(full), type(full).attribute_map
    given = {field.name: own.get(aliases.get(field.name, field.name)) for field in dataclasses.fields(full)}
    given.pop("per_layer_config", None)
    text = full.get_text_config(decoder=True)
    alone = text is not full and text.model_type in GENERATING["causal"]  # then the towers are not built
    depths = {value for name, value in given.items() if name in _DEPTHS and isinstance(value, int)}
    for name, value in given.items():
        if isinstance(value, PreTrainedConfig):
            tower = alone and value.get_text_config(decoder=True) is not text
            made[name] = _with(value, wanted.get(name, {})) if tower else _shrunk(value, depth, wanted.get(name, {}))
        elif name in wanted:
            made[name] = copy.deepcopy(wanted[name])
        elif isinstance(value, list | tuple) and len(value) in depths:
            continue
        elif name in _DEPTHS and isinstance(value, int):
            made[name] = depth
        elif name in sizes and isinstance(value, int) and not isinstance(value, bool):
            made[name] = min(value, sizes[name])
        elif name.endswith(("token_id", "token_index")) and isinstance(value, int):
            made[name] = min(value, 2)
        else:
            made[name] = copy.deepcopy(value)
    if "kv_lora_rank" in given:  # the class has as many keys as queries, and turns the rotary part alone
        made["num_key_value_heads"] = made.get("num_attention_heads")
        made |= {"head_dim": made["qk_rope_head_dim"]} if "head_dim" in given else {}
    extra = {name: copy.deepcopy(value) for name, value in wanted.items() if name not in given}
    ratio = _width(full) / (_width({**given, **made, **extra}) or 1)
    return type(full)(**{name: made[name] if name in wanted else _scaled(made[name], ratio) for name in made}, **extra)


def _with(part: Any, wanted: Mapping[str, Any]) -> Any:
    """A tower that is not built, with the sizes that its decoder's must agree with."""
    part = copy.deepcopy(part)
    for name, value in wanted.items():
        setattr(part, name, value)
    return part


def _width(config: Any) -> int:
    """The width that rotary positions turn: of a head, or of its rotary part."""
    get = (config if isinstance(config, Mapping) else vars(config)).get
    declared = get("qk_rope_head_dim") or get("head_dim")
    hidden, heads = get("hidden_size"), get("num_attention_heads")
    return declared or (hidden // heads if isinstance(hidden, int) and isinstance(heads, int) else 0)


def _scaled(config: Any, ratio: float) -> Any:
    """The config with its sections of rotary positions divided by `ratio`, their sum kept whole."""
    if not isinstance(config, dict):
        return config
    made = {}
    for name, value in config.items():
        if name == "mrope_section" and value and ratio:
            first = [max(1, int(section / ratio)) for section in value[:-1]]
            made[name] = [*first, round(sum(value) / ratio) - sum(first)]
        else:
            made[name] = _scaled(value, ratio)
    return made
