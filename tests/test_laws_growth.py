"""How do the bytes grow with the tokens, the requests and the model's size? Laws for any model that could be.

What a law claims is written down in its docstring, and no expected value comes from the code under test.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from planner import architecture_bytes
from planner.layers import Compressed
from tests.random_configs import (
    ALL_FULL,
    ANY,
    KV_DTYPES,
    LAWS,
    REQUESTS,
    TOKENS,
    WITHOUT_COMPRESSED,
    Config,
    compressed,
    latent,
    patterned,
    plain,
    read,
    recurrent,
    run,
    sliding,
    total,
)


@LAWS
@given(WITHOUT_COMPRESSED, TOKENS, st.integers(0, 500), KV_DTYPES)
def test_more_tokens_never_take_less(config: Config, tokens: int, more: int, kv_dtype: str | None) -> None:
    """Each cache of each layer takes at least as much for a longer request, in any storage format, dynamic and static."""
    model = read(config)
    few = architecture_bytes(model, tokens, kv_cache_dtype=kv_dtype, encoder_tokens=5)
    many = architecture_bytes(model, tokens + more, kv_cache_dtype=kv_dtype, encoder_tokens=5)
    for implementation in (None, "dynamic", "static"):
        if implementation:
            few = run(model, tokens, encoder=5, cache_implementation=implementation)
            many = run(model, tokens + more, encoder=5, cache_implementation=implementation)
        for a, b in zip(few.layers, many.layers, strict=True):
            assert all(
                x.bytes <= y.bytes and x.storage_bytes <= y.storage_bytes for x, y in zip(a.parts, b.parts, strict=True)
            )


@LAWS
@given(compressed(), TOKENS, st.integers(1, 20))
def test_compressed_caches_grow_block_by_block(config: Config, tokens: int, blocks: int) -> None:
    """DeepSeek-V4's buffers empty when a block is full, so it may fall within a block, but never from block to block."""
    model = read(config)
    assert total(model, tokens) <= total(model, tokens + 128 * blocks)
    if any(isinstance(c, Compressed) for layer in model.layers for c in layer.caches):
        assert total(model, tokens) < total(model, tokens + 128 * blocks)


@LAWS
@given(ANY, TOKENS, REQUESTS, st.sampled_from([None, "float32", "fp8"]))
def test_linear_in_requests(config: Config, tokens: int, requests: int, kv_dtype: str | None) -> None:
    """n equal requests take n times what one takes, in every layer."""
    model = read(config)
    one = architecture_bytes(model, tokens, 1, kv_cache_dtype=kv_dtype, encoder_tokens=3)
    many = architecture_bytes(model, tokens, requests, kv_cache_dtype=kv_dtype, encoder_tokens=3)
    assert [layer.bytes for layer in many.layers] == [requests * layer.bytes for layer in one.layers]
    assert many.bytes_per_request == one.total_bytes


@LAWS
@given(ALL_FULL, TOKENS)
def test_doubling_the_context_doubles_an_all_full_model(config: Config, tokens: int) -> None:
    """Where every layer keeps every position, twice the context is exactly twice the bytes, and none is none."""
    model = read(config)
    assert total(model, 2 * tokens) == 2 * total(model, tokens)
    assert total(model, 0) == 0


@LAWS
@given(plain(), TOKENS, REQUESTS)
def test_plain_attention_is_the_textbook_formula(config: Config, tokens: int, requests: int) -> None:
    """2 x layers x KV heads x head width x tokens x requests x bytes an element.

    Source: arXiv 2305.13245 (grouped-query attention) keeps keys and values of every KV head.
    """
    size = {"float32": 4, "float16": 2, "bfloat16": 2}[config["torch_dtype"]]
    rate = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * size
    assert total(read(config), tokens, requests) == rate * tokens * requests


@LAWS
@given(sliding(), st.integers(0, 4000))
def test_a_window_stops_growing(config: Config, tokens: int) -> None:
    """An all-sliding model takes W - 1 positions however long the request, and the plain formula's bytes before that.

    Source: transformers 5.24's sliding layer keeps W - 1 positions between steps, a static buffer W.
    """
    model, window = read(config), config["sliding_window"]
    size = {"float32": 4, "float16": 2, "bfloat16": 2}[config["torch_dtype"]]
    rate = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * size
    assert total(model, tokens) == rate * min(tokens, window - 1)
    assert run(model, tokens, cache_implementation="static").total_bytes == rate * min(tokens, window)
    assert run(model, tokens).storage_bytes == rate * min(tokens, window)


@LAWS
@given(recurrent(), TOKENS, TOKENS)
def test_state_models_do_not_grow(config: Config, tokens: int, other: int) -> None:
    """A purely recurrent model takes the same for any length, also none, dynamic and static, and it is not nothing."""
    model = read(config)
    assert total(model, tokens) == total(model, other) == total(model, 0) > 0
    assert run(model, tokens, cache_implementation="static").total_bytes == total(model, 0)


@LAWS
@given(st.one_of(plain(), sliding(), patterned(), latent()), TOKENS, st.sampled_from(["num_hidden_layers", "widths"]))
def test_a_bigger_model_takes_more(config: Config, tokens: int, what: str) -> None:
    """Twice as many layers, or everything twice as wide, takes twice as much (a pattern of layers: never less)."""
    assume("layer_types" not in config)
    names = ("head_dim", "hidden_size", "kv_lora_rank", "qk_rope_head_dim") if what == "widths" else (what,)
    bigger = {**config, **{name: 2 * config[name] for name in names if name in config}}
    one, two = total(read(config), tokens), total(read(bigger), tokens)
    pattern = "sliding_window" in config and len({layer.kind for layer in read(bigger).layers}) > 1
    assert two >= one if pattern and what == "num_hidden_layers" else two == 2 * one
