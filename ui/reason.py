"""Why a figure is what it is, one click away: what it is, its arithmetic, how sure it is, its source, and the same in a shell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.engines import engine
from planner.model import Model
from planner.reasons import Formula, cited, data, lines
from ui import messages, words
from ui.i18n import t

Colour = Literal["off", "green", "red"]
#: What can be followed in a source: an address, a preprint, a file of a release, a commit. {n} are the groups.
_LINKS = (
    (re.compile(r"https?://[^\s,;)]+"), "{0}"),
    (re.compile(r"(?<![/\w])github\.com/[^\s,;)]+"), "https://{0}"),
    (re.compile(r"arXiv (\d{4}\.\d{4,5})"), "https://arxiv.org/abs/{1}"),
    (re.compile(r"vLLM (\d+\.\d+\.\d+), ([\w/]+\.py)"), "https://github.com/vllm-project/vllm/blob/v{1}/vllm/{2}"),
    (re.compile(r"llama\.cpp ([0-9a-f]{9})\b"), "https://github.com/ggml-org/llama.cpp/tree/{1}"),
)


@dataclass(frozen=True)
class Reason:
    """What a popover says. what: the figure in one sentence. confidence: the planner's word. spread: its range, for reading.

    fitted: the source is what a constant was measured on. shell: the command; name: of the figure in what it prints as JSON.
    """

    what: str
    formula: Formula
    confidence: str
    source: str
    shell: str
    name: str
    spread: str = ""
    fitted: bool = False
    link: str = ""


def tile(
    grid: DeltaGenerator, key: str, label: str, value: str, below: str | None, why: Reason | None, colour: Colour = "off"
) -> None:
    """A figure with its reason in the same frame."""
    frame = grid.container(border=True, gap="small", height="stretch", vertical_alignment="distribute")
    frame.metric(label, value, below, delta_color=colour, delta_arrow="off")
    if why is not None:
        with frame:
            popover(key, t("reason.why", value=value), why)


def popover(key: str, label: str, why: Reason) -> None:
    """The reason behind a button."""
    with st.popover(label, key=f"why_{key}"):
        show(why)


def show(why: Reason) -> None:
    st.markdown(why.what)
    if why.formula:
        st.code(arithmetic(why.formula), language=None, wrap_lines=True)
    sure = t("reason.sure", word=words.confidence(why.confidence), meaning=t(f"reason.confidence.{why.confidence}"))
    if why.spread:
        sure += " " + t("reason.range", span=why.spread)
    source = linked(why.source) + (f" [{messages.plain(why.link)}]({why.link})" if why.link else "")
    rows = [sure, *([t("reason.fitted" if why.fitted else "reason.source", source=source)] if source else [])]
    st.markdown("  \n".join([*rows, t("reason.shell", name=why.name)]))
    st.code(f"{why.shell} --json", language=None, wrap_lines=True)


def arithmetic(formula: Formula) -> str:
    """A formula in the visitor's language, with the signs of print."""
    return "\n".join(lines(data(formula), words.symbol)).replace(" x ", " × ").replace(" <= ", " ≤ ")


def linked(text: str) -> str:
    """A source as Markdown: what can be followed is a link, all else is text."""
    places: list[tuple[int, int, str]] = []
    for pattern, address in _LINKS:
        for found in pattern.finditer(text):
            if not any(start < found.end() and found.start() < end for start, end, _ in places):
                places.append((found.start(), found.end(), address.format(found[0], *found.groups())))
    parts, done = [], 0
    for start, end, address in sorted(places):
        parts += [messages.plain(text[done:start]), f" [{messages.plain(text[start:end])}]({address}) "]
        done = end
    return " ".join("".join([*parts, _spaced(text[done:])]).split())


def _spaced(text: str) -> str:
    plain = messages.plain(text)
    return f" {plain}" if text[:1] == " " else plain


def config_address(model: Model) -> str:
    """The address of a model's config at its commit; "" where it has none."""
    source = model.source
    if source.kind != "hub" or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", source.name):
        return ""
    return f"https://huggingface.co/{source.name}/blob/{source.commit or source.revision or 'main'}/config.json"


def engine_source(name: str) -> str:
    """Where an engine's own allocation was read."""
    found = engine(name)
    rule = getattr(found, "pool", None) if name in ("vllm", "sglang", "tensorrt-llm", "tgi") else None
    return cited(rule or found.cache_bytes)


def worst(confidences: Sequence[Any]) -> str:
    """The least sure of some words."""
    order = ("exact", "computed", "given", "documented", "measured", "estimated")
    return str(max(confidences, key=order.index))
