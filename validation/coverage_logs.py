"""Printed figures of public SGLang, TensorRT-LLM and TGI logs against the planner, and the tables of it for docs/COVERAGE.md.

The settings and the config words of each log are in tests/golden/sglang_trtllm_tgi.yaml; the rows that they answer to, and
the rows that are not compared with the reason, in the truth set's sglang_trtllm_tgi_logs.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import model_configs
from planner.engines import sglang, tensorrt_llm, tgi
from planner.model import Model
from planner.units import GIB
from validation.logs.sglang_ours import AMPLE
from validation.logs.sglang_ours import ours as pools

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/sglang_trtllm_tgi.yaml"
#: Names in the logs and in our pools' details.
NAMES = {
    "k_gb": "k_bytes", "v_gb": "v_bytes", "kv_gb": "kv_bytes", "full_k_gb": "k_bytes", "full_v_gb": "v_bytes",
    "swa_k_gb": "swa_k_bytes", "swa_v_gb": "swa_v_bytes", "conv_gb": "conv_bytes", "ssm_gb": "ssm_bytes",
    "draft_k_gb": "draft_k_bytes", "kv_gib": "pool_bytes",
}  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """One printed figure: what the log says, and the least and the most that ours can be within the rounding of its inputs."""

    name: str
    printed: float
    least: float
    most: float

    @property
    def agrees(self) -> bool:
        """Within half of the last printed digit; whole numbers exactly."""
        slack = 0.005 + 1e-9 if self.name.endswith(("_gb", "_gib")) else 1e-12
        return self.least - slack <= self.printed <= self.most + slack


@dataclass
class LogTally:
    """Rows of one engine: all, compared, and the ones that differ or are not compared, with reasons."""

    rows: int = 0
    figures: int = 0
    compared: list[str] = field(default_factory=list)
    differ: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)


def load(path: Path) -> Any:
    return yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def model_of(golden: Mapping[str, Any], entry: Mapping[str, Any], configs: Path | None = None) -> Model:
    """The entry's model from its config words, or from the full config.json where `configs` has it."""
    row = golden["models"][entry["model"]]
    path = configs / f"{row['file']}.json" if configs is not None and "file" in row else None
    return model_configs.read(path if path is not None and path.is_file() else row["config"])


def compare(golden: Mapping[str, Any], entry: Mapping[str, Any], configs: Path | None = None) -> list[Compared]:
    """Each printed figure of a log beside ours."""
    if entry["engine"] == "tgi":
        ours = tgi.fallback_total_tokens(tgi.Settings(**entry["settings"]))
        return [Compared(name, printed, ours, ours) for name, printed in entry["printed"].items()]
    model, find = model_of(golden, entry, configs), {"sglang": _sglang, "tensorrt-llm": _tensorrt}[entry["engine"]]
    low, high = (find(model, entry, side) for side in (-1, 1))
    found = []
    for name, printed in entry["printed"].items():
        scale = GIB if name.endswith(("_gb", "_gib")) else 1
        values = [side[NAMES.get(name, name)] / scale if scale != 1 else side[NAMES.get(name, name)] for side in (low, high)]
        found.append(Compared(name, printed, min(values), max(values)))
    return found


def _sglang(model: Model, entry: Mapping[str, Any], side: int) -> dict[str, Any]:
    """Our figures with the printed inputs at the lower or the upper end of their rounding."""
    settings = sglang.Settings(**entry["settings"])
    budget = AMPLE
    card = int(entry["card_gib"] * GIB) if "card_gib" in entry else None
    if "free" in entry:
        before, after = entry["free"]
        budget = sglang.kv_budget_bytes(
            model, settings, int((before - side * 0.005) * GIB), int((after + side * 0.005) * GIB), card
        )
    ours = pools(model, settings, budget)
    ours["kv_tokens_fp8"] = ours["kv_tokens"]
    if card is not None:
        ours["mem_fraction_static"] = sglang.mem_fraction_static(model, settings, card)
    return ours


def _tensorrt(model: Model, entry: Mapping[str, Any], side: int) -> dict[str, Any]:
    settings = tensorrt_llm.Settings(**entry["settings"])
    budget = AMPLE
    if "free" in entry:
        budget = tensorrt_llm.kv_budget_bytes(settings, int((entry["free"][0] + side * 0.005) * GIB))
    pool = tensorrt_llm.pool(model, settings, budget)
    return {**pool.details, "blocks": pool.num_blocks, "kv_tokens": pool.tokens}


def tallies(truth: Path) -> dict[str, LogTally]:
    """All rows of the truth set by engine, each compared or listed with the reason why not."""
    golden, found = load(GOLDEN), {name: LogTally() for name in ("sglang", "tensorrt-llm", "tgi")}
    for row in load(truth / "truth/sglang_trtllm_tgi_logs.yaml"):
        tally = found[row["engine"]]
        tally.rows += 1
        entry = golden["logs"].get(row["id"])
        if entry is None:
            reason = row["note"] or "the model, or what the figure follows from, is not printed"
            text = reason if not row["verified"] else "no settings are stated for it"
            tally.not_compared.append(f"{row['id']}: {text}")
            continue
        compared = compare(golden, entry, truth / "hf_configs")
        tally.figures += len(compared)
        wrong = [one for one in compared if not one.agrees]
        if wrong:
            tally.differ += [f"{row['id']} {one.name}: ours {one.least} to {one.most}, printed {one.printed}" for one in wrong]
        else:
            tally.compared.append(row["id"])
    return found


def summary(found: Mapping[str, LogTally]) -> str:
    """The table by engine."""
    lines = ["| compared with public logs | rows | compared | figures | rows equal |", "|---|---|---|---|---|"]
    for name, tally in found.items():
        compared = tally.rows - len(tally.not_compared)
        lines.append(f"| {name} | {tally.rows} | {compared} | {tally.figures} | {len(tally.compared)} |")
    return "\n".join(lines)


def document(found: Mapping[str, LogTally]) -> str:
    """The table by engine, then what differs and what is not compared, with the reasons."""
    documented = "TGI's rows are the router's own limit; its memory rule has no log and is marked documented."
    lines = [summary(found), "", documented, ""]
    for name, tally in found.items():
        lines += [f"* {name}, differs: {text}" for text in tally.differ]
        lines += [f"* {name}, not compared: {text}" for text in tally.not_compared]
    return "\n".join(lines)
