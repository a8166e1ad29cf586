"""The number inputs of the Learn page: one name gives the text, the key and the link's parameter."""

from __future__ import annotations

from streamlit.delta_generator import DeltaGenerator

from ui.i18n import t
from ui.link import bind


def key(name: str) -> str:
    """The key of the input `warm.prompt`, which is its name in a link: learn_warm_prompt."""
    return f"learn_{name.replace('.', '_')}"


def number(place: DeltaGenerator, name: str, least: int, most: int, default: int, step: int = 1) -> int:
    """A whole number between two ends; the default where the field was emptied."""
    value = place.number_input(
        t(f"learn.{name}"), least, most, default, step=step, key=key(name), bind=bind(key(name))
    )
    return default if value is None else int(value)
