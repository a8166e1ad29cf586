"""Weights of a model's vision and audio towers, and of what joins them to the decoder.

A tower of a known type is computed from its own config. Any other is estimated: twice the matrices of a ViT of its
sizes, because joints and extra layers are what is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from model_configs.parameters_table import CANNOT, Part, Scope, family, table
from model_configs.words import Words

_DECODER_KEYS = ("text_config", "language_config", "llm_config", "decoder", "generator", "thinker_config", "llm_cfg")
#: What a tower of unknown size is taken for: Qwen's, among the largest in use.
_UNSIZED_TOWER = 700_000_000
_JOINT = "two square matrices of the decoder's width"
#: Keys under which configs keep a tower's own config.
_VISION_KEYS = (
    "vision_config", "vision_tower_config", "visual", "image_config", "vit_config", "vision_encoder", "img_processor",
)  # fmt: skip
_AUDIO_KEYS = ("audio_config", "audio_encoder", "encoder_config", "speech_config", "audio_encoder_config")


@dataclass(frozen=True)
class Tower:
    """One part beside the decoder: its item's name, its tensors, and whether they follow from a rule."""

    name: str
    parts: tuple[Part, ...]
    known: bool
    source: str


def architecture(root: Mapping[str, Any]) -> str:
    """The class that the file names first, or nothing."""
    names = root.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def towers(root: Mapping[str, Any], decoder_width: int) -> Iterator[Tower]:
    """The towers and the projector of a config; none for a model of text alone.

    root: the whole config.json. decoder_width: the decoder's hidden size, which projectors end in.
    """
    thinker = root.get("thinker_config")
    outer: Mapping[str, Any] = thinker if isinstance(thinker, Mapping) else root
    row = family("composites", str(outer.get("model_type"))) or {}
    if row.get("text_class") and architecture(root).endswith("ForCausalLM"):
        return
    joined = Scope(Words(str(outer.get("model_type")), outer), row, {"th": decoder_width})
    widths: dict[str, Any] = {"vh": 0, "ah": 0}
    for name, short, keys in (("vision", "vh", _VISION_KEYS), ("audio", "ah", _AUDIO_KEYS)):
        config = next((outer[key] for key in keys if isinstance(outer.get(key), Mapping)), None)
        default = row.get(name)
        if config is None and (not default or row.get("optional")):
            continue
        model_type = str((config or {}).get("model_type") or default)
        if default and model_type not in table()["towers"] and not row.get("any_tower"):
            model_type = str(default)  # the class reads this part as its own type, whatever it is called
        tower, width = _tower(name, model_type, config or row.get("vision_words") or {}, joined)
        widths |= {short: width.get("out"), f"{name}_f": width.get("f")}
        yield tower
    found = widths["vh"] != 0 or widths["ah"] != 0
    if row.get("projector"):
        yield _projector(joined.inside(**widths), decoder_width)
    elif not row and found:
        yield Tower("projector", (_joint(decoder_width),), False, f"estimate: {_JOINT}")
    others = [*_others(outer), *(_others(root) if outer is not root else ())]
    yield from others
    if not row and not others and not found and any(isinstance(outer.get(key), Mapping) for key in _DECODER_KEYS):
        part = Part("other", (_UNSIZED_TOWER,))
        yield Tower("other parts", (part,), False, f"estimate: {outer.get('model_type')} has parts without a rule")


def _joint(width: int) -> Part:
    return Part("multi_modal_projector", (2 * width * width,))


def _others(outer: Mapping[str, Any]) -> Iterator[Tower]:
    """Parts that are neither decoder nor tower (a talker, a second encoder), by the sizes in their config."""
    for key, config in outer.items():
        if key in _DECODER_KEYS or key in _VISION_KEYS or key in _AUDIO_KEYS or not isinstance(config, Mapping):
            continue
        inner = config.get("text_config")
        config = inner if isinstance(inner, Mapping) else config
        try:
            name, why = key.removesuffix("_config"), f"estimate: twice a ViT of {key}'s size"
            yield _counted(name, key, config, family("towers", "unknown") or {}, 1, why)[0]
        except CANNOT:
            continue  # not a part with weights of its own: positions, quantisation, generation


def _projector(scope: Scope, width: int) -> Tower:
    try:
        return Tower("projector", tuple(scope.parts(scope["projector"], "multi_modal_projector.")), True, "")
    except CANNOT as reason:
        return Tower("projector", (_joint(width),), False, f"estimate: {_JOINT}: {reason}")


def _tower(name: str, model_type: str, config: Mapping[str, Any], joined: Scope) -> tuple[Tower, Mapping[str, Any]]:
    """The tower and the widths that projectors ask for."""
    definitions, why = family("towers", model_type), "it has no rule of its own"
    if definitions is not None:
        try:
            times = int(joined["vision_towers"] or 1) if name == "vision" else 1
            return _counted(name, model_type, config, definitions, times, "")
        except CANNOT as reason:
            why = str(reason)
    why = f"estimate: the {name} tower {model_type} is counted as twice a ViT of its size: {why}"
    try:
        return _counted(name, model_type, config, family("towers", "unknown") or {}, 1, why)
    except CANNOT:
        part = Part(f"{name}_tower", (_UNSIZED_TOWER,))
        return Tower(f"{name} tower", (part,), False, f"estimate: the config does not give the {name} tower's size"), {}


def _counted(
    name: str, model_type: str, config: Mapping[str, Any], definitions: Mapping[str, Any], times: int, why: str
) -> tuple[Tower, Mapping[str, Any]]:
    scope = Scope(Words(model_type, config), definitions, {})
    parts = tuple(
        Part(part.name, part.shape, part.times * times, part.bias)
        for part in scope.parts(scope["tower"], f"{name}_tower.")
    )
    return Tower(f"{name} tower", parts, not why, why), {"out": scope["out"], "f": scope["f"]}
