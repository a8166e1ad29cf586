"""Opening a saved plan: a file that a page or the shell exported gives every input what it had, on the page that it was made on.

A file is read and checked whole before anything is changed, so that a bad one changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, cast

import streamlit as st

import model_configs
from planner.errors import PlannerError
from planner.report import SCHEMA_VERSION
from planner.version import VERSION
from ui import format as fmt
from ui import import_shell, messages, model_own
from ui.i18n import t
from ui.import_values import PAGES, Path, Wrong, names, rules

#: MiB of a file; a config of a quantised model can have some.
MOST_MIB = 8
#: Figures that tell whether the answer is still the file's, by the name of their text.
FIGURES = {
    "headroom_bytes": "capacity.headroom.free", "max_requests": "capacity.most", "max_context": "capacity.longest",
    "kv_cache_bytes": "answer.total",
}  # fmt: skip
#: What inputs are called on the page, for those whose name in a link says little.
_LABELS = {
    "server": "capacity.engine", "node": "capacity.node", "gpus": "capacity.gpus", "load": "capacity.requests",
    "prompt": "capacity.input.prompt", "output": "capacity.input.output", "price": "capacity.price", "tokens": "input.tokens",
    "requests": "input.requests", "kv": "input.kv", "gpu": "input.gpu", "engine": "input.engine", "encoder": "input.encoder",
}  # fmt: skip
_MOST_VALUES, _MOST_LETTERS, _NAME = 500, 400, 40


@dataclass(frozen=True)
class Opened:
    """What a file asks for. values: inputs by key; unknown: by name, for the link alone; config: a config's text.

    query: the same as a link. lengths: the name of a file of lengths that it needs too. said: figures of the file's own answer;
    version: of the planner that gave it.
    """

    path: Path
    values: dict[str, Any]
    query: dict[str, str]
    config: str | None = None
    assumed: tuple[str, ...] = ()
    lengths: str | None = None
    said: dict[str, int] = field(default_factory=dict)
    version: str = ""


def read(data: bytes) -> Opened:
    """What is in a file. Raises Wrong, which says what would be right."""
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Wrong("json") from None
    if not isinstance(found, dict) or "schema_version" not in found:
        raise Wrong("plan")
    version = found["schema_version"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise Wrong("plan")
    if version > SCHEMA_VERSION:
        raise Wrong("version", version=version, known=SCHEMA_VERSION)
    if "page" not in found and "asked" not in found:
        raise Wrong("page")
    page = found["page"] if "page" in found else import_shell.page_of(found)
    if not isinstance(page, dict) or str(page.get("path")) not in PAGES or not isinstance(page.get("query"), dict):
        raise Wrong("page")
    opened = _opened(cast(Path, page["path"]), page, found.get("config"))
    said = {name: found[name] for name in FIGURES if isinstance(found.get(name), int)}
    return replace(opened, said=said, version=str(found.get("planner_version", ""))[:_NAME])


def _opened(path: Path, page: dict[str, Any], config: object) -> Opened:
    query, known, values = dict(page["query"]), rules(path), dict[str, Any]()
    if len(query) > _MOST_VALUES:
        raise Wrong("plan")
    if "hub" in query:  # an older word for a model of the Hub
        query.setdefault("model", f"hub:{query['hub']}")
        del query["hub"]
    for name, text in query.items():
        if name not in names(path):
            raise Wrong("unknown", name=name[:_NAME])
        if not isinstance(text, str) or len(text) > _MOST_LETTERS:
            raise Wrong("text", name=name, most=_MOST_LETTERS)
        if name in known:
            values[name] = known[name].read(name, text)
    return Opened(path, values, query, _config(config, values), _assumed(page.get("assumed", [])), _lengths(page))


def _config(config: object, values: dict[str, Any]) -> str | None:
    """The config's text, where the model is one; it is read once to see that it can be."""
    if values.get("model") != model_own.CONFIG:
        return None
    if not isinstance(config, dict):
        raise Wrong("config")
    try:
        text = json.dumps(config)
        model_configs.parse_config(text, t("input.config.origin.uploaded"))
    except PlannerError as problem:
        raise Wrong("config.bad", detail=problem.message) from None
    except (ValueError, RecursionError):
        raise Wrong("config") from None
    return text


def _assumed(found: object) -> tuple[str, ...]:
    """Keys of the choice to treat an unknown architecture as plain attention."""
    if not isinstance(found, list):
        return ()
    return tuple(key for key in found[:4] if isinstance(key, str) and key.startswith("assume:") and len(key) < _MOST_LETTERS)


def _lengths(page: dict[str, Any]) -> str | None:
    found = page.get("lengths")
    return str(found.get("name"))[:_MOST_LETTERS] if isinstance(found, dict) else None


def take(path: Path) -> None:
    """Before anything of a page is drawn: give its inputs what an opened file asks for, on the page that it asks for."""
    state = st.session_state
    opened: Opened | None = state.get("import_opened")
    if opened is None:
        state.pop("import_said", None)
        return
    kept = {"lang": st.query_params["lang"]} if "lang" in st.query_params else {}
    if path != opened.path:
        state.import_turned = True
        st.switch_page(PAGES[opened.path], query_params=kept)
    if not state.get("import_turned"):  # by way of another page, because a page's link cannot be changed once it has inputs
        st.switch_page(next(file for name, file in PAGES.items() if name != path), query_params=kept)
    del state["import_opened"], state["import_turned"]
    for name in names(path):
        state.pop(name, None)
    for name, value in opened.values.items():
        state[name] = value
    for key in opened.assumed:
        state[key] = True
    if opened.config is not None:
        state.own_config, state.own_origin = opened.config, t("input.config.origin.uploaded")
    for name in ("hub_found", "link_lost"):
        state.pop(name, None)
    state.page = path  # because an opened file speaks for all pages, unlike a page that is opened
    defaults = rules(path)
    state.link = {
        name: text for name, text in opened.query.items() if name not in defaults or opened.values[name] != defaults[name].default
    }
    state.link_ignored = {}
    st.query_params.update(state.link)
    state.import_told, state.import_said = opened.lengths or "", opened


def title(text: str) -> None:
    """A page's title with the place for a file beside it."""
    state = st.session_state
    turn = state.setdefault("import_count", 0)
    # A new key after each file, so that the box closes, which would hide the error, and the same file can be opened again.
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title(text, anchor=False, width="content")
        with st.popover(t("import.open"), icon=":material/folder_open:", key=f"open_plan_box_{turn}", type="tertiary"):
            st.file_uploader(
                t("import.file"), type="json", key=f"open_plan_{turn}", max_upload_size=MOST_MIB, on_change=_uploaded,
                args=(f"open_plan_{turn}",), help=t("import.file.help"),
            )  # fmt: skip
            st.caption(t("import.note"))


def told() -> None:
    """What is wrong with the file that was opened last, or what it still needs."""
    state = st.session_state
    problem: Wrong | None = state.pop("import_problem", None)
    if problem is not None:
        fields = {name: messages.plain(_called(value) if name == "name" else value) for name, value in problem.fields.items()}
        title = t("import.error.title", file=messages.plain(state.pop("import_file", "")))
        st.error(t(f"import.error.{problem.name}", **fields), icon=":material/error:", title=title)
    needs = state.pop("import_told", None)
    if needs is not None:
        st.toast(t("import.opened"), icon=":material/check_circle:")
    if needs:
        st.info(t("import.lengths", name=messages.plain(needs)), icon=":material/upload_file:")


def _called(name: object) -> str:
    """An input as the page calls it, with its name in the file."""
    label = _LABELS.get(str(name))
    return str(name) if label is None else f"{t(label)} ({name})"


def compare(figures: dict[str, int | None]) -> None:
    """Say where the answer of a file that was just opened is not the one in it: another version, or what no input can say."""
    opened: Opened | None = st.session_state.pop("import_said", None)
    if opened is None:
        return
    for name, was in opened.said.items():
        now = figures.get(name)
        if now is None or now == was:
            continue
        old, new = (fmt.size(count) if name.endswith("_bytes") else f"{count:,}" for count in (was, now))
        text = t("import.changed", name=t(FIGURES[name]), was=old, now=new, made=messages.plain(opened.version), here=VERSION)
        st.toast(text, icon=":material/warning:", duration="infinite")
        return


def _uploaded(key: str) -> None:
    """The file that was just chosen, read and checked; the page is told what it says at the top of its next draw."""
    state = st.session_state
    upload = state.get(key)
    if upload is None:
        return
    state.import_count += 1
    try:
        state.import_opened = read(upload.getvalue())
    except Wrong as problem:
        state.import_problem, state.import_file = problem, str(upload.name)[:_NAME]
