"""A config cut to fewer layers with its layer pattern kept, so that a model too large for the device can be measured."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from model_configs.decoder import decoder
from model_configs.description import describe
from model_configs.families import Family, table
from model_configs.words import Words, class_defaults
from planner.errors import InputError, PlannerError
from planner.layers import Layer
from planner.model import Model

#: Counts of layers at one end of the model, which shrink with the depth.
_ENDS = ("max_window_layers",)
#: Lists of layer numbers, by their endings; those that count from one.
_NUMBERS = ("_layers", "_idxs", "_indices", "_ids")
_FROM_ONE = ("full_attn_layers", "kda_layers", "ple_layer_ids")


def cut(model: Model, layers: int) -> Model:
    """The same model with its first `layers` layers, described from the cut config.

    Lists with an entry a layer lose their tail; numbers that count layers at one end (shared ones, say) shrink in
    proportion. Errors: InputError when the number is not a cut of this model, or would leave out a kind of layer.
    """
    full = model.layers
    if not 1 <= layers < len(full):
        raise InputError(f"layers is {layers}; {model.name} can be cut to 1 to {len(full) - 1} layers", field="layers")
    config = copy.deepcopy(dict(model.config))
    words = decoder(config)
    _shorten(words, table().by_type[words.model_type], layers, len(full))
    try:
        short = describe(config, model.source)
    except PlannerError as error:
        raise InputError(f"{model.name} cannot be cut to {layers} layers: {error.message}", field="layers") from None
    if len(short.layers) != layers:
        raise InputError(
            f"{model.name} cannot be cut to {layers} layers: its layers come in groups, and {len(short.layers)} would be left",
            field="layers",
        )
    missing = _kinds(full) - _kinds(short.layers)
    if missing:
        raise InputError(
            f"{layers} layers leave out the {', '.join(sorted(missing))} layers of {model.name};"
            f" {_needed(full)} layers have every kind",
            field="layers",
        )
    return short


def _kinds(layers: tuple[Layer, ...]) -> set[str]:
    return {layer.kind for layer in layers}


def _needed(layers: tuple[Layer, ...]) -> int:
    return next(n for n in range(1, len(layers) + 1) if _kinds(layers[:n]) == _kinds(layers))


def _shorten(words: Words, family: Family, layers: int, full: int) -> None:
    """Cuts the decoder's part of a config in place."""
    part: Any = words.given
    spec = family.depth
    names = spec["words"] if isinstance(spec, Mapping) else () if spec == "list" else spec
    aliases = class_defaults().get(words.model_type, {}).get("aliases", {})
    spelled = [*names, *(aliases[name] for name in names if name in aliases)]
    depth = words.first(*names) if names else full
    short, rest = divmod(depth * layers, full)
    if rest:
        raise InputError(f"layers is {layers}; the layers of this model come in groups of {full // depth}", field="layers")
    for name in [name for name in spelled if name in part] or names[:1]:
        part[name] = short
    for name in (family.shared_tail, *_ENDS):
        if name and isinstance(part.get(name), int) and part[name]:
            part[name] = max(1, round(part[name] * layers / full))
    _shorten_lists(part, depth, short)


def _shorten_lists(part: dict[str, Any], depth: int, short: int) -> None:
    for name, value in part.items():
        if name == "per_layer_config" and isinstance(value, dict):
            part[name] = {index: entry for index, entry in value.items() if int(index) < short}
        elif isinstance(value, dict):
            _shorten_lists(value, depth, short)
        elif isinstance(value, str) and len(value) >= depth and name.endswith("_pattern"):
            part[name] = value[:short]
        elif not isinstance(value, list) or "token" in name:
            continue
        elif len(value) >= depth:
            part[name] = value[:short]
        elif name.endswith(_NUMBERS) and all(isinstance(entry, int) for entry in value):
            part[name] = [entry for entry in value if entry < short + (name in _FROM_ONE)]
