"""A validation report on the page: the verdict, predicted against measured, every figure, the layers, and the curves of speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui import charts, messages, words
from ui import format as fmt
from ui.charts import COLOURS
from ui.i18n import t
from validation.compare import Report, to_json

#: By batch: colour and symbol, so that nothing is told by colour alone.
_SERIES = (("#0072B2", "circle"), ("#E69F00", "diamond"), ("#009E73", "square"), ("#CC79A7", "triangle-up"))
#: The speed-up that people are promised.
_PROMISED = 5.0


def show(report: Report) -> None:
    verdict(report)
    if report.points:
        points(report)
        checks(report)
        layers(report)
    if report.frontier is not None:
        st.header(t("validate.frontier.title"), anchor=False)
        st.markdown(messages.plain(messages.sentence(report.frontier.text)))
    if report.speed is not None:
        speed(report)
    for note in report.notes:
        st.caption(messages.plain(note))
    st.download_button(
        t("validate.download"), to_json(report), "validation.json", "application/json", on_click="ignore",
        icon=":material/download:",
    )  # fmt: skip


def verdict(report: Report) -> None:
    count = len(report.points)
    many = t("validate.points.one") if count == 1 else t("validate.points.many", count=count)
    if report.agrees:
        st.success(t("validate.agrees", points=many), icon=":material/check_circle:")
    else:
        listed = "".join(f"\n- {messages.plain(line)}" for line in report.differences[:8])
        st.error(t("validate.differs", count=len(report.differences)) + "\n" + listed, icon=":material/cancel:")
    st.caption(messages.plain(t(
        "validate.facts", model=report.model.name, layers=report.model.layers, full=report.model.full_layers,
        kinds=words.kinds(report.model.kinds), cache=report.run.cache, dtype=report.run.dtype, device=report.device.name,
        created=report.created,
    )))  # fmt: skip
    st.caption(messages.plain(t("validate.versions", versions=", ".join(f"{k} {v}" for k, v in report.versions.items()))))


def points(report: Report) -> None:
    """The cache at each point: a line for what is predicted, a mark with its error for what was measured."""
    st.header(t("validate.chart.title"), anchor=False)
    batches = sorted({point.batch for point in report.points})
    unit, scale = fmt.unit(max(point.measured.tensor_bytes for point in report.points))
    data: list[dict[str, Any]] = []
    for batch, (colour, symbol) in zip(batches, _SERIES * (1 + len(batches) // len(_SERIES)), strict=False):
        row = sorted((point for point in report.points if point.batch == batch), key=lambda point: point.tokens)
        x = [point.tokens for point in row]
        hover = [
            t("validate.chart.hover", measured=point.measured.tensor_bytes, predicted=point.predicted.tensor_bytes,
              error=_error(point.predicted.tensor_bytes, point.measured.tensor_bytes))
            for point in row
        ]  # fmt: skip
        data.append({
            "type": "scatter", "mode": "lines", "name": t("validate.chart.line", batch=batch), "x": x,
            "y": [point.predicted.tensor_bytes / scale for point in row], "line": {"color": colour, "width": 2},
            "hoverinfo": "skip",
        })  # fmt: skip
        data.append({
            "type": "scatter", "mode": "markers+text", "name": t("validate.chart.point", batch=batch), "x": x,
            "y": [point.measured.tensor_bytes / scale for point in row],
            "marker": {"color": colour, "symbol": symbol, "size": 11},
            "text": [f"{_error(p.predicted.tensor_bytes, p.measured.tensor_bytes):+.2%}" for p in row],
            "textposition": "top left", "hovertext": hover, "hoverinfo": "text",
        })  # fmt: skip
    worst = max(abs(_error(p.predicted.tensor_bytes, p.measured.tensor_bytes)) for p in report.points)
    figure = _axes(data, t("validate.chart.axis"), t("validate.chart.bytes", unit=unit))
    figure["layout"]["legend"] = charts.LEGEND
    charts.show(figure, "validate_points", t("validate.chart.alt", count=len(report.points), error=worst))
    for fit in report.fits:
        st.markdown(t(
            "validate.fit", batch=fit.batch, ours=fit.predicted_slope, theirs=fit.measured_slope, zero=fit.predicted_intercept,
            zero_measured=fit.measured_intercept,
        ))  # fmt: skip


def _error(predicted: int, measured: int) -> float:
    return measured / predicted - 1 if predicted else float(measured != predicted)


def _axes(data: list[dict[str, Any]], across: str, up: str) -> dict[str, Any]:
    kind = {"rangemode": "tozero"}
    return {
        "data": data,
        "layout": {
            "height": 340, "margin": charts.WIDE_MARGIN, "hovermode": "closest",
            "xaxis": {**kind, "title": {"text": across}, "fixedrange": True},
            "yaxis": {**kind, "title": {"text": up}, "fixedrange": True, "automargin": True},
        },
    }  # fmt: skip


def checks(report: Report) -> None:
    rows = []
    for point, found in report.checks:
        for check in found:
            word = t("validate.checks.agrees") if check.agrees else t("validate.checks.differs")
            low, high = check.low, check.high
            rows.append({
                t("validate.checks.point"): t("validate.checks.where", batch=point.batch, tokens=point.tokens),
                t("validate.checks.figure"): check.name,
                t("validate.checks.predicted"): f"{low:,}" if low == high else t("validate.checks.range", low=low, high=high),
                t("validate.checks.measured"): f"{check.measured:,}", t("validate.checks.error"): f"{check.error:+.2%}",
                t("validate.checks.verdict"): word if check.decided else t("validate.checks.told", verdict=word),
            })  # fmt: skip
    st.header(t("validate.checks.title"), anchor=False)
    st.dataframe(rows, hide_index=True, alt=t("validate.checks.alt", count=len(rows)))


def layers(report: Report) -> None:
    with st.expander(t("validate.layers.title"), icon=":material/table_rows:"):
        rows = [
            {
                t("validate.checks.point"): t("validate.checks.where", batch=point.batch, tokens=point.tokens),
                t("validate.layers.layer"): f"{run.first}–{run.first + run.count - 1}" if run.count > 1 else f"{run.first}",
                t("validate.layers.kind"): words.kind(run.kind), t("validate.layers.class"): run.cls,
                t("validate.checks.predicted"): f"{run.predicted_bytes:,}",
                t("validate.checks.measured"): f"{run.measured_bytes:,}",
            }
            for point in report.points for run in point.layers
        ]  # fmt: skip
        if rows:
            st.dataframe(rows, hide_index=True, alt=t("validate.layers.alt"))
        else:
            st.caption(t("validate.layers.none"))


def speed(report: Report) -> None:
    """The measured curves: speed-up by new tokens, time to the first token, time of one more, quantized caches."""
    assert report.speed is not None
    st.header(t("validate.speed.title"), anchor=False)
    rows = [(row.new_tokens, row.speedup) for row in report.speed.curve if row.speedup is not None]
    if rows:
        told = ", ".join(f"{tokens:,}: {times:.1f}" for tokens, times in rows)
        curve("validate_speedup", rows, t("validate.speed.axis"), t("validate.speed.times"), t("validate.speed.alt", points=told))
        st.markdown(messages.plain(t("validate.speed.holds", text=report.speed.holds(_PROMISED))))
        compared = [row.same for row in report.speed.curve if row.same is not None]
        st.markdown(t("validate.speed.same", same=sum(compared), count=len(compared)))
    left, right = st.columns(2)
    for place, name, timings in ((left, "first", report.speed.first_token), (right, "later", report.speed.later_token)):
        if timings:
            with place:
                title = t(f"validate.{name}.title")
                st.subheader(title, anchor=False)
                told = ", ".join(f"{row.tokens:,}: {row.seconds:.3g} s" for row in timings)
                curve(
                    f"validate_{name}", [(row.tokens, row.seconds) for row in timings], t("validate.time.axis"),
                    t("validate.time.seconds"), t("validate.time.alt", title=title, points=told),
                )  # fmt: skip
    for one in report.speed.quantized:
        st.markdown(t(
            "validate.quantized.line", backend=messages.plain(one.backend), bits=one.bits, tokens=one.tokens,
            measured=one.measured_bytes, predicted=one.predicted_bytes,
            share=one.measured_bytes / one.full_bytes if one.full_bytes else 0,
        ))  # fmt: skip
    for note in report.speed.notes:
        st.caption(messages.plain(note))


def curve(key: str, rows: Sequence[tuple[int, float]], across: str, up: str, alt: str) -> None:
    data = [{
        "type": "scatter", "mode": "lines+markers", "x": [x for x, _ in rows], "y": [y for _, y in rows], "showlegend": False,
        "line": {"color": COLOURS["full"], "width": 3}, "marker": {"size": 8},
        "hovertemplate": "%{x:,}: %{y:.3g}<extra></extra>",
    }]  # fmt: skip
    figure = _axes(data, across, up)
    figure["layout"] |= {"height": 300, "margin": {**charts.WIDE_MARGIN, "t": 28}}
    charts.show(figure, key, alt)
