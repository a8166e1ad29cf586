"""Laws of vLLM's pools, over models of every kind of cache."""

from __future__ import annotations

import pytest

from planner.engines import vllm
from planner.units import GIB
from tests.test_vllm import DSV3, GEMMA3, LLAMA, QWEN35, V32, golden_model, golden_pool

LAW_MODELS = [LLAMA, GEMMA3, QWEN35, DSV3, V32, "openai__gpt-oss-20b", "deepseek-ai__DeepSeek-V4-Flash", "ai21labs__Jamba-v0.1"]


@pytest.mark.parametrize("name", LAW_MODELS)
def test_blocks_never_exceed_the_budget(name: str) -> None:
    for budget in (1, GIB - 1, 3 * GIB + 7, 20 * GIB, 61 * GIB + 12345):
        for pp in (1, 2, 3):
            pool = golden_pool(name, budget=budget, pipeline_parallel_size=pp, max_model_len=4096)
            assert all(pool.num_blocks * size <= budget for size in pool.bytes_per_block_by_stage)
            assert any((pool.num_blocks + 1) * size > budget for size in pool.bytes_per_block_by_stage)


@pytest.mark.parametrize("name", LAW_MODELS)
def test_the_longest_that_fits_fits_and_one_more_does_not(name: str) -> None:
    for budget in (GIB // 2, GIB + 999, 2 * GIB, 5 * GIB):
        solved = golden_pool(name, budget=budget, max_model_len=-1, max_num_batched_tokens=2048)
        if not solved.fits:
            assert solved.max_model_len == 0
            continue
        length = solved.max_model_len
        assert golden_pool(name, budget=budget, max_model_len=length, max_num_batched_tokens=2048).fits
        longer = golden_pool(name, budget=budget, max_model_len=length + 1, max_num_batched_tokens=2048)
        assert not longer.fits or any("max_model_len" in warning for warning in longer.warnings)


@pytest.mark.parametrize("name", LAW_MODELS)
def test_more_never_takes_less(name: str) -> None:
    """More tokens or requests, or a wider dtype, never take fewer bytes; more ranks never make one hold more."""
    model = golden_model(name)
    lengths = (1, 15, 16, 17, 1000, 4096, 4097, 100_000)
    sizes = [vllm.cache_bytes(model, tokens=tokens).total_bytes for tokens in lengths]
    assert sizes == sorted(sizes)
    assert sizes[0] > 0
    assert vllm.cache_bytes(model, tokens=0).total_bytes == 0
    assert vllm.cache_bytes(model, tokens=1000, requests=3).total_bytes == 3 * sizes[4]
    fp8 = vllm.cache_bytes(model, vllm.Settings(kv_cache_dtype="fp8"), tokens=100_000).total_bytes
    assert fp8 <= sizes[-1]
    ranks = [
        vllm.cache_bytes(model, vllm.Settings(tensor_parallel_size=tp), tokens=100_000).total_bytes for tp in (1, 2, 4, 8)
    ]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("name", LAW_MODELS)
def test_bytes_are_whole_blocks(name: str) -> None:
    """What requests take is a number of the pool's blocks: layers' pages and the padding of narrower groups."""
    pool = golden_pool(name, gpu="h100", max_model_len=4096)
    cache_bytes = vllm.cache_bytes(golden_model(name), vllm.Settings(max_model_len=4096), tokens=4096)
    assert cache_bytes.total_bytes == pool.blocks_per_request * pool.bytes_per_block
