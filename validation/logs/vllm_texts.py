"""What a vLLM log shows of its cache, in words: groups and their blocks, what a token and a request cost, what was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from planner.engines.vllm_capacity import blocks_of
from planner.engines.vllm_groups import Group
from planner.engines.vllm_setup import Setup
from planner.model import Model
from planner.units import GIB, format_bytes
from validation.logs.log import Log
from validation.logs.vllm_infer import Fit
from validation.logs.vllm_pool import Bytes, request_parts

_KINDS = {"full": "full-attention", "mla": "latent", "sliding": "sliding-window", "chunked": "chunked-attention",
          "mamba": "recurrent", "cross": "cross-attention", "sliding_mla": "windowed latent"}  # fmt: skip


def pool_texts(log: Log, fit: Fit, source: Bytes | None) -> Iterator[str]:
    """The way from bytes to tokens and requests, and why."""
    setup, capacity = fit.setup, fit.setup.capacity
    if not capacity.groups:
        yield "this model keeps no KV cache in vLLM"
        return
    yield from inferred(fit)
    yield blocks_text(setup)
    blocks = fit.outcome.blocks
    if source is not None:
        span = f"{blocks:,}" if blocks is not None else f"{fit.outcome.low:,} to {fit.outcome.high:,}"
        exact = "" if source.figure.slack == 0 else " GiB"
        yield f"{source.figure.text}{exact} / {capacity.bytes_per_block:,} bytes = {span} blocks on each GPU"
    if fit.outcome.other_rank and source is not None and blocks is not None:
        worth = blocks * capacity.bytes_per_block / GIB
        yield (
            f"the pool is worth {worth:.2f} GiB, less than the {source.figure.text} GiB that one rank prints: all ranks take as"
            " many blocks as the one that offers the least"
        )
    if len(capacity.groups) > 1 or capacity.groups[0].spec.window:
        yield from price_texts(setup, fit.length, log, source)
    if any(group.spec.kind == "mamba" for group in capacity.groups):
        yield from state_texts(setup)
    if setup.draft_layers:
        rows = f"; states keep {capacity.load.speculative} more rows and blocks for the drafted tokens"
        yield (
            f"speculative decoding adds {setup.draft_layers} attention layer{'s' * (setup.draft_layers > 1)} to the pool"
            + (rows if setup.facts.has_state else "")
        )


def inferred(fit: Fit) -> Iterator[str]:
    """What the log does not say and was found from its figures."""
    if not fit.changes:
        return
    names = ", ".join(setting(name, value) for name, value in fit.changes.items())
    figures = ", ".join(line.name for line in fit.lines)
    yield f"inferred: {names}. The log does not say it, vLLM's defaults do not give its figures, and with it follow {figures}"
    for other in fit.equals[:3]:
        if set(other) != {"version"}:
            yield "the figures fit as well with " + ", ".join(setting(name, value) for name, value in other.items())


def setting(name: str, value: Any) -> str:
    """A setting as a person writes it."""
    if name == "speculative_config":
        return f"speculative_config {value['method']} of {value['num_speculative_tokens']}"
    return f"the rules of {value}" if name == "version" else f"{name} {value}"


def blocks_text(setup: Setup) -> str:
    """The bytes of one block and where they come from."""
    capacity = setup.capacity
    size = capacity.bytes_per_block
    if len(capacity.groups) == 1:
        return f"a block of {capacity.groups[0].spec.block_size} tokens is {size:,} bytes: {_members(capacity.groups[0], setup)}"
    counts = Counter[tuple[str, int, int, int | None]]()
    for group in capacity.groups:
        counts[group.spec.kind, len(group.members), group.spec.block_size, group.spec.window] += 1
    parts = []
    for (kind, layers, tokens, window), n in counts.items():
        what = f" (window {window:,})" if window else ""
        length = f", {tokens:,} tokens a block" if kind != "mamba" else ""
        parts.append(f"{n} of {layers} {_KINDS.get(kind, kind)} layers{what}{length}")
    return f"{len(capacity.groups)} groups share the pool: {'; '.join(parts)}. A block is {size:,} bytes in each of them"


def _members(group: Group, setup: Setup) -> str:
    """The pages of one group on the fullest stage: layers x tokens x bytes."""
    specs = Counter(member.spec for member in group.members)
    stages = setup.settings.pipeline_parallel_size
    parts = [f"{n} layers x {spec.block_size} x {spec.token_bytes:,} bytes a token" for spec, n in specs.items()]
    text = " + ".join(parts)
    return text + (f", spread over {stages} pipeline stages" if stages > 1 else "")


def price_texts(setup: Setup, length: int, log: Log, source: Bytes | None) -> Iterator[str]:
    """What a token more costs and what a request costs whatever its length; the pool over the printed tokens is neither."""
    capacity = setup.capacity
    size = capacity.bytes_per_block
    grows = [group for group in capacity.groups if group.spec.kind in ("full", "mla")]
    token = sum(size / group.spec.block_size for group in grows) / capacity.load.dcp
    fixed = [group for group in capacity.groups if group not in grows]
    held = sum(blocks_of(group.spec, length, capacity.load, capacity.rules) for group in fixed) * size
    yield (
        f"a further token of a request costs {token:,.0f} bytes on each GPU; beside that a request of {length:,} tokens holds"
        f" {format_bytes(held)} in windows and states ({request_parts(setup, length)} blocks)"
    )
    tokens = log.printed.get("gpu_kv_cache_tokens")
    if source is not None and tokens is not None and tokens.value:
        each = source.figure.value / tokens.value
        why = {
            "groups": "the printed tokens are one group's share of the blocks",
            "blocks": "the printed tokens count every block once",
            "concurrency": "the printed tokens are requests of max_model_len times that length",
        }[capacity.rules.tokens]
        yield f"{source.figure.text} GiB / {tokens.text} tokens = {each:,.0f} bytes is not what a token costs: {why}"
    windows = [group for group in fixed if group.spec.window]
    if windows:
        window = max(group.spec.window or 0 for group in windows)
        yield (
            f"a window of {window:,} keeps window - 1 + the {capacity.load.in_flight:,} tokens in flight (max_num_batched_tokens"
            f" {setup.max_num_batched_tokens:,}) and one block more"
        )


def state_texts(setup: Setup) -> Iterator[str]:
    """Why the block of a hybrid is as large as it is."""
    states = [p.spec for p in setup.layout.placed if p.spec.kind == "mamba"]
    spec = max(states, key=lambda each: each.natural_bytes)
    attention = [p.spec for p in setup.layout.placed if p.spec.kind in ("full", "mla")]
    if not attention:
        return
    drafts = f", with {setup.capacity.load.speculative} more rows for drafts" if setup.capacity.load.speculative else ""
    yield (
        f"a recurrent state is {spec.natural_bytes:,} bytes{drafts}; so the attention block is {setup.layout.block_size:,} tokens"
        f" of {attention[0].token_bytes:,} bytes, and states are padded to it"
    )


def refusal_texts(log: Log, fit: Fit | None, model: Model | None) -> Iterator[str]:
    """Why the start was refused, and what would start."""
    printed = log.printed
    needed, available, length = (
        printed.get(name) for name in ("kv_needed_bytes", "available_kv_bytes", "refused_max_model_len")
    )
    longest = printed.get("estimated_max_model_len")
    if needed and available and length:
        yield (
            f"refused: one request of {length.value:,} tokens needs {needed.text} GiB of cache and {available.text} GiB are"
            f" there, {(needed.value - available.value) / GIB:.2f} GiB too little"
        )
        if longest and 0 < longest.value < length.value:
            token = (needed.value - available.value) / (length.value - longest.value)
            fixed = needed.value - token * length.value
            yield (
                f"the two pairs give {token:,.0f} bytes a token and {max(0.0, fixed) / GIB:.2f} GiB whatever the length, without"
                " knowing the model"
            )
        if fit is not None and fit.setup.capacity.groups:
            capacity = fit.setup.capacity
            low, high = (capacity.longest(int(length.value), blocks) for blocks in (fit.outcome.low, fit.outcome.high))
            parts = "; ".join(_need_parts(fit, int(length.value)))
            span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            yield f"of the {needed.text} GiB: {parts}. With {available.text} GiB the longest request is {span} tokens"
    elif length and longest:
        yield f"refused: the pool holds {longest.value:,} tokens, fewer than one request of {length.value:,}"
    if (needed or log.other["refused"]) and model is not None and model.weight_bytes:
        ranks = log.settings.get("tensor_parallel_size", 1) * log.settings.get("pipeline_parallel_size", 1)
        yield f"the weights of {model.name} alone are about {model.weight_bytes / ranks / GIB:.1f} GiB on each of {ranks} GPUs"
    seqs, blocks = printed.get("refused_max_num_seqs"), printed.get("num_gpu_blocks")
    if seqs and blocks:
        yield (
            f"refused: each of max_num_seqs {seqs.value:,} running requests keeps a state in a block of its own, and there are"
            f" {blocks.value:,} blocks"
        )


def _need_parts(fit: Fit, length: int) -> Iterator[str]:
    capacity = fit.setup.capacity
    sizes: Counter[str] = Counter()
    for group in capacity.groups:
        blocks = blocks_of(group.spec, length, capacity.load, capacity.rules)
        sizes[group.spec.kind] += blocks * capacity.bytes_per_block
    for kind, size in sizes.items():
        yield f"{size / GIB:.3f} GiB in {_KINDS.get(kind, kind)} layers"
