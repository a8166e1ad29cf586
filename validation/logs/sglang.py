"""SGLang's start-up logs: pools of every rank, target and draft, full and window layers, states, and what is free between them.

Other files: `sglang_shapes` (lines), `sglang_pools` (which pool a line is of), `sglang_ours`, `sglang_memory` and
`sglang_explain` (beside ours).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.engines import sglang
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.model import Model
from validation.logs.commands import commands, plain_value, value_of
from validation.logs.lines import Line
from validation.logs.log import Check, Figure, Log
from validation.logs.sglang_explain import explain_log
from validation.logs.sglang_pools import Pools, figures_of, pools_of, ranks_of
from validation.logs.sglang_shapes import COMMON, SHAPES
from validation.logs.shapes import Found, scan

NAME: Final = "sglang"
signs: Final[tuple[re.Pattern[str], ...]] = (
    re.compile(
        r"KV Cache is allocated\.|Memory pool end\. avail|Load weight (?:begin|end)\. |max_total_num_tokens=\d|SWAKVPool "
        r"|Mamba Cache is allocated|liding window memory pool|server_args=(?:ServerArgs\(|\{)|\bsglang\.launch_server"
        r"|\bsglang serve|python3? -m sglang|Loaded weights leave no GPU memory|Init torch distributed (?:begin|ends)\."
        r"|Capture (?:draft )?\S{0,20} ?cuda graph"
    ),
)
_PROGRAM: Final = re.compile(r"(?:sglang\.launch_server|sglang serve)(?= )")
#: Names of ServerArgs and flags that are settings of planner.engine("sglang").
_SETTINGS: Final = (
    "tp_size", "pp_size", "dp_size", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "dcp_size", "dtype",
    "kv_cache_dtype", "enable_dp_attention", "context_length", "mem_fraction_static", "max_total_tokens", "max_running_requests",
    "page_size", "chunked_prefill_size", "cuda_graph_max_bs", "attention_backend", "disable_radix_cache", "moe_a2a_backend",
    "disable_overlap_schedule", "swa_full_tokens_ratio", "mamba_ssm_dtype", "mamba_full_memory_ratio", "max_mamba_cache_size",
    "speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
    "disable_hybrid_swa_memory",
)  # fmt: skip
_SHORT: Final = {"tp": "tp_size", "pp": "pp_size", "dp": "dp_size"}
_LONG: Final = {"tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "dp_size": "data_parallel_size"}
_MODEL: Final = ("model_path", "served_model_name", "model")


def read(lines: Sequence[Line]) -> Log:
    """What the log tells. Figures that bind are the least rank's; settings those of ServerArgs, else of the command."""
    starts = _starts(lines)
    lines = starts[-1]
    scanned = scan(lines, SHAPES)
    pools = pools_of(scanned.found)
    given, name = _given(lines)
    settings = _settings(given, pools)
    every = tuple(figure for rank in pools for figure in rank.figures) + _others(scanned.found)
    fractions = [one.words["fraction"] for one in scanned.found if "fraction" in one.words]
    if fractions and "mem_fraction_static" not in settings and 0 < float(fractions[-1]) < 1:
        settings["mem_fraction_static"] = float(fractions[-1])
    version, bracket = _version(scanned.found)
    words = {key: one.words[key] for one in scanned.found for key in ("architecture", "least", "suggested") if key in one.words}
    hybrid = any("hybrid linear attention" in line.text or "Mamba" in line.text for line in lines)
    return Log(
        NAME, version, name, settings, _binding(every), every, None, _gpus(settings, pools),
        _warnings(scanned.cut, pools, len(starts)),
        {"pools": tuple(pools), "bracket": bracket, "hybrid": hybrid, "told": bool(given),
         "refused": any("refused" in one.words or "least" in one.words for one in scanned.found), **words},
    )  # fmt: skip


def explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """Each pool beside ours, the budget where both readings of free memory are there, and what is left over."""
    return explain_log(log, model, gpu)


def _given(lines: Sequence[Line]) -> tuple[dict[str, Any], str | None]:
    """Settings as printed and as typed, and the model's name."""
    found: dict[str, Any] = {}
    name = None
    for command in commands(lines, _PROGRAM):
        flags = {key.replace("-", "_"): value for key, value in command.flags.items()}
        for key in (*_SETTINGS, *_SHORT):
            if key in flags:
                value = flags[key]
                found[_SHORT.get(key, key)] = plain_value(value) if isinstance(value, str) else value
        name = next((flags[key] for key in _MODEL if isinstance(flags.get(key), str)), name)
    for line in lines:
        if "server_args=" not in line.text and "ServerArgs(" not in line.text:
            continue
        text = line.text[line.text.find("erver") :]
        values = {key: value_of(text, key) for key in _SETTINGS}
        found |= {key: value for key, value in values.items() if value is not None}
        named = next((value for key in _MODEL if isinstance(value := value_of(text, key), str)), None)
        name = named or name
    return found, name if isinstance(name, str) else None


def _settings(given: Mapping[str, Any], pools: Sequence[Pools]) -> dict[str, Any]:
    """What the planner's Settings take of it, each on its own; the ranks' tags say how many there are where nothing else does."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = _LONG.get(key, key)
        try:
            sglang.Settings(**{name: value})
        except PlannerError:
            continue
        found[name] = value
    for tag, name in (("TP", "tensor_parallel_size"), ("PP", "pipeline_parallel_size")):
        count = max((ranks_of(rank.rank).get(tag, 0) for rank in pools), default=0) + 1
        if count > found.get(name, 1):
            found[name] = count
    return {key: value for key, value in found.items() if value is not None and value != "auto"}


def _gpus(settings: Mapping[str, Any], pools: Sequence[Pools]) -> int | None:
    count = int(settings.get("tensor_parallel_size", 1)) * int(settings.get("pipeline_parallel_size", 1))
    return max(count, len({rank.rank for rank in pools})) or None


def _version(found: Sequence[Found]) -> tuple[str | None, tuple[str, str]]:
    """No release is printed: those that print all of the log's shapes, as the first and the first that no longer does."""
    key = sglang_key
    since = max((one.shape.since for one in found if one.shape.since), key=key, default="")
    until = min((one.shape.until for one in found if one.shape.until), key=key, default="")
    return None, (since, until if not since or not until or key(until) > key(since) else "")


def sglang_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _others(found: Sequence[Found]) -> tuple[Figure, ...]:
    """Figures of no rank's pools: counts and settings that rank 0 prints, host pools, what a branch adds."""
    pooled = {"tokens", "k_bytes", "v_bytes", "latent_bytes"}
    rows = (
        (one, figures_of(one)) for one in found
        if not pooled & set(one.words) and one.shape.starts not in ("Memory pool end.", "Mamba Cache is allocated.")
        and not one.shape.starts.startswith("Load weight")
    )  # fmt: skip
    return tuple(figure for _, figures in rows for figure in figures.values())


def _binding(every: Sequence[Figure]) -> dict[str, Figure]:
    """By name the least of all ranks; of one rank's repeats the last."""
    ranks: dict[str, dict[str | None, Figure]] = {}
    for figure in every:
        ranks.setdefault(figure.name, {})[figure.rank] = figure
    return {name: min(found.values(), key=lambda figure: figure.value) for name, found in ranks.items()}


def _starts(lines: Sequence[Line]) -> list[Sequence[Line]]:
    """The starts of a paste: a new one begins with its arguments where a rank allocates that has done so before."""
    marks = [at for at, line in enumerate(lines) if "server_args=" in line.text]
    starts: list[Sequence[Line]] = []
    allocated: set[str | None] = set()
    for begin, end in itertools.pairwise([0, *marks[1:], len(lines)]):
        part = lines[begin:end]
        ranks = {line.rank for line in part if "is allocated" in line.text}
        if starts and not ranks & allocated:
            starts[-1] = [*starts[-1], *part]
            allocated |= ranks
        else:
            starts.append(part)
            allocated = ranks
    return starts


def _warnings(cut: Sequence[tuple[Any, Line]], pools: Sequence[Pools], starts: int) -> tuple[str, ...]:
    said = [f"{starts} starts stand in this paste; the last is read"] if starts > 1 else []
    said += [f"line {line.number} is cut: {line.text.strip()[:80]}" for row, line in cut if row.starts not in COMMON]
    said += [text for rank in pools for text in rank.warnings]
    return tuple(dict.fromkeys(said))
