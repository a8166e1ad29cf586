"""Everything that can go wrong with a person's input or a source, as one tree.

PlannerError
├── InputError                a value given by the person: token count, model id, access token, path
├── ConfigError               a config.json whose content cannot be right
├── UnsupportedArchitecture   a model that no family row describes
├── EngineRefusal             what an engine refuses whatever the memory
├── DataError                 one of the planner's own tables is broken
└── HubError                  a model that could not be fetched
    ├── NotFound, Gated, NoConfig, NoRevision, Disabled, NoWeights
    ├── RateLimited, Unavailable, Offline, NotAHub
    └── TooLarge, BadContent

Each has a stable `code`, the plain `fields` it is about, and one English line that says what was wrong and what would be
right. `exit_status` is what a shell gets: 2 for bad input, 3 for a source that is not available. "Does not fit" is a
verdict, not an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


def shown(value: object, length: int = 60) -> str:
    """A value as a message may carry it: its repr, cut; a number too long to print is said to be one."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= length else f"{text[: length - 1]}…"


class PlannerError(Exception):
    """The root: catch this to report any failure in one line."""

    code: ClassVar[str] = "planner.error"
    exit_status: ClassVar[int] = 2

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class InputError(PlannerError):
    code = "input.invalid"


class ConfigError(PlannerError):
    """A config whose words contradict each other or have values that no model can have."""

    code = "config.invalid"


class UnsupportedArchitecture(PlannerError):
    """No family row says how this model caches; `model_type` and `keys` name what is not understood."""

    code = "architecture.unsupported"

    def __init__(self, message: str, *, model_type: str | None, keys: Sequence[str] = (), **fields: Any) -> None:
        super().__init__(message, model_type=model_type, keys=tuple(keys), **fields)
        self.model_type = model_type
        self.keys = tuple(keys)


class EngineRefusal(PlannerError):
    """The engine would not run this whatever the memory; the message carries the engine's reason."""

    code = "engine.refused"


class DataError(PlannerError):
    code = "data.invalid"


class HubError(PlannerError):
    """The Hub, or a mirror of it, did not give what was asked for."""

    code = "hub.error"
    exit_status = 3


class NotFound(HubError):
    code = "hub.not_found"


class Gated(HubError):
    code = "hub.gated"


class NoConfig(HubError):
    code = "hub.no_config"


class NoRevision(HubError):
    code = "hub.no_revision"


class Disabled(HubError):
    code = "hub.disabled"


class NoWeights(HubError):
    code = "hub.no_weights"


class RateLimited(HubError):
    """`fields["retry_after_s"]` is the number of seconds that the Hub asked to wait, or None."""

    code = "hub.rate_limited"


class Unavailable(HubError):
    code = "hub.unavailable"


class Offline(HubError):
    code = "hub.offline"


class NotAHub(HubError):
    code = "hub.not_a_hub"


class TooLarge(HubError):
    code = "hub.too_large"


class BadContent(HubError):
    code = "hub.bad_content"
