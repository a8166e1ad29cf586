"""What a budget gives: blocks, the blocks of one request, tokens, concurrency, and the longest request that fits."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engines.vllm_groups import Group
from planner.engines.vllm_specs import Spec
from planner.engines.vllm_tables import Rules
from planner.units import ceil_div


@dataclass(frozen=True)
class Load:
    """What the blocks of one request depend on beside its length.

    in_flight: tokens that may be scheduled and not yet written. encoder: encoder positions that are charged (vLLM charges
    max_num_batched_tokens). dcp: ranks that share the positions. speculative: draft tokens. prefix_caching: states keep one more
    block. extra: window tokens for draft modules.
    """

    in_flight: int
    encoder: int
    dcp: int
    speculative: int
    prefix_caching: bool
    extra: int = 0


def blocks_of(spec: Spec, length: int, load: Load, rules: Rules) -> int:
    """Blocks of one group for one request of `length` positions.

    full, mla: ceil(ceil(L / dcp) / B). sliding: ceil(min(W - 1 + extra + F, L) / B) + 1. chunked: ceil(min(C + F, L) / B).
    mamba: 1 + s, with prefix caching 2 + s, and one more where the layer writes a prefill checkpoint.
    cross: ceil(encoder / B). F: tokens in flight, s: speculative tokens.

    Source: vLLM 0.33.0, v1/kv_cache_interface.py.
    """
    size = spec.block_size
    if spec.kind in ("full", "mla"):
        return ceil_div(ceil_div(length, load.dcp), size)
    if spec.kind in ("sliding", "sliding_mla"):
        assert spec.window is not None
        return ceil_div(min(spec.window - 1 + load.extra + load.in_flight, length), size) + 1
    if spec.kind == "chunked":
        assert spec.window is not None
        return ceil_div(min(spec.window + load.in_flight, length), size)
    if spec.kind == "cross":
        return ceil_div(load.encoder, size)
    if rules.mamba == "one":
        return 1
    if rules.mamba == "length":  # a block for every so many positions with prefix caching, one without
        return ceil_div(length, size) if load.prefix_caching else 1
    checkpoint = spec.checkpoint and rules.mamba == "checkpoint"
    return 1 + load.speculative + (1 + checkpoint if load.prefix_caching else 0)


@dataclass(frozen=True)
class Capacity:
    """Blocks and their bytes by stage, and what one request of a length takes of them."""

    groups: tuple[Group, ...]
    bytes_by_stage: tuple[int, ...]
    load: Load
    rules: Rules

    @property
    def bytes_per_block(self) -> int:
        return max(self.bytes_by_stage, default=0)

    def num_blocks(self, budget_bytes: int) -> int:
        """floor(budget / bytes per block), the least of all stages."""
        return min((max(0, budget_bytes) // each for each in self.bytes_by_stage if each), default=0)

    def request_blocks(self, length: int) -> int:
        """Blocks of one request of this length, over all groups of the whole model."""
        return sum(blocks_of(each.spec, length, self.load, self.rules) for each in self.groups)

    def admits(self, length: int, blocks: int) -> bool:
        """Whether one request of this length can be served: its blocks, and the null block that is never given out."""
        return self.request_blocks(length) + self.rules.null_block <= blocks

    def concurrency(self, blocks: int, length: int) -> float:
        """Requests of this length at once, as the version prints it."""
        if self.rules.concurrency == "length":
            return self.tokens(blocks, length) / length
        return blocks / self.request_blocks(length)

    def tokens(self, blocks: int, length: int) -> int:
        """The "KV cache size" that the version prints, in tokens.

        Since 0.21 floor(concurrency x max_model_len). Before, blocks // groups x block size, whatever a request needs; before
        0.9.2 blocks x block size. Both times the ranks that share the positions.

        Source: vLLM 0.8.5 to 0.33.0, kv_cache_utils.py.
        """
        if self.rules.tokens == "concurrency":
            return int(self.concurrency(blocks, length) * length)
        size = min(each.spec.block_size for each in self.groups)
        shares = len(self.groups) if self.rules.tokens == "groups" else 1
        return blocks // shares * size * self.load.dcp

    def longest(self, limit: int, blocks: int) -> int:
        """The largest length up to `limit` that is admitted; 0 when not even one token is."""
        if self.admits(limit, blocks):
            return limit
        low, high = 0, limit
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.admits(middle, blocks) else (low, middle)
        return low


def max_in_flight_tokens(batched: int, pipeline_parallel_size: int, asynchronous: bool, rules: Rules) -> int:
    """Tokens that can be in flight: batches at once x max_num_batched_tokens.

    Batches: one a stage, and one more when the scheduler prepares ahead (async scheduling). Before 0.27 one batch was counted.

    Source: vLLM 0.33.0, config/vllm.py.
    """
    if rules.in_flight == "one":
        return batched
    return (pipeline_parallel_size + int(asynchronous)) * batched
