"""`python -m planner log FILE`: a start-up log of an inference engine beside the planner, in a shell."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from planner.cli_settings import COMMON, settings_of
from planner.errors import InputError, shown

SCHEMA_VERSION = 1
#: A start-up log has some hundred kilobytes.
MAX_BYTES = 50_000_000
#: Whose settings an engine has that has none of its own.
_SETTINGS_OF = {"ollama": "llama.cpp"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def add_parser(commands: Any) -> None:
    """Adds the `log` command."""
    add = commands.add_parser("log", help="a start-up log of an engine: each printed figure beside ours, and why").add_argument
    add("file", help="the log as a file, or - for standard input")
    add("--model", help="Hub id, catalogue id or path of the model (default: as the log names it, from the catalogue)")
    add("--gpu", help="the accelerator, e.g. h100-sxm or 24GiB, where the log does not name it")
    add("--set", action="append", metavar="NAME=VALUE", help="a setting that the log does not say, by the engine's own name")
    add("--json", action="store_true", help="print JSON")


def read_text(name: str) -> str:
    """The text of a file or of standard input, in UTF-8 or UTF-16; bytes that are no text are replaced.

    Errors: InputError where it cannot be read or is too long.
    """
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{shown(name)} cannot be read: {error.strerror}", field="log") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{shown(name)} is longer than {MAX_BYTES:,} bytes; give the part where the engine starts", field="log")
    encoding = next((found for mark, found in _MARKS if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors="replace")


def run(arguments: argparse.Namespace, read: Callable[[str], Any], explain: Callable[..., Any]) -> int:
    """Prints the comparison. 0: all compared figures agree; 1: one does not, or nothing could be compared.

    Errors: InputError, ConfigError; HubError for a model that is asked for by name and cannot be fetched.
    """
    log = read(read_text(arguments.file))
    check = explain(log, arguments.model, arguments.gpu, _given(log.engine, arguments.set))
    print(as_json(log, check) if arguments.json else as_text(log, check))
    return 0 if check.agrees else 1


def _given(name: str, pairs: list[str] | None) -> dict[str, Any]:
    """The settings of --set, checked. Errors: InputError."""
    if not pairs:
        return {}
    said = argparse.Namespace(**dict.fromkeys(COMMON), set=pairs, engine_version=None)
    return settings_of(_SETTINGS_OF.get(name, name), said).model_dump(exclude_unset=True)


def as_json(log: Any, check: Any) -> str:
    """The log and its comparison for a program."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "engine": log.engine,
        "version": log.version,
        "model": log.model,
        "gpu": log.gpu,
        "gpus": log.gpus,
        "settings": {name: _plain(value) for name, value in log.settings.items()},
        "figures": {name: _figure(figure) for name, figure in log.printed.items()},
        "all_figures": [{"name": figure.name, **_figure(figure)} for figure in log.all],
        "agrees": check.agrees,
        "lines": [
            {
                "name": line.name, "printed": line.printed, "ours": line.ours, "agrees": line.agrees, "rule": line.rule,
                "shown": line.shown,
            }
            for line in check.lines
        ],
        "missing": list(check.missing),
        "rules": list(check.rules),
        "advice": list(check.advice),
        "warnings": list(log.warnings),
    }  # fmt: skip
    return json.dumps(content, indent=2)


def _figure(figure: Any) -> dict[str, Any]:
    return {name: getattr(figure, name) for name in ("value", "slack", "text", "line", "rank")}


def _plain(value: Any) -> Any:
    """A setting as JSON has it; a draft's model by its name."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value if isinstance(value, bool | int | float | str | None) else getattr(value, "name", str(value))


def as_text(log: Any, check: Any) -> str:
    """The comparison for a person: what the log is of, each figure beside ours, what it shows, what is missing, the verdict."""
    version = f" {log.version}" if log.version else ""
    lines = [f"{log.engine}{version}: {log.model or 'a model that the log does not name'}", ""]
    if check.lines:
        lines += [*_table(check.lines), ""]
    else:
        lines += [f"{figure.name}: {figure.text} (line {figure.line})" for figure in log.printed.values()]
    lines += [f"- {rule}" for rule in check.rules]
    lines += [f"missing: {wanted}" for wanted in check.missing]
    lines += [f"to get more: {change}" for change in check.advice]
    verdict = "all compared figures agree" if check.agrees else "a figure differs" if check.lines else "nothing could be compared"
    return "\n".join([*lines, verdict])


def _table(compared: Sequence[Any]) -> list[str]:
    rows = [("figure", "log", "planner", "", "rule")]
    for line in compared:
        mark = "agrees" if line.agrees else "DIFFERS"
        rows.append((line.name, line.shown or _number(line.name, line.printed), _number(line.name, line.ours), mark, line.rule))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:<{widths[3]}}  {row[4]}".rstrip()
        for row in rows
    ]


def _number(name: str, value: int | float) -> str:
    """Bytes in GiB or MiB as logs print them, other figures as they are."""
    if name.endswith("_bytes"):
        return f"{value / 2**30:.3f} GiB" if abs(value) >= 2**30 else f"{value / 2**20:.2f} MiB"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}".rstrip("0").rstrip(".")
