"""One family on the Method page: what its row says, what its layers keep, where engines differ, and the answer that proves it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import streamlit as st

import model_configs
from model_configs import build, known, views
from model_configs.families import Family
from model_configs.gguf_words import GgufFamily
from planner.cache import architecture_bytes
from planner.engines import llama_cpp_table
from ui import messages, method_docs, method_notes, method_parts, words
from ui.i18n import t
from ui.method_docs import marked
from validation import coverage_sweep
from validation.coverage_sweep import Row

#: Fields of a row that stand elsewhere in its picture.
_APART = {"name", "types", "archs", "proof", "engines", "source"}


def answer(row: Family | GgufFamily) -> str:
    """The known answer of a row in a few words."""
    if isinstance(row, GgufFamily):
        return row.refused or t("method.family.allocated")
    if "golden" in row.proof:
        return t("method.family.measured")
    return t("method.family.answer", bytes=row.proof["bytes"], tokens=row.proof["tokens"])


def answered_by(row: Family | GgufFamily) -> str:
    """Who says the known answer."""
    return "llama.cpp 0c1e57098" if isinstance(row, GgufFamily) else str(row.proof.get("source", "transformers 5.24"))


def source(row: Family | GgufFamily) -> str:
    """Where the rule was read."""
    return method_notes.table("model_configs", "gguf_families.yaml")[0].source if isinstance(row, GgufFamily) else row.source


def show(row: Family | GgufFamily, name: str, kinds: tuple[str, ...]) -> None:
    """Everything about a row that answers to `name`."""
    st.subheader(messages.plain(messages.sentence(row.name).removesuffix(".")), anchor=False)
    if isinstance(row, GgufFamily):
        _names(t("method.family.archs"), row.archs)
        _converted(row)
        told = t("kinds.and").join(words.kind(kind) for kind in kinds)
        st.markdown(t("method.pair", name=t("method.families.kinds"), text=told))
        _fields(row, "gguf_families.yaml")
    else:
        _type(row, name)
        _fields(row, "families.yaml")
        _engines(row)
        _proof(row)
        _measured(row, name)
    method_parts.source(source(row))


def _names(label: str, names: tuple[str, ...]) -> None:
    if names:
        st.markdown(t("method.names", label=label, count=len(names), names=", ".join(f"`{name}`" for name in names)))


def _type(row: Family, name: str) -> None:
    """Which types lead here, and what the layers of the one that was asked for keep by its class's defaults."""
    own = [one for one in known.types() if one.family is row]
    asked = next((one for one in own if one.model_type == name), own[0])
    if asked.decoder != name:
        st.markdown(t("method.family.decoder", name=f"`{name}`", decoder=f"`{asked.decoder}`"))
    counts = Counter(layer.kind for layer in asked.layers)
    if counts:
        st.markdown(t("method.family.layers", name=f"`{name}`", layers=words.kinds(counts)))
    _names(t("method.families.types"), row.types)
    _names(t("method.family.others"), tuple(one.model_type for one in own if one.model_type not in row.types))


def _converted(row: GgufFamily) -> None:
    """Model types that llama.cpp's converter makes these architectures of."""
    _names(
        t("method.family.converted"),
        tuple(name for name, arch in llama_cpp_table.architectures().by_type.items() if arch in row.archs),
    )


def _fields(row: Family | GgufFamily, file: str) -> None:
    """What the row says beyond the defaults, each field with its meaning from the file's own head."""
    told = dict(method_notes.table("model_configs", file)[0].fields)
    empty = {one.name: one.default for one in fields(row)}
    lines = [
        {t("method.field"): f"**`{one.name}`**  \n{method_parts.words(_plain(value))}",
         t("method.meaning"): marked(told.get(one.name, ""))}
        for one in fields(row)
        if one.name not in _APART and (value := getattr(row, one.name)) not in (empty[one.name], {}, (), None)
    ]  # fmt: skip
    st.markdown(f"**{t('method.family.row')}**")
    if lines:
        method_parts.small(lines, t("method.family.row"))
    else:
        st.markdown(t("method.family.defaults"))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _engines(row: Family) -> None:
    """The engines that read the same config differently, by the first of their rules that applies."""
    if not row.engines:
        return
    st.markdown(f"**{t('method.family.differently')}**")
    lines, used = [], set()
    for engine, rules in row.engines.items():
        for rule in rules if isinstance(rules, list | tuple) else (rules,):
            used |= set(rule)
            lines.append({t("method.engine"): engine, t("method.rule"): method_parts.words(rule)})
    method_parts.small(lines, t("method.family.differently"))
    told = effects()
    if used & set(told):
        method_parts.meanings([(name, told[name]) for name in told if name in used])
    if used - set(told):
        st.markdown(f":small[{marked(' '.join(_conditions().split()))}]")


@cache
def effects() -> Mapping[str, str]:
    """What each effect of an engine's rule does, by the text of the file that applies them."""
    found: dict[str, str] = {}
    for line in method_docs.of(views).splitlines():
        if match := re.fullmatch(r"  (\w+)\s{2,}(\S.*)", line):
            found[match[1]] = match[2]
    return found


def _conditions() -> str:
    text = method_docs.of(views)
    return text[text.index("Conditions:"):] + " " + method_docs.of(build.engine_views).partition("applies: ")[2]


def _proof(row: Family) -> None:
    """The known answer, and what the planner makes of the same words now."""
    st.markdown(f"**{t('method.families.proof')}**")
    if "golden" in row.proof:
        st.markdown(t("method.family.golden", name=f"`{row.proof['golden']}`"))
        return
    proof = row.proof
    config = "\n".join(f"{name}: {method_notes.flat(value)}" for name, value in proof["config"].items())
    st.code(config, language="yaml", wrap_lines=True)
    model = model_configs.read({**proof["config"], "torch_dtype": proof["dtype"]})
    ours = architecture_bytes(model, proof["tokens"], encoder_tokens=proof.get("encoder_tokens", 0)).total_bytes
    st.markdown(t("method.family.proof", bytes=proof["bytes"], tokens=proof["tokens"], dtype=proof["dtype"], ours=ours))
    method_parts.source(proof["source"])


def _measured(row: Family, name: str) -> None:
    """What real generation of tiny models of the row's types took, beside the prediction."""
    own = {one.model_type for one in known.types() if one.family is row}
    sweep = coverage_sweep.read()
    rows = [one for one in sweep.rows if one.type in own]
    if not rows:
        return
    st.markdown(f"**{t('method.family.generated')}**")
    st.caption(t("method.accuracy.sweep.point", date=sweep.created, version=sweep.versions["transformers"]))
    rows.sort(key=lambda one: one.type != name)
    lines = [measured_line(one) for one in rows]
    st.dataframe(lines, hide_index=True, height="content" if len(lines) <= 12 else 430, alt=t("method.family.generated"))


def measured_line(row: Row) -> dict[str, str]:
    """A type of the sweep as a row of a table."""
    return {
        t("method.sweep.type"): row.type, t("method.sweep.status"): t(f"method.sweep.{row.status.replace(' ', '_')}"),
        t("method.sweep.layers"): words.kinds(row.kinds) if row.kinds else "",
        t("method.sweep.measured"): ", ".join(f"{point.measured:,}" for point in row.points),
        t("method.sweep.predicted"): ", ".join(f"{point.predicted:,}" for point in row.points),
        t("method.sweep.why"): row.reason,
    }  # fmt: skip
