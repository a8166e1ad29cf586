"""How well the planner agrees with llama.cpp's own allocations: every row of its truth sets, and what is left out why.

`measure(truth)` gives the tallies, `summary` and `document` the tables for the documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import model_configs
from planner.engines import llama_cpp
from planner.errors import EngineRefusal, PlannerError
from planner.model import Model
from validation.coverage import json_lines

Row = Mapping[str, Any]

#: Logs of llamacpp_logs.yaml that are not of llama.cpp itself, or state no exact figure.
LOGS_LEFT_OUT = {
    "ik-mla-32k-f16": "ik_llama.cpp is a fork with a latent cache of its own",
    "ik-mla-32k-q8_0": "ik_llama.cpp is a fork with a latent cache of its own",
    "ik-mla-15008": "ik_llama.cpp is a fork with a latent cache of its own",
    "ol-gptoss20b-estimate": "an estimate of Ollama's own engine (0.6 to 0.29), which is not described",
    "ol-granite-vision-16384": "an estimate of Ollama's own engine (0.6 to 0.29), which is not described",
    "home-ollama-qwen25-7b-claim": "a hand estimate about twice too high, refuted",
}


@dataclass
class Tally:
    """Rows compared: accepted by llama.cpp and equal in keys, values and states, or refused by both."""

    rows: int = 0
    accepted: int = 0
    exact: int = 0
    refused: int = 0
    refused_by_both: int = 0
    differ: list[str] = field(default_factory=list)
    wrongly_accepted: list[str] = field(default_factory=list)


@dataclass
class Figures:
    """gguf: from metadata; configs: from config.json; older: two commits of 2025 from metadata; unread: configs refused."""

    gguf: Tally
    configs: Tally
    older: Tally
    unread: dict[str, str]


def settings_of(row: Row) -> dict[str, Any]:
    """The settings of a truth row. Older rows say flash_attn as a flag, and have LLAMA_SET_ROWS, whose 0 shares the cells."""
    asked = dict(row["requested"])
    if isinstance(asked["flash_attn"], bool):
        asked |= {"flash_attn": "on" if asked["flash_attn"] else "off", "version": row["commit"]}
    if row.get("LLAMA_SET_ROWS") == "0":
        asked["kv_unified"] = True
    return asked


def allocated(row: Row) -> tuple[int, int, int]:
    """Bytes of keys, values and states of a row that llama.cpp accepted."""
    reported = row["reported"]
    recurrent = reported.get("rs_bytes", reported["rs_r_bytes"] + reported["rs_s_bytes"])
    return reported["k_bytes"], reported["v_bytes"], recurrent + reported.get("state_bytes", 0)


def compare(path: Path, models: Mapping[str, Model]) -> Tally:
    """Every row of a truth file whose model is among `models`."""
    tally = Tally()
    for row in json_lines(path):
        if row["model"] not in models:
            continue
        tally.rows += 1
        try:
            found = llama_cpp.cache_bytes(models[row["model"]], llama_cpp.Settings(**settings_of(row)))
            ours: Any = (found.k_bytes, found.v_bytes, found.state_bytes)
        except EngineRefusal as refusal:
            ours = refusal.message
        if row["status"] == "ok":
            tally.accepted += 1
            tally.exact += ours == allocated(row)
            if ours != allocated(row):
                tally.differ.append(f"{row['id']} {row['model']}: {ours}, llama.cpp {allocated(row)}")
        else:
            tally.refused += 1
            tally.refused_by_both += isinstance(ours, str)
            if not isinstance(ours, str):
                tally.wrongly_accepted.append(f"{row['id']} {row['model']}")
    return tally


def measure(truth: Path) -> Figures:
    """Compare all rows under `truth` (the folder that holds truth/)."""
    folder = truth / "truth"
    from_gguf: dict[str, Model] = {}
    from_config: dict[str, Model] = {}
    unread: dict[str, str] = {}
    for row in json_lines(folder / "llamacpp_models.jsonl"):
        if row.get("gguf"):
            from_gguf[row["model"]] = model_configs.read(row["gguf"])
        if row.get("hf_config"):
            try:
                from_config[row["model"]] = model_configs.read(row["hf_config"])
            except PlannerError as error:
                unread[row["model"]] = error.message
                continue
        if not row.get("gguf"):
            from_gguf[row["model"]] = from_config[row["model"]]
    return Figures(
        compare(folder / "llamacpp.jsonl", from_gguf),
        compare(folder / "llamacpp.jsonl", from_config),
        compare(folder / "llamacpp_old.jsonl", from_gguf),
        unread,
    )


def _line(name: str, tally: Tally) -> str:
    part = tally.exact / tally.accepted if tally.accepted else 0.0
    return (
        f"| {name} | {tally.rows:,} | {tally.accepted:,} | {tally.exact:,} ({100 * part:.4g}%) |"
        f" {tally.refused_by_both:,} of {tally.refused:,} |"
    )


def summary(figures: Figures) -> str:
    """The table of figures."""
    return "\n".join(
        [
            "| llama.cpp | rows | accepted | K, V and state bytes equal | refusals |",
            "|---|---|---|---|---|",
            _line("0c1e57098 (autumn 2026), from GGUF metadata", figures.gguf),
            _line("the same rows, from config.json where there is one", figures.configs),
            _line("4227c9be4 and 7841fc723 (2025), from GGUF metadata", figures.older),
        ]
    )


def document(figures: Figures) -> str:
    """The table, each row that differs, each config that is not read and each log left out, with reasons."""
    lines = [summary(figures), ""]
    for tally in (figures.gguf, figures.configs, figures.older):
        lines += [f"- differs: {text}" for text in tally.differ]
    lines += [f"- not read from config.json: {name}: {reason}" for name, reason in sorted(figures.unread.items())]
    lines += [f"- log {name}: {reason}" for name, reason in LOGS_LEFT_OUT.items()]
    return "\n".join(lines)
