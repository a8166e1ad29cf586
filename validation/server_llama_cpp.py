"""A running llama-server: /props, /slots, /metrics and /v1/models. What its cache takes in memory it writes to its log alone.

Source: llama.cpp's tools/server/README.md, and the answers of a server of October 2026. /slots and /metrics have to be switched
on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.engines import llama_cpp
from planner.engines.llama_cpp_table import era_of
from planner.errors import InputError, shown
from planner.hardware import Gpu
from planner.model import Model
from planner.units import format_bytes
from validation.logs.log import Check, CheckLine, check_of
from validation.server_http import Client
from validation.server_told import Told, compared, whole, word

NAME: Final = "llama.cpp"
_LONGEST: Final = re.compile(r"^llamacpp:n_tokens_max (\d+)", re.MULTILINE)
_TYPES: Final = "--set cache_type_k=q8_0 cache_type_v=q8_0 (one --set each): how the cache is stored; f16 is taken"

_CAPPED: Final = "--set n_ctx=N: what -c was; a slot never has more than the trained context, and a larger -c takes more memory"
_WINDOWS: Final = "--set n_ubatch=N: windows keep one pass beside them; 512 tokens are taken"


def read(client: Client) -> Told | None:
    """What the server says; None where it is no llama-server."""
    props = client.get("/props").fields()
    defaults = props.get("default_generation_settings")
    if not isinstance(defaults, dict) or "total_slots" not in props:
        return None
    figures: dict[str, float] = {}
    slots = client.get("/slots")
    rows = slots.json() if slots.ok else []
    contexts = [whole(row.get("n_ctx")) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    meta = _meta(client.get("/v1/models").fields())
    longest = _LONGEST.search(client.get("/metrics").text())
    for name, value in (
        ("n_ctx", whole(defaults.get("n_ctx"))),
        ("total_slots", whole(props["total_slots"])),
        ("slots", len(contexts) or None),
        ("n_ctx_train", whole(meta.get("n_ctx_train"))),
        ("n_params", whole(meta.get("n_params"))),
        ("model_bytes", whole(meta.get("size"))),
        ("n_tokens_max", whole(longest[1]) if longest else None),
    ):
        if value is not None:
            figures[name] = value
    version, notes = _version(props)
    settings: dict[str, Any] = {"front_end": "server"} | ({"version": version} if version else {})
    path = word(props.get("model_path"))
    return Told(
        NAME, version, word(props.get("model_alias")) or path, path, settings=settings, figures=figures,
        other={"slot_contexts": tuple(contexts)}, notes=notes,
    )  # fmt: skip


def _meta(models: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = models.get("data")
    found = rows[0].get("meta") if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None
    return found if isinstance(found, dict) else {}


def _version(props: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The build of "b11549-0c1e5709"; a build of one's own says b0 or b1 and nothing more."""
    said = word(props.get("build_info")) or "no build_info"
    match = re.match(r"b(\d{3,6})\b", said)
    if match:
        return f"b{match[1]}", ()
    try:
        era_of(said.partition("-")[2])
        return said.partition("-")[2], ()
    except InputError:
        return None, (f"the build is not told ({shown(said)}); the rules of the newest are taken",)


def explain(told: Told, model: Model, settings: llama_cpp.Settings, gpu: Gpu | None) -> Check:
    """Cells of a slot, slots, and the file's own figures beside ours; the cache's bytes, which the log prints.

    n_ctx of a slot = cells of its stream, and never more than the trained context: all cells where slots share them.
    """
    missing: list[str] = []
    n_ctx, slots = whole(told.figures.get("n_ctx")), whole(told.figures.get("total_slots")) or 1
    if not n_ctx:
        return check_of((), ("n_ctx: this server does not tell it at /props; its start-up log does",), rules=told.notes)
    count = settings.n_seq_max or slots
    held = _held(model, settings, n_ctx, count, missing)
    if not {"cache_type_k", "cache_type_v"} & settings.model_fields_set:
        missing.append(_TYPES)
    if settings.n_ctx is None and n_ctx == model.max_context:
        missing.append(_CAPPED)
    if settings.n_ubatch is None and any(cache.window for layer in model.layers_for(NAME) for cache in layer.caches):
        missing.append(_WINDOWS)
    lines = [_context(model, held, n_ctx, settings), *_slots(told, slots, count, n_ctx), *_file(told, model)]
    if longest := told.figures.get("n_tokens_max"):
        rule = "the longest sequence so far; ours is what a slot holds"
        lines.append(compared("n_tokens_max", longest, held.tokens, rule, agrees=longest <= held.tokens))
    kinds = f"K {format_bytes(held.k_bytes)} ({settings.cache_type_k}), V {format_bytes(held.v_bytes)} ({settings.cache_type_v})"
    states = f", states {format_bytes(held.state_bytes)} (f32)" if held.state_bytes else ""
    notes = (
        *told.notes,
        f"{held.n_ctx:,} cells in {held.n_stream} stream{'s' if held.n_stream > 1 else ''} take {held.total_bytes:,} bytes ="
        f" {format_bytes(held.total_bytes)}: {kinds}{states}; the server's log prints the same at its start",
    )
    return check_of(lines, missing, rules=(*notes, *held.warnings))


def _held(
    model: Model, settings: llama_cpp.Settings, n_ctx: int, count: int, missing: list[str]
) -> llama_cpp.LlamaCppBytes:
    """What is allocated: for the context that was asked for, else for that which gives each slot its n_ctx.

    Whether slots share the cells is as it was said, else as n_ctx shows where it was asked for; else the larger is taken.
    """
    ways = [bool(settings.kv_unified)] if settings.kv_unified is not None or count == 1 else [False, True]
    found = []
    for shared in ways:
        asked = n_ctx * (1 if shared else count) if settings.n_ctx is None else settings.n_ctx
        update = {"n_ctx": asked, "n_seq_max": count, "kv_unified": shared}
        found.append(llama_cpp.cache_bytes(model, settings.model_copy(update=update)))
    shown = [held for held in found if settings.n_ctx is not None and min(held.tokens, model.max_context or held.tokens) == n_ctx]
    if len(shown) == 1 or len(found) == 1:
        return (shown or found)[0]
    held = max(found, key=lambda each: each.total_bytes)
    word = "have cells of their own" if held is found[0] else "share the cells"
    missing.append(f"--set kv_unified=true or false: whether the slots share the cells; that they {word} is taken, which is more")
    return held


def _context(model: Model, held: llama_cpp.LlamaCppBytes, printed: int, settings: llama_cpp.Settings) -> CheckLine:
    trained = model.max_context or held.tokens
    ours = min(held.tokens, trained)
    why = f"n_ctx {settings.n_ctx:,} asked for, " if settings.n_ctx else ""
    most = f", at most the trained {trained:,}" if ours < held.tokens else ""
    rule = f"cells that a slot may use: {why}rounded up to whole 256 cells of a stream{most}"
    return compared("n_ctx", printed, ours, rule)


def _slots(told: Told, slots: int, count: int, n_ctx: int) -> list[CheckLine]:
    lines = [] if slots == count else [compared("total_slots", slots, count, "n_seq_max as it was asked for")]
    if "slots" in told.figures:
        alike = set(told.other["slot_contexts"]) == {n_ctx}
        rule = "slots listed at /slots, " + ("each with the n_ctx of /props" if alike else "whose n_ctx is not that of /props")
        lines.append(compared("slots", told.figures["slots"], slots, rule, agrees=told.figures["slots"] == slots and alike))
    return lines


def _file(told: Told, model: Model) -> list[CheckLine]:
    """The file's own figures, where our model was read from a GGUF file too."""
    if "general.architecture" not in model.config:
        return []
    ours = {
        "n_ctx_train": (model.max_context, "context_length of the file"),
        "n_params": (model.params, "elements of all tensors of the file"),
        "model_bytes": (model.weight_bytes, "bytes of all tensors of the file"),
    }
    found = ((name, told.figures.get(name), value, rule) for name, (value, rule) in ours.items())
    return [compared(name, printed, value, rule) for name, printed, value, rule in found if printed is not None and value]
