"""Ollama: the settings that it starts llama.cpp with, from its version, its environment and the machine's memory.

Since 0.30 it starts llama-server with `-c num_ctx x num_parallel -np num_parallel`, so every slot has num_ctx cells of its
own. `n_ctx` here is llama.cpp's, the sum over the slots; OLLAMA_CONTEXT_LENGTH is what one slot gets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.engines.llama_cpp_table import Era, eras, table
from planner.engines.llama_cpp_table import era_of as llama_cpp_era_of
from planner.errors import InputError, shown
from planner.model import Model
from planner.texts import tell


def _parts(version: str) -> tuple[int, ...]:
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.-].*)?", version.strip())
    if match is None:
        raise InputError(f"{shown(version)} is not an Ollama version; write it like 0.33.0", field="version")
    return tuple(int(part or 0) for part in match.groups())


def era_of(version: str | None) -> Era:
    """The llama.cpp that a version of Ollama runs: the newest since 0.30, that of its time before 0.6.

    InputError for versions in between, which had an engine of their own, and for what is no version.
    """
    if version is None:
        return eras()[-1]
    parts, runs = _parts(version), table()["ollama"]["runs_llama_cpp"]
    if parts[:2] >= tuple(runs["from"]):
        return eras()[-1]
    if parts[:2] >= tuple(runs["before"]):
        raise InputError(
            f"Ollama {version} had an engine of its own for some models, whose memory is not described here; plan with 0.30 or"
            " later, or before 0.6",
            field="version",
        )
    dates = table()["ollama"]["eras"]
    return llama_cpp_era_of(str(dates.get(f"{parts[0]}.{parts[1]}", dates["0.0"])))


def context(
    model: Model, arch: str, version: str | None, slots: int, n_ctx: int | None, memory_gib: float | None = None
) -> tuple[int, int, list[str]]:
    """Slots, cells of all slots together, and warnings.

    Without a context Ollama takes one by the total GPU memory (262,144 from 47 GiB, 32,768 from 23 GiB, else 4,096), and
    never more than the model was trained for. Without the memory the largest is taken, so that nothing is too low.

    Source: server/routes.go 2046-2058 and server/sched.go 497-508 at fb3076099.
    """
    facts, warnings = table()["ollama"], list[str]()
    if slots > 1 and arch in facts["one_slot_archs"]:
        warnings.append(tell("ollama.one_slot", arch=arch))
        n_ctx, slots = (n_ctx // slots if n_ctx else n_ctx), 1
    if n_ctx is not None:
        return slots, n_ctx, warnings
    each = _default_context(version, memory_gib)
    if each is None:
        each = facts["context_by_memory_gib"][0][1]
        warnings.append(tell("ollama.context"))
    each = min(each, model.max_context or each)
    return slots, each * slots, warnings


def _default_context(version: str | None, memory_gib: float | None) -> int | None:
    facts = table()["ollama"]
    rule = facts["default_context"][0][1]
    if version is not None:
        rule = next(value for since, value in facts["default_context"] if _parts(version) >= tuple(since))
    if rule != "by_memory":
        return int(rule)
    if memory_gib is None:
        return None
    return next(int(value) for least, value in facts["context_by_memory_gib"] if memory_gib >= least)


def batch(context_of_a_slot: int) -> int:
    """n_ubatch (and n_batch): 512, and where memory allows 1,024 above 4,096 tokens and 2,048 above 32,768."""
    return next(int(size) for above, size in table()["ollama"]["batch_above_context"] if context_of_a_slot > above)


def from_environment(environment: Mapping[str, str], default_context: int | None = None) -> dict[str, Any]:
    """Settings that Ollama's environment variables mean, for `Settings(front_end="ollama", **...)`.

    OLLAMA_CONTEXT_LENGTH is the context of one slot, OLLAMA_NUM_PARALLEL the slots, OLLAMA_KV_CACHE_TYPE the type of both
    keys and values, OLLAMA_FLASH_ATTENTION 1 or 0. Others are left alone; an empty one counts as not set.
    InputError naming the variable for a value that Ollama would not understand.
    """
    names = table()["ollama"]["environment"]
    given = {names[key]: value.strip() for key, value in environment.items() if key in names and value.strip()}
    found: dict[str, Any] = {"front_end": "ollama"}
    slots = _whole("OLLAMA_NUM_PARALLEL", given.get("n_seq_max"))
    if slots:
        found["n_seq_max"] = slots
    each = _whole("OLLAMA_CONTEXT_LENGTH", given.get("n_ctx")) or default_context
    if each:
        found["n_ctx"] = each * (slots or 1)
    if "cache_type" in given:
        kind = given["cache_type"].lower()
        if kind not in table()["cache_types"]:
            raise InputError(f"OLLAMA_KV_CACHE_TYPE is {shown(kind)}; it is f16, q8_0 or q4_0", field="OLLAMA_KV_CACHE_TYPE")
        found |= {"cache_type_k": kind, "cache_type_v": kind}
    if "flash_attn" in given:
        switches = {"1": "on", "true": "on", "0": "off", "false": "off"}
        if given["flash_attn"].lower() not in switches:
            said = shown(given["flash_attn"])
            raise InputError(f"OLLAMA_FLASH_ATTENTION is {said}; it is 1 or 0", field="OLLAMA_FLASH_ATTENTION")
        found["flash_attn"] = switches[given["flash_attn"].lower()]
    return found


def _whole(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or not 0 <= int(value) < 2**31:
        raise InputError(f"{name} is {shown(value)}; it must be a whole number", field=name)
    return int(value)
