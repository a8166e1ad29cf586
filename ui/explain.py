"""The Explain page: paste a start-up log, and see each printed figure beside the one that the engine's own rules give."""

from __future__ import annotations

import re
import shlex
from importlib import resources

import streamlit as st

from model_configs import catalogue
from planner import hardware
from planner.errors import PlannerError
from planner.model import Model
from ui import format as fmt
from ui import inputs, link, messages, model_by_name
from ui.engine_fields import LABELS
from ui.i18n import t
from validation import logs
from validation.logs import Check, CheckLine, Log

MAX_UPLOAD_MB = 4
#: Keys of the inputs that a link has, model and GPU; the log itself is no part of it.
IN_LINK = ("explain_model", "explain_gpu")
#: A start as vLLM 0.19.0 prints it, with the figures of a run on an H100 that llm-d published.
_EXAMPLE = "example_log.txt"


def ask() -> tuple[str, str | None, str | None]:
    """The log's text, and the model and GPU where the person says them."""
    if "explain_log" not in st.session_state:
        st.session_state.explain_log = ""
    text = st.text_area(
        t("explain.log"), key="explain_log", height=220, placeholder=t("explain.log.placeholder"), help=t("explain.log.help")
    )
    grid = st.grid(2, min_column_width=240)
    model = grid.selectbox(
        t("explain.model"), [entry.id for entry in catalogue.entries()], index=None, key="explain_model", accept_new_options=True,
        bind="query-params", placeholder=t("explain.model.from_log"), help=t("explain.model.help"),
    )  # fmt: skip
    gpu = grid.selectbox(
        t("explain.gpu"), [card.name for card in hardware.gpus()], index=None, key="explain_gpu", accept_new_options=True,
        bind="query-params", placeholder=t("explain.gpu.from_log"), help=t("explain.gpu.help"),
    )  # fmt: skip
    with st.container(horizontal=True):
        st.button(t("explain.example"), icon=":material/experiment:", on_click=_example, key="explain_example")
        with st.popover(t("explain.upload"), icon=":material/upload_file:", key="explain_upload_more"):
            upload = st.file_uploader(
                t("explain.upload"), type=["log", "txt", "json"], max_upload_size=MAX_UPLOAD_MB, key="explain_upload",
                help=t("explain.upload.help"),
            )  # fmt: skip
    if upload is not None:
        st.caption(messages.plain(t("explain.uploaded", name=upload.name)))
    if upload is not None:
        text = upload.getvalue().decode("utf-8", errors="replace")
    return text or "", model, gpu


def _example() -> None:
    st.session_state.explain_log = resources.files("ui").joinpath(_EXAMPLE).read_text(encoding="utf-8")


@st.cache_data(max_entries=64, show_spinner=False)
def _read(text: str) -> Log:
    return logs.read(text)


def answered(text: str, model: str | None, gpu: str | None) -> tuple[Log, Check]:
    """The log, and what comes of it. Errors: PlannerError."""
    found = _read(text)
    served: Model | None = model_by_name.model_of(model)[0] if model else None
    return found, logs.explain(found, served, inputs.find_gpu(gpu) if gpu else None)


def headline(log: Log, check: Check) -> None:
    """Whose log it is, and whether its figures are explained."""
    st.caption(messages.plain(t(
        "explain.found", engine=LABELS.get(log.engine, log.engine), version=log.version or t("explain.unknown_version"),
        model=log.model or t("explain.unknown_model"), gpu=log.gpu or t("explain.unknown_gpu"),
    )))  # fmt: skip
    exact = [line for line in check.lines if not line.estimated] or check.lines
    count, differ = len(exact), sum(not line.agrees for line in exact)
    if not count:
        st.info(t("explain.nothing"), icon=":material/help:")
    elif differ:
        st.warning(t("explain.differs", differ=differ, count=count), icon=":material/difference:")
    else:
        text = t("explain.agrees.one") if count == 1 else t("explain.agrees.many", count=count)
        st.success(text, icon=":material/check_circle:")


def written(name: str, value: float) -> str:
    """A figure in the unit that its name says."""
    if name.endswith("_bytes"):
        return fmt.size(value)
    return f"{value:,.2f}" if isinstance(value, float) and not value.is_integer() else f"{int(value):,}"


def named(name: str) -> str:
    """A figure's name in words."""
    return re.sub(r"_bytes$", "", name).replace("_", " ")


def _verdict(line: CheckLine) -> str:
    """Whether a line agrees; an estimate only says whether the print lies in its range."""
    if line.estimated:
        return t("explain.within") if line.agrees else t("explain.outside")
    return t("explain.yes") if line.agrees else f"**{t('explain.no')}**"


def table(check: Check) -> None:
    st.header(t("explain.table.title"), anchor=False)
    rows = [
        {
            t("explain.column.figure"): messages.plain(named(line.name)),
            t("explain.column.printed"): messages.plain(line.shown or written(line.name, line.printed)),
            t("explain.column.ours"): written(line.name, line.ours),
            t("explain.column.agrees"): _verdict(line),
            t("explain.column.rule"): messages.plain(line.rule),
        }
        for line in check.lines
    ]
    agree = sum(line.agrees for line in check.lines)
    st.table(rows, border="horizontal", hide_index=True, alt=t("explain.table.alt", count=len(rows), agree=agree))


def listed(title: str, texts: tuple[str, ...], lead: str = "") -> None:
    if texts:
        st.header(title, anchor=False)
        if lead:
            st.markdown(lead)
        st.markdown("\n".join(f"- {messages.plain(messages.sentence(text))}" for text in texts))


def details(log: Log) -> None:
    """Everything that was read, for whom the comparison is not enough."""
    with st.expander(t("explain.all.title", count=len(log.all)), icon=":material/receipt_long:"):
        rows = [
            {
                t("explain.column.line"): figure.line, t("explain.column.rank"): figure.rank or "",
                t("explain.column.figure"): named(figure.name), t("explain.column.printed"): written(figure.name, figure.value),
                t("explain.column.text"): figure.text[:200],
            }
            for figure in log.all
        ]  # fmt: skip
        st.dataframe(rows, hide_index=True, alt=t("explain.all.alt"))
        if log.settings:
            st.markdown(f"**{t('explain.settings.title')}**")
            st.code("\n".join(f"{name}: {value}" for name, value in log.settings.items()), language=None, wrap_lines=True)


link.remember(IN_LINK)
st.title(t("explain.title"), anchor=False)
st.markdown(t("explain.lead"))
with st.container(border=True):
    notices = st.container()
    text, model, gpu = ask()
with notices:
    messages.ignored(link.ignored())
if not text.strip():
    st.caption(t("explain.waiting"))
    st.stop()
try:
    log, check = answered(text, model, gpu)
except PlannerError as problem:
    messages.error(problem)
    st.stop()
with messages.guarded():
    headline(log, check)
    if check.lines:
        table(check)
    listed(t("explain.rules.title"), check.rules)
    listed(t("explain.advice.title"), check.advice)
    listed(t("explain.missing.title"), check.missing, t("explain.missing.text"))
    listed(t("explain.warnings.title"), log.warnings)
    details(log)
    st.header(t("explain.command"), anchor=False)
    words = f" --model {shlex.quote(model)}" if model else ""
    st.code(f"python -m planner log server.log{words}", language=None, wrap_lines=True)
