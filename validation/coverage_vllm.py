"""How well the vLLM engine agrees with vLLM: its own classes run over real configs, its refusals, and public start-up logs.

`tallies(truth)` measures everything; docs/COVERAGE.md shows it. Nothing here loads torch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from model_configs import read as read_model
from planner.engines import vllm
from planner.engines.base import Pool
from planner.errors import EngineRefusal, PlannerError
from planner.model import Model
from validation.coverage import json_lines
from validation.vllm_logs import LogCheck, check_log

Row = Mapping[str, Any]
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class VllmTally:
    """Rows compared: how many agree, each miss and each row left out with its reason."""

    name: str
    rows: int = 0
    agree: int = 0
    misses: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.agree / self.rows if self.rows else 0.0

    def line(self) -> str:
        """One row of the table in docs/COVERAGE.md."""
        return f"| {self.name} | {self.rows} | {self.agree} ({100 * self.share:.2f}%) | {len(self.left_out)} |"


class Models:
    """Models of a truth folder's configs, each file read once."""

    def __init__(self, configs: Path) -> None:
        self.configs = configs
        self._read = functools.cache(self._of_file)

    def _of_file(self, name: str) -> Model | PlannerError:
        try:
            return read_model(self.configs / name)
        except PlannerError as error:
            return error

    def get(self, name: str) -> Model:
        """The model of a config file. PlannerError where it cannot be read."""
        found = self._read(name)
        if isinstance(found, PlannerError):
            raise found
        return found


def settings_of(row: Row, models: Models) -> vllm.Settings:
    """The settings that a row of vllm.jsonl was computed under."""
    given: dict[str, Any] = {
        "version": row["version"], "dtype": row["dtype"], "kv_cache_dtype": row["kv_cache_dtype"],
        "tensor_parallel_size": row["tp"], "pipeline_parallel_size": row["pp"],
        "max_model_len": row.get("requested_max_model_len") or row["max_model_len"],
        "max_num_batched_tokens": row["max_num_batched_tokens"], "max_num_seqs": row["max_num_seqs"],
        "enable_prefix_caching": row["enable_prefix_caching"],
    }  # fmt: skip
    if row.get("dcp"):
        given["decode_context_parallel_size"] = row["dcp"]
    if row.get("user_block_size"):
        given["block_size"] = row["user_block_size"]
    extra = dict(row.get("engine_args") or {})
    speculative = extra.pop("speculative_config", None)
    given.update(extra)
    if speculative:
        draft = speculative.get("model")
        model = {"model": models.get(f"drafts/{draft}.json")} if draft else {}
        given["speculative_config"] = {**speculative, **model}
    return vllm.Settings(**given)


def differences(pool: Pool, row: Row) -> list[str]:
    """Which of the five figures differ, each with ours and vLLM's."""
    stages = row.get("bytes_per_block_per_pp_rank")
    wanted = {
        "fits": row["fits"], "num_blocks": row["num_blocks"], "tokens": row["kv_tokens"],
        "bytes_per_block": max(stages) if stages and row["pp"] > 1 else row["bytes_per_block_total"],
        "max_concurrency": row["max_concurrency"],
    }  # fmt: skip
    return [f"{name} {getattr(pool, name)}, vLLM {value}" for name, value in wanted.items() if getattr(pool, name) != value]


def compare(rows: Iterable[Row], models: Models, name: str) -> VllmTally:
    """Each row's pool against the prediction."""
    tally = VllmTally(name)
    for row in rows:
        tally.rows += 1
        where = f"{row['gpu']} {row['kv_cache_dtype']} tp{row['tp']} L{row['max_model_len']} {row['variant']}"
        label = f"{row['config_file']} {where}"
        try:
            pool = vllm.pool(
                models.get(row["config_file"]), settings_of(row, models), budget_bytes=row["available_bytes"], gpu=row["gpu"]
            )
        except PlannerError as error:
            tally.misses.append(f"{label}: {error.message}")
            continue
        found = differences(pool, row)
        if found:
            tally.misses.append(f"{label}: {'; '.join(found)}")
        else:
            tally.agree += 1
    return tally


#: What vLLM's message is about, and a word that ours must then have.
_REASONS = (
    ("must be divisible by tensor parallel size", "attention heads"),
    ("num_groups must equal 1", "groups"),
    ("Triton attention backend", "fp8"),
    ("Triton MLA backend", "fp8"),
    ("FlashAttention does not support fp8", "fp8"),
    ("No valid attention backend found", "no attention backend"),
    ("No valid attention backend found", "no NVIDIA attention backend"),
)


def same_reason(ours: str, theirs: str) -> bool:
    """Whether our refusal is about what vLLM's is about. Messages that the table does not know count as another reason."""
    return any(said in theirs and word in ours for said, word in _REASONS)


def compare_refused(rows: Iterable[Row], models: Models) -> VllmTally:
    """Combinations that vLLM refuses: refused by us, and for the same reason."""
    tally = VllmTally("refusals of vLLM 0.33.0, with the same reason")
    for row in rows:
        tally.rows += 1
        args = row.get("args") or {}
        given: dict[str, Any] = {
            "tensor_parallel_size": args.get("tp") or row.get("tp") or 1,
            "kv_cache_dtype": args.get("kv_dtype") or row.get("kv_cache_dtype") or "auto",
            "block_size": args.get("block_size"), "max_model_len": row.get("max_model_len"),
        }  # fmt: skip
        label = f"{row['config_file']} {row['gpu']} {given['kv_cache_dtype']} tp{given['tensor_parallel_size']}"
        try:
            vllm.pool(models.get(row["config_file"]), vllm.Settings(**given), budget_bytes=20 << 30, gpu=row["gpu"])
        except EngineRefusal as error:
            if same_reason(error.message, row["error"]):
                tally.agree += 1
            else:
                tally.misses.append(f"{label}: ours {error.message}; vLLM {row['error']}")
        except PlannerError as error:
            tally.misses.append(f"{label}: {error.message}")
        else:
            tally.misses.append(f"{label}: accepted; vLLM {row['error']}")
    return tally


def log_checks(path: Path) -> Iterator[tuple[Row, LogCheck]]:
    """Every row of vllm_logs.yaml with what our figures make of it."""
    for row in yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER):
        yield row, check_log(row)


def compare_logs(path: Path) -> VllmTally:
    """Public logs of stock vLLM, within the rounding of what they print; the others are left out with the reason."""
    tally = VllmTally("public start-up logs, versions 0.1 to 0.33")
    for row, check in log_checks(path):
        label = f"{row['id']} ({row.get('version')}, {row['model']})"
        if check.left_out:
            tally.left_out.append(f"{label}: {check.left_out}")
            continue
        tally.rows += 1
        if check.disagreements:
            tally.misses.append(f"{label}: {'; '.join(check.disagreements)}")
        else:
            tally.agree += 1
    return tally


def tallies(truth: Path) -> list[VllmTally]:
    """Everything, from a truth folder."""
    models = Models(truth / "hf_configs")
    return [
        compare(json_lines(truth / "truth/vllm.jsonl"), models, "vLLM 0.33.0's own classes over real configs"),
        compare_refused(json_lines(truth / "truth/vllm_refused.jsonl"), models),
        compare_logs(truth / "truth/vllm_logs.yaml"),
    ]


def summary(found: Iterable[VllmTally]) -> str:
    """The table alone."""
    return "\n".join(["| vLLM | rows | equal | left out |", "|---|---|---|---|", *(tally.line() for tally in found)])


def markdown(found: Iterable[VllmTally]) -> str:
    """The section of docs/COVERAGE.md: a table, each miss, and each log that was left out, by reason."""
    found = list(found)
    lines = [summary(found)]
    for tally in found:
        for title, texts in (("Not equal", tally.misses), ("Left out", tally.left_out)):
            if not texts:
                continue
            lines += ["", f"{title}, {tally.name}:", ""]
            reasons: dict[str, list[str]] = {}
            for text in texts:
                label, _, reason = text.partition("): ") if "): " in text else text.partition(": ")
                reasons.setdefault(reason, []).append(label.split(" (")[0])
            lines += [f"- {reason}: {', '.join(labels)}" for reason, labels in reasons.items()]
    return "\n".join(lines) + "\n"
