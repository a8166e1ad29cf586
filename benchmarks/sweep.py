"""How fast sweeps are: points a second against bare numpy, and plans over the whole catalogue and every GPU.

    python -m benchmarks.sweep [--points N] [--plans N]

Prints figures of this machine; nothing is asserted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import model_configs
from model_configs import catalogue
from planner.cli_sweep import Bar
from planner.hardware import gpus
from planner.model import Model
from planner.sweep import Grid, form_of, sweep
from planner.sweep_budget import cache_budget
from planner.sweep_variants import variant

Arrays = npt.NDArray[np.int64]
#: The same closed forms written out by hand: model, engine, and bytes of t tokens and r requests.
BARE: tuple[tuple[str, str, Callable[[Arrays, Arrays], Arrays]], ...] = (
    ("meta-llama/Llama-3.1-8B", "vllm", lambda t, r: -(-t // 16) * r * (16 * 131072)),
    ("meta-llama/Llama-3.1-8B", "llama.cpp", lambda t, r: -(-t // 256) * r * (256 * 131072)),
    ("google/gemma-3-27b-it", "architecture", lambda t, r: (np.minimum(t, 1023) * 425984 + t * 81920) * r),
    ("deepseek-ai/DeepSeek-V3", "sglang", lambda t, r: t * r * 70272),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "transformers", lambda t, r: (t * 24576 + 77856768) * r),
)


def best_of(run: Callable[[], Any], repeats: int = 5) -> float:
    """The least seconds of some runs: what the code takes when nothing else disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def read(name: str) -> Model:
    return model_configs.read(f"catalogue:{name}")


def rates(points: int) -> None:
    """Points a second: of bare numpy, of the form on the same arrays, and of a whole sweep with its columns."""
    rng = np.random.default_rng(0)
    tokens, requests = rng.integers(1, 131072, points), rng.integers(1, 256, points)
    print(f"{points:,} points{'':37} {'bare numpy':>14} {'closed form':>14}  times bare")
    for name, engine, bare in BARE:
        form = form_of(read(name), variant(engine))
        same = np.array_equal(form.bytes(tokens, requests), bare(tokens, requests))
        compare(
            f"{name.rpartition('/')[2]}, {engine}{'' if same else ': DIFFERENT BYTES'}", points,
            partial(bare, tokens, requests), partial(form.bytes, tokens, requests),
        )  # fmt: skip
    name, engine, bare = BARE[0]
    lengths, counts = np.arange(1, 131072, max(1, 131072 * 64 // points)), np.arange(1, 65)
    grid = Grid([read(name)], [variant(engine)], tuple(lengths.tolist()), tuple(counts.tolist()))
    compare(
        "a whole sweep of them, in columns", grid.points,
        lambda: bare(np.repeat(lengths, len(counts)), np.tile(counts, len(lengths))), lambda: sweep(grid).columns(),
    )  # fmt: skip


def compare(text: str, points: int, bare: Callable[[], Any], own: Callable[[], Any]) -> None:
    """One line: both rates, and how much longer ours takes. Runs alternate, so that both meet the same machine."""
    times = [(best_of(bare, 1), best_of(own, 1)) for _ in range(7)]
    theirs, ours = (min(column) for column in zip(*times, strict=True))
    print(f"{text:50} {points / theirs:>14,.0f} {points / ours:>14,.0f}  {ours / theirs:.2f}")


def plans(count: int) -> None:
    """`count` plans over every model of the catalogue and every known GPU, with a bar."""
    models = [read(entry.id) for entry in catalogue.entries()]
    cards = gpus()
    each = max(1, round(count / (len(models) * len(cards))))
    tokens = tuple(1024 << i for i in range(each))
    grid = Grid(models, [variant("vllm")], tokens, (1,), cards)
    start = time.perf_counter()
    table = sweep(grid, budget=cache_budget, progress=Bar())
    taken = time.perf_counter() - start
    sys.stderr.write("\n")
    columns = table.columns()
    print(
        f"{len(table):,} plans of {len(models)} models on {len(cards)} GPUs in {taken:.1f} s, {len(table) / taken:,.0f} a second"
    )
    print(f"{int(columns['fits'].sum()):,} fit, {int((columns['cache_bytes'] < 0).sum()):,} are refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000, help="points of each rate")
    parser.add_argument("--plans", type=int, default=100_000, help="plans over the catalogue and all GPUs, 0 for none")
    asked = parser.parse_args()
    rates(asked.points)
    if asked.plans:
        plans(asked.plans)


if __name__ == "__main__":
    main()
