"""A validation report as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from planner.units import format_bytes
from validation.compare import TOLERANCES, Report
from validation.compare_parts import Frontier, Speed


def text(report: Report) -> str:
    """The report as a person reads it in a shell: what ran, each point, the frontier, speed, and the verdict."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield from heading(report)
    if report.points:
        yield ""
        yield from table(
            ["batch", "tokens", "predicted", "measured", "storages", "allocated", "prefill peak", "decode peak", "agrees"],
            [
                [
                    str(point.batch), f"{point.tokens:,}", f"{point.predicted.tensor_bytes:,}",
                    f"{point.measured.tensor_bytes:,}", f"{point.measured.storage_bytes:,}",
                    *(_error(checks, name) for name in ("allocated bytes", "prefill peak", "decode peak")),
                    "yes" if all(check.agrees for check in checks if check.decided) else "NO",
                ]
                for point, checks in report.checks
            ],
        )  # fmt: skip
        yield "Bytes; for allocated and peaks, how far from the prediction. (In brackets: not decided.)"
    for line in report.fits:
        yield (
            f"batch {line.batch}: {line.measured_slope:,.1f} bytes a token + {line.measured_intercept:,.0f} measured,"
            f" {line.predicted_slope:,.1f} + {line.predicted_intercept:,.0f} predicted (least squares over the grid)"
        )
    if report.points:
        yield from layer_lines(report)
    if report.frontier:
        yield ""
        yield from frontier_lines(report.frontier)
    if report.speed:
        yield ""
        yield from speed_lines(report.speed)
    yield ""
    yield from verdict(report)


def heading(report: Report) -> Iterator[str]:
    """What ran, where, and with what."""
    model, run, device = report.model, report.run, report.device
    cut = "" if model.layers == model.full_layers else f" of {model.full_layers} (cut)"
    kinds = ", ".join(f"{count} {kind}" for kind, count in model.kinds.items())
    yield f"{model.name} ({model.model_type}), {model.layers} layers{cut}: {kinds}"
    yield f"config: {model.source}"
    settings = ", ".join(f"{name}={value}" for name, value in run.cache_config.items())
    cache = f"{run.cache} cache ({settings})" if settings else f"{run.cache} cache"
    yield f"{cache}, {run.dtype}, {run.weights} weights, {run.attention} attention"
    predicted = model.predicted_parameter_bytes
    beside = "" if predicted is None else f", {format_bytes(predicted)} predicted"
    yield f"weights: {model.parameters:,} parameters, {format_bytes(model.parameter_bytes)}{beside}"
    memory = f", {format_bytes(device.memory_bytes)}" if device.memory_bytes else ""
    threads = f", {device.threads} threads" if device.threads else ""
    driver = f", driver {device.driver}" if device.driver else ""
    yield f"{device.kind}: {device.name}{memory}{threads}{driver}"
    yield ", ".join(f"{name} {value}" for name, value in report.versions.items()) + f"; {report.created}"
    yield from report.notes


def _error(checks: tuple[object, ...], name: str) -> str:
    for check in checks:
        if getattr(check, "name", None) == name:
            error = f"{getattr(check, 'error', 0.0):+.2%}"
            return error if getattr(check, "decided", False) else f"({error})"
    return "-"


def layer_lines(report: Report) -> Iterator[str]:
    """The layers of the last point, equal neighbours as one."""
    point = report.points[-1]
    if not point.layers:
        yield "The model keeps one store for all layers; they are compared together."
        return
    yield f"layers at batch {point.batch}, {point.tokens:,} tokens (bytes of one):"
    yield from table(
        ["layers", "kind", "class", "predicted", "measured", "storage predicted", "storage measured"],
        [
            [
                str(run.first) if run.count == 1 else f"{run.first}-{run.first + run.count - 1}", run.kind, run.cls,
                f"{run.predicted_bytes:,}", f"{run.measured_bytes:,}", f"{run.predicted_storage_bytes:,}",
                f"{run.measured_storage_bytes:,}",
            ]
            for run in point.layers
        ],
    )  # fmt: skip


def frontier_lines(found: Frontier) -> Iterator[str]:
    """The frontier and the attempts that found it."""
    yield f"{found.text} (limit {format_bytes(found.limit_bytes)} by {found.how}; prompt in chunks of {found.chunk})"
    yield f"  searched in steps of {found.step:,}; agrees within {TOLERANCES['frontier']:.0%}"
    for attempt in found.attempts:
        peak = f"peak {format_bytes(attempt.peak_bytes)}" if attempt.peak_bytes is not None else attempt.error or ""
        yield f"  {attempt.value:,}: {'ran' if attempt.ran else 'out of memory'}, {attempt.seconds:.1f} s, {peak}"


def speed_lines(speed: Speed) -> Iterator[str]:
    """The curves, and where a speed-up of five starts to hold."""
    yield f"with and without the cache, one request, greedy: {speed.holds(5)}"
    rows = []
    for row in speed.curve:
        same = "-" if row.same is None else "yes" if row.same else f"from {row.first_difference}, gap {row.logit_gap:.2g}"
        uncached = ["-", "-"] if row.uncached_s is None else _times(row.uncached_s, row.new_tokens)
        speedup = "-" if row.speedup is None else f"{row.speedup:.2f}"
        cached, each = _times(row.cached_s, row.new_tokens)
        rows.append([f"{row.new_tokens:,}", cached, uncached[0], each, uncached[1], speedup, same])
    head = ["new tokens", "cached s", "uncached s", "ms a token", "uncached", "speed-up", "same tokens"]
    yield from table(head, rows)
    for name, timings in (("first token by prompt", speed.first_token), ("later token by cached length", speed.later_token)):
        yield f"{name}: " + ", ".join(f"{at.tokens:,}: {1000 * at.seconds:.2f} ms" for at in timings)
    for found in speed.quantized:
        yield (
            f"{found.backend} {found.bits}-bit cache of {found.tokens:,} tokens: {found.measured_bytes:,} bytes measured,"
            f" {found.predicted_bytes:,} predicted, {found.full_bytes:,} in full"
        )
    yield from speed.notes


def _times(seconds: float, tokens: int) -> list[str]:
    """Seconds in all, and milliseconds a token."""
    return [f"{seconds:.3f}", f"{1000 * seconds / tokens:.2f}"]


def verdict(report: Report) -> Iterator[str]:
    """Whether it agrees, and each difference."""
    tolerances = ", ".join(f"{name} {'exact' if not share else f'within {share:.0%}'}" for name, share in TOLERANCES.items())
    partial = " as far as it ran" if report.partial else ""
    yield f"{'AGREES' if report.agrees else 'DIFFERS'}{partial} ({tolerances})"
    yield from report.differences


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Columns of text, each as wide as its widest cell."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        yield "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
