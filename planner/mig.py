"""MIG slices: parts of one NVIDIA GPU that a process sees as a GPU of its own, with their share of its memory and speed."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.accelerators import Figure, Gpu, read, table
from planner.errors import InputError, shown
from planner.units import MIB

#: A profile's name, with the card's name and the word "mig" before it or not.
_NAME = re.compile(r"(?:(?P<card>.*?)[\s:_-]+)??(?:mig[\s:_-]*)?(?P<profile>\d{1,2}g\.\d{1,3}gb)(?:[+.]me)?", re.IGNORECASE)
#: Figures that shrink with the slice's multiprocessors.
_RATES = ("fp16_tflops", "bf16_tflops", "fp8_tflops", "fp4_tflops", "int8_tops")


@dataclass(frozen=True)
class Slice:
    """A profile of one card: bytes that nvidia-smi shows at least and at most, and its share of bandwidth and of compute.

    count: slices of this profile that the card has at most.
    """

    card: str
    name: str
    low: int
    high: int
    bandwidth_share: float
    compute_share: float
    count: int
    status: str
    source: str


@functools.cache
def slices() -> Mapping[str, tuple[Slice, ...]]:
    """The known profiles by the id of their card. Source: data/mig.yaml, each row with its own."""
    found = {}
    for row in read("mig.yaml")["cards"]:
        for card in row["cards"]:
            found[card] = tuple(
                Slice(card, one["name"], one["mib"][0] * MIB, one["mib"][1] * MIB, float(one["share"]), one["sms"] / row["sms"],
                      one["count"], one.get("status", "verified"), row["source"])
                for one in row["slices"]
            )  # fmt: skip
    return found


def named(text: str) -> tuple[str, str] | None:
    """The card's name ("" where none is said) and the profile of a text that names a slice; None where it names none.

    "h100-sxm:3g.40gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb" (as PyTorch calls it), "mig-3g.40gb", "3g.40gb".
    """
    match = _NAME.fullmatch(text.strip())
    return ((match["card"] or "").strip(), match["profile"].lower()) if match else None


def slice_of(card: Gpu | None, profile: str) -> Gpu:
    """The slice as a GPU: its memory as nvidia-smi shows it, bandwidth by memory slices, FLOPs by multiprocessors, no links.

    card: None where none was said, which does where a single kind of card has such a profile.
    Errors: InputError naming the cards or profiles that there are.
    """
    known = slices()
    if card is None:
        have = [name for name, parts in known.items() if any(part.name == profile for part in parts)]
        if len({_memory(name, profile) for name in have}) != 1:
            choices = ", ".join(f"{name}:{profile}" for name in have)
            why = f"several cards have a slice {profile}: say which, {choices}"
            raise InputError(why if have else f"no card with a slice {profile} is known", field="gpu")
        card = table().gpus[have[0]]
    part = next((part for part in known.get(card.id, ()) if part.name == profile), None)
    if part is None:
        there = ", ".join(f"{card.id}:{one.name}" for one in known.get(card.id, ()))
        raise InputError(
            f"no MIG slice {shown(profile)} of {card.name} is known" + (f"; there are {there}" if there else ""), field="gpu"
        )
    return _gpu(card, part)


def _memory(card: str, profile: str) -> int:
    return next(part.low for part in slices()[card] if part.name == profile)


def _gpu(card: Gpu, part: Slice) -> Gpu:
    memory = (Figure("memory_bytes", part.high, part.status, part.source),
              Figure("torch_memory_bytes", part.low, part.status, part.source))  # fmt: skip
    scaled = tuple(
        replace(figure, value=getattr(card, figure.name) and _scaled(getattr(card, figure.name), share), status="recalled",
                source=f"{share:.3g} of the whole card's: {figure.source}")
        for figure in card.figures
        for share in [part.bandwidth_share if figure.name == "bandwidth_gbs" else part.compute_share]
        if figure.name in (*_RATES, "bandwidth_gbs")
    )  # fmt: skip
    return replace(
        card, id=f"{card.id}:{part.name}", name=f"{card.name} MIG {part.name}", memory_bytes=part.high,
        torch_memory_bytes=part.low, torch_seen_bytes=(part.high,), status=part.status, source=part.source, link_gbs=None,
        driver_name=None, figures=(*memory, *scaled), mig_profile=part.name,
        note=f"{part.count} such slices at most on one card; slices have no links to each other",
        bandwidth_gbs=_scaled(card.bandwidth_gbs, part.bandwidth_share),
        fp16_tflops=_scaled(card.fp16_tflops, part.compute_share), bf16_tflops=_scaled(card.bf16_tflops, part.compute_share),
        fp8_tflops=_scaled(card.fp8_tflops, part.compute_share), fp4_tflops=_scaled(card.fp4_tflops, part.compute_share),
        int8_tops=_scaled(card.int8_tops, part.compute_share),
    )  # fmt: skip


def _scaled(value: float | None, share: float) -> float | None:
    return None if value is None else value * share
