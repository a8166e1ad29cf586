"""One context of a llama.cpp log beside the planner's: every cache's cells, layers and bytes, keys, values and states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.engines import llama_cpp
from planner.engines.llama_cpp import LlamaCppBytes
from planner.engines.llama_cpp_table import cache_types
from planner.errors import PlannerError
from planner.model import Model
from planner.units import MIB, ceil_div
from validation.logs.llama_cpp_read import Cache, Context
from validation.logs.log import CheckLine, Compared, Figure

#: Which of our pools a printed cache is, by its label; compressed caches are compared in their sums.
POOLS: Final[Mapping[str, str]] = {
    "": "base", "non-SWA": "base", "SWA": "window", "main": "base", "DSA": "base", "indexer": "index",
}  # fmt: skip
_FLASH: Final = {"0": "off", "1": "on", "disabled": "off", "enabled": "on", "auto": "auto", "off": "off", "on": "on"}
#: llama.cpp computes the printed MiB in 32-bit floating point.
_FLOAT: Final = 2.0**-23


@dataclass(frozen=True)
class Pool:
    """What one cache takes by the planner: cells of all streams, and the bytes of each layer in it."""

    cells: int
    layers: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(self.layers)

    def __str__(self) -> str:
        """12 layers x 131,072 cells x 2,048 B."""
        rows = Counter(self.layers)
        if not self.cells:
            return " + ".join(f"{count} layers x {size:,} B" for size, count in rows.items())
        parts = [
            f"{count} layers x {self.cells:,} cells x {size // self.cells:,} B" if size % self.cells == 0
            else f"{count} layers x {size:,} B"
            for size, count in rows.items()
        ]  # fmt: skip
        return " + ".join(parts)


@dataclass(frozen=True)
class Result(Compared):
    """A context held to one model at one version: the lines, our allocation, and what was taken for the settings."""

    lines: tuple[CheckLine, ...]
    found: LlamaCppBytes | None
    settings: llama_cpp.Settings | None
    model: Model
    refusal: str = ""


def unknown_types(context: Context) -> list[str]:
    """Storage types in the log that llama.cpp does not have: those of a fork."""
    return sorted({kind for cache in context.caches for kind in cache.types or () if kind not in cache_types()})


def settings_of(context: Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a context ran with: as printed, else as its caches show, else as `given` on the command line."""
    caches = [cache for cache in context.caches if cache.kind == "kv"]
    first = caches[0] if caches else None
    cells = next((c for cache in caches if POOLS.get(cache.label) == "base" and (c := total_cells(cache))), None)
    seqs = max((n for cache in context.caches if (n := cache.number("seqs"))), default=None)
    streams = max((n for cache in caches if (n := cache.number("streams"))), default=None)
    n_seq_max = context.number("n_seq_max") or seqs or given.get("n_seq_max") or 1
    n_ubatch = context.number("n_ubatch") or given.get("n_ubatch") or 512
    found: dict[str, Any] = {
        "n_ctx": context.number("n_ctx") or cells or given.get("n_ctx"), "n_seq_max": n_seq_max, "n_ubatch": n_ubatch,
        "n_batch": context.number("n_batch") or given.get("n_batch") or max(2048, n_ubatch),
        "swa_full": context.full_windows or _same_cells(caches) or bool(given.get("swa_full")),
        "flash_attn": _FLASH.get(context.words.get("flash_attn", ""), given.get("flash_attn")),
        "n_rs_seq": context.number("n_rs_seq") or max((n for c in context.caches if (n := c.number("rs_seq"))), default=0),
    }  # fmt: skip
    unified = context.words.get("kv_unified")
    if unified is not None or streams is not None:
        found["kv_unified"] = unified == "true" if unified is not None else streams == 1 and n_seq_max > 1
    types = first.types if first and first.types else (given.get("cache_type_k", "f16"), given.get("cache_type_v", "f16"))
    found["cache_type_k"], found["cache_type_v"] = types
    return {key: value for key, value in found.items() if value is not None}


def _same_cells(caches: Sequence[Cache]) -> bool:
    by_label = {cache.label: cache.number("cells") for cache in caches}
    return "SWA" in by_label and by_label["SWA"] == by_label.get("non-SWA", by_label.get("DSA"))


def total_cells(cache: Cache) -> int | None:
    """Cells of all streams."""
    cells = cache.number("cells") or cache.number("kv_size")
    return cells * (cache.number("streams") or 1) if cells else None


def compare(model: Model, context: Context, settings: Mapping[str, Any]) -> Result:
    """The context's printed caches beside the planner's allocation for these settings."""
    try:
        asked = llama_cpp.Settings(**settings)
        found = llama_cpp.cache_bytes(model, asked)
    except PlannerError as error:
        return Result((), None, None, model, error.message)
    pools = pools_of(found)
    lines = [line for cache in context.caches for line in _cache_lines(cache, pools, found)]
    lines += _sums(context, found)
    return Result(tuple(lines), found, asked, model)


def pools_of(found: LlamaCppBytes) -> dict[str, Pool]:
    """The planner's allocation by cache: base, window, index, state; compressed caches have no pool of their own here."""
    rows: dict[str, list[int]] = {}
    cells: dict[str, int] = {}
    for layer in found.layers:
        for part in layer.parts:
            name = {"indexed": "index", "state": "state", "compressed": "compressed"}.get(part.kind)
            name = name or ("window" if part.window is not None else "base")
            rows.setdefault(name, []).append(part.bytes)
            cells.setdefault(name, part.positions)
    return {name: Pool(cells[name], tuple(sizes)) for name, sizes in rows.items()}


def _cache_lines(cache: Cache, pools: Mapping[str, Pool], found: LlamaCppBytes) -> Iterator[CheckLine]:
    size = cache.figures["size_bytes"]
    label = f"{cache.label} cache" if cache.label else "cache"
    if cache.kind == "state" or cache.kind == "compressor" or cache.label.startswith("DSV4"):
        return
    name = POOLS.get(cache.label)
    pool = pools.get(name or "", Pool(0, ()))
    if name is None or (pool.bytes == 0 and size.value == 0) or not (pool.layers or found.k_bytes + found.v_bytes):
        return
    if _state_as_kv(found, pools):
        return
    prefix = "" if not cache.label else cache.label.lower().replace("-", "_").replace(" ", "_") + "_"
    yield line(f"{prefix}kv_bytes", size, pool.bytes, f"{label}: {pool}")
    cells = total_cells(cache)
    if cells is not None and pool.cells:
        figure = cache.figures.get("cells") or cache.figures["kv_size"]
        streams = cache.number("streams") or 1
        each = f"{pool.cells // streams:,} cells in each of {streams} streams" if streams > 1 else f"{pool.cells:,} cells"
        yield CheckLine(f"{prefix}cells", cells, pool.cells, cells == pool.cells, f"{label}: {each}", figure.text)
    layers = cache.number("layers")
    if layers is not None and "cells" in cache.figures:
        ours = len(pool.layers)
        yield CheckLine(f"{prefix}layers", layers, ours, layers == ours, f"{label}: layers that keep one", str(layers))


def _state_as_kv(found: LlamaCppBytes, pools: Mapping[str, Pool]) -> bool:
    """Whether this version prints recurrent states as keys and values."""
    return set(pools) == {"state"} and not found.state_bytes


def _sums(context: Context, found: LlamaCppBytes) -> Iterator[CheckLine]:
    """Keys, values and states of all caches together."""
    caches = [cache for cache in context.caches if cache.kind == "kv"]
    for name, ours in (("k_bytes", found.k_bytes), ("v_bytes", found.v_bytes)):
        if printed := add(name, [cache.figures[name] for cache in caches if name in cache.figures]):
            which = "keys" if name == "k_bytes" else "values"
            more = f" of all {len(caches)} caches" if len(caches) > 1 else ""
            yield line(name, printed, ours, f"{which}{more}: {ours:,} B")
    states = [cache for cache in context.caches if cache.kind != "kv"]
    if states and (printed := add("state_bytes", [cache.figures["size_bytes"] for cache in states])):
        copies = (context.number("n_rs_seq") or max(cache.number("rs_seq") or 0 for cache in states)) + 1
        kept = f", {copies} copies for speculative decoding" if copies > 1 else ""
        layers = [sum(part.bytes for part in layer.parts if part.kind == "state") for layer in found.layers]
        count = len([size for size in layers if size])
        rule = f"recurrent states in float32: {count} of {len(layers)} layers keep one, {found.requests} sequences{kept}"
        yield line("state_bytes", printed, found.state_bytes, rule)


def add(name: str, figures: Sequence[Figure]) -> Figure | None:
    """Printed figures added up, their slack too."""
    if not figures:
        return None
    shown = " + ".join(figure.text for figure in figures)
    return Figure(name, sum(f.value for f in figures), sum(f.slack for f in figures), shown, figures[0].line)


def line(name: str, printed: Figure, ours: int, rule: str) -> CheckLine:
    """A printed amount beside ours; equal within the print's rounding."""
    slack = printed.slack + printed.value * _FLOAT + 1
    agrees = abs(printed.value - ours) <= slack
    return CheckLine(name, printed.value, ours, agrees, f"{rule} = {ours / MIB:,.2f} MiB", f"{printed.text} MiB")


def device_layers(cache: Cache, pool: Pool) -> list[str]:
    """How many layers each device holds of a cache whose layers are alike, where the buffers are whole layers."""
    if len(set(pool.layers)) != 1 or len(cache.devices) < 2:
        return []
    each, said = pool.layers[0], []
    for device, figure in cache.devices:
        count = round(figure.value / each) if each else 0
        if abs(count * each - figure.value) > figure.slack + MIB // 100:
            return []
        said.append(f"{device} {count}")
    return said


def best(results: Sequence[Result]) -> Result | None:
    """The result that all of agrees, else the first with most lines that agree."""
    if not results:
        return None
    return max(results, key=lambda result: (result.agrees, result.agreeing - len(result.lines) if result.lines else -1000))


def cells_rule(window: int, result: Result, streams: int) -> str:
    """How the cells of a window come about, in words with their numbers."""
    assert result.found is not None
    found, shared = result.found, result.found.requests if streams == 1 else 1
    wanted = window * shared + found.n_ubatch
    times = f"{shared} x {window:,}" if shared > 1 else f"{window:,}"
    return f"pad({times} + {found.n_ubatch:,}, 256) = {ceil_div(wanted, 256) * 256:,} cells: the window and one pass (n_ubatch)"

