"""Kinds of work to begin with: chat, retrieval, long documents, agents, offline batches. The table is data/workloads.yaml."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources

import yaml

from planner.workload import Workload
from planner.workload_lengths import Lengths


@dataclass(frozen=True)
class Kind:
    """One kind of work. prompt, output: tokens at p50, p95 and the longest, max; tokens: both 95th percentiles together.

    requests: held at once.
    """

    name: str
    prompt: dict[str, int]
    output: dict[str, int]
    tokens: int
    requests: int

    @property
    def workload(self) -> Workload:
        """With log-normal lengths, as the shell's `--prompt p50=...,p95=...,max=...` says them."""
        prompt, output = (
            Lengths.parse(",".join(f"{name}={value}" for name, value in one.items()), word)
            for one, word in ((self.prompt, "prompt"), (self.output, "output"))
        )
        return Workload(prompt, output, requests=self.requests)


@functools.cache
def kinds() -> dict[str, Kind]:
    """By name, in the order of the table."""
    text = resources.files("planner").joinpath("data/workloads.yaml").read_text(encoding="utf-8")
    return {name: Kind(name, **row) for name, row in yaml.safe_load(text).items()}
