"""What do a dtype, a storage format and a kind of cache make of the bytes? Laws for any model that could be.

What a law claims is written down in its docstring, and no expected value comes from the code under test.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.random_configs import (
    ANY,
    DTYPES,
    KV_DTYPES,
    LAWS,
    REQUESTS,
    TOKENS,
    Config,
    latent,
    patterned,
    plain,
    read,
    recurrent,
    run,
    total,
    unequal_widths,
)


@LAWS
@given(st.one_of(plain(), patterned(), latent(), unequal_widths()), TOKENS, REQUESTS)
def test_fp8_is_half_of_bfloat16(config: Config, tokens: int, requests: int) -> None:
    """Keys and values in fp8 take exactly half of bfloat16, and a quarter of float32."""
    model = read(config)
    sizes = [total(model, tokens, requests, kv_cache_dtype=name) for name in ("fp8", "bfloat16", "float32")]
    assert sizes == [sizes[0], 2 * sizes[0], 4 * sizes[0]]


@LAWS
@given(plain(), st.integers(1, 3000), REQUESTS)
def test_int8_is_half_plus_scales(config: Config, tokens: int, requests: int) -> None:
    """int8 is one byte an element plus 4 bytes for each started group of 64, in keys and in values apart.

    Source: transformers 5.24 QuantizedCache: a 2-byte scale and a 2-byte zero point for a group of 64.
    """
    elements = requests * tokens * config["num_key_value_heads"] * config["head_dim"]
    groups = -(-elements // 64)
    expected = config["num_hidden_layers"] * 2 * (elements + 4 * groups)
    found = total(read(config), tokens, requests, kv_cache_dtype="int8")
    assert found == expected
    assert 2 * found >= total(read(config), tokens, requests, kv_cache_dtype="bfloat16")


@LAWS
@given(recurrent(), KV_DTYPES)
def test_a_storage_format_leaves_states_alone(config: Config, kv_dtype: str | None) -> None:
    """Recurrent states are no keys or values: their bytes do not follow the KV dtype."""
    model = read(config)
    assert total(model, 100, kv_cache_dtype=kv_dtype) == total(model, 100)


@LAWS
@given(ANY, TOKENS, st.integers(0, 4000), REQUESTS)
def test_static_is_never_less_than_dynamic(config: Config, tokens: int, longest: int, requests: int) -> None:
    """A static cache of any max_cache_len takes at least the dynamic cache of as many positions."""
    model = read(config)
    static = run(model, tokens, requests, encoder=4, cache_implementation="static", max_cache_len=max(longest, 1))
    assert static is None or static.total_bytes >= run(model, tokens, requests, encoder=4).total_bytes
    assert (static is None) == (config["model_type"] == "deepseek_v4")


@LAWS
@given(ANY, TOKENS, TOKENS, REQUESTS)
def test_storage_is_never_less_than_what_it_holds(config: Config, tokens: int, prompt: int, requests: int) -> None:
    """The allocations kept alive are at least the live elements, right after the prompt most of all."""
    model = read(config)
    decoding = run(model, tokens, requests, prompt=min(prompt, tokens))
    after_prompt = run(model, tokens, requests, prompt=tokens)
    for found in (decoding, after_prompt):
        assert all(part.storage_bytes >= part.bytes for layer in found.layers for part in layer.parts)
    assert after_prompt.storage_bytes >= decoding.storage_bytes


@LAWS
@given(
    plain(), st.integers(1, 2000), st.integers(0, 300), REQUESTS,
    st.sampled_from([("quanto", 4), ("quanto", 2), ("hqq", 8), ("hqq", 4), ("fp8", 8)]),
)  # fmt: skip
def test_quantized_takes_less(config: Config, prompt: int, new: int, requests: int, how: tuple[str, int]) -> None:
    """A quantized cache of heads of a usual width takes less than the model's own dtype, and not less than its bits."""
    assume(config["head_dim"] % 64 == 0)
    model, (backend, bits) = read(config), how
    tokens = prompt + new
    plain_bytes = run(model, tokens, requests).total_bytes
    quantized = run(
        model, tokens, requests, prompt=prompt, cache_implementation="quantized", backend=backend, nbits=bits
    )
    elements = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * tokens * requests
    assert elements * bits // 8 < quantized.total_bytes < plain_bytes
    unknown = run(model, tokens, requests, cache_implementation="quantized", backend=backend, nbits=bits)
    assert unknown.total_bytes >= quantized.total_bytes or new >= 128, (
        "without a known prompt the larger reading is taken"
    )


@LAWS
@given(ANY, DTYPES, TOKENS)
def test_a_wider_dtype_never_takes_less(config: Config, dtype: str, tokens: int) -> None:
    """float32 takes at least what a 16-bit dtype takes and at most twice as much; both 16-bit dtypes take the same."""
    model = read(config)
    sizes = {name: run(model, tokens, dtype=name).total_bytes for name in ("float16", "bfloat16", "float32")}
    assert sizes["float16"] == sizes["bfloat16"] <= sizes["float32"] <= 2 * sizes["bfloat16"]
    assert run(read({**config, "torch_dtype": dtype}), tokens).total_bytes == sizes[dtype]
