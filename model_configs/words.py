"""The words of a config: values that the file gives, and the class defaults that it leaves out.

A config.json names a `model_type`; the class behind it has a default for every field and aliases for some names. An
absent key takes the class's default; an explicit null stays null. `class_defaults.json` holds those defaults.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from planner.errors import ConfigError


@functools.cache
def class_defaults() -> dict[str, Any]:
    """Default fields and aliases of each configuration class, by model_type. Source: named in the file."""
    text = resources.files("model_configs").joinpath("class_defaults.json").read_text(encoding="utf-8")
    types: dict[str, Any] = json.loads(text)["types"]
    return types


def whole(value: Any, name: str, model_type: str, minimum: int = 1) -> int:
    """`value` as a whole number from `minimum` to 2**31. ConfigError naming the word otherwise, or when it is absent."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value < 2**31:
        said = "is missing from" if value is None else f"is {value!r:.60} in"
        raise ConfigError(
            f"{name} {said} the config of this {model_type} model; it must be a whole number of at least {minimum}",
            field=name, value=value,
        )  # fmt: skip
    return value


class Words(Mapping[str, Any]):
    """One decoder's config as a read-only mapping, with defaults and aliases resolved, that remembers what was read.

    given: the file's own keys. defaults: a later mapping loses to an earlier one. `words["num_hidden_layers"]` finds
    GPT-2's `n_layer` too. A key that neither the file nor the class has is missing: `get` gives None.
    """

    def __init__(self, model_type: str, given: Mapping[str, Any], *overrides: Mapping[str, Any]) -> None:
        known = class_defaults().get(model_type, {})
        self.model_type = model_type
        self.given = given
        self.declared: Mapping[str, Any] = known.get("fields", {})
        self._layers = (given, *overrides, self.declared)
        self._aliases: dict[str, str] = known.get("aliases", {})
        self._names = {target: name for name, target in self._aliases.items()}
        self.read: set[str] = set()

    def _spellings(self, key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(k for k in (self._aliases.get(key), key, self._names.get(key)) if k))

    def __getitem__(self, key: str) -> Any:
        spellings = self._spellings(key)
        self.read.update(spellings)
        for layer in self._layers:
            for spelling in spellings:
                if spelling in layer:
                    return layer[spelling]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and any(s in layer for layer in self._layers for s in self._spellings(key))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for layer in self._layers for key in layer))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def at(self, overrides: Mapping[str, Any]) -> Words:
        """The words of one layer, where `per_layer_config` overrides some; what is read counts for both."""
        if not isinstance(overrides, Mapping):
            raise ConfigError(f"per_layer_config has {overrides!r}; it must map words to values", field="per_layer_config")
        other = copy.copy(self)
        other._layers = (overrides, *self._layers)
        return other

    def first(self, *keys: str) -> Any:
        """The first value that is not null among `keys`, else None."""
        for key in keys:
            value = self.get(key)
            if value is not None:
                return value
        return None

    def number(self, *keys: str, minimum: int = 1, default: int | None = None) -> int:
        """A whole number under the first of `keys` that has one. ConfigError when absent, not whole, or below minimum."""
        value = self.first(*keys)
        if value is None and default is not None:
            return default
        return whole(value, keys[0], self.model_type, minimum)

    def flag(self, key: str, *also: str) -> bool:
        """True or false under `key`, false when absent or null. ConfigError for anything else but the words in `also`,
        which are false: a string such as "false" must not be taken for true."""
        value = self.get(key)
        if value is None or (isinstance(value, str) and value in also):
            return False
        if not isinstance(value, bool) and value not in (0, 1):
            raise ConfigError(f"{key} is {value!r:.60} in the config; it must be true or false", field=key, value=value)
        return bool(value)

    def numbers(self, key: str) -> list[Any] | None:
        """The list under `key`, or None when absent or null. ConfigError when it is something else."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{key} is {value!r} in the config; it must be a list", field=key, value=value)
        return list(value)
