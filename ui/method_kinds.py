"""The kinds of cache on the Method page: each with the formula in its own docstring, and who keeps it."""

from __future__ import annotations

import inspect
from functools import cache

import streamlit as st

from model_configs import known
from planner import layers
from ui import method_docs, method_parts, words
from ui.i18n import DEFAULT, language, t
from ui.method_engines import EXAMPLES
from validation import coverage_sweep

#: Names that are given as examples.
_SOME = 4


@cache
def kinds() -> tuple[type[layers.LayerCache], ...]:
    """The classes of caches in the order of their file."""
    found = [value for _, value in inspect.getmembers(layers, inspect.isclass) if issubclass(value, layers.LayerCache)]
    found.remove(layers.LayerCache)
    return tuple(sorted(found, key=lambda kind: inspect.getsourcelines(kind)[1]))


@cache
def used_by(kind: type[layers.LayerCache]) -> tuple[tuple[str, ...], tuple[str, ...], int, int]:
    """Model types whose layers keep this kind, the catalogue's models that do, types measured with it, how many were equal."""
    types = tuple(one.model_type for one in known.types() if kind in one.caches)
    models = tuple(
        name for name, built in known.models() if any(type(cache) is kind for layer in built for cache in layer.caches)
    )
    wanted = {kind.kind, "indexed"} if kind is layers.Latent else {kind.kind}  # an indexed layer keeps a latent beside its index
    measured = [
        row for row in coverage_sweep.read().rows
        if row.type in types and row.points and wanted & {part for name in row.kinds for part in name.split("+")}
    ]  # fmt: skip
    return types, models, len(measured), sum(row.status == "equal" for row in measured)


def _users(kind: type[layers.LayerCache]) -> str:
    types, models, measured, equal = used_by(kind)
    names = ", ".join(f"`{name}`" for name in types[:: max(1, len(types) // _SOME)][:_SOME])
    text = t("method.kinds.used.one" if len(types) == 1 else "method.kinds.used", count=len(types), names=names)
    if models:
        known_well = [name for name in (EXAMPLES[kind.kind][0],) if name in models]
        names = dict.fromkeys([*known_well, *models[:: max(1, len(models) // _SOME)]])
        text += " " + t("method.kinds.models", names=", ".join(f"`{name}`" for name in list(names)[:2]))
    if measured:
        text += " " + t("method.kinds.measured", count=measured, equal=equal)
    return text


def show() -> None:
    st.header(t("method.kinds.title"), anchor=False)
    st.markdown(t("method.kinds.lead", types=len(known.types())))
    seen: set[str] = set()
    for kind in kinds():
        st.header(f"{kind.__name__}: `{kind.kind}`", anchor=kind.__name__.lower())
        if language() != DEFAULT and kind.kind not in seen:  # the docstrings are English; a kind's own class is its first
            st.markdown(f"**{words.kind(kind.kind)}**  \n{words.kind_keeps(kind.kind)}")
        seen.add(kind.kind)
        method_docs.draw(method_docs.of(kind))
        st.markdown(_users(kind))
    st.divider()
    st.markdown(t("method.kinds.element"))
    method_parts.go(t("method.section.formats"), "formats", section="formats")
