"""The engines as the page offers them, and their settings as inputs: read from the pydantic fields, named by the flags."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from planner import engines
from planner.engines.base import Engine
from planner.engines.versions import version_key
from planner.engines.vllm_tables import table

ARCHITECTURE = "architecture"
#: In the order of the page; Ollama is llama.cpp with its own defaults. A link carries these words, so they are not translated.
OPTIONS = (ARCHITECTURE, "transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp", "ollama")
#: As their makers write them.
LABELS = {
    "transformers": "transformers", "vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM", "tgi": "TGI",
    "llama.cpp": "llama.cpp", "ollama": "Ollama",
}  # fmt: skip
#: The settings in sight, by what they are in a person's words; the rest is in the expander.
IN_SIGHT: dict[str, dict[str, str]] = {
    "transformers": {"dtype": "dtype", "cache": "cache_implementation", "static": "max_cache_len"},
    "vllm": {
        "kv": "kv_cache_dtype", "tp": "tensor_parallel_size", "length": "max_model_len", "block": "block_size",
    },
    "sglang": {"kv": "kv_cache_dtype", "tp": "tensor_parallel_size", "length": "context_length", "block": "page_size"},
    "tensorrt-llm": {
        "kv": "kv_cache_dtype", "tp": "tensor_parallel_size", "length": "max_seq_len", "block": "tokens_per_block",
    },
    "tgi": {"kv": "kv_cache_dtype", "tp": "num_shard", "length": "max_total_tokens", "attention": "attention"},
    "llama.cpp": {"kv_k": "cache_type_k", "kv_v": "cache_type_v", "cells": "n_ctx", "front_end": "front_end"},
    "ollama": {"kv_k": "cache_type_k", "kv_v": "cache_type_v", "cells": "n_ctx"},
}  # fmt: skip
#: What no input of one value can say, and what is asked for elsewhere.
_LEFT_OUT = {"version", "speculative_config", "speculative_draft_model", "ctx_type"}
#: Settings of one engine that move nothing on this page: vLLM's figure is that of one replica and the requests it is given.
_NOT_HERE = {("vllm", "data_parallel_size"), ("ollama", "front_end")}
#: The default version where the settings leave it open: the newest that is known.
NEWEST = "newest"
_OLLAMA_VERSIONS = ("0.30.0", "0.5.13", "0.4.7", "0.3.14")
_LLAMA_FLAGS = {
    "n_ctx": "-c", "n_seq_max": "-np", "n_batch": "-b", "n_ubatch": "-ub", "cache_type_k": "-ctk", "cache_type_v": "-ctv",
    "flash_attn": "-fa", "swa_full": "--swa-full", "kv_unified": "--kv-unified",
}  # fmt: skip
_OLLAMA_FLAGS = {
    "n_seq_max": "OLLAMA_NUM_PARALLEL", "cache_type_k": "OLLAMA_KV_CACHE_TYPE", "cache_type_v": "OLLAMA_KV_CACHE_TYPE",
    "flash_attn": "OLLAMA_FLASH_ATTENTION", "n_ctx": "OLLAMA_CONTEXT_LENGTH × slots",
}  # fmt: skip
_TRT_FLAGS = {
    "tensor_parallel_size": "--tp_size", "pipeline_parallel_size": "--pp_size", "max_seq_len": "--max_seq_len",
    "max_batch_size": "--max_batch_size", "free_gpu_memory_fraction": "--kv_cache_free_gpu_memory_fraction",
    "backend": "--backend", "kv_cache_dtype": "kv_cache_config.dtype", "dtype": "dtype", "max_input_len": "max_input_len",
    "enable_attention_dp": "enable_attention_dp", "num_nextn_predict_layers": "speculative_config.num_nextn_predict_layers",
    "max_draft_len": "speculative_config.max_draft_len",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One setting as an input. `choices` for a list, `number` int or float for a number, neither for a switch or a text."""

    name: str
    flag: str
    kind: Literal["switch", "three_way", "choice", "number", "text"]
    default: Any
    optional: bool
    choices: tuple[Any, ...] = ()
    number: type = int
    low: float | None = None
    high: float | None = None


def engine_of(option: str) -> Engine:
    """The engine behind an option of the page."""
    return engines.engine("llama.cpp" if option == "ollama" else option)


def key(option: str, name: str) -> str:
    """The key of a setting's input, which is its name in a link. One older name is kept: `cache`."""
    return "cache" if (option, name) == ("transformers", "cache_implementation") else f"{option}.{name}"


def fields(option: str) -> dict[str, Field]:
    """Every setting of an engine that one input can hold, by name and in the order of its Settings."""
    found = {}
    for name, info in engine_of(option).Settings.model_fields.items():
        if name in _LEFT_OUT or (option, name) in _NOT_HERE:
            continue
        field = _field(option, name, info)
        if field is not None:
            found[name] = field
    return found


def _field(option: str, name: str, info: FieldInfo) -> Field | None:
    annotation = info.annotation
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    optional = type(None) in members
    members = tuple(member for member in members if member is not type(None))
    literal = next((member for member in members if get_origin(member) is Literal), None)
    common: dict[str, Any] = {"name": name, "flag": flag(option, name), "default": info.default, "optional": optional}
    if (option, name) == ("vllm", "kv_cache_dtype"):
        return Field(kind="choice", choices=tuple(table("dtypes")["formats"]), **common)
    if literal is not None:
        return Field(kind="choice", choices=get_args(literal), **common)
    if members == (bool,):
        return Field(kind="three_way" if optional else "switch", **common)
    if members in ((int,), (float,)):
        return Field(kind="number", number=members[0], **_bounds(info, members[0]), **common)
    return Field(kind="text", **common) if members == (str,) else None


def _bounds(info: FieldInfo, number: type) -> dict[str, Any]:
    """The limits that a number input is given; an exclusive one is the nearest value inside it."""
    limits: dict[str, Any] = {}
    nudge = 1 if number is int else 0.01
    for rule in info.metadata:
        for word, where, shift in (("ge", "low", 0), ("gt", "low", nudge), ("le", "high", 0), ("lt", "high", -nudge)):
            if (value := getattr(rule, word, None)) is not None:
                limits[where] = number(value + shift)
    return limits


def flag(option: str, name: str) -> str:
    """What the engine itself calls a setting: a flag, a word of its configuration file, or an environment variable."""
    if option in ("vllm", "sglang"):
        return "--" + name.replace("_", "-")
    if option == "tgi":
        return "ATTENTION" if name == "attention" else "--" + name.replace("_", "-")
    if option == "tensorrt-llm":
        return _TRT_FLAGS.get(name, f"kv_cache_config.{name}")
    return (_OLLAMA_FLAGS if option == "ollama" else _LLAMA_FLAGS if option == "llama.cpp" else {}).get(name, name)


def versions(option: str) -> tuple[str, ...]:
    """The versions on offer, the default first, then the newest of the known ones; another may be typed."""
    if option == "ollama":
        return (NEWEST, *_OLLAMA_VERSIONS)
    engine = engine_of(option)
    default = engine.Settings.model_fields["version"].default or NEWEST
    known = list(engine.VERSIONS)
    if option == "llama.cpp":
        known.reverse()  # commits and builds, which stand in order of time
    else:
        known.sort(key=version_key, reverse=True)
    return (default, *(version for version in known if version != default))
