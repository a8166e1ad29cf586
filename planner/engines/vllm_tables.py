"""vLLM's tables: KV formats, backends by GPU generation, what its model classes do, and its versions. Read once."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from planner.errors import InputError, shown
from planner.texts import tell

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@functools.cache
def table(name: str) -> dict[str, Any]:
    """The table planner/data/vllm_<name>.yaml."""
    text = resources.files("planner").joinpath(f"data/vllm_{name}.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.load(text, Loader=_LOADER)
    return data


def version_key(version: str) -> tuple[int, ...]:
    """A version's numbers, to compare with. "0.10.2.dev3+g1" and "v0.10.2" count as 0.10.2. InputError for anything else."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    if not match:
        raise InputError(f"{shown(version)} is not a vLLM version; write it like 0.33.0", field="version")
    numbers = tuple(int(part) for part in match[1].split("."))
    return numbers + (0,) * (3 - len(numbers))


@dataclass(frozen=True)
class Rules:
    """What one range of versions does; vllm_versions.yaml explains each field."""

    since: str
    date: str
    gpu_memory_utilization: float
    tokens: str
    concurrency: str
    hybrid: str
    group_limit: float
    dealing: str
    in_flight: str
    null_block: bool
    mamba: str
    hybrid_prefix_caching: bool
    backends: str
    cudagraph_estimate: bool
    checked: tuple[str, ...] = ()
    facts: str = ""


@functools.cache
def _rules() -> tuple[tuple[tuple[int, ...], Rules], ...]:
    merged: dict[str, Any] = {}
    found = []
    for row in table("versions")["versions"]:
        merged = {**merged, **row, "checked": tuple(row.get("checked", ()))}
        found.append((version_key(row["since"]), Rules(**merged)))
    return tuple(found)


@functools.cache
def rules_of(version: str) -> Rules:
    """The row that `version` falls under. InputError for versions before the first row."""
    key, found = version_key(version), None
    for since, rules in _rules():
        if since <= key:
            found = rules
    if found is None:
        raise InputError(f"vLLM {version} is older than {_rules()[0][1].since}, the first one known here", field="version")
    return found


@functools.cache
def traits_of(model_type: str, text_type: str | None) -> tuple[Mapping[str, Any], ...]:
    """The rows about a model class, whether they name the whole config's model_type or its text part's."""
    names = {model_type, text_type}
    return tuple(
        row for row in table("models")["traits"] if names & set(row["types"]) and not names & set(row.get("not", ()))
    )


@functools.cache
def unread(version: str) -> str | None:
    """What to say of a version whose own code was not read: between which versions its rules were taken to hold."""
    key, rows = version_key(version), [rules for _, rules in _rules()]
    read = sorted({version_key(v) for rules in rows for v in rules.checked})
    before, after = [v for v in read if v <= key], [v for v in read if v >= key]
    if not after:
        newest = _dotted(read[-1])
        return tell("newer", engine="vLLM", version=version, last=newest)
    if not before or rules_of(_dotted(before[-1])) is rules_of(_dotted(after[0])):
        return None
    last, first = _dotted(before[-1]), _dotted(after[0])
    facts, since = rules_of(first).facts, rules_of(version).since
    return tell("vllm.between", last=last, first=first, facts=facts, version=version, since=since)


def _dotted(key: tuple[int, ...]) -> str:
    return ".".join(map(str, key))
