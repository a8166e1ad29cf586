"""The reasons between architecture and engine: they add up exactly, and say what a person would."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engines.explain import Reason, difference
from planner.errors import PlannerError
from planner.model import Model
from validation import coverage_logs

GOLDEN = coverage_logs.load(coverage_logs.GOLDEN)
MODELS: dict[str, Model] = {name: coverage_logs.model_of(GOLDEN, {"model": name}) for name in GOLDEN["models"]}


def reasons(name: str, model: str, tokens: int, requests: int = 1, **settings: Any) -> dict[str, Reason]:
    engine = planner.engine(name)
    found = difference(MODELS[model], engine, engine.Settings(**settings), tokens, requests)
    total = engine.cache_bytes(MODELS[model], engine.Settings(**settings), tokens, requests).total_bytes
    plain = planner.architecture_bytes(MODELS[model], tokens, requests).total_bytes
    assert sum(reason.bytes for reason in found) == total - plain
    return {reason.code: reason for reason in found}


@pytest.mark.parametrize("name", ["sglang", "tensorrt-llm", "tgi", "vllm", "transformers"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tokens", [0, 100, 10_001])
def test_reasons_add_up(name: str, model: str, tokens: int) -> None:
    for settings in ({}, {"tensor_parallel_size": 2}):
        if settings and name == "transformers":
            continue
        try:
            reasons(name, model, tokens, 3, **settings)
        except PlannerError:
            continue


def test_window_layers_in_full() -> None:
    """gpt-oss-120b in TensorRT-LLM: 18 window layers hold all tokens instead of 127."""
    found = reasons("tensorrt-llm", "gpt-oss-120b", 10_240)
    assert list(found) == ["windows_full"]
    assert found["windows_full"].bytes == 18 * 2048 * (10_240 - 127)
    assert found["windows_full"].text == "+355.54 MiB: window layers hold all of the request's positions on 18 layers"


def test_replicated_heads_and_latents() -> None:
    found = reasons("sglang", "llama-3.1-8b", 1000, tensor_parallel_size=16)
    assert found["replicated"].text.endswith("KV heads replicated: TP 16 over 8 heads, 1 on each rank")
    assert found["ranks"].bytes == -131072 * 1000 * 15 // 16
    latent = reasons("sglang", "deepseek-v3", 1000, tensor_parallel_size=8)
    assert sum(reason.bytes for reason in latent.values()) == 0
    assert "each of 8 ranks" in latent["latent_replicated"].text
    assert "expanded" in reasons("tgi", "deepseek-v3", 1024, tensor_parallel_size=8)


def test_blocks_dtype_states_and_shared_layers() -> None:
    blocks = reasons("tensorrt-llm", "llama-3.1-8b", 100)
    assert blocks["blocks"].bytes == 28 * 131072
    assert "128 positions a request instead of 100" in blocks["blocks"].text
    narrow = reasons("sglang", "llama-3.1-8b", 100, kv_cache_dtype="fp8_e4m3")
    assert narrow["dtype"].bytes == -100 * 65536
    assert "fp8_e4m3" in narrow["dtype"].text
    gemma = reasons("sglang", "gemma-4-e4b", 10_000)
    assert gemma["shared"].layers == 18
    assert gemma["windows_more"].bytes > 0
    assert "states" in reasons("sglang", "qwen3.6-27b", 100)
    stages = reasons("sglang", "llama-3.1-8b", 100, pipeline_parallel_size=2)
    assert stages["stages"].bytes == -100 * 65536
    shared = reasons("sglang", "llama-3.1-8b", 100, 4, tensor_parallel_size=2, data_parallel_size=2, enable_dp_attention=True)
    assert shared["replicas"].bytes == -200 * 131072
