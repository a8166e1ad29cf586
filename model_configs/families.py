"""The table of families: which row answers to a model_type, and what its words mean.

The knowledge is in `families.yaml`; this file loads it, checks that each row is well formed, and finds rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from planner.errors import DataError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Family:
    """One row of families.yaml; that file's head explains each field."""

    name: str
    types: tuple[str, ...]
    proof: Mapping[str, Any]
    depth: Any = ("num_hidden_layers",)
    heads: Any = ("num_attention_heads",)
    hidden: Any = ("hidden_size",)
    kv_heads: Any = ("num_key_value_heads",)
    head_dim: Any = ("head_dim",)
    v_head_dim: Any = None
    hidden_x: int = 1
    window: Any = ("sliding_window",)
    schedule: Mapping[str, Any] = field(default_factory=dict)
    lists: tuple[str, ...] = ("layer_types", "layers_block_type")
    layers: Mapping[str, str] = field(default_factory=dict)
    by_word: Mapping[str, Any] = field(default_factory=dict)
    force_last: str | None = None
    latent: bool = False
    index: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    cross: Any = False
    shared_tail: str | None = None
    finish: str | None = None
    transformers: Mapping[str, Any] = field(default_factory=dict)
    engines: Mapping[str, Any] = field(default_factory=dict)
    ignores: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Any] = field(default_factory=dict)
    encoder_only: bool = False
    source: str = "transformers 5.24 classes, measured in real cached generation"


    @functools.cached_property
    def words(self) -> frozenset[str]:
        """The config words that the row's fields name, whether or not a given file's layers come to need them."""
        fields = (self.kv_heads, self.head_dim, self.v_head_dim, self.window, self.by_word, self.index, self.state, self.cross)
        latent = ("kv_lora_rank", "qk_rope_head_dim") if self.latent else ()
        return frozenset((*_texts((*fields, self.schedule)), *latent))


def _texts(value: Any) -> Iterator[str]:
    """All strings inside a row's fields; a dotted word counts by its first part."""
    if isinstance(value, str):
        yield value.split(".")[0]
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _texts(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _texts(entry)


@dataclass(frozen=True)
class Composite:
    """A model whose decoder is a part of its config; `defaults` are what the decoder has when the file leaves it out,
    and, where it `merges` them, for each word that a given part leaves out."""

    decoder: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    merges: bool = False
    cross: bool = False
    inside: str | None = None
    reads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """families.yaml, indexed."""

    families: tuple[Family, ...]
    by_type: Mapping[str, Family]
    composites: Mapping[str, Composite]
    parts: tuple[str, ...]
    spellings: Mapping[str, str]
    vocabulary: Mapping[str, str]
    refused: Mapping[str, str]
    relevant: re.Pattern[str]
    irrelevant: frozenset[str]


def _family(row: dict[str, Any]) -> Family:
    unknown = set(row) - set(Family.__dataclass_fields__)
    if unknown or not row.get("proof"):
        raise DataError(
            f"families.yaml, row {row.get('name')!r}: "
            + (f"unknown fields {sorted(unknown)}" if unknown else "it has no proof")
        )
    row = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Family(**row)


@functools.cache
def table() -> Table:
    """The families, read once."""
    text = resources.files("model_configs").joinpath("families.yaml").read_text(encoding="utf-8")
    data = yaml.load(text, Loader=_LOADER)
    families = tuple(_family(row) for row in data["families"])
    by_type: dict[str, Family] = {}
    for family in families:
        for model_type in family.types:
            if by_type.setdefault(model_type, family) is not family:
                raise DataError(f"families.yaml: {model_type} is in rows {by_type[model_type].name!r} and {family.name!r}")
    return Table(
        families=families,
        by_type=by_type,
        composites={name: Composite(**row) for name, row in data["composites"]["types"].items()},
        parts=tuple(data["composites"]["parts"]),
        spellings=data["spellings"],
        vocabulary=data["vocabulary"],
        refused=data["refused"],
        relevant=re.compile(data["relevant"].replace(" ", "")),
        irrelevant=frozenset(word for row in data["irrelevant"] for word in row["words"]),
    )
