"""The planner's SGLang pools under the names of a log, and the versions whose rules a log can be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.engines import sglang
from planner.engines.sglang_cells import costs, resolve
from planner.engines.versions import rules_at, table, version_key
from planner.model import Model
from validation.logs.rows import row_words
from validation.logs.sglang_pools import Pools

#: Storage as torch names it, and as the setting does; bytes hold fp4, or fp8 with its scales.
DTYPES: Final[Mapping[str, str]] = {
    "float8_e4m3fn": "fp8_e4m3", "float8_e4m3fnuz": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "float8_e5m2fnuz": "fp8_e5m2",
    "bfloat16": "bfloat16", "float16": "float16", "float32": "float32", "float4_e2m1fn_x2": "fp4_e2m1",
}  # fmt: skip
#: More than any pool: for logs whose number of tokens is an input.
AMPLE: Final = 1 << 50


def ours(model: Model, settings: sglang.Settings, budget: int = AMPLE) -> dict[str, Any]:
    """The pools' bytes, tokens, slots and rows by the log's names, for a budget or for the tokens that the settings give."""
    pool = sglang.pool(model, settings, budget)
    layers = [cost for cost in costs(resolve(model, settings, rules_at("sglang", settings.version), None)) if cost.row_bytes]
    rows = (((cost.heads, cost.k_dim, cost.v_dim), cost.row_bytes) for cost in layers)
    return {
        "layer_keys": tuple(dict.fromkeys(cost.key_bytes for cost in layers)),
        "rows": row_words(rows, pool.details["kv_cache_dtype"]),
        **pool.details, "kv_tokens": pool.tokens, "row_bytes": pool.bytes_per_block,
        "draft_k_bytes": pool.details["draft_bytes"] // 2, "draft_v_bytes": pool.details["draft_bytes"] // 2,
        "draft_kv_bytes": pool.details["draft_bytes"],
    }  # fmt: skip


def printed_settings(given: Mapping[str, Any], rank: Pools) -> dict[str, Any]:
    """The settings that a rank's pools show: state slots, and how keys and values are stored."""
    found: dict[str, Any] = {}
    slots, target = rank.number("mamba_slots"), rank.pool("target")
    if slots is not None:
        share = given.get("data_parallel_size", 1) if given.get("enable_dp_attention") else 1
        found["max_mamba_cache_size"] = int(slots.value) * int(share)
    kind = DTYPES.get(target.dtype or "") if target is not None else None
    if kind and given.get("kv_cache_dtype", "auto") == "auto":
        found["kv_cache_dtype"] = kind
    return found


def versions(bracket: Sequence[str], given: str | None = None) -> list[str]:
    """Releases to try, the newest first: the given one, else a row of the planner's table for each that prints these shapes."""
    if given is not None:
        return [given]
    since, until = bracket
    rows = [str(row["from"]) for row in table("sglang")["versions"]]
    starts = [name for name in rows if not until or version_key(name) < version_key(until)]
    later = [name for name in starts if not since or version_key(name) > version_key(since)]
    return [*reversed(later), since or starts[0]] if since or not later else list(reversed(later))


def settings_of(given: Mapping[str, Any], version: str, **more: Any) -> sglang.Settings:
    """The log's settings at a version; a speculation whose draft is not described is left out."""
    found = {key: value for key, value in given.items() if key != "version"}
    if found.get("speculative_algorithm") == "DFLASH":
        found.pop("speculative_algorithm")
    return sglang.Settings(**{**found, "version": version, **more})
