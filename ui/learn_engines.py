"""Engines on the Learn page: how requests fall as contexts grow, and one request as each engine allocates it."""

from __future__ import annotations

import streamlit as st

from planner.cache import architecture_bytes
from planner.capacity import plan, requests_by_context
from planner.engines import ENGINES
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from ui import format as fmt
from ui import messages, side_by_side
from ui.engine_fields import LABELS
from ui.i18n import t
from ui.model_input import from_catalogue

#: One model of each kind: full attention, windows, and states beside attention.
_THREE = ("meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct")
_CONTEXTS = (8192, 16384, 32768, 65536, 131072)
_GPUS, _TOKENS = 4, 32_768


@st.cache_data(max_entries=32, show_spinner=False)
def _requests(name: str, gpu: str) -> dict[int, int | None] | None:
    """Requests at once of each context on four of these GPUs; None where the model does not start there."""
    model = from_catalogue(name)
    try:
        found = plan(model, "vllm", {"max_model_len": _CONTEXTS[0]}, find_gpu(gpu), _GPUS, advice=False)
        return dict(requests_by_context(found, [size for size in _CONTEXTS if size <= (model.max_context or size)]))
    except PlannerError:
        return None


def double(model: Model, gpu: Gpu) -> None:
    st.markdown(t("learn.double.text", gpus=_GPUS, gpu=gpu.name))
    found = {name: _requests(name, gpu.id) for name in _THREE}
    rows = [
        {t("learn.double.context"): f"{context:,}", **{
            name.split("/")[1]: t("learn.double.none") if each is None else f"{each[context]:,}" if each.get(context) else "–"
            for name, each in found.items()
        }}
        for context in _CONTEXTS
    ]  # fmt: skip
    st.table(rows, border="horizontal", hide_index=True, alt=t("learn.double.alt"))


def engines(model: Model, gpu: Gpu) -> None:
    shown = from_catalogue(_THREE[1])
    slides = sum(any(cache.window for cache in layer.caches) for layer in shown.layers)
    st.markdown(t("learn.engines.text", tokens=_TOKENS, model=shown.name, windows=slides, layers=len(shown.layers)))
    need = architecture_bytes(shown, _TOKENS).total_bytes
    rows = []
    for row in side_by_side.compare(shown, "auto", _TOKENS, 1, 0, None):
        if row.option in ENGINES:
            size, refused = row.total_bytes, messages.plain(row.refusal)
            rows.append({
                t("learn.engines.engine"): LABELS[row.option],
                t("learn.engines.size"): fmt.size(size) if size else t("learn.engines.refused", reason=refused),
                t("learn.engines.times"): f"{size / need:.3g} ×" if size else "",
                t("learn.engines.how"): t(f"learn.engines.how.{row.option}"),
            })  # fmt: skip
    st.table(rows, border="horizontal", hide_index=True, alt=t("learn.engines.alt"))
