"""The map of one deployment: at every context and number of requests whether they are held, and what is left of the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from planner.capacity_demand import CONTEXT_WORDS
from planner.capacity_deploy import changed
from planner.capacity_evaluate import Checked, Evaluator
from planner.capacity_plan import Plan
from planner.capacity_rules import context_limit
from planner.errors import PlannerError
from planner.sweep import Variant, form_of, points
from planner.workload import Workload

#: held: over the whole range of the budget; likely: at its value, and not at its low end; short; refused: by the engine.
State = Literal["held", "likely", "short", "refused"]
#: Columns and rows that a map has by default, beside those of the plan itself.
_COLUMNS, _ROWS = 8, 8
#: A row of the ladder that is nearer to the plan's own than by this factor is left out.
_APART = 1.3
#: The shortest context of a map, but for the plan's own.
_LEAST = 16
#: The largest context that a map goes to where the model states none.
_NO_LIMIT = 1 << 20
#: Engines whose least budget is a search over their pool.
_SEARCHED = ("sglang", "tensorrt-llm", "tgi")


@dataclass(frozen=True)
class Cell:
    """`requests` requests of `context` positions, the engine's longest being as long. free_bytes: of the fullest GPU's budget,
    negative the shortfall; None where the engine refuses them, with its reason in `refusal`."""

    context: int
    requests: int
    state: State
    free_bytes: int | None
    refusal: str = ""


@dataclass(frozen=True)
class Map:
    """rows[i][j]: requests[i] requests of contexts[j] positions."""

    contexts: tuple[int, ...]
    requests: tuple[int, ...]
    rows: tuple[tuple[Cell, ...], ...]


def at_length(work: Workload | None, length: int, requests: int) -> Workload | None:
    """`requests` requests like those of `work`, each of `length` positions: the answer as long as it is, at most half of what
    the images and the draft leave, and the prompt the rest. None where these leave nothing.

    What fills the context stays so. What varies in length no longer does.
    """
    if work is None or work.full:
        return replace(work or Workload(), requests=requests)
    rest = length - work.image_tokens - work.speculative_tokens
    if rest < 1:
        return None
    output = min(round(work.mean_output) if work.output_tokens or work.samples else 0, rest // 2)
    prompt = rest - output
    return replace(
        work, prompt_tokens=prompt, output_tokens=output, requests=requests, samples=(), occupancy=None,
        shared_prefix_tokens=min(work.shared_prefix_tokens, prompt + work.image_tokens),
    )  # fmt: skip


def with_longest(plan: Plan, context: int) -> dict[str, int]:
    """The settings that make `context` the engine's longest request, as words and values; none where it has no word for it.

    llama.cpp's n_ctx is that of all its slots together.
    """
    settings, name = plan.deployment.settings, plan.engine
    if name == "llama.cpp":
        return {"n_ctx": context * (settings.n_seq_max or 1)}
    return {CONTEXT_WORDS[name]: context} if name in CONTEXT_WORDS else {}


def contexts_of(plan: Plan, length: int) -> tuple[int, ...]:
    """The engine's limit, powers of two below it, or of four where it is far, and `length`."""
    limit = context_limit(plan.deployment)
    limit = limit if plan.model.max_context is not None or limit < _NO_LIMIT else max(_NO_LIMIT, length)
    step = 2 if limit <= 1 << 18 else 4
    below = [step**power for power in range(2, 30) if _LEAST <= step**power < limit]
    return tuple(sorted({*below[1 - _COLUMNS :], limit, length}))


def requests_of(plan: Plan, length: int) -> tuple[int, ...]:
    """Powers of two, or of four, from 1 to beyond the most of `length`, and the plan's own."""
    most = Evaluator(replace(plan.deployment, workload=None)).max_requests(length, length) or 1
    top = max(64, 2 * plan.requests, 2 * most)
    step = 2 if top < 1 << _ROWS else 4
    ladder = {step**power for power in range(_ROWS) if step ** (power - 1) < top}
    near = {count for count in ladder if max(count, plan.requests) < _APART * min(count, plan.requests)}
    return tuple(sorted(ladder - near | {plan.requests}))


def fit_map(plan: Plan, contexts: Sequence[int] | None = None, requests: Sequence[int] | None = None) -> Map:
    """Whether the plan's deployment holds each number of requests of each length, all of them that long, and what is left.

    A cell is `planner.plan` with the longest request set to its context and the workload `at_length`: its verdict, and
    free = (the budget under the settings that serve so many) - (the allocator's need). Where that need is a search (SGLang,
    TensorRT-LLM, TGI), it starts from the closed form of `planner.sweep`, and ends within a thousandth of the budget above it.

    Errors: EngineRefusal, InputError where the deployment cannot be at any point.
    """
    length = plan.length if plan.workload is None or not plan.workload.typical else max(1, round(plan.workload.mean_tokens))
    columns = tuple(contexts_of(plan, length) if contexts is None else contexts)
    counts = tuple(requests_of(plan, length) if requests is None else requests)
    checks = {context: _column(plan, context, counts) for context in columns}
    guesses = _closed(plan, checks) if plan.engine in _SEARCHED else {}
    rows = tuple(
        tuple(_cell(checks[context][each], context, each, guesses.get((context, each))) for context in columns)
        for each in counts
    )  # fmt: skip
    return Map(columns, counts, rows)


def _column(plan: Plan, context: int, counts: Sequence[int]) -> dict[int, Checked | str]:
    """The settled deployment of each number of requests, or why it is refused."""
    found: dict[int, Checked | str] = {}
    one = replace(plan.deployment, settings=changed(plan.deployment.settings, **with_longest(plan, context)))
    for count in counts:
        work = at_length(one.workload, context, count)
        if work is None:
            found[count] = f"{context:,} positions leave no room beside the images and the draft"
            continue
        try:
            # The same evaluator for all counts: what it settled once it keeps.
            if not found or isinstance(found[counts[0]], str):
                evaluator = Evaluator(replace(one, workload=work))
            found[count] = evaluator.check(context, count, context)
        except PlannerError as refused:
            found[count] = refused.message
    return found


def _cell(checked: Checked | str, context: int, requests: int, guess: int | None) -> Cell:
    if isinstance(checked, str):
        return Cell(context, requests, "refused", None, checked)
    try:
        fits = checked.fits()
        state: State = "short" if not fits else "held" if checked.fits("low") else "likely"
        room = checked.room() if guess is None else _room_near(checked, guess)
    except PlannerError as refused:
        return Cell(context, requests, "refused", None, refused.message)
    # Within its thousandth a search can end on the other side of nothing.
    return Cell(context, requests, state, max(0, room) if fits else min(-1, room))


def _room_near(checked: Checked, guess: int) -> int:
    """Budget less need, to a thousandth of the budget and never too large; the need is looked for around `guess`."""
    card = checked.cards[0]
    step = reach = max(1, abs(card.budget.kv_bytes) >> 10)

    def holds(budget_bytes: int) -> bool:
        return card.allocation.holds(budget_bytes, checked.demand)

    low, high = guess - step, guess
    while holds(low):
        low, high, reach = low - 2 * reach, low, 2 * reach
    while not holds(high):
        low, high, reach = high, high + reach, 2 * reach
    while high - low > step:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return card.budget.kv_bytes - high


def _closed(plan: Plan, checks: Mapping[int, Mapping[int, Checked | str]]) -> dict[tuple[int, int], int]:
    """The cache bytes of each cell by the engine's closed form, all of them at once."""
    cells = {
        (context, count): found
        for context, column in checks.items() for count, found in column.items() if not isinstance(found, str)
    }  # fmt: skip
    if not cells:
        return {}
    settings = next(iter(cells.values())).settings
    encoder = plan.workload.encoder_tokens if plan.workload else 0
    form = form_of(plan.model, Variant(plan.engine, settings), plan.gpu, encoder)
    sizes = points(form, [context for context, _ in cells], [found.demand.sequences for found in cells.values()])
    return dict(zip(cells, map(int, sizes), strict=True))
