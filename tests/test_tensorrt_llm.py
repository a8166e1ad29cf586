"""TensorRT-LLM against printed figures of public logs, worked checks of all three engines, and reported cases."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engines import tensorrt_llm
from planner.model import Model
from planner.units import GIB, ceil_div
from validation import coverage_logs

GOLDEN = coverage_logs.load(coverage_logs.GOLDEN)
LOGS = {name: entry for name, entry in GOLDEN["logs"].items() if entry["engine"] == "tensorrt-llm"}
CASES = GOLDEN["cases"]
Settings = tensorrt_llm.Settings


def described(name: str) -> Model:
    return coverage_logs.model_of(GOLDEN, {"model": name})


@pytest.mark.parametrize("name", LOGS)
def test_printed_figures(name: str) -> None:
    assert [figure for figure in coverage_logs.compare(GOLDEN, LOGS[name]) if not figure.agrees] == []


@pytest.mark.parametrize("check", GOLDEN["checks"], ids=lambda check: check["what"])
def test_worked_checks_of_all_engines(check: dict[str, Any]) -> None:
    model = described(check["model"])
    for name, settings in check["engines"].items():
        engine = planner.engine(name)
        cache = engine.cache_bytes(model, engine.Settings(**settings), tokens=check["tokens"])
        if "slots" in check:
            assert {part.positions for layer in cache.layers for part in layer.parts} == {check["slots"]}, name
        else:
            assert cache.total_bytes == check["per_token"] * check["tokens"], name
    for name, settings in check.get("refused", {}).items():
        engine = planner.engine(name)
        with pytest.raises(planner.EngineRefusal):
            engine.cache_bytes(model, engine.Settings(**settings), tokens=check["tokens"])


def test_case_51_bytes_of_the_pool() -> None:
    case = CASES[51]
    settings = Settings(**case["settings"], max_tokens=case["tokens"])
    assert tensorrt_llm.pool(described(case["model"]), settings, coverage_logs.AMPLE).details["pool_bytes"] == case["bytes"]


def test_case_52_blocks_round_up_in_the_engine_backend() -> None:
    case = CASES[52]
    settings = Settings(**case["settings"])
    budget = tensorrt_llm.kv_budget_bytes(settings, int(case["available_gib"] * GIB))
    pool = tensorrt_llm.pool(described(case["model"]), settings, budget)
    assert pool.num_blocks == case["blocks"]
    assert round(pool.details["pool_bytes"] / GIB, 2) == case["gib"]
    assert budget < pool.details["pool_bytes"] < budget + pool.bytes_per_block


def test_case_53_the_printed_tokens_are_before_rounding() -> None:
    case = CASES[53]
    pool = tensorrt_llm.pool(described(case["model"]), Settings(**case["settings"]), case["tokens_before_rounding"] * 524288)
    assert pool.tokens == case["tokens"]


def test_case_54_the_cross_pool_is_shorter_than_the_encoder() -> None:
    case = CASES[54]
    model, held = described(case["model"]), {}
    cache = tensorrt_llm.cache_bytes(
        model, Settings(tokens_per_block=4), tokens=case["self_positions"], encoder_tokens=case["cross_positions"]
    )
    for layer in cache.layers:
        for part in layer.parts:
            held[part.kind] = held.get(part.kind, 0) + part.bytes
    assert held == {"full": case["self_bytes"], "cross": case["cross_bytes"]}
    assert f"{case['cross_pool']:,}" in cache.warnings[0]
    assert not tensorrt_llm.cache_bytes(model, Settings(max_input_len=1500), encoder_tokens=1500).warnings
    whole = tensorrt_llm.cache_bytes(model, Settings(), tokens=448, encoder_tokens=1500)
    assert whole.total_bytes == 32 * 2 * 20 * 64 * 2 * (448 + 32 * ceil_div(1500, 32))


def test_encoder_decoder_pools_share_the_budget() -> None:
    model = described("whisper-large-v3")
    pool = tensorrt_llm.pool(model, Settings(backend="tensorrt", cross_kv_cache_fraction=0.5), GIB)
    row = 32 * 2 * 20 * 64 * 2
    assert pool.num_blocks == ceil_div(GIB // 2 // row, 32)
    assert pool.details["cross_blocks"] == GIB // 2 // (row * 32)
    assert pool.max_concurrency == pool.details["cross_blocks"] / 47
    for settings, reason in (({"backend": "tensorrt"}, "cross_kv_cache_fraction"), ({}, "does not estimate")):
        with pytest.raises(planner.EngineRefusal, match=reason):
            tensorrt_llm.pool(model, Settings(**settings), GIB)


def test_windows_have_pools_of_their_own() -> None:
    """From 1.2 of equal shares, in 0.20 by window x bytes, before in one pool; a window holds a block more once it moves."""
    model, budget = described("gpt-oss-120b"), 20 * GIB
    listed: dict[str, Any] = {"max_attention_window": [128, 131072]}
    pool = tensorrt_llm.pool(model, Settings(**listed), budget)
    row = 18 * 2 * 8 * 64 * 2
    assert pool.details["blocks_per_window"] == {128: budget // 2 // row // 32, 131072: budget // 2 // row // 32}
    shared = tensorrt_llm.pool(model, Settings(version="0.20.0", **listed), budget).details["blocks_per_window"]
    assert shared[131072] == budget * 131072 // (131072 + 128) // row // 32
    assert tensorrt_llm.pool(model, Settings(version="0.19.0", **listed), budget).details["bytes_per_token"] == 2 * row
    cache = tensorrt_llm.cache_bytes(model, Settings(**listed), tokens=10_000)
    assert [part.positions for layer in cache.layers[:2] for part in layer.parts] == [160, 10_016]


def test_states_are_kept_for_the_whole_batch() -> None:
    """One slot for each of max_batch_size: conv in the model's dtype, recurrence in float32, off the budget first."""
    model, budget = described("granite-4.0-h-micro"), 10 * GIB
    slot = 36 * (4352 * 3 * 2 + 64 * 64 * 128 * 4)
    pool = tensorrt_llm.pool(model, Settings(max_batch_size=64), budget)
    assert pool.details["state_bytes"] == 64 * slot
    assert pool.num_blocks == (budget - 64 * slot) // 8192 // 32
    assert tensorrt_llm.cache_bytes(model, Settings(), tokens=32, requests=2).total_bytes == 2 * (32 * 8192 + slot)
    half = Settings(mamba_ssm_cache_dtype="bfloat16", tensor_parallel_size=2)
    assert tensorrt_llm.cache_bytes(model, half, tokens=0).total_bytes == 36 * (2176 * 3 * 2 + 32 * 64 * 128 * 2)
    assert "max_batch_size" in tensorrt_llm.pool(model, Settings(), budget).warnings[0]
    spec = Settings(max_draft_len=3, max_batch_size=4)
    assert tensorrt_llm.pool(model, spec, budget).details["state_bytes"] == 4 * 5 * slot


def test_ranks_stages_and_drafts() -> None:
    model = described("llama-3.1-8b")
    alone = Settings(tensor_parallel_size=8, enable_attention_dp=True)
    assert tensorrt_llm.cache_bytes(model, alone, 32).total_bytes == 32 * 131072
    assert tensorrt_llm.cache_bytes(model, Settings(pipeline_parallel_size=3), 32).total_bytes == 32 * 11 * 4096
    pool = tensorrt_llm.pool(model, Settings(pipeline_parallel_size=3), GIB)
    assert pool.bytes_per_block_by_stage == (32 * 11 * 4096, 32 * 11 * 4096, 32 * 10 * 4096)
    draft = tensorrt_llm.pool(model, Settings(num_nextn_predict_layers=1), GIB)
    assert draft.bytes_per_block == 32 * 33 * 4096
    sink = tensorrt_llm.cache_bytes(model, Settings(sink_token_length=4), tokens=32)
    assert sink.total_bytes == 64 * 131072


def test_budget_of_what_is_left() -> None:
    assert tensorrt_llm.available_bytes(100, 30, 20, 5) == 55
    assert tensorrt_llm.kv_budget_bytes(Settings(), 100) == 90
    assert tensorrt_llm.kv_budget_bytes(Settings(max_gpu_total_bytes=50), 100) == 50
    assert tensorrt_llm.pool(described("llama-3.1-8b"), Settings(host_cache_size=GIB), GIB).details["secondary_blocks"] == 256


def test_index_keys_before_they_had_a_pool() -> None:
    """Before 1.2 they were counted at 64 tokens a block: twice as many at 32."""
    model = described("deepseek-v3.2")
    found = {
        (v, block): tensorrt_llm.cache_bytes(model, Settings(version=v, tokens_per_block=block), tokens=64).total_bytes / 64 / 61
        for v in ("1.1.0", "1.2.0")
        for block in (32, 64)
    }
    assert found == {("1.1.0", 32): 1416, ("1.1.0", 64): 1284, ("1.2.0", 32): 1284, ("1.2.0", 64): 1284}


@pytest.mark.parametrize(
    ("model", "settings", "gpu", "reason"),
    [
        ("qwen2.5-0.5b", {"tensor_parallel_size": 4}, None, "14 attention heads"),
        ("llama-3.1-8b", {"kv_cache_dtype": "fp8"}, "a100", "sm89"),
        ("llama-3.1-8b", {"kv_cache_dtype": "nvfp4"}, "h100", "sm100"),
        ("llama-3.1-8b", {"kv_cache_dtype": "int8"}, None, "int8"),
        ("llama-3.1-8b", {}, "mi300x", "NVIDIA"),
        ("llama-3.1-8b", {"cross_kv_cache_fraction": 0.5}, None, "no cross attention"),
        ("deepseek-v3.2", {"version": "0.20.0"}, None, "sparse attention"),
        ("lfm2-700m", {}, None, "short_conv"),
    ],
)
def test_refusals_say_why(model: str, settings: dict[str, Any], gpu: str | None, reason: str) -> None:
    with pytest.raises(planner.EngineRefusal, match=reason):
        tensorrt_llm.pool(described(model), Settings(**settings), 50 * GIB, gpu=gpu)


def test_settings_and_command() -> None:
    model = described("llama-3.1-8b")
    assert Settings(tp_size=2, max_model_len=5).max_seq_len == 5
    with pytest.raises(planner.InputError, match="power of two"):
        tensorrt_llm.cache_bytes(model, Settings(tokens_per_block=48), tokens=1)
    text = tensorrt_llm.launch_command(model, Settings(tensor_parallel_size=2, kv_cache_dtype="fp8", enable_block_reuse=False))
    assert "--tp_size 2" in text
    assert "  dtype: fp8\n  enable_block_reuse: false" in text
    assert tensorrt_llm.launch_command(model).startswith("trtllm-serve ")
    small = tensorrt_llm.pool(model, None, GIB)
    assert not small.fits
    assert "cut down" in small.warnings[0]
    assert tensorrt_llm.pool(model, Settings(max_seq_len=-1), GIB).max_model_len == 8192


def test_a_budget_below_zero_is_what_is_missing() -> None:
    """The fraction is taken of what is left: of nothing there is none, and what is missing is missing whole."""
    assert tensorrt_llm.available_bytes(100, 90, 40, 5) == -25
    assert tensorrt_llm.kv_budget_bytes(Settings(), -25) == -25
    assert tensorrt_llm.kv_budget_bytes(Settings(max_gpu_total_bytes=50), -25) == -25
    assert tensorrt_llm.kv_budget_bytes(Settings(), 25) == 22
    pool = tensorrt_llm.pool(described("llama-3.1-8b"), Settings(), -25)
    assert (pool.fits, pool.num_blocks, pool.tokens) == (False, 0, 0)


def test_a_card_itself_or_an_amount_of_memory() -> None:
    """40 GiB of 131,072 bytes a token are 327,680 tokens, whatever the card is called."""
    model = described("llama-3.1-8b")
    for card in ("96 GiB", planner.hardware.gpu("96 GiB"), planner.hardware.gpu("h100"), None):
        assert tensorrt_llm.pool(model, None, 40 * GIB, gpu=card).tokens == 327_680
    with pytest.raises(planner.EngineRefusal, match="NVIDIA cards alone"):
        tensorrt_llm.pool(model, None, 40 * GIB, gpu=planner.hardware.gpu("mi300x"))
