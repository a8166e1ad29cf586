"""The part of a config that decodes: found, with its class's defaults, and checked for words that no rule reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from model_configs.families import Composite, Family, table
from model_configs.json_text import strict_json
from model_configs.words import Words, class_defaults
from planner.errors import BadContent, ConfigError, UnsupportedArchitecture, shown

MAX_CONFIG_BYTES = 4 * 1024 * 1024

#: Parts of a config that are not its decoder.
_TOWER = re.compile(
    r"vision|visual|image|video|audio|speech|talker|token2wav|encoder|projector|aligner|vq|codec|former|gen_|sam_|depth|sound|resampler"
)


def parse_config(text: str | bytes, origin: str) -> dict[str, Any]:
    """The object in a config.json's text. ConfigError for anything that is not one JSON object of reasonable size."""
    if len(text) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{origin} is larger than 4 MiB; a config.json is a few kilobytes", field="config")

    try:
        value = strict_json(text, origin, infinity=True)
    except BadContent as error:
        raise ConfigError(error.message, field="config") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{origin} holds {shown(value, 20)}, not an object", field="config")
    return value


def canonical_type(model_type: Any) -> str | None:
    return table().spellings.get(model_type, model_type) if isinstance(model_type, str) else None


def _known(model_type: str | None) -> bool:
    return model_type in table().by_type


def _unknown(config: Mapping[str, Any], what: Any) -> UnsupportedArchitecture:
    keys = sorted(key for key in config if isinstance(key, str) and table().relevant.search(key))
    named = f"; its cache may depend on {', '.join(keys[:8])}" if keys else ""
    reason = table().refused.get(what) if isinstance(what, str) else None
    named = f": {reason}" if reason else named
    return UnsupportedArchitecture(
        f"the planner does not know how model_type {shown(what)} caches{named}",
        model_type=what if isinstance(what, str) else None, keys=keys,
    )  # fmt: skip


def _part(config: Mapping[str, Any], composite: Composite) -> Mapping[str, Any]:
    """The decoder's part of a composite config, the whole where there is none (older Qwen2-VL files are flat)."""
    if composite.inside:
        config = section(config, composite.inside) or config
    for name in table().parts:
        part = section(config, name)
        if part:
            return section(part, "text_config") or part
    return config


def section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A nested part of a config, empty where there is none. ConfigError when it is not an object."""
    part = config.get(name)
    if part is not None and not isinstance(part, dict):
        raise ConfigError(f"{name} is {shown(part)} in the config; it must be an object", field=name)
    if part and not (part.get("model_type") is None or isinstance(part["model_type"], str)):
        raise ConfigError(f"model_type of {name} is {shown(part['model_type'])}; it must be a word", field=name)
    return part or {}


def decoder(config: Mapping[str, Any]) -> Words:
    """The words of the part that decodes, with its class's defaults. UnsupportedArchitecture for an unknown type."""
    model_type = config.get("model_type")
    canonical = canonical_type(model_type)
    composite = table().composites.get(canonical or "")
    if composite is None:
        if canonical is None or not _known(canonical):
            raise _unknown(config, model_type)
        nested = [name for name in table().parts[3:] if section(config, name)]
        if nested:
            raise UnsupportedArchitecture(
                f"{model_type} is a decoder of its own, but this config has a {nested[0]} beside it",
                model_type=str(model_type), keys=nested,
            )  # fmt: skip
        return Words(canonical, config)
    part = _part(config, composite)
    inner = canonical_type(part.get("model_type"))
    inner = composite.reads.get(inner or "", inner)
    if part is config or inner is None:
        inner = composite.decoder
    elif not _known(inner):
        if inner not in table().composites and inner in class_defaults():
            raise _unknown(part, part.get("model_type"))
        inner = composite.decoder  # a text part of a type that transformers does not know reads as the wrapper's own
    depths = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
    if part is config and not any(name in config for name in depths):
        hidden = [k for k, v in config.items() if isinstance(v, dict) and any(n in v for n in depths) and not _TOWER.search(k)]
        if hidden:
            raise UnsupportedArchitecture(
                f"this {config['model_type']} config seems to have its decoder under {', '.join(hidden)}, which is not read;"
                f" it is expected under {', '.join(table().parts)}",
                model_type=str(config["model_type"]), keys=hidden,
            )  # fmt: skip
    # A part that is there is built by its own class; the wrapper's defaults are those of a part that is not.
    absent = part is config and not any(name in config for name in ("hidden_size", "num_hidden_layers"))
    defaults = composite.defaults if absent or composite.merges else {}
    return Words(inner, part, defaults)


def check_words(family: Family, words: Words) -> None:
    """Refuse a file that sets a cache-relevant word which neither a rule read nor the model's class declares."""
    # Families that count their cached heads by another word still save the common one.
    ignored = {"num_key_value_heads", *table().irrelevant, *family.ignores.get("words", ()), *family.words}
    if family.head_dim == "derived":
        ignored.add("head_dim")
    unread = sorted(
        key
        for key, value in words.given.items()
        if table().relevant.search(key)
        and value not in (None, False, 0, "", [], {})
        and key not in words.read
        and key not in words.declared
        and key not in ignored
        and not _only(value, family.only.get(key))
    )
    if unread:
        raise UnsupportedArchitecture(
            f"this {words.model_type} config sets {', '.join(unread)}, which {family.name!r} does not read and which may"
            " change what is cached",
            model_type=words.model_type, keys=unread,
        )  # fmt: skip


def _only(value: Any, wanted: Any) -> bool:
    return wanted is not None and all(entry == wanted for entry in (value if isinstance(value, list) else [value]))
