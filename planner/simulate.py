"""How many requests of varying length run at once, and how often the pool would overflow: a seeded simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planner.cache import check_count
from planner.capacity_demand import Growth
from planner.capacity_deploy import RUNNING
from planner.capacity_moments import costs, population
from planner.capacity_plan import Plan
from planner.capacity_pools import allocation
from planner.errors import InputError
from planner.units import ceil_div
from planner.workload import Workload

#: Shares of the time in which a number of requests is to fit.
QUANTILES = (0.5, 0.9, 0.95, 0.99)
#: The most requests at once that are simulated.
_MOST = 1 << 17


@dataclass(frozen=True)
class Simulation:
    """Requests at once, all replicas together, over random moments of a busy server.

    curve: (share of the time, requests that fit in it). mean: on average. planned: the most that the plan says.
    requests: as asked; preempted: share of the time in which they need more than there is, so that some are preempted (or, with
    an engine that reserves whole requests, wait). occupancy: average positions of one. draws: moments; seed: of the numbers.
    """

    requests: int
    preempted: float
    curve: tuple[tuple[float, int], ...]
    mean: float
    planned: int | None
    occupancy: float
    draws: int
    seed: int
    reserves_whole: bool


def simulate(
    plan: Plan, requests: int | None = None, seed: int = 0, draws: int = 2000, progress: Callable[[float], None] | None = None
) -> Simulation:
    """Fills the pool of `plan` with requests of its workload at random moments of their lives, by the engine's block rule.

    At a moment a request of prompt p at step t of its o steps holds cost(p + t - 1) blocks, t even over its life and longer
    lives met more often; an engine that reserves whole requests holds cost(p + o) throughout. Requests are added until the pool
    overflows, `draws` times over. With fixed lengths and one step it is floor(pool / cost), the closed form. Requests are
    cut at the engine's longest.

    Errors: InputError without a workload with lengths; EngineRefusal where the engine allocates everything at start, or keeps
    several pools.

    Source: the cost is the engine's own (`planner.capacity_pools`); admission in vLLM 0.33.0 v1/core/sched/scheduler.py.
    """
    work = plan.workload
    if work is None or work.full:
        raise InputError("a simulation needs a workload with lengths: say prompt_tokens and output_tokens", field="workload")
    check_count(draws, "draws", 1)
    alloc = allocation(plan.engine, plan.model, plan.settings, plan.gpu)
    growth = alloc.growth(max(0, plan.kv_bytes))
    said = RUNNING.get(plan.engine) in plan.deployment.settings.model_fields_set
    growth = growth if said else replace(growth, running=None)  # the default is raised to what is asked for
    moments = _Moments(work, growth, plan.context, seed)
    counts = np.empty(draws, dtype=np.int64)
    for draw in range(draws):
        counts[draw] = moments.fill()
        if progress is not None and draw % 100 == 0:
            progress(draw / draws)
    if progress is not None:
        progress(1.0)
    asked = work.requests if requests is None else check_count(requests, "requests", 1)
    each = ceil_div(asked, plan.replicas)
    ordered = np.sort(counts)
    # The n that fits in a share q of the moments: at most a share 1 - q of them holds fewer.
    curve = tuple((share, int(ordered[int((1 - share) * draws)]) * plan.replicas) for share in QUANTILES)
    return Simulation(
        requests=asked, preempted=float(np.mean(counts < each)), curve=curve, mean=float(counts.mean()) * plan.replicas,
        planned=plan.max_requests, occupancy=moments.occupancy, draws=draws, seed=seed, reserves_whole=growth.whole,
    )  # fmt: skip


class _Moments:
    """A stock of requests at random moments of their lives, with their costs, and pools filled from it."""

    def __init__(self, work: Workload, growth: Growth, context: int, seed: int) -> None:
        # Another stock than the one that the plan's own figure is worked out from.
        stock = population(work, context, seed + 1)
        lengths = stock.whole if growth.whole else stock.held
        self.occupancy = float(np.mean(lengths))
        common = growth.common(min(work.shared_prefix_tokens, stock.least_prompt))
        self.costs = np.maximum(costs(lengths, growth.cost) - common, 0) * work.beams
        self.capacity, self.running, self.rng = growth.capacity - common, growth.running, np.random.default_rng(seed)
        average = max(1.0, float(self.costs.mean()))
        self.batch = int(min(_MOST, max(16, 1.25 * max(0, self.capacity) / average + 16)))

    def fill(self) -> int:
        """Requests at random moments that fit before the pool overflows."""
        most = _MOST if self.running is None else self.running
        filled = count = 0
        while count < most:
            sums = filled + np.cumsum(self.costs[self.rng.integers(0, len(self.costs), self.batch)])
            fitting = int(np.searchsorted(sums, self.capacity, side="right"))
            count += fitting
            if fitting < self.batch:
                break
            filled = int(sums[-1])
        return min(count, most)
