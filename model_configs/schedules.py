"""Which layer word each layer has: from the file's own list, else the pattern that the model's class fills in.

A row's `schedule` says the pattern, for layer i of n:
  all           the same word everywhere
  cycle         words repeated from layer 0; cycle_word: the same, from a list in the file
  every         `word` (full_attention) once in so many layers, at i % every == `at` (default the last of each group;
                from_end counts from the last layer), else `other` (sliding_attention); `default` where the file is silent
  at_indices    full attention at the layers that a list names, else `other`; `none`: the word of all when it names none
  from, before  layers from (before) the number under a word slide, the others are full
  flags         a list of 0 and 1, `one` and `zero` say which word; missing or empty, every `period`-th layer is 0
  code          a function of this module
  fixed         the word of single layers, by number (-1: the last)
  switch        a flag that turns windows off unless it is true
Without any schedule all layers slide if the config has a window, are chunked if it has a chunk size, and else are full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model_configs.families import Family
from model_configs.words import Words, layer_numbers
from planner.errors import ConfigError, shown

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
_SLIDES = {SLIDING, "local_attention"}


def pick(words: Words, spec: Any) -> Any:
    """The value that a row's field names: the first word that is not null, one that the file gives before a class's
    default; a dotted word looks inside; a number is itself, for when no word is there."""
    default = None
    for item in spec if isinstance(spec, list | tuple) else (spec,):
        value = _inside(words, item) if isinstance(item, str) else item
        if value is not None and isinstance(item, str) and words.says(item.split(".")[0]):
            return value
        default = value if default is None else default
    return default


def _inside(words: Words, item: str) -> Any:
    name, *path = item.split(".")
    value = words.get(name)
    for step in path:
        if value is None:
            return None
        if isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, dict) and not step.isdigit():
            value = value.get(step)
        else:
            kind = "a list" if step.isdigit() else "an object"
            raise ConfigError(f"{name} is {shown(value)} in the config; it must be {kind}", field=name, value=value)
    return value


def word_of(spec: Any, words: Words | None = None) -> str:
    """The word that a message names for a row's field: the one that the file gives, else the first."""
    spec = spec.get("words", "?") if isinstance(spec, Mapping) else spec
    names = [str(name) for name in (spec if isinstance(spec, list | tuple) else (spec,))]
    return next((name for name in names if words is not None and words.says(name.split(".")[0])), names[0])


def window_of(family: Family, words: Words) -> int | None:
    """The window of the layers that slide, the current token included; None where the config has none."""
    if family.schedule.get("switch") and not words.flag(family.schedule["switch"]):
        return None
    spec = family.window if isinstance(family.window, dict) else {"words": family.window}
    own = spec.get("own")
    if own and words.says(own) and words.get(own) is not None:
        spec = {"words": [own]}
    value = pick(words, spec["words"])
    plus: int
    divide: int
    plus, divide = spec.get("plus", 0), spec.get("divide", 1)
    if value is None:
        value, plus, divide = pick(words, spec.get("else")), 0, 1
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        name = word_of(spec["words"], words)
        raise ConfigError(f"{name} is {shown(value)}; it must be a whole number or null", field=name)
    window: int = value // divide + plus
    if spec.get("halve_if") and (words.get(spec["halve_if"]) == "all" or words.flag(spec["halve_if"], "all", "vision")):
        return window // 2 + 1
    return window


def layer_words(family: Family, words: Words, depth: int | None, window: int | None) -> list[str]:
    """The word of each layer. `depth` is None for a family whose list of layers is its depth.

    ConfigError when the file's list is shorter than the model is deep.
    """
    given = next((words.numbers(key) for key in family.lists if words.given.get(key) is not None), None)
    found = _given(family, words, given, depth) if given is not None else None
    if found is None:
        found = _pattern(family, words, depth, window)
    if family.force_last and found:
        found[-1] = family.force_last
    return found


def _given(family: Family, words: Words, given: list[Any], depth: int | None) -> list[str] | None:
    if not all(isinstance(word, str) for word in given):
        raise ConfigError(f"the list of layer kinds has entries that are not words: {shown(given)}", field=family.lists[0])
    if depth is None or len(given) == depth:
        return given
    if len(given) < depth:
        raise ConfigError(
            f"the list of layer kinds names {len(given)} layers but the model has {depth}", field=family.lists[0]
        )
    return given[:depth]  # draft (MTP) layers are listed after the model's own


def _pattern(family: Family, words: Words, depth: int | None, window: int | None) -> list[str]:
    schedule = family.schedule
    if "code" in schedule:
        return CODE[schedule["code"]](words, depth)
    if depth is None:
        raise ConfigError(f"the config has no list of layers; it needs {family.lists[0]}", field=family.lists[0])
    if not schedule or set(schedule) == {"switch"}:
        chunk = words.get("attention_chunk_size")
        return [SLIDING if window else CHUNKED if chunk else FULL] * depth
    found = _fill(family, words, depth)
    for position, word in schedule.get("fixed", {}).items():
        if -depth <= position < depth:
            found[position] = word
    # A layer that would slide is full where the config has no window: what the class does, and never too low.
    return [FULL if word in _SLIDES and not window else word for word in found]


def _fill(family: Family, words: Words, depth: int) -> list[str]:
    schedule, layers = family.schedule, range(depth)
    word, other = schedule.get("word", FULL), schedule.get("other", SLIDING)
    if "flags" in schedule:
        flags = words.flags(schedule["flags"], depth)
        if flags is None:
            interval = words.number(schedule["period"])
            flags = [(i + 1) % interval != 0 for i in layers]
        return [schedule["one"] if flag else schedule["zero"] for flag in flags]
    if "at_indices" in schedule:
        indices = words.indices(schedule["at_indices"], depth)
        if indices is None and "none" in schedule:
            return [schedule["none"]] * depth
        return [word if i in (indices or ()) else other for i in layers]
    if "from" in schedule or "before" in schedule:
        border = words.number(schedule.get("from") or schedule["before"], minimum=0)
        cycle = schedule.get("cycle", [other])
        slides = [i >= border if "from" in schedule else i < border for i in layers]
        return [cycle[i % len(cycle)] if slides[i] else word for i in layers]
    if "every" in schedule:
        default = schedule.get("default")
        default = default.get(words.model_type) if isinstance(default, dict) else default
        period: Any = pick(words, schedule["every"]) or default
        if isinstance(period, str) and period and set(period) <= {"L", "G"}:  # "LLLG": spelled out, G for global
            return [word if period[i % len(period)] == "G" else other for i in layers]
        if isinstance(period, bool) or not isinstance(period, int) or period < 1:
            name = word_of(schedule["every"], words)
            raise ConfigError(f"{name} is {shown(period)}; the period of a layer pattern must be a whole number", field=name)
        at: Any = pick(words, schedule["at"]) if "at" in schedule else period - 1
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < period:
            name = word_of(schedule["at"], words)
            raise ConfigError(f"{name} is {shown(at)}; in a period of {period} it must be from 0 to {period - 1}", field=name)
        if schedule.get("from_end"):
            return [word if (depth - 1 - i) % period == 0 else other for i in layers]
        return [word if i % period == at else other for i in layers]
    cycle = words.numbers(schedule["cycle_word"]) if "cycle_word" in schedule else schedule.get("cycle", [schedule.get("all")])
    if not cycle or not all(isinstance(word, str) for word in cycle):
        raise ConfigError(f"{schedule['cycle_word']} must name the blocks in words", field=schedule["cycle_word"])
    return [cycle[i % len(cycle)] for i in layers]


def _cohere2_moe(words: Words, depth: int | None) -> list[str]:
    """The MoE layers follow sliding_window_pattern; the first dense ones have a pattern of their own (1: all full)."""
    dense = words.number("first_k_dense_replace", minimum=0, default=0)
    first = words.number("prefix_dense_sliding_window_pattern", default=1)
    period = words.number("sliding_window_pattern", default=4)
    return [FULL if (i + 1) % (first if i < dense else period) == 0 else SLIDING for i in range(depth or 0)]


def _sparse_attention_freq(words: Words, depth: int | None) -> list[str]:
    flags = pick(words, "sparse_attention_config.sparse_attention_freq")
    if flags is None:
        return [FULL] * (depth or 0)
    given = Words(words.model_type, {"sparse_attention_freq": flags}).flags("sparse_attention_freq", depth or 0) or []
    return ["minimax_m3_sparse" if flag else FULL for flag in given]


def _compress_ratios(words: Words, depth: int | None) -> list[str]:
    """DeepSeek-V4: 0 slides only, 4 is compressed sparse, 128 heavily compressed; default HCA, HCA, then HCA / CSA."""
    names = {0: SLIDING, 1: SLIDING, 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    ratios = words.numbers("compress_ratios")
    if ratios is None:
        ratios = [128 if i < 2 or i % 2 == 0 else 4 for i in range(depth or 0)]
    if not all(isinstance(ratio, int) and ratio in names for ratio in ratios) or len(ratios) < (depth or 0):
        raise ConfigError(f"compress_ratios must give 0, 4 or 128 for each of {depth} layers", field="compress_ratios")
    return [names[ratio] for ratio in ratios[:depth]]


def _full_attn_layers(words: Words, depth: int | None) -> list[str]:
    """Kimi Linear: the list counts layers from 1; default full at every fourth layer after the first."""
    full = pick(words, "linear_attn_config.full_attn_layers")
    indices = (
        layer_numbers(full, "full_attn_layers", depth or 0, first=1)
        if full is not None
        else {i for i in range(1, depth or 0) if i % 4 == 0}
    )
    return [FULL if i in indices else LINEAR for i in range(depth or 0)]


def _nemotron_h(words: Words, depth: int | None) -> list[str]:
    """hybrid_override_pattern: M Mamba, * attention, - MLP, E experts; the class's own default has four layers."""
    names = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe", "|": ""}
    pattern = words.get("hybrid_override_pattern")
    if pattern is None:
        return [LINEAR, "moe", FULL, "moe"]
    if not isinstance(pattern, str) or set(pattern) - set(names) or not set(pattern) - {"|"}:
        raise ConfigError(
            f"hybrid_override_pattern is {shown(pattern)}; it may hold only M, *, - and E", field="hybrid_override_pattern"
        )
    return [names[letter] for letter in pattern if names[letter]]


def _zamba(words: Words, depth: int | None) -> list[str]:
    period, offset = words.number("attn_layer_period"), words.number("attn_layer_offset", minimum=0)
    if offset >= period:
        raise ConfigError(f"attn_layer_offset is {offset} of a period of {period}", field="attn_layer_offset")
    tail = ["hybrid" if j % period == offset else LINEAR for j in range(max(0, (depth or 0) - 3))]
    return [LINEAR, LINEAR, "hybrid", *tail][:depth]


def _zamba2(words: Words, depth: int | None) -> list[str]:
    hybrids = {*range(6, 43, 6), 47, 51}
    return ["hybrid" if i in hybrids else LINEAR for i in range(depth or 0)]


def _olmo_hybrid(words: Words, depth: int | None) -> list[str]:
    found = [FULL if i % 4 == 3 else LINEAR for i in range(depth or 0)]
    return found if FULL in found else [*found[:-1], FULL]


def _attn_layers(words: Words, depth: int | None) -> list[str]:
    kinds = words.numbers("attn_layers") or []
    if not kinds or not all(kind in ("local", "lsh") for kind in kinds):
        raise ConfigError(f"attn_layers is {shown(kinds)}; it may name local and lsh layers", field="attn_layers")
    return kinds


def _attn_type_list(words: Words, depth: int | None) -> list[str]:
    kinds = words.flags("attn_type_list", depth or 0)
    if kinds is None:
        raise ConfigError(f"attn_type_list must say 0 or 1 for each of {depth} layers", field="attn_type_list")
    return [FULL if kind else LINEAR for kind in kinds]


def _inkling(words: Words, depth: int | None) -> list[str]:
    """Every sixth layer attends to everything, unless local_layer_ids lists those that do not."""
    local = words.indices("local_layer_ids", depth or 0)
    slides = [i in local if local is not None else (i + 1) % 6 != 0 for i in range(depth or 0)]
    return ["hybrid_sliding" if slide else "hybrid" for slide in slides]


CODE: dict[str, Callable[[Words, int | None], list[str]]] = {
    "cohere2_moe": _cohere2_moe,
    "sparse_attention_freq": _sparse_attention_freq,
    "compress_ratios": _compress_ratios,
    "full_attn_layers": _full_attn_layers,
    "nemotron_h": _nemotron_h,
    "zamba": _zamba,
    "zamba2": _zamba2,
    "olmo_hybrid": _olmo_hybrid,
    "attn_layers": _attn_layers,
    "attn_type_list": _attn_type_list,
    "inkling": _inkling,
}
