"""Closed form of what llama.cpp allocates at start: cells of the main cache and of windows, and states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engines import llama_cpp
from planner.engines.llama_cpp_checks import flash_attention
from planner.engines.llama_cpp_context import Asked, padding
from planner.engines.llama_cpp_table import Era, architectures, cache_types, check_known, era_of, table
from planner.layers import Compressed, State
from planner.model import Model
from planner.sweep_forms import ClosedForm, Integers, Quantity, Terms, ceil_div, round_up

#: Where costs are read off: a context large enough for every pool to have cells.
_SAMPLE_CELLS, _SAMPLE_SEQUENCES = 1 << 20, 2


def llama_cpp_form(model: Model, settings: llama_cpp.Settings) -> ClosedForm | str:
    """sum over layers of cells x bytes of a cell, and sequences x bytes of a state.

    The costs are read off `llama_cpp.cache_bytes` at one point, where they divide exactly; the cells are those of
    `llama_cpp_context.context` and `window_cells`, over arrays. A text, why not: Ollama's own defaults, a context that is
    fixed by the settings, and compressed caches.
    """
    if settings.front_end == "ollama" or settings.n_ctx is not None:
        whose = "Ollama chooses its own context" if settings.front_end == "ollama" else "n_ctx is fixed"
        return f"{whose}; each point is computed by the engine's own function"
    era = era_of(settings.version)
    arch = check_known(architectures().of(model), model, era)
    layers = llama_cpp._layers(model, settings, arch)
    kinds = {type(cache) for layer in layers for cache in layer.caches}
    if Compressed in kinds:
        return "compressed caches have pools of their own; each point is computed by the engine's own function"
    flash = flash_attention(llama_cpp._flash_asked(settings, era), era, arch, layers, cache_types()[settings.cache_type_v])
    sequences = settings.n_seq_max or _SAMPLE_SEQUENCES
    sample = settings.model_copy(update={"n_ctx": _SAMPLE_CELLS * sequences, "n_seq_max": sequences})
    asked, _ = llama_cpp._asked(model, sample, arch, flash)
    key_only = architectures().has("per_sequence_key_only", arch) and settings.ctx_type != "mtp"
    hybrid = State in kinds and len(kinds) > 1
    cells = _Cells(settings.n_seq_max, asked, era, key_only, hybrid)
    terms = Terms()
    for layer in llama_cpp.cache_bytes(model, sample).layers:
        for part in layer.parts:
            if part.kind == "state":
                terms.together("sequences", cells.sequences, part.bytes // sequences)
            elif part.positions and part.window is None and cells.alike:
                terms.each("own", cells.own, part.bytes // part.positions * cells.pad)
            elif part.positions:
                terms.together(part.window, cells.of(part.window), part.bytes // part.positions)
    return terms.form(f"cells as of {era.name}", None if settings.n_seq_max else int(table()["max_sequences"]))


@dataclass(frozen=True)
class _Cells:
    """`llama_cpp_context` over arrays. key_only: each sequence has a stream of its own, unified or not."""

    n_seq_max: int | None
    asked: Asked
    era: Era
    key_only: bool
    hybrid: bool

    @property
    def unified(self) -> bool:
        return self.asked.kv_unified or self.era.streams == "one"

    @property
    def pad(self) -> int:
        return padding(self.era, self.asked.flash_attn)

    @property
    def alike(self) -> bool:
        """Whether each request has cells of its own in the main cache, which depend on its tokens alone."""
        return not self.whole and self.n_seq_max is None

    @property
    def whole(self) -> bool:
        """Whether one stream has the cells of all sequences: tokens x sequences, padded; else pad(tokens).

        Where the padded whole is shared out, floor(pad(t s) / s) lies between t and pad(t), because pad(t) s is a multiple of
        the padding too: padded again it is pad(t).
        """
        return self.unified or (self.era.streams != "floor" and self.hybrid and self.era.hybrid_streams == "whole")

    def own(self, tokens: Integers) -> Integers:
        """Paddings of a request that has cells of its own."""
        return ceil_div(tokens, self.pad)

    def sequences(self, tokens: Integers, requests: Integers) -> Integers:
        return requests if self.n_seq_max is None else np.full_like(requests, self.n_seq_max)

    def _n_ctx(self, tokens: Integers, requests: Integers) -> Integers:
        return tokens * self.sequences(tokens, requests)

    def cells(self, tokens: Integers, requests: Integers) -> Integers:
        """Cells of one stream of the main cache."""
        return round_up(self._n_ctx(tokens, requests) if self.whole else tokens, self.pad)

    def of(self, window: int | None) -> Quantity:
        """Cells of all streams, of the main cache or of a window."""

        def all_cells(tokens: Integers, requests: Integers) -> Integers:
            cells = self.cells(tokens, requests)
            if window is not None:
                cells = self._window(window, cells, tokens, requests)
            return cells if self.unified and not self.key_only else cells * self.sequences(tokens, requests)

        return all_cells

    def _window(self, window: int, cells: Integers, tokens: Integers, requests: Integers) -> Integers:
        if self.asked.swa_full:
            return cells
        together = self.unified and not self.key_only
        wanted = self._batch(tokens, requests) + self.era.swa["plus"]
        wanted = wanted + (window * self.sequences(tokens, requests) if together else window)
        pad = self.pad if self.era.swa["pad"] == "context" else int(self.era.swa["pad"])
        if self.era.swa["capped"] == "after":
            return np.asarray(np.minimum(cells, round_up(wanted, pad)))
        return round_up(np.minimum(cells, wanted), pad)

    def _batch(self, tokens: Integers, requests: Integers) -> Integers:
        """Tokens of the batch that a window's cells have room for."""
        n_ctx = self._n_ctx(tokens, requests)
        batch = np.minimum(n_ctx, self.asked.n_batch) if self.asked.causal else np.full_like(n_ctx, self.asked.n_batch)
        batch = np.maximum(batch, self.era.min_batch)
        if self.era.swa["batch"] == "n_ubatch" and self.asked.n_ubatch:
            batch = np.minimum(batch, self.asked.n_ubatch)
        return np.asarray(batch)
