"""What the tests of start-up text share: from a text to its log and verdict, and the golden rows of public logs."""

from __future__ import annotations

from typing import Any

from validation import coverage_logs
from validation.logs import Check, Log, explain, read

GOLDEN = coverage_logs.load(coverage_logs.GOLDEN)


def check(text: str, **more: Any) -> tuple[Log, Check]:
    log = read(text)
    return log, explain(log, **more)


def said(found: Check) -> str:
    """Everything that is explained, as one text."""
    return "\n".join([*found.rules, *(line.rule for line in found.lines)])


def entries(engine: str) -> dict[str, dict[str, Any]]:
    """The golden rows of an engine by their id. The two runs of sglang-20 print tokens alone, and no size beside them."""
    return {name: entry for name, entry in GOLDEN["logs"].items() if entry["engine"] == engine and name != "sglang-20"}


def model_of(entry: dict[str, Any]) -> Any:
    return coverage_logs.model_of(GOLDEN, entry)


def figures(entry: dict[str, Any]) -> dict[str, Any]:
    """The row as far as the golden extract has its figures."""
    printed = {**entry.get("set_aside", {}), **entry["printed"]}
    return {"reported": {key: value for key, value in printed.items() if not isinstance(value, str)}, "model": entry["model"]}
