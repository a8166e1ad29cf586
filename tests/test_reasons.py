"""Formulas with their numbers: each line is worked out anew by a calculator, and its end is the figure that is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import model_configs
from model_configs import catalogue
from planner import cli
from planner.cache import architecture_bytes
from planner.capacity import plan
from planner.capacity_plan import Plan
from planner.capacity_reasons import plan_reasons
from planner.dtypes import FORMATS
from planner.engines import ENGINES, engine
from planner.engines.base import allocated
from planner.engines.explain import difference
from planner.explain_reasons import kv_reasons, total
from planner.hardware import gpu
from planner.reasons import Formula, Step, cited, lines, step, written
from planner.texts import TEXTS, Told, joined, tell
from planner.workload import Workload
from planner.workload_lengths import Lengths
from tests.arithmetic import calculated
from tests.deployments import CASE, Case

LLAMA, GEMMA, DEEPSEEK = "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"
NEXT, GPT_OSS, NEMOTRON = "Qwen/Qwen3-Next-80B-A3B-Instruct", "openai/gpt-oss-120b", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
WORK = Workload(2000, 500, 4)


def check(formula: Formula, end: float) -> None:
    """Each line is what a calculator makes of it, later lines take its result for what it is, and the last one is `end`."""
    assert formula
    known: dict[str, Any] = {}
    for one in formula:
        worked_out = calculated(one.numbers)
        assert worked_out == one.value or worked_out == pytest.approx(float(one.value), rel=1e-12), one
        for name, value in one.given.items():
            assert name not in known or known[name] == value or "{" + name + "}" not in one.rule, (name, one)
        known[one.name] = one.value
    assert formula[-1].value == end


def check_plan(found: Plan) -> None:
    for term in found.terms:
        check(term.formula, term.bytes)
        assert term.formula[-1].name.strip("_") == term.name.replace(" ", "_").replace("-", "_")
    why = plan_reasons(found)
    check(why["kv_budget_bytes"], found.kv_bytes)
    check(why["kv_need_bytes"], found.need_bytes)
    check(why["headroom_bytes"], found.headroom_bytes)
    check(why["max_context"], found.max_context)
    if found.max_requests is None:
        assert "max_requests" not in why
    else:
        check(why["max_requests"], found.max_requests)
        held(why["max_requests"])
    held(why["max_context"])


def held(formula: Formula) -> None:
    """The figure is within its limit, and one more is not, wherever both are shown."""
    asked = [one for one in formula if one.limit is not None]
    within = [one.value <= (one.limit or 0) for one in asked]
    assert within in ([], [True], [False], [True, False])


@pytest.mark.parametrize("work", [WORK, None], ids=["requests", "full"])
@pytest.mark.parametrize(
    ("engine", "name", "card", "gpus", "settings"),
    [
        ("vllm", LLAMA, "h100", 8, {}), ("vllm", GEMMA, "h100", 1, {}), ("vllm", DEEPSEEK, "h200", 8, {}),
        ("vllm", DEEPSEEK, "h200", 16, {"pipeline_parallel_size": 2}),
        ("vllm", NEXT, "h200", 4, {}), ("vllm", GPT_OSS, "h100", 2, {}), ("vllm", "openai/whisper-large-v3", "l4", 1, {}),
        ("vllm", LLAMA, "h100", 1, {"version": "0.6.0"}), ("vllm", LLAMA, "4090", 1, {"cpu_offload_gb": 4.0}),
        ("vllm", LLAMA, "h100", 1, {"kv_cache_memory_bytes": 10 << 30}),
        ("vllm", LLAMA, "h100", 1, {"num_gpu_blocks_override": 512}), ("vllm", LLAMA, "h100", 1, {"max_num_seqs": 8}),
        ("vllm", LLAMA, "h100", 2, {"enable_lora": True, "max_lora_rank": 16, "max_loras": 4}),
        ("vllm", LLAMA, "mi300x", 1, {}), ("vllm", LLAMA, "30GiB", 1, {}),
        ("sglang", LLAMA, "h100", 1, {}), ("sglang", NEXT, "h200", 4, {}), ("sglang", GPT_OSS, "h100", 2, {}),
        ("tensorrt-llm", LLAMA, "h100", 1, {}), ("tensorrt-llm", NEXT, "h200", 4, {}),
        ("tensorrt-llm", LLAMA, "h100", 1, {"max_gpu_total_bytes": 20 << 30}),
        ("tgi", LLAMA, "h100", 2, {}), ("tgi", LLAMA, "h100", 2, {"version": "2.0.0"}),
        ("transformers", LLAMA, "h100", 1, {}), ("transformers", GEMMA, "h100", 2, {}),
        ("llama.cpp", LLAMA, "4090", 2, {}), ("llama.cpp", GEMMA, "4090", 4, {"flash_attn": "off"}),
        ("llama.cpp", GPT_OSS, "m4-max", 1, {}),
    ],
)  # fmt: skip
def test_every_line_of_a_plan_can_be_worked_out(
    engine: str, name: str, card: str, gpus: int, settings: Mapping[str, Any], work: Workload | None
) -> None:
    """Sliding windows, MLA, hybrids, experts, tensor and pipeline ranks, two cards; budgets by each engine's own rule."""
    if name.startswith("openai/whisper"):
        work = Workload(200, 100, 4, encoder_tokens=1500) if work else None
    check_plan(plan(model_configs.read(name), engine, settings, card, gpus, work, advice=False))


@CASE
def test_the_deployments_of_the_other_tests_can_be_worked_out(case: Case) -> None:
    check_plan(case.plan())


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "tgi"])
def test_requests_that_share_or_vary_can_be_worked_out(engine: str) -> None:
    model = model_configs.read(LLAMA)
    for work in (
        Workload(2000, 500, 20, shared_prefix_tokens=1030, beams=3),
        Workload(Lengths.parse("p50=800,p95=4000", "prompt"), Lengths.parse("p50=200,p95=900", "output"), 30),
    ):
        check_plan(plan(model, engine, None, "h100", 1, work, advice=False))


def test_figures_that_the_person_gives_are_taken_as_they_are() -> None:
    given = {"weights": 15 << 30, "runtime": 2 << 30, "other processes": 1 << 30, "device": 79 << 30, "lora adapters": 1 << 20}
    found = plan(model_configs.read(LLAMA), "vllm", {"gpu_memory_utilization": 0.8}, "h100", 1, WORK, given, advice=False)
    check_plan(found)
    assert {term.name: term.formula[-1].symbols for term in found.terms if term.name in given} == dict.fromkeys(given, "given")


def test_weights_say_what_each_rank_holds_whole() -> None:
    """Llama-3.1-8B on 16 ranks: 8 KV heads, so each rank holds a whole one; the terms by hand."""
    found = plan(model_configs.read(LLAMA), "vllm", {"max_model_len": 4096}, "h100", 16, WORK, advice=False)
    weights = {one.name: one for one in found.terms[1].formula}
    hidden, head, layers = 4096, 128, 32
    norms = 4 * hidden * layers
    keys_and_values = hidden * 8 * 2 * head * layers
    assert weights["rank_dense"].given["repeated_kv"] == keys_and_values // 8 - keys_and_values // 16
    assert weights["rank_dense"].given["replicated"] == norms
    rows = -(-128_256 // (64 * 16)) * 64 * 16
    assert weights["embeddings"].value == rows * hidden * 2 // 16


# The KV answer


@pytest.mark.parametrize("dtype", [None, *FORMATS])
@pytest.mark.parametrize("name", [LLAMA, GEMMA, DEEPSEEK, NEXT, NEMOTRON])
def test_the_architectures_sum_can_be_worked_out(name: str, dtype: str | None) -> None:
    model = model_configs.read(name)
    cache = architecture_bytes(model, 4999, 3, kv_cache_dtype=dtype)
    for rule_name, rule in kv_reasons(model, cache, cache, dtype, gpu("h100"), 2).items():
        value = {
            "kv_cache_bytes": cache.total_bytes, "bytes_per_request": cache.total_bytes // 3,
            "average_bytes_per_token": cache.total_bytes // 3 / 4999,
            "gpu.share_percent": 100 * (-(-(model.weight_bytes or 0) // 2) + cache.total_bytes) / gpu("h100").usable_bytes,
        }[rule_name]  # fmt: skip
        check(rule, value)


def test_the_sum_of_every_model_of_the_catalogue_can_be_worked_out() -> None:
    for entry in catalogue.entries():
        model = model_configs.read(f"catalogue:{entry.id}")
        cache = architecture_bytes(model, 1000, 2, encoder_tokens=100)
        check(total(model, cache), cache.total_bytes)


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_an_engines_total_is_its_layers_and_the_way_from_the_architecture(name: str) -> None:
    model = model_configs.read(GEMMA)
    found, plain = engine(name), architecture_bytes(model, 5000, 3)
    cache = allocated(model, found, found.Settings(), 5000, 3)
    reasons = difference(model, found, found.Settings(), 5000, 3)
    why = kv_reasons(model, cache, plain, None, gpu("h100"), 1, reasons)
    check(why["kv_cache_bytes"], cache.total_bytes)
    check(why["architecture_bytes"], plain.total_bytes)
    if reasons:
        assert why["kv_cache_bytes"][-1].given["architecture"] == plain.total_bytes


# The shell


def test_the_shell_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", LLAMA, "--gpu", "h100", "--requests", "4", "--prompt", "2000", "--output", "500", "--price", "2.5"]
    assert cli.main([*words, "--why", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    figures = {
        "headroom_bytes": data["headroom_bytes"], "max_requests": data["max_requests"], "max_context": data["max_context"],
        "kv_need_bytes": data["kv_need_bytes"], "kv_budget_bytes": data["kv_budget_bytes"],
        "times.ttft_s": data["times"]["ttft_s"]["high"], "times.ttft_at_once_s": data["times"]["ttft_at_once_s"]["high"],
        "times.time_per_output_token_s": data["times"]["time_per_output_token_s"]["high"],
        "times.output_tokens_per_s": data["times"]["output_tokens_per_s"]["high"], "cost.per_hour": data["cost"]["per_hour"],
        "cost.per_million_low": data["cost"]["per_million_low"], "cost.per_million_high": data["cost"]["per_million_high"],
    }  # fmt: skip
    assert set(data["why"]) == set(figures)
    for name, rule in data["why"].items():
        assert calculated(rule[-1]["numbers"]) == pytest.approx(figures[name], rel=1e-12), name
    for term in data["terms"]:
        assert calculated(term["formula"][-1]["numbers"]) == term["bytes"]
    assert cli.main([*words, "--why"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n{term['name']}\n" in printed for term in data["terms"])
    assert f"= {data['kv_need_bytes']:,}\n" in printed


def test_times_follow_from_the_cards_own_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama-3.1-8B on an H100: 8.03 B parameters at 16 bits are read by 3,350 GB/s, which bounds a lone token from below."""
    assert cli.main(["plan", LLAMA, "--gpu", "h100", "--prompt", "100", "--output", "10", "--why", "--json"]) == 0
    low, _ = json.loads(capsys.readouterr().out)["why"]["times.time_per_output_token_s"]
    assert low["value"] > 2 * 7.5e9 / 3.35e12


# Writing


@pytest.mark.parametrize(
    ("number", "text"), [(1234567, "1,234,567"), (0.92, "0.92"), (-1200, "(-1,200)"), (3.0, "3"), (1_000_000.0, "1,000,000")]
)
def test_numbers_are_written_as_a_calculator_takes_them(number: float, text: str) -> None:
    assert written(number) == text
    assert calculated(text) == number


def test_a_line_is_said_in_the_readers_words() -> None:
    one: Step = step("kv_cache", "{blocks} x {bytes_per_block}", 30, blocks=10, bytes_per_block=3)
    rows = [{"name": one.name, "symbols": one.symbols, "numbers": one.numbers, "value": one.value}]
    assert lines(rows) == ["kv_cache = blocks x bytes_per_block", "  = 10 x 3 = 30"]
    assert lines(rows, str.upper)[0] == "KV_CACHE = BLOCKS x BYTES_PER_BLOCK"
    assert lines([{**rows[0], "limit": 29, "limit_name": "budget"}]) == [
        "kv_cache = blocks x bytes_per_block > budget", "  = 10 x 3 = 30 > 29",
    ]  # fmt: skip


def test_a_docstrings_source_is_cited() -> None:
    assert cited(architecture_bytes).startswith("layers.py for each kind's elements")
    assert cited(calculated) == ""


def test_what_is_told_keeps_its_code_through_json_and_copies() -> None:
    import copy
    import pickle

    text = tell("newer", engine="vllm", version="9", last="1")
    for same in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert isinstance(same, Told)
        assert (same, same.code, same.values) == (text, "newer", {"engine": "vllm", "version": "9", "last": "1"})
    assert json.loads(json.dumps([text])) == [TEXTS["newer"].format(engine="vllm", version="9", last="1")]
    assert joined(["a", "b", "a"]) == "a; b"
