"""Engines on the Method page: what each makes of every kind of cache, its rules by file, its tables by version."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import ModuleType

import streamlit as st

from planner import engines
from planner.budget_engines import PLANS
from planner.cache import architecture_bytes
from planner.engines import ENGINES
from planner.engines.base import allocated
from planner.engines.explain import Reason, difference
from planner.errors import PlannerError
from ui import format as fmt
from ui import messages, method_accuracy, method_docs, method_parts, method_versions, words
from ui.engine_fields import LABELS
from ui.i18n import t
from ui.method_docs import breakable, marked
from ui.model_input import from_catalogue

#: In the order of the other pages.
ORDER = tuple(name for name in LABELS if name in ENGINES)
#: A model of the catalogue for each kind of cache, with tokens and encoder positions of the example.
EXAMPLES: dict[str, tuple[str, int, int]] = {
    "full": ("meta-llama/Llama-3.1-8B", 10_000, 0), "sliding": ("google/gemma-3-27b-it", 10_000, 0),
    "chunked": ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 10_000, 0), "latent": ("deepseek-ai/DeepSeek-V3", 10_000, 0),
    "indexed": ("deepseek-ai/DeepSeek-V3.2", 10_000, 0), "compressed": ("deepseek-ai/DeepSeek-V4-Flash", 10_000, 0),
    "state": ("Qwen/Qwen3-Next-80B-A3B-Instruct", 10_000, 0), "cross": ("openai/whisper-large-v3", 448, 1_500),
    "shared": ("google/gemma-3n-E4B-it", 10_000, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Example:
    """A model under an engine: the architecture's bytes, the engine's and why they differ, or the reason that there are none."""

    kind: str
    model: str
    own_bytes: int
    bytes: int | None = None
    reasons: tuple[Reason, ...] = ()
    refusal: str = ""


@st.cache_data(max_entries=16, show_spinner=False)
def examples(engine: str) -> list[Example]:
    """Each kind of cache under the engine's defaults, one request."""
    found, rules = [], ENGINES[engine]
    for kind, (name, tokens, encoder) in EXAMPLES.items():
        model = from_catalogue(name)
        own = architecture_bytes(model, tokens, encoder_tokens=encoder).total_bytes
        try:
            settings = rules.Settings()
            size = allocated(model, rules, settings, tokens, 1, encoder_tokens=encoder).total_bytes
            why = difference(model, rules, settings, tokens, 1, encoder)
            found.append(Example(kind, name, own, size, why))
        except PlannerError as problem:
            found.append(Example(kind, name, own, refusal=problem.message))
    return found


def modules(engine: str) -> list[ModuleType]:
    """The engine's files, its main one first."""
    stem = engine.replace(".", "_").replace("-", "_")
    names = [found.name for found in pkgutil.iter_modules(engines.__path__)]
    own = [stem, *(name for name in names if name.startswith(f"{stem}_"))]
    return [importlib.import_module(f"planner.engines.{name}") for name in own]


@cache
def rules(module: ModuleType) -> tuple[tuple[str, str], ...]:
    """The public functions and classes of a file that say a rule, with their docstrings in the file's order."""
    found = []
    for name, thing in vars(module).items():
        own = (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__ == module.__name__
        if own and not name.startswith("_") and name != "launch_command" and "\n\n" in (doc := method_docs.of(thing)):
            found.append((name, doc))
    return tuple(found)


def tables(engine: str) -> Iterator[str]:
    """The engine's files in planner/data."""
    stem = engine.replace(".", "_").replace("-", "_")
    names = sorted(item.name for item in resources.files("planner").joinpath("data").iterdir())
    return (name for name in names if name == f"{stem}.yaml" or name.startswith(f"{stem}_"))


def show() -> None:
    st.header(t("method.engines.title"), anchor=False)
    st.markdown(t("method.engines.lead"))
    engine = method_parts.choice("rules", t("method.rules"), ORDER, LABELS.__getitem__)
    main, *others = modules(engine)
    st.subheader(LABELS[engine], anchor=False)
    method_docs.draw(method_docs.of(main))
    st.markdown(method_accuracy.sentence(engine))
    _kinds(engine)
    st.subheader(t("method.engines.rules"), anchor=False)
    for name, doc in rules(main):
        _rule(name, doc)
    st.subheader(t("method.engines.budget"), anchor=False)
    method_docs.draw(method_docs.of(PLANS[engine]))
    st.subheader(t("method.versions"), anchor=False)
    method_versions.show(engine)
    st.subheader(t("method.engines.files"), anchor=False)
    for module in others:
        if rules(module):
            _file(module)
    for name in tables(engine):
        if name != method_versions.OWN_FILE:
            method_parts.file(name, "versions", "eras")


def _kinds(engine: str) -> None:
    """A model of each kind: what its own arithmetic says, what the engine takes, and why."""
    st.subheader(t("method.engines.kinds"), anchor=False)
    st.markdown(t("method.engines.kinds.lead", tokens=10_000))
    lines = []
    for one in examples(engine):
        why = t("method.join").join(words.reason(reason) for reason in one.reasons) or t("method.engines.same")
        size = t("method.engines.refused") if one.bytes is None else fmt.size(one.bytes)
        lines.append({
            t("method.engines.kind"): f"**{words.kind(one.kind)}**  \n{messages.plain(one.model.split('/')[1])}",
            t("method.engines.sizes", engine=LABELS[engine]): f"{fmt.size(one.own_bytes)} → **{size}**",
            t("method.engines.why"): breakable(messages.plain(messages.sentence(one.refusal) if one.refusal else why)),
        })  # fmt: skip
    method_parts.small(lines, t("method.engines.kinds"))


def _rule(name: str, doc: str) -> None:
    st.markdown(f"**`{name}`**")
    method_docs.draw(doc)


def _file(module: ModuleType) -> None:
    """A file of rules, read when it is opened."""
    head, *rest = method_docs.of(module).split("\n\n")
    part = st.expander(marked(" ".join(head.split())), key=f"file_{module.__name__}", icon=":material/rule:", on_change="rerun")
    if part.open:
        with part:
            if rest:
                method_docs.draw("\n\n".join(rest))
            for name, doc in rules(module):
                _rule(name, doc)
