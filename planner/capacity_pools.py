"""What a number of requests needs of an engine's own pool, and whether a budget holds them, by each engine's own rule.

Two answers for each engine: `holds(budget, demand)`, and `need(demand)`, the least budget that holds. They are the same
rule read both ways; bytes per token never come into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.capacity_demand import Allocation, Demand, Growth, Typical, least, with_context
from planner.capacity_layers import layer_sizes
from planner.engines import sglang, tensorrt_llm, tgi
from planner.engines.base import EngineSettings, Pool
from planner.engines.vllm_capacity import blocks_of
from planner.engines.vllm_groups import Group
from planner.engines.vllm_setup import Setup, prepare
from planner.engines.vllm_tables import rules_of
from planner.errors import EngineRefusal
from planner.hardware import Gpu
from planner.layers import Cross, State
from planner.model import Model
from planner.units import ceil_div


class VllmAllocation(Typical):
    """Blocks: common ones once, R a sequence, and the null block; start-up asks for one request of max_model_len, and with
    recurrent states for as many blocks as max_num_seqs (`seats`: as it was set; None where it follows the demand).

    need = max(blocks of the demand, R(max_model_len) + null, seats with states) x bytes per block

    Source: vLLM 0.33.0, v1/core/kv_cache_planning.py, config/compilation.py; `planner.engines.vllm.pool` is the same rule.
    """

    def __init__(self, model: Model, settings: Any, gpu: Gpu, seats: int | None = None) -> None:
        super().__init__()
        self.setup: Setup = prepare(model, settings, gpu)
        self.settings, self.seats = settings, seats
        self.null = int(rules_of(settings.version).null_block)
        self.states = any(isinstance(cache, State) for layer in model.layers_for("vllm") for cache in layer.caches)

    @property
    def running(self) -> int:
        """Requests that the scheduler runs at once."""
        return self.setup.max_num_seqs

    def _blocks(self, demand: Demand) -> int:
        capacity = self.setup.capacity
        if demand.varying is not None:
            return self.typical(demand, self.growth(0))
        each = [self._one(group, demand.length) for group in capacity.groups]
        if self.shares():
            return sum(demand.units(blocks, self.shared_block()) for blocks in each)
        return sum(each) * demand.sequences

    def _one(self, group: Group, length: int) -> int:
        return blocks_of(group.spec, length, self.setup.capacity.load, self.setup.capacity.rules)

    def shares(self) -> bool:
        """Whether common tokens are surely stored once: with windows or states a hit lasts only while those are cached too."""
        return self.setup.prefix_caching and all(group.spec.kind in ("full", "mla") for group in self.setup.capacity.groups)

    def shared_block(self) -> int:
        """Tokens of the unit that prefixes are shared in: the largest block of all groups, which hits are cut down to."""
        return max(group.spec.block_size for group in self.setup.capacity.groups) * self.setup.capacity.load.dcp

    def needed(self, demand: Demand) -> int:
        """Blocks that the demand and the engine's start-up ask for."""
        start = self.setup.capacity.request_blocks(max(1, self.setup.max_model_len)) + self.null
        seats = (self.seats or demand.sequences) if self.states else 0
        return max(start, seats, self._blocks(demand) + self.null)

    def holds(self, budget_bytes: int, demand: Demand) -> bool:
        return self.need(demand) <= budget_bytes and not self.withheld(demand)

    def withheld(self, demand: Demand) -> int:
        """Bytes of the blocks that num_gpu_blocks_override leaves out."""
        override = self.settings.num_gpu_blocks_override
        if override is None or not self.setup.capacity.groups:
            return 0
        missing = max(0, self.needed(demand) - int(override))
        return missing * self.setup.capacity.bytes_per_block

    def need(self, demand: Demand) -> int:
        if not self.setup.capacity.groups:
            return 0
        return max(self.needed(demand), self.settings.num_gpu_blocks_override or 0) * self.setup.capacity.bytes_per_block

    def growth(self, budget_bytes: int) -> Growth:
        capacity = self.setup.capacity
        blocks = self.settings.num_gpu_blocks_override or capacity.num_blocks(budget_bytes)
        shared = len(capacity.groups) if self.shares() else 0
        return Growth(
            max(0, blocks - self.null), capacity.request_blocks, False, self.setup.max_num_seqs,
            lambda tokens: shared and shared * (tokens // self.shared_block()),
        )  # fmt: skip


class PooledAllocation(Typical):
    """SGLang, TensorRT-LLM and TGI: their pool is computed for the demand's length, and its own concurrency is what it holds.

    holds: pool(budget).fits, and floor(max_concurrency at this length) >= sequences. Common prefixes are counted once in
    whole blocks where the engine shares them and keeps one pool. need: the least such budget, by halving.
    """

    def __init__(self, name: str, model: Model, settings: Any, gpu: Gpu) -> None:
        super().__init__()
        self.name, self.model, self.settings = name, model, settings
        self.engine: Any = {"sglang": sglang, "tensorrt-llm": tensorrt_llm, "tgi": tgi}[name]
        self.gpu = gpu
        caches = [cache for layer in model.layers_for(name) for cache in layer.caches]
        self.states = any(isinstance(cache, State) for cache in caches)
        # SGLang keeps encoder positions in the same rows, in front of the text.
        self.in_front = name == "sglang" and any(isinstance(cache, Cross) for cache in caches)
        self._seen: dict[tuple[int, int | None], Pool] = {}

    def pool(self, budget_bytes: int, length: int | None = None) -> Pool:
        key = (budget_bytes, length)
        if key not in self._seen:
            settings = self.settings if length is None else with_context(self.name, self.settings, length, 1)
            self._seen[key] = self.engine.pool(self.model, settings, budget_bytes, self.gpu)
        return self._seen[key]

    def shares(self, pool: Pool) -> bool:
        if self.states or len({group.kind for group in pool.groups}) > 1:
            return False
        if self.name == "sglang":
            return not self.settings.disable_radix_cache
        if self.name == "tensorrt-llm":
            return bool(self.settings.enable_block_reuse)
        # TGI switches its prefix cache off for models with images.
        return pool.details["attention"] in ("flashinfer", "flashdecoding") and "vision_config" not in self.model.config

    def usable(self, pool: Pool) -> tuple[int, int]:
        """Blocks that requests can have, and tokens of a block."""
        if self.name == "tgi":
            return int(pool.details["usable_blocks"]), int(pool.details["block_size"])
        if self.name == "sglang":
            return pool.num_blocks * self.settings.dcp_size, int(pool.details["page_size"])
        return pool.num_blocks, int(pool.details["tokens_per_block"])

    def _running(self, pool: Pool) -> int | None:
        if self.name == "sglang":
            return int(pool.details["max_running_requests"])
        return self.settings.max_batch_size if self.name == "tensorrt-llm" else None

    def holds(self, budget_bytes: int, demand: Demand) -> bool:
        if budget_bytes <= 0 or not self.pool(budget_bytes).fits:
            return False
        pool = self.pool(budget_bytes, demand.length + (demand.encoder if self.in_front else 0))
        if not pool.fits:
            return False
        if demand.varying is not None and not self.several(pool) and not self.in_front:
            growth, running = self.growth(budget_bytes), self._running(pool)
            return self.typical(demand, growth) <= growth.capacity and (running is None or demand.sequences <= running)
        if (demand.shared or demand.beams > 1) and self.shares(pool):
            usable, block = self.usable(pool)
            running = self._running(pool)
            return demand.units(pool.blocks_per_request, block) <= usable and (running is None or demand.sequences <= running)
        return int(pool.max_concurrency) >= demand.sequences

    def need(self, demand: Demand) -> int:
        return least(lambda budget: self.holds(budget, demand), 1 << 20)

    def several(self, pool: Pool) -> bool:
        """Whether there are pools beside the one of blocks: states, windows."""
        return bool(self.states or "swa_tokens" in pool.details or len(pool.details.get("blocks_per_window", ())) > 1)

    def growth(self, budget_bytes: int) -> Growth:
        pool = self.pool(budget_bytes)
        usable, block = self.usable(pool)
        if self.several(pool):
            why = f"{self.name} keeps several pools for {self.model.name}, and their filling is not simulated"
            raise EngineRefusal(f"{why}; the worst case is exact", engine=self.name)
        shares = self.shares(pool)
        return Growth(
            usable, lambda tokens: ceil_div(tokens, block), self.name != "sglang", self._running(pool),
            lambda tokens: tokens // block if shares else 0,
        )  # fmt: skip


class StaticAllocation(Typical):
    """llama.cpp and transformers: what `requests` sequences of `length` positions allocate is what they need.

    need = cache_bytes(length, sequences) of the layers `part`, all of them by default. Nothing is shared between sequences.
    """

    def __init__(self, name: str, model: Model, settings: Any, part: Sequence[int] | None = None) -> None:
        super().__init__()
        self.name, self.model, self.settings = name, model, settings
        self.part = None if part is None else frozenset(part)
        self._layers = len(model.layers_for(name))
        #: Of all layers, shared with the other cards of a deployment.
        self._seen: dict[Demand, tuple[int, ...]] = {}

    def on(self, part: Sequence[int]) -> StaticAllocation:
        """The same of the layers that one card holds; what a demand takes is worked out once for all cards."""
        found = StaticAllocation(self.name, self.model, self.settings, part)
        found._seen = self._seen
        return found

    def sizes(self, demand: Demand) -> tuple[int, ...]:
        """Bytes of each layer that is here."""
        if demand not in self._seen:
            self._seen[demand] = layer_sizes(
                self.model, self.name, self.settings, demand.length, demand.sequences, demand.encoder
            )
        # A layer that only the engine knows lies with the last.
        return tuple(size for i, size in enumerate(self._seen[demand]) if self._mine(i))

    def need(self, demand: Demand) -> int:
        return sum(self.sizes(demand))

    def _mine(self, index: int) -> bool:
        return self.part is None or index in self.part or index >= self._layers

    def holds(self, budget_bytes: int, demand: Demand) -> bool:
        return self.need(demand) <= budget_bytes

    def growth(self, budget_bytes: int) -> Growth:
        if self.name == "llama.cpp":
            raise EngineRefusal("llama.cpp allocates every slot when it starts, so that nothing fills up later", engine=self.name)
        raise EngineRefusal("transformers pads a batch to its longest request, so that nothing fills up later", engine=self.name)


def allocation(
    name: str, model: Model, settings: EngineSettings, gpu: Gpu, part: Sequence[int] | None = None, seats: int | None = None
) -> Allocation:
    """The allocator of engine `name` on one GPU. part: the layers that llama.cpp or transformers put there, where not all.
    seats: requests that the person wants to be able to run at once.

    Errors: EngineRefusal for what the engine refuses whatever the memory.
    """
    if name == "vllm":
        return VllmAllocation(model, settings, gpu, seats)
    if name in ("sglang", "tensorrt-llm", "tgi"):
        return PooledAllocation(name, model, settings, gpu)
    return StaticAllocation(name, model, settings, part)
