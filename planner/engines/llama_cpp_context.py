"""How llama.cpp rounds a context: cells, streams, batches, and the cells of sliding windows."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engines.llama_cpp_table import NAME, Era, table
from planner.errors import EngineRefusal
from planner.units import ceil_div, round_up


@dataclass(frozen=True)
class Asked:
    """What was asked for, all defaults filled in."""

    n_ctx: int
    n_seq_max: int
    n_batch: int
    n_ubatch: int
    swa_full: bool
    kv_unified: bool
    flash_attn: bool
    causal: bool = True


@dataclass(frozen=True)
class Context:
    """What llama.cpp makes of it: `cells` of each of `streams` streams; n_ctx is all of them, n_ctx_seq what one request has."""

    n_ctx: int
    n_ctx_seq: int
    cells: int
    streams: int
    n_seq_max: int
    n_ubatch: int
    unified: bool


def context(asked: Asked, era: Era, hybrid: bool) -> Context:
    """Cells and streams of the main cache.

    n_ctx = pad(asked, 256). unified: n_ctx cells in one stream. split: pad(n_ctx / n_seq_max, 256) cells in each of n_seq_max
    streams, so 100 cells for 8 sequences become 2,048. hybrid: in 2025 a model with states and attention had all n_ctx cells
    in each stream. n_batch is capped by the context before it is padded.
    Before streams (July 2025) all sequences share the cells; before November 2025 the padding is 32 without flash attention.
    Errors: EngineRefusal (more sequences than llama.cpp has room for).

    Source: src/llama-context.cpp 100-306 at 0c1e57098; src/llama-model.cpp 18066-18104 at 4227c9be4.
    """
    most = table()["max_sequences"]
    if asked.n_seq_max > most:
        raise EngineRefusal(f"llama.cpp keeps at most {most} sequences; n_seq_max is {asked.n_seq_max}", engine=NAME)
    n_batch = min(asked.n_ctx, asked.n_batch) if asked.causal else asked.n_batch
    n_batch = max(n_batch, era.min_batch)
    n_ubatch = min(n_batch, asked.n_ubatch or n_batch)
    pad = padding(era, asked.flash_attn)
    sequences = asked.n_seq_max
    unified = asked.kv_unified or era.streams == "one"
    if era.streams == "floor":
        total = round_up(asked.n_ctx, pad)
        cells = total if unified else round_up(total // sequences, pad)
    else:
        whole = unified or (hybrid and era.hybrid_streams == "whole")
        cells = round_up(asked.n_ctx if whole else ceil_div(asked.n_ctx, sequences), pad)
    streams = 1 if unified else sequences
    # Before streams the cells were shared, but a server still gave each slot its part of them.
    share = cells // sequences if era.streams == "one" and not asked.kv_unified else cells
    n_ubatch = n_ubatch if era.swa == "none" or era.swa["batch"] == "n_ubatch" else n_batch
    return Context(cells * streams, share, cells, streams, sequences, n_ubatch, unified)


def padding(era: Era, flash_attn: bool) -> int:
    """The multiple that cells are rounded up to."""
    if isinstance(era.pad, int):
        return era.pad
    return 256 if flash_attn else 32


def window_cells(window: int, context: Context, era: Era, asked: Asked) -> int:
    """Cells of each stream for layers that slide.

    pad(min(cells, window x (n_seq_max if unified else 1) + n_ubatch), 256): the window of every sequence that shares the
    stream, and room for the batch being processed. swa_full: as many cells as the main cache.

    Source: src/llama-kv-cache-iswa.cpp 69-81 at 0c1e57098; llama-kv-cache-unified-iswa.cpp 31 at 4227c9be4.
    """
    if asked.swa_full:
        return context.cells
    wanted = window * (context.n_seq_max if context.unified else 1) + context.n_ubatch + era.swa["plus"]
    pad = padding(era, asked.flash_attn) if era.swa["pad"] == "context" else era.swa["pad"]
    if era.swa["capped"] == "after":
        return min(context.cells, round_up(wanted, pad))
    return round_up(min(context.cells, wanted), pad)
