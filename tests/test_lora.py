"""LoRA adapters: their parameters as tools print them, slots by vLLM's and SGLang's shapes, and what engines refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from model_configs import catalogue
from planner import lora
from planner.budget import budget
from planner.capacity import plan
from planner.engines import engine
from planner.errors import EngineRefusal, InputError
from planner.lora_layers import linear_layers
from planner.model import Model
from planner.units import GIB

GOLDEN = yaml.safe_load((Path(__file__).parent / "golden/lora.yaml").read_text("utf-8"))
LLAMA = "meta-llama/Llama-3.1-8B"
SHARDED = {"enable_lora": True, "tensor_parallel_size": 2, "fully_sharded_loras": True}


def read(name: str = LLAMA) -> Model:
    return model_configs.read(f"catalogue:{name}")


def term(name: str, settings: dict[str, Any], model: Model | None = None, gpu: str = "h200") -> int:
    found = budget(model or read(), name, engine(name).Settings(**settings), gpu).term("lora adapters")
    assert found is not None
    assert found.low <= found.bytes <= found.high
    return found.bytes


@pytest.mark.parametrize("row", GOLDEN["parameters"], ids=lambda row: f"{row['model']} {row.get('modules', 'all')}")
def test_parameters_are_those_that_tools_print(row: dict[str, Any]) -> None:
    model = read(row["model"])
    assert lora.adapter_parameters(model, row["rank"], row.get("modules")) == row["parameters"]
    assert lora.adapter_bytes(model, row["rank"], row.get("modules")) == 2 * row["parameters"]


def test_linear_layers_make_up_the_layers() -> None:
    """The projections that adapters sit on hold the layers' parameters but for norms and biases; where some are not known that is
    said. Of the catalogue's models that are no toys and have no recurrent layers, nine of ten add up to a hundredth."""
    known, unknown = [], []
    for entry in catalogue.entries():
        model = read(entry.id)
        held = {item.name: item.params for item in model.weights.items}.get("layers", 0) if model.weights else 0
        if held < 10**8:
            continue
        try:
            found = linear_layers(model, "transformers")
        except InputError:
            unknown.append(entry.id)
            continue
        ours = sum(one.inputs * one.outputs * max(1, one.experts) for layer in found.layers for one in layer)
        assert ours >= 0.97 * held, f"{entry.id}: {ours / held:.4f} of the layers' parameters"
        known.append(found.known or "state" in "".join(model.kinds))
    assert len(unknown) <= 0.05 * len(known), unknown
    assert sum(known) >= 0.9 * len(known), f"{sum(known)} of {len(known)}"


@pytest.mark.parametrize("row", GOLDEN["vllm"], ids=lambda row: f"{row['model']} {row['settings']}")
def test_slots_of_vllm(row: dict[str, Any]) -> None:
    assert term("vllm", {"enable_lora": True, **row["settings"]}, read(row["model"])) == row["bytes"]


@pytest.mark.parametrize("row", GOLDEN["vllm_ranges"], ids=lambda row: row["model"])
def test_estimated_slots_of_vllm(row: dict[str, Any]) -> None:
    settings = engine("vllm").Settings(enable_lora=True, **row["settings"])
    found = budget(read(row["model"]), "vllm", settings, "h200").term("lora adapters")
    assert found is not None
    assert found.low <= row["bytes"] <= found.bytes <= 1.1 * row["bytes"]
    assert found.confidence == "estimated"


def test_nothing_is_kept_where_no_adapters_are_asked_for() -> None:
    for name in ("vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp", "transformers"):
        assert budget(read(), name, engine(name).Settings(), "h100").term("lora adapters") is None


def test_slots_come_out_of_the_cache() -> None:
    """One byte of slots is one byte less for the cache, under every engine that has them."""
    asked: dict[str, dict[str, Any]] = {
        "vllm": {"enable_lora": True, "max_loras": 8}, "sglang": {"enable_lora": True, "max_lora_rank": 16},
        "tensorrt-llm": {"max_lora_rank": 16, "max_loras": 8},
    }  # fmt: skip
    for name, settings in asked.items():
        before = budget(read(), name, engine(name).Settings(), "h100").kv_bytes
        after = budget(read(), name, engine(name).Settings(**settings), "h100").kv_bytes
        share = 0.9 if name == "tensorrt-llm" else 1
        assert before - after == pytest.approx(share * term(name, settings, gpu="h100"), abs=2)


def test_sglang_keeps_the_slots_of_vllm_and_divides_the_head() -> None:
    """8 slots of rank 16: the same A and B; "all" adds embeddings, the head's outputs being divided among ranks.

    TP 2: (1769472 + 128256 + 4096 + 4096 + 64128) x 16 x 8 x 2
    """
    settings = {"enable_lora": True, "max_lora_rank": 16, "lora_target_modules": ["all"], "tensor_parallel_size": 2}
    assert term("sglang", settings) == (1769472 + 128256 + 4096 + 4096 + 64128) * 256
    with pytest.raises(InputError, match="max_lora_rank"):
        term("sglang", {"enable_lora": True})


def test_the_cache_of_tensorrt_llm() -> None:
    """Qwen1.5-7B as its log has it: an adapter of 19,988,480 elements; a cache for 8 of them holds at least as much."""
    config = {"model_type": "qwen2", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
              "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 151936, "torch_dtype": "bfloat16",
              "max_position_embeddings": 32768}  # fmt: skip
    model, printed = model_configs.read(config), GOLDEN["tensorrt_llm"]
    assert lora.adapter_parameters(model, 8) == printed["elements"]
    cache = term("tensorrt-llm", {"max_lora_rank": 8, "max_loras": printed["adapters"]}, model, "h100")
    assert cache >= printed["adapters"] * printed["elements"] * 2
    # pages of 8 x (4 x 1 + 3 x 2) x 32 slots of 8192: what 8 adapters' slots (8 x 8 x 32 x 7 x 2) take, in whole pages
    assert cache == 12 * 2560 * 8192 * 2
    share = printed["cache_bytes"] // (8192 * 2)
    assert -(-share // 2560) * 2560 * 8192 // printed["elements"] == printed["adapters"]


@pytest.mark.parametrize(
    ("name", "settings", "model", "why"),
    [
        ("vllm", {"enable_lora": True, "max_lora_rank": 24}, LLAMA, "max_lora_rank 24"),
        ("vllm", {"enable_lora": True, "max_lora_rank": 1, "version": "0.10.0"}, LLAMA, "none of 8"),
        ("vllm", {"enable_lora": True, "max_loras": 4, "max_cpu_loras": 2}, LLAMA, "at least max_loras"),
        ("vllm", {**SHARDED, "max_lora_rank": 1}, LLAMA, "1 among"),
        ("vllm", {"enable_lora": True}, "tiiuae/falcon-7b", "not supported"),
        ("tensorrt-llm", {"max_lora_rank": 64, "device_cache_percent": 0.0001}, LLAMA, "would not hold"),
    ],
)  # fmt: skip
def test_what_engines_refuse(name: str, settings: dict[str, Any], model: str, why: str) -> None:
    with pytest.raises(EngineRefusal, match=why):
        plan(read(model), name, settings, "h200", advice=False)


def test_modules_that_there_are_not() -> None:
    with pytest.raises(InputError, match="no module"):
        lora.adapter_parameters(read(), 16, ["nosuch"])
    for rank in (0, -1, True):
        with pytest.raises(InputError, match="rank"):
            lora.adapter_parameters(read(), rank)


def test_a_plan_says_what_is_not_counted_and_starts_with_the_flags() -> None:
    settings = {"enable_lora": True, "max_loras": 4, "max_lora_rank": 32, "max_model_len": 8192}
    found = plan(read(), "vllm", settings, "l4", advice=False)
    assert "--enable-lora --max-loras 4 --max-lora-rank 32" in found.command
    assert any("CUDA graphs a second time" in note for note in found.notes)
    trt = plan(read(), "tensorrt-llm", {"max_lora_rank": 8, "max_loras": 2, "max_seq_len": 4096}, "h100", advice=False)
    assert "lora_config:\n  max_lora_rank: 8\n  max_loras: 2" in trt.command


def test_what_the_person_knows_of_adapters_wins() -> None:
    found = budget(read(), "llama.cpp", engine("llama.cpp").Settings(n_ctx=4096), "4090", given={"lora adapters": GIB})
    assert found.term("lora adapters") is not None
    without = budget(read(), "llama.cpp", engine("llama.cpp").Settings(n_ctx=4096), "4090")
    assert without.kv_bytes - found.kv_bytes == GIB


def test_other_processes() -> None:
    """vLLM's share is of the whole GPU, so that the cache stays the same until it does not start; others lose it."""
    known = {"other processes": 5 * GIB}
    for name, lost in (("sglang", None), ("tensorrt-llm", int(0.9 * 5 * GIB)), ("tgi", None), ("transformers", 5 * GIB)):
        settings = engine(name).Settings()
        change = budget(read(), name, settings, "h100").kv_bytes - budget(read(), name, settings, "h100", given=known).kv_bytes
        assert change == pytest.approx(lost, abs=2) if lost else 0 < change <= 5 * GIB
    half = engine("vllm").Settings(gpu_memory_utilization=0.5)
    assert budget(read(), "vllm", half, "h100", given=known).kv_bytes == budget(read(), "vllm", half, "h100").kv_bytes
    # 79.18 GiB less 5 and the context's 0.5 are 0.93 of it.
    with pytest.raises(EngineRefusal, match=r"at most 0\.93 starts"):
        budget(read(), "vllm", engine("vllm").Settings(gpu_memory_utilization=0.95), "h100", given=known)


def test_weights_in_host_memory() -> None:
    """cpu_offload_gb leaves as much more for the cache, and never more than the layers have."""
    whole, less = (budget(read(), "vllm", engine("vllm").Settings(cpu_offload_gb=gib), "h100") for gib in (0.0, 4.0))
    assert less.kv_bytes - whole.kv_bytes == 4 * GIB
    all_layers = budget(read(), "vllm", engine("vllm").Settings(cpu_offload_gb=100.0), "h100").term("weights")
    assert all_layers is not None
    assert all_layers.bytes >= 2 * 2 * 128256 * 4096  # embeddings and head stay
