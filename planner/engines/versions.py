"""Version tables: what an engine's rules are at a version, as rows that each say what changed.

A table is a YAML file in planner/data with `versions`: rows of `from` (the first release that the row holds for), `date`,
and the fields that changed then; the rules at a version are all rows up to it, one over the other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import yaml

from planner.errors import InputError, shown
from planner.texts import tell

_STAGES = {"dev": -4, "a": -3, "b": -2, "rc": -1, "post": 1}


def version_key(version: str) -> tuple[tuple[int, ...], int, int]:
    """A release's place in time: "0.4.3.post4" after "0.4.3", "1.1.0rc3" before "1.1.0". InputError for anything else."""
    match = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:[._-]?(dev|rc|a|b|post)(\d*))?(?:\+\w+)?", version.strip()) if version else None
    if match is None:
        raise InputError(f"{shown(version)} is not a release; write it like 0.5.9 or 1.1.0rc3", field="version")
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), _STAGES.get(match[2] or "", 0), int(match[3] or 0)


@functools.cache
def table(engine: str) -> Mapping[str, Any]:
    """The content of the engine's file in planner/data, read once."""
    text = resources.files("planner").joinpath(f"data/{engine.replace('-', '_')}.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return content


@functools.lru_cache(maxsize=256)
def rules_at(engine: str, version: str) -> Mapping[str, Any]:
    """The fields that hold at `version`. InputError for one before the first row, which nothing is known of."""
    wanted, rows = version_key(version), table(engine)["versions"]
    if wanted < version_key(rows[0]["from"]):
        raise InputError(f"the planner knows {engine} from version {rows[0]['from']} on, not {version}", field="version")
    merged: dict[str, Any] = {}
    for row in rows:
        if version_key(row["from"]) <= wanted:
            merged.update(row)
    return merged


def newer_than_known(engine: str, version: str) -> str | None:
    """A warning where `version` is later than the last release whose rules were read."""
    last = str(table(engine)["read_up_to"])
    if version_key(version) <= version_key(last):
        return None
    return tell("newer", engine=engine, version=version, last=last)
