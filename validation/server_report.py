"""A server's comparison as a person reads it, and as JSON."""

from __future__ import annotations

import json
from typing import Final

from planner.model import Model
from validation.logs.log import Check, CheckLine
from validation.server_told import Told

SCHEMA_VERSION: Final = 1


def as_json(name: str, told: Told, model: Model | None, found: Check) -> str:
    """The comparison for a program."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "engine": name,
        "version": told.version,
        "served_model": told.model,
        "model": model.name if model else None,
        "settings": dict(told.settings),
        "figures": dict(told.figures),
        "agrees": found.agrees,
        "lines": [
            {"name": line.name, "printed": line.printed, "ours": line.ours, "agrees": line.agrees, "rule": line.rule}
            for line in found.lines
        ],
        "missing": list(found.missing),
        "rules": list(found.rules),
        "advice": list(found.advice),
    }
    return json.dumps(content, indent=2)


def as_text(name: str, told: Told, model: Model | None, found: Check) -> str:
    """The comparison for a person: what is served, each figure beside ours with its rule, what is missing, the verdict."""
    version = f" {told.version}" if told.version else ""
    lines = [f"{name}{version} serves {told.model or 'a model that it does not name'}", ""]
    if model is not None and model.name != told.model:
        lines[0] += f", compared as {model.source}"
    rows = [("figure", "server", "planner", ""), *(_cells(line) for line in found.lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    if found.lines:
        marks = ["", *(line.rule for line in found.lines)]
        for row, rule in zip(rows, marks, strict=True):
            cells = f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:<{widths[3]}}  {rule}"
            lines.append(cells.rstrip())
        lines.append("")
    lines += found.rules
    lines += [f"missing: {wanted}" for wanted in found.missing]
    lines += [f"to get more: {change}" for change in found.advice]
    verdict = "all compared figures agree" if found.agrees else "a figure differs" if found.lines else "nothing could be compared"
    return "\n".join([*lines, verdict])


def _cells(line: CheckLine) -> tuple[str, str, str, str]:
    return line.name, line.shown or _figure(line.printed), _figure(line.ours), "agrees" if line.agrees else "DIFFERS"


def _figure(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)
