"""Requests against context, engine by engine: what each would hold of the same model on the same GPUs, by its own rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from planner.capacity_demand import CONTEXT_WORDS
from planner.capacity_deploy import PIPELINE, TENSOR
from planner.capacity_plan import Plan
from planner.errors import PlannerError
from planner.workload import Workload
from ui import capacity_adapters, capacity_charts, charts, messages
from ui import format as fmt
from ui.capacity_inputs import ENGINES, Asked
from ui.charts import COLOURS, LEGEND, Figure
from ui.engine_dtypes import settings_for, word_of
from ui.engine_fields import LABELS, engine_of
from ui.i18n import t

IN_LINK = ("per_engine",)
#: GPUs up to which every engine is worked out without being asked for; beyond, engines that spread layers over cards take longer
#: than a second (one GPU: 0.3 s; eight with DeepSeek-V3: 0.6 s; 64 with Llama-3.1-405B: 1.1 s, most of it llama.cpp).
_FEW = 64
_FIRST, _SHORTEST = 1_024, 8
#: A colour, a dash and a mark for each engine, so that nothing is told by colour alone.
_STYLES = {
    "vllm": (COLOURS["full"], "solid", "circle"), "sglang": (COLOURS["sliding"], "dash", "square"),
    "tensorrt-llm": (COLOURS["latent"], "dot", "diamond"), "tgi": (COLOURS["indexed"], "dashdot", "triangle-up"),
    "llama.cpp": (COLOURS["compressed"], "longdash", "triangle-down"), "transformers": (COLOURS["cross"], "longdashdot", "star"),
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One engine: (context, most requests at once), None of them where memory does not limit it; or why it refuses."""

    option: str
    points: tuple[tuple[int, int | None], ...] = ()
    refusal: str = ""

    @property
    def held(self) -> list[tuple[int, int]]:
        return [(context, most) for context, most in self.points if most]


Answer = Callable[[Asked, tuple[int, ...]], tuple[tuple[tuple[int, int | None], ...], str]]


def options(own: str) -> tuple[str, ...]:
    """The engines that are drawn, the person's own among them; Ollama takes the place of llama.cpp, whose rule it has."""
    return tuple(option for option in ENGINES if option != ("llama.cpp" if own == "ollama" else "ollama"))


def question(asked: Asked, option: str, plan: Plan | None, length: int) -> Asked | None:
    """The same deployment on another engine: its own defaults with the same split, the same KV dtype, the same adapters. None
    where it has no such dtype. Errors: PlannerError for what it cannot be set to."""
    alike = Workload(
        requests=1, shared_prefix_tokens=asked.workload.shared_prefix_tokens, beams=asked.workload.beams,
        speculative_tokens=asked.workload.speculative_tokens, encoder_tokens=asked.workload.encoder_tokens,
        image_tokens=asked.workload.image_tokens,
    )  # fmt: skip
    if option == asked.option:
        return replace(asked, workload=alike, settings=plan.deployment.settings if plan else asked.settings)
    engine = engine_of(option)
    values = settings_for(option, word_of(asked.option, asked.settings.model_dump()) or "auto")
    if values is None:
        return None
    word = CONTEXT_WORDS.get(engine.name)
    # A model without a limit of its own needs one said.
    length = {word: length} if word and asked.model.max_context is None else {}
    made: Any = engine.Settings(**values, **_started(option), **_split(engine.name, plan), **length)
    adapters = asked.adapters
    if adapters is not None:
        made, adapters = capacity_adapters.applied(adapters, asked.model, engine.name, made)
    return replace(asked, option=option, settings=made, workload=alike, given={}, adapters=adapters)


def _started(option: str) -> dict[str, str]:
    return {"front_end": "ollama" if option == "ollama" else "server"} if engine_of(option).name == "llama.cpp" else {}


def _split(engine: str, plan: Plan | None) -> dict[str, int]:
    """The plan's ranks and stages in the engine's words; left open where either of them has none."""
    if plan is None or plan.engine not in TENSOR or engine not in TENSOR or plan.gpus == 1:
        return {}
    found = {TENSOR[engine]: plan.tensor_parallel_size}
    if engine in PIPELINE:
        found[PIPELINE[engine]] = plan.pipeline_parallel_size
    return found


def contexts(limit: int, own: int) -> tuple[int, ...]:
    """Lengths from 1,024 on, each twice the last, the person's own and the limit; parts of a limit that is short."""
    if limit < _FIRST * _SHORTEST:
        steps = [limit >> power for power in range(1, 6) if limit >> power]
    else:
        steps = [_FIRST << power for power in range(limit.bit_length()) if _FIRST << power < limit]
    return tuple(sorted({*steps, limit, min(own, limit)}))


@st.fragment
def show(asked: Asked, plan: Plan | None, limit: int, here: tuple[int, int], answer: Answer) -> None:
    """The picture, the engines that have no line with their reasons, and the same as a table. limit: of the model; here: the
    person's point. answer: what works out one line, or says why the engine refuses."""
    st.header(t("capacity.engines.title"), anchor=False)
    gpus = max(asked.gpus, len(asked.node.gpus))
    if gpus > _FEW and not st.toggle(
        t("capacity.engines.draw"), key="per_engine", bind="query-params", help=t("capacity.engines.draw.help", gpus=f"{gpus:,}")
    ):
        return
    with messages.guarded():
        lengths = contexts(limit, here[0])
        with st.spinner(t("capacity.engines.working"), show_time=False):
            lines = [_line(asked, option, plan, lengths, answer) for option in options(asked.option)]
        _draw(lines, asked, plan, here)


def _line(asked: Asked, option: str, plan: Plan | None, lengths: tuple[int, ...], answer: Answer) -> Line:
    try:
        one = question(asked, option, plan, lengths[-1])
    except PlannerError as problem:
        return Line(option, refusal=_reason(problem.message))
    if one is None:
        return Line(option, refusal=t("engines.no_dtype"))
    points, refusal = answer(one, lengths)
    return Line(option, points, _reason(refusal))


def _reason(message: str) -> str:
    """Without the words that the line begins with anyway."""
    return messages.sentence(message.partition(" refuses this: ")[2] or message)


def _draw(lines: Sequence[Line], asked: Asked, plan: Plan | None, here: tuple[int, int]) -> None:
    """The picture, and beneath it who has no line and why, what the lines have in common, and the table."""
    drawn = [line for line in lines if line.held]
    if drawn:
        charts.show(figure(drawn, asked.option, here, plan), "capacity_engines", _alt(drawn))
    without = [f":small[:material/block: {text}]" for text in _without(lines)]
    if without:
        st.markdown("  \n".join(without))
    word = word_of(asked.option, asked.settings.model_dump())
    notes = [t("capacity.engines.note", engine=LABELS[asked.option])]
    notes += [t("capacity.engines.word", word=word)] if word not in (None, "auto") else []
    notes += [t("capacity.engines.weights", gguf=asked.gguf)] if asked.gguf else []
    notes += [t("capacity.engines.given", engine=LABELS[asked.option])] if asked.given else []
    st.caption(" ".join(notes))
    if drawn:
        _table(lines, drawn, here[0])


def _without(lines: Sequence[Line]) -> Iterator[str]:
    """Why engines have no line: what refuses, each with its reason, then what holds nothing, and what has no limit."""
    others: dict[str, list[str]] = {"nothing": [], "unlimited": []}
    for line in lines:
        name = f"**{LABELS[line.option]}**"
        if line.refusal:
            yield t("capacity.engines.refused", engine=name, reason=messages.plain(line.refusal))
        elif not line.held:
            others["unlimited" if any(most is None for _, most in line.points) else "nothing"].append(name)
    for code, names in others.items():
        if names:
            yield t(f"capacity.engines.{code}", engines=", ".join(names))


def _alt(drawn: Sequence[Line]) -> str:
    told = "; ".join(
        t(
            "capacity.engines.alt.one", engine=LABELS[line.option], first=f"{line.held[0][1]:,}", short=f"{line.held[0][0]:,}",
            last=f"{line.held[-1][1]:,}", long=f"{line.held[-1][0]:,}",
        )
        for line in drawn
    )  # fmt: skip
    return t("capacity.engines.alt", lines=told)


def figure(drawn: Sequence[Line], own: str, here: tuple[int, int], plan: Plan | None) -> Figure:
    """One line an engine on two logarithmic axes, the person's own wider, with the person's point: a cross where it does not fit,
    its words then above it, where no line of its own is."""
    data: list[Figure] = []
    for line in drawn:
        colour, dash, mark = _STYLES[engine_of(line.option).name]
        name = t("capacity.engines.yours", engine=LABELS[line.option]) if line.option == own else LABELS[line.option]
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": name, "x": [x for x, _ in line.held],
            "y": [y for _, y in line.held], "line": {"color": colour, "dash": dash, "width": 4 if line.option == own else 2},
            "marker": {"symbol": mark, "size": 9 if line.option == own else 7, "color": colour},
            "hovertemplate": t("capacity.curve.hover") + f"<extra>{LABELS[line.option]}</extra>",
        })  # fmt: skip
    data.append(capacity_charts.asked_point(here, plan is not None and plan.fits))
    places = [point for line in drawn for point in line.held]
    return {
        "data": data,
        "layout": {
            "height": 440, "margin": {**charts.WIDE_MARGIN, "t": 64}, "hovermode": "closest", "legend": LEGEND,
            **capacity_charts.requests_axes([here, *places]),
            "annotations": [capacity_charts.asked_label(here, places, plan is None or plan.fits)],
        },
    }  # fmt: skip


def _table(lines: Sequence[Line], drawn: Sequence[Line], own: int) -> None:
    """The drawn lines, the person's own length in bold."""
    by_engine = {line.option: dict(line.points) for line in drawn}
    lengths = [context for context, _ in drawn[0].points]
    rows = [
        {
            t("capacity.curve.axis"): f"**{context:,}**" if context == own else f"{context:,}",
            **{LABELS[option]: _cell(most[context]) for option, most in by_engine.items()},
        }
        for context in lengths
    ]  # fmt: skip
    with st.expander(t("capacity.engines.table"), icon=":material/table:", key="engines_table"):
        st.table(rows, border="horizontal", hide_index=True, alt=t("capacity.engines.table"))
        st.download_button(
            t("capacity.engines.csv"), lambda: as_csv(lines), "requests-by-engine.csv", "text/csv", on_click="ignore",
            icon=":material/download:", key="engines_csv",
        )  # fmt: skip


def _cell(most: int | None) -> str:
    return t("capacity.no_limit") if most is None else f"{most:,}"


def as_csv(lines: Sequence[Line]) -> str:
    """One row an engine and length; of an engine that refuses, one with its reason. An empty number is no limit."""
    rows = [
        (LABELS[line.option], context, most, line.refusal) for line in lines for context, most in line.points or (("", ""),)
    ]
    return fmt.csv_text(("engine", "tokens_of_each_request", "most_requests", "refusal"), rows)
