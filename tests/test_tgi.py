"""TGI by its documented rules: no log prints what its memory rule starts from, so nothing here is called exact."""

from __future__ import annotations

from typing import Any

import pytest

import model_configs
import planner
from planner.engines import tgi
from planner.model import Model
from planner.units import GIB
from validation import coverage_logs

GOLDEN = coverage_logs.load(coverage_logs.GOLDEN)
LOGS = {name: entry for name, entry in GOLDEN["logs"].items() if entry["engine"] == "tgi"}
Settings = tgi.Settings


def described(name: str) -> Model:
    return coverage_logs.model_of(GOLDEN, {"model": name})


@pytest.mark.parametrize("name", LOGS)
def test_printed_figures(name: str) -> None:
    assert [figure for figure in coverage_logs.compare(GOLDEN, LOGS[name]) if not figure.agrees] == []


@pytest.mark.parametrize(
    ("version", "budget"),
    [("0.9.4", 60), ("1.4.1", 57), ("2.3.0", 57), ("2.4.0", 54), ("3.0.0", 55), ("3.1.0", 53), ("3.2.3", 53), ("3.3.7", 50)],
)
def test_share_that_is_kept_by_version(version: str, budget: int) -> None:
    """60 of 100 GiB free: a share of the free memory up to 2.4, the rest of a share of the card from 3.0."""
    assert tgi.kv_budget_bytes(Settings(version=version), 60 * 100, 100 * 100) == pytest.approx(budget * 100, abs=1)
    assert tgi.kv_budget_bytes(Settings(version=version), 60 * 100, 100 * 100, 7) == pytest.approx(budget * 100 + 7, abs=1)


def test_fraction_of_the_card() -> None:
    assert tgi.kv_budget_bytes(Settings(cuda_memory_fraction=0.8), 6000, 10000) == pytest.approx(6000 - 2800, abs=1)
    assert tgi.kv_budget_bytes(Settings(version="1.0.0", cuda_memory_fraction=0.8), 6000, 10000) == pytest.approx(4000, abs=1)


@pytest.mark.parametrize(
    ("model", "settings", "gpu", "attention", "block"),
    [
        ("llama-3.1-8b", {}, None, "flashinfer", 1),
        ("deepseek-v3", {}, None, "flashdecoding", 256),
        ("llama-3.1-8b", {"version": "2.2.0"}, None, "paged", 16),
        ("llama-3.1-8b", {}, "mi300x", "paged", 16),
        ("qwen2.5-0.5b", {}, "a100", "flashinfer", 1),
        ("llama-3.1-8b", {"attention": "flashdecoding"}, None, "flashdecoding", 256),
    ],
)
def test_block_size_by_attention(model: str, settings: dict[str, Any], gpu: str | None, attention: str, block: int) -> None:
    details = tgi.pool(described(model), Settings(**settings), 40 * GIB, gpu=gpu).details
    assert (details["attention"], details["block_size"], details["confidence"]) == (attention, block, "documented")


def test_old_cards_use_paged_attention_for_odd_heads() -> None:
    config = {"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32}
    model = model_configs.read(config)
    assert tgi.pool(model, None, GIB, gpu="t4").details["attention"] == "paged"
    assert tgi.pool(model, None, GIB, gpu="a100").details["attention"] == "flashdecoding"


def test_windows_reserve_less_before_3_2_1_alone() -> None:
    config = {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
              "num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 32768}  # fmt: skip
    model = model_configs.read(config)
    old, new = (tgi.cache_bytes(model, Settings(version=v), tokens=10_000).total_bytes for v in ("3.2.0", "3.2.1"))
    assert (old, new) == (4096 * 131072, 10_000 * 131072)
    mixed = described("gpt-oss-120b")
    assert tgi.cache_bytes(mixed, Settings(version="3.2.0"), tokens=10_000).total_bytes == 10_000 * 73728


def test_requests_reserve_their_whole_length() -> None:
    """Block 0 is kept, speculation adds its tokens, and requests at once are whole reservations."""
    model = described("llama-3.1-8b")
    pool = tgi.pool(model, Settings(attention="paged", max_total_tokens=1000, speculate=3), 64 * 16 * 131072)
    assert (pool.num_blocks, pool.details["usable_blocks"], pool.blocks_per_request) == (64, 63, 63)
    assert pool.fits
    assert not tgi.pool(model, Settings(attention="paged", max_total_tokens=1020), 64 * 16 * 131072).fits
    solved = tgi.pool(model, None, 64 * 131072)
    assert (solved.max_model_len, solved.fits) == (63, True)
    assert not tgi.pool(model, None, 0).fits


@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        ("llama-3.1-8b", {"num_shard": 16}, "does not repeat KV heads"),
        ("qwen2.5-0.5b", {"num_shard": 4}, "14 attention heads"),
        ("llama-3.1-8b", {"kv_cache_dtype": "fp8_e5m2", "attention": "flashdecoding"}, "cannot read"),
        ("granite-4.0-h-micro", {}, "state cache"),
        ("deepseek-v3.2", {}, "indexed cache"),
        ("whisper-large-v3", {}, "cross cache"),
    ],
)
def test_refusals_say_why(model: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(planner.EngineRefusal, match=reason):
        tgi.pool(described(model), Settings(**settings), 40 * GIB)


def test_dtypes_prefill_and_command() -> None:
    model = described("llama-3.1-8b")
    assert tgi.cache_bytes(model, Settings(kv_cache_dtype="fp8_e4m3fn"), tokens=10).total_bytes == 655360
    assert "documented" in str(tgi.cache_bytes(model, None, tokens=10).rule)
    assert tgi.prefill_tokens(Settings(version="2.4.0", max_input_tokens=4095)) == 4145
    assert tgi.prefill_tokens(Settings(max_input_tokens=4095)) is None
    assert tgi.fallback_total_tokens(Settings(max_total_tokens=20_000)) == 20_000
    assert tgi.launch_command(model, Settings(num_shard=2, attention="paged")).startswith("ATTENTION=paged ")
    text = {"model_type": "mllama_text_model", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 32,
            "num_key_value_heads": 8, "cross_attention_layers": [3]}  # fmt: skip
    vision = {"model_type": "mllama", "text_config": text}
    found = tgi.cache_bytes(model_configs.read(vision), None, tokens=10, encoder_tokens=100)
    assert "outside the pool" in found.warnings[0]


def test_a_budget_below_zero_is_what_is_missing() -> None:
    """5 of 100 free and a tenth kept are 5 missing; memory that is already missing is not scaled by the tenth."""
    assert tgi.kv_budget_bytes(Settings(), 500, 10000) == -500
    assert tgi.kv_budget_bytes(Settings(version="2.4.0"), -1000, 10000) == -1000
    assert tgi.kv_budget_bytes(Settings(version="1.0.0", cuda_memory_fraction=0.5), 2000, 10000) == -3000
    # The blocks of a warm-up that ran are there.
    assert tgi.kv_budget_bytes(Settings(), 500, 10000, 7) == 7
    pool = tgi.pool(described("llama-3.1-8b"), None, -500)
    assert (pool.fits, pool.num_blocks, pool.max_concurrency) == (False, 0, 0.0)


def test_a_card_itself_or_an_amount_of_memory() -> None:
    """40 GiB of 131,072 bytes a token are 327,680 blocks of one token; an old card's own backend has blocks of 256."""
    model = described("llama-3.1-8b")
    for card in ("96 GiB", planner.hardware.gpu("96 GiB"), planner.hardware.gpu("h100"), None):
        assert tgi.pool(model, None, 40 * GIB, gpu=card).num_blocks == 327_680
    with pytest.raises(planner.InputError, match="no accelerator is called"):
        tgi.pool(model, None, GIB, gpu="h1000")
