"""What comes of a TensorRT-LLM log: the cache beside ours, the trial told from the final one, and the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.engines import tensorrt_llm
from planner.engines.base import Pool
from planner.engines.tensorrt_llm_pools import resolve
from planner.engines.versions import rules_at, table
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model
from planner.units import GIB, ceil_div
from validation.logs.log import Check, CheckLine, Figure, Log, check_of
from validation.logs.models import described
from validation.logs.rows import row_words


@dataclass(frozen=True)
class Allocation:
    """One allocation: tokens and volume, and the blocks and tokens of a block that stand before it."""

    tokens: Figure
    size: Figure
    blocks: Figure | None = None
    per: Figure | None = None


#: More than any pool: for logs whose number of tokens is an input.
_AMPLE: Final = 1 << 50
_MOST: Final = 3


def explain_log(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """The check of a log."""
    rules = list(_allocation_rules(log))
    missing: list[str] = []
    models = [model] if model is not None else _of_catalogue(log)
    if model is None and models:
        names = " and of ".join(dict.fromkeys(one.name for one in models))
        rules.append(f"inferred: the log names no model of the catalogue; bytes of a token are those of {names}")
    lines = list(_own_lines(log))
    if models:
        lines += _lines(models[0], log)
        rules += _row_rules(models[0], log)
    elif log.other.get("allocations"):
        missing.append("--model: the model's name, config or catalogue id; the log has no dimensions")
        rules += _print_rules(log)
    if "available_bytes" not in log.printed and "budget_bytes" not in log.printed and log.other.get("allocations"):
        missing.append("the line of \"available:\" or \"Peak memory during memory usage profiling\": what the fraction is of")
    return check_of(lines, missing, _advice(log), rules)


def _version(log: Log) -> str:
    """The log's release, else the newest whose backend it shows."""
    if log.version is not None:
        try:
            rules_at("tensorrt-llm", log.version)
            return log.version
        except PlannerError:
            pass
    return str(table("tensorrt-llm")["read_up_to"])


def _settings(log: Log, **more: Any) -> tensorrt_llm.Settings:
    given = {key: value for key, value in log.settings.items() if key not in ("version", "max_tokens", "max_seq_len")}
    engines = "available_bytes" in log.printed or "block_bytes" in log.printed
    if engines and not log.other.get("pytorch"):
        given["backend"] = "tensorrt"
    return tensorrt_llm.Settings(**{**given, "version": _version(log), **more})


def _pool(model: Model, log: Log, budget: int = _AMPLE, **more: Any) -> Pool | None:
    try:
        return tensorrt_llm.pool(model, _settings(log, **more), budget)
    except PlannerError:
        return None


def _kinds(log: Log) -> list[dict[str, Any]]:
    """How the cache may be stored: as given; else the model's own way and, where the log does not say, 8 bit."""
    return [{}] if "kv_cache_dtype" in log.settings else [{}, {"kv_cache_dtype": "fp8"}, {"dtype": "float16"}]


def _of_catalogue(log: Log) -> list[Model]:
    """Models whose row gives every allocation, where the log prints enough digits to tell them from most others."""
    row: Figure | None = log.printed.get("bytes_per_token")
    allocations: Sequence[Allocation] = log.other.get("allocations", ())
    if row is None and not any(one.size.value > GIB for one in allocations):
        return []
    found = []
    for model in described():
        pool = _pool(model, log, max_tokens=1 << 20)
        each = pool.details["bytes_per_token"] if pool else 0
        if each and (row is None or row.value == each) and all(_volume(one.tokens, one.size, each) for one in allocations):
            found.append(model)
        if len(found) == _MOST:
            break
    return found


def _volume(tokens: Figure, size: Figure, each: float) -> bool:
    return bool(abs(tokens.value * each - size.value) <= size.slack + 1)


def _own_lines(log: Log) -> Iterator[CheckLine]:
    """Figures of the log against each other, which no model is needed for."""
    for one in log.other.get("allocations", ()):
        if one.blocks is not None and one.per is not None:
            value = int(one.blocks.value * one.per.value)
            rule = f"tokens = primary blocks x tokens of a block = {int(one.blocks.value):,} x {int(one.per.value)}"
            yield CheckLine("kv_tokens", one.tokens.value, value, value == one.tokens.value, rule, one.tokens.text)
    blocks = log.printed.get("primary_blocks")
    each, size = log.printed.get("block_bytes"), log.printed.get("kv_bytes")
    if each is not None and blocks is not None and size is not None:
        value = int(each.value * blocks.value)
        rule = f"the pool = blocks x bytes of a block = {int(blocks.value):,} x {int(each.value):,} B"
        yield CheckLine("kv_bytes", size.value, value, abs(value - size.value) <= size.slack + 1, rule, f"{size.text} GiB")
    yield from _profiled(log)


def _profiled(log: Log) -> Iterator[CheckLine]:
    """The PyTorch backend's budget: (total - peak + trial cache) x fraction."""
    names = ("total_bytes", "peak_bytes", "trial_bytes", "budget_bytes")
    total, peak, trial, budget = (log.printed.get(name) for name in names)
    fraction = log.settings.get("free_gpu_memory_fraction")
    if total is None or peak is None or trial is None or budget is None or not isinstance(fraction, float):
        return
    left = tensorrt_llm.available_bytes(int(total.value), int(peak.value), 0, int(trial.value))
    value = tensorrt_llm.kv_budget_bytes(tensorrt_llm.Settings(free_gpu_memory_fraction=fraction), left)
    slack = (total.slack + peak.slack + trial.slack) * fraction + budget.slack
    rule = f"budget = (total - peak + trial cache) x fraction = ({total.text} - {peak.text} + {trial.text}) x {fraction:g} GiB"
    yield CheckLine("budget_bytes", budget.value, value, abs(value - budget.value) <= slack + 1, rule, f"{budget.text} GiB")


def _lines(model: Model, log: Log) -> Iterator[CheckLine]:
    """The printed volumes, blocks, tokens and bytes of a token beside the planner's."""
    kind = _best_kind(model, log)
    pool = _pool(model, log, max_tokens=1 << 20, **kind)
    if pool is None:
        return
    each = int(pool.details["bytes_per_token"])
    stored = pool.details["kv_cache_dtype"]
    row = log.printed.get("bytes_per_token")
    if row is not None:
        yield CheckLine("bytes_per_token", row.value, each, row.value == each, f"kv size: bytes of a token in {stored}", row.text)
    allocations: Sequence[Allocation] = log.other.get("allocations", ())
    for number, one in enumerate(allocations):
        tokens, size = one.tokens, one.size
        value = int(tokens.value) * each
        name = "trial_kv_bytes" if number + 1 < len(allocations) or _is_trial(log, tokens) else "kv_bytes"
        rule = f"{int(tokens.value):,} tokens x {each:,} B in {stored} = {value / GIB:,.4f} GiB"
        yield CheckLine(name, size.value, value, _volume(tokens, size, each), rule, f"{size.text} GiB")
    exact, tokens_exact = log.printed.get("kv_exact_bytes"), log.printed.get("kv_tokens")
    if exact is not None and tokens_exact is not None:
        value = int(tokens_exact.value) * each
        rule = f"{int(tokens_exact.value):,} tokens x {each:,} B in {stored}"
        yield CheckLine("kv_exact_bytes", exact.value, value, value == exact.value, rule, exact.text)
    yield from _blocks(model, log, kind, each)


def _best_kind(model: Model, log: Log) -> dict[str, Any]:
    """The storage that the printed volumes are of, where the log does not name it."""
    allocations: Sequence[Allocation] = log.other.get("allocations", ())
    row = log.printed.get("bytes_per_token")
    for kind in _kinds(log):
        pool = _pool(model, log, max_tokens=1 << 20, **kind)
        each = pool.details["bytes_per_token"] if pool else 0
        if each and (row is None or row.value == each) and all(_volume(one.tokens, one.size, each) for one in allocations):
            return kind
    return {}


def _blocks(model: Model, log: Log, kind: dict[str, Any], each: int) -> Iterator[CheckLine]:
    """Blocks and tokens of the budget: available x fraction, by the rule of the release."""
    available, blocks, tokens = (log.printed.get(name) for name in ("available_bytes", "primary_blocks", "kv_tokens"))
    if available is None or (blocks is None and tokens is None) or log.settings.get("max_tokens"):
        return
    settings = _settings(log, **kind)
    sides = [tensorrt_llm.kv_budget_bytes(settings, int(value)) for value in (available.low, available.high)]
    pools = [tensorrt_llm.pool(model, settings, side) for side in sides]
    up = settings.backend == "tensorrt" or rules_at("tensorrt-llm", settings.version)["blocks"]["pytorch"] == "up"
    block = int(pools[0].details["tokens_per_block"])
    rule = (
        f"available {available.text} GiB x {settings.free_gpu_memory_fraction:g} / ({each:,} B x {block}) ="
        f" {sides[0] / each / block:,.1f} to {sides[1] / each / block:,.1f} blocks, rounded {'up' if up else 'down'}"
    )
    if blocks is not None:
        low, high = pools[0].num_blocks, pools[1].num_blocks
        value = min(max(int(blocks.value), low), high)
        yield CheckLine("primary_blocks", blocks.value, value, low <= blocks.value <= high, rule, blocks.text)
    elif tokens is not None:
        low, high = pools[0].tokens, pools[1].tokens
        value = min(max(int(tokens.value), low), high)
        yield CheckLine("kv_tokens", tokens.value, value, low <= tokens.value <= high, rule, tokens.text)


def _is_trial(log: Log, tokens: Figure) -> bool:
    """The only allocation of a log is the trial's where the profiler's own limit of as many tokens stands before it."""
    allocations = log.other.get("allocations", ())
    limit = log.printed.get("max_tokens_set")
    asked = log.settings.get("max_tokens")
    if len(allocations) != 1 or not log.other.get("pytorch"):
        return False
    return limit is not None and limit.value == tokens.value and asked is not None and asked != tokens.value


def _allocation_rules(log: Log) -> Iterator[str]:
    allocations: Sequence[Allocation] = log.other.get("allocations", ())
    if len(allocations) > 1:
        first, last = allocations[0], allocations[-1]
        yield (
            f"two allocations: {int(first.tokens.value):,} tokens ({first.size.text} GiB) are the trial cache that memory is"
            f" profiled with, {int(last.tokens.value):,} ({last.size.text} GiB) the final one; the last replaces the first"
        )
    for tokens, size in ((one.tokens, one.size) for one in allocations):
        if _is_trial(log, tokens):
            asked = int(log.settings["max_tokens"])
            yield (
                f"{int(tokens.value):,} tokens ({size.text} GiB) are the trial cache of the profiler, the first of two"
                f" allocations; max_tokens {int(tokens.value):,} is the profiler's limit, not the setting of {asked:,}"
            )
    if "torch_cap_bytes" in log.printed:
        yield "the PyTorch memory fraction caps torch outside the cache; it says nothing of the cache"
    if "bytes_per_token" in log.printed:
        yield f"kv size is {int(log.printed['bytes_per_token'].value):,}: bytes of a token on this rank"
    if "available_bytes" in log.printed:
        yield "free_gpu_memory_fraction is of what is left after weights and buffers, not of the card"


def _row_rules(model: Model, log: Log) -> Iterator[str]:
    pool = _pool(model, log, max_tokens=1 << 20, **_best_kind(model, log))
    if pool is None:
        return
    settings = _settings(log, **_best_kind(model, log))
    costs = resolve(model, settings, rules_at("tensorrt-llm", settings.version), None).costs
    rows = (((cost.heads, cost.k_dim, cost.v_dim), cost.row_bytes) for cost in costs if cost.row_bytes)
    each, block = int(pool.details["bytes_per_token"]), int(pool.details["tokens_per_block"])
    yield f"a token takes {row_words(rows, pool.details['kv_cache_dtype'])}, {each:,} B with all layers on one rank"
    yield "window layers take their full length unless max_attention_window lists windows"
    for tokens in [one.tokens for one in log.other.get("allocations", ())][:1]:
        yield f"{int(tokens.value):,} tokens are {ceil_div(int(tokens.value), block):,} blocks of {block}"
        if log.other.get("max_num_tokens") == int(tokens.value) - block:
            yield f"{int(tokens.value):,} = max_num_tokens {int(tokens.value) - block:,} and one block: what the trial run needs"
        if _is_trial(log, tokens):
            asked = int(log.settings["max_tokens"])
            yield f"max_tokens {asked:,} would be {asked * each / GIB:,.2f} GiB"


def _print_rules(log: Log) -> Iterator[str]:
    for tokens, size in ((one.tokens, one.size) for one in log.other.get("allocations", ())):
        low, high = size.low / tokens.value, size.high / tokens.value
        yield f"{size.text} GiB / {int(tokens.value):,} tokens: between {low:,.0f} and {high:,.0f} B a token"


def _advice(log: Log) -> Iterator[str]:
    if "primary_blocks" in log.printed or log.other.get("allocations"):
        yield "kv_cache_config.free_gpu_memory_fraction (0.9 of what is left) gives more; max_tokens only lowers it"
        if log.settings.get("kv_cache_dtype", "auto") == "auto":
            yield "kv_cache_config.dtype: fp8 holds twice the tokens in the same pool"
        yield "a smaller max_batch_size or max_num_tokens leaves more, because buffers come off before the fraction"
