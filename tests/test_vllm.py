"""vLLM: the full truth sets where they are, a wide extract everywhere, worked examples, and laws."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
import planner
from planner.engines import vllm
from planner.engines.base import Pool
from planner.engines.vllm_groups import stages
from planner.engines.vllm_tables import rules_of, table, unread
from planner.errors import EngineRefusal, InputError, UnsupportedArchitecture
from planner.model import Model
from planner.units import GIB
from tests.conftest import rows
from validation.coverage_vllm import Models, markdown, same_reason, settings_of
from validation.vllm_logs import check_log

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
GOLDEN: dict[str, Any] = yaml.load((Path(__file__).parent / "golden/vllm.yaml").read_text("utf-8"), Loader=_LOADER)
LOGS: list[Any] = yaml.load((Path(__file__).parent / "golden/vllm_logs.yaml").read_text("utf-8"), Loader=_LOADER)["logs"]


@cache
def golden_model(name: str) -> Model:
    return model_configs.read(GOLDEN["models"][name])


def golden_settings(given: dict[str, Any]) -> vllm.Settings:
    speculative = given.get("speculative_config")
    if speculative and speculative.get("model"):
        speculative = {**speculative, "model": golden_model("drafts/" + speculative["model"])}
        given = {**given, "speculative_config": speculative}
    return vllm.Settings(**given)


def golden_pool(name: str, gpu: str = "h200", budget: int = 20 * GIB, **settings: Any) -> Pool:
    return vllm.pool(golden_model(name), golden_settings(settings), budget_bytes=budget, gpu=gpu)


# ---------------------------------------------------------------------------------------------------------- truth


Measured = Callable[[str], Any]


def test_every_row_of_vllms_own_classes(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """fits, num_blocks, bytes_per_block, tokens and max_concurrency equal on at least 99.5% of the rows."""
    tally = measured("vllm")[0]
    assert tally.rows >= 10_000
    with capsys.disabled():
        print(f"\n{tally.line()}")
    assert tally.share >= 0.995, tally.misses[:20]


def test_every_refusal(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """At least 97% of what vLLM refuses is refused, for the same reason."""
    tally = measured("vllm")[1]
    assert tally.rows >= 400
    with capsys.disabled():
        print(f"\n{tally.line()}")
    assert tally.share >= 0.97, tally.misses[:20]


def test_every_public_log_of_stock_vllm(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """Older versions: each log that can be compared agrees within its own rounding; the others are listed."""
    tally = measured("vllm")[2]
    with capsys.disabled():
        print(f"\n{tally.line()}")
    assert not tally.misses
    assert tally.rows >= 40
    assert all(": " in text for text in tally.left_out)
    assert "no version that can be read (2026)" in markdown([tally])


def test_defaults_are_those_that_vllm_took(truth: Path) -> None:
    """Batch sizes, prefix caching and the dtype follow from the model and the GPU; the Mamba check is a warning."""
    models, seen = Models(truth / "hf_configs"), set()
    for row in rows(truth / "truth/vllm.jsonl"):
        key = (row["config_file"], row["gpu"], row["variant"], row["kv_cache_dtype"], row["max_model_len"], row["pp"])
        if row["tp"] > 1 or key in seen:
            continue
        seen.add(key)
        free: dict[str, Any] = {"dtype": "auto"}
        if not row["variant"].startswith("mnbt"):
            free |= {"max_num_batched_tokens": None, "max_num_seqs": None}
        if row["variant"] != "no_prefix_caching":
            free |= {"enable_prefix_caching": None}
        settings = settings_of(row, models).model_copy(update=free)
        pool = vllm.pool(models.get(row["config_file"]), settings, budget_bytes=row["available_bytes"], gpu=row["gpu"])
        for word in ("max_num_batched_tokens", "max_num_seqs", "enable_prefix_caching", "max_in_flight_tokens"):
            assert pool.details[word] == row[word], (word, key)
        assert pool.tokens == row["kv_tokens"], key
        refused = any("max_num_seqs" in warning for warning in pool.warnings)
        assert refused == bool(row.get("mamba_max_num_seqs_refused")), key


# -------------------------------------------------------------------------------------------------------- extract


@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: f"{row['model']}-{row['case']}-{row['gpu']}")
def test_extract(row: dict[str, Any]) -> None:
    pool = golden_pool(row["model"], row["gpu"], row["budget_bytes"], **row["settings"])
    for word in ("fits", "num_blocks", "bytes_per_block", "tokens", "max_concurrency"):
        assert getattr(pool, word) == row[word], word


@pytest.mark.parametrize("row", GOLDEN["refused"], ids=lambda row: f"{row['model']}-{row['gpu']}")
def test_extract_of_refusals(row: dict[str, Any]) -> None:
    with pytest.raises(EngineRefusal, match=row["reason"]):
        golden_pool(row["model"], row["gpu"], **row["settings"])


@pytest.mark.parametrize("row", LOGS, ids=lambda row: str(row["id"]))
def test_extract_of_logs(row: dict[str, Any]) -> None:
    check = check_log(row)
    assert check.compared
    assert not check.disagreements


def test_the_extract_is_wide() -> None:
    """All kinds of cache, all GPUs and all flags, so that a clone alone proves each."""
    kinds = {each.kind for row in GOLDEN["rows"] for each in golden_pool(row["model"], row["gpu"], **row["settings"]).groups}
    assert kinds == {"full", "sliding", "chunked", "mla", "sliding_mla", "mamba", "cross"}
    assert {row["gpu"] for row in GOLDEN["rows"]} == {"h200", "a100", "b200"}
    flags = {flag for row in GOLDEN["rows"] for flag in row["settings"]}
    assert flags >= {
        "kv_cache_dtype", "tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size", "block_size",
        "speculative_config", "enable_prefix_caching", "disable_hybrid_kv_cache_manager", "kv_cache_dtype_skip_layers",
        "num_gpu_blocks_override", "async_scheduling", "max_num_batched_tokens",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------- worked examples

LLAMA, GEMMA3, QWEN35, DSV3 = (
    "meta-llama__Llama-3.1-8B-Instruct", "google__gemma-3-27b-it", "Qwen__Qwen3.5-27B", "deepseek-ai__DeepSeek-V3"
)  # fmt: skip
V32 = "deepseek-ai__DeepSeek-V3.2"


def test_llama_by_hand() -> None:
    """2 x 8 heads x 128 x 2 bytes x 16 tokens x 32 layers = 2 MiB a block; 20 GiB hold 10,240 of them."""
    pool = golden_pool(LLAMA, max_model_len=8192)
    assert (pool.bytes_per_block, pool.num_blocks, pool.tokens, pool.max_concurrency) == (2 << 20, 10240, 163840, 20.0)
    assert {golden_pool(LLAMA, tensor_parallel_size=tp).bytes_per_block for tp in (8, 16)} == {(2 << 20) // 8}


def test_one_block_is_never_given_out() -> None:
    """A request of 512 blocks needs a pool of 513."""
    block = 2 << 20
    assert golden_pool(LLAMA, budget=513 * block, max_model_len=8192).fits
    assert not golden_pool(LLAMA, budget=513 * block - 1, max_model_len=8192).fits


def test_gemma3_groups() -> None:
    """10 full and 52 sliding layers: groups of 10, so six sliding groups of 9 or 8 and one of full attention."""
    pool = golden_pool(GEMMA3, max_model_len=8192, num_gpu_blocks_override=1000)
    assert sorted(len(group.layers) for group in pool.groups) == [8, 8, 9, 9, 9, 9, 10]
    assert pool.blocks_per_request == 512 + 6 * 513
    # vLLM's own message for this pool names 2,256 as the longest request.
    assert golden_pool(GEMMA3, max_model_len=-1, num_gpu_blocks_override=1000).max_model_len == 2256


@pytest.mark.parametrize(
    ("gpu", "settings", "block", "states"),
    [
        ("h200", {}, 832, 3),
        ("a100", {}, 784, 2),
        ("h200", {"enable_prefix_caching": False}, 784, 1),
        ("h200", {"block_size": 128}, 896, 3),
    ],
)
def test_state_alignment(gpu: str, settings: dict[str, Any], block: int, states: int) -> None:
    """Qwen3.5-27B: a state of 3,207,168 bytes sets the attention block; state blocks by GPU and prefix caching."""
    pool = golden_pool(QWEN35, gpu, max_model_len=8192, **settings)
    assert pool.details["block_size"] == block
    assert pool.blocks_per_request == -(-8192 // block) + 3 * states


@pytest.mark.parametrize(
    ("gpu", "dtype", "size"),
    [("h200", "auto", 5012736), ("h200", "fp8", 3076352), ("b200", "fp8", 2764032), ("h200", "fp8_e4m3", 2764032)],
)
def test_sparse_latent_bytes(gpu: str, dtype: str, size: int) -> None:
    """DeepSeek-V3.2, 61 layers in blocks of 64: 1,152, 656 or 576 bytes of latent and 132 of index keys a token."""
    assert golden_pool(V32, gpu, kv_cache_dtype=dtype).bytes_per_block == size


def test_latent_caches_are_replicated() -> None:
    assert {golden_pool(DSV3, tensor_parallel_size=tp).bytes_per_block for tp in (1, 8, 16)} == {61 * 576 * 2 * 16}


def test_mtp_adds_one_layer() -> None:
    pool = golden_pool(DSV3, speculative_config={"method": "mtp", "num_speculative_tokens": 3})
    assert pool.bytes_per_block == 62 * 576 * 2 * 16


def test_cross_attention_is_charged_by_the_batch() -> None:
    """Whisper: blocks for max_num_batched_tokens encoder positions, not for its 1,500."""
    pool = golden_pool("openai__whisper-large-v3", max_model_len=448)
    assert pool.blocks_per_request == 448 // 16 + 8192 // 16


def test_pipeline_stages() -> None:
    """The rest of the layers goes to the stages before the last; the fullest stage sets the number of blocks."""
    assert [len(cut) for cut in stages(61, 4)] == [15, 15, 16, 15]
    assert [len(cut) for cut in stages(32, 5)] == [6, 6, 7, 7, 6]
    pool = golden_pool(DSV3, tensor_parallel_size=8, pipeline_parallel_size=2)
    assert pool.bytes_per_block_by_stage == (31 * 18432, 30 * 18432)
    assert pool.num_blocks == 20 * GIB // (31 * 18432)


@pytest.mark.parametrize(
    ("dtype", "per_head"),
    [("auto", 512), ("fp8", 256), ("int8_per_token_head", 264), ("int4_per_token_head", 136), ("nvfp4", 144)],
)
def test_formats(dtype: str, per_head: int) -> None:
    """Bytes of one token of one head of 128: fp8 has no scale, the others carry theirs."""
    assert golden_pool(LLAMA, "b200", kv_cache_dtype=dtype).bytes_per_block == 32 * 8 * per_head * 16


def test_auto_follows_the_checkpoint() -> None:
    """ModelOpt's KV scheme makes auto fp8, from config.json or from hf_quant_config.json; weights alone change nothing."""
    plain = dict(GOLDEN["models"][LLAMA])
    modelopt = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    compressed = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    for extra, name in (
        ({"hf_quant_config": modelopt}, "fp8_e4m3"),
        ({"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}}, "nvfp4"),
        ({"quantization_config": compressed}, "fp8"),
        ({"quantization_config": {**compressed, "kv_cache_scheme": None}}, "auto"),
        ({"quantization_config": {"quant_method": "fp8"}, "hf_quant_config": modelopt}, "auto"),
    ):
        pool = vllm.pool(model_configs.read({**plain, **extra}), budget_bytes=GIB, gpu="b200")
        assert pool.details["kv_cache_dtype"] == name


def test_falcon_keeps_its_dtype() -> None:
    falcon = next(name for name in GOLDEN["models"] if name.startswith("tiiuae__falcon-"))
    assert golden_pool(falcon, kv_cache_dtype="fp8").bytes_per_block == golden_pool(falcon).bytes_per_block


# ------------------------------------------------------------------------------------------------- refusals, words


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        (LLAMA, {"tensor_parallel_size": 3}, "attention heads"),
        (LLAMA, {"block_size": 8}, "block_size 8"),
        (LLAMA, {"kv_cache_dtype": "fp8_ds_mla"}, "latent"),
        (LLAMA, {"pipeline_parallel_size": 64}, "64 pipeline stages"),
        (GEMMA3, {"tensor_parallel_size": 2, "decode_context_parallel_size": 2}, "sliding windows"),
        (DSV3, {"kv_cache_dtype": "int8_per_token_head"}, "latent attention"),
        ("openai__gpt-oss-20b", {"tensor_parallel_size": 16}, "KV heads"),
        ("openai__whisper-large-v3", {"pipeline_parallel_size": 2}, "pipeline"),
    ],
)
def test_refused(name: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(EngineRefusal, match=reason):
        golden_pool(name, **settings)


def test_heads_that_fit_no_rank_are_refused() -> None:
    """10 KV heads neither divide by 4 nor divide it (phi-4)."""
    config = {**GOLDEN["models"][LLAMA], "num_attention_heads": 40, "num_key_value_heads": 10, "head_dim": 128}
    with pytest.raises(EngineRefusal, match="10 KV heads"):
        vllm.pool(model_configs.read(config), vllm.Settings(tensor_parallel_size=4), budget_bytes=GIB)


def test_architectures_come_and_go() -> None:
    """QWen 1 ran until 0.23.0."""
    config = {"model_type": "qwen", "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, "kv_channels": 128}
    model = model_configs.read(config)
    assert vllm.pool(model, vllm.Settings(version="0.10.2", max_model_len=2048), budget_bytes=GIB).num_blocks == 128
    with pytest.raises(EngineRefusal, match="QWen 1"):
        vllm.pool(model, budget_bytes=GIB)


def test_what_only_a_setting_breaks_is_a_warning() -> None:
    pool = golden_pool(QWEN35, max_model_len=8192)
    assert pool.fits
    assert any("max_num_seqs" in warning and f"{pool.num_blocks:,}" in warning for warning in pool.warnings)
    assert not golden_pool(QWEN35, max_model_len=8192, max_num_seqs=16).warnings
    assert any("max_model_len" in warning for warning in golden_pool(LLAMA, max_model_len=1 << 20).warnings)


def test_unknown_words() -> None:
    with pytest.raises(InputError, match="not a KV dtype"):
        golden_pool(LLAMA, kv_cache_dtype="fp7")
    with pytest.raises(InputError, match="block_sizes"):
        vllm.Settings(block_sizes=16)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="version"):
        golden_pool(LLAMA, version="newest")
    with pytest.raises(InputError, match="attention backends"):
        golden_pool(LLAMA, gpu="apple-m4-max")
    with pytest.raises(InputError, match="skip_layers"):
        golden_pool(LLAMA, kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=["32"])
    with pytest.raises(InputError, match="draft"):
        vllm.Settings(speculative_config={"method": "eagle3"})
    with pytest.raises(UnsupportedArchitecture, match="MTP"):
        golden_pool(LLAMA, speculative_config={"method": "mtp"})


def test_an_encoder_has_no_pool() -> None:
    model = model_configs.read({"model_type": "bert", "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768})
    pool = vllm.pool(model, budget_bytes=GIB)
    assert (pool.fits, pool.num_blocks, pool.bytes_per_block, pool.groups) == (True, 1, 0, ())
    assert vllm.cache_bytes(model, tokens=100).total_bytes == 0


def test_launch_command() -> None:
    draft = golden_model("drafts/llama32-1b")
    settings = vllm.Settings(
        tensor_parallel_size=2, kv_cache_dtype="fp8", enable_prefix_caching=False, disable_hybrid_kv_cache_manager=True,
        kv_cache_dtype_skip_layers=("0", "31"),
        speculative_config={"method": "draft_model", "num_speculative_tokens": 3, "model": draft},
    )  # fmt: skip
    command = vllm.launch_command(golden_model(LLAMA), settings)
    assert command.startswith("vllm serve ")
    for words in ("--tensor-parallel-size 2", "--kv-cache-dtype fp8", "--no-enable-prefix-caching", "--speculative-config"):
        assert words in command
    assert planner.engine("vllm").name == "vllm"


def test_reasons_are_told_apart() -> None:
    assert same_reason("40 attention heads do not divide", "heads (40) must be divisible by tensor parallel size (16).")
    assert not same_reason("no attention backend", "heads (40) must be divisible by tensor parallel size (16).")


# --------------------------------------------------------------------------------------------------- versions


def test_versions_are_rows() -> None:
    """Printed tokens change their meaning, not the pool: Gemma 3 under 0.10.2, 0.19.1 and 0.33.0."""
    versions = ("0.8.5", "0.10.2", "0.24.0", "0.33.0")
    sizes = {version: golden_pool(GEMMA3, version=version, max_model_len=8192) for version in versions}
    assert sizes["0.8.5"].bytes_per_block == 62 * 131072
    assert sizes["0.10.2"].bytes_per_block == sizes["0.33.0"].bytes_per_block == 10 * 131072
    assert sizes["0.10.2"].tokens == sizes["0.10.2"].num_blocks // 7 * 16
    assert sizes["0.33.0"].tokens == int(sizes["0.33.0"].max_concurrency * 8192)
    assert rules_of("0.20.2").gpu_memory_utilization == 0.90
    assert rules_of("v0.21.0rc1").gpu_memory_utilization == 0.92


def test_versions_that_nobody_read_say_so() -> None:
    assert unread("0.33.0") is None
    assert unread("0.23.0") is None
    assert "0.27.1" in (unread("0.29.0") or "")
    assert "newer" in (unread("0.40.0") or "")
    assert any("0.40.0" in warning for warning in golden_pool(LLAMA, version="0.40.0").warnings)
    assert [row["since"] for row in table("versions")["versions"]] == list(vllm.VERSIONS)[:-1]


def test_the_budget() -> None:
    """llm-d's log of 0.11.0: 79.18 GiB x 0.9 - 14.99 of weights - 4.76 of activations - 0.13 = 51.38 GiB."""
    gib = [int(size * GIB) for size in (79.18, 14.99 + 4.76 + 0.13)]
    old, new = vllm.Settings(version="0.11.0"), vllm.Settings()
    assert round(vllm.kv_budget_bytes(old, gib[0], gib[1], GIB) / GIB, 2) == 51.38
    assert vllm.kv_budget_bytes(new, 100 * GIB, 10 * GIB, GIB) == 81 * GIB
    assert vllm.kv_budget_bytes(vllm.Settings(kv_cache_memory_bytes=7), GIB, GIB) == 7
    assert golden_pool(LLAMA, budget=-GIB).num_blocks == 0
