"""What a plan costs: the person's own price of a GPU-hour, over hours and tokens. No price is shipped."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.capacity_plan import Plan
from planner.errors import InputError, shown
from planner.latency import latency
from planner.units import ceil_div

_SECONDS = 3600
_MILLION = 1_000_000


@dataclass(frozen=True)
class Cost:
    """Cost of all GPUs in the price's own currency. per_million_low and _high: of generated tokens; None where no rate
    is known, and `note` says why."""

    price_per_gpu_hour: float
    gpus: int
    per_hour: float
    per_million_low: float | None = None
    per_million_high: float | None = None
    note: str | None = None


def cost(price_per_gpu_hour: float, gpus: int, tokens_per_second: tuple[float, float] | None = None) -> Cost:
    """Cost of `gpus` GPUs an hour, and of a million generated tokens at a range of rates.

    per_hour = price x GPUs; per_million = per_hour / 3600 / (tokens a second) x 10**6, the low end from the higher rate

    tokens_per_second: of all requests together, low and high. Errors: InputError for a price that is none, a rate not above 0.
    Source: arithmetic; the rate's range is the roofline's (planner.latency).
    """
    price = price_per_gpu_hour
    if isinstance(price, bool) or not isinstance(price, int | float) or not math.isfinite(price) or not 0 <= price <= 1e6:
        raise InputError(f"price is {shown(price)}; it is what a GPU costs an hour, 0 to a million", field="price")
    per_hour = price * gpus
    if tokens_per_second is None:
        return Cost(price, gpus, per_hour)
    low, high = tokens_per_second
    if not 0 < low <= high:
        raise InputError("tokens_per_second is a range above 0, low and high", field="tokens_per_second")
    return Cost(price, gpus, per_hour, per_hour / _SECONDS / high * _MILLION, per_hour / _SECONDS / low * _MILLION)


def plan_cost(plan: Plan, price_per_gpu_hour: float) -> Cost:
    """What `plan` costs while its requests decode, all of them together, at the roofline's range of rates.

    Without lengths, with pipeline stages (whose rate is not estimated) or on a GPU whose speed is not known there is no rate.
    Errors: InputError for the price.
    """
    work, why = plan.workload, None
    if work is None or work.full or work.mean_output < 1:
        why = "no cost of a token: say how long prompts and answers are"
    elif plan.pipeline_parallel_size > 1 or plan.deployment.layer_split > 1:
        why = "no cost of a token: how fast layers spread over GPUs are is not estimated"
    if why or work is None:
        return replace(cost(price_per_gpu_hour, plan.gpus), note=why)
    dtype = str(getattr(plan.settings, "kv_cache_dtype", "auto"))
    try:
        found = latency(
            plan.model, plan.gpu, prompt_tokens=max(1, round(work.mean_tokens - work.mean_output)),
            output_tokens=max(1, round(work.mean_output)), concurrency=ceil_div(plan.requests, plan.replicas),
            tensor_parallel_size=plan.tensor_parallel_size, kv_cache_dtype="fp8" if dtype.startswith("fp8") else None,
            encoder_tokens=work.encoder_tokens,
        )  # fmt: skip
    except InputError as error:
        return replace(cost(price_per_gpu_hour, plan.gpus), note=f"no cost of a token: {error.message}")
    rate = found.output_tokens_per_s * plan.replicas
    return cost(price_per_gpu_hour, plan.gpus, (rate.low, rate.high))
