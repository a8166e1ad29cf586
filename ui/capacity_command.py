"""What starts the engine, and the line of the shell that gives the same verdict."""

from __future__ import annotations

import shlex

import streamlit as st

from planner.capacity_plan import Plan
from planner.workload import Workload
from ui import command
from ui.capacity_adapters import WORDS
from ui.capacity_images import Seen
from ui.capacity_inputs import Asked
from ui.i18n import t


def show(plan: Plan, asked: Asked) -> None:
    """Both commands, and what else has to be done for them."""
    st.header(t("capacity.command.launch"), anchor=False)
    st.code(plan.command, language=None, wrap_lines=True)
    st.header(t("command.title"), anchor=False)
    st.code(line(asked), language=None, wrap_lines=True)
    if asked.argument == "config.json":
        st.caption(t("command.note"))
    if asked.workload.samples:
        st.caption(t("capacity.command.lengths"))


def line(asked: Asked) -> str:
    """`python -m planner plan ...` with everything that differs from a default."""
    work = asked.workload
    words = [f"python -m planner plan {asked.argument}", f"--gpu {shlex.quote(asked.node_argument)}"]
    if asked.gpus > 1:
        words.append(f"--gpus {asked.gpus}")
    words.append(f"--engine {asked.engine}")
    words.append(f"--requests {work.requests}")
    if asked.lengths:
        words.append(asked.lengths)
    words += [f"{flag} {value}" for flag, value, default in _of(work, asked.seen) if value != default]
    words += command.settings_words(asked.engine, _settings(asked))
    words += [*asked.seen.flags, *(asked.adapters.flags if asked.adapters else [])]
    if asked.gguf:
        words.append(f"--weights {asked.gguf}")
    words += ["--given " + shlex.quote(f"{term}={amount}") for term, amount in asked.given.items()]
    if asked.model.assumption:
        words.append("--assume-plain-attention")
    if asked.price:
        words.append(f"--price {asked.price:g}")
    return " ".join(words)


def _settings(asked: Asked) -> dict[str, object]:
    """The settings that were said, but for those that the flags of adapters say."""
    given = asked.settings.model_dump(exclude_unset=True)
    return given if asked.adapters is None else {name: value for name, value in given.items() if name not in WORDS}


def _of(work: Workload, seen: Seen) -> tuple[tuple[str, object, object], ...]:
    """(flag, value, default) of what requests share and hold beside their text, without what images become."""
    return (
        ("--shared-prefix", work.shared_prefix_tokens, 0), ("--image-tokens", work.image_tokens - seen.prompt_tokens, 0),
        ("--speculative-tokens", work.speculative_tokens, 0), ("--beams", work.beams, 1), ("--occupancy", work.occupancy, None),
        ("--encoder-tokens", work.encoder_tokens - seen.encoder_positions, 0),
    )  # fmt: skip
