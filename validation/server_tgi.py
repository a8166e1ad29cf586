"""A running Text Generation Inference: /info of its router.

Up to 2.2 /info holds the pool's size, max_batch_total_tokens; later routers keep it to themselves, and it stands in the
start-up log alone. Memory is never told.

Source: struct Info in router/src/lib.rs of the tags 0.9.4 to 3.3.7.
"""

from __future__ import annotations

from typing import Any, Final

from planner.engines import tgi
from planner.engines.versions import rules_at
from planner.errors import InputError
from planner.hardware import Gpu
from planner.model import Model
from planner.units import format_bytes
from validation.logs.log import Check, CheckLine, check_of
from validation.server_http import Client
from validation.server_told import Told, by_budget, compared, whole, word

NAME: Final = "tgi"
_COUNTS: Final = ("max_batch_total_tokens", "max_total_tokens", "max_input_tokens")


def read(client: Client) -> Told | None:
    """What the router says; None where it is none (an embedding server also answers /info)."""
    info = client.get("/info").fields()
    if not {"model_id", "max_total_tokens", "max_concurrent_requests"} <= info.keys():
        return None
    values = {**info, "max_input_tokens": info.get("max_input_tokens", info.get("max_input_length"))}
    figures: dict[str, float] = {name: count for name in _COUNTS if (count := whole(values.get(name)))}
    settings: dict[str, Any] = {name: int(figures[name]) for name in _COUNTS[1:] if name in figures}
    dtype, notes = str(info.get("model_dtype") or "").removeprefix("torch."), []
    if dtype in ("float16", "bfloat16"):
        settings["dtype"] = dtype
    version = word(info.get("version"))
    try:
        rules_at(NAME, version or "")
        settings["version"] = version
    except InputError as error:
        notes.append(f"{error.message}; the rules of the newest are taken")
    name = word(info["model_id"])
    return Told(NAME, version, name, name, settings=settings, figures=figures, notes=tuple(notes))


def explain(told: Told, model: Model, settings: tgi.Settings, gpu: Gpu | None) -> Check:
    """The pool's tokens as whole blocks, what a request reserves of them, and their bytes on one shard."""
    missing: list[str] = []
    notes = list(told.notes)
    if "num_shard" not in settings.model_fields_set:
        missing.append("--set num_shard=N: how many GPUs share the model; 1 is taken")
    tokens, asked = whole(told.figures.get("max_batch_total_tokens")), whole(told.figures.get("max_total_tokens"))
    if tokens is None:
        missing.append(
            "max_batch_total_tokens: this router does not tell it; its start-up log does, in"
            ' "Setting max batch total tokens to N" (python -m planner log FILE)'
        )
        return check_of((_limit(model, asked),), missing, rules=notes)
    lines: list[CheckLine | None] = []
    unit = tgi.pool(model, settings, 0, gpu)
    size, block = int(unit.details["block_size"]), unit.bytes_per_block
    pool = tgi.pool(model, settings, tokens // size * block, gpu)
    usable = int(pool.details["usable_blocks"]) * size
    if tokens == tgi.fallback_total_tokens(settings) and tokens % size:
        rule = "max(16000, max_total_tokens, max_batch_prefill_tokens): a model without a flash implementation"
        lines.append(compared("max_batch_total_tokens", tokens, tgi.fallback_total_tokens(settings), rule))
    else:
        rule = f"whole blocks of {size} ({pool.details['attention']} attention)"
        lines.append(compared("max_batch_total_tokens", tokens, pool.tokens, rule))
        lines.append(by_budget(told, model, settings, gpu, "pool_tokens", tokens, missing))
    if asked is not None:
        rule = f"a request reserves {pool.blocks_per_request:,} blocks whole; ours is the most that fits beside block 0"
        lines.append(compared("max_total_tokens", asked, usable, rule, agrees=asked <= usable))
    notes.append(
        f"{pool.num_blocks:,} blocks x {block:,} bytes = {format_bytes(pool.num_blocks * block)} of cache on each shard, holding"
        f" {pool.max_concurrency:,.2f} requests of {pool.max_model_len:,} tokens at once ({tgi.CONFIDENCE})"
    )
    return check_of(lines, missing, rules=(*notes, *pool.warnings))


def _limit(model: Model, asked: int | None) -> CheckLine | None:
    """The longest request beside what the model's config allows."""
    if asked is None or model.max_context is None:
        return None
    rule = "prompt and answer together; ours is the model's own limit, which only a flag or scaled positions exceed"
    return compared("max_total_tokens", asked, model.max_context, rule, agrees=asked <= model.max_context)
