"""What a running server says of itself, read from its endpoints, and the lines that compare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from planner.budget import budget
from planner.engines import engine
from planner.engines.base import Pool
from planner.errors import EngineRefusal, InputError
from planner.hardware import Gpu
from planner.model import Model
from validation.logs.log import CheckLine

AMPLE: Final = 1 << 50  # more bytes than any pool has: where the server's own count is the limit


@dataclass(frozen=True)
class Told:
    """A server's own words.

    model: the name that it serves; root: where it loaded that from, a Hub id or a path on its machine. described: the model
    itself where the server describes it. settings: under the names of planner.engine(engine).Settings. figures: as printed.
    other: what an engine's comparison needs besides. notes: what must be said of these words.
    """

    engine: str
    version: str | None = None
    model: str | None = None
    root: str | None = None
    described: Model | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def compared(
    name: str, printed: float, ours: float, rule: str, agrees: bool | None = None, shown: str | None = None
) -> CheckLine:
    """A figure beside ours; equal unless `agrees` says how they compare."""
    return CheckLine(name, printed, ours, printed == ours if agrees is None else agrees, rule, shown)


def word(value: object) -> str | None:
    """A name as a server gives it, without what would move a terminal's cursor; None where it is empty or no text."""
    found = "".join(letter for letter in value[:1000] if letter.isprintable()).strip() if isinstance(value, str) else ""
    return found or None


def whole(value: object) -> int | None:
    """A count as JSON or a label gives it, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = int(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= 10**15 else None


def by_budget(
    told: Told, model: Model, settings: Any, gpu: Gpu | None, name: str, printed: int, missing: list[str]
) -> CheckLine | None:
    """The pool's blocks (num_gpu_blocks) or tokens as the planner's own budget of the GPU gives them, agreeing in its range.

    None, with what to say added to `missing`, where the GPU or the model's weights are not known.
    """
    if gpu is None:
        missing.append("--gpu: the accelerator, to work out how large the pool would be on it")
        return None
    known: Any = engine(told.engine)
    try:
        found = budget(model, told.engine, settings, gpu)
        pools = [_pool(known, model, settings, size, gpu) for size in (found.kv_low, found.kv_bytes, found.kv_high)]
    except (EngineRefusal, InputError) as error:
        missing.append(f"the pool's size cannot be worked out: {error.message}")
        return None
    low, ours, high = (pool.num_blocks if name == "num_gpu_blocks" else pool.tokens for pool in pools)
    rule = (
        f"estimated: what {gpu.name} has left after weights, activations and graphs gives {low:,} to {high:,}"
        + ("" if low <= printed <= high else "; outside it, something else is on the card or a term is not as usual")
    )
    return compared(name, printed, ours, rule, agrees=low <= printed <= high)


def _pool(known: Any, model: Model, settings: Any, size: int, gpu: Gpu) -> Pool:
    found: Pool = known.pool(model, settings, budget_bytes=max(0, size), gpu=gpu)
    return found
