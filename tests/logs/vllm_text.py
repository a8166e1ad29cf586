"""Start-up text of vLLM as its releases print it, written from the figures and settings of a row: what read() is tried on.

Only shapes of messages are fixed here; every number comes from the row. Where a shape needs a number that the row does not have
(the bare count of seconds, the free memory), a round one stands there that nothing is compared with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from planner.engines.vllm import Settings
from planner.engines.vllm_tables import version_key

Row = Mapping[str, Any]
#: Settings that the configuration line has, under its names; the others stand in the arguments.
_CONFIG = {
    "dtype": "dtype", "max_model_len": "max_seq_len", "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size", "data_parallel_size": "data_parallel_size",
    "decode_context_parallel_size": "decode_context_parallel_size", "kv_cache_dtype": "kv_cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
}  # fmt: skip


def start_up(row: Row, settings: Settings, version: str | None, old_engine: bool) -> str:
    """The log of one start, plain."""
    era = version or ("0.6.6" if old_engine else "0.19.0")
    lines = [*_settings_lines(row, settings, version, old_engine, era)]
    lines += _old_lines(row) if old_engine else _new_lines(row, version_key(era))
    return "\n".join(f"{_header(era, old_engine, name)}{text}" if name else text for name, text in lines) + "\n"


def _header(era: str, old_engine: bool, name: str) -> str:
    """The prefix of a message: time and line of code, in brackets from 0.8 on, with the process from 0.10 on."""
    file, _, process = name.partition("@")
    key = version_key(era)
    place = f"INFO 01-31 10:00:00 {file}.py:1] " if key < (0, 8) else f"INFO 01-31 10:00:00 [{file}.py:1] "
    if old_engine or key < (0, 10) or not process:
        return place
    if process == "EngineCore" and key < (0, 19):
        process = "EngineCore_DP0"
    return f"({process} pid=101) {place}"


def _settings_lines(row: Row, settings: Settings, version: str | None, old_engine: bool, era: str) -> Iterator[tuple[str, str]]:
    name = name_of(row)
    given = {field: getattr(settings, field) for field in settings.model_fields_set}
    drafts = given.pop("speculative_config", None)
    given.pop("version", None)
    arguments = {"model": name, **{field: value for field, value in given.items() if field not in _CONFIG and value is not None}}
    if row.get("gpu_memory_utilization"):
        arguments["gpu_memory_utilization"] = row["gpu_memory_utilization"]
    if not old_engine:
        yield "utils@APIServer", f"non-default args: {arguments!r}"
    config = {"dtype": "torch.bfloat16", "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "kv_cache_dtype": "auto"}
    config.update({_CONFIG[field]: value for field, value in given.items() if field in _CONFIG and value is not None})
    config.setdefault("quantization", _stored(row))
    said = "None"
    if drafts is not None:
        own = re.search(r"\+ (\S+) draft", str(row["model"]))
        model = f", model='{own[1] if own else 'a-draft'}'" if drafts.model else ""
        method = "eagle" if "EAGLE" in str(row.get("flags")) else drafts.method
        said = f"SpeculativeConfig(method='{method}'{model}, num_spec_tokens={drafts.num_speculative_tokens})"
    words = ", ".join(f"{field}={value}" for field, value in config.items())
    release = f" (v{version})" if version else ""
    engine = "an LLM engine" if old_engine else "a V1 LLM engine" if version_key(era) < (0, 30) else "an LLM engine"
    yield (
        "core@EngineCore",
        f"Initializing {engine}{release} with config: model='{name}', speculative_config={said}, tokenizer='{name}', "
        f"skip_tokenizer_init=False, trust_remote_code=True, {words}, seed=0, served_model_name={name}",
    )


def name_of(row: Row) -> str:
    """The model's name without the words that say how it is known."""
    return re.split(r" \(| \+ | or |, ", str(row["model"]))[0].strip()


def _stored(row: Row) -> str | None:
    word = str(row.get("quantization") or "").split()
    return word[0] if word and word[0] not in ("bf16", "fp16", "none") else None


def _old_lines(row: Row) -> Iterator[tuple[str, str]]:
    told = row["reported"]
    share, total = row.get("gpu_memory_utilization") or 0.9, told.get("total_gpu_gib")
    load, left = told.get("model_load_gib", 10.0), told.get("available_kv_gib")
    if "model_load_gib" in told:
        yield "model_runner", f"Loading model weights took {load:.4f} GB"
    if left is not None:
        outside = told.get("non_torch_gib", 0.1)
        peak = told.get("activation_peak_gib", 1.0 if total is None else round(total * share - load - outside - left, 2))
        yield "worker", "Memory profiling takes 5.01 seconds"
        if total is not None:
            yield "", (
                f"the current vLLM instance can use total_gpu_memory ({total:.2f}GiB) x gpu_memory_utilization ({share:.2f}) ="
                f" {load + outside + peak + left:.2f}GiB"
            )
        yield (
            "",
            f"model weights take {load:.2f}GiB; non_torch_memory takes {outside:.2f}GiB; PyTorch activation peak memory takes"
            f" {peak:.2f}GiB; the rest of the memory reserved for KV Cache is {left:.2f}GiB.",
        )
    if "gpu_blocks" in told:
        cpu = f", # CPU blocks: {told['cpu_blocks']}" if "cpu_blocks" in told else ", # CPU blocks: 0"
        yield "gpu_executor", f"# GPU blocks: {told['gpu_blocks']}{cpu}"
    if "max_concurrency" in told:
        yield "gpu_executor", f"Maximum concurrency for {_length(row)} tokens per request: {told['max_concurrency']:.2f}x"
    if "cudagraph_gib" in told:
        yield "model_runner", f"Graph capturing finished in 20 secs, took {told['cudagraph_gib']:.2f} GiB"
    if "estimated_max_model_len" in told:
        yield "", (
            f"ValueError: The model's max seq len ({_length(row)}) is larger than the maximum number of tokens that can be stored"
            f" in KV cache ({told['estimated_max_model_len']}). Try increasing `gpu_memory_utilization`"
        )


def _length(row: Row) -> int:
    return int(row["reported"].get("at_tokens") or row["max_model_len"])


def _new_lines(row: Row, key: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    told, left = row["reported"], row["reported"].get("available_kv_gib")
    digits: Callable[[float], str] = (lambda x: f"{x:.2f}") if key < (0, 16) else (lambda x: str(round(x, 2)))
    worker = "@Worker_TP0" if (row.get("tp") or 1) > 1 else "@EngineCore"
    if "attention_block" in told:
        yield "interface@EngineCore", (
            f"Setting attention block size to {told['attention_block']} tokens to ensure that attention page size is >= mamba"
            " page size."
        )
    if "mamba_padding_pct" in told:
        percent = told["mamba_padding_pct"]
        yield "interface@EngineCore", f"Padding mamba page size by {percent:.2f}% to ensure that they are equal."
    if "model_load_gib" in told:
        size = told["model_load_gib"]
        if key < (0, 8, 5):
            yield "gpu_model_runner", f"Loading model weights took {size:.4f} GB"
        else:
            kind = " memory" if key >= (0, 11) else ""
            number = str(round(size, 2)) if key >= (0, 16) else f"{size:.4f}"
            yield f"gpu_model_runner{worker}", f"Model loading took {number} GiB{kind} and 12.345678 seconds"
    if "padding_warning" in told:
        yield "kv_cache_utils@EngineCore", "Add {} padding layers, may waste at most {}% KV cache memory".format(
            *re.findall(r"[\d.]+", told["padding_warning"])
        )
    needs = "kv_needed_gib" in told and "kv_tokens" not in told
    if "available_kv_gib" in told and not needs:
        yield f"gpu_worker{worker}", f"Available KV cache memory: {digits(told['available_kv_gib'])} GiB"
    if "kv_tokens" in told and key >= (0, 30) and "max_concurrency" in told:
        yield "kv_cache_utils@EngineCore", (
            f"GPU KV cache size: {told['kv_tokens']:,} tokens, Maximum concurrency for {_length(row):,} tokens per request:"
            f" {told['max_concurrency']:.2f}x"
        )
    else:
        if "kv_tokens" in told:
            yield "kv_cache_utils@EngineCore", f"GPU KV cache size: {told['kv_tokens']:,} tokens"
        if "max_concurrency" in told:
            yield "kv_cache_utils@EngineCore", (
                f"Maximum concurrency for {_length(row):,} tokens per request: {told['max_concurrency']:.2f}x"
            )
    if "cudagraph_gib" in told:
        yield f"gpu_model_runner{worker}", f"Graph capturing finished in 20 secs, took {told['cudagraph_gib']:.2f} GiB"
    parts = [told.get(f"{name}_gib") for name in ("model_load", "activation_peak", "non_torch", "total_gpu", "cudagraph")]
    if all(part is not None for part in parts) and left is not None and (0, 10, 2) <= key < (0, 27):
        load, peak, outside, total, graphs = parts
        share = row.get("gpu_memory_utilization") or 0.9
        yield f"gpu_worker{worker}", (
            f"Free memory on device ({total - 0.5:.2f}/{total:.2f} GiB) on startup. Desired GPU memory utilization is ({share},"
            f" {total * share:.2f} GiB). Actual usage is {load:.2f} GiB for weight, {peak:.2f} GiB for peak activation,"
            f" {outside:.2f} GiB for non-torch memory, and {graphs:.2f} GiB for CUDAGraph memory. Current kv cache memory in use"
            f" is {left:.2f} GiB."
        )
    if "kv_bytes_in_use" in told:
        yield f"gpu_worker{worker}", f"Current kv cache memory in use is {told['kv_bytes_in_use']} bytes."
    override = re.search(r"num_gpu_blocks_override=(\d+)", str(row.get("flags")))
    if "gpu_blocks" in told and override:
        yield "core@EngineCore", f"Overriding num_gpu_blocks={told['gpu_blocks']} with num_gpu_blocks_override={override[1]}"
    elif "gpu_blocks" in told:
        blocks = told["gpu_blocks"]
        yield "loggers@APIServer", f"Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: {blocks}"
    if needs:
        name = "models's" if key < (0, 22) else "model's"
        yield "", (
            f"ValueError: To serve at least one request with the {name} max seq len ({_length(row)}),"
            f" ({digits(told['kv_needed_gib'])} GiB KV cache is needed, which is larger than the available KV cache memory"
            f" ({digits(told.get('available_kv_gib', 1.0))} GiB). " + _estimate(told)
        )


def _estimate(told: Row) -> str:
    if "estimated_max_model_len" not in told:
        return "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    longest = told["estimated_max_model_len"]
    return f"Based on the available memory, the estimated maximum model length is {longest}. Try increasing"
