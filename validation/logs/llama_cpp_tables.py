"""The memory tables of a llama.cpp log: dry runs of `--fit`, and the breakdown at the end. Whole MiB, cut and not rounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.engines import llama_cpp
from planner.errors import PlannerError
from planner.layers import Full
from planner.model import Model
from planner.units import MIB, round_up
from validation.logs.llama_cpp_read import Table
from validation.logs.log import CheckLine, Figure
from validation.logs.models import described

#: States that are kept for speculative decoding, at most.
_COPIES = 9
#: Contexts between which memory grows by the token, longer than any window.
_LENGTHS = (65_536, 131_072)
#: Draft layers are looked for up to this many.
_DRAFTS = 4


@dataclass(frozen=True)
class Memory:
    """A model's context at some length: keys and values, one copy of the states, and a draft layer's keys and values."""

    model: Model
    n_ctx: int
    kv: int
    state: int
    draft_layer: int


def memory(model: Model, settings: Mapping[str, Any]) -> Memory | None:
    """None where llama.cpp would not start so."""
    try:
        found = llama_cpp.cache_bytes(model, llama_cpp.Settings(**settings))
    except PlannerError:
        return None
    rows = [
        sum(part.bytes for part in layer.parts if part.kind == "full")
        for layer, own in zip(found.layers, model.layers_for("llama.cpp"), strict=True)
        if any(type(cache) is Full for cache in own.caches)
    ]
    return Memory(model, found.n_ctx, found.k_bytes + found.v_bytes, found.state_bytes, max(rows, default=0))


def explain_tables(
    tables: Sequence[Table], models: Sequence[Model], settings: Mapping[str, Any], fixed: Figure | None
) -> tuple[list[CheckLine], list[str], list[str]]:
    """Lines, rules, and what is missing."""
    lines: list[CheckLine] = []
    rules, missing = [], []
    if any(table.dry for table in tables):
        rules.append("a table with less than 0 unaccounted is a dry run of --fit: nothing was allocated yet")
    for number, table in enumerate(tables, 1):
        lines += _self(table, number if len(tables) > 1 else None)
    own = [found for model in models if (found := memory(model, settings))]
    fitting, asked = _fitting(tables, own), settings.get("n_ctx")
    if not fitting and own and (solved := _solved(tables, own[0].model, settings)):
        asked = True
        found, said = solved
        fitting = _fitting(tables, [found])
        rules.append(said)
    fitting = fitting or ([] if own else _fitting(tables, _catalogue(settings)))
    if not fitting:
        if not own:
            missing.append("--model: the log does not print the dimensions that the context column follows from")
        for number, table in enumerate(tables, 1):
            lines += [_wrong(table, number, one) for one in own[:1] if table.total("context_bytes")]
        return lines, rules, missing
    first, copies = fitting[0]
    if not asked:
        rules.append(f"-c is not given: the context is the trained one, {first.n_ctx:,} tokens, until --fit lowers it")
    if not own:
        names = ", ".join(dict.fromkeys(one.model.name for one, _ in fitting[:4]))
        rules.append(f"inferred: of the catalogue, the context column is that of {names}; --model confirms it")
    for number, table in enumerate(tables, 1):
        context = _context(table, number, first, copies)
        if context:
            lines.append(context[0])
            rules.append(context[1])
    rules += _fixed(tables, fixed)
    return lines, rules, missing


def _self(table: Table, number: int | None) -> Iterator[CheckLine]:
    """self = model + context + compute on each device, and unaccounted = total - free - self."""
    where = f" of table {number}" if number else ""
    for device, row in table.devices.items():
        text = {name.removesuffix("_bytes"): figure.text for name, figure in row.items()}
        whole = {name: int(value) for name, value in text.items()}
        parts = ("model", "context", "compute")
        rule = f"self = model + context + compute = {' + '.join(text[part] for part in parts)}, each cut to whole MiB"
        yield _whole(f"self_bytes {device}{where}", row["self_bytes"], sum(whole[part] for part in parts), 3, rule)
        if "unaccounted" in whole:
            rest = whole["total"] - whole["free"] - whole["self"]
            rule = f"unaccounted = total {text['total']} - free {text['free']} - self {text['self']}"
            yield _whole(f"unaccounted_bytes {device}{where}", row["unaccounted_bytes"], rest, 3, rule)


def _whole(name: str, printed: Figure, ours: int, cut: int, rule: str) -> CheckLine:
    """Whole MiB that are cut: off by less than one for each of them."""
    return CheckLine(name, printed.value, ours * MIB, abs(int(printed.text) - ours) < cut + 1, rule, f"{printed.text} MiB")


def _catalogue(settings: Mapping[str, Any]) -> list[Memory]:
    return [found for model in described() if (found := memory(model, settings))]


def _fitting(tables: Sequence[Table], own: Sequence[Memory]) -> list[tuple[Memory, int]]:
    """Models, and the copies of their states, that give the largest table's context column."""
    if not tables:
        return []
    largest = max(tables, key=lambda table: table.total("context_bytes"))
    if not largest.total("context_bytes"):
        return []
    found = []
    for one in own:
        copies = next((n for n in range(1, _COPIES + 1) if _is(largest, one.kv + n * one.state)), None)
        if copies:
            found.append((one, copies))
    return found


def _solved(tables: Sequence[Table], model: Model, settings: Mapping[str, Any]) -> tuple[Memory, str] | None:
    """The context and the types that give the largest table's context column: whole multiples of 256 tokens, and on each of
    several cards whole layers, so that two figures say the same.
    """
    largest = max(tables, key=lambda table: table.total("context_bytes"))
    shares = [int(row["context_bytes"].text) for row in largest.devices.values() if int(row["context_bytes"].text) > 0]
    given = settings.get("cache_type_k")
    for kind in [given] if given else ["f16", "q8_0", "q4_0"]:
        types = {"cache_type_k": kind, "cache_type_v": settings.get("cache_type_v", kind)}
        short, long = (memory(model, {**settings, **types, "n_ctx": n}) for n in _LENGTHS)
        if short is None or long is None or long.kv <= short.kv:
            continue
        slope = (long.kv - short.kv) / (_LENGTHS[1] - _LENGTHS[0])
        rest = short.kv - slope * _LENGTHS[0] + short.state
        low, high = ((largest.total("context_bytes") + more) * MIB - rest for more in (0, len(shares)))
        counts = range(round_up(max(256, int(low / slope)), 256), int(high / slope) + 1, 256)
        found = memory(model, {**settings, **types, "n_ctx": counts[0]}) if len(counts) == 1 else None
        if found is not None and _whole_layers(shares, found):
            where = f", {len(shares)} cards with whole layers" if len(shares) > 1 else ""
            return found, f"inferred: a context of {counts[0]:,} tokens in {kind}, which alone gives the context column{where}"
    return None


def _whole_layers(shares: Sequence[int], found: Memory) -> bool:
    """Whether each card's part, cut to whole MiB, is whole layers; not known of a model whose layers are not all alike."""
    layers = [layer for layer in found.model.layers_for("llama.cpp") if layer.caches]
    if len(shares) < 2 or len({layer.caches for layer in layers}) != 1:
        return True
    each = found.kv / len(layers)
    counts = [round((share + 0.5) * MIB / each) for share in shares]
    return sum(counts) == len(layers) and all(
        share * MIB <= count * each < (share + 1) * MIB for share, count in zip(shares, counts, strict=True)
    )


def _is(table: Table, size: int) -> bool:
    """Whether the context column of all devices is `size`, each device's part cut to whole MiB."""
    parts = sum(1 for row in table.devices.values() if int(row["context_bytes"].text) > 0)
    printed = table.total("context_bytes")
    return printed * MIB <= size < (printed + parts) * MIB


def _context(table: Table, number: int, own: Memory, copies: int) -> tuple[CheckLine, str] | None:
    printed = table.total("context_bytes")
    if not printed:
        return None
    shown, value = f"{printed} MiB", printed * MIB
    kv, state = own.kv / MIB, own.state / MIB
    if _is(table, own.kv + copies * own.state):
        states = f" + states {state:,.3f} x {copies}" if own.state else ""
        rule = f"context = KV {kv:,.0f}{states} MiB at {own.n_ctx:,} tokens, cut to whole MiB"
        ours = own.kv + copies * own.state
    elif own.draft_layer and (layers := next((n for n in range(1, _DRAFTS + 1) if _is(table, n * own.draft_layer)), None)):
        ours = layers * own.draft_layer
        rule = (
            f"the draft (MTP) context: {layers} layer{'s' if layers > 1 else ''} x {own.draft_layer // own.n_ctx:,} B a token"
            f" x {own.n_ctx:,} tokens = {ours / MIB:,.0f} MiB"
        )
    else:
        ours = own.kv + copies * own.state
        draft = own.draft_layer / MIB
        rule = f"context: neither KV {kv:,.0f} and states nor a draft layer's {draft:,.0f} MiB at {own.n_ctx:,} tokens"
        return CheckLine(f"context_bytes of table {number}", value, ours, False, rule, shown), rule
    return CheckLine(f"context_bytes of table {number}", value, ours, True, rule, shown), f"table {number}: {rule}"


def _wrong(table: Table, number: int, own: Memory) -> CheckLine:
    printed = table.total("context_bytes")
    ours = own.kv + own.state
    states = " and one copy of the states" if own.state else ""
    kv = f"{own.kv / MIB:,.0f} MiB of KV{states} at {own.n_ctx:,} tokens"
    rule = f"context: {own.model.name} has {kv}; the context, the types or the model differ"
    return CheckLine(f"context_bytes of table {number}", printed * MIB, ours, False, rule, f"{printed} MiB")


def _fixed(tables: Sequence[Table], fixed: Figure | None) -> Iterator[str]:
    """What a draft context takes whatever its length is its compute buffer."""
    if fixed is None:
        return
    for table in tables:
        if abs(table.total("compute_bytes") - fixed.value / MIB) < 1 + len(table.devices) or any(
            abs(int(row["compute_bytes"].text) - fixed.value / MIB) < 1 for row in table.devices.values()
        ):
            yield f"the draft context's fixed part, {fixed.text} MiB, is its compute buffer; its cache grows with the context"
            return

