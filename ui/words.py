"""What the planner says, in the visitor's language: by its code where it has one, else in the planner's own English.

The English of a code stands in the planner; a language's file `{language}.planner.yaml` has the same codes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner import explain
from planner.advise_texts import TEXTS
from planner.capacity_plan import Advice, Plan
from planner.engines.explain import Reason
from planner.plan_report import plan_data, verdict_line
from planner.texts import Told
from planner.units import format_bytes
from ui.i18n import language, t, texts

_FORMULA = re.compile(r"\b(heads?|positions|elements)\b")


def said(key: str, english: str, /, **values: object) -> str:
    """The text called `key` with its values filled in, or `english` where the visitor's language has none."""
    text = texts(language()).get(key)
    return english if text is None else text.format(**values)


def kind(name: str) -> str:
    """A kind of cache; "full+cross" for a layer with two."""
    return "+".join(said(f"kind.{one}", one) for one in name.split("+"))


def kind_keeps(name: str) -> str:
    """What a kind of cache keeps."""
    return " + ".join(said(f"kind.{one}.what", explain.KINDS[one]) for one in name.split("+"))


def formula(text: str) -> str:
    """The planner's arithmetic with its few words translated."""
    return _FORMULA.sub(lambda found: said(f"formula.{found[0].rstrip('s')}", found[0]), text)


def kinds(counts: Mapping[str, int]) -> str:
    """How many layers there are of each kind."""
    return t("kinds.and").join(t("kinds.one", count=count, kind=kind(name)) for name, count in counts.items())


def term(name: str) -> str:
    """A use of the GPU's memory."""
    return said(f"term.{name.replace(' ', '_')}", name)


def confidence(word: str) -> str:
    return said(f"confidence.{word}", word)


def told(text: str) -> str:
    """A sentence of the planner in the visitor's language, by its code; a text without one as it is."""
    if not isinstance(text, Told):
        return text
    values = {name: told(value) if isinstance(value, Told) else value for name, value in text.values.items()}
    return said(f"told.{text.code}", str(text), **values)


def symbol(name: str) -> str:
    """A word of the planner's arithmetic; a setting keeps the engine's own name."""
    name = name.rstrip("_")
    if name.startswith("bytes_of_") and "symbol.bytes_of" in texts(language()):
        return said("symbol.bytes_of", "") + symbol(name.removeprefix("bytes_of_"))
    for ending, key in (("_layers", "layer_count"), ("_layer", "layer_bytes"), ("_blocks", "blocks")):
        if name.endswith(ending) and f"kind.{name.removesuffix(ending)}" in texts(language()):
            return kind(name.removesuffix(ending)) + said(f"symbol.{key}", ending)
    return said(f"symbol.{name}", name)


def bound(word: str) -> str:
    """What limits a time: memory or compute."""
    return said(f"bound.{word}", word)


def advice(one: Advice) -> str:
    return _advice(one.code, one.values)


def _advice(code: str, values: Mapping[str, Any]) -> str:
    """Two changes at once are put together from the texts of each."""
    parts = zip(("first", "second"), values.get("parts", ()), strict=False)
    values = {**values, **{place: _advice(part["code"], part["values"]) for place, part in parts}}
    return said(f"advice.{code}", TEXTS[code].format(**values), **values)


def reason(one: Reason) -> str:
    """Why an engine takes more or less than the architecture, with the signed size."""
    text = said(f"difference.{one.code}", "", layers=one.layers, **one.values)
    size = ("+" if one.bytes >= 0 else "") + format_bytes(one.bytes)
    return said("difference", one.text, size=size, text=text)


def split(plan: Plan) -> str:
    """How the GPUs are shared out, "TP 4 × PP 2"; empty for one GPU."""
    parts = (("TP", plan.tensor_parallel_size), ("PP", plan.pipeline_parallel_size), ("DP", plan.replicas))
    return " × ".join(f"{name} {count}" for name, count in parts if count > 1)


def verdict(plan: Plan) -> str:
    """The answer in one sentence: in English the shell's own first line."""
    length = said("verdict.length", "", length=f"{plan.length:,}")
    if plan.workload is not None and plan.workload.typical:
        length = said("verdict.length.typical", "", mean=f"{plan.workload.mean_tokens:,.0f}", length=f"{plan.length:,}")
    code = "fits" if plan.fits else "short" if plan.max_requests else "none"
    room = format_bytes(abs(plan.headroom_bytes))
    return said(f"verdict.{code}", verdict_line(plan_data(plan)), requests=f"{plan.requests:,}", length=length, room=room)
