"""llama.cpp's facts by version, front end, cache type and architecture, read once from data/llama_cpp*.yaml."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib import resources
from typing import Any, Literal

import yaml

from planner.errors import EngineRefusal, InputError, shown
from planner.layers import State
from planner.model import Model

NAME = "llama.cpp"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class BlockType:
    """A storage type: `block` elements of a row take `bytes` bytes."""

    name: str
    block: int
    bytes: int

    @property
    def quantized(self) -> bool:
        return self.block > 1

    def row(self, elements: int) -> int:
        """Bytes of one row: elements / block x bytes. EngineRefusal when the row is not whole blocks."""
        if elements % self.block:
            raise EngineRefusal(
                f"llama.cpp stores {self.name} in blocks of {self.block} elements, which do not divide a row of {elements}",
                engine=NAME,
            )
        return elements // self.block * self.bytes


@dataclass(frozen=True)
class Era:
    """One version row of data/llama_cpp.yaml; that file's text explains each field."""

    name: str
    date: date
    build: int
    pad: int | str
    streams: str
    swa: Any
    latent: str
    index: bool
    v_padded: bool
    flash_attn: Literal["auto", "off"]
    snapshot: str
    source: str
    commits: tuple[str, ...] = ()
    pypi: tuple[str, ...] = ()
    hybrid_streams: str | None = None
    swa_archs: tuple[str, ...] | None = None
    equal_heads: bool = False
    min_batch: int = 0
    head_blocks: bool = False
    same_types: bool = False
    state_as_kv: bool = False

    def slides(self, arch: str | None) -> bool:
        """Whether windows of this architecture were used at all."""
        return self.swa != "none" and (self.swa_archs is None or arch in self.swa_archs)


@dataclass(frozen=True)
class Architectures:
    """Which GGUF architecture a config's class or model_type becomes, and the snapshot that first knew it."""

    since: Mapping[str, str]
    by_class: Mapping[str, str]
    by_type: Mapping[str, str]
    snapshots: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def of(self, model: Model) -> str | None:
        """The architecture of a model, None where llama.cpp has none for it."""
        if "general.architecture" in model.config:
            arch = str(model.config["general.architecture"])
            return arch if arch in self.since else None
        found = self._of_config(model)
        plain = self.facts["without_states"].get(found)
        states = any(isinstance(cache, State) for layer in model.layers for cache in layer.caches)
        return plain if plain and not states else found

    def _of_config(self, model: Model) -> str | None:
        parts = [model.config, *(model.config.get(name) for name in ("text_config", "llm_config", "language_config"))]
        for part in parts:
            if isinstance(part, Mapping):
                classes = part.get("architectures")
                for name in classes if isinstance(classes, list) else ():
                    if isinstance(name, str) and name in self.by_class:
                        return self.by_class[name]
        for part in parts:
            if isinstance(part, Mapping) and part.get("model_type") in self.by_type:
                return self.by_type[str(part["model_type"])]
        return None

    def has(self, fact: str, arch: str | None) -> bool:
        return arch in self.facts[fact]


def _load(name: str) -> Any:
    return yaml.load(resources.files("planner").joinpath(f"data/{name}.yaml").read_text(encoding="utf-8"), Loader=_LOADER)


@functools.cache
def table() -> Mapping[str, Any]:
    """data/llama_cpp.yaml as it is."""
    content: Mapping[str, Any] = _load("llama_cpp")
    return content


@functools.cache
def cache_types() -> Mapping[str, BlockType]:
    return {name: BlockType(name, row["block"], row["bytes"]) for name, row in table()["cache_types"].items()}


@functools.cache
def eras() -> tuple[Era, ...]:
    """The version rows, oldest first."""
    lists = ("commits", "pypi", "swa_archs")
    rows: Any = [{key: tuple(value) if key in lists else value for key, value in row.items()} for row in table()["eras"]]
    return tuple(Era(**row) for row in rows)


@functools.cache
def architectures() -> Architectures:
    content = _load("llama_cpp_architectures")
    rows = content["architectures"]
    return Architectures(
        {row["arch"]: row["since"] for row in rows},
        {name: row["arch"] for row in rows for name in row.get("classes", ())},
        {name: row["arch"] for row in rows for name in row.get("types", ())},
        tuple(content["snapshots"]),
        table()["architectures"],
    )


def era_of(version: str | None) -> Era:
    """The row of a version: "b6123" (build), a commit, a llama-cpp-python version, or a date like 2025-08 or 2025-08-14.

    None is the newest. Raises InputError for anything else, saying what is understood.
    """
    rows = eras()
    if version is None:
        return rows[-1]
    text = version.strip().lower()
    if match := re.fullmatch(r"b?(\d{3,6})", text):
        return next(row for row in reversed(rows) if row.build <= int(match[1]))
    if match := re.fullmatch(r"(\d{4})-(\d{2})(?:-(\d{2}))?", text):
        try:
            asked = date(int(match[1]), int(match[2]), int(match[3] or 28))
        except ValueError:
            raise InputError(f"version {shown(version)} is not a date", field="version") from None
        return next((row for row in reversed(rows) if row.date <= asked), rows[0])
    for row in rows:
        if any(len(text) >= 7 and (name.startswith(text) or text.startswith(name)) for name in row.commits):
            return row
    if match := re.fullmatch(r"0\.(\d+)\.(\d+)", text):
        asked_version = int(match[1]), int(match[2])
        known = [(tuple(int(n) for n in name.split(".")[1:]), row) for row in rows for name in row.pypi]
        return next((row for name, row in reversed(known) if name <= asked_version), rows[0])
    raise InputError(
        f"version {shown(version)} is not one of llama.cpp: write a build like b6123, a commit that is known"
        f" ({', '.join(name for row in rows for name in row.commits)}), a llama-cpp-python version or a date like 2025-08",
        field="version",
    )


def check_known(arch: str | None, model: Model, era: Era) -> str:
    """The architecture's name. EngineRefusal when llama.cpp has none for this model, or had none at that version."""
    archs = architectures()
    if arch is None:
        said = model.architecture or model.model_type
        raise EngineRefusal(f"llama.cpp has no architecture for {said}: its converter does not know this model", engine=NAME)
    order = archs.snapshots
    if order.index(archs.since[arch]) > order.index(era.snapshot):
        raise EngineRefusal(
            f"llama.cpp did not know {arch} yet at this version ({era.name}); llama-cpp-python {archs.since[arch]} has it",
            engine=NAME,
        )
    return arch
