"""The budget of a SGLang log: free memory before and after loading, the static fraction, and what is left after the pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.engines import sglang
from planner.engines.sglang_budget import mem_fraction_static
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model
from planner.units import GIB
from validation.logs.log import CheckLine, Figure, Log
from validation.logs.sglang_ours import ours, printed_settings, settings_of
from validation.logs.sglang_pools import Pools

#: Ranks of one start differ in free memory by a few percent.
_LEAST_OF_OTHERS = 0.95


def before_load(rank: Pools) -> Figure | None:
    """Free memory before the weights: as printed, else what is free after them and what they took."""
    printed = rank.number("avail_before_load_bytes")
    if printed is not None:
        return printed
    after, weights = rank.number("avail_after_load_bytes"), rank.number("weights_bytes")
    if after is None or weights is None:
        return None
    slack = after.slack + weights.slack
    return Figure("avail_before_load_bytes", after.value + weights.value, slack, f"{after.text} + {weights.text}", after.line)


def budget_lines(model: Model, log: Log, version: str, gpu: Gpu | None, rank: Pools) -> Iterator[CheckLine]:
    """The printed tokens beside those of the budget: free after loading - free before x (1 - fraction), by the cell.

    A default fraction, which hangs on the card and the release, is only held to where it gives the tokens; a draft takes a part
    of the budget that is not printed. Estimated where the least of all ranks, or free memory before loading, is not in the paste.
    """
    given = {**log.settings, **printed_settings(log.settings, rank)}
    tokens = log.printed.get("kv_tokens") or log.printed.get("max_total_num_tokens")
    exact = log.printed.get("budget_bytes")
    if exact is not None and tokens is not None:
        cell = _cell(model, given, version)
        count = int(exact.value) // cell
        rule = f"tokens = budget / cell = {int(exact.value):,} B / {cell:,} B = {exact.value / cell:,.1f}, rounded down"
        yield CheckLine("kv_tokens", tokens.value, count, tokens.value == count, rule, tokens.text)
        return
    before, after = before_load(rank), rank.number("avail_after_load_bytes")
    if tokens is None or before is None or after is None or log.settings.get("max_total_tokens"):
        return
    if rank.pool("draft") is not None or rank.number("intermediate_ssm_bytes") is not None:
        return
    fraction, said = _fraction(model, log, version, gpu, int(before.value))
    if fraction is None:
        return
    settings = settings_of(given, version, mem_fraction_static=fraction)
    reserved = log.printed.get("reserved_bytes")
    sizes = []
    for side in (-1, 1):
        # Both readings at the ends of their rounding that give least and most.
        low = int(before.value - side * before.slack), int(after.value + side * after.slack)
        kept = int(reserved.value) if reserved is not None else 0
        sizes.append(sglang.kv_budget_bytes(model, settings, *low, reserved_bytes=kept))
    counts = [int(ours(model, settings, size)["kv_tokens"]) for size in sizes]
    free = f"{after.value / GIB:,.2f} - {before.value / GIB:,.2f} x (1 - {fraction:g})"
    cell, middle = _cell(model, given, version), sum(sizes) / 2 / GIB
    rule = (
        f"budget = free after loading - free before x (1 - mem_fraction_static) = {free} = {middle:,.2f} GiB; {said};"
        f" tokens = budget / {cell:,} B = {counts[0]:,} to {counts[1]:,} with the readings' rounding"
    )
    nearest = min(max(int(tokens.value), counts[0]), counts[1])
    agrees = counts[0] <= tokens.value <= counts[1]
    held = len([one for one in log.other.get("pools", ()) if one.number("avail_after_load_bytes")])
    partly = held < (log.gpus or 1)
    if partly:
        agrees = _LEAST_OF_OTHERS * counts[0] <= tokens.value <= counts[1]
        rule += "; the least of all ranks decides, and not all are in the paste"
    estimated = partly or rank.number("avail_before_load_bytes") is None
    if agrees or isinstance(log.settings.get("mem_fraction_static"), float):
        yield CheckLine("kv_tokens", tokens.value, nearest, agrees, rule, tokens.text, estimated)


def fraction_rules(model: Model, log: Log, version: str, rank: Pools) -> Iterator[str]:
    """The fraction that the printed tokens would follow from, where it is not printed."""
    tokens, before = log.printed.get("kv_tokens"), before_load(rank)
    after = rank.number("avail_after_load_bytes")
    if tokens is None or before is None or after is None or isinstance(log.settings.get("mem_fraction_static"), float):
        return
    given = {**log.settings, **printed_settings(log.settings, rank)}
    taken = tokens.value * _cell(model, given, version) + _states(rank)
    fraction = 1 - (after.value - taken) / before.value
    yield (
        f"the tokens take {taken / GIB:,.2f} of the {after.text} GiB that are free after loading; by the budget's rule"
        f" mem_fraction_static would be {fraction:.3f}"
    )


def _cell(model: Model, given: Mapping[str, Any], version: str) -> int:
    """Bytes of one token on one rank."""
    settings = settings_of(given, version, max_total_tokens=1 << 20)
    page = settings.page_size or 1
    return int(ours(model, settings)["row_bytes"]) // page


def _fraction(model: Model, log: Log, version: str, gpu: Gpu | None, before: int) -> tuple[float | None, str]:
    """mem_fraction_static as printed, else the version's default for the card; the free memory stands for an unknown card."""
    given = log.settings.get("mem_fraction_static")
    if isinstance(given, float):
        return given, f"mem_fraction_static {given:g} as printed"
    try:
        found = mem_fraction_static(model, settings_of(log.settings, version), gpu.memory_bytes if gpu else before)
    except PlannerError:
        return None, ""
    card = gpu.name if gpu else "a card of about the free memory"
    return found, f"mem_fraction_static {found:g} is the default of about {version} on {card}"


def memory_rules(log: Log, rank: Pools) -> Iterator[str]:
    """What happens to free memory, in words with its numbers."""
    target, draft = rank.pool("target"), rank.pool("draft")
    after, end = rank.number("avail_after_load_bytes"), rank.number("avail_after_pool_bytes")
    if target is not None and after is not None and end is not None:
        taken = sum(pool.bytes for pool in rank.pools if pool.role != "draft") + _states(rank)
        left = after.value - taken
        other = "for other buffers" if left > end.value else "of rounding"
        yield (
            f"after loading {after.text} GiB are free; the pools take {taken / GIB:,.2f}, which leaves {left / GIB:,.2f};"
            f" {end.text} are printed: {abs(left - end.value) / GIB:,.2f} GiB {other}"
        )
    later = rank.number("draft_avail_after_pool_bytes")
    if draft is not None and end is not None and later is not None:
        yield (
            f"the draft's pool takes {draft.bytes / GIB:,.2f} GiB: free memory falls from {end.text} to {later.text}, by"
            f" {(end.value - later.value) / GIB:,.2f}"
        )
    if log.printed.get("left_over_bytes") is not None:
        yield f"available_gpu_mem={log.printed['left_over_bytes'].text} GB is what is left over after everything, not the pool"
    if "virtual_tokens" in log.printed or "virtual_bytes" in log.printed:
        yield "a VA upper bound is reserved addresses, not memory: the pool is sized after the graphs are captured"
    if "host_bytes" in log.printed:
        host = log.printed["host_bytes"]
        yield f"host pools are printed in 10^9 bytes: {host.text} GB = {host.value / GIB:,.2f} GiB"


def _states(rank: Pools) -> int:
    names = ("conv_bytes", "ssm_bytes", "intermediate_ssm_bytes", "intermediate_conv_bytes")
    return int(sum(figure.value for name in names if (figure := rank.number(name))))


def branch_lines(log: Log, rank: Pools) -> Iterator[CheckLine]:
    """A budget that a branch printed before its own correction, beside the rule's."""
    printed, before, after = log.printed.get("available_bytes"), before_load(rank), rank.number("avail_after_load_bytes")
    fraction = log.settings.get("mem_fraction_static")
    if printed is None or before is None or after is None or not isinstance(fraction, float):
        return
    value = int(after.value - (1 - fraction) * before.value)
    # Free memory before loading is not printed; what the weights took is, a little short of it.
    agrees = abs(value - printed.value) <= GIB // 20 + after.slack + before.slack
    rule = (
        f"free after loading - free before x (1 - fraction) = {after.text} - {before.value / GIB:,.2f} x {1 - fraction:.3f} ="
        f" {value / GIB:,.2f} GiB"
    )
    yield CheckLine("available_bytes", printed.value, value, agrees, rule, printed.text)


def branch_rules(log: Log) -> Iterator[str]:
    """What a branch's corrected budget leaves out."""
    printed, budget, workspace = (log.printed.get(name) for name in ("available_bytes", "budget_bytes", "workspace_bytes"))
    if printed is not None and budget is not None:
        less = f"the corrected budget is smaller by {(printed.value - budget.value) / GIB:,.2f} GiB"
        yield less + (f"; the attention workspace beside the pool takes {workspace.text}" if workspace is not None else "")


def refusal_rules(log: Log, rank: Pools | None) -> Iterator[str]:
    """Why it did not start."""
    if not log.other.get("refused"):
        return
    fraction: Any = log.settings.get("mem_fraction_static")
    least, suggested = log.other.get("least"), log.other.get("suggested")
    if least is not None:
        yield (
            f"refused: at mem_fraction_static {fraction} nothing is left for the pool; {least} = 1 - free after loading / free"
            f" before: the weights take {float(least):.1%} of what was free, and the fraction must be above {suggested}"
        )
    else:
        yield f"refused: at mem_fraction_static {fraction or '(the default)'} nothing is left for the pool after the weights"
    if rank is not None and least is not None:
        before, after = before_load(rank), rank.number("avail_after_load_bytes")
        if before is not None and after is not None:
            yield f"1 - {after.text} / {before.value / GIB:,.2f} = {1 - after.value / before.value:.4f}"


def refusal_lines(log: Log, rank: Pools | None) -> Iterator[CheckLine]:
    """The refusal's least fraction beside that of the two readings of free memory."""
    least = log.other.get("least")
    before, after = (before_load(rank), rank.number("avail_after_load_bytes")) if rank is not None else (None, None)
    if least is None or before is None or after is None:
        return
    value = 1 - after.value / before.value
    slack = (after.slack + before.slack) / before.value + 0.00005
    rule = f"the least fraction = 1 - free after / free before = 1 - {after.text} / {before.value / GIB:,.2f}"
    yield CheckLine("mem_fraction_static", float(least), round(value, 4), abs(value - float(least)) <= slack, rule, least)


def advice(log: Log, row: int, settings: Mapping[str, Any]) -> Iterator[str]:
    """What to change to get more tokens, with what it gives. row: bytes of a token on one rank."""
    left = log.printed.get("avail_after_graphs_bytes") or log.printed.get("left_over_bytes")
    if left is not None and left.value > 2 * GIB and row:
        more = int((left.value - GIB) // row)
        yield f"{left.text} GiB are left over after the graphs: a higher --mem-fraction-static gives up to {more:,} tokens more"
    if settings.get("kv_cache_dtype") in ("bfloat16", "bf16", "float16") and row:
        yield "--kv-cache-dtype fp8_e4m3 holds about twice the tokens in the same pool"
    if "draft_kv_tokens" in log.printed or "draft_tokens" in log.printed:
        yield "without speculative decoding the draft's pool would be free"
    if "swa_tokens" in log.printed:
        yield "a lower --swa-full-tokens-ratio gives the full layers more of the pool where requests are long"
    if "mamba_slots" in log.printed:
        yield "a lower --max-mamba-cache-size or --mamba-full-memory-ratio gives the tokens more of the memory"
