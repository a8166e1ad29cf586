"""Paging on the page: bytes of the engine's answer that hold nothing, and what a shared prefix would save."""

from __future__ import annotations

import streamlit as st

from planner.engines.waste import shared_block, shared_prefix_saving, shares_prefixes, waste
from planner.hardware import Gpu
from planner.model import Model
from ui import format as fmt
from ui.engine_answer import Answer
from ui.i18n import t
from ui.inputs import MAX_TOKENS
from ui.link import bind


def show(model: Model, answer: Answer, gpu: Gpu | None) -> None:
    """What is lost, part by part, and the saving of a prefix that all requests share."""
    st.header(t("paging.title"), anchor=False)
    plain, choice = answer.plain, answer.choice
    lost = waste(model, choice.engine, choice.settings, plain.tokens, plain.requests, gpu, plain.encoder_tokens)
    parts = (
        ("block", lost.block_bytes), ("reserved", lost.reserved_bytes), ("padding", lost.padding_bytes),
        ("alignment", lost.alignment_bytes),
    )  # fmt: skip
    named = [(t(f"paging.{name}"), size) for name, size in parts if size]
    if not named:
        st.markdown(t("paging.none", engine=choice.label))
    else:
        share = f"{100 * lost.lost_bytes / lost.total_bytes:,.2g} %"
        st.markdown(t("paging.lost", total=fmt.size(lost.total_bytes), lost=fmt.size(lost.lost_bytes), share=share))
        st.markdown("\n".join(t("paging.part", size=fmt.size(size), exact=fmt.exact(size), what=what) for what, size in named))
        st.caption(t("paging.needed", needed=fmt.exact(lost.needed_bytes)))
    _prefix(model, answer, gpu)


def _prefix(model: Model, answer: Answer, gpu: Gpu | None) -> None:
    plain, choice = answer.plain, answer.choice
    if not shares_prefixes(model, choice.engine, choice.settings, gpu):
        st.caption(t("prefix.none", engine=choice.label))
        return
    block = shared_block(model, choice.engine, choice.settings, gpu)
    if not block:
        st.caption(t("prefix.no_layers"))
        return
    asked = st.number_input(
        t("prefix.tokens"), 0, MAX_TOKENS, 0, step=256, key="prefix", bind=bind("prefix"), help=t("prefix.help"), width=300
    )
    prefix = min(int(asked or 0), plain.tokens)
    if not prefix:
        return
    saved = shared_prefix_saving(model, choice.engine, choice.settings, prefix, plain.requests, gpu)
    whole = f"{prefix // block * block:,}"
    if plain.requests == 1:
        st.markdown(t("prefix.one"))
    elif not saved:
        st.markdown(t("prefix.short", block=f"{block:,}"))
    else:
        left = answer.cache.total_bytes - saved
        st.markdown(
            t("prefix.saved", saved=fmt.size(saved), exact=fmt.exact(saved), whole=whole, block=f"{block:,}",
              count=f"{plain.requests:,}", left=fmt.size(left))
        )  # fmt: skip
