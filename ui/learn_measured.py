"""Measured curves on the Learn page: real generation with and without the cache, and the time to the first token.

They come from the reports in validation/results; each says on which machine and when, because seconds are that machine's.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from planner.errors import PlannerError
from ui import charts, messages
from ui.i18n import t
from validation.compare import Report, read_json

_RESULTS = Path(__file__).resolve().parent.parent / "validation" / "results"


@cache
def measured() -> Report | None:
    """The newest report here that has curves with and without the cache; None without one."""
    found = []
    for path in sorted(_RESULTS.glob("*.json")):
        try:
            report = read_json(path.read_bytes(), path.name)
        except PlannerError:
            continue
        if report.speed is not None and any(row.uncached_s is not None for row in report.speed.curve):
            found.append(report)
    return max(found, key=lambda report: report.created, default=None)


def _where(report: Report) -> str:
    device = report.device
    name = f"{device.name}, {device.threads} × CPU" if device.kind == "cpu" else device.name
    return messages.plain(t(
        "learn.measured.where", model=report.model.name, dtype=report.run.dtype, device=name, date=report.created[:10],
        torch=report.versions.get("torch", "?"), transformers=report.versions.get("transformers", "?"),
    ))  # fmt: skip


def saved() -> None:
    """Seconds with and without the cache by new tokens, and whether the outputs are the same."""
    report = measured()
    if report is None or report.speed is None:
        return
    st.subheader(t("learn.measured.curve"), anchor=False)
    rows = [row for row in report.speed.curve if row.uncached_s is not None]
    without = [(row.new_tokens, row.uncached_s or 0) for row in rows]
    with_ = [(row.new_tokens, row.cached_s) for row in report.speed.curve]
    data = [
        _line(t("learn.steps.without"), "#D55E00", "dash", "x", without),
        _line(t("learn.steps.with"), "#0072B2", "solid", "circle", with_),
    ]
    last = rows[-1]
    alt = t(
        "learn.measured.alt", tokens=last.new_tokens, with_=f"{last.cached_s:.1f}", without=f"{last.uncached_s or 0:.1f}"
    )
    charts.show(_figure(data, t("learn.work.axis"), t("learn.work.seconds")), "learn_measured", alt)
    times = [t("learn.measured.point", tokens=row.new_tokens, times=row.speedup) for row in rows if row.speedup]
    listed = t("learn.measured.join").join(times)
    same = [row.same for row in rows if row.same is not None]
    st.markdown(t("learn.measured.figure", points=listed, same=sum(same), count=len(same)))
    st.caption(_where(report))
    st.page_link("ui/validate.py", label=t("learn.measured.own"), icon=":material/fact_check:")


def first_token() -> None:
    """Seconds to the first token and for one more, by length."""
    report = measured()
    if report is None or report.speed is None or not report.speed.first_token:
        return
    st.subheader(t("learn.measured.first.title"), anchor=False)
    first = [(row.tokens, row.seconds) for row in report.speed.first_token]
    later = [(row.tokens, row.seconds) for row in report.speed.later_token]
    data = [
        _line(t("learn.measured.first"), "#D55E00", "dash", "x", first),
        _line(t("learn.measured.later"), "#0072B2", "solid", "circle", later),
    ]
    told = ", ".join(f"{tokens:,}: {seconds:.3g} s" for tokens, seconds in first)
    charts.show(
        _figure(data, t("learn.first.axis"), t("validate.time.seconds")), "learn_measured_first",
        t("learn.measured.first.alt", points=told),
    )  # fmt: skip
    st.caption(_where(report))


def _line(name: str, colour: str, dash: str, symbol: str, points: list[tuple[int, float]]) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines+markers", "name": name, "x": [x for x, _ in points], "y": [y for _, y in points],
        "line": {"color": colour, "width": 3, "dash": dash}, "marker": {"symbol": symbol, "size": 9},
        "hovertemplate": "%{x:,}: %{y:.3g} s<extra>%{fullData.name}</extra>",
    }  # fmt: skip


def _figure(data: list[dict[str, Any]], across: str, up: str) -> dict[str, Any]:
    return {
        "data": data,
        "layout": {
            "height": 340, "margin": charts.WIDE_MARGIN, "legend": charts.LEGEND, "hovermode": "closest",
            "xaxis": {"title": {"text": across}, "fixedrange": True, "rangemode": "tozero"},
            "yaxis": {"title": {"text": up}, "fixedrange": True, "rangemode": "tozero", "automargin": True},
        },
    }  # fmt: skip
