"""What every engine answers, and how its settings are declared."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from planner.cache import CacheBytes
from planner.errors import InputError
from planner.model import Model


class EngineSettings(BaseModel):
    """An engine's settings under its own flag names. Unknown names and values of a wrong type are InputError."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = error.errors()[0]
            name = ".".join(str(step) for step in problem["loc"]) or "settings"
            raise InputError(f"{name}: {problem['msg']} (given {problem.get('input')!r:.60})", field=name) from None


class Engine(Protocol):
    """An engine's name, its settings class, and the bytes that it allocates for requests."""

    name: str
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
