"""What every engine answers, and how its settings are declared."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from planner.cache import CacheBytes
from planner.errors import InputError, shown
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model


class EngineSettings(BaseModel):
    """An engine's settings under its own flag names. Unknown names and values of a wrong type are InputError."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)

    #: Other spellings of a setting that the engine, or another engine's users, know it by.
    SPELLINGS: ClassVar[dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, values: dict[str, object]) -> dict[str, object]:
        return {cls.SPELLINGS.get(key, key): value for key, value in values.items()}

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = error.errors()[0]
            name = ".".join(str(step) for step in problem["loc"]) or "settings"
            raise InputError(f"{name}: {problem['msg']} (given {shown(problem.get('input'))})", field=name) from None


@dataclass(frozen=True)
class PoolGroup:
    """Layers that share one block table: which, of which kind, and the bytes of one of their blocks in one layer."""

    kind: str
    layers: tuple[int, ...]
    block_size: int
    page_bytes: int


@dataclass(frozen=True)
class Pool:
    """What an engine makes of a memory budget on one GPU; names are those of the engine's own log.

    fits: one request of max_model_len fits. num_blocks: blocks of the pool. bytes_per_block: of the binding pipeline stage.
    tokens: the "KV cache size" that the engine prints. max_concurrency: requests of max_model_len at once.
    max_model_len: as asked, or the largest that fits where it was to be solved.
    """

    fits: bool
    num_blocks: int
    bytes_per_block: int
    tokens: int
    max_concurrency: float
    max_model_len: int
    blocks_per_request: int = 0
    bytes_per_block_by_stage: tuple[int, ...] = ()
    groups: tuple[PoolGroup, ...] = ()
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """An engine's name, the versions whose rules are known with their dates, its settings, and what it allocates."""

    name: str
    VERSIONS: dict[str, str]
    Settings: type[EngineSettings]

    def cache_bytes(
        self,
        model: Model,
        settings: Any = None,
        tokens: int = 0,
        requests: int = 1,
        encoder_tokens: int = 0,
        prompt_tokens: int | None = None,
    ) -> CacheBytes: ...


def card_of(gpu: str | Gpu | None) -> Gpu | None:
    """The accelerator itself, or of a name or an amount of memory; None where none is said. Errors: InputError for the name."""
    return gpu if isinstance(gpu, Gpu) else find_gpu(gpu) if gpu else None


def allocated(
    model: Model,
    engine: Engine,
    settings: Any,
    tokens: int,
    requests: int,
    gpu: str | Gpu | None = None,
    encoder_tokens: int = 0,
    prompt_tokens: int | None = None,
) -> CacheBytes:
    """The engine's cache_bytes, on `gpu` where the engine's answer depends on it (vLLM's kernels decide its block size)."""
    more: dict[str, Any] = {"gpu": gpu} if "gpu" in inspect.signature(engine.cache_bytes).parameters else {}
    return engine.cache_bytes(model, settings, tokens, requests, encoder_tokens, prompt_tokens, **more)
