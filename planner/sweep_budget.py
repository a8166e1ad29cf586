"""What each GPU of a sweep has for the cache."""

from __future__ import annotations

from typing import Any

from planner.budget import budget
from planner.errors import InputError
from planner.hardware import Gpu
from planner.model import Model
from planner.sweep import ARCHITECTURE


def cache_budget(model: Model, engine: str, settings: Any, gpu: Gpu) -> int:
    """Bytes of one GPU for the cache, below 0 where not even the weights fit: the engine's own budget; for the architecture what
    the weights leave, nothing else counted.

    Errors: InputError where the weights are not known, EngineRefusal.
    Source: `planner.budget.budget`.
    """
    if engine != ARCHITECTURE:
        return budget(model, engine, settings, gpu).kv_bytes
    if model.weight_bytes is None:
        raise InputError(f"the weights of {model.name} are not known, so what they leave is not either", field="model")
    return gpu.usable_bytes - model.weight_bytes
