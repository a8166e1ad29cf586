"""Choosing the model: from the catalogue, from the Hub, or by a config.json of one's own.

A visitor's text is never read as a path of the server: the catalogue and the Hub are asked by prefix, a config as content.
"""

from __future__ import annotations

import functools
import logging
import shlex
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

import model_configs
from model_configs import catalogue, hub
from planner.errors import PlannerError, UnsupportedArchitecture
from planner.model import Model
from ui import messages
from ui.i18n import t

DEFAULT_MODEL = "Qwen/Qwen2.5-72B"
SOURCES = ("catalogue", "hub", "config")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chosen:
    """The model that was read, None while there is none, and how a shell names it."""

    model: Model | None
    argument: str = ""


@functools.lru_cache(maxsize=512)
def from_catalogue(model_id: str) -> Model:
    """A catalogue model, described once a process: entries never change while it runs."""
    return model_configs.read(f"catalogue:{model_id}")


def choose() -> Chosen:
    """Draw the inputs of the chosen source and read the model. Faults are told here, in one message."""
    if "source" not in st.session_state:  # a link that names a Hub model opens on the Hub
        st.session_state.source = "hub" if st.query_params.get("hub") else "catalogue"
    source = st.segmented_control(
        t("input.source"), SOURCES, format_func=lambda code: t(f"input.source.{code}"), key="source", required=True,
        persist_state="session",
    )  # fmt: skip
    return {"hub": _hub, "config": _config}.get(source or "", _catalogue)()


def _catalogue() -> Chosen:
    ids = [entry.id for entry in catalogue.entries()]
    asked = st.query_params.get("model")
    if "model" not in st.session_state and asked and asked not in ids and (entry := catalogue.find(asked)):
        st.session_state.model = entry.id  # a link may use another name of an entry
    default = ids.index(DEFAULT_MODEL) if DEFAULT_MODEL in ids else 0
    help_text = t("input.model.help", count=len(ids))
    chosen = st.selectbox(t("input.model"), ids, index=default, key="model", bind="query-params", help=help_text)
    return _described(
        lambda: from_catalogue(chosen),
        lambda: model_configs.read(f"catalogue:{chosen}", assume_plain_attention=True),
        chosen,
    )


def _described(plain: Callable[[], Model], assumed: Callable[[], Model], argument: str) -> Chosen:
    """The model that `plain` reads; where no family row knows it, the person may ask for `assumed`."""
    try:
        try:
            return Chosen(plain(), argument)
        except UnsupportedArchitecture as unknown:
            slot = st.container()
            if st.checkbox(t("input.assume"), key=f"assume:{argument}:{unknown.model_type}", help=t("input.assume.help")):
                return Chosen(assumed(), argument)
            with slot:
                messages.error(unknown, t("error.model"))
    except PlannerError as problem:
        messages.error(problem, t("error.model"))
    except Exception:  # a config from outside must never take the page down; the log says what a visitor must not see
        _LOG.exception("a model could not be read")
        st.error(t("error.internal"), icon=":material/error:", title=t("error.model"))
    return Chosen(None)


def _config() -> Chosen:
    columns = st.columns(2)
    with columns[0]:
        upload = st.file_uploader(
            t("input.upload"), type="json", key="upload", max_upload_size=4, help=t("input.upload.help")
        )
    with columns[1]:
        pasted = st.text_area(
            t("input.paste"), key="paste", height=120, disabled=upload is not None, persist_state="session",
            placeholder=t("input.paste.placeholder"),
        )  # fmt: skip
    if upload is None and not (pasted or "").strip():
        st.info(t("input.config.empty"), icon=":material/upload_file:")
        return Chosen(None)
    try:
        if upload is not None:
            content = model_configs.parse_config(upload.getvalue(), t("input.config.origin.uploaded"))
        else:
            content = model_configs.parse_config(pasted, t("input.config.origin.pasted"))
    except PlannerError as problem:
        messages.error(problem, t("error.model"))
        return Chosen(None)
    return _described(
        lambda: model_configs.read(content),
        lambda: model_configs.read(content, assume_plain_attention=True),
        "config.json",
    )


def _hub() -> Chosen:
    with st.form("hub_form", border=False):
        columns = st.columns([4, 2, 3])
        wanted = columns[0].text_input(
            t("input.hub"), key="hub", bind="query-params", max_chars=200, placeholder=t("input.hub.placeholder"),
            help=t("input.hub.help"), autocomplete="off",
        )  # fmt: skip
        revision = columns[1].text_input(
            t("input.revision"), key="revision", bind="query-params", max_chars=200, placeholder="main",
            help=t("input.revision.help"), autocomplete="off",
        )  # fmt: skip
        token = columns[2].text_input(
            t("input.token"), key="hub_token", type="password", help=t("input.token.help"), autocomplete="off"
        )
        with st.container(horizontal=True):
            read = st.form_submit_button(t("input.hub.read"), type="primary", icon=":material/download:")
            search = st.form_submit_button(t("input.hub.search"), icon=":material/search:")
    wanted, at, secret = (wanted or "").strip(), (revision or "").strip() or None, (token or "").strip() or None
    if search and wanted:
        _search(wanted, secret)
        st.session_state.pop("hub_read", None)
    _suggestions()
    if not wanted:
        st.info(t("input.hub.empty"), icon=":material/cloud_download:")
        return Chosen(None)
    if search or ("hub_found" in st.session_state and not read and "hub_read" not in st.session_state):
        return Chosen(None)  # names are on offer; nothing has been chosen yet
    if read:
        st.session_state.pop("hub_found", None)
        st.session_state.pop("hub_read", None)
    argument = shlex.quote(f"hub:{wanted}") + (f" --revision {shlex.quote(at)}" if at else "")
    return _described(
        lambda: _fetched(wanted, at, secret, False), lambda: _fetched(wanted, at, secret, True), argument
    )


def _fetched(wanted: str, revision: str | None, token: str | None, assume: bool) -> Model:
    """The model from the Hub, asked for once a press: the answer, or the refusal, stays in the session until the next.

    What a token fetched stays in this session too; only hub.py shares, and only what is public.
    """
    key = (wanted, revision, assume)
    kept = st.session_state.get("hub_read", {})
    if key not in kept:
        with st.spinner(t("input.hub.reading")):
            try:
                found: Model | PlannerError = model_configs.read(
                    f"hub:{wanted}", revision, token, assume_plain_attention=assume
                )
            except PlannerError as problem:
                found = problem
        kept = {**{k: v for k, v in kept.items() if k[:2] == key[:2]}, key: found}
        st.session_state.hub_read = kept
    answer: Model | PlannerError = kept[key]
    if isinstance(answer, PlannerError):
        raise answer
    return answer


def _search(text: str, token: str | None) -> None:
    """Ask the Hub for names that hold `text`; the names, or what went wrong, stay in the session until the next search."""
    with st.spinner(t("input.hub.searching")):
        try:
            st.session_state.hub_found = hub.Hub(token=token).search(text, 8)
        except PlannerError as problem:
            st.session_state.hub_found = problem


def _suggestions() -> None:
    found = st.session_state.get("hub_found")
    if isinstance(found, PlannerError):
        messages.error(found, t("error.hub"))
    elif found is not None and not found:
        st.info(t("input.hub.none"), icon=":material/search_off:")
    elif found:
        # Ids hold characters that Markdown reads ("_"), so each label is escaped.
        st.pills(
            t("input.hub.found"), [one.id for one in found], key="hub_pick", on_change=_picked,
            format_func=messages.plain, help=t("input.hub.found.help"),
        )  # fmt: skip


def _picked() -> None:
    picked = st.session_state.get("hub_pick")
    if picked:
        st.session_state.hub = picked
        st.session_state.pop("hub_found", None)
        st.session_state.pop("hub_read", None)
