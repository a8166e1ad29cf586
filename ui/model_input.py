"""Choosing the model: one box for a catalogue id, a Hub id or address, words to search by, a path, or a config's content.

A visitor's text is never read as a path of the server, unless who runs it says so by KV_PLANNER_LOCAL_FILES=1 (`make app`
does, being for one person): the catalogue and the Hub are asked by prefix, a config as content.
"""

from __future__ import annotations

import functools
import logging
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

import model_configs
from model_configs import catalogue
from planner.errors import InputError, PlannerError, UnsupportedArchitecture
from planner.model import Model
from ui import messages, model_own, model_search
from ui.i18n import t
from ui.model_text import MAX_LENGTH, Named, named

DEFAULT_MODEL = "Qwen/Qwen2.5-72B"
LOCAL_FILES = "KV_PLANNER_LOCAL_FILES"
#: Link parameters of this file's inputs; `hub` is an older name for a model of the Hub.
IN_LINK = ("model", "hub", "revision")
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


def choose(default: str = DEFAULT_MODEL) -> Chosen:
    """Draw the box and what belongs to its text, and read the model. Faults are told here, in one message.

    The link's `model` is written by hand: a pasted config must not become a part of it, and each page has its own default.
    """
    state, query = st.session_state, st.query_params
    if "model" not in state:
        state.model = query.get("model") or (f"hub:{query['hub']}" if query.get("hub") else default)
    state.model = state.model  # said again in each run, because the browser draws a page's box anew with its first option
    asked, problem = _understood()
    ids = [entry.id for entry in catalogue.entries()]
    others = [name for name in dict.fromkeys((*model_own.names(), str(state.model))) if name not in ids]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            t("input.model"), [*others, *ids], key="model", accept_new_options=True, persist_state="session",
            help=t("input.model.help", count=len(ids)),
        )  # fmt: skip
        model_own.ask()
    _write_link(default)
    if asked is not None:
        try:
            return _READERS[asked.kind](asked)
        except PlannerError as found:
            problem = found
    if problem is not None:
        messages.error(problem, t("error.model"))
    return Chosen(None)


def _understood() -> tuple[Named | None, PlannerError | None]:
    """What the box's text means, or what is wrong with it; the box keeps its short form, and a revision goes where it belongs."""
    state = st.session_state
    text = str(state.model or "")
    if text in (*model_own.names(), model_own.CONFIG):
        return Named("content", text), None
    try:
        found = named(text)
    except InputError as problem:
        return None, problem
    if found.kind == "content":
        model_own.paste(found.name)
        return Named("content", model_own.CONFIG), None
    forced = found.kind == "hub" and (text.startswith("hub:") or found.revision) and catalogue.find(found.name)
    short = f"hub:{found.name}" if forced else found.name
    if found.revision:
        state.revision = found.revision
    if short != text:
        state.model = short
    return found, None


def _write_link(default: str) -> None:
    query, text = st.query_params, str(st.session_state.model)[:MAX_LENGTH]
    if "hub" in query:
        del query["hub"]
    if text == default:
        query.pop("model", None)
    elif query.get("model") != text:
        query["model"] = text


def _described(read: Callable[[bool], Model], argument: str) -> Chosen:
    """The model; where no family row knows it, the person may ask to `read` it as plain attention."""
    try:
        try:
            return Chosen(read(False), argument)
        except UnsupportedArchitecture as unknown:
            slot = st.container()
            if st.checkbox(t("input.assume"), key=f"assume:{argument}:{unknown.model_type}", help=t("input.assume.help")):
                return Chosen(read(True), argument)
            with slot:
                messages.error(unknown, t("error.model"))
    except PlannerError as problem:
        messages.error(problem, t("error.model"))
    except Exception:  # a config from outside must never take the page down; the log says what a visitor must not see
        _LOG.exception("a model could not be read")
        st.error(t("error.internal"), icon=":material/error:", title=t("error.model"))
    return Chosen(None)


def _catalogue(asked: Named) -> Chosen:
    name = asked.name
    return _described(
        lambda assume: model_configs.read(f"catalogue:{name}", assume_plain_attention=True) if assume else from_catalogue(name),
        name,
    )


def _own(asked: Named) -> Chosen:
    if asked.name not in model_own.names():
        st.info(t("input.own.missing"), icon=":material/upload_file:")
        return Chosen(None)
    content = model_own.content(asked.name)
    if isinstance(content, Model):
        return Chosen(content, shlex.quote(asked.name))
    return _described(lambda assume: model_configs.read(content, assume_plain_attention=assume), model_own.CONFIG)


def _path(asked: Named) -> Chosen:
    if os.environ.get(LOCAL_FILES) != "1":
        raise InputError("files of this server are not read: upload the file, or paste its content", field="model")
    path = Path(asked.name).expanduser()
    return _described(lambda assume: model_configs.read(path, assume_plain_attention=assume), shlex.quote(asked.name))


def _words(asked: Named) -> Chosen:
    """Names to choose from, of the catalogue and of the Hub."""
    model_search.offer(asked.name)
    return Chosen(None)


def _hub(asked: Named) -> Chosen:
    """A model of the Hub, with the revision and, for gated ones, a token."""
    slot = st.container()
    with st.form("hub_form", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        revision = st.text_input(
            t("input.revision"), key="revision", bind="query-params", max_chars=200, placeholder="main",
            help=t("input.revision.help"), autocomplete="off",
        )  # fmt: skip
        token = st.text_input(
            t("input.token"), key="hub_token", type="password", help=t("input.token.help"), autocomplete="off"
        )
        if st.form_submit_button(t("input.hub.read"), icon=":material/refresh:"):
            st.session_state.pop("hub_read", None)
    at, secret = (revision or "").strip() or None, (token or "").strip() or None
    argument = shlex.quote(f"hub:{asked.name}") + (f" --revision {shlex.quote(at)}" if at else "")
    with slot:
        return _described(lambda assume: _fetched(asked.name, at, secret, assume), argument)


def _fetched(wanted: str, revision: str | None, token: str | None, assume: bool) -> Model:
    """The model from the Hub, asked for once: the answer, or the refusal, stays in the session until it is asked again.

    What a token fetched stays in this session too; only hub.py shares, and only what is public.
    """
    key = (wanted, revision, assume)
    kept = st.session_state.get("hub_read", {})
    answer: Model | PlannerError | None = kept.get(key)
    if answer is None:
        with st.spinner(t("input.hub.reading")):
            try:
                answer = model_configs.read(f"hub:{wanted}", revision, token, assume_plain_attention=assume)
            except PlannerError as problem:
                answer = problem
        st.session_state.hub_read = {**{k: v for k, v in kept.items() if k[:2] == key[:2]}, key: answer}
    if isinstance(answer, PlannerError):
        raise answer
    return answer


_READERS: dict[str, Callable[[Named], Chosen]] = {
    "catalogue": _catalogue, "hub": _hub, "path": _path, "content": _own, "words": _words,
}  # fmt: skip
