"""What to change so that a plan fits, the smallest change first; and where it fits, what its headroom buys."""

from __future__ import annotations

from collections.abc import Iterator

from planner.advise_changes import Change, changes, hardware, longer_context, more_requests, other_count, pairs
from planner.advise_texts import TEXTS
from planner.capacity_plan import Advice, Plan, evaluate, holds
from planner.errors import PlannerError


def advise(plan: Plan) -> tuple[Advice, ...]:
    """Changes with their figures after planning again, by smallness; none that does not help.

    Where the plan does not fit: each change that makes it fit; where none on the same GPUs does, two of them together. Where it
    fits: more requests, a longer context, fewer GPUs.
    """
    if plan.fits:
        return tuple(_buys(plan))
    one = plan.deployment
    same = _helpful(changes(plan, one)) or _helpful(pairs(plan, one))
    return (*same, *_helpful(hardware(plan, one)))


def _helpful(tried: Iterator[Change]) -> tuple[Advice, ...]:
    return tuple(found for change in tried if (found := _planned(change)) is not None and found.verdict == "fits")


def _planned(change: Change) -> Advice | None:
    try:
        return _advice(change, evaluate(change.deployment)) if holds(change.deployment) else None
    except PlannerError:
        return None


def _advice(change: Change, after: Plan) -> Advice:
    text = TEXTS[change.code].format(**change.values)
    return Advice(
        change.code, text, change.values, change.change, after.verdict, after.headroom_bytes, after.max_requests,
        after.max_context, after.gpus, after.command,
    )  # fmt: skip


def _buys(plan: Plan) -> Iterator[Advice]:
    """More requests, a longer context, and fewer GPUs."""
    one = plan.deployment
    for change in (*more_requests(plan, one), *longer_context(plan, one)):
        yield _advice(change, evaluate(change.deployment))
    if one.gpus > 1:
        fewer = other_count("fewer_gpus", one, [count for count in (1, 2, 4, 8, 16) if count < one.gpus])
        if fewer is not None:
            yield _advice(*fewer)
