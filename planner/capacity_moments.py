"""Requests of varying length at random moments of their lives: what they hold, and what many of them hold nearly always."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.workload import Workload

# numpy is loaded where lengths vary, and not with the package.
if TYPE_CHECKING:
    import numpy as np

#: Requests that a population is made of, and the seed that a plan draws it with.
POPULATION = 1 << 16
SEED = 0
#: The share of the time that a plan for varying lengths holds for, and its standard normal quantile.
SHARE, _Z = 0.95, 1.6448536269514722


@dataclass(frozen=True, eq=False)
class Population:
    """Positions of requests at random moments: held while they run, whole if reserved to their end; and of the longest."""

    held: tuple[int, ...]
    whole: tuple[int, ...]
    longest: int
    least_prompt: int


@functools.lru_cache(maxsize=16)
def population(work: Workload, context: int, seed: int = SEED) -> Population:
    """Requests of `work`, cut at `context`, met at random moments: longer lives are met more often, each of their steps alike.

    held = prompt + t at step t = 0 .. output - 1 (the prompt while it is read), plus draft positions. Errors: InputError where
    no length was said.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    prompts, outputs = (np.asarray(values, dtype=np.int64) for values in work.drawn(lambda n: rng.random(n).tolist(), POPULATION))
    prompts = np.minimum(prompts, max(0, context - 1))
    outputs = np.minimum(outputs, context - prompts)
    lives = np.maximum(outputs, 1)
    met = rng.choice(POPULATION, POPULATION, p=lives / lives.sum())
    steps = (rng.random(POPULATION) * lives[met]).astype(np.int64)
    extra = work.speculative_tokens
    held = np.minimum(prompts[met] + steps + extra, context)
    whole = np.minimum(prompts[met] + outputs[met] + extra, context)
    longest = min(context, work.longest if work.longest is not None else context)
    return Population(
        tuple(np.maximum(held, 1).tolist()), tuple(np.maximum(whole, 1).tolist()), longest, int(prompts.min())
    )


@dataclass(frozen=True)
class Spread:
    """Moments of the units that one sequence takes at a random moment, beyond those in common; worst: of the longest."""

    mean: float
    deviation: float
    skewness: float
    worst: int

    def units(self, count: int) -> int:
        """Units that `count` sequences stay below in 95% of the moments, and never less than the longest alone takes.

        min(n x worst, max(worst, n m + s sqrt(n) (z + (z^2 - 1) g / (6 sqrt(n))))): the sum of n independent draws of mean m,
        deviation s and skewness g, by Cornish and Fisher; z = 1.645.

        Source: Cornish and Fisher, 1938; held to the simulation in tests/test_simulate.py.
        """
        root = math.sqrt(count)
        sum_of = count * self.mean + self.deviation * root * (_Z + (_Z**2 - 1) * self.skewness / (6 * root))
        return min(count * self.worst, max(self.worst, math.ceil(sum_of)))


def costs(lengths: tuple[int, ...], cost: Callable[[int], int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The units of each length, each distinct length asked for once."""
    import numpy as np

    values, places = np.unique(np.asarray(lengths, dtype=np.int64), return_inverse=True)
    return np.array([cost(int(value)) for value in values], dtype=np.int64)[places.reshape(-1)]


def spread(lengths: tuple[int, ...], longest: int, cost: Callable[[int], int], common: int) -> Spread:
    """The moments of cost(length) - common over these lengths."""
    import numpy as np

    units = np.maximum(costs(lengths, cost) - common, 0).astype(np.float64)
    mean, deviation = float(units.mean()), float(units.std())
    skewness = float(((units - mean) ** 3).mean() / deviation**3) if deviation else 0.0
    return Spread(mean, deviation, max(0.0, skewness), max(0, cost(longest) - common))


