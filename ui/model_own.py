"""A config of somebody's own: pasted into the box, pasted into its own field, or uploaded as config.json or GGUF header.

Kept in the session until another takes its place: `own_config` has a config's text, `own_gguf` a file's name and what it
describes.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import streamlit as st

import model_configs
from model_configs import gguf
from planner.errors import PlannerError
from planner.model import Model
from ui.i18n import t

#: What the model box and the shell call a pasted or uploaded config.
CONFIG = "config.json"
#: A header with the vocabulary of the largest models takes some 15 MB, and nothing behind it is read.
MOST_MB = 32
_MOST_SHOWN = 80


def names() -> list[str]:
    """How the box calls what this session has of its own."""
    state = st.session_state
    own = [CONFIG] if state.get("own_config") else []
    return own + ([state.own_gguf[0]] if state.get("own_gguf") else [])


def content(name: str) -> dict[str, Any] | Model:
    """The content of a config, or the model of a GGUF header. Errors: PlannerError."""
    state = st.session_state
    if name == CONFIG:
        return _parsed(state.own_config, state.get("own_origin", ""))
    found: Model | PlannerError = state.own_gguf[1]
    if isinstance(found, PlannerError):
        raise found
    return found


@functools.lru_cache(maxsize=8)
def _parsed(text: str | bytes, origin: str) -> dict[str, Any]:
    return model_configs.parse_config(text, origin)


def paste(text: str | bytes) -> None:
    """Take a config's text and make it the model of the page. Bytes that are no UTF-8 are kept for the message about them."""
    state = st.session_state
    if isinstance(text, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            text = text.decode("utf-8-sig")
    state.own_config, state.own_origin, state.model = text, t("input.config.origin.pasted"), CONFIG


def ask() -> None:
    """The field to paste into and the one to upload by, behind a button beside the box."""
    with st.popover(t("input.own"), icon=":material/upload_file:"):
        st.file_uploader(
            t("input.upload"), type=["json", "gguf"], key="upload", max_upload_size=MOST_MB, help=t("input.upload.help"),
            on_change=_uploaded,
        )  # fmt: skip
        st.text_area(
            t("input.paste"), key="paste", height=160, placeholder=t("input.paste.placeholder"), on_change=_pasted,
            help=t("input.paste.help"),
        )  # fmt: skip


def _pasted() -> None:
    text = str(st.session_state.get("paste") or "").strip()
    if text:
        paste(text)


def _uploaded() -> None:
    state = st.session_state
    upload = state.get("upload")
    if upload is None:
        return
    data = upload.getvalue()
    if data[:4] == b"GGUF" or str(upload.name).lower().endswith(".gguf"):
        name = "".join(c for c in str(upload.name) if c.isprintable())[-_MOST_SHOWN:]
        try:
            found: Model | PlannerError = gguf.read_gguf_bytes(data, name)
        except PlannerError as problem:
            found = problem
        state.own_gguf, state.model = (name, found), name
        return
    paste(data)
    state.own_origin = t("input.config.origin.uploaded")
