"""What a number of requests asks of a pool, how running requests fill one, and searching for the least and the most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from planner.capacity_moments import Population, Spread, spread
from planner.errors import EngineRefusal

#: No pool is searched beyond this many bytes.
_MOST_BYTES = 1 << 56


@dataclass(frozen=True)
class Demand:
    """`requests` requests of `length` positions on one replica. shared: tokens that all have in common; prompt: tokens that the
    `beams` sequences of one request have in common. varying: requests at random moments, of which 95% of the time counts, in
    place of all of them at `length`."""

    length: int
    requests: int = 1
    beams: int = 1
    shared: int = 0
    prompt: int = 0
    encoder: int = 0
    varying: Population | None = field(default=None, repr=False, compare=False)

    @property
    def sequences(self) -> int:
        return self.requests * self.beams

    def units(self, each: int, block: int) -> int:
        """Blocks of all requests, where one sequence takes `each` and whole blocks of `block` common tokens are stored once.

        units = shared + requests x ((prompt - shared) + beams x (each - prompt)), all three in whole blocks
        """
        common = min(self.shared // block, each)
        prompt = min(max(common, self.prompt // block if self.beams > 1 else 0), each)
        return common + self.requests * (prompt - common + self.beams * (each - prompt))


@dataclass(frozen=True)
class Growth:
    """How running requests fill a pool: `cost(positions)` units of one request, of `capacity`; whole: it is all reserved when
    the request is admitted, so that nothing is taken back later. running: requests that run at most. common: units of the
    first tokens that all have in common, which are stored once."""

    capacity: int
    cost: Callable[[int], int]
    whole: bool
    running: int | None = None
    common: Callable[[int], int] = lambda tokens: 0


class Typical:
    """What varying requests take in 95% of the moments, the moments of each population worked out once."""

    def __init__(self) -> None:
        self._spreads: dict[tuple[Population, int], Spread] = {}

    def withheld(self, demand: Demand) -> int:
        """Bytes that a setting keeps from the demand, whatever the memory; 0 where none does."""
        return 0

    def typical(self, demand: Demand, growth: Growth) -> int:
        """Units of the demand's sequences at random moments, the common ones with them."""
        common, one = self.moments(demand, growth)
        # The beams of a request are at the same step, so that they vary together.
        return common + one.units(demand.requests) * demand.beams

    def moments(self, demand: Demand, growth: Growth) -> tuple[int, Spread]:
        """Units that all have in common, and what one sequence takes beyond them at random moments."""
        assert demand.varying is not None
        common = growth.common(demand.shared)
        key = (demand.varying, common)
        if key not in self._spreads:
            lengths = demand.varying.whole if growth.whole else demand.varying.held
            self._spreads[key] = spread(lengths, demand.varying.longest, growth.cost, common)
        return common, self._spreads[key]


class Allocation(Protocol):
    """An engine's allocator for one model under one set of settings, on one GPU of a replica."""

    def holds(self, budget_bytes: int, demand: Demand) -> bool: ...
    def need(self, demand: Demand) -> int: ...
    def withheld(self, demand: Demand) -> int: ...
    def growth(self, budget_bytes: int) -> Growth: ...


def with_context(name: str, settings: Any, length: int, sequences: int) -> Any:
    """The settings with a longest request of `length`; llama.cpp's n_ctx is that of all its sequences together."""
    if name == "llama.cpp":
        return settings.model_copy(update={"n_ctx": length * sequences, "n_seq_max": sequences})
    word = CONTEXT_WORDS.get(name)
    return settings.model_copy(update={word: length}) if word else settings


#: What each engine calls its longest request.
CONTEXT_WORDS = {
    "vllm": "max_model_len", "sglang": "context_length", "tensorrt-llm": "max_seq_len", "tgi": "max_total_tokens",
}  # fmt: skip


def least(holds: Callable[[int], bool], start: int) -> int:
    """The least value above 0 that holds, where all larger ones do too; EngineRefusal where none is found."""
    high = start
    while not holds(high):
        high *= 2
        if high > _MOST_BYTES:
            raise EngineRefusal("no amount of memory holds this many requests under these settings")
    low = high // 2 if high > start else 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
