"""The tables `parameters*.yaml` and the rules that read them: formulas over a config's words give the weight tensors.

A row says what a model is made of in three steps. A *definition* is a formula over config words and other definitions
(`d: head_dim or h // heads`). A *block* is a named list of tensors and of other blocks; each tensor is a formula for
its shape. A *family* is a model_type with the definitions that differ from its parent's, down to the `defaults`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from types import CodeType
from typing import Any

import yaml

from planner.errors import ConfigError, DataError
from planner.units import ceil_div, round_up

_PARTS = ("", "_experts", "_hybrids", "_encoders", "_blocks", "_towers", "_composites")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: What a formula may call. Anything else in it is a definition, a block, or a word of the config.
_FUNCTIONS: dict[str, Any] = {
    "__builtins__": {},
    "ceil_div": ceil_div,
    "int": int,
    "isinstance": isinstance,
    "largest": lambda value: max(value) if isinstance(value, list) else value,
    "len": len,
    "list": list,
    "max": max,
    "min": min,
    "round_up": round_up,
    "str": str,
    "sum": sum,
    "get": lambda mapping, key, default=None: default if (mapping or {}).get(key) is None else mapping[key],
}
#: What a formula raises on a config that lacks a word, or has one of the wrong kind.
CANNOT = (
    TypeError, ValueError, LookupError, NameError, ArithmeticError, AttributeError, RecursionError, ConfigError,
)  # fmt: skip
#: No published model comes near; a config that says more is wrong, and counting it would only take time.
_MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Part:
    """`times` equal weight tensors. A linear layer's shape is (out, in), and `bias` its bias elements; anything else
    (norm, embedding, convolution, router) has its number of elements as the only axis, and is never quantised."""

    name: str
    shape: tuple[int, ...]
    times: int = 1
    bias: int = 0

    @property
    def params(self) -> int:
        return self.times * (math.prod(self.shape) + self.bias)


@functools.cache
def table() -> dict[str, Any]:
    """The parsed tables, the sections of the same name joined."""
    sections: dict[str, Any] = {}
    for part in _PARTS:
        text = resources.files("model_configs").joinpath(f"parameters{part}.yaml").read_text(encoding="utf-8")
        for section, rows in yaml.load(text, Loader=_LOADER).items():
            sections.setdefault(section, {}).update(rows)
    return sections


@functools.cache
def family(section: str, model_type: str) -> dict[str, Any] | None:
    """The definitions of a row with those of the rows that it is like, or None where the table has no such row."""
    rows = table()[section]
    if model_type not in rows:
        return None
    row = rows[model_type]
    if isinstance(row, str):
        row = {"like": row}
    row = row or {}
    parent = family(section, row["like"]) if "like" in row else table()["defaults"]
    if parent is None:
        raise DataError(f"{section} row {model_type} is like {row['like']}, which is not there", field=model_type)
    return {**parent, **{name: formula for name, formula in row.items() if name != "like"}}


class _Text(str):
    """A config's string. Multiplied by a size from the same config it would fill the memory; no formula means that."""

    def __mul__(self, other: Any) -> Any:
        raise TypeError(f"{str(self)!r} is not a number")

    __rmul__ = __mul__


class _List(list[Any]):
    """A config's list, which does not multiply either."""

    def __mul__(self, other: Any) -> Any:
        raise TypeError("a list is not a number")

    __rmul__ = __mul__


def _guarded(value: Any) -> Any:
    return _Text(value) if isinstance(value, str) else _List(value) if isinstance(value, list) else value


@functools.cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, "parameters.yaml", "eval")


class Scope(Mapping[str, Any]):
    """What names mean in a formula: local values, then the row's definitions, then blocks, then the config's words.

    A definition that uses its own name means the config's word of that name. A name that nothing knows is None, so
    arithmetic on it fails instead of counting zero.
    """

    def __init__(self, words: Mapping[str, Any], definitions: Mapping[str, Any], local: Mapping[str, Any]) -> None:
        self.words = words
        self.definitions = definitions
        self.local = local
        self._known: dict[str, Any] = dict(local)
        self._open: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        if name in _FUNCTIONS:
            raise KeyError(name)
        if name not in self._known:
            if name in self._open or name not in self.definitions:
                if name in table()["blocks"] and name not in self._open:
                    return name
                return _guarded(self.words.get(name))
            self._open.add(name)
            self._known[name] = self.value(self.definitions[name])
            self._open.discard(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.definitions, **self.local})

    def __len__(self) -> int:
        return len({**self.definitions, **self.local})

    def value(self, formula: Any) -> Any:
        """The value of one formula. Numbers stand for themselves.

        The formulas are the table's own, and a config only supplies values, so nothing that a person sends is ever run.
        """
        return eval(_compiled(formula), _FUNCTIONS, self) if isinstance(formula, str) else formula

    def inside(self, **local: Any) -> Scope:
        """The same names with some local values on top."""
        return Scope(self.words, self.definitions, {**self.local, **local})

    def parts(self, block: str | int | None, prefix: str = "") -> Iterator[Part]:
        """The tensors of a block, named by their path. Block 0 has none."""
        if block is None:
            raise ValueError(f"{prefix or 'the model'} is made of a block that the table does not have")
        if not block:
            return
        for name, entry in table()["blocks"][block].items():
            if isinstance(entry, Mapping):
                yield from self._nested(entry, f"{prefix}{name}.")
                continue
            value = self.value(entry)
            out, *rest = value if isinstance(value, tuple) else (value,)
            shape = (int(out), int(rest[0])) if rest else (int(out),)
            if min(shape) < 0:
                raise ValueError(f"{prefix}{name} has shape {shape}")
            bias = shape[0] if len(rest) > 1 and rest[1] else 0
            if math.prod(shape) + bias:
                yield Part(prefix + name, shape, bias=bias)

    def _nested(self, entry: Mapping[str, Any], prefix: str) -> Iterator[Part]:
        """A block inside a block: `use` it once, `times` times, or for `each` index i; other keys are local values."""
        local = {name: self.value(f) for name, f in entry.items() if name not in ("use", "times", "each")}
        if "each" in entry:
            count = int(self.value(entry["each"]) or 0)
            if count > _MOST_LAYERS:
                raise ValueError(f"{count} layers")
            for i in range(count):
                scope = self.inside(**local, i=i)
                yield from scope.parts(scope.value(entry["use"]), f"{prefix}{i}.")
            return
        times = int(self.value(entry.get("times", 1)) or 0)
        if times < 0:
            raise ValueError(f"{prefix}: {times} copies")
        scope = self.inside(**local) if local else self
        if times:
            for part in scope.parts(scope.value(entry["use"]), prefix):
                yield Part(part.name, part.shape, part.times * times, part.bias)
