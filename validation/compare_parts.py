"""The parts of a validation report: facts of the run, predicted and measured figures of a point, the frontier, speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked

Count = Annotated[int, Field(ge=0, le=10**18)]
Number = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=2000)]
Item = TypeVar("Item")
Many = Annotated[tuple[Item, ...], Field(max_length=2000)]
STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Check:
    """One comparison. It agrees when the measured figure lies between low and high, widened by the tolerance."""

    name: str
    low: int
    high: int
    measured: int
    tolerance: float
    decided: bool = True

    @property
    def agrees(self) -> bool:
        return self.low * (1 - self.tolerance) <= self.measured <= self.high * (1 + self.tolerance)

    @property
    def error(self) -> float:
        """How far the measured figure is from the predicted range, as a share; negative below it."""
        nearest = min(max(self.measured, self.low), self.high)
        return (self.measured - nearest) / nearest if nearest else float(self.measured != nearest)

    @property
    def text(self) -> str:
        predicted = f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"
        tolerance = "exact" if not self.tolerance else f"within {self.tolerance:.0%}"
        return f"{self.name}: predicted {predicted}, measured {self.measured:,} ({self.error:+.2%}; {tolerance})"


@dataclass(frozen=True)
class Fit:
    """Bytes a token and intercept of the line through one batch's points, predicted and measured."""

    batch: int
    predicted_slope: float
    predicted_intercept: float
    measured_slope: float
    measured_intercept: float


@checked(frozen=True, config=STRICT)
class ModelFacts:
    """What was built. layers: how many; full_layers: of the whole model. commit: of its config, where it is known."""

    name: Text
    model_type: Text
    source: Text
    commit: Text | None
    layers: Count
    full_layers: Count
    kinds: dict[Text, Count]
    parameters: Count
    parameter_bytes: Count
    predicted_parameter_bytes: Count | None


@checked(frozen=True, config=STRICT)
class RunFacts:
    """How it generated: cache_implementation and its config, dtype, weights (random, hub or folder), attention kernel."""

    cache: Text
    cache_config: dict[Text, Text]
    dtype: Text
    weights: Text
    attention: Text


@checked(frozen=True, config=STRICT)
class DeviceFacts:
    """Where it ran. memory_bytes: of the device, or of the machine on the CPU. allocator: settings of PyTorch's."""

    kind: Literal["cpu", "cuda"]
    name: Text
    memory_bytes: Count | None
    driver: Text | None
    threads: Count
    allocator: Text


@checked(frozen=True, config=STRICT)
class Predicted:
    """The planner's figures at a point, in bytes.

    allocated: what generation leaves behind in the allocator, from whole 512-byte blocks (low) to blocks that kept a rest
    (high); counters and token ids (bookkeeping_bytes) included. Peaks are above what was there before. storage_known: the
    storages behind this cache are predicted exactly. peak_known: the layers' working memory is modelled, not estimated.
    whole_bytes: tensor bytes of the model before it was cut.
    """

    tensor_bytes: Count
    storage_bytes: Count
    storage_known: bool
    bookkeeping_bytes: Count
    allocated_low_bytes: Count
    allocated_high_bytes: Count
    reserved_bytes: Count
    prefill_peak_bytes: Count
    decode_peak_bytes: Count
    peak_known: bool
    whole_bytes: Count


@checked(frozen=True, config=STRICT)
class Measured:
    """What was found at a point, in bytes; allocated, requested and peaks are above `before_bytes`.

    On the CPU allocated and peaks are live tensors in blocks of 512 bytes; requested, reserved and driver are null.
    """

    tensor_bytes: Count
    storage_bytes: Count
    before_bytes: Count
    allocated_bytes: Count
    requested_bytes: Annotated[int, Field(ge=-(10**18), le=10**18)] | None
    prefill_peak_bytes: Count
    decode_peak_bytes: Count | None
    reserved_bytes: Count | None
    driver_bytes: Count | None
    resident_bytes: Count | None


@checked(frozen=True, config=STRICT)
class LayerRun:
    """`count` equal neighbouring layers from `first` on; bytes are those of one of them."""

    first: Count
    count: Count
    kind: Text
    cls: Text
    predicted_bytes: Count
    measured_bytes: Count
    predicted_storage_bytes: Count
    measured_storage_bytes: Count


@checked(frozen=True, config=STRICT)
class Point:
    """One generation. tokens: positions held by each request at the end; positions: what the cache itself says.

    layers is empty where the model keeps one store for all of them.
    """

    batch: Count
    tokens: Count
    prompt_tokens: Count
    new_tokens: Count
    encoder_tokens: Count
    positions: Count | None
    predicted: Predicted
    measured: Measured
    layers: Many[LayerRun]
    seconds: Number

    @property
    def first_difference(self) -> str | None:
        """The first layer whose bytes are not those predicted, in words."""
        for run in self.layers:
            if run.predicted_bytes != run.measured_bytes:
                return (
                    f"layer {run.first} ({run.kind}, {run.cls}) is the first that differs:"
                    f" predicted {run.predicted_bytes:,} bytes, measured {run.measured_bytes:,}"
                )
        return None


@checked(frozen=True, config=STRICT)
class Attempt:
    """One try on the way to the frontier. peak_bytes: above what was there before, where it ran."""

    value: Count
    ran: bool
    peak_bytes: Count | None
    seconds: Number
    error: Text | None


@checked(frozen=True, config=STRICT)
class Frontier:
    """The largest number of tokens (or requests) that generated within a limit, beside the planner's.

    limit_bytes: memory above what was there before. chunk: tokens of the prompt processed at once. step: how fine the
    search was. how: what enforced the limit. recovered: after running out, a small generation ran again.
    """

    what: Literal["tokens", "batch"]
    other: Count
    limit_bytes: Count
    how: Text
    chunk: Count
    step: Count
    predicted: Count
    measured: Count
    recovered: bool
    attempts: Many[Attempt]

    def agrees(self, tolerance: float) -> bool:
        """Whether the two are as near as the tolerance, or nearer than the search was fine."""
        gap = abs(self.predicted - self.measured)
        return self.recovered and gap <= max(tolerance * self.predicted, self.step)

    @property
    def text(self) -> str:
        word = "tokens a request" if self.what == "tokens" else "requests"
        recovered = "" if self.recovered else "; it did not recover after running out of memory"
        return f"frontier: predicted {self.predicted:,} {word}, measured {self.measured:,}{recovered}"


@checked(frozen=True, config=STRICT)
class SpeedPoint:
    """The same greedy generation with and without a cache, in seconds. Without one it may not have been tried (null).

    same: the tokens are equal; else first_difference is the first new token that is not, and logit_gap how far apart the
    two candidates' logits were there with the cache.
    """

    prompt_tokens: Count
    new_tokens: Count
    cached_s: Number
    uncached_s: Number | None
    same: bool | None
    first_difference: Count | None
    logit_gap: Number | None

    @property
    def speedup(self) -> float | None:
        return None if self.uncached_s is None or not self.cached_s else self.uncached_s / self.cached_s


@checked(frozen=True, config=STRICT)
class Timing:
    """Seconds at a length: to the first token of a prompt, or of one more token on a cached length."""

    tokens: Count
    seconds: Number


@checked(frozen=True, config=STRICT)
class QuantizedBytes:
    """A quantized cache of real generation beside the full one."""

    backend: Text
    bits: Count
    tokens: Count
    predicted_bytes: Count
    measured_bytes: Count
    full_bytes: Count


@checked(frozen=True, config=STRICT)
class Speed:
    """What the cache buys on this machine: curves, not a slogan."""

    batch: Count
    curve: Many[SpeedPoint]
    first_token: Many[Timing]
    later_token: Many[Timing]
    quantized: Many[QuantizedBytes]
    notes: Many[Text]

    def holds(self, factor: float) -> str:
        """Where a speed-up of `factor` starts to hold, in words, by the measured lengths alone."""
        rows = [(row.new_tokens, row.speedup) for row in self.curve if row.speedup is not None]
        if not rows:
            return "not yet measured"
        last_below = max((n for n, speedup in rows if speedup < factor), default=None)
        above = [(n, speedup) for n, speedup in rows if speedup >= factor and (last_below is None or n > last_below)]
        below = "" if last_below is None else f"; at {last_below:,} it is {dict(rows)[last_below]:.1f} times"
        if not above:
            return f"{factor:g} times is not reached up to {rows[-1][0]:,} new tokens ({rows[-1][1]:.1f} times there)"
        return f"{factor:g} times holds from {above[0][0]:,} new tokens on ({above[0][1]:.1f} times){below}"
