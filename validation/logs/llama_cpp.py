"""llama.cpp's start-up logs: llama-server, llama-cli, the library's bindings, on any backend.

Everything is allocated at the start, and the log prints the file's metadata, so that each cache can be computed from the log
alone. Other files: `llama_cpp_shapes` (lines), `llama_cpp_read` (files, contexts, caches), `llama_cpp_model` (the printed model),
`llama_cpp_eras` (versions), `llama_cpp_compare` and `llama_cpp_reconcile` (beside ours), `llama_cpp_tables` (--fit).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from planner.hardware import Gpu
from planner.model import Model
from planner.units import GIB, MIB
from validation.logs.commands import Command, commands, whole
from validation.logs.lines import Line
from validation.logs.llama_cpp_compare import settings_of
from validation.logs.llama_cpp_explain import explain_files
from validation.logs.llama_cpp_read import Cache, Context, Loaded, Table, loads, tables
from validation.logs.llama_cpp_shapes import COMMON, SHAPES, figures_of
from validation.logs.log import Check, Figure, Log
from validation.logs.shapes import Found, scan

NAME: Final = "llama.cpp"
signs: Final[tuple[re.Pattern[str], ...]] = (
    re.compile(
        r"\b(?:llama_kv_cache\w*|llama_context|llama_init_from_model|llama_new_context_with_model|llama_memory_recurrent"
        r"|llama_model_loader|llm_load_print_meta|llm_load_tensors|print_info|load_tensors|sched_reserve|common_params_fit_impl|llama_params_fit_impl"
        r"|(?:common|llama)_memory_breakdown_print|ggml_(?:cuda|metal|vulkan)_\w+): "
    ),
    re.compile(r"KV buffer size = +[\d.]+ MiB|\d cells, +\d+ layers, +\d+(?:/\d+)? seqs\)|KV self size += +[\d.]+ MiB"),
)
_PROGRAM: Final = re.compile(r"(?:^|[\s/\\])(?:llama-(?:server|cli|bench|run|simple)|llama-box|llamafile)(?:\.exe)?(?= )")
#: Flags that say what a log may not: setting, the flag's spellings.
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "n_ctx": ("c", "ctx-size"), "n_batch": ("b", "batch-size"), "n_ubatch": ("ub", "ubatch-size"),
    "n_seq_max": ("np", "parallel"),
}  # fmt: skip


def read(lines: Sequence[Line]) -> Log:
    """What the log tells: figures of the main model's last context, settings as printed, and all that `explain` needs."""
    scanned = scan(lines, SHAPES)
    found = scanned.found
    files, breakdowns = loads(found), tables(found)
    command = next(commands(lines, _PROGRAM), None)
    given = _given(command)
    build = next((f"b{n}" for one in found if (n := whole(one.words.get("build"), least=100))), None)
    gpus = [one.words["gpu"].strip() for one in found if "gpu" in one.words]
    main = main_context(files)
    every = tuple(_figures(files, breakdowns, found))
    settings = {key: value for key, value in (settings_of(main, given) if main else given).items() if key != "draft"}
    if build:
        settings["version"] = build
    return Log(
        NAME, build, _name(files, command), settings, _binding(every), every, gpus[-1] if gpus else None, len(gpus) or None,
        _warnings(scanned.cut, files),
        {"files": tuple(files), "tables": tuple(breakdowns), "given": given, "version": build, **_singles(found)},
    )  # fmt: skip


def explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """Each cache beside ours: of the metadata that the log prints, else of `model`, else of models that have its figures."""
    return explain_files(log, model)


def _given(command: Command | None) -> dict[str, Any]:
    """What the command line says, under our names."""
    if command is None:
        return {}
    flags = command.flags
    found: dict[str, Any] = {}
    for setting, spellings in _FLAGS.items():
        value = next((n for flag in spellings if (n := whole(flags.get(flag)))), None)
        if value is not None:
            found[setting] = value
    for setting, spellings in (("cache_type_k", ("ctk", "cache-type-k")), ("cache_type_v", ("ctv", "cache-type-v"))):
        kind = next((flags[flag] for flag in spellings if isinstance(flags.get(flag), str)), None)
        if kind is not None:
            found[setting] = kind
    if "swa-full" in flags:
        found["swa_full"] = True
    if "kvu" in flags or "kv-unified" in flags:
        found["kv_unified"] = True
    draft = next((n for flag in ("spec-draft-n-max", "draft-max", "draft-n", "draft") if (n := whole(flags.get(flag)))), None)
    if draft is not None:
        found["draft"] = draft
    return found


def _name(files: Sequence[Loaded], command: Command | None) -> str | None:
    named = next((file.name for file in files if file.name), None)
    if named is None and command is not None:
        given = next((command.flags[flag] for flag in ("m", "model", "hf", "hf-repo") if flag in command.flags), None)
        named = given if isinstance(given, str) else None
    return named


def main_context(files: Sequence[Loaded]) -> Context | None:
    """The last context of the first file that has caches and is no dry run's: drafts come later, and are smaller."""
    for file in files:
        held = [context for context in file.contexts if context.caches]
        if held:
            real = [context for context in held if not all(cache.dry for cache in context.caches)]
            return max(real or held, key=_held_bytes)
    return next((context for file in files for context in file.contexts), None)


def _held_bytes(context: Context) -> float:
    return sum(cache.figures["size_bytes"].value for cache in context.caches)


def _figures(files: Sequence[Loaded], breakdowns: Sequence[Table], found: Sequence[Found]) -> Iterator[Figure]:
    """Every figure, named by what it is of: those of later contexts first, so that the main one's bind."""
    main = main_context(files)
    for file in reversed(files):
        yield from _sizes(file)
    for file in files:
        for context in file.contexts:
            if context is not main:
                yield from _named(context, "other ")
    for number, table in enumerate(breakdowns, 1):
        for device, row in table.devices.items():
            for name, figure in row.items():
                yield _as(figure, f"table {number} {device} {name}")
    for one in found:
        figures = figures_of(one)
        if not {"size_bytes", "buffer_bytes", "context_bytes", "kv_size"} & set(figures):
            where = f" {one.words['device']}" if "device" in one.words else ""
            yield from (_as(figures[name], name + where) for name in sorted(set(figures) - {"compute_bytes", "output_bytes"}))
    if main is not None:
        yield from _named(main, "")


def _sizes(file: Loaded) -> Iterator[Figure]:
    """What print_info says of the file: its size, and its parameters."""
    units = {"MiB": MIB, "GiB": GIB, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
    for word, name in (("file size", "file_bytes"), ("model size", "file_bytes"), ("model params", "model_params")):
        match = re.match(r"(\d{1,9}\.\d\d) ([KMBT]|[MG]iB)\b", file.words.get(word, ""))
        if match:
            scale = units[match[2]]
            yield Figure(name, round(float(match[1]) * scale), 0.005 * scale, f"{match[1]} {match[2]}", 0)


def _named(context: Context, before: str) -> Iterator[Figure]:
    for cache in context.caches:
        prefix = before + _prefix(cache)
        for name, figure in cache.figures.items():
            yield _as(figure, prefix + ("kv_bytes" if name == "size_bytes" and cache.kind == "kv" else name))
        yield from (_as(figure, f"{prefix}buffer_bytes {device}") for device, figure in cache.devices)
    for device, figure in context.compute.items():
        yield _as(figure, f"{before}compute_bytes {device}")
    for device, figure in context.output.items():
        yield _as(figure, f"{before}output_bytes {device}")
    for word, text in context.words.items():
        if text.isdecimal() and len(text) < 12:
            yield Figure(before + word, int(text), 0.0, text, 0)


def _prefix(cache: Cache) -> str:
    label = cache.label.lower().replace("-", "_").replace(" ", "_") or ("state" if cache.kind == "state" else "")
    return f"{label}_" if label else ""


def _as(figure: Figure, name: str) -> Figure:
    return Figure(name, figure.value, figure.slack, figure.text, figure.line, figure.rank)


def _binding(every: Sequence[Figure]) -> dict[str, Figure]:
    """The last of each name: later prints replace earlier ones."""
    return {figure.name: figure for figure in every}


def _singles(found: Sequence[Found]) -> dict[str, Any]:
    """Lines that stand alone: what a draft context takes, what fits, what could not be had."""
    wanted = ("fork_bytes", "spec_fixed_bytes", "n_ctx_asked", "n_ctx_fitted", "refused_bytes", "projected_bytes")
    return {name: figure for one in found for name, figure in figures_of(one).items() if name in wanted}


def _warnings(cut: Sequence[tuple[Any, Line]], files: Sequence[Loaded]) -> tuple[str, ...]:
    said = [f"line {line.number} is cut: {line.text.strip()[:80]}" for row, line in cut if row.starts not in COMMON]
    if any(cache.dry for file in files for context in file.contexts for cache in context.caches):
        said.append("caches with empty buffers are a dry run's: they were sized and not allocated")
    return tuple(dict.fromkeys(said))
