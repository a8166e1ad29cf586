"""What comes of a llama.cpp log: every context beside ours, the tables, and what to change to get more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.engines import llama_cpp
from planner.engines.llama_cpp import LlamaCppBytes
from planner.engines.llama_cpp_table import cache_types
from planner.errors import PlannerError
from planner.model import Model
from planner.units import MIB, format_bytes
from validation.logs.llama_cpp_alone import alone, compute_rule
from validation.logs.llama_cpp_compare import POOLS, Pool, Result, cells_rule, device_layers, pools_of, unknown_types
from validation.logs.llama_cpp_model import printed_model
from validation.logs.llama_cpp_read import Cache, Context, Loaded
from validation.logs.llama_cpp_reconcile import Reconciled, by_figures, reconcile, sized
from validation.logs.llama_cpp_tables import explain_tables
from validation.logs.log import Check, CheckLine, Log, check_of
from validation.logs.rows import row_words

_MISSING_MODEL = "--model: the model's file, config or catalogue id; the log does not print all that its cache follows from"


def explain_files(log: Log, model: Model | None) -> Check:
    """The check of all contexts of all files, and of the tables."""
    lines: list[CheckLine] = []
    rules: list[str] = []
    missing: list[str] = []
    advice: list[str] = []
    models: list[Model] = []
    files = _different(log.other.get("files", ()))
    for number, file in enumerate(files):
        printed, partial = _printed(file, missing)
        own = [one for one in (printed, model if number == 0 else None) if one is not None]
        models += own
        for context in _distinct(file.contexts):
            part = explain_context(context, own, log.other["given"], log.other["version"], printed if partial else None)
            if part.agrees and printed is not None and not partial and len(own) > 1:
                rules += _other_model(context, own[1], log)
            lines += part.lines
            rules += part.rules
            missing += part.missing
            advice += part.advice
        rules += _weights(file)
    if not files and model is not None:
        models.append(model)
    if log.other.get("tables"):
        found = explain_tables(log.other["tables"], models, _table_settings(log), log.other.get("spec_fixed_bytes"))
        lines += found[0]
        rules += found[1]
        missing += found[2]
    if fork := log.other.get("fork_bytes"):
        rules.append(f"c^KV {fork.text} MiB is the latent cache of a fork, ik_llama.cpp, whose rules are not known: not judged")
    lines += _refused(log, models)
    rules += _fitted(log)
    return check_of(lines, missing, advice, rules)


def _different(files: Sequence[Loaded]) -> list[Loaded]:
    """The files of a paste, one that was started several times with the same result once."""
    found: dict[str, Loaded] = {}
    for file in files:
        found.setdefault(repr((file.path, file.dumped, file.words, [_key(context) for context in file.contexts])), file)
    return list(found.values())


def _printed(file: Loaded, missing: list[str]) -> tuple[Model | None, bool]:
    """The model that the log's own metadata describes, and whether that is only a part of it."""
    labels = {cache.label: cache.number("layers") for context in file.contexts for cache in context.caches if cache.kind == "kv"}
    printed = printed_model(file, labels.get("SWA"), labels.get("non-SWA"))
    if printed.cut:
        missing.append(f"--model: the log cuts the file's lists {', '.join(printed.cut)}")
    return (None if printed.cut else printed.model), printed.partial


def _other_model(context: Context, model: Model, log: Log) -> Iterator[str]:
    """A word where the model that was given is not the one that the file's own metadata describes."""
    found = reconcile([model], context, log.other["given"], log.other["version"])
    if found is not None and not found.result.agrees:
        yield f"{model.name} would not have these sizes; the file's own metadata, which the log prints, does"


def _distinct(contexts: Sequence[Context]) -> list[Context]:
    """Contexts with caches, those that print the same once."""
    found: dict[tuple[Any, ...], Context] = {}
    for context in contexts:
        if context.caches:
            found.setdefault(_key(context), context)
    return list(found.values())


def _key(context: Context) -> tuple[Any, ...]:
    """What two contexts that print the same have in common."""
    caches = tuple((c.label, c.types, *(f.text for f in c.figures.values())) for c in context.caches)
    return caches, tuple(context.words.items())


def explain_context(
    context: Context, models: Sequence[Model], given: Mapping[str, Any], version: str | None, partial: Model | None = None
) -> Check:
    """One context. models: the printed one first, then the caller's. partial: one of them that the log prints in part only."""
    if unknown := unknown_types(context):
        text = f"cache type {', '.join(unknown)} is not one of llama.cpp's: a fork's, whose bytes are not known and not judged"
        return check_of((), (), (), (text,))
    found = reconcile(models, context, given, version)
    if found is not None and found.result.model is partial and not found.result.agrees:
        found = reconcile([model for model in models if model is not partial], context, given, version)
    if found is None or (not found.result.lines and not found.result.refusal):
        return _without_model(context, given, version)
    if not found.result.lines:
        return check_of((), (), (), (f"by the planner llama.cpp refuses these settings: {found.result.refusal}",))
    rules = [*found.notes, *_rules(found)]
    return check_of(found.result.lines, (), _advice(found.result), rules)


def _without_model(context: Context, given: Mapping[str, Any], version: str | None) -> Check:
    """The catalogue's models that have every figure, else the figures among themselves."""
    found = by_figures(context, given, version)
    lines, rules = alone(context)
    if found:
        names = list(dict.fromkeys(one.result.model.name for one in found))
        said = f"inferred: the log does not name the model; of the catalogue every figure is that of {' and of '.join(names)}"
        first = found[0]
        return check_of(first.result.lines, (), _advice(first.result), [said, *first.notes, *_rules(first), *rules])
    return check_of(lines, (_MISSING_MODEL,), (), rules)


def _rules(found: Reconciled) -> Iterator[str]:
    """What the context shows, in words with its numbers."""
    result, context = found.result, found.context
    assert result.found is not None
    allocation, pools = result.found, pools_of(result.found)
    for cache in sized(context):
        pool = pools.get(POOLS.get(cache.label, ""), None)
        if cache.kind == "kv" and pool and not cache.label.startswith("DSV4"):
            name = f"{cache.label} cache" if cache.label else "cache"
            yield f"{name}: {pool} = {pool.bytes / MIB:,.2f} MiB{_heads(allocation, pool, cache)}"
            if shares := device_layers(cache, pool):
                yield f"{name}, layers by device: {', '.join(shares)}; the buffers are the same bytes as the size line"
    yield from _windows(result, context)
    yield from _states(result)
    if len([cache for cache in context.caches if cache.kind == "kv"]) > 1:
        yield "several caches of one context are separate allocations: add them"
    if allocation.requests > 1:
        share = f"n_ctx {allocation.n_ctx:,} is for all {allocation.requests} sequences"
        yield share + (f"; each has {allocation.tokens:,}" if allocation.n_stream > 1 else ", which share the cells")
    heads = result.model.attention_heads
    if rule := compute_rule(context, allocation.n_ctx, heads):
        yield rule
    if allocation.rule and any(kind.quantized for kind in map(cache_types().__getitem__, _types(context))):
        yield allocation.rule


def _heads(allocation: LlamaCppBytes, pool: Pool, cache: Cache) -> str:
    """The row's heads and widths, where the cache's layers have them."""
    parts = [part for layer in allocation.layers for part in layer.parts if part.heads and part.positions == pool.cells]
    wanted = POOLS.get(cache.label) == "window"
    rows = [
        ((part.heads, part.k_dim, part.v_dim), part.bytes // part.positions) for part in parts
        if (part.window is not None) == wanted and part.positions
    ]  # fmt: skip
    return f": {row_words(rows, '/'.join(dict.fromkeys(cache.types or ('f16',))))} a cell" if rows else ""


def _types(context: Context) -> set[str]:
    return {kind for cache in context.caches for kind in cache.types or ()}


def _windows(result: Result, context: Context) -> Iterator[str]:
    assert result.found is not None
    assert result.settings is not None
    window = next((p.window for layer in result.found.layers for p in layer.parts if p.window is not None), None)
    if window is None:
        return
    if result.settings.swa_full:
        yield f"window layers keep the whole context: --swa-full, or a context no longer than the window of {window:,}"
        return
    streams = next((n for cache in context.caches if (n := cache.number("streams"))), result.found.n_stream)
    yield f"window layers: {cells_rule(window, result, streams)}"


def _states(result: Result) -> Iterator[str]:
    assert result.found is not None
    assert result.settings is not None
    found = result.found
    layers = [size for layer in found.layers if (size := sum(p.bytes for p in layer.parts if p.kind == "state"))]
    if not layers:
        return
    copies = f" x {result.settings.n_rs_seq + 1} copies (n_rs_seq)" if result.settings.n_rs_seq else ""
    each = sum(layers) / found.requests / (result.settings.n_rs_seq + 1 if copies else 1)
    yield (
        f"states: {len(layers)} of {len(found.layers)} layers keep one, {each / MIB:,.3f} MiB a sequence in float32"
        f" x {found.requests} sequences{copies}, whatever the context and the cache types; the log's layers count them all"
    )


def _weights(file: Loaded) -> Iterator[str]:
    if file.weights:
        parts = " + ".join(f"{device} {figure.text}" for device, figure in file.weights.items())
        total = sum(int(figure.value) for figure in file.weights.values())
        mapped = "; a mapped buffer is the page cache's" if any("Mapped" in device for device in file.weights) else ""
        yield f"weights: {parts} MiB = {format_bytes(total)}{mapped}"


def _advice(result: Result) -> Iterator[str]:
    """Settings that would take less, with what each saves."""
    if result.settings is None or result.found is None:
        return
    now, settings = result.found.total_bytes, result.settings
    changes: list[tuple[str, dict[str, Any]]] = [
        ("-ctk q8_0 -ctv q8_0 (with flash attention)", {"cache_type_k": "q8_0", "cache_type_v": "q8_0", "flash_attn": "on"}),
        ("without --swa-full", {"swa_full": False}),
        ("-ub 512", {"n_ubatch": 512}),
        ("--kv-unified", {"kv_unified": True}),
        ("-fa on", {"flash_attn": "on"}),
        ("half the context (-c)", {"n_ctx": (settings.n_ctx or 0) // 2 or None}),
        ("one slot (-np 1)", {"n_seq_max": 1}),
    ]
    for name, change in changes:
        try:
            less = now - llama_cpp.cache_bytes(result.model, settings.model_copy(update=change)).total_bytes
        except PlannerError:
            continue
        if less > now // 50:
            yield f"{name} takes {format_bytes(less)} less"


def _table_settings(log: Log) -> dict[str, Any]:
    """The settings of a dry run: the command's, the rest by llama-server's defaults; no context means the trained one."""
    given = {key: value for key, value in log.other["given"].items() if key != "draft"}
    return {"front_end": "server", "n_seq_max": 1, "n_ctx": 0, **given, "version": log.other["version"]}


def _refused(log: Log, models: Sequence[Model]) -> Iterator[CheckLine]:
    """What could not be allocated, beside the cache that was asked for; buffers have up to 4 KiB of alignment."""
    figure = log.other.get("refused_bytes")
    if figure is None:
        return
    for model in models:
        try:
            settings = {**log.settings, "version": log.other["version"]}
            found = llama_cpp.cache_bytes(model, llama_cpp.Settings(**settings))
        except PlannerError:
            continue
        if abs(figure.value - found.total_bytes) <= figure.slack + 4096:
            rule = f"what could not be had is the cache of {found.n_ctx:,} cells, {found.total_bytes:,} B, and its alignment"
            yield CheckLine("refused_bytes", figure.value, found.total_bytes, True, rule, figure.text)
            return


def _fitted(log: Log) -> Iterator[str]:
    asked, fitted = log.other.get("n_ctx_asked"), log.other.get("n_ctx_fitted")
    if asked and fitted:
        yield (
            f"--fit lowered the context from {int(asked.value):,} to {int(fitted.value):,} tokens, a multiple of 256, so that"
            " the projected memory leaves the target free"
        )

