"""Where a vLLM log's pool does not follow from the model and the settings: which rule or setting would have to be another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.units import GIB
from validation.logs.log import Log
from validation.logs.vllm_infer import Fit
from validation.logs.vllm_pool import Bytes

#: What a ratio of printed to our bytes usually is.
_RATIOS: Final = (
    (0.5, "half of ours: the cache may be in 8 bits, or split over twice the GPUs"),
    (2.0, "twice ours: the cache may be in 16 bits, or split over half the GPUs"),
    (0.25, "a quarter of ours: split over four times the GPUs, or half the bytes over twice the GPUs"),
    (4.0, "four times ours: split over a quarter of the GPUs"),
    (0.5625, "nine sixteenths of ours: the cache may be nvfp4 where fp8 was taken"),
)
_NEAR: Final = 0.01


def differences(log: Log, fit: Fit, source: Bytes | None) -> Iterator[str]:
    """What the figures say of the rule that differs."""
    wrong = [line for line in fit.lines if not line.agrees]
    if not wrong:
        return
    names = ", ".join(line.name for line in wrong)
    yield f"not reproduced by any of {fit.tried} combinations of what the log does not say: {names}"
    capacity = fit.setup.capacity
    tokens = log.printed.get("gpu_kv_cache_tokens")
    if len(capacity.groups) != 1 or source is None or tokens is None or not tokens.value:
        needed = log.printed.get("kv_needed_bytes")
        ours = next((line.ours for line in wrong if line.name == "kv_needed_bytes"), 0)
        if needed is not None and ours:
            yield _ratio(needed.value / ours, fit)
        return
    each = source.figure.value / tokens.value * capacity.load.dcp
    mine = capacity.bytes_per_block / capacity.groups[0].spec.block_size
    yield f"the log's pool is {each:,.0f} bytes a token, ours {mine:,.0f}"
    if mine:
        yield _ratio(each / mine, fit)
    least = source.figure.value - tokens.value * mine / capacity.load.dcp
    if not source.least_known and 0 < least < 0.05 * source.figure.value:
        yield f"or another rank offers {least / GIB:.2f} GiB less than the one that is printed: the least of all ranks counts"


def _ratio(ratio: float, fit: Fit) -> str:
    """What a ratio of bytes usually comes from: a format, a split, or layers more or fewer."""
    for usual, text in _RATIOS:
        if abs(ratio / usual - 1) < _NEAR:
            return f"that is {text}"
    layers = len(fit.setup.capacity.groups[0].members)
    more = round(layers * ratio) - layers
    if more and abs(layers * ratio - round(layers * ratio)) < 0.1:
        count = f"{abs(more)} layer{'s' * (abs(more) > 1)}"
        kind = f"{count} more than the {layers} of this model (a draft's?)" if more > 0 else f"{count} fewer than {layers}"
        return f"that is {ratio:.4f} of ours, as of {kind}"
    return f"that is {ratio:.4f} of ours: another model, another split, or another format of the cache"
