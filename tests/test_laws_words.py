"""Which words change nothing in any model, and which words, counts and formats are always refused by name?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import InputError, UnsupportedArchitecture, architecture_bytes
from tests.random_configs import ANY, LAWS, TOKENS, TRANSFORMERS, Config, read

IRRELEVANT = {
    "vocab_size": 5, "intermediate_size": 11, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    "bos_token_id": 1, "initializer_range": 0.02, "attention_dropout": 0.1, "transformers_version": "4.0", "use_cache": False,
    "num_experts_per_tok": 2, "_name_or_path": "a/b", "max_position_embeddings": 77, "rope_scaling": {"type": "linear"},
}  # fmt: skip


@LAWS
@given(ANY, st.sets(st.sampled_from(sorted(IRRELEVANT)), min_size=1), TOKENS)
def test_irrelevant_words_change_nothing(config: Config, words: set[str], tokens: int) -> None:
    """Vocabulary, experts, rope and norms of any value leave the layers as they are."""
    with_words = {**config, **{word: IRRELEVANT[word] for word in words}}
    assert read(with_words).layers == read(config).layers


UNREAD = {
    "num_kv_heads_of_tomorrow": 3, "kv_compression": 2, "indexer_of_tomorrow": 64, "brandnew_sliding_span": 128,
    "ssm_of_tomorrow": {"size": 16}, "mamba_of_tomorrow": 16, "sparse_of_tomorrow": [1, 2], "tomorrow_lora_rank": 512,
}  # fmt: skip


@LAWS
@given(ANY, st.sampled_from(sorted(UNREAD)))
def test_an_unread_word_that_looks_relevant_is_refused(config: Config, word: str) -> None:
    """A word of the shape that decides caches, which no rule reads, is refused by name in every family."""
    with pytest.raises(UnsupportedArchitecture) as caught:
        read({**config, word: UNREAD[word]})
    assert word in caught.value.keys
    assert word in str(caught.value)


WRONG_COUNTS = [-1, True, 1.0, "5", None, [5], float("nan"), 10**13]


@pytest.mark.parametrize("value", WRONG_COUNTS, ids=repr)
@pytest.mark.parametrize("name", ["tokens", "requests", "encoder_tokens", "prompt_tokens"])
@pytest.mark.parametrize("model_type", ["llama", "unlimited_ocr"])
def test_a_count_that_is_none(model_type: str, name: str, value: Any) -> None:
    """A count that is negative, no whole number, or beyond any real question is an InputError that names it."""
    if name == "prompt_tokens" and value is None:
        return
    model = read({"model_type": model_type, "num_hidden_layers": 1})
    with pytest.raises(InputError) as architecture:
        architecture_bytes(model, **{"tokens": 5, name: value})
    with pytest.raises(InputError) as transformers:
        TRANSFORMERS.cache_bytes(model, None, **{"tokens": 5, name: value})
    assert name in str(architecture.value)
    assert name in str(transformers.value)


def test_requests_of_none() -> None:
    """No request at all is not a question about bytes."""
    with pytest.raises(InputError, match="requests"):
        architecture_bytes(read({"model_type": "llama"}), 5, 0)


@pytest.mark.parametrize("name", ["", "x", "fp4", "bfloat", "8", 5, True, ["fp8"], {}], ids=repr)
def test_a_kv_dtype_that_is_none(name: Any) -> None:
    """A storage format that is not known is an InputError that lists those that are."""
    with pytest.raises(InputError, match="bfloat16"):
        architecture_bytes(read({"model_type": "llama"}), 5, kv_cache_dtype=name)
