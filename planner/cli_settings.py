"""An engine's settings from the shell's flags: the common words under each engine's own names, and any other by name."""

from __future__ import annotations

import argparse
import json
from typing import Any

from planner.dtypes import storage_format
from planner.engines import engine
from planner.engines.base import EngineSettings
from planner.errors import InputError

#: What the common flags are called in each engine's settings.
NAMES: dict[str, dict[str, str]] = {
    "transformers": {"cache_implementation": "cache_implementation"},
    "vllm": {
        "kv_cache_dtype": "kv_cache_dtype", "tensor_parallel_size": "tensor_parallel_size",
        "pipeline_parallel_size": "pipeline_parallel_size", "max_model_len": "max_model_len", "block_size": "block_size",
    },
    "sglang": {
        "kv_cache_dtype": "kv_cache_dtype", "tensor_parallel_size": "tensor_parallel_size",
        "pipeline_parallel_size": "pipeline_parallel_size", "max_model_len": "context_length", "block_size": "page_size",
    },
    "tensorrt-llm": {
        "kv_cache_dtype": "kv_cache_dtype", "tensor_parallel_size": "tensor_parallel_size",
        "pipeline_parallel_size": "pipeline_parallel_size", "max_model_len": "max_seq_len", "block_size": "tokens_per_block",
    },
    "tgi": {"kv_cache_dtype": "kv_cache_dtype", "tensor_parallel_size": "num_shard", "max_model_len": "max_total_tokens"},
    "llama.cpp": {"kv_cache_dtype": "cache_type_k"},
}  # fmt: skip
COMMON = (
    "kv_cache_dtype", "tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "block_size", "cache_implementation",
)  # fmt: skip
_GGML = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "fp16": "f16", "fp32": "f32"}


def settings_of(name: str, arguments: argparse.Namespace) -> EngineSettings:
    """The settings of engine `name` for a command line. InputError for a flag that the engine does not have."""
    values: dict[str, Any] = {}
    for flag in COMMON:
        value = getattr(arguments, flag)
        if value is None or (flag == "kv_cache_dtype" and value == "auto"):
            continue
        if name == "transformers" and flag == "kv_cache_dtype":
            values.update(_transformers_dtype(value))
        elif flag not in NAMES[name]:
            raise InputError(f"{name} has no --{flag.replace('_', '-')}", field=flag)
        elif name == "llama.cpp":
            values.update(cache_type_k=_GGML.get(value, value), cache_type_v=_GGML.get(value, value))
        else:
            values[NAMES[name][flag]] = value
    if arguments.engine_version is not None:
        values["version"] = arguments.engine_version
    values.update(_named(name, arguments.set or ()))
    return engine(name).Settings(**values)


def ranks_of(settings: EngineSettings) -> int:
    """GPUs that hold one copy of the model together."""
    tensor = getattr(settings, "tensor_parallel_size", None) or getattr(settings, "num_shard", 1)
    return int(tensor or 1) * int(getattr(settings, "pipeline_parallel_size", 1))


def _transformers_dtype(text: str) -> dict[str, Any]:
    """A wide type is the model's dtype, a narrow one a quantized cache: fp8 its own backend, whole groups with hqq."""
    kind = storage_format(text).name
    if kind in ("float32", "float16", "bfloat16"):
        return {"dtype": kind}
    if kind.startswith("fp8"):
        return {"cache_implementation": "quantized", "backend": "fp8"}
    if kind.startswith("int"):
        return {"cache_implementation": "quantized", "backend": "hqq", "nbits": int(kind.removeprefix("int"))}
    raise InputError(f"transformers has no cache of {kind}", field="kv_cache_dtype")


def _named(name: str, pairs: list[str] | tuple[()]) -> dict[str, Any]:
    """Settings given as NAME=VALUE, the value as JSON where it is any (true, 4096, [1, 2]), else as text."""
    values = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in engine(name).Settings.model_fields:
            known = ", ".join(engine(name).Settings.model_fields)
            raise InputError(f"--set {pair}: write NAME=VALUE; the settings of {name} are {known}", field="set")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    return values
