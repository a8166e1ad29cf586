"""Many plans at once: context x requests x KV dtype x split x GPU, for one or many models, in columns.

Bytes are those of the scalar path, to the byte: `form_of` derives an engine's closed form once for a model and its settings,
holds it to the engine's own function at the corners of what is asked, and evaluates whole arrays. Where no closed form is
known to be exact, each distinct point is computed by the engine's own function, and the column `exact_form` says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from planner.cache import architecture_bytes, check_count
from planner.engines import engine as find_engine
from planner.engines import llama_cpp, sglang, tensorrt_llm, tgi, transformers, vllm
from planner.engines.base import EngineSettings
from planner.engines.vllm_setup import Setup, prepare
from planner.errors import InputError, PlannerError
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.sweep_forms import REFUSED, ClosedForm, Form, Integers, Tabulated
from planner.sweep_layers import architecture_form, transformers_form
from planner.sweep_llama_cpp import llama_cpp_form
from planner.sweep_pools import sglang_form, tensorrt_llm_form, tgi_form, vllm_form
from planner.sweep_table import Table

__all__ = ["ARCHITECTURE", "REFUSED", "Grid", "Table", "Variant", "form_of", "points", "sweep"]

#: The engine's name under which the architecture alone is counted.
ARCHITECTURE = "architecture"
#: Where a closed form is held to the scalar path before it is used, besides the corners that are asked for.
_CHECK = (1, 1)

#: What is left for the cache on each GPU: (model, engine, settings, gpu) -> bytes. PlannerError where that is not known.
Budget = Callable[[Model, str, Any, Gpu], int]


@dataclass(frozen=True)
class Variant:
    """One way to run a model. settings: the engine's own; None for the architecture. kv_cache_dtype: as the column says it."""

    engine: str
    settings: EngineSettings | None = None
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1


@dataclass(frozen=True)
class Grid:
    """What to sweep: every model under every variant, on every GPU, at every context and count of requests."""

    models: Sequence[Model]
    variants: Sequence[Variant]
    tokens: Sequence[int]
    requests: Sequence[int] = (1,)
    gpus: Sequence[Gpu | str] = field(default=())
    encoder_tokens: int = 0

    @property
    def points(self) -> int:
        return len(self.models) * len(self.variants) * max(1, len(self.gpus)) * len(self.tokens) * len(self.requests)


def form_of(
    model: Model, variant: Variant, gpu: Gpu | None = None, encoder_tokens: int = 0, corners: Iterable[tuple[int, int]] = ()
) -> Form:
    """The closed form of cache bytes on the fullest rank, checked at `corners`, or the scalar path tabulated.

    Errors: PlannerError where the engine refuses the model or the settings whatever the point; InputError.
    """
    scalar: Callable[[int, int], int]
    found: ClosedForm | str
    if isinstance(variant.settings, vllm.Settings):
        setup = prepare(model, variant.settings, gpu or find_gpu(vllm.DEFAULT_GPU))  # laid out once for all that follows
        scalar = partial(_vllm_bytes, setup, encoder_tokens)
        found = vllm_form(setup)
    else:
        scalar = _scalar(model, variant, encoder_tokens)
        found = _closed(model, variant, encoder_tokens)
    if isinstance(found, str):
        return Tabulated(scalar, found)
    for tokens, requests in dict.fromkeys((_CHECK, *corners)):
        if int(found.bytes(np.array([tokens]), np.array([requests]))[0]) != scalar(tokens, requests):
            return Tabulated(scalar, "its closed form is not that of the engine here; each point is computed by the engine")
    return found


def _vllm_bytes(setup: Setup, encoder_tokens: int, tokens: int, requests: int) -> int:
    return vllm.setup_bytes(setup, tokens, requests, encoder_tokens).total_bytes


def _scalar(model: Model, variant: Variant, encoder_tokens: int) -> Callable[[int, int], int]:
    if variant.engine == ARCHITECTURE:
        dtype = None if variant.kv_cache_dtype == "auto" else variant.kv_cache_dtype
        return lambda t, r: architecture_bytes(model, t, r, kv_cache_dtype=dtype, encoder_tokens=encoder_tokens).total_bytes
    engine = find_engine(variant.engine)
    return lambda t, r: engine.cache_bytes(model, variant.settings, t, r, encoder_tokens).total_bytes


def _closed(model: Model, variant: Variant, encoder_tokens: int) -> ClosedForm | str:
    settings = variant.settings
    if variant.engine == ARCHITECTURE:
        return architecture_form(model, None if variant.kv_cache_dtype == "auto" else variant.kv_cache_dtype, encoder_tokens)
    if isinstance(settings, sglang.Settings):
        return sglang_form(model, settings, encoder_tokens)
    if isinstance(settings, tensorrt_llm.Settings):
        return tensorrt_llm_form(model, settings, encoder_tokens)
    if isinstance(settings, tgi.Settings):
        return tgi_form(model, settings)
    if isinstance(settings, llama_cpp.Settings):
        return llama_cpp_form(model, settings)
    if isinstance(settings, transformers.Settings):
        return transformers_form(model, settings, encoder_tokens)
    return f"the sweep has no closed form of {variant.engine}"


def points(form: Form, tokens: Sequence[int] | Integers, requests: Sequence[int] | Integers) -> Integers:
    """Bytes at each pair of tokens and requests, as int64. InputError for counts below 1, or beyond 64 bits."""
    if len(tokens) != len(requests):
        raise InputError(f"{len(tokens)} counts of tokens and {len(requests)} of requests are no pairs", field="tokens")
    return form.bytes(_counts(tokens, "tokens"), _counts(requests, "requests"))


def _counts(values: Sequence[int] | Integers, name: str) -> Integers:
    try:
        found = np.asarray(values, np.int64) if len(values) else np.zeros(0, np.int64)
    except (OverflowError, TypeError, ValueError):
        raise InputError(f"{name} are not all whole numbers below 2**63", field=name) from None
    if not np.array_equal(found, values) or np.asarray(values).dtype == bool:
        raise InputError(f"{name} must be whole numbers", field=name)
    if found.size:
        check_count(int(found.min()), name, 1)
        check_count(int(found.max()), name, 1)
    return found


def sweep(grid: Grid, budget: Budget | None = None, progress: Callable[[int, int], None] | None = None) -> Table:
    """All points of the grid, in columns; see `Table`.

    budget: what each GPU has for the cache, asked once for each model, variant and GPU; None: only bytes are computed.
    progress: called with points done and points in all. What an engine refuses is a row with its reason, not an error.
    Errors: InputError for an empty grid, counts that cannot be, or an unknown GPU.
    """
    tokens, requests = _counts(grid.tokens, "tokens"), _counts(grid.requests, "requests")
    if not grid.points:
        raise InputError("nothing to sweep: give at least one model, engine, context and count of requests", field="tokens")
    check_count(grid.encoder_tokens, "encoder_tokens")
    cards: list[Gpu | None] = [find_gpu(each) if isinstance(each, str) else each for each in grid.gpus]
    each_t, each_r = np.repeat(tokens, len(requests)), np.tile(requests, len(tokens))
    table, forms = Table(grid.points, each_t, each_r), _Forms(grid, (int(tokens.max()), int(requests.max())))
    for model, variant, card in itertools.product(grid.models, grid.variants, cards or [None]):
        row = {
            "model": model.name, "engine": variant.engine, "kv_cache_dtype": variant.kv_cache_dtype,
            "tensor_parallel_size": variant.tensor_parallel_size, "pipeline_parallel_size": variant.pipeline_parallel_size,
            "gpu": card.id if card else "",
        }  # fmt: skip
        try:
            form = forms.of(model, variant, card)
            size = form.bytes(each_t, each_r)
            bad = np.flatnonzero(size < 0)
            reason = forms.refusal(model, variant, int(each_t[bad[0]]), int(each_r[bad[0]])) if bad.size else ""
            room, unknown = _room(budget, model, variant, card)
            table.fill(row, size, room, form.exact, reason, unknown)
        except PlannerError as refused:
            table.refuse(row, refused.message)
        if progress:
            progress(table.filled, grid.points)
    return table


def _room(budget: Budget | None, model: Model, variant: Variant, card: Gpu | None) -> tuple[int | None, str]:
    """What the GPU has for the cache, or None and why that is not known."""
    if budget is None or card is None:
        return None, ""
    try:
        return budget(model, variant.engine, variant.settings, card), ""
    except PlannerError as refused:
        return None, refused.message


class _Forms:
    """Forms of a grid, derived once for each model, variant and, where the engine's bytes depend on it, GPU."""

    def __init__(self, grid: Grid, corner: tuple[int, int]) -> None:
        self.grid, self.corner = grid, corner
        self._last: tuple[Any, Form | PlannerError] | None = None

    def of(self, model: Model, variant: Variant, card: Gpu | None) -> Form:
        """PlannerError where the engine refuses it, again for each GPU."""
        key = (id(model), id(variant), card if variant.engine == "vllm" else None)
        if self._last is None or self._last[0] != key:
            try:
                found: Form | PlannerError = form_of(model, variant, card, self.grid.encoder_tokens, self._corners())
            except PlannerError as refused:
                found = refused
            self._last = (key, found)
        if isinstance(self._last[1], PlannerError):
            raise self._last[1]
        return self._last[1]

    def _corners(self) -> list[tuple[int, int]]:
        return [(self.corner[0], min(self.grid.requests))]

    def refusal(self, model: Model, variant: Variant, tokens: int, requests: int) -> str:
        """The engine's reason for refusing a point."""
        try:
            _scalar(model, variant, self.grid.encoder_tokens)(tokens, requests)
        except PlannerError as refused:
            return refused.message
        return "refused"
