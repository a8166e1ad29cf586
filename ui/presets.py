"""Kinds of work to begin with: one press fills how long, how many and how they vary, on all pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from planner.workload_kinds import Kind, kinds
from ui.i18n import t


def inputs(kind: Kind) -> dict[str, dict[str, Any]]:
    """Each page's inputs for a kind of work, by page."""
    lengths = {
        f"{name}{end}": one[at]
        for name, one in (("prompt", kind.prompt), ("output", kind.output))
        for end, at in (("", "p50"), ("_p95", "p95"), ("_max", "max"))
    }
    return {
        "plan": {"tokens": kind.tokens, "requests": kind.requests},
        "capacity": {"load": kind.requests, "vary": "log-normal", "fill": False, **lengths},
        "compare": {"length": kind.tokens, "at_once": kind.requests},
    }


def matching(page: str, state: Mapping[str, Any]) -> str | None:
    """The kind of work whose inputs this page has now."""
    for name, kind in kinds().items():
        if all(state.get(key) == value for key, value in inputs(kind)[page].items()):
            return name
    return None


def choose(page: str) -> None:
    """The row of kinds, the one that the inputs are like marked. Drawn before the inputs that it fills."""
    key = f"kind_{page}"
    st.session_state[key] = matching(page, st.session_state)
    st.pills(
        t("preset.label"), list(kinds()), format_func=lambda name: t(f"preset.{name}"), key=key, on_change=_take, args=(key,),
        help=t("preset.help"),
    )  # fmt: skip


def _take(key: str) -> None:
    kind = kinds().get(str(st.session_state.get(key)))
    for values in inputs(kind).values() if kind else ():
        for name, value in values.items():
            st.session_state[name] = value
