"""The Method page: how every number is made, and how well it agrees with what was measured; one section at a time.

Everything on it is read from the program itself: docstrings, family rows, engine tables, and the figures that were measured.
"""

from __future__ import annotations

import streamlit as st

from ui import (
    link,
    messages,
    method_accuracy,
    method_budget,
    method_engines,
    method_families,
    method_formats,
    method_kinds,
    method_parts,
)
from ui.i18n import DEFAULT, language, t

#: Each section by its word in the link, with what draws it and the choices that are its own.
SECTIONS = {
    "kinds": (method_kinds.show, ()),
    "families": (method_families.show, ("family",)),
    "engines": (method_engines.show, ("rules",)),
    "budget": (method_budget.show, ()),
    "accuracy": (method_accuracy.show, ()),
    "formats": (method_formats.show, ()),
}

link.remember(("section", "family", "rules"))
st.title(t("method.title"), anchor=False)
st.markdown(t("method.lead"))
section = method_parts.choice("section", t("method.section"), tuple(SECTIONS), lambda code: t(f"method.section.{code}"))
show, own = SECTIONS[section]
method_parts.forget(*(name for _, names in SECTIONS.values() for name in names if name not in own))
notices = st.container()
if language() != DEFAULT:
    st.caption(t("method.english"))
with messages.guarded():
    show()
with notices:
    messages.ignored(link.ignored())
