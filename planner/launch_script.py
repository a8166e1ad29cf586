"""A plan's launch command as a script that runs as it is: launch.sh for a shell, launch.py where the engine is Python."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from planner.plan_report import verdict_line
from planner.version import VERSION

_PYTHON = ("from ", "import ")


def launch_script(data: Mapping[str, Any], date: str | None = None) -> tuple[str, str]:
    """The file's name and its text, of `plan_report.plan_data`. date: when it was made, today where None.

    What stands above the command are comments alone: text from outside is on one line and cannot end them.
    """
    command = str(data["command"])
    python = command.startswith(_PYTHON)
    day = date or datetime.now(timezone.utc).date().isoformat()
    version = data["settings"].get("version")
    said = (
        f"{data['model']['name']} on {data['gpus']:,} x {data['gpu']['name']}, {data['engine']} {version or ''}",
        verdict_line(dict(data)), f"Planned with planner {VERSION} on {day}.",
    )  # fmt: skip
    comments = [f"# {_line(text)}" for text in said]
    if python:
        return "launch.py", "\n".join(["#!/usr/bin/env python3", *comments, "", *_with_prompt(command), ""])
    lines = _with_server(command) if data["settings"].get("front_end") == "ollama" else command.splitlines()
    return "launch.sh", "\n".join(["#!/usr/bin/env bash", *comments, "set -euo pipefail", "", *lines, ""])


def _line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def _with_prompt(command: str) -> list[str]:
    """transformers' lines with the prompt that they leave to the reader."""
    lines = command.splitlines()
    place = next((number for number, line in enumerate(lines) if line.startswith("model.generate(")), None)
    if place is None:
        return lines
    name = next(line for line in lines if ".from_pretrained(" in line).split(".from_pretrained(", 1)[1].split(", dtype=", 1)[0]
    return [
        *lines[:place], f"tokenizer = AutoTokenizer.from_pretrained({name})",
        'inputs = tokenizer("Why is the sky blue?", return_tensors="pt").to(model.device)',
        f"output = {lines[place]}", "print(tokenizer.decode(output[0], skip_special_tokens=True))", *lines[place + 1 :],
    ]  # fmt: skip


def _with_server(command: str) -> list[str]:
    """Ollama's server in the background, and its client once the server answers."""
    server, *rest = command.splitlines()
    wait = 'until ollama list > /dev/null 2>&1; do kill -0 "$server"; sleep 1; done'
    return [f"{server} &", "server=$!", "trap 'kill \"$server\"' EXIT", wait, *rest]
