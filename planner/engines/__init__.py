"""The engines that the planner knows, by name."""

from __future__ import annotations

from typing import cast

from planner.engines import llama_cpp, sglang, tensorrt_llm, tgi, transformers, vllm
from planner.engines.base import Engine, EngineSettings
from planner.errors import InputError, shown

ENGINES: dict[str, Engine] = {
    "transformers": cast(Engine, transformers),
    "vllm": cast(Engine, vllm),
    "llama.cpp": cast(Engine, llama_cpp),
    "sglang": cast(Engine, sglang),
    "tensorrt-llm": cast(Engine, tensorrt_llm),
    "tgi": cast(Engine, tgi),
}


def engine(name: str) -> Engine:
    """The engine called `name`. InputError naming the known ones otherwise."""
    if name not in ENGINES:
        raise InputError(f"{shown(name)} is not a known engine; it is one of {', '.join(ENGINES)}", field="engine")
    return ENGINES[name]


__all__ = ["ENGINES", "Engine", "EngineSettings", "engine"]
