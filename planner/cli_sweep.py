"""`python -m planner sweep`: many contexts, requests, dtypes, splits and GPUs at once, as a table, JSON or CSV."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from planner.engines import ENGINES
from planner.errors import InputError, shown
from planner.hardware import gpus
from planner.model import Model
from planner.report import SCHEMA_VERSION
from planner.sweep import ARCHITECTURE, Grid, Table, Variant, sweep
from planner.sweep_budget import cache_budget
from planner.sweep_variants import variant
from planner.units import format_bytes

#: More points are refused, and more rows than this are not printed for a person to read.
MOST_POINTS, MOST_ROWS = 5_000_000, 2_000
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}
_COUNT = re.compile(r"(\d{1,13})([kKmM]?)")
_HEAD = {
    "model": "model", "engine": "engine", "kv_cache_dtype": "dtype", "tensor_parallel_size": "tp", "pipeline_parallel_size": "pp",
    "gpu": "gpu", "tokens": "tokens", "requests": "requests", "cache_bytes": "cache", "kv_budget_bytes": "for the cache",
    "headroom_bytes": "free", "fits": "fits", "refusal": "refused",
}  # fmt: skip


def add_parser(commands: Any) -> None:
    """Adds the command to the parser's commands."""
    parser = commands.add_parser("sweep", help="many contexts, requests, dtypes, splits and GPUs at once")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="Hub id, catalogue id, or path; several are compared")
    parser.add_argument("--tokens", default="1k:128k:x2", help="counts (k = 1,024): 4096,8k or FROM:TO:xN or FROM:TO:STEP")
    parser.add_argument("--requests", default="1", help="requests at once, in the same way")
    parser.add_argument("--engine", default=ARCHITECTURE, help=f"one or more of {ARCHITECTURE}, {', '.join(ENGINES)}")
    parser.add_argument("--kv-cache-dtype", default="auto", help="one or more of the engine's own words")
    parser.add_argument("-tp", "--tensor-parallel-size", default="1", help="one or more counts of GPUs that share each layer")
    parser.add_argument("-pp", "--pipeline-parallel-size", default="1", help="one or more counts of stages")
    parser.add_argument("--gpu", default="", help="one or more accelerators, or all: says what fits")
    parser.add_argument("--max-model-len", help="longest request that the engine accepts")
    parser.add_argument("--block-size", help="positions of a block")
    parser.add_argument("--encoder-tokens", default="0", help="encoder positions of an encoder-decoder or image model")
    parser.add_argument("--engine-version", help="version of the engine (default: the newest known)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting of the engine")
    parser.add_argument("--revision", help="branch, tag or commit on the Hub")
    parser.add_argument("--token", help="Hub token for a gated model, used for this call alone")
    parser.add_argument("--assume-plain-attention", action="store_true", help="treat an unknown architecture as plain attention")
    parser.add_argument("--csv", metavar="FILE", help="write the points to a CSV file, - for standard output")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, read: Callable[[str], Model]) -> int:
    """Computes and prints. 0: done; 1: a GPU was named and no point fits; 2: the engine refuses every point.

    read: a model's description by its name. Errors: PlannerError, as they come.
    """
    tokens, requests = counts(arguments.tokens, "tokens"), counts(arguments.requests, "requests")
    names = [card.id for card in gpus()] if arguments.gpu == "all" else _words(arguments.gpu)
    variants, grid_size = list(_variants(arguments)), len(tokens) * len(requests) * max(1, len(names))
    if grid_size * len(variants) * len(arguments.models) > MOST_POINTS:
        raise InputError(f"these are more than {MOST_POINTS:,} points; ask for fewer", field="tokens")
    grid = Grid(
        [read(name) for name in arguments.models], variants, tokens, requests, names,
        counts(arguments.encoder_tokens, "encoder-tokens", 0)[0],
    )  # fmt: skip
    table = sweep(grid, cache_budget if names else None, Bar() if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    refused = table.reasons
    nothing = sum(refused.values()) == len(table)
    if arguments.csv:
        _write(table, arguments.csv)
    elif arguments.json:
        _json(table)
    elif not nothing:
        print("\n".join(lines(table)))
    if nothing:
        print(f"error: {next(iter(refused))}", file=sys.stderr)
        return 2
    return 1 if names and not table.columns()["fits"].any() else 0


def counts(text: str, name: str, least: int = 1) -> tuple[int, ...]:
    """Counts of a list like "4096,8k", "1k:128k:x2" (each twice the one before) or "1:64:8" (each 8 more). k is 1,024.

    Errors: InputError naming the option.
    """
    found: list[int] = []
    for part in _words(text) or [""]:
        ends = part.split(":")
        if len(ends) == 1:
            found.append(_count(part, name, least))
            continue
        if len(ends) != 3:
            raise InputError(f"--{name} {shown(part)}: write FROM:TO:xN or FROM:TO:STEP", field=name)
        found += _series(_count(ends[0], name, 1), _count(ends[1], name, 1), ends[2], name)
    return tuple(dict.fromkeys(found))


def _series(start: int, end: int, step: str, name: str) -> Iterator[int]:
    times = step.lower().startswith("x")
    by = _count(step[1:] if times else step, name, 2 if times else 1)
    if start > end or (not times and (end - start) // by > MOST_POINTS):
        raise InputError(f"--{name}: from {start:,} to {end:,} by {shown(step)} is no series to sweep", field=name)
    while start <= end:
        yield start
        start = start * by if times else start + by


def _count(text: str, name: str, least: int) -> int:
    match = _COUNT.fullmatch(text.strip().replace("_", ""))
    value = int(match[1]) * _UNITS[match[2].lower()] if match else -1
    if value < least:
        raise InputError(f"--{name}: {shown(text)} is not a whole number from {least} on, like 4096 or 8k", field=name)
    return value


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _variants(arguments: argparse.Namespace) -> Iterator[Variant]:
    def one(name: str) -> int | None:
        value = getattr(arguments, name)
        return None if value is None else counts(value, name.replace("_", "-"))[0]

    for engine in _words(arguments.engine):
        for dtype in _words(arguments.kv_cache_dtype):
            for tensor in counts(arguments.tensor_parallel_size, "tensor-parallel-size"):
                for pipeline in counts(arguments.pipeline_parallel_size, "pipeline-parallel-size"):
                    yield variant(
                        engine, dtype, tensor, pipeline, max_model_len=one("max_model_len"), block_size=one("block_size"),
                        version=arguments.engine_version, others=arguments.set,
                    )  # fmt: skip


def lines(table: Table) -> Iterator[str]:
    """The points as a person reads them; columns that are the same everywhere stand in the first line."""
    rows: list[dict[str, Any]] = []
    for row in table.rows():
        if len(rows) == MOST_ROWS:
            break
        rows.append(row)
    names = [name for name in _HEAD if name in rows[0] and any(row[name] not in ("", None) for row in rows)]
    same = [n for n in names if n not in ("tokens", "requests", "cache_bytes") and len({row[n] for row in rows}) == 1]
    if same:
        yield ", ".join(f"{_HEAD[name]} {_cell(name, rows[0][name])}" for name in same)
    shown_names = [name for name in names if name not in same]
    text = [[_HEAD[name] for name in shown_names], *([_cell(name, row[name]) for name in shown_names] for row in rows)]
    widths = [max(len(line[i]) for line in text) for i in range(len(shown_names))]
    for line in text:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    if len(table) > len(rows):
        yield f"... and {len(table) - len(rows):,} more; --csv FILE has them all"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes"):
        return format_bytes(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _json(table: Table) -> None:
    print(f'{{"schema_version": {SCHEMA_VERSION}, "points": {len(table)}, "sweep": [')
    for place, row in enumerate(table.rows()):
        print(("," if place else "") + json.dumps(row))
    print("]}")


def _write(table: Table, name: str) -> None:
    if name == "-":
        table.write_csv(sys.stdout)
        return
    try:
        with open(name, "w", encoding="utf-8", newline="") as file:
            count = table.write_csv(file)
    except OSError as error:
        raise InputError(f"{name} cannot be written: {error.strerror}", field="csv") from None
    print(f"{count:,} points in {name}")


class Bar:
    """A progress bar on stderr, drawn anew no more than ten times a second."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.drawn = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self.drawn < 0.1:
            return
        self.drawn = now
        sys.stderr.write(f"\r[{'#' * (40 * done // total):40}] {done:,} of {total:,} points, {now - self.start:.0f} s")
        sys.stderr.flush()


__all__ = ["Bar", "add_parser", "counts", "lines", "run"]
