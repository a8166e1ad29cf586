"""The number taken apart: its maths, its layers, its growth with the context, and what other head counts would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import streamlit as st

from planner import explain
from planner.cache import CacheBytes, architecture_bytes
from planner.model import Model
from ui import charts, words
from ui import format as fmt
from ui.answer import requests_text
from ui.i18n import t
from ui.inputs import Workload
from ui.side_by_side import identity

_MAX_GROUPS = 12
_STEPS = 32


def maths(model: Model, cache: CacheBytes, kv_cache_dtype: str | None, beside_engine: bool = False) -> None:
    """Like layers together, each with its formula and the numbers in it, and their sum: the architecture's own figures."""
    st.header(t("maths.title.architecture") if beside_engine else t("maths.title"), anchor=False)
    found = explain.groups(model, cache, kv_cache_dtype)
    for group in found[:_MAX_GROUPS]:
        where = t("maths.where.one" if group.count == 1 else "maths.where.many", layers=group.where)
        kind, what = words.kind(group.kind), words.kind_keeps(group.kind)
        st.markdown(t("maths.group", count=group.count, kind=kind, where=where, what=what))
        if group.count == 1:
            text = t("maths.single", formula=words.formula(group.formula), bytes=f"{group.bytes:,}", size=fmt.size(group.bytes))
        else:
            total = t("maths.total", count=group.count, bytes=f"{group.bytes:,}", size=fmt.size(group.bytes))
            text = t("maths.each", formula=words.formula(group.formula), bytes=f"{group.bytes_each:,}") + "\n" + total
        if group.bytes:
            st.code(text, language=None, wrap_lines=True)
    if len(found) > _MAX_GROUPS:
        rest = found[_MAX_GROUPS:]
        st.caption(t("maths.more", count=len(rest), bytes=f"{sum(group.bytes for group in rest):,}"))
    each = t("maths.sum.each", size=fmt.size(cache.bytes_per_request)) if cache.requests > 1 else ""
    total = fmt.size(cache.total_bytes)
    st.markdown(
        t("maths.sum", bytes=f"{cache.total_bytes:,}", size=total, requests=requests_text(cache.requests), each=each)
    )


def layers(model: Model, cache: CacheBytes, engine: str | None = None) -> None:
    """The layers as a picture coloured by kind, and each of them in a table. engine: whose allocation it is."""
    st.header(t("layers.title.engine", engine=engine) if engine else t("layers.title"), anchor=False)
    kinds = words.kinds(Counter(layer.kind for layer in cache.layers))
    alt = t("layers.alt", count=len(cache.layers), model=model.name, kinds=kinds)
    charts.show(charts.layers(cache), "layers_chart", alt)
    if engine:
        _engine_groups(cache)
    with st.expander(t("layers.table"), icon=":material/table_rows:"):
        unit, scale = fmt.unit(max((layer.bytes for layer in cache.layers), default=0))
        rows = [
            {
                t("layers.column.layer"): layer.index,
                t("layers.column.kind"): words.kind(layer.kind),
                t("layers.column.positions"): _joined(part.positions for part in layer.parts),
                t("layers.column.window"): _joined(part.window for part in layer.parts),
                t("layers.column.heads"): _joined(part.heads for part in layer.parts),
                t("layers.column.k"): _joined(part.k_dim for part in layer.parts),
                t("layers.column.v"): _joined(part.v_dim for part in layer.parts),
                t("layers.column.size", unit=unit): layer.bytes / scale,
                t("layers.column.bytes"): fmt.cell(layer.bytes),
            }
            for layer in cache.layers
        ]
        columns = {
            t("layers.column.size", unit=unit): st.column_config.NumberColumn(format="%.2f"),
            t("layers.column.bytes"): st.column_config.NumberColumn(format="localized"),
        }
        table_alt = t("layers.table.alt", model=model.name)
        st.dataframe(rows, column_config=columns, hide_index=True, height=320, alt=table_alt)


def _engine_groups(cache: CacheBytes) -> None:
    """Layers that take the same, one line each, and their sum: an engine's answer has no formula of its own to fill in."""
    found = explain.engine_groups(cache)
    lines = [
        t("layers.group", count=group.count, kind=words.kind(group.kind), layers=group.where, each=f"{group.bytes_each:,}",
          bytes=f"{group.bytes:,}")
        for group in found[:_MAX_GROUPS] if group.bytes
    ]  # fmt: skip
    rest = sum(group.bytes for group in found[_MAX_GROUPS:])
    if rest:
        lines.append(t("layers.group.more", count=len(found) - _MAX_GROUPS, bytes=f"{rest:,}"))
    lines.append(t("layers.group.sum", bytes=f"{cache.total_bytes:,}", size=fmt.size(cache.total_bytes)))
    st.code("\n".join(lines), language=None, wrap_lines=True)


def _joined(values: Iterable[int | None]) -> str:
    """The parts' values of one column: "4,096 + 1,500" for a layer with two caches, empty where there is none."""
    return " + ".join(f"{value:,}" for value in values if value is not None)


#: The engine's name, and its bytes at a number of tokens.
EngineLine = tuple[str, Callable[[int], int]]


def curve_and_twins(model: Model, cache: CacheBytes, workload: Workload, engine: EngineLine | None = None) -> None:
    """The cache against the context length, and beside it the same model with other head counts."""
    twins = explain.twins(model, cache.tokens, cache.requests, workload.kv_cache_dtype, cache.encoder_tokens)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _curve(model, cache, workload, twins, engine)
    with right:
        _twins(model, cache, twins)


def _curve(
    model: Model, cache: CacheBytes, workload: Workload, twins: explain.Twins, engine: EngineLine | None
) -> None:
    st.header(t("curve.title"), anchor=False)
    limit = model.max_context
    end = max(limit or 2 * cache.tokens, cache.tokens)
    windows = {c.window for layer in model.layers for c in layer.caches if c.window is not None and c.window < end}
    steps = tuple(sorted({end * i // _STEPS for i in range(_STEPS + 1)} | windows))
    at = sorted({*steps, cache.tokens})
    asked = (cache.requests, workload.kv_cache_dtype, cache.encoder_tokens)

    def line(of: Model, heads: int = 0) -> list[tuple[int, int]]:
        name = f"{identity(model)}|{heads}"
        return sorted({*_kept_line(name, of, steps, *asked), *_line(of, (cache.tokens,), *asked)})

    lines = [(t("curve.own") if engine is None else t("curve.architecture"), "own", line(model))]
    here = (cache.tokens, cache.total_bytes)
    if engine is not None:
        lines.append((engine[0], "engine", [(tokens, engine[1](tokens) if tokens else 0) for tokens in at]))
        here = (cache.tokens, engine[1](cache.tokens))
    if twins.mha_bytes is not None and twins.mha_bytes != twins.own_bytes:
        lines.append((t("curve.mha", heads=model.attention_heads), "mha", line(model.with_kv_heads(model.attention_heads), -1)))
    if twins.mqa_bytes is not None and twins.mqa_bytes != twins.own_bytes:
        lines.append((t("curve.mqa"), "mqa", line(model.with_kv_heads(1), 1)))
    room = workload.gpu.usable_bytes - model.weight_bytes if workload.gpu and model.weight_bytes is not None else None
    alt = t(
        "curve.alt", model=model.name, size=fmt.size(here[1]), tokens=f"{cache.tokens:,}",
        limit=t("curve.alt.limit", limit=f"{limit:,}") if limit else "",
    )  # fmt: skip
    charts.show(charts.curve(lines, here, limit, room, requests_text(cache.requests)), "curve_chart", alt)


def _line(model: Model, at: Sequence[int], requests: int, dtype: str | None, encoder: int) -> list[tuple[int, int]]:
    return [
        (tokens, architecture_bytes(model, tokens, requests, kv_cache_dtype=dtype, encoder_tokens=encoder).total_bytes)
        for tokens in at
    ]


@st.cache_data(max_entries=512, show_spinner=False)
def _kept_line(
    name: str, _model: Model, at: tuple[int, ...], requests: int, dtype: str | None, encoder: int
) -> list[tuple[int, int]]:
    """The line at the lengths that stay the same while a person changes theirs."""
    return _line(_model, at, requests, dtype, encoder)


def _twins(model: Model, cache: CacheBytes, twins: explain.Twins) -> None:
    st.header(t("twins.title"), anchor=False)
    own = sorted({c.kv_heads for layer in model.layers for c in layer.caches if hasattr(c, "kv_heads")})
    heads = " / ".join(str(n) for n in own)
    known = [
        (t("twins.mha"), str(model.attention_heads), twins.mha_bytes),
        (t("twins.own"), heads, twins.own_bytes),
        (t("twins.mqa"), "1", twins.mqa_bytes),
        (t("twins.common"), "", twins.common_formula_bytes),
    ]
    kept = [(name, count, size) for name, count, size in known if size is not None]
    unit, scale = fmt.unit(max(size for _, _, size in kept))
    rows = [
        {
            t("twins.variant"): name,
            t("twins.heads"): count,
            t("twins.size", unit=unit): f"{size / scale:,.2f}",
            t("twins.times"): f"{size / twins.own_bytes:,.4g}" if twins.own_bytes else "",
        }
        for name, count, size in kept
    ]
    st.table(rows, border="horizontal", hide_index=True, alt=t("twins.alt"))
    if twins.mqa_bytes is None and twins.own_bytes:
        st.caption(t("twins.none"))
    common = twins.common_formula_bytes
    if common and twins.own_bytes:
        if common == twins.own_bytes:
            st.caption(t("twins.common.note_same"))
        elif common > twins.own_bytes:
            st.caption(t("twins.common.note", times=f"{common / twins.own_bytes:,.3g}"))
        else:
            st.caption(t("twins.common.note_under", times=f"{twins.own_bytes / common:,.3g}"))
