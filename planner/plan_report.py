"""A plan as data (JSON schema version 1) and as the text that a shell prints, the verdict first."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from planner import reasons
from planner.capacity_cost import Cost, cost
from planner.capacity_plan import Advice, Plan
from planner.capacity_reasons import plan_reasons
from planner.host_tiers import host_bytes, host_tiers
from planner.plan_times import NO_LENGTHS, cost_reasons, output_rate, plan_times, times_reasons
from planner.report import SCHEMA_VERSION, model_data
from planner.texts import tell
from planner.units import format_bytes
from planner.workload import Workload

if TYPE_CHECKING:
    from planner.simulate import Simulation


def plan_data(plan: Plan, simulation: Simulation | None = None, cost: Cost | None = None) -> dict[str, Any]:
    """The plan as plain data; every memory figure is a whole number of bytes of one GPU, and its key says so."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model_data(plan.model),
        "engine": plan.engine,
        "settings": _settings(plan.settings),
        "gpu": {"id": plan.gpu.id, "name": plan.gpu.name, "memory_bytes": plan.gpu.memory_bytes},
        "gpus": plan.gpus,
        "split": {
            "tensor_parallel_size": plan.tensor_parallel_size, "pipeline_parallel_size": plan.pipeline_parallel_size,
            "replicas": plan.replicas,
        },
        "workload": _workload(plan.workload),
        "verdict": plan.verdict,
        "certain": plan.certain,
        "headroom_bytes": plan.headroom_bytes,
        "headroom_low_bytes": plan.headroom_low,
        "headroom_high_bytes": plan.headroom_high,
        "context": plan.context,
        "length": plan.length,
        "requests": plan.requests,
        "kv_budget_bytes": plan.kv_bytes,
        "kv_need_bytes": plan.need_bytes,
        "max_requests": plan.max_requests,
        "max_requests_low": plan.max_requests_low,
        "max_requests_high": plan.max_requests_high,
        "max_context": plan.max_context,
        "terms": [{**asdict(replace(term, formula=())), "formula": reasons.data(term.formula)} for term in plan.terms],
        "per_gpu": [asdict(share) for share in plan.per_gpu],
        "pool": None if plan.pool is None else {
            "fits": plan.pool.fits, "num_blocks": plan.pool.num_blocks, "bytes_per_block": plan.pool.bytes_per_block,
            "blocks_per_request": plan.pool.blocks_per_request, "tokens": plan.pool.tokens,
            "max_concurrency": plan.pool.max_concurrency, "max_model_len": plan.pool.max_model_len,
        },
        "host": {"bytes": host_bytes(plan), "tiers": [asdict(tier) for tier in host_tiers(plan)]},
        "simulation": None if simulation is None else _simulation(simulation),
        "cost": None if cost is None else asdict(cost),
        "advice": [_advice(one) for one in plan.advice],
        "command": plan.command,
        "warnings": [*plan.warnings, *([plan.model.assumption] if plan.model.assumption else [])],
        "notes": list(plan.notes),
    }  # fmt: skip


def _settings(settings: Any) -> dict[str, Any]:
    """The settings that were said or settled, in JSON's own types; a draft model by its name."""
    found = {}
    for name in sorted(settings.model_fields_set):
        value = getattr(settings, name)
        if name == "speculative_config" and value is not None:
            draft = value.model.name if value.model else None
            value = {"method": value.method, "num_speculative_tokens": value.num_speculative_tokens, "model": draft}
        elif hasattr(value, "weights"):
            value = value.name
        found[name] = list(value) if isinstance(value, tuple) else value
    return found


def _workload(work: Workload | None) -> dict[str, Any] | None:
    if work is None:
        return None
    return {
        "requests": work.requests, "longest": work.longest,
        "mean_tokens": None if work.full else work.mean_tokens, "mean_occupancy": None if work.full else work.mean_occupancy,
        "shared_prefix_tokens": work.shared_prefix_tokens, "speculative_tokens": work.speculative_tokens, "beams": work.beams,
        "encoder_tokens": work.encoder_tokens, "image_tokens": work.image_tokens, "typical": work.typical,
        "samples": len(work.samples),
    }  # fmt: skip


def _simulation(found: Simulation) -> dict[str, Any]:
    return {**asdict(found), "curve": [{"share_of_time": share, "requests": count} for share, count in found.curve]}


def _advice(one: Advice) -> dict[str, Any]:
    return asdict(one)


def plan_cost(plan: Plan, price_per_gpu_hour: float) -> Cost:
    """What `plan` costs while its requests decode, all of them together, at the roofline's range of rates.

    Without a rate (see `planner.plan_times`) there is no cost of a token, and a note says why. Errors: InputError for the price.
    """
    found = NO_LENGTHS if plan.workload and not plan.workload.full and plan.workload.mean_output < 1 else plan_times(plan)
    if isinstance(found, str):
        return replace(cost(price_per_gpu_hour, plan.gpus), note=tell("cost.none", reason=found))
    rate = output_rate(plan, found)
    return cost(price_per_gpu_hour, plan.gpus, (rate.low, rate.high))


def plan_text(data: dict[str, Any]) -> str:
    """The plan for a person: the verdict, where the memory goes, what it could hold, what to change, and the command."""
    lines = [verdict_line(data), *_limits(data), "", *_terms(data)]
    if data["host"]["tiers"]:
        lines += ["", *_host(data["host"])]
    if data["simulation"]:
        lines += ["", *_over_time(data["simulation"])]
    if data["cost"]:
        lines += ["", _cost(data["cost"])]
    if data["advice"]:
        lines += ["", "What would make it fit" if data["verdict"] != "fits" else "What the room buys"]
        lines += [line for one in data["advice"] for line in _advice_lines(one)]
    lines += ["", "Command", *(f"  {line}" for line in data["command"].splitlines())]
    lines += [f"\nnote: {text}" for text in (*data["notes"], *data["warnings"])]
    return "\n".join(lines)


def why_text(data: dict[str, Any]) -> str:
    """The arithmetic of every term and figure, for a person."""
    titles = [(term["name"], term["formula"]) for term in data["terms"]] + list(data["why"].items())
    return "\n".join(line for name, rule in titles for line in ("", name, *(f"  {line}" for line in reasons.lines(rule))))


def why_data(plan: Plan, cost: Cost | None = None) -> dict[str, Any]:
    """The arithmetic of the plan's figures by the names that they have here. Slower than the plan's own data: it plans again."""
    found, times = plan_reasons(plan), plan_times(plan)
    if not isinstance(times, str):
        found |= times_reasons(plan, times)
    if cost is not None:
        found |= cost_reasons(cost, None if isinstance(times, str) else output_rate(plan, times))
    return {name: reasons.data(rule) for name, rule in found.items()}


def verdict_line(data: dict[str, Any]) -> str:
    """One sentence: "Starts. 212 requests of 32,768 tokens; 6.10 GiB free on each of 8 GPUs"."""
    many = _count(data["requests"], "request")
    length = _length(data)
    room = format_bytes(abs(data["headroom_bytes"]))
    where = "on the GPU" if data["gpus"] == 1 else "on each GPU"
    if data["verdict"] == "fits":
        return f"Starts. {many} of {length}; {room} free " + (
            "on the GPU" if data["gpus"] == 1 else f"on each of {data['gpus']:,} GPUs"
        )
    if data["max_requests"]:
        return f"Starts, and does not hold {many} of {length} at once: {room} short {where}"
    return f"Does not start: {room} short {where}"


def _length(data: dict[str, Any]) -> str:
    if (data["workload"] or {}).get("typical"):
        return f"{data['workload']['mean_tokens']:,.0f} tokens on average, up to {data['length']:,}"
    return f"{data['length']:,} tokens"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _limits(data: dict[str, Any]) -> list[str]:
    split = data["split"]
    layout = " x ".join(
        f"{name} {split[key]}"
        for name, key in (("TP", "tensor_parallel_size"), ("PP", "pipeline_parallel_size"), ("DP", "replicas"))
        if split[key] > 1
    )
    where = f"{data['model']['name']} on {data['gpus']} x {data['gpu']['name']}, {data['engine']}"
    lines = [f"{where}, {layout}" if layout else where]
    most, low, high = data["max_requests"], data["max_requests_low"], data["max_requests_high"]
    if most is None:
        lines.append("Memory does not limit the requests at once")
    else:
        span = f" ({low or 0:,} to {high:,} over the budget's range)" if (low, high) != (most, most) and high is not None else ""
        share = " in 95% of the time" if (data["workload"] or {}).get("typical") else ""
        lines.append(f"At most {_count(most, 'request')} of {_length(data)} at once{share}{span}")
    if data["max_context"]:
        all_that = f"{_count(data['requests'], 'request')} at once" + (", all that long" if data["requests"] > 1 else "")
        lines.append(f"Context up to {data['max_context']:,} tokens with {all_that}")
    if not data["certain"]:
        low, high = format_bytes(data["headroom_low_bytes"]), format_bytes(data["headroom_high_bytes"])
        lines.append(f"Not certain: the room is {low} to {high} over the budget's range")
    return lines


def _terms(data: dict[str, Any]) -> list[str]:
    lines = ["Memory of one GPU, the fullest" if data["gpus"] > 1 else "Memory of the GPU"]
    width = max(len(term["name"]) for term in data["terms"])
    for term in data["terms"]:
        span = ""
        if term["low"] != term["high"]:
            span = f"  {format_bytes(term['low'])} to {format_bytes(term['high'])}"
        lines.append(f"  {term['name']:<{width}}  {format_bytes(term['bytes']):>11}  {term['confidence']:<10}{span}".rstrip())
    return lines


def _host(found: dict[str, Any]) -> list[str]:
    lines = [f"Host memory, {format_bytes(found['bytes'])} in all"]
    for tier in found["tiers"]:
        kept = f"; keeps {tier['requests']:,} requests ({tier['tokens']:,} tokens)" if tier["requests"] is not None else ""
        lines.append(f"  {tier['name']}  {format_bytes(tier['bytes'])} a server{kept}")
        back = tier["transfer_s"]
        what = "one is back on the GPUs in" if kept else "read over the slot in"
        time = f"{what} {back['low'] * 1e3:,.1f} to {back['high'] * 1e3:,.1f} ms, estimated; " if back else ""
        lines.append(f"      {time}{tier['note']}")
    return lines


def _over_time(found: dict[str, Any]) -> list[str]:
    waits = "wait" if found["reserves_whole"] else "are preempted"
    shares = ", ".join(f"{row['requests']:,} in {row['share_of_time']:.0%}" for row in found["curve"])
    return [
        f"Over time ({found['draws']:,} simulated moments, seed {found['seed']})",
        f"  requests at once that fit: {shares} of the time; {found['occupancy']:,.0f} tokens each on average",
        f"  with {found['requests']:,} at once some {waits} in {found['preempted']:.1%} of the time",
    ]


def _cost(found: dict[str, Any]) -> str:
    text = f"Cost  {found['per_hour']:,.2f} an hour ({found['gpus']} x {found['price_per_gpu_hour']:,.2f})"
    if found["per_million_low"] is not None:
        text += f"; {found['per_million_low']:,.2f} to {found['per_million_high']:,.2f} a million generated tokens, estimated"
    return text + (f"; {found['note']}" if found["note"] else "")


def _advice_lines(one: dict[str, Any]) -> list[str]:
    most = "any number of requests" if one["max_requests"] is None else _count(one["max_requests"], "request")
    after = f"then {format_bytes(one['headroom_bytes'])} free, {most} at most, context up to {one['max_context']:,}"
    return [f"  {one['text']}", f"      {after}"]
