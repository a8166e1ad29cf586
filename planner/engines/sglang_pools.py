"""From a budget to SGLang's pools: how many tokens, window tokens and state slots, and how many requests they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.engines.base import Pool, PoolGroup
from planner.engines.costs import LayerCost, generation, stages
from planner.engines.sglang_budget import asked_running, graph_defaults, max_running_requests, req_to_token_bytes
from planner.engines.sglang_cells import NAME, Setup, costs, resolve
from planner.engines.versions import newer_than_known
from planner.errors import EngineRefusal, InputError
from planner.texts import tell
from planner.units import ceil_div, round_up


@dataclass(frozen=True)
class Tokens:
    """Sizes of the pools: tokens printed, tokens of the full and of the window pool; both 0 where nothing fits."""

    total: int
    full: int
    window: int


def draft_row_bytes(setup: Setup, found: Sequence[LayerCost]) -> int:
    """Bytes of one token in the draft model's pool, which has the target's slots.

    EAGLE, MTP, STANDALONE: int(target's row x draft layers / target's layers), and whole index keys; beside window pools a
    full layer's row x draft layers. DFLASH: the draft model's own row. n-gram speculation has no cache.
    Source: model_executor/pool_configurator.py.
    """
    settings = setup.settings
    if settings.speculative_algorithm in (None, "NGRAM"):
        return 0
    draft = settings.speculative_draft_model
    if settings.speculative_algorithm == "DFLASH":
        if draft is None:
            raise InputError("DFLASH needs the draft's own widths: set speculative_draft_model", field="speculative_draft_model")
        own = resolve(draft, settings.model_copy(update={"speculative_algorithm": None}), setup.rules, setup.gpu)
        return sum(cost.row_bytes for cost in costs(own))
    rows = [cost for cost in found if cost.row_bytes]
    count = settings.speculative_draft_layers if draft is None else len(draft.layers)
    if not rows:
        return 0
    wide = [cost.row_bytes for cost in rows if cost.window is None]
    if wide and len(wide) < len(rows):
        return count * max(wide)
    kept = sum(cost.key_bytes + cost.value_bytes for cost in rows)
    return int(kept * count / len(rows)) + count * max(cost.index_bytes for cost in rows)


def stage_layers(setup: Setup, layers: int) -> tuple[range, ...]:
    """The layers that each pipeline stage allocates; all of them behind a multimodal wrapper before that was fixed."""
    count = setup.settings.pipeline_parallel_size
    if count > 1 and setup.rules["wrapper_stages"] == "all" and isinstance(setup.model.config.get("vision_config"), Mapping):
        return (range(layers),) * count
    return stages(layers, count, "last") if layers else (range(0),)


def slots_per_request(setup: Setup) -> int:
    """State slots of one running request: 1 without the radix cache, 3 with it, 5 with the extra buffer under overlap."""
    slots, settings = setup.tables["state_slots"], setup.settings
    if settings.disable_radix_cache:
        return int(slots["plain"])
    strategy = settings.mamba_radix_cache_strategy
    if strategy == "no_buffer" or (strategy == "auto" and not setup.rules["extra_buffer"]):
        return int(slots["radix"])
    return int(slots["radix"] + slots["tracking_without_overlap" if settings.disable_overlap_schedule else "tracking"])


def window_slots(setup: Setup, window: int) -> tuple[int, int]:
    """Window slots of one long request, and of the prefill chunks in flight, which all requests have in common.

    per request: window + 128 x draft tokens + page (slots are freed every 128 tokens, in whole pages) + what a decode step
    takes; in flight: two chunks, one without overlap, and a page.
    Source: compute_swa_request_cap in model_executor/pool_configurator.py, 0.5.23.
    """
    settings, page = setup.settings, setup.page_size
    draft = settings.speculative_num_draft_tokens or 1
    step = page if settings.speculative_algorithm is None else 2 * max(draft, settings.speculative_num_steps or 1)
    chunk, _ = graph_defaults(settings, setup.gpu.memory_bytes if setup.gpu else None)
    chunks = 1 if settings.disable_overlap_schedule else 2
    return window + setup.tables["eviction_interval"] * draft + page + step, chunks * chunk + page


def window_need(setup: Setup, window: int, length: int, requests: int) -> int:
    """Window slots that `requests` requests of `length` tokens hold at their worst."""
    each, shared = window_slots(setup, window)
    return min(requests * round_up(length, setup.page_size), round_up(requests * each + shared, setup.page_size))


def state_slots(setup: Setup, budget: int, slot_bytes: int) -> tuple[int, int]:
    """State slots and the bytes that they and the draft's intermediate states take off the budget.

    slots = floor((budget x r / (1 + r) - padding) / slot), r = mamba_full_memory_ratio; as given by --max-mamba-cache-size;
    or one a running request where the radix cache is off. With D draft tokens each of S slots a request carries D / S more.

    Source: _handle_max_mamba_cache of mem_cache/kv_cache_configurator.py; before 0.5.20 the padding slot is allocated
    and not counted, before 0.5.15 the intermediate states of max_running_requests come off first.
    """
    settings, rules = setup.settings, setup.rules
    replicas = setup.replicas if settings.enable_dp_attention else 1
    padding = 1 if rules["states"] == "ratio_padded" else 0
    share, running = slots_per_request(setup), asked_running(settings)
    draft = (settings.speculative_num_draft_tokens or 0) if settings.speculative_algorithm is not None else 0
    taken = 0
    if draft and rules["state_draft"] == "before":
        taken = slot_bytes * (running or 0) * draft
    joint = draft and rules["state_draft"] == "joint"
    if settings.max_mamba_cache_size is not None:
        slots = settings.max_mamba_cache_size // replicas
    elif settings.disable_radix_cache and running is not None:
        slots = running
    else:
        part = (budget - taken) * settings.mamba_full_memory_ratio / (1 + settings.mamba_full_memory_ratio)
        padded = slot_bytes * padding * (1 + (draft if joint else 0))
        slots = max(0, int((part - padded) // (slot_bytes * (1 + (draft / share if joint else 0)))))
    if joint:
        taken = slot_bytes * (min(running or slots, slots // share) + padding) * draft
    return slots, taken + (slots + padding) * slot_bytes


def tokens_of(setup: Setup, found: Sequence[LayerCost], budget: int, draft: int) -> Tokens:
    """Tokens of one pipeline stage's pools for a budget without states.

    Source: pool_configurator.py (0.5.12 on), set_num_tokens_hybrid_swa and set_num_token_hybrid of the runner before.
    """
    page, rules = setup.page_size, setup.rules
    outside = sum(cost.index_bytes for cost in found) if rules["indexer"] == "unbudgeted" else 0
    draft = draft if rules["speculation"] == "in_cell" else 0
    full = sum(cost.row_bytes for cost in found if cost.window is None) - outside
    window = sum(cost.row_bytes for cost in found if cost.window is not None)
    budget = max(0, budget)
    if not window or not full:
        cell = full + window + draft
        if not cell:
            raise EngineRefusal(f"no layer of {setup.model.name} grows with the request: SGLang sizes no token pool", engine=NAME)
        tokens = budget // cell // page * page
        return Tokens(tokens, tokens if full else 0, tokens if window else 0)
    if _capped(setup):
        each, shared = window_slots(setup, max(cost.window or 0 for cost in found))
        slots = round_up(each * (asked_running(setup.settings) or 1) + shared, page)
        tokens = max(0, budget - slots * window) // (full + draft) // page * page
        return Tokens(tokens, tokens, slots if tokens else 0)
    ratio = setup.settings.swa_full_tokens_ratio
    if rules["windows_solved"] == "direct":
        tokens = int(budget // (full + draft + ratio * window))
    else:
        uniform = budget // (full + window) // page * page
        if rules["windows_solved"] == "real_rows":
            tokens = int(uniform * (full + window) / (full + ratio * window))
        else:
            count = len([cost for cost in found if cost.window is not None])
            rest = len([cost for cost in found if cost.row_bytes]) - count
            tokens = int(uniform * (count + rest) / (ratio * count + rest))
    tokens = tokens // page * page
    return Tokens(tokens, tokens, int(tokens * ratio) // page * page)


def _capped(setup: Setup) -> bool:
    settings = setup.settings
    return bool(setup.rules["windows_capped"] and settings.disable_radix_cache and settings.max_running_requests is not None)


def size(setup: Setup, found: tuple[LayerCost, ...], budget: int) -> Pool:
    """The pools of one rank for a budget; see `sglang.pool`."""
    settings = setup.settings
    parts = stage_layers(setup, len(found))
    by_stage = [[found[i] for i in part] for part in parts]
    slot = [sum(cost.slot_bytes for cost in stage) for stage in by_stage]
    charged = max(slot) if setup.rules["state_stage"] == "largest" else sum(slot)
    slots, taken = state_slots(setup, budget, charged) if charged else (0, 0)
    drafts = [draft_row_bytes(setup, stage) for stage in by_stage]
    pools = [
        tokens_of(setup, stage, budget - taken, draft)
        for stage, draft in zip(by_stage, drafts, strict=True)
        if any(cost.row_bytes for cost in stage) or len(by_stage) == 1
    ]
    least = min(pools, key=lambda tokens: tokens.total) if pools else Tokens(0, 0, 0)
    if settings.max_total_tokens is not None:
        least = _limited(setup, least, settings.max_total_tokens)
    if charged and not slots:
        least = Tokens(0, 0, 0)
    if setup.settings.dcp_size > 1:
        least = Tokens(least.total * settings.dcp_size, least.full, least.window)
    binding = max(range(len(by_stage)), key=lambda stage: sum(cost.row_bytes for cost in by_stage[stage]))
    return _answer(setup, found, by_stage, least, slots, binding, drafts[binding])


def _limited(setup: Setup, tokens: Tokens, most: int) -> Tokens:
    limit = most // setup.page_size * setup.page_size
    if limit >= tokens.total:
        return tokens
    window = int(limit * setup.settings.swa_full_tokens_ratio) // setup.page_size * setup.page_size if tokens.full else limit
    if _capped(setup):
        window = min(tokens.window, limit)
    return Tokens(limit, limit if tokens.full else 0, window if tokens.window else 0)


def context_of(setup: Setup, solved: int) -> int:
    """context_length as asked, else the model's limit; `solved` for -1 and for a model that states none."""
    asked, limit = setup.settings.context_length, setup.model.max_context
    if asked == 0:
        raise InputError("context_length is 0; it must be above 0, or -1 to solve it", field="context_length")
    if asked is not None and asked > 0:
        return asked
    if asked is None and limit is not None:
        return limit
    return solved if limit is None else min(solved, limit)


def _answer(
    setup: Setup, found: tuple[LayerCost, ...], by_stage: list[list[LayerCost]], tokens: Tokens, slots: int, binding: int,
    draft: int,
) -> Pool:
    settings, page = setup.settings, setup.page_size
    stage = by_stage[binding]
    window = max((cost.window for cost in found if cost.window is not None), default=0)
    states = any(cost.slot_bytes for cost in found)
    context = context_of(setup, _longest(setup, tokens, window) if not states or slots >= slots_per_request(setup) else 0)
    length = round_up(max(context, 1), page)
    running = max_running_requests(settings, tokens.total, max(context, 1))
    if states:
        running = min(running, slots // slots_per_request(setup))
    extra = _speculation_tokens(setup, running) if tokens.total else 0
    concurrency = min(tokens.total / length, float(running))
    if tokens.window:
        each, shared = window_slots(setup, window)
        concurrency = min(concurrency, max(tokens.window / length, (tokens.window - shared) / each))
    fits = context > 0 and length <= tokens.total and concurrency >= 1 and not _window_too_small(setup, tokens, window)
    rows = [sum(cost.row_bytes * _ratio(setup, cost) for cost in one) for one in by_stage]
    inside = draft if setup.rules["speculation"] == "in_cell" else 0
    details = {
        **_printed(setup, stage, tokens, slots, extra),
        "confidence": _confidence(setup), "max_running_requests": running, "kv_cache_dtype": setup.kv_dtype, "page_size": page,
        "req_to_token_bytes": req_to_token_bytes(settings, running, context, page), "context_length": context,
        "draft_bytes": draft * (tokens.total + extra + _padding(setup)),
    }  # fmt: skip
    return Pool(
        fits=fits, num_blocks=tokens.total // settings.dcp_size // page, bytes_per_block=int((rows[binding] + inside) * page),
        tokens=tokens.total + extra, max_concurrency=max(0.0, concurrency), max_model_len=context,
        blocks_per_request=ceil_div(length, page), bytes_per_block_by_stage=tuple(int((row + inside) * page) for row in rows),
        groups=_groups(stage, page), warnings=_warnings(setup, tokens, context, fits), details=details,
    )  # fmt: skip


def _confidence(setup: Setup) -> str:
    """documented where a rule was read and no public log shows it: context ranks, window pools sized from requests."""
    unseen = setup.settings.dcp_size > 1 or (_capped(setup) and setup.windows) or newer_than_known(NAME, setup.settings.version)
    return "documented" if unseen else "exact"


def _longest(setup: Setup, tokens: Tokens, window: int) -> int:
    """The longest request: all tokens, or no more than the window pool where that does not hold a moving window."""
    if not tokens.window or not tokens.full:
        return tokens.total
    if _window_too_small(setup, tokens, window):
        return 0
    each, shared = window_slots(setup, window)
    return tokens.total if each + shared <= tokens.window else min(tokens.total, tokens.window)


def _ratio(setup: Setup, cost: LayerCost) -> float:
    return 1 if cost.window is None else setup.settings.swa_full_tokens_ratio


def _window_too_small(setup: Setup, tokens: Tokens, window: int) -> bool:
    """SGLang does not start where one window and a page fill the whole window pool."""
    return bool(tokens.window and tokens.full and window + setup.page_size >= tokens.window)


def _padding(setup: Setup) -> int:
    return setup.page_size if setup.rules["padding"] == "page" else 1


def _speculation_tokens(setup: Setup, running: int) -> int:
    """Tokens that 0.4.3 to 0.5.8 add to the printed count beyond the budget, for draft and verification."""
    settings = setup.settings
    if setup.rules["speculation"] != "adds_tokens" or settings.speculative_algorithm in (None, "NGRAM"):
        return 0
    steps, topk = settings.speculative_num_steps or 1, settings.speculative_eagle_topk or 1
    return running * (steps * topk + (settings.speculative_num_draft_tokens or 0)) + 100


def _printed(setup: Setup, stage: Sequence[LayerCost], tokens: Tokens, slots: int, extra: int) -> dict[str, int]:
    """Bytes as the log prints them: all rows of the buffers, a page of padding included; one slot more than slots."""
    padding = _padding(setup)
    full, window = tokens.full + extra + padding, tokens.window + padding
    wide = [cost for cost in stage if cost.window is None and cost.row_bytes]
    narrow = [cost for cost in stage if cost.window is not None]
    index = 0 if setup.rules["indexer"] == "unbudgeted" else sum(cost.index_bytes for cost in wide)
    found = {
        "full_tokens": tokens.full, "k_bytes": full * sum(cost.key_bytes for cost in wide),
        "v_bytes": full * sum(cost.value_bytes for cost in wide), "index_bytes": full * index,
        "padding_bytes": padding * sum(cost.row_bytes for cost in stage),
    }  # fmt: skip
    if narrow:
        found |= {
            "swa_tokens": tokens.window, "swa_k_bytes": window * sum(cost.key_bytes for cost in narrow),
            "swa_v_bytes": window * sum(cost.value_bytes for cost in narrow),
        }  # fmt: skip
    if any(cost.slot_bytes for cost in stage):
        found |= {
            "mamba_slots": slots, "conv_bytes": (slots + 1) * sum(cost.conv_bytes for cost in stage),
            "ssm_bytes": (slots + 1) * sum(cost.recurrent_bytes for cost in stage),
        }  # fmt: skip
    found["kv_bytes"] = sum(found.get(key, 0) for key in ("k_bytes", "v_bytes", "index_bytes", "swa_k_bytes", "swa_v_bytes"))
    return found


def _groups(stage: Sequence[LayerCost], page: int) -> tuple[PoolGroup, ...]:
    found: dict[tuple[str, int], list[int]] = {}
    for cost in stage:
        if cost.row_bytes:
            found.setdefault(("full" if cost.window is None else "sliding", cost.row_bytes * page), []).append(cost.index)
    return tuple(PoolGroup(kind, tuple(layers), page, size) for (kind, size), layers in found.items())


def _warnings(setup: Setup, tokens: Tokens, context: int, fits: bool) -> tuple[str, ...]:
    settings = setup.settings
    found = [newer_than_known(NAME, settings.version)]
    if not tokens.total:
        found.append(tell("sglang.nothing_left"))
    elif not fits:
        found.append(tell("sglang.too_long", context=context))
    if settings.page_size is not None and settings.page_size != setup.page_size:
        found.append(tell("sglang.page_size", asked=settings.page_size, used=setup.page_size))
    if settings.max_total_tokens is not None and settings.max_total_tokens > tokens.total > 0:
        found.append(tell("sglang.total", asked=settings.max_total_tokens, used=tokens.total))
    if setup.kv_dtype == "fp8_e4m3" and setup.gpu is not None and 0 < generation(setup.gpu) < 89:
        found.append(tell("sglang.fp8", gpu=setup.gpu.name))
    return tuple(text for text in found if text)
