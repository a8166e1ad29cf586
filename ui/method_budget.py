"""The memory budget on the Method page: its terms' own rules, the constants and GPUs behind them, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import streamlit as st

from planner import budget, budget_media, budget_terms, budget_tower, hardware, latency_efficiency
from planner.engines import ENGINES
from planner.hardware import Gpu
from planner.units import GIB
from ui import method_docs, method_notes, method_parts, words
from ui.engine_fields import LABELS
from ui.i18n import t

#: The rules of a budget's terms, in the order in which they are taken off the device's total.
RULES = (
    budget.budget, Gpu.memory_range, budget_terms.weights, budget_terms.activation_parts, budget_terms.activations,
    budget_tower.image_encoder, budget_media.encoder_cache,
)  # fmt: skip
#: Words of a constant's row that say where it holds.
_WHERE = ("from", "date", "ranks", "requests", "generations")
#: Other tables of the planner that no engine has for itself.
OTHERS = ("instances.yaml", "mig.yaml", "lora.yaml")


def show() -> None:
    st.header(t("method.budget.title"), anchor=False)
    st.markdown(t("method.budget.lead"))
    for rule in RULES:
        name = getattr(rule, "__name__", None) or rule.fget.__name__
        st.markdown(f"**`{name}`**")
        method_docs.draw(method_docs.of(rule))
    st.header(t("method.budget.constants"), anchor=False)
    method_parts.comment(method_notes.table("planner", "data/runtime.yaml")[0], "runtime")
    method_parts.listed(list(constants()), "constants", t("method.budget.constants"))
    st.header(t("method.budget.gpus"), anchor=False)
    st.markdown(t("method.budget.gpus.lead", count=len(hardware.gpus())))
    gib = st.column_config.NumberColumn(format="%.2f")
    method_parts.listed(
        [_gpu(gpu) for gpu in hardware.gpus()], "gpus", t("method.budget.gpus"),
        column_config={t(f"method.gpu.{name}"): gib for name in ("driver", "torch", "planned", "low", "high")},
    )  # fmt: skip
    st.header(t("method.budget.factors"), anchor=False)
    st.markdown(t("method.budget.factors.lead"))
    method_parts.small(
        [
            {t("method.name"): f"`{one.name}`  \n{t('method.range', low=_written(one.low), high=_written(one.high))}  \n"
                               f":small[{t(f'method.status.{one.kind}')}]",
             t("method.source"): method_docs.sourced(one.source)}
            for one in map(latency_efficiency.factor, latency_efficiency.table()["factors"])
        ],
        t("method.budget.factors"),
    )  # fmt: skip
    st.header(t("method.budget.others"), anchor=False)
    for name in OTHERS:
        method_parts.file(name, "sources")


def constants(content: Any = None, path: tuple[str, ...] = ()) -> Iterator[dict[str, str]]:
    """Every constant of runtime.yaml that states its source: whose it is, where it holds, its figures and its range."""
    content = budget_terms.runtime() if content is None else content
    if isinstance(content, list):
        for one in content:
            yield from constants(one, path)
    elif isinstance(content, Mapping) and "source" in content:
        figures = {name: value for name, value in content.items()
                   if name not in (*_WHERE, "low", "high", "source", "confidence", "value")}  # fmt: skip
        engine = path[0] if path[0] in ENGINES else ""
        where = {name: content[name] for name in _WHERE if name in content}
        yield {
            t("method.engine"): LABELS.get(engine, t("method.budget.every")),
            t("method.name"): " ".join(path[1:] if engine else path) or "compute buffer",
            t("method.budget.holds"): method_notes.flat(where).strip("{}"),
            t("method.value"): method_notes.flat(content.get("value", figures)).strip("{}"),
            t("method.low"): method_notes.flat(content["low"]), t("method.high"): method_notes.flat(content["high"]),
            t("method.status"): words.confidence(str(content.get("confidence", "measured"))),
            t("method.source"): str(content["source"]),
        }  # fmt: skip
    elif isinstance(content, Mapping):
        for name, one in content.items():
            yield from constants(one, (*path, str(name)))


def _written(value: float) -> str:
    """A small number without an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _gpu(gpu: Gpu) -> dict[str, Any]:
    """How a device's memory is known: what its driver and PyTorch report, and the range that is planned with."""
    low, high, confidence = gpu.memory_range
    torch = gpu.figure("torch_memory_bytes")
    return {
        t("method.gpu.name"): gpu.name, t("method.gpu.driver"): gpu.memory_bytes / GIB,
        t("method.gpu.status"): method_parts.status(gpu.status),
        t("method.gpu.torch"): gpu.torch_memory_bytes / GIB if gpu.torch_memory_bytes else None,
        t("method.gpu.torch_status"): method_parts.status(torch.status) if torch else "",
        t("method.gpu.planned"): gpu.usable_bytes / GIB, t("method.gpu.low"): low / GIB, t("method.gpu.high"): high / GIB,
        t("method.gpu.confidence"): words.confidence(confidence), t("method.gpu.source"): gpu.source,
        t("method.gpu.range_source"): gpu.range_source,
    }  # fmt: skip
