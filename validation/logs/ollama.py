"""Ollama's start-up logs: its own lines, and those of llama.cpp, which it runs (before 0.6 and since 0.30) or estimates for.

Other files: `ollama_shapes` (lines), `ollama_rules` (its own engine and its estimates); what llama.cpp prints is read as in
`llama_cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from planner.engines.llama_cpp_table import architectures, cache_types
from planner.hardware import Gpu
from planner.model import Model
from planner.units import GIB, MIB
from validation.logs.commands import commands, whole
from validation.logs.lines import Line
from validation.logs.llama_cpp import read as read_llama_cpp
from validation.logs.llama_cpp_explain import explain_files
from validation.logs.log import Check, CheckLine, Figure, Log, check_of
from validation.logs.models import described
from validation.logs.ollama_rules import Own, estimate, own_engine
from validation.logs.ollama_shapes import Said, said

NAME: Final = "ollama"
#: The engine whose lines stand in its logs too, often more of them than its own.
RUNS: Final = "llama.cpp"
signs: Final[tuple[re.Pattern[str], ...]] = (
    re.compile(
        r"source=(?:routes|server|sched|types|ggml|device|runner|backend|memory|amd_linux|gpu|cuda\w*|llama_server)\.go:\d"
        r"|^(?:model weights|kv cache|compute graph|total memory|system memory|gpu memory|inference compute|loading model"
        r"|server config|vram-based default context|starting (?:runner|llama server|llama-server)|enabling flash attention"
        r"|offload|load)$|\bollama runner\b|Listening on \S+ \(version [\d.]+|\[GIN\]|msg=\"?(?:kv cache|model weights|offload)\b"
    ),
)
_PROGRAM: Final = re.compile(r"(?:ollama(?:\.exe)?\"? runner|ollama_llama_server|llama-server)(?:\.exe)?\"?(?= )")
_REQUEST: Final = re.compile(r"(\w{1,40}):((?:\[[^\]]{0,2000}\])|[^\s\[\]{}]{0,80})")
_VERSION: Final = re.compile(r"\(version (\d{1,3}\.\d{1,4}(?:\.\d{1,4})?[\w.-]{0,40})\)")
_ENVIRONMENT: Final = re.compile(r"(OLLAMA_[A-Z_]{1,40}):([^\s\]]{0,80})")


def read(lines: Sequence[Line]) -> Log:
    """What the log tells: the last print of each size, the settings of the load that was committed, the raw llama.cpp lines."""
    own = [one for line in lines if (one := said(line))]
    below = read_llama_cpp(lines)
    settings, version = _settings(own, lines), None
    for line in lines:
        if match := _VERSION.search(line.text):
            version = match[1]
    about = {key: one.pairs[key] for one in own for key in ("architecture", "name") if one.pairs.get(key) and not one.message}
    figures = [figure for one in own for figure in one.figures]
    every = (*below.all, *figures)
    gpu = next((one.pairs.get("description") for one in own if one.message == "inference compute"), None)
    model = about.get("name") or below.model or _path(own)
    return Log(
        NAME, version, model, settings, {**below.printed, **{figure.name: figure for figure in figures}}, every,
        gpu if gpu not in (None, "", "cpu") else below.gpu, None, below.warnings,
        {**below.other, "given": _given(settings), "version": None, "architecture": about.get("architecture"),
         "request": settings, "ollama": version},
    )  # fmt: skip


def _settings(own: Sequence[Said], lines: Sequence[Line]) -> dict[str, Any]:
    """n_ctx of all slots, slots, batch and type: of the committed load, else the runner's command, else the environment."""
    found: dict[str, Any] = {}
    for one in own:
        for name, value in _ENVIRONMENT.findall(one.pairs.get("env", "")) if "config" in one.message else ():
            if name == "OLLAMA_KV_CACHE_TYPE" and value in cache_types():
                found |= {"cache_type_k": value, "cache_type_v": value}
            elif name == "OLLAMA_NUM_PARALLEL" and whole(value):
                found["n_seq_max"] = int(value)
    for command in commands([line for line in lines if "--ctx-size" in line.text], _PROGRAM):
        found |= _of_command(command.flags)
    for one in own:
        cmd = one.pairs.get("cmd", "")
        if cmd:
            for command in commands([Line(cmd, one.line.number)], _PROGRAM):
                found |= _of_command(command.flags)
        request = dict(_REQUEST.findall(one.pairs.get("request", "")))
        if request.get("Operation") == "commit":
            numbers = {"n_ctx": "KvSize", "n_seq_max": "Parallel", "n_ubatch": "BatchSize"}
            found |= {name: n for name, key in numbers.items() if (n := whole(request.get(key)))}
            kind = request.get("KvCacheType") or "f16"
            found |= {"cache_type_k": kind, "cache_type_v": kind}
            if request.get("FlashAttention", "").lower() in ("enabled", "true", "disabled", "false"):
                found["flash_attn"] = "on" if request["FlashAttention"].lower() in ("enabled", "true") else "off"
    return found


def _of_command(flags: Mapping[str, str | bool]) -> dict[str, Any]:
    spellings = {
        "n_ctx": ("ctx-size", "c"), "n_seq_max": ("parallel", "np"), "n_ubatch": ("ubatch-size", "ub", "batch-size", "b"),
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, names in spellings.items():
        value = next((n for flag in names if (n := whole(flags.get(flag)))), None)
        if value:
            found[name] = value
    for name, flag in (("cache_type_k", "cache-type-k"), ("cache_type_v", "cache-type-v")):
        kind = flags.get(flag) or flags.get("kv-cache-type")
        if isinstance(kind, str):
            found[name] = kind
    return found


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "flash_attn"}


def _path(own: Sequence[Said]) -> str | None:
    return next((one.pairs["model"] for one in own if one.pairs.get("model") and "/" not in one.pairs["model"]), None)


def explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """The raw llama.cpp contexts beside ours, then the sizes that Ollama itself prints."""
    below = explain_files(log, model)
    lines: list[CheckLine] = list(below.lines)
    rules, missing, advice = list(below.rules), list(below.missing), list(below.advice)
    candidates, said_so = _models(log, model)
    rules += said_so
    if candidates:
        lines += _own_lines(log, candidates[0])
    elif _cache(log) is not None and not below.lines:
        missing.append("--model: Ollama's own lines do not have the model's dimensions")
    lines += _total(log)
    rules += _context(log)
    advice += _advice(log, candidates[0] if candidates else None)
    return check_of(lines, missing, advice, rules)


def _cache(log: Log) -> Figure | None:
    """The cache of all devices, as the engine of its own prints it."""
    figures = [figure for name, figure in log.printed.items() if name.startswith("kv_bytes") and not log.other.get("files")]
    if not figures:
        figures = [figure for name, figure in log.printed.items() if name.startswith("kv_bytes ")]
    if not figures:
        return None
    text = " + ".join(figure.text for figure in figures)
    return Figure("kv_bytes", sum(f.value for f in figures), sum(f.slack for f in figures), text, figures[0].line)


def _models(log: Log, model: Model | None) -> tuple[list[Model], list[str]]:
    """The caller's model; else those of the catalogue with the log's architecture, layers and cache."""
    if model is not None:
        return [model], []
    layers = log.printed.get("layers_offloadable")
    arch, printed = log.other.get("architecture"), _cache(log)
    if layers is None or arch is None or printed is None:
        return [], []
    fitting = [
        one for one in described(int(layers.value) - 1)
        if architectures().of(one) == arch and len(one.layers_for("llama.cpp")) == int(layers.value) - 1
        and (own := _own(log, one)) is not None and _agrees(printed, own.bytes)
    ]  # fmt: skip
    if not fitting:
        return [], []
    names = " and of ".join(dict.fromkeys(one.name for one in fitting[:3]))
    return fitting[:1], [f"inferred: architecture {arch}, {int(layers.value) - 1} layers and the cache are those of {names}"]


def _own(log: Log, model: Model) -> Own | None:
    request = log.other["request"]
    kind = request.get("cache_type_k", "f16")
    if "n_ctx" not in request or kind not in cache_types():
        return None
    return own_engine(model, request["n_ctx"], request.get("n_seq_max", 1), request.get("n_ubatch", 512), kind)


def _agrees(printed: Figure, ours: int) -> bool:
    return abs(printed.value - ours) <= printed.slack + 1


def _own_lines(log: Log, model: Model) -> Iterator[CheckLine]:
    """The cache of Ollama's own engine, and its estimate before loading."""
    printed, own = _cache(log), _own(log, model)
    if printed is not None and own is not None and not log.other.get("files"):
        rule = f"Ollama's own engine: {own.rule}; n_ctx {log.other['request']['n_ctx']:,} is of all slots together"
        yield CheckLine("kv_bytes", printed.value, own.bytes, _agrees(printed, own.bytes), rule, printed.text)
    before = log.printed.get("estimated_kv_bytes")
    request = log.other["request"]
    if before is not None and "n_ctx" in request:
        kind = request.get("cache_type_k", "f16")
        ours = estimate(model, request["n_ctx"], request.get("n_seq_max", 1), request.get("n_ubatch", 512), kind)
        agrees = abs(before.value - ours.bytes) <= before.slack + 1
        yield CheckLine("estimated_kv_bytes", before.value, ours.bytes, agrees, f"memory.required.kv: {ours.rule}", before.text)
    layers = log.printed.get("layers_offloadable")
    if layers is not None:
        ours_layers = len(model.layers_for("llama.cpp")) + 1
        rule = f"{ours_layers - 1} layers and the output layer, counted as one"
        yield CheckLine("layers_offloadable", int(layers.value), ours_layers, layers.value == ours_layers, rule, layers.text)


def _total(log: Log) -> Iterator[CheckLine]:
    """total memory = weights + cache + graph of all devices, each printed with one decimal."""
    total = log.printed.get("total_bytes")
    if total is None:
        return
    parts = [
        figure for name, figure in log.printed.items()
        if name.partition(" ")[0] in ("model_buffer_bytes", "kv_bytes", "compute_bytes") and figure.text.endswith("B")
    ]  # fmt: skip
    if len(parts) < 2:
        return
    ours, slack = sum(int(part.value) for part in parts), total.slack + sum(part.slack for part in parts)
    rule = f"total = weights + cache + graph = {' + '.join(part.text for part in parts)}, rounded parts of one decimal"
    yield CheckLine("total_bytes", total.value, ours, abs(total.value - ours) <= slack + MIB, rule, total.text)


def _context(log: Log) -> Iterator[str]:
    """Where the context came from, and what the log's words mean."""
    default, memory = log.printed.get("default_num_ctx"), log.printed.get("gpu_total_bytes")
    request = log.other["request"]
    if default is not None and memory is not None:
        yield (
            f"num_ctx {int(default.value):,} is the default for {memory.value / GIB:,.1f} GiB of GPU memory: 262,144 from 47 GiB,"
            " 32,768 from 23 GiB, else 4,096"
        )
    if request.get("n_seq_max", 1) > 1 and "n_ctx" in request:
        slots = request["n_seq_max"]
        yield f"the context of {request['n_ctx']:,} is for {slots} slots together, {request['n_ctx'] // slots:,} each"
    if _cache(log) is not None:
        yield "of the load requests only commit counts; fit and alloc are tries. An empty KvCacheType is f16"
    if log.printed.get("estimated_kv_bytes") is not None:
        yield "memory.required figures are estimates before loading, not what was allocated"


def _advice(log: Log, model: Model | None) -> Iterator[str]:
    request = log.other["request"]
    if model is None or "n_ctx" not in request or _cache(log) is None:
        return
    if request.get("cache_type_k", "f16") == "f16" and (now := _own(log, model)):
        less = now.bytes - own_engine(
            model, request["n_ctx"], request.get("n_seq_max", 1), request.get("n_ubatch", 512), "q8_0"
        ).bytes  # fmt: skip
        yield f"OLLAMA_KV_CACHE_TYPE=q8_0 with OLLAMA_FLASH_ATTENTION=1 takes {less / MIB:,.0f} MiB less"
    yield "OLLAMA_CONTEXT_LENGTH and OLLAMA_NUM_PARALLEL set the context of a slot and the slots"
