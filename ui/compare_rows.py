"""The rows of the Compare page: every combination of model, engine, GPU and KV dtype, planned or refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import streamlit as st

from planner.capacity import plan
from planner.capacity_demand import CONTEXT_WORDS
from planner.errors import EngineRefusal, PlannerError
from planner.model import Model
from planner.workload import Workload
from ui import format as fmt
from ui import messages
from ui.capacity_inputs import Asked, named
from ui.engine_dtypes import settings_for
from ui.engine_fields import LABELS, engine_of
from ui.i18n import language, t
from ui.model_by_name import model_of
from ui.side_by_side import identity

#: Combinations that are planned at most; each takes a tenth of a second or so when it is asked for first.
MOST = 60


@dataclass(frozen=True)
class Combination:
    """What a row is asked: a model by its catalogue or Hub id, an engine of the page, a GPU and a KV dtype by their words."""

    model: str
    option: str
    gpu: str
    word: str


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
) -> list[Combination]:
    """All of them, the first named changing slowest."""
    return [Combination(*one) for one in itertools.product(models, engines, gpus, dtypes)]


def question(one: Combination, count: int, tokens: int, requests: int) -> Asked:
    """The question as the Capacity page puts it. Errors: PlannerError."""
    model, argument = model_of(one.model)
    return _question(model, argument, one, count, tokens, requests)


def _question(model: Model, argument: str, one: Combination, count: int, tokens: int, requests: int) -> Asked:
    node, node_argument = named(one.gpu)
    engine, values = engine_of(one.option), settings_for(one.option, one.word)
    if values is None:
        raise EngineRefusal(t("compare.no_dtype", engine=LABELS[one.option], dtype=one.word))
    settings = dict(values)
    if engine.name == "llama.cpp":
        settings["front_end"] = "ollama" if one.option == "ollama" else "server"
    elif engine.name in CONTEXT_WORDS:
        settings[CONTEXT_WORDS[engine.name]] = tokens
    gpus = 1 if len(node.gpus) > 1 else count
    work = Workload(prompt_tokens=tokens, requests=requests)
    return Asked(model, argument, one.option, engine.Settings(**settings), node, node_argument, gpus, work, f"--prompt {tokens}")


def row(one: Combination, count: int, tokens: int, requests: int) -> Row:
    """One combination, planned for `requests` requests of `tokens` positions."""
    try:
        model, argument = model_of(one.model)
    except PlannerError as problem:
        return Row(one.model, LABELS[one.option], one.gpu, count, one.word, "refused", messages.sentence(problem.message))
    return _row(identity(model), model, argument, one, count, tokens, requests, language())


@st.cache_data(max_entries=2048, show_spinner=False)
def _row(
    same: str, _model: Model, argument: str, one: Combination, count: int, tokens: int, requests: int, spoken: str
) -> Row:
    """Kept for all visitors who speak `spoken`, which a reason is said in."""
    label, name = LABELS[one.option], one.gpu
    try:
        node, _ = named(one.gpu)
        name, count = node.name, len(node.gpus) if len(node.gpus) > 1 else count
        asked = _question(_model, argument, one, count, tokens, requests)
        found = plan(asked.model, asked.engine, asked.settings, asked.node, asked.gpus, asked.workload, advice=False)
    except PlannerError as problem:
        return Row(one.model, label, name, count, one.word, "refused", messages.sentence(problem.message))
    fullest = min(found.per_gpu, key=lambda share: share.free_bytes)
    return Row(
        one.model, label, name, count, one.word, found.verdict, "; ".join(found.warnings), fullest.memory_bytes,
        fullest.weight_bytes, fullest.other_bytes, fullest.cache_bytes, found.headroom_bytes, found.max_requests,
        found.max_context,
    )  # fmt: skip


def ordered(rows: Sequence[Row], by: str, arranged: Sequence[int]) -> list[int]:
    """Places of the rows in the order that is asked for; what is refused comes last, and equal ones stay as arranged.

    by: requests, cache, free, or any other word for the person's own order, which `arranged` has.
    """
    keys = {
        "requests": lambda r: -(float("inf") if r.max_requests is None else r.max_requests),
        "cache": lambda r: r.cache_bytes,
        "free": lambda r: -r.free_bytes,
    }
    if by not in keys:
        return list(arranged)
    return sorted(arranged, key=lambda place: (rows[place].verdict == "refused", keys[by](rows[place])))


def as_csv(rows: Sequence[Row]) -> str:
    """The rows with every figure in bytes, under the names of `Row`. A typed name that a spreadsheet would run is quoted."""
    def cell(value: object) -> object:
        return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value

    return fmt.csv_text(asdict(rows[0]), (map(cell, asdict(one).values()) for one in rows))


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
