"""What helps the first token, on the Learn page: what chunks, shared prompts and drafts change, in bytes and in steps."""

from __future__ import annotations

import streamlit as st

from planner.budget_terms import Load, activation_parts
from planner.cache import architecture_bytes
from planner.hardware import Gpu
from planner.model import Model
from planner.units import ceil_div
from ui import format as fmt
from ui.i18n import t
from ui.learn_inputs import key, number

HELPERS = ("chunked", "prompt", "speculative")
IN_LINK = tuple(key(f"helpers.ask.{name}") for name in ("prompt", "chunk", "shared", "requests", "draft"))
_BLOCK = 16


@st.fragment
def show(model: Model, gpu: Gpu) -> None:
    st.markdown("\n".join(f"- {t(f'learn.helpers.{item}')}" for item in HELPERS))
    grid, asked = st.grid(5, min_column_width=150), {}
    for name, least, most, default, step in (
        ("prompt", 1, 1_000_000, 32_768, 1_024), ("chunk", 1, 1_000_000, 2_048, 256), ("shared", 0, 1_000_000, 4_096, 256),
        ("requests", 1, 100_000, 16, 1), ("draft", 0, 64, 5, 1),
    ):  # fmt: skip
        asked[name] = number(grid, f"helpers.ask.{name}", least, most, default, step)
    prompt, chunk, requests, draft = (asked[name] for name in ("prompt", "chunk", "requests", "draft"))
    shared = min(asked["shared"], prompt) // _BLOCK * _BLOCK
    kv = architecture_bytes(model, prompt).total_bytes
    once = architecture_bytes(model, shared).total_bytes if shared else 0
    more = architecture_bytes(model, prompt + draft).total_bytes - kv
    whole, part = (activation_parts(model, Load(tokens, 1))[1] for tokens in (prompt, min(chunk, prompt)))
    lines = [
        t("learn.helpers.line", name=t(f"learn.helpers.name.{name}"), memory=memory, steps=steps)
        for name, memory, steps in (
            ("chunked", t("learn.helpers.chunked.memory", whole=fmt.size(whole), part=fmt.size(part), kv=fmt.size(kv)),
             t("learn.helpers.chunked.time", count=ceil_div(prompt, chunk), chunk=min(chunk, prompt))),
            ("prompt", t("learn.helpers.prompt.memory", once=fmt.size(once), saved=fmt.size(once * (requests - 1)),
                         requests=requests),
             t("learn.helpers.prompt.time", rest=prompt - shared, prompt=prompt)),
            ("speculative", t("learn.helpers.speculative.memory", more=fmt.size(more), draft=draft),
             t("learn.helpers.speculative.time", most=draft + 1)),
        )
    ]  # fmt: skip
    st.info("\n".join(lines), icon=":material/fast_forward:")
