"""Values that a link carries in a form of their own: a translated choice by its code, an order, a number whose limits move.

Streamlit binds an input to the link by the label that is shown, which for a translated choice is another in each language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

Value = TypeVar("Value")


def settle(name: str, read: Callable[[str], Value | None], default: Value) -> None:
    """Give the input `name` its value before it is drawn: the one it has, else the link's, else the default.

    read: the value of the link's text, None for one that cannot be used, which ui.link reports then.
    """
    if name not in st.session_state:
        asked = st.query_params.get(name)
        found = read(asked) if asked is not None else None
        st.session_state[name] = default if found is None else found


def one_of(*codes: str) -> Callable[[str], str | None]:
    """Reads one of these codes."""
    return lambda text: text if text in codes else None


def write(name: str, text: str, default: str) -> None:
    """Put a value into the link, where it is not the default."""
    if text == default:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != text:
        st.query_params[name] = text
