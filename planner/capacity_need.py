"""The arithmetic of what requests need of an engine's own allocator: the lines behind `Allocation.need`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from planner.capacity_demand import Demand, Growth, Typical
from planner.capacity_pools import PooledAllocation, StaticAllocation, VllmAllocation
from planner.engines.vllm_capacity import Load, blocks_of
from planner.engines.vllm_specs import Spec
from planner.reasons import Formula, Number, Step, known, step
from planner.units import ceil_div

NAME = "kv_cache"


def need_formula(alloc: Any, demand: Demand) -> Formula:
    """The lines that lead to `alloc.need(demand)`; a figure that is only searched for is said to be the least that holds."""
    if isinstance(alloc, VllmAllocation):
        return _vllm(alloc, demand)
    if isinstance(alloc, PooledAllocation):
        return _pooled(alloc, demand)
    assert isinstance(alloc, StaticAllocation)
    return _static(alloc, demand)


# vLLM: blocks


def _vllm(alloc: VllmAllocation, demand: Demand) -> Formula:
    capacity = alloc.setup.capacity
    if not capacity.groups:
        return known(NAME, "nothing", 0)
    found = list(_vllm_blocks(alloc, demand))
    blocks = found[-1].value
    start = capacity.request_blocks(max(1, alloc.setup.max_model_len))
    seats = (alloc.seats or demand.sequences) if alloc.states else 0
    rule = "max({blocks}, {blocks_of_the_longest}) + {null_block}"
    if seats:
        rule = f"max({rule}, {{running_at_once}})"
    override = alloc.settings.num_gpu_blocks_override
    if override:
        rule = f"max({rule}, {{num_gpu_blocks_override}})"
    total = max(alloc.needed(demand), override or 0)
    found.append(step(
        "pool_blocks", rule, total, blocks=blocks, blocks_of_the_longest=start, null_block=alloc.null, running_at_once=seats,
        num_gpu_blocks_override=override or 0,
    ))  # fmt: skip
    each = capacity.bytes_per_block
    found.append(step(NAME, "{pool_blocks} x {bytes_per_block}", total * each, pool_blocks=total, bytes_per_block=each))
    return tuple(found)


def _vllm_blocks(alloc: VllmAllocation, demand: Demand) -> Formula:
    """The blocks of the demand, the null block not among them."""
    if demand.varying is not None:
        return _typical("blocks", alloc, demand, alloc.growth(0))
    capacity = alloc.setup.capacity
    counts = Counter(group.spec for group in capacity.groups)
    steps, parts, total = list[Step](), list[str](), 0
    given: dict[str, Number] = {"requests": demand.sequences}
    sharing = alloc.shares() and (demand.shared or demand.beams > 1)
    for place, (spec, count) in enumerate(counts.items()):
        name = "blocks_of_a_request" if len(counts) == 1 and count == 1 else f"{spec.kind}_blocks" + "_" * place
        one = _group(name, spec, demand.length, capacity.load, alloc)
        if sharing:
            one = _shared(f"{name}_of_all", demand, one, alloc.shared_block())
        steps += one
        groups = "groups" + "_" * place
        given[groups], given[one[-1].name] = count, one[-1].value
        parts.append(f"{{{groups}}} x {{{one[-1].name}}}" if count > 1 else f"{{{one[-1].name}}}")
        total += count * int(one[-1].value)
    rule = " + ".join(parts)
    if not sharing:
        several = len(parts) > 1 or " x " in rule
        rule, total = "{requests} x " + (f"({rule})" if several else rule), total * demand.sequences
    return (*steps, step("blocks", rule, total, **given))


def _group(name: str, spec: Spec, length: int, load: Load, alloc: VllmAllocation) -> Formula:
    """The blocks of one request in one group, see `planner.engines.vllm_capacity.blocks_of`."""
    value = blocks_of(spec, length, load, alloc.setup.capacity.rules)
    given: dict[str, Number] = {
        "length": length, "block_size": spec.block_size, "window": spec.window or 0, "tokens_in_flight": load.in_flight,
        "context_parallel": load.dcp, "encoder_tokens": load.encoder, "draft_tokens": load.extra,
    }  # fmt: skip
    if spec.kind in ("full", "mla"):
        inner = "{length}" if load.dcp == 1 else "ceil({length} / {context_parallel})"
        rule = f"ceil({inner} / {{block_size}})"
    elif spec.kind in ("sliding", "sliding_mla"):
        more = " + {draft_tokens}" if load.extra else ""
        rule = f"ceil(min({{window}} - 1{more} + {{tokens_in_flight}}, {{length}}) / {{block_size}}) + 1"
    elif spec.kind == "chunked":
        rule = "ceil(min({window} + {tokens_in_flight}, {length}) / {block_size})"
    elif spec.kind == "cross":
        rule = "ceil({encoder_tokens} / {block_size})"
    else:
        return known(name, "state_blocks", value)
    return (step(name, rule, value, **given),)


def _shared(name: str, demand: Demand, one: Formula, block: int) -> Formula:
    """Blocks of all requests where whole common ones are stored once, see `Demand.units`."""
    each = int(one[-1].value)
    common = min(demand.shared // block, each)
    prompt = min(max(common, demand.prompt // block if demand.beams > 1 else 0), each)
    given = {"common_blocks": common, "requests": demand.requests, "prompt_blocks": prompt, "beams": demand.beams, "each": each}
    rule = "{common_blocks} + {requests} x ({each} - {common_blocks})"
    if demand.beams > 1:
        rule = "{common_blocks} + {requests} x ({prompt_blocks} - {common_blocks} + {beams} x ({each} - {prompt_blocks}))"
    return (*one, step(name, rule, demand.units(each, block), **given))


def _typical(name: str, alloc: Typical, demand: Demand, growth: Growth) -> Formula:
    """Units in 95% of the moments, see `planner.capacity_moments.Spread.units`."""
    common, one = alloc.moments(demand, growth)
    given = {
        "requests": demand.requests, "mean": one.mean, "deviation": one.deviation, "skewness": one.skewness,
        "z": 1.6448536269514722, "longest": one.worst, "common": common, "beams": demand.beams,
    }  # fmt: skip
    root = "sqrt({requests})"
    width = f"{{z}} + ({{z}} x {{z}} - 1) x {{skewness}} / (6 x {root})"
    usual = f"ceil({{requests}} x {{mean}} + {{deviation}} x {root} x ({width}))"
    rule = f"min({{requests}} x {{longest}}, max({{longest}}, {usual}))"
    units = one.units(demand.requests)
    first = step(f"{name}_in_95_percent", rule, units, **given)
    rule = f"{{common}} + {{beams}} x {{{first.name}}}"
    return (first, step(name, rule, common + units * demand.beams, **given, **{first.name: units}))


# SGLang, TensorRT-LLM, TGI: a pool of blocks, and states beside it


def _pooled(alloc: PooledAllocation, demand: Demand) -> Formula:
    need = alloc.need(demand)
    length = demand.length + (demand.encoder if alloc.in_front else 0)
    own, at = alloc.pool(need), alloc.pool(need, length)
    states = sum(int(at.details.get(name) or 0) for name in ("state_bytes", "conv_bytes", "ssm_bytes"))
    for pool in (at, own):
        if pool.num_blocks * pool.bytes_per_block + states == need:
            rule = "{blocks} x {bytes_per_block}" + (" + {states}" if states else "")
            given = {"blocks": pool.num_blocks, "bytes_per_block": pool.bytes_per_block, "states": states}
            return (*_pool_blocks(alloc, demand, pool.num_blocks, length), step(NAME, rule, need, **given))
    return known(NAME, "least_budget_that_holds", need)


def _pool_blocks(alloc: PooledAllocation, demand: Demand, blocks: int, length: int) -> Formula:
    """Why there are so many blocks: those of the requests, or of one request of the engine's longest; () where it is neither."""
    pool = alloc.pool(alloc.need(demand), length)
    _, block = alloc.usable(pool)
    reserved = 1 if alloc.name == "tgi" else 0
    longest = int(alloc.pool(alloc.need(demand)).max_model_len)
    if demand.varying is not None and not alloc.several(pool) and not alloc.in_front:
        wanted = _typical("blocks_of_the_requests", alloc, demand, alloc.growth(alloc.need(demand)))
    else:
        each = ceil_div(length, block)
        one: Formula = (step("blocks_of_a_request", "ceil({length} / {block_size})", each, length=length, block_size=block),)
        if (demand.shared or demand.beams > 1) and alloc.shares(pool):
            wanted = _shared("blocks_of_the_requests", demand, one, block)
        else:
            rule, total = "{requests} x {blocks_of_a_request}", each * demand.sequences
            given = {"requests": demand.sequences, "blocks_of_a_request": each}
            wanted = (*one, step("blocks_of_the_requests", rule, total, **given))
    count, least = int(wanted[-1].value), ceil_div(longest, block)
    if blocks != max(count, least) + reserved:
        return ()
    rule = "max({blocks_of_the_requests}, ceil({longest_context} / {block_size}))" + (" + {reserved_block}" if reserved else "")
    given = {"blocks_of_the_requests": count, "longest_context": longest, "block_size": block, "reserved_block": reserved}
    return (*wanted, step("blocks", rule, blocks, **given))


# llama.cpp, transformers: layers


def _static(alloc: StaticAllocation, demand: Demand) -> Formula:
    """Layers that take the same together."""
    sizes = [size for size in alloc.sizes(demand) if size]
    given: dict[str, Number] = {}
    parts = []
    for place, (size, count) in enumerate(Counter(sizes).items(), start=1):
        given[f"layers_{place}"], given[f"bytes_{place}"] = count, size
        parts.append(f"{{layers_{place}}} x {{bytes_{place}}}")
    if not parts:
        return known(NAME, "nothing", 0)
    return (step(NAME, " + ".join(parts), sum(sizes), **given),)
