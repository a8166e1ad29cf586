"""How long a plan's requests take and what they cost, by the roofline, with the arithmetic; or why there is no estimate."""

from __future__ import annotations

from typing import Any

from planner.capacity_cost import Cost
from planner.capacity_plan import Plan
from planner.errors import InputError
from planner.latency import Latency, latency
from planner.latency_efficiency import Range
from planner.reasons import Formula, step
from planner.texts import tell
from planner.units import ceil_div

#: Why there is no estimate, where it is not an InputError's own reason.
NO_LENGTHS = tell("time.lengths")
SPREAD = tell("time.spread")


def plan_times(plan: Plan) -> Latency | str:
    """The estimate for one replica, or in one sentence what it would need: lengths, one stage, a GPU whose speed is known."""
    work = plan.workload
    if work is None or work.full:
        return NO_LENGTHS
    if plan.pipeline_parallel_size > 1 or plan.deployment.layer_split > 1:
        return SPREAD
    dtype = str(getattr(plan.settings, "kv_cache_dtype", "auto"))
    try:
        return latency(
            plan.model, plan.gpu, prompt_tokens=max(1, round(work.mean_tokens - work.mean_output)),
            output_tokens=max(1, round(work.mean_output)), concurrency=ceil_div(plan.requests, plan.replicas),
            tensor_parallel_size=plan.tensor_parallel_size, kv_cache_dtype="fp8" if dtype.startswith("fp8") else None,
            encoder_tokens=work.encoder_tokens,
        )  # fmt: skip
    except InputError as error:
        return error.message


def output_rate(plan: Plan, found: Latency) -> Range:
    """Output tokens a second of all replicas together."""
    return found.output_tokens_per_s * plan.replicas


def times_data(plan: Plan, found: Latency | str) -> dict[str, Any]:
    """The times in JSON's own types, seconds and tokens a second; `note` says why where there are none."""
    if isinstance(found, str):
        return {"note": found}
    ranges = {
        "ttft_s": found.ttft_s, "ttft_at_once_s": found.ttft_at_once_s, "time_per_output_token_s": found.time_per_output_token_s,
        "output_tokens_per_s": output_rate(plan, found),
    }  # fmt: skip
    return {name: {"low": value.low, "high": value.high} for name, value in ranges.items()}


def times_reasons(plan: Plan, found: Latency) -> dict[str, Formula]:
    """Formulas by the name that each figure has in the JSON, below `times`."""
    time = found.time_per_output_token_s
    rates = tuple(
        step(f"rate_{end}", "{replicas} x ({requests} / {time_per_output_token})", value, replicas=plan.replicas,
             requests=found.concurrency, time_per_output_token=slow)
        for end, value, slow in (
            ("low", output_rate(plan, found).low, time.high), ("high", output_rate(plan, found).high, time.low),
        )
    )  # fmt: skip
    return {**{f"times.{name}": rule for name, rule in found.formulas.items()}, "times.output_tokens_per_s": rates}


def cost_reasons(found: Cost, rate: Range | None) -> dict[str, Formula]:
    """Formulas of an hour and of a million tokens, by the names that they have in the JSON below `cost`."""
    hour = step("per_hour", "{price} x {gpus}", found.per_hour, price=found.price_per_gpu_hour, gpus=found.gpus)
    rules: dict[str, Formula] = {"cost.per_hour": (hour,)}
    ends = (("low", found.per_million_low, rate.high), ("high", found.per_million_high, rate.low)) if rate else ()
    for end, value, tokens in ends:
        if value is not None:
            rule = "{per_hour} / 3,600 / {tokens_a_second} x 1,000,000"
            line = step(f"per_million_{end}", rule, value, per_hour=found.per_hour, tokens_a_second=tokens)
            rules[f"cost.per_million_{end}"] = (hour, line)
    return rules
