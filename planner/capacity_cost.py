"""What a plan costs: the person's own price of a GPU-hour, over hours and tokens. No price is shipped."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.errors import InputError, shown

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
