"""Ranges, and the efficiency factors with their sources that turn FLOPs and bytes into seconds."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class Range:
    """An estimate from `low` to `high`. Sums and products of ranges of positive numbers are ranges again."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Factor:
    """One efficiency factor: its range, how it is known (measured, observed or assumed), and where it was read."""

    name: str
    low: float
    high: float
    kind: str
    source: str

    @property
    def range(self) -> Range:
        return Range(self.low, self.high)


@functools.cache
def table() -> dict[str, Any]:
    """The content of data/efficiency.yaml, read once."""
    text = resources.files("planner").joinpath("data/efficiency.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return content


def factor(name: str) -> Factor:
    """The factor called `name`."""
    row = table()["factors"][name]
    return Factor(name, float(row["low"]), float(row["high"]), row["kind"], row["source"])


def bandwidth(bits_per_parameter: float) -> Factor:
    """The bandwidth factor for weights stored in about so many bits: 4-bit kernels reach less of the peak than 16-bit ones."""
    kind = "16" if bits_per_parameter > 12 else "8" if bits_per_parameter > 6 else "4"
    return factor(f"bandwidth_{kind}_bit")
