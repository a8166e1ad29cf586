"""What Ollama's own engine (0.6 to 0.29) and its estimates before it make of a context: rules that planner.engines does not have,
because nothing can be planned with them any more.

Source: kvcache/causal.go, kvcache/recurrent.go and fs/ggml/ggml.go (GraphSize) of Ollama 0.5 to 0.29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from planner.engines.llama_cpp_memory import row_elements, state_elements
from planner.engines.llama_cpp_table import architectures, cache_types, eras
from planner.layers import IndexKeys, State
from planner.model import Model
from planner.units import MIB, round_up

#: Bytes an element that the estimate takes, whatever the blocks' scales add.
ESTIMATED: Final = {"f16": 2.0, "q8_0": 1.0, "q4_0": 0.5, "f32": 4.0}
#: Architectures whose window layers keep this many positions instead of the window.
_KEPT: Final = {"gpt-oss": 4096, "gemma4": 4096}


@dataclass(frozen=True)
class Own:
    """Bytes of the cache, and how they come about."""

    bytes: int
    rule: str


def own_engine(model: Model, n_ctx: int, slots: int, batch: int, kind: str) -> Own:
    """What the engine of its own allocates: whole context for every slot, a window and a batch for window layers, states.

    cells = n_ctx (of all slots), windows: pad(slots x window + batch, 256), one position more in each slot where there are
    several; gpt-oss and gemma4 keep 4,096 positions instead of their window. Keys and values are stored in one type, also of
    latent layers. n_ctx: KvSize of the log, all slots together.
    """
    stored, era = cache_types()[kind], eras()[-1]
    parts: dict[tuple[int, int], int] = {}
    arch = architectures().of(model) or model.model_type
    total = states = 0
    for layer in model.layers_for("llama.cpp"):
        for cache in layer.caches:
            if isinstance(cache, State):
                convolution, recurrent = state_elements(cache)
                states += (convolution + recurrent) * 4 * slots
                continue
            if isinstance(cache, IndexKeys):
                continue
            cells = round_up(n_ctx, 256)
            if cache.window is not None:
                window = _KEPT.get(arch, cache.window + (1 if slots > 1 else 0))
                cells = min(cells, round_up(slots * window + batch, 256)) if cache.window < n_ctx // slots else cells
            keys, values = row_elements(cache, era)
            row = stored.row(keys) + stored.row(values)
            total += cells * row
            parts[cells, row] = parts.get((cells, row), 0) + 1
    said = [f"{count} layers x {cells:,} x {row:,} B" for (cells, row), count in parts.items()]
    said += [f"states {states / MIB:,.2f} MiB"] if states else []
    return Own(total + states, " + ".join(said) + f" = {(total + states) / MIB:,.1f} MiB in {kind}")


def estimate(model: Model, n_ctx: int, slots: int, batch: int, kind: str) -> Own:
    """memory.required.kv: an estimate before loading, with 1 and 0.5 bytes an element for q8_0 and q4_0, which are 1.0625 and
    0.5625, and recurrent states counted once. n_ctx: of all slots together.
    """
    era, size, states = eras()[0], 0.0, 0
    arch = architectures().of(model) or model.model_type
    each = ESTIMATED.get(kind, 2.0)
    parts: dict[tuple[int, int], int] = {}
    for layer in model.layers_for("llama.cpp"):
        for cache in layer.caches:
            if isinstance(cache, State):
                states += sum(state_elements(cache)) * 4
                continue
            if isinstance(cache, IndexKeys):
                continue
            cells = n_ctx
            if cache.window is not None and arch in ("gpt-oss", "gemma3", "gemma3n"):
                cells = min(n_ctx, slots * _KEPT.get(arch, cache.window) + batch)
            row = sum(row_elements(cache, era))
            size += cells * row * each
            parts[cells, row] = parts.get((cells, row), 0) + 1
    said = " + ".join(f"{count} layers x {cells:,} x {row:,}" for (cells, row), count in parts.items())
    return Own(int(size) + states, f"{said} elements x {each:g} B = {(size + states) / MIB:,.1f} MiB, an estimate")
