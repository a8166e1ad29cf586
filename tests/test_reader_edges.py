"""What does the reader make of a config at the edge of what may be: empty or misnamed parts, odd sizes, odd types?

It is read as the model's class reads it, or refused by name, but never counted as less.
"""

from __future__ import annotations

from typing import Any

import pytest

import model_configs
from planner import ConfigError, PlannerError, UnsupportedArchitecture, architecture_bytes
from tests.configs import LLAMA, attempt, layer_in_words, named, read, refusal


def test_hidden_size_that_heads_do_not_divide() -> None:
    """hidden_size 65 over 8 heads is refused by name or read as the class reads it (65 // 8); head_dim settles it.

    A quotient of nothing is always refused.
    """
    found = attempt({**LLAMA, "hidden_size": 65})
    if isinstance(found, PlannerError):
        assert "65" in str(found)
        assert "head_dim" in str(found)
    else:
        assert layer_in_words(found.layers[0]) == "full 2 x 8"
    assert isinstance(refusal({**LLAMA, "hidden_size": 7}), ConfigError)
    assert layer_in_words(read({**LLAMA, "hidden_size": 65, "head_dim": 8}).layers[0]) == "full 2 x 8"


def test_window_of_zero_is_no_window() -> None:
    """sliding_window 0 keeps every position: the safe reading, for a window of nothing is not a window."""
    assert read({**LLAMA, "sliding_window": 0}).kinds == {"full": 4}


@pytest.mark.parametrize("kv_heads", [16, 3])
def test_kv_heads_that_do_not_divide_the_heads(kv_heads: int) -> None:
    """More KV heads than heads, or a number that does not divide them, is refused or counted as stated: never fewer."""
    found = attempt({**LLAMA, "num_key_value_heads": kv_heads})
    if isinstance(found, PlannerError):
        assert "num_key_value_heads" in named(found) or f"{kv_heads} KV heads" in str(found)
    else:
        assert layer_in_words(found.layers[0]) == f"full {kv_heads} x 8"


@pytest.mark.parametrize("model_type", [None, 5, ["llama"], {}, True, "", "Llama", "llama ", "brandnew", "../llama"])
def test_model_type_that_is_no_known_word(model_type: Any) -> None:
    """A model_type that is missing, not a string, or unknown is refused; nothing is guessed from the sizes."""
    error = refusal({**LLAMA, "model_type": model_type})
    assert isinstance(error, UnsupportedArchitecture | ConfigError)
    assert "model_type" in named(error)


def test_model_type_missing() -> None:
    """A file without a model_type (a tokenizer's, an adapter's) is refused."""
    for config in ({}, {"vocab_size": 5}, {"peft_type": "LORA", "r": 8}):
        assert "model_type" in named(refusal(config))


@pytest.mark.parametrize("text_config", [None, {}])
def test_empty_part_means_the_class_defaults(text_config: Any) -> None:
    """An absent, null or empty text_config is the decoder class with all its defaults."""
    whole = read({"model_type": "gemma3"}).layers
    assert read({"model_type": "gemma3", "text_config": text_config}).layers == whole
    assert len(whole) == 26


@pytest.mark.parametrize("name", ["language_model", "llm", "decoder_model", "text_model_config"])
def test_a_part_under_a_name_that_no_rule_knows(name: str) -> None:
    """A wrapper whose decoder stands under another name is refused by that name, not read as all class defaults."""
    error = refusal({"model_type": "llava", name: {"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 64}})
    assert name in named(error)


def test_a_part_that_leaves_heads_out_has_its_own_class_defaults() -> None:
    """PaliGemma's one-head default belongs to a missing text_config; a given one has gemma's 16 heads.

    Source: the composite class builds the inner class from the given part, which fills in its own defaults.
    """
    inner = {"model_type": "gemma", "num_hidden_layers": 2, "hidden_size": 2048, "num_attention_heads": 8}
    found = attempt({"model_type": "paligemma", "text_config": inner})
    if isinstance(found, PlannerError):
        assert "num_key_value_heads" in named(found) or "16 KV heads" in str(found)
    else:
        assert layer_in_words(found.layers[0]) == "full 16 x 256"


def test_time_step_limit_may_be_infinite() -> None:
    """Mamba configs are saved with `"time_step_limit": [0.0, Infinity]`, which JSON does not have and files do."""
    text = '{"model_type": "mamba2", "num_hidden_layers": 2, "time_step_limit": [0.0, Infinity]}'
    config = model_configs.parse_config(text, "config.json")
    assert read(config).kinds == {"state": 2}
    assert read({"model_type": "mamba2", "num_hidden_layers": 2, "time_step_limit": "inf"}).kinds == {"state": 2}


def test_non_string_keys_and_endless_numbers() -> None:
    """A dict that no JSON could give, and a number too long to print, still end in a Model or a PlannerError."""
    for odd in (5, None, ("a", "b"), True):
        found = attempt({**LLAMA, odd: 1})
        assert "key" in str(found) if isinstance(found, PlannerError) else found.layers == read(LLAMA).layers
        refusal({odd: 1, "model_type": "brandnew"})
    refusal({**LLAMA, "num_hidden_layers": 10**5000})
    refusal({**LLAMA, "num_hidden_layers": "x" * 10**6})
    refusal({"model_type": "x" * 10**6})
    refusal({**LLAMA, "layer_types": ["x" * 10**6] * 4})
    refusal({**LLAMA, "layer_types": ["x\ny"] * 4})
    refusal({**LLAMA, "torch_dtype": "x" * 10**6})


@pytest.mark.parametrize("value", [[5], [None], "LlamaForCausalLM", {}, 5, [], [["x"]]])
def test_architectures_of_a_wrong_type(value: Any) -> None:
    """`architecture` is a word or nothing, whatever the file holds."""
    found = attempt({**LLAMA, "architectures": value})
    if isinstance(found, PlannerError):
        assert "architectures" in named(found)
    else:
        assert isinstance(found.architecture, str | None)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", 4),
        ("float16", 2),
        ("bfloat16", 2),
        ("torch.bfloat16", 2),
        ("auto", 2),
        ("float8_e4m3fn", 2),
        (None, 2),
    ],
)
def test_dtype_of_the_file_is_the_caches(dtype: str | None, expected: int) -> None:
    """The cache takes the model's dtype; 8-bit weights still mean a 16-bit cache, and no dtype means bfloat16, with a note.

    Source: rules of transformers 5.24: the cache takes the dtype of the activations, not of the weights.
    """
    model = read({**LLAMA, "torch_dtype": dtype})
    assert architecture_bytes(model, 1).total_bytes == 4 * 2 * 2 * 8 * expected
    assert bool(model.notes) == (dtype in (None, "auto", "float8_e4m3fn"))


def test_double_precision_is_not_counted_as_single() -> None:
    """A float64 checkpoint caches 8 bytes an element: refused, or counted so, but never half."""
    found = attempt({**LLAMA, "torch_dtype": "float64"})
    if isinstance(found, PlannerError):
        assert "dtype" in named(found)
    else:
        assert architecture_bytes(found, 1).total_bytes == 4 * 2 * 2 * 8 * 8
