"""The Validate page: a real cache on this server's device, results that come with the planner, or a report made elsewhere."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import streamlit as st

from model_configs import catalogue
from planner.errors import InputError, PlannerError
from planner.model import Model
from planner.units import GIB
from ui import format as fmt
from ui import link, link_choice, messages, validate_report, validate_runs
from ui.i18n import t
from ui.model_input import from_catalogue
from ui.validate_runs import Run, Runs
from validation.compare import MAX_REPORT_BYTES, Report, read_json
from validation.cut import cut

RESULTS = Path(__file__).resolve().parent.parent / "validation" / "results"
DEFAULT_MODEL = "Qwen/Qwen2.5-0.5B"
SOURCES = ("run", "results", "upload")
#: Keys of the inputs in the order of the page, each its name in a link.
IN_LINK = (
    "validate_source", "validate_model", "validate_layers", "validate_batch", "validate_tokens", "validate_cache",
    "validate_speed", "validate_result",
)  # fmt: skip
CACHES = ("dynamic", "static", "quantized")
#: The most that a run here may ask for; a shell has no such limits.
MOST_TOKENS, MOST_BATCH, MOST_POINTS, MOST_WEIGHTS = 8192, 16, 4, 4 * GIB


@st.cache_resource(show_spinner=False)
def line() -> Runs:
    """The line of runs, one for the whole server process."""
    return Runs()


@cache
def results() -> dict[str, Path]:
    """The committed results by name."""
    return {path.stem: path for path in sorted(RESULTS.glob("*.json"))}


def numbers(text: str, name: str, most: int) -> tuple[int, ...]:
    """The whole numbers of "64, 256". InputError where they are none, too large or too many."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and 1 <= int(part) <= most for part in parts) or len(parts) > MOST_POINTS:
        raise InputError(t("validate.numbers", name=name, most=most, count=MOST_POINTS), field="grid")
    return tuple(dict.fromkeys(int(part) for part in parts))


@st.cache_data(max_entries=256, show_spinner=False)
def weight_bytes(name: str, layers: int) -> int:
    """Weights of a model cut to so many layers, in float32, which a CPU runs in. Errors: InputError."""
    model = from_catalogue(name)
    short = model if layers >= len(model.layers) else cut(model, layers)
    return 4 * short.weights.params if short.weights else 0


def fewest(name: str, model: Model) -> int:
    """The fewest layers, from two on, that have every kind of layer of the model: enough to see each, and quick to run."""
    for layers in range(2, len(model.layers)):
        try:
            weight_bytes(name, layers)
        except PlannerError:
            continue
        return layers
    return len(model.layers)


def settle_layers(name: str, model: Model) -> None:
    """How many layers, before it is asked for: the link's number on first sight, the fewest of a model that is chosen anew."""
    state, most = st.session_state, max(1, len(model.layers))
    if state.get("validate_layers_of", name) != name:
        state.validate_layers = fewest(name, model)
    state.validate_layers_of = name
    link_choice.settle("validate_layers", lambda text: _whole(text, most), fewest(name, model))
    state.validate_layers = min(most, int(state.validate_layers or 1))


def _whole(text: str, most: int) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= most else None


def ask() -> list[str] | None:
    """What follows `python -m validation`; None where something is wrong, which has been said then."""
    names = [entry.id for entry in catalogue.entries()]
    name = st.selectbox(
        t("validate.model"), names, index=names.index(DEFAULT_MODEL), key="validate_model", help=t("validate.model.help"),
        bind="query-params",
    )  # fmt: skip
    model = from_catalogue(name)
    grid = st.grid(4, min_column_width=180)
    size = fmt.size(4 * model.weights.params) if model.weights else "?"
    settle_layers(name, model)
    layers = int(grid.number_input(
        t("validate.layers"), 1, max(1, len(model.layers)), key="validate_layers", persist_state="session",
        help=t("validate.layers.help", count=len(model.layers), size=size),
    ) or 1)  # fmt: skip
    link_choice.write("validate_layers", str(layers), str(fewest(name, model)))
    batch, tokens = (
        grid.text_input(
            t(f"validate.{name}"), default, key=f"validate_{name}", bind="query-params", max_chars=60,
            help=t(f"validate.{name}.help"),
        )
        for name, default in (("batch", "1, 2"), ("tokens", "64, 256"))
    )
    kind = grid.selectbox(t("validate.cache"), CACHES, key="validate_cache", bind="query-params", help=t("validate.cache.help"))
    speed = st.toggle(t("validate.speed"), key="validate_speed", bind="query-params", help=t("validate.speed.help"))
    try:
        batches = numbers(batch, t("validate.batch"), MOST_BATCH)
        lengths = numbers(tokens, t("validate.tokens"), MOST_TOKENS)
        weights = weight_bytes(name, layers)
        if weights > MOST_WEIGHTS:
            text = t("validate.large", layers=layers, size=fmt.size(weights), most=fmt.size(MOST_WEIGHTS))
            raise InputError(text, field="layers")
    except PlannerError as problem:
        messages.error(problem)
        return None
    st.caption(t("validate.small", size=fmt.size(weights)) + " " + t("validate.limit", minutes=validate_runs.minutes()))
    words = [name, "--grid", f"batch={','.join(map(str, batches))}", f"tokens={','.join(map(str, lengths))}"]
    words += ["--layers", str(layers)] if layers < len(model.layers) else []
    words += ["--cache", str(kind)] if kind != "dynamic" else []
    return [*words, "--dtype", "float32", *(["--speed"] if speed else [])]


def run() -> None:
    """Start a run, watch it, and show what it left."""
    why = validate_runs.off_because()
    if why:
        st.info(t("validate.off" if why == "off" else "validate.no_torch"), icon=":material/power_settings_new:")
        return
    with st.container(border=True):
        words = ask()
        now: Run | None = st.session_state.get("validate_run")
        busy = now is not None and not now.over
        wanted = st.button(
            t("validate.start"), icon=":material/play_arrow:", key="validate_start", disabled=busy or words is None
        )
        if wanted and words:
            started = line().start(words)
            if started is None:
                st.warning(t("validate.full"), icon=":material/hourglass_top:")
            else:
                st.session_state.validate_run = now = started
    if words:
        st.caption(t("validate.command"))
        st.code("python -m validation " + " ".join(words), language=None, wrap_lines=True)
    if now is not None:
        watch(now)
        ended(now)


def watch(now: Run) -> None:
    """The run's place in the line or its progress, drawn again each second until it is over."""
    if now.over:
        return

    @st.fragment(run_every=1.0)
    def drawn() -> None:
        if now.over:
            st.rerun()
        place = line().place(now)
        if now.state == "waiting":
            st.info(t("validate.waiting", place=place), icon=":material/hourglass_top:")
        else:
            step = next((event for event in reversed(now.events) if event.get("event") == "step"), None)
            text = t("validate.starting") if step is None else t(
                "validate.running", what=messages.plain(f"{step['what']} {step['detail']}".strip()), done=step["done"],
                steps=step["steps"],
            )  # fmt: skip
            st.progress(min(1.0, now.share), text)
        if st.button(t("validate.cancel"), icon=":material/stop:"):
            line().cancel(now)
            time.sleep(0.2)
            st.rerun()

    drawn()


def ended(now: Run) -> None:
    if not now.over:
        return
    if now.state != "done":
        text = t(f"validate.ended.{now.state}", message=messages.plain(now.message)) if now.state == "failed" else t(
            f"validate.ended.{now.state}"
        )  # fmt: skip
        partial = " " + t("validate.ended.partial") if now.report else ""
        st.warning(text + partial, icon=":material/error:")
    if now.report:
        shown(now.report)


def shown(text: str | bytes, name: str = "") -> None:
    """A report drawn, or what is wrong with it."""
    try:
        found: Report = read_json(text, name or t("validate.upload"))
    except PlannerError as problem:
        messages.error(problem)
        return
    validate_report.show(found)


link.remember(IN_LINK)
link_choice.settle("validate_source", link_choice.one_of(*SOURCES), SOURCES[0])
st.title(t("validate.title"), anchor=False)
st.markdown(t("validate.lead"))
chosen = st.segmented_control(
    t("validate.source"), SOURCES, key="validate_source", required=True, persist_state="session",
    format_func=lambda name: t(f"validate.source.{name}"), label_visibility="collapsed",
)  # fmt: skip
link_choice.write("validate_source", str(chosen), SOURCES[0])
notices = st.container()
with messages.guarded():
    if chosen == "run":
        run()
    elif chosen == "upload":
        upload = st.file_uploader(
            t("validate.upload"), type="json", max_upload_size=MAX_REPORT_BYTES // 1024**2, key="validate_upload",
            help=t("validate.upload.help"),
        )  # fmt: skip
        if upload is None:
            st.caption(t("validate.upload.empty"))
        else:
            shown(upload.getvalue(), upload.name)
    elif not results():
        st.info(t("validate.results.none"), icon=":material/pending:")
    else:
        picked = st.selectbox(t("validate.results.pick"), list(results()), key="validate_result", bind="query-params")
        shown(results()[str(picked)].read_bytes(), str(picked))
        if not any(b'"kind": "cuda"' in path.read_bytes() for path in results().values()):
            st.info(t("validate.results.cpu_only"), icon=":material/pending:")
with notices:
    messages.ignored(link.ignored())
