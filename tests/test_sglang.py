"""SGLang against printed figures of public logs, worked checks, reported cases, and its own laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import model_configs
import planner
from planner.engines import sglang
from planner.engines.versions import rules_at, version_key
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.units import GIB
from validation import coverage_logs

GOLDEN = coverage_logs.load(coverage_logs.GOLDEN)
LOGS = {name: entry for name, entry in GOLDEN["logs"].items() if entry["engine"] == "sglang"}
CASES = GOLDEN["cases"]


def described(name: str) -> Model:
    return coverage_logs.model_of(GOLDEN, {"model": name})


@pytest.mark.parametrize("name", LOGS)
def test_printed_figures(name: str) -> None:
    assert [figure for figure in coverage_logs.compare(GOLDEN, LOGS[name]) if not figure.agrees] == []


def test_every_verified_row_is_here_with_its_figures(truth: Path) -> None:
    """Each verified row of the full set is compared, in all its figures but those set aside with a reason."""
    for row in coverage_logs.load(truth / "truth/sglang_trtllm_tgi_logs.yaml"):
        if not row["verified"]:
            continue
        entry = GOLDEN["logs"][row["id"]]
        named = {**entry["printed"], **entry.get("set_aside", {})}
        missing = set(row["reported"]) - set(named) - {"kv_tokens"} - _inputs(entry)
        assert not missing, (row["id"], missing)
        assert {key: row["reported"][key] for key in entry["printed"]} == entry["printed"], row["id"]
        figures = coverage_logs.compare(GOLDEN, entry, truth / "hf_configs")
        assert [figure for figure in figures if not figure.agrees] == [], row["id"]


def test_tallies_of_the_documents(truth: Path) -> None:
    """Nothing that is compared differs, and every other row has its reason."""
    found = coverage_logs.tallies(truth)
    assert [text for tally in found.values() for text in tally.differ] == []
    assert {name: len(tally.compared) + len(tally.not_compared) for name, tally in found.items()} == {
        name: tally.rows for name, tally in found.items()
    }
    assert coverage_logs.document(found).startswith("| compared with public logs")


def _inputs(entry: dict[str, Any]) -> set[str]:
    return {"kv_tokens", "kv_tokens_fp4"} if {"max_total_tokens", "max_tokens"} & set(entry["settings"]) else set()


def test_rows_of_one_log_in_two_dtypes() -> None:
    entry = LOGS["sglang-20"]
    model, cells = described(entry["model"]), []
    for settings in (entry["settings"], entry["also"]):
        pool = sglang.pool(model, sglang.Settings(**settings), coverage_logs.AMPLE)
        assert pool.tokens == settings["max_total_tokens"]
        cells.append(pool.bytes_per_block)
    assert cells == [14336, 8064]


def test_case_19_replicated_heads_and_a_rank() -> None:
    case = CASES[19]
    cache = sglang.cache_bytes(described(case["model"]), sglang.Settings(**case["settings"]), tokens=case["tokens"])
    assert cache.total_bytes == case["per_token"] * case["tokens"]
    assert round(cache.total_bytes / GIB, 2) == case["gib"]


@pytest.mark.parametrize("number", [55, 56])
def test_cases_of_window_pools(number: int) -> None:
    case = CASES[number]
    entry = {"engine": "sglang", "model": case["model"], "settings": case["settings"], "printed": case["printed"]}
    assert [figure for figure in coverage_logs.compare(GOLDEN, entry) if not figure.agrees] == []


@pytest.mark.parametrize(
    ("version", "settings", "card", "fraction"),
    [
        ("0.2.15", {"tensor_parallel_size": 8}, 80 * GIB, 0.83),
        ("0.3.6", {"tensor_parallel_size": 8}, 80 * GIB, 0.82),
        ("0.4.3.post4", {"tensor_parallel_size": 4}, 24 * GIB, 0.85),
        ("0.4.6", {"tensor_parallel_size": 8}, 141 * GIB, (141 - 18) / 141),
        ("0.5.1", {}, 16303 * 1024**2, 0.818),
        ("0.5.8", {"tensor_parallel_size": 8, "chunked_prefill_size": 16384, "cuda_graph_max_bs": 512}, 288 * GIB, 0.908),
        ("0.5.23", {"mem_fraction_static": 0.7}, 80 * GIB, 0.7),
    ],
)
def test_default_fraction_by_era(version: str, settings: dict[str, Any], card: int, fraction: float) -> None:
    found = sglang.mem_fraction_static(described("llama-3.1-8b"), sglang.Settings(version=version, **settings), card)
    assert found == pytest.approx(fraction, abs=1e-12)


def test_later_eras_reserve_for_graphs() -> None:
    """0.5.12 sets 8 MiB aside for each captured prefill size, 1.5 GiB for MLA; the floor of 10 GiB is above both on 80 GiB."""
    model, card = described("llama-3.1-8b"), 24 * GIB
    before, after = (sglang.mem_fraction_static(model, sglang.Settings(version=v), card) for v in ("0.5.9", "0.5.12"))
    assert before > after
    plain = sglang.Settings(version="0.5.12", disable_piecewise_cuda_graph=True)
    assert sglang.mem_fraction_static(model, plain, card) == before
    dp = sglang.Settings(tensor_parallel_size=8, data_parallel_size=8, enable_dp_attention=True)
    assert sglang.mem_fraction_static(model, dp, 80 * GIB) < sglang.mem_fraction_static(model, sglang.Settings(), 80 * GIB)


def test_request_table_is_outside_the_budget() -> None:
    """2,049 rows of a 128k model are 1.0 GiB; 0.5.12 has one row more, and speculation more columns."""
    assert sglang.req_to_token_bytes(sglang.Settings(version="0.4.1"), 2049, 131072) == 2049 * 131076 * 4
    assert sglang.req_to_token_bytes(sglang.Settings(version="0.2.15"), 10, 1000) == 10 * 1008 * 4
    spec = sglang.Settings(
        speculative_algorithm="EAGLE", speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4
    )
    assert sglang.req_to_token_bytes(spec, 10, 1000, page_size=64) == 11 * (1000 + 2 * 4 + 63) * 4


def test_state_slots_by_ratio_and_the_padding_slot() -> None:
    """47.4% of the budget is for states; 0.5.20 counts the padding slot that older releases allocate on top."""
    model, budget = described("qwen3.6-27b"), 40 * GIB
    slot = 2949120 + 150994944
    old, new = (sglang.pool(model, sglang.Settings(version=v), budget).details["mamba_slots"] for v in ("0.5.15", "0.5.20"))
    assert (old, new) == (int(budget * 0.9 / 1.9 // slot), int((budget * 0.9 / 1.9 - slot) // slot))
    plain = sglang.pool(model, sglang.Settings(disable_radix_cache=True, max_running_requests=32), budget)
    assert plain.details["mamba_slots"] == 32
    spec = sglang.Settings(speculative_algorithm="EAGLE", speculative_num_draft_tokens=4, max_running_requests=8)
    assert sglang.pool(model, spec, budget).details["mamba_slots"] == int((budget * 0.9 / 1.9 - 5 * slot) // (slot * (1 + 4 / 5)))


def test_windows_by_version() -> None:
    """gpt-oss has a window pool; Gemma 3 had one between 0.4.10 and 0.5.7 and is at full length before and after."""
    gemma = sglang.cache_bytes
    config = {"model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32,
              "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024, "max_position_embeddings": 131072}  # fmt: skip
    model = model_configs.read(config)
    full = 62 * 2 * 16 * 128 * 2 * 100_000
    sizes = {v: gemma(model, sglang.Settings(version=v), tokens=100_000).total_bytes for v in ("0.4.9", "0.5.6", "0.5.9")}
    assert sizes["0.4.9"] == sizes["0.5.9"] == full > sizes["0.5.6"]
    oss = described("gpt-oss-120b")
    row = 2 * 8 * 64 * 2
    assert gemma(oss, sglang.Settings(), tokens=100_000).total_bytes == 18 * row * (100_000 + 80_000)
    assert gemma(oss, sglang.Settings(), tokens=100).total_bytes == 36 * row * 100
    assert gemma(oss, sglang.Settings(disable_hybrid_swa_memory=True), tokens=100_000).total_bytes == 36 * row * 100_000


def test_layers_without_attention_have_rows_where_the_engine_counts_layers() -> None:
    """Nemotron-NAS drops attention in some blocks; SGLang's pool has num_hidden_layers layers all the same."""
    kinds: list[dict[str, Any]] = [{"n_heads_in_group": 8}, {"no_op": True}, {"replace_with_linear": True}]
    blocks = [{"attention": kind} for kind in kinds]
    config = {"model_type": "nemotron-nas", "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 3,
              "block_configs": blocks}  # fmt: skip
    model = model_configs.read(config)
    assert sglang.cache_bytes(model, None, tokens=100).total_bytes == 3 * planner.architecture_bytes(model, 100).total_bytes
    assert planner.engine("tensorrt-llm").cache_bytes(model, None, tokens=128).total_bytes == 128 * 4096


def test_window_pool_from_requests() -> None:
    """Without the radix cache and with max_running_requests, 0.5.23 sizes the window pool from the requests."""
    settings = sglang.Settings(disable_radix_cache=True, max_running_requests=16, chunked_prefill_size=4096)
    pool = sglang.pool(described("gpt-oss-120b"), settings, 20 * GIB)
    assert pool.details["swa_tokens"] == 16 * (128 + 128 + 1 + 1) + 2 * 4096 + 1
    ratio = sglang.pool(described("gpt-oss-120b"), sglang.Settings(), 20 * GIB)
    assert pool.tokens > ratio.tokens
    assert (pool.details["confidence"], ratio.details["confidence"]) == ("documented", "exact")


def test_speculation_by_version() -> None:
    model, budget = described("llama-3.1-8b"), 20 * GIB
    spec: dict[str, Any] = {
        "speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "speculative_eagle_topk": 4,
        "speculative_num_draft_tokens": 16,
    }  # fmt: skip
    plain = budget // 131072
    old = sglang.pool(model, sglang.Settings(version="0.5.6", **spec), budget)
    assert old.tokens == plain + 48 * (3 * 4 + 16) + 100
    new = sglang.pool(model, sglang.Settings(**spec), budget)
    assert new.tokens == budget // (131072 + 131072 // 32)
    assert new.details["draft_bytes"] == (new.tokens + 1) * 4096
    draft = described("qwen3-0.6b")
    flash = sglang.Settings(speculative_algorithm="DFLASH", speculative_draft_model=draft)
    assert sglang.pool(model, flash, budget).tokens == budget // (131072 + 28 * 2 * 8 * 128 * 2)


def test_sparse_attention_follows_the_gpu() -> None:
    """`auto` is bf16 up to Hopper and raw fp8 rows on Blackwell; the page is 64."""
    model = described("deepseek-v3.2")
    assert sglang.pool(model, None, 50 * GIB, gpu="h200").bytes_per_block == 64 * 78324
    assert sglang.pool(model, None, 50 * GIB, gpu="b200").bytes_per_block == 64 * 43188
    before = sglang.pool(model, sglang.Settings(version="0.5.3"), 50 * GIB)
    assert before.tokens > sglang.pool(model, sglang.Settings(version="0.5.4"), 50 * GIB).tokens


def test_attention_replicas_and_context_ranks() -> None:
    model = described("llama-3.1-8b")
    shared = sglang.Settings(tensor_parallel_size=8, data_parallel_size=2, enable_dp_attention=True)
    assert sglang.cache_bytes(model, shared, tokens=100, requests=2).total_bytes == 100 * 131072 // 4
    ranks = sglang.Settings(tensor_parallel_size=8, dcp_size=2)
    assert sglang.cache_bytes(model, ranks, tokens=100).total_bytes == 50 * 131072 // 4


@pytest.mark.parametrize(
    ("model", "settings", "gpu", "reason"),
    [
        ("qwen2.5-0.5b", {"tensor_parallel_size": 4}, None, "14 attention heads"),
        ("llama-3.1-8b", {"kv_cache_dtype": "nvfp4"}, "h100", "sm100"),
        ("deepseek-v3.2", {"kv_cache_dtype": "fp8_e5m2"}, None, "sparse attention"),
        ("whisper-large-v3", {}, None, "encoder-decoder"),
        ("qwen3.6-27b", {"version": "0.5.1"}, None, "recurrent states"),
        ("llama-3.1-8b", {"tensor_parallel_size": 8, "data_parallel_size": 3, "enable_dp_attention": True}, None, "DP attention"),
        ("llama-3.1-8b", {"version": "0.5.9", "dcp_size": 2, "tensor_parallel_size": 2}, None, "context parallelism"),
        ("deepseek-v3", {"version": "0.2.15"}, None, "enable_mla"),
        ("llama-3.1-8b", {"pipeline_parallel_size": 64}, None, "pipeline stages"),
    ],
)
def test_refusals_say_why(model: str, settings: dict[str, Any], gpu: str | None, reason: str) -> None:
    with pytest.raises(planner.EngineRefusal, match=reason):
        sglang.pool(described(model), sglang.Settings(**settings), 50 * GIB, gpu=gpu)


def test_settings_and_versions() -> None:
    assert sglang.Settings(tp_size=4, max_model_len=100).tensor_parallel_size == 4
    with pytest.raises(planner.InputError):
        sglang.Settings(unknown=1)
    with pytest.raises(planner.InputError, match="from version"):
        sglang.cache_bytes(described("llama-3.1-8b"), sglang.Settings(version="0.1.0"), tokens=1)
    assert sglang.cache_bytes(described("llama-3.1-8b"), sglang.Settings(version="9.0"), tokens=1).warnings
    assert version_key("0.4.3.post4") > version_key("0.4.3") > version_key("0.4.3rc1")
    assert rules_at("sglang", "0.5.8.post1")["windows"] == "listed_0_5_9"
    assert "--kv-cache-dtype fp8_e4m3" in sglang.launch_command(described("qwen3-4b"), sglang.Settings(kv_cache_dtype="fp8_e4m3"))


def test_what_does_not_fit_says_so() -> None:
    model = described("llama-3.1-8b")
    pool = sglang.pool(model, sglang.Settings(context_length=100_000), GIB)
    assert not pool.fits
    assert "refuses requests" in pool.warnings[0]
    assert sglang.pool(model, None, -5).tokens == 0
    solved = sglang.pool(model, sglang.Settings(context_length=-1), GIB)
    assert solved.fits
    assert solved.max_model_len == GIB // 131072


def test_a_budget_below_zero_is_what_is_missing() -> None:
    """100 bytes free before, 40 after weights, a fraction of 0.5: 40 - 50 are -10; nothing fits into that."""
    model, settings = described("llama-3.1-8b"), sglang.Settings(mem_fraction_static=0.5)
    assert sglang.kv_budget_bytes(model, settings, 100, 40) == -10
    assert sglang.kv_budget_bytes(model, settings, 101, 40) == -11  # -10.5: supplies round down
    assert sglang.kv_budget_bytes(model, settings, 100, 80, reserved_bytes=5) == 25
    pool = sglang.pool(model, settings, -10)
    assert (pool.fits, pool.tokens, pool.max_concurrency) == (False, 0, 0.0)


def test_shortfall_of_a_model_whose_weights_fill_the_card() -> None:
    """Free 77.58 GiB of an H100 x (1 - 0.172) are 64.24; less 74.37 of weights -10.13; less 5.66 of cache -15.80."""
    plan = planner.plan(model_configs.read("Qwen/Qwen3-Next-80B-A3B-Instruct"), engine="sglang", gpu="h100", gpus=2)
    assert plan.verdict == "does_not_fit"
    assert plan.headroom_bytes / GIB == pytest.approx(-15.8, abs=0.3)
    assert plan.headroom_low < plan.headroom_bytes < plan.headroom_high < -14 * GIB
    assert plan.max_requests == 0


@pytest.mark.parametrize(("card", "concurrency"), [("96 GiB", 0.7619), ("200 GiB", 0.6095)])
def test_an_amount_of_memory_has_defaults_of_its_size(card: str, concurrency: float) -> None:
    """From 160 GiB on a prefill chunk is 16,384 tokens instead of 8,192, and the window pool keeps two chunks."""
    model, settings = described("gemma-4-e4b"), sglang.Settings(context_length=32768)
    pool = sglang.pool(model, settings, 2 * GIB, gpu=find_gpu(card))
    assert pool.max_concurrency == pytest.approx(concurrency, abs=0.0001)
    assert pool == sglang.pool(model, settings, 2 * GIB, gpu=card)
