"""Laws that the arithmetic obeys for any model: random but valid configs of many families, in any dtype, at any length.

The configs are made up; each is one that its family could have. What a law claims is written down in its docstring, and
no expected value comes from the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import model_configs
from planner import EngineRefusal, InputError, Model, UnsupportedArchitecture, architecture_bytes, engine
from planner.layers import Compressed, Full, Latent

settings.register_profile(
    "laws", derandomize=True, database=None, deadline=None, max_examples=80, suppress_health_check=list(HealthCheck)
)
LAWS = settings.get_profile("laws")
TRANSFORMERS = engine("transformers")

Config = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

WIDTHS = st.sampled_from([8, 16, 64, 80, 128, 192, 256])
DEPTHS = st.integers(1, 12)
WINDOWS = st.integers(1, 700)
TOKENS = st.integers(0, 3000)
REQUESTS = st.integers(1, 9)
DTYPES = st.sampled_from(["bfloat16", "float16", "float32"])


def attention(draw: Draw) -> Config:
    """Depth, heads and widths that fit each other: KV heads divide heads, and hidden is heads x width."""
    kv_heads = draw(st.sampled_from([1, 2, 4, 8]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 4, 7]))
    width = draw(WIDTHS)
    return {
        "num_hidden_layers": draw(DEPTHS), "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": width,
        "hidden_size": heads * width, "torch_dtype": draw(DTYPES),
    }  # fmt: skip


@st.composite
def plain(draw: Draw) -> Config:
    model_type = draw(st.sampled_from(["llama", "qwen3", "gemma", "glm4_moe", "granite", "olmo2", "mixtral", "phi"]))
    return {"model_type": model_type, **attention(draw)}


@st.composite
def multi_head(draw: Draw) -> Config:
    """All query heads cached, in the words of GPT-2, Falcon, MPT, Bloom and OPT."""
    heads, width, depth = draw(st.integers(1, 12)), draw(WIDTHS), draw(DEPTHS)
    sizes = {"num_hidden_layers": depth, "num_attention_heads": heads, "hidden_size": heads * width}
    return {
        "torch_dtype": draw(DTYPES),
        **draw(st.sampled_from([
            {"model_type": "gpt2", "n_layer": depth, "n_head": heads, "n_embd": heads * width},
            {"model_type": "mpt", "n_layers": depth, "n_heads": heads, "d_model": heads * width},
            {"model_type": "bloom", "n_layer": depth, "n_head": heads, "n_embed": heads * width},
            {"model_type": "opt", **sizes},
            {"model_type": "falcon", "multi_query": False, **sizes},
        ])),
    }  # fmt: skip


@st.composite
def sliding(draw: Draw) -> Config:
    """Every layer slides."""
    model_type = draw(st.sampled_from(["mistral", "phi3", "starcoder2", "mixtral", "llama"]))
    return {"model_type": model_type, **attention(draw), "sliding_window": draw(WINDOWS)}


@st.composite
def patterned(draw: Draw) -> Config:
    """Some layers slide and some are full, by the class's own pattern or by a list of layer words."""
    model_type = draw(
        st.sampled_from(["gemma2", "gemma3_text", "gpt_oss", "olmo3", "cwm", "flint", "exaone4", "afmoe"])
    )
    config = {"model_type": model_type, **attention(draw), "sliding_window": draw(WINDOWS)}
    if draw(st.booleans()):
        words = st.sampled_from(["full_attention", "sliding_attention"])
        depth = config["num_hidden_layers"]
        config["layer_types"] = draw(st.lists(words, min_size=depth, max_size=depth))
    return config


@st.composite
def chunked(draw: Draw) -> Config:
    config = {"model_type": "llama4_text", **attention(draw), "attention_chunk_size": draw(WINDOWS)}
    depth = config["num_hidden_layers"]
    return {**config, "no_rope_layers": draw(st.lists(st.integers(0, 1), min_size=depth, max_size=depth))}


@st.composite
def unequal_widths(draw: Draw) -> Config:
    config = attention(draw)
    kv_heads, width = config["num_key_value_heads"], config["head_dim"]
    return {
        "model_type": "mimo_v2_flash", **config, "num_attention_heads": 4 * kv_heads, "hidden_size": 4 * kv_heads * width,
        "v_head_dim": draw(WIDTHS), "sliding_window_size": draw(WINDOWS),
    }  # fmt: skip


@st.composite
def latent(draw: Draw) -> Config:
    model_type = draw(st.sampled_from(["deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite", "kimi_k2"]))
    return {"model_type": model_type, **attention(draw), "kv_lora_rank": draw(WIDTHS), "qk_rope_head_dim": draw(WIDTHS)}


@st.composite
def indexed(draw: Draw) -> Config:
    model_type = draw(st.sampled_from(["deepseek_v32", "glm_moe_dsa", "hy_v4"]))
    return {
        "model_type": model_type, **attention(draw), "kv_lora_rank": draw(WIDTHS), "qk_rope_head_dim": draw(WIDTHS),
        "index_head_dim": draw(WIDTHS),
    }  # fmt: skip


@st.composite
def compressed(draw: Draw) -> Config:
    config = {
        "model_type": "deepseek_v4",
        **attention(draw),
        "sliding_window": draw(WINDOWS),
        "index_head_dim": draw(WIDTHS),
    }
    depth = config["num_hidden_layers"]
    return {**config, "compress_ratios": draw(st.lists(st.sampled_from([0, 4, 128]), min_size=depth, max_size=depth))}


@st.composite
def recurrent(draw: Draw) -> Config:
    """State in every layer, nothing that grows."""
    depth, hidden = draw(DEPTHS), draw(st.sampled_from([64, 128, 256]))
    return {
        "torch_dtype": draw(DTYPES), "num_hidden_layers": depth, "hidden_size": hidden,
        **draw(st.sampled_from([
            {"model_type": "mamba", "state_size": 16, "expand": 2, "conv_kernel": 4, "intermediate_size": 2 * hidden},
            {"model_type": "falcon_mamba", "state_size": 8, "expand": 2, "conv_kernel": 3, "intermediate_size": 2 * hidden},
            {"model_type": "mamba2", "num_heads": 4, "head_dim": hidden // 2, "n_groups": 1, "state_size": 32, "expand": 2},
            {"model_type": "rwkv"},
        ])),
    }  # fmt: skip


@st.composite
def hybrid(draw: Draw) -> Config:
    """Attention in some layers, states in the others, or both in one."""
    config = attention(draw)
    return {
        **config, "num_hidden_layers": draw(st.integers(4, 12)),
        **draw(st.sampled_from([
            {"model_type": "jamba", "attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4},
            {"model_type": "qwen3_next", "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
             "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "full_attention_interval": 2},
            {"model_type": "lfm2", "conv_L_cache": 3, "full_attn_idxs": [0]},
            {"model_type": "falcon_h1", "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16},
            {"model_type": "minimax"},
            {"model_type": "kimi_linear", "kv_lora_rank": 64, "qk_rope_head_dim": 16,
             "linear_attn_config": {"full_attn_layers": [1], "num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4}},
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*E", "mamba_num_heads": 4, "mamba_head_dim": 8},
            {"model_type": "lara_mini", "sliding_window": 40},
        ])),
    }  # fmt: skip


@st.composite
def encoder_decoder(draw: Draw) -> Config:
    heads, width, depth = draw(st.integers(1, 12)), draw(WIDTHS), draw(DEPTHS)
    return {
        "torch_dtype": draw(DTYPES),
        **draw(st.sampled_from([
            {"model_type": "whisper", "decoder_layers": depth, "decoder_attention_heads": heads, "d_model": heads * width},
            {"model_type": "bart", "decoder_layers": depth, "decoder_attention_heads": heads, "d_model": heads * width},
            {"model_type": "t5", "num_layers": depth, "num_heads": heads, "d_kv": width},
        ])),
    }  # fmt: skip


@st.composite
def shared_tail(draw: Draw) -> Config:
    """The last layers read an earlier layer's cache (Gemma 3n, Gemma 4); both kinds come before the tail."""
    model_type = draw(st.sampled_from(["gemma3n_text", "gemma4_text"]))
    return {
        "model_type": model_type, **attention(draw), "num_hidden_layers": draw(st.integers(12, 18)),
        "num_kv_shared_layers": draw(st.integers(0, 5)), "sliding_window": draw(WINDOWS),
    }  # fmt: skip


ALL_FULL = st.one_of(plain(), multi_head(), latent(), indexed())
ANY = st.one_of(
    plain(), multi_head(), sliding(), patterned(), chunked(), unequal_widths(), latent(), indexed(), compressed(), recurrent(),
    hybrid(), encoder_decoder(), shared_tail(),
)  # fmt: skip
WITHOUT_COMPRESSED = ANY.filter(lambda config: config["model_type"] != "deepseek_v4")
KV_DTYPES = st.sampled_from([None, "float32", "bfloat16", "fp8", "int8", "int4", "int2"])


def read(config: Config) -> Model:
    return model_configs.read(config)


def total(model: Model, tokens: int, requests: int = 1, **options: Any) -> int:
    return architecture_bytes(model, tokens, requests, **options).total_bytes


def run(
    model: Model, tokens: int, requests: int = 1, encoder: int = 0, prompt: int | None = None, **options: Any
) -> Any:
    """The cache of real generation, or None where transformers refuses."""
    try:
        return TRANSFORMERS.cache_bytes(model, TRANSFORMERS.Settings(**options), tokens, requests, encoder, prompt)
    except EngineRefusal:
        return None


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
@given(multi_head(), TOKENS, REQUESTS)
def test_multi_query_twin_is_one_part_in_heads(config: Config, tokens: int, requests: int) -> None:
    """The MQA twin of a model with H cached heads takes 1/H of it, and the twin with H heads is the model itself."""
    model = read(config)
    heads = next(c.kv_heads for layer in model.layers for c in layer.caches if isinstance(c, Full))
    assert heads * total(model.with_kv_heads(1), tokens, requests) == total(model, tokens, requests)
    assert model.with_kv_heads(heads).layers == model.layers


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
@given(ANY, TOKENS, REQUESTS, KV_DTYPES)
def test_the_parts_sum_to_the_whole(config: Config, tokens: int, requests: int, kv_dtype: str | None) -> None:
    """Layers sum to the total, caches to their layer, and there is one entry for each layer of the model."""
    model = read(config)
    found = architecture_bytes(model, tokens, requests, kv_cache_dtype=kv_dtype, encoder_tokens=2)
    assert found.total_bytes == sum(layer.bytes for layer in found.layers)
    assert all(layer.bytes == sum(part.bytes for part in layer.parts) for layer in found.layers)
    assert [layer.index for layer in found.layers] == list(range(len(model.layers)))
    alone = [total(replace(model, layers=(layer,)), tokens, requests, kv_cache_dtype=kv_dtype, encoder_tokens=2)
             for layer in model.layers]  # fmt: skip
    assert [layer.bytes for layer in found.layers] == alone


@LAWS
@given(ANY, TOKENS, st.randoms(use_true_random=False))
def test_the_order_of_layers_does_not_matter(config: Config, tokens: int, random: Any) -> None:
    """The same layers in another order take the same bytes."""
    model = read(config)
    order = list(range(len(model.layers)))
    random.shuffle(order)
    shuffled = replace(model, layers=tuple(replace(model.layers[i], shares=None) for i in order))
    assert total(shuffled, tokens, encoder_tokens=2) == total(model, tokens, encoder_tokens=2)


@LAWS
@given(patterned(), TOKENS)
def test_the_order_of_layer_words_does_not_matter(config: Config, tokens: int) -> None:
    """A file that lists its layer words backwards takes the same bytes."""
    assume("layer_types" in config)
    backwards = {**config, "layer_types": config["layer_types"][::-1]}
    assert total(read(backwards), tokens) == total(read(config), tokens)


@LAWS
@given(recurrent(), TOKENS, TOKENS)
def test_state_models_do_not_grow(config: Config, tokens: int, other: int) -> None:
    """A purely recurrent model takes the same for any length, also none, dynamic and static, and it is not nothing."""
    model = read(config)
    assert total(model, tokens) == total(model, other) == total(model, 0) > 0
    assert run(model, tokens, cache_implementation="static").total_bytes == total(model, 0)


@LAWS
@given(hybrid(), TOKENS)
def test_a_hybrid_is_its_attention_plus_its_states(config: Config, tokens: int) -> None:
    """What a hybrid takes beyond an empty request is what its attention layers take alone."""
    model = read(config)
    attention_only = tuple(
        replace(layer, caches=tuple(c for c in layer.caches if isinstance(c, Full | Latent))) for layer in model.layers
    )
    assert total(model, tokens) - total(model, 0) == total(replace(model, layers=attention_only), tokens)


@LAWS
@given(ANY, TOKENS, REQUESTS, st.integers(0, 60), st.one_of(st.none(), TOKENS))
def test_the_architecture_is_the_dynamic_cache(
    config: Config, tokens: int, requests: int, encoder: int, prompt: int | None
) -> None:
    """In the model's own dtype the architecture's figure is transformers' dynamic cache, layer by layer.

    Source: the cache tensors of real generation that both are held to elsewhere.
    """
    model = read(config)
    ours = architecture_bytes(model, tokens, requests, encoder_tokens=encoder, prompt_tokens=prompt)
    theirs = run(model, tokens, requests, encoder, prompt)
    assert [layer.bytes for layer in ours.layers] == [layer.bytes for layer in theirs.layers]
    named = architecture_bytes(model, tokens, requests, kv_cache_dtype=config["torch_dtype"], encoder_tokens=encoder)
    assert prompt is not None or named == ours


@LAWS
@given(encoder_decoder(), TOKENS, TOKENS, st.integers(0, 3000))
def test_the_cross_part_is_apart(config: Config, tokens: int, other: int, encoder: int) -> None:
    """Encoder positions add the same whatever the decoder's length, and twice as many add twice as much."""
    model = read(config)
    added = total(model, tokens, encoder_tokens=encoder) - total(model, tokens)
    assert added == total(model, other, encoder_tokens=encoder) - total(model, other)
    assert total(model, 0, encoder_tokens=2 * encoder) == 2 * added
    assert added == total(model, encoder) - total(model, 0), (
        "each decoder layer keeps as much a position of either kind"
    )


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
@given(shared_tail(), TOKENS)
def test_a_shared_layer_takes_nothing(config: Config, tokens: int) -> None:
    """The last num_kv_shared_layers layers take nothing, and each reads an earlier layer of its own kind that keeps a cache."""
    model, shared = read(config), config["num_kv_shared_layers"]
    found = architecture_bytes(model, tokens)
    border = len(model.layers) - shared
    assert sum(layer.bytes for layer in found.layers[border:]) == 0
    assert all(layer.shares is None for layer in model.layers[:border])
    assert all(layer.shares is not None and 0 <= layer.shares < border for layer in model.layers[border:])
    alone = read({**config, "num_kv_shared_layers": 0})
    for i, layer in enumerate(model.layers[border:], border):
        source = layer.shares
        assert source is not None
        assert alone.layers[source].kind == alone.layers[i].kind
    assert total(model, tokens) <= total(alone, tokens)


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


@LAWS
@given(ANY, DTYPES, TOKENS)
def test_a_wider_dtype_never_takes_less(config: Config, dtype: str, tokens: int) -> None:
    """float32 takes at least what a 16-bit dtype takes and at most twice as much; both 16-bit dtypes take the same."""
    model = read(config)
    sizes = {name: run(model, tokens, dtype=name).total_bytes for name in ("float16", "bfloat16", "float32")}
    assert sizes["float16"] == sizes["bfloat16"] <= sizes["float32"] <= 2 * sizes["bfloat16"]
    assert run(read({**config, "torch_dtype": dtype}), tokens).total_bytes == sizes[dtype]


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
