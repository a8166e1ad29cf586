"""TensorRT-LLM's start-up logs: the C++ engines' lines and the PyTorch backend's, with the trial cache that it profiles with.

The PyTorch backend allocates twice: a small cache for a trial run, then the one that serves; the last counts. Other files:
`tensorrt_llm_shapes` (lines), `tensorrt_llm_explain` (beside ours).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from planner.engines import tensorrt_llm
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model
from validation.logs.commands import commands, plain_value, value_of, whole
from validation.logs.lines import Line
from validation.logs.log import Check, Figure, Log
from validation.logs.shapes import Found, scan
from validation.logs.tensorrt_llm_explain import Allocation, explain_log
from validation.logs.tensorrt_llm_shapes import COMMON, COUNTS, SHAPES

NAME: Final = "tensorrt-llm"
signs: Final[tuple[re.Pattern[str], ...]] = (
    re.compile(
        r"tokens in paged KV cache|tokens in paged kv cache|\[TensorRT-LLM\]|\[TRT-LLM\]|TensorRT-LLM version"
        r"|KV cache primary pool|primary blocks=\d|trtllm-(?:serve|bench|llmapi)|in memory usage profiling|for k/v cache"
        r"|Peak memory during memory usage profiling|max_tokens is set by kv_cache_config"
        r"|Max KV cache (?:blocks|pages) per sequence"
    ),
)
_PROGRAM: Final = re.compile(r"(?:^|[\s/])(?:trtllm-serve|trtllm-bench|trtllm-llmapi-launch)(?= )")
#: Names in printed settings and YAML, and the planner's.
_SETTINGS: Final[Mapping[str, str]] = {
    "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size",
    "kv_cache_free_gpu_memory_fraction": "free_gpu_memory_fraction",
    **{
        name: name for name in (
            "tensor_parallel_size", "pipeline_parallel_size", "max_seq_len", "max_input_len", "max_batch_size",
            "tokens_per_block", "free_gpu_memory_fraction", "enable_attention_dp", "max_tokens", "host_cache_size",
        )
    },
}  # fmt: skip


def read(lines: Sequence[Line]) -> Log:
    """What the log tells: the last allocation is the cache, one before it the trial's."""
    scanned = scan(lines, SHAPES)
    every = tuple(_figures(scanned.found))
    settings, name = _settings(lines)
    wanted = ("version", "free_gpu_memory_fraction")
    words = {key: one.words[key] for one in scanned.found for key in wanted if key in one.words}
    if "free_gpu_memory_fraction" in words and 0 < float(words["free_gpu_memory_fraction"]) < 1:
        settings["free_gpu_memory_fraction"] = float(words["free_gpu_memory_fraction"])
    printed = {figure.name: figure for figure in every}
    free = [figure for figure in every if figure.name == "available_bytes"]
    if free:  # every rank prints its own, and the least decides
        printed["available_bytes"] = min(free, key=lambda figure: figure.value)
    if "tokens_per_block" in printed:
        settings["tokens_per_block"] = int(printed["tokens_per_block"].value)
    cut = [f"line {line.number} is cut: {line.text.strip()[:80]}" for row, line in scanned.cut if row.starts not in COMMON]
    marks = ("inside torch", "PyTorchConfig", "max_tokens is set by kv_cache_config")
    torch = any(mark in line.text for line in lines for mark in marks)
    gpus = int(settings.get("tensor_parallel_size", 1)) * int(settings.get("pipeline_parallel_size", 1))
    batch = next((n for line in lines if (n := whole(value_of(line.text, "max_num_tokens")))), None)
    return Log(
        NAME, words.get("version"), name, settings, printed, every, None, gpus, tuple(dict.fromkeys(cut)),
        {"pytorch": torch, "allocations": tuple(_allocations(scanned.found)), "max_num_tokens": batch},
    )  # fmt: skip


def explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """The cache's volume, blocks and tokens beside ours, and which of the two allocations a figure is of."""
    return explain_log(log, model, gpu)


def _figures(found: Sequence[Found]) -> list[Figure]:
    """Every figure; of two allocations the first is the trial's."""
    allocated = [one for one in found if "kv_bytes" in one.words]
    trial = allocated[0] if len({one.words["kv_tokens"] for one in allocated}) > 1 else None
    figures = []
    for one in found:
        for name in one.words:
            if name.endswith("_bytes") or name in COUNTS:
                figure = one.figure(name)
                figures.append(replace(figure, name=f"trial_{name}") if one is trial else figure)
    return figures


def _allocations(found: Sequence[Found]) -> list[Allocation]:
    """Each allocation in order, with the blocks that were printed since the one before; a repeat is another rank's."""
    rows: dict[tuple[str, str], Allocation] = {}
    blocks: list[Figure] = []
    per: Figure | None = None
    for one in found:
        if "primary_blocks" in one.words:
            blocks.append(one.figure("primary_blocks"))
        if "tokens_per_block" in one.words:
            per = one.figure("tokens_per_block")
        if "kv_bytes" in one.words:
            # Pools by window print their blocks one after the other, and their tokens are no product of either.
            own = blocks[0] if len({figure.text for figure in blocks}) == 1 else None
            key = one.words["kv_tokens"], one.words["kv_bytes"]
            rows.setdefault(key, Allocation(one.figure("kv_tokens"), one.figure("kv_bytes"), own, per))
            blocks = []
    return list(rows.values())


def _settings(lines: Sequence[Line]) -> tuple[dict[str, Any], str | None]:
    """Settings of the command, of a YAML and of printed objects, and the model's name."""
    found: dict[str, Any] = {}
    name: str | None = None
    for line in lines:
        for key, setting in _SETTINGS.items():
            if key in line.text:
                _take(found, setting, value_of(line.text, key))
        match = re.match(r"\s*dtype: \"?(fp8|nvfp4|auto|int8)\"?\s*$", line.text)
        if match:
            _take(found, "kv_cache_dtype", match[1])
        match = re.search(r"\bmodel='([^'\n]{1,200})'", line.text)
        name = match[1] if match else name
    for command in commands(lines, _PROGRAM):
        for key, value in command.flags.items():
            plain = key.replace("-", "_")
            if plain in _SETTINGS:
                _take(found, _SETTINGS[plain], plain_value(value) if isinstance(value, str) else value)
            if plain == "model" and isinstance(value, str):
                name = value
        words = [word for word in command.words if word not in ("serve", "throughput", "latency", "build")]
        name = name or (words[0] if words else None)
    return found, name


def _take(found: dict[str, Any], setting: str, value: Any) -> None:
    """Keep what the planner's Settings accept."""
    if value is None:
        return
    try:
        tensorrt_llm.Settings(**{setting: value})
    except PlannerError:
        return
    found[setting] = value
