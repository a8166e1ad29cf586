"""Taking an answer away: the plan and the KV answer as files, each built when its button is pressed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from planner import cli, cli_plan
from planner.capacity_plan import Plan
from planner.errors import EngineRefusal
from planner.kv_markdown import kv_markdown
from planner.launch_script import launch_script
from planner.model import Model
from planner.plan_markdown import plan_markdown
from planner.simulate import Simulation
from planner.version import VERSION
from ui import capacity_ask, capacity_command, capacity_upload, import_plan
from ui import format as fmt
from ui.capacity_inputs import Asked
from ui.i18n import t
from ui.import_values import Path, names, option_of, rules


@dataclass(frozen=True)
class File:
    """A file on offer. what: the key of its label and help in the locales."""

    name: str
    what: str
    mime: str
    icon: str
    text: Callable[[], str]


def plan(found: Plan, asked: Asked) -> None:
    """The end of the Capacity page. The advice and the simulation are those that the page has drawn."""
    figures = {"headroom_bytes": found.headroom_bytes, "max_requests": found.max_requests, "max_context": found.max_context}
    import_plan.compare(figures)
    whole = replace(found, advice=capacity_ask.advice(asked, found))
    simulation, points = _simulation(found, asked), capacity_ask.curve(asked, found)
    page = page_of("capacity", asked.option, asked.model)

    def data() -> dict[str, Any]:
        made = cli_plan.data_of(whole, simulation, asked.price or None, asked.seen.found)
        return {**made, "planner_version": VERSION, "asked": cli.asked_of(_words(capacity_command.line(asked))), "page": page}

    script = launch_script(cli_plan.data_of(found))[0]
    _offer(
        File("plan.json", "json", "application/json", "data_object", lambda: _json(data())),
        File("plan.md", "markdown", "text/markdown", "description", lambda: plan_markdown(data())),
        File("plan.csv", "terms", "text/csv", "table", lambda: terms_csv(found)),
        File("curve.csv", "curve", "text/csv", "show_chart", lambda: fmt.csv_text(("context_tokens", "most_requests"), points)),
        File(script, "script", "text/plain", "terminal", lambda: launch_script(data())[1]),
    )


def kv(line: str, model: Model, option: str, total_bytes: int) -> None:
    """The end of the Plan page. line: of the shell, with the page's figures; total_bytes: of the cache."""
    import_plan.compare({"kv_cache_bytes": total_bytes})
    page = page_of("plan", option, model)

    def data() -> dict[str, Any]:
        return {**cli.answer(_words(line), lambda _: model), "page": page}

    _offer(
        File("kv.json", "json", "application/json", "data_object", lambda: _json(data())),
        File("kv.md", "markdown", "text/markdown", "description", lambda: kv_markdown(data())),
        File("layers.csv", "layers", "text/csv", "table", lambda: layers_csv(data())),
    )


def _offer(*files: File) -> None:
    with st.container(key="take_away"):
        st.header(t("export.title"), anchor=False)
        with st.container(horizontal=True):
            for file in files:
                st.download_button(
                    t(f"export.{file.what}"), file.text, file.name, file.mime, key=f"take_{file.what}", on_click="ignore",
                    icon=f":material/{file.icon}:", help=t(f"export.{file.what}.help", name=file.name),
                )  # fmt: skip
        st.caption(t("export.note"))


def _words(line: str) -> list[str]:
    """The arguments behind `python -m planner`."""
    return shlex.split(line)[3:]


def _simulation(found: Plan, asked: Asked) -> Simulation | EngineRefusal | None:
    if found.workload is None or not found.workload.varies:
        return None
    try:
        return capacity_ask.simulation(asked, found)
    except EngineRefusal as refusal:
        return refusal


def page_of(path: Path, option: str, model: Model) -> dict[str, Any]:
    """Which page it was and what every input of it had, in a link's words; `link` is the same without what is a default.

    Settings of other engines move nothing and are left out. A choice to treat an unknown architecture as plain attention, and a
    file of lengths, which no link can say, stand beside.
    """
    state, known = st.session_state, rules(path)
    query: dict[str, str] = {}
    for name in names(path):
        value = state.get(name)
        if value is None or option_of(name) not in (None, option) or (name == "revision" and model.source.kind != "hub"):
            continue
        query[name] = str(value).lower() if isinstance(value, bool) else str(value)
    said = {name: text for name, text in query.items() if name not in known or text != _default(known[name].default)}
    page: dict[str, Any] = {"path": path, "link": f"{path}?{urlencode(said)}" if said else path, "query": query}
    if model.assumption:
        page["assumed"] = [str(key) for key, value in state.items() if str(key).startswith("assume:") and value is True]
    observed = capacity_upload.read()
    if observed is not None and query.get("vary") == "observed":
        page["lengths"] = {"name": observed.name, "requests": len(observed.pairs), "sha256": observed.digest}
    return page


def _default(value: Any) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2) + "\n"


def terms_csv(found: Plan) -> str:
    """Every use of the memory of one GPU, in bytes."""
    head = ("use", "bytes", "low_bytes", "high_bytes", "confidence", "source")
    return fmt.csv_text(head, ((one.name, one.bytes, one.low, one.high, one.confidence, one.source) for one in found.terms))


def layers_csv(data: dict[str, Any]) -> str:
    """Every layer's bytes, of `report.kv_data`."""
    return fmt.csv_text(("layer", "kind", "bytes"), ((one["index"], one["kind"], one["bytes"]) for one in data["layers"]))
