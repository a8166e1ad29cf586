"""The budget that a vLLM log prints: the terms of its own equations, put together again, and what was refused.

Each equation has three or four rounded figures; it holds where both sides can be equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from planner.engines.vllm_tables import rules_of
from planner.units import GIB, MIB
from validation.logs.log import CheckLine, Figure, Log

Printed = Mapping[str, Figure]
#: What vLLM leaves beside the sizes that it suggests.
_MARGIN: Final = 150 * MIB
#: By so much what two ranks of one engine offer differs.
_RANKS_DIFFER: Final = 0.05


def budget_lines(log: Log) -> tuple[CheckLine, ...]:
    """Every equation whose figures one start printed."""
    made = (_share(log), _old_pool(log.printed), _pool(log), _graphs_share(log.printed))
    return tuple(line for line in made if line is not None)


def _same_start(figures: Printed, *names: str) -> bool:
    return all(name in figures for name in names)


def _gib(figure: Figure) -> str:
    return figure.text if figure.slack else f"{figure.value / GIB:.2f}"


def _share(log: Log) -> CheckLine | None:
    """requested = total x gpu_memory_utilization, which engine V0 prints with two decimals."""
    printed = log.printed
    if not _same_start(printed, "requested_bytes", "gpu_total_bytes", "gpu_memory_utilization"):
        return None
    asked, total, share = (printed[name] for name in ("requested_bytes", "gpu_total_bytes", "gpu_memory_utilization"))
    ours = total.value * share.value
    slack = asked.slack + total.slack * share.value + (total.value * share.slack if log.other["release"].old_engine else 0)
    rule = f"gpu_memory_utilization {share.text} x {total.text} GiB of the card"
    return _line(asked, ours, slack, rule)


def _old_pool(printed: Printed) -> CheckLine | None:
    """0.5 to 0.6.4: pool = total x share - peak of PyTorch - what lies outside it."""
    names = ("available_kv_bytes", "gpu_total_bytes", "gpu_memory_utilization", "peak_torch_bytes", "non_torch_bytes")
    if not _same_start(printed, *names):
        return None
    pool, total, share, peak, outside = (printed[name] for name in names)
    ours = total.value * share.value - peak.value - outside.value
    slack = pool.slack + total.slack * share.value + total.value * share.slack + peak.slack + outside.slack
    rule = f"{share.text} x {total.text} GiB - {peak.text} peak of PyTorch - {outside.text} outside it"
    return _line(pool, ours, slack, rule)


def _pool(log: Log) -> CheckLine | None:
    """pool = requested - weights - activation peak - outside PyTorch, and from 0.21 on the estimate of CUDA graphs."""
    printed = log.printed
    pool = printed.get("kv_in_use_bytes") or printed.get("available_kv_bytes")
    if pool is None or "requested_bytes" not in printed or "kv_cache_memory_bytes" in printed:
        return None
    parts = taken(printed)
    if not parts:
        return None
    asked = printed["requested_bytes"]
    ours = asked.value - sum(figure.value for _, figure in parts)
    slack = pool.slack + asked.slack + sum(figure.slack for _, figure in parts)
    rule = f"{_gib(asked)} GiB asked for" + "".join(f" - {_gib(figure)} {what}" for what, figure in parts)
    estimate = printed.get("cudagraph_estimated_bytes")
    if estimate is not None and "consumed_bytes" in printed:
        rule += f"; the peak has the {estimate.text} GiB estimate of CUDA graphs in it"
    elif estimate is not None and _counted(log, abs(ours - estimate.value - pool.value) < abs(ours - pool.value)):
        ours, slack = ours - estimate.value, slack + estimate.slack
        rule += f" - {estimate.text} estimated for CUDA graphs (counted since 0.21)"
    line = _line(pool, ours, slack, rule)
    if not line.agrees and ranks_of(log) > 1 and 0 < ours - pool.value < _RANKS_DIFFER * pool.value:
        return replace(line, agrees=True, rule=f"{rule}; this rank offers more than the one whose pool is the smallest")
    return line


def _counted(log: Log, nearer: bool) -> bool:
    """Whether the estimate is part of the budget: by the release, or where it is not known by which comes nearer."""
    version = log.settings.get("version")
    return rules_of(version).cudagraph_estimate if version else nearer


def ranks_of(log: Log) -> int:
    """The ranks of one engine, as the settings say or the tags show."""
    said, shown = log.settings, log.other["ranks"]
    names = (("tensor_parallel_size", "TP"), ("pipeline_parallel_size", "PP"))
    return math.prod(max(int(said.get(name, 1)), int(shown.get(tag, 1))) for name, tag in names)


def taken(printed: Printed) -> list[tuple[str, Figure]]:
    """What the log subtracts from the share, with its words; empty where not all of it is printed."""
    for names in (("consumed_bytes", "activation_bytes"), ("weights_bytes", "activation_bytes", "non_torch_bytes")):
        if _same_start(printed, *names):
            words = {
                "consumed_bytes": "weights and outside PyTorch", "weights_bytes": "weights",
                "activation_bytes": "activation peak", "non_torch_bytes": "outside PyTorch",
            }  # fmt: skip
            return [(words[name], printed[name]) for name in names]
    return []


def _graphs_share(printed: Printed) -> CheckLine | None:
    """The share that is left once the graphs' estimate is taken: u - estimate / total."""
    names = ("utilization_without_graphs", "gpu_memory_utilization", "cudagraph_estimated_bytes", "gpu_total_bytes")
    if not _same_start(printed, *names):
        return None
    left, share, graphs, total = (printed[name] for name in names)
    ours = share.value - graphs.value / total.value
    slack = left.slack + graphs.slack / total.value + graphs.value * total.slack / total.value**2
    rule = f"{share.text} - {graphs.text} GiB of CUDA graphs / {total.text} GiB"
    return CheckLine(left.name, left.value, round(ours, 4), abs(ours - left.value) <= slack + 1e-9, rule, left.text)


def _line(figure: Figure, ours: float, slack: float, rule: str) -> CheckLine:
    agrees = abs(ours - figure.value) <= slack * (1 + 1e-9) + 1
    return CheckLine(figure.name, figure.value, round(ours), agrees, rule, f"{_gib(figure)} GiB")


def budget_texts(log: Log) -> Iterator[str]:
    """What else the budget's figures say: suggestions that are no pool, refusals, shares that act otherwise than they read."""
    printed = log.printed
    yield from _suggestions(printed)
    if _same_start(printed, "utilization_without_graphs", "gpu_memory_utilization"):
        yield (
            f"gpu_memory_utilization {printed['gpu_memory_utilization'].text} acts as"
            f" {printed['utilization_without_graphs'].text}: since 0.21 the estimate of CUDA graphs is taken from it, so that the"
            " same command gives a smaller cache than before"
        )
    if "no_room" in log.other["refused"] and _same_start(printed, "free_bytes", "gpu_total_bytes", "requested_bytes"):
        free, total, asked = (printed[name] for name in ("free_bytes", "gpu_total_bytes", "requested_bytes"))
        yield (
            f"refused: only {free.text} of {total.text} GiB were free when vLLM started, less than the {asked.text} GiB that it"
            f" was to have; {(total.value - free.value) / GIB:.2f} GiB are held by something else on the card"
        )
    if "no_memory" in log.other["refused"]:
        yield "refused: weights, activations and what lies outside PyTorch take all of gpu_memory_utilization; nothing is left"
    if "kv_cache_memory_bytes" in printed:
        size = printed["kv_cache_memory_bytes"].text
        yield f"the cache is pinned to {size} GiB by --kv-cache-memory-bytes; gpu_memory_utilization plays no part"
    checkpoint, load = printed.get("checkpoint_bytes"), printed.get("model_load_bytes")
    if checkpoint and load:
        yield f"the checkpoint's {checkpoint.text} GiB are its files; in memory the weights took {load.text} GiB"
    if "num_gpu_blocks_override" in printed:
        yield f"num_gpu_blocks_override sets {printed['num_gpu_blocks_override'].text} blocks whatever memory there is"


def _suggestions(printed: Printed) -> Iterator[str]:
    parts, fit, graphs = taken(printed), printed.get("suggested_fit_bytes"), printed.get("cudagraph_bytes")
    if fit is None or not parts or graphs is None or "requested_bytes" not in printed:
        return
    asked = printed["requested_bytes"]
    ours = asked.value - sum(figure.value for _, figure in parts) - graphs.value - _MARGIN
    slack = asked.slack + graphs.slack + sum(figure.slack for _, figure in parts)
    pool = printed.get("kv_in_use_bytes")
    text = f"the suggested --kv-cache-memory={fit.value:,} ({fit.value / GIB:.2f} GiB) is not the pool"
    if abs(ours - fit.value) <= slack + 1:
        numbers = "".join(f" - {_gib(figure)}" for _, figure in parts)
        text += f": it is {_gib(asked)}{numbers} - {graphs.text} of captured graphs - 150 MiB of margin"
        twice = "consumed_bytes" in printed and "cudagraph_estimated_bytes" in printed
        if pool is not None and pool.value > fit.value:
            text += f"; {_gib(pool)} GiB are in use"
            text += ", more, because it counts the graphs twice: as estimate in the peak and as captured" if twice else ""
    yield text
