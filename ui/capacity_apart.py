"""Prefill and decode on GPUs of their own on the Capacity page: the two pools as they are asked for, and in the shell's words."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner import hardware
from planner.capacity_deploy import MOST_GPUS
from planner.cli_settings import NAMES
from planner.disaggregate import Pool
from planner.hardware import Node
from ui import command
from ui.i18n import t
from ui.link import bind

if TYPE_CHECKING:
    from ui.capacity_inputs import Asked

ROLES = ("prefill", "decode")
DEFAULT_LINK = "400Gb"
IN_LINK = ("apart", *(f"{role}_{word}" for role in ROLES for word in ("node", "gpus", "tp")), "transfer")
_RANKS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_dp_attention", "enable_attention_dp")
_SHORT = {"tensor_parallel_size": "tp", "pipeline_parallel_size": "pp"}


@dataclass(frozen=True)
class Side:
    """One pool as it was said; what was left out is that of the whole page. node: a name of GPUs."""

    node: str | None = None
    gpus: int | None = None
    tp: int | None = None


@dataclass(frozen=True)
class Apart:
    """Both pools, and what a GPU sends over."""

    prefill: Side
    decode: Side
    link: str = DEFAULT_LINK


Named = Callable[[str], tuple[Node, str]]


def ask() -> Apart | None:
    """Draw the inputs; None where both run on the same GPUs."""
    if not st.toggle(t("capacity.apart"), key="apart", bind="query-params", help=t("capacity.apart.help")):
        return None
    sides = [_side(role, st.grid(3, min_column_width=150)) for role in ROLES]
    link = st.text_input(
        t("capacity.apart.link"), DEFAULT_LINK, key="transfer", bind="query-params", max_chars=40, width=300,
        help=t("capacity.apart.link.help"),
    )  # fmt: skip
    return Apart(*sides, (link or "").strip() or DEFAULT_LINK)


def _side(role: str, grid: DeltaGenerator) -> Side:
    node = grid.selectbox(
        t(f"capacity.apart.{role}.node"), [gpu.name for gpu in hardware.gpus()], index=None, key=f"{role}_node",
        bind="query-params", accept_new_options=True, placeholder=t("capacity.apart.same"), help=t("capacity.node.help"),
    )  # fmt: skip
    gpus, tp = (
        grid.number_input(
            t(f"capacity.apart.{word}"), 1, MOST_GPUS, None, step=1, key=f"{role}_{word}", bind=bind(f"{role}_{word}"),
            placeholder=t(f"capacity.apart.{word}.none"), help=t(f"capacity.apart.{word}.help"),
        )
        for word in ("gpus", "tp")
    )  # fmt: skip
    return Side(node, None if gpus is None else int(gpus), None if tp is None else int(tp))


def lengths(asked: Asked) -> tuple[int, int] | None:
    """Tokens of a prompt with its images, and of an answer, on average where they vary; None where requests fill the context."""
    work = asked.workload
    if work.full:
        return None
    if not work.varies and isinstance(work.prompt_tokens, int) and isinstance(work.output_tokens, int):
        return work.prompt_tokens + work.image_tokens, work.output_tokens
    return max(1, round(work.mean_tokens - work.speculative_tokens - work.mean_output)), max(1, round(work.mean_output))


def settings(asked: Asked) -> dict[str, Any]:
    """The page's settings but for the split, which is each pool's own."""
    return {name: getattr(asked.settings, name) for name in asked.settings.model_fields_set if name not in _RANKS}


def _split(asked: Asked, side: Side, gpus: int) -> dict[str, int]:
    """Ranks and stages of a pool of so many GPUs: as said, else the page's own where they fit; empty for all GPUs as ranks."""
    if side.tp:
        return {"tensor_parallel_size": side.tp}
    said = asked.settings.model_fields_set
    own = {name: int(getattr(asked.settings, name)) for name in _RANKS[:2] if name in said}
    return own if gpus % math.prod(own.values()) == 0 else {}


def _cards(asked: Asked, side: Side, named: Named) -> tuple[Node, str, int]:
    """The GPUs of a pool, how a shell names them, and how many. Errors: InputError."""
    if side.node is None:
        return asked.node, asked.node_argument, side.gpus or asked.gpus
    node, argument = named(side.node)
    return node, argument, side.gpus or 1


def pools(asked: Asked, apart: Apart, named: Named) -> dict[str, Pool]:
    """What the planner takes, by role. Errors: InputError for GPUs that are not known."""
    found = {}
    for role, side in zip(ROLES, (apart.prefill, apart.decode), strict=True):
        node, _, gpus = _cards(asked, side, named)
        found[role] = Pool(node, gpus, {**settings(asked), **_split(asked, side, max(gpus, len(node.gpus)))})
    return found


def line(asked: Asked, apart: Apart, named: Named) -> str:
    """`python -m planner disaggregate ...` that gives the same answer."""
    prompt, output = lengths(asked) or (0, 0)
    found = [f"python -m planner disaggregate {asked.argument}", f"--engine {asked.engine}"]
    for role, side in zip(ROLES, (apart.prefill, apart.decode), strict=True):
        node, argument, gpus = _cards(asked, side, named)
        found.append(f"--{role}-gpu {shlex.quote(argument)}")
        found += [f"--{role}-gpus {gpus}"] if gpus > 1 else []
        split = _split(asked, side, max(gpus, len(node.gpus)))
        found += [f"--{role}-{_SHORT[name]} {count}" for name, count in split.items()]
    found += [f"--link {shlex.quote(apart.link)}", f"--prompt {prompt}", f"--output {output}"]
    found.append(f"--requests {asked.workload.requests}")
    for word in command.settings_words(asked.engine, settings(asked)):
        flag, _, rest = word.partition(" ")
        if flag == "--block-size":
            rest = f"{NAMES[asked.engine]['block_size']}={rest}"
        found += [f"--{role}-set {rest}" for role in ROLES] if flag in ("--set", "--block-size") else [word]
    if asked.model.assumption:
        found.append("--assume-plain-attention")
    return " ".join(found)
