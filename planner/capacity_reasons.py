"""Why a plan's figures are what they are: what is free, the most requests and the longest context, each with its arithmetic."""

from __future__ import annotations

from dataclasses import replace

from planner.capacity_deploy import RUNNING
from planner.capacity_evaluate import MOST_REQUESTS, Checked, Evaluator
from planner.capacity_need import need_formula
from planner.capacity_plan import Plan
from planner.capacity_pools import PooledAllocation, VllmAllocation
from planner.capacity_rules import context_limit, worst_length
from planner.errors import EngineRefusal, InputError
from planner.reasons import Formula, Step, known, step, within
from planner.units import ceil_div


def plan_reasons(plan: Plan) -> dict[str, Formula]:
    """Formulas by the name that each figure has in the plan's JSON. A figure that memory does not limit has none.

    max_requests and max_context are searched for: the lines show that they are held, and that one more is not.
    """
    *budget, _ = free(plan)
    found = {
        "kv_budget_bytes": tuple(budget), "kv_need_bytes": need(plan), "headroom_bytes": headroom(plan),
        "max_requests": most_requests(plan), "max_context": longest_context(plan),
    }  # fmt: skip
    return {name: rule for name, rule in found.items() if rule}


def free(plan: Plan) -> Formula:
    """The budget, and what the cache leaves of it."""
    return plan.terms[-1].formula


def need(plan: Plan) -> Formula:
    return plan.terms[-2].formula


def headroom(plan: Plan) -> Formula:
    """What is free; less where a setting withholds blocks, whatever the memory."""
    *rest, last = free(plan)
    given = {"budget": plan.kv_bytes, "kv_cache": plan.need_bytes}
    rule, withheld = "{budget} - {kv_cache}", last.value - plan.headroom_bytes
    if withheld:
        rule, given["withheld"] = f"min({rule}, {{withheld}})", plan.headroom_bytes
    return (*rest, step("headroom", rule, plan.headroom_bytes, **given))


def most_requests(plan: Plan) -> Formula:
    """The need of so many requests and of one more on each replica, against the budget; () where memory does not limit them."""
    if plan.max_requests is None:
        return ()
    work, length = Evaluator(plan.deployment), worst_length(plan.deployment, plan.context)
    each = plan.max_requests // plan.replicas
    found = [
        line for count in (each, each + 1) if 0 < count <= MOST_REQUESTS
        for line in _held(work, f"{count:,}", length, count * plan.replicas, plan.context)
    ]  # fmt: skip
    beams = plan.workload.beams if plan.workload else 1
    word = RUNNING[plan.engine] if work.cap is not None and each == work.cap // beams else "most_that_fit"
    count = f"floor({{{word}}} / {{beams}})" if word != "most_that_fit" and beams > 1 else f"{{{word}}}"
    rule = f"{count} x {{replicas}}"
    given = {word: work.cap if word != "most_that_fit" and work.cap else each, "beams": beams, "replicas": plan.replicas}
    return (*found, step("max_requests", rule, plan.max_requests, **given))


def longest_context(plan: Plan) -> Formula:
    """The need of the longest context and of one position more, against the budget."""
    work, longest, limit = Evaluator(plan.deployment), plan.max_context, context_limit(plan.deployment)
    if longest >= limit:
        lines = _held(work, f"length={longest:,}", longest, plan.requests, longest, longest=True)
        return (*lines, *known("max_context", "model_limit", longest))
    found = [
        line for length in (longest, longest + 1) if length
        for line in _held(work, f"length={length:,}", length, plan.requests, length, longest=True)
    ]  # fmt: skip
    return (*found, *known("max_context", "longest_that_fits", longest))


def _held(work: Evaluator, of: str, length: int, requests: int, context: int, longest: bool = False) -> list[Step]:
    """What such a demand needs, against its own budget; nothing where a setting or the engine does not let it run."""
    try:
        done: Checked = work.check(length, requests, context, longest=longest)
        blocks = _blocks(done)
        if blocks is not None:
            return [replace(blocks, name=f"blocks({of})")]
        card = done.binding
        return [within(f"kv_cache({of})", need_formula(card.allocation, done.demand), card.budget.kv_bytes)]
    except (EngineRefusal, InputError):
        return []


def _blocks(done: Checked) -> Step | None:
    """Blocks of the demand against those of a pool of nothing else, or against a setting; quicker than to search the budget."""
    card, demand = done.cards[0], done.demand
    alloc = card.allocation
    if isinstance(alloc, VllmAllocation):
        needed, most = alloc.needed(demand), alloc.settings.num_gpu_blocks_override
        if not most or most * alloc.setup.capacity.bytes_per_block > card.budget.kv_bytes:
            return None
        line = step("blocks", "{needed_blocks}", needed, needed_blocks=needed)
        return replace(line, limit=most, limit_name="num_gpu_blocks_override")
    if not isinstance(alloc, PooledAllocation) or alloc.in_front or demand.varying or demand.shared or demand.beams > 1:
        return None
    if card.budget.kv_bytes <= 0:
        return None
    pool = alloc.pool(card.budget.kv_bytes, demand.length)
    if alloc.several(pool):
        return None
    usable, block = alloc.usable(pool)
    each = ceil_div(demand.length, block)
    line = step("blocks", "{requests} x ceil({length} / {block_size})", each * demand.requests, requests=demand.requests,
                length=demand.length, block_size=block)  # fmt: skip
    return replace(line, limit=usable, limit_name="usable_blocks") if (each * demand.requests <= usable) == done.fits() else None
