"""The planner's SGLang pools under the names of a log, and the versions whose rules a log can be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.engines import sglang
from planner.engines.sglang_cells import costs, resolve
from planner.engines.versions import rules_at, table, version_key
from planner.model import Model
from validation.logs.rows import row_words

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
