"""The deployments that the planner has to be right about, as the tests of plans name them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import pytest

import model_configs
from planner import GIB
from planner.capacity import plan
from planner.capacity_plan import Plan
from planner.capacity_weights import as_gguf
from planner.model import Model
from planner.workload import Workload


@dataclass(frozen=True)
class Case:
    """A deployment by its words. weights: what its weights are stored as, if not as in the checkpoint."""

    model: str
    gpu: str
    gpus: int = 1
    engine: str = "vllm"
    settings: dict[str, Any] = field(default_factory=dict)
    weights: str | None = None

    @property
    def name(self) -> str:
        return f"{self.model.split('/')[1]} on {self.gpus} x {self.gpu}"

    def described(self) -> Model:
        return read(self.model, self.weights)

    def plan(self, workload: Workload | None = None, **words: Any) -> Plan:
        settings = {**self.settings, **words.pop("settings", {})}
        return plan(self.described(), self.engine, settings, self.gpu, self.gpus, workload, **{"advice": False, **words})


@functools.cache
def read(name: str, weights: str | None = None) -> Model:
    """A model of the catalogue, with its weights as in the checkpoint or as in a GGUF file of that type."""
    model = model_configs.read(f"catalogue:{name}")
    return as_gguf(model, weights) if weights else model


LONG = {"max_model_len": 32768}
CASES = (
    Case("meta-llama/Llama-3.1-8B", "l4", settings={"max_model_len": 8192}),
    Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 4, settings=LONG),
    Case("openai/gpt-oss-120b", "h100-sxm", settings=LONG),
    Case("deepseek-ai/DeepSeek-V3", "h200", 8, settings=LONG),
    Case("deepseek-ai/DeepSeek-V3", "h100-sxm", 16, settings={**LONG, "pipeline_parallel_size": 2}),
    Case("google/gemma-3-27b-it", "4090", engine="llama.cpp", settings={"front_end": "server"}, weights="Q4_K_M"),
    Case("Qwen/Qwen3-Next-80B-A3B-Instruct", "h100-sxm", 2, settings=LONG),
    Case("meta-llama/Llama-4-Scout-17B-16E-Instruct", "h100-sxm", 4, settings=LONG),
    Case("tiiuae/Falcon-H1-7B-Instruct", "a10g", settings={"max_model_len": 8192}),
    Case("openai/whisper-large-v3", "t4"),
)
CASE = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
#: Each engine on a model that it runs, with a budget that the figures are worked out for.
PAGED = ("vllm", "sglang", "tensorrt-llm", "tgi")
KV = {"kv": 16 * GIB}


def length_of(case: Case) -> int:
    """Tokens of a request that the deployment takes."""
    return 4096 if case.engine == "llama.cpp" else min(case.settings.get("max_model_len", 448), 4096)
