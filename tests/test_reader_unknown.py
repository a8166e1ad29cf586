"""What becomes of a config that the reader has no rule for: an unknown architecture, or a known one with a stray word?

It is refused by name, or read by the person's own assumption and labelled so; nothing is guessed in silence.
"""

from __future__ import annotations

from typing import Any

import pytest

from planner import ConfigError, PlannerError, UnsupportedArchitecture
from tests.configs import LLAMA, attempt, layer_in_words, named, read, refusal


def test_unknown_architecture_names_the_keys_that_matter() -> None:
    """An unknown model_type is refused with its name and the cache-relevant keys of the file, and only those."""
    error = refusal({**LLAMA, "model_type": "brandnew", "kv_lora_rank": 512, "sliding_window": 7, "vocab_size": 9})
    assert isinstance(error, UnsupportedArchitecture)
    assert error.model_type == "brandnew"
    assert {"kv_lora_rank", "sliding_window"} <= set(error.keys)
    assert "vocab_size" not in error.keys
    assert "brandnew" in str(error)
    assert "kv_lora_rank" in str(error)
    assert "sliding_window" in str(error)


def test_assume_plain_attention_labels_the_result() -> None:
    """The person's own choice gives full attention in every layer, and says so in `assumption`; known models have none."""
    model = read({**LLAMA, "model_type": "brandnew"}, assume_plain_attention=True)
    assert [layer_in_words(layer) for layer in model.layers] == ["full 2 x 8"] * 4
    assert model.assumption is not None
    assert "plain attention" in model.assumption
    assert "brandnew" in model.assumption
    assert read(LLAMA, assume_plain_attention=True).assumption is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"head_dim": 2, "v_head_dim": 300}, "full 2 x 300"),
        ({"head_dim": 48}, "full 2 x 48"),
        ({"num_key_value_heads": None}, "full 8 x 8"),
        ({"hidden_size": 60}, "full 2 x 8"),
        ({"sliding_window": 16}, "full 2 x 8"),
    ],
)
def test_assume_plain_attention_takes_the_larger_reading(words: dict[str, Any], expected: str) -> None:
    """Where an unknown config leaves a width open, the assumption rounds up: a number that is too low is the worst."""
    model = read({**LLAMA, "model_type": "brandnew", **words}, assume_plain_attention=True)
    assert {layer_in_words(layer) for layer in model.layers} == {expected}


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads"])
def test_assume_plain_attention_still_needs_the_sizes(key: str) -> None:
    """Without depth or heads there is nothing to assume: a ConfigError that names the missing word."""
    config = {name: value for name, value in LLAMA.items() if name != key}
    error = refusal({**config, "model_type": "brandnew"}, assume_plain_attention=True)
    assert isinstance(error, ConfigError)
    assert key in named(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512), ("num_kv_shared_layers", 2), ("index_head_dim", 128), ("cross_attention_layers", [1]),
        ("ssm_state_size", 16), ("mamba_d_state", 16), ("linear_attn_config", {"full_attn_layers": [1]}),
        ("sparse_attention_config", {"sparse_attention_freq": [0, 1, 1, 1]}), ("attn_layer_period", 8), ("multi_query", True),
        ("hybrid_override_pattern", "M*M*"), ("compress_ratios", [4, 4, 4, 4]), ("kv_sharing_modes", ["own", "reuse"]),
        ("swa_head_dim", 64), ("global_head_dim", 512), ("num_global_key_value_heads", 4), ("swa_num_key_value_heads", 4),
        ("block_configs", [{"attention": {"no_op": True}}] * 4),
    ],
)  # fmt: skip
def test_stray_word_is_refused_by_name(key: str, value: Any) -> None:
    """A word that decides another family's cache, in a plain llama config, is refused by name and never passed over."""
    error = refusal({**LLAMA, key: value})
    assert isinstance(error, UnsupportedArchitecture)
    assert key in str(error)
    assert key in error.keys


@pytest.mark.parametrize("key", ["vocab_size", "rope_theta", "num_experts", "tie_word_embeddings", "_name_or_path"])
def test_word_without_effect_changes_nothing(key: str) -> None:
    """Vocabulary, rope, experts and names never touch the cache."""
    assert read({**LLAMA, key: 7}).layers == read(LLAMA).layers


@pytest.mark.parametrize("word", ["brandnew_attention", "Full_Attention", "", "linear_attention", "mlp", "moe", "recurrent"])
def test_unknown_layer_word_is_refused_by_name(word: str) -> None:
    """A layer word that the family does not have is refused by name; above all not read as a layer without a cache."""
    error = refusal({**LLAMA, "layer_types": ["full_attention", "full_attention", "full_attention", word]})
    assert isinstance(error, UnsupportedArchitecture | ConfigError)
    assert (word or "layer_types") in named(error)


def test_two_model_types_in_one_file() -> None:
    """A llama file around a part of another known type is a contradiction, or is read by the part's own type."""
    inner = {"model_type": "deepseek_v2", "num_hidden_layers": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    found = attempt({"model_type": "llama", "text_config": inner})
    if isinstance(found, PlannerError):
        assert any(word in named(found) for word in ("model_type", "text_config", "kv_lora_rank"))
    else:
        assert [layer_in_words(layer) for layer in found.layers] == ["latent 512 + 64"] * 2
