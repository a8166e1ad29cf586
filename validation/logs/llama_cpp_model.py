"""The model that a llama.cpp log prints: GGUF metadata from its dump of keys, and where that is cut or absent from `print_info`.

The dump cuts values beyond 40 characters, which are the lists that give something for each layer. print_info has those of heads
and feed-forward widths in full; a list of window flags is put together again from the widths of layers, or from its own period
where that gives the numbers of layers that the caches have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import model_configs
from planner.errors import PlannerError
from planner.model import Model
from validation.logs.llama_cpp_read import Loaded

#: print_info's names for GGUF's words.
WORDS: Final = {
    "n_ctx_train": "context_length", "n_embd": "embedding_length", "n_head": "attention.head_count",
    "n_head_kv": "attention.head_count_kv", "n_swa": "attention.sliding_window", "n_ff": "feed_forward_length",
    "n_embd_head_k": "attention.key_length", "n_embd_head_v": "attention.value_length",
    "n_embd_head_k_swa": "attention.key_length_swa", "n_embd_head_v_swa": "attention.value_length_swa",
    "n_embd_head_k_mla": "attention.key_length_mla", "n_embd_head_v_mla": "attention.value_length_mla",
    "n_lora_kv": "attention.kv_lora_rank", "n_layer_dense_lead": "leading_dense_block_count",
    "n_layer_nextn": "nextn_predict_layers", "ssm_d_conv": "ssm.conv_kernel", "ssm_d_inner": "ssm.inner_size",
    "ssm_d_state": "ssm.state_size", "ssm_dt_rank": "ssm.time_step_rank", "ssm_n_group": "ssm.group_count",
}  # fmt: skip
_PATTERN: Final = "attention.sliding_window_pattern"
_MOST_LAYERS: Final = 512


@dataclass(frozen=True)
class Printed:
    """A model as printed. cut: lists of the file that the log does not have in full, and that nothing else gives.
    partial: print_info alone is there, which leaves out patterns, indexers and some states.
    """

    model: Model | None
    cut: tuple[str, ...] = ()
    why: str = ""
    partial: bool = False


def printed_model(loaded: Loaded, windowed: int | None = None, whole: int | None = None) -> Printed:
    """The model of a file. windowed, whole: layers of the sliding and of the other cache, where the log has both."""
    arch = loaded.dumped.get("general.architecture", ("", loaded.words.get("arch", "")))[1].strip()
    if not re.fullmatch(r"[\w.-]{1,40}", arch):
        return Printed(None, why="the log has no architecture (print_info: arch)")
    metadata, cut = _dump(loaded)
    metadata["general.architecture"] = arch
    for word, key in WORDS.items():
        value = _value(loaded.words.get(word, ""))
        if value is not None and (f"{arch}.{key}" not in metadata):
            metadata[f"{arch}.{key}"] = value
            cut.discard(f"{arch}.{key}")
    _depth(metadata, loaded, arch)
    key = f"{arch}.{_PATTERN}"
    if key in cut:
        flags = _window_flags(loaded, _begun(loaded, key), windowed, whole)
        if flags is not None:
            metadata[key] = flags
            cut.discard(key)
    if not loaded.dumped and windowed and whole and len(set(loaded.words.get("n_embd_k_gqa", "[").split(","))) == 1:
        # Which layers slide is not printed; where all are as wide, how many is enough.
        metadata[key] = [True] * windowed + [False] * whole
    wanted = sorted(key for key in cut if key.startswith(f"{arch}.attention"))
    try:
        return Printed(model_configs.read(metadata), tuple(wanted), partial=not loaded.dumped)
    except PlannerError as error:
        return Printed(None, tuple(wanted), error.message)


def _dump(loaded: Loaded) -> tuple[dict[str, Any], set[str]]:
    """The dump's values, and the keys of lists that are cut."""
    found: dict[str, Any] = {}
    cut = set()
    for key, (kind, text) in loaded.dumped.items():
        value = _value(text) if kind != "str" else text
        if kind.startswith("arr"):
            if not isinstance(value, list):
                cut.add(key)
                continue
            if kind.startswith("arr[bool"):
                value = [bool(one) for one in value]
        if value is not None:
            found[key] = value
    return found, cut


def _value(text: str) -> Any:
    """A number, a truth value, or a list of them in full; None for anything else."""
    text = text.strip()
    if text.startswith("["):
        if not text.endswith("]"):
            return None
        values = [_value(part) for part in text[1:-1].split(",")]
        return values if len(values) <= _MOST_LAYERS and all(isinstance(v, int | float) for v in values) else None
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,18}\.\d{1,18}(?:e[+-]?\d{1,3})?", text) else None


def _depth(metadata: dict[str, Any], loaded: Loaded, arch: str) -> None:
    """block_count counts draft layers; n_layer of print_info does not where n_layer_all stands beside it."""
    trunk, every = (_value(loaded.words.get(word, "")) for word in ("n_layer", "n_layer_all"))
    if f"{arch}.block_count" not in metadata and (every or trunk):
        metadata[f"{arch}.block_count"] = every or trunk
    if isinstance(every, int) and isinstance(trunk, int) and every > trunk:
        metadata.setdefault(f"{arch}.nextn_predict_layers", every - trunk)


def _begun(loaded: Loaded, key: str) -> list[bool]:
    """The whole flags at the beginning of a list that is cut."""
    text = loaded.dumped[key][1]
    return [word == "true" for word in re.findall(r"\b(true|false)(?=,)", text)] or [
        word == "1" for word in re.findall(r"\b([01])(?=,)", text)
    ]


def _window_flags(loaded: Loaded, begun: Sequence[bool], windowed: int | None, whole: int | None) -> list[bool] | None:
    """Which layers slide: those of one width where there are two and the beginning tells which, else the beginning's period."""
    depth = _value(loaded.words.get("n_layer_all", "")) or _value(loaded.words.get("n_layer", ""))
    if not begun or not isinstance(depth, int) or depth > _MOST_LAYERS:
        return None
    for word in ("n_embd_k_gqa", "n_head_kv"):
        widths = _value(loaded.words.get(word, ""))
        if isinstance(widths, list) and len(set(widths)) == 2 and len(widths) == depth:
            flags = [width == widths[begun.index(True)] for width in widths] if True in begun else []
            if flags and flags[: len(begun)] == list(begun):
                return flags
    for period in range(1, len(begun) + 2):
        cycle = [*begun, False][:period] if period > len(begun) else list(begun[:period])
        flags = [cycle[i % period] for i in range(depth)]
        if flags[: len(begun)] == list(begun) and _fits(flags, windowed, whole):
            return flags
    return None


def _fits(flags: Sequence[bool], windowed: int | None, whole: int | None) -> bool:
    """Whether the flags give the numbers of layers that the caches have; layers that share a cache have none."""
    if windowed is None or whole is None:
        return False
    owned = flags[: windowed + whole]
    return sum(owned) == windowed and len(owned) - sum(owned) == whole

