"""Reading a model: from a Hub id, a path, a catalogue id or a config's content to a described `Model`.

A model_type that no family row knows, a layer word without a meaning, or a cache-relevant field that no rule reads is
`UnsupportedArchitecture` naming them. Nothing from a model repository is ever executed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_configs import gguf
from model_configs.decoder import MAX_CONFIG_BYTES, parse_config
from model_configs.description import describe
from model_configs.media_files import FILES, together
from planner.errors import HubError, InputError, PlannerError
from planner.model import Model, Source
from planner.texts import tell
from planner.weights import WeightItem, Weights

if TYPE_CHECKING:
    from model_configs.hub import Hub, HubConfig
    from model_configs.safetensors import HubWeights


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
    config = _read_json(path / "config.json" if path.is_dir() else path, path)
    beside = path / "hf_quant_config.json"  # where ModelOpt checkpoints say how weights and cache are stored
    if path.is_dir() and beside.is_file() and "hf_quant_config" not in config:
        config["hf_quant_config"] = _read_json(beside, path)
    if path.is_dir():
        config |= together({name: _read_json(path / name, path) for name in FILES if (path / name).is_file()})
    return describe(config, Source("path", path.name or str(path)), assume)


def _read_json(target: Path, asked: Path) -> dict[str, Any]:
    try:
        if not target.is_file():  # a device or a pipe could be read for ever
            raise InputError(f"{asked} is not a config.json, or a folder that has one", field="model")
        with target.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise InputError(f"{target} cannot be read: {error.strerror}", field="model") from None
    return parse_config(text, str(target))


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
    again = hub.Hub(token=token, deadline_s=max(left_s, 0.5))
    if model.media is not None:
        model = _with_processor(model, again, found, source, assume)
    try:
        stored = again.weights(found.id, found.commit)
    except HubError as error:
        note = tell("model.no_size", reason=error.message, confidence=model.weights_confidence)
        return replace(model, notes=(*model.notes, note))
    if not stored.plain and "quantization_config" not in found.config:
        model = _with_quantization(model, again, found, source, assume)
    return replace(model, weights=exact_weights(model.weights, stored))


def _with_processor(model: Model, client: Hub, found: HubConfig, source: Source, assume: bool) -> Model:
    """The model with the settings of its processor's own files, where it takes images or audio."""
    try:
        files = {name: content for name in FILES if (content := client.beside(found.id, found.commit, name)) is not None}
    except HubError as error:
        note = tell("model.no_processor", reason=error.message)
        return replace(model, notes=(*model.notes, note))
    return describe({**found.config, **together(files)}, source, assume) if files else model


def _with_quantization(model: Model, client: Hub, found: HubConfig, source: Source, assume: bool) -> Model:
    """The model as the file beside config.json describes it, where narrow weights say that there is one."""
    try:
        beside = client.quantization(found.id, found.commit)
    except HubError as error:
        note = tell("model.no_quantization", reason=error.message)
        return replace(model, notes=(*model.notes, note))
    return model if beside is None else describe({**model.config, "hf_quant_config": beside}, source, assume)


def exact_weights(computed: Weights | None, stored: HubWeights) -> Weights:
    """The checkpoint's own figures in place of computed ones.

    bytes are those of the stored tensors. params too, unless the checkpoint is packed: then stored elements are not
    parameters, and the computed count stays. What the config says of MTP layers is taken out as an item of its own.
    """
    packed = not stored.plain
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
