"""The settings in vLLM's start-up text: its configuration line, its arguments, and the command that started it.

Both are printed objects of several thousand characters that pastes cut anywhere, so they are read pair by pair and never
evaluated; a value that stands at the very end may be cut and is not taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from planner.engines.vllm import Settings
from planner.errors import InputError
from validation.logs.lines import Line

_CONFIG: Final = re.compile(r"(?:LLM engine \(v?[^)]{0,80}\)|LLM engine) with config:|Initializing .{0,40}config:")
_ARGUMENTS: Final = re.compile(r"non-default args:|\bargs: ?Namespace\(|EngineArgs\(|\bLLM\(")
_PAIR: Final = re.compile(
    r"['\"]?(?<![\w.])([a-z][a-z_]{2,40})['\"]?\s?[=:]\s?('(?:[^'\\]|\\.){0,2000}'|\"(?:[^\"\\]|\\.){0,2000}\"|[\w.+-]{1,60})(?=([,)\]}\s]|$))"
)
_SPECULATIVE: Final = re.compile(r"speculative_config['\"]?\s?[=:]\s?'?(\{[^{}]{0,3000}\}?|SpeculativeConfig\([^()]{0,3000}\)?)")
_FLAG: Final = re.compile(
    r"(?:^|\s|[\"'\[,])--?([a-z][a-z-]{1,40})(?:[= ][\"']?|[\"'],?\s{0,4}[\"']?)(\{.{0,400}?\}|[\w./:~-]{1,200})"
)
_SWITCH: Final = re.compile(r"(?:^|\s|[\"'\[,])--((?:no-)?[a-z][a-z-]{1,40})(?=$|\s|[\"',\]\\])")
_SERVE: Final = re.compile(r"\bvllm serve (?!-)[\"']?([\w./:~-]{2,200})")
#: Where a name in the text is another one in the settings.
_ALIASES: Final[Mapping[str, str]] = {
    "max_seq_len": "max_model_len", "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size", "kv_cache_memory": "kv_cache_memory_bytes", "cache_dtype": "kv_cache_dtype",
    "num_spec_tokens": "num_speculative_tokens",
}  # fmt: skip
_PREFIXED: Final = {"torch.bfloat16": "bfloat16", "torch.float16": "float16", "torch.float32": "float32"}
#: A terminal breaks a configuration of some thousand characters into so many lines at most.
_MOST_PIECES: Final = 100
_K: Final = {"k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}


def _whole(text: str) -> int | None:
    match = re.fullmatch(r"(-?\d{1,15})([kKmM]?)", text.replace(",", "").replace("_", ""))
    return int(match[1]) * _K.get(match[2], 1) if match else None


def _share(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[01](?:\.\d{1,6})?|\.\d{1,6}", text) and 0 < float(text) <= 1 else None


def _switch(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _word(text: str) -> str | None:
    plain = _PREFIXED.get(text, text)
    return plain if re.fullmatch(r"[\w.-]{1,40}", plain) and plain != "None" else None


#: The settings that are read, and how their text is.
KINDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "dtype": _word, "kv_cache_dtype": _word, "tensor_parallel_size": _whole, "pipeline_parallel_size": _whole,
    "decode_context_parallel_size": _whole, "data_parallel_size": _whole, "block_size": _whole, "max_model_len": _whole,
    "max_num_batched_tokens": _whole, "max_num_seqs": _whole, "async_scheduling": _switch, "enable_prefix_caching": _switch,
    "disable_hybrid_kv_cache_manager": _switch, "num_gpu_blocks_override": _whole, "kv_cache_memory_bytes": _whole,
    "mamba_cache_dtype": _word, "mamba_ssm_cache_dtype": _word, "gpu_memory_utilization": _share, "language_model_only": _switch,
}  # fmt: skip
#: Words that are no settings of the planner but that the comparison needs.
OTHER: Final[Mapping[str, Callable[[str], Any]]] = {
    "model": lambda text: text or None, "quantization": _word, "swap_space": lambda text: text if _number(text) else None,
    "enforce_eager": _switch, "enable_chunked_prefill": _switch, "load_format": _word, "cpu_offload_gb": _word,
}  # fmt: skip


def _number(text: str) -> bool:
    return re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", text) is not None


@dataclass
class Words:
    """What was found. speculative: the pairs of the speculative configuration, or what is left of it. cut: names of settings
    whose value the paste cuts off, as far as they are printed.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)
    speculative: dict[str, str] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        """The first value of a name counts; what does not read as one is left out."""
        name = _ALIASES.get(name, name)
        for kinds, found in ((KINDS, self.settings), (OTHER, self.other)):
            if name in kinds and name not in found:
                value = kinds[name](text.strip("'\""))
                if value is not None:
                    found[name] = value


def words_of(lines: Sequence[Line]) -> Words:
    """Settings of one start. The engine's configuration wins over its arguments, and those over a command line."""
    found = Words()
    for pattern in (_CONFIG, _ARGUMENTS):
        at = [(i, match.end()) for i, line in enumerate(lines) if (match := pattern.search(line.text))]
        if at:
            _read_object(_whole_object(lines, *at[-1]), found)
    for line, after in zip(lines, [*lines[1:], None], strict=True):
        if "-" in line.text and (not line.headed or "vllm serve" in line.text or "api_server" in line.text[:400]):
            # In a compose file a flag's value stands on the next line.
            more = after.text if after and not after.headed and not after.text.lstrip().startswith("--") else ""
            _read_flags(line.text.rstrip("\\ ") + (f" {more.strip()}" if len(more) < 100 else ""), found)
    return found


def _whole_object(lines: Sequence[Line], i: int, start: int) -> str:
    """The printed object that begins in line i, with the lines that a terminal broke it into."""
    pieces = [lines[i].text[start:]]
    for line in lines[i + 1 : i + 1 + _MOST_PIECES]:
        if line.headed:
            break
        pieces.append(line.text)
    return "".join(pieces)


def _read_object(text: str, found: Words) -> None:
    drafts = _SPECULATIVE.search(text)
    if drafts:
        for name, value, end in _PAIR.findall(drafts[1]):
            if end or value[0] in "'\"":
                found.speculative.setdefault(_ALIASES.get(name, name), value.strip("'\""))
        text = text[: drafts.start()] + text[drafts.end() :]
    for name, value, end in _PAIR.findall(text):
        if end or value[0] in "'\"":
            found.add(name, value)
    if tail := re.search(r"['\"]?([a-z][a-z_]{2,60})(?:['\"]?\s?[=:]?\s?[\w.'\"{(]{0,60})?$", text[-200:]):
        found.cut.append(tail[1])


def _read_flags(text: str, found: Words) -> None:
    if served := _SERVE.search(text):
        found.add("model", served[1])
    for flag, value in _FLAG.findall(text):
        name = flag.replace("-", "_")
        if name == "speculative_config":
            found.speculative = found.speculative or _json_pairs(value)
        elif not value.startswith("-"):
            found.add(name, value)
    for switch in _SWITCH.findall(text):
        name = switch.removeprefix("no-").replace("-", "_")
        if {**KINDS, **OTHER}.get(name) is _switch:
            found.add(name, "false" if switch.startswith("no-") else "true")


def _json_pairs(text: str) -> dict[str, str]:
    try:
        data = json.loads(text.replace("'", '"'))
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(value) for name, value in data.items()} if isinstance(data, dict) else {}


def checked(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The settings that vLLM's own have, and the names of those that cannot be: a number that a paste cut or a fork's word."""
    kept, dropped = dict(settings), list[str]()
    while True:
        try:
            Settings(**kept)
        except InputError as error:
            name = str(error.fields.get("field", "")).partition(".")[0]
            if name not in kept:
                return {}, [*dropped, *kept]
            dropped.append(name)
            del kept[name]
        else:
            return kept, dropped
