"""How many bytes does a workload need of the engine's pool: whole blocks, common prefixes, beams and encoders?"""

from __future__ import annotations

from typing import Any

import pytest

from planner import GIB
from planner.capacity import plan
from planner.capacity_demand import Demand
from planner.capacity_pools import allocation
from planner.engines import engine
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.workload import Workload
from planner.workload_lengths import Lengths
from tests.deployments import KV, PAGED, Case, read


@pytest.mark.parametrize("name", PAGED)
@pytest.mark.parametrize("length", [1, 500, 4096, 8192])
def test_need_is_the_engines_own_pool_read_backwards(name: str, length: int) -> None:
    """The engine's pool, given need_bytes, lets just these requests run at once; given a byte less, not all of them."""
    model, known = read("meta-llama/Llama-3.1-8B"), engine(name)
    settings = known.Settings(**{{"vllm": "max_model_len", "sglang": "context_length", "tensorrt-llm": "max_seq_len",
                                  "tgi": "max_total_tokens"}[name]: length})  # fmt: skip
    alloc = allocation(name, model, settings, find_gpu("h100-sxm"))
    for requests in (1, 2, 7):
        need = alloc.need(Demand(length, requests))
        # vLLM prints requests over all blocks, of which it never gives the null block out.
        null = _null(name, model, settings)
        pool = known.pool(model, settings, need - null, "h100-sxm")  # type: ignore[attr-defined]
        less = known.pool(model, settings, need - null - 1, "h100-sxm")  # type: ignore[attr-defined]
        assert int(pool.max_concurrency) == requests
        assert int(less.max_concurrency) == requests - 1


def _null(name: str, model: Model, settings: Any) -> int:
    if name != "vllm":
        return 0
    return int(engine(name).pool(model, settings, GIB, "h100-sxm").bytes_per_block)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["google/gemma-3-27b-it", "openai/gpt-oss-120b", "Qwen/Qwen3-Next-80B-A3B-Instruct"])
@pytest.mark.parametrize("tokens", [100, 5000, 32768])
def test_hybrid_blocks_are_the_engines(name: str, tokens: int) -> None:
    """In vLLM n requests need n times the blocks of its cache_bytes and the null block, windows and states included."""
    model, vllm = read(name), engine("vllm")
    settings = vllm.Settings(max_model_len=tokens, max_num_seqs=4)
    alloc = allocation("vllm", model, settings, find_gpu("h100-sxm"))
    pool = vllm.pool(model, settings, 10 * GIB, "h100-sxm")  # type: ignore[attr-defined]
    held = vllm.cache_bytes(model, settings, tokens, 5).total_bytes
    assert alloc.need(Demand(tokens, 5)) == held + pool.bytes_per_block


def test_a_common_prefix_is_stored_once_in_whole_blocks() -> None:
    """4 requests of 1,000 tokens with 500 in common: 31 blocks of 16 once and 32 each, and the null block."""
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 1000})
    block = 16 * 131072
    assert case.plan(Workload(1000, 0, 4, shared_prefix_tokens=500)).need_bytes == (31 + 4 * 32 + 1) * block
    assert case.plan(Workload(1000, 0, 4)).need_bytes == (4 * 63 + 1) * block
    varying = Lengths.lognormal(800, 900, 1000)
    longest = Workload(varying, 0, 4, shared_prefix_tokens=500, occupancy="worst")
    assert case.plan(longest).need_bytes == (31 + 4 * 32 + 1) * block
    off = case.plan(Workload(1000, 0, 4, shared_prefix_tokens=500), settings={"enable_prefix_caching": False})
    assert off.need_bytes == (4 * 63 + 1) * block
    assert any("counted for every request" in note for note in off.notes)


@pytest.mark.parametrize("name", PAGED)
def test_a_prefix_never_needs_more(name: str) -> None:
    model = read("meta-llama/Llama-3.1-8B")
    works = [Workload(3000, 500, 6, shared_prefix_tokens=common) for common in (0, 15, 16, 999, 3000)]
    needs = [plan(model, name, {"max_model_len": 4096}, "h100-sxm", 1, work, KV, advice=False).need_bytes for work in works]
    assert needs == sorted(needs, reverse=True)
    assert needs[-1] < needs[0]


def test_beams_share_their_prompt() -> None:
    """2 requests of 4 beams: 62 blocks of each prompt's 1,000 tokens once, and each beam's own rest."""
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 2000})
    block = 16 * 131072
    assert case.plan(Workload(1000, 200, 2, beams=4)).need_bytes == (2 * (62 + 4 * (75 - 62)) + 1) * block


def test_beams_of_unknown_prompts_share_nothing() -> None:
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 2000})
    assert case.plan(Workload(requests=2, beams=4)).need_bytes == (2 * 4 * 125 + 1) * 16 * 131072


def test_encoder_rows_lie_in_front_of_the_text_in_sglang() -> None:
    """Llama-3.2-Vision: 6,404 image positions take a row each of the pool, beside the text's."""
    model = read("meta-llama/Llama-3.2-11B-Vision-Instruct")
    works = [Workload(1000, 0, 40, encoder_tokens=tokens) for tokens in (0, 6404)]
    needs = [plan(model, "sglang", {"context_length": 16384}, "h100-sxm", 1, work, advice=False).need_bytes for work in works]
    row = 40 * 8 * (128 + 128) * 2
    assert needs[1] - needs[0] == 40 * 6404 * row


def test_encoder_positions_count_where_the_engine_counts_them() -> None:
    model = read("openai/whisper-large-v3")
    needs = [
        plan(model, "transformers", None, "t4", 1, Workload(448, 0, 2, encoder_tokens=tokens), advice=False).need_bytes
        for tokens in (0, 1500)
    ]
    assert needs[1] - needs[0] == 2 * 1500 * 32 * 2 * 1280 * 2
