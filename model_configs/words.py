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

from planner.errors import ConfigError, shown


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
        said = "is missing from" if value is None else f"is {shown(value)} in"
        raise ConfigError(
            f"{name} {said} the config of this {model_type} model; it must be a whole number of at least {minimum}",
            field=name, value=value,
        )  # fmt: skip
    return value


def share(width: int, heads: int, name: str) -> int:
    """Each of `heads` equal parts of a width. ConfigError when it does not divide."""
    if width < heads or width % heads:
        raise ConfigError(f"{name}: {width} does not divide into {heads} equal parts", field=name)
    return width // heads


def layer_numbers(value: Any, name: str, depth: int, first: int = 0) -> set[int]:
    """A list of layer numbers that count from `first`, as numbers from 0. ConfigError when one is not a layer."""
    right = isinstance(value, list | tuple) and all(
        isinstance(i, int) and not isinstance(i, bool) and first <= i < depth + first for i in value
    )
    if not right:
        raise ConfigError(f"{name} is {shown(value)}; it must list layers from {first} to {depth + first - 1}", field=name)
    return {i - first for i in value}


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
            raise ConfigError(f"per_layer_config has {shown(overrides)}; it must map words to values", field="per_layer_config")
        other = copy.copy(self)
        other._layers = (overrides, *self._layers)
        return other

    def first(self, *keys: str) -> Any:
        """The first value that is not null among `keys`, else None; one that the file gives before a class's default."""
        values = [(key, self.get(key)) for key in keys]
        found = [(key, value) for key, value in values if value is not None]
        said = [value for key, value in found if self.says(key)]
        return said[0] if said else found[0][1] if found else None

    def says(self, key: str) -> bool:
        """Whether the file itself, or its wrapper, gives `key`, rather than the class's default."""
        return any(spelling in layer for layer in self._layers[:-1] for spelling in self._spellings(key))

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
            raise ConfigError(f"{key} is {shown(value)} in the config; it must be true or false", field=key, value=value)
        return bool(value)

    def numbers(self, key: str) -> list[Any] | None:
        """The list under `key`, or None when absent or null. ConfigError when it is something else."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{key} is {shown(value)} in the config; it must be a list", field=key, value=value)
        return list(value)

    def flags(self, key: str, depth: int) -> list[bool] | None:
        """A 0 or 1 for each of `depth` layers under `key`; None when absent, null or empty. ConfigError otherwise."""
        value = self.numbers(key)
        if not value:
            return None
        if len(value) < depth or not all(isinstance(entry, int) and entry in (0, 1) for entry in value):
            raise ConfigError(f"{key} must give 0 or 1 for each of {depth} layers", field=key)
        return [bool(entry) for entry in value[:depth]]

    def indices(self, key: str, depth: int, first: int = 0) -> set[int] | None:
        """Layer numbers under `key`, counted from `first` in the file and from 0 here; None when absent or null."""
        value = self.get(key)
        return None if value is None else layer_numbers(value, key, depth, first)
