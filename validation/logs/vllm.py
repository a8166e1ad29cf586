"""vLLM's start-up logs, of engine V0 and V1: what they print about memory, and what they were started with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from planner.hardware import Gpu
from planner.model import Model
from validation.logs.lines import Line
from validation.logs.log import Check, Figure, Log
from validation.logs.shapes import Found, scan
from validation.logs.vllm_explain import explain_log
from validation.logs.vllm_gpu import gpu_name, gpus_seen, ranks_seen
from validation.logs.vllm_release import Release, release_of
from validation.logs.vllm_shapes import REFUSALS, SHAPES
from validation.logs.vllm_starts import starts
from validation.logs.vllm_words import Words, checked, words_of

NAME: Final = "vllm"
signs: Final[tuple[re.Pattern[str], ...]] = (
    re.compile(r"[A-Z+]{3,12} KV cache size: [\d,]{1,20}|# ?(?:GPU|cuda|hpu|xpu|npu) blocks: \d|Available KV cache memory: -?\d"),
    re.compile(r"KV cache is needed, which is larger than|No available memory for the cache blocks|can be stored in KV cache \("),
    re.compile(r"\bvllm (?:serve|\d)|vllm[./]|vLLM API server|LLM engine (?:\(v\d|with config)|PyTorch activation peak memory"),
    re.compile(r"Maximum concurrency for [\d,]{1,12} tokens|gpu_memory_utilization|num_gpu_blocks|--gpu-memory-utilization"),
)  # fmt: skip
#: Figures of which every worker or engine prints its own; the least binds.
_LEAST: Final = {"available_kv_bytes", "gpu_kv_cache_tokens", "num_gpu_blocks", "max_concurrency"}
_RETYPED: Final = re.compile(r"\d,\d{1,2} ?Gi?B")
#: Lines that workers print at one time are no further apart.
_TOGETHER: Final = 6
#: An override of this many blocks in place of none is a step of the graphs' profiling.
_PROFILING_BLOCKS: Final = 512


def read(lines: Sequence[Line]) -> Log:
    """What the last start of the paste that printed figures tells; figures that only an earlier start printed, from there."""
    runs = starts(lines)
    scans = [scan(run, SHAPES) for run in runs]
    with_pool = [i for i, each in enumerate(scans) if any(_binding(found) for found in each.found)]
    at = with_pool[-1] if with_pool else len(runs) - 1
    words, release = words_of(runs[at]), release_of(runs[at], scans[at].found)
    warnings = []
    if at and not words.settings and not words.other:  # a restart in one container says its settings once
        words = words_of([line for run in runs[:at] for line in run])
        release = release if release.version else release_of([line for run in runs[: at + 1] for line in run], scans[at].found)
        warnings += ["the settings are those of an earlier start in the paste"] if words.settings or words.other else []
    figures = _figures(scans[at].found)
    settings, dropped = _settings(words, release, figures, runs[at])
    printed = _printed(figures)
    own = frozenset(printed)
    warnings += [f"{name}: the log's value is none that vLLM {release.version or ''} has; it is left out" for name in dropped]
    for shape, line in scans[at].cut:
        retyped = _RETYPED.search(line.text)
        why = "has a decimal comma, which vLLM does not print: type it as it was" if retyped else "is cut"
        if retyped or _has_digits(line, shape.starts):
            warnings.append(f"line {line.number}: '{shape.starts} …' {why}")
    everything = [_figures(each.found) for each in scans]
    if (count := sum(map(bool, everything))) > 1:
        warnings.append(f"the paste has {count} starts; the one from line {runs[at][0].number} on is compared")
        for earlier in reversed(everything[:at]):
            for name, figure in _printed(earlier).items():
                if name not in printed and not name.startswith(("refused_", "num_gpu_blocks_")):
                    printed[name] = figure
                    warnings.append(f"{name} is from another start (line {figure.line})")
    model = words.other.get("model")
    return Log(
        NAME, release.version, model, settings, printed, tuple(figure for each in everything for figure in each),
        gpu_name(lines), gpus_seen(lines, runs[at]), tuple(dict.fromkeys(warnings)),
        {**_other(words, release, scans[at].found, runs[at]), "own": own},
    )  # fmt: skip


def explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """The log's figures beside ours; see vllm_explain.py."""
    return explain_log(log, model, gpu)


def _binding(found: Found) -> bool:
    return bool(_LEAST & set(found.words)) or found.shape in REFUSALS


def _has_digits(line: Line, start: str) -> bool:
    """Whether figures follow; a traceback shows the source of a message, with none."""
    return bool(re.search(r"\d", line.text[line.text.find(start) + len(start) :])) and "{" not in line.text


def _figures(found: Iterable[Found]) -> list[Figure]:
    """Every figure in the order of the lines, without the words that are only signs."""
    figures = []
    for each in found:
        if each.words.get("num_gpu_blocks_profiled") == "0" and int(each.words["num_gpu_blocks_override"]) <= _PROFILING_BLOCKS:
            continue
        figures += [each.figure(name) for name, word in each.words.items() if word]
    return figures


def _printed(figures: Sequence[Figure]) -> dict[str, Figure]:
    """The figure of each name that binds: the last, or of those that each worker prints the least of the last ones.

    Data-parallel engines keep pools of their own: the figures are those of the engine with the fewest tokens.
    """
    engines = {engine for figure in figures if figure.name == "gpu_kv_cache_tokens" and (engine := _replica(figure))}
    if len(engines) > 1:
        sizes = {
            engine: min(f.value for f in figures if f.name == "gpu_kv_cache_tokens" and _replica(f) == engine)
            for engine in engines
        }  # fmt: skip
        least = min(sorted(engines), key=lambda engine: sizes[engine])
        figures = [figure for figure in figures if _replica(figure) in (None, least)]
    by_name: dict[str, list[Figure]] = {}
    for figure in figures:
        by_name.setdefault(figure.name, []).append(figure)
    found = {}
    for name, values in by_name.items():
        last = {figure.rank: figure for figure in values}
        # Releases before 0.11 print one line for each worker, without a tag, before the least is taken.
        together = [figure for figure in values if values[-1].line - figure.line <= _TOGETHER and figure.rank == values[-1].rank]
        found[name] = min((*last.values(), *together), key=lambda figure: figure.value) if name in _LEAST else values[-1]
    return found


def _replica(figure: Figure) -> str | None:
    match = re.search(r"DP\d+", figure.rank or "")
    return match[0] if match else None


def _settings(
    words: Words, release: Release, figures: Sequence[Figure], lines: Sequence[Line]
) -> tuple[dict[str, Any], list[str]]:
    """The settings of planner.engine("vllm").Settings that the log tells, and what was dropped of them."""
    given = dict(words.settings)
    values = {figure.name: figure.value for figure in figures}
    length = values.get("refused_max_model_len") or values.get("max_model_len") or values.get("concurrency_tokens")
    if length:
        given["max_model_len"] = int(length)
    if "gpu_memory_utilization" in values:
        given.setdefault("gpu_memory_utilization", float(values["gpu_memory_utilization"]))
    if "num_gpu_blocks_override" in values:
        given["num_gpu_blocks_override"] = int(values["num_gpu_blocks_override"])
    if "context_parallel" in values:
        given.setdefault("decode_context_parallel_size", int(values["context_parallel"]))
    for line in lines:
        if match := re.search(r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,9})", line.text):
            given.setdefault("max_num_batched_tokens", int(match[1]))
        if match := re.search(r"Using max model len (\d{1,9})", line.text):
            given.setdefault("max_model_len", int(match[1]))
        if match := re.search(r"Asynchronous scheduling is (enabled|disabled)", line.text):
            given.setdefault("async_scheduling", match[1] == "enabled")
        if match := re.search(r"Using (\w{2,24}) data type to store kv cache", line.text):
            given.setdefault("kv_cache_dtype", match[1])
    if method := _drafts(words):
        given["speculative_config"] = method
    settings, dropped = checked(given)
    if release.version:
        settings["version"] = release.candidates[0]
    return settings, dropped


def _drafts(words: Words) -> dict[str, Any] | None:
    """The draft where it needs no model of its own; others are left to `other`, because their caches are another model's."""
    method, count = words.speculative.get("method", ""), words.speculative.get("num_speculative_tokens", "")
    known = {"mtp": "mtp", "ngram": "ngram", "suffix": "suffix"}
    name = next((kind for word, kind in known.items() if word in method), None)
    return {"method": name, "num_speculative_tokens": int(count)} if name and count.isdigit() and int(count) else None


def _other(words: Words, release: Release, found: Sequence[Found], lines: Sequence[Line]) -> Mapping[str, Any]:
    """What the comparison needs besides settings and figures."""
    ranks = ranks_seen(lines)
    signs_of = {name for each in found for name in each.words if name in ("no_memory", "no_room")}
    tokens = [each for each in found if "gpu_kv_cache_tokens" in each.words]
    return {
        **words.other,
        "release": release,
        "ranks": ranks,
        "speculative": dict(words.speculative),
        "cut": tuple(words.cut),
        "refused": tuple(sorted(signs_of)),
        "refused_by": tuple(each.shape.starts for each in found if each.shape in REFUSALS or "no_room" in each.words),
        "available_printed_by": len({each.line.rank for each in found if "available_kv_bytes" in each.words}),
        "tokens_printed": tuple(dict.fromkeys(each.words["gpu_kv_cache_tokens"] for each in tokens)),
    }
