"""What the last sweep over all architectures found: its rows as they are kept, and the tables made of them.

The rows lie in validation/results/sweep.jsonl, one a line after a line that says when and with what they were measured.
`python -m validation sweep --write` makes them; nothing here is written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results") / "sweep.jsonl"
#: What can become of a type, and the heading of its column.
STATUSES = {
    "equal": "equal", "differs": "differ", "refused": "not read", "not run": "not run", "timed out": "timed out",
}  # fmt: skip
_MAPPINGS = {
    "causal": "decoders (causal LM)",
    "encoder-decoder": "encoder-decoders and speech decoders mapped with them",
    "image-text": "image and text",
    "speech": "speech",
}


@dataclass(frozen=True)
class Point:
    """One generation: requests, positions held by each, encoder positions, and bytes of the cache's tensors."""

    requests: int
    tokens: int
    encoder: int
    predicted: int
    measured: int


@dataclass(frozen=True)
class Row:
    """What became of one model type. layer: the first that differs; by_layer: the cache is kept layer by layer."""

    type: str
    mapping: str
    status: str
    cls: str = ""
    dtype: str = ""
    kinds: Mapping[str, int] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    layer: int | None = None
    by_layer: bool = True
    reason: str = ""

    @property
    def text(self) -> str:
        """Its outcome in a line."""
        if self.status not in ("equal", "differs"):
            return f"{self.status}: {self.reason}"
        bytes_ = ", ".join(
            f"{p.measured:,}" if p.predicted == p.measured else f"{p.measured:,} (predicted {p.predicted:,})" for p in self.points
        )
        where = "" if self.layer is None else f", first in layer {self.layer}"
        return f"{self.status}{where}: {bytes_} bytes"


@dataclass(frozen=True)
class Sweep:
    """A whole sweep: the day, the versions that ran, and a row for each type by name."""

    created: str
    versions: Mapping[str, str]
    rows: tuple[Row, ...]

    def of(self, status: str) -> list[Row]:
        return [row for row in self.rows if row.status == status]

    def over(self, kept: Sweep | None) -> Sweep:
        """These rows in place of an earlier sweep's rows of the same types, where the same versions ran."""
        if kept is None or dict(kept.versions) != dict(self.versions):
            return self
        rows = {row.type: row for row in (*kept.rows, *self.rows)}
        return Sweep(self.created, self.versions, tuple(rows[name] for name in sorted(rows)))


def dump(row: Row) -> str:
    """A row as a line of JSON, what is empty left out."""
    empty = Row("", "", "")
    kept = {name: value for name, value in asdict(row).items() if value != getattr(empty, name)}
    if row.points:
        kept["points"] = [list(asdict(point).values()) for point in row.points]
    return json.dumps(kept)


def load(line: str) -> Row:
    """The row of a line. Errors: ValueError, TypeError or KeyError for anything else."""
    given = json.loads(line)
    points = tuple(Point(*point) for point in given.pop("points", ()))
    row = Row(**given, points=points)
    if row.status not in STATUSES:
        raise ValueError(f"status is {row.status}")
    return row


def read(path: Path = RESULTS) -> Sweep:
    """The kept sweep."""
    first, *lines = path.read_text("utf-8").splitlines()
    head = json.loads(first)
    return Sweep(head["created"], head["versions"], tuple(load(line) for line in lines))


def write(result: Sweep, path: Path = RESULTS) -> None:
    """Keeps a sweep, whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    head = json.dumps({"created": result.created, "versions": dict(result.versions)})
    beside = path.with_name(f".{path.name}.part")
    beside.write_text("\n".join((head, *map(dump, result.rows))) + "\n", "utf-8")
    beside.replace(path)


def as_json(result: Sweep) -> dict[str, Any]:
    return {
        "created": result.created, "versions": dict(result.versions),
        "counts": {status: len(result.of(status)) for status in STATUSES}, "rows": [asdict(row) for row in result.rows],
    }  # fmt: skip


def summary(result: Sweep) -> str:
    """The table of README.md: types by what transformers maps them to, and what became of them."""
    shown = [status for status in STATUSES if result.of(status) or status in ("equal", "differs")]
    lines = [
        f"| tiny random models of transformers {result.versions['transformers']}, real generation | types "
        + "".join(f"| {STATUSES[status]} " for status in shown)
        + "|",
        "|---|---" + "|---" * len(shown) + "|",
    ]
    for mapping, name in (*_MAPPINGS.items(), ("", "all")):
        rows = [row for row in result.rows if mapping in ("", row.mapping)]
        if rows:
            counts = (str(sum(row.status == status for row in rows)) for status in shown)
            lines.append(f"| {name} | {len(rows)} | {' | '.join(counts)} |")
    return "\n".join(lines)


def document(result: Sweep) -> str:
    """The generated part of docs/COVERAGE.md: the counts, what did not run and why, and each type that did."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items() if name != "planner")
    lines = [summary(result), "", f"Measured on {result.created} with {versions}.", ""]
    lines += ["### Types that did not run, or differ", ""]
    others = [row for row in result.rows if row.status != "equal"]
    lines += [f"* `{row.type}`: {row.text}" for row in others] or ["None."]
    lines += ["", "### Types that ran", ""]
    lines += ["| type | layers | dtype | bytes measured and predicted, at each point | by layer |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.type}` | {_layers(row)} | {row.dtype} | {', '.join(f'{p.measured:,}' for p in row.points)} "
        f"| {'equal' if row.by_layer else 'one store'} |"
        for row in result.of("equal")
    ]
    return "\n".join(lines)


def _layers(row: Row) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in row.kinds.items())
