"""What starts the engine, and the line of the shell that gives the same verdict."""

from __future__ import annotations

import shlex

import streamlit as st

from planner.capacity_plan import Plan
from ui import command
from ui.capacity_inputs import Asked
from ui.i18n import t


def show(plan: Plan, asked: Asked) -> None:
    """Both commands, and what else has to be done for them."""
    st.header(t("capacity.command.launch"), anchor=False)
    st.code(plan.command, language="bash", wrap_lines=True)
    st.header(t("command.title"), anchor=False)
    st.code(line(asked), language="bash", wrap_lines=True)
    if asked.argument == "config.json":
        st.caption(t("command.note"))


def line(asked: Asked) -> str:
    """`python -m planner plan ...` with everything that differs from a default."""
    work = asked.workload
    words = [f"python -m planner plan {asked.argument}", f"--gpu {shlex.quote(asked.node_argument)}"]
    if asked.gpus > 1:
        words.append(f"--gpus {asked.gpus}")
    words.append(f"--engine {asked.engine}")
    words.append(f"--requests {work.requests}")
    if not work.full:
        words.append(f"--prompt {work.prompt_tokens}")
        if work.output_tokens:
            words.append(f"--output {work.output_tokens}")
    words += command.settings_words(asked.engine, asked.settings.model_dump(exclude_unset=True))
    if work.encoder_tokens:
        words.append(f"--encoder-tokens {work.encoder_tokens}")
    if asked.gguf:
        words.append(f"--weights {asked.gguf}")
    if asked.model.assumption:
        words.append("--assume-plain-attention")
    if asked.price:
        words.append(f"--price {asked.price:g}")
    return " ".join(words)
