"""Accuracy and coverage on the Method page: the measured agreement of each engine, what is read, and what was not tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from model_configs import known
from model_configs.families import table
from model_configs.gguf_words import families as gguf_families
from planner.units import GIB
from ui import charts, messages, method_family, method_parts
from ui.engine_fields import LABELS
from ui.i18n import t
from ui.method_docs import marked
from validation import agreement, coverage_sweep

#: Sections of the measured figures, with the engines that they are of.
_SECTIONS = {"transformers": "transformers", "vllm": "vllm", "llama.cpp": "llama-cpp", "sglang": "logs", "tensorrt-llm": "logs",
             "tgi": "logs"}  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """One set of rows of an engine: a code for what they are, how many, how many equal, and why others are left out."""

    engine: str
    what: str
    rows: int
    equal: int
    left_out: dict[str, int]

    @property
    def share(self) -> str:
        """In percent; only a whole is 100."""
        return "100%" if self.rows == self.equal else f"{min(99.99, 100 * self.equal / self.rows):.2f}%"


def compared(engine: str) -> tuple[Compared, ...]:
    """Each set of rows that an engine's figures were compared with."""
    figures = agreement.read()[_SECTIONS[engine]]["figures"]
    if engine == "transformers":
        names = ("dynamic", "static", "quantized", "real")
        return tuple(Compared(engine, name, figures[name]["rows"], figures[name]["equal"], {}) for name in names)
    if engine == "vllm":
        return tuple(Compared(engine, name, one["rows"], one["equal"], one["left_out"]) for name, one in figures.items())
    if engine == "llama.cpp":
        sets = [(name, figures[name]) for name in ("gguf", "configs", "older")]
        refused = Compared(engine, "refused", figures["gguf"]["refused"], figures["gguf"]["refused_by_both"], {})
        return (*(Compared(engine, name, one["accepted"], one["equal"], {}) for name, one in sets), refused)
    one = figures[engine]
    return (Compared(engine, "tgi" if engine == "tgi" else "log", one["compared"], one["equal"], one["left_out"]),)


def what(one: Compared) -> str:
    return t(f"method.accuracy.what.{one.engine.replace('.', '_')}.{one.what}")


def sentence(engine: str) -> str:
    """The measured agreement of an engine in a line."""
    sets = [t("method.accuracy.piece", equal=one.equal, rows=one.rows, what=what(one)) for one in compared(engine)]
    return t("method.pair", name=f"**{t('method.accuracy.agreement')}**", text=t("method.join").join(sets))


def show() -> None:
    st.header(t("method.accuracy.title"), anchor=False)
    st.markdown(t("method.accuracy.lead"))
    _engines()
    st.header(t("method.accuracy.budget"), anchor=False)
    _budget()
    st.header(t("method.coverage.title"), anchor=False)
    _coverage()
    st.header(t("method.accuracy.untested"), anchor=False)
    told = [t("method.pair", name=LABELS[engine], text=t(f"method.accuracy.untested.{engine}")) for engine in _SECTIONS]
    st.markdown("\n".join(f"- {text}" for text in told))


def _engines() -> None:
    found = [one for engine in _SECTIONS for one in compared(engine)]
    method_parts.small(
        [
            {t("method.engine"): LABELS[one.engine], t("method.accuracy.compared"): what(one),
             t("method.accuracy.equal"): t("method.accuracy.equal.of", equal=one.equal, rows=one.rows, share=one.share),
             t("method.accuracy.since"): agreement.read()[_SECTIONS[one.engine]]["changed"]}
            for one in found
        ],
        t("method.accuracy.title"),
    )  # fmt: skip
    layers = agreement.read()["transformers"]["figures"]
    sets = [layers[name] for name in ("dynamic", "static", "quantized", "real")]
    st.caption(t("method.accuracy.layers", equal=sum(one["layers_equal"] for one in sets), rows=sum(one["rows"] for one in sets)))
    left = [(one, reason, count) for one in found for reason, count in one.left_out.items()]
    with st.expander(t("method.accuracy.left_out", count=sum(count for *_, count in left)), key="left_out"):
        method_parts.small(
            [{t("method.engine"): LABELS[one.engine], t("method.accuracy.why"): marked(messages.sentence(reason)),
              t("method.accuracy.rows"): str(count)} for one, reason, count in left],
            t("method.accuracy.why"),
        )  # fmt: skip


def _budget() -> None:
    """vLLM's cache as planned beside what it printed: the sums, a picture, and every start-up."""
    figures = agreement.read()["accuracy"]["figures"]
    st.markdown(t("method.accuracy.budget.lead"))
    st.dataframe(
        [
            {t("method.accuracy.start_ups"): t(f"method.accuracy.set.{name}"), t("method.accuracy.rows"): str(one["n"]),
             t("method.accuracy.mean"): f"{one['mean']:.1%}", t("method.accuracy.median"): f"{one['median']:.1%}",
             t("method.accuracy.worst"): f"{one['worst']:+.1%}", t("method.accuracy.bias"): f"{one['bias']:+.1%}",
             t("method.accuracy.outside"): t("method.accuracy.of", count=one["outside"], all=one["n"])}
            for name, one in figures["sets"].items()
        ],
        hide_index=True, alt=t("method.accuracy.budget"),
    )  # fmt: skip
    stated = [line for line in figures["lines"] if line["set"] == "stated"]
    charts.show(picture(stated), "method_accuracy", t("method.accuracy.chart.alt", count=len(stated)))
    gib, share = st.column_config.NumberColumn(format="%.2f"), st.column_config.NumberColumn(format="%+.1f%%")
    columns = {t(f"method.accuracy.{name}"): gib for name in ("printed", "ours", "low", "high")}
    method_parts.listed(
        [_start_up(line) for line in figures["lines"]], "accuracy", t("method.accuracy.start_ups"),
        column_config={**columns, t("method.accuracy.error"): share},
    )  # fmt: skip
    with st.expander(t("method.accuracy.budget.left_out", count=len(figures["left_out"])), key="accuracy_left_out"):
        method_parts.small(
            [{t("method.accuracy.row"): f"`{name}`", t("method.accuracy.why"): marked(why)}
             for name, why in figures["left_out"].items()],
            t("method.accuracy.why"),
        )  # fmt: skip


def _inside(line: dict[str, Any]) -> bool:
    return bool(line["low"] <= line["printed"] <= line["high"])


def _start_up(line: dict[str, Any]) -> dict[str, Any]:
    ranks = "".join(f" {name.upper()} {line[name]}" for name in ("tp", "pp") if name in line)
    return {
        t("method.accuracy.start_ups"): t(f"method.accuracy.set.{line['set']}"), t("method.accuracy.row"): line["id"],
        t("method.accuracy.model"): line["model"], "vLLM": line["version"], "GPU": f"{line['gpu']}{ranks}",
        t("method.accuracy.printed"): line["printed"] / GIB, t("method.accuracy.ours"): line["ours"] / GIB,
        t("method.accuracy.low"): line["low"] / GIB, t("method.accuracy.high"): line["high"] / GIB,
        t("method.accuracy.error"): 100 * (line["ours"] / line["printed"] - 1),
        t("method.accuracy.inside"): t("method.yes") if _inside(line) else t("method.no"),
    }  # fmt: skip


def picture(lines: Sequence[dict[str, Any]]) -> charts.Figure:
    """Ours against printed, each with its range; a point on the line is equal."""
    data: list[charts.Figure] = []
    most = max(line["printed"] for line in lines) / GIB * 1.05
    grey = {"color": "#8C8C8C", "width": 1.5, "dash": "dash"}
    data.append({"type": "scatter", "mode": "lines", "x": [0, most], "y": [0, most], "line": grey, "hoverinfo": "skip",
                 "name": t("method.accuracy.chart.equal")})  # fmt: skip
    for inside, colour, symbol in ((True, charts.COLOURS["full"], "circle"), (False, charts.COLOURS["chunked"], "x")):
        own = [line for line in lines if _inside(line) is inside]
        data.append({
            "type": "scatter", "mode": "markers", "name": t(f"method.accuracy.chart.{'inside' if inside else 'outside'}"),
            "x": [line["printed"] / GIB for line in own], "y": [line["ours"] / GIB for line in own],
            "error_y": {
                "type": "data", "symmetric": False, "thickness": 1, "width": 2, "color": colour,
                "array": [(line["high"] - line["ours"]) / GIB for line in own],
                "arrayminus": [(line["ours"] - max(0, line["low"])) / GIB for line in own],
            },
            "marker": {"color": colour, "symbol": symbol, "size": 9},
            "text": [f"{line['model']}<br>vLLM {line['version']}, {line['gpu']}" for line in own],
            "hovertemplate": "%{text}<br>" + t("method.accuracy.chart.hover") + "<extra></extra>",
        })  # fmt: skip
    return {
        "data": data,
        "layout": {
            "height": 400, "margin": {"l": 8, "r": 16, "t": 64, "b": 8}, "legend": charts.LEGEND,
            "xaxis": {"title": {"text": t("method.accuracy.chart.x")}, "range": [0, most], "fixedrange": True},
            "yaxis": {
                "title": {"text": t("method.accuracy.chart.y")}, "range": [0, most], "fixedrange": True, "automargin": True,
            },
        },
    }  # fmt: skip


def _coverage() -> None:
    """Model types that are read and refused, and every architecture of transformers in real generation."""
    sweep = coverage_sweep.read()
    gguf = gguf_families()
    read_archs = sum(not row.refused for row in gguf.values())
    files = agreement.read()["transformers"]["figures"]["files"]["read"]
    st.markdown(t("method.coverage.lead", types=len(known.types()), files=files, archs=read_archs))
    refused = [*table().refused.items(), *((f"{arch} (GGUF)", row.refused) for arch, row in gguf.items() if row.refused)]
    method_parts.small(
        [{t("method.coverage.refused"): f"`{name}`", t("method.accuracy.why"): messages.plain(messages.sentence(str(why)))}
         for name, why in refused],
        t("method.coverage.refused"),
    )  # fmt: skip
    st.subheader(t("method.sweep.title"), anchor=False)
    versions = ", ".join(f"{name} {version}" for name, version in sweep.versions.items() if name != "planner")
    st.markdown(t("method.sweep.lead", date=sweep.created, versions=messages.plain(versions)))
    shown = [status for status in coverage_sweep.STATUSES if sweep.of(status) or status in ("equal", "differs")]
    kinds = list(dict.fromkeys(row.mapping for row in sweep.rows))
    method_parts.small(
        [
            {t("method.sweep.mapping"): t(f"method.sweep.mapping.{mapping}"), t("method.sweep.types"): str(sum(counts.values())),
             **{t(f"method.sweep.{status.replace(' ', '_')}"): str(counts[status]) for status in shown}}
            for mapping, counts in (
                *((kind, Counter(row.status for row in sweep.rows if row.mapping == kind)) for kind in sorted(kinds)),
                ("all", Counter(row.status for row in sweep.rows)),
            )
        ],
        t("method.sweep.title"),
    )  # fmt: skip
    method_parts.listed([method_family.measured_line(row) for row in sweep.rows], "sweep", t("method.sweep.title"))
