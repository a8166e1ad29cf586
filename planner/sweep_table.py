"""The points of a sweep in columns: a dict of arrays for CSV, Parquet or a data frame."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from planner.sweep_forms import REFUSED, Integers

#: Columns that all points of a group have in common, in order.
GROUP = ("model", "engine", "kv_cache_dtype", "tensor_parallel_size", "pipeline_parallel_size", "gpu")
#: Rows that are turned into text at a time.
_CHUNK = 1 << 14


@dataclass(frozen=True)
class _Group:
    row: dict[str, Any]
    room: int | None
    exact: bool
    refusal: str  # of points
    unknown: str = ""  # why the budget is not known


class Table:
    """Groups of the same points: one for each model, variant and GPU.

    columns() gives, row by row: the group's own (model, engine, kv_cache_dtype, tensor_parallel_size, pipeline_parallel_size,
    gpu), tokens and requests, and
    cache_bytes: the cache on the fullest rank; -1 where the engine refuses, with its reason in `refusal`
    kv_budget_bytes, headroom_bytes, fits: only where a budget was asked for; headroom = budget - cache. 0 and False where it
    is not known, with the reason in `refusal`. `fits` says that these requests' cache is within the budget; what an engine
    asks for beside it at start-up is `planner.plan`'s
    exact_form: computed by a closed form (else by the engine's own function, point by point; the bytes are the same)
    """

    def __init__(self, points: int, tokens: Integers, requests: Integers) -> None:
        self._tokens, self._requests = tokens, requests
        self._sizes = np.full(points, REFUSED, np.int64)
        self._groups: list[_Group] = []

    @property
    def filled(self) -> int:
        return len(self._groups) * len(self._tokens)

    def __len__(self) -> int:
        return len(self._sizes)

    def fill(
        self, row: dict[str, Any], sizes: Integers, room: int | None, exact: bool, refusal: str = "", unknown: str = ""
    ) -> None:
        """The points of one group: bytes, the budget and why it is not known, and why points are refused."""
        start = self.filled
        self._sizes[start : start + len(sizes)] = sizes
        self._groups.append(_Group(row, room, exact, refusal, unknown))

    def refuse(self, row: dict[str, Any], reason: str) -> None:
        """A group that the engine refuses at every point."""
        self._groups.append(_Group(row, None, False, reason))

    def columns(self) -> dict[str, Any]:
        """Name -> array, all of one length. Texts are object arrays, numbers int64, answers bool; a column that is the same
        everywhere, or shared with the table, cannot be written to."""
        each, groups = len(self._tokens), self._groups
        size = self._sizes[: self.filled]
        found: dict[str, Any] = {}
        for name in GROUP:
            kind = np.int64 if name.endswith("size") else object
            found[name] = _spread([group.row[name] for group in groups], kind, each)
        found["tokens"], found["requests"] = _tiled(self._tokens, len(groups)), _tiled(self._requests, len(groups))
        found["cache_bytes"] = size
        if any(group.room is not None for group in groups):
            room = _spread([group.room or 0 for group in groups], np.int64, each)
            known = _spread([group.room is not None for group in groups], bool, each) & (size >= 0)
            found["kv_budget_bytes"] = room
            found["headroom_bytes"] = np.where(known, room - size, 0)
            found["fits"] = known & (room >= size)
        found["exact_form"] = _spread([group.exact for group in groups], bool, each)
        reasons = _spread([group.refusal for group in groups], object, each)
        found["refusal"] = reasons
        if any(group.refusal or group.unknown for group in groups):
            unknown = _spread([group.unknown for group in groups], object, each)
            found["refusal"] = np.where(size < 0, reasons, unknown)
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each point as plain Python values; None for what is not known."""
        columns = self.columns()
        for start in range(0, self.filled, _CHUNK):
            parts = {name: values[start : start + _CHUNK].tolist() for name, values in columns.items()}
            for values in zip(*parts.values(), strict=True):
                yield _plain(dict(zip(parts, values, strict=True)))

    def write_csv(self, file: IO[str]) -> int:
        """Writes a header and every point to an open text file (newline=""), and returns how many points there were."""
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns())
        count = 0
        for row in self.rows():
            writer.writerow(_text(value) for value in row.values())
            count += 1
        return count

    @property
    def reasons(self) -> dict[str, int]:
        """Why points were refused, and how many for each reason."""
        found: dict[str, int] = {}
        each = len(self._tokens)
        for place, group in enumerate(self._groups):
            refused = int((self._sizes[place * each : (place + 1) * each] < 0).sum())
            if refused:
                found[group.refusal] = found.get(group.refusal, 0) + refused
        return found


def _spread(values: list[Any], kind: Any, each: int) -> Any:
    """Each group's value at each of its points; one value in memory where they are all the same."""
    if values and all(value == values[0] for value in values):
        return np.broadcast_to(np.array(values[:1], kind), len(values) * each)
    return np.repeat(np.array(values, kind), each)


def _tiled(values: Integers, times: int) -> Integers:
    if times != 1:
        return np.tile(values, times)
    view = values.view()
    view.flags.writeable = False
    return view


def _text(value: Any) -> Any:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    if row["cache_bytes"] < 0:
        row["cache_bytes"] = None
    if "fits" in row and (row["cache_bytes"] is None or row["refusal"]):
        row["kv_budget_bytes"] = row["headroom_bytes"] = row["fits"] = None
    return row
