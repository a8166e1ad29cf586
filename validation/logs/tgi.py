"""TGI's start-up logs: launcher, router and shards, as text or JSON. Rank 0 prints its blocks, the router the least of all.

What is free at the warm-up's peak, which the blocks follow from, is printed at DEBUG alone (in 10^9 bytes). `tgi_shapes` has the
lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from planner.engines import tgi
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model
from planner.units import GIB
from validation.logs.commands import commands, plain_value, value_of
from validation.logs.lines import Line
from validation.logs.log import Check, CheckLine, Figure, Log, check_of
from validation.logs.shapes import scan
from validation.logs.tgi_shapes import COMMON, COUNTS, SHAPES

NAME: Final = "tgi"
signs: Final[tuple[re.Pattern[str], ...]] = (
    re.compile(
        r"text[-_]generation[-_](?:launcher|router|server)|Setting max batch total tokens to \d|KV-cache blocks: \d+, size: \d"
        r"|Using prefill chunking|shard-manager: |automatic max batch total tokens"
    ),
)
_PROGRAM: Final = re.compile(r"(?:text-generation-launcher|text-generation-inference:[\w.-]{1,40})(?= )")
_SETTINGS: Final = ("num_shard", "max_total_tokens", "max_input_tokens", "max_batch_prefill_tokens", "cuda_memory_fraction",
                    "kv_cache_dtype", "speculate", "dtype")  # fmt: skip
_NOT_PRINTED: Final = (
    "the line \"Free memory\" (LOG_LEVEL=debug): what is free at the warm-up's peak, which the number of blocks follows from"
)


def read(lines: Sequence[Line]) -> Log:
    """What the log tells. The launcher's arguments are a printed structure over many lines."""
    scanned = scan(lines, SHAPES)
    figures = [one.figure(name) for one in scanned.found for name in one.words if name.endswith("_bytes") or name in COUNTS]
    words = {key: one.words[key] for one in scanned.found for key in ("attention", "version", "no_pool") if key in one.words}
    settings, name = _settings(lines)
    attention = words.get("attention")
    if attention in ("flashinfer", "flashdecoding", "flashdecoding-ipex", "paged"):
        settings["attention"] = attention
    shards = {line.rank for line in lines if line.rank} | set(re.findall(r"\brank=(\d{1,4})\b", "\n".join(x.text for x in lines)))
    since = max((one.shape.since for one in scanned.found if one.shape.since), default="")
    cut = [f"line {line.number} is cut: {line.text.strip()[:80]}" for row, line in scanned.cut if row.starts not in COMMON]
    return Log(
        NAME, words.get("version"), name, settings, {figure.name: figure for figure in figures}, tuple(figures), None,
        int(settings.get("num_shard", 0)) or max(1, len(shards)), tuple(dict.fromkeys(cut)),
        {"since": since, "no_pool": "no_pool" in words, "shards": len(shards)},
    )  # fmt: skip


def _settings(lines: Sequence[Line]) -> tuple[dict[str, Any], str | None]:
    """From the printed Args, and from the command."""
    found: dict[str, Any] = {}
    start = next((at for at, line in enumerate(lines) if re.search(r"\bArgs \{", line.text)), None)
    text = ""
    if start is not None:
        text = " ".join(line.text.strip() for line in lines[start : start + 250] if "%" not in line.text)[:40_000]
        text = re.sub(r"Some\(\s{0,40}([^()]{1,400}?),?\s{0,40}\)", r"\1", text)
    given = {key: value_of(text, key) for key in (*_SETTINGS, "model_id")} if text else {}
    for command in commands(lines, _PROGRAM):
        flags = {key.replace("-", "_"): value for key, value in command.flags.items()}
        for key in (*_SETTINGS, "model_id"):
            if isinstance(flags.get(key), str):
                given[key] = plain_value(str(flags[key]))
    for key in _SETTINGS:
        value = given.get(key)
        if value is None:
            continue
        try:
            tgi.Settings(**{key: value})
        except PlannerError:
            continue
        found[key] = value
    name = given.get("model_id")
    return found, name if isinstance(name, str) else None


def explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """Blocks, tokens and the router's limit against each other and the pool's bytes by the model; what is not printed is said."""
    lines: list[CheckLine] = list(_own_lines(log))
    rules = list(_rules(log))
    missing: list[str] = []
    if model is not None:
        found = _pool(log, model, gpu)
        if found is not None:
            lines += found[0]
            rules += found[1]
    elif "max_batch_total_tokens" in log.printed and not _fallback(log):
        missing.append("--model: the model's name, config or catalogue id; the log has no dimensions")
    if "max_batch_total_tokens" in log.printed and "free_bytes" not in log.printed and not _fallback(log):
        missing.append(_NOT_PRINTED)
    return check_of(lines, missing, _advice(log), rules)


def _version(log: Log) -> str:
    """The printed release, else the newest of those that print so: 3 where prompts are chunked."""
    return log.version or ("3.3.7" if log.other.get("since", "") >= "3" else "2.4.0")


def _at(log: Log) -> tgi.Settings:
    return tgi.Settings(**{**log.settings, "version": _version(log)})


def _fallback(log: Log) -> bool:
    """Whether the router's limit is the one for models without a flash implementation."""
    limit = log.printed.get("max_batch_total_tokens")
    if limit is None or "blocks" in log.printed:
        return False
    return bool(log.other.get("no_pool")) or limit.value == tgi.fallback_total_tokens(_at(log))


def _own_lines(log: Log) -> Iterator[CheckLine]:
    blocks, size, limit = (log.printed.get(name) for name in ("blocks", "block_size", "max_batch_total_tokens"))
    if blocks is not None and size is not None and limit is not None:
        value = int(blocks.value * size.value)
        said = f"rank 0 has {int(blocks.value):,} blocks x {int(size.value)} = {value:,} tokens"
        if limit.value == value or (log.gpus or 1) == 1:
            rule = f"{said}, the limit that the router takes"
            yield CheckLine("max_batch_total_tokens", limit.value, value, limit.value == value, rule, limit.text)
        else:
            # Other shards are not printed: the least of them can only be below rank 0's.
            rule = f"{said}; the router takes the least of {log.gpus} shards, so another has {int(limit.value):,}"
            ours = min(int(limit.value), value) if limit.value % size.value == 0 else value
            yield CheckLine("max_batch_total_tokens", limit.value, ours, limit.value <= value, rule, limit.text)
    elif limit is not None and _fallback(log):
        ours = tgi.fallback_total_tokens(_at(log))
        rule = "without a flash implementation no capacity is reported: max(16,000, max_total_tokens, max_batch_prefill_tokens)"
        yield CheckLine("max_batch_total_tokens", limit.value, ours, limit.value == ours, rule, limit.text)


def _rules(log: Log) -> Iterator[str]:
    attention, size = log.settings.get("attention"), log.printed.get("block_size")
    if size is not None:
        name = f" of {attention} attention" if attention else ""
        yield f"a block{name} has {int(size.value)} tokens (flashinfer 1, paged 16, flashdecoding 256); block 0 is kept aside"
    if _fallback(log):
        yield "16,000 is the router's own limit, no memory arithmetic"
    elif "max_batch_total_tokens" in log.printed:
        yield (
            "max batch total tokens are of all running requests together; each reserves its prompt and max_new_tokens when it is"
            " admitted"
        )
    if "free_bytes" in log.printed:
        free = log.printed["free_bytes"]
        yield f"free memory is printed in 10^9 bytes: {free.text} GB = {free.value / GIB:,.2f} GiB"
    refused = log.printed.get("refused_prefill_tokens")
    if refused is not None:
        yield f"refused: the warm-up's batch of {int(refused.value):,} prefill tokens does not fit beside the weights"


def _pool(log: Log, model: Model, gpu: Gpu | None) -> tuple[list[CheckLine], list[str]] | None:
    """The pool's bytes for the printed tokens, and its block size beside the printed one."""
    tokens: Figure | None = log.printed.get("max_batch_total_tokens")
    blocks, size = log.printed.get("blocks"), log.printed.get("block_size")
    settings = _at(log)
    if size is not None and settings.attention == "auto":
        names = {1: "flashinfer", 16: "paged", 256: "flashdecoding", 64: "flashdecoding-ipex"}
        settings = settings.model_copy(update={"attention": names.get(int(size.value), "auto")})
    if settings.num_shard == 1 and (log.gpus or 1) > 1:
        settings = settings.model_copy(update={"num_shard": log.gpus})
    try:
        pool = tgi.pool(model, settings, 1 << 50, gpu)
    except PlannerError as error:
        return [], [f"by the planner TGI refuses this: {error.message}"]
    each = pool.bytes_per_block // int(pool.details["block_size"])
    lines, rules = [], []
    if size is not None:
        ours = int(pool.details["block_size"])
        rule = f"{pool.details['attention']} attention has blocks of {ours}"
        lines.append(CheckLine("block_size", size.value, ours, size.value == ours, rule, size.text))
    count = int(blocks.value * size.value) if blocks is not None and size is not None else int(tokens.value) if tokens else 0
    if count:
        total = count * each
        where = f"every layer at full length, on one of {settings.num_shard} shards"
        rules.append(f"{count:,} tokens x {each:,} B ({where}) = {total / GIB:,.2f} GiB")
        if gpu is not None and total > gpu.memory_bytes:
            rule = f"a pool of {total / GIB:,.2f} GiB is more than {gpu.name} has: model, dtype or shards differ"
            lines.append(CheckLine("pool_bytes", total, gpu.memory_bytes, False, rule, None))
    return lines, rules


def _advice(log: Log) -> Iterator[str]:
    if "max_batch_total_tokens" in log.printed and not _fallback(log):
        yield "a smaller --max-batch-prefill-tokens leaves more for the cache, because the warm-up's peak is smaller"
        if log.settings.get("kv_cache_dtype", "auto") == "auto":
            yield "--kv-cache-dtype fp8_e4m3fn holds twice the tokens in the same pool"
        yield "more shards (--num-shard) split heads and weights"
    if "refused_prefill_tokens" in log.printed:
        yield "a smaller --max-batch-prefill-tokens or more shards (--num-shard) let it start"
