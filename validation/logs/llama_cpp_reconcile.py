"""Which model, version and settings a context of a llama.cpp log agrees with, and what differs where none does.

The model: the file's own metadata as the log prints it, else the caller's or the catalogue's. What the log does not say is
inferred only where one value makes every figure agree, and is said to be inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.engines.llama_cpp_table import era_of
from planner.model import Model
from validation.logs.llama_cpp_compare import Result, best, compare, settings_of
from validation.logs.llama_cpp_eras import possible
from validation.logs.llama_cpp_read import Cache, Context
from validation.logs.models import described

#: What is tried for a setting that the log does not print, and to name what differs where one is printed.
TRIED: Final[Mapping[str, Sequence[Any]]] = {
    "n_rs_seq": tuple(range(9)),
    "n_ubatch": (64, 128, 256, 512, 1024, 2048, 4096, 8192),
    "swa_full": (True, False),
    "kv_unified": (True, False),
    "flash_attn": ("off", "on"),
    "ctx_type": ("mtp",),
}
#: The words of a context by which these are printed.
_PRINTED: Final = {"n_rs_seq": "n_rs_seq", "n_ubatch": "n_ubatch", "kv_unified": "kv_unified", "flash_attn": "flash_attn"}
#: No more models of the catalogue than this are named.
_MOST: Final = 4


@dataclass(frozen=True)
class Reconciled:
    """A context with the result that is shown. notes: what was inferred, or what would make it agree."""

    context: Context
    result: Result
    notes: tuple[str, ...] = ()


def reconcile(models: Sequence[Model], context: Context, given: Mapping[str, Any], version: str | None) -> Reconciled | None:
    """The first model that agrees, else the best of what was tried; None where no model can be held to it."""
    tried: list[Reconciled] = []
    for model in models:
        base = settings_of(context, given)
        versions = possible(version, context.shapes)
        results = [compare(model, context, {**base, "version": name}) for name in versions]
        found = best(results)
        if found is None:
            continue
        if found.agrees:
            return Reconciled(context, found, (*_build_note(version, versions), *_version_note(found, version, results)))
        changed = _changed(model, context, base, versions)
        if changed is not None and changed.notes[0].startswith("inferred"):
            return changed
        tried.append(Reconciled(context, found, changed.notes if changed else ()))
    if not tried:
        return None
    return max(tried, key=lambda one: one.result.agreeing - len(one.result.lines) if one.result.lines else -1000)


def _build_note(version: str | None, versions: Sequence[str]) -> tuple[str, ...]:
    """From when on llama.cpp prints such lines, where the log has no build."""
    first = era_of(versions[-1])
    if version is not None or not first.build:
        return ()
    return (f"the build is not printed; its lines are those of b{first.build} ({first.date:%B %Y}) and later",)


def _version_note(found: Result, version: str | None, results: Sequence[Result]) -> tuple[str, ...]:
    """Which rules were taken, where the log has no version and they do not all agree."""
    if version is not None or found.settings is None or all(result.agrees for result in results):
        return ()
    era = era_of(found.settings.version)
    return (f"inferred: the rules of about {era.date}, {era.name}; of other versions the figures differ",)


def _changed(model: Model, context: Context, base: Mapping[str, Any], versions: Sequence[str]) -> Reconciled | None:
    """One change of a setting that makes everything agree: inferred where the log does not print it, else what differs."""
    for name, value in _changes(base):
        results = [compare(model, context, {**base, "version": version, name: value}) for version in versions]
        found = best(results)
        if found is not None and found.agrees:
            printed = _PRINTED.get(name) in context.words
            if printed:
                note = f"differs: the log prints {name} {base.get(name)}, and the sizes are those of {name} {value}"
            elif name == "ctx_type":
                note = "inferred: a draft (MTP) context, which keeps the draft layers alone"
            else:
                note = f"inferred: {name} {value}, which the log does not print; of those tried it alone gives every size"
            return Reconciled(context, found, (note,))
    return None


def _changes(base: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, values in TRIED.items():
        yield from ((name, value) for value in values if base.get(name) != value)


def catalogue_models(context: Context) -> list[Model]:
    """Models of the catalogue whose numbers of layers are those of the printed caches."""
    wanted = {cache.label: cache.number("layers") for cache in context.caches if cache.kind == "kv"}
    if not wanted or None in wanted.values():
        return []
    states = any(cache.kind == "state" for cache in context.caches)
    # Of a hybrid only some layers have keys and values, and which are many is not printed.
    every = None if states or "indexer" in wanted else sum(count for count in wanted.values() if count)
    return [model for model in described(every) if _layers(model, states) == wanted]


def _layers(model: Model, states: bool) -> dict[str, int] | None:
    """Layers by the label of the cache that keeps them; None for a model with states where the log has none, or the reverse."""
    kinds = [cache.kind for layer in model.layers_for("llama.cpp") for cache in layer.caches]
    if ("state" in kinds) != states:
        return None
    windowed = sum(kind in ("sliding", "chunked") for kind in kinds)
    whole = sum(kind in ("full", "latent") for kind in kinds)
    if windowed:
        return {"non-SWA": whole, "SWA": windowed}
    return {"": whole} if "indexed" not in kinds else {"main": whole, "indexer": kinds.count("indexed")}


def by_figures(context: Context, given: Mapping[str, Any], version: str | None) -> list[Reconciled]:
    """The context held to each model of the catalogue that agrees with all of it."""
    found = []
    for model in catalogue_models(context):
        one = reconcile([model], context, given, version)
        if one is not None and one.result.agrees:
            found.append(one)
        if len(found) == _MOST:
            break
    return found


def sized(context: Context) -> list[Cache]:
    """Caches that were really allocated: a dry run's are sized only."""
    return [cache for cache in context.caches if not cache.dry]
