"""Images, video and audio of a prompt on the Capacity page: their sizes, and the tokens that the model's rule makes of them."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass

import streamlit as st

import model_configs
from model_configs.media import MediaTokens
from planner import cli_media
from planner.errors import InputError, PlannerError
from planner.model import Model
from ui import messages
from ui.i18n import t

#: Kinds of input beside text; each is a flag of the shell, a link parameter, and the key of its input.
KINDS = IN_LINK = ("image", "video", "audio")
_EXAMPLES = {"image": "1024x768, 640x480x3", "video": "32x1280x720, 60s@2x1280x720", "audio": "30s, 2min"}
#: Items of one kind that are taken for a real question.
_MOST = 32


@dataclass(frozen=True)
class Seen:
    """What was said, and what it becomes. words: (flag, size) as the shell takes them; found: None where nothing was said, or
    where it cannot be, which `problem` tells."""

    words: tuple[tuple[str, str], ...] = ()
    found: MediaTokens | None = None
    problem: PlannerError | None = None

    @property
    def flags(self) -> list[str]:
        return [f"--{kind} {shlex.quote(word)}" for kind, word in self.words]

    @property
    def prompt_tokens(self) -> int:
        return self.found.prompt_tokens if self.found else 0

    @property
    def encoder_positions(self) -> int:
        return self.found.encoder_positions if self.found else 0


def ask(model: Model | None) -> Seen:
    """Draw the inputs, and beneath them what each item becomes."""
    link, state = st.session_state.link, st.session_state
    text_only = model is not None and model.media is None
    grid = st.grid(3, min_column_width=180)
    said = {
        kind: grid.text_input(
            t(f"capacity.media.{kind}"), key=kind, bind="query-params", max_chars=200, placeholder=_EXAMPLES[kind],
            help=t(f"capacity.media.{kind}.help"), disabled=text_only and not (state.get(kind) or link.get(kind)),
        )
        for kind in KINDS
    }  # fmt: skip
    words = tuple((kind, word) for kind, text in said.items() for word in re.split(r"[\s,;]+", text or "") if word)
    if model is None:
        return Seen(words)
    seen = _counted(model, words)
    if seen.found is not None:
        _table(seen.found)
    elif not words:
        st.caption(_takes(model))
    return seen


def _counted(model: Model, words: tuple[tuple[str, str], ...]) -> Seen:
    """By the shell's own reader and the model's own rule."""
    listed = {kind: [word for flag, word in words if flag == kind] for kind in KINDS}
    try:
        for kind, sizes in listed.items():
            if len(sizes) > _MOST:
                raise InputError(t("capacity.media.many", count=len(sizes), most=_MOST), field=kind)
        asked = cli_media.asked(argparse.Namespace(**listed))
        if asked is None:
            return Seen()
        if model.media is None:
            raise InputError(t("capacity.media.refused", model=model.name), field=words[0][0])
        videos = [model_configs.Video(*video) for video in asked.videos]
        return Seen(words, model_configs.media_tokens(model, asked.images, videos, asked.audio))
    except PlannerError as problem:
        return Seen(words, problem=problem)


def _takes(model: Model) -> str:
    """What the model takes beside text, in one sentence."""
    name = messages.plain(model.name)
    if model.media is None:
        return t("capacity.media.none", model=name)
    kinds = t("capacity.media.and").join(t(f"capacity.media.kind.{kind}") for kind in KINDS if kind in model.media.rules)
    return t("capacity.media.takes", model=name, kinds=kinds)


def _table(found: MediaTokens) -> None:
    rows = []
    for part in found.parts:
        inside, times = part.encoder_positions, f"{part.count:,} × " if part.count > 1 else ""
        held = t("capacity.media.positions", count=f"{inside:,}") if inside else f"{part.tokens + part.around:,}"
        rows.append({
            t("capacity.media.item"): times + messages.plain(part.item), t("capacity.media.each"): held,
            t("capacity.media.rule"): messages.plain(part.formula + (f" + {part.around} marks" if part.around else "")),
        })  # fmt: skip
    st.table(rows, border="horizontal", hide_index=True, alt=t("capacity.media.alt"))
    st.caption(f"{summary(found)} {t('capacity.media.source', source=messages.plain(found.source))}")


def say(seen: Seen) -> None:
    """The same beside the answer."""
    if seen.found is not None:
        st.caption(summary(seen.found))


def summary(found: MediaTokens) -> str:
    """What all items of a prompt become together."""
    said = []
    if found.prompt_tokens or not found.encoder_positions:
        said.append(t("capacity.media.sum", tokens=f"{found.prompt_tokens:,}"))
    if found.encoder_positions:
        said.append(t("capacity.media.sum.encoder", positions=f"{found.encoder_positions:,}"))
    return " ".join(said)
