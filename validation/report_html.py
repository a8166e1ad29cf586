"""A validation report as one self-contained page: no script, no address but its own, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from planner.units import format_bytes
from validation.compare import Report
from validation.compare_parts import Timing
from validation.report import frontier_lines, heading, speed_lines, verdict

_STYLE = """
:root{color-scheme:light dark;--line:#8885;--ours:#3b6fd4;--theirs:#d4703b}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}
th,td{border-bottom:1px solid var(--line);padding:.3rem .8rem;text-align:right;font-variant-numeric:tabular-nums}
.good{color:#1a7f37}.bad{color:#c4342b;font-weight:600}.note{opacity:.75}pre{white-space:pre-wrap}
svg{max-width:100%;height:auto}svg text{font:12px system-ui;fill:currentColor}
"""


def html(report: Report) -> str:
    """The page: verdict, what ran, points with a chart, layers, frontier and speed."""
    title = f"{report.model.name}: cache {'agrees' if report.agrees else 'differs'}"
    parts = [f"<h1>{escape(title)}</h1>", _verdict(report), "<p>" + "<br>".join(map(escape, heading(report))) + "</p>"]
    if report.points:
        parts += ["<h2>Predicted and measured</h2>", _points(report), _chart(report), "<h2>Layers</h2>", _layers(report)]
    if report.frontier:
        parts += ["<h2>Frontier</h2>", _pre(frontier_lines(report.frontier))]
    if report.speed:
        parts += [
            "<h2>Speed</h2>", _pre(speed_lines(report.speed)),
            _curve("First token by prompt length", report.speed.first_token),
            _curve("Later token by cached length", report.speed.later_token),
        ]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _verdict(report: Report) -> str:
    word = "good" if report.agrees else "bad"
    first, *rest = verdict(report)
    return f'<p class="{word}">{escape(first)}</p>' + "".join(f'<p class="bad">{escape(line)}</p>' for line in rest)


def _pre(lines: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _points(report: Report) -> str:
    rows = []
    for point, checks in report.checks:
        for check in checks:
            predicted = f"{check.low:,}" if check.low == check.high else f"{check.low:,} to {check.high:,}"
            word = ("good", "yes") if check.agrees else ("bad", "no")
            decided = f'<span class="{word[0]}">{word[1]}</span>' if check.decided else '<span class="note">not decided</span>'
            figures = [predicted, f"{check.measured:,}", f"{check.error:+.2%}"]
            rows.append([str(point.batch), f"{point.tokens:,}", escape(check.name), *figures, decided])
    return _table(["batch", "tokens", "what", "predicted bytes", "measured bytes", "error", "agrees"], rows)


def _layers(report: Report) -> str:
    point = report.points[-1]
    if not point.layers:
        return "<p>The model keeps one store for all layers; they are compared together.</p>"
    rows = [
        [
            str(run.first) if run.count == 1 else f"{run.first}-{run.first + run.count - 1}", escape(run.kind), escape(run.cls),
            f"{run.predicted_bytes:,}", f"{run.measured_bytes:,}", f"{run.measured_storage_bytes:,}",
        ]
        for run in point.layers
    ]  # fmt: skip
    head = ["layers", "kind", "class", "predicted bytes", "measured bytes", "storage bytes"]
    return f"<p>batch {point.batch}, {point.tokens:,} tokens, bytes of one layer</p>" + _table(head, rows)


def _chart(report: Report) -> str:
    """Predicted and measured bytes of each point, as pairs of bars."""
    top = max(max(p.predicted.tensor_bytes, p.measured.tensor_bytes) for p in report.points) or 1
    step, bars = 64, []
    for index, point in enumerate(report.points):
        for offset, size, colour in ((0, point.predicted.tensor_bytes, "ours"), (22, point.measured.tensor_bytes, "theirs")):
            height = round(180 * size / top, 1)
            bars.append(
                f'<rect x="{index * step + 8 + offset}" y="{190 - height}" width="20" height="{height}" fill="var(--{colour})"/>'
            )
        bars.append(f'<text x="{index * step + 28}" y="206" text-anchor="middle">{point.batch}×{point.tokens}</text>')
    label = f"Cache bytes at each point, predicted (first) and measured (second); the highest is {format_bytes(top)}"
    width = max(step * len(report.points), 200)
    return (
        f'<figure><svg viewBox="0 0 {width} 212" width="{width}" height="212" role="img" aria-label="{escape(label)}">'
        f"{''.join(bars)}</svg><figcaption>{escape(label)}</figcaption></figure>"
    )


def _curve(title: str, rows: Sequence[Timing]) -> str:
    return f"<h3>{escape(title)}</h3>" + _table(
        ["tokens", "ms"], [[f"{row.tokens:,}", f"{1000 * row.seconds:.2f}"] for row in rows]
    )
