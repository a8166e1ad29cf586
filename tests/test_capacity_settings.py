"""Which settings does a plan obey or choose, and which settings and inputs are refused?"""

from __future__ import annotations

from typing import Any

import pytest

from planner import EngineRefusal, InputError
from planner.capacity import plan
from planner.capacity_weights import as_gguf
from planner.workload import Workload
from tests.deployments import PAGED, Case, read


def test_what_no_engine_allows() -> None:
    llama = read("meta-llama/Llama-3.1-8B")
    for name in PAGED:
        with pytest.raises(EngineRefusal, match="beyond the 131,072"):
            plan(llama, name, {"max_model_len": 200_000}, "h100-sxm")
    with pytest.raises(EngineRefusal, match="KV heads"):
        plan(llama, "tgi", {"num_shard": 16}, "h100-sxm")
    with pytest.raises(EngineRefusal, match="one kind"):
        plan(llama, "vllm", None, "2x4090+1x3090")
    with pytest.raises(EngineRefusal, match="nvfp4"):
        plan(llama, "tensorrt-llm", {"kv_cache_dtype": "nvfp4"}, "a100-80gb")
    with pytest.raises(EngineRefusal, match="fp8 cache has no attention kernels"):
        plan(llama, "vllm", {"kv_cache_dtype": "fp8", "max_model_len": 8192}, "mi210")
    assert plan(llama, "vllm", {"kv_cache_dtype": "fp8", "max_model_len": 8192}, "a100-80gb", advice=False).fits


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"engine": "nosuch"}, "engine"), ({"gpu": "nosuch"}, "gpu"), ({"gpus": 0}, "gpus"), ({"gpus": True}, "gpus"),
        ({"settings": {"max_model_len": 8192, "nosuch": 1}}, "nosuch"), ({"given": {"nosuch": 1}}, "given"),
        ({"workload": 7}, "workload"), ({"settings": {"tensor_parallel_size": 4}, "gpus": 6}, "gpus"),
        ({"settings": {"max_model_len": 1000}, "workload": Workload(900, 200)}, "workload"),
        ({"settings": {"max_num_seqs": 4}, "workload": Workload(100, 0, 5)}, "max_num_seqs"),
    ],
)  # fmt: skip
def test_bad_input(words: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        plan(read("meta-llama/Llama-3.1-8B"), **words)
    assert error.value.fields["field"] == field


def test_a_setting_that_bounds_requests_bounds_the_plan() -> None:
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 1000, "max_num_seqs": 10})
    assert case.plan().max_requests == 10
    raised = Case("meta-llama/Llama-3.1-8B", "l4", settings={"max_model_len": 8192}).plan(Workload(1, 0, 300))
    assert raised.settings.max_num_seqs == 300
    assert "--max-num-seqs 300" in raised.command
    assert any("max_num_seqs" in note for note in raised.notes)


def test_an_override_of_blocks_is_obeyed() -> None:
    """100 blocks are 413 fewer than one request of 8,192 tokens and the null block need, however much memory there is."""
    settings = {"max_model_len": 8192, "num_gpu_blocks_override": 100}
    one = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings=settings).plan()
    assert (one.fits, one.headroom_bytes) == (False, -(512 + 1 - 100) * 16 * 131072)
    assert any("num_gpu_blocks_override" in text for text in one.warnings)
    assert Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={**settings, "num_gpu_blocks_override": 513}).plan().fits


def test_ollama_takes_its_context_by_memory() -> None:
    """On a card of 24 GB Ollama takes 32,768 tokens by itself."""
    one = plan(as_gguf(read("meta-llama/Llama-3.1-8B"), "Q4_K_M"), "llama.cpp", {"front_end": "ollama"}, "4090", advice=False)
    assert (one.context, one.fits) == (32768, True)
    assert "OLLAMA_CONTEXT_LENGTH=32768" in one.command


def test_states_ask_for_a_seat_each() -> None:
    """vLLM starts with no more requests than blocks where states are kept: the command says a number that is legal."""
    one = Case("tiiuae/Falcon-H1-7B-Instruct", "a10g", settings={"max_model_len": 8192}).plan()
    assert one.pool is not None
    assert one.settings.max_num_seqs <= one.pool.num_blocks
    assert not any("will not start" in text for text in one.warnings)
    asked = Case("tiiuae/Falcon-H1-7B-Instruct", "a10g", settings={"max_model_len": 8192, "max_num_seqs": 4000}).plan()
    assert not asked.fits


def test_gguf_storage_is_near_the_published_file() -> None:
    """Gemma-3-27B's Q4_K_M files are listed at 16.5 GB; the estimate is above that, by less than 5%."""
    model = as_gguf(read("google/gemma-3-27b-it"), "q4_k_m")
    assert model.weights is not None
    text = sum(item.bytes for item in model.weights.items if item.name in ("embeddings", "layers"))
    assert 16.5e9 < text < 16.5e9 * 1.05
    assert model.weights_confidence == "estimated"
    with pytest.raises(InputError, match="GGUF"):
        as_gguf(model, "Q9")
