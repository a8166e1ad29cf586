"""What transformers' cache implementations do, in the page's words."""

from __future__ import annotations

from typing import Any

from planner.cache import CacheBytes
from planner.dtypes import storage_format
from planner.layers import State
from planner.model import Model
from ui import format as fmt
from ui.i18n import t


def reasons(model: Model, found: CacheBytes, settings: Any) -> list[str]:
    """Why `found`, of the transformers engine with these settings, is what it is. settings: transformers' own."""
    name = settings.cache_implementation
    dtype = model.dtype if settings.dtype == "auto" else settings.dtype
    caches = [cache for layer in model.layers_for("transformers") for cache in layer.caches]
    told = []
    if "own_cache" in model.cache_rules and name != "dynamic":
        told.append(t("implementation.own"))
        name = "dynamic"
    if name == "quantized":
        told.append(_quantized(settings, dtype))
    if name in ("static", "offloaded_static"):
        length = max(found.tokens, settings.max_cache_len or 0)
        told.append(t("implementation.static", length=f"{length:,}"))
        if any(cache.window is not None and cache.window <= length for cache in caches):
            told.append(t("implementation.static_window"))
    if name.startswith("offloaded"):
        told.append(t("implementation.offloaded"))
    if name == "dynamic" and not told:
        told.append(t("implementation.dynamic"))
    if settings.dtype not in ("auto", model.dtype) and any(isinstance(cache, State) for cache in caches):
        told.append(t("implementation.states", dtype=settings.dtype))
    if found.storage_bytes != found.total_bytes:
        told.append(t("implementation.storage", storage=fmt.size(found.storage_bytes - found.total_bytes)))
    return told


def _quantized(settings: Any, dtype: str) -> str:
    if settings.backend == "fp8":
        return t("implementation.quantized_fp8")
    return t(
        "implementation.quantized", nbits=settings.nbits, group=settings.q_group_size,
        scale=storage_format(dtype).bits // 8, residual=settings.residual_length - 1,
    )  # fmt: skip
