"""Which language the page speaks: what the link says, else what was chosen, else the browser's own."""

from __future__ import annotations

import streamlit as st

from ui import messages
from ui.i18n import DEFAULT, NAMES, languages, speak, t

#: Streamlit writes "en" into every page; screen readers, translators and the choice of glyphs go by it.
_HTML_LANG = st.components.v2.component(
    "html_lang", js="export default function ({ data }) { document.documentElement.lang = data.lang }"
)


def of_browser(locale: str | None) -> str:
    """The language for a browser's locale: Chinese by its script or, where none is said, by its region."""
    parts = (locale or "").lower().replace("_", "-").split("-")
    if parts[0] != "zh":
        return DEFAULT
    traditional = "hant" in parts or ("hans" not in parts and bool({"tw", "hk", "mo"} & set(parts)))
    found = "zh-TW" if traditional else "zh-CN"
    return found if found in languages() else DEFAULT


def settle() -> None:
    """Choose the language before the first text."""
    state, asked = st.session_state, st.query_params.get("lang")
    if "language" not in state:
        speak(asked if asked in languages() else of_browser(st.context.locale))
        if asked is not None and asked not in languages():
            state.language_lost = asked
    speak(state.language)
    if state.language == of_browser(st.context.locale):
        st.query_params.pop("lang", None)
    elif asked != state.language:
        st.query_params["lang"] = state.language


def switch() -> None:
    """Tell the browser the language, offer the others where there are any, and report a link's `lang` that is none."""
    _HTML_LANG(key="html_lang", data={"lang": st.session_state.language}, height=0)
    if len(languages()) < 2:
        return
    with st.container(horizontal=True, horizontal_alignment="right"):
        st.segmented_control(
            t("app.language"), languages(), key="language_choice", default=st.session_state.language,
            format_func=NAMES.__getitem__, label_visibility="collapsed", required=True, on_change=_choose,
        )  # fmt: skip
    if "language_lost" in st.session_state:
        messages.ignored({"lang": st.session_state.language_lost})


def _choose() -> None:
    st.session_state.language = st.session_state.language_choice
    st.session_state.pop("language_lost", None)
