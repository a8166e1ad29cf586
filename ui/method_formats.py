"""Storage formats on the Method page: bits and scales of each, and what each generation of GPUs does with it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner import accelerators
from planner.dtypes import FORMATS
from ui import messages, method_parts
from ui.i18n import t
from ui.method_docs import sourced


def show() -> None:
    st.header(t("method.formats"), anchor=False)
    st.markdown(t("method.formats.lead"))
    method_parts.small(
        [
            {
                t("method.format.name"): form.name,
                t("method.format.bits"): str(form.bits),
                t("method.format.scales"): t("method.format.group", bytes=form.group_bytes, group=form.group)
                if form.group
                else t("method.format.none"),
                t("method.source"): sourced(form.source),
            }
            for form in FORMATS.values()
        ],
        t("method.formats.alt"),
    )
    st.header(t("method.generations"), anchor=False)
    st.markdown(t("method.generations.lead"))
    method_parts.listed([_generation(one) for one in accelerators.table().generations.values()], "generations",
                        t("method.generations"))  # fmt: skip


def _generation(one: accelerators.Generation) -> dict[str, Any]:
    def known(value: bool | None) -> str:
        return "" if value is None else t("method.yes") if value else t("method.no")

    def cache(word: str | None) -> str:
        return t(f"method.generations.{word}") if word else ""

    versions = "" if one.flash_attention is None else ", ".join(map(str, one.flash_attention)) or t("method.no")
    return {
        t("method.generations.id"): one.id, t("method.generations.parts"): one.parts, "bfloat16": known(one.bf16),
        t("method.generations.fp8"): known(one.fp8_native), t("method.generations.fp4"): known(one.fp4_native),
        t("method.generations.kv_fp8"): cache(one.kv_fp8), t("method.generations.kv_nvfp4"): cache(one.kv_nvfp4),
        "FlashAttention": versions, t("method.status"): method_parts.status(one.status), t("method.source"): one.source,
        t("method.note"): messages.sentence(one.note),
    }  # fmt: skip
