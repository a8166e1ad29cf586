"""Reading a model: from a Hub id, a path, a catalogue id or a config's content to a described `Model`.

A model_type that no family row knows, a layer word without a meaning, or a cache-relevant field that no rule reads is
`UnsupportedArchitecture` naming them. Nothing from a model repository is ever executed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_configs import gguf, parameters
from model_configs.build import Builder, engine_views
from model_configs.families import Composite, Family, table
from model_configs.special import check_depth
from model_configs.words import Words, class_defaults
from planner.errors import ConfigError, HubError, InputError, PlannerError, UnsupportedArchitecture, shown
from planner.layers import Full, Layer
from planner.model import Model, Source
from planner.units import ceil_div
from planner.weights import WeightItem, Weights

if TYPE_CHECKING:
    from model_configs.safetensors import HubWeights

_MAX_CONFIG_BYTES = 4 * 1024 * 1024
_DTYPES = {
    "float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "float64": "float64", "double": "float64",
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "half": "float16", "float": "float32",
}  # fmt: skip
_CONTEXT_WORDS = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "max_target_positions", "seq_length",
    "model_max_length", "max_context_length", "max_position_embedding",
)  # fmt: skip


#: Parts of a config that are not its decoder.
_TOWER = re.compile(
    r"vision|visual|image|video|audio|speech|talker|token2wav|encoder|projector|aligner|vq|codec|former|gen_|sam_|depth|sound|resampler"
)


def parse_config(text: str | bytes, origin: str) -> dict[str, Any]:
    """The object in a config.json's text. ConfigError for anything that is not one JSON object of reasonable size."""
    if len(text) > _MAX_CONFIG_BYTES:
        raise ConfigError(f"{origin} is larger than 4 MiB; a config.json is a few kilobytes", field="config")

    def reject(word: str) -> Any:
        if word == "NaN":
            raise ConfigError(f"{origin} holds {word}, which no config value can be", field="config")
        return float(word.replace("Infinity", "inf"))

    try:
        value = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text.lstrip("\ufeff"), parse_constant=reject)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not JSON: {error}", field="config") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{origin} holds {type(value).__name__}, not an object", field="config")
    return value


def _canonical(model_type: Any) -> str | None:
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
        config = _section(config, composite.inside) or config
    for name in table().parts:
        part = _section(config, name)
        if part:
            return _section(part, "text_config") or part
    return config


def _section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
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
    canonical = _canonical(model_type)
    composite = table().composites.get(canonical or "")
    if composite is None:
        if canonical is None or not _known(canonical):
            raise _unknown(config, model_type)
        nested = [name for name in table().parts[3:] if _section(config, name)]
        if nested:
            raise UnsupportedArchitecture(
                f"{model_type} is a decoder of its own, but this config has a {nested[0]} beside it",
                model_type=str(model_type), keys=nested,
            )  # fmt: skip
        return Words(canonical, config)
    part = _part(config, composite)
    inner = _canonical(part.get("model_type"))
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


def _check_words(family: Family, words: Words, config: Mapping[str, Any]) -> None:
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
                return "bfloat16", f"The weights are {name}; the cache's dtype is taken to be bfloat16."
            raise ConfigError(f"{key} is {shown(value)}; it must be float32, float16 or bfloat16", field=key, value=value)
    return "bfloat16", "The config states no dtype; bfloat16 is assumed."


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
        composite = table().composites.get(_canonical(config.get("model_type")) or "")
        cross = bool(composite and composite.cross)
        layers = Builder(family, words, cross).build()
        _check_words(family, words, config)
        views = engine_views(family, words, layers)
    except UnsupportedArchitecture as error:
        if not assume_plain_attention:
            raise
        words, layers, views = _plain(config)
        assumption = f"Treated as plain attention at the user's own risk, because {error.message}."
    dtype, note = _dtype(config, words)
    heads = words.first("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads", "num_heads")
    hidden = words.first("hidden_size", "d_model", "n_embd")
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
    )


def _weights(words: Words, config: Mapping[str, Any], layers: tuple[Layer, ...]) -> Weights | None:
    """None where the config does not give the model's size at all: nothing is better than a zero."""
    found = parameters.weights(words, config, layers)
    return found if found.params else None


def _no_cache_note(family: Family | None) -> str | None:
    return "This is an encoder: it keeps no KV cache." if family and family.encoder_only else None


def _cache_rules(family: Family, words: Words) -> dict[str, str]:
    rules = {}
    static = family.transformers.get("static")
    if static and words.model_type in static.get("types", [words.model_type]):
        rules["static_refused"] = static["why"]
    if family.transformers.get("own_cache"):
        rules["own_cache"] = "the model has a cache class of its own and ignores cache_implementation"
    return rules


def _plain(config: Mapping[str, Any]) -> tuple[Words, tuple[Layer, ...], dict[str, tuple[Layer, ...]]]:
    """Full attention in every layer, from whatever words give depth, heads and widths; the largest reading of each."""
    parts = [part for name in table().parts if (part := _section(config, name))]
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


def read(
    source: str | Path | Mapping[str, Any],
    revision: str | None = None,
    token: str | None = None,
    *,
    assume_plain_attention: bool = False,
) -> Model:
    """A described model from wherever its config is.

    source: a dict (a config.json's content, or GGUF metadata); a path to a config.json, to a folder that has one or to a
    .gguf file; a catalogue id; a Hub id, with a quantisation ("org/repo:Q4_K_M") for a GGUF file there. A path that exists
    wins, then the catalogue, then the Hub; the prefixes `catalogue:` and `hub:` force one.
    revision: branch, tag or commit on the Hub. token: a Hub token, used for this call alone.
    Errors: InputError (no such path, malformed id or token), ConfigError, UnsupportedArchitecture, HubError.
    """
    if isinstance(source, Mapping):
        if gguf.is_metadata(source):
            return gguf.read_gguf(source)
        return describe(source, Source("dict", str(source.get("_name_or_path") or "config")), assume_plain_attention)
    if isinstance(source, Path):
        return _read_path(source, assume_plain_attention)
    if not isinstance(source, str) or not source.strip():
        raise InputError("a model is named by a Hub id, a path, a catalogue id or a config's content", field="model")
    name = source.strip()
    if name.startswith("hub:"):
        return _read_hub(name.removeprefix("hub:"), revision, token, assume_plain_attention)
    if name.startswith("catalogue:"):
        return _read_catalogue(name.removeprefix("catalogue:"), assume_plain_attention)
    path = Path(name).expanduser()
    if _exists(path):
        return _read_path(path, assume_plain_attention)
    if name.startswith(("/", "./", "../", "~")) or name.endswith((".json", ".gguf")):
        raise InputError(f"there is no file or folder {name}", field="model")
    from model_configs import catalogue

    if revision is None and catalogue.find(name):
        return _read_catalogue(name, assume_plain_attention)
    return _read_hub(name, revision, token, assume_plain_attention)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a pasted text can be too long for a path
        return False


def _read_path(path: Path, assume: bool) -> Model:
    if path.suffix.lower() == ".gguf" and not path.is_dir():
        return gguf.read_gguf(path)
    target = path / "config.json" if path.is_dir() else path
    try:
        if not target.is_file():  # a device or a pipe could be read for ever
            raise InputError(f"{path} is not a config.json, or a folder that has one", field="model")
        with target.open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise InputError(f"{target} cannot be read: {error.strerror}", field="model") from None
    return describe(parse_config(text, str(target)), Source("path", path.name or str(path)), assume)


def _read_catalogue(name: str, assume: bool) -> Model:
    from model_configs import catalogue

    entry = catalogue.find(name)
    if entry is None:
        raise InputError(f"the catalogue has no {name!r}; `python -m planner models` lists it", field="model")
    return describe(entry.config, Source("catalogue", entry.id, commit=entry.commit, date=entry.date), assume)


def _read_hub(name: str, revision: str | None, token: str | None, assume: bool) -> Model:
    from model_configs import hub

    if reference := gguf.split_reference(name):
        return gguf.read_gguf_from_hub(*reference, revision=revision, token=token)
    started = time.monotonic()
    found = hub.Hub(token=token).config(name, revision or "main")
    source = Source("hub", found.id, revision=revision or "main", commit=found.commit)
    try:
        model = describe(found.config, source, assume)
    except PlannerError as error:
        error.fields.setdefault("model", found.id)
        raise
    left_s = hub.DEADLINE_S - (time.monotonic() - started)
    try:
        stored = hub.Hub(token=token, deadline_s=max(left_s, 0.5)).weights(found.id, found.commit)
    except HubError as error:
        note = f"The checkpoint's size could not be read ({error.message}); weights are {model.weights_confidence}."
        return replace(model, notes=(*model.notes, note))
    return replace(model, weights=exact_weights(model.weights, stored))


def exact_weights(computed: Weights | None, stored: HubWeights) -> Weights:
    """The checkpoint's own figures in place of computed ones.

    bytes are those of the stored tensors. params too, unless the checkpoint is packed: then stored elements are not
    parameters, and the computed count stays. What the config says of MTP layers is taken out as an item of its own.
    """
    packed = not set(stored.params_by_dtype) <= {"F64", "F32", "F16", "BF16"}
    extra = computed.extra if computed else ()
    aside = sum(item.bytes for item in extra), sum(item.params for item in extra)
    params = computed.params if computed and packed else stored.params - aside[1]
    source = f"{stored.source} at {stored.commit[:12]}"
    if extra:
        source += ", less the MTP layers that the config describes"
    if packed:
        source += "; parameters counted from the config, because the checkpoint is packed"
    exact = not packed and not extra
    item = WeightItem("checkpoint", params, stored.bytes - aside[0], "exact" if exact else "computed", source)
    return Weights((item,), extra)
