"""The rows of the Compare page: every combination of model, engine, GPU and KV dtype, planned or refused."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import streamlit as st

from model_configs import read
from planner.capacity import plan
from planner.capacity_demand import CONTEXT_WORDS
from planner.errors import PlannerError
from planner.workload import Workload
from ui import messages
from ui.capacity_inputs import named
from ui.engine_dtypes import settings_for
from ui.engine_fields import LABELS, engine_of
from ui.i18n import language, t

#: Combinations that are planned at most; each takes a tenth of a second or so when it is asked for first.
MOST = 60


@dataclass(frozen=True)
class Row:
    """One deployment. verdict: fits, does_not_fit or refused, with the reason in `why`; bytes are of the fullest GPU."""

    model: str
    engine: str
    gpu: str
    gpus: int
    kv_dtype: str
    verdict: str
    why: str = ""
    memory_bytes: int = 0
    weight_bytes: int = 0
    other_bytes: int = 0
    cache_bytes: int = 0
    free_bytes: int = 0
    max_requests: int | None = None
    max_context: int | None = None


def combinations(
    models: Sequence[str], engines: Sequence[str], gpus: Sequence[str], dtypes: Sequence[str]
) -> Iterator[tuple[str, str, str, str]]:
    """(model, engine, GPU, dtype), the first named changing slowest."""
    return itertools.product(models, engines, gpus, dtypes)


def row(model: str, option: str, gpu: str, word: str, count: int, tokens: int, requests: int) -> Row:
    """One combination, planned for `requests` requests of `tokens` positions."""
    return _row(model, option, gpu, word, count, tokens, requests, language())


@st.cache_data(max_entries=2048, show_spinner=False)
def _row(model: str, option: str, gpu: str, word: str, count: int, tokens: int, requests: int, spoken: str) -> Row:
    """Kept for all visitors who speak `spoken`, which a reason is said in."""
    name, label = gpu, LABELS[option]
    try:
        node, _ = named(gpu)
        several = len(node.gpus) > 1
        name, count = node.name, len(node.gpus) if several else count
        engine, values = engine_of(option).name, settings_for(option, word)
        if values is None:
            return Row(model, label, name, count, word, "refused", t("engines.no_dtype"))
        settings = dict(values)
        if engine == "llama.cpp":
            settings["front_end"] = "ollama" if option == "ollama" else "server"
        elif engine in CONTEXT_WORDS:
            settings[CONTEXT_WORDS[engine]] = tokens
        work = Workload(prompt_tokens=tokens, requests=requests)
        found = plan(read(f"catalogue:{model}"), engine, settings, node, 1 if several else count, work, advice=False)
    except PlannerError as problem:
        return Row(model, label, name, count, word, "refused", messages.sentence(problem.message))
    fullest = min(found.per_gpu, key=lambda share: share.free_bytes)
    return Row(
        model, label, name, count, word, found.verdict, "; ".join(found.warnings), fullest.memory_bytes, fullest.weight_bytes,
        fullest.other_bytes, fullest.cache_bytes, found.headroom_bytes, found.max_requests, found.max_context,
    )  # fmt: skip


def ordered(rows: Sequence[Row], by: str) -> list[Row]:
    """The rows by what the person asked for; what is refused comes last, and equal ones stay as picked."""
    keys = {
        "requests": lambda r: -(float("inf") if r.max_requests is None else r.max_requests),
        "cache": lambda r: r.cache_bytes,
        "free": lambda r: -r.free_bytes,
    }
    if by not in keys:
        return list(rows)
    return sorted(rows, key=lambda r: (r.verdict == "refused", keys[by](r)))


def as_csv(rows: Sequence[Row]) -> str:
    """The rows with every figure in bytes, under the names of `Row`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*asdict(rows[0])], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in rows)
    return text.getvalue()


def as_json(rows: Sequence[Row], tokens: int, requests: int) -> str:
    data = {"schema_version": 1, "tokens": tokens, "requests": requests, "rows": [asdict(one) for one in rows]}
    return json.dumps(data, indent=2)


def as_markdown(table: Sequence[dict[str, object]]) -> str:
    """The table as it is shown."""
    def cell(value: object) -> str:
        return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value).replace("|", "\\|")

    head = list(table[0])
    lines = [head, ["---"] * len(head), *([cell(line[name]) for name in head] for line in table)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
