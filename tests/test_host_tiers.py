"""Host memory beside the GPUs: how many whole blocks each engine keeps there, its bytes, and the time to read a request back."""

from __future__ import annotations

from typing import Any

import pytest

import model_configs
from planner.capacity import Plan, plan
from planner.hardware import gpu
from planner.host_tiers import HostTier, host_bytes, host_tiers, transfer
from planner.plan_report import plan_data, plan_text
from planner.units import GB, GIB, MIB
from planner.workload import Workload

LLAMA = "meta-llama/Llama-3.1-8B"
#: Of Llama-3.1-8B in bfloat16: 2 x 32 layers x 8 heads x 128 x 2 bytes.
TOKEN = 131072


def planned(name: str, settings: dict[str, Any] | None, cards: str = "h100-sxm", model: str = LLAMA, length: int = 8192) -> Plan:
    """A plan for one request of `length`."""
    work = Workload(prompt_tokens=length)
    return plan(model_configs.read(f"catalogue:{model}"), name, settings, cards, workload=work, advice=False)


def tier(found: Plan, name: str) -> HostTier:
    return next(one for one in host_tiers(found) if one.name == name)


def test_nothing_is_kept_where_nothing_is_asked_for() -> None:
    for name in ("vllm", "sglang", "tensorrt-llm", "tgi", "transformers"):
        assert host_tiers(planned(name, None)) == ()
    assert host_bytes(planned("vllm", None)) == 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_vllm_keeps_whole_blocks_of_all_ranks(ranks: int) -> None:
    """64 GiB over 16 x 131,072 bytes on all ranks together: 32,768 blocks, 524,288 tokens, 64 requests of 8,192."""
    settings = {"kv_offloading_size": 64, "tensor_parallel_size": ranks}
    found = tier(planned("vllm", settings, f"{ranks}xh100-sxm"), "kv_offloading_size")
    assert (found.bytes, found.blocks, found.tokens, found.requests) == (64 * GIB, 32768, 524288, 64)
    assert found.bytes_per_request == 8192 * TOKEN


def test_vllm_keeps_one_copy_of_latents() -> None:
    """DeepSeek-V3 on 8 ranks: a block of 16 tokens is 16 x 61 x 576 x 2 = 1,124,352 bytes once, in 275 pages of 4,096; each GPU
    reads it whole."""
    settings = {"kv_offloading_size": 64, "tensor_parallel_size": 8, "block_size": 16}
    found = tier(planned("vllm", settings, "8xh200", "deepseek-ai/DeepSeek-V3"), "kv_offloading_size")
    assert found.blocks == 64 * GIB // (275 * 4096)
    assert found.bytes_per_request == 8192 // 16 * 275 * 4096
    assert found.transfer_s == transfer(gpu("h200"), found.bytes_per_request)


def test_lmcache_keeps_chunks_of_256_tokens() -> None:
    found = tier(planned("vllm", {"kv_offloading_size": 10, "kv_offloading_backend": "lmcache"}), "kv_offloading_size")
    assert found.blocks == 10 * GIB // (256 * TOKEN)
    assert found.requests == found.blocks // 32


def test_swap_space_is_of_engine_v0() -> None:
    """4 GiB a GPU by default: 2,048 blocks of 16 tokens. V1 has none."""
    found = tier(planned("vllm", {"version": "0.6.0", "tensor_parallel_size": 2}, "2xh100-sxm"), "swap_space")
    assert (found.bytes, found.blocks) == (8 * GIB, 4 * GIB // (16 * TOKEN // 2))
    later = tier(planned("vllm", {"version": "0.10.0", "swap_space": 4}), "swap_space")
    assert (later.bytes, later.requests) == (0, 0)


def test_hicache_by_ratio_and_by_size() -> None:
    """A ratio is of the GPU's tokens; a size is in 10**9 bytes on each rank. A page more is allocated than is used."""
    by_ratio = planned("sglang", {"enable_hierarchical_cache": True, "hicache_ratio": 3.0})
    assert by_ratio.pool is not None
    found = tier(by_ratio, "hicache_ratio")
    assert found.tokens == 3 * by_ratio.pool.tokens
    assert found.bytes == (3 * by_ratio.pool.tokens + 1) * TOKEN
    by_size = planned("sglang", {"enable_hierarchical_cache": True, "hicache_size": 100, "tensor_parallel_size": 2}, "2xh100-sxm")
    found = tier(by_size, "hicache_size")
    assert found.tokens == 100 * GB // (TOKEN // 2)
    assert found.bytes == (100 * GB // (TOKEN // 2) + 1) * TOKEN
    usual = planned("sglang", {"enable_hierarchical_cache": True})
    assert usual.pool is not None
    assert tier(usual, "hicache_ratio").tokens == 2 * usual.pool.tokens


def test_the_secondary_pool_of_tensorrt_llm() -> None:
    """10 GiB on each rank are 2,560 blocks of 32 tokens, 5,120 where a rank has half of each."""
    one = tier(planned("tensorrt-llm", {"host_cache_size": 10 * GIB}), "host_cache_size")
    assert (one.bytes, one.blocks, one.tokens, one.requests) == (10 * GIB, 2560, 81920, 10)
    two = tier(planned("tensorrt-llm", {"host_cache_size": 10 * GIB, "tensor_parallel_size": 2}, "2xh100-sxm"), "host_cache_size")
    assert (two.bytes, two.blocks, two.requests) == (20 * GIB, 5120, 20)


def test_prompts_that_llama_server_keeps() -> None:
    """8,192 MiB by default: eight prompts of 8,192 tokens of 1 GiB each. None in older builds."""
    found = tier(planned("llama.cpp", None, "4090"), "cache_ram")
    assert (found.bytes, found.requests, found.bytes_per_request) == (8192 * MIB, 8, 8192 * TOKEN)
    assert host_tiers(planned("llama.cpp", {"front_end": "server", "version": "2025-08"}, "4090")) == ()
    assert host_tiers(planned("llama.cpp", {"front_end": "server", "cache_ram": 0}, "4090")) == ()
    endless = tier(planned("llama.cpp", {"front_end": "server", "cache_ram": -1}, "4090"), "cache_ram")
    assert endless.requests is None
    command = planned("llama.cpp", {"front_end": "server", "cache_ram": 16384}, "4090").command
    assert "--cache-ram 16384" in command


def test_weights_and_adapters_in_host_memory() -> None:
    settings = {"cpu_offload_gb": 4, "enable_lora": True, "max_cpu_loras": 50}
    found = planned("vllm", settings)
    assert tier(found, "cpu_offload_gb").bytes == 4 * GIB
    assert tier(found, "max_cpu_loras").bytes == 50 * 2 * 41943040
    assert "--cpu-offload-gb" in found.command


def test_time_over_the_slot() -> None:
    """1 GiB over one direction of an H100's slot, 64 x 10**9 a second, at the share that copies reach: 0.9 to 0.3."""
    found = transfer(gpu("h100-sxm"), GIB)
    assert found is not None
    assert found.low == pytest.approx(GIB / 64e9 / 0.9)
    assert found.high == pytest.approx(GIB / 64e9 / 0.3)
    assert transfer(gpu("96 GiB"), GIB) is None


def test_replicas_each_have_their_own() -> None:
    found = planned("vllm", {"kv_offloading_size": 8, "data_parallel_size": 2}, "2xh100-sxm")
    assert host_bytes(found) == 2 * 8 * GIB


def test_the_report_says_it() -> None:
    data = plan_data(planned("vllm", {"kv_offloading_size": 64}))
    assert data["host"]["bytes"] == 64 * GIB
    assert data["host"]["tiers"][0]["requests"] == 64
    assert "keeps 64 requests (524,288 tokens)" in plan_text(data)
