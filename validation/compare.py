"""Predicted against measured: the report of a validation run, its tolerances and its verdict, and its JSON form.

Nothing here measures or loads torch, so that a page can show a report that was made elsewhere. A report from a file is
checked field by field, and its verdict is worked out again from its figures, never believed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from planner.errors import InputError
from validation.compare_parts import (
    STRICT,
    Check,
    DeviceFacts,
    Fit,
    Frontier,
    Many,
    ModelFacts,
    Point,
    RunFacts,
    Speed,
    Text,
)

SCHEMA_VERSION = 1
#: A report of a large grid is some hundred kilobytes.
MAX_REPORT_BYTES = 4 * 1024 * 1024
#: Tolerances by check, as shares of the predicted figure; zero is exact. They stand in every report.
TOLERANCES = {"tensor bytes": 0.0, "storage bytes": 0.0, "allocated bytes": 0.01, "peak bytes": 0.05, "frontier": 0.10}


@checked(frozen=True, config=STRICT)
class Report:
    """One validation run. Byte figures are whole numbers; a figure that was not measured is null.

    created: UTC, ISO 8601. versions: of python, torch, transformers, cuda and the planner. notes: what was changed to run
    the model. partial: the run ended before all that was asked was measured.
    """

    schema_version: Annotated[int, Field(ge=1, le=SCHEMA_VERSION)]
    created: Text
    model: ModelFacts
    run: RunFacts
    device: DeviceFacts
    versions: dict[Text, Text]
    points: Many[Point] = ()
    frontier: Frontier | None = None
    speed: Speed | None = None
    notes: Many[Text] = ()
    partial: bool = False

    @cached_property
    def checks(self) -> tuple[tuple[Point, tuple[Check, ...]], ...]:
        """Each point with what was checked at it."""
        return tuple((point, point_checks(point, self.device.kind)) for point in self.points)

    @cached_property
    def fits(self) -> tuple[Fit, ...]:
        """Bytes a token and intercept over the grid, for each batch that has two lengths or more."""
        return tuple(fit(self.points))

    @property
    def agrees(self) -> bool:
        """Whether something was measured, and every figure that is decided lies within its tolerance."""
        points = all(check.agrees for _, checks in self.checks for check in checks if check.decided)
        measured = bool(self.points) or self.frontier is not None or self.speed is not None
        frontier = self.frontier is None or self.frontier.agrees(TOLERANCES["frontier"])
        speed = self.speed is None or all(row.predicted_bytes == row.measured_bytes for row in self.speed.quantized)
        return measured and points and frontier and speed

    @property
    def differences(self) -> tuple[str, ...]:
        """One line for each disagreement, the first differing layer named."""
        lines = []
        for point, checks in self.checks:
            where = f"batch {point.batch}, {point.tokens:,} tokens"
            lines += [f"{where}: {check.text}" for check in checks if check.decided and not check.agrees]
            layer = point.first_difference
            if layer:
                lines.append(f"{where}: {layer}")
        if self.frontier is not None and not self.frontier.agrees(TOLERANCES["frontier"]):
            lines.append(self.frontier.text)
        for row in self.speed.quantized if self.speed else ():
            if row.predicted_bytes != row.measured_bytes:
                lines.append(
                    f"{row.backend} cache of {row.tokens:,} tokens: predicted {row.predicted_bytes:,} bytes,"
                    f" measured {row.measured_bytes:,}"
                )
        return tuple(lines)


def point_checks(point: Point, device: str) -> tuple[Check, ...]:
    """What is compared at a point.

    Tensor and storage bytes must be equal. Allocated bytes lie within 1% of the range from whole 512-byte blocks to
    blocks that kept a rest. Peaks lie within 5%, weights included; they are decided on CUDA alone, because kernels on the
    CPU take other buffers, and only where the layers' working memory is modelled.
    """
    predicted, measured = point.predicted, point.measured
    found = [
        Check("tensor bytes", predicted.tensor_bytes, predicted.tensor_bytes, measured.tensor_bytes, TOLERANCES["tensor bytes"]),
        Check(
            "storage bytes", predicted.storage_bytes, predicted.storage_bytes, measured.storage_bytes,
            TOLERANCES["storage bytes"], decided=predicted.storage_known,
        ),
        Check(
            "allocated bytes", predicted.allocated_low_bytes, predicted.allocated_high_bytes, measured.allocated_bytes,
            TOLERANCES["allocated bytes"], decided=predicted.storage_known,
        ),
    ]  # fmt: skip
    for name, ours, theirs in (
        ("prefill peak", predicted.prefill_peak_bytes, measured.prefill_peak_bytes),
        ("decode peak", predicted.decode_peak_bytes, measured.decode_peak_bytes),
    ):
        if theirs is not None:
            total = ours + measured.before_bytes
            found.append(
                Check(name, total, total, theirs + measured.before_bytes, TOLERANCES["peak bytes"],
                      decided=device == "cuda" and predicted.peak_known)
            )  # fmt: skip
    return tuple(found)


def fit(points: Iterable[Point]) -> list[Fit]:
    """Least squares through tensor bytes over tokens, for the predicted and the measured figures of each batch."""
    by_batch: dict[int, list[Point]] = {}
    for point in points:
        by_batch.setdefault(point.batch, []).append(point)
    found = []
    for batch, row in by_batch.items():
        tokens = [point.tokens for point in row]
        if len(set(tokens)) > 1:
            ours = _line(tokens, [point.predicted.tensor_bytes for point in row])
            theirs = _line(tokens, [point.measured.tensor_bytes for point in row])
            found.append(Fit(batch, *ours, *theirs))
    return found


def _line(xs: list[int], ys: list[int]) -> tuple[float, float]:
    """Slope and intercept of the least squares line."""
    n, mean_x, mean_y = len(xs), sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    return slope, (sum(ys) - slope * sum(xs)) / n


_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


def to_json(report: Report) -> str:
    """The report as JSON text, with its verdict and tolerances beside the figures."""
    data = _REPORT.dump_python(report, mode="json")
    verdict = {"agrees": report.agrees, "differences": list(report.differences), "tolerances": TOLERANCES}
    return json.dumps({**data, "verdict": verdict}, indent=1) + "\n"


def read_json(text: str | bytes, name: str = "the report") -> Report:
    """A report from JSON that anybody may have written.

    Errors: InputError where it is too large, is no JSON, has a field that a report does not have, or a figure that cannot
    be one. Its `verdict` is dropped: `Report.agrees` is worked out from the figures.
    """
    if len(text) > MAX_REPORT_BYTES:
        raise InputError(f"{name} is larger than {MAX_REPORT_BYTES // 1024**2} MiB; a report is some 100 KiB", field="report")
    try:
        data: Any = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError(f"{name} is not JSON", field="report") from None
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError(f"{name} is no validation report: it has no schema_version", field="report")
    if data["schema_version"] != SCHEMA_VERSION:
        raise InputError(f"{name} has schema_version {data['schema_version']!r:.20}; {SCHEMA_VERSION} is read", field="report")
    data.pop("verdict", None)
    try:
        return _REPORT.validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(step) for step in problem["loc"])
        raise InputError(f"{name}: {where}: {problem['msg']}", field=f"report.{where}") from None


def _no_constant(word: str) -> float:
    raise ValueError(word)
