"""What comes of a SGLang log: every pool beside ours, the budget, what the lines mean, and what to change to get more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model
from planner.units import GIB
from validation.logs import sglang_memory as memory
from validation.logs.log import Check, CheckLine, Compared, Figure, Log, check_of
from validation.logs.models import described
from validation.logs.sglang_ours import DTYPES, ours, printed_settings, settings_of, versions
from validation.logs.sglang_pools import Pool, Pools

#: Figures of a rank that the planner has under the same name, with what they are.
COMPARED: Final[Mapping[str, str]] = {
    "k_bytes": "keys of the full layers", "v_bytes": "values of the full layers", "kv_bytes": "the latent pool",
    "swa_k_bytes": "keys of the window layers", "swa_v_bytes": "values of the window layers", "swa_tokens": "window tokens",
    "conv_bytes": "convolution states", "ssm_bytes": "recurrent states", "mamba_slots": "state slots",
}  # fmt: skip
_MOST: Final = 3
#: Tensor-parallel sizes that are tried where the paste has one rank's lines alone.
_RANKS: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Result(Compared):
    """The pools held to a model at a version."""

    model: Model
    version: str
    lines: tuple[CheckLine, ...]
    found: Mapping[str, Any]


def explain_log(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """The check of a log."""
    ranks: Sequence[Pools] = log.other.get("pools", ())
    rank = _binding(ranks)
    rules = list(memory.refusal_rules(log, rank))
    lines = list(memory.refusal_lines(log, rank))
    missing: list[str] = []
    if rank is None:
        return check_of(lines, () if lines or rules else ("the part of the log where the pools are allocated",), (), rules)
    result = None
    if model is not None and (best := _best(model, log, rank, gpu)) is not None:
        result, log, notes = best
        rules += notes
    if result is None and model is None:
        fitting = _of_catalogue(log, rank)
        if fitting:
            result = fitting[0]
            names = " and of ".join(dict.fromkeys(one.model.name for one in fitting))
            rules.append(f"inferred: the log does not name a model of the catalogue; every pool is that of {names}")
        elif rank.pools:
            missing.append("--model: the model's name, config or catalogue id; the log has no dimensions")
    if result is not None:
        lines += result.lines
        rules += _release(log, result)
        lines += memory.budget_lines(result.model, log, result.version, gpu, rank)
    lines += _sums(log, rank)
    lines += memory.branch_lines(log, rank)
    rules += _rules(log, ranks, rank, result)
    if result is not None and not any(line.name == "kv_tokens" for line in lines):
        missing += _missing(log, rank)
        rules += memory.fraction_rules(result.model, log, result.version, rank)
    row = int(result.found["row_bytes"]) if result is not None else 0
    stored = {"kv_cache_dtype": result.found["kv_cache_dtype"]} if result is not None else {}
    return check_of(lines, missing, memory.advice(log, row, {**log.settings, **stored}), rules)


def _release(log: Log, result: Result) -> Iterator[str]:
    """Which releases print such lines, and whose rules were taken."""
    since, until = log.other["bracket"]
    span = f"from {since} on" if since and not until else f"before {until}" if not since else f"from {since} to before {until}"
    if log.version is None and result.lines:
        printed = f"; its lines are those of releases {span}" if since or until else ""
        yield f"the release is not printed{printed}; the rules of {result.version} were taken"


def _binding(ranks: Sequence[Pools]) -> Pools | None:
    """The rank with the largest pools (a pipeline's fullest stage), of equal ones that with least free memory."""
    held = [rank for rank in ranks if rank.pools] or list(ranks)
    if not held:
        return None

    def order(rank: Pools) -> tuple[int, float]:
        figure = rank.number("avail_after_load_bytes") or rank.number("avail_after_pool_bytes")
        return -sum(pool.bytes for pool in rank.pools), float(figure.value) if figure else float("inf")

    return min(held, key=order)


def _missing(log: Log, rank: Pools) -> Iterator[str]:
    if log.settings.get("max_total_tokens"):
        return
    if rank.number("avail_after_load_bytes") is None:
        yield "the lines of \"Load weight begin\" and \"end\": free memory before and after loading, which the tokens follow from"
    elif not isinstance(log.settings.get("mem_fraction_static"), float):
        yield "--set mem_fraction_static=..: the share that weights and pools have together (server_args of the log)"


def _best(model: Model, log: Log, rank: Pools, gpu: Gpu | None) -> tuple[Result, Log, list[str]] | None:
    """The version that most figures agree with, and the log with what had to be inferred or differs for all of them to agree."""
    plain = _scored(model, log, rank, gpu)
    if plain is None or plain[0] == 0:
        return (plain[1], log, []) if plain else None
    fitting = []
    for guess in _guesses(log, rank):
        other = replace(log, settings={**log.settings, **guess})
        found = _scored(model, other, rank, gpu)
        if found is not None and found[0] == 0 and found[1].agreeing:
            fitting.append((", ".join(f"{name} {value}" for name, value in guess.items()), found[1], other))
        if len(fitting) == _MOST:
            break
    if not fitting:
        return plain[1], log, []
    said = ", or ".join(text for text, _, _ in fitting)
    if log.other.get("told") and not _uint8(rank):
        return plain[1], log, [f"differs: the printed sizes are those of {said}, which the log's arguments do not say"]
    return fitting[0][1], fitting[0][2], [f"inferred: {said}, which the log does not print; with it every size agrees"]


def _scored(model: Model, log: Log, rank: Pools, gpu: Gpu | None) -> tuple[int, Result] | None:
    """The best version's result; the score is minus the number of figures that differ."""
    scored = []
    for version in versions(log.other["bracket"], log.version):
        one = _compared(model, log, rank, version)
        if one is not None:
            budget = list(memory.budget_lines(model, log, version, gpu, rank))
            agreeing = sum(line.agrees for line in budget)
            scored.append((one.agreeing - len(one.lines) + agreeing - len(budget), agreeing, one))
    best = max(scored, key=lambda row: row[:2], default=None)
    return (best[0], best[2]) if best else None


def _guesses(log: Log, rank: Pools) -> Iterator[dict[str, Any]]:
    """What a paste often leaves out: the ranks, how the cache is stored, the page."""
    printed = any(DTYPES.get(pool.dtype or "") for pool in rank.pools)
    stored = ["fp8_e4m3", "nvfp4", "fp4_e2m1"] if _uint8(rank) else [] if printed else ["fp8_e4m3"]
    ranks = [count for count in _RANKS if count != log.settings.get("tensor_parallel_size", 1)]
    yield from ({"kv_cache_dtype": kind} for kind in stored)
    yield from ({"tensor_parallel_size": count} for count in ranks)
    yield {"page_size": 64}
    yield from ({"tensor_parallel_size": count, "kv_cache_dtype": kind} for count in ranks for kind in stored)


def _uint8(rank: Pools) -> bool:
    """Whether the printed dtype is bytes that hold something narrower, or fp8 with its scales."""
    return any(pool.dtype == "uint8" for pool in rank.pools)


def _of_catalogue(log: Log, rank: Pools) -> list[Result]:
    """Models of the catalogue with the log's architecture or states and all its pools."""
    if not rank.pools:
        return []
    found = []
    wanted = log.other.get("architecture")
    for model in described():
        if wanted is not None and model.architecture != wanted:
            continue
        if log.other.get("hybrid") and not any(cache.kind == "state" for layer in model.layers for cache in layer.caches):
            continue
        for version in versions(log.other["bracket"], log.version)[:1]:
            one = _compared(model, log, rank, version)
            if one is not None and one.agrees:
                found.append(one)
        if len(found) == _MOST:
            break
    return found


def _compared(model: Model, log: Log, rank: Pools, version: str) -> Result | None:
    """Each printed pool beside ours for the printed numbers of tokens and slots; None where SGLang would refuse."""
    target = rank.pool("target")
    tokens = target.tokens if target is not None else None
    printed = tokens or log.printed.get("full_tokens") or log.printed.get("max_total_num_tokens")
    more: dict[str, Any] = {}
    if printed is not None:
        more["max_total_tokens"] = max(1, int(printed.value))
    more |= printed_settings(log.settings, rank)
    try:
        found = ours(model, settings_of(log.settings, version, **more))
    except PlannerError:
        return None
    return Result(model, version, tuple(_lines(rank, found, printed)), found)


def _lines(rank: Pools, found: Mapping[str, Any], tokens: Figure | None) -> Iterator[CheckLine]:
    for figure in rank.figures:
        if figure.name not in COMPARED or figure.name not in found:
            continue
        value = int(found[figure.name])
        what, count = COMPARED[figure.name], tokens
        if figure.name.startswith("swa_"):
            count = next((one for one in rank.figures if one.name == "swa_tokens"), tokens)
        if figure.name.endswith("_bytes"):
            each = _each(value, count, int(found.get("page_size", 1))) if "states" not in what else ""
            rule = f"{what} on one rank{each} = {value / GIB:,.4f} GiB"
            agrees = abs(figure.value - value) <= figure.slack + 1
            yield CheckLine(figure.name, figure.value, value, agrees, rule, f"{figure.text} GB")
        else:
            yield CheckLine(figure.name, figure.value, value, figure.value == value, what, figure.text)
    yield from _draft(rank, found)


def _each(value: int, tokens: Figure | None, page: int) -> str:
    """A pool as tokens and padding x a row."""
    padding = next((n for n in (page, 1) if tokens is not None and value % (int(tokens.value) + n) == 0), None)
    if tokens is None or padding is None:
        return ""
    rows = int(tokens.value)
    return f" = ({rows:,} tokens + {padding} of padding) x {value // (rows + padding):,} B"


def _draft(rank: Pools, found: Mapping[str, Any]) -> Iterator[CheckLine]:
    """The draft's pool has the target's slots: its row must be whole layers like the target's, or the draft's own."""
    draft, target = rank.pool("draft"), rank.pool("target")
    if draft is None or draft.tokens is None or target is None or target.keys is None or draft.keys is None:
        return
    layer = next((size for size in found.get("layer_keys", ()) if size), 0)
    if not layer:
        return
    rows = int(draft.tokens.value) + 1
    low, high = draft.keys.low / rows, draft.keys.high / rows
    layers = round((low + high) / 2 / layer)
    value = layers * layer * rows
    rule = f"the draft's keys: {layers} layers x {layer:,} B x {int(draft.tokens.value):,} tokens = {value / GIB:,.4f} GiB"
    yield CheckLine("draft_k_bytes", draft.keys.value, value, abs(draft.keys.value - value) <= draft.keys.slack + 1, rule,
                    f"{draft.keys.text} GB")  # fmt: skip


def _sums(log: Log, rank: Pools) -> Iterator[CheckLine]:
    """The line that sums two pools, beside the pools."""
    both = log.printed.get("both_pools_bytes")
    parts = [figure for pool in rank.pools if pool.role != "draft" for figure in pool.sizes]
    if both is None or len(parts) < 3:
        return
    value = int(sum(part.value for part in parts))
    slack = both.slack + sum(part.slack for part in parts)
    rule = f"the sum of the full and the window pool: {' + '.join(part.text for part in parts)}; the same bytes, not more"
    yield CheckLine("both_pools_bytes", both.value, value, abs(both.value - value) <= slack, rule, f"{both.text} GB")


def _rules(log: Log, ranks: Sequence[Pools], rank: Pools, result: Result | None) -> Iterator[str]:
    target, draft = rank.pool("target"), rank.pool("draft")
    if target is not None and target.keys is not None and target.values is not None:
        both = target.keys.value + target.values.value
        sizes = f"K {target.keys.text} and V {target.values.text}"
        yield f"{sizes} are halves of one pool, {both / GIB:,.2f} GiB; \"GB\" is 2^30 bytes"
    yield from _row(target, result)
    if draft is not None and target is not None:
        ours = {line.name: line.ours for line in result.lines} if result is not None and result.agrees else {}
        keys, drafts = ours.get("k_bytes"), ours.get("draft_k_bytes")
        total = 2 * (keys + drafts) if keys and drafts and target.values else sum(pool.bytes for pool in rank.pools)
        sizes = " + ".join(figure.text for pool in rank.pools for figure in pool.sizes)
        yield (
            f"two pools of each rank, the target's and the draft's, hold the same {_count(target)} tokens: add the GB"
            f" ({sizes} = {total / GIB:,.2f} GiB a rank), not the tokens"
        )
        yield from _draft_row(draft, target, result)
    window = rank.pool("window")
    if window is not None:
        yield "window layers have a pool of their own, a share of the full one (swa_full_tokens_ratio), not the window's size"
    slots = rank.number("mamba_slots")
    if slots is not None:
        yield f"state slots: {int(slots.value):,} are printed and {int(slots.value) + 1:,} allocated, one for padding"
    if len([one for one in ranks if one.pools]) > 1:
        yield "every rank prints its own pool; the tokens are those of the rank with least memory, and free memory differs"
    yield from memory.branch_rules(log)
    yield from memory.memory_rules(log, rank)


def _count(pool: Pool) -> str:
    return f"{int(pool.tokens.value):,}" if pool.tokens is not None else "printed"


def _row(pool: Pool | None, result: Result | None) -> Iterator[str]:
    """Bytes of a token: those of the model, or what the print leaves."""
    if pool is None or pool.tokens is None or not pool.tokens.value:
        return
    tokens = int(pool.tokens.value)
    if result is not None and result.agrees:
        sizes = [(name, int(result.found[name])) for name in ("k_bytes", "v_bytes") if result.found.get(name)]
        padded = max(tokens + int(result.found["padding_bytes"]) // max(1, _per_token(result)), tokens)
        each = ", ".join(f"{size // padded:,} B of {'keys' if name == 'k_bytes' else 'values'}" for name, size in sizes)
        yield f"a token takes {each} on one rank: {result.found['rows']}, {_per_token(result):,} B with all layers"
        return
    for figure in pool.sizes[:1]:
        low, high = figure.low / (tokens + 1), figure.high / tokens
        yield f"{figure.text} GB / {tokens:,} tokens: between {low:,.0f} and {high:,.0f} B a token"


def _per_token(result: Result) -> int:
    return int(result.found["row_bytes"]) // int(result.found.get("page_size", 1))


def _draft_row(draft: Pool, target: Pool, result: Result | None) -> Iterator[str]:
    if draft.keys is None or draft.tokens is None:
        return
    rows = int(draft.tokens.value)
    low, high = draft.keys.low / rows, draft.keys.high / rows
    layer = next((size for size in result.found.get("layer_keys", ()) if size), 0) if result is not None else 0
    if layer and int(high // layer) * layer >= low - 1:
        layers = int(high // layer)
        yield f"the draft's row: {draft.keys.text} GB / {rows:,} = {layers * layer:,} B of keys = {layers} layers x {layer:,} B"
    else:
        yield f"the draft's row: {draft.keys.text} GB / {rows:,} tokens: between {low:,.0f} and {high:,.0f} B of keys"
