"""The table of media rules: which family answers to a config, and the numbers of its rules, read from config and processor.

The knowledge is in `media.yaml`, whose head explains the fields of a row.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from model_configs.words import whole
from planner.errors import ConfigError, DataError, UnsupportedArchitecture, shown

KINDS = ("image", "video", "audio")
#: Parts of a processor's files that hold the settings of one kind.
_PARTS = {"image": "image_processor", "video": "video_processor", "audio": "feature_extractor"}
#: Fields of a kind that are read as they stand, and those that no rule is computed with.
_PLAIN = ("rule", "around", "frame_around", "extra", "encoder", "mark")
_SOURCE = "transformers 5.24, the family's processor"


@dataclass(frozen=True)
class MediaFamily:
    """One row of media.yaml; that file's head explains each field."""

    name: str
    types: tuple[str, ...]
    when: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] | None = None
    video: Mapping[str, Any] | None = None
    audio: Mapping[str, Any] | None = None
    copies: str | None = None
    source: str = _SOURCE


@functools.cache
def table() -> tuple[tuple[MediaFamily, ...], Mapping[str, Any]]:
    """The rows, and by rule the processor's words for its numbers; read once."""
    text = resources.files("model_configs").joinpath("media.yaml").read_text(encoding="utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    known = set(MediaFamily.__dataclass_fields__)
    for row in data["families"]:
        if set(row) - known or not any(kind in row for kind in KINDS):
            raise DataError(f"media.yaml, row {row.get('name')!r}: its fields are {sorted(row)}")
    return tuple(MediaFamily(**{**row, "types": tuple(row["types"])}) for row in data["families"]), data["rules"]


def towers_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a config that holds the towers: the thinker's in an Omni model."""
    thinker = config.get("thinker_config")
    return thinker if isinstance(thinker, Mapping) else config


def find(config: Mapping[str, Any]) -> MediaFamily | None:
    """The row that answers to a config; None where none does."""
    part, model_type = towers_part(config), config.get("model_type")
    for row in table()[0]:
        if model_type in row.types and all(look(part, word) in values for word, values in row.when.items()):
            return row
    return None


def family(config: Mapping[str, Any]) -> MediaFamily:
    """As `find`. Errors: UnsupportedArchitecture where no row answers, which offers a count that the person gives."""
    found = find(config)
    if found is None:
        what = shown(config.get("model_type"))
        raise UnsupportedArchitecture(
            f"no rule says what images, video or audio become in a model of model_type {what}; give the count as image_tokens",
            model_type=str(config.get("model_type")), keys=("image_tokens",), offers="image_tokens",
        )  # fmt: skip
    return found


def look(content: Any, word: str) -> Any:
    """The value under a dotted word, None where there is none."""
    for name in word.split("."):
        if isinstance(content, Mapping):
            content = content.get(name)
        elif isinstance(content, list | tuple) and name.isdigit() and int(name) < len(content):
            content = content[int(name)]
        else:
            return None
    return content


def numbers(
    row: MediaFamily, kind: str, config: Mapping[str, Any], processor: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The rule's name and its numbers: the processor's file before the config before the row; None where the row lacks the kind.

    Errors: ConfigError naming the word whose value no rule can take.
    """
    spec = getattr(row, kind)
    if spec is None or (kind == "audio" and "audio_config" in config and config["audio_config"] is None):
        return None
    part, words = towers_part(config), table()[1].get(spec["rule"], {})
    files = _of_kind(processor or {}, kind)
    found: dict[str, Any] = {}
    for name, value in spec.items():
        default, read, word = _from_config(value, part) if name not in _PLAIN else (value, value, name)
        for setting in _names(words.get(name)):
            said = look(files, setting)
            if said is not None:
                read, word = said, setting
                break
        found[name] = _typed(read, default, word, str(config.get("model_type")), isinstance(value, Mapping))
    return found


def _of_kind(processor: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    inner = processor.get(_PARTS[kind])
    outer = {key: value for key, value in processor.items() if key not in _PARTS.values()}
    return {**outer, **inner} if isinstance(inner, Mapping) else outer


def _names(value: str | list[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _from_config(value: Any, part: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """A number's default, its value by the config, and the word that gave it."""
    if isinstance(value, Mapping):
        said = look(part, value["word"])
        return value["else"], value["is"].get(said, value["else"]) if isinstance(said, str) else value["else"], value["word"]
    if not isinstance(value, list):
        return value, value, "media.yaml"
    for word in value[:-1]:
        said = look(part, word)
        if said is not None and (isinstance(value[-1], list) or not isinstance(said, list)):
            return value[-1], said, word
    return value[-1], value[-1], str(value[0])


def _typed(value: Any, default: Any, word: str, model_type: str, choice: bool) -> Any:
    """A value of the kind that the row's own has; a choice of the row may be 0. ConfigError otherwise."""
    if isinstance(default, bool):
        if value not in (True, False):
            raise ConfigError(f"{word} is {shown(value)}; it must be true or false", field=word)
        return bool(value)
    if isinstance(default, float):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**31:
            raise ConfigError(f"{word} is {shown(value)}; it must be a number above 0", field=word)
        return float(value)
    if isinstance(default, int):
        return whole(value, word, model_type, 0 if choice or default == 0 else 1)
    if isinstance(default, list):
        return _pairs(value, word)
    if not isinstance(value, str):
        raise ConfigError(f"{word} is {shown(value)}; it must be a word", field=word)
    return value


def _pairs(value: Any, word: str) -> tuple[tuple[int, int], ...]:
    """A list of (height, width), which some configs write as a text of Python's."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    right = isinstance(value, list | tuple) and value and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(side, int) and 0 < side < 2**20 for side in pair)
        for pair in value
    )  # fmt: skip
    if not right:
        raise ConfigError(f"{word} must be a list of pairs of pixels", field=word)
    return tuple((pair[0], pair[1]) for pair in value)
