"""The largest context, and the most slots, whose allocation a budget holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.search import most

Need = Callable[[int, int], int]
"""(n_ctx, n_seq_max) -> bytes. It never shrinks when either grows at the other's share."""

STEP = 256
_MOST_CELLS = 2**40
_MOST_SLOTS = 256


@dataclass(frozen=True)
class Fit:
    """n_ctx: the largest that fits, 0 if none does; slots: how many of the asked context; grows: memory follows n_ctx."""

    n_ctx: int
    slots: int
    bytes_per_256: int
    grows: bool


def search(need: Need, budget: int, n_ctx: int, sequences: int, per_slot: bool) -> Fit:
    """By doubling and halving over whole steps of 256 cells a slot (of all slots together where they share the cells)."""
    step = STEP * (sequences if per_slot else 1)
    grows = need(_MOST_CELLS // step * step, sequences) > need(step, sequences)
    largest = most(lambda steps: need(steps * step, sequences) <= budget, _MOST_CELLS // step) * step if grows else 0
    # One step more, past which windows no longer grow. Compressed pools grow in jumps; a jump is no block's usual cost.
    after = max(largest, step)
    marginal = (need(after + step, sequences) - need(after, sequences)) * STEP // step if grows else 0
    if largest:
        marginal = min(marginal, budget * STEP // largest)
    share = n_ctx // sequences if per_slot else n_ctx
    slots = most(lambda count: need(share * count, count) <= budget, _MOST_SLOTS)
    return Fit(largest, slots, marginal, grows)
