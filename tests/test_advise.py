"""Advice: each change makes the plan fit when it is made, and says what it costs."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

import model_configs
from planner.advise_texts import TEXTS
from planner.capacity import plan
from planner.capacity_plan import Advice, Plan
from planner.capacity_weights import as_gguf
from planner.model import Model
from planner.workload import Workload


@functools.cache
def read(name: str) -> Model:
    return model_configs.read(f"catalogue:{name}")


#: Deployments that do not fit, and a change that has to be among the advice for each.
SHORT: tuple[tuple[str, str, dict[str, Any], str, int, Workload | None, set[str]], ...] = (
    ("meta-llama/Llama-3.1-8B", "vllm", {}, "l4", 1, None, {"shorter_context", "more_gpus", "other_gpu"}),
    ("meta-llama/Llama-3.1-8B", "vllm", {"max_model_len": 8192}, "h100-sxm", 1, Workload(requests=90),
     {"fewer_requests", "kv_dtype"}),
    ("meta-llama/Llama-3.1-8B", "sglang", {}, "l4", 1, None, {"two_changes", "more_gpus"}),
    ("meta-llama/Llama-3.1-8B", "sglang", {}, "a10g", 2, Workload(requests=3), {"shorter_context"}),
    ("meta-llama/Llama-3.1-8B", "tgi", {"max_total_tokens": 100_000}, "l4", 1, None, {"shorter_context"}),
    ("meta-llama/Llama-3.1-8B", "tensorrt-llm", {}, "l4", 1, None, {"shorter_context"}),
    ("google/gemma-3-27b-it", "llama.cpp", {"n_ctx": 32768, "front_end": "server"}, "4090", 1, None, {"weights", "more_gpus"}),
    ("google/gemma-3-27b-it", "tgi", {"max_total_tokens": 65536}, "h100-sxm", 1, None, {"engine", "shorter_context"}),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "vllm", {"max_model_len": 32768}, "h100-sxm", 2, None, {"more_gpus", "other_gpu"}),
    ("Qwen/Qwen2.5-72B-Instruct", "vllm", {"data_parallel_size": 4}, "h100-sxm", 4, None, {"split"}),
    ("meta-llama/Llama-3.1-8B", "vllm", {"max_model_len": 131072}, "h100-sxm", 32, Workload(requests=200), {"more_gpus"}),
)  # fmt: skip
IDS = [f"{row[0].split('/')[1]}-{row[1]}-{row[3]}" for row in SHORT]


def made(one: Plan, advice: Advice) -> Plan:
    """The plan with the advised change, from nothing but its words."""
    model, change = one.model, advice.change
    if "weights" in change:
        model = as_gguf(model, change["weights"])
    own = {name: getattr(one.deployment.settings, name) for name in one.deployment.settings.model_fields_set}
    settings = {} if "engine" in change else own
    if "engine" in change:
        settings = {"max_model_len": one.context}
    work = one.workload
    if "workload" in change:
        work = replace(work, **change["workload"]) if work else Workload(requests=change["workload"]["requests"])
    return plan(
        model, change.get("engine", one.engine), {**settings, **change.get("settings", {})}, change.get("gpu", one.gpu),
        change.get("gpus", one.gpus), work, advice=False,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "engine", "settings", "gpu", "gpus", "work", "codes"), SHORT, ids=IDS)
def test_each_change_makes_it_fit(
    name: str, engine: str, settings: dict[str, Any], gpu: str, gpus: int, work: Workload | None, codes: set[str]
) -> None:
    one = plan(read(name), engine, settings, gpu, gpus, work)
    assert not one.fits
    assert codes <= {advice.code for advice in one.advice}
    for advice in one.advice:
        after = made(one, advice)
        assert after.fits, advice.text
        assert (advice.verdict, advice.headroom_bytes) == ("fits", after.headroom_bytes)
        assert (advice.max_requests, advice.max_context) == (after.max_requests, after.max_context)
        assert advice.command == after.command
        assert advice.text


def test_small_changes_come_first() -> None:
    """Flags, then a shorter context, then storage, then another layout, then more and other GPUs."""
    order = list(TEXTS)
    for name, engine, settings, gpu, gpus, work, _ in SHORT:
        places = [order.index(advice.code) for advice in plan(read(name), engine, settings, gpu, gpus, work).advice]
        assert places == sorted(places)


def test_the_longest_context_is_advised() -> None:
    """One token more than the advised context does not fit."""
    one = plan(read("meta-llama/Llama-3.1-8B"), "vllm", None, "l4")
    advice = next(advice for advice in one.advice if advice.code == "shorter_context")
    longer = {"max_model_len": advice.change["settings"]["max_model_len"] + 1}
    assert not plan(one.model, "vllm", longer, "l4", advice=False).fits


def test_nothing_is_advised_that_does_not_help() -> None:
    """With a cache of no bytes, whatever the GPU, no change makes it fit."""
    one = plan(read("meta-llama/Llama-3.1-8B"), "vllm", {"max_model_len": 131072}, "h100-sxm", given={"kv": 0})
    assert not one.fits
    assert one.advice == ()


def test_what_the_room_buys() -> None:
    one = plan(read("Qwen/Qwen2.5-72B"), "vllm", {"max_model_len": 8192}, "h200", 4)
    found = {advice.code: advice for advice in one.advice}
    assert set(found) == {"more_requests", "longer_context", "fewer_gpus"}
    assert found["more_requests"].change["workload"]["requests"] == one.max_requests
    assert found["longer_context"].change["settings"]["max_model_len"] == one.max_context == 131072
    assert found["fewer_gpus"].gpus < 4
    for advice in found.values():
        after = made(one, advice)
        assert after.fits
        assert (advice.headroom_bytes, advice.max_requests, advice.max_context) == (
            after.headroom_bytes, after.max_requests, after.max_context,
        )  # fmt: skip
        assert advice.headroom_bytes < one.headroom_bytes
    full = plan(one.model, "vllm", {"max_model_len": 8192}, "h200", 4, Workload(requests=one.max_requests or 1))
    assert "more_requests" not in {advice.code for advice in full.advice}
