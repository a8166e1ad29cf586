"""How do layers, caches and states make up the whole, and is it what real generation keeps? Laws for any model that could be.

What a law claims is written down in its docstring, and no expected value comes from the code under test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from planner import architecture_bytes
from planner.layers import Full, Latent
from tests.random_configs import (
    ANY,
    KV_DTYPES,
    LAWS,
    REQUESTS,
    TOKENS,
    Config,
    encoder_decoder,
    hybrid,
    multi_head,
    patterned,
    read,
    run,
    shared_tail,
    total,
)


@LAWS
@given(multi_head(), TOKENS, REQUESTS)
def test_multi_query_twin_is_one_part_in_heads(config: Config, tokens: int, requests: int) -> None:
    """The MQA twin of a model with H cached heads takes 1/H of it, and the twin with H heads is the model itself."""
    model = read(config)
    heads = next(c.kv_heads for layer in model.layers for c in layer.caches if isinstance(c, Full))
    assert heads * total(model.with_kv_heads(1), tokens, requests) == total(model, tokens, requests)
    assert model.with_kv_heads(heads).layers == model.layers


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
