"""One word for how keys and values are stored, and what each engine calls it: so that a choice moves from engine to engine."""

from __future__ import annotations

from typing import Any

from ui.engine_fields import ARCHITECTURE

#: The architecture's word: the settings that mean it, by engine. An engine that lacks a word has no such cache.
_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "transformers": {
        **{wide: {"dtype": wide} for wide in ("bfloat16", "float16", "float32")},
        "fp8": {"cache_implementation": "quantized", "backend": "fp8"},
        "int8": {"cache_implementation": "quantized", "backend": "hqq", "nbits": 8},
        "int4": {"cache_implementation": "quantized", "backend": "quanto", "nbits": 4},
        "int2": {"cache_implementation": "quantized", "backend": "quanto", "nbits": 2},
    },
    "vllm": {word: {"kv_cache_dtype": word} for word in ("bfloat16", "float16", "fp8")}
    | {f"int{bits}": {"kv_cache_dtype": f"int{bits}_per_token_head"} for bits in (8, 4)},
    "sglang": {word: {"kv_cache_dtype": word} for word in ("bfloat16", "float16", "float32")}
    | {"fp8": {"kv_cache_dtype": "fp8_e4m3"}},
    "tensorrt-llm": {word: {"kv_cache_dtype": word} for word in ("bfloat16", "float16", "float32", "fp8", "int8")},
    # Its pool is 16 bits wide whichever of the two the model runs in.
    "tgi": {"bfloat16": {"dtype": "bfloat16"}, "float16": {"dtype": "float16"}, "fp8": {"kv_cache_dtype": "fp8_e4m3fn"}},
    "llama.cpp": {
        word: {"cache_type_k": own, "cache_type_v": own}
        for word, own in (
            ("bfloat16", "bf16"), ("float16", "f16"), ("float32", "f32"), ("int8", "q8_0"), ("int4", "q4_0"),
        )
    },
}  # fmt: skip
_SETTINGS["ollama"] = _SETTINGS["llama.cpp"]
#: Other words for much the same, where an engine has several.
_ALIKE = {
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_e4m3fn": "fp8", "fp8_per_token_head": "fp8", "int8_per_token_head": "int8",
    "int4_per_token_head": "int4", "bf16": "bfloat16",
}  # fmt: skip


def settings_for(option: str, word: str) -> dict[str, Any] | None:
    """The settings with which an engine stores keys and values as `word`; None where it cannot."""
    if word == "auto" or option == ARCHITECTURE:
        return {}
    return _SETTINGS[option].get(word)


def word_of(option: str, values: dict[str, Any]) -> str | None:
    """The architecture's word for what these settings store keys and values as; None where it has none."""
    # f16 is what llama.cpp takes where nothing is said, so it is no choice that another engine should be given.
    told = [values.get(name) for name in ("kv_cache_dtype", "cache_type_k") if values.get(name) not in (None, "auto", "f16")]
    if option == "transformers":
        given = {name: value for name, value in values.items() if name in ("dtype", "cache_implementation", "backend", "nbits")}
        for word, settings in _SETTINGS[option].items():
            if settings.items() <= given.items():
                return word
        return "auto"
    if not told:
        return "auto"
    for word, settings in _SETTINGS[option].items():
        if told[0] in settings.values():
            return word
    return _ALIKE.get(str(told[0]))
