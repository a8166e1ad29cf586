"""Figures of public vLLM start-up logs, held to the engine: a model from the dimensions that a row states, what it printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from model_configs import read as read_model
from planner.engines import vllm
from planner.engines.vllm_setup import Setup, prepare
from planner.errors import InputError, PlannerError
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.units import GIB
from validation.logs.log import CheckLine, Figure, Log
from validation.logs.vllm_blocks import block_lines
from validation.logs.vllm_pool import compare, pool_bytes

Row = Mapping[str, Any]

_GPU_WORDS = ("MI300X", "H200", "H100", "A100", "L40S", "RTX PRO 6000", r"RTX \d{4}( Ti)?", "GH200", "GB10", r"\bT4\b", r"\bL4\b")
_FORKS = re.compile(r"fork|aphrodite|sglang|other|ascend|tpu|custom|b12x|dev1694|jetson", re.IGNORECASE)


@dataclass(frozen=True)
class LogCheck:
    """Which printed figures were compared, which disagree, or why the row was left out."""

    compared: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()
    left_out: str | None = None


def log_version(text: str) -> str | None:
    """The first version in a log's words, None where it has none ("2026", "V1", "0.2x-0.3x")."""
    match = re.search(r"(?<![\d.])0\.(\d+)(?:\.(\d+))?(?![\dx])", text)
    if not match:
        return None
    return f"0.{match[1]}.{match[2] or 0}"


def check_log(row: Row) -> LogCheck:
    """Each printed figure against ours, within the printed digits."""
    reason = _reason_to_leave_out(row)
    if reason:
        return LogCheck(left_out=reason)
    try:
        setup = prepare(model_of(row), settings_of(row), gpu_of(row))
    except PlannerError as error:
        return LogCheck(disagreements=(error.message,))
    lines = _lines(row, setup)
    if not lines:
        return LogCheck(left_out="it prints no figure of the pool that follows from the model and the settings")
    wrong = [f"{line.name} {line.ours:,}, printed {line.shown} ({line.rule})" for line in lines if not line.agrees]
    return LogCheck(tuple(line.name for line in lines), tuple(wrong))


def _reason_to_leave_out(row: Row) -> str | None:
    if row.get("matches") not in ("exact", "within_rounding"):
        why = row.get("why_not") or "too little is printed"
        return f"the row itself does not follow from the rules ({row.get('matches')}): {why}"
    if row.get("model_basis") != "stated":
        return "its dimensions were inferred from the figures"
    for words in (row.get("engine"), row.get("version"), row.get("gpu")):
        found = _FORKS.search(str(words or ""))
        if found:
            return f"not stock vLLM on a GPU ({words})"
    if log_version(str(row.get("version"))) is None:
        return f"no version that can be read ({row.get('version')})"
    if row.get("check_kind") == "memory_budget":
        return "it states the terms of the budget, not of the pool"
    if not row.get("dims"):
        return "it states no dimensions"
    return None


def settings_of(row: Row) -> vllm.Settings:
    """The settings that a log states in its fields and its flags."""
    flags = str(row.get("flags") or "")
    given: dict[str, Any] = {
        "version": log_version(str(row["version"])), "tensor_parallel_size": row.get("tp") or 1,
        "pipeline_parallel_size": row.get("pp") or 1, "max_model_len": row.get("max_model_len"),
        "kv_cache_dtype": str(row.get("kv_cache_dtype") or "auto").split()[0],
    }  # fmt: skip
    if match := re.search(r"decode-context-parallel-size (\d+)", flags):
        given["decode_context_parallel_size"] = int(match[1])
    if match := re.search(r"--block-size (\d+)", flags):
        given["block_size"] = int(match[1])
    if match := re.search(r"mbt (\d+)", flags):
        given["max_num_batched_tokens"] = int(match[1])
    if match := re.search(r"max_num_seqs (\d+)", flags):
        given["max_num_seqs"] = int(match[1])
    if "prefix caching off" in flags:
        given["enable_prefix_caching"] = False
    elif "prefix caching" in flags:
        given["enable_prefix_caching"] = True
    if match := re.search(r"MTP (?:n|K)=(\d+)", flags):
        given["speculative_config"] = {"method": "mtp", "num_speculative_tokens": int(match[1])}
    elif "EAGLE" in flags or "draft_model" in flags:
        dims = {"draft_kv_heads": row["dims"]["kv_heads"], "draft_head_dim": row["dims"]["head_dim"], **row["dims"]}
        draft = _plain(dims["draft_layers"], dims["draft_kv_heads"], dims["draft_head_dim"])
        given["speculative_config"] = {"method": "draft_model", "model": read_model(draft), "num_speculative_tokens": 1}
    if "language-model-only" in flags:
        given["language_model_only"] = True
    return vllm.Settings(**given)


def gpu_of(row: Row) -> Gpu:
    """The GPU that a log names; an H100 where it names none, because only block sizes and batches could tell."""
    text = str(row.get("gpu") or "")
    for words in _GPU_WORDS:
        match = re.search(words, text)
        if match:
            try:
                return find_gpu({"GB10": "dgx-spark"}.get(match[0], match[0]))
            except InputError:
                continue
    size = re.search(r"(\d+) ?GB", text)
    return find_gpu(f"{size[1]} GiB") if size else find_gpu("h100")


def _plain(layers: int, kv_heads: int, head_dim: int) -> dict[str, Any]:
    heads = kv_heads * 8
    return {
        "model_type": "llama", "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": head_dim, "hidden_size": heads * head_dim, "max_position_embeddings": 1 << 20, "torch_dtype": "bfloat16",
    }  # fmt: skip


def model_of(row: Row) -> Model:
    """The model that a row's dimensions describe, as a config of the plainest family with those caches."""
    dims = row["dims"]
    common = {"max_position_embeddings": 1 << 20, "torch_dtype": "bfloat16"}
    if dims.get("mla"):
        config: dict[str, Any] = {
            "model_type": "deepseek_v3", "num_attention_heads": 64, "hidden_size": 7168, "qk_nope_head_dim": 128,
            "num_hidden_layers": dims["layers"], "kv_lora_rank": dims["kv_lora_rank"], "qk_rope_head_dim": dims["rope_dim"],
        }  # fmt: skip
        if dims.get("index_head_dim"):
            owners = dims.get("indexer_layers", dims["layers"])
            kinds = ["full"] * owners + ["shared"] * (dims["layers"] - owners)
            config.update(model_type="glm_moe_dsa", index_head_dim=dims["index_head_dim"], indexer_types=kinds)
        return read_model({**config, **common})
    if "linear_layers" in dims:
        return read_model({**_hybrid(dims), **common})
    if dims.get("cross_attention"):
        width = dims["kv_heads"] * dims["head_dim"]
        return read_model(
            {"model_type": "whisper", "decoder_layers": dims["decoder_layers"], "decoder_attention_heads": dims["kv_heads"],
             "d_model": width, "num_hidden_layers": dims["decoder_layers"], "max_target_positions": 448, "torch_dtype": "float16"}
        )  # fmt: skip
    if "own_full" in dims or "sliding_layers" in dims:
        return read_model({**_sliding(dims), **common})
    return read_model(_plain(dims.get("attention_layers", dims["layers"]), dims["kv_heads"], dims["head_dim"]))


def _hybrid(dims: Row) -> dict[str, Any]:
    every = dims["layers"] // dims["full_layers"]
    return {
        "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "num_hidden_layers": dims["layers"],
        "num_attention_heads": dims["kv_heads"] * 4, "num_key_value_heads": dims["kv_heads"], "head_dim": dims["head_dim"],
        "hidden_size": 4096, "linear_num_key_heads": dims["lin_k_heads"], "linear_num_value_heads": dims["lin_v_heads"],
        "linear_key_head_dim": dims["lin_dim"], "linear_value_head_dim": dims["lin_dim"],
        "linear_conv_kernel_dim": dims.get("conv", 4), "full_attention_interval": every,
        "mamba_ssm_dtype": dims.get("ssm_dtype", "float32"),
    }  # fmt: skip


def _sliding(dims: Row) -> dict[str, Any]:
    config: dict[str, Any] = {
        "model_type": "gemma3_text", "num_attention_heads": dims["kv_heads"] * 4, "num_key_value_heads": dims["kv_heads"],
        "head_dim": dims["head_dim"], "hidden_size": 2048, "sliding_window": dims["window"], "num_hidden_layers": dims["layers"],
    }  # fmt: skip
    if "own_full" in dims:
        own = ["sliding_attention"] * dims["own_sliding"] + ["full_attention"] * dims["own_full"]
        shared = dims["kv_shared_layers"]
        config.update(
            model_type="gemma4_text", num_kv_shared_layers=shared, global_head_dim=dims["global_head_dim"],
            layer_types=own + ["full_attention"] * shared,
        )  # fmt: skip
    else:
        config["layer_types"] = ["sliding_attention"] * dims["sliding_layers"] + ["full_attention"] * dims["full_layers"]
    return config


#: A row's figures under the names of validation.logs; what ends in _gib has two decimals.
_NAMES: Final = {
    "available_kv_gib": "available_kv_bytes", "kv_bytes_in_use": "kv_cache_memory_bytes", "kv_tokens": "gpu_kv_cache_tokens",
    "gpu_blocks": "num_gpu_blocks", "cpu_blocks": "num_cpu_blocks", "max_concurrency": "max_concurrency",
    "kv_needed_gib": "kv_needed_bytes", "attention_block": "attention_block_size",
    "estimated_max_model_len": "estimated_max_model_len",
}  # fmt: skip


def _lines(row: Row, setup: Setup) -> tuple[CheckLine, ...]:
    """Each printed figure that can be compared, by the rules of validation.logs."""
    reported = {name: value for name, value in row["reported"].items() if name in _NAMES}
    if row.get("check_kind") != "block_bytes":
        reported.pop("cpu_blocks", None)
    printed = {_NAMES[name]: _figure(name, value) for name, value in reported.items()}
    length = row["reported"].get("at_tokens") or row.get("max_model_len") or setup.max_model_len
    if "kv_needed_bytes" in printed:
        printed["refused_max_model_len"] = Figure("refused_max_model_len", length, 0, str(length), 0)
    source = pool_bytes(printed, 1, 1)
    swap = re.search(r"swap space (\d+) GiB", str(row.get("note") or ""))
    log = Log("vllm", printed=printed, other={"swap_space": swap[1] if swap else None})
    lines = block_lines(log, setup)
    return lines + (compare(setup, printed, source, length).lines if source or "kv_needed_bytes" in printed else ())


def _figure(name: str, value: float) -> Figure:
    if name.endswith("_gib"):
        return Figure(_NAMES[name], round(value * GIB), GIB / 200, str(value), 0)
    return Figure(_NAMES[name], value, 0.005 if name == "max_concurrency" else 0, str(value), 0)
