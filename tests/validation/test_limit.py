"""The frontier: a real limit on the CPU, its search and recovery, and the CUDA path with a device that only pretends."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import model_configs
from planner.engines import transformers
from planner.errors import InputError
from planner.units import GIB, MIB
from validation import measure, measure_limit
from validation.measure_memory import Reading
from validation.predict import Case, largest
from validation.progress import Progress
from validation.request import Request

#: 16 KiB of cache a token, so that the cache and not activations meets the limit.
WIDE = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 128, "intermediate_size": 64, "vocab_size": 100, "torch_dtype": "float32"}  # fmt: skip


def test_the_frontier_under_a_real_limit_is_the_planners(tmp_path: Path) -> None:
    """A child process with 32 MiB more than it had mapped generates until an allocation fails, and generates again."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(WIDE), "utf-8")
    wanted = Request(
        str(path), device="cpu", dtype="float32", grid={"batch": (1,), "tokens": (16,), "new": (4,)}, find_limit="tokens",
        limit=32 * MIB, threads=1,
    )  # fmt: skip
    *_, report = measure.run(wanted, Progress("none"))
    found = report.frontier
    assert found is not None
    assert found.recovered
    assert report.agrees, found.text
    assert any(not attempt.ran for attempt in found.attempts)
    assert all(attempt.error for attempt in found.attempts if not attempt.ran)
    # 16 KiB a token: 32 MiB hold 2,048 tokens of cache and nothing else.
    assert 1400 < found.measured < 2048


def _pretend(most: int) -> measure_limit.Try:
    def attempt(value: int) -> tuple[bool, int | None, str | None]:
        return (True, value * 10, None) if value <= most else (False, None, "out of memory")

    return attempt


@pytest.mark.parametrize("most", [90, 100, 113, 150, 700])
def test_the_search_ends_within_a_step_of_the_largest_that_runs(most: int) -> None:
    found = measure_limit.search(_pretend(most), 100, 5, "tokens", 1, 1000, "a limit", 64, Progress("none"))
    assert most - found.step < found.measured <= most
    assert found.recovered
    assert found.step == 4


def test_a_limit_below_the_smallest_is_refused() -> None:
    with pytest.raises(InputError, match="say a larger --limit"):
        measure_limit.search(_pretend(3), 100, 5, "tokens", 1, 1000, "a limit", 64, Progress("none"))


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_only_what_says_so_is_out_of_memory(error: BaseException, out: bool) -> None:
    assert measure_limit.ran_out(error) is out


def test_the_cuda_path_sets_the_fraction_recovers_and_lifts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pretended 80 GiB device with 16 GiB of weights, limited to 24: the frontier is that of 8 GiB."""
    model = model_configs.read("catalogue:meta-llama/Llama-3.1-8B")
    settings, case = transformers.Settings(dtype="bfloat16"), Case(1, 512, 8)
    most = largest(model, settings, Case(1, 512, 8, chunk=512), 8 * GIB, "tokens")
    fractions, emptied, tokens = [], [], []

    def generate(built: Any, settings: Any, batch: int, prompt: int, new: int, encoder: int, chunk: int, **more: Any) -> Any:
        tokens.append(prompt + new - 1)
        assert chunk == 512
        if tokens[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")
        return SimpleNamespace(reading=Reading(before=16 * GIB, prefill_peak=17 * GIB, decode_peak=18 * GIB))

    monkeypatch.setattr(measure_limit, "generate", generate)
    for name, value in {
        "mem_get_info": lambda device: (60 * GIB, 80 * GIB),
        "memory_allocated": lambda device: 16 * GIB,
        "memory_reserved": lambda device: 17 * GIB,
        "empty_cache": lambda: emptied.append(1),
        "set_per_process_memory_fraction": lambda fraction, device: fractions.append(fraction),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    built = SimpleNamespace(model=SimpleNamespace(device=torch.device("cuda", 0)))
    wanted = Request("x", find_limit="tokens", limit=24 * GIB)
    found = measure_limit.on_cuda(wanted, built, model, settings, case, Progress("none"))  # type: ignore[arg-type]
    assert fractions == [24 / 80, 1.0]
    assert found.limit_bytes == 8 * GIB
    assert found.predicted == most
    assert found.agrees(0.1)
    assert found.recovered
    assert len(emptied) > len(tokens)
    # 131,072 bytes a token (32 layers x 2 x 8 heads x 128 x 2 bytes), so 8 GiB hold at most 65,536 tokens.
    assert 40_000 < found.measured < 65_536


def test_an_error_that_is_no_lack_of_memory_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def generate(*given: Any, **more: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(measure_limit, "generate", generate)
    built = SimpleNamespace(model=SimpleNamespace(device=torch.device("cpu")))
    attempt = measure_limit._try(built, transformers.Settings(), Case(1, 16, 4), "tokens")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="shapes"):
        attempt(16)
