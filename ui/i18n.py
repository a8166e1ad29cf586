"""The page's texts by key; a language is a few files in locales/: `zh-CN.yaml`, `zh-CN.learn.yaml` for a page of much text."""

from __future__ import annotations

import functools
from contextvars import ContextVar
from importlib import resources

import streamlit as st
import yaml
from streamlit.runtime.scriptrunner import get_script_run_ctx

DEFAULT = "en"
#: Each language by its own name. One whose file is missing is not offered.
NAMES = {"en": "English", "zh-CN": "简体中文", "zh-TW": "繁體中文"}
#: The language of this thread's run, because looking it up in the session for each of a page's thousand texts takes long. A
#: fragment runs in a thread of its own and looks once.
_CURRENT: ContextVar[str | None] = ContextVar("language", default=None)
_FOLDER = resources.files("ui").joinpath("locales")


@functools.cache
def languages() -> tuple[str, ...]:
    """The languages that have texts."""
    return tuple(code for code in NAMES if _FOLDER.joinpath(f"{code}.yaml").is_file())


@functools.cache
def texts(language: str = DEFAULT) -> dict[str, str]:
    """Every text of a language. Raises FileNotFoundError for one without a file."""
    found: dict[str, str] = {}
    names = sorted(item.name for item in _FOLDER.iterdir() if item.name.startswith(f"{language}."))
    for name in names or [f"{language}.yaml"]:
        text = _FOLDER.joinpath(name).read_text(encoding="utf-8")
        found |= yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found


def language() -> str:
    """The language of the visitor whose page is being drawn; English outside a page."""
    found = _CURRENT.get()
    if found is None:
        found = str(st.session_state.get("language", DEFAULT)) if get_script_run_ctx(suppress_warning=True) else DEFAULT
        _CURRENT.set(found)
    return found


def speak(language: str) -> None:
    """Draw this run of the page in a language."""
    st.session_state.language = language
    _CURRENT.set(language)


def t(key: str, /, **fields: object) -> str:
    """The text called `key` in the visitor's language with its {fields} filled in. KeyError for a key that it lacks."""
    text = texts(language())[key]
    return text.format(**fields) if fields else text
