"""One deployment against one budget: the settings that serve n requests, what they need, and the largest n and context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from planner.budget import Budget, budget
from planner.capacity_demand import CONTEXT_WORDS, Allocation, Demand, with_context
from planner.capacity_deploy import RUNNING, Deployment, changed
from planner.capacity_layers import layer_parts, weights_by_card
from planner.capacity_moments import population
from planner.capacity_pools import StaticAllocation, VllmAllocation, allocation
from planner.capacity_rules import check_slices, check_storage, context_limit, model_limit, stated_context
from planner.engines.tensorrt_llm_pools import NAME as TENSORRT_LLM
from planner.engines.versions import rules_at
from planner.errors import EngineRefusal, InputError
from planner.hardware import Gpu
from planner.layers import State
from planner.search import most
from planner.texts import tell
from planner.units import ceil_div

#: Requests beyond which memory is said not to limit them.
MOST_REQUESTS = 1 << 24
#: SGLang's least default of requests that run at once.
_SGLANG_RUNNING = 2048
Reading = Literal["low", "value", "high"]


@dataclass(frozen=True)
class Card:
    """The budget and the allocator of one GPU, the fullest of its kind."""

    gpu: Gpu
    budget: Budget
    allocation: Allocation

    def kv_bytes(self, reading: Reading) -> int:
        return {"low": self.budget.kv_low, "value": self.budget.kv_bytes, "high": self.budget.kv_high}[reading]


@dataclass(frozen=True)
class Checked:
    """A deployment with everything settled for a demand: settings, and one card, or each where layers are spread over cards."""

    settings: Any
    cards: tuple[Card, ...]
    demand: Demand
    notes: tuple[str, ...] = ()

    def fits(self, reading: Reading = "value") -> bool:
        return all(
            card.kv_bytes(reading) >= 0 and card.allocation.holds(card.kv_bytes(reading), self.demand) for card in self.cards
        )

    def room(self, reading: Reading = "value") -> int:
        """Budget less need, of the card where that is least; at most what a setting withholds."""
        room = min(card.kv_bytes(reading) - card.allocation.need(self.demand) for card in self.cards)
        withheld = max(card.allocation.withheld(self.demand) for card in self.cards)
        return min(room, -withheld) if withheld else room

    @property
    def binding(self) -> Card:
        return min(self.cards, key=lambda card: card.budget.kv_bytes - card.allocation.need(self.demand))

    @property
    def need_bytes(self) -> int:
        return self.binding.allocation.need(self.demand)


class Evaluator:
    """Answers for one deployment; settings that were tried are kept, because solving asks for the same ones again."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._made: dict[tuple[int, int | None], tuple[Any, tuple[Card, ...]]] = {}
        check_storage(deployment)
        check_slices(deployment)
        model = deployment.model
        self.states = any(isinstance(c, State) for layer in model.layers_for(deployment.engine) for c in layer.caches)
        self.cap = self._asked_running()
        self.limit = model_limit(deployment)

    def _asked_running(self) -> int | None:
        """Requests that each replica runs at most, where the settings say so."""
        word = RUNNING.get(self.deployment.engine)
        said: int | None = getattr(self.deployment.settings, word) if word else None
        if said is None:
            return None
        if getattr(self.deployment.settings, "enable_dp_attention", False):
            said = max(1, said // self.deployment.replicas)
        return said

    def check(self, length: int, requests: int, context: int, *, longest: bool = False) -> Checked:
        """`requests` requests of `length` positions on all replicas together, the engine's longest being `context`.

        A workload that varies takes what it holds in 95% of the moments, unless `longest`.

        Errors: EngineRefusal; InputError for more requests than a setting lets run.
        """
        each = ceil_div(requests, self.deployment.replicas)
        beams = self.deployment.workload.beams if self.deployment.workload else 1
        if self.cap is not None and each * beams > self.cap:
            word = RUNNING[self.deployment.engine]
            raise InputError(
                f"{each * beams:,} at once on a replica are more than {word} {self.cap:,} lets run; raise it, or ask for fewer",
                field=word,
            )
        demand = self._demand(length, each, None if longest else context)
        if self.deployment.engine == "llama.cpp":  # every slot is allocated whole, whoever comes
            demand = Demand(context, self.cap or demand.sequences)
        settings, cards, notes = self._settle(demand, context)
        return Checked(settings, cards, demand, notes)

    def _demand(self, length: int, each: int, context: int | None) -> Demand:
        work = self.deployment.workload
        if work is None:
            return Demand(length, each)
        # Where no prompt was said, any part may be it: beams are then taken to have nothing in common.
        prompt = min(work.smallest_prompt or 0, length)
        least = length if work.smallest_prompt is None else work.smallest_prompt
        shared = min(work.shared_prefix_tokens, least, length)
        # transformers pads a batch to its longest request.
        varies = context is not None and work.typical and self.deployment.engine != "transformers"
        varying = population(work, context) if varies and context is not None else None
        return Demand(length, each, work.beams, shared, prompt, work.encoder_tokens, varying)

    def _settle(self, demand: Demand, context: int) -> tuple[Any, tuple[Card, ...], tuple[str, ...]]:
        name, wanted = self.deployment.engine, demand.sequences
        if name == "llama.cpp":
            return (*self._make(context, self.cap or wanted), ())
        first = self._make(context, None)
        word = RUNNING.get(name)
        if word is None or self.cap is not None:
            return (*first, ())
        seats = self._seats(first[1][0], wanted)
        if seats is None:
            return (*first, ())
        if self.states:
            why = tell("seats_states", word=word, seats=seats, engine=name)
        else:
            why = tell("seats_more", word=word, seats=seats)
        return (*self._make(context, seats), (why,))

    def _seats(self, card: Card, wanted: int) -> int | None:
        """What max_num_seqs and its like have to be for `wanted` sequences; None where the default does.

        vLLM with recurrent states starts only with as many blocks as max_num_seqs; TensorRT-LLM keeps states for
        max_batch_size requests, whether they come or not.
        """
        alloc = card.allocation
        if isinstance(alloc, VllmAllocation):
            default = alloc.running
            if not self.states:
                return wanted if wanted > default else None
            # By the low end of the budget, so that it still starts there.
            low, usual = (alloc.setup.capacity.num_blocks(max(0, card.kv_bytes(end))) for end in ("low", "value"))
            seats = max(wanted, min(default, low))
            return None if seats == default or usual < wanted else seats
        if self.deployment.engine == TENSORRT_LLM:
            rules = rules_at(TENSORRT_LLM, self.deployment.settings.version)
            return wanted if self.states or wanted > int(rules["max_batch_size"]) else None
        return wanted if wanted > _SGLANG_RUNNING else None

    def _make(self, context: int, seats: int | None) -> tuple[Any, tuple[Card, ...]]:
        key = (context, seats)
        if key not in self._made:
            one = self.deployment
            if one.engine == "llama.cpp":
                settings = with_context(one.engine, one.settings, context, seats or 1)
            else:
                update: dict[str, Any] = {RUNNING[one.engine]: seats} if seats else {}
                word = CONTEXT_WORDS.get(one.engine)
                # What the engine takes by itself is left to it.
                if word and not (getattr(one.settings, word) is None and context == self.limit):
                    update[word] = context
                settings = changed(one.settings, **update)
            self._made[key] = settings, tuple(self._cards(settings))
        return self._made[key]

    def _cards(self, settings: Any) -> Iterator[Card]:
        one = self.deployment
        if one.layer_split == 1:
            found = budget(one.model, one.engine, settings, one.gpu, given=one.given)
            yield Card(one.gpu, found, allocation(one.engine, one.model, settings, one.gpu, seats=self.cap))
            return
        cards = one.cards or (one.gpu,) * one.layer_split
        parts = layer_parts(len(one.model.layers_for(one.engine)), cards)
        sizes = weights_by_card(one.model, one.engine, parts) if "weights" not in one.given else ()
        # Cards alike with as many bytes of weights have one budget, and a layer takes the same whoever asks: 64 cards at once.
        budgets, whole = dict[tuple[str, int, int], Budget](), StaticAllocation(one.engine, one.model, settings)
        for card, part, own in zip(cards, parts, sizes or (None,) * len(cards), strict=True):
            key = (card.id, card.memory_bytes, own.bytes if own else 0)
            if key not in budgets:
                given = {**({"weights": own.bytes} if own else {}), **one.given}
                budgets[key] = budget(one.model, one.engine, settings, card, given=given)
            found = budgets[key]
            if own:
                found = replace(found, terms=tuple(own if term.name == "weights" else term for term in found.terms))
            yield Card(card, found, whole.on(part))

    def max_requests(self, length: int, context: int, reading: Reading = "value") -> int | None:
        """The most requests of `length` at once, all replicas together; None where memory does not limit them."""
        beams = self.deployment.workload.beams if self.deployment.workload else 1
        limit = MOST_REQUESTS if self.cap is None else self.cap // beams

        def holds(each: int) -> bool:
            try:
                return self.check(length, each * self.deployment.replicas, context).fits(reading)
            except EngineRefusal:
                return False

        found = most(holds, limit)
        return None if found == MOST_REQUESTS else found * self.deployment.replicas

    def max_context(self, requests: int, reading: Reading = "value") -> int:
        """The longest context that the engine starts with and `requests` requests of that length fit into; 0 where none does."""
        limit = context_limit(self.deployment)

        def holds(length: int) -> bool:
            try:
                return self.check(length, requests, length, longest=True).fits(reading)
            except EngineRefusal:
                return False

        if holds(limit):
            return limit
        return most(holds, limit - 1)

    def settled_context(self) -> int:
        """The longest request of the engine as it is asked for: as set, the model's limit, or the largest that fits for -1."""
        asked = stated_context(self.deployment)
        return self.max_context(1) or 1 if asked == -1 else asked
