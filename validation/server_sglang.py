"""A running SGLang: /server_info (before late 2025 /get_server_info), which holds its flags and what its scheduler allocated.

Source: SGLang 0.5.23, entrypoints/http_server.py, managers/scheduler_components/memory_usage.py; the older form in
managers/scheduler.py of 0.4.9 to 0.5.9. "GB" is 2^30 bytes, of the pools of keys and values alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.engines import sglang
from planner.engines.base import Pool
from planner.engines.versions import rules_at
from planner.errors import InputError, shown
from planner.hardware import Gpu
from planner.model import Model
from planner.units import GIB, format_bytes
from validation.logs.log import Check, CheckLine, check_of
from validation.server_http import Client
from validation.server_told import AMPLE, Told, by_budget, compared, whole, word

NAME: Final = "sglang"
_PATHS: Final = ("/server_info", "/get_server_info")
#: Flags that are read, where the server has them, under the names of sglang.Settings or another spelling of these.
_FLAGS: Final = (
    "version", "dtype", "kv_cache_dtype", "tp_size", "pp_size", "dp_size", "dcp_size", "enable_dp_attention", "context_length",
    "mem_fraction_static", "max_total_tokens", "max_running_requests", "page_size", "chunked_prefill_size", "cuda_graph_max_bs",
    "disable_piecewise_cuda_graph", "attention_backend", "dsa_prefill_backend", "dsa_decode_backend", "nsa_prefill_backend",
    "nsa_decode_backend", "moe_a2a_backend", "disable_radix_cache", "disable_overlap_schedule", "swa_full_tokens_ratio",
    "disable_hybrid_swa_memory", "mamba_ssm_dtype", "mamba_full_memory_ratio", "max_mamba_cache_size",
    "mamba_radix_cache_strategy", "mamba_scheduler_strategy", "speculative_algorithm", "speculative_num_steps",
    "speculative_eagle_topk", "speculative_num_draft_tokens",
)  # fmt: skip
#: Flags that leave the pools' bytes alone: one that the planner cannot read is left out, with a word about it.
_HARMLESS: Final = {"chunked_prefill_size", "cuda_graph_max_bs", "moe_a2a_backend", "attention_backend", "version"}


def read(client: Client) -> Told | None:
    """What the server says; None where it is no SGLang."""
    info = next((found for path in _PATHS if whole((found := client.get(path).fields()).get("max_total_num_tokens"))), None)
    if info is None:
        return None
    states = info.get("internal_states")
    replicas = [state for state in states if isinstance(state, dict)] if isinstance(states, list) else []
    state = min(replicas, key=_capacity, default={})
    flags = {**info, **{key: value for key, value in state.items() if value is not None}, "version": info.get("version")}
    settings, notes = _settings(flags)
    memory = state.get("memory_usage")
    memory = memory if isinstance(memory, dict) else {}
    figures: dict[str, float] = {}
    for name, value in (
        ("max_total_num_tokens", whole(info["max_total_num_tokens"])),
        ("swa_tokens", whole(memory.get("token_capacity_swa"))),
        ("max_running_requests", whole(state.get("effective_max_running_requests_per_dp"))),
        ("kvcache_gb", _number(memory.get("kvcache"))),
        ("weight_gb", _number(memory.get("weight"))),
    ):
        if value is not None:
            figures[name] = value
    path = word(flags.get("model_path"))
    served = word(flags.get("served_model_name")) or path
    return Told(NAME, word(info.get("version")), served, path, settings=settings, figures=figures, notes=notes)


def _capacity(state: Mapping[str, Any]) -> int:
    memory = state.get("memory_usage")
    return whole(memory.get("token_capacity")) or 0 if isinstance(memory, dict) else 0


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _settings(flags: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The flags as settings. A flag of bytes that the planner does not know is InputError; another is left out."""
    settings: dict[str, Any] = {}
    notes = []
    for flag in _FLAGS:
        value = flags.get(flag)
        if value is None or value == "":
            continue
        try:
            sglang.Settings(**{flag: value})
            if flag == "version":
                rules_at(NAME, value)
        except InputError:
            if flag not in _HARMLESS:
                raise
            notes.append(f"{flag} {shown(value)} is left out: the planner has no rule for it")
            continue
        settings[sglang.Settings.SPELLINGS.get(flag, flag)] = value
    return settings, tuple(notes)


def explain(told: Told, model: Model, settings: sglang.Settings, gpu: Gpu | None) -> Check:
    """Bytes of the pools, window tokens and requests at once for the server's own token count; the count itself by the GPU.

    kvcache = (tokens + padding rows) x bytes of a token on one rank, over all pools but that of recurrent states.
    """
    missing: list[str] = []
    lines: list[CheckLine | None]
    tokens = int(told.figures["max_total_num_tokens"])
    pool = sglang.pool(model, settings.model_copy(update={"max_total_tokens": tokens}), AMPLE, gpu)
    lines = [*_memory(told, pool, tokens), _requests(told, pool, settings, missing)]
    asked = settings.max_total_tokens
    if asked is not None and tokens == asked // pool.details["page_size"] * pool.details["page_size"]:
        lines.append(compared("max_total_num_tokens", tokens, pool.tokens, f"max_total_tokens {asked:,} in whole pages"))
    else:
        lines.append(by_budget(told, model, settings, gpu, "max_total_num_tokens", tokens, missing))
    size = pool.details["kv_bytes"]
    notes = [
        *told.notes,
        f"{tokens:,} tokens in pages of {pool.details['page_size']}, stored in {pool.details['kv_cache_dtype']}, take"
        f" {format_bytes(size)} on each GPU; shared by all requests of a replica",
    ]
    return check_of(lines, missing, rules=(*notes, *pool.warnings))


def _memory(told: Told, pool: Pool, tokens: int) -> list[CheckLine]:
    lines = []
    printed = told.figures.get("kvcache_gb")
    if printed is not None:
        ours = pool.details["kv_bytes"] / GIB
        slack = 0.005 if round(printed, 2) == printed else 0.0005  # half of the last digit that it was rounded to
        padded = pool.details["padding_bytes"]
        rule = f"in 2^30 bytes: the rows of all pools for {tokens:,} tokens, {padded:,} bytes of padding rows among them"
        lines.append(compared("kvcache_gb", printed, ours, rule, abs(printed - ours) <= slack + 1e-9, f"{printed:g} GB"))
    window = told.figures.get("swa_tokens")
    if window is not None and "swa_tokens" in pool.details:
        rule = "max_total_num_tokens x swa_full_tokens_ratio, in whole pages"
        lines.append(compared("swa_tokens", window, pool.details["swa_tokens"], rule))
    return lines


def _requests(told: Told, pool: Pool, settings: sglang.Settings, missing: list[str]) -> CheckLine | None:
    printed = told.figures.get("max_running_requests")
    if printed is None:
        return None
    if "mamba_slots" in pool.details and settings.max_mamba_cache_size is None:
        missing.append("--set max_mamba_cache_size=N: the state slots, which limit the requests at once; the start-up log has it")
        return None
    rule = "min(max(tokens / context_length x 512, 2048), 4096), what was asked for, and the state slots a request"
    return compared("max_running_requests", printed, pool.details["max_running_requests"], rule)
