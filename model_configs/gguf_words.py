"""The words of a GGUF file's metadata, read as llama.cpp reads them: a number, or one for each layer.

A key is `<architecture>.<word>`; a word that holds one number means it for every layer, an array must have one entry a
layer. `gguf_families.yaml` says which words an architecture reads at all.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from model_configs.special import check_depth
from model_configs.words import whole
from planner.errors import ConfigError, DataError, UnsupportedArchitecture, shown

ARCHITECTURE = "general.architecture"
#: llama.cpp's own limit (LLAMA_MAX_LAYERS), also of the arrays that hold one entry a layer.
MAX_LAYERS = 512
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class GgufFamily:
    """One row of gguf_families.yaml; that file's head explains each field."""

    name: str
    archs: tuple[str, ...]
    window: Mapping[str, Any] | None = None
    mla: bool = False
    v_latent: bool = False
    recurrent: Any = None
    state: str | None = None
    index: str | None = None
    index_when: str | None = None
    index_pooled: bool = False
    shared: Mapping[str, Any] = field(default_factory=dict)
    nextn: str | None = None
    cache: str | None = None
    finish: str | None = None
    refused: str | None = None


@functools.cache
def families() -> Mapping[str, GgufFamily]:
    """The rows of gguf_families.yaml by architecture, read once. DataError for a row that is not well formed."""
    text = resources.files("model_configs").joinpath("gguf_families.yaml").read_text(encoding="utf-8")
    found: dict[str, GgufFamily] = {}
    for row in yaml.load(text, Loader=_LOADER)["families"]:
        unknown = set(row) - set(GgufFamily.__dataclass_fields__)
        if unknown:
            raise DataError(f"gguf_families.yaml, row {row.get('name')!r}: unknown fields {sorted(unknown)}")
        family = GgufFamily(**{**row, "archs": tuple(row["archs"])})
        for arch in family.archs:
            if found.setdefault(arch, family) is not family:
                raise DataError(f"gguf_families.yaml: {arch} is in two rows")
    return found


def family_of(metadata: Mapping[str, Any]) -> tuple[str, GgufFamily]:
    """The architecture that a file's metadata names, and its row. UnsupportedArchitecture when there is no row."""
    arch = metadata.get(ARCHITECTURE)
    family = families().get(arch) if isinstance(arch, str) else None
    if family is None or not isinstance(arch, str):
        raise UnsupportedArchitecture(
            f"the planner does not know how the GGUF architecture {shown(arch)} caches",
            model_type=arch if isinstance(arch, str) else None, keys=(ARCHITECTURE,),
        )  # fmt: skip
    if family.refused:
        raise UnsupportedArchitecture(
            f"a GGUF file of architecture {arch!r} is not planned for: {family.refused}", model_type=arch, keys=(ARCHITECTURE,)
        )
    return arch, family


class GgufWords:
    """The metadata of one architecture. `tensors` are the names in the file, None where only metadata is known."""

    def __init__(self, arch: str, metadata: Mapping[str, Any], tensors: Collection[str] | None = None) -> None:
        self.arch, self.metadata, self.tensors = arch, metadata, tensors
        self.depth = check_depth(self.number("block_count", minimum=1), self.key("block_count"))
        if self.depth > MAX_LAYERS:
            raise ConfigError(f"{self.key('block_count')} is {self.depth}; llama.cpp has room for {MAX_LAYERS} layers",
                              field=self.key("block_count"))  # fmt: skip

    def key(self, word: str) -> str:
        return f"{self.arch}.{word}"

    def get(self, word: str) -> Any:
        return self.metadata.get(self.key(word))

    def number(self, word: str, default: int | None = None, minimum: int = 0) -> int:
        """A whole number from `minimum`; `default` where the file has none. ConfigError otherwise."""
        value = self.get(word)
        if value is None and default is not None:
            return default
        return whole(value, self.key(word), self.arch, minimum)

    def per_layer(self, word: str, default: list[int], count: int | None = None) -> list[int]:
        """One number for each of `count` layers (all of them): an array's entries, or one number for every layer."""
        value, count = self.get(word), self.depth if count is None else count
        if value is None:
            return default
        if not isinstance(value, list | tuple):
            return [self.number(word)] * count
        if len(value) != count:
            raise ConfigError(
                f"{self.key(word)} has {len(value)} entries for {count} layers; llama.cpp does not load such a file",
                field=self.key(word),
            )
        return [whole(int(entry) if isinstance(entry, bool) else entry, self.key(word), self.arch, 0) for entry in value]

    def flags(self, word: str) -> list[bool] | None:
        """A flag for each layer from an array, layers past its end being false. None where there is no array."""
        value = self.get(word)
        if not isinstance(value, list | tuple):
            return None
        if len(value) > MAX_LAYERS or not all(isinstance(entry, int) for entry in value):
            raise ConfigError(f"{self.key(word)} must flag each layer with 0 or 1", field=self.key(word))
        return [bool(entry) for entry in value[: self.depth]] + [False] * (self.depth - len(value))
