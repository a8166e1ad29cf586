"""TensorRT-LLM's start-up text, from the paste to the verdict: the trial told from the cache, blocks, and the budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.units import GIB
from tests.logs.checked import GOLDEN, check, entries, figures, model_of, said
from tests.logs.paged_text import text as written
from tests.logs.wrapped import WRAPPERS
from validation import coverage_logs
from validation.logs import explain, read

LOGS = entries("tensorrt-llm")
TWO = """\
[TensorRT-LLM] TensorRT-LLM version: 1.2.0
[03/01/2026-10:00:00] [TRT-LLM] [I] max_tokens is set by kv_cache_config.max_tokens: 8224
[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 257 [window size=8224], tokens per block=32, primary blocks=257
[TensorRT-LLM][INFO] Number of tokens per block: 32.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224).
[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 257 [window size=8224], tokens per block=32, primary blocks=1444
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 3.17 GiB for max tokens in paged KV cache (46208).
[03/01/2026-10:00:09] [TRT-LLM] [I] Setting PyTorch memory fraction to 0.14 (11.20 GiB)
"""


@pytest.mark.parametrize("name", LOGS)
def test_rows_of_public_logs(name: str) -> None:
    entry = LOGS[name]
    log, found = check(written(entry, figures(entry)), model=model_of(entry))
    assert log.engine == "tensorrt-llm"
    assert found.agrees, [line for line in found.lines if not line.agrees]
    if "kv_gib" in entry["printed"]:
        assert log.figures["kv_bytes"] == pytest.approx(entry["printed"]["kv_gib"] * GIB)
    if "blocks" in entry["printed"]:
        assert log.figures["primary_blocks"] == entry["printed"]["blocks"]
        assert "rounded up" in said(found)


def test_every_row_with_enough_data(truth: Path) -> None:
    rows = {row["id"]: row for row in coverage_logs.load(truth / "truth/sglang_trtllm_tgi_logs.yaml")}
    different = [
        name for name, entry in LOGS.items()
        if not check(written(entry, rows[name]), model=coverage_logs.model_of(GOLDEN, entry, truth / "hf_configs"))[1].agrees
    ]  # fmt: skip
    assert different == []


def test_the_trial_is_not_the_cache() -> None:
    """gpt-oss-120b: 36 layers x 2 x 8 x 64 x 2 B = 73,728 B; 8,224 of them 0.56 GiB and 46,208, 1,444 blocks of 32, 3.17 GiB."""
    log, found = check(TWO, model="catalogue:openai/gpt-oss-120b")
    assert (log.figures["trial_kv_tokens"], log.figures["kv_tokens"]) == (8224, 46208)
    assert found.agrees
    assert {"trial_kv_bytes", "kv_bytes", "kv_tokens"} <= {line.name for line in found.lines}
    assert "the last replaces the first" in said(found)
    assert "says nothing of the cache" in said(found)
    assert "36 layers x 8 heads x (64 + 64) in bfloat16 = 2,048 B, 73,728 B with all layers" in said(found)


def test_a_trial_alone_is_told_by_the_setting() -> None:
    """A setting of 100,000 tokens stands above a cache of 2,080: max_num_tokens 2,048 and a block, the profiler's own."""
    text = (
        "max_num_tokens: 2048\nkv_cache_config:\n  max_tokens: 100000\ntrtllm-serve openai/gpt-oss-20b --max_batch_size 8\n"
        "[03/01/2026-10:00:00] [TRT-LLM] [I] max_tokens is set by kv_cache_config.max_tokens: 2080\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.10 GiB for max tokens in paged KV cache (2080).\n"
    )
    log, found = check(text)
    assert log.model == "openai/gpt-oss-20b"
    assert found.agrees
    # 24 layers x 2 x 8 x 64 x 2 B = 49,152 B, of which 100,000 are 4.58 GiB.
    assert "trial cache" in said(found)
    assert "2,080 = max_num_tokens 2,048 and one block" in said(found)
    assert "100,000 would be 4.58 GiB" in said(found)


def test_the_profilers_budget() -> None:
    """(139.81 - 91.46 + 0.00) x 0.85 = 41.10 GiB; 61 x 576 B = 35,136 B a token. Source: a test of TensorRT-LLM."""
    text = (
        "[03/01/2026-10:00:00] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 91.46 GiB, available"
        " KV cache memory when calculating max tokens: 41.10 GiB, fraction is set 0.85, kv size is 35136. device total memory"
        " 139.81 GiB, , tmp kv_mem 0.00 GiB\n"
    )
    log, found = check(text + "model='deepseek-ai/DeepSeek-R1', tensor_parallel_size=8, kv_cache_dtype='fp8'\n")
    assert log.settings["free_gpu_memory_fraction"] == 0.85
    by_name = {line.name: line for line in found.lines}
    assert by_name["budget_bytes"].agrees
    assert by_name["bytes_per_token"].agrees
    assert by_name["bytes_per_token"].ours == 61 * 576


def test_the_old_engines_exact_bytes() -> None:
    """Llama 2 7B: 132,608 tokens x 2 x 32 x 32 x 128 x 2 B. Source: TensorRT-LLM issue 1400."""
    text = (
        "[TensorRT-LLM][INFO] Max tokens in paged KV cache: 132608. Allocating 69524783104 bytes.\n"
        "[TensorRT-LLM][INFO] Using 132608 tokens in paged KV cache.\n"
    )
    _, found = check(text, model="catalogue:meta-llama/Llama-2-7b-hf")
    assert found.agrees
    assert found.lines[0].ours == 69_524_783_104


def test_without_a_model_its_row_is_narrowed_down() -> None:
    """The row lies between the ends of the print's rounding, 3.165 and 3.175 GiB over 46,208 tokens."""
    log, found = check(TWO.replace("46208", "46176").replace("1444", "1443"))
    assert log.figures["kv_tokens"] == 46_176
    assert found.lines
    assert all(line.agrees for line in found.lines if line.name == "kv_tokens")


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped(name: str) -> None:
    plain, log = read(TWO), read(WRAPPERS[name](TWO))
    assert log.figures == plain.figures
    assert explain(log, model="catalogue:openai/gpt-oss-120b").agrees
