"""From FLOPs and bytes to seconds on GPUs of one kind."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import InputError
from planner.hardware import Gpu
from planner.latency_efficiency import Factor, Range, bandwidth, factor
from planner.latency_experts import Active
from planner.model import Model
from planner.reasons import Formula, step
from planner.texts import tell

_TERA, _GIGA = 10**12, 10**9
#: Bytes of one element of what ranks exchange: activations are 16-bit.
_ACTIVATION_BYTES = 2
#: All-reduces of one layer: after attention and after its feed-forward part.
_ALL_REDUCES = 2


@dataclass(frozen=True)
class Machine:
    """`ranks` GPUs of one kind that share every layer. peak_flops: of one GPU a second, low in 16 bits and high in fp8 where
    the weights and the GPU have it. link_bytes_per_s: one direction between two GPUs, None where it is not known."""

    gpu: Gpu
    ranks: int
    peak_flops: Range
    bandwidth_bytes_per_s: float
    link_bytes_per_s: float | None
    bytes_factor: Factor
    layers: int
    hidden_size: int
    warnings: tuple[str, ...]

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors that the times rest on."""
        shared = ("all_reduce_s", "link") if self.ranks > 1 else ()
        names = ("compute", "layer_overhead_s", "experts_in_use", "state_flops", *shared)
        return (self.bytes_factor, *(factor(name) for name in names))

    def compute_s(self, flops: Range) -> Range:
        """Seconds to compute FLOPs of the whole model, shared out evenly."""
        share = factor("compute")
        return Range(
            flops.low / self.ranks / (self.peak_flops.high * share.high),
            flops.high / self.ranks / (self.peak_flops.low * share.low),
        )

    def memory_s(self, read: Range) -> Range:
        """Seconds to move the bytes of one GPU."""
        share = self.bytes_factor
        return Range(read.low / (self.bandwidth_bytes_per_s * share.high), read.high / (self.bandwidth_bytes_per_s * share.low))

    def fixed_s(self, tokens: int, steps: int) -> Range:
        """Seconds that neither compute nor memory explain: small kernels, and the exchanges between ranks.

        exchange = 2 x layers x (start + 2 (r - 1) / r x tokens x hidden x 2 bytes / link), r ranks, the ring all-reduce.
        """
        small = factor("layer_overhead_s").range * (self.layers * steps)
        if self.ranks == 1:
            return small
        start = factor("all_reduce_s").range * (_ALL_REDUCES * self.layers * steps)
        if self.link_bytes_per_s is None:
            return small + start
        moved = _ALL_REDUCES * self.layers * 2 * (self.ranks - 1) / self.ranks * tokens * self.hidden_size * _ACTIVATION_BYTES
        share = factor("link")
        return small + start + Range(moved / (self.link_bytes_per_s * share.high), moved / (self.link_bytes_per_s * share.low))

    def seconds(self, flops: Range, read: Range, tokens: int, steps: int = 1) -> Range:
        """Seconds of `steps` passes over `tokens` tokens together: everything overlaps at the low end, nothing at the high."""
        compute, memory, fixed = self.compute_s(flops), self.memory_s(read), self.fixed_s(tokens, steps)
        return Range(max(compute.low, memory.low) + fixed.low, compute.high + memory.high + fixed.high)

    def formula(self, name: str, flops: Range, read: Range, tokens: int) -> Formula:
        """The arithmetic of `seconds` of one pass, at its low and its high end."""
        share, bytes_share, fixed = factor("compute"), self.bytes_factor, self.fixed_s(tokens, 1)
        compute, memory = "{flops} / {ranks} / ({peak} x {peak_share})", "{bytes_read} / ({bandwidth} x {bandwidth_share})"
        found = self.seconds(flops, read, tokens)
        ends = (
            (f"max({compute}, {memory}) + {{fixed}}", found.low, flops.low, read.low, self.peak_flops.high, share.high,
             bytes_share.high, fixed.low),
            (f"{compute} + {memory} + {{fixed}}", found.high, flops.high, read.high, self.peak_flops.low, share.low,
             bytes_share.low, fixed.high),
        )  # fmt: skip
        return tuple(
            step(f"{name}_{end}", rule, value, flops=count, ranks=self.ranks, peak=peak, peak_share=used, bytes_read=size,
                 bandwidth=self.bandwidth_bytes_per_s, bandwidth_share=moved, fixed=rest)
            for end, (rule, value, count, size, peak, used, moved, rest) in zip(("low", "high"), ends, strict=True)
        )  # fmt: skip

    def bound(self, flops: Range, read: Range) -> str:
        """Which of the two takes longer at the card's own figures: "memory" or "compute"."""
        compute = (flops.low + flops.high) / self.ranks / (self.peak_flops.low + self.peak_flops.high)
        return "compute" if compute > (read.low + read.high) / 2 / self.bandwidth_bytes_per_s else "memory"


def machine(card: Gpu, model: Model, active: Active, ranks: int) -> Machine:
    """The machine of `ranks` such cards. InputError where bandwidth or FLOPs are not known: they are not guessed."""
    rate = card.fp16_tflops or card.bf16_tflops
    missing = [text for text, value in (("memory bandwidth", card.bandwidth_gbs), ("16-bit FLOPs", rate)) if not value]
    if missing or not card.bandwidth_gbs or not rate:
        raise InputError(f"the {' and '.join(missing)} of {card.name} is not known, and times follow from it", field="gpu")
    eight = card.fp8_tflops if active.bits_per_parameter <= 9 and card.fp8_tflops else rate
    link, warnings = card.link_gbs or card.pcie_gbs, list[str]()
    if ranks > 1 and link is None:
        warnings.append(tell("time.link", gpu=card.name))
    if model.dtype == "float32":
        warnings.append(tell("time.float32"))
    for name in ("bandwidth_gbs", "fp16_tflops"):
        figure = card.figure(name)
        if figure is not None and figure.status != "verified":
            warnings.append(tell("time.unverified", figure=name, gpu=card.name))
    return Machine(
        card, ranks, Range(rate * _TERA, max(rate, eight) * _TERA), card.bandwidth_gbs * _GIGA,
        link * _GIGA / 2 if link else None, bandwidth(active.bits_per_parameter), len(model.layers), model.hidden_size,
        tuple(warnings),
    )  # fmt: skip
