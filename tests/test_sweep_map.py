"""The map of contexts and requests: every cell that is tried is what `planner.plan` says of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

import model_configs
from planner.capacity import plan
from planner.capacity_plan import Plan
from planner.sweep_map import Cell, Map, at_length, contexts_of, fit_map, requests_of, with_longest
from planner.workload import Workload
from planner.workload_lengths import Lengths

LLAMA, GEMMA, NEXT = "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct"
SERVER = {"front_end": "server"}
#: model, engine, settings, GPU, GPUs
DEPLOYMENTS: list[tuple[str, str, dict[str, Any], str, int]] = [
    (LLAMA, "vllm", {}, "l4", 1),
    ("Qwen/Qwen2.5-72B", "vllm", {}, "a100-80gb", 4),
    ("openai/gpt-oss-120b", "vllm", {}, "h100-sxm", 1),
    ("deepseek-ai/DeepSeek-V3", "vllm", {}, "h200", 8),
    ("deepseek-ai/DeepSeek-V3", "vllm", {"pipeline_parallel_size": 2}, "h100-sxm", 16),
    (NEXT, "vllm", {}, "h100-sxm", 4),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "vllm", {}, "h100-sxm", 4),
    ("tiiuae/Falcon-H1-7B-Instruct", "vllm", {}, "a10g", 1),
    (GEMMA, "llama.cpp", SERVER, "h100-sxm", 2),
    (GEMMA, "llama.cpp", {**SERVER, "n_seq_max": 4}, "h100-sxm", 1),
    (LLAMA, "sglang", {}, "h100-sxm", 1),
    (NEXT, "sglang", {}, "h100-sxm", 4),
    ("openai/gpt-oss-120b", "sglang", {}, "h200", 1),
    (GEMMA, "tensorrt-llm", {}, "h100-sxm", 2),
    (LLAMA, "tgi", {}, "h100-sxm", 1),
    (LLAMA, "transformers", {}, "h100-sxm", 1),
]
#: Cells of each map that are planned one by one.
TRIED = 5


def made(name: str, engine: str, settings: dict[str, Any], gpu: str, gpus: int, work: Workload) -> Plan:
    return plan(model_configs.read(f"catalogue:{name}"), engine, settings, gpu, gpus, work, advice=False)


def cells(found: Map) -> list[Cell]:
    return [cell for row in found.rows for cell in row]


def check(found: Plan, settings: dict[str, Any], gpu: str, gpus: int, cell: Cell) -> None:
    """A cell against the plan of its own question."""
    work = at_length(found.workload, cell.context, cell.requests)
    assert work is not None
    asked = {**settings, **with_longest(found, cell.context)}
    own = plan(found.model, found.engine, asked, gpu, gpus, work, advice=False)
    assert (own.fits, own.headroom_low >= 0) == (cell.state != "short", cell.state == "held"), cell
    assert cell.free_bytes is not None
    # A search of the map ends within 1/1024 of the budget, on the side of more need.
    assert 0 <= own.headroom_bytes - cell.free_bytes <= max(abs(own.kv_bytes), own.need_bytes) / 1024 + 1, cell


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda one: f"{one[0]} {one[1]} {one[4]} {one[3]}")
def test_every_cell_that_is_tried_is_the_plans(deployment: tuple[str, str, dict[str, Any], str, int]) -> None:
    name, engine, settings, gpu, gpus = deployment
    found = made(name, engine, settings, gpu, gpus, Workload(1_000, 200, 4))
    told = [cell for cell in cells(fit_map(found)) if cell.free_bytes is not None]
    edge = sorted(told, key=lambda cell: abs(cell.free_bytes or 0))[:2]  # where a verdict could go wrong
    for cell in (*edge, *random.Random(0).sample(told, TRIED)):
        check(found, settings, gpu, gpus, cell)


@pytest.mark.parametrize(
    "work",
    [
        Workload(4_000, 96, 8, shared_prefix_tokens=2_048),
        Workload(4_000, 96, 8, beams=4),
        Workload(2_000, 96, 8, image_tokens=576, speculative_tokens=4),
        Workload(requests=3),
    ],
    ids=["prefix", "beams", "images and draft", "full"],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_requests_share_and_hold_is_in_the_cells(engine: str, work: Workload) -> None:
    found = made(LLAMA, engine, {}, "h100-sxm", 1, work)
    told = [cell for cell in cells(fit_map(found)) if cell.free_bytes is not None]
    for cell in random.Random(1).sample(told, 4):
        check(found, {}, "h100-sxm", 1, cell)


def test_the_persons_own_figures_hold_in_every_cell() -> None:
    model = model_configs.read(f"catalogue:{LLAMA}")
    found = plan(model, "vllm", {}, "h100-sxm", 1, Workload(1_000, 24, 1), {"kv": 2**30}, advice=False)
    # One token takes 2 x 32 layers x 8 heads x 128 x 2 bytes = 128 KiB, so that 1 GiB has 8,192, less a block of 16.
    row = fit_map(found, (1_024, 4_096, 8_176, 8_192), (1,)).rows[0]
    assert [cell.state for cell in row] == ["held", "held", "held", "short"]
    assert [cell.free_bytes for cell in row[:2]] == [2**30 - (65 << 21), 2**30 - (257 << 21)]


def test_a_length_keeps_the_answer_and_gives_the_prompt_the_rest() -> None:
    work = Workload(1_000, 200, 4, image_tokens=100, speculative_tokens=4, shared_prefix_tokens=600)
    assert at_length(work, 1_000, 2) == Workload(
        696, 200, 2, image_tokens=100, speculative_tokens=4, shared_prefix_tokens=600
    )
    short = at_length(work, 304, 1)  # 200 are left beside images and draft: half of them for the answer
    assert short is not None
    assert (short.prompt_tokens, short.output_tokens, short.shared_prefix_tokens, short.longest) == (100, 100, 200, 304)
    assert at_length(work, 104, 1) is None
    assert at_length(None, 100, 3) == Workload(requests=3)


def test_what_varies_is_mapped_as_if_all_were_alike() -> None:
    work = Workload(Lengths.lognormal(800, 4_000, 16_000), 100, 20)
    fixed = at_length(work, 2_000, 20)
    assert fixed == Workload(1_900, 100, 20)
    found = made(LLAMA, "vllm", {}, "h100-sxm", 1, work)
    assert round(work.mean_tokens) in fit_map(found).contexts
    assert found.length not in fit_map(found).contexts


def test_the_axes_have_the_limit_and_the_question_on_them() -> None:
    found = made(LLAMA, "vllm", {}, "h100-sxm", 1, Workload(7_000, 24, 20))
    assert contexts_of(found, found.length) == (1_024, 2_048, 4_096, 7_024, 8_192, 16_384, 32_768, 65_536, 131_072)
    assert requests_of(found, found.length) == (1, 2, 4, 8, 20, 32, 64, 128)
    far = made("meta-llama/Llama-4-Scout-17B-16E-Instruct", "vllm", {}, "h100-sxm", 8, Workload(900, 124, 2))
    assert contexts_of(far, 1_024)[-3:] == (1_048_576, 4_194_304, 10_485_760)


def test_what_the_engine_refuses_says_why() -> None:
    found = made(GEMMA, "llama.cpp", SERVER, "h100-sxm", 1, Workload(1_000, 24, 1))
    (cell,) = fit_map(found, (1_024,), (512,)).rows[0]
    assert (cell.state, cell.free_bytes) == ("refused", None)
    assert "at most 256" in cell.refusal
    capped = made(LLAMA, "vllm", {"max_num_seqs": 8}, "h100-sxm", 1, Workload(1_000, 24, 8))
    assert [row[0].state for row in fit_map(capped, (1_024,), (8, 16)).rows] == ["held", "refused"]
