"""How fast sweeps are: points a second against bare numpy, and plans over the whole catalogue and every GPU.

    python -m benchmarks.sweep [--points N] [--plans N]

Prints figures of this machine; nothing is asserted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import model_configs
from model_configs import catalogue
from planner.hardware import gpus
from planner.model import Model
from planner.sweep import Grid, form_of, sweep
from planner.sweep_variants import variant

#: A model of each kind of arithmetic: full attention, windows, latent, states beside attention, encoder and decoder.
MODELS = (
    "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct",
)  # fmt: skip
ENGINES = ("architecture", "transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp")
_BLOCK, _PAGE_BYTES = 16, 16 * 131072


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
    """Points a second of bare numpy, of each engine's form on arrays, and of a whole sweep with its columns."""
    rng = np.random.default_rng(0)
    tokens, requests = rng.integers(1, 131072, points), rng.integers(1, 512, points)

    def bare() -> Any:
        return -(-tokens // _BLOCK) * requests * _PAGE_BYTES

    seconds = best_of(bare)
    print(f"{'':44} {'points/s':>14}  of bare numpy's time")
    print(f"{'bare numpy, one group of blocks':44} {points / seconds:>14,.0f}  1.0")
    for name in MODELS:
        model = read(name)
        for engine in ENGINES:
            try:
                form = form_of(model, variant(engine))
            except model_configs_errors() as refused:
                print(f"{name.rpartition('/')[2] + ', ' + engine:44} {'refused':>14}  {refused.message[:60]}")
                continue
            taken = best_of(lambda form=form: form.bytes(tokens, requests), 3)
            print(f"{name.rpartition('/')[2] + ', ' + engine:44} {points / taken:>14,.0f}  {taken / seconds:.1f}")
    grid = Grid([read(MODELS[0])], [variant("vllm")], tuple(range(1, 131072, max(1, 131072 * 64 // points))), tuple(range(1, 65)))
    each_t = np.repeat(np.array(grid.tokens), len(grid.requests))
    each_r = np.tile(np.array(grid.requests), len(grid.tokens))
    seconds = best_of(lambda: -(-each_t // _BLOCK) * each_r * _PAGE_BYTES, 3)
    for text, run in (("sweep", lambda: sweep(grid)), ("sweep and its columns", lambda: sweep(grid).columns())):
        taken = best_of(run, 3)
        print(f"{text + f' of {grid.points:,} points, vllm':44} {grid.points / taken:>14,.0f}  {taken / seconds:.1f}")


def model_configs_errors() -> type[Any]:
    from planner.errors import PlannerError

    return PlannerError


def plans(count: int) -> None:
    """`count` plans over every model of the catalogue and every known GPU, with a bar."""
    models = [read(entry.id) for entry in catalogue.entries()]
    cards = gpus()
    each = max(1, round(count / (len(models) * len(cards))))
    tokens = tuple(1024 << i for i in range(each))
    grid = Grid(models, [variant("vllm")], tokens, (1,), cards)
    start = time.perf_counter()

    def bar(done: int, total: int) -> None:
        width = 40 * done // total
        sys.stderr.write(f"\r[{'#' * width:40}] {done:,} of {total:,} plans, {time.perf_counter() - start:.0f} s")
        sys.stderr.flush()

    table = sweep(grid, budget=free_bytes, progress=bar)
    taken = time.perf_counter() - start
    sys.stderr.write("\n")
    columns = table.columns()
    print(f"{len(table):,} plans of {len(models)} models on {len(cards)} GPUs in {taken:.1f} s, {len(table) / taken:,.0f} a second")
    print(f"{int(columns['fits'].sum()):,} fit, {int((columns['cache_bytes'] < 0).sum()):,} are refused")


def free_bytes(model: Model, engine: str, settings: Any, card: Any) -> int:
    from planner.budget import budget

    return budget(model, engine, settings, card).kv_bytes


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
