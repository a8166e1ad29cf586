"""The measured agreement as plain data, for a page that has no truth sets to measure: results/agreement.yaml, read and written.

`python -m validation.documents --write` writes it beside the documents, from the same figures. Loading this file loads no
measuring: the web process reads it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

RESULTS = Path(__file__).with_name("results") / "agreement.yaml"
_HEAD = "# Written by `python -m validation.documents --write`, from the figures of docs/COVERAGE.md and docs/ACCURACY.md.\n"
_SETS = ("stated", "own", "presumed")
Data = dict[str, Any]


@functools.cache
def read(path: Path = RESULTS) -> Mapping[str, Data]:
    """Each section's `figures`, and `changed`: the day since when they are what they are."""
    return _load(path)


def _load(path: Path) -> dict[str, Data]:
    content: dict[str, Data] = yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return content


def keep(section: str, figures: Data, path: Path = RESULTS) -> None:
    """Writes a section's figures where they are not those that are kept, whole or not at all."""
    kept = _load(path) if path.exists() else {}
    if kept.get(section, {}).get("figures") == figures:
        return
    kept[section] = {"changed": datetime.now(timezone.utc).date().isoformat(), "figures": figures}
    text = yaml.safe_dump(dict(sorted(kept.items())), sort_keys=False, allow_unicode=True, width=130, default_flow_style=None)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(_HEAD + text, "utf-8")
    beside.replace(path)
    read.cache_clear()


def transformers(figures: Mapping[str, Any]) -> Data:
    """`coverage.measure`: rows, read, equal to the byte and equal layer by layer, of each set."""
    files = figures["files"]
    rows = {
        name: {"rows": one.rows, "read": one.supported, "equal": one.exact, "layers_equal": one.layers_exact}
        for name, one in figures.items() if name != "files"
    }  # fmt: skip
    read_files = sum(hasattr(model, "layers") for model in files.values())
    return {**rows, "files": {"rows": len(files), "read": read_files}}


def vllm(tallies: Iterable[Any]) -> Data:
    """`coverage_vllm.tallies`, which are these three in order: rows, equal, and how many are left out for each reason."""
    names = ("classes", "refusals", "logs")
    return {
        name: {"rows": one.rows, "equal": one.agree, "left_out": _counted(re.split(r" \(|: ", text.partition("): ")[2])[0]
                                                                        for text in one.left_out)}
        for name, one in zip(names, tallies, strict=True)
    }  # fmt: skip


def llama_cpp(figures: Any) -> Data:
    """`coverage_llama_cpp.measure`: rows, accepted, equal, refused, refused by both; and the configs that are not read."""
    rows = {
        name: {"rows": one.rows, "accepted": one.accepted, "equal": one.exact, "refused": one.refused,
               "refused_by_both": one.refused_by_both}
        for name, one in (("gguf", figures.gguf), ("configs", figures.configs), ("older", figures.older))
    }  # fmt: skip
    return {**rows, "unread": sorted(figures.unread)}


def logs(tallies: Mapping[str, Any]) -> Data:
    """`coverage_logs.tallies` by engine: rows, compared, figures, equal, and how many are not compared for each reason."""
    return {
        engine: {"rows": one.rows, "compared": one.rows - len(one.not_compared), "figures": one.figures,
                 "equal": len(one.compared),
                 "left_out": _counted(text.partition(": ")[2].split(";")[0] for text in one.not_compared)}
        for engine, one in tallies.items()
    }  # fmt: skip


def accuracy(measured: Any, sums: Mapping[str, Mapping[str, Any]]) -> Data:
    """`accuracy.measure` with the sums of each of its sets: shares, and bytes of every start-up; why the others are left out."""
    lines = [
        {"set": name, "id": one.row["id"], "model": one.row["model"], "version": str(one.row["version"]), "gpu": one.row["gpu"],
         **{key: one.row[key] for key in ("tp", "pp") if key in one.row}, "printed": one.printed, "ours": one.ours,
         "low": one.low, "high": one.high}
        for name in _SETS for one in getattr(measured, name)
    ]  # fmt: skip
    rounded = {
        name: {key: round(value, 6) if isinstance(value, float) else value for key, value in sums[name].items()} for name in _SETS
    }
    return {"sets": rounded, "lines": lines, "left_out": dict(measured.left_out)}


def _counted(reasons: Iterable[str]) -> dict[str, int]:
    """Each reason with how often it is given, the most frequent first."""
    found: dict[str, int] = {}
    for reason in reasons:
        found[reason] = found.get(reason, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))
