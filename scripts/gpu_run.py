"""One lease of a GPU, spent well: `python scripts/gpu_run.py --budget 540`, the most telling runs first.

Each run is a `python -m validation` of its own, so that one that fails or runs out of time costs no other: random bf16
weights of catalogue shapes, depth cut where they would not fit. Reports go to validation/results/ as they are measured, by
the run alone; a run whose report is there and whole is not repeated, so that a lease of several commands goes on where the
last one stopped. What has no report is not yet measured.

Needs a CUDA build of torch, transformers, pydantic and pyyaml, and no network. `--device cpu --tiny` takes small shapes
instead, to see the script itself work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "validation/results"
#: A run is not begun with less left than this.
LEAST_S = 20
_TINY = {
    "hidden_size": 32, "intermediate_size": 32, "vocab_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run: its report's name, the model, and the words of the command; `limit_s` is the most that it may take."""

    name: str
    model: str
    words: tuple[str, ...] = ()
    limit_s: int = 240
    expandable: bool = False


_GRID = ("--grid", "batch=1,4", "tokens=512,4096")
_ONE = ("--grid", "batch=1", "tokens=4096")
_SHORT = ("--grid", "batch=1", "tokens=2048")
LLAMA, GEMMA, NEXT = "meta-llama/Llama-3.1-8B", "google/gemma-3-12b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct"
RUNS = (
    Run("llama-3.1-8b", LLAMA, _GRID),
    Run("llama-3.1-8b-frontier", LLAMA, (*_ONE, "--find-limit", "tokens", "--limit", "24"), 400, expandable=True),
    Run("llama-3.1-8b-speed", LLAMA, (*_ONE, "--speed"), 400),
    Run("gemma-3-12b", GEMMA, _GRID),
    Run("deepseek-v2-lite", "deepseek-ai/DeepSeek-V2-Lite", _GRID),
    Run("gpt-oss-20b", "openai/gpt-oss-20b", _GRID),
    Run("qwen3.5-9b", "Qwen/Qwen3.5-9B", _GRID),
    Run("qwen3-8b", "Qwen/Qwen3-8B", _GRID),
    Run("qwen3-next-80b-cut", NEXT, (*_GRID, "--layers", "12")),
    Run("llama-3.1-8b-static", LLAMA, (*_GRID, "--cache", "static")),
    Run("gemma-3-12b-static", GEMMA, (*_GRID, "--cache", "static")),
    Run("llama-3.1-8b-expandable", LLAMA, _GRID, expandable=True),
    Run("llama-3.1-8b-fp8", LLAMA, (*_GRID, "--cache", "quantized", "--cache-config", "backend=fp8")),
    Run("llama-3.1-8b-offloaded", LLAMA, (*_GRID, "--cache", "offloaded")),
    Run("llama-3.1-8b-requests", LLAMA, (*_SHORT, "--find-limit", "batch", "--limit", "40"), 400, expandable=True),
    Run("gemma-3-12b-frontier", GEMMA, (*_ONE, "--find-limit", "tokens", "--limit", "32"), 400, expandable=True),
    Run("gemma-3-12b-speed", GEMMA, (*_ONE, "--speed"), 400),
)
#: The same parts on small shapes of two families.
TINY_RUNS = (
    Run("tiny-llama", "llama", ("--grid", "batch=1,2", "tokens=16,32")),
    Run("tiny-frontier", "llama", ("--grid", "batch=1", "tokens=16", "--find-limit", "batch", "--limit", "0.03")),
    Run("tiny-speed", "llama", ("--grid", "batch=1", "tokens=16", "--speed", "--speed-lengths", "4,8")),
    Run("tiny-mistral", "mistral", ("--grid", "batch=1", "tokens=16,32", "--layers", "1", "--cache", "static")),
)


def command(run: Run, device: str, out: Path, tiny: bool) -> list[str]:
    """The command of a run; a tiny one's config is written beside the reports."""
    model = run.model
    if tiny:
        config = out / f".{run.model}.json"
        window = {"sliding_window": 8} if run.model == "mistral" else {}
        config.write_text(json.dumps({"model_type": run.model, **_TINY, **window}), "utf-8")
        model = str(config)
    report = out / f"{run.name}.json"
    small = ("--dtype", "float32", "--threads", "1") if tiny else ("--dtype", "bfloat16")
    return [sys.executable, "-m", "validation", model, "--device", device, *small, *run.words, "--json", str(report)]


def whole(report: Path) -> bool:
    """Whether a run has left a report of all that it was asked for."""
    try:
        return json.loads(report.read_text("utf-8")).get("partial") is False
    except (OSError, ValueError):
        return False


def spend(runs: Sequence[Run], device: str, out: Path, budget_s: float, tiny: bool) -> list[tuple[str, str, float]]:
    """Does the runs that fit into the budget, in order; says of each how it ended and how long it took."""
    started, ended = time.monotonic(), []
    for run in runs:
        left = budget_s - (time.monotonic() - started)
        if whole(out / f"{run.name}.json"):
            ended.append((run.name, "there already", 0.0))
            continue
        if left < LEAST_S:
            ended.append((run.name, "not begun: no time left", 0.0))
            continue
        print(f"\n=== {run.name}, {left:.0f} s left", flush=True)
        environment = dict(os.environ)
        if run.expandable:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        begun = time.monotonic()
        try:
            done = subprocess.run(
                command(run, device, out, tiny), cwd=ROOT, env=environment, timeout=min(left, run.limit_s), check=False
            )
            how = {0: "agrees", 1: "differs", 2: "refused", 3: "source not available"}.get(done.returncode, "failed")
        except subprocess.TimeoutExpired:
            how = "out of time; what was measured until then is in its report"
        ended.append((run.name, how, time.monotonic() - begun))
    return ended


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=1500, metavar="SECONDS", help="stop after this long (default 1500)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where reports go (default validation/results)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small shapes instead of the real ones")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these runs alone")
    arguments = parser.parse_args(argv)
    runs = [run for run in (TINY_RUNS if arguments.tiny else RUNS) if not arguments.only or run.name in arguments.only]
    if not runs:
        parser.error(f"no such run; there are {', '.join(run.name for run in (TINY_RUNS if arguments.tiny else RUNS))}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    ended = spend(runs, arguments.device, arguments.out, arguments.budget, arguments.tiny)
    print()
    for name, how, seconds in ended:
        print(f"{name:28} {seconds:6.0f} s  {how}")
    return 0 if all(how in ("agrees", "there already") for _, how, _ in ended) else 1


if __name__ == "__main__":
    sys.exit(main())
