"""The transformers engine's rules that a measured row alone does not show: settings, refusals, storage, worst cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import model_configs
import planner
from planner import EngineRefusal, InputError
from planner.cache import architecture_bytes
from planner.engines import transformers
from planner.layers import Hidden, Layer

LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512}
SLIDING = {**LLAMA, "model_type": "mistral", "sliding_window": 16}


def total(config: dict[str, Any], tokens: int, prompt_tokens: int | None = None, requests: int = 1, **settings: Any) -> int:
    model = model_configs.read({**config, "torch_dtype": "bfloat16"})
    cache = transformers.cache_bytes(model, transformers.Settings(**settings), tokens, requests, prompt_tokens=prompt_tokens)
    return cache.total_bytes


def test_the_engine_is_found_by_name() -> None:
    assert planner.engine("transformers").name == "transformers"
    with pytest.raises(InputError, match="transformers"):
        planner.engine("no-such-engine")


def test_a_window_keeps_one_less_and_a_static_window_all() -> None:
    """W = 16: 15 positions between steps, 16 in a static buffer. A row is 2 layers x 2 heads x 2 x 64 x 2 bytes."""
    row = 2 * 2 * 2 * 64 * 2
    assert total(SLIDING, 10) == 10 * row
    assert total(SLIDING, 100) == 15 * row
    assert total(SLIDING, 100, cache_implementation="static") == 16 * row


def test_storage_behind_a_window() -> None:
    """W rows stay alive while decoding, the whole prompt right after the prefill (transformers 5.24, measured)."""
    model = model_configs.read({**SLIDING, "torch_dtype": "bfloat16"})
    row = 2 * 2 * 2 * 64 * 2
    decoding = transformers.cache_bytes(model, tokens=100, prompt_tokens=50)
    prefilled = transformers.cache_bytes(model, tokens=100, prompt_tokens=100)
    assert (decoding.total_bytes, decoding.storage_bytes) == (15 * row, 16 * row)
    assert (prefilled.total_bytes, prefilled.storage_bytes) == (15 * row, 100 * row)


def test_max_cache_len_raises_a_static_cache_only() -> None:
    assert total(LLAMA, 10, cache_implementation="static", max_cache_len=64) == total(LLAMA, 64)
    assert total(LLAMA, 10, max_cache_len=64) == total(LLAMA, 10)


def test_offloaded_says_where_the_bytes_are() -> None:
    model = model_configs.read({**LLAMA, "torch_dtype": "bfloat16"})
    cache = transformers.cache_bytes(model, transformers.Settings(cache_implementation="offloaded"), tokens=10)
    assert cache.total_bytes == total(LLAMA, 10)
    assert "host memory" in cache.warnings[0]


def test_quantized_cache_follows_the_split_of_prompt_and_new_tokens() -> None:
    """30 prompt + 10 decoded tokens, residual 8: 2 positions in full precision, 38 in groups of 16 at 4 bits.

    K or V of a layer: 38 x 128 elements = 304 groups; 304 x 4 / 8 x 16 + 2 x 304 x 2 bytes, and 2 x 128 x 2 bytes.
    """
    side = 304 * 4 // 8 * 16 + 2 * 304 * 2 + 2 * 128 * 2
    settings = {"cache_implementation": "quantized", "nbits": 4, "q_group_size": 16, "residual_length": 8}
    assert total(LLAMA, 40, 30, **settings) == 2 * 2 * side


def test_an_unknown_prompt_counts_the_largest_residual() -> None:
    """Never less than any prompt length gives."""
    settings = {"cache_implementation": "quantized", "q_group_size": 16, "residual_length": 8}
    worst = total(LLAMA, 40, **settings)
    assert worst == max(total(LLAMA, 40, prompt, **settings) for prompt in range(1, 41))


@pytest.mark.parametrize(
    ("config", "settings", "says"),
    [
        (SLIDING, {"cache_implementation": "quantized"}, "sliding"),
        ({**LLAMA, "model_type": "mamba", "state_size": 16}, {"cache_implementation": "quantized"}, "state"),
        (LLAMA, {"cache_implementation": "quantized", "q_group_size": 100}, "q_group_size=100"),
        ({"model_type": "xlm"}, {"cache_implementation": "static"}, "mask token"),
        ({"model_type": "deepseek_v4"}, {"cache_implementation": "static"}, "no static layer"),
    ],
)
def test_what_transformers_does_not_run_is_refused_with_the_reason(
    config: dict[str, Any], settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(EngineRefusal, match=says):
        total(config, 40, 30, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"cache_implementation": "hybrid"},
        {"nbits": 5},
        {"dtype": "int8"},
        {"max_cache_len": 0},
        {"max_cache_len": "64"},
        {"page": 1},
    ],
)
def test_bad_settings_name_the_field(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        transformers.Settings(**settings)


@pytest.mark.parametrize(("tokens", "requests"), [(-1, 1), (10, 0), (1.5, 1), ("10", 1), (True, 1), (10**13, 1)])
def test_counts_are_whole_numbers(tokens: Any, requests: Any) -> None:
    model = model_configs.read(LLAMA)
    with pytest.raises(InputError):
        transformers.cache_bytes(model, None, tokens, requests)


def test_a_cache_of_its_own_ignores_the_implementation() -> None:
    model = model_configs.read({"model_type": "minimax", "num_hidden_layers": 2, "torch_dtype": "bfloat16"})
    plain = transformers.cache_bytes(model, tokens=10)
    static = transformers.cache_bytes(model, transformers.Settings(cache_implementation="static"), tokens=10)
    assert static.total_bytes == plain.total_bytes
    assert "own" in static.warnings[0]


def test_launch_command_names_the_cache() -> None:
    model = model_configs.read(LLAMA)
    text = transformers.launch_command(model, transformers.Settings(cache_implementation="static"))
    assert 'cache_implementation="static"' in text


def test_bucket_ids_are_wide_where_the_prompt_was_hashed() -> None:
    """A real reformer of 4 layers, 2 of them LSH, kept 227,200 bytes after a prompt of 70 and 2 new tokens.

    4 x 71 x 192 x 4 B = 218,112, and 2 layers x 8 ids a position x 71 x 8 B = 9,088. With a prompt of 50 the ids have 4 bytes.
    """
    local, lsh = Hidden(192), Hidden(192, bucket_ids=8, bucket_from=64)
    plain = model_configs.read({"model_type": "llama", "num_hidden_layers": 4, "torch_dtype": "float32"})
    model = replace(plain, layers=tuple(Layer((cache,)) for cache in (local, lsh, local, lsh)), engine_layers={})
    assert architecture_bytes(model, 71, prompt_tokens=70).total_bytes == 227_200
    assert architecture_bytes(model, 71, prompt_tokens=50).total_bytes == 227_200 - 2 * 8 * 71 * 4
    assert architecture_bytes(model, 71).total_bytes == 227_200
