"""Rows of public vLLM logs as text, and which of them have enough to be reconciled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from model_configs import catalogue
from planner.engines.vllm import Settings
from planner.engines.vllm_tables import version_key
from planner.model import Model
from tests.logs.vllm_text import name_of, start_up
from validation.logs.models import candidates
from validation.vllm_logs import log_version, model_of, settings_of

Row = Mapping[str, Any]
_OTHER_SOFTWARE = re.compile(r"fork|aphrodite|sglang|other|ascend|tpu|custom|b12x|dev1694|jetson|\bNIM\b|dspark|c\+\+|xpu", re.I)
_DESCRIBED = {"kv_heads", "kv_lora_rank", "decoder_layers"}
#: What a row must print of one start for its figures to follow from each other.
_FOLLOWS = (
    {"available_kv_gib", "kv_tokens"}, {"available_kv_gib", "gpu_blocks"}, {"available_kv_gib", "max_concurrency"},
    {"kv_bytes_in_use", "gpu_blocks"}, {"kv_tokens", "max_concurrency"}, {"gpu_blocks", "max_concurrency"}, {"kv_needed_gib"},
    {"attention_block"}, {"cpu_blocks"}, {"available_kv_gib", "total_gpu_gib", "activation_peak_gib", "non_torch_gib"},
)  # fmt: skip


def reason_to_leave_out(row: Row) -> str | None:
    """Why a row has not enough data, or is none of vLLM's own logs; None where it is to be reconciled."""
    if str(row.get("matches")) == "no":
        return f"its own arithmetic does not close: {row.get('why_not')}"
    for words in (row.get("engine"), row.get("version"), row.get("gpu"), row.get("model")):
        if _OTHER_SOFTWARE.search(str(words or "")):
            return f"not stock vLLM on a GPU ({words})"
    if row.get("check_kind") == "none":
        return f"too little is printed, or of a model that the row does not describe: {row.get('why_not') or row.get('note')}"
    if not any(names <= set(row["reported"]) for names in _FOLLOWS):
        return f"no two of its figures follow from each other ({', '.join(row['reported'])})"
    if row.get("dims") and not _DESCRIBED & set(row["dims"]):
        return "it does not say the heads of its layers"
    return None


def release(row: Row) -> tuple[str | None, bool]:
    """The release to print, None where the row does not say one, and whether it is engine V0."""
    said = str(row.get("version"))
    version = log_version(said)
    old = "V0" in said or (version is not None and version_key(version) < (0, 8) and "V1" not in said)
    return (f"{version}rc1.dev1" if version and "rc" in said else version), old


def text_of(row: Row) -> str:
    version, old = release(row)
    return start_up(row, _settings(row, version), version, old)


def _settings(row: Row, version: str | None) -> Settings:
    return settings_of({**row, "version": version or "0.19.0"})


def model_for(row: Row, configs: Path | None) -> Model | str | None:
    """None where the catalogue has the log's name; else its config, else the model that the row's dimensions describe, whose
    weights are nobody's.
    """
    if any(catalogue.find(name) for name in candidates(name_of(row))):
        return None
    path = configs / f"{name_of(row).replace('/', '__')}.json" if configs else None
    if path is not None and path.is_file():
        return str(path)
    return replace(model_of(row), weights=None) if row.get("dims") else None
