"""A running Ollama: /api/version, /api/ps (what is loaded, its context and memory) and /api/show (the model's GGUF metadata).

Source: docs/api.md and api/types.go of Ollama (ProcessModelResponse, ShowResponse).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from model_configs.gguf import describe_metadata
from model_configs.gguf_header import TensorInfo
from planner.engines import llama_cpp
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model, Source
from planner.units import format_bytes
from validation.logs.log import Check, check_of
from validation.server_http import Client, ServerError
from validation.server_told import Told, compared, whole, word

NAME: Final = "llama.cpp"


def read(client: Client) -> Told | None:
    """What the server says of the model that it has loaded; None where it is no Ollama."""
    version = word(client.get("/api/version").fields().get("version"))
    loaded = client.get("/api/ps").fields().get("models")
    if version is None or not isinstance(loaded, list):
        return None
    rows = [row for row in loaded if isinstance(row, dict) and word(row.get("model"))]
    if not rows:
        raise ServerError(f"this Ollama ({version}) has no model loaded: send it a request, then ask again")
    row = rows[0]
    name = str(word(row["model"]))
    figures: dict[str, float] = {}
    for key in ("context_length", "size", "size_vram"):
        if (count := whole(row.get(key))) is not None:
            figures[key] = count
    described, notes = _describe(client, name)
    if len(rows) > 1:
        notes += (f"{len(rows)} models are loaded; {name} is compared",)
    settings: dict[str, Any] = {"front_end": "ollama", "version": version}
    return Told(NAME, version, name, name, described, settings, figures, {"label": "ollama"}, notes)


def _describe(client: Client, name: str) -> tuple[Model | None, tuple[str, ...]]:
    """The model by its metadata. Long lists are left out of the short answer; those of a layer each are asked for in full."""
    for verbose in (False, True):
        shown = client.post("/api/show", {"model": name, "verbose": verbose}).fields()
        metadata = shown.get("model_info")
        if not isinstance(metadata, dict) or "general.architecture" not in metadata:
            break
        words = {key: value for key, value in metadata.items() if not key.startswith("tokenizer.")}
        if any(value is None or value == [] for value in words.values()):
            continue
        try:
            return describe_metadata(words, Source("dict", name), _tensors(shown)), ()
        except PlannerError as error:
            return None, (f"the metadata of {name} is not understood: {error.message}",)
    return None, (f"/api/show does not describe {name} in full",)


def _tensors(shown: Mapping[str, Any]) -> list[TensorInfo] | None:
    """The list of tensors, None where it is not told or holds a type that is not known."""
    from gguf.constants import GGMLQuantizationType

    found = []
    for row in shown.get("tensors") or ():
        try:
            kind = GGMLQuantizationType[row["type"]]
            found.append(TensorInfo(str(row["name"]), tuple(int(size) for size in row["shape"]), int(kind)))
        except (KeyError, TypeError, ValueError):
            return None
    return found or None


def explain(told: Told, model: Model, settings: llama_cpp.Settings, gpu: Gpu | None) -> Check:
    """The context of a slot, and what weights and cache take at least of the memory that Ollama counts.

    OLLAMA_KV_CACHE_TYPE and OLLAMA_NUM_PARALLEL are told by no endpoint.
    """
    missing: list[str] = []
    context = whole(told.figures.get("context_length"))
    if context is None:
        missing.append("--set n_ctx=N: the context, which this version does not tell")
    if "n_seq_max" not in settings.model_fields_set:
        missing.append("--set n_seq_max=N: OLLAMA_NUM_PARALLEL; 1 is taken")
    if "cache_type_k" not in settings.model_fields_set:
        missing.append("--set cache_type_k=q8_0 and cache_type_v: OLLAMA_KV_CACHE_TYPE; f16 is taken")
    slots = settings.n_seq_max or 1
    asked = settings if settings.n_ctx or not context else settings.model_copy(update={"n_ctx": context * slots})
    held = llama_cpp.cache_bytes(model, asked)
    lines = []
    if context is not None:
        trained = model.max_context or context
        rule = f"no more than the trained {trained:,}; its cells are rounded up to whole 256"
        lines.append(compared("context_length", context, min(context, trained, held.tokens), rule))
    size = told.figures.get("size")
    if size is not None and model.weight_bytes:
        ours = model.weight_bytes + held.total_bytes
        rule = f"weights {model.weight_bytes:,} and cache {held.total_bytes:,} at least; the rest are compute buffers"
        lines.append(compared("size", size, ours, rule, agrees=size >= ours, shown=format_bytes(int(size))))
    notes = (
        *told.notes,
        f"{held.n_ctx:,} cells take {held.total_bytes:,} bytes = {format_bytes(held.total_bytes)}"
        f" ({asked.cache_type_k}, {asked.cache_type_v})",
    )
    return check_of(lines, missing, rules=(*notes, *held.warnings))
