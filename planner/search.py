"""Solving a rule backwards: the largest count that holds, by asking the rule itself."""

from __future__ import annotations

from collections.abc import Callable


def most(holds: Callable[[int], bool], limit: int) -> int:
    """The largest count from 0 to `limit` that holds, where all smaller ones do too; 0 if not even 1 does.

    Doubles from 1 until it fails, then halves the gap: some 2 x log2(answer) questions.
    """
    low, high = 0, 1
    while high <= limit and holds(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
