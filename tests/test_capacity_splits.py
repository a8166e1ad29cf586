"""Over how many GPUs and in which split does a model run, and which of the choices comes first?"""

from __future__ import annotations

import pytest

from planner import EngineRefusal
from planner.capacity import compare_gpus, fewest_gpus, plan, rank_kv_dtypes, rank_splits
from planner.workload import Workload
from tests.deployments import LONG, PAGED, Case, read


def test_the_split_is_tensor_parallel_where_that_is_legal() -> None:
    one = Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 4, settings=LONG).plan()
    assert (one.tensor_parallel_size, one.pipeline_parallel_size, one.replicas) == (4, 1, 1)
    assert "--tensor-parallel-size 4" in one.command
    assert not any("not possible" in note for note in one.notes)


def test_another_split_where_heads_do_not_divide() -> None:
    """64 heads cannot be shared out among 3 GPUs: pipeline stages are taken, and a note says why."""
    one = Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 3, settings=LONG).plan()
    assert (one.tensor_parallel_size, one.pipeline_parallel_size, one.replicas) == (1, 3, 1)
    assert any("heads" in note and "not possible" in note for note in one.notes)
    with pytest.raises(EngineRefusal, match="heads"):
        Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 3, settings={**LONG, "tensor_parallel_size": 3}).plan()


@pytest.mark.parametrize("gpus", [6, 8])
def test_the_split_does_not_change_with_the_requests(gpus: int) -> None:
    """Falcon-H1-34B's 20 heads do not divide by 8 or 6: whatever split is taken, its own most requests are its most."""
    case = Case("tiiuae/Falcon-H1-34B-Instruct", "h100-sxm", gpus, settings={"max_model_len": 8192})
    one = case.plan(Workload(8000))
    more = case.plan(Workload(8000, 0, (one.max_requests or 0) + 1))
    assert one.fits
    assert not more.fits
    assert (one.tensor_parallel_size, one.replicas) == (more.tensor_parallel_size, more.replicas)


def test_replicas_multiply_the_requests() -> None:
    single = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings=LONG).plan()
    three = Case("meta-llama/Llama-3.1-8B", "h100-sxm", 3, settings={**LONG, "tensor_parallel_size": 1}).plan()
    assert (three.replicas, three.settings.data_parallel_size) == (3, 3)
    assert single.max_requests is not None
    assert three.max_requests == 3 * single.max_requests
    servers = plan(read("meta-llama/Llama-3.1-8B"), "tgi", {"num_shard": 1}, "h100-sxm", 2, advice=False)
    assert servers.replicas == 2
    assert any("2 servers" in note for note in servers.notes)


def test_every_split_is_ranked() -> None:
    """8 GPUs split in 10 ways; those that fit come first, by requests; a refused one says why."""
    options = rank_splits(read("Qwen/Qwen2.5-72B-Instruct"), "vllm", LONG, "a100-80gb", 8)
    assert len(options) == 10
    fits = [option.fits for option in options]
    assert fits == sorted(fits, reverse=True)
    most = [option.plan.max_requests or 0 for option in options if option.plan and option.fits]
    assert most == sorted(most, reverse=True)
    refused = rank_splits(read("meta-llama/Llama-3.1-8B"), "tgi", None, "h100-sxm", 16)
    assert any(option.plan is None and "does not repeat KV heads" in (option.refusal or "") for option in refused)


def test_fewest_gpus() -> None:
    """135 GiB of weights: two cards of 80 GB hold them with a little room, which 64 requests do not go into."""
    model = read("Qwen/Qwen2.5-72B-Instruct")
    found = fewest_gpus(model, "vllm", {"max_model_len": 4096}, "a100-80gb")
    assert found.plan is not None
    assert (found.plan.gpus, found.name) == (2, "2 x A100 80GB SXM4, TP 2")
    more = fewest_gpus(model, "vllm", {"max_model_len": 4096}, "a100-80gb", Workload(requests=64))
    assert more.plan is not None
    assert more.plan.gpus > found.plan.gpus
    assert not Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", settings={"max_model_len": 4096}).plan().fits
    none = fewest_gpus(model, "vllm", {"max_model_len": 4096}, "t4", counts=(1, 2))
    assert none.plan is None
    assert none.refusal


def test_narrower_storage_holds_more() -> None:
    options = rank_kv_dtypes(read("meta-llama/Llama-3.1-8B"), "vllm", LONG, "h100-sxm")
    most = {option.name: option.plan.max_requests for option in options if option.plan}
    assert most["fp8"] >= 2 * most["auto"]  # type: ignore[operator]
    cards = compare_gpus(read("meta-llama/Llama-3.1-8B"), "vllm", {"max_model_len": 8192}, ("t4", "l4", "h100-sxm", "nosuch"))
    assert [option.fits for option in cards] == [False, True, True, False]
    assert "nosuch" in (cards[-1].refusal or "")


def test_layers_over_cards_of_two_kinds() -> None:
    """Gemma-3-27B in bf16 over two 4090s and a 3090: each card holds whole layers and its own share, and no layer is lost."""
    model = read("google/gemma-3-27b-it")
    one = plan(model, "llama.cpp", {"n_ctx": 8192, "front_end": "server"}, "2x4090+1x3090", advice=False)
    assert [share.gpu for share in one.per_gpu] == ["GeForce RTX 4090", "GeForce RTX 4090", "GeForce RTX 3090"]
    whole = plan(model, "llama.cpp", {"n_ctx": 8192, "front_end": "server"}, "h200", advice=False)
    assert sum(share.cache_bytes for share in one.per_gpu) == whole.need_bytes
    assert model.weight_bytes is not None
    assert sum(share.weight_bytes for share in one.per_gpu) >= model.weight_bytes
    assert one.headroom_bytes == min(share.free_bytes for share in one.per_gpu)
    equal = plan(model, "llama.cpp", {"n_ctx": 8192, "front_end": "server"}, "4090", 4, advice=False)
    assert len(equal.per_gpu) == 4
    assert equal.fits


def test_a_named_node_and_an_amount_of_memory() -> None:
    eight = plan(read("Qwen/Qwen2.5-72B-Instruct"), "vllm", LONG, "8xh100", advice=False)
    assert (eight.gpus, eight.gpu.id) == (8, "h100-sxm")
    for name in PAGED:
        assert plan(read("meta-llama/Llama-3.1-8B"), name, {"max_model_len": 8192}, "48GiB", advice=False).gpu.id == "custom"
