"""Storage formats on the Learn page: what each makes of one request, and which engines have it."""

from __future__ import annotations

import streamlit as st

from planner.cache import architecture_bytes
from planner.dtypes import FORMATS
from planner.engines import ENGINES
from planner.engines.llama_cpp_table import cache_types
from planner.hardware import Gpu
from planner.model import Model
from ui import format as fmt
from ui import messages
from ui.engine_dtypes import settings_for
from ui.engine_fields import LABELS
from ui.i18n import t

_TOKENS = 32_768
_FORMATS = ("bfloat16", "fp8", "int8", "int4")
#: llama.cpp's own, beside the nearest of the others: a 16-bit scale for each 32 numbers.
_BLOCKS = ("q8_0", "q4_0")


def show(model: Model, gpu: Gpu) -> None:
    whole = architecture_bytes(model, _TOKENS).total_bytes
    rows = []
    for name in _FORMATS:
        form = FORMATS[name]
        each = form.bits / 8 + (form.group_bytes / form.group if form.group else 0)
        rows.append(_row(name, each, architecture_bytes(model, _TOKENS, kv_cache_dtype=name).total_bytes, whole, model))
    for name in _BLOCKS:
        kind = cache_types()[name]
        each = kind.bytes / kind.block
        rows.append(_row(f"{name} (llama.cpp)", each, None, whole, model))
    st.table(rows, border="horizontal", hide_index=True, alt=t("learn.quantised.alt"))
    st.markdown(t("learn.quantised.engines"))
    engines = [
        {
            t("learn.quantised.format"): word,
            t("learn.engines.engine"): ", ".join(
                f"{LABELS[option]} ({name})" for option in ENGINES if (name := _setting(option, word)) is not None
            ),
        }
        for word in _FORMATS[1:]
    ]  # fmt: skip
    st.table(engines, border="horizontal", hide_index=True, alt=t("learn.quantised.engines.alt"))


def _row(name: str, each: float, size: int | None, whole: int, model: Model) -> dict[str, str]:
    share = size / whole if size is not None and whole else each / 2
    return {
        t("learn.quantised.format"): name, t("learn.quantised.bytes"): f"{each:.4g}",
        t("learn.quantised.cache", model=model.name, tokens=_TOKENS): "–" if size is None else fmt.size(size),
        t("learn.quantised.share"): f"{share:.1%}" if whole else "",
    }  # fmt: skip


def _setting(option: str, word: str) -> str | None:
    """The engine's own word for this format; None where it has none."""
    values = settings_for(option, word)
    return None if values is None else messages.plain(next(v for name, v in values.items() if name != "cache_implementation"))
