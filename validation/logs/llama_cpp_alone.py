"""A context of a llama.cpp log whose model is not known: its own figures against each other.

A cache is layers x cells x (row of keys + row of values). The row follows from the printed keys; it must be whole elements, and
give the printed size, the buffers of the devices, and the other caches of the same model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.engines.llama_cpp_table import BlockType, cache_types
from planner.units import MIB
from validation.logs.llama_cpp_compare import POOLS, line, total_cells
from validation.logs.llama_cpp_read import Cache, Context
from validation.logs.log import CheckLine

#: Rows of keys and values are heads of at least so many elements.
_STEP: Final = 32


def alone(context: Context) -> tuple[list[CheckLine], list[str]]:
    """The caches' lines, and what follows from them in words."""
    lines: list[CheckLine] = []
    rules = []
    rows: dict[str, tuple[int, int]] = {}
    for cache in context.caches:
        if cache.kind != "kv" or cache.types is None or "k_bytes" not in cache.figures:
            continue
        if exact := _printed_rows(cache):
            lines.append(exact)
            continue
        lines += _halves(cache)
        row = _row(cache)
        if row is None:
            continue
        cells, layers = total_cells(cache) or 0, cache.number("layers") or 0
        keys, values = (cache_types()[kind] for kind in cache.types)
        ours = layers * cells * (keys.row(row[0]) + values.row(row[1]))
        name = f"{cache.label} cache" if cache.label else "cache"
        rule = f"{name}: {layers} layers x {cells:,} cells x {keys.row(row[0]) + values.row(row[1]):,} B"
        lines.append(line(_name(cache), cache.figures["size_bytes"], ours, rule))
        rows[cache.label] = row
        rules.append(f"{rule}: a row of {row[0]:,} elements of keys in {keys.name} and {row[1]:,} of values in {values.name}")
    rules += _windows(context, rows)
    return lines, rules


def _name(cache: Cache) -> str:
    return f"{cache.label.lower().replace('-', '_').replace(' ', '_')}_kv_bytes".lstrip("_")


def _halves(cache: Cache) -> Iterator[CheckLine]:
    """Keys and values together are the size, and so are the buffers of all devices."""
    size, k, v = (cache.figures[name] for name in ("size_bytes", "k_bytes", "v_bytes"))
    slack = size.slack + k.slack + v.slack + size.value * 2.0**-22
    ours = int(k.value + v.value)
    rule = f"keys {k.text} + values {v.text} MiB; the buffers of the devices are the same bytes"
    yield CheckLine(f"{_name(cache)}_sum", size.value, ours, abs(size.value - ours) <= slack, rule, f"{size.text} MiB")


def _printed_rows(cache: Cache) -> CheckLine | None:
    """The cache from the rows of its layers, where the log prints them."""
    cells, layers = total_cells(cache), cache.number("layers")
    if not cells or not cache.rows or len(cache.rows) != layers or cache.types is None:
        return None
    keys, values = (cache_types()[kind] for kind in cache.types)
    if any(k % keys.block or v % values.block for k, v in cache.rows):
        return None
    ours = sum(keys.row(k) + values.row(v) for k, v in cache.rows) * cells
    rule = f"{layers} layers with the rows of keys and values that the log prints, x {cells:,} cells"
    return line(_name(cache), cache.figures["size_bytes"], ours, rule)


def _row(cache: Cache) -> tuple[int, int] | None:
    """Elements of a layer's row of keys and of values, if the printed digits leave one that is whole heads."""
    assert cache.types is not None
    cells, layers = total_cells(cache), cache.number("layers")
    if not cells or not layers or any(kind not in cache_types() for kind in cache.types):
        return None
    found = []
    for name, kind in (("k_bytes", cache_types()[cache.types[0]]), ("v_bytes", cache_types()[cache.types[1]])):
        figure = cache.figures[name]
        low, high = (_elements(value, layers * cells, kind) for value in (figure.low, figure.high))
        fits = [n for n in range(int(low // _STEP) * _STEP, int(high) + _STEP, _STEP) if low - 1e-6 <= n <= high + 1e-6]
        if len(fits) != 1 or fits[0] % kind.block:
            return None
        found.append(fits[0])
    return found[0], found[1]


def _elements(size: float, rows: int, kind: BlockType) -> float:
    return size / rows / kind.bytes * kind.block


def _windows(context: Context, rows: dict[str, tuple[int, int]]) -> Iterator[str]:
    """What the cells of the window say of the window."""
    cache = next((cache for cache in context.caches if POOLS.get(cache.label) == "window"), None)
    ubatch, cells = context.number("n_ubatch"), cache.number("cells") if cache else None
    if cache is None or not cells:
        return
    shared = (cache.number("seqs") or 1) if cache.number("streams") == 1 else 1
    if cells == next((c.number("cells") for c in context.caches if POOLS.get(c.label) == "base"), None):
        yield "the window's cells are as many as the others': the context is no longer than the window, or --swa-full was given"
    elif ubatch and cells > ubatch:
        low, high = max(1, -(-(cells - 255 - ubatch) // shared)), (cells - ubatch) // shared
        times = f"{shared} x window" if shared > 1 else "window"
        text = f"pad({times} + n_ubatch {ubatch:,}, 256) = {cells:,} cells"
        yield f"{text}: the window is of {low:,} to {high:,} positions"
    if len(set(rows.values())) == 1 and len(rows) > 1:
        yield "the window layers and the others have rows of the same width"


def compute_rule(context: Context, cells: int, heads: int) -> str | None:
    """Scratch without flash attention: the scores of all heads in float32."""
    ubatch = context.number("n_ubatch")
    if context.words.get("flash_attn") not in ("0", "disabled") or not (ubatch and heads):
        return None
    size = heads * cells * ubatch * 4
    return (
        f"without flash attention the compute buffer holds the scores: {heads} heads x {cells:,} cells x {ubatch} x 4 B"
        f" = {size / MIB:,.0f} MiB"
    )
